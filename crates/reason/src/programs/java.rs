//! Java: the machine's own threads, its locks by its functions, and the locks of Java's own classes by their methods.
//!
//! A machine gives its own threads names, which the kernel cuts. Names of functions were read of JDK 17 and 21, and else are those of the sources; methods of Java's own stand
//! below a folder that the reader of stacks gives them (`jdk/`). Other runtimes of the machine's languages end their files as theirs do.

use super::command_line::CommandLine;
use super::function_path::is_one_of;
use super::lock_kind::LockKind;
use super::program::{AwaitedTask, Files, Functions, PoolWorker, Program};
use crate::facts::UserFrame;

/// See the head of the file.
pub static JAVA: Program = Program {
    names: &["java"],
    functions: Functions {
        locks: &[
            (
                LockKind::GarbageCollection,
                &[
                    "SafepointSynchronize::block",
                    "SafepointMechanism::process",
                    "VMThread::wait_until_executed",
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
        ],
        idle: &[
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
            // Its main method has ended, and others go on.
            "Threads::destroy_vm",
        ],
        sleeps: &["JavaThread::sleep", "JavaThread::sleep_nanos", "JVM_Sleep", "JVM_SleepNanos"],
        pools: &[
            PoolWorker {
                runs: "ThreadPoolExecutor.runWorker",
                rests: &["ThreadPoolExecutor.getTask"],
                ..PoolWorker::UNKNOWN
            },
            PoolWorker {
                runs: "QueuedThreadPool$Runner.run",
                rests: &["QueuedThreadPool.idleJobPoll", "QueuedThreadPool$Runner.idleJobPoll"],
                ..PoolWorker::UNKNOWN
            },
            PoolWorker {
                runs: "ForkJoinPool.runWorker",
                rests: &[
                    "ForkJoinPool.awaitWork",
                    // Of 25, which calls it there.
                    "ForkJoinPool.deactivate",
                    "LockSupport.park",
                    "LockSupport.parkUntil",
                    "Unsafe.park",
                ],
                ..PoolWorker::UNKNOWN
            },
        ],
        tasks: &[
            AwaitedTask {
                waits: &[("FutureTask.awaitDone", "")],
                by: &[("FutureTask.run", "")],
                ended_in: &[],
                is_anybodys: false,
            },
            AwaitedTask {
                waits: &[("CompletableFuture.waitingGet", ""), ("CompletableFuture.timedGet", "")],
                by: &[
                    ("CompletableFuture$AsyncSupply.run", ""),
                    ("CompletableFuture$AsyncRun.run", ""),
                ],
                ended_in: &[],
                is_anybodys: true,
            },
            AwaitedTask {
                waits: &[("ForkJoinTask.awaitDone", "")],
                by: &[("ForkJoinTask.doExec", "")],
                ended_in: &[],
                is_anybodys: false,
            },
        ],
        // HikariCP, Commons Pool 2 (DBCP, Jedis), c3p0, Tomcat's pool, Druid.
        connections: &[
            "HikariPool.getConnection",
            "GenericObjectPool.borrowObject",
            "BasicResourcePool.awaitAvailable",
            "ConnectionPool.borrowConnection",
            "DruidDataSource.takeLast",
            "DruidDataSource.pollLast",
        ],
        // The agent jdwp with suspend=y.
        debugger: &["transport_waitForConnection"],
        ..Functions::NONE
    },
    files: Files {
        plumbing: &["libjvm.", "libjli.", "libjava.", "libnio.", "libnet.", OWN],
        plumbing_paths: &["java.", "jdk.", "sun.", "Java_java_", "Java_jdk_", "Java_sun_"],
        ..Files::NONE
    },
    question: Some(|_, pid| format!("jcmd {pid} Thread.print")),
    command_line: Some(CommandLine {
        commands: &["java"],
        with_value: &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--add-modules",
            "--add-opens",
            "--add-exports",
            "--add-reads",
        ],
        names_it: &["-jar", "-m", "--module"],
        letters_together: false,
        is_class: true,
        ..CommandLine::SCRIPT
    }),
    ..Program::UNKNOWN
};

/// The command that says how full a machine's heap is.
pub fn heap_question(pid: u32) -> String {
    format!("jcmd {pid} GC.heap_info")
}

/// The thread that each machine has: it stops the others.
const MACHINE: &str = "VM Thread";
/// Threads that collect while the others stand: of the serial, parallel and G1 collectors since JDK 9, and of JDK 8.
const WORKERS: &[&str] = &["GC Thread#", "ParGC Thread#", "GC task thread#"];
/// Threads that mark, refine and move while the others run.
const BEHIND: &[&str] =
    &["G1 Conc#", "G1 Main Marker", "G1 Refine#", "ZWorker", "ZDriver", "Shenandoah GC T"];
/// Others that compile, collect and look after the machine.
const OTHERS: &[&str] = &[
    "VM Periodic Tas",
    "C1 CompilerThre",
    "C2 CompilerThre",
    "Sweeper thread",
    "Monitor Deflati",
    "Reference Handl",
    "Finalizer",
    "Common-Cleaner",
    "Signal Dispatch",
    "Service Thread",
    "Notification Th",
    "Attach Listener",
    "G1 ",
    "Shenandoah",
];

/// What a thread of a machine's own does; it serves nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnThread {
    /// Carries out collections: all threads of the program stand meanwhile.
    Machine,
    /// Collects while the others stand.
    Collects,
    /// Marks, refines or moves while the others run.
    Marks,
    /// Looks after something else of the machine.
    Other,
}

