//! A conversation: waits of one thread on the same thing that follow one another, and when it was asked and answered in them.
//!
//! A client that looks at the clock now and then waits in pieces; the answer ends the last one. Must not: look for who answers
//! (serving.rs), or follow anybody.

use super::debts::{APART_MIN, Debt};
use super::index::Index;
use super::next::{Asker, Until};
use super::question::is_for_an_answer;
use super::wakers::{carrier, has_timed_out, is_by_clock, is_unseen, waker};
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

/// When the question was asked whose answer ended a wait on a connection, where its process asked it only well after the wait began: the wait before had its
/// answer, and nothing was asked until then, as of a thread that reads for all others.
pub(super) fn asked_later_ns(index: &Index<'_>, wait: &WaitSpan) -> Option<Ns> {
    let Some(ObjectRef::Inet(socket)) = &wait.place.object else { return None };
    let far = index.connections.far_processes(index.model.called.connected(socket));
    let far: Vec<u32> = far.iter().map(|far| far.pid).collect();
    let is_theirs = |wait: &WaitSpan| carrier(wait).is_some_and(|by| far.contains(&by.pid));
    let mut before = index.waits.before(wait).iter().rev().take(WAITS_LOOKED_AT);
    let last = before.find(|it| is_same_thing(&it.place, &wait.place))?;
    let within = (last.end_ns, wait.end_ns);
    let asked_ns = index.woken.first_ns((wait.thread.pid, &far[..]), within, PAUSE_MAX.ns())?;
    let is_later = asked_ns >= wait.begin_ns.saturating_add(APART_MIN.ns());
    (is_later && is_theirs(last) && is_theirs(wait)).then_some(asked_ns)
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

/// Whether the clock ended a wait of a process that somebody else may answer, and it went on by itself: when the clock had ended the last of such waits that
/// follow each other, it asked him only then, or ended; and by the clocks of their connection he had owed it nothing.
pub(super) fn goes_on_by_clock(index: &Index<'_>, wait: &WaitSpan, by: u32) -> bool {
    let is_by_clock = |wait: &WaitSpan| !wait.standing && is_by_clock(wait);
    if !is_by_clock(wait) || !has_said_all(index, wait, by) || owes(index, wait, by) {
        return false;
    }
    let own = wait.thread.pid;
    let first_ns = |from: u32, to: u32, within| {
        index.woken.first_ns((from, &[to][..]), within, PAUSE_MAX.ns())
    };
    let died_ns = index.families.died_ns(index.model.threads.key(&wait.thread));
    let mut last = wait;
    for _ in 0..WAITS_LOOKED_AT {
        let within = (last.end_ns, last.end_ns.saturating_add(PAUSE_MAX.ns()));
        // What comes first may be the rest of an answer.
        let asked_ns = first_ns(own, by, within);
        let asks =
            asked_ns.is_some_and(|at_ns| first_ns(by, own, within).is_none_or(|it| it >= at_ns));
        let ends = died_ns.is_some_and(|at_ns| (within.0..=within.1).contains(&at_ns));
        if asks || ends {
            return true;
        }
        let is_of_loop = |it: &&WaitSpan| {
            it.class != WaitClass::RunQueue && it.place.syscall == wait.place.syscall
        };
        let next = index.waits.after(last).iter().find(is_of_loop);
        match next.filter(|it| it.begin_ns <= within.1 && is_by_clock(it)) {
            Some(next) => last = next,
            None => return false,
        }
    }
    false
}

/// Whether somebody may owe an answer as a wait of one who can ask him ends: by the clocks of their connections, else by who woke whom last.
pub(super) fn owes(index: &Index<'_>, wait: &WaitSpan, by: u32) -> bool {
    let own = wait.thread.pid;
    let stands = |debt: &Debt| {
        let until_ns = debt.answered_ns.unwrap_or(debt.seen_ns);
        let is_before = debt.since_ns.saturating_add(APART_MIN.ns()) < wait.end_ns;
        is_before && until_ns > wait.begin_ns.saturating_add(APART_MIN.ns())
    };
    if index.debts.asked_by(own).any(|debt| stands(debt) && is_with(index, debt.ino, by)) {
        return true;
    }
    let last_ns = |from: u32, to: u32| {
        let woken = index.woken.by(from, 0, wait.end_ns).iter().rev();
        woken.filter(|it| it.thread.pid == to).find_map(|it| Some(it.wake.as_ref()?.at_ns))
    };
    let asked_ns = || last_ns(own, by);
    let is_left = || asked_ns().is_some_and(|at_ns| last_ns(by, own).is_none_or(|it| it < at_ns));
    !has_said_all(index, wait, by) && is_left()
}

/// Whether somebody had had the last word on a connection of a process's to him as a wait of that began.
fn has_said_all(index: &Index<'_>, wait: &WaitSpan, by: u32) -> bool {
    let own = wait.thread.pid;
    let mut read = index.said.connections_of(own).filter(|ino| is_with(index, *ino, by));
    read.any(|ino| index.said.is_all(own, ino, wait.begin_ns))
}

/// Whether a process is at the other end of a connection.
fn is_with(index: &Index<'_>, ino: u64, pid: u32) -> bool {
    let far = index.model.called.socket(ino).map(|it| index.connections.far_processes(it));
    far.is_some_and(|far| far.iter().any(|far| far.pid == pid))
}

#[cfg(test)]
mod tests {
    use super::{asked_later_ns, goes_on_by_clock};
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::ways::scenes::{NO_ARGS, place};
    use crate::rules::net::scenes::{inet, with_state};
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    const MS: Ns = 1_000_000;

    /// Whether loop 10, whose waits the clock ends at 1,000 and 2,000 ms, goes on by itself with 20, which it wakes at 2,002 ms or does not, where the clocks of their
    /// connection say after 1,500 ms when something came, and went.
    fn goes_on(asks: bool, (came_ms, went_ms): (u32, u32)) -> bool {
        const READ_MS: u32 = 1_500;
        let near = inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let listens = inet("tcp", 300, "127.0.0.1:80", "0.0.0.0:0", 10);
        let turn = TcpTurn {
            sent_jiffies: READ_MS - went_ms,
            received_jiffies: READ_MS - came_ms,
            jiffy_ns: 1_000_000,
            ..TcpTurn::default()
        };
        let turn = Some(turn);
        let (acked_bytes, received_bytes) = (80, 90);
        let state = SocketState { turn, acked_bytes, received_bytes, ..SocketState::default() };
        let waits =
            |pid: u32, (begin_ms, end_ms): (u64, u64), (context, by): (WakeContext, u32)| {
                let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
                let by = thread(by, "other");
                let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
                let (thread, place) = (thread(pid, "loop"), place("epoll_wait", NO_ARGS, None));
                let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
                Fact { at_ns: end_ns, body: Body::Wait(wait) }
            };
        let clock = (WakeContext::HardInterrupt, 0);
        let by = if asks { (WakeContext::SoftInterrupt, 10) } else { clock };
        let facts = vec![
            with_state(20, "server", listens, SocketState::default()),
            with_state(20, "server", far, SocketState::default()),
            Fact { at_ns: u64::from(READ_MS) * MS, ..with_state(10, "loop", near, state) },
            waits(10, (105, 1_000), clock),
            waits(10, (1_001, 2_000), clock),
            waits(10, (2_005, 3_000), clock),
            waits(20, (100, 2_002), by),
        ];
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let index = Index::new(&model, &timelines);
        let wait = timelines.waits().find(|wait| wait.thread.tid == 10).expect("it waits");
        goes_on_by_clock(&index, wait, 20)
    }

    #[test]
    fn who_asks_only_when_a_time_is_over_has_waited_for_that() {
        assert!(goes_on(true, (100, 60)), "the second of two waits in pieces ends it");
        assert!(!goes_on(false, (100, 60)), "the rest of an answer may be due");
        assert!(!goes_on(true, (60, 100)), "it has asked");
    }

    /// When client 10 asked server 20 whose answers end its waits at 100 and 1,000 ms, as far as it did so well after the second wait began at 105 ms.
    fn asked_ms(at_ms: u64) -> Option<u64> {
        let near = inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let listens = inet("tcp", 300, "127.0.0.1:80", "0.0.0.0:0", 10);
        let state = SocketState::default;
        let waits = |(pid, on): (u32, &ObjectRef), (begin_ms, end_ms): (u64, u64), by: u32| {
            let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
            let (context, by) = (WakeContext::SoftInterrupt, thread(by, "other"));
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let place = place("epoll_wait", NO_ARGS, Some(on.clone()));
            let thread = thread(pid, "loop");
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let facts = vec![
            with_state(20, "server", listens, state()),
            with_state(20, "server", far.clone(), state()),
            with_state(10, "loop", near.clone(), state()),
            waits((10, &near), (50, 100), 20),
            waits((10, &near), (105, 1_000), 20),
            waits((20, &far), (101, at_ms), 10),
        ];
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let index = Index::new(&model, &timelines);
        let mut waits = timelines.waits().filter(|wait| wait.thread.tid == 10);
        waits.nth(1).and_then(|wait| asked_later_ns(&index, wait)).map(|ns| ns / MS)
    }

    #[test]
    fn who_reads_for_others_has_not_asked_before_they_do() {
        assert_eq!(asked_ms(990), Some(990));
        assert_eq!(asked_ms(106), None, "the answer was late");
    }
}
