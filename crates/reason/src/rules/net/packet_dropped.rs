//! net.packet_dropped: this host drops the packets of a connection that somebody waits for, and the kernel says why.
//!
//! Owns what the rules of one reason (a packet filter, a full table, the way back, a backlog) leave: a length, a route, a checksum, a filter of
//! tc, a program, a bridge's port. Two witnesses: the kernel names packets of the waiter's very socket as dropped while it waited, and the
//! waiter got no answer. Must not: name who decided that (the reason does not say it), or count drops that nobody waits for.
//! Rejected: a rule for each reason (they differ by a clause and by where one looks).
//!
//! Edit together: drop_reasons.rs, drop_looks.rs.

use crate::facts::{Link, NOT_PASSED_ON, PacketDrops};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::measure::packet_drops::Dropped;
use crate::measure::tcp_stream::Stream;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::drop_looks::Look;
use crate::rules::net::drop_reasons::{Cause, TOO_LONG_FOR_PEER, cause};
use crate::rules::net::dropped_packets::{
    LOST_ONE, Losing, NOTICED, claiming, losing, noticed, of_namespace, packets, waited_for,
};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.packet_dropped",
    title: "This host drops packets that somebody waits for, and its kernel says why",
    theory: "A packet that is too long for an interface on its way, that no route leads on, whose checksum is wrong, or that a filter or a program \
             at an interface refuses, is dropped without a word to the program that waits: TCP sends it again, later each time, and a question by \
             UDP is never answered. The kernel names the reason of each drop, and the interface.",
    needs: &[
        "somebody waits for a connection, an answer or room to send for 0.2 s or more",
        "the kernel dropped packets of that very socket meanwhile, on this host, in any of its network namespaces",
    ],
    refuted_by: &[
        Refutation::new(
            "what was dropped was another flow's",
            "drops_of_another_flow_are_not_waited_for",
        ),
        Refutation::new("it was dropped long before the wait", "a_drop_before_the_wait_is_over"),
        Refutation::new(
            "the reason has a rule of its own",
            "a_reason_with_a_rule_of_its_own_is_left_to_it",
        ),
    ],
    remedies: &["change what drops them: the MTU, the route, the filter, the program"],
    stories: &["S2.7"],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

/// The reason of a packet whose TTL is used up, and of one whose header is damaged.
const OUT_OF_HOPS: &str = "IP_INHDR";
/// The reason of a packet that a queueing discipline without a reason of its own drops.
const NO_QUEUE: &str = "QDISC_DROP";
/// The first time that a connection is asked for again is after so long (TCP_TIMEOUT_INIT), and a moment.
const FIRST_AGAIN_NS: u64 = 1_500_000_000;

/// Where and why: namespace, interface, reason, function.
type Place<'m> = (u32, u32, &'m str, &'m str);

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let drops = &measures.model.net.drops;
    let with_cause = drops.iter().filter(|it| cause_of(measures, it).is_some());
    let reasons: BTreeSet<&str> = with_cause.map(|it| it.reason.as_str()).collect();
    // Of an end whose packets were dropped for several reasons: the one of most.
    let mut by_end: BTreeMap<usize, (u64, Losing<'m>)> = BTreeMap::new();
    for mut losing in reasons.into_iter().flat_map(|reason| losing(measures, ends, reason)) {
        let end = &ends[losing.end];
        losing.dropped.retain(|it| {
            cause_of(measures, it.kind).is_some() && is_meanwhile(it, end) && is_asker_s(it, end)
        });
        if is_sent_and_not_again(measures, &losing, end) {
            continue;
        }
        let Some(place) = losing.dropped.first().map(place) else { continue };
        losing.dropped.retain(|it| self::place(it) == place);
        let packets = losing.dropped.iter().map(|it| it.flow.packets).sum();
        match by_end.get(&losing.end) {
            Some((most, _)) if *most >= packets => {}
            _ => drop(by_end.insert(losing.end, (packets, losing))),
        }
    }
    let mut all: BTreeMap<Place<'m>, Vec<Losing<'m>>> = BTreeMap::new();
    for (_, losing) in by_end.into_values() {
        all.entry(place(&losing.dropped[0])).or_default().push(losing);
    }
    all.into_values().filter_map(|losing| matched(measures, ends, &losing)).collect()
}

