//! net.receiver_limited: a TCP sender waits because the receiver reads too slowly.
//!
//! The sender's kernel counts the time in which the peer's window alone held it back (TCP_CHRONO_RWND_LIMITED).
//! Where the reader is on this host, in whatever namespace, he is found by the reversed pair of addresses, and
//! the bytes that wait unread at his socket are the second fact; else the peer's address is the culprit.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::facts::{Endpoint, ThreadRef};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::net::{self, Stream, Wrong};
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;
use std::net::SocketAddr;

/// The case.
pub static RULE: Rule = Rule {
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
        Refutation::new("the stream passes a queue of this host that stands", ""),
        Refutation::new("the window was open: the network or the send buffer limited it", ""),
    ],
    remedies: &["mend the reader", "give it more threads, or less to do per read"],
    stories: &["S0.16"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let queues = net::standing_queues(measures.model);
    let streams = net::streams(measures, &queues);
    let peers = net::by_peer(&streams, Wrong::Receiver);
    peers.iter().filter_map(|(peer, streams)| finding(measures, *peer, streams)).collect()
}

fn finding(measures: &Measures<'_>, peer: SocketAddr, streams: &[&Stream<'_>]) -> Option<Finding> {
    let model = measures.model;
    let first = streams.iter().max_by(|a, b| a.lost.total_cmp(&b.lost))?;
    let reader = net::reader(model, first.socket);
    let busy: u64 = streams.iter().map(|s| s.change.busy_us).sum();
    let limited: u64 = streams.iter().map(|s| s.change.receiver_limited_us).sum();
    let share = limited as f64 / busy.max(1) as f64;
    let thread = reader.map(|end| {
        let holder = first.end.and_then(|end| end.holder());
        holder.filter(|h| h.pid == end.process.pid).unwrap_or(&end.process)
    });
    let by = thread.map_or_else(|| format!("the program at {peer}"), words::who);
    let doing = match first.end.and_then(|end| end.holder_mostly()) {
        Some(WaitClass::Timer) if reader.is_some() => " It sleeps between its reads.",
        Some(WaitClass::Stopped) => " It is stopped.",
        Some(WaitClass::FrozenCgroup) => " It is frozen.",
        Some(WaitClass::Running) if reader.is_some() => " It is at work between its reads.",
        _ => "",
    };
    let verdict = Verdict {
        title: format!("{} waits for {by}, which reads too slowly", net::writer(streams)),
        text: format!(
            "{} pass in waits to write to {peer}. In {} of the time with data outstanding the \
             reader's window was shut; {} a second get through.{doing}",
            words::of_window(net::lost(streams), measures.wall_seconds()),
            words::percent(share),
            words::bytes(net::throughput(measures, streams)),
        ),
        confidence: if reader.is_some() { 0.96 } else { 0.9 },
        culprit: blamed(measures, peer, thread),
        evidence: evidence(share, first, reader, net::throughput(measures, streams)),
        remedy: remedy(peer, thread),
    };
    net::stream_finding(&RULE, measures, streams, verdict)
}

fn blamed(measures: &Measures<'_>, peer: SocketAddr, thread: Option<&ThreadRef>) -> Culprit {
    let Some(thread) = thread else {
        return Culprit::peer(format!("reader at {peer}"), peer.to_string());
    };
    Culprit { address: Some(peer.to_string()), ..culprit(measures, thread) }
}

fn evidence(
    share: f64,
    stream: &Stream<'_>,
    reader: Option<&Endpoint>,
    rate: f64,
) -> Vec<Evidence> {
    let mut evidence = vec![
        Evidence::new(
            "time with data outstanding that the peer's window limited",
            share * 100.0,
            "%",
            "tcp_sock.chrono_stat (tcpi_rwnd_limited)",
        ),
        Evidence::new(
            "written and not yet sent",
            stream.state.unsent_bytes as f64,
            "bytes",
            "tcp_sock",
        ),
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

fn remedy(peer: SocketAddr, thread: Option<&ThreadRef>) -> Vec<Remedy> {
    match thread {
        Some(thread) => vec![Remedy {
            text: format!("see what {} does instead of reading", words::who(thread)),
            command: format!("holdup pid {}", thread.pid),
            ..Remedy::default()
        }],
        None => vec![Remedy {
            text: format!("look at the reading program on {}", peer.ip()),
            command: format!("ss -tin dst {}", peer.ip()),
            ..Remedy::default()
        }],
    }
}
