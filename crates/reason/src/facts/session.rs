//! What sessions of a database server wait for inside of it, and which processes have that.
//!
//! A server's table of locks lies in its own memory: the kernel sees a session that waits for an event. Numbers of processes alone. Must
//! not: carry what is locked, or a statement.

use serde::{Deserialize, Serialize};

/// What a process of a server waited for at one instant. Source: its memory, process_vm_readv.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionWait {
    /// The process.
    pub pid: u32,
    /// What it waits for; absent once it waits for nothing of these any more.
    pub event: Option<SessionEvent>,
    /// For a lock, the processes of the sessions in its way, as the server numbers them: those that have a lock which excludes its own,
    /// else those that wait before it for one. Empty if they are not known.
    pub holders: Vec<u32>,
    /// Somebody has such a lock who has no process: a transaction that was prepared, and waits to be committed by its name.
    pub held_without_process: bool,
    /// The value of the setting that has it wait so, if there is one that was read.
    pub setting: Option<String>,
}

/// What a process of a database server waits for, as the server itself says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEvent {
    /// A lock on a row, or on the transaction that has changed it.
    RowLock,
    /// A lock on a table, or on room at its end.
    TableLock,
    /// A lock on a number that clients agreed on.
    AdvisoryLock,
    /// Another lock in its table of locks.
    OtherLock,
    /// The confirmation of a commit by a standby server.
    Replica,
    /// A checkpoint to begin, or to be done.
    Checkpoint,
    /// Its log to be archived.
    Archive,
    /// A time to pass, on purpose.
    Sleep,
    /// The next work of a process of the server's own, in its main loop.
    Work,
}
