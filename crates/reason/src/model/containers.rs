//! Groups of processes: settings and counters of cgroups, containers with their names, and what a person calls a group.
//!
//! A cgroup's path is an address, and under Kubernetes one of numbers alone; the name comes from the runtime's state, which the
//! opening read. A name that is nothing but digits says nothing, so what runs in such a group stands beside it. Must not: guess
//! a pod by a name of a process, change a path that a command needs, or decide whose a thread is (lookup.rs).
//!
//! Rejected: to take the container of the parent for one whose groups are not known: a runtime's own child is not in its
//! container, and what a shell inside of it began is not outside.
//!
//! Edit together: probe/src/readers/containers/, answer/report.rs.

use super::group_index::{GroupIndex, ancestors, is_drawn, last_part, shortened};
use super::push::{Push, Series};
use super::threads::Threads;
use crate::facts::*;
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Whose a process is. What does not apply is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Workload {
    /// The whole name as it is said: `shop/web-0/main`, `web-1`, `nginx.service`.
    #[serde(rename = "workload", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of a container, who runs it: `docker`, `containerd`, `cri-o`, `podman`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Of a pod, its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The unit of systemd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A cgroup's counters at both ends of a look. There may be thousands of groups, and most do nothing: what stayed
/// as it was is held once.
#[derive(Debug)]
pub struct CgroupEnds {
    /// When the first was read.
    pub at_ns: Ns,
    /// That was as the window was opened: of a look that goes on this takes a moment, and the window began before it.
    pub is_of_opening: bool,
    /// The first reading.
    pub first: CgroupSample,
    last: Option<Box<CgroupSample>>,
}

impl CgroupEnds {
    /// The last reading.
    pub fn last(&self) -> &CgroupSample {
        self.last.as_deref().unwrap_or(&self.first)
    }
}

/// What was observed of groups.
#[derive(Debug, Default)]
pub struct Containers {
    /// Cgroup settings.
    pub(crate) cgroups: Vec<Cgroup>,
    /// Cgroup counters, by path and controllers.
    counters: BTreeMap<(String, Vec<String>), Box<CgroupEnds>>,
    /// Containers.
    pub all: Vec<Container>,
    /// More counters of the container that is looked at.
    pub(crate) samples: Series<ContainerSample>,
    /// Whose groups are.
    index: GroupIndex,
    /// All that was read as the window was opened is in.
    has_begun: bool,
}

impl Containers {
    /// All that was read as the window was opened is in: what comes now was found later.
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// A cgroup's counters at both ends.
    pub fn ends(&self, group: &Cgroup) -> Option<&CgroupEnds> {
        let key = (group.path.clone(), group.controllers.clone());
        self.counters.get(&key).map(Box::as_ref)
    }

    /// First and last sample of a cgroup's counters.
    pub fn change(&self, group: &Cgroup) -> Option<(&CgroupSample, &CgroupSample)> {
        let ends = self.ends(group)?;
        Some((&ends.first, ends.last()))
    }

    /// Whose a group is, by its path.
    pub fn workload_at(&self, path: &str) -> Workload {
        self.container_at(&[path]).map_or_else(Workload::default, |known| self.workload(known))
    }

    /// A group in words: `pod shop/web-0`, `container web-1`, `unit nginx.service`, `cgroup /jobs/nightly`.
    pub fn group_in_words(&self, path: &str) -> String {
        let (kind, name) = self.group_called(path);
        format!("{kind} {name}")
    }

    /// A group by kind and name.
    pub fn group_called(&self, path: &str) -> (&'static str, String) {
        let own = self.all.iter().find(|known| known.cgroups.iter().any(|own| own == path));
        match own {
            Some(own) if own.is_real() => {
                let kind = if own.is_pod() { "pod" } else { "container" };
                (kind, self.called(own))
            }
            Some(own) if own.is_unit() => ("unit", self.called(own)),
            _ if is_drawn(last_part(path)) => ("cgroup", self.beside(path, path.to_string())),
            _ => ("cgroup", path.to_string()),
        }
    }

    /// What a container is called; beside a number that somebody drew stands what runs in it.
    pub fn called(&self, known: &Container) -> String {
        let name = known.full_name();
        if known.pod.is_some() || !is_drawn(&name) {
            return name;
        }
        self.beside(known.cgroups.first().map_or("", String::as_str), shortened(&name))
    }

    fn beside(&self, path: &str, name: String) -> String {
        match self.index.programs.get(path) {
            None => name,
            Some(programs) => format!("{name} ({programs})"),
        }
    }

    /// The parts of a container's name.
    pub fn workload(&self, known: &Container) -> Workload {
        let (namespace, pod) = match known.pod.as_deref().map(|pod| pod.split_once('/')) {
            Some(Some((namespace, pod))) => (Some(namespace.into()), Some(pod.into())),
            Some(None) => (None, known.pod.clone()),
            None => (None, None),
        };
        let is_unit = known.is_unit();
        let is_named = known.is_real() || is_unit || is_drawn(&known.name);
        Workload {
            name: is_named.then(|| self.called(known)),
            runtime: known.is_real().then(|| known.runtime.clone()),
            namespace,
            pod,
            unit: is_unit.then(|| known.name.clone()),
        }
    }

    pub(super) fn container_at(&self, paths: &[&str]) -> Option<&Container> {
        let longest = |path: &&str| {
            let mut above = ancestors(path);
            above.find_map(|top| Some((top.len(), *self.index.container_at.get(top)?)))
        };
        let found = paths.iter().filter_map(longest).max_by_key(|(longest, _)| *longest);
        self.all.get(found?.1)
    }

    /// The group of a thread by the number that the scheduler has it under. Each hierarchy of v1 counts its own.
    pub(super) fn group_by_number(&self, thread: &ThreadRef) -> Option<&Cgroup> {
        let (cpu, unified) = self.index.numbers.get(&thread.tid)?;
        let has_cpu = |group: &&Cgroup| group.controllers.iter().any(|own| own == "cpu");
        let of_cpu = self.cgroups.iter().filter(has_cpu).find(|group| group.id == *cpu);
        let of_unified = || {
            let all = self.cgroups.iter().filter(|group| group.controllers.is_empty());
            all.into_iter().find(|group| group.id != 0 && group.id == *unified)
        };
        of_cpu.filter(|group| group.id != 0).or_else(of_unified)
    }

    /// Once the last fact is in.
    pub(super) fn finish(&mut self, threads: &Threads) {
        self.keep_latest_cgroups();
        self.index = GroupIndex::of(&self.cgroups, &self.all, threads);
    }

    /// Of settings that were reported again, the last ones take the place of the first.
    fn keep_latest_cgroups(&mut self) {
        let mut first_at: HashMap<(&str, &[String]), usize> = HashMap::new();
        let mut again = Vec::new();
        for (at, group) in self.cgroups.iter().enumerate() {
            let first = *first_at.entry((&group.path, &group.controllers)).or_insert(at);
            if first != at {
                again.push((first, at));
            }
        }
        for (first, at) in &again {
            self.cgroups.swap(*first, *at);
        }
        let mut gone = again.iter().map(|(_, at)| *at).peekable();
        let mut places = 0..;
        self.cgroups.retain(|_| gone.next_if_eq(&places.next().unwrap_or(usize::MAX)).is_none());
    }
}

impl Push<Cgroup> for Containers {
    fn push(&mut self, _: Ns, cgroup: Cgroup) {
        self.cgroups.push(cgroup);
    }
}

impl Push<CgroupSample> for Containers {
    /// The key has path and controllers, and the sample no more.
    fn push(&mut self, at_ns: Ns, mut sample: CgroupSample) {
        let key = (std::mem::take(&mut sample.path), std::mem::take(&mut sample.controllers));
        match self.counters.entry(key) {
            Entry::Vacant(place) => {
                let is_of_opening = !self.has_begun;
                let ends = CgroupEnds { at_ns, is_of_opening, first: sample, last: None };
                place.insert(Box::new(ends));
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.last = (sample != known.first).then(|| Box::new(sample));
            }
        }
    }
}

impl Push<Container> for Containers {
    fn push(&mut self, _: Ns, container: Container) {
        self.all.push(container);
    }
}

impl Push<ContainerSample> for Containers {
    fn push(&mut self, at: Ns, sample: ContainerSample) {
        self.samples.push((at, sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    fn settings(path: &str, limit: u64) -> Body {
        let memory_limit_bytes = Some(limit);
        Body::Cgroup(Cgroup { path: path.into(), memory_limit_bytes, ..Cgroup::default() })
    }

    fn counters(path: &str, hits: u64) -> Body {
        let memory_limit_hits = Some(hits);
        Body::CgroupSample(CgroupSample {
            path: path.into(),
            memory_limit_hits,
            ..CgroupSample::default()
        })
    }

    fn model(bodies: Vec<Body>) -> Model {
        let at = |(at, body)| Fact { at_ns: at as Ns, body };
        Model::new(bodies.into_iter().enumerate().map(at).collect())
    }

    #[test]
    fn settings_reported_again_take_the_place_of_the_first() {
        let reported = [("/a", 1), ("/b", 2), ("/a", 3), ("/c", 4), ("/a", 5), ("/b", 6)];
        let model =
            model(reported.into_iter().map(|(path, limit)| settings(path, limit)).collect());
        let held =
            model.containers.cgroups.iter().map(|it| (it.path.as_str(), it.memory_limit_bytes));
        assert!(held.eq([("/a", Some(5)), ("/b", Some(6)), ("/c", Some(4))]));
    }

    #[test]
    fn counters_are_of_both_ends() {
        let reported = [("/a", 1), ("/b", 7), ("/a", 2), ("/b", 8), ("/a", 3), ("/b", 7)];
        let bodies = reported.into_iter().map(|(path, hits)| counters(path, hits)).collect();
        let model = model(bodies);
        let ends = |path: &str| {
            let group = Cgroup { path: path.into(), ..Cgroup::default() };
            let (first, last) = model.containers.change(&group)?;
            Some((first.memory_limit_hits?, last.memory_limit_hits?))
        };
        assert_eq!((ends("/a"), ends("/b"), ends("/c")), (Some((1, 3)), Some((7, 7)), None));
    }
}
