//! Interfaces: asked for by RTM_GETLINK, parsed from RTM_NEWLINK (include/uapi/linux/{rtnetlink,if_link}.h).
//!
//! Any bytes may come in; fuzzed. Must not: say what a counter means.

use super::attributes::*;
use super::exchange::dump;
use super::{Interface, Place};
use holdup_reason::facts::Link;
use std::io;

const RTM_GETLINK: u16 = 18;

/// Names of the counters of IFLA_STATS64, in order.
const STATS64: [&str; 25] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
];

/// All interfaces of a namespace, whose names are remembered for what else is asked there.
pub fn links(place: &mut Place, buffer: &mut Vec<u8>) -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    // struct ifinfomsg, all zero: every interface.
    dump(&place.socket, RTM_GETLINK, &[0; 16], buffer, |message| {
        links.extend(link(message));
    })?;
    place.interfaces.clear();
    for link in &mut links {
        link.netns = place.namespace.netns;
        link.netns_name.clone_from(&place.namespace.name);
        let name = link.name.clone();
        let interface = Interface { name, queue_length: link.queue_length };
        place.interfaces.insert(link.index, interface);
    }
    Ok(links)
}

/// A RTM_NEWLINK message behind its netlink header; the namespace is the caller's.
pub fn link(message: &[u8]) -> Option<Link> {
    const IFLA_IFNAME: u16 = 3;
    const IFLA_MTU: u16 = 4;
    const IFLA_TXQLEN: u16 = 13;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_STATS64: u16 = 23;
    const IFLA_INFO_KIND: u16 = 1;
    let index = u32_at(message, 4)?;
    let found = attributes(message.get(16..)?);
    let number = |kind| found.get(&kind).and_then(|value| u32_at(value, 0)).unwrap_or(0);
    let info = found.get(&IFLA_LINKINFO).map(|info| attributes(info)).unwrap_or_default();
    let stats = found.get(&IFLA_STATS64).copied().unwrap_or_default();
    let counters = STATS64
        .iter()
        .enumerate()
        .filter_map(|(place, name)| Some((name.to_string(), u64_at(stats, place * 8)?)));
    Some(Link {
        index,
        name: string(found.get(&IFLA_IFNAME)?),
        kind: info.get(&IFLA_INFO_KIND).map(|kind| string(kind)).unwrap_or_default(),
        mtu: number(IFLA_MTU),
        queue_length: number(IFLA_TXQLEN),
        counters: counters.collect(),
        ..Link::default()
    })
}
