//! The ladder of the fs rules.

pub(crate) mod copy_up;
pub(crate) mod frozen;
pub(crate) mod fuse_daemon;

/// The rules of this area; the first that matches claims an end.
pub static LADDER: &[&super::Rule] = &[&copy_up::RULE, &frozen::RULE, &fuse_daemon::RULE];
