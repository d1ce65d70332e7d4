//! Circles of servers that wait for each other's answers in scenes, and the servers beside them that are merely slow.
//!
//! Edit together: answer_circle.rs.

use crate::answer::report::Finding;
use crate::facts::*;
use crate::rules::net::scenes::*;
use crate::rules::scenes::{at_place, blocked, descriptor, identity, of_process, thread};

/// A process listens on a port; so many connections wait to be accepted.
fn serves(pid: u32, port: u16, accept_queue: u32) -> Fact {
    let state = SocketState { accept_queue, accept_limit: 5, ..SocketState::default() };
    let local = format!("127.0.0.1:{port}");
    with_state(pid, "server", inet("tcp", u64::from(port), &local, "0.0.0.0:0", 10), state)
}

/// A process stands in a read of a connection that it has made from one port to another.
fn asks(pid: u32, from: u16, to: &str) -> Vec<Fact> {
    let socket = || inet("tcp", u64::from(from), &format!("127.0.0.1:{from}"), to, 1);
    let place = Place {
        state: WaitState::Sleep,
        syscall: "recvfrom".into(),
        object: Some(socket()),
        ..Place::default()
    };
    vec![descriptor(pid, 5, "server", socket()), at_place(pid, "server", place)]
}

/// Client 10 waits for the answer of a server, which has accepted its connection.
fn is_served(by: u32, port: u16) -> Vec<Fact> {
    let (near, far) = ("127.0.0.1:40000", format!("127.0.0.1:{port}"));
    let place = Place {
        state: WaitState::Sleep,
        syscall: "recvfrom".into(),
        object: Some(inet("tcp", 100, near, &far, 1)),
        ..Place::default()
    };
    vec![
        descriptor(10, 3, "client", inet("tcp", 100, near, &far, 1)),
        descriptor(by, 4, "server", inet("tcp", 101, &far, near, 1)),
        at_place(10, "client", place),
    ]
}

/// The only finding above all others.
fn first(parts: Vec<Vec<Fact>>) -> Finding {
    let found = findings(parts.concat());
    found.into_iter().next().expect("a finding")
}

fn asks_itself() -> Vec<Fact> {
    [vec![serves(20, 80, 1)], asks(20, 50_000, "127.0.0.1:80"), is_served(20, 80)].concat()
}

#[test]
fn a_server_of_one_thread_that_asks_itself_waits_for_itself() {
    for target in [vec![], vec![of_process(10, "client")], vec![of_process(20, "server")]] {
        let found = first(vec![asks_itself(), target]);
        assert_eq!(found.code, "net.accept_queue");
        assert!(found.title.starts_with("server 20 waits for itself"), "{}", found.title);
        let words = format!("{} {:?}", found.text, found.remedy);
        assert!(!words.contains("longer backlog"), "{words}");
        assert!(words.contains("more threads or processes"), "{words}");
        assert!(!words.contains("kill"), "{words}");
    }
}

#[test]
fn a_server_with_a_thread_that_may_accept_is_in_no_circle() {
    let own = ThreadRef { tid: 21, pid: 20, ..thread(21, "server") };
    let does = |syscall: &str, object: Option<ObjectRef>| {
        let (state, syscall) = (WaitState::Sleep, syscall.into());
        let place = Place { state, syscall, object, ..Place::default() };
        let blocked = Blocked { thread: own.clone(), place, ..Blocked::default() };
        vec![Fact { at_ns: crate::rules::scenes::LOOK_NS, body: Body::Blocked(blocked) }]
    };
    let listener = inet("tcp", 80, "127.0.0.1:80", "0.0.0.0:0", 10);
    let is_circle = |does: Vec<Fact>| {
        let all = findings([asks_itself(), does].concat());
        all.iter().any(|it| it.title.contains("waits for itself"))
    };
    assert!(!is_circle(does("accept4", Some(listener))));
    assert!(!is_circle(does("epoll_wait", None)), "a loop may accept");
    assert!(!is_circle(does("clock_nanosleep", None)), "it may do so later");
    assert!(is_circle(does("futex", None)), "a pool at rest");
}

