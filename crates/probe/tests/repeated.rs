//! A look can be taken three times in one process, and leaves nothing of itself behind.
//!
//! A program of its own, because descriptors, threads and memory locks are counted for the whole process. As root the looks are those
//! by kernel events; otherwise those of an ordinary user.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdup_probe::Source;
use holdup_probe::plan::Target;
use holdup_probe::session::Session;
use holdup_reason::facts::{Body, Fact};
use std::time::{Duration, Instant};

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Locked memory, kB.
fn locked() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("VmLck:")).unwrap_or_default().to_string()
}

fn look(target: &Target, seconds: Option<f64>) -> Vec<Fact> {
    let mut session = Session::start(target, seconds).unwrap();
    let mut facts = Vec::new();
    while session.drain(&mut facts).unwrap() {}
    facts
}

/// CPU time that a look says it took.
fn cost(facts: &[Fact]) -> f64 {
    let is = |fact: &Fact| match &fact.body {
        Body::Cost(cost) => Some(cost.cpu_seconds),
        _ => None,
    };
    facts.iter().find_map(is).unwrap()
}

/// CPU time of this process: utime and stime of proc_pid_stat(5), in hundredths of a second.
fn own_cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(") ").next().unwrap().split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// Threads end a moment after whoever they read for.
fn until_alone() -> usize {
    let begin = Instant::now();
    while entries("/proc/self/task") > 2 && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    entries("/proc/self/task")
}

#[test]
fn three_looks_are_alike_and_leave_nothing_behind() {
    let command = ["sh", "-c", "sleep 0.1"].map(Into::into).to_vec();
    let mut seen = Vec::new();
    let mut cost_seconds = 0.0;
    for _ in 0..3 {
        let facts = look(&Target::Host, Some(0.7));
        let host = facts.iter().find_map(|fact| match &fact.body {
            Body::Host(host) => Some(host.kernel_events),
            _ => None,
        });
        let times = facts.iter().filter(|fact| matches!(fact.body, Body::ThreadTime(_))).count();
        assert!(times > 1, "{times} threads");
        let run = look(&Target::Command(command.clone()), None);
        let end = run
            .iter()
            .any(|fact| matches!(&fact.body, Body::CommandEnd(it) if it.exit_status == 0));
        assert!(end, "the command has ended");
        cost_seconds += cost(&facts) + cost(&run);
        let threads = until_alone();
        seen.push((host.unwrap(), entries("/proc/self/fd"), threads, locked()));
    }
    // Each look has its own cost, and none that of another.
    assert!(cost_seconds <= own_cpu_seconds() + 0.05, "{cost_seconds}");
    assert_eq!(seen[0].0, seen[2].0, "the kernel gives its events each time");
    assert_eq!(seen[1], seen[2], "nothing is left of a look");
}
