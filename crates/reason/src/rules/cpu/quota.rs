//! cpu.quota: threads that could run stand still because their group has used up its CPU time.
//!
//! The scheduler's own count of throttled periods is the second fact: waits for a CPU alone look the same on a
//! busy host. A limit is looked for in the group and in all above it, because a container's is often its
//! parent's. Rejected: comparing use with the quota (a bursty group is held back well below it on average).

use super::cpu_waits::{claims, on_path};
use crate::facts::{Cgroup, Ns, ThreadTime};
use crate::graph::chains::ChainLink;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_quotas::Quota;
use crate::measure::moment;
use crate::model::object::{CgroupKey, Object};
use crate::model::words;
use crate::model::{Model, membership};
use crate::rules::engine::Loss;
use crate::rules::group_limits::{self, Key};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Claim, Finds, Losses, Match, Refutation, Rule, Step};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.quota",
    title: "A cgroup has used up its CPU quota",
    theory: "A cgroup may be given CPU time per period (cpu.cfs_quota_us and cpu.cfs_period_us in cgroup v1, cpu.max in \
             v2). Once its threads have used it up, all of them stand still until the next period begins, however \
             idle the CPUs are. Several threads use it up several times as fast, so a group can be held back in \
             every period while its mean use looks harmless.",
    needs: &[
        "threads of the group are ready to run, and not running",
        "the group's cpu.stat counts throttled periods in the window",
    ],
    refuted_by: &[
        Refutation::new(
            "cpu.stat counts no throttled period",
            "a_quota_that_is_not_met_is_no_finding",
        ),
        Refutation::new(
            "the group's threads hardly wait for a CPU",
            "a_moment_out_of_quota_is_no_finding",
        ),
    ],
    remedies: &["raise or remove the quota", "run fewer threads", "a longer period, for bursts"],
    stories: &["S0.3"],
    thresholds: &[&WAIT_PER_SECOND_MIN, &OF_READY_MIN],
    finds: Finds::Look(find),
};

static WAIT_PER_SECOND_MIN: Threshold = Threshold::new(
    0.02,
    "s/s",
    "a group's threads stand still for at least this long in a second, all together: less is one period cut short now and \
     then",
    "chosen: a fifth of one usual period (100 ms) in a second",
);
static OF_READY_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "who is out of quota for this part of the time that it is ready waits for the quota in the run queue too",
    "kernel before 6.18: a run queue is throttled as a whole, and its threads are not marked",
);

/// Who of a group is out of quota.
#[derive(Default)]
struct Held {
    /// For how long.
    losses: Losses,
    /// Ready altogether, seconds.
    ready: BTreeMap<u32, f64>,
}

impl Held {
    fn seconds(&self) -> f64 {
        self.losses.values().map(|(_, seconds)| seconds).sum()
    }

    /// Who is not looked at loses no more than what is waited for it: nobody asked about the rest.
    fn cap(&mut self, measures: &Measures<'_>, ends: &[End], claimed: &[Claim]) {
        for (process, seconds) in self.losses.values_mut() {
            if measures.model.in_target(process) {
                continue;
            }
            let claimed = claimed.iter().map(|claim| &ends[claim.end]);
            let is_its = |link: &Arc<ChainLink>| link.who.pid == process.pid;
            let of_it = claimed.filter(|end| end.links.get(end.named).is_some_and(is_its));
            *seconds = seconds.min(of_it.map(|end| end.seconds).sum());
        }
        self.losses.retain(|_, (_, seconds)| *seconds > 0.0);
    }

    /// Those who wait for nothing else in the run queue.
    fn only(&self) -> BTreeSet<u32> {
        let ready = |pid: &u32| self.ready.get(pid).copied().unwrap_or(0.0);
        let losses = self.losses.iter();
        let only = losses.filter(|(pid, (_, held))| *held >= OF_READY_MIN.value * ready(pid));
        only.map(|(pid, _)| *pid).collect()
    }
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    measures.cpu.quotas.iter().filter_map(|quota| matched(measures, ends, quota)).collect()
}

