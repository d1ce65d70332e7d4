//! process.fork_cost: a big process spends its time in copying its page tables at every fork.
//!
//! On-CPU samples inside fork tell how much time, fork events how often, the resident set how big. None of the
//! three alone proves it: a small process may fork often, a big one seldom.

use crate::answer::report::{
    Evidence, Finding, Impact, Link, ObjectName, Remedy, Severity, Victim, Who,
};
use crate::facts::{TargetKind, ThreadRef};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::old::{Rule, culprit, words};
use std::collections::BTreeMap;

/// Functions that only a copying fork passes.
const IN_FORK: &[&str] =
    &["copy_page_range", "dup_mmap", "dup_mm", "copy_p4d_range", "copy_pte_range"];
/// A fork of a small process takes about a tenth of a millisecond: ten times that is dear.
const DEAR_SECONDS: f64 = 0.001;
const CLONE_VM: u64 = 0x100;
use crate::rules::Refutation;

/// The case.
pub static RULE: Rule = Rule {
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
        Refutation::new("forks without copying (vfork, posix_spawn, threads)", ""),
        Refutation::new("the time is in exec or in the child", ""),
    ],
    remedies: &[
        "posix_spawn or vfork and exec instead of fork",
        "fork from a small helper process",
        "huge pages",
    ],
    stories: &["S4.5"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

struct Cost {
    process: ThreadRef,
    forks: u64,
    fork_seconds: f64,
    samples: u64,
}

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    costs(measures).into_iter().filter_map(|cost| finding(measures, &cost)).collect()
}

fn costs(measures: &Measures<'_>) -> Vec<Cost> {
    let model = measures.model;
    let mut forks: BTreeMap<u32, u64> = BTreeMap::new();
    for (_, fork) in &model.forks {
        if fork.flags & CLONE_VM == 0 && fork.child.pid != fork.parent.pid {
            *forks.entry(fork.parent.pid).or_default() += 1;
        }
    }
    let mut costs = Vec::new();
    for (pid, forks) in forks {
        let process = model.thread_ref(pid);
        let wanted = match model.target.as_ref().map(|t| t.kind) {
            Some(TargetKind::Command) => true,
            _ => model.in_target(&process),
        };
        if !wanted || pid == model.host.own_pid {
            continue;
        }
        let in_fork = model.samples.iter().filter(|s| {
            let frames = model.stack(s.stack);
            s.process.pid == pid && frames.iter().any(|f| IN_FORK.contains(&f.as_str()))
        });
        let (mut samples, mut fork_seconds) = (0, 0.0);
        for sample in in_fork {
            samples += sample.count;
            fork_seconds += sample.count as f64 / f64::from(sample.frequency_hz.max(1));
        }
        costs.push(Cost { process, forks, fork_seconds, samples });
    }
    costs
}

fn finding(measures: &Measures<'_>, cost: &Cost) -> Option<Finding> {
    let wall = measures.wall_seconds().max(1e-9);
    let each = cost.fork_seconds / cost.forks.max(1) as f64;
    let demand = measures.demand_seconds(cost.process.pid).max(cost.fork_seconds);
    let share = match measures.is_command() {
        true => (cost.fork_seconds / wall).min(1.0),
        false => cost.fork_seconds / demand.max(1e-9),
    };
    // Ten samples: with fewer, the share is a guess.
    if cost.samples < 10 || cost.forks < 3 || each < DEAR_SECONDS || share < 0.1 {
        return None;
    }
    let impact = Impact { wait_seconds_per_second: cost.fork_seconds / wall, share };
    let severity = match impact.wait_seconds_per_second {
        rate if rate >= 0.25 && share >= 0.5 => Severity::Critical,
        rate if rate >= 0.05 => Severity::Warning,
        _ => return None,
    };
    Some(told(measures, cost, severity, impact))
}

fn told(measures: &Measures<'_>, cost: &Cost, severity: Severity, impact: Impact) -> Finding {
    let model = measures.model;
    let wall = measures.wall_seconds().max(1e-9);
    let each = cost.fork_seconds / cost.forks.max(1) as f64;
    let who = words::who(&cost.process);
    let rss = model.identity(&cost.process).map_or(0, |thread| thread.rss_bytes);
    let size = match rss {
        0 => String::new(),
        rss => format!(" of {}", words::bytes(rss as f64)),
    };
    Finding {
        code: RULE.code.into(),
        title: format!(
            "{who} spends {} of its time in fork: {} each for an image{size}",
            words::percent(impact.share),
            words::seconds(each)
        ),
        text: format!(
            "It forked {} times a second. Every fork copies the page tables of its image{size} on its own time: {} \
             of CPU in {}.",
            words::rate(cost.forks as f64 / wall),
            words::seconds(cost.fork_seconds),
            words::seconds(wall),
        ),
        severity,
        confidence: 0.93,
        object: measures.model.name_of(&Object::Process(cost.process.pid)),
        culprit: culprit(measures, &cost.process),
        victims: vec![Victim {
            pid: cost.process.pid,
            inner_pid: None,
            comm: cost.process.comm.clone(),
            container: model.container_of(&cost.process).map(|c| c.name.clone()),
            wait_seconds: cost.fork_seconds,
        }],
        impact,
        chain: vec![Link {
            who: Who::thread(&cost.process),
            waits_on: ObjectName::new("fork", "copying page tables"),
            seconds: cost.fork_seconds,
        }],
        evidence: evidence(cost, impact.share, wall, rss),
        remedy: remedy(),
        stories: RULE.stories.iter().map(|s| (*s).to_string()).collect(),
    }
}

fn evidence(cost: &Cost, share: f64, wall: f64, rss: u64) -> Vec<Evidence> {
    let each = cost.fork_seconds / cost.forks.max(1) as f64;
    vec![
        Evidence::new("share of its time in fork", share, "1", "cpu-clock samples, kernel stacks"),
        Evidence::new("samples in fork", cost.samples as f64, "1", "cpu-clock samples"),
        Evidence::new("forks", cost.forks as f64 / wall, "1/s", "task_newtask"),
        Evidence::new("CPU per fork", each, "s", "samples and task_newtask"),
        Evidence::new("resident set of the parent", rss as f64, "bytes", "/proc/PID/statm"),
    ]
}

fn remedy() -> Vec<Remedy> {
    let way = |text: &str| Remedy { text: text.into(), ..Remedy::default() };
    vec![
        way("start programs with posix_spawn (or vfork and exec), which copies nothing"),
        way("or fork from a small helper process that is started first"),
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
        let each = finding.evidence.iter().find(|e| e.fact == "CPU per fork").expect("told");
        assert!((each.value - 0.03).abs() < 1e-6);
    }

    #[test]
    fn cheap_forks_and_threads_are_nothing() {
        assert!(explain(forker(0x11, 9)).findings.is_empty());
        assert!(explain(forker(0x11 | super::CLONE_VM, 300)).findings.is_empty());
    }
}
