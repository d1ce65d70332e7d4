//! Attributes of netlink messages, and the numbers and addresses in them: what all parsers share.
//!
//! Only the attributes that are reported are looked at, and an unknown or short one is passed over. Rejected: netlink-packet-route,
//! which parses every attribute of a message, refuses the message for one that it cannot read, and knows neither tbf nor htb.
//!
//! Must not: know an object.

use netlink_packet_core::NlasIterator;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The attributes of a message behind its fixed header, by number. The last of a number wins.
pub(super) type Attributes<'a> = BTreeMap<u16, &'a [u8]>;

/// NLA_F_NESTED: an attribute that has attributes in it; of generic netlink its kind must say so.
pub(super) const NESTED: u16 = 0x8000;

/// Reads them; what is cut ends it.
pub(super) fn attributes(bytes: &[u8]) -> Attributes<'_> {
    attribute_list(bytes).into_iter().collect()
}

/// The same of a list, where one number comes again and again.
pub(super) fn attribute_list(bytes: &[u8]) -> Vec<(u16, &[u8])> {
    const NESTED_AND_ORDER_FLAGS: u16 = 0xc000;
    let (mut found, mut offset) = (Vec::new(), 0);
    // The iterator gives lengths and kinds; the slices are cut from the message itself, so that
    // they outlive it.
    for attribute in NlasIterator::new(bytes).map_while(Result::ok) {
        let length = usize::from(attribute.length());
        let Some(value) = bytes.get(offset + 4..offset + length) else { break };
        found.push((attribute.kind() & !NESTED_AND_ORDER_FLAGS, value));
        offset += length.next_multiple_of(4);
    }
    found
}

/// A number of two bytes.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

/// A number of four bytes.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

/// A number of eight bytes.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

/// Text up to its NUL.
pub(super) fn string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The bytes of an address.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

/// AF_INET or AF_INET6, by the length of an address.
pub(super) fn family(address: &[u8]) -> u8 {
    (if address.len() == 4 { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

/// An address of either family.
pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|it| Ipv4Addr::from(it).into());
    v4.ok().or_else(|| <[u8; 16]>::try_from(bytes).map(|it| Ipv6Addr::from(it).into()).ok())
}

/// A hardware address as ip(8) writes it: `02:00:0a:00:00:02`.
pub(super) fn hardware_address(bytes: &[u8]) -> String {
    // INFINIBAND_ALEN, 20, is the longest.
    let bytes = bytes.iter().take(20).map(|byte| format!("{byte:02x}"));
    bytes.collect::<Vec<_>>().join(":")
}

/// Adds an attribute to a request.
pub(super) fn put_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((value.len() + 4) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}