/// Time out of quota by process, of the group's threads that are looked at, or that somebody who is waits for: the holder of a lock.
fn held(measures: &Measures<'_>, ends: &[End], quota: &Quota<'_>) -> Held {
    let model = measures.model;
    let mut held = Held::default();
    let waited = ends.iter().filter(|end| end.class == WaitClass::CpuQuota);
    let waited: BTreeSet<u32> =
        waited.filter_map(|end| Some(end.links.get(end.named)?.who.pid)).collect();
    let inside = |time: &&ThreadTime| {
        is_within(model, quota, time)
            && (model.in_target(&time.thread) || waited.contains(&time.thread.pid))
    };
    for time in model.threads.times.iter().filter(inside) {
        let seconds = own_part_ns(measures, quota, time) as f64 / 1e9;
        let process = model.threads.thread_ref(time.thread.pid);
        *held.ready.entry(process.pid).or_default() += time.runnable_ns as f64 / 1e9;
        if seconds > 0.0 {
            held.losses.entry(process.pid).or_insert((process, 0.0)).1 += seconds;
        }
    }
    held
}

fn is_within(model: &Model, quota: &Quota<'_>, time: &ThreadTime) -> bool {
    match model.threads.identity(&time.thread) {
        Some(identity) => membership::belongs(identity, quota.group, &["cpu"]),
        None => time.cpu_cgroup_id != 0 && time.cpu_cgroup_id == quota.group.id,
    }
}

/// What of a thread's time out of quota is this one's. The kernel does not say which of several above one another it was: the one that ran out most often,
/// of two the inner, has as much of it as its periods allow, and the rest is the next one's.
fn own_part_ns(measures: &Measures<'_>, quota: &Quota<'_>, time: &ThreadTime) -> Ns {
    let order = |of: &Quota<'_>| (of.throttled_periods, of.group.path.len());
    let is_before = |other: &&Quota<'_>| {
        other.group.path != quota.group.path
            && order(other) > order(quota)
            && is_within(measures.model, other, time)
    };
    let before = measures.cpu.quotas.iter().filter(is_before);
    let before_ns: Ns = before.map(Quota::out_of_quota_ns_max).sum();
    let left_ns = measures.cpu.out_of_quota_ns(time).saturating_sub(before_ns);
    left_ns.min(quota.out_of_quota_ns_max())
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    quota: &'m Quota<'m>,
) -> Option<Match<'m>> {
    let mut held = held(measures, ends, quota);
    let pids: BTreeSet<u32> = held.losses.keys().copied().collect();
    let mut claimed = claims(measures, ends, &pids, &[WaitClass::CpuQuota]);
    claimed.extend(claims(measures, ends, &held.only(), &[WaitClass::RunQueue]));
    held.cap(measures, ends, &claimed);
    let path_seconds = on_path(measures, ends, &claimed).map(|path| path.min(held.seconds()));
    let seconds = path_seconds.unwrap_or_else(|| held.seconds());
    let is_moment = || claimed.iter().any(|claim| moment::of(measures, &ends[claim.end]).is_some());
    let counts = seconds >= WAIT_PER_SECOND_MIN.value * measures.wall_seconds().max(1e-9);
    if !counts && !is_moment() {
        return None;
    }
    let most = held.losses.values().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let object = Object::Cgroup(CgroupKey::of(quota.group));
    // Whom a chain leads to is known best by that chain.
    let is_looked_at = measures.model.in_target(&most.0);
    let chain = Step {
        who: most.0.clone(),
        on: object.clone(),
        doing: None,
        seconds: most.1,
        when: None,
        because: None,
    };
    let culprit = Culprit {
        container: Some(quota.group.path.clone()),
        ..Culprit::setting(quota.group.path.clone(), setting(quota.group))
    };
    Some(Match {
        object: Some(object),
        claims: claimed,
        losses: Some(held.losses),
        path_seconds,
        chain: is_looked_at.then(|| vec![chain]),
        ..Match::new(culprit, Proof::Read, move |loss| explain(measures, quota, loss))
    })
}

