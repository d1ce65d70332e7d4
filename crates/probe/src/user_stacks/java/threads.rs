//! The list of a Java machine's threads, and each thread's number inside its own container.
//!
//! Owns where the list is (ThreadsSMRSupport, Java 10 and later). Must not: remember: places are used again by other threads.

use super::table::{Table, number, pointer, short};
use crate::user_stacks::called::Memory;
use crate::user_stacks::elf::u64_at;

/// Types of the table that tell.
pub const TYPES: [&str; 5] =
    ["ThreadsSMRSupport", "ThreadsList", "JavaThread", "Thread", "OSThread"];

/// Threads that are read of a list.
const THREADS_MAX: u32 = 4096;

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threads {
    /// Address of the pointer to the list.
    list: u64,
    length: u64,
    first: u64,
    os_thread: u64,
    id: u64,
}

impl Threads {
    /// By the table; none if a field is missing.
    pub fn of(table: &Table) -> Option<Self> {
        Some(Self {
            list: table.address("ThreadsSMRSupport", "_java_thread_list")?,
            length: table.offset("ThreadsList", "_length")?,
            first: table.offset("ThreadsList", "_threads")?,
            os_thread: table.of_thread("_osthread")?,
            id: table.offset("OSThread", "_thread_id")?,
        })
    }

    /// The same library, moved elsewhere.
    pub fn moved(self, by: u64) -> Self {
        Self { list: self.list.wrapping_add(by), ..self }
    }

    /// Where each is described.
    pub fn all(&self, memory: &mut Memory<'_>) -> Option<Vec<u64>> {
        let list = pointer(self.list, memory)?;
        let length = short(list.wrapping_add(self.length), memory)?.min(THREADS_MAX);
        let first = number(list.wrapping_add(self.first), memory)?;
        let mut bytes = vec![0; length as usize * 8];
        memory(first, &mut bytes)?;
        Some(bytes.chunks_exact(8).map(|word| u64_at(word, 0)).collect())
    }

    /// The thread id inside the process's own namespace.
    pub fn id(&self, thread: u64, memory: &mut Memory<'_>) -> Option<u32> {
        let os_thread = number(thread.wrapping_add(self.os_thread), memory)?;
        short(os_thread.wrapping_add(self.id), memory)
    }
}
