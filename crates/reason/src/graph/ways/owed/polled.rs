//! Whom a thread asks after that sleeps for short times again and again: its one child, or the thread of its process that is held up.
//!
//! Must not: take one sleep for a poll.

use super::held_sibling::held_sibling;
use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// From so many on they are a poll.
static POLLS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "short sleeps of a thread in the look: fewer may each have a reason of its own",
    "chosen: two are a retry",
);

/// A sleep between two looks is no longer.
static PERIOD_MAX: Threshold = Threshold::new(
    500.0,
    "ms",
    "length of one sleep: who looks less often does not wait for an event",
    "chosen: scripts look every tenth of a second to every half",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "polled",
    because: "it is what the thread looks after between short sleeps",
    of: &[WaitClass::Timer],
    thresholds: &[&POLLS_MIN, &PERIOD_MAX],
    follow: |at| polled(at.index, at.wait).map(Next::Thread),
};

/// Whom a thread asks after that sleeps for short times again and again: its one child, or the thread of its own process
/// that was held up meanwhile.
fn polled(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let short = |other: &&WaitSpan| {
        other.class == WaitClass::Timer && other.end_ns - other.begin_ns <= PERIOD_MAX.ns()
    };
    let polls = index.waits.of(&wait.thread).iter().filter(short).count();
    if polls < POLLS_MIN.count() || !short(&wait) {
        return None;
    }
    let child = index.families.only_child(wait.thread.pid, wait.begin_ns, wait.end_ns);
    child.or_else(|| held_sibling(index, wait))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{child, led};
    use crate::rules::scenes::slept;

    /// Thread 10 sleeps so often, each time so long; it has one child.
    fn sleeps(count: u64, ns: Ns) -> (&'static str, Option<u32>) {
        let each = |at: u64| slept(10, "sh", at * ns * 2, at * ns * 2 + ns);
        led([vec![child(20, 10)], (0..count).map(each).collect()].concat())
    }

    #[test]
    fn short_sleeps_again_and_again_look_after_the_child() {
        assert_eq!(sleeps(5, 100_000_000), ("polled", Some(20)));
        assert_eq!(sleeps(2, 100_000_000), ("", None), "two are a retry");
        assert_eq!(sleeps(3, 600_000_000), ("", None), "too long to look for an event");
    }
}
