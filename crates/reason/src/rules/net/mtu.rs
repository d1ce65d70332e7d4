//! net.mtu: packets of a connection that somebody waits for are longer than an interface of this host takes, and are dropped there.
//!
//! Two witnesses: the kernel names packets of the waiter's very connection, or of the tunnel that it goes through, as too long for an interface
//! (in whichever network namespace), and the waiter got no answer. Owns what is too long for what, whether the word that a router has for it
//! (ICMP) was dropped too, and what a tunnel adds. Must not: name a narrow way beyond this host, of which nothing is seen but that nothing comes
//! (undelivered.rs says what that may be). Rejected: a learnt path MTU below the interface's as a cause (who has learnt it sends shorter packets:
//! it is how a narrow way is well, and only said of a connection of which nothing arrives).
//!
//! Edit together: drop_reasons.rs, drop_places.rs (which drops), too_long.rs, mtu_ways_out.rs.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::model::words;
use crate::rules::net::drop_looks::Look;
use crate::rules::net::drop_places::{DropsAt, of_matter};
use crate::rules::net::drop_reasons::Matter;
use crate::rules::net::dropped_packets::{
    LOST_ONE, NOTICED, claiming, noticed, of_namespace, packets, waited_for,
};
use crate::rules::net::mtu_ways_out::ways_out;
use crate::rules::net::too_long::TooLong;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.mtu",
    title: "Packets that somebody waits for are longer than an interface of this host takes",
    theory: "A packet that is longer than the MTU of the interface by which it is to leave, and may not be cut (DF, and all of IPv6), is dropped. A \
             router says so to the sender (ICMP), who then sends shorter ones. Where that word is filtered, or a bridge or the other end of a veth \
             drops it, nobody is told: connecting works, and whatever fills a packet never arrives. A tunnel adds headers of its own (VXLAN 50 \
             bytes over IPv4), and its interface may take only so much less than the one below it.",
    needs: &[
        "somebody waits for an answer, or room to send, for 0.2 s or more",
        "the kernel dropped packets of that very socket, or of its tunnel, meanwhile as too long for an interface of this host",
    ],
    refuted_by: &[
        Refutation::new(
            "what was dropped was another flow's",
            "what_is_too_long_of_another_flow_is_not_waited_for",
        ),
        Refutation::new(
            "it came through in shorter packets",
            "who_hears_of_it_and_sends_shorter_packets_does_not_wait",
        ),
        Refutation::new(
            "the other end of a veth takes as much: it may be down",
            "an_end_that_takes_as_much_is_not_too_narrow",
        ),
        Refutation::new(
            "more packets were dropped for another reason",
            "of_two_reasons_that_of_most_packets_is_named",
        ),
    ],
    remedies: &[
        "let the router's word (ICMP) pass",
        "one MTU on all of the way, or of a tunnel so much less as it adds",
        "lower the segments of what is routed there (MSS)",
    ],
    stories: &["S2.7"],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let places = of_matter(measures, ends, Matter::Length).into_iter();
    places.filter_map(|at| matched(measures, ends, &at)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], at: &DropsAt<'m>) -> Option<Match<'m>> {
    let end = noticed(measures, ends, &at.losing)?;
    let said = Said { of: &TooLong::of(measures, ends, at) };
    let by = Culprit::setting(said.culprit(), said.setting());
    let wording = said.wording(&end);
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(claiming(matched, &at.losing))
}

/// What is said of them.
struct Said<'a, 'm> {
    of: &'a TooLong<'a, 'm>,
}

impl Said<'_, '_> {
    /// The interface at which they are dropped, as far as the packet said one.
    fn at_interface(&self) -> Option<&str> {
        Some(self.of.first().kind.interface.as_str()).filter(|name| !name.is_empty())
    }

    fn is_of_peer(&self) -> bool {
        self.of.at.cause.look == Look::MtuOfPeer
    }

    /// ` at eth0 of network namespace blue`.
    fn place(&self) -> String {
        let at = self.at_interface().map_or_else(String::new, |name| format!(" at {name}"));
        at + &of_namespace(self.of.measures.model, self.of.first().kind.netns)
    }

