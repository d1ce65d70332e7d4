//! Where a thread waits, wire to fact: its system call, its kernel stack, the object behind it.
//!
//! The record is read field by field, in place: see `wire::field`. Must not: say what the wait is for. Edit together: bpf/wire.h
//! (`wire_place`).

use super::stacks::Stacks;
use super::values::*;
use super::wire::{self, field, part, *};
use holdup_reason::facts::*;
use std::mem::offset_of;

/// Frames of a stack: those of `wire.h`, where the array is the last of its struct.
const FRAMES_MAX: usize =
    (size_of::<wire_place>() - offset_of!(wire_place, frame)) / size_of::<u64>();

/// From the bytes of a `wire_place`, of a wait for I/O or of who is frozen.
pub(super) fn place(
    stacks: &mut Stacks,
    place: &[u8],
    (iowait, frozen): (bool, bool),
    path: Option<String>,
) -> Place {
    let syscall = syscall_name(field!(place, wire_place, syscall));
    let disk = disk(place, &syscall);
    Place {
        state: match wait_state(field!(place, wire_place, state)) {
            state if frozen => marked_frozen(state),
            state => state,
        },
        iowait,
        syscall,
        args: field!(place, wire_place, args),
        stack: stack(stacks, place),
        object: match field!(place, wire_place, object.kind) {
            0 => None,
            _ => object(&field!(place, wire_place, object), path),
        },
        polled_for_room: field!(place, wire_place, object.polled_for_room) != 0,
        disk,
        cpu: field!(place, wire_place, cpu).into(),
        ..Place::default()
    }
}

/// An uninterruptible thread waits for several blocks in a row of those that it has asked for at once: at most as many as a directory's
/// search does (ext4's NAMEI_RA_SIZE).
const BLOCKS_AT_ONCE: u16 = 8;
const TASK_UNINTERRUPTIBLE: u32 = 2;

/// The disk that the thread submitted to last, if it may be this wait that came of it: whoever has slept for another reason since may
/// be in another call by now.
fn disk(place: &[u8], syscall: &str) -> Option<DeviceNumber> {
    let (dev, sleeps) = (field!(place, wire_place, disk), field!(place, wire_place, disk_sleeps));
    let uninterruptible = field!(place, wire_place, state) & TASK_UNINTERRUPTIBLE != 0;
    // Who writes back, a journal's thread or a sync, waits for one block after the other of those that it has sent off.
    let writes_back = matches!(syscall, "" | "sync" | "syncfs" | "fsync" | "fdatasync" | "msync");
    let most = match uninterruptible {
        true if writes_back => u16::MAX,
        true => BLOCKS_AT_ONCE,
        false => 1,
    };
    (dev != 0 && sleeps <= most).then(|| device(dev))
}

/// Identity of a place's stack.
fn stack(stacks: &mut Stacks, place: &[u8]) -> u32 {
    let mut frames = [0; FRAMES_MAX];
    let reported = (field!(place, wire_place, frames) as usize).min(FRAMES_MAX);
    let words = part!(place, wire_place, frame).chunks(size_of::<u64>());
    for (frame, word) in frames[..reported].iter_mut().zip(words) {
        *frame = wire::read(word);
    }
    stacks.id_of(&frames[..reported])
}

/// What a connection's own end had not sent when a wait on it began.
pub(super) fn nagle(place: &[u8]) -> Option<Nagle> {
    let (sent_us, unsent_bytes) =
        (field!(place, wire_place, sent_us), field!(place, wire_place, unsent_bytes));
    let round_trip_us = u64::from(field!(place, wire_place, rtt_us_min));
    (sent_us != 0 || unsent_bytes != 0).then_some(Nagle {
        sent_ns: sent_us.saturating_mul(1_000),
        unsent_bytes,
        round_trip_ns_min: round_trip_us * 1_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(state: u32, sleeps: u16) -> Option<DeviceNumber> {
        waits_in("read", state, sleeps)
    }

    fn waits_in(syscall: &str, state: u32, sleeps: u16) -> Option<DeviceNumber> {
        let mut place = [0; size_of::<wire_place>()];
        let mut set = |at: usize, bytes: &[u8]| place[at..at + bytes.len()].copy_from_slice(bytes);
        set(offset_of!(wire_place, state), &state.to_ne_bytes());
        set(offset_of!(wire_place, disk), &(8u32 << 20 | 16).to_ne_bytes());
        set(offset_of!(wire_place, disk_sleeps), &sleeps.to_ne_bytes());
        disk(&place, syscall)
    }

    #[test]
    fn what_was_submitted_before_another_sleep_is_not_what_an_event_loop_waits_for() {
        let sdb = Some(DeviceNumber { major: 8, minor: 16 });
        assert_eq!(waits(1, 1), sdb);
        assert_eq!(waits(1, 2), None);
        assert_eq!(waits(2, 2), sdb, "the second of two blocks");
        assert_eq!(waits(2, 9), None);
        assert_eq!(waits_in("", 2, 9), sdb, "a journal's thread");
    }
}
