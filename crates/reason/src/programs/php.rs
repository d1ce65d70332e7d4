//! PHP: a pool of workers, each with one script open while it runs.
//!
//! Must not: be asked by the pool's own status page, which is off as it is packed.

use super::command_line::CommandLine;
use super::program::{Files, Program, stacks_with_warning};

/// What bounds the workers of a server by this name.
pub fn workers_setting(process: &str) -> Option<&'static str> {
    PHP.begins.iter().any(|begin| process.starts_with(begin)).then_some("pm.max_children")
}

/// See the head of the file.
pub(super) static PHP: Program = Program {
    begins: &["php-fpm"],
    files: Files { plumbing: &["php"], ..Files::NONE },
    question: Some(|_, pid| format!("ls -l /proc/{pid}/fd; {}", stacks_with_warning(pid))),
    command_line: Some(CommandLine {
        commands: &["php"],
        with_value: &["-d", "-c", "-z"],
        inline: &["-r", "-B", "-R", "-E"],
        names_it: &["-f"],
        letters_together: false,
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};
