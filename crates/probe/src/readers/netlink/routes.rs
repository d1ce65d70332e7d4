//! The route to an address, whether it is a namespace's own, and why nothing is sent there: RTM_GETROUTE for one, whose answer is
//! RTM_NEWROUTE or an error (include/uapi/linux/rtnetlink.h).
//!
//! Any bytes may come in; fuzzed. Must not: dump the table.

use super::attributes::*;
use super::exchange::ask;
use holdup_reason::facts::NoRoute;
use netlink_sys::Socket;
use std::io;
use std::net::IpAddr;

/// RTM_GETROUTE.
pub(crate) const RTM_GETROUTE: u16 = 26;
/// The interface that a route leads over, and in a question the only one that it may.
const RTA_OIF: u16 = 4;

/// Where packets to an address go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Index of the interface.
    pub index: u32,
    /// Whom they are given to there; none: the address itself.
    pub gateway: Option<IpAddr>,
    /// What a router said that the way takes, bytes (path MTU); none if none has, or that is forgotten.
    pub path_mtu_bytes: Option<u32>,
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

/// The same by one interface alone, as a socket that is bound to it sends.
pub(crate) fn route_request_by(to: IpAddr, from: IpAddr, index: u32) -> Vec<u8> {
    let mut message = route_request(to, from);
    put_attribute(&mut message, RTA_OIF, &index.to_ne_bytes());
    message
}

/// Whether an address is one of a namespace's own.
pub(crate) fn is_own_address(socket: &Socket, ip: IpAddr, buffer: &mut Vec<u8>) -> bool {
    const RTN_LOCAL: u8 = 2;
    let nobody = IpAddr::from([0, 0, 0, 0]);
    let asked = route_request(ip, nobody);
    let is_local = |message: &[u8]| message.get(7).map(|kind| *kind == RTN_LOCAL);
    matches!(ask(socket, RTM_GETROUTE, &asked, buffer, is_local), Ok(Some(true)))
}

/// Why a namespace sends nothing from one of its addresses to another; none if it does, or cannot be asked.
pub(crate) fn no_route(
    socket: &Socket,
    (from, to): (IpAddr, IpAddr),
    buffer: &mut Vec<u8>,
) -> Option<NoRoute> {
    match ask(socket, RTM_GETROUTE, &route_request(to, from), buffer, |message| {
        Some(refusal(message))
    }) {
        Ok(found) => found.flatten(),
        Err(error) => refused(&error),
    }
}

/// What a RTM_NEWROUTE message of a route says that leads nowhere: of IPv6 it is an answer.
pub(super) fn refusal(message: &[u8]) -> Option<NoRoute> {
    const RTN_BLACKHOLE: u8 = 6;
    const RTN_UNREACHABLE: u8 = 7;
    const RTN_PROHIBIT: u8 = 8;
    match *message.get(7)? {
        RTN_BLACKHOLE => Some(NoRoute::Blackhole),
        RTN_UNREACHABLE => Some(NoRoute::Unreachable),
        RTN_PROHIBIT => Some(NoRoute::Prohibit),
        _ => None,
    }
}

/// The same of the kernel's refusal: of IPv4 it is an error (fib_props, net/ipv4/fib_semantics.c).
pub(super) fn refused(error: &io::Error) -> Option<NoRoute> {
    match error.raw_os_error()? {
        libc::ENETUNREACH => Some(NoRoute::None),
        libc::EHOSTUNREACH => Some(NoRoute::Unreachable),
        libc::EINVAL => Some(NoRoute::Blackhole),
        libc::EACCES => Some(NoRoute::Prohibit),
        _ => None,
    }
}

/// A RTM_NEWROUTE message behind its netlink header; none if it leads over no link.
pub(crate) fn route(message: &[u8]) -> Option<Route> {
    const RTN_UNICAST: u8 = 1;
    const RTA_GATEWAY: u16 = 5;
    const RTA_VIA: u16 = 18;
    if *message.get(7)? != RTN_UNICAST {
        return None;
    }
    let found = attributes(message.get(12..)?);
    let via = || address(found.get(&RTA_VIA)?.get(2..)?);
    let gateway = found.get(&RTA_GATEWAY).and_then(|bytes| address(bytes)).or_else(via);
    let index = u32_at(found.get(&RTA_OIF)?, 0)?;
    let path_mtu_bytes = path_mtu(message, &found);
    Some(Route { index, gateway, path_mtu_bytes })
}

/// What was learnt from a router is an exception of one address, which ends of itself; what is set at a route, or was announced with it
/// (IPv6), is none.
fn path_mtu(message: &[u8], found: &Attributes<'_>) -> Option<u32> {
    const RTM_F_CLONED: u32 = 0x200;
    const RTA_METRICS: u16 = 8;
    const RTA_CACHEINFO: u16 = 12;
    const RTAX_MTU: u16 = 2;
    /// Of struct rta_cacheinfo.
    const RTA_EXPIRES: usize = 8;
    let is_exception = u32_at(message, 8)? & RTM_F_CLONED != 0;
    let expires = u32_at(found.get(&RTA_CACHEINFO)?, RTA_EXPIRES)?.cast_signed();
    let bytes = u32_at(attributes(found.get(&RTA_METRICS)?).get(&RTAX_MTU)?, 0)?;
    (is_exception && expires > 0).then_some(bytes)
}
