//! Kinds of locks, as programs know them: the words of the contract and of sentences.
//!
//! The kernel sees a word of memory or a descriptor; what it stands for is in the program's functions (lock_functions.rs).
//! Owns the closed list and what is true of each kind whoever waits. Must not: read a stack (user_stack.rs).
//!
//! Edit together: docs/json.md (the words), lock_functions.rs.

use serde::{Deserialize, Serialize};

/// What a program calls the thing that its thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A lock for several readers or one writer.
    Rwlock,
    /// A semaphore.
    Semaphore,
    /// A condition that somebody signals.
    Condition,
    /// The end of a thread.
    Join,
    /// All of a group to arrive.
    Barrier,
    /// An initialisation that is done once.
    Once,
    /// A message, or room for one.
    Channel,
    /// A message in a queue of the kernel (POSIX or System V).
    Message,
    /// Room in a queue, of the kernel or of a language: whoever has something to give waits for its reader.
    MessageRoom,
    /// To be unparked.
    Park,
    /// The lock that one thread of an interpreter has at a time.
    InterpreterLock,
    /// A lock of an interpreter's program.
    ProgramLock,
    /// A monitor of the Java virtual machine.
    Monitor,
    /// The garbage collection, or another pause of all threads.
    GarbageCollection,
    /// A row of a table.
    RowLock,
    /// A table.
    TableLock,
    /// The definition of a table.
    MetadataLock,
    /// A lock that the client asked for by a name or number.
    AdvisoryLock,
    /// Another lock in a database's table of locks.
    DatabaseLock,
    /// A short lock of a server on its own memory.
    ServerLock,
    /// Others to let go of a page in memory.
    BufferPin,
    /// The confirmation of a replica.
    Replica,
    /// A checkpoint of a database.
    Checkpoint,
    /// A database's log to be archived.
    Archive,
    /// Work: nobody is waited for.
    Idle,
}

impl LockKind {
    /// As a sentence says it: "waits for ...".
    pub fn phrase(self) -> &'static str {
        use LockKind::*;
        match self {
            Mutex => "a mutex",
            Rwlock => "a read-write lock",
            Semaphore => "a semaphore",
            Condition => "a condition",
            Join => "the end of a thread",
            Barrier => "a barrier",
            Once => "an initialisation",
            Channel => "a channel",
            Message => "a message in a queue",
            MessageRoom => "room in a queue",
            Park => "the wake-up of a parked thread",
            InterpreterLock => "the interpreter lock",
            ProgramLock => "a lock",
            Monitor => "a monitor",
            GarbageCollection => "the garbage collection",
            RowLock => "a row lock",
            TableLock => "a table lock",
            MetadataLock => "a metadata lock",
            AdvisoryLock => "an advisory lock",
            DatabaseLock => "a lock of the database",
            ServerLock => "a lock of the server on its own memory",
            BufferPin => "a page that others use",
            Replica => "the confirmation of a replica",
            Checkpoint => "a checkpoint",
            Archive => "the archiving of its log",
            Idle => "work",
        }
    }

    /// Somebody has it, and has to let go of it. The others are brought about by somebody.
    pub fn is_held(self) -> bool {
        use LockKind::*;
        !matches!(
            self,
            Semaphore
                | Condition
                | Join
                | Barrier
                | Once
                | Channel
                | Message
                | MessageRoom
                | Park
                | GarbageCollection
                | Replica
                | Checkpoint
                | Archive
                | Idle
        )
    }

    /// Whoever waits for it is held up: it is waited for only while somebody else has it. A lock of an interpreter's program
    /// is not among them: pools wait for work by such a lock.
    pub fn holds_up(self) -> bool {
        self.is_held() && self != Self::ProgramLock
    }

    /// A session of a server has it until its transaction ends.
    pub fn is_of_a_session(self) -> bool {
        use LockKind::*;
        matches!(self, RowLock | TableLock | MetadataLock | AdvisoryLock | DatabaseLock)
    }

    /// A server waits so for another server, or for a process of its own, whatever ends each piece of the wait.
    pub fn is_of_a_server(self) -> bool {
        matches!(self, Self::Replica | Self::Checkpoint | Self::Archive)
    }

    /// The word is none of a lock, whatever it holds.
    pub fn is_no_lock(self) -> bool {
        use LockKind::*;
        matches!(self, Condition | Join | Barrier | Channel | MessageRoom | Park)
    }

    /// Nobody waits for work by it: there is always somebody who has to come to its end.
    pub fn is_never_work(self) -> bool {
        matches!(self, Self::Join | Self::Barrier | Self::Once | Self::MessageRoom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_and_a_condition_is_brought_about() {
        assert!(LockKind::RowLock.is_held() && !LockKind::Condition.is_held());
        assert_eq!(LockKind::InterpreterLock.phrase(), "the interpreter lock");
    }
}
