//! Next hops to the addresses that somebody of this host sends to without an answer, their neighbour entries, and whether who has such an
//! address on this host has a way back. Also which interfaces of this host have it, if any has: two may; into a tunnel, the next hops to
//! the hosts that it sends to. Of those who answer, only that what is sent to them goes into a tunnel of a program.
//!
//! Theory: a packet to an address of a link waits until ARP (of IPv6: ND) has found who has it, and so does one behind a
//! gateway until the gateway is found. The routing and the neighbour table say whom they wait for. Each is asked of that one
//! address: a router has a hundred thousand neighbours, and nobody waits for most. Asking takes no privilege.
//!
//! Must not: say that a neighbour is at fault (the rule does), or ask about addresses of which nobody waits for anything.
//! Rejected: a dump of the table (see above); reading it all
//! through the look (an entry that failed stays for minutes, and is asked for again as long as somebody sends).
//!
//! Edit together: waited.rs (which addresses), netlink/routes.rs, netlink/neighbours.rs (what the answers say).

use super::look::Look;
use super::netlink::addresses::own_addresses;
use super::netlink::links::links;
use super::netlink::neighbours::{RTM_GETNEIGH, TunnelTable, neighbour, neighbour_request};
use super::netlink::routes::{
    RTM_GETROUTE, is_own_address, no_route, route, route_request, route_request_by,
};
use super::netlink::{Place, ask, is_no_answer};
use super::reader::{Opening, Reader};
use super::waited::{Destination, Waited};
use crate::SourceError;
use crate::system::clock::now;
use holdup_reason::facts::{AddressHere, Blind, Body, Fact, NextHop, NoWayBack};
use netlink_sys::Socket;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

/// The kind of an interface whose packets a program carries on.
const TUN: &str = "tun";
/// The kind of one whose packets the kernel sends on to another host.
const VXLAN: &str = "vxlan";
/// Namespaces beside the host's that are asked whether they have an address: each costs a moment.
const NAMESPACES_MAX: usize = 32;
/// Addresses that each of them is asked about.
const ADDRESSES_MAX: usize = 16;
/// Neighbours behind tunnels whose hosts are asked for: each tunnel takes a dump of its table.
const TUNNELLED_MAX: usize = 8;
/// Interfaces of a namespace whose hardware addresses are reported.
const HARDWARE_MAX: usize = 64;

/// See the head of the file.
pub(super) struct NextHops;

impl Reader for NextHops {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    /// Before the connections of the look are given away.
    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        look.read_endpoints()?;
        let now_open = look.last.endpoints.iter().flat_map(|(_, all)| all);
        let Waited { unanswered, objects, .. } = &mut look.waited;
        now_open.chain(look.ends.between()).for_each(|it| unanswered.see_endpoint(it, objects));
        for body in &look.last.sums {
            if let Body::SentTo(sent) = body {
                unanswered.see_sent(sent);
            }
        }
        let (Some(netlink), (to, written)) = (look.netlink.as_mut(), unanswered.take()) else {
            return Ok(());
        };
        if !to.is_empty() {
            let at_ns = now();
            let asked = to.clone();
            let found = netlink.ask(move |place, buffer| next_hops(place, buffer, &asked));
            for body in &found {
                if let Body::NextHop(hop) = body {
                    look.waited.interfaces.add(hop.netns, hop.index);
                    if hop.kind == TUN {
                        look.waited.tunnels.insert(hop.interface.clone());
                    }
                }
            }
            let wanted = sought(&found);
            let mut others = NAMESPACES_MAX;
            let back =
                netlink.ask(move |place, buffer| Ok(no_ways_back(place, buffer, &to, &mut others)));
            let mut here = Vec::new();
            if !wanted.is_empty() {
                // Behind it, with a patience of its own: dumps may take long.
                let mut others = NAMESPACES_MAX;
                here = netlink.ask(move |place, buffer| {
                    let wanted = sought_in(&place.namespace.name, &wanted, &mut others);
                    Ok(addresses_here(place, buffer, &wanted).unwrap_or_default())
                });
            }
            look.waited.tunnels.extend(far_tunnels(&found, &here));
            let all = found.into_iter().chain(back).chain(here);
            facts.extend(all.map(|body| Fact { at_ns, body }));
        }
        if !written.is_empty() {
            // Behind those who do not answer: without patience for both, they come first. That it is not known of these is no gap to name.
            let at_ns = now();
            let into = netlink.ask(move |place, buffer| into_tunnels(place, buffer, &written));
            let hops = into.into_iter().filter_map(|body| match body {
                Body::NextHop(hop) => Some(hop),
                _ => None,
            });
            for hop in hops {
                look.waited.tunnels.insert(hop.interface.clone());
                facts.push(Fact { at_ns, body: Body::NextHop(hop) });
            }
        }
        Ok(())
    }
}

