//! The way out that raises a limit of a cgroup: together with those of the groups above it that would go on holding it.
//!
//! A group has no more than each of those above it. Raised alone below an equal or smaller one a limit does nothing, or is refused (cgroup v1 of
//! quotas, real-time budgets and cpusets). So all that have less are raised with it, the outermost first, and put back in the other order. Must not:
//! choose a value.
//!
//! Rejected: naming the groups above in words alone (whoever is woken raises the one that a command names, and sees nothing change).

use super::wording::Remedy;
use crate::facts::Cgroup;
use crate::model::Model;
use crate::model::membership::is_below;
use crate::model::words;

/// A key of a group: what it is to be, and what it was.
pub(super) struct Key {
    pub path: String,
    pub new: String,
    pub old: String,
    /// Its file refuses a value below what is used just then (memory of cgroup v1): it is tried again until enough was freed.
    pub is_stubborn: bool,
}

impl Key {
    /// Of a number in a file of a group.
    pub(super) fn of(group: &Cgroup, file: &str, new: u64, old: u64) -> Self {
        let path = format!("{}/{file}", group.directory.trim_end_matches('/'));
        Self { path, new: new.to_string(), old: old.to_string(), is_stubborn: false }
    }

    pub(super) fn stubborn(self) -> Self {
        Self { is_stubborn: true, ..self }
    }

    fn back(&self) -> String {
        let back = Remedy::default().write(&self.path, &self.old, "").command;
        match self.is_stubborn {
            true => again_until_done(&back),
            false => back,
        }
    }
}

/// A command that its file refuses for a while, tried for ten seconds at most.
pub(super) fn again_until_done(command: &str) -> String {
    format!("for try in $(seq 100); do {command} && break; sleep 0.1; done")
}

/// The groups above one in its hierarchy, the nearest first.
pub(super) fn above<'m>(model: &'m Model, own: &Cgroup) -> Vec<&'m Cgroup> {
    let is_above = |group: &&Cgroup| {
        group.controllers == own.controllers
            && group.path != own.path
            && is_below(&own.path, &group.path)
    };
    let mut all: Vec<&Cgroup> = model.containers.cgroups.iter().filter(is_above).collect();
    all.sort_by_key(|group| std::cmp::Reverse(group.path.len()));
    all
}

/// Writes all of them, the last first, and takes it back from the first on. One action cannot say several.
pub(super) fn write_all(text: String, keys: &[Key]) -> Remedy {
    let write = |key: &Key| Remedy::default().write(&key.path, &key.new, &key.old);
    let command: Vec<String> = keys.iter().rev().map(|key| write(key).command).collect();
    let undo: Vec<String> = keys.iter().map(Key::back).collect();
    Remedy {
        text,
        command: command.join(" && "),
        undo: undo.join(" && "),
        action: match keys {
            [one] => write(one).action,
            _ => None,
        },
    }
}

/// Raises one key, and with it the same of the groups above that have less. `limits` are the files of a group that limit the same, with
/// their values, the one that is met first.
pub(super) fn raise<'f>(
    model: &Model,
    own: &Cgroup,
    (text, new): (&str, u64),
    limits: impl Fn(&Cgroup) -> Vec<(&'f str, u64)>,
    key: impl Fn(&Cgroup, &str, u64) -> Key,
) -> Remedy {
    let less = |group: &Cgroup| {
        let all = limits(group).into_iter().filter(|(_, limit)| *limit < new);
        all.collect::<Vec<_>>()
    };
    let holding: Vec<&Cgroup> =
        above(model, own).into_iter().filter(|group| !less(group).is_empty()).collect();
    let groups = [own].into_iter().chain(holding.iter().copied());
    let keys = groups.flat_map(|group| {
        let key = &key;
        less(group).into_iter().map(move |(file, limit)| key(group, file, limit))
    });
    write_all(with_above(text, &holding), &keys.collect::<Vec<_>>())
}

/// The sentence, with the groups above that are raised too.
pub(super) fn with_above(text: &str, holding: &[&Cgroup]) -> String {
    let names: Vec<&str> = holding.iter().map(|group| &*group.path).collect();
    match &names[..] {
        [] => text.to_string(),
        _ => {
            format!(
                "{text}, and the groups above with it, which have no more: {}",
                names.join(", ")
            )
        }
    }
}

/// Memory that a group may have as its files limit it, the one that is to be raised first: of cgroup v1 memory and swap together come behind it,
/// which may not be less.
pub(super) fn memory(group: &Cgroup, first: &str) -> Vec<(&'static str, u64)> {
    let mut all: Vec<(&'static str, Option<u64>)> = match group.controllers.is_empty() {
        true => {
            vec![("memory.max", group.memory_limit_bytes), ("memory.high", group.memory_high_bytes)]
        }
        false => vec![
            ("memory.limit_in_bytes", group.memory_limit_bytes),
            ("memory.memsw.limit_in_bytes", group.memory_and_swap_limit_bytes),
        ],
    };
    if first == "memory.high" {
        all.reverse();
    }
    all.into_iter().filter_map(|(file, limit)| Some((file, limit?))).collect()
}

