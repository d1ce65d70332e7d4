//! Whole comparisons on scenes: a command that was slowed by a lock, the same faster, noise, other programs, blind sides.
//!
//! What a single file decides is tested there; here a scene is played twice with one thing changed, and the sentence is read.

use super::*;
use crate::facts::*;
use crate::graph::end::EndKind;
use crate::rules::scenes::{file_lock, thread};

const SECOND: f64 = 1e9;

fn at(seconds: f64) -> Ns {
    (seconds * SECOND) as Ns
}

fn fact(seconds: f64, body: Body) -> Fact {
    Fact { at_ns: at(seconds), body }
}

/// A run of a command, process `first_pid` and the number after it: it works so long, then waits for a lock whose
/// holder sleeps, and ends.
fn run(first_pid: u32, works: f64, waits: f64) -> Vec<Fact> {
    let me = thread(first_pid, "sqlite3");
    let end = works + waits;
    let name = "sqlite3 shop.db".into();
    let target = Target {
        kind: TargetKind::Command,
        name,
        pid: first_pid,
        cgroups: Vec::new(),
        words: Vec::new(),
    };
    let host = Host {
        hostname: "web".into(),
        kernel: "6.18".into(),
        cpus: 2,
        kernel_events: true,
        ..Host::default()
    };
    let mut facts = vec![
        fact(0.0, Body::Host(host)),
        fact(0.0, Body::Target(target)),
        fact(0.0, Body::WindowBegin(WindowBegin { unix_ns: 1 })),
        fact(works, Body::Ran(Ran { thread: me.clone(), begin_ns: 0, end_ns: at(works), cpu: 0 })),
    ];
    if waits > 0.0 {
        facts.extend(lock_wait(&me, works, end));
    }
    facts.push(fact(end, Body::Exit(Exit { thread: me, last: true, code: Some(0) })));
    let ended = CommandEnd { pid: first_pid, exit_status: 0, signal: 0 };
    facts.push(fact(end, Body::CommandEnd(ended)));
    facts.push(fact(end, Body::WindowEnd(WindowEnd::default())));
    facts
}

/// A thread waits for a lock on /tmp/shop.db, whose holder, the process of the next number, sleeps meanwhile.
fn lock_wait(me: &ThreadRef, from: f64, to: f64) -> [Fact; 3] {
    let holder = thread(me.pid + 1, "python3");
    let (dev, ino) = (DeviceNumber { major: 8, minor: 1 }, u64::from(me.pid));
    let path = Some("/tmp/shop.db".to_string());
    let file = FileRef { dev, ino, path: path.clone(), ..FileRef::default() };
    let lock = FileLock { path, ..file_lock(1, (dev, ino), std::slice::from_ref(&holder)) };
    let wait = |thread: &ThreadRef, syscall: &str, object, context, by| {
        let (begin_ns, end_ns) = (at(from), at(to));
        let syscall = syscall.into();
        let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
        let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
        let thread = thread.clone();
        Body::Wait(Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() })
    };
    let file = Some(ObjectRef::File(file));
    let slept = WakeContext::HardInterrupt;
    [
        fact(from, Body::FileLock(lock)),
        fact(to, wait(me, "flock", file, WakeContext::Task, holder.clone())),
        fact(to, wait(&holder, "clock_nanosleep", None, slept, ThreadRef::default())),
    ]
}

fn look(facts: Vec<Fact>) -> Look {
    let mut model = crate::model::Model::default();
    facts.into_iter().for_each(|fact| model.push(fact));
    crate::look_at_model(&mut model)
}

fn side(all: Vec<Vec<Fact>>) -> Vec<Named> {
    let named = |(at, facts)| Named { recording: format!("{at}.hup"), look: look(facts) };
    all.into_iter().enumerate().map(named).collect()
}

fn compared(before: Vec<Vec<Fact>>, after: Vec<Vec<Fact>>) -> Comparison {
    let mut after = side(after);
    after.iter_mut().for_each(|it| it.recording = format!("after-{}", it.recording));
    compare(&side(before), &after).expect("they can be compared")
}

#[test]
fn what_was_not_there_before_is_the_first_line() {
    let reported = compared(vec![run(10, 2.4, 0.0)], vec![run(500, 2.4, 6.7)]);
    assert_eq!(
        reported.title,
        "sqlite3 is slower by 6.70 s of 9.10 s: it waits for the lock on /tmp/shop.db, held by python3, which was \
         not there before."
    );
    assert_eq!(
        (reported.verdict, reported.is_worse, reported.unit),
        (Outcome::Worse, true, Unit::Seconds)
    );
    let first = &reported.ends[reported.first.expect("one")];
    assert_eq!((first.changed.change, first.end), (Change::New, EndKind::Lock));
    assert_eq!(first.code_after.as_deref(), Some("lock.file"));
    assert_eq!(reported.ends[1].changed.change, Change::Same);
    assert_eq!(reported.findings[0].change, Change::New);
}

