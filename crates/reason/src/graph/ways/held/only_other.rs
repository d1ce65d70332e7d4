//! A lock inside a process that is still waited for: the one other thread that there is, or that does not rest.
//!
//! By the waiter's own functions it is a lock, or by a word that says so where no function does. A thread that rests may well not have it: a
//! lock also is a signal, and whoever took it may be gone. Those that nobody but their own process can let go on (a collector of garbage, a worker
//! without a job, whoever wants the same lock) do not have it, and the one that is left is it if it stands. Where others wait for events, which may
//! come to whoever has it, the one that is left must stand in the waiter's own function besides: past where the lock is taken. Of one that sleeps
//! elsewhere the sleep began before.
//!
//! Must not: choose among several threads.

use crate::facts::ThreadRef;
use crate::graph::channels::sender;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::is_for_a_question;
use crate::graph::wakers::SAMPLES_APART;
use crate::graph::ways::way::{Waiter, Way};
use crate::model::object::Object;
use crate::programs::lock_kind::LockKind;
use crate::waits::futex_value::{WITH_WAITERS, expected_word, is_private};
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, user_stack};

/// The way.
pub(super) static WAY: Way = Way {
    name: "only other thread",
    because: "it is the only other thread that does not rest",
    of: &[WaitClass::FutexLock],
    thresholds: &[&SAMPLES_APART],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let other = || only_other(at.index, at.wait).map(Next::Thread);
    (!at.is_for_an_interpreter()).then(other).flatten()
}

/// How a thread rests.
#[derive(PartialEq, Eq)]
enum Rest {
    /// Only its own process can let it go on.
    Inside,
    /// Others may.
    ForOthers,
}

/// Of a lock inside a process which is still waited for: the one other thread that may have it.
fn only_other(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    // A lock that is not private may be another process's.
    let is_own = wait.place.syscall != "futex" || is_private(&wait.place);
    if !wait.standing || !is_own || !is_a_lock(index, wait) {
        return None;
    }
    let threads = index.families.threads_of(&[wait.thread.pid]);
    let others: Vec<&ThreadRef> =
        threads.iter().filter(|it| !index.model.threads.is_same(it, &wait.thread)).collect();
    let stands = |thread: &ThreadRef| index.waits.of(thread).last().filter(|it| it.standing);
    let rest = |thread: &ThreadRef| stands(thread).and_then(|it| rest(index, it, wait));
    let mut left = others.iter().filter(|it| rest(it).is_none());
    let only = *left.next()?;
    if left.next().is_some() {
        return None;
    }
    let for_others = || others.iter().any(|it| rest(it) == Some(Rest::ForOthers));
    let is_it = match stands(only) {
        Some(it) if is_past_it(index, it, wait) => true,
        Some(it) => !for_others() && may_sleep_with_it(it, wait),
        None => others.len() == 1,
    };
    is_it.then(|| only.clone())
}

/// Whether a thread, if it sleeps, has done so since the lock was first waited for: who slept only then is rather one that looks at the time now and
/// then, and whoever has the lock is gone, or is the waiter itself.
fn may_sleep_with_it(stands: &WaitSpan, waits: &WaitSpan) -> bool {
    stands.class != WaitClass::Timer
        || stands.begin_ns <= waits.begin_ns.saturating_add(SAMPLES_APART.ns())
}

/// Whether it is one by the waiter's functions; or by its word, where none of them says what it is.
fn is_a_lock(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let stack = index.model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    let is_timed = wait.timed_word().is_some();
    stack.is_some_and(|stack| {
        user_stack::is_held_up(&stack.frames, is_timed)
            || user_stack::kind(&stack.frames).is_none()
                && !is_timed
                && expected_word(&wait.place).map(u64::from) == Some(WITH_WAITERS)
    })
}

