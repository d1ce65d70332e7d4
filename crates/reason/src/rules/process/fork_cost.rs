//! process.fork_cost: a big process spends its time in copying its page tables at every fork.
//!
//! On-CPU samples inside fork tell how much time, fork events how often, the resident set how big. None of the
//! three alone proves it: a small process may fork often, a big one seldom. Rejected: the resident set times a rate
//! (huge pages have no tables to copy).

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::own_time::{COST_MIN, Cost, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

/// Functions that only a copying fork passes.
const IN_FORK: &[&str] =
    &["copy_page_range", "dup_mmap", "dup_mm", "copy_p4d_range", "copy_pte_range"];
const CLONE_VM: u64 = 0x100;

pub(super) static DEAR: Threshold = Threshold::new(
    0.001,
    "s",
    "CPU time of one fork; that of a small process takes about a tenth of a millisecond, ten times that is dear",
    "reference machine: fork of a process of 2 MiB",
);
static SAMPLES_MIN: Threshold = Threshold::new(
    10.0,
    "1",
    "samples inside fork; with fewer, their share is a guess",
    "statistics: a third off at one standard deviation",
);
static FORKS_MIN: Threshold =
    Threshold::new(3.0, "1", "forks in the look; fewer may be a start of its own", "chosen");
static PART_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "of its time that is not idle; its requests wait for as long as it forks",
    "chosen: a tenth",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.fork_cost",
    title: "A big process pays dearly for every fork",
    theory: "fork copies the parent's page tables: about 2 ms per GiB of small pages, on the parent's own time, and each \
             page that is written afterwards faults once more. A server that forks per request spends its time there \
             and not on requests.",
    needs: &[
        "samples of the parent's CPU time inside fork (copy_page_range, dup_mm)",
        "it forked with a copied address space (no CLONE_VM) in the same window, each time for more than a millisecond",
    ],
    refuted_by: &[
        Refutation::new(
            "forks without copying (vfork, posix_spawn, threads)",
            "threads_and_vforks_copy_nothing",
        ),
        Refutation::new(
            "the time is not in copying, but in exec or in the child",
            "cheap_forks_are_nothing",
        ),
    ],
    remedies: &[
        "posix_spawn or vfork and exec instead of fork",
        "fork from a small helper process",
        "huge pages",
    ],
    stories: &["S4.5"],
    thresholds: &[&DEAR, &SAMPLES_MIN, &FORKS_MIN, &PART_MIN, &COST_MIN],
    finds: Finds::End(find),
};

/// What a process spends in fork.
struct Forks {
    process: ThreadRef,
    forks: usize,
    seconds: f64,
    samples: u64,
    rss_bytes: u64,
}

impl Forks {
    /// Of a process, if each is dear.
    fn of(measures: &Measures<'_>, pid: u32) -> Option<Self> {
        let model = measures.model;
        let copies = |at: &&(u64, crate::facts::Fork)| {
            let fork = &at.1;
            fork.parent.pid == pid && fork.child.pid != pid && fork.flags & CLONE_VM == 0
        };
        let samples = measures.profile.in_kernel(pid, |frame| IN_FORK.contains(&frame));
        if (samples as f64) < SAMPLES_MIN.value {
            return None;
        }
        let each = measures.profile.samples(pid).first().map_or(1, |s| s.frequency_hz.max(1));
        let process = model.threads.thread_ref(pid);
        let one = Self {
            forks: model.threads.forks.iter().filter(copies).count(),
            seconds: samples as f64 / f64::from(each),
            samples,
            rss_bytes: model.threads.identity(&process).map_or(0, |thread| thread.rss_bytes),
            process,
        };
        (one.forks >= FORKS_MIN.count() && one.each() >= DEAR.value).then_some(one)
    }

    fn each(&self) -> f64 {
        self.seconds / self.forks.max(1) as f64
    }

