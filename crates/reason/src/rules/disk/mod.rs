//! The ladder of the disk rules, in the order of proof.
//!
//! A configured limit that is waited for while the device idles needs no other explanation, and errors are counted by the
//! device itself. A tail of slow requests on a device that is otherwise quick is the device's. A neighbour that asks for
//! most of what the device does is the reason for its queue: through the journal, through its weight, or just so. A cache
//! that misses makes a slow disk of a quick one, an array that leaves members idle is as slow as one. What is left, a
//! device that always has work and delivers a flat rate slowly, is a cap. Anything else has no name here.

pub(crate) mod cache_miss;
pub(crate) mod device_cap;
pub(crate) mod errors;
pub(crate) mod fail_slow;
pub(crate) mod journal;
mod neighbour;
pub(crate) mod own_throttle;
#[cfg(test)]
mod own_throttle_tests;
pub(crate) mod raid_imbalance;
mod raised_limit;
pub(crate) mod saturated;
#[cfg(test)]
mod scenes;
mod waited;
pub(crate) mod weight;
mod wording;

/// The rules of this area; the first that matches claims an end.
pub(crate) static LADDER: &[&super::Rule] = &[
    &own_throttle::RULE,
    &errors::RULE,
    &fail_slow::RULE,
    &journal::RULE,
    &weight::RULE,
    &saturated::RULE,
    &cache_miss::RULE,
    &raid_imbalance::RULE,
    &device_cap::RULE,
];
