//! cpu.affinity: threads wait for the few CPUs they may use while other CPUs idle.
//!
//! Pinned by sched_setaffinity (taskset, a library, a script of long ago) or by a cpuset. The idle time of the
//! CPUs that they may not use is the second fact: without it the host is merely full. Rejected: complaining
//! about pinning itself, which is right for threads that have a CPU each.

use crate::answer::report::*;
use crate::facts::{Cgroup, Thread, ThreadRef};
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::cpu;
use crate::rules::old::{Rule, words};
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// The case.
pub static RULE: Rule = Rule {
    code: "cpu.affinity",
    title: "Threads are pinned to few CPUs while others idle",
    theory: "A thread runs only on the CPUs of its affinity mask, within the cpuset of its cgroup; children inherit \
             both. Threads that are pinned to the same few CPUs queue there, and the scheduler may not move them to \
             the CPUs that have nothing to do.",
    needs: &[
        "threads may use only some of the CPUs, and wait in the run queue for them",
        "these CPUs are busy",
        "CPUs that they may not use are idle for a good part of the time",
    ],
    refuted_by: &[
        Refutation::new("the other CPUs are as busy", ""),
        Refutation::new("the threads hardly wait (one thread to a CPU)", ""),
    ],
    remedies: &["widen the affinity mask (taskset -p) or the cpuset", "spread the threads by hand"],
    stories: &[],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// The CPUs they may use are at least so busy.
const BUSY_MIN: f64 = 0.8;
/// The CPUs they may not use have at least so much less to do.
const GAP_MIN: f64 = 0.2;
/// Waiting that is less than this part of their running would not be worth moving for.
const WAIT_TO_RUN_MIN: f64 = 0.2;
/// Nor less than this, seconds a second.
const WAIT_PER_SECOND_MIN: f64 = 0.05;

/// The threads of a process with one mask.
struct Pinned<'a> {
    identity: &'a Thread,
    process: ThreadRef,
    run: f64,
    ready: f64,
}

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let model = measures.model;
    let busy = cpu::busy(model);
    let mut pinned: BTreeMap<(u32, &[u32]), Pinned<'_>> = BTreeMap::new();
    for time in model.times.iter().filter(|time| !time.kernel) {
        let Some(identity) = model.identity(&time.thread) else { continue };
        let allowed = &identity.cpus_allowed[..];
        let narrow = !allowed.is_empty() && busy.keys().any(|cpu| !allowed.contains(cpu));
        if !narrow || !model.in_target(&time.thread) {
            continue;
        }
        let one = pinned.entry((time.thread.pid, allowed)).or_insert_with(|| Pinned {
            identity,
            process: model.thread_ref(time.thread.pid),
            run: 0.0,
            ready: 0.0,
        });
        one.run += time.run_ns as f64 / 1e9;
        one.ready += (time.runnable_ns - cpu::throttled_ns(model, time)) as f64 / 1e9;
    }
    pinned.values().filter_map(|one| finding(measures, &busy, one)).collect()
}

fn finding(
    measures: &Measures<'_>,
    busy: &BTreeMap<u32, f64>,
    one: &Pinned<'_>,
) -> Option<Finding> {
    let wall = measures.wall_seconds().max(1e-9);
    let allowed = &one.identity.cpus_allowed;
    let others: Vec<u32> = busy.keys().copied().filter(|cpu| !allowed.contains(cpu)).collect();
    let here = cpu::mean_busy(busy, allowed)?;
    let there = cpu::mean_busy(busy, &others)?;
    let waits = one.ready >= WAIT_PER_SECOND_MIN * wall && one.ready >= WAIT_TO_RUN_MIN * one.run;
    if !waits || here < BUSY_MIN || there > here - GAP_MIN {
        return None;
    }
    let mut seconds = one.ready;
    let mut share = seconds / measures.demand_seconds(one.process.pid).max(seconds).max(1e-9);
    if measures.is_command() {
        let on_path = measures.class(WaitClass::RunQueue).filter(|end| {
            end.links.get(end.named).is_some_and(|link| link.who.pid == one.process.pid)
                || command_root(measures.model).is_some_and(|root| root.pid == one.process.pid)
        });
        seconds = seconds.min(on_path.map(|end| end.seconds).sum());
        share = seconds / wall;
    }
    let impact = Impact { wait_seconds_per_second: seconds / wall, share: share.min(1.0) };
    let name = measures.process_name(&one.process);
    let (list, free) = (cpu::cpu_list(allowed), cpu::cpu_list(&others));
    let object = ObjectName::new("run queue", format!("CPU {list}")).with_id(list.clone());
    Some(Finding {
        title: format!("{name} is pinned to CPU {list} while CPU {free} has time"),
        text: format!(
            "{} of its time ({}) its threads could run and wait for CPU {list}, which is {} busy; CPU {free}, \
             which they may not use, is {} busy.",
            words::percent(impact.share),
            words::of_window(seconds, wall),
            words::percent(here),
            words::percent(there),
        ),
        severity: Severity::of(&impact),
        confidence: 0.93,
        culprit: who(measures, one),
        victims: vec![cpu::victim(measures, &one.process, one.ready)],
        chain: vec![Link {
            who: Who::thread(&one.process),
            waits_on: object.clone(),
            seconds: one.ready,
        }],
        object,
        impact,
        evidence: vec![
            Evidence::new("its threads waited for a CPU", one.ready, "s", "sched_switch"),
            Evidence::new("its threads ran", one.run, "s", "sched_switch"),
            Evidence::new("CPUs it may use", allowed.len() as f64, "1", "/proc/PID/status"),
            Evidence::new("these are busy", here * 100.0, "%", "/proc/stat"),
            Evidence::new("the others are busy", there * 100.0, "%", "/proc/stat"),
        ],
        remedy: vec![widen(measures, one, busy)],
        ..RULE.blank()
    })
}

