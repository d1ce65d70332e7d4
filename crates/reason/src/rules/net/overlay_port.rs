//! net.overlay_port: the two ends of a VXLAN tunnel use different ports, so nothing comes through.
//!
//! Somebody waits for an address whose next hop is behind a tunnel and does not answer, and one of these: the other end is on this host,
//! has the same network in it, and another port; or what the tunnel sends was thrown away on this host because nobody listens on its port
//! there. Stands before net.neighbour_failed, which sees only that the address behind it is silent.
//!
//! Must not: take a tunnel whose other end is silent for one with a wrong port (a firewall drops without a word), or another tunnel of the
//! same number for its other end. Rejected: the port alone (8472 is right between two Linux hosts of old, 4789 is the standard's); ICMP's
//! count of what cannot be delivered (the kernel counts its own answers for a silent neighbour there).

use crate::facts::{InetRef, Link, NextHop, Vxlan};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::packet_drops::of_reason;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{LOST_ONE, NOTICED, is_long, is_noticed};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Nobody listens on the port.
const NO_SOCKET: &str = "NO_SOCKET";
/// What the standard gives VXLAN (RFC 7348).
const STANDARD: u16 = 4_789;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.overlay_port",
    title: "The two ends of a tunnel use different ports",
    theory: "A VXLAN tunnel puts frames into UDP packets and sends them to one port of the other end. Linux uses 8472 unless another is \
             set, nearly everybody else the standard's 4789. Where the two ends differ, each sends to a port where nobody \
             listens. The tunnel looks up at both ends, and an address behind it looks like a host that is switched off.",
    needs: &[
        "somebody waits for an address behind a VXLAN tunnel, and nobody there answers for it",
        "the other end has another port, or nobody listens on the tunnel's port there",
    ],
    refuted_by: &[
        Refutation::new(
            "both ends have the same port",
            "a_tunnel_with_the_same_port_at_both_ends_is_well",
        ),
        Refutation::new("it is no tunnel", "a_silent_neighbour_on_a_wire_is_no_tunnel"),
    ],
    remedies: &["give both ends the same port (ip link add ... dstport)"],
    stories: &["S2.7"],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

/// What shows that the ports differ.
enum Shown<'m> {
    /// The other end.
    OtherEnd(&'m Link, &'m Vxlan),
    /// So many of its packets found nobody there.
    Unheard(u64),
}

/// A tunnel with the ends that wait for what is behind it.
struct Deaf<'m> {
    link: &'m Link,
    vxlan: &'m Vxlan,
    hop: &'m NextHop,
    shown: Shown<'m>,
    ends: Vec<usize>,
    socket: &'m InetRef,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<(u32, u32), Deaf<'m>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        let Some((hop, socket)) = silent(measures, end) else { continue };
        let key = (hop.netns, hop.index);
        if let Some(known) = all.get_mut(&key) {
            known.ends.push(at);
            continue;
        }
        let is_it = |link: &&Link| link.netns == hop.netns && link.index == hop.index;
        let Some(link) = measures.model.net.links.iter().rev().find(is_it) else { continue };
        let Some(vxlan) = &link.vxlan else { continue };
        if let Some(shown) = shown(measures, link, vxlan) {
            all.insert(key, Deaf { link, vxlan, hop, shown, ends: vec![at], socket });
        }
    }
    all.into_values().filter_map(|deaf| matched(measures, ends, deaf)).collect()
}

/// The next hop of what an end waits for, if it does not answer.
fn silent<'m>(measures: &'m Measures<'m>, end: &End) -> Option<(&'m NextHop, &'m InetRef)> {
    let Object::Inet(ino) = end.object else { return None };
    let socket = measures.model.called.socket(ino)?;
    let is_open = matches!(end.kind, EndKind::Remote | EndKind::Link) && !end.victims.is_empty();
    if !is_open || !is_long(measures, end) {
        return None;
    }
    let hops = &measures.model.net.next_hops;
    let hop = hops.get(&(socket.netns, socket.remote.ip().to_canonical()))?;
    hop.is_silent().then_some((hop, socket))
}

