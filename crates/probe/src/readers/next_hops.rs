//! Next hops to the addresses that somebody of this host sends to without an answer, and their neighbour entries.
//!
//! Theory: a packet to an address of a link waits until ARP (of IPv6: ND) has found who has it, and so does one behind a
//! gateway until the gateway is found. The routing and the neighbour table say whom they wait for. Each is asked of that one
//! address: a router has a hundred thousand neighbours, and nobody waits for most. Asking takes no privilege.
//!
//! Must not: say that a neighbour is at fault (the rule does), or ask about addresses of which nobody waits for anything.
//! UDP is left out: a socket does not say whether it was answered. Rejected: a dump of the table (see above); reading it all
//! through the look (an entry that failed stays for minutes, and is asked for again as long as somebody sends).
//!
//! Edit together: netlink.rs (who asks in which namespace), netlink_wire.rs (what the answers say).

use crate::readers::netlink::exchange::ask;
use crate::readers::netlink::wire;
use crate::session::{Live, now};
use holdup_reason::facts::{Body, Endpoint, Fact, InetRef, NextHop, Ns, ObjectRef, TcpTurn};
use netlink_sys::Socket;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

/// Addresses that are asked about.
const DESTINATIONS_MAX: usize = 100;
/// TCP_SYN_SENT.
const SYN_SENT: u8 = 2;
/// For so long nothing was heard of a peer that did not acknowledge all: the least time after which TCP asks again for a
/// connection.
const UNANSWERED_NS: Ns = 1_000_000_000;

/// An address that is sent to, and from where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// Network namespace inode.
    pub netns: u32,
    /// To.
    pub address: IpAddr,
    /// From.
    pub source: IpAddr,
}

/// Addresses that somebody sends to without an answer.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(BTreeSet<Destination>);

impl Unanswered {
    /// Takes note of a connection that is waited for.
    pub fn heed(&mut self, object: Option<&ObjectRef>) {
        if let Some(ObjectRef::Inet(socket)) = object
            && socket.is_tcp()
            && socket.state == SYN_SENT
        {
            self.add(socket);
        }
    }

    /// The same of an open socket, also where the peer has gone silent since it was connected.
    pub fn heed_endpoint(&mut self, endpoint: &Endpoint) {
        self.heed(Some(&endpoint.object));
        let turn = endpoint.socket.as_ref().and_then(|state| state.turn.as_ref());
        if let ObjectRef::Inet(socket) = &endpoint.object
            && turn.is_some_and(is_silent)
        {
            self.add(socket);
        }
    }

    fn add(&mut self, socket: &InetRef) {
        let (address, source) =
            (socket.remote.ip().to_canonical(), socket.local.ip().to_canonical());
        // The interface of a link-local address is not in the address.
        let is_local = matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
        let is_own = address.is_loopback() || address == source || address.is_unspecified();
        if !is_local && !is_own && self.0.len() < DESTINATIONS_MAX {
            self.0.insert(Destination { netns: socket.netns, address, source });
        }
    }

