//! Rules of nftables that drop, and chains whose policy does: NFT_MSG_GETCHAIN and NFT_MSG_GETRULE (include/uapi/linux/netfilter/
//! nf_tables.h). What iptables makes today (iptables-nft) is the same rules.
//!
//! A rule is a list of expressions that load a part of the packet into a register and compare it. Those that people write most are
//! followed (protocol, addresses, ports); of any other its name is given, so that nobody takes a rule for wider than it is. Any bytes may come in; fuzzed.
//! Must not: change anything, or say which rule dropped a packet. Rejected: the output of `nft` (a program that may not be there).

use super::attributes::*;
use super::exchange::dump;
use super::filter_jumps::{Jump, by_their_ways};
use holdup_reason::facts::FilterRule;
use netlink_sys::Socket;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SUBSYSTEM: u16 = 10 << 8;
const GET_CHAIN: u16 = SUBSYSTEM | 4;
const GET_RULE: u16 = SUBSYSTEM | 7;
/// More rules than this are a machine's; that many that drop are reported.
const RULES_MAX: usize = 500;
/// And so many that lead to another chain: a machine that has more has its ways made by a program.
const JUMPS_MAX: usize = 2_000;
/// And so many that ask a map.
const MAPS_MAX: usize = 20;

/// All of a namespace's that drop. The namespace is the caller's.
pub(crate) fn dropping(socket: &Socket, buffer: &mut Vec<u8>) -> io::Result<Vec<FilterRule>> {
    // struct nfgenmsg, all zero: every family.
    const ALL: [u8; 4] = [0; 4];
    let (mut chains, mut found, mut jumps) = (Vec::new(), Vec::new(), Vec::new());
    dump(socket, GET_CHAIN, &ALL, buffer, |message| chains.extend(chain(message)))?;
    let mut maps = 0;
    dump(socket, GET_RULE, &ALL, buffer, |message| match rule(message) {
        // A program that balances by them has thousands.
        Some(Verdict::Drops(rule)) if rule.is_map() => {
            maps += 1;
            found.extend(Some(rule).filter(|_| maps <= MAPS_MAX));
        }
        Some(Verdict::Drops(rule)) if found.len() < RULES_MAX => found.push(rule),
        Some(Verdict::Jumps(jump)) if jumps.len() < JUMPS_MAX => jumps.push(jump),
        _ => {}
    })?;
    let with_hook = |mut rule: FilterRule| {
        let is_in = |chain: &&Chain| {
            let of = &chain.as_rule;
            of.family == rule.family && of.table == rule.table && of.chain == rule.chain
        };
        let hook = chains.iter().find(is_in).map(|chain| chain.as_rule.hook.clone());
        rule.hook = hook.unwrap_or_default();
        rule
    };
    let found = found.into_iter().map(with_hook).collect();
    let hooked = |jump: Jump| Jump { as_rule: with_hook(jump.as_rule), to: jump.to };
    let jumps: Vec<Jump> = jumps.into_iter().map(hooked).collect();
    let mut found = by_their_ways(found, &jumps, RULES_MAX);
    found.extend(chains.into_iter().filter(|chain| chain.drops).map(|chain| chain.as_rule));
    Ok(found)
}

/// A chain, as the rule that its policy is.
#[derive(Debug, PartialEq)]
pub(crate) struct Chain {
    /// The policy.
    pub as_rule: FilterRule,
    /// It drops what no rule accepts.
    pub drops: bool,
}

/// A NFT_MSG_NEWCHAIN message behind its netlink header.
pub(crate) fn chain(message: &[u8]) -> Option<Chain> {
    const TABLE: u16 = 1;
    const NAME: u16 = 3;
    const HOOK: u16 = 4;
    const POLICY: u16 = 5;
    const COUNTERS: u16 = 8;
    const HOOK_NUMBER: u16 = 1;
    let family = *message.first()?;
    let found = attributes(message.get(4..)?);
    let hook = found.get(&HOOK).map(|hook| attributes(hook));
    let number = hook.and_then(|hook| be32(hook.get(&HOOK_NUMBER)?));
    let as_rule = FilterRule {
        family: family_name(family),
        table: string(found.get(&TABLE)?),
        chain: string(found.get(&NAME)?),
        hook: number.map(|number| hook_name(family, number)).unwrap_or_default(),
        packets: found.get(&COUNTERS).and_then(|counters| packets_of(counters)),
        ..FilterRule::default()
    };
    let policy = found.get(&POLICY).and_then(|policy| be32(policy));
    Some(Chain { as_rule, drops: policy == Some(0) })
}