/// Names of tun devices that have an address to which packets go by a tun device: the other ends of tunnels. Of other tun devices nobody asks
/// for the program, which takes a walk over all descriptors.
fn far_tunnels(found: &[Body], here: &[Body]) -> BTreeSet<String> {
    let hops = found.iter().filter_map(|body| match body {
        Body::NextHop(hop) if hop.kind == TUN => Some((hop.netns, hop.destination)),
        _ => None,
    });
    let into: BTreeSet<(u32, IpAddr)> = hops.collect();
    let ends = here.iter().filter_map(|body| match body {
        Body::AddressHere(it) if into.contains(&(it.netns, it.address)) => Some(it.tunnel.clone()),
        _ => None,
    });
    ends.filter(|name| !name.is_empty()).collect()
}

/// Next hops that are sought on this host, with the namespace of who asks; and whether it is one of the few that do not answer, or are never
/// asked. One that answers is sought too: two may have the address.
type Sought = BTreeMap<(u32, IpAddr), bool>;

fn sought(found: &[Body]) -> Sought {
    let hops = found.iter().filter_map(|body| match body {
        Body::NextHop(hop) if !hop.neighbour().is_loopback() => Some(hop),
        _ => None,
    });
    let mut sought = Sought::new();
    for hop in hops {
        let is_rare = hop.is_silent() || hop.is_permanent();
        *sought.entry((hop.netns, hop.neighbour())).or_default() |= is_rare;
    }
    sought
}

/// Those that a namespace is asked about: on most hosts somebody waits for one that answers, and each namespace costs a dump. So behind
/// a number of them only the few are sought.
fn sought_in(namespace: &str, sought: &Sought, others: &mut usize) -> BTreeSet<(u32, IpAddr)> {
    let asks_all = namespace.is_empty() || *others > 0;
    if !namespace.is_empty() {
        *others = others.saturating_sub(1);
    }
    let asked = sought.iter().filter(|(_, is_rare)| asks_all || **is_rare);
    asked.map(|(of, _)| *of).collect()
}

/// Which of them an interface of a namespace has.
fn addresses_here(
    place: &mut Place,
    buffer: &mut Vec<u8>,
    sought: &BTreeSet<(u32, IpAddr)>,
) -> io::Result<Vec<Body>> {
    if sought.is_empty() {
        return Ok(Vec::new());
    }
    let far_netns = place.namespace.netns;
    let own = own_addresses(&place.socket, buffer)?;
    let is_sought = |of: IpAddr| sought.iter().any(|(_, address)| *address == of);
    let is_unknown = |index: &u32| !place.interfaces.contains_key(index);
    if own.iter().any(|(index, address)| is_sought(*address) && is_unknown(index)) {
        links(place, buffer)?;
    }
    let mut found = Vec::new();
    for (netns, address) in sought.iter().copied() {
        for far_index in own.iter().filter(|(_, it)| *it == address).map(|(index, _)| *index) {
            let hardware = hardware(place, far_index);
            let tun = place.interfaces.get(&far_index).filter(|it| it.kind == TUN);
            let tunnel = tun.map(|it| it.name.clone()).unwrap_or_default();
            let here = AddressHere { netns, address, far_netns, far_index, hardware, tunnel };
            found.push(Body::AddressHere(here));
        }
    }
    Ok(found)
}

/// Hardware addresses of a namespace's interfaces, one interface's first.
fn hardware(place: &Place, first: u32) -> Vec<String> {
    let others = place.interfaces.iter().filter(|(index, _)| **index != first).map(|(_, it)| it);
    let all = place.interfaces.get(&first).into_iter().chain(others);
    all.map(|it| it.hardware.clone()).filter(|it| !it.is_empty()).take(HARDWARE_MAX).collect()
}

/// Whose address in another namespace somebody sends to, and that has no route back to him.
fn no_ways_back(
    place: &mut Place,
    buffer: &mut Vec<u8>,
    asked: &[Destination],
    others: &mut usize,
) -> Vec<Body> {
    let far_netns = place.namespace.netns;
    if !place.namespace.name.is_empty() {
        match *others {
            0 => return Vec::new(),
            _ => *others -= 1,
        }
    }
    let elsewhere = asked.iter().filter(|it| it.netns != far_netns && !it.source.is_unspecified());
    let mut found = Vec::new();
    for it in elsewhere.take(ADDRESSES_MAX) {
        if !is_own_address(&place.socket, it.address, buffer) {
            continue;
        }
        let answer = no_route(&place.socket, (it.address, it.source), buffer);
        let (netns, address, source) = (it.netns, it.address, it.source);
        let body =
            |answer| Body::NoWayBack(NoWayBack { netns, source, address, far_netns, answer });
        found.extend(answer.map(body));
    }
    found
}

