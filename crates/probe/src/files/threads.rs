//! Who threads are: /proc/PID/task/TID/{stat,status,cgroup,wchan}, and once per process its command
//! line, executable and network namespace.
//!
//! The command line needs the process's memory lock: it is left out when a thread of the process is
//! in state D, and read through the guard otherwise.
//!
//! Start times have the resolution of /proc (10 ms, rounded down); the kernel's own start time of
//! the same thread lies up to one tick later. Compare them with that tolerance.

use super::{Roots, blind, guard, host, is_refusal, refused_by, text, users};
use holdup_reason::facts::{Blind, Body, Membership, Ns, Thread, ThreadRef};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const COMMAND_BYTES_MAX: usize = 200;

/// Threads of a process whose state is looked at before its command line is read, when only some
/// of its threads are asked for; the guard stands behind.
const STATES_MAX: usize = 256;

/// `PF_KTHREAD` of include/linux/sched.h.
const KERNEL_THREAD_FLAG: u64 = 0x0020_0000;

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
    /// Process group.
    pub process_group: u32,
    /// Session.
    pub session: u32,
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
            process_group: value(5) as u32,
            session: value(6) as u32,
            kernel: value(9) & KERNEL_THREAD_FLAG != 0,
            cpu_ticks: value(14).saturating_add(value(15)),
            nice: nice.unwrap_or(0),
            start_ticks: value(22),
            rss_pages: value(24),
            cpu: value(39) as u32,
            policy: value(41) as u32,
            iowait_ticks: value(42),
        })
    }
}

/// Turns start times of /proc, ticks since boot, into CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
    pub boot_offset_ns: u64,
    /// Length of a tick of /proc.
    pub tick_ns: u64,
}

impl Clock {
    /// The running machine's.
    pub fn now() -> Self {
        let boot = clock_ns(libc::CLOCK_BOOTTIME);
        let boot_offset_ns = boot.saturating_sub(clock_ns(libc::CLOCK_MONOTONIC));
        // Two readings are never at the same instant; without a suspend the offset is nothing.
        let boot_offset_ns = if boot_offset_ns < 1_000_000 { 0 } else { boot_offset_ns };
        Self { boot_offset_ns, tick_ns: 1_000_000_000 / host::ticks_per_second() }
    }

    /// When a thread began.
    pub fn start_ns(&self, stat: &Stat) -> Ns {
        stat.start_ticks.saturating_mul(self.tick_ns).saturating_sub(self.boot_offset_ns)
    }

    /// The thread's name in facts.
    pub fn thread_ref(&self, stat: &Stat, pid: u32) -> ThreadRef {
        let start_ns = self.start_ns(stat);
        ThreadRef { tid: stat.tid, pid, start_ns, comm: stat.comm.clone() }
    }
}

/// A clock's time, nanoseconds.
pub fn clock_ns(clock: libc::clockid_t) -> Ns {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    if failed != 0 { 0 } else { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 }
}

/// One thread; `None` if it is gone. For several, [`threads_of`] is cheaper.
pub fn thread(roots: &Roots, tid: u32) -> Option<Thread> {
    threads_of(roots, [tid]).pop()
}

/// Some threads, each process looked at once; those that are gone are left out.
pub fn threads_of(roots: &Roots, tids: impl IntoIterator<Item = u32>) -> Vec<Thread> {
    let mut by_pid: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for tid in tids {
        let status = text::read(&roots.process(tid, "status")).ok();
        if let Some(pid) = status.and_then(|status| text::keyed(&status, "Tgid")) {
            by_pid.entry(pid as u32).or_default().push(tid);
        }
    }
    let host = OfHost::read(roots);
    let mut processes: Vec<Process> =
        by_pid.keys().filter_map(|pid| Process::read(roots, *pid, STATES_MAX)).collect();
    read_commands(roots, &mut processes);
    let mut found = Vec::new();
    for process in &processes {
        for tid in by_pid.get(&process.pid).into_iter().flatten() {
            let folder = roots.process(process.pid, "task").join(tid.to_string());
            let stat = Stat::read(&folder.join("stat"));
            found.extend(stat.and_then(|stat| process.thread(&host, &folder, &stat)));
        }
    }
    found
}

