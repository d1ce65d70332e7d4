//! What a thread waits for, and in which of its program's functions, by its user stack.
//!
//! Owns how what is known of programs (programs/) is read: kinds wherever they are, idle pools only next to the wait, as
//! all that a pool runs has their functions further out, and the plain ways to sleep last. Functions of an engine without
//! names (a stripped server) are known by those around them. Pure.
//!
//! Must not: say who holds a lock (graph/), or guess: what no row names has no kind.

use super::{monitor, session_wait};
use crate::facts::{Ns, ThreadRef, UserFrame};
use crate::model::Model;
use crate::programs::lock_kind::LockKind;
use crate::programs::{self, NamedFrames, is_extension, is_own_library, is_script, java};

/// Frames in which a function of an idle pool is looked for.
const IDLE_FRAMES: usize = 9;

/// Whether a thread of a Java program is parked, and not for want of work.
pub fn is_parked_in_java(frames: &[UserFrame]) -> bool {
    java::is_parked(frames) && kind(frames) != Some(LockKind::Idle)
}

/// What a stack waits for; none if no function of it says.
pub fn kind(frames: &[UserFrame]) -> Option<LockKind> {
    let named = NamedFrames::of(frames);
    if let Some(wanted) = named.wanted_of_a_table() {
        return wanted;
    }
    if named.wants_mutex() {
        return Some(LockKind::Mutex);
    }
    let reported = named.locked();
    if reported == Some(LockKind::Once)
        && let Some(inner) = inside_of_once(frames).and_then(kind)
    {
        return Some(inner);
    }
    // The machine itself holds it up, whatever the program called.
    let by_machine = [LockKind::GarbageCollection, LockKind::Monitor];
    let of_java = java::kind_of_method(frames)
        .filter(|_| reported.is_none_or(|it| !by_machine.contains(&it)));
    if let Some(reported) = of_java.or(reported) {
        return Some(reported);
    }
    if named.idle().is_some_and(|at| at < IDLE_FRAMES) {
        return Some(LockKind::Idle);
    }
    let plain = named.plain();
    if plain == Some(LockKind::Condition) && frames.iter().any(programs::is_engine) {
        return Some(LockKind::RowLock);
    }
    plain
}

/// What is further in than the innermost function that does something once, if the program is there: it is what is done once, and this thread does it.
/// A library's result that is set once may be all that a thread does. Who waits for another to have done it is in libraries alone.
fn inside_of_once(frames: &[UserFrame]) -> Option<&[UserFrame]> {
    let is_once = |frame: &UserFrame| {
        NamedFrames::of(std::slice::from_ref(frame)).locked() == Some(LockKind::Once)
    };
    let inner = &frames[..frames.iter().position(is_once)?];
    inner.iter().any(|frame| !is_plumbing(frame)).then_some(inner)
}

/// Whether a thread wants a mutex that another has. It sleeps in a call of its runtime's choice, which says nothing.
pub fn wants_mutex(frames: &[UserFrame]) -> bool {
    NamedFrames::of(frames).wants_mutex()
}

/// Whether it waits for a child that it began, in a loop of events for that alone.
pub fn waits_for_child(frames: &[UserFrame]) -> bool {
    NamedFrames::of(frames).has_child_loop() || frames.iter().any(programs::waits_for_child_in)
}

/// Whether whoever has this stack is held up by who has a lock, and does not wait for work. Of a lock of Python's, or a word
/// of JavaScript's: if the program's own function asked for it, and not one of the language's queues and pools, in its own
/// language or in another, or a worker; and if it waits until it has it: who gives up after a time, and looks again, waits for
/// work as often as for a lock.
pub fn is_held_up(frames: &[UserFrame], is_timed: bool) -> bool {
    match kind(frames) {
        Some(LockKind::ProgramLock) => {
            let inner = frames.iter().position(|frame| is_script(frame) || is_own_library(frame));
            let is_own = inner.is_some_and(|at| {
                !is_own_library(&frames[at]) && !frames[..at].iter().any(is_extension)
            });
            !is_timed && is_own && !NamedFrames::of(frames).is_worker()
        }
        Some(kind) => kind.holds_up(),
        None => false,
    }
}

/// Whether it lets time pass: a virtual machine sleeps in a condition that nobody signals.
pub fn sleeps(frames: &[UserFrame]) -> bool {
    NamedFrames::of(frames).sleeps() || java::sleeps_in_method(frames)
}

