//! What the start of a container took, by phase: the time of a runtime's command until the container's own program began.
//!
//! The container's program begins with the first exec of a process that is the first of a PID namespace of its own and was
//! born in the look. The command began it, or a daemon did for it: then the command's path leads through who was born for that,
//! the runtime. Each leaf of the command's path before it belongs to one phase: a wait by the kernel functions on its
//! stack, or its system call; work by those of the samples of its process. Must not: say who is to blame for a phase (rules/).
//!
//! Rejected: phases by when they begin and end (runtimes do them in turns, and in several processes).

use crate::facts::{Exec, Ns, ObjectRef, Place, ThreadRef};
use crate::graph::chains::{ChainLink, Leaf};
use crate::measure::Measures;
use crate::model::{Model, ThreadKey};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, HashSet};

/// What a runtime does to start a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Makes or enters namespaces, that of the network apart.
    Namespaces,
    /// Mounts, and takes away what was mounted.
    Mounts,
    /// Makes, sets and enters control groups.
    Cgroups,
    /// Makes or enters a network namespace, and sets up devices, addresses and routes.
    Network,
    /// Reads and writes files: those of the image, and its own.
    Files,
    /// Executes programs.
    Exec,
    /// Anything else that the runtime's processes do on a CPU.
    Own,
    /// Waits that belong to no other.
    Other,
}

impl Phase {
    /// The word of reports and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Mounts => "mounts",
            Self::Cgroups => "cgroups",
            Self::Network => "network",
            Self::Files => "files",
            Self::Exec => "exec",
            Self::Own => "own work",
            Self::Other => "other waits",
        }
    }
}

/// A start that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The container's own program, as it began.
    pub program: ThreadRef,
    /// From the command's begin until then, seconds: what the phases add up to.
    pub seconds: f64,
    /// Phases, the longest first.
    pub phases: Vec<(Phase, f64)>,
}

/// The start of the container that a command began, if it began one.
pub fn of_command(measures: &Measures<'_>) -> Option<Start> {
    let path = &measures.graph.path;
    let begin_ns = path.iter().map(|leaf| leaf.begin_ns).min()?;
    let (began_ns, program) = first_program(measures, begin_ns)?;
    let mut works = Works { measures, by_pid: BTreeMap::new() };
    let mut phases: BTreeMap<Phase, f64> = BTreeMap::new();
    for leaf in path.iter().filter(|leaf| leaf.begin_ns < began_ns) {
        let seconds = (leaf.end_ns.min(began_ns) - leaf.begin_ns) as f64 / 1e9;
        for (phase, share) in works.of_leaf(leaf) {
            *phases.entry(phase).or_default() += seconds * share;
        }
    }
    let mut phases: Vec<(Phase, f64)> = phases.into_iter().filter(|(_, it)| *it > 0.0).collect();
    phases.sort_by(|a, b| b.1.total_cmp(&a.1));
    let seconds = phases.iter().map(|(_, seconds)| seconds).sum();
    (!phases.is_empty()).then_some(Start { program, seconds, phases })
}

/// The first exec of the first process of a PID namespace that was made in the look for this command.
fn first_program(measures: &Measures<'_>, begin_ns: Ns) -> Option<(Ns, ThreadRef)> {
    let model = measures.model;
    let born: HashSet<u32> = model.threads.forks.iter().map(|(_, fork)| fork.child.pid).collect();
    let links = measures.graph.path.iter().flat_map(|leaf| &leaf.links);
    let waited_for: HashSet<u32> = links.map(|link| link.who.pid).collect();
    // Daemons that were there before begin containers for others too.
    let is_for_command = |thread: &ThreadRef| {
        let mut line = measures.ancestry.line(thread.pid);
        measures.concerns(thread)
            || line.any(|pid| born.contains(&pid) && waited_for.contains(&pid))
    };
    let is_first = |exec: &Exec| {
        let read = || model.threads.by_id.get(&exec.thread.pid)?.inner_pid;
        exec.inner_pid.or_else(read) == Some(1)
    };
    let execs = model.threads.execs.iter().filter(|(at_ns, exec)| {
        *at_ns > begin_ns
            && is_first(exec)
            && born.contains(&exec.thread.pid)
            && is_for_command(&exec.thread)
    });
    execs.min_by_key(|(at_ns, _)| *at_ns).map(|(at_ns, exec)| (*at_ns, exec.thread.clone()))
}

struct Works<'m> {
    measures: &'m Measures<'m>,
    /// What each process does on a CPU, as shares.
    by_pid: BTreeMap<u32, Vec<(Phase, f64)>>,
}

