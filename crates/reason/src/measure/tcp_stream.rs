//! TCP streams: what a sender's own kernel counted over the look, and who waits to write.
//!
//! tcp_sock counts since the connection began; where the begin of the look is known, only the growth is of the look. A
//! stream with nothing outstanding and nobody who waits for room is left out: there is nothing to explain. What the figures
//! mean is said by rules/net.
//!
//! Must not: decide between reasons. Rejected: the end itself in the stream (rules are offered ends that others have
//! claimed part of, so a stream holds the place of its end).

use crate::facts::{Endpoint, InetRef, ObjectRef, SocketState};
use crate::graph::demand::Graph;
use crate::measure::packet_queue::Queue;
use crate::measure::tunnels::carrier_of;
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;

/// A TCP stream with something outstanding.
#[derive(Debug)]
pub struct Stream<'a> {
    /// The sending end.
    pub endpoint: &'a Endpoint,
    /// Its addresses.
    pub socket: &'a InetRef,
    /// Its state at the end.
    pub state: &'a SocketState,
    /// What its counters grew by within the look, or since it began if it began within.
    pub change: SocketState,
    /// The queues of this host that its packets pass, by index into the measure, in its order.
    pub queues: Vec<usize>,
    /// The end of its writers' waits for room, by index into the graph's; none if no writer waits.
    pub end: Option<usize>,
}

impl Stream<'_> {
    /// Seconds with data outstanding.
    pub fn busy_seconds(&self) -> f64 {
        self.change.busy_us as f64 / 1e6
    }

    /// Part of the time with data outstanding that the peer's window limited.
    pub fn receiver_limited(&self) -> f64 {
        self.change.receiver_limited_us as f64 / self.change.busy_us.max(1) as f64
    }

    /// Part of the time with data outstanding that the sender's own buffer limited, as far as the kernel counts it: from
    /// the next segment sent.
    pub fn send_buffer_limited(&self) -> f64 {
        self.change.send_buffer_limited_us as f64 / self.change.busy_us.max(1) as f64
    }

    /// Segments sent again for each one delivered.
    pub fn sent_again(&self) -> f64 {
        f64::from(self.change.retransmits) / f64::from(self.change.delivered.max(1))
    }

    /// Bytes that are under way at a time: rate times round trip.
    pub fn under_way_bytes(&self, seconds: f64) -> f64 {
        let rate = self.change.acked_bytes as f64 / seconds.max(1e-9);
        rate * f64::from(self.state.rtt_us) / 1e6
    }
}

/// What sockets' counters grew by.
pub struct SocketChanges<'a> {
    before: HashMap<(u32, u32, u64), &'a SocketState>,
}

impl<'a> SocketChanges<'a> {
    /// Of a model.
    pub fn of(model: &'a Model) -> Self {
        let known = model.held.endpoints_before.iter().rev().filter_map(|(_, endpoint)| {
            let at = (endpoint.process.pid, endpoint.fd, endpoint.object_ino());
            Some((at, endpoint.socket.as_ref()?))
        });
        Self { before: known.collect() }
    }

    /// Whether a socket was read earlier than at the end: else what its counters grew by is all that they ever counted.
    pub fn has_earlier(&self, endpoint: &Endpoint) -> bool {
        let at = (endpoint.process.pid, endpoint.fd, endpoint.object_ino());
        self.before.contains_key(&at)
    }

    /// A socket's state at the end, and what its counters grew by.
    pub fn of_endpoint<'e>(
        &self,
        endpoint: &'e Endpoint,
    ) -> Option<(&'e SocketState, SocketState)> {
        let now = endpoint.socket.as_ref()?;
        let at = (endpoint.process.pid, endpoint.fd, endpoint.object_ino());
        Some((now, change(self.before.get(&at).copied(), now)))
    }
}

fn change(before: Option<&SocketState>, now: &SocketState) -> SocketState {
    let zero = SocketState::default();
    let old = before.unwrap_or(&zero);
    SocketState {
        acked_bytes: now.acked_bytes.saturating_sub(old.acked_bytes),
        received_bytes: now.received_bytes.saturating_sub(old.received_bytes),
        retransmits: now.retransmits.saturating_sub(old.retransmits),
        delivered: now.delivered.saturating_sub(old.delivered),
        busy_us: now.busy_us.saturating_sub(old.busy_us),
        receiver_limited_us: now.receiver_limited_us.saturating_sub(old.receiver_limited_us),
        send_buffer_limited_us: now
            .send_buffer_limited_us
            .saturating_sub(old.send_buffer_limited_us),
        drops: now.drops.saturating_sub(old.drops),
        ..now.clone()
    }
}

/// Queues by the sockets whose packets pass them.
struct Passed {
    by_ino: HashMap<u64, Vec<usize>>,
    by_pair: HashMap<(SocketAddr, SocketAddr), Vec<usize>>,
    /// Of a tunnel's program: what goes into its device goes on in its own packets.
    by_sender: HashMap<u32, BTreeSet<usize>>,
}

