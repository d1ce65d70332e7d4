//! net.receiver_limited: a TCP sender waits because the receiver reads too slowly.
//!
//! The sender's kernel counts the time in which the peer's window alone held it back (TCP_CHRONO_RWND_LIMITED).
//! Where the reader is on this host, in whatever namespace, he is found by the reversed pair of addresses, and
//! the bytes that wait unread at his socket are the second fact; else the peer's address is the culprit.
//!
//! Must not: fire for a stream that passes a standing queue of this host. Rejected: a small window by itself (it is no limit
//! if the sender has less to send).

use crate::facts::{Endpoint, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::tcp_stream::{Stream, other_end};
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::writers::{BUSY, Peer, WINDOW_SHUT, by_peer, window_is_shut};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;
use std::net::SocketAddr;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.receiver_limited",
    title: "A TCP sender waits for a slow reader",
    theory: "A receiver announces how much room its buffer has left. If its program reads slower than the sender \
             writes, the room shrinks to nothing, the sender's buffer fills too, and its program sleeps in write. \
             Neither the network nor the sender is to blame.",
    needs: &[
        "a writer waits for room in a TCP socket, or has data unsent most of the time",
        "half of the time with data outstanding was limited by the peer's window",
    ],
    refuted_by: &[
        Refutation::new(
            "the stream passes a queue of this host that stands",
            "a_stream_that_passes_a_standing_queue_waits_there",
        ),
        Refutation::new(
            "the window was open: the network or the send buffer limited it",
            "an_open_window_is_not_the_readers_fault",
        ),
        Refutation::new(
            "the window was shut before the look",
            "what_a_socket_counted_before_the_look_is_no_evidence",
        ),
    ],
    remedies: &["make the reader quicker", "give it more threads, or less to do per read"],
    stories: &["S0.16"],
    thresholds: &[&WINDOW_SHUT, &BUSY],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let peers = by_peer(measures, ends, |writer| window_is_shut(writer.stream));
    peers.iter().filter_map(|peer| matched(measures, peer)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, peer: &Peer<'m>) -> Option<Match<'m>> {
    let first = peer.first();
    let reader = other_end(measures.model, first.stream.socket);
    let thread = reader.map(|reader| {
        let holder = first.end.and_then(|(_, end)| end.holder());
        holder.filter(|h| h.pid == reader.process.pid).unwrap_or(&reader.process)
    });
    let wording = wording(measures, peer, reader, thread);
    let by = blamed(measures, peer.address, thread);
    peer.claim(measures, Match::new(by, Proof::Read, move |_| wording.clone()), true)
}

fn wording(
    measures: &Measures<'_>,
    peer: &Peer<'_>,
    reader: Option<&Endpoint>,
    thread: Option<&ThreadRef>,
) -> Wording {
    let (address, first) = (peer.address, peer.first());
    let busy: u64 = peer.writers.iter().map(|one| one.stream.change.busy_us).sum();
    let limited: u64 = peer.writers.iter().map(|one| one.stream.change.receiver_limited_us).sum();
    let share = limited as f64 / busy.max(1) as f64;
    let by = thread.map_or_else(|| format!("the program at {address}"), words::who);
    let doing = match first.end.and_then(|(_, end)| end.holder_mostly()) {
        Some(WaitClass::Timer) if reader.is_some() => " It sleeps between its reads.",
        Some(WaitClass::Stopped) => " It is stopped.",
        Some(WaitClass::FrozenCgroup) => " It is frozen.",
        Some(WaitClass::Running) if reader.is_some() => " It is at work between its reads.",
        _ => "",
    };
    let rate = peer.throughput(measures);
    Wording {
        title: format!("{} waits for {by}, which reads too slowly", peer.writer()),
        text: format!(
            "{} pass in waits to write to {address}. In {} of the time with data outstanding the \
             reader's window was shut; {} a second get through.{doing}",
            words::of_window(peer.lost(), measures.wall_seconds()),
            words::percent(share),
            words::bytes(rate),
        ),
        evidence: evidence(share, first.stream, reader, rate),
        remedy: remedy(measures, peer, thread),
    }
}

fn blamed(measures: &Measures<'_>, peer: SocketAddr, thread: Option<&ThreadRef>) -> Culprit {
    let Some(thread) = thread else {
        return Culprit::peer(format!("reader at {peer}"), peer.to_string());
    };
    Culprit { address: Some(peer.to_string()), ..culprit(measures.model, thread) }
}

fn evidence(
    share: f64,
    stream: &Stream<'_>,
    reader: Option<&Endpoint>,
    rate: f64,
) -> Vec<Evidence> {
    let unsent = stream.state.unsent_bytes as f64;
    let mut evidence = vec![
        Evidence::new(
            "time with data outstanding that the peer's window limited",
            share * 100.0,
            "%",
            "tcp_sock.chrono_stat (tcpi_rwnd_limited)",
        ),
        Evidence::new("written and not yet sent", unsent, "bytes", "tcp_sock"),
        Evidence::new("acknowledged by the peer", rate, "bytes/s", "tcp_sock"),
    ];
    if let Some(state) = reader.and_then(|end| end.socket.as_ref()) {
        let unread = state.receive_queued_bytes as f64;
        let limit = state.receive_limit_bytes as f64;
        evidence.push(Evidence::new("wait unread at the reader's socket", unread, "bytes", "sock"));
        evidence.push(Evidence::new("room of the reader's socket", limit, "bytes", "sock"));
    }
    evidence
}

fn remedy(measures: &Measures<'_>, of: &Peer<'_>, thread: Option<&ThreadRef>) -> Vec<Remedy> {
    let peer = of.address;
    let ss = command_in(measures.model, of.first().stream.socket.netns, "ss");
    match thread {
        Some(thread) => vec![
            Remedy::to(format!("see what {} does instead of reading", words::who(thread)))
                .look(thread),
        ],
        None => vec![Remedy {
            text: format!("look at the reading program on {}", peer.ip()),
            command: format!("{ss} -tin dst {peer}"),
            action: Some(Action::look(Question::State).through(ss.through.as_ref())),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    fn shut() -> SocketState {
        SocketState {
            busy_us: 4_900_000,
            receiver_limited_us: 4_500_000,
            unsent_bytes: 100_000,
            ..SocketState::default()
        }
    }

    #[test]
    fn a_reader_whose_window_stays_shut_is_to_blame() {
        let found = findings(stream(shut()));
        assert_eq!(found[0].code, "net.receiver_limited");
        assert_eq!(found[0].culprit.address.as_deref(), Some("10.0.0.2:80"));
    }

    #[test]
    fn an_event_loop_whose_data_stand_unsent_waits_for_the_reader_too() {
        let found = findings(event_loop(shut()));
        assert_eq!(found[0].code, "net.receiver_limited");
        assert_eq!((found[0].victims[0].pid, found[0].chain.len()), (10, 1));
        let idle = SocketState { busy_us: 900_000, receiver_limited_us: 900_000, ..shut() };
        assert!(codes(event_loop(idle)).is_empty());
    }

    #[test]
    fn what_a_socket_counted_before_the_look_is_no_evidence() {
        let old = SocketState {
            busy_us: 100_000_000,
            receiver_limited_us: 90_000_000,
            ..SocketState::default()
        };
        let now = SocketState { busy_us: 104_900_000, ..old.clone() };
        let mut facts = vec![with_state(10, "sender", near(), old)];
        facts.extend(stream(now));
        assert!(!says("net.receiver_limited", facts));
    }

    #[test]
    fn an_open_window_is_not_the_readers_fault() {
        let open = SocketState { receiver_limited_us: 400_000, ..shut() };
        assert!(!says("net.receiver_limited", stream(open)));
    }

    #[test]
    fn a_stream_that_passes_a_standing_queue_waits_there() {
        for writes in [stream(shut()), event_loop(shut())] {
            let mut facts = queue(290);
            facts.extend(writes);
            facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 303)));
            assert_eq!(codes(facts), ["net.local_queue"]);
        }
    }
}
