//! Whose packet ended a wait for events of which nobody knows what they were (select and the like).
//!
//! Believed if the waiter had asked that process, that is, had ended a wait of its own not long before or meanwhile. Must not: believe a
//! bystander, in whose time an interrupt carried the packet.

use super::interrupts::only_interrupts;
use crate::facts::ThreadRef;
use crate::graph::conversation::had_asked;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::wakers::carrier;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::threshold::Threshold;
use crate::waits::timeline::WaitSpan;

/// A shorter wait ends by chance with somebody.
static LENGTH_MIN: Threshold = Threshold::new(
    1.0,
    "ms",
    "length of a wait: of a shorter one that an answer came at its end is chance",
    "chosen: a loop that is busy waits for less",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "answered by",
    because: "its answer ended the wait, after it was asked",
    of: FOR_EVENTS,
    thresholds: &[&LENGTH_MIN],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let by = answered_by(at.index, at.wait).filter(|by| at.was_there(by))?;
    (!only_interrupts(at.index, at.wait, &by, at.asker)).then_some(Next::Thread(by))
}

/// Whose packet ended a wait for events of which nobody knows what they were (select and the like): believed if the waiter
/// had asked that process, that is, had ended a wait of its own not long before or meanwhile.
fn answered_by(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    if wait.place.object.is_some() || wait.end_ns - wait.begin_ns < LENGTH_MIN.ns() {
        return None;
    }
    let by = carrier(wait).filter(|by| by.pid != wait.thread.pid)?;
    had_asked(index, wait, by).then(|| by.clone())
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, ended, led, of_ten, place};
    use crate::rules::scenes::{LOOK_NS, thread};

    /// Thread 10 selects; the packet that ended it was carried in the time of 20, which 10 had woken before, or had not.
    fn selects(asked: bool) -> (&'static str, Option<u32>) {
        let server = thread(20, "server");
        let end_ns = LOOK_NS - 1_100_000_000;
        let wake = Some(Wake {
            at_ns: end_ns,
            context: WakeContext::Task,
            by: of_ten(10),
            ..Wake::default()
        });
        let waits = place("epoll_wait", NO_ARGS, None);
        let question =
            Wait { thread: server.clone(), end_ns, place: waits, wake, ..Wait::default() };
        let question = Fact { at_ns: end_ns, body: Body::Wait(question) };
        let select =
            ended(of_ten(10), place("select", NO_ARGS, None), server, WakeContext::SoftInterrupt);
        led(if asked { vec![question, select] } else { vec![select] })
    }

    #[test]
    fn whose_packet_it_was_is_believed_if_he_was_asked() {
        assert_eq!(selects(true), ("answered by", Some(20)));
        assert_eq!(selects(false), ("", None), "a bystander");
    }
}
