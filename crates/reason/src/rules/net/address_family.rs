//! The other address family of a name: where a connection by one (IPv4, IPv6) does not come about, and the other gets through.
//!
//! A name has addresses of both families, and a program tries them in the order of getaddrinfo, one after another. Two things show it: a thread gives
//! one up and is connected to the same port by the other family next, or the process has no other connection to that port at all. Must not: say
//! that two addresses are of one name where neither is so, or name a socket that was there before. Rejected: the questions to name servers (an
//! answer from a cache or a file asks none).
//!
//! Edit together: slow_peer.rs.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// States of a connection that was made: TCP_ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT (include/net/tcp_states.h).
const OPEN_STATES: [u8; 4] = [1, 4, 5, 8];

/// So long is an address asked for, at least, that is given up.
pub(super) static ASKED_AGAIN: Threshold = Threshold::new(
    1.0,
    "s",
    "waited for one connection: TCP asks for it again after this time at the earliest, so one that came about took less, and one that took more \
     was not answered at first",
    "TCP_TIMEOUT_INIT (include/net/tcp.h)",
);
/// And so soon the next one is waited for.
pub(super) static NEXT: Threshold = Threshold::new(
    0.25,
    "s",
    "between a connection that was given up and the first wait on the next: after longer it may be for something else",
    "chosen: many times what a program takes to try the next address of a name",
);

/// Who answered by the other family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instead {
    /// Its address.
    pub address: SocketAddr,
    /// The thread that gave up was connected there next.
    pub next: bool,
}

/// `IPv6`.
pub(super) fn family(address: SocketAddr) -> &'static str {
    if address.ip().to_canonical().is_ipv4() { "IPv4" } else { "IPv6" }
}

/// By whom of the other family the same port was reached instead.
pub(super) fn instead(measures: &Measures<'_>, end: &End, address: SocketAddr) -> Option<Instead> {
    let pid = end.links[end.named].who.pid;
    let by = |next: bool| move |address: SocketAddr| Instead { address, next };
    let next = next(measures, pid, address).map(by(true));
    next.or_else(|| only_other(measures, pid, address).map(by(false)))
}

/// A socket of TCP as it was last seen.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    ino: u64,
    remote: SocketAddr,
    /// The connection came about.
    is_made: bool,
    /// It is still asked for.
    is_asked: bool,
}

impl Attempt {
    fn of(measures: &Measures<'_>, object: &Object) -> Option<Self> {
        let Object::Inet(ino) = object else { return None };
        let socket = measures.model.called.socket(*ino).filter(|it| it.is_tcp())?;
        let (is_made, is_asked) = (OPEN_STATES.contains(&socket.state), socket.is_connecting());
        Some(Self { ino: *ino, remote: socket.remote, is_made, is_asked })
    }
}

/// To whom threads were connected next, each time after they had given an address up: one and the same.
fn next(measures: &Measures<'_>, pid: u32, address: SocketAddr) -> Option<SocketAddr> {
    let mut asked: BTreeMap<u64, (u64, &WaitSpan)> = BTreeMap::new();
    for wait in measures.waits().filter(|wait| wait.thread.pid == pid) {
        let Some(attempt) = Attempt::of(measures, &wait.object) else { continue };
        // An event loop connects without waiting in connect.
        let connects = wait.class == WaitClass::SocketConnect || attempt.is_asked;
        if attempt.remote == address && !attempt.is_made && connects {
            let (spent_ns, last) = asked.entry(attempt.ino).or_insert((0, wait));
            *spent_ns += wait.end_ns.saturating_sub(wait.begin_ns);
            *last = wait;
        }
    }
    let mut found = None;
    for (spent_ns, last) in asked.into_values() {
        if last.standing || (spent_ns as f64) < ASKED_AGAIN.value * 1e9 {
            continue;
        }
        let Some(next) = turned_to(measures, last, address) else { continue };
        match found {
            Some(known) if known != next.remote => return None,
            _ => found = Some(next.remote),
        }
    }
    found
}

/// Whom a thread waits for next at the same port, if that is by the other family, came about, and was not there before.
fn turned_to(measures: &Measures<'_>, gave_up: &WaitSpan, address: SocketAddr) -> Option<Attempt> {
    let waits = measures.graph.waits_of(&gave_up.thread);
    let mut since_ns = gave_up.end_ns;
    let mut next = None;
    for wait in waits.iter().filter(|wait| wait.begin_ns >= gave_up.end_ns) {
        // Who asks for another name first goes to somebody else.
        if wait.class == WaitClass::Dns {
            return None;
        }
        let attempt = Attempt::of(measures, &wait.object);
        let Some(attempt) = attempt.filter(|it| it.remote.port() == address.port()) else {
            continue;
        };
        if family(attempt.remote) != family(address) {
            let is_soon = wait.begin_ns.saturating_sub(since_ns) as f64 <= NEXT.value * 1e9;
            next = Some(attempt).filter(|it| is_soon && it.is_made);
            break;
        }
        // Of several addresses of one family each is tried.
        since_ns = since_ns.max(wait.end_ns);
    }
    let next = next?;
    let object = Object::Inet(next.ino);
    let mut known = measures.model.held.endpoints_before.iter();
    let had = known.any(|(_, endpoint)| Object::from(&endpoint.object) == object);
    let mut before = waits.iter().filter(|wait| wait.begin_ns < gave_up.end_ns);
    (!had && before.all(|wait| wait.object != object)).then_some(next)
}

