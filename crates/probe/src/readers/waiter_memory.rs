//! What only the memory of a waiter says: the words of a futex, the descriptors of a poll or select, the path of a call.
//!
//! To read it takes the memory lock of the process, a wait that no signal ends, and brings pages that are not there: where one
//! thread maps a file of a dead file system, a read of another one's words may last for ever. So all questions about a process are
//! one item of a batch that a helper works off (guard.rs), and a process is left out if one of its threads sleeps in D where that
//! lock may be held, or waits for it. Who was not read is reported once, as the look ends.
//!
//! Must not: read on the thread that looks, or decide what is asked (standing_waits.rs, polled.rs, paths.rs). Rejected: to leave out
//! whoever has a thread in D (a holder that waits for a disk with a mutex held is in D, and the waiters' word is what names it);
//! reading the states of all threads from /proc once more (the walk that gave the waits has just seen them).

use crate::system::guard::{self, Behind};
use crate::system::{Roots, memory, text};
use holdup_reason::facts::{Blind, Blocked, Body, Fact, Guards, WaitState};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// Waits of one batch whose memory is read: each takes some microseconds, all of them a twentieth of a second.
const READ_MAX: usize = 16_384;
/// Of an epoll's fdinfo: a line for each descriptor.
const BYTES_MAX: u64 = 8192;
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
}

/// What the memory says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// See [`memory::futex_words`].
    Futex(u32, Option<u32>),
    /// Descriptors.
    Descriptors(Vec<u32>),
    /// A path as the program has it.
    Path(String),
}

impl Question {
    pub(super) fn answer(self, roots: &Roots, pid: u32) -> Option<Answer> {
        match self {
            Self::Futex { address } => {
                let (word, beside) = memory::futex_words(pid, address)?;
                Some(Answer::Futex(word, beside))
            }
            Self::Poll { array, count } => {
                Some(Answer::Descriptors(memory::poll_descriptors(pid, array, count)))
            }
            Self::Select { sets, count } => {
                let set = |address| memory::descriptor_set(pid, address, count);
                Some(Answer::Descriptors(sets.into_iter().flat_map(set).collect()))
            }
            Self::Epoll { fd } => Some(Answer::Descriptors(watched(roots, pid, fd))),
            Self::Path { address } => memory::text(pid, address, PATH_BYTES_MAX).map(Answer::Path),
        }
    }
}

/// What is read of what is asked about some waits, by their places among `waits` and in their order. Whose memory was not read is
/// added to `unread`; what is not there is left out.
pub(super) fn answers(
    roots: &Roots,
    waits: &[Fact],
    questions: &[(usize, Question)],
    unread: &mut BTreeSet<u32>,
) -> Vec<(usize, Question, Answer)> {
    let left_out = with_memory_lock(waits);
    let mut by_process: BTreeMap<u32, Vec<(usize, Question)>> = BTreeMap::new();
    for (count, (at, question)) in questions.iter().enumerate() {
        let Some(Body::Blocked(blocked)) = waits.get(*at).map(|fact| &fact.body) else { continue };
        let pid = blocked.thread.pid;
        if count < READ_MAX && !left_out.contains(&pid) {
            by_process.entry(pid).or_default().push((*at, *question));
        } else {
            unread.insert(pid);
        }
    }
    let pids: Vec<u32> = by_process.keys().copied().collect();
    let batch = by_process.into_iter().map(|(pid, all)| (Behind::Process(pid), (pid, all)));
    let roots = roots.clone();
    let read = guard::map_behind(batch.collect(), move |(pid, all)| {
        let answer = |(at, question): &(usize, Question)| {
            Some((*at, *question, question.answer(&roots, *pid)?))
        };
        all.iter().filter_map(answer).collect::<Vec<_>>()
    });
    let hung = pids.iter().zip(&read).filter(|(_, read)| read.is_none());
    unread.extend(hung.map(|(pid, _)| *pid));
    let mut all: Vec<_> = read.into_iter().flatten().flatten().collect();
    all.sort_by_key(|(at, _, _)| *at);
    all
}

