//! What a comparison says: the contract of `holdup diff --json`, version 1 (docs/json.md).
//!
//! Fields are only ever added. Figures of changes are in the unit that `unit` names, because of a command the whole run
//! counts and of everything else a second of the look. What is not known is null, never zero. Must not hold rules or wording.
//!
//! Edit together: docs/json.md, the report crate's text/comparison.rs.

use crate::answer::bounds::LeftOut;
use crate::answer::report::{Caveat, EndKind, ObjectName, ReportTarget, Severity, Who, Window};
use serde::{Deserialize, Serialize};

/// Two sides compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// `SCHEMA` of the reports.
    pub schema: u32,
    /// What it comes down to.
    pub verdict: Outcome,
    /// One sentence.
    pub title: String,
    /// Index into `ends` of the change that the title is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<usize>,
    /// Something above a note became worse.
    pub is_worse: bool,
    /// Unit of all figures below.
    pub unit: Unit,
    /// The whole: of a command its wall time, else what its threads lost to others.
    pub total: Changed,
    /// What is below this, in `unit`, is called no change.
    pub floor: f64,
    /// How likely the ranges of an end that did not change part by chance; null with one recording a side.
    pub chance: Option<f64>,
    /// The looks of the one side, as they were given.
    pub before: Vec<Side>,
    /// The looks of the other.
    pub after: Vec<Side>,
    /// Every end of either side: changes first, the greatest first.
    pub ends: Vec<EndChange>,
    /// Every part of the accounting, in the same order.
    pub parts: Vec<PartChange>,
    /// Every finding of either side, what became worse first.
    pub findings: Vec<FindingChange>,
    /// What was left out of lists that are longer than their bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// What limits this comparison.
    pub caveats: Vec<Caveat>,
}

/// What a comparison comes down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Slower, or more is lost.
    Worse,
    /// Faster, or less is lost.
    Better,
    /// The whole is what it was, and what it is made of is not.
    Shifted,
    /// Nothing changed.
    Same,
    /// The whole of a side is not known.
    Unknown,
}

/// Unit of a comparison's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds of a run.
    #[serde(rename = "s")]
    Seconds,
    /// Seconds in each second of the look.
    #[serde(rename = "s/s")]
    SecondsPerSecond,
}

/// How something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was not there before.
    New,
    /// It is there no more.
    Gone,
    /// More of it.
    More,
    /// Less of it.
    Less,
    /// Not more than the floor, or than the spread of its side.
    Same,
    /// One side did not see enough to tell.
    Unknown,
}

impl Change {
    /// It is said to have changed.
    pub fn is_called(self) -> bool {
        matches!(self, Self::New | Self::Gone | Self::More | Self::Less)
    }

    /// There is more of it than before.
    pub fn grows(self) -> bool {
        matches!(self, Self::New | Self::More)
    }
}

/// A figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// How it changed.
    pub change: Change,
    /// Before; null if it is not known.
    pub before: Option<Figure>,
    /// After; null if it is not known.
    pub after: Option<Figure>,
    /// Mean after minus mean before; null if one of them is not known.
    pub difference: Option<f64>,
    /// The difference is at least this: of what is absent on a side not all was seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub difference_is_least: bool,
}

/// A figure over the looks of a side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Mean.
    pub mean: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// Mean part of the side's whole, 0 to 1.
    pub share: f64,
}

/// One end on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndChange {
    /// What it is, in words without numbers of one look.
    pub words: String,
    /// Its kind.
    pub end: EndKind,
    /// Its object, as the side after calls it, else the side before.
    pub object: ObjectName,
    /// How it changed.
    #[serde(flatten)]
    pub changed: Changed,
    /// How bad the change is, or the finding that names the end now, whichever is worse.
    pub severity: Severity,
    /// Who would have had to act before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who_before: Option<Who>,
    /// Who would have to act now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who_after: Option<Who>,
    /// Code of the finding that named it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_before: Option<String>,
    /// Code of the finding that names it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_after: Option<String>,
    /// Of an unknown change: why it is not known, one clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_unknown: Option<String>,
}

/// One part of the accounting on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartChange {
    /// Class of wait, or `running`.
    pub class: String,
    /// What was waited for, or who ran.
    pub object: ObjectName,
    /// How it changed.
    #[serde(flatten)]
    pub changed: Changed,
}

/// One finding on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindingChange {
    /// `area.cause`.
    pub code: String,
    /// Its title, of the last look that has it.
    pub title: String,
    /// Its object there.
    pub object: ObjectName,
    /// `new`, `gone`, `more` or `less` severe, `same`; `unknown` if a side did not see enough to tell.
    pub change: Change,
    /// How bad it was at worst; null if it was not there.
    pub severity_before: Option<Severity>,
    /// How bad it is at worst; null if it is not there.
    pub severity_after: Option<Severity>,
    /// In how many looks of the side before.
    pub looks_before: usize,
    /// In how many looks of the side after.
    pub looks_after: usize,
}

/// One look of a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The recording, as it was given.
    pub recording: String,
    /// What was looked at.
    pub target: ReportTarget,
    /// When, and how long.
    pub window: Window,
    /// Its own whole: of a command its wall time, else what its threads lost to others, seconds.
    pub total_seconds: f64,
    /// The title of its own answer.
    pub title: String,
    /// The machine.
    pub machine: Machine,
}

/// The machine of a look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub machine: String,
    /// CPUs online.
    pub cpus: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Whether kernel events were seen, or /proc was read alone.
    pub kernel_events: bool,
}
