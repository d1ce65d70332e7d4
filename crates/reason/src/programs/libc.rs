//! The C library, and what begins threads and programs: below all others.
//!
//! Names are those of glibc and musl, without the underscores that mark a function as their own.

use super::lock_kind::LockKind;
use super::program::{Files, Functions, Program};

/// See the head of the file.
pub(super) static LIBC: Program = Program {
    functions: Functions {
        library_locks: &[
            (LockKind::Join, &["pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np"]),
            (LockKind::Barrier, &["pthread_barrier_wait"]),
            (LockKind::Once, &["pthread_once"]),
            (
                LockKind::Rwlock,
                &[
                    "pthread_rwlock_rdlock",
                    "pthread_rwlock_wrlock",
                    "pthread_rwlock_timedrdlock",
                    "pthread_rwlock_timedwrlock",
                    "pthread_rwlock_clockrdlock",
                    "pthread_rwlock_clockwrlock",
                ],
            ),
            (
                LockKind::Mutex,
                &[
                    "pthread_mutex_lock",
                    "pthread_mutex_timedlock",
                    "pthread_mutex_clocklock",
                    "lll_lock_wait",
                    "lll_lock_wait_private",
                ],
            ),
        ],
        plain: &[
            (
                LockKind::Semaphore,
                &["sem_wait", "sem_timedwait", "sem_clockwait", "semop", "semtimedop"],
            ),
            (LockKind::Message, &["mq_receive", "mq_timedreceive", "msgrcv"]),
            (LockKind::MessageRoom, &["mq_send", "mq_timedsend", "msgsnd"]),
            (
                LockKind::Condition,
                &["pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"],
            ),
        ],
        plumbing: &["syscall", "main", "start_thread", "_start", "clone", "clone3"],
        ..Functions::NONE
    },
    files: Files {
        plumbing: &["libc.", "libc-", "libpthread", "ld-linux", "ld-musl", "[vdso]"],
        ..Files::NONE
    },
    ..Program::UNKNOWN
};
