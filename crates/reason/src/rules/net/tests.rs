//! Hand-made scenes for the network cases, each with its healthy twin. No rule here.
//!
//! All go through `judge::explain`, so that a second case that claims the same wait fails the test too.

use crate::answer::report::{CulpritKind, Finding, Severity};
use crate::facts::*;
use crate::rules::old::process_tests::{LOOK_NS, endpoint, fact, host, thread};
use std::collections::BTreeMap;
use std::net::SocketAddr;

fn findings(facts: Vec<Fact>) -> Vec<Finding> {
    let mut all = host();
    all.extend(facts);
    crate::answer::explain(all).findings
}

fn codes(facts: Vec<Fact>) -> Vec<String> {
    let above = |f: &Finding| f.severity > Severity::Note;
    findings(facts).into_iter().filter(above).map(|f| f.code).collect()
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn inet(protocol: &str, ino: u64, local: &str, remote: &str, state: u8) -> ObjectRef {
    ObjectRef::Inet(InetRef {
        ino,
        netns: 1,
        protocol: protocol.into(),
        local: address(local),
        remote: address(remote),
        state,
    })
}

/// A wait in a system call from one time to another, both in tenths of a second.
fn wait(pid: u32, comm: &str, syscall: &str, object: ObjectRef, from: u64, to: u64) -> Fact {
    let place = Place {
        state: WaitState::Sleep,
        syscall: syscall.into(),
        object: Some(object),
        ..Place::default()
    };
    let (begin_ns, end_ns) = (from * 100_000_000, to * 100_000_000);
    let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
    let wait = Wait { thread: thread(pid, comm), begin_ns, end_ns, place, wake, ..Wait::default() };
    Fact { at_ns: end_ns, body: Body::Wait(wait) }
}

fn with_state(pid: u32, comm: &str, object: ObjectRef, state: SocketState) -> Fact {
    let mut fact = endpoint(pid, comm, object);
    if let Body::Endpoint(endpoint) = &mut fact.body {
        endpoint.socket = Some(state);
    }
    fact
}

fn counters(pairs: &[(&str, u64, u64)]) -> Vec<Fact> {
    let at = |of: fn(&(&str, u64, u64)) -> u64| {
        let named = pairs.iter().map(|pair| (pair.0.to_string(), of(pair)));
        Body::NetCounters(NetCounters { netns: 1, counters: named.collect::<BTreeMap<_, _>>() })
    };
    vec![fact(at(|pair| pair.1)), Fact { at_ns: LOOK_NS, body: at(|pair| pair.2) }]
}

/// A writer that waits almost all the time, and the state of its socket.
fn stream(state: SocketState) -> Vec<Fact> {
    let near = || inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1);
    vec![with_state(10, "sender", near(), state), wait(10, "sender", "sendto", near(), 0, 48)]
}

fn dns(answers_ms: Option<u64>) -> Vec<Fact> {
    let (server, local) = (address("10.0.0.53:53"), address("10.0.0.1:4000"));
    let mut facts = Vec::new();
    for second in 0..5u16 {
        let at_ns = u64::from(second) * 1_000_000_000 + 1_000_000;
        let query = DnsQuery {
            thread: thread(10, "client"),
            server,
            local,
            id: second,
            name: "db.internal".into(),
            question_type: 1,
            socket_ino: 0,
        };
        facts.push(Fact { at_ns, body: Body::DnsQuery(query) });
        let waited = answers_ms.unwrap_or(990) * 1_000_000;
        if answers_ms.is_some() {
            let reply = DnsReply { server, local, id: second, rcode: 0 };
            facts.push(Fact { at_ns: at_ns + waited, body: Body::DnsReply(reply) });
        }
        let place = Place { state: WaitState::Sleep, syscall: "poll".into(), ..Place::default() };
        let begin_ns = at_ns + 10_000;
        let end_ns = at_ns + waited;
        let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
        let thread = thread(10, "client");
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
    }
    facts
}

#[test]
fn a_mute_name_server_is_named_with_the_name_asked() {
    let found = findings(dns(None));
    assert_eq!(found[0].code, "net.dns_timeout");
    assert_eq!(found[0].culprit.kind, CulpritKind::Peer);
    assert_eq!(found[0].culprit.address.as_deref(), Some("10.0.0.53:53"));
    assert!(found[0].text.contains("db.internal"), "{}", found[0].text);
    assert!(found[0].title.ends_with("does not answer"), "{}", found[0].title);
}

