//! Facts of threads: who they are, how long they ran and waited, on what, and who ended it.
//!
//! Identity is (tid, start time), since tids are used again. Short waits arrive only within the sums of
//! their thread, long ones as events too: both count the same time, so a rule adds up one of them.
//! An interrupt's waking names its context, because the thread it interrupted is a bystander.

use super::{DeviceNumber, Ns, ObjectRef, ThreadRef};
use serde::{Deserialize, Serialize};

/// Who a thread is, from /proc.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Its name.
    pub thread: ThreadRef,
    /// Parent process.
    pub parent_pid: u32,
    /// Process group (one job of a shell, one service), 0 if unknown.
    pub process_group: u32,
    /// Session (what began with one login, or one daemon), 0 if unknown.
    pub session: u32,
    /// Process group in the foreground of its terminal (`tpgid`); none without a terminal, or if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreground_group: Option<u32>,
    /// A kernel thread.
    pub kernel: bool,
    /// Command line, NULs as spaces, cut at 200 bytes; empty for kernel threads or if it could not
    /// be read without risk of blocking.
    pub command: String,
    /// Path of the executable.
    pub executable: String,
    /// Cgroups as /proc/PID/cgroup lists them.
    pub cgroups: Vec<Membership>,
    /// Process and thread id inside the thread's own PID namespace, if that is not the initial one.
    pub inner_pid: Option<u32>,
    /// See `inner_pid`.
    pub inner_tid: Option<u32>,
    /// Inode of the network namespace, 0 if unknown.
    pub netns: u32,
    /// CPUs it may run on, as a list of numbers.
    pub cpus_allowed: Vec<u32>,
    /// Nodes that its memory may come from (`Mems_allowed_list`); empty where it is not known, or there is one node alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_nodes_allowed: Vec<u32>,
    /// Scheduling policy as the kernel numbers it (0 other, 1 FIFO, 2 RR, 3 batch, 5 idle, 6 deadline).
    pub policy: u32,
    /// Priority under FIFO or RR; none under another policy, or if it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rt_priority: Option<u32>,
    /// Nice value.
    pub nice: i32,
    /// I/O class from bit 13 on (0 none, 1 real-time, 2 best effort, 3 idle) and level below, as they were set (ioprio_get(2)); none if not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_priority: Option<u32>,
    /// State letter of /proc/PID/stat at that time.
    pub state: String,
    /// Process that traces it, or 0.
    pub tracer_pid: u32,
    /// Resident set of the process, bytes.
    pub rss_bytes: u64,
    /// Of the process in swap, bytes (`VmSwap`); of a kernel thread none.
    pub swap_bytes: Option<u64>,
    /// Effective capabilities, a mask (`CapEff`).
    pub capabilities: Option<u64>,
    /// Effective user, as the user namespace of whoever looks numbers it (`Uid`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// That user's name, if /etc/passwd has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `wchan`, where stacks cannot be had.
    pub wchan: String,
}

/// A cgroup that a thread is in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Membership {
    /// Controllers of the hierarchy (`cpu`, `memory`, ...); empty for the v2 hierarchy.
    pub controllers: Vec<String>,
    /// Path inside the hierarchy.
    pub path: String,
}

/// Sums over one thread's share of the window: `run + runnable + sleep + disk = until - since`.
/// Source: sched_switch and sched_waking, and the scheduler's run_delay and counts of switches (task_struct); without
/// BPF, /proc/TID/schedstat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadTime {
    /// The thread.
    pub thread: ThreadRef,
    /// The later of the window's begin and the thread's begin.
    pub since_ns: Ns,
    /// The earlier of the window's end and the thread's end.
    pub until_ns: Ns,
    /// On a CPU.
    pub run_ns: Ns,
    /// Ready, but not on a CPU.
    pub runnable_ns: Ns,
    /// Blocked, interruptible or stopped.
    pub sleep_ns: Ns,
    /// Blocked, uninterruptible.
    pub disk_sleep_ns: Ns,
    /// The part of the two above that the kernel counts as I/O wait.
    pub iowait_ns: Ns,
    /// Voluntary and involuntary switches.
    pub switches: u64,
    /// Switches out while it could have gone on.
    pub preemptions: u64,
    /// A kernel thread.
    pub kernel: bool,
    /// CPU cgroup (kernfs id), 0 if unknown.
    pub cpu_cgroup_id: u64,
    /// Cgroup in the v2 hierarchy (kernfs id), 0 if unknown.
    pub cgroup_id: u64,
    /// Runnable time during which its group was throttled for CPU quota, as far as it was seen.
    pub throttled_ns: Ns,
    /// On a CPU, as the scheduler itself counts it (`se.sum_exec_runtime`), from the walk of all threads at the begin on:
    /// a second witness of `run_ns`. Of a thread that is running up to a tick less. None if it was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<Ns>,
    /// Process that is its parent at `until_ns` (or that adopted it), in the initial PID namespace; 0 if it has none, or
    /// unknown.
    pub parent_pid: u32,
}

