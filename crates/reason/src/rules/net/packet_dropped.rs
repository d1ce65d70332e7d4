//! net.packet_dropped: this host drops the packets of a connection that somebody waits for, and the kernel says why.
//!
//! Owns what the rules of one reason (a packet filter, a full table, the way back, a backlog, a length, a checksum) leave: a route, a filter of
//! tc, a program, a bridge's port. Two witnesses: the kernel names packets of the waiter's very socket as dropped while it waited, and the
//! waiter got no answer. Must not: name who decided that (the reason does not say it), or count drops that nobody waits for.
//! Rejected: a rule for each reason (they differ by a clause and by where one looks).
//!
//! Edit together: drop_reasons.rs, drop_looks.rs, drop_places.rs (which drops count).

use crate::facts::{AddressHere, Link, NOT_PASSED_ON};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::packet_drops::Dropped;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::drop_looks::Look;
use crate::rules::net::drop_places::{DropsAt, interface, of_matter};
use crate::rules::net::drop_reasons::{Cause, Matter};
use crate::rules::net::dropped_packets::{
    LOST_ONE, Losing, NOTICED, claiming, noticed, of_namespace, packets, waited_for,
};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.packet_dropped",
    title: "This host drops packets that somebody waits for, and its kernel says why",
    theory: "A packet that no route leads on, or that a filter or a program at an interface refuses, is dropped without a word to the program that \
             waits: TCP sends it again, later each time, and a question by UDP is never answered. The kernel names the reason of each drop, and \
             the interface.",
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
    remedies: &["change what drops them: the route, the filter, the program"],
    stories: &["S2.7"],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let places = of_matter(measures, ends, Matter::Other).into_iter();
    places.filter_map(|at| matched(measures, ends, at)).collect()
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

