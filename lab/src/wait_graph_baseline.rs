//! The raw wait-graph knot: the process that most waiters point to by who woke them last.
//!
//! It is what a plain wait graph says: no owner, no originator behind an interrupt or a kernel worker, no
//! idle waits told from demand. It is drawn from the very facts that holdup recorded, so that the two differ in
//! reasoning alone; it must not call a rule of holdup. The idle task and holdup itself are left out, which
//! is kind to it. Its area is what most of the pointing waits were for, which is kinder still: a plain
//! graph names a process and nothing else. Rejected: a tracer beside holdup (it would load the host that
//! is being looked at, and see other waits); the recording's bytes (its format is holdup's own affair: `holdup
//! facts` prints what is in it).
//!
//! Edit together: `baseline.rs`, beside whose rules it is printed.

use anyhow::{Context, Result, ensure};
use holdup_reason::facts::{Body, Fact, ObjectRef, Place, Wait, WaitState};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// What the graph points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knot {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// How many threads point to it.
    pub waiters: usize,
    /// What most of these waits were for.
    pub area: Option<&'static str>,
}

impl Knot {
    /// For people.
    pub fn line(&self) -> String {
        let comm: String =
            self.comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        format!("{comm}[{}], {} waiters", self.pid, self.waiters)
    }
}

/// Has `holdup facts` print a recording, and draws the graph.
///
/// # Errors
/// A recording that holdup cannot read to its end, or that says nothing of the host: without its facts there is
/// no graph, which is not the same as a graph without a knot.
pub fn of_recording(holdup: &Path, recording: &Path) -> Result<Option<Knot>> {
    let shown = recording.display();
    let mut command = Command::new(holdup);
    command.arg("facts").arg(recording).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("run {} facts", holdup.display()))?;
    let out = child.stdout.take().context("holdup facts has no output")?;
    let facts = wanted(BufReader::new(out));
    let status = child.wait()?;
    let facts = facts.with_context(|| format!("facts of {shown}"))?;
    ensure!(status.success(), "holdup facts {shown}: {status}");
    ensure!(facts.iter().any(|fact| matches!(fact.body, Body::Host(_))), "{shown} has no host");
    Ok(knot(facts.into_iter()))
}

/// The facts that the graph is drawn from. Most facts are no waits: they need not be parsed.
fn wanted(lines: impl BufRead) -> Result<Vec<Fact>> {
    let mut facts = Vec::new();
    for line in lines.lines() {
        let line = line?;
        if line.contains("\"f\":\"wait\"") || line.contains("\"f\":\"host\"") {
            facts.push(serde_json::from_str(&line).with_context(|| line.clone())?);
        }
    }
    Ok(facts)
}

/// The knot of a stream of facts.
pub fn knot(facts: impl Iterator<Item = Fact>) -> Option<Knot> {
    let mut own = 0;
    // Waker and wait of the last wait of each thread.
    let mut last: BTreeMap<(u32, u64), Wait> = BTreeMap::new();
    for fact in facts {
        match fact.body {
            Body::Host(host) => own = host.own_pid,
            Body::Wait(wait) if wait.wake.is_some() => {
                let of = (wait.thread.tid, wait.thread.start_ns);
                if last.get(&of).is_none_or(|before| before.end_ns <= wait.end_ns) {
                    last.insert(of, wait);
                }
            }
            _ => {}
        }
    }
    let mut by_waker: BTreeMap<u32, (String, Vec<&Wait>)> = BTreeMap::new();
    for wait in last.values() {
        let Some(wake) = &wait.wake else { continue };
        let by = &wake.by;
        if by.pid != 0 && by.tid != wait.thread.tid && by.pid != own && wait.thread.pid != own {
            let entry = by_waker.entry(by.pid).or_insert_with(|| (by.comm.clone(), Vec::new()));
            entry.1.push(wait);
        }
    }
    let waited = |waits: &[&Wait]| -> u64 {
        waits.iter().map(|wait| wait.end_ns.saturating_sub(wait.begin_ns)).sum()
    };
    let most = by_waker.iter().max_by_key(|(_, (_, waits))| (waits.len(), waited(waits)));
    most.map(|(pid, (comm, waits))| Knot {
        pid: *pid,
        comm: comm.clone(),
        waiters: waits.len(),
        area: area(waits),
    })
}

