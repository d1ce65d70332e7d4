//! The rate of events, and the thresholds that follow it.
//!
//! Counts what was decoded, asks wait_threshold.rs, and sets what the programs go by. Must not: decide how high a threshold is to be.

use super::wait_threshold::{Events, WaitThreshold};
use crate::kernel::Programs;
use crate::kernel::thresholds::Thresholds;

/// See the head of the file.
pub(super) struct Rate {
    /// The thresholds of this look.
    pub threshold: WaitThreshold,
    /// All events, and those of traced threads.
    events_seen: (u64, u64),
    braked_seen: u64,
}

impl Rate {
    /// Of a look that has just begun.
    pub(super) fn new(threshold: WaitThreshold) -> Self {
        Self { threshold, events_seen: (0, 0), braked_seen: 0 }
    }

    /// Records that were read since the programs were loaded.
    pub(super) fn events(&self) -> u64 {
        self.events_seen.0
    }

    /// The thresholds as they are now.
    pub(super) fn thresholds(&self) -> Thresholds {
        Thresholds {
            traced_ns: self.threshold.traced_threshold_ns(),
            others_ns: self.threshold.threshold_ns(),
        }
    }

    /// Follows what came in so many ticks, or before the end of one; gives the number of events.
    pub(super) fn follow(&mut self, programs: &mut Programs, ticks: u64) -> u64 {
        let inbox = programs.inbox.borrow();
        let (all, traced) = (inbox.decoder.events, inbox.decoder.traced_events);
        let (all_before, traced_before) = std::mem::replace(&mut self.events_seen, (all, traced));
        let (fresh, traced) = (all - all_before, traced - traced_before);
        let events = Events { traced, others: fresh - traced };
        let braked = std::mem::replace(&mut self.braked_seen, programs.braked());
        if self.threshold.observe(events, ticks, braked != self.braked_seen) {
            self.threshold.blame(&inbox.facts);
        }
        drop(inbox);
        let thresholds = self.thresholds();
        if let Some(control) = programs.control() {
            thresholds.apply(control);
        }
        fresh
    }
}
