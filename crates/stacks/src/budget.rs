//! What reading stacks may cost: a two-hundredth of a CPU over the time that a look has lasted, whichever thread pays it.
//!
//! `Allowance` is the account of a look. Every walk of the iterator and every batch of the helper is paid from it, what is
//! not affordable yet waits until the look has lasted longer, and what never became affordable is counted. `Budget` is
//! what one batch may take: CPU time, which is the promise, and time on the clock, so that on a host without a free CPU
//! whoever asked gets what was read so far and not nothing. Long steps ask before they begin whether they fit.
//!
//! Must not: know what is read, or for whom (stacks.rs gives what was asked about the time of a longer look). Rejected: a least amount
//! for looks at a host, and a batch that may overdraw (30 ms of a look of two seconds is three times of what all of it may take).

use holdup_reason::facts::Ns;
use holdup_system::clock::{ClockId, clock_ns};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Of the time that a look has lasted, what reading stacks plans to take of a CPU: less than the two-hundredth that it may,
/// because a step may take longer than was thought (a tenth more was seen, on a host whose CPUs were in use). Code that is
/// not optimised takes some twenty times as long.
const PART_OF_CPU: u64 = if cfg!(debug_assertions) { 12 } else { 250 };

/// The same, for the last thing that is read: nothing comes behind it that may take longer than was thought.
const PART_OF_CPU_AT_LAST: u64 = if cfg!(debug_assertions) { 11 } else { 210 };

/// A longer walk is paid from the time that a look has really lasted, once it has found something.
const WALK_NS_MAX: Ns = if cfg!(debug_assertions) { 6_000_000 } else { 300_000 };

/// CPU time that the calling thread has used.
pub fn cpu_ns() -> Ns {
    clock_ns(ClockId::ThreadCPUTime)
}

/// The account of a look.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    spent_ns: Ns,
    /// What is needed before another batch is worth it: the last one left something out that takes so long.
    saving_ns: Ns,
    /// What a walk of the iterator took at last.
    walk_ns: Ns,
}

impl Allowance {
    /// CPU time that was spent so far.
    pub(crate) fn spent_ns(&self) -> Ns {
        self.spent_ns
    }

    /// Whether a batch is worth the walks before and after it by now.
    pub(crate) fn is_worth(&self, lasted_ns: Ns) -> bool {
        let batch = self.batch_ns(lasted_ns, 2);
        batch > 2 * self.walk_ns && batch >= self.saving_ns
    }

    /// The same at the end of a look: there is nothing to save for any more.
    pub(crate) fn is_worth_at_the_end(&mut self, lasted_ns: Ns) -> bool {
        self.saving_ns = 0;
        self.batch_ns(lasted_ns, 2) > 0
    }

    /// What a batch may take now, so many walks left to pay, each of which may take half as long again as the last; 0 if
    /// there is nothing left.
    pub(crate) fn batch_ns(&self, lasted_ns: Ns, walks: u64) -> Ns {
        let walks_ns = walks * (self.walk_ns + self.walk_ns / 2);
        (lasted_ns / PART_OF_CPU).saturating_sub(self.spent_ns + walks_ns)
    }

    /// What is left for the last step of all.
    pub(crate) fn rest_ns(&self, lasted_ns: Ns) -> Ns {
        (lasted_ns / PART_OF_CPU_AT_LAST).saturating_sub(self.spent_ns)
    }

    /// What a walk for all that there is to know of each thread took, before the first of its own kind, which tells a fifth
    /// of that (measured with 1,100 and with 10,000 threads).
    pub(crate) fn expect_walk(&mut self, whole_walk_ns: Ns) {
        if self.walk_ns == 0 {
            self.walk_ns = whole_walk_ns / 4;
        }
    }

    /// A walk took so long; it is paid by whoever paid for what it was part of.
    pub(crate) fn saw_walk(&mut self, walk_ns: Ns) {
        self.walk_ns = walk_ns;
    }

    /// Whether a walk takes a good part of what a second gives: a process of hundreds of threads.
    pub(crate) fn is_walk_dear(&self) -> bool {
        self.walk_ns > WALK_NS_MAX
    }

