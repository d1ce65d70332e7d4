//! A thread that by its language's own functions waits for a task that it gave to a pool of its process: the thread that has it in hand.
//!
//! Which task it is no stack says. So it is the one thread of the pool that began to wait when the waiter did; or where none of the pool is free,
//! the one that has stood longest, as the task waits for a place too. Must not: choose between two pools, lead to who waits for a task itself (a
//! pool all of whose threads wait for tasks of the pool waits for nobody), or name anybody where one who may have the task was not read, waits
//! for a task itself, or shows none (an event loop). Rejected: the only one that has a task (it may be any other's, and the waiter's that of an
//! answer of another host); the last that the waiter woke (a look seldom sees it).
//!
//! Edit together: programs/pools.rs (the functions).

use crate::facts::{Ns, ThreadRef};
use crate::graph::index::Index;
use crate::graph::index::tasks::Seat;
use crate::graph::next::Next;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::programs::awaited_task;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::pools::stem;
use crate::waits::timeline::WaitSpan;

/// Who gives a task away waits for it at once.
static APART_MAX: Threshold = Threshold::new(
    50.0,
    "ms",
    "between the begin of the wait for a task and that of what the thread which has it waits for",
    "chosen: long beside a turn on a crowded CPU, short beside any task that one asks about",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "awaited task",
    because: "it has the task in hand that is waited for, or a place in the pool that the task waits for",
    of: FOR_EVENTS,
    thresholds: &[&APART_MAX],
    follow: |at| has_it(at).map(Next::Thread),
};

fn has_it(at: &Waiter<'_>) -> Option<ThreadRef> {
    let (index, wait, within) = (at.index, at.wait, at.within);
    let stack = |it: &ThreadRef| index.model.user_stack(it, within.0, within.1);
    let task = awaited_task(&stack(&wait.thread)?.frames)?;
    let threads = index.families.threads_of(&[wait.thread.pid]);
    let seat =
        |it: &ThreadRef| stack(it).map_or(Seat::Unread, |stack| index.tasks.seat(stack, task));
    let seats: Vec<(&ThreadRef, Seat)> = threads.iter().map(|it| (it, seat(it))).collect();
    let of = |wanted: Seat| {
        let others = seats.iter().filter(|(it, _)| it.tid != wait.thread.tid);
        others.filter(move |(_, seat)| *seat == wanted).map(|(it, _)| *it)
    };
    let busy: Vec<&ThreadRef> = of(Seat::Does).collect();
    let pool = stem(&busy.first()?.comm);
    let is_of_pool = |it: &ThreadRef| stem(&it.comm) == pool;
    let was_there = |it: &&ThreadRef| {
        let (since, until) = index.families.there(it, within);
        since < until
    };
    let may_be_another = of(Seat::Awaits).next().is_some()
        || of(Seat::Unread)
            .filter(was_there)
            .any(|it| is_of_pool(it) && may_do_tasks(index, it, within))
        || seats.iter().any(|(_, seat)| *seat == Seat::Ends);
    if may_be_another || !busy.iter().all(|it| is_of_pool(it)) {
        return None;
    }
    let is_near = |it: &&ThreadRef| {
        since(index, it, within).is_some_and(|ns| ns.abs_diff(wait.begin_ns) <= APART_MAX.ns())
    };
    let mut near = busy.iter().copied().filter(is_near);
    if let Some(first) = near.next().filter(|_| near.next().is_none()) {
        // Who collects several in turn comes to the next one's just as the thread that did the last takes up another.
        let is_older = |it: &&ThreadRef| {
            since(index, it, within).is_some_and(|ns| ns + APART_MAX.ns() < wait.begin_ns)
        };
        return (!busy.iter().any(is_older)).then(|| first.clone());
    }
    if task.is_anybodys || of(Seat::Rests).any(is_of_pool) {
        return None;
    }
    let longest = busy.into_iter().filter_map(|it| Some((since(index, it, within)?, it.tid, it)));
    longest.min_by_key(|(since_ns, tid, _)| (*since_ns, *tid)).map(|(.., it)| it.clone())
}

/// Whether a thread whose stack was not read may do a task or end it. The first thread of a process is no worker of a pool; an event loop may be its, and
/// such loops wait by epoll.
fn may_do_tasks(index: &Index<'_>, it: &ThreadRef, (from, to): (Ns, Ns)) -> bool {
    let waits = index.waits.within(it, from, to).iter();
    let mut own = waits.filter(|wait| wait.class != WaitClass::RunQueue).peekable();
    let is_first = it.tid == it.pid;
    !is_first || own.peek().is_none() || own.any(|wait| wait.place.syscall.starts_with("epoll"))
}

