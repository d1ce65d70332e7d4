//! cpu.affinity: threads wait for the few CPUs they may use while other CPUs idle.
//!
//! Pinned by sched_setaffinity (taskset, a library, a script of long ago) or by a cpuset. The idle time of the
//! CPUs that they may not use is the second fact: without it the host is merely full. Rejected: complaining
//! about pinning itself, which is right for threads that have a CPU each.

use super::cpu_waits::{
    Bound, bind, by_mask, claims, cpusets_of, is_isolated, on_path, usable, waited_for,
};
use super::interrupts;
use crate::facts::Cgroup;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, ActionKind};
use crate::rules::engine::Loss;
use crate::rules::group_limits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, Step};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
        Refutation::new("the other CPUs are as busy", "a_full_host_refutes_it"),
        Refutation::new(
            "the threads hardly wait (one thread to a CPU)",
            "one_thread_to_a_cpu_is_well_pinned",
        ),
        Refutation::new("the idle CPUs are isolated", "an_isolated_cpu_is_idle_by_intent"),
        Refutation::new(
            "interrupts take much of the CPUs that it is pinned to: cpu.interrupts",
            "a_cpu_that_interrupts_have_is_theirs",
        ),
    ],
    remedies: &["widen the affinity mask (taskset -p) or the cpuset", "spread the threads by hand"],
    stories: &[],
    thresholds: &[&BUSY_MIN, &GAP_MIN, &WAIT_TO_RUN_MIN, &WAIT_PER_SECOND_MIN],
    finds: Finds::Look(find),
};

static BUSY_MIN: Threshold = Threshold::new(
    0.8,
    "1",
    "the CPUs that they may use are at least so busy, else waits there are bursts",
    "chosen: a queue in front of a CPU grows steeply from there on (M/M/1: four at it when 0.8 busy)",
);
static GAP_MIN: Threshold = Threshold::new(
    0.2,
    "1",
    "the CPUs that they may not use have at least so much less to do: a fifth of a CPU is worth moving for",
    "chosen; kernel: the balancer itself leaves CPUs 17 % apart (sd_init, imbalance_pct)",
);
static WAIT_TO_RUN_MIN: Threshold = Threshold::new(
    0.2,
    "1",
    "waiting that is less than this part of their running is not worth moving for",
    "chosen",
);
static WAIT_PER_SECOND_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "who waits less in a second has a CPU when it needs one",
    "chosen: where a wait becomes a warning",
);

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let is_narrow = |one: &Bound<'_>| {
        let allowed = &one.identity.cpus_allowed;
        !allowed.is_empty() && measures.cpu.busy.keys().any(|cpu| !allowed.contains(cpu))
    };
    let all = by_mask(measures).into_iter().chain(waited_for(measures, ends));
    let pinned = all.filter(is_narrow);
    pinned.filter_map(|one| matched(measures, ends, one)).collect()
}

/// The CPUs that threads may and may not use, with how busy they are.
struct Sides {
    allowed: Vec<u32>,
    others: Vec<u32>,
    here: f64,
    there: f64,
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], one: Bound<'m>) -> Option<Match<'m>> {
    let wall = measures.wall_seconds().max(1e-9);
    let allowed = one.identity.cpus_allowed.clone();
    let all = measures.cpu.busy.keys().copied();
    let is_another = |cpu: &u32| !allowed.contains(cpu) && !is_isolated(measures.model, *cpu);
    let others: Vec<u32> = all.filter(is_another).collect();
    if others.is_empty() {
        return None;
    }
    let here = measures.cpu.mean_busy(&allowed)?;
    let there = measures.cpu.mean_busy(&others)?;
    let waits = one.ready >= WAIT_PER_SECOND_MIN.value * wall
        && one.ready >= WAIT_TO_RUN_MIN.value * one.run;
    let is_crowded = here >= BUSY_MIN.value && there <= here - GAP_MIN.value;
    if !waits || !is_crowded || interrupts::take(measures, &allowed) {
        return None;
    }
    let pid = one.process.pid;
    let losses: Losses = BTreeMap::from([(pid, (one.process.clone(), one.ready))]);
    let claims = claims(measures, ends, &BTreeSet::from([pid]), &[WaitClass::RunQueue]);
    let object = Object::RunQueue(allowed.clone());
    let chain = Step {
        who: one.process.clone(),
        on: object.clone(),
        doing: None,
        seconds: one.ready,
        when: None,
        because: None,
    };
    let path_seconds = on_path(measures, ends, &claims).map(|path: f64| path.min(one.ready));
    // Whom a chain leads to is known best by that chain.
    let is_looked_at = measures.model.in_target(&one.process);
    let sides = Sides { allowed, others, here, there };
    let by = who(measures, &one);
    let explain = move |loss: &Loss<'_>| explain(measures, &one, &sides, loss);
    Some(Match {
        object: Some(object),
        claims,
        path_seconds,
        losses: Some(losses),
        chain: is_looked_at.then(|| vec![chain]),
        ..Match::new(by, Proof::TwoWitnesses, explain)
    })
}

