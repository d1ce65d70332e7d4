//! Tests of process.socket_peer: servers that sleep, work, or are asked nothing, over unix sockets in rounds and over TCP in one
//! question that stands.
//!
//! Apart from the rule for its length. Must not: hold scenes that other rules need (rules/scenes.rs).

use crate::answer::explain;
use crate::answer::report::Severity;
use crate::facts::*;
use crate::rules::net::scenes::{inet, with_state};
use crate::rules::scenes::*;

fn wait(who: &ThreadRef, by: &ThreadRef, begin_ns: Ns, end_ns: Ns, place: Place) -> Fact {
    let wake =
        Wake { at_ns: end_ns, context: WakeContext::Task, by: by.clone(), ..Wake::default() };
    fact(Body::Wait(Wait {
        thread: who.clone(),
        begin_ns,
        end_ns,
        place,
        wake: Some(wake),
        ..Wait::default()
    }))
}

fn read(object: &ObjectRef) -> Place {
    Place {
        state: WaitState::Sleep,
        syscall: "read".into(),
        object: Some(object.clone()),
        ..Place::default()
    }
}

fn sleep() -> Place {
    Place { state: WaitState::Sleep, syscall: "nanosleep".into(), ..Place::default() }
}

/// Ten rounds of: the client rests, asks, waits; the server sleeps over the answer.
fn rounds(answer_ms: u64, asks: bool) -> Vec<Fact> {
    rounds_between(None, None, answer_ms, asks)
}

/// The same between ends of these names: the one that was accepted has its listener's.
fn rounds_between(near: Option<&str>, far: Option<&str>, answer_ms: u64, asks: bool) -> Vec<Fact> {
    let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: near.map(Into::into) };
    let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: far.map(Into::into) };
    let (client, server, timer) = (thread(10, "client"), thread(20, "server"), thread(0, ""));
    let mut facts = host();
    facts.push(endpoint(10, "client", near.clone()));
    facts.push(endpoint(20, "server", far.clone()));
    for round in 0..10 {
        let asked = round * 500_000_000 + 20_000_000;
        let answered = asked + answer_ms * 1_000_000;
        facts.push(wait(&client, &server, asked, answered, read(&near)));
        facts.push(wait(&server, &timer, asked, answered - 1_000, sleep()));
        let by = if asks { &client } else { &timer };
        let place = if asks { read(&far) } else { sleep() };
        facts.push(wait(&server, by, asked - 20_000_000, asked, place));
    }
    facts
}

#[test]
fn a_server_that_sleeps_over_its_answers_is_named() {
    let report = explain(rounds(400, true));
    let finding = &report.findings[0];
    assert_eq!((&*finding.code, finding.severity), ("process.socket_peer", Severity::Critical));
    assert_eq!(finding.culprit.pid, Some(20));
    assert!(finding.title.contains("sleeps over each answer for 400 ms"), "{}", finding.title);
}

/// Ten rounds in each of which the client, after the answer, waits for something `more` of the server; what the first finding says.
fn rounds_and_more(more: impl Fn(u64) -> Vec<Fact>) -> (String, String) {
    let mut facts = rounds(400, true);
    (0..10).for_each(|round| facts.extend(more(round * 500_000_000 + 420_000_000)));
    let found = explain(facts).findings;
    (found[0].title.clone(), found[0].text.clone())
}

#[test]
fn what_is_written_in_parts_is_one_answer() {
    const MS: Ns = 1_000_000;
    let (client, server) = (thread(10, "client"), thread(20, "server"));
    let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
    let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: None };
    let body = |at_ns: Ns| wait(&client, &server, at_ns + MS / 10, at_ns + MS, read(&near));
    let (title, text) = rounds_and_more(|at_ns| vec![body(at_ns)]);
    assert!(title.contains("sleeps over each answer for 401 ms"), "{title}");
    assert!(text.contains("10 answers"), "{text}");
    let next = |at_ns: Ns| wait(&server, &client, at_ns, at_ns + MS / 5, read(&far));
    let (title, text) = rounds_and_more(|at_ns| vec![next(at_ns), body(at_ns)]);
    assert!(title.contains("10 of 20 answers"), "{title}");
    assert!(text.contains("20 answers"), "{text}");
}