/// Threads that wait for descriptors on behalf of virtual threads, whose own waits no thread shows.
const POLLERS: &[&str] = &["MasterPoller", "Read-Poller", "Write-Poller"];

/// Whether a thread by that name waits for what virtual threads wait for.
pub fn polls_for_others(comm: &str) -> bool {
    POLLERS.iter().any(|name| comm.starts_with(name)) || comm.starts_with("VirtualThread-u")
}

/// Whether a thread by that name makes its process a machine.
pub fn is_machine(comm: &str) -> bool {
    comm == MACHINE
}

/// What a thread of a machine does, by its name; none of the program's.
pub fn own_thread(comm: &str) -> Option<OwnThread> {
    let begins = |names: &[&str]| names.iter().any(|name| comm.starts_with(name));
    match () {
        () if begins(&[MACHINE]) => Some(OwnThread::Machine),
        () if begins(WORKERS) => Some(OwnThread::Collects),
        () if begins(BEHIND) => Some(OwnThread::Marks),
        () if begins(OTHERS) => Some(OwnThread::Other),
        () => None,
    }
}

/// The folder that methods of Java's own classes stand under.
const OWN: &str = "jdk/";
/// What source files of the machine's languages end in.
const SOURCES: &[&str] = &[".java", ".kt", ".scala", ".groovy", ".clj"];
/// How a thread stands parked, by the method or by the machine's function.
const PARKS: &[&str] = &["Unsafe.park", "Unsafe_Park", "Parker::park"];
/// The method of Java's own that lets time pass.
const SLEEP: &str = "Thread.sleep";
/// Methods of Java's own that say the kind, where the program called them, in the order in which one runs inside another.
const KINDS: &[(LockKind, &[&str])] = &[
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
        LockKind::MessageRoom,
        &[
            "ArrayBlockingQueue.put",
            "ArrayBlockingQueue.offer",
            "LinkedBlockingQueue.put",
            "LinkedBlockingQueue.offer",
            "LinkedBlockingDeque.putFirst",
            "LinkedBlockingDeque.putLast",
            "LinkedBlockingDeque.offerFirst",
            "LinkedBlockingDeque.offerLast",
            "SynchronousQueue.put",
            "SynchronousQueue.offer",
            "LinkedTransferQueue.transfer",
        ],
    ),
    (
        LockKind::Channel,
        &[
            "ArrayBlockingQueue.take",
            "ArrayBlockingQueue.poll",
            "LinkedBlockingQueue.take",
            "LinkedBlockingQueue.poll",
            "LinkedBlockingDeque.takeFirst",
            "LinkedBlockingDeque.takeLast",
            "LinkedBlockingDeque.pollFirst",
            "LinkedBlockingDeque.pollLast",
            "PriorityBlockingQueue.take",
            "PriorityBlockingQueue.poll",
            "SynchronousQueue.take",
            "SynchronousQueue.poll",
            "LinkedTransferQueue.take",
            "LinkedTransferQueue.poll",
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
const POOLS: &[&str] = &["ThreadPoolExecutor.getTask", "QueuedThreadPool.idleJobPoll"];
/// See [`POOLS`].
const POOL_FRAMES: usize = 3;

fn is_own(frame: &UserFrame) -> bool {
    frame.module.starts_with(OWN)
}

/// Of a program in one of the machine's languages. What it calls its own says nothing of functions of other languages.
pub fn is_a_method(frame: &UserFrame) -> bool {
    is_own(frame) || SOURCES.iter().any(|end| frame.module.ends_with(end))
}

/// Methods of Java's own that a thread is in, up to the one that the program called, and all that is further out; none where
/// the program's own method is the innermost.
fn own_methods(frames: &[UserFrame]) -> Option<(&[UserFrame], &[UserFrame])> {
    let begin = frames.iter().position(is_own)?;
    let (native, methods) = frames.split_at(begin);
    let length = methods.iter().take_while(|frame| is_own(frame)).count();
    native.iter().all(|frame| frame.module.contains(".so")).then(|| methods.split_at(length))
}

/// What a thread waits for by the methods of Java's own.
pub fn kind_of_method(frames: &[UserFrame]) -> Option<LockKind> {
    let (own, outer) = own_methods(frames)?;
    let has = |names: &[&str]| own.iter().any(|frame| names.contains(&frame.function.as_str()));
    let known = KINDS.iter().find(|(_, names)| has(names)).map(|(kind, _)| *kind);
    let near = own.iter().chain(outer.iter().take(POOL_FRAMES));
    let pool = || near.clone().any(|frame| is_one_of(&frame.function, POOLS));
    match known {
        Some(kind) if kind.is_held() => Some(kind),
        _ if pool() => Some(LockKind::Idle),
        known => known,
    }
}

/// Whether a thread is parked, for whatever.
pub fn is_parked(frames: &[UserFrame]) -> bool {
    frames.iter().any(|frame| PARKS.contains(&frame.function.as_str()))
}

/// Whether a thread lets time pass in a method of Java's own.
pub fn sleeps_in_method(frames: &[UserFrame]) -> bool {
    own_methods(frames).is_some_and(|(own, _)| own.iter().any(|it| it.function == SLEEP))
}
