//! Who let go of a lock: the task that ended the wait.
//!
//! Who lets go of it had it last. Below the tables, which say who has it while it is held; a stuck holder wakes nobody. Must not: believe
//! a kernel worker that only brings somebody else's answer.

use crate::graph::next::Next;
use crate::graph::wakers::waker;
use crate::graph::ways::way::{Waiter, Way};
use crate::model::kernel_threads::is_worker;
use crate::waits::WaitClass::{FileLock, FutexLock, FutexWait, KernelLock};

/// The way.
pub(super) static WAY: Way = Way {
    name: "waker",
    because: "it ended the wait",
    of: &[FileLock, FutexLock, FutexWait, KernelLock],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let by = waker(at.index, at.wait)?;
    // A worker that wakes only brings the answer of somebody else.
    let only_brings = at.wait.class == FileLock && is_worker(&by);
    (!only_brings).then_some(Next::Thread(by))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{LOCK, NO_ARGS, ended, led, of_ten, place};
    use crate::rules::scenes::thread;

    #[test]
    fn who_let_go_of_a_lock_had_it_and_a_worker_only_brings_the_answer() {
        let lock = || ended(of_ten(10), place("futex", LOCK, None), of_ten(12), WakeContext::Task);
        assert_eq!(led(vec![lock()]), ("waker", Some(12)));
        let by = |name: &str| {
            let at = place("flock", NO_ARGS, None);
            led(vec![ended(of_ten(10), at, thread(30, name), WakeContext::Task)])
        };
        assert_eq!(by("backup"), ("waker", Some(30)));
        assert_eq!(by("kworker/0:1"), ("", None));
    }
}
