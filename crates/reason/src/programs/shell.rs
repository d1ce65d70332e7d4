//! Shells: what they run is a script, or text that somebody gave them.
//!
//! Must not: hold the programs of a script.

use super::command_line::CommandLine;
use super::program::Program;

/// See the head of the file.
pub(super) static SHELL: Program = Program {
    command_line: Some(CommandLine {
        commands: &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"],
        with_value: &["-o", "-O", "+o", "+O", "--rcfile", "--init-file"],
        inline: &["-c"],
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};