#[test]
fn a_timeout_of_the_waiters_own_begins_no_new_answer() {
    const SECOND: Ns = 1_000_000_000;
    let clock = thread(0, "");
    let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
    let mut facts = rounds(400, true);
    let is_first = |fact: &Fact| matches!(&fact.body, Body::Wait(wait) if wait.thread.pid == 10 && wait.end_ns < SECOND / 2);
    for fact in facts.iter_mut().filter(|fact| is_first(fact)) {
        if let Body::Wait(wait) = &mut fact.body {
            wait.begin_ns = 220_000_000;
        }
    }
    let mut first = wait(&thread(10, "client"), &clock, 20_000_000, 219_000_000, read(&near));
    if let Body::Wait(wait) = &mut first.body
        && let Some(wake) = &mut wait.wake
    {
        wake.context = WakeContext::HardInterrupt;
    }
    facts.push(first);
    let title = &explain(facts).findings[0].title;
    assert!(title.contains("sleeps over each answer for 400 ms"), "{title}");
}

/// Twenty rounds of: process 10 asks 20, an event loop, for the next job, over TCP, and 30, which sleeps between, brings one;
/// `by`: who ends the loop's wait before it answers.
fn fed(target: TargetKind, (context, by): (WakeContext, u32)) -> crate::answer::Report {
    const MS: Ns = 1_000_000;
    let near = inet("tcp", 5, "127.0.0.1:5000", "127.0.0.1:80", 1);
    let far = inet("tcp", 6, "127.0.0.1:80", "127.0.0.1:5000", 1);
    let listener = inet("tcp", 1, "127.0.0.1:80", "0.0.0.0:0", 10);
    let woken = |who: &ThreadRef, (begin_ms, end_ms): (u64, u64), place, (context, by)| {
        let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
        let by = thread(by, "other");
        let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
        let thread = who.clone();
        Fact {
            at_ns: end_ns,
            body: Body::Wait(Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() }),
        }
    };
    let polls = |object: Option<&ObjectRef>| Place {
        state: WaitState::Sleep,
        syscall: "epoll_wait".into(),
        args: [5, 0, 64, 1_000, 0, 0],
        object: object.cloned(),
        ..Place::default()
    };
    let (consumer, server, producer) =
        (thread(10, "worker"), thread(20, "queue"), thread(30, "shop"));
    let packet = |pid: u32| (WakeContext::SoftInterrupt, pid);
    let mut facts = host();
    facts.extend([
        endpoint(20, "queue", listener.clone()),
        endpoint(20, "queue", far.clone()),
        endpoint(10, "worker", near.clone()),
    ]);
    for round in 0..20 {
        let at = round * 250;
        let brought = if by == 0 { None } else { Some(&listener) };
        facts.extend([
            woken(&producer, (at, at + 247), sleep(), (WakeContext::HardInterrupt, 0)),
            woken(&server, (at, at + 1), polls(Some(&far)), packet(10)),
            woken(&server, (at + 1, at + 249), polls(brought), (context, by)),
            woken(&consumer, (at + 1, at + 250), read(&near), packet(20)),
        ]);
    }
    let name = "worker".to_string();
    let pid = if target == TargetKind::Host { 0 } else { 10 };
    facts.push(fact(Body::Target(Target {
        kind: target,
        name,
        pid,
        cgroups: Vec::new(),
        words: Vec::new(),
    })));
    explain(facts)
}

