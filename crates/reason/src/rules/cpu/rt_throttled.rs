//! cpu.rt_throttled: real-time threads have used up the budget of their group, or of the host.
//!
//! A ready real-time thread gets a CPU at once unless one of higher priority has it. If it waits while none does, and its
//! group ran for just what its budget gives for a wait so long, the budget is the reason. No counter of the kernel shows
//! it (cgroup v1 counts nothing for rt), which is why both facts are needed. Must not: compare the mean use with the
//! budget, which a burst meets in one period of many.

use super::cpu_waits::{claims, has_real_time_budget, on_path};
use crate::facts::Cgroup;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::{CgroupKey, Object};
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::group_limits;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, Step};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.rt_throttled",
    title: "Real-time threads have used up their budget",
    theory: "So that a real-time thread that never sleeps does not take the machine, all of them together may use only \
             part of each period (kernel.sched_rt_runtime_us of sched_rt_period_us, 95 % of a second), and each \
             CPU cgroup only its own budget (cpu.rt_runtime_us). Once it is used up they stand still until the next \
             period, for up to a whole second at a time.",
    needs: &[
        "threads under SCHED_FIFO or SCHED_RR are ready and do not run",
        "together they ran for what the budget gives in the periods that so long a wait takes, and not for more",
        "no other real-time thread had the CPUs meanwhile",
    ],
    refuted_by: &[
        Refutation::new("other real-time threads used the CPUs", "others_that_ran_refute_it"),
        Refutation::new(
            "they ran for clearly less than the budget",
            "a_budget_that_is_left_refutes_it",
        ),
        Refutation::new(
            "they ran for more than the budget, so it was not enforced",
            "a_budget_that_does_not_hold_refutes_it",
        ),
    ],
    remedies: &["raise the budget", "let the threads sleep within each period"],
    stories: &["S1.4"],
    thresholds: &[&WAIT_PER_SECOND_MIN, &OF_BUDGET_MIN, &OF_BUDGET_MAX, &OTHERS_MAX],
    finds: Finds::Look(find),
};

static WAIT_PER_SECOND_MIN: Threshold = Threshold::new(
    0.03,
    "s/s",
    "waiting of real-time threads below this is the price of a lock or of migration",
    "chosen",
);
static OF_BUDGET_MIN: Threshold = Threshold::new(
    0.9,
    "1",
    "standing still for one rest of a period takes one whole budget: they ran for so much of what their waiting takes",
    "identity; a tenth is left for ticks, and one budget for the period that the look begins in",
);
static OF_BUDGET_MAX: Threshold = Threshold::new(
    1.3,
    "1",
    "who ran for more than this part of the budget of all CPUs was not held by it",
    "kernel: the budget is checked at ticks, so a small one is exceeded by up to one tick a period",
);
static OTHERS_MAX: Threshold = Threshold::new(
    0.5,
    "1",
    "other real-time threads ran for less than this part of the waiting: they cannot explain most of it",
    "identity: a ready real-time thread waits only for its budget or for another real-time thread",
);

/// Where the host's own period is not known: the kernel's, microseconds.
const PERIOD_US: f64 = 1e6;
/// The most that a remedy gives: the host's own limit by default (sched_rt_runtime_us).
const OF_PERIOD_MAX: f64 = 0.95;

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    measures
        .model
        .containers
        .cgroups
        .iter()
        .filter_map(|group| matched(measures, ends, group))
        .collect()
}

/// What the real-time threads of a group, and all others, did: seconds.
#[derive(Default)]
struct Use {
    run: f64,
    ready: f64,
    /// The longest that one of them was ready and did not run.
    longest_ready: f64,
    other: f64,
    losses: Losses,
}

fn used(measures: &Measures<'_>, group: &Cgroup) -> Use {
    let model = measures.model;
    let mut used = Use::default();
    for time in model.threads.times.iter().filter(|t| !t.kernel && has_real_time_budget(model, t)) {
        let inside = model
            .cgroup_of(&time.thread, "cpu")
            .is_some_and(|own| own.path == group.path && own.controllers == group.controllers);
        let ran = time.run_ns as f64 / 1e9;
        if !inside {
            used.other += ran;
            continue;
        }
        used.run += ran;
        if measures.concerns(&time.thread) {
            let waited = time.runnable_ns as f64 / 1e9;
            used.ready += waited;
            used.longest_ready = used.longest_ready.max(waited);
            let process = model.threads.thread_ref(time.thread.pid);
            used.losses.entry(process.pid).or_insert((process, 0.0)).1 += waited;
        }
    }
    used
}

/// Real-time running that is allowed in each period, microseconds.
#[derive(Clone, Copy)]
struct Budget {
    runtime: f64,
    period: f64,
}

impl Budget {
    fn of(measures: &Measures<'_>, group: &Cgroup) -> Option<Self> {
        let period = measures.model.net.sysctls.get("kernel.sched_rt_period_us");
        let period = period.and_then(|text| text.parse().ok()).unwrap_or(PERIOD_US);
        let runtime = group.rt_runtime_us.filter(|us| *us > 0)? as f64;
        (runtime < period).then_some(Self { runtime, period })
    }

    /// What must have been run to stand still for so long, seconds.
    fn before(self, stood_still: f64) -> f64 {
        self.runtime * stood_still / (self.period - self.runtime)
    }

    /// The same within a look, seconds: of the rest that it begins in the budget may have been used before.
    fn within_look(self, stood_still: f64) -> f64 {
        let has_more = stood_still > (self.period - self.runtime) / 1e6;
        self.before(stood_still) - if has_more { self.runtime / 1e6 } else { 0.0 }
    }

