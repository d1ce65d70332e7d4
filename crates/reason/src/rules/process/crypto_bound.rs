//! process.crypto_bound: a program computes ciphers, and nothing else limits it.
//!
//! The samples tell the file that the code is in: libcrypto and its like name themselves. That it is the limit
//! needs the other half: its threads are on a CPU, or ready for one, nearly all of their time. Short-lived
//! processes of one name (one for each transfer) count together. Blind: ciphers linked into the program itself
//! (Go, rustls) have no file of their own, and are not told.

use crate::answer::report::{Evidence, Finding, ObjectName, Remedy, Severity};
use crate::facts::{ThreadRef, Work};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, culprit, words, work};
use std::collections::BTreeMap;

/// The case.
pub static RULE: Rule = Rule {
    code: "process.crypto_bound",
    title: "A program is limited by the ciphers that it computes",
    theory: "Encryption costs CPU per byte: from 0.2 ns with the processor's own instructions to some 10 ns without them. A \
             transfer that fills a CPU with it is as fast as its cipher, whatever network or disk could do.",
    needs: &[
        "half or more of its CPU samples are in the code of a cryptographic library",
        "its threads run, or are ready to, for four fifths of their time",
    ],
    refuted_by: &[
        Refutation::new("it waits for a disk, a peer or a lock for a noticeable part", ""),
        Refutation::new("most of its time is in other code", ""),
    ],
    remedies: &[
        "a cipher that the processor has instructions for (AES-GCM; ChaCha20 where there are none)",
        "take away what hides the instructions (OPENSSL_ia32cap, a virtual CPU model without aes)",
        "more streams, one for each CPU",
    ],
    stories: &["S4.7"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
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
const SHARE_MIN: f64 = 0.5;
const BUSY_MIN: f64 = 0.8;
/// Half of a CPU: below that it has time to spare.
const CPU_MIN: f64 = 0.5;

/// The processes of one name, with what of their samples was in which library.
#[derive(Default)]
struct Program {
    processes: BTreeMap<u32, (ThreadRef, u64, u64)>,
    each: f64,
    library: String,
}

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let found = programs(measures).into_values().filter_map(|program| finding(measures, &program));
    found.filter(|finding| finding.severity > Severity::Note).collect()
}

fn is_crypto(code: &str) -> bool {
    LIBRARIES.iter().any(|name| code.starts_with(name))
}

fn programs(measures: &Measures<'_>) -> BTreeMap<String, Program> {
    let model = measures.model;
    let mut programs: BTreeMap<String, Program> = BTreeMap::new();
    let crypto = |w: &&Work| is_crypto(&w.code) && w.process.pid != model.host.own_pid;
    for work in model.work.iter().filter(crypto) {
        if !crate::rules::old::cpu::concerns(measures, &work.process) {
            continue;
        }
        let program = programs.entry(work.process.comm.clone()).or_default();
        program.each = 1.0 / f64::from(work.frequency_hz.max(1));
        program.library.clone_from(&work.code);
        let of = || (work.process.clone(), 0, 0);
        program.processes.entry(work.process.pid).or_insert_with(of).1 += work.count;
    }
    for samples in &model.samples {
        // The same process under its earlier name counts for what it became.
        for program in programs.values_mut() {
            if let Some(process) = program.processes.get_mut(&samples.process.pid) {
                process.2 += samples.count;
            }
        }
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
        let wants = (time.run_ns + time.runnable_ns) as f64 / 1e9;
        // A thread that did next to nothing is not the one that is limited.
        if time.run_ns as f64 >= 0.1 * time.until_ns.saturating_sub(time.since_ns) as f64 {
            busy += wants;
            alive += time.until_ns.saturating_sub(time.since_ns) as f64 / 1e9;
        }
    }
    (busy, alive)
}

/// How much of a program's time its ciphers are.
struct Bound {
    /// Seconds of CPU in them.
    seconds: f64,
    /// Of its CPU time.
    share: f64,
    /// Share of its threads' time that they run or are ready to.
    busy: f64,
}

impl Bound {
    /// None if something else limits it, or nothing does.
    fn of(measures: &Measures<'_>, program: &Program) -> Option<Self> {
        let sums = program.processes.values();
        let (crypto, all) = sums.fold((0, 0), |(c, a), (_, crypto, all)| (c + crypto, a + all));
        let (busy, alive) = busy(measures, program);
        let bound = Self {
            seconds: crypto as f64 * program.each,
            share: crypto as f64 / all.max(1) as f64,
            busy: busy / alive.max(1e-9),
        };
        let cpus = all as f64 * program.each / measures.wall_seconds().max(1e-9);
        (crypto >= work::SAMPLES_MIN
            && bound.share >= SHARE_MIN
            && cpus >= CPU_MIN
            && bound.busy >= BUSY_MIN)
            .then_some(bound)
    }
}

fn finding(measures: &Measures<'_>, program: &Program) -> Option<Finding> {
    let bound = Bound::of(measures, program)?;
    let wall = measures.wall_seconds().max(1e-9);
    let (most, ..) = program.processes.values().max_by_key(|(_, crypto, _)| *crypto)?;
    let several = program.processes.len() > 1;
    let who = match several {
        true => words::count(program.processes.len(), "", &format!("{} processes", most.comm)),
        false => words::who(most),
    };
    let mut by = culprit(measures, most);
    if several {
        by.pid = None;
    }
    let verdict = Verdict {
        title: format!("{} is as fast as the cipher that it computes", most.comm),
        text: format!(
            "{} of the CPU time of {who} ({}) is spent in {}. {}, or could, for {} of the time, so nothing \
             else holds {} up.",
            words::percent(bound.share),
            words::of_window(bound.seconds, wall),
            program.library,
            if several { "They run" } else { "It runs" },
            words::percent(bound.busy),
            if several { "them" } else { "it" },
        ),
        confidence: 0.85,
        culprit: by,
        evidence: vec![
            Evidence::new(
                format!("share of its CPU time in {}", program.library),
                bound.share,
                "1",
                "cpu-clock samples, mapping of the instruction",
            ),
            Evidence::new("runs or is ready to", bound.busy, "1", "sched_switch"),
        ],
        remedy: remedy(most, several),
    };
    let object = ObjectName::new("library", &program.library);
    let lost: work::Lost = program
        .processes
        .values()
        .map(|(p, crypto, _)| (p.clone(), *crypto as f64 * program.each))
        .collect();
    let mut finding = work::finding(
        &RULE,
        measures,
        ObjectName::new("process", &most.comm),
        object,
        &lost,
        verdict,
    );
    finding
        .victims
        .sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
    finding.victims.truncate(8);
    // Work is no fault: it may be all that the program is there for.
    finding.severity = finding.severity.min(Severity::Warning);
    Some(finding)
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
    use crate::rules::old::work_tests::*;

    fn transfer(samples: u64) -> Vec<Fact> {
        let mut facts = sampled(&[(&[], samples)]);
        facts.push(in_code("libcrypto.so.3", samples * 9 / 10));
        facts
    }

    #[test]
    fn a_busy_cipher_is_told() {
        let report = explain(transfer(960));
        assert_eq!(report.findings[0].code, "process.crypto_bound");
    }

    #[test]
    fn one_that_also_waits_is_not_bound_by_it() {
        assert!(explain(transfer(600)).findings.is_empty());
    }
}
