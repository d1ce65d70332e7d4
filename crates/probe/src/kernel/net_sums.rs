//! What the programs have added up of the network, as facts: time in queueing disciplines, packets that were dropped, messages of threads.
//!
//! Apart from sums.rs, which has all that is not the network's. Must not: say whose a socket is (readers/flows.rs), or what a drop means.
//!
//! Edit together: bpf/wire_net.h, bpf/net.bpf.c, bpf/drops.bpf.c, bpf/messages.bpf.h, bpf/sent.bpf.c.

use super::map_entries::After;
use crate::decode::wire::{self, *};
use crate::decode::{Decoder, messages, sent, values};
use crate::skel::HoldupMaps;
use holdup_reason::facts::*;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

/// Of one kind of drop so many flows are reported.
const FLOWS_MAX: usize = 64;
/// Reasons of other parts of the kernel than the core have their part's number in the upper half.
const PART_SHIFT: u32 = 16;
/// Its type in an Ethernet header.
const ARP: u16 = 0x0806;

/// Adds all of it.
pub(super) fn add(
    maps: &HoldupMaps<'_>,
    decoder: &mut Decoder,
    drop_reasons: &BTreeMap<u32, String>,
    after: After,
    all: &mut Vec<Body>,
) {
    let sampling = qdisc_sampling(maps);
    after.each(&maps.qdiscs, |key: wire_qdisc_key, value: wire_qdisc| {
        all.push(Body::QdiscSojourn(sojourn(&key, &value, sampling)));
    });
    after.each(&maps.flows, |key: wire_flow_key, value: wire_flow| {
        all.push(Body::QdiscFlow(flow(&key, &value)));
    });
    all.extend(drops(maps, decoder, drop_reasons, after).into_iter().map(Body::PacketDrops));
    after.each(&maps.messages, |_: u32, value: wire_messages| {
        all.push(Body::Messages(messages::messages(&value)));
    });
    after.each(&maps.sent, |key: wire_sent_key, value: wire_sent| {
        all.extend(sent::sent_to(&key, &value).map(Body::SentTo));
    });
}

/// Where, why, and by which code packets are dropped: as the kernel numbers it.
type DropKey = (u32, u32, u32, u64);

fn drops(
    maps: &HoldupMaps<'_>,
    decoder: &mut Decoder,
    reasons: &BTreeMap<u32, String>,
    after: After,
) -> Vec<PacketDrops> {
    let mut found: BTreeMap<DropKey, PacketDrops> = BTreeMap::new();
    after.each(&maps.drops, |key: wire_drop_key, value: wire_drop| {
        let function = match key.location {
            0 => String::new(),
            address => decoder.names.stacks.name(address),
        };
        let drops = PacketDrops {
            netns: key.netns,
            interface: wire::text(&value.interface),
            index: key.ifindex,
            reason: reason(key.reason, reasons),
            function,
            packets: value.packets,
            flows: Vec::new(),
        };
        found.insert((key.netns, key.ifindex, key.reason, key.location), drops);
    });
    after.each(&maps.dropped_flows, |key: wire_dropped_flow_key, value: wire_dropped_flow| {
        let kind = (key.netns, key.ifindex, key.reason, key.location);
        if let Some(drops) = found.get_mut(&kind) {
            drops.flows.push(dropped_flow(&key, &value));
        }
    });
    let mut all: Vec<PacketDrops> = found.into_values().collect();
    for drops in &mut all {
        drops.flows.sort_by(|a, b| b.packets.cmp(&a.packets).then(a.last_ns.cmp(&b.last_ns)));
        drops.flows.truncate(FLOWS_MAX);
    }
    all
}

/// Its name; of another part of the kernel that part's number and its own.
fn reason(number: u32, reasons: &BTreeMap<u32, String>) -> String {
    if reasons.is_empty() {
        return String::new();
    }
    let other = || match number >> PART_SHIFT {
        0 => number.to_string(),
        part => format!("{part}.{}", number & ((1 << PART_SHIFT) - 1)),
    };
    reasons.get(&number).cloned().unwrap_or_else(other)
}

