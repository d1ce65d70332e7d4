//! Facts of what can be used up: how much of it is used, how much there may be, and how that was in the windows before.
//!
//! One vocabulary for a disk's space, a process's descriptors and a table of the kernel, because the question is the same. What other
//! facts say already (memory and processes of a group, tables of the network) is not said again here by a reader: the engine puts it
//! into this shape only with its readings of before. Must not: say that something ends.
//!
//! Rows are columns of plain numbers and names: to read rows of a type of their own takes thirty kilobytes of code.
//!
//! Edit together: measure/usages.rs (the same from other facts), engine/src/foresight.rs (readings of before).

use super::{DeviceNumber, Ns, ThreadRef};
use serde::{Deserialize, Serialize};

/// What can be used up.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Space of a file system, bytes, as far as others than root may have it. Source: statfs.
    #[default]
    Space,
    /// Inodes of a file system. Source: statfs.
    Inodes,
    /// Memory of a cgroup that cannot be dropped, bytes: anonymous and shared, with what is swapped out where it may be.
    Memory,
    /// Processes and threads of a cgroup. Source: pids.current, pids.max.
    Tasks,
    /// Open descriptors of a process. Source: the size of /proc/PID/fd, RLIMIT_NOFILE.
    Descriptors,
    /// Entries of the table of connections. Source: /proc/net/stat/nf_conntrack.
    Connections,
    /// Entries of the table of IPv4 neighbours that its limit counts. Source: /proc/net/stat/arp_cache, without [`PermanentNeighbours`].
    NeighboursV4,
    /// The same of IPv6. Source: /proc/net/stat/ndisc_cache.
    NeighboursV6,
    /// Ports for connections from this host to one address. Source: sock_diag.
    Ports,
}

/// How much of something is used. Which one it is say the fields that apply to its kind; the others are empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// What.
    pub of: Resource,
    /// The file system.
    #[serde(skip_serializing_if = "is_none")]
    pub dev: DeviceNumber,
    /// Where the file system is mounted, the cgroup's path, or the address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The process whose descriptors these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ThreadRef>,
    /// The network namespace.
    #[serde(skip_serializing_if = "is_zero")]
    pub netns: u32,
    /// Used now.
    pub used: u64,
    /// As many as there may be.
    pub limit: u64,
    /// Who has files open for writing there, of a file system that fills; which files, and where each writes next, bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writers: Vec<ThreadRef>,
    /// See `writers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// See `writers`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub positions: Vec<u64>,
    /// Of a trend: by how much each of them has moved since the window before; 0 of one that was not seen there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<u64>,
    /// How it was in the windows so far, oldest first, this one last: three numbers each, as [`Reading`] has them. None of a reading that
    /// stands for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<u64>,
}

impl Usage {
    /// The readings of a trend.
    pub fn readings(&self) -> Vec<Reading> {
        let reading = |it: &[u64; 3]| Reading { at_ns: it[0], used: it[1], peak: it[2] };
        self.readings.as_chunks().0.iter().map(reading).collect()
    }

    /// The same with its readings.
    pub fn with(mut self, readings: &[Reading]) -> Self {
        self.readings = readings.iter().flat_map(|it| [it.at_ns, it.used, it.peak]).collect();
        self
    }
}

/// Neighbour entries of a network namespace that the limit of their table, which is the host's, does not count: permanent ones, and those that a
/// program has learnt (NTF_EXT_LEARNED). Read in a look that goes on, of a table with many. Source: rtnetlink RTM_GETNEIGH.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PermanentNeighbours {
    /// Network namespace inode.
    pub netns: u32,
    /// Of IPv4.
    pub v4: u64,
    /// Of IPv6.
    pub v6: u64,
}

/// How much was used at an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// When (CLOCK_MONOTONIC).
    pub at_ns: Ns,
    /// Used then.
    pub used: u64,
    /// The most that was read since the reading before.
    pub peak: u64,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none(dev: &DeviceNumber) -> bool {
    *dev == DeviceNumber::default()
}
