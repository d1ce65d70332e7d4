//! What an event loop waited for, where other events ended its waits in between.
//!
//! A server that answers many clients on one thread waits for whatever comes next: questions of other clients, the tick of
//! its clock. The wait in which somebody is owed an answer is cut by them, and who ended such a piece has not held the
//! answer up. What did is the event that the answer followed, or before that what somebody was busy with whom the loop had
//! asked. The answer is known by when it ended the asker's wait; from loop to loop (a proxy before a server) that time is
//! handed on, so that one connection of several is followed.
//!
//! Must not: look further than one thread and who ended its waits (responsible.rs orders that against all else). Rejected:
//! to blame whoever ended each piece (a server's other clients hold nothing up), and the longest piece (nobody is in it).

use super::next::{Asker, Next, Until};
use super::peers::Peers;
use super::wakers::{
    SAMPLES_APART_NS, by_kernel_thread, carrier, has_timed_out, is_unseen, timeout_ns,
};
use crate::facts::*;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::{Doing, WaitSpan};

/// Between two waits of one conversation a client does no more than look at the clock.
const PAUSE_NS_MAX: Ns = 50_000_000;
/// How long a loop may wait between an event and the answer to it.
const FOLLOWS_NS_MAX: Ns = 5_000_000;
/// Waits before or after one that are looked at.
const WAITS_MAX: usize = 256;