/// The cpuset that narrows it, if it is one.
fn cpuset<'a>(measures: &'a Measures<'_>, one: &Pinned<'_>) -> Option<&'a Cgroup> {
    let group = measures.model.cgroup_of(&one.process, "cpuset")?;
    (group.path != "/" && group.cpus_allowed.as_ref() == Some(&one.identity.cpus_allowed))
        .then_some(group)
}

fn set_file(group: &Cgroup) -> String {
    format!("{}/cpuset.cpus", group.directory.trim_end_matches('/'))
}

fn who(measures: &Measures<'_>, one: &Pinned<'_>) -> Culprit {
    match cpuset(measures, one) {
        Some(group) => Culprit {
            container: Some(group.path.clone()),
            ..Culprit::setting(group.path.clone(), set_file(group))
        },
        None => Culprit {
            kind: CulpritKind::Setting,
            name: measures.process_name(&one.process),
            pid: Some(one.process.pid),
            container: measures.model.container_of(&one.process).map(|c| c.name.clone()),
            setting: Some("CPU affinity".into()),
            ..Culprit::default()
        },
    }
}

fn widen(measures: &Measures<'_>, one: &Pinned<'_>, busy: &BTreeMap<u32, f64>) -> Remedy {
    let all = cpu::cpu_list(&busy.keys().copied().collect::<Vec<_>>());
    let old = cpu::cpu_list(&one.identity.cpus_allowed);
    match cpuset(measures, one) {
        Some(group) => {
            let file = words::shell(&set_file(group));
            Remedy {
                text: "let the group use the other CPUs too".into(),
                command: format!("echo {all} > {file}"),
                undo: format!("echo {old} > {file}"),
            }
        }
        None => Remedy {
            text: "let it use the other CPUs too".into(),
            command: format!("taskset -a -c -p {all} {}", one.process.pid),
            undo: format!("taskset -a -c -p {old} {}", one.process.pid),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact};
    use crate::rules::old::cpu::tests::{cpus, time};
    use crate::waits::timeline::Observed;

    fn pinned(used: [f64; 2], ready: f64) -> Observed {
        let mut facts = cpus(used);
        facts.push(time(10, "encoder", 4.9, ready));
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "encoder".into() };
        let known = Thread { thread, cpus_allowed: vec![1], ..Thread::default() };
        facts.push(Fact { at_ns: 0, body: Body::Thread(known) });
        Observed::new(facts)
    }

    #[test]
    fn threads_that_queue_on_one_cpu_beside_an_idle_one_are_told() {
        let model = pinned([0.1, 1.0], 9.0);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.pid, Some(10));
        assert_eq!(found[0].remedy[0].command, "taskset -a -c -p 0-1 10");
        assert_eq!(found[0].remedy[0].undo, "taskset -a -c -p 1 10");
        assert_eq!(found[0].severity, Severity::Critical);
    }

    #[test]
    fn a_full_host_refutes_it() {
        assert!(find(&Measures::of_observed(&pinned([0.95, 1.0], 9.0))).is_empty());
    }

    #[test]
    fn one_thread_to_a_cpu_is_well_pinned() {
        assert!(find(&Measures::of_observed(&pinned([0.1, 1.0], 0.1))).is_empty());
    }
}
