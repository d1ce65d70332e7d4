//! Questions that need more than one area of the facts: whose a thread is, where it stood, which group it is in.
//!
//! Short processes have come and gone before anybody could read which groups they are in: the scheduler's own sums say the
//! number of their group, which is as good. Owns no data: what one area knows alone is asked of that area. Must not: conclude
//! anything; what is not known is absent.

use super::containers::Workload;
use super::group_index::ancestors;
use super::membership::is_inside;
use super::{Model, membership};
use crate::facts::*;

impl Model {
    /// The user stack of a wait: the last that was read while it lasted. Between `since_ns` and its reading the thread did
    /// not switch, so a stack is of each wait that touches this time.
    pub fn user_stack(&self, thread: &ThreadRef, from: Ns, to: Ns) -> Option<&UserStack> {
        let of_wait = |(at_ns, stack): &&(Ns, UserStack)| {
            stack.since_ns <= to && from <= *at_ns && self.threads.is_same(&stack.thread, thread)
        };
        let all = self.stacks.user.get(&thread.tid)?;
        all.iter().rev().find(of_wait).map(|(_, stack)| stack)
    }

    /// Whether a thread belongs to what is looked at.
    pub fn in_target(&self, thread: &ThreadRef) -> bool {
        match &self.look.target {
            None => true,
            Some(target) => match target.kind {
                TargetKind::Host | TargetKind::Command => true,
                TargetKind::Process => thread.pid == target.pid,
                TargetKind::Container => self.threads.identity(thread).is_some_and(|identity| {
                    identity.cgroups.iter().any(|membership| {
                        target.cgroups.iter().any(|path| is_inside(&membership.path, path))
                    })
                }),
            },
        }
    }

    /// The cgroup of a controller that a thread is in: settings of the nearest group.
    pub fn cgroup_of<'a>(&'a self, thread: &ThreadRef, controller: &str) -> Option<&'a Cgroup> {
        let identity = self.threads.identity(thread)?;
        let membership = membership::place(identity, controller)?;
        self.containers.cgroups.iter().find(|group| {
            group.path == membership.path
                && (group.controllers.is_empty() == membership.controllers.is_empty())
                && (group.controllers.is_empty()
                    || group.controllers.iter().any(|c| c == controller))
        })
    }

    /// The container, unit or group that a thread is in, if any: the one with the longest matching cgroup path.
    pub fn container_of(&self, thread: &ThreadRef) -> Option<&Container> {
        let by_number = || {
            let group = self.containers.group_by_number(thread)?;
            self.containers.container_at(&[group.path.as_str()])
        };
        match self.threads.identity(thread) {
            Some(known) => {
                let paths: Vec<&str> = known.cgroups.iter().map(|own| own.path.as_str()).collect();
                self.containers.container_at(&paths)
            }
            None => by_number(),
        }
    }

    /// ` of shop/web-0/main`, ` of web-1`: nothing for a unit, a plain group or the host, and for the container that is looked at.
    pub fn of_container(&self, thread: &ThreadRef) -> String {
        let known = self.container_of(thread).filter(|known| known.is_real());
        let is_asked = |known: &&Container| {
            self.look.target.as_ref().is_some_and(|target| {
                target.kind == TargetKind::Container
                    && known.cgroups.iter().any(|own| {
                        ancestors(own).any(|above| target.cgroups.iter().any(|it| it == above))
                    })
            })
        };
        let known = known.filter(|known| !is_asked(known));
        known.map_or_else(String::new, |known| format!(" of {}", self.containers.called(known)))
    }

    /// A process by name, number and container: `app 812 of shop/web-0/main`.
    pub fn who(&self, thread: &ThreadRef) -> String {
        format!("{}{}", self.threads.who(thread), self.of_container(thread))
    }

    /// The same beside another, whose container need not be said twice.
    pub fn who_beside(&self, thread: &ThreadRef, other: &ThreadRef) -> String {
        match (self.of_container(thread), self.of_container(other)) {
            (own, theirs) if own == theirs => self.threads.who(thread),
            (own, _) => format!("{}{own}", self.threads.who(thread)),
        }
    }

    /// Whose a thread is.
    pub fn workload_of(&self, thread: &ThreadRef) -> Workload {
        self.container_of(thread)
            .map_or_else(Workload::default, |known| self.containers.workload(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_of_the_wait_that_lasted_when_it_was_read() {
        let thread = ThreadRef { tid: 7, pid: 7, start_ns: 1, comm: "x".into() };
        let stack = UserStack { thread: thread.clone(), since_ns: 100, ..UserStack::default() };
        let facts = vec![Fact { at_ns: 150, body: Body::UserStack(stack) }];
        let model = Model::new(facts);
        let has = |from, to| model.user_stack(&thread, from, to).is_some();
        assert!(has(100, 200) && has(90, 120) && has(0, 100));
        assert!(!has(0, 99) && !has(151, 200), "before, and after");
        let other = ThreadRef { tid: 8, ..thread.clone() };
        assert!(model.user_stack(&other, 100, 200).is_none());
    }

    #[test]
    fn a_thread_with_a_name_of_its_own_is_found_by_its_program() {
        let of = |tid, comm: &str| ThreadRef { tid, pid: 10, start_ns: 1, comm: comm.into() };
        let mentions =
            |who: ThreadRef| fact(Body::Thread(Thread { thread: who, ..Thread::default() }));
        let known = Model::new(vec![mentions(of(10, "named")), mentions(of(12, "isc-net-0002"))]);
        let who = |tid, comm| known.who(&of(tid, comm));
        assert_eq!(who(12, "isc-net-0002"), "named 10/12 (thread isc-net-0002)");
        assert_eq!((who(10, "named"), who(13, "named")), ("named 10".into(), "named 10/13".into()));
        assert_eq!(who(14, ""), "named 10/14");
        let alone = Model::new(vec![mentions(of(12, "isc-net-0002"))]);
        assert_eq!(alone.who(&of(12, "isc-net-0002")), "isc-net-0002 10/12");
    }

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
        assert_eq!(model.containers.group_in_words(POD), "pod shop/web-0");
        assert_eq!(model.containers.group_in_words(&main), "container shop/web-0/main");
        assert_eq!(
            model.containers.group_in_words("/system.slice/nginx.service"),
            "unit nginx.service"
        );
        assert_eq!(model.containers.group_in_words("/jobs"), "cgroup /jobs");
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
        assert_eq!(
            model.containers.group_in_words(path),
            format!("cgroup {path} (cc1, make, ...)")
        );
        let of = model.workload_of(&thread(12, "sh")).name;
        assert_eq!(of.as_deref(), Some("9171b7905f0e (cc1, make, ...)"));
    }
}
