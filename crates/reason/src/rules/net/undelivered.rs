//! net.undelivered: what is sent on a connection is not acknowledged, however often it is sent again.
//!
//! Two witnesses: somebody waits on the connection, and the clocks of the end that sent say that nothing was acknowledged meanwhile. The other
//! end may be elsewhere or on this host, in another network namespace; either of the two may be the one that sent. Must not: say where on the
//! way it is lost (what this host drops itself has a rule of its own), or blame whoever is there.
//!
//! Rejected: the MTU of a way beyond this host as its own finding (that only long packets are lost is seen by trying short ones, which nobody here
//! does; what a router has said of it is only said, for who was told sends shorter ones).
//!
//! Edit together: graph/undelivered.rs (the test).

use crate::facts::{InetRef, ObjectRef, ThreadRef};
use crate::graph::end::{End, EndKind};
use crate::graph::undelivered::{UNHEARD, Undelivered};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::{Model, figures, words};
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{NOTICED, is_noticed};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, ask};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Between the first and the second time that a segment is sent again.
static SECOND_TRY: Threshold = Threshold::new(
    0.5,
    "s",
    "since a segment was sent again, once in the look: after its first time it is sent again before that",
    "twice TCP_RTO_MIN (include/net/tcp.h), which is 0.2 s, and a round trip",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.undelivered",
    title: "What is sent on a connection does not arrive",
    theory: "A connection that was made stays open however dead the way is: a host that is gone, an address translation that has forgotten \
             it, a firewall that began to drop, a way that loses every packet of full length. TCP sends again, after 0.2 s, then twice as \
             long each time, for a quarter of an hour, and the program just waits. That nothing is acknowledged tells it from a peer that \
             thinks.",
    needs: &[
        "somebody waits for an answer, or for room to send, on a connection of TCP",
        "what this end sent, or the other one if it is on this host, was sent again and is not acknowledged, for 0.3 s and two round trips",
    ],
    refuted_by: &[
        Refutation::new(
            "the question was acknowledged",
            "a_question_that_was_heard_is_the_peer_s_time",
        ),
        Refutation::new("nobody waits so long", "a_short_wait_is_not_for_what_was_lost"),
        Refutation::new(
            "something was acknowledged late in the wait: what was lost since is a small part of it",
            "what_is_lost_in_the_middle_of_a_longer_wait_is_not_what_that_waits_for",
        ),
    ],
    remedies: &[
        "find where on the way packets end, and of which length",
        "a timeout, or probes (SO_KEEPALIVE, TCP_USER_TIMEOUT), so that the program hears of it",
    ],
    stories: &["S2.7"],
    thresholds: &[&UNHEARD, &SECOND_TRY, &NOTICED],
    finds: Finds::Look(find),
};

/// A connection on which nothing arrives.
struct Lost<'m> {
    socket: &'m InetRef,
    undelivered: Undelivered<'m>,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut by_peer: BTreeMap<(SocketAddr, bool), Vec<(usize, Lost<'m>)>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        if let Some(lost) = lost(measures, end) {
            let key = (lost.socket.remote, lost.is_question());
            by_peer.entry(key).or_default().push((at, lost));
        }
    }
    by_peer.into_values().filter_map(|all| matched(measures, ends, &all)).collect()
}

fn lost<'m>(measures: &'m Measures<'m>, end: &End) -> Option<Lost<'m>> {
    let Object::Inet(ino) = end.object else { return None };
    let is_open = matches!(end.kind, EndKind::Remote | EndKind::Link) && !end.victims.is_empty();
    if !is_open || end.longest_seconds < UNHEARD.ns() as f64 / 1e9 {
        return None;
    }
    let socket = measures.model.called.socket(ino).filter(|it| !it.is_connecting())?;
    let undelivered = measures.graph.undelivered(socket)?;
    // Who does not accept them is another matter.
    let graph = &measures.graph;
    if graph.far_processes(socket).is_empty() && !graph.may_accept(socket).is_empty() {
        return None;
    }
    let lost = Lost { socket, undelivered };
    // What was sent in the middle of a longer wait, a sign of life, is not what that waits for.
    let is_most = lost.seconds(measures, end) * 2.0 >= end.longest_seconds;
    (is_most && !lost.may_be_the_first(measures)).then_some(lost)
}

