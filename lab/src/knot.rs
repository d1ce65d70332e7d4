//! The raw wait-graph knot: the process that most waiters point to by who woke them last.
//!
//! It is what a plain wait graph says: no owner, no originator behind an interrupt or a kernel worker, no
//! idle waits told from demand. It is drawn from the very facts that holdup recorded, so that the two differ in
//! reasoning alone; it must not call a rule of holdup. The idle task and holdup itself are left out, which
//! is kind to it. Its area is what most of the pointing waits were for, which is kinder still: a plain
//! graph names a process and nothing else. Rejected: a tracer beside holdup (it would load the host that
//! is being looked at, and see other waits).
//!
//! Edit together: `baseline.rs`, beside whose rules it is printed.

use anyhow::{Context, Result};
use holdup_reason::facts::{Body, Fact, ObjectRef, Place, Wait, WaitState};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

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

/// Reads a recording and draws the graph.
pub fn of_recording(path: &Path) -> Result<Option<Knot>> {
    let file = File::open(path).with_context(|| format!("read {}", path.display()))?;
    let lines = BufReader::new(zstd::Decoder::new(file)?).lines();
    // The first line is the header, and no fact.
    let facts = lines.skip(1).map_while(|line| line.ok()).filter_map(|line| {
        // Most facts are no waits: they need not be parsed.
        let wanted = line.contains("\"f\":\"wait\"") || line.contains("\"f\":\"host\"");
        wanted.then(|| serde_json::from_str::<Fact>(&line).ok())?
    });
    Ok(knot(facts))
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
    fn a_recording_of_the_tree_is_read() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recordings");
        let mut read = 0;
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.path().extension().is_some_and(|end| end == "rec") {
                read += usize::from(of_recording(&entry.path()).unwrap().is_some());
            }
        }
        assert!(read > 0);
    }
}