/// The area of most of the time that was waited.
fn area(waits: &[&Wait]) -> Option<&'static str> {
    let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
    for wait in waits {
        if let Some(area) = area_of(&wait.place) {
            *sums.entry(area).or_default() += wait.end_ns.saturating_sub(wait.begin_ns);
        }
    }
    sums.into_iter().max_by_key(|(_, sum)| *sum).map(|(area, _)| area)
}

/// What somebody who knows the kernel reads from where a thread waits.
fn area_of(place: &Place) -> Option<&'static str> {
    if matches!(place.state, WaitState::Stopped | WaitState::Traced | WaitState::Frozen) {
        return Some("process");
    }
    if place.disk.is_some() || place.iowait {
        return Some("disk");
    }
    match place.syscall.as_str() {
        "futex" | "flock" | "fcntl" => return Some("lock"),
        "wait4" | "waitid" | "vfork" | "clone" | "clone3" => return Some("process"),
        _ => {}
    }
    match place.object.as_ref()? {
        ObjectRef::Inet(_) => Some("net"),
        ObjectRef::Pipe { .. } | ObjectRef::Unix { .. } | ObjectRef::Tty { .. } => Some("process"),
        ObjectRef::FuseServer { .. } => Some("fs"),
        ObjectRef::File(file) if file.frozen || file.fs_type == "fuse" => Some("fs"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Host, ThreadRef, Wake};

    fn thread(tid: u32) -> ThreadRef {
        ThreadRef { tid, pid: tid, comm: format!("t{tid}"), ..ThreadRef::default() }
    }

    fn wait(tid: u32, by: u32, end_ns: u64, syscall: &str) -> Fact {
        let wake = Wake { by: thread(by), ..Wake::default() };
        let place = Place { syscall: syscall.into(), ..Place::default() };
        let wait = Wait { thread: thread(tid), end_ns, place, wake: Some(wake), ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    #[test]
    fn most_waiters_make_the_knot_by_their_last_waker() {
        let facts = [
            wait(1, 9, 10, "futex"),
            wait(2, 9, 10, "futex"),
            wait(3, 9, 10, "read"),
            // The last waker of 3 is another, whatever came in between or arrives late.
            wait(3, 8, 30, "read"),
            wait(3, 9, 20, "read"),
            wait(4, 8, 10, "read"),
            wait(5, 9, 10, "futex"),
        ];
        let knot = knot(facts.into_iter()).unwrap();
        assert_eq!((knot.pid, knot.waiters, knot.area), (9, 3, Some("lock")));
    }

    #[test]
    fn idle_task_own_threads_and_self_are_no_knot() {
        let host = Host { own_pid: 7, ..Host::default() };
        let facts = [
            Fact { at_ns: 0, body: Body::Host(host) },
            wait(1, 0, 10, "read"),
            wait(2, 7, 10, "read"),
            wait(7, 2, 10, "read"),
            wait(3, 3, 10, "read"),
        ];
        assert_eq!(knot(facts.into_iter()), None);
    }

    #[test]
    fn printed_facts_make_a_graph_and_a_damaged_wait_is_an_error() {
        let host = Fact { at_ns: 0, body: Body::Host(Host { own_pid: 7, ..Host::default() }) };
        let waits = [host, wait(1, 9, 10, "futex"), wait(2, 9, 10, "futex")];
        let lines = waits.iter().map(|fact| serde_json::to_string(fact).unwrap());
        let mut text = lines.collect::<Vec<_>>().join("\n");
        let read = wanted(text.as_bytes()).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(knot(read.into_iter()).unwrap().pid, 9);
        text.push_str("\n{\"t\":0,\"f\":\"wait\",\"v\":");
        assert!(wanted(text.as_bytes()).is_err());
    }

    #[test]
    fn a_recording_that_cannot_be_read_is_an_error_and_not_a_graph_without_a_knot() {
        let nothing = Path::new("/nowhere/at-all.rec");
        assert!(of_recording(Path::new("false"), nothing).is_err());
        // It ends well and prints nothing.
        assert!(of_recording(Path::new("true"), nothing).is_err());
    }
}