impl Passed {
    fn of(queues: &[Queue<'_>]) -> Self {
        let mut passed =
            Self { by_ino: HashMap::new(), by_pair: HashMap::new(), by_sender: HashMap::new() };
        for (at, queue) in queues.iter().enumerate() {
            for flow in &queue.flows {
                if let Some(by) = &flow.process {
                    passed.by_sender.entry(by.pid).or_default().insert(at);
                }
                if flow.socket_ino != 0 {
                    passed.by_ino.entry(flow.socket_ino).or_default().push(at);
                }
                if flow.protocol == "tcp" {
                    passed.by_pair.entry((flow.local, flow.remote)).or_default().push(at);
                }
            }
        }
        passed
    }

    fn by(&self, model: &Model, socket: &InetRef) -> Vec<usize> {
        let by_ino = self.by_ino.get(&socket.ino).into_iter().flatten();
        let ways = model.called.translations.ways(socket);
        let by_pair = ways.iter().filter_map(|way| self.by_pair.get(way)).flatten();
        let carrier = carrier_of(model, socket).and_then(|by| self.by_sender.get(&by.pid));
        let carried = carrier.into_iter().flatten();
        let mut queues: Vec<usize> = by_ino.chain(by_pair).chain(carried).copied().collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }
}

/// Every TCP stream of the host with something outstanding, or a writer that waits.
pub fn tcp_streams<'a>(
    model: &'a Model,
    graph: &Graph<'_>,
    queues: &[Queue<'_>],
    changes: &SocketChanges<'_>,
) -> Vec<Stream<'a>> {
    let ends: HashMap<&Object, usize> = (graph.ends.iter().enumerate())
        .filter(|(_, end)| end.class == WaitClass::SocketWrite)
        .map(|(at, end)| (&end.object, at))
        .collect();
    let passed = Passed::of(queues);
    let mut seen = HashSet::new();
    let mut streams = Vec::new();
    for endpoint in &model.held.endpoints {
        let ObjectRef::Inet(socket) = &endpoint.object else { continue };
        let is_stream = socket.protocol == "tcp" && socket.state != TCP_LISTEN;
        if !is_stream || !seen.insert(socket.ino) {
            continue;
        }
        let Some((state, change)) = changes.of_endpoint(endpoint) else { continue };
        let end = ends.get(&Object::Inet(socket.ino)).copied();
        if end.is_some() || change.busy_us > 0 || state.unsent_bytes > 0 {
            let queues = passed.by(model, socket);
            streams.push(Stream { endpoint, socket, state, change, queues, end });
        }
    }
    streams
}

/// The descriptor at the other end of a connection, if it is on this host, in whatever network namespace but of loopback addresses,
/// which each has for itself.
pub fn other_end<'a>(model: &'a Model, socket: &InetRef) -> Option<&'a Endpoint> {
    let translations = &model.called.translations;
    let far = translations.other_end(socket);
    let netns = match translations.far_end(socket) {
        Some(far) => far.netns,
        None => Some(socket.netns),
    };
    let is_of_namespace = far.0.ip().is_loopback() && far.1.ip().is_loopback();
    model.held.endpoints.iter().find(|endpoint| match &endpoint.object {
        ObjectRef::Inet(other) => {
            let is_there = !is_of_namespace || netns.is_none_or(|it| it == other.netns);
            (other.local, other.remote) == far && other.is_tcp() == socket.is_tcp() && is_there
        }
        _ => false,
    })
}

/// Whether a socket's other end is a listener or an unconnected socket, by address and namespace.
pub fn leads_to(model: &Model, client: &InetRef, server: &InetRef) -> bool {
    (client.protocol == server.protocol || client.is_tcp() && server.is_tcp())
        && model.called.leads_to(client, server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::rules::scenes::{endpoint, host};

    #[test]
    fn an_equal_pair_of_loopback_addresses_in_another_namespace_is_another_connection() {
        let at = |text: &str| text.parse().expect("an address");
        let near = |netns, local: &str, remote: &str| InetRef {
            ino: 5,
            netns,
            protocol: "tcp".into(),
            local: at(local),
            remote: at(remote),
            state: 1,
        };
        let found = |local: &str, remote: &str| {
            let far = ObjectRef::Inet(near(2, remote, local));
            let facts: Vec<Fact> = vec![endpoint(20, "server", far)];
            let model = Model::new([host(), facts].concat());
            let of = |netns| other_end(&model, &near(netns, local, remote)).is_some();
            (of(1), of(2))
        };
        assert_eq!(found("127.0.0.1:4000", "127.0.0.1:80"), (false, true));
        assert_eq!(found("10.0.0.1:4000", "10.0.0.2:80"), (true, true));
    }
}
