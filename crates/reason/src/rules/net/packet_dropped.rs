//! net.packet_dropped: this host drops the packets of a connection that somebody waits for, and the kernel says why.
//!
//! Owns what the rules of one reason (a packet filter, a full table, the way back, a backlog) leave: a length, a route, a checksum, a filter of
//! tc, a program, a bridge's port. Two witnesses: the kernel names packets of the waiter's very socket as dropped while it waited, and the
//! waiter got no answer. Must not: name who decided that (the reason does not say it), or count drops that nobody waits for.
//! Rejected: a rule for each reason (they differ by a clause and by where one looks).
//!
//! Edit together: drop_reasons.rs.

use crate::facts::NOT_PASSED_ON;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::packet_drops::Dropped;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::drop_reasons::{Cause, Look, cause};
use crate::rules::net::dropped_packets::{
    LOST_ONE, Losing, NOTICED, claiming, losing, noticed, of_namespace, waited_for,
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

/// The first time that a connection is asked for again is after so long (TCP_TIMEOUT_INIT), and a moment.
const FIRST_AGAIN_NS: u64 = 1_500_000_000;

/// Where and why: namespace, interface, reason, function.
type Place<'m> = (u32, u32, &'m str, &'m str);

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let drops = &measures.model.net.drops;
    let with_cause = drops.iter().filter(|it| cause(it).is_some());
    let reasons: BTreeSet<&str> = with_cause.map(|it| it.reason.as_str()).collect();
    // Of an end whose packets were dropped for several reasons: the one of most.
    let mut by_end: BTreeMap<usize, (u64, Losing<'m>)> = BTreeMap::new();
    for mut losing in reasons.into_iter().flat_map(|reason| losing(measures, ends, reason)) {
        let end = &ends[losing.end];
        losing
            .dropped
            .retain(|it| cause(it.kind).is_some() && is_meanwhile(it, end) && is_asker_s(it, end));
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

/// Whether a stream has sent nothing again: then what was dropped was a copy, for a capture or another port of a bridge. What is no stream, and
/// no question on a socket that is waited on, is no question either.
fn is_sent_and_not_again(measures: &Measures<'_>, losing: &Losing<'_>, end: &End) -> bool {
    let Object::Inet(ino) = end.object else {
        return !matches!(end.object, Object::DnsServer(..));
    };
    let is_stream =
        losing.dropped.first().is_some_and(|it| it.is_outgoing && it.flow.protocol == "tcp");
    let stream = measures.tcp_streams.iter().find(|stream| stream.socket.ino == ino);
    is_stream && !losing.connects && stream.is_some_and(|it| it.change.retransmits == 0)
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
        false => cause(kind)?,
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

    fn mtu(&self) -> Option<u32> {
        let kind = self.first().kind;
        let mut links = self.measures.model.net.links.iter();
        let link = links.find(|link| (link.netns, link.index) == (kind.netns, kind.index))?;
        (self.cause.look == Look::Mtu && link.mtu != 0).then_some(link.mtu)
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
            Look::Mtu => format!("MTU of {at}"),
            Look::Routes => format!("routes to {}", self.first().flow.to.ip().to_canonical()),
            Look::Filters => format!("tc filter of {at}"),
            Look::Programs => format!("program at {at}"),
            _ => at.to_string(),
        }
    }

    /// Where it is set; the kernel's word, where that does not say it.
    fn setting(&self) -> String {
        let at = self.interface().unwrap_or_default();
        match (self.cause.look, self.mtu()) {
            (Look::PassingOn, _) => self.forwarding('.'),
            (Look::Mtu, Some(mtu)) => format!("dev {at} mtu {mtu}"),
            (Look::Filters, _) => format!("tc filter, dev {at}"),
            _ => self.reason().to_string(),
        }
    }

    fn wording(&self, end: &End) -> Wording {
        let (measures, first) = (self.measures, self.first());
        let all = || self.losing.iter().flat_map(|it| &it.dropped);
        let packets: u64 = all().map(|it| it.flow.packets).sum();
        let waits = who_waits(measures, end);
        let waited = waited_for(&self.losing[0], self.losing);
        let whose =
            if first.is_outgoing { "its packets are" } else { "the packets that come back are" };
        let (place, clause) = (self.place(), &self.cause.clause);
        let again = match first.flow.protocol.as_str() {
            "tcp" => " TCP sends each of them again, later each time.",
            _ => "",
        };
        let mtu = self.mtu().map_or_else(String::new, |mtu| format!(" ({mtu} bytes)"));
        let mut evidence = vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("of its packets dropped{place}: {}", self.reason()),
                packets as f64,
                "1",
                "kfree_skb",
            ),
        ];
        if let Some(mtu) = self.mtu() {
            let said = format!("MTU of {}", self.interface().unwrap_or_default());
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
        let device = words::shell(&kind.interface);
        let to = self.first().flow.to.ip().to_canonical();
        let look = match (self.interface(), self.cause.look) {
            (None, Look::Routes | Look::Ports | Look::SocketMemory | Look::Policies) => {
                self.cause.look
            }
            (None, _) => Look::Kernel,
            _ => self.cause.look,
        };
        let (text, tool, words) = match look {
            Look::Mtu => (
                "see the MTU there: the sender's may be no greater, or the router is to tell it (ICMP) or to lower its segments (MSS)",
                "ip",
                format!("-d link show dev {device}"),
            ),
            Look::Routes | Look::PassingOn => (
                "see the routes there, and the rules that choose between them",
                "ip",
                format!("route get {to}"),
            ),
            Look::Filters => {
                let way = if kind.reason == "TC_INGRESS" { "ingress" } else { "egress" };
                (
                    "see the filters there, with their counters",
                    "tc",
                    format!("-s filter show dev {device} {way}"),
                )
            }
            Look::Programs => {
                ("see the programs there", "bpftool", format!("net show dev {device}"))
            }
            Look::Features => (
                "see what is left to the adapter: a checksum or a segment that it gets wrong is switched off with -K",
                "ethtool",
                format!("-k {device}"),
            ),
            Look::Ports => {
                ("see the states of the bridge's ports", "bridge", "-d link show".into())
            }
            Look::Forwarding => {
                ("see where frames are sent there", "bridge", format!("fdb show dev {device}"))
            }
            Look::SocketMemory => (
                "see the memory of all sockets, and its limits",
                "cat",
                "/proc/net/sockstat /proc/sys/net/ipv4/tcp_mem /proc/sys/net/ipv4/udp_mem".into(),
            ),
            Look::Policies => ("see the policies of IPsec", "ip", "xfrm policy".into()),
            Look::Interface => (
                "see how the interface is set, and what it counts",
                "ip",
                format!("-d -s link show dev {device}"),
            ),
            Look::Kernel => (
                "see where in the kernel they are dropped",
                "perf",
                "record -e skb:kfree_skb -a -g -- sleep 5".into(),
            ),
        };
        let tool = command_in(model, kind.netns, tool);
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
    use crate::rules::scenes::fact;

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