/// What a rule does with what it matches.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It drops it, or by a map of verdicts may do so.
    Drops(FilterRule),
    /// It has it go on in another chain.
    Jumps(Jump),
}

/// A NFT_MSG_NEWRULE message behind its netlink header; none if the rule neither drops nor leads on.
pub(crate) fn rule(message: &[u8]) -> Option<Verdict> {
    const TABLE: u16 = 1;
    const CHAIN: u16 = 2;
    const HANDLE: u16 = 3;
    const EXPRESSIONS: u16 = 4;
    const ELEMENT: u16 = 1;
    let found = attributes(message.get(4..)?);
    let mut reading = Reading::default();
    for (kind, expression) in attribute_list(found.get(&EXPRESSIONS)?) {
        if kind == ELEMENT {
            reading.expression(expression);
        }
    }
    reading.say_family();
    let as_rule = FilterRule {
        family: family_name(message[0]),
        table: found.get(&TABLE).map(|name| string(name)).unwrap_or_default(),
        chain: found.get(&CHAIN).map(|name| string(name)).unwrap_or_default(),
        handle: found.get(&HANDLE).and_then(|handle| be64(handle)).unwrap_or(0),
        ..reading.rule
    };
    match (reading.drops, reading.jumps_to) {
        (true, _) => Some(Verdict::Drops(as_rule)),
        (false, to) => to.map(|to| Verdict::Jumps(Jump { as_rule, to })),
    }
}

/// Counters of a chain or of a rule: packets are the second.
fn packets_of(counters: &[u8]) -> Option<u64> {
    const PACKETS: u16 = 2;
    be64(attributes(counters).get(&PACKETS)?)
}

/// What a register holds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loaded {
    Protocol,
    /// The family of the network layer, which addresses say too.
    Family,
    /// An address: where it goes to, and bits of it that count.
    Address {
        to: bool,
        bits: u8,
    },
    Port {
        to: bool,
    },
    /// Both ports at once.
    Other,
}

/// A rule as far as its expressions have been read.
#[derive(Default)]
struct Reading {
    rule: FilterRule,
    registers: BTreeMap<u32, Loaded>,
    /// NFPROTO_IPV4 or NFPROTO_IPV6, if it is for one of them.
    family: Option<u8>,
    drops: bool,
    jumps_to: Option<String>,
}

impl Reading {
    fn expression(&mut self, bytes: &[u8]) {
        const NAME: u16 = 1;
        const DATA: u16 = 2;
        let found = attributes(bytes);
        let Some(name) = found.get(&NAME).map(|name| string(name)) else { return };
        let data = found.get(&DATA).map(|data| attributes(data)).unwrap_or_default();
        let number = |kind: u16| data.get(&kind).and_then(|value| be32(value));
        match name.as_str() {
            "payload" => {
                let loaded = loaded(number(2), number(3), number(4));
                self.load(number(1), loaded);
            }
            "meta" => {
                let loaded = match number(2) {
                    Some(15) => Loaded::Family,
                    Some(16) => Loaded::Protocol,
                    _ => Loaded::Other,
                };
                self.load(number(1), loaded);
            }
            "bitwise" => {
                let from = number(1).and_then(|register| self.registers.get(&register)).copied();
                let mask = data.get(&4).and_then(|mask| value_of(mask)).map(prefix);
                let loaded = match (from, mask) {
                    (Some(Loaded::Address { to, .. }), Some(Some(bits))) => {
                        Loaded::Address { to, bits }
                    }
                    _ => Loaded::Other,
                };
                self.load(number(2), loaded);
            }
            "cmp" => self.compare(number(1), number(2), data.get(&3).and_then(|it| value_of(it))),
            "counter" => self.rule.packets = data.get(&2).and_then(|packets| be64(packets)),
            "immediate" => {
                let verdict = data.get(&2).map(|it| verdict(it)).unwrap_or_default();
                self.drops |= verdict.0 == Some(DROP);
                let leads = matches!(verdict.0, Some(JUMP | GOTO));
                self.jumps_to = verdict.1.filter(|_| leads).or(self.jumps_to.take());
            }
            // A map of verdicts: what it comes to is in its elements.
            "lookup" if number(3) == Some(VERDICT_REGISTER) => {
                self.drops = true;
                self.rule.rest.push(FilterRule::MAP.into());
            }
            "reject" => (self.drops, self.rule.rejects) = (true, true),
            "target" => match data.get(&1).map(|name| string(name)).as_deref() {
                Some("DROP") => self.drops = true,
                Some("REJECT") => (self.drops, self.rule.rejects) = (true, true),
                _ => {}
            },
            "match" => {
                let name = data.get(&1).map(|name| string(name)).unwrap_or_default();
                self.matched(name, data.get(&3).copied().unwrap_or_default());
            }
            // They change nothing of what is matched.
            "log" | "comment" => {}
            _ => self.rule.rest.push(name),
        }
    }

