//! Functions of user space that waits are known by: of C libraries, languages, virtual machines and databases.
//!
//! The rows are read in order, the narrow meaning first: a database's row lock sleeps in a semaphore or on a socket, an
//! interpreter's lock in a condition. A thread of a pool that waits for work sleeps in a condition too, so the functions
//! of idle pools stand before those. A name matches whole, or as the end of a path (`Context::park` of any runtime's).
//! Names were read of real programs where they could be had, and else are those of the sources.
//!
//! Must not: decide anything (user_stack.rs). Edit together: user_stack.rs and its tests; a new table of functions goes into
//! `all_names` as well.

use super::lock_kind::LockKind;

/// Functions that say the kind wherever they are, the narrow first. A name matches whole or as the end of a path.
pub const KINDS: &[(LockKind, &[&str])] = &[
    (LockKind::BufferPin, &["LockBufferForCleanup"]),
    (LockKind::Replica, &["SyncRepWaitForLSN"]),
    (LockKind::ServerLock, &["LWLockAcquire", "LWLockAcquireOrWait", "LWLockWaitForVar"]),
    (LockKind::MetadataLock, &["MDL_context::acquire_lock"]),
    (LockKind::AdvisoryLock, &["Item_func_get_lock::val_int"]),
    (LockKind::RowLock, &["lock_wait", "lock_wait_suspend_thread"]),
    (
        LockKind::GarbageCollection,
        &[
            "SafepointSynchronize::block",
            "SafepointMechanism::process",
            "VMThread::wait_until_executed",
            "runtime.stopTheWorldWithSema",
        ],
    ),
    (
        LockKind::Monitor,
        &[
            "ObjectMonitor::enter",
            "ObjectMonitor::EnterI",
            "ObjectMonitor::enter_internal",
            "ObjectMonitor::ReenterI",
            "ObjectMonitor::reenter_internal",
        ],
    ),
    (LockKind::Condition, &["ObjectMonitor::wait"]),
    (LockKind::Park, &["Unsafe_Park", "Parker::park"]),
    (
        LockKind::InterpreterLock,
        &["PyEval_RestoreThread", "PyEval_AcquireThread", "take_gil", "gvl_acquire", "rb_gvl_lock"],
    ),
    (LockKind::Join, &["Thread.join", "Thread._wait_for_tstate_lock"]),
    (LockKind::Barrier, &["Barrier.wait"]),
    (LockKind::Semaphore, &["Semaphore.acquire", "BoundedSemaphore.acquire"]),
    (LockKind::Channel, &["Queue.get", "Queue.put"]),
    (
        LockKind::Channel,
        &["_queue_SimpleQueue_get", "_queue_SimpleQueue_get_impl", "simplequeue_get"],
    ),
    (LockKind::Condition, &["Condition.wait"]),
    (LockKind::ProgramLock, &["PyThread_acquire_lock_timed", "PyThread_acquire_lock"]),
    (LockKind::ProgramLock, &["FutexEmulation::WaitSync", "FutexEmulation::Wait"]),
    (
        LockKind::Join,
        &["pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np", "thread::join"],
    ),
    (LockKind::Join, &["JoinInner::join", "uv_thread_join"]),
    (LockKind::Barrier, &["pthread_barrier_wait", "sync::barrier::Barrier::wait"]),
    (LockKind::Once, &["pthread_once", "Once::call", "Once::wait", "__cxa_guard_acquire"]),
    (LockKind::Condition, &["_M_futex_wait_until", "_M_futex_wait_until_steady"]),
    (
        LockKind::Rwlock,
        &[
            "pthread_rwlock_rdlock",
            "pthread_rwlock_wrlock",
            "pthread_rwlock_timedrdlock",
            "pthread_rwlock_timedwrlock",
            "pthread_rwlock_clockrdlock",
            "pthread_rwlock_clockwrlock",
            "sync.runtime_SemacquireRWMutexR",
            "internal/sync.runtime_SemacquireRWMutexR",
            "sync.runtime_SemacquireRWMutex",
            "internal/sync.runtime_SemacquireRWMutex",
            "sync.(*RWMutex).Lock",
            "sync.(*RWMutex).RLock",
            "RwLock::read_contended",
            "RwLock::write_contended",
            "RawRwLock::lock_shared_slow",
            "RawRwLock::lock_exclusive_slow",
            "uv_rwlock_rdlock",
            "uv_rwlock_wrlock",
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
            "Mutex::lock_contended",
            "RawMutex::lock_slow",
            "runtime.lock2",
            "sync.(*Mutex).lockSlow",
            "internal/sync.(*Mutex).lockSlow",
            "sync.runtime_SemacquireMutex",
            "internal/sync.runtime_SemacquireMutex",
            "uv_mutex_lock",
        ],
    ),
];

