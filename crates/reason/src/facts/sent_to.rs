//! Facts of datagrams: where a socket that is not connected sends to, which the socket itself does not say.
//!
//! One for each port of a process from which all went to one address. Must not: be made of a socket that sends to several, or of a
//! server's own port, which answers whoever has asked. Rejected: a fact for each datagram (a flood has a million a second).
//!
//! Edit together: decode/sent.rs of the probe, model/sent_to.rs.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The only address that a process sent to from a port over the window. Source: fib_table_lookup and fib6_table_lookup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentTo {
    /// The process.
    pub pid: u32,
    /// As of [`super::InetRef`]: `udp`.
    pub protocol: String,
    /// Its own port, one that it was given.
    pub local_port: u16,
    /// Where to.
    pub remote: SocketAddr,
}
