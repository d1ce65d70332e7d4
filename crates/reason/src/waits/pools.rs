//! Pools of threads of which none is left for what comes next, by the stacks of all their threads.
//!
//! A pool is the threads of a process that take tasks by one function and have one name but for the number. It is full only if each of
//! them was read, and has a task in hand: of one that was not read nobody knows. Must not: say who waits for the pool (graph/), or that it is too
//! small. Rejected: threads that wait on one word, as each machine has a word for each thread.
//!
//! Edit together: programs/pools.rs.

use crate::facts::{Ns, ThreadRef};
use crate::model::Model;
use crate::programs::{InPool, PoolWorker, in_pool};
use std::collections::{BTreeMap, BTreeSet};

/// A pool all of whose threads have a task in hand.
pub struct FullPool<'m> {
    /// What the names of its threads begin with.
    pub name: String,
    /// Its threads, by number.
    pub threads: Vec<&'m ThreadRef>,
    /// What is known of such pools.
    pub kind: &'static PoolWorker,
}

/// The pools of a process that are full. `within`: the time in which each thread's stack counts.
pub fn full<'m>(
    model: &'m Model,
    pid: u32,
    within: impl Fn(&ThreadRef) -> (Ns, Ns),
) -> Vec<FullPool<'m>> {
    let gone: BTreeSet<u32> = model.threads.exits.iter().map(|(_, it)| it.thread.tid).collect();
    let own = model.threads.every_thread();
    let mut own: Vec<&ThreadRef> =
        own.filter(|it| it.pid == pid && !gone.contains(&it.tid)).collect();
    own.sort_by_key(|thread| thread.tid);
    own.dedup_by_key(|thread| thread.tid);
    // None: one was not read, or rests.
    let mut pools: BTreeMap<&str, (Option<Vec<&ThreadRef>>, &'static PoolWorker)> = BTreeMap::new();
    for thread in own {
        let read =
            |(from, to)| model.user_stack(thread, from, to).map(|stack| in_pool(&stack.frames));
        // Who is of no pool at one time is of none at another.
        if matches!(read((0, Ns::MAX)), Some(None)) {
            continue;
        }
        let seat = read(within(thread));
        let pool = pools
            .entry(stem(&thread.comm))
            .or_insert_with(|| (Some(Vec::new()), &PoolWorker::UNKNOWN));
        match (seat.flatten(), pool.0.as_mut()) {
            (Some((InPool::Task, kind)), Some(threads)) => {
                threads.push(thread);
                pool.1 = kind;
            }
            _ => pool.0 = None,
        }
    }
    let full =
        |(name, (threads, kind)): (&str, (Option<Vec<&'m ThreadRef>>, &'static PoolWorker))| {
            Some(FullPool { name: name.into(), threads: threads?, kind })
        };
    pools.into_iter().filter_map(full).collect()
}

/// A thread's name without its number in the pool.
pub fn stem(comm: &str) -> &str {
    comm.trim_end_matches(|it: char| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, Thread, UserFrame, UserStack};

    fn of(tid: u32, comm: &str) -> ThreadRef {
        ThreadRef { tid, pid: 10, start_ns: 1, comm: comm.into() }
    }

    fn stands(tid: u32, comm: &str, inner: &str) -> Vec<Fact> {
        let frame = |function: &str, module: &str| UserFrame {
            function: function.into(),
            module: module.into(),
            ..UserFrame::default()
        };
        let frames =
            vec![frame(inner, "App.java"), frame("ThreadPoolExecutor.runWorker", "jdk/T.java")];
        let thread = of(tid, comm);
        let named = Thread { thread: thread.clone(), ..Thread::default() };
        let stack = UserStack { thread, since_ns: 0, frames, complete: true };
        let fact = |body| Fact { at_ns: 100, body };
        vec![fact(Body::Thread(named)), fact(Body::UserStack(stack))]
    }

    fn is_full(facts: &[Vec<Fact>]) -> Vec<(String, usize)> {
        let model = Model::new(facts.concat());
        let all = full(&model, 10, |_| (0, 100)).into_iter();
        all.map(|pool| (pool.name, pool.threads.len())).collect()
    }

    #[test]
    fn a_pool_is_full_if_each_of_its_threads_was_read_and_has_a_task() {
        let busy = |tid: u32| stands(tid, &format!("pool-1-thread-{tid}"), "Shop.buy");
        assert_eq!(is_full(&[busy(11), busy(12)]), [("pool-1-thread-".to_string(), 2)]);
        let rests = stands(12, "pool-1-thread-2", "ThreadPoolExecutor.getTask");
        assert_eq!(is_full(&[busy(11), rests]), []);
        let unread = || {
            let named = Thread { thread: of(12, "pool-1-thread-2"), ..Thread::default() };
            vec![Fact { at_ns: 100, body: Body::Thread(named) }]
        };
        assert_eq!(is_full(&[busy(11), unread()]), []);
        let mut later = stands(12, "pool-1-thread-2", "main");
        let of_none = |fact: &mut Fact| {
            fact.at_ns = 200;
            if let Body::UserStack(stack) = &mut fact.body {
                (stack.since_ns, stack.frames) = (200, vec![stack.frames[0].clone()]);
            }
        };
        later.iter_mut().for_each(of_none);
        assert_eq!(is_full(&[busy(11), later]).len(), 1, "its first thread, read at another time");
        assert_eq!(is_full(&[unread()]), []);
    }
}
