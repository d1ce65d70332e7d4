//! The route to an address: RTM_GETROUTE for one, parsed from RTM_NEWROUTE (include/uapi/linux/rtnetlink.h).
//!
//! Any bytes may come in; fuzzed. Must not: dump the table.

use super::attributes::*;
use std::net::IpAddr;

/// Where packets to an address go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Index of the interface.
    pub index: u32,
    /// Whom they are given to there; none: the address itself.
    pub gateway: Option<IpAddr>,
}

/// struct rtmsg and its attributes: which way to this one address, from that one.
pub(crate) fn route_request(to: IpAddr, from: IpAddr) -> Vec<u8> {
    const RTA_DST: u16 = 1;
    const RTA_SRC: u16 = 2;
    let (to, from) = (octets(to), octets(from));
    let bits = |bytes: &[u8]| (bytes.len() * 8) as u8;
    let is_known = from.len() == to.len() && from.iter().any(|byte| *byte != 0);
    let source_bits = if is_known { bits(&from) } else { 0 };
    let mut message = vec![family(&to), bits(&to), source_bits, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    put_attribute(&mut message, RTA_DST, &to);
    if is_known {
        put_attribute(&mut message, RTA_SRC, &from);
    }
    message
}

/// Whether a RTM_NEWROUTE message says that the address is the namespace's own.
pub(super) fn is_local(message: &[u8]) -> bool {
    const RTN_LOCAL: u8 = 2;
    message.get(7) == Some(&RTN_LOCAL)
}

/// A RTM_NEWROUTE message behind its netlink header; none if it leads over no link.
pub(crate) fn route(message: &[u8]) -> Option<Route> {
    const RTN_UNICAST: u8 = 1;
    const RTA_OIF: u16 = 4;
    const RTA_GATEWAY: u16 = 5;
    const RTA_VIA: u16 = 18;
    if *message.get(7)? != RTN_UNICAST {
        return None;
    }
    let found = attributes(message.get(12..)?);
    let via = || address(found.get(&RTA_VIA)?.get(2..)?);
    let gateway = found.get(&RTA_GATEWAY).and_then(|bytes| address(bytes)).or_else(via);
    Some(Route { index: u32_at(found.get(&RTA_OIF)?, 0)?, gateway })
}
