//! Packets that this host dropped: of a socket, or for a reason.
//!
//! A packet names its socket by inode where the kernel still knew it, else by its addresses, in either direction. Must not: say what a
//! reason means, or whether a drop matters.

use crate::facts::{DroppedFlow, InetRef, PacketDrops};
use crate::model::Model;
use std::net::SocketAddr;

/// A flow that lost packets, with where and why.
#[derive(Debug, Clone, Copy)]
pub struct Dropped<'m> {
    /// Where and why.
    pub kind: &'m PacketDrops,
    /// Whose.
    pub flow: &'m DroppedFlow,
    /// They were sent by the one that was asked about, and not to it.
    pub is_outgoing: bool,
}

/// What was dropped for a reason, by interface.
pub fn of_reason<'m>(model: &'m Model, reason: &str) -> impl Iterator<Item = &'m PacketDrops> {
    model.net.drops.iter().filter(move |drops| is_for(drops, reason))
}

/// Functions that drop for one reason alone: what a kernel that gives no reasons (before 5.17) says instead.
const BY_FUNCTION: [(&str, &str); 4] = [
    ("nf_hook_slow", "NETFILTER_DROP"),
    ("enqueue_to_backlog", "CPU_BACKLOG"),
    ("tun_net_xmit", "FULL_RING"),
    ("__udp4_lib_rcv", "NO_SOCKET"),
];

fn is_for(drops: &PacketDrops, reason: &str) -> bool {
    self::reason(drops) == reason
}

/// Why packets were dropped: the kernel's word, or the one that it would have where it gives none; empty if that is not known.
pub fn reason(drops: &PacketDrops) -> &str {
    let by = |(function, _): &&(&str, &str)| *function == drops.function;
    match drops.reason.as_str() {
        "" => BY_FUNCTION.iter().find(by).map_or("", |(_, reason)| *reason),
        given => given,
    }
}

/// What a socket sent, or was to have, and was dropped for a reason.
pub fn of_socket<'m>(model: &'m Model, reason: &str, socket: &InetRef) -> Vec<Dropped<'m>> {
    let is_tcp = socket.is_tcp();
    // One that is not connected has no address of its own, whatever it sends to.
    let is_connected = socket.remote.port() != 0 && !socket.local.ip().is_unspecified();
    let ways = model
        .called
        .translations
        .ways(socket)
        .map(|(own, other)| (canonical(own), canonical(other)));
    let mut found = Vec::new();
    for (kind, flow) in flows(model, reason) {
        if flow.protocol != if is_tcp { "tcp" } else { &*socket.protocol } {
            continue;
        }
        let is = |own: SocketAddr, other: SocketAddr| {
            let (own, other) = (canonical(own), canonical(other));
            match is_connected {
                true => ways.contains(&(own, other)),
                false => own.port() == socket.local.port() && flow.socket_ino == socket.ino,
            }
        };
        let is_outgoing = is(flow.from, flow.to);
        if is_outgoing || is(flow.to, flow.from) {
            found.push(Dropped { kind, flow, is_outgoing });
        }
    }
    found
}

/// What was sent to an address, or came from it, and was dropped for a reason.
pub fn of_address<'m>(model: &'m Model, reason: &str, address: SocketAddr) -> Vec<Dropped<'m>> {
    let behind = model.called.translations.behind(address).map(|far| far.pair.0);
    let is_at = |it: SocketAddr| {
        canonical(it) == canonical(address)
            || behind.is_some_and(|far| canonical(far) == canonical(it))
    };
    let is_it = |flow: &DroppedFlow| {
        let is_outgoing = is_at(flow.to);
        (is_outgoing || is_at(flow.from)).then_some(is_outgoing)
    };
    let of = flows(model, reason).filter_map(|(kind, flow)| {
        is_it(flow).map(|is_outgoing| Dropped { kind, flow, is_outgoing })
    });
    of.collect()
}

/// What was dropped for a reason, flow by flow.
pub(super) fn flows<'m>(
    model: &'m Model,
    reason: &str,
) -> impl Iterator<Item = (&'m PacketDrops, &'m DroppedFlow)> {
    of_reason(model, reason).flat_map(|kind| kind.flows.iter().map(move |flow| (kind, flow)))
}

/// The same address, if it is one of IPv4 within IPv6.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_reasons_says_the_function() {
        let drops = |reason: &str, function: &str| PacketDrops {
            reason: reason.into(),
            function: function.into(),
            ..PacketDrops::default()
        };
        assert!(is_for(&drops("", "nf_hook_slow"), "NETFILTER_DROP"));
        assert!(!is_for(&drops("", "nf_hook_slow"), "CPU_BACKLOG"));
        assert!(!is_for(&drops("NOT_SPECIFIED", "nf_hook_slow"), "NETFILTER_DROP"));
    }
}
