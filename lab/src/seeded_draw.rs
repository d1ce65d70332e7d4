//! What a seed decides: every number, name and variant of a trial.
//!
//! One generator per trial, seeded by the run's seed and the scenario's name, so that adding a
//! scenario changes no other. Names are drawn from words that real hosts use, because a name that
//! tells what it is for would be a hint. Rejected: drawing from a global generator (the order of
//! scenarios would change the numbers).

use std::time::Duration;

/// Words that programs are made of.
const STEMS: &[&str] = &[
    "ingest", "billing", "report", "mailer", "index", "archive", "session", "catalog", "search",
    "ledger", "upload", "thumb", "sync", "audit", "queue", "relay", "batch", "metric", "import",
    "order", "quote", "render", "cache", "stock",
];

/// What such programs end in.
const ENDINGS: &[&str] = &["d", "-worker", "-api", "ctl", "-svc", "er", "2", "-agent", ""];

/// A seeded source of choices.
pub struct Draw(fastrand::Rng);

impl Draw {
    /// The generator of one scenario under one seed.
    pub fn new(seed: u64, scenario: &str) -> Self {
        // FNV-1a: the standard hasher may change between releases of Rust, seeds must not.
        let hash = scenario.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        Self(fastrand::Rng::with_seed(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number in `[min, max]`; evenly by its logarithm if `log`.
    pub fn number(&mut self, min: f64, max: f64, log: bool) -> f64 {
        let at = self.0.f64();
        if log && min > 0.0 {
            (min.ln() + at * (max.ln() - min.ln())).exp()
        } else {
            min + at * (max - min)
        }
    }

    /// An index below `count`; 0 if there is nothing to choose from.
    pub fn index(&mut self, count: usize) -> usize {
        if count == 0 { 0 } else { self.0.usize(..count) }
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.0.f64() < probability
    }

    /// A plausible name of a program, at most 15 bytes so that comm shows it whole.
    pub fn name(&mut self) -> String {
        let stem = STEMS[self.index(STEMS.len())];
        let ending = ENDINGS[self.index(ENDINGS.len())];
        let number = self.0.u32(10..99);
        let mut name = format!("{stem}{ending}{number}");
        name.truncate(15);
        name
    }

    /// A length of time in `[min, max]`.
    pub fn duration(&mut self, min: Duration, max: Duration) -> Duration {
        Duration::from_secs_f64(self.number(min.as_secs_f64(), max.as_secs_f64(), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_choices_other_seed_others() {
        let draw = |seed, name| {
            let mut d = Draw::new(seed, name);
            (d.name(), d.number(1.0, 1e6, true).to_bits(), d.index(1000))
        };
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
    }

    #[test]
    fn numbers_stay_in_range_and_names_fit_comm() {
        let mut d = Draw::new(7, "range");
        for _ in 0..1000 {
            let n = d.number(3.0, 9.0, true);
            assert!((3.0..=9.0).contains(&n));
            assert!(d.name().len() <= 15);
        }
    }
}
