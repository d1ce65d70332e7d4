//! The ladder of the lock rules.

pub(crate) mod deadlock;
pub(crate) mod file;
pub(crate) mod futex;
pub(crate) mod lease;

/// The rules of this area; the first that matches claims an end.
pub static LADDER: &[&super::Rule] = &[&deadlock::RULE, &lease::RULE, &file::RULE, &futex::RULE];
