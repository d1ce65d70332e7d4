//! net.neighbour_table_full: there is no room for one more address of a neighbour, and what would be sent to it is dropped.
//!
//! Two witnesses: the kernel's count of addresses that found no room grows (table_fulls), and packets of the waiter's very socket were
//! dropped for want of an entry; or, since the flows of whoever tries thousands of addresses leave no room to keep each, packets were dropped for it
//! on the way to whom the waiter connects to, and that address has no entry as the look ends. Must not: fire on a table that is full and drops nothing (old entries make room), or say whose the entries are
//! where no packet shows it. Rejected: the number of entries alone.

use crate::facts::{DroppedFlow, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::measure::packet_drops::of_reason;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{
    LOST_ONE, Losing, NOTICED, connecting, is_noticed, losing, packets, waited_for,
};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use crate::threshold::Threshold;
use std::collections::{BTreeMap, BTreeSet};

/// Why the packet went no further (SKB_DROP_REASON_NEIGH_CREATEFAIL).
const REASON: &str = "NEIGH_CREATEFAIL";
/// Why the packets went no further that an entry was made for (SKB_DROP_REASON_NEIGH_FAILED).
const NOBODY_ANSWERED: &str = "NEIGH_FAILED";
/// No entry (include/uapi/linux/neighbour.h).
const NUD_NONE: u16 = 0;
/// Room is made in steps of this.
const ROOMIER: u64 = 4;

/// Part of the packets without an entry that one sender makes.
static MOST: Threshold = Threshold::new(
    0.5,
    "1",
    "of the packets that found no entry or no answer, those of one process: it is who asks for the most addresses",
    "chosen: more than all others together",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.neighbour_table_full",
    title: "The table of neighbours is full: nothing can be sent to one that is not in it",
    theory: "For each address on a link the kernel has an entry with its hardware address (ARP, neighbour discovery). All network namespaces share \
             one table for each of IPv4 and IPv6, with room for gc_thresh3. Once that is taken, and nothing in it is older than some seconds, a \
             packet to an address without an entry is dropped here; TCP asks again, later each time. A network with thousands of hosts on one \
             link, or a program that tries many addresses, fills it.",
    needs: &[
        "somebody waits for a connection or an answer for 0.2 s or more",
        "packets of that very socket were dropped because no entry could be made, or others' on its way were and the address has no entry as the look \
         ends; where it has connected meanwhile, and too many packets of its namespace were dropped so to keep each, it is inferred",
        "the count of addresses that found no room grew within the look",
    ],
    refuted_by: &[
        Refutation::new("there was room", "a_count_that_stands_still_is_another_failure"),
        Refutation::new(
            "what was dropped was another flow's",
            "who_waits_for_another_address_is_not_meant",
        ),
    ],
    remedies: &[
        "find who asks for so many addresses",
        "more room (net.ipv4.neigh.default.gc_thresh3, net.ipv6 of IPv6)",
    ],
    stories: &["S2.8"],
    thresholds: &[&LOST_ONE, &NOTICED, &MOST],
    finds: Finds::Look(find),
};

/// A table that is full.
#[derive(Debug, Clone, Copy)]
struct Table {
    is_v6: bool,
    /// Addresses that found no room within the look.
    refused: u64,
    /// Room in it, as it was set when the look began.
    room: u64,
}

impl Table {
    fn of(measures: &Measures<'_>, is_v6: bool) -> Option<Self> {
        let table = if is_v6 { "ndisc_cache" } else { "arp_cache" };
        // The file is in the first namespace alone, and its numbers are everybody's.
        let mut namespaces = measures.model.net.counters.keys();
        let counter = format!("{table}.table_fulls");
        let refused = namespaces.find_map(|it| growth(measures.model, *it, &counter))?;
        let room = measures.model.net.sysctls.get(&setting(is_v6))?.parse().ok()?;
        (refused > 0).then_some(Self { is_v6, refused, room })
    }
}

fn setting(is_v6: bool) -> String {
    format!("net.ipv{}.neigh.default.gc_thresh3", if is_v6 { 6 } else { 4 })
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<bool, Vec<Losing<'m>>> = BTreeMap::new();
    let mut losing = losing(measures, ends, REASON);
    for waits in connecting(measures, ends) {
        if has_no_entry(measures, &waits) && losing.iter().all(|it| it.end != waits.end) {
            losing.push(waits);
        }
    }
    let proven: BTreeSet<usize> = losing.iter().map(|it| it.end).collect();
    let others = connecting(measures, ends).into_iter();
    losing.extend(others.filter(|it| !proven.contains(&it.end) && may_be_one(measures, it)));
    for losing in losing {
        all.entry(losing.remote.ip().to_canonical().is_ipv6()).or_default().push(losing);
    }
    let tables = all.into_iter().filter_map(|(is_v6, losing)| {
        matched(measures, ends, Table::of(measures, is_v6)?, &losing, &proven)
    });
    tables.collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    table: Table,
    losing: &[Losing<'m>],
    proven: &BTreeSet<usize>,
) -> Option<Match<'m>> {
    let end = End::merged(losing.iter().map(|losing| &ends[losing.end]))?;
    if !is_noticed(measures, &end) {
        return None;
    }
    let filler = filler(measures, table.is_v6);
    let wording = wording(measures, &end, table, losing, filler.as_ref());
    let setting = setting(table.is_v6);
    let by = match &filler {
        Some((by, _)) => Culprit::process(by),
        None => Culprit::setting(format!("gc_thresh3 {}", table.room), setting),
    };
    let is_proven = losing.iter().any(|it| proven.contains(&it.end));
    let proof = if is_proven { Proof::TwoWitnesses } else { Proof::Inferred };
    let matched = Match::new(by, proof, move |_| wording.clone());
    let claims = losing.iter().map(|losing| losing.end);
    Some(claims.fold(matched, |matched, at| matched.claiming(at, None)))
}

/// It has connected meanwhile, so that nothing is known of its entry, and the flows of its namespace that lost packets were too many to keep each:
/// that its first packet was one of them is likely, and that its peer is slow is not known.
fn may_be_one(measures: &Measures<'_>, waits: &Losing<'_>) -> bool {
    let Some(netns) = waits.netns else { return false };
    let hops = &measures.model.net.next_hops;
    let lost_more = of_reason(measures.model, REASON)
        .any(|it| it.netns == netns && it.packets > it.flows.iter().map(|flow| flow.packets).sum());
    lost_more && !hops.contains_key(&(netns, waits.remote.ip().to_canonical()))
}

/// The address has no entry, and packets on the way to it found no room for one.
fn has_no_entry(measures: &Measures<'_>, waits: &Losing<'_>) -> bool {
    let Some(netns) = waits.netns else { return false };
    let hop = measures.model.net.next_hops.get(&(netns, waits.remote.ip().to_canonical()));
    let Some(hop) = hop.filter(|hop| hop.state == NUD_NONE) else { return false };
    of_reason(measures.model, REASON).any(|it| (it.netns, it.index) == (netns, hop.index))
}

/// The process whose packets most of those without an entry are, or for whose address nobody answered, and how many addresses they went to: both kinds
/// take entries, and the flows of one may leave no room to keep the other's.
fn filler(measures: &Measures<'_>, is_v6: bool) -> Option<(ThreadRef, usize)> {
    let flows = || {
        let all = [REASON, NOBODY_ANSWERED]
            .into_iter()
            .flat_map(|reason| of_reason(measures.model, reason))
            .flat_map(|kind| &kind.flows);
        all.filter(move |flow| flow.to.ip().to_canonical().is_ipv6() == is_v6)
    };
    let mut by: BTreeMap<u32, (&ThreadRef, u64, usize)> = BTreeMap::new();
    for DroppedFlow { sender, packets, .. } in flows() {
        if let Some(sender) = sender {
            let sum = by.entry(sender.pid).or_insert((sender, 0, 0));
            (sum.1, sum.2) = (sum.1 + packets, sum.2 + 1);
        }
    }
    let all: u64 = flows().map(|flow| flow.packets).sum();
    let (who, packets, addresses) = by.into_values().max_by_key(|(_, packets, _)| *packets)?;
    (packets as f64 > MOST.value * all as f64 && addresses > 1).then(|| (who.clone(), addresses))
}

fn wording(
    measures: &Measures<'_>,
    end: &End,
    table: Table,
    losing: &[Losing<'_>],
    filler: Option<&(ThreadRef, usize)>,
) -> Wording {
    let first = &losing[0];
    let waits = who_waits(measures, end);
    let waited = waited_for(first, losing);
    let setting = setting(table.is_v6);
    let packets = packets(losing);
    let by = match filler {
        Some((who, addresses)) => format!(
            " {} sent to {addresses} or more addresses that found no room, or that nobody has.",
            words::who(who)
        ),
        None => String::new(),
    };
    let family = if table.is_v6 { "IPv6" } else { "IPv4" };
    let mut evidence = vec![Evidence::new("time waited for it", end.seconds, "s", "sched_switch")];
    if packets > 0 {
        let fact = format!("of its packets dropped: {REASON}");
        evidence.push(Evidence::new(fact, packets as f64, "1", "kfree_skb"));
    } else {
        let fact = format!("entries of {}", first.remote.ip().to_canonical());
        evidence.push(Evidence::new(fact, 0.0, "1", "rtnetlink RTM_GETNEIGH"));
    }
    evidence.extend([
        Evidence::new(
            "addresses that found no room",
            table.refused as f64,
            "1",
            "/proc/net/stat table_fulls",
        ),
        Evidence::new("room in the table", table.room as f64, "1", setting),
    ]);
    Wording {
        title: format!(
            "{waits} {waited}, but the table of neighbours is full: there is room for {}",
            table.room
        ),
        text: format!(
            "{} pass so. What is sent to an address of {family} without an entry is dropped on this host; within the look {} found no \
             room.{by} Addresses that have an entry are reached as ever.",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::count(table.refused as usize, "address", "addresses"),
        ),
        evidence,
        remedy: remedies(measures, table, first, filler),
    }
}

fn remedies(
    measures: &Measures<'_>,
    table: Table,
    first: &Losing<'_>,
    filler: Option<&(ThreadRef, usize)>,
) -> Vec<Remedy> {
    let mut all = Vec::new();
    if let Some((who, _)) = filler {
        let text = format!("pause {}, if it need not try so many addresses", words::who(who));
        all.push(Remedy::to(text).pause(who));
    }
    let setting = setting(table.is_v6);
    let set = |value: u64| format!("sysctl -w {setting}={value}");
    let more = table.room.saturating_mul(ROOMIER);
    all.push(Remedy::to("give it more room").set(
        Action::sysctl(&setting, more, table.room),
        set(more),
        set(table.room),
    ));
    let dropped = first.dropped.first().map(|it| it.kind.netns);
    let ip = command_in(measures.model, first.netns.or(dropped).unwrap_or_default(), "ip");
    all.push(Remedy {
        text: "see the addresses that are asked for".into(),
        command: format!("{ip} -{} neigh show nud incomplete", if table.is_v6 { 6 } else { 4 }),
        action: Some(Action::look(Question::State).through(ip.through.as_ref())),
        ..Remedy::default()
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{fact, thread};

    const CODE: &str = "net.neighbour_table_full";

    fn connects(refused: u64, from: &str) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
        let sysctl = Sysctl { name: setting(false), value: "1024".into() };
        let mut facts = vec![
            wait(10, "curl", "connect", object, 0, 48),
            dropped(REASON, "tcp", from, "192.0.2.1:80", 4),
            fact(Body::Sysctl(sysctl)),
        ];
        facts.extend(counters(&[("arp_cache.table_fulls", 3, 3 + refused)]));
        facts
    }

    /// A process that sends to some addresses, whose packets find no entry.
    fn scanner(addresses: u8) -> Vec<Fact> {
        let mut facts = Vec::new();
        for last in 1..=addresses {
            let to = format!("192.0.2.{}:9", 100 + last);
            let mut one = dropped(REASON, "udp", "10.0.0.1:50000", &to, 3);
            if let Body::PacketDrops(drops) = &mut one.body {
                drops.flows[0].sender = Some(thread(20, "scan"));
            }
            facts.push(one);
        }
        facts
    }

    #[test]
    fn a_connection_that_finds_no_room_in_the_table_ends_there() {
        let found = findings(connects(7, "10.0.0.1:40000"));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "gc_thresh3 1024"));
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 192.0.2.1:80, but the table of neighbours is full: there is room for 1024"
        );
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "sysctl -w net.ipv4.neigh.default.gc_thresh3=4096");
        assert_eq!(way.undo, "sysctl -w net.ipv4.neigh.default.gc_thresh3=1024");
    }

    #[test]
    fn who_sends_to_most_of_the_addresses_is_named() {
        let with = |addresses| {
            let mut facts = connects(7, "10.0.0.1:40000");
            facts.extend(scanner(addresses));
            findings(facts)[0].culprit.clone()
        };
        assert_eq!(with(9).pid, Some(20));
        assert_eq!(with(1).pid, None, "one address fills no table");
    }

    #[test]
    fn an_address_without_an_entry_is_meant_though_its_own_packet_was_not_kept() {
        let with = |state| {
            let mut facts = connects(7, "10.0.0.1:40001");
            facts.push(hop("192.0.2.1", state));
            codes(facts)
        };
        assert_eq!(with(NUD_NONE), [CODE]);
        assert_eq!(with(2), ["net.slow_peer"], "it is reachable");
    }

    /// The entry of an address.
    fn hop(destination: &str, state: u16) -> Fact {
        fact(Body::NextHop(NextHop {
            kind: String::new(),
            netns: 1,
            destination: destination.parse().expect("an address"),
            gateway: None,
            interface: "eth0".into(),
            index: 2,
            state,
            updated_ns: 0,
            path_mtu_bytes: None,
            hardware: String::new(),
            tunnel_ends: Vec::new(),
        }))
    }

    #[test]
    fn one_whose_packet_was_dropped_and_one_whose_address_has_no_entry_wait_for_one_table() {
        let mut facts = connects(7, "10.0.0.1:40000");
        let other = inet("tcp", 101, "10.0.0.1:40002", "192.0.2.2:80", 2);
        facts.push(wait(11, "wget", "connect", other, 0, 48));
        facts.push(hop("192.0.2.2", NUD_NONE));
        let found = findings(facts);
        let victims: Vec<u32> = found[0].victims.iter().map(|victim| victim.pid).collect();
        assert_eq!((found[0].code.as_str(), victims), (CODE, vec![10, 11]));
    }

    #[test]
    fn who_has_connected_meanwhile_may_be_one_of_those_that_were_not_kept() {
        let beside = |packets: u64| {
            let mut facts = connects(7, "10.0.0.1:40001");
            if let Body::PacketDrops(drops) = &mut facts[1].body {
                drops.packets = packets;
            }
            findings(facts).remove(0)
        };
        let found = beside(9_000);
        assert_eq!(found.code, CODE);
        assert!(found.confidence < findings(connects(7, "10.0.0.1:40000"))[0].confidence);
        assert_eq!(beside(4).code, "net.slow_peer", "all are known, and it is none of them");
    }

    #[test]
    fn a_count_that_stands_still_is_another_failure() {
        assert_eq!(codes(connects(0, "10.0.0.1:40000")), ["net.slow_peer"]);
    }

    #[test]
    fn who_waits_for_another_address_is_not_meant() {
        assert_eq!(codes(connects(7, "10.0.0.1:40001")), ["net.slow_peer"]);
    }
}