/// The commands of the ways out of the first finding.
fn commands(facts: Vec<Fact>) -> Vec<String> {
    let found = findings(facts);
    found[0].remedy.iter().map(|way| way.command.clone()).collect()
}

#[test]
fn a_server_that_answers_the_same_asker_is_to_be_asked_first() {
    let mut facts = dns(None);
    for query in dns(Some(2)) {
        // The same questions, of the next server of the same resolv.conf.
        let other = address("10.0.0.54:53");
        let body = match query.body {
            Body::DnsQuery(query) => Body::DnsQuery(DnsQuery { server: other, ..query }),
            Body::DnsReply(reply) => Body::DnsReply(DnsReply { server: other, ..reply }),
            _ => continue,
        };
        facts.push(Fact { at_ns: query.at_ns + 995_000_000, body });
    }
    let way = &commands(facts)[1];
    assert_eq!(
        way,
        "printf '%s\\n' 'nameserver 10.0.0.54' \"$(cat /etc/resolv.conf)\" > /etc/resolv.conf"
    );
    // Each question costs a second already, and is asked once.
    assert_eq!(commands(dns(None)).len(), 1);
}

#[test]
fn files_are_not_changed_for_a_resolver_that_does_not_read_them() {
    for (syscall, changes) in [("poll", true), ("recvfrom", false)] {
        let mut facts = dns(None);
        for fact in &mut facts {
            match &mut fact.body {
                Body::DnsQuery(query) => {
                    query.name = "7.8.9.10.in-addr.arpa".into();
                    query.question_type = 12;
                    query.id = 1;
                }
                Body::Wait(wait) => wait.place.syscall = syscall.into(),
                _ => {}
            }
        }
        let commands = commands(facts);
        let of = |file: &str| commands.iter().position(|command| command.ends_with(file));
        assert_eq!(
            (of(">> /etc/hosts"), of(">> /etc/resolv.conf")),
            match changes {
                true => (Some(1), Some(2)),
                false => (None, None),
            }
        );
    }
}

#[test]
fn a_name_that_looks_like_an_option_is_asked_for_as_a_name() {
    let mut facts = dns(None);
    for fact in &mut facts {
        if let Body::DnsQuery(query) = &mut fact.body {
            query.name = "-f/etc/shadow".into();
        }
    }
    let command = &findings(facts)[0].remedy[0].command;
    assert_eq!(command, "dig @10.0.0.53 -q -f/etc/shadow +time=1 +tries=1");
}

#[test]
fn waits_of_several_askers_are_not_told_as_more_time_than_there_was() {
    assert!(findings(dns(None))[0].text.starts_with("4.95 s of 5.00 s pass in waits"));
    let mut facts = dns(None);
    for fact in dns(None) {
        let mut other = fact;
        match &mut other.body {
            Body::DnsQuery(query) => query.thread = thread(11, "client"),
            Body::Wait(wait) => wait.thread = thread(11, "client"),
            _ => {}
        }
        facts.push(other);
    }
    let text = &findings(facts)[0].text;
    assert!(text.starts_with("9.90 s (2.0 threads at a time in 5.00 s) pass in waits"), "{text}");
}

#[test]
fn a_late_name_server_is_named_and_a_quick_one_is_not() {
    assert_eq!(codes(dns(Some(400))), ["net.dns_timeout"]);
    assert!(codes(dns(Some(20))).is_empty());
}

#[test]
fn a_reader_that_keeps_its_window_shut_is_to_blame() {
    let state = SocketState {
        busy_us: 4_900_000,
        receiver_limited_us: 4_500_000,
        unsent_bytes: 100_000,
        ..SocketState::default()
    };
    let found = findings(stream(state));
    assert_eq!(found[0].code, "net.receiver_limited");
    assert_eq!(found[0].culprit.address.as_deref(), Some("10.0.0.2:80"));
}

#[test]
fn what_a_socket_counted_before_the_look_is_no_evidence() {
    let old = SocketState {
        busy_us: 100_000_000,
        receiver_limited_us: 90_000_000,
        ..SocketState::default()
    };
    let now = SocketState { busy_us: 104_900_000, ..old.clone() };
    let near = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1);
    let mut facts = vec![with_state(10, "sender", near, old)];
    facts.extend(stream(now));
    assert!(!codes(facts).contains(&"net.receiver_limited".to_string()));
}

