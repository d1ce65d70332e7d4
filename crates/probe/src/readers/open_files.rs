//! Which locked files a process has open, without a lock of its own: what it may try to lock between two sleeps, where nobody
//! reports a call that was refused (an ordinary user's look).
//!
//! By the process's list of open files: the file itself is never touched. Must not: say that it waits (the core's
//! waits/open_locked.rs decides by its sleeps).

use crate::system::clock::Clock;
use crate::system::clock::process as process_of;
use crate::system::links::link;
use crate::system::{Roots, text};
use holdup_reason::facts::{DeviceNumber, FileLock};
use std::collections::BTreeSet;

/// Open files of a process that are compared with the locked ones.
const ASKER_DESCRIPTORS_MAX: usize = 256;

/// Adds a process to the locks of others on files that it has open. The kernel gives inode (since 5.14) and path of an open file;
/// both must be those of the locked one, as far as they are known. A descriptor that carries a lock is no reason to wait for
/// it: a child has its parent's (`flock FILE COMMAND`).
pub(super) fn add_open_in(roots: &Roots, pid: u32, clock: &Clock, locks: &mut [FileLock]) {
    let own = |lock: &FileLock| lock.carriers().iter().any(|carrier| carrier.pid == pid);
    let has_own: BTreeSet<(DeviceNumber, u64)> =
        locks.iter().filter(|lock| own(lock)).map(|lock| (lock.dev, lock.ino)).collect();
    let fdinfo = roots.process(pid, "fdinfo");
    let mut process = None;
    for fd in text::ids(&fdinfo).unwrap_or_default().into_iter().take(ASKER_DESCRIPTORS_MAX) {
        let Some(path) = link(&roots.process(pid, "fd").join(fd.to_string())) else { continue };
        let Ok(info) = text::read(&fdinfo.join(fd.to_string())) else { continue };
        if text::lines(&info).any(|line| line.starts_with(b"lock:")) {
            continue;
        }
        let ino = text::lines(&info).find_map(|line| line.strip_prefix(b"ino:"));
        let ino = ino.and_then(|word| text::lossy(word.trim_ascii()).parse::<u64>().ok());
        for lock in locks.iter_mut().filter(|lock| !lock.blocked) {
            let same_ino = ino.map_or(lock.path.is_some(), |ino| ino == lock.ino);
            let same_path = lock.path.as_ref().is_none_or(|locked| *locked == path);
            if !same_ino || !same_path || has_own.contains(&(lock.dev, lock.ino)) {
                continue;
            }
            let process = process.get_or_insert_with(|| process_of(roots, pid, clock));
            let Some(process) = process.clone() else { return };
            if !lock.open_in.iter().any(|known| known.pid == pid) {
                lock.open_in.push(process);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// A lock of somebody else, 1, or of this process on a file.
    fn locked(path: &std::path::Path, pid: i64) -> FileLock {
        let ino = std::fs::metadata(path).expect("a file").ino();
        let (kind, access) = ("FLOCK".to_string(), "WRITE".to_string());
        let dev = DeviceNumber { major: 8, minor: 1 };
        let path = Some(path.display().to_string());
        FileLock {
            id: 1,
            kind,
            access,
            pid,
            comm: "test".into(),
            dev,
            ino,
            start: 0,
            end: u64::MAX,
            blocked: false,
            breaking: false,
            taker: None,
            holders: Vec::new(),
            open_in: Vec::new(),
            path,
        }
    }

    #[test]
    fn a_file_that_others_have_locked_is_found_among_the_open_ones() {
        let path =
            |name: &str| std::env::temp_dir().join(format!("holdup-{name}-{}", std::process::id()));
        let (open, closed) = (path("open"), path("closed"));
        let file = std::fs::File::create(&open).expect("a file");
        drop(std::fs::File::create(&closed).expect("a file"));
        let own = std::process::id();
        let open_in = |path: &std::path::Path, pid: i64| {
            let mut locks = [locked(path, pid)];
            add_open_in(&Roots::default(), own, &Clock::now(), &mut locks);
            locks[0].open_in.iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!(open_in(&open, 1), [own]);
        assert_eq!(open_in(&open, i64::from(own)), Vec::<u32>::new(), "its own lock");
        assert_eq!(open_in(&closed, 1), Vec::<u32>::new(), "not open");
        // As a child that was begun with a descriptor which its parent has locked.
        file.lock().expect("a lock");
        assert_eq!(open_in(&open, 1), Vec::<u32>::new(), "it carries the lock itself");
        drop(file);
        for path in [open, closed] {
            std::fs::remove_file(path).expect("removed");
        }
    }
}
