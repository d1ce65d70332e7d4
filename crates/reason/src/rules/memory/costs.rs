//! What it costs processes to make room and to read again, when that is worth a finding, and which ends it claims.
//!
//! Must not: decide whose memory it is, or who is to blame.

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::memory_losses::{Spent, is_of_memory};
use crate::rules::Claim;
use crate::threshold::Threshold;
use std::collections::BTreeSet;

pub(super) static LOST_PER_SECOND_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "what costs less in a second, and had nobody killed, is the ordinary price of a full memory",
    "chosen: where a wait becomes a warning",
);
pub(super) static LOST_PART_MIN: Threshold = Threshold::new(
    1.0 / 6.0,
    "1",
    "part of its processes' time that was not idle; of a command, of its life. Work then takes a fifth longer",
    "chosen: where a wait becomes a warning",
);

/// What processes lose.
pub(super) struct Cost {
    /// Seconds; of a command, of its path.
    pub seconds: f64,
    /// Of a command: the same.
    pub path_seconds: Option<f64>,
    /// Their time that was not idle, seconds.
    pub demand_seconds: f64,
}

impl Cost {
    pub(super) fn of(measures: &Measures<'_>, spent: &Spent, reads_back: bool) -> Self {
        let path_seconds =
            measures.is_command().then(|| measures.memory_seconds_on_path(spent, reads_back));
        let all = || spent.values().map(|loss| loss.seconds(reads_back)).sum();
        Self {
            seconds: path_seconds.unwrap_or_else(all),
            path_seconds,
            demand_seconds: measures.memory_demand_seconds(spent, reads_back),
        }
    }

    /// Whether it is worth a finding.
    pub(super) fn matters(&self, measures: &Measures<'_>) -> bool {
        let wall = measures.wall_seconds().max(1e-9);
        let of = if measures.is_command() { wall } else { self.demand_seconds };
        self.seconds >= LOST_PER_SECOND_MIN.value * wall
            && self.seconds >= LOST_PART_MIN.value * of
            && self.seconds > 0.0
    }
}

/// Their part of the ends that memory is the reason of: of their waits for disks too, where they read back what was
/// dropped.
pub(super) fn claims(
    measures: &Measures<'_>,
    ends: &[End],
    reads_back: bool,
    inside: impl Fn(&ThreadRef) -> bool,
) -> Vec<Claim> {
    let mut claims = Vec::new();
    let is_wanted = |end: &End| is_of_memory(end, reads_back) && !end.victims.is_empty();
    let wanted = ends.iter().enumerate().filter(|(_, end)| is_wanted(end));
    for (end, known) in wanted {
        // The path of a command has one victim: the end is theirs if one of them waits there.
        let link = known.links.get(known.named);
        if measures.is_command() && link.is_some_and(|link| inside(&link.who)) {
            claims.push(Claim { end, victims: None });
            continue;
        }
        let members = known.victims.values().filter(|(who, _)| inside(who));
        let own: BTreeSet<u32> = members.map(|(who, _)| who.pid).collect();
        if !own.is_empty() {
            claims.push(Claim { end, victims: Some(own) });
        } else if link.is_some_and(|l| !measures.model.in_target(&l.who) && inside(&l.who)) {
            // Nobody of them is looked at: whoever is waits for one of them.
            claims.push(Claim { end, victims: None });
        }
    }
    claims
}
