//! What an event loop waited for, where other events ended its waits in between.
//!
//! A server that answers many clients on one thread waits for whatever comes next: questions of other clients, the tick of
//! its clock. The wait in which somebody is owed an answer is cut by them, and who ended such a piece has not held the
//! answer up. What did is the event that the answer followed, or before that what somebody was busy with whom the loop had
//! asked. The answer is known by when it ended the asker's wait; from loop to loop (a proxy before a server) that time is
//! handed on, so that one connection of several is followed.
//!
//! Must not: look further than one thread and who ended its waits (the ladder orders that against all else). Rejected:
//! to blame whoever ended each piece (a server's other clients hold nothing up), and the longest piece (nobody is in it).

use super::interrupts::{FOLLOWS_MAX, follows, outside};
use super::unanswered::awaited_since;
use crate::facts::*;
use crate::graph::channels::far_end;
use crate::graph::conversation::{WAITS_LOOKED_AT, answered_ns, asked_ns, had_asked};
use crate::graph::index::Index;
use crate::graph::next::{Asker, Next, Until};
use crate::graph::question::{is_ended_by_a_question, is_for_a_question, is_for_an_answer};
use crate::graph::wakers::{
    SAMPLES_APART, by_kernel_thread, carrier, has_timed_out, is_unseen, timeout_ns, waker,
};
use crate::graph::ways::held::holder;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::{Doing, WaitSpan};

/// From so many on somebody ends waits of a loop again and again.
static OFTEN_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "waits of a loop that one process ended: that an answer to another followed one of them is chance",
    "chosen: two may be a question and its follow-up",
);

/// Timeouts of one step are so near to each other.
static TICKS_APART_MAX: Threshold = Threshold::new(
    2.0,
    "ms",
    "between two timeouts of a loop that looks at the clock in a fixed step",
    "chosen: a loop takes from its step what it computed meanwhile",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "event loop",
    because: "the loop answered after what it did",
    of: FOR_EVENTS,
    thresholds: &[&FOLLOWS_MAX, &OFTEN_MIN, &TICKS_APART_MAX, &SAMPLES_APART],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let is_reason = |next: &Next| !matches!(next, Next::Later(by, _) | Next::Brought(by, _) if !at.was_there(by));
    let next = after_others(at.index, at.wait, at.asker).filter(is_reason)?;
    // The clock also ends a wait for somebody who never answers.
    let asked_ns = |until| match until {
        Until::Wait(of_asker) => asked_ns(at.index, of_asker),
        Until::At(_) => at.wait.begin_ns,
    };
    let gave_up = || awaited_since(at.index, at.wait, at.within.1, asked_ns(at.asker?.until));
    Some((next == Next::OwnClock).then(gave_up).flatten().unwrap_or(next))
}

/// What an event loop waited for in a wait that the clock ended, or somebody who only interrupts, if it has answered since.
fn after_others(index: &Index<'_>, wait: &WaitSpan, asker: Option<Asker<'_>>) -> Option<Next> {
    let asker = outside(index, asker, wait)?;
    let answered_ns = answered_ns(index, asker, wait.thread.pid)?;
    if wait.class != WaitClass::Idle || answered_ns < wait.end_ns {
        return None;
    }
    let is_asker = |by: &ThreadRef| asker.who.pid == by.pid;
    let last = last_event(index, wait, answered_ns)?;
    if let Some((by, at_ns)) = busy_meanwhile(index, wait, last) {
        return Some(Next::Later(by, at_ns));
    }
    let is_question = is_ended_by_a_question(index, last);
    let may_be_due = is_question || is_unseen(last);
    let by_clock = ended_by_interrupt(last) || may_be_due && is_due(last, answered_ns);
    if by_clock && !(is_unseen(last) && ticks(index, last)) {
        return Some(Next::OwnClock);
    }
    let by = ended_by(index, last).filter(|by| !is_asker(by))?;
    if is_question && asks_often(index, last, &by) {
        let asked = only_asked(index, last)?;
        return Some(Next::Later(asked, answered_ns));
    }
    Some(match is_question {
        true => Next::Brought(by, last.end_ns),
        false => Next::Later(by, last.end_ns),
    })
}