/// Two interfaces of one link with one hardware address: whoever asks has no router on the way and knows the right one of whom it asks, and
/// the frames came to another interface, which took them for its own (a virtual machine or container that was copied).
fn twin(measures: &Measures<'_>, losing: &Losing<'_>) -> Option<Cause> {
    let Dropped { kind, flow, is_outgoing } = &losing.dropped[0];
    let net = &measures.model.net;
    let key = (losing.netns.filter(|_| *is_outgoing)?, flow.to.ip().to_canonical());
    let hop = net.next_hops.get(&key).filter(|it| it.gateway.is_none())?;
    let here = net.drop_causes.addresses_here.get(&key)?;
    let has_it = |it: &&AddressHere| it.hardware.contains(&hop.hardware);
    let meant = here.iter().find(has_it).filter(|it| it.far_netns != kind.netns)?;
    let mut links = net.links.iter().rev();
    let at = |link: &&Link| (link.netns, link.index) == (meant.far_netns, meant.far_index);
    let name = links.find(at).map(|link| link.name.as_str())?;
    let of = of_namespace(measures.model, meant.far_netns);
    Some(Cause {
        clause: format!(
            "it takes the frames for {}, which {name}{of} has, so both have the hardware address {}: give one of them another",
            key.1, hop.hardware
        ),
        look: Look::Interface,
        matter: Matter::Other,
    })
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    DropsAt { cause, losing }: DropsAt<'m>,
) -> Option<Match<'m>> {
    let end = noticed(measures, ends, &losing)?;
    let matter = cause.matter;
    let cause = match is_not_passed_on(measures, &losing[0]) {
        true => twin(measures, &losing[0]).unwrap_or(Cause {
            clause: "they are for an address that is not there, and forwarding is off".into(),
            look: Look::PassingOn,
            matter,
        }),
        false => cause,
    };
    let said = Said { measures, losing: &losing, cause };
    let by = Culprit::setting(said.culprit(), said.setting());
    let wording = said.wording(&end);
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(claiming(matched, &losing))
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

    /// ` at eth0 of network namespace blue`.
    fn place(&self) -> String {
        let at = self.interface().map_or_else(String::new, |name| format!(" at {name}"));
        at + &of_namespace(self.measures.model, self.first().kind.netns)
    }

    fn culprit(&self) -> String {
        let at = self.interface().unwrap_or("this host");
        match self.cause.look {
            Look::PassingOn => format!("forwarding of {at}"),
            Look::MtuOfPeer => match self.link() {
                Some(link) => format!("MTU of {}", link.name),
                None => format!("MTU of the other end of {at}"),
            },
            Look::Routes => format!("routes to {}", self.first().flow.to.ip().to_canonical()),
            Look::Neighbours => format!("next hop to {}", self.first().flow.to.ip().to_canonical()),
            Look::Policies => format!("IPsec to {}", self.first().flow.to.ip().to_canonical()),
            Look::Discarding => format!("way to {}", self.first().flow.to.ip().to_canonical()),
            Look::Queue => format!("queue of {at}"),
            Look::Filters => format!("tc filter of {at}"),
            Look::Programs => format!("program at {at}"),
            Look::CgroupPrograms => "filter of the socket or its cgroup".into(),
            _ => at.to_string(),
        }
    }

    /// Where it is set; the kernel's word, where that does not say it.
    fn setting(&self) -> String {
        let at = self.interface().unwrap_or_default();
        match self.cause.look {
            Look::PassingOn => self.forwarding('.'),
            Look::Filters => format!("tc filter, dev {at}"),
            _ => self.reason().to_string(),
        }
    }

    fn wording(&self, end: &End) -> Wording {
        let (measures, first) = (self.measures, self.first());
        let packets = packets(self.losing);
        let waits = who_waits(measures, end);
        let waited = waited_for(&self.losing[0], self.losing);
        let is_tunnel = self.losing[0].tunnel.is_some();
        let whose = match first.is_outgoing {
            _ if is_tunnel => "the tunnel's packets are",
            true => "its packets are",
            false => "the packets that come back are",
        };
        let of = if is_tunnel { "the tunnel" } else { "it" };
        let (place, clause) = (self.place(), &self.cause.clause);
        let again = match first.flow.protocol.as_str() {
            "tcp" => " TCP sends each of them again, later each time.",
            _ => "",
        };
        let evidence = vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("packets of {of} dropped{place}: {}", self.reason()),
                packets as f64,
                "1",
                "kfree_skb",
            ),
        ];
        Wording {
            title: format!("{waits} {waited}, but {whose} dropped on this host{place}: {clause}"),
            text: format!(
                "{} pass so. {} of {of} {} dropped{place}: {clause}.{again}",
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
    fn what_the_other_end_of_a_veth_may_refuse_is_said_of_that_end() {
        let mut facts = asks(0, 48, "10.0.0.1:40000", "NOT_SPECIFIED");
        if let Body::PacketDrops(drops) = &mut facts[2].body {
            drops.function = "__dev_forward_skb2".into();
        }
        let found = findings(facts.clone());
        assert_eq!(found[0].culprit.name, "MTU of the other end of eth0");
        assert!(found[0].title.ends_with("allows, or that end is down"));
        let end = |netns: u32, name: &str| {
            let (name, netns_name) = (name.to_string(), format!("ns{netns}"));
            let (index, mtu) = (7, 1_400);
            let link = Link { netns, netns_name, index, name, mtu, ..Link::default() };
            fact(Body::Link(Link { peer: Some(2), ..link }))
        };
        if let Body::Link(link) = &mut facts[3].body {
            link.peer = Some(7);
        }
        facts.push(end(2, "veth9"));
        let found = findings(facts.clone());
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "MTU of veth9"));
        assert_eq!(found[0].remedy[0].command, "ip -n ns2 -d link show dev veth9");
        facts.push(end(3, "veth8"));
        assert_eq!(findings(facts)[0].culprit.name, "MTU of the other end of eth0", "which?");
    }

    #[test]
    fn what_a_tunnel_carries_others_in_is_said_to_be_the_tunnels() {
        let object = inet("tcp", 100, "10.73.0.2:40000", "10.73.0.3:80", 2);
        let local = Some("10.0.0.1".parse().expect("an address"));
        let vxlan = Some(Vxlan { id: 23, port: 4789, local, remote: None });
        let (name, kind) = ("vx0".to_string(), "vxlan".to_string());
        let link = Link { netns: 1, index: 5, name, kind, vxlan, ..Link::default() };
        let found = findings(vec![
            wait(10, "curl", "connect", object, 0, 48),
            next_hop("10.73.0.3", ("vx0", "vxlan", 5), 0x20),
            fact(Body::Link(link)),
            dropped("IP_INADDRERRORS", "udp", "10.0.0.1:40000", "10.0.0.2:4789", 4),
        ]);
        assert_eq!(found[0].code, CODE);
        assert!(found[0].title.contains("but the tunnel's packets are dropped"));
        assert!(found[0].text.contains("4 packets of the tunnel were"), "{}", found[0].text);
    }

    #[test]
    fn a_next_hop_of_a_router_on_this_host_that_nobody_has_is_said() {
        let asked = |(reason, function): (&str, &str), netns| {
            let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
            let mut drops = dropped(reason, "tcp", "10.0.0.1:40000", "192.0.2.1:80", 3);
            if let Body::PacketDrops(drops) = &mut drops.body {
                (drops.netns, drops.function) = (netns, function.into());
            }
            findings(vec![wait(10, "curl", "connect", object, 0, 30), drops]).remove(0)
        };
        for by in [("NEIGH_FAILED", ""), ("NOT_SPECIFIED", "neigh_invalidate")] {
            let found = asked(by, 2);
            assert_eq!((&*found.code, &*found.culprit.name), (CODE, "next hop to 192.0.2.1"));
            assert!(found.title.contains("answers for their next hop"), "{}", found.title);
            // Of its own link the neighbour table says it.
            assert_eq!(asked(by, 1).code, "net.slow_peer");
        }
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
    fn a_policy_of_ipsec_without_a_state_is_no_black_hole() {
        let said = |interface: &str| {
            let mut facts = asks(0, 48, "10.0.0.1:40000", "NOT_SPECIFIED");
            if let Body::PacketDrops(drops) = &mut facts[2].body {
                (drops.function, drops.interface) = ("dst_discard_out".into(), interface.into());
            }
            findings(facts).remove(0)
        };
        let found = said("lo");
        assert_eq!((&*found.code, &*found.culprit.name), (CODE, "IPsec to 192.0.2.1"));
        assert!(found.title.contains("a policy of IPsec is for them"), "{}", found.title);
        let found = said("");
        assert_eq!(found.culprit.name, "way to 192.0.2.1");
        assert!(found.title.ends_with("or an interface that is gone"), "{}", found.title);
        assert_eq!(found.remedy[0].command, "ip xfrm policy");
    }

    #[test]
    fn a_token_bucket_that_no_full_packet_fits_into_is_said() {
        let said = |burst: u64, backlog: u64| {
            let mut facts = asks(0, 48, "10.0.0.1:40000", "QDISC_DROP");
            for at in [1, 20, 49] {
                let mut sample = qdisc(false, "1:", backlog, 625_000, 10, at);
                if let Body::QdiscSample(sample) = &mut sample.body {
                    (sample.burst_bytes, sample.drops) = (Some(burst), at);
                }
                facts.push(sample);
            }
            findings(facts).into_iter().find(|it| it.code == CODE)
        };
        let found = said(1_000, 0).expect("a finding");
        assert_eq!(found.culprit.name, "queue of eth0");
        assert!(found.title.ends_with("longer than its burst of 1000 bytes"), "{}", found.title);
        assert!(said(1_600, 0).is_none(), "a full packet fits");
        assert!(said(1_000, 9).is_none(), "it may have been full");
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
    fn an_interface_that_has_the_hardware_address_of_another_takes_its_frames() {
        let said = |gateway: Option<&str>, hardware: &str| {
            let mut facts = asks(0, 48, "10.0.0.1:40000", "IP_INADDRERRORS");
            let end = |netns: u32, index: u32| {
                let (name, netns_name) = (format!("v{netns}"), format!("ns{netns}"));
                fact(Body::Link(Link { netns, netns_name, index, name, ..Link::default() }))
            };
            if let Body::PacketDrops(drops) = &mut facts[2].body {
                (drops.netns, drops.index, drops.interface) = (3, 7, "v3".into());
            }
            let path = ReversePath { netns: 3, index: 7, own: 0, of_all: 0, forwards: Some(false) };
            let mut hop = next_hop("192.0.2.1", ("eth0", "veth", 2), 2);
            if let Body::NextHop(hop) = &mut hop.body {
                hop.hardware = "02:00:00:00:00:01".into();
                hop.gateway = gateway.map(|it| it.parse().expect("an address"));
            }
            let here = AddressHere {
                netns: 1,
                address: "192.0.2.1".parse().expect("an address"),
                far_netns: 2,
                far_index: 4,
                hardware: vec![hardware.into()],
                tunnel: String::new(),
            };
            let more = [fact(Body::ReversePath(path)), hop, fact(Body::AddressHere(here))];
            facts.extend(more.into_iter().chain([end(2, 4), end(3, 7)]));
            findings(facts)[0].title.clone()
        };
        let twin = said(None, "02:00:00:00:00:01");
        let expected = "it takes the frames for 192.0.2.1, which v2 of network namespace ns2 has, so both have the hardware address";
        assert!(twin.contains(expected), "{twin}");
        for other in [said(Some("10.0.0.9"), "02:00:00:00:00:01"), said(None, "02:00:00:00:00:02")]
        {
            assert!(other.ends_with("forwarding is off"), "{other}");
        }
    }

    #[test]
    fn what_was_dropped_once_and_came_through_is_not_waited_for() {
        let mut facts = asks(0, 48, "10.0.0.1:40000", "TC_EGRESS");
        if let Body::PacketDrops(drops) = &mut facts[2].body {
            drops.flows[0].last_ns = 100_000_000;
        }
        assert!(!says(CODE, facts));
    }

    #[test]
    fn who_asks_once_for_a_connection_and_looks_at_the_clock_waits_for_that_all_the_time() {
        let polls = |state: u8| {
            let object = || inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", state);
            let mut facts = asks(0, 10, "10.0.0.1:40000", "IP_INNOROUTES");
            facts[1] = wait(10, "curl", "poll", object(), 0, 20);
            facts.push(wait(10, "curl", "poll", object(), 20, 48));
            if let Body::PacketDrops(drops) = &mut facts[2].body {
                (drops.flows[0].first_ns, drops.flows[0].last_ns) = (900_000_000, 900_000_000);
            }
            says(CODE, facts)
        };
        assert!(polls(2), "it is still to be made");
        assert!(!polls(1), "it was made, and the answer is late");
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
        assert!(!says(CODE, asks(0, 48, "10.0.0.1:40001", "TC_EGRESS")));
    }

    #[test]
    fn a_drop_before_the_wait_is_over() {
        let mut facts = asks(20, 48, "10.0.0.1:40000", "TC_EGRESS");
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
        for (few, many) in [("TC_EGRESS", "IP_INADDRERRORS"), ("IP_INADDRERRORS", "TC_EGRESS")] {
            let mut facts = asks(0, 48, "10.0.0.1:40000", few);
            let alone = findings(asks(0, 48, "10.0.0.1:40000", many));
            facts.push(dropped(many, "tcp", "10.0.0.1:40000", "192.0.2.1:80", 9));
            let found = findings(facts);
            assert_eq!(found.iter().filter(|it| it.code == CODE).count(), 1, "{found:?}");
            assert_eq!(found[0].culprit.name, alone[0].culprit.name);
        }
    }
}