/// Since when a thread has waited for the same that it waits for within a time.
fn since(index: &Index<'_>, it: &ThreadRef, (from, to): (Ns, Ns)) -> Option<Ns> {
    let waits = index.waits.within(it, from, to).iter();
    let most: Option<&WaitSpan> = waits.max_by_key(|wait| wait.within_ns(from, to));
    most.map(|wait| wait.begin_ns)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{CONDITION, NO_ARGS, led, led_from, of_ten, place, stands};
    use crate::rules::scenes::LOOK_NS;

    const WORKER: (&str, &str) = ("_worker", "python3/thread.py");
    const JOB: (&str, &str) = ("job", "shop.py");
    const REST: (&str, &str) = ("_queue_SimpleQueue_get", "_queue.cpython-311-x86_64-linux-gnu.so");
    const LOOP: (&str, &str) = ("BaseEventLoop.run_forever", "python3/base_events.py");
    const RESULT: (&str, &str) = ("Future.result", "python3/_base.py");

    fn stack(tid: u32, functions: &[(&str, &str)]) -> Fact {
        let frame = |(function, module): &(&str, &str)| UserFrame {
            function: (*function).into(),
            module: (*module).into(),
            ..UserFrame::default()
        };
        let frames = functions.iter().map(frame).collect();
        let stack = UserStack { thread: of_ten(tid), since_ns: 0, frames, complete: true };
        Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) }
    }

    fn since(tid: u32, call: &str, since_ns: Ns) -> Fact {
        let mut fact = stands(of_ten(tid), place(call, NO_ARGS, None));
        if let Body::Blocked(blocked) = &mut fact.body {
            blocked.since_ns = since_ns;
        }
        fact
    }

    /// Thread 10 waits for a future; threads of the pool, what they do and since when.
    fn led_by(pool: &[(u32, (&str, &str), Ns)]) -> (&'static str, Option<u32>) {
        let waits = stands(of_ten(10), place("futex", CONDITION, None));
        let mut facts = vec![waits, stack(10, &[RESULT, ("do_GET", "shop.py")])];
        for (tid, does, since_ns) in pool {
            let call = if *does == JOB { "clock_nanosleep" } else { "futex" };
            facts.extend([since(*tid, call, *since_ns), stack(*tid, &[*does, WORKER])]);
        }
        led(facts)
    }

    #[test]
    fn who_waits_for_a_task_is_led_to_who_has_it_in_hand() {
        const SECOND: Ns = 1_000_000_000;
        assert_eq!(led_by(&[(11, JOB, 0)]), ("awaited task", Some(11)));
        assert_eq!(led_by(&[(11, JOB, 0), (12, REST, 0)]).1, Some(11));
        assert_ne!(led_by(&[(11, JOB, SECOND), (12, REST, 0)]).0, "awaited task", "a bystander");
        let full = [(11, JOB, 2 * SECOND), (12, JOB, SECOND)];
        assert_eq!(led_by(&full), ("awaited task", Some(12)), "the task waits for a place");
        let began_with_it = [(11, JOB, 0), (12, JOB, SECOND), (13, REST, 0)];
        assert_eq!(led_by(&began_with_it).1, Some(11));
        let which = [(11, JOB, 2 * SECOND), (12, JOB, SECOND), (13, REST, 0)];
        assert_ne!(led_by(&which).0, "awaited task", "either may have it");
        assert_ne!(led_by(&[(11, REST, 0)]).0, "awaited task");
        assert_ne!(led_by(&[(11, RESULT, 0)]).0, "awaited task", "it waits for a task itself");
        assert_ne!(led_by(&[(11, JOB, 0), (12, RESULT, 0)]).0, "awaited task", "12 may have it");
        assert_ne!(led_by(&[(11, JOB, 0), (12, LOOP, 0)]).0, "awaited task", "12 may end it");
    }

    #[test]
    fn of_a_pool_a_thread_of_which_was_not_read_nobody_is_named() {
        let led_with = |more: Vec<Fact>| {
            let waits = stands(of_ten(10), place("futex", CONDITION, None));
            let job = vec![since(11, "clock_nanosleep", 0), stack(11, &[JOB, WORKER])];
            led([vec![waits, stack(10, &[RESULT, ("do_GET", "shop.py")])], job, more].concat()).0
        };
        assert_eq!(led_with(Vec::new()), "awaited task");
        assert_ne!(led_with(vec![since(12, "futex", 0)]), "awaited task");
    }

    #[test]
    fn a_first_thread_that_was_not_read_is_no_worker_but_may_be_an_event_loop() {
        let led_beside = |call: &str| {
            let waits = stands(of_ten(11), place("futex", CONDITION, None));
            let ask = vec![waits, stack(11, &[RESULT, ("do_GET", "shop.py")])];
            let job = vec![since(12, "clock_nanosleep", 0), stack(12, &[JOB, WORKER])];
            let facts = [ask, job, vec![since(10, call, 0)]].concat();
            led_from(11, facts).0
        };
        assert_eq!(led_beside("poll"), "awaited task");
        assert_ne!(led_beside("epoll_wait"), "awaited task");
    }

    /// An HttpClient waits so for a server as well.
    #[test]
    fn what_anything_may_end_is_the_task_only_that_began_with_the_wait() {
        let led_to = |since_ns| {
            let waits = stands(of_ten(10), place("futex", CONDITION, None));
            let get = ("CompletableFuture.waitingGet", "jdk/CompletableFuture.java");
            let runs = ("CompletableFuture$AsyncSupply.run", "jdk/CompletableFuture.java");
            let job = vec![
                since(11, "clock_nanosleep", since_ns),
                stack(11, &[("Shop.job", "Shop.java"), runs]),
            ];
            led([vec![waits, stack(10, &[get, ("Shop.buy", "Shop.java")])], job].concat()).0
        };
        assert_eq!(led_to(0), "awaited task");
        assert_ne!(led_to(1_000_000_000), "awaited task");
    }
}
