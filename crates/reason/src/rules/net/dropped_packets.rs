//! What the rules of dropped packets share: who waits for a packet that this host itself dropped.
//!
//! A wait counts as lost to a drop if packets of its very socket were dropped for that reason within the look, and it lasted as long as
//! a lost packet costs. Must not: say whose fault a drop is.

use crate::facts::{DroppedFlow, InetRef, NextHop, ObjectRef, PacketDrops, ThreadRef};
use crate::graph::end::{End, EndKind};
use crate::measure::packet_drops::{Dropped, of_address, of_reason, of_socket};
use crate::measure::tunnels::{Carrier, of_tunnel};
use crate::measure::{Measures, moment};
use crate::model::object::Object;
use crate::model::{Model, words};
use crate::rules::net::losses::of_measure;
use crate::rules::net::who_waits::who_waits;
use crate::rules::wording::Severity;
use crate::rules::{Losses, Match};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// The wait that a lost packet makes.
pub(super) static LOST_ONE: Threshold = Threshold::new(
    0.2,
    "s",
    "the longest wait: TCP sends a packet again after this time at the earliest, so a shorter wait is for something else",
    "TCP_RTO_MIN (include/net/tcp.h)",
);
/// Part of the look that is lost.
pub(super) static NOTICED: Threshold = Threshold::new(
    0.05,
    "1",
    "seconds lost for each second of the look: what costs less is a moment",
    "as for a warning (Severity::of)",
);

/// Drops a second that count where nobody is seen to wait.
pub(super) static DROPS: Threshold = Threshold::new(
    10.0,
    "1/s",
    "packets dropped: fewer are a burst now and then",
    "chosen, as for datagrams: one of a hundred clients that ask ten times a second",
);
/// Part of the packets that is dropped.
pub(super) static SERIOUS: Threshold = Threshold::new(
    0.05,
    "1",
    "part of the packets that is dropped, from which it is worth a warning although nobody is seen to wait",
    "chosen, as for datagrams: one question of twenty without an answer",
);

/// An end whose packets were dropped.
pub(super) struct Losing<'m> {
    /// Index into the ends.
    pub end: usize,
    /// Whom it is about.
    pub remote: SocketAddr,
    /// The namespace of its socket; none if the socket is not known.
    pub netns: Option<u32>,
    /// It goes through a tunnel, whose packets they are.
    pub tunnel: Option<Carrier<'m>>,
    /// It waits to be connected.
    pub connects: bool,
    /// It is for room to send, and for no answer.
    pub writes: bool,
    /// What was dropped, most first.
    pub dropped: Vec<Dropped<'m>>,
}

/// Ends of which packets were dropped for a reason.
pub(super) fn losing<'m>(
    measures: &'m Measures<'m>,
    ends: &[End],
    reason: &str,
) -> Vec<Losing<'m>> {
    let mut all = Vec::new();
    for (at, end) in ends.iter().enumerate() {
        if !is_open(measures, end) {
            continue;
        }
        let mut tunnel = None;
        let (mut dropped, socket, remote) = match &end.object {
            Object::Inet(ino) => {
                let Some(socket) = measures.model.called.socket(*ino) else { continue };
                let mut dropped = of_socket(measures.model, reason, socket);
                if dropped.is_empty()
                    && let Some((carrier, of_carrier)) = through_tunnel(measures, reason, socket)
                {
                    (tunnel, dropped) = (Some(carrier), of_carrier);
                }
                (dropped, Some(socket), socket.remote)
            }
            Object::DnsServer(Some(server), _) => {
                (of_address(measures.model, reason, *server), None, *server)
            }
            _ => match by_clock(measures, end, reason) {
                Some(question) => (vec![question], None, question.flow.to),
                None => continue,
            },
        };
        if dropped.is_empty() {
            continue;
        }
        dropped.sort_by_key(|one| std::cmp::Reverse(one.flow.packets));
        let connects = connects(end, socket);
        let netns = socket.map(|it| it.netns);
        let writes = end.class == WaitClass::SocketWrite;
        all.push(Losing { end: at, remote, netns, tunnel, connects, writes, dropped });
    }
    all
}

