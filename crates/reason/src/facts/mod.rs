//! Facts: what was observed, and nothing that was concluded.
//!
//! A fact is one timestamped observation with its source, or its absence with the reason. This
//! module owns the vocabulary in which the kernel side speaks to the reasoning side, and the
//! format of a recording's records (serde, self-describing, fields only ever added, each with a
//! default, so that an old recording stays readable). It must not hold rules: a threshold or a
//! name of a cause does not belong here.
//!
//! Rejected: one dynamic key/value type (it panics far from its cause), and a positional binary
//! format (each added field would make every recording unreadable).
//!
//! Edit together: `probe/src/decode/` (wire to fact), `reason/src/model/` (fact to index).

mod cgroup;
mod denied;
mod disk;
pub(crate) mod goroutine;
mod host;
mod java;
mod kernel_log;
mod lock;
mod memory;
mod messages;
mod net;
mod object;
mod route;
mod sent_to;
mod session;
mod socket_state;
mod thread;
mod thread_ref;
mod unit_job;
mod usage;
mod user_stack;

pub use cgroup::*;
pub use denied::*;
pub use disk::*;
pub use goroutine::*;
pub use host::*;
pub use java::*;
pub use kernel_log::*;
pub use lock::*;
pub use memory::*;
pub use messages::*;
pub use net::*;
pub use object::*;
pub use route::*;
pub use sent_to::*;
pub use session::*;
pub use socket_state::*;
pub use thread::*;
pub use thread_ref::*;
pub use unit_job::*;
pub use usage::*;
pub use user_stack::*;

use serde::{Deserialize, Serialize};

/// A point on CLOCK_MONOTONIC, nanoseconds.
pub type Ns = u64;

/// One observation. The order of a stream of facts is the order of arrival, not of `at_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// When it was observed (CLOCK_MONOTONIC).
    #[serde(rename = "t")]
    pub at_ns: Ns,
    /// What was observed.
    #[serde(flatten)]
    pub body: Body,
}

/// What can be observed. Adding a variant is compatible; changing one is not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "f", content = "v", rename_all = "snake_case")]
pub enum Body {
    /// The machine and its kernel; first fact of every stream.
    Host(Host),
    /// Something that cannot be seen here, with the reason.
    Blind(Blind),
    /// What is looked at.
    Target(Target),
    /// The look begins.
    WindowBegin(WindowBegin),
    /// The look ends; only the closing facts follow.
    WindowEnd(WindowEnd),
    /// The command of `run` has ended.
    CommandEnd(CommandEnd),
    /// What it cost to look.
    Cost(Cost),
    /// Events that were lost, by source.
    Lost(Lost),

    /// Who a thread is.
    Thread(Thread),
    /// Sums of one thread over the window, or over its life inside it.
    ThreadTime(ThreadTime),
    /// One wait that ended.
    Wait(Wait),
    /// One wait that was found standing, at the begin or the end of the window or in between.
    Blocked(Blocked),
    /// One stretch of running or waiting to run, reported only for traced threads (`run`).
    Ran(Ran),
    /// A kernel stack, symbolised, sent once per identity.
    Stack(Stack),
    /// Where in its program a thread that stood still waits.
    UserStack(UserStack),
    /// Who has the lock of an interpreter.
    InterpreterLock(InterpreterLock),
    /// Goroutines of a Go program that stand.
    Goroutines(Goroutines),
    /// Threads of a Java program that wait to enter monitors.
    MonitorWaits(MonitorWaits),
    /// What a process of a database waits for inside the server.
    SessionWait(SessionWait),
    /// The jobs of a manager of units or devices.
    UnitJobs(UnitJobs),
    /// A new thread or process.
    Fork(Fork),
    /// A thread replaced its image.
    Exec(Exec),
    /// A thread ended.
    Exit(Exit),
    /// On-CPU samples of one process and kernel stack over the window.
    Samples(Samples),
    /// What one process did on the CPU, by system call or by the file of its code, over the window.
    Work(Work),
    /// What one thread asked of the kernel while it was sampled.
    Effort(Effort),
    /// What one thread sent and received by calls of sockets over the window.
    Messages(Messages),
    /// Where sockets of a process that are not connected send to.
    SentTo(SentTo),
    /// A stop signal, or a continue, that was sent in the window.
    Signal(Signal),
    /// A system call that was refused.
    Denied(Denied),

