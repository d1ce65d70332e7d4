//! A row of a list, whatever it is about: figures and a short name, then a sentence.
//!
//! Each list makes rows about its own things (blockers.rs, groups.rs); rows.rs joins them. Must not: know a list.

use crate::text::page::Tone;
use holdup_reason::answer::Report;

/// A row.
#[derive(Debug)]
pub(super) struct Row<T> {
    /// What it is known by in another window.
    pub key: String,
    /// Seconds lost a second.
    pub lost_per_second: f64,
    /// The longest single wait, its time before the look included, seconds.
    pub longest_seconds: f64,
    /// How bad.
    pub tone: Tone,
    /// Code, kind or name.
    pub short: String,
    /// The sentence.
    pub sentence: String,
    /// What it is about.
    pub about: T,
}

impl<T> Row<T> {
    /// The same row among those of other lists.
    pub(super) fn with<U>(self, about: impl FnOnce(T) -> U) -> Row<U> {
        let Self { key, lost_per_second, longest_seconds, tone, short, sentence, about: own } =
            self;
        let about = about(own);
        Row { key, lost_per_second, longest_seconds, tone, short, sentence, about }
    }
}

/// Seconds a second.
pub(super) fn rate(seconds: f64, report: &Report) -> f64 {
    seconds / report.window.seconds.max(f64::MIN_POSITIVE)
}
