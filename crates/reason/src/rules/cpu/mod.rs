//! The ladder of the cpu rules.
//!
//! What they share is in cpu_waits.rs. Must not: hold anything but the ladder.

pub(crate) mod affinity;
mod come_last;
mod cpu_waits;
mod crowd;
pub(crate) mod crowded;
pub(crate) mod frequency;
mod interrupt_rate;
pub(crate) mod interrupts;
pub(crate) mod kernel_work_on_isolated;
pub(crate) mod quota;
pub(crate) mod rt_denied;
pub(crate) mod rt_throttled;
pub(crate) mod saturated;
pub(crate) mod steal;
pub(crate) mod victims;
pub(crate) mod weight;
mod whose;

/// The rules of this area; the first that matches claims an end. What narrows a victim by itself (a mask, a quota, a
/// budget) comes before what it shares with others, and what takes a CPU from whoever may use it (the hypervisor,
/// interrupts) before both. Less weight than usual comes before who has more of it, and that
/// before plain too much work.
pub(crate) static LADDER: &[&super::Rule] = &[
    &steal::RULE,
    &interrupts::RULE,
    &affinity::RULE,
    &quota::RULE,
    &rt_throttled::RULE,
    &rt_denied::RULE,
    &weight::RULE,
    &saturated::RULE,
    &crowded::RULE,
    &frequency::RULE,
    &kernel_work_on_isolated::RULE,
];