    fn culprit(&self) -> String {
        match self.of.link {
            Some(link) => format!("MTU of {}", link.name),
            None if self.of.is_beyond => {
                format!("MTU of a route at {}", self.at_interface().unwrap_or("this host"))
            }
            None => format!("MTU of {}", self.at_interface().unwrap_or("this host")),
        }
    }

    /// Where it is set; the kernel's word, where that is not known.
    fn setting(&self) -> String {
        let kind = self.of.first().kind;
        match self.of.link {
            Some(link) => format!("dev {} mtu {}", link.name, link.mtu),
            None if kind.function.is_empty() => kind.reason.clone(),
            None => kind.function.clone(),
        }
    }

    /// `they are longer than its MTU of 1400 bytes`.
    fn clause(&self) -> String {
        match self.of.link {
            Some(link) if self.is_of_peer() => {
                let of = of_namespace(self.of.measures.model, link.netns);
                let (name, mtu) = (&link.name, link.mtu);
                format!("they are longer than the MTU of its other end, {name}{of}: {mtu} bytes")
            }
            Some(link) => format!("they are longer than its MTU of {} bytes", link.mtu),
            None if self.of.is_beyond => {
                "they are longer than the route there takes, which takes less than the interface (an MTU of its own, or IPsec)".into()
            }
            None => self.of.at.cause.clause.clone(),
        }
    }

    /// What is so long.
    fn lengths(&self) -> String {
        if let (Some((tunnel, bytes)), Some(link)) = (self.of.carried(), self.of.link)
            && bytes > link.mtu
        {
            return format!(
                " {} takes packets of {} bytes and adds {}: {bytes} bytes, and {} takes {}.",
                tunnel.name,
                tunnel.mtu,
                bytes - tunnel.mtu,
                link.name,
                link.mtu
            );
        }
        match &self.of.sender {
            Some(sender) if sender.segment_bytes > 0 => format!(
                " {} sends up to {} bytes of data in a packet, beside the headers.",
                words::who(sender.process),
                sender.segment_bytes
            ),
            _ => String::new(),
        }
    }

    /// What has become of the router's word.
    fn word_said(&self) -> String {
        if let Some(word) = &self.of.word {
            return format!(
                " ICMP to {}, as which a router would say so, is dropped as well, by the packet filter{}: {}.",
                word.flow.to.ip().to_canonical(),
                of_namespace(self.of.measures.model, word.kind.netns),
                words::count(word.flow.packets as usize, "packet", "packets"),
            );
        }
        let Some(sender) = &self.of.sender else { return String::new() };
        if let Some(bytes) = sender.path_mtu_bytes {
            return format!(" The sender's route has learnt of {bytes} bytes from a router.");
        }
        let counter = match sender.to.is_ipv4() {
            true => "Icmp.InDestUnreachs",
            false => "Icmp6.InPktTooBigs",
        };
        match growth(self.of.measures.model, sender.netns, counter) {
            Some(0) if self.of.tunnel().is_none() => {
                " No router's word of it (ICMP) has come to the sender meanwhile.".into()
            }
            _ => String::new(),
        }
    }

