//! The ladder of the cpu rules.

pub(crate) mod affinity;
pub(crate) mod quota;
pub(crate) mod rt_denied;
pub(crate) mod rt_throttled;
pub(crate) mod saturated;

/// The rules of this area; the first that matches claims an end.
pub static LADDER: &[&super::Rule] =
    &[&affinity::RULE, &quota::RULE, &rt_denied::RULE, &rt_throttled::RULE, &saturated::RULE];
