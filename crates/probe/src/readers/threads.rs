//! Who threads are: /proc/PID/task/TID/{stat,status,cgroup,wchan}, and once per process its command
//! line, executable and network namespace.
//!
//! The command line needs the process's memory lock: it is left out when a thread of the process is
//! in state D, and read through the guard otherwise. The cgroups stand behind the kernel's cgroup_mutex up
//! to Linux 6.7, which an attach may hold for as long as a fork hangs: they are read through the guard, too.
//!
//! Start times have the resolution of /proc (10 ms, rounded down); the kernel's own start time of
//! the same thread lies up to one tick later. Compare them with that tolerance.

use crate::readers::host;
use crate::readers::users;
use crate::system::clock::Clock;
use crate::system::guard::{self, Behind, Undone};
use crate::system::io_priority;
use crate::system::links::{link, namespace_inode};
use crate::system::stat::{Stat, may_read_memory};
use crate::system::status::Status;
use crate::system::units;
use crate::system::{Roots, blind, is_refusal, refused_by, text};
use holdup_reason::facts::{Blind, Body, Membership, Thread};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const COMMAND_BYTES_MAX: usize = 200;

/// Threads of a process whose state is looked at before its command line is read, when only some
/// of its threads are asked for; the guard stands behind.
const STATES_MAX: usize = 256;

/// What is remembered from one question to the next, for the length of a look.
#[derive(Debug, Default)]
pub struct Asked {
    /// Processes of whose threads the cgroups were not read, by the reason.
    without_cgroups: BTreeMap<Undone, BTreeSet<u32>>,
    /// Names of users, once the file was read.
    users: Option<users::Names>,
    /// Whether the machine has more than one node of memory, once that was read.
    has_several_nodes: Option<bool>,
}

impl Asked {
    /// Whose cgroups could not be read, once, a fact for each reason.
    pub fn unread(&mut self) -> Vec<Body> {
        let fact = |(undone, pids): (Undone, BTreeSet<u32>)| {
            let why = match undone {
                Undone::Hung => {
                    "the kernel did not answer in time: its lock on cgroups may be held"
                }
                Undone::NoThread => {
                    "no thread could be begun to ask: a limit on threads is met, or memory is short"
                }
            };
            Body::Blind(Blind {
                what: "proc.cgroup".into(),
                why: why.into(),
                therefore: "to which container those threads belong is unknown".into(),
                pids: pids.into_iter().collect(),
                ..Blind::default()
            })
        };
        std::mem::take(&mut self.without_cgroups).into_iter().map(fact).collect()
    }
}

/// One thread; `None` if it is gone. For several, [`threads_of`] is cheaper.
pub fn thread(roots: &Roots, tid: u32) -> Option<Thread> {
    threads_of(roots, [tid], &mut Asked::default()).pop()
}

/// Some threads, each process looked at once; those that are gone are left out.
pub fn threads_of(
    roots: &Roots,
    tids: impl IntoIterator<Item = u32>,
    asked: &mut Asked,
) -> Vec<Thread> {
    let mut by_pid: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for tid in tids {
        let status = text::read(&roots.process(tid, "status")).ok();
        if let Some(pid) = status.and_then(|status| text::keyed(&status, "Tgid")) {
            by_pid.entry(pid as u32).or_default().push(tid);
        }
    }
    let mut processes: Vec<Process> =
        by_pid.keys().filter_map(|pid| Process::read(roots, *pid, STATES_MAX)).collect();
    read_commands(roots, &mut processes);
    let mut wanted = Vec::new();
    for process in &processes {
        for tid in by_pid.get(&process.pid).into_iter().flatten() {
            let folder = roots.process(process.pid, "task").join(tid.to_string());
            let stat = Stat::read(&folder.join("stat"));
            wanted.extend(stat.map(|stat| (process, folder, stat)));
        }
    }
    all_of(roots, wanted, asked)
}

