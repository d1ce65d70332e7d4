//! Monitors of a Java program that threads wait to enter, and who has them.
//!
//! The kernel sees words of memory that say neither; the machine's own lists do. Thread ids and an address only. Must not: carry
//! objects of the program.

use serde::{Deserialize, Serialize};

/// Who waited for whom in one process at one instant; empty once nobody waits any more. Source: the process's memory,
/// process_vm_readv, by the table that HotSpot exports for debuggers (vmStructs.hpp).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MonitorWaits {
    /// The process.
    pub pid: u32,
    /// One for each thread that waits.
    pub waits: Vec<MonitorWait>,
}

/// A thread that waits to enter a monitor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MonitorWait {
    /// Its thread id.
    pub waiter_tid: u32,
    /// Thread id of the one that has it, 0 if it is not known.
    pub owner_tid: u32,
    /// Address of the machine's monitor: the same for all who wait for it.
    pub monitor: u64,
}