/// What is dropped of a tunnel's own packets is of everything that goes through it: of a socket on which nothing arrives.
fn through_tunnel<'m>(
    measures: &'m Measures<'m>,
    reason: &str,
    socket: &InetRef,
) -> Option<(Carrier<'m>, Vec<Dropped<'m>>)> {
    let undelivered = measures.graph.undelivered(socket);
    let to = (socket.netns, socket.remote.ip().to_canonical());
    let hop = measures.model.net.next_hops.get(&to);
    let is_silent = hop.is_some_and(NextHop::is_silent);
    if !socket.is_connecting() && undelivered.is_none() && !is_silent {
        return None;
    }
    // Of an answer that is lost its sender's end is the one whose way was asked about.
    let of_sender = || match &undelivered?.sender.object {
        ObjectRef::Inet(sender) => of_tunnel(measures.model, reason, sender),
        _ => None,
    };
    of_tunnel(measures.model, reason, socket).or_else(of_sender)
}

/// Ends that wait for a connection, whether packets of it were seen to be dropped or not.
pub(super) fn connecting<'m>(measures: &'m Measures<'m>, ends: &[End]) -> Vec<Losing<'m>> {
    let waiting = ends.iter().enumerate().filter(|(_, end)| is_open(measures, end));
    let sockets = waiting.filter_map(|(at, end)| {
        let Object::Inet(ino) = &end.object else { return None };
        let socket = measures.model.called.socket(*ino)?;
        connects(end, Some(socket)).then(|| Losing {
            end: at,
            remote: socket.remote,
            netns: Some(socket.netns),
            tunnel: None,
            connects: true,
            writes: false,
            dropped: Vec::new(),
        })
    });
    sockets.collect()
}

/// Somebody waits for so long that a packet may be lost, and whoever is to answer is not of this host.
fn is_open(measures: &Measures<'_>, end: &End) -> bool {
    let kinds = [EndKind::Remote, EndKind::Link, EndKind::Sleep];
    kinds.contains(&end.kind) && !end.victims.is_empty() && is_long(measures, end)
}

/// Whether an end lasts as long as a lost packet costs: at a time, or in the pieces in which one connection is made, or comes to nothing, as its
/// client looks at the clock meanwhile.
pub(super) fn is_long(measures: &Measures<'_>, end: &End) -> bool {
    /// TCP_CLOSE: it has given up.
    const CLOSED: u8 = 7;
    let is_unmade = || match &end.object {
        Object::Inet(ino) => measures
            .model
            .called
            .socket(*ino)
            .is_some_and(|it| it.is_tcp() && (it.is_connecting() || it.state == CLOSED)),
        _ => false,
    };
    let is_made = || end.class == WaitClass::SocketConnect || is_unmade();
    end.longest_seconds >= LOST_ONE.value || end.of_one_seconds() >= LOST_ONE.value && is_made()
}

/// A program that asks by UDP in an event loop waits for the clock as well: of a command, what it sent last and was dropped. A plain
/// sleep ends for no answer, and of all others' waits for events nothing says what they are for.
fn by_clock<'m>(measures: &'m Measures<'m>, end: &End, reason: &str) -> Option<Dropped<'m>> {
    let model = measures.model;
    if end.kind != EndKind::Sleep || end.class != WaitClass::Idle || !measures.is_command() {
        return None;
    }
    let sleeps = end.links.last()?.who.pid;
    let of = of_reason(model, reason).flat_map(|kind| kind.flows.iter().map(move |it| (kind, it)));
    let own = of.filter(|(_, flow)| {
        flow.protocol == "udp" && flow.sender.as_ref().is_some_and(|by| by.pid == sleeps)
    });
    let (kind, flow) = own.max_by_key(|(_, flow)| flow.last_ns)?;
    Some(Dropped { kind, flow, is_outgoing: true })
}

/// An event loop connects without waiting.
fn connects(end: &End, socket: Option<&InetRef>) -> bool {
    end.class == WaitClass::SocketConnect || socket.is_some_and(|it| it.is_connecting())
}

/// What these lose altogether; none if it is little.
pub(super) fn noticed(measures: &Measures<'_>, ends: &[End], losing: &[Losing<'_>]) -> Option<End> {
    let end = End::merged(losing.iter().map(|losing| &ends[losing.end]))?;
    is_noticed(measures, &end).then_some(end)
}

/// Whether an end costs enough to be named: by its share of the look, or of a long one in its worst second.
pub(super) fn is_noticed(measures: &Measures<'_>, end: &End) -> bool {
    end.seconds >= NOTICED.value * measures.wall_seconds() || moment::of(measures, end).is_some()
}

