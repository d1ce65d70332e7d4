//! The ladder of the memory rules.
//!
//! What the limit of a group makes its members wait for is an effect of it. Must not: hold anything but the ladder.

pub(crate) mod dirty_throttle;
pub(crate) mod fault_storm;
mod kill_words;
pub(crate) mod limit;
pub(crate) mod oom_kill;
pub(crate) mod shared_unaccounted;
pub(crate) mod swap;
#[cfg(test)]
mod tests;

/// The rules of this area; the first that matches claims an end. The limit of a group comes first: what it makes its
/// members wait for is an effect, and who was killed at it was killed for it. So it is with what they swap.
pub static LADDER: &[&super::Rule] = &[
    &limit::RULE,
    &oom_kill::RULE,
    &swap::RULE,
    &dirty_throttle::RULE,
    &fault_storm::RULE,
    &shared_unaccounted::RULE,
];
