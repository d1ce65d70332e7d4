//! Of what a stream sent again, what a full queue of this host has dropped: then no hop beyond it is to be looked for.
//!
//! Such a queue may be empty at times all the same (a tunnel's program sends in bursts, and hears of no loss), and stands for no rule. Must not: say
//! that it stands (standing_queue.rs), or count what others lost there.

use crate::facts::{DroppedFlow, InetRef, PacketDrops};
use crate::measure::Measures;
use crate::measure::packet_drops::of_socket;
use crate::measure::packet_queue::Queue;
use crate::measure::tunnels::{Carrier, of_tunnel};
use crate::model::words;
use crate::rules::net::dropped_packets::of_namespace;
use crate::rules::net::queue_commands::sooner;
use crate::rules::net::ways_out::command_in;
use crate::rules::net::writers::Peer;
use crate::rules::wording::{Culprit, Evidence, Wording};
use crate::threshold::Threshold;
use std::collections::{BTreeMap, BTreeSet};

/// Part of what was sent again.
pub(super) static HERE: Threshold = Threshold::new(
    0.5,
    "1",
    "packets of a stream, or of the tunnel that carries it, that a full queue of this host dropped, for each segment that was sent again",
    "chosen: most of them; a tunnel's packet may carry a part of a segment",
);

/// The kernel's reasons where a queueing discipline had no room; the second also where it drops on purpose.
const FULL: &str = "QDISC_OVERLIMIT";
const FULL_OR_MEANT: &str = "QDISC_DROP";
/// Disciplines that drop with room left: to play a bad line, or for a queue to stay short.
const MEANT: [&str; 10] =
    ["netem", "codel", "fq_codel", "red", "gred", "sfb", "choke", "pie", "fq_pie", "cake"];
/// Those that make room at their head, of what they had taken already.
const FROM_HEAD: [&str; 4] = ["fq_codel", "cake", "sfq", "pfifo_head_drop"];

/// Where it was dropped.
pub(super) struct Here<'m> {
    kind: &'m PacketDrops,
    packets: u64,
    /// Whose packets carry it; those are not of these streams alone.
    carrier: Option<Carrier<'m>>,
    /// The queue, as far as it was read.
    queue: Option<&'m Queue<'m>>,
}

/// What of the streams to one peer was dropped in a queue of this host, if that is most of what was sent again.
pub(super) fn dropped<'m>(measures: &'m Measures<'m>, peer: &Peer<'m>) -> Option<Here<'m>> {
    let mut places: BTreeMap<(u32, u32), Here<'m>> = BTreeMap::new();
    // All streams of a tunnel lead to the same packets of its.
    let mut counted: BTreeSet<*const DroppedFlow> = BTreeSet::new();
    for reason in [FULL, FULL_OR_MEANT] {
        for socket in peer.writers.iter().map(|one| one.stream.socket) {
            let own = of_socket(measures.model, reason, socket).into_iter();
            let own = own.filter(|it| was_taken(measures, socket, it.kind)).map(|it| (it, None));
            let carried = of_tunnel(measures.model, reason, socket).into_iter();
            let carried =
                carried.flat_map(|(by, all)| all.into_iter().map(move |it| (it, Some(by))));
            for (it, carrier) in own.chain(carried) {
                let counts = it.is_outgoing && is_full(measures, it.kind);
                if counts && counted.insert(std::ptr::from_ref(it.flow)) {
                    let at = (it.kind.netns, it.kind.index);
                    let queue = queues(measures, it.kind).find(|queue| queue.is_root());
                    let none = Here { kind: it.kind, packets: 0, carrier: None, queue };
                    let place = places.entry(at).or_insert(none);
                    place.packets += it.flow.packets;
                    place.carrier = place.carrier.or(carrier);
                }
            }
        }
    }
    let most = places.into_values().max_by_key(|place| place.packets)?;
    let again =
        peer.writers.iter().map(|one| u64::from(one.stream.change.retransmits)).sum::<u64>();
    (most.packets as f64 >= HERE.value * again as f64).then_some(most)
}

/// The queues of the interface where packets were dropped.
fn queues<'m>(
    measures: &'m Measures<'m>,
    kind: &PacketDrops,
) -> impl Iterator<Item = &'m Queue<'m>> + use<'m> {
    let at = (kind.netns, kind.index);
    measures.packet_queues.iter().filter(move |queue| queue.interface() == at)
}

/// There was no room, by the kernel's word, or by a word that of these disciplines means nothing else.
fn is_full(measures: &Measures<'_>, kind: &PacketDrops) -> bool {
    let mut kinds = queues(measures, kind).map(|queue| queue.last.kind.as_str()).peekable();
    kind.reason == FULL || kinds.peek().is_some() && kinds.all(|kind| !MEANT.contains(&kind))
}

/// The sender's own kernel had sent it: what a queue of his own namespace refuses stays unsent, and is sent again by nobody (net_xmit_eval,
/// tcp_write_xmit). A queue beyond his namespace, or one that drops what it had taken, loses it.
fn was_taken(measures: &Measures<'_>, socket: &InetRef, kind: &PacketDrops) -> bool {
    let is_forwarded = ![0, kind.netns].contains(&socket.netns) && kind.netns != 0;
    let mut kinds = queues(measures, kind).map(|queue| queue.last.kind.as_str());
    is_forwarded || kind.reason == FULL && kinds.any(|kind| FROM_HEAD.contains(&kind))
}

