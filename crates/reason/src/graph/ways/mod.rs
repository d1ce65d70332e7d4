//! Who would have to act for a wait to end: the ways there, in one order.
//!
//! The order: the owner where a table has one (lock table, futex word, open descriptors), who stands behind a kernel thread, the
//! waker (held/); then, of a thread that somebody waits for, who was asked and owes an answer, and last whoever did it before
//! (owed/). A wake-up from an interrupt names nobody, unless it carried a packet of somebody who is at the other end. No system call
//! is idle by its name: a thread that waits for events is followed like any other once somebody waits for it.
//!
//! Must not: judge, or say what an end is (ends.rs). Rejected: the waker alone (a stuck holder wakes nobody).

pub mod held;
pub(in crate::graph) mod owed;
#[cfg(test)]
pub(crate) mod scenes;
pub mod way;

use super::next::Next;
use crate::facts::ThreadRef;
use way::{Waiter, Way, first};

/// Who is responsible for a part of a wait, and the way there. `owed`: somebody waits for this thread, so what it waits for matters
/// even if it is only the next event.
pub fn responsible(at: &Waiter<'_>, owed: bool) -> (Next, Option<&'static Way>) {
    let found = held::found(at).or_else(|| owed.then(|| first(owed::LADDER, at)).flatten());
    match found.filter(|(next, _)| !is_observer(at, next)) {
        Some((next, way)) => (next, Some(way)),
        None => (Next::Nobody, None),
    }
}

/// Whether it is holdup itself: who waits for what it prints waits for the end of the look.
fn is_observer(at: &Waiter<'_>, next: &Next) -> bool {
    let own_pid = at.index.model.look.host.own_pid;
    let is_own = |by: &ThreadRef| own_pid != 0 && by.pid == own_pid;
    match next {
        Next::Thread(by) | Next::Later(by, _) | Next::Brought(by, _) | Next::Answer(_, by) => {
            is_own(by)
        }
        _ => false,
    }
}

/// Every way, in the order in which they are asked.
pub fn all() -> impl Iterator<Item = &'static Way> {
    held::LADDER.iter().chain(owed::LADDER).copied()
}
