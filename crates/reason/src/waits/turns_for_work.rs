//! A mutex that the workers of a pool have in turn, to take the next task while they have it: who waits for it waits for work.
//!
//! One worker stands at the queue with the mutex, and all others at the mutex (the pool of the Rust book, the threadpool crate; servers that accept under a
//! lock). It is no lock that holds anybody up: with a task the first goes off, and the next takes its place. It is known by where they stand, in the
//! function with which they were begun and in no other of the program's, the one at a queue and the other at the mutex, for nearly all of a wait. Whoever
//! is called by another function may be asked for an answer, as a client that has its connection's lock until the answer comes: that is held up.
//!
//! Must not: look at waits whose stack was not read to its end. Rejected: the word's value, which is that of any mutex. Edit together: user_stack.rs.

use super::WaitClass;
use super::span::WaitSpan;
use super::stretches::{common, joined};
use super::user_stack;
use crate::facts::{Ns, UserFrame};
use crate::model::Model;
use crate::model::object::Object;
use crate::programs::lock_kind::LockKind;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Of ten parts of all waits for the mutex so many are spent by others at the queue.
const TENTHS_MIN: u64 = 9;

/// A word of one process.
type Word<'a> = (u32, &'a Object);

/// The words of processes that are waited for as the turn to take a task.
pub(super) fn words<'a>(
    model: &Model,
    waits: impl Iterator<Item = &'a WaitSpan> + Clone,
) -> HashSet<(u32, Object)> {
    let is_wanted = |wait: &&WaitSpan| {
        wait.class == WaitClass::FutexLock && matches!(wait.object, Object::Futex { .. })
    };
    let mut wanted: HashMap<Word<'_>, Vec<&WaitSpan>> = HashMap::new();
    for wait in waits.clone().filter(is_wanted) {
        wanted.entry((wait.thread.pid, &wait.object)).or_default().push(wait);
    }
    let pids: HashSet<u32> = wanted.keys().map(|(pid, _)| *pid).collect();
    if pids.is_empty() {
        return HashSet::new();
    }
    let may_take = |wait: &&WaitSpan| {
        pids.contains(&wait.thread.pid)
            && matches!(wait.class, WaitClass::FutexWait | WaitClass::Idle)
    };
    let mut takers: HashMap<u32, Vec<&WaitSpan>> = HashMap::new();
    for wait in waits.filter(may_take) {
        takers.entry(wait.thread.pid).or_default().push(wait);
    }
    let is_turn = |(word, waiting): &(&Word<'_>, &Vec<&WaitSpan>)| {
        takers.get(&word.0).is_some_and(|takers| are_turns(model, waiting, takers))
    };
    wanted.iter().filter(is_turn).map(|((pid, object), _)| (*pid, (*object).clone())).collect()
}

/// Whether one of those who wait for a mutex began where those at a queue did, and these are there for nearly all of the waits. Short waits have no stack:
/// what a thread waits for in one place was seen once.
fn are_turns(model: &Model, waiting: &[&WaitSpan], takers: &[&WaitSpan]) -> bool {
    let frames = |wait: &&WaitSpan| stack(model, wait, &[LockKind::Mutex]);
    let Some(began) = waiting.iter().find_map(frames) else { return false };
    let is_beside = |taker: &&&WaitSpan| {
        let at = stack(model, taker, AT_A_QUEUE);
        at.is_some_and(|at| user_stack::part_where_they_began(at, began))
    };
    let at_queue: HashSet<(u32, &Object)> =
        takers.iter().filter(is_beside).map(|it| (it.thread.tid, &it.object)).collect();
    let is_there = |it: &&&WaitSpan| at_queue.contains(&(it.thread.tid, &it.object));
    let taken = joined(takers.iter().filter(is_there).map(|it| (it.begin_ns, it.end_ns)).collect());
    let mut by_thread: BTreeMap<u32, Vec<(Ns, Ns)>> = BTreeMap::new();
    for wait in waiting {
        by_thread.entry(wait.thread.tid).or_default().push((wait.begin_ns, wait.end_ns));
    }
    let (mut all_ns, mut taken_ns): (Ns, Ns) = (0, 0);
    for waited in by_thread.into_values().map(joined) {
        let ns = |of: &[(Ns, Ns)]| -> Ns { of.iter().map(|(from, to)| to - from).sum() };
        all_ns += ns(&waited);
        taken_ns += ns(&common(&waited, &taken));
    }
    taken_ns.saturating_mul(10) >= TENTHS_MIN * all_ns
}

