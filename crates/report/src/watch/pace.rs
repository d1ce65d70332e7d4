//! Holds what looking takes within its budget: beyond it, first short waits are only counted, then windows get longer, then one window in N
//! is looked at, and less is taken by itself.
//!
//! Price is CPU time of the process and of its kernel programs, over the last minute that was looked at in the same way. What loading
//! the programs takes is no price of a look that goes on: the first window after it is not counted, or who has rested once would rest
//! for ever. A fault of a moment is lost with a window that nobody looked at, hardly with waits of some milliseconds, and not at all in a
//! longer window, whose end is half of the price on a busy host: so those go first. Pure.
//!
//! Rejected: windows left out as the second step (to load the programs anew takes as much as a window does).

use std::collections::VecDeque;
use std::time::Duration;

/// Over so much time the price is taken.
const SPAN_SECONDS: f64 = 60.0;
/// At least one window in so many is looked at.
const EVERY_MAX: u32 = 30;
/// What of the waits is reported, nanoseconds, and how many times as long a window is: all that can be, then ever longer waits, then ever
/// longer windows. The longest wait is a fraction of the shortest moment that counts (reason's measure/moment.rs).
const LEVELS: [(u64, u32); 6] =
    [(0, 1), (4_000_000, 1), (16_000_000, 1), (64_000_000, 1), (64_000_000, 2), (64_000_000, 4)];
/// No window is made longer than this: what is said comes at its end.
const WINDOW_MAX: Duration = Duration::from_secs(60);
/// More is reported again once looking took less than this part of what it may.
const SPARE: f64 = 0.4;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Length and price of the last windows.
    windows: VecDeque<(f64, f64)>,
    /// Index of [`LEVELS`].
    level: usize,
    /// By which price it was last decided, in percent of a CPU.
    decided_percent: f64,
}

impl Pace {
    /// Takes a window that was looked at; one window in how many is to be looked at now.
    pub(super) fn take(&mut self, seconds: f64, spent_seconds: f64, budget_percent: f64) -> u32 {
        self.windows.push_back((seconds, spent_seconds));
        while self.windows.len() > 1 && self.seconds() - self.windows[0].0 >= SPAN_SECONDS {
            self.windows.pop_front();
        }
        let percent = self.percent();
        self.decided_percent = percent;
        if percent > budget_percent && self.level + 1 < LEVELS.len() {
            self.go_to(self.level + 1);
            return 1;
        }
        if self.seconds() < SPAN_SECONDS {
            return 1;
        }
        if percent < SPARE * budget_percent && self.level > 0 {
            self.go_to(self.level - 1);
            return 1;
        }
        let every = (percent / budget_percent).ceil();
        // What cannot be compared looks at each.
        if every > 1.0 { every.min(f64::from(EVERY_MAX)) as u32 } else { 1 }
    }

    fn go_to(&mut self, level: usize) {
        self.level = level;
        self.windows.clear();
    }

    /// Shorter waits are only counted.
    pub(super) fn least_wait_ns(&self) -> u64 {
        LEVELS[self.level].0
    }

    /// How long a window is that is to be so long.
    pub(super) fn length_of(&self, window: Duration) -> Duration {
        (window * LEVELS[self.level].1).min(window.max(WINDOW_MAX))
    }

    /// The price by which it was last decided, in percent of a CPU.
    pub(super) fn decided_percent(&self) -> f64 {
        self.decided_percent
    }

    /// Share of one CPU, in percent.
    pub(super) fn percent(&self) -> f64 {
        let spent: f64 = self.windows.iter().map(|(_, spent)| spent).sum();
        100.0 * spent / self.seconds().max(f64::MIN_POSITIVE)
    }

    fn seconds(&self) -> f64 {
        self.windows.iter().map(|(seconds, _)| seconds).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_budget_short_waits_go_first_then_windows_and_both_come_back() {
        let mut pace = Pace::default();
        for _ in 0..10 {
            assert_eq!(pace.take(10.0, 0.15, 2.0), 1);
        }
        assert_eq!(pace.least_wait_ns(), 0);
        let mut least = Vec::new();
        let every: Vec<u32> = (0..20)
            .map(|_| {
                let every = pace.take(10.0, 0.9, 2.0);
                least.push(pace.least_wait_ns());
                every
            })
            .collect();
        least.dedup();
        assert_eq!(least, [4_000_000, 16_000_000, 64_000_000]);
        assert_eq!(pace.length_of(Duration::from_secs(10)), Duration::from_secs(40));
        assert_eq!(every.last(), Some(&5), "{every:?}");
        assert!(every[..8].iter().all(|every| *every == 1), "{every:?}");
        let every: Vec<u32> = (0..40).map(|_| pace.take(10.0, 0.05, 2.0)).collect();
        assert_eq!((every.last(), pace.least_wait_ns()), (Some(&1), 0), "{every:?}");
        assert_eq!(pace.length_of(Duration::from_secs(10)), Duration::from_secs(10));
    }

    #[test]
    fn longer_windows_come_before_windows_that_are_left_out() {
        let mut pace = Pace::default();
        // Each window costs as much at its end as ten seconds of it do.
        let mut all = Vec::new();
        for _ in 0..30 {
            let length = pace.length_of(Duration::from_secs(10));
            let every = pace.take(length.as_secs_f64(), 0.12 + 0.012 * length.as_secs_f64(), 2.0);
            all.push((length.as_secs(), every));
        }
        assert_eq!(all.last(), Some(&(20, 1)), "{all:?}");
        assert!(all.iter().all(|(_, every)| *every == 1), "{all:?}");
        assert_eq!(pace.length_of(Duration::from_secs(50)), Duration::from_secs(60));
        assert_eq!(pace.length_of(Duration::from_secs(90)), Duration::from_secs(90));
    }

    #[test]
    fn what_just_fits_stays_as_it_is() {
        let mut pace = Pace::default();
        pace.take(10.0, 0.9, 2.0);
        let least = pace.least_wait_ns();
        assert!(least > 0);
        for _ in 0..30 {
            assert_eq!(pace.take(10.0, 0.15, 2.0), 1);
        }
        assert_eq!(pace.least_wait_ns(), least);
    }
}
