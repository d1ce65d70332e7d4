//! Where this host drops packets of those who wait, and why: each place once, for the rules of each matter.
//!
//! Theory: a wait may lose packets at several places and for several reasons, and is held up by the one of most. So the places are found for all
//! reasons together, whichever rule names them, and a rule takes those of its matter. A drop counts that fell into the wait, and was not a copy.
//! Must not: say it in words, or count drops that nobody waits for. Rejected: each rule by its own reasons (of a wait with two the first rule
//! would win, and not the reason of most).
//!
//! Edit together: drop_reasons.rs, mtu.rs, bad_checksum.rs, packet_dropped.rs.

use crate::facts::{Link, PacketDrops, QdiscSample};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::measure::packet_drops::Dropped;
use crate::measure::tcp_stream::Stream;
use crate::model::net::NEXT_HOP_GIVEN_UP_NS;
use crate::model::object::Object;
use crate::rules::net::drop_looks::Look;
use crate::rules::net::drop_reasons::{Cause, Matter, NO_STATE, cause};
use crate::rules::net::dropped_packets::{LOST_ONE, Losing, losing};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What is dropped at one place for one reason.
pub(super) struct DropsAt<'m> {
    /// Why.
    pub cause: Cause,
    /// Of whom, at least one; each has lost at least one packet there.
    pub losing: Vec<Losing<'m>>,
}

/// The reason of a packet whose TTL is used up, and of one whose header is damaged.
const OUT_OF_HOPS: &str = "IP_INHDR";
/// The reason of a packet that a queueing discipline without a reason of its own drops.
const NO_QUEUE: &str = "QDISC_DROP";
/// The reason, and functions that drop for it where none is given, of packets whose next hop does not answer (net/core/neighbour.c).
const NO_NEIGHBOUR: [&str; 4] =
    ["NEIGH_FAILED", "neigh_invalidate", "arp_error_report", "ndisc_error_report"];
/// The function that discards what goes out by a way to nowhere, and the interface that such a way of IPsec's has.
const DISCARDS: &str = "dst_discard_out";
const LOOPBACK: &str = "lo";
/// The first time that a connection is asked for again is after so long (TCP_TIMEOUT_INIT), and a moment.
const FIRST_AGAIN_NS: u64 = 1_500_000_000;

/// Where and why: namespace, interface, reason, function.
type Place<'m> = (u32, u32, &'m str, &'m str);

/// The places of one matter.
pub(super) fn of_matter<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    matter: Matter,
) -> Vec<DropsAt<'m>> {
    let with_cause = |losing: Vec<Losing<'m>>| {
        let cause = cause_of(measures, losing[0].dropped[0].kind)?;
        (cause.matter == matter).then_some(DropsAt { cause, losing })
    };
    by_place(measures, ends).into_values().filter_map(with_cause).collect()
}

fn by_place<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
) -> BTreeMap<Place<'m>, Vec<Losing<'m>>> {
    let drops = &measures.model.net.drops;
    let with_cause = drops.iter().filter(|it| cause_of(measures, it).is_some());
    let reasons: BTreeSet<&str> = with_cause.map(|it| it.reason.as_str()).collect();
    // Of an end whose packets were dropped for several reasons: the one of most.
    let mut by_end: BTreeMap<usize, (u64, Losing<'m>)> = BTreeMap::new();
    for mut losing in reasons.into_iter().flat_map(|reason| losing(measures, ends, reason)) {
        let end = &ends[losing.end];
        let is_being_made = is_being_made(measures, end);
        let netns = losing.netns;
        losing.dropped.retain(|it| {
            cause_of(measures, it.kind).is_some()
                && (is_being_made || is_meanwhile(it, end))
                && is_asker_s(it, end)
                && !(is_no_neighbour(it.kind) && is_made_there(netns, it))
        });
        if is_sent_and_not_again(measures, &losing, end) || is_shortened(measures, &losing, end) {
            continue;
        }
        let Some(place) = losing.dropped.first().map(place) else { continue };
        losing.dropped.retain(|it| self::place(it) == place);
        let packets = losing.dropped.iter().map(|it| it.flow.packets).sum();
        match by_end.get(&losing.end) {
            Some((most, _)) if *most >= packets => {}
            _ => drop(by_end.insert(losing.end, (packets, losing))),
        }
    }
    let mut all: BTreeMap<Place<'m>, Vec<Losing<'m>>> = BTreeMap::new();
    for (_, losing) in by_end.into_values() {
        all.entry(place(&losing.dropped[0])).or_default().push(losing);
    }
    all
}

fn place<'m>(dropped: &Dropped<'m>) -> Place<'m> {
    let kind = dropped.kind;
    (kind.netns, kind.index, &kind.reason, &kind.function)
}

