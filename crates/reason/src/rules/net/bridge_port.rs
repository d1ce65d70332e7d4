//! net.bridge_port: whoever has an address is on this host, and nothing that asks for it arrives there: a port, a bridge or an interface between does not pass.
//!
//! Two witnesses: the neighbour of who waits does not answer, and the links between both of them, as they are set, pass nothing. Stands before
//! net.neighbour_failed, which sees only the silence. Must not: speak of an address that no interface of this host has, or of a way that is not
//! wholly known. Rejected: the kernel's drops alone (a flood that reaches no port but the bridge's own drops nothing).
//!
//! Edit together: measure/link_path.rs, readers/next_hops.rs of the probe.

use crate::facts::{AddressHere, Link, NextHop};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::link_path::{Blocked, LinkKey, blocked, passes};
use crate::model::net::Net;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{NOTICED, is_noticed, of_namespace};
use crate::rules::net::neighbour_failed::{ASKED_AGAIN, For, waited_for};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.bridge_port",
    title: "A port, a bridge or an interface between two ends of this host passes nothing",
    theory: "Containers and virtual machines of a host ask each other by way of veths and bridges. A port that spanning tree blocks or has not opened \
             yet, ports that are isolated from each other, an interface that is switched off, and one that is a port of no bridge or of another \
             pass nothing, and say so to nobody: the address looks like a host that is off.",
    needs: &[
        "somebody waits for an address, and the neighbour entry of the next hop to it is failed or incomplete",
        "an interface of this host has that address, and of the links between both one does not pass",
    ],
    refuted_by: &[
        Refutation::new(
            "all links between them pass",
            "where_all_links_pass_the_neighbour_is_silent",
        ),
        Refutation::new(
            "no interface of this host has the address",
            "an_address_that_nobody_here_has_is_a_silent_neighbour",
        ),
    ],
    remedies: &[
        "switch the interface on, open the port, or make it a port of that bridge",
        "wait, while spanning tree opens a port: twice its forward delay, 30 s by default",
    ],
    stories: &["S1.5"],
    thresholds: &[&ASKED_AGAIN, &NOTICED],
    finds: Finds::Look(find),
};

/// A next hop that is not reached, with the ends that wait for it.
struct Unreached<'m> {
    hop: &'m NextHop,
    remote: SocketAddr,
    what: For,
    /// The interface that has its address.
    far: Option<&'m Link>,
    blocked: Blocked<'m>,
    way: Vec<&'m Link>,
    ends: Vec<usize>,
}

impl Unreached<'_> {
    fn neighbour(&self) -> IpAddr {
        self.hop.neighbour()
    }
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let net = &measures.model.net;
    let mut all: BTreeMap<(u32, u32, IpAddr), Unreached<'m>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        let Some((what, socket, hop)) = waited_for(measures, end) else { continue };
        let neighbour = hop.neighbour();
        let key = (hop.netns, hop.index, neighbour);
        if let Some(known) = all.get_mut(&key) {
            known.ends.push(at);
            continue;
        }
        let here = net.drop_causes.addresses_here.get(&(hop.netns, neighbour));
        let Some(here) = here else { continue };
        if let Some((far, blocked, way)) = unreached(net, hop, here) {
            let far = net.links.iter().rev().find(|link| (link.netns, link.index) == far);
            let ends = vec![at];
            all.insert(
                key,
                Unreached { hop, remote: socket.remote, what, far, blocked, way, ends },
            );
        }
    }
    all.into_values().filter_map(|it| matched(measures, ends, it)).collect()
}

/// An interface that is not reached, by namespace and index, with what stops frames on which way to it.
type Stopped<'m> = (LinkKey, Blocked<'m>, Vec<&'m Link>);

/// Of the interfaces that have the address of a next hop, the one that is meant and is not reached: the only one to which a way of links is
/// known, else the only one at all.
fn unreached<'m>(net: &'m Net, hop: &NextHop, here: &[AddressHere]) -> Option<Stopped<'m>> {
    let from = (hop.netns, hop.index);
    let all: Vec<LinkKey> = here.iter().map(|it| (it.far_netns, it.far_index)).collect();
    if all.iter().any(|far| passes(net, from, *far)) {
        return None;
    }
    let stopped = all.iter().filter_map(|far| {
        let (blocked, way) = blocked(net, from, *far)?;
        Some((*far, blocked, way))
    });
    let (joined, apart): (Vec<Stopped<'m>>, Vec<Stopped<'m>>) =
        stopped.partition(|(.., way)| !way.is_empty());
    let mut meant = if joined.is_empty() { apart } else { joined };
    meant.pop().filter(|_| meant.is_empty())
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    unreached: Unreached<'m>,
) -> Option<Match<'m>> {
    let end = End::merged(unreached.ends.iter().map(|at| &ends[*at]))?;
    if end.of_one_seconds() < ASKED_AGAIN.value || !is_noticed(measures, &end) {
        return None;
    }
    let (name, setting) = match unreached.blocked {
        Blocked::Down(link) => (link.name.clone(), format!("{} up", link.name)),
        Blocked::Port(port, _) => (format!("port {}", port.name), format!("{} state", port.name)),
        Blocked::Isolated(_, port) => {
            (format!("port {}", port.name), format!("{} isolated", port.name))
        }
        Blocked::NotAPort(_, link) => (link.name.clone(), format!("{} master", link.name)),
    };
    let wording = wording(measures, &end, &unreached);
    let by = Culprit::setting(name, setting);
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(unreached.ends.iter().fold(matched, |matched, at| matched.claiming(*at, None)))
}

