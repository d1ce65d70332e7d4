//! Groups at their memory limit: the one decision that memory.limit and the disk cases share.
//!
//! Reaching a limit is normal: page cache fills every group that reads. It is a fault only if the group then pays
//! for it: it reads back what it has just dropped (refaults), spends its time in reclaim, or has processes
//! killed. A disk that is busy with refaults is an effect, so the disk cases ask here before they blame it.

use super::cpu::{belongs, change};
use crate::causes::{Cause, Causes};
use crate::facts::{Cgroup, CgroupSample};
use crate::scene::Scene;
use crate::waits::WaitClass;

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
    /// Bytes read back soon after they were dropped.
    pub refault_bytes: u64,
    /// Bytes that its processes read from disks.
    pub read_bytes: u64,
    /// The last reading.
    pub last: CgroupSample,
}

/// Share of what is read that must be refaults before the limit is to blame for the reading.
const REFAULT_PART_MIN: f64 = 0.3;

impl Limited<'_> {
    /// It reads back what it has just dropped.
    pub fn thrashes(&self) -> bool {
        self.refault_bytes >= 1 << 20
            && self.refault_bytes as f64 >= REFAULT_PART_MIN * self.read_bytes as f64
    }

    /// The absolute path of the setting.
    pub fn setting(&self) -> String {
        format!("{}/{}", self.group.directory.trim_end_matches('/'), self.file)
    }
}

/// Groups that met their limit in the window.
pub fn limited(scene: &Scene) -> Vec<Limited<'_>> {
    let mut found = Vec::new();
    for group in &scene.cgroups {
        if group.memory_limit_bytes.is_none() && group.memory_high_bytes.is_none() {
            continue;
        }
        let Some((first, last)) = change(scene, group) else { continue };
        let delta = |of: fn(&CgroupSample) -> Option<u64>| {
            of(&last).unwrap_or(0).saturating_sub(of(&first).unwrap_or(0))
        };
        let hits = delta(|sample| sample.memory_limit_hits);
        let high_hits = delta(|sample| sample.memory_high_hits);
        let told = scene
            .oom_kills
            .iter()
            .filter(|(_, kill)| kill.cgroup_id != 0 && kill.cgroup_id == group.id);
        let kills = delta(|sample| sample.oom_kills).max(told.count() as u64);
        let v2 = group.controllers.is_empty();
        let (limit_bytes, hits, file) = match (group.memory_limit_bytes, group.memory_high_bytes) {
            (Some(limit), _) if hits > 0 || kills > 0 => {
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
            refault_bytes: pages * scene.host.page_bytes.max(4096),
            read_bytes: read_bytes(scene, group),
            last,
        });
    }
    found
}

fn read_bytes(scene: &Scene, group: &Cgroup) -> u64 {
    let mine = scene.disk_use.iter().filter(|used| {
        scene.identity(&used.process).is_some_and(|known| belongs(known, group, "memory"))
    });
    mine.map(|used| used.read_bytes).sum()
}

/// Whether most of a cause's waiting is of groups that read back what their memory limit made them drop.
pub fn is_thrash(causes: &Causes<'_>, cause: &Cause) -> bool {
    let thrashing: Vec<Limited<'_>> =
        limited(causes.scene).into_iter().filter(Limited::thrashes).collect();
    if thrashing.is_empty() {
        return false;
    }
    let (mut all, mut inside) = (0.0, 0.0);
    for (thread, seconds) in cause.victims.values() {
        all += seconds;
        let member = causes.scene.identity(thread).is_some_and(|known| {
            thrashing.iter().any(|limited| belongs(known, limited.group, "memory"))
        });
        inside += if member { *seconds } else { 0.0 };
    }
    inside >= 0.5 * all
}

/// Waits that a lack of memory causes, given that the group thrashes or not.
pub fn is_memory_wait(class: WaitClass, thrashes: bool) -> bool {
    match class {
        WaitClass::Reclaim | WaitClass::SwapIn => true,
        WaitClass::Disk | WaitClass::PageFault => thrashes,
        _ => false,
    }
}
