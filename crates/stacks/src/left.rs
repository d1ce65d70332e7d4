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

    /// Whether it is of a program of 32 bits on a kernel of 64. Where it stands is not known where the stack is 0.
    pub fn is_of_32_bits(&self) -> bool {
        self.stack != 0 && is_of_32_bits((self.stack, self.instruction))
    }
}

/// Whether a stack and an instruction are those of a program of 32 bits on a kernel of 64: both lie below 4 GiB. One of 64 bits may have
/// its code there (without PIE), and its stack is above.
pub fn is_of_32_bits((stack, instruction): (u64, u64)) -> bool {
    let is_low = |address: u64| address <= u64::from(u32::MAX);
    cfg!(target_pointer_width = "64") && is_low(stack) && is_low(instruction)
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
