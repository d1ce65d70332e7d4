//! A lock inside a process that is still waited for: the one other thread that there is.
//!
//! By the waiter's own functions it is a lock; a thread that rests may well not have it: a lock also is a signal, and whoever took
//! it may be gone. Must not: choose among several threads.

use crate::facts::ThreadRef;
use crate::graph::channels::sender;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::is_for_a_question;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::futex_value::is_private;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, user_stack};

/// The way.
pub(super) static WAY: Way = Way {
    name: "only other thread",
    because: "it is the only other thread, and it does not rest",
    of: &[WaitClass::FutexLock],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let other = || only_other(at.index, at.wait).map(Next::Thread);
    (!at.is_for_an_interpreter()).then(other).flatten()
}

/// Of a lock inside a process, by the waiter's own functions, which is still waited for: the one other thread that there is, if
/// it does something else than to wait for the next event or for others of its process. A thread that rests may well not
/// have it: a lock also is a signal, and whoever took it may be gone.
fn only_other(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let stack = index.model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns)?;
    let is_timed = wait.timed_word().is_some();
    // A lock that is not private may be another process's.
    let is_own = wait.place.syscall != "futex" || is_private(&wait.place);
    if !wait.standing || !is_own || !user_stack::is_held_up(&stack.frames, is_timed) {
        return None;
    }
    let threads = index.families.threads_of(&[wait.thread.pid]);
    let mut others = threads.iter().filter(|it| !index.model.threads.is_same(it, &wait.thread));
    let only = others.next()?;
    let rests = index.waits.of(only).last().is_some_and(|it| it.standing && may_rest(index, it));
    (others.next().is_none() && !rests).then(|| only.clone())
}

/// Whether a thread may wait for work: for the next event, for a lock or a word of its own process, for what nobody but its own
/// process will send, or for the next question.
fn may_rest(index: &Index<'_>, wait: &WaitSpan) -> bool {
    use WaitClass::{FutexLock, FutexWait, Idle, PipeRead, SocketRead, UnixRead};
    match wait.class {
        Idle | FutexWait | FutexLock => true,
        PipeRead | UnixRead | SocketRead => {
            is_for_a_question(index, wait) || sender(index, wait).is_none()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{LOCK, NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::fact;

    /// Thread 10 waits for a mutex by its own functions; what the others of its process do.
    fn others(of: &[(u32, &str)]) -> (&'static str, Option<u32>) {
        others_at(LOCK, of)
    }

    fn others_at(word: [u64; 6], of: &[(u32, &str)]) -> (&'static str, Option<u32>) {
        let frame =
            |function: &str| UserFrame { function: function.into(), ..UserFrame::default() };
        let frames = ["__lll_lock_wait", "pthread_mutex_lock", "work"].map(frame).to_vec();
        let stack = UserStack { thread: of_ten(10), since_ns: 0, frames, complete: true };
        let mut facts =
            vec![fact(Body::UserStack(stack)), stands(of_ten(10), place("futex", word, None))];
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

    #[test]
    fn a_lock_that_processes_share_may_be_another_ones() {
        let shared = [LOCK[0], LOCK[1] & !128, LOCK[2], 0, 0, 0];
        assert_eq!(others_at(shared, &[(12, "nanosleep")]), ("", None));
    }
}
