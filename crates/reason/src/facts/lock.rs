//! Who holds locks, as the kernel's table of file locks and the words of futexes in the waiters' memory say; and who has to do with semaphores, and
//! with words that several processes share.
//!
//! Each is a reading at one time: a lock may have changed hands since. Must not: decide who is to let go (graph/ways/held), or name a process
//! that was not there at the reading. Rejected: one type for both (a file lock has carriers, a word has a thread).
//!
//! Edit together: readers/locks.rs, readers/lock_carriers.rs, readers/standing_waits.rs and readers/semaphores.rs of the probe.

use super::{DeviceNumber, ThreadRef};
use serde::{Deserialize, Serialize};

/// One line of /proc/locks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileLock {
    /// Lock number: the holder and those who wait for it share it.
    pub id: u64,
    /// `FLOCK`, `POSIX`, `OFDLCK` or `LEASE`.
    pub kind: String,
    /// `READ` or `WRITE`.
    pub access: String,
    /// Who took it, or waits for it, as /proc/locks says; 0 if it lives in another PID namespace, -1 for OFD locks. Of a lock
    /// that is held a bare number: its process may be gone, and the number another's.
    pub pid: i64,
    /// Comm of that process at that time; empty if it is gone, or somebody else.
    #[serde(default)]
    pub comm: String,
    /// Device of the file system.
    pub dev: DeviceNumber,
    /// Inode.
    pub ino: u64,
    /// First byte.
    pub start: u64,
    /// Last byte; u64::MAX for the end of the file.
    pub end: u64,
    /// It waits for the lock of that number (a `->` line) rather than holds it.
    pub blocked: bool,
    /// A lease whose holder has been told to give it up, and has not yet.
    #[serde(default)]
    pub breaking: bool,
    /// Who took a lock that is held, if that process was there at the reading and, as far as its descriptors could be read,
    /// may hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taker: Option<ThreadRef>,
    /// Processes that were there at the reading, with a descriptor that carries this lock (/proc/PID/fdinfo), as far as they
    /// were found. An flock outlives the process that took it while another one has the descriptor.
    #[serde(default)]
    pub holders: Vec<ThreadRef>,
    /// Processes of the command, or that were asked about, that have the file open without a lock of their own on it. Looked
    /// for only where refused calls are not reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_in: Vec<ThreadRef>,
    /// Path of the file, from a descriptor of the owner.
    #[serde(default)]
    pub path: Option<String>,
}

impl FileLock {
    /// Processes that have the lock, by the reading, and were there then; who took it first, then by age. Nobody, if none could
    /// be seen.
    pub fn carriers(&self) -> Vec<ThreadRef> {
        let is_taker = |process: &ThreadRef| i64::from(process.pid) == self.pid;
        if !self.holders.is_empty() {
            let mut all = self.holders.clone();
            all.sort_by_key(|process| (!is_taker(process), process.start_ns, process.pid));
            return all;
        }
        // A recording of an earlier release has the name of who was there, and no more.
        let named = || {
            let pid = u32::try_from(self.pid).ok().filter(|pid| *pid > 0)?;
            let comm = self.comm.clone();
            (!comm.is_empty()).then_some(ThreadRef { tid: pid, pid, start_ns: 0, comm })
        };
        self.taker.clone().or_else(named).into_iter().collect()
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Who owns a futex that somebody waits on. Source: the waiter's memory, process_vm_readv.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FutexOwner {
    /// The waiting thread.
    pub waiter: ThreadRef,
    /// Address of the word; 0: no word says it, but the list of its runtime (a mutex of Ruby's).
    pub address: u64,
    /// Value of the word.
    pub word: u32,
    /// Owner's tid as the word (PI futex) or glibc's `__owner` beside it tells; 0 if neither does.
    pub owner_tid: u32,
    /// The same of an owner that is no thread any more, of this process or of any other; 0 if it is one, or that is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gone_tid: u32,
}

/// A semaphore of System V that somebody waits for, as the kernel has it. Source: semctl(2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SysvSemaphore {
    /// The waiting thread.
    pub waiter: ThreadRef,
    /// Number of the set.
    pub set: i32,
    /// Place in the set.
    pub number: u32,
    /// Its value.
    pub value: u32,
    /// The process whose operation on it was the last, if it was there at the reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<ThreadRef>,
    /// The same of one that is gone; 0 if it is there, or not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub gone_pid: u32,
}

/// A word in memory that several processes may share, on which somebody waits. Source: /proc/PID/maps of him and of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedWord {
    /// The waiting thread.
    pub waiter: ThreadRef,
    /// Address of the word.
    pub address: u64,
    /// The file that is mapped there, as maps has it: `/dev/shm/sem.x`, which may be `(deleted)`.
    pub path: String,
    /// Other processes that have it mapped.
    pub users: Vec<ThreadRef>,
    /// All processes were looked through.
    pub is_whole: bool,
}