/// `rs of network namespace blue`.
fn placed(measures: &Measures<'_>, link: &Link) -> String {
    format!("{}{}", link.name, of_namespace(measures.model, link.netns))
}

/// The bridge that an interface is a port of.
fn bridge_of<'m>(measures: &'m Measures<'_>, port: &Link) -> Option<&'m Link> {
    let is_it = |link: &&Link| (link.netns, Some(link.index)) == (port.netns, port.master);
    measures.model.net.links.iter().rev().find(is_it)
}

/// `port rs of bridge br0 of network namespace blue`.
fn port_words(measures: &Measures<'_>, port: &Link) -> String {
    match bridge_of(measures, port) {
        Some(bridge) => format!("port {} of bridge {}", port.name, placed(measures, bridge)),
        None => format!("port {}", placed(measures, port)),
    }
}

/// What does not pass, as a clause.
fn clause(measures: &Measures<'_>, blocked: Blocked<'_>) -> String {
    match blocked {
        Blocked::Down(link) => format!("{} is switched off", placed(measures, link)),
        Blocked::Port(port, state) => {
            let does = match state {
                0 => "is disabled",
                1 | 2 => "does not forward (it listens or learns, as while spanning tree opens it)",
                _ => "is blocked, as spanning tree does it",
            };
            format!("{} {does}", port_words(measures, port))
        }
        Blocked::Isolated(one, other) => {
            format!("{} is isolated from port {}", port_words(measures, one), other.name)
        }
        Blocked::NotAPort(port, other) => match bridge_of(measures, port) {
            Some(bridge) => {
                format!("{} is no port of bridge {}", other.name, placed(measures, bridge))
            }
            None => format!("{} is no port of its bridge", other.name),
        },
    }
}

fn wording(measures: &Measures<'_>, end: &End, unreached: &Unreached<'_>) -> Wording {
    let waits = who_waits(measures, end);
    let neighbour = unreached.neighbour();
    let clause = clause(measures, unreached.blocked);
    let has = unreached.far.map_or_else(String::new, |far| placed(measures, far));
    let way: Vec<&str> = unreached.way.iter().map(|link| link.name.as_str()).collect();
    let by = match way.as_slice() {
        [] => String::new(),
        way => format!(" What asks for it goes by {}.", way.join(", ")),
    };
    let question = if neighbour.is_ipv4() { "ARP" } else { "neighbour discovery" };
    let mut evidence = vec![
        Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
        Evidence::new(
            format!("state of neighbour {neighbour} on {}", unreached.hop.interface),
            f64::from(unreached.hop.state),
            "1",
            "rtnetlink RTM_GETNEIGH",
        ),
    ];
    if let Blocked::Port(port, state) = unreached.blocked {
        evidence.push(Evidence::new(
            format!("state of port {} (3: it forwards)", port.name),
            f64::from(state),
            "1",
            "rtnetlink IFLA_BRPORT_STATE",
        ));
    }
    Wording {
        title: format!(
            "{waits} {}, which is on this host and is not reached: {clause}",
            unreached.what.words(&unreached.remote.to_string())
        ),
        text: format!(
            "{} pass so. {neighbour} is the address of {has}.{by} But {clause}, so nobody answers {question} there.",
            words::of_window(end.seconds, measures.wall_seconds()),
        ),
        evidence,
        remedy: vec![remedy(measures, unreached)],
    }
}

