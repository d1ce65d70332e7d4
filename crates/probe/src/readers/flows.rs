//! Whose the flows are that waited in packet queues, or were dropped: by the sockets that were seen.
//!
//! A packet from another namespace has lost its socket; its addresses still say which, unless they were translated. Must not: read
//! anything that the look has not read already.

use super::endpoints::inodes;
use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use holdup_reason::facts::{Body, DroppedFlow, Endpoint, Fact, InetRef, ObjectRef};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A socket by its protocol and its two addresses.
type Pair = (String, SocketAddr, SocketAddr);

/// See the head of the file.
pub(super) struct Flows;

impl Reader for Flows {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    /// Names the process behind each flow by its socket, and wants those sockets reported.
    fn close(&mut self, look: &mut Look, _: &mut Vec<Fact>) -> Result<(), SourceError> {
        look.read_endpoints()?;
        let now = look.last.endpoints.iter().flat_map(|(_, all)| all);
        let mut by_ino = BTreeMap::new();
        let mut by_pair: BTreeMap<Pair, Vec<&Endpoint>> = BTreeMap::new();
        for endpoint in look.ends.seen().chain(now) {
            if let ObjectRef::Inet(socket) = &endpoint.object {
                by_ino.insert(socket.ino, endpoint);
                let pair = (socket.protocol.clone(), socket.local, socket.remote);
                let known = by_pair.entry(pair).or_default();
                known.retain(|it| it.object_ino() != socket.ino);
                known.push(endpoint);
            }
        }
        for body in &mut look.last.sums {
            match body {
                Body::QdiscFlow(flow) => {
                    let pair = (flow.protocol.clone(), flow.local, flow.remote);
                    let only = || only(by_pair.get(&pair)?);
                    let found = by_ino.get(&flow.socket_ino).copied().or_else(only);
                    if let Some(endpoint) = found {
                        flow.process = Some(endpoint.process.clone());
                        look.waited.objects.extend(inodes(&endpoint.object));
                    }
                }
                Body::PacketDrops(drops) => {
                    for flow in &mut drops.flows {
                        let by_ino = by_ino.get(&flow.socket_ino).copied();
                        let found = ends_of(flow, by_ino, &by_pair);
                        let whose = |it: &[&Endpoint]| only(it).map(|it| it.process.clone());
                        // Its socket may be closed by now; the packet itself knew who sent it.
                        flow.sender = whose(&found[0]).or(flow.sender.take());
                        flow.receiver = whose(&found[1]);
                        for endpoint in found.into_iter().flatten() {
                            look.waited.objects.extend(inodes(&endpoint.object));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The only one of several sockets: of those of several namespaces that have the same addresses nothing says which it is.
fn only<'a>(all: &[&'a Endpoint]) -> Option<&'a Endpoint> {
    if let [only] = all { Some(only) } else { None }
}

/// The sockets that may be of who sent a packet that was dropped, and of who was to have it: by its own socket, else by its addresses, of
/// which a socket that is not connected has its own alone.
fn ends_of<'a>(
    flow: &DroppedFlow,
    by_ino: Option<&'a Endpoint>,
    by_pair: &BTreeMap<Pair, Vec<&'a Endpoint>>,
) -> [Vec<&'a Endpoint>; 2] {
    let nobody = |of: SocketAddr| match of.is_ipv4() {
        true => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        false => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let of = |local: SocketAddr, remote: SocketAddr| {
        let anywhere = SocketAddr::new(nobody(local).ip(), local.port());
        let sought = [(local, remote), (local, nobody(remote)), (anywhere, nobody(remote))];
        let mut sought = sought.into_iter().filter(|_| local.port() != 0);
        let found = sought.find_map(|(local, remote)| {
            by_pair.get(&(flow.protocol.clone(), local, remote)).cloned()
        });
        found.unwrap_or_default()
    };
    let is_at = |socket: &InetRef, address: SocketAddr| {
        let is_any = socket.local.ip().is_unspecified();
        socket.local.port() == address.port() && (is_any || socket.local.ip() == address.ip())
    };
    let own = |address: SocketAddr| {
        by_ino.filter(|endpoint| matches!(&endpoint.object, ObjectRef::Inet(socket) if is_at(socket, address)))
    };
    let end = |local: SocketAddr, remote: SocketAddr| match own(local) {
        Some(own) => vec![own],
        None => of(local, remote),
    };
    let [sender, receiver] = [end(flow.from, flow.to), end(flow.to, flow.from)];
    // Two ends are two sockets: of one that may be either nothing says which.
    let is_same = |one: &Endpoint, other: &Endpoint| one.object_ino() == other.object_ino();
    match (&*sender, &*receiver) {
        ([one], [other]) if is_same(one, other) => [Vec::new(), Vec::new()],
        _ => [sender, receiver],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::ThreadRef;

    fn end(pid: u32, ino: u64, netns: u32, local: &str) -> Endpoint {
        let process = ThreadRef { tid: pid, pid, start_ns: 0, comm: "vpn".into() };
        let (local, remote) = (local.parse().unwrap(), "0.0.0.0:0".parse().unwrap());
        let socket = InetRef { ino, netns, protocol: "udp".into(), local, remote, state: 7 };
        Endpoint {
            process,
            fd: 3,
            readable: true,
            writable: true,
            nonblocking: false,
            object: ObjectRef::Inet(socket),
            unread: None,
            output_stopped: false,
            socket: None,
        }
    }

    fn ends(all: &[Endpoint]) -> [Vec<u32>; 2] {
        let flow = DroppedFlow {
            protocol: "udp".into(),
            from: "10.0.0.1:1194".parse().unwrap(),
            to: "10.0.0.2:1194".parse().unwrap(),
            packets: 1,
            first_ns: 0,
            last_ns: 0,
            socket_ino: 0,
            sender: None,
            receiver: None,
        };
        let mut by_pair: BTreeMap<Pair, Vec<&Endpoint>> = BTreeMap::new();
        for end in all {
            if let ObjectRef::Inet(socket) = &end.object {
                let pair = (socket.protocol.clone(), socket.local, socket.remote);
                by_pair.entry(pair).or_default().push(end);
            }
        }
        let pids = |all: Vec<&Endpoint>| all.iter().map(|end| end.process.pid).collect();
        ends_of(&flow, None, &by_pair).map(pids)
    }

    #[test]
    fn of_sockets_with_the_same_address_nothing_says_whose_a_packet_is() {
        let one = end(5, 50, 1, "0.0.0.0:1194");
        let both = [one.clone(), end(6, 60, 2, "0.0.0.0:1194")];
        assert_eq!(ends(&both), [vec![5, 6], vec![5, 6]]);
        let all: Vec<&Endpoint> = both.iter().collect();
        assert!(only(&all).is_none() && only(&all[..1]).is_some());
        assert_eq!(
            ends(&[one]),
            [const { Vec::<u32>::new() }; 2],
            "nobody sends to himself from elsewhere"
        );
    }

    #[test]
    fn a_socket_with_its_own_address_is_the_one_end_of_it() {
        let all = [end(5, 50, 1, "10.0.0.1:1194"), end(6, 60, 2, "0.0.0.0:1194")];
        assert_eq!(ends(&all), [vec![5], vec![6]]);
    }
}
