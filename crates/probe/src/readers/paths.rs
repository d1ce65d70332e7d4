//! Which file system a waiting call is about that names its file by a path: mkdir, unlink, rename, chmod.
//!
//! While such a call waits it has no descriptor, and the kernel's walk of the path is already over (an open that
//! waits is reported by the kernel side, where there is one). The words are those of the waiter's memory, made absolute by the link that
//! /proc keeps of its working directory, and compared with the mount table. Nothing on the way is touched: the
//! file system may be frozen, or dead.
//!
//! Rejected: stat of the path (it would wait with the victim). Must not: read the memory itself (waiter_memory.rs).

use super::waiter_memory::{Question, path_argument};
use crate::system::{Roots, mounts};
use holdup_reason::facts::{Blocked, FileRef, ObjectRef, WaitState};

/// Asleep in an open, where a signal may end it: of a FIFO that nobody has open at its other end, a lease, a serial line.
fn opens(blocked: &Blocked) -> bool {
    blocked.place.state == WaitState::Sleep
        && matches!(blocked.place.syscall.as_str(), "open" | "openat" | "openat2" | "creat")
}

/// What says which file a standing wait is for that no descriptor names.
pub(super) fn question(blocked: &Blocked) -> Option<Question> {
    let place = &blocked.place;
    if place.object.is_some() || !(place.state == WaitState::DiskSleep || opens(blocked)) {
        return None;
    }
    let argument = path_argument(&place.syscall)?;
    Some(Question::Path { address: place.args[argument] })
}

/// Names the file, by the path as the program has it.
pub(super) fn name(blocked: &mut Blocked, roots: &Roots, word: String) {
    let pid = blocked.thread.pid;
    let path = match word.strip_prefix('/') {
        Some(_) => word,
        None => match std::fs::read_link(roots.process(pid, "cwd")) {
            Ok(folder) => folder.join(word).to_string_lossy().into_owned(),
            Err(_) => return,
        },
    };
    let mounts = mounts::mounts_of(roots, &pid.to_string()).unwrap_or_default();
    let Some(mount) = mounts::mount_of(&mounts, &path) else { return };
    let (dev, fs_type) = (mount.dev, mount.fs_type.clone());
    let path = Some(path);
    blocked.place.object =
        Some(ObjectRef::File(FileRef { dev, path, fs_type, ..FileRef::default() }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::memory;
    use holdup_reason::facts::{Place, ThreadRef};

    fn named(syscall: &str, args: [u64; 6]) -> Option<String> {
        let place = Place {
            state: WaitState::DiskSleep,
            syscall: syscall.into(),
            args,
            ..Place::default()
        };
        let own = std::process::id();
        let thread = ThreadRef { tid: own, pid: own, ..ThreadRef::default() };
        let mut blocked = Blocked { thread, place, ..Blocked::default() };
        let Question::Path { address } = question(&blocked)? else { return None };
        name(&mut blocked, &Roots::default(), memory::text(own, address, 4096)?);
        match blocked.place.object {
            Some(ObjectRef::File(file)) => file.path,
            _ => None,
        }
    }

    #[test]
    fn a_path_is_taken_from_its_argument_and_made_absolute() {
        let absolute = c"/proc/no such folder/x".as_ptr() as u64;
        assert_eq!(named("mkdir", [absolute, 0, 0, 0, 0, 0]).unwrap(), "/proc/no such folder/x");
        let relative = c"x".as_ptr() as u64;
        let here = std::env::current_dir().unwrap().join("x");
        assert_eq!(named("unlinkat", [0, relative, 0, 0, 0, 0]).unwrap(), here.to_string_lossy());
        assert_eq!(named("read", [absolute, 0, 0, 0, 0, 0]), None);
    }
}
