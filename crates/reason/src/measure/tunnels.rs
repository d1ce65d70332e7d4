//! Packets that a tunnel carries others in: whose they are, and which of them this host dropped.
//!
//! What goes into a tunnel comes out as packets of another connection: of the socket of a program (a VPN, over tun), or of the kernel itself (VXLAN), which no
//! process asked for. Whoever waits for an address behind the tunnel loses what is dropped of these. Must not: take packets of another
//! tunnel on the same port for them (of VXLAN the addresses of its ends say which). Rejected: reading the inner headers of what is dropped
//! (a VPN has enciphered them).
//!
//! Edit together: graph/tun_program.rs, packet_drops.rs, readers/next_hops.rs of the probe (which tunnel an address is behind).

use super::packet_drops::{Dropped, canonical, flows};
use crate::facts::{DroppedFlow, InetRef, Link, NextHop, ObjectRef, ThreadRef, Vxlan};
use crate::graph::tun_program::{self, into_tun};
use crate::model::{Model, words};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Who makes the packets that a tunnel's go in.
#[derive(Debug, Clone, Copy)]
pub enum Carrier<'m> {
    /// The program that has its device open.
    Program(&'m ThreadRef),
    /// The kernel, for this interface.
    Kernel(&'m Link),
}

impl fmt::Display for Carrier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(by) => write!(f, "the tunnel of {}", words::who(by)),
            Self::Kernel(link) => write!(f, "the tunnel {}", link.name),
        }
    }
}

/// What a tunnel carries a socket's packets in, and was dropped for a reason: with whoever makes them.
pub fn of_tunnel<'m>(
    model: &'m Model,
    reason: &str,
    socket: &InetRef,
) -> Option<(Carrier<'m>, Vec<Dropped<'m>>)> {
    let to = (socket.netns, socket.remote.ip().to_canonical());
    let hop = model.net.next_hops.get(&to)?;
    let (carrier, dropped) = match hop.kind.as_str() {
        "tun" => {
            let by = tun_program::of(model, hop)?;
            (Carrier::Program(by), of_program(model, reason, socket, by))
        }
        "vxlan" => {
            let (link, vxlan) = vxlan(model, hop)?;
            let of: Vec<_> =
                flows(model, reason).filter(|(_, flow)| is_of_vxlan(flow, vxlan)).collect();
            // Of several hosts it is not known behind which one the address is.
            if !are_of_one(of.iter().map(|(_, flow)| *flow), vxlan) {
                return None;
            }
            let of = of.into_iter().map(|(kind, flow)| {
                let is_outgoing = is_sent_by(flow, vxlan);
                Dropped { kind, flow, is_outgoing }
            });
            (Carrier::Kernel(link), of.collect())
        }
        _ => return None,
    };
    (!dropped.is_empty()).then_some((carrier, dropped))
}

/// The interface that leads into a tunnel of VXLAN, as it was read last.
pub fn vxlan<'m>(model: &'m Model, hop: &NextHop) -> Option<(&'m Link, &'m Vxlan)> {
    let mut links = model.net.links.iter().rev();
    let link = links.find(|link| (link.netns, link.index) == (hop.netns, hop.index))?;
    Some((link, link.vxlan.as_ref()?))
}

/// The next hop to the host that a tunnel of VXLAN sends to for whom `hop` leads to, if nobody answers for that host; of several hosts, if
/// nobody answers for any.
pub fn silent_beyond<'m>(model: &'m Model, hop: &NextHop) -> Option<&'m NextHop> {
    let hops = &model.net.next_hops;
    let mut beyond = hop.tunnel_ends.iter().map(|end| hops.get(&(hop.netns, *end)));
    let first = beyond.next()??;
    let is_silent = |it: &NextHop| it.is_silent() && it.destination != hop.destination;
    (is_silent(first) && beyond.all(|it| it.is_some_and(is_silent))).then_some(first)
}

/// Sent to its port, from one of its ends to the other, as far as they are known; without any it is nobody's.
fn is_of_vxlan(flow: &DroppedFlow, vxlan: &Vxlan) -> bool {
    let ends = [flow.from, flow.to].map(|end| end.ip().to_canonical());
    let is_end = |end: Option<IpAddr>| {
        end.filter(|it| !it.is_multicast()).is_none_or(|it| ends.contains(&it))
    };
    let is_known = [vxlan.local, vxlan.remote].into_iter().flatten().next().is_some();
    flow.protocol == "udp"
        && flow.to.port() == vxlan.port
        && is_known
        && is_end(vxlan.local)
        && is_end(vxlan.remote)
}