fn place<'m>(dropped: &Dropped<'m>) -> Place<'m> {
    let kind = dropped.kind;
    (kind.netns, kind.index, &kind.reason, &kind.function)
}

/// Whether packets were dropped while somebody waited, or just before: what is sent, and dropped, is waited for from then on. TCP sends again after
/// ever twice as long: where nothing was dropped for longer than that, it has come through.
fn is_meanwhile(dropped: &Dropped<'_>, end: &End) -> bool {
    let link = &end.links[end.named];
    let (first_ns, last_ns) = (dropped.flow.first_ns, dropped.flow.last_ns);
    let before_ns = link.since_ns.saturating_sub((LOST_ONE.value * 1e9) as u64);
    let again_ns = 2 * last_ns.saturating_sub(first_ns.min(link.since_ns)) + FIRST_AGAIN_NS;
    let goes_on = dropped.flow.protocol != "tcp" || link.end_ns <= last_ns.saturating_add(again_ns);
    last_ns >= before_ns && first_ns <= link.end_ns && goes_on
}

/// Of a question to a name server whether it was of those who wait: others ask it too.
fn is_asker_s(dropped: &Dropped<'_>, end: &End) -> bool {
    let is_server = matches!(end.object, Object::DnsServer(..));
    let sender = dropped.flow.sender.as_ref().filter(|_| is_server && dropped.is_outgoing);
    sender.is_none_or(|by| end.victims.contains_key(&by.pid))
}

/// Whether a stream has sent nothing again, and is not refused: then what was dropped was a copy, for a capture or another port of a bridge. What
/// is no stream, and no question on a socket that is waited on, is no question either.
fn is_sent_and_not_again(measures: &Measures<'_>, losing: &Losing<'_>, end: &End) -> bool {
    let Object::Inet(ino) = end.object else {
        return !matches!(end.object, Object::DnsServer(..));
    };
    let is_stream =
        losing.dropped.first().is_some_and(|it| it.is_outgoing && it.flow.protocol == "tcp");
    let stream = measures.tcp_streams.iter().find(|stream| stream.socket.ino == ino);
    let is_refused = |stream: &Stream<'_>| {
        measures.graph.undelivered(stream.socket).is_some_and(|it| it.is_refused())
    };
    is_stream
        && !losing.connects
        && stream.is_some_and(|it| it.change.retransmits == 0 && !is_refused(it))
}

/// Whether packets for somebody else were dropped where none is passed on.
fn is_not_passed_on(measures: &Measures<'_>, losing: &Losing<'_>) -> bool {
    let Dropped { kind, flow, is_outgoing } = &losing.dropped[0];
    let settings = &measures.model.net.drop_causes.reverse_paths;
    let forwards = settings.get(&(kind.netns, kind.index)).and_then(|it| it.forwards);
    // What a process sends itself is not passed on, but refused.
    let is_through = !is_outgoing || flow.sender.is_none() || losing.netns != Some(kind.netns);
    // The setting is that of IPv4.
    let is_v4 = flow.to.ip().to_canonical().is_ipv4();
    let is_so = is_v4 && is_through && !kind.interface.is_empty();
    is_so && NOT_PASSED_ON.contains(&&*kind.reason) && forwards == Some(false)
}

/// Whether packets had passed as many routers as they may: the kernel says of them what it says of damaged headers (ip_forward), and reports it to
/// who sent them, which is counted. Fragments that never came are counted there too, and are no such drop.
fn is_out_of_hops(measures: &Measures<'_>, kind: &PacketDrops) -> bool {
    let counted = |name| growth(measures.model, kind.netns, name).is_some_and(|it| it > 0);
    kind.reason == OUT_OF_HOPS
        && ["Icmp.OutTimeExcds", "Icmp6.OutTimeExcds"].into_iter().any(counted)
}

/// The interface at which packets were dropped, as it was read last.
fn interface<'m>(measures: &'m Measures<'_>, kind: &PacketDrops) -> Option<&'m Link> {
    let mut links = measures.model.net.links.iter().rev();
    links.find(|link| (link.netns, link.index) == (kind.netns, kind.index))
}

