//! Packets that are too long for an interface of this host: whose MTU it is, who sends them, what became of the router's word.
//!
//! Theory: the drop says where; the interfaces say how much it takes, the end of the connection whose data are not acknowledged how much is put into
//! a packet, and the filter's own drops whether ICMP to that end was dropped since. Must not: say it in words (mtu.rs), or take an end for the
//! sender whose data arrive. Rejected: the length of the packet that was dropped (of a packet of many segments it is that of all).
//!
//! Edit together: mtu.rs, mtu_ways_out.rs.

use crate::facts::{DroppedFlow, Link, PacketDrops, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::packet_drops::{Dropped, of_reason};
use crate::measure::tunnels::Carrier;
use crate::model::object::Object;
use crate::rules::net::drop_looks::Look;
use crate::rules::net::drop_places::{DropsAt, interface};
use crate::rules::net::dropped_packets::Losing;
use std::net::IpAddr;

/// What the kernel calls what a packet filter drops.
const FILTERED: &str = "NETFILTER_DROP";
/// What a tunnel of VXLAN adds to an IP packet: an Ethernet header, its own, UDP, and IPv4 or IPv6 (VXLAN_HEADROOM, VXLAN6_HEADROOM of
/// include/net/vxlan.h).
const VXLAN_ADDS: [u32; 2] = [50, 70];

/// Who sends what is too long, if it is of this host.
pub(super) struct Sender<'m> {
    /// Its network namespace, inode.
    pub netns: u32,
    /// Whom it sends to.
    pub to: IpAddr,
    /// Its process.
    pub process: &'m ThreadRef,
    /// What it puts into a packet, bytes.
    pub segment_bytes: u32,
    /// The interface that it sends by, if that was asked.
    pub link: Option<&'m Link>,
    /// What its route has learnt of the way, bytes.
    pub path_mtu_bytes: Option<u32>,
}

/// Packets that are too long for an interface.
pub(super) struct TooLong<'a, 'm> {
    /// What was observed.
    pub measures: &'m Measures<'m>,
    /// Of whom, and why it was dropped.
    pub at: &'a DropsAt<'m>,
    /// Whose MTU it is; none if it was not read.
    pub link: Option<&'m Link>,
    /// The interface takes what is sent: its route has an MTU of its own, or what is on the way (IPsec) adds to it.
    pub is_beyond: bool,
    /// Who sends them.
    pub sender: Option<Sender<'m>>,
    /// The filter's drops of what a router says to the sender.
    pub word: Option<Dropped<'m>>,
}

impl Sender<'_> {
    /// Whether what it sends, with headers and TCP's timestamps, is no longer than that.
    fn fits(&self, mtu: u32) -> bool {
        const TIMESTAMPS: u32 = 12;
        let headers = if self.to.is_ipv4() { 40 } else { 60 };
        self.segment_bytes > 0 && self.segment_bytes + headers + TIMESTAMPS <= mtu
    }
}

/// The end that sends what does not arrive, if that is the one whose packets were dropped.
fn sender<'m>(measures: &'m Measures<'m>, end: &End, losing: &Losing<'_>) -> Option<Sender<'m>> {
    let Object::Inet(ino) = end.object else { return None };
    let socket = measures.model.called.socket(ino)?;
    let undelivered = measures.graph.undelivered(socket)?;
    let own = undelivered.socket()?;
    let is_its = (own.local == socket.local) == losing.dropped[0].is_outgoing;
    if losing.tunnel.is_none() && !is_its {
        return None;
    }
    let net = &measures.model.net;
    let to = own.remote.ip().to_canonical();
    let hop = net.next_hops.get(&(own.netns, to));
    let is_it =
        |link: &&Link| hop.is_some_and(|it| (it.netns, it.index) == (link.netns, link.index));
    Some(Sender {
        netns: own.netns,
        to,
        process: &undelivered.sender.process,
        segment_bytes: undelivered.state.segment_bytes,
        link: net.links.iter().rev().find(is_it),
        path_mtu_bytes: hop.and_then(|it| it.path_mtu_bytes),
    })
}

/// ICMP to whoever sent what is too long, dropped by a packet filter of this host since.
fn word<'m>(measures: &'m Measures<'m>, sent: &Dropped<'_>) -> Option<Dropped<'m>> {
    let to = sent.flow.from.ip().to_canonical();
    let of = of_reason(measures.model, FILTERED);
    let flows = of.flat_map(|kind| kind.flows.iter().map(move |flow| (kind, flow)));
    let is_word = |(_, flow): &(&PacketDrops, &DroppedFlow)| {
        let is_icmp = matches!(flow.protocol.as_str(), "icmp" | "icmpv6");
        is_icmp && flow.to.ip().to_canonical() == to && flow.last_ns >= sent.flow.first_ns
    };
    let most = flows.filter(is_word).max_by_key(|(_, flow)| flow.packets);
    most.map(|(kind, flow)| Dropped { kind, flow, is_outgoing: false })
}

impl<'a, 'm> TooLong<'a, 'm> {
    /// With what else was read of them.
    pub(super) fn of(measures: &'m Measures<'m>, ends: &[End], at: &'a DropsAt<'m>) -> Self {
        let first = &at.losing[0];
        let own = interface(measures, first.dropped[0].kind);
        let link = match at.cause.look {
            Look::MtuOfPeer => own.and_then(|own| measures.model.net.peer(own)),
            _ => own,
        };
        let sender = sender(measures, &ends[first.end], first);
        let word = word(measures, &first.dropped[0]);
        let is_peer = at.cause.look == Look::MtuOfPeer;
        let takes_it = |link: &Link| sender.as_ref().is_some_and(|it| it.fits(link.mtu));
        let is_beyond = !is_peer && first.tunnel.is_none() && link.is_some_and(takes_it);
        let link = link.filter(|it| it.mtu != 0 && !is_beyond);
        Self { measures, at, link, is_beyond, sender, word }
    }

    /// What was dropped, of the first who waits.
    pub(super) fn first(&self) -> Dropped<'m> {
        self.at.losing[0].dropped[0]
    }

    /// The tunnel that they are of.
    pub(super) fn tunnel(&self) -> Option<Carrier<'m>> {
        self.at.losing[0].tunnel
    }

    /// A tunnel of the kernel's, with the length of its own packets.
    pub(super) fn carried(&self) -> Option<(&'m Link, u32)> {
        let Some(Carrier::Kernel(tunnel)) = self.tunnel() else { return None };
        let is_v4 = self.first().flow.to.ip().to_canonical().is_ipv4();
        (tunnel.mtu != 0).then(|| (tunnel, tunnel.mtu + VXLAN_ADDS[usize::from(!is_v4)]))
    }
}