#[test]
fn the_other_way_round_it_is_gone() {
    let reported = compared(vec![run(500, 2.4, 6.7)], vec![run(10, 2.4, 0.0)]);
    assert_eq!(
        reported.title,
        "sqlite3 is faster by 6.70 s of 9.10 s: it no longer waits for the lock on /tmp/shop.db, held by python3."
    );
    assert_eq!((reported.verdict, reported.is_worse), (Outcome::Better, false));
    assert_eq!(reported.findings[0].change, Change::Gone);
}

#[test]
fn other_process_ids_inodes_and_a_little_noise_change_nothing() {
    let reported = compared(vec![run(10, 2.4, 1.0)], vec![run(800, 2.45, 1.02)]);
    assert_eq!((reported.verdict, reported.first, reported.is_worse), (Outcome::Same, None, false));
    assert_eq!(
        reported.title,
        "sqlite3 takes as long as before, 3.47 s, and nothing in it changed."
    );
    assert_eq!(reported.ends.len(), 2);
}

#[test]
fn the_same_time_spent_otherwise_is_said() {
    let reported = compared(vec![run(10, 3.0, 0.0)], vec![run(10, 1.0, 2.0)]);
    assert_eq!(reported.verdict, Outcome::Shifted);
    assert!(reported.title.starts_with(
        "sqlite3 takes as long as before, 3 s, and another way: it waits for the lock"
    ));
    assert!(reported.is_worse);
}

#[test]
fn several_a_side_are_changed_only_where_their_ranges_part() {
    let runs = |waits: &[f64]| waits.iter().map(|waits| run(10, 1.0, *waits)).collect::<Vec<_>>();
    let noisy = compared(runs(&[1.0, 4.0, 2.0]), runs(&[3.5, 5.0, 6.0]));
    assert_eq!((noisy.verdict, noisy.chance), (Outcome::Same, Some(0.1)));
    let clear = compared(runs(&[1.0, 2.0, 1.5]), runs(&[3.5, 5.0, 6.0]));
    assert_eq!(clear.verdict, Outcome::Worse);
    let lock = &clear.ends[0];
    assert_eq!(lock.changed.change, Change::More);
    let figure = lock.changed.after.expect("seen");
    assert!((figure.min - 3.5).abs() < 1e-6 && (figure.max - 6.0).abs() < 1e-6);
}

#[test]
fn another_kind_or_program_is_refused_with_what_to_do() {
    let mut host = run(10, 1.0, 0.0);
    host[1] = fact(
        0.0,
        Body::Target(Target {
            kind: TargetKind::Host,
            name: "web".into(),
            pid: 0,
            cgroups: Vec::new(),
            words: Vec::new(),
        }),
    );
    let mut other = run(10, 1.0, 0.0);
    for fact in &mut other {
        match &mut fact.body {
            Body::Target(target) => target.name = "psql".into(),
            Body::Ran(ran) => ran.thread.comm = "psql".into(),
            Body::Exit(exit) => exit.thread.comm = "psql".into(),
            _ => {}
        }
    }
    for (wrong, why) in [(host, "their seconds do not mean the same"), (other, "another program")] {
        let refused = compare(&side(vec![run(10, 1.0, 0.0)]), &side(vec![wrong]));
        let refusal = refused.expect_err("refused");
        assert!(refusal.why.contains(why) && !refusal.advice.is_empty(), "{refusal:?}");
    }
}

#[test]
fn a_recording_that_was_cut_off_is_refused_and_not_compared_with_all_that_ran() {
    let mut cut = run(10, 2.4, 0.0);
    cut.retain(|fact| !matches!(fact.body, Body::CommandEnd(_) | Body::Exit(_)));
    for fact in &mut cut {
        // Before it is started a command has no process.
        if let Body::Target(target) = &mut fact.body {
            target.pid = 0;
        }
    }
    let whole = || side(vec![run(10, 2.4, 0.0)]);
    for (before, after) in [(whole(), side(vec![cut.clone()])), (side(vec![cut]), whole())] {
        let refusal = compare(&before, &after).expect_err("refused");
        assert!(refusal.why.contains("cut off before its command ended"), "{refusal:?}");
    }
}

#[test]
fn the_same_recording_on_both_sides_is_said() {
    let names = |a: &str, b: &str| {
        let one =
            |name: &str| vec![Named { recording: name.into(), look: look(run(10, 2.4, 0.0)) }];
        let reported = compare(&one(a), &one(b)).expect("they can be compared");
        assert_eq!(reported.verdict, Outcome::Same);
        reported.caveats.iter().any(|it| it.code == "same_recording")
    };
    assert!(names("a.hup", "a.hup") && !names("a.hup", "b.hup"));
}