/// The rest of what is known of some threads.
fn all_of(roots: &Roots, wanted: Vec<(&Process, PathBuf, Stat)>, asked: &mut Asked) -> Vec<Thread> {
    let Asked { without_cgroups, users, has_several_nodes } = asked;
    let host = OfHost::read(roots, users, has_several_nodes);
    let files = wanted.iter().map(|(_, folder, _)| folder.join("cgroup"));
    let cgroups: Vec<_> = match cgroup_files_wait(roots) {
        true => read_cgroups(Behind::Cgroups, files),
        false => files.map(|file| Ok(read_memberships(&file))).collect(),
    };
    let mut found = Vec::new();
    for ((process, folder, stat), cgroups) in wanted.into_iter().zip(cgroups) {
        if let Err(undone) = cgroups {
            without_cgroups.entry(undone).or_default().insert(process.pid);
        }
        found.extend(process.thread(&host, &folder, &stat, cgroups.unwrap_or_default()));
    }
    found
}

/// All threads of all processes. Processes that cannot be read are left out, as are those that
/// ended meanwhile.
pub fn threads(roots: &Roots) -> Vec<Body> {
    let pids = match text::ids(&roots.proc) {
        Ok(pids) => pids,
        Err(error) => return vec![Body::Blind(no_proc(&error))],
    };
    let mut processes: Vec<Process> =
        pids.iter().filter_map(|pid| Process::read(roots, *pid, usize::MAX)).collect();
    read_commands(roots, &mut processes);
    let mut wanted = Vec::new();
    for process in &processes {
        let folder = |stat: &Stat| roots.process(process.pid, "task").join(stat.tid.to_string());
        wanted.extend(process.stats.iter().map(|stat| (process, folder(stat), stat.clone())));
    }
    let mut asked = Asked::default();
    let mut facts: Vec<Body> =
        all_of(roots, wanted, &mut asked).into_iter().map(Body::Thread).collect();
    facts.extend(asked.unread());
    let refusing = processes.iter().filter(|process| process.refused).map(|process| process.pid);
    let therefore = "executables and network namespaces of those processes are unknown";
    facts.extend(refused_by("proc.identity", refusing.collect(), therefore));
    facts
}

/// Why no process can be listed.
pub fn no_proc(error: &std::io::Error) -> Blind {
    blind("proc", error, "threads without events in the window are unknown")
}

/// What is read once for all threads.
struct OfHost<'r> {
    users: &'r users::Names,
    clock: Clock,
    has_several_nodes: bool,
}