/// The thread of a process that goes by `inner_tid` in its own PID namespace: its tid as /proc has it. The search is
/// over all threads of the process: who asks for many waiters must remember.
pub fn thread_inside(roots: &Roots, pid: u32, inner_tid: u32) -> Option<u32> {
    let task = roots.process(pid, "task");
    let inner = |tid: u32| {
        let status = text::read(&task.join(tid.to_string()).join("status")).ok()?;
        Some(Status::parse(&status).inner_tid.unwrap_or(tid))
    };
    // In the namespace of /proc both ids are one.
    if inner(inner_tid) == Some(inner_tid) {
        return Some(inner_tid);
    }
    text::ids(&task).ok()?.into_iter().find(|tid| inner(*tid) == Some(inner_tid))
}

/// The threads of a process as /proc has them, by their ids in its own PID namespace.
pub fn threads_by_inner_tid(roots: &Roots, pid: u32) -> HashMap<u32, u32> {
    let task = roots.process(pid, "task");
    let inner = |tid: u32| {
        let status = text::read(&task.join(tid.to_string()).join("status")).ok()?;
        Some((Status::parse(&status).inner_tid.unwrap_or(tid), tid))
    };
    text::ids(&task).unwrap_or_default().into_iter().filter_map(inner).collect()
}

/// All threads of all processes. Processes that cannot be read are left out, as are those that
/// ended meanwhile.
pub fn threads(roots: &Roots) -> Vec<Body> {
    let pids = match text::ids(&roots.proc) {
        Ok(pids) => pids,
        Err(error) => return vec![Body::Blind(no_proc(&error))],
    };
    let host = OfHost::read(roots);
    let mut processes: Vec<Process> =
        pids.iter().filter_map(|pid| Process::read(roots, *pid, usize::MAX)).collect();
    read_commands(roots, &mut processes);
    let mut facts = Vec::new();
    for process in &processes {
        for stat in &process.stats {
            let folder = roots.process(process.pid, "task").join(stat.tid.to_string());
            facts.extend(process.thread(&host, &folder, stat).map(Body::Thread));
        }
    }
    let refusing = processes.iter().filter(|process| process.refused).map(|process| process.pid);
    let therefore = "executables and network namespaces of those processes are unknown";
    facts.extend(refused_by("proc.identity", refusing.collect(), therefore));
    facts
}

/// Why no process can be listed.
pub(super) fn no_proc(error: &std::io::Error) -> Blind {
    blind("proc", error, "threads without events in the window are unknown")
}

/// What is read once for all threads.
struct OfHost<'r> {
    roots: &'r Roots,
    clock: Clock,
    has_several_nodes: bool,
}

impl<'r> OfHost<'r> {
    fn read(roots: &'r Roots) -> Self {
        Self { roots, clock: Clock::now(), has_several_nodes: host::has_several_nodes(roots) }
    }
}

/// What the threads of a process share.
struct Process {
    pid: u32,
    stats: Vec<Stat>,
    command: String,
    executable: String,
    netns: u32,
    /// It belongs to somebody else, and what only its owner may read is missing.
    refused: bool,
}

impl Process {
    /// Reads up to `states_max` of its threads.
    fn read(roots: &Roots, pid: u32, states_max: usize) -> Option<Self> {
        let task = roots.process(pid, "task");
        let tids = text::first_ids(&task, states_max).ok()?;
        let stat = |tid: &u32| Stat::read(&task.join(tid.to_string()).join("stat"));
        let stats: Vec<Stat> = tids.iter().filter_map(stat).collect();
        let kernel = stats.first()?.kernel;
        let executable = match kernel {
            true => String::new(),
            false => link(&roots.process(pid, "exe")).unwrap_or_default(),
        };
        let target = std::fs::read_link(roots.process(pid, "ns/net"));
        let refused = !kernel && target.as_ref().is_err_and(is_refusal);
        let netns = target.ok().and_then(|target| namespace_inode(target.to_str()?)).unwrap_or(0);
        Some(Self { pid, stats, command: String::new(), executable, netns, refused })
    }