impl Peers<'_> {
    /// Whether who ended a wait for events has not done what somebody else waits for: he came with a question of his own, or is
    /// another process that was not asked, and no answer followed.
    pub(super) fn only_interrupts(
        &self,
        wait: &WaitSpan,
        by: &ThreadRef,
        asker: Option<Asker<'_>>,
    ) -> bool {
        let Some(asker) = self.outside(asker, wait).filter(|asker| asker.who.pid != by.pid) else {
            return false;
        };
        if wait.class != WaitClass::Idle || self.is_related(by, &wait.thread) {
            return false;
        }
        match self.answered_ns(asker, wait.thread.pid) {
            Some(answered_ns) => !self.follows(wait, answered_ns) && !self.had_asked(wait, by),
            None => self.is_ended_by_a_question(wait),
        }
    }

    /// What an event loop waited for in a wait that the clock ended, or somebody who only interrupts, if it has answered since.
    pub(super) fn after_others(&self, wait: &WaitSpan, asker: Option<Asker<'_>>) -> Option<Next> {
        let asker = self.outside(asker, wait)?;
        let answered_ns = self.answered_ns(asker, wait.thread.pid)?;
        if wait.class != WaitClass::Idle || answered_ns < wait.end_ns {
            return None;
        }
        let is_asker = |by: &ThreadRef| asker.who.pid == by.pid;
        let last = self.last_event(wait, answered_ns)?;
        if let Some((by, at_ns)) = self.busy_meanwhile(wait, last) {
            return Some(Next::Later(by, at_ns));
        }
        let is_question = self.is_ended_by_a_question(last);
        let may_be_due = is_question || is_unseen(last);
        let by_clock = ended_by_interrupt(last) || may_be_due && is_due(last, answered_ns);
        if by_clock && !(is_unseen(last) && self.ticks(last)) {
            return Some(Next::OwnClock);
        }
        let by = self.ended_by(last).filter(|by| !is_asker(by))?;
        if is_question && self.asks_often(last, &by) {
            let asked = self.only_asked(last)?;
            return Some(Next::Later(asked, answered_ns));
        }
        Some(match is_question {
            true => Next::Brought(by, last.end_ns),
            false => Next::Later(by, last.end_ns),
        })
    }

    /// Whether somebody ended waits of a loop again and again: that an answer to another followed once is chance.
    fn asks_often(&self, last: &WaitSpan, by: &ThreadRef) -> bool {
        const OFTEN: usize = 3;
        let before = self.waits_before(last).iter().rev().take(WAITS_MAX);
        let his = before.filter(|it| carrier(it).is_some_and(|from| from.pid == by.pid));
        his.take(OFTEN).count() == OFTEN
    }

    /// Whether the clock ended an earlier wait of a loop after just as long a time: it looks at the clock so often, and where nobody
    /// sees what ended the last, that it was the clock is chance.
    fn ticks(&self, last: &WaitSpan) -> bool {
        const APART_NS_MAX: Ns = 2_000_000;
        let Some(own_ns) = timeout_ns(&last.place) else { return false };
        let is_as_long = |it: &WaitSpan| {
            timeout_ns(&it.place).is_some_and(|ns| ns.abs_diff(own_ns) <= APART_NS_MAX)
        };
        let mut before = self.waits_before(last).iter().rev().take(WAITS_MAX);
        before.any(|it| has_timed_out(it) && is_as_long(it))
    }

    /// The one process that a loop has asked by connections of its own, if it is one: its answer came in too short a wait to be
    /// seen.
    fn only_asked(&self, last: &WaitSpan) -> Option<ThreadRef> {
        let before = self.waits_before(last).iter().rev().take(WAITS_MAX);
        let asks = before.filter(|it| is_of_events(it, last) && self.is_for_an_answer(it));
        let mut only: Option<ThreadRef> = None;
        for by in asks.filter_map(|it| self.ended_by(it)) {
            if only.as_ref().is_some_and(|known| known.pid != by.pid) {
                return None;
            }
            only = Some(by);
        }
        only
    }

    /// Who asked by a connection. Who belongs to the same program waits for a thing of theirs, and whoever has that keeps it
    /// until its own client lets it go.
    fn outside<'w>(&self, asker: Option<Asker<'w>>, wait: &WaitSpan) -> Option<Asker<'w>> {
        asker.filter(|asker| !self.is_related(asker.who, &wait.thread))
    }

    /// The last wait of a loop before it answered, if the answer followed its end.
    fn last_event(&self, wait: &WaitSpan, answered_ns: Ns) -> Option<&WaitSpan> {
        let all = self.waits_of(&wait.thread);
        let before = &all[..all.partition_point(|other| other.begin_ns < answered_ns)];
        let mut events = before.iter().rev().take(WAITS_MAX);
        let slack_ns = |other: &WaitSpan| if is_unseen(other) { SAMPLES_APART_NS } else { 0 };
        let last = events.find(|other| {
            is_of_events(other, wait) && other.end_ns <= answered_ns + slack_ns(other)
        })?;
        self.follows(last, answered_ns).then_some(last)
    }

    /// Who was at work, or held up, in a wait for events, and ended a later one, up to the last: he had been asked.
    fn busy_meanwhile(&self, wait: &WaitSpan, last: &WaitSpan) -> Option<(ThreadRef, Ns)> {
        let middle_ns = wait.begin_ns + (wait.end_ns - wait.begin_ns) / 2;
        let later = self.waits_after(wait).iter().take(WAITS_MAX);
        let until = later.take_while(|other| other.begin_ns <= last.begin_ns);
        for other in until.filter(|other| is_of_events(other, wait)) {
            if self.is_ended_by_a_question(other) || ended_by_interrupt(other) {
                continue;
            }
            let Some(by) = self.ended_by(other) else { continue };
            let was_asked = other.place.object.is_some()
                || self.is_related(&by, &other.thread)
                || self.had_asked(other, &by);
            if was_asked && self.is_busy(&by, middle_ns) {
                return Some((by, other.end_ns));
            }
        }
        None
    }

    /// Who ended a wait for events: who is at the other end of what it was for, else who woke it.
    fn ended_by(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let holder = self.holder(wait).or_else(|| self.far_end(wait));
        let waker = || self.waker(wait).filter(|_| !by_kernel_thread(wait));
        let by = holder.or_else(waker).or_else(|| carrier(wait).cloned());
        by.filter(|by| !self.model.threads.is_same(by, &wait.thread))
    }

    /// Whether a thread ran then, or waited for something else than its next question.
    fn is_busy(&self, thread: &ThreadRef, at_ns: Ns) -> bool {
        let pieces = self.timelines.pieces(self.model.threads.key(thread), at_ns, at_ns + 1);
        pieces.iter().any(|piece| match piece.doing {
            Doing::Running => true,
            Doing::Waiting(wait) => wait.class != WaitClass::Idle && !self.is_for_a_question(wait),
            Doing::Unseen => false,
        })
    }

    /// An event loop that looks at the clock between events, of which nobody knows when it answers: what ends one of its next
    /// waits, after waits that only the clock ended.
    pub(super) fn after_the_clock(&self, wait: &WaitSpan) -> Option<Next> {
        if !ended_by_interrupt(wait) {
            return None;
        }
        let mut until = wait.end_ns;
        for other in self.waits_after(wait) {
            if other.class == WaitClass::RunQueue {
                until = other.end_ns;
                continue;
            }
            let goes_on = other.place.syscall == wait.place.syscall;
            if other.begin_ns > until + PAUSE_NS_MAX || !goes_on {
                return None;
            }
            until = other.end_ns;
            if !ended_by_interrupt(other) {
                // Who came with a question of his own was not waited for until then.
                if self.is_ended_by_a_question(other) {
                    return None;
                }
                let holder = || self.holder(other).or_else(|| self.far_end(other));
                let waker = self.waker(other).filter(|_| !by_kernel_thread(other));
                return waker.or_else(holder).map(Next::Thread);
            }
        }
        None
    }

    /// When a process answered who waits for it: the end of the first wait of that conversation which it ended. Where nobody
    /// sees who ends a wait, of the first that took less time than it might have.
    fn answered_ns(&self, asker: Asker<'_>, pid: u32) -> Option<Ns> {
        let first = match asker.until {
            Until::At(at_ns) => return Some(at_ns),
            Until::Wait(wait) => wait,
        };
        let mut until = first.end_ns;
        let later = self.waits_after(first).iter().take(WAITS_MAX);
        for other in std::iter::once(first).chain(later) {
            if other.begin_ns > until.saturating_add(PAUSE_NS_MAX) {
                break;
            }
            let is_same = is_same_thing(&other.place, &first.place)
                && other.place.syscall == first.place.syscall;
            if !is_same || other.class == WaitClass::RunQueue {
                continue;
            }
            until = other.end_ns;
            if is_unseen(other) && !other.standing && !has_timed_out(other) {
                return Some(other.end_ns);
            }
            let by = self.waker(other).or_else(|| carrier(other).cloned());
            if by.is_some_and(|by| by.pid == pid) {
                return Some(other.end_ns);
            }
        }
        // Who looks at the clock meanwhile goes on waiting; he did not.
        (is_unseen(first) && !first.standing && until < self.model.look.end_ns).then_some(until)
    }

    /// The same, of whoever answers, where nobody sees who ends a wait.
    pub(super) fn answered_unseen_ns(&self, first: &WaitSpan) -> Option<Ns> {
        let nobody = 0;
        let asker = Asker { who: &first.thread, until: Until::Wait(first) };
        is_unseen(first).then(|| self.answered_ns(asker, nobody)).flatten()
    }

    /// Whether an answer followed the end of a wait, beside what the thread computed for it.
    fn follows(&self, wait: &WaitSpan, answered_ns: Ns) -> bool {
        let slack_ns = if is_unseen(wait) { SAMPLES_APART_NS } else { 0 };
        let Some(apart_ns) = (answered_ns + slack_ns).checked_sub(wait.end_ns) else {
            return false;
        };
        if apart_ns <= FOLLOWS_NS_MAX + 2 * slack_ns {
            return true;
        }
        let key = self.model.threads.key(&wait.thread);
        let pieces = self.timelines.pieces(key, wait.end_ns, answered_ns);
        let is_idle =
            |doing: &Doing<'_>| matches!(doing, Doing::Waiting(it) if it.class == WaitClass::Idle);
        let idle = pieces.iter().filter(|piece| is_idle(&piece.doing));
        idle.map(|piece| piece.end_ns - piece.begin_ns).sum::<Ns>() <= FOLLOWS_NS_MAX
    }

    /// Whether a loop had asked somebody before he ended its wait: it had ended a wait of his own not long before or meanwhile,
    /// and not by an answer to him.
    pub(super) fn had_asked(&self, wait: &WaitSpan, by: &ThreadRef) -> bool {
        const BEFORE_NS: Ns = 200_000_000;
        let since = wait.begin_ns.saturating_sub(BEFORE_NS);
        let asked = |other: &WaitSpan| {
            let from = self.waker(other).or_else(|| carrier(other).cloned());
            from.is_some_and(|from| from.pid == wait.thread.pid)
                && !other.place.syscall.is_empty()
                && !self.is_for_an_answer(other)
        };
        self.threads_of(&[by.pid]).iter().any(|thread| {
            let all = self.waits_of(thread);
            let near = all[..all.partition_point(|other| other.begin_ns <= wait.end_ns)].iter();
            let near = near.rev().take_while(|other| other.end_ns >= since);
            near.filter(|other| other.end_ns <= wait.end_ns).any(asked)
        })
    }

    /// Whether a wait is on a connection that its own process made: for an answer, and for no question.
    fn is_for_an_answer(&self, wait: &WaitSpan) -> bool {
        match &wait.place.object {
            Some(ObjectRef::Inet(socket)) => socket.remote.port() != 0 && !self.is_accepted(socket),
            Some(ObjectRef::Unix { peer_ino, .. }) => {
                *peer_ino != 0 && !self.is_for_a_question(wait)
            }
            _ => false,
        }
    }

    /// Whether somebody's question, or his new connection, ended a wait for events.
    fn is_ended_by_a_question(&self, wait: &WaitSpan) -> bool {
        match &wait.place.object {
            Some(ObjectRef::Inet(socket)) if socket.state == TCP_LISTEN => true,
            Some(_) => self.is_for_a_question(wait),
            None => false,
        }
    }

    /// One process, or one that the other began, or two of one program that a third one began: they work for each other.
    fn is_related(&self, one: &ThreadRef, other: &ThreadRef) -> bool {
        let are_siblings = || {
            let parent = self.parent_of(one.pid);
            parent.is_some_and(|pid| pid > 1 && self.parent_of(other.pid) == Some(pid))
                && self.model.threads.process_name(one.pid)
                    == self.model.threads.process_name(other.pid)
        };
        self.descends(one.pid, other.pid) || self.descends(other.pid, one.pid) || are_siblings()
    }
}

/// Whether two waits are on the same: the state of a connection changes as its answer comes.
pub(super) fn is_same_thing(one: &Place, other: &Place) -> bool {
    match (&one.object, &other.object) {
        (Some(ObjectRef::Inet(one)), Some(ObjectRef::Inet(other))) => one.ino == other.ino,
        (one, other) => one == other,
    }
}

/// Whether a wait is one of the same loop: where it is known what ended it, it is a wait on that.
fn is_of_events(other: &WaitSpan, wait: &WaitSpan) -> bool {
    other.class != WaitClass::RunQueue
        && (other.class == WaitClass::Idle || other.place.syscall == wait.place.syscall)
}

/// Whether the time until which a loop would have waited was over when it answered: somebody's question came just before.
fn is_due(wait: &WaitSpan, answered_ns: Ns) -> bool {
    let slack_ns = if is_unseen(wait) { SAMPLES_APART_NS } else { 0 };
    timeout_ns(&wait.place)
        .is_some_and(|ns| wait.begin_ns.saturating_add(ns) <= answered_ns + slack_ns)
}

/// Whether no task and no packet ended a wait: the clock, as a loop's descriptors are no disks.
fn ended_by_interrupt(wait: &WaitSpan) -> bool {
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
