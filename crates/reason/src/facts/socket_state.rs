//! What the kernel says of a socket: its queues, its counts, and whose turn it is on its connection.
//!
//! Read from sock and tcp_sock by the socket iterator, and from a descriptor as the look ends. Must not: say what a socket is (object.rs), or who spoke last
//! (graph/last_word.rs).

use super::Ns;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A connection that waits to be accepted. Source: struct request_sock_queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The listener's address that it came to.
    pub at: IpAddr,
    /// The address that it came from.
    pub from: IpAddr,
}

/// Connections that a listener was asked for and whose other ends have not acknowledged yet. Sources: struct request_sock_queue, struct netns_ipv4.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// How many.
    pub half_made: u32,
    /// net.ipv4.tcp_max_syn_backlog of its network namespace.
    pub limit: u32,
    /// net.ipv4.tcp_syncookies of it is not 0.
    pub cookies: bool,
}

/// A socket's queues and, for TCP, what held its sender back since the connection began.
/// Source: struct sock and struct tcp_sock (`tcp_info` names the same values).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketState {
    /// Receive buffer limit, bytes.
    pub receive_limit_bytes: u64,
    /// Bytes charged to the receive queue (`sk_rmem_alloc`).
    pub receive_queued_bytes: u64,
    /// Send buffer limit, bytes.
    pub send_limit_bytes: u64,
    /// Bytes charged to the write queue (`sk_wmem_queued`).
    pub send_queued_bytes: u64,
    /// Packets dropped at this socket (`sk_drops`).
    pub drops: u64,
    /// Connections waiting to be accepted, and the limit; listening sockets only.
    pub accept_queue: u32,
    /// See `accept_queue`.
    pub accept_limit: u32,
    /// The first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Connections that are half made, and what the namespace allows of them; listening sockets only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Least round-trip time seen, microseconds.
    pub rtt_us_min: u32,
    /// Congestion window, segments.
    pub congestion_window: u32,
    /// Maximum segment size, bytes.
    pub segment_bytes: u32,
    /// The peer's advertised window, bytes.
    pub send_window_bytes: u32,
    /// Bytes written by the application but not yet sent.
    pub unsent_bytes: u64,
    /// Bytes acknowledged by the peer since the connection began.
    pub acked_bytes: u64,
    /// Bytes received since the connection began.
    pub received_bytes: u64,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// Segments delivered since the connection began.
    pub delivered: u32,
    /// Time with data outstanding, microseconds (`tcpi_busy_time`).
    pub busy_us: u64,
    /// Part of it limited by the peer's window (`tcpi_rwnd_limited`).
    pub receiver_limited_us: u64,
    /// Part of it limited by the send buffer (`tcpi_sndbuf_limited`).
    pub send_buffer_limited_us: u64,
    /// What tells who spoke last; of TCP connections that are, or were, open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TcpTurn>,
}

/// What a TCP connection knows of who spoke last and when, under the kernel's names and as it was read; nothing is
/// concluded. Source: struct tcp_sock, inet_connection_sock.
///
/// Sequence numbers count bytes modulo 2^32, SYN and FIN as one each: compare them by their wrapping difference.
/// Ages are reported in jiffies, as coarse as the kernel keeps them, and are right up to 2^32 of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpTurn {
    /// After the last byte that the application wrote.
    pub write_seq: u32,
    /// After the last byte that was sent.
    pub snd_nxt: u32,
    /// The first byte that the peer has not acknowledged.
    pub snd_una: u32,
    /// The peer's sequence number in the segment that updated the send window last.
    pub snd_wl1: u32,
    /// After the last byte that came in order.
    pub rcv_nxt: u32,
    /// After the last byte that the application read.
    pub copied_seq: u32,
    /// Segments that were sent and not acknowledged.
    pub packets_out: u32,
    /// 1: TCP_NODELAY, 2: TCP_CORK, 4: pushed once; 0: Nagle's algorithm holds small segments back.
    pub nonagle: u8,
    /// SO_KEEPALIVE is set: probes move `snd_wl1` and `heard_jiffies`.
    pub keepalive: bool,
    /// When the last segment that was delivered had been sent (CLOCK_MONOTONIC, by microseconds); 0: none.
    pub first_tx_ns: Ns,
    /// When the peer's acknowledgement of it came (likewise).
    pub delivered_ns: Ns,
    /// Age of the last data sent (`lsndtime`), jiffies; of the handshake if there was none.
    pub sent_jiffies: u32,
    /// Age of the last data received (`icsk_ack.lrcvtime`), jiffies; of the handshake if there was none.
    pub received_jiffies: u32,
    /// Age of the last acknowledgement, or segment with one, received (`rcv_tstamp`), jiffies.
    pub heard_jiffies: u32,
    /// Length of a jiffy; 0: unknown.
    pub jiffy_ns: u32,
}
