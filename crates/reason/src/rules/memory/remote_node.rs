//! memory.remote_node: a program may run only on CPUs of one node, and its memory may come only from another.
//!
//! Both masks are the kernel's own (/proc/PID/status), so this is read, not measured: what each access costs depends on how much of
//! the program's memory its caches hold. Hence a note. Must not: claim any of its time, or count pages (numa_maps walks a
//! process's page tables under its memory lock, and would hold up the program that is asked about). Blind to policies that a program sets
//! itself (mbind, numactl --membind): the kernel shows those in numa_maps alone.

use crate::facts::{Cgroup, MemoryNode, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::group_limits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule};
use crate::threshold::Threshold;
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "memory.remote_node",
    title: "A program runs on one node, and its memory comes from another",
    theory: "Where a machine has several nodes, each CPU reaches the memory of its own sooner. A cpuset that allows CPUs of one node and memory \
             of another makes each access that the caches do not hold take the longer way, and no page is ever moved nearer, for none may be.",
    needs: &[
        "a thread may run on CPUs of some nodes only, and its memory may come from other nodes only",
        "it runs for a tenth of the look, or more",
    ],
    refuted_by: &[
        Refutation::new("one node is in both masks", "memory_that_may_be_near_is_no_finding"),
        Refutation::new("it hardly runs", "who_hardly_runs_loses_nothing"),
        Refutation::new("the machine has one node", "one_node_is_near_to_all"),
    ],
    remedies: &[
        "allow memory of the nodes of its CPUs (cpuset.mems)",
        "or let it run where its memory is (cpuset.cpus)",
    ],
    stories: &[],
    thresholds: &[&RUN_MIN],
    finds: Finds::Look(find),
};

static RUN_MIN: Threshold = Threshold::new(
    0.1,
    "CPUs",
    "what the program runs on such CPUs; with less there is little to gain",
    "chosen",
);

/// A program that is far from its memory.
struct Remote<'m> {
    process: ThreadRef,
    run: f64,
    cpus: &'m [u32],
    /// Nodes of its CPUs, and those of its memory.
    near: Vec<u32>,
    far: &'m [u32],
}

fn find<'m>(measures: &'m Measures<'m>, _ends: &'m [End]) -> Vec<Match<'m>> {
    let (model, wall) = (measures.model, measures.wall_seconds().max(1e-9));
    let nodes = &model.look.host.memory_nodes;
    let mut all: BTreeMap<u32, Remote<'m>> = BTreeMap::new();
    for time in
        model.threads.times.iter().filter(|time| !time.kernel && model.in_target(&time.thread))
    {
        let Some(known) = model.threads.identity(&time.thread) else { continue };
        let (cpus, far) = (&known.cpus_allowed, &known.memory_nodes_allowed);
        let near = nodes_of(nodes, cpus);
        if near.is_empty() || far.is_empty() || near.iter().any(|node| far.contains(node)) {
            continue;
        }
        let process = || model.threads.thread_ref(time.thread.pid);
        let remote = || Remote { process: process(), run: 0.0, cpus, near, far };
        all.entry(time.thread.pid).or_insert_with(remote).run += time.run_ns as f64 / 1e9;
    }
    all.retain(|_, remote| remote.run >= RUN_MIN.value * wall);
    all.into_values().map(|remote| matched(measures, remote)).collect()
}

