//! net.reverse_path: a packet comes in by another interface than the one that leads to its sender, and the kernel drops it: the answer, as it comes
//! back, or the question, in a namespace of this host that it passes or arrives in.
//!
//! Two witnesses: the kernel counts packets of the waiter's very socket as dropped for their source address (SKB_DROP_REASON_IP_RPFILTER), and the
//! waiter got no answer meanwhile. Must not: blame the peer, which has answered, or has not heard the question. Rejected: the counter TcpExt.IPReversePathFilter alone (it does
//! not say whose packets they were).

use crate::facts::{REVERSE_PATH, ReversePath};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::dropped_packets::{
    LOST_ONE, Losing, NOTICED, claiming, losing, noticed, of_namespace, packets, waited_for,
};
use crate::rules::net::ways_out::command_in;
use crate::rules::net::who_waits::who_waits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Any way back will do (RFC 3704, loose).
const LOOSE: u32 = 2;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.reverse_path",
    title: "Packets come in by another interface than the way back to their sender, and are dropped for it",
    theory: "With rp_filter 1 the kernel takes a packet only from the interface by which it would send to the packet's sender (RFC 3704, strict \
             reverse path). Where a host has two ways to a peer and the answer comes by the other one, it is dropped without a word: the peer has \
             answered, the program never hears of it, and TCP asks again, later each time. A router does the same to what it is to pass on, \
             where it has another way back to the sender than the one that the packet took.",
    needs: &[
        "somebody waits for a connection or an answer for 0.2 s or more",
        "the kernel dropped packets of that very socket, to it or from it, for the interface that they came in by",
    ],
    refuted_by: &[
        Refutation::new(
            "what was dropped was another flow's",
            "a_filter_that_drops_others_is_not_waited_for",
        ),
        Refutation::new(
            "the wait is shorter than a lost packet costs",
            "a_short_wait_is_for_something_else",
        ),
    ],
    remedies: &[
        "let any way back do for that interface (rp_filter=2)",
        "bring the route and the way that answers take over one interface",
    ],
    stories: &[],
    thresholds: &[&LOST_ONE, &NOTICED],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<(u32, u32), Vec<Losing<'m>>> = BTreeMap::new();
    for mut losing in losing(measures, ends, REVERSE_PATH) {
        // Whoever drops the questions keeps answers from coming at all.
        if losing.dropped.iter().any(|it| !it.is_outgoing) {
            losing.dropped.retain(|it| !it.is_outgoing);
        }
        if let Some(first) = losing.dropped.first() {
            all.entry((first.kind.netns, first.kind.index)).or_default().push(losing);
        }
    }
    all.into_values().filter_map(|losing| matched(measures, ends, &losing)).collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    losing: &[Losing<'m>],
) -> Option<Match<'m>> {
    let end = noticed(measures, ends, losing)?;
    let kind = losing.first()?.dropped.first()?.kind;
    let wording = wording(measures, &end, losing);
    let by =
        Culprit::setting(format!("rp_filter of {}", kind.interface), key(&kind.interface, '.'));
    let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
    Some(claiming(matched, losing))
}

/// Who has sent what was dropped.
fn sender(losing: &Losing<'_>) -> IpAddr {
    losing.dropped[0].flow.from.ip().to_canonical()
}

/// The setting's name; a dot within an interface's name is no part of it where slashes are written.
fn key(interface: &str, between: char) -> String {
    ["net", "ipv4", "conf", interface, "rp_filter"].join(&between.to_string())
}

