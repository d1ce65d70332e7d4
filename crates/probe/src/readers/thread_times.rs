//! Running, runnable and blocked time of threads without BPF: /proc/TID/schedstat, at the begin and
//! at the end of a look.
//!
//! The kernel counts time on a CPU and time ready for one; what is left of the window was blocked.
//! How much of that was uninterruptible nobody counts, so it is split by how often the thread was
//! seen in state D: call [`ThreadTimes::observe`] a few times in between. A thread that began in
//! the window is reported from its begin; one that ended in it is not reported.

use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use crate::readers::threads::no_proc;
use crate::system::clock::Clock;
use crate::system::clock::now;
use crate::system::stat::Stat;
use crate::system::{Roots, blind, text};
use holdup_reason::facts::{Body, Fact, Ns, ThreadTime};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The look's begin, thread by thread.
pub struct ThreadTimes {
    roots: Roots,
    clock: Clock,
    begin_ns: Ns,
    threads: HashMap<u32, Seen>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    start_ticks: u64,
    run_ns: u64,
    runnable_ns: u64,
    slices: u64,
    iowait_ticks: u64,
    /// Times it was seen in D, and in any other sleep.
    disk_sleeps: u64,
    sleeps: u64,
}

impl ThreadTimes {
    /// Reads all threads; `now_ns` is CLOCK_MONOTONIC. The facts say what cannot be read.
    pub fn begin(roots: &Roots, now_ns: Ns) -> (Self, Vec<Body>) {
        let mut facts = Vec::new();
        let clock = Clock::now();
        let mut times =
            Self { roots: roots.clone(), clock, begin_ns: now_ns, threads: HashMap::new() };
        match tasks(roots) {
            Ok(tasks) => {
                for (_, folder) in tasks {
                    let Some(stat) = Stat::read(&folder.join("stat")) else { continue };
                    let mut seen = read(&folder, &stat).unwrap_or_default();
                    seen.count(stat.state);
                    times.threads.insert(stat.tid, seen);
                }
            }
            Err(error) => facts.push(Body::Blind(no_proc(&error))),
        }
        if let Some(why) = no_schedstat(roots) {
            let therefore = "waiting for a CPU cannot be decided from sleeping";
            facts.push(Body::Blind(blind("proc.schedstat", &why, therefore)));
        }
        (times, facts)
    }

    /// Looks at every known thread's state once.
    pub fn observe(&mut self) {
        for (tid, seen) in &mut self.threads {
            let stat = Stat::read(&self.roots.process(*tid, "stat"));
            if let Some(stat) = stat.filter(|stat| stat.start_ticks == seen.start_ticks) {
                seen.count(stat.state);
            }
        }
    }

    /// Reads all threads again; one [`ThreadTime`] for each that is alive.
    pub fn end(&self, now_ns: Ns) -> Vec<Body> {
        let mut facts = Vec::new();
        for (pid, folder) in tasks(&self.roots).unwrap_or_default() {
            let Some(stat) = Stat::read(&folder.join("stat")) else { continue };
            let Some(last) = read(&folder, &stat) else { continue };
            let known = self.threads.get(&stat.tid).filter(|s| s.start_ticks == stat.start_ticks);
            facts.push(Body::ThreadTime(self.difference(pid, &stat, known.copied(), last, now_ns)));
        }
        facts
    }

