//! Threads of a pool inside a program, by their stacks: whether one has a task in hand, or rests.
//!
//! Owns how the rows of programs are read: the function that takes tasks, and what it has called. Must not: count a pool (waits/pools.rs).
//! Rejected: the kind of lock at which a thread stands, as tasks wait at queues too.

use super::all::ALL;
use super::function_path::is_one_of;
use super::program::{AwaitedTask, PoolWorker};
use super::{cpython, is_extension, is_library, is_own_library, is_script, java};
use crate::facts::UserFrame;
use std::sync::LazyLock;

/// The rows of all programs: few have one, and each frame of each stack is held against them.
static WORKERS: LazyLock<Vec<&PoolWorker>> =
    LazyLock::new(|| ALL.iter().flat_map(|it| it.functions.pools).collect());

/// What a thread of a pool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPool {
    /// It has a task in hand.
    Task,
    /// It waits for one.
    Rest,
}

/// What a thread with this stack, the innermost frame first, does in the pool of which it is, and what is known of that; none if it is of none.
pub fn in_pool(frames: &[UserFrame]) -> Option<(InPool, &'static PoolWorker)> {
    let (called, row) = worker(frames)?;
    let rests = called.is_none_or(|it| is_one_of(name(it), row.rests));
    Some((if rests { InPool::Rest } else { InPool::Task }, row))
}

/// Whether a thread with this stack stands in the function in which one of a pool takes its next task: not one of which no such function was read, as a
/// task may well be machine code.
pub fn takes_next_task(frames: &[UserFrame]) -> bool {
    worker(frames).is_some_and(|(called, row)| {
        called.is_some_and(|called| is_one_of(name(called), row.rests))
    })
}

/// The row of the pool of which a thread with this stack is, and what the function that takes its tasks has called.
fn worker(frames: &[UserFrame]) -> Option<(Option<&UserFrame>, &'static PoolWorker)> {
    let of = |frame: &UserFrame| WORKERS.iter().copied().find(|row| is_worker(frame, row));
    let (at, row) =
        frames.iter().enumerate().rev().find_map(|(at, frame)| Some((at, of(frame)?)))?;
    // Machine code of an interpreter stands between the functions of its language.
    let counts = |frame: &&UserFrame| match row.is_native {
        true => !frame.function.is_empty(),
        false => is_of_language(frame) || is_extension(frame),
    };
    Some((frames[..at].iter().rev().find(counts), row))
}

/// The task that a thread with this stack waits for, if its own language's functions say so; not where it does another task meanwhile.
pub fn awaited_task(frames: &[UserFrame]) -> Option<&'static AwaitedTask> {
    let rows = || ALL.iter().flat_map(|it| it.functions.tasks);
    let inner = frames.iter().take_while(|frame| {
        frame.function.is_empty()
            || !is_of_language(frame)
            || is_own_library(frame)
            || is_library(frame)
    });
    inner
        .filter(|frame| is_of_language(frame))
        .find_map(|frame| rows().find(|row| row.waits.iter().any(|at| is_at(frame, at))))
}

/// Queues from which who brings results takes the next; machine code is left out of some stacks.
const QUEUES: &[&str] =
    &["Queue.get", "_queue_SimpleQueue_get", "_queue_SimpleQueue_get_impl", "simplequeue_get"];

/// Whether a thread with this stack does such a task, or brings its result; not where it waits for the next.
pub fn does_task(frames: &[UserFrame], task: &AwaitedTask) -> bool {
    let is_by = |frame: &UserFrame| task.by.iter().any(|by| is_at(frame, by));
    let Some(at) = frames.iter().position(|frame| is_of_language(frame) && is_by(frame)) else {
        return false;
    };
    let called = frames[..at].iter().rev().find(|it| is_of_language(it) || is_extension(it));
    called.is_some_and(|it| !is_one_of(name(it), QUEUES))
        && !matches!(in_pool(frames), Some((InPool::Rest, _)))
}

/// Whether a thread with this stack may end waits for such a task of which no stack shows it.
pub fn ends_unseen(frames: &[UserFrame], task: &AwaitedTask) -> bool {
    frames.iter().any(|frame| task.ended_in.iter().any(|at| is_at(frame, at)))
}

fn is_at(frame: &UserFrame, (function, file): &(&str, &str)) -> bool {
    frame.module.ends_with(file) && is_one_of(name(frame), &[function])
}

fn name(frame: &UserFrame) -> &str {
    cpython::full_name(&frame.function, &frame.module)
}

fn is_of_language(frame: &UserFrame) -> bool {
    is_script(frame) || java::is_a_method(frame)
}