fn explain(measures: &Measures<'_>, quota: &Quota<'_>, loss: &Loss<'_>) -> Wording {
    let wanted_cpus =
        quota.used_cpus.unwrap_or_else(|| quota.cpus()) + loss.seconds / loss.wall_seconds;
    let wanted_cpus = wanted_cpus.min(f64::from(measures.model.look.host.cpus.max(1)));
    let group = measures.model.containers.group_in_words(&quota.group.path);
    Wording {
        title: format!("{} is held up by the CPU quota of its {group}", loss.name),
        text: format!(
            "{} of its time ({}) it could run and may not: the cgroup may use {} CPUs ({} per {}), and ran out of it \
             in {} of {} periods.{}",
            words::percent(loss.impact.share),
            words::of_window(loss.seconds, loss.wall_seconds),
            words::rate(quota.cpus()),
            words::seconds(quota.quota_us as f64 / 1e6),
            words::seconds(quota.period_us as f64 / 1e6),
            quota.throttled_periods,
            quota.periods,
            quota
                .used_cpus
                .map_or_else(String::new, |used| format!(" It used {} CPUs.", words::rate(used))),
        ),
        evidence: evidence(quota, loss),
        remedy: vec![raise(measures, quota, wanted_cpus)],
    }
}

fn evidence(quota: &Quota<'_>, loss: &Loss<'_>) -> Vec<Evidence> {
    let stat = format!("{}/cpu.stat", quota.group.directory.trim_end_matches('/'));
    let mut evidence = vec![
        Evidence::new("CPU quota of the group", quota.cpus() * 100.0, "%", setting(quota.group)),
        Evidence::new("threads ready and out of quota", loss.seconds, "s", "sched_switch"),
        Evidence::new("periods out of quota", quota.throttled_periods as f64, "1", stat.clone()),
        Evidence::new(
            "its run queues stood throttled, summed over CPUs",
            quota.throttled_ns as f64 / 1e9,
            "s",
            stat,
        ),
    ];
    if let Some(used) = quota.used_cpus {
        evidence.push(Evidence::new("CPU used", used * 100.0, "%", "cgroup CPU usage"));
    }
    evidence.push(Evidence::new("window", loss.wall_seconds, "s", "CLOCK_MONOTONIC"));
    evidence
}

fn setting(group: &Cgroup) -> String {
    let file = if group.controllers.is_empty() { "cpu.max" } else { "cpu.cfs_quota_us" };
    format!("{}/{file}", group.directory.trim_end_matches('/'))
}

/// A quota of a group, as its file takes it.
fn value(group: &Cgroup, quota_us: u64, period_us: u64) -> String {
    match group.controllers.is_empty() {
        true => format!("{quota_us} {period_us}"),
        false => quota_us.to_string(),
    }
}

