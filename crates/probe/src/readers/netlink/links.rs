//! Interfaces: asked for by RTM_GETLINK, parsed from RTM_NEWLINK (include/uapi/linux/{rtnetlink,if_link}.h).
//!
//! Any bytes may come in; fuzzed. Must not: say what a counter means.

use super::attributes::*;
use super::exchange::dump;
use super::{Interface, Place};
use holdup_reason::facts::{BridgePort, Link, Vxlan};
use std::collections::BTreeMap;
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
    let mut interfaces = BTreeMap::new();
    dump(&place.socket, RTM_GETLINK, &[0; 16], buffer, |message| {
        if let Some(link) = link(message) {
            interfaces.insert(link.index, interface(message, &link));
            links.push(link);
        }
    })?;
    place.interfaces = interfaces;
    for link in &mut links {
        link.netns = place.namespace.netns;
        link.netns_name.clone_from(&place.namespace.name);
    }
    Ok(links)
}

/// What is remembered of an interface.
fn interface(message: &[u8], link: &Link) -> Interface {
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_LINK_NETNSID: u16 = 37;
    let found = attributes(message.get(16..).unwrap_or_default());
    let hardware = found.get(&IFLA_ADDRESS).map(|bytes| hardware_address(bytes));
    Interface {
        name: link.name.clone(),
        kind: link.kind.clone(),
        queue_length: link.queue_length,
        hardware: hardware.unwrap_or_default(),
        is_above_another: found.contains_key(&IFLA_LINK_NETNSID),
    }
}

/// A RTM_NEWLINK message behind its netlink header; the namespace is the caller's.
pub fn link(message: &[u8]) -> Option<Link> {
    const IFLA_IFNAME: u16 = 3;
    const IFLA_MTU: u16 = 4;
    const IFLA_LINK: u16 = 5;
    const IFLA_MASTER: u16 = 10;
    const IFLA_TXQLEN: u16 = 13;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_STATS64: u16 = 23;
    const IFLA_CARRIER: u16 = 33;
    const IFLA_INFO_KIND: u16 = 1;
    const IFLA_INFO_DATA: u16 = 2;
    const IFLA_BR_VLAN_FILTERING: u16 = 7;
    const IFLA_INFO_SLAVE_KIND: u16 = 4;
    const IFLA_INFO_SLAVE_DATA: u16 = 5;
    const IFF_UP: u32 = 1;
    let index = u32_at(message, 4)?;
    let found = attributes(message.get(16..)?);
    let number = |kind| found.get(&kind).and_then(|value| u32_at(value, 0)).unwrap_or(0);
    let info = found.get(&IFLA_LINKINFO).map(|info| attributes(info)).unwrap_or_default();
    let kind = info.get(&IFLA_INFO_KIND).map(|kind| string(kind)).unwrap_or_default();
    let vxlan = info.get(&IFLA_INFO_DATA).filter(|_| kind == "vxlan").map(|data| vxlan(data));
    let bridge = info.get(&IFLA_INFO_DATA).filter(|_| kind == "bridge").map(|it| attributes(it));
    let filtering = bridge.and_then(|it| it.get(&IFLA_BR_VLAN_FILTERING)?.first().copied());
    let is_of_bridge = info.get(&IFLA_INFO_SLAVE_KIND).is_some_and(|it| string(it) == "bridge");
    let port = info.get(&IFLA_INFO_SLAVE_DATA).filter(|_| is_of_bridge).and_then(|it| port(it));
    let stats = found.get(&IFLA_STATS64).copied().unwrap_or_default();
    let counters = STATS64
        .iter()
        .enumerate()
        .filter_map(|(place, name)| Some((name.to_string(), u64_at(stats, place * 8)?)));
    Some(Link {
        index,
        name: string(found.get(&IFLA_IFNAME)?),
        // Of other kinds it is the interface beneath.
        peer: found.get(&IFLA_LINK).filter(|_| kind == "veth").and_then(|it| u32_at(it, 0)),
        kind,
        up: u32_at(message, 8).map(|flags| flags & IFF_UP != 0),
        port,
        master: found.get(&IFLA_MASTER).and_then(|value| u32_at(value, 0)),
        carrier: found.get(&IFLA_CARRIER).and_then(|it| it.first()).map(|it| *it != 0),
        vxlan,
        vlan_filtering: filtering.map(|it| it != 0),
        mtu: number(IFLA_MTU),
        queue_length: number(IFLA_TXQLEN),
        counters: counters.collect(),
        ..Link::default()
    })
}

