//! The user stacks of threads that stand still: read from outside, without a stop.
//!
//! A thread that waits does not change its stack. So where it left user space is read by the task iterator, its stack by
//! process_vm_readv, and the iterator is asked again: who has not switched meanwhile stood still all the time, and the
//! stack is whole. Any other is dropped and counted. Each wait is read once at most.
//!
//! A look at a command or a process reads those of its threads that already wait for long while it goes on; the end of any
//! other look reads what stands then (choose.rs says whose). It may take a two-hundredth of a CPU, walks of the iterator
//! included (budget.rs), and reads on a thread of its own, because memory and files of others may keep whoever reads
//! them waiting (reader.rs).
//!
//! Where a thread left user space is said by whoever implements `Walker`: the kernel programs, or without them /proc.
//!
//! Must not: know a session or the kernel programs, stop or trace anybody, write, or say what a function means (reason's
//! programs/). It has no unsafe: what only the kernel knows is asked through `holdup_system`. Rejected: ptrace (it
//! stops), stacks by the kernel at each switch (frame pointers are seldom there, and each wait would pay), a daemon's agent.
//!
//! Rejected too: blazesym (0.2.3, without features) for ELF and names. It is fast (a name out of a file of 97 MB in under 10 ms, 8 MB
//! resident), but adds 232 kB to a stripped program with thin LTO, where this crate with unwinding and four runtimes takes 286 kB of the
//! shipped one. All that others may call maps the file, so that one which is cut short meanwhile kills its reader; its ELF without a
//! mapping is private (`ElfParser::open_file_io`, for /proc/kcore). It cannot be stopped when the time is up, and it does not unwind.
//!
//! Edit together: crates/probe/src/readers/stacks.rs (who asks, and the walkers).

mod budget;
mod called;
mod choose;
#[doc(hidden)]
pub mod elf;
#[doc(hidden)]
pub mod exports;
mod functions;
mod go_program;
mod go_routines;
mod go_stack;
#[cfg(test)]
mod go_tests;
mod goroutines;
mod interpreters;
mod java;
mod javascript;
mod left;
mod maps;
mod modules;
#[doc(hidden)]
pub mod names;
mod perf_map;
mod process;
mod python;
mod reader;
mod rounds;
#[doc(hidden)]
pub mod rows;
mod ruby;
#[cfg(test)]
mod scenes;
mod sessions;
mod stacks;
#[doc(hidden)]
pub mod unwind;

pub use budget::cpu_ns;
pub use choose::WAIT_NS_MIN;
pub use functions::{Functions, Point};
pub use goroutines::Goroutines;
pub use interpreters::Interpreters;
pub use java::JavaMonitors;
pub use left::{Left, Walker, Whose, is_of_32_bits};
pub use sessions::Sessions;
pub use stacks::UserStacks;

#[cfg(test)]
mod tests;
