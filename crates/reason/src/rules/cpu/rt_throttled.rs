//! cpu.rt_throttled: real-time threads have used up the budget of their group, or of the host.
//!
//! A ready real-time thread gets a CPU at once unless one of higher priority has it. If it waits while none does,
//! and its group ran for just its budget, the budget is the reason. No counter of the kernel tells it (cgroup v1
//! counts nothing for rt), which is why both facts are needed.

use crate::answer::report::*;
use crate::facts::{Cgroup, ThreadRef, ThreadTime};
use crate::measure::Measures;
use crate::rules::Refutation;
use crate::rules::old::{Rule, cpu, words};
use std::collections::BTreeMap;

/// The case.
pub static RULE: Rule = Rule {
    code: "cpu.rt_throttled",
    title: "Real-time threads have used up their budget",
    theory: "So that a real-time thread that never sleeps does not take the machine, all of them together may use only \
             part of each period (kernel.sched_rt_runtime_us of sched_rt_period_us, 95 % of a second), and each \
             CPU cgroup only its own budget (cpu.rt_runtime_us). Once it is used up they stand still until the next \
             period, for up to a whole second at a time.",
    needs: &[
        "threads under SCHED_FIFO or SCHED_RR are ready and do not run",
        "together they ran for about their budget, and not for more",
        "no other real-time thread had the CPUs meanwhile",
    ],
    refuted_by: &[
        Refutation::new("other real-time threads used the CPUs", ""),
        Refutation::new("they ran for clearly less than the budget", ""),
    ],
    remedies: &["raise the budget", "let the threads sleep within each period"],
    stories: &["S1.4"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

/// Waiting of real-time threads below this is the price of a lock or of migration, seconds a second.
const WAIT_PER_SECOND_MIN: f64 = 0.03;

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    measures.model.cgroups.iter().filter_map(|group| finding(measures, group)).collect()
}

fn is_real_time(measures: &Measures<'_>, time: &ThreadTime) -> bool {
    let own = measures.model.threads.get(&time.thread.tid);
    own.is_some_and(|known| matches!(known.policy, 1 | 2))
}

/// What the real-time threads of a group, and all others, did: seconds.
#[derive(Default)]
struct Use {
    run: f64,
    ready: f64,
    longest: f64,
    other: f64,
    by_process: BTreeMap<u32, (ThreadRef, f64)>,
}

fn used(measures: &Measures<'_>, group: &Cgroup) -> Use {
    let model = measures.model;
    let mut used = Use::default();
    for time in model.times.iter().filter(|t| !t.kernel && is_real_time(measures, t)) {
        let inside = model
            .cgroup_of(&time.thread, "cpu")
            .is_some_and(|own| own.path == group.path && own.controllers == group.controllers);
        let ran = time.run_ns as f64 / 1e9;
        if !inside {
            used.other += ran;
            continue;
        }
        used.run += ran;
        used.longest = used.longest.max(ran);
        if cpu::concerns(measures, &time.thread) {
            let waited = time.runnable_ns as f64 / 1e9;
            used.ready += waited;
            let process = model.thread_ref(time.thread.pid);
            used.by_process.entry(process.pid).or_insert((process, 0.0)).1 += waited;
        }
    }
    used
}

/// Budget and period, microseconds.
fn budget(measures: &Measures<'_>, group: &Cgroup) -> Option<(f64, f64)> {
    let period = measures.model.sysctls.get("kernel.sched_rt_period_us");
    let period = period.and_then(|text| text.parse().ok()).unwrap_or(1e6);
    Some((group.rt_runtime_us.filter(|us| *us > 0)? as f64, period))
}

fn finding(measures: &Measures<'_>, group: &Cgroup) -> Option<Finding> {
    let (runtime, period) = budget(measures, group)?;
    let wall = measures.wall_seconds().max(1e-9);
    let used = used(measures, group);
    // The budget holds for each CPU: one thread meets it alone, several on as many CPUs.
    let most_run = runtime / period * wall * f64::from(measures.model.host.cpus.max(1));
    let met = (used.longest >= 0.7 * runtime / period * wall || used.run >= 0.7 * most_run)
        && used.run <= 1.3 * most_run;
    if used.ready < WAIT_PER_SECOND_MIN * wall || !met || used.other > 0.5 * used.ready {
        return None;
    }
    told(measures, group, &used, (runtime, period))
}

fn told(
    measures: &Measures<'_>,
    group: &Cgroup,
    used: &Use,
    (runtime, period): (f64, f64),
) -> Option<Finding> {
    let wall = measures.wall_seconds().max(1e-9);
    let most = used.by_process.values().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let demand: f64 = used.by_process.keys().map(|pid| measures.demand_seconds(*pid)).sum();
    let impact = Impact {
        wait_seconds_per_second: used.ready / wall,
        share: (used.ready / demand.max(used.ready).max(1e-9)).min(1.0),
    };
    let file = format!("{}/cpu.rt_runtime_us", group.directory.trim_end_matches('/'));
    let object = ObjectName::new("cgroup", &group.path);
    let by_process = used.by_process.values();
    let mut victims: Vec<Victim> =
        by_process.map(|(process, wait)| cpu::victim(measures, process, *wait)).collect();
    victims.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
    Some(Finding {
        title: format!(
            "{} has used up the real-time budget of its cgroup {}",
            measures.process_name(&most.0),
            group.path
        ),
        text: format!(
            "{} of its time ({}) its real-time threads are ready and may not run: the cgroup may use {} of each {} \
             at real-time priority, and did.",
            words::percent(impact.share),
            words::of_window(used.ready, wall),
            words::seconds(runtime / 1e6),
            words::seconds(period / 1e6),
        ),
        severity: Severity::of(&impact),
        confidence: 0.9,
        culprit: Culprit {
            container: Some(group.path.clone()),
            ..Culprit::setting(group.path.clone(), file.clone())
        },
        chain: vec![Link { who: Who::thread(&most.0), waits_on: object.clone(), seconds: most.1 }],
        object,
        victims,
        impact,
        evidence: vec![
            Evidence::new("real-time budget of the group", runtime / period * 100.0, "%", &*file),
            Evidence::new("its real-time threads ran", used.run, "s", "sched_switch"),
            Evidence::new("they were ready and did not run", used.ready, "s", "sched_switch"),
            Evidence::new("other real-time threads ran", used.other, "s", "sched_switch"),
        ],
        remedy: vec![Remedy {
            text: "raise the budget (groups above it need at least as much)".into(),
            command: format!(
                "echo {} > {}",
                (runtime * 2.0).min(0.95 * period),
                words::shell(&file)
            ),
            undo: format!("echo {runtime} > {}", words::shell(&file)),
        }],
        ..RULE.blank()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::old::cpu::tests::{cpus, time};
    use crate::waits::timeline::Observed;

    fn model(run: f64, ready: f64, policy: u32) -> Observed {
        let mut facts = cpus([0.3, 0.1]);
        facts.push(time(7, "sampler", run, ready));
        let controllers = vec!["cpu".to_string()];
        let known = Thread {
            thread: ThreadRef { tid: 7, pid: 7, start_ns: 0, comm: "sampler".into() },
            policy,
            cgroups: vec![Membership { controllers: controllers.clone(), path: "/rt".into() }],
            ..Thread::default()
        };
        let group = Cgroup {
            path: "/rt".into(),
            controllers,
            rt_runtime_us: Some(200_000),
            ..Cgroup::default()
        };
        facts.push(Fact { at_ns: 0, body: Body::Thread(known) });
        facts.push(Fact { at_ns: 0, body: Body::Cgroup(group) });
        Observed::new(facts)
    }

    #[test]
    fn a_budget_that_is_used_up_is_told() {
        let model = model(1.0, 3.9, 1);
        let found = find(&Measures::of_observed(&model));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.name, "/rt");
        assert!((found[0].evidence[0].value - 20.0).abs() < 1e-9);
    }

    #[test]
    fn ordinary_threads_and_budgets_that_are_left_are_not() {
        assert!(find(&Measures::of_observed(&model(1.0, 3.9, 0))).is_empty());
        assert!(find(&Measures::of_observed(&model(0.2, 3.9, 1))).is_empty());
        assert!(find(&Measures::of_observed(&model(1.0, 0.05, 1))).is_empty());
    }
}