impl Here<'_> {
    /// The setting of that queue.
    pub(super) fn culprit(&self) -> Culprit {
        let interface = &self.kind.interface;
        let kind = self.queue.map_or("queue", |queue| queue.last.kind.as_str());
        Culprit::setting(format!("{kind} of {interface}"), format!("tc qdisc dev {interface}"))
    }

    /// In place of a loss on the way.
    pub(super) fn wording(
        &self,
        measures: &Measures<'_>,
        peer: &Peer<'_>,
        loss: Wording,
    ) -> Wording {
        let Self { kind, packets, carrier, queue } = self;
        let place = format!("{}{}", kind.interface, of_namespace(measures.model, kind.netns));
        let whose = carrier.map_or_else(|| "them".into(), |by| by.to_string());
        let tc = command_in(measures.model, kind.netns, "tc");
        let sent = format!("what {} sends", peer.writer());
        let text = format!(
            "{} {} of {whose} {} dropped on this host: the queue of {place} had no room.",
            loss.text,
            words::count(*packets as usize, "packet", "packets"),
            if *packets == 1 { "was" } else { "were" },
        );
        let mut evidence = loss.evidence;
        evidence.push(Evidence::new(
            format!("packets of {whose} that the queue of {place} dropped: {}", kind.reason),
            *packets as f64,
            "1",
            "kfree_skb",
        ));
        Wording {
            title: format!(
                "{} to {} is dropped on this host: the queue of {place} is full",
                sent, peer.address
            ),
            text,
            evidence,
            remedy: queue.map(|queue| sooner(&tc, queue, &sent)).into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;

    /// A lossy stream, and what was dropped of it on eth0 of a namespace, which has a queue of some kind.
    fn said(drops: Fact, kind: &str, netns: u32, more: Vec<Fact>) -> (String, String) {
        let lossy = SocketState {
            busy_us: 4_900_000,
            retransmits: 40,
            delivered: 900,
            rtt_us: 10_000,
            rtt_us_min: 9_000,
            ..SocketState::default()
        };
        let mut facts = stream(lossy);
        facts.extend(counters(&[("Tcp.RetransSegs", 7, 47)]));
        // It empties now and then.
        facts.extend((1..50).map(|at| qdisc(false, "1:", at % 2, 625_000, 625_000, at)));
        facts.push(drops);
        for fact in &mut facts {
            match &mut fact.body {
                Body::QdiscSample(sample) => {
                    sample.netns = netns;
                    sample.kind = kind.into();
                }
                Body::PacketDrops(drops) => drops.netns = netns,
                _ => {}
            }
        }
        facts.extend(more);
        let found = findings(facts).into_iter().find(|it| it.code == "net.loss");
        let found = found.expect("a loss");
        (found.title, found.text)
    }

    fn own(reason: &str, packets: u64) -> Fact {
        dropped(reason, "tcp", "10.0.0.1:40000", "10.0.0.2:80", packets)
    }

    const HERE: &str = "is dropped on this host: the queue of eth0";

    #[test]
    fn what_a_full_queue_of_this_host_dropped_is_lost_at_no_hop() {
        let forwarded = |packets| said(own("QDISC_OVERLIMIT", packets), "pfifo", 9, vec![]);
        let (title, text) = forwarded(38);
        assert!(title.contains(HERE) && title.ends_with(" is full"), "{title}");
        assert!(text.contains("38 packets of them were dropped on this host"), "{text}");
        assert!(forwarded(3).0.contains("on the way to"), "{}", forwarded(3).0);
    }

    #[test]
    fn what_is_dropped_on_purpose_or_was_never_sent_is_no_full_queue() {
        let is_here = |reason: &str, kind: &str, netns| {
            said(own(reason, 38), kind, netns, vec![]).0.contains(HERE)
        };
        assert!(is_here("QDISC_DROP", "pfifo", 9));
        assert!(!is_here("QDISC_DROP", "netem", 9), "it plays a bad line");
        assert!(!is_here("QDISC_CONGESTED", "codel", 9), "it has room");
        assert!(!is_here("QDISC_OVERLIMIT", "pfifo", 1), "it stays unsent");
        assert!(is_here("QDISC_OVERLIMIT", "fq_codel", 1), "it had been taken");
    }

    #[test]
    fn what_is_dropped_of_a_tunnel_is_counted_once_for_all_its_streams() {
        let carried = |packets: u64| {
            let second = inet("tcp", 101, "10.0.0.1:40001", "10.0.0.2:80", 1);
            let lossy = SocketState {
                busy_us: 4_900_000,
                retransmits: 40,
                delivered: 900,
                ..SocketState::default()
            };
            let process = crate::rules::scenes::thread(30, "vpn");
            let reader = TapReader { netns: 1, interface: "tun0".into(), process };
            let outer = inet("udp", 300, "192.0.2.1:1194", "192.0.2.2:1194", 1);
            let more = vec![
                with_state(11, "sender", second.clone(), lossy),
                wait(11, "sender", "sendto", second, 0, 48),
                next_hop("10.0.0.2", ("tun0", "tun", 5), 0),
                crate::rules::scenes::fact(Body::TapReader(reader)),
                with_state(30, "vpn", outer, SocketState::default()),
            ];
            let (from, to) = ("192.0.2.1:1194", "192.0.2.2:1194");
            said(dropped("QDISC_OVERLIMIT", "udp", from, to, packets), "pfifo", 1, more)
        };
        let (title, text) = carried(44);
        assert!(title.contains(HERE), "{title}");
        assert!(text.contains("44 packets of the tunnel of vpn 30 were dropped"), "{text}");
        assert!(!carried(30).0.contains(HERE), "30 of 80, and not twice 30: {}", carried(30).0);
    }
}
