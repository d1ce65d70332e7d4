//! cpu.weight: threads wait for a CPU because they, or their group, were given less weight than those that run.
//!
//! Full CPUs are dealt out by weight: by the nice values of threads within one group, by the groups' weights between groups.
//! That the two compete at different weights is one fact; that the lighter one stands ready while the heavier one runs is the
//! other. Who is nice asked for it, so a look at a host has that as a note; who asks about the slow one is given the setting, and so
//! is who asks about somebody that waits for what the slow one has.
//! Rejected: naming the heavier one (it has what it was given), and pressure of a group (it does not say why).
//! Must not: judge one that has the usual weight (saturated.rs does), or guess the nice value of a session (autogroup).

use super::come_last::{self, group_beside, is_session_apart};
use super::cpu_waits::{
    Bound, SCHED_IDLE, by_mask, claims, gathered, is_claimed, is_real_time, on_path, waited_for,
};
use super::victims::{CULPRIT_OF_ALL_MIN, WAIT_PER_SECOND_MIN, WAIT_TO_RUN_MIN, waits_much};
use crate::facts::{Cgroup, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_users::BUSY_MIN;
use crate::measure::cpu_users::Program;
use crate::model::membership::is_below;
use crate::model::object::Object;
use crate::model::{Model, words};
use crate::rules::action::{Action, ActionKind};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, Step};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.weight",
    title: "It was given less weight than those that have the CPUs",
    theory: "The scheduler deals out full CPUs by weight. A thread at nice 0 has 1024 parts, each step of the nice value is a \
             quarter more or a fifth less, so one at nice 19 has 15. Between groups the groups' weights count and the nice \
             values do not: a group with cpu.shares 2 or cpu.weight 1 gets next to nothing while a sibling group is busy, whatever \
             runs in it. Nothing is lost while CPUs idle.",
    needs: &[
        "the threads stand ready for a noticeable part of their own running, on CPUs that are nine tenths busy",
        "they have less than the usual weight where they compete with the program that runs most there, and a quarter of that \
         program's weight or less",
    ],
    refuted_by: &[
        Refutation::new("both have the same weight", "equals_compete_with_equal_weight"),
        Refutation::new(
            "CPUs that it may use are idle",
            "who_finds_a_cpu_loses_nothing_by_its_weight",
        ),
        Refutation::new(
            "its session has a nice value of its own, which is not known",
            "a_nice_value_counts_for_nothing_between_sessions",
        ),
    ],
    remedies: &[
        "give it the usual nice value, or its group the usual weight",
        "run it when, or where, the CPUs are free",
    ],
    stories: &[],
    thresholds: &[
        &BUSY_MIN,
        &WAIT_TO_RUN_MIN,
        &WAIT_PER_SECOND_MIN,
        &CULPRIT_OF_ALL_MIN,
        &TIMES_MIN,
    ],
    finds: Finds::Look(find),
};

static TIMES_MIN: Threshold = Threshold::new(
    4.0,
    "1",
    "who competes has so many times its weight; with less the two still share as neighbours do",
    "kernel: sched_prio_to_weight, nice 7 against 0 is 4.8",
);

/// Weight of a thread at nice 0, and of one under SCHED_IDLE; of a group that nobody gave another one (v1, v2).
const OF_NICE_0: u32 = 1024;
const OF_IDLE: f64 = 3.0;
const OF_GROUP: [u64; 2] = [1024, 100];
/// Between one nice value and the next (kernel/sched/core.c, sched_prio_to_weight).
const OF_ONE_STEP: f64 = 1.25;

/// What gives a weight.
#[derive(Debug, Clone, Copy)]
enum Weighted<'m> {
    Nice(i32),
    Idle,
    /// A group and the value in its file.
    Group(&'m Cgroup, u64),
}

