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
        let mut by_pair = BTreeMap::new();
        for endpoint in look.ends.seen().chain(now) {
            if let ObjectRef::Inet(socket) = &endpoint.object {
                by_ino.insert(socket.ino, endpoint);
                by_pair.insert((socket.protocol.clone(), socket.local, socket.remote), endpoint);
            }
        }
        for body in &mut look.last.sums {
            match body {
                Body::QdiscFlow(flow) => {
                    let pair = (flow.protocol.clone(), flow.local, flow.remote);
                    let found = by_ino.get(&flow.socket_ino).or_else(|| by_pair.get(&pair));
                    if let Some(endpoint) = found {
                        flow.process = Some(endpoint.process.clone());
                        look.waited.objects.extend(inodes(&endpoint.object));
                    }
                }
                Body::PacketDrops(drops) => {
                    for flow in &mut drops.flows {
                        let by_ino = by_ino.get(&flow.socket_ino).copied();
                        let found = ends_of(flow, by_ino, &by_pair);
                        let whose = |it: Option<&Endpoint>| it.map(|it| it.process.clone());
                        // Its socket may be closed by now; the packet itself knew who sent it.
                        flow.sender = whose(found[0]).or(flow.sender.take());
                        flow.receiver = whose(found[1]);
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

/// The sockets of who sent a packet that was dropped, and of who was to have it: by its own socket, else by its addresses, of
/// which a socket that is not connected has its own alone.
fn ends_of<'a>(
    flow: &DroppedFlow,
    by_ino: Option<&'a Endpoint>,
    by_pair: &BTreeMap<Pair, &'a Endpoint>,
) -> [Option<&'a Endpoint>; 2] {
    let nobody = |of: SocketAddr| match of.is_ipv4() {
        true => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        false => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let of = |local: SocketAddr, remote: SocketAddr| {
        let anywhere = SocketAddr::new(nobody(local).ip(), local.port());
        let sought = [(local, remote), (local, nobody(remote)), (anywhere, nobody(remote))];
        let mut sought = sought.into_iter().filter(|_| local.port() != 0);
        sought.find_map(|(local, remote)| {
            by_pair.get(&(flow.protocol.clone(), local, remote)).copied()
        })
    };
    let own = |is: fn(&InetRef) -> SocketAddr, address: SocketAddr| {
        by_ino.filter(|endpoint| {
            matches!(&endpoint.object, ObjectRef::Inet(socket) if is(socket).port() == address.port())
        })
    };
    let sender = own(|socket| socket.local, flow.from).or_else(|| of(flow.from, flow.to));
    let receiver = own(|socket| socket.local, flow.to).or_else(|| of(flow.to, flow.from));
    [sender, receiver]
}
