//! rtnetlink messages as facts: pure parsing of links, qdiscs, classes, filters, routes and neighbours.
//!
//! Only the attributes that are reported are looked at, and an unknown or short one is passed over.
//! Rejected: netlink-packet-route, which parses every attribute of a message, refuses the message
//! for one that it cannot read, and knows neither tbf nor htb.
//!
//! Layouts: include/uapi/linux/{rtnetlink,if_link,neighbour,pkt_sched,pkt_cls,gen_stats}.h.
//! Edit together: `netlink.rs`, `next_hops.rs` (who asks).

use holdup_reason::facts::{Link, Netem, Ns, QdiscSample};
use netlink_packet_core::NlasIterator;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of a psched tick, the unit of a token bucket's buffer: nanoseconds.
const PSCHED_TICK_NS: u64 = 64;

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

/// The attributes of a message behind its fixed header, by number. The last of a number wins.
type Attributes<'a> = BTreeMap<u16, &'a [u8]>;

fn attributes(bytes: &[u8]) -> Attributes<'_> {
    const NESTED_AND_ORDER_FLAGS: u16 = 0xc000;
    let mut found = Attributes::new();
    let mut offset = 0;
    // The iterator tells lengths and kinds; the slices are cut from the message itself, so that
    // they outlive it.
    for attribute in NlasIterator::new(bytes).map_while(Result::ok) {
        let length = usize::from(attribute.length());
        let Some(value) = bytes.get(offset + 4..offset + length) else { break };
        found.insert(attribute.kind() & !NESTED_AND_ORDER_FLAGS, value);
        offset += length.next_multiple_of(4);
    }
    found
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

fn string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
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

/// Where packets to an address go.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the interface.
    pub index: u32,
    /// Whom they are given to there; none: the address itself.
    pub gateway: Option<IpAddr>,
}

/// An entry of the neighbour table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// NUD_*.
    pub state: u16,
    /// Age of that state.
    pub updated_ns: Ns,
}