impl Weighted<'_> {
    /// In parts of which a thread at nice 0 has 1024.
    fn weight(&self) -> f64 {
        match self {
            Self::Nice(nice) => f64::from(OF_NICE_0) / OF_ONE_STEP.powi(*nice),
            Self::Idle => OF_IDLE,
            Self::Group(_, 0) => OF_IDLE,
            Self::Group(group, weight) => {
                *weight as f64 * f64::from(OF_NICE_0) / usual(group) as f64
            }
        }
    }

    /// A thread's own nice value was asked for by whoever started it, and the least weight of a group by whoever made it; of
    /// another weight he may not know what runs there.
    fn is_wish(&self) -> bool {
        match self {
            Self::Nice(_) | Self::Idle => true,
            Self::Group(group, weight) => *weight <= come_last::least(group).1,
        }
    }

    /// `nice 19`, `cgroup /jobs with cpu.shares 2`.
    fn words(&self, model: &Model) -> String {
        match self {
            Self::Nice(nice) => format!("nice {nice}"),
            Self::Idle => "policy SCHED_IDLE".into(),
            Self::Group(group, weight) => {
                let of = model.containers.group_in_words(&group.path);
                let (key, value) = setting(group, *weight);
                format!("{of} with {key} {value}")
            }
        }
    }
}

fn is_v1(group: &Cgroup) -> bool {
    !group.controllers.is_empty()
}

fn usual(group: &Cgroup) -> u64 {
    OF_GROUP[usize::from(!is_v1(group))]
}

/// The key that sets a group's weight, and its value: an idle one (weight 0) refuses another weight (cpu.idle).
fn setting(group: &Cgroup, weight: u64) -> (&'static str, u64) {
    match (weight, is_v1(group)) {
        (0, _) => ("cpu.idle", 1),
        (_, true) => ("cpu.shares", weight),
        (_, false) => ("cpu.weight", weight),
    }
}

fn file(group: &Cgroup, weight: u64) -> String {
    format!("{}/{}", group.directory.trim_end_matches('/'), setting(group, weight).0)
}

/// What one thread's weight comes from where it competes with another: nothing if that is not known.
fn by<'m>(model: &'m Model, one: &ThreadRef, other: &ThreadRef) -> Option<Weighted<'m>> {
    if let Some((group, weight)) = group_beside(model, other, one) {
        return Some(Weighted::Group(group, weight));
    }
    let path = |thread| model.cgroup_of(thread, "cpu").map_or("/", |group| group.path.as_str());
    // Its own group holds the other's too, or it is in a group whose weight could not be read.
    let holds_both = is_below(path(other), path(one));
    let known = model.threads.identity(one).filter(|_| holds_both)?;
    Some(if known.policy == SCHED_IDLE { Weighted::Idle } else { Weighted::Nice(known.nice) })
}

/// Threads of less weight than those that had the CPUs.
struct Light<'m> {
    of: Bound<'m>,
    by: Weighted<'m>,
    /// Who had the CPUs, and the weight of that.
    heavy: Program,
    heavy_by: Weighted<'m>,
}

impl<'m> Light<'m> {
    fn of(measures: &'m Measures<'m>, ends: &[End], of: Bound<'m>) -> Option<Self> {
        let (model, pid) = (measures.model, of.process.pid);
        let busy = measures.cpu.mean_busy(&of.identity.cpus_allowed)?;
        if busy < BUSY_MIN.value
            || !waits_much(measures, of.run, of.ready)
            || is_real_time(model, &of.process)
            || is_claimed(measures, ends, pid)
        {
            return None;
        }
        let mut had = measures.cpu.instead_of(&BTreeSet::from([pid])).others;
        had.retain(|program| !program.kernel && program.share >= CULPRIT_OF_ALL_MIN.value);
        let heavy = had.into_iter().find(|program| program.run > of.run)?;
        let other = model.threads.thread_ref(heavy.example);
        if is_session_apart(model, &of.process, &other) {
            return None;
        }
        let (by, heavy_by) = (by(model, &of.process, &other)?, by(model, &other, &of.process)?);
        let is_light = by.weight() < f64::from(OF_NICE_0)
            && heavy_by.weight() >= TIMES_MIN.value * by.weight();
        is_light.then_some(Self { of, by, heavy, heavy_by })
    }

