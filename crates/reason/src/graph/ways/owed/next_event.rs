//! An event loop that looks at the clock between events, of which nobody knows when it answers: what ends one of its next waits.
//!
//! Waits that the clock ended, or the loop itself, are passed over; a loop whose threads take turns at one epoll (Go, tokio) is one loop. Where another
//! thread of the process ended the wait, who ended that one's, and so on back to who stood all the while. Nobody has ended
//! one that stands: what leads on is what it polls, if who is there is held up: it has polled that before too, as far as it had asked there by then.
//! Must not: take who came with a question of his own for somebody who was waited for, or who was asked only after the clock had ended the
//! wait: until then it was for a time of the loop's own. Rejected: the next wait of the same thread alone (a
//! runtime's next wait is often another thread's).

use super::descriptors;
use super::event_loop::ended_by_interrupt;
use crate::facts::{Ns, ThreadRef};
use crate::graph::at_rest;
use crate::graph::channels::far_end;
use crate::graph::conversation::{PAUSE_MAX, WAITS_LOOKED_AT, owes};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::is_ended_by_a_question;
use crate::graph::wakers::{SAMPLES_APART, by_kernel_thread, waker};
use crate::graph::ways::held::holder;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::cell::OnceCell;

/// Threads of a process that may have a loop next: a bound on the work. A runtime has one for each CPU, or a few more.
const THREADS_LOOKED_AT: usize = 64;
/// Threads of a runtime each of which woke the next.
const HANDED_ON_MAX: usize = 8;

/// The way.
pub(super) static WAY: Way = Way {
    name: "next event",
    because: "it ended the first wait after this one that the clock alone did not end",
    of: FOR_EVENTS,
    thresholds: &[&PAUSE_MAX, &SAMPLES_APART],
    follow: |at| after_the_clock(at).filter(|by| at.was_there(by)).map(Next::Thread),
};

/// An event loop that looks at the clock between events, of which nobody knows when it answers: what ends one of its next
/// waits, after waits that only the clock ended.
fn after_the_clock(at: &Waiter<'_>) -> Option<ThreadRef> {
    let (index, wait) = (at.index, at.wait);
    if !ended_by_interrupt(wait) {
        return None;
    }
    let known = OnceCell::new();
    let threads = || known.get_or_init(|| index.families.threads_of(&[wait.thread.pid]));
    let is_epoll = wait.place.syscall.starts_with("epoll_");
    let mut last = wait;
    for _ in 0..WAITS_LOOKED_AT {
        let handed_over = || is_epoll.then(threads).and_then(|all| handed_over(index, last, all));
        last = goes_on(index, last).or_else(handed_over)?;
        if !passes_over(last) {
            break;
        }
    }
    // Who came with a question of his own was not waited for until then.
    if passes_over(last) || is_ended_by_a_question(index, last) {
        return None;
    }
    let holder = || holder(index, last).or_else(|| far_end(index, last));
    let waker = waker(index, last).filter(|_| !by_kernel_thread(last));
    let still_polled = || held_up_there(&Waiter { wait: last, ..*at });
    let by = waker.or_else(holder).or_else(still_polled);
    let by = by.map(|by| at_the_begin(index, wait, by, last.end_ns));
    by.filter(|by| !is_asked_later(index, wait, last, by))
}

/// Of a thread of the waiter's own process that ended a wait at a time, who stood while the waiter did: the thread itself, or who woke it after less, and
/// so on. Whoever ran then is it, and so is another process.
fn at_the_begin(index: &Index<'_>, wait: &WaitSpan, by: ThreadRef, ended_ns: Ns) -> ThreadRef {
    let (mut by, mut until_ns) = (by, ended_ns);
    for _ in 0..HANDED_ON_MAX {
        let all = index.waits.of(&by);
        let before = all[..all.partition_point(|it| it.begin_ns < until_ns)].iter().rev();
        // What it did on the way, a brief write to a disk say, is no reason to look there.
        let mut before = before.filter(|it| it.class != WaitClass::RunQueue && !is_brief(it));
        let Some(last) = before.find(|it| it.end_ns <= until_ns) else { break };
        let ran_meanwhile = last.end_ns.saturating_add(PAUSE_MAX.ns()) < until_ns;
        if by.pid != wait.thread.pid || ran_meanwhile || last.begin_ns < wait.end_ns {
            break;
        }
        let Some(next) = waker(index, last).filter(|_| !by_kernel_thread(last)) else { break };
        (by, until_ns) = (next, last.end_ns);
    }
    by
}

