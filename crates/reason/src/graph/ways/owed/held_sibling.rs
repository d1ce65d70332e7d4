//! The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be the waiter's.
//!
//! For at least half of the time. Must not: look at waits for other threads of that process, which say nothing new.

use crate::facts::{Ns, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "held thread",
    because: "it is the thread of that process that is held up itself",
    of: FOR_EVENTS,
    thresholds: &[],
    follow: |at| held_sibling(at.index, at.wait).map(Next::Thread),
};

/// The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be
/// the waiter's.
pub(super) fn held_sibling(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let threads = index.waits.held_outside(wait.thread.pid).iter();
    let others = threads.filter(|other| !index.model.threads.is_same(other, &wait.thread));
    let outside = |thread: &ThreadRef| -> Ns {
        let waits = index.waits.within(thread, wait.begin_ns, wait.end_ns).iter();
        let waits = waits.filter(|w| w.class.is_outside());
        waits.map(|w| w.within_ns(wait.begin_ns, wait.end_ns)).sum()
    };
    others
        .map(|thread| (outside(thread), *thread))
        .filter(|(held, _)| *held * 2 >= wait.end_ns.saturating_sub(wait.begin_ns))
        .max_by_key(|(held, thread)| (*held, std::cmp::Reverse(thread.tid)))
        .map(|(_, thread)| thread.clone())
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{CONDITION, NO_ARGS, led, of_ten, place, stands};

    #[test]
    fn the_thread_that_is_held_up_from_outside_is_it_and_one_that_rests_is_not() {
        let waits = || stands(of_ten(10), place("futex", CONDITION, None));
        let other = |syscall: &str, object| stands(of_ten(12), place(syscall, NO_ARGS, object));
        let flock = FileRef { ino: 9, ..FileRef::default() };
        let held = other("flock", Some(ObjectRef::File(flock)));
        assert_eq!(led(vec![waits(), held]), ("held thread", Some(12)));
        assert_eq!(led(vec![waits(), other("epoll_wait", None)]), ("", None));
    }
}
