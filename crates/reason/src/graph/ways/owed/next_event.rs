//! An event loop that looks at the clock between events, of which nobody knows when it answers: what ends one of its next waits.
//!
//! Waits that only the clock ended are passed over. Must not: take who came with a question of his own for somebody who was waited for.

use super::event_loop::ended_by_interrupt;
use crate::graph::channels::far_end;
use crate::graph::conversation::PAUSE_MAX;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::is_ended_by_a_question;
use crate::graph::wakers::{by_kernel_thread, waker};
use crate::graph::ways::held::holder;
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "next event",
    because: "it ended the first wait after this one that the clock alone did not end",
    of: FOR_EVENTS,
    thresholds: &[&PAUSE_MAX],
    follow: |at| after_the_clock(at.index, at.wait),
};

/// An event loop that looks at the clock between events, of which nobody knows when it answers: what ends one of its next
/// waits, after waits that only the clock ended.
fn after_the_clock(index: &Index<'_>, wait: &WaitSpan) -> Option<Next> {
    if !ended_by_interrupt(wait) {
        return None;
    }
    let mut until = wait.end_ns;
    for other in index.waits.after(wait) {
        if other.class == WaitClass::RunQueue {
            until = other.end_ns;
            continue;
        }
        let goes_on = other.place.syscall == wait.place.syscall;
        if other.begin_ns > until + PAUSE_MAX.ns() || !goes_on {
            return None;
        }
        until = other.end_ns;
        if !ended_by_interrupt(other) {
            // Who came with a question of his own was not waited for until then.
            if is_ended_by_a_question(index, other) {
                return None;
            }
            let holder = || holder(index, other).or_else(|| far_end(index, other));
            let waker = waker(index, other).filter(|_| !by_kernel_thread(other));
            return waker.or_else(holder).map(Next::Thread);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, ended, led, of_ten, place};
    use crate::rules::scenes::{LOOK_NS, thread};

    /// Thread 10 looks at the clock, and then 20 ends its next wait, so long after.
    fn next(pause_ns: Ns) -> (&'static str, Option<u32>) {
        let first = ended(
            of_ten(10),
            place("select", NO_ARGS, None),
            ThreadRef::default(),
            WakeContext::HardInterrupt,
        );
        let begin_ns = LOOK_NS - 1_000_000_000 + pause_ns;
        let wake = Some(Wake {
            at_ns: LOOK_NS,
            context: WakeContext::Task,
            by: thread(20, "job"),
            ..Wake::default()
        });
        let (thread, place) = (of_ten(10), place("select", NO_ARGS, None));
        let second = Wait { thread, begin_ns, end_ns: LOOK_NS, place, wake, ..Wait::default() };
        led(vec![first, Fact { at_ns: LOOK_NS, body: Body::Wait(second) }])
    }

    #[test]
    fn who_ends_the_next_wait_was_waited_for_if_that_goes_on_at_once() {
        assert_eq!(next(10_000_000), ("next event", Some(20)));
        assert_eq!(next(200_000_000), ("", None), "it did something else in between");
    }
}
