//! A timed wait for a word that the clock ended, and with it at once the wait of who asked: it needed nobody else.
//!
//! Of one that stands, whether the clock ended the one before it on that word. Must not: be asked of waits for events, whose timeout may
//! be anybody's.

use crate::graph::index::Index;
use crate::graph::next::{Asker, Next, Until};
use crate::graph::wakers::is_by_clock;
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
    follow: |at| lets_go_by_clock(at.index, at.wait, at.asker).then_some(Next::OwnClock),
};

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
    use crate::graph::ways::scenes::{ended, of_ten, place};
    use crate::graph::ways::way::Waiter;
    use crate::rules::scenes::{LOOK_NS, host};
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
    fn whose_wait_for_a_word_the_clock_ended_before_waits_for_the_clock() {
        assert_eq!(stands_again(WakeContext::HardInterrupt), "own timeout");
        assert_ne!(stands_again(WakeContext::Task), "own timeout");
    }
}