#[test]
fn a_grown_round_trip_is_a_remote_queue_and_a_steady_one_is_not() {
    let state = |rtt_us| SocketState {
        busy_us: 4_900_000,
        rtt_us,
        rtt_us_min: 10_000,
        send_limit_bytes: 400_000,
        send_queued_bytes: 390_000,
        unsent_bytes: 200_000,
        ..SocketState::default()
    };
    assert_eq!(codes(stream(state(200_000))), ["net.remote_queue"]);
    assert!(!codes(stream(state(14_000))).contains(&"net.remote_queue".to_string()));
}

#[test]
fn losses_need_the_counter_of_the_namespace_as_well() {
    let state = SocketState {
        busy_us: 4_900_000,
        retransmits: 40,
        delivered: 900,
        rtt_us: 10_000,
        rtt_us_min: 9_000,
        ..SocketState::default()
    };
    let told = |grown: u64| {
        let mut facts = stream(state.clone());
        facts.extend(counters(&[("Tcp.RetransSegs", 7, 7 + grown)]));
        codes(facts)
    };
    assert_eq!(told(41), ["net.loss"]);
    assert!(!told(0).contains(&"net.loss".to_string()));
}

#[test]
fn a_small_send_buffer_before_an_open_window_is_to_blame() {
    let state = |send_window_bytes| SocketState {
        busy_us: 4_900_000,
        send_buffer_limited_us: 4_000_000,
        send_limit_bytes: 8_192,
        send_window_bytes,
        ..SocketState::default()
    };
    assert_eq!(codes(stream(state(1_000_000))), ["net.sendbuf_limited"]);
    let way = |most: &str| {
        let mut facts = stream(state(1_000_000));
        let value = format!("4096 16384 {most}");
        facts.push(fact(Body::Sysctl(Sysctl { name: "net.ipv4.tcp_wmem".into(), value })));
        findings(facts)[0].remedy[0].clone()
    };
    assert!(way("4194304").command.is_empty(), "the kernel would have let it grow");
    assert!(way("8192").command.ends_with("net.ipv4.tcp_wmem='4096 16384 32768'"));
    assert!(way("8192").undo.ends_with("net.ipv4.tcp_wmem='4096 16384 8192'"));
    assert!(!codes(stream(state(2_000))).contains(&"net.sendbuf_limited".to_string()));
}

#[test]
fn a_send_buffer_that_is_all_under_way_is_the_cause_whatever_the_round_trip() {
    let state = SocketState {
        busy_us: 4_900_000,
        rtt_us: 50_000,
        rtt_us_min: 20,
        acked_bytes: 1_600_000,
        send_limit_bytes: 16_384,
        send_queued_bytes: 16_000,
        send_window_bytes: 1_000_000,
        ..SocketState::default()
    };
    assert_eq!(codes(stream(state)), ["net.sendbuf_limited"]);
}

fn listener(accept_queue: u32, overflows: u64) -> Vec<Fact> {
    let state = SocketState { accept_queue, accept_limit: 4, ..SocketState::default() };
    let listens = inet("tcp", 300, "10.0.0.2:80", "0.0.0.0:0", 10);
    let mut facts = vec![with_state(20, "server", listens, state)];
    facts.extend(counters(&[
        ("TcpExt.ListenOverflows", 3, 3 + overflows),
        ("TcpExt.ListenDrops", 3, 3 + overflows),
    ]));
    facts
}

#[test]
fn a_server_that_does_not_accept_is_named() {
    let mut facts = listener(5, 12);
    let client = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 2);
    facts.push(wait(10, "client", "connect", client, 0, 48));
    let found = findings(facts);
    assert_eq!(found[0].code, "net.accept_queue");
    assert_eq!(found[0].culprit.pid, Some(20));
    assert_eq!(found[0].victims[0].pid, 10);
    assert_eq!(codes(listener(5, 12)), ["net.accept_queue"], "clients of other hosts are not seen");
}

#[test]
fn a_queue_with_room_and_no_overflow_is_nothing() {
    assert!(codes(listener(2, 0)).is_empty());
    assert!(codes(listener(0, 12)).is_empty());
}

