//! Perl: its interpreter's functions say nothing of a script, but that it takes the lock of a shared variable (pp_lock, pp.c).
//!
//! Must not: be taken for a program that answers a question.

use super::command_line::CommandLine;
use super::lock_kind::LockKind;
use super::program::{Files, Functions, Program};

/// See the head of the file.
pub(super) static PERL: Program = Program {
    functions: Functions { locks: &[(LockKind::Mutex, &["Perl_pp_lock"])], ..Functions::NONE },
    files: Files { plumbing: &["perl", "libperl"], ..Files::NONE },
    command_line: Some(CommandLine {
        commands: &["perl"],
        with_value: &["-I"],
        inline: &["-e", "-E"],
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};
