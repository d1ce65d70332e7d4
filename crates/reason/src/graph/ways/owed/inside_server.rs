//! A process of a server that waits for something of the server's own (a replica's confirmation, a checkpoint, an archived log): nobody else has
//! to act.
//!
//! It is woken now and then by whom it does not wait for, and gives up by the clock. Who brings it about, if that is a process of the server,
//! is found before (held/session_table.rs), which knows of a lock that no process has, too. Must not: be asked of another lock, whose holder may be known by other ways.

use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::programs::lock_kind::LockKind;
use crate::waits::user_stack;

/// The way.
pub(super) static WAY: Way = Way {
    name: "inside a server",
    because: "the server itself says what it waits for",
    of: FOR_EVENTS,
    thresholds: &[],
    follow: |at| {
        let (model, wait) = (at.index.model, at.wait);
        let kind = user_stack::lock_kind_of(model, &wait.thread, wait.begin_ns, wait.end_ns);
        kind.is_some_and(LockKind::is_of_a_server).then_some(Next::Nobody)
    },
};

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::scenes::LOOK_NS;

    fn led_by(event: Option<SessionEvent>) -> (&'static str, Option<u32>) {
        let read = SessionWait { pid: 10, event, ..SessionWait::default() };
        led(vec![
            child(10, 5),
            child(20, 10),
            Fact { at_ns: LOOK_NS / 2, body: Body::SessionWait(read) },
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
        ])
    }

    #[test]
    fn what_a_server_waits_for_by_its_own_word_is_not_looked_for_among_its_children() {
        assert_eq!(led_by(Some(SessionEvent::Replica)), ("inside a server", None));
        assert_ne!(led_by(None).0, "inside a server");
    }
}
