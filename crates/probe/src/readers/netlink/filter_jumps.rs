//! How packets come to a chain of nftables that others jump to: by which rules of which hooked chain, and under which conditions.
//!
//! A rule of such a chain drops only what the jumps before it let come: `-s 203.0.113.0/24 -j LOGDROP` with a plain `-j DROP` there drops that network
//! and nothing else. So each rule is given the hook and the conditions of every way that leads to it. One without a condition of its own is what its
//! jump is, and stands where that does: taking it away alone opens every other way too. Pure. Must not: say which way a packet went.
//!
//! Rejected: leaving out rules to which no way leads (a verdict map may, whose elements are not read; `rest` says so). Edit together: nftables.rs.

use holdup_reason::facts::FilterRule;
use std::net::IpAddr;

/// Chains that jump to each other are refused by the kernel from this depth on (NFT_JUMP_STACK_SIZE, include/net/netfilter/nf_tables.h).
const DEPTH_MAX: usize = 16;
/// Steps of all ways together.
const STEPS_MAX: usize = 20_000;
/// What is said of a rule to which no way was found.
const UNKNOWN_WAY: &str = "jump";

/// A rule that has its chain's packets go on in another one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Jump {
    /// Its conditions, and where it stands.
    pub as_rule: FilterRule,
    /// The chain.
    pub to: String,
}

/// Each rule once for every way that leads to it, at most so many; the hooks of all chains are in them. Left out is one to which nobody has come by any
/// way, as far as all of them count.
pub(super) fn by_their_ways(
    rules: Vec<FilterRule>,
    jumps: &[Jump],
    most: usize,
) -> Vec<FilterRule> {
    let mut walk = Walk { jumps, most, steps: STEPS_MAX, found: Vec::new() };
    for rule in rules {
        let before = walk.found.len();
        walk.ways(&rule, &rule.chain, 0);
        let is_led_to = || jumps.iter().any(|jump| jump.leads_to(&rule, &rule.chain));
        if walk.found.len() == before && !is_led_to() {
            let rest = rule.rest.iter().cloned().chain([UNKNOWN_WAY.to_string()]).collect();
            walk.found.push(FilterRule { rest, ..rule });
        }
    }
    walk.found
}

impl Jump {
    fn leads_to(&self, rule: &FilterRule, chain: &str) -> bool {
        let from = &self.as_rule;
        self.to == chain && (&from.family, &from.table) == (&rule.family, &rule.table)
    }
}

/// The ways that lead to rules.
struct Walk<'j> {
    jumps: &'j [Jump],
    most: usize,
    /// Steps that are left: chains may lead to one another as they like.
    steps: usize,
    found: Vec<FilterRule>,
}

impl Walk<'_> {
    fn ways(&mut self, rule: &FilterRule, chain: &str, depth: usize) {
        if self.steps == 0 || self.found.len() >= self.most {
            return;
        }
        self.steps -= 1;
        if !rule.hook.is_empty() {
            self.found.push(rule.clone());
            return;
        }
        let jumps = self.jumps;
        for jump in jumps.iter().filter(|jump| jump.leads_to(rule, chain)) {
            // Where nobody has come by, it was not this way.
            if depth < DEPTH_MAX && jump.as_rule.packets != Some(0) {
                self.ways(&behind(rule, &jump.as_rule), &jump.as_rule.chain, depth + 1);
            }
        }
    }
}

/// A rule as far as packets come to it by a jump, of which it has dropped no more than either counts.
fn behind(rule: &FilterRule, jump: &FilterRule) -> FilterRule {
    let mut all = rule.clone();
    if is_plain(rule) {
        (all.chain, all.handle) = (jump.chain.clone(), jump.handle);
        all.packets = rule.packets.into_iter().chain(jump.packets).min();
    }
    all.hook.clone_from(&jump.hook);
    all.protocol = rule.protocol.clone().or(jump.protocol.clone());
    all.source = narrower(rule.source, jump.source);
    all.destination = narrower(rule.destination, jump.destination);
    all.source_port = rule.source_port.or(jump.source_port);
    all.destination_port = rule.destination_port.or(jump.destination_port);
    all.rest.extend(jump.rest.iter().cloned());
    all
}

