//! Sockets that somebody waits for, or that are not healthy, as rows: whose, in what state, what stands in them, what TCP counts.
//!
//! As they were as the window ended; what they count is of the window, or since they began if that was within it. What is closed by then
//! is not here, nor is what no process has open (TIME-WAIT). Must not: say why (the rules do), or call a socket unhealthy by a figure
//! that only a long life made.
//!
//! Edit together: docs/net.md (the thresholds).

use super::contract::{Buffers, Socket, Tcp, Trouble};
use super::namespaces::namespace;
use super::waiting::Waiting;
use crate::answer::naming::who;
use crate::facts::{Endpoint, InetRef, ObjectRef, SocketState};
use crate::measure::tcp_stream::SocketChanges;
use crate::model::Model;
use crate::waits::poll_intent::TCP_LISTEN;
use std::collections::HashSet;

/// A buffer is full from this part of it on: the kernel takes whole packets, and so seldom the last byte.
const FULL: f64 = 0.9;
/// As many times the least round trip: an acknowledgement delayed behind each segment at most doubles it (as net.remote_queue).
const ROUND_TRIPS: u32 = 3;
/// And so much more than the least one, microseconds: within a rack a busy CPU alone multiplies it (likewise).
const ROUND_TRIP_US: u32 = 10_000;
/// A limit that holds for more than one part in so many of the time with data outstanding sets the rate.
const MOST: u64 = 2;
/// More than one part in so many of the accept queue is in use.
const HALF: u32 = 2;
/// With less time with data outstanding, microseconds, nothing sets a rate.
const BUSY_US: u64 = 100_000;
/// Less waiting than this is nobody's, seconds.
const WAITED: f64 = 0.001;
/// Bits in a byte.
const BITS: f64 = 8.0;

/// States of TCP as the kernel numbers them from 1 (include/net/tcp_states.h), as ss writes them.
const STATES: [&str; 12] = [
    "ESTAB",
    "SYN-SENT",
    "SYN-RECV",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "UNCONN",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
    "SYN-RECV",
];

/// Rows, what is waited for longest first; none if open descriptors were not read.
pub(super) fn sockets(model: &Model, waiting: &Waiting<'_>) -> Option<Vec<Socket>> {
    if model.held.endpoints.is_empty() {
        return None;
    }
    let changes = SocketChanges::of(model);
    let mut seen = HashSet::new();
    let mut rows = Vec::new();
    for endpoint in &model.held.endpoints {
        let ObjectRef::Inet(socket) = &endpoint.object else { continue };
        // holdup asks the kernel by sockets of its own.
        if endpoint.process.pid != model.look.host.own_pid && seen.insert(socket.ino) {
            rows.extend(row(model, waiting, &changes, endpoint, socket));
        }
    }
    rows.sort_by(|a: &Socket, b: &Socket| {
        let waited = b.waiting_seconds.total_cmp(&a.waiting_seconds);
        waited.then_with(|| sent_again(b).cmp(&sent_again(a))).then_with(|| {
            (b.troubles.len(), a.owner.pid, a.local).cmp(&(a.troubles.len(), b.owner.pid, b.local))
        })
    });
    Some(rows)
}

fn sent_again(of: &Socket) -> u32 {
    of.tcp.map_or(0, |tcp| tcp.sent_again_segments)
}

/// A socket; none if it is healthy and nobody waits for it.
fn row(
    model: &Model,
    waiting: &Waiting<'_>,
    changes: &SocketChanges<'_>,
    endpoint: &Endpoint,
    socket: &InetRef,
) -> Option<Socket> {
    let mut waiting = waiting.of_socket(endpoint, socket);
    waiting.retain(|it| it.wait_seconds >= WAITED);
    let waiting_seconds = waiting.iter().map(|it| it.wait_seconds).sum();
    let state = changes.of_endpoint(endpoint);
    let troubles =
        state.as_ref().map_or_else(Vec::new, |(now, change)| troubles(socket, now, change));
    if troubles.is_empty() && waiting.is_empty() {
        return None;
    }
    let is_connected = socket.remote.port() != 0;
    let is_connection = socket.is_tcp() && socket.state != TCP_LISTEN;
    let seconds = model.look.seconds().max(1e-9);
    Some(Socket {
        at: namespace(model, socket.netns),
        protocol: socket.protocol.clone(),
        state: state_name(socket).into(),
        local: socket.local,
        remote: is_connected.then_some(socket.remote),
        owner: who(model, &endpoint.process),
        troubles,
        buffers: state.as_ref().map(|(now, change)| buffers(socket, now, change)),
        tcp: state.filter(|_| is_connection).map(|(now, change)| tcp(now, &change, seconds)),
        waiting,
        waiting_seconds,
    })
}

