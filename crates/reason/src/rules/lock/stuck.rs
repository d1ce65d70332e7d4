//! Processes in which nobody is left who could let go of a lock: every thread waits for a word of the process's own memory,
//! without a time limit, and two of them or more for locks.
//!
//! Most locks of languages say nothing of their owner, so no circle of owners can be read. But who has such a lock is a thread
//! of the process, or gone; if all of them stand, none will let go, however the circle runs. Only a handler of a signal could, so
//! the program's own functions must say that it is a lock: a condition may be what the handler signals.
//!
//! Must not: count a word that other processes share, or a thread of which nothing was seen. Edit together: deadlock.rs.

use crate::facts::Ns;
use crate::measure::Measures;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack;
use std::collections::{BTreeMap, BTreeSet};

/// How long all of them have stood: a program that rests for a moment does the same.
const STOOD_NS_MIN: Ns = 1_000_000_000;
/// The threads are read one after another as the look ends.
const AT_THE_END_NS: Ns = 100_000_000;

/// Of the operation of futex(2): the word is the process's own; the rest of it but for the clock; waiting in its two forms, and for
/// a lock with an owner.
const PRIVATE: u64 = 128;
const OPERATION: u64 = 127;
const WAITS: [u64; 3] = [0, 9, 6];

/// The waits of all threads of a process.
pub(super) struct Stuck<'m> {
    /// For locks.
    pub locks: Vec<&'m WaitSpan>,
    /// For anything else inside it: the end of a thread, a condition.
    pub others: Vec<&'m WaitSpan>,
}

/// Each such process.
pub(super) fn processes<'m>(measures: &'m Measures<'m>) -> Vec<Stuck<'m>> {
    let model = measures.model;
    let mut standing: BTreeMap<u32, BTreeMap<u32, &WaitSpan>> = BTreeMap::new();
    for wait in measures.waits().filter(|wait| stands_for_good(measures, wait)) {
        standing.entry(wait.thread.pid).or_default().insert(wait.thread.tid, wait);
    }
    let mut threads: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let alive = model
        .threads
        .times
        .iter()
        .filter(|time| time.until_ns + AT_THE_END_NS >= model.look.end_ns);
    for time in alive.filter(|time| standing.contains_key(&time.thread.pid)) {
        threads.entry(time.thread.pid).or_default().insert(time.thread.tid);
    }
    let all_stand = |(pid, waits): (u32, BTreeMap<u32, &'m WaitSpan>)| {
        let known = threads.get(&pid)?;
        if !known.iter().eq(waits.keys()) {
            return None;
        }
        let (locks, others): (Vec<&WaitSpan>, Vec<&WaitSpan>) =
            waits.into_values().partition(|wait| is_for_a_lock(measures, wait));
        let words: BTreeSet<u64> = locks.iter().map(|wait| wait.place.args[0]).collect();
        (words.len() > 1).then_some(Stuck { locks, others })
    };
    standing.into_iter().filter_map(all_stand).collect()
}

fn stands_for_good(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    let place = &wait.place;
    let [_, operation, _, timeout, ..] = place.args;
    wait.standing
        && place.syscall == "futex"
        && operation & PRIVATE != 0
        && WAITS.contains(&(operation & OPERATION))
        && timeout == 0
        && measures.concerns(&wait.thread)
        && wait.end_ns.saturating_sub(wait.begin_ns) >= STOOD_NS_MIN
}

fn is_for_a_lock(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    let stack = measures.model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    let says_so = stack.is_some_and(|stack| user_stack::is_held_up(&stack.frames, false));
    wait.class == WaitClass::FutexLock && says_so
}
