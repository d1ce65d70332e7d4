//! net.accept_queue in scenes: whose fault a queue is, how it is said, and whom it yields to.
//!
//! Edit together: accept_queue.rs.

use crate::facts::*;
use crate::rules::net::scenes::*;
use crate::rules::scenes::{
    LOOK_NS, at_place, blocked, descriptor, endpoint, fact, host, identity, slept, thread,
};

fn listener(accept_queue: u32, overflows: u64) -> Vec<Fact> {
    let state = SocketState { accept_queue, accept_limit: 4, ..SocketState::default() };
    let listens = inet("tcp", 300, "10.0.0.2:80", "0.0.0.0:0", 10);
    let mut facts = vec![with_state(20, "server", listens, state)];
    facts.extend(counters(&[("TcpExt.ListenOverflows", 3, 3 + overflows)]));
    facts
}

fn client(state: u8) -> ObjectRef {
    inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", state)
}

#[test]
fn a_full_accept_queue_is_the_servers_fault() {
    let mut facts = listener(5, 12);
    facts.push(wait(10, "client", "connect", client(2), 0, 48));
    let found = findings(facts);
    assert_eq!(found[0].code, "net.accept_queue");
    assert_eq!(found[0].culprit.pid, Some(20));
    assert_eq!(found[0].victims[0].pid, 10);
    assert_eq!(found.len(), 1, "the connect is claimed: {found:?}");
    assert_eq!(codes(listener(5, 12)), ["net.accept_queue"], "clients of other hosts are not seen");
}

#[test]
fn a_server_that_listens_by_mptcp_accepts_clients_of_tcp() {
    let mut facts = listener(5, 12);
    if let Body::Endpoint(Endpoint { object: ObjectRef::Inet(socket), .. }) = &mut facts[0].body {
        socket.protocol = "mptcp".into();
    }
    facts.push(wait(10, "client", "connect", client(2), 0, 48));
    let found = findings(facts);
    assert_eq!((found.len(), found[0].code.as_str()), (1, "net.accept_queue"));
    assert_eq!((found[0].culprit.pid, found[0].victims[0].pid), (Some(20), 10));
}

#[test]
fn a_server_with_a_backlog_of_0_may_have_all_the_connections_that_it_may_have() {
    let text = |accept_limit: u32, connections: u64, netns: u32| {
        let mut facts = listener(5, 12);
        if let Body::Endpoint(Endpoint { socket: Some(state), .. }) = &mut facts[0].body {
            state.accept_limit = accept_limit;
        }
        for (at, pid) in [(0, 30), (1, 30), (2, 31)].into_iter().take(connections as usize) {
            let port = 50_000 + at;
            let (near, far) = (format!("10.0.0.2:{port}"), "10.0.0.2:80");
            let state = SocketState::default;
            let mut ends = [
                with_state(20, "server", inet("tcp", 400 + at, far, &near, 1), state()),
                with_state(pid, "pool", inet("tcp", 500 + at, &near, far, 1), state()),
            ];
            for end in &mut ends {
                if let Body::Endpoint(Endpoint { object: ObjectRef::Inet(it), .. }) = &mut end.body
                {
                    it.netns = netns;
                }
            }
            facts.extend(ends);
        }
        facts.push(wait(10, "client", "connect", client(2), 0, 48));
        findings(facts)[0].text.clone()
    };
    let none = text(0, 3, 1);
    assert!(none.contains("Its backlog is 0: so the program asked"), "{none}");
    assert!(none.contains("it has 3 connections, 2 of them to pool 30."), "{none}");
    for (connections, netns) in [(1, 1), (0, 1), (3, 2)] {
        let few = text(0, connections, netns);
        assert!(few.contains("Its backlog is 0") && !few.contains("Some servers"), "{few}");
    }
    assert!(!text(4, 3, 1).contains("backlog is 0"), "a queue that is full");
}

