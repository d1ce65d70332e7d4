//! What the rules on a program's own CPU time share: whose work an end is, what a part of it costs, and how it is claimed.
//!
//! Work is no wait: nobody but the program itself loses by it, and what could be had cheaper is some part of what was
//! sampled. It is said only if it costs enough. Must not: name codes; each rule does.

use crate::facts::ThreadRef;
use crate::graph::ends::{End, EndKind};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::rules::{Losses, Match, Step};
use crate::threshold::Threshold;

/// CPU time that it costs.
pub(crate) static COST_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "CPU time that goes into it; with less, nobody would notice the difference",
    "chosen: a twentieth of one CPU, as for every warning",
);
/// Its part of the program's time.
pub(crate) static PART_MIN: Threshold = Threshold::new(
    1.0 / 6.0,
    "1",
    "of the time in which the program is not idle (of a command: of its wall time); work takes a fifth longer for it",
    "chosen: as for every warning",
);

/// The process whose own work an end is, unless a rule before has claimed it. Of the processes of one program that came
/// and went, the one with the most samples.
pub(crate) fn worker(measures: &Measures<'_>, end: &End) -> Option<u32> {
    let who = end.who.as_ref().filter(|_| end.kind == EndKind::Works)?;
    let pid = match &end.object {
        Object::Processes(comm) => measures.profile.busiest(comm).unwrap_or(who.pid),
        _ => who.pid,
    };
    (measures.is_command() || end.victims.contains_key(&pid)).then_some(pid)
}

/// What a part of the work of some processes costs.
pub(crate) struct Cost {
    /// Seconds of CPU time, by process.
    pub losses: Losses,
    /// The sum; of a command no more than its path has of that work.
    pub seconds: f64,
    /// Of the time in which they are not idle; of a command, of its wall time.
    pub share: f64,
}

impl Cost {
    /// Of CPU time in the work of an end, or of several.
    pub(crate) fn of<'e>(
        measures: &Measures<'_>,
        losses: Losses,
        ends: impl IntoIterator<Item = &'e End>,
    ) -> Self {
        let lost: f64 = losses.values().map(|(_, seconds)| seconds).sum();
        if measures.is_command() {
            let on_path: f64 = ends.into_iter().map(|end| end.seconds).sum();
            let seconds = lost.min(on_path);
            return Self { losses, seconds, share: seconds / measures.wall_seconds().max(1e-9) };
        }
        let demand: f64 =
            losses.iter().map(|(pid, (_, lost))| measures.demand_seconds(*pid).max(*lost)).sum();
        Self { losses, seconds: lost, share: lost / demand.max(1e-9) }
    }

    /// The same for one process.
    pub(crate) fn of_one(
        measures: &Measures<'_>,
        process: &ThreadRef,
        seconds: f64,
        end: &End,
    ) -> Self {
        let losses = Losses::from([(process.pid, (process.clone(), seconds))]);
        Self::of(measures, losses, [end])
    }

    /// Enough to be said, if it is this part of the program's time.
    pub(crate) fn counts(&self, measures: &Measures<'_>, part_min: &Threshold) -> bool {
        let rate = self.seconds / measures.wall_seconds().max(1e-9);
        rate >= COST_MIN.value && self.share >= part_min.value
    }

    /// The match with these losses, and the chain of the one that loses most: it does this, instead of its work.
    pub(crate) fn charge<'m>(
        self,
        mut matched: Match<'m>,
        does: (&'static str, String),
    ) -> Match<'m> {
        let most = self.losses.values().max_by(|a, b| a.1.total_cmp(&b.1));
        let step = most.map(|(who, seconds)| Step {
            who: who.clone(),
            on: Object::Process(who.pid),
            doing: Some(does),
            seconds: *seconds,
            when: None,
            because: None,
        });
        matched.chain = Some(step.into_iter().collect());
        matched.path_seconds = Some(self.seconds);
        matched.losses = Some(self.losses);
        matched
    }
}
