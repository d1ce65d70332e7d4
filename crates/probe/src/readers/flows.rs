//! Whose the flows are that waited in packet queues: by the sockets that were seen.
//!
//! A packet from another namespace has lost its socket; its addresses still say which, unless they were translated. Must not: read
//! anything that the look has not read already.

use super::endpoints::inodes;
use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use holdup_reason::facts::{Body, Fact, ObjectRef};
use std::collections::BTreeMap;

/// See the head of the file.
pub struct Flows;

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
            let Body::QdiscFlow(flow) = body else { continue };
            let pair = (flow.protocol.clone(), flow.local, flow.remote);
            let found = by_ino.get(&flow.socket_ino).or_else(|| by_pair.get(&pair));
            if let Some(endpoint) = found {
                flow.process = Some(endpoint.process.clone());
                look.waited.objects.extend(inodes(&endpoint.object));
            }
        }
        Ok(())
    }
}