    /// Pays.
    pub(crate) fn pay(&mut self, spent_ns: Ns) {
        self.spent_ns += spent_ns;
    }

    /// The next batch needs so much to be worth it.
    pub(crate) fn save_for(&mut self, needed_ns: Ns) {
        self.saving_ns = needed_ns + needed_ns / 7;
    }
}

/// What one batch may take, from now on and on this thread.
#[derive(Debug)]
pub(crate) struct Budget {
    begin_ns: Ns,
    allowed_ns: Ns,
    until: Instant,
    /// CPU time that was left out because it did not fit.
    short_ns: Cell<Ns>,
}

impl Budget {
    /// A batch begins. Of what it may take an eighth is left for what comes behind the last step.
    pub(crate) fn begin(allowed_ns: Ns, timeout: Duration) -> Self {
        Self {
            begin_ns: cpu_ns(),
            allowed_ns: allowed_ns - allowed_ns / 8,
            until: Instant::now() + timeout,
            short_ns: Cell::new(0),
        }
    }

    /// CPU time that it has taken.
    pub(crate) fn spent_ns(&self) -> Ns {
        cpu_ns().saturating_sub(self.begin_ns)
    }

    /// Whether there is time for another short step.
    pub(crate) fn has_time(&self) -> bool {
        self.spent_ns() < self.allowed_ns && Instant::now() < self.until
    }

    /// The same, up to a point of its own.
    pub(crate) fn has_time_until(&self, until_ns: Ns) -> bool {
        self.spent_ns() < until_ns && Instant::now() < self.until
    }

    /// The point at which half of what is left now will be spent.
    pub(crate) fn half_of_rest_ns(&self) -> Ns {
        self.spent_ns().midpoint(self.allowed_ns).min(self.allowed_ns)
    }

    /// Whether a step of this length fits. If not, that is remembered.
    pub(crate) fn fits(&self, step_ns: Ns) -> bool {
        let fits = self.spent_ns() + step_ns <= self.allowed_ns && self.has_time();
        if !fits {
            self.lacks(step_ns);
        }
        fits
    }

    /// So much more would have been needed.
    pub(crate) fn lacks(&self, step_ns: Ns) {
        self.short_ns.set(self.short_ns.get() + step_ns);
    }

    /// What another batch needs to get as far as this one and through what did not fit; 0 if all did.
    pub(crate) fn needed_ns(&self) -> Ns {
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
        assert_eq!(allowance.batch_ns(2 * SECOND, 2), all);
        allowance.saw_walk(1000);
        assert_eq!(allowance.batch_ns(2 * SECOND, 2), all - 3000, "two walks");
        allowance.pay(all - 4500);
        assert!(!allowance.is_worth(2 * SECOND), "most of it would be walks");
        assert_eq!(allowance.batch_ns(2 * SECOND, 2), 1500);
        allowance.pay(2000);
        assert_eq!(allowance.batch_ns(2 * SECOND, 2), 0);
        assert!(allowance.is_worth(4 * SECOND), "it has lasted longer");
    }

    #[test]
    fn what_does_not_fit_is_saved_for_until_the_end() {
        let mut allowance = Allowance::default();
        allowance.save_for(3 * SECOND / PART_OF_CPU);
        assert!(!allowance.is_worth(SECOND) && allowance.is_worth(4 * SECOND));
        assert!(allowance.is_worth_at_the_end(SECOND));
    }

    #[test]
    fn a_batch_ends_by_either_clock_and_says_what_it_left_out() {
        let long = Duration::from_secs(100);
        let budget = Budget::begin(100 * SECOND, long);
        assert!(budget.has_time() && budget.fits(SECOND) && budget.needed_ns() == 0);
        assert!(!budget.fits(101 * SECOND));
        assert!(budget.needed_ns() > 101 * SECOND);
        assert!(budget.has_time_until(budget.half_of_rest_ns()));
        assert!(!budget.has_time_until(0));
        assert!(!Budget::begin(0, long).has_time());
        assert!(!Budget::begin(100 * SECOND, Duration::ZERO).has_time());
    }
}