/// Whether a thread may wait for work, and so not have what another waits for: for the next event, for a word of its own process, for what nobody
/// but its own process will send, or for the next question. Who waits for another lock may have this one.
fn rest(index: &Index<'_>, wait: &WaitSpan, lock: &WaitSpan) -> Option<Rest> {
    use WaitClass::{FutexLock, FutexWait, Idle, PipeRead, SocketRead, UnixRead};
    let is_for_a_word = wait.place.syscall == "futex" && is_private(&wait.place);
    let is_untimed = wait.timed_word().is_none();
    match wait.class {
        // Of a virtual machine's locks nothing says which one it is.
        FutexLock if is_for_a_word && wait.object == lock.object && is_a_word(lock) => {
            Some(Rest::Inside)
        }
        Idle | FutexWait if is_for_a_word && is_untimed => Some(Rest::Inside),
        // The word of a thread's end is not private: the kernel writes it.
        FutexWait if joins(index, wait) => Some(Rest::Inside),
        Idle | FutexWait | FutexLock => Some(Rest::ForOthers),
        PipeRead if sender(index, wait).is_none() => Some(Rest::Inside),
        PipeRead | UnixRead | SocketRead => (is_for_a_question(index, wait)
            || sender(index, wait).is_none())
        .then_some(Rest::ForOthers),
        _ => None,
    }
}

/// Whether a thread waits for the end of another of its process.
fn joins(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let kind = user_stack::lock_kind_of(index.model, &wait.thread, wait.begin_ns, wait.end_ns);
    kind == Some(LockKind::Join)
}

/// Whether what is waited for is known by its address.
fn is_a_word(wait: &WaitSpan) -> bool {
    matches!(wait.object, Object::Futex { .. })
}