fn next_hops(place: &mut Place, buffer: &mut Vec<u8>, to: &[Destination]) -> io::Result<Vec<Body>> {
    let mut found = Vec::new();
    for destination in to.iter().filter(|it| it.netns == place.namespace.netns) {
        found.extend(next_hop(&place.socket, destination, None, buffer)?);
    }
    name(place, &mut found, buffer)?;
    // What the table of a tunnel cannot say takes nothing from the hops that are known.
    let (mut beyond, unread) = beyond_tunnels(place, &mut found, buffer);
    // Who is sent to by somebody else as well keeps the way of those: a tunnel's own may be another.
    beyond.retain(|beyond| found.iter().all(|own| own.destination != beyond.destination));
    name(place, &mut beyond, buffer)?;
    Ok(found.into_iter().chain(beyond).map(Body::NextHop).chain(unread).collect())
}

/// The same of those who answer, where what is sent to them goes into the hands of a program.
fn into_tunnels(
    place: &mut Place,
    buffer: &mut Vec<u8>,
    to: &[Destination],
) -> io::Result<Vec<Body>> {
    let mut found = Vec::new();
    for destination in to.iter().filter(|it| it.netns == place.namespace.netns) {
        found.extend(next_hop(&place.socket, destination, None, buffer)?);
    }
    name(place, &mut found, buffer)?;
    found.retain(|hop| hop.kind == TUN);
    Ok(found.into_iter().map(Body::NextHop).collect())
}

/// Says their interfaces by name and kind.
fn name(place: &mut Place, hops: &mut [NextHop], buffer: &mut Vec<u8>) -> io::Result<()> {
    if hops.iter().any(|hop| !place.interfaces.contains_key(&hop.index)) {
        links(place, buffer)?;
    }
    for hop in hops {
        if let Some(interface) = place.interfaces.get(&hop.index) {
            hop.interface.clone_from(&interface.name);
            hop.kind.clone_from(&interface.kind);
        }
    }
    Ok(())
}

/// The next hops to the hosts that tunnels send to, where what the tunnel sends leaves by its own namespace; and what could not be read of them.
fn beyond_tunnels(
    place: &Place,
    hops: &mut [NextHop],
    buffer: &mut Vec<u8>,
) -> (Vec<NextHop>, Vec<Body>) {
    let is_wanted = |hop: &NextHop| {
        let interface = place.interfaces.get(&hop.index);
        hop.kind == VXLAN && interface.is_some_and(|it| !it.is_above_another)
    };
    let mut tunnels: BTreeMap<u32, Vec<&mut NextHop>> = BTreeMap::new();
    for hop in hops.iter_mut().filter(|hop| is_wanted(hop)).take(TUNNELLED_MAX) {
        tunnels.entry(hop.index).or_default().push(hop);
    }
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for (index, hops) in tunnels {
        let name = hops.first().map(|hop| hop.interface.clone()).unwrap_or_default();
        match beyond_tunnel(place, index, hops, buffer) {
            Ok(beyond) => found.extend(beyond),
            // It is gone meanwhile.
            Err(error) if is_no_answer(&error) || error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => {
                unread.push(Body::Blind(unread_table(place.namespace.netns, &name, &error)));
            }
        }
    }
    (found, unread)
}