/// Whose memory was not read, once, as a fact; nothing if all was.
pub(super) fn report(unread: &mut BTreeSet<u32>) -> Option<Body> {
    let pids: Vec<u32> = std::mem::take(unread).into_iter().collect();
    let whom = if pids.len() == 1 { "process" } else { "processes" };
    let why = format!(
        "{} {whom} may hold their memory lock, or nobody could be set to read it",
        pids.len()
    );
    (!pids.is_empty()).then(|| {
        Body::Blind(Blind {
            what: "process.memory".into(),
            why,
            therefore: "which futexes, descriptors and paths their threads wait for is unknown"
                .into(),
            pids,
            ..Blind::default()
        })
    })
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
    fn a_process_that_is_left_out_is_reported_once() {
        let own = std::process::id();
        let word = [2_u32, 1, 77];
        let ask = |others: Fact| {
            let waits = [stands(own, own, WaitState::Sleep, "futex"), others];
            let mut unread = BTreeSet::new();
            let question = Question::Futex { address: word.as_ptr() as u64 };
            let read = answers(&Roots::default(), &waits, &[(0, question)], &mut unread);
            (read, unread)
        };
        let (read, mut unread) = ask(stands(own, 1, WaitState::DiskSleep, "fsync"));
        assert!(matches!(read[..], [(0, _, Answer::Futex(2, Some(77)))]), "{read:?}");
        assert_eq!(report(&mut unread), None);
        let (read, mut unread) = ask(stands(own, 1, WaitState::DiskSleep, "mmap"));
        assert!(read.is_empty());
        let Some(Body::Blind(blind)) = report(&mut unread) else { panic!("nothing is said") };
        assert_eq!((blind.what.as_str(), blind.pids), ("process.memory", vec![own]));
        assert_eq!(report(&mut unread), None);
    }

    /// A page that does not come: userfaultfd keeps whoever touches it waiting, as a dead file system does. Its address.
    fn page_that_does_not_come() -> Option<u64> {
        const PAGE: usize = 4096;
        const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
        const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
        // SAFETY: a new mapping and a new descriptor; the ioctls get arrays of the size of their structs (uffdio_api,
        // uffdio_register) that live on this stack. Both stay until the process ends.
        unsafe {
            let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let page = libc::mmap(std::ptr::null_mut(), PAGE, access, kind, -1, 0);
            let faults = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) as libc::c_int;
            let mut api = [0xaa_u64, 0, 0];
            let mut region = [page as u64, PAGE as u64, 1, 0];
            let is_set = faults >= 0
                && libc::ioctl(faults, UFFDIO_API, api.as_mut_ptr()) == 0
                && libc::ioctl(faults, UFFDIO_REGISTER, region.as_mut_ptr()) == 0;
            is_set.then_some(page as u64)
        }
    }

    #[test]
    fn a_page_that_does_not_come_does_not_hold_up_who_looks() {
        use std::io::{BufRead, BufReader, Read};
        use std::process::{Command, Stdio};
        const VICTIM: &str = "HOLDUP_TEST_VICTIM";
        const NAME: &str =
            "readers::waiter_memory::tests::a_page_that_does_not_come_does_not_hold_up_who_looks";
        if std::env::var_os(VICTIM).is_some() {
            println!("\npage {}", page_that_does_not_come().unwrap_or(0));
            let _ = std::io::stdin().read(&mut [0]);
            return;
        }
        let mut victim = Command::new(std::env::current_exe().expect("this test"));
        victim.args(["--exact", NAME, "--nocapture"]).env(VICTIM, "1");
        let mut victim =
            victim.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
        let out = BufReader::new(victim.stdout.take().expect("piped"));
        let page = |line: std::io::Result<String>| line.ok()?.strip_prefix("page ")?.parse().ok();
        let address: u64 = out.lines().find_map(page).expect("an address");
        // 0: only root may keep the kernel waiting for a page.
        if address != 0 {
            let pid = victim.id();
            let waits = [stands(pid, pid, WaitState::Sleep, "futex")];
            let mut unread = BTreeSet::new();
            let asked = [(0, Question::Futex { address })];
            let read = answers(&Roots::default(), &waits, &asked, &mut unread);
            assert!(read.is_empty(), "{read:?}");
            assert_eq!(unread, BTreeSet::from([pid]));
        }
        victim.kill().expect("killed");
        victim.wait().expect("gone");
    }
}