impl Works<'_> {
    /// The phases that a leaf belongs to, as shares of it: of its deepest wait that tells, else of who works at its end.
    fn of_leaf(&mut self, leaf: &Leaf) -> Vec<(Phase, f64)> {
        let by_wait = leaf.links.iter().rev().find_map(|link| of_wait(self.measures, link));
        if let Some(phase) = by_wait {
            return vec![(phase, 1.0)];
        }
        let root = leaf.root();
        match root.class {
            WaitClass::Running | WaitClass::Unseen => self.of_work(root.who.pid),
            WaitClass::RunQueue | WaitClass::CpuQuota => vec![(Phase::Own, 1.0)],
            _ => vec![(Phase::Other, 1.0)],
        }
    }

    fn of_work(&mut self, pid: u32) -> Vec<(Phase, f64)> {
        let measures = self.measures;
        self.by_pid.entry(pid).or_insert_with(|| of_samples(measures, pid)).clone()
    }
}

/// What the samples of a process hit; its own work where there are none.
fn of_samples(measures: &Measures<'_>, pid: u32) -> Vec<(Phase, f64)> {
    let mut counts: BTreeMap<Phase, u64> = BTreeMap::new();
    for samples in measures.profile.samples(pid) {
        let frames = match samples.stack {
            0 => &[],
            stack => measures.model.stacks.kernel(stack),
        };
        let call = frames.iter().find_map(|frame| called(frame)).unwrap_or_default();
        let in_file = || is_of_file(frames).then_some(Phase::Files);
        let phase = of_call(call, frames).or_else(in_file).unwrap_or(Phase::Own);
        *counts.entry(phase).or_default() += samples.count;
    }
    let all: u64 = counts.values().sum();
    match all {
        0 => vec![(Phase::Own, 1.0)],
        all => counts.into_iter().map(|(it, count)| (it, count as f64 / all as f64)).collect(),
    }
}

/// The system call whose entry function a frame is.
fn called(frame: &str) -> Option<&str> {
    let prefixes = ["__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_", "ksys_"];
    prefixes.iter().find_map(|prefix| frame.strip_prefix(prefix))
}

fn of_wait(measures: &Measures<'_>, link: &ChainLink) -> Option<Phase> {
    use WaitClass::*;
    if matches!(link.class, Running | Unseen | RunQueue | CpuQuota) {
        return None;
    }
    let model = measures.model;
    let who = key(model, link);
    let mut waits = measures.timelines.of(who).iter();
    let wait = waits.find(|wait| wait.begin_ns < link.end_ns && wait.end_ns > link.begin_ns)?;
    let by_place = of_call(&wait.place.syscall, model.stacks.kernel(wait.place.stack));
    let on_network = || is_of_network(&wait.place).then_some(Phase::Network);
    let on_cgroups = || is_of_cgroups(&wait.place).then_some(Phase::Cgroups);
    let on_files = matches!(link.class, Disk | PageFault | Journal | DirtyThrottle | FuseDaemon);
    by_place.or_else(on_network).or_else(on_cgroups).or_else(|| on_files.then_some(Phase::Files))
}

fn key(model: &Model, link: &ChainLink) -> ThreadKey {
    model.threads.key_at(&link.who, link.end_ns)
}

/// Whether work in the kernel is for a file.
fn is_of_file(frames: &[String]) -> bool {
    const FILES: [&str; 7] =
        ["vfs_", "ovl_", "ext4_", "xfs_", "btrfs_", "do_filp_open", "path_openat"];
    frames.iter().any(|it| FILES.iter().any(|name| it.starts_with(name)))
}

fn is_of_network(place: &Place) -> bool {
    matches!(&place.object, Some(ObjectRef::Other { what, .. }) if what == "netlink")
}

fn is_of_cgroups(place: &Place) -> bool {
    matches!(&place.object, Some(ObjectRef::File(file)) if file.fs_type.starts_with("cgroup"))
}

