//! A process all of whose pool's threads have a task in hand, where the thread that somebody waits for only hands questions on: the thread of
//! the pool that has stood longest, as whatever else came waits until one is done.
//!
//! A task that began before the question and that the waiting thread did not hand on may be one for life (a consumer's loop), for which nothing
//! waits; not of a pool that is a server's own. Must not: guess where a process has two such pools, take one thread for a pool, or be asked of a thread of the pool, which waits for something
//! else. Rejected: the sleeping thread of a process that is not in a pool (a clock of its own, which serves nobody); this way before those that know
//! who ended the wait.

use crate::facts::{Ns, ThreadRef, WakeContext};
use crate::graph::index::Index;
use crate::graph::next::{Next, Until};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::waits::pools;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "full pool",
    because: "all threads of the pool that would take it have a task in hand, and it has stood longest",
    of: FOR_EVENTS,
    thresholds: &[],
    follow: |at| full_pool(at).map(Next::Thread),
};

fn full_pool(at: &Waiter<'_>) -> Option<ThreadRef> {
    let (index, of) = (at.index, &at.wait.thread);
    let asker = at.asker.filter(|asker| asker.who.pid != of.pid)?;
    let stood = |thread: &ThreadRef| index.waits.stood(thread, at.within);
    let mut full = pools::full(index.model, of.pid, stood).into_iter();
    let only = full.next()?;
    let is_of_pool = only.threads.iter().any(|it| it.tid == of.tid);
    // An executor of one thread is mostly one task's, unless it is a server's.
    let may_be_one_tasks = only.threads.len() < 2 && !only.kind.serves;
    if is_of_pool || may_be_one_tasks || full.next().is_some() {
        return None;
    }
    let asked_ns = match asker.until {
        Until::Wait(wait) => wait.begin_ns,
        Until::At(_) => at.within.0,
    };
    let stands = |thread: &&ThreadRef| {
        let most = most(index, thread, at.within)?;
        let took = only.kind.serves || most.begin_ns > asked_ns || is_handed_on(index, most, of);
        took.then_some((most.begin_ns, thread.tid))
    };
    // Of one that does not turn its tasks over nobody knows that the next may have it.
    let stood: Option<Vec<_>> = only.threads.iter().map(|it| Some((stands(it)?, *it))).collect();
    stood?.into_iter().min_by_key(|(since, _)| *since).map(|(_, thread)| thread.clone())
}

/// The wait that takes most of a time of a thread; none if none takes half of it.
fn most<'i>(index: &Index<'i>, thread: &ThreadRef, (from, to): (Ns, Ns)) -> Option<&'i WaitSpan> {
    let waits = index.waits.within(thread, from, to).iter();
    let most = waits.max_by_key(|wait| wait.within_ns(from, to))?;
    (most.within_ns(from, to) * 2 > to.saturating_sub(from)).then_some(most)
}

