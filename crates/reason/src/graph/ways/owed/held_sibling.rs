//! The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be the waiter's.
//!
//! For at least half of the time. Must not: look at waits for other threads of that process, which say nothing new, or for a client's next
//! question, at which a thread rests that serves one client. A client who has spoken last is owed an answer: who waits for the rest of what
//! he sends does not rest, and may hold something meanwhile. Nor a thread that has stood since before what a loop has read (taken.rs), nor one that
//! got an answer which the waiter itself had asked for only when a time of its own was over.

use crate::facts::{Ns, ThreadRef};
use crate::graph::conversation::PAUSE_MAX;
use crate::graph::debts::APART_MIN;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::{is_for_a_question, is_for_next_question};
use crate::graph::taken;
use crate::graph::wakers::{carrier, is_by_clock};
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "held thread",
    because: "it is the thread of that process that is held up itself",
    of: FOR_EVENTS,
    thresholds: &[&PAUSE_MAX],
    follow: |at| {
        let may_have_it = taken::beside(at);
        let may = |it: &ThreadRef| may_have_it.iter().any(|other| other.tid == it.tid);
        held_of(at.index, at.wait, may).map(Next::Thread)
    },
};

/// The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be
/// the waiter's.
pub(super) fn held_sibling(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    held_of(index, wait, |_| true)
}

/// The same of those that may be it.
fn held_of(
    index: &Index<'_>,
    wait: &WaitSpan,
    may: impl Fn(&ThreadRef) -> bool,
) -> Option<ThreadRef> {
    let threads = index.waits.held_outside(wait.thread.pid).iter();
    let others = threads.filter(|other| !index.model.threads.is_same(other, &wait.thread));
    let others = others.filter(|other| may(other));
    let outside = |thread: &ThreadRef| -> Ns {
        let waits = index.waits.within(thread, wait.begin_ns, wait.end_ns).iter();
        let waits = waits.filter(|w| {
            w.class.is_outside()
                && !is_rest(index, w)
                && !is_unasked(index, w)
                && !is_asked_after(index, wait, w)
        });
        waits.map(|w| w.within_ns(wait.begin_ns, wait.end_ns)).sum()
    };
    others
        .map(|thread| (outside(thread), *thread))
        .filter(|(held, _)| *held * 2 >= wait.end_ns.saturating_sub(wait.begin_ns))
        .max_by_key(|(held, thread)| (*held, std::cmp::Reverse(thread.tid)))
        .map(|(_, thread)| thread.clone())
}

/// Whether a thread waits on a connection of its process's own on which nobody owes an answer: the other end had had the last word, by its clocks or as it ended the wait
/// before; and what came at last, if it did, followed a question of somewhat later. Without one it may be the rest of an answer.
fn is_unasked(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let (pid, Object::Inet(ino)) = (wait.thread.pid, &wait.object) else { return false };
    let socket = index.model.called.socket(*ino);
    let far = socket.map(|socket| index.connections.far_processes(socket));
    let far: Vec<u32> = far.into_iter().flatten().map(|far| far.pid).collect();
    let is_theirs = |wait: &WaitSpan| carrier(wait).is_some_and(|by| far.contains(&by.pid));
    let asked_ns = |from, to| index.woken.first_ns((pid, &far[..]), (from, to), 0);
    let last = index.waits.before(wait).iter().rev().find(|it| it.object == wait.object);
    let is_answered = || {
        let last = last.filter(|it| is_theirs(it));
        last.is_some_and(|it| asked_ns(it.end_ns, wait.end_ns).is_none())
    };
    let later_ns = wait.begin_ns.saturating_add(APART_MIN.ns());
    let is_asked = || asked_ns(later_ns, wait.end_ns).is_some();
    (index.said.is_all(pid, *ino, wait.begin_ns) || is_answered())
        && (!is_theirs(wait) || is_asked())
}

/// Whether the clock ended a wait of a thread, which asked only then what ended the wait of another on a connection; and had not asked right before
/// it, as who looks at the clock while he waits for an answer, and asks again.
fn is_asked_after(index: &Index<'_>, own: &WaitSpan, other: &WaitSpan) -> bool {
    let (pid, Object::Inet(ino)) = (own.thread.pid, &other.object) else { return false };
    if own.standing || !is_by_clock(own) {
        return false;
    }
    let socket = index.model.called.socket(*ino);
    let far = socket.map(|socket| index.connections.far_processes(socket));
    let far: Vec<u32> = far.into_iter().flatten().map(|far| far.pid).collect();
    let asked_ns = |from: Ns, to: Ns| {
        let woken = index.woken.by(pid, from, to.saturating_add(PAUSE_MAX.ns())).iter();
        let woken = woken.filter(|it| far.contains(&it.thread.pid));
        let wakes = woken.filter_map(|it| it.wake.as_ref());
        let own = wakes.filter(|wake| wake.by.tid == own.thread.tid).map(|wake| wake.at_ns);
        own.filter(|at_ns| (from..=to).contains(at_ns)).min()
    };
    let mut before = index.waits.before(own).iter().rev();
    let last = before.find(|it| it.class != WaitClass::RunQueue && it.end_ns <= own.begin_ns);
    let went_on_ns = last.map_or(0, |it| it.end_ns);
    let asks = asked_ns(own.end_ns, own.end_ns.saturating_add(PAUSE_MAX.ns()));
    asks.is_some_and(|at_ns| at_ns <= other.end_ns)
        && carrier(other).is_some_and(|by| far.contains(&by.pid))
        && asked_ns(went_on_ns, own.begin_ns).is_none()
}

