//! Erlang: its machine's functions say nothing of what runs on it.
//!
//! Must not: be taken for a program that answers a question.

use super::program::{Files, Functions, Program};

/// See the head of the file.
pub(super) static ERLANG: Program = Program {
    // A scheduler without a process to run, and whoever looks for input and output: until its next timer.
    functions: Functions { idle: &["erts_schedule", "erts_check_io"], ..Functions::NONE },
    files: Files { plumbing: &["beam.smp"], ..Files::NONE },
    ..Program::UNKNOWN
};
