//! The cost of looking: loads, what watches them, and the figures (`make bench`, docs/cost.md).
//!
//! Never shipped. It judges holdup as a program, by what the load loses, what the kernel books to it and
//! what it says itself; only `micro` calls its parts. Everything that is made on the host goes through the
//! lab's journal, so every exit takes it back and `holdup-lab clean` what a `kill -9` has left.
//!
//! Rejected: criterion on whole programs (no interleaving, no ready state); hyperfine (the same).

pub mod child;
pub mod counted;
pub mod cut;
pub mod docs;
pub mod flood;
pub mod goals;
pub mod growth;
pub mod kernel;
pub mod loads;
pub mod lookers;
pub mod machine;
pub mod micro;
pub mod pairs;
pub mod plot;
pub mod profile;
pub mod results;
pub mod size;
pub mod slices;
pub mod stacks;
pub mod stats;
pub mod table;
pub mod watch;

use std::io::Write;

#[allow(
    missing_docs,
    clippy::all,
    clippy::unwrap_used,
    clippy::expect_used,
    unreachable_pub,
    unused,
    non_camel_case_types,
    reason = "generated"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/floor.skel.rs"));
}

/// Prints for the reader; a closed pipe is no reason to stop taking things back.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
