//! Threads of a pool inside a program, by their stacks: whether one has a task in hand, or rests.
//!
//! Owns how the rows of programs are read: the function that takes tasks, and what it has called. Must not: count a pool (waits/pools.rs).
//! Rejected: the kind of lock at which a thread stands, as tasks wait at queues too.

use super::all::ALL;
use super::function_path::is_one_of;
use super::program::PoolWorker;
use super::{cpython, is_extension, is_script, java};
use crate::facts::UserFrame;

/// What a thread of a pool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPool {
    /// It has a task in hand.
    Task,
    /// It waits for one.
    Rest,
}

/// What a thread with this stack, the innermost frame first, does in the pool of which it is, and the setting that says how large that is; none
/// if it is of none.
pub fn in_pool(frames: &[UserFrame]) -> Option<(InPool, &'static str)> {
    let rows = || ALL.iter().flat_map(|it| it.functions.pools);
    let of = |frame: &UserFrame| rows().find(|row| is_worker(frame, row));
    let (at, row) =
        frames.iter().enumerate().rev().find_map(|(at, frame)| Some((at, of(frame)?)))?;
    // Machine code of an interpreter stands between the functions of its language.
    let counts = |frame: &&UserFrame| match row.is_native {
        true => !frame.function.is_empty(),
        false => is_of_language(frame) || is_extension(frame),
    };
    let called = frames[..at].iter().rev().find(counts);
    let rests = called.is_none_or(|it| is_one_of(name(it), row.rests));
    Some((if rests { InPool::Rest } else { InPool::Task }, row.setting))
}

fn name(frame: &UserFrame) -> &str {
    cpython::full_name(&frame.function, &frame.module)
}

fn is_of_language(frame: &UserFrame) -> bool {
    is_script(frame) || java::is_a_method(frame)
}

fn is_worker(frame: &UserFrame, row: &PoolWorker) -> bool {
    row.is_native != is_of_language(frame)
        && frame.module.ends_with(row.file)
        && is_one_of(name(frame), &[row.runs])
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
                "sem_clockwait @libc.so.6 < @python3.11 < {inner}_worker @python3/concurrent/futures/thread.py < Thread.run @python3/threading.py"
            ))
        };
        assert_eq!(python(""), Some(InPool::Rest));
        let gets = "_queue_SimpleQueue_get @_queue.cpython-311-x86_64-linux-gnu.so < ";
        assert_eq!(python(gets), Some(InPool::Rest));
        let task = "work @pools.py < _WorkItem.run @python3/concurrent/futures/thread.py < ";
        assert_eq!(python(task), Some(InPool::Task));
        let node =
            |inner: &str| read(&format!("{inner} @node < worker @node < start_thread @libc.so.6"));
        assert_eq!(node("open @libc.so.6 < uv__fs_work"), Some(InPool::Task));
        assert_eq!(node("pthread_cond_wait @libc.so.6 < uv_cond_wait"), Some(InPool::Rest));
    }

    #[test]
    fn a_function_of_the_same_name_elsewhere_is_no_pool() {
        assert_eq!(read("read @libc.so.6 < work @jobs.py < _worker @jobs.py"), None);
        assert_eq!(read("poll @libc.so.6 < _worker @app"), None);
    }
}