fn state_name(socket: &InetRef) -> &'static str {
    let known = usize::from(socket.state).checked_sub(1).and_then(|at| STATES.get(at));
    match (socket.is_tcp(), known) {
        (true, Some(name)) => name,
        _ if socket.remote.port() != 0 => "ESTAB",
        _ => "UNCONN",
    }
}

/// What is not healthy about a socket; `change` is what it counted within the window.
fn troubles(socket: &InetRef, now: &SocketState, change: &SocketState) -> Vec<Trouble> {
    let is_full = |queued: u64, limit: u64| limit > 0 && queued as f64 >= FULL * limit as f64;
    let is_listener = socket.is_tcp() && socket.state == TCP_LISTEN;
    let is_connection = socket.is_tcp() && !is_listener;
    let outstanding = now.unsent_bytes > 0 || now.turn.is_some_and(|turn| turn.packets_out > 0);
    let is_set_by = |limited: u64| change.busy_us >= BUSY_US && limited > change.busy_us / MOST;
    let grown = now.rtt_us.saturating_sub(now.rtt_us_min);
    let is_slow = now.rtt_us_min > 0
        && change.delivered > 0
        && grown >= ROUND_TRIP_US
        && now.rtt_us / ROUND_TRIPS >= now.rtt_us_min;
    let found = [
        (Trouble::SentAgain, is_connection && change.retransmits > 0),
        // Before a connection stands its peer has said no window.
        (
            Trouble::PeerWindowZero,
            is_connection && now.send_window_bytes == 0 && outstanding && now.rtt_us > 0,
        ),
        (
            Trouble::ReceiveBufferFull,
            !is_listener && is_full(now.receive_queued_bytes, now.receive_limit_bytes),
        ),
        (
            Trouble::SendBufferFull,
            !is_listener && is_full(now.send_queued_bytes, now.send_limit_bytes),
        ),
        (Trouble::AcceptQueueOverHalf, is_listener && now.accept_queue > now.accept_limit / HALF),
        (Trouble::Dropped, change.drops > 0),
        (Trouble::RoundTripGrown, is_connection && is_slow),
        (Trouble::ReceiverLimited, is_connection && is_set_by(change.receiver_limited_us)),
        (Trouble::SendBufferLimited, is_connection && is_set_by(change.send_buffer_limited_us)),
    ];
    found.into_iter().filter(|(_, is_so)| *is_so).map(|(trouble, _)| trouble).collect()
}

fn buffers(socket: &InetRef, now: &SocketState, change: &SocketState) -> Buffers {
    let is_listener = socket.is_tcp() && socket.state == TCP_LISTEN;
    Buffers {
        receive_queued_bytes: now.receive_queued_bytes,
        receive_limit_bytes: now.receive_limit_bytes,
        send_queued_bytes: now.send_queued_bytes,
        send_limit_bytes: now.send_limit_bytes,
        accept_queue: is_listener.then_some(now.accept_queue),
        accept_limit: is_listener.then_some(now.accept_limit),
        dropped_packets: change.drops,
    }
}

fn tcp(now: &SocketState, change: &SocketState, seconds: f64) -> Tcp {
    let measured = |us: u32| (us > 0 && us < u32::MAX).then(|| f64::from(us) / 1e6);
    Tcp {
        rtt_seconds: measured(now.rtt_us),
        rtt_seconds_min: measured(now.rtt_us_min).filter(|_| now.rtt_us > 0),
        sent_again_segments: change.retransmits,
        delivered_segments: change.delivered,
        acknowledged_bits_per_second: change.acked_bytes as f64 * BITS / seconds,
        received_bits_per_second: change.received_bytes as f64 * BITS / seconds,
        unsent_bytes: now.unsent_bytes,
        peer_window_bytes: (now.rtt_us > 0).then_some(now.send_window_bytes),
        congestion_window_segments: now.congestion_window,
        busy_seconds: change.busy_us as f64 / 1e6,
        receiver_limited_seconds: change.receiver_limited_us as f64 / 1e6,
        send_buffer_limited_seconds: change.send_buffer_limited_us as f64 / 1e6,
    }
}
