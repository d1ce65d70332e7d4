//! A frame that is full of TCP's payload, as a wire, a shaper and an interface count it.
//!
//! Must not: know a link or a rate (line_limits.rs).

use crate::facts::{Endpoint, InetRef, Link};

/// Ethernet's own header.
pub(super) const ETHERNET: f64 = 14.0;
/// What only the wire has of a frame: checksum, preamble and the gap to the next.
pub(super) const WIRE_ALONE: f64 = 4.0 + 8.0 + 12.0;
/// Headers of IPv4, IPv6 and TCP.
const IPV4: f64 = 20.0;
const IPV6: f64 = 40.0;
const TCP: f64 = 20.0;
/// TCP's timestamps, which Linux sends in each segment unless it is told not to.
const TIMESTAMPS: f64 = 12.0;

/// A frame that is full of payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// Bytes of payload.
    pub payload: f64,
    /// All of it.
    pub bytes: f64,
}

impl Frame {
    /// Of a socket's segments, as whoever limits the line counts them; none where the size of a segment was not read.
    pub(super) fn of(
        endpoint: &Endpoint,
        socket: &InetRef,
        mtu: u32,
        of_link: f64,
    ) -> Option<Self> {
        let payload = f64::from(endpoint.socket.as_ref()?.segment_bytes);
        let ip = if socket.remote.ip().to_canonical().is_ipv4() { IPV4 } else { IPV6 };
        let bare = payload + ip + TCP;
        let options = if bare == f64::from(mtu) { 0.0 } else { TIMESTAMPS };
        (payload > 0.0).then_some(Self { payload, bytes: bare + options + of_link })
    }

    /// Part of it that is payload.
    pub(super) fn part(self) -> f64 {
        self.payload / self.bytes
    }
}

/// What a full frame takes on the wire, for each byte of it that the interface counts.
pub(super) fn on_wire(link: &Link) -> f64 {
    1.0 + WIRE_ALONE / (f64::from(link.mtu) + ETHERNET)
}
