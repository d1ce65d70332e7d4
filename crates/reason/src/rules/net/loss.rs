//! net.loss: segments are lost on the way, and a stream crawls.
//!
//! TCP takes a loss for a sign of a full path and halves its window; random losses of one in a hundred leave it
//! small for ever. The stream's own count of segments sent again is the witness, the namespace's RetransSegs the
//! second. What a peer reports to have had already (DSACK) was not lost: where that is most of what was sent again, it came late or out of order.
//!
//! Must not: fire for losses at a full local queue, or with a grown round trip, which have other names. Rejected: the
//! namespace's counter alone (it does not say whose segments).

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::lost_here as here;
use crate::rules::net::ways_out::{bits, command_in};
use crate::rules::net::writers::{
    BUSY, LEAST_AGAIN, MOST_HOSTS, Peer, SEVERAL_HOSTS, WINDOW_SHUT, by_peer, loses, window_is_shut,
};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;

/// Part of the segments whose loss sets the rate.
static LOST: Threshold = Threshold::new(
    0.005,
    "1",
    "segments sent again for each one delivered: from here loss and not the line sets the rate of Reno and CUBIC on any path \
     of more than a few milliseconds",
    "Mathis et al. 1997: rate = segment / round trip * 1.2 / sqrt(loss)",
);

