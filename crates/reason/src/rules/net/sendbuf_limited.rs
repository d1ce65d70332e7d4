//! net.sendbuf_limited: a TCP sender's own buffer is too small for its path.
//!
//! A stream can have no more under way than its send buffer holds; on a path of rate times round trip above that,
//! the buffer sets the speed. Next to all that it holds is under way, or the kernel counts that time
//! (TCP_CHRONO_SNDBUF_LIMITED); the second fact is the buffer itself, below what the window would allow.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::net::{self, Stream, Wrong};
use crate::rules::old::{Rule, Verdict, words};
use std::net::SocketAddr;

/// The case.
pub static RULE: Rule = Rule {
    code: "net.sendbuf_limited",
    title: "A TCP sender's own buffer is too small",
    theory: "What was sent stays in the send buffer until the peer has acknowledged it. A buffer smaller than rate \
             times round trip is empty-handed most of the time: all of it is under way, and the program sleeps \
             until the next acknowledgement. Setting SO_SNDBUF turns off the kernel's own tuning.",
    needs: &[
        "a writer waits for room in a TCP socket",
        "next to all that the buffer holds is under way, or half of the time with data outstanding was limited by the buffer",
        "the peer's window has room for more than the buffer holds",
    ],
    refuted_by: &[
        Refutation::new("the peer's window or a queue limited it", ""),
        Refutation::new("the congestion window limited it (losses)", ""),
    ],
    remedies: &[
        "do not set SO_SNDBUF: no setting of the host changes a buffer that a program has set",
        "where the kernel tunes it and is at its end, raise the third value of net.ipv4.tcp_wmem",
    ],
    stories: &["S0.16"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let queues = net::standing_queues(measures.model);
    let streams = net::streams(measures, &queues);
    let peers = net::by_peer(&streams, Wrong::SendBuffer);
    peers.iter().filter_map(|(peer, streams)| finding(measures, *peer, streams)).collect()
}

fn finding(measures: &Measures<'_>, peer: SocketAddr, streams: &[&Stream<'_>]) -> Option<Finding> {
    let first = streams.iter().max_by(|a, b| a.lost.total_cmp(&b.lost))?;
    let state = first.state;
    if u64::from(state.send_window_bytes) <= state.send_limit_bytes / 2 {
        return None;
    }
    let busy: u64 = streams.iter().map(|s| s.change.busy_us).sum();
    let limited: u64 = streams.iter().map(|s| s.change.send_buffer_limited_us).sum();
    let share = limited as f64 / busy.max(1) as f64;
    let rtt = f64::from(state.rtt_us) / 1e6;
    let buffer = words::bytes(state.send_limit_bytes as f64);
    let writer = net::writer(streams);
    let verdict = Verdict {
        title: format!("{writer} waits for its own send buffer of {buffer}"),
        text: format!(
            "{} pass in waits to write to {peer}. All that the buffer holds is under way for a round trip of \
             {}; the peer would take {}.",
            words::of_window(net::lost(streams), measures.wall_seconds()),
            words::seconds(rtt),
            words::bytes(f64::from(state.send_window_bytes)),
        ),
        confidence: 0.9,
        culprit: Culprit {
            pid: Some(first.endpoint.process.pid),
            ..Culprit::setting(format!("send buffer of {writer}"), "SO_SNDBUF or net.ipv4.tcp_wmem")
        },
        evidence: vec![
            Evidence::new(
                "time with data outstanding that the send buffer limited",
                share * 100.0,
                "%",
                "tcp_sock.chrono_stat (tcpi_sndbuf_limited)",
            ),
            Evidence::new(
                "written and not yet sent",
                state.unsent_bytes as f64,
                "bytes",
                "tcp_sock",
            ),
            Evidence::new("send buffer", state.send_limit_bytes as f64, "bytes", "sock.sk_sndbuf"),
            Evidence::new(
                "the peer's window",
                f64::from(state.send_window_bytes),
                "bytes",
                "tcp_sock",
            ),
            Evidence::new("round trip", rtt * 1e3, "ms", "tcp_sock"),
        ],
        remedy: vec![remedy(measures, first)],
    };
    net::stream_finding(&RULE, measures, streams, verdict)
}

/// The kernel lets a buffer that the program has not set grow with the window, up to the third value of tcp_wmem: one
/// that stands below that and still limits was set by the program, and no setting of the host moves it.
fn remedy(measures: &Measures<'_>, first: &Stream<'_>) -> Remedy {
    let values = measures.model.sysctls.get("net.ipv4.tcp_wmem").map_or("", String::as_str);
    let values: Vec<u64> = values.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [least, usual, most] = values[..] else {
        return Remedy {
            text: "let the program not set SO_SNDBUF, or set more".into(),
            ..Remedy::default()
        };
    };
    if first.state.send_limit_bytes < most / 4 * 3 {
        return Remedy {
            text: format!(
                "let the program not set SO_SNDBUF: the kernel's own tuning would go up to {}. No setting of the \
                 host changes a buffer that a program has set",
                words::bytes(most as f64)
            ),
            ..Remedy::default()
        };
    }
    // Each network namespace has its own.
    let sysctl = net::command_in(measures.model, first.socket.netns, "sysctl");
    let set = |most: u64| format!("{sysctl} -w net.ipv4.tcp_wmem='{least} {usual} {most}'");
    Remedy {
        text: "let the kernel give more".into(),
        command: set(most.saturating_mul(4)),
        undo: set(most),
    }
}
