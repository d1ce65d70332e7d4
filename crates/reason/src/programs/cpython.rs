//! CPython: a lock of the interpreter, locks of its programs, and queues and conditions of its own library.
//!
//! Names of functions were read of 3.11 and 3.12; releases before 3.11 name methods without their class. Whoever has given its process a
//! name of its own is known by its interpreter.

use super::command_line::CommandLine;
use super::lock_kind::LockKind;
use super::program::{AwaitedTask, Files, Functions, PoolWorker, Program};

// Of a file its last name is known, and that it is the language's own.
const FUTURES: &str = "python3/_base.py";
const PROCESS_POOL: &str = "python3/pool.py";

/// See the head of the file.
pub(super) static CPYTHON: Program = Program {
    begins: &["python", "gunicorn"],
    interpreter: "CPython",
    functions: Functions {
        locks: &[
            (
                LockKind::InterpreterLock,
                &["PyEval_RestoreThread", "PyEval_AcquireThread", "take_gil"],
            ),
            (LockKind::Join, &["Thread.join", "Thread._wait_for_tstate_lock"]),
            (LockKind::Barrier, &["Barrier.wait"]),
            (LockKind::Semaphore, &["Semaphore.acquire", "BoundedSemaphore.acquire"]),
            (LockKind::MessageRoom, &["Queue.put"]),
            (LockKind::Channel, &["Queue.get"]),
            (
                LockKind::Channel,
                &["_queue_SimpleQueue_get", "_queue_SimpleQueue_get_impl", "simplequeue_get"],
            ),
            (LockKind::Condition, &["Condition.wait"]),
            // Since 3.14 threading.Lock is a PyMutex, which waits in a semaphore.
            (
                LockKind::ProgramLock,
                &[
                    "PyThread_acquire_lock_timed",
                    "PyThread_acquire_lock",
                    "_PyMutex_LockTimed",
                    "_PyParkingLot_Park",
                ],
            ),
        ],
        pools: &[
            PoolWorker {
                runs: "_worker",
                file: "python3/thread.py",
                rests: &["_queue_SimpleQueue_get", "_queue_SimpleQueue_get_impl", "Queue.get"],
                ..PoolWorker::UNKNOWN
            },
            PoolWorker {
                runs: "worker",
                file: PROCESS_POOL,
                rests: &["Queue.get", "SimpleQueue.get"],
                ..PoolWorker::UNKNOWN
            },
            PoolWorker {
                runs: "_process_worker",
                file: "python3/process.py",
                rests: &["Queue.get"],
                ..PoolWorker::UNKNOWN
            },
            PoolWorker {
                runs: "ThreadedTaskDispatcher.handler_thread",
                file: "task.py",
                rests: &["Condition.wait"],
                serves: true,
                ..PoolWorker::UNKNOWN
            },
            PoolWorker {
                runs: "WorkerThread.run",
                file: "workers/threadpool.py",
                rests: &["Queue.get"],
                serves: true,
                ..PoolWorker::UNKNOWN
            },
        ],
        tasks: &[
            AwaitedTask {
                waits: &[
                    ("Future.result", FUTURES),
                    ("Future.exception", FUTURES),
                    ("wait", FUTURES),
                    ("as_completed", FUTURES),
                ],
                by: &[
                    ("_worker", "python3/thread.py"),
                    ("_ExecutorManagerThread.run", "python3/process.py"),
                ],
                // Of asyncio.run_coroutine_threadsafe.
                ended_in: &[
                    ("run_forever", "python3/base_events.py"),
                    ("run", "python3/runners.py"),
                    ("uv_run", ""),
                ],
                is_anybodys: false,
            },
            AwaitedTask {
                waits: &[("ApplyResult.wait", PROCESS_POOL), ("IMapIterator.next", PROCESS_POOL)],
                by: &[("worker", PROCESS_POOL), ("Pool._handle_results", PROCESS_POOL)],
                ended_in: &[],
                is_anybodys: false,
            },
        ],
        // SQLAlchemy, psycopg_pool, redis-py, urllib3, DBUtils.
        connections: &[
            "QueuePool._do_get",
            "ConnectionPool.getconn",
            "BlockingConnectionPool.get_connection",
            "HTTPConnectionPool._get_conn",
            "PooledDB.connection",
        ],
        ..Functions::NONE
    },
    files: Files {
        plumbing: &["python3", "libpython"],
        scripts: &[".py"],
        extensions: &[".cpython-", ".abi3.so"],
        library: &["python3/"],
        ..Files::NONE
    },
    question: Some(|_, pid| functions_of(pid)),
    command_line: Some(CommandLine {
        commands: &["python", "pypy"],
        with_value: &["-W", "-X", "--check-hash-based-pycs"],
        inline: &["-c"],
        names_it: &["-m"],
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};

/// Methods of its own classes as releases before 3.11 name them: name, file, and full name. Not `run` of process.py, which multiprocessing has too.
const METHODS: &[(&str, &str, &str)] = &[
    ("join", "python3/threading.py", "Thread.join"),
    ("_wait_for_tstate_lock", "python3/threading.py", "Thread._wait_for_tstate_lock"),
    ("wait", "python3/threading.py", "Condition.wait"),
    ("acquire", "python3/threading.py", "Semaphore.acquire"),
    ("get", "python3/queue.py", "Queue.get"),
    ("put", "python3/queue.py", "Queue.put"),
    ("get", "python3/queues.py", "Queue.get"),
    ("result", "python3/_base.py", "Future.result"),
    ("exception", "python3/_base.py", "Future.exception"),
    ("wait", "python3/pool.py", "ApplyResult.wait"),
    ("next", "python3/pool.py", "IMapIterator.next"),
    ("_handle_results", "python3/pool.py", "Pool._handle_results"),
];

/// A function's name with its class, where a release leaves that out.
pub(super) fn full_name<'f>(function: &'f str, module: &str) -> &'f str {
    let row = METHODS.iter().find(|(name, file, _)| *name == function && *file == module);
    row.map_or(function, |(_, _, full)| full)
}

/// The command that lists the functions of a process's threads, without a stop.
fn functions_of(pid: u32) -> String {
    format!("py-spy dump --nonblocking --pid {pid}   # pipx install py-spy")
}
