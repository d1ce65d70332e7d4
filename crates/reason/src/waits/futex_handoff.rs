//! Locks that do not look like one: futex words that are handed from thread to thread.
//!
//! Mutexes of glibc and Rust say "locked, with waiters" by their value. Python's locks, and all that are built of a
//! semaphore or a condition, do not: their waiters look like workers that wait for work. What tells them apart is who
//! lets go. Work is handed out by somebody who does not wait for it; a lock by whoever has just got it, to the
//! next in line, one at a time. And a lock is held by somebody all the while that others wait for it: not by who has
//! come back to wait, nor by who is blocked elsewhere since before it was last handed on and then lets go of it.
//! (Python's own work queue hands a semaphore from idle worker to idle worker just so.)
//!
//! Must not: name holders (peers.rs takes the thread that let go). Rejected: any word whose waker has waited on it
//! too (the last to arrive at a barrier has, and so has a worker that hands on a task now and then).

use crate::facts::{Ns, WakeContext};
use crate::model::{Model, ThreadKey};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::span::WaitSpan;
use std::collections::{HashMap, HashSet};

/// A process and the address of a word in its memory.
pub(super) type Word = (u32, u64);

/// Wakes by one thread so close together are one call that wakes many.
const ONE_CALL_NS: Ns = 50_000;
/// Fewer handovers may be chance.
const HANDOVERS_MIN: usize = 5;
/// Part of the handovers after which whoever got it must let go to the next.
static HANDED_ON_MIN: Threshold = Threshold::new(
    0.8,
    "1",
    "part of the handovers after which whoever got it lets go to the next: of an event that is signalled less do",
    "chosen",
);
/// Part of the handovers that no lock allows; what comes out of order by chance is far less.
static HELD_BY_NOBODY_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "part of the handovers that no lock allows: what comes out of order by chance is far less",
    "chosen",
);
/// Many wakes of one call are those of an event.
static MANY_PARTS: Threshold = Threshold::new(
    5.0,
    "1",
    "one part in so many of the handovers that are of one call which wakes several: with more it is an event",
    "chosen",
);

#[derive(Clone, Copy)]
struct Handover {
    at_ns: Ns,
    from: ThreadKey,
    to: ThreadKey,
}

/// The words that are handed from waiter to waiter.
pub(super) fn locks<'a>(
    model: &Model,
    all: impl Iterator<Item = &'a WaitSpan> + Clone,
) -> HashSet<Word> {
    let mut by_word: HashMap<Word, Waits<'a>> = HashMap::new();
    for wait in all.clone().filter(|wait| wait.class == WaitClass::FutexWait && !wait.kernel) {
        by_word.entry((wait.thread.pid, wait.place.args[0])).or_default().push(model, wait);
    }
    by_word.retain(|_, waits| {
        waits.sort();
        is_handed(waits, &waits.handovers(model))
    });
    by_word.retain(|word, waits| {
        !is_held_by_nobody(waits, &waits.handovers(model), &elsewhere(model, all.clone(), *word))
    });
    by_word.into_keys().collect()
}

/// Waits by thread, each thread's in order of time; those of one thread do not overlap.
#[derive(Default)]
struct Waits<'a>(HashMap<ThreadKey, Vec<&'a WaitSpan>>);

impl<'a> Waits<'a> {
    fn push(&mut self, model: &Model, wait: &'a WaitSpan) {
        self.0.entry(model.threads.key(&wait.thread)).or_default().push(wait);
    }

    fn sort(&mut self) {
        self.0.values_mut().for_each(|waits| waits.sort_unstable_by_key(|wait| wait.begin_ns));
    }

    /// The first wait of a thread that begins after a time.
    fn next(&self, who: ThreadKey, after_ns: Ns) -> Option<&'a WaitSpan> {
        let waits = self.0.get(&who)?;
        waits.get(waits.partition_point(|wait| wait.begin_ns <= after_ns)).copied()
    }

    /// The wait of a thread that has begun before a time, or then, the last such.
    fn begun(&self, who: ThreadKey, at_ns: Ns) -> Option<&'a WaitSpan> {
        let waits = self.0.get(&who)?;
        let after = waits.partition_point(|wait| wait.begin_ns <= at_ns);
        after.checked_sub(1).and_then(|at| waits.get(at).copied())
    }

    /// In order of time.
    fn handovers(&self, model: &Model) -> Vec<Handover> {
        let mut handovers: Vec<Handover> =
            self.0.values().flatten().filter_map(|wait| handover(model, wait)).collect();
        handovers.sort_unstable_by_key(|handover| (handover.at_ns, handover.to));
        handovers
    }
}

