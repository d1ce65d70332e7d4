//! net.slow_peer: a peer on another host takes its time to answer, or does not let itself be connected to.
//!
//! Nothing of the other host can be seen. A connect that does not come about is a demand wait. A wait for data is
//! one of a command, which has nothing else to do, and of a process or container that somebody asked about. On a host a
//! subscriber that waits for news looks the same as a client that waits for its answer, so there it is not said. Nor is it said above a
//! note of a process that waits on while its peer has had the last word: it may have subscribed to what comes, or the rest of an answer is
//! missing, and this end cannot say which. What came right after the last question may be no word at all, but the protocol's own (TLS session
//! tickets, HTTP/2 settings): then it is a warning. A peer on this host is followed further by the graph and never comes here.
//!
//! Must not: name who waits for the next question of a client. Rejected: a host's debts without an answer (owed is not late).

use crate::facts::*;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::measure::tcp_stream::other_end;
use crate::model::object::Object;
use crate::rules::net::address_family::{ASKED_AGAIN, NEXT};
use crate::rules::net::dropped_packets::{NOTICED, is_noticed};
use crate::rules::net::nobody_bound;
use crate::rules::net::relay_legs::{self, FAR, LONGER, Legs};
use crate::rules::net::slow_peer_words::{answering, connecting, may_send_more};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Severity};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The longest wait below which a peer is not slow.
static SLOW: Threshold = Threshold::new(
    0.3,
    "s",
    "longest wait for a peer: below this it is not slow, it is a long way off",
    "a round trip around the world, and not yet the first retry of TCP, after 1 s",
);

/// How soon after a question what comes may be no answer.
static PROTOCOL: Threshold = Threshold::new(
    2.0,
    "1",
    "round trips from what was sent last to what came last, within which that may be the protocol's own (TLS session tickets, HTTP/2 \
     settings) and no answer",
    "RFC 8446 4.6.1, RFC 9113 6.5.3: they follow at once, one round trip; and one more for whoever sends them",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.slow_peer",
    title: "A peer on another host does not answer soon",
    theory: "A program that asks another host waits for the network and for that host's own work. If the local \
             queues are empty and nothing is lost, the time passes beyond this host.",
    needs: &[
        "a thread waits to be connected to an address that no socket of this host has; or a command, process or \
         container that is explained waits for data from one",
        "the wait is 0.3 s or more: a round trip around the world, and not yet the first retry; or a relay of this host asks there, whose \
         connection outwards has a round trip of 0.1 s or more, ten times that of the one to it",
    ],
    refuted_by: &[
        Refutation::new("the peer is a process of this host", "a_peer_of_this_host_is_followed"),
        Refutation::new("the answers come soon", "a_quick_peer_is_not_said"),
        Refutation::new(
            "its accept queue is full",
            "a_listener_of_this_host_that_does_not_accept_is_no_peer_elsewhere",
        ),
        Refutation::new(
            "a queue here stands",
            "a_question_in_a_queue_of_this_host_is_not_the_peers",
        ),
        Refutation::new(
            "it waits for the next question: the peer made the connection",
            "who_accepted_the_connection_waits_for_a_question",
        ),
        Refutation::new(
            "a host is explained, on which nobody asked about this wait",
            "on_a_host_a_wait_for_data_may_be_a_subscribers",
        ),
        Refutation::new(
            "the peer has had the last word, and later than a protocol's own follows a question (then it is a note)",
            "whoever_has_the_last_word_of_its_peer_may_wait_for_news",
        ),
    ],
    remedies: &["look at the peer", "check the route and firewalls on the way", "use a timeout"],
    stories: &["S4.3"],
    thresholds: &[&SLOW, &NOTICED, &FAR, &LONGER, &ASKED_AGAIN, &NEXT, &PROTOCOL],
    finds: Finds::Look(find),
};

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum For {
    Connection,
    Data,
    /// What the peer says next, who has had the last word: news, or the rest of an answer.
    More,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut peers: BTreeMap<(For, SocketAddr), Vec<usize>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        if let Some(peer) = waited_for(measures, end) {
            peers.entry(peer).or_default().push(at);
        }
    }
    let matches = peers.into_iter().filter_map(|(peer, own)| matched(measures, ends, peer, own));
    matches.collect()
}