    fn load(&mut self, register: Option<u32>, loaded: Loaded) {
        if let Some(register) = register {
            self.registers.insert(register, loaded);
        }
    }

    fn compare(&mut self, register: Option<u32>, operator: Option<u32>, value: Option<&[u8]>) {
        const EQUAL: u32 = 0;
        let loaded = register.and_then(|register| self.registers.get(&register)).copied();
        let is_equal = operator == Some(EQUAL);
        let (Some(loaded), Some(value), true) = (loaded, value, is_equal) else {
            self.rule.rest.push("cmp".into());
            return;
        };
        let rule = &mut self.rule;
        match loaded {
            Loaded::Family => self.family = value.first().copied(),
            Loaded::Protocol => {
                let number = value.first().copied().unwrap_or(0);
                rule.protocol = Some(crate::decode::values::protocol_name(u16::from(number)));
            }
            Loaded::Address { to, bits } => {
                let network = network(value, bits);
                *if to { &mut rule.destination } else { &mut rule.source } = network;
            }
            Loaded::Port { to } => {
                let port = value.get(..2).map(|it| u16::from_be_bytes([it[0], it[1]]));
                *if to { &mut rule.destination_port } else { &mut rule.source_port } = port;
            }
            Loaded::Other => rule.rest.push("cmp".into()),
        }
    }

    /// A rule for one family whose addresses do not say which is one for all addresses of that family.
    fn say_family(&mut self) {
        let any = match self.family {
            Some(2) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            Some(10) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            _ => return,
        };
        if self.rule.source.is_none() && self.rule.destination.is_none() {
            self.rule.source = Some((any, 0));
        }
    }

    /// A match of iptables: of `tcp` and `udp` two ranges of ports come first, then what else it looks at and what is inverted (struct xt_tcp, xt_udp;
    /// include/uapi/linux/netfilter/xt_tcpudp.h).
    fn matched(&mut self, name: String, info: &[u8]) {
        let byte = |at: usize| info.get(at).copied().unwrap_or(0);
        let (more, inverted) = match name.as_str() {
            "tcp" => (byte(8) | byte(9), byte(11)),
            "udp" => (0, byte(8)),
            _ => (0, 0),
        };
        if more != 0 || inverted != 0 {
            self.rule.rest.push("flags".into());
        }
        if inverted != 0 {
            self.rule.protocol = Some(name);
            return;
        }
        let range = |at| Some((u16_at(info, at)?, u16_at(info, at + 2)?));
        let (Some(source), Some(destination), "tcp" | "udp") = (range(0), range(4), &*name) else {
            self.rule.rest.push(name);
            return;
        };
        for (range, port) in
            [(source, &mut self.rule.source_port), (destination, &mut self.rule.destination_port)]
        {
            match range {
                (0, u16::MAX) => {}
                (first, last) if first == last => *port = Some(first),
                _ => self.rule.rest.push("ports".into()),
            }
        }
        self.rule.protocol = Some(name);
    }
}

/// What a payload expression loads, by where it is: of the network header (1) protocol and addresses, of the transport header (2)
/// the ports.
fn loaded(base: Option<u32>, offset: Option<u32>, bytes: Option<u32>) -> Loaded {
    match (base, offset, bytes) {
        (Some(1), Some(9), Some(1)) | (Some(1), Some(6), Some(1)) => Loaded::Protocol,
        (Some(1), Some(12), Some(bytes @ 1..=4)) | (Some(1), Some(8), Some(bytes @ 16)) => {
            Loaded::Address { to: false, bits: (bytes * 8) as u8 }
        }
        (Some(1), Some(16), Some(bytes @ 1..=4)) | (Some(1), Some(24), Some(bytes @ 16)) => {
            Loaded::Address { to: true, bits: (bytes * 8) as u8 }
        }
        (Some(2), Some(0), Some(2)) => Loaded::Port { to: false },
        (Some(2), Some(2), Some(2)) => Loaded::Port { to: true },
        _ => Loaded::Other,
    }
}

/// The first bits of an address, of which some bytes may be left out.
fn network(value: &[u8], bits: u8) -> Option<(IpAddr, u8)> {
    let mut whole = value.to_vec();
    whole.resize(if value.len() > 4 { 16 } else { 4 }, 0);
    let address = match whole.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(whole).ok()?).into(),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(whole).ok()?).into(),
    };
    Some((address, bits))
}

