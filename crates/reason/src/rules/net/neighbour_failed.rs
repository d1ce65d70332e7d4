//! net.neighbour_failed: the next hop to an address does not answer ARP, or neighbour discovery of IPv6.
//!
//! Two witnesses: somebody waits for the address, and the kernel's neighbour table says of the next hop to it that nobody answered.
//! An entry that is still incomplete is no such word, so there the table's count of failures must have grown. TCP sends no SYN again
//! while the first one waits for its neighbour, so its counters say nothing. Ends of several sockets with one next hop are one answer.
//! What goes into a tunnel waits for the next hop to the tunnel's other end: where nobody answers for that host, it is the one that is named, and not who
//! is behind it and was never asked.
//!
//! Must not: name an entry that only went stale, or a host that answers ARP and nothing else (a firewall, a dead program: slow_peer).
//! Rejected: the error that the program gets at last (EHOSTUNREACH also comes from a router on the way).

use crate::facts::*;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::net_counter::growth_everywhere;
use crate::measure::tunnels::silent_beyond;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{NOTICED, is_noticed};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The wait below which the neighbour may still answer.
pub(super) static ASKED_AGAIN: Threshold = Threshold::new(
    1.0,
    "s",
    "what one process waits for an address: after this the kernel has asked for its neighbour a second time",
    "default of net.ipv4.neigh.*.retrans_time_ms (RetransTimer of RFC 4861)",
);

/// State of a neighbour entry that has not answered at all (include/uapi/linux/neighbour.h).
const NUD_FAILED: u16 = 0x20;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.neighbour_failed",
    title: "A host or gateway of the local link does not answer",
    theory: "Before a packet leaves by Ethernet the kernel asks the link who has its next hop: the address itself, or the \
             gateway to it, by ARP or by IPv6's neighbour discovery. While nobody answers, packets wait and then are dropped, \
             and the program gets an error after three seconds. A host that is down, a wrong address, VLAN or cable looks like this; a firewall does not.",
    needs: &[
        "a process waits to be connected to an address, or for one that does not acknowledge what it was sent, for 1 s or more",
        "the neighbour entry of the next hop to it is failed, or still incomplete",
    ],
    refuted_by: &[
        Refutation::new("the neighbour answers", "who_answers_arp_and_nothing_else_is_a_slow_peer"),
        Refutation::new(
            "the entry is incomplete because it was just made",
            "a_neighbour_that_was_just_asked_for_may_still_answer",
        ),
        Refutation::new(
            "of the hosts that a tunnel sends to one answers",
            "a_tunnel_with_a_host_that_answers_is_not_what_is_silent",
        ),
        Refutation::new(
            "it is another namespace's neighbour",
            "the_same_address_in_another_namespace_is_another_host",
        ),
    ],
    remedies: &[
        "see whether the host is up, and its cable, VLAN and address are right",
        "if it is the gateway: see the routes",
        "if it is the host that a tunnel sends to: see whether another has taken its place (bridge fdb)",
    ],
    stories: &["S4.3"],
    thresholds: &[&ASKED_AGAIN, &NOTICED],
    finds: Finds::Look(find),
};

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Connection,
    Data,
    Room,
}

impl For {
    /// What is waited for of an address, as a clause.
    pub(super) fn words(self, address: &str) -> String {
        match self {
            Self::Connection => format!("for a connection to {address}"),
            Self::Data => format!("for an answer of {address}"),
            Self::Room => format!("until {address} takes what it sends"),
        }
    }
}

/// Ends that come down to one next hop.
struct Silent<'m> {
    hop: &'m NextHop,
    /// The hop into the tunnel whose other end this one leads to.
    tunnel: Option<&'m NextHop>,
    /// By index.
    ends: Vec<usize>,
    addresses: BTreeSet<SocketAddr>,
    what: For,
}