/// What an end waits for, and from whom, if it is somebody elsewhere.
fn waited_for(measures: &Measures<'_>, end: &End) -> Option<(For, SocketAddr)> {
    let Object::Inet(ino) = end.object else { return None };
    let socket = measures.model.called.socket(ino)?;
    let what = match end.class {
        WaitClass::SocketConnect => For::Connection,
        // An event loop connects without waiting.
        WaitClass::SocketRead if socket.is_connecting() => For::Connection,
        WaitClass::SocketRead if !measures.model.look.is_asked_about() => return None,
        WaitClass::SocketRead if measures.graph.is_for_what_comes(end) => For::More,
        WaitClass::SocketRead => For::Data,
        _ => return None,
    };
    let is_open = end.kind == EndKind::Remote && !end.victims.is_empty() && !end.circle;
    (is_open && is_elsewhere(measures, socket)).then_some((what, socket.remote))
}

/// It is connected, and nobody on this host has the other end, or may still accept it. One that a process here has closed is
/// elsewhere too: what it sent last is on its way.
fn is_elsewhere(measures: &Measures<'_>, socket: &InetRef) -> bool {
    socket.remote.port() != 0
        && measures.graph.may_accept(socket).is_empty()
        && other_end(measures.model, socket).is_none()
}

/// Whether what came last over an end's connection came so soon after what was sent last that it may be the protocol's own. The clocks
/// are two, each good to a jiffy.
fn may_be_protocol(measures: &Measures<'_>, end: &End) -> bool {
    let Object::Inet(ino) = end.object else { return false };
    let mut states = measures.model.held.endpoints.iter().filter_map(|it| match &it.object {
        ObjectRef::Inet(own) if own.ino == ino => it.socket.as_ref(),
        _ => None,
    });
    states.any(|state| {
        let Some(turn) = &state.turn else { return false };
        let apart = turn.sent_jiffies.saturating_sub(turn.received_jiffies).saturating_sub(2);
        let apart_ns = u64::from(apart) * u64::from(turn.jiffy_ns);
        apart_ns as f64 <= PROTOCOL.value * f64::from(state.rtt_us) * 1e3
    })
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    (what, address): (For, SocketAddr),
    own: Vec<usize>,
) -> Option<Match<'m>> {
    let end = End::merged(own.iter().map(|at| &ends[*at]))?;
    // Behind a relay nobody sees how far away its peer is.
    let is_far = || Legs::of(measures, &end).is_some_and(|legs| legs.is_far());
    let is_slow = end.longest_seconds >= SLOW.value || what == For::Data && is_far();
    if !is_slow || !is_noticed(measures, &end) {
        return None;
    }
    let counted = |name: &str| {
        let Object::Inet(ino) = end.object else { return None };
        // A datagram is sent once, whatever becomes of it.
        let socket = measures.model.called.socket(ino).filter(|it| it.is_tcp())?;
        // Of a namespace whose first process began within the look nothing is known from before.
        growth(measures.model, socket.netns, name)
    };
    let (again, proof) = match what {
        For::Connection => {
            let again = counted("TcpExt.TCPSynRetrans");
            (again, if again > Some(0) { Proof::TwoWitnesses } else { Proof::OneWitness })
        }
        For::Data | For::More => {
            let again = counted("Tcp.RetransSegs");
            (again, if again > Some(0) { Proof::OneWitness } else { Proof::Inferred })
        }
    };
    let is_open = what == For::More && own.iter().any(|at| may_be_protocol(measures, &ends[*at]));
    let wording = match what {
        For::Connection => connecting(measures, address, &end, again),
        For::Data => match nobody_bound::unheard(measures, &end) {
            Some(unheard) => nobody_bound::wording(measures, &end, unheard),
            None => answering(measures, address, &end, again),
        },
        For::More => may_send_more(measures, address, &end, is_open),
    };
    let by = Culprit::peer(address.ip().to_string(), address.to_string());
    let matched = Match::new(by, proof, move |_| wording.clone());
    let mut matched = relay_legs::said(measures, &end, matched);
    // Owed is not late: a subscriber waits like this all day.
    match what {
        For::More if !is_open => matched.severity_max = Severity::Note,
        For::More => matched.severity_max = Severity::Warning,
        _ if end.owed => matched.severity_max = Severity::Warning,
        _ => {}
    }
    Some(own.into_iter().fold(matched, |matched, at| matched.claiming(at, None)))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, at_place, blocked, endpoint, fact, host};
    use crate::rules::wording::Severity;

    const CODE: &str = "net.slow_peer";

    /// A connection of process 10 to a peer that no process here is.
    fn far(ino: u64, port: u16, state: u8) -> ObjectRef {
        inet("tcp", ino, &format!("10.0.0.1:{port}"), "192.0.2.1:80", state)
    }

    /// A client polls its connection until a time, in tenths of a second.
    fn asks(to: u64) -> Vec<Fact> {
        vec![wait(10, "client", "poll", far(100, 40_000, 1), 0, to)]
    }

    #[test]
    fn of_a_datagram_nothing_says_whether_it_was_sent_again() {
        let found = |protocol: &str| {
            let object = inet(protocol, 100, "10.0.0.1:40000", "192.0.2.1:123", 1);
            let mut facts = vec![wait(10, "client", "recvfrom", object, 0, 48)];
            facts.extend(counters(&[("Tcp.RetransSegs", 3, 3)]));
            let finding = findings(of_command(facts)).remove(0);
            (finding.text, finding.remedy.last().map(|way| way.command.clone()))
        };
        let (text, way) = found("tcp");
        assert!(text.contains("sent nothing twice"), "{text}");
        assert_eq!(way.as_deref(), Some("mtr -n --tcp --port 123 192.0.2.1"));
        let (text, way) = found("udp");
        assert!(!text.contains("sent nothing twice"), "{text}");
        assert_eq!(way.as_deref(), Some("mtr -n --udp --port 123 192.0.2.1"));
    }

    #[test]
    fn of_an_address_of_this_host_nothing_says_that_its_way_is_far() {
        let text = |here: Option<Fact>| {
            let mut facts = asks(48);
            facts.extend(counters(&[("Tcp.RetransSegs", 3, 3)]).into_iter().chain(here));
            findings(of_command(facts)).remove(0).text
        };
        assert!(text(None).contains("sent nothing twice"));
        let lost = dropped("QDISC_DROP", "tcp", "192.0.2.1:80", "10.0.0.1:40000", 9);
        let here = AddressHere {
            netns: 1,
            address: "192.0.2.1".parse().expect("an address"),
            far_netns: 2,
            far_index: 4,
            hardware: Vec::new(),
            tunnel: String::new(),
        };
        for other in [lost, fact(Body::AddressHere(here))] {
            let text = text(Some(other));
            assert!(!text.contains("sent nothing twice"), "{text}");
        }
    }

    #[test]
    fn a_loopback_address_is_never_called_another_host() {
        let object = inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:8932", 1);
        let mut facts = vec![wait(10, "client", "poll", object, 0, 48)];
        facts.extend(counters(&[("Tcp.RetransSegs", 3, 3)]));
        let finding = findings(of_command(facts)).remove(0);
        assert!(finding.text.contains("could not be seen"), "{}", finding.text);
        assert!(!finding.text.contains("on the way"), "{}", finding.text);
        let way = finding.remedy.last().map(|way| way.command.clone());
        assert_eq!(way.as_deref(), Some("ss -tlnp 'sport = :8932'"));
    }

    #[test]
    fn who_stands_behind_an_address_of_a_service_is_said() {
        let mut facts = asks(48);
        let at = |text: &str| text.parse().expect("an address");
        let (far_local, far_remote) = (at("10.244.1.5:8080"), at("10.0.0.1:40000"));
        let (local, remote) = (far_remote, at("192.0.2.1:80"));
        let of = Translation { netns: 1, local, remote, far_local, far_remote, far_netns: None };
        facts.push(fact(Body::Translation(of)));
        let found = findings(of_command(facts));
        assert_eq!(found[0].code, CODE);
        assert!(found[0].text.contains("stands for 10.244.1.5:8080 here"), "{}", found[0].text);
    }

    fn of_command(mut facts: Vec<Fact>) -> Vec<Fact> {
        facts.push(look_at(TargetKind::Command, 10));
        facts
    }

    fn listens(ino: u64, at: &str) -> Fact {
        with_state(20, "server", inet("tcp", ino, at, "0.0.0.0:0", 10), SocketState::default())
    }

    #[test]
    fn a_connect_that_nobody_answers_is_named() {
        let waits = |to| vec![wait(10, "client", "connect", far(100, 40_000, 2), 0, to)];
        let found = findings(waits(48));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "192.0.2.1"));
        assert!(codes(waits(2)).is_empty());
    }

    #[test]
    fn a_connect_that_took_long_once_in_a_minute_is_named_with_that_moment() {
        let in_a_minute = |to| {
            let mut facts = host();
            facts[1].at_ns = 60_000_000_000;
            facts.push(wait(10, "client", "connect", far(100, 40_000, 2), 0, to));
            explain(facts).findings
        };
        let found = in_a_minute(11);
        assert_eq!((&*found[0].code, found[0].severity), (CODE, Severity::Warning));
        assert!(found[0].impact.moment.is_some());
        assert!(in_a_minute(2).is_empty());
    }

    #[test]
    fn a_family_that_is_tried_first_and_is_dead_is_said_where_the_other_gets_through() {
        let object = inet("tcp", 100, "[2001:db8::1]:40000", "[2001:db8::2]:80", 2);
        let mut facts = vec![wait(10, "client", "connect", object, 0, 40)];
        let title = |facts: Vec<Fact>| findings(facts)[0].title.clone();
        assert!(title(facts.clone()).ends_with("which does not answer"));
        facts.push(endpoint(10, "client", inet("tcp", 101, "10.0.0.1:40001", "192.0.2.1:80", 1)));
        assert!(title(facts.clone()).ends_with("does not answer by IPv6, while IPv4 does"));
        let found = findings(facts);
        assert!(found[0].text.contains("to 192.0.2.1."), "{}", found[0].text);
        assert!(found[0].remedy[0].text.contains("gai.conf"));
    }

    #[test]
    fn a_command_that_waits_for_a_peer_elsewhere_is_reported() {
        let found = findings(of_command(asks(48)));
        assert_eq!((&*found[0].code, found[0].severity), (CODE, Severity::Critical));
        assert!((found[0].impact.share - 0.96).abs() < 0.01, "{:?}", found[0].impact);
    }

    #[test]
    fn an_event_loop_that_connects_waits_for_a_connection() {
        let facts = vec![wait(10, "proxy", "recvfrom", far(100, 40_000, 2), 0, 48)];
        let found = findings(of_command(facts));
        assert!(found[0].title.contains("waits for a connection to"), "{}", found[0].title);
    }

    /// A client waits all the time on a connection to a listener of this host, whose queue holds so many, and which nobody has open.
    fn without_another_end(accept_queue: u32) -> Vec<Fact> {
        let near = || inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1);
        let turn = TcpTurn { snd_una: 1, jiffy_ns: 1_000_000, ..TcpTurn::default() };
        let sent = SocketState { acked_bytes: 80, turn: Some(turn), ..SocketState::default() };
        let listener = SocketState { accept_queue, ..SocketState::default() };
        let stands = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(near()),
            ..Place::default()
        };
        vec![
            look_at(TargetKind::Process, 10),
            Fact { at_ns: LOOK_NS, ..with_state(10, "client", near(), sent) },
            with_state(20, "server", inet("tcp", 200, "10.0.0.2:80", "0.0.0.0:0", 10), listener),
            at_place(10, "client", stands),
            blocked(20, "server", WaitState::Sleep, "accept4"),
        ]
    }

    #[test]
    fn what_was_sent_before_a_connection_was_closed_here_is_on_its_way() {
        assert!(says(CODE, without_another_end(0)));
        assert!(!says(CODE, without_another_end(1)), "it was not accepted yet");
    }

    #[test]
    fn sockets_of_one_peer_are_one_answer() {
        let mut facts = asks(20);
        facts.push(wait(10, "client", "recvfrom", far(101, 40_001, 1), 20, 48));
        let found = findings(of_command(facts));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.starts_with("4.80 s of 5 s"), "{}", found[0].text);
    }

    #[test]
    fn a_process_that_somebody_asked_about_is_answered_for() {
        let mut facts = asks(48);
        facts.push(look_at(TargetKind::Process, 10));
        let found = findings(facts);
        assert_eq!((&*found[0].code, found[0].severity), (CODE, Severity::Warning));
    }

    #[test]
    fn on_a_host_a_wait_for_data_may_be_a_subscribers() {
        assert!(findings(asks(48)).is_empty());
    }

    #[test]
    fn whoever_has_the_last_word_of_its_peer_may_wait_for_news() {
        let said = |sent_jiffies, received_jiffies, target| {
            let turn = TcpTurn {
                sent_jiffies,
                received_jiffies,
                jiffy_ns: 4_000_000,
                ..TcpTurn::default()
            };
            let state = SocketState {
                turn: Some(turn),
                acked_bytes: 80,
                received_bytes: 900,
                rtt_us: 20_000,
                ..SocketState::default()
            };
            let stands = Place {
                state: WaitState::Sleep,
                syscall: "recvfrom".into(),
                object: Some(far(100, 40_000, 1)),
                ..Place::default()
            };
            let facts = vec![
                look_at(target, 10),
                Fact { at_ns: LOOK_NS, ..with_state(10, "client", far(100, 40_000, 1), state) },
                at_place(10, "client", stands),
            ];
            let found = findings(facts).remove(0);
            assert_eq!(found.code, CODE);
            found
        };
        let found = |sent_jiffies, received_jiffies, target| {
            let found = said(sent_jiffies, received_jiffies, target);
            (found.severity, found.title.contains("sends next"))
        };
        assert_eq!(found(5_000, 4_000, TargetKind::Process), (Severity::Note, true));
        assert_eq!(found(4_000, 5_000, TargetKind::Process), (Severity::Warning, false), "asked");
        assert_eq!(found(5_000, 4_000, TargetKind::Command).0, Severity::Critical);
        // Session tickets come a round trip after the question: the answer may be still to come.
        assert_eq!(found(5_000, 4_995, TargetKind::Process), (Severity::Warning, true));
        let open = said(5_000, 4_995, TargetKind::Process).text;
        assert!(open.contains("or no more than the protocol's own"), "{open}");
        let text = said(5_000, 4_000, TargetKind::Process).text;
        assert!(!text.contains("nothing was asked") && !text.contains("  "), "{text}");
    }

    #[test]
    fn a_quick_peer_is_not_said() {
        assert!(!says(CODE, of_command(asks(2))));
    }

    #[test]
    fn a_peer_of_this_host_is_followed() {
        let mut facts = asks(48);
        facts.push(listens(101, "192.0.2.1:80"));
        assert!(!says(CODE, of_command(facts)));
        let mut facts = asks(48);
        let accepted = inet("tcp", 102, "192.0.2.1:80", "10.0.0.1:40000", 1);
        facts.push(endpoint(20, "server", accepted.clone()));
        assert!(!says(CODE, of_command(facts)));
        let mut facts = asks(48);
        facts.push(endpoint(10, "client", accepted));
        assert!(!says(CODE, of_command(facts)), "it talks to itself");
    }

    #[test]
    fn a_listener_of_this_host_that_does_not_accept_is_no_peer_elsewhere() {
        let ip = |text: &str| text.parse().expect("an address");
        let found = |waiting| {
            let full = SocketState { accept_queue: 5, accept_limit: 4, ..SocketState::default() };
            let full = SocketState { waiting, ..full };
            let listener = inet("tcp", 101, "0.0.0.0:80", "0.0.0.0:0", 10);
            let facts = vec![
                wait(10, "client", "connect", far(100, 40_000, 2), 0, 48),
                with_state(20, "server", listener, full),
            ];
            codes(facts)
        };
        let first = Waiting { at: ip("192.0.2.1"), from: ip("10.0.0.1") };
        assert_eq!(found(Some(first)), ["net.accept_queue"]);
        assert_ne!(
            found(None).first().map(String::as_str),
            Some("net.accept_queue"),
            "another host's"
        );
    }

    #[test]
    fn a_question_in_a_queue_of_this_host_is_not_the_peers() {
        let mut facts = queue(290);
        let asked = inet("udp", 7_001, "10.0.0.1:7001", "192.0.2.1:9", 1);
        facts.push(wait(10, "call", "recvfrom", asked, 0, 48));
        assert_eq!(codes(of_command(facts)), ["net.local_queue"]);
    }

    #[test]
    fn who_accepted_the_connection_waits_for_a_question() {
        let mut facts = vec![
            wait(10, "server", "recvfrom", far(100, 8080, 1), 0, 48),
            look_at(TargetKind::Process, 10),
        ];
        assert!(says(CODE, facts.clone()));
        facts.push(listens(101, "0.0.0.0:8080"));
        assert!(!says(CODE, facts));
    }
}
