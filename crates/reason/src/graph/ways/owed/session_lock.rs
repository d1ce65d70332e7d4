//! A session of a database that by its functions, or by its title, waits for a lock: who lets go in the end, or can have it.
//!
//! It waits for that lock and for none of its descriptors: where nobody is found to have it, nobody is looked for among them. Must not:
//! choose among several sessions (sessions.rs).

use super::held_sibling::held_sibling;
use super::interrupts::only_interrupts;
use crate::facts::ThreadRef;
use crate::graph::next::Next;
use crate::graph::sessions::{lets_go_later, says_that_it_waits, session_that_holds};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::programs::lock_kind::LockKind;
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack;

/// The way.
pub(super) static WAY: Way = Way {
    name: "session",
    because: "it let go of what the session waits for in the end, or is the only one seen that can have it",
    of: FOR_EVENTS,
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (index, wait) = (at.index, at.wait);
    let kind = user_stack::lock_kind_of(index.model, &wait.thread, wait.begin_ns, wait.end_ns);
    let waits = kind.is_some_and(LockKind::is_of_a_session) || says_that_it_waits(index, wait);
    waits.then(|| holds(at).into())
}

/// Who lets go in the end, was there and does not only interrupt; or the one session, or thread, that can have it.
fn holds(at: &Waiter<'_>) -> Option<ThreadRef> {
    let (index, wait) = (at.index, at.wait);
    let did_it = |(ended, by): &(&WaitSpan, ThreadRef)| {
        at.was_there(by) && !only_interrupts(index, ended, by, at.asker)
    };
    let later = lets_go_later(index, wait).filter(did_it).map(|(_, by)| by);
    later.or_else(|| session_that_holds(index, wait)).or_else(|| held_sibling(index, wait))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::scenes::{identity, thread};

    /// Session 10 waits for a lock, by its title; what its sibling's says.
    fn sibling(title: &str) -> (&'static str, Option<u32>) {
        let session = |pid: u32, title: &str| {
            let command = format!("postgres: app sales [local] {title}");
            let (thread, parent_pid) = (thread(pid, "postgres"), 5);
            identity(Thread { thread, parent_pid, command, ..Thread::default() })
        };
        led(vec![
            session(10, "UPDATE waiting"),
            session(30, title),
            child(20, 10),
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
        ])
    }

    #[test]
    fn the_session_with_a_transaction_is_it_and_where_there_is_none_the_ladder_ends() {
        assert_eq!(sibling("idle in transaction"), ("session", Some(30)));
        assert_eq!(sibling("idle"), ("session", None), "and not its child");
    }
}