/// Whether all go to one other end, or come from it.
fn are_of_one<'f>(flows: impl Iterator<Item = &'f DroppedFlow>, vxlan: &Vxlan) -> bool {
    let far =
        |flow: &DroppedFlow| if is_sent_by(flow, vxlan) { flow.to.ip() } else { flow.from.ip() };
    let mut ends = flows.map(far);
    ends.next().is_none_or(|first| ends.all(|end| end == first))
}

/// Whether this end sent it: by its address, or by the other's.
fn is_sent_by(flow: &DroppedFlow, vxlan: &Vxlan) -> bool {
    let (from, to) = (flow.from.ip().to_canonical(), flow.to.ip().to_canonical());
    vxlan.local.map_or(vxlan.remote == Some(to), |own| own == from)
}

/// The program that carries a socket's packets on, where they go into a tun device.
pub fn carrier_of<'m>(model: &'m Model, socket: &InetRef) -> Option<&'m ThreadRef> {
    into_tun(model, socket)?.1
}

/// What was dropped of a program's own sockets.
fn of_program<'m>(
    model: &'m Model,
    reason: &str,
    socket: &InetRef,
    carrier: &ThreadRef,
) -> Vec<Dropped<'m>> {
    let own = model.held.endpoints.iter().filter(|end| end.process.pid == carrier.pid);
    let own: Vec<&InetRef> = own
        .filter_map(|end| match &end.object {
            ObjectRef::Inet(own) if own.netns == socket.netns => Some(own),
            _ => None,
        })
        .collect();
    let is_at = |own: &InetRef, address: SocketAddr| {
        let is_any = own.local.ip().is_unspecified();
        own.local.port() == address.port() && (is_any || canonical(own.local) == canonical(address))
    };
    // An address of all is another program's too, where the socket is known.
    let is_others = |by: &Option<ThreadRef>| by.as_ref().is_some_and(|by| by.pid != carrier.pid);
    let is_its = |by: &Option<ThreadRef>| by.as_ref().is_some_and(|by| by.pid == carrier.pid);
    let of = flows(model, reason).filter_map(|(kind, flow)| {
        if is_others(&flow.sender) && is_others(&flow.receiver) {
            return None;
        }
        let its = || own.iter().filter(|own| own.protocol == flow.protocol);
        let (sent, came) =
            (its().any(|it| is_at(it, flow.from)), its().any(|it| is_at(it, flow.to)));
        // Where both ends have one port and it is bound to all addresses, whoever is known to have sent it says which.
        let is_outgoing = match (sent, came) {
            (true, true) => !is_its(&flow.receiver) && !is_others(&flow.sender),
            (sent, _) => sent,
        };
        (sent || came).then_some(Dropped { kind, flow, is_outgoing })
    });
    of.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(protocol: &str, from: &str, to: &str) -> DroppedFlow {
        DroppedFlow {
            protocol: protocol.into(),
            from: from.parse().expect("an address"),
            to: to.parse().expect("an address"),
            packets: 1,
            first_ns: 0,
            last_ns: 0,
            socket_ino: 0,
            sender: None,
            receiver: None,
        }
    }

    #[test]
    fn only_what_goes_between_its_ends_is_a_tunnels() {
        let of = |text: &str| Some(text.parse().expect("an address"));
        let whole = Vxlan { id: 1, port: 4789, local: of("10.0.0.1"), remote: of("10.0.0.2") };
        let sent = flow("udp", "10.0.0.1:40000", "10.0.0.2:4789");
        let answered = flow("udp", "10.0.0.2:40000", "10.0.0.1:4789");
        assert!(is_of_vxlan(&sent, &whole) && is_of_vxlan(&answered, &whole));
        assert!(is_sent_by(&sent, &whole) && !is_sent_by(&answered, &whole));
        assert!(!is_of_vxlan(&flow("udp", "10.0.0.3:40000", "10.0.0.2:4789"), &whole));
        assert!(!is_of_vxlan(&flow("udp", "10.0.0.1:4789", "10.0.0.2:53"), &whole));
        assert!(!is_of_vxlan(&flow("tcp", "10.0.0.1:40000", "10.0.0.2:4789"), &whole));
        let learns = Vxlan { remote: None, ..whole.clone() };
        assert!(is_of_vxlan(&flow("udp", "10.0.0.1:40000", "10.0.0.9:4789"), &learns));
        let to_another = flow("udp", "10.0.0.1:40000", "10.0.0.9:4789");
        assert!(are_of_one([&sent, &answered].into_iter(), &learns));
        assert!(!are_of_one([&sent, &to_another].into_iter(), &learns));
        let unknown = Vxlan { local: None, remote: None, ..whole };
        assert!(!is_of_vxlan(&sent, &unknown), "it may be any tunnel's");
    }
}
