//! An event loop that has one child for most of the time: it waits for that.
//!
//! Must not: choose among several.

use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass;

/// The way.
pub(super) static WAY: Way = Way {
    name: "only child",
    because: "it is the only child that there was meanwhile",
    of: &[WaitClass::Idle],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (from, to) = at.within;
    at.index.families.only_child(at.wait.thread.pid, from, to).map(Next::Thread)
}

#[cfg(test)]
mod tests {
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};

    #[test]
    fn the_only_child_is_waited_for_and_of_two_none() {
        let waits = || stands(of_ten(10), place("epoll_wait", NO_ARGS, None));
        assert_eq!(led(vec![waits(), child(20, 10)]), ("only child", Some(20)));
        assert_eq!(led(vec![waits(), child(20, 10), child(21, 10)]), ("", None));
    }
}
