//! Since when a thread has not run: `se.exec_start` of /proc/TID/sched, by CLOCK_MONOTONIC.
//!
//! The value is by the clock of the run queue that the thread was on (rq_clock_task in kernel/sched/core.c), which leaves out what a
//! hypervisor and, on some kernels, interrupts take. So the clocks of two CPUs drift apart, by seconds on a rented machine
//! whose neighbours work. holdup's own value on each CPU, compared with the clock, gives the difference: a thread of its own
//! goes from one to the next. It is given a moment; of a CPU that it did not reach the difference is not known, and neither is since
//! when its threads wait. Must not: move any other thread. Rejected: one difference for all (a wait of 1 s was
//! reported as one of 3 s).

use crate::system::clock::now;
use crate::system::cpus::online_cpus;
use crate::system::own::priority;
use crate::system::{Roots, text};
use holdup_reason::facts::Ns;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// CPUs that are gone to.
const CPUS_MAX: usize = 256;
/// What the tour may take.
const TIMEOUT: Duration = Duration::from_millis(60);

/// The clocks of the run queues, as they were when it was made.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SchedulerClock {
    /// CLOCK_MONOTONIC minus a run queue's clock, by CPU.
    behind_ns: BTreeMap<u32, i64>,
}

impl SchedulerClock {
    /// Reads all that can be reached in time.
    pub(super) fn read(roots: &Roots) -> Self {
        let (found, all) = channel();
        let own = roots.proc.join("thread-self/sched");
        let tour = move || {
            for cpu in online_cpus().into_iter().take(CPUS_MAX) {
                let behind_ns = go_to(cpu).then(|| behind_ns(&own)).flatten();
                if behind_ns.is_some_and(|ns| found.send((cpu, ns)).is_err()) {
                    break;
                }
            }
        };
        let (until, mut behind_ns) = (Instant::now() + TIMEOUT, BTreeMap::new());
        // The tour's end of the channel is gone once it is over.
        if priority::spawn("holdup-clock", tour).is_ok() {
            let left = || until.saturating_duration_since(Instant::now());
            while let Ok((cpu, ns)) = all.recv_timeout(left()) {
                behind_ns.insert(cpu, ns);
            }
        }
        Self { behind_ns }
    }

    /// When a thread last ran, of its folder in /proc and the CPU that it was on.
    pub(super) fn ran_ns(&self, folder: &Path, cpu: u32) -> Option<Ns> {
        let behind_ns = *self.behind_ns.get(&cpu)?;
        last_ran(&folder.join("sched")).map(|ran_ns| ran_ns.saturating_add_signed(behind_ns))
    }
}

/// Has the calling thread go on on one CPU; false if it may not.
fn go_to(cpu: u32) -> bool {
    priority::follow_no_more();
    let mut only = CpuSet::new();
    let is_known = (cpu as usize) < CpuSet::MAX_CPU;
    if is_known {
        only.set(cpu as usize);
    }
    is_known && sched_setaffinity(None, &only).is_ok()
}

/// By the calling thread, which runs now.
fn behind_ns(own: &Path) -> Option<i64> {
    let ran_ns = last_ran(own)?;
    Some(now() as i64 - ran_ns as i64)
}

/// When a thread last ran, by the clock of its run queue.
fn last_ran(path: &Path) -> Option<Ns> {
    let bytes = text::read(path).ok()?;
    let line = text::lines(&bytes).find(|line| line.starts_with(b"se.exec_start"))?;
    let value = text::lossy(line.split(|byte| *byte == b':').nth(1)?.trim_ascii());
    let (ms, fraction) = value.split_once('.')?;
    ms.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::stat::Stat;

    #[test]
    fn who_sleeps_since_a_moment_ran_last_at_that_moment() {
        let roots = Roots::default();
        let (said, heard) = channel();
        let sleeper = std::thread::spawn(move || {
            said.send((priority::own_tid(), now())).expect("heard");
            std::thread::sleep(Duration::from_millis(600));
        });
        let (tid, since_ns) = heard.recv().expect("a thread");
        std::thread::sleep(Duration::from_millis(300));
        let folder = roots.process(std::process::id(), "task").join(tid.to_string());
        let stat = Stat::read(&folder.join("stat")).expect("its state");
        let clock = SchedulerClock::read(&roots);
        let ran_ns = clock.ran_ns(&folder, stat.cpu);
        sleeper.join().expect("it ends");
        // The kernel need not show it, and on a full machine the tour need not be over.
        let Some(ran_ns) = ran_ns else { return };
        assert!(ran_ns.abs_diff(since_ns) < 100_000_000, "{ran_ns} {since_ns}");
    }
}
