//! Guile: a mutex of its threads is a condition of the C library's with a pipe beside it, and a sleep a select of that, so only its own functions
//! say what they are.
//!
//! Names are those of the sources (libguile/threads.c, scmsigs.c). Must not: be taken for a program that answers a question.

use super::command_line::CommandLine;
use super::lock_kind::LockKind;
use super::program::{Files, Functions, Program};

/// See the head of the file.
pub(super) static GUILE: Program = Program {
    functions: Functions {
        locks: &[(LockKind::Mutex, &["scm_timed_lock_mutex", "scm_lock_mutex"])],
        sleeps: &["scm_std_usleep", "scm_std_sleep"],
        ..Functions::NONE
    },
    files: Files { plumbing: &["guile", "libguile", "libgc"], ..Files::NONE },
    command_line: Some(CommandLine {
        commands: &["guile"],
        with_value: &["-L", "-C", "-x"],
        inline: &["-c"],
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};
