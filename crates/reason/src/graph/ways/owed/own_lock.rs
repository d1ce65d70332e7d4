//! A thread that by its own functions waits for a lock of its process: the thread of it that is held up.
//!
//! It waits for that lock and for none of its descriptors: where no thread is held up, nobody is looked for among them. Must not: read a
//! stack (waits/user_stack.rs does).

use super::held_sibling::held_sibling;
use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::programs::lock_kind::LockKind;
use crate::waits::user_stack;

/// The way.
pub(super) static WAY: Way = Way {
    name: "lock of its process",
    because: "it is held up, and may have the lock that is waited for",
    of: FOR_EVENTS,
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (index, wait) = (at.index, at.wait);
    let kind = user_stack::lock_kind_of(index.model, &wait.thread, wait.begin_ns, wait.end_ns);
    kind.is_some_and(LockKind::holds_up).then(|| held_sibling(index, wait).into())
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::scenes::fact;

    #[test]
    fn who_waits_for_a_lock_by_its_functions_is_not_led_to_its_child() {
        let frame =
            |function: &str| UserFrame { function: function.into(), ..UserFrame::default() };
        let frames = ["__lll_lock_wait", "pthread_mutex_lock", "work"].map(frame).to_vec();
        let stack = UserStack { thread: of_ten(10), since_ns: 0, frames, complete: true };
        let waits = || stands(of_ten(10), place("epoll_wait", NO_ARGS, None));
        let lock = vec![child(20, 10), waits(), fact(Body::UserStack(stack))];
        assert_eq!(led(lock), ("lock of its process", None));
        assert_eq!(led(vec![child(20, 10), waits()]), ("only child", Some(20)));
    }
}
