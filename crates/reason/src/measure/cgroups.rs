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
        processes_refused: Some(0),
        ..CgroupSample::default()
    };
    let before = if ends.at_ns > model.look.begin_ns { zero() } else { ends.first.clone() };
    Some((before, ends.last().clone()))
}
