//! OpenMP: the locks of its runtimes.
//!
//! Names are those that GCC's and LLVM's runtimes export; what is inside of them is mostly without names. A team at rest waits in such a place.

use super::lock_kind::LockKind;
use super::program::{Files, Functions, Program};

/// See the head of the file.
pub(super) static OPENMP: Program = Program {
    functions: Functions {
        library_locks: &[
            (LockKind::Barrier, &["GOMP_barrier", "kmpc_barrier"]),
            (
                LockKind::Mutex,
                &[
                    "GOMP_critical_start",
                    "GOMP_critical_name_start",
                    "GOMP_atomic_start",
                    "omp_set_lock",
                    "omp_set_nest_lock",
                    "kmpc_critical",
                    "kmpc_critical_with_hint",
                    "kmpc_set_lock",
                    "kmpc_set_nest_lock",
                ],
            ),
        ],
        ..Functions::NONE
    },
    files: Files { plumbing: &["libgomp.", "libomp.", "libomp5.", "libiomp5."], ..Files::NONE },
    ..Program::UNKNOWN
};
