//! Which processes carry each lock of /proc/locks: what its line says, checked against the processes that are there.
//!
//! A line names the process that took the lock: for an flock that may be one that ended long ago (flock(1) on a descriptor of
//! the shell's), and its number may be somebody else's by now; an open-file-description lock names nobody; a process of another
//! PID namespace is 0. An flock, an open-file-description lock and a lease belong to the open file description: to every
//! process that has it open, whether it inherited it or was sent it over a socket, and it is free when the last of them lets
//! go. So the truth is looked up in the `lock:` lines of /proc/PID/fdinfo/FD: of the processes that are named first; of a lock
//! that somebody waits for, or did earlier in the look, then of who carried it before and of their children; and of all others,
//! while somebody waits for it, once for each taker and whenever a carrier is gone or nobody is known. Paths come from readlink of
//! the descriptor; the file itself is never touched.
//!
//! Whoever is reported was there at that moment, with its start time. Must not: decide when the table is read (locks.rs), or
//! who of several carriers matters (the core). Rejected: all processes at each reading (as many descriptors as a host has).
//!
//! Edit together: locks.rs (who asks), FileLock of the facts.

use crate::readers::open_files;
use crate::system::clock::Clock;
use crate::system::clock::process;
use crate::system::links::link;
use crate::system::{Roots, is_refusal, refused, text};
use holdup_reason::facts::{Body, DeviceNumber, FileLock};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

/// Descriptors looked at in one call; what is left over then has no path.
const DESCRIPTORS_MAX: usize = 50_000;
/// Children of lock holders that are looked at, at most.
const DESCENDANTS_MAX: usize = 256;
/// How often in a look all processes are asked for the other carriers of a lock of which one is known.
const SHARED_SCANS_MAX: u32 = 4;

/// Device, inode, kind and first byte: what the two tables share.
type Key = (DeviceNumber, u64, String, u64);

/// Which locks are wanted beside those that somebody stands in the table for.
pub(super) struct Sought<'a> {
    /// Files of which somebody was refused a lock.
    pub refused: &'a BTreeSet<(DeviceNumber, u64)>,
    /// Processes in whose open files the locked ones are looked for.
    pub askers: &'a BTreeSet<u32>,
}

/// Who carried the wanted locks at the reading before, and whom the table named then.
#[derive(Default)]
pub(super) struct Known {
    carried: HashMap<Key, (BTreeSet<i64>, BTreeSet<u32>)>,
    scans: u32,
}

/// The facts of a reading of the table.
pub(super) fn resolved(
    roots: &Roots,
    bytes: &[u8],
    sought: &Sought<'_>,
    known: &mut Known,
) -> Vec<Body> {
    let mut locks: Vec<FileLock> = text::lines(bytes).filter_map(parse).collect();
    let mut carriers = Carriers::new(roots, &locks);
    for pid in locks.iter().filter_map(taker) {
        carriers.look_at(pid);
    }
    let is_wanted = |l: &&FileLock| l.blocked || sought.refused.contains(&(l.dev, l.ino));
    let ids: BTreeSet<u64> = locks.iter().filter(is_wanted).map(|l| l.id).collect();
    let wanted = |lock: &&FileLock| !lock.blocked && ids.contains(&lock.id);
    let wanted: Vec<FileLock> = locks.iter().filter(wanted).cloned().collect();
    carriers.look_for(&wanted, known);
    // Whoever stood for it may have gone since, and its reading is the last. Nobody waits for it, so all processes are not looked at for it.
    let was_wanted = |l: &&FileLock| !ids.contains(&l.id) && known.carried.contains_key(&key(l));
    carriers.look_near(&locks.iter().filter(was_wanted).collect::<Vec<_>>(), known);
    let clock = Clock::now();
    for lock in &mut locks {
        carriers.report(lock, ids.contains(&lock.id), &clock);
    }
    share_paths(&mut locks);
    for asker in sought.askers {
        open_files::add_open_in(roots, *asker, &clock, &mut locks);
    }
    // Where refused calls are not seen, who has the file open may want the lock.
    let asked = |lock: &&FileLock| !lock.blocked && !lock.open_in.is_empty();
    let asked: Vec<FileLock> = locks.iter().filter(asked).cloned().collect();
    carriers.look_for(&asked, known);
    for lock in locks.iter_mut().filter(|lock| !lock.open_in.is_empty()) {
        carriers.report(lock, true, &clock);
    }
    let unresolved = wanted.iter().chain(&asked).any(|lock| carriers.of(lock).is_none());
    let refusals = if unresolved { carriers.refusals } else { 0 };
    let therefore = "who holds some file locks, and their paths, is unknown";
    let blind = refused("proc.fdinfo", refusals, therefore);
    locks.into_iter().map(Body::FileLock).chain(blind).collect()
}

