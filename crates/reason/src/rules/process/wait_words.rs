//! How waits are said: who waits, how long the longest was, and the figures that every wait has.
//!
//! Who waits is the thread that stands in the wait, not the shell or the launcher that waits for it in turn, and by the name
//! that it had then. Must not: name codes, or decide anything.

use crate::facts::ThreadRef;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::measure::longest_wait::LongestWait;
use crate::measure::process_names::present;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::wording::Evidence;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeSet;

/// Processes that are named one by one.
const SHOWN_MAX: usize = 3;
const SOURCE: &str = "sched_switch and the task iterator";

/// The name of the process that itself stands in the wait that names an end.
pub fn waiter(measures: &Measures<'_>, end: &End) -> String {
    measures.process_name(&end.links[end.named].who)
}

/// The main holder of an end, by its present name.
pub fn holder(measures: &Measures<'_>, end: &End) -> Option<ThreadRef> {
    end.holder().map(|holder| present(measures.model, holder))
}

/// A process by its main thread and present name.
pub fn main_thread(measures: &Measures<'_>, pid: u32) -> ThreadRef {
    present(measures.model, &measures.model.thread_ref(pid))
}

/// The longest wait for what names an end. What is inside a program is no object of its waits: there it is the one that
/// the chain shows.
pub fn longest(measures: &Measures<'_>, end: &End) -> LongestWait {
    let link = &end.links[end.named];
    let is_on_it = |wait: &&WaitSpan| match end.object {
        Object::Inside(_) | Object::Parked(_) => {
            let is_there = wait.begin_ns <= link.begin_ns && link.begin_ns < wait.end_ns;
            is_there && measures.model.is_same(&wait.thread, &link.who)
        }
        _ => wait.object == end.object,
    };
    let of_class = measures.waits().filter(|wait| wait.class == end.class);
    LongestWait::of(measures.model, of_class.filter(is_on_it))
}

/// `has lasted at least 5.00 s`, `took 2.10 s`.
pub fn lasted(longest: &LongestWait) -> String {
    let did = if longest.standing { "has lasted" } else { "took" };
    format!("{did} {}", duration(longest))
}

/// `at least 5.00 s`, `2.10 s`.
pub fn duration(longest: &LongestWait) -> String {
    let least = if longest.at_least { "at least " } else { "" };
    format!("{least}{}", words::seconds(longest.seconds))
}

/// How long the longest wait was, and since when the thread may have stood there.
pub fn longest_evidence(longest: &LongestWait, fact: &str) -> Vec<Evidence> {
    let mut evidence = vec![Evidence::new(fact, longest.seconds, "s", SOURCE)];
    if let Some(seconds) = longest.since_it_ran {
        evidence.push(Evidence::new(
            "since that thread last ran (an estimate)",
            seconds,
            "s",
            "the scheduler's clock",
        ));
    }
    evidence
}

/// The figures that every wait has.
pub fn wait_evidence(
    seconds: f64,
    waits: usize,
    longest: &LongestWait,
    what: &str,
) -> Vec<Evidence> {
    let mut evidence = vec![
        Evidence::new(format!("time waited for {what}"), seconds, "s", SOURCE),
        Evidence::new("waits", waits as f64, "1", SOURCE),
    ];
    evidence.extend(longest_evidence(longest, "longest wait, as far as it was seen"));
    evidence
}

/// Names of processes: `a 1, b 2 and 3 more`.
pub fn list(measures: &Measures<'_>, pids: &BTreeSet<u32>) -> String {
    let shown: Vec<String> =
        (pids.iter().take(SHOWN_MAX)).map(|pid| words::who(&main_thread(measures, *pid))).collect();
    match pids.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
