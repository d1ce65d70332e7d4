//! Which waits are for a monitor of a Java program, by the machine's own lists.
//!
//! Each of the machine's threads sleeps on a word of its own, whatever it waits for; its stack says it where there was time to read
//! one, and the list of who waits to enter a monitor says it besides. Must not: say who has it (graph/holders.rs).

use crate::facts::{Ns, ThreadRef};
use crate::model::Model;

/// Whether a thread was seen to wait to enter a monitor within a time.
pub fn is_waited_for(model: &Model, thread: &ThreadRef, from: Ns, to: Ns) -> bool {
    let read = model.monitor_waits.get(&thread.pid).map_or(&[][..], Vec::as_slice);
    let mut within = read.iter().filter(|(at_ns, _)| (from..=to).contains(at_ns));
    within.any(|(_, all)| all.waits.iter().any(|wait| wait.waiter_tid == thread.tid))
}