/// Methods of Python's own classes as releases before 3.11 name them, without the class: name, file, and full name.
pub const METHODS: &[(&str, &str, &str)] = &[
    ("join", "python3/threading.py", "Thread.join"),
    ("_wait_for_tstate_lock", "python3/threading.py", "Thread._wait_for_tstate_lock"),
    ("wait", "python3/threading.py", "Condition.wait"),
    ("acquire", "python3/threading.py", "Semaphore.acquire"),
    ("get", "python3/queue.py", "Queue.get"),
    ("put", "python3/queue.py", "Queue.put"),
];

/// The folder that methods of Java's own classes stand under.
pub const JAVAS_OWN: &str = "jdk/";
/// What source files of the machine's languages end in.
pub const JAVA_FILES: &[&str] = &[".java", ".kt", ".scala", ".groovy", ".clj"];
/// How a thread of Java's stands: parked, by the method or by the machine's function.
pub const JAVA_PARKS: &[&str] = &["Unsafe.park", "Unsafe_Park", "Parker::park"];
/// Methods of Java's own that say the kind, where the program called them, in the order in which one runs inside another.
pub const JAVA_KINDS: &[(LockKind, &[&str])] = &[
    (
        LockKind::Mutex,
        &["ReentrantLock.lock", "ReentrantLock.lockInterruptibly", "ReentrantLock.tryLock"],
    ),
    (
        LockKind::Rwlock,
        &[
            "ReentrantReadWriteLock$ReadLock.lock",
            "ReentrantReadWriteLock$ReadLock.lockInterruptibly",
            "ReentrantReadWriteLock$ReadLock.tryLock",
            "ReentrantReadWriteLock$WriteLock.lock",
            "ReentrantReadWriteLock$WriteLock.lockInterruptibly",
            "ReentrantReadWriteLock$WriteLock.tryLock",
            "StampedLock.readLock",
            "StampedLock.readLockInterruptibly",
            "StampedLock.tryReadLock",
            "StampedLock.writeLock",
            "StampedLock.writeLockInterruptibly",
            "StampedLock.tryWriteLock",
        ],
    ),
    (
        LockKind::Idle,
        &[
            "ForkJoinPool.awaitWork",
            "ReferenceQueue.remove",
            "Reference.waitForReferencePendingList",
            "TimerThread.mainLoop",
        ],
    ),
    (
        LockKind::Semaphore,
        &["Semaphore.acquire", "Semaphore.acquireUninterruptibly", "Semaphore.tryAcquire"],
    ),
    (
        LockKind::Barrier,
        &["CyclicBarrier.await", "Phaser.awaitAdvance", "Phaser.internalAwaitAdvance"],
    ),
    (LockKind::Join, &["Thread.join"]),
    (
        LockKind::Channel,
        &[
            "ArrayBlockingQueue.take",
            "ArrayBlockingQueue.poll",
            "ArrayBlockingQueue.put",
            "ArrayBlockingQueue.offer",
            "LinkedBlockingQueue.take",
            "LinkedBlockingQueue.poll",
            "LinkedBlockingQueue.put",
            "LinkedBlockingQueue.offer",
            "LinkedBlockingDeque.takeFirst",
            "LinkedBlockingDeque.takeLast",
            "LinkedBlockingDeque.pollFirst",
            "LinkedBlockingDeque.pollLast",
            "LinkedBlockingDeque.putFirst",
            "LinkedBlockingDeque.putLast",
            "LinkedBlockingDeque.offerFirst",
            "LinkedBlockingDeque.offerLast",
            "PriorityBlockingQueue.take",
            "PriorityBlockingQueue.poll",
            "SynchronousQueue.take",
            "SynchronousQueue.poll",
            "SynchronousQueue.put",
            "SynchronousQueue.offer",
            "LinkedTransferQueue.take",
            "LinkedTransferQueue.poll",
            "LinkedTransferQueue.transfer",
            "DelayQueue.take",
            "DelayQueue.poll",
            "Exchanger.exchange",
        ],
    ),
    (
        LockKind::Condition,
        &[
            "CountDownLatch.await",
            "CompletableFuture.get",
            "CompletableFuture.join",
            "FutureTask.get",
            "ForkJoinTask.get",
            "ForkJoinTask.join",
            "AbstractQueuedSynchronizer$ConditionObject.await",
            "AbstractQueuedSynchronizer$ConditionObject.awaitNanos",
            "AbstractQueuedSynchronizer$ConditionObject.awaitUntil",
            "AbstractQueuedSynchronizer$ConditionObject.awaitUninterruptibly",
            "AbstractQueuedLongSynchronizer$ConditionObject.await",
            "AbstractQueuedLongSynchronizer$ConditionObject.awaitNanos",
            "Object.wait",
        ],
    ),
    // In some releases it is what parks.
    (LockKind::Idle, &["ForkJoinPool.runWorker"]),
];
/// Methods of pools that wait for work, Java's own and those made after them: as the end of a path, so many frames behind Java's own.
pub const JAVA_POOLS: &[&str] = &["ThreadPoolExecutor.getTask", "QueuedThreadPool.idleJobPoll"];
/// See [`JAVA_POOLS`].
pub const JAVA_POOL_FRAMES: usize = 3;

