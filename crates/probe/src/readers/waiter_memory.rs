//! What only the memory of a waiter says: the words of a futex, the descriptors of a poll or select, the path of a call.
//!
//! To read it takes the memory lock of the process, a wait that no signal ends, and brings pages that are not there: where one
//! thread maps a file of a dead file system, a read of another one's words may last for ever. So all questions about a process are
//! one item of a batch that a helper works off (guard.rs), and a process is left out if one of its threads sleeps in D where that
//! lock may be held, or waits for it. Who was not read is reported once, as the look ends, by the reason: what may hang, what nobody
//! could be set to, what the kernel refuses and what is too much are four sentences, for each has another way out.
//!
//! Must not: read on the thread that looks, or decide what is asked (standing_waits.rs, polled.rs, paths.rs). Rejected: to leave out
//! whoever has a thread in D (a holder that waits for a disk with a mutex held is in D, and the waiters' word is what names it);
//! reading the states of all threads from /proc once more (the walk that gave the waits has just seen them).

use crate::system::guard::{self, Behind, Undone};
use crate::system::{Roots, memory, refused_by, text};
use holdup_reason::facts::{Blind, Blocked, Body, Fact, Guards, Ns, WaitState};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Waits of one batch whose memory is read: each takes some microseconds, all of them a twentieth of a second.
const READ_MAX: usize = 16_384;
/// Of an epoll's fdinfo: a line for each descriptor.
const BYTES_MAX: u64 = 8192;
/// Among more descriptors no timer is looked for: they are a server's, and whatever comes ends its waits.
const TIMED_MAX: usize = 8;
/// Linux's PATH_MAX.
const PATH_BYTES_MAX: usize = 4096;

/// What is asked; addresses are the waiter's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// The word of a futex, and the one that glibc keeps beside it.
    Futex { address: u64 },
    /// The array of a poll.
    Poll { array: u64, count: u64 },
    /// The sets of a select.
    Select { sets: [u64; 2], count: u64 },
    /// What an epoll watches: its fdinfo takes a mutex that is held while the files in it are asked.
    Epoll { fd: u64 },
    /// A path.
    Path { address: u64 },
    /// Which process a descriptor stands for.
    Process { fd: u64 },
}

/// What the memory says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// See [`memory::futex_words`].
    Futex(u32, Option<u32>),
    /// Descriptors, and how long it is until the first timer among them runs out.
    Descriptors(Vec<u32>, Option<Ns>),
    /// A path as the program has it.
    Path(String),
    /// The number of a process, as the waiter's own PID namespace has it.
    Process(u64),
}

impl Answer {
    /// Nothing was there, or it may not be read.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Descriptors(all, _) if all.is_empty())
    }
}

impl Question {
    pub(super) fn answer(self, roots: &Roots, pid: u32) -> Option<Answer> {
        match self {
            Self::Futex { address } => {
                let (word, beside) = memory::futex_words(pid, address)?;
                Some(Answer::Futex(word, beside))
            }
            Self::Poll { array, count } => {
                Some(descriptors(roots, pid, memory::poll_descriptors(pid, array, count)))
            }
            Self::Select { sets, count } => {
                let set = |address| memory::descriptor_set(pid, address, count);
                Some(descriptors(roots, pid, sets.into_iter().flat_map(set).collect()))
            }
            Self::Epoll { fd } => Some(descriptors(roots, pid, watched(roots, pid, fd))),
            Self::Path { address } => memory::text(pid, address, PATH_BYTES_MAX).map(Answer::Path),
            Self::Process { fd } => process_behind(roots, pid, fd).map(Answer::Process),
        }
    }
}

/// Why the memory of a process was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// A thread of it may hold its memory lock asleep, or a read hung.
    MayHang,
    /// No thread could be begun that reads it.
    NoThread,
    /// The kernel refuses it (ptrace(2), PTRACE_MODE_ATTACH_REALCREDS).
    Refused,
    /// More waits were asked about than are read.
    TooMany,
}

/// Processes whose memory was not read, by the reason.
#[derive(Debug, Default, PartialEq)]
pub struct Unread(BTreeMap<Why, BTreeSet<u32>>);

