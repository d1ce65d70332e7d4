//! The ladder of the memory rules.
//!
//! What the limit of a group makes its members wait for is an effect of it. Must not: hold anything but the ladder.

pub(crate) mod dirty_throttle;
pub(crate) mod fault_storm;
pub(crate) mod limit;
pub(crate) mod shared_unaccounted;
#[cfg(test)]
mod tests;

/// The rules of this area; the first that matches claims an end. The limit of a group comes first: what it makes its
/// members wait for is an effect.
pub static LADDER: &[&super::Rule] =
    &[&limit::RULE, &dirty_throttle::RULE, &fault_storm::RULE, &shared_unaccounted::RULE];
