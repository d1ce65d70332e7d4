//! What is said of processes that were killed for want of memory, whoever's limit it was: how much each had, who had most,
//! and whether it is started again and again.
//!
//! Growth is said where it can be seen: a process that began within the look grew from nothing to what it had. Must not:
//! decide whose limit it was.

use crate::facts::{Ns, OomReport, OomTask, ThreadRef};
use crate::measure::Measures;
use crate::measure::oom_kills::Killed;
use crate::model::words;
use crate::rules::wording::Evidence;
use std::collections::BTreeMap;

/// The last of which more is known in full, and whether they follow one another.
pub(super) fn of_all(measures: &Measures<'_>, killed: &[&Killed<'_>]) -> String {
    let known = killed.iter().rev().find_map(|kill| Some((kill, kill.report?)));
    let one = known.map(|(kill, report)| of_one(measures, kill, report));
    let again = again(measures, killed);
    [one, again].into_iter().flatten().map(|sentence| sentence + " ").collect()
}

/// `job 9739 had 31.8 MiB when it was killed, 0.40 s after it began.`
fn of_one(measures: &Measures<'_>, kill: &Killed<'_>, report: &OomReport) -> String {
    let within =
        Some(kill.victim.start_ns).filter(|at_ns| *at_ns >= measures.model.look.begin_ns.max(1));
    let began = began(measures, kill.victim.pid).map(|(at_ns, _)| at_ns).or(within).map(|at_ns| {
        let lived = kill.at_ns.saturating_sub(at_ns) as f64 / 1e9;
        format!(", {} after it began", words::seconds(lived))
    });
    let mut text = format!(
        "{} had {} when it was killed{}",
        words::who(&kill.victim),
        words::bytes(resident(report) as f64),
        began.unwrap_or_default(),
    );
    if report.shmem_bytes > resident(report) / 2 {
        text.push_str(", most of it shared memory, which stays when a process ends");
    }
    match report.tasks.first() {
        Some(most) if most.pid != report.pid => {
            text.push_str(&format!("; the most of all had {}", with_size(most)));
        }
        Some(_) if report.task_count > 1 => text.push_str(&format!(
            ", the most of {} processes with {} together",
            report.task_count,
            words::bytes(report.tasks_bytes as f64)
        )),
        _ => {}
    }
    text + "."
}

/// What a process had.
pub(super) fn resident(report: &OomReport) -> u64 {
    report.anon_bytes.saturating_add(report.file_bytes).saturating_add(report.shmem_bytes)
}

fn with_size(task: &OomTask) -> String {
    let who = ThreadRef { tid: task.pid, pid: task.pid, start_ns: 0, comm: task.comm.clone() };
    format!("{} with {}", words::who(&who), words::bytes(task.rss_bytes as f64))
}

/// When a process began within the look, and who began it.
fn began<'m>(measures: &Measures<'m>, pid: u32) -> Option<(Ns, &'m ThreadRef)> {
    let mut forks = measures.model.threads.forks.iter().rev();
    let (at_ns, fork) = forks.find(|(_, fork)| fork.child.pid == pid && fork.child.tid == pid)?;
    Some((*at_ns, &fork.parent))
}

/// Several of one name, one after the other: whoever starts them again gains nothing.
fn again(measures: &Measures<'_>, killed: &[&Killed<'_>]) -> Option<String> {
    let mut by_name: BTreeMap<&str, Vec<&Killed<'_>>> = BTreeMap::new();
    for kill in killed {
        by_name.entry(kill.victim.comm.as_str()).or_default().push(kill);
    }
    let (name, kills) = by_name.into_iter().max_by_key(|(_, kills)| kills.len())?;
    let (first, last) = (kills.first()?, kills.last()?);
    if kills.len() < 2 {
        return None;
    }
    let parents: Vec<&ThreadRef> = (kills.iter())
        .filter_map(|kill| began(measures, kill.victim.pid))
        .map(|(_, parent)| parent)
        .collect();
    let one = parents.first().filter(|one| {
        parents.len() == kills.len() && parents.iter().all(|parent| parent.pid == one.pid)
    });
    let by =
        one.map_or_else(String::new, |parent| format!(", each begun by {}", words::who(parent)));
    Some(format!(
        "{} processes named {name} were killed so in {}{by}: to start it again changes nothing.",
        kills.len(),
        words::seconds(last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9),
    ))
}

/// What the kernel printed of the last of them.
pub(super) fn evidence(killed: &[&Killed<'_>]) -> Vec<Evidence> {
    const LOG: &str = "kernel log";
    let Some(report) = killed.iter().rev().find_map(|kill| kill.report) else { return Vec::new() };
    let of = |fact: &str, value: u64, unit: &str| Evidence::new(fact, value as f64, unit, LOG);
    let mut evidence = vec![
        of("anonymous memory of the process that was killed", report.anon_bytes, "bytes"),
        of("its memory of files", report.file_bytes, "bytes"),
        of("its shared memory", report.shmem_bytes, "bytes"),
        of("processes that could have been killed", report.task_count, "1"),
    ];
    let others = report.tasks.iter().filter(|task| task.pid != report.pid);
    evidence.extend(others.map(|task| {
        let who = ThreadRef { tid: task.pid, pid: task.pid, start_ns: 0, comm: task.comm.clone() };
        of(&format!("resident memory of {}", words::who(&who)), task.rss_bytes, "bytes")
    }));
    evidence
}
