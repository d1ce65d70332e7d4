//! How often something was refused, from when to when, and by what limit: the figures behind a wait between tries.
//!
//! Must not: say what a refusal is for (waits/retries.rs), or put it into words (rules/refusal_words.rs).

use crate::facts::{Denied, Ns};
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::retries::refused;

/// Refusals of one thing.
#[derive(Debug, Clone, Copy)]
pub struct Tries<'m> {
    /// How many, those included that were only counted.
    pub times: u64,
    /// How many of them were reported.
    pub reported: usize,
    /// The first.
    pub first_ns: Ns,
    /// The last.
    pub last_ns: Ns,
    /// The last itself.
    pub last: &'m Denied,
}

impl<'m> Tries<'m> {
    /// Of what a wait of this class is for.
    pub fn of(model: &'m Model, class: WaitClass, object: &Object) -> Option<Self> {
        let is_it = |denied: &Denied| {
            refused(model, denied).is_some_and(|what| what.0 == class && what.1 == *object)
        };
        let mut all = model.threads.denied.iter().filter(|(_, denied)| is_it(denied));
        let (first_ns, first) = all.next()?;
        let mut tries = Self {
            times: first.unreported.saturating_add(1),
            reported: 1,
            first_ns: *first_ns,
            last_ns: *first_ns,
            last: first,
        };
        for (at_ns, denied) in all {
            tries.times = tries.times.saturating_add(denied.unreported).saturating_add(1);
            tries.reported += 1;
            tries.first_ns = tries.first_ns.min(*at_ns);
            if *at_ns >= tries.last_ns {
                (tries.last_ns, tries.last) = (*at_ns, denied);
            }
        }
        Some(tries)
    }

    /// From the first to the last, seconds.
    pub fn seconds(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }
}