/// Why packets were dropped, as far as the reason and what else was read say it.
fn cause_of(measures: &Measures<'_>, kind: &PacketDrops) -> Option<Cause> {
    let link = || interface(measures, kind);
    // Without a carrier an interface has a queueing discipline that drops all (noop_qdisc).
    if kind.reason == NO_QUEUE && link().is_some_and(|link| link.carrier == Some(false)) {
        let clause = "the interface has no carrier: its cable or its other end is down".into();
        return Some(Cause { clause, look: Look::Interface });
    }
    if is_out_of_hops(measures, kind) {
        let clause = "their TTL is used up, as where routes lead in a circle".into();
        return Some(Cause { clause, look: Look::Routes });
    }
    let mut found = cause(kind)?;
    let ends = || link().and_then(|own| Some((own, measures.model.net.peer(own)?)));
    if found.look == Look::MtuOfPeer && ends().is_some_and(|(own, peer)| peer.mtu < own.mtu) {
        found.clause = TOO_LONG_FOR_PEER.into();
    }
    Some(found)
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    losing: &[Losing<'m>],
) -> Option<Match<'m>> {
    let end = noticed(measures, ends, losing)?;
    let kind = losing.first()?.dropped.first()?.kind;
    let cause = match is_not_passed_on(measures, &losing[0]) {
        true => Cause {
            clause: "they are for an address that is not there, and forwarding is off".into(),
            look: Look::PassingOn,
        },
        false => cause_of(measures, kind)?,
    };
    let said = Said { measures, losing, cause };
    let by = Culprit::setting(said.culprit(), said.setting());
    let wording = said.wording(&end);
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(claiming(matched, losing))
}

/// What is said of drops at one place.
struct Said<'a, 'm> {
    measures: &'m Measures<'m>,
    losing: &'a [Losing<'m>],
    cause: Cause,
}

