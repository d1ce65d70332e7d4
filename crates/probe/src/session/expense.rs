//! What looking costs: own CPU time and memory, and the time that the kernel programs take.
//!
//! The kernel times programs only while it is asked to (BPF_ENABLE_STATS), which makes each run of every
//! program on the host some 30 ns slower. So it is asked for a tick now and then, and what was measured is
//! taken for the whole window: an estimate, honest to about a tenth under an even load. Must not: ask where
//! a look is so short that no whole tick is left over.
//! Rejected: always on (it costs as much as the programs do); our own clock in each program (the same).

use crate::kernel::Programs;
use crate::kernel::run_time::statistics;
use crate::system::clock::now;
use holdup_reason::facts::{Cost, Ns};
use std::os::fd::OwnedFd;

/// Measures the kernel programs in slices of the window.
#[derive(Default)]
pub(super) struct Expense {
    slice: Option<Slice>,
    measured_ns: Ns,
    run_time_ns: Ns,
    next_tick: u64,
    /// Own CPU time, and records, of what went before this window: other looks of the process, other windows of this look.
    before_seconds: f64,
    before_events: u64,
}

struct Slice {
    /// Statistics are on as long as it is open.
    _statistics: OwnedFd,
    begin_ns: Ns,
    run_time_ns: Ns,
}

/// What the kernel has counted of this process.
fn usage() -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to room for one rusage; zero is a value of it.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn cpu_seconds(usage: &libc::rusage) -> f64 {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

impl Expense {
    /// Of a look that begins now, with all that opening it takes.
    pub(super) fn begin() -> Self {
        Self { before_seconds: cpu_seconds(&usage()), ..Self::default() }
    }

    /// Of a window that follows another, after which so many records were read: one slice of the kernel programs is enough for its
    /// estimate.
    pub(super) fn of_next_window(before_events: u64) -> Self {
        const SLICE_AT_TICK: u64 = 32;
        Self { before_events, next_tick: SLICE_AT_TICK, ..Self::begin() }
    }

    /// Whether a slice is measured: one tick, quiet or not, or quiet ones would count for more than they are.
    pub(super) fn is_measuring(&self) -> bool {
        self.slice.is_some()
    }

    /// At the end of a tick: ends a slice, or begins one. The distance doubles, so a long look asks seldom.
    pub(super) fn tick(&mut self, tick: u64, programs: &Programs) {
        if let Some(slice) = self.slice.take() {
            self.measured_ns += now().saturating_sub(slice.begin_ns);
            self.run_time_ns += programs.run_time_ns().saturating_sub(slice.run_time_ns);
        } else if tick >= self.next_tick.max(2) {
            self.next_tick = (tick + 1).next_power_of_two();
            self.slice = statistics().map(|statistics| Slice {
                _statistics: statistics,
                run_time_ns: programs.run_time_ns(),
                begin_ns: now(),
            });
        }
    }

    /// What the look has cost, its window having been so long, and so many records read since the programs were loaded.
    pub(super) fn cost(&self, events: u64, window_ns: Ns) -> Cost {
        let usage = usage();
        let share = self.run_time_ns as f64 / self.measured_ns as f64;
        Cost {
            cpu_seconds: cpu_seconds(&usage) - self.before_seconds,
            bpf_seconds: (self.measured_ns > 0).then_some(share * window_ns as f64 / 1e9),
            rss_bytes: usage.ru_maxrss as u64 * 1024,
            events: events.saturating_sub(self.before_events),
            ..Cost::default()
        }
    }
}
