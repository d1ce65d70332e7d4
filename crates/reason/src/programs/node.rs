//! Node: V8, and libuv below it.
//!
//! Names of V8's collector were read of Node 20, and else are those of the sources (src/heap). Functions that the program's own code uses too
//! (write barriers, allocation) are not in the list, so that the collector's part is a lower bound.

use super::command_line::CommandLine;
use super::lock_kind::LockKind;
use super::program::{Collector, Files, Functions, PoolWorker, Program};

/// See the head of the file.
pub(super) static NODE: Program = Program {
    functions: Functions {
        locks: &[(LockKind::ProgramLock, &["FutexEmulation::WaitSync", "FutexEmulation::Wait"])],
        library_locks: &[
            (LockKind::Join, &["uv_thread_join"]),
            (LockKind::Rwlock, &["uv_rwlock_rdlock", "uv_rwlock_wrlock"]),
            (LockKind::Mutex, &["uv_mutex_lock"]),
        ],
        plain: &[(LockKind::Semaphore, &["uv_sem_wait"]), (LockKind::Condition, &["uv_cond_wait"])],
        idle: &[
            "uv__io_poll",
            "uv__epoll_wait",
            "PlatformWorkerThread",
            "WorkerThreadsTaskRunner::BlockingPop",
            "DelayedTaskScheduler::Run",
            "DelayedTaskQueue::GetNext",
        ],
        child: &["SyncProcessRunner::Spawn", "SyncProcessRunner::TryInitializeAndRunLoop"],
        worker: &["worker::Worker::Run", "worker::Worker::StartThread"],
        // --inspect-brk and --inspect-wait.
        debugger: &["inspector::Agent::WaitForConnectByOptions"],
        pools: &[PoolWorker {
            runs: "worker",
            file: "node",
            rests: &["uv_cond_wait", "uv_mutex_lock", "pthread_cond_wait"],
            is_native: true,
            setting: "UV_THREADPOOL_SIZE",
            ..PoolWorker::UNKNOWN
        }],
        ..Functions::NONE
    },
    files: Files {
        plumbing: &["libuv.", "node:", "libnode."],
        plumbing_whole: &["node", "nodejs"],
        scripts: &[".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"],
        extensions: &[".node"],
        library: &["node:"],
        child: &[("spawnSync", "node:child_process"), ("spawnSync", "node:internal/child_process")],
        ..Files::NONE
    },
    collector: Some(Collector {
        name: "V8",
        functions: &[
            "v8::internal::MarkCompactCollector",
            "v8::internal::MinorMarkCompactCollector",
            "v8::internal::MarkingVisitorBase",
            "v8::internal::MainMarkingVisitor",
            "v8::internal::ConcurrentMarking",
            "v8::internal::IncrementalMarking::",
            "v8::internal::MarkingWorklists",
            "v8::internal::BodyDescriptorBase",
            "v8::internal::Sweeper",
            "v8::internal::Scavenge",
            "v8::internal::IterateAndScavenge",
            "v8::internal::Evacuat",
            "v8::internal::PointersUpdatingVisitor",
            "v8::internal::RememberedSetUpdatingItem",
            "v8::internal::YoungGeneration",
            "cppgc::internal::",
        ],
        has_its_part: false,
        advice: "give it more heap (--max-old-space-size, and --max-semi-space-size for what is short-lived), or keep less in it \
                 (node --heapsnapshot-signal=SIGUSR2 writes down what is kept)",
    }),
    command_line: Some(CommandLine {
        commands: &["node", "nodejs", "bun"],
        with_value: &["-r", "--require", "--import", "--loader", "-C", "--conditions"],
        inline: &["-e", "--eval", "-p", "--print", "-pe"],
        letters_together: false,
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};