#[test]
fn whom_a_server_of_one_client_at_a_time_serves_is_said() {
    let text_of = |syscall: &str, clients: &[u32], helper: Option<u32>| {
        let near = || inet("tcp", 401, "10.0.0.2:80", "10.0.0.2:50000", 1);
        let far = inet("tcp", 400, "10.0.0.2:50000", "10.0.0.2:80", 1);
        let (state, object) = (WaitState::Sleep, Some(near()));
        let place = Place { state, syscall: syscall.into(), object, ..Place::default() };
        let mut facts = listener(5, 12);
        facts.extend([
            with_state(20, "server", near(), SocketState::default()),
            at_place(20, "server", place),
            wait(10, "client", "connect", client(2), 0, 48),
        ]);
        let end = |pid: &u32| with_state(*pid, "telnet", far.clone(), SocketState::default());
        facts.extend(clients.iter().map(end));
        facts.extend(helper.map(|tid| {
            let thread = ThreadRef { pid: 20, ..thread(tid, "server") };
            let (state, syscall) = (WaitState::Sleep, "futex".into());
            let place = Place { state, syscall, ..Place::default() };
            let blocked = Blocked { thread, place, ..Blocked::default() };
            Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
        }));
        findings(facts)[0].text.clone()
    };
    let text = |syscall: &str, clients: &[u32]| text_of(syscall, clients, None);
    let one = text("recvfrom", &[30]);
    assert!(one.contains("waits for the next word of telnet 30."), "{one}");
    assert!(!text("epoll_wait", &[30]).contains("next word"), "a loop may do anything else");
    assert!(!text("recvfrom", &[30, 31]).contains("next word"), "one has inherited it");
    assert!(!text_of("recvfrom", &[30], Some(21)).contains("one client"), "that may serve another");
}

/// What is said of a server that polls the connection of its client 30 besides others, on which this end, or the other, has spoken last.
fn text_of_who_polls(polled: &[u32], is_answered: bool) -> String {
    let near = inet("tcp", 401, "10.0.0.2:80", "10.0.0.2:50000", 1);
    let far = inet("tcp", 400, "10.0.0.2:50000", "10.0.0.2:80", 1);
    let mut accepted = spoken(20, "server", near, 2_800, is_answered);
    if let Body::Endpoint(end) = &mut accepted.body {
        end.fd = 6;
    }
    let (syscall, polled) = ("pselect6".into(), polled.to_vec());
    let place = Place { state: WaitState::Sleep, syscall, polled, ..Place::default() };
    let mut facts = listener(5, 12);
    facts.extend([
        accepted,
        with_state(30, "psql", far, SocketState::default()),
        at_place(20, "server", place),
        wait(10, "client", "connect", client(2), 0, 48),
    ]);
    findings(facts)[0].text.clone()
}

#[test]
fn whom_a_server_that_polls_one_client_serves_is_said() {
    let said = text_of_who_polls(&[6, 7], true);
    assert!(said.contains("waits for the next word of psql 30."), "{said}");
    let owes = text_of_who_polls(&[6, 7], false);
    assert!(!owes.contains("next word"), "it owes an answer: {owes}");
    let takes = text_of_who_polls(&[3, 6], true);
    assert!(!takes.contains("next word"), "it polls its listener too: {takes}");
}