    /// All of them, once.
    pub fn take(&mut self) -> Vec<Destination> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

/// Something was sent that the peer did not acknowledge, and nothing was heard of it since.
fn is_silent(turn: &TcpTurn) -> bool {
    let heard_ns = u64::from(turn.heard_jiffies) * u64::from(turn.jiffy_ns);
    turn.packets_out > 0 && heard_ns >= UNANSWERED_NS
}

impl Live {
    /// The next hops to addresses of which no answer comes. Before the connections of the look are given away.
    pub(crate) fn next_hops(&mut self, endpoints: &[Endpoint], facts: &mut Vec<Fact>) {
        let seen = self.between.values().filter_map(|fact| match &fact.body {
            Body::Endpoint(endpoint) => Some(endpoint),
            _ => None,
        });
        endpoints.iter().chain(seen).for_each(|endpoint| self.unanswered.heed_endpoint(endpoint));
        let Some(netlink) = self.netlink.as_mut() else { return };
        let at_ns = now();
        let found = netlink.next_hops(self.unanswered.take());
        facts.extend(found.into_iter().map(|body| Fact { at_ns, body }));
    }
}

const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;

/// The next hop to an address, without the name of its interface. None if no route leads there over a link.
pub(crate) fn next_hop(
    socket: &Socket,
    to: &Destination,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<NextHop>> {
    let asked = wire::route_request(to.address, to.source);
    let Some(route) = known(ask(socket, RTM_GETROUTE, &asked, buffer, wire::route))? else {
        return Ok(None);
    };
    let hop = route.gateway.unwrap_or(to.address);
    let asked = wire::neighbour_request(hop, route.index);
    let neighbour = known(ask(socket, RTM_GETNEIGH, &asked, buffer, wire::neighbour))?;
    let neighbour = neighbour.unwrap_or_default();
    Ok(Some(NextHop {
        netns: to.netns,
        destination: to.address,
        gateway: route.gateway,
        interface: String::new(),
        index: route.index,
        state: neighbour.state,
        updated_ns: neighbour.updated_ns,
    }))
}

/// That there is no route, no neighbour, or no such question on this kernel (before 5.0), is an answer.
fn known<T>(answer: io::Result<Option<T>>) -> io::Result<Option<T>> {
    const NONE: [i32; 7] = [
        libc::ENOENT,
        libc::ESRCH,
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::EINVAL,
        libc::EOPNOTSUPP,
        libc::EACCES,
    ];
    match answer {
        Err(error) if error.raw_os_error().is_some_and(|code| NONE.contains(&code)) => Ok(None),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{SocketState, ThreadRef};

    fn endpoint(state: u8, remote: &str, turn: TcpTurn) -> Endpoint {
        let object = ObjectRef::Inet(InetRef {
            ino: 5,
            netns: 7,
            protocol: "tcp".into(),
            local: "10.0.0.1:4000".parse().unwrap(),
            remote: remote.parse().unwrap(),
            state,
        });
        Endpoint {
            process: ThreadRef::default(),
            fd: 3,
            readable: true,
            writable: true,
            nonblocking: true,
            object,
            unread: None,
            output_stopped: false,
            socket: Some(SocketState { turn: Some(turn), ..SocketState::default() }),
        }
    }

    fn asked(state: u8, remote: &str, turn: TcpTurn) -> usize {
        let mut unanswered = Unanswered::default();
        unanswered.heed_endpoint(&endpoint(state, remote, turn));
        unanswered.take().len()
    }

    #[test]
    fn only_addresses_that_do_not_answer_are_asked_about() {
        let quiet = TcpTurn { heard_jiffies: 500, jiffy_ns: 4_000_000, ..TcpTurn::default() };
        let silent = TcpTurn { packets_out: 1, ..quiet };
        let soon = TcpTurn { heard_jiffies: 5, ..silent };
        assert_eq!(asked(SYN_SENT, "10.0.0.9:80", TcpTurn::default()), 1);
        assert_eq!(asked(1, "10.0.0.9:80", silent), 1);
        assert_eq!(asked(1, "10.0.0.9:80", quiet), 0, "all was acknowledged");
        assert_eq!(asked(1, "10.0.0.9:80", soon), 0);
        for own in ["10.0.0.1:80", "127.0.0.1:80", "[::1]:80", "[fe80::1]:80"] {
            assert_eq!(asked(SYN_SENT, own, TcpTurn::default()), 0, "{own}");
        }
    }

    #[test]
    fn they_are_bounded() {
        let mut unanswered = Unanswered::default();
        for n in 0..300 {
            let remote = format!("10.1.{}.{}:80", n / 200, n % 200 + 1);
            unanswered.heed(Some(&endpoint(SYN_SENT, &remote, TcpTurn::default()).object));
        }
        assert_eq!(unanswered.take().len(), DESTINATIONS_MAX);
    }
}
