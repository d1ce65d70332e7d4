//! A conversation: waits of one thread on the same thing that follow one another, and when it was asked and answered in them.
//!
//! A client that looks at the clock now and then waits in pieces; the answer ends the last one. Must not: look for who answers
//! (serving.rs), or follow anybody.

use super::debts::Debt;
use super::index::Index;
use super::next::{Asker, Until};
use super::question::is_for_an_answer;
use super::wakers::{carrier, has_timed_out, is_unseen, waker};
use crate::facts::*;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// Between two waits of one conversation a client does no more than look at the clock.
pub(super) static PAUSE_MAX: Threshold = Threshold::new(
    50.0,
    "ms",
    "between two waits on the same thing: who computes for longer has gone on with something else",
    "chosen: a look at the clock takes microseconds, and a turn on a crowded CPU tens of milliseconds",
);

/// How long before it ended a wait somebody may have been asked.
static ASKED_BEFORE_MAX: Threshold = Threshold::new(
    200.0,
    "ms",
    "from a question to the begin of the wait that its answer ends: a loop that has asked serves others before it waits again",
    "chosen: long beside a round of an event loop",
);

/// Waits before or after one that are looked at: a bound on the work, as a loop has thousands.
pub(super) const WAITS_LOOKED_AT: usize = 256;

/// Whether two waits are on the same: the state of a connection changes as its answer comes.
pub(super) fn is_same_thing(one: &Place, other: &Place) -> bool {
    match (&one.object, &other.object) {
        (Some(ObjectRef::Inet(one)), Some(ObjectRef::Inet(other))) => one.ino == other.ino,
        (one, other) => one == other,
    }
}

/// When the conversation that a wait belongs to began to wait, by the waits alone: those on the same thing that only the clock ended go
/// on.
pub(super) fn waited_since_ns(index: &Index<'_>, wait: &WaitSpan) -> Ns {
    let mut asked_ns = wait.begin_ns;
    for other in index.waits.before(wait).iter().rev() {
        if other.end_ns + PAUSE_MAX.ns() < asked_ns {
            break;
        }
        if !is_same_thing(&other.place, &wait.place) {
            continue;
        }
        let by_clock = other.wake.as_ref().is_none_or(|wake| {
            matches!(wake.context, WakeContext::HardInterrupt | WakeContext::Unknown)
        });
        if !by_clock {
            break;
        }
        asked_ns = other.begin_ns;
    }
    asked_ns
}

/// When the question was asked that a wait is for the answer to, or the conversation that it belongs to began to wait.
pub(super) fn asked_ns(index: &Index<'_>, wait: &WaitSpan) -> Ns {
    let asked_ns = waited_since_ns(index, wait);
    // The connection's own clocks know of a question that came before the look.
    let debts = index.debts.awaits.get(&wait.thread.pid).map_or(&[][..], Vec::as_slice);
    let of_socket = |debt: &&Debt| matches!(&wait.place.object, Some(ObjectRef::Inet(own)) if own.ino == debt.ino);
    let since = debts.iter().find(of_socket).map(|debt| debt.since_ns);
    since.filter(|since| *since < wait.end_ns).map_or(asked_ns, |since| since.min(asked_ns))
}

/// When a process answered who waits for it: the end of the first wait of that conversation which it ended. Where nobody
/// sees who ends a wait, of the first that took less time than it might have.
pub(super) fn answered_ns(index: &Index<'_>, asker: Asker<'_>, pid: u32) -> Option<Ns> {
    let first = match asker.until {
        Until::At(at_ns) => return Some(at_ns),
        Until::Wait(wait) => wait,
    };
    let mut until = first.end_ns;
    let later = index.waits.after(first).iter().take(WAITS_LOOKED_AT);
    for other in std::iter::once(first).chain(later) {
        if other.begin_ns > until.saturating_add(PAUSE_MAX.ns()) {
            break;
        }
        let is_same =
            is_same_thing(&other.place, &first.place) && other.place.syscall == first.place.syscall;
        if !is_same || other.class == WaitClass::RunQueue {
            continue;
        }
        until = other.end_ns;
        if is_unseen(other) && !other.standing && !has_timed_out(other) {
            return Some(other.end_ns);
        }
        let by = waker(index, other).or_else(|| carrier(other).cloned());
        if by.is_some_and(|by| by.pid == pid) {
            return Some(other.end_ns);
        }
    }
    // Who looks at the clock meanwhile goes on waiting; he did not.
    (is_unseen(first) && !first.standing && until < index.model.look.end_ns).then_some(until)
}

/// The same, of whoever answers, where nobody sees who ends a wait.
pub(super) fn answered_unseen_ns(index: &Index<'_>, first: &WaitSpan) -> Option<Ns> {
    let nobody = 0;
    let asker = Asker { who: &first.thread, until: Until::Wait(first) };
    is_unseen(first).then(|| answered_ns(index, asker, nobody)).flatten()
}

/// Whether a loop had asked somebody before he ended its wait: it had ended a wait of his own not long before or meanwhile,
/// and not by an answer to him.
pub(super) fn had_asked(index: &Index<'_>, wait: &WaitSpan, by: &ThreadRef) -> bool {
    let since = wait.begin_ns.saturating_sub(ASKED_BEFORE_MAX.ns());
    let asked = |other: &WaitSpan| {
        let from = waker(index, other).or_else(|| carrier(other).cloned());
        from.is_some_and(|from| from.pid == wait.thread.pid)
            && !other.place.syscall.is_empty()
            && !is_for_an_answer(index, other)
    };
    index.families.threads_of(&[by.pid]).iter().any(|thread| {
        let all = index.waits.of(thread);
        let near = all[..all.partition_point(|other| other.begin_ns <= wait.end_ns)].iter();
        let near = near.rev().take_while(|other| other.end_ns >= since);
        near.filter(|other| other.end_ns <= wait.end_ns).any(asked)
    })
}
