//! process.crypto_bound: a program enciphers what it passes on, and nothing else limits it.
//!
//! The samples tell the file that the code is in: libcrypto and its like name themselves. That it is the limit
//! needs the other half: its threads are on a CPU, or ready for one, nearly all of their time. Short-lived
//! processes of one name (one for each transfer) count together. Blind: ciphers linked into the program itself
//! (Go, rustls) have no file of their own, and are not seen.
//!
//! The same files hold hashes, signatures and key derivation, which no choice of a cipher makes quicker. The functions tell
//! them apart where they have names; a distribution's library names only what it exports, and those that compute are not.
//! Then the bytes do: who enciphers writes about as much as it reads, who hashes writes nearly nothing, and keys are
//! few bytes for much time. A server that speaks TLS spends it on its connections' keys, if each call takes as little as keys
//! do. Rejected for that: the part of the samples that is in the TLS library (0 to 2 of 200 where the keys are long). The rest
//! is work, and said as work in its file.

use crate::facts::{ThreadRef, Work};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::lasting::newest_of;
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use std::collections::{BTreeMap, BTreeSet};

static SHARE_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "of its samples, those in the code of a cryptographic library",
    "chosen: most of it, so that twice the cipher is half as long again",
);
static BUSY_MIN: Threshold = Threshold::new(
    0.8,
    "1",
    "of its threads' time, the part in which they run or are ready to; else something else limits it as well",
    "chosen: four fifths",
);
static CPU_MIN: Threshold = Threshold::new(
    0.5,
    "CPUs",
    "that it uses; below that it has time to spare",
    "chosen: half of one",
);
static SAMPLES_MIN: Threshold = Threshold::new(
    20.0,
    "1",
    "samples in that library; with fewer, their share is a guess",
    "statistics: a quarter off at one standard deviation",
);
static NAMED_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "of the samples in the library, those in functions that name a cipher or a hash; from there the names decide",
    "chosen: most",
);
static PASSED_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "of the bytes read, those written: a cipher's output is as long as its input, a hash has some ten bytes for all of it",
    "measured: openssl enc 1.0, openssl dgst 0.0",
);
static PASSED_RATE_MIN: Threshold = Threshold::new(
    5e6,
    "bytes/s",
    "written for each second of CPU in the library; the slowest cipher in use makes some 20 MB of it, a key derived or a \
     signature some kilobytes",
    "measured by openssl speed on one CPU: des-ede3-cbc 22 MB/s, rsa2048 2,300 signatures/s, which are 0.6 MB/s",
);
static CALL_MAX: Threshold = Threshold::new(
    0.002,
    "s",
    "of CPU in the library for each read and write: a connection's keys are some milliseconds for some ten calls, a password's \
     hash is made slow on purpose, 50 ms and more for a request",
    "measured with keys of RSA 4096: 0.48 ms a call of openssl s_server, 0.55 of nginx",
);
static IDLER_MAX: Threshold = Threshold::new(
    0.1,
    "1",
    "of its life that a thread runs; one that does less is not the one that is limited",
    "chosen: a tenth",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.crypto_bound",
    title: "A program is limited by the ciphers that it computes",
    theory: "Encryption costs CPU per byte: from 0.2 ns with the processor's own instructions to some 10 ns without them. A \
             transfer that fills a CPU with it is as fast as its cipher, whatever network or disk could do. A new TLS \
             connection costs its server a signature, some 0.05 to 1 ms of CPU, however little is sent.",
    needs: &[
        "half or more of its CPU samples are in the code of a cryptographic library",
        "its functions there are a cipher's by name; or, where they have no names, it writes about as much as it reads; or it is \
         a server, it or its client has samples in the TLS library, and a call takes little",
        "its threads run, or are ready to, for four fifths of their time; or it is a server, and a command waits for its work",
    ],
    refuted_by: &[
        Refutation::new(
            "it waits for a disk, a peer or a lock for a noticeable part",
            "one_that_also_waits_is_not_bound_by_it",
        ),
        Refutation::new(
            "most of its time is in other code",
            "one_that_mostly_does_other_things_is_not_bound_by_it",
        ),
        Refutation::new(
            "it hashes: by the functions' names, or it writes nearly nothing of what it reads",
            "who_hashes_has_no_cipher",
        ),
    ],
    remedies: &[
        "a cipher that the processor has instructions for (AES-GCM; ChaCha20 where there are none)",
        "take away what hides the instructions (OPENSSL_ia32cap, a virtual CPU model without aes)",
        "more streams, one for each CPU",
        "of new connections: keep them open, resume sessions, or sign with an elliptic curve's key",
    ],
    stories: &["S4.7"],
    thresholds: &[
        &SHARE_MIN,
        &BUSY_MIN,
        &CPU_MIN,
        &SAMPLES_MIN,
        &IDLER_MAX,
        &NAMED_MIN,
        &PASSED_MIN,
        &PASSED_RATE_MIN,
        &CALL_MAX,
        &COST_MIN,
        &PART_MIN,
    ],
    finds: Finds::Look(find),
};

