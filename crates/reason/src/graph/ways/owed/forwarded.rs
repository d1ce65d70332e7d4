//! A question to a name server that its process passes on: to another one, which is to answer.
//!
//! A forwarder may wait for the next question in a call that receives, while what it was asked before is out elsewhere: the question of its own for the
//! same name says where. One that this host dropped before it left is never seen as a question, but among what was dropped. Of a question that was
//! passed on before the look, nothing is seen: there only who alone can have been asked counts, where it stands still. Must not: take a question for
//! another name (it asks whether its servers are alive), or guess among several servers of which one answers.

use crate::facts::{InetRef, ObjectRef};
use crate::graph::conversation::asked_ns;
use crate::graph::next::{Next, Until};
use crate::graph::question::is_for_a_question;
use crate::graph::relayed::CLOCKS_APART;
use crate::graph::ways::way::{Waiter, Way};
use crate::model::net::NEXT_HOP_GIVEN_UP_NS;
use crate::waits::WaitClass::{Dns, FutexWait, Idle, PipeRead, SocketRead, UnixRead};
use crate::waits::poll_intent::DNS_PORT;
use std::net::SocketAddr;

/// The way.
pub(super) static WAY: Way = Way {
    name: "forwarded question",
    because: "it was asked for an address, and asks another server",
    of: &[Idle, FutexWait, UnixRead, PipeRead, SocketRead],
    thresholds: &[&CLOCKS_APART],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    if at.wait.class == SocketRead && !is_for_a_question(at.index, at.wait) {
        return None;
    }
    let same = || same_name(at).map(Next::Question);
    let dropped = || dropped(at).map(Next::NameServer);
    same().or_else(dropped).or_else(|| standing_still(at).map(Next::NameServer))
}

/// The last open question of its own for a name that whoever waits for it has asked for.
fn same_name(at: &Waiter<'_>) -> Option<usize> {
    let (from, to) = at.within;
    let open = |pid: u32| at.index.questions.open(pid, from, to);
    let model = at.index.model;
    let name = |question: usize| model.net.dns_queries[question].1.name.as_str();
    let asker = at.asker?.who.pid;
    // Some write the letters of a name in another case each time.
    let is_asked =
        |own: &usize| open(asker).any(|other| name(other).eq_ignore_ascii_case(name(*own)));
    open(at.wait.thread.pid).find(is_asked)
}

/// The server that a process asked last, where that question was dropped on this host since it was asked itself. One that stands before a next hop
/// that nobody has is dropped as late as that is given up.
fn dropped(at: &Waiter<'_>) -> Option<SocketAddr> {
    let (from, to) = at.within;
    // Who was asked for a name has nothing else to ask for; of others only what is dropped meanwhile says something.
    let asked_ns = at.asker.and_then(|asker| match asker.until {
        Until::Wait(wait) if wait.class == Dns => Some(asked_ns(at.index, wait)),
        _ => None,
    });
    let (since, queued_ns) =
        asked_ns.map_or((from, 0), |asked_ns| (asked_ns.min(from), NEXT_HOP_GIVEN_UP_NS));
    let model = at.index.model;
    let flows = model.net.drops.iter().flat_map(|drops| &drops.flows);
    let own = flows.filter(|flow| {
        flow.protocol == "udp"
            && flow.to.port() == DNS_PORT
            && flow.sender.as_ref().is_some_and(|by| by.pid == at.wait.thread.pid)
            && flow.last_ns.saturating_add(CLOCKS_APART.ns()) >= since
            && flow.first_ns.saturating_sub(queued_ns) <= to
    });
    own.max_by_key(|flow| flow.last_ns).map(|flow| flow.to)
}

