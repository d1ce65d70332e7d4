//! net.neighbour_wrong: a permanent neighbour entry says another hardware address than the interface has that it stands for.
//!
//! Two witnesses: the entry of the neighbour table that what is waited for is sent by, and the hardware addresses of the namespace of this host that has
//! the address, with a way of links between both that passes. Stands before net.neighbour_failed, which sees only entries that nobody answered: a
//! permanent one is never asked anew. Must not: speak of an entry whose hardware address any interface there has (an interface may answer for the
//! address of another), or of a host that is not this one, whose hardware address nobody here knows. Rejected: drops of frames for another host (OTHERHOST):
//! each bridge that floods makes them.
//!
//! Edit together: measure/link_path.rs, readers/next_hops.rs of the probe.

use crate::facts::{AddressHere, NextHop};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::link_path::passes;
use crate::model::words;
use crate::rules::net::dropped_packets::{LOST_ONE, NOTICED, is_long, is_noticed, of_namespace};
use crate::rules::net::neighbour_failed::{For, next_hop};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.neighbour_wrong",
    title: "A permanent neighbour entry has the wrong hardware address",
    theory: "Who has an address on the link is asked by ARP or neighbour discovery, and asked again when the answer is old. An entry that was set as permanent \
             is never asked again: if the interface behind the address has been made anew since, or the entry was wrong from the beginning, each frame \
             goes to a hardware address that nobody has, and is dropped by whoever gets it without a word. It looks like a host that is off.",
    needs: &[
        "somebody waits for an address for 0.2 s or more, and the neighbour entry of the next hop to it is permanent",
        "a network namespace of this host has that address, no interface of it has the entry's hardware address, and the links between both pass",
    ],
    refuted_by: &[
        Refutation::new(
            "an interface there has the entry's hardware address",
            "an_entry_that_fits_an_interface_there_is_right",
        ),
        Refutation::new(
            "no way of links leads to the interface that has the address",
            "an_address_of_another_link_is_another_host",
        ),
        Refutation::new(
            "of several namespaces with the address, the one that is reached has it",
            "of_two_namespaces_with_the_address_the_one_that_is_reached_counts",
        ),
        Refutation::new(
            "the entry is not permanent: it is asked anew",
            "an_entry_that_is_asked_anew_repairs_itself",
        ),
    ],
    remedies: &[
        "take the entry away, so that the link is asked",
        "let whatever sets it (a network plugin, a script) set it anew",
    ],
    stories: &[],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

/// An entry that is wrong, with the ends that wait for what is sent by it.
struct Wrong<'m> {
    hop: &'m NextHop,
    here: &'m AddressHere,
    remote: SocketAddr,
    what: For,
    ends: Vec<usize>,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<(u32, u32, IpAddr), Wrong<'m>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        let Some((what, socket, hop)) = next_hop(measures, end) else { continue };
        let key = (hop.netns, hop.index, hop.neighbour());
        if let Some(known) = all.get_mut(&key) {
            known.ends.push(at);
            continue;
        }
        if let Some(here) = otherwise(measures, hop).filter(|_| is_long(measures, end)) {
            let (remote, ends) = (socket.remote, vec![at]);
            all.insert(key, Wrong { hop, here, remote, what, ends });
        }
    }
    all.into_values().filter_map(|wrong| matched(measures, ends, wrong)).collect()
}

/// The interface that has the address of a next hop, if a permanent entry says another hardware address of it. Of several namespaces that
/// have the address, what frames by that entry come to counts, and none of those may have the entry's.
fn otherwise<'m>(measures: &'m Measures<'_>, hop: &NextHop) -> Option<&'m AddressHere> {
    if !hop.is_permanent() || hop.hardware.is_empty() {
        return None;
    }
    let net = &measures.model.net;
    let all = net.drop_causes.addresses_here.get(&(hop.netns, hop.neighbour()))?;
    let from = (hop.netns, hop.index);
    let reached: Vec<&AddressHere> =
        all.iter().filter(|it| passes(net, from, (it.far_netns, it.far_index))).collect();
    let is_other =
        |it: &&AddressHere| !it.hardware.is_empty() && !it.hardware.contains(&hop.hardware);
    reached.iter().all(is_other).then(|| reached.first().copied()).flatten()
}

/// That the entry by which an end's packets are sent is permanent, as a fact of whoever knows no more.
pub(super) fn permanent_entry(measures: &Measures<'_>, end: &End) -> Option<Evidence> {
    let (_, _, hop) = next_hop(measures, end).filter(|(_, _, hop)| hop.is_permanent())?;
    Some(state(hop))
}

fn state(hop: &NextHop) -> Evidence {
    let NextHop { hardware, interface, .. } = hop;
    let fact = format!(
        "state of neighbour {} on {interface} (128: permanent, never asked anew), {hardware}",
        hop.neighbour()
    );
    Evidence::new(fact, f64::from(hop.state), "1", "rtnetlink RTM_GETNEIGH")
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], wrong: Wrong<'m>) -> Option<Match<'m>> {
    let end = End::merged(wrong.ends.iter().map(|at| &ends[*at]))?;
    if !is_noticed(measures, &end) {
        return None;
    }
    let wording = wording(measures, &end, &wrong)?;
    let neighbour = wrong.hop.neighbour();
    let by = Culprit::setting(format!("neighbour entry of {neighbour}"), format!("{neighbour}"));
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(wrong.ends.iter().fold(matched, |matched, at| matched.claiming(*at, None)))
}

