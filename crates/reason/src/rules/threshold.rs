//! Numbers that decide: each with its unit, its reason and where it was found, printed into docs/codes.md.
//!
//! A rule compares with nothing else: tidy refuses bare numbers in rules. Must not hold formats or defaults of wording.

/// A number that decides whether a rule matches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The number.
    pub value: f64,
    /// Its unit: `s`, `1/s`, `%`, `1` for counts and ratios.
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

    /// The number as a count.
    pub const fn count(&self) -> usize {
        self.value as usize
    }
}