/// The nodes that some CPUs are of.
fn nodes_of(nodes: &[MemoryNode], cpus: &[u32]) -> Vec<u32> {
    let has = |node: &&MemoryNode| cpus.iter().any(|cpu| node.cpus.contains(cpu));
    nodes.iter().filter(has).map(|node| node.node).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, remote: Remote<'m>) -> Match<'m> {
    let group = measures.model.cgroup_of(&remote.process, "cpuset");
    let file = group.map(mems_file);
    let name = group.map_or_else(|| "cpuset".to_string(), |group| group.path.clone());
    let process = remote.process.clone();
    Match {
        object: Some(Object::Memory(None)),
        losses: Some(Losses::from([(process.pid, (process.clone(), 0.0))])),
        path_seconds: Some(0.0),
        // Nobody is waited for.
        chain: Some(Vec::new()),
        severity_max: Severity::Note,
        ..Match::new(
            Culprit {
                pid: Some(process.pid),
                ..Culprit::setting(name, file.unwrap_or("cpuset.mems".into()))
            },
            Proof::Read,
            move |_| explain(measures, &remote),
        )
    }
}

fn explain(measures: &Measures<'_>, remote: &Remote<'_>) -> Wording {
    let who = words::who(&remote.process);
    let (near, far) = (words::cpus(&remote.near), words::cpus(remote.far));
    let distance = distance(&measures.model.look.host.memory_nodes, remote);
    let how_far = distance.map_or_else(String::new, |(own, other)| {
        format!(": the firmware says {other} against {own}")
    });
    let run = Evidence::new("CPU used there", remote.run, "s", "sched_switch");
    let by_firmware = distance.map(|(own, other)| {
        let ratio = f64::from(other) / f64::from(own.max(1));
        Evidence::new(
            "distance, by that of its own node",
            ratio,
            "1",
            "/sys/devices/system/node/node*/distance",
        )
    });
    let remedy = remedy(measures, remote, (&near, &far));
    Wording {
        title: format!("{who} runs on node {near}, and its memory may come from node {far} alone"),
        text: format!(
            "It may use CPU {}, which is of node {near}, and used {} of CPU. All memory that it gets is of node {far}, which those CPUs reach the \
             long way{how_far}. How much that costs depends on what its caches hold.",
            words::cpus(remote.cpus),
            words::seconds(remote.run),
        ),
        evidence: [run].into_iter().chain(by_firmware).collect(),
        remedy: remedy.into_iter().collect(),
    }
}

/// What a thread may use is read, and not which of its groups says so: of several, one above another, it may be any or all of them.
fn remedy(
    measures: &Measures<'_>,
    remote: &Remote<'_>,
    (near, far): (&str, &str),
) -> Option<Remedy> {
    let own = measures.model.cgroup_of(&remote.process, "cpuset").filter(|own| own.path != "/")?;
    let text = "let its memory come from where it runs; cgroup v2 moves what it has, v1 where the cpuset says so";
    let above = group_limits::above(measures.model, own).into_iter().filter(|it| it.path != "/");
    let mut files: Vec<String> = [own].into_iter().chain(above).map(mems_file).collect();
    if let [file] = &files[..] {
        return Some(Remedy::to(text).write(file, near, far));
    }
    files.reverse();
    let words: Vec<String> = files.iter().map(|file| words::shell(file)).collect();
    let way = Remedy::to(format!("{text}: write {near} where this says {far}, from the first on"));
    let ask = Action::look(Question::State);
    Some(way.command(format!("grep -H . {}", words.join(" "))).acting(ask))
}

fn mems_file(group: &Cgroup) -> String {
    format!("{}/cpuset.mems", group.directory.trim_end_matches('/'))
}

/// How far its nearest memory is, and memory of its own node.
fn distance(nodes: &[MemoryNode], remote: &Remote<'_>) -> Option<(u32, u32)> {
    let place = |node: u32| nodes.iter().position(|it| it.node == node);
    let at: BTreeSet<usize> = remote.far.iter().filter_map(|node| place(*node)).collect();
    let own = nodes.get(place(*remote.near.first()?)?)?;
    let nearest = at.iter().filter_map(|at| own.distances.get(*at)).min()?;
    Some((*own.distances.get(place(own.node)?)?, *nearest))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::measure::cpu_users::tests::{cpus, time};
    use crate::rules::scenes::of_process;

    /// A program that may use these CPUs, and memory of these nodes, of a machine with a CPU in each of two.
    fn found(nodes: &[u32], allowed: &[u32], memory: &[u32], run: f64) -> Vec<Finding> {
        of(facts(nodes, allowed, memory, run))
    }

    fn of(facts: Vec<Fact>) -> Vec<Finding> {
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "memory.remote_node");
        found
    }

    fn facts(nodes: &[u32], allowed: &[u32], memory: &[u32], run: f64) -> Vec<Fact> {
        let mut facts = cpus([1.0, 0.1]);
        let node = |node: u32| {
            let distances = if node == 0 { vec![10, 21] } else { vec![21, 10] };
            MemoryNode { node, cpus: vec![node], distances }
        };
        let memory_nodes = nodes.iter().map(|it| node(*it)).collect();
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "model".into() };
        let known = Thread {
            thread,
            cpus_allowed: allowed.to_vec(),
            memory_nodes_allowed: memory.to_vec(),
            cgroups: vec![Membership { controllers: Vec::new(), path: "/model".into() }],
            ..Thread::default()
        };
        let group = Cgroup {
            path: "/model".into(),
            directory: "/sys/fs/cgroup/model".into(),
            ..Cgroup::default()
        };
        let host = Host { memory_nodes, ..Host::default() };
        let bodies = [Body::Host(host), Body::Thread(known), Body::Cgroup(group)];
        facts.extend(bodies.map(|body| Fact { at_ns: 0, body }));
        facts.push(time(10, "model", run, 0.0));
        facts
    }

    #[test]
    fn memory_of_the_other_node_is_a_note_with_the_setting() {
        let found = found(&[0, 1], &[0], &[1], 4.9);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Note));
        assert_eq!(
            found[0].title,
            "model 10 runs on node 0, and its memory may come from node 1 alone"
        );
        assert!(found[0].text.contains("21 against 10"), "{}", found[0].text);
        assert_eq!(found[0].remedy[0].command, "echo 0 > /sys/fs/cgroup/model/cpuset.mems");
    }

    #[test]
    fn memory_that_may_be_near_is_no_finding() {
        assert_eq!(found(&[0, 1], &[0], &[0, 1], 4.9), []);
        assert_eq!(found(&[0, 1], &[0, 1], &[1], 4.9), []);
    }

    #[test]
    fn who_hardly_runs_loses_nothing() {
        assert_eq!(found(&[0, 1], &[0], &[1], 0.1), []);
    }

    #[test]
    fn one_node_is_near_to_all() {
        assert_eq!(found(&[], &[0], &[], 4.9), []);
    }

    #[test]
    fn where_nodes_could_not_be_read_nothing_is_said_to_be_far() {
        assert_eq!(found(&[], &[0], &[1], 4.9), [], "of which node a CPU is");
        assert_eq!(found(&[0, 1], &[0], &[], 4.9), [], "from where memory may come");
    }

    #[test]
    fn a_look_at_another_process_has_nothing_to_say_of_it() {
        let beside = |pid| {
            let mut facts = facts(&[0, 1], &[0], &[1], 4.9);
            facts.push(of_process(pid, "looked-at"));
            of(facts).len()
        };
        assert_eq!((beside(10), beside(11)), (1, 0));
    }
}
