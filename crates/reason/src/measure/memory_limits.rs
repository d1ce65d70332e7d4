//! Groups that met their memory limit in the look: how often, and what they read back, read, and had killed.
//!
//! Reaching a limit is normal: page cache fills every group that reads. What it costs is memory_losses.rs. A group whose OOM killer is
//! off (cgroup v1) meets its limit once, and then its threads stand: that no counter shows, their stacks do. Must not: say
//! that a limit is too small (rules/memory/limit.rs does).

use super::ancestry::Ancestry;
use super::cgroups::change;
use super::memory_members::is_member;
use super::oom_kills::{AT_GROUP, Killed};
use crate::facts::{Cgroup, CgroupSample, ThreadRef};
use crate::model::Model;
use crate::waits::WaitClass;
use crate::waits::timeline::Timelines;
use std::collections::BTreeSet;

/// A group that met its limit in the window.
#[derive(Debug, Clone)]
pub struct Limited<'a> {
    /// The group.
    pub group: &'a Cgroup,
    /// The limit, bytes.
    pub limit_bytes: u64,
    /// The file that sets it.
    pub file: &'static str,
    /// Times it was met.
    pub hits: u64,
    /// Processes killed.
    pub kills: u64,
    /// Nobody is killed there: threads wait until somebody else frees memory.
    pub stands: bool,
    /// Bytes read back soon after they were dropped.
    pub refault_bytes: u64,
    /// Bytes that its processes read from disks.
    pub read_bytes: u64,
    /// The last reading.
    pub last: CgroupSample,
}

impl Limited<'_> {
    /// The part of its reading that is reading again. What comes from no disk of this host (NFS, FUSE) is not counted as
    /// read; then all of it is.
    pub fn again(&self) -> f64 {
        (self.refault_bytes as f64 / self.read_bytes.max(1) as f64).min(1.0)
    }

    /// The absolute path of the setting.
    pub fn setting(&self) -> String {
        format!("{}/{}", self.group.directory.trim_end_matches('/'), self.file)
    }
}

/// The smallest page of any kernel, where the host's is not known.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Groups that met their limit in the window.
pub fn limited<'a>(
    model: &'a Model,
    timelines: &Timelines,
    ancestry: &Ancestry,
    killed: &[Killed<'_>],
) -> Vec<Limited<'a>> {
    let mut found = Vec::new();
    let stood_at = stood_at(model, timelines, ancestry);
    for group in &model.containers.cgroups {
        if group.memory_limit_bytes.is_none() && group.memory_high_bytes.is_none() {
            continue;
        }
        let Some((first, last)) = change(model, group) else { continue };
        let delta = |of: fn(&CgroupSample) -> Option<u64>| {
            of(&last).unwrap_or(0).saturating_sub(of(&first).unwrap_or(0))
        };
        let hits = delta(|sample| sample.memory_limit_hits);
        let high_hits = delta(|sample| sample.memory_high_hits);
        // A kill counts for the group whose limit it was; the victim may be in a group below it. Only the log says so.
        let seen = killed.iter().filter(|kill| match kill.group() {
            Some(_) => kill.is_at_limit_of(model, ancestry, group),
            None => kill.cgroup_id != 0 && kill.cgroup_id == group.id,
        });
        // Of cgroup v2 a kill counts for the groups above as well, whose limit it was not.
        let is_its = last.memory_ooms.is_none() || delta(|sample| sample.memory_ooms) > 0;
        let counted = if is_its { delta(|sample| sample.oom_kills) } else { 0 };
        let kills = counted.max(seen.count() as u64);
        let v2 = group.controllers.is_empty();
        // Where somebody is killed, the others stand until he is gone.
        let stands = kills == 0 && stood_at.iter().any(|it| std::ptr::eq(*it, group));
        let (limit_bytes, hits, file) = match (group.memory_limit_bytes, group.memory_high_bytes) {
            (Some(limit), _) if hits > 0 || kills > 0 || stands => {
                (limit, hits, if v2 { "memory.max" } else { "memory.limit_in_bytes" })
            }
            (_, Some(high)) if high_hits > 0 => (high, high_hits, "memory.high"),
            _ => continue,
        };
        let pages = delta(|sample| sample.memory_refaults);
        found.push(Limited {
            group,
            limit_bytes,
            file,
            hits,
            kills,
            stands,
            refault_bytes: pages * model.look.host.page_bytes.max(PAGE_BYTES),
            read_bytes: read_bytes(model, ancestry, group),
            last,
        });
    }
    found
}

/// Of groups that met their limits the nearest around a process: those above it may be full, and are not what it makes room for.
pub fn nearest<'a, 'm>(
    limited: &'a [Limited<'m>],
    (model, ancestry): (&Model, &Ancestry),
    who: &ThreadRef,
) -> Option<&'a Limited<'m>> {
    let around = limited.iter().filter(|it| is_member(model, ancestry, who, it.group));
    around.max_by_key(|it| it.group.path.len())
}

/// What each CPU may have charged to a group without using it yet, and a fault that wants more.
const CHARGED_AHEAD: u64 = 1 << 20;

/// Groups at whose limit threads wait until it has memory again, which only others can free. Of each thread the nearest that is
/// full: those above may be full of what is in it, and hold nobody.
fn stood_at<'a>(model: &'a Model, timelines: &Timelines, ancestry: &Ancestry) -> Vec<&'a Cgroup> {
    let is_standing = |stack| {
        model.stacks.kernel(stack).iter().any(|frame| frame == "mem_cgroup_oom_synchronize")
    };
    let waits = timelines.waits().filter(|wait| wait.class == WaitClass::Reclaim);
    let standing = waits.filter(|wait| is_standing(wait.place.stack)).map(|wait| &wait.thread);
    let mut full: Option<Vec<&Cgroup>> = None;
    let nearest = standing.filter_map(|thread| {
        let full = full.get_or_insert_with(|| {
            model.containers.cgroups.iter().filter(|group| is_full(model, group)).collect()
        });
        let own = full.iter().filter(|group| is_member(model, ancestry, thread, group));
        own.max_by_key(|group| group.path.len()).copied()
    });
    nearest.collect()
}

fn is_full(model: &Model, group: &Cgroup) -> bool {
    let limit = group.memory_limit_bytes;
    let used = || change(model, group).and_then(|(_, last)| last.memory_bytes);
    limit.is_some_and(|limit| used().is_some_and(|used| used + CHARGED_AHEAD >= limit))
}

/// Marks what is of a series. The kernel's log names the group of each kill; one that is not known to have met a limit came
/// and went within the look.
pub fn mark_series(limited: &[Limited<'_>], kills: &mut [Killed<'_>]) {
    let stands = |path: &str| limited.iter().any(|one| one.group.path == path);
    let gone: BTreeSet<String> = (kills.iter())
        .filter(|kill| kill.group().is_some_and(|path| !stands(path)))
        .map(|kill| kill.victim.comm.clone())
        .collect();
    for kill in kills {
        kill.is_of_series = gone.contains(&kill.victim.comm)
            && kill.report.is_none_or(|report| matches!(report.constraint.as_str(), "" | AT_GROUP));
    }
}

fn read_bytes(model: &Model, ancestry: &Ancestry, group: &Cgroup) -> u64 {
    let mine =
        model.disk.used.iter().filter(|used| is_member(model, ancestry, &used.process, group));
    mine.map(|used| model.disk.asked_here(used, |it| it.read_bytes)).sum()
}
