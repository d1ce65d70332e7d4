//! Where a process can be spoken to: the addresses that a question needs.
//!
//! Filled in by whoever has read them (measure/doors.rs). Must not: guess one by a program's name.

use std::net::SocketAddr;

/// The sockets that one process listens on, each once, in the order of their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Doors {
    /// TCP, as this host reaches it: of a socket on all addresses, its loopback.
    pub tcp: Vec<SocketAddr>,
    /// Paths of unix sockets, as the process sees them.
    pub unix: Vec<String>,
}