impl Silent<'_> {
    /// Who does not answer.
    fn neighbour(&self) -> IpAddr {
        self.hop.neighbour()
    }

    fn question(&self) -> &'static str {
        if self.neighbour().is_ipv4() { "ARP" } else { "neighbour discovery" }
    }

    fn counter(&self) -> &'static str {
        if self.neighbour().is_ipv4() { "arp_cache.res_failed" } else { "ndisc_cache.res_failed" }
    }

    /// How many neighbours the kernel asked for in vain: of the whole host, for it counts them once for all namespaces.
    fn failures(&self, measures: &Measures<'_>) -> u64 {
        growth_everywhere(measures.model, self.counter())
    }
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<(u32, u32, IpAddr), Silent<'m>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate() {
        let Some((what, socket, first)) = next_hop(measures, end) else { continue };
        let (hop, tunnel) = match silent_beyond(measures.model, first) {
            Some(beyond) => (beyond, Some(first)),
            None if first.is_silent() => (first, None),
            None => continue,
        };
        let key = (hop.netns, hop.index, hop.neighbour());
        let new = || Silent { hop, tunnel, ends: Vec::new(), addresses: BTreeSet::new(), what };
        let silent = all.entry(key).or_insert_with(new);
        silent.ends.push(at);
        silent.addresses.insert(socket.remote);
    }
    all.into_values().filter_map(|silent| matched(measures, ends, silent)).collect()
}

/// What an end waits for, on which socket, and the next hop that does not answer.
pub(super) fn waited_for<'m>(
    measures: &'m Measures<'m>,
    end: &End,
) -> Option<(For, &'m InetRef, &'m NextHop)> {
    next_hop(measures, end).filter(|(_, _, hop)| hop.is_silent())
}

/// What an end waits for, on which socket, and the next hop to it, whether that answers or not.
pub(super) fn next_hop<'m>(
    measures: &'m Measures<'m>,
    end: &End,
) -> Option<(For, &'m InetRef, &'m NextHop)> {
    let Object::Inet(ino) = end.object else { return None };
    let socket = measures.model.called.socket(ino)?;
    let what = match end.class {
        WaitClass::SocketConnect => For::Connection,
        // An event loop connects without waiting.
        WaitClass::SocketRead if socket.is_connecting() => For::Connection,
        WaitClass::SocketRead => For::Data,
        // One that came to nothing; one that was made and lost its neighbour is kept for minutes.
        WaitClass::SocketWrite if socket.is_connecting() || socket.state == TCP_CLOSE => {
            For::Connection
        }
        WaitClass::SocketWrite => For::Room,
        _ => return None,
    };
    let hop =
        measures.model.net.next_hops.get(&(socket.netns, socket.remote.ip().to_canonical()))?;
    let is_open = matches!(end.kind, EndKind::Remote | EndKind::Link) && !end.victims.is_empty();
    is_open.then_some((what, socket, hop))
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    silent: Silent<'m>,
) -> Option<Match<'m>> {
    let end = End::merged(silent.ends.iter().map(|at| &ends[*at]))?;
    if end.of_one_seconds() < ASKED_AGAIN.value || !is_noticed(measures, &end) {
        return None;
    }
    let failures = silent.failures(measures);
    let is_failed = silent.hop.state & NUD_FAILED != 0;
    let proof = match is_failed || failures > 0 {
        true => Proof::TwoWitnesses,
        false => Proof::OneWitness,
    };
    let wording = wording(measures, &end, &silent, failures);
    let neighbour = silent.neighbour().to_string();
    let by = Culprit::peer(neighbour.clone(), neighbour);
    let matched = Match::new(by, proof, move |_| wording.clone());
    Some(silent.ends.iter().fold(matched, |matched, at| matched.claiming(*at, None)))
}

/// Nothing is at the other end of the interface's wire, or it is off, as the look ends.
fn has_no_carrier(measures: &Measures<'_>, hop: &NextHop) -> bool {
    let is_it = |link: &&Link| (link.netns, link.index) == (hop.netns, hop.index);
    let last = measures.model.net.links.iter().rfind(is_it);
    last.is_some_and(|link| link.up == Some(true) && link.carrier == Some(false))
}

fn title(measures: &Measures<'_>, end: &End, silent: &Silent<'_>) -> String {
    let waits = who_waits(measures, end);
    let address = match (silent.addresses.first(), silent.addresses.len()) {
        (Some(first), 1) => first.to_string(),
        (Some(first), n) => {
            format!("{first} and {}", words::count(n - 1, "other address", "other addresses"))
        }
        (None, _) => silent.hop.destination.to_string(),
    };
    let what = silent.what.words(&address);
    let by = silent.tunnel.map_or_else(String::new, |it| {
        format!(" through {} to {}", it.interface, silent.hop.destination)
    });
    let who = match (silent.hop.gateway, silent.tunnel) {
        (Some(gateway), _) => format!(": gateway {gateway}"),
        (None, Some(_)) => ", which".to_string(),
        (None, None) => ", whose host".to_string(),
    };
    let (question, interface) = (silent.question(), &silent.hop.interface);
    if has_no_carrier(measures, silent.hop) {
        return format!("{waits} {what}{by}, but {interface}, by which it goes, has no carrier");
    }
    format!("{waits} {what}{by}{who} does not answer {question} on {interface}")
}

