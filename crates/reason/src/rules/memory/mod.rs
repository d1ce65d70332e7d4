//! The ladder of the memory rules.

pub(crate) mod dirty_throttle;
pub(crate) mod fault_storm;
pub(crate) mod limit;
pub(crate) mod shared_unaccounted;

/// The rules of this area; the first that matches claims an end.
pub static LADDER: &[&super::Rule] =
    &[&dirty_throttle::RULE, &fault_storm::RULE, &limit::RULE, &shared_unaccounted::RULE];