/// struct rtmsg and its attributes: which way to this one address, from that one.
pub fn route_request(to: IpAddr, from: IpAddr) -> Vec<u8> {
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

/// A RTM_NEWROUTE message behind its netlink header; none if it leads over no link.
pub fn route(message: &[u8]) -> Option<Route> {
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

/// struct ndmsg and its attribute: the entry of this one address on an interface.
pub fn neighbour_request(of: IpAddr, index: u32) -> Vec<u8> {
    let of = octets(of);
    let mut message = vec![family(&of), 0, 0, 0];
    message.extend(index.to_ne_bytes());
    message.extend([0; 4]);
    put_attribute(&mut message, NDA_DST, &of);
    message
}

const NDA_DST: u16 = 1;

/// A RTM_NEWNEIGH message behind its netlink header.
pub fn neighbour(message: &[u8]) -> Option<Neighbour> {
    const NDA_CACHEINFO: u16 = 3;
    // Of the ages in it: USER_HZ, 100 but on Alpha.
    const TICK_NS: Ns = 10_000_000;
    let state = u16_at(message, 8)?;
    let found = attributes(message.get(12..)?);
    // confirmed, used, updated.
    let updated = found.get(&NDA_CACHEINFO).and_then(|ages| u32_at(ages, 8)).unwrap_or(0);
    Some(Neighbour { state, updated_ns: Ns::from(updated) * TICK_NS })
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

fn family(address: &[u8]) -> u8 {
    (if address.len() == 4 { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|it| Ipv4Addr::from(it).into());
    v4.ok().or_else(|| <[u8; 16]>::try_from(bytes).map(|it| Ipv6Addr::from(it).into()).ok())
}

fn put_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((value.len() + 4) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;

/// A RTM_NEWQDISC or RTM_NEWTCLASS message behind its netlink header; namespace and interface name
/// are the caller's.
pub fn qdisc(message: &[u8], class: bool) -> Option<QdiscSample> {
    const TCA_STATS2: u16 = 7;
    const TCA_STATS_BASIC: u16 = 1;
    const TCA_STATS_QUEUE: u16 = 3;
    const TCA_STATS_PKT64: u16 = 8;
    let header = Header::parse(message)?;
    let found = attributes(message.get(Header::BYTES..)?);
    let stats = found.get(&TCA_STATS2).map(|stats| attributes(stats)).unwrap_or_default();
    let basic = stats.get(&TCA_STATS_BASIC).copied().unwrap_or_default();
    let queue = stats.get(&TCA_STATS_QUEUE).copied().unwrap_or_default();
    let queue = |place: usize| u32_at(queue, place * 4).map_or(0, u64::from);
    let wide = stats.get(&TCA_STATS_PKT64).and_then(|value| u64_at(value, 0));
    let mut sample = QdiscSample {
        index: header.index,
        kind: string(found.get(&TCA_KIND)?),
        handle: handle(header.handle),
        parent: handle(header.parent),
        class,
        bytes: u64_at(basic, 0).unwrap_or(0),
        packets: wide.or_else(|| u32_at(basic, 8).map(u64::from)).unwrap_or(0),
        backlog_packets: queue(0),
        backlog_bytes: queue(1),
        drops: queue(2),
        overlimits: queue(4),
        ..QdiscSample::default()
    };
    if let Some(options) = found.get(&TCA_OPTIONS) {
        read_options(options, &mut sample);
    }
    Some(sample)
}

/// The fixed header of all traffic control messages (struct tcmsg).
struct Header {
    index: u32,
    handle: u32,
    parent: u32,
    info: u32,
}

impl Header {
    const BYTES: usize = 20;

    fn parse(message: &[u8]) -> Option<Self> {
        Some(Self {
            index: u32_at(message, 4)?,
            handle: u32_at(message, 8)?,
            parent: u32_at(message, 12)?,
            info: u32_at(message, 16)?,
        })
    }
}

/// A handle as tc writes it: `root`, `ingress`, `8001:`, `1:20`.
fn handle(value: u32) -> String {
    match (value, value >> 16, value & 0xffff) {
        (u32::MAX, _, _) => "root".into(),
        (0xffff_fff1, _, _) => "ingress".into(),
        (_, major, 0) => format!("{major:x}:"),
        (_, major, minor) => format!("{major:x}:{minor:x}"),
    }
}

/// Rate, bucket and limit of the kinds that have them.
fn read_options(options: &[u8], sample: &mut QdiscSample) {
    let nested = || attributes(options);
    let number = |kind| nested().get(&kind).and_then(|value| u32_at(value, 0)).map(u64::from);
    match sample.kind.as_str() {
        "tbf" => tbf(&nested(), sample),
        "htb" if sample.class => htb(&nested(), sample),
        "hfsc" if sample.class => {
            // Slope m2 of the upper limit, real-time and link-sharing curves.
            let slope =
                |kind| nested().get(&kind).and_then(|curve| u32_at(curve, 8)).map(u64::from);
            sample.rate_bytes = slope(3);
            sample.assured_rate_bytes = slope(1).or_else(|| slope(2));
        }
        "netem" => {
            sample.limit = u32_at(options, 4).map(u64::from);
            let behind = options.get(24..).map(attributes).unwrap_or_default();
            let wide = behind.get(&8).and_then(|value| u64_at(value, 0));
            let rate = wide.or_else(|| u32_at(behind.get(&6)?, 0).map(u64::from));
            // Without a rate the kernel tells one of zero.
            sample.rate_bytes = rate.filter(|rate| *rate > 0);
            sample.netem = netem(options, &behind);
        }
        "cake" => {
            let rate = nested().get(&2).and_then(|value| u64_at(value, 0));
            sample.rate_bytes = rate.filter(|rate| *rate > 0);
        }
        "pfifo" | "bfifo" | "pfifo_head_drop" => sample.limit = u32_at(options, 0).map(u64::from),
        "sfq" => sample.limit = u32_at(options, 8).map(u64::from),
        "fq" | "fq_pie" => sample.limit = number(1),
        "fq_codel" | "codel" | "pie" => sample.limit = number(2),
        _ => {}
    }
}

/// struct tc_netem_qopt (latency, limit, loss, gap, duplicate, jitter) and the attributes behind it.
fn netem(options: &[u8], behind: &Attributes<'_>) -> Option<Netem> {
    const TCA_NETEM_REORDER: u16 = 3;
    const TCA_NETEM_LOSS: u16 = 5;
    const TCA_NETEM_LATENCY64: u16 = 10;
    const TCA_NETEM_JITTER64: u16 = 11;
    let number = |place: usize| u32_at(options, place * 4);
    // The old fields count ticks and end at 275 s.
    let time = |wide: u16, ticks: Option<u32>| {
        let exact = behind.get(&wide).and_then(|value| u64_at(value, 0));
        exact.or_else(|| ticks.map(|ticks| u64::from(ticks) * PSCHED_TICK_NS))
    };
    let mut words = Vec::new();
    for (name, share) in [("loss", number(2)?), ("duplicate", number(4)?)] {
        if share > 0 {
            words.push(format!("{name} {}", percent(share)));
        }
    }
    let reorder = |gap| {
        let reorder = behind.get(&TCA_NETEM_REORDER)?;
        let (often, alike) = (u32_at(reorder, 0)?, u32_at(reorder, 4)?);
        Some(format!("reorder {} {} gap {gap}", percent(often), percent(alike)))
    };
    let gap = number(3).filter(|gap| *gap > 0);
    Some(Netem {
        delay_ns: time(TCA_NETEM_LATENCY64, number(0))?,
        jitter_ns: time(TCA_NETEM_JITTER64, number(5))?,
        reorder: gap.and_then(reorder).unwrap_or_default(),
        other: (!behind.contains_key(&TCA_NETEM_LOSS)).then(|| words.join(" ")),
    })
}

/// A share of `u32::MAX` as tc reads it back: no more digits than that needs.
fn percent(share: u32) -> String {
    let value = f64::from(share) / f64::from(u32::MAX) * 100.0;
    let exact = |digits: &usize| {
        let text = format!("{value:.digits$}").parse::<f64>().unwrap_or(value);
        (text / 100.0 * f64::from(u32::MAX)).round() as u32 == share
    };
    let digits = (0..9).find(exact).unwrap_or(9);
    format!("{value:.digits$}%")
}

/// Where `rate` stands in struct tc_ratespec, and how long that is.
const RATESPEC: (usize, usize) = (8, 12);

fn tbf(options: &Attributes<'_>, sample: &mut QdiscSample) {
    const TCA_TBF_PARMS: u16 = 1;
    const TCA_TBF_RATE64: u16 = 4;
    let Some(parms) = options.get(&TCA_TBF_PARMS) else { return };
    sample.rate_bytes = rate(options.get(&TCA_TBF_RATE64), parms, RATESPEC.0);
    sample.limit = u32_at(parms, 2 * RATESPEC.1).map(u64::from);
    sample.burst_bytes = bucket(sample.rate_bytes, u32_at(parms, 2 * RATESPEC.1 + 4));
}

fn htb(options: &Attributes<'_>, sample: &mut QdiscSample) {
    const TCA_HTB_PARMS: u16 = 1;
    const TCA_HTB_RATE64: u16 = 6;
    const TCA_HTB_CEIL64: u16 = 7;
    let Some(parms) = options.get(&TCA_HTB_PARMS) else { return };
    sample.assured_rate_bytes = rate(options.get(&TCA_HTB_RATE64), parms, RATESPEC.0);
    sample.rate_bytes = rate(options.get(&TCA_HTB_CEIL64), parms, RATESPEC.1 + RATESPEC.0);
    sample.burst_bytes = bucket(sample.rate_bytes, u32_at(parms, 2 * RATESPEC.1 + 4));
}

/// Rates of 4 GiB/s and more have an attribute of their own.
fn rate(wide: Option<&&[u8]>, parms: &[u8], offset: usize) -> Option<u64> {
    wide.and_then(|value| u64_at(value, 0)).or_else(|| u32_at(parms, offset).map(u64::from))
}

/// A bucket is reported as the time that it takes to fill.
fn bucket(rate_bytes: Option<u64>, ticks: Option<u32>) -> Option<u64> {
    let filled = u128::from(rate_bytes?) * u128::from(ticks?) * u128::from(PSCHED_TICK_NS);
    // Rounded: the kernel rounds down the time.
    u64::try_from((filled + 500_000_000) / 1_000_000_000).ok()
}

/// A filter: what it hangs on, where it steers, and its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// Interface index.
    pub index: u32,
    /// Qdisc or class that it hangs on.
    pub parent: String,
    /// Class that it steers into, if it names one.
    pub class: Option<String>,
    /// Much as `tc filter show` would put it.
    pub text: String,
}

/// A RTM_NEWTFILTER message behind its netlink header; `None` for what only belongs to a filter
/// (a u32 hash table).
pub fn filter(message: &[u8]) -> Option<Filter> {
    let header = Header::parse(message)?;
    let found = attributes(message.get(Header::BYTES..)?);
    let kind = string(found.get(&TCA_KIND)?);
    let options = attributes(found.get(&TCA_OPTIONS)?);
    // TCA_<KIND>_CLASSID; the same number in u32, fw, flower, matchall, basic and route.
    let class_attribute = match kind.as_str() {
        "bpf" | "flow" => 3,
        _ => 1,
    };
    let class = options.get(&class_attribute).and_then(|value| u32_at(value, 0)).map(handle);
    let matches = match kind.as_str() {
        "u32" => u32_matches(options.get(&5)?),
        "flower" => flower_matches(&options),
        "fw" => format!(" handle {:#x}", header.handle),
        _ => String::new(),
    };
    let protocol = match u16::from_be((header.info & 0xffff) as u16) {
        0x0003 => "all".to_string(),
        0x0800 => "ip".into(),
        0x0806 => "arp".into(),
        0x86dd => "ipv6".into(),
        other => format!("{other:#06x}"),
    };
    let preference = header.info >> 16;
    let to = class.as_ref().map(|class| format!(" classid {class}")).unwrap_or_default();
    let text = format!("protocol {protocol} pref {preference} {kind}{matches}{to}");
    Some(Filter { index: header.index, parent: handle(header.parent), class, text })
}

/// struct tc_u32_sel: 16 bytes with the number of keys at 2, then 16 bytes a key.
fn u32_matches(selector: &[u8]) -> String {
    let keys = selector.get(2).copied().map_or(0, usize::from);
    let mut text = String::new();
    for key in selector.get(16..).unwrap_or_default().chunks_exact(16).take(keys) {
        let big = |offset| u32_at(key, offset).map_or(0, u32::from_be);
        let at = u32_at(key, 8).unwrap_or(0) as i32;
        text += &format!(" match {:08x}/{:08x} at {at}", big(4), big(0));
    }
    text
}

fn flower_matches(options: &Attributes<'_>) -> String {
    let mut text = String::new();
    if let Some(protocol) = options.get(&9).and_then(|value| value.first()) {
        text += &format!(" ip_proto {protocol}");
    }
    for (name, kind) in [("src_ip", 10), ("dst_ip", 12)] {
        let Some(address) = options.get(&kind).and_then(|value| u32_at(value, 0)) else { continue };
        let mask = options.get(&(kind + 1)).and_then(|value| u32_at(value, 0)).unwrap_or(u32::MAX);
        let address = Ipv4Addr::from(u32::from_be(address));
        text += &format!(" {name} {address}/{}", u32::from_be(mask).leading_ones());
    }
    for (name, kind) in [("src_port", 18), ("dst_port", 19), ("src_port", 20), ("dst_port", 21)] {
        if let Some(port) = options.get(&kind).and_then(|value| u16_at(value, 0)) {
            text += &format!(" {name} {}", u16::from_be(port));
        }
    }
    text
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
