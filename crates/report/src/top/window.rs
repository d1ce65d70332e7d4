//! A window on the screen: its place in the strip, and its answer once that is here.
//!
//! A live window comes with its answer; one of the ring comes in short, as `holdup ring` lists it, and its answer is made from its
//! recording when somebody goes there. Pure. Must not: read a file.
//!
//! Edit together: watch/ring.rs (what is known of a saved window).

use super::rows::{self, end_key};
use crate::text::page::Tone;
use crate::watch::ring;
use holdup_reason::answer::{Report, Severity, Verdict};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Windows that begin later than so much of their length after the one before do not follow it.
const GAP_SHARE: f64 = 0.5;
const SECOND_NS: f64 = 1e9;

/// What a window comes down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// No time was seen.
    Unknown,
    /// Nobody is owed anything.
    Idle,
    /// Time is somebody's own work.
    Works,
    /// Somebody waits for what no rule names.
    Waits,
    /// Somebody is slower for a named cause.
    Warning,
    /// Somebody makes no progress for it.
    Critical,
}

impl Mark {
    fn new(verdict: Verdict, worst: Option<Severity>) -> Self {
        match (verdict, worst) {
            (_, Some(Severity::Critical)) => Self::Critical,
            (Verdict::Held, _) | (_, Some(Severity::Warning)) => Self::Warning,
            (Verdict::Waits, _) => Self::Waits,
            (Verdict::Works, _) => Self::Works,
            (Verdict::Idle, _) => Self::Idle,
        }
    }

    /// Its column of the strip, and its colour; the letter alone is enough.
    pub(super) fn drawn(self) -> (char, Tone) {
        match self {
            Self::Unknown => ('?', Tone::Warning),
            Self::Idle => ('.', Tone::Good),
            Self::Works => ('-', Tone::Good),
            Self::Waits => ('~', Tone::Warning),
            Self::Warning => ('!', Tone::Warning),
            Self::Critical => ('#', Tone::Critical),
        }
    }

    /// Whether something was found in it.
    pub(super) fn is_found(self) -> bool {
        matches!(self, Self::Warning | Self::Critical)
    }
}

/// The answer of a window.
#[derive(Debug)]
pub(super) enum Content {
    /// Here it is.
    Here(Box<Report>),
    /// It can be made from its recording.
    Away,
    /// It is being made.
    Coming,
    /// It cannot be made: why.
    Failed(String),
}

/// One window.
#[derive(Debug)]
pub(super) struct Window {
    /// When it began, nanoseconds since 1970.
    pub begin_unix_ns: u64,
    /// Its length.
    pub seconds: f64,
    /// What it comes down to.
    pub mark: Mark,
    /// Its answer.
    pub content: Content,
    /// Its recording; none of a live one.
    pub file: Option<PathBuf>,
    /// What was found, and what ends there are, as far as that is known.
    pub keys: BTreeSet<String>,
}

impl Window {
    /// Of an answer.
    pub(super) fn of(report: Box<Report>) -> Self {
        let worst = report.findings.iter().map(|it| it.severity).max();
        Self {
            begin_unix_ns: report.window.begin_unix_ns,
            seconds: report.window.seconds,
            mark: match rows::is_unknown(&report) {
                true => Mark::Unknown,
                false => Mark::new(report.answer.verdict, worst),
            },
            keys: keys(&report),
            content: Content::Here(report),
            file: None,
        }
    }

    /// Of what was saved, in short.
    pub(super) fn saved(entry: ring::Entry, folder: &Path) -> Self {
        let worst = entry.findings.iter().map(|it| it.severity).max();
        Self {
            begin_unix_ns: entry.begin_unix_ns,
            seconds: entry.seconds,
            mark: Mark::new(entry.verdict, worst),
            content: Content::Away,
            file: Some(folder.join(&entry.file)),
            keys: entry.findings.into_iter().map(|it| it.key).collect(),
        }
    }

    /// When it ended.
    pub(super) fn end_unix_ns(&self) -> u64 {
        self.begin_unix_ns + (self.seconds * SECOND_NS) as u64
    }

    /// Whether it begins where the other ended.
    pub(super) fn follows(&self, earlier: &Self) -> bool {
        let gap_ns = self.begin_unix_ns.saturating_sub(earlier.end_unix_ns()) as f64;
        gap_ns <= GAP_SHARE * self.seconds.max(earlier.seconds) * SECOND_NS
    }

    /// Its answer, if that is here.
    pub(super) fn report(&self) -> Option<&Report> {
        match &self.content {
            Content::Here(report) => Some(report),
            _ => None,
        }
    }

    /// Takes the answer that was made from its recording.
    pub(super) fn take(&mut self, made: Result<Box<Report>, String>) {
        match made {
            Ok(report) => {
                // What was saved in short is of whom was looked at then, not of whom is asked for now.
                let made = Self::of(report);
                (self.mark, self.keys, self.content) = (made.mark, made.keys, made.content);
            }
            Err(why) => self.content = Content::Failed(why),
        }
    }
}

fn keys(report: &Report) -> BTreeSet<String> {
    let findings = report.findings.iter().map(|it| it.key.clone());
    findings.chain(report.answer.ends.iter().map(end_key)).collect()
}