impl Lost<'_> {
    /// This end has sent it, and not the other.
    fn is_question(&self) -> bool {
        matches!(&self.undelivered.sender.object, ObjectRef::Inet(it) if it.local == self.socket.local)
    }

    /// For how long somebody waits and nothing is acknowledged, seconds.
    fn seconds(&self, measures: &Measures<'_>, end: &End) -> f64 {
        let unheard_ns = measures.model.look.end_ns.saturating_sub(self.undelivered.heard_ns);
        // An event loop looks at the clock meanwhile, and waits on.
        let waited = end.victims.values().map(|(_, seconds)| *seconds);
        (unheard_ns as f64 / 1e9).min(waited.fold(end.longest_seconds, f64::max))
    }

    /// Segments that were sent again within the look.
    fn again(&self, measures: &Measures<'_>) -> u32 {
        let ino = self.undelivered.sender.object_ino();
        let stream = measures.tcp_streams.iter().find(|stream| stream.socket.ino == ino);
        stream.map_or(0, |stream| stream.change.retransmits)
    }

    /// Nothing was sent within the look.
    fn was_sent_before(&self, model: &Model) -> bool {
        let turn = self.undelivered.state.turn.unwrap_or_default();
        let sent_ago_ns = u64::from(turn.sent_jiffies) * u64::from(turn.jiffy_ns);
        model.look.end_ns.saturating_sub(sent_ago_ns) < model.look.begin_ns
    }

    /// It was sent again once, and lately: the first time may have been a moment before.
    fn may_be_the_first(&self, measures: &Measures<'_>) -> bool {
        let turn = self.undelivered.state.turn.unwrap_or_default();
        let sent_ns = u64::from(turn.sent_jiffies) * u64::from(turn.jiffy_ns);
        self.again(measures) == 1 && (sent_ns as f64 / 1e9) < SECOND_TRY.value
    }

    /// What a router has said of the way, as a sentence.
    fn learnt(&self, model: &Model) -> String {
        let to = self.undelivered.socket().map(|it| (it.netns, it.remote.ip().to_canonical()));
        let bytes = to.and_then(|to| model.net.next_hops.get(&to)?.path_mtu_bytes);
        let said = |bytes| format!(" A router has said that it takes packets of {bytes} bytes.");
        bytes.map_or_else(String::new, said)
    }

    /// What is outstanding fills whole segments.
    fn is_long(&self) -> bool {
        let segment = self.undelivered.state.segment_bytes;
        segment > 0 && self.undelivered.bytes >= segment
    }
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    all: &[(usize, Lost<'m>)],
) -> Option<Match<'m>> {
    let end = End::merged(all.iter().map(|(at, _)| &ends[*at]))?;
    if !is_noticed(measures, &end) {
        return None;
    }
    let longest = all
        .iter()
        .max_by(|a, b| ends[a.0].longest_seconds.total_cmp(&ends[b.0].longest_seconds))?;
    let wording = wording(measures, &end, &longest.1);
    let address = longest.1.socket.remote;
    let by = Culprit::peer(format!("way to {}", address.ip().to_canonical()), address.to_string());
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(all.iter().fold(matched, |matched, (at, _)| matched.claiming(*at, None)))
}

fn wording(measures: &Measures<'_>, end: &End, lost: &Lost<'_>) -> Wording {
    let (waits, address) = (who_waits(measures, end), lost.socket.remote);
    let since = words::seconds(lost.seconds(measures, end));
    let what = match end.class {
        WaitClass::SocketWrite => "room to send to",
        _ => "an answer of",
    };
    let title = match lost.is_question() {
        true => {
            format!("{waits} for {what} {address}, which has acknowledged nothing for {since}")
        }
        false => {
            format!("{waits} for {address}, whose answer is sent and has not arrived for {since}")
        }
    };
    let again = lost.again(measures);
    let sent_again = match again {
        0 if lost.was_sent_before(measures.model) => ", though sent before the look began".into(),
        0 => String::new(),
        n => {
            format!(", though sent again {} meanwhile", words::count(n as usize, "time", "times"))
        }
    };
    let bytes = figures::bytes(f64::from(lost.undelivered.bytes));
    let gone = "packets are lost on the way there or back, or nobody is there any more";
    let long = match lost.is_long() {
        true => format!(
            " What is outstanding fills whole segments, of {} bytes of data each: a way with a smaller MTU loses just these.{}",
            lost.undelivered.state.segment_bytes,
            lost.learnt(measures.model)
        ),
        false => String::new(),
    };
    let mut evidence = vec![
        Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
        Evidence::new(
            "bytes sent and not acknowledged",
            f64::from(lost.undelivered.bytes),
            "byte",
            "tcp_sock of the connection",
        ),
    ];
    if again > 0 {
        let fact = "segments sent again";
        evidence.push(Evidence::new(fact, f64::from(again), "1", "tcp_sock.total_retrans"));
    }
    Wording {
        title,
        text: format!(
            "{} pass so. {bytes} are not acknowledged{sent_again}: {gone}.{}{long}",
            words::of_window(end.seconds, measures.wall_seconds()),
            whose_end(measures, lost),
        ),
        evidence,
        remedy: remedies(measures, lost),
    }
}

/// The other end is on this host: it has not got it, whatever it does.
fn whose_end(measures: &Measures<'_>, lost: &Lost<'_>) -> String {
    let far = measures.graph.far_processes(lost.socket);
    let named = |far: &ThreadRef| measures.model.threads.who(far);
    match far.first().map(named) {
        Some(far) if lost.is_question() => {
            format!(" {far} of this host has the other end, and has not got it.")
        }
        Some(far) => format!(" {far} of this host has sent it."),
        None => String::new(),
    }
}

