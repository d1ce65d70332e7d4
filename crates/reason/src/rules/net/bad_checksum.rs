//! net.bad_checksum: what somebody waits for comes in with a wrong checksum, and this host drops it.
//!
//! Two witnesses: the kernel names packets of the waiter's very connection as dropped for their checksum, and the waiter got no answer. What the
//! kernel hands on by itself, between namespaces or over loopback, has no checksum yet (CHECKSUM_PARTIAL) and is not checked, so these were carried
//! by a program or a device. Must not: say which of the two ends or what between them broke them, but where a program has the tun device that
//! they go through; or take a checksum that could not be made here (SKB_CSUM) for one. Rejected: the counters alone (Tcp.InCsumErrors says not whose).
//!
//! Edit together: drop_reasons.rs, drop_places.rs.

use crate::facts::{Link, NextHop, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::measure::packet_drops::Dropped;
use crate::model::object::Object;
use crate::model::{Model, words};
use crate::rules::action::{Action, Question};
use crate::rules::net::drop_places::{DropsAt, of_matter};
use crate::rules::net::drop_reasons::Matter;
use crate::rules::net::dropped_packets::{
    LOST_ONE, NOTICED, claiming, noticed, of_namespace, packets, waited_for,
};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.bad_checksum",
    title: "What somebody waits for comes in with a wrong checksum and is dropped",
    theory: "TCP, UDP and the header of IPv4 carry a checksum, which the receiving kernel compares with what came in. What does not fit is dropped \
             without a word: TCP sends it again, later each time, and a datagram is lost. An adapter that makes checksums wrong, or a program (a \
             VPN, a switch in user space) that carries on what the kernel had left to the adapter to sum, breaks every packet; bad memory or a \
             program that writes into what it carries, some.",
    needs: &[
        "somebody waits for an answer, or room to send, for 0.2 s or more",
        "the kernel dropped packets of that very socket meanwhile, on this host, because their checksum is wrong",
    ],
    refuted_by: &[
        Refutation::new(
            "what was dropped was another flow's",
            "broken_packets_of_another_flow_are_not_waited_for",
        ),
        Refutation::new(
            "it came through when it was sent again",
            "what_was_broken_once_and_came_through_is_not_waited_for",
        ),
        Refutation::new(
            "the checksum could not be made on this host",
            "a_checksum_that_could_not_be_made_is_no_broken_packet",
        ),
    ],
    remedies: &[
        "have the sending kernel make the checksums (ethtool -K DEV tx off)",
        "see what carries the packets, and which of them come in broken",
    ],
    stories: &["S2.7"],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

/// The interface to oneself: what came in by another is said to be of this one once it has found its socket.
const LOOPBACK: &str = "lo";
/// The kind of an interface whose packets a program carries on.
const TUN: &str = "tun";

/// Packets that came in broken.
struct Broken<'a, 'm> {
    measures: &'m Measures<'m>,
    at: &'a DropsAt<'m>,
    /// The namespace of the end that sent them, if it is of this host.
    sender: Option<u32>,
    /// The interface that it sends by, if that was asked.
    by: Option<&'m NextHop>,
    /// Who has the tun device open that they go through.
    program: Option<ThreadRef>,
    /// The interface that they came in by.
    interface: Option<&'m str>,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let places = of_matter(measures, ends, Matter::Checksum).into_iter();
    places.filter_map(|at| matched(measures, ends, &at)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], at: &DropsAt<'m>) -> Option<Match<'m>> {
    let end = noticed(measures, ends, &at.losing)?;
    let (first, model) = (at.losing[0].dropped[0], measures.model);
    let sent = sent(measures, &ends[at.losing[0].end], first.is_outgoing);
    let by = sent.and_then(|from_and_to| model.net.next_hops.get(&from_and_to));
    let sender = sent.map(|(netns, _)| netns);
    let interface = interface(model, first);
    let sent_by = by.filter(|hop| hop.kind == TUN).map(|hop| (hop.netns, hop.interface.as_str()));
    let ways = sent_by.into_iter().chain(interface.map(|name| (first.kind.netns, name)));
    let program = ways.into_iter().find_map(|(netns, name)| program(model, netns, name));
    let broken = Broken { measures, at, sender, by, program, interface };
    let from = first.flow.from.ip().to_canonical();
    let who = match &broken.program {
        // From another host they may have come to it so.
        Some(program) if sender.is_some() => culprit(model, program),
        _ => Culprit::peer(format!("way from {from}"), from.to_string()),
    };
    let wording = broken.wording(&end);
    let matched = Match::new(who, Proof::TwoWitnesses, move |_| wording.clone());
    Some(claiming(matched, &at.losing))
}

/// From which namespace and to whom they are sent: of what was sent by the end that waits; of what comes back by the other one, if that has sent
/// what does not arrive.
fn sent(measures: &Measures<'_>, end: &End, is_outgoing: bool) -> Option<(u32, IpAddr)> {
    let Object::Inet(ino) = end.object else { return None };
    let own = measures.model.called.socket(ino)?;
    let far = || measures.graph.undelivered(own)?.socket().filter(|far| far.local != own.local);
    let sender = if is_outgoing { own } else { far()? };
    Some((sender.netns, sender.remote.ip().to_canonical()))
}

/// The interface that they came in by: as the packet said, or the only one that is not to oneself.
fn interface<'m>(model: &'m Model, dropped: Dropped<'m>) -> Option<&'m str> {
    let kind = dropped.kind;
    if !matches!(kind.interface.as_str(), "" | LOOPBACK) {
        return Some(&kind.interface);
    }
    let of_it = model.net.links.iter().filter(|it| it.netns == kind.netns && it.name != LOOPBACK);
    let last: BTreeMap<u32, &Link> = of_it.map(|link| (link.index, link)).collect();
    let mut up = last.into_values().filter(|link| link.up != Some(false));
    let first = up.next().filter(|_| kind.netns != 0)?;
    up.next().is_none().then_some(&first.name)
}

/// Who has a tun device open. The file may have been opened in another namespace than the one that the device was moved to: then only if nothing
/// else has its name.
fn program(model: &Model, netns: u32, name: &str) -> Option<ThreadRef> {
    let of_name = || model.net.drop_causes.tap_readers.iter().filter(|it| it.interface == name);
    let is_other = |link: &Link| link.name == name && link.netns != netns;
    let is_only = of_name().count() == 1 && !model.net.links.iter().any(is_other);
    let found = of_name().find(|it| it.netns == netns || is_only)?;
    let comm = found.process.comm.clone();
    Some(ThreadRef { comm, ..model.threads.thread_ref(found.process.pid) })
}

impl Broken<'_, '_> {
    /// ` at eth0 of network namespace blue`, ` in network namespace blue`.
    fn place(&self) -> String {
        let of = of_namespace(self.measures.model, self.at.losing[0].dropped[0].kind.netns);
        match self.interface {
            Some(name) => format!(" at {name}{of}"),
            None => of.replacen(" of ", " in ", 1),
        }
    }

    /// Who has carried or sent them.
    fn whose(&self) -> String {
        let through = self.program.as_ref().map_or_else(String::new, |program| {
            format!(" They go through {}, which has a tun device open.", words::who(program))
        });
        let Some(netns) = self.sender else {
            let from = self.at.losing[0].dropped[0].flow.from.ip().to_canonical();
            return format!(
                "{through} They come from {from}: it sums them wrongly, or something on the way changes them."
            );
        };
        if !through.is_empty() {
            return through;
        }
        let by = self.by.map_or_else(String::new, |hop| format!(" by {}", hop.interface));
        format!(
            " They are sent on this host{by}{}. What its kernel hands on by itself is not summed and not checked: a program or a device has \
             carried these.",
            of_namespace(self.measures.model, netns)
        )
    }

    fn wording(&self, end: &End) -> Wording {
        let (measures, losing) = (self.measures, &self.at.losing);
        let first = losing[0].dropped[0];
        let (place, packets) = (self.place(), packets(losing));
        let is_tunnel = losing[0].tunnel.is_some();
        let whose = match first.is_outgoing {
            _ if is_tunnel => "the tunnel's packets come",
            true => "its packets come",
            false => "what comes back comes",
        };
        let again = match first.flow.protocol.as_str() {
            "tcp" => " TCP sends each of them again, later each time.",
            _ => "",
        };
        let reason = &first.kind.reason;
        let mut evidence = vec![
            Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
            Evidence::new(
                format!("packets with a wrong checksum dropped{place}: {reason}"),
                packets as f64,
                "1",
                "kfree_skb",
            ),
        ];
        for name in ["Tcp.InCsumErrors", "Udp.InCsumErrors", "Udp6.InCsumErrors"] {
            let counted = growth(measures.model, first.kind.netns, name).filter(|it| *it > 0);
            evidence
                .extend(counted.map(|it| Evidence::new(name, it as f64, "1", "/proc/net/snmp")));
        }
        Wording {
            title: format!(
                "{} {}, but {whose} in with a wrong checksum, and this host drops them{place}",
                who_waits(measures, end),
                waited_for(&losing[0], losing),
            ),
            text: format!(
                "{} pass so. {} of {} {} dropped{place}: what came in does not fit the checksum.{}{again}",
                words::of_window(end.seconds, measures.wall_seconds()),
                words::count(packets as usize, "packet", "packets"),
                if is_tunnel { "the tunnel" } else { "it" },
                if packets == 1 { "was" } else { "were" },
                self.whose(),
            ),
            evidence,
            remedy: [self.sum_at_sender(), self.look()].into_iter().flatten().collect(),
        }
    }

    /// Has the sending kernel make the checksums. What goes to a program by tun is summed, unless the program wants it otherwise.
    fn sum_at_sender(&self) -> Option<Remedy> {
        if self.program.is_some() && self.sender.is_some() {
            return None;
        }
        let text = "have the sending kernel make the checksums, and not its adapter or whoever is to carry the packets";
        if self.sender.is_none() {
            let from = self.at.losing[0].dropped[0].flow.from.ip().to_canonical();
            return Some(Remedy::to(format!(
                "{text}: on {from}, `ethtool -K DEV tx off` of the interface that it sends by (taken back by `tx on`)"
            )));
        }
        let hop = self.by.filter(|hop| hop.interface != LOOPBACK && hop.kind != TUN)?;
        let ethtool = command_in(self.measures.model, hop.netns, "ethtool");
        let name = words::shell(&hop.interface);
        let [off, on] = ["off", "on"].map(|to| format!("-K {name} tx {to}"));
        let action = Action::ethtool(hop.netns, &hop.interface, &off, &on);
        let action = action.through(ethtool.through.as_ref());
        let text = format!(
            "{text}, if it has the adapter make them now (tx-checksumming of ethtool -k {name})"
        );
        Some(Remedy::to(text).set(action, format!("{ethtool} {off}"), format!("{ethtool} {on}")))
    }

    /// Which of them come in broken.
    fn look(&self) -> Option<Remedy> {
        let first = self.at.losing[0].dropped[0];
        let timeout = command_in(self.measures.model, first.kind.netns, "timeout");
        let (name, from) = (words::shell(self.interface?), first.flow.from.ip().to_canonical());
        Some(Remedy {
            text: "see for ten seconds which come in broken: tcpdump says \"incorrect\" of them"
                .into(),
            command: format!("{timeout} 10 tcpdump -i {name} -nvv src host {from}"),
            action: Some(Action::look(Question::State).through(timeout.through.as_ref())),
            ..Remedy::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    const CODE: &str = "net.bad_checksum";

    /// A client waits for an answer while packets from an address to another are dropped for a reason, in namespace 2.
    fn asks(from: &str, to: &str, reason: &str) -> Vec<Fact> {
        let near = || inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        let mut drops = dropped(reason, "tcp", from, to, 4);
        if let Body::PacketDrops(drops) = &mut drops.body {
            (drops.netns, drops.interface, drops.index) = (2, "tunb".into(), 5);
        }
        let state = SocketState { retransmits: 3, busy_us: 1, ..SocketState::default() };
        vec![
            look_at(TargetKind::Process, 10),
            wait(10, "curl", "recvfrom", near(), 0, 48),
            with_state(10, "curl", near(), state),
            drops,
            link(2, 5, "tunb", TUN),
        ]
    }

    fn question(reason: &str) -> Vec<Fact> {
        asks("10.0.0.1:40000", "192.0.2.1:80", reason)
    }

    fn link(netns: u32, index: u32, name: &str, kind: &str) -> Fact {
        let netns_name = if netns == 1 { String::new() } else { format!("ns{netns}") };
        let (name, kind) = (name.to_string(), kind.to_string());
        let link = Link { netns, netns_name, index, name, kind, ..Link::default() };
        fact(Body::Link(link))
    }

    #[test]
    fn a_program_that_carries_them_is_named() {
        let mut facts = question("TCP_CSUM");
        let process = crate::rules::scenes::thread(77, "relay");
        let reader = TapReader { netns: 1, interface: "tuna".into(), process };
        facts.push(fact(Body::TapReader(reader)));
        facts.push(next_hop("192.0.2.1", ("tuna", TUN, 3), 0));
        let found = findings(facts);
        assert_eq!((&*found[0].code, found[0].culprit.pid), (CODE, Some(77)));
        let title = &found[0].title;
        assert!(title.ends_with("drops them at tunb of network namespace ns2"), "{title}");
        assert!(found[0].text.contains("go through relay 77"), "{}", found[0].text);
        let look = "ip netns exec ns2 timeout 10 tcpdump -i tunb -nvv src host 10.0.0.1";
        assert_eq!(found[0].remedy[0].command, look);
    }

    #[test]
    fn a_sender_of_this_host_can_have_its_kernel_make_them() {
        let mut facts = question("TCP_CSUM");
        facts.push(next_hop("192.0.2.1", ("eth0", "veth", 3), 0));
        let found = findings(facts);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "way from 10.0.0.1"));
        let way = &found[0].remedy[0];
        assert_eq!(
            (&*way.command, &*way.undo),
            ("ethtool -K eth0 tx off", "ethtool -K eth0 tx on")
        );
        assert!(found[0].text.contains("on this host by eth0"), "{}", found[0].text);
    }

    #[test]
    fn what_another_host_sends_is_said_of_it() {
        let found = findings(asks("192.0.2.1:80", "10.0.0.1:40000", "TCP_CSUM"));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "way from 192.0.2.1"));
        assert!(found[0].title.contains("what comes back comes in with"), "{}", found[0].title);
        assert!(found[0].remedy[0].text.contains("on 192.0.2.1, `ethtool"));
    }

    #[test]
    fn a_program_is_not_blamed_for_what_another_host_sends_through_it() {
        let mut facts = asks("192.0.2.1:80", "10.0.0.1:40000", "TCP_CSUM");
        let process = crate::rules::scenes::thread(77, "vpn");
        facts.push(fact(Body::TapReader(TapReader {
            netns: 2,
            interface: "tunb".into(),
            process,
        })));
        let found = findings(facts);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "way from 192.0.2.1"));
        assert!(found[0].text.contains("go through vpn 77, which has a tun"), "{}", found[0].text);
    }

    #[test]
    fn what_came_by_another_interface_is_not_said_of_loopback() {
        let mut facts = question("TCP_CSUM");
        if let Body::PacketDrops(drops) = &mut facts[3].body {
            (drops.interface, drops.index) = (LOOPBACK.into(), 1);
        }
        facts.push(link(2, 1, LOOPBACK, ""));
        assert!(findings(facts.clone())[0].title.contains("at tunb of network"));
        facts.push(link(2, 6, "eth0", ""));
        assert!(findings(facts)[0].title.ends_with("drops them in network namespace ns2"));
    }

    #[test]
    fn broken_packets_of_another_flow_are_not_waited_for() {
        assert!(says(CODE, question("TCP_CSUM")));
        assert!(!says(CODE, asks("10.0.0.1:40001", "192.0.2.1:80", "TCP_CSUM")));
    }

    #[test]
    fn what_was_broken_once_and_came_through_is_not_waited_for() {
        let mut facts = question("TCP_CSUM");
        if let Body::PacketDrops(drops) = &mut facts[3].body {
            drops.flows[0].last_ns = 100_000_000;
        }
        assert!(!says(CODE, facts));
    }

    #[test]
    fn a_checksum_that_could_not_be_made_is_no_broken_packet() {
        assert_eq!(codes(question("SKB_CSUM")), ["net.packet_dropped"]);
    }
}
