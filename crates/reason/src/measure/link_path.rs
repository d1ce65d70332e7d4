//! The way of a frame from one interface of this host to another, over the other ends of veths and over bridges, and what on it does not pass.
//!
//! Interfaces are named with their namespace: a container's eth0, its other end in the host's, the bridge that it is a port of. Must not: say that
//! a frame was lost (a rule does, with whoever waits), or follow what is not an Ethernet of this host (bonds, switches in programs, tunnels).
//! Rejected: the forwarding table of the bridge (what is not in it is sent to every port).
//!
//! Edit together: facts/net.rs (`Link`, `BridgePort`), rules/net/bridge_port.rs.

use crate::facts::Link;
use crate::model::net::Net;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An interface by its namespace and index.
pub type LinkKey = (u32, u32);

/// Interfaces that are looked at: a host with more bridges in a row has none of our paths.
const VISITED_MAX: usize = 4_000;
/// BR_STATE_FORWARDING (include/uapi/linux/if_bridge.h).
const FORWARDING: u8 = 3;
const BRIDGE: &str = "bridge";

/// Why nothing passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Blocked<'m> {
    /// An interface is switched off.
    Down(&'m Link),
    /// A port of a bridge does not forward.
    Port(&'m Link, u8),
    /// Two ports of a bridge are kept apart.
    Isolated(&'m Link, &'m Link),
    /// This port's bridge does not have the other interface, which is the other end of the one that is sought.
    NotAPort(&'m Link, &'m Link),
}

/// Interfaces as they were read last.
struct Links<'m> {
    net: &'m Net,
    by_key: BTreeMap<LinkKey, &'m Link>,
}

impl<'m> Links<'m> {
    fn of(net: &'m Net) -> Self {
        Self { net, by_key: net.links.iter().map(|link| (key(link), link)).collect() }
    }

    fn get(&self, key: LinkKey) -> Option<&'m Link> {
        self.by_key.get(&key).copied()
    }

    /// The other end of a veth, as it was read last.
    fn peer(&self, link: &Link) -> Option<&'m Link> {
        self.get(key(self.net.peer(link)?))
    }

    /// The bridge that it is a port of.
    fn bridge(&self, link: &Link) -> Option<&'m Link> {
        self.get((link.netns, link.master?)).filter(|master| master.kind == BRIDGE)
    }

    /// Where a frame goes on from here.
    fn next(&self, link: &Link) -> Vec<&'m Link> {
        let ports = self.by_key.values().filter(|port| {
            link.kind == BRIDGE && (port.netns, port.master) == (link.netns, Some(link.index))
        });
        self.peer(link).into_iter().chain(self.bridge(link)).chain(ports.copied()).collect()
    }
}

fn key(link: &Link) -> LinkKey {
    (link.netns, link.index)
}

/// Why no frame passes from one interface to the other; none if one may, or no way between them is known.
pub fn blocked(net: &Net, from: LinkKey, to: LinkKey) -> Option<(Blocked<'_>, Vec<&Link>)> {
    let links = Links::of(net);
    match between(&links, from, to) {
        Some(way) => Some((on(&way)?, way)),
        None => Some((unjoined(&links, from, to)?, Vec::new())),
    }
}

/// Whether a way of links leads from one interface to the other on which all pass, as far as is known.
pub fn passes(net: &Net, from: LinkKey, to: LinkKey) -> bool {
    between(&Links::of(net), from, to).is_some_and(|way| on(&way).is_none())
}

/// The same where that is to prove something: which VLANs a bridge passes is not known, so one that parts its ports by them may stop a frame.
pub fn surely_passes(net: &Net, from: LinkKey, to: LinkKey) -> bool {
    let is_open = |link: &&Link| link.kind != BRIDGE || link.vlan_filtering == Some(false);
    between(&Links::of(net), from, to)
        .is_some_and(|way| on(&way).is_none() && way.iter().all(is_open))
}

/// The shortest way.
fn between<'m>(links: &Links<'m>, from: LinkKey, to: LinkKey) -> Option<Vec<&'m Link>> {
    let mut came_from: BTreeMap<LinkKey, LinkKey> = BTreeMap::new();
    let mut seen = BTreeSet::from([from]);
    let mut open = VecDeque::from([from]);
    while let Some(at) = open.pop_front() {
        if at == to {
            let mut way: Vec<LinkKey> =
                std::iter::successors(Some(at), |at| came_from.get(at).copied()).collect();
            way.reverse();
            return way.into_iter().map(|key| links.get(key)).collect();
        }
        for next in links.get(at).map(|link| links.next(link)).into_iter().flatten() {
            if seen.len() < VISITED_MAX && seen.insert(key(next)) {
                came_from.insert(key(next), at);
                open.push_back(key(next));
            }
        }
    }
    None
}

