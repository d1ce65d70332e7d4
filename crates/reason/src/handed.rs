//! Locks that do not look like one: futex words that are handed from thread to thread.
//!
//! Mutexes of glibc and Rust say "locked, with waiters" by their value. Python's locks, and all that are built of a
//! semaphore or a condition, do not: their waiters look like workers that wait for work. What tells them apart is who
//! lets go. Work is handed out by somebody who does not wait for it; a lock by whoever has just got it, to the
//! next in line, one at a time.
//!
//! Must not: name holders (peers.rs takes the thread that let go). Rejected: any word whose waker has waited on it
//! too (the last to arrive at a barrier has, and so has a worker that hands on a task now and then).

use crate::facts::{Ns, WakeContext};
use crate::timeline::WaitSpan;
use crate::waits::WaitClass;
use std::collections::{HashMap, HashSet};

/// A process and the address of a word in its memory.
pub type Word = (u32, u64);

/// Wakes by one thread so close together are one call that wakes many.
const ONE_CALL_NS: Ns = 50_000;
/// Fewer handovers may be chance.
const HANDOVERS_MIN: usize = 5;
/// Part of the handovers after which whoever got it must let go to the next.
const HANDED_ON: f64 = 0.8;

#[derive(Clone, Copy)]
struct Handover {
    at_ns: Ns,
    from: u32,
    to: u32,
}

/// The words that are handed from waiter to waiter.
pub fn locks<'a>(waits: impl Iterator<Item = &'a WaitSpan>) -> HashSet<Word> {
    let mut by_word: HashMap<Word, Vec<&WaitSpan>> = HashMap::new();
    for wait in waits.filter(|wait| wait.class == WaitClass::FutexWait && !wait.kernel) {
        by_word.entry((wait.thread.pid, wait.place.args[0])).or_default().push(wait);
    }
    by_word.into_iter().filter(|(_, waits)| is_handed(waits)).map(|(word, _)| word).collect()
}

fn is_handed(waits: &[&WaitSpan]) -> bool {
    let mut handovers: Vec<Handover> = waits.iter().filter_map(|wait| handover(wait)).collect();
    handovers.sort_unstable_by_key(|handover| handover.at_ns);
    let many = handovers
        .windows(2)
        .filter(|two| two[0].from == two[1].from && two[1].at_ns - two[0].at_ns < ONE_CALL_NS)
        .count();
    if handovers.len() < HANDOVERS_MIN || many * 5 > handovers.len() {
        return false;
    }
    let told: Vec<bool> =
        handovers.iter().filter_map(|one| hands_on(waits, &handovers, one)).collect();
    let handed_on = told.iter().filter(|on| **on).count();
    told.len() >= HANDOVERS_MIN && handed_on as f64 >= HANDED_ON * told.len() as f64
}

fn handover(wait: &WaitSpan) -> Option<Handover> {
    let wake = wait.wake.as_ref()?;
    let within = wake.context == WakeContext::Task && wake.by.pid == wait.thread.pid;
    within.then_some(Handover { at_ns: wake.at_ns, from: wake.by.tid, to: wait.thread.tid })
}

/// Whether the thread that got it let go to the next. None if nobody was left to let go to, or the look ended first.
fn hands_on(waits: &[&WaitSpan], handovers: &[Handover], one: &Handover) -> Option<bool> {
    let stands = |wait: &&&WaitSpan| {
        wait.thread.tid != one.to
            && wait.begin_ns < one.at_ns
            && wait.end_ns > one.at_ns + ONE_CALL_NS
    };
    waits.iter().find(stands)?;
    let again = waits
        .iter()
        .filter(|wait| wait.thread.tid == one.to && wait.begin_ns > one.at_ns)
        .map(|wait| wait.begin_ns)
        .min();
    let lets_go = handovers
        .iter()
        .filter(|next| next.from == one.to && next.at_ns > one.at_ns)
        .map(|next| next.at_ns)
        .min();
    match (lets_go, again) {
        (Some(lets_go), Some(again)) => Some(lets_go <= again),
        (Some(_), None) => Some(true),
        (None, Some(_)) => Some(false),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::cases::process_tests::*;
    use crate::facts::*;
    use crate::judge::explain;

    const MS: Ns = 1_000_000;

    fn member(tid: u32) -> ThreadRef {
        ThreadRef { tid, pid: 10, start_ns: 1, comm: "python3".into() }
    }

    fn wait(tid: u32, by: u32, begin_ms: u64, end_ms: u64) -> Fact {
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [0x7000, 393, 0, 0, 0, 0],
            ..Place::default()
        };
        let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
        let wake =
            Wake { at_ns: end_ns, context: WakeContext::Task, by: member(by), ..Wake::default() };
        let thread = member(tid);
        let wait = Wait { thread, begin_ns, end_ns, place, wake: Some(wake), ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    fn codes(waits: Vec<Fact>) -> Vec<String> {
        let mut facts = host();
        facts.extend(waits);
        explain(facts).findings.into_iter().map(|finding| finding.code).collect()
    }

    /// Three threads in turn, each with it for a tenth of a second, while the other two wait.
    #[test]
    fn a_word_that_goes_round_is_a_lock() {
        let turn =
            |n: u64| wait(11 + (n % 3) as u32, 11 + ((n + 2) % 3) as u32, n * 100, n * 100 + 200);
        assert_eq!(codes((0..40).map(turn).collect()), ["lock.futex"]);
    }

    #[test]
    fn workers_that_one_thread_hands_tasks_to_wait_for_work() {
        let task = |n: u64| wait(11 + (n % 3) as u32, 10, n * 100, n * 100 + 200);
        assert!(codes((0..40).map(task).collect()).is_empty());
    }

    #[test]
    fn the_last_at_a_barrier_wakes_all_and_holds_no_lock() {
        let mut waits = Vec::new();
        for round in 0..20u64 {
            let last = 11 + (round % 3) as u32;
            let others = (11..14).filter(|tid| *tid != last);
            waits.extend(others.map(|tid| wait(tid, last, round * 200, round * 200 + 190)));
        }
        assert!(codes(waits).is_empty());
    }
}
