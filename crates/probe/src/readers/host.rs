//! The machine, its kernel, and the kernel settings that rules and remedies need.
//!
//! Only what files (and sysconf) tell: the tool's version, the clocks' offsets and whether there
//! are kernel events are filled in by the caller. Rejected: uname and sysinfo, which know nothing of
//! another root, so that no fixture could stand for a host.

use super::host_identity::{addresses, machine_id_hash};
use crate::system::clock::scheduler_hz;
use crate::system::{Roots, mounts, text, units};
use holdup_reason::facts::{Host, MemoryNode, Sysctl};
use procfs_core::{ConfigSetting, FromBufRead, FromRead, KernelConfig, Meminfo};
use std::fs::File;
use std::io::BufReader;
use std::sync::OnceLock;

/// Settings worth a fact: dotted names.
const SYSCTLS: &[&str] = &[
    "fs.lease-break-time",
    "fs.nr_open",
    "kernel.hung_task_timeout_secs",
    "kernel.perf_event_paranoid",
    "kernel.sched_cfs_bandwidth_slice_us",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_period_us",
    "kernel.sched_rt_runtime_us",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.neigh.default.gc_thresh1",
    "net.ipv4.neigh.default.gc_thresh2",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_mem",
    "net.ipv6.neigh.default.gc_thresh1",
    "net.ipv6.neigh.default.gc_thresh2",
    "net.ipv6.neigh.default.gc_thresh3",
    "net.netfilter.nf_conntrack_max",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.min_free_kbytes",
    "vm.overcommit_memory",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
];

/// The machine, as far as files tell. Version, clock offsets and kernel events are the caller's.
pub(super) fn host(roots: &Roots) -> Host {
    let kernel_word =
        |name: &str| text::read_text(&roots.proc.join("sys/kernel").join(name)).unwrap_or_default();
    let machine = match kernel_word("arch") {
        // Before 6.1 no file tells it.
        word if word.is_empty() => std::env::consts::ARCH.to_string(),
        word => word,
    };
    let online = text::read_text(&roots.sys.join("devices/system/cpu/online")).unwrap_or_default();
    let cpus = |name: &str| {
        let file = roots.sys.join("devices/system/cpu").join(name);
        text::cpu_list(&text::read_text(&file).unwrap_or_default())
    };
    let memory =
        File::open(roots.proc.join("meminfo")).ok().and_then(|f| Meminfo::from_read(f).ok());
    let mounts = mounts::own_mounts(roots);
    let Configured { hz, fq_codel } = configured(roots);
    let mounted = |fs_type: &str| mounts.iter().any(|mount| mount.fs_type == fs_type);
    Host {
        hostname: kernel_word("hostname"),
        kernel: kernel_word("osrelease"),
        machine,
        boot_id: kernel_word("random/boot_id"),
        machine_id_hash: machine_id_hash(roots),
        addresses: addresses(roots),
        cpus: text::cpu_list(&online).len() as u32,
        memory_bytes: memory.map_or(0, |memory| memory.mem_total),
        page_bytes: units::page_bytes(),
        config_hz: hz.unwrap_or(0),
        fq_codel,
        cgroup_v1: mounted("cgroup"),
        cgroup_v2: mounted("cgroup2"),
        isolated_cpus: cpus("isolated"),
        tickless_cpus: cpus("nohz_full"),
        memory_nodes: memory_nodes(roots),
        ..Host::default()
    }
}

/// Whether the machine has more than one node of memory.
pub(super) fn has_several_nodes(roots: &Roots) -> bool {
    online_nodes(roots).len() > 1
}

fn online_nodes(roots: &Roots) -> Vec<u32> {
    let online = roots.sys.join("devices/system/node/online");
    text::cpu_list(&text::read_text(&online).unwrap_or_default())
}

/// The nodes of a machine that has several.
fn memory_nodes(roots: &Roots) -> Vec<MemoryNode> {
    let folder = roots.sys.join("devices/system/node");
    let online = online_nodes(roots);
    if online.len() < 2 {
        return Vec::new();
    }
    let node = |node: u32| {
        let file = |name: &str| {
            text::read_text(&folder.join(format!("node{node}")).join(name)).unwrap_or_default()
        };
        let distances =
            file("distance").split_whitespace().filter_map(|it| it.parse().ok()).collect();
        MemoryNode { node, cpus: text::cpu_list(&file("cpulist")), distances }
    };
    online.into_iter().map(node).collect()
}

/// What is needed of how the kernel was built.
#[derive(Debug, Clone, Copy)]
struct Configured {
    /// Ticks a second.
    hz: Option<u32>,
    /// Whether tc could make an fq_codel here.
    fq_codel: Option<bool>,
}

/// Of the running kernel read once: it is compressed, and the same for each of many windows.
fn configured(roots: &Roots) -> Configured {
    static OF_RUNNING: OnceLock<Configured> = OnceLock::new();
    let read = || {
        let config = config(roots);
        Configured {
            hz: config_hz(roots, config.as_ref()),
            fq_codel: fq_codel(roots, config.as_ref()),
        }
    };
    if *roots == Roots::default() { *OF_RUNNING.get_or_init(read) } else { read() }
}

/// The kernel's configuration, where it carries it along.
fn config(roots: &Roots) -> Option<KernelConfig> {
    let file = File::open(roots.proc.join("config.gz")).ok()?;
    KernelConfig::from_buf_read(BufReader::new(flate2::read::GzDecoder::new(file))).ok()
}

/// By the kernel's configuration, else by its folder of modules.
fn fq_codel(roots: &Roots, config: Option<&KernelConfig>) -> Option<bool> {
    match config.map(|config| config.0.get("CONFIG_NET_SCH_FQ_CODEL")) {
        Some(Some(ConfigSetting::Yes)) => return Some(true),
        Some(Some(ConfigSetting::Module)) | None => {}
        Some(_) => return Some(false),
    }
    let release = text::read_text(&roots.proc.join("sys/kernel/osrelease")).ok()?;
    let modules = roots.resolve("/lib/modules").join(release.trim());
    let lists = ["modules.builtin", "modules.dep"];
    let lists: Vec<String> =
        lists.iter().filter_map(|name| std::fs::read_to_string(modules.join(name)).ok()).collect();
    (!lists.is_empty()).then(|| lists.iter().any(|list| list.contains("/sch_fq_codel.ko")))
}

fn config_hz(roots: &Roots, config: Option<&KernelConfig>) -> Option<u32> {
    if let Some(config) = config {
        return match config.0.get("CONFIG_HZ")? {
            ConfigSetting::Value(text) => text.trim().parse().ok(),
            _ => None,
        };
    }
    // The clock is the running machine's.
    if roots.proc == Roots::default().proc { scheduler_hz() } else { None }
}

/// Kernel settings that exist here.
pub(super) fn sysctls(roots: &Roots) -> Vec<Sysctl> {
    let read = |name: &&str| {
        let path = roots.proc.join("sys").join(name.replace('.', "/"));
        let value = text::read_text(&path).ok()?;
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        Some(Sysctl { name: (*name).into(), value })
    };
    SYSCTLS.iter().filter_map(read).chain(huge_pages(roots)).collect()
}

/// Whether a fault waits for a huge page: the word in brackets of those that could be set.
fn huge_pages(roots: &Roots) -> Option<Sysctl> {
    let words = text::read_text(&roots.sys.join("kernel/mm/transparent_hugepage/defrag")).ok()?;
    let (value, _) = words.split_once('[')?.1.split_once(']')?;
    Some(Sysctl { name: "transparent_hugepage.defrag".into(), value: value.into() })
}