    /// No thread of it can hold its memory lock asleep, and it has a memory.
    fn may_read_memory(&self) -> bool {
        may_read_memory(&self.stats)
    }

    fn thread(&self, host: &OfHost<'_>, folder: &Path, stat: &Stat) -> Option<Thread> {
        let status = Status::parse(&text::read(&folder.join("status")).ok()?);
        let cgroups = text::read(&folder.join("cgroup")).map(|bytes| memberships(&bytes));
        let waits = !matches!(stat.state, 'R' | 'Z' | 'X');
        let wchan = waits.then(|| text::read_text(&folder.join("wchan")).ok()).flatten();
        Some(Thread {
            thread: host.clock.thread_ref(stat, self.pid),
            parent_pid: stat.parent_pid,
            process_group: stat.process_group,
            session: stat.session,
            kernel: stat.kernel,
            command: self.command.clone(),
            executable: self.executable.clone(),
            cgroups: cgroups.unwrap_or_default(),
            inner_pid: status.inner_pid,
            inner_tid: status.inner_tid,
            netns: self.netns,
            cpus_allowed: status.cpus_allowed,
            memory_nodes_allowed: match host.has_several_nodes {
                true => status.memory_nodes_allowed,
                false => Vec::new(),
            },
            policy: stat.policy,
            nice: stat.nice,
            state: stat.state.to_string(),
            tracer_pid: status.tracer_pid,
            rss_bytes: stat.rss_pages.saturating_mul(host::page_bytes()),
            swap_bytes: status.swap_bytes,
            capabilities: status.capabilities,
            uid: status.uid,
            user: status.uid.and_then(|uid| users::name(host.roots, uid)),
            // `0` stands for running, and for `may not be seen`.
            wchan: wchan.filter(|wchan| wchan != "0").unwrap_or_default(),
        })
    }
}

/// Processes whose command line did not come back once: a second try would cost the guard's
/// timeout again, and one more thread left behind.
static STUCK: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The command lines of all processes of which none can be asleep with its memory lock held.
fn read_commands(roots: &Roots, processes: &mut [Process]) {
    let mut stuck = STUCK.lock().unwrap_or_else(PoisonError::into_inner);
    let may = |process: &Process| process.may_read_memory() && !stuck.contains(&process.pid);
    let wanted = processes.iter().enumerate().filter(|(_, process)| may(process));
    let (places, paths): (Vec<usize>, Vec<PathBuf>) =
        wanted.map(|(at, process)| (at, roots.process(process.pid, "cmdline"))).unzip();
    let mut hung = Vec::new();
    for (at, command) in places.into_iter().zip(guard::map(paths, read_command)) {
        match command {
            Some(command) => processes[at].command = command,
            None => hung.push(processes[at].pid),
        }
    }
    // The guard tries none after so many that hung.
    stuck.extend(hung.into_iter().take(guard::GIVEN_UP_MAX));
}

/// Whether files that need a process's memory lock may be read, given all of its threads.
pub(super) fn may_read_memory(stats: &[Stat]) -> bool {
    stats.iter().all(|stat| !stat.kernel && !matches!(stat.state, 'D' | 'Z' | 'X'))
}

/// The stats of all threads of a process.
pub(super) fn stats(roots: &Roots, pid: u32) -> Vec<Stat> {
    let task = roots.process(pid, "task");
    let tids = text::ids(&task).unwrap_or_default();
    tids.iter().filter_map(|tid| Stat::read(&task.join(tid.to_string()).join("stat"))).collect()
}

fn read_command(path: &PathBuf) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    let limit = COMMAND_BYTES_MAX as u64;
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    command(&bytes)
}

/// NULs, which part the words, as spaces; without those at the end.
fn command(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    text::lossy(&bytes[..end]).replace('\0', " ")
}

/// Where a symbolic link points, lossily.
pub(super) fn link(path: &Path) -> Option<String> {
    Some(text::lossy(std::fs::read_link(path).ok()?.as_os_str().as_bytes()))
}

/// The inode in `net:[4026531840]`.
pub(super) fn namespace_inode(target: &str) -> Option<u32> {
    target.split_once(":[")?.1.strip_suffix(']')?.parse().ok()
}

