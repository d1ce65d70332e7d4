//! A look goes on: one window after another, without a gap, and each one's facts can be read alone.
//!
//! A program of its own, because descriptors and memory locks are counted for the whole process. As root by kernel events; otherwise
//! what an ordinary user's windows say.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use holdup_probe::Source;
use holdup_probe::plan::Target;
use holdup_probe::session::Session;
use holdup_reason::facts::{Body, Fact, Ns, ThreadTime};
use std::collections::HashSet;
use std::process::Command;
use std::sync::Arc;

const SECONDS: f64 = 0.6;

fn read(session: &mut Session) -> Vec<Fact> {
    let mut facts = Vec::new();
    while session.drain(&mut facts).unwrap() {}
    facts
}

/// The windows of a look at this host.
fn windows(count: usize) -> (Vec<Vec<Fact>>, Vec<usize>) {
    let (mut all, mut descriptors) = (Vec::new(), Vec::new());
    let mut session = Session::start_going_on(&Target::Host, SECONDS, Arc::default()).unwrap();
    loop {
        all.push(read(&mut session));
        descriptors.push(std::fs::read_dir("/proc/self/fd").unwrap().count());
        if all.len() == count {
            return (all, descriptors);
        }
        session = session.next(&Target::Host, SECONDS).unwrap();
    }
}

fn only<T>(facts: &[Fact], of: impl Fn(&Fact) -> Option<T>) -> T {
    let mut found = facts.iter().filter_map(of);
    let first = found.next().expect("there is one");
    assert!(found.next().is_none(), "and no other");
    first
}

fn bounds(facts: &[Fact]) -> (Ns, Ns) {
    let begin = only(facts, |it| matches!(it.body, Body::WindowBegin(_)).then_some(it.at_ns));
    let end = only(facts, |it| matches!(it.body, Body::WindowEnd(_)).then_some(it.at_ns));
    (begin, end)
}

fn time_of(facts: &[Fact], tid: u32) -> Option<&ThreadTime> {
    facts.iter().find_map(|fact| match &fact.body {
        Body::ThreadTime(time) if time.thread.tid == tid => Some(time),
        _ => None,
    })
}

fn parts(time: &ThreadTime) -> Ns {
    time.run_ns + time.runnable_ns + time.sleep_ns + time.disk_sleep_ns
}

/// Every kernel stack that a fact of the window names is in the window.
fn stacks_are_there(facts: &[Fact]) {
    let is = |fact: &Fact| match &fact.body {
        Body::Stack(stack) => Some(stack.id),
        _ => None,
    };
    let known: HashSet<u32> = facts.iter().filter_map(is).collect();
    for fact in facts {
        let named = match &fact.body {
            Body::Wait(wait) => wait.place.stack,
            Body::Blocked(blocked) => blocked.place.stack,
            Body::Samples(samples) => samples.stack,
            _ => 0,
        };
        assert!(named == 0 || known.contains(&named), "stack {named} of {:?}", fact.body);
    }
}

#[test]
fn windows_follow_without_a_gap_and_each_is_whole() {
    // Ends in the fourth window; the other computes all the time.
    let mut sleeper = Command::new("sleep").arg("2.1").spawn().unwrap();
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let (all, descriptors) = windows(5);
    busy.kill().unwrap();
    busy.wait().unwrap();
    sleeper.wait().unwrap();
    let has_events = only(&all[0], |fact| match &fact.body {
        Body::Host(host) => Some(host.kernel_events),
        _ => None,
    });
    for facts in &all {
        only(facts, |fact| matches!(fact.body, Body::Target(_)).then_some(()));
        stacks_are_there(facts);
        let (begin_ns, end_ns) = bounds(facts);
        let time = time_of(facts, busy.id()).expect("it is alive all the time");
        let wall_ns = time.until_ns - time.since_ns;
        assert!(parts(time) <= wall_ns + wall_ns / 50, "{time:?}");
        assert!(parts(time) + wall_ns / 50 >= wall_ns, "{time:?}");
        assert!(time.run_ns <= end_ns - begin_ns + 100_000_000, "{time:?}");
    }
    assert_eq!(descriptors[1], descriptors[4], "no window leaves a descriptor");
    for pair in all.windows(2) {
        assert_eq!(bounds(&pair[0]).1, bounds(&pair[1]).0, "the end is the begin");
    }
    if !has_events {
        return;
    }
    for pair in all.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|it| time_of(it, busy.id()).unwrap());
        assert_eq!(before.until_ns, after.since_ns);
    }
    let slept = sleeper.id();
    let waits = all.iter().enumerate().flat_map(|(number, facts)| {
        facts.iter().filter_map(move |fact| match &fact.body {
            Body::Wait(wait)
                if wait.thread.pid == slept && wait.end_ns - wait.begin_ns > 1_000_000_000 =>
            {
                Some((number, wait.end_ns - wait.begin_ns))
            }
            _ => None,
        })
    });
    let waits: Vec<_> = waits.collect();
    let [(number, lasted_ns)] = waits[..] else { panic!("{waits:?}") };
    assert!(number > 0 && lasted_ns > 1_900_000_000, "{waits:?}");
    for facts in &all[..number] {
        let stands = facts
            .iter()
            .any(|fact| matches!(&fact.body, Body::Blocked(it) if it.thread.pid == sleeper.id()));
        assert!(stands, "it stands in each window before the one in which it ends");
    }
}
