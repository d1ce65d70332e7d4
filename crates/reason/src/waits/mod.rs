//! Waits: what each is for, on what, and when.
//!
//! This file owns the classes of waits and their properties; classify.rs finds the class, objects.rs the object, retries.rs
//! both of a sleep between refusals, nagle.rs what of a wait is for an acknowledgement; user_stack.rs the kind of a lock;
//! span.rs is one wait, timeline.rs puts a thread's waits in order. Must not: follow who ended a wait (graph/), or weigh it.
//! Edit together: classify.rs, objects.rs, docs/json.md (the words).

mod asked;
pub(crate) mod classify;
mod disk_at_work;
pub mod dns_question;
mod ended;
mod failing;
mod families;
mod functions;
mod futex_handoff;
pub mod futex_value;
pub mod goroutines;
mod interpreter_lock;
mod kernel_lock;
pub mod monitor;
mod nagle;
pub mod objects;
mod open_locked;
pub mod poll_intent;
mod polled_timer;
pub mod pools;
pub mod retries;
mod session_pieces;
pub mod session_wait;
mod slept_on;
pub mod span;
mod stretches;
pub mod timeline;
pub mod turned_away;
mod turns_for_work;
pub mod unit_job;
pub mod user_stack;

pub use classify::{classify, classify_ended, lock_caller};
pub use functions::{LOCKD_FUNCTIONS, STATD_FUNCTIONS};

use serde::{Deserialize, Serialize};

/// What a thread does, or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitClass {
    /// On a CPU.
    Running,
    /// Ready, waits for a CPU.
    RunQueue,
    /// Ready, but its group has used up its CPU quota.
    CpuQuota,
    /// A disk: before it or inside it (queues.rs tells which).
    Disk,
    /// A commit of the file system's journal.
    Journal,
    /// Paused at the dirty page limit.
    DirtyThrottle,
    /// Frees memory, or waits for it.
    Reclaim,
    /// A page from swap.
    SwapIn,
    /// A page of a mapped file.
    PageFault,
    /// A file lock or lease.
    FileLock,
    /// A futex that stands for a lock.
    FutexLock,
    /// A futex that stands for a condition, a semaphore or a join: idle unless somebody is waited for.
    FutexWait,
    /// A lock inside the kernel.
    KernelLock,
    /// Data from a connected socket.
    SocketRead,
    /// Room in a socket's send buffer.
    SocketWrite,
    /// A connection to be made.
    SocketConnect,
    /// An acknowledgement: Nagle's algorithm keeps back what it has written to a connection until then.
    Nagle,
    /// An answer to a DNS question.
    Dns,
    /// Data from a pipe.
    PipeRead,
    /// Room in a pipe.
    PipeWrite,
    /// Data from a unix socket.
    UnixRead,
    /// Room in a unix socket, or its peer's backlog.
    UnixWrite,
    /// Room in a terminal's output.
    TtyWrite,
    /// A terminal's output, which somebody stopped with ctrl-S, to be let go on.
    TtyStopped,
    /// A child to end.
    Child,
    /// A child of vfork to exec or end.
    Vfork,
    /// A file system served by a process.
    FuseDaemon,
    /// A program's leave to open, read or execute a file (fanotify).
    FileLeave,
    /// Time to pass.
    Timer,
    /// Asleep before it tries again to get a lock, or to make a file that is there.
    PolledLock,
    /// Asleep before it asks again for what a limit refuses.
    RefusedLimit,
    /// Asleep before it asks again for what it has no right to.
    RefusedRight,
    /// Asleep before it tries again to connect where nobody listens.
    RefusedConnection,
    /// Asleep before it tries again to take an address that somebody has.
    TakenAddress,
    /// Asleep before it tries again to take an address that this host does not have, or to connect without a port that is free.
    NoAddress,
    /// Asleep before it tries again to connect to an address that cannot be reached from here.
    NoRoute,
    /// Asleep before it runs a program again that has failed.
    FailedProgram,
    /// The end of a process that ignores the signal which asks it to end.
    UnheededSignal,
    /// Asleep before it looks again whether a process has ended.
    ProcessEnd,
    /// Its cgroup to be thawed.
    FrozenCgroup,
    /// A frozen file system to be thawed.
    FrozenFs,
    /// A signal to continue.
    Stopped,
    /// Its tracer.
    Traced,
    /// It has ended: its parent to wait for it.
    Zombie,
    /// It has ended, and is the first of a process whose other threads live: them to end.
    EndedThread,
    /// Work to arrive: events, connections, signals, input.
    Idle,
    /// Something in the kernel that has no name here.
    Kernel,
    /// It did not run and was not seen to wait long: many short waits, or not observed.
    Unseen,
}

