//! net.sendbuf_limited: a TCP sender's own buffer is too small for its path.
//!
//! A stream can have no more under way than its send buffer holds; on a path of rate times round trip above that,
//! the buffer sets the speed. Next to all that it holds is under way, or the kernel counts that time
//! (TCP_CHRONO_SNDBUF_LIMITED); the second fact is the buffer itself, below what the window would allow.
//!
//! Must not: fire for a stream that passes a standing queue of this host. Rejected: the kernel's count alone (it only begins
//! at the next segment sent, and misses most of it).

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::tcp_stream::Stream;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::writers::{
    BUSY, HEAVY_LOSS, LEAST_AGAIN, MOST_HOSTS, Peer, SEVERAL_HOSTS, WINDOW_SHUT, Writer, by_peer,
    loses, window_is_shut,
};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;

/// Part of the time with data outstanding in which the buffer was the limit.
static LIMITED: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the time with data outstanding that the send buffer limited, by the kernel's count",
    "chosen: more often than not; on the lab's path (seed 4402) the kernel counts none of it",
);
/// Room for what is under way.
static ROOM: Threshold = Threshold::new(
    1.5,
    "1",
    "times what is under way (rate times round trip) that a buffer holds which does not limit: the kernel's own tuning gives \
     twice that, and more",
    "kernel: tcp_sndbuf_expand, sndmem = 2 * window",
);
/// The window, held against the buffer.
static WINDOW: Threshold = Threshold::new(
    0.5,
    "1",
    "times the buffer that the peer's window has room for: a buffer charges about two bytes for each that it carries",
    "kernel: tcp_sndbuf_expand, a segment's bookkeeping and rounding to a power of two",
);
/// How near to its end the kernel's tuning is.
static AT_ITS_END: Threshold = Threshold::new(
    0.75,
    "1",
    "part of the third value of tcp_wmem from which the kernel's own tuning is at its end; a smaller buffer was set by the program",
    "chosen: tuning grows in steps of a window",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
        Refutation::new(
            "a queue of this host limited it",
            "a_stream_that_passes_a_standing_queue_waits_there",
        ),
        Refutation::new("the peer's window limited it", "a_small_or_shut_window_is_the_peers"),
        Refutation::new(
            "the congestion window limited it (losses)",
            "many_losses_limit_before_the_buffer_does",
        ),
    ],
    remedies: &[
        "do not set SO_SNDBUF: no setting of the host changes a buffer that a program has set",
        "where the kernel tunes it and is at its end, raise the third value of net.ipv4.tcp_wmem",
    ],
    stories: &["S0.16"],
    thresholds: &[
        &LIMITED,
        &ROOM,
        &WINDOW,
        &AT_ITS_END,
        &WINDOW_SHUT,
        &HEAVY_LOSS,
        &LEAST_AGAIN,
        &BUSY,
        &SEVERAL_HOSTS,
        &MOST_HOSTS,
    ],
    finds: Finds::Look(find),
};

/// How many times the most is proposed where the kernel's tuning is at its end.
const RAISED: u64 = 4;

/// All that the buffer holds is under way, and a writer waits for it.
fn all_under_way(writer: &Writer<'_>, seconds: f64) -> bool {
    let holds = writer.stream.state.send_limit_bytes;
    let under_way = writer.stream.under_way_bytes(seconds);
    writer.end.is_some() && holds > 0 && (holds as f64) < ROOM.value * under_way
}

fn counted(stream: &Stream<'_>) -> bool {
    stream.send_buffer_limited() >= LIMITED.value
}

