//! A look, a look that goes on, and a replay, as a library: facts in, a report out, whoever asks.
//!
//! Live and recorded facts take the same path from [`collect()`] on, so what a scenario proves of one holds for the other. Must not:
//! print, read flags, catch signals, or exit; know a rule. Rejected: all facts in a vector first (each takes the room of the largest,
//! twice over while they are indexed).
//!
//! collect.rs reads a source to its end, narrow.rs lets a recording of a host answer for one of its parts, windows.rs is the look
//! that goes on, foresight.rs what is used up from one of its windows to the next, over_time.rs what began and ended from one of its windows to the next.

mod collect;
pub mod foresight;
mod narrow;
pub mod over_time;
mod windows;

pub use collect::{Collected, collect};
pub use narrow::{NotThere, narrow};
pub use windows::{Looked, Recorded, Windows};

use holdup_probe::SourceError;
use holdup_probe::recording::Reader;
use std::path::Path;

/// Opens a recording, and says plainly what it cannot be.
pub fn open(file: &Path) -> Result<Reader, SourceError> {
    let what = match std::fs::metadata(file) {
        Ok(meta) if meta.is_dir() => "it is a directory",
        Ok(meta) if meta.is_file() && meta.len() == 0 => "it is empty",
        _ => return Reader::open(file),
    };
    let path = file.display().to_string();
    Err(SourceError::Recording { path, what: what.into() })
}