    fn culprit(&self, model: &Model) -> Culprit {
        match self.by {
            Weighted::Group(group, weight) => Culprit {
                container: Some(group.path.clone()),
                ..Culprit::setting(group.path.clone(), file(group, weight))
            },
            Weighted::Nice(_) | Weighted::Idle => Culprit {
                setting: Some(self.by.words(model)),
                ..Culprit::process(&self.of.process)
            },
        }
    }
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let bound = by_mask(measures).into_iter().chain(waited_for(measures, ends));
    let all = bound.filter_map(|one| Light::of(measures, ends, one));
    let mut by_setting: BTreeMap<String, Vec<Light<'_>>> = BTreeMap::new();
    for light in all {
        by_setting.entry(light.by.words(measures.model)).or_default().push(light);
    }
    by_setting.into_values().filter_map(|lights| matched(measures, ends, lights)).collect()
}

/// All that one setting makes wait, with the one that waits most as the example.
fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    lights: Vec<Light<'m>>,
) -> Option<Match<'m>> {
    let run: f64 = lights.iter().map(|light| light.of.run).sum();
    let (losses, chief) = gathered(lights, |light| (&light.of.process, light.of.ready))?;
    let pids: BTreeSet<u32> = losses.keys().copied().collect();
    let claims = claims(measures, ends, &pids, &[WaitClass::RunQueue]);
    let object = Object::RunQueue(chief.of.identity.cpus_allowed.clone());
    let step = |who: ThreadRef, on, seconds| Step {
        who,
        on,
        doing: None,
        seconds,
        when: None,
        because: None,
    };
    let heavy = measures.model.threads.thread_ref(chief.heavy.example);
    let chain = vec![
        step(chief.of.process.clone(), object.clone(), chief.of.ready),
        step(heavy, Object::Cpu, chief.heavy.run),
    ];
    // Whom a chain leads to is known best by that chain.
    let is_looked_at = measures.model.in_target(&chief.of.process);
    let is_own_wish = chief.by.is_wish();
    let is_asked_for = measures.model.look.is_asked_about();
    Some(Match {
        object: Some(object),
        path_seconds: on_path(measures, ends, &claims),
        claims,
        losses: Some(losses),
        chain: is_looked_at.then_some(chain),
        severity_max: if is_asked_for || !is_own_wish {
            Severity::Critical
        } else {
            Severity::Note
        },
        ..Match::new(chief.culprit(measures.model), Proof::TwoWitnesses, move |loss| {
            explain(measures.model, &chief, run, loss)
        })
    })
}

fn explain(model: &Model, light: &Light<'_>, run: f64, loss: &Loss<'_>) -> Wording {
    let one = loss.victims.len() == 1;
    let (own, theirs) = (light.by.weight(), light.heavy_by.weight());
    let name = &light.heavy.name;
    let parts = |weight: f64| words::thousands(weight.round().max(1.0));
    let evidence =
        |fact: String, value, unit: &str, source: &str| Evidence::new(fact, value, unit, source);
    let of_weight = |by: &Weighted<'_>| match by {
        Weighted::Group(group, weight) => file(group, *weight),
        Weighted::Nice(_) | Weighted::Idle => "/proc/PID/stat".into(),
    };
    Wording {
        title: format!(
            "{} comes last, by {}, while {name} has the CPUs",
            loss.victim,
            light.by.words(model)
        ),
        text: format!(
            "{} of {} time ({}) {} could run and {} no CPU; {} for {}. Where the two compete, {} gives {} parts and {} of \
             {name} {}: {name} may have {} times as much, and used {} of the CPUs.",
            words::percent(loss.impact.share),
            if one { "its" } else { "their" },
            words::of_window(loss.seconds, loss.wall_seconds),
            if one { "it" } else { "they" },
            if one { "has" } else { "have" },
            if one { "it ran" } else { "they ran" },
            words::seconds(run),
            light.by.words(model),
            parts(own),
            light.heavy_by.words(model),
            parts(theirs),
            words::thousands((theirs / own).round()),
            words::percent(light.heavy.share),
        ),
        evidence: vec![
            evidence("waited for a CPU".into(), loss.seconds, "s", "sched_switch"),
            evidence("ran".into(), run, "s", "sched_switch"),
            evidence("its weight, of 1024".into(), own, "1", &of_weight(&light.by)),
            evidence(format!("weight of {name}"), theirs, "1", &of_weight(&light.heavy_by)),
            evidence(
                format!("CPUs used by {name}"),
                light.heavy.share * 100.0,
                "%",
                "sched_switch",
            ),
        ],
        remedy: vec![remedy(model, light)],
    }
}