/// Who is left of those whom a loop polls that stands, and is held up.
fn held_up_there(at: &Waiter<'_>) -> Option<ThreadRef> {
    let Next::Thread(by) = (descriptors::WAY.follow)(at).filter(|_| at.wait.standing)? else {
        return None;
    };
    (!at_rest::rests(at.index, by.pid, at.wait.begin_ns)).then_some(by)
}

/// Whether a loop's process asked somebody only after the clock had ended a wait, and he owed it nothing until then.
fn is_asked_later(index: &Index<'_>, wait: &WaitSpan, last: &WaitSpan, by: &ThreadRef) -> bool {
    let (talk, within) = ((wait.thread.pid, &[by.pid][..]), (wait.end_ns, last.end_ns));
    let asks = || index.woken.first_ns(talk, within, PAUSE_MAX.ns()).is_some();
    by.pid != wait.thread.pid && asks() && !owes(index, wait, by.pid)
}

/// Whether nobody else ended a wait: the clock did, another thread of the loop's own passed it on at once, or there was something
/// already and the thread only gave way to others.
fn passes_over(wait: &WaitSpan) -> bool {
    let by_itself = wait.wake.as_ref().is_none_or(|wake| wake.by.pid == wait.thread.pid);
    ended_by_interrupt(wait) || by_itself && !wait.standing && is_brief(wait)
}

fn is_brief(wait: &WaitSpan) -> bool {
    wait.end_ns.saturating_sub(wait.begin_ns) < SAMPLES_APART.ns()
}

/// The next wait of a loop on its own thread, if that begins at once.
fn goes_on<'a>(index: &Index<'a>, last: &WaitSpan) -> Option<&'a WaitSpan> {
    let mut until = last.end_ns;
    for other in index.waits.after(last) {
        if other.class == WaitClass::RunQueue {
            until = other.end_ns;
            continue;
        }
        // Another word is another thing: a virtual machine also sleeps so.
        let is_next = other.place.syscall == last.place.syscall
            && other.word() == last.word()
            && other.begin_ns <= until.saturating_add(PAUSE_MAX.ns());
        return is_next.then_some(other);
    }
    None
}