/// Nobody answered for the next hop of packets.
fn is_no_neighbour(kind: &PacketDrops) -> bool {
    NO_NEIGHBOUR.contains(&&*kind.reason) || NO_NEIGHBOUR.contains(&&*kind.function)
}

/// Whether packets of a socket were dropped where they were made: what their sender's own neighbour table says of their next hop is another
/// rule's (neighbour_failed.rs). Of a question to a name server nobody asks that table.
fn is_made_there(netns: Option<u32>, dropped: &Dropped<'_>) -> bool {
    netns == Some(dropped.kind.netns)
}

/// Whether packets were dropped while somebody waited, or just before: what is sent, and dropped, is waited for from then on. TCP sends again after
/// ever twice as long: where nothing was dropped for longer than that, it has come through.
fn is_meanwhile(dropped: &Dropped<'_>, end: &End) -> bool {
    let link = &end.links[end.named];
    let queued_ns = if is_no_neighbour(dropped.kind) { NEXT_HOP_GIVEN_UP_NS } else { 0 };
    let (first_ns, last_ns) =
        (dropped.flow.first_ns.saturating_sub(queued_ns), dropped.flow.last_ns);
    let before_ns = link.since_ns.saturating_sub((LOST_ONE.value * 1e9) as u64);
    let again_ns = 2 * last_ns.saturating_sub(first_ns.min(link.since_ns)) + FIRST_AGAIN_NS;
    let goes_on = dropped.flow.protocol != "tcp" || link.end_ns <= last_ns.saturating_add(again_ns);
    last_ns >= before_ns && first_ns <= link.end_ns && goes_on
}

/// Whether a connection is still being made: its client may look at the clock meanwhile, and the longest of the pieces in which it waits need not be
/// the one in which it asked.
fn is_being_made(measures: &Measures<'_>, end: &End) -> bool {
    let Object::Inet(ino) = end.object else { return false };
    measures.model.called.socket(ino).is_some_and(|it| it.is_tcp() && it.is_connecting())
}

/// Whether what was too long has come through since in shorter packets, as it does where the sender hears of it: nothing of the stream
/// is undelivered, and it was dropped for no longer than one answer takes.
fn is_shortened(measures: &Measures<'_>, losing: &Losing<'_>, end: &End) -> bool {
    let Object::Inet(ino) = end.object else { return false };
    let socket = measures.model.called.socket(ino);
    let is_too_long = |it: &Dropped<'_>| {
        it.flow.protocol == "tcp"
            && cause_of(measures, it.kind).is_some_and(|cause| cause.matter == Matter::Length)
    };
    let lasts_ns = |it: &Dropped<'_>| it.flow.last_ns.saturating_sub(it.flow.first_ns);
    let longest_ns = losing.dropped.iter().map(lasts_ns).max().unwrap_or(0);
    losing.tunnel.is_none()
        && !losing.connects
        && losing.dropped.iter().all(is_too_long)
        && (longest_ns as f64) < LOST_ONE.value * 1e9
        && socket.is_none_or(|socket| measures.graph.undelivered(socket).is_none())
}

/// Of a question to a name server whether it was of those who wait, or of whom they have asked: others ask it too.
fn is_asker_s(dropped: &Dropped<'_>, end: &End) -> bool {
    let is_server = matches!(end.object, Object::DnsServer(..));
    let sender = dropped.flow.sender.as_ref().filter(|_| is_server && dropped.is_outgoing);
    let asks = end.links[end.named].who.pid;
    sender.is_none_or(|by| by.pid == asks || end.victims.contains_key(&by.pid))
}

/// Whether a stream has sent nothing again, and is not refused: then what was dropped was a copy, for a capture or another port of a bridge. What
/// is no stream, and no question on a socket that is waited on, is no question either.
fn is_sent_and_not_again(measures: &Measures<'_>, losing: &Losing<'_>, end: &End) -> bool {
    let Object::Inet(ino) = end.object else {
        return !matches!(end.object, Object::DnsServer(..));
    };
    let is_stream =
        losing.dropped.first().is_some_and(|it| it.is_outgoing && it.flow.protocol == "tcp");
    let stream = measures.tcp_streams.iter().find(|stream| stream.socket.ino == ino);
    let is_refused = |stream: &Stream<'_>| {
        measures.graph.undelivered(stream.socket).is_some_and(|it| it.is_refused())
    };
    is_stream
        && !losing.connects
        && stream.is_some_and(|it| it.change.retransmits == 0 && !is_refused(it))
}

