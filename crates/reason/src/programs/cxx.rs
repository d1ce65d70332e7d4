//! C++: the standard library's own waits.
//!
//! Names are those of libstdc++.

use super::lock_kind::LockKind;
use super::program::{Files, Functions, Program};

/// See the head of the file.
pub(super) static CXX: Program = Program {
    functions: Functions {
        library_locks: &[
            (LockKind::Once, &["__cxa_guard_acquire"]),
            (LockKind::Condition, &["_M_futex_wait_until", "_M_futex_wait_until_steady"]),
        ],
        plain: &[(
            LockKind::Semaphore,
            &["counting_semaphore::acquire", "__platform_semaphore::_M_acquire", "_M_acquire"],
        )],
        ..Functions::NONE
    },
    files: Files {
        plumbing: &["libstdc++", "libgcc_s"],
        plumbing_paths: &["__gnu_cxx::"],
        ..Files::NONE
    },
    ..Program::UNKNOWN
};