    fn explain(&self, loss: &Loss<'_>) -> Wording {
        let wall = loss.wall_seconds.max(1e-9);
        let rate = self.forks as f64 / wall;
        let size = match self.rss_bytes {
            0 => String::new(),
            rss => format!(" of {}", words::bytes(rss as f64)),
        };
        Wording {
            title: format!(
                "{} spends {} of its time in fork: {} each for an image{size}",
                words::who(&self.process),
                words::percent(loss.impact.share),
                words::seconds(self.each())
            ),
            text: format!(
                "It forked {} times a second. Every fork copies the page tables of its image{size} on its own time: {} \
                 of CPU in {}.",
                words::rate(rate),
                words::seconds(self.seconds),
                words::seconds(wall),
            ),
            evidence: self.evidence(loss.impact.share, rate),
            remedy: remedy(),
        }
    }

    fn evidence(&self, share: f64, rate: f64) -> Vec<Evidence> {
        let stacks = "cpu-clock samples, kernel stacks";
        vec![
            Evidence::new("share of its time in fork", share, "1", stacks),
            Evidence::new("samples in fork", self.samples as f64, "1", "cpu-clock samples"),
            Evidence::new("forks", rate, "1/s", "task_newtask"),
            Evidence::new("CPU per fork", self.each(), "s", "samples and task_newtask"),
            Evidence::new(
                "resident set of the parent",
                self.rss_bytes as f64,
                "bytes",
                "/proc/PID/statm",
            ),
        ]
    }
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let pid = worker(measures, end).filter(|pid| *pid != measures.model.look.host.own_pid)?;
    let forks = Forks::of(measures, pid)?;
    let cost = Cost::of_one(measures, &forks.process, forks.seconds, end);
    if !cost.counts(measures, &PART_MIN) {
        return None;
    }
    let by = culprit(measures.model, &forks.process);
    let mut matched = Match::new(by, Proof::TwoWitnesses, move |loss| forks.explain(loss));
    matched.severity_min = Severity::Warning;
    Some(cost.charge(matched.on(Object::Process(pid)), ("fork", "copying page tables".into())))
}

fn remedy() -> Vec<Remedy> {
    let way = |text: &str| Remedy { text: text.into(), ..Remedy::default() };
    vec![
        way("start programs with posix_spawn (or vfork and exec), which copies nothing"),
        way("fork from a small helper process that is started first"),
    ]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn forker(flags: u64, samples: u64) -> Vec<Fact> {
        let mut facts = host();
        for at in 0..100u64 {
            let child = thread(100 + at as u32, "server");
            let fork = Fork { parent: thread(10, "server"), child, flags };
            facts.push(Fact { at_ns: at * 50_000_000, body: Body::Fork(fork) });
        }
        let frames = ["copy_pte_range", "copy_page_range", "dup_mmap", "copy_process"];
        facts.push(fact(Body::Stack(Stack {
            id: 1,
            frames: frames.iter().map(|f| (*f).to_string()).collect(),
        })));
        let process = thread(10, "server");
        facts.push(fact(Body::Samples(Samples {
            process,
            stack: 1,
            count: samples,
            frequency_hz: 100,
        })));
        facts.push(fact(Body::ThreadTime(ThreadTime {
            thread: thread(10, "server"),
            until_ns: LOOK_NS,
            run_ns: 4_000_000_000,
            ..ThreadTime::default()
        })));
        facts
    }

    #[test]
    fn a_dear_fork_is_named_with_its_rate_and_cost() {
        let report = explain(forker(0x11, 300));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.fork_cost", Severity::Critical));
        assert!((finding.impact.share - 0.75).abs() < 0.01);
        let each = finding.evidence.iter().find(|e| e.fact == "CPU per fork").expect("evidence");
        assert!((each.value - 0.03).abs() < 1e-6);
    }

    #[test]
    fn cheap_forks_are_nothing() {
        assert!(explain(forker(0x11, 9)).findings.is_empty());
    }

    #[test]
    fn threads_and_vforks_copy_nothing() {
        assert!(explain(forker(0x11 | super::CLONE_VM, 300)).findings.is_empty());
    }
}
