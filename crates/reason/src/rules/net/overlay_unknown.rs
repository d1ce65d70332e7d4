//! net.overlay_unknown: a tunnel of VXLAN does not know to which host an address is, so what is sent into it goes nowhere.
//!
//! Two witnesses: somebody waits for an address behind the tunnel, and the kernel dropped there what was to go to it, for want of a host to send it
//! to. Stands before net.packet_dropped, which sees only packets of the waiter's own, and net.neighbour_failed, which sees only the silence.
//! Must not: name which host it should be (the forwarding table is filled by a program, or by hand). Rejected: the table itself (an entry for
//! all, or one of an address, would have to be told from those that were only learnt; the drop is the kernel's own word).
//!
//! Edit together: measure/tunnels.rs, drop_reasons.rs.

use crate::facts::{Link, NextHop, PacketDrops};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::packet_drops::reason;
use crate::measure::tunnels::vxlan;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{LOST_ONE, NOTICED, is_long, is_noticed, of_namespace};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What the kernel says where a tunnel has no host to send to: since 6.12, and since 6.10; before it, the function alone.
const NO_HOST: [&str; 2] = ["NO_TX_TARGET", "VXLAN_NO_REMOTE"];
const BY_FUNCTION: &str = "vxlan_xmit";

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.overlay_unknown",
    title: "A tunnel does not know to which host it is to send",
    theory: "A VXLAN tunnel without a fixed other end looks each frame's destination up in its forwarding table: an entry for that hardware address, or \
             those for all others. The table is filled by a program (flanneld, a controller), by multicast, or by hand. Where it has no entry the frame is \
             dropped: the tunnel looks up, and an address behind it looks like a host that is off.",
    needs: &[
        "somebody waits for an address behind a VXLAN tunnel",
        "the kernel dropped packets at the tunnel meanwhile because it has no host to send them to",
    ],
    refuted_by: &[
        Refutation::new(
            "nothing was dropped there: the other end is silent",
            "a_tunnel_that_drops_nothing_has_a_silent_end",
        ),
        Refutation::new(
            "what was dropped was dropped before the wait",
            "what_was_dropped_before_the_wait_is_another_matter",
        ),
    ],
    remedies: &[
        "add the host to the tunnel's forwarding table (bridge fdb append ... dst HOST)",
        "see whether the program that fills it runs",
    ],
    stories: &["S2.7"],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

/// A tunnel with the ends that wait for what is behind it.
struct Lost<'m> {
    link: &'m Link,
    hop: &'m NextHop,
    behind: SocketAddr,
    drops: Vec<&'m PacketDrops>,
    ends: Vec<usize>,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<(u32, u32), Lost<'m>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        let Some((behind, hop)) = behind_tunnel(measures, end) else { continue };
        let Some((link, _)) = vxlan(measures.model, hop) else { continue };
        let drops = drops(measures, (link, hop), behind, end);
        if drops.is_empty() {
            continue;
        }
        if let Some(known) = all.get_mut(&(hop.netns, hop.index)) {
            known.ends.push(at);
        } else {
            let ends = vec![at];
            all.insert((hop.netns, hop.index), Lost { link, hop, behind, drops, ends });
        }
    }
    all.into_values().filter_map(|lost| matched(measures, ends, lost)).collect()
}

/// What an end waits for, if its next hop is in a tunnel.
fn behind_tunnel<'m>(measures: &'m Measures<'m>, end: &End) -> Option<(SocketAddr, &'m NextHop)> {
    let Object::Inet(ino) = end.object else { return None };
    let socket = measures.model.called.socket(ino)?;
    let is_open = matches!(end.kind, EndKind::Remote | EndKind::Link) && !end.victims.is_empty();
    if !is_open || !is_long(measures, end) {
        return None;
    }
    let to = (socket.netns, socket.remote.ip().to_canonical());
    Some((socket.remote, measures.model.net.next_hops.get(&to)?))
}

/// What was dropped at the tunnel for want of a host while somebody waited: of that connection, or questions for a neighbour.
fn drops<'m>(
    measures: &'m Measures<'m>,
    (link, hop): (&Link, &NextHop),
    behind: SocketAddr,
    end: &End,
) -> Vec<&'m PacketDrops> {
    let waits = &end.links[end.named];
    let before_ns = waits.since_ns.saturating_sub((LOST_ONE.value * 1e9) as u64);
    let all = measures.model.net.drops.iter().filter(|drops| {
        let is_for = NO_HOST.contains(&reason(drops)) || drops.function == BY_FUNCTION;
        is_for && (drops.netns, drops.index) == (link.netns, link.index)
    });
    // Of one that answered nobody had to ask.
    let neighbour = hop.neighbour();
    let question = hop.is_silent().then_some(if neighbour.is_ipv4() { "arp" } else { "icmpv6" });
    let is_its = |drops: &&PacketDrops| {
        drops.flows.iter().any(|flow| {
            let is_question = question == Some(&*flow.protocol);
            let is_own = flow.to.ip().to_canonical() == behind.ip().to_canonical();
            (is_question || is_own) && flow.last_ns >= before_ns && flow.first_ns <= waits.end_ns
        })
    };
    all.filter(is_its).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], lost: Lost<'m>) -> Option<Match<'m>> {
    let end = End::merged(lost.ends.iter().map(|at| &ends[*at]))?;
    if !is_noticed(measures, &end) {
        return None;
    }
    let name = &lost.link.name;
    let by = Culprit::setting(format!("forwarding table of {name}"), format!("{name} fdb"));
    let wording = wording(measures, &end, &lost);
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(lost.ends.iter().fold(matched, |matched, at| matched.claiming(*at, None)))
}

