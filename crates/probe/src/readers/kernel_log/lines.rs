//! What a line of the kernel's log is about, by the kernel's own words for it.
//!
//! The words are those of Linux 5.10 to 7.x (printk formats of the files named below); a line in other words is kept as
//! `other` if it is an error. Must not say whose fault it is, and must not trust a name in it further than to compare it.

use super::records::Record;
use holdup_reason::facts::{KernelLogKind, KernelLogLine};

/// Longest text that is kept, bytes.
const TEXT_BYTES_MAX: usize = 240;
/// KERN_ERR: from here on, lines without a kind are kept too.
const ERROR: u8 = 3;
/// KERN_WARNING: file systems print what is healthy as notices.
const WARNING: u8 = 4;

/// The line, if it is worth keeping.
pub(super) fn line(record: &Record<'_>) -> Option<KernelLogLine> {
    let text = record.text;
    let (kind, tid, name) = about(text, record.level)
        .or_else(|| (record.level <= ERROR).then_some((KernelLogKind::Other, 0, "")))?;
    Some(KernelLogLine {
        kind,
        level: record.level,
        text: cut(text, TEXT_BYTES_MAX).into(),
        tid,
        name: cut(name, TEXT_BYTES_MAX).into(),
        unreported: 0,
    })
}

/// The line that says in which kernel program of holdup's own the kernel met a fault.
pub(super) fn own_fault(record: &Record<'_>, program: &str) -> KernelLogLine {
    KernelLogLine {
        kind: KernelLogKind::OwnFault,
        level: record.level,
        text: cut(record.text, TEXT_BYTES_MAX).into(),
        name: cut(program, TEXT_BYTES_MAX).into(),
        ..KernelLogLine::default()
    }
}

/// At most so many bytes, whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= bytes);
    &text[..end.last().unwrap_or(0)]
}

type About<'a> = (KernelLogKind, u32, &'a str);

fn about(text: &str, level: u8) -> Option<About<'_>> {
    memory(text)
        .or_else(|| tasks(text))
        .or_else(|| disks(text, level))
        .or_else(|| links(text))
        .or_else(|| servers(text))
        .or_else(|| limits(text))
}

/// mm/oom_kill.c.
fn memory(text: &str) -> Option<About<'_>> {
    let killed = [
        "Out of memory",
        "Memory cgroup out of memory",
        "Out of memory (oom_kill_allocating_task)",
    ]
    .iter()
    .any(|begin| text.starts_with(begin));
    if !killed {
        return None;
    }
    Some((KernelLogKind::OutOfMemory, after_number(text, " process ").unwrap_or(0), ""))
}

/// kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h, arch/x86/kernel/traps.c, arch/x86/mm/fault.c.
fn tasks(text: &str) -> Option<About<'_>> {
    if let Some(rest) = text.strip_prefix("INFO: task ") {
        // `task NAME:TID blocked for more than N seconds.`; a name may hold colons.
        let (who, _) = rest.split_once(" blocked ").or_else(|| rest.split_once(" is blocked "))?;
        let who = who.strip_suffix(" is").unwrap_or(who);
        let tid = who.rsplit_once(':')?.1.parse().ok()?;
        return Some((KernelLogKind::HungTask, tid, ""));
    }
    if text.contains("soft lockup - CPU") || text.contains("hard LOCKUP on cpu") {
        let tid = text.rsplit_once(':').and_then(|(_, rest)| number(rest)).unwrap_or(0);
        return Some((KernelLogKind::Stall, tid, ""));
    }
    if text.starts_with("rcu: INFO:") && text.contains("detected stall") {
        return Some((KernelLogKind::Stall, 0, ""));
    }
    let crashed = [": segfault at ", " trap invalid opcode ", " general protection fault "];
    let crashed = crashed.iter().any(|words| text.contains(words));
    if crashed {
        let (head, _) = text.split_once(']')?;
        return Some((KernelLogKind::Crash, number(head.rsplit_once('[')?.1)?, ""));
    }
    None
}

