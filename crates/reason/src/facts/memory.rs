//! Facts of CPUs and memory: counters at an instant, pressure, reclaim, pauses.
//!
//! Samples are absolute counters as the kernel keeps them, at an instant: what lies between two of them is
//! worked out by the reasoning. Sizes are bytes, whatever unit the file had; counters that the kernel
//! keeps in pages say so. Reclaim, pauses and kills name the thread that they hit.

use super::{DeviceNumber, FileRef, Ns, ThreadRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One CPU's times since boot, nanoseconds. Source: /proc/stat (resolution 10 ms).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuSample {
    /// CPU number.
    pub cpu: u32,
    /// User, nice included; guests included.
    pub user_ns: Ns,
    /// Kernel.
    pub system_ns: Ns,
    /// Idle.
    pub idle_ns: Ns,
    /// Idle with I/O outstanding.
    pub iowait_ns: Ns,
    /// Hard interrupts.
    pub irq_ns: Ns,
    /// Soft interrupts.
    pub softirq_ns: Ns,
    /// Taken by the hypervisor.
    pub steal_ns: Ns,
}

/// Soft interrupts that a CPU has handled since boot, those of its own timer, and those of network adapters. Sources: /proc/softirqs,
/// /proc/interrupts, /sys/class/net.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftirqSample {
    /// CPU number.
    pub cpu: u32,
    /// By kind, as the kernel names them: `NET_RX`, `TIMER`, `BLOCK`, ...
    pub counts: BTreeMap<String, u64>,
    /// Interrupts of the CPU's own timer, ticks and others (`LOC`); none where the architecture has no such line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_timer: Option<u64>,
    /// Hard interrupts of network adapters, by interface of the namespace that the look was taken in.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub adapters: BTreeMap<String, u64>,
}

/// How quickly a CPU may run. Sources: /sys/devices/system/cpu/cpuN/cpufreq and thermal_throttle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuFrequency {
    /// CPU number.
    pub cpu: u32,
    /// What the hardware can do (cpuinfo_max_freq).
    pub hardware_hz: u64,
    /// What its policy allows at most (scaling_max_freq).
    pub most_hz: u64,
    /// And at least (scaling_min_freq).
    pub least_hz: u64,
    /// Who chooses in between (`schedutil`, `powersave`, ...).
    pub governor: String,
    /// Driver (`acpi-cpufreq`, `intel_pstate`, ...).
    pub driver: String,
    /// How often heat held it back since boot; none if the hardware does not say.
    pub throttled: Option<u64>,
}

/// Memory state of the host. Sources: /proc/meminfo, /proc/vmstat. Bytes and counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemorySample {
    /// MemTotal.
    pub total_bytes: u64,
    /// MemFree.
    pub free_bytes: u64,
    /// MemAvailable.
    pub available_bytes: u64,
    /// Shmem.
    pub shmem_bytes: u64,
    /// Dirty (nr_dirty).
    pub dirty_bytes: u64,
    /// Writeback.
    pub writeback_bytes: u64,
    /// nr_dirty_threshold.
    pub dirty_threshold_bytes: u64,
    /// nr_dirty_background_threshold.
    pub dirty_background_bytes: u64,
    /// SwapTotal.
    pub swap_total_bytes: u64,
    /// SwapFree.
    pub swap_free_bytes: u64,
    /// pswpin: pages.
    pub swap_in: u64,
    /// pswpout: pages.
    pub swap_out: u64,
    /// pgmajfault.
    pub major_faults: u64,
    /// pgfault.
    pub faults: u64,
    /// pgsteal_direct plus pgsteal_kswapd.
    pub reclaimed: u64,
    /// allocstall over all zones.
    pub allocation_stalls: u64,
    /// compact_stall: allocations that had to compact before they went on.
    pub compaction_stalls: u64,
    /// workingset_refault over file and anon.
    pub refaults: u64,
    /// oom_kill.
    pub oom_kills: u64,
}

/// Pressure stall totals, microseconds. Source: /proc/pressure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// `some` of cpu.
    pub cpu_some_us: u64,
    /// `some` of io.
    pub io_some_us: u64,
    /// `full` of io.
    pub io_full_us: u64,
    /// `some` of memory.
    pub memory_some_us: u64,
    /// `full` of memory.
    pub memory_full_us: u64,
}

/// A shared anonymous segment: SysV, POSIX shm, memfd or a shared mapping of /dev/zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedSegment {
    /// Name as /proc/PID/maps shows it.
    pub name: String,
    /// Inode on the kernel's internal tmpfs.
    pub ino: u64,
    /// Size of the mapping, bytes.
    pub size_bytes: u64,
    /// Memory that it really occupies, bytes (`st_blocks` * 512).
    pub allocated_bytes: u64,
    /// Sum of the proportional shares of all processes that map it, bytes (smaps Pss).
    pub mapped_bytes: u64,
    /// Processes that map it.
    pub mapped_by: Vec<ThreadRef>,
}

/// One thread's time in reclaim over the window. Source: mm_vmscan_*_reclaim_begin/end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reclaim {
    /// Who.
    pub thread: ThreadRef,
    /// For its memory cgroup's limit rather than for the host.
    pub memcg: bool,
    /// How often.
    pub count: u64,
    /// How long.
    pub total_ns: Ns,
    /// Pages freed.
    pub pages: u64,
    /// Memory cgroup (kernfs id), 0 if unknown.
    pub cgroup_id: u64,
}

/// What one process brought into the page cache over the window, by who had it evicted before. Source:
/// mm_filemap_add_to_page_cache and mm_filemap_delete_from_page_cache, of which one page in some is looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheFill {
    /// Who read or wrote it.
    pub process: ThreadRef,
    /// The process in whose reclaim these pages were dropped earlier in the window; 0: they were not seen to be there before.
    pub evicted_by: u32,
    /// How much.
    pub bytes: u64,
    /// Memory cgroup (kernfs id), 0 if unknown.
    pub cgroup_id: u64,
}

/// Pages of one file that one process brought into the page cache again over the window. Source: as [`CacheFill`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRefault {
    /// The process.
    pub pid: u32,
    /// The file.
    pub file: FileRef,
    /// How much.
    pub bytes: u64,
}

/// One thread's pauses at the dirty limit over the window. Source: balance_dirty_pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirtyPause {
    /// Who.
    pub thread: ThreadRef,
    /// Backing device whose limit it met, as the kernel names the bdi.
    pub bdi: String,
    /// The same as a device number, if the name is one.
    pub dev: DeviceNumber,
    /// How often.
    pub count: u64,
    /// Sum of the pauses asked for.
    pub pause_ns: Ns,
    /// Rate the kernel allowed the task at last, bytes a second.
    pub task_ratelimit_bytes: u64,
    /// Pages it dirtied between the pauses.
    pub dirtied_pages: u64,
}

/// A process was killed for want of memory. Source: oom:mark_victim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OomKill {
    /// Who was killed.
    pub victim: ThreadRef,
    /// Memory cgroup of the victim (kernfs id), 0 if unknown.
    pub cgroup_id: u64,
    /// Private writable memory that the victim had mapped, touched or not; 0 if unknown. Source: mm_struct.data_vm.
    pub private_bytes: u64,
}