fn explain(measures: &Measures<'_>, one: &Bound<'_>, sides: &Sides, loss: &Loss<'_>) -> Wording {
    let (list, free) = (words::cpus(&sides.allowed), words::cpus(&sides.others));
    Wording {
        title: format!("{} is pinned to CPU {list} while CPU {free} has time", loss.victim),
        text: format!(
            "{} of its time ({}) its threads could run and wait for CPU {list}, which is {} busy; CPU {free}, \
             which they may not use, is {} busy.",
            words::percent(loss.impact.share),
            words::of_window(loss.seconds, loss.wall_seconds),
            words::percent(sides.here),
            words::percent(sides.there),
        ),
        evidence: vec![
            Evidence::new("its threads waited for a CPU", one.ready, "s", "sched_switch"),
            Evidence::new("its threads ran", one.run, "s", "sched_switch"),
            Evidence::new("CPUs it may use", sides.allowed.len() as f64, "1", "/proc/PID/status"),
            Evidence::new("these are busy", sides.here * 100.0, "%", "/proc/stat"),
            Evidence::new("the others are busy", sides.there * 100.0, "%", "/proc/stat"),
        ],
        remedy: vec![widen(measures, one)],
    }
}

/// The cpusets that narrow it, if it is those, the nearest first: of several, one above the other, each holds it by itself. Of cgroup v2 a
/// group below may have no setting of its own.
fn cpusets<'a>(measures: &'a Measures<'_>, one: &Bound<'_>) -> Vec<&'a Cgroup> {
    let narrows = |group: &&Cgroup| {
        group.path != "/" && group.cpus_allowed.as_ref() == Some(&one.identity.cpus_allowed)
    };
    cpusets_of(measures, &one.process).into_iter().filter(narrows).collect()
}

/// The one above which more is allowed.
fn cpuset<'a>(measures: &'a Measures<'_>, one: &Bound<'_>) -> Option<&'a Cgroup> {
    cpusets(measures, one).pop()
}

/// Those that have that setting for certain. Of cgroup v2 what a group may use is read, and not its setting: one below has mostly none, follows the
/// outermost by itself, and would be pinned for good by what puts it back. Of cgroup v1 each has its own.
fn written<'s, 'a>(sets: &'s [&'a Cgroup]) -> &'s [&'a Cgroup] {
    match sets.last() {
        Some(outermost) if outermost.controllers.is_empty() => &sets[sets.len() - 1..],
        _ => sets,
    }
}

fn set_file(group: &Cgroup) -> String {
    format!("{}/cpuset.cpus", group.directory.trim_end_matches('/'))
}

