//! A datagram that this host dropped between who asks by UDP and whom: then whoever is to answer never got the question, or has answered.
//!
//! Stands before the other end of the connection, which waits for the next question and has nothing to act upon. A server may answer from another
//! port of its address (TFTP). Must not: believe what the server's own socket dropped, or that nobody takes: that is the server's; or a datagram of
//! which the sender, or who was to have it, is not the waiter.
//!
//! Edit together: measure/packet_drops.rs (which packets are of a socket).

use crate::facts::{DroppedFlow, ObjectRef, PacketDrops, ThreadRef};
use crate::graph::next::Next;
use crate::graph::relayed::RELAYED_WITHIN;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass::SocketRead;
use std::net::SocketAddr;

/// The way.
pub(super) static WAY: Way = Way {
    name: "dropped datagram",
    because: "it was asked, and what was sent is dropped on this host",
    of: &[SocketRead],
    thresholds: &[&RELAYED_WITHIN],
    follow,
};

/// The kernel's reasons for what is dropped on its way, and functions that drop for one where none is given.
const ON_THE_WAY: [&str; 11] = [
    "NETFILTER_DROP",
    "nf_hook_slow",
    "IP_INNOROUTES",
    "IP_OUTNOROUTES",
    "ip_error",
    "dst_discard",
    "IP_RPFILTER",
    "TC_INGRESS",
    "TC_EGRESS",
    "XDP",
    "NEIGH_FAILED",
];

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let Some(ObjectRef::Inet(socket)) = &at.wait.place.object else { return None };
    if socket.protocol != "udp" || socket.remote.port() == 0 {
        return None;
    }
    let (from_ns, to_ns) = at.within;
    let since_ns = from_ns.saturating_sub(RELAYED_WITHIN.ns());
    let is_own = |process: &Option<ThreadRef>| {
        process.as_ref().is_some_and(|it| it.pid == at.wait.thread.pid)
    };
    let is_port = |end: SocketAddr| end.port() == socket.local.port();
    let asked = socket.remote.ip().to_canonical();
    let is_asked = |end: SocketAddr| end.ip().to_canonical() == asked;
    let is_it = |flow: &DroppedFlow| {
        let goes = is_own(&flow.sender) && is_port(flow.from) && is_asked(flow.to);
        let comes = is_own(&flow.receiver) && is_port(flow.to) && is_asked(flow.from);
        flow.protocol == "udp"
            && (goes && flow.to.port() == socket.remote.port() || comes)
            && (flow.last_ns >= since_ns && flow.first_ns <= to_ns)
    };
    let is_lost = |drops: &&PacketDrops| {
        ON_THE_WAY.contains(&&*drops.reason) || ON_THE_WAY.contains(&&*drops.function)
    };
    let model = at.index.model;
    let mut lost = model.net.drops.iter().filter(is_lost).flat_map(|it| &it.flows);
    lost.any(is_it).then_some(Next::Nobody)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::{dropped, inet};
    use crate::rules::scenes::{endpoint, thread};

    /// Process 10 asks process 20 by UDP while a datagram is dropped that one process sent to another.
    fn asks(reason: &str, from: &str, to: &str, by: [Option<u32>; 2]) -> &'static str {
        let mut drops = dropped(reason, "udp", from, to, 1);
        if let Body::PacketDrops(drops) = &mut drops.body {
            let [sender, receiver] = by.map(|pid| pid.map(|pid| thread(pid, "app")));
            (drops.flows[0].sender, drops.flows[0].receiver) = (sender, receiver);
        }
        let asks = inet("udp", 5, "10.0.0.1:40000", "10.0.0.1:69", 1);
        let serves = endpoint(20, "server", inet("udp", 6, "10.0.0.1:69", "0.0.0.0:0", 7));
        led(vec![stands(of_ten(10), place("recvfrom", NO_ARGS, Some(asks))), serves, drops]).0
    }

    #[test]
    fn who_never_got_the_question_or_has_answered_is_not_next() {
        let (own, server, child) = ("10.0.0.1:40000", "10.0.0.1:69", "10.0.0.1:5000");
        let lost = "dropped datagram";
        assert_eq!(asks("NETFILTER_DROP", own, server, [Some(10), None]), lost);
        assert_eq!(asks("NETFILTER_DROP", child, own, [Some(20), Some(10)]), lost);
        let others = [
            asks("NETFILTER_DROP", own, server, [Some(11), None]),
            asks("NETFILTER_DROP", own, "10.0.0.1:70", [Some(10), None]),
            asks("NETFILTER_DROP", "10.0.0.1:40001", server, [Some(10), None]),
            asks("SOCKET_RCVBUFF", own, server, [Some(10), Some(20)]),
        ];
        assert!(others.iter().all(|it| *it != lost), "{others:?}");
    }
}
