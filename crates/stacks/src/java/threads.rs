//! The list of a Java machine's threads, and each thread's number inside its own container.
//!
//! Owns where the list is: an array (ThreadsSMRSupport), or before Java 12 a chain (Threads). Must not: remember: places are used
//! again by other threads.

use super::table::{Table, number, pointer, short};
use crate::called::Memory;
use crate::elf::u64_at;

/// Types of the table that tell.
pub(super) const TYPES: [&str; 6] =
    ["ThreadsSMRSupport", "ThreadsList", "Threads", "JavaThread", "Thread", "OSThread"];

/// Threads that are read of a list.
const THREADS_MAX: u32 = 4096;

/// Where the list is: the address of the pointer to it, and the offsets inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Array { at: u64, length: u64, first: u64 },
    Chain { at: u64, next: u64 },
}

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Threads {
    list: List,
    os_thread: u64,
    id: u64,
}

impl List {
    fn array(table: &Table) -> Option<Self> {
        Some(Self::Array {
            at: table.address("ThreadsSMRSupport", "_java_thread_list")?,
            length: table.offset("ThreadsList", "_length")?,
            first: table.offset("ThreadsList", "_threads")?,
        })
    }

    fn chain(table: &Table) -> Option<Self> {
        Some(Self::Chain {
            at: table.address("Threads", "_thread_list")?,
            next: table.offset("JavaThread", "_next")?,
        })
    }
}

impl Threads {
    /// By the table; none if a field is missing.
    pub(super) fn of(table: &Table) -> Option<Self> {
        Some(Self {
            list: List::array(table).or_else(|| List::chain(table))?,
            os_thread: table.of_thread("_osthread")?,
            id: table.offset("OSThread", "_thread_id")?,
        })
    }

    /// The same library, moved elsewhere.
    pub(super) fn moved(self, by: u64) -> Self {
        let list = match self.list {
            List::Array { at, length, first } => {
                List::Array { at: at.wrapping_add(by), length, first }
            }
            List::Chain { at, next } => List::Chain { at: at.wrapping_add(by), next },
        };
        Self { list, ..self }
    }

    /// Where each is described.
    pub(super) fn all(&self, memory: &mut Memory<'_>) -> Option<Vec<u64>> {
        match self.list {
            List::Array { at, length, first } => {
                let list = pointer(at, memory)?;
                let length = short(list.wrapping_add(length), memory)?.min(THREADS_MAX);
                let first = number(list.wrapping_add(first), memory)?;
                let mut bytes = vec![0; length as usize * 8];
                memory(first, &mut bytes)?;
                Some(bytes.chunks_exact(8).map(|word| u64_at(word, 0)).collect())
            }
            List::Chain { at, next } => {
                let (mut all, mut thread) = (Vec::new(), number(at, memory)?);
                while thread != 0 && all.len() < THREADS_MAX as usize {
                    all.push(thread);
                    thread = number(thread.wrapping_add(next), memory)?;
                }
                Some(all)
            }
        }
    }

    /// The thread id inside the process's own namespace.
    pub(super) fn id(&self, thread: u64, memory: &mut Memory<'_>) -> Option<u32> {
        let os_thread = number(thread.wrapping_add(self.os_thread), memory)?;
        short(os_thread.wrapping_add(self.id), memory)
    }
}
