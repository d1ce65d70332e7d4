//! Handles of qdiscs and classes: numbers in messages, text in facts, as tc(8) writes them; and the header that has them.
//!
//! Must not: know what hangs on one. Layout: struct tcmsg of include/uapi/linux/rtnetlink.h.

use super::attributes::u32_at;

/// The attribute that names the kind of a qdisc, class or filter.
pub(super) const TCA_KIND: u16 = 1;
/// The attribute that has its options.
pub(super) const TCA_OPTIONS: u16 = 2;

/// The fixed header of all traffic control messages (struct tcmsg).
pub(super) struct Header {
    /// Interface index.
    pub index: u32,
    /// Its own handle.
    pub handle: u32,
    /// What it hangs on.
    pub parent: u32,
    /// Of a filter: preference and protocol.
    pub info: u32,
}

impl Header {
    /// Its length.
    pub(super) const BYTES: usize = 20;

    /// Reads it.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        Some(Self {
            index: u32_at(message, 4)?,
            handle: u32_at(message, 8)?,
            parent: u32_at(message, 12)?,
            info: u32_at(message, 16)?,
        })
    }
}

/// A handle as tc writes it: `root`, `ingress`, `8001:`, `1:20`.
pub(super) fn handle(value: u32) -> String {
    match (value, value >> 16, value & 0xffff) {
        (u32::MAX, _, _) => "root".into(),
        (0xffff_fff1, _, _) => "ingress".into(),
        (_, major, 0) => format!("{major:x}:"),
        (_, major, minor) => format!("{major:x}:{minor:x}"),
    }
}

/// `8001:` as the number it stands for.
pub(super) fn parse_handle(handle: &str) -> Option<u32> {
    let (major, minor) = handle.split_once(':')?;
    let minor = if minor.is_empty() { 0 } else { u32::from_str_radix(minor, 16).ok()? };
    Some(u32::from_str_radix(major, 16).ok()? << 16 | minor)
}

/// struct tcmsg for a dump: one interface (0: all), one parent (0: the root).
pub(super) fn request(index: u32, parent: u32) -> [u8; 20] {
    let mut message = [0; 20];
    message[4..8].copy_from_slice(&index.to_ne_bytes());
    message[12..16].copy_from_slice(&parent.to_ne_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_read_back() {
        assert_eq!(parse_handle("8001:"), Some(0x8001_0000));
        assert_eq!(parse_handle("1:2a"), Some(0x1_002a));
        assert_eq!(parse_handle("root"), None);
    }
}