const LIBRARIES: &[&str] = &[
    "libcrypto",
    "libgcrypt",
    "libnettle",
    "libhogweed",
    "libsodium",
    "libmbedcrypto",
    "libwolfssl",
    "libbotan",
    "libfreebl",
    "libtomcrypt",
    "libaws-crypto",
];

/// Libraries of TLS: the connections' own code, not what they compute.
const TLS_LIBRARIES: &[&str] = &["libssl", "libgnutls", "libmbedtls"];

/// What the functions of ciphers have in their names, and those of hashes, checksums and key derivation.
const CIPHERS: &[&str] = &[
    "aes", "chacha", "salsa20", "camellia", "blowfish", "des_", "rc4", "sm4", "aria", "crypt",
    "cipher",
];
const HASHES: &[&str] = &[
    "sha1",
    "sha2",
    "sha3",
    "sha5",
    "sha_",
    "md4",
    "md5",
    "ripemd",
    "rmd160",
    "blake",
    "keccak",
    "whirlpool",
    "sm3",
    "hash",
    "digest",
    "hmac",
    "crc",
    "bcrypt",
    "scrypt",
    "argon2",
    "pbkdf",
    "password",
];

/// What a program computes in the library that can be done at less cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Computes {
    /// What passes through it is enciphered or deciphered.
    Cipher,
    /// The keys and signatures of new connections.
    Connections,
}

/// One process of a program: its samples in the library, and all of them.
struct Ciphers {
    process: ThreadRef,
    crypto: u64,
    all: u64,
}

/// The processes of one name.
#[derive(Default)]
struct Program {
    processes: BTreeMap<u32, Ciphers>,
    each: f64,
    library: String,
    /// Samples in functions that are a cipher's, or a hash's, by name.
    of_ciphers: u64,
    of_hashes: u64,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let all = programs(measures, ends).into_values();
    all.filter_map(|program| matched(measures, ends, program)).collect()
}

fn is_crypto(code: &str) -> bool {
    LIBRARIES.iter().any(|name| code.starts_with(name))
}

/// Those that were asked about, and those whose work somebody waits for.
fn programs(measures: &Measures<'_>, ends: &[End]) -> BTreeMap<String, Program> {
    let model = measures.model;
    let at_work: BTreeSet<u32> = ends.iter().filter_map(|end| worker(measures, end)).collect();
    let mut programs: BTreeMap<String, Program> = BTreeMap::new();
    let crypto = |w: &&Work| is_crypto(&w.code) && w.process.pid != model.look.host.own_pid;
    for work in model.cpu.work.iter().filter(crypto) {
        let pid = work.process.pid;
        if !measures.concerns(&work.process) && !at_work.contains(&pid) {
            continue;
        }
        let program = programs.entry(work.process.comm.clone()).or_default();
        program.each = 1.0 / f64::from(work.frequency_hz.max(1));
        program.library.clone_from(&work.code);
        for function in &work.functions {
            let name = function.name.to_ascii_lowercase();
            let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
            // `bcrypt_hash` has both: what says hash is no cipher.
            match (has(HASHES), has(CIPHERS)) {
                (true, _) => program.of_hashes += function.count,
                (false, true) => program.of_ciphers += function.count,
                (false, false) => {}
            }
        }
        // The same process under its earlier name counts for what it became.
        let all = || measures.profile.samples(pid).iter().map(|samples| samples.count).sum();
        let of = || Ciphers { process: work.process.clone(), crypto: 0, all: all() };
        program.processes.entry(pid).or_insert_with(of).crypto += work.count;
    }
    programs
}

