//! The number of the event that a process of PostgreSQL writes down before it waits (wait_event_info of utils/wait_event.h).
//!
//! Its class is in the highest byte, and has meant the same since 9.6; numbers within a class move from release to release, so of a release
//! that is not in the table only what the class says is believed. Must not: name what nobody would ask about.

use holdup_reason::facts::SessionEvent;
use holdup_system::text;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Classes: locks of the table of locks, processes of the server's own without work, waits for other processes, sleeps on purpose.
const LOCK: u32 = 0x03;
const WITHOUT_WORK: u32 = 0x05;
const OF_OTHERS: u32 = 0x08;
const TIMEOUT: u32 = 0x09;

/// Bytes of the file that says a release, which is one short number.
const RELEASE_BYTES_MAX: usize = 16;

/// By release, numbers of the second class: a backup's log to be archived, a checkpoint to be done and to begin, a replica's
/// confirmation. Read of the server's own headers.
const NUMBERS: &[(u32, [(u32, SessionEvent); 4])] = &[(
    15,
    [
        (4, SessionEvent::Archive),
        (9, SessionEvent::Checkpoint),
        (10, SessionEvent::Checkpoint),
        (47, SessionEvent::Replica),
    ],
)];

/// Whether it is a lock.
pub(super) fn is_lock(number: u32) -> bool {
    number >> 24 == LOCK
}

/// Whether only the release says what the number of another event means.
pub(super) fn is_of_a_release(number: u32) -> bool {
    number >> 24 == OF_OTHERS
}

/// What another event is, if it is known.
pub(super) fn of(number: u32, release: u32) -> Option<SessionEvent> {
    let of_class = number & 0x00ff_ffff;
    match number >> 24 {
        TIMEOUT => Some(SessionEvent::Sleep),
        WITHOUT_WORK => Some(SessionEvent::Work),
        OF_OTHERS => {
            let (_, known) = NUMBERS.iter().find(|(its, _)| *its == release)?;
            known.iter().find(|(its, _)| *its == of_class).map(|(_, event)| *event)
        }
        _ => None,
    }
}

/// The release of the server of a process, which stands in its data directory, where its processes are; 0 if that cannot be read.
///
/// Where that directory is on a file server that is gone, or is served by a program, opening the file may block for as long as the other
/// side likes: only the thread of this reader does that, which the look waits for a short time and no longer (rounds.rs).
pub(super) fn release(pid: u32) -> u32 {
    read_release(Path::new(&format!("/proc/{pid}/cwd/PG_VERSION"))).unwrap_or(0)
}

/// The directory is anybody's: what is there may be a link to a device without an end, or a pipe that nobody writes into.
fn read_release(path: &Path) -> Option<u32> {
    // The standard library closes it on exec (O_CLOEXEC).
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = [0; RELEASE_BYTES_MAX];
    let count = file.read(&mut bytes).ok()?;
    u32::try_from(text::number(&bytes[..count])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_believed_of_any_release_and_a_number_of_those_that_were_read() {
        assert!(is_lock(0x0300_000a) && !is_lock(0x0800_002f));
        assert_eq!(of(0x0800_002f, 15), Some(SessionEvent::Replica));
        assert_eq!(of(0x0800_002f, 99), None);
        assert_eq!(of(0x0900_0002, 99), Some(SessionEvent::Sleep));
        assert_eq!(of(0x0500_000c, 99), Some(SessionEvent::Work));
        assert_eq!(of(0x0600_0000, 15), None, "it waits for its client");
        assert!(is_of_a_release(0x0800_002f) && !is_of_a_release(0x0900_0002));
    }

    #[test]
    fn a_release_is_read_of_a_plain_file_alone() {
        let folder = std::env::temp_dir().join(format!("holdup-release-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (plain, link) = (folder.join("plain"), folder.join("link"));
        std::fs::write(&plain, "15\n").unwrap();
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        let paths = [plain.as_path(), link.as_path(), folder.as_path(), Path::new("/dev/zero")];
        let found = paths.map(read_release);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [Some(15), None, None, None]);
    }
}
