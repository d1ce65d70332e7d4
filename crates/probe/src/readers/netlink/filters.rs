//! Filters of traffic control: where each steers, and its text, much as `tc filter show` puts it.
//!
//! Any bytes may come in; fuzzed. Layouts: include/uapi/linux/pkt_cls.h. Must not: ask (qdiscs.rs knows on what filters hang).

use super::attributes::*;
use super::handles::{Header, TCA_KIND, TCA_OPTIONS, handle};
use std::net::Ipv4Addr;

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
