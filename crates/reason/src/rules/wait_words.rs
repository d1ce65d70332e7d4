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

/// The process that itself stands in the wait that names an end, by name and container.
pub(crate) fn waiter(measures: &Measures<'_>, end: &End) -> String {
    measures.subject(&end.links[end.named].who)
}

/// The main holder of an end in words, with its container where that is not the waiter's.
pub(crate) fn holder_in_words(measures: &Measures<'_>, end: &End, unknown: &str) -> String {
    let waiter = &end.links[end.named].who;
    let holder = holder(measures, end);
    holder.map_or_else(|| unknown.to_string(), |who| measures.model.who_beside(&who, waiter))
}

/// The main holder of an end, by its present name.
pub(crate) fn holder(measures: &Measures<'_>, end: &End) -> Option<ThreadRef> {
    end.holder().map(|holder| present(measures.model, holder))
}

/// A process by its main thread and present name.
pub(crate) fn main_thread(measures: &Measures<'_>, pid: u32) -> ThreadRef {
    present(measures.model, &measures.model.threads.thread_ref(pid))
}

/// The longest wait for what names an end. What is inside a program is no object of its waits: there it is the one that
/// the chain shows.
pub(crate) fn longest(measures: &Measures<'_>, end: &End) -> LongestWait {
    let link = &end.links[end.named];
    let is_on_it = |wait: &&WaitSpan| match end.object {
        Object::Inside(_) | Object::Parked(_) => {
            let is_there = wait.begin_ns <= link.begin_ns && link.begin_ns < wait.end_ns;
            is_there && measures.model.threads.is_same(&wait.thread, &link.who)
        }
        _ => wait.object == end.object,
    };
    let of_class = measures.waits().filter(|wait| wait.class == end.class);
    LongestWait::of(measures.model, of_class.filter(is_on_it))
}

/// `has lasted at least 5.00 s`, `took 2.10 s`.
pub(crate) fn lasted(longest: &LongestWait) -> String {
    let did = if longest.standing { "has lasted" } else { "took" };
    format!("{did} {}", duration(longest))
}

/// The same of several waits that took so many seconds together: one long wait among short ones is said, and so is that
/// the sum leaves a part of it out.
pub(crate) fn lasted_of(longest: &LongestWait, seconds: f64) -> String {
    let lasted = lasted(longest);
    if longest.seconds > seconds {
        return format!("{lasted}, of which {} count here", words::seconds(seconds));
    }
    match longest.near {
        _ if longest.all < 2 => lasted,
        1 => format!("{lasted}, each other one less than half as long"),
        near if near == longest.all => lasted,
        near => format!("{lasted}, and {near} of them at least half as long"),
    }
}

/// What somebody does whose own timeout ended a wait for events or a condition: whether time was to pass, or what it waited for did
/// not come, is not known.
pub(crate) const AWAITS_TIMEOUT: &str = "waits for a timeout of its own";

/// The same, over answers.
pub(crate) const TIMED_OVER: &str = "waits for a timeout of its own over";

/// What somebody does over several answers, by the waits for them: `sleeps over each answer for 400 ms` only if they are
/// alike, `sleeps over 1 of 7 answers for 6.00 s` otherwise. Without the single waits their sum is all that can be said.
pub(crate) fn over_answers(over: &str, waits: &[f64], (answers, sum): (usize, f64)) -> String {
    let longest = waits.iter().copied().fold(0.0, f64::max);
    let near = waits.iter().filter(|one| **one * 2.0 >= longest).count();
    match waits.len() {
        0 | 1 => {
            let (many, all) = (words::count(answers, "answer", "answers"), words::seconds(sum));
            format!("{over} {many} for {all} altogether")
        }
        all if near == all => {
            let mean = waits.iter().sum::<f64>() / all as f64;
            format!("{over} each answer for {}", words::seconds(mean))
        }
        all => {
            let up_to = if near > 1 { "up to " } else { "" };
            format!("{over} {near} of {all} answers for {up_to}{}", words::seconds(longest))
        }
    }
}

/// `at least 5.00 s`, `2.10 s`.
pub(crate) fn duration(longest: &LongestWait) -> String {
    let least = if longest.at_least { "at least " } else { "" };
    format!("{least}{}", words::seconds(longest.seconds))
}

/// How long the longest wait was, and since when the thread may have stood there.
pub(crate) fn longest_evidence(longest: &LongestWait, fact: &str) -> Vec<Evidence> {
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
pub(crate) fn wait_evidence(
    seconds: f64,
    waits: usize,
    longest: &LongestWait,
    what: &str,
) -> Vec<Evidence> {
    let mut evidence = vec![Evidence::new(format!("time waited for {what}"), seconds, "s", SOURCE)];
    // Who works for others meanwhile waits without being seen to.
    if waits == 0 {
        return evidence;
    }
    evidence.push(Evidence::new("waits", waits as f64, "1", SOURCE));
    evidence.extend(longest_evidence(longest, "longest wait, as far as it was seen"));
    evidence
}

/// Names of processes: `a 1, b 2 and 3 more`.
pub(crate) fn list(measures: &Measures<'_>, pids: &BTreeSet<u32>) -> String {
    let shown: Vec<String> =
        (pids.iter().take(SHOWN_MAX)).map(|pid| words::who(&main_thread(measures, *pid))).collect();
    match pids.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_answer_among_short_ones_is_no_mean() {
        let said = |waits: &[f64]| over_answers("sleeps over", waits, (7, 6.0));
        assert_eq!(
            said(&[6.0, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0]),
            "sleeps over 1 of 7 answers for 6 s"
        );
        assert_eq!(said(&[2.0, 1.8, 0.1]), "sleeps over 2 of 3 answers for up to 2 s");
        assert_eq!(said(&[0.4, 0.41, 0.39]), "sleeps over each answer for 400 ms");
        assert_eq!(said(&[]), "sleeps over 7 answers for 6 s altogether");
    }

    #[test]
    fn the_longest_is_said_beside_a_sum_that_leaves_a_part_of_it_out() {
        let longest = LongestWait { seconds: 2.01, all: 20, near: 1, ..LongestWait::default() };
        assert_eq!(lasted_of(&longest, 2.0), "took 2.01 s, of which 2 s count here");
        assert_eq!(lasted_of(&longest, 2.5), "took 2.01 s, each other one less than half as long");
        assert_eq!(lasted_of(&LongestWait { near: 20, ..longest }, 30.0), "took 2.01 s");
    }
}
