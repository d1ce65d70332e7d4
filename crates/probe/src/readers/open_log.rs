//! The kernel's log as one window leaves it to the next: the open file, and whether its place is in the middle of a report.
//!
//! Must not: read it (kernel_log/ does).

use holdup_reason::facts::Ns;
use std::fs::File;

/// The log, read up to a place.
pub struct OpenLog {
    /// Each open file has a place of its own in the log.
    pub file: File,
    /// When a report of a fault has begun before that place, by the log's clock, if it says behind it where the fault was.
    pub report_begun_ns: Option<Ns>,
}

impl OpenLog {
    /// Of a file from which nothing was read.
    pub fn unread(file: File) -> Self {
        Self { file, report_begun_ns: None }
    }
}