/// The address of the other family by which the same process got through to the same port, if it is the only other one there.
fn only_other(measures: &Measures<'_>, pid: u32, address: SocketAddr) -> Option<SocketAddr> {
    let ends = measures.model.held.endpoints.iter().filter(|end| end.process.pid == pid);
    let open = ends.map(|end| Object::from(&end.object));
    let waits = measures.waits().filter(|it| {
        it.thread.pid == pid && matches!(it.class, WaitClass::SocketRead | WaitClass::SocketWrite)
    });
    let waited = waits.map(|wait| wait.object.clone());
    let attempts = open.chain(waited).filter_map(|object| Attempt::of(measures, &object));
    let others: Vec<Attempt> =
        attempts.filter(|it| it.remote.port() == address.port() && it.remote != address).collect();
    let first = others.first()?.remote;
    // Of several addresses there nobody knows which are of one name.
    let is_only = others.iter().all(|it| it.remote == first);
    let gets_through = others.iter().any(|it| it.is_made);
    (is_only && gets_through && family(first) != family(address)).then_some(first)
}

#[cfg(test)]
mod tests {
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{descriptor, endpoint};

    fn dead(ino: u64, state: u8) -> ObjectRef {
        inet("tcp", ino, "[2001:db8::1]:40000", "[2001:db8::2]:80", state)
    }

    fn alive(ino: u64, to: &str, state: u8) -> ObjectRef {
        inet("tcp", ino, "10.0.0.1:40001", to, state)
    }

    /// A client has connections to two other servers open.
    fn others() -> Vec<Fact> {
        let other = |fd, ino, to| descriptor(10, fd, "client", alive(ino, to, 1));
        vec![other(7, 90, "192.0.2.77:80"), other(8, 91, "192.0.2.78:80")]
    }

    /// It gives an address up after 4 s, and waits at another next.
    fn turns(next: Fact) -> Vec<Fact> {
        let mut facts = others();
        facts.extend([wait(10, "client", "connect", dead(100, 2), 0, 40), next]);
        facts
    }

    fn slow(facts: Vec<Fact>) -> Finding {
        let found = findings(facts).into_iter().find(|it| it.code == "net.slow_peer");
        found.expect("a peer that does not answer")
    }

    #[test]
    fn who_is_reached_next_by_the_other_family_is_said_beside_other_connections() {
        let next = alive(101, "192.0.2.1:80", 1);
        let found = slow(turns(wait(10, "client", "recvfrom", next, 41, 45)));
        assert!(
            found.title.contains("does not answer by IPv6: IPv4 is tried next"),
            "{}",
            found.title
        );
        let lost = "4 s went to IPv6, which is dead there: the same thread gets through to 192.0.2.1 by IPv4 right after it";
        assert!(found.text.contains(lost), "{}", found.text);
        assert_eq!(found.remedy[0].command, "ip -6 route get 2001:db8::2");
        assert!(found.remedy[0].text.contains("gai.conf"), "{}", found.remedy[0].text);
    }

    #[test]
    fn the_second_family_may_be_ipv6() {
        let old = alive(100, "192.0.2.1:80", 2);
        let next = inet("tcp", 101, "[2001:db8::1]:40000", "[2001:db8::2]:80", 1);
        let mut facts = others();
        facts.extend([
            wait(10, "client", "connect", old, 0, 40),
            wait(10, "client", "recvfrom", next, 41, 45),
        ]);
        let found = slow(facts);
        assert!(
            found.title.contains("does not answer by IPv4: IPv6 is tried next"),
            "{}",
            found.title
        );
        assert!(!found.remedy[0].text.contains("gai.conf"));
    }

    #[test]
    fn what_is_no_next_attempt_is_not_said() {
        let says_none = |facts: Vec<Fact>, why: &str| {
            let found = slow(facts);
            assert!(found.title.ends_with("which does not answer"), "{why}: {}", found.title);
        };
        let reads = |object, from, to| wait(10, "client", "recvfrom", object, from, to);
        let next = || alive(101, "192.0.2.1:80", 1);
        let other_port = alive(101, "192.0.2.1:81", 1);
        says_none(turns(reads(other_port, 41, 45)), "another port is another service");
        says_none(turns(wait(11, "other", "recvfrom", next(), 41, 45)), "another process");
        let not_made = alive(101, "192.0.2.1:80", 2);
        says_none(turns(wait(10, "client", "connect", not_made, 41, 45)), "it is dead as well");
        let mut before = turns(reads(next(), 41, 45));
        let known = endpoint(10, "client", next());
        before.extend([known.clone(), known]);
        says_none(before, "a connection that was there before is no next attempt");
        let mut two = others();
        two.extend([
            wait(10, "client", "connect", dead(100, 2), 0, 15),
            reads(alive(103, "192.0.2.9:80", 1), 16, 19),
            wait(10, "client", "connect", dead(102, 2), 20, 40),
            reads(next(), 41, 43),
        ]);
        says_none(two, "two different ones after the same address");
    }

    #[test]
    fn an_address_that_answers_late_is_not_given_up() {
        let next = alive(101, "192.0.2.1:80", 1);
        let mut facts = turns(wait(10, "client", "recvfrom", next, 46, 48));
        facts.insert(3, wait(10, "client", "recvfrom", dead(100, 1), 41, 45));
        let found = slow(facts);
        assert!(!found.title.contains("is tried next"), "{}", found.title);
    }
}