/// The scheduler state in which a thread waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitState {
    /// Ready to run, waits for a CPU (it was preempted, or the wait has no blocked part).
    #[default]
    Runnable,
    /// Interruptible sleep (S).
    Sleep,
    /// Uninterruptible sleep (D).
    DiskSleep,
    /// Uninterruptible and idle by declaration (I).
    Idle,
    /// Stopped by a signal (T).
    Stopped,
    /// Stopped by a tracer (t).
    Traced,
    /// Frozen by a cgroup freezer.
    Frozen,
    /// Ended (Z): what is left is its id, until its parent has waited for it; of the first of several threads, until they have
    /// ended too.
    Ended,
    /// Anything else.
    Other,
}

/// From where a thread was woken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeContext {
    /// Not seen.
    #[default]
    Unknown,
    /// By the thread that was running, in its own context.
    Task,
    /// In a soft interrupt; the running thread is a bystander unless it owns the object's other end.
    SoftInterrupt,
    /// In a hard interrupt; the running thread is a bystander.
    HardInterrupt,
}

/// How a wait ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wake {
    /// When.
    pub at_ns: Ns,
    /// From where.
    pub context: WakeContext,
    /// Who was running: the waker if `context` is `Task`, else perhaps a bystander.
    pub by: ThreadRef,
    /// The waker is a kernel thread.
    pub by_kernel_thread: bool,
    /// Disk whose request completed on this CPU in the same breath.
    pub disk: Option<DeviceNumber>,
}

/// Where in the kernel a thread waits: the system call, the stack, the object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// State while it waits.
    pub state: WaitState,
    /// The kernel counts it as I/O wait.
    pub iowait: bool,
    /// System call by name (`read`, `futex`), empty outside of one (page fault, kernel thread).
    pub syscall: String,
    /// Its raw arguments.
    pub args: [u64; 6],
    /// Identity of the kernel stack (a `Stack` fact carries it), 0 if there is none.
    pub stack: u32,
    /// The object behind the descriptor argument; in poll, select and epoll the one object that it is plain
    /// is waited for, or that ended the wait.
    pub object: Option<ObjectRef>,
    /// In poll and select: it is to be written to, not read from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub polled_for_room: bool,
    /// Disk that the thread last submitted a bio to, if this wait may have come of it: it has not slept since, or, where it waits
    /// uninterruptibly, a few times at most.
    pub disk: Option<DeviceNumber>,
    /// CPU on which it last ran.
    pub cpu: u32,
    /// Of a standing wait in io_uring_enter or io_getevents: operations that the ring or context took and has not
    /// answered. Of a ring it counts a multishot operation's every answer (0 if there were more answers than
    /// operations), and leaves out what asks for none. None elsewhere, and where it cannot be read: of a context, as
    /// long as a CPU has not switched since the look began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub async_in_flight: Option<u32>,
    /// Of a standing wait that may be for a disk (asynchronous I/O and its workers, uninterruptible I/O wait): what
    /// blk-throttle holds back of the thread's group. None if nothing, or where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back: Option<HeldBack>,
    /// Of a wait on a TCP connection of which a small segment left late, or has not left: see there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nagle: Option<Nagle>,
    /// Of a standing wait for one of several descriptors of which `object` does not say which: they, as far as the waiter's
    /// memory tells, and not more than 64. In looks at a process or a command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub polled: Vec<u32>,
    /// How long the call waits at most. Where wake-ups are not seen, by its arguments or the memory that they point to; of a standing wait for one
    /// of several descriptors also by a timer that is among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ns: Option<Ns>,
    /// Of a standing wait on a terminal: its output is stopped by ctrl-S.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub output_stopped: bool,
    /// Of an uninterruptible wait: the sleeping lock of the kernel that it is for. Of an inode's lock, `object` is the inode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<Box<KernelLock>>,
}

impl Place {
    /// Whether its system call waits for whichever of several descriptors comes first.
    pub fn is_for_several(&self) -> bool {
        matches!(
            self.syscall.as_str(),
            "poll"
                | "ppoll"
                | "select"
                | "pselect6"
                | "epoll_wait"
                | "epoll_pwait"
                | "epoll_pwait2"
        )
    }

    /// Whether it is an event loop's, in which whatever comes is taken: a library that polls its own connection takes nothing else.
    pub fn is_of_loop(&self) -> bool {
        self.is_for_several() && (self.syscall.starts_with("epoll") || self.polled.len() > 1)
    }
}