/// Whether a thread ended the rest of one that now waits for something else: it gave it a task. A consumer that it feeds is back at the same.
fn is_handed_on(index: &Index<'_>, now: &WaitSpan, by: &ThreadRef) -> bool {
    index.waits.before(now).iter().any(|rest| {
        let wake = rest.wake.as_ref().filter(|wake| wake.context == WakeContext::Task);
        rest.class != now.class && wake.is_some_and(|wake| wake.by.tid == by.tid)
    })
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::next::{Asker, Next, Until};
    use crate::graph::ways::responsible;
    use crate::graph::ways::scenes::{CONDITION, NO_ARGS, ended, of_ten, place, stands};
    use crate::graph::ways::way::Waiter;
    use crate::rules::scenes::{LOOK_NS, host, thread};
    use crate::waits::timeline::Observed;

    const MS: Ns = 1_000_000;

    /// A thread of the pool, in that function since then.
    fn in_pool(tid: u32, inner: &str, since_ns: Ns) -> Vec<Fact> {
        of_pool(("ThreadPoolExecutor.runWorker", "jdk/T.java"), tid, inner, since_ns)
    }

    fn of_pool(runs: (&str, &str), tid: u32, inner: &str, since_ns: Ns) -> Vec<Fact> {
        let thread = ThreadRef { comm: format!("pool-1-thread-{tid}"), ..of_ten(tid) };
        let frame = |function: &str, module: &str| UserFrame {
            function: function.into(),
            module: module.into(),
            ..UserFrame::default()
        };
        let frames = vec![frame(inner, "Shop.java"), frame(runs.0, runs.1)];
        let stack = UserStack { thread: thread.clone(), since_ns: 0, frames, complete: true };
        let read = Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) };
        let mut stood = stands(thread, place("clock_nanosleep", NO_ARGS, None));
        if let Body::Blocked(stood) = &mut stood.body {
            stood.since_ns = since_ns;
        }
        vec![read, stood]
    }

    /// The way from the thread of a server that only hands on, asked at the begin of the look, and where it leads; who asks is another process, or
    /// the server's own.
    fn way(pool: Vec<Fact>, asker_pid: u32) -> (&'static str, Option<u32>) {
        let hands_on = stands(of_ten(10), place("epoll_wait", NO_ARGS, None));
        let facts = [host(), vec![hands_on], pool].concat();
        let Observed { model, timelines } = Observed::new(facts);
        let index = Index::new(&model, &timelines);
        let wait = timelines.waits().find(|wait| wait.thread.tid == 10).expect("it waits");
        let who = thread(asker_pid, "curl");
        let asker = Some(Asker { who: &who, until: Until::At(LOOK_NS) });
        let (next, way) = responsible(&Waiter { asker, ..Waiter::of(&index, wait) }, true);
        let to = match next {
            Next::Thread(to) => Some(to.tid),
            _ => None,
        };
        (way.map_or("", |way| way.name), to)
    }

    fn led(inner: [&str; 2], asker_pid: u32) -> (&'static str, Option<u32>) {
        let pool = [in_pool(11, inner[0], MS), in_pool(12, inner[1], 2 * MS)].concat();
        way(pool, asker_pid)
    }

    #[test]
    fn what_nobody_has_taken_waits_for_the_pool_if_all_of_it_is_busy() {
        assert_eq!(led(["Shop.buy", "Shop.pay"], 30), ("full pool", Some(11)));
        assert_ne!(led(["Shop.buy", "ThreadPoolExecutor.getTask"], 30).0, "full pool");
        assert_ne!(led(["Shop.buy", "Shop.pay"], 10).0, "full pool", "it waits for itself");
    }

    #[test]
    fn a_task_for_life_is_no_full_pool() {
        let consumer = || in_pool(11, "Consumer.poll", MS);
        assert_ne!(way(consumer(), 30).0, "full pool", "an executor of one thread");
        let older = [in_pool(11, "Shop.buy", MS), in_pool(12, "Consumer.poll", 0)].concat();
        assert_ne!(way(older, 30).0, "full pool", "it was at that before the question");
    }

    #[test]
    fn of_a_servers_own_pool_each_task_is_a_question_however_few_there_are() {
        let waitress = ("ThreadedTaskDispatcher.handler_thread", "waitress/task.py");
        let one = |inner: &str| way(of_pool(waitress, 11, inner, 0), 30);
        assert_eq!(one("app"), ("full pool", Some(11)));
        assert_ne!(one("Condition.wait").0, "full pool", "it has no task");
    }

    /// The waiting thread ended a wait of thread 12 of that call, which has slept since a second before the end.
    fn handed_on(rest: &str) -> &'static str {
        let second = in_pool(12, "Shop.pay", LOOK_NS - 900 * MS);
        let rested = ended(
            ThreadRef { comm: "pool-1-thread-12".into(), ..of_ten(12) },
            place(rest, CONDITION, None),
            of_ten(10),
            WakeContext::Task,
        );
        let hands_on = stands(of_ten(10), place("epoll_wait", NO_ARGS, None));
        let pool = [in_pool(11, "Shop.buy", MS), second, vec![rested]].concat();
        let Observed { model, timelines } = Observed::new([host(), vec![hands_on], pool].concat());
        let index = Index::new(&model, &timelines);
        let now = timelines.waits().find(|it| it.thread.tid == 12 && it.standing).expect("it");
        if super::is_handed_on(&index, now, &of_ten(10)) { "handed on" } else { "" }
    }

    #[test]
    fn what_the_waiter_handed_on_is_a_task_and_a_consumer_that_is_fed_is_back_at_the_same() {
        assert_eq!(handed_on("futex"), "handed on");
        assert_eq!(handed_on("clock_nanosleep"), "");
    }
}
