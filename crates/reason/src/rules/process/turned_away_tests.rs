//! Tests of connections that a server takes and turns away: who is seen to be so (waits/turned_away.rs), and what is said (turned_away.rs).
//!
//! Owns one scene: a client that connects each half second, and a server that listens and begins a process for it.

use crate::facts::*;
use crate::rules::scenes::{LOOK_NS, endpoint, host, of_process, slept, thread};
use crate::waits::timeline::Observed;
use crate::waits::turned_away::all;

const NS: Ns = 1_000_000;

/// Each half second client 10 wakes server 20, which begins a process that lives for a while and ends with a code.
fn facts(client: u32, (lived_ns, code): (Ns, u32)) -> Vec<Fact> {
    let listener = ObjectRef::Unix { ino: 5, peer_ino: 0, path: Some("/run/db".into()) };
    let mut facts = [host(), vec![of_process(10, "app"), endpoint(20, "db", listener)]].concat();
    for at in 0..6 {
        let at_ns = LOOK_NS / 8 * (at + 1);
        let child = ThreadRef { start_ns: at_ns, ..thread(30 + at as u32, "db") };
        let by = thread(client, "app");
        let wake = Wake { at_ns, context: WakeContext::Task, by, ..Wake::default() };
        let place = Place { state: WaitState::Sleep, syscall: "select".into(), ..Place::default() };
        let (begin_ns, wake) = (at_ns - 100 * NS, Some(wake));
        let server = thread(20, "db");
        let wait = Wait {
            thread: server.clone(),
            begin_ns,
            end_ns: at_ns,
            place,
            wake,
            ..Wait::default()
        };
        let fork = Fork { parent: server, child: child.clone(), ..Fork::default() };
        let exit = Exit { thread: child, last: true, code: Some(code) };
        let ended_ns = at_ns + NS + lived_ns;
        let fact = |at_ns, body| Fact { at_ns, body };
        facts.push(fact(at_ns, Body::Wait(wait)));
        facts.push(fact(at_ns + NS, Body::Fork(fork)));
        facts.push(fact(ended_ns, Body::Exit(exit)));
        let next_ns = LOOK_NS / 8 * (at + 2);
        facts.push(slept(10, "app", at_ns + 10 * NS, next_ns - 2 * NS));
    }
    facts.sort_by_key(|fact| fact.at_ns);
    facts
}

fn clients(client: u32, session: (Ns, u32)) -> Vec<u32> {
    clients_of(facts(client, session))
}

fn clients_of(facts: Vec<Fact>) -> Vec<u32> {
    let Observed { model, timelines } = Observed::new(facts);
    all(&model, timelines.waits()).iter().map(|one| one.client.pid).collect()
}

#[test]
fn who_connects_and_whose_session_ends_badly_at_once_is_turned_away() {
    assert_eq!(clients(10, (5 * NS, 256)), [10; 6]);
    assert!(clients(10, (5 * NS, 0)).is_empty(), "it ended well");
    assert!(clients(10, (2_000 * NS, 256)).is_empty(), "it was a session");
    assert!(clients(20, (5 * NS, 256)).is_empty(), "the server woke itself");
}

#[test]
fn a_script_whose_parts_fail_turns_nobody_away() {
    let mut fed = facts(10, (5 * NS, 256));
    fed.retain(|fact| !matches!(fact.body, Body::Endpoint(_)));
    assert!(clients_of(fed).is_empty(), "it listens nowhere");
    let mut connected = facts(10, (5 * NS, 256));
    for fact in &mut connected {
        if let Body::Endpoint(end) = &mut fact.body {
            end.object = ObjectRef::Unix { ino: 5, peer_ino: 6, path: Some("/run/db".into()) };
        }
    }
    assert!(clients_of(connected).is_empty(), "it has a connection, and takes none");
}

#[test]
fn a_server_of_tcp_listens_too() {
    let mut facts = facts(10, (5 * NS, 256));
    for fact in &mut facts {
        if let Body::Endpoint(end) = &mut fact.body {
            end.object = ObjectRef::Inet(InetRef {
                ino: 5,
                netns: 1,
                protocol: "tcp".into(),
                local: "0.0.0.0:22".parse().unwrap(),
                remote: "0.0.0.0:0".parse().unwrap(),
                state: 10,
            });
        }
    }
    assert_eq!(clients_of(facts), [10; 6]);
}

#[test]
fn whoever_was_running_in_an_interrupt_is_no_client() {
    let mut facts = facts(10, (5 * NS, 256));
    for fact in &mut facts {
        if let Body::Wait(Wait { wake: Some(wake), .. }) = &mut fact.body {
            wake.context = WakeContext::SoftInterrupt;
        }
    }
    assert!(clients_of(facts).is_empty());
}

#[test]
fn the_sleeps_between_such_tries_are_for_that_server() {
    let report = crate::answer::explain(facts(10, (5 * NS, 256)));
    let found = report.findings.iter().find(|finding| finding.code == "process.retry");
    let found = found.expect("no retry");
    assert_eq!(found.culprit.pid, Some(20));
    assert!(found.title.contains("db 20 turns away"), "{}", found.title);
    assert!(found.text.contains("a mere check of the port looks the same"), "{}", found.text);
    let well = crate::answer::explain(facts(10, (5 * NS, 0)));
    assert!(well.findings.iter().all(|finding| finding.code != "process.retry"));
}
