//! What reading stacks may cost: a two-hundredth of a CPU over the time that a look has lasted, whichever thread pays it.
//!
//! `Allowance` is the account of a look. Every walk of the iterator and every batch of the helper is paid from it, what is
//! not affordable yet waits until the look has lasted longer, and what never became affordable is counted. `Budget` is
//! what one batch may take: CPU time, which is the promise, and time on the clock, so that on a host without a free CPU
//! whoever asked gets what was read so far and not nothing. Long steps ask before they begin whether they fit.
//!
//! Must not: know what is read. Rejected: a least amount for short looks and a batch that may overdraw (30 ms of a look of
//! two seconds is three times of what all of it may take).

use crate::files::threads::clock_ns;
use holdup_reason::facts::Ns;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Of the time that a look has lasted, what reading stacks may take of a CPU. Code that is not optimised takes some twenty
/// times as long.
const PART_OF_CPU: u64 = if cfg!(debug_assertions) { 10 } else { 200 };

/// CPU time that the calling thread has used.
pub fn cpu_ns() -> Ns {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The account of a look.
#[derive(Debug, Default)]
pub struct Allowance {
    spent_ns: Ns,
    /// What is needed before another batch is worth it: the last one left something out that takes so long.
    saving_ns: Ns,
    /// What a walk of the iterator took at last.
    walk_ns: Ns,
}

impl Allowance {
    /// CPU time that was spent so far.
    pub fn spent_ns(&self) -> Ns {
        self.spent_ns
    }

    /// What a batch may take now, room for the walk before it and that after it left; none if that is not worth a batch.
    pub fn affordable_ns(&self, lasted_ns: Ns) -> Option<Ns> {
        let left = (lasted_ns / PART_OF_CPU).checked_sub(self.spent_ns)?;
        let batch = left.checked_sub(2 * self.walk_ns)?;
        (batch > 0 && batch >= self.saving_ns).then_some(batch)
    }

    /// The same at the end of a look: there is nothing to save for any more.
    pub fn affordable_at_the_end_ns(&mut self, lasted_ns: Ns) -> Option<Ns> {
        self.saving_ns = 0;
        self.affordable_ns(lasted_ns)
    }

    /// What another walk is known to take at most, before the first of its own kind.
    pub fn expect_walk(&mut self, walk_ns: Ns) {
        if self.walk_ns == 0 {
            self.walk_ns = walk_ns;
        }
    }

    /// A walk took so long; it is paid by whoever paid for what it was part of.
    pub fn saw_walk(&mut self, walk_ns: Ns) {
        self.walk_ns = walk_ns;
    }

    /// Pays.
    pub fn pay(&mut self, spent_ns: Ns) {
        self.spent_ns += spent_ns;
    }

    /// The next batch needs so much to be worth it.
    pub fn save_for(&mut self, needed_ns: Ns) {
        self.saving_ns = needed_ns;
    }
}

/// What one batch may take, from now on and on this thread.
#[derive(Debug)]
pub struct Budget {
    begin_ns: Ns,
    allowed_ns: Ns,
    until: Instant,
    /// CPU time that was left out because it did not fit.
    short_ns: Cell<Ns>,
}

impl Budget {
    /// A batch begins.
    pub fn begin(allowed_ns: Ns, patience: Duration) -> Self {
        Self {
            begin_ns: cpu_ns(),
            allowed_ns,
            until: Instant::now() + patience,
            short_ns: Cell::new(0),
        }
    }

    /// CPU time that it has taken.
    pub fn spent_ns(&self) -> Ns {
        cpu_ns().saturating_sub(self.begin_ns)
    }

    /// Whether there is time for another short step.
    pub fn has_time(&self) -> bool {
        self.spent_ns() < self.allowed_ns && Instant::now() < self.until
    }

    /// Whether there is time for another short step in the first half: what is read first is of use only with the second.
    pub fn has_half(&self) -> bool {
        self.spent_ns() < self.allowed_ns / 2 && Instant::now() < self.until
    }

    /// Whether a step of this length fits. If not, that is remembered.
    pub fn fits(&self, step_ns: Ns) -> bool {
        let fits = self.spent_ns() + step_ns <= self.allowed_ns && self.has_time();
        if !fits {
            self.lacks(step_ns);
        }
        fits
    }

    /// So much more would have been needed.
    pub fn lacks(&self, step_ns: Ns) {
        self.short_ns.set(self.short_ns.get() + step_ns);
    }

    /// What another batch needs to get as far as this one and through what did not fit; 0 if all did.
    pub fn needed_ns(&self) -> Ns {
        match self.short_ns.get() {
            0 => 0,
            short_ns => self.spent_ns() + short_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Ns = 1_000_000_000;

    #[test]
    fn a_look_has_a_part_of_a_cpu_and_no_more() {
        let all = 2 * SECOND / PART_OF_CPU;
        let mut allowance = Allowance::default();
        assert_eq!(allowance.affordable_ns(2 * SECOND), Some(all));
        allowance.saw_walk(1000);
        assert_eq!(allowance.affordable_ns(2 * SECOND), Some(all - 2000), "two walks");
        allowance.pay(all - 1500);
        assert_eq!(allowance.affordable_ns(2 * SECOND), None);
        assert!(allowance.affordable_ns(4 * SECOND).is_some(), "it has lasted longer");
    }

    #[test]
    fn what_does_not_fit_is_saved_for_until_the_end() {
        let mut allowance = Allowance::default();
        let (now, later) = (SECOND / PART_OF_CPU, 3 * SECOND / PART_OF_CPU);
        allowance.save_for(later);
        assert_eq!(allowance.affordable_ns(SECOND), None);
        assert_eq!(allowance.affordable_ns(3 * SECOND), Some(later));
        assert_eq!(allowance.affordable_at_the_end_ns(SECOND), Some(now));
    }

    #[test]
    fn a_batch_ends_by_either_clock_and_says_what_it_left_out() {
        let long = Duration::from_secs(100);
        let budget = Budget::begin(100 * SECOND, long);
        assert!(budget.has_time() && budget.fits(SECOND) && budget.needed_ns() == 0);
        assert!(!budget.fits(101 * SECOND));
        assert!(budget.needed_ns() > 101 * SECOND);
        assert!(!Budget::begin(0, long).has_time());
        assert!(!Budget::begin(100 * SECOND, Duration::ZERO).has_time());
    }
}