#[test]
fn another_machine_and_kernel_are_said_and_compared() {
    let mut there = run(10, 1.0, 3.0);
    if let Body::Host(host) = &mut there[0].body {
        host.hostname = "db\u{1b}[31m".into();
        host.kernel = "5.10".into();
    }
    let reported = compared(vec![run(10, 1.0, 0.0)], vec![there]);
    let codes: Vec<&str> = reported.caveats.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["other_machine", "other_kernel"]);
    assert_eq!(reported.verdict, Outcome::Worse);
}

/// The lock is not seen before, but so much of that run was not followed to its end.
#[test]
fn what_may_have_been_hidden_before_is_not_called_new() {
    let unseen = |open: f64| {
        let mut facts = run(10, 1.0, 0.0);
        let end = 1.0 + open;
        for fact in &mut facts {
            if !matches!(fact.body, Body::Ran(_)) && fact.at_ns > 0 {
                fact.at_ns = at(end);
            }
        }
        facts
    };
    let hidden = compared(vec![unseen(3.0)], vec![run(10, 1.0, 3.0)]);
    let lock = hidden.ends.iter().find(|it| it.end == EndKind::Lock);
    let lock = lock.expect("the lock");
    assert_eq!((lock.changed.change, lock.changed.before), (Change::Unknown, None));
    assert!(
        lock.why_unknown
            .as_deref()
            .is_some_and(|why| why.contains("not followed to its end before"))
    );
    let more = compared(vec![unseen(3.0)], vec![run(10, 1.0, 9.0)]);
    let lock = &more.ends[more.first.expect("one")];
    assert!(lock.changed.difference_is_least);
    assert!(more.title.contains("which was not seen before"), "{}", more.title);
}

/// A process that waits for a lock for part of a look of so many seconds.
fn process(seconds: f64, waits: f64, lost: u64) -> Vec<Fact> {
    let mut facts = run(10, seconds - waits, waits);
    facts.retain(|fact| !matches!(fact.body, Body::CommandEnd(_) | Body::Exit(_)));
    facts[1] = fact(
        0.0,
        Body::Target(Target {
            kind: TargetKind::Process,
            name: "sqlite3".into(),
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        }),
    );
    let time = ThreadTime {
        thread: thread(10, "sqlite3"),
        until_ns: at(seconds),
        run_ns: at(seconds - waits),
        sleep_ns: at(waits),
        ..ThreadTime::default()
    };
    facts.push(fact(seconds, Body::ThreadTime(time)));
    if lost > 0 {
        facts.push(fact(seconds, Body::Lost(Lost { source: "ring".into(), count: lost })));
    }
    facts
}

#[test]
fn looks_of_another_length_are_compared_by_the_second() {
    let reported = compared(vec![process(5.0, 1.0, 0)], vec![process(10.0, 2.0, 0)]);
    assert_eq!((reported.verdict, reported.unit), (Outcome::Same, Unit::SecondsPerSecond));
    assert!(reported.caveats.iter().any(|it| it.code == "other_window"));
    let reported = compared(vec![process(5.0, 1.0, 0)], vec![process(10.0, 8.0, 0)]);
    assert_eq!(reported.verdict, Outcome::Worse);
    assert!((reported.total.difference.expect("both") - 0.6).abs() < 1e-6);
    assert!(
        reported
            .title
            .starts_with("sqlite3 loses 600 ms a second more than before (200 ms a second)"),
        "{}",
        reported.title
    );
}

#[test]
fn what_lost_events_may_hide_is_not_zero() {
    let reported = compared(vec![process(5.0, 0.0, 7)], vec![process(5.0, 4.0, 0)]);
    let lock = reported.ends.iter().find(|it| it.end == EndKind::Lock);
    let lock = lock.expect("the lock");
    assert_eq!(lock.changed.change, Change::Unknown);
    assert_eq!(lock.why_unknown.as_deref(), Some("events were lost before"));
    let whole = compared(vec![process(5.0, 0.0, 0)], vec![process(5.0, 4.0, 0)]);
    let lock = whole.ends.iter().find(|it| it.end == EndKind::Lock);
    assert_eq!(lock.expect("the lock").changed.change, Change::New);
}

#[test]
fn own_work_of_a_process_is_no_loss() {
    let busy = process(5.0, 0.0, 0);
    let mut idle = process(5.0, 0.0, 0);
    for fact in &mut idle {
        if let Body::ThreadTime(time) = &mut fact.body {
            time.run_ns = at(1.0);
            time.sleep_ns = at(4.0);
        }
    }
    let reported = compared(vec![idle], vec![busy]);
    assert!(!reported.is_worse);
}

#[test]
fn the_json_reads_back_as_it_was() {
    let reported = compared(vec![run(10, 2.4, 0.0)], vec![run(500, 2.4, 6.7)]);
    let text = serde_json::to_string(&reported).expect("JSON");
    let read: Comparison = serde_json::from_str(&text).expect("a comparison");
    assert_eq!(read.ends.len(), reported.ends.len());
    assert_eq!(read.title, reported.title);
    assert!(text.contains(r#""unit":"s""#) && text.contains(r#""verdict":"worse""#), "{text}");
}
