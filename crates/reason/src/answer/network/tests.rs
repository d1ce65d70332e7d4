//! Each table of the network from facts made by hand: its figures, what is not known, names that are hostile, who waits.
//!
//! Must not: go through a file. What recordings of real faults give is in the report crate's tests (tests/network.rs).

use super::contract::Lost;
use super::*;
use crate::answer::network_of_model;
use crate::facts::*;
use crate::model::Model;
use crate::rules::net::scenes::{
    address, counters, dropped, inet, look_at, qdisc, stream, wait, with_state,
};
use crate::rules::scenes::{LOOK_NS, fact, host, thread};

const HOSTILE: &str = "e\u{1b}[2J\nth0";
const SECOND: Ns = 1_000_000_000;

fn of(facts: Vec<Fact>) -> Network {
    let mut model = Model::default();
    let seen = Host { hostname: "web".into(), kernel_events: true, cpus: 2, ..Host::default() };
    let all = [vec![fact(Body::Host(seen))], host(), facts].concat();
    all.into_iter().for_each(|fact| model.push(fact));
    network_of_model(&mut model)
}

/// A reading of an interface.
fn link(netns_name: &str, name: &str, at_ns: Ns, counters: &[(&str, u64)]) -> Fact {
    let counters = counters.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
    let body = Body::Link(Link {
        netns: if netns_name.is_empty() { 1 } else { 7 },
        netns_name: netns_name.into(),
        index: 2,
        name: name.into(),
        kind: "veth".into(),
        mtu: 1_500,
        counters,
        ..Link::default()
    });
    Fact { at_ns, body }
}

fn carried(packets: u64, bytes: u64, missed: u64) -> [(&'static str, u64); 6] {
    [
        ("rx_packets", packets),
        ("rx_bytes", bytes),
        ("tx_packets", 0),
        ("tx_bytes", 0),
        ("rx_missed_errors", missed),
        ("rx_crc_errors", 3),
    ]
}

#[test]
fn a_rate_is_of_the_time_between_the_readings_and_a_loss_by_its_kind() {
    // Read for 4 s, though the look took 5 s.
    let facts = vec![
        link("", HOSTILE, SECOND, &carried(100, 1_000, 7)),
        link("", HOSTILE, 5 * SECOND, &carried(500, 5_001_000, 47)),
        link("blue", "eth1", 0, &carried(9, 9, 9)),
        link("blue", "eth1", LOOK_NS, &carried(9, 9, 9)),
    ];
    let net = of(facts);
    let interfaces = net.interfaces.expect("they were read");
    assert_eq!((interfaces.len(), net.interfaces_at_rest), (1, 1));
    let it = &interfaces[0];
    assert_eq!(it.name, HOSTILE);
    let received = it.received.expect("read twice");
    assert_eq!((received.bits_per_second, received.packets_per_second), (10e6, 100.0));
    let lost = Lost { counter: "rx_missed_errors".into(), packets: 40, per_second: 10.0 };
    assert_eq!(it.lost, [lost]);
}

#[test]
fn an_interface_that_was_read_once_or_counts_backwards_has_no_rate() {
    let once = of(vec![link("blue", "eth1", 0, &carried(9, 9, 9))]).interfaces.expect("read");
    assert_eq!((once[0].received, once[0].lost.len()), (None, 0));
    assert_eq!(once[0].at.namespace, "blue");
    let again = vec![
        link("", "eth0", 0, &carried(900, 900, 9)),
        link("", "eth0", LOOK_NS, &carried(9, 9, 0)),
    ];
    let again = of(again).interfaces.expect("read");
    assert_eq!((again[0].received, again[0].lost.len()), (None, 0));
}

#[test]
fn a_queue_has_its_backlog_limit_and_drops() {
    let mut facts =
        vec![link("", "eth0", 0, &carried(1, 1, 0)), link("", "eth0", LOOK_NS, &carried(2, 2, 0))];
    facts.extend((1..50).map(|at| qdisc(false, "1:", 127, 625_000, 625_000, at)));
    for fact in &mut facts {
        if let Body::QdiscSample(sample) = &mut fact.body {
            sample.drops = fact.at_ns / 100_000_000;
        }
    }
    let interfaces = of(facts).interfaces.expect("read");
    let queue = &interfaces[0].queues[0];
    assert_eq!((&*queue.kind, queue.backlog.packets), ("tbf", 127));
    assert_eq!((queue.limit_bytes, queue.limit_packets), (Some(127 * 1_514), None));
    assert_eq!((queue.dropped_packets, queue.rate_bits_per_second), (Some(48), Some(5e6)));
    assert!((queue.dropped_per_second.expect("read often") - 10.0).abs() < 1e-9, "{queue:?}");
}

#[test]
fn drops_say_why_where_whose_and_who_waits() {
    let client = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 2);
    let mut drops = dropped("NETFILTER_DROP", "tcp", "10.0.0.1:40000", "10.0.0.2:80", 10);
    if let Body::PacketDrops(drops) = &mut drops.body {
        drops.flows[0].sender = Some(thread(10, ""));
    }
    let facts = vec![
        drops,
        dropped("SOME_NEW_REASON", "udp", "10.0.0.1:7", "10.0.0.9:9", 20),
        with_state(10, HOSTILE, client.clone(), SocketState::default()),
        wait(10, HOSTILE, "connect", client, 0, 48),
    ];
    let rows = of(facts).drops.expect("they were counted");
    assert_eq!(
        (&*rows[0].reason, rows[0].packets, rows[0].per_second),
        ("SOME_NEW_REASON", 20, 4.0)
    );
    assert_eq!((&rows[0].meaning, rows[0].waiting.len()), (&None, 0));
    let filtered = &rows[1];
    assert!(filtered.meaning.as_ref().is_some_and(|it| it.contains("packet filter")));
    assert_eq!(filtered.at.namespace, "net:[1]");
    assert_eq!(filtered.flows[0].sender.as_ref().map(|it| &*it.name), Some(HOSTILE));
    let [waits] = &filtered.waiting[..] else { panic!("{filtered:?}") };
    assert_eq!((waits.pid, &*waits.comm), (10, HOSTILE));
    assert!((4.7..=5.0).contains(&waits.wait_seconds), "{waits:?}");
}