    fn evidence(&self, end: &End, packets: u64) -> Vec<Evidence> {
        let (place, kind) = (self.place(), self.of.first().kind);
        let reason = if kind.function.is_empty() { &kind.reason } else { &kind.function };
        let dropped = format!("packets that are too long dropped{place}: {reason}");
        let mut evidence = vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(dropped, packets as f64, "1", "kfree_skb"),
        ];
        let tunnel = self.of.carried().map(|(tunnel, _)| tunnel);
        for link in self.of.link.into_iter().chain(tunnel) {
            let said = format!("MTU of {}", link.name);
            let mtu = f64::from(link.mtu);
            evidence.push(Evidence::new(said, mtu, "byte", "rtnetlink RTM_GETLINK"));
        }
        if let Some(sender) = self.of.sender.as_ref().filter(|it| it.segment_bytes > 0) {
            let bytes = f64::from(sender.segment_bytes);
            let said = "data that the sender puts into a packet";
            evidence.push(Evidence::new(said, bytes, "byte", "tcp_sock.mss_cache"));
        }
        if let Some(word) = &self.of.word {
            let said = "packets of ICMP to the sender dropped by a packet filter";
            evidence.push(Evidence::new(said, word.flow.packets as f64, "1", "kfree_skb"));
        }
        evidence
    }

    fn wording(&self, end: &End) -> Wording {
        let (measures, first) = (self.of.measures, self.of.first());
        let losing = &self.of.at.losing;
        let packets = packets(losing);
        let (place, clause) = (self.place(), self.clause());
        let is_tunnel = self.of.tunnel().is_some();
        let whose = match first.is_outgoing {
            _ if is_tunnel => "the tunnel's packets are",
            true => "its packets are",
            false => "the packets that come back are",
        };
        let again = match first.flow.protocol.as_str() {
            "tcp" => " TCP sends each of them again, later each time.",
            _ => "",
        };
        Wording {
            title: format!(
                "{} {}, but {whose} dropped on this host{place}: {clause}",
                who_waits(measures, end),
                waited_for(&losing[0], losing),
            ),
            text: format!(
                "{} pass so. {} of {} {} dropped{place}: {clause}.{}{}{again}",
                words::of_window(end.seconds, measures.wall_seconds()),
                words::count(packets as usize, "packet", "packets"),
                if is_tunnel { "the tunnel" } else { "it" },
                if packets == 1 { "was" } else { "were" },
                self.lengths(),
                self.word_said(),
            ),
            evidence: self.evidence(end, packets),
            remedy: ways_out(self.of),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{LOOK_NS, fact};

    const CODE: &str = "net.mtu";

    fn link(netns: u32, index: u32, name: &str, mtu: u32) -> Link {
        let netns_name = if netns == 1 { String::new() } else { format!("ns{netns}") };
        Link { netns, netns_name, index, name: name.into(), mtu, ..Link::default() }
    }

    /// A client waits for an answer; what a flow sends is dropped at eth0, whose MTU is 1400.
    fn asks(from: &str, reason: &str) -> Vec<Fact> {
        let near = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        vec![
            look_at(TargetKind::Process, 10),
            wait(10, "curl", "recvfrom", near, 0, 48),
            dropped(reason, "tcp", from, "192.0.2.1:80", 4),
            fact(Body::Link(link(1, 2, "eth0", 1_400))),
        ]
    }

    /// The same where a router of namespace 2 drops it at lan0, and the client's end says what it sends.
    fn routed() -> Vec<Fact> {
        let near = || inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        let mut facts = asks("10.0.0.1:40000", "PKT_TOO_BIG");
        if let Body::PacketDrops(drops) = &mut facts[2].body {
            (drops.netns, drops.interface, drops.index) = (2, "lan0".into(), 4);
        }
        let veth = |link: Link, peer| fact(Body::Link(Link { kind: "veth".into(), peer, ..link }));
        facts[3] = veth(link(2, 4, "lan0", 1_200), Some(7));
        facts.push(veth(link(3, 7, "eth0", 1_500), Some(4)));
        facts.push(fact(Body::Link(link(1, 2, "eth0", 1_500))));
        facts.push(next_hop("192.0.2.1", ("eth0", "", 2), 0x02));
        let turn = TcpTurn {
            snd_nxt: 9_000,
            packets_out: 7,
            heard_jiffies: 6_000,
            jiffy_ns: 1_000_000,
            ..TcpTurn::default()
        };
        let state = SocketState {
            retransmits: 4,
            busy_us: 1,
            send_window_bytes: 60_000,
            segment_bytes: 1_448,
            turn: Some(turn),
            ..SocketState::default()
        };
        facts.push(Fact { at_ns: LOOK_NS, ..with_state(10, "curl", near(), state) });
        facts
    }

    #[test]
    fn packets_that_are_too_long_for_an_interface_of_this_host_are_named() {
        let found = findings(asks("10.0.0.1:40000", "PKT_TOO_BIG"));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "MTU of eth0"));
        assert_eq!(found[0].culprit.setting.as_deref(), Some("dev eth0 mtu 1400"));
        assert_eq!(
            found[0].title,
            "curl waits for an answer of 192.0.2.1:80, but its packets are dropped on this host at eth0: they are longer than its MTU of 1400 bytes"
        );
        assert_eq!(found[0].remedy[0].command, "ip -d link show dev eth0");
    }

    #[test]
    fn where_the_interface_takes_them_it_is_the_route_that_does_not() {
        let mut facts = routed();
        facts[3] = fact(Body::Link(link(2, 4, "lan0", 1_500)));
        let found = findings(facts);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "MTU of a route at lan0"));
        assert!(!found[0].title.contains("1500"), "{}", found[0].title);
    }

    #[test]
    fn a_sender_who_hears_of_it_and_sends_shorter_packets_lost_nothing_by_it() {
        let waits_while_it_is_dropped_for = |ns: Ns| {
            let near = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
            let mut facts = asks("10.0.0.1:40000", "PKT_TOO_BIG");
            facts[1] = wait(10, "curl", "recvfrom", near, 0, 10);
            if let Body::PacketDrops(drops) = &mut facts[2].body {
                drops.flows[0].last_ns = drops.flows[0].first_ns + ns;
            }
            findings(facts)
        };
        let once = waits_while_it_is_dropped_for(1_000_000);
        assert!(once.iter().all(|it| it.code != CODE), "{once:?}");
        assert_eq!(waits_while_it_is_dropped_for(500_000_000)[0].code, CODE);
    }

    #[test]
    fn what_a_router_drops_is_said_with_the_length_and_can_be_lowered_or_raised() {
        let found = findings(routed());
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "MTU of lan0"));
        let text = &found[0].text;
        assert!(text.contains("curl 10 sends up to 1448 bytes of data in a packet"), "{text}");
        let ways: Vec<(&str, &str)> =
            found[0].remedy.iter().map(|it| (&*it.command, &*it.undo)).collect();
        let set = |mtu: u32| format!("ip -n ns2 link set dev lan0 mtu {mtu}");
        assert_eq!(ways[0], (&*set(1_500), &*set(1_200)));
        let clamp = |verb: &str| {
            format!(
                "ip netns exec ns2 iptables -t mangle {verb} FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu"
            )
        };
        assert_eq!(ways[1..], [(&*clamp("-A"), &*clamp("-D"))]);
    }

    #[test]
    fn a_veth_is_not_raised_above_its_other_end() {
        let mut facts = routed();
        if let Body::Link(far) = &mut facts[4].body {
            far.mtu = 1_200;
        }
        let found = findings(facts);
        assert!(found[0].remedy.iter().all(|it| !it.command.contains("link set")), "{found:?}");
    }

    #[test]
    fn the_router_s_word_is_let_through_where_a_filter_drops_it() {
        let mut facts = routed();
        let mut word = dropped("NETFILTER_DROP", "icmp", "10.0.0.9:0", "10.0.0.1:0", 3);
        if let Body::PacketDrops(drops) = &mut word.body {
            drops.netns = 2;
        }
        facts.push(word);
        let text = &findings(facts.clone())[0].text;
        let said = "ICMP to 10.0.0.1, as which a router would say so, is dropped as well, by the packet filter of network namespace ns2: 3 packets.";
        assert!(text.contains(said), "{text}");
        let see = "ip netns exec ns2 nft -a list ruleset";
        assert_eq!(findings(facts.clone())[0].remedy[0].command, see, "no rule is known");
        facts.push(fact(Body::FilterRule(FilterRule {
            netns: 2,
            family: "ip".into(),
            table: "filter".into(),
            chain: "OUTPUT".into(),
            hook: "output".into(),
            handle: 4,
            packets: Some(3),
            protocol: Some("icmp".into()),
            ..FilterRule::default()
        })));
        let way = &findings(facts)[0].remedy[0];
        let pass = |verb: &str| {
            format!(
                "ip netns exec ns2 iptables {verb} OUTPUT -p icmp --icmp-type fragmentation-needed -j ACCEPT"
            )
        };
        assert_eq!((&*way.command, &*way.undo), (&*pass("-I"), &*pass("-D")));
    }

    #[test]
    fn whether_the_sender_has_heard_of_it_is_said_as_far_as_it_was_read() {
        let mut facts = routed();
        assert!(!findings(facts.clone())[0].text.contains("router"), "nothing was read");
        facts.extend(counters(&[("Icmp.InDestUnreachs", 3, 3)]));
        let text = &findings(facts.clone())[0].text;
        assert!(text.contains("No router's word of it (ICMP) has come to the sender"), "{text}");
        if let Body::NextHop(hop) = &mut facts[6].body {
            hop.path_mtu_bytes = Some(1_200);
        }
        let text = &findings(facts)[0].text;
        assert!(text.contains("route has learnt of 1200 bytes from a router"), "{text}");
    }

    #[test]
    fn what_the_other_end_of_a_veth_refuses_is_said_of_that_end() {
        let mut facts = asks("10.0.0.1:40000", "NOT_SPECIFIED");
        if let Body::PacketDrops(drops) = &mut facts[2].body {
            drops.function = "__dev_forward_skb2".into();
        }
        if let Body::Link(link) = &mut facts[3].body {
            link.peer = Some(7);
        }
        facts.push(fact(Body::Link(Link { peer: Some(2), ..link(2, 7, "veth9", 1_200) })));
        let found = findings(facts);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "MTU of veth9"));
        let said = "the MTU of its other end, veth9 of network namespace ns2: 1200 bytes.";
        assert!(found[0].text.contains(said), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, "ip -n ns2 -d link show dev veth9");
    }

    #[test]
    fn an_end_that_takes_as_much_is_not_too_narrow() {
        let of = |mtu: u32, up: bool| {
            let mut facts = asks("10.0.0.1:40000", "NOT_SPECIFIED");
            if let Body::PacketDrops(drops) = &mut facts[2].body {
                drops.function = "__dev_forward_skb2".into();
            }
            if let Body::Link(link) = &mut facts[3].body {
                link.peer = Some(7);
            }
            let peer = Link { peer: Some(2), up: Some(up), ..link(2, 7, "veth9", mtu) };
            facts.push(fact(Body::Link(peer)));
            findings(facts).remove(0).code
        };
        assert_eq!(of(1_399, true), CODE);
        assert_eq!(of(1_400, true), "net.packet_dropped");
        assert_eq!(of(1_399, false), "net.packet_dropped", "it is down");
    }

    #[test]
    fn a_tunnel_is_lowered_by_what_it_adds() {
        let object = inet("tcp", 100, "10.73.0.2:40000", "10.73.0.3:80", 2);
        let local = Some("10.0.0.1".parse().expect("an address"));
        let vxlan = Some(Vxlan { id: 23, port: 4789, local, remote: None });
        let tunnel = Link { kind: "vxlan".into(), vxlan, ..link(1, 5, "vx0", 1_500) };
        let found = findings(vec![
            wait(10, "curl", "connect", object, 0, 48),
            next_hop("10.73.0.3", ("vx0", "vxlan", 5), 0x20),
            fact(Body::Link(tunnel)),
            fact(Body::Link(link(1, 2, "eth0", 1_500))),
            dropped("PKT_TOO_BIG", "udp", "10.0.0.1:40000", "10.0.0.2:4789", 4),
        ]);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "MTU of eth0"));
        let text = &found[0].text;
        assert!(text.contains("4 packets of the tunnel were dropped"), "{text}");
        let said = "vx0 takes packets of 1500 bytes and adds 50: 1550 bytes, and eth0 takes 1500.";
        assert!(text.contains(said), "{text}");
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "ip link set dev vx0 mtu 1450");
        assert_eq!(way.undo, "ip link set dev vx0 mtu 1500");
    }

    #[test]
    fn what_is_too_long_of_another_flow_is_not_waited_for() {
        assert!(!says(CODE, asks("10.0.0.1:40001", "PKT_TOO_BIG")));
    }

    #[test]
    fn who_hears_of_it_and_sends_shorter_packets_does_not_wait() {
        let mut facts = asks("10.0.0.1:40000", "PKT_TOO_BIG");
        if let Body::PacketDrops(drops) = &mut facts[2].body {
            drops.flows[0].last_ns = 100_000_000;
        }
        assert!(!says(CODE, facts));
    }

    #[test]
    fn of_two_reasons_that_of_most_packets_is_named() {
        let with = |packets: u64| {
            let mut facts = asks("10.0.0.1:40000", "PKT_TOO_BIG");
            facts.push(dropped("TC_EGRESS", "tcp", "10.0.0.1:40000", "192.0.2.1:80", packets));
            codes(facts)
        };
        assert_eq!(with(3), [CODE]);
        assert_eq!(with(9), ["net.packet_dropped"]);
    }
}