fn wording(measures: &Measures<'_>, end: &End, losing: &[Losing<'_>]) -> Wording {
    let model = measures.model;
    let first = &losing[0];
    let kind = first.dropped[0].kind;
    let came_by = format!("{}{}", kind.interface, of_namespace(model, kind.netns));
    let packets = packets(losing);
    let peer = sender(first);
    let hop = model.net.next_hops.get(&(kind.netns, peer));
    let leads = hop.map(|hop| hop.interface.as_str()).filter(|name| *name != kind.interface);
    let setting = model.net.drop_causes.reverse_paths.get(&(kind.netns, kind.index));
    let expected = match (leads, setting.map(ReversePath::mode)) {
        (Some(interface), _) => format!("the route there leads over {interface}"),
        (None, Some(mode)) if mode >= LOOSE => "no route leads there".to_string(),
        (None, _) => "the kernel would not send there by it".to_string(),
    };
    let mode = setting.map_or(String::new(), |it| format!(" (rp_filter {})", it.mode()));
    let waits = who_waits(measures, end);
    let waited = waited_for(first, losing);
    let mut evidence = vec![
        Evidence::new("time waited for it", end.seconds, "s", "sched_switch"),
        Evidence::new(
            format!("packets of it dropped as they came in by {came_by}: {REVERSE_PATH}"),
            packets as f64,
            "1",
            "kfree_skb",
        ),
    ];
    if let Some(setting) = setting {
        evidence.push(Evidence::new(
            format!("rp_filter of {came_by}"),
            f64::from(setting.mode()),
            "1",
            "rtnetlink RTM_GETNETCONF",
        ));
    }
    let is_question = first.dropped[0].is_outgoing;
    let (what, then) = match is_question {
        true => (
            format!("what it sends is dropped where it comes in by {came_by}"),
            "The other end has not heard of it.",
        ),
        false => {
            (format!("what comes back by {came_by} is dropped"), "The other end has answered.")
        }
    };
    let expected = match is_question {
        true => expected.replace("there", &format!("back to {peer}")),
        false => expected,
    };
    Wording {
        title: format!("{waits} {waited}, but {what}: {expected}"),
        text: format!(
            "{} pass so. {} came in by {came_by}; {expected}, so the kernel takes {} for forged{mode} and drops {}. {then}",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::count(packets as usize, "packet of it", "packets of it"),
            if packets == 1 { "it" } else { "them" },
            if packets == 1 { "it" } else { "them" },
        ),
        evidence,
        remedy: remedies(measures, first, setting),
    }
}

