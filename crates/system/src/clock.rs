//! The clocks: CLOCK_MONOTONIC, by which all facts are stamped, and how start times in /proc are turned into it.
//!
//! Start times have the resolution of /proc (10 ms, rounded down); the kernel's own start time of the same thread lies up to one
//! tick later. Compare them with that tolerance.

use super::stat::Stat;
use super::{Roots, units};
use holdup_reason::facts::{Ns, ThreadRef};
pub use rustix::time::ClockId;

/// CLOCK_MONOTONIC now.
pub fn now() -> Ns {
    clock_ns(ClockId::Monotonic)
}

/// Turns start times of /proc, ticks since boot, into CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
    pub boot_offset_ns: u64,
    /// Length of a tick of /proc.
    pub tick_ns: u64,
}

impl Clock {
    /// The running machine's.
    pub fn now() -> Self {
        let boot = clock_ns(ClockId::Boottime);
        let boot_offset_ns = boot.saturating_sub(now());
        // Two readings are never at the same instant; without a suspend the offset is nothing.
        let boot_offset_ns = if boot_offset_ns < 1_000_000 { 0 } else { boot_offset_ns };
        Self { boot_offset_ns, tick_ns: 1_000_000_000 / units::ticks_per_second() }
    }

    /// When a thread began.
    pub fn start_ns(&self, stat: &Stat) -> Ns {
        stat.start_ticks.saturating_mul(self.tick_ns).saturating_sub(self.boot_offset_ns)
    }

    /// The thread's name in facts.
    pub fn thread_ref(&self, stat: &Stat, pid: u32) -> ThreadRef {
        let start_ns = self.start_ns(stat);
        ThreadRef { tid: stat.tid, pid, start_ns, comm: stat.comm.clone() }
    }
}

/// A clock's time, nanoseconds.
pub fn clock_ns(clock: ClockId) -> Ns {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Ticks of the scheduler in a second (CONFIG_HZ): the coarse clock moves once a tick, and its resolution is the tick's length.
/// None where that is finer than any tick.
pub fn scheduler_hz() -> Option<u32> {
    const FINEST_NS: i64 = 500_000;
    let length = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    let is_tick = length.tv_sec == 0 && length.tv_nsec >= FINEST_NS;
    is_tick.then(|| (1e9 / length.tv_nsec as f64).round() as u32)
}

/// Whoever has that number now.
pub fn process(roots: &Roots, pid: u32, clock: &Clock) -> Option<ThreadRef> {
    Some(clock.thread_ref(&Stat::read(&roots.process(pid, "stat"))?, pid))
}