/// The server that a name server asks for others, where every one that it is connected to stands still.
fn standing_still(at: &Waiter<'_>) -> Option<SocketAddr> {
    let sockets = || {
        let of_process = at.index.connections.all_of(at.wait.thread.pid);
        of_process.filter_map(|end| match &end.object {
            ObjectRef::Inet(socket) if socket.protocol == "udp" => Some(socket),
            _ => None,
        })
    };
    let takes_questions =
        |socket: &InetRef| socket.remote.port() == 0 && socket.local.port() == DNS_PORT;
    if !sockets().any(takes_questions) {
        return None;
    }
    let mut servers = sockets().map(|it| it.remote).filter(|it| it.port() == DNS_PORT);
    let stands = |server: &SocketAddr| {
        let by = at.index.connections.name_server(*server, at.wait);
        let by = by.filter(|by| by.pid != at.wait.thread.pid);
        by.is_some_and(|by| at.standing_still(&by).is_some())
    };
    let first = servers.next().filter(stands)?;
    servers.all(|server| stands(&server)).then_some(first)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::{dns, dropped, findings, inet};
    use crate::rules::scenes::{LOOK_NS, descriptor, endpoint, thread};

    const FORWARDED: &str = "forwarded question";

    /// Process 10 is asked at port 53 and waits for the next question.
    fn forwarder() -> Vec<Fact> {
        let bound = || inet("udp", 6, "10.0.0.1:53", "0.0.0.0:0", 7);
        let waits = stands(of_ten(10), place("recvmsg", NO_ARGS, Some(bound())));
        vec![endpoint(10, "app", bound()), waits]
    }

    fn with(more: Vec<Fact>) -> &'static str {
        led([forwarder(), more].concat()).0
    }

    #[test]
    fn a_question_that_was_dropped_as_it_was_passed_on_says_who_was_asked() {
        let question = |pid: u32, port: u16| {
            let to = format!("10.0.0.9:{port}");
            let mut fact = dropped("NEIGH_FAILED", "udp", "10.0.0.1:40000", &to, 1);
            if let Body::PacketDrops(drops) = &mut fact.body {
                drops.flows[0].sender = Some(thread(pid, "app"));
            }
            with(vec![fact])
        };
        assert_eq!(question(10, 53), FORWARDED);
        assert_eq!(question(11, 53), "", "another's");
        assert_eq!(question(10, 514), "", "no question");
    }

    #[test]
    fn a_client_of_a_forwarder_waits_for_whom_that_asks_and_whose_next_hop_nobody_has() {
        let found = |pid: u32| {
            let mut facts = dns(None);
            let bound = inet("udp", 6, "10.0.0.53:53", "0.0.0.0:0", 7);
            facts.push(endpoint(20, "dnsmasq", bound));
            facts.push(stands(thread(20, "dnsmasq"), place("poll", NO_ARGS, None)));
            let mut lost = dropped("NEIGH_FAILED", "udp", "10.0.0.53:40000", "10.9.0.1:53", 1);
            if let Body::PacketDrops(drops) = &mut lost.body {
                let flow = &mut drops.flows[0];
                (flow.first_ns, flow.last_ns) = (3_000_000_000, 3_000_000_000);
                flow.sender = Some(thread(pid, "dnsmasq"));
            }
            facts.push(lost);
            let said = findings(facts).into_iter().map(|it| (it.code, it.culprit.name));
            said.collect::<Vec<_>>()
        };
        let next_hop = ("net.packet_dropped".to_string(), "next hop to 10.9.0.1".to_string());
        assert!(found(20).contains(&next_hop), "{:?}", found(20));
        assert!(!found(21).contains(&next_hop), "another's question");
    }

    #[test]
    fn the_only_server_that_it_asks_counts_where_it_stands_still() {
        let upstream = |ino: u64, at: &str, pid: u32| {
            let asks = inet("udp", ino, &format!("10.0.0.1:{}", 50_000 + ino), at, 1);
            let serves = inet("udp", ino + 1, at, "0.0.0.0:0", 7);
            vec![descriptor(10, ino as u32, "app", asks), endpoint(pid, "named", serves)]
        };
        let state = |pid: u32, state: WaitState| {
            let place = Place { state, ..Place::default() };
            let blocked = Blocked { thread: thread(pid, "named"), place, ..Blocked::default() };
            vec![Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }]
        };
        let one = || upstream(20, "10.0.0.8:53", 20);
        let other = || upstream(30, "10.0.0.9:53", 30);
        let stopped = |pid| state(pid, WaitState::Stopped);
        assert_eq!(with([one(), stopped(20)].concat()), FORWARDED);
        assert_eq!(with(one()), "", "it is not held up");
        assert_eq!(with([one(), stopped(20), other()].concat()), "", "the other may be asked");
        assert_eq!(with([one(), stopped(20), other(), stopped(30)].concat()), FORWARDED);
    }
}
