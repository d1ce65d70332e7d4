//! The neighbour entry of an address: RTM_GETNEIGH for one, parsed from RTM_NEWNEIGH (include/uapi/linux/neighbour.h).
//!
//! Any bytes may come in; fuzzed. Must not: dump the table.

use super::attributes::*;
use holdup_reason::facts::Ns;
use std::net::IpAddr;

/// An entry of the neighbour table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// NUD_*.
    pub state: u16,
    /// Age of that state.
    pub updated_ns: Ns,
}

/// struct ndmsg and its attribute: the entry of this one address on an interface.
pub(crate) fn neighbour_request(of: IpAddr, index: u32) -> Vec<u8> {
    let of = octets(of);
    let mut message = vec![family(&of), 0, 0, 0];
    message.extend(index.to_ne_bytes());
    message.extend([0; 4]);
    put_attribute(&mut message, NDA_DST, &of);
    message
}

const NDA_DST: u16 = 1;

/// A RTM_NEWNEIGH message behind its netlink header.
pub(crate) fn neighbour(message: &[u8]) -> Option<Neighbour> {
    const NDA_CACHEINFO: u16 = 3;
    // Of the ages in it: USER_HZ, 100 but on Alpha.
    const TICK_NS: Ns = 10_000_000;
    let state = u16_at(message, 8)?;
    let found = attributes(message.get(12..)?);
    // confirmed, used, updated.
    let updated = found.get(&NDA_CACHEINFO).and_then(|ages| u32_at(ages, 8)).unwrap_or(0);
    Some(Neighbour { state, updated_ns: Ns::from(updated) * TICK_NS })
}
