//! Which program a process waits for that waits until the manager of devices has nothing more to do.
//!
//! It watches a file that is there while there are events, so nothing leads from it to the worker that has one. A worker waits for the programs of
//! its rules one after another: each that was read is one that is waited for. Of several the one that has run longest. Must not: ask
//! whether the device is slow.

use super::WaitClass;
use super::span::WaitSpan;
use crate::facts::{DeviceEvent, Ns};
use crate::model::Model;
use crate::programs::systemd;

/// Why such a program is next.
pub const BECAUSE: &str = "a rule for a device runs it, and the event waits for that";

/// Whether a wait is that of such a process.
pub fn settles(model: &Model, wait: &WaitSpan) -> bool {
    !model.stacks.device_events.is_empty()
        && wait.class == WaitClass::Idle
        && systemd::settles(&model.threads.words(&wait.thread))
}

/// The program that was run within a time, or stood as the look ended.
pub fn awaited(model: &Model, (from, to): (Ns, Ns)) -> Option<&DeviceEvent> {
    let all = model.stacks.device_events.values().flatten();
    // It was there from its begin to the reading at least.
    let was_there = |(at_ns, event): &&(Ns, DeviceEvent)| {
        event.program.start_ns <= from.midpoint(to) && *at_ns >= from
    };
    let there = all.filter(was_there).map(|(_, event)| event);
    there.min_by_key(|event| (event.program.start_ns, event.program.pid))
}
