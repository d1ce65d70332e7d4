//! The ladder of the memory rules.
//!
//! What the limit of a group makes its members wait for is an effect of it. Must not: hold anything but the ladder.

pub(crate) mod allocator;
pub(crate) mod compaction;
mod costs;
pub(crate) mod dirty_throttle;
pub(crate) mod fault_storm;
mod fillers;
mod kill_words;
pub(crate) mod limit;
pub(crate) mod limit_trend;
mod neighbour_limit;
pub(crate) mod oom_kill;
pub(crate) mod reclaim;
pub(crate) mod remote_node;
pub(crate) mod shared_unaccounted;
mod streams;
pub(crate) mod swap;
#[cfg(test)]
mod tests;
pub(crate) mod thrash;

/// The rules of this area; the first that matches claims an end. Who fills memory, with what he needs once or at all,
/// comes before the limit that he fills. Then the limit of a group: what it makes its members wait for is an effect, and who was killed at
/// it was killed for it. So it is with what they swap.
pub(crate) static LADDER: &[&super::Rule] = &[
    &thrash::RULE,
    &reclaim::RULE,
    &limit::RULE,
    &oom_kill::RULE,
    &swap::RULE,
    &dirty_throttle::RULE,
    &compaction::RULE,
    &fault_storm::RULE,
    &allocator::RULE,
    &shared_unaccounted::RULE,
    &remote_node::RULE,
    &limit_trend::RULE,
];