    /// One process's hold on an object: an open descriptor.
    Endpoint(Endpoint),
    /// One line of the kernel's file lock table.
    FileLock(FileLock),
    /// The owner of a futex, read from the waiter's memory.
    FutexOwner(FutexOwner),
    /// A semaphore of System V that is waited for.
    SysvSemaphore(SysvSemaphore),
    /// A word in shared memory that is waited on.
    SharedWord(SharedWord),
    /// A mount.
    Mount(Mount),

    /// Who a disk is.
    Disk(Disk),
    /// A disk's counters at one instant.
    DiskSample(DiskSample),
    /// How a disk's cache has done, at one instant.
    DiskCacheSample(DiskCacheSample),
    /// Latency of a disk's requests over the window.
    DiskLatency(DiskLatency),
    /// One long request.
    Request(Request),
    /// What one process asked of one disk over the window.
    DiskUse(DiskUse),
    /// What one process made dirty of one file system over the window.
    Dirtied(Dirtied),

    /// The settings of a cgroup.
    Cgroup(Cgroup),
    /// A cgroup's counters at one instant.
    CgroupSample(CgroupSample),
    /// A container, from its runtime's state.
    Container(Container),
    /// What is read besides of the container that is looked at.
    ContainerSample(ContainerSample),

    /// One CPU's times at one instant.
    CpuSample(CpuSample),
    /// Soft interrupts of one CPU at one instant.
    SoftirqSample(SoftirqSample),
    /// How quickly a CPU may run.
    CpuFrequency(CpuFrequency),
    /// Memory state of the host at one instant.
    MemorySample(MemorySample),
    /// Pressure stall information of the host at one instant.
    Pressure(Pressure),
    /// A shared anonymous memory segment.
    SharedSegment(SharedSegment),
    /// One thread's time in reclaim over the window.
    Reclaim(Reclaim),
    /// What one process brought into the page cache over the window.
    CacheFill(CacheFill),
    /// Pages of one file that one process brought in again.
    FileRefault(FileRefault),
    /// One thread's pauses at the dirty limit over the window.
    DirtyPause(DirtyPause),
    /// A process was killed for want of memory.
    OomKill(OomKill),
    /// What the kernel printed about such a kill.
    OomReport(OomReport),
    /// A line of the kernel's log.
    KernelLog(KernelLogLine),

    /// A network interface.
    Link(Link),
    /// A queueing discipline's state at one instant.
    QdiscSample(QdiscSample),
    /// Time that packets spent in a queueing discipline over the window.
    QdiscSojourn(QdiscSojourn),
    /// One flow's share in a queueing discipline over the window.
    QdiscFlow(QdiscFlow),
    /// Packets that were dropped for one reason over the window.
    PacketDrops(PacketDrops),
    /// A rule of the packet filter that drops.
    FilterRule(FilterRule),
    /// A process that has a tun or tap device open.
    TapReader(TapReader),
    /// A socket that has an interface take every frame.
    PacketSocket(PacketSocket),
    /// Which CPUs packets are handed on to.
    ReceiveSteering(ReceiveSteering),
    /// How many connections go to one address.
    PortUse(PortUse),
    /// An address that cannot be used.
    UnusableAddress(UnusableAddress),
    /// By which interfaces packets are taken.
    ReversePath(ReversePath),
    /// How the driver of an interface is set.
    LinkSettings(LinkSettings),
    /// A DNS question that was sent.
    DnsQuery(DnsQuery),
    /// A DNS answer that arrived.
    DnsReply(DnsReply),
    /// Protocol counters of one network namespace at one instant.
    NetCounters(NetCounters),
    /// The next hop to an address that does not answer.
    NextHop(NextHop),
    /// That who is asked has no way back to who asks.
    NoWayBack(NoWayBack),
    /// Which interface has an address that does not answer.
    AddressHere(AddressHere),
    /// That nothing is sent to an address, by the routes.
    Unrouted(Unrouted),
    /// A connection's addresses at both of its ends, where they are translated between.
    Translation(Translation),
    /// What sysctls of the networking say.
    Sysctl(Sysctl),
    /// How much is used of something that can be used up.
    Usage(Usage),
    /// Neighbour entries that no limit counts.
    PermanentNeighbours(PermanentNeighbours),
}