/// Whether somebody ended waits of a loop again and again: that an answer to another followed once is chance.
fn asks_often(index: &Index<'_>, last: &WaitSpan, by: &ThreadRef) -> bool {
    let before = index.waits.before(last).iter().rev().take(WAITS_LOOKED_AT);
    let his = before.filter(|it| carrier(it).is_some_and(|from| from.pid == by.pid));
    his.take(OFTEN_MIN.count()).count() == OFTEN_MIN.count()
}

/// Whether the clock ended an earlier wait of a loop after just as long a time: it looks at the clock so often, and where nobody
/// sees what ended the last, that it was the clock is chance.
fn ticks(index: &Index<'_>, last: &WaitSpan) -> bool {
    let Some(own_ns) = timeout_ns(&last.place) else { return false };
    let is_as_long = |it: &WaitSpan| {
        timeout_ns(&it.place).is_some_and(|ns| ns.abs_diff(own_ns) <= TICKS_APART_MAX.ns())
    };
    let mut before = index.waits.before(last).iter().rev().take(WAITS_LOOKED_AT);
    before.any(|it| has_timed_out(it) && is_as_long(it))
}

/// The one process that a loop has asked by connections of its own, if it is one: its answer came in too short a wait to be
/// seen.
fn only_asked(index: &Index<'_>, last: &WaitSpan) -> Option<ThreadRef> {
    let before = index.waits.before(last).iter().rev().take(WAITS_LOOKED_AT);
    let asks = before.filter(|it| is_of_events(it, last) && is_for_an_answer(index, it));
    let mut only: Option<ThreadRef> = None;
    for by in asks.filter_map(|it| ended_by(index, it)) {
        if only.as_ref().is_some_and(|known| known.pid != by.pid) {
            return None;
        }
        only = Some(by);
    }
    only
}

/// The last wait of a loop before it answered, if the answer followed its end.
fn last_event<'a>(index: &Index<'a>, wait: &WaitSpan, answered_ns: Ns) -> Option<&'a WaitSpan> {
    let all = index.waits.of(&wait.thread);
    let before = &all[..all.partition_point(|other| other.begin_ns < answered_ns)];
    let mut events = before.iter().rev().take(WAITS_LOOKED_AT);
    let slack_ns = |other: &WaitSpan| if is_unseen(other) { SAMPLES_APART.ns() } else { 0 };
    let last = events
        .find(|other| is_of_events(other, wait) && other.end_ns <= answered_ns + slack_ns(other))?;
    follows(index, last, answered_ns).then_some(last)
}

/// Who was at work, or held up, in a wait for events, and ended a later one, up to the last: he had been asked.
fn busy_meanwhile(index: &Index<'_>, wait: &WaitSpan, last: &WaitSpan) -> Option<(ThreadRef, Ns)> {
    let middle_ns = wait.begin_ns + (wait.end_ns - wait.begin_ns) / 2;
    let later = index.waits.after(wait).iter().take(WAITS_LOOKED_AT);
    let until = later.take_while(|other| other.begin_ns <= last.begin_ns);
    for other in until.filter(|other| is_of_events(other, wait)) {
        if is_ended_by_a_question(index, other) || ended_by_interrupt(other) {
            continue;
        }
        let Some(by) = ended_by(index, other) else { continue };
        let was_asked = other.place.object.is_some()
            || index.families.is_related(&by, &other.thread)
            || had_asked(index, other, &by);
        if was_asked && is_busy(index, &by, middle_ns) {
            return Some((by, other.end_ns));
        }
    }
    None
}

/// Who ended a wait for events: who is at the other end of what it was for, else who woke it.
fn ended_by(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let holder = holder(index, wait).or_else(|| far_end(index, wait));
    let waker = || waker(index, wait).filter(|_| !by_kernel_thread(wait));
    // A packet that stood in a queue is carried on in the time of whoever ran just then.
    let is_believed = |by: &&ThreadRef| {
        is_ended_by_a_question(index, wait)
            || index.families.is_related(by, &wait.thread)
            || had_asked(index, wait, by)
    };
    let carrier = || carrier(wait).filter(is_believed).cloned();
    let by = holder.or_else(waker).or_else(carrier);
    by.filter(|by| !index.model.threads.is_same(by, &wait.thread))
}

