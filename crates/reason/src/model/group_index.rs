//! What of cgroups is looked up again and again, and which of their names say nothing.
//!
//! A name that holds a long number in hexadecimal was drawn by a program, and tells a person nothing. Must not: say what a
//! group is called (containers.rs).

use super::threads::Threads;
use crate::facts::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Names of programs that stand beside a group without a name.
const PROGRAMS_MAX: usize = 2;
/// Digits from which on a name is a number that somebody drew, and not one that somebody gave.
const DRAWN_DIGITS_MIN: usize = 12;
/// A number of more digits is shown by its first ones.
const DRAWN_DIGITS_SHORT: usize = 20;

/// What of groups is looked up again and again, made once of all facts.
#[derive(Debug, Default)]
pub(super) struct GroupIndex {
    /// Containers by each of their topmost cgroups: places in the model's list.
    pub container_at: HashMap<String, usize>,
    /// Of threads whose groups nobody could read any more, the numbers of their groups: of the CPU controller, and in v2.
    pub numbers: HashMap<u32, (u64, u64)>,
    /// What runs in groups whose names say nothing, by path.
    pub programs: HashMap<String, String>,
}

impl GroupIndex {
    /// Of the groups and containers of a look, once the last fact is in.
    pub(super) fn of(cgroups: &[Cgroup], containers: &[Container], threads: &Threads) -> Self {
        let tops = containers.iter().enumerate();
        let container_at =
            tops.flat_map(|(at, known)| known.cgroups.iter().map(move |top| (top.clone(), at)));
        let unknown = |time: &&ThreadTime| {
            time.cpu_cgroup_id | time.cgroup_id != 0 && threads.identity(&time.thread).is_none()
        };
        let numbers = |time: &ThreadTime| (time.thread.tid, (time.cpu_cgroup_id, time.cgroup_id));
        Self {
            container_at: container_at.filter(|(top, _)| top != "/").collect(),
            numbers: threads.times.iter().filter(unknown).map(numbers).collect(),
            programs: programs(cgroups, containers, threads),
        }
    }
}

/// What runs in each group whose name says nothing, the programs that used most CPU first.
fn programs(
    cgroups: &[Cgroup],
    containers: &[Container],
    threads: &Threads,
) -> HashMap<String, String> {
    let mut of_group: HashMap<&str, BTreeMap<&str, Ns>> = HashMap::new();
    let of_container = containers.iter().filter(|known| is_drawn(&known.name));
    let paths = of_container.flat_map(|known| known.cgroups.iter().map(String::as_str));
    let groups = cgroups.iter().map(|group| group.path.as_str());
    for path in paths.chain(groups.filter(|path| is_drawn(last_part(path)))) {
        of_group.entry(path).or_default();
    }
    if of_group.is_empty() {
        return HashMap::new();
    }
    let mut used: HashMap<u32, Ns> = HashMap::new();
    for time in &threads.times {
        *used.entry(time.thread.pid).or_default() += time.run_ns;
    }
    for Thread { thread, cgroups, .. } in threads.by_id.values() {
        if thread.tid != thread.pid || thread.comm.is_empty() {
            continue;
        }
        let paths: BTreeSet<&str> = cgroups.iter().flat_map(|own| ancestors(&own.path)).collect();
        for path in paths {
            if let Some(programs) = of_group.get_mut(path) {
                *programs.entry(&thread.comm).or_default() +=
                    used.get(&thread.pid).copied().unwrap_or(0);
            }
        }
    }
    let of_group = of_group.into_iter().filter(|(_, programs)| !programs.is_empty());
    of_group.map(|(path, programs)| (path.to_string(), listed(programs))).collect()
}

/// The first names of some programs.
fn listed(programs: BTreeMap<&str, Ns>) -> String {
    let mut programs: Vec<(&str, Ns)> = programs.into_iter().collect();
    programs.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let shown: Vec<&str> = programs.iter().take(PROGRAMS_MAX).map(|(name, _)| *name).collect();
    let rest = if programs.len() > PROGRAMS_MAX { ", ..." } else { "" };
    format!("{}{rest}", shown.join(", "))
}

/// A path and those above it, the root left out.
pub(super) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').rev().map(|(at, _)| &path[..at]);
    std::iter::once(path).chain(above).filter(|path| !path.is_empty() && *path != "/")
}

/// The last part of a path.
pub(super) fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A name that holds a long number in hexadecimal, as runtimes, systemd-run and job schedulers draw them; a UUID ends in one.
pub(super) fn is_drawn(name: &str) -> bool {
    drawn_part(name).is_some()
}

/// Where the number of such a name begins and ends.
fn drawn_part(name: &str) -> Option<(usize, usize)> {
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
    let mut begin = 0;
    for piece in name.split_inclusive(|c: char| !is_digit(c)) {
        let run = piece.trim_end_matches(|c: char| !is_digit(c));
        if run.len() >= DRAWN_DIGITS_MIN && run.contains(|c: char| c.is_ascii_digit()) {
            return Some((begin, begin + run.len()));
        }
        begin += piece.len();
    }
    None
}

/// The same name with the begin of its number alone.
pub(super) fn shortened(name: &str) -> String {
    match drawn_part(name) {
        Some((begin, end)) if end - begin > DRAWN_DIGITS_SHORT => {
            format!("{}{}", &name[..begin + DRAWN_DIGITS_MIN], &name[end..])
        }
        _ => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_somebody_gave_are_none_that_somebody_drew() {
        let drawn = [
            "9171b7905f0e189fea3e684d73c4026c",
            "run-r0d31fa2c9b7e4b21a5a3c90b1e2f7a11.scope",
            "pod0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "3f2a9c0d4e5b",
        ];
        assert!(drawn.iter().all(|name| is_drawn(name)));
        let given =
            ["web-0", "user-1000.slice", "deadbeef", "session-c2.scope", "web-7d9f8b6c5d-x2x7k"];
        assert!(given.iter().all(|name| !is_drawn(name)));
        assert_eq!(shortened(drawn[1]), "run-r0d31fa2c9b7e.scope");
    }
}