/// A key of memory: cgroup v1 refuses less than what is used just then.
pub(super) fn memory_key(group: &Cgroup, file: &str, new: u64, old: u64) -> Key {
    let key = Key::of(group, file, new, old);
    if group.controllers.is_empty() { key } else { key.stubborn() }
}

/// Processes and threads that a group may have: raised with those above it.
pub(super) fn raise_processes(model: &Model, own: &Cgroup, text: &str, new: u64) -> Remedy {
    let limits = |group: &Cgroup| Vec::from_iter(group.pids_limit.map(|limit| ("pids.max", limit)));
    raise(model, own, (text, new), limits, |group, file, old| Key::of(group, file, new, old))
}

/// Memory that a group may have: raised with that of those above it. `first` is its file.
pub(super) fn raise_memory(
    model: &Model,
    own: &Cgroup,
    first: &str,
    (text, new): (&str, u64),
) -> Remedy {
    let limits = |group: &Cgroup| memory(group, first);
    raise(model, own, (text, new), limits, |group, file, old| memory_key(group, file, new, old))
}

/// A real-time budget: the kernel refuses a group more than those above it have.
pub(super) fn raise_budget(model: &Model, own: &Cgroup, text: &str, new_us: u64) -> Remedy {
    let limits = |group: &Cgroup| {
        let budget = group.rt_runtime_us.and_then(|us| u64::try_from(us).ok());
        Vec::from_iter(budget.map(|us| ("cpu.rt_runtime_us", us)))
    };
    raise(model, own, (text, new_us), limits, |group, file, old| Key::of(group, file, new_us, old))
}

/// CPUs in words, as a key takes them.
pub(super) fn cpus_key(group: &Cgroup, new: &[u32], old: &[u32]) -> Key {
    let path = format!("{}/cpuset.cpus", group.directory.trim_end_matches('/'));
    Key { path, new: words::cpus(new), old: words::cpus(old), is_stubborn: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Body;
    use crate::rules::scenes::{fact, host};

    const MIB: u64 = 1 << 20;

    fn group(path: &str, limit_mib: u64) -> Cgroup {
        Cgroup {
            path: path.into(),
            directory: format!("/sys/fs/cgroup{path}"),
            memory_limit_bytes: Some(limit_mib * MIB),
            pids_limit: Some(limit_mib),
            ..Cgroup::default()
        }
    }

    fn model(groups: &[Cgroup]) -> Model {
        let groups = groups.iter().map(|group| fact(Body::Cgroup(group.clone())));
        Model::new(host().into_iter().chain(groups).collect())
    }

    #[test]
    fn a_limit_below_an_equal_one_is_raised_with_it_the_outermost_first() {
        let groups = [group("/a", 8), group("/a/b", 8), group("/a/b/c", 8), group("/z", 1)];
        let way = raise_processes(&model(&groups), &groups[2], "more", 16);
        let write =
            |value: u64, path: &str| format!("echo {value} > /sys/fs/cgroup{path}/pids.max");
        let all = ["/a", "/a/b", "/a/b/c"];
        assert_eq!(way.command, all.map(|path| write(16, path)).join(" && "));
        let back = ["/a/b/c", "/a/b", "/a"];
        assert_eq!(way.undo, back.map(|path| write(8, path)).join(" && "));
        assert!(way.text.ends_with("which have no more: /a/b, /a"), "{}", way.text);
        assert!(way.action.is_none());
    }

    #[test]
    fn a_limit_below_a_greater_one_is_raised_alone() {
        let groups = [group("/a", 16), group("/a/b", 8)];
        let way = raise_processes(&model(&groups), &groups[1], "more", 16);
        assert_eq!(way.command, "echo 16 > /sys/fs/cgroup/a/b/pids.max");
        assert_eq!((&*way.text, way.action.is_some()), ("more", true));
    }

    #[test]
    fn memory_that_is_held_at_another_file_of_the_same_group_is_raised_there_too() {
        let own = Cgroup { memory_high_bytes: Some(6 * MIB), ..group("/a", 8) };
        let way = raise_memory(
            &model(std::slice::from_ref(&own)),
            &own,
            "memory.high",
            ("more", 12 * MIB),
        );
        let write = |mib: u64, file: &str| format!("echo {} > /sys/fs/cgroup/a/{file}", mib * MIB);
        let both = [write(12, "memory.max"), write(12, "memory.high")];
        assert_eq!(way.command, both.join(" && "));
        assert_eq!(way.undo, [write(6, "memory.high"), write(8, "memory.max")].join(" && "));
    }
}