impl Unread {
    fn add(&mut self, pid: u32, why: Why) {
        self.0.entry(why).or_default().insert(pid);
    }
}

/// What is read of what is asked about some waits, by their places among `waits` and in their order. Whose memory was not read is
/// added to `unread`; what is not there is left out.
pub(super) fn answers(
    roots: &Roots,
    waits: &[Fact],
    questions: &[(usize, Question)],
    unread: &mut Unread,
) -> Vec<(usize, Question, Answer)> {
    let left_out = with_memory_lock(waits);
    let mut by_process: BTreeMap<u32, Vec<(usize, Question)>> = BTreeMap::new();
    for (count, (at, question)) in questions.iter().enumerate() {
        let Some(Body::Blocked(blocked)) = waits.get(*at).map(|fact| &fact.body) else { continue };
        let pid = blocked.thread.pid;
        match count < READ_MAX {
            _ if left_out.contains(&pid) => unread.add(pid, Why::MayHang),
            true => by_process.entry(pid).or_default().push((*at, *question)),
            false => unread.add(pid, Why::TooMany),
        }
    }
    let pids: Vec<u32> = by_process.keys().copied().collect();
    let batch = by_process.into_iter().map(|(pid, all)| (Behind::Process(pid), (pid, all)));
    let roots = roots.clone();
    let read = guard::attempt_behind(batch.collect(), move |(pid, all)| {
        let answer = |(at, question): &(usize, Question)| {
            Some((*at, *question, question.answer(&roots, *pid)?))
        };
        let found: Vec<_> = all.iter().filter_map(answer).collect();
        let is_read = found.iter().any(|(_, _, answer)| !answer.is_empty());
        (is_read || !memory::is_refused(*pid)).then_some(found)
    });
    let mut all = Vec::new();
    for (pid, read) in pids.into_iter().zip(read) {
        match read {
            Ok(Some(found)) => all.extend(found),
            Ok(None) => unread.add(pid, Why::Refused),
            Err(Undone::Hung) => unread.add(pid, Why::MayHang),
            Err(Undone::NoThread) => unread.add(pid, Why::NoThread),
        }
    }
    all.sort_by_key(|(at, _, _)| *at);
    all
}

/// Whose memory was not read, once, a fact for each reason.
pub(super) fn report(unread: &mut Unread) -> Vec<Body> {
    const WHAT: &str = "process.memory";
    const THEREFORE: &str =
        "which futexes, descriptors and paths their threads wait for is unknown";
    let fact = |(why, pids): (Why, BTreeSet<u32>)| {
        let pids: Vec<u32> = pids.into_iter().collect();
        let of =
            if pids.len() == 1 { "1 process".into() } else { format!("{} processes", pids.len()) };
        let why = match why {
            Why::MayHang => {
                format!("the memory lock of {of} may be held: whoever reads there may hang")
            }
            Why::NoThread => format!(
                "no thread could be begun to read {of}: a limit on threads is met, or memory is short"
            ),
            Why::TooMany => format!("more than {READ_MAX} waits were to be read: {of} left out"),
            Why::Refused => return refused_by(WHAT, pids, THEREFORE),
        };
        let (what, therefore) = (WHAT.into(), THEREFORE.into());
        Some(Body::Blind(Blind { what, why, therefore, pids, ..Blind::default() }))
    };
    std::mem::take(&mut unread.0).into_iter().filter_map(fact).collect()
}

fn descriptors(roots: &Roots, pid: u32, all: Vec<u32>) -> Answer {
    let timer_ns = first_timer_ns(roots, pid, &all);
    Answer::Descriptors(all, timer_ns)
}

/// How long it is until the first timer among some descriptors runs out; none if none of them is a timer that runs.
fn first_timer_ns(roots: &Roots, pid: u32, all: &[u32]) -> Option<Ns> {
    let is_timer = |fd: &&u32| {
        let link = std::fs::read_link(roots.process(pid, "fd").join(fd.to_string()));
        link.is_ok_and(|to| to.as_os_str() == "anon_inode:[timerfd]")
    };
    let left_ns = |fd: &u32| {
        let fdinfo = text::read(&roots.process(pid, "fdinfo").join(fd.to_string())).ok()?;
        timer_left_ns(&fdinfo)
    };
    let few = Some(all).filter(|all| all.len() <= TIMED_MAX)?;
    few.iter().filter(is_timer).filter_map(left_ns).min()
}

