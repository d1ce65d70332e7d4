//! Rust: the standard library, parking_lot, tokio and crossbeam.
//!
//! Names are those of the sources, and were read of programs of 1.70 and later, where locks sleep on a futex.

use super::lock_kind::LockKind;
use super::program::{Files, Functions, Program};

/// See the head of the file.
pub(super) static RUST: Program = Program {
    functions: Functions {
        library_locks: &[
            (LockKind::Join, &["thread::join", "JoinInner::join"]),
            (LockKind::Barrier, &["sync::barrier::Barrier::wait"]),
            (LockKind::Once, &["Once::call", "Once::wait"]),
            (
                LockKind::Rwlock,
                &[
                    "RwLock::read_contended",
                    "RwLock::write_contended",
                    "RawRwLock::lock_shared_slow",
                    "RawRwLock::lock_exclusive_slow",
                ],
            ),
            (LockKind::Mutex, &["Mutex::lock_contended", "RawMutex::lock_slow"]),
        ],
        plain: &[
            (
                LockKind::Channel,
                &["mpmc::array::Channel::recv", "Channel::recv", "mpsc::Receiver::recv"],
            ),
            (LockKind::MessageRoom, &["Channel::send"]),
            (
                LockKind::Condition,
                &["Condvar::wait", "Condvar::wait_optional_timeout", "Condvar::wait_timeout"],
            ),
            (
                LockKind::Park,
                &[
                    "thread::park",
                    "thread::Thread::park",
                    "thread::current::park",
                    "thread::park_timeout",
                    "Parker::park_timeout",
                ],
            ),
        ],
        idle: &[
            "Context::park_internal",
            "Context::park",
            "Context::park_timeout",
            "Inner::wait_for_task",
            "Sleep::sleep",
        ],
        ..Functions::NONE
    },
    files: Files {
        plumbing_paths: &[
            "std::",
            "<std::",
            "__rust_",
            "core::",
            "<core::",
            "alloc::",
            "<alloc::",
            "parking_lot",
            "<parking_lot",
            "lock_api::",
            "<lock_api::",
            "tokio::",
            "<tokio::",
            "crossbeam",
            "<crossbeam",
        ],
        ..Files::NONE
    },
    ..Program::UNKNOWN
};