/// A sleeping lock of the kernel that a thread waits for. Source: the tracepoints contention_begin and contention_end (since
/// 6.0), or `task_struct::blocker` (since 6.16); the lock's own owner field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLock {
    /// Stands for its address: equal for one lock, within one look.
    pub id: u32,
    /// Which kind of lock.
    pub kind: KernelLockKind,
    /// It is wanted for reading alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// What it guards, where a struct of the kernel points back to it.
    pub guards: Guards,
    /// Of mappings: the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ThreadRef>,
    /// Of a file system: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dev: Option<DeviceNumber>,
    /// Who had it when the wait began, or, of one that stands, when it was looked at. None where the lock keeps no owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<ThreadRef>,
    /// That is one of its readers, and perhaps a former one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_reads: bool,
}

/// Kinds of sleeping locks, by the kernel's names for their structs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelLockKind {
    /// struct mutex.
    Mutex,
    /// struct rw_semaphore.
    RwSemaphore,
    /// struct percpu_rw_semaphore.
    PercpuRwSemaphore,
    /// struct rt_mutex.
    RtMutex,
    /// struct semaphore, or what has no flag of its own.
    #[default]
    Semaphore,
}

/// What a lock of the kernel guards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guards {
    /// Nothing points back to it.
    #[default]
    Unknown,
    /// A directory's entries (`i_rwsem`).
    Directory,
    /// Any other inode (`i_rwsem`).
    Inode,
    /// Who maps a file (`i_mmap_rwsem`).
    Mapping,
    /// A process's mappings (`mmap_lock`).
    Memory,
    /// A mounted file system (`s_umount`).
    FileSystem,
}

/// What a connection's own end had not sent when a wait on it began. Only where Nagle's algorithm is on (neither TCP_NODELAY nor
/// TCP_CORK), and the segment is smaller than the path allows.
/// Source: struct tcp_sock when the wait ended, or where it stands; without BPF, tcp_info.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nagle {
    /// When the last segment left that the other end has; 0 if it is not known.
    pub sent_ns: Ns,
    /// What has not left at that moment, while something that has is not acknowledged.
    pub unsent_bytes: u32,
    /// The shortest round trip that the connection has seen.
    pub round_trip_ns_min: Ns,
}

/// Bios that were submitted and wait for their group's limit (io.max, blkio.throttle): no request of a disk yet.
/// Source: struct throtl_grp of the group and of up to two above it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldBack {
    /// The disk of which most are held, if the kernel tells it.
    pub dev: Option<DeviceNumber>,
    /// How many, of all of the group's threads.
    pub bios: u32,
}

/// One wait that ended: off the CPU, perhaps blocked and then woken, then on the CPU again.
/// `begin_ns <= wake.at_ns <= end_ns`; a thread that was preempted has no wake and waits runnable
/// all along.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// Who waited.
    pub thread: ThreadRef,
    /// A kernel thread.
    pub kernel: bool,
    /// Off the CPU since.
    pub begin_ns: Ns,
    /// On the CPU again at.
    pub end_ns: Ns,
    /// Where.
    pub place: Place,
    /// What made it runnable; none if it was never blocked.
    pub wake: Option<Wake>,
    /// Who had the CPU just before it got it.
    pub ran_before: Option<ThreadRef>,
    /// Its CPU cgroup was throttled when it left the CPU or was woken.
    pub throttled: bool,
    /// CPU cgroup (kernfs id), 0 if unknown.
    pub cpu_cgroup_id: u64,
    /// Cgroup in the v2 hierarchy (kernfs id), 0 if unknown.
    pub cgroup_id: u64,
    /// `begin_ns` was before the window and is known only within scheduler-clock accuracy.
    pub begin_estimated: bool,
}

/// One wait found standing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Blocked {
    /// Who waits.
    pub thread: ThreadRef,
    /// A kernel thread.
    pub kernel: bool,
    /// Since when; may lie long before the window.
    pub since_ns: Ns,
    /// `since_ns` was estimated from the scheduler's clock, not seen.
    pub since_estimated: bool,
    /// It has been woken already (runnable) at this instant.
    pub woken: bool,
    /// Where.
    pub place: Place,
}

/// One stretch on a CPU, reported for traced threads only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Who.
    pub thread: ThreadRef,
    /// From.
    pub begin_ns: Ns,
    /// To.
    pub end_ns: Ns,
    /// Where.
    pub cpu: u32,
}

/// A kernel stack, innermost frame first, function names without offsets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Identity within the stream, from 1.
    pub id: u32,
    /// Function names; an address that has no name stands as `0x...`.
    pub frames: Vec<String>,
}

