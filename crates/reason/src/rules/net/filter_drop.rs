//! net.filter_drop: the packet filter of this host drops what somebody waits for.
//!
//! Two witnesses: the kernel counts that packets of the waiter's very socket were dropped by netfilter, in this or another network
//! namespace of this host, and the waiter got no answer meanwhile. Which rule it was the kernel does not say; it is read from the rules
//! (measure/filter_rules.rs), and only a counter that moved makes it sure.
//!
//! Must not: blame the peer, whom the packet never reached; or name a rule that another one may be. Rejected: rules alone (a rule
//! that would match may stand behind one that accepts).

use crate::facts::{Endpoint, ObjectRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::filter_rules::{Suspects, suspects};
use crate::measure::packet_drops::Dropped;
use crate::model::{Model, words};
use crate::rules::net::dropped_packets::{
    LOST_ONE, Losing, NOTICED, claiming, losing, noticed, of_namespace, packets, waited_for,
};
use crate::rules::net::filter_words::{place, ways_out, what};
use crate::rules::net::insertion_race::{self, INSERT_FAILED};
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What the kernel calls it.
pub(crate) const REASON: &str = "NETFILTER_DROP";

/// The interface to oneself.
const LOOPBACK: &str = "lo";

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.filter_drop",
    title: "The packet filter of this host drops what somebody waits for",
    theory: "nftables and iptables look at each packet as it comes, is passed on, or leaves. One that a rule drops is gone without a \
             word: the sender takes it for lost on the way and sends it again, later each time, until it gives up after minutes. \
             The other end knows nothing of it, and is not slow.",
    needs: &[
        "somebody waits for a connection or an answer for 0.2 s or more",
        "the packet filter of a network namespace of this host dropped packets of that very socket within the look",
    ],
    refuted_by: &[
        Refutation::new(
            "what the filter dropped was another flow's",
            "a_filter_that_drops_others_explains_nothing",
        ),
        Refutation::new(
            "the wait is shorter than a lost packet costs",
            "a_short_wait_is_for_something_else",
        ),
        Refutation::new("the table of connections is full", "a_full_table_is_no_rule"),
    ],
    remedies: &["see the rules of that chain", "let these packets pass"],
    stories: &["S2.10"],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

/// Ends that come down to one rule, or to the rules of one namespace.
struct Filtered<'m> {
    losing: Vec<Losing<'m>>,
    suspects: Suspects<'m>,
    /// It may have been no rule, but the table of connections.
    may_have_lost_a_race: bool,
    netns: u32,
    /// It was made in the namespace where it was dropped.
    is_own: bool,
}

/// By the namespace of the filter and the rule.
type Key<'m> = (u32, &'m str, &'m str, &'m str, u64, bool);

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<Key<'m>, Filtered<'m>> = BTreeMap::new();
    for losing in losing(measures, ends, REASON) {
        let first = losing.dropped[0];
        // Packets that were made there have their socket with them; others came in by an interface.
        let is_there = match losing.netns {
            Some(netns) => netns == first.kind.netns,
            None => first.flow.socket_ino != 0,
        };
        let is_own = if first.is_outgoing { is_there } else { is_sent_there(measures, &first) };
        let (suspects, is_own) = made_there(measures.model, &first, is_own);
        // A policy fits everything.
        let is_named = suspects.rule.is_some_and(|rule| rule.handle != 0);
        let may_have_lost_a_race =
            !is_named && insertion_race::may_have_lost(measures.model, &first);
        let suspects = if may_have_lost_a_race { Suspects::default() } else { suspects };
        let netns = first.kind.netns;
        let key = match suspects.rule {
            Some(it) => (netns, &*it.family, &*it.table, &*it.chain, it.handle, is_own),
            None if may_have_lost_a_race => (netns, "", "", INSERT_FAILED, 0, is_own),
            None => (netns, "", "", "", 0, is_own),
        };
        let new = || Filtered { losing: Vec::new(), suspects, may_have_lost_a_race, netns, is_own };
        all.entry(key).or_insert_with(new).losing.push(losing);
    }
    all.into_values().filter_map(|filtered| matched(measures, ends, filtered)).collect()
}