/// Seconds that its threads ran, or were ready to, and that they lived within the look.
fn busy(measures: &Measures<'_>, program: &Program) -> (f64, f64) {
    let (mut busy, mut alive) = (0.0, 0.0);
    for time in &measures.model.threads.times {
        if !program.processes.contains_key(&time.thread.pid) {
            continue;
        }
        let life = time.until_ns.saturating_sub(time.since_ns) as f64;
        if time.run_ns as f64 >= IDLER_MAX.value * life {
            busy += (time.run_ns + time.runnable_ns) as f64 / 1e9;
            alive += life / 1e9;
        }
    }
    (busy, alive)
}

/// What a program computes there; none if it is not seen to be anything that a choice makes quicker.
fn computes(measures: &Measures<'_>, program: &Program, is_server: bool) -> Option<Computes> {
    let crypto: u64 = program.processes.values().map(|one| one.crypto).sum();
    let named = (program.of_ciphers + program.of_hashes) as f64;
    if named >= NAMED_MIN.value * crypto as f64 {
        return (program.of_ciphers > program.of_hashes).then_some(Computes::Cipher);
    }
    let own = |pid: u32| program.processes.contains_key(&pid);
    let efforts = measures.model.cpu.efforts.iter().filter(|effort| own(effort.thread.pid));
    let (read, written, calls) = efforts.fold((0, 0, 0), |(read, written, calls), effort| {
        let more = effort.reads + effort.writes;
        (read + effort.read_bytes, written + effort.write_bytes, calls + more)
    });
    let rate = written as f64 / (crypto as f64 * program.each).max(1e-9);
    if written as f64 >= PASSED_MIN.value * read as f64 && rate >= PASSED_RATE_MIN.value {
        return Some(Computes::Cipher);
    }
    let is_tls = |work: &&Work| TLS_LIBRARIES.iter().any(|name| work.code.starts_with(name));
    let speaks = |work: &&Work| own(work.process.pid) || measures.concerns(&work.process);
    let has_tls = measures.model.cpu.work.iter().filter(is_tls).any(|work| speaks(&work));
    let a_call = crypto as f64 * program.each / (calls as f64).max(1.0);
    (is_server && has_tls && calls > 0 && a_call <= CALL_MAX.value).then_some(Computes::Connections)
}

/// How much of a program's time its ciphers are.
struct Bound {
    program: Program,
    computes: Computes,
    /// The process with the most of it.
    most: ThreadRef,
    /// Seconds of CPU in them.
    seconds: f64,
    /// Of its CPU time.
    share: f64,
    /// Share of its threads' time that they run or are ready to.
    busy: f64,
    /// It is none of the command's own, and rests while it is asked nothing.
    is_server: bool,
}

impl Bound {
    /// None if something else limits it, or nothing does.
    fn of(measures: &Measures<'_>, program: Program) -> Option<Self> {
        let sums = program.processes.values();
        let (crypto, all) = sums.fold((0, 0), |(c, a), one| (c + one.crypto, a + one.all));
        let (busy, alive) = busy(measures, &program);
        let most = program.processes.values().max_by_key(|one| one.crypto)?.process.clone();
        let is_server = !measures.concerns(&most);
        let bound = Self {
            computes: computes(measures, &program, is_server)?,
            seconds: crypto as f64 * program.each,
            share: crypto as f64 / all.max(1) as f64,
            busy: busy / alive.max(1e-9),
            is_server,
            program,
            most,
        };
        let cpus = all as f64 * bound.program.each / measures.wall_seconds().max(1e-9);
        (crypto as f64 >= SAMPLES_MIN.value
            && bound.share >= SHARE_MIN.value
            && cpus >= CPU_MIN.value
            && (bound.busy >= BUSY_MIN.value || bound.is_server))
            .then_some(bound)
    }

