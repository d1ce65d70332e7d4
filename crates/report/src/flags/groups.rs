//! Flags that several commands share, each once: whom to look at, how long, from where, how to answer.
//!
//! Beside the list of commands (mod.rs), because commands that are files of their own (surface.rs) take them from here. Must not: know a
//! command.

use crate::export::{self, Wanted};
use crate::failure::Failure;
use crate::watch::settings;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use holdup_probe::plan::Target;
use std::path::PathBuf;
use std::time::Duration;

/// The look of a bare `holdup`.
const LOOK_SECONDS: f64 = 5.0;
/// Below this, a window holds too few waits to reason on.
const SHORTEST: Duration = Duration::from_millis(100);
/// Above this, use a recording per hour: all facts of a look are held in memory until it ends.
const LONGEST: Duration = Duration::from_secs(3600);

/// Whom to look at.
#[derive(Debug, Default, Args)]
pub(crate) struct TargetFlags {
    /// Look at one process, all its threads
    #[arg(short, long, value_name = "PID", value_parser = process_id)]
    pub pid: Option<u32>,
    /// Look at one container or cgroup: name, id (a unique beginning is enough) or path
    #[arg(short, long, value_name = "NAME", conflicts_with = "pid")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub container: Option<String>,
}

/// How long to look.
#[derive(Debug, Default, Args)]
pub(crate) struct LookFlags {
    /// Length of the look: 500ms, 30s, 2m [default: 5s]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub length: Option<Duration>,
}

/// Where facts come from.
#[derive(Debug, Default, Args)]
pub(crate) struct FromFlag {
    /// Answer from a recording instead of this host; needs no privileges
    #[arg(long, value_name = "FILE", conflicts_with = "length")]
    pub from: Option<PathBuf>,
}

/// The same without `--for` beside it.
#[derive(Debug, Default, Args)]
pub(crate) struct FromOnlyFlag {
    /// Answer from a recording instead of this host
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
}

/// Where and how to print.
#[derive(Debug, Default, Args)]
pub(crate) struct PrintFlags {
    /// Write the answer to a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Answer in JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// No colours (they are only used on a terminal)
    #[arg(long)]
    pub no_color: bool,
}

/// How to answer.
#[derive(Debug, Default, Args)]
pub(crate) struct AnswerFlags {
    #[command(flatten)]
    pub print: PrintFlags,
    /// Draw the answer into a page as well: one HTML file
    #[arg(long, value_name = "PAGE")]
    pub page: Option<PathBuf>,
    /// Write it for another tool as well: folded, speedscope, pprof, otlp, perfetto, jsonl
    #[arg(long, value_name = "FORMAT:FILE", value_parser = export::wanted)]
    pub export: Option<Wanted>,
    /// Exit with 1 if something above a note is found
    #[arg(long)]
    pub check: bool,
    /// Show the evidence behind each finding, and all parts of the time
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
}

/// Where whoever watches writes.
#[derive(Debug, Default, Args)]
pub(crate) struct StateFlag {
    /// State folder [default: as the settings say, else /var/lib/holdup]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

impl From<PrintFlags> for AnswerFlags {
    fn from(print: PrintFlags) -> Self {
        Self { print, ..Self::default() }
    }
}

impl StateFlag {
    /// The folder; where none was named, that of whoever watches with the usual settings.
    pub(crate) fn folder(self) -> Result<PathBuf, Failure> {
        self.state.map_or_else(settings::state, Ok)
    }
}

impl TargetFlags {
    /// At whom.
    pub(crate) fn aim(self) -> Target {
        match (self.pid, self.container) {
            (Some(pid), _) => Target::Process(pid),
            (None, Some(name)) => Target::Container(name),
            (None, None) => Target::Host,
        }
    }
}

impl LookFlags {
    /// How long, with what holds where nothing was said.
    pub(crate) fn seconds(&self) -> f64 {
        self.length.map_or(LOOK_SECONDS, |length| length.as_secs_f64())
    }
}

/// A number above 0.
pub(crate) fn process_id(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err("a process id is a number above 0 (pgrep finds it by name)".into()),
    }
}

/// `500ms`, `30s`, `1m 30s`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let length = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| "not a length of time; try 500ms, 30s or 2m".to_owned())?,
        Err(_) => humantime::parse_duration(text)
            .map_err(|_| "not a length of time; try 500ms, 30s or 2m".to_owned())?,
    };
    if length < SHORTEST {
        return Err("too short: a look needs at least 100ms".into());
    }
    if length > LONGEST {
        return Err("too long: a look takes at most 1h; record several in turn".into());
    }
    Ok(length)
}