#[test]
fn a_slow_server_with_a_queue_is_in_no_circle() {
    let sleeps = [
        vec![serves(20, 80, 1), blocked(20, "server", WaitState::Sleep, "nanosleep")],
        asks(10, 50_000, "127.0.0.1:80"),
    ];
    let found = first(sleeps.to_vec());
    assert!(found.title.starts_with("server 20 does not accept"), "{}", found.title);
    let of_others = [
        vec![serves(20, 80, 1)],
        asks(20, 51_000, "10.0.0.9:5432"),
        asks(10, 50_000, "127.0.0.1:80"),
    ];
    let found = findings(of_others.concat());
    assert!(
        found.iter().all(|it| !it.title.contains("itself") && !it.title.contains("each other"))
    );
}

/// Master 19 with two workers, of which one asks its own service, and what the other does.
fn pool(second: Vec<Fact>) -> Vec<Fact> {
    pool_of("pselect6", second)
}

/// The same, with what the master does.
fn pool_of(master_does: &str, second: Vec<Fact>) -> Vec<Fact> {
    let worker = |pid: u32| {
        identity(Thread { thread: thread(pid, "server"), parent_pid: 19, ..Thread::default() })
    };
    let has_it = || [serves(19, 80, 2), serves(20, 80, 2), serves(21, 80, 2)];
    let master = blocked(19, "server", WaitState::Sleep, master_does);
    let facts = [worker(20), worker(21), master].into_iter().chain(has_it()).collect();
    [facts, asks(20, 50_000, "127.0.0.1:80"), is_served(20, 80), second].concat()
}

#[test]
fn workers_that_all_ask_their_own_service_are_a_circle_and_one_that_is_free_breaks_it() {
    for target in [vec![], vec![of_process(10, "client")], vec![of_process(19, "server")]] {
        let found = first(vec![pool(asks(21, 50_001, "127.0.0.1:80")), target]);
        assert!(
            found.title.starts_with("all 2 processes that serve 127.0.0.1:80"),
            "{}",
            found.title
        );
    }
    let is_circle = |master_does: &str| {
        let all = findings(pool_of(master_does, asks(21, 50_001, "127.0.0.1:80")));
        all.iter().any(|it| it.title.contains("their own service"))
    };
    assert!(is_circle("futex") && is_circle("wait4"), "it looks after its workers");
    assert!(!is_circle("epoll_wait"), "what that polls was not read: it may accept itself");
    let mut by_pipe = pool_of("pselect6", asks(21, 50_001, "127.0.0.1:80"));
    for fact in &mut by_pipe {
        match &mut fact.body {
            Body::Blocked(it) if it.thread.pid == 19 => it.place.polled = vec![7],
            _ => {}
        }
    }
    by_pipe.push(descriptor(19, 7, "server", ObjectRef::Pipe { ino: 70 }));
    let found = findings(by_pipe);
    assert!(found[0].title.contains("their own service"), "its workers write to that");
    // What a server runs for a request has inherited the listener.
    let serves = is_served(19, 80);
    let one = findings([pool_of("wait4", asks(21, 50_001, "127.0.0.1:80")), serves].concat());
    assert!(one.iter().all(|it| !it.title.contains("their own service")), "it serves too");
    for syscall in ["epoll_wait", "accept4", "nanosleep"] {
        let one = findings(pool(vec![blocked(21, "server", WaitState::Sleep, syscall)]));
        assert!(one.iter().all(|it| !it.title.contains("their own service")), "{syscall}");
    }
}

#[test]
fn services_that_ask_each_other_are_a_circle() {
    // The first has been asked by the client and asks the second, which has accepted that and asks the first.
    let accepted = inet("tcp", 102, "127.0.0.1:81", "127.0.0.1:50000", 1);
    let of_two = |more: Vec<Fact>| {
        let facts = vec![
            serves(20, 80, 1),
            serves(21, 81, 0),
            descriptor(21, 4, "server", accepted.clone()),
        ];
        let first = [facts, asks(20, 50_000, "127.0.0.1:81"), is_served(20, 80)].concat();
        [first, more].concat()
    };
    let found =
        first(vec![of_two(asks(21, 50_001, "127.0.0.1:80")), vec![of_process(10, "client")]]);
    assert!(
        found.title.contains("server 20 and server 21 wait for each other's answers"),
        "{}",
        found.title
    );
    assert!(found.victims.iter().any(|it| it.pid == 10), "{found:?}");
    let slow = findings(of_two(vec![blocked(21, "server", WaitState::Sleep, "nanosleep")]));
    assert!(slow.iter().all(|it| !it.title.contains("each other")), "the second only sleeps");
}