/// The same of one tunnel and the neighbours behind it.
fn beyond_tunnel(
    place: &Place,
    index: u32,
    hops: Vec<&mut NextHop>,
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<NextHop>> {
    let wanted = hops.iter().map(|hop| hop.hardware.clone()).collect();
    let table = TunnelTable::read(&place.socket, index, &wanted, buffer)?;
    let mut found = Vec::new();
    for hop in hops {
        let ends = table.ends(&hop.hardware);
        hop.tunnel_ends = ends.iter().map(|end| end.address).collect();
        for end in ends {
            let source = IpAddr::from([0; 4]);
            let to = Destination { netns: hop.netns, address: end.address, source };
            // One host to which there is no way takes nothing from the others.
            found.extend(next_hop(&place.socket, &to, end.by, buffer).unwrap_or_default());
        }
    }
    Ok(found)
}

/// That the forwarding table of a tunnel is not known.
fn unread_table(netns: u32, tunnel: &str, error: &io::Error) -> Blind {
    Blind {
        what: format!("fdb.{netns}.{tunnel}"),
        why: format!("the forwarding table could not be read: {error}"),
        therefore: format!("which hosts {tunnel} sends to is unknown"),
        ..Blind::default()
    }
}

/// The next hop to an address, by one interface alone if it is said which, without the name of its interface. None if no route leads there over a link.
fn next_hop(
    socket: &Socket,
    to: &Destination,
    by: Option<u32>,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<NextHop>> {
    let asked = match by {
        Some(index) => route_request_by(to.address, to.source, index),
        None => route_request(to.address, to.source),
    };
    let Some(way) = known(ask(socket, RTM_GETROUTE, &asked, buffer, route))? else {
        return Ok(None);
    };
    let hop = way.gateway.unwrap_or(to.address);
    let asked = neighbour_request(hop, way.index);
    let entry = known(ask(socket, RTM_GETNEIGH, &asked, buffer, neighbour))?;
    let entry = entry.unwrap_or_default();
    Ok(Some(NextHop {
        netns: to.netns,
        destination: to.address,
        gateway: way.gateway,
        interface: String::new(),
        kind: String::new(),
        index: way.index,
        state: entry.state,
        updated_ns: entry.updated_ns,
        hardware: entry.hardware,
        tunnel_ends: Vec::new(),
        path_mtu_bytes: way.path_mtu_bytes,
    }))
}

/// That there is no route, no neighbour, or no such question on this kernel (before 5.0), is an answer.
fn known<T>(answer: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match answer {
        Err(error) if is_no_answer(&error) => Ok(None),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarding_table_that_is_not_read_is_said() {
        let why = io::Error::from_raw_os_error(libc::EPERM);
        let blind = unread_table(7, "vx0", &why);
        assert_eq!(blind.what, "fdb.7.vx0");
        assert!(blind.why.starts_with("the forwarding table could not be read: "), "{}", blind.why);
        assert_eq!(blind.therefore, "which hosts vx0 sends to is unknown");
    }

    fn next_hop(destination: [u8; 4], state: u16, kind: &str) -> Body {
        Body::NextHop(NextHop {
            netns: 1,
            destination: IpAddr::from(destination),
            gateway: None,
            interface: "eth0".into(),
            kind: kind.into(),
            index: 2,
            state,
            updated_ns: 0,
            path_mtu_bytes: None,
            hardware: String::new(),
            tunnel_ends: Vec::new(),
        })
    }

    #[test]
    fn the_program_of_a_tun_device_is_sought_where_packets_go_to_it_by_another() {
        let to = [10, 8, 0, 2];
        let here = |tunnel: &str| {
            Body::AddressHere(AddressHere {
                netns: 1,
                address: IpAddr::from(to),
                far_netns: 2,
                far_index: 7,
                hardware: Vec::new(),
                tunnel: tunnel.into(),
            })
        };
        let names =
            |kind: &str, tunnel: &str| far_tunnels(&[next_hop(to, 0, kind)], &[here(tunnel)]);
        assert_eq!(names(TUN, "tun0"), BTreeSet::from(["tun0".to_string()]));
        assert_eq!(names("", "tun0"), BTreeSet::new(), "by a link");
        assert_eq!(names(TUN, ""), BTreeSet::new(), "no tunnel's");
    }

    #[test]
    fn whoever_is_sent_to_is_sought_here_but_oneself() {
        let hop = |destination: [u8; 4], state| next_hop(destination, state, "");
        let (silent, answers, permanent) = ([10, 0, 0, 2], [10, 0, 0, 4], [10, 0, 0, 5]);
        let found = sought(&[
            hop(silent, 0x20),
            hop(answers, 0x02),
            hop(permanent, 0x80),
            hop([127, 0, 0, 1], 0),
        ]);
        let all = [(silent, true), (answers, false), (permanent, true)];
        assert_eq!(found, Sought::from(all.map(|(it, is_rare)| ((1, IpAddr::from(it)), is_rare))));
    }

    #[test]
    fn one_that_answers_is_sought_in_some_namespaces_and_one_that_does_not_in_all() {
        let [silent, answers] = [2, 4].map(|last| (1, IpAddr::from([10, 0, 0, last])));
        let sought = Sought::from([(silent, true), (answers, false)]);
        let mut others = 1;
        let mut asked = |namespace: &str| sought_in(namespace, &sought, &mut others);
        let (all, few) = (BTreeSet::from([silent, answers]), BTreeSet::from([silent]));
        assert_eq!([asked("blue"), asked("red"), asked("green")], [all.clone(), few.clone(), few]);
        assert_eq!(asked(""), all, "the host's is always asked");
    }
}
