//! Numbers that decide: each with its unit, its reason and where it was found, printed into docs/codes.md.
//!
//! A rule, and a way of the graph, compares with nothing else: tidy refuses bare numbers there. It stands below the rooms, because
//! several of them decide. Must not hold formats or defaults of wording.

use crate::facts::Ns;

/// A number that decides: whether a rule matches, or a way leads on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The number.
    pub value: f64,
    /// Its unit: `s`, `ms`, `1/s`, `%`, `1` for counts and ratios.
    pub unit: &'static str,
    /// What it is compared with, and why it is this high.
    pub why: &'static str,
    /// A measurement, a paper, a kernel constant.
    pub source: &'static str,
}

impl Threshold {
    /// A threshold.
    pub const fn new(
        value: f64,
        unit: &'static str,
        why: &'static str,
        source: &'static str,
    ) -> Self {
        Self { value, unit, why, source }
    }

    /// A number of milliseconds, as what the clocks count in.
    pub const fn ns(&self) -> Ns {
        const NS_PER_MS: f64 = 1e6;
        (self.value * NS_PER_MS) as Ns
    }

    /// The number as one that lengths are divided by, or multiplied with.
    pub const fn whole(&self) -> u64 {
        self.value as u64
    }

    /// The number as a count.
    pub const fn count(&self) -> usize {
        self.value as usize
    }
}
