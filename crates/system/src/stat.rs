//! One thread by /proc/PID/task/TID/stat: its state, its parent, its times (proc(5)).
//!
//! The name in it may hold anything, parentheses and newlines included. Must not: read what takes a lock of the process.

use super::Roots;
use super::text;
use std::path::Path;

/// `PF_KTHREAD` of include/linux/sched.h.
const KERNEL_THREAD_FLAG: u64 = 0x0020_0000;

/// Which job a thread belongs to (job control, setpgid(2)).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    /// Process group.
    pub process_group: u32,
    /// Session.
    pub session: u32,
    /// Process group in the foreground of its terminal (`tpgid`).
    pub foreground_group: Option<u32>,
}

/// The fields of /proc/PID/stat that are used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stat {
    /// Thread id.
    pub tid: u32,
    /// Name, raw.
    pub comm: String,
    /// State letter.
    pub state: char,
    /// Parent process.
    pub parent_pid: u32,
    /// Its job.
    pub job: Job,
    /// Device number of the controlling terminal as the kernel prints it (`new_encode_dev`), 0 without one.
    pub terminal: u32,
    /// A kernel thread.
    pub kernel: bool,
    /// User plus system time, ticks.
    pub cpu_ticks: u64,
    /// Nice value.
    pub nice: i32,
    /// Start, ticks since boot.
    pub start_ticks: u64,
    /// Resident set, pages.
    pub rss_pages: u64,
    /// CPU on which it last ran.
    pub cpu: u32,
    /// Scheduling policy.
    pub policy: u32,
    /// Priority under a real-time policy, else 0.
    pub rt_priority: u32,
    /// Time in I/O wait, ticks (0 unless delay accounting is on).
    pub iowait_ticks: u64,
}

impl Stat {
    /// Reads the file.
    pub fn read(path: &Path) -> Option<Self> {
        Self::parse(&text::read(path).ok()?)
    }

    /// Parses `1 (name) S ...`; the name may hold anything, parentheses and newlines included.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let open = bytes.iter().position(|byte| *byte == b'(')?;
        let close = bytes.iter().rposition(|byte| *byte == b')')?;
        let fields: Vec<&[u8]> = text::words(bytes.get(close + 1..)?).collect();
        // Field numbers as in proc(5), where the state is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        let value = |number: usize| field(number).and_then(text::number).unwrap_or(0);
        let nice = field(19).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        Some(Self {
            tid: text::number(&bytes[..open])? as u32,
            comm: text::lossy(bytes.get(open + 1..close)?),
            state: char::from(*field(3)?.first()?),
            parent_pid: value(4) as u32,
            job: Job {
                process_group: value(5) as u32,
                session: value(6) as u32,
                // -1 without a terminal.
                foreground_group: field(8).and_then(text::number).map(|group| group as u32),
            },
            terminal: value(7) as u32,
            kernel: value(9) & KERNEL_THREAD_FLAG != 0,
            cpu_ticks: value(14).saturating_add(value(15)),
            nice: nice.unwrap_or(0),
            start_ticks: value(22),
            rss_pages: value(24),
            cpu: value(39) as u32,
            policy: value(41) as u32,
            rt_priority: value(40) as u32,
            iowait_ticks: value(42),
        })
    }
}

/// Whether files that need a process's memory lock may be read, given all of its threads.
pub fn may_read_memory(stats: &[Stat]) -> bool {
    stats.iter().all(|stat| !stat.kernel && !matches!(stat.state, 'D' | 'Z' | 'X'))
}

/// The stats of all threads of a process.
pub fn stats(roots: &Roots, pid: u32) -> Vec<Stat> {
    let task = roots.process(pid, "task");
    let tids = text::ids(&task).unwrap_or_default();
    tids.iter().filter_map(|tid| Stat::read(&task.join(tid.to_string()).join("stat"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_stays_a_name() {
        let line =
            b"7 (a) S 1 (\n\xff) D 5 7 8 34819 -1 4194560 1 2 3 4 10 20 0 0 20 -5 1 0 999 4096 \
            33 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 50 2 6 0 0 0 0 0 0 0 0 0 0\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.tid, 7);
        assert_eq!(stat.comm, "a) S 1 (\n\u{fffd}");
        assert_eq!((stat.state, stat.parent_pid, stat.nice), ('D', 5, -5));
        assert_eq!((stat.job.process_group, stat.job.session, stat.terminal), (7, 8, 34819));
        assert_eq!(stat.job.foreground_group, None);
        let with_terminal = String::from_utf8_lossy(line).replace("34819 -1", "34819 9");
        assert_eq!(Stat::parse(with_terminal.as_bytes()).unwrap().job.foreground_group, Some(9));
        assert_eq!((stat.cpu_ticks, stat.start_ticks, stat.rss_pages), (30, 999, 33));
        assert_eq!((stat.policy, stat.iowait_ticks), (2, 6));
        assert!(!stat.kernel);
    }

    #[test]
    fn half_a_line_is_no_thread() {
        assert_eq!(Stat::parse(b""), None);
        assert_eq!(Stat::parse(b"1 (x"), None);
        assert_eq!(Stat::parse(b") 1 ("), None);
        assert_eq!(Stat::parse(b"1 (x)"), None);
    }
}