/// Whom a line names.
fn taker(lock: &FileLock) -> Option<u32> {
    u32::try_from(lock.pid).ok().filter(|pid| *pid > 0)
}

/// It belongs to the open file description, and not to a process.
fn is_shared(lock: &FileLock) -> bool {
    lock.kind != "POSIX"
}

/// Children, and theirs, of some processes, as far as the kernel lists them (CONFIG_PROC_CHILDREN).
fn descendants(roots: &Roots, of: BTreeSet<u32>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut parents: Vec<u32> = of.into_iter().collect();
    while let Some(parent) = parents.pop() {
        let list = roots.process(parent, "task").join(parent.to_string()).join("children");
        let Ok(list) = text::read(&list) else { continue };
        for child in text::words(&list).filter_map(|word| text::lossy(word).parse().ok()) {
            if found.len() < DESCENDANTS_MAX && found.insert(child) {
                parents.push(child);
            }
        }
    }
    found
}

/// Waiters and holders name the same file, whichever of them could be read.
fn share_paths(locks: &mut [FileLock]) {
    let known: HashMap<(DeviceNumber, u64), String> =
        locks.iter().filter_map(|lock| Some(((lock.dev, lock.ino), lock.path.clone()?))).collect();
    for lock in locks {
        if lock.path.is_none() {
            lock.path = known.get(&(lock.dev, lock.ino)).cloned();
        }
    }
}

fn key(lock: &FileLock) -> Key {
    // One descriptor carries at most one flock or lease, whatever its range.
    (lock.dev, lock.ino, lock.kind.clone(), lock.start)
}

/// A line of /proc/locks, or what stands behind `lock:` in fdinfo:
/// `1: POSIX  ADVISORY  WRITE 123 08:02:5678 0 EOF`, and `1: -> ...` for one that waits.
pub(super) fn parse(line: &[u8]) -> Option<FileLock> {
    let line = text::lossy(line);
    let mut words = line.split_ascii_whitespace().peekable();
    let id = words.next()?.strip_suffix(':')?.parse().ok()?;
    let blocked = words.next_if_eq(&"->").is_some();
    let kind = words.next()?.to_string();
    let breaking = words.next()? == "BREAKING";
    let access = words.next()?.to_string();
    let pid = words.next()?.parse().ok()?;
    let mut file = words.next()?.split(':');
    let mut hex = || u32::from_str_radix(file.next()?, 16).ok();
    let dev = DeviceNumber { major: hex()?, minor: hex()? };
    let ino = file.next()?.parse().ok()?;
    let start = words.next()?.parse().ok()?;
    let end = match words.next()? {
        "EOF" => u64::MAX,
        number => number.parse().ok()?,
    };
    Some(FileLock {
        id,
        kind,
        access,
        pid,
        comm: String::new(),
        dev,
        ino,
        start,
        end,
        blocked,
        breaking,
        taker: None,
        holders: Vec::new(),
        open_in: Vec::new(),
        path: None,
    })
}

struct Carriers<'a> {
    roots: &'a Roots,
    /// Files that are locked.
    files: HashSet<(DeviceNumber, u64)>,
    budget: usize,
    refusals: usize,
    /// Processes whose descriptors were looked at, and whether they could be.
    looked_at: HashMap<u32, bool>,
    /// All processes were looked at.
    is_whole: bool,
    found: HashMap<Key, Carried>,
}

#[derive(Default)]
struct Carried {
    pids: BTreeSet<u32>,
    path: Option<String>,
}

impl<'a> Carriers<'a> {
    fn new(roots: &'a Roots, locks: &[FileLock]) -> Self {
        Self {
            roots,
            files: locks.iter().map(|lock| (lock.dev, lock.ino)).collect(),
            budget: DESCRIPTORS_MAX,
            refusals: 0,
            looked_at: HashMap::new(),
            is_whole: false,
            found: HashMap::new(),
        }
    }

    fn of(&self, lock: &FileLock) -> Option<&Carried> {
        self.found.get(&key(lock))
    }

    /// Looks for all who carry some locks.
    fn look_for(&mut self, wanted: &[FileLock], known: &mut Known) {
        let shared: Vec<&FileLock> = wanted.iter().filter(|lock| is_shared(lock)).collect();
        self.look_near(&shared, known);
        let may_be_more =
            known.scans < SHARED_SCANS_MAX && shared.iter().any(|lock| self.is_new(lock, known));
        known.scans += u32::from(may_be_more);
        if may_be_more || wanted.iter().any(|lock| self.of(lock).is_none()) {
            self.look_at_all();
        }
        let takers = |lock: &FileLock| -> BTreeSet<i64> {
            let same = wanted.iter().filter(|other| key(other) == key(lock));
            same.map(|other| other.pid).collect()
        };
        for lock in &shared {
            let pids = self.of(lock).map(|carried| carried.pids.clone()).unwrap_or_default();
            known.carried.insert(key(lock), (takers(lock), pids));
        }
    }

