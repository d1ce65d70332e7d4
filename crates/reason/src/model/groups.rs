//! Whose a thread is, and what a person calls a group of threads: its pod, its container, its unit, or what runs in it.
//!
//! A cgroup's path is an address, and under Kubernetes one of numbers alone; the name comes from the runtime's state, which the
//! opening read. Short processes have come and gone before anybody could read which groups they are in: the scheduler's own
//! sums say the number of their group, which is as good. A name that is nothing but digits says nothing, so what runs in such
//! a group stands beside it. Must not: guess a pod by a name of a process, or change a path that a command needs.
//!
//! Rejected: to take the container of the parent for one whose groups are not known: a runtime's own child is not in its
//! container, and what a shell inside of it began is not outside.
//!
//! Edit together: probe's container.rs, answer/report.rs.

use super::group_index::{GroupIndex, ancestors, is_drawn, last_part, listed, shortened};
use super::{Model, words};
use crate::facts::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

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

impl Model {
    /// The container, unit or group that a thread is in, if any: the one with the longest matching cgroup path.
    pub fn container_of(&self, thread: &ThreadRef) -> Option<&Container> {
        let by_number = || {
            let group = self.group_by_number(thread)?;
            self.container_at(&[group.path.as_str()])
        };
        match self.identity(thread) {
            Some(known) => {
                let paths: Vec<&str> = known.cgroups.iter().map(|own| own.path.as_str()).collect();
                self.container_at(&paths)
            }
            None => by_number(),
        }
    }

    /// ` of shop/web-0/main`, ` of web-1`: nothing for a unit, a plain group or the host, and for the container that is looked at.
    pub fn of_container(&self, thread: &ThreadRef) -> String {
        let known = self.container_of(thread).filter(|known| known.is_real());
        let is_asked = |known: &&Container| {
            self.target.as_ref().is_some_and(|target| {
                target.kind == TargetKind::Container
                    && known.cgroups.iter().any(|own| {
                        ancestors(own).any(|above| target.cgroups.iter().any(|it| it == above))
                    })
            })
        };
        let known = known.filter(|known| !is_asked(known));
        known.map_or_else(String::new, |known| format!(" of {}", self.called(known)))
    }

    /// A process by name, number and container: `app 812 of shop/web-0/main`.
    pub fn who(&self, thread: &ThreadRef) -> String {
        format!("{}{}", words::who(thread), self.of_container(thread))
    }

    /// The same beside another, whose container need not be said twice.
    pub fn who_beside(&self, thread: &ThreadRef, other: &ThreadRef) -> String {
        match (self.of_container(thread), self.of_container(other)) {
            (own, theirs) if own == theirs => words::who(thread),
            (own, _) => format!("{}{own}", words::who(thread)),
        }
    }

