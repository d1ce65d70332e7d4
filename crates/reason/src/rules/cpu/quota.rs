//! cpu.quota: threads that could run stand still because their group has used up its CPU time.
//!
//! The scheduler's own count of throttled periods is the second fact: waits for a CPU alone look the same on a
//! busy host. A limit is looked for in the group and in all above it, because a container's is often its
//! parent's. Rejected: comparing use with the quota (a bursty group is held back well below it on average).

use crate::answer::report::*;
use crate::facts::{ThreadRef, ThreadTime};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::cpu::{self, Quota};
use crate::rules::old::{Rule, words};
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// The case.
pub static RULE: Rule = Rule {
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
        Refutation::new("cpu.stat counts no throttled period", ""),
        Refutation::new("the group's threads hardly wait for a CPU", ""),
    ],
    remedies: &["raise or remove the quota", "run fewer threads", "a longer period, for bursts"],
    stories: &["S0.3"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// A group's threads must stand still for at least this long a second, all together.
const WAIT_PER_SECOND_MIN: f64 = 0.02;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    cpu::quotas(measures.model).iter().filter_map(|quota| finding(measures, quota)).collect()
}

/// Time out of quota by process, of the group's threads that are looked at.
fn victims(measures: &Measures<'_>, quota: &Quota<'_>) -> BTreeMap<u32, (ThreadRef, f64)> {
    let model = measures.model;
    let mut victims: BTreeMap<u32, (ThreadRef, f64)> = BTreeMap::new();
    let inside = |time: &&ThreadTime| {
        let identity = model.identity(&time.thread);
        let member = match identity {
            Some(identity) => cpu::belongs(identity, quota.group, "cpu"),
            None => time.cpu_cgroup_id != 0 && time.cpu_cgroup_id == quota.group.id,
        };
        member && model.in_target(&time.thread)
    };
    for time in model.times.iter().filter(inside) {
        let seconds = cpu::throttled_ns(model, time) as f64 / 1e9;
        if seconds > 0.0 {
            let process = model.thread_ref(time.thread.pid);
            victims.entry(process.pid).or_insert((process, 0.0)).1 += seconds;
        }
    }
    victims
}

fn finding(measures: &Measures<'_>, quota: &Quota<'_>) -> Option<Finding> {
    let victims = victims(measures, quota);
    let wall = measures.wall_seconds().max(1e-9);
    let mut seconds: f64 = victims.values().map(|(_, seconds)| seconds).sum();
    let demand: f64 = victims.keys().map(|pid| measures.demand_seconds(*pid)).sum();
    let mut share = if demand > 0.0 { seconds / demand } else { 0.0 };
    if measures.is_command() {
        let on_path = |end: &&crate::graph::ends::End| {
            matches!(end.class, WaitClass::CpuQuota | WaitClass::RunQueue)
                && end.victims.keys().any(|pid| victims.contains_key(pid))
        };
        let path: f64 = measures.graph.ends.iter().filter(on_path).map(|end| end.seconds).sum();
        seconds = seconds.min(path);
        share = seconds / wall;
    }
    if seconds / wall < WAIT_PER_SECOND_MIN {
        return None;
    }
    let impact = Impact { wait_seconds_per_second: seconds / wall, share: share.clamp(0.0, 1.0) };
    let most = victims.values().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let wanted_cpus = quota.used_cpus.unwrap_or(quota.cpus) + seconds / wall;
    let wanted_cpus = wanted_cpus.min(f64::from(measures.model.host.cpus.max(1)));
    let object = ObjectName::new("cgroup", &quota.group.path);
    let mut told: Vec<Victim> =
        victims.values().map(|(process, wait)| cpu::victim(measures, process, *wait)).collect();
    told.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
    Some(Finding {
        title: format!(
            "{} is held up by the CPU quota of its cgroup {}",
            measures.process_name(&most.0),
            quota.group.path
        ),
        text: text(quota, seconds, wall, share),
        severity: Severity::of(&impact),
        confidence: 0.97,
        culprit: Culprit {
            container: Some(quota.group.path.clone()),
            ..Culprit::setting(quota.group.path.clone(), setting(quota))
        },
        chain: vec![Link { who: Who::thread(&most.0), waits_on: object.clone(), seconds: most.1 }],
        object,
        victims: told,
        impact,
        evidence: evidence(quota, seconds, wall),
        remedy: vec![raise(quota, wanted_cpus)],
        ..RULE.blank()
    })
}

fn text(quota: &Quota<'_>, seconds: f64, wall: f64, share: f64) -> String {
    format!(
        "{} of its time ({}) it could run and may not: the cgroup may use {} CPUs ({} per {}), and ran out of it \
         in {} of {} periods.{}",
        words::percent(share.min(1.0)),
        words::of_window(seconds, wall),
        words::rate(quota.cpus),
        words::seconds(quota.group.cpu_quota_us.unwrap_or(0) as f64 / 1e6),
        words::seconds(quota.group.cpu_period_us.unwrap_or(100_000) as f64 / 1e6),
        quota.throttled_periods,
        quota.periods,
        quota
            .used_cpus
            .map_or_else(String::new, |used| format!(" It used {} CPUs.", words::rate(used))),
    )
}

fn evidence(quota: &Quota<'_>, seconds: f64, wall: f64) -> Vec<Evidence> {
    let stat = format!("{}/cpu.stat", quota.group.directory.trim_end_matches('/'));
    let mut evidence = vec![
        Evidence::new("CPU quota of the group", quota.cpus * 100.0, "%", setting(quota)),
        Evidence::new("threads ready and out of quota", seconds, "s", "sched_switch"),
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
    evidence.push(Evidence::new("window", wall, "s", "CLOCK_MONOTONIC"));
    evidence
}

fn setting(quota: &Quota<'_>) -> String {
    let file = if quota.group.controllers.is_empty() { "cpu.max" } else { "cpu.cfs_quota_us" };
    format!("{}/{file}", quota.group.directory.trim_end_matches('/'))
}

fn raise(quota: &Quota<'_>, wanted_cpus: f64) -> Remedy {
    let (old, period) =
        (quota.group.cpu_quota_us.unwrap_or(0), quota.group.cpu_period_us.unwrap_or(100_000));
    let file = words::shell(&setting(quota));
    let words = |quota_us: u64| {
        if quota.group.controllers.is_empty() {
            format!("echo \"{quota_us} {period}\" > {file}")
        } else {
            format!("echo {quota_us} > {file}")
        }
    };
    // A group that must stay limited keeps a limit: what its threads ask for, in halves of a CPU, and at least twice
    // what it has.
    let wanted_us = (wanted_cpus * 2.0).ceil() / 2.0 * period as f64;
    Remedy {
        text: "raise the quota".into(),
        command: words(old.saturating_mul(2).max(period).max(wanted_us as u64)),
        undo: words(old),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::waits::timeline::Observed;

    fn model(throttled_periods: u64, throttled_seconds: f64) -> Observed {
        let mut facts = crate::rules::old::cpu::tests::cpus([0.3, 0.1]);
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
        Observed::new(facts)
    }

    #[test]
    fn a_parents_quota_that_is_used_up_is_told_with_its_setting() {
        let model = model(48, 3.9);
        let found = find(&Measures::of_observed(&model));
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
    fn a_quota_that_is_not_met_is_no_finding() {
        assert!(find(&Measures::of_observed(&model(0, 0.0))).is_empty());
    }

    #[test]
    fn a_moment_out_of_quota_is_no_finding() {
        assert!(find(&Measures::of_observed(&model(1, 0.05))).is_empty());
    }
}