/// Below PostgreSQL's `ProcSleep`: who wanted the lock.
pub const PROC_SLEEP: &str = "ProcSleep";
/// The same, in that order.
pub const AFTER_PROC_SLEEP: &[(LockKind, &[&str])] = &[
    (
        LockKind::RowLock,
        &["XactLockTableWait", "LockTuple", "heap_lock_tuple", "heap_acquire_tuplock"],
    ),
    (LockKind::TableLock, &["LockRelationOid", "LockRelation", "LockRelationForExtension"]),
    (
        LockKind::AdvisoryLock,
        &[
            "pg_advisory_lock_int8",
            "pg_advisory_lock_int4",
            "pg_advisory_xact_lock_int8",
            "pg_advisory_xact_lock_int4",
        ],
    ),
    (LockKind::DatabaseLock, &[PROC_SLEEP]),
];

/// Ruby's, which take a mutex and also run what is done under it; and those that stand before them once it runs.
pub const RUBY_MUTEX: &[&str] = &["rb_mutex_lock", "rb_mutex_synchronize"];
/// See [`RUBY_MUTEX`].
pub const RUBY_RUNS: &[&str] = &["rb_ensure", "rb_vm_exec", "vm_exec"];

/// Threads that wait for work: these functions, next to the wait.
pub const IDLE: &[&str] = &[
    "uv__io_poll",
    "uv__epoll_wait",
    "runtime.stopm",
    "runtime.sysmon",
    "runtime.netpoll",
    "Context::park_internal",
    "Context::park",
    "Context::park_timeout",
    "Inner::wait_for_task",
    "Sleep::sleep",
    "PlatformWorkerThread",
    "WorkerThreadsTaskRunner::BlockingPop",
    "DelayedTaskScheduler::Run",
    "DelayedTaskQueue::GetNext",
    "tpool::thread_pool_generic::wait_for_tasks",
    "tpool::aio_linux::getevent_thread_routine",
    "CompileQueue::get",
    "WorkerTaskDispatcher::worker_run_task",
    "GangWorker::wait_for_task",
    "GangWorker::loop",
    "VMThread::wait_for_operation",
    "VMThread::loop",
    "WatcherThread::sleep",
    "ServiceThread::service_thread_entry",
    "NotificationThread::notification_thread_entry",
    "MonitorDeflationThread::monitor_deflation_thread_entry",
    "ConcurrentGCThread::run",
    "G1ServiceThread::wait_for_task",
    "G1ConcurrentRefineThread::wait_for_completed_buffers",
    "AttachListener::dequeue",
    "os::signal_wait",
    "BackgroundWriterMain",
    "CheckpointerMain",
    "WalWriterMain",
    "AutoVacLauncherMain",
    "ApplyLauncherMain",
    "PgArchiverMain",
    "ServerLoop",
    "secure_read",
];
/// Functions that run an event loop of their own until a child that they began has ended.
pub const CHILD: &[&str] =
    &["SyncProcessRunner::Spawn", "SyncProcessRunner::TryInitializeAndRunLoop"];
/// The same by the function of the language's own library, where the program's have no names: name and file.
pub const CHILD_SCRIPTS: &[(&str, &str)] =
    &[("spawnSync", "node:child_process"), ("spawnSync", "node:internal/child_process")];
/// Node's, of a thread that a program began for work of its own: it may wait for work by whatever word it likes.
pub const WORKER: &[&str] = &["worker::Worker::Run", "worker::Worker::StartThread"];
/// Functions that let time pass, where the kernel sees a condition.
pub const SLEEP: &[&str] =
    &["JavaThread::sleep", "JavaThread::sleep_nanos", "JVM_Sleep", "JVM_SleepNanos"];