fn wording(measures: &Measures<'_>, end: &End, lost: &Lost<'_>) -> Wording {
    let name = &lost.link.name;
    let there = format!("{name}{}", of_namespace(measures.model, lost.link.netns));
    let behind = lost.behind;
    let packets: u64 = lost.drops.iter().map(|drops| drops.packets).sum();
    let is_known = !lost.hop.is_silent();
    let looked_up = match is_known {
        true => format!(
            "The hardware address of {} is known, but not on which host it is.",
            lost.hop.neighbour()
        ),
        false => format!(
            "What asks for {} has to go to all hosts of the tunnel, and it knows none.",
            lost.hop.neighbour()
        ),
    };
    let bridge = command_in(measures.model, lost.link.netns, "bridge");
    let device = words::shell(name);
    let entry = match is_known {
        true => "HARDWARE-ADDRESS",
        false => "00:00:00:00:00:00",
    };
    Wording {
        title: format!(
            "{} for {behind} behind the tunnel {there}, which does not know to which host it is to send",
            who_waits(measures, end)
        ),
        text: format!(
            "{} pass so. {} {} dropped at {there}: its forwarding table has no host for {}. {looked_up}",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::count(packets as usize, "packet", "packets"),
            if packets == 1 { "was" } else { "were" },
            if packets == 1 { "it" } else { "them" },
        ),
        evidence: vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("packets dropped at {name} without a host to send to"),
                packets as f64,
                "1",
                "kfree_skb",
            ),
        ],
        remedy: vec![Remedy {
            text: format!(
                "see whether the program that fills its table runs, or add the host ({bridge} fdb append {entry} dev {device} dst HOST); what the table has"
            ),
            command: format!("{bridge} fdb show dev {device}"),
            action: Some(Action::look(Question::State).through(bridge.through.as_ref())),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    const CODE: &str = "net.overlay_unknown";

    /// A client waits for an address behind vx0, where questions for it were dropped in the meantime, in tenths of a second.
    fn asks(state: u16, dropped: Option<(&str, u64)>) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.73.0.2:40000", "10.73.0.3:80", 2);
        let vxlan = Vxlan { id: 23, port: 4789, ..Vxlan::default() };
        let link = Link {
            netns: 1,
            index: 5,
            name: "vx0".into(),
            kind: "vxlan".into(),
            vxlan: Some(vxlan),
            ..Link::default()
        };
        let mut facts = vec![
            wait(10, "curl", "connect", object, 20, 48),
            next_hop("10.73.0.3", ("vx0", "vxlan", 5), state),
            fact(Body::Link(link)),
        ];
        facts.extend(dropped.map(|(protocol, at)| {
            let unspecified = "0.0.0.0:0".parse().expect("an address");
            let flow = DroppedFlow {
                protocol: protocol.into(),
                from: unspecified,
                to: unspecified,
                packets: 3,
                first_ns: at * 100_000_000,
                last_ns: at * 100_000_000,
                socket_ino: 0,
                sender: None,
                receiver: None,
            };
            fact(Body::PacketDrops(PacketDrops {
                netns: 1,
                interface: "vx0".into(),
                index: 5,
                reason: NO_HOST[1].into(),
                packets: 3,
                flows: vec![flow],
                ..PacketDrops::default()
            }))
        }));
        facts
    }

    #[test]
    fn a_tunnel_without_a_host_to_ask_is_named() {
        let found = findings(asks(0x20, Some(("arp", 30))));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "forwarding table of vx0"));
        assert!(found[0].text.contains("it knows none"), "{}", found[0].text);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_tunnel_that_drops_nothing_has_a_silent_end() {
        assert_eq!(codes(asks(0x20, None)), ["net.neighbour_failed"]);
    }

    #[test]
    fn questions_for_another_are_no_reason_where_the_neighbour_is_known() {
        const STALE: u16 = 0x04;
        assert!(!codes(asks(STALE, Some(("arp", 30)))).contains(&CODE.into()));
        assert_eq!(codes(asks(0x20, Some(("icmpv6", 30)))), ["net.neighbour_failed"]);
    }

    #[test]
    fn what_was_dropped_before_the_wait_is_another_matter() {
        assert_eq!(codes(asks(0x20, Some(("arp", 5)))), ["net.neighbour_failed"]);
    }
}