fn wording(measures: &Measures<'_>, end: &End, silent: &Silent<'_>, failures: u64) -> Wording {
    let hop = silent.hop;
    let neighbour = silent.neighbour();
    let state = if hop.state & NUD_FAILED != 0 { "FAILED" } else { "INCOMPLETE" };
    let ip = command_in(measures.model, hop.netns, "ip");
    let device = words::shell(&hop.interface);
    let asks = || {
        let asks = Action::look(Question::State);
        asks.through(ip.through.as_ref())
    };
    // It takes the question for forged, as it does packets (net.reverse_path), and counts neither.
    let checks = match neighbour.is_ipv4() {
        true => {
            ", and that its own way back to this host leads over that link (else rp_filter=1 keeps it from answering)"
        }
        false => "",
    };
    let mut remedy = vec![Remedy {
        text: format!(
            "see that {} is up, that its cable, VLAN and address are right{checks}; the kernel's word on it",
            hop.gateway.map_or("the host".to_string(), |it| format!("gateway {it}"))
        ),
        command: format!("{ip} neigh show {neighbour} dev {device}"),
        action: Some(asks()),
        ..Remedy::default()
    }];
    if hop.gateway.is_some() {
        remedy.push(Remedy {
            text: "see whether that is the way it should go".into(),
            command: format!("{ip} route get {}", hop.destination),
            action: Some(asks()),
            ..Remedy::default()
        });
    }
    // Behind a gateway that is silent nothing says that the tunnel's other end is gone.
    let to_host = silent.tunnel.filter(|_| hop.gateway.is_none());
    remedy.extend(to_host.map(|tunnel| of_tunnel(measures, tunnel, hop)));
    let carries = silent.tunnel.map_or_else(String::new, |tunnel| {
        format!(
            " Packets for {} go through the tunnel {} to {}.",
            tunnel.destination, tunnel.interface, hop.destination
        )
    });
    let wire = match has_no_carrier(measures, hop) {
        true => " Its wire is not connected, or what is at the other end of it is off.",
        false => "",
    };
    Wording {
        title: title(measures, end, silent),
        text: format!(
            "{} pass so.{carries}{wire} Nobody on {} answers for {neighbour}: its neighbour entry is {state}, and what is sent there never leaves \
             this host.",
            words::of_window(end.seconds, measures.wall_seconds()),
            hop.interface,
        ),
        evidence: evidence(end, silent, state, failures),
        remedy,
    }
}

fn evidence(end: &End, silent: &Silent<'_>, state: &str, failures: u64) -> Vec<Evidence> {
    let (hop, neighbour) = (silent.hop, silent.neighbour());
    let age = hop.updated_ns as f64 / 1e9;
    let mut evidence = vec![
        Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
        Evidence::new("longest wait for it", end.longest_seconds, "s", "sched_switch"),
        Evidence::new(
            format!("neighbour {neighbour} is {state} on {}, for", hop.interface),
            age,
            "s",
            "rtnetlink RTM_GETNEIGH",
        ),
    ];
    if failures > 0 {
        let fact = "neighbours of this host that were asked for in vain";
        evidence.push(Evidence::new(
            fact,
            failures as f64,
            "1",
            format!("/proc/net/stat {}", silent.counter()),
        ));
    }
    evidence
}