#[test]
fn a_child_that_serves_a_connection_of_a_server_that_sleeps_is_said() {
    let found = |children: &[u32], syscall: &str, port: u16| {
        let mut facts = listener(2, 0);
        facts.push(wait(10, "client", "recvfrom", client(1), 0, 48));
        facts.push(blocked(20, "server", WaitState::Sleep, syscall));
        for pid in children {
            let ino = 400 + u64::from(*pid);
            let (near, far) = (format!("10.0.0.2:{port}"), format!("10.0.0.3:{}", 50_000 + pid));
            facts.extend([
                descriptor(*pid, 5, "server", inet("tcp", ino, &near, &far, 1)),
                identity(Thread {
                    thread: thread(*pid, "server"),
                    parent_pid: 20,
                    ..Thread::default()
                }),
                blocked(*pid, "server", WaitState::Sleep, "flock"),
            ]);
        }
        let all = findings(facts);
        let one = all.into_iter().find(|it| it.code == "net.accept_queue").expect("the queue");
        let looks = one.remedy.iter().any(|way| way.command.ends_with("pid 30"));
        assert_eq!(one.text.contains("Its child server 30 serves a connection there"), looks);
        looks
    };
    assert!(found(&[30], "clock_nanosleep", 80));
    assert!(!found(&[30, 31], "clock_nanosleep", 80), "one of several");
    assert!(!found(&[30], "clock_nanosleep", 81), "a connection to another port");
    assert!(!found(&[30], "recvfrom", 80), "it does not look for an end");
    assert!(!found(&[], "clock_nanosleep", 80));
}

#[test]
fn one_attempt_is_said_as_one() {
    let text = |overflows| {
        let mut facts = listener(5, overflows);
        facts.push(wait(10, "client", "connect", client(2), 0, 48));
        findings(facts)[0].text.clone()
    };
    let by = "ignored by listeners of its network namespace.";
    assert!(text(1).contains(&format!("; 1 attempt to connect was {by}")), "{}", text(1));
    assert!(text(2).contains(&format!("; 2 attempts to connect were {by}")), "{}", text(2));
}

#[test]
fn a_queue_that_overflows_in_bursts_has_room_when_the_look_ends() {
    let mut facts = listener(0, 9);
    let mut again = facts[0].clone();
    if let Body::Endpoint(endpoint) = &mut again.body {
        endpoint.socket = endpoint.socket.take().map(|state| SocketState { drops: 9, ..state });
    }
    facts.push(again);
    let quiet = facts.clone();
    facts.push(wait(10, "client", "connect", client(2), 0, 48));
    let found = findings(facts);
    assert_eq!((found.len(), found[0].code.as_str()), (1, "net.accept_queue"));
    assert!(found[0].title.starts_with("connections come faster than server 20 accepts"));
    assert!(found[0].text.starts_with("9 attempts to connect were ignored"), "{}", found[0].text);
    assert!(codes(quiet).is_empty(), "nobody is seen to lose by it");
}

#[test]
fn what_was_dropped_while_no_queue_overflowed_was_not_dropped_by_a_full_one() {
    let dropping = |accept_queue| {
        let mut facts = listener(accept_queue, 0);
        let mut again = facts[0].clone();
        if let Body::Endpoint(endpoint) = &mut again.body {
            endpoint.socket = endpoint.socket.take().map(|state| SocketState { drops: 9, ..state });
        }
        facts.push(again);
        facts.push(wait(10, "client", "connect", client(2), 0, 48));
        findings(facts)
    };
    assert!(dropping(0).iter().all(|one| one.code != "net.accept_queue"));
    let found = dropping(2);
    assert!(found[0].title.contains("does not accept"), "{}", found[0].title);
}

#[test]
fn a_full_syn_queue_is_no_full_accept_queue() {
    let found = |ignored: u64| {
        let mut facts = listener(2, 0);
        facts.truncate(1);
        let mut again = facts[0].clone();
        if let Body::Endpoint(endpoint) = &mut again.body {
            endpoint.socket = endpoint.socket.take().map(|state| SocketState { drops: 9, ..state });
        }
        facts.push(again);
        facts.extend(counters(&[("TcpExt.TCPReqQFullDrop", 1, 1 + ignored)]));
        facts.push(wait(10, "client", "connect", client(2), 0, 48));
        codes(facts)
    };
    assert_eq!(found(0), ["net.accept_queue"]);
    assert_eq!(found(9), ["net.syn_backlog"]);
}

