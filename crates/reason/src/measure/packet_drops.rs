//! Packets that this host dropped: of a socket, or for a reason.
//!
//! A packet names its socket by inode where the kernel still knew it, else by its addresses, in either direction. A socket that is not connected
//! has no address of its own: a packet that has lost it (passed on, or come in) is known by its port and by whom the socket asks, and is not taken if
//! somebody else sent it or was to have it. Must not: say what a reason means, or whether a drop matters.

use crate::facts::{DroppedFlow, InetRef, ObjectRef, PacketDrops, ThreadRef};
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
        let is = |own: SocketAddr, other: SocketAddr, process: Option<&ThreadRef>| {
            let (own, other) = (canonical(own), canonical(other));
            match is_connected {
                true => ways.contains(&(own, other)),
                false if flow.socket_ino == 0 => {
                    // Who is known to be meant may be answered from another port (TFTP).
                    let is_answer = process.is_some() && own == canonical(flow.to);
                    asks(model, socket, (own, other), is_answer) && is_of(model, socket, process)
                }
                false => own.port() == socket.local.port() && flow.socket_ino == socket.ino,
            }
        };
        let is_outgoing = is(flow.from, flow.to, flow.sender.as_ref());
        if is_outgoing || is(flow.to, flow.from, flow.receiver.as_ref()) {
            found.push(Dropped { kind, flow, is_outgoing });
        }
    }
    found
}

/// Whether a pair of addresses may be of a socket that is not connected: its own port, and the address that it asks, at any port of that if
/// it is an answer.
fn asks(
    model: &Model,
    socket: &InetRef,
    (own, other): (SocketAddr, SocketAddr),
    is_answer: bool,
) -> bool {
    let (local, asked) = (canonical(socket.local), canonical(socket.remote));
    let behind = || model.called.translations.behind(socket.remote).map(|far| far.pair.0);
    local.port() == own.port()
        && (local.ip().is_unspecified() || local.ip() == own.ip())
        && asked.port() != 0
        && (asked == other
            || is_answer && asked.ip() == other.ip()
            || behind().map(canonical) == Some(other))
}

/// Whether a process, as far as one is known, is one of those that have a socket: another namespace may use the same port.
fn is_of(model: &Model, socket: &InetRef, process: Option<&ThreadRef>) -> bool {
    let mut has_it = model.held.endpoints.iter().filter(|it| match &it.object {
        ObjectRef::Inet(own) => own.ino == socket.ino,
        _ => false,
    });
    let Some(process) = process else { return true };
    let Some(first) = has_it.next() else { return true };
    first.process.pid == process.pid || has_it.any(|it| it.process.pid == process.pid)
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

    use crate::facts::*;
    use crate::rules::net::scenes::{dropped, inet};
    use crate::rules::scenes::{endpoint, thread};

    /// Packets dropped of a socket that is not connected and sends to 10.2.0.2:161, by what is known of one flow.
    fn of_unconnected(from: &str, to: &str, ino: u64, by: Option<u32>) -> Vec<bool> {
        let is_answer = from.starts_with("10.2.");
        let socket = inet("udp", 100, "0.0.0.0:40000", "0.0.0.0:0", 0);
        let asked = inet("udp", 100, "0.0.0.0:40000", "10.2.0.2:161", 0);
        let mut drops = dropped("NETFILTER_DROP", "udp", from, to, 3);
        if let Body::PacketDrops(drops) = &mut drops.body {
            let flow = &mut drops.flows[0];
            let by = by.map(|pid| thread(pid, "client"));
            flow.socket_ino = ino;
            if is_answer { flow.receiver = by } else { flow.sender = by }
        }
        let model = Model::new(vec![endpoint(10, "client", socket), drops]);
        let ObjectRef::Inet(asked) = asked else { return Vec::new() };
        let found = of_socket(&model, "NETFILTER_DROP", &asked);
        found.into_iter().map(|it| it.is_outgoing).collect()
    }

    #[test]
    fn a_packet_that_has_lost_its_socket_is_known_by_its_port_and_whom_it_asks() {
        let (own, asked) = ("10.1.0.2:40000", "10.2.0.2:161");
        assert_eq!(of_unconnected(own, asked, 0, Some(10)), [true]);
        assert_eq!(of_unconnected(own, asked, 0, None), [true]);
        assert_eq!(of_unconnected(asked, own, 0, None), [false], "what comes back");
        assert_eq!(of_unconnected(own, "10.2.0.3:161", 100, Some(10)), [true], "its very socket");
        assert_eq!(of_unconnected("10.2.0.2:5000", own, 0, Some(10)), [false], "of a child");
        let others = [
            of_unconnected("10.2.0.2:5000", own, 0, None),
            of_unconnected("10.2.0.3:161", own, 0, Some(10)),
            of_unconnected("10.2.0.2:5000", own, 0, Some(11)),
            of_unconnected("10.1.0.2:40001", asked, 0, Some(10)),
            of_unconnected(own, "10.2.0.3:161", 0, Some(10)),
            of_unconnected(own, "10.2.0.2:162", 0, Some(10)),
            of_unconnected(own, asked, 0, Some(11)),
            of_unconnected(own, asked, 101, Some(10)),
        ];
        assert!(others.iter().all(Vec::is_empty), "{others:?}");
    }

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
