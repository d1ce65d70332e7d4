//! What holdup asks of the kernel for itself: CPUs for its own threads when the host is overloaded, and its own memory.
//!
//! Must not: act on any other process, or change what the watched command inherits.

pub mod capabilities;
pub mod memory;
pub mod placement;
pub mod policy;
pub mod priority;
mod state;
mod watchdog;
