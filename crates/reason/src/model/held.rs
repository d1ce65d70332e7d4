//! Who holds what: open descriptors, the kernel's table of file locks, owners of futexes, semaphores and shared words.
//!
//! Must not: choose a holder (the graph), or name an object (called.rs).

use super::push::{Push, Series};
use crate::facts::*;

/// What processes were seen to hold.
#[derive(Debug, Default)]
pub struct Held {
    /// Open descriptors, as they were last seen.
    pub(crate) endpoints: Vec<Endpoint>,
    /// When each of them was read.
    pub(crate) endpoints_at: Vec<Ns>,
    /// Sockets among them as they were at the begin, and when they stood still in between: the sights of each in order of time.
    pub(crate) endpoints_before: Vec<(Ns, Endpoint)>,
    /// The lock table, every reading.
    pub(crate) locks: Series<FileLock>,
    /// Futex owners, every reading.
    pub(crate) futex_owners: Series<FutexOwner>,
    /// Semaphores of System V that are waited for, every reading.
    pub(crate) semaphores: Series<SysvSemaphore>,
    /// Words in shared memory that are waited on, every reading.
    pub(crate) shared_words: Series<SharedWord>,
}

impl Held {
    /// Whether a process has a connection to anybody.
    pub(crate) fn has_connection(&self, pid: u32) -> bool {
        let mut own = self.endpoints.iter().filter(|end| end.process.pid == pid);
        own.any(|end| matches!(&end.object, ObjectRef::Inet(socket) if socket.remote.port() != 0))
    }

    /// Whether a process shares a lock, by any reading: it has one on the same part of the file, which keeps nobody from reading. Whoever has a database
    /// open may have such a lock all the while (SQLite's write-ahead log).
    pub(crate) fn is_shared_with(&self, lock: &FileLock, pid: u32) -> bool {
        let part = |of: &FileLock| (of.dev, of.ino, of.start, of.end);
        let has = |own: &FileLock| {
            !own.blocked
                && part(own) == part(lock)
                && own.carriers().iter().any(|process| process.pid == pid)
        };
        lock.access == "READ" && self.locks.iter().any(|(_, own)| has(own))
    }
}

impl Push<Endpoint> for Held {
    /// The same descriptor on the same object again: the former sight was an earlier one.
    fn push(&mut self, at: Ns, endpoint: Endpoint) {
        // Both sights are reported right after each other, so the last one is enough to look at.
        let same = |known: &Endpoint| {
            known.process.pid == endpoint.process.pid
                && known.fd == endpoint.fd
                && known.object_ino() == endpoint.object_ino()
        };
        match self.endpoints.last_mut() {
            Some(known) if same(known) => {
                let before = std::mem::replace(known, endpoint);
                let before_at = self.endpoints_at.pop().unwrap_or(at);
                self.endpoints_before.push((before_at, before));
            }
            _ => self.endpoints.push(endpoint),
        }
        self.endpoints_at.push(at);
    }
}

impl Push<FileLock> for Held {
    fn push(&mut self, at: Ns, lock: FileLock) {
        self.locks.push((at, lock));
    }
}

impl Push<FutexOwner> for Held {
    fn push(&mut self, at: Ns, owner: FutexOwner) {
        self.futex_owners.push((at, owner));
    }
}

impl Push<SysvSemaphore> for Held {
    fn push(&mut self, at: Ns, semaphore: SysvSemaphore) {
        self.semaphores.push((at, semaphore));
    }
}

impl Push<SharedWord> for Held {
    fn push(&mut self, at: Ns, word: SharedWord) {
        self.shared_words.push((at, word));
    }
}
