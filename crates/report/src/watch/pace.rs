//! Holds what looking takes within its budget: beyond it, first short waits are only counted, then windows get longer, then it rests now and
//! then, and less is taken by itself.
//!
//! Price is CPU time of the process and of its kernel programs, over the last minute that was looked at in the same way. What loading
//! the programs takes decides nothing: the first window after it is not counted for that, or who has rested once would rest for ever. A fault of a
//! moment is lost in a rest, hardly with waits of some milliseconds, and not at all in a longer window, whose end is a good part of the price: so
//! those go first. Whoever takes a little too much rests a little: one window in two, as it was, lost half of what happens for a tenth too
//! much, and to load the programs for each took more than a window does. Pure.
//!
//! Where nobody was held up for a while windows are longer too: nearly all that looking takes there is taken at a window's end, and what is over
//! at once is found in a longer one as well (reason's measure/moment.rs). The first finding, a note as well, brings the shorter ones back at
//! once, and one in which somebody waits for CPUs, disks or memory is cut (probe's session/stalls.rs): only other waits that begin on a host
//! that was quiet are said later, by the difference.
//!
//! Edit together: docs/watch.md.

use std::collections::VecDeque;
use std::time::Duration;

/// Over so much time the price is taken.
const SPAN_SECONDS: f64 = 60.0;
/// A stretch of looking with the rest after it: one that is seldom loaded, and that leaves nothing alone for longer.
const ROUND_SECONDS: f64 = 600.0;
/// However much looking takes, it is looked at least so often.
const REST_SECONDS_MAX: f64 = 3600.0;
/// What of the waits is reported, nanoseconds, and how many times as long a window is: all that can be, then ever longer waits, then
/// longer windows. The longest wait is a fraction of the shortest moment that counts (reason's measure/moment.rs).
const LEVELS: [(u64, u32); 5] =
    [(0, 1), (4_000_000, 1), (16_000_000, 1), (64_000_000, 1), (64_000_000, 2)];
/// Nobody was held up for so long: the host is quiet.
const QUIET_SECONDS: f64 = 60.0;
/// No window is made longer than this: what is said comes at its end.
const WINDOW_MAX: Duration = Duration::from_secs(60);
/// More is reported again once looking took less than this part of what it may.
const SPARE: f64 = 0.4;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Length and price of the last windows.
    windows: VecDeque<(f64, f64)>,
    /// The same of all since the programs were loaded, what that took included, or since the level changed.
    stretch: (f64, f64),
    /// Index of [`LEVELS`].
    level: usize,
    /// For how long nobody was held up.
    quiet_seconds: f64,
    /// By which price it was last decided, in percent of a CPU.
    decided_percent: f64,
}

impl Pace {
    /// Takes whether somebody was held up in a window of this length.
    pub(super) fn held_up(&mut self, seconds: f64, is_anybody: bool) {
        self.quiet_seconds = if is_anybody { 0.0 } else { self.quiet_seconds + seconds };
    }

    /// Takes the first window after the programs were loaded.
    pub(super) fn loaded(&mut self, seconds: f64, spent_seconds: f64) {
        self.stretch = (seconds, spent_seconds);
    }

    /// Takes a further window; for how long nothing is to be looked at now, if it is to rest.
    pub(super) fn take(
        &mut self,
        seconds: f64,
        spent_seconds: f64,
        budget_percent: f64,
    ) -> Option<Duration> {
        self.stretch = (self.stretch.0 + seconds, self.stretch.1 + spent_seconds);
        self.windows.push_back((seconds, spent_seconds));
        while self.windows.len() > 1 && self.seconds() - self.windows[0].0 >= SPAN_SECONDS {
            self.windows.pop_front();
        }
        let percent = self.percent();
        self.decided_percent = percent;
        if percent > budget_percent && self.level + 1 < LEVELS.len() {
            self.go_to(self.level + 1);
            return None;
        }
        if self.seconds() < SPAN_SECONDS {
            return None;
        }
        if percent < SPARE * budget_percent && self.level > 0 {
            self.go_to(self.level - 1);
            return None;
        }
        self.rest(percent, budget_percent)
    }

    /// Until what was taken in this stretch is no more than it may be of all the time.
    fn rest(&self, percent: f64, budget_percent: f64) -> Option<Duration> {
        let (seconds, spent) = self.stretch;
        // What cannot be compared looks all the time.
        let is_beyond = percent > budget_percent;
        if !is_beyond || seconds < (ROUND_SECONDS * budget_percent / percent).max(SPAN_SECONDS) {
            return None;
        }
        let rest = (100.0 * spent / budget_percent - seconds).min(REST_SECONDS_MAX);
        (rest > 0.0).then(|| Duration::from_secs_f64(rest))
    }

    fn go_to(&mut self, level: usize) {
        self.level = level;
        self.windows.clear();
        self.stretch = (0.0, 0.0);
    }

    /// Shorter waits are only counted.
    pub(super) fn least_wait_ns(&self) -> u64 {
        LEVELS[self.level].0
    }