    fn is_several(&self) -> bool {
        self.program.processes.len() > 1
    }

    fn losses(&self) -> Losses {
        let of = |(pid, one): (&u32, &Ciphers)| {
            (*pid, (one.process.clone(), one.crypto as f64 * self.program.each))
        };
        self.program.processes.iter().map(of).collect()
    }

    fn explain(&self, loss: &Loss<'_>) -> Wording {
        let several = self.is_several();
        let comm = &self.most.comm;
        let who = match several {
            true => words::count(self.program.processes.len(), "", &format!("{comm} processes")),
            false => words::who(&self.most),
        };
        let library = &self.program.library;
        let (they, them) = if several { ("They run", "them") } else { ("It runs", "it") };
        let held_up = match self.busy >= BUSY_MIN.value {
            true => format!(
                "{they}, or could, for {} of the time, so nothing else holds {them} up.",
                words::percent(self.busy)
            ),
            false => format!("While somebody waits for {them}, nothing else holds {them} up."),
        };
        Wording {
            title: match self.computes {
                Computes::Cipher => format!("{comm} is as fast as the cipher that it computes"),
                Computes::Connections => {
                    format!("{comm} is as fast as it computes the keys of its TLS connections")
                }
            },
            text: format!(
                "{} of the CPU time of {who} ({}) is spent in {library}. {held_up}",
                words::percent(self.share),
                words::of_window(self.seconds, loss.wall_seconds),
            ),
            evidence: vec![
                Evidence::new(
                    format!("share of its CPU time in {library}"),
                    self.share,
                    "1",
                    "cpu-clock samples, mapping of the instruction",
                ),
                Evidence::new("runs or is ready to", self.busy, "1", "sched_switch"),
            ],
            remedy: match self.computes {
                Computes::Cipher => remedy(&self.most, several),
                Computes::Connections => fewer_connections(),
            },
        }
    }
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], program: Program) -> Option<Match<'m>> {
    let bound = Bound::of(measures, program)?;
    let own = |end: &End| {
        let of_one = || worker(measures, end);
        end.object == Object::Processes(bound.most.comm.as_str().into())
            || of_one().is_some_and(|pid| bound.program.processes.contains_key(&pid))
    };
    let works: Vec<usize> = (ends.iter().enumerate())
        .filter(|(_, end)| !end.victims.is_empty() && own(end))
        .map(|(at, _)| at)
        .collect();
    let cost = Cost::of(measures, bound.losses(), works.iter().map(|at| &ends[*at]));
    if works.is_empty() || !cost.counts(measures, &PART_MIN) {
        return None;
    }
    let mut by = culprit(measures.model, &bound.most);
    let mut object = Object::Process(bound.most.pid);
    if bound.is_several() {
        by.pid = None;
        object = Object::Processes(bound.most.comm.as_str().into());
    }
    let does = ("library", bound.program.library.clone());
    let mut matched = Match::new(by, Proof::Inferred, move |loss| bound.explain(loss)).on(object);
    // Work is no fault: it may be all that the program is there for.
    matched.severity_max = Severity::Warning;
    for at in works {
        matched = matched.claiming(at, None);
    }
    Some(cost.charge(matched, does))
}

/// Of new connections: fewer, or cheaper ones.
fn fewer_connections() -> Vec<Remedy> {
    vec![
        Remedy {
            text: "keep connections open and resume TLS sessions, so that fewer are begun anew"
                .into(),
            ..Remedy::default()
        },
        Remedy {
            text: "give the server a key of an elliptic curve, if its key is RSA".into(),
            command: "openssl speed ecdsap256 rsa2048".into(),
            ..Remedy::default()
        },
    ]
}

