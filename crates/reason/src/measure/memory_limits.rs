//! Groups at their memory limit: the one decision that memory.limit and the disk cases share.
//!
//! Reaching a limit is normal: page cache fills every group that reads. It is a fault only if the group then pays
//! for it: it reads back what it has just dropped (refaults), spends its time in reclaim, or has processes
//! killed. A disk that is busy with refaults is an effect, so the disk cases ask here before they blame it.

use crate::facts::{Cgroup, CgroupSample, ThreadRef};
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::{Model, within};
use crate::rules::old::cpu::{belongs, change};
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

/// Groups that met their limit in the window.
pub fn limited(model: &Model) -> Vec<Limited<'_>> {
    let mut found = Vec::new();
    for group in &model.cgroups {
        if group.memory_limit_bytes.is_none() && group.memory_high_bytes.is_none() {
            continue;
        }
        let Some((first, last)) = change(model, group) else { continue };
        let delta = |of: fn(&CgroupSample) -> Option<u64>| {
            of(&last).unwrap_or(0).saturating_sub(of(&first).unwrap_or(0))
        };
        let hits = delta(|sample| sample.memory_limit_hits);
        let high_hits = delta(|sample| sample.memory_high_hits);
        let told = model
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
            refault_bytes: pages * model.host.page_bytes.max(4096),
            read_bytes: read_bytes(model, group),
            last,
        });
    }
    found
}

fn read_bytes(model: &Model, group: &Cgroup) -> u64 {
    let mine = model.disk_use.iter().filter(|used| is_member(model, &used.process, group));
    mine.map(|used| used.read_bytes).sum()
}

/// Links from a process to whoever forked it, up to one that is known.
const FORKS_MAX: usize = 16;

/// Whether a process is charged to a group's memory, or was while it lived. Whoever is gone before anybody read where it
/// belongs was seen by the kernel side as it ended, or is in its parent's group, where every process begins.
pub fn is_member(model: &Model, thread: &ThreadRef, group: &Cgroup) -> bool {
    let mut pid = thread.pid;
    for _ in 0..FORKS_MAX {
        let of = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
        let known = if pid == thread.pid { model.identity(thread) } else { model.identity(&of) };
        if let Some(known) = known {
            return belongs(known, group, "memory");
        }
        if let Some(seen) = group_seen(model, pid, group.controllers.is_empty()) {
            return seen.path == group.path || within(&seen.path, &group.path);
        }
        let born = model.forks.iter().rev().map(|(_, fork)| fork);
        let mut born = born.filter(|fork| fork.child.pid == pid && fork.parent.pid != pid);
        let Some(fork) = born.next() else { return false };
        pid = fork.parent.pid;
    }
    false
}

/// The group whose number the kernel side told with a process: of the unified hierarchy at its end, of the memory
/// controller's own when it made room.
fn group_seen(model: &Model, pid: u32, v2: bool) -> Option<&Cgroup> {
    let unified = model.times.iter().filter(|time| v2 && time.thread.pid == pid);
    let unified = unified.map(|time| time.cgroup_id);
    let memory = model.reclaims.iter().filter(|one| one.thread.pid == pid);
    let id = unified.chain(memory.map(|one| one.cgroup_id)).find(|id| *id != 0)?;
    model.cgroups.iter().find(|known| {
        known.id == id
            && if v2 {
                known.controllers.is_empty()
            } else {
                known.controllers.iter().any(|own| own == "memory")
            }
    })
}

/// Whether most of a cause's waiting is of groups that read back what their memory limit made them drop.
pub fn is_thrash(measures: &Measures<'_>, end: &End) -> bool {
    let thrashing: Vec<Limited<'_>> =
        limited(measures.model).into_iter().filter(Limited::thrashes).collect();
    if thrashing.is_empty() {
        return false;
    }
    let (mut all, mut inside) = (0.0, 0.0);
    for (thread, seconds) in end.victims.values() {
        all += seconds;
        let member =
            thrashing.iter().any(|limited| is_member(measures.model, thread, limited.group));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    /// A group at its limit that reads back what it dropped, and process 20 that waited for the disk and is gone: nobody
    /// read where it belonged, `told` is what else is known of it.
    fn thrash(controllers: &[&str], told: Vec<Body>) -> bool {
        let controllers: Vec<String> = controllers.iter().map(|word| (*word).into()).collect();
        let group = |path: &str, id, limit| {
            let (path, controllers) = (path.to_string(), controllers.clone());
            let memory_limit_bytes = limit;
            fact(Body::Cgroup(Cgroup {
                path,
                controllers,
                id,
                memory_limit_bytes,
                ..Cgroup::default()
            }))
        };
        let mut facts = host();
        facts.push(group("/db", 77, Some(256 << 20)));
        facts.push(group("/other", 78, None));
        for (at_ns, count) in [(0, 0), (LOOK_NS, 9_000)] {
            let sample = CgroupSample {
                path: "/db".into(),
                controllers: controllers.clone(),
                memory_limit_hits: Some(count),
                memory_refaults: Some(count),
                ..CgroupSample::default()
            };
            facts.push(Fact { at_ns, body: Body::CgroupSample(sample) });
        }
        let cgroups = vec![Membership { controllers, path: "/db".into() }];
        facts.push(identity(Thread { thread: thread(7, "db"), cgroups, ..Thread::default() }));
        facts.push(fact(Body::Disk(Disk { dev: DISK, name: "sda".into(), ..Disk::default() })));
        let place = reads_from(DISK);
        facts.push(at_place(20, "reader", place));
        facts.extend(told.into_iter().map(fact));
        let model = Observed::new(facts);
        let measures = Measures::of_observed(&model);
        let end = measures.class(WaitClass::Disk).next().expect("a wait for the disk");
        is_thrash(&measures, end)
    }

    fn forked(parent: u32, child: u32) -> Body {
        Body::Fork(Fork { parent: thread(parent, ""), child: thread(child, ""), flags: 0 })
    }

    #[test]
    fn a_reader_that_is_gone_belongs_where_the_kernel_saw_it() {
        let ended = |cgroup_id| {
            let thread = thread(20, "reader");
            Body::ThreadTime(ThreadTime { thread, cgroup_id, ..ThreadTime::default() })
        };
        assert!(thrash(&[], vec![ended(77)]));
        assert!(!thrash(&[], vec![ended(78), forked(7, 20)]), "it was moved");
        assert!(!thrash(&["memory"], vec![ended(77)]), "a number of another hierarchy");
        let freed = Reclaim { thread: thread(20, "reader"), cgroup_id: 77, ..Reclaim::default() };
        assert!(thrash(&["memory"], vec![Body::Reclaim(freed)]));
    }

    #[test]
    fn a_reader_that_is_gone_belongs_to_its_parents_group() {
        assert!(thrash(&["memory"], vec![forked(7, 19), forked(19, 20)]));
        assert!(!thrash(&["memory"], vec![forked(6, 20)]));
        assert!(!thrash(&["memory"], vec![forked(20, 19), forked(19, 20)]), "numbers used again");
    }
}