fn datagrams(dropped: u64, read: u64) -> Vec<Fact> {
    let socket = inet("udp", 400, "0.0.0.0:5000", "0.0.0.0:0", 0);
    let state =
        SocketState { drops: dropped, receive_limit_bytes: 65_536, ..SocketState::default() };
    let mut facts = vec![with_state(20, "server", socket, state)];
    facts.extend(counters(&[("Udp.RcvbufErrors", 0, dropped), ("Udp.InDatagrams", 0, read)]));
    facts
}

#[test]
fn drops_at_a_socket_are_a_flood_or_a_reader_that_does_not_read() {
    assert_eq!(codes(datagrams(10_000, 4_000)), ["net.udp_flood"]);
    assert_eq!(codes(datagrams(10_000, 0)), ["net.socket_full"]);
    assert!(codes(datagrams(20, 4_000)).is_empty());
}

#[test]
fn the_only_sender_that_waits_for_nothing_is_the_flood() {
    let mut facts = datagrams(10_000, 4_000);
    let to = |ino, from| inet("udp", ino, from, "10.0.0.2:5000", 1);
    facts.push(endpoint(30, "flood", to(500, "10.0.0.1:7000")));
    facts.push(endpoint(31, "asker", to(501, "10.0.0.1:7001")));
    facts.push(wait(31, "asker", "recvfrom", to(501, "10.0.0.1:7001"), 0, 40));
    let found = findings(facts);
    assert_eq!(found[0].culprit.pid, Some(30));
    assert_eq!(found[0].remedy[0].command, "kill -STOP 30");
}

#[test]
fn who_is_only_connected_to_a_flooded_socket_is_not_the_flood() {
    let mut facts = datagrams(10_000, 4_000);
    facts.push(endpoint(30, "logger", inet("udp", 500, "10.0.0.1:7000", "10.0.0.2:5000", 1)));
    let ran = |run_ns| {
        let thread = thread(30, "logger");
        fact(Body::ThreadTime(ThreadTime { thread, run_ns, ..ThreadTime::default() }))
    };
    let told = |run_ns| findings([facts.clone(), vec![ran(run_ns)]].concat())[0].culprit.pid;
    assert_eq!((told(0), told(1_000_000)), (Some(20), Some(30)));
}

fn qdisc(class: bool, handle: &str, backlog_packets: u64, rate: u64, sent: u64, at: u64) -> Fact {
    let sample = QdiscSample {
        netns: 1,
        interface: "eth0".into(),
        index: 2,
        kind: if class { "htb" } else { "tbf" }.into(),
        handle: handle.into(),
        parent: if class { "1:" } else { "root" }.into(),
        class,
        bytes: sent * at / 10,
        backlog_bytes: backlog_packets * 1_514,
        backlog_packets,
        rate_bytes: Some(rate),
        burst_bytes: Some(1_600),
        limit: Some(127 * 1_514),
        ..QdiscSample::default()
    };
    Fact { at_ns: at * 100_000_000, body: Body::QdiscSample(sample) }
}

fn flow(pid: u32, comm: &str, port: u16, packets: u64, bytes: u64, each_ms: u64) -> Fact {
    fact(Body::QdiscFlow(QdiscFlow {
        netns: 1,
        interface: "eth0".into(),
        handle: "1:".into(),
        protocol: "udp".into(),
        local: SocketAddr::new([10, 0, 0, 1].into(), port),
        remote: address("10.0.0.2:9"),
        process: Some(thread(pid, comm)),
        packets,
        bytes,
        sojourn_ns: packets * each_ms * 1_000_000,
        untimed_packets: 0,
        untimed_bytes: 0,
        sojourn_ns_max: each_ms * 1_000_000,
        socket_ino: u64::from(port),
    }))
}

/// A queue that 127 full frames stand in at 5 Mbit/s, or that empties each tenth of a second.
fn queue(least_ms: u64) -> Vec<Fact> {
    let backlog = if least_ms == 0 { 0 } else { 127 };
    let mut facts: Vec<Fact> =
        (1..50).map(|at| qdisc(false, "1:", backlog, 625_000, 625_000, at)).collect();
    facts.push(fact(Body::QdiscSojourn(QdiscSojourn {
        netns: 1,
        interface: "eth0".into(),
        index: 2,
        handle: "1:".into(),
        packets: 2_000,
        sojourn_ns: 2_000 * 303_000_000,
        sojourn_ns_min_by_tenth: vec![least_ms * 1_000_000; 50],
        ..QdiscSojourn::default()
    })));
    facts.push(flow(20, "upload", 7_000, 1_985, 3_000_000, 303));
    facts.push(flow(10, "call", 7_001, 15, 1_500, 303));
    facts
}

