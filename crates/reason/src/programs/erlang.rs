//! Erlang: its machine's functions say nothing of what runs on it.
//!
//! Must not: be taken for a program that answers a question.

use super::program::{Files, Program};

/// See the head of the file.
pub(super) static ERLANG: Program =
    Program { files: Files { plumbing: &["beam.smp"], ..Files::NONE }, ..Program::UNKNOWN };
