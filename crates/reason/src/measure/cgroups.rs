//! Cgroups over the look: what their counters did, and who is in them.
//!
//! One vocabulary for v1 and v2. Must not: compare a figure with anything.

use crate::facts::{Cgroup, CgroupSample, Thread};
use crate::model::{Model, within};

/// Counters of a group before and after; those of a group made in the window began at nothing.
pub fn change(model: &Model, group: &Cgroup) -> Option<(CgroupSample, CgroupSample)> {
    let ends = model.cgroup_ends(group)?;
    let zero = || CgroupSample {
        memory_limit_hits: Some(0),
        oom_kills: Some(0),
        ..CgroupSample::default()
    };
    let before = if ends.at_ns > model.begin_ns { zero() } else { ends.first.clone() };
    Some((before, ends.last().clone()))
}

/// Whether a thread is in a group of a controller, or below it.
pub fn belongs(thread: &Thread, group: &Cgroup, controller: &str) -> bool {
    let v2 = group.controllers.is_empty();
    if !v2 && !group.controllers.iter().any(|own| own == controller) {
        return false;
    }
    thread.cgroups.iter().any(|membership| {
        let same = if v2 {
            membership.controllers.is_empty()
        } else {
            membership.controllers.iter().any(|own| own == controller)
        };
        same && (membership.path == group.path || within(&membership.path, &group.path))
    })
}