/// The next wait of a loop on another thread of its process: where one of several waits at the same epoll at a time (Go, tokio).
fn handed_over<'a>(
    index: &Index<'a>,
    last: &WaitSpan,
    threads: &[ThreadRef],
) -> Option<&'a WaitSpan> {
    let until = last.end_ns.saturating_add(PAUSE_MAX.ns());
    let next = |thread: &ThreadRef| {
        let all = index.waits.of(thread);
        let later = all[all.partition_point(|it| it.begin_ns < last.end_ns)..].iter();
        let mut near = later.take_while(|it| it.begin_ns <= until);
        near.find(|it| {
            (&it.place.syscall, it.place.args[0]) == (&last.place.syscall, last.place.args[0])
        })
    };
    threads.iter().take(THREADS_LOOKED_AT).filter_map(next).min_by_key(|it| it.begin_ns)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, ended, led, of_ten, place};
    use crate::rules::scenes::{LOOK_NS, descriptor, thread};

    /// Thread 10 looks at the clock, and then 20 ends its next wait, so long after.
    fn next(pause_ns: Ns) -> (&'static str, Option<u32>) {
        next_by(pause_ns, thread(20, "job"))
    }

    fn next_by(pause_ns: Ns, by: ThreadRef) -> (&'static str, Option<u32>) {
        let first = ended(
            of_ten(10),
            place("select", NO_ARGS, None),
            ThreadRef::default(),
            WakeContext::HardInterrupt,
        );
        let begin_ns = LOOK_NS - 1_000_000_000 + pause_ns;
        let wake = Some(Wake { at_ns: LOOK_NS, context: WakeContext::Task, by, ..Wake::default() });
        let (thread, place) = (of_ten(10), place("select", NO_ARGS, None));
        let second = Wait { thread, begin_ns, end_ns: LOOK_NS, place, wake, ..Wait::default() };
        led(vec![first, Fact { at_ns: LOOK_NS, body: Body::Wait(second) }])
    }

    /// Thread 10 looks at the clock, and then 20 ends the next wait of thread 11 at this epoll.
    fn next_on_another_thread(epoll: u64) -> (&'static str, Option<u32>) {
        let place = |fd| place("epoll_pwait", [fd, 0, 128, 100, 0, 0], None);
        let by_clock = WakeContext::HardInterrupt;
        let first = ended(of_ten(10), place(4), ThreadRef::default(), by_clock);
        let wake = Some(Wake {
            at_ns: LOOK_NS,
            context: WakeContext::Task,
            by: thread(20, "job"),
            ..Wake::default()
        });
        let (thread, begin_ns) = (of_ten(11), LOOK_NS - 999_000_000);
        let place = place(epoll);
        let second = Wait { thread, begin_ns, end_ns: LOOK_NS, place, wake, ..Wait::default() };
        let known = Thread { thread: of_ten(11), ..Thread::default() };
        let known = Fact { at_ns: 0, body: Body::Thread(known) };
        led(vec![known, first, Fact { at_ns: LOOK_NS, body: Body::Wait(second) }])
    }

    #[test]
    fn a_loop_that_goes_from_thread_to_thread_is_one() {
        assert_eq!(next_on_another_thread(4), ("next event", Some(20)));
        assert_eq!(next_on_another_thread(5), ("", None), "another loop");
    }

    #[test]
    fn who_ends_the_next_wait_was_waited_for_if_that_goes_on_at_once() {
        assert_eq!(next(10_000_000), ("next event", Some(20)));
        assert_eq!(next(200_000_000), ("", None), "it did something else in between");
        let late = ThreadRef { start_ns: LOOK_NS - 900_000_000, ..thread(20, "job") };
        assert_eq!(next_by(10_000_000, late), ("", None), "he came after what was waited for");
    }

    /// Thread 10 looks at the clock at 4 s, and 20 ends its next wait; when the process of 10 woke 20, milliseconds.
    fn next_of(asked_ms: u64) -> (&'static str, Option<u32>) {
        let server = || thread(20, "server");
        let wake = |at_ns, by: ThreadRef| {
            Some(Wake { at_ns, context: WakeContext::SoftInterrupt, by, ..Wake::default() })
        };
        let end_ns = asked_ms * 1_000_000;
        let asked = Wait {
            thread: server(),
            begin_ns: end_ns - 1_000_000,
            end_ns,
            place: place("epoll_wait", NO_ARGS, None),
            wake: wake(end_ns, of_ten(10)),
            ..Wait::default()
        };
        let first = ended(
            of_ten(10),
            place("epoll_wait", NO_ARGS, None),
            ThreadRef::default(),
            WakeContext::HardInterrupt,
        );
        let second = Wait {
            thread: of_ten(10),
            begin_ns: LOOK_NS - 990_000_000,
            end_ns: LOOK_NS - 900_000_000,
            place: place("epoll_wait", NO_ARGS, None),
            wake: Some(Wake {
                at_ns: LOOK_NS - 900_000_000,
                context: WakeContext::Task,
                by: server(),
                ..Wake::default()
            }),
            ..Wait::default()
        };
        let at = |wait: Wait| Fact { at_ns: wait.end_ns, body: Body::Wait(wait) };
        led(vec![first, at(asked), at(second)])
    }

    #[test]
    fn who_is_asked_only_when_a_time_is_over_was_not_waited_for_until_then() {
        assert_eq!(next_of(4_005), ("", None), "it was for a time of its own");
        assert_eq!(next_of(20), ("next event", Some(20)), "he owed the answer all the while");
    }

    /// Thread 10 looks at the clock, and then stands, and polls its connection to server 20, which does this; when the process of 10 woke it, if it did.
    fn still_polled(server: Place, asked_ns: Option<Ns>) -> (&'static str, Option<u32>) {
        let unix = |ino: u64, path: Option<&str>| {
            let path = path.map(Into::into);
            ObjectRef::Unix { ino, peer_ino: ino ^ 1, path }
        };
        let clock = WakeContext::HardInterrupt;
        let first =
            ended(of_ten(10), place("epoll_wait", NO_ARGS, None), ThreadRef::default(), clock);
        let stands = |thread: ThreadRef, place: Place, since_ns: Ns| {
            let blocked = Blocked { thread, place, since_ns, ..Blocked::default() };
            Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
        };
        let polls = Place { polled: vec![5], ..place("epoll_wait", NO_ARGS, None) };
        let by_ten =
            |at_ns| Wake { at_ns, context: WakeContext::Task, by: of_ten(10), ..Wake::default() };
        let asked = asked_ns.map(|end_ns| Wait {
            thread: thread(20, "server"),
            begin_ns: 0,
            end_ns,
            place: place("epoll_wait", NO_ARGS, None),
            wake: Some(by_ten(end_ns)),
            ..Wait::default()
        });
        let mut facts = vec![
            first,
            stands(of_ten(10), polls, LOOK_NS - 990_000_000),
            descriptor(10, 5, "app", unix(100, None)),
            descriptor(20, 5, "server", unix(101, Some("/run/server.sock"))),
            stands(thread(20, "server"), server, asked_ns.unwrap_or(0)),
        ];
        facts.extend(asked.map(|wait| Fact { at_ns: wait.end_ns, body: Body::Wait(wait) }));
        led(facts)
    }

    /// Thread 10 looks at the clock, and then its thread 11 ends its next wait, whom thread 12 had woken; what that waited for, and since when.
    fn handed_on(since_ns: Ns) -> (&'static str, Option<u32>) {
        let clock = WakeContext::HardInterrupt;
        let loop_ = |begin_ns, end_ns, context, by| {
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let (thread, place) = (of_ten(10), place("epoll_pwait", NO_ARGS, None));
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let waits = |tid, syscall, (begin_ns, end_ns), by| {
            let wake =
                Some(Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() });
            let (thread, place) = (of_ten(tid), place(syscall, NO_ARGS, None));
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let (half, end) = (LOOK_NS / 2, LOOK_NS - 10_000_000);
        led(vec![
            loop_(0, half, clock, ThreadRef::default()),
            loop_(half + 1000, end, WakeContext::Task, of_ten(11)),
            waits(11, "futex", (half + 2000, end - 2_000_000), of_ten(12)),
            waits(12, "read", (since_ns, end - 3_000_000), thread(20, "job")),
        ])
    }

    #[test]
    fn of_threads_that_woke_each_other_the_one_that_stood_all_the_while_counts() {
        assert_eq!(handed_on(1000), ("next event", Some(12)));
        let (_, later) = handed_on(LOOK_NS / 2 + 3000);
        assert_eq!(later, Some(20), "it began only then: who woke it");
    }

    #[test]
    fn whom_a_loop_still_polls_it_waited_for_before_the_clock_too_if_that_is_held_up() {
        let file = || ObjectRef::File(FileRef { ino: 9, ..FileRef::default() });
        let held = || place("flock", NO_ARGS, Some(file()));
        assert_eq!(still_polled(held(), None), ("next event", Some(20)));
        assert_eq!(still_polled(held(), Some(20_000_000)), ("next event", Some(20)));
        let rests = place("epoll_wait", NO_ARGS, None);
        assert_eq!(still_polled(rests, None), ("", None), "it has answered, or was not asked");
        let later = Some(LOOK_NS - 995_000_000);
        assert_eq!(still_polled(held(), later), ("", None), "it was asked only then");
    }

    #[test]
    fn a_sleep_on_another_word_is_another_thing() {
        let futex = |word| place("futex", [word, 137, 0, 0x9000, 0, 0], None);
        let on = |word| {
            let by_clock = WakeContext::HardInterrupt;
            let first = ended(of_ten(10), futex(0x7008), ThreadRef::default(), by_clock);
            let wake = Some(Wake {
                at_ns: LOOK_NS,
                context: WakeContext::Task,
                by: of_ten(12),
                ..Wake::default()
            });
            let begin_ns = LOOK_NS - 999_000_000;
            let (thread, place) = (of_ten(10), futex(word));
            let second = Wait { thread, begin_ns, end_ns: LOOK_NS, place, wake, ..Wait::default() };
            led(vec![first, Fact { at_ns: LOOK_NS, body: Body::Wait(second) }])
        };
        assert_eq!(on(0x700c), ("next event", Some(12)), "the other word of one condition");
        assert_eq!(on(0x7048), ("", None));
    }
}
