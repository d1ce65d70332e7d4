//! Facts of disks: who they are, their counters, their requests.
//!
//! Counters are the kernel's own, absolute, at an instant; what lies between two of them is for
//! `queues` to work out. A request's times are told apart where it was held before the device and where
//! the device served it, because these have different culprits. Stacked devices each tell their own.

use super::{DeviceNumber, Ns, ThreadRef};
use serde::{Deserialize, Serialize};

/// Who a disk is. Source: /sys/block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Device number of the whole disk.
    pub dev: DeviceNumber,
    /// Kernel name: `vda`, `loop0`, `dm-3`.
    pub name: String,
    /// Size, bytes; 0 if it was not read.
    pub size_bytes: u64,
    /// Device numbers of its partitions.
    pub partitions: Vec<DeviceNumber>,
    /// What the partitions take of it, bytes.
    pub partitioned_bytes: u64,
    /// Disks it is made of (`slaves/`), or whose file system holds its backing file (loop).
    pub below: Vec<DeviceNumber>,
    /// Backing file of a loop device.
    pub backing_file: Option<String>,
    /// File system type under the backing file, if any (`fuse`, `ext4`).
    pub backing_fs: Option<String>,
    /// Spins (`queue/rotational`).
    pub rotational: bool,
    /// Active scheduler.
    pub scheduler: String,
    /// Of mq-deadline: it has queues by I/O class, as it has since 5.14 (seen by `queue/iosched/async_depth`, and since 5.16 by
    /// `prio_aging_expire`). None of others, and where nothing of `queue/iosched` was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_deadline_priorities: Option<bool>,
    /// Requests the scheduler may hold (`queue/nr_requests`).
    pub requests_max: u32,
    /// `queue/write_cache`.
    pub write_cache: String,
    /// Name that the device mapper gives it (`dm/name`).
    pub mapped_name: Option<String>,
    /// RAID level of an md array (`md/level`).
    pub raid_level: Option<String>,
    /// How an md array is laid out.
    pub raid: Option<Raid>,
}

/// How an md array is laid out, and what its members do. Source: /sys/block/NAME/md.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Raid {
    /// Layout as md numbers it; of RAID-10 the low byte counts near copies, the next far ones, and bit 16 tells that
    /// these are offset.
    pub layout: u32,
    /// What it does beside its work: `idle`, `resync`, `recover`, `check`; empty if it was not read.
    pub action: String,
    /// Its members.
    pub members: Vec<RaidMember>,
}

/// A member of an md array.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RaidMember {
    /// The whole disk that it is, or is on.
    pub dev: DeviceNumber,
    /// Words with commas between them: `in_sync`, `write_mostly`, `faulty`, `spare`.
    pub state: String,
}

/// A disk's counters. Source: /proc/diskstats, Documentation/admin-guide/iostats.rst.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskSample {
    /// Which disk.
    pub dev: DeviceNumber,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of all reads, milliseconds.
    pub read_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time of all writes, milliseconds.
    pub write_ms: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Time with at least one request in flight, milliseconds.
    pub busy_ms: u64,
    /// Request-milliseconds: the integral of requests in flight.
    pub weighted_ms: u64,
}

/// How the cache in front of a disk has done since it was made. Source: the device mapper's status of a
/// `cache` target. What the target's version does not tell is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCacheSample {
    /// The cached disk, as it is used.
    pub dev: DeviceNumber,
    /// The slow disk below, which has everything.
    pub origin: Option<DeviceNumber>,
    /// The fast disk below, which has the cached blocks.
    pub fast: Option<DeviceNumber>,
    /// Requests that the cache served.
    pub hits: u64,
    /// Requests that went to the origin.
    pub misses: u64,
    /// Blocks moved into the cache.
    pub promotions: u64,
    /// Blocks moved out of it for others.
    pub demotions: u64,
    /// Those of them that had to be written to the origin first.
    pub demotions_dirty: Option<u64>,
    /// Size of a block, bytes.
    pub block_bytes: u64,
    /// Blocks that the cache has.
    pub blocks: u64,
    /// Blocks in use.
    pub blocks_used: Option<u64>,
    /// Blocks that the origin does not have yet.
    pub blocks_dirty: Option<u64>,
    /// 512-byte sectors that may be on the move at once (`migration_threshold`).
    pub migration_threshold: Option<u64>,
    /// `writeback`, `writethrough` or `passthrough`.
    pub mode: String,
}

/// What a request does.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum DiskOperation {
    /// Read.
    #[default]
    Read,
    /// Write.
    Write,
    /// Cache flush.
    Flush,
    /// Discard, zone operations and the rest.
    Other,
}

/// Latency of a disk's requests over the window. Source: block_rq_insert, _issue, _complete.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskLatency {
    /// Which disk.
    pub dev: DeviceNumber,
    /// Which operation.
    pub operation: DiskOperation,
    /// Requests completed.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of the time inside the device (issue to complete).
    pub service_ns: u64,
    /// Greatest time inside the device.
    pub service_ns_max: u64,
    /// Sum of the time before the device (insert to issue): scheduler and tags.
    pub queued_ns: u64,
    /// Requests by log2 of their service time in microseconds: slot n counts those in
    /// [2^n, 2^(n+1)) us; slot 0 also has those under 1 us.
    pub service_us_log2: Vec<u64>,
    /// Requests that ended in an error.
    pub errors: u64,
}

/// One long request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// Which disk.
    pub dev: DeviceNumber,
    /// Which operation.
    pub operation: DiskOperation,
    /// First 512-byte sector.
    pub sector: u64,
    /// Size.
    pub bytes: u32,
    /// Handed to the scheduler at; 0 if it went straight to the device.
    pub insert_ns: Ns,
    /// Handed to the device at.
    pub issue_ns: Ns,
    /// Completed at.
    pub complete_ns: Ns,
    /// Who inserted it (for writeback, a kernel worker).
    pub by: ThreadRef,
    /// Marked as metadata (REQ_META), or as synchronous (REQ_SYNC).
    pub metadata: bool,
    /// See `metadata`.
    pub sync: bool,
    /// It ended in an error.
    pub error: bool,
}

/// What one process asked of one disk over the window, by whoever submitted the bios: writeback is the kernel worker's, and not his
/// who dirtied the pages (see [`Dirtied`]).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUse {
    /// Which disk.
    pub dev: DeviceNumber,
    /// The process.
    pub process: ThreadRef,
    /// Reads submitted.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes submitted.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Cgroup that the bios are charged to (kernfs id of the blkio/io group), 0 if unknown.
    pub cgroup_id: u64,
}

/// Pages of files that one process made dirty over the window, of one file system: the kernel's workers write them to its disk later.
/// A page counts when it becomes dirty, and not again until it was written. Source: writeback_dirty_folio (writeback_dirty_page before
/// 5.16), of which one page in some is looked at; of processes that did much.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dirtied {
    /// The file system, as stat(2) numbers it; of a disk that is written as a file, the disk.
    pub dev: DeviceNumber,
    /// The process.
    pub process: ThreadRef,
    /// How much.
    pub bytes: u64,
}
