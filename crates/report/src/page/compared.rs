//! What a page of a comparison holds: the JSON of `holdup diff` in bounds, and the sentence on its noise.
//!
//! Changes stand first in the contract, so what is cut at its end is what stayed; what was left out is counted and said on the page. Must
//! not: change a figure (whoever reads `comparison` in the page reads the contract).
//!
//! Edit together: `reason/src/answer/compare/contract.rs`, page/template/compared.js, embedded.rs (how strings are cut).

use super::embedded::{LeftOut, clip, cut};
use crate::text::escape;
use holdup_reason::answer::compare::Comparison;
use serde::Serialize;
use serde_json::Value;

/// Ends, changes first.
const ENDS: usize = 150;
/// Parts of the accounting, changes first.
const PARTS: usize = 60;
/// Findings, what became worse first.
const FINDINGS: usize = 40;
/// Recordings of a side.
const SIDE: usize = 40;
/// Characters of a recording's name that is offered as a command.
const FILE: usize = 300;

/// The data of a page.
#[derive(Serialize)]
pub(super) struct Embedded<'a> {
    comparison: Value,
    /// What is called a change.
    noise: &'a str,
    /// The command that says why it is so on the side after; empty if its name cannot be typed as it is shown.
    next: String,
    version: &'static str,
    /// How many, and of what.
    left_out: Vec<(usize, &'static str)>,
}

impl<'a> Embedded<'a> {
    /// Of a comparison.
    pub(super) fn of(comparison: &Comparison, noise: &'a str) -> Self {
        let mut bounded = comparison.clone();
        let (mut ends, mut parts, mut findings, mut looks) = (0, 0, 0, 0);
        cut(&mut bounded.ends, ENDS, &mut ends);
        cut(&mut bounded.parts, PARTS, &mut parts);
        cut(&mut bounded.findings, FINDINGS, &mut findings);
        for side in [&mut bounded.before, &mut bounded.after] {
            // The last is the one that is shown.
            let first = side.len().saturating_sub(SIDE);
            looks += first;
            side.drain(..first);
        }
        let mut value = serde_json::to_value(&bounded).unwrap_or(Value::Null);
        let mut left = LeftOut::default();
        clip(&mut value, "", &mut left);
        let counts = [
            (ends, "ends that changed less than those shown, or not at all"),
            (parts, "parts of the accounting"),
            (findings, "findings"),
            (looks, "recordings"),
        ];
        let mut left_out: Vec<_> = counts.into_iter().filter(|(count, _)| *count > 0).collect();
        left_out.extend(left.said());
        let last = comparison.after.last().map(|last| last.recording.as_str());
        let next = last
            .filter(|file| escape::name(file, FILE) == **file)
            .map(|file| format!("holdup page {} -o why.html", escape::shell_word(file)));
        Self {
            comparison: value,
            noise,
            next: next.unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION"),
            left_out,
        }
    }
}
