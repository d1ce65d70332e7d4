//! Where no wake-up is seen: the one thread of the same process whose own wait ended with this one.
//!
//! That wait, for the clock or for somebody else, lasted for most of this one. Must not: choose between two.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::wakers::{SAMPLES_APART, is_by_clock, is_unseen};
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "ended with",
    because: "its own wait lasted for most of this one and ended with it",
    of: FOR_EVENTS,
    thresholds: &[&SAMPLES_APART],
    follow: |at| ended_with(at.index, at.wait).map(Next::Thread),
};

/// Where no wake-up is seen: the one thread of the same process whose own wait, for the clock or for somebody else, lasted for
/// most of this one and ended with it.
fn ended_with(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    if !is_unseen(wait) {
        return None;
    }
    let ended_it = |other: &WaitSpan| {
        let for_events = matches!(other.class, WaitClass::FutexWait | WaitClass::Idle);
        (!for_events || is_by_clock(other))
            && !other.standing
            && other.end_ns.abs_diff(wait.end_ns) <= SAMPLES_APART.ns()
            && other.within_ns(wait.begin_ns, wait.end_ns) * 2 >= wait.end_ns - wait.begin_ns
    };
    let threads = index.families.threads_of(&[wait.thread.pid]);
    let others =
        threads.into_iter().filter(|other| !index.model.threads.is_same(other, &wait.thread));
    let until_ns = wait.end_ns + SAMPLES_APART.ns();
    let near = |other: &ThreadRef| index.waits.within(other, wait.begin_ns, until_ns).iter();
    let mut by = others.filter(|other| near(other).any(ended_it));
    by.next().filter(|_| by.next().is_none())
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    /// A command whose main thread waits for a word until a second before the end, and two threads of its own, one of which
    /// sleeps: until then, or until so long before. Nobody sees a wake-up.
    fn threads(earlier_ns: Ns, second_sleeps: bool) -> (EndKind, Option<u32>) {
        let end_ns = LOOK_NS - 1_000_000_000;
        let waits = |tid: u32, syscall: &str, end_ns: Ns| {
            let place =
                Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
            let wake = Wake { at_ns: end_ns, context: WakeContext::Unknown, ..Wake::default() };
            let thread = ThreadRef { tid, ..thread(10, "app") };
            let wait = Wait { thread, end_ns, place, wake: Some(wake), ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let second = if second_sleeps { "nanosleep" } else { "futex" };
        let mut facts = host();
        facts.extend([
            waits(10, "futex", end_ns),
            waits(11, "nanosleep", end_ns - earlier_ns),
            waits(12, second, end_ns),
        ]);
        let (kind, name) = (TargetKind::Command, "app".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let end = explain(facts).answer.ends.remove(0);
        (end.end, end.chain.last().and_then(|link| link.who.tid))
    }

    #[test]
    fn where_no_wake_up_is_seen_the_thread_whose_wait_ended_with_it_did_it() {
        assert_eq!(threads(1_000_000, false), (EndKind::Sleep, Some(11)));
        assert_ne!(threads(600_000_000, false).0, EndKind::Sleep, "long before");
        assert_ne!(threads(1_000_000, true).0, EndKind::Sleep, "one of two");
    }
}