fn window_has_room(stream: &Stream<'_>) -> bool {
    let (window, buffer) = (stream.state.send_window_bytes, stream.state.send_limit_bytes);
    f64::from(window) > WINDOW.value * buffer as f64
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let seconds = measures.model.look.seconds();
    let peers = by_peer(measures, ends, |writer| {
        let stream = writer.stream;
        (all_under_way(writer, seconds) || counted(stream))
            && window_has_room(stream)
            && !window_is_shut(stream)
            && !loses(stream, &HEAVY_LOSS)
    });
    peers.iter().filter_map(|peer| matched(measures, peer)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, peer: &Peer<'m>) -> Option<Match<'m>> {
    let stream = peer.first().stream;
    let proof = if counted(stream) { Proof::Read } else { Proof::TwoWitnesses };
    let wording = wording(measures, peer);
    let by = Culprit {
        pid: Some(stream.endpoint.process.pid),
        ..Culprit::setting(
            format!("send buffer of {}", peer.writer()),
            "SO_SNDBUF or net.ipv4.tcp_wmem",
        )
    };
    peer.claim(measures, Match::new(by, proof, move |_| wording.clone()), false)
}

fn wording(measures: &Measures<'_>, peer: &Peer<'_>) -> Wording {
    let state = peer.first().stream.state;
    let busy: u64 = peer.writers.iter().map(|one| one.stream.change.busy_us).sum();
    let limited = peer.writers.iter().map(|one| one.stream.change.send_buffer_limited_us);
    let share = limited.sum::<u64>() as f64 / busy.max(1) as f64;
    let rtt = f64::from(state.rtt_us) / 1e6;
    let (unsent, window) = (state.unsent_bytes as f64, f64::from(state.send_window_bytes));
    let buffer = state.send_limit_bytes as f64;
    Wording {
        title: match peer.is_client {
            true => format!(
                "what {} sends to {} waits for its own send buffer of {}",
                peer.writer(),
                peer.address,
                words::bytes(buffer)
            ),
            false => {
                format!(
                    "{} waits for its own send buffer of {}",
                    peer.writer(),
                    words::bytes(buffer)
                )
            }
        },
        text: format!(
            "{} All that the buffer holds is under way for a round trip of \
             {}; the peer would take {}.",
            peer.held_back(measures),
            words::seconds(rtt),
            words::bytes(window),
        ),
        evidence: vec![
            Evidence::new(
                "time with data outstanding that the send buffer limited",
                share * 100.0,
                "%",
                "tcp_sock.chrono_stat (tcpi_sndbuf_limited)",
            ),
            Evidence::new("written and not yet sent", unsent, "bytes", "tcp_sock"),
            Evidence::new("send buffer", buffer, "bytes", "sock.sk_sndbuf"),
            Evidence::new("the peer's window", window, "bytes", "tcp_sock"),
            Evidence::new("round trip", rtt * 1e3, "ms", "tcp_sock"),
        ],
        remedy: vec![remedy(measures, peer.first().stream)],
    }
}

/// The kernel lets a buffer that the program has not set grow with the window, up to the third value of tcp_wmem: one
/// that stands below that and still limits was set by the program, and no setting of the host moves it.
fn remedy(measures: &Measures<'_>, stream: &Stream<'_>) -> Remedy {
    let sysctl = command_in(measures.model, stream.socket.netns, "sysctl");
    // Each network namespace has its own values, and those of this one are known.
    let mut links = measures.model.net.links.iter();
    let link = links.find(|link| link.netns == stream.socket.netns);
    if link.is_some_and(|link| !link.netns_name.is_empty()) {
        return Remedy {
            text: "see how far the kernel's own tuning goes there, and whether the program sets SO_SNDBUF".into(),
            command: format!("{sysctl} net.ipv4.tcp_wmem"),
            action: Some(Action::look(Question::State).through(sysctl.through.as_ref())),
            ..Remedy::default()
        };
    }
    let values = measures.model.net.sysctls.get("net.ipv4.tcp_wmem").map_or("", String::as_str);
    let values: Vec<u64> = values.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [least, usual, most] = values[..] else {
        return Remedy {
            text: "let the program not set SO_SNDBUF, or set more".into(),
            ..Remedy::default()
        };
    };
    if (stream.state.send_limit_bytes as f64) < AT_ITS_END.value * most as f64 {
        return Remedy {
            text: format!(
                "let the program not set SO_SNDBUF: the kernel's own tuning would go up to {}. No setting of the \
                 host changes a buffer that a program has set",
                words::bytes(most as f64)
            ),
            ..Remedy::default()
        };
    }
    let set = |most: u64| format!("{sysctl} -w net.ipv4.tcp_wmem='{least} {usual} {most}'");
    let raised = most.saturating_mul(RAISED);
    let value = |most: u64| format!("{least} {usual} {most}");
    let mut action = Action::sysctl("net.ipv4.tcp_wmem", value(raised), value(most));
    action.target.netns = Some(stream.socket.netns).filter(|netns| *netns != 0);
    Remedy::to("let the kernel give more").set(
        action.through(sysctl.through.as_ref()),
        set(raised),
        set(most),
    )
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    fn small(send_window_bytes: u32) -> SocketState {
        SocketState {
            busy_us: 4_900_000,
            send_buffer_limited_us: 4_000_000,
            send_limit_bytes: 8_192,
            send_window_bytes,
            ..SocketState::default()
        }
    }

    #[test]
    fn a_small_send_buffer_before_an_open_window_is_to_blame() {
        assert_eq!(codes(stream(small(1_000_000))), ["net.sendbuf_limited"]);
        let way = |most: &str| {
            let mut facts = stream(small(1_000_000));
            let value = format!("4096 16384 {most}");
            facts.push(fact(Body::Sysctl(Sysctl { name: "net.ipv4.tcp_wmem".into(), value })));
            findings(facts)[0].remedy[0].clone()
        };
        assert!(way("4194304").command.is_empty(), "the kernel would have let it grow");
        assert!(way("8192").command.ends_with("net.ipv4.tcp_wmem='4096 16384 32768'"));
        assert!(way("8192").undo.ends_with("net.ipv4.tcp_wmem='4096 16384 8192'"));
    }

    #[test]
    fn a_send_buffer_that_is_all_under_way_is_the_cause_whatever_the_round_trip() {
        let state = SocketState {
            busy_us: 4_900_000,
            rtt_us: 50_000,
            rtt_us_min: 20,
            acked_bytes: 1_600_000,
            send_limit_bytes: 16_384,
            send_queued_bytes: 16_000,
            send_window_bytes: 1_000_000,
            ..SocketState::default()
        };
        assert_eq!(codes(stream(state)), ["net.sendbuf_limited"]);
    }

    #[test]
    fn a_small_or_shut_window_is_the_peers() {
        assert!(!says("net.sendbuf_limited", stream(small(2_000))));
        let shut = SocketState { receiver_limited_us: 4_000_000, ..small(1_000_000) };
        assert_eq!(codes(event_loop(shut)), ["net.receiver_limited"]);
    }

    #[test]
    fn many_losses_limit_before_the_buffer_does() {
        let lossy = SocketState { retransmits: 40, delivered: 900, ..small(1_000_000) };
        assert_eq!(codes(stream(lossy)), ["net.loss"]);
    }

    #[test]
    fn a_stream_that_passes_a_standing_queue_waits_there() {
        let mut facts = queue(290);
        facts.extend(stream(small(1_000_000)));
        facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 303)));
        assert_eq!(codes(facts), ["net.local_queue"]);
    }
}