#[test]
fn who_waits_for_an_answer_in_the_queue_waits_for_the_accept() {
    let mut facts = listener(2, 0);
    facts.push(wait(10, "client", "recvfrom", client(1), 0, 48));
    facts.push(blocked(20, "server", WaitState::Sleep, "nanosleep"));
    let found = findings(facts);
    assert_eq!((&*found[0].code, found[0].victims[0].pid), ("net.accept_queue", 10));
    assert!(found[0].text.contains("The server sleeps."), "{}", found[0].text);
}

#[test]
fn a_server_that_is_stopped_is_that() {
    let found = |state| {
        let mut facts = listener(2, 0);
        facts.push(wait(10, "client", "recvfrom", client(1), 0, 48));
        facts.push(blocked(20, "server", state, ""));
        codes(facts)
    };
    assert_eq!(found(WaitState::Stopped), ["process.stopped"]);
    assert_eq!(found(WaitState::Sleep), ["net.accept_queue"]);
}

#[test]
fn a_server_that_may_open_no_more_is_that() {
    let mut facts = listener(2, 0);
    facts.push(wait(10, "client", "recvfrom", client(1), 0, 48));
    let kind = LimitKind::Descriptors;
    let limit = Some(DeniedLimit { kind, limit: 20, hard: 20, used: 0, cgroup_id: 0 });
    let thread = thread(20, "server");
    let denied =
        Denied { thread, syscall: "accept4".into(), errno: 24, limit, ..Denied::default() };
    facts.push(fact(Body::Denied(denied)));
    assert!(!codes(facts).contains(&"net.accept_queue".into()));
}

#[test]
fn an_empty_queue_is_nothing() {
    assert!(codes(listener(0, 12)).is_empty());
}

#[test]
fn a_full_queue_without_overflow_or_clients_is_nothing() {
    assert!(codes(listener(5, 0)).is_empty());
    assert!(codes(listener(2, 0)).is_empty());
}

#[test]
fn a_client_that_was_accepted_does_not_wait_for_the_queue() {
    let said = |accepted: bool| {
        let mut facts = listener(2, 0);
        facts.push(wait(10, "client", "recvfrom", client(1), 0, 48));
        if accepted {
            let far = inet("tcp", 101, "10.0.0.2:80", "10.0.0.1:40000", 1);
            facts.push(endpoint(20, "server", far));
        }
        codes(facts).contains(&"net.accept_queue".to_string())
    };
    assert_eq!((said(false), said(true)), (true, false));
}

#[test]
fn the_overflow_of_another_listener_is_not_this_ones() {
    let mut facts = listener(0, 12);
    facts.push(wait(10, "client", "connect", client(2), 0, 48));
    assert!(!says("net.accept_queue", facts));
}

#[test]
fn a_connection_that_drops_packets_while_a_queue_overflows_is_no_listener() {
    let stands = inet("tcp", 301, "10.0.0.2:80", "10.0.0.9:5555", 1);
    let mut facts = counters(&[("TcpExt.ListenOverflows", 3, 15)]);
    for drops in [0, 9] {
        let state = SocketState { drops, ..SocketState::default() };
        facts.push(with_state(20, "server", stands.clone(), state));
    }
    assert!(!says("net.accept_queue", facts));
}

/// A worker of a server, which waits for its script while a client is connected and not accepted.
fn behind_a_script(overflows: u64) -> Vec<Fact> {
    let mut facts = listener(if overflows > 0 { 5 } else { 2 }, overflows);
    facts.push(wait(10, "client", "recvfrom", client(1), 0, 48));
    facts.push(identity(Thread {
        thread: thread(30, "script"),
        parent_pid: 20,
        ..Thread::default()
    }));
    let mut place = Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
    place.args[0] = 30;
    facts.push(at_place(20, "server", place));
    facts.push(blocked(30, "script", WaitState::Sleep, "nanosleep"));
    facts
}

#[test]
fn a_worker_that_waits_for_its_script_is_led_on_to_that() {
    assert!(!codes(behind_a_script(0)).contains(&"net.accept_queue".into()));
    assert!(
        codes(behind_a_script(12)).contains(&"net.accept_queue".into()),
        "attempts were ignored"
    );
}

