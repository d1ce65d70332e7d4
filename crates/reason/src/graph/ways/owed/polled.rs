//! Whom a thread asks after that sleeps for short times again and again: its one child, or the thread of its process that is held up.
//!
//! Whoever gives its child something between the sleeps does not look after it: it keeps to a pace of its own, and the child waits for it
//! (rsync --bwlimit). Must not: take one sleep for a poll.

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
    let held_up = || held_sibling(index, wait).filter(|_| looks_again(index, wait));
    child(index, wait).or_else(held_up)
}

/// The one child that a thread asks after between short sleeps.
pub(in crate::graph) fn child(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let only = || index.families.only_child(wait.thread.pid, wait.begin_ns, wait.end_ns);
    let child = looks_again(index, wait).then(only).flatten();
    child.filter(|child| !feeds(index, wait, child))
}

/// Whether a sleep is a short one among others.
fn looks_again(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let short = |other: &&WaitSpan| {
        other.class == WaitClass::Timer && other.end_ns - other.begin_ns <= PERIOD_MAX.ns()
    };
    let polls = || index.waits.of(&wait.thread).iter().filter(short).take(POLLS_MIN.count());
    short(&wait) && polls().count() == POLLS_MIN.count()
}

/// Whether a thread gave a process, or those that it began, something to read again and again. Who has as many answers asks, whether the child
/// is ready or well.
fn feeds(index: &Index<'_>, wait: &WaitSpan, child: &ThreadRef) -> bool {
    let fed = index.waits.fed_by(&wait.thread);
    let of_it = fed.filter(|(pid, _)| index.families.descends(*pid, child.pid));
    let (mut given, mut answers) = (0, 0);
    for (pid, times) in of_it {
        given += times;
        answers += index.waits.woke(pid, wait.thread.pid);
    }
    given >= POLLS_MIN.count() && answers * 2 < given
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{child, led, place};
    use crate::rules::scenes::{slept, thread};

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

    #[test]
    fn who_feeds_its_child_between_the_sleeps_keeps_to_a_pace_of_its_own() {
        const NS: Ns = 100_000_000;
        let reads = |at: u64| {
            let (begin_ns, end_ns) = (at * NS * 2, at * NS * 2 + NS + 1);
            let by = thread(10, "sh");
            let wake = Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() };
            let pipe = Some(ObjectRef::Pipe { ino: 7 });
            let (thread, place) = (thread(21, "job"), place("read", [0; 6], pipe));
            let wait =
                Wait { thread, begin_ns, end_ns, place, wake: Some(wake), ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let sleeps = |at: u64| slept(10, "sh", at * NS * 2, at * NS * 2 + NS);
        let with_reads = |reading: u64| {
            let family = vec![child(20, 10), child(21, 20)];
            led([family, (0..5).map(sleeps).collect(), (0..reading).map(reads).collect()].concat())
        };
        assert_eq!(with_reads(5), ("", None), "a child of its child reads");
        assert_eq!(with_reads(1), ("polled", Some(20)), "one word is none");
    }
}