    /// Whose a thread is.
    pub fn workload_of(&self, thread: &ThreadRef) -> Workload {
        self.container_of(thread).map_or_else(Workload::default, |known| self.workload(known))
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
        let own = self.containers.iter().find(|known| known.cgroups.iter().any(|own| own == path));
        match own {
            Some(own) if own.is_real() => {
                let kind = if own.runtime == "kubernetes" { "pod" } else { "container" };
                (kind, self.called(own))
            }
            Some(own) if own.runtime == "systemd" => ("unit", self.called(own)),
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
        match self.group_index.programs.get(path) {
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
        let is_unit = known.runtime == "systemd";
        let is_named = known.is_real() || is_unit || is_drawn(&known.name);
        Workload {
            name: is_named.then(|| self.called(known)),
            runtime: known.is_real().then(|| known.runtime.clone()),
            namespace,
            pod,
            unit: is_unit.then(|| known.name.clone()),
        }
    }

    fn container_at(&self, paths: &[&str]) -> Option<&Container> {
        let longest = |path: &&str| {
            let mut above = ancestors(path);
            above.find_map(|top| Some((top.len(), *self.group_index.container_at.get(top)?)))
        };
        let found = paths.iter().filter_map(longest).max_by_key(|(longest, _)| *longest);
        self.containers.get(found?.1)
    }

    /// The group of a thread by the number that the scheduler has it under. Each hierarchy of v1 counts its own.
    fn group_by_number(&self, thread: &ThreadRef) -> Option<&Cgroup> {
        let (cpu, unified) = self.group_index.numbers.get(&thread.tid)?;
        let has_cpu = |group: &&Cgroup| group.controllers.iter().any(|own| own == "cpu");
        let of_cpu = self.cgroups.iter().filter(has_cpu).find(|group| group.id == *cpu);
        let of_unified = || {
            let all = self.cgroups.iter().filter(|group| group.controllers.is_empty());
            all.into_iter().find(|group| group.id != 0 && group.id == *unified)
        };
        of_cpu.filter(|group| group.id != 0).or_else(of_unified)
    }

    /// Indexes the groups; once, after the last fact.
    pub(super) fn index_groups(&mut self) {
        let tops = self.containers.iter().enumerate();
        let container_at =
            tops.flat_map(|(at, known)| known.cgroups.iter().map(move |top| (top.clone(), at)));
        let unknown = |time: &&ThreadTime| {
            time.cpu_cgroup_id | time.cgroup_id != 0
                && !self.threads.contains_key(&time.thread.tid)
                && !self.threads.contains_key(&time.thread.pid)
        };
        let numbers = |time: &ThreadTime| (time.thread.tid, (time.cpu_cgroup_id, time.cgroup_id));
        self.group_index = GroupIndex {
            container_at: container_at.filter(|(top, _)| top != "/").collect(),
            numbers: self.times.iter().filter(unknown).map(numbers).collect(),
            programs: self.programs(),
        };
    }

    /// What runs in each group whose name says nothing, the programs that used most CPU first.
    fn programs(&self) -> HashMap<String, String> {
        let mut of_group: HashMap<&str, BTreeMap<&str, Ns>> = HashMap::new();
        let of_container = self.containers.iter().filter(|known| is_drawn(&known.name));
        let paths = of_container.flat_map(|known| known.cgroups.iter().map(String::as_str));
        let groups = self.cgroups.iter().map(|group| group.path.as_str());
        for path in paths.chain(groups.filter(|path| is_drawn(last_part(path)))) {
            of_group.entry(path).or_default();
        }
        if of_group.is_empty() {
            return HashMap::new();
        }
        let mut used: HashMap<u32, Ns> = HashMap::new();
        for time in &self.times {
            *used.entry(time.thread.pid).or_default() += time.run_ns;
        }
        for Thread { thread, cgroups, .. } in self.threads.values() {
            if thread.tid != thread.pid || thread.comm.is_empty() {
                continue;
            }
            let paths: BTreeSet<&str> =
                cgroups.iter().flat_map(|own| ancestors(&own.path)).collect();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "/kubepods/burstable/pod0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

    fn fact(body: Body) -> Fact {
        Fact { at_ns: 0, body }
    }

    fn container(name: &str, runtime: &str, path: &str, pod: Option<&str>) -> Fact {
        fact(Body::Container(Container {
            name: name.into(),
            id: path.into(),
            runtime: runtime.into(),
            cgroups: vec![path.into()],
            pod: pod.map(String::from),
        }))
    }

    fn thread(pid: u32, comm: &str) -> ThreadRef {
        ThreadRef { tid: pid, pid, start_ns: 1, comm: comm.into() }
    }

    fn member(pid: u32, comm: &str, path: &str) -> Fact {
        let cgroups = vec![Membership { controllers: Vec::new(), path: path.into() }];
        fact(Body::Thread(Thread { thread: thread(pid, comm), cgroups, ..Thread::default() }))
    }

    fn ran(pid: u32, comm: &str, run_ns: Ns, ids: (u64, u64)) -> Fact {
        fact(Body::ThreadTime(ThreadTime {
            thread: thread(pid, comm),
            run_ns,
            cpu_cgroup_id: ids.0,
            cgroup_id: ids.1,
            ..ThreadTime::default()
        }))
    }

    #[test]
    fn a_pod_is_named_whole_and_a_group_by_what_it_is() {
        let main = format!("{POD}/main");
        let model = Model::new(vec![
            container("web-0", "kubernetes", POD, Some("shop/web-0")),
            container("main", "containerd", &main, Some("shop/web-0")),
            container("nginx.service", "systemd", "/system.slice/nginx.service", None),
            container("jobs", "cgroup", "/jobs", None),
            member(10, "app", &main),
            member(11, "nginx", "/system.slice/nginx.service"),
            member(12, "cc", "/jobs/nightly"),
        ]);
        let of = |pid| model.workload_of(&thread(pid, ""));
        let app = of(10);
        let said = |name: &Option<String>| name.clone().unwrap_or_default();
        assert_eq!(said(&app.name), "shop/web-0/main");
        assert_eq!((said(&app.namespace), said(&app.pod)), ("shop".into(), "web-0".into()));
        assert_eq!(said(&app.runtime), "containerd");
        assert_eq!((said(&of(11).unit), of(11).runtime), ("nginx.service".into(), None));
        assert_eq!(of(12), Workload::default(), "a plain group has its name, and is no workload");
        assert_eq!(model.group_in_words(POD), "pod shop/web-0");
        assert_eq!(model.group_in_words(&main), "container shop/web-0/main");
        assert_eq!(model.group_in_words("/system.slice/nginx.service"), "unit nginx.service");
        assert_eq!(model.group_in_words("/jobs"), "cgroup /jobs");
    }

    #[test]
    fn who_came_and_went_is_of_the_group_whose_number_the_scheduler_had() {
        let group = |path: &str, controllers: &[&str], id| {
            let controllers = controllers.iter().map(|name| (*name).to_string()).collect();
            fact(Body::Cgroup(Cgroup { path: path.into(), controllers, id, ..Cgroup::default() }))
        };
        let model = Model::new(vec![
            container("web", "docker", "/docker/web", None),
            container("db", "docker", "/docker/db", None),
            group("/docker/web", &["cpu"], 7),
            // Another hierarchy counts its own.
            group("/docker/db", &["memory"], 7),
            group("/docker/db", &[], 9),
            ran(20, "short", 5, (7, 9)),
            ran(21, "short", 5, (0, 9)),
            ran(22, "short", 5, (8, 8)),
        ]);
        let name = |pid| model.who(&thread(pid, "short"));
        assert_eq!((name(20), name(21)), ("short 20 of web".into(), "short 21 of db".into()));
        assert_eq!((name(22), name(23)), ("short 22".into(), "short 23".into()));
    }

    #[test]
    fn a_number_that_somebody_drew_never_stands_alone() {
        let path = "/jobs/9171b7905f0e189fea3e684d73c4026c";
        let model = Model::new(vec![
            container(&path[6..], "cgroup", path, None),
            member(10, "make", path),
            member(11, "cc1", &format!("{path}/inner")),
            member(12, "sh", path),
            member(13, "other", "/jobs/9171b7905f0e189fea3e684d73c4026c2"),
            ran(11, "cc1", 900, (0, 0)),
            ran(10, "make", 30, (0, 0)),
        ]);
        assert_eq!(model.group_in_words(path), format!("cgroup {path} (cc1, make, ...)"));
        let of = model.workload_of(&thread(12, "sh")).name;
        assert_eq!(of.as_deref(), Some("9171b7905f0e (cc1, make, ...)"));
    }
}