/// The first on a way that does not pass: what is off before what a port does, which follows from it.
fn on<'m>(way: &[&'m Link]) -> Option<Blocked<'m>> {
    let down = way.iter().find(|link| link.up == Some(false)).map(|link| Blocked::Down(link));
    let ports = way.windows(2).flat_map(|two| {
        let is_port = |port: &Link, of: &Link| of.kind == BRIDGE && port.master == Some(of.index);
        let first = is_port(two[0], two[1]).then_some(two[0]);
        first.or_else(|| is_port(two[1], two[0]).then_some(two[1]))
    });
    let closed = || {
        ports.filter_map(|port| Some((port, port.port?))).find_map(|(port, set)| {
            (set.state != FORWARDING).then_some(Blocked::Port(port, set.state))
        })
    };
    let is_isolated = |port: &Link| port.port.is_some_and(|set| set.isolated);
    let apart = || {
        way.windows(3).find_map(|three| {
            let is_through = three[1].kind == BRIDGE;
            let are_apart = is_isolated(three[0]) && is_isolated(three[2]);
            (is_through && are_apart).then_some(Blocked::Isolated(three[0], three[2]))
        })
    };
    down.or_else(closed).or_else(apart)
}

/// One end's veth ends at a port of a bridge, and the other's does not.
fn unjoined<'m>(links: &Links<'m>, from: LinkKey, to: LinkKey) -> Option<Blocked<'m>> {
    let near = links.peer(links.get(from)?)?;
    let far = links.peer(links.get(to)?)?;
    let bridge = links.bridge(near)?;
    // Of a switch in a program, or of a bond, nothing is known.
    let is_known = far.master.is_none() || links.bridge(far).is_some();
    (is_known && far.netns == bridge.netns).then_some(Blocked::NotAPort(near, far))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::BridgePort;

    fn link(netns: u32, index: u32, name: &str, kind: &str) -> Link {
        Link {
            netns,
            index,
            name: name.into(),
            kind: kind.into(),
            up: Some(true),
            ..Link::default()
        }
    }

    /// A client's and a server's eth0, whose other ends are ports of a bridge of a third namespace.
    fn net() -> Net {
        let veth = |netns, index, name: &str, peer| Link {
            peer: Some(peer),
            ..link(netns, index, name, "veth")
        };
        let port = |link: Link| Link {
            master: Some(9),
            port: Some(BridgePort { state: FORWARDING, isolated: false }),
            ..link
        };
        let links = vec![
            veth(1, 2, "eth0", 5),
            port(veth(3, 5, "near", 2)),
            link(3, 9, "br0", BRIDGE),
            port(veth(3, 6, "far", 4)),
            veth(2, 4, "eth0", 6),
        ];
        Net { links, ..Net::default() }
    }

    fn found(change: impl Fn(&mut Vec<Link>)) -> Option<String> {
        let mut net = net();
        change(&mut net.links);
        blocked(&net, (1, 2), (2, 4)).map(|(blocked, _)| match blocked {
            Blocked::Down(link) => format!("{} is down", link.name),
            Blocked::Port(port, state) => format!("{} {state}", port.name),
            Blocked::Isolated(one, other) => format!("{} and {}", one.name, other.name),
            Blocked::NotAPort(_, other) => format!("{} is no port", other.name),
        })
    }

    #[test]
    fn a_way_on_which_all_pass_is_not_blocked() {
        assert_eq!(found(|_| ()), None);
        let way = between(&Links::of(&net()), (1, 2), (2, 4)).map(|way| way.len());
        assert_eq!(way, Some(5));
        assert!(passes(&net(), (1, 2), (2, 4)) && !passes(&net(), (1, 2), (2, 5)));
        let parted = |vlan_filtering| {
            let mut net = net();
            let bridges = net.links.iter_mut().filter(|link| link.kind == BRIDGE);
            bridges.for_each(|link| link.vlan_filtering = vlan_filtering);
            surely_passes(&net, (1, 2), (2, 4))
        };
        assert!(parted(Some(false)) && !parted(Some(true)) && !parted(None));
    }

    #[test]
    fn what_does_not_pass_is_found() {
        let isolated = Some(BridgePort { state: FORWARDING, isolated: true });
        let of_state = |state| Some(BridgePort { state, isolated: false });
        let is = |text: &str| Some(text.to_string());
        assert_eq!(found(|all| all[3].port = of_state(1)), is("far 1"));
        assert_eq!(found(|all| all[3].port = isolated), None, "the other is not");
        assert_eq!(
            found(|all| (all[1].port, all[3].port) = (isolated, isolated)),
            is("near and far")
        );
        assert_eq!(found(|all| all[2].up = Some(false)), is("br0 is down"));
        let off = |all: &mut Vec<Link>| (all[3].port, all[4].up) = (of_state(0), Some(false));
        assert_eq!(found(off), is("eth0 is down"), "the port's state follows from it");
        assert_eq!(found(|all| all[3].master = None), is("far is no port"));
    }

    #[test]
    fn of_what_is_no_bridge_nothing_is_known() {
        let switch = link(3, 11, "ovs-system", "openvswitch");
        let of = found(move |all| {
            all[3].master = Some(11);
            all.push(switch.clone());
        });
        assert_eq!(of, None);
    }
}