/// Whether a thread ran then, or waited for something else than its next question.
fn is_busy(index: &Index<'_>, thread: &ThreadRef, at_ns: Ns) -> bool {
    let pieces = index.timelines.pieces(index.model.threads.key(thread), at_ns, at_ns + 1);
    pieces.iter().any(|piece| match piece.doing {
        Doing::Running => true,
        Doing::Waiting(wait) => wait.class != WaitClass::Idle && !is_for_a_question(index, wait),
        Doing::Unseen => false,
    })
}

/// Whether a wait is one of the same loop: where it is known what ended it, it is a wait on that.
fn is_of_events(other: &WaitSpan, wait: &WaitSpan) -> bool {
    other.class != WaitClass::RunQueue
        && (other.class == WaitClass::Idle || other.place.syscall == wait.place.syscall)
}

/// Whether the time until which a loop would have waited was over when it answered: somebody's question came just before.
fn is_due(wait: &WaitSpan, answered_ns: Ns) -> bool {
    let slack_ns = if is_unseen(wait) { SAMPLES_APART.ns() } else { 0 };
    timeout_ns(&wait.place)
        .is_some_and(|ns| wait.begin_ns.saturating_add(ns) <= answered_ns + slack_ns)
}

/// Whether no task and no packet ended a wait: the clock, as a loop's descriptors are no disks.
pub(super) fn ended_by_interrupt(wait: &WaitSpan) -> bool {
    let context = wait.wake.as_ref().map(|wake| wake.context);
    context == Some(WakeContext::HardInterrupt) || has_timed_out(wait)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    const MS: Ns = 1_000_000;
    const CLIENT: u32 = 10;
    const SERVER: u32 = 20;
    const OTHER: u32 = 30;

    fn socket(ino: u64, local: &str, remote: &str, state: u8) -> ObjectRef {
        ObjectRef::Inet(InetRef {
            ino,
            netns: 1,
            protocol: "tcp".into(),
            local: local.parse().expect("address"),
            remote: remote.parse().expect("address"),
            state,
        })
    }

    fn listener() -> ObjectRef {
        socket(1, "127.0.0.1:80", "0.0.0.0:0", 10)
    }

    /// A wait from one millisecond to another, and who ended it from where.
    fn waits(
        (pid, syscall): (u32, &str),
        (begin_ms, end_ms): (u64, u64),
        object: Option<ObjectRef>,
        (context, by): (WakeContext, u32),
        timeout_ms: u64,
    ) -> Fact {
        let mut place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), object, ..Place::default() };
        place.args[3] = u64::from(syscall == "epoll_wait") * timeout_ms;
        let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
        let wake = Wake { at_ns: end_ns, context, by: thread(by, "other"), ..Wake::default() };
        let thread = thread(pid, "job");
        let wait = Wait { thread, begin_ns, end_ns, place, wake: Some(wake), ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    /// Process 10 asks 20 from 100 to 900 ms, which is an event loop; process 30 connects to that at 300 and 600 ms, and
    /// sleeps in between. `last`: what ends the loop's wait before it answers, and when.
    fn asked(
        last_ms: u64,
        last: (WakeContext, u32),
        object: Option<ObjectRef>,
        timeout_ms: u64,
    ) -> Vec<(EndKind, Option<u32>, f64)> {
        let to_server = socket(5, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let question = (WakeContext::SoftInterrupt, OTHER);
        let nobody = (WakeContext::HardInterrupt, 0);
        let mut facts = host();
        facts.extend([
            endpoint(SERVER, "loop", listener()),
            endpoint(SERVER, "loop", socket(6, "127.0.0.1:80", "127.0.0.1:5000", 1)),
            endpoint(CLIENT, "curl", to_server.clone()),
            waits((OTHER, "clock_nanosleep"), (0, 299), None, nobody, 0),
            waits((OTHER, "clock_nanosleep"), (302, 599), None, nobody, 0),
            waits((OTHER, "clock_nanosleep"), (602, 898), None, nobody, 0),
            waits((SERVER, "epoll_wait"), (101, 300), Some(listener()), question, timeout_ms),
            waits((SERVER, "epoll_wait"), (301, 600), Some(listener()), question, timeout_ms),
            waits((SERVER, "epoll_wait"), (601, last_ms), object, last, timeout_ms),
            waits(
                (CLIENT, "recvfrom"),
                (100, 900),
                Some(to_server),
                (WakeContext::SoftInterrupt, SERVER),
                0,
            ),
        ]);
        let (kind, name) = (TargetKind::Command, "curl".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: CLIENT,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let ends = explain(facts).answer.ends;
        ends.iter()
            .map(|end| (end.end, end.who.as_ref().and_then(|by| by.pid), end.seconds))
            .collect()
    }

    /// The end of most of the wait.
    fn most(ends: &[(EndKind, Option<u32>, f64)]) -> (EndKind, Option<u32>) {
        let others = ends.iter().find(|(_, who, _)| who.is_some_and(|by| by != CLIENT));
        let (kind, who, seconds) = *others.expect("an end");
        assert!((0.75..0.81).contains(&seconds), "{ends:?}");
        (kind, who)
    }

    #[test]
    fn who_asks_something_else_meanwhile_holds_nothing_up() {
        let ends = asked(899, (WakeContext::HardInterrupt, 0), None, 400);
        assert_eq!(most(&ends), (EndKind::Sleep, Some(SERVER)));
    }

    #[test]
    fn whose_question_the_answer_follows_is_who_was_waited_for() {
        let ends = asked(899, (WakeContext::SoftInterrupt, OTHER), Some(listener()), 400);
        assert_eq!(most(&ends), (EndKind::Sleep, Some(OTHER)));
    }

    #[test]
    fn in_whose_time_a_packet_of_nobody_known_came_is_a_bystander() {
        let ends = asked(899, (WakeContext::SoftInterrupt, OTHER), None, 400);
        assert!(ends.iter().all(|(_, who, _)| *who != Some(OTHER)), "{ends:?}");
    }

    /// Process 10 waits from the begin on for 20, an event loop that the clock wakes every 100 ms, until 30, which slept
    /// before, connects to that just before the look ends.
    #[test]
    fn who_comes_last_was_not_waited_for_all_along() {
        let to_server = socket(5, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let clock = (WakeContext::HardInterrupt, 0);
        let question = (WakeContext::SoftInterrupt, OTHER);
        let mut facts = host();
        facts.extend([
            endpoint(SERVER, "loop", listener()),
            endpoint(SERVER, "loop", socket(6, "127.0.0.1:80", "127.0.0.1:5000", 1)),
            endpoint(CLIENT, "curl", to_server.clone()),
            waits((OTHER, "clock_nanosleep"), (0, 948), None, clock, 0),
        ]);
        let tick = |n: u64| waits((SERVER, "epoll_wait"), (n, n + 99), None, clock, 99);
        facts.extend((0..9).map(|n| tick(n * 100)));
        let place = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(to_server),
            ..Place::default()
        };
        facts.extend([
            waits((SERVER, "epoll_wait"), (900, 950), Some(listener()), question, 99),
            at_place(CLIENT, "curl", place),
        ]);
        let (kind, name) = (TargetKind::Process, "curl".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: CLIENT,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let ends = explain(facts).answer.ends;
        let who = |end: &crate::answer::AnswerEnd| end.who.as_ref().and_then(|by| by.pid);
        assert!(ends.iter().all(|end| who(end) != Some(OTHER)), "{ends:?}");
    }

    #[test]
    fn but_a_time_of_its_own_that_is_over_then_counts_before_a_question() {
        let ends = asked(899, (WakeContext::SoftInterrupt, OTHER), Some(listener()), 298);
        assert_eq!(most(&ends), (EndKind::Sleep, Some(SERVER)));
    }

    #[test]
    fn where_nobody_sees_what_ends_a_wait_a_time_that_was_over_then_is_the_loops_own() {
        let unseen = (WakeContext::Unknown, 0);
        assert_eq!(most(&asked(899, unseen, None, 299)), (EndKind::Sleep, Some(SERVER)));
    }

    #[test]
    fn an_answer_after_nobody_knows_what_is_no_timer() {
        let ends = asked(899, (WakeContext::Unknown, 0), None, 400);
        assert!(ends.iter().all(|(kind, _, _)| *kind != EndKind::Sleep), "{ends:?}");
    }
}