#[test]
fn who_waits_for_what_others_bring_is_owed_nothing() {
    let producer = (WakeContext::SoftInterrupt, 30);
    for target in [TargetKind::Process, TargetKind::Host] {
        assert!(fed(target, producer).findings.is_empty(), "{target:?}");
    }
    let answer = fed(TargetKind::Process, producer).answer;
    assert_eq!(answer.verdict, crate::answer::Verdict::Idle, "{}", answer.title);
    let of_command = fed(TargetKind::Command, producer).answer;
    let brings =
        |end: &crate::answer::AnswerEnd| end.who.as_ref().and_then(|who| who.pid) == Some(30);
    assert!(of_command.ends.iter().any(brings), "its own path has to be explained: {of_command:?}");
}

#[test]
fn who_asks_again_and_again_for_an_answer_that_is_due_later_waits_for_work() {
    let clock = (WakeContext::HardInterrupt, 0);
    for target in [TargetKind::Process, TargetKind::Host] {
        assert!(fed(target, clock).findings.is_empty(), "{target:?}");
    }
    assert_eq!(fed(TargetKind::Process, clock).answer.verdict, crate::answer::Verdict::Idle);
    let end = fed(TargetKind::Command, clock).answer.ends.remove(0);
    assert_eq!(
        (end.end, end.who.and_then(|who| who.pid)),
        (crate::graph::end::EndKind::Sleep, Some(20))
    );
}

#[test]
fn a_server_that_waits_for_work_is_asked_nothing() {
    let mut facts = rounds(400, true);
    for fact in &mut facts {
        if let Body::Wait(wait) = &mut fact.body
            && wait.place.syscall == "nanosleep"
        {
            wait.place.syscall = "epoll_wait".into();
        }
    }
    assert!(explain(facts).findings.iter().all(|f| f.code != "process.socket_peer"));
}

#[test]
fn a_server_that_waits_for_a_cpu_is_the_cpus_victim() {
    let mut facts = rounds(400, true);
    for fact in &mut facts {
        if let Body::Wait(wait) = &mut fact.body
            && wait.place.syscall == "nanosleep"
        {
            (wait.place, wait.wake) = (Place::default(), None);
        }
    }
    assert!(explain(facts).findings.iter().all(|f| f.code != "process.socket_peer"));
}

#[test]
fn a_listener_to_news_waits_for_work() {
    assert!(explain(rounds(400, false)).findings.is_empty());
}

#[test]
fn who_connected_is_no_server_however_long_he_thinks_between_two_questions() {
    let path = Some("/run/db.sock");
    assert!(explain(rounds_between(path, None, 400, true)).findings.is_empty());
    let report = explain(rounds_between(None, path, 400, true));
    assert_eq!(report.findings[0].culprit.pid, Some(20));
    // A client may have a name as well: then neither end tells.
    let report = explain(rounds_between(Some("/tmp/own"), path, 400, true));
    assert_eq!(report.findings[0].culprit.pid, Some(20));
}

#[test]
fn a_quick_server_is_nothing() {
    assert!(explain(rounds(4, true)).findings.is_empty());
}

/// The client has asked over TCP two seconds before the look ends, and waits in poll with a clock; nothing ends.
fn standing(sent_jiffies: u32, received_jiffies: u32) -> Vec<Fact> {
    let turn = TcpTurn {
        sent_jiffies,
        received_jiffies,
        jiffy_ns: 1_000_000,
        snd_wl1: 1,
        ..TcpTurn::default()
    };
    let state = SocketState {
        acked_bytes: 10,
        received_bytes: 10,
        turn: Some(turn),
        ..SocketState::default()
    };
    let listens = inet("tcp", 300, "10.0.0.1:80", "0.0.0.0:0", 10);
    let near = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.1:80", 1);
    let far = inet("tcp", 200, "10.0.0.1:80", "10.0.0.1:40000", 1);
    let mut facts = host();
    facts.extend([
        of_process(10, "client"),
        with_state(10, "client", near.clone(), state),
        endpoint(20, "server", listens),
        endpoint(20, "server", far),
        at_place(10, "client", Place { syscall: "recvfrom".into(), ..read(&near) }),
        at_place(20, "server", sleep()),
    ]);
    facts
}

