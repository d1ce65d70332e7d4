//! Which rule of routing, and which route of its table, refuses an address: RTM_GETRULE and a dump of the routes of one refusing type, which the
//! kernel filters (NETLINK_GET_STRICT_CHK, Linux 4.20; include/uapi/linux/{rtnetlink,fib_rules}.h).
//!
//! RTM_GETROUTE answers a refused address with an error and no route, so the rules are gone through as the kernel does (fib_rules_lookup): only
//! those that take every packet to the address count, since the question had no mark, no sender and no user. Any bytes may come in; fuzzed.
//!
//! Must not: dump the routes that lead somewhere (a router has a million), or name a rule that does not take every packet.
//! Rejected: RTM_F_FIB_MATCH (it answers with the same error).
//!
//! Edit together: routes.rs (what the kernel answers), readers/unrouted.rs.

use super::Place;
use super::attributes::*;
use super::exchange::dump;
use super::routes::RTM_GETROUTE;
use holdup_reason::facts::{NoRoute, RefusingRoute, RefusingRule};
use std::cmp::Reverse;
use std::io;
use std::net::IpAddr;

const RTM_GETRULE: u16 = 34;
const RTN_BLACKHOLE: u8 = 6;
const RTN_UNREACHABLE: u8 = 7;
const RTN_PROHIBIT: u8 = 8;

/// A rule that takes every packet to an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    priority: u32,
    then: Then,
}

/// What is done with what a rule takes.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    LookUp { table: u32 },
    Refuse(NoRoute),
}

/// What in a namespace refuses an address, which the kernel answered so; none if no single rule was seen to.
pub(crate) fn refusing_rule(
    place: &Place,
    to: IpAddr,
    answer: NoRoute,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<RefusingRule>> {
    let socket = place.route_socket()?;
    socket.set_netlink_get_strict_chk(true)?;
    let family = family(&octets(to));
    let mut routes = Vec::new();
    if let Some(kind) = kind(answer) {
        // struct rtmsg: the family, and the type of route, which is the kernel's to filter by.
        let wanted = [family, 0, 0, 0, 0, 0, 0, kind, 0, 0, 0, 0];
        dump(&socket, RTM_GETROUTE, &wanted, buffer, |message| {
            routes.extend(refusing_route(message, to));
        })?;
    }
    let mut rules = Vec::new();
    // struct fib_rule_hdr: the family, and nothing else.
    dump(&socket, RTM_GETRULE, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], buffer, |message| {
        rules.extend(rule(message, to));
    })?;
    Ok(refuses(rules, &routes, answer))
}

/// The type of a route that makes the kernel answer so.
fn kind(answer: NoRoute) -> Option<u8> {
    match answer {
        NoRoute::None => None,
        NoRoute::Blackhole => Some(RTN_BLACKHOLE),
        NoRoute::Unreachable => Some(RTN_UNREACHABLE),
        NoRoute::Prohibit => Some(RTN_PROHIBIT),
    }
}

/// The first of the rules, by priority, that ends the search.
fn refuses(
    mut rules: Vec<Rule>,
    routes: &[RefusingRoute],
    answer: NoRoute,
) -> Option<RefusingRule> {
    rules.sort_by_key(|rule| rule.priority);
    rules.iter().find_map(|rule| {
        let route = match rule.then {
            Then::Refuse(with) if with == answer => None,
            Then::Refuse(_) => return None,
            Then::LookUp { table } => {
                let of_table = routes.iter().filter(|route| route.table == table);
                Some(of_table.max_by_key(|route| (route.bits, Reverse(route.metric)))?.clone())
            }
        };
        Some(RefusingRule { priority: rule.priority, route })
    })
}

/// Whether an address begins with so many bits of another.
fn is_within(to: IpAddr, prefix: IpAddr, bits: u8) -> bool {
    let (to, prefix) = (octets(to), octets(prefix));
    let (whole, rest) = (usize::from(bits / 8), bits % 8);
    let mask = u8::MAX.checked_shl(u32::from(8 - rest)).unwrap_or(0);
    to.len() == prefix.len()
        && to.get(..whole) == prefix.get(..whole)
        && (rest == 0
            || to.get(whole).zip(prefix.get(whole)).is_some_and(|(a, b)| (a ^ b) & mask == 0))
}

/// A RTM_NEWROUTE message behind its netlink header; none if it is not about the address.
pub(crate) fn refusing_route(message: &[u8], to: IpAddr) -> Option<RefusingRoute> {
    const RTA_DST: u16 = 1;
    const RTA_PRIORITY: u16 = 6;
    const RTA_TABLE: u16 = 15;
    let (bits, table) = (*message.get(1)?, *message.get(4)?);
    let found = attributes(message.get(12..)?);
    let number = |kind| found.get(&kind).and_then(|bytes| u32_at(bytes, 0));
    let prefix = match found.get(&RTA_DST) {
        Some(bytes) => address(bytes)?,
        None if to.is_ipv4() => IpAddr::from([0; 4]),
        None => IpAddr::from([0; 16]),
    };
    is_within(to, prefix, bits).then(|| RefusingRoute {
        prefix,
        bits,
        table: number(RTA_TABLE).unwrap_or(u32::from(table)),
        metric: number(RTA_PRIORITY).unwrap_or(0),
    })
}

