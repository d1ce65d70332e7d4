//! Tests of the queues of a host: net.local_queue with all that bears on it.
//!
//! Each look that has the cause has a healthy twin that differs in one thing. No rule here; builders are in scenes.rs.

use super::scenes::*;
use crate::facts::*;
use crate::rules::scenes::{LOOK_NS, endpoint, fact};
use crate::rules::wording::Severity;

#[test]
fn a_standing_queue_is_reported_with_its_time_and_who_fills_it() {
    let found = findings(queue(290));
    assert_eq!(found[0].code, "net.local_queue");
    assert_eq!(found[0].object.name, "eth0");
    assert_eq!(found[0].culprit.pid, Some(20));
    assert_eq!(found[0].victims[0].pid, 10);
    let time = found[0].evidence.iter().find(|e| e.unit == "ms").expect("a time");
    assert!((time.value - 303.0).abs() < 0.1, "{time:?}");
}

#[test]
fn what_passes_through_waits_behind_the_flow_that_fills_the_queue() {
    let elsewhere = |keeps: u64| {
        let mut facts = queue(290);
        for fact in &mut facts {
            if let Body::QdiscFlow(flow) = &mut fact.body
                && flow.socket_ino != keeps
            {
                flow.process = None;
            }
        }
        findings(facts)
    };
    let found = elsewhere(0);
    assert_eq!((&*found[0].code, found[0].severity), ("net.local_queue", Severity::Warning));
    assert_eq!(found[0].culprit.name, "udp 10.0.0.1:7000 to 10.0.0.2:9");
    assert!(
        found[0].title.starts_with("packets of udp 10.0.0.1:7001 to 10.0.0.2:9 wait 303 ms behind"),
        "{}",
        found[0].title
    );
    assert_eq!(elsewhere(7_000)[0].culprit.name, "tbf of eth0", "a process of this host fills it");
}

#[test]
fn a_kernel_without_fq_codel_is_to_keep_the_queue_short() {
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
fn a_queue_below_a_class_at_its_ceiling_is_the_classs() {
    let with_class = |sent| {
        let mut facts = queue(290);
        facts.extend((1..50).map(|at| qdisc(true, "1:20", 90, 625_000, sent, at)));
        codes(facts)
    };
    assert_eq!(with_class(620_000), ["net.class_ceiling"]);
    assert_eq!(with_class(100_000), ["net.local_queue"]);
}

#[test]
fn the_wait_of_who_writes_through_the_queue_is_explained_by_it() {
    let mut facts = queue(290);
    facts.extend(stream(SocketState::default()));
    facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 303)));
    let mut all = crate::rules::scenes::host();
    all.extend(facts);
    let report = crate::answer::explain(all);
    assert_eq!(report.findings[0].code, "net.local_queue");
    let ends = &report.answer.ends;
    let of_writer = ends.iter().find(|end| end.object.kind == "socket").expect("an end");
    assert_eq!(of_writer.finding, Some(0), "{of_writer:?}");
}

#[test]
fn an_answer_whose_question_stands_in_the_queue_is_waited_for_there() {
    let with_queue = |least_ms| {
        let mut facts = queue(least_ms);
        let far = inet("udp", 7_001, "10.0.0.1:7001", "192.0.2.1:9", 1);
        facts.push(look_at(TargetKind::Process, 10));
        facts.push(wait(10, "call", "recvfrom", far, 0, 48));
        codes(facts)
    };
    assert_eq!(with_queue(290), ["net.local_queue"]);
    assert_eq!(with_queue(0), ["net.slow_peer"]);
}

