//! Builders of facts for the tests of this area: sockets, streams, waits in system calls, queues. No rule here.
//!
//! All go through the whole reasoning, so that a second rule that names the same wait fails a test too.

use crate::answer::report::Finding;
use crate::facts::*;
use crate::rules::scenes::{LOOK_NS, endpoint, fact, host, thread};
use crate::rules::wording::Severity;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What is found in a look of five seconds.
pub(crate) fn findings(facts: Vec<Fact>) -> Vec<Finding> {
    let mut all = host();
    all.extend(facts);
    crate::answer::explain(all).findings
}

/// Codes of what is more than a note.
pub(crate) fn codes(facts: Vec<Fact>) -> Vec<String> {
    let above = |f: &Finding| f.severity > Severity::Note;
    findings(facts).into_iter().filter(above).map(|f| f.code).collect()
}

/// Whether a rule says something above a note.
pub(crate) fn says(code: &str, facts: Vec<Fact>) -> bool {
    codes(facts).iter().any(|said| said == code)
}

/// An address.
pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A socket; `state` as the kernel numbers it: 1 established, 2 being connected, 10 listens.
pub(crate) fn inet(protocol: &str, ino: u64, local: &str, remote: &str, state: u8) -> ObjectRef {
    ObjectRef::Inet(InetRef {
        ino,
        netns: 1,
        protocol: protocol.into(),
        local: address(local),
        remote: address(remote),
        state,
    })
}

/// The same of another network namespace than that of these scenes.
pub(crate) fn from_outside(object: ObjectRef) -> ObjectRef {
    match object {
        ObjectRef::Inet(socket) => ObjectRef::Inet(InetRef { netns: 2, ..socket }),
        other => other,
    }
}

/// A wait in a system call from one time to another, both in tenths of a second.
pub(crate) fn wait(
    pid: u32,
    comm: &str,
    syscall: &str,
    object: ObjectRef,
    from: u64,
    to: u64,
) -> Fact {
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

/// The look is at one process, or at a command.
pub(crate) fn look_at(kind: TargetKind, pid: u32) -> Fact {
    fact(Body::Target(Target {
        kind,
        name: "client".into(),
        pid,
        cgroups: Vec::new(),
        words: Vec::new(),
    }))
}

/// A descriptor with its socket's state.
pub(crate) fn with_state(pid: u32, comm: &str, object: ObjectRef, state: SocketState) -> Fact {
    let mut fact = endpoint(pid, comm, object);
    if let Body::Endpoint(endpoint) = &mut fact.body {
        endpoint.socket = Some(state);
    }
    fact
}

/// Counters of a namespace at the begin and at the end.
pub(crate) fn counters(pairs: &[(&str, u64, u64)]) -> Vec<Fact> {
    let at = |of: fn(&(&str, u64, u64)) -> u64| {
        let named = pairs.iter().map(|pair| (pair.0.to_string(), of(pair)));
        Body::NetCounters(NetCounters { netns: 1, counters: named.collect::<BTreeMap<_, _>>() })
    };
    vec![fact(at(|pair| pair.1)), Fact { at_ns: LOOK_NS, body: at(|pair| pair.2) }]
}

/// The sending end of the streams of these scenes.
pub(crate) fn near() -> ObjectRef {
    inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1)
}

/// A writer that waits almost all the time, and the state of its socket.
pub(crate) fn stream(state: SocketState) -> Vec<Fact> {
    vec![with_state(10, "sender", near(), state), wait(10, "sender", "sendto", near(), 0, 48)]
}

/// The same of an event loop: nobody waits in a write, and the data stand.
pub(crate) fn event_loop(state: SocketState) -> Vec<Fact> {
    let mut fact = with_state(10, "sender", near(), SocketState { unsent_bytes: 9_000, ..state });
    if let Body::Endpoint(endpoint) = &mut fact.body {
        endpoint.nonblocking = true;
    }
    vec![fact]
}