    /// Looks at whoever took some locks, who carried them before, and their children.
    fn look_near(&mut self, shared: &[&FileLock], known: &Known) {
        let mut near: BTreeSet<u32> = shared.iter().filter_map(|lock| taker(lock)).collect();
        for lock in shared {
            near.extend(known.carried.get(&key(lock)).into_iter().flat_map(|(_, pids)| pids));
        }
        // A child has the descriptor that its parent locked, also where that has ended.
        near.extend(descendants(self.roots, near.clone()));
        for pid in near {
            self.look_at(pid);
        }
    }

    /// Whether a lock was not looked for among all processes since it was taken, or has lost a carrier since.
    fn is_new(&self, lock: &FileLock, known: &Known) -> bool {
        let Some((takers, pids)) = known.carried.get(&key(lock)) else { return true };
        let now = self.of(lock).map(|carried| &carried.pids);
        !takers.contains(&lock.pid) || now.is_none_or(|now| !pids.is_subset(now))
    }

    fn look_at_all(&mut self) {
        if std::mem::replace(&mut self.is_whole, true) {
            return;
        }
        for pid in text::ids(&self.roots.proc).unwrap_or_default() {
            self.look_at(pid);
        }
    }

    /// Finds which of the locks a process carries, if that was not done.
    fn look_at(&mut self, pid: u32) {
        if self.looked_at.contains_key(&pid) {
            return;
        }
        let fdinfo = self.roots.process(pid, "fdinfo");
        let ids = text::ids(&fdinfo);
        self.looked_at.insert(pid, ids.is_ok());
        let fds = ids.unwrap_or_else(|error| {
            self.refusals += usize::from(is_refusal(&error));
            Vec::new()
        });
        for fd in fds {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            let Ok(info) = text::read(&fdinfo.join(fd.to_string())) else { continue };
            for line in text::lines(&info) {
                let Some(lock) = line.strip_prefix(b"lock:").and_then(parse) else { continue };
                if !self.files.contains(&(lock.dev, lock.ino)) {
                    continue;
                }
                let carried = self.found.entry(key(&lock)).or_default();
                carried.pids.insert(pid);
                if carried.path.is_none() {
                    let fd = Path::new("fd").join(fd.to_string());
                    carried.path = link(&self.roots.process(pid, "").join(fd));
                }
            }
        }
    }

    /// Writes down who carries a lock.
    fn report(&self, lock: &mut FileLock, is_wanted: bool, clock: &Clock) {
        let named = taker(lock).and_then(|pid| process(self.roots, pid, clock));
        if lock.blocked {
            lock.comm = named.map(|process| process.comm).unwrap_or_default();
        } else {
            lock.taker = named.filter(|process| self.may_hold(process.pid, lock, is_wanted));
            lock.comm = lock.taker.as_ref().map(|it| it.comm.clone()).unwrap_or_default();
        }
        let Some(carried) = self.of(lock) else { return };
        if !lock.blocked {
            let pids = carried.pids.iter();
            lock.holders = pids.filter_map(|pid| process(self.roots, *pid, clock)).collect();
        }
        lock.path.clone_from(&carried.path);
    }

    /// Whether the process of the number that a line names may be who took the lock: it carries it, or may not be looked at, or
    /// nobody else does (it had the lock at the reading and has let go since, or has it by a mapping alone). A number is given
    /// to another process once its own is gone.
    fn may_hold(&self, pid: u32, lock: &FileLock, is_wanted: bool) -> bool {
        let carried = self.of(lock).map(|carried| &carried.pids);
        let all_seen = self.is_whole && self.refusals == 0 && self.budget > 0;
        let is_readable = self.looked_at.get(&pid).copied().unwrap_or(false);
        match carried {
            Some(pids) => pids.contains(&pid),
            None => !is_readable || all_seen || !is_wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let lock = parse(b"2: -> POSIX  ADVISORY  WRITE 123 fd:0a:5678 128 EOF").unwrap();
        assert_eq!((lock.id, lock.pid, lock.ino), (2, 123, 5678));
        assert_eq!(lock.dev, DeviceNumber { major: 253, minor: 10 });
        assert_eq!((lock.start, lock.end, lock.blocked), (128, u64::MAX, true));
        let lease = parse(b"4: LEASE  BREAKING  READ  9 00:1f:7 0 EOF").unwrap();
        assert_eq!((&*lease.kind, &*lease.access, lease.breaking), ("LEASE", "READ", true));
        let ofd = parse(b"\t1: OFDLCK ADVISORY  READ -1 00:1f:7 0 9").unwrap();
        assert_eq!((ofd.pid, ofd.end), (-1, 9));
        assert_eq!(parse(b"nonsense"), None);
        assert_eq!(parse(b"1: POSIX ADVISORY WRITE 1 <none>:0 0 EOF"), None);
    }
}
