//! Who is charged to a group's memory, also of those that are gone before anybody could ask.
//!
//! Must not: say what the group's limit costs them (memory_losses.rs).

use super::ancestry::Ancestry;
use crate::facts::{Cgroup, ThreadRef};
use crate::model::{Model, membership};

/// Whether a process is charged to a group's memory, or was while it lived. Whoever is gone before anybody read where it
/// belongs was seen by the kernel side as it ended, or is in its parent's group, where every process begins.
pub fn is_member(model: &Model, ancestry: &Ancestry, thread: &ThreadRef, group: &Cgroup) -> bool {
    for pid in ancestry.line(thread.pid) {
        let own = if pid == thread.pid {
            model.threads.identity(thread)
        } else {
            model.threads.by_id.get(&pid)
        };
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
    let unified = model.threads.times.iter().filter(|time| v2 && time.thread.pid == pid);
    let unified = unified.map(|time| time.cgroup_id);
    let memory = model.memory.reclaims.iter().filter(|one| one.thread.pid == pid);
    let id = unified.chain(memory.map(|one| one.cgroup_id)).find(|id| *id != 0)?;
    model.containers.cgroups.iter().find(|known| {
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
        is_member(
            &model,
            &Ancestry::of(&model),
            &thread(20, "reader"),
            &model.containers.cgroups[0],
        )
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
