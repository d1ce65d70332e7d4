//! What can be used up: how much of it is used, and what is known of it from the windows before.
//!
//! Must not: compute when it ends (measure/exhaustion.rs).

use super::push::{Push, Series};
use crate::facts::{Ns, Usage};

/// What was observed of limits.
#[derive(Debug, Default)]
pub struct Limits {
    /// Readings of this window.
    pub(crate) usages: Series<Usage>,
    /// The same with their readings of the windows before.
    pub(crate) trends: Vec<Usage>,
}

impl Push<Usage> for Limits {
    fn push(&mut self, at: Ns, usage: Usage) {
        match usage.readings.is_empty() {
            true => self.usages.push((at, usage)),
            false => self.trends.push(usage),
        }
    }
}