#[test]
fn a_table_that_was_not_read_is_none_and_says_so() {
    let mut model = Model::default();
    host().into_iter().for_each(|fact| model.push(fact));
    let net = network_of_model(&mut model);
    assert!(net.interfaces.is_none() && net.drops.is_none() && net.neighbours.is_none());
    assert!(net.sockets.is_none() && net.counters.is_none());
    for table in ["interfaces", "neighbours", "sockets", "counters"] {
        assert!(net.not_read.iter().any(|it| it.table == table), "{table}: {:?}", net.not_read);
    }
    let blind =
        Blind { what: "program.kfree_skb".into(), why: "refused".into(), ..Blind::default() };
    let net = of(vec![fact(Body::Blind(blind))]);
    assert!(net.drops.is_none() && net.not_read.iter().any(|it| it.table == "drops"));
    assert_eq!(of(vec![]).drops, Some(vec![]));
    let mut facts = vec![link("", "eth0", 0, &[])];
    assert_eq!(of(facts.clone()).neighbours, Some(vec![]));
    facts.push(fact(Body::Host(Host::default())));
    assert_eq!(of(facts).neighbours, None);
}

#[test]
fn a_neighbour_that_does_not_answer_has_who_waits_behind_it() {
    let hop = |destination: &str, state| {
        let destination = destination.parse().expect("an address");
        let gateway = Some("10.0.0.254".parse().expect("an address"));
        let interface = HOSTILE.to_string();
        let updated_ns = 3 * SECOND;
        fact(Body::NextHop(NextHop {
            kind: String::new(),
            netns: 1,
            destination,
            gateway,
            interface,
            index: 2,
            state,
            updated_ns,
            path_mtu_bytes: None,
            hardware: String::new(),
            tunnel_ends: Vec::new(),
        }))
    };
    let client = inet("tcp", 100, "10.0.0.1:40000", "10.9.0.2:80", 2);
    let mut facts = vec![
        hop("10.9.0.2", 0x20),
        hop("10.9.0.3", 0x02),
        with_state(10, "client", client.clone(), SocketState::default()),
        wait(10, "client", "connect", client, 0, 48),
    ];
    facts.extend(counters(&[("arp_cache.entries", 5, 6), ("arp_cache.table_fulls", 1, 4)]));
    let sysctl = ("net.ipv4.neigh.default.gc_thresh3".to_string(), "1024".to_string());
    facts.push(fact(Body::Sysctl(Sysctl { name: sysctl.0, value: sysctl.1 })));
    let net = of(facts);
    let rows = net.neighbours.expect("asked for");
    let [failed] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&*failed.state, failed.state_seconds), ("failed", 3.0));
    assert_eq!(failed.address.to_string(), "10.0.0.254");
    assert_eq!(failed.waiting.first().map(|it| it.pid), Some(10));
    let [table] = &net.tables[..] else { panic!("{:?}", net.tables) };
    assert_eq!((&*table.table, table.entries, table.limit), ("neighbours_v4", 6, 1024));
    assert_eq!((table.refused, table.unanswered), (Some(3), None));
}

#[test]
fn what_a_table_of_connections_with_room_drops_did_not_find_it_full() {
    let refused = |entries: u64, drops: u64| {
        let mut facts = counters(&[
            ("nf_conntrack.entries", entries, entries),
            ("nf_conntrack.drop", 0, drops),
        ]);
        let (name, value) = ("net.netfilter.nf_conntrack_max".into(), "1000".into());
        facts.push(fact(Body::Sysctl(Sysctl { name, value })));
        let tables = of(facts).tables;
        tables.iter().find(|it| it.table == "connections").expect("it is there").refused
    };
    assert_eq!(refused(990, 14), Some(14));
    assert_eq!(refused(90, 14), None, "two packets of one flow raced");
    assert_eq!(refused(90, 0), Some(0));
}

