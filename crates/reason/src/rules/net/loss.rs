//! net.loss: segments are lost on the way, and a stream crawls.
//!
//! TCP takes a loss for a sign of a full path and halves its window; random losses of one in a hundred keep it
//! small for ever. The stream's own count of segments sent again is the witness, the namespace's RetransSegs the
//! second. Losses at a full local queue, or beside a grown round trip, have other names (net.rs decides).

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::net::{self, Stream, Wrong};
use crate::rules::old::{Rule, Verdict, words};
use std::net::SocketAddr;

/// The case.
pub static RULE: Rule = Rule {
    code: "net.loss",
    title: "Segments are lost on the way to a peer",
    theory: "A lost segment is sent again after three later ones were acknowledged, or after a timeout of 200 ms \
             and more, and each loss makes the sender slow down. A bad cable, radio, duplex mismatch or an \
             overloaded device thus costs far more than the part of the packets that it loses.",
    needs: &[
        "a writer waits for room in a TCP socket, or has data unsent most of the time",
        "at least five segments, and one in two hundred, were sent again",
        "the namespace's count of segments sent again grew as well",
    ],
    refuted_by: &[
        Refutation::new("a local queue stands (it drops what does not fit)", ""),
        Refutation::new("the round trip has grown: the losses are a remote queue's overflow", ""),
    ],
    remedies: &[
        "find the lossy hop",
        "check cable, port errors and duplex",
        "BBR bears random loss better",
    ],
    stories: &["S0.17"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let queues = net::standing_queues(measures.model);
    let streams = net::streams(measures, &queues);
    let peers = net::by_peer(&streams, Wrong::Loss);
    peers.iter().filter_map(|(peer, streams)| finding(measures, *peer, streams)).collect()
}

fn finding(measures: &Measures<'_>, peer: SocketAddr, streams: &[&Stream<'_>]) -> Option<Finding> {
    let model = measures.model;
    let first = streams.iter().max_by(|a, b| a.lost.total_cmp(&b.lost))?;
    let again: u32 = streams.iter().map(|s| s.change.retransmits).sum();
    let delivered: u32 = streams.iter().map(|s| s.change.delivered).sum();
    let share = f64::from(again) / f64::from(again.saturating_add(delivered).max(1));
    let counted = net::counter_growth(model, first.socket.netns, "Tcp.RetransSegs");
    if counted == Some(0) {
        return None;
    }
    let rate = net::throughput(measures, streams);
    let mut evidence = vec![
        Evidence::new("segments sent again", f64::from(again), "1", "tcp_sock.total_retrans"),
        Evidence::new("part of all segments", share * 100.0, "%", "tcp_sock"),
        Evidence::new(
            "congestion window",
            f64::from(first.state.congestion_window),
            "1",
            "tcp_sock",
        ),
        Evidence::new("acknowledged by the peer", rate, "bytes/s", "tcp_sock"),
    ];
    if let Some(counted) = counted {
        let fact = "segments sent again in the namespace";
        evidence.push(Evidence::new(fact, counted as f64, "1", "/proc/net/snmp Tcp.RetransSegs"));
    }
    let verdict = Verdict {
        title: format!(
            "{} loses {} of its segments on the way to {peer}",
            net::writer(streams),
            words::percent(share)
        ),
        text: format!(
            "{} pass in waits to write to {peer}. {again} segments had to be sent again; {} gets through, \
             with {} segments under way at a time.",
            words::of_window(net::lost(streams), measures.wall_seconds()),
            net::bits(rate),
            first.state.congestion_window,
        ),
        confidence: if counted.is_some() { 0.9 } else { 0.8 },
        culprit: Culprit::peer(format!("path to {}", peer.ip()), peer.to_string()),
        evidence,
        remedy: vec![Remedy {
            text: "find the hop that loses".into(),
            command: format!("mtr -n --tcp --port {} {}", peer.port(), peer.ip()),
            ..Remedy::default()
        }],
    };
    net::stream_finding(&RULE, measures, streams, verdict)
}