impl Said<'_, '_> {
    fn first(&self) -> &Dropped<'_> {
        &self.losing[0].dropped[0]
    }

    /// The kernel's word.
    fn reason(&self) -> &str {
        let kind = self.first().kind;
        if kind.function.is_empty() { &kind.reason } else { &kind.function }
    }

    /// The interface, as far as the packet said one.
    fn interface(&self) -> Option<&str> {
        Some(self.first().kind.interface.as_str()).filter(|name| !name.is_empty())
    }

    /// The setting of forwarding; a dot within an interface's name is no part of it where slashes are written.
    fn forwarding(&self, between: char) -> String {
        ["net", "ipv4", "conf", &self.first().kind.interface, "forwarding"]
            .join(&between.to_string())
    }

    /// The interface whose setting drops them, where that is known: where they were dropped, or of a veth its other end.
    fn link(&self) -> Option<&Link> {
        let link = interface(self.measures, self.first().kind)?;
        let peer = || self.measures.model.net.peer(link);
        if self.cause.look == Look::MtuOfPeer { peer() } else { Some(link) }
    }

    fn mtu(&self) -> Option<(&Link, u32)> {
        let is_mtu = matches!(self.cause.look, Look::Mtu | Look::MtuOfPeer);
        self.link().filter(|link| is_mtu && link.mtu != 0).map(|link| (link, link.mtu))
    }

    /// What is longer than it, in a clause's brackets.
    fn mtu_said(&self) -> String {
        match self.mtu() {
            None => String::new(),
            Some((_, bytes)) if self.cause.look == Look::Mtu => format!(" ({bytes} bytes)"),
            Some((link, bytes)) => {
                let of = of_namespace(self.measures.model, link.netns);
                format!(" ({}{of}: {bytes} bytes)", link.name)
            }
        }
    }

    /// ` at eth0 of network namespace blue`.
    fn place(&self) -> String {
        let at = self.interface().map_or_else(String::new, |name| format!(" at {name}"));
        at + &of_namespace(self.measures.model, self.first().kind.netns)
    }

    fn culprit(&self) -> String {
        let at = self.interface().unwrap_or("this host");
        match self.cause.look {
            Look::PassingOn => format!("forwarding of {at}"),
            Look::Mtu | Look::MtuOfPeer => match self.link() {
                Some(link) => format!("MTU of {}", link.name),
                None if self.cause.look == Look::Mtu => format!("MTU of {at}"),
                None => format!("MTU of the other end of {at}"),
            },
            Look::Routes => format!("routes to {}", self.first().flow.to.ip().to_canonical()),
            Look::Filters => format!("tc filter of {at}"),
            Look::Programs => format!("program at {at}"),
            Look::CgroupPrograms => "filter of the socket or its cgroup".into(),
            _ => at.to_string(),
        }
    }

    /// Where it is set; the kernel's word, where that does not say it.
    fn setting(&self) -> String {
        let at = self.interface().unwrap_or_default();
        match (self.cause.look, self.mtu()) {
            (Look::PassingOn, _) => self.forwarding('.'),
            (Look::Mtu | Look::MtuOfPeer, Some((link, mtu))) => {
                format!("dev {} mtu {mtu}", link.name)
            }
            (Look::Filters, _) => format!("tc filter, dev {at}"),
            _ => self.reason().to_string(),
        }
    }

    fn wording(&self, end: &End) -> Wording {
        let (measures, first) = (self.measures, self.first());
        let packets = packets(self.losing);
        let waits = who_waits(measures, end);
        let waited = waited_for(&self.losing[0], self.losing);
        let whose =
            if first.is_outgoing { "its packets are" } else { "the packets that come back are" };
        let (place, clause) = (self.place(), &self.cause.clause);
        let again = match first.flow.protocol.as_str() {
            "tcp" => " TCP sends each of them again, later each time.",
            _ => "",
        };
        let mtu = self.mtu_said();
        let mut evidence = vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("of its packets dropped{place}: {}", self.reason()),
                packets as f64,
                "1",
                "kfree_skb",
            ),
        ];
        if let Some((link, mtu)) = self.mtu() {
            let said = format!("MTU of {}", link.name);
            evidence.push(Evidence::new(said, f64::from(mtu), "byte", "rtnetlink RTM_GETLINK"));
        }
        Wording {
            title: format!("{waits} {waited}, but {whose} dropped on this host{place}: {clause}"),
            text: format!(
                "{} pass so. {} of it {} dropped{place}: {clause}{mtu}.{again}",
                words::of_window(end.seconds, measures.wall_seconds()),
                words::count(packets as usize, "packet", "packets"),
                if packets == 1 { "was" } else { "were" },
            ),
            evidence,
            remedy: self.pass_on().into_iter().chain([self.remedy()]).collect(),
        }
    }

    /// Has them passed on.
    fn pass_on(&self) -> Option<Remedy> {
        let kind = self.first().kind;
        if self.cause.look != Look::PassingOn {
            return None;
        }
        let sysctl = command_in(self.measures.model, kind.netns, "sysctl");
        let name = self.forwarding(if kind.interface.contains('.') { '/' } else { '.' });
        let set = |value: u32| format!("{sysctl} -w {}", words::shell(&format!("{name}={value}")));
        let path = format!("/proc/sys/{}", self.forwarding('/'));
        let action = Action::write(&path, 1, 0).through(sysctl.through.as_ref());
        let text = "pass on what comes in there for others, if this is meant to be a router";
        let mut links = self.measures.model.net.links.iter();
        let link = links.find(|link| link.netns == kind.netns)?;
        // Of another namespace the file is that of a process there, or nobody's.
        if !link.netns_name.is_empty() && sysctl.through.is_none() {
            return Some(Remedy { command: set(1), undo: set(0), ..Remedy::to(text) });
        }
        Some(Remedy::to(text).set(action, set(1), set(0)))
    }

    /// Where to look; what is to be changed there is for whoever set it. Of a packet that said no interface none can be looked at.
    fn remedy(&self) -> Remedy {
        let (model, kind) = (self.measures.model, self.first().kind);
        let (netns, device) = match self.link() {
            Some(link) if self.cause.look == Look::MtuOfPeer => (link.netns, &link.name),
            _ => (kind.netns, &kind.interface),
        };
        let device = words::shell(device);
        let to = self.first().flow.to.ip().to_canonical();
        let look = match self.cause.look {
            look if self.interface().is_some() || look.is_of_no_interface() => look,
            _ => Look::Kernel,
        };
        let is_incoming = kind.reason == "TC_INGRESS";
        let (text, tool, words) = look.command(&device, to, is_incoming);
        let tool = command_in(model, netns, tool);
        Remedy {
            text: text.into(),
            command: format!("{tool} {words}"),
            action: Some(Action::look(Question::State).through(tool.through.as_ref())),
            ..Remedy::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, fact};

    const CODE: &str = "net.packet_dropped";

    /// A client waits for an answer, in tenths of a second, while packets of a flow are dropped for a reason.
    fn asks(from: u64, until: u64, by: &str, reason: &str) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        let link = Link { netns: 1, index: 2, name: "eth0".into(), mtu: 1_400, ..Link::default() };
        vec![
            look_at(TargetKind::Process, 10),
            wait(10, "curl", "recvfrom", object, from, until),
            dropped(reason, "tcp", by, "192.0.2.1:80", 4),
            fact(Body::Link(link)),
        ]
    }

    #[test]
    fn packets_that_are_too_long_for_an_interface_of_this_host_are_named() {
        let found = findings(asks(0, 48, "10.0.0.1:40000", "PKT_TOO_BIG"));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "MTU of eth0"));
        assert_eq!(
            found[0].title,
            "curl waits for an answer of 192.0.2.1:80, but its packets are dropped on this host at eth0: they are longer than its MTU allows"
        );
        assert!(found[0].text.contains("allows (1400 bytes)."), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, "ip -d link show dev eth0");
    }

    #[test]
    fn what_the_other_end_of_a_veth_refuses_is_said_of_that_end() {
        let mut facts = asks(0, 48, "10.0.0.1:40000", "NOT_SPECIFIED");
        if let Body::PacketDrops(drops) = &mut facts[2].body {
            drops.function = "__dev_forward_skb2".into();
        }
        let found = findings(facts.clone());
        assert_eq!(found[0].culprit.name, "MTU of the other end of eth0");
        if let Body::Link(link) = &mut facts[3].body {
            link.peer = Some(7);
        }
        let end = |netns: u32, name: &str| {
            let (name, netns_name) = (name.to_string(), format!("ns{netns}"));
            let (index, mtu) = (7, 1_200);
            let link = Link { netns, netns_name, index, name, mtu, ..Link::default() };
            fact(Body::Link(Link { peer: Some(2), ..link }))
        };
        facts.push(end(2, "veth9"));
        let found = findings(facts.clone());
        assert_eq!(found[0].culprit.name, "MTU of veth9");
        let said = "its other end allows (veth9 of network namespace ns2: 1200 bytes).";
        assert!(found[0].text.contains(said), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, "ip -n ns2 -d link show dev veth9");
        let mut equal = facts.clone();
        if let Body::Link(link) = &mut equal[3].body {
            link.mtu = 1_200;
        }
        assert!(findings(equal)[0].title.ends_with("allows, or that end is down"));
        facts.push(end(3, "veth8"));
        assert_eq!(findings(facts)[0].culprit.name, "MTU of the other end of eth0", "which?");
    }

    #[test]
    fn an_interface_without_a_carrier_is_said() {
        let mut facts = asks(0, 48, "10.0.0.1:40000", "QDISC_DROP");
        assert!(!says(CODE, facts.clone()), "a queue that is full is another's");
        if let Body::Link(link) = &mut facts[3].body {
            link.carrier = Some(false);
        }
        let found = findings(facts);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "eth0"));
        assert!(
            found[0].title.contains("eth0: the interface has no carrier"),
            "{}",
            found[0].title
        );
    }

    #[test]
    fn packets_in_a_circle_are_known_by_what_is_said_to_who_sent_them() {
        let mut facts = asks(0, 48, "10.0.0.1:40000", "IP_INHDR");
        assert!(findings(facts.clone())[0].title.ends_with("or their headers are not valid"));
        for (at_ns, count) in [(0, 3), (LOOK_NS, 9)] {
            let counters = [("Icmp.OutTimeExcds".to_string(), count)].into();
            facts.push(Fact { at_ns, body: Body::NetCounters(NetCounters { netns: 1, counters }) });
        }
        let found = findings(facts);
        assert_eq!(found[0].culprit.name, "routes to 192.0.2.1");
        assert!(found[0].title.contains("their TTL is used up"), "{}", found[0].title);
    }

    #[test]
    fn a_router_that_passes_nothing_on_is_said_and_can_be_one() {
        let mut facts = asks(0, 48, "10.0.0.1:40000", "IP_INADDRERRORS");
        let found = findings(facts.clone());
        assert_eq!(found[0].culprit.name, "routes to 192.0.2.1");
        let path = |forwards| ReversePath { netns: 1, index: 2, own: 0, of_all: 0, forwards };
        facts.push(fact(Body::ReversePath(path(Some(false)))));
        let found = findings(facts);
        assert_eq!(found[0].culprit.name, "forwarding of eth0");
        assert!(found[0].title.ends_with("an address that is not there, and forwarding is off"));
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "sysctl -w net.ipv4.conf.eth0.forwarding=1");
        assert_eq!(way.undo, "sysctl -w net.ipv4.conf.eth0.forwarding=0");
    }

    #[test]
    fn what_was_dropped_once_and_came_through_is_not_waited_for() {
        let mut facts = asks(0, 48, "10.0.0.1:40000", "PKT_TOO_BIG");
        if let Body::PacketDrops(drops) = &mut facts[2].body {
            drops.flows[0].last_ns = 100_000_000;
        }
        assert!(!says(CODE, facts));
    }

    #[test]
    fn a_copy_that_was_dropped_is_no_packet_of_the_stream() {
        let mut facts = asks(0, 48, "10.0.0.1:40000", "SOCKET_FILTER");
        let near = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        let state = |retransmits| SocketState { retransmits, busy_us: 1, ..SocketState::default() };
        facts.push(with_state(10, "curl", near.clone(), state(0)));
        assert!(!says(CODE, facts.clone()));
        facts.pop();
        facts.push(with_state(10, "curl", near, state(3)));
        assert!(says(CODE, facts));
    }

    #[test]
    fn a_reason_that_is_not_known_is_said_as_it_stands() {
        let found = findings(asks(0, 48, "10.0.0.1:40000", "OVS_DROP_METER"));
        assert!(found[0].title.ends_with(": the kernel's word for why is OVS_DROP_METER"));
    }

    #[test]
    fn drops_of_another_flow_are_not_waited_for() {
        assert!(!says(CODE, asks(0, 48, "10.0.0.1:40001", "PKT_TOO_BIG")));
    }

    #[test]
    fn a_drop_before_the_wait_is_over() {
        let mut facts = asks(20, 48, "10.0.0.1:40000", "PKT_TOO_BIG");
        let at_ns = |facts: &mut Vec<Fact>, last_ns: Ns| {
            if let Body::PacketDrops(drops) = &mut facts[2].body {
                drops.flows[0].last_ns = last_ns;
            }
        };
        at_ns(&mut facts, 1_900_000_000);
        assert!(says(CODE, facts.clone()));
        at_ns(&mut facts, 1_000_000_000);
        assert!(!says(CODE, facts));
    }

    #[test]
    fn a_reason_with_a_rule_of_its_own_is_left_to_it() {
        assert!(!says(CODE, asks(0, 48, "10.0.0.1:40000", "NETFILTER_DROP")));
    }

    #[test]
    fn of_several_reasons_the_one_of_most_packets_is_named() {
        for (few, many) in [("PKT_TOO_BIG", "IP_INADDRERRORS"), ("IP_INADDRERRORS", "PKT_TOO_BIG")]
        {
            let mut facts = asks(0, 48, "10.0.0.1:40000", few);
            let alone = findings(asks(0, 48, "10.0.0.1:40000", many));
            facts.push(dropped(many, "tcp", "10.0.0.1:40000", "192.0.2.1:80", 9));
            let found = findings(facts);
            assert_eq!(found.iter().filter(|it| it.code == CODE).count(), 1, "{found:?}");
            assert_eq!(found[0].culprit.name, alone[0].culprit.name);
        }
    }
}
