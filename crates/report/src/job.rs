//! What is to be done: the meaning of a command line, whatever way it was typed.
//!
//! flags.rs makes a [`Job`] of what was typed, main.rs does it. Must not: know how a flag is called. Rejected: clap's own types
//! all the way down (the same look has four spellings, and each reader would have to know them).
//!
//! Edit together: flags.rs, main.rs.

use crate::diff::Sides;
use crate::export::{Format, Wanted};
use crate::top;
use crate::wait;
use crate::watch::Named;
use clap_complete::Shell;
/// At whom to look: the probe decides what follows from it.
pub(crate) use holdup_probe::plan::Target as Aim;
use std::path::PathBuf;

/// What is to be done, and how to tell it.
#[derive(Debug)]
pub(crate) struct Job {
    /// What is to be done.
    pub task: Task,
    /// How to tell it.
    pub answer: Answer,
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
    /// Compare recordings.
    Diff(Sides),
    /// Make faults, and explain them.
    Demo,
    /// Be a process of the demonstration.
    DemoPart {
        /// Who began it, what it does, with what.
        words: Vec<String>,
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
    /// Look all the time.
    Watch {
        /// Which settings were named.
        named: Named,
        /// Print them, and watch nothing.
        print: bool,
    },
    /// Have whoever watches write what is in memory.
    Keep {
        /// The state folder.
        state: Option<PathBuf>,
    },
    /// Say in a line and a status how the host is.
    Check {
        /// The state folder of whoever watches.
        state: Option<PathBuf>,
    },
    /// List the windows that were saved.
    Ring {
        /// The state folder.
        state: Option<PathBuf>,
    },
    /// Show a look that goes on, or the past, on a terminal.
    Top(top::Wanted),
    /// Say when something is done, and why it is not.
    Wait(wait::Wanted),
    /// Answer an agent's questions on standard input and output.
    Mcp,
    /// Print the facts of a recording.
    Facts {
        /// The recording.
        file: PathBuf,
    },
    /// Say what can be seen, here or where a recording was made.
    Doctor {
        /// The recording.
        file: Option<PathBuf>,
    },
    /// Tell of codes.
    Explain {
        /// A code or an area.
        code: Option<String>,
    },
    /// Print completions.
    Completions {
        /// For which shell.
        shell: Shell,
    },
    /// Print the man page.
    Man,
    /// Write the generated documents.
    Docs {
        /// Where.
        directory: PathBuf,
    },
}

/// How to tell the answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// To which file; none is standard output (for commands: standard error).
    pub output: Option<PathBuf>,
    /// To which file the page of it; none if none is wanted.
    pub page: Option<PathBuf>,
    /// For which other tool as well.
    pub export: Option<Wanted>,
    /// As JSON.
    pub json: bool,
    /// Let the exit status say whether something was found.
    pub check: bool,
    /// With evidence.
    pub verbose: bool,
    /// Never in colour.
    pub no_color: bool,
}