fn shown<'m>(measures: &'m Measures<'m>, link: &'m Link, vxlan: &'m Vxlan) -> Option<Shown<'m>> {
    let links = &measures.model.net.links;
    let ends = links.iter().rev().filter_map(|other| Some((other, other.vxlan.as_ref()?)));
    let mut others = ends.filter(|(other, end)| {
        (other.netns, other.index) != (link.netns, link.index)
            && end.id == vxlan.id
            && faces(vxlan.remote, end.local)
            && faces(end.remote, vxlan.local)
            && (knows(vxlan.remote, end.local) || knows(end.remote, vxlan.local))
    });
    if let Some((other, end)) = others.next() {
        return (end.port != vxlan.port).then_some(Shown::OtherEnd(other, end));
    }
    let to_it =
        of_reason(measures.model, NO_SOCKET).flat_map(|drops| &drops.flows).filter(|flow| {
            flow.protocol == "udp"
                && flow.to.port() == vxlan.port
                && vxlan.remote.is_none_or(|remote| remote == flow.to.ip().to_canonical())
        });
    let unheard: u64 = to_it.map(|flow| flow.packets).sum();
    (unheard > 0).then_some(Shown::Unheard(unheard))
}

/// One end sends to an address that the other has; an end that does not say sends from any.
fn faces(sends_to: Option<IpAddr>, has: Option<IpAddr>) -> bool {
    match (sends_to, has) {
        (Some(to), Some(own)) => to == own || to.is_multicast(),
        _ => true,
    }
}

/// It sends to that very address: of many tunnels with the same number, two without addresses need not belong together.
fn knows(sends_to: Option<IpAddr>, has: Option<IpAddr>) -> bool {
    sends_to.is_some() && sends_to == has
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], deaf: Deaf<'m>) -> Option<Match<'m>> {
    let end = End::merged(deaf.ends.iter().map(|at| &ends[*at]))?;
    if !is_noticed(measures, &end) {
        return None;
    }
    let proof = match deaf.shown {
        Shown::OtherEnd(..) => Proof::Read,
        Shown::Unheard(_) => Proof::TwoWitnesses,
    };
    let name = &deaf.link.name;
    let by =
        Culprit::setting(format!("port {} of {name}", deaf.vxlan.port), format!("{name} dstport"));
    let wording = wording(measures, &end, &deaf);
    let matched = Match::new(by, proof, move |_| wording.clone());
    Some(deaf.ends.iter().fold(matched, |matched, at| matched.claiming(*at, None)))
}

fn wording(measures: &Measures<'_>, end: &End, deaf: &Deaf<'_>) -> Wording {
    let (name, port) = (&deaf.link.name, deaf.vxlan.port);
    let waits = who_waits(measures, end);
    let behind = deaf.socket.remote;
    let far = far_end(deaf.vxlan);
    let (other, text, evidence) = said(deaf);
    let ip = command_in(measures.model, deaf.link.netns, "ip");
    let usual = if port == STANDARD { 8_472 } else { STANDARD };
    let wanted = match &deaf.shown {
        Shown::OtherEnd(_, theirs) => theirs.port,
        _ => usual,
    };
    Wording {
        title: format!(
            "{waits} for {behind} behind the tunnel {name}, which sends to port {port}: {other}"
        ),
        text: format!(
            "{} pass so. {name} sends to UDP port {port} of {far}, and listens on the same. {text} So {} is asked for in vain, as if it were off.",
            words::of_window(end.seconds, measures.wall_seconds()),
            deaf.hop.neighbour(),
        ),
        evidence: vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("port of {name}"),
                f64::from(port),
                "1",
                "rtnetlink IFLA_VXLAN_PORT",
            ),
            evidence,
        ],
        remedy: vec![
            Remedy {
                text: "see what this end is set to".into(),
                command: format!("{ip} -d link show dev {}", words::shell(name)),
                action: Some(Action::look(Question::State).through(ip.through.as_ref())),
                ..Remedy::default()
            },
            Remedy::to(format!(
                "make one end anew with the port of the other, which cannot be changed while it is there: dstport {wanted} here, or dstport {port} there"
            )),
        ],
    }
}

fn far_end(vxlan: &Vxlan) -> String {
    vxlan.remote.map_or("the other end".to_string(), |it| it.to_string())
}

/// What shows it: as the end of the title, as a sentence, and as evidence.
fn said(deaf: &Deaf<'_>) -> (String, String, Evidence) {
    let (id, far) = (deaf.vxlan.id, far_end(deaf.vxlan));
    match &deaf.shown {
        Shown::OtherEnd(link, theirs) => (
            format!("the other end listens on {}", theirs.port),
            format!(
                "The other end, {}{} with the same network {id} in it, uses {}.",
                link.name,
                namespace(link),
                theirs.port
            ),
            Evidence::new(
                format!("port of the other end, {}", link.name),
                f64::from(theirs.port),
                "1",
                "rtnetlink IFLA_VXLAN_PORT",
            ),
        ),
        Shown::Unheard(packets) => (
            format!("nobody listens there at {far}"),
            format!(
                "{} that it sent came to {far}, where nobody listens on that port.",
                words::count(*packets as usize, "packet", "packets")
            ),
            Evidence::new(
                "packets to its port where nobody listens: NO_SOCKET",
                *packets as f64,
                "1",
                "kfree_skb",
            ),
        ),
    }
}