impl WaitClass {
    /// The word of reports and JSON.
    pub fn word(self) -> &'static str {
        use WaitClass::*;
        match self {
            Running => "running",
            RunQueue => "run queue",
            CpuQuota => "CPU quota",
            Disk => "disk",
            Journal => "journal",
            DirtyThrottle => "dirty limit",
            Reclaim => "memory reclaim",
            SwapIn => "swap-in",
            PageFault => "page fault",
            FileLock => "file lock",
            FutexLock => "futex",
            FutexWait => "thread",
            KernelLock => "kernel lock",
            SocketRead => "socket",
            SocketWrite => "socket full",
            SocketConnect => "connection",
            Nagle => "acknowledgement",
            Dns => "DNS",
            PipeRead => "pipe",
            PipeWrite => "pipe full",
            UnixRead => "unix socket",
            UnixWrite => "unix socket full",
            TtyWrite => "terminal",
            TtyStopped => "stopped terminal",
            Child => "child",
            Vfork => "vfork",
            FuseDaemon => "FUSE daemon",
            FileLeave => "leave for a file",
            Timer => "timer",
            PolledLock => "polled lock",
            RefusedLimit => "limit",
            RefusedRight => "refused right",
            RefusedConnection => "refused connection",
            TakenAddress => "taken address",
            NoAddress => "no address",
            NoRoute => "no route",
            FailedProgram => "failed program",
            UnheededSignal => "ignored signal",
            ProcessEnd => "end of a process",
            FrozenCgroup => "frozen cgroup",
            FrozenFs => "frozen file system",
            Stopped => "stopped",
            Traced => "traced",
            Zombie => "zombie",
            EndedThread => "ended thread",
            Idle => "idle",
            Kernel => "kernel",
            Unseen => "not seen",
        }
    }

    /// A wait with work outstanding, whoever waits: it may become a finding by itself.
    pub fn is_demand(self) -> bool {
        use WaitClass::*;
        !matches!(
            self,
            Running
                | FutexWait
                | SocketRead
                | PipeRead
                | UnixRead
                | Child
                | ProcessEnd
                | Timer
                | Traced
                | Stopped
                | FrozenCgroup
                | Zombie
                | EndedThread
                | Idle
                | Kernel
                | Unseen
        )
    }

    /// A wait for somebody, which is work outstanding only if that somebody is held up himself.
    pub fn is_for_somebody(self) -> bool {
        use WaitClass::*;
        matches!(self, FutexWait | SocketRead | PipeRead | UnixRead | Child | ProcessEnd)
    }

    /// For the next event, for another thread or for the clock: as far as the wait tells, nothing is to be done.
    pub fn is_rest(self) -> bool {
        matches!(self, Self::Idle | Self::FutexWait | Self::Timer)
    }

    /// The wait names a cause by itself: nobody has to be followed further.
    pub fn is_root(self) -> bool {
        use WaitClass::*;
        matches!(
            self,
            RunQueue
                | CpuQuota
                | Disk
                | DirtyThrottle
                | Reclaim
                | SwapIn
                | PageFault
                | SocketConnect
                | Nagle
                | TtyStopped
                | FrozenCgroup
                | FrozenFs
                | RefusedLimit
                | RefusedRight
                | RefusedConnection
                | TakenAddress
                | NoAddress
                | NoRoute
                | FailedProgram
                | UnheededSignal
                | Stopped
                | Traced
                | Zombie
        )
    }

    /// For something that no thread of its own process can give.
    pub fn is_outside(self) -> bool {
        use WaitClass::*;
        matches!(
            self,
            Disk | PageFault
                | Journal
                | DirtyThrottle
                | Reclaim
                | SwapIn
                | FileLock
                | PolledLock
                | RefusedLimit
                | RefusedRight
                | RefusedConnection
                | TakenAddress
                | NoAddress
                | NoRoute
                | Nagle
                | SocketRead
                | SocketConnect
                | Dns
                | FuseDaemon
                | FileLeave
        )
    }

    /// For room in a buffer that somebody else empties.
    pub fn is_full(self) -> bool {
        use WaitClass::*;
        matches!(self, PipeWrite | UnixWrite | SocketWrite | TtyWrite)
    }

    /// Somebody holds what is waited for: if his own time has no name, holding is the cause.
    pub fn is_held(self) -> bool {
        use WaitClass::*;
        matches!(
            self,
            FileLock
                | PolledLock
                | FutexLock
                | KernelLock
                | FuseDaemon
                | FileLeave
                | PipeWrite
                | TtyWrite
                | SocketWrite
                | UnixWrite
                | Vfork
                | Journal
                | Dns
        )
    }
}
