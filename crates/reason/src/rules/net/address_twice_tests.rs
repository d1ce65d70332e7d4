//! net.address_duplicate of an address that two namespaces of this host have: its scenes.
//!
//! Beside address_twice.rs, which words it: the rule's refutation names a test of here.

use crate::facts::*;
use crate::rules::net::scenes::*;
use crate::rules::scenes::fact;

/// A client of namespace 1 asks for an address that interfaces of namespaces 2 and 3 have: with these hardware addresses, of which the
/// second is a port of the same bridge or not.
fn asks(hardware: [&str; 2], joined: bool) -> Vec<Fact> {
    let object = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 2);
    let address = "10.0.0.2".parse().expect("an address");
    let mut hop = next_hop("10.0.0.2", ("eth0", "veth", 2), 0x02);
    if let Body::NextHop(hop) = &mut hop.body {
        hop.hardware = hardware[1].into();
    }
    let here = |far_netns, its: &str| {
        let hardware = vec![its.to_string()];
        fact(Body::AddressHere(AddressHere {
            netns: 1,
            address,
            far_netns,
            far_index: 2,
            hardware,
            tunnel: String::new(),
        }))
    };
    let link = |netns, index, name: &str, kind: &str| Link {
        netns,
        netns_name: format!("ns{netns}"),
        index,
        name: name.into(),
        kind: kind.into(),
        up: Some(true),
        carrier: Some(true),
        ..Link::default()
    };
    let mut facts = vec![
        wait(10, "curl", "connect", object, 0, 48),
        hop,
        here(2, hardware[0]),
        here(3, hardware[1]),
        fact(Body::Link(Link { vlan_filtering: Some(false), ..link(9, 1, "br0", "bridge") })),
    ];
    for at in 1..=3_u32 {
        let (port, own) = (10 + at, 2);
        let peer = |it: Link, peer| Link { peer: Some(peer), ..it };
        let far = peer(link(at, own, "eth0", "veth"), port);
        let near = peer(link(9, port, "port", "veth"), own);
        let master = (at != 3 || joined).then_some(1);
        let forwards = BridgePort { state: 3, isolated: false };
        let near = Link { master, port: master.map(|_| forwards), ..near };
        facts.extend([far, near].map(|it| fact(Body::Link(it))));
    }
    facts
}

#[test]
fn an_address_that_two_have_on_one_link_is_named_with_both() {
    let found = findings(asks(["02:00:00:00:00:02", "02:00:00:00:00:03"], true));
    assert_eq!(found[0].code, "net.address_duplicate", "{found:?}");
    let both =
        "two have on one link: eth0 of network namespace ns2 and eth0 of network namespace ns3";
    assert!(found[0].title.ends_with(both), "{}", found[0].title);
    assert!(found[0].text.contains("that is eth0 of network namespace ns3"), "{}", found[0].text);
}

#[test]
fn an_answer_that_is_slow_with_nothing_sent_again_is_not_the_addresss() {
    let says = |retransmits: u32| {
        let mut facts = asks(["02:00:00:00:00:02", "02:00:00:00:00:03"], true);
        let object = || inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1);
        facts[0] = wait(10, "curl", "recvfrom", object(), 0, 48);
        let state = SocketState { retransmits, busy_us: 4_000_000, ..SocketState::default() };
        facts.push(with_state(10, "curl", object(), state));
        says("net.address_duplicate", facts)
    };
    assert_eq!((says(5), says(0)), (true, false));
}

#[test]
fn an_address_of_a_gateway_is_not_said_to_be_the_peers() {
    let mut facts = asks(["02:00:00:00:00:02", "02:00:00:00:00:03"], true);
    facts[0] =
        wait(10, "curl", "connect", inet("tcp", 100, "10.0.0.1:40000", "8.8.8.8:443", 2), 0, 48);
    if let Body::NextHop(hop) = &mut facts[1].body {
        hop.gateway = Some(hop.destination);
        hop.destination = "8.8.8.8".parse().expect("an address");
    }
    let title = &findings(facts)[0].title;
    assert!(title.contains("8.8.8.8:443, whose gateway's address 10.0.0.2 two have"), "{title}");
}

#[test]
fn an_address_that_only_one_of_the_link_has_is_no_duplicate() {
    assert!(!says(
        "net.address_duplicate",
        asks(["02:00:00:00:00:02", "02:00:00:00:00:03"], false)
    ));
    assert!(!says("net.address_duplicate", asks(["02:00:00:00:00:02"; 2], true)), "on purpose");
}
