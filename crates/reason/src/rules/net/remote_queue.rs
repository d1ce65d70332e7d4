//! net.remote_queue: what this host sends waits in a queue beyond it.
//!
//! The round trip of a busy stream has grown to a multiple of the least that the same path once took, while the
//! packets pass this host's own queues at once: they wait at a slower hop further on. Which hop cannot be seen
//! from here.
//!
//! What goes into a tun device is in the hands of a program of this host from there on: a rate that it keeps, or its CPU, makes the same
//! queue, and none of the kernel's shows it. There nothing is said of where behind the device it stands.
//!
//! Must not: fire while a local queue stands, the peer's window is shut, or more is lost than a queue loses. Rejected: the
//! round trip alone (a peer far away has a long one on an empty path).

use crate::facts::QdiscFlow;
use crate::graph::end::End;
use crate::graph::tun_program::into_tun;
use crate::measure::Measures;
use crate::measure::packet_queue::flow_seconds;
use crate::measure::tcp_stream::Stream;
use crate::model::words;
use crate::rules::net::remote_shaper::{BELOW, NEARLY_ALL, shaper};
use crate::rules::net::ways_out::bits;
use crate::rules::net::writers::{
    BUSY, HEAVY_LOSS, LEAST_AGAIN, MOST_HOSTS, Peer, SEVERAL_HOSTS, WINDOW_SHUT, by_peer, loses,
    window_is_shut,
};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;

/// The round trip as a multiple of the least.
static GROWN: Threshold = Threshold::new(
    3.0,
    "1",
    "smoothed round trip for each least one of the same connection: delayed acknowledgements and a busy CPU do less",
    "chosen: an acknowledgement delayed behind each segment at most doubles it",
);
/// What it has grown by.
static GROWN_SECONDS: Threshold = Threshold::new(
    0.01,
    "s",
    "smoothed round trip above the least one: within a rack, a busy CPU alone multiplies it",
    "chosen: two of CoDel's targets",
);

/// Part of the growth that passes here.
static HERE: Threshold = Threshold::new(
    0.5,
    "1",
    "of what the round trip has grown by, the mean time of the stream's packets in queues of this host: from here it is mostly theirs",
    "chosen: the greater part",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
        Refutation::new(
            "a local queue stands",
            "a_stream_that_passes_a_standing_queue_waits_there",
        ),
        Refutation::new(
            "its packets waited here for that long, in a queue that does not stand all the time",
            "what_waited_in_a_queue_of_this_host_waits_in_none_beyond",
        ),
        Refutation::new(
            "the round trip stays near its least value",
            "a_steady_round_trip_is_no_queue",
        ),
        Refutation::new("the peer's window is shut", "behind_a_shut_window_no_queue_fills"),
        Refutation::new("more is lost than a queue loses", "many_losses_are_no_queue"),
    ],
    remedies: &[
        "shape what goes over the slow hop a little below its rate: the interface with tbf, or a class of its own with fq_codel",
        "use a faster path, or send less",
    ],
    stories: &["S0.17"],
    thresholds: &[
        &GROWN,
        &GROWN_SECONDS,
        &HERE,
        &WINDOW_SHUT,
        &HEAVY_LOSS,
        &LEAST_AGAIN,
        &BUSY,
        &NEARLY_ALL,
        &SEVERAL_HOSTS,
        &MOST_HOSTS,
    ],
    finds: Finds::Look(find),
};

fn round_trips(stream: &Stream<'_>) -> (f64, f64) {
    (f64::from(stream.state.rtt_us) / 1e6, f64::from(stream.state.rtt_us_min) / 1e6)
}

fn has_grown(stream: &Stream<'_>) -> bool {
    let (now, least) = round_trips(stream);
    least > 0.0 && now >= GROWN.value * least && now - least >= GROWN_SECONDS.value
}

