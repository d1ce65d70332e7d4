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
    let disk = field!(place, wire_place, disk);
    Place {
        state: match wait_state(field!(place, wire_place, state)) {
            state if frozen => marked_frozen(state),
            state => state,
        },
        iowait,
        syscall: syscall_name(field!(place, wire_place, syscall)),
        args: field!(place, wire_place, args),
        stack: stack(stacks, place),
        object: match field!(place, wire_place, object.kind) {
            0 => None,
            _ => object(&field!(place, wire_place, object), path),
        },
        polled_for_room: field!(place, wire_place, object.polled_for_room) != 0,
        disk: (disk != 0).then(|| device(disk)),
        cpu: field!(place, wire_place, cpu),
        ..Place::default()
    }
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