/// The parts of /proc/PID/status that are used.
#[derive(Default)]
struct Status {
    inner_pid: Option<u32>,
    inner_tid: Option<u32>,
    tracer_pid: u32,
    swap_bytes: Option<u64>,
    capabilities: Option<u64>,
    uid: Option<u32>,
    cpus_allowed: Vec<u32>,
    memory_nodes_allowed: Vec<u32>,
}

impl Status {
    fn parse(bytes: &[u8]) -> Self {
        let mut status = Self::default();
        for line in text::lines(bytes) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let value = line[colon + 1..].trim_ascii();
            match &line[..colon] {
                b"NStgid" => status.inner_pid = innermost(value),
                b"NSpid" => status.inner_tid = innermost(value),
                b"TracerPid" => status.tracer_pid = text::number(value).unwrap_or(0) as u32,
                b"VmSwap" => status.swap_bytes = kilobytes(value),
                // Real, effective, saved, and of the file system.
                b"Uid" => {
                    status.uid =
                        text::words(value).nth(1).and_then(text::number).map(|it| it as u32)
                }
                b"CapEff" => {
                    status.capabilities = u64::from_str_radix(&text::lossy(value), 16).ok();
                }
                b"Cpus_allowed_list" => status.cpus_allowed = text::cpu_list(&text::lossy(value)),
                b"Mems_allowed_list" => {
                    status.memory_nodes_allowed = text::cpu_list(&text::lossy(value));
                }
                _ => {}
            }
        }
        status
    }
}

/// `12 kB` in bytes.
fn kilobytes(value: &[u8]) -> Option<u64> {
    Some(text::words(value).next().and_then(text::number)?.saturating_mul(1024))
}

/// The last of several ids: the one in the innermost namespace.
fn innermost(value: &[u8]) -> Option<u32> {
    let ids: Vec<&[u8]> = text::words(value).collect();
    (ids.len() > 1)
        .then(|| ids.last().and_then(|id| text::number(id)))
        .flatten()
        .map(|id| id as u32)
}

/// Lines such as `4:memory:/a/b` and `0::/a`.
fn memberships(bytes: &[u8]) -> Vec<Membership> {
    let parse = |line: &[u8]| {
        let line = text::lossy(line);
        let mut parts = line.splitn(3, ':');
        let _hierarchy = parts.next()?;
        let controllers = parts.next()?;
        let path = parts.next()?.to_string();
        let controllers =
            controllers.split(',').filter(|c| !c.is_empty()).map(Into::into).collect();
        Some(Membership { controllers, path })
    };
    text::lines(bytes).filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_stays_a_name() {
        let line = b"7 (a) S 1 (\n\xff) D 5 7 8 0 -1 4194560 1 2 3 4 10 20 0 0 20 -5 1 0 999 4096 \
            33 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 50 2 6 0 0 0 0 0 0 0 0 0 0\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.tid, 7);
        assert_eq!(stat.comm, "a) S 1 (\n\u{fffd}");
        assert_eq!((stat.state, stat.parent_pid, stat.nice), ('D', 5, -5));
        assert_eq!((stat.process_group, stat.session), (7, 8));
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

    #[test]
    fn words_of_a_command_line() {
        assert_eq!(command(b"/sbin/init\0two words\0\0x\0\0\0"), "/sbin/init two words  x");
        assert_eq!(command(b"\0\0"), "");
    }

    #[test]
    fn ids_inside_a_namespace() {
        assert_eq!(innermost(b"120\t7\t1"), Some(1));
        assert_eq!(innermost(b"120"), None);
    }

    #[test]
    fn what_is_in_swap_is_bytes_and_a_kernel_thread_has_none() {
        let swap_bytes = |file: &[u8]| Status::parse(file).swap_bytes;
        assert_eq!(swap_bytes(b"Name:\tx\nVmSwap:\t      12 kB\n"), Some(12 << 10));
        assert_eq!(swap_bytes(b"Name:\tkswapd0\n"), None);
    }

    #[test]
    fn controllers_and_paths_with_colons() {
        let found = memberships(b"2:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/x\n");
        assert_eq!(found[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(found[0].path, "/a:b");
        assert!(found[2].controllers.is_empty());
    }
}
