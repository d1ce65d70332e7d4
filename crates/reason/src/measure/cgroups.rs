//! Cgroups over the look: what their counters did.
//!
//! One vocabulary for v1 and v2. Must not: compare a figure with anything.

use crate::facts::{Cgroup, CgroupSample};
use crate::model::Model;

/// Counters of a group before and after; those of a group made in the window began at nothing.
pub fn change(model: &Model, group: &Cgroup) -> Option<(CgroupSample, CgroupSample)> {
    let ends = model.containers.ends(group)?;
    let zero = || CgroupSample {
        memory_limit_hits: Some(0),
        oom_kills: Some(0),
        memory_ooms: Some(0),
        processes_refused: Some(0),
        ..CgroupSample::default()
    };
    let is_new = ends.at_ns > model.look.begin_ns && !ends.is_of_opening;
    let before = if is_new { zero() } else { ends.first.clone() };
    Some((before, ends.last().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, WindowBegin};

    /// Periods out of quota before and after, of a group that was found 0.4 s after a window began, with six of them already.
    fn counted(is_found_at_opening: bool) -> Option<(Option<u64>, Option<u64>)> {
        let group = Cgroup { path: "/job".into(), ..Cgroup::default() };
        let sample = |at_ns, periods| {
            let sample = CgroupSample {
                path: "/job".into(),
                cpu_throttled_periods: Some(periods),
                ..CgroupSample::default()
            };
            Fact { at_ns, body: Body::CgroupSample(sample) }
        };
        let begin = Fact { at_ns: 1_000, body: Body::WindowBegin(WindowBegin { unix_ns: 1 }) };
        let (first, last) = (sample(400_001_000, 6), sample(9_000_000_000, 7));
        let facts = match is_found_at_opening {
            true => vec![first, begin, last],
            false => vec![begin, first, last],
        };
        let model = Model::new(facts);
        let (before, after) = change(&model, &group)?;
        Some((before.cpu_throttled_periods, after.cpu_throttled_periods))
    }

    #[test]
    fn what_a_group_had_counted_before_the_window_is_not_of_it() {
        assert_eq!(counted(true), Some((Some(6), Some(7))));
        assert_eq!(counted(false), Some((None, Some(7))), "made in the window: from nothing on");
    }
}