#[test]
fn a_standing_queue_is_told_with_its_time_and_who_fills_it() {
    let found = findings(queue(290));
    assert_eq!(found[0].code, "net.local_queue");
    assert_eq!(found[0].culprit.pid, Some(20));
    assert_eq!(found[0].victims[0].pid, 10);
    let time = found[0].evidence.iter().find(|e| e.unit == "ms").expect("a time");
    assert!((time.value - 303.0).abs() < 0.1, "{time:?}");
}

#[test]
fn a_kernel_without_fq_codel_is_told_to_keep_the_queue_short() {
    let mut facts = queue(290);
    assert!(findings(facts.clone())[0].remedy[0].command.contains("fq_codel"));
    let host = Host { fq_codel: Some(false), ..Host::default() };
    facts.push(Fact { at_ns: 0, body: Body::Host(host) });
    let remedy = findings(facts)[0].remedy.clone();
    let tbf = "qdisc change dev eth0 root handle 1: tbf rate 5000000bit burst 1600 limit";
    assert!(remedy[0].command.ends_with(&format!("{tbf} 3785")), "{}", remedy[0].command);
    assert!(remedy[0].undo.ends_with(&format!("{tbf} {}", 127 * 1_514)), "{}", remedy[0].undo);
    assert_eq!(remedy[1].command, "kill -STOP 20");
}

#[test]
fn a_queue_that_empties_is_none() {
    assert!(codes(queue(0)).is_empty());
}

#[test]
fn a_class_at_its_ceiling_is_a_setting_and_not_a_queue() {
    let told = |sent| {
        let mut facts = queue(290);
        facts.extend((1..50).map(|at| qdisc(true, "1:20", 90, 625_000, sent, at)));
        findings(facts)
    };
    let found = told(620_000);
    assert_eq!(found[0].code, "net.class_ceiling");
    assert_eq!(found[0].culprit.kind, CulpritKind::Setting);
    assert!(found.iter().all(|f| f.code != "net.local_queue"));
    assert_eq!(told(100_000)[0].code, "net.local_queue", "below its ceiling it is not the class");
}

#[test]
fn a_connect_that_nobody_answers_is_told() {
    let far = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 2);
    let waits = |to| vec![wait(10, "client", "connect", far.clone(), 0, to)];
    assert_eq!(codes(waits(48)), ["net.slow_peer"]);
    assert!(codes(waits(2)).is_empty());
}

/// A command polls its connection to a peer, which another process of this host may own.
fn command(here: bool, to: u64) -> Vec<Fact> {
    let far = inet("tcp", 100, "10.0.0.1:40000", "192.0.2.1:80", 1);
    let (kind, name) = (TargetKind::Command, "client".to_string());
    let target = Target { kind, name, pid: 10, cgroups: Vec::new() };
    let mut facts = vec![fact(Body::Target(target)), wait(10, "client", "poll", far, 0, to)];
    if here {
        let listens = inet("tcp", 101, "192.0.2.1:80", "0.0.0.0:0", 10);
        facts.push(with_state(20, "server", listens, SocketState::default()));
    }
    facts
}

#[test]
fn a_command_that_waits_for_a_peer_elsewhere_is_told_and_a_quick_answer_is_not() {
    assert_eq!(codes(command(false, 48)), ["net.slow_peer"]);
    assert!(codes(command(false, 2)).is_empty());
    assert!(!codes(command(true, 48)).contains(&"net.slow_peer".to_string()));
}

/// A netem that holds each packet for 100 ms and lets all through, with an asker and a bulk sender.
fn delayed(rate: Option<u64>, mean_ms: u64) -> Vec<Fact> {
    let netem = Netem {
        delay_ns: 100_000_000,
        jitter_ns: 10_000_000,
        reorder: "reorder 25% 0% gap 5".into(),
        other: Some("loss 1%".into()),
    };
    let mut facts = queue(90);
    for fact in &mut facts {
        match &mut fact.body {
            Body::QdiscSample(sample) => {
                sample.kind = "netem".into();
                sample.netem = Some(netem.clone());
                (sample.rate_bytes, sample.burst_bytes, sample.limit) = (rate, None, Some(1_000));
            }
            Body::QdiscSojourn(sojourn) => sojourn.sojourn_ns = 2_000 * mean_ms * 1_000_000,
            Body::QdiscFlow(flow) => flow.sojourn_ns = flow.packets * mean_ms * 1_000_000,
            _ => {}
        }
    }
    facts
}