fn wording(measures: &Measures<'_>, end: &End, wrong: &Wrong<'_>) -> Option<Wording> {
    let Wrong { hop, here, .. } = wrong;
    let (neighbour, says) = (hop.neighbour(), &hop.hardware);
    let has = here.hardware.first()?;
    let far = (here.far_netns, here.far_index);
    let mut links = measures.model.net.links.iter().rev();
    let far = links.find(|link| (link.netns, link.index) == far)?;
    let far = format!("{}{}", far.name, of_namespace(measures.model, far.netns));
    let interface = &hop.interface;
    let ip = command_in(measures.model, hop.netns, "ip");
    let device = words::shell(interface);
    Some(Wording {
        title: format!(
            "{} {}, whose neighbour entry on {interface} is permanent and wrong: it says {says}, and {far} has {has}",
            who_waits(measures, end),
            wrong.what.words(&wrong.remote.to_string()),
        ),
        text: format!(
            "{} pass so. {neighbour} is the address of {far}, whose hardware address is {has}. The entry for it on {interface} says {says}, which no \
             interface there has, and a permanent entry is never asked anew: each frame goes to nobody.",
            words::of_window(end.seconds, measures.wall_seconds()),
        ),
        evidence: vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            state(hop),
            Evidence::new(
                format!("hardware addresses of the interfaces of {far}, of which none is {says}"),
                here.hardware.len() as f64,
                "1",
                "rtnetlink RTM_GETLINK",
            ),
        ],
        remedy: vec![Remedy {
            text: "take the entry away, so that the link is asked; who sets it (a network plugin, a script) may set it again".into(),
            command: format!("{ip} neigh del {neighbour} dev {device}"),
            undo: format!("{ip} neigh replace {neighbour} lladdr {says} dev {device} nud permanent"),
            ..Remedy::default()
        }],
    })
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    const CODE: &str = "net.neighbour_wrong";
    const PERMANENT: u16 = 0x80;
    const SAYS: &str = "02:00:00:00:00:99";

    /// A client of namespace 1 asks for an address that eth0 of namespace 2 has, the other end of its own veth.
    fn asks(state: u16, hardware: &[&str], joined: bool) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 2);
        let address = "10.0.0.2".parse().expect("an address");
        let mut hop = next_hop("10.0.0.2", ("eth0", "veth", 2), state);
        if let Body::NextHop(hop) = &mut hop.body {
            hop.hardware = SAYS.into();
        }
        let hardware = hardware.iter().map(|it| it.to_string()).collect();
        let here = AddressHere {
            netns: 1,
            address,
            far_netns: 2,
            far_index: 4,
            hardware,
            tunnel: String::new(),
        };
        let link = |netns, index, peer| Link {
            netns,
            netns_name: format!("ns{netns}"),
            index,
            name: "eth0".into(),
            kind: "veth".into(),
            peer,
            up: Some(true),
            ..Link::default()
        };
        let (near, far) = if joined { (Some(4), Some(2)) } else { (None, None) };
        vec![
            wait(10, "curl", "connect", object, 0, 40),
            hop,
            fact(Body::AddressHere(here)),
            fact(Body::Link(link(1, 2, near))),
            fact(Body::Link(link(2, 4, far))),
        ]
    }

    #[test]
    fn a_permanent_entry_that_no_interface_there_has_is_named() {
        let found = findings(asks(PERMANENT, &["02:00:00:00:00:02"], true));
        assert_eq!(
            (&*found[0].code, &*found[0].culprit.name),
            (CODE, "neighbour entry of 10.0.0.2")
        );
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 10.0.0.2:80, whose neighbour entry on eth0 is permanent and wrong: it says 02:00:00:00:00:99, and eth0 \
             of network namespace ns2 has 02:00:00:00:00:02"
        );
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "ip -n ns1 neigh del 10.0.0.2 dev eth0");
        assert_eq!(
            way.undo,
            "ip -n ns1 neigh replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent"
        );
    }

    #[test]
    fn an_entry_that_fits_an_interface_there_is_right() {
        let others = ["02:00:00:00:00:02", SAYS];
        assert_eq!(codes(asks(PERMANENT, &others, true)), ["net.slow_peer"]);
        let evidence = findings(asks(PERMANENT, &others, true)).swap_remove(0).evidence;
        let of_entry = |fact: &str| fact.contains("(128: permanent, never asked anew)");
        assert!(evidence.iter().any(|it| of_entry(&it.fact)), "{evidence:?}");
        assert_eq!(codes(asks(PERMANENT, &[], true)), ["net.slow_peer"], "it was not read");
    }

    #[test]
    fn an_address_of_another_link_is_another_host() {
        let found = codes(asks(PERMANENT, &["02:00:00:00:00:02"], false));
        assert_eq!(found, ["net.slow_peer"]);
    }

    #[test]
    fn of_two_namespaces_with_the_address_the_one_that_is_reached_counts() {
        let elsewhere = |hardware: &str| {
            let address = "10.0.0.2".parse().expect("an address");
            let hardware = vec![hardware.to_string()];
            fact(Body::AddressHere(AddressHere {
                netns: 1,
                address,
                far_netns: 3,
                far_index: 4,
                hardware,
                tunnel: String::new(),
            }))
        };
        let with = |here: &str, other: &str| {
            let mut facts = asks(PERMANENT, &[here], true);
            facts.push(elsewhere(other));
            codes(facts)
        };
        assert_eq!(with("02:00:00:00:00:02", "02:00:00:00:00:03"), [CODE]);
        assert_eq!(with("02:00:00:00:00:02", SAYS), [CODE], "it is not reached");
        assert_eq!(with(SAYS, "02:00:00:00:00:03"), ["net.slow_peer"]);
    }

    #[test]
    fn an_entry_that_is_asked_anew_repairs_itself() {
        const REACHABLE: u16 = 0x02;
        let found = codes(asks(REACHABLE, &["02:00:00:00:00:02"], true));
        assert_eq!(found, ["net.slow_peer"]);
    }
}