#[test]
fn a_worker_that_polls_the_output_of_its_script_waits_for_that() {
    let text = |parent_pid: u32, polled: &[u32]| {
        let mut facts = listener(5, 12);
        facts.push(wait(10, "client", "recvfrom", client(1), 0, 48));
        let script = thread(30, "script");
        facts.push(identity(Thread { thread: script, parent_pid, ..Thread::default() }));
        let (state, syscall) = (WaitState::Sleep, "epoll_wait".into());
        let polled = polled.to_vec();
        facts.push(at_place(20, "server", Place { state, syscall, polled, ..Place::default() }));
        facts.push(blocked(30, "script", WaitState::Sleep, "nanosleep"));
        let pipe = || ObjectRef::Pipe { ino: 40 };
        let reads = descriptor(20, 7, "server", pipe());
        let mut writes = descriptor(30, 1, "script", pipe());
        if let Body::Endpoint(end) = &mut writes.body {
            end.writable = true;
        }
        facts.extend([reads, writes]);
        let found = findings(facts).into_iter().find(|it| it.code == "net.accept_queue");
        found.expect("attempts were ignored").text
    };
    let own = text(20, &[7]);
    assert!(own.contains(" It waits for script 30."), "{own}");
    assert!(!text(1, &[7]).contains("It waits for script"), "no child of its own");
    assert!(!text(20, &[7, 8]).contains("It waits for script"), "it may wait for the other");
}

#[test]
fn what_a_server_runs_has_its_listener_and_is_not_to_accept() {
    let found = |has_accepted: bool| {
        let mut facts = behind_a_script(12);
        let listens = inet("tcp", 300, "10.0.0.2:80", "0.0.0.0:0", 10);
        facts.push(descriptor(30, 4, "script", listens));
        let other = inet("tcp", 301, "10.0.0.2:80", "10.0.0.9:5555", 1);
        facts.extend(has_accepted.then(|| descriptor(20, 5, "server", other)));
        let found = findings(facts);
        let one = found.into_iter().find(|it| it.code == "net.accept_queue");
        one.map(|it| (it.culprit.pid, it.text.contains("It waits for script 30.")))
    };
    assert_eq!(found(true), Some((Some(20), true)));
    assert_eq!(found(false).map(|it| it.0), Some(Some(30)), "the listener was opened for it");
}

/// The client has asked, and waits to the end of the look. A master that rests and its worker have the listener open.
#[test]
fn a_master_that_rests_is_not_the_one_to_accept() {
    let mut facts = host();
    facts.extend(behind_a_script(0));
    facts.retain(|fact| !matches!(fact.body, Body::Wait(_)));
    let state = SocketState { accept_queue: 2, accept_limit: 4, ..SocketState::default() };
    let listens = inet("tcp", 300, "10.0.0.2:80", "0.0.0.0:0", 10);
    facts.insert(0, with_state(19, "master", listens, state));
    let turn = TcpTurn {
        sent_jiffies: 2000,
        received_jiffies: 4000,
        jiffy_ns: 1_000_000,
        snd_wl1: 1,
        ..TcpTurn::default()
    };
    let asked = SocketState { acked_bytes: 10, turn: Some(turn), ..SocketState::default() };
    let place = |syscall: &str| Place {
        state: WaitState::Sleep,
        syscall: syscall.into(),
        ..Place::default()
    };
    let worker = Thread { thread: thread(20, "server"), parent_pid: 19, ..Thread::default() };
    facts.extend([
        look_at(TargetKind::Process, 10),
        identity(worker),
        at_place(10, "client", Place { object: Some(client(1)), ..place("recvfrom") }),
        at_place(19, "master", place("nanosleep")),
        Fact { at_ns: LOOK_NS, ..with_state(10, "client", client(1), asked) },
    ]);
    let answer = crate::answer::explain(facts).answer;
    let who = answer.ends[0].who.as_ref().and_then(|who| who.pid);
    assert_eq!(who, Some(30), "{answer:?}");
}