#[test]
fn a_question_that_stands_is_seen_by_the_clocks_of_its_connection() {
    let found = explain(standing(2000, 4000)).findings;
    assert_eq!((&*found[0].code, found[0].culprit.pid), ("process.socket_peer", Some(20)));
    assert!(found[0].title.contains("has not answered for"), "{}", found[0].title);
}

/// Rounds over TCP in which the server sleeps over one answer after the other, so that no question ever wakes it. The last was
/// answered 100 ms before the end; before that the client spoke last so long before the end.
fn busy(spoke_jiffies: u32) -> Vec<Fact> {
    let mut facts = standing(spoke_jiffies, 100);
    facts.retain(|fact| !matches!(fact.body, Body::Blocked(_) | Body::Target(_)));
    for fact in facts.iter_mut().filter(|fact| matches!(fact.body, Body::Endpoint(_))) {
        fact.at_ns = LOOK_NS;
    }
    let near = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.1:80", 1);
    let (client, server, timer) = (thread(10, "client"), thread(20, "server"), thread(0, ""));
    for round in 0..10 {
        let (asked, answered) = (round * 500_000_000, round * 500_000_000 + 400_000_000);
        facts.push(wait(&client, &server, asked, answered, read(&near)));
        facts.push(wait(&server, &timer, asked, answered - 1_000, sleep()));
        facts.push(wait(&server, &timer, answered, answered + 100_000_000, sleep()));
    }
    facts
}

#[test]
fn who_asks_a_server_that_waits_for_no_question_is_seen_by_the_clocks_of_its_connection() {
    let found = explain(busy(500)).findings;
    assert_eq!((&*found[0].code, found[0].culprit.pid), ("process.socket_peer", Some(20)));
    let found = explain(busy(4_900)).findings;
    assert!(found.is_empty(), "all that came since may be news: {found:?}");
}

#[test]
fn who_has_its_answer_waits_for_nobody() {
    let found = explain(standing(4000, 2000)).findings;
    assert!(found.iter().all(|finding| finding.code != "process.socket_peer"), "{found:?}");
}

/// Somebody asks about a server that is in `place` all the time; its one client spoke last so long ago, or it did itself.
fn asked_server(client_spoke_ms: u32, server_spoke_ms: u32, place: Place) -> Vec<Fact> {
    let turn = TcpTurn {
        sent_jiffies: server_spoke_ms,
        received_jiffies: client_spoke_ms,
        jiffy_ns: 1_000_000,
        snd_wl1: 1,
        ..TcpTurn::default()
    };
    let turn = Some(turn);
    let state = SocketState { acked_bytes: 10, received_bytes: 10, turn, ..SocketState::default() };
    let near = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.1:80", 1);
    let far = inet("tcp", 200, "10.0.0.1:80", "10.0.0.1:40000", 1);
    let mut facts = host();
    facts.extend([
        of_process(20, "server"),
        endpoint(10, "client", near),
        endpoint(20, "server", inet("tcp", 300, "10.0.0.1:80", "0.0.0.0:0", 10)),
        Fact { at_ns: LOOK_NS, ..with_state(20, "server", far, state) },
        at_place(20, "server", place),
    ]);
    facts
}

#[test]
fn a_server_that_was_asked_about_sleeps_while_its_client_waits() {
    let found = explain(asked_server(2000, 4000, sleep())).findings;
    assert_eq!((&*found[0].code, found[0].culprit.pid), ("process.socket_peer", Some(20)));
    assert_eq!(found[0].title, "server 20 sleeps while client 10 waits for its answer");
    assert!(found[0].text.contains("the oldest for 2 s"), "{}", found[0].text);
}

#[test]
fn a_server_that_owes_nothing_may_sleep() {
    let said = |facts| explain(facts).findings.iter().any(|it| it.code == "process.socket_peer");
    assert!(!said(asked_server(4000, 2000, sleep())));
    let events = Place { syscall: "epoll_wait".into(), ..sleep() };
    assert!(!said(asked_server(2000, 4000, events)), "it may be a long poll");
}
