//! The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be the waiter's.
//!
//! For at least half of the time. Must not: look at waits for other threads of that process, which say nothing new, or for a client's next
//! question, at which a thread rests that serves one client. A client who has spoken last is owed an answer: who waits for the rest of what
//! he sends does not rest, and may hold something meanwhile.

use crate::facts::{Ns, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::{is_for_a_question, is_for_next_question};
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::model::object::Object;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "held thread",
    because: "it is the thread of that process that is held up itself",
    of: FOR_EVENTS,
    thresholds: &[],
    follow: |at| held_sibling(at.index, at.wait).map(Next::Thread),
};

/// The thread of the same process that was held up longest meanwhile by something outside of it: a lock of its own may be
/// the waiter's.
pub(super) fn held_sibling(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let threads = index.waits.held_outside(wait.thread.pid).iter();
    let others = threads.filter(|other| !index.model.threads.is_same(other, &wait.thread));
    let outside = |thread: &ThreadRef| -> Ns {
        let waits = index.waits.within(thread, wait.begin_ns, wait.end_ns).iter();
        let waits = waits.filter(|w| w.class.is_outside() && !is_rest(index, w));
        waits.map(|w| w.within_ns(wait.begin_ns, wait.end_ns)).sum()
    };
    others
        .map(|thread| (outside(thread), *thread))
        .filter(|(held, _)| *held * 2 >= wait.end_ns.saturating_sub(wait.begin_ns))
        .max_by_key(|(held, thread)| (*held, std::cmp::Reverse(thread.tid)))
        .map(|(_, thread)| thread.clone())
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
}
