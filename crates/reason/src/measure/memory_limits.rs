//! Groups that met their memory limit in the look: how often, and what they read back, read, and had killed.
//!
//! Reaching a limit is normal: page cache fills every group that reads. What it costs is memory_losses.rs. Must not: say
//! that a limit is too small (rules/memory/limit.rs does).

use super::ancestry::Ancestry;
use super::cgroups::change;
use crate::facts::{Cgroup, CgroupSample, ThreadRef};
use crate::model::{Model, membership};

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
const PAGE_BYTES: u64 = 4096;

/// Groups that met their limit in the window.
pub fn limited<'a>(model: &'a Model, ancestry: &Ancestry) -> Vec<Limited<'a>> {
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
        let seen = model
            .oom_kills
            .iter()
            .filter(|(_, kill)| kill.cgroup_id != 0 && kill.cgroup_id == group.id);
        let kills = delta(|sample| sample.oom_kills).max(seen.count() as u64);
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
            refault_bytes: pages * model.host.page_bytes.max(PAGE_BYTES),
            read_bytes: read_bytes(model, ancestry, group),
            last,
        });
    }
    found
}

fn read_bytes(model: &Model, ancestry: &Ancestry, group: &Cgroup) -> u64 {
    let mine =
        model.disk_use.iter().filter(|used| is_member(model, ancestry, &used.process, group));
    mine.map(|used| used.read_bytes).sum()
}

/// Whether a process is charged to a group's memory, or was while it lived. Whoever is gone before anybody read where it
/// belongs was seen by the kernel side as it ended, or is in its parent's group, where every process begins.
pub fn is_member(model: &Model, ancestry: &Ancestry, thread: &ThreadRef, group: &Cgroup) -> bool {
    for pid in ancestry.line(thread.pid) {
        let own = if pid == thread.pid { model.identity(thread) } else { model.threads.get(&pid) };
        if let Some(known) = own {
            return membership::belongs(known, group, &["memory"]);
        }
        if let Some(seen) = group_seen(model, pid, group.controllers.is_empty()) {
            return membership::is_below(&seen.path, &group.path);
        }
    }
    false
}

/// The group whose number the kernel side gave with a process: of the unified hierarchy at its end, of the memory
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Whether process 20 is taken for a member of the group with a limit. It is gone: nobody read where it belonged,
    /// `seen` is what else is known of it.
    fn is_charged(controllers: &[&str], seen: Vec<Body>) -> bool {
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
        let cgroups = vec![Membership { controllers, path: "/db".into() }];
        facts.push(identity(Thread { thread: thread(7, "db"), cgroups, ..Thread::default() }));
        facts.extend(seen.into_iter().map(fact));
        let model = Model::new(facts);
        is_member(&model, &Ancestry::of(&model), &thread(20, "reader"), &model.cgroups[0])
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
        assert!(is_charged(&[], vec![ended(77)]));
        assert!(!is_charged(&[], vec![ended(78), forked(7, 20)]), "it was moved");
        assert!(!is_charged(&["memory"], vec![ended(77)]), "a number of another hierarchy");
        let freed = Reclaim { thread: thread(20, "reader"), cgroup_id: 77, ..Reclaim::default() };
        assert!(is_charged(&["memory"], vec![Body::Reclaim(freed)]));
    }

    #[test]
    fn a_reader_that_is_gone_belongs_to_its_parents_group() {
        assert!(is_charged(&["memory"], vec![forked(7, 19), forked(19, 20)]));
        assert!(!is_charged(&["memory"], vec![forked(6, 20)]));
        assert!(
            !is_charged(&["memory"], vec![forked(20, 19), forked(19, 20)]),
            "numbers used again"
        );
    }
}
