//! A timed wait for a word that the clock ended, and with it at once the wait of who asked: it needed nobody else.
//!
//! Of one that stands, whether the clock ended the one before it on that word. So does a library sleep that polls nothing but its own
//! wake-up socket, as libcurl's does between the parts of a transfer that is limited. Must not: be asked of other waits for events, whose
//! timeout may be anybody's.

use crate::facts::{Endpoint, ObjectRef};
use crate::graph::index::Index;
use crate::graph::next::{Asker, Next, Until};
use crate::graph::wakers::{is_by_clock, timeout_ns};
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// At once is within.
static AT_ONCE_MAX: Threshold = Threshold::new(
    2.0,
    "ms",
    "from the end of the timed wait to the end of the wait for it: later somebody else may have acted",
    "chosen: to let go and to wake somebody takes less, on a crowded CPU too",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "own timeout",
    because: "its own timeout ends the wait",
    of: FOR_EVENTS,
    thresholds: &[&AT_ONCE_MAX],
    follow: |at| {
        let is_own = lets_go_by_clock(at.index, at.wait, at.asker)
            || polls_itself(at.index, at.wait) && is_left_to_the_clock(at.index, at.wait);
        is_own.then_some(Next::OwnClock)
    },
};

/// Whether a process with one thread polls a socket alone of which it has both ends: nobody else can end that. Of one that has a child it
/// may be that the handler of a signal writes there, which says that the child has ended.
fn polls_itself(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let is_for_one =
        matches!(wait.place.syscall.as_str(), "poll" | "ppoll") && wait.place.args[1] == 1;
    let Some(ObjectRef::Unix { ino, peer_ino, .. }) = wait.place.object else { return false };
    let is_own = |end: &&Endpoint| end.process.pid == wait.thread.pid;
    let has_alone = |ino: u64| {
        let ends = index.connections.endpoints_on(ino);
        !ends.is_empty() && ends.iter().all(is_own)
    };
    is_for_one
        && has_alone(ino)
        && has_alone(peer_ino)
        && index.families.threads_of(&[wait.thread.pid]).len() == 1
        && index.families.living_children(wait.thread.pid).is_empty()
}

/// Whether the clock ended a wait; of one that stands, the one before it on the same object.
fn is_left_to_the_clock(index: &Index<'_>, wait: &WaitSpan) -> bool {
    if !wait.standing {
        return is_by_clock(wait);
    }
    let mut before = index.waits.before(wait).iter().rev();
    let last = before.find(|it| it.object == wait.object);
    timeout_ns(&wait.place).is_some() && last.is_none_or(is_by_clock)
}

/// Whether the clock ended a timed wait for a word, and the asker's wait ended at once, by it or by who had the lock in between: it
/// needed nobody else. Of one that stands, whether the clock ended the one before it on that word.
fn lets_go_by_clock(index: &Index<'_>, wait: &WaitSpan, asker: Option<Asker<'_>>) -> bool {
    if wait.class == WaitClass::FutexWait && wait.standing {
        let word = wait.timed_word();
        let before = index.waits.before(wait).iter().rev().find(|it| it.timed_word() == word);
        return word.is_some() && before.is_some_and(is_by_clock);
    }
    let Some(Until::Wait(of_asker)) = asker.map(|asker| asker.until) else { return false };
    let by = of_asker.wake.as_ref().map(|wake| &wake.by);
    wait.class == WaitClass::FutexWait
        && is_by_clock(wait)
        && by.is_some_and(|by| by.pid == wait.thread.pid)
        && of_asker.end_ns.checked_sub(wait.end_ns).is_some_and(|after| after <= AT_ONCE_MAX.ns())
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::ways::responsible;
    use crate::graph::ways::scenes::{child, ended, of_ten, place};
    use crate::graph::ways::way::Waiter;
    use crate::rules::scenes::{LOOK_NS, endpoint, host};
    use crate::waits::timeline::Observed;

    /// A thread of the process waits for a word with a timeout, twice; the clock ended the first.
    fn stands_again(context: WakeContext) -> &'static str {
        let word = [0x7000, 128, 0, 1, 0, 0];
        let again = Place { timeout_ns: Some(1_000_000_000), ..place("futex", word, None) };
        let nobody = ThreadRef::default();
        let (model, timelines) = {
            let first = ended(of_ten(10), again.clone(), nobody, context);
            let at_ns = LOOK_NS;
            let begin = LOOK_NS - 900_000_000;
            let second =
                Blocked { thread: of_ten(10), place: again, since_ns: begin, ..Blocked::default() };
            let second = Fact { at_ns, body: Body::Blocked(second) };
            let Observed { model, timelines } =
                Observed::new([host(), vec![first, second]].concat());
            (model, timelines)
        };
        let index = Index::new(&model, &timelines);
        let last = timelines.waits().find(|wait| wait.standing).expect("it stands");
        responsible(&Waiter::of(&index, last), true).1.map_or("", |way| way.name)
    }

    #[test]
    fn who_polls_a_socket_to_itself_alone_waits_for_the_clock() {
        let way_with = |peers: u32, polled: u64, more: Vec<Fact>| {
            let unix = |ino, peer_ino| ObjectRef::Unix { ino, peer_ino, path: None };
            let args = [0x7000, polled, 1000, 0, 0, 0];
            let at = place("poll", args, Some(unix(7, 8)));
            let clock = WakeContext::HardInterrupt;
            let own = ended(of_ten(10), at, ThreadRef::default(), clock);
            let ends =
                vec![own, endpoint(10, "app", unix(7, 8)), endpoint(peers, "app", unix(8, 7))];
            let Observed { model, timelines } = Observed::new([host(), ends, more].concat());
            let index = Index::new(&model, &timelines);
            let wait = timelines.waits().find(|wait| wait.thread.tid == 10).expect("it waits");
            responsible(&Waiter::of(&index, wait), true).1.map_or("", |way| way.name)
        };
        let way = |peers, polled| way_with(peers, polled, Vec::new());
        assert_eq!(way(10, 1), "own timeout");
        assert_eq!(way_with(10, 1, vec![child(20, 10)]), "only child", "its end is a signal");
        assert_ne!(way(20, 1), "own timeout", "somebody else has the other end");
        assert_ne!(way(10, 2), "own timeout", "another descriptor is polled too");
    }

    #[test]
    fn whose_wait_for_a_word_the_clock_ended_before_waits_for_the_clock() {
        assert_eq!(stands_again(WakeContext::HardInterrupt), "own timeout");
        assert_ne!(stands_again(WakeContext::Task), "own timeout");
    }
}
