//! Who has a file lock, by the kernel's table, and which thread of theirs matters.
//!
//! A lock is held by processes, and by all at once that have its open file description: it is free when the last lets go. The
//! table's own number is no holder (facts: FileLock). Of several the one that outlives the wait and does something, whoever took
//! it first; of a process its main thread, unless that waits for events or for other threads while another thread, or a
//! child, works, lacks a CPU, or is held up. Must not: take whoever ran at the wake-up for the holder (waker.rs).

use crate::facts::{FileLock, Ns, ObjectRef, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::busiest_with;
use crate::graph::wakers::waker;
use crate::graph::ways::way::Way;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::HashMap;

/// A reading is of a wait up to so long after it.
static READ_AFTER_MAX: Threshold = Threshold::new(
    1.0,
    "ms",
    "from the end of a wait to the reading of the lock table: a later one may already have the next holder",
    "chosen: the table is read in less",
);

/// A reading says of a wait that nobody was seen to end who has the lock, up to so long before or after it.
static READ_APART_MAX: Threshold = Threshold::new(
    1500.0,
    "ms",
    "from a reading of the lock table to a wait that has none within it: what is further away is another time",
    "the table is read each second, and a little later on a crowded host",
);

/// A thread that does something beside a main thread that waits.
static BUSY_PARTS: Threshold = Threshold::new(
    4.0,
    "1",
    "one part in so many of the time is what another thread of a resting holder must do something in: less is what any process does",
    "chosen: beside a main thread that waits for others most of the time",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "lock table",
    because: "the lock belongs to an open file description that it has",
    of: &[WaitClass::FileLock],
    thresholds: &[&READ_AFTER_MAX, &READ_APART_MAX, &BUSY_PARTS],
    follow: |at| lock_holder(at.index, at.wait).map(Next::Thread),
};

/// The lock table: the holder of a lock on the same file, at a reading within the wait.
fn lock_holder(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let file = match &wait.place.object {
        Some(ObjectRef::File(file)) => (file.dev, file.ino),
        _ => crate::waits::objects::unseen_lock(index.model, wait).map(|l| (l.dev, l.ino))?,
    };
    let of_file = || {
        let locks = index.model.held.locks.iter();
        locks.filter(|(_, lock)| (lock.dev, lock.ino) == file)
    };
    // A reading that has the waiter says which of the file's locks it waits for.
    let own = |lock: &FileLock| lock.blocked && lock.pid == i64::from(wait.thread.pid);
    let waited: HashMap<Ns, u64> =
        of_file().filter(|(_, lock)| own(lock)).map(|(at, lock)| (*at, lock.id)).collect();
    // Before the wait somebody else may have had it: then who was seen to let go is asked for.
    let is_seen_to_end = waker(index, wait).is_some();
    let mut best: Option<(Ns, Vec<ThreadRef>)> = None;
    for (at, lock) in of_file() {
        if lock.blocked || waited.get(at).is_some_and(|id| *id != lock.id) {
            continue;
        }
        let apart_ns = wait
            .begin_ns
            .saturating_sub(*at)
            .max(at.saturating_sub(wait.end_ns + READ_AFTER_MAX.ns()));
        if apart_ns > 0 && (is_seen_to_end || apart_ns > READ_APART_MAX.ns()) {
            continue;
        }
        let others = others_with(index, wait, lock);
        if !others.is_empty() && best.as_ref().is_none_or(|(known, _)| apart_ns < *known) {
            best = Some((apart_ns, others));
        }
    }
    acting(index, wait, best?.1)
}

/// Who has a lock beside the waiter's own process, by their present names: those first that did not end before the wait.
pub(super) fn others_with(index: &Index<'_>, wait: &WaitSpan, lock: &FileLock) -> Vec<ThreadRef> {
    let present = |process: ThreadRef| {
        let known = index.model.threads.present(&process);
        if known.comm.is_empty() { process } else { known }
    };
    let others = lock.carriers().into_iter().filter(|it| it.pid != wait.thread.pid);
    let mut others: Vec<ThreadRef> = others.map(present).collect();
    let ended = |process: &ThreadRef| {
        let died_ns = index.families.died_ns(index.model.threads.key(process));
        died_ns.is_some_and(|at_ns| at_ns < wait.end_ns)
    };
    others.sort_by_key(ended);
    others
}

/// The thread of some processes that have a lock together which acts meanwhile.
pub(super) fn acting(
    index: &Index<'_>,
    wait: &WaitSpan,
    processes: Vec<ThreadRef>,
) -> Option<ThreadRef> {
    let within =
        (wait.begin_ns.max(index.model.look.begin_ns), wait.end_ns.min(index.model.look.end_ns));
    let waker = waker(index, wait);
    let mut resting = None;
    for main in processes {
        // Who let go of it had it, if it is a thread of theirs.
        let own = waker.clone().filter(|by| by.pid == main.pid).unwrap_or(main);
        if !awaits_others(index, &own, within) {
            return Some(own);
        }
        let busiest = busiest_with(index, &own, within, BUSY_PARTS.whole());
        if busiest.is_some() {
            return busiest;
        }
        resting = resting.or(Some(own));
    }
    resting
}

/// Whether a thread waits for events or for other threads most of the time.
fn awaits_others(index: &Index<'_>, thread: &ThreadRef, (from, to): (Ns, Ns)) -> bool {
    let rests = |wait: &&WaitSpan| matches!(wait.class, WaitClass::Idle | WaitClass::FutexWait);
    let waits = index.waits.within(thread, from, to).iter().filter(rests);
    let rest_ns: Ns = waits.map(|wait| wait.within_ns(from, to)).sum();
    rest_ns * 2 > to.saturating_sub(from)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::ways::held::holder as held_by;
    use crate::rules::scenes::{LOOK_NS, at_place, file_lock, host, thread};
    use crate::waits::timeline::Observed;

    const FILE: (DeviceNumber, u64) = (DeviceNumber { major: 8, minor: 1 }, 99);

    fn lock(pid: i64, holders: Vec<ThreadRef>) -> Fact {
        let lock = FileLock { pid, comm: String::new(), ..file_lock(1, FILE, &holders) };
        Fact { at_ns: LOOK_NS, body: Body::FileLock(lock) }
    }

    fn stands(thread: ThreadRef, syscall: &str) -> Fact {
        let place = Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
        let blocked = Blocked { thread, place, ..Blocked::default() };
        Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
    }

    /// Which thread has the lock that process 10 waits for all the while.
    fn holder(more: Vec<Fact>) -> Option<u32> {
        let file = FileRef { dev: FILE.0, ino: FILE.1, ..FileRef::default() };
        let object = Some(ObjectRef::File(file));
        let place =
            Place { state: WaitState::Sleep, syscall: "flock".into(), object, ..Place::default() };
        let mut facts = host();
        facts.push(at_place(10, "flock", place));
        facts.extend(more);
        let Observed { model, timelines } = Observed::new(facts);
        let index = Index::new(&model, &timelines);
        let wait = index.waits.at(&thread(10, "flock"), LOOK_NS / 2)?;
        held_by(&index, wait).map(|thread| thread.tid)
    }

    fn of_build(tid: u32) -> ThreadRef {
        ThreadRef { tid, pid: 20, start_ns: 1, comm: "build".into() }
    }

    #[test]
    fn of_a_holder_whose_main_thread_awaits_others_the_thread_that_lacks_a_cpu_matters() {
        let ready =
            Wait { thread: of_build(22), end_ns: LOOK_NS, throttled: true, ..Wait::default() };
        let held = || lock(20, vec![of_build(20)]);
        let ready = Fact { at_ns: LOOK_NS, body: Body::Wait(ready) };
        let idle = |tid| stands(of_build(tid), "futex");
        assert_eq!(holder(vec![held(), idle(20), idle(21), ready.clone()]), Some(22));
        assert_eq!(holder(vec![held(), idle(20), idle(21)]), Some(20), "none does anything");
        let sleeps = stands(of_build(20), "clock_nanosleep");
        assert_eq!(holder(vec![held(), sleeps, ready]), Some(20), "it sleeps under the lock");
    }

    #[test]
    fn a_number_in_the_table_is_nobody() {
        assert_eq!(holder(vec![lock(400, Vec::new())]), None);
        let reused = stands(thread(400, "other"), "wait4");
        assert_eq!(holder(vec![lock(400, vec![thread(30, "sh")]), reused]), Some(30));
    }

    #[test]
    fn of_two_that_have_it_the_one_that_outlives_the_wait_matters() {
        let exit = Exit { thread: thread(30, "sh"), last: true, code: None };
        let exit = Fact { at_ns: LOOK_NS / 2, body: Body::Exit(exit) };
        let both = || lock(400, vec![thread(30, "sh"), thread(31, "sleep")]);
        assert_eq!(holder(vec![both()]), Some(30));
        assert_eq!(holder(vec![both(), exit]), Some(31));
    }

    /// A line of the table with a number, read at a time: held by a process, or waited for by number 10.
    fn line(id: u64, holder: Option<u32>, at_ns: Ns) -> Fact {
        let of = |pid: u32| ThreadRef { start_ns: 1, ..thread(pid, "job") };
        let mut fact = lock(holder.map_or(10, i64::from), holder.map(of).into_iter().collect());
        fact.at_ns = at_ns;
        if let Body::FileLock(lock) = &mut fact.body {
            (lock.id, lock.blocked) = (id, holder.is_none());
        }
        fact
    }

    #[test]
    fn of_several_locks_of_a_file_the_one_that_is_waited_for_counts() {
        let read = |waits_for| {
            let mut facts = vec![line(1, Some(20), LOOK_NS), line(2, Some(30), LOOK_NS)];
            facts.push(line(waits_for, None, LOOK_NS));
            holder(facts)
        };
        assert_eq!((read(1), read(2)), (Some(20), Some(30)));
    }

    /// Process 10 waits for the last tenth of a second of a look; the table was read so long before, and somebody was seen to let go.
    fn waits_late(read_ns: Ns, by: Option<u32>) -> Option<u32> {
        let file = FileRef { dev: FILE.0, ino: FILE.1, ..FileRef::default() };
        let object = Some(ObjectRef::File(file));
        let place =
            Place { state: WaitState::Sleep, syscall: "flock".into(), object, ..Place::default() };
        let (begin_ns, end_ns) = (LOOK_NS - 200_000_000, LOOK_NS - 100_000_000);
        let by = by.map_or_else(ThreadRef::default, |pid| thread(pid, "job"));
        let context = if by.pid == 0 { WakeContext::Unknown } else { WakeContext::Task };
        let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
        let wait =
            Wait { thread: thread(10, "flock"), begin_ns, end_ns, place, wake, ..Wait::default() };
        let facts = [
            host(),
            vec![line(1, Some(20), read_ns), Fact { at_ns: end_ns, body: Body::Wait(wait) }],
        ];
        let Observed { model, timelines } = Observed::new(facts.concat());
        let index = Index::new(&model, &timelines);
        held_by(&index, timelines.waits().next()?).map(|thread| thread.tid)
    }

    #[test]
    fn a_reading_before_the_wait_says_nothing_against_who_was_seen_to_let_go() {
        let soon = LOOK_NS - 900_000_000;
        assert_eq!(waits_late(soon, Some(30)), Some(30));
        assert_eq!(waits_late(soon, None), Some(20), "nobody was seen");
        assert_eq!(waits_late(LOOK_NS - 4_000_000_000, None), None, "long ago");
    }
}