/// Whether packets had passed as many routers as they may: the kernel says of them what it says of damaged headers (ip_forward), and reports it to
/// who sent them, which is counted. Fragments that never came are counted there too, and are no such drop.
fn is_out_of_hops(measures: &Measures<'_>, kind: &PacketDrops) -> bool {
    let counted = |name| growth(measures.model, kind.netns, name).is_some_and(|it| it > 0);
    kind.reason == OUT_OF_HOPS
        && ["Icmp.OutTimeExcds", "Icmp6.OutTimeExcds"].into_iter().any(counted)
}

/// The interface at which packets were dropped, as it was read last.
pub(super) fn interface<'m>(measures: &'m Measures<'_>, kind: &PacketDrops) -> Option<&'m Link> {
    let mut links = measures.model.net.links.iter().rev();
    links.find(|link| (link.netns, link.index) == (kind.netns, kind.index))
}

/// A token bucket into which no full packet of its interface fits: it drops those however empty it is. One in which packets stood may have dropped
/// them for want of room.
fn too_small_burst<'m>(
    measures: &'m Measures<'_>,
    kind: &PacketDrops,
    link: Option<&Link>,
) -> Option<&'m QdiscSample> {
    if kind.reason != NO_QUEUE {
        return None;
    }
    let mtu = u64::from(link?.mtu);
    let mut queues = measures.model.net.qdiscs.values();
    queues.find_map(|series| {
        let is_of = |it: &QdiscSample| {
            (it.netns, it.index) == (kind.netns, kind.index) && it.kind == "tbf" && !it.class
        };
        let (_, last) = series.last().filter(|(_, it)| is_of(it))?;
        let (_, first) = series.first()?;
        let is_empty = series.iter().all(|(_, it)| it.backlog_packets == 0);
        let is_small = last.burst_bytes.is_some_and(|burst| burst > 0 && burst < mtu);
        (is_small && is_empty && last.drops > first.drops).then_some(last)
    })
}

/// Packets of IPv4 that leave for elsewhere and were given a way to nowhere at lo: the kernel makes one only for IPsec, where a policy has no state
/// (ipv4_blackhole_route). A way whose interface is gone is at no interface that has a name here.
fn is_for_ipsec(kind: &PacketDrops) -> bool {
    let goes_out = |to: IpAddr| to.is_ipv4() && !to.is_loopback();
    kind.function == DISCARDS
        && kind.interface == LOOPBACK
        && kind.flows.iter().all(|flow| goes_out(flow.to.ip().to_canonical()))
}

/// Why packets were dropped, as far as the reason and what else was read say it.
fn cause_of(measures: &Measures<'_>, kind: &PacketDrops) -> Option<Cause> {
    let link = || interface(measures, kind);
    // Without a carrier an interface has a queueing discipline that drops all (noop_qdisc).
    if kind.reason == NO_QUEUE && link().is_some_and(|link| link.carrier == Some(false)) {
        let clause = "the interface has no carrier: its cable or its other end is down".into();
        return Some(Cause { clause, look: Look::Interface, matter: Matter::Other });
    }
    if let Some(queue) = too_small_burst(measures, kind, link()) {
        let clause = format!(
            "its queue ({} {}) drops each that is longer than its burst of {} bytes",
            queue.kind,
            queue.handle,
            queue.burst_bytes.unwrap_or_default()
        );
        return Some(Cause { clause, look: Look::Queue, matter: Matter::Other });
    }
    if is_for_ipsec(kind) {
        return Some(Cause {
            clause: NO_STATE.into(),
            look: Look::Policies,
            matter: Matter::Other,
        });
    }
    if is_no_neighbour(kind) {
        let clause = "no host there answers for their next hop (ARP, neighbour discovery)".into();
        return Some(Cause { clause, look: Look::Neighbours, matter: Matter::Other });
    }
    if is_out_of_hops(measures, kind) {
        let clause = "their TTL is used up, as where routes lead in a circle".into();
        return Some(Cause { clause, look: Look::Routes, matter: Matter::Other });
    }
    let mut found = cause(kind)?;
    let ends = || link().and_then(|own| Some((own, measures.model.net.peer(own)?)));
    let is_narrower = |(own, peer): (&Link, &Link)| peer.mtu < own.mtu && peer.up != Some(false);
    if found.look == Look::MtuOfPeer && ends().is_some_and(is_narrower) {
        found.matter = Matter::Length;
    }
    Some(found)
}
