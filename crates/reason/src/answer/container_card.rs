//! The container's card in the JSON contract: counters and limits, nothing judged.
//!
//! Fields are only ever added; one that was not read is left out. Must not hold how they are computed (card.rs).
//!
//! Edit together: docs/json.md, report's text/card.rs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a container used in the window, beside its limits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// `docker`, `podman`, `systemd`, ... as of a container; `cgroup` for a plain one.
    pub runtime: String,
    /// Its full id, or its cgroup path.
    pub id: String,
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Pod, as `NAMESPACE/POD`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its cgroups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::CARD_MAX)))]
    pub cgroups: Vec<String>,
    /// Its CPU time.
    pub cpu: CardCpu,
    /// Its memory, at the end of the look.
    pub memory: CardMemory,
    /// Disks that it used or has a limit on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::CARD_MAX)))]
    pub disks: Vec<CardDisk>,
    /// Whether it has a network namespace of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_network: Option<bool>,
    /// Interfaces of that namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = super::bounds::CARD_MAX)))]
    pub interfaces: Vec<CardInterface>,
    /// How long some of it stood still for want of a resource; cgroup v1 does not count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<CardPressure>,
    /// Processes and threads at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// How many there may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<u64>,
}

/// CPU time of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CardCpu {
    /// Used in the window, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_seconds: Option<f64>,
    /// Used since the group was made, seconds, at the end of the look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_seconds: Option<f64>,
    /// How many CPUs its quota is worth; the tightest of its groups and those above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_cpus: Option<f64>,
    /// The group that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_group: Option<String>,
    /// Periods of the quota in which it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// Of these, those in which it ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Time that its run queues stood still for it, summed over CPUs, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
    /// Relative weight (v1 cpu.shares, v2 cpu.weight).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// How many CPUs it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_allowed: Option<u64>,
}

/// Memory of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CardMemory {
    /// Charged to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Of it, all but file pages that were not used again lately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    /// The most that it ever had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Anonymous: heaps and stacks (v1 rss, v2 anon).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anon_bytes: Option<u64>,
    /// Page cache, shared memory included (v1 cache, v2 file).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Shared memory and tmpfs: part of the cache, and not reclaimable without swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<u64>,
    /// In swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<u64>,
    /// The tightest limit of its groups and those above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The group that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_group: Option<String>,
    /// memory.high of v2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_bytes: Option<u64>,
    /// How often limits were met.
    #[serde(flatten)]
    pub met: CardLimitsMet,
    /// Processes killed for want of memory in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<u64>,
    /// Read again soon after it was dropped, bytes in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refault_bytes: Option<u64>,
    /// Page faults that waited for a disk, in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<u64>,
}

/// How often limits of a container's memory were met. The kernel counts that where the limit is set, and not below.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CardLimitsMet {
    /// How often its own limit was met in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_hits: Option<u64>,
    /// The same since the group was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_hits_total: Option<u64>,
    /// How often the tightest limit was met in the window, by whoever is in the group that sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_group_hits: Option<u64>,
    /// How often it was over its own memory.high in the window, and was slowed down for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_hits: Option<u64>,
}

/// A disk that a container used, or has a limit on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CardDisk {
    /// The disk.
    pub name: String,
    /// Reads in the window.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes in the window; what is written back later counts for who dirtied it with cgroup v2 only.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Counted by what its processes were seen to ask for, because the group's own counters stand still (cgroup v1 without a
    /// limit).
    pub by_events: bool,
    /// Limits: `read_iops`, `write_iops`, `read_bps`, `write_bps`, a second.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
    /// The group that sets them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_group: Option<String>,
}

/// An interface of a container's network namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CardInterface {
    /// Its name inside.
    pub name: String,
    /// Received in the window.
    pub received_bytes: u64,
    /// Packets; those that the kernel joined count once.
    pub received_packets: u64,
    /// Sent in the window.
    pub sent_bytes: u64,
    /// Packets.
    pub sent_packets: u64,
    /// Dropped, either way.
    pub dropped_packets: u64,
}

/// How long some (`full`: all) of a container's runnable threads stood still in the window, seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CardPressure {
    /// For a CPU.
    pub cpu_seconds: f64,
    /// For memory.
    pub memory_seconds: f64,
    /// For memory, all of it.
    pub memory_full_seconds: f64,
    /// For I/O.
    pub io_seconds: f64,
    /// For I/O, all of it.
    pub io_full_seconds: f64,
}