/// Below these functions of the kernel a thread waits for a file lock or a lease, of this host or by NFS. Facts,
/// because the probe reads the kernel's lock table only if somebody waits so.
pub const FILE_LOCK_FUNCTIONS: &[&str] = &[
    "locks_lock_inode_wait",
    "flock_lock_inode_wait",
    "posix_lock_inode_wait",
    "fcntl_setlk",
    "do_lock_file_wait",
    "__break_lease",
    "nlmclnt_proc",
    "nlmclnt_lock",
    "nlmclnt_block",
    "nsm_monitor",
    "nsm_mon_unmon",
];

/// A new thread or process. Source: task_newtask.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fork {
    /// Who cloned.
    pub parent: ThreadRef,
    /// The new thread.
    pub child: ThreadRef,
    /// clone flags.
    pub flags: u64,
}

/// A thread replaced its image. Source: sched_process_exec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exec {
    /// Who, with its new comm.
    pub thread: ThreadRef,
    /// File that was executed, as it was named.
    pub path: String,
    /// Its number in its innermost PID namespace, if it was seen: one that has ended since can no longer be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
    /// Its arguments, its own name first, as far as they fit into some hundred bytes; the last may be cut. Whoever executes
    /// may put anything there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// A thread ended. Source: sched_process_exit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// Who.
    pub thread: ThreadRef,
    /// With it its process ended: it was the last thread, or the first of a process that ends as a whole (then the last one has this too).
    #[serde(default)]
    pub last: bool,
    /// How it ended, as wait(2) has it: 256 times the exit status, or the signal. None in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
}

/// On-CPU samples of one process and kernel stack. Source: the cpu-clock perf event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// The process; 0 is idle and is not reported.
    pub process: ThreadRef,
    /// Kernel stack, 0 if the CPU was in user mode.
    pub stack: u32,
    /// How many.
    pub count: u64,
    /// Samples a second and CPU.
    pub frequency_hz: u32,
}

/// On-CPU samples of one process in one system call, or in the code of one file. Source: the cpu-clock perf
/// event, the registers and the mapping it hit. The same samples as [`Samples`], counted otherwise; what found no
/// room is missing here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The process.
    pub process: ThreadRef,
    /// System call by name; empty outside of one: its own code, a page fault, an interrupt.
    pub syscall: String,
    /// Path that the system call was given, cut at 63 bytes; that of most samples.
    pub path: String,
    /// Name of the file that its own code is in (`libcrypto.so.3`), without the folder; empty if unknown.
    pub code: String,
    /// How many.
    pub count: u64,
    /// Samples with this very path or file, less those with another.
    pub same_name: u64,
    /// Sum of the sizes that the calls asked for (read, write, pread64, pwrite64, munmap).
    pub asked_bytes: u64,
    /// Samples a second and CPU.
    pub frequency_hz: u32,
    /// Functions of that code and how many samples hit each, most first; of the rest none was named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
}

/// A function that on-CPU samples hit: the innermost, not who called it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Function {
    /// Its name as people write it.
    pub name: String,
    /// Of one that was made at run time: the script and the line that it begins on (`server.js:12`), if its runtime says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Samples.
    pub count: u64,
}

/// One thread's own counters between its first and its last sample. Source: task_struct.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effort {
    /// The thread.
    pub thread: ThreadRef,
    /// First sample.
    pub since_ns: Ns,
    /// Last sample.
    pub until_ns: Ns,
    /// Calls of the read family, on whatever descriptor.
    pub reads: u64,
    /// Bytes that they returned.
    pub read_bytes: u64,
    /// Calls of the write family.
    pub writes: u64,
    /// Bytes that they took.
    pub write_bytes: u64,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// The most of its process that was resident at one of its samples, bytes. Source: mm_struct rss_stat. None: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes_max: Option<u64>,
}

/// A signal that stops, continues, or asks to end. Source: signal_generate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Sender.
    pub from: ThreadRef,
    /// Receiver.
    pub to: ThreadRef,
    /// Signal number.
    pub signal: i32,
    /// The kernel dropped it: the process ignores it, or is the first of a PID namespace and has no handler for it
    /// (kernel/signal.c, TRACE_SIGNAL_IGNORED).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    /// The receiver's process id in its innermost PID namespace; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_pid: Option<u32>,
}

/// SIGINT, SIGQUIT, SIGTERM, SIGPWR and SIGRTMIN+3: by these processes, LXC's init and systemd as one are asked to end.
const END_SIGNALS: [i32; 5] = [2, 3, 15, 30, 37];

impl Signal {
    /// Whether somebody asks another process to end.
    pub fn asks_to_end(&self) -> bool {
        END_SIGNALS.contains(&self.signal) && self.from.pid != self.to.pid
    }
}