/// Whether its packets have waited on this host for what its round trip has grown by, in a queue that does not stand all the time.
fn waits_here(measures: &Measures<'_>, stream: &Stream<'_>) -> bool {
    let (now, least) = round_trips(stream);
    let ways = measures.model.called.translations.ways(stream.socket);
    let carrier = into_tun(measures.model, stream.socket).and_then(|(_, by)| by);
    let carries = |flow: &QdiscFlow| {
        carrier.is_some_and(|by| flow.process.as_ref().is_some_and(|it| it.pid == by.pid))
    };
    let is_its = |flow: &&QdiscFlow| {
        flow.socket_ino == stream.socket.ino
            || ways.contains(&(flow.local, flow.remote))
            || carries(flow)
    };
    let queued = stream.queues.iter().filter_map(|at| measures.packet_queues.get(*at));
    let seconds = queued.filter_map(|queue| {
        let own: Vec<&QdiscFlow> = queue.flows.iter().copied().filter(is_its).collect();
        flow_seconds(&own)
    });
    seconds.sum::<f64>() >= HERE.value * (now - least)
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let fills_a_queue = |stream: &Stream<'_>| {
        has_grown(stream)
            && !waits_here(measures, stream)
            && !window_is_shut(stream)
            && !loses(stream, &HEAVY_LOSS)
    };
    let peers = by_peer(measures, ends, |writer| fills_a_queue(writer.stream));
    peers.iter().filter_map(|peer| matched(measures, peer)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, peer: &Peer<'m>) -> Option<Match<'m>> {
    let wording = wording(measures, peer);
    let path = format!("path to {}", peer.address.ip());
    let by = Culprit::peer(path, peer.address.to_string());
    peer.claim(measures, Match::new(by, Proof::Inferred, move |_| wording.clone()), false)
}

fn wording(measures: &Measures<'_>, peer: &Peer<'_>) -> Wording {
    let (rtt, least) = round_trips(peer.first().stream);
    let rate = peer.throughput(measures);
    let from = "tcp_sock (srtt_us, rtt_min)";
    let tunnel = tunnel(measures, peer);
    let (behind, at, own) = match &tunnel {
        Some(tunnel) => (
            format!("in {tunnel} or behind it"),
            format!("in {tunnel} or at a hop behind it,"),
            "'s kernel",
        ),
        None => ("beyond this host".to_string(), "at a hop".to_string(), ""),
    };
    let limit = tunnel.map(|tunnel| {
        Remedy::to(format!("see what limits {tunnel}: a rate that it was told to keep, or its CPU"))
    });
    let shaped = shaper(measures, peer, rate).unwrap_or_else(|| by_class(peer, rate));
    Wording {
        title: match peer.is_client {
            true => format!(
                "what {} sends to {} waits in a queue {behind}",
                peer.writer(),
                peer.address
            ),
            false => format!(
                "{} waits for a queue {behind}, on the way to {}",
                peer.writer(),
                peer.address
            ),
        },
        text: format!(
            "{} The round trip takes {}, {} when the path is empty, and no \
             queue of this host{own} stands: some {} wait {at} through which this host gets {} there.",
            peer.held_back(measures),
            words::seconds(rtt),
            words::seconds(least),
            words::bytes((rtt - least) * rate),
            bits(rate),
        ),
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
        remedy: limit.into_iter().chain([shaped]).collect(),
    }
}

/// The program that has what goes to a peer in its hands: `openvpn 812 (which carries tun0)`.
fn tunnel(measures: &Measures<'_>, peer: &Peer<'_>) -> Option<String> {
    let model = measures.model;
    let (hop, carrier) = into_tun(model, peer.first().stream.socket)?;
    let device = &hop.interface;
    Some(match carrier {
        Some(by) => format!("{} (which carries {device})", model.threads.who(by)),
        None => format!("the program that carries {device}"),
    })
}

/// Where the interface is not its own, or somebody has set something there.
fn by_class(peer: &Peer<'_>, rate: f64) -> Remedy {
    Remedy::to(format!(
        "shape what goes over that hop alone (a class of its own with fq_codel below it, and a filter dst {}; not the whole interface) \
         to {}, a little below what gets through, to have the queue here",
        peer.address.ip(),
        bits(rate * BELOW)
    ))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    fn grown(rtt_us: u32) -> SocketState {
        SocketState {
            busy_us: 4_900_000,
            rtt_us,
            rtt_us_min: 10_000,
            send_limit_bytes: 400_000,
            send_queued_bytes: 390_000,
            unsent_bytes: 200_000,
            ..SocketState::default()
        }
    }

    #[test]
    fn a_grown_round_trip_is_a_remote_queue() {
        assert_eq!(codes(stream(grown(200_000))), ["net.remote_queue"]);
        assert_eq!(codes(event_loop(grown(200_000))), ["net.remote_queue"]);
    }

    #[test]
    fn what_a_tunnels_program_carries_may_wait_in_that_program() {
        let to = match near() {
            ObjectRef::Inet(socket) => socket.remote.ip().to_string(),
            _ => String::new(),
        };
        let process = crate::rules::scenes::thread(30, "vpn");
        let reader = TapReader { netns: 1, interface: "tun0".into(), process };
        let mut facts = stream(grown(200_000));
        facts.push(next_hop(&to, ("tun0", "tun", 5), 0));
        assert!(findings(facts.clone())[0].title.contains("in the program that carries tun0 or"));
        facts.push(crate::rules::scenes::fact(Body::TapReader(reader)));
        let found = findings(facts);
        let said = "a queue in vpn 30 (which carries tun0) or behind it";
        assert!(found[0].title.contains(said), "{}", found[0].title);
        assert!(found[0].remedy[0].text.contains("see what limits vpn 30"));
    }

    #[test]
    fn what_waited_in_a_queue_of_this_host_waits_in_none_beyond() {
        let behind = |each_ms: u64| {
            // It empties now and then.
            let mut facts = stream(grown(200_000));
            facts.extend((1..50).map(|at| qdisc(false, "1:", at % 3, 625_000, 625_000, at)));
            facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, each_ms)));
            says("net.remote_queue", facts)
        };
        assert!(!behind(150));
        assert!(behind(15));
    }

    #[test]
    fn a_steady_round_trip_is_no_queue() {
        assert!(!says("net.remote_queue", stream(grown(14_000))));
    }

    #[test]
    fn behind_a_shut_window_no_queue_fills() {
        let shut = SocketState { receiver_limited_us: 4_000_000, ..grown(200_000) };
        assert_eq!(codes(stream(shut.clone())), ["net.receiver_limited"]);
        assert_eq!(codes(event_loop(shut)), ["net.receiver_limited"]);
    }

    #[test]
    fn many_losses_are_no_queue() {
        let lossy = SocketState { retransmits: 40, delivered: 900, ..grown(200_000) };
        assert_eq!(codes(stream(lossy)), ["net.loss"]);
    }

    #[test]
    fn a_stream_that_passes_a_standing_queue_waits_there() {
        let mut facts = queue(290);
        facts.extend(stream(grown(200_000)));
        facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 303)));
        assert_eq!(codes(facts), ["net.local_queue"]);
    }
}