/// How long it is until a timer runs out, by its fdinfo: `it_value: (SECONDS, NANOSECONDS)`, which are 0 of one that does not run.
fn timer_left_ns(fdinfo: &[u8]) -> Option<Ns> {
    let value = text::lines(fdinfo).find_map(|line| line.strip_prefix(b"it_value:"))?;
    let value = text::lossy(value);
    let (seconds, ns) = value.trim().strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    let (seconds, ns): (Ns, Ns) = (seconds.trim().parse().ok()?, ns.trim().parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns).filter(|left_ns| *left_ns > 0)
}

/// Those that an epoll watches; none if there are too many to tell.
fn watched(roots: &Roots, pid: u32, epoll: u64) -> Vec<u32> {
    let path = roots.process(pid, "fdinfo").join(epoll.to_string());
    let mut bytes = Vec::new();
    let Ok(file) = std::fs::File::open(path) else { return Vec::new() };
    if file.take(BYTES_MAX).read_to_end(&mut bytes).is_err() || bytes.len() as u64 == BYTES_MAX {
        return Vec::new();
    }
    let target = |line: &[u8]| {
        let mut words = text::words(line.strip_prefix(b"tfd:")?);
        u32::try_from(text::number(words.next()?)?).ok()
    };
    text::lines(&bytes).filter_map(target).collect()
}

/// The process that a pidfd stands for (pidfd_open(2)), by the number that it has where its holder lives: `NSpid:` has that of each PID namespace, from
/// that of whoever reads to its own. None of one that has ended.
fn process_behind(roots: &Roots, pid: u32, fd: u64) -> Option<u64> {
    let fdinfo = text::read(&roots.process(pid, "fdinfo").join(fd.to_string())).ok()?;
    let status = text::read(&roots.process(pid, "status")).ok()?;
    let numbers = |bytes: &[u8]| -> Vec<u64> {
        let own = text::lines(bytes).find_map(|line| line.strip_prefix(b"NSpid:"));
        own.into_iter().flat_map(text::words).filter_map(text::number).collect()
    };
    let depth = numbers(&status).len().max(1);
    let known = numbers(&fdinfo).get(depth - 1).copied();
    known.or_else(|| text::keyed(&fdinfo, "Pid")).filter(|number| *number > 0)
}

/// The place of the path among the arguments of a call that changes names or metadata.
pub(super) fn path_argument(syscall: &str) -> Option<usize> {
    Some(match syscall {
        "mkdir" | "rmdir" | "unlink" | "rename" | "link" | "mknod" | "truncate" | "chmod"
        | "chown" | "lchown" | "utime" | "utimes" | "setxattr" | "lsetxattr" | "removexattr"
        | "creat" | "open" => 0,
        "mkdirat" | "unlinkat" | "renameat" | "renameat2" | "mknodat" | "fchmodat"
        | "fchmodat2" | "fchownat" | "utimensat" | "openat" | "openat2" => 1,
        "symlink" => 1,
        "symlinkat" => 2,
        "linkat" => 3,
        _ => return None,
    })
}

/// Processes of which a thread may hold the memory lock asleep, or waits for it.
fn with_memory_lock(waits: &[Fact]) -> BTreeSet<u32> {
    let whose = |blocked: &Blocked| {
        let place = &blocked.place;
        let wanted = place.lock.as_ref().filter(|lock| lock.guards == Guards::Memory);
        match wanted {
            Some(lock) => Some(lock.process.as_ref().unwrap_or(&blocked.thread).pid),
            None => (place.state == WaitState::DiskSleep && may_have_memory_lock(&place.syscall))
                .then_some(blocked.thread.pid),
        }
    };
    let blocked = waits.iter().filter_map(|fact| match &fact.body {
        Body::Blocked(blocked) if !blocked.kernel => Some(blocked),
        _ => None,
    });
    blocked.filter_map(whose).collect()
}