/// Part of what was sent again that the peer had already.
static HAD_ALREADY: Threshold = Threshold::new(
    0.5,
    "1",
    "of the segments that the namespace sent again, those that peers report twice (DSACK): from here they were mostly not lost",
    "chosen: most of them; RFC 3708",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.loss",
    title: "Segments are lost on the way to a peer",
    theory: "A lost segment is sent again after three later ones were acknowledged, or after a timeout of 200 ms \
             and more, and each loss makes the sender slow down. A bad cable, radio, duplex mismatch or an \
             overloaded device thus costs far more than the part of the packets that it loses.",
    needs: &[
        "a writer waits for room in a TCP socket, or has data unsent most of the time",
        "at least five segments, and one in two hundred, were sent again",
        "the namespace's count of segments sent again grew as well",
        "where a full queue of this host dropped half as many packets of it, that queue is named and not the way",
    ],
    refuted_by: &[
        Refutation::new(
            "a local queue stands (it drops what does not fit)",
            "losses_of_a_standing_queue_are_its_own",
        ),
        Refutation::new(
            "the round trip has grown: the losses are a remote queue's overflow",
            "few_losses_beside_a_grown_round_trip_are_an_overflow",
        ),
        Refutation::new(
            "the namespace counts no segment that was sent again",
            "losses_need_the_counter_of_the_namespace_as_well",
        ),
        Refutation::new("the peer's window is shut", "behind_a_shut_window_losses_cost_nothing"),
    ],
    remedies: &[
        "find the lossy hop",
        "check cable, port errors and duplex",
        "BBR bears random loss better",
    ],
    stories: &["S0.17"],
    thresholds: &[
        &here::HERE,
        &LOST,
        &LEAST_AGAIN,
        &WINDOW_SHUT,
        &BUSY,
        &HAD_ALREADY,
        &SEVERAL_HOSTS,
        &MOST_HOSTS,
    ],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let peers = by_peer(measures, ends, |writer| {
        loses(writer.stream, &LOST) && !window_is_shut(writer.stream)
    });
    peers.iter().filter_map(|peer| matched(measures, peer)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, peer: &Peer<'m>) -> Option<Match<'m>> {
    let counted = growth(measures.model, peer.first().stream.socket.netns, "Tcp.RetransSegs");
    if counted == Some(0) {
        return None;
    }
    let proof = if counted.is_some() { Proof::TwoWitnesses } else { Proof::OneWitness };
    let again = Again::of(measures, peer);
    let wording = wording(measures, peer, counted, again);
    if let Some(here) = here::dropped(measures, peer) {
        let wording = here.wording(measures, peer, wording);
        let by = here.culprit();
        return peer.claim(measures, Match::new(by, proof, move |_| wording.clone()), false);
    }
    let path = format!("path to {}", peer.address.ip());
    let by = Culprit::peer(path, peer.address.to_string());
    peer.claim(measures, Match::new(by, proof, move |_| wording.clone()), false)
}

/// Segments of a namespace that its peers had twice, as they report it.
#[derive(Debug, Clone, Copy)]
struct Again {
    /// How many (TCPDSACKRecv).
    had_already: u64,
    /// Of what was sent to this peer again they are most, though others of the namespace had none of them.
    is_most: bool,
    /// Times that segments were seen to come out of order (TCPSACKReorder, TCPTSReorder).
    reordered: u64,
}

impl Again {
    fn of(measures: &Measures<'_>, peer: &Peer<'_>) -> Self {
        let netns = peer.first().stream.socket.netns;
        let grown = |name| growth(measures.model, netns, name).unwrap_or(0);
        let (had_already, again) = (grown("TcpExt.TCPDSACKRecv"), grown("Tcp.RetransSegs"));
        let own: u64 =
            peer.writers.iter().map(|one| u64::from(one.stream.change.retransmits)).sum();
        Self {
            had_already,
            is_most: had_already > 0
                && again.saturating_sub(had_already) as f64
                    <= (1.0 - HAD_ALREADY.value) * own as f64,
            reordered: grown("TcpExt.TCPSACKReorder") + grown("TcpExt.TCPTSReorder"),
        }
    }

    /// In a sentence, where not most was lost.
    fn said(self, counted: Option<u64>) -> String {
        let Some(counted) = counted.filter(|_| self.is_most) else { return String::new() };
        let came = if self.reordered > 0 { "out of order" } else { "late" };
        format!(
            " Of {counted} that the network namespace sent again peers had {} already: they came {came}, and were not lost.",
            self.had_already.min(counted)
        )
    }

    fn evidence(self) -> Vec<Evidence> {
        let of = |fact: &str, count: u64, name: &str| {
            Evidence::new(fact, count as f64, "1", format!("/proc/net/netstat TcpExt.{name}"))
        };
        let twice = "segments that peers of the namespace had twice";
        let reordered = "times that its segments were seen out of order";
        vec![
            of(twice, self.had_already, "TCPDSACKRecv"),
            of(reordered, self.reordered, "TCPSACKReorder"),
        ]
    }
}

fn wording(
    measures: &Measures<'_>,
    peer: &Peer<'_>,
    counted: Option<u64>,
    twice: Again,
) -> Wording {
    let again: u32 = peer.writers.iter().map(|one| one.stream.change.retransmits).sum();
    let delivered: u32 = peer.writers.iter().map(|one| one.stream.change.delivered).sum();
    let share = f64::from(again) / f64::from(again.saturating_add(delivered).max(1));
    let rate = peer.throughput(measures);
    let window = peer.first().stream.state.congestion_window;
    let mtr = command_in(measures.model, peer.first().stream.socket.netns, "mtr");
    let mut evidence = vec![
        Evidence::new("segments sent again", f64::from(again), "1", "tcp_sock.total_retrans"),
        Evidence::new("part of all segments", share * 100.0, "%", "tcp_sock"),
        Evidence::new("congestion window", f64::from(window), "1", "tcp_sock"),
        Evidence::new("acknowledged by the peer", rate, "bytes/s", "tcp_sock"),
    ];
    if let Some(counted) = counted {
        let fact = "segments sent again in the namespace";
        evidence.push(Evidence::new(fact, counted as f64, "1", "/proc/net/snmp Tcp.RetransSegs"));
        evidence.extend(twice.evidence());
    }
    let (writer, part) = (peer.writer(), words::percent(share));
    let (title, find) = match twice.is_most {
        true => (
            format!(
                "{writer} sends {part} of its segments to {} again, most of them for nothing",
                peer.address
            ),
            "find the hop that delays them or changes their order: several lines used as one, a radio",
        ),
        false => (
            format!("{writer} loses {part} of its segments on the way to {}", peer.address),
            "find the hop that loses",
        ),
    };
    Wording {
        title,
        text: format!(
            "{} {again} segments had to be sent again; {} gets through, \
             with {window} segments under way at a time.{}",
            peer.held_back(measures),
            bits(rate),
            twice.said(counted),
        ),
        evidence,
        remedy: vec![Remedy {
            text: find.into(),
            command: format!("{mtr} -n --tcp --port {} {}", peer.address.port(), peer.address.ip()),
            action: Some(Action::look(Question::State).through(mtr.through.as_ref())),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    fn lossy() -> SocketState {
        SocketState {
            busy_us: 4_900_000,
            retransmits: 40,
            delivered: 900,
            rtt_us: 10_000,
            rtt_us_min: 9_000,
            ..SocketState::default()
        }
    }

    fn counted(mut facts: Vec<Fact>, grown: u64) -> Vec<String> {
        facts.extend(counters(&[("Tcp.RetransSegs", 7, 7 + grown)]));
        codes(facts)
    }

    #[test]
    fn losses_need_the_counter_of_the_namespace_as_well() {
        assert_eq!(counted(stream(lossy()), 41), ["net.loss"]);
        assert!(counted(stream(lossy()), 0).is_empty());
    }

    #[test]
    fn segments_that_the_peer_had_already_were_not_lost() {
        let found = |had: u64, reordered: u64| {
            let mut facts = stream(lossy());
            facts.extend(counters(&[
                ("Tcp.RetransSegs", 7, 47),
                ("TcpExt.TCPDSACKRecv", 2, 2 + had),
                ("TcpExt.TCPSACKReorder", 1, 1 + reordered),
            ]));
            findings(facts).remove(0)
        };
        let most = found(36, 3);
        assert!(most.title.ends_with("again, most of them for nothing"), "{}", most.title);
        let said = "Of 40 that the network namespace sent again peers had 36 already: they came out of order, and were not lost.";
        assert!(most.text.ends_with(said), "{}", most.text);
        assert!(found(36, 0).text.ends_with("they came late, and were not lost."));
        let few = found(3, 3);
        assert!(few.title.contains("loses") && !few.text.contains("already"), "{}", few.text);
    }

    #[test]
    fn losses_of_a_standing_queue_are_its_own() {
        let mut facts = queue(290);
        facts.extend(stream(lossy()));
        facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 303)));
        assert_eq!(counted(facts, 41), ["net.local_queue"]);
    }

    #[test]
    fn few_losses_beside_a_grown_round_trip_are_an_overflow() {
        let state = |rtt_us| SocketState { rtt_us, delivered: 4_000, ..lossy() };
        assert_eq!(counted(stream(state(10_000)), 41), ["net.loss"]);
        assert_eq!(counted(stream(state(90_000)), 41), ["net.remote_queue"]);
    }

    #[test]
    fn behind_a_shut_window_losses_cost_nothing() {
        let shut = SocketState { receiver_limited_us: 4_000_000, ..lossy() };
        assert_eq!(counted(stream(shut.clone()), 41), ["net.receiver_limited"]);
        assert_eq!(counted(event_loop(shut), 41), ["net.receiver_limited"]);
    }
}