fn dropped_flow(key: &wire_dropped_flow_key, value: &wire_dropped_flow) -> DroppedFlow {
    let is_ip = key.family != 0;
    let place = |bytes: &[u8; 16], port| match is_ip {
        true => values::address(key.family, bytes, port),
        false => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
    };
    let protocol = match key.protocol {
        number if is_ip => values::protocol_name(number),
        ARP => "arp".to_string(),
        number => format!("{number:#06x}"),
    };
    DroppedFlow {
        protocol,
        from: place(&key.from, key.from_port),
        to: place(&key.to, key.to_port),
        packets: value.packets,
        first_ns: value.first_ns,
        last_ns: value.last_ns,
        socket_ino: value.socket_ino,
        sender: (value.sender_tgid != 0).then(|| ThreadRef {
            tid: value.sender_tgid,
            pid: value.sender_tgid,
            ..ThreadRef::default()
        }),
        receiver: None,
    }
}

fn qdisc_sampling(maps: &HoldupMaps<'_>) -> u32 {
    let mask = maps.bss_data.as_deref().map_or(0, |bss| bss.control.packet_mask);
    mask + 1
}

fn sojourn(key: &wire_qdisc_key, value: &wire_qdisc, sampling: u32) -> QdiscSojourn {
    QdiscSojourn {
        netns: key.netns,
        interface: wire::text(&value.interface),
        index: key.ifindex,
        handle: handle_name(key.handle),
        packets: value.packets,
        bytes: value.bytes,
        sojourn_ns: value.sojourn_ns,
        sojourn_ns_min: value.sojourn_ns_min,
        sojourn_ns_max: value.sojourn_ns_max,
        sojourn_us_log2: wire::trimmed(&value.slots),
        sojourn_ns_min_by_tenth: value
            .tenth_min_ns
            .iter()
            .filter(|&&least| least > 0)
            .map(|least| least - 1)
            .collect(),
        sampling,
    }
}

/// A handle as tc shows it: major and minor in hexadecimal.
fn handle_name(handle: u32) -> String {
    match handle & 0xffff {
        0 => format!("{:x}:", handle >> 16),
        minor => format!("{:x}:{minor:x}", handle >> 16),
    }
}

fn flow(key: &wire_flow_key, value: &wire_flow) -> QdiscFlow {
    QdiscFlow {
        netns: key.netns,
        interface: wire::text(&value.interface),
        handle: handle_name(key.handle),
        protocol: values::protocol_name(key.protocol),
        local: values::address(key.family, &key.local, key.local_port),
        remote: values::address(key.family, &key.remote, key.remote_port),
        process: None,
        packets: value.packets,
        bytes: value.bytes,
        sojourn_ns: value.sojourn_ns,
        sojourn_ns_max: value.sojourn_ns_max,
        untimed_packets: value.untimed_packets,
        untimed_bytes: value.untimed_bytes,
        socket_ino: value.socket_ino,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_kernels_name_or_its_number() {
        let reasons = BTreeMap::from([(12, "NETFILTER_DROP".to_string())]);
        let names = [12, 99, 2 << 16 | 5].map(|number| reason(number, &reasons));
        assert_eq!(names, ["NETFILTER_DROP", "99", "2.5"]);
        assert_eq!(reason(0, &BTreeMap::new()), "", "a kernel that gives none");
    }

    #[test]
    fn a_dropped_packet_that_is_no_ip_has_no_addresses() {
        let key = wire_dropped_flow_key { protocol: ARP, ..wire::read(&[]) };
        let flow = dropped_flow(&key, &wire::read(&[]));
        assert_eq!((&*flow.protocol, flow.to.to_string()), ("arp", "0.0.0.0:0".into()));
    }
}