/// block/blk-core.c, fs/buffer.c, the file systems' own.
fn disks(text: &str, level: u8) -> Option<About<'_>> {
    const FAILED: &[&str] = &["I/O error", "critical ", "timeout error", "protection error"];
    if let Some((before, rest)) = text.split_once(" dev ").or_else(|| text.split_once(" device "))
        && FAILED.iter().any(|words| before.contains(words))
    {
        return Some((KernelLogKind::IoError, 0, name(rest)));
    }
    if let Some(rest) = text.strip_prefix("nvme ")
        && (text.contains("timeout") || text.contains("controller is down"))
    {
        return Some((KernelLogKind::IoError, 0, name(rest)));
    }
    const SYSTEMS: &[&str] = &["EXT4-fs", "XFS", "BTRFS", "F2FS-fs", "FAT-fs", "JBD2", "EXT2-fs"];
    if level <= WARNING && SYSTEMS.iter().any(|system| text.starts_with(system)) {
        let within = text.split_once("(device ").or_else(|| text.split_once('('));
        return Some((KernelLogKind::FileSystem, 0, within.map_or("", |(_, rest)| name(rest))));
    }
    None
}

/// drivers of network interfaces, net/sched/sch_generic.c, drivers/ata.
fn links(text: &str) -> Option<About<'_>> {
    const CHANGED: &[&str] = &[
        "Link is Down",
        "Link is Up",
        "link is not ready",
        "link becomes ready",
        "hard resetting link",
        "SATA link ",
        "link is slow to respond",
        "Reset adapter",
        "device reset",
    ];
    if let Some(rest) = text.strip_prefix("NETDEV WATCHDOG: ") {
        return Some((KernelLogKind::Link, 0, name(rest)));
    }
    if text.contains("): transmit queue ") && text.contains(" timed out") {
        let name = text.split(": ").find(|part| part.contains(" (")).map_or("", name);
        return Some((KernelLogKind::Link, 0, name));
    }
    let ata = text.starts_with("ata") && text.contains("exception Emask");
    if ata || CHANGED.iter().any(|words| text.contains(words)) {
        // `igb 0000:01:00.0 eth0: igb: eth0 NIC Link is Down`, `eth0: Link is Down`, `ata1: hard resetting link`
        let before = text.split(": ").next().unwrap_or_default();
        let name = before.rsplit(' ').next().unwrap_or_default();
        return Some((KernelLogKind::Link, 0, name));
    }
    None
}

/// fs/lockd, net/sunrpc, fs/smb, fs/ceph.
fn servers(text: &str) -> Option<About<'_>> {
    if let Some(host) = text.strip_prefix("lockd: cannot monitor ") {
        return Some((KernelLogKind::FileServer, 0, host.trim()));
    }
    let (system, rest) = text.split_once(": ")?;
    if ["lockd", "nfs", "NFS"].contains(&system)
        && let Some(rest) = rest.strip_prefix("server ")
    {
        return Some((KernelLogKind::FileServer, 0, name(rest)));
    }
    let silent = text.contains("has not responded in") || text.contains("not responding");
    (silent && ["CIFS", "libceph", "rpc"].contains(&system)).then_some((
        KernelLogKind::FileServer,
        0,
        "",
    ))
}

/// net/netfilter, net/core/neighbour.c, fs/file_table.c, net/ipv4/tcp_input.c, kernel/cgroup/pids.c, kernel/sched.
fn limits(text: &str) -> Option<About<'_>> {
    const FULL: &[(&str, &str)] = &[
        ("table full, dropping packet", "connections"),
        ("neighbor table overflow", "neighbours"),
        ("Neighbour table overflow", "neighbours"),
        ("VFS: file-max limit", "files"),
        ("too many orphaned sockets", "sockets"),
        ("TCP: out of memory", "sockets"),
    ];
    if let Some((_, name)) = FULL.iter().find(|(words, _)| text.contains(words)) {
        return Some((KernelLogKind::TableFull, 0, name));
    }
    if let Some((_, rest)) = text.split_once("Possible SYN flooding on port ") {
        let (port, _) = rest.split_once(". ").unwrap_or((rest, ""));
        return Some((KernelLogKind::SynFlood, 0, port));
    }
    if let Some((_, path)) = text.split_once("fork rejected by pids controller in ") {
        return Some((KernelLogKind::ProcessRefused, 0, path.trim()));
    }
    text.contains("RT throttling activated").then_some((KernelLogKind::RealTime, 0, ""))
}

/// The word that a text begins with, as names of devices and hosts are written.
fn name(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, ',' | ')' | ':' | '('));
    &text[..end.unwrap_or(text.len())]
}

fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn after_number(text: &str, words: &str) -> Option<u32> {
    number(text.split_once(words)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(level: u8, text: &str) -> Option<(KernelLogKind, u32, String)> {
        let line = line(&Record { level, at_ns: 0, text })?;
        Some((line.kind, line.tid, line.name))
    }

    #[test]
    fn the_kernels_words_are_known() {
        use KernelLogKind::*;
        let cases: &[(&str, KernelLogKind, u32, &str)] = &[
            (
                "Memory cgroup out of memory: Killed process 9739 (python3) total-vm:118984kB",
                OutOfMemory,
                9739,
                "",
            ),
            ("Out of memory: Killed process 12 (a) total-vm:1kB", OutOfMemory, 12, ""),
            ("INFO: task kworker/0:1:77 blocked for more than 120 seconds.", HungTask, 77, ""),
            (
                "INFO: task cat:61 is blocked on a mutex likely owned by task sh:60.",
                HungTask,
                61,
                "",
            ),
            ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [burn:412]", Stall, 412, ""),
            ("I/O error, dev loop0, sector 36866 op 0x1:(WRITE) flags 0x4000", IoError, 0, "loop0"),
            ("blk_update_request: I/O error, dev sda, sector 8", IoError, 0, "sda"),
            ("critical medium error, dev sdb, sector 99 op 0x0:(READ)", IoError, 0, "sdb"),
            ("Buffer I/O error on dev dm-1, logical block 1, lost", IoError, 0, "dm-1"),
            ("Buffer I/O error on device loop0, logical block 10243", IoError, 0, "loop0"),
            ("EXT4-fs error (device vdb): ext4_find_entry:1455: inode #2", FileSystem, 0, "vdb"),
            ("XFS (sdc1): metadata I/O error in \"xfs_read\" at daddr 0x8", FileSystem, 0, "sdc1"),
            ("eth0: Link is Down", Link, 0, "eth0"),
            ("igb 0000:01:00.0 eth1: igb: eth1 NIC Link is Down", Link, 0, "eth1"),
            ("NETDEV WATCHDOG: ens3 (virtio_net): transmit queue 0 timed out", Link, 0, "ens3"),
            ("ata1: hard resetting link", Link, 0, "ata1"),
            ("lockd: cannot monitor files.example", FileServer, 0, "files.example"),
            ("nfs: server 10.0.0.9 not responding, still trying", FileServer, 0, "10.0.0.9"),
            (
                "nf_conntrack: nf_conntrack: table full, dropping packet",
                TableFull,
                0,
                "connections",
            ),
            ("neighbour: arp_cache: neighbor table overflow!", TableFull, 0, "neighbours"),
            (
                "TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:80. Sending cookies.",
                SynFlood,
                0,
                "0.0.0.0:80",
            ),
            (
                "cgroup: fork rejected by pids controller in /a b/shop",
                ProcessRefused,
                0,
                "/a b/shop",
            ),
            ("sched: RT throttling activated", RealTime, 0, ""),
            ("python3[812]: segfault at 0 ip 000055 sp 00007f error 4 in x[55+1]", Crash, 812, ""),
        ];
        for (text, kind, tid, name) in cases {
            assert_eq!(of(4, text), Some((*kind, *tid, (*name).to_string())), "{text}");
        }
    }

    #[test]
    fn what_is_healthy_is_not_kept() {
        for text in [
            "EXT4-fs (loop0): mounted filesystem 7ad782d0 r/w with ordered data mode",
            "loop0: detected capacity change from 0 to 262144",
            "docker0: port 1(veth0) entered blocking state",
            "[   9739]     0  9739    29746     8929     8128      801         0",
        ] {
            assert_eq!(of(6, text), None, "{text}");
        }
        assert_eq!(of(3, "something went wrong").map(|it| it.0), Some(KernelLogKind::Other));
    }

    #[test]
    fn a_hostile_name_is_data_and_is_cut() {
        let kind = of(4, "INFO: task Out of memory: :7 blocked for more than 9 seconds.");
        assert_eq!(kind.map(|it| (it.0, it.1)), Some((KernelLogKind::HungTask, 7)));
        assert_eq!(of(6, "INFO: task :x blocked for"), None);
        let long = format!("I/O error, dev {}", "\u{e9}".repeat(4000));
        let line = line(&Record { level: 3, at_ns: 0, text: &long }).expect("a line");
        assert!(line.text.len() <= TEXT_BYTES_MAX && line.name.len() <= TEXT_BYTES_MAX);
    }
}