/// The rules that may have been it, and whether the packet was made there. Where what comes back has no sender (the kernel ends the connections of a
/// process that is gone), that is said by the only rule that fits, and by its address, which is one of that namespace: what comes from another host
/// never passes the chains on the way out. A policy fits everything, and says nothing.
fn made_there<'m>(model: &'m Model, first: &Dropped<'m>, is_own: bool) -> (Suspects<'m>, bool) {
    let there = suspects(model, first, is_own);
    // To oneself a packet goes out and comes in by one namespace.
    let comes_in = (is_own && first.kind.interface == LOOPBACK && there.all.is_empty())
        .then(|| suspects(model, first, false));
    if let Some(comes_in) = comes_in.filter(|it| it.rule.is_some_and(|rule| rule.handle != 0)) {
        return (comes_in, false);
    }
    let is_nobodys = !is_own
        && !first.is_outgoing
        && first.flow.sender.is_none()
        && is_address_of(model, first.kind.netns, first.flow.from.ip());
    let other = (there.all.is_empty() && is_nobodys).then(|| suspects(model, first, true));
    match other.filter(|it| it.rule.is_some_and(|rule| rule.handle != 0)) {
        Some(other) => (other, true),
        None => (there, is_own),
    }
}

/// Whether a network namespace of this host is known to have an address: an interface or a socket there has it.
fn is_address_of(model: &Model, netns: u32, address: IpAddr) -> bool {
    let address = address.to_canonical();
    let mut here = model.net.drop_causes.addresses_here.values().flatten();
    let has_it = |end: &Endpoint| match &end.object {
        ObjectRef::Inet(it) => it.netns == netns && it.local.ip().to_canonical() == address,
        _ => false,
    };
    here.any(|it| it.far_netns == netns && it.address.to_canonical() == address)
        || model.held.endpoints.iter().any(has_it)
}

/// Whether an answer was dropped where it was made. Over loopback it comes in there as well.
fn is_sent_there(measures: &Measures<'_>, dropped: &Dropped<'_>) -> bool {
    let sender = dropped.flow.sender.as_ref();
    let known = sender.and_then(|by| measures.model.threads.identity(by));
    let is_there = known.is_some_and(|it| it.netns == dropped.kind.netns);
    is_there && dropped.kind.interface != LOOPBACK
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    filtered: Filtered<'m>,
) -> Option<Match<'m>> {
    let end = noticed(measures, ends, &filtered.losing)?;
    let wording = wording(measures, &end, &filtered);
    let by = match filtered.suspects.rule {
        Some(rule) => Culprit::setting(what(rule), place(rule)),
        None => Culprit::setting("packet filter", REASON),
    };
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(claiming(matched, &filtered.losing))
}

fn wording(measures: &Measures<'_>, end: &End, filtered: &Filtered<'_>) -> Wording {
    let first = &filtered.losing[0];
    let waits = who_waits(measures, end);
    let waited = waited_for(first, &filtered.losing);
    let packets = packets(&filtered.losing);
    let is_outgoing = first.dropped[0].is_outgoing;
    let by = match filtered.suspects.rule {
        Some(rule) => format!("the rule \"{}\" of {}", what(rule), place(rule)),
        None => "the packet filter there".to_string(),
    };
    let comma = if filtered.suspects.rule.is_some_and(|rule| rule.handle != 0) { "," } else { "" };
    let title = match (filtered.is_own, is_outgoing) {
        (true, true) => {
            format!(
                "{waits} {waited}, but its packets do not leave this host: {by}{comma} drops them"
            )
        }
        (false, true) => {
            format!(
                "{waits} {waited}, but its packets are dropped on this host: {by}{comma} drops them"
            )
        }
        (_, false) => {
            format!(
                "{waits} {waited}, but what comes back is dropped on this host: {by}{comma} drops it"
            )
        }
    };
    let dropped = words::count(packets as usize, "packet", "packets");
    let text = format!(
        "{} pass so. {dropped} of {} {} dropped {}; {}{}",
        words::of_window(end.seconds, measures.wall_seconds()),
        if first.tunnel.is_some() { "the tunnel" } else { "it" },
        if packets == 1 { "was" } else { "were" },
        where_dropped(measures, filtered),
        whose(filtered),
        again(first, filtered),
    );
    let mut evidence = vec![
        Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
        Evidence::new(
            format!("of its packets dropped: {REASON}"),
            packets as f64,
            "1",
            "kfree_skb",
        ),
    ];
    if let Some((rule, packets)) =
        filtered.suspects.rule.and_then(|rule| Some((rule, rule.packets?)))
    {
        let fact = format!("packets that {} has dropped since it was made", place(rule));
        evidence.push(Evidence::new(fact, packets as f64, "1", "nfnetlink NFT_MSG_GETRULE"));
    }
    let dropped = &filtered.losing[0].dropped[0];
    let race = filtered.may_have_lost_a_race;
    let mut remedy: Vec<Remedy> =
        race.then(|| insertion_race::see(measures.model, filtered.netns)).into_iter().collect();
    remedy.extend(ways_out(measures.model, filtered.netns, filtered.suspects.rule, dropped));
    Wording { title, text, evidence, remedy }
}