/// Its length, if a mask is that of a network.
fn prefix(mask: &[u8]) -> Option<u8> {
    let ones = mask.iter().take_while(|byte| **byte == u8::MAX).count();
    let (partial, rest) = mask.get(ones..)?.split_first().unwrap_or((&0, &[]));
    let is_network =
        partial.leading_ones() == partial.count_ones() && rest.iter().all(|it| *it == 0);
    is_network.then(|| (ones * 8) as u8 + partial.leading_ones() as u8)
}

/// NFTA_DATA_VALUE.
fn value_of(data: &[u8]) -> Option<&[u8]> {
    attributes(data).get(&1).copied()
}

/// NF_DROP, and NFT_JUMP and NFT_GOTO (enum nft_verdicts), which are negative.
const DROP: u32 = 0;
const JUMP: u32 = -3_i32 as u32;
const GOTO: u32 = -4_i32 as u32;
/// NFT_REG_VERDICT.
const VERDICT_REGISTER: u32 = 0;

/// NFTA_DATA_VERDICT: its code, and the chain of one that leads on.
fn verdict(data: &[u8]) -> (Option<u32>, Option<String>) {
    let verdict = attributes(data).get(&2).map(|verdict| attributes(verdict)).unwrap_or_default();
    let code = verdict.get(&1).and_then(|code| be32(code));
    (code, verdict.get(&2).map(|chain| string(chain)))
}

fn family_name(family: u8) -> String {
    let name = match family {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        other => return other.to_string(),
    };
    name.into()
}

fn hook_name(family: u8, number: u32) -> String {
    const NETDEV: u8 = 5;
    let name = match (family, number) {
        (NETDEV, 0) => "ingress",
        (NETDEV, 1) => "egress",
        (_, 0) => "prerouting",
        (_, 1) => "input",
        (_, 2) => "forward",
        (_, 3) => "output",
        (_, 4) => "postrouting",
        (_, 5) => "ingress",
        (_, other) => return other.to_string(),
    };
    name.into()
}