/// The table that says to which host the tunnel sends: who fills it may not know that the host is gone.
fn of_tunnel(measures: &Measures<'_>, tunnel: &NextHop, hop: &NextHop) -> Remedy {
    let bridge = command_in(measures.model, tunnel.netns, "bridge");
    let device = words::shell(&tunnel.interface);
    // Where the neighbour's hardware address is known, the entry may be its own or that of all others.
    let entry = match tunnel.is_silent() {
        true => "00:00:00:00:00:00",
        false => "MAC",
    };
    Remedy {
        text: format!(
            "if another host has taken its place, enter that one ({bridge} fdb append {entry} dev {device} dst HOST) and take this one away \
             ({bridge} fdb del {entry} dev {device} dst {}), with the address that stands there in the tunnel's table",
            hop.destination
        ),
        command: format!("{bridge} fdb show dev {device}"),
        action: Some(Action::look(Question::State).through(bridge.through.as_ref())),
        ..Remedy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;
    use crate::rules::wording::Severity;

    const CODE: &str = "net.neighbour_failed";
    const NUD_INCOMPLETE: u16 = 0x01;

    /// The next hop of 192.0.2.1 is in a state.
    fn hop(state: u16) -> NextHop {
        NextHop {
            kind: String::new(),
            netns: 1,
            destination: "192.0.2.1".parse().expect("an address"),
            gateway: None,
            interface: "eth0".into(),
            index: 2,
            state,
            updated_ns: 1_500_000_000,
            path_mtu_bytes: None,
            hardware: String::new(),
            tunnel_ends: Vec::new(),
        }
    }

    /// A client waits to be connected to it until then, in tenths of a second.
    fn connects(to: u64, hop: NextHop) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
        let mut facts = vec![wait(10, "curl", "connect", object, 0, to), fact(Body::NextHop(hop))];
        facts.extend(counters(&[("arp_cache.res_failed", 3, 4)]));
        facts
    }

    #[test]
    fn a_connect_to_a_host_that_nobody_answers_for_is_named() {
        for state in [NUD_FAILED, NUD_INCOMPLETE] {
            let found = findings(connects(30, hop(state)));
            assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "192.0.2.1"));
            assert_eq!(found[0].severity, Severity::Critical);
            assert_eq!(
                found[0].title,
                "curl waits for a connection to 192.0.2.1:80, whose host does not answer ARP on eth0"
            );
            assert!(
                found[0].text.contains("3 s of 5 s pass so. Nobody on eth0"),
                "{}",
                found[0].text
            );
        }
    }

    #[test]
    fn an_event_loop_whose_connection_came_to_nothing_waited_for_a_connection() {
        let title = |state| {
            let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", state);
            let waits = wait(10, "curl", "sendto", object, 0, 30);
            findings(vec![waits, fact(Body::NextHop(hop(NUD_FAILED)))])[0].title.clone()
        };
        assert!(title(TCP_CLOSE).starts_with("curl waits for a connection to"));
        assert!(title(1).starts_with("curl waits until 192.0.2.1:80 takes what it sends"));
    }

    #[test]
    fn an_interface_without_a_carrier_is_said() {
        let title = |carrier| {
            let (netns, index, name) = (1, 2, "eth0".to_string());
            let carrier = Some(carrier);
            let link = Link { netns, index, name, up: Some(true), carrier, ..Link::default() };
            let mut facts = connects(30, hop(NUD_FAILED));
            facts.push(fact(Body::Link(link)));
            findings(facts)[0].title.clone()
        };
        assert!(title(false).ends_with("but eth0, by which it goes, has no carrier"));
        assert!(title(true).ends_with("does not answer ARP on eth0"));
    }

    #[test]
    fn behind_a_gateway_the_gateway_is_named() {
        let gateway = Some("10.0.0.254".parse().expect("an address"));
        let found = findings(connects(30, NextHop { gateway, ..hop(NUD_FAILED) }));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "10.0.0.254"));
        assert!(found[0].title.ends_with(": gateway 10.0.0.254 does not answer ARP on eth0"));
        let ways = &found[0].remedy;
        assert_eq!(ways[0].command, "ip neigh show 10.0.0.254 dev eth0");
        assert_eq!(ways[1].command, "ip route get 192.0.2.1");
    }

    #[test]
    fn a_peer_that_is_gone_while_it_owes_an_answer_is_named() {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        let facts = |state| {
            let asks = wait(10, "client", "recvfrom", object.clone(), 0, 48);
            vec![asks, fact(Body::NextHop(hop(state))), look_at(TargetKind::Process, 10)]
        };
        let found = findings(facts(NUD_FAILED));
        assert!(
            found[0].title.starts_with("client waits for an answer of 192.0.2.1:80, whose host")
        );
        assert_eq!(codes(facts(2)), ["net.slow_peer"]);
    }

    #[test]
    fn sockets_behind_one_gateway_are_one_answer() {
        let gateway = Some("10.0.0.254".parse().expect("an address"));
        let mut facts = connects(20, NextHop { gateway, ..hop(NUD_FAILED) });
        let other = inet("tcp", 101, "10.0.0.1:40001", "192.0.2.7:80", 2);
        facts.push(wait(10, "curl", "connect", other, 20, 40));
        let destination = "192.0.2.7".parse().expect("an address");
        facts.push(fact(Body::NextHop(NextHop { gateway, destination, ..hop(NUD_FAILED) })));
        let found = findings(facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].title.contains("192.0.2.1:80 and 1 other address: gateway"),
            "{}",
            found[0].title
        );
    }

    /// A client waits for an address behind vx0, which sends to two hosts whose next hops are so.
    fn through_tunnel(inner: u16, outer: [u16; 2]) -> Vec<Fact> {
        let at = |text: &str| text.parse().expect("an address");
        let ends = ["10.5.0.9", "10.5.0.10"];
        let into = NextHop {
            kind: "vxlan".into(),
            interface: "vx0".into(),
            index: 7,
            hardware: "02:00:00:00:00:77".into(),
            tunnel_ends: ends.map(at).to_vec(),
            ..hop(inner)
        };
        let mut facts = connects(30, into);
        let beyond = |(end, state)| NextHop { destination: at(end), ..hop(state) };
        facts.extend(ends.into_iter().zip(outer).map(|it| fact(Body::NextHop(beyond(it)))));
        facts
    }

    #[test]
    fn behind_a_tunnel_the_host_that_it_sends_to_is_named() {
        const PERMANENT: u16 = 0x80;
        for inner in [NUD_INCOMPLETE, PERMANENT] {
            let found = findings(through_tunnel(inner, [NUD_FAILED; 2]));
            assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "10.5.0.9"));
            assert_eq!(
                found[0].title,
                "curl waits for a connection to 192.0.2.1:80 through vx0 to 10.5.0.9, which does not answer ARP on eth0"
            );
            assert!(
                found[0].text.contains("Packets for 192.0.2.1 go through the tunnel vx0"),
                "{}",
                found[0].text
            );
            assert_eq!(found[0].remedy[1].command, "bridge fdb show dev vx0");
        }
    }

    #[test]
    fn behind_a_tunnel_the_gateway_to_its_hosts_is_named_and_the_hosts_are_not_to_be_replaced() {
        let gateway = Some("10.0.0.254".parse().expect("an address"));
        let mut facts = through_tunnel(NUD_INCOMPLETE, [NUD_FAILED; 2]);
        for fact in &mut facts {
            match &mut fact.body {
                Body::NextHop(hop) if hop.kind.is_empty() => hop.gateway = gateway,
                _ => (),
            }
        }
        let found = findings(facts);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "10.0.0.254"));
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 192.0.2.1:80 through vx0 to 10.5.0.9: gateway 10.0.0.254 does not answer ARP on eth0"
        );
        let commands: Vec<&str> = found[0].remedy.iter().map(|way| &*way.command).collect();
        assert_eq!(commands, ["ip neigh show 10.0.0.254 dev eth0", "ip route get 10.5.0.9"]);
    }

    #[test]
    fn a_tunnel_with_a_host_that_answers_is_not_what_is_silent() {
        const STALE: u16 = 0x04;
        let found = findings(through_tunnel(NUD_FAILED, [NUD_FAILED, STALE]));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "192.0.2.1"));
        assert_eq!(codes(through_tunnel(STALE, [NUD_FAILED, STALE])), ["net.slow_peer"]);
    }

    #[test]
    fn who_answers_arp_and_nothing_else_is_a_slow_peer() {
        for state in [0, 2, 4, 8, 16, 0x80] {
            assert_eq!(codes(connects(30, hop(state))), ["net.slow_peer"], "{state}");
        }
    }

    #[test]
    fn a_neighbour_that_was_just_asked_for_may_still_answer() {
        assert!(says(CODE, connects(11, hop(NUD_INCOMPLETE))));
        assert!(!says(CODE, connects(9, hop(NUD_INCOMPLETE))));
    }

    #[test]
    fn a_client_that_looks_at_the_clock_waits_all_the_same() {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
        let mut facts = connects(7, hop(NUD_FAILED));
        facts.push(wait(10, "curl", "connect", object, 7, 14));
        assert!(says(CODE, facts));
    }

    #[test]
    fn an_entry_that_is_only_incomplete_is_one_witness_without_a_failure() {
        let surely = |facts| findings(facts)[0].confidence;
        let mut facts = connects(30, hop(NUD_INCOMPLETE));
        let before = surely(facts.clone());
        facts.retain(|fact| !matches!(fact.body, Body::NetCounters(_)));
        assert!(surely(facts) < before);
    }

    #[test]
    fn the_same_address_in_another_namespace_is_another_host() {
        let other = NextHop { netns: 2, ..hop(NUD_FAILED) };
        assert_eq!(codes(connects(30, other)), ["net.slow_peer"]);
    }
}
