//! Of ends: whose the work and the sleeps of children are, and what is a loop's look at the time. Apart, as ends.rs is long.
//!
//! Must not: try what a rule says of an end (rules/), or what a chain leads to (ways/).

use super::is_tick;
use crate::facts::*;
use crate::graph::debts::Debt;
use crate::graph::end::EndKind;
use crate::graph::index::Index;
use crate::graph::leaf::{ChainLink, Leaf};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::net::scenes::inet;
use crate::rules::scenes::*;
use crate::waits::WaitClass;
use crate::waits::timeline::Observed;
use std::sync::Arc;

/// The ends behind sh 10, which waits all the time for its child 20; that began in the look and works, or sleeps.
fn ends(kind: TargetKind, sleeps: bool) -> Vec<(EndKind, Object)> {
    let child = || ThreadRef { start_ns: 2, ..thread(20, "job") };
    let mut waits = Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
    waits.args[0] = 20;
    let name = "sh".to_string();
    let target = Target { kind, name, pid: 10, cgroups: Vec::new(), words: Vec::new() };
    let fork = Fork { parent: thread(10, "sh"), child: child(), flags: 0 };
    let time = ThreadTime {
        thread: child(),
        run_ns: LOOK_NS - 2,
        until_ns: LOOK_NS,
        ..ThreadTime::default()
    };
    let does = match sleeps {
        true => blocked(20, "job", WaitState::Sleep, "clock_nanosleep"),
        false => Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) },
    };
    let mut facts = host();
    facts.extend([
        fact(Body::Target(target)),
        identity(Thread { thread: thread(10, "sh"), ..Thread::default() }),
        identity(Thread { thread: child(), parent_pid: 10, ..Thread::default() }),
        Fact { at_ns: 2, body: Body::Fork(fork) },
        at_place(10, "sh", waits),
        does,
    ]);
    let observed = Observed::new(facts);
    let ends = &Measures::of_observed(&observed).graph.ends;
    let acts = ends.iter().filter(|end| matches!(end.kind, EndKind::Works | EndKind::Sleep));
    acts.map(|end| (end.kind, end.object.clone())).collect()
}

#[test]
fn the_work_of_children_is_their_programs_and_one_end() {
    let of_all = [(EndKind::Works, Object::Processes("job".into()))];
    assert_eq!(ends(TargetKind::Process, false), of_all);
}

#[test]
fn sleeps_of_children_are_their_programs() {
    let of_all = [(EndKind::Sleep, Object::Processes("job".into()))];
    assert_eq!(ends(TargetKind::Process, true), of_all);
}

/// Whether a second of loop 20 is its look at the time, of which client 10 waits for an answer in pieces of a second: since so long, if that was seen, and
/// the loop slept so long in that call.
fn ticks(asked_ms: Option<Ns>, slept_ms: Ns) -> bool {
    const MS: Ns = 1_000_000;
    let near = inet("tcp", 5, "127.0.0.1:5000", "127.0.0.1:80", 1);
    let wait = |pid: u32, syscall: &str, object: Option<ObjectRef>, (begin_ns, end_ns)| {
        let (state, syscall) = (WaitState::Sleep, syscall.into());
        let place = Place { state, syscall, object, ..Place::default() };
        let (thread, wake) = (thread(pid, "job"), Some(Wake { at_ns: end_ns, ..Wake::default() }));
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    };
    let (from, to) = (3_000 * MS, 4_000 * MS);
    let facts = vec![
        wait(10, "recvfrom", Some(near), (from, to)),
        wait(20, "epoll_wait", None, (to - slept_ms * MS, to)),
    ];
    let Observed { model, timelines } = Observed::new([host(), facts].concat());
    let mut index = Index::new(&model, &timelines);
    index.debts.awaits = asked_ms
        .map(|ms| {
            let (since_ns, seen_ns) = (to - ms * MS, to);
            let (since_known, sent_ns, answered_ns, silent_since_ns) = (true, None, None, None);
            let ino = 5;
            Debt { ino, since_ns, since_known, seen_ns, sent_ns, answered_ns, silent_since_ns }
        })
        .into_iter()
        .map(|debt| (10, vec![debt]))
        .collect();
    let link =
        |pid, class, object, at| Arc::new(ChainLink::of(thread(pid, "job"), class, object, at));
    let slept = (to - (slept_ms * MS).min(to - from), to);
    let links = vec![
        link(10, WaitClass::SocketRead, Object::Inet(5), (from, to)),
        link(20, WaitClass::Idle, Object::Nothing, slept),
    ];
    is_tick(&index, &Leaf { begin_ns: slept.0, end_ns: to, links, circle: None })
}