    fn difference(
        &self,
        pid: u32,
        stat: &Stat,
        first: Option<Seen>,
        mut last: Seen,
        now_ns: Ns,
    ) -> ThreadTime {
        let since_ns = match first {
            Some(_) => self.begin_ns,
            None => self.clock.start_ns(stat).clamp(self.begin_ns, now_ns),
        };
        let first = first.unwrap_or_default();
        (last.disk_sleeps, last.sleeps) = (first.disk_sleeps, first.sleeps);
        last.count(stat.state);
        let wall_ns = now_ns.saturating_sub(since_ns);
        // Both are read a moment apart from the clock; the parts must not exceed the whole.
        let run_ns = last.run_ns.saturating_sub(first.run_ns).min(wall_ns);
        let runnable_ns = last.runnable_ns.saturating_sub(first.runnable_ns).min(wall_ns - run_ns);
        let blocked_ns = wall_ns - run_ns - runnable_ns;
        let seen = last.disk_sleeps + last.sleeps;
        let disk_sleep_ns = match seen {
            0 => 0,
            _ => (u128::from(blocked_ns) * u128::from(last.disk_sleeps) / u128::from(seen)) as u64,
        };
        let iowait_ticks = last.iowait_ticks.saturating_sub(first.iowait_ticks);
        ThreadTime {
            thread: self.clock.thread_ref(stat, pid),
            since_ns,
            until_ns: now_ns,
            run_ns,
            runnable_ns,
            sleep_ns: blocked_ns - disk_sleep_ns,
            disk_sleep_ns,
            iowait_ns: iowait_ticks.saturating_mul(self.clock.tick_ns).min(blocked_ns),
            switches: last.slices.saturating_sub(first.slices),
            kernel: stat.kernel,
            parent_pid: stat.parent_pid,
            ..ThreadTime::default()
        }
    }
}

/// The times of all threads, where there are no kernel programs that count them; with those, what they have counted.
pub struct Times(Option<ThreadTimes>);

impl Reader for Times {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        if look.programs.is_some() {
            return Ok(Self(None));
        }
        let (times, reported) = ThreadTimes::begin(&look.roots, look.window.begin_ns);
        reported.into_iter().for_each(|body| opening.put(body));
        Ok(Self(Some(times)))
    }

    fn tick(&mut self, _: &mut Look, _: &Tick, _: &mut Vec<Fact>) -> Result<(), SourceError> {
        if let Some(times) = &mut self.0 {
            times.observe();
        }
        Ok(())
    }

    fn end(&mut self, look: &mut Look) -> Result<(), SourceError> {
        if let Some(times) = &self.0 {
            let at_ns = now();
            let read = times.end(at_ns).into_iter();
            look.last.times.extend(read.map(|body| Fact { at_ns, body }));
        }
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        facts.append(&mut look.last.times);
        Ok(())
    }
}

impl Seen {
    fn count(&mut self, state: char) {
        match state {
            'D' => self.disk_sleeps += 1,
            'S' | 'I' | 'T' | 't' | 'P' => self.sleeps += 1,
            _ => {}
        }
    }
}

/// Process and folder of every thread.
fn tasks(roots: &Roots) -> std::io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for pid in text::ids(&roots.proc)? {
        let task = roots.process(pid, "task");
        let tids = text::ids(&task).unwrap_or_default();
        found.extend(tids.iter().map(|tid| (pid, task.join(tid.to_string()))));
    }
    Ok(found)
}

/// Run time, wait time and number of time slices; without schedstat, run time alone, by ticks.
fn read(folder: &Path, stat: &Stat) -> Option<Seen> {
    let seen =
        Seen { start_ticks: stat.start_ticks, iowait_ticks: stat.iowait_ticks, ..Seen::default() };
    let bytes = text::read(&folder.join("schedstat")).unwrap_or_default();
    let mut words = text::words(&bytes).map(text::number);
    match (words.next().flatten(), words.next().flatten(), words.next().flatten()) {
        (Some(run_ns), Some(runnable_ns), Some(slices)) if slices > 0 => {
            Some(Seen { run_ns, runnable_ns, slices, ..seen })
        }
        _ => {
            let tick_ns = 1_000_000_000 / crate::system::units::ticks_per_second();
            Some(Seen { run_ns: stat.cpu_ticks.saturating_mul(tick_ns), ..seen })
        }
    }
}

/// A kernel without schedstats has no file, or one that says `0 0 0` for a thread that runs.
fn no_schedstat(roots: &Roots) -> Option<std::io::Error> {
    let bytes = match text::read(&roots.proc.join("self/schedstat")) {
        Ok(bytes) => bytes,
        Err(error) => return Some(error),
    };
    let slices = text::words(&bytes).nth(2).and_then(text::number).unwrap_or(0);
    (slices == 0).then(|| std::io::Error::other("this kernel does not count run-queue time"))
}