/// Client 10 sends to a server of this host by the queue, and waits for its answer; the server waits for whatever comes.
#[test]
fn a_server_to_whom_the_question_is_still_under_way_holds_nobody_up() {
    let with_queue = |least_ms| {
        let mut facts = queue(least_ms);
        let near = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1);
        let far = inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
        let mut sent = of_stream(flow(10, "client", 100, 900, 900_000, 303));
        if let Body::QdiscFlow(flow) = &mut sent.body {
            (flow.local, flow.remote) = (address("10.0.0.1:40000"), address("10.0.0.2:80"));
        }
        let listens = inet("tcp", 300, "10.0.0.2:80", "0.0.0.0:0", 10);
        facts.extend([
            look_at(TargetKind::Process, 10),
            endpoint(10, "client", near.clone()),
            endpoint(30, "server", listens),
            endpoint(30, "server", far.clone()),
            wait(10, "client", "recvfrom", near, 0, 48),
            wait(30, "server", "select", far, 0, 49),
            sent,
        ]);
        codes(facts)
    };
    let behind = with_queue(290);
    assert_eq!(behind[0], "net.local_queue");
    assert!(!behind.contains(&"process.socket_peer".to_string()), "{behind:?}");
    assert!(!with_queue(0).contains(&"net.local_queue".to_string()));
}

/// Client 10 reads the rest of an answer whose server has closed the connection, and which passes the queue; who else sends through it.
fn reads_the_rest(least_ms: u64, is_beside: bool) -> Vec<crate::answer::report::Finding> {
    let mut facts = queue(least_ms);
    facts.retain(|fact| match &fact.body {
        Body::QdiscFlow(flow) => is_beside && flow.process.as_ref().is_some_and(|it| it.pid == 20),
        _ => true,
    });
    let mut rest = flow(0, "", 80, 900, 900_000, 303);
    if let Body::QdiscFlow(flow) = &mut rest.body {
        (flow.process, flow.socket_ino) = (None, 0);
        (flow.protocol, flow.remote) = ("tcp".into(), address("10.0.0.2:40000"));
    }
    let near = inet("tcp", 100, "10.0.0.2:40000", "10.0.0.1:80", 1);
    facts.extend([rest, look_at(TargetKind::Process, 10)]);
    facts.push(wait(10, "client", "recvfrom", near, 0, 48));
    findings(facts)
}

#[test]
fn what_a_server_wrote_before_it_closed_waits_in_the_queue_for_its_reader() {
    let alone = reads_the_rest(290, false);
    assert_eq!((&*alone[0].code, alone[0].victims[0].pid), ("net.local_queue", 10));
    assert!(alone[0].title.starts_with("what is sent to client 10 waits 303 ms"), "{alone:?}");
    assert!(alone[0].remedy[0].text.starts_with("let the shaper pass twice"), "{alone:?}");
    let beside = reads_the_rest(290, true);
    let title = &beside[0].title;
    assert!(title.starts_with("packets to client 10 wait 303 ms behind"), "{title}");
    let empties = reads_the_rest(0, false);
    assert!(empties.iter().all(|it| it.code != "net.local_queue"), "{empties:?}");
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
fn a_delay_that_is_set_is_reported_of_a_few_small_packets_too() {
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
    assert!(found[0].text.starts_with("1 packet (60 bytes) waits"), "{}", found[0].text);
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
fn losses_behind_a_set_delay_are_no_queue() {
    let state = SocketState {
        busy_us: 4_900_000,
        retransmits: 40,
        delivered: 900,
        rtt_us: 110_000,
        rtt_us_min: 100_000,
        ..SocketState::default()
    };
    let said = |mut facts: Vec<Fact>| {
        facts.extend(stream(state.clone()));
        facts.extend(counters(&[("Tcp.RetransSegs", 7, 47)]));
        facts.retain(|fact| !matches!(&fact.body, Body::QdiscFlow(_)));
        facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 101)));
        codes(facts)
    };
    assert_eq!(said(delayed(None, 101)), ["net.loss"]);
    assert_eq!(said(queue(90)), ["net.local_queue"], "a full queue loses by itself");
}

