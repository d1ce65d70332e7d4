//! process.crypto_bound: a program computes ciphers, and nothing else limits it.
//!
//! The samples tell the file that the code is in: libcrypto and its like name themselves. That it is the limit
//! needs the other half: its threads are on a CPU, or ready for one, nearly all of their time. Short-lived
//! processes of one name (one for each transfer) count together. Blind: ciphers linked into the program itself
//! (Go, rustls) have no file of their own, and are not seen.

use super::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::facts::{ThreadRef, Work};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::threshold::Threshold;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
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
static IDLER_MAX: Threshold = Threshold::new(
    0.1,
    "1",
    "of its life that a thread runs; one that does less is not the one that is limited",
    "chosen: a tenth",
);

/// The rule.
pub static RULE: Rule = Rule {
    code: "process.crypto_bound",
    title: "A program is limited by the ciphers that it computes",
    theory: "Encryption costs CPU per byte: from 0.2 ns with the processor's own instructions to some 10 ns without them. A \
             transfer that fills a CPU with it is as fast as its cipher, whatever network or disk could do.",
    needs: &[
        "half or more of its CPU samples are in the code of a cryptographic library",
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
    ],
    remedies: &[
        "a cipher that the processor has instructions for (AES-GCM; ChaCha20 where there are none)",
        "take away what hides the instructions (OPENSSL_ia32cap, a virtual CPU model without aes)",
        "more streams, one for each CPU",
    ],
    stories: &["S4.7"],
    thresholds: &[&SHARE_MIN, &BUSY_MIN, &CPU_MIN, &SAMPLES_MIN, &IDLER_MAX, &COST_MIN, &PART_MIN],
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
    let crypto = |w: &&Work| is_crypto(&w.code) && w.process.pid != model.host.own_pid;
    for work in model.work.iter().filter(crypto) {
        let pid = work.process.pid;
        if !measures.concerns(&work.process) && !at_work.contains(&pid) {
            continue;
        }
        let program = programs.entry(work.process.comm.clone()).or_default();
        program.each = 1.0 / f64::from(work.frequency_hz.max(1));
        program.library.clone_from(&work.code);
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
    for time in &measures.model.times {
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

/// How much of a program's time its ciphers are.
struct Bound {
    program: Program,
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
        let bound = Self {
            seconds: crypto as f64 * program.each,
            share: crypto as f64 / all.max(1) as f64,
            busy: busy / alive.max(1e-9),
            is_server: !measures.concerns(&most),
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
            title: format!("{comm} is as fast as the cipher that it computes"),
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
            remedy: remedy(&self.most, several),
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

fn remedy(most: &ThreadRef, several: bool) -> Vec<Remedy> {
    let pid = if several {
        format!("$(pidof -s {})", words::shell(&most.comm))
    } else {
        most.pid.to_string()
    };
    vec![
        Remedy {
            text: "see whether the processor's instructions are there, and not hidden from the program".into(),
            command: format!(
                "grep -o -m1 -w aes /proc/cpuinfo; tr '\\0' '\\n' < /proc/{pid}/environ | grep -i cap"
            ),
            ..Remedy::default()
        },
        Remedy {
            text: "choose a cipher that this processor is quick at".into(),
            command: "openssl speed -evp aes-128-gcm; openssl speed -evp chacha20-poly1305".into(),
            ..Remedy::default()
        },
    ]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::Fact;
    use crate::measure::cpu_profile_tests::*;

    fn transfer(samples: u64) -> Vec<Fact> {
        let mut facts = sampled(&[(&[], samples)]);
        facts.push(in_code("libcrypto.so.3", samples * 9 / 10));
        facts
    }

    #[test]
    fn a_busy_cipher_is_reported() {
        let report = explain(transfer(960));
        assert_eq!(report.findings[0].code, "process.crypto_bound");
    }

    #[test]
    fn one_that_mostly_does_other_things_is_not_bound_by_it() {
        let mut facts = sampled(&[(&[], 960)]);
        facts.push(in_code("libcrypto.so.3", 400));
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn one_that_also_waits_is_not_bound_by_it() {
        assert!(explain(transfer(600)).findings.is_empty());
    }
}
