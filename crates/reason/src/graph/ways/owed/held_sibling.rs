//! The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be the waiter's.
//!
//! For at least half of the time. Must not: look at waits for other threads of that process, which say nothing new, or for a client's next
//! question, at which a thread rests that serves one client. A client who has spoken last is owed an answer: who waits for the rest of what
//! he sends does not rest, and may hold something meanwhile. Nor a thread that has stood since before what a loop has read (taken.rs).

use crate::facts::{Ns, ThreadRef};
use crate::graph::debts::APART_MIN;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::{is_for_a_question, is_for_next_question};
use crate::graph::taken;
use crate::graph::wakers::carrier;
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::model::object::Object;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "held thread",
    because: "it is the thread of that process that is held up itself",
    of: FOR_EVENTS,
    thresholds: &[],
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
        let waits =
            waits.filter(|w| w.class.is_outside() && !is_rest(index, w) && !is_unasked(index, w));
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
    use crate::rules::scenes::{LOOK_NS, descriptor, endpoint};

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
}
