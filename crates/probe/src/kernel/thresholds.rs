//! How long a wait must be for the programs to report it: what stands in their control block.
//!
//! Must not: choose the numbers (session/wait_threshold.rs does, by the rate of events).

use crate::decode::wire::wire_control;
use holdup_reason::facts::Ns;

/// A request this many times as long as a wait that is reported is reported in full.
const REQUEST_TO_WAIT: u64 = 5;

/// The thresholds of the traced threads and of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Of the traced threads.
    pub traced_ns: Ns,
    /// Of all others.
    pub others_ns: Ns,
}

impl Thresholds {
    /// Nothing is reported any more.
    pub const NOTHING: Self = Self { traced_ns: u64::MAX, others_ns: u64::MAX };

    /// The programs go by them from now on.
    pub fn apply(self, control: &mut wire_control) {
        control.threshold_ns = self.others_ns;
        control.traced_threshold_ns = self.traced_ns;
        control.request_threshold_ns = self.others_ns.saturating_mul(REQUEST_TO_WAIT);
    }
}
