//! A question to a name server that its process has sent and that was not answered before.
//!
//! Whatever else it waits for, a program mostly asks for an address before it can go on. Who asks for several clients and makes a
//! connection meanwhile has that one's address: then only a question that may be for the sake of who waits counts, sent as his came, and
//! none for a name of which the other address was answered. Must not: say who answers (chains.rs asks held/name_server.rs).

use crate::facts::Ns;
use crate::graph::conversation::asked_ns;
use crate::graph::index::Index;
use crate::graph::next::{Next, Until};
use crate::graph::relayed::{CLOCKS_APART, RELAYED_WITHIN};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};

/// The way.
pub(super) static WAY: Way = Way {
    name: "open question",
    because: "it was asked for an address and has not answered",
    of: FOR_EVENTS,
    thresholds: &[&CLOCKS_APART, &RELAYED_WITHIN],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (index, pid, (from, to)) = (at.index, at.wait.thread.pid, at.within);
    let last = index.questions.open(pid, from, to).next()?;
    if !is_connecting(index, pid, from) {
        return Some(Next::Question(last));
    }
    let asked_ns = at.asker.and_then(|asker| match asker.until {
        Until::Wait(wait) => Some(asked_ns(index, wait)),
        Until::At(_) => None,
    });
    // One that was answered early in it is not what the rest of it is for.
    let mut open = index.questions.open(pid, from + to.saturating_sub(from) / 2, to);
    let found = open.find(|question| may_be_for(index, *question, (asked_ns, to)));
    found.map(Next::Question)
}

/// Whether a process makes a connection at a time.
fn is_connecting(index: &Index<'_>, pid: u32, from: Ns) -> bool {
    let awaits = index.debts.awaits.get(&pid).map_or(&[][..], Vec::as_slice);
    let mut sockets = awaits
        .iter()
        .filter(|debt| !debt.since_known && debt.seen_ns > from)
        .filter_map(|debt| index.model.called.socket(debt.ino));
    sockets.any(|socket| socket.is_tcp() && socket.is_connecting())
}

/// Whether a question may be for the sake of who asked at a time, and its name has no answer yet.
fn may_be_for(index: &Index<'_>, question: usize, (asked_ns, to): (Option<Ns>, Ns)) -> bool {
    let model = index.model;
    let query = &model.net.dns_queries[question].1;
    // Of one that is sent again and again the first time counts.
    let is_in_time = asked_ns.is_none_or(|asked_ns| {
        let from = asked_ns.saturating_sub(CLOCKS_APART.ns());
        index.questions.was_asked(query, (from, asked_ns + RELAYED_WITHIN.ns()))
    });
    is_in_time && !index.questions.has_other_address(query, to)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, endpoint};

    fn asks(at_ns: Ns, name: &str, id: u16, question_type: u16) -> Fact {
        let asked = DnsQuery {
            thread: of_ten(10),
            server: "10.0.0.2:53".parse().expect("address"),
            local: "10.0.0.1:4000".parse().expect("address"),
            id,
            name: name.into(),
            question_type,
            socket_ino: 0,
        };
        Fact { at_ns, body: Body::DnsQuery(asked) }
    }

    fn waits() -> Fact {
        stands(of_ten(10), place("epoll_wait", NO_ARGS, None))
    }

    #[test]
    fn who_was_asked_for_an_address_is_waited_for() {
        assert_eq!(led(vec![asks(1, "db", 1, 1), waits()]).0, "open question");
        assert_eq!(led(vec![waits()]).0, "");
    }

    #[test]
    fn a_connection_to_one_address_of_a_name_does_not_wait_for_the_other() {
        let connects = inet("tcp", 5, "10.0.0.1:5000", "10.0.0.9:80", TCP_SYN_SENT);
        let connects = Fact { at_ns: LOOK_NS, ..endpoint(10, "app", connects) };
        let reply = DnsReply {
            server: "10.0.0.2:53".parse().expect("address"),
            local: "10.0.0.1:4000".parse().expect("address"),
            id: 1,
            rcode: 0,
        };
        let answered = Fact { at_ns: 3, body: Body::DnsReply(reply) };
        let both = || vec![asks(1, "db", 1, 1), asks(2, "db", 2, 28), waits()];
        let with = |more: Vec<Fact>| led([both(), more].concat()).0;
        assert_eq!(with(Vec::new()), "open question");
        assert_eq!(with(vec![connects.clone()]), "open question", "it may be another's");
        assert_eq!(with(vec![answered.clone()]), "open question", "it makes no connection");
        assert_eq!(with(vec![connects, answered]), "unanswered");
    }
}