#[test]
fn a_delay_that_is_set_is_the_cause_and_not_a_rate_or_who_sends_most() {
    let found = findings(delayed(None, 101));
    assert_eq!(found[0].code, "net.local_queue");
    assert_eq!(found[0].culprit.name, "netem delay 100 ms of eth0");
    assert!(found[0].title.ends_with("netem is set to delay it"), "{}", found[0].title);
    assert!(!found[0].text.contains("rate lets through"), "{}", found[0].text);
    assert!(found[0].evidence.iter().any(|e| e.fact == "delay set" && e.value == 100.0));
    let [way] = &found[0].remedy[..] else { panic!("{:?}", found[0].remedy) };
    let change = "qdisc change dev eth0 root handle 1: netem limit 1000";
    assert!(way.command.ends_with(&format!("{change} loss 1%")), "{}", way.command);
    let undo = format!("{change} delay 100ms 10ms reorder 25% 0% gap 5 loss 1%");
    assert!(way.undo.ends_with(&undo), "{}", way.undo);
}

#[test]
fn a_delay_that_is_set_is_told_of_a_few_small_packets_too() {
    let mut facts = delayed(None, 101);
    facts.retain(|fact| !matches!(&fact.body, Body::QdiscFlow(flow) if flow.packets > 100));
    for fact in &mut facts {
        if let Body::QdiscSample(sample) = &mut fact.body {
            // Ten of 60 bytes a second.
            sample.bytes /= 1_000;
            (sample.backlog_packets, sample.backlog_bytes) = (1, 60);
        }
    }
    let found = findings(facts.clone());
    assert_eq!(found[0].victims[0].pid, 10);
    assert!(found[0].text.starts_with("1 packet (60 B) waits"), "{}", found[0].text);
    // Two readings of three find nothing there, because he sends too seldom.
    for fact in &mut facts {
        if let Body::QdiscSample(sample) = &mut fact.body
            && !(fact.at_ns / (LOOK_NS / 50)).is_multiple_of(3)
        {
            sample.backlog_packets = 0;
        }
    }
    let found = findings(facts);
    assert_eq!(found[0].culprit.name, "netem delay 100 ms of eth0");
    assert!(found[0].text.starts_with("Every packet is held"), "{}", found[0].text);
}

#[test]
fn a_delay_beside_a_queue_that_is_longer_is_not_the_cause() {
    let found = findings(delayed(Some(625_000), 303));
    assert_eq!(found[0].culprit.pid, Some(20));
    let ways: Vec<&str> = found[0].remedy.iter().map(|way| &*way.command).collect();
    assert!(ways.iter().all(|way| !way.contains("fq_codel")), "netem does not come back whole");
    let undo = "netem limit 1000 delay 100ms 10ms reorder 25% 0% gap 5 loss 1%";
    assert!(found[0].remedy[0].undo.ends_with(undo), "{}", found[0].remedy[0].undo);
    assert!(ways[0].contains("netem limit 42 delay 100ms"), "{}", ways[0]);
}

#[test]
fn losses_behind_a_set_delay_are_told_as_losses() {
    let state = SocketState {
        busy_us: 4_900_000,
        retransmits: 40,
        delivered: 900,
        rtt_us: 110_000,
        rtt_us_min: 100_000,
        ..SocketState::default()
    };
    let told = |mut facts: Vec<Fact>| {
        facts.extend(stream(state.clone()));
        facts.extend(counters(&[("Tcp.RetransSegs", 7, 47)]));
        let mut own = flow(10, "sender", 100, 900, 900_000, 101);
        if let Body::QdiscFlow(flow) = &mut own.body {
            flow.protocol = "tcp".into();
        }
        facts.retain(|fact| !matches!(&fact.body, Body::QdiscFlow(_)));
        facts.push(own);
        codes(facts)
    };
    assert_eq!(told(delayed(None, 101)), ["net.loss"]);
    assert_eq!(told(queue(90)), ["net.local_queue"], "a full queue loses by itself");
}