fn remedies(
    measures: &Measures<'_>,
    first: &Losing<'_>,
    setting: Option<&ReversePath>,
) -> Vec<Remedy> {
    let kind = first.dropped[0].kind;
    let mut all = Vec::new();
    if let Some(setting) = setting.filter(|it| it.mode() < LOOSE) {
        let sysctl = command_in(measures.model, kind.netns, "sysctl");
        let slashed = kind.interface.contains('.');
        let name = key(&kind.interface, if slashed { '/' } else { '.' });
        let set = |value: u32| format!("{sysctl} -w {}", words::shell(&format!("{name}={value}")));
        let path = format!("/proc/sys/{}", key(&kind.interface, '/'));
        let action = Action::write(&path, LOOSE, setting.own).through(sysctl.through.as_ref());
        all.push(Remedy::to("take packets by any interface that leads anywhere (loose)").set(
            action,
            set(LOOSE),
            set(setting.own),
        ));
    }
    let ip = command_in(measures.model, kind.netns, "ip");
    all.push(Remedy {
        text: "see by which interface it would send there: what comes from there should come in by the same"
            .into(),
        command: format!("{ip} route get {}", sender(first)),
        action: Some(Action::look(Question::State).through(ip.through.as_ref())),
        ..Remedy::default()
    });
    all
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::fact;

    const CODE: &str = "net.reverse_path";

    /// A client waits to be connected, in tenths of a second, while answers to an address are dropped.
    fn connects(until: u64, answered: &str, own: u32, interface: &str) -> Vec<Fact> {
        let object = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
        let mut drops = dropped(REVERSE_PATH, "tcp", "192.0.2.1:80", answered, 4);
        if let Body::PacketDrops(drops) = &mut drops.body {
            drops.interface = interface.into();
        }
        vec![
            wait(10, "curl", "connect", object, 0, until),
            drops,
            fact(Body::ReversePath(ReversePath {
                netns: 1,
                index: 2,
                own,
                of_all: 0,
                forwards: None,
            })),
            fact(Body::NextHop(NextHop {
                kind: String::new(),
                netns: 1,
                destination: "192.0.2.1".parse().expect("an address"),
                gateway: None,
                interface: "eth1".into(),
                index: 3,
                state: 2,
                updated_ns: 0,
                path_mtu_bytes: None,
                hardware: String::new(),
                tunnel_ends: Vec::new(),
            })),
        ]
    }

    #[test]
    fn an_answer_by_another_interface_is_dropped_by_this_host() {
        let found = findings(connects(48, "10.0.0.1:40000", 1, "eth0"));
        assert_eq!((&*found[0].code, &*found[0].culprit.name), (CODE, "rp_filter of eth0"));
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 192.0.2.1:80, but what comes back by eth0 is dropped: the route there leads over eth1"
        );
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "sysctl -w net.ipv4.conf.eth0.rp_filter=2");
        assert_eq!(way.undo, "sysctl -w net.ipv4.conf.eth0.rp_filter=1");
    }

    #[test]
    fn a_router_of_this_host_that_drops_the_question_is_named() {
        let mut facts = connects(48, "10.0.0.1:40000", 1, "eth0");
        facts.truncate(1);
        let mut drops = dropped(REVERSE_PATH, "tcp", "10.0.0.1:40000", "192.0.2.1:80", 4);
        if let Body::PacketDrops(drops) = &mut drops.body {
            drops.netns = 7;
        }
        let (netns, index, netns_name) = (7, 2, "router".to_string());
        let link = Link { netns, index, netns_name, name: "eth0".into(), ..Link::default() };
        let path = ReversePath { netns, index, own: 1, of_all: 1, forwards: Some(true) };
        facts.extend([drops, fact(Body::Link(link)), fact(Body::ReversePath(path))]);
        let found = findings(facts);
        assert_eq!(
            found[0].title,
            "curl waits for a connection to 192.0.2.1:80, but what it sends is dropped where it comes in by eth0 of network namespace router: the \
             kernel would not send back to 10.0.0.1 by it"
        );
        assert_eq!(found[0].code, CODE);
        let way = &found[0].remedy[0];
        assert_eq!(way.command, "ip netns exec router sysctl -w net.ipv4.conf.eth0.rp_filter=2");
    }

    #[test]
    fn a_dot_in_an_interface_s_name_stays_one() {
        let found = findings(connects(48, "10.0.0.1:40000", 0, "eth0.7"));
        assert_eq!(found[0].remedy[0].command, "sysctl -w net/ipv4/conf/eth0.7/rp_filter=2");
    }

    #[test]
    fn where_any_way_back_does_already_only_the_route_is_left() {
        let found = findings(connects(48, "10.0.0.1:40000", 2, "eth0"));
        assert_eq!(found[0].code, CODE);
        assert_eq!(found[0].remedy[0].command, "ip route get 192.0.2.1");
    }

    #[test]
    fn which_way_leads_back_is_said_as_far_as_it_was_read() {
        let title = |own: u32| {
            let mut facts = connects(48, "10.0.0.1:40000", own, "eth0");
            facts.pop();
            findings(facts)[0].title.clone()
        };
        assert!(title(1).ends_with("is dropped: the kernel would not send there by it"));
        assert!(title(2).ends_with("is dropped: no route leads there"));
    }

    #[test]
    fn a_filter_that_drops_others_is_not_waited_for() {
        assert_eq!(codes(connects(48, "10.0.0.1:40001", 1, "eth0")), ["net.slow_peer"]);
    }

    #[test]
    fn a_short_wait_is_for_something_else() {
        assert!(says(CODE, connects(3, "10.0.0.1:40000", 1, "eth0")));
        assert!(!says(CODE, connects(1, "10.0.0.1:40000", 1, "eth0")));
    }
}
