//! What can be used up: how much of it is used, and what is known of it from the windows before.
//!
//! Must not: compute when it ends (measure/exhaustion.rs).

use super::push::{Push, Series};
use crate::facts::{Ns, PermanentNeighbours, Usage};
use std::collections::BTreeMap;

/// What was observed of limits.
#[derive(Debug, Default)]
pub struct Limits {
    /// Readings of this window.
    pub(crate) usages: Series<Usage>,
    /// The same with their readings of the windows before.
    pub(crate) trends: Vec<Usage>,
    /// Neighbour entries that no limit counts, by network namespace.
    pub(crate) permanent_neighbours: BTreeMap<u32, PermanentNeighbours>,
}

impl Push<PermanentNeighbours> for Limits {
    fn push(&mut self, _: Ns, it: PermanentNeighbours) {
        self.permanent_neighbours.insert(it.netns, it);
    }
}

impl Push<Usage> for Limits {
    fn push(&mut self, at: Ns, usage: Usage) {
        match usage.readings.is_empty() {
            true => self.usages.push((at, usage)),
            false => self.trends.push(usage),
        }
    }
}