/// A group that must stay limited keeps a limit: what its threads ask for, in halves of a CPU, and at least twice what it has.
fn raise(measures: &Measures<'_>, quota: &Quota<'_>, wanted_cpus: f64) -> Remedy {
    const PERIOD_US: u64 = 100_000;
    let (own, old, period) = (quota.group, quota.quota_us, quota.period_us);
    let wanted_us = (wanted_cpus * 2.0).ceil() / 2.0 * period as f64;
    let raised = old.saturating_mul(2).max(period).max(wanted_us as u64);
    let asked_cpus = raised as f64 / period.max(1) as f64;
    let key = |group: &Cgroup, raised: u64, old: u64, period: u64| {
        let [new, old] = [raised, old].map(|quota_us| value(group, quota_us, period));
        Key { path: setting(group), new, old, is_stubborn: false }
    };
    let has_less = |group: &&Cgroup| {
        let period_us = group.cpu_period_us.unwrap_or(PERIOD_US).max(1);
        group.cpu_quota_us.is_some_and(|quota_us| (quota_us as f64 / period_us as f64) < asked_cpus)
    };
    let above: Vec<&Cgroup> =
        group_limits::above(measures.model, own).into_iter().filter(has_less).collect();
    let mut keys = vec![key(own, raised, old, period)];
    keys.extend(above.iter().map(|group| {
        let period = group.cpu_period_us.unwrap_or(PERIOD_US);
        let raised = (asked_cpus * period as f64).ceil() as u64;
        key(group, raised, group.cpu_quota_us.unwrap_or(0), period)
    }));
    group_limits::write_all(group_limits::with_above("raise the quota", &above), &keys)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::measure::cpu_users::tests::cpus;
    use crate::rules::scenes::behind_file_lock;

    fn found_with(more: Vec<Fact>) -> Vec<Finding> {
        explain([facts(48, 3.9), more].concat()).findings
    }

    fn found(throttled_periods: u64, throttled_seconds: f64) -> Vec<Finding> {
        explain(facts(throttled_periods, throttled_seconds)).findings
    }

    fn facts(throttled_periods: u64, throttled_seconds: f64) -> Vec<Fact> {
        let mut facts = cpus([0.3, 0.1]);
        let controllers = vec!["cpu".to_string()];
        let membership =
            Membership { controllers: controllers.clone(), path: "/pods/web/app".into() };
        let thread = ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "web".into() };
        facts.push(Fact {
            at_ns: 0,
            body: Body::Thread(Thread {
                thread: thread.clone(),
                cgroups: vec![membership],
                ..Thread::default()
            }),
        });
        facts.push(Fact {
            at_ns: 0,
            body: Body::Cgroup(Cgroup {
                path: "/pods/web".into(),
                controllers: controllers.clone(),
                directory: "/sys/fs/cgroup/cpu/pods/web".into(),
                cpu_quota_us: Some(20_000),
                cpu_period_us: Some(100_000),
                ..Cgroup::default()
            }),
        });
        for (at_ns, periods) in [(0, 0), (5_000_000_000, throttled_periods)] {
            facts.push(Fact {
                at_ns,
                body: Body::CgroupSample(CgroupSample {
                    path: "/pods/web".into(),
                    controllers: controllers.clone(),
                    cpu_periods: Some(periods + at_ns / 200_000_000),
                    cpu_throttled_periods: Some(periods),
                    cpu_throttled_ns: Some(at_ns / 5 * (periods > 0) as u64),
                    ..CgroupSample::default()
                }),
            });
        }
        let throttled_ns = (throttled_seconds * 1e9) as u64;
        facts.push(Fact {
            at_ns: 5_000_000_000,
            body: Body::ThreadTime(ThreadTime {
                thread,
                run_ns: 1_000_000_000,
                runnable_ns: throttled_ns + 1_000_000,
                throttled_ns,
                ..ThreadTime::default()
            }),
        });
        facts
    }

    #[test]
    fn a_parents_quota_that_is_used_up_is_named_with_its_setting() {
        let found = found(48, 3.9);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.name, "/pods/web");
        assert_eq!(
            found[0].culprit.setting.as_deref(),
            Some("/sys/fs/cgroup/cpu/pods/web/cpu.cfs_quota_us")
        );
        assert_eq!(found[0].severity, Severity::Critical);
        assert!((found[0].evidence[0].value - 20.0).abs() < 1e-9);
        assert!((found[0].impact.wait_seconds_per_second - 0.78).abs() < 1e-3);
        assert!(found[0].remedy[0].undo.starts_with("echo 20000 >"));
    }

    #[test]
    fn the_groups_above_are_raised_with_it() {
        let mut more = found_with(vec![Fact {
            at_ns: 0,
            body: Body::Cgroup(Cgroup {
                path: "/pods".into(),
                controllers: vec!["cpu".into()],
                directory: "/sys/fs/cgroup/cpu/pods".into(),
                cpu_quota_us: Some(10_000),
                cpu_period_us: Some(50_000),
                ..Cgroup::default()
            }),
        }]);
        let way = more.remove(0).remedy.remove(0);
        let (raise, own) = way.command.split_once(" && ").expect("two of them");
        assert_eq!(raise, "echo 50000 > /sys/fs/cgroup/cpu/pods/cpu.cfs_quota_us");
        assert_eq!(own, "echo 100000 > /sys/fs/cgroup/cpu/pods/web/cpu.cfs_quota_us");
        assert!(way.undo.starts_with("echo 20000 > /sys/fs/cgroup/cpu/pods/web/"));
        assert!(way.undo.ends_with("&& echo 10000 > /sys/fs/cgroup/cpu/pods/cpu.cfs_quota_us"));
    }

    #[test]
    fn of_two_quotas_above_one_another_each_has_what_its_periods_allow() {
        let controllers = || vec!["cpu".to_string()];
        let above = |throttled_periods: u64| {
            let group = Cgroup {
                path: "/pods".into(),
                controllers: controllers(),
                directory: "/sys/fs/cgroup/cpu/pods".into(),
                cpu_quota_us: Some(150_000),
                cpu_period_us: Some(100_000),
                ..Cgroup::default()
            };
            let sample = |at_ns: Ns, periods| {
                let sample = CgroupSample {
                    path: "/pods".into(),
                    controllers: controllers(),
                    cpu_throttled_periods: Some(periods),
                    ..CgroupSample::default()
                };
                Fact { at_ns, body: Body::CgroupSample(sample) }
            };
            let group = Fact { at_ns: 0, body: Body::Cgroup(group) };
            vec![group, sample(0, 0), sample(5_000_000_000, throttled_periods)]
        };
        let named = |throttled_periods| -> Vec<String> {
            found_with(above(throttled_periods)).into_iter().map(|it| it.culprit.name).collect()
        };
        assert_eq!(named(3), ["/pods/web"], "the one above ran out three times");
        assert_eq!(named(50), ["/pods"], "it ran out always");
    }

    /// Process 10 was asked about, and waits for a file lock that process 7 has, which is out of quota for so long.
    fn behind_a_lock(seconds: u64) -> Vec<Fact> {
        let web = ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "web".into() };
        let mut facts = behind_file_lock(10, &web);
        let place = Place { state: WaitState::Runnable, ..Place::default() };
        let end_ns = seconds * 1_000_000_000;
        let out = Wait { thread: web, end_ns, place, throttled: true, ..Wait::default() };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(out) });
        facts
    }

    #[test]
    fn the_quota_of_who_has_a_lock_is_named_to_who_waits_for_it() {
        let named = |throttled_periods: u64, seconds: u64| {
            let facts = facts(throttled_periods, seconds as f64);
            let findings = explain([facts, behind_a_lock(seconds)].concat()).findings;
            findings.into_iter().find(|it| it.code == "cpu.quota")
        };
        let found = named(48, 4).expect("the quota");
        assert!(found.title.starts_with("web is held up by the CPU quota"), "{}", found.title);
        assert_eq!(found.chain.first().and_then(|link| link.who.pid), Some(10));
        assert_eq!(named(0, 4), None);
    }

    #[test]
    fn who_has_a_lock_loses_no_more_by_its_quota_than_is_waited_for_it() {
        let facts = [facts(48, 3.9), behind_a_lock(1)].concat();
        let findings = explain(facts).findings;
        let found = findings.iter().find(|it| it.code == "cpu.quota").expect("the quota");
        let lost = found.impact.wait_seconds_per_second;
        assert!(lost > 0.1 && lost < 0.21, "{lost}: 1 s of 5, and not 3.9 s");
    }

    #[test]
    fn a_quota_that_is_not_met_is_no_finding() {
        assert_eq!(found(0, 3.9), []);
    }

    #[test]
    fn a_moment_out_of_quota_is_no_finding() {
        assert_eq!(found(1, 0.05), []);
    }
}
