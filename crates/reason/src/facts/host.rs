//! Facts of the look itself: the machine and its settings, what cannot be seen, the window, the cost.
//!
//! What is missing is a fact too: [`Blind`] and [`Lost`] travel with the rest, so that an answer from a
//! recording carries the same caveats as the live one. Must not hold what was found out about the host.
//!
//! Edit together: `probe/src/host.rs`, which fills [`Host`].

use super::{Ns, ThreadRef};
use serde::{Deserialize, Serialize};

/// The machine and its kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Version of holdup that observed.
    pub tool_version: String,
    /// `uname -n`.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// Another each time that the host starts. Source: /proc/sys/kernel/random/boot_id; empty if it was not read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// The same at each start, and of no other host: a hash of its machine id; empty if there is none.
    /// Source: /etc/machine-id, as sd_id128_get_machine_app_specific(3) hashes it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine_id_hash: String,
    /// Addresses by which others reach it, a few. Source: /proc/1/net/{fib_trie,if_inet6}.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// CPUs online.
    pub cpus: u32,
    /// Memory in bytes (`MemTotal`).
    pub memory_bytes: u64,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// CONFIG_HZ where it is known, else 0.
    pub config_hz: u32,
    /// Whether the host mounts cgroup v1 controllers, the v2 hierarchy, or both.
    pub cgroup_v1: bool,
    /// See `cgroup_v1`.
    pub cgroup_v2: bool,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC at the begin, nanoseconds.
    pub unix_offset_ns: i64,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC at the begin, nanoseconds.
    pub boot_offset_ns: u64,
    /// Process id of holdup itself, which leaves itself out of its findings.
    pub own_pid: u32,
    /// Whether the kernel can make the qdisc fq_codel: built in, or a module that lies ready; absent if no file tells.
    pub fq_codel: Option<bool>,
    /// Whether kernel events were recorded (BPF), or only /proc was read.
    pub kernel_events: bool,
    /// CPUs that the scheduler leaves alone (isolcpus, isolated cpusets). Source: /sys/devices/system/cpu/isolated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub isolated_cpus: Vec<u32>,
    /// CPUs on which the tick may stop while a thread runs. Source: /sys/devices/system/cpu/nohz_full.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tickless_cpus: Vec<u32>,
    /// The nodes of a machine that has several. Source: /sys/devices/system/node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_nodes: Vec<MemoryNode>,
}

impl Host {
    /// A CPU that is left alone by intent: nobody is to be sent there.
    pub fn is_isolated(&self, cpu: u32) -> bool {
        self.isolated_cpus.contains(&cpu) || self.tickless_cpus.contains(&cpu)
    }
}

/// Memory that some CPUs are nearer to than the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryNode {
    /// Its number.
    pub node: u32,
    /// CPUs of it; none of a node that has memory alone.
    pub cpus: Vec<u32>,
    /// How far it is from each node, in their order: 10 is near, 20 takes twice as long (ACPI SLIT).
    pub distances: Vec<u32>,
}

/// Something that cannot be seen here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Blind {
    /// A stable word: `bpf`, `btf`, `tracepoint.qdisc_enqueue`, `proc.stack`, ...
    pub what: String,
    /// Why it cannot be seen, one clause, from the error met.
    pub why: String,
    /// What would change that, one clause; empty if nothing would.
    #[serde(default)]
    pub remedy: String,
    /// What holdup cannot tell because of it, one clause.
    #[serde(default)]
    pub therefore: String,
    /// The processes of which it cannot be decided, if it is about nobody else; empty if it concerns every look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
}

/// The value of a kernel setting that a rule or a remedy needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sysctl {
    /// Dotted name, below /proc/sys; of transparent huge pages below /sys/kernel/mm.
    pub name: String,
    /// Its text.
    pub value: String,
}

/// What kind of thing is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// The whole host.
    Host,
    /// One container or cgroup.
    Container,
    /// One process.
    Process,
    /// A command that `run` started.
    Command,
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// Host name, container name, comm of the process, or the command's words.
    pub name: String,
    /// The process, for `Process` and `Command`; else 0.
    #[serde(default)]
    pub pid: u32,
    /// Cgroup paths (relative to each mount) that make up a `Container`.
    #[serde(default)]
    pub cgroups: Vec<String>,
    /// The command's words, one by one: `name` does not say where one ends. None in older recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// The look begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowBegin {
    /// Wall clock at the begin, nanoseconds since 1970.
    pub unix_ns: u64,
}

/// The look ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowEnd {
    /// The user ended it early.
    pub interrupted: bool,
    /// Waits shorter than this were counted, not reported; the largest value during the window.
    pub threshold_ns: Ns,
    /// The same for the threads of a command; 0: every one was reported.
    pub traced_threshold_ns: Ns,
    /// Of that, what is not for the rate of events but for the price of looking; 0: nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub least_ns: Ns,
    /// The process whose waits were most when events came too fast to be reported.
    pub flood_by: Option<ThreadRef>,
}

/// The command of `run` has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandEnd {
    /// Its root process.
    pub pid: u32,
    /// Its exit status as a shell reports it (128 + signal if it was killed).
    pub exit_status: i32,
    /// The signal that killed it, or 0.
    #[serde(default)]
    pub signal: i32,
}

/// What it cost to look.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// CPU time of holdup's own process, seconds (getrusage).
    pub cpu_seconds: f64,
    /// CPU time of the kernel programs, seconds (BPF statistics); absent if not measured.
    pub bpf_seconds: Option<f64>,
    /// Peak resident set of holdup, bytes.
    pub rss_bytes: u64,
    /// Kernel events received.
    pub events: u64,
    /// What the scheduler granted holdup's own threads when the look ended; absent in older recordings.
    pub scheduling: Option<OwnScheduling>,
    /// Whether its memory was locked, so that no page of it was read from a disk twice; absent in older recordings.
    pub memory_locked: Option<bool>,
    /// User stacks that were read.
    #[serde(skip_serializing_if = "is_zero")]
    pub user_stacks: u64,
    /// User stacks that were dropped, because their thread had moved meanwhile.
    #[serde(skip_serializing_if = "is_zero")]
    pub user_stacks_torn: u64,
    /// Threads with a wait whose stack was not read, because there was no time for it within a two-hundredth of a CPU.
    #[serde(skip_serializing_if = "is_zero")]
    pub user_stacks_left_out: u64,
    /// CPU time of reading them, seconds; part of the CPU time above.
    #[serde(skip_serializing_if = "is_none_spent")]
    pub user_stacks_seconds: f64,
}

/// What the scheduler grants holdup's own threads (sched(7)). Only where the CPUs are all taken is more asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OwnScheduling {
    /// What every thread has, or what holdup was started with.
    Ordinary,
    /// SCHED_RR at the lowest real-time priority.
    RoundRobin,
    /// SCHED_DEADLINE: half of one CPU.
    Deadline,
    /// SCHED_OTHER at nice -20.
    Nice,
    /// More than ordinary at first, and given back, because the look took more CPU than it was to.
    GivenBack,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_none_spent(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// The source of [`Lost`] that counts switches which the kernel did not tell: seen when a thread leaves a CPU
/// that no event had put it on. Their time is missing from the sums of the threads; no fact is missing.
pub const SWITCHES_UNREPORTED: &str = "switch_untold";

/// The source of [`Lost`] that counts intervals whose end was dated before their begin, by another CPU's clock.
pub const CLOCKS_APART: &str = "negative_interval";

/// Events that were lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// Where: `ring`, `requests`, `packets`, `negative_interval`, ...
    pub source: String,
    /// How many.
    pub count: u64,
}