/// How many packets these lost: what a tunnel carried, once, whoever waits behind it.
pub(super) fn packets(losing: &[Losing<'_>]) -> u64 {
    let all = losing.iter().flat_map(|it| &it.dropped);
    let by_flow: BTreeMap<*const DroppedFlow, u64> =
        all.map(|it| (std::ptr::from_ref(it.flow), it.flow.packets)).collect();
    by_flow.into_values().sum()
}

/// A match that claims all of these.
pub(super) fn claiming<'m>(matched: Match<'m>, losing: &[Losing<'_>]) -> Match<'m> {
    losing.iter().fold(matched, |matched, it| matched.claiming(it.end, None))
}

/// ` of network namespace blue`; nothing of the initial one.
pub(super) fn of_namespace(model: &Model, netns: u32) -> String {
    let link = model.net.links.iter().find(|link| link.netns == netns);
    match link.map_or("", |link| &link.netns_name) {
        "" => String::new(),
        name => format!(" of network namespace {name}"),
    }
}

/// `for a connection to 10.0.0.1:80`, `for an answer of 10.0.0.1:53 and 2 other addresses`: of the first, with all to which the
/// same happens.
pub(super) fn waited_for(first: &Losing<'_>, all: &[Losing<'_>]) -> String {
    let addresses: BTreeSet<SocketAddr> = all.iter().map(|losing| losing.remote).collect();
    let what = match (first.connects, first.writes) {
        (true, _) => "a connection to",
        (false, true) => "room to send to",
        (false, false) => "an answer of",
    };
    let by = first.tunnel.map_or_else(String::new, |carrier| format!(" through {carrier}"));
    match addresses.len() {
        0 | 1 => format!("for {what} {}{by}", first.remote),
        n => {
            let others = words::count(n - 1, "other address", "other addresses");
            format!("for {what} {} and {others}{by}", first.remote)
        }
    }
}

/// Who waits for what, as the begin of a sentence: of the end that most is lost to.
pub(super) fn losers(
    measures: &Measures<'_>,
    ends: &[End],
    losing: &[Losing<'_>],
) -> Option<String> {
    let most = |it: &&Losing<'_>| (ends[it.end].seconds * 1e9) as u64;
    let first = losing.iter().max_by_key(most)?;
    Some(format!("{} {}", who_waits(measures, &ends[first.end]), waited_for(first, losing)))
}

/// Processes of this host that sent what was dropped.
pub(super) fn senders<'m>(places: &[&'m PacketDrops]) -> impl Iterator<Item = &'m ThreadRef> {
    let flows: Vec<&'m DroppedFlow> = places.iter().flat_map(|it| &it.flows).collect();
    flows.into_iter().filter_map(|flow| flow.sender.as_ref())
}

/// The flow of most of what was dropped, and its part, if it is the greater part.
pub(super) fn main_flow<'m>(places: &[&'m PacketDrops]) -> Option<(&'m DroppedFlow, f64)> {
    let all: u64 = places.iter().map(|it| it.packets).sum();
    let most = places.iter().flat_map(|it| &it.flows).max_by_key(|flow| flow.packets)?;
    // A flow of thousands is an estimate.
    let part = (most.packets as f64 / all.max(1) as f64).min(1.0);
    (2 * most.packets > all).then_some((most, part))
}

/// A match that claims whoever waits for what was dropped; where nobody does, it is worth a warning if so much is lost.
pub(super) fn matched<'m>(
    measures: &Measures<'_>,
    ends: &[End],
    new: Match<'m>,
    losing: &[Losing<'_>],
    place: &PacketDrops,
    part: f64,
) -> Option<Match<'m>> {
    let mut matched = new;
    if part >= SERIOUS.value {
        matched.severity_min = Severity::Warning;
    }
    if noticed(measures, ends, losing).is_some() {
        return Some(claiming(matched, losing));
    }
    let object = Object::PacketQueue {
        netns: place.netns,
        interface: place.interface.as_str().into(),
        handle: "".into(),
    };
    let severity_min = matched.severity_min;
    let mut matched = of_measure(measures, matched, object, Losses::new(), None);
    matched.severity_max = matched.severity_max.max(severity_min);
    Some(matched)
}