#[test]
fn a_loops_look_at_the_time_is_no_sleep_over_an_answer_in_however_many_pieces_one_waits() {
    assert!(ticks(Some(3_900), 900), "four of them while one answer stands out");
    assert!(!ticks(Some(3_900), 3_800), "it slept over it all the while");
    assert!(!ticks(None, 900), "nobody saw for how long it stands out");
    assert!(ticks(None, 400), "less than half of the piece");
}

/// What job 10 comes to, which waits all the time for a file lock that 20 has; of 20 nothing was reported but that it stood ready for this
/// part of the time, and ran for the rest.
fn behind_a_holder(ready_percent: u64) -> Vec<(EndKind, f64)> {
    let holder = || thread(20, "backup");
    let runnable_ns = LOOK_NS / 100 * ready_percent;
    let time = ThreadTime {
        thread: holder(),
        runnable_ns,
        run_ns: LOOK_NS - runnable_ns,
        until_ns: LOOK_NS,
        ..ThreadTime::default()
    };
    let facts = vec![
        identity(Thread { thread: holder(), ..Thread::default() }),
        Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) },
    ];
    let observed = Observed::new([host(), behind_file_lock(10, &holder()), facts].concat());
    let ends = &Measures::of_observed(&observed).graph.ends;
    ends.iter().map(|end| (end.kind, end.seconds)).collect()
}

#[test]
fn a_holder_that_stands_ready_makes_wait_for_a_cpu_and_not_for_the_lock() {
    let ends = behind_a_holder(90);
    assert_eq!(ends[0].0, EndKind::Cpu, "{ends:?}");
    let all: f64 = ends.iter().map(|(_, seconds)| seconds).sum();
    assert!((all - LOOK_NS as f64 / 1e9).abs() < 0.01, "each second once: {ends:?}");
}

#[test]
fn a_holder_that_mostly_works_has_the_lock_all_the_time() {
    let ends = behind_a_holder(20);
    assert!(ends.iter().all(|(kind, _)| *kind == EndKind::Lock), "{ends:?}");
}

#[test]
fn what_a_client_says_to_a_loop_is_not_what_the_loop_waits_for() {
    let listens = inet("tcp", 1, "127.0.0.1:80", "0.0.0.0:0", 10);
    let client = inet("tcp", 8, "127.0.0.1:80", "127.0.0.1:5002", 1);
    let asked = inet("tcp", 9, "127.0.0.1:6000", "10.0.0.9:5432", 1);
    let mut facts = host();
    facts.extend((3..).zip([listens, client, asked]).map(|(fd, of)| descriptor(20, fd, "web", of)));
    let Observed { model, timelines } = Observed::new(facts);
    let index = Index::new(&model, &timelines);
    let is_it = |ino, class| {
        let root = ChainLink::of(thread(20, "web"), class, Object::Inet(ino), (0, 1));
        super::is_of_a_client(&index, &root)
    };
    assert!(is_it(8, WaitClass::Idle));
    assert!(!is_it(9, WaitClass::Idle), "it has asked there");
    assert!(!is_it(8, WaitClass::SocketRead), "it reads on there alone");
}
