//! The peer of what ended, or will end, a wait for events: who is at the other end of that connection or pipe.
//!
//! Not if the asker is there: he waits for it, so it does not wait for him. Must not: look among several descriptors (descriptors.rs).

use crate::graph::channels::far_end;
use crate::graph::next::Next;
use crate::graph::question::is_asked_by;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};

/// The way.
pub(super) static WAY: Way = Way {
    name: "far end",
    because: "it is at the other end of what is waited for",
    of: FOR_EVENTS,
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let may = at.is_on_a_channel() && !is_asked_by(at.index, at.wait, at.asker);
    may.then(|| far_end(at.index, at.wait)).flatten().map(Next::Thread)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::endpoint;

    #[test]
    fn who_is_at_the_other_end_of_what_is_waited_for_is_next() {
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: Some("/run/s".into()) };
        let waits = || stands(of_ten(10), place("epoll_wait", NO_ARGS, Some(near.clone())));
        let poll =
            |facts: Vec<Fact>| led([facts, vec![endpoint(20, "server", far.clone())]].concat());
        let (name, to) = poll(vec![waits()]);
        assert!(matches!(name, "far end" | "end of a connection"), "{name}");
        assert_eq!(to, Some(20));
    }
}