impl<'r> OfHost<'r> {
    fn read(
        roots: &Roots,
        users: &'r mut Option<users::Names>,
        has_several_nodes: &mut Option<bool>,
    ) -> Self {
        let users = users.get_or_insert_with(|| users::names(roots));
        let has_several_nodes =
            *has_several_nodes.get_or_insert_with(|| host::has_several_nodes(roots));
        Self { users, clock: Clock::now(), has_several_nodes }
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

    fn thread(
        &self,
        host: &OfHost<'_>,
        folder: &Path,
        stat: &Stat,
        cgroups: Vec<Membership>,
    ) -> Option<Thread> {
        let status = Status::parse(&text::read(&folder.join("status")).ok()?);
        let waits = !matches!(stat.state, 'R' | 'Z' | 'X');
        let wchan = waits.then(|| text::read_text(&folder.join("wchan")).ok()).flatten();
        let thread = host.clock.thread_ref(stat, self.pid);
        let io_priority = io_priority::of(thread.tid).filter(|_| !stat.kernel);
        Some(Thread {
            thread,
            parent_pid: stat.parent_pid,
            process_group: stat.job.process_group,
            session: stat.job.session,
            foreground_group: stat.job.foreground_group.filter(|_| stat.terminal != 0),
            kernel: stat.kernel,
            command: self.command.clone(),
            executable: self.executable.clone(),
            cgroups,
            inner_pid: status.inner_pid,
            inner_tid: status.inner_tid,
            netns: self.netns,
            cpus_allowed: status.cpus_allowed,
            memory_nodes_allowed: match host.has_several_nodes {
                true => status.memory_nodes_allowed,
                false => Vec::new(),
            },
            policy: stat.policy,
            rt_priority: (stat.rt_priority != 0).then_some(stat.rt_priority),
            nice: stat.nice,
            io_priority,
            state: stat.state.to_string(),
            tracer_pid: status.tracer_pid,
            rss_bytes: stat.rss_pages.saturating_mul(units::page_bytes()),
            swap_bytes: status.swap_bytes,
            capabilities: status.capabilities,
            uid: status.uid,
            user: status.uid.and_then(|uid| host.users.get(&uid).cloned()),
            // `0` stands for running, and for `may not be seen`.
            wchan: wchan.filter(|wchan| wchan != "0").unwrap_or_default(),
        })
    }
}

/// The command lines of all processes of which none can be asleep with its memory lock held.
fn read_commands(roots: &Roots, processes: &mut [Process]) {
    let wanted = processes.iter_mut().filter(|process| process.may_read_memory());
    let (behind, mut processes): (Vec<_>, Vec<_>) =
        wanted.map(|it| ((Behind::Process(it.pid), roots.process(it.pid, "cmdline")), it)).unzip();
    for (process, command) in processes.iter_mut().zip(guard::map_behind(behind, read_command)) {
        process.command = command.unwrap_or_default();
    }
}

/// The cgroups of each of some threads by their files; none of those that did not come back.
fn read_cgroups(
    behind: Behind,
    files: impl Iterator<Item = PathBuf>,
) -> Vec<Result<Vec<Membership>, Undone>> {
    let files = files.map(|file| (behind, file)).collect();
    guard::attempt_behind(files, |file: &PathBuf| read_memberships(file))
}

fn read_memberships(file: &Path) -> Vec<Membership> {
    text::read(file).map(|bytes| memberships(&bytes)).unwrap_or_default()
}

/// Whether the kernel may take its lock on cgroups to show those of a thread: before 6.8, or who knows (proc_cgroup_show, kernel/cgroup/cgroup.c).
/// Where it does not, a helper would only add the ways in which it can be late.
fn cgroup_files_wait(roots: &Roots) -> bool {
    const WITHOUT: (u64, u64) = (6, 8);
    let release = text::read(&roots.proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let mut parts = release.split(|byte| !byte.is_ascii_digit()).map(text::number);
    let version = parts.next().flatten().zip(parts.next().flatten());
    version.is_none_or(|version| version < WITHOUT)
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
    fn words_of_a_command_line() {
        assert_eq!(command(b"/sbin/init\0two words\0\0x\0\0\0"), "/sbin/init two words  x");
        assert_eq!(command(b"\0\0"), "");
    }

    #[test]
    fn a_file_of_cgroups_that_does_not_come_back_is_left() {
        let name = format!("holdup-cgroups-{}", std::process::id());
        let [hangs, good] =
            ["fifo", "good"].map(|it| std::env::temp_dir().join(format!("{name}-{it}")));
        // Whoever opens it waits for a writer.
        rustix::fs::mkfifoat(rustix::fs::CWD, &hangs, 0o600.into()).expect("a FIFO");
        std::fs::write(&good, "0::/a\n").expect("a file");
        // Not that of the kernel: other tests read their cgroups meanwhile.
        let behind = Behind::Process(u32::MAX - 2);
        let read = read_cgroups(behind, [good.clone(), hangs.clone(), good.clone()].into_iter());
        // Lets the helper go.
        let writer = std::fs::OpenOptions::new().write(true).open(&hangs);
        let path = |at: usize| read[at].as_ref().map(|it| it[0].path.as_str());
        let hung = Err(&Undone::Hung);
        assert_eq!((path(0), path(1), path(2)), (Ok("/a"), hung, hung));
        drop(writer);
        [hangs, good].iter().for_each(|file| drop(std::fs::remove_file(file)));
    }

    #[test]
    fn a_kernel_that_takes_no_lock_for_it_is_known_by_its_release() {
        let root = std::env::temp_dir().join(format!("holdup-release-{}", std::process::id()));
        let file = root.join("proc/sys/kernel/osrelease");
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        let waits = |release: &str| {
            std::fs::write(&file, release).expect("a file");
            cgroup_files_wait(&Roots::under(&root))
        };
        assert!(waits("5.10.0-30-amd64\n") && waits("6.7.12\n") && waits("?\n"));
        assert!(!waits("6.8.0-31-generic\n") && !waits("7.0\n"));
        std::fs::remove_dir_all(&root).expect("gone");
    }

    #[test]
    fn controllers_and_paths_with_colons() {
        let found = memberships(b"2:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/x\n");
        assert_eq!(found[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(found[0].path, "/a:b");
        assert!(found[2].controllers.is_empty());
    }
}