/// How a port of a bridge is set.
fn port(data: &[u8]) -> Option<BridgePort> {
    const IFLA_BRPORT_STATE: u16 = 1;
    const IFLA_BRPORT_ISOLATED: u16 = 33;
    let found = attributes(data);
    let byte = |kind| found.get(&kind).and_then(|value| value.first().copied());
    let isolated = byte(IFLA_BRPORT_ISOLATED).is_some_and(|it| it != 0);
    Some(BridgePort { state: byte(IFLA_BRPORT_STATE)?, isolated })
}

/// What a tunnel of VXLAN is set to.
fn vxlan(data: &[u8]) -> Vxlan {
    const ID: u16 = 1;
    const GROUP: u16 = 2;
    const LOCAL: u16 = 4;
    const PORT: u16 = 15;
    const GROUP6: u16 = 16;
    const LOCAL6: u16 = 17;
    let found = attributes(data);
    let end = |of: [u16; 2]| {
        let known = of.iter().find_map(|kind| address(found.get(kind)?));
        known.filter(|address| !address.is_unspecified())
    };
    let port = found.get(&PORT).and_then(|bytes| bytes.first_chunk::<2>());
    Vxlan {
        id: found.get(&ID).and_then(|bytes| u32_at(bytes, 0)).unwrap_or(0),
        port: port.map_or(0, |bytes| u16::from_be_bytes(*bytes)),
        local: end([LOCAL, LOCAL6]),
        remote: end([GROUP, GROUP6]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_says_of_what() {
        let mut message = vec![0; 16];
        put_attribute(&mut message, 3, b"veth7\0");
        assert_eq!(link(&message).unwrap().master, None);
        put_attribute(&mut message, 10, &4_u32.to_ne_bytes());
        assert_eq!(link(&message).unwrap().master, Some(4));
    }

    #[test]
    fn a_port_of_a_bridge_says_what_it_passes() {
        let of_kind = |kind: &[u8]| {
            let (mut message, mut info, mut data) = (vec![0; 16], Vec::new(), Vec::new());
            message[8] = 1;
            put_attribute(&mut message, 3, b"veth7\0");
            put_attribute(&mut data, 1, &[1]);
            put_attribute(&mut data, 33, &[1]);
            put_attribute(&mut info, 4, kind);
            put_attribute(&mut info, 5, &data);
            put_attribute(&mut message, 18, &info);
            link(&message).unwrap()
        };
        let found = of_kind(b"bridge\0");
        assert_eq!(
            (found.up, found.port),
            (Some(true), Some(BridgePort { state: 1, isolated: true }))
        );
        assert_eq!(of_kind(b"bond\0").port, None, "its numbers mean something else");
    }

    #[test]
    fn whether_there_is_a_carrier_is_said_where_it_is_known() {
        let mut message = vec![0; 16];
        put_attribute(&mut message, 3, b"eth0\0");
        assert_eq!(link(&message).unwrap().carrier, None);
        put_attribute(&mut message, 33, &[0]);
        assert_eq!(link(&message).unwrap().carrier, Some(false));
    }

    #[test]
    fn an_interface_says_its_hardware_address_and_whether_it_is_above_another_namespace() {
        let mut message = vec![0; 16];
        put_attribute(&mut message, 3, b"vx0\0");
        put_attribute(&mut message, 1, &[2, 0, 10, 0, 0, 2]);
        let read = |message: &[u8]| {
            let it = interface(message, &link(message).unwrap());
            (it.hardware, it.is_above_another)
        };
        assert_eq!(read(&message), ("02:00:0a:00:00:02".into(), false));
        put_attribute(&mut message, 37, &[0; 4]);
        assert!(read(&message).1);
    }

    #[test]
    fn a_veth_says_its_other_end() {
        let of_kind = |kind: &[u8]| {
            let (mut message, mut info) = (vec![0; 16], Vec::new());
            put_attribute(&mut message, 3, b"eth0\0");
            put_attribute(&mut message, 5, &7_u32.to_ne_bytes());
            put_attribute(&mut info, 1, kind);
            put_attribute(&mut message, 18, &info);
            link(&message).unwrap().peer
        };
        assert_eq!(of_kind(b"veth\0"), Some(7));
        assert_eq!(of_kind(b"vlan\0"), None, "that one is beneath");
    }

    #[test]
    fn a_tunnel_says_its_ends() {
        let mut data = Vec::new();
        put_attribute(&mut data, 1, &23_u32.to_ne_bytes());
        put_attribute(&mut data, 2, &[10, 0, 0, 2]);
        put_attribute(&mut data, 15, &8472_u16.to_be_bytes());
        let remote = Some("10.0.0.2".parse().unwrap());
        assert_eq!(vxlan(&data), Vxlan { id: 23, port: 8472, local: None, remote });
        assert_eq!(vxlan(&data[..data.len() - 5]).port, 0);
    }
}
