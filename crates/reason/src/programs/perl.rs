//! Perl: its interpreter's functions say nothing of a script.
//!
//! Must not: be taken for a program that answers a question.

use super::command_line::CommandLine;
use super::program::{Files, Program};

/// See the head of the file.
pub(super) static PERL: Program = Program {
    files: Files { plumbing: &["perl", "libperl"], ..Files::NONE },
    command_line: Some(CommandLine {
        commands: &["perl"],
        with_value: &["-I"],
        inline: &["-e", "-E"],
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};
