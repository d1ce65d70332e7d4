//! Groups that ran out of their CPU quota, and how much of a thread's ready time that was.
//!
//! The scheduler's own count of throttled periods; in cgroup v1 another hierarchy may count what was used. Must not: say
//! whether a quota is too small.

use super::cgroups::change;
use crate::facts::{Cgroup, CgroupSample, Ns, ThreadTime};
use crate::model::{Model, membership};

/// The kernel's own period, microseconds.
const PERIOD_US: u64 = 100_000;

/// A group with a CPU quota that it has met.
#[derive(Debug, Clone)]
pub struct Quota<'a> {
    /// The group.
    pub group: &'a Cgroup,
    /// Microseconds of CPU that it may use each period.
    pub quota_us: u64,
    /// Its period, microseconds.
    pub period_us: u64,
    /// CPUs that it did use, if its group counts it.
    pub used_cpus: Option<f64>,
    /// Periods in which it was active.
    pub periods: u64,
    /// Periods in which it ran out.
    pub throttled_periods: u64,
    /// How long its run queues stood still, summed over CPUs.
    pub throttled_ns: Ns,
}

impl Quota<'_> {
    /// CPUs that it may use: quota over period.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us.max(1) as f64
    }

    /// What one thread can have stood out of quota, at most: the rest of its waiting is for a CPU.
    pub fn out_of_quota_ns_max(&self) -> Ns {
        self.throttled_periods.saturating_mul(self.period_us).saturating_mul(1_000)
    }
}

/// Every group that ran out of its quota in the window.
pub fn quotas(model: &Model) -> Vec<Quota<'_>> {
    let mut found = Vec::new();
    for group in &model.containers.cgroups {
        let Some(quota_us) = group.cpu_quota_us else { continue };
        let Some((first, last)) = change(model, group) else { continue };
        let delta = |of: fn(&CgroupSample) -> Option<u64>| {
            of(&last).unwrap_or(0).saturating_sub(of(&first).unwrap_or(0))
        };
        let throttled_periods = delta(|sample| sample.cpu_throttled_periods);
        if throttled_periods == 0 {
            continue;
        }
        let used_ns = used_ns(model, group);
        found.push(Quota {
            group,
            quota_us,
            period_us: group.cpu_period_us.unwrap_or(PERIOD_US),
            used_cpus: used_ns.map(|ns| used_cpus(model, ns)),
            periods: delta(|sample| sample.cpu_periods),
            throttled_periods,
            throttled_ns: delta(|sample| sample.cpu_throttled_ns),
        });
    }
    found
}

/// What was used in a look, in CPUs. The counters are read before it begins and after it ends: of a short one that is a good part, and no
/// group uses more CPUs than there are.
fn used_cpus(model: &Model, used_ns: Ns) -> f64 {
    let used = used_ns as f64 / 1e9 / model.look.seconds().max(1e-9);
    match model.look.host.cpus {
        0 => used,
        cpus => used.min(f64::from(cpus)),
    }
}

/// CPU that a group used; in cgroup v1 another hierarchy may count it, under the same path.
fn used_ns(model: &Model, group: &Cgroup) -> Option<Ns> {
    let counts = model.containers.cgroups.iter().filter(|other| {
        other.path == group.path && other.controllers.is_empty() == group.controllers.is_empty()
    });
    counts.into_iter().find_map(|other| {
        let (first, last) = change(model, other)?;
        Some(last.cpu_usage_ns?.saturating_sub(first.cpu_usage_ns.unwrap_or(0)))
    })
}

/// How much of a thread's ready time its group was out of quota. Kernels before 6.18 throttle a whole run
/// queue and do not mark the thread: then all of it, if the group was throttled at least half as long.
pub fn out_of_quota_ns(model: &Model, quotas: &[Quota<'_>], time: &ThreadTime) -> Ns {
    if time.throttled_ns > 0 {
        return time.throttled_ns.min(time.runnable_ns);
    }
    if quotas.is_empty() {
        return 0;
    }
    let Some(identity) = model.threads.identity(&time.thread) else { return 0 };
    let throttled = quotas
        .iter()
        .filter(|quota| membership::belongs(identity, quota.group, &["cpu"]))
        .map(|quota| (quota.throttled_ns, quota.out_of_quota_ns_max()))
        .max();
    match throttled {
        Some((ns, most)) if ns * 2 >= time.runnable_ns => time.runnable_ns.min(most).min(ns),
        _ => 0,
    }
}
