//! Facts from the kernel's log: what it printed in the window, and what it printed about a kill for want of memory.
//!
//! A line is taken apart as far as its own words say who it is about; which finding it belongs to is said in
//! answer/kernel_log.rs. Must not hold lines that a process wrote to /dev/kmsg: the kernel marks them with another facility.
//! Rejected: the whole log (a dump of one kill has a hundred lines, and a flood has no end).
//!
//! Edit together: `probe/src/readers/kernel_log/`, which fills them.

use serde::{Deserialize, Serialize};

/// One line of the kernel's log. Source: /dev/kmsg (Documentation/ABI/testing/dev-kmsg), facility kernel. Its time is that
/// of the log's own clock, cut to the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLogLine {
    /// What it is about.
    pub kind: KernelLogKind,
    /// Severity, 0 (emergency) to 7 (debug), as in printk.
    pub level: u8,
    /// The line, its control characters escaped by the kernel, cut at 240 bytes.
    pub text: String,
    /// The thread that it names; 0 for none.
    #[serde(skip_serializing_if = "is_no_thread")]
    pub tid: u32,
    /// The device, interface, server or cgroup path that it names; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Lines of the same kind and name after it that were only counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreported: u64,
}

fn is_no_thread(tid: &u32) -> bool {
    *tid == 0
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a line is about.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum KernelLogKind {
    /// A process was killed for want of memory.
    OutOfMemory,
    /// A task was blocked for minutes.
    HungTask,
    /// A CPU did nothing else for seconds.
    Stall,
    /// A request of a disk failed.
    IoError,
    /// A file system met an error.
    FileSystem,
    /// A link of a network interface or a disk went down, up, or was reset.
    Link,
    /// A file server does not answer, or its locks cannot be watched.
    FileServer,
    /// A table of the kernel is full: connections, neighbours, open files.
    TableFull,
    /// Connections arrive faster than a listener takes them.
    SynFlood,
    /// A new process was refused by a cgroup.
    ProcessRefused,
    /// Real-time tasks used up their budget.
    RealTime,
    /// A process crashed.
    Crash,
    /// The kernel met a fault in a kernel program of holdup's own; the name is the program's function.
    OwnFault,
    /// None of these; of such lines, errors and worse.
    #[default]
    #[serde(other)]
    Other,
}

/// What the kernel printed about one kill for want of memory. Source: /dev/kmsg (mm/oom_kill.c, dump_header and
/// __oom_kill_process). What it did not print is zero or empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OomReport {
    /// The process that was killed.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Its anonymous memory, bytes.
    pub anon_bytes: u64,
    /// Its memory of files, bytes.
    pub file_bytes: u64,
    /// Its shared memory, bytes.
    pub shmem_bytes: u64,
    /// Whose allocation could not be met.
    pub asked_by: String,
    /// It was asked for by SysRq, not for want of memory (order -1).
    pub by_sysrq: bool,
    /// What was short: `CONSTRAINT_NONE` (the host), `CONSTRAINT_MEMCG`, `CONSTRAINT_CPUSET`, `CONSTRAINT_MEMORY_POLICY`.
    pub constraint: String,
    /// Cgroup whose limit it was; empty for the host.
    pub group: String,
    /// Memory of that cgroup, bytes.
    pub usage_bytes: u64,
    /// The processes that could have been killed, most memory first, at most five.
    pub tasks: Vec<OomTask>,
    /// How many there were.
    pub task_count: u64,
    /// Resident memory of all of them, bytes; what several share counts for each.
    pub tasks_bytes: u64,
}

/// A process that could have been killed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OomTask {
    /// Process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Resident, bytes.
    pub rss_bytes: u64,
    /// In swap, bytes.
    pub swap_bytes: u64,
}