fn remedy(model: &Model, light: &Light<'_>) -> Remedy {
    let pid = light.of.process.pid;
    match light.by {
        Weighted::Group(group, weight) => {
            let of = model.containers.group_in_words(&group.path);
            let give = Remedy::to(format!("give {of} the usual weight"));
            let usual = if weight == 0 { 0 } else { usual(group) };
            give.write(&file(group, weight), usual, setting(group, weight).1)
        }
        // The nice value is a thread's own.
        Weighted::Nice(nice) => Remedy::to("give it the usual nice value").set(
            Action::set(ActionKind::Nice, &light.of.process, 0, nice),
            format!("renice -n 0 -p $(ls /proc/{pid}/task)"),
            format!("renice -n {nice} -p $(ls /proc/{pid}/task)"),
        ),
        Weighted::Idle => Remedy::to("give it the usual policy").set(
            Action::set(ActionKind::Policy, &light.of.process, "other", "idle"),
            format!("chrt -a -o -p 0 {pid}"),
            format!("chrt -a -i -p 0 {pid}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::measure::cpu_users::tests::{cpus, time};
    use crate::rules::scenes::{behind_file_lock, identity, of_process};
    use crate::rules::wording::Remedy;

    const SLOW: u32 = 10;
    const BUSY: u32 = 20;

    fn known(pid: u32, nice: i32, session: u32, group: &str) -> Fact {
        let comm = if pid == SLOW { "backup" } else { "encoder" };
        let thread = ThreadRef { tid: pid, pid, start_ns: 0, comm: comm.into() };
        let member = Membership { controllers: vec!["cpu".into()], path: group.into() };
        identity(Thread { thread, nice, session, cgroups: vec![member], ..Thread::default() })
    }

    fn group(path: &str, weight: u64) -> Fact {
        let group = Cgroup {
            path: path.into(),
            controllers: vec!["cpu".into()],
            directory: format!("/sys/fs/cgroup/cpu{path}"),
            cpu_weight: Some(weight),
            ..Cgroup::default()
        };
        Fact { at_ns: 0, body: Body::Cgroup(group) }
    }

    /// A slow program, and another that has both CPUs.
    fn found(used: [f64; 2], more: Vec<Fact>) -> Vec<Finding> {
        let mut facts = cpus(used);
        facts.extend([time(SLOW, "backup", 0.3, 4.5), time(BUSY, "encoder", 9.5, 0.3)]);
        facts.extend(more);
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "cpu.weight");
        found
    }

    fn nice(own: i32) -> Vec<Fact> {
        vec![of_process(SLOW, "backup"), known(SLOW, own, 1, "/a"), known(BUSY, 0, 1, "/a")]
    }

    #[test]
    fn a_polite_program_that_is_asked_about_comes_last_by_its_nice_value() {
        let found = found([1.0, 1.0], nice(19));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].title, "backup comes last, by nice 19, while encoder has the CPUs");
        assert_eq!(found[0].culprit.setting.as_deref(), Some("nice 19"));
        assert!(found[0].text.contains("nice 19 gives 15 parts and nice 0 of encoder 1,024"));
        assert_eq!(found[0].remedy[0].undo, "renice -n 19 -p $(ls /proc/10/task)");
        assert_eq!(found[0].severity, Severity::Critical);
    }

    #[test]
    fn on_a_host_it_is_as_somebody_asked() {
        let found = found([1.0, 1.0], nice(19).split_off(1));
        assert!(found.iter().all(|one| one.severity == Severity::Note), "{found:?}");
    }

    #[test]
    fn a_group_of_the_least_weight_was_meant_to_come_last() {
        let severity = |weight| {
            let all = vec![
                known(SLOW, 0, 1, "/low"),
                known(BUSY, 0, 1, "/usual"),
                group("/low", weight),
                group("/usual", 1024),
            ];
            found([1.0, 1.0], all).first().map(|one| one.severity)
        };
        assert_eq!(severity(2), Some(Severity::Note));
        assert!(severity(20) > Some(Severity::Note));
    }

    #[test]
    fn a_group_that_is_idle_was_meant_to_come_last_and_has_no_weight_to_raise() {
        let more = [
            known(SLOW, 0, 1, "/later"),
            known(BUSY, 0, 1, "/usual"),
            group("/later", 0),
            group("/usual", 1024),
        ];
        let on_a_host = found([1.0, 1.0], more.to_vec());
        assert_eq!(on_a_host[0].severity, Severity::Note);
        let asked = found([1.0, 1.0], [&[of_process(SLOW, "backup")], &more[..]].concat());
        assert_eq!(
            asked[0].title,
            "backup comes last, by cgroup /later with cpu.idle 1, while encoder has the CPUs"
        );
        let Remedy { command, undo, .. } = &asked[0].remedy[0];
        assert_eq!(command, "echo 0 > /sys/fs/cgroup/cpu/later/cpu.idle");
        assert_eq!(undo, "echo 1 > /sys/fs/cgroup/cpu/later/cpu.idle");
    }

    #[test]
    fn between_groups_their_weights_count() {
        let more = vec![
            of_process(SLOW, "backup"),
            known(SLOW, 0, 1, "/low/x"),
            known(BUSY, 19, 1, "/usual"),
            group("/low", 20),
            group("/low/x", 1024),
            group("/usual", 1024),
        ];
        let found = found([1.0, 1.0], more);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.container.as_deref(), Some("/low"));
        assert_eq!(found[0].remedy[0].command, "echo 1024 > /sys/fs/cgroup/cpu/low/cpu.shares");
    }

    /// Process 30 was asked about, and waits for a file lock that the slow program has, which stood without a CPU for so long.
    fn behind_a_lock(nice: i32, seconds: u64) -> Vec<Fact> {
        let slow = ThreadRef { tid: SLOW, pid: SLOW, start_ns: 0, comm: "backup".into() };
        let mut facts = behind_file_lock(30, &slow);
        let place = Place { state: WaitState::Runnable, ..Place::default() };
        let end_ns = seconds * 1_000_000_000;
        let ready = Wait { thread: slow, end_ns, place, ..Wait::default() };
        facts.extend([
            known(SLOW, nice, 1, "/a"),
            known(BUSY, 0, 1, "/a"),
            Fact { at_ns: end_ns, body: Body::Wait(ready) },
        ]);
        facts
    }

    #[test]
    fn the_nice_value_of_who_has_a_lock_is_named_to_who_waits_for_it() {
        let found = |nice| found([1.0, 1.0], behind_a_lock(nice, 4));
        let one = &found(19)[0];
        assert_eq!(one.title, "backup comes last, by nice 19, while encoder has the CPUs");
        assert_eq!(one.chain.first().and_then(|link| link.who.pid), Some(30));
        assert_eq!(found(0), []);
    }

    #[test]
    fn who_has_a_lock_loses_no_more_by_its_weight_than_is_waited_for_it() {
        let mut facts = behind_a_lock(19, 4);
        // The lock was asked for late.
        for fact in &mut facts {
            if let Body::Blocked(blocked) = &mut fact.body {
                blocked.since_ns = 3_000_000_000;
            }
        }
        let lost = found([1.0, 1.0], facts)[0].impact.wait_seconds_per_second;
        assert!(lost > 0.1 && lost < 0.41, "{lost}: no more than 2 s of 5");
    }

    #[test]
    fn equals_compete_with_equal_weight() {
        assert_eq!(found([1.0, 1.0], nice(0)), []);
    }

    #[test]
    fn who_finds_a_cpu_loses_nothing_by_its_weight() {
        assert_eq!(found([1.0, 0.4], nice(19)), []);
    }

    #[test]
    fn a_nice_value_counts_for_nothing_between_sessions() {
        let sysctl = Sysctl { name: "kernel.sched_autogroup_enabled".into(), value: "1".into() };
        let more = vec![
            of_process(SLOW, "backup"),
            known(SLOW, 19, 1, "/"),
            known(BUSY, 0, 2, "/"),
            Fact { at_ns: 0, body: Body::Sysctl(sysctl) },
        ];
        assert_eq!(found([1.0, 1.0], more), []);
    }
}
