//! Keeps the thread that begins a look off CPUs that interrupts take.
//!
//! A flood of packets is handled on the CPU that its interface interrupts, before any thread there, whatever its priority: among
//! packets as quickly as one CPU sends them the begin took 2 s there, and 0.4 s on the other CPU. The scheduler does not
//! move a thread for that, as no other thread is ready. So two readings of /proc/stat, a moment apart, decide, and the thread has
//! its own CPUs back when the look has begun.
//!
//! Must not: move anybody else, stay where it was moved to, or delay a begin. Rejected: SCHED_RR (soft interrupts
//! go before it, begin 1.1 s). Edit together: session/opening.rs (who calls it).

use crate::text;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::Path;
use std::time::Duration;

/// Between the two readings: ten ticks of USER_HZ, which is 100 on x86 and arm64.
pub const BETWEEN: Duration = Duration::from_millis(100);
/// A CPU with at least so many of them in interrupts is left for one with at most half as many: who sends is interrupted too.
const TICKS_MIN: u64 = 3;

/// Ticks of USER_HZ that each CPU has handled interrupts for since the host began, by its number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InterruptTicks(Vec<(u32, u64)>);

impl InterruptTicks {
    /// Reads them; none if they cannot be read.
    pub fn read() -> Self {
        Self::of(&text::read(Path::new("/proc/stat")).unwrap_or_default())
    }

    /// Columns of a `cpuN` line: user, nice, system, idle, iowait, irq, softirq (proc_stat(5)).
    fn of(stat: &[u8]) -> Self {
        let of_line = |line: &[u8]| {
            let mut words = text::words(line);
            let cpu = text::number(words.next()?.strip_prefix(b"cpu")?)?;
            let mut ticks = words.skip(5).take(2).map(text::number);
            Some((u32::try_from(cpu).ok()?, ticks.next()?? + ticks.next()??))
        };
        Self(text::lines(stat).filter_map(of_line).collect())
    }

    /// The CPUs that were much in interrupts since an earlier reading.
    fn taken_since(&self, earlier: &Self) -> Vec<u32> {
        let before =
            |cpu: u32| earlier.0.iter().find(|(at, _)| *at == cpu).map(|(_, ticks)| *ticks);
        let since = |(cpu, ticks): &(u32, u64)| Some((*cpu, ticks.saturating_sub(before(*cpu)?)));
        let all: Vec<(u32, u64)> = self.0.iter().filter_map(since).collect();
        let least = all.iter().map(|(_, ticks)| *ticks).min().unwrap_or(0);
        let is_taken = |ticks: u64| ticks >= TICKS_MIN.max(2 * least);
        all.into_iter().filter(|(_, ticks)| is_taken(*ticks)).map(|(cpu, _)| cpu).collect()
    }
}

/// A thread that was moved; it has its CPUs back when this is dropped.
pub struct Moved {
    tid: u32,
    before: CpuSet,
}

impl Moved {
    /// Moves a thread of the own process off CPUs that interrupts took since a reading, if it may use others.
    pub fn off_taken(tid: u32, earlier: &InterruptTicks) -> Option<Self> {
        let taken = InterruptTicks::read().taken_since(earlier);
        if taken.is_empty() {
            return None;
        }
        let before = cpus_of(tid)?;
        let others = without(&before, &taken)?;
        set_cpus(tid, &others).then_some(Self { tid, before })
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        set_cpus(self.tid, &self.before);
    }
}

/// What is left of some CPUs; none if nothing is left, or nothing was taken of them.
fn without(cpus: &CpuSet, taken: &[u32]) -> Option<CpuSet> {
    let mut left = *cpus;
    for cpu in taken.iter().filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU) {
        left.unset(*cpu as usize);
    }
    (left.count() > 0 && left.count() < cpus.count()).then_some(left)
}

fn cpus_of(tid: u32) -> Option<CpuSet> {
    sched_getaffinity(Some(Pid::from_raw(tid.cast_signed())?)).ok()
}

fn set_cpus(tid: u32, cpus: &CpuSet) -> bool {
    Pid::from_raw(tid.cast_signed()).is_some_and(|tid| sched_setaffinity(Some(tid), cpus).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::priority::own_tid;

    const BEFORE: &[u8] =
        b"cpu  9 9 9 9 9 9 9 0\ncpu0 5 0 5 5 0 1 7 0\ncpu1 5 0 5 5 0 0 9 0\nintr 7\n";
    const AFTER: &[u8] =
        b"cpu  9 9 9 9 9 9 9 0\ncpu0 6 0 5 9 0 1 8 0\ncpu1 5 0 5 5 0 1 14 0\nintr 9\n";

    #[test]
    fn a_cpu_that_handles_packets_is_taken_and_one_that_computes_is_not() {
        let (before, after) = (InterruptTicks::of(BEFORE), InterruptTicks::of(AFTER));
        assert_eq!(before, InterruptTicks(vec![(0, 8), (1, 9)]));
        assert_eq!(after.taken_since(&before), [1]);
        let (all, one) = (vec![(0, 3), (1, 5)], vec![(0, 3), (1, 6)]);
        let none = InterruptTicks(vec![(0, 0), (1, 0)]);
        assert!(InterruptTicks(all).taken_since(&none).is_empty(), "none has much less");
        assert_eq!(InterruptTicks(one).taken_since(&none), [1]);
        assert!(
            after.taken_since(&InterruptTicks::default()).is_empty(),
            "since when is not known"
        );
        assert_eq!(
            InterruptTicks::of(b"cpu0 1 2\ncpux 1 2 3 4 5 6 7\n"),
            InterruptTicks::default()
        );
    }

    #[test]
    fn who_may_use_no_other_cpu_stays() {
        let own = cpus_of(own_tid()).expect("the own CPUs can be read");
        let all: Vec<u32> = (0..CpuSet::MAX_CPU as u32).collect();
        assert!(without(&own, &all).is_none());
        assert!(without(&own, &[]).is_none());
    }

    #[test]
    fn a_thread_has_its_cpus_back() {
        let before = cpus_of(own_tid()).expect("the own CPUs can be read");
        let count = CpuSet::count;
        let first = (0..CpuSet::MAX_CPU as u32)
            .find(|cpu| before.is_set(*cpu as usize))
            .expect("it runs somewhere");
        if let Some(others) = without(&before, &[first]) {
            assert!(set_cpus(own_tid(), &others));
            let moved = Moved { tid: own_tid(), before };
            assert_eq!(cpus_of(own_tid()).map(|now| count(&now)), Some(count(&before) - 1));
            drop(moved);
        }
        assert_eq!(cpus_of(own_tid()).map(|now| count(&now)), Some(count(&before)));
    }
}