/// By kernel functions, then by system call: a lock that a call waits for says more than the call.
fn of_call(call: &str, frames: &[String]) -> Option<Phase> {
    const NETWORK: [&str; 6] =
        ["rtnl_", "rtnetlink_", "netlink_", "setup_net", "copy_net_ns", "cleanup_net"];
    const CGROUPS: [&str; 4] = ["cgroup_", "cgroup1_", "cpuset_", "kernfs_iop_mkdir"];
    const NAMESPACES: [&str; 3] =
        ["create_new_namespaces", "copy_namespaces", "switch_task_namesp"];
    let passes =
        |names: &[&str]| frames.iter().any(|it| names.iter().any(|name| it.starts_with(name)));
    match call {
        _ if passes(&NETWORK) => Some(Phase::Network),
        _ if passes(&CGROUPS) => Some(Phase::Cgroups),
        "mount" | "umount" | "umount2" | "pivot_root" | "fsopen" | "fsconfig" | "fsmount"
        | "fspick" | "move_mount" | "open_tree" | "mount_setattr" | "chroot" => Some(Phase::Mounts),
        "unshare" | "setns" => Some(Phase::Namespaces),
        _ if passes(&NAMESPACES) => Some(Phase::Namespaces),
        "execve" | "execveat" => Some(Phase::Exec),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::explain;
    use crate::answer::report::ContainerStart;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const MS: Ns = 1_000_000;

    fn phase(call: &str, frames: &[&str]) -> Option<Phase> {
        let frames: Vec<String> = frames.iter().map(|it| (*it).to_string()).collect();
        of_call(call, &frames)
    }

    #[test]
    fn a_lock_says_more_than_the_call_that_waits_for_it() {
        assert_eq!(
            phase("unshare", &["__mutex_lock", "rtnl_lock", "setup_net"]),
            Some(Phase::Network)
        );
        assert_eq!(phase("unshare", &["copy_mnt_ns"]), Some(Phase::Namespaces));
        assert_eq!(phase("clone", &["create_new_namespaces"]), Some(Phase::Namespaces));
        assert_eq!(phase("clone", &["cgroup_can_fork", "copy_process"]), Some(Phase::Cgroups));
        assert_eq!(phase("write", &["cgroup_attach_task", "vfs_write"]), Some(Phase::Cgroups));
        assert_eq!(phase("move_mount", &[]), Some(Phase::Mounts));
        assert_eq!(phase("read", &["pipe_read", "vfs_read"]), None);
    }

    /// A runtime, 10, starts a container whose program, 11, begins after 4 s of 5. The runtime waits for a lock of the
    /// network for 1 s and in a mount for 2 s. The program's number in its namespace is read while it lives, or seen at its exec.
    fn started(inner_pid: Option<u32>, seen: Option<u32>) -> Option<ContainerStart> {
        let mut facts = host();
        let target = Target {
            kind: TargetKind::Command,
            name: "runc run x".into(),
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        facts.push(fact(Body::Target(target)));
        let mut put = |at_ms: Ns, body| facts.push(Fact { at_ns: at_ms * MS, body });
        let runtime = || thread(10, "runc");
        let frames = |names: &[&str]| names.iter().map(|it| (*it).to_string()).collect();
        put(
            0,
            Body::Stack(Stack {
                id: 7,
                frames: frames(&["__mutex_lock", "rtnl_lock", "setup_net"]),
            }),
        );
        for (from, until, syscall, stack) in
            [(500, 1_500, "unshare", 7), (1_600, 3_600, "mount", 0)]
        {
            let place = Place {
                state: WaitState::DiskSleep,
                syscall: syscall.into(),
                stack,
                ..Place::default()
            };
            let (thread, begin_ns, end_ns) = (runtime(), from * MS, until * MS);
            let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            put(until, Body::Wait(wait));
        }
        let program = ThreadRef { start_ns: 3_700 * MS, ..thread(11, "sh") };
        put(3_700, Body::Fork(Fork { parent: runtime(), child: program.clone(), flags: 0 }));
        let known =
            Thread { thread: program.clone(), parent_pid: 10, inner_pid, ..Thread::default() };
        put(3_701, Body::Thread(known));
        put(
            4_000,
            Body::Exec(Exec {
                thread: program,
                path: "/bin/sh".into(),
                inner_pid: seen,
                ..Exec::default()
            }),
        );
        put(5_000, Body::CommandEnd(CommandEnd { pid: 10, exit_status: 0, signal: 0 }));
        facts.sort_by_key(|fact| fact.at_ns);
        explain(facts).container_start
    }

    #[test]
    fn the_phases_of_a_start_add_up_to_the_time_until_the_containers_program_began() {
        let start = started(Some(1), None).unwrap();
        assert_eq!((start.program.as_str(), start.pid), ("sh", 11));
        assert!((start.seconds - 4.0).abs() < 0.01, "{start:?}");
        let of = |name: &str| start.phases.iter().find(|it| it.phase == name).map(|it| it.seconds);
        assert_eq!((of("mounts"), of("network")), (Some(2.0), Some(1.0)), "{start:?}");
        let sum: f64 = start.phases.iter().map(|it| it.seconds).sum();
        assert!((sum - start.seconds).abs() < 1e-9, "{start:?}");
    }

    #[test]
    fn a_command_without_a_pid_namespace_of_its_own_starts_no_container() {
        assert_eq!(started(None, None), None);
        assert_eq!(started(Some(5), None), None);
        assert_eq!(started(None, Some(5)), None);
    }

    #[test]
    fn a_container_whose_program_has_ended_since_has_started_too() {
        assert_eq!(started(None, Some(1)), started(Some(1), None));
        assert!(started(None, Some(1)).is_some());
    }
}
