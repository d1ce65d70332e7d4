//! The lab: makes faults on purpose and checks holdup's answers (docs: lab/README.md).
//!
//! Never shipped. It knows holdup only as a program that prints JSON: it must not link the probe
//! or call a rule, or the score would be the lab's opinion of itself. The one thing it shares is
//! the shape of the report (`holdup_reason::answer`), and, for a rule to be compared with, that of the recorded
//! facts (`holdup_reason::facts`).

pub mod admission;
pub mod baseline;
pub mod brief;
pub mod distractor;
pub mod document;
pub mod dying;
pub mod fault;
pub mod faults;
pub mod holdup_client;
pub mod judgement;
pub mod load;
pub mod look;
pub mod procfs;
pub mod remedy;
pub mod runner;
pub mod scenario;
pub mod score;
pub mod seeded_draw;
pub mod trial;
pub mod undo;
pub mod vm;
pub mod wait_graph_baseline;

use std::io::Write;

/// Prints one line for the reader; a closed pipe is no reason to stop undoing things.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Prints one line of warning.
pub fn warn(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "holdup-lab: {line}");
}
