//! What is to be done: the meaning of a command line, whatever way it was typed.
//!
//! flags/mod.rs makes a [`Job`] of what was typed, main.rs does it. Must not: know how a flag is called. Rejected: clap's own types
//! all the way down (the same look has four spellings, and each reader would have to know them).
//!
//! Edit together: flags/mod.rs, main.rs; of a command of its own, surface.rs says more.

use crate::delivery::Delivery;
use crate::export::Format;
use crate::surface::Surface;
/// At whom to look: the probe decides what follows from it.
pub(crate) use holdup_probe::plan::Target as Aim;
use std::path::PathBuf;

/// What is to be done, and how to tell it.
#[derive(Debug)]
pub(crate) struct Job {
    /// What is to be done.
    pub task: Task,
    /// How to tell it.
    pub answer: Delivery,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Task {
    /// Look at this host, perhaps keep the facts.
    Look {
        /// At whom.
        aim: Aim,
        /// How long; none for a command, which is looked at until it ends.
        seconds: Option<f64>,
        /// Where to keep the facts.
        record: Option<PathBuf>,
    },
    /// Answer from a recording.
    Replay {
        /// The recording.
        file: PathBuf,
        /// Narrow a look at a host; `Aim::Host` means: whatever the recording holds.
        aim: Aim,
    },
    /// Draw a recording as a page.
    Page {
        /// The recording.
        file: PathBuf,
        /// As of a replay.
        aim: Aim,
    },
    /// Write a recording for another tool.
    Export {
        /// The tool's format.
        format: Format,
        /// The recording.
        file: PathBuf,
        /// As of a replay.
        aim: Aim,
    },
    /// Print the facts of a recording.
    Facts {
        /// The recording.
        file: PathBuf,
    },
    /// Do what a command of its own does.
    Surface {
        /// The command.
        surface: Box<dyn Surface>,
        /// `--from` before its name.
        from: Option<PathBuf>,
    },
}
