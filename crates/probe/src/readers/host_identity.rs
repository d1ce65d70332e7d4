//! By what a host is known where an answer is read that has left it: a hash of its machine id, and its addresses.
//!
//! The machine id itself is a secret (machine-id(5)); the hash is the one of sd_id128_get_machine_app_specific(3) with holdup's own
//! number, so that `systemd-id128 machine-id --app-specific=5c1de7c29a3b4c0e8a57d1f0a6b3e942` says the same. Addresses are those of the
//! first process's network namespace, without loopback and link-local ones. Must not: ask the network.

use crate::system::{Roots, text};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// Holdup's own number among those who hash machine ids.
const APPLICATION: [u8; 16] = 0x5c1d_e7c2_9a3b_4c0e_8a57_d1f0_a6b3_e942_u128.to_be_bytes();
/// A host of many containers has hundreds; the first name it.
const ADDRESSES_MAX: usize = 16;

/// 32 hexadecimal digits; none if there is no machine id.
pub(super) fn machine_id_hash(roots: &Roots) -> String {
    let id = text::read_text(&roots.root.join("etc/machine-id")).unwrap_or_default();
    u128::from_str_radix(id.trim(), 16)
        .ok()
        .filter(|_| id.trim().len() == 32)
        .map_or_else(String::new, |id| hash(&id.to_be_bytes()))
}

fn hash(id: &[u8; 16]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(id) else { return String::new() };
    mac.update(&APPLICATION);
    let full = mac.finalize().into_bytes();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(full).for_each(|(to, from)| *to = from);
    // A UUID of version 4, as RFC 9562 has it.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// Those of the host, sorted; at most sixteen.
pub(super) fn addresses(roots: &Roots) -> Vec<String> {
    let read = |name: &str| {
        let of_first: PathBuf = roots.proc.join("1/net").join(name);
        let own = || text::read_text(&roots.proc.join("net").join(name));
        text::read_text(&of_first).or_else(|_| own()).unwrap_or_default()
    };
    let mut four = local_addresses(&read("fib_trie"));
    four.retain(|address| !address.is_loopback() && !address.is_link_local());
    let mut six: Vec<Ipv6Addr> = read("if_inet6").lines().filter_map(global_address).collect();
    four.sort_unstable();
    four.dedup();
    six.sort_unstable();
    let four = four.into_iter().map(|it| it.to_string());
    let six = six.into_iter().map(|it| it.to_string());
    four.chain(six).take(ADDRESSES_MAX).collect()
}

/// In /proc/net/fib_trie an address stands above a line `/32 host LOCAL`.
fn local_addresses(trie: &str) -> Vec<Ipv4Addr> {
    let mut last: Option<Ipv4Addr> = None;
    let mut found = Vec::new();
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last);
        }
    }
    found
}

/// A line of /proc/net/if_inet6: address, index, prefix, scope (00 is global), flags, interface.
fn global_address(line: &str) -> Option<Ipv6Addr> {
    let mut words = line.split_whitespace();
    let address = u128::from_str_radix(words.next()?, 16).ok()?;
    (words.nth(2)? == "00").then(|| Ipv6Addr::from(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_systemd() {
        let id = 0x4fed_d82f_9cc6_3b54_2dcd_cf3a_5b47_88a7_u128;
        // By an HMAC of another maker.
        assert_eq!(hash(&id.to_be_bytes()), "3d797dc7aa434a2a9345b5e3b630b79c");
        let own = machine_id_hash(&Roots::default());
        let asked = std::process::Command::new("systemd-id128")
            .args(["machine-id", "--app-specific=5c1de7c29a3b4c0e8a57d1f0a6b3e942"])
            .output();
        if let Some(asked) = asked.ok().filter(|it| it.status.success()) {
            assert_eq!(own, String::from_utf8_lossy(&asked.stdout).trim());
        }
    }

    #[test]
    fn addresses_are_those_that_others_reach_it_by() {
        let trie = "Main:\n  +-- 10.88.0.0/31 1 0 0\n     |-- 10.88.0.0\n        /16 link UNICAST\n     \
                    |-- 10.88.0.1\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        assert_eq!(local_addresses(trie), [Ipv4Addr::new(10, 88, 0, 1), Ipv4Addr::LOCALHOST]);
        let global = "fd000000000000000000000000000002 04 40 00 82     eth0";
        let local = "fe8000000000000000fc00fffe000001 04 40 20 80     eth0";
        assert_eq!(global_address(global).map(|it| it.to_string()).as_deref(), Some("fd00::2"));
        assert_eq!(global_address(local), None);
        assert!(!addresses(&Roots::default()).iter().any(|it| it == "127.0.0.1"));
    }
}
