//! net.remote_queue: what this host sends waits in a queue beyond it.
//!
//! The round trip of a busy stream has grown to a multiple of the least that the same path once took, while the
//! packets pass this host's own queues at once: they wait at a slower hop further on. Which hop cannot be seen
//! from here. Must not fire while a local queue stands, or the peer's window is shut.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::measure::Measures;
use crate::rules::old::net::{self, Stream, Wrong};
use crate::rules::old::{Rule, Verdict, words};
use std::net::SocketAddr;

/// Shaping slightly below the slow hop moves the queue to where it can be managed.
const BELOW: f64 = 0.95;
use crate::rules::Refutation;

/// The case.
pub static RULE: Rule = Rule {
    code: "net.remote_queue",
    title: "Packets wait in a queue beyond this host",
    theory: "A sender fills the slowest hop of its path. If that hop is a modem, router or switch with a large \
             buffer, the round trip grows from its least value to the time that the buffer takes to drain, for \
             everybody who passes there, though every queue of this host is empty.",
    needs: &[
        "a writer waits for room in a TCP socket, or has data unsent most of the time",
        "the smoothed round trip is three times the least one of the same connection, and 10 ms more",
        "no queue of this host that the stream passes stands",
    ],
    refuted_by: &[
        Refutation::new("a local queue stands", ""),
        Refutation::new("the round trip stays near its least value", ""),
    ],
    remedies: &[
        "shape this host's traffic a little below the rate of the slow hop, with fq_codel",
        "use a faster path, or send less",
    ],
    stories: &["S0.17"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let queues = net::standing_queues(measures.model);
    let streams = net::streams(measures, &queues);
    let peers = net::by_peer(&streams, Wrong::RemoteQueue);
    peers.iter().filter_map(|(peer, streams)| finding(measures, *peer, streams)).collect()
}

fn finding(measures: &Measures<'_>, peer: SocketAddr, streams: &[&Stream<'_>]) -> Option<Finding> {
    let first = streams.iter().max_by(|a, b| a.lost.total_cmp(&b.lost))?;
    let (rtt, least) =
        (f64::from(first.state.rtt_us) / 1e6, f64::from(first.state.rtt_us_min) / 1e6);
    let rate = net::throughput(measures, streams);
    let from = "tcp_sock (srtt_us, rtt_min)";
    let verdict = Verdict {
        title: format!(
            "{} waits for a queue beyond this host, on the way to {peer}",
            net::writer(streams)
        ),
        text: format!(
            "{} pass in waits to write to {peer}. The round trip takes {}, {} when the path is empty, and no \
             queue of this host stands: some {} wait at a hop that lets {} through.",
            words::of_window(net::lost(streams), measures.wall_seconds()),
            words::seconds(rtt),
            words::seconds(least),
            words::bytes((rtt - least) * rate),
            net::bits(rate),
        ),
        confidence: 0.88,
        culprit: Culprit::peer(format!("path to {}", peer.ip()), peer.to_string()),
        evidence: vec![
            Evidence::new("smoothed round trip", rtt * 1e3, "ms", from),
            Evidence::new("least round trip", least * 1e3, "ms", from),
            Evidence::new("acknowledged by the peer", rate, "bytes/s", "tcp_sock"),
            Evidence::new(
                "standing queues of this host on the way",
                0.0,
                "1",
                "qdisc events, rtnetlink",
            ),
        ],
        remedy: vec![Remedy {
            text: format!(
                "shape the interface to {} with fq_codel, a little below the slow hop, to have the queue here",
                net::bits(rate * BELOW)
            ),
            ..Remedy::default()
        }],
    };
    net::stream_finding(&RULE, measures, streams, verdict)
}