    /// What one CPU may run in a window, seconds.
    fn within(self, wall: f64) -> f64 {
        self.runtime / self.period * wall
    }
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    group: &'m Cgroup,
) -> Option<Match<'m>> {
    let budget = Budget::of(measures, group)?;
    let wall = measures.wall_seconds().max(1e-9);
    let used = used(measures, group);
    // The budget holds for each CPU: one thread meets it alone, several on as many CPUs.
    let most_run = budget.within(wall) * f64::from(measures.model.look.host.cpus.max(1));
    let met = used.run >= OF_BUDGET_MIN.value * budget.within_look(used.longest_ready)
        && used.run <= OF_BUDGET_MAX.value * most_run;
    if used.ready < WAIT_PER_SECOND_MIN.value * wall
        || !met
        || used.other > OTHERS_MAX.value * used.ready
    {
        return None;
    }
    let most = used.losses.values().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let object = Object::Cgroup(CgroupKey::of(group));
    let chain = Step {
        who: most.0.clone(),
        on: object.clone(),
        doing: None,
        seconds: most.1,
        when: None,
        because: None,
    };
    let pids = used.losses.keys().copied().collect();
    let claims = claims(measures, ends, &pids, &[WaitClass::RunQueue]);
    let file = format!("{}/cpu.rt_runtime_us", group.directory.trim_end_matches('/'));
    let culprit = Culprit {
        container: Some(group.path.clone()),
        ..Culprit::setting(group.path.clone(), file.clone())
    };
    Some(Match {
        object: Some(object),
        path_seconds: on_path(measures, ends, &claims).map(|path| path.min(used.ready)),
        claims,
        losses: Some(used.losses.clone()),
        chain: Some(vec![chain]),
        ..Match::new(culprit, Proof::Inferred, move |loss| {
            explain(measures, group, &used, budget, &file, loss)
        })
    })
}

fn explain(
    measures: &Measures<'_>,
    group: &Cgroup,
    used: &Use,
    budget: Budget,
    file: &str,
    loss: &Loss<'_>,
) -> Wording {
    let Budget { runtime, period } = budget;
    Wording {
        title: format!(
            "{} has used up the real-time budget of its {}",
            loss.name,
            measures.model.containers.group_in_words(&group.path)
        ),
        text: format!(
            "{} of its time ({}) its real-time threads are ready and may not run: the cgroup may use {} of each {} \
             at real-time priority, and did.",
            words::percent(loss.impact.share),
            words::of_window(loss.seconds, loss.wall_seconds),
            words::seconds(runtime / 1e6),
            words::seconds(period / 1e6),
        ),
        evidence: vec![
            Evidence::new("real-time budget of the group", runtime / period * 100.0, "%", file),
            Evidence::new("its real-time threads ran", used.run, "s", "sched_switch"),
            Evidence::new("they were ready and did not run", used.ready, "s", "sched_switch"),
            Evidence::new("other real-time threads ran", used.other, "s", "sched_switch"),
        ],
        remedy: vec![group_limits::raise_budget(
            measures.model,
            group,
            "raise the budget",
            (runtime * 2.0).min(OF_PERIOD_MAX * period) as u64,
        )],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::measure::cpu_users::tests::{cpus, time};

    fn real_time(tid: u32, comm: &str, policy: u32, path: &str) -> Fact {
        let known = Thread {
            thread: ThreadRef { tid, pid: tid, start_ns: 0, comm: comm.into() },
            policy,
            cgroups: vec![Membership { controllers: vec!["cpu".into()], path: path.into() }],
            ..Thread::default()
        };
        Fact { at_ns: 0, body: Body::Thread(known) }
    }

    /// A sampler in a group that may use 200 ms of each second.
    fn found(run: f64, ready: f64, policy: u32, more: Vec<Fact>) -> Vec<Finding> {
        let mut facts = cpus([0.3, 0.1]);
        facts.extend([time(7, "sampler", run, ready), real_time(7, "sampler", policy, "/rt")]);
        let group = Cgroup {
            path: "/rt".into(),
            controllers: vec!["cpu".into()],
            rt_runtime_us: Some(200_000),
            ..Cgroup::default()
        };
        facts.push(Fact { at_ns: 0, body: Body::Cgroup(group) });
        facts.extend(more);
        explain(facts).findings
    }

    #[test]
    fn a_budget_that_is_used_up_is_named() {
        let found = found(1.0, 3.9, 1, vec![]);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].code, &*found[0].culprit.name), ("cpu.rt_throttled", "/rt"));
        assert!((found[0].evidence[0].value - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_burst_that_meets_it_in_one_period_is_too() {
        assert_eq!(found(0.2, 0.78, 1, vec![]).len(), 1);
    }

    #[test]
    fn a_look_that_begins_while_it_stands_still_has_one_budget_less() {
        assert_eq!(found(0.82, 3.9, 1, vec![]).len(), 1);
    }

    #[test]
    fn ordinary_threads_and_short_waits_are_not() {
        assert_eq!(found(1.0, 3.9, 0, vec![]), []);
        assert_eq!(found(1.0, 0.05, 1, vec![]), []);
    }

    #[test]
    fn a_budget_that_is_left_refutes_it() {
        assert_eq!(found(0.2, 3.9, 1, vec![]), []);
    }

    #[test]
    fn a_budget_that_does_not_hold_refutes_it() {
        assert_eq!(found(1.4, 3.4, 1, vec![]), []);
    }

    #[test]
    fn others_that_ran_refute_it() {
        let other = |run| vec![time(8, "mixer", run, 0.0), real_time(8, "mixer", 1, "/")];
        assert_eq!(found(1.0, 3.9, 1, other(3.9)), []);
        assert_eq!(found(1.0, 3.9, 1, other(0.5)).len(), 1);
    }
}