fn who(measures: &Measures<'_>, one: &Bound<'_>) -> Culprit {
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

fn widen(measures: &Measures<'_>, one: &Bound<'_>) -> Remedy {
    let old = &one.identity.cpus_allowed;
    let sets = cpusets(measures, one);
    let all =
        usable(measures, &one.process, |group| !sets.iter().any(|set| set.path == group.path));
    let written = written(&sets).iter().map(|group| group_limits::cpus_key(group, &all, old));
    let keys: Vec<_> = written.collect();
    if !keys.is_empty() {
        return group_limits::write_all("let the group use the other CPUs too".into(), &keys);
    }
    if all.iter().all(|cpu| old.contains(cpu)) {
        return Remedy::to(
            "let it use the other CPUs too, and its cpuset, which does not have them",
        );
    }
    let (all, old) = (words::cpus(&all), words::cpus(old));
    Remedy::to("let it use the other CPUs too").set(
        Action::set(ActionKind::Affinity, &one.process, &all, &old),
        bind(measures, one, &all),
        bind(measures, one, &old),
    )
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::measure::cpu_users::tests::{cpus, time};
    use crate::rules::scenes::{LOOK_NS, behind_file_lock};

    fn pinned(used: [f64; 2], ready: f64, more: Vec<Fact>) -> Vec<Finding> {
        let mut facts = cpus(used);
        facts.push(time(10, "encoder", 3.0, ready));
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "encoder".into() };
        let known = Thread { thread, cpus_allowed: vec![1], ..Thread::default() };
        facts.push(Fact { at_ns: 0, body: Body::Thread(known) });
        facts.extend(more);
        explain(facts).findings
    }

    #[test]
    fn threads_that_queue_on_one_cpu_beside_an_idle_one_are_seen() {
        let found = pinned([0.1, 1.0], 9.0, vec![]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, "cpu.affinity");
        assert_eq!(found[0].culprit.pid, Some(10));
        assert_eq!(found[0].remedy[0].command, "taskset -a -c -p 0-1 10");
        assert_eq!(found[0].remedy[0].undo, "taskset -a -c -p 1 10");
        assert_eq!(found[0].severity, Severity::Critical);
        assert!((found[0].impact.share - 9.0 / 12.0).abs() < 1e-6);
    }

    #[test]
    fn cpusets_one_in_the_other_are_widened_where_each_has_a_setting_else_the_outermost_alone() {
        let way = |controllers: &[&str], sets: [(&str, Vec<u32>); 2]| {
            let controllers: Vec<String> = controllers.iter().map(|it| (*it).into()).collect();
            let group = |(path, cpus_allowed): (&str, Vec<u32>)| {
                let directory = format!("/sys/fs/cgroup{path}");
                let group = Cgroup { path: path.into(), directory, ..Cgroup::default() };
                let controllers = controllers.clone();
                let group = Cgroup { controllers, cpus_allowed: Some(cpus_allowed), ..group };
                Fact { at_ns: 0, body: Body::Cgroup(group) }
            };
            let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "encoder".into() };
            let controllers = controllers.clone();
            let cgroups = vec![Membership { controllers, path: "/a/b".into() }];
            let known = Thread { thread, cpus_allowed: vec![1], cgroups, ..Thread::default() };
            let known = Fact { at_ns: 0, body: Body::Thread(known) };
            let more = [sets.map(group).to_vec(), vec![known]].concat();
            let way = pinned([0.1, 1.0], 9.0, more).remove(0).remedy.remove(0);
            (way.command, way.undo)
        };
        let write =
            |cpus: &str, path: &str| format!("echo {cpus} > /sys/fs/cgroup{path}/cpuset.cpus");
        let both = || [("/a", vec![1]), ("/a/b", vec![1])];
        let widened = format!("{} && {}", write("0-1", "/a"), write("0-1", "/a/b"));
        assert_eq!(way(&["cpuset"], both()).0, widened);
        // What /a/b may use is what it inherits: its own setting is empty, and stays so.
        assert_eq!(way(&[], both()), (write("0-1", "/a"), write("1", "/a")));
        let wide = [("/a", vec![0, 1, 2]), ("/a/b", vec![0, 1])];
        assert_eq!(way(&[], wide).0, "taskset -a -c -p 0-1 10", "it is not the group's");
    }

    #[test]
    fn threads_of_the_process_that_use_other_cpus_stay_there() {
        let thread = ThreadRef { tid: 11, pid: 10, start_ns: 0, comm: "encoder".into() };
        let other = Thread { thread, cpus_allowed: vec![0], ..Thread::default() };
        let found = pinned([0.1, 1.0], 9.0, vec![Fact { at_ns: 0, body: Body::Thread(other) }]);
        assert_eq!(found[0].remedy[0].command, "taskset -c -p 0-1 10");
        assert_eq!(found[0].remedy[0].undo, "taskset -c -p 1 10");
    }

    #[test]
    fn of_a_command_its_path_counts() {
        let name = "encoder".to_string();
        let target = Target {
            kind: TargetKind::Command,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        let target = Fact { at_ns: 0, body: Body::Target(target) };
        let found = pinned([0.1, 1.0], 1.5, vec![target]);
        assert_eq!(found[0].code, "cpu.affinity");
        assert!((found[0].impact.share - 0.3).abs() < 0.01, "{:?}", found[0].impact);
    }

    /// Process 30 was asked about, and waits for a file lock that the encoder has, which stands without a CPU.
    fn behind_a_lock() -> Vec<Fact> {
        let encoder = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "encoder".into() };
        let mut facts = behind_file_lock(30, &encoder);
        let place = Place { state: WaitState::Runnable, ..Place::default() };
        let end_ns = 4_000_000_000;
        let ready = Wait { thread: encoder, end_ns, place, ..Wait::default() };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(ready) });
        facts
    }

    #[test]
    fn who_has_a_lock_and_is_pinned_is_named_to_who_waits_for_it() {
        let found = |there| {
            let found = pinned([there, 1.0], 4.5, behind_a_lock());
            found.into_iter().find(|it| it.code == "cpu.affinity")
        };
        let one = found(0.1).expect("the mask");
        assert!(one.title.starts_with("encoder is pinned to CPU 1"), "{}", one.title);
        assert_eq!(one.chain.first().and_then(|link| link.who.pid), Some(30));
        assert_eq!(found(0.95), None, "the other CPU has no time");
    }

    #[test]
    fn a_full_host_refutes_it() {
        let found = pinned([0.95, 1.0], 9.0, vec![]);
        assert!(found.iter().all(|finding| finding.code != "cpu.affinity"), "{found:?}");
    }

    #[test]
    fn one_thread_to_a_cpu_is_well_pinned() {
        assert_eq!(pinned([0.1, 1.0], 0.1, vec![]), []);
    }

    #[test]
    fn an_isolated_cpu_is_idle_by_intent() {
        let isolates = |isolated_cpus| {
            let host = Host { isolated_cpus, ..Host::default() };
            let found = pinned([0.1, 1.0], 9.0, vec![Fact { at_ns: 0, body: Body::Host(host) }]);
            found.iter().any(|finding| finding.code == "cpu.affinity")
        };
        assert_eq!((isolates(vec![]), isolates(vec![0])), (true, false));
    }

    #[test]
    fn a_cpu_that_interrupts_have_is_theirs() {
        let (softirq_ns, user_ns) = (3_000_000_000, 2_000_000_000);
        let sample = CpuSample { cpu: 1, user_ns, softirq_ns, ..CpuSample::default() };
        let sample = Fact { at_ns: LOOK_NS, body: Body::CpuSample(sample) };
        let found = pinned([0.1, 1.0], 9.0, vec![sample]);
        let codes: Vec<&str> = found.iter().map(|it| &*it.code).collect();
        assert_eq!(codes, ["cpu.interrupts"]);
    }

    #[test]
    fn who_may_run_on_all_cpus_is_not_bound() {
        let mut facts = cpus([1.0, 1.0]);
        facts.push(time(10, "encoder", 3.0, 9.0));
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "encoder".into() };
        for cpus_allowed in [vec![], vec![0, 1]] {
            let known = Thread { thread: thread.clone(), cpus_allowed, ..Thread::default() };
            let known = Fact { at_ns: 0, body: Body::Thread(known) };
            let found = explain(facts.iter().cloned().chain([known]).collect()).findings;
            assert!(found.iter().all(|it| it.code != "cpu.affinity"), "{found:?}");
        }
    }
}