/// The driver of eth0, whose kind and speed are given, with TSO on or off.
fn driver(kind: &str, speed_mbit: u32, tso: bool) -> Vec<Fact> {
    let link = Link {
        netns: 1,
        index: 2,
        name: "eth0".into(),
        kind: kind.into(),
        mtu: 1_500,
        ..Link::default()
    };
    let settings = LinkSettings {
        netns: 1,
        interface: "eth0".into(),
        index: 2,
        speed_mbit: Some(speed_mbit),
        features: [("tx-tcp-segmentation".to_string(), tso)].into(),
        ..LinkSettings::default()
    };
    vec![fact(Body::Link(link)), fact(Body::LinkSettings(settings))]
}

/// The same packets, each so many bytes long.
fn of_bytes(mut facts: Vec<Fact>, each: u64) -> Vec<Fact> {
    for fact in &mut facts {
        if let Body::QdiscSample(sample) = &mut fact.body {
            sample.backlog_bytes = sample.backlog_packets * each;
        }
    }
    facts
}

#[test]
fn joined_segments_in_a_slow_queue_are_said_and_sent_one_by_one() {
    let said = |each: u64, tso: bool| {
        let mut facts = of_bytes(queue(290), each);
        facts.extend(driver("veth", 10_000, tso));
        findings(facts).remove(0)
    };
    let found = said(60_000, true);
    assert!(found.text.contains("segments leave joined (TSO): one alone takes"), "{}", found.text);
    let off = found
        .remedy
        .iter()
        .find(|it| it.command == "ethtool -K eth0 tx-tcp-segmentation off")
        .unwrap();
    assert_eq!(off.undo, "ethtool -K eth0 tx-tcp-segmentation on");
    for (each, tso) in [(1_514, true), (60_000, false)] {
        let found = said(each, tso);
        assert!(!found.text.contains("joined"), "{}", found.text);
        assert!(found.remedy.iter().all(|it| !it.command.contains("ethtool")));
    }
}

#[test]
fn a_link_at_its_speed_is_said_and_a_device_of_software_has_none() {
    let said = |kind: &str, speed: u32| {
        let mut facts = queue(290);
        facts.extend(driver(kind, speed, false));
        findings(facts).remove(0).text
    };
    assert!(said("", 5).ends_with("Its link carries 5mbit, and no more."), "{}", said("", 5));
    assert!(!said("", 1_000).contains("Its link carries"));
    assert!(!said("veth", 5).contains("Its link carries"));
}

#[test]
fn a_queue_stands_while_a_command_sends_however_long_it_does_other_things() {
    let said = |kind: TargetKind, tenths: std::ops::Range<u64>| {
        let mut facts = queue(0);
        facts.retain(|fact| !matches!(&fact.body, Body::QdiscFlow(_)));
        for fact in &mut facts {
            match &mut fact.body {
                Body::QdiscSample(sample) if tenths.contains(&(fact.at_ns / 100_000_000)) => {
                    (sample.backlog_packets, sample.backlog_bytes) = (127, 127 * 1_514);
                }
                Body::QdiscSojourn(sojourn) => {
                    sojourn.sojourn_ns_min_by_tenth = vec![0; 10];
                    let full = tenths.clone().map(|_| 290_000_000);
                    sojourn.sojourn_ns_min_by_tenth.extend(full);
                }
                _ => {}
            }
        }
        facts.push(with_state(10, "sender", near(), SocketState::default()));
        facts.push(wait(10, "sender", "sendto", near(), tenths.start, tenths.end));
        facts.push(of_stream(flow(10, "sender", 100, 900, 900_000, 303)));
        facts.push(look_at(kind, 10));
        codes(facts).contains(&"net.local_queue".to_string())
    };
    assert!(said(TargetKind::Command, 10..30));
    assert!(!said(TargetKind::Command, 10..15), "half a second says nothing");
    assert!(!said(TargetKind::Process, 10..30), "it empties for half of the look");
}

