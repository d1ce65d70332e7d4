//! Ruby: an interpreter's lock, and mutexes that also run what is done under them.
//!
//! A thread that wants a mutex sleeps in a call of its own choice, which says nothing. Names are those of the sources (thread.c,
//! thread_sync.c).

use super::command_line::CommandLine;
use super::lock_kind::LockKind;
use super::program::{Files, Functions, Program};

/// See the head of the file.
pub(super) static RUBY: Program = Program {
    functions: Functions {
        locks: &[(LockKind::InterpreterLock, &["gvl_acquire", "rb_gvl_lock"])],
        takes_and_runs: (
            &["rb_mutex_lock", "rb_mutex_synchronize"],
            &["rb_ensure", "rb_vm_exec", "vm_exec"],
        ),
        sleeps: &["rb_thread_wait_for", "rb_thread_sleep"],
        ..Functions::NONE
    },
    files: Files { plumbing: &["ruby", "libruby"], ..Files::NONE },
    command_line: Some(CommandLine {
        commands: &["ruby", "jruby"],
        with_value: &["-I", "-r", "-C"],
        inline: &["-e"],
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};