#[test]
fn a_socket_is_shown_for_what_is_wrong_with_it_and_a_healthy_one_is_not() {
    let healthy =
        SocketState { rtt_us: 300, rtt_us_min: 200, delivered: 9, ..SocketState::default() };
    let lossy = SocketState {
        retransmits: 4,
        delivered: 100,
        rtt_us: 90_000,
        rtt_us_min: 20_000,
        unsent_bytes: 5_000,
        acked_bytes: 625_000,
        busy_us: 4_000_000,
        receiver_limited_us: 3_000_000,
        ..SocketState::default()
    };
    let listener = SocketState { accept_queue: 65, accept_limit: 128, ..SocketState::default() };
    let half = SocketState { accept_queue: 64, accept_limit: 128, ..SocketState::default() };
    let facts = vec![
        with_state(10, "a", inet("tcp", 100, "10.0.0.1:1", "10.0.0.2:80", 1), healthy),
        with_state(11, "b", inet("tcp", 101, "10.0.0.1:2", "10.0.0.2:80", 1), lossy),
        with_state(12, "c", inet("tcp", 102, "0.0.0.0:80", "0.0.0.0:0", 10), listener),
        with_state(13, "d", inet("tcp", 103, "0.0.0.0:81", "0.0.0.0:0", 10), half),
    ];
    let rows = of(facts).sockets.expect("they were read");
    let owners: Vec<&str> = rows.iter().map(|it| &*it.owner.name).collect();
    assert_eq!(owners, ["b", "c"]);
    assert_eq!(
        rows[0].troubles,
        [
            Trouble::SentAgain,
            Trouble::PeerWindowZero,
            Trouble::RoundTripGrown,
            Trouble::ReceiverLimited
        ]
    );
    let tcp = rows[0].tcp.expect("a connection");
    assert_eq!((tcp.acknowledged_bits_per_second, tcp.rtt_seconds), (1e6, Some(0.09)));
    assert_eq!((&*rows[1].state, &rows[1].remote), ("LISTEN", &None));
    assert_eq!(rows[1].troubles, [Trouble::AcceptQueueOverHalf]);
}

#[test]
fn who_waits_to_write_is_beside_his_socket_and_the_other_end_of_it() {
    let far = inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
    let mut facts = stream(SocketState { unsent_bytes: 9_000, ..SocketState::default() });
    facts.push(with_state(20, "reader", far, SocketState::default()));
    facts.push(look_at(TargetKind::Process, 10));
    let rows = of(facts).sockets.expect("they were read");
    let waits: Vec<(&str, u32)> =
        rows.iter().filter_map(|it| Some((&*it.owner.name, it.waiting.first()?.pid))).collect();
    assert!(waits.contains(&("sender", 10)) && waits.contains(&("reader", 10)), "{rows:?}");
    assert!((4.7..=5.0).contains(&rows[0].waiting_seconds), "{:?}", rows[0]);
    assert_eq!(rows[0].local.ip(), address("10.0.0.1:1").ip());
}

#[test]
fn counters_that_mean_trouble_are_said_by_namespace_and_cpu() {
    let net = of(counters(&[
        ("Udp6.RcvbufErrors", 1, 11),
        ("TcpExt.ListenOverflows", 5, 5),
        ("Ip.InReceives", 0, 900),
        ("softnet.dropped", 0, 30),
        ("softnet.dropped.cpu1", 0, 30),
        ("Udp.NoPorts", 9, 3),
    ]));
    let rows = net.counters.expect("they were read");
    let names: Vec<(&str, u64)> = rows.iter().map(|it| (&*it.counter, it.count)).collect();
    assert_eq!(names, [("softnet.dropped.cpu1", 30), ("Udp6.RcvbufErrors", 10)]);
    assert_eq!(rows[1].per_second, 2.0);
    let once = vec![counters(&[("Udp.NoPorts", 1, 9)]).remove(0)];
    let net = of(once);
    assert_eq!(net.counters, Some(vec![]));
    assert!(net.not_read.iter().any(|it| it.text.contains("read once")), "{:?}", net.not_read);
    let beside =
        of(vec![link("blue", "eth1", 0, &[]), link("blue", "eth1", LOOK_NS, &[])]).not_read;
    assert!(beside.iter().any(|it| it.text.contains("blue were not read")), "{beside:?}");
}

#[test]
fn lists_are_bounded_and_what_is_left_out_is_counted() {
    let flows = |at: u64| dropped(&format!("R{at}"), "udp", "10.0.0.1:7", "10.0.0.9:9", at);
    let net = of((0..ROWS_MAX as u64 + 44).map(flows).collect());
    assert_eq!(net.drops.as_ref().map(Vec::len), Some(ROWS_MAX));
    let cut = net.left_out.iter().find(|it| it.list == "/drops").expect("it is counted");
    assert_eq!(cut.count, 44);
}
