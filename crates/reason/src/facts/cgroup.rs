//! Facts of cgroups and containers: settings, counters, names.
//!
//! Owns one vocabulary for cgroup v1 and v2, so that no rule asks which of them it reads: a limit is a
//! limit, in the unit that its field names. Names of containers come from their runtimes' state files and
//! are decoration: the path identifies.

use super::{DeviceNumber, Pressure};
use serde::{Deserialize, Serialize};

/// The settings of a cgroup. Every limit is absent when it is not set or could not be read.
/// Sources: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst; the file is named in `sources`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// Path inside its hierarchy, `/` for the root.
    pub path: String,
    /// Controllers of the hierarchy; empty for v2.
    pub controllers: Vec<String>,
    /// Absolute directory.
    pub directory: String,
    /// Kernfs id (inode of the directory).
    pub id: u64,
    /// CPU quota: microseconds of CPU per period.
    pub cpu_quota_us: Option<u64>,
    /// Its period, microseconds.
    pub cpu_period_us: Option<u64>,
    /// Relative weight (v1 cpu.shares, v2 cpu.weight); 0 of an idle group (cpu.idle), as v2 itself says.
    pub cpu_weight: Option<u64>,
    /// Real-time budget per period, microseconds (v1 with CONFIG_RT_GROUP_SCHED).
    pub rt_runtime_us: Option<i64>,
    /// CPUs allowed by cpuset.
    pub cpus_allowed: Option<Vec<u32>>,
    /// Memory limit, bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Of swap, of a group with a memory limit, bytes (memory.swap.max of v2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_limit_bytes: Option<u64>,
    /// Of memory and swap together, bytes (memory.memsw.limit_in_bytes of v1, where the kernel counts swap).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_and_swap_limit_bytes: Option<u64>,
    /// memory.high of v2, bytes.
    pub memory_high_bytes: Option<u64>,
    /// I/O limits per device.
    pub io_limits: Vec<IoLimit>,
    /// I/O weight, default and per device.
    pub io_weight: Option<u64>,
    /// Frozen (`freezer.state` FROZEN or FREEZING, or `cgroup.freeze` 1).
    pub frozen: Option<bool>,
    /// Number of processes limit.
    pub pids_limit: Option<u64>,
}

/// One I/O limit of a cgroup on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoLimit {
    /// The device.
    pub dev: DeviceNumber,
    /// `read_iops`, `write_iops`, `read_bps` or `write_bps`.
    pub kind: String,
    /// Operations or bytes a second.
    pub per_second: u64,
    /// The file that sets it (`blkio.throttle.write_iops_device`, `io.max`).
    pub file: String,
}

/// A cgroup's counters at one instant. Absent is not zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupSample {
    /// Path inside its hierarchy.
    pub path: String,
    /// Controllers of the hierarchy; empty for v2.
    pub controllers: Vec<String>,
    /// CPU used, nanoseconds.
    pub cpu_usage_ns: Option<u64>,
    /// Periods elapsed with the group active.
    pub cpu_periods: Option<u64>,
    /// Periods in which it ran out of quota.
    pub cpu_throttled_periods: Option<u64>,
    /// Time its run queues stood throttled, summed over CPUs, nanoseconds.
    pub cpu_throttled_ns: Option<u64>,
    /// Memory in use, bytes.
    pub memory_bytes: Option<u64>,
    /// Times the limit was hit (v1 memory.failcnt, v2 memory.events.local max).
    pub memory_limit_hits: Option<u64>,
    /// Times memory.high was exceeded.
    pub memory_high_hits: Option<u64>,
    /// Processes killed for want of memory in the group; of cgroup v2 those of the groups below it count, whose limit it may have been.
    pub oom_kills: Option<u64>,
    /// Times that this group's own limit left no way but a kill (v2 memory.events.local oom).
    pub memory_ooms: Option<u64>,
    /// Page cache, anonymous and shared memory in bytes.
    pub memory_file_bytes: Option<u64>,
    /// See `memory_file_bytes`.
    pub memory_anon_bytes: Option<u64>,
    /// See `memory_file_bytes`.
    pub memory_shmem_bytes: Option<u64>,
    /// Refaults, major faults.
    pub memory_refaults: Option<u64>,
    /// See `memory_refaults`.
    pub major_faults: Option<u64>,
    /// I/O done per device: operations and bytes, reads and writes.
    pub io: Vec<CgroupIo>,
    /// Processes in the group itself. Only older recordings tell it: to read it costs a walk over all threads of the
    /// group, and nothing here asks.
    pub processes: Option<u64>,
    /// Processes and threads with those of the groups below (pids.current), where they are limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// In swap, bytes (v1 memory.stat, v2 memory.swap.current of a group with a memory limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<u64>,
    /// Times a process or thread was refused for want of a number (pids.events, max). The kernel counts it at the group
    /// that asked, or at the one whose limit was met and all above that (6.11 and later).
    pub processes_refused: Option<u64>,
}

/// I/O counters of a cgroup on one device (v2 io.stat, v1 blkio.throttle.io_service*).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupIo {
    /// The device.
    pub dev: DeviceNumber,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

/// A container by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The name a user knows it by.
    pub name: String,
    /// Full id, or the cgroup path for plain cgroups.
    pub id: String,
    /// `docker`, `containerd`, `cri-o`, `podman`, `lxc`, `nspawn`, `kubernetes`, `systemd`, `cgroup`.
    pub runtime: String,
    /// Cgroup paths that belong to it (any hierarchy).
    pub cgroups: Vec<String>,
    /// Pod and namespace, for Kubernetes.
    pub pod: Option<String>,
}

impl Container {
    /// It is a container or a pod of a runtime, and no unit or plain group.
    pub fn is_real(&self) -> bool {
        !self.is_unit() && self.runtime != "cgroup"
    }

    /// It is a unit of the host's service manager.
    pub fn is_unit(&self) -> bool {
        self.runtime == "systemd"
    }

    /// It is a pod, with its containers below it.
    pub fn is_pod(&self) -> bool {
        self.runtime == "kubernetes"
    }

    /// `shop/web-0/main`, `shop/web-0` for a pod itself, `web-1`.
    pub fn full_name(&self) -> String {
        match &self.pod {
            Some(pod) if self.is_pod() => pod.clone(),
            Some(pod) => format!("{pod}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// What is read besides of the container that is looked at, at one instant. Absent is not zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSample {
    /// Processes and threads (pids.current).
    pub pids: Option<u64>,
    /// File pages that were not used again lately, bytes (memory.stat, inactive_file).
    pub inactive_file_bytes: Option<u64>,
    /// In swap, bytes (v1 memory.stat swap, v2 memory.swap.current).
    pub swap_bytes: Option<u64>,
    /// The most memory that it ever had, bytes (v1 memory.max_usage_in_bytes, v2 memory.peak).
    pub memory_peak_bytes: Option<u64>,
    /// Pressure of the group; v1 has none.
    pub pressure: Option<Pressure>,
    /// It has a network namespace of its own.
    pub own_network: Option<bool>,
    /// Interfaces of that namespace (/proc/PID/net/dev).
    pub interfaces: Vec<InterfaceSample>,
}

/// Counters of one network interface since it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceSample {
    /// Its name inside the namespace.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received; of what the kernel joined (GRO), one.
    pub rx_packets: u64,
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that were to be sent and were dropped.
    pub tx_dropped: u64,
}