fn remedy(most: &ThreadRef, several: bool) -> Vec<Remedy> {
    let pid = if several { newest_of(&most.comm) } else { most.pid.to_string() };
    vec![
        Remedy {
            text: "see whether the processor's instructions are there, and not hidden from the program".into(),
            command: format!(
                "grep -o -m1 -w aes /proc/cpuinfo; tr '\\0' '\\n' < /proc/{pid}/environ | grep -i cap"
            ),
            action: (!several).then(|| Action::ask(Question::State, most)),
            ..Remedy::default()
        },
        Remedy {
            text: "choose a cipher that this processor is quick at".into(),
            command: "openssl speed -evp aes-128-gcm; openssl speed -evp chacha20-poly1305".into(),
            action: Some(Action::look(Question::State)),
            ..Remedy::default()
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::explain;
    use crate::facts::{Body, Effort, Fact, Function};
    use crate::measure::cpu_profile_tests::*;
    use crate::waits::timeline::Observed;

    /// It has read a gigabyte.
    fn computing(samples: u64, written: u64) -> Vec<Fact> {
        let mut facts = sampled(&[(&[], samples)]);
        facts.push(in_code("libcrypto.so.3", samples * 9 / 10));
        let read_bytes = 1_000_000_000;
        facts.push(effort(Effort { read_bytes, write_bytes: written, ..Effort::default() }));
        facts
    }

    fn transfer(samples: u64) -> Vec<Fact> {
        computing(samples, 1_000_000_000)
    }

    /// The same with the functions' names.
    fn in_function(written: u64, name: &str) -> Vec<String> {
        let mut facts = computing(960, written);
        for fact in &mut facts {
            if let Body::Work(Work { functions, count, .. }) = &mut fact.body {
                functions.push(Function {
                    name: name.into(),
                    count: *count,
                    ..Function::default()
                });
            }
        }
        explain(facts).findings.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_busy_cipher_is_reported() {
        let report = explain(transfer(960));
        assert_eq!(report.findings[0].code, "process.crypto_bound");
    }

    #[test]
    fn who_hashes_has_no_cipher() {
        for written in [0, 100_000_000] {
            assert!(explain(computing(960, written)).findings.is_empty(), "{written}");
        }
        for function in ["SHA256_Update", "md5_block_data_order", "bcrypt_hash", "EVP_PBE_scrypt"] {
            assert!(in_function(1_000_000_000, function).is_empty(), "{function}");
        }
    }

    #[test]
    fn a_cipher_is_known_by_its_name_wherever_its_bytes_go() {
        for function in ["aesni_cbc_encrypt", "ChaCha20_ctr32", "DES_ede3_cbc_encrypt"] {
            assert_eq!(in_function(0, function), ["process.crypto_bound"], "{function}");
        }
    }

    #[test]
    fn few_bytes_for_much_time_are_no_stream() {
        let mut facts = sampled(&[(&[], 960)]);
        facts.push(in_code("libcrypto.so.3", 900));
        facts.push(effort(Effort { read_bytes: 4_000, write_bytes: 8_000, ..Effort::default() }));
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn one_that_mostly_does_other_things_is_not_bound_by_it() {
        let mut facts = transfer(960);
        facts.retain(|fact| !matches!(fact.body, Body::Work(_)));
        facts.push(in_code("libcrypto.so.3", 400));
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn one_that_also_waits_is_not_bound_by_it() {
        assert!(explain(transfer(600)).findings.is_empty());
    }

    /// What a server computes whose library takes 4.5 s, by its calls and samples in the TLS library.
    fn served(calls: u64, tls: u64) -> Option<Computes> {
        let mut facts = sampled(&[(&[], 960)]);
        facts.push(in_code("libcrypto.so.3", 900));
        facts.extend((tls > 0).then(|| in_code("libssl.so.3", tls)));
        let (reads, writes) = (calls / 2, calls - calls / 2);
        facts.push(effort(Effort { reads, writes, ..Effort::default() }));
        let observed = Observed::new(facts);
        let measures = Measures::of_observed(&observed);
        let program = programs(&measures, &[]).into_values().next()?;
        computes(&measures, &program, true)
    }

    #[test]
    fn keys_of_connections_take_little_a_call_and_passwords_much() {
        assert_eq!(served(9_000, 1), Some(Computes::Connections));
        assert_eq!(served(900, 1), None, "5 ms a call");
        assert_eq!(served(9_000, 0), None, "nothing speaks TLS");
        assert_eq!(served(0, 1), None, "nobody counted its calls");
    }
}