/// What comes of it, a sentence with a space before it. Of an answer that a rule rejects that is up to whoever sent it.
fn again(first: &Losing<'_>, filtered: &Filtered<'_>) -> &'static str {
    let rejects = filtered.suspects.rule.is_some_and(|rule| rule.rejects);
    match (first.dropped[0].flow.protocol.as_str(), first.dropped[0].is_outgoing) {
        ("tcp", true) if rejects && first.connects => {
            " The rule answers as well (REJECT), and who is in connect(2) hears of that with his second packet, a second later."
        }
        ("tcp", false) if rejects => "",
        ("tcp", _) => " TCP sends each of them again, later each time.",
        _ => "",
    }
}

/// In which namespace, and as what.
fn where_dropped(measures: &Measures<'_>, filtered: &Filtered<'_>) -> String {
    let way = if filtered.is_own { "on the way out" } else { "on the way in or through" };
    format!("by the packet filter{} {way}", of_namespace(measures.model, filtered.netns))
}

/// Which rule it is, or why that is not said.
fn whose(filtered: &Filtered<'_>) -> String {
    if filtered.may_have_lost_a_race {
        return insertion_race::WHY.into();
    }
    match (filtered.suspects.rule, filtered.suspects.all.len()) {
        (Some(rule), _) => match rule.packets {
            Some(packets) => format!("by its counter the rule has dropped {}.", words::count(packets as usize, "packet", "packets")),
            None => "of the rules that drop there it is the one that fits; it has no counter that would show it.".into(),
        },
        (None, 0 | 1) if filtered.suspects.maps > 0 => {
            "a rule there asks a map of verdicts, which may drop it, and was not read.".into()
        }
        (None, 0) => "no rule of nftables that drops fits it: it may be one of the older iptables, or of a program.".into(),
        (None, several) => format!("{several} rules there drop what looks like it."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{endpoint, fact, of_process, slept, thread};

    const CODE: &str = "net.filter_drop";

    fn rule() -> FilterRule {
        FilterRule {
            netns: 1,
            family: "ip".into(),
            table: "filter".into(),
            chain: "OUTPUT".into(),
            hook: "output".into(),
            handle: 4,
            packets: Some(7),
            protocol: Some("tcp".into()),
            destination_port: Some(80),
            ..FilterRule::default()
        }
    }

    /// A client waits to be connected, in tenths of a second, while packets of a flow are dropped.
    fn connects(to: u64, from: &str) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
        vec![
            wait(10, "curl", "connect", object, 0, to),
            dropped(REASON, "tcp", from, "192.0.2.1:80", 4),
            fact(Body::FilterRule(rule())),
        ]
    }

    #[test]
    fn what_a_tunnel_of_the_kernels_loses_is_of_who_waits_behind_it() {
        let ends = |state: u8| {
            let object = inet("tcp", 100, "10.73.0.2:40000", "10.73.0.3:80", state);
            let local = Some("10.0.0.1".parse().expect("an address"));
            let vxlan = Some(Vxlan { id: 23, port: 4789, local, remote: None });
            let (name, kind) = ("vx0".to_string(), "vxlan".to_string());
            let link = Link { netns: 1, index: 5, name, kind, vxlan, ..Link::default() };
            let carried =
                FilterRule { protocol: Some("udp".into()), destination_port: Some(4789), ..rule() };
            findings(vec![
                wait(10, "curl", "connect", object.clone(), 0, 20),
                wait(10, "curl", "recvfrom", object, 21, 48),
                next_hop("10.73.0.3", ("vx0", "vxlan", 5), 0x20),
                fact(Body::Link(link)),
                dropped(REASON, "udp", "10.0.0.1:40000", "10.0.0.2:4789", 4),
                fact(Body::FilterRule(carried)),
            ])
        };
        // One that has given up is closed.
        for state in [2, 7] {
            let found = ends(state);
            assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "udp dport 4789 drop"));
            assert!(found[0].title.contains("through the tunnel vx0"), "{}", found[0].title);
            assert!(found[0].text.contains("4 packets of the tunnel"), "once: {}", found[0].text);
        }
    }

    #[test]
    fn a_client_that_looks_at_the_clock_while_it_connects_waits_for_the_whole() {
        // At the end it may be connected, after all.
        for state in [2, 1] {
            let of = |state| inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", state);
            let piece = |at| wait(10, "git", "pselect6", of(2), at, at + 1);
            let mut facts: Vec<Fact> = (0..40).map(piece).collect();
            facts.push(endpoint(10, "git", of(state)));
            facts.push(dropped(REASON, "tcp", "10.0.0.1:40000", "192.0.2.1:80", 4));
            facts.push(fact(Body::FilterRule(rule())));
            assert_eq!(findings(facts)[0].code, CODE, "{state}");
        }
    }

    #[test]
    fn a_connect_that_this_hosts_own_filter_drops_ends_there() {
        let found = findings(connects(48, "10.0.0.1:40000"));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "tcp dport 80 drop"));
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 192.0.2.1:80, but its packets do not leave this host: the rule \"tcp dport 80 drop\" of \
             chain ip filter OUTPUT, handle 4, drops them"
        );
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "iptables -I OUTPUT -p tcp -d 192.0.2.1 --dport 80 -j ACCEPT");
        assert_eq!(way.undo, "iptables -D OUTPUT -p tcp -d 192.0.2.1 --dport 80 -j ACCEPT");
    }

    #[test]
    fn a_port_of_one_transfer_is_not_opened_for_the_next() {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:50021", 2);
        let any_port = FilterRule { destination_port: None, ..rule() };
        let mut drops = dropped(REASON, "tcp", "10.0.0.1:40000", "192.0.2.1:50021", 4);
        if let Body::PacketDrops(drops) = &mut drops.body {
            drops.flows[0].sender = Some(thread(10, "ftp"));
        }
        let mut facts = vec![
            wait(10, "ftp", "connect", object, 0, 48),
            drops,
            fact(Body::FilterRule(any_port)),
        ];
        let way = |facts: &[Fact]| findings(facts.to_vec())[0].remedy[0].clone();
        assert!(way(&facts).command.contains("--dport 50021"), "a service may be there");
        let control = inet("tcp", 101, "10.0.0.1:40001", "192.0.2.1:21", 1);
        facts.push(endpoint(10, "ftp", control));
        let way = way(&facts);
        assert_eq!(way.command, "iptables -I OUTPUT -p tcp -d 192.0.2.1 -j ACCEPT");
        assert!(way.text.contains("RELATED"), "{}", way.text);
    }

    #[test]
    fn an_answer_that_its_sender_s_own_filter_drops_is_led_to_that_rule() {
        let mut facts = connects(48, "10.0.0.1:40000");
        if let Body::PacketDrops(drops) = &mut facts[1].body {
            let flow = &mut drops.flows[0];
            (flow.from, flow.to) = (flow.to, flow.from);
            flow.sender = Some(thread(20, "server"));
        }
        let of = |netns| {
            let known = Thread { thread: thread(20, "server"), netns, ..Thread::default() };
            fact(Body::Thread(known))
        };
        facts.push(of(1));
        let answers = FilterRule { destination_port: None, source_port: Some(80), ..rule() };
        facts[2] = fact(Body::FilterRule(answers));
        let found = findings(facts.clone());
        assert_eq!(found[0].culprit.name, "tcp sport 80 drop");
        assert!(found[0].title.contains("what comes back is dropped on this host"));
        assert!(found[0].text.contains("on the way out"), "{}", found[0].text);
        facts.pop();
        facts.push(of(2));
        assert_eq!(findings(facts)[0].culprit.name, "packet filter", "it came from another");
    }

    /// An answer from port 80 that nobody is known to have sent is dropped in namespace 1, where another socket has an address.
    fn answered(local: &str, rule: FilterRule) -> Vec<crate::answer::report::Finding> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
        findings(vec![
            wait(10, "curl", "recvfrom", object, 0, 40),
            endpoint(20, "sshd", inet("tcp", 101, local, "0.0.0.0:0", 10)),
            dropped(REASON, "tcp", "192.0.2.1:80", "10.0.0.1:40000", 4),
            fact(Body::FilterRule(rule)),
        ])
    }

    fn of_answers(source_port: u16) -> FilterRule {
        FilterRule { destination_port: None, source_port: Some(source_port), ..rule() }
    }

    #[test]
    fn what_is_sent_for_a_process_that_is_gone_is_led_to_the_rule_on_its_way_out() {
        let found = answered("192.0.2.1:22", of_answers(80));
        assert!(found[0].title.contains("\"tcp sport 80 drop\" of chain"), "{found:?}");
        assert!(found[0].text.contains("on the way out"), "{}", found[0].text);
        let other = answered("192.0.2.1:22", of_answers(81));
        assert_eq!(other[0].culprit.name, "packet filter");
    }

    #[test]
    fn an_answer_of_another_host_passes_no_rule_on_the_way_out() {
        let policy = || FilterRule { handle: 0, protocol: None, destination_port: None, ..rule() };
        for (local, rule) in
            [("10.0.0.1:22", of_answers(80)), ("10.0.0.1:22", policy()), ("192.0.2.1:22", policy())]
        {
            let found = answered(local, rule);
            assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "packet filter"));
            assert!(found[0].text.contains("on the way in"), "{}", found[0].text);
        }
    }

    #[test]
    fn who_is_rejected_hears_of_it_with_his_second_packet() {
        let said = |mut facts: Vec<Fact>, rejects: bool| {
            for Fact { body, .. } in &mut facts {
                if let Body::FilterRule(rule) = body {
                    rule.rejects = rejects;
                }
            }
            let found = findings(facts);
            assert_eq!((&*found[0].code, found[0].culprit.name != "packet filter"), (CODE, true));
            found[0].text.contains("with his second packet")
        };
        let connects = || connects(40, "10.0.0.1:40000");
        assert!(said(connects(), true) && !said(connects(), false));
        let mut back = connects();
        if let Body::PacketDrops(drops) = &mut back[1].body {
            let flow = &mut drops.flows[0];
            (flow.from, flow.to) = (flow.to, flow.from);
        }
        back[2] = fact(Body::FilterRule(FilterRule { hook: "input".into(), ..of_answers(80) }));
        assert!(!said(back, true), "it is the answer that is rejected");
        let sent = |syscall: &str| {
            let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
            let mut facts = connects();
            facts[0] = wait(10, "curl", syscall, object, 0, 40);
            facts
        };
        assert!(!said(sent("recvfrom"), true), "it is connected");
    }

    #[test]
    fn a_rule_that_says_otherwise_is_not_named() {
        let with = |change: fn(&mut FilterRule)| {
            let mut facts = connects(48, "10.0.0.1:40000");
            if let Some(Fact { body: Body::FilterRule(rule), .. }) = facts.last_mut() {
                change(rule);
            }
            findings(facts)[0].culprit.name.clone()
        };
        assert_eq!(with(|_| {}), "tcp dport 80 drop");
        assert_eq!(with(|rule| rule.destination_port = Some(81)), "packet filter");
        assert_eq!(with(|rule| rule.packets = Some(0)), "packet filter");
        assert_eq!(with(|rule| rule.hook = "input".into()), "packet filter");
        assert_eq!(with(|rule| rule.netns = 2), "packet filter");
    }

    #[test]
    fn of_two_rules_that_are_as_narrow_none_is_named() {
        let mut facts = connects(48, "10.0.0.1:40000");
        facts.push(fact(Body::FilterRule(FilterRule { handle: 5, ..rule() })));
        let found = findings(facts);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "packet filter"));
        assert!(found[0].text.contains("2 rules there drop"), "{}", found[0].text);
    }

    #[test]
    fn a_filter_that_drops_others_explains_nothing() {
        assert_eq!(codes(connects(48, "10.0.0.1:40001")), ["net.slow_peer"]);
    }

    #[test]
    fn a_short_wait_is_for_something_else() {
        assert!(says(CODE, connects(3, "10.0.0.1:40000")));
        assert!(!says(CODE, connects(1, "10.0.0.1:40000")));
    }

    /// An event loop that asked by UDP and sleeps.
    fn asks(kind: TargetKind, sent_by: u32, syscall: &str) -> Vec<Fact> {
        let mut question = dropped(REASON, "udp", "10.0.0.1:40000", "192.0.2.1:53", 1);
        if let Body::PacketDrops(drops) = &mut question.body {
            drops.flows[0].sender = Some(thread(sent_by, "dig"));
        }
        let mut sleeps = slept(10, "dig", 100_000_000, 3_100_000_000);
        if let Body::Wait(wait) = &mut sleeps.body {
            (wait.place.syscall, wait.place.args) = (syscall.into(), [4, 1, 64, 5_000, 0, 0]);
        }
        vec![question, sleeps, of_process(10, "dig"), look_at(kind, 10)]
    }

    #[test]
    fn who_asked_by_udp_and_sleeps_waits_for_what_was_dropped() {
        let found = findings(asks(TargetKind::Command, 10, "epoll_wait"));
        assert_eq!(found[0].code, CODE);
        assert!(found[0].title.starts_with("dig waits for an answer of 192.0.2.1:53, but its"));
        let poll = "epoll_wait";
        assert!(!says(CODE, asks(TargetKind::Command, 11, poll)), "another's question");
        assert!(!says(CODE, asks(TargetKind::Host, 10, poll)), "nobody asked what it waits for");
        let sleeps = asks(TargetKind::Command, 10, "clock_nanosleep");
        assert!(!says(CODE, sleeps), "no answer ends a plain sleep");
    }

    #[test]
    fn who_sends_by_udp_without_a_connection_waits_for_what_was_dropped() {
        let found = |port: u16| {
            let socket = || inet("udp", 100, "0.0.0.0:40000", "0.0.0.0:0", 0);
            let mut question = dropped(REASON, "udp", "10.0.0.1:40000", "192.0.2.1:161", 3);
            if let Body::PacketDrops(drops) = &mut question.body {
                drops.netns = 2;
                drops.flows[0].from.set_port(port);
                drops.flows[0].sender = Some(thread(10, "snmpwalk"));
            }
            let (remote, protocol) = (address("192.0.2.1:161"), "udp".into());
            findings(vec![
                endpoint(10, "snmpwalk", socket()),
                wait(10, "snmpwalk", "pselect6", socket(), 0, 10),
                wait(10, "snmpwalk", "pselect6", socket(), 10, 20),
                fact(Body::SentTo(SentTo { pid: 10, protocol, local_port: 40_000, remote })),
                question,
                look_at(TargetKind::Process, 10),
                of_process(10, "snmpwalk"),
            ])
            .remove(0)
        };
        assert_eq!(found(40_000).code, CODE, "{}", found(40_000).title);
        assert_eq!(found(40_001).code, "net.slow_peer", "another's");
    }

    #[test]
    fn a_full_table_is_no_rule() {
        let mut facts = connects(48, "10.0.0.1:40000");
        facts.extend(counters(&[("nf_conntrack.drop", 3, 9), ("nf_conntrack.entries", 8, 8)]));
        let sysctl = Sysctl { name: "net.netfilter.nf_conntrack_max".into(), value: "8".into() };
        facts.push(fact(Body::Sysctl(sysctl)));
        assert_eq!(codes(facts), ["net.conntrack_full"]);
    }

    #[test]
    fn where_the_packet_was_dropped_is_said_as_far_as_it_is_known() {
        let title = |mut facts: Vec<Fact>, change: fn(&mut PacketDrops)| {
            for Fact { body, .. } in &mut facts {
                if let Body::PacketDrops(drops) = body {
                    change(drops);
                }
            }
            findings(facts).into_iter().find(|it| it.code == CODE).expect("found").title
        };
        let connects = || connects(48, "10.0.0.1:40000");
        let asks = || asks(TargetKind::Command, 10, "epoll_wait");
        let (leaves, host) = ("do not leave this host", "its packets are dropped on this host");
        assert!(title(connects(), |_| {}).contains(leaves));
        let in_another = title(connects(), |drops| drops.netns = 2);
        assert!(in_another.contains(host), "{in_another}");
        let back = title(connects(), |drops| {
            let flow = &mut drops.flows[0];
            (flow.from, flow.to) = (flow.to, flow.from);
        });
        assert!(back.contains("what comes back is dropped on this host"), "{back}");
        // Of a question by UDP the packet itself says whether it was made there.
        assert!(title(asks(), |drops| drops.flows[0].socket_ino = 7).contains(leaves));
        let came_in = title(asks(), |_| {});
        assert!(came_in.contains(host), "{came_in}");
    }
}
