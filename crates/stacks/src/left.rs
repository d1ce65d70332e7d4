//! Where blocked threads left user space, and who says so: the kernel programs, or without them /proc.
//!
//! A thread that has not switched since stood still all the time. Must not: know who walks.

use holdup_reason::facts::{Ns, ThreadRef};

/// Where a blocked thread left user space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Left {
    /// Who.
    pub thread: ThreadRef,
    /// When that was seen.
    pub at_ns: Ns,
    /// Blocked since; of a wait that is older than the look, seen since.
    pub since_ns: Ns,
    /// Switches of its life.
    pub switches: u64,
    /// Where its code goes on.
    pub instruction: u64,
    /// Stack pointer.
    pub stack: u64,
    /// Frame pointer.
    pub frame: u64,
    /// Return address, where the CPU has a register for it.
    pub link: u64,
}

impl Left {
    /// Whether it is the same thread in the same wait.
    pub fn is_same(&self, other: &Self) -> bool {
        self.thread.start_ns == other.thread.start_ns && self.switches == other.switches
    }
}

/// Whose registers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All.
    All,
    /// Those of the command.
    Traced,
    /// Those of a process.
    Process(u32),
}

/// What says where blocked threads left user space.
pub trait Walker {
    /// Why it could not.
    type Error;

    /// Of some of them, holdup's own left out.
    fn left(&mut self, whose: Whose) -> Result<Vec<Left>, Self::Error>;
}
