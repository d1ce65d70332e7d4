//! Groups that had as many processes as they may, and how often one more was refused, by the kernel's own count.
//!
//! Refused calls are seen of those only who are asked about; the count of a group is there for all of the host. Which group
//! it stands at depends on the kernel: at the group that asked (v1, and v2 before 6.11), or at the one whose limit was met
//! and at all above that. Must not: say who was refused, which the count does not know.

use super::cgroups::change;
use crate::facts::Cgroup;
use crate::model::Model;
use crate::model::membership::is_below;
use std::collections::BTreeMap;

/// A group in which processes were refused for want of a number.
#[derive(Debug, Clone, Copy)]
pub struct FullGroup<'m> {
    /// Whose limit it is.
    pub group: &'m Cgroup,
    /// The limit, processes and threads.
    pub limit: u64,
    /// How often one more was refused in the look.
    pub refused: u64,
}

/// All of them, by path.
pub fn full_groups(model: &Model) -> Vec<FullGroup<'_>> {
    let counted: Vec<(&Cgroup, u64)> = model
        .containers
        .cgroups
        .iter()
        .filter_map(|group| Some((group, refused(model, group)?)))
        .collect();
    let mut found: BTreeMap<&str, FullGroup<'_>> = BTreeMap::new();
    for (group, refused) in &counted {
        let Some((holder, limit)) = limited_by(model, group) else { continue };
        // Refused below, at a limit of its own: what stands here is the same refusals, counted upwards.
        let is_passed_on = counted.iter().any(|(other, times)| {
            let below = other.path != group.path && is_below(&other.path, &group.path);
            below
                && other.controllers == group.controllers
                && times >= refused
                && limited_by(model, other).is_some_and(|(its, _)| its.path != holder.path)
        });
        if is_passed_on {
            continue;
        }
        let full = FullGroup { group: holder, limit, refused: 0 };
        found.entry(&holder.path).or_insert(full).refused += refused;
    }
    found.into_values().collect()
}

fn refused(model: &Model, group: &Cgroup) -> Option<u64> {
    let (first, last) = change(model, group)?;
    let times = last.processes_refused?.checked_sub(first.processes_refused?)?;
    (times > 0).then_some(times)
}

/// The next group upwards, itself included, that has a limit.
fn limited_by<'m>(model: &'m Model, group: &Cgroup) -> Option<(&'m Cgroup, u64)> {
    let above = model.containers.cgroups.iter().filter(|other| {
        other.controllers == group.controllers && is_below(&group.path, &other.path)
    });
    let limited = above.filter_map(|other| Some((other, other.pids_limit?)));
    limited.max_by_key(|(other, _)| other.path.len())
}