#[test]
fn who_asks_about_a_master_hears_of_the_clients_that_nobody_accepts() {
    let asked = |pid| {
        let mut facts = listener(2, 0);
        facts.push(wait(10, "client", "recvfrom", client(1), 0, 48));
        facts.push(blocked(20, "server", WaitState::Sleep, "nanosleep"));
        facts.push(look_at(TargetKind::Process, pid));
        codes(facts)
    };
    assert_eq!(asked(20), ["net.accept_queue"]);
    assert!(asked(30).is_empty(), "somebody else");
}

#[test]
fn a_server_whose_first_thread_runs_is_at_work_whatever_its_helpers_wait_for() {
    let mut facts = listener(5, 12);
    facts.push(wait(10, "client", "connect", client(2), 0, 48));
    // The first thread was seen to rest once, and runs since.
    facts.push(wait(20, "server", "read", client(1), 0, 1));
    let helper = ThreadRef { tid: 21, ..thread(20, "server") };
    let place = Place { state: WaitState::Sleep, syscall: "futex".into(), ..Place::default() };
    let rests = Blocked { thread: helper, place, ..Blocked::default() };
    facts.push(fact(Body::Blocked(rests)));
    let text = findings(facts).remove(0).text;
    assert!(text.contains("is at work"), "{text}");
}

/// Master 20 and its worker 21 have the listener; following the client's wait comes to the master, which sleeps so often within the look.
fn accepts_for_a_master(sleeps: u64) -> Option<u32> {
    let mut facts = listener(5, 12);
    facts.push(Fact { at_ns: 0, body: facts[0].body.clone() });
    if let Some(Fact { body: Body::Endpoint(end), .. }) = facts.last_mut() {
        end.process = thread(21, "server");
    }
    let worker = Thread { thread: thread(21, "server"), parent_pid: 20, ..Thread::default() };
    facts.extend([
        identity(worker),
        wait(10, "client", "recvfrom", client(1), 0, 48),
        blocked(21, "server", WaitState::Sleep, "epoll_wait"),
    ]);
    let each_ns = LOOK_NS / sleeps;
    facts.extend((0..sleeps).map(|at| slept(20, "server", at * each_ns, (at + 1) * each_ns - 9)));
    findings(facts)[0].culprit.pid
}

#[test]
fn a_master_that_looks_after_its_workers_now_and_then_is_not_to_accept() {
    assert_eq!(accepts_for_a_master(5), Some(21));
    assert_eq!(accepts_for_a_master(1), Some(20), "it has slept over it all the time");
}

/// So many clients of a server with a connection in its queue wait for so long each, one after another.
fn takes_each_after(clients: u64, ms: u64) -> Vec<String> {
    let mut facts = listener(1, 0);
    for at in 0..clients {
        let near = format!("10.0.0.1:{}", 40_000 + at);
        let object = inet("tcp", 100 + at, &near, "10.0.0.2:80", 1);
        let Fact { body: Body::Wait(wait), .. } = wait(10, "client", "recvfrom", object, 0, 1)
        else {
            continue;
        };
        let (begin_ns, end_ns) = (at * ms * 1_000_000, (at + 1) * ms * 1_000_000);
        let wake = wait.wake.clone().map(|wake| Wake { at_ns: end_ns, ..wake });
        let body = Body::Wait(Wait { begin_ns, end_ns, wake, ..wait });
        facts.push(Fact { at_ns: end_ns, body });
    }
    codes(facts)
}

#[test]
fn a_server_at_full_load_that_takes_each_client_after_a_moment_does_accept() {
    assert!(!takes_each_after(90, 50).contains(&"net.accept_queue".to_string()));
    assert!(takes_each_after(3, 1_500).contains(&"net.accept_queue".to_string()));
}