/// The function of the program that waits: the first that is neither the C library's, nor a runtime's, nor one of those
/// above.
pub fn function(frames: &[UserFrame]) -> Option<&str> {
    frame(frames).map(|frame| frame.function.as_str())
}

/// Whether two threads stand in the function with which both were begun, and in no other of the program's: further in there are libraries alone. That
/// function may have been made a part of the library's that begins threads.
pub fn part_where_they_began(one: &[UserFrame], other: &[UserFrame]) -> bool {
    let is_same =
        |(a, b): &(&UserFrame, &UserFrame)| (&a.function, &a.module) == (&b.function, &b.module);
    let common = one.iter().rev().zip(other.iter().rev()).take_while(is_same).count();
    let inner = |frames: &[UserFrame]| frames[..frames.len() - common].iter().all(is_plumbing);
    let outer = &one[one.len() - common..];
    let is_named = outer.iter().any(|frame| !frame.function.is_empty());
    let own = outer.iter().filter(|frame| !is_plumbing(frame)).count();
    is_named && own <= 1 && inner(one) && inner(other)
}

/// It is no function that a person knows.
fn is_plumbing(frame: &UserFrame) -> bool {
    if is_script(frame) {
        // The queue of a library of its own.
        let is_method = frame.function.contains('.');
        return is_own_library(frame) || is_method && programs::is_known(frame);
    }
    frame.function.is_empty() || programs::is_library(frame) || programs::is_known(frame)
}

/// The frame of that function.
pub fn frame(frames: &[UserFrame]) -> Option<&UserFrame> {
    let known = || frames.iter().filter(|frame| !is_plumbing(frame));
    // Of a language that tells lines the program's own comes before what its interpreter or a library calls for it.
    let own = known().find(|frame| frame.line != 0);
    own.or_else(|| known().find(|frame| !is_extension(frame))).or_else(|| known().next())
}

/// The kind of lock that a thread waited for within a time, if its stack was read and says so, or its machine, or its server.
pub fn lock_kind_of(model: &Model, thread: &ThreadRef, from: Ns, to: Ns) -> Option<LockKind> {
    if monitor::is_waited_for(model, thread, from, to) {
        return Some(LockKind::Monitor);
    }
    let by_server = session_wait::kind_of(model, thread, from, to);
    if by_server.is_some() {
        return by_server;
    }
    kind(&model.user_stack(thread, from, to)?.frames)
}

/// Whether a thread waited within a time for a lock that its language's own library took for it, as far as its stack tells: a queue's, or that of
/// a pool's worker without a task.
pub fn is_of_own_library(model: &Model, thread: &ThreadRef, from: Ns, to: Ns) -> bool {
    let stack = model.user_stack(thread, from, to);
    stack.is_some_and(|stack| {
        kind(&stack.frames) == Some(LockKind::ProgramLock) && !is_held_up(&stack.frames, false)
    })
}

/// Whether a thread of a Java program was parked within a time, and not for want of work.
pub fn parked_in_java(model: &Model, thread: &ThreadRef, from: Ns, to: Ns) -> bool {
    let stack = model.user_stack(thread, from, to);
    stack.is_some_and(|stack| is_parked_in_java(&stack.frames))
}

/// The function of its program in which a thread waited within a time.
pub fn function_of<'m>(model: &'m Model, thread: &ThreadRef, from: Ns, to: Ns) -> Option<&'m str> {
    function(&model.user_stack(thread, from, to)?.frames)
}