fn remedy(measures: &Measures<'_>, unreached: &Unreached<'_>) -> Remedy {
    let tool = |link: &Link, tool: &str| command_in(measures.model, link.netns, tool);
    let of = |text: &str, command: String, undo: String| Remedy {
        text: text.into(),
        command,
        undo,
        ..Remedy::default()
    };
    match unreached.blocked {
        Blocked::Down(link) => {
            let (ip, name) = (tool(link, "ip"), words::shell(&link.name));
            let set = |to: &str| format!("{ip} link set dev {name} {to}");
            of("switch it on, if nobody meant it to be off", set("up"), set("down"))
        }
        Blocked::Port(port, state) => {
            let (bridge, name) = (tool(port, "bridge"), words::shell(&port.name));
            let set = |to: u8| format!("{bridge} link set dev {name} state {to}");
            of(
                "wait while spanning tree opens it (30 s by default); where it is off, and no circle of bridges can come of it, open the port \
                 (the kernel refuses this while spanning tree is on)",
                set(3),
                set(state),
            )
        }
        Blocked::Isolated(_, port) => {
            let (bridge, name) = (tool(port, "bridge"), words::shell(&port.name));
            let set = |to: &str| format!("{bridge} link set dev {name} isolated {to}");
            of("let it pass, if nobody meant to keep them apart", set("off"), set("on"))
        }
        Blocked::NotAPort(near, other) => {
            let (ip, name) = (tool(other, "ip"), words::shell(&other.name));
            let text = "make it a port of that bridge, if it is meant to be on that network";
            match bridge_of(measures, near).filter(|_| other.master.is_none()) {
                Some(bridge) => of(
                    text,
                    format!("{ip} link set dev {name} master {}", words::shell(&bridge.name)),
                    format!("{ip} link set dev {name} nomaster"),
                ),
                None => Remedy {
                    text: "see of which bridge it is a port".into(),
                    command: format!("{ip} -d link show dev {name}"),
                    action: Some(Action::look(Question::State).through(ip.through.as_ref())),
                    ..Remedy::default()
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    const CODE: &str = "net.bridge_port";
    const FAILED: u16 = 0x20;

    /// A client of namespace 1 asks for an address that eth0 of namespace 2 has; both are joined by br0 of namespace 3, where the server's port is
    /// in that state.
    fn asks(state: u8, has: bool) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 2);
        let address = "10.0.0.2".parse().expect("an address");
        let mut facts = vec![
            wait(10, "curl", "connect", object, 0, 40),
            next_hop("10.0.0.2", ("eth0", "veth", 2), FAILED),
        ];
        let here = AddressHere {
            netns: 1,
            address,
            far_netns: 2,
            far_index: 4,
            hardware: Vec::new(),
            tunnel: String::new(),
        };
        facts.extend(has.then(|| fact(Body::AddressHere(here))));
        let link = |netns, index, name: &str, peer, port| Link {
            netns,
            netns_name: format!("ns{netns}"),
            index,
            name: name.into(),
            kind: if index == 9 { "bridge" } else { "veth" }.into(),
            peer,
            master: if port { Some(9) } else { None },
            up: Some(true),
            port: port.then_some(BridgePort {
                state: if index == 6 { state } else { 3 },
                isolated: false,
            }),
            ..Link::default()
        };
        let links = [
            link(1, 2, "eth0", Some(5), false),
            link(3, 5, "near", Some(2), true),
            link(3, 9, "br0", None, false),
            link(3, 6, "far", Some(4), true),
            link(2, 4, "eth0", Some(6), false),
        ];
        facts.extend(links.map(|link| fact(Body::Link(link))));
        facts
    }

    #[test]
    fn the_port_that_does_not_forward_is_named() {
        let found = findings(asks(1, true));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "port far"));
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 10.0.0.2:80, which is on this host and is not reached: port far of bridge br0 of network namespace ns3 \
             does not forward (it listens or learns, as while spanning tree opens it)"
        );
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "ip netns exec ns3 bridge link set dev far state 3");
        assert_eq!(way.undo, "ip netns exec ns3 bridge link set dev far state 1");
    }

    #[test]
    fn where_all_links_pass_the_neighbour_is_silent() {
        assert_eq!(codes(asks(3, true)), ["net.neighbour_failed"]);
    }

    #[test]
    fn where_another_namespace_has_the_address_too_the_one_that_the_links_lead_to_counts() {
        let address = "10.0.0.2".parse().expect("an address");
        let other = AddressHere {
            netns: 1,
            address,
            far_netns: 4,
            far_index: 4,
            hardware: Vec::new(),
            tunnel: String::new(),
        };
        let mut facts = asks(1, true);
        facts.push(fact(Body::AddressHere(other)));
        assert_eq!(findings(facts)[0].culprit.name, "port far");
    }

    #[test]
    fn an_address_that_nobody_here_has_is_a_silent_neighbour() {
        assert_eq!(codes(asks(1, false)), ["net.neighbour_failed"]);
    }
}