/// What the threads of a process wait for but the word.
fn elsewhere<'a>(
    model: &Model,
    all: impl Iterator<Item = &'a WaitSpan>,
    (pid, address): Word,
) -> Waits<'a> {
    let on_word =
        |wait: &WaitSpan| wait.class == WaitClass::FutexWait && wait.place.args[0] == address;
    let mut waits = Waits::default();
    all.filter(|wait| wait.thread.pid == pid && !on_word(wait))
        .for_each(|wait| waits.push(model, wait));
    waits.sort();
    waits
}

/// Whether somebody lets go of the word, again and again, who cannot have got it since it was last handed on, while
/// who got it then has come back to wait.
fn is_held_by_nobody(waits: &Waits<'_>, handovers: &[Handover], elsewhere: &Waits<'_>) -> bool {
    let impossible = |before: &Handover, next: &Handover| {
        let again = waits.next(before.to, before.at_ns)?.begin_ns;
        let blocked = elsewhere.begun(next.from, before.at_ns)?;
        let got = waits.begun(next.to, next.at_ns)?;
        // The next in line stood there while nobody had it.
        let stood = got.begin_ns + ONE_CALL_NS < blocked.end_ns;
        let between = again < blocked.end_ns && blocked.end_ns <= next.at_ns;
        Some(next.from != before.to && between && stood)
    };
    let count =
        handovers.windows(2).filter(|two| impossible(&two[0], &two[1]).unwrap_or(false)).count();
    count >= HANDOVERS_MIN && count as f64 >= HELD_BY_NOBODY_MIN.value * handovers.len() as f64
}

fn is_handed(waits: &Waits<'_>, handovers: &[Handover]) -> bool {
    let many = handovers
        .windows(2)
        .filter(|two| two[0].from == two[1].from && two[1].at_ns - two[0].at_ns < ONE_CALL_NS)
        .count();
    if handovers.len() < HANDOVERS_MIN || many * MANY_PARTS.count() > handovers.len() {
        return false;
    }
    let mut gives: HashMap<ThreadKey, Vec<Ns>> = HashMap::new();
    for handover in handovers {
        gives.entry(handover.from).or_default().push(handover.at_ns);
    }
    let reported: Vec<bool> =
        handovers.iter().filter_map(|one| hands_on(waits, &gives, one)).collect();
    let handed_on = reported.iter().filter(|on| **on).count();
    reported.len() >= HANDOVERS_MIN
        && handed_on as f64 >= HANDED_ON_MIN.value * reported.len() as f64
}

fn handover(model: &Model, wait: &WaitSpan) -> Option<Handover> {
    let wake = wait.wake.as_ref()?;
    let within = wake.context == WakeContext::Task && wake.by.pid == wait.thread.pid;
    within.then_some(Handover {
        at_ns: wake.at_ns,
        from: model.threads.key(&wake.by),
        to: model.threads.key(&wait.thread),
    })
}

/// Whether the thread that got it let go to the next, by who gives when. None if nobody was left to let go to, or the
/// look ended first.
fn hands_on(
    waits: &Waits<'_>,
    gives: &HashMap<ThreadKey, Vec<Ns>>,
    one: &Handover,
) -> Option<bool> {
    let stands = |who: &&ThreadKey| {
        let wait = waits.begun(**who, one.at_ns.saturating_sub(1));
        **who != one.to && wait.is_some_and(|wait| wait.end_ns > one.at_ns + ONE_CALL_NS)
    };
    waits.0.keys().find(stands)?;
    let again = waits.next(one.to, one.at_ns).map(|wait| wait.begin_ns);
    let lets_go = gives
        .get(&one.to)
        .and_then(|times| times.get(times.partition_point(|at_ns| *at_ns <= one.at_ns)).copied());
    match (lets_go, again) {
        (Some(lets_go), Some(again)) => Some(lets_go <= again),
        (Some(_), None) => Some(true),
        (None, Some(_)) => Some(false),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

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

    /// Two idle workers of Python's pool: a task wakes the one, who wakes the other, who finds nothing and waits again,
    /// while the thread that hands out tasks sleeps.
    #[test]
    fn a_semaphore_that_nobody_has_while_its_giver_sleeps_is_no_lock() {
        let mut facts = Vec::new();
        for round in 0..40u64 {
            let at = round * 100;
            let (first, second) = if round % 2 == 0 { (11, 12) } else { (12, 11) };
            facts.push(wait(first, 10, at + 4, at + 100));
            facts.push(wait(second, first, at + 6, at + 102));
            let place = Place {
                state: WaitState::Sleep,
                syscall: "clock_nanosleep".into(),
                ..Place::default()
            };
            let (thread, begin_ns, end_ns) = (member(10), (at + 1) * MS, (at + 99) * MS);
            let sleep = Wait { thread, begin_ns, end_ns, place, ..Wait::default() };
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(sleep) });
        }
        assert!(codes(facts).is_empty());
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