/// The method in which a thread waits to enter a monitor within a time: by its stack, or by that of another piece of such a wait
/// in the look, if it was never seen to wait for another monitor.
pub fn method_of<'m>(model: &'m Model, thread: &ThreadRef, from: Ns, to: Ns) -> Option<&'m str> {
    let at_once = function_of(model, thread, from, to);
    at_once.or_else(|| {
        let mut read = monitor::readings(model, thread, model.look.begin_ns, model.look.end_ns);
        let (_, first) = read.next()?;
        let stack = model.user_stack(thread, model.look.begin_ns, model.look.end_ns)?;
        let is_its = kind(&stack.frames) == Some(LockKind::Monitor);
        let is_one = is_its && read.all(|(_, other)| other.monitor == first.monitor);
        is_one.then(|| function(&stack.frames))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, MonitorWait, MonitorWaits, UserStack, WindowEnd};

    fn frames(text: &str) -> Vec<UserFrame> {
        let frame = |text: &str| {
            let (function, module) = text.split_once('@').unwrap_or((text, "app"));
            UserFrame {
                function: function.trim().into(),
                module: module.into(),
                ..UserFrame::default()
            }
        };
        text.split(" < ").map(frame).collect()
    }

    /// Stacks as real programs have them, shortened, with the kind and the function that a person knows.
    const READ: &[(&str, Option<LockKind>, Option<&str>)] = &[
        (
            "__lll_lock_wait @libc.so.6 < ___pthread_mutex_lock @libc.so.6 < transfer < worker < start_thread @libc.so.6",
            Some(LockKind::Mutex),
            Some("transfer"),
        ),
        (
            "@libc.so.6 < __pthread_cond_wait @libc.so.6 < take_job < start_thread @libc.so.6",
            Some(LockKind::Condition),
            Some("take_job"),
        ),
        ("@libc.so.6 < sem_wait @libc.so.6 < feed", Some(LockKind::Semaphore), Some("feed")),
        (
            "@libc.so.6 < __pthread_clockjoin_ex @libc.so.6 < pthread_join @libc.so.6 < finish",
            Some(LockKind::Join),
            Some("finish"),
        ),
        (
            "__pthread_rwlock_wrlock @libc.so.6 < update_index",
            Some(LockKind::Rwlock),
            Some("update_index"),
        ),
        (
            "syscall @libc.so.6 < std::sys::sync::mutex::futex::Mutex::lock_contended < app::store::put < app::main",
            Some(LockKind::Mutex),
            Some("app::store::put"),
        ),
        (
            "syscall < <std::sys::sync::mutex::futex::Mutex>::lock_contended < app::put",
            Some(LockKind::Mutex),
            Some("app::put"),
        ),
        (
            "syscall < parking_lot::raw_rwlock::RawRwLock::lock_exclusive_slow < app::put",
            Some(LockKind::Rwlock),
            Some("app::put"),
        ),
        (
            "@libc.so.6 < pthread_cond_timedwait @libc.so.6 < @python3.11 < PyEval_RestoreThread @python3.11 < @python3.11",
            Some(LockKind::InterpreterLock),
            None,
        ),
        (
            "@libc.so.6 < sem_clockwait @libc.so.6 < PyThread_acquire_lock_timed @python3.11 < @python3.11 < _PyEval_EvalFrameDefault @python3.11",
            Some(LockKind::ProgramLock),
            None,
        ),
        (
            "sem_clockwait @libc.so.6 < PyThread_acquire_lock_timed @python3.11 < @python3.11 < Cart.add @shop.py < handle @app.py < _PyEval_EvalFrameDefault @python3.11",
            Some(LockKind::ProgramLock),
            Some("Cart.add"),
        ),
        (
            "sem_clockwait @libc.so.6 < PyThread_acquire_lock_timed @python3.11 < Condition.wait @python3/threading.py < Queue.get @python3/queue.py < next_job @jobs.py",
            Some(LockKind::Channel),
            Some("next_job"),
        ),
        (
            "epoll_wait @libc.so.6 < WaitEventSetWait @postgres < WaitLatch @postgres < ProcSleep @postgres < @postgres < LockAcquireExtended @postgres < XactLockTableWait @postgres < heap_update @postgres < ExecModifyTable @postgres",
            Some(LockKind::RowLock),
            Some("heap_update"),
        ),
        (
            "epoll_wait @libc.so.6 < WaitLatch @postgres < ProcSleep @postgres < LockAcquireExtended @postgres < LockRelationOid @postgres < RangeVarGetRelidExtended @postgres",
            Some(LockKind::TableLock),
            Some("RangeVarGetRelidExtended"),
        ),
        (
            "@libc.so.6 < sem_wait @libc.so.6 < PGSemaphoreLock @postgres < LWLockAcquire @postgres < ReadBuffer_common @postgres",
            Some(LockKind::ServerLock),
            Some("ReadBuffer_common"),
        ),
        (
            "epoll_wait @libc.so.6 < WaitEventSetWait @postgres < secure_read @postgres < PostgresMain @postgres",
            Some(LockKind::Idle),
            Some("PostgresMain"),
        ),
        (
            "pthread_cond_timedwait @libc.so.6 < MDL_wait::timed_wait @mariadbd < MDL_context::acquire_lock @mariadbd < open_table @mariadbd",
            Some(LockKind::MetadataLock),
            Some("open_table"),
        ),
        (
            "pthread_cond_timedwait @libc.so.6 < MDL_wait::timed_wait @mariadbd < MDL_context::acquire_lock @mariadbd < Item_func_get_lock::val_int @mariadbd < do_select @mariadbd",
            Some(LockKind::AdvisoryLock),
            Some("do_select"),
        ),
        (
            "pthread_cond_timedwait @libc.so.6 < @mariadbd < @mariadbd < handler::ha_update_row @mariadbd < mysql_update @mariadbd",
            Some(LockKind::RowLock),
            Some("handler::ha_update_row"),
        ),
        (
            "pthread_cond_wait @libc.so.6 < Monitor::wait @libjvm.so < PlatformEvent::park @libjvm.so < ObjectMonitor::EnterI @libjvm.so < ObjectMonitor::enter @libjvm.so",
            Some(LockKind::Monitor),
            None,
        ),
        (
            "pthread_cond_wait @libc.so.6 < Parker::park @libjvm.so < Unsafe_Park @libjvm.so",
            Some(LockKind::Park),
            None,
        ),
        (
            "pthread_cond_wait @libc.so.6 < ObjectMonitor::enter @libjvm.so < made @libjvm.so < shop.Till.take @Till.java < Thread.run @jdk/Thread.java",
            Some(LockKind::Monitor),
            Some("shop.Till.take"),
        ),
        (
            "Parker::park @libjvm.so < Unsafe_Park @libjvm.so < Unsafe.park @jdk/Unsafe.java < LockSupport.park @jdk/LockSupport.java < ReentrantLock.lock @jdk/ReentrantLock.java < Shop.buy @Shop.java",
            Some(LockKind::Mutex),
            Some("Shop.buy"),
        ),
        (
            "Parker::park @libjvm.so < Unsafe.park @jdk/ < ReentrantLock.lockInterruptibly @jdk/ < LinkedBlockingQueue.take @jdk/ < ThreadPoolExecutor.getTask @jdk/",
            Some(LockKind::Mutex),
            None,
        ),
        (
            "Parker::park @libjvm.so < Unsafe.park @jdk/Unsafe.java < LinkedBlockingQueue.take @jdk/LinkedBlockingQueue.java < ThreadPoolExecutor.getTask @jdk/ThreadPoolExecutor.java < Thread.run @jdk/Thread.java",
            Some(LockKind::Idle),
            None,
        ),
        (
            "Unsafe_Park @libjvm.so < Unsafe.park @jdk/ < LinkedBlockingQueue.take @jdk/ < org.web.TaskQueue.take @TaskQueue.java < org.web.ThreadPoolExecutor.getTask @ThreadPoolExecutor.java",
            Some(LockKind::Idle),
            Some("org.web.TaskQueue.take"),
        ),
        (
            "Parker::park @libjvm.so < Unsafe.park @jdk/ < ArrayBlockingQueue.take @jdk/ < Shop.next @Shop.kt < FutureTask.run @jdk/ < ThreadPoolExecutor.runWorker @jdk/",
            Some(LockKind::Channel),
            Some("Shop.next"),
        ),
        (
            "Parker::park @libjvm.so < Unsafe.park @jdk/ < Semaphore.acquire @jdk/ < Shop.sit @Shop.java",
            Some(LockKind::Semaphore),
            Some("Shop.sit"),
        ),
        (
            "Parker::park @libjvm.so < Unsafe.park @jdk/ < CompletableFuture.get @jdk/ < Shop.future @Shop.java",
            Some(LockKind::Condition),
            Some("Shop.future"),
        ),
        (
            "ObjectMonitor::wait @libjvm.so < Object.wait @jdk/Object.java < Thread.join @jdk/Thread.java < Shop.join @Shop.java",
            Some(LockKind::Join),
            Some("Shop.join"),
        ),
        (
            "read @libc.so.6 < Java_sun_nio_ch_SocketDispatcher_read0 @libnio.so < SocketDispatcher.read0 @jdk/SocketDispatcher.java < own.Semaphore.acquire @Semaphore.java",
            None,
            Some("own.Semaphore.acquire"),
        ),
        (
            "pthread_cond_wait @libc.so.6 < Monitor::wait @libjvm.so < Threads::destroy_vm @libjvm.so < jni_DestroyJavaVM @libjvm.so < JavaMain @libjli.so",
            Some(LockKind::Idle),
            None,
        ),
        (
            "syscall @libc.so.6 < ethr_event_twait @beam.smp < @beam.smp < erts_schedule @beam.smp",
            Some(LockKind::Idle),
            None,
        ),
        (
            "epoll_pwait @libc.so.6 < uv__io_poll @libuv.so.1 < uv_run @libuv.so.1 < node::SpinEventLoop @node",
            Some(LockKind::Idle),
            None,
        ),
        (
            "@libc.so.6 < pthread_cond_wait @libc.so.6 < node::PlatformWorkerThread @node",
            Some(LockKind::Idle),
            None,
        ),
        (
            "runtime.futex < runtime.futexsleep < runtime.notesleep < runtime.stopm < runtime.findRunnable",
            Some(LockKind::Idle),
            None,
        ),
        (
            "read @libc.so.6 < uv__fs_work @node < uv_fs_read @node < Builtins_CallApiCallback @node < readSync @node:fs < load @node-config.js < main @server.mjs",
            None,
            Some("load"),
        ),
        (
            "poll @libc.so.6 < select_poll_poll @select.cpython-311-x86_64-linux-gnu.so < select @python3/selectors.py < build @make.py",
            None,
            Some("build"),
        ),
        ("poll @libc.so.6 < pq_wait @_pq.abi3.so", None, Some("pq_wait")),
        ("epoll_pwait @libc.so.6 < recv @node:net < main @tool.ts", None, Some("main")),
        (
            "pthread_cond_timedwait @libc.so.6 < v8::internal::FutexEmulation::WaitSync @node < waitForTurn @turns.js",
            Some(LockKind::ProgramLock),
            Some("waitForTurn"),
        ),
        ("nanosleep @libc.so.6 < pause_for_a_while", None, Some("pause_for_a_while")),
        ("read @libc.so.6 < @app", None, None),
    ];

    #[test]
    fn a_mutex_of_rubys_is_wanted_until_it_is_had() {
        let wants = "ppoll @libc.so.6 < @libruby.so < @libruby.so < rb_mutex_synchronize @libruby.so < rb_vm_exec @libruby.so";
        assert_eq!(kind(&frames(wants)), Some(LockKind::Mutex));
        let has = "ppoll @libc.so.6 < @libruby.so < rb_ensure @libruby.so < rb_mutex_synchronize @libruby.so";
        assert_eq!(kind(&frames(has)), None);
    }

    #[test]
    fn stacks_that_were_read_say_their_kind_and_where() {
        for (text, wanted, place) in READ {
            let frames = frames(text);
            assert_eq!((kind(&frames), function(&frames)), (*wanted, *place), "{text}");
        }
    }

    #[test]
    fn what_is_done_once_waits_for_what_it_does_itself() {
        let run = "std::__future_base::_State_baseV2::_M_do_set < pthread_once @libc.so.6 < std::call_once < start_thread @libc.so.6";
        let kind = |inner: &str| kind(&frames(&format!("{inner} < {run}")));
        let waits = "@libc.so.6 < pthread_cond_wait @libc.so.6 < consumer";
        assert_eq!(kind(waits), Some(LockKind::Condition));
        assert_eq!(kind("@libc.so.6 < pthread_join @libc.so.6 < finish"), Some(LockKind::Join));
        let another = frames("@libc.so.6 < pthread_once @libc.so.6 < std::call_once < setup");
        assert_eq!(super::kind(&another), Some(LockKind::Once), "another does it");
    }

    #[test]
    fn who_has_something_for_a_queue_waits_for_room() {
        for stack in [
            "syscall @libc.so.6 < <std::thread::thread::Thread>::park < std::sync::mpmc::array::Channel<T>::send < std::sync::mpsc::SyncSender<T>::send < app::main",
            "sem_wait @libc.so.6 < PyThread_acquire_lock_timed @python3.11 < Condition.wait @python3/threading.py < Queue.put @python3/queue.py < feed @jobs.py",
            "Parker::park @libjvm.so < Unsafe.park @jdk/Unsafe.java < ArrayBlockingQueue.put @jdk/ArrayBlockingQueue.java < Shop.main @Shop.java",
        ] {
            assert_eq!(kind(&frames(stack)), Some(LockKind::MessageRoom), "{stack}");
        }
    }

    #[test]
    fn a_critical_section_is_a_mutex() {
        let waits = "GOMP_critical_start @libgomp.so.1.0.0 < main._omp_fn.0 < @libgomp.so.1.0.0";
        let waits = frames(waits);
        assert_eq!(
            (kind(&waits), function(&waits)),
            (Some(LockKind::Mutex), Some("main._omp_fn.0"))
        );
    }

    #[test]
    fn the_programs_own_function_comes_before_what_is_called_for_it() {
        let mut stack = frames(
            "accept @libc.so.6 < sock_accept @python3.11 < PQexec @libpq.so.5 < query @shop.py",
        );
        assert_eq!(function(&stack), Some("PQexec"), "no lines: another language");
        stack[3].line = 12;
        assert_eq!(function(&stack), Some("query"));
    }

    #[test]
    fn methods_of_python_before_3_11_are_known_by_their_file() {
        let lock = "sem_wait @libc.so.6 < PyThread_acquire_lock_timed @libpython3.9.so.1.0 < ";
        let kind = |rest: &str| kind(&frames(&format!("{lock}{rest}")));
        let queue = "wait @python3/threading.py < get @python3/queue.py < work @jobs.py";
        assert_eq!(kind(queue), Some(LockKind::Channel));
        assert_eq!(kind("wait @python3/threading.py < work @jobs.py"), Some(LockKind::Condition));
        let join = "_wait_for_tstate_lock @python3/threading.py < join @python3/threading.py";
        assert_eq!(kind(join), Some(LockKind::Join));
        assert_eq!(kind("get @jobs.py"), Some(LockKind::ProgramLock));
    }

    #[test]
    fn a_lock_of_pythons_holds_up_who_asked_for_it_himself() {
        let lock = "sem_wait @libc.so.6 < PyThread_acquire_lock_timed @python3.11 < ";
        let up = |rest: &str| is_held_up(&frames(&format!("{lock}{rest}")), false);
        assert!(up("Cart.add @shop.py < <module> @shop.py"));
        assert!(!up("_worker @python3/thread.py < Thread.run @python3/threading.py"));
        assert!(!up("_PyEval_EvalFrameDefault @python3.12"), "another release: not known");
        assert!(is_held_up(&frames("ObjectMonitor::enter @libjvm.so"), false));
        assert!(!is_held_up(&frames("pthread_cond_wait @libc.so.6 < take_job"), false));
    }

    #[test]
    fn who_gives_up_after_a_time_or_waits_in_a_queue_of_an_extension_waits_for_work() {
        let lock = "sem_clockwait @libc.so.6 < PyThread_acquire_lock_timed @python3.11 < ";
        let up = |rest: &str, is_timed| is_held_up(&frames(&format!("{lock}{rest}")), is_timed);
        assert!(up("@python3.11 < Cart.add @shop.py", false));
        assert!(!up("@python3.11 < Cart.add @shop.py", true));
        let queue = "@_queue.cpython-311-x86_64-linux-gnu.so < @python3.11 < next_job @jobs.py";
        assert!(!up(queue, false));
        let linked_in = "_queue_SimpleQueue_get @python3.13 < next_job @jobs.py";
        assert_eq!(kind(&frames(&format!("{lock}{linked_in}"))), Some(LockKind::Channel));
        assert!(is_held_up(&frames("pthread_mutex_timedlock @libc.so.6 < pay"), true));
    }

    #[test]
    fn a_word_of_javascripts_holds_up_who_is_no_worker() {
        let up = |rest: &str| {
            is_held_up(&frames(&format!("FutexEmulation::WaitSync @node < {rest}")), false)
        };
        assert!(up("waitForTurn @turns.js < <module> @turns.js < node::Start @node"));
        assert!(!up("next @pool.js < <module> @pool.js < node::worker::Worker::Run @node"));
        assert!(!up("wait @node:internal/worker < waitForTurn @turns.js"));
        assert!(!up("Builtins_JSEntry @node"), "no function of a script");
    }

    #[test]
    fn a_loop_for_a_child_alone_waits_for_that_child() {
        let within = "epoll_pwait @libc.so.6 < uv__io_poll @node < uv_run @node < ";
        let waits = |rest: &str| waits_for_child(&frames(&format!("{within}{rest}")));
        assert!(waits("node::SyncProcessRunner::Spawn @node < execSync @node:child_process"));
        assert!(waits_for_child(&frames("@libc.so.6 < @node < spawnSync @node:child_process")));
        assert!(!waits("spawnSync @tasks.js"), "a function of that name");
        assert!(!waits("node::SpinEventLoopInternal @node"));
    }

    #[test]
    fn a_sleep_of_a_virtual_machine_is_one() {
        let park = "pthread_cond_timedwait @libc.so.6 < os::PlatformEvent::park @libjvm.so < ";
        assert!(sleeps(&frames(&format!(
            "{park}JavaThread::sleep @libjvm.so < JVM_Sleep @libjvm.so"
        ))));
        assert!(!sleeps(&frames(&format!("{park}ObjectMonitor::enter @libjvm.so"))));
    }

    #[test]
    fn a_thread_of_java_is_parked_for_somebody_unless_it_waits_for_work() {
        let parked = |rest: &str| {
            is_parked_in_java(&frames(&format!("Unsafe.park @jdk/Unsafe.java < {rest}")))
        };
        assert!(parked("Shop.spin @Shop.java") && parked("CountDownLatch.await @jdk/"));
        assert!(!parked("ForkJoinPool.awaitWork @jdk/") && !is_parked_in_java(&[]));
        assert!(is_held_up(&frames("Unsafe.park @jdk/ < ReentrantLock.lock @jdk/"), false));
        assert!(sleeps(&frames("clock @libjvm.so < Thread.sleep @jdk/ < Shop.rest @Shop.java")));
        assert!(!sleeps(&frames("Shop.rest @Shop.java < Thread.sleep @jdk/Thread.java")));
    }

    #[test]
    fn what_a_pool_runs_is_not_idle_for_the_pool_further_out() {
        let deep = ["pthread_cond_wait @libc.so.6"; 1]
            .into_iter()
            .chain(["app::call"; 10])
            .chain(["tokio::runtime::Context::park_internal"])
            .collect::<Vec<_>>()
            .join(" < ");
        assert_eq!(kind(&frames(&deep)), Some(LockKind::Condition));
    }

    #[test]
    fn the_method_of_one_piece_is_that_of_all_pieces_for_the_same_monitor() {
        const MS: Ns = 1_000_000;
        let function = |other: u64| {
            let read = |at_ms: u64, monitor: u64| Fact {
                at_ns: at_ms * MS,
                body: Body::MonitorWaits(MonitorWaits {
                    pid: 5,
                    waits: vec![MonitorWait { waiter_tid: 7, owner_tid: 8, monitor }],
                }),
            };
            let thread = ThreadRef { tid: 7, pid: 5, ..ThreadRef::default() };
            let stack = UserStack {
                thread: thread.clone(),
                since_ns: 400 * MS,
                frames: frames("ObjectMonitor::enter @libjvm.so < Shop.order @Shop.java"),
                ..UserStack::default()
            };
            let stack = Fact { at_ns: 500 * MS, body: Body::UserStack(stack) };
            let end = Fact { at_ns: 3000 * MS, body: Body::WindowEnd(WindowEnd::default()) };
            let model = Model::new(vec![stack, read(600, 1), read(2000, other), end]);
            method_of(&model, &thread, 1800 * MS, 2100 * MS).map(str::to_string)
        };
        assert_eq!(function(1).as_deref(), Some("Shop.order"));
        assert_eq!(function(2), None, "it waited for another one meanwhile");
    }

    #[test]
    fn a_worker_without_a_task_waits_for_a_lock_of_its_library() {
        let of_library = |rest: &str| {
            let lock = "sem_wait @libc.so.6 < PyThread_acquire_lock_timed @python3.11 < ";
            let thread = ThreadRef { tid: 7, pid: 5, ..ThreadRef::default() };
            let frames = frames(&format!("{lock}{rest}"));
            let stack = UserStack { thread: thread.clone(), frames, ..UserStack::default() };
            let model = Model::new(vec![Fact { at_ns: 9, body: Body::UserStack(stack) }]);
            is_of_own_library(&model, &thread, 1, 9)
        };
        let queue = "@_queue.cpython-311-x86_64-linux-gnu.so < @python3.11 < ";
        assert!(of_library(&format!("{queue}_worker @python3/thread.py")));
        assert!(!of_library("Cart.add @shop.py < <module> @shop.py"));
    }
}
