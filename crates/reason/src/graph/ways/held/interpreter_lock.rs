//! The lock of an interpreter: another thread that had it when it was read.
//!
//! Within the wait a reading is as good as a table of the kernel; a little before or after it is worth less than whoever ended the
//! wait, and comes behind that in the ladder. Must not: say what the holder does with it.

use crate::facts::{Ns, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// A reading is of a wait up to so far away.
static READ_AWAY_MAX: Threshold = Threshold::new(
    150.0,
    "ms",
    "from a wait to the reading of who has the lock: a reading further away is of another turn",
    "chosen: about the time between two readings",
);

/// By a reading within the wait.
pub(super) static WITHIN: Way = Way {
    name: "interpreter",
    because: "the interpreter's own memory says that it had the lock meanwhile",
    of: &[WaitClass::FutexLock],
    thresholds: &[],
    follow: |at| met(at, 0),
};

/// By a reading near it.
pub(super) static NEARBY: Way = Way {
    name: "interpreter, nearby",
    because: "the interpreter's own memory says that it had the lock just before or after",
    of: &[WaitClass::FutexLock],
    thresholds: &[&READ_AWAY_MAX],
    follow: |at| met(at, READ_AWAY_MAX.ns()),
};

fn met(at: &Waiter<'_>, away_ns: Ns) -> Option<Next> {
    let holder = || interpreter_holder(at.index, at.wait, away_ns).map(Next::Thread);
    at.is_for_an_interpreter().then(holder).flatten()
}

/// Another thread that had the interpreter's lock when it was read within the wait, or not longer before or after it; of
/// several readings by the nearest to the end.
fn interpreter_holder(index: &Index<'_>, wait: &WaitSpan, away_ns: Ns) -> Option<ThreadRef> {
    let read = index.model.stacks.interpreter_locks.get(&wait.thread.pid)?;
    let within = wait.begin_ns.saturating_sub(away_ns)..=wait.end_ns.saturating_add(away_ns);
    let others = read.iter().filter(|(at_ns, lock)| {
        let is_other = lock.holder_tid != 0 && lock.holder_tid != wait.thread.tid;
        is_other && within.contains(at_ns)
    });
    let (at_ns, lock) = others.min_by_key(|(at_ns, _)| at_ns.abs_diff(wait.end_ns))?;
    Some(index.model.threads.of_process_at(lock.holder_tid, *at_ns, &wait.thread))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{LOCK, led, of_ten, place, stands};
    use crate::rules::scenes::LOOK_NS;

    #[test]
    fn who_had_it_at_a_reading_within_the_wait_is_it() {
        let lock = |holder_tid| {
            let (begin, end) = (0x7000, 0x7010);
            let lock =
                InterpreterLock { pid: 10, begin, end, holder_tid, ..InterpreterLock::default() };
            Fact { at_ns: LOOK_NS / 2, body: Body::InterpreterLock(lock) }
        };
        let waits = || stands(of_ten(10), place("futex", LOCK, None));
        assert_eq!(led(vec![lock(12), waits()]), ("interpreter", Some(12)));
        assert_ne!(led(vec![lock(0), waits()]).0, "interpreter", "nobody had it");
    }
}
