//! The longest of some waits, as far as it was really seen.
//!
//! A wait that was found standing has a begin of the scheduler's clock: it says when the thread last ran, not that it
//! has waited in one place ever since. Such a wait is as long as the part of it within the look, and at least that.
//! Must not: say it in words (rules/wait_words.rs).

use crate::model::Model;
use crate::waits::timeline::WaitSpan;

/// The longest of some waits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LongestWait {
    /// How much of it was seen, seconds.
    pub seconds: f64,
    /// It began before that.
    pub at_least: bool,
    /// It has not ended.
    pub standing: bool,
    /// Since the thread last ran, where that is no more than an estimate of the scheduler's clock, seconds.
    pub since_it_ran: Option<f64>,
    /// How many of the waits there are.
    pub all: usize,
    /// Of these, how many took at least half as long as the longest, itself included.
    pub near: usize,
}

impl LongestWait {
    /// Of these waits; of none if there are none.
    pub fn of<'w>(model: &Model, waits: impl IntoIterator<Item = &'w WaitSpan>) -> Self {
        let all: Vec<Self> = waits.into_iter().map(|wait| Self::one(model, wait)).collect();
        let longest = all.iter().copied().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let longest = longest.unwrap_or_default();
        let near = all.iter().filter(|one| one.seconds * 2.0 >= longest.seconds).count();
        Self { all: all.len(), near, ..longest }
    }

    fn one(model: &Model, wait: &WaitSpan) -> Self {
        let seconds = |from: u64| wait.end_ns.saturating_sub(from) as f64 / 1e9;
        let guessed = wait.begin_estimated && wait.begin_ns < model.look.begin_ns;
        let from = if guessed { model.look.begin_ns } else { wait.begin_ns };
        Self {
            seconds: seconds(from),
            at_least: guessed,
            standing: wait.standing,
            since_it_ran: guessed.then(|| seconds(wait.begin_ns)),
            all: 1,
            near: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    fn longest(since_estimated: bool) -> LongestWait {
        let place = Place { state: WaitState::Sleep, syscall: "flock".into(), ..Place::default() };
        let blocked = Blocked {
            thread: thread(10, "job"),
            since_ns: 0,
            since_estimated,
            place,
            ..Blocked::default()
        };
        let begin =
            Fact { at_ns: 1_000_000_000, body: Body::WindowBegin(WindowBegin { unix_ns: 1 }) };
        let mut facts = host();
        facts[0] = begin;
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) });
        let observed = Observed::new(facts);
        LongestWait::of(&observed.model, observed.timelines.waits())
    }

    #[test]
    fn a_begin_that_is_a_guess_counts_from_the_begin_of_the_look() {
        let guessed = longest(true);
        assert_eq!(
            (guessed.seconds, guessed.at_least, guessed.since_it_ran),
            (4.0, true, Some(5.0))
        );
        let seen = longest(false);
        assert_eq!((seen.seconds, seen.at_least, seen.since_it_ran), (5.0, false, None));
        assert!(seen.standing);
    }
}