/// Whether a thread rests at a client's next question. Where no clocks say who spoke last (a unix socket has none), any wait for a client
/// counts.
fn is_rest(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let has_clocks = matches!(wait.object, Object::Inet(_)) && index.debts.knows(wait.thread.pid);
    if has_clocks { is_for_next_question(index, wait) } else { is_for_a_question(index, wait) }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{CONDITION, NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::{inet, with_state};
    use crate::rules::scenes::{LOOK_NS, descriptor, endpoint, thread};

    #[test]
    fn the_thread_that_is_held_up_from_outside_is_it_and_one_that_rests_is_not() {
        let waits = || stands(of_ten(10), place("futex", CONDITION, None));
        let other = |syscall: &str, object| stands(of_ten(12), place(syscall, NO_ARGS, object));
        let flock = FileRef { ino: 9, ..FileRef::default() };
        let held = other("flock", Some(ObjectRef::File(flock)));
        assert_eq!(led(vec![waits(), held]), ("held thread", Some(12)));
        assert_eq!(led(vec![waits(), other("epoll_wait", None)]), ("", None));
        let socket = || inet("tcp", 100, "10.0.0.1:80", "10.0.0.2:40000", 1);
        let reads = || other("read", Some(socket()));
        assert_eq!(led(vec![waits(), reads()]).1, Some(12), "it made the connection");
        let listens = endpoint(10, "app", inet("tcp", 101, "0.0.0.0:80", "0.0.0.0:0", 10));
        assert_eq!(
            led(vec![waits(), reads(), listens]),
            ("", None),
            "for a client's next question"
        );
    }

    /// Thread 10 waits at a condition; thread 12 of the same server reads from a client, who spoke so many jiffies ago, as it did itself.
    fn led_to(received_jiffies: u32, sent_jiffies: u32) -> (&'static str, Option<u32>) {
        let client = || inet("tcp", 100, "10.0.0.1:80", "10.0.0.2:40000", 1);
        let turn =
            TcpTurn { received_jiffies, sent_jiffies, jiffy_ns: 4_000_000, ..TcpTurn::default() };
        let state = SocketState {
            turn: Some(turn),
            acked_bytes: 80,
            received_bytes: 900,
            ..SocketState::default()
        };
        let Fact { body, .. } = with_state(10, "app", client(), state);
        led(vec![
            stands(of_ten(10), place("futex", CONDITION, None)),
            stands(of_ten(12), place("read", NO_ARGS, Some(client()))),
            descriptor(10, 4, "app", inet("tcp", 101, "0.0.0.0:80", "0.0.0.0:0", 10)),
            Fact { at_ns: LOOK_NS, body },
        ])
    }

    #[test]
    fn who_reads_the_rest_of_a_question_is_held_up_and_who_has_answered_it_rests() {
        assert_eq!(led_to(1500, 2000), ("held thread", Some(12)), "a slow upload");
        assert_eq!(led_to(2000, 1500), ("", None), "it was answered");
    }

    #[test]
    fn a_thread_on_whose_connection_nobody_owes_an_answer_is_not_held_up() {
        let near = || inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let beside = |came_jiffies: u32, went_jiffies: u32| {
            let turn = TcpTurn {
                sent_jiffies: 1_250 - went_jiffies,
                received_jiffies: 1_250 - came_jiffies,
                jiffy_ns: 4_000_000,
                ..TcpTurn::default()
            };
            let (turn, acked_bytes, received_bytes) = (Some(turn), 80, 90);
            let state = SocketState { turn, acked_bytes, received_bytes, ..SocketState::default() };
            let read = Fact { at_ns: LOOK_NS, ..with_state(10, "app", near(), state) };
            let waits = stands(of_ten(10), place("futex", CONDITION, None));
            led(vec![read, waits, stands(of_ten(12), place("recvfrom", NO_ARGS, Some(near())))])
        };
        assert_eq!(beside(0, 4), ("unanswered", None), "it has asked");
        assert_eq!(beside(4, 0), ("", None), "it has its answer");
    }

    /// Thread 10 waits at a word until the clock ends that at a second, and then this thread wakes server 20, which ends the wait of thread 12 on their
    /// connection; whether thread 10 had woken it right before as well.
    fn beside_a_timed_wait(by: u32, asks_before: bool) -> Option<u32> {
        const MS: Ns = 1_000_000;
        let near = || inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = || inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let wait = |who: ThreadRef, at: Place, (begin_ms, end_ms): (u64, u64), by: ThreadRef| {
            let context = match by.tid {
                0 => WakeContext::HardInterrupt,
                _ => WakeContext::SoftInterrupt,
            };
            let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let it = Wait { thread: who, begin_ns, end_ns, place: at, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(it) }
        };
        let server = || thread(20, "server");
        let epoll = |object| place("epoll_wait", NO_ARGS, Some(object));
        let word = place("futex", [0x7000, 137, 0, 0x9000, 0, 0], None);
        let (asked_ms, asks) = if asks_before { (95, 10) } else { (50, 13) };
        led(vec![
            wait(of_ten(10), word, (100, 1_100), ThreadRef::default()),
            wait(server(), epoll(far()), (1, asked_ms), of_ten(asks)),
            wait(server(), epoll(far()), (asked_ms + 1, 1_105), of_ten(by)),
            wait(of_ten(12), epoll(near()), (52, 1_106), server()),
            endpoint(20, "server", far()),
            endpoint(20, "server", inet("tcp", 201, "127.0.0.1:80", "0.0.0.0:0", 10)),
            endpoint(10, "app", near()),
        ])
        .1
    }

    #[test]
    fn what_a_thread_asks_for_when_its_sleep_is_over_it_has_not_waited_for() {
        assert_eq!(beside_a_timed_wait(10, false), None);
        assert_eq!(beside_a_timed_wait(14, false), Some(12), "another thread has asked");
        assert_eq!(beside_a_timed_wait(10, true), Some(12), "it asks again");
    }
}
