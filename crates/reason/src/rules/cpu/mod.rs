//! The ladder of the cpu rules.
//!
//! What they share is in cpu_waits.rs. Must not: hold anything but the ladder.

pub(crate) mod affinity;
mod come_last;
mod cpu_waits;
mod crowd;
pub(crate) mod quota;
pub(crate) mod rt_denied;
pub(crate) mod rt_throttled;
pub(crate) mod saturated;
pub(crate) mod victims;

/// The rules of this area; the first that matches claims an end. What narrows a victim by itself (a mask, a quota, a
/// budget) comes before what it shares with others.
pub static LADDER: &[&super::Rule] =
    &[&affinity::RULE, &quota::RULE, &rt_throttled::RULE, &rt_denied::RULE, &saturated::RULE];
