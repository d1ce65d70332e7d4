//! Git: one program with many subcommands, which starts itself.
//!
//! Must not: hold what its helpers of other names do (git-upload-pack, ssh).

use super::command_line::CommandLine;
use super::program::Program;

/// See the head of the file.
pub(super) static GIT: Program = Program {
    command_line: Some(CommandLine {
        commands: &["git"],
        with_value: &[
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--exec-path",
            "--config-env",
        ],
        flags: Some(&["-p", "-P", "--paginate", "--bare", "--literal-pathspecs"]),
        ..CommandLine::SUBCOMMAND
    }),
    ..Program::UNKNOWN
};