/// The same of Java's own.
pub const JAVA_SLEEP: &str = "Thread.sleep";
/// Frames in which a function of an idle pool is looked for.
pub const IDLE_FRAMES: usize = 9;

/// The plain ways to sleep: they say what nothing else did.
pub const PLAIN: &[(LockKind, &[&str])] = &[
    (
        LockKind::Semaphore,
        &[
            "sem_wait",
            "sem_timedwait",
            "sem_clockwait",
            "PGSemaphoreLock",
            "uv_sem_wait",
            "semop",
            "semtimedop",
        ],
    ),
    (
        LockKind::Semaphore,
        &["counting_semaphore::acquire", "__platform_semaphore::_M_acquire", "_M_acquire"],
    ),
    (
        LockKind::Channel,
        &[
            "runtime.chanrecv",
            "runtime.chansend",
            "runtime.selectgo",
            "mpmc::array::Channel::recv",
            "Channel::recv",
            "Channel::send",
            "mpsc::Receiver::recv",
        ],
    ),
    (
        LockKind::Condition,
        &[
            "pthread_cond_wait",
            "pthread_cond_timedwait",
            "pthread_cond_clockwait",
            "Condvar::wait",
            "Condvar::wait_optional_timeout",
            "Condvar::wait_timeout",
            "uv_cond_wait",
            "sync.(*Cond).Wait",
        ],
    ),
    (
        LockKind::Park,
        &["thread::park", "thread::current::park", "thread::park_timeout", "Parker::park_timeout"],
    ),
];

/// Files whose functions say nothing about a program: the C library, and interpreters.
pub const PLUMBING_FILES: &[&str] = &[
    "libc.",
    "libc-",
    "libpthread",
    "ld-linux",
    "ld-musl",
    "libstdc++",
    "libgcc_s",
    "libuv.",
    "libjvm.",
    "libjli.",
    "libjava.",
    "libnio.",
    "libnet.",
    JAVAS_OWN,
    "python3",
    "libpython",
    "node:",
    "libnode.",
    "ruby",
    "libruby",
    "perl",
    "libperl",
    "php",
    "beam.smp",
    "[vdso]",
];
/// Whole names of such files, as a script's own may well begin with them.
pub const PLUMBING_PROGRAMS: &[&str] = &["node", "nodejs"];
/// Files with a program's own functions, whatever these are called.
pub const SCRIPTS: &[&str] = &[".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"];
/// What names of files have that extend a script's language: a person knows the script that called them.
pub const EXTENSIONS: &[&str] = &[".cpython-", ".abi3.so", ".node"];
/// How those of a language's own library begin.
pub const RUNTIME_SCRIPTS: &[&str] = &["python3/", "node:"];
/// Paths of functions that say as little.
pub const PLUMBING_PATHS: &[&str] = &[
    "std::",
    "<std::",
    "core::",
    "<core::",
    "alloc::",
    "<alloc::",
    "__gnu_cxx::",
    "parking_lot",
    "<parking_lot",
    "lock_api::",
    "<lock_api::",
    "java.",
    "jdk.",
    "sun.",
    "runtime.",
    "syscall.",
    "sync.",
    "internal/",
    "tokio::",
    "<tokio::",
    "crossbeam",
    "<crossbeam",
    "tpool::",
    "Java_java_",
    "Java_jdk_",
    "Java_sun_",
];
/// Functions of servers on the way to a lock.
pub const PLUMBING: &[&str] = &[
    "WaitEventSetWait",
    "WaitEventSetWaitBlock",
    "WaitLatch",
    "WaitLatchOrSocket",
    "WaitOnLock",
    "LockAcquire",
    "LockAcquireExtended",
    "time.Sleep",
    "ConditionVariableSleep",
    "ConditionVariableTimedSleep",
    "syscall",
    "main",
    "start_thread",
    "_start",
    "clone",
    "clone3",
    "psi_cond_wait",
    "inline_mysql_cond_wait",
    "safe_cond_wait",
    "safe_cond_timedwait",
    "MDL_wait::timed_wait",
    "my_cond_timedwait",
    "my_cond_wait",
    "safe_mutex_lock",
    "psi_mutex_lock",
    "inline_mysql_mutex_lock",
];

/// Every name of every table that functions are looked up in.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    let rows = KINDS.iter().chain(AFTER_PROC_SLEEP).chain(PLAIN).map(|(_, names)| *names);
    let alone = [RUBY_MUTEX, RUBY_RUNS, IDLE, CHILD, WORKER, SLEEP, PLUMBING, &[PROC_SLEEP]];
    rows.chain(alone).flatten().copied()
}