/// A RTM_NEWRULE message behind its netlink header; none of a rule that asks for more than the address, or leads to no table.
pub(crate) fn rule(message: &[u8], to: IpAddr) -> Option<Rule> {
    const FRA_DST: u16 = 1;
    const FRA_PRIORITY: u16 = 6;
    const FRA_TABLE: u16 = 15;
    /// What every rule has: its protocol, table, priority, and what of the result is suppressed if nothing is.
    const OF_ALL: [u16; 5] = [FRA_DST, FRA_PRIORITY, FRA_TABLE, 14, 21];
    const FR_ACT_TO_TBL: u8 = 1;
    const FIB_RULE_INVERT: u32 = 2;
    let (bits, source_bits, tos) = (*message.get(1)?, *message.get(2)?, *message.get(3)?);
    let (table, action, flags) = (*message.get(4)?, *message.get(7)?, u32_at(message, 8)?);
    let found = attributes(message.get(12..)?);
    let number = |kind| found.get(&kind).and_then(|bytes| u32_at(bytes, 0));
    let is_of_all = found.keys().all(|kind| OF_ALL.contains(kind));
    let is_about_it = match found.get(&FRA_DST) {
        Some(bytes) => is_within(to, address(bytes)?, bits),
        None => true,
    };
    if source_bits != 0 || tos != 0 || flags & FIB_RULE_INVERT != 0 || !is_of_all || !is_about_it {
        return None;
    }
    let then = match action {
        FR_ACT_TO_TBL => Then::LookUp { table: number(FRA_TABLE).unwrap_or(u32::from(table)) },
        RTN_BLACKHOLE => Then::Refuse(NoRoute::Blackhole),
        // Of a rule, ENETUNREACH (fib4_rule_action).
        RTN_UNREACHABLE => Then::Refuse(NoRoute::None),
        RTN_PROHIBIT => Then::Refuse(NoRoute::Prohibit),
        _ => return None,
    };
    Some(Rule { priority: number(FRA_PRIORITY).unwrap_or(0), then })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to() -> IpAddr {
        "10.71.2.2".parse().unwrap()
    }

    fn route_message(prefix: [u8; 4], bits: u8, table: u32) -> Vec<u8> {
        let mut message = vec![2, bits, 0, 0, 0, 0, 0, RTN_PROHIBIT, 0, 0, 0, 0];
        put_attribute(&mut message, 1, &prefix);
        put_attribute(&mut message, 15, &table.to_ne_bytes());
        message
    }

    fn rule_message(priority: u32, table: u32, action: u8, more: &[(u16, &[u8])]) -> Vec<u8> {
        let bits = if more.iter().any(|(kind, _)| *kind == 1) { 24 } else { 0 };
        let mut message = vec![2, bits, 0, 0, 0, 0, 0, action, 0, 0, 0, 0];
        put_attribute(&mut message, 6, &priority.to_ne_bytes());
        put_attribute(&mut message, 15, &table.to_ne_bytes());
        for (kind, value) in more {
            put_attribute(&mut message, *kind, value);
        }
        message
    }

    fn found(rules: &[Vec<u8>], routes: &[Vec<u8>], answer: NoRoute) -> Option<RefusingRule> {
        let rules = rules.iter().filter_map(|it| rule(it, to())).collect();
        let routes: Vec<_> = routes.iter().filter_map(|it| refusing_route(it, to())).collect();
        refuses(rules, &routes, answer)
    }

    #[test]
    fn the_route_is_that_of_the_first_rule_whose_table_has_one() {
        let rules = [
            rule_message(32_766, 254, 1, &[]),
            rule_message(500, 100, 1, &[(1, &[10, 71, 2, 0])]),
            rule_message(400, 90, 1, &[(1, &[10, 99, 2, 0])]),
        ];
        let routes = [
            route_message([10, 71, 0, 0], 16, 254),
            route_message([10, 71, 2, 0], 24, 100),
            route_message([10, 64, 0, 0], 10, 100),
            route_message([10, 71, 2, 0], 24, 90),
        ];
        let refusing = found(&rules, &routes, NoRoute::Prohibit).expect("a rule");
        let route = refusing.route.expect("a route");
        assert_eq!((refusing.priority, route.table, route.bits), (500, 100, 24));
        assert_eq!(found(&rules[2..], &routes[3..], NoRoute::Prohibit), None);
    }

    #[test]
    fn a_rule_that_asks_for_more_than_the_address_is_no_answer() {
        let marked: (u16, &[u8]) = (10, &7_u32.to_ne_bytes());
        let rules = [rule_message(10, 0, RTN_PROHIBIT, &[marked])];
        assert_eq!(found(&rules, &[], NoRoute::Prohibit), None);
        let rules = [rule_message(20, 0, RTN_PROHIBIT, &[])];
        let by = RefusingRule { priority: 20, route: None };
        assert_eq!(found(&rules, &[], NoRoute::Prohibit), Some(by));
        assert_eq!(found(&rules, &[], NoRoute::Blackhole), None);
    }

    #[test]
    fn prefixes_end_within_a_byte() {
        let of = |bits| is_within(to(), IpAddr::from([10, 71, 3, 0]), bits);
        assert_eq!((of(22), of(23), of(24), of(0)), (true, true, false, true));
        assert!(!is_within(to(), IpAddr::from([0; 16]), 0), "another family");
    }
}
