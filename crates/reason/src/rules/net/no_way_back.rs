//! net.no_way_back: who is asked to connect has no route to who asks.
//!
//! Two witnesses: the routes of the namespace that has the address say so of who asks, and that namespace counts packets that no route leads
//! for while somebody waits; of IPv6, which does not count those that a route refuses, its listeners' attempts that came to nothing. A
//! listener drops such an attempt without a word, and no packet of it is ever sent, so none is dropped. Must not: say so where the counters
//! stand still (behind a translation it is another address that is answered), or where two networks of this host have the
//! address. Rejected: a packet on the way back that a router drops
//! (packet_dropped.rs has it).
//!
//! Edit together: probe's readers/next_hops.rs.

use crate::facts::*;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{NOTICED, is_noticed, of_namespace};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.no_way_back",
    title: "Who is asked to connect has no route back",
    theory: "A SYN that arrives is answered by way of the routes of whoever has the address. Where none leads to its sender, the kernel drops \
             the attempt at the listener without a word: no answer is made, nothing is refused, and the client asks again, later each time. \
             A missing default route of a container, a virtual machine or a second interface looks like this.",
    needs: &[
        "a process waits to be connected to an address that another network namespace of this host has",
        "the routes of that namespace say that nothing is sent to who asks",
        "it counts packets that no route leads for meanwhile; of IPv6 attempts that its listeners dropped count too",
    ],
    refuted_by: &[
        Refutation::new(
            "nothing was dropped there for want of a route",
            "a_namespace_that_counts_nothing_answers_another_address",
        ),
        Refutation::new(
            "it is another address that has no way back",
            "another_address_is_another_way",
        ),
    ],
    remedies: &[
        "give it a route to who asks",
        "or translate the addresses of who asks on the way (masquerade)",
    ],
    stories: &[],
    thresholds: &[&NOTICED],
    finds: Finds::Look(find),
};

/// What is counted where an answer finds no route.
fn counters(to: IpAddr) -> &'static [&'static str] {
    match to {
        IpAddr::V4(_) => &["Ip.OutNoRoutes"],
        IpAddr::V6(_) => &["Ip6.OutNoRoutes", "TcpExt.ListenDrops"],
    }
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<(u32, IpAddr, u32), (&'m NoWayBack, Vec<usize>)> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        if let Some((_, way)) = asked(measures, end) {
            let of = all.entry((way.netns, way.address, way.far_netns));
            of.or_insert_with(|| (way, Vec::new())).1.push(at);
        }
    }
    all.into_values().filter_map(|(way, own)| matched(measures, ends, way, &own)).collect()
}

/// The connection that an end waits for, and what its other end lacks.
fn asked<'m>(measures: &'m Measures<'m>, end: &End) -> Option<(&'m InetRef, &'m NoWayBack)> {
    let Object::Inet(ino) = end.object else { return None };
    let socket = measures.model.called.socket(ino)?;
    let is_connecting = match end.class {
        WaitClass::SocketConnect => true,
        // An event loop connects without waiting.
        WaitClass::SocketRead | WaitClass::SocketWrite => socket.is_connecting(),
        _ => false,
    };
    let to = (socket.netns, socket.remote.ip().to_canonical());
    let way = measures.model.net.drop_causes.no_ways_back.get(&to)?;
    let is_open = matches!(end.kind, EndKind::Remote | EndKind::Link) && !end.victims.is_empty();
    let is_its = way.source == socket.local.ip().to_canonical() && is_at_one_place(measures, to);
    (is_connecting && is_open && is_its).then_some((socket, way))
}

/// Whether no two network namespaces of this host have an address: which of them a client reaches, nobody has followed.
fn is_at_one_place(measures: &Measures<'_>, to: (u32, IpAddr)) -> bool {
    let here = measures.model.net.drop_causes.addresses_here.get(&to);
    let places: BTreeSet<u32> = here.into_iter().flatten().map(|it| it.far_netns).collect();
    places.len() <= 1
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    way: &'m NoWayBack,
    own: &[usize],
) -> Option<Match<'m>> {
    let end = End::merged(own.iter().map(|at| &ends[*at]))?;
    let counted: Vec<(&str, u64)> = counters(way.source)
        .iter()
        .filter_map(|name| Some((*name, growth(measures.model, way.far_netns, name)?)))
        .filter(|(_, count)| *count > 0)
        .collect();
    if counted.is_empty() || !is_noticed(measures, &end) {
        return None;
    }
    let (socket, _) = asked(measures, &ends[*own.first()?])?;
    let wording = wording(measures, &end, (socket, way), &counted);
    let name = format!("route to {}", way.source);
    let by = Culprit { kind: CulpritKind::Setting, name, ..Culprit::default() };
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(own.iter().fold(matched, |matched, at| matched.claiming(*at, None)))
}