#[test]
fn what_goes_into_a_tunnel_waits_in_the_queue_that_the_tunnels_packets_pass() {
    let said = |carries: bool, beside: bool| {
        let mut facts = queue(290);
        facts.retain(|fact| !matches!(&fact.body, Body::QdiscFlow(_)));
        facts.push(flow(30, "vpn", 1_194, 1_985, 3_000_000, 303));
        if beside {
            let inside = inet("tcp", 101, "10.8.0.1:40001", "10.8.0.2:22", 1);
            facts.push(with_state(11, "ssh", inside, SocketState::default()));
        }
        let inside = inet("tcp", 100, "10.8.0.1:40000", "10.8.0.2:80", 1);
        facts.push(with_state(10, "sender", inside.clone(), SocketState::default()));
        facts.push(wait(10, "sender", "sendto", inside, 0, 48));
        facts.push(next_hop("10.8.0.2", ("tun0", "tun", 5), 0));
        let process = crate::rules::scenes::thread(if carries { 30 } else { 31 }, "vpn");
        let reader = TapReader { netns: 1, interface: "tun0".into(), process };
        facts.push(fact(Body::TapReader(reader)));
        facts.push(look_at(TargetKind::Process, 10));
        findings(facts).into_iter().find(|it| it.code == "net.local_queue")
    };
    let found = said(true, false).expect("it stands there");
    assert!(found.title.starts_with("what sender 10 sends waits 303 ms in"), "{}", found.title);
    assert!(found.text.contains("in the packets of the tunnel of vpn 30"), "{}", found.text);
    assert!(found.remedy[0].text.starts_with("let the shaper pass twice"), "{found:?}");
    assert!(said(false, false).is_none(), "another's tunnel");
    let beside = said(true, true).expect("it stands there").remedy;
    assert!(beside.iter().any(|it| it.text.starts_with("keep the queue short")), "{beside:?}");
}

#[test]
fn a_question_in_a_tunnel_waits_where_all_of_the_tunnels_packets_go_to_one_host() {
    let said = |hosts: &[&str]| {
        let mut facts = queue(290);
        for (port, host) in (1_194..).zip(hosts) {
            let mut sent = flow(30, "vpn", port, 15, 1_500, 303);
            if let Body::QdiscFlow(flow) = &mut sent.body {
                flow.remote = address(host);
            }
            facts.push(sent);
        }
        let inside = inet("tcp", 100, "10.8.0.1:40000", "10.8.0.2:80", 1);
        facts.push(wait(10, "call", "recvfrom", inside, 0, 48));
        facts.push(next_hop("10.8.0.2", ("tun0", "tun", 5), 0));
        let process = crate::rules::scenes::thread(30, "vpn");
        let reader = TapReader { netns: 1, interface: "tun0".into(), process };
        facts.push(fact(Body::TapReader(reader)));
        facts.push(look_at(TargetKind::Process, 10));
        codes(facts)
    };
    assert_eq!(said(&["10.0.0.2:9", "10.0.0.2:10"]), ["net.local_queue"]);
    let several = said(&["10.0.0.2:9", "10.0.0.3:9"]);
    assert!(several.contains(&"net.slow_peer".to_string()), "{several:?}");
}

#[test]
fn who_fills_a_queue_by_one_flow_and_waits_with_another_is_helped_by_a_queue_for_each() {
    let ways = |small: bool| {
        let mut facts = queue(290);
        facts.retain(|fact| !matches!(&fact.body, Body::QdiscFlow(_)));
        facts.push(with_state(10, "nginx", near(), SocketState::default()));
        facts.push(wait(10, "nginx", "sendto", near(), 0, 48));
        facts.push(of_stream(flow(10, "nginx", 100, 1_985, 3_000_000, 303)));
        if small {
            facts.push(flow(10, "nginx", 7_001, 15, 1_500, 303));
        }
        let found = findings(facts).into_iter().find(|it| it.code == "net.local_queue");
        found.expect("it stands there").remedy
    };
    let [alone, both] = [false, true].map(ways);
    assert!(alone.iter().all(|it| !it.command.contains("fq_codel")), "{alone:?}");
    assert!(both.iter().any(|it| it.command.contains("fq_codel")), "{both:?}");
    assert!(both.iter().any(|it| it.text.starts_with("keep the queue short")), "{both:?}");
}
