//! The number of the event that a process of PostgreSQL writes down before it waits (wait_event_info of utils/wait_event.h).
//!
//! Its class is in the highest byte, and has meant the same since 9.6; numbers within a class move from release to release, so of a release
//! that is not in the table only what the class says is believed. Must not: name what nobody would ask about.

use holdup_reason::facts::SessionEvent;

/// Classes: locks of the table of locks, waits for other processes, sleeps on purpose.
const LOCK: u32 = 0x03;
const OF_OTHERS: u32 = 0x08;
const TIMEOUT: u32 = 0x09;

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

/// What another event is, if it is known.
pub(super) fn of(number: u32, release: u32) -> Option<SessionEvent> {
    let of_class = number & 0x00ff_ffff;
    match number >> 24 {
        TIMEOUT => Some(SessionEvent::Sleep),
        OF_OTHERS => {
            let (_, known) = NUMBERS.iter().find(|(its, _)| *its == release)?;
            known.iter().find(|(its, _)| *its == of_class).map(|(_, event)| *event)
        }
        _ => None,
    }
}

/// The release of the server of a process, which stands in its data directory, where its processes are; 0 if that cannot be read.
pub(super) fn release(pid: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cwd/PG_VERSION"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
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
        assert_eq!(of(0x0600_0000, 15), None, "it waits for its client");
    }
}
