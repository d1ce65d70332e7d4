//! Holds what looking takes within its budget: beyond it, one window in N is looked at, and less is taken by itself.
//!
//! Price is CPU time of the process and of its kernel programs, over the last minute that was looked at. What loading the programs
//! takes is no price of a look that goes on: the first window after it is not counted, or who has rested once would rest for ever. Pure.

use std::collections::VecDeque;

/// Over so much time the price is taken.
const SPAN_SECONDS: f64 = 60.0;
/// At least one window in so many is looked at.
const EVERY_MAX: u32 = 30;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Length and price of the last windows.
    windows: VecDeque<(f64, f64)>,
}

impl Pace {
    /// Takes a window that was looked at; one window in how many is to be looked at now.
    pub(super) fn take(&mut self, seconds: f64, spent_seconds: f64, budget_percent: f64) -> u32 {
        self.windows.push_back((seconds, spent_seconds));
        while self.windows.len() > 1 && self.seconds() - self.windows[0].0 >= SPAN_SECONDS {
            self.windows.pop_front();
        }
        if self.seconds() < SPAN_SECONDS {
            return 1;
        }
        let every = (self.percent() / budget_percent).ceil();
        // What cannot be compared looks at each.
        if every > 1.0 { every.min(f64::from(EVERY_MAX)) as u32 } else { 1 }
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
    fn beyond_the_budget_windows_are_left_out_and_it_comes_back() {
        let mut pace = Pace::default();
        for _ in 0..10 {
            assert_eq!(pace.take(10.0, 0.05, 2.0), 1);
        }
        let every: Vec<u32> = (0..6).map(|_| pace.take(10.0, 0.9, 2.0)).collect();
        assert_eq!(every.last(), Some(&5), "{every:?}");
        let every: Vec<u32> = (0..6).map(|_| pace.take(10.0, 0.05, 2.0)).collect();
        assert_eq!(every.last(), Some(&1), "{every:?}");
    }
}