/// Whether a thread stands in the function in which another waits for a lock, at its line or a later one.
fn is_past_it(index: &Index<'_>, stands: &WaitSpan, waits: &WaitSpan) -> bool {
    let place = |wait: &WaitSpan| {
        let stack = index.model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns)?;
        user_stack::frame(&stack.frames)
    };
    let (Some(own), Some(other)) = (place(waits), place(stands)) else { return false };
    (&own.function, &own.module) == (&other.function, &other.module) && other.line >= own.line
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{LOCK, NO_ARGS, led, led_from, of_ten, place, stands};
    use crate::rules::scenes::{LOOK_NS, fact};

    /// The stack of a thread, the last of whose functions is at a line.
    fn at(tid: u32, functions: &[&str], line: u32) -> Fact {
        let frame =
            |function: &&str| UserFrame { function: (*function).into(), ..UserFrame::default() };
        let mut frames: Vec<UserFrame> = functions.iter().map(frame).collect();
        frames.last_mut().expect("a function").line = line;
        let stack = UserStack { thread: of_ten(tid), since_ns: 0, frames, complete: true };
        fact(Body::UserStack(stack))
    }

    /// Thread 10 waits for a mutex by its own functions; what the others of its process do.
    fn others(of: &[(u32, &str)]) -> (&'static str, Option<u32>) {
        others_at(LOCK, of)
    }

    fn others_at(word: [u64; 6], of: &[(u32, &str)]) -> (&'static str, Option<u32>) {
        let lock = at(10, &["__lll_lock_wait", "pthread_mutex_lock", "work"], 7);
        let mut facts = vec![lock, stands(of_ten(10), place("futex", word, None))];
        facts.extend(
            of.iter().map(|(tid, syscall)| stands(of_ten(*tid), place(syscall, NO_ARGS, None))),
        );
        led(facts)
    }

    #[test]
    fn the_only_other_thread_has_it_unless_it_rests_or_is_one_of_two() {
        assert_eq!(others(&[(12, "nanosleep")]), ("only other thread", Some(12)));
        assert_eq!(others(&[(12, "epoll_wait")]), ("", None), "it rests");
        assert_eq!(others(&[(12, "nanosleep"), (13, "nanosleep")]), ("", None), "which of them?");
    }

    /// The same, and more of the others: a wait for a word, and what else is known.
    fn beside(word: [u64; 6], more: Vec<Fact>) -> Option<u32> {
        let lock = at(10, &["__lll_lock_wait", "pthread_mutex_lock", "work"], 7);
        let facts = vec![
            lock,
            stands(of_ten(10), place("futex", LOCK, None)),
            stands(of_ten(12), place("clock_nanosleep", NO_ARGS, None)),
            stands(of_ten(13), place("futex", word, None)),
        ];
        led([facts, more].concat()).1
    }

    #[test]
    fn whom_only_their_own_process_lets_go_on_do_not_have_it() {
        let idle = [0x9000, 128 | 9, 0, 0, 0, 0];
        assert_eq!(beside(idle, vec![]), Some(12));
        assert_eq!(beside(LOCK, vec![]), Some(12), "it wants the same");
        let other = [0x9000, LOCK[1], LOCK[2], 0, 0, 0];
        assert_eq!(beside(other, vec![]), None, "it may have it, and wait for another");
        let timed = [0x9000, 128 | 9, 0, 0x7000, 0, 0];
        assert_eq!(beside(timed, vec![]), None, "it may be what has it and sleeps");
        let shared = [0x9000, 9, 0, 0, 0, 0];
        assert_eq!(beside(shared, vec![]), None, "another process may let it go on");
        let runs = Thread { thread: of_ten(14), ..Thread::default() };
        assert_eq!(beside(idle, vec![fact(Body::Thread(runs))]), None, "which of them?");
    }

    #[test]
    fn who_wants_a_lock_of_its_machine_may_want_another_and_have_this_one() {
        let waits = |tid| {
            let enters = at(tid, &["pthread_cond_wait", "ObjectMonitor::enter", "Shop.buy"], 0);
            vec![enters, stands(of_ten(tid), place("futex", [0x9000, 137, 0, 0, 0, 0], None))]
        };
        let sleeps = vec![stands(of_ten(12), place("clock_nanosleep", NO_ARGS, None))];
        assert_eq!(led([waits(10), sleeps.clone()].concat()).1, Some(12));
        assert_eq!(led([waits(10), waits(13), sleeps].concat()).1, None);
    }

    #[test]
    fn where_others_wait_for_events_it_stands_past_where_the_lock_is_taken() {
        let polls = || stands(of_ten(14), place("poll", NO_ARGS, None));
        let idle = [0x9000, 128 | 9, 0, 0, 0, 0];
        let sleeps = |function: &str, line| at(12, &["clock_nanosleep", function], line);
        assert_eq!(beside(idle, vec![polls()]), None);
        assert_eq!(beside(idle, vec![polls(), sleeps("work", 7)]), Some(12));
        assert_eq!(beside(idle, vec![polls(), sleeps("work", 3)]), None, "before it");
        assert_eq!(beside(idle, vec![polls(), sleeps("tick", 9)]), None, "elsewhere");
    }

    #[test]
    fn who_began_to_sleep_only_later_looks_at_the_time() {
        let lock = || at(10, &["__lll_lock_wait", "pthread_mutex_lock", "work"], 7);
        let led_to = |since_ns: Ns, more: Vec<Fact>| {
            let mut sleep = stands(of_ten(12), place("clock_nanosleep", NO_ARGS, None));
            if let Body::Blocked(sleep) = &mut sleep.body {
                sleep.since_ns = since_ns;
            }
            let waits = stands(of_ten(10), place("futex", LOCK, None));
            led([vec![lock(), waits, sleep], more].concat()).1
        };
        assert_eq!(led_to(0, vec![]), Some(12));
        assert_eq!(led_to(LOOK_NS / 2, vec![]), None);
        let in_it = Fact { at_ns: LOOK_NS, ..at(12, &["clock_nanosleep", "work"], 7) };
        assert_eq!(led_to(LOOK_NS / 2, vec![in_it]), Some(12), "where the lock is taken");
    }

    #[test]
    fn who_joins_another_thread_does_not_have_it() {
        let led_with = |innermost: &str| {
            let lock = at(12, &["pthread_rwlock_wrlock", "write"], 7);
            // The word of a thread's end is not private.
            let joins = stands(of_ten(10), place("futex", [0x7000, 265, 12, 0, 0, 0], None));
            let facts = vec![
                lock,
                stands(of_ten(12), place("futex", LOCK, None)),
                at(10, &[innermost, "main"], 0),
                joins,
                stands(of_ten(13), place("clock_nanosleep", NO_ARGS, None)),
            ];
            led_from(12, facts).1
        };
        assert_eq!(led_with("pthread_join"), Some(13));
        assert_eq!(led_with("shared_wait"), None, "another process may let it go on");
    }

    #[test]
    fn a_lock_that_processes_share_may_be_another_ones() {
        let shared = [LOCK[0], LOCK[1] & !128, LOCK[2], 0, 0, 0];
        assert_eq!(others_at(shared, &[(12, "nanosleep")]), ("", None));
    }
}