/// System calls that may sleep with the memory lock: those that change mappings, fork and exec, and faults, which are in no call. A fault
/// within another call, on its buffer, has it for reading: others read beside it, unless somebody waits to change the mappings, who is
/// seen in D himself.
fn may_have_memory_lock(syscall: &str) -> bool {
    matches!(
        syscall,
        "" | "mmap"
            | "munmap"
            | "mprotect"
            | "pkey_mprotect"
            | "mremap"
            | "remap_file_pages"
            | "brk"
            | "madvise"
            | "process_madvise"
            | "mincore"
            | "mbind"
            | "migrate_pages"
            | "move_pages"
            | "mlock"
            | "mlock2"
            | "mlockall"
            | "munlock"
            | "munlockall"
            | "mseal"
            | "shmat"
            | "shmdt"
            | "clone"
            | "clone3"
            | "fork"
            | "execve"
            | "execveat"
            | "exit"
            | "exit_group"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{KernelLock, Place, ThreadRef};

    fn stands(pid: u32, tid: u32, state: WaitState, syscall: &str) -> Fact {
        let thread = ThreadRef { tid, pid, ..ThreadRef::default() };
        let place = Place { state, syscall: syscall.into(), ..Place::default() };
        Fact { at_ns: 1, body: Body::Blocked(Blocked { thread, place, ..Blocked::default() }) }
    }

    #[test]
    fn who_may_have_the_memory_lock_asleep_is_left_out() {
        let of = |syscall| with_memory_lock(&[stands(7, 8, WaitState::DiskSleep, syscall)]);
        for syscall in ["mmap", "munmap", "brk", "execve", "clone", ""] {
            assert!(of(syscall).contains(&7), "{syscall:?}");
        }
        for syscall in ["fsync", "mkdir", "openat", "read", "ioctl", "msync", "vfork"] {
            assert!(of(syscall).is_empty(), "{syscall}: its waiters are to be read");
        }
        assert!(with_memory_lock(&[stands(7, 8, WaitState::Sleep, "futex")]).is_empty());
    }

    #[test]
    fn whose_memory_lock_is_waited_for_is_left_out() {
        let mut reads = stands(7, 7, WaitState::DiskSleep, "read");
        let Body::Blocked(blocked) = &mut reads.body else { return };
        let process = Some(ThreadRef { pid: 9, tid: 9, ..ThreadRef::default() });
        let lock = KernelLock { guards: Guards::Memory, process, ..KernelLock::default() };
        blocked.place.lock = Some(Box::new(lock));
        assert_eq!(with_memory_lock(&[reads]), BTreeSet::from([9]));
    }

    #[test]
    fn a_descriptor_of_a_process_says_which_it_is() {
        use rustix::process::{PidfdFlags, getpid, getppid, pidfd_open};
        use std::os::fd::AsRawFd;
        let (own, roots) = (std::process::id(), Roots::default());
        let parent = getppid().unwrap_or(getpid());
        let descriptor = pidfd_open(parent, PidfdFlags::empty()).expect("a pidfd");
        let fd = descriptor.as_raw_fd() as u64;
        assert_eq!(process_behind(&roots, own, fd), Some(parent.as_raw_pid() as u64));
        assert_eq!(process_behind(&roots, own, u64::MAX), None);
    }

    #[test]
    fn a_process_that_is_left_out_is_reported_once() {
        let own = std::process::id();
        let word = [2_u32, 1, 77];
        let ask = |others: Fact| {
            let waits = [stands(own, own, WaitState::Sleep, "futex"), others];
            let mut unread = Unread::default();
            let question = Question::Futex { address: word.as_ptr() as u64 };
            let read = answers(&Roots::default(), &waits, &[(0, question)], &mut unread);
            (read, unread)
        };
        let (read, mut unread) = ask(stands(own, 1, WaitState::DiskSleep, "fsync"));
        assert!(matches!(read[..], [(0, _, Answer::Futex(2, Some(77)))]), "{read:?}");
        assert_eq!(report(&mut unread), []);
        let (read, mut unread) = ask(stands(own, 1, WaitState::DiskSleep, "mmap"));
        assert!(read.is_empty());
        let said = report(&mut unread);
        let [Body::Blind(blind)] = &said[..] else { panic!("once: {said:?}") };
        assert_eq!((blind.what.as_str(), &blind.pids[..]), ("process.memory", &[own][..]));
        assert_eq!(report(&mut unread), []);
    }

    #[test]
    fn what_may_hang_and_what_nobody_could_be_set_to_are_two_sentences() {
        let mut unread = Unread::default();
        let of = [(7, Why::MayHang), (8, Why::NoThread), (9, Why::NoThread), (10, Why::Refused)];
        of.into_iter().for_each(|(pid, why)| unread.add(pid, why));
        let said = report(&mut unread);
        let of = |body: &'_ Body| match body {
            Body::Blind(blind) => Some((blind.pids.clone(), blind.why.clone())),
            _ => None,
        };
        let said: Vec<_> = said.iter().filter_map(of).collect();
        let [(hangs, first), (set, second), (refused, third)] = &said[..] else {
            panic!("{said:?}")
        };
        assert!(first.contains("memory lock") && *hangs == [7], "{first}");
        assert!(second.starts_with("no thread could be begun to read 2 processes"), "{second}");
        assert!(third.starts_with("permission denied for 1 ") && *refused == [10], "{third}");
        assert_eq!(*set, [8, 9]);
    }

    #[test]
    fn of_timers_that_are_polled_the_first_that_runs_counts() {
        let pid = u32::MAX - 9;
        let root = std::env::temp_dir().join(format!("holdup-timers-{}", std::process::id()));
        let roots = Roots::under(&root);
        let of = |name: &str| {
            let folder = roots.process(pid, name);
            std::fs::create_dir_all(&folder).expect("a folder");
            folder
        };
        let (links, infos) = (of("fd"), of("fdinfo"));
        let put = |fd: &str, kind: &str, value: &str| {
            let to = format!("anon_inode:[{kind}]");
            std::os::unix::fs::symlink(to, links.join(fd)).expect("a link");
            let info = format!("pos:\t0\nticks: 0\nit_value: ({value})\nit_interval: (0, 0)\n");
            std::fs::write(infos.join(fd), info).expect("a file");
        };
        put("3", "timerfd", "0, 0");
        put("4", "timerfd", "2, 5");
        put("5", "timerfd", "7, 0");
        put("6", "eventfd", "1, 0");
        let first = |all: &[u32]| first_timer_ns(&roots, pid, all);
        assert_eq!(first(&[6, 5, 4, 3]), Some(2_000_000_005));
        assert_eq!(first(&[3, 6, 9]), None, "none runs");
        assert_eq!(first(&[4; TIMED_MAX + 1]), None, "a server's");
        std::fs::remove_dir_all(&root).expect("gone");
    }

    /// What a process has in fdinfo is read here as its memory is: a FIFO stands for what does not come.
    #[test]
    fn what_does_not_come_does_not_hold_up_who_looks() {
        // Numbers that the kernel gives to no process.
        let (hangs, other) = (u32::MAX - 7, u32::MAX - 8);
        let root = std::env::temp_dir().join(format!("holdup-unread-{}", std::process::id()));
        let roots = Roots::under(&root);
        let file = |pid: u32| {
            let folder = roots.process(pid, "fdinfo");
            std::fs::create_dir_all(&folder).expect("a folder");
            folder.join("5")
        };
        rustix::fs::mkfifoat(rustix::fs::CWD, file(hangs), 0o600.into()).expect("a FIFO");
        std::fs::write(file(other), "tfd:        9 events: 19\n").expect("a file");
        let waits =
            [hangs, other, hangs].map(|pid| stands(pid, pid, WaitState::Sleep, "epoll_wait"));
        let asked = [0, 1, 2].map(|at| (at, Question::Epoll { fd: 5 }));
        let mut unread = Unread::default();
        let begun = std::time::Instant::now();
        let read = answers(&roots, &waits, &asked, &mut unread);
        assert!(begun.elapsed() < 8 * guard::TIMEOUT, "{:?}", begun.elapsed());
        let watched = Answer::Descriptors(vec![9], None);
        assert_eq!(read, [(1, asked[1].1, watched)], "the other one is read");
        assert_eq!(unread.0, BTreeMap::from([(Why::MayHang, BTreeSet::from([hangs]))]));
        // Lets the helper go.
        drop(std::fs::OpenOptions::new().write(true).open(file(hangs)));
        std::fs::remove_dir_all(&root).expect("gone");
    }
}