/// Of two networks that both must fit the smaller one.
fn narrower(one: Option<(IpAddr, u8)>, other: Option<(IpAddr, u8)>) -> Option<(IpAddr, u8)> {
    match (one, other) {
        (Some(own), Some(its)) if its.1 > own.1 => Some(its),
        (own, its) => own.or(its),
    }
}

/// It has no condition.
fn is_plain(rule: &FilterRule) -> bool {
    let addresses = [rule.source, rule.destination];
    let ports = [rule.source_port, rule.destination_port];
    rule.protocol.is_none() && rule.rest.is_empty() && addresses == [None; 2] && ports == [None; 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(chain: &str, hook: &str, handle: u64) -> FilterRule {
        let (chain, hook) = (chain.into(), hook.into());
        FilterRule {
            family: "ip".into(),
            table: "filter".into(),
            chain,
            hook,
            handle,
            ..FilterRule::default()
        }
    }

    fn jump(as_rule: FilterRule, to: &str) -> Jump {
        Jump { as_rule, to: to.into() }
    }

    #[test]
    fn a_plain_drop_is_the_jump_that_leads_to_it() {
        let source = Some(("203.0.113.0".parse().expect("an address"), 24));
        let listed = FilterRule { source, packets: Some(7), ..rule("INPUT", "input", 5) };
        let found =
            by_their_ways(vec![rule("LOGDROP", "", 9)], &[jump(listed.clone(), "LOGDROP")], 10);
        assert_eq!(found, std::slice::from_ref(&listed));
        let counts = FilterRule { packets: Some(3), ..rule("LOGDROP", "", 9) };
        let found = by_their_ways(vec![counts], &[jump(listed, "LOGDROP")], 10);
        assert_eq!((found[0].handle, found[0].packets, found[0].source), (5, Some(3), source));
    }

    #[test]
    fn a_rule_with_a_condition_stands_where_it_is_and_has_those_of_its_ways() {
        let port = FilterRule { destination_port: Some(80), ..rule("web", "", 9) };
        let tcp = FilterRule { protocol: Some("tcp".into()), ..rule("FORWARD", "forward", 5) };
        let jumps = [
            jump(tcp, "between"),
            jump(FilterRule { rest: vec!["ct".into()], ..rule("between", "", 6) }, "web"),
            jump(rule("OUTPUT", "output", 7), "web"),
            jump(FilterRule { packets: Some(0), ..rule("INPUT", "input", 8) }, "web"),
        ];
        let found = by_their_ways(vec![port], &jumps, 10);
        let of = |it: &FilterRule| (it.chain.clone(), it.handle, it.hook.clone(), it.rest.len());
        let all: Vec<_> = found.iter().map(of).collect();
        let web = |hook: &str, rest| ("web".to_string(), 9, hook.to_string(), rest);
        assert_eq!(all, [web("forward", 1), web("output", 0)]);
        assert_eq!(
            (found[0].protocol.as_deref(), found[1].protocol.as_deref()),
            (Some("tcp"), None)
        );
    }

    #[test]
    fn where_no_way_is_known_that_is_said() {
        let found = by_their_ways(vec![rule("mapped", "", 9), rule("INPUT", "input", 2)], &[], 10);
        assert_eq!(found[0].rest, [UNKNOWN_WAY]);
        assert_eq!(found[1], rule("INPUT", "input", 2));
    }

    #[test]
    fn chains_that_would_go_round_end() {
        let round = [jump(rule("a", "", 1), "b"), jump(rule("b", "", 2), "a")];
        assert_eq!(by_their_ways(vec![rule("a", "", 3)], &round, 10), []);
    }

    #[test]
    fn a_rule_to_which_nobody_has_come_is_left_out() {
        let never = FilterRule { packets: Some(0), ..rule("INPUT", "input", 5) };
        assert_eq!(by_their_ways(vec![rule("a", "", 3)], &[jump(never, "a")], 10), []);
    }

    #[test]
    fn of_two_networks_on_a_way_the_smaller_one_counts() {
        let net = |address: &str, bits| Some((address.parse().expect("an address"), bits));
        let wide = FilterRule { source: net("0.0.0.0", 0), ..rule("a", "", 3) };
        let narrow = FilterRule { source: net("203.0.113.0", 24), ..rule("INPUT", "input", 5) };
        let found = by_their_ways(vec![wide], &[jump(narrow.clone(), "a")], 10);
        assert_eq!((found[0].source, found[0].handle), (narrow.source, 3));
    }
}
