//! The ladder of the fs rules: a copy that is made first of all, since what it waits for is its own doing; then who holds
//! a file system as a whole, and what fills one, which holds nobody up yet.
//!
//! The area stands above the disk's: what a copy waits for a disk is claimed before the disk is asked. Must not hold more
//! than the order.

pub(crate) mod copy_up;
pub(crate) mod frozen;
pub(crate) mod fuse_daemon;
pub(crate) mod space_trend;

/// The rules of this area; the first that matches claims an end.
pub(crate) static LADDER: &[&super::Rule] =
    &[&copy_up::RULE, &frozen::RULE, &fuse_daemon::RULE, &space_trend::RULE];