fn is_worker(frame: &UserFrame, row: &PoolWorker) -> bool {
    frame.module.ends_with(row.file)
        && is_one_of(name(frame), &[row.runs])
        && row.is_native != is_of_language(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stack: &str) -> Option<InPool> {
        let frame = |text: &str| {
            let (function, module) = text.split_once('@').expect("a file");
            let (function, module) = (function.trim().into(), module.into());
            UserFrame { function, module, ..UserFrame::default() }
        };
        let frames: Vec<UserFrame> = stack.split(" < ").map(frame).collect();
        in_pool(&frames).map(|(does, _)| does)
    }

    #[test]
    fn who_has_a_task_and_who_waits_for_one_are_two() {
        let java = |inner: &str| {
            read(&format!(
                "Unsafe_Park @libjvm.so < {inner} < ThreadPoolExecutor.runWorker @jdk/T.java < Thread.run @jdk/Thread.java"
            ))
        };
        assert_eq!(java("Thread.sleep @jdk/Thread.java < Shop.buy @Shop.java"), Some(InPool::Task));
        // A task that waits at a queue of its own is in hand.
        assert_eq!(
            java(
                "Unsafe.park @jdk/U.java < ArrayBlockingQueue.take @jdk/A.java < Shop.buy @Shop.java"
            ),
            Some(InPool::Task)
        );
        let rests = "LinkedBlockingQueue.take @jdk/L.java < ThreadPoolExecutor.getTask @jdk/T.java";
        assert_eq!(java(rests), Some(InPool::Rest));
        let python = |inner: &str| {
            read(&format!(
                "sem_clockwait @libc.so.6 < @python3.11 < {inner}_worker @python3/thread.py < Thread.run @python3/threading.py"
            ))
        };
        assert_eq!(python(""), Some(InPool::Rest));
        let gets = "_queue_SimpleQueue_get @_queue.cpython-311-x86_64-linux-gnu.so < ";
        assert_eq!(python(gets), Some(InPool::Rest));
        let takes = |inner: &str| {
            let stack = format!("{inner}_process_worker @python3/process.py");
            let frame = |text: &str| {
                let (function, module) = text.split_once('@').expect("a file");
                let (function, module) = (function.trim().into(), module.into());
                UserFrame { function, module, ..UserFrame::default() }
            };
            takes_next_task(&stack.split(" < ").map(frame).collect::<Vec<UserFrame>>())
        };
        assert!(takes("read @libc.so.6 < get @python3/queues.py < "));
        assert!(!takes("clock_nanosleep @libc.so.6 < "), "a task of machine code");
        let task = "work @pools.py < _WorkItem.run @python3/thread.py < ";
        assert_eq!(python(task), Some(InPool::Task));
        let node =
            |inner: &str| read(&format!("{inner} @node < worker @node < start_thread @libc.so.6"));
        assert_eq!(node("open @libc.so.6 < uv__fs_work"), Some(InPool::Task));
        assert_eq!(node("pthread_cond_wait @libc.so.6 < uv_cond_wait"), Some(InPool::Rest));
    }

    #[test]
    fn who_waits_for_a_task_is_known_by_its_languages_own_functions() {
        let frames = |stack: &str| -> Vec<UserFrame> {
            let frame = |text: &str| {
                let (function, module) = text.split_once('@').expect("a file");
                let (function, module) = (function.trim().into(), module.into());
                UserFrame { function, module, ..UserFrame::default() }
            };
            stack.split(" < ").map(frame).collect()
        };
        let waits = frames(
            "sem_clockwait @libc.so.6 < @python3.11 < Condition.wait @python3/threading.py < Future.result @python3/_base.py < H.do_GET @shop.py",
        );
        let task = awaited_task(&waits).expect("it waits for a future");
        let worker = |inner: &str| frames(&format!("{inner}_worker @python3/thread.py"));
        assert!(does_task(&worker("clock_nanosleep @libc.so.6 < job @shop.py < "), task));
        assert!(!does_task(&worker("_queue_SimpleQueue_get @_queue.cpython-311.so < "), task));
        assert!(!does_task(&frames("job @shop.py < Thread.run @python3/threading.py"), task));
        let other = "wait @python3/popen_fork.py < run @python3/process.py";
        assert!(!does_task(&frames(other), task), "multiprocessing's");
        assert!(ends_unseen(
            &frames("select @libc.so.6 < BaseEventLoop.run_forever @python3/base_events.py"),
            task
        ));
        assert!(!ends_unseen(&worker("job @shop.py < "), task));
        let pool = frames(
            "Condition.wait @python3/threading.py < ApplyResult.wait @python3/pool.py < H.do_GET @shop.py",
        );
        let of_pool = awaited_task(&pool).expect("it waits for a result");
        let brings = |inner: &str| {
            let stack = format!("{inner} < Pool._handle_results @python3/pool.py");
            does_task(&frames(&stack), of_pool)
        };
        assert!(brings("read @libc.so.6 < Connection.recv @python3/connection.py"));
        assert!(!brings("sem_clockwait @libc.so.6 < @python3.11"), "a queue of a pool of threads");
        assert!(!brings("_queue_SimpleQueue_get @_queue.cpython-311-x86_64-linux-gnu.so"));
        let java = frames(
            "Unsafe_Park @libjvm.so < Unsafe.park @jdk/Unsafe.java < FutureTask.awaitDone @jdk/FutureTask.java < Shop.get @Shop.java",
        );
        let task = awaited_task(&java).expect("it waits for a task");
        let busy = "Thread.sleep @jdk/Thread.java < Shop.job @Shop.java < FutureTask.run @jdk/F.java < ThreadPoolExecutor.runWorker @jdk/T.java";
        assert!(does_task(&frames(busy), task));
        // Who does another task meanwhile waits for that.
        assert!(awaited_task(&frames("Thread.sleep @jdk/Thread.java < Shop.part @Shop.java < ForkJoinTask.awaitDone @jdk/F.java")).is_none());
        assert!(
            awaited_task(&frames("Condition.wait @python3/threading.py < run @shop.py")).is_none()
        );
    }

    #[test]
    fn a_function_of_the_same_name_elsewhere_is_no_pool() {
        assert_eq!(read("read @libc.so.6 < work @jobs.py < _worker @jobs.py"), None);
        assert_eq!(read("poll @libc.so.6 < _worker @app"), None);
    }
}
