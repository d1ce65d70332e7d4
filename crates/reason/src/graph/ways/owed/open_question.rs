//! A question to a name server that its process has sent and that was not answered before.
//!
//! Whatever else it waits for, a program mostly asks for an address before it can go on. Must not: say who answers (chains.rs asks
//! held/name_server.rs).

use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};

/// The way.
pub(super) static WAY: Way = Way {
    name: "open question",
    because: "it was asked for an address and has not answered",
    of: FOR_EVENTS,
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (from, to) = at.within;
    at.index.questions.open(at.wait.thread.pid, from, to).map(Next::Question)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};

    #[test]
    fn who_was_asked_for_an_address_is_waited_for() {
        let asked = DnsQuery {
            thread: of_ten(10),
            server: "10.0.0.2:53".parse().expect("address"),
            local: "10.0.0.1:4000".parse().expect("address"),
            id: 1,
            name: "db".into(),
            question_type: 1,
            socket_ino: 0,
        };
        let asked = Fact { at_ns: 1, body: Body::DnsQuery(asked) };
        let waits = || stands(of_ten(10), place("epoll_wait", NO_ARGS, None));
        assert_eq!(led(vec![asked, waits()]).0, "open question");
        assert_eq!(led(vec![waits()]).0, "");
    }
}