fn remedies(measures: &Measures<'_>, lost: &Lost<'_>) -> Vec<Remedy> {
    let (model, socket) = (measures.model, lost.socket);
    let tracepath = command_in(model, socket.netns, "tracepath");
    let way = Remedy {
        text: "see how far packets come on the way, and how long they may be on it".into(),
        command: format!("{tracepath} -n {}", socket.remote.ip().to_canonical()),
        action: Some(Action::look(Question::State).through(tracepath.through.as_ref())),
        ..Remedy::default()
    };
    let own = ask::of_socket(model, socket, "see what this side knows of the connection");
    vec![way, own]
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, at_place};

    const CODE: &str = "net.undelivered";
    const SEGMENT: u32 = 1_448;

    /// A client stands in a read since the begin of the look; so much of its question is not acknowledged.
    fn asks(outstanding: u32) -> Vec<Fact> {
        let near = || inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        let turn = TcpTurn {
            snd_una: 1_000,
            snd_nxt: 1_000 + outstanding,
            packets_out: outstanding.div_ceil(SEGMENT),
            heard_jiffies: 6_000,
            jiffy_ns: 1_000_000,
            ..TcpTurn::default()
        };
        let state = SocketState {
            acked_bytes: 80,
            retransmits: 4,
            send_window_bytes: 60_000,
            segment_bytes: SEGMENT,
            turn: Some(turn),
            ..SocketState::default()
        };
        let stands = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(near()),
            ..Place::default()
        };
        vec![
            look_at(TargetKind::Process, 10),
            Fact { at_ns: LOOK_NS, ..with_state(10, "client", near(), state) },
            at_place(10, "client", stands),
        ]
    }

    #[test]
    fn a_question_that_nobody_acknowledges_is_not_the_peer_s_time() {
        let found = findings(asks(100));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "way to 192.0.2.1"));
        assert!(
            found[0]
                .title
                .contains("an answer of 192.0.2.1:80, which has acknowledged nothing for 5 s")
        );
        assert!(!found[0].text.contains("whole segments"), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, "tracepath -n 192.0.2.1");
    }

    #[test]
    fn what_fills_whole_segments_may_be_too_long_for_the_way() {
        let found = findings(asks(2 * SEGMENT));
        assert!(found[0].text.contains("1448 bytes of data each"), "{}", found[0].text);
        assert!(!found[0].text.contains("A router has said"), "{}", found[0].text);
    }

    #[test]
    fn what_a_router_said_of_the_way_is_said_of_long_segments() {
        let mut hop = next_hop("192.0.2.1", ("eth0", "", 2), 0x02);
        if let Body::NextHop(hop) = &mut hop.body {
            hop.path_mtu_bytes = Some(1_400);
        }
        let found = |outstanding| {
            let mut facts = asks(outstanding);
            facts.push(hop.clone());
            findings(facts).remove(0)
        };
        let said = "A router has said that it takes packets of 1400 bytes.";
        let long = found(2 * SEGMENT);
        assert_eq!(long.code, CODE, "who was told sends shorter packets");
        assert!(long.text.contains(said), "{}", long.text);
        assert!(!found(100).text.contains(said), "a short one fits");
    }

    #[test]
    fn a_question_that_was_heard_is_the_peer_s_time() {
        assert_eq!(codes(asks(0)), ["net.slow_peer"]);
    }

    #[test]
    fn who_has_the_other_end_on_this_host_is_not_waited_for() {
        let far = inet("tcp", 200, "192.0.2.1:80", "10.0.0.1:40000", 1);
        let mut facts = asks(100);
        facts.push(with_state(20, "server", far.clone(), SocketState::default()));
        let reads = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(far),
            ..Place::default()
        };
        facts.push(at_place(20, "server", reads));
        let found = findings(facts);
        assert_eq!(found[0].code, CODE);
        assert!(found[0].text.contains("server 20 of this host has the other end"));
    }

    #[test]
    fn what_is_lost_in_the_middle_of_a_longer_wait_is_not_what_that_waits_for() {
        let with = |change: fn(&mut TcpTurn, &mut SocketState)| {
            let mut facts = asks(100);
            if let Body::Endpoint(end) = &mut facts[1].body
                && let Some(state) = &mut end.socket
            {
                let mut turn = state.turn.unwrap_or_default();
                change(&mut turn, state);
                state.turn = Some(turn);
            }
            says(CODE, facts)
        };
        assert!(with(|_, _| {}));
        assert!(!with(|turn, _| turn.delivered_ns = LOOK_NS - 700_000_000));
        assert!(!with(|turn, state| {
            turn.sent_jiffies = 100;
            (state.retransmits, state.busy_us) = (1, 1);
        }));
        assert!(with(|turn, state| {
            turn.sent_jiffies = 900;
            (state.retransmits, state.busy_us) = (1, 1);
        }));
    }

    #[test]
    fn a_short_wait_is_not_for_what_was_lost() {
        let mut facts = asks(100);
        let near = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        facts[2] = wait(10, "client", "recvfrom", near, 0, 2);
        assert!(!says(CODE, facts));
    }
}
