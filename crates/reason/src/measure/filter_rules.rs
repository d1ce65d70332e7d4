//! Which rules of the packet filter may have dropped a flow.
//!
//! The kernel says that the filter dropped a packet, and not which rule did. A rule comes into question that drops, that packets of this
//! direction come to, that has counted some if it counts, and of which nothing that was read speaks against the flow. Of several
//! the narrowest is taken; where two are as narrow, none is. Must not: take a rule for wider than it says (what it looks at besides is in `rest`).

use crate::facts::FilterRule;
use crate::measure::packet_drops::Dropped;
use crate::model::Model;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// The rules that may have been it.
#[derive(Debug, Default)]
pub struct Suspects<'m> {
    /// The only one that is as narrow as it is.
    pub rule: Option<&'m FilterRule>,
    /// All of them.
    pub all: Vec<&'m FilterRule>,
    /// Rules beside them that ask a map of verdicts: what that comes to was not read.
    pub maps: usize,
}

/// What may have dropped it.
pub fn suspects<'m>(model: &'m Model, dropped: &Dropped<'_>, is_own: bool) -> Suspects<'m> {
    let agrees = |rule: &&FilterRule| {
        rule.netns == dropped.kind.netns
            && comes_to(rule, is_own)
            && rule.packets != Some(0)
            && matches(rule, dropped)
    };
    let mut all: Vec<&FilterRule> =
        model.net.drop_causes.filter_rules.iter().filter(agrees).collect();
    all.sort_by_key(|rule| std::cmp::Reverse(narrowness(rule)));
    // One to which several ways lead is one.
    let place = |rule: &FilterRule| {
        (rule.family.clone(), rule.table.clone(), rule.chain.clone(), rule.handle)
    };
    let mut seen = BTreeSet::new();
    all.retain(|rule| seen.insert(place(rule)));
    let (maps, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|rule| rule.is_map());
    let rule = match all[..] {
        // A policy drops what nothing before it has: a map may have.
        [only] if only.handle == 0 && !maps.is_empty() => None,
        [only] => Some(only),
        // What it looks at besides may not fit, and then it is the other one.
        [first, second, ..] if narrowness(first) > narrowness(second) && first.rest.is_empty() => {
            Some(first)
        }
        _ => None,
    };
    Suspects { rule, all, maps: maps.len() }
}

/// Packets that were made there come to `output`, others to the rest; a chain that others jump to is come to from anywhere.
fn comes_to(rule: &FilterRule, is_own: bool) -> bool {
    match rule.hook.as_str() {
        "" | "postrouting" => true,
        "output" | "egress" => is_own,
        _ => !is_own,
    }
}

fn matches(rule: &FilterRule, dropped: &Dropped<'_>) -> bool {
    let flow = dropped.flow;
    let family = match (rule.family.as_str(), flow.to.ip().to_canonical()) {
        ("ip", to) => to.is_ipv4(),
        ("ip6", to) => to.is_ipv6(),
        ("arp", _) => false,
        _ => true,
    };
    let address = |wanted: Option<(IpAddr, u8)>, is: SocketAddr| {
        wanted.is_none_or(|(network, bits)| is_within(is.ip().to_canonical(), network, bits))
    };
    let port = |wanted: Option<u16>, is: SocketAddr| wanted.is_none_or(|port| port == is.port());
    family
        && rule.protocol.as_ref().is_none_or(|protocol| *protocol == flow.protocol)
        && address(rule.source, flow.from)
        && address(rule.destination, flow.to)
        && port(rule.source_port, flow.from)
        && port(rule.destination_port, flow.to)
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    };
    let (address, network) = (octets(address), octets(network));
    address.len() == network.len()
        && (0..usize::from(bits).min(address.len() * 8)).all(|bit| {
            let mask = 0x80 >> (bit % 8);
            (address[bit / 8] ^ network[bit / 8]) & mask == 0
        })
}

/// How much of it is known to fit: a rule before a policy, and of rules that with more conditions that were read.
fn narrowness(rule: &FilterRule) -> (bool, usize) {
    let read = [
        rule.protocol.is_some(),
        rule.source.is_some(),
        rule.destination.is_some(),
        rule.source_port.is_some(),
        rule.destination_port.is_some(),
    ];
    (rule.handle != 0, read.into_iter().filter(|is| *is).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        let is = |address: &str, network: &str, bits| {
            is_within(address.parse().expect("an address"), network.parse().expect("one"), bits)
        };
        assert!(is("10.98.1.2", "10.98.0.0", 16) && is("10.98.1.2", "0.0.0.0", 0));
        assert!(!is("10.99.1.2", "10.98.0.0", 16) && !is("10.98.1.2", "10.98.1.3", 32));
        assert!(is("2001:db8::1", "2001:db8::", 32) && !is("2001:db8::1", "10.0.0.0", 8));
    }
}
