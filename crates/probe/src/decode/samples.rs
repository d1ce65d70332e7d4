//! What the CPU clock saw, as facts: system calls and code files by process, and the counters of its threads.
//!
//! Pure, like mod.rs, which reads the records of the ring; these are values of maps, read once at the end.
//! Edit together: bpf/sample.bpf.c.

use super::values::{syscall_name, thread_ref};
use crate::decode::wire::{self, *};
use crate::system::units::page_bytes;
use holdup_reason::facts::{Effort, ThreadRef, Work};

/// What a process does on the CPU.
pub fn work(key: &wire_work_key, value: &wire_work, frequency_hz: u32) -> Work {
    let name = wire::text(&value.name);
    let (path, code) = if key.syscall < 0 { (String::new(), name) } else { (name, String::new()) };
    Work {
        process: ThreadRef { tid: value.process.tgid, ..thread_ref(&value.process) },
        syscall: syscall_name(i64::from(key.syscall)),
        path,
        code,
        count: value.count,
        same_name: value.same_name,
        asked_bytes: value.asked_bytes,
        frequency_hz,
        functions: Vec::new(),
    }
}

/// A thread's counters between its first and its last sample.
pub fn effort(value: &wire_effort) -> Effort {
    let grown = |at: wire_effort_counter| {
        let at = at.0 as usize;
        value.last[at].saturating_sub(value.first[at])
    };
    Effort {
        thread: thread_ref(&value.thread),
        since_ns: value.first_ns,
        until_ns: value.last_ns,
        reads: grown(wire_effort_counter::WIRE_EFFORT_READS),
        read_bytes: grown(wire_effort_counter::WIRE_EFFORT_READ_BYTES),
        writes: grown(wire_effort_counter::WIRE_EFFORT_WRITES),
        write_bytes: grown(wire_effort_counter::WIRE_EFFORT_WRITE_BYTES),
        minor_faults: grown(wire_effort_counter::WIRE_EFFORT_MINOR_FAULTS),
        major_faults: grown(wire_effort_counter::WIRE_EFFORT_MAJOR_FAULTS),
        rss_bytes_max: (value.rss_pages_max > 0)
            .then(|| value.rss_pages_max.saturating_mul(page_bytes())),
    }
}