fn be32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn be64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
        put_attribute(message, kind, value);
    }

    fn of(pairs: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut message = Vec::new();
        pairs.iter().for_each(|(kind, value)| put(&mut message, *kind, value));
        message
    }

    fn number(value: u32) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    fn expression(name: &str, data: &[(u16, Vec<u8>)]) -> (u16, Vec<u8>) {
        let name = [name.as_bytes(), &[0]].concat();
        (1, of(&[(1, name), (2, of(data))]))
    }

    fn equals(value: &[u8]) -> (u16, Vec<u8>) {
        let data = of(&[(1, value.to_vec())]);
        expression("cmp", &[(1, number(1)), (2, number(0)), (3, data)])
    }

    fn payload(base: u32, offset: u32, bytes: u32) -> (u16, Vec<u8>) {
        let part = [(1, number(1)), (2, number(base)), (3, number(offset)), (4, number(bytes))];
        expression("payload", &part)
    }

    fn verdict(code: u32) -> (u16, Vec<u8>) {
        let verdict = of(&[(2, of(&[(1, number(code))]))]);
        expression("immediate", &[(1, number(0)), (2, verdict)])
    }

    fn rule_of(expressions: &[(u16, Vec<u8>)]) -> Option<FilterRule> {
        let attributes = [
            (1, b"filter\0".to_vec()),
            (2, b"OUTPUT\0".to_vec()),
            (3, 4_u64.to_be_bytes().to_vec()),
            (4, of(expressions)),
        ];
        match rule(&[&[2, 0, 0, 0][..], &of(&attributes)].concat()) {
            Some(Verdict::Drops(rule)) => Some(rule),
            _ => None,
        }
    }

    fn leads_to(code: i32) -> Option<String> {
        let verdict =
            of(&[(2, of(&[(1, code.to_be_bytes().to_vec()), (2, b"LOGDROP\0".to_vec())]))]);
        let leads = expression("immediate", &[(1, number(0)), (2, verdict)]);
        let attributes = [(4, of(&[payload(1, 9, 1), equals(&[6]), leads]))];
        match rule(&[&[2, 0, 0, 0][..], &of(&attributes)].concat()) {
            Some(Verdict::Jumps(jump)) => {
                assert_eq!(jump.as_rule.protocol.as_deref(), Some("tcp"));
                Some(jump.to)
            }
            _ => None,
        }
    }

    #[test]
    fn a_rule_that_leads_on_says_to_which_chain() {
        assert_eq!([-3, -4].map(leads_to), [Some("LOGDROP".into()), Some("LOGDROP".into())]);
        assert_eq!(leads_to(-1), None, "NFT_CONTINUE");
    }

    #[test]
    fn a_map_of_verdicts_may_drop_and_a_set_alone_does_not() {
        let lookup = |register| expression("lookup", &[(2, number(1)), (3, number(register))]);
        let found = rule_of(&[expression("ct", &[(1, number(1))]), lookup(0)]).unwrap();
        assert_eq!(found.rest, ["ct", FilterRule::MAP]);
        assert_eq!(rule_of(&[lookup(1)]), None);
    }

    #[test]
    fn a_rule_for_one_family_is_not_for_the_other() {
        let family = |number: u8| {
            let meta =
                expression("meta", &[(1, super::tests::number(1)), (2, super::tests::number(15))]);
            rule_of(&[meta, equals(&[number]), verdict(0)]).unwrap().source
        };
        assert_eq!(family(10), Some(("::".parse().unwrap(), 0)));
        assert_eq!(family(2), Some(("0.0.0.0".parse().unwrap(), 0)));
    }

    #[test]
    fn what_iptables_looks_at_besides_ports_is_named() {
        let of_match = |name: &str, rest: &[u8]| {
            let info = [&[0, 0, 0xff, 0xff, 22, 0, 22, 0][..], rest].concat();
            let name = [name.as_bytes(), &[0]].concat();
            let found =
                rule_of(&[expression("match", &[(1, name), (3, info)]), verdict(0)]).unwrap();
            (found.destination_port, found.rest.len())
        };
        assert_eq!(of_match("tcp", &[0, 0, 0, 0]), (Some(22), 0));
        assert_eq!(of_match("tcp", &[0, 0x3f, 0, 0]), (Some(22), 1), "--tcp-flags ALL NONE");
        assert_eq!(of_match("tcp", &[0, 0, 0, 2]), (None, 1), "! --dport 22");
        assert_eq!(of_match("udp", &[2, 0, 0, 0]), (None, 1));
    }

    #[test]
    fn a_rule_that_drops_says_what_it_matches() {
        let mask = of(&[(1, vec![255, 255, 0, 0])]);
        let bitwise = expression("bitwise", &[(1, number(1)), (2, number(1)), (4, mask)]);
        let counter = expression("counter", &[(2, 7_u64.to_be_bytes().to_vec())]);
        let found = rule_of(&[
            payload(1, 9, 1),
            equals(&[6]),
            payload(1, 16, 4),
            bitwise,
            equals(&[10, 98, 0, 0]),
            payload(2, 2, 2),
            equals(&8080_u16.to_be_bytes()),
            counter,
            verdict(0),
        ])
        .unwrap();
        assert_eq!((&*found.family, &*found.table, &*found.chain), ("ip", "filter", "OUTPUT"));
        assert_eq!((found.handle, found.packets), (4, Some(7)));
        assert_eq!(found.protocol.as_deref(), Some("tcp"));
        assert_eq!(found.destination, Some(("10.98.0.0".parse().unwrap(), 16)));
        assert_eq!((found.source_port, found.destination_port), (None, Some(8080)));
        assert_eq!(found.rest, Vec::<String>::new());
    }

    #[test]
    fn a_rule_that_accepts_is_left_out() {
        assert_eq!(rule_of(&[payload(2, 2, 2), equals(&[0, 80]), verdict(1)]), None);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let found = rule_of(&[expression("ct", &[(1, number(1))]), verdict(0)]).unwrap();
        assert_eq!(found.rest, ["ct"]);
    }

    #[test]
    fn a_chain_may_drop_by_its_policy() {
        let hook = of(&[(1, number(1)), (2, number(0))]);
        let pairs = |policy| {
            [
                (1, b"filter\0".to_vec()),
                (3, b"INPUT\0".to_vec()),
                (4, hook.clone()),
                (5, number(policy)),
            ]
        };
        let read = |policy| chain(&[&[2, 0, 0, 0][..], &of(&pairs(policy))].concat()).unwrap();
        assert!(read(0).drops && !read(1).drops);
        assert_eq!(read(0).as_rule.hook, "input");
    }

    #[test]
    fn a_mask_is_that_of_a_network_or_none() {
        assert_eq!(prefix(&[255, 240, 0, 0]), Some(12));
        assert_eq!(prefix(&[255, 255, 255, 255]), Some(32));
        assert_eq!(prefix(&[0, 255, 0, 0]), None);
    }
}