/// What the routes there say of who asks.
fn said(answer: NoRoute) -> &'static str {
    match answer {
        NoRoute::None => "no route leads to",
        NoRoute::Unreachable => "a route says unreachable of",
        NoRoute::Blackhole => "a black hole route swallows what goes to",
        NoRoute::Prohibit => "a route prohibits what goes to",
    }
}

fn wording(
    measures: &Measures<'_>,
    end: &End,
    (socket, way): (&InetRef, &NoWayBack),
    counted: &[(&str, u64)],
) -> Wording {
    let model = measures.model;
    let waits = who_waits(measures, end);
    let (source, address) = (way.source, way.address);
    let there = of_namespace(model, way.far_netns);
    let place =
        if there.is_empty() { "the host".to_string() } else { there.replacen(" of ", "", 1) };
    let ip = command_in(model, way.far_netns, "ip");
    let asks = Action::look(Question::State).through(ip.through.as_ref());
    let mut evidence = vec![Evidence::new("time waited for it", end.seconds, "s", "sched_switch")];
    let of = |name: &str| match name {
        "TcpExt.ListenDrops" => "attempts to connect that listeners there dropped",
        _ => "packets there that no route leads for",
    };
    evidence.extend(counted.iter().map(|(name, count)| {
        Evidence::new(of(name), *count as f64, "1", format!("/proc/net/snmp, netstat {name}"))
    }));
    let route = match way.answer {
        NoRoute::None => format!(
            "give it a route, by the gateway that leads there: {ip} route add {source} via GATEWAY; the kernel's word on it"
        ),
        _ => {
            "see which route that is, and take it away or add a longer one; the kernel's word on it"
                .to_string()
        }
    };
    Wording {
        title: format!(
            "{waits} for a connection to {}, which has no way back: {} {source} there",
            socket.remote,
            said(way.answer)
        ),
        text: format!(
            "{} pass so. {address} is an address of {place}, and {} {source} from there: what asks for a connection arrives, and is \
             dropped at the listener without an answer.",
            words::of_window(end.seconds, measures.wall_seconds()),
            said(way.answer),
        ),
        evidence,
        remedy: vec![Remedy {
            text: route,
            command: format!("{ip} route get {source} from {address}"),
            action: Some(asks),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    const CODE: &str = "net.no_way_back";

    /// A client of namespace 1 waits to be connected, and of who has an address it is known that it has no way back; that namespace, the
    /// same here, counts so many packets without a route.
    fn connects(address: &str, counted: u64, answer: NoRoute) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
        let way = NoWayBack {
            netns: 1,
            source: "10.0.0.1".parse().expect("an address"),
            address: address.parse().expect("an address"),
            far_netns: 1,
            answer,
        };
        let mut facts =
            vec![wait(10, "curl", "connect", object, 0, 30), fact(Body::NoWayBack(way))];
        facts.extend(counters(&[("Ip.OutNoRoutes", 3, 3 + counted)]));
        facts
    }

    #[test]
    fn who_has_no_route_to_its_client_is_named() {
        let found = findings(connects("192.0.2.1", 3, NoRoute::None));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "route to 10.0.0.1"));
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 192.0.2.1:80, which has no way back: no route leads to 10.0.0.1 there"
        );
        assert_eq!(found[0].remedy[0].command, "ip route get 10.0.0.1 from 192.0.2.1");
        assert_eq!(found.len(), 1, "{found:?}");
        let prohibits = findings(connects("192.0.2.1", 3, NoRoute::Prohibit));
        assert!(prohibits[0].title.ends_with("a route prohibits what goes to 10.0.0.1 there"));
    }

    #[test]
    fn a_namespace_that_counts_nothing_answers_another_address() {
        let mut facts = connects("192.0.2.1", 0, NoRoute::None);
        assert!(!codes(facts.clone()).contains(&CODE.into()));
        facts.retain(|fact| !matches!(fact.body, Body::NetCounters(_)));
        facts.extend(counters(&[("TcpExt.ListenDrops", 3, 9)]));
        assert!(!codes(facts).contains(&CODE.into()), "a listener drops for other reasons too");
    }

    #[test]
    fn of_an_address_that_two_networks_have_nobody_knows_whose_way_it_is() {
        let here = |far_netns| {
            let (netns, address) = (1, "192.0.2.1".parse().expect("an address"));
            let (far_index, hardware, tunnel) = (2, Vec::new(), String::new());
            let of = AddressHere { netns, address, far_netns, far_index, hardware, tunnel };
            fact(Body::AddressHere(of))
        };
        let with = |all: Vec<Fact>| codes([connects("192.0.2.1", 3, NoRoute::None), all].concat());
        assert!(with(vec![here(1), here(1)]).contains(&CODE.into()));
        assert!(!with(vec![here(1), here(7)]).contains(&CODE.into()));
    }

    #[test]
    fn another_address_is_another_way() {
        assert!(!codes(connects("192.0.2.2", 3, NoRoute::None)).contains(&CODE.into()));
    }
}
