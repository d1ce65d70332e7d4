//! What other tools can show of a look: stacks with weights, lines of time with who ended each wait, and the spans of a command.
//!
//! One model for all formats, made of the same measures as the answer, so that the time in it is the time in the answer: the
//! weights of the stacks add up to the accounting's parts, class by class, and a command's span is its wall time. All of it is
//! bounded, and what is left out is counted. Must not: know a format (the report crate's export/ has a file for each), or decide
//! anything that the answer does not say.
//!
//! Edit together: docs/export.md, answer/accounting.rs (what the parts are).

pub mod frames;
pub mod path;
pub mod spans;
pub mod stacks;
pub mod tracks;

use crate::facts::Ns;
use crate::measure::Measures;
pub use spans::{Span, SpanKind};
pub use stacks::{Frame, FrameKind, WeightedStack};
pub use tracks::{Slice, Track};

/// A look for other tools.
#[derive(Debug, Clone, PartialEq)]
pub struct Export {
    /// `uname -n`.
    pub host: String,
    /// Begin of the window, nanoseconds since 1970.
    pub begin_unix_ns: u64,
    /// Length of what is explained, nanoseconds: the window, or the command's life.
    pub ns: Ns,
    /// Where the time went: adds up to the accounting.
    pub stacks: Vec<WeightedStack>,
    /// Lines of time.
    pub tracks: Vec<Track>,
    /// Of a command: its processes, and what they waited for on its path.
    pub spans: Vec<Span>,
    /// What was left out: how many, and of what.
    pub left_out: Vec<(usize, &'static str)>,
}

impl Export {
    /// Of a look and its stacks, of which so many stand as others.
    pub fn of(measures: &Measures<'_>, stacks: Vec<WeightedStack>, stacks_folded: usize) -> Self {
        let model = measures.model;
        let (tracks, slices_left_out, tracks_left_out) = tracks::tracks(measures);
        let (spans, spans_left_out) = spans::spans(measures);
        let mut left_out = vec![
            (stacks_folded, "stacks with less time in them, which stand as others"),
            (tracks_left_out, "threads that did less than those shown"),
            (slices_left_out, "slices that are shorter than those shown"),
            (spans_left_out, "spans that are shorter than those shown"),
        ];
        left_out.retain(|(count, _)| *count > 0);
        Self {
            host: model.look.host.hostname.clone(),
            begin_unix_ns: model.look.begin_unix_ns,
            ns: (measures.wall_seconds() * 1e9).round() as Ns,
            stacks,
            tracks,
            spans,
            left_out,
        }
    }
}
