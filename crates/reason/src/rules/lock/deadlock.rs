//! lock.deadlock: a circle of threads in which each waits for a lock that the next one holds.
//!
//! Looked for among the waits that stand at the end of the window, with owners from the lock table and from
//! glibc's mutexes. A circle of owners cannot resolve itself, so it is told however idle the host is.

use crate::answer::report::{Evidence, Finding, Impact, Link, Remedy, Severity, Victim, Who};
use crate::facts::ThreadRef;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, culprit, process, words};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeSet;

/// The case.
pub static RULE: Rule = Rule {
    code: "lock.deadlock",
    title: "Threads wait for each other's locks in a circle",
    theory: "Thread A holds one lock and waits for a second; thread B holds the second and waits for the first (the \
             circle may be longer, and cross processes by file locks). None of them can go on, and everything \
             that needs them stands still too.",
    needs: &[
        "waits for locks that have not ended",
        "the owner of each is known, and the owners form a circle",
    ],
    refuted_by: &[
        Refutation::new("any wait of the circle ended within the window", ""),
        Refutation::new("an owner is not known", ""),
    ],
    remedies: &["end one of them", "take locks in one order everywhere, or with a timeout"],
    stories: &["S3.4", "S3.14"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let model = measures.model;
    let standing: Vec<&WaitSpan> = measures
        .waits()
        .filter(|w| w.standing && matches!(w.class, WaitClass::FileLock | WaitClass::FutexLock))
        .collect();
    let mut seen: BTreeSet<Vec<u32>> = BTreeSet::new();
    let mut findings = Vec::new();
    for start in &standing {
        let Some(circle) = circle_from(measures, &standing, start) else { continue };
        let mut key: Vec<u32> = circle.iter().map(|w| w.thread.tid).collect();
        key.sort_unstable();
        let targeted = circle.iter().any(|w| model.in_target(&w.thread));
        if targeted && seen.insert(key) {
            findings.push(finding(measures, &circle));
        }
    }
    findings
}

/// Follows owners from a wait; the circle if they come back to it.
fn circle_from<'a>(
    measures: &Measures<'_>,
    standing: &[&'a WaitSpan],
    start: &&'a WaitSpan,
) -> Option<Vec<&'a WaitSpan>> {
    let mut circle: Vec<&WaitSpan> = vec![start];
    loop {
        let last = circle[circle.len() - 1];
        let owner = measures.graph.chains.peers.holder(last)?;
        // A POSIX or flock lock belongs to a process: any of its threads that waits closes the circle.
        let waits = |w: &&&WaitSpan| {
            w.thread.tid == owner.tid
                || (last.class == WaitClass::FileLock && w.thread.pid == owner.pid)
        };
        let next = standing.iter().find(waits)?;
        if next.thread.tid == start.thread.tid {
            return Some(circle);
        }
        if circle.len() > 16 || circle.iter().any(|w| w.thread.tid == next.thread.tid) {
            return None;
        }
        circle.push(next);
    }
}

fn finding(measures: &Measures<'_>, circle: &[&WaitSpan]) -> Finding {
    let model = measures.model;
    let within = |w: &WaitSpan| w.within_ns(model.begin_ns, model.end_ns) as f64 / 1e9;
    let seconds: f64 = circle.iter().map(|w| within(w)).sum();
    let age = circle.iter().map(|w| (w.end_ns - w.begin_ns) as f64 / 1e9).fold(f64::MAX, f64::min);
    let first = circle[0];
    // The one whose wait closed the circle is the one that came last.
    let last = circle.iter().max_by_key(|w| w.begin_ns).map_or(first, |w| w);
    let names: Vec<String> = circle.iter().map(|w| words::who(&w.thread)).collect();
    let verdict = Verdict {
        title: format!("{} wait for each other's locks: a deadlock", names.join(" and ")),
        text: format!(
            "Each waits for a lock that the next one holds, in a circle of {}, for {} now. It cannot resolve itself.",
            circle.len(),
            words::seconds(age),
        ),
        confidence: 0.98,
        culprit: culprit(measures, &last.thread),
        evidence: circle
            .iter()
            .map(|w| {
                Evidence::new(
                    format!(
                        "{} waits for {} {}",
                        words::who(&w.thread),
                        model.name_of(&w.object).kind,
                        model.name_of(&w.object).name
                    ),
                    (w.end_ns - w.begin_ns) as f64 / 1e9,
                    "s",
                    "task iterator, lock owners",
                )
            })
            .collect(),
        remedy: vec![Remedy {
            text: "end one of them (what it did under the lock is lost)".into(),
            command: process::end(measures.model, &[last.thread.pid]),
            ..Remedy::default()
        }],
    };
    let wall = measures.wall_seconds().max(1e-9);
    Finding {
        code: RULE.code.into(),
        title: verdict.title,
        text: verdict.text,
        severity: Severity::Critical,
        confidence: verdict.confidence,
        object: measures.model.name_of(&first.object),
        culprit: verdict.culprit,
        victims: victims(measures, circle.iter().map(|w| (&w.thread, within(w)))),
        impact: Impact { wait_seconds_per_second: seconds / wall, share: 1.0 },
        chain: circle
            .iter()
            .map(|w| Link {
                who: Who::thread(&w.thread),
                waits_on: measures.model.name_of(&w.object),
                seconds: within(w),
            })
            .collect(),
        evidence: verdict.evidence,
        remedy: verdict.remedy,
        stories: RULE.stories.iter().map(|s| (*s).to_string()).collect(),
    }
}

fn victims<'a>(
    measures: &Measures<'_>,
    waits: impl Iterator<Item = (&'a ThreadRef, f64)>,
) -> Vec<Victim> {
    let mut all: Vec<Victim> = Vec::new();
    for (thread, seconds) in waits {
        match all.iter_mut().find(|v| v.pid == thread.pid) {
            Some(known) => known.wait_seconds += seconds,
            None => all.push(Victim {
                pid: thread.pid,
                inner_pid: None,
                comm: measures.process_name(thread),
                container: measures.model.container_of(thread).map(|c| c.name.clone()),
                wait_seconds: seconds,
            }),
        }
    }
    all
}