    /// How long a window is that is to be so long, and `quiet` on a quiet host.
    pub(super) fn length_of(&self, window: Duration, quiet: Duration) -> Duration {
        let length = (window * LEVELS[self.level].1).min(window.max(WINDOW_MAX));
        if self.is_quiet() { length.max(quiet) } else { length }
    }

    /// Nobody was held up for a while.
    fn is_quiet(&self) -> bool {
        self.quiet_seconds >= QUIET_SECONDS
    }

    /// The price by which it was last decided, in percent of a CPU.
    pub(super) fn decided_percent(&self) -> f64 {
        self.decided_percent
    }

    /// Share of one CPU, in percent.
    fn percent(&self) -> f64 {
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

    const WINDOW: Duration = Duration::from_secs(10);
    const QUIET: Duration = Duration::from_secs(30);
    const BUDGET: f64 = 2.0;

    /// Windows of as long as is wanted, each of which takes so much of a second, and as much at its end: how long was looked, and how long
    /// rested.
    fn watched(pace: &mut Pace, windows: usize, share: f64, end: f64) -> (f64, f64) {
        const LOADING: f64 = 0.3;
        let (mut looked, mut rested) = (0.0, 0.0);
        let mut has_loaded = true;
        for _ in 0..windows {
            let seconds = pace.length_of(WINDOW, QUIET).as_secs_f64();
            let spent = seconds * share + end;
            looked += seconds;
            if std::mem::take(&mut has_loaded) {
                pace.loaded(seconds, spent + LOADING);
                continue;
            }
            if let Some(rest) = pace.take(seconds, spent, BUDGET) {
                rested += rest.as_secs_f64();
                has_loaded = true;
            }
        }
        (looked, rested)
    }

    #[test]
    fn what_fits_is_looked_at_all_the_time() {
        let mut pace = Pace::default();
        assert_eq!(watched(&mut pace, 100, 0.015, 0.0).1, 0.0);
        assert_eq!((pace.least_wait_ns(), pace.length_of(WINDOW, QUIET)), (0, WINDOW));
    }

    #[test]
    fn short_waits_go_first_then_windows_are_longer_then_it_rests_and_all_come_back() {
        let mut pace = Pace::default();
        let mut levels = Vec::new();
        for _ in 0..20 {
            let _ = pace.take(pace.length_of(WINDOW, QUIET).as_secs_f64(), 0.9, 1.0);
            levels
                .push((pace.least_wait_ns() / 1_000_000, pace.length_of(WINDOW, QUIET).as_secs()));
        }
        levels.dedup();
        assert_eq!(levels, [(4, 10), (16, 10), (64, 10), (64, 20)]);
        let _ = watched(&mut pace, 60, 0.005, 0.0);
        assert_eq!((pace.least_wait_ns(), pace.length_of(WINDOW, QUIET)), (0, WINDOW));
    }

    #[test]
    fn longer_windows_may_be_enough() {
        let mut pace = Pace::default();
        let (_, rested) = watched(&mut pace, 60, 0.014, 0.08);
        assert_eq!((pace.length_of(WINDOW, QUIET).as_secs(), rested), (20, 0.0));
        assert_eq!(pace.length_of(Duration::from_secs(50), QUIET), Duration::from_secs(60));
        assert_eq!(pace.length_of(Duration::from_secs(90), QUIET), Duration::from_secs(90));
    }

    #[test]
    fn whoever_takes_a_little_too_much_rests_a_little_and_stays_within_the_budget() {
        for (share, part) in [(0.021, 0.9), (0.025, 0.75), (0.2, 0.08), (0.6, 0.0)] {
            let mut pace = Pace::default();
            let _ = watched(&mut pace, 30, share, 0.0);
            let (looked, rested) = watched(&mut pace, 400, share, 0.0);
            let is = looked / (looked + rested);
            assert!((part..part + 0.1).contains(&is), "{share}: {is}");
            assert!(looked * share <= (looked + rested) * BUDGET / 100.0 * 1.1, "{share}");
        }
    }

    #[test]
    fn windows_are_longer_where_nobody_was_held_up_for_a_while() {
        let mut pace = Pace::default();
        let after = |pace: &mut Pace, is_anybody| {
            pace.held_up(pace.length_of(WINDOW, QUIET).as_secs_f64(), is_anybody);
            pace.length_of(WINDOW, QUIET).as_secs()
        };
        let lengths: Vec<u64> = (0..8).map(|_| after(&mut pace, false)).collect();
        assert_eq!(lengths, [10, 10, 10, 10, 10, 30, 30, 30]);
        assert_eq!(after(&mut pace, true), 10, "at once");
        assert_eq!(after(&mut pace, false), 10);
        pace.held_up(60.0, false);
        assert_eq!(pace.length_of(WINDOW, Duration::from_secs(1)), WINDOW, "never shorter");
    }

    #[test]
    fn what_just_fits_stays_as_it_is() {
        let mut pace = Pace::default();
        let _ = pace.take(10.0, 0.9, BUDGET);
        let least = pace.least_wait_ns();
        assert!(least > 0);
        assert_eq!(watched(&mut pace, 30, 0.015, 0.0).1, 0.0);
        assert_eq!(pace.least_wait_ns(), least);
    }
}