/// What says that a thread waits for the next task; an event loop's and an accept's calls have no kind. A condition or a semaphore may be for what another
/// thread is to do: who waits for that with a mutex may hang for good, and so may all others.
const AT_A_QUEUE: &[LockKind] = &[LockKind::Channel, LockKind::Idle];

/// The whole stack of a wait, if it is for one of these.
fn stack<'m>(model: &'m Model, wait: &WaitSpan, kinds: &[LockKind]) -> Option<&'m [UserFrame]> {
    let stack = model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns)?;
    let place = &wait.place;
    let is_call = wait.class == WaitClass::Idle
        && (place.is_of_loop() || place.syscall.starts_with("accept"));
    let is_of_kind = match user_stack::kind(&stack.frames) {
        Some(kind) => kinds.contains(&kind),
        None => is_call,
    };
    (is_of_kind && stack.complete).then_some(&stack.frames)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// futex(2): FUTEX_WAIT_BITSET, private.
    const WAITS: u64 = 9 | 128;
    const LOCK: &str = "std::sys::sync::mutex::futex::Mutex::lock_contended";
    const RECV: &str = "std::sync::mpmc::list::Channel::recv";

    fn stands(tid: u32, word: u64, value: u64, functions: &[&str]) -> [Fact; 2] {
        let thread = ThreadRef { tid, ..thread(10, "shop") };
        let frame = |name: &&str| UserFrame {
            function: (*name).into(),
            module: "shop".into(),
            ..UserFrame::default()
        };
        let frames = functions.iter().map(frame).collect();
        let stack = UserStack { thread: thread.clone(), since_ns: 0, frames, complete: true };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [word, WAITS, value, 0, 0, 0],
            ..Place::default()
        };
        let blocked = Blocked { thread, place, ..Blocked::default() };
        [
            Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) },
            Fact { at_ns: LOOK_NS / 2, body: Body::UserStack(stack) },
        ]
    }

    fn codes(takes: &[&str], waits: &[&str]) -> Vec<String> {
        let taker = stands(11, 0x9000, 0, takes);
        let others = (12..15).flat_map(|tid| stands(tid, 0x7000, 2, waits));
        let facts = [host(), taker.to_vec(), others.collect()].concat();
        explain(facts).findings.into_iter().map(|it| it.code).collect()
    }

    #[test]
    fn workers_that_take_the_next_task_in_turn_rest() {
        let (worker, call) = ("shop::main::{{closure}}", "shop::Client::call");
        assert!(codes(&[RECV, worker], &[LOCK, worker]).is_empty(), "a pool at rest");
        let begin = "std::sys::backtrace::__rust_begin_short_backtrace";
        assert!(codes(&[RECV, begin], &[LOCK, begin]).is_empty(), "optimised");
        let whole = [worker, begin, "__rust_try", "std::thread::start"];
        let stack = |inner| [&[inner][..], &whole].concat();
        assert!(codes(&stack(RECV), &stack(LOCK)).is_empty(), "not optimised");
        let held = ["lock.futex"];
        assert_eq!(codes(&[RECV, "shop::other"], &[LOCK, worker]), held, "another's queue");
        let condition = "std::sys::sync::condvar::futex::Condvar::wait";
        assert_eq!(
            codes(&[condition, worker], &[LOCK, worker]),
            held,
            "it may hang with the mutex"
        );
        assert_eq!(codes(&[RECV, call, worker], &[LOCK, call, worker]), held, "an answer");
    }
}