/// A reading of a queueing discipline, or of a class of it, at a tenth of a second.
pub(crate) fn qdisc(
    class: bool,
    handle: &str,
    backlog_packets: u64,
    rate: u64,
    sent: u64,
    at: u64,
) -> Fact {
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

/// A flow through it; its socket's inode is its port.
pub(crate) fn flow(
    pid: u32,
    comm: &str,
    port: u16,
    packets: u64,
    bytes: u64,
    each_ms: u64,
) -> Fact {
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
pub(crate) fn queue(least_ms: u64) -> Vec<Fact> {
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

/// The sender of [`stream`] passes the queue.
pub(crate) fn of_stream(mut flow: Fact) -> Fact {
    if let Body::QdiscFlow(flow) = &mut flow.body {
        flow.protocol = "tcp".into();
        flow.socket_ino = 100;
    }
    flow
}

/// Packets of a flow that were dropped on eth0 for a reason.
pub(crate) fn dropped(reason: &str, protocol: &str, from: &str, to: &str, packets: u64) -> Fact {
    let flow = DroppedFlow {
        protocol: protocol.into(),
        from: address(from),
        to: address(to),
        packets,
        first_ns: 1,
        last_ns: LOOK_NS,
        socket_ino: 0,
        sender: None,
        receiver: None,
    };
    fact(Body::PacketDrops(PacketDrops {
        netns: 1,
        interface: "eth0".into(),
        index: 2,
        reason: reason.into(),
        function: String::new(),
        packets,
        flows: vec![flow],
    }))
}

/// A UDP socket of process 20 that drops, with what its namespace counts over the look.
pub(crate) fn datagrams(dropped: u64, counted: u64, read: u64) -> Vec<Fact> {
    let socket = inet("udp", 400, "0.0.0.0:5000", "0.0.0.0:0", 0);
    let state =
        SocketState { drops: dropped, receive_limit_bytes: 65_536, ..SocketState::default() };
    let mut facts = vec![with_state(20, "server", socket, state)];
    facts.extend(counters(&[("Udp.RcvbufErrors", 0, counted), ("Udp.InDatagrams", 0, read)]));
    facts
}

/// A client asks a name server each second, and waits in poll until the answer or its timeout.
pub(crate) fn dns(answers_ms: Option<u64>) -> Vec<Fact> {
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

/// The next hop to an address of namespace 1, which is on the link, with the state of its neighbour entry.
pub(crate) fn next_hop(to: &str, (interface, kind, index): (&str, &str, u32), state: u16) -> Fact {
    fact(Body::NextHop(NextHop {
        netns: 1,
        destination: to.parse().expect("an address"),
        gateway: None,
        interface: interface.into(),
        kind: kind.into(),
        index,
        state,
        updated_ns: 1_000_000_000,
        path_mtu_bytes: None,
        hardware: String::new(),
        tunnel_ends: Vec::new(),
    }))
}

/// One end of a connection of TCP on which the last word was spoken so many milliseconds before the end of the look, by this end or the other.
pub(crate) fn spoken(pid: u32, comm: &str, object: ObjectRef, ms: u32, by_me: bool) -> Fact {
    let (last, before) = (ms / 4, ms / 4 + 10);
    let (sent_jiffies, received_jiffies) = if by_me { (last, before) } else { (before, last) };
    let turn = TcpTurn {
        write_seq: 9,
        snd_nxt: 9,
        snd_una: 9,
        sent_jiffies,
        received_jiffies,
        heard_jiffies: last,
        jiffy_ns: 4_000_000,
        ..TcpTurn::default()
    };
    let (turn, acked_bytes) = (Some(turn), 80);
    let state = SocketState { turn, acked_bytes, received_bytes: 80, ..SocketState::default() };
    Fact { at_ns: LOOK_NS, ..with_state(pid, comm, object, state) }
}
