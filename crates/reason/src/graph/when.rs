//! When time was lost, in steps of a tenth of a second: enough to find the worst moment of a window of any length.
//!
//! Of an end each victim has one (end.rs); what a moment means is measure/moment.rs's. Bounded: of a command that runs for hours
//! nobody asks for moments. Must not: hold time whose begin and end nobody saw (work that the scheduler has counted).
//!
//! Rejected: the stretches themselves (a flood of short waits has hundreds of thousands, and several threads of a process overlap).

use crate::facts::Ns;
use std::collections::BTreeMap;

/// Length of a step.
const STEP_NS: Ns = 100_000_000;
/// Steps of a victim: what comes after so many is not held.
const STEPS_MAX: usize = 6_000;

/// See the head of the file.
#[derive(Debug, Clone, Default)]
pub struct When(BTreeMap<u64, f32>);

impl When {
    /// Adds a stretch of time, or a part of it.
    pub(super) fn add(&mut self, begin_ns: Ns, end_ns: Ns, part: f64) {
        let mut from = begin_ns;
        while from < end_ns {
            let step = from / STEP_NS;
            let to = end_ns.min((step + 1) * STEP_NS);
            self.put(step, (part * (to - from) as f64 / 1e9) as f32);
            from = to;
        }
    }

    /// Adds all of another.
    pub(super) fn take_in(&mut self, other: &Self) {
        other.0.iter().for_each(|(step, seconds)| self.put(*step, *seconds));
    }

    fn put(&mut self, step: u64, seconds: f32) {
        if self.0.len() < STEPS_MAX || self.0.contains_key(&step) {
            *self.0.entry(step).or_default() += seconds;
        }
    }

    /// Of all stretches of about that length the one in which most was lost, the first of equals: its begin, and how much was lost
    /// in it, seconds.
    pub fn densest(&self, length_ns: Ns) -> Option<(Ns, f64)> {
        let steps = (length_ns / STEP_NS).max(1);
        let from = |first: u64| {
            let within = self.0.range(first..first + steps);
            (first * STEP_NS, within.map(|(_, seconds)| f64::from(*seconds)).sum::<f64>())
        };
        self.0
            .keys()
            .map(|step| from(*step))
            .reduce(|most, it| if it.1 > most.1 { it } else { most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    #[test]
    fn the_densest_stretch_is_found_wherever_it_lies() {
        let mut when = When::default();
        // A little now and then, and 350 ms at once.
        (0..10).for_each(|n| when.add(n * 1000 * MS, (n * 1000 + 5) * MS, 1.0));
        when.add(4_230 * MS, 4_580 * MS, 1.0);
        let (begin_ns, lost) = when.densest(1_000 * MS).expect("something was lost");
        assert_eq!(begin_ns, 4_000 * MS);
        assert!((lost - 0.355).abs() < 1e-4, "{lost}");
    }

    #[test]
    fn parts_and_others_add_up_and_nothing_has_no_moment() {
        let (mut one, mut other) = (When::default(), When::default());
        assert_eq!(one.densest(1_000 * MS), None);
        one.add(50 * MS, 250 * MS, 0.5);
        other.add(150 * MS, 250 * MS, 1.0);
        one.take_in(&other);
        let (begin_ns, lost) = one.densest(1_000 * MS).expect("something was lost");
        assert_eq!(begin_ns, 0);
        assert!((lost - 0.2).abs() < 1e-4, "{lost}");
    }

    #[test]
    fn its_size_is_bounded() {
        let mut when = When::default();
        when.add(0, 2 * STEPS_MAX as u64 * STEP_NS, 1.0);
        assert_eq!(when.0.len(), STEPS_MAX);
    }
}