/// ` of network namespace blue`; nothing of the initial one.
fn namespace(link: &Link) -> String {
    match link.netns_name.as_str() {
        "" => String::new(),
        name => format!(" of network namespace {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    const CODE: &str = "net.overlay_port";

    fn tunnel(netns: u32, port: u16, local: &str, remote: &str) -> Fact {
        let of = |address: &str| Some(address.parse().expect("an address"));
        let vxlan = Vxlan { id: 23, port, local: of(local), remote: of(remote) };
        let link = Link {
            netns,
            index: 5,
            name: format!("vx{netns}"),
            kind: "vxlan".into(),
            vxlan: Some(vxlan),
            ..Link::default()
        };
        fact(Body::Link(link))
    }

    /// Somebody connects to an address behind an interface that nobody answers for.
    fn connects(of: Vec<Fact>) -> Vec<Fact> {
        let object = inet("tcp", 100, "192.168.9.1:40000", "192.168.9.2:80", 2);
        let hop = NextHop {
            kind: String::new(),
            netns: 1,
            destination: "192.168.9.2".parse().expect("an address"),
            gateway: None,
            interface: "vx1".into(),
            index: 5,
            state: 32,
            updated_ns: 1_500_000_000,
            path_mtu_bytes: None,
            hardware: String::new(),
            tunnel_ends: Vec::new(),
        };
        let mut facts = vec![wait(10, "curl", "connect", object, 0, 48), fact(Body::NextHop(hop))];
        facts.extend(of);
        facts
    }

    #[test]
    fn two_ends_with_different_ports_are_said() {
        let here = tunnel(1, 8472, "10.0.0.1", "10.0.0.2");
        let found = findings(connects(vec![here, tunnel(2, 4789, "10.0.0.2", "10.0.0.1")]));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "port 8472 of vx1"));
        assert_eq!(
            found[0].title,
            "curl waits for 192.168.9.2:80 behind the tunnel vx1, which sends to port 8472: the other end listens on 4789"
        );
    }

    #[test]
    fn what_nobody_listens_to_at_the_other_end_says_it_too() {
        let here = || tunnel(1, 8472, "10.0.0.1", "10.0.0.2");
        let unheard = dropped(NO_SOCKET, "udp", "10.0.0.1:50000", "10.0.0.2:8472", 4);
        assert!(says(CODE, connects(vec![here(), unheard])));
        let other = dropped(NO_SOCKET, "udp", "10.0.0.1:50000", "10.0.0.2:9", 4);
        assert_eq!(codes(connects(vec![here(), other])), ["net.neighbour_failed"]);
    }

    #[test]
    fn icmp_alone_says_nothing_of_a_port() {
        let here = tunnel(1, 8472, "10.0.0.1", "10.0.0.2");
        let refused = counters(&[("Icmp.InDestUnreachs", 3, 7)]);
        assert_eq!(codes(connects([vec![here], refused].concat())), ["net.neighbour_failed"]);
    }

    #[test]
    fn another_tunnel_of_the_same_number_is_no_other_end() {
        let bare = |netns, port, remote: &str| {
            let mut fact = tunnel(netns, port, "10.0.0.1", remote);
            if let Body::Link(Link { vxlan: Some(vxlan), .. }) = &mut fact.body {
                vxlan.local = None;
            }
            fact
        };
        let facts = connects(vec![bare(1, 8472, "10.0.0.2"), bare(2, 4789, "10.0.0.3")]);
        assert_eq!(codes(facts), ["net.neighbour_failed"]);
    }

    #[test]
    fn a_tunnel_with_the_same_port_at_both_ends_is_well() {
        let here = tunnel(1, 4789, "10.0.0.1", "10.0.0.2");
        let facts = connects(vec![here, tunnel(2, 4789, "10.0.0.2", "10.0.0.1")]);
        assert_eq!(codes(facts), ["net.neighbour_failed"]);
    }

    #[test]
    fn a_silent_neighbour_on_a_wire_is_no_tunnel() {
        let wire = Link { netns: 1, index: 5, name: "vx1".into(), ..Link::default() };
        let facts = connects(vec![fact(Body::Link(wire)), tunnel(2, 4789, "10.0.0.2", "10.0.0.1")]);
        assert_eq!(codes(facts), ["net.neighbour_failed"]);
    }
}
