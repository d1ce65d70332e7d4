//! Who uses the CPUs, who waits for them, and what each may fairly have: what the CPU cases share.
//!
//! Competitors are not threads: a build is one job however many compilers it starts, and a service is one
//! however many workers it has. Nor are they containers: a hog and its victim may live in one. Each gets at most its fair part of what was used (max-min:
//! who wants less than his part leaves the rest to the others). Use is not a fault; taking more than the fair
//! part while somebody else gets less than his is. Rejected: the busiest process (a busy host is healthy), and
//! pressure totals (they do not say who).

use crate::answer::report::Victim;
use crate::facts::*;
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::model::{Model, within};
use std::collections::{BTreeMap, HashMap, HashSet};

/// From here on all CPUs count as busy.
pub const BUSY_MIN: f64 = 0.9;

/// One who competes for CPUs: the processes of one job.
#[derive(Debug, Clone)]
pub struct Competitor {
    /// Its processes: CPU used and waited for, seconds; the process as a thread.
    pub processes: BTreeMap<u32, Use>,
    /// CPU used, seconds.
    pub run: f64,
    /// Ready without a CPU, seconds; time out of quota not included.
    pub ready: f64,
    /// The longest that one thread of it ran or was ready to, seconds: near the whole look, it wants to run always.
    pub wanted_by_one: f64,
    /// What it might fairly have had, seconds.
    pub fair: f64,
    /// It asked to come last (nice 10 and above, or the idle and batch policies).
    pub polite: bool,
    /// A kernel thread.
    pub kernel: bool,
}

/// One process's use.
#[derive(Debug, Clone)]
pub struct Use {
    /// The process.
    pub process: ThreadRef,
    /// CPU used, seconds.
    pub run: f64,
    /// Ready without a CPU, seconds.
    pub ready: f64,
}

impl Competitor {
    /// The process that uses most.
    pub fn greatest(&self) -> Option<&Use> {
        self.processes.values().max_by(|a, b| a.run.total_cmp(&b.run))
    }

    /// How much less than its fair part it got, seconds.
    pub fn shortfall(&self) -> f64 {
        (self.fair - self.run).max(0.0)
    }

    /// How much more, seconds.
    pub fn excess(&self) -> f64 {
        (self.run - self.fair).max(0.0)
    }
}

/// Everybody who ran or wanted to.
pub fn competitors(measures: &Measures<'_>) -> Vec<Competitor> {
    let model = measures.model;
    let jobs = Jobs::new(model);
    let mut all: HashMap<Job, Competitor> = HashMap::new();
    for time in &model.times {
        if time.thread.pid == 0 {
            continue;
        }
        let of = all.entry(jobs.of(model, &time.thread)).or_insert_with(|| Competitor {
            processes: BTreeMap::new(),
            run: 0.0,
            ready: 0.0,
            wanted_by_one: 0.0,
            fair: 0.0,
            polite: is_polite(model, &time.thread),
            kernel: time.kernel,
        });
        let run = time.run_ns as f64 / 1e9;
        let ready = (time.runnable_ns - throttled_ns(model, time)) as f64 / 1e9;
        of.run += run;
        of.ready += ready;
        of.wanted_by_one = of.wanted_by_one.max(run + ready);
        let process = of.processes.entry(time.thread.pid).or_insert_with(|| Use {
            process: model.thread_ref(time.thread.pid),
            run: 0.0,
            ready: 0.0,
        });
        process.run += run;
        process.ready += ready;
    }
    let mut all: Vec<Competitor> = all.into_values().collect();
    all.sort_by(|a, b| {
        b.run.total_cmp(&a.run).then_with(|| a.processes.keys().cmp(b.processes.keys()))
    });
    share_out(&mut all);
    all
}

/// Max-min fairness: what was used altogether, dealt out equally, nobody given more than he wanted.
fn share_out(all: &mut [Competitor]) {
    let mut left: f64 = all.iter().map(|one| one.run).sum();
    let mut order: Vec<usize> = (0..all.len()).collect();
    let wanted = |one: &Competitor| one.run + one.ready;
    order.sort_by(|a, b| wanted(&all[*a]).total_cmp(&wanted(&all[*b])));
    for (done, at) in order.iter().enumerate() {
        let part = left / (order.len() - done) as f64;
        all[*at].fair = wanted(&all[*at]).min(part);
        left -= all[*at].fair;
    }
}

/// What makes processes one job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Job {
    Group(u32, String),
    Process(u32),
}

/// Finds the job of a process.
struct Jobs {
    parents: HashMap<u32, u32>,
    begun: HashSet<u32>,
}

impl Jobs {
    fn new(model: &Model) -> Self {
        let mut parents = HashMap::new();
        let mut begun = HashSet::new();
        for (_, fork) in &model.forks {
            if fork.child.pid != fork.parent.pid {
                parents.insert(fork.child.pid, fork.parent.pid);
                begun.insert(fork.child.pid);
            }
        }
        Self { parents, begun }
    }

    /// A process that began within the window is a piece of what began it; one that stood before is
    /// one with its equals in the same process group.
    fn of(&self, model: &Model, thread: &ThreadRef) -> Job {
        let mut pid = thread.pid;
        for _ in 0..64 {
            if !self.begun.contains(&pid) {
                break;
            }
            match self.parents.get(&pid) {
                Some(parent) => pid = *parent,
                None => break,
            }
        }
        match model.threads.get(&pid) {
            Some(known) if known.process_group != 0 => {
                Job::Group(known.process_group, known.thread.comm.clone())
            }
            _ => Job::Process(pid),
        }
    }
}

fn is_polite(model: &Model, thread: &ThreadRef) -> bool {
    const BATCH: u32 = 3;
    const IDLE: u32 = 5;
    let polite = |known: &Thread| known.nice >= 10 || matches!(known.policy, BATCH | IDLE);
    model.identity(thread).is_some_and(polite)
}

/// Under a real-time or deadline policy, where fair shares mean nothing.
pub fn is_real_time(model: &Model, thread: &ThreadRef) -> bool {
    model.identity(thread).is_some_and(|known| matches!(known.policy, 1 | 2 | 6))
}

/// How much of a thread's ready time its group was out of quota. Kernels before 6.18 throttle a whole run
/// queue and do not mark the thread: then all of it, if the group was throttled about as long.
pub fn throttled_ns(model: &Model, time: &ThreadTime) -> Ns {
    if time.throttled_ns > 0 {
        return time.throttled_ns.min(time.runnable_ns);
    }
    let Some(identity) = model.identity(&time.thread) else { return 0 };
    let throttled = quotas(model)
        .into_iter()
        .filter(|quota| belongs(identity, quota.group, "cpu"))
        .map(|quota| quota.throttled_ns)
        .max();
    match throttled {
        Some(ns) if ns * 2 >= time.runnable_ns => time.runnable_ns,
        _ => 0,
    }
}

/// A group with a CPU quota that it has met.
#[derive(Debug, Clone)]
pub struct Quota<'a> {
    /// The group.
    pub group: &'a Cgroup,
    /// CPUs that it may use: quota over period.
    pub cpus: f64,
    /// CPUs that it did use, if its group counts it.
    pub used_cpus: Option<f64>,
    /// Periods in which it was active.
    pub periods: u64,
    /// Periods in which it ran out.
    pub throttled_periods: u64,
    /// How long its run queues stood still, summed over CPUs.
    pub throttled_ns: Ns,
}

/// Every group that ran out of its quota in the window.
pub fn quotas(model: &Model) -> Vec<Quota<'_>> {
    let mut found = Vec::new();
    for group in &model.cgroups {
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
            cpus: quota_us as f64 / group.cpu_period_us.unwrap_or(100_000).max(1) as f64,
            used_cpus: used_ns.map(|ns| ns as f64 / 1e9 / model.seconds().max(1e-9)),
            periods: delta(|sample| sample.cpu_periods),
            throttled_periods,
            throttled_ns: delta(|sample| sample.cpu_throttled_ns),
        });
    }
    found
}

/// CPU that a group used; in cgroup v1 another hierarchy may count it, under the same path.
fn used_ns(model: &Model, group: &Cgroup) -> Option<Ns> {
    let counts = model.cgroups.iter().filter(|other| {
        other.path == group.path && other.controllers.is_empty() == group.controllers.is_empty()
    });
    counts.into_iter().find_map(|other| {
        let (first, last) = change(model, other)?;
        Some(last.cpu_usage_ns?.saturating_sub(first.cpu_usage_ns.unwrap_or(0)))
    })
}

/// Counters of a group before and after; those of a group made in the window began at nothing.
pub fn change(model: &Model, group: &Cgroup) -> Option<(CgroupSample, CgroupSample)> {
    let ends = model.cgroup_ends(group)?;
    let zero = || CgroupSample {
        memory_limit_hits: Some(0),
        oom_kills: Some(0),
        ..CgroupSample::default()
    };
    let before = if ends.at_ns > model.begin_ns { zero() } else { ends.first.clone() };
    Some((before, ends.last().clone()))
}

/// Whether a thread is in a group of a controller, or below it.
pub fn belongs(thread: &Thread, group: &Cgroup, controller: &str) -> bool {
    let v2 = group.controllers.is_empty();
    if !v2 && !group.controllers.iter().any(|own| own == controller) {
        return false;
    }
    thread.cgroups.iter().any(|membership| {
        let same = if v2 {
            membership.controllers.is_empty()
        } else {
            membership.controllers.iter().any(|own| own == controller)
        };
        same && (membership.path == group.path || within(&membership.path, &group.path))
    })
}

/// Share of the window that a CPU did something, from /proc/stat.
pub fn busy(model: &Model) -> BTreeMap<u32, f64> {
    let mut busy = BTreeMap::new();
    for (cpu, series) in &model.cpu_samples {
        let (Some((_, first)), Some((_, last))) = (series.first(), series.last()) else { continue };
        let used = |s: &CpuSample| s.user_ns + s.system_ns + s.irq_ns + s.softirq_ns + s.steal_ns;
        let idle = |s: &CpuSample| s.idle_ns + s.iowait_ns;
        let used = used(last).saturating_sub(used(first)) as f64;
        let idle = idle(last).saturating_sub(idle(first)) as f64;
        if used + idle > 0.0 {
            busy.insert(*cpu, used / (used + idle));
        }
    }
    busy
}

/// Mean of some CPUs' busy shares; of all if none is given.
pub fn mean_busy(busy: &BTreeMap<u32, f64>, of: &[u32]) -> Option<f64> {
    let of: Vec<f64> = busy
        .iter()
        .filter(|(cpu, _)| of.is_empty() || of.contains(cpu))
        .map(|(_, share)| *share)
        .collect();
    (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
}

/// CPUs as a person writes them: `0-3,8`.
pub fn cpu_list(cpus: &[u32]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == cpu => *end = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// Whether a thread is of what is looked at; for a command, of the processes that it began.
pub fn concerns(measures: &Measures<'_>, thread: &ThreadRef) -> bool {
    let model = measures.model;
    let Some(root) = command_root(model) else { return model.in_target(thread) };
    let mut pid = thread.pid;
    for _ in 0..64 {
        if pid == root.pid {
            return true;
        }
        let forked =
            model.forks.iter().find(|(_, fork)| fork.child.pid == pid && fork.parent.pid != pid);
        pid = match forked {
            Some((_, fork)) => fork.parent.pid,
            None => return false,
        };
    }
    false
}

/// A victim by process.
pub fn victim(measures: &Measures<'_>, process: &ThreadRef, wait_seconds: f64) -> Victim {
    Victim {
        pid: process.pid,
        comm: measures.process_name(process),
        container: measures.model.container_of(process).map(|c| c.name.clone()),
        wait_seconds,
        ..Victim::default()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::waits::timeline::Observed;

    /// One thread's sums over a window of five seconds.
    pub fn time(pid: u32, comm: &str, run: f64, ready: f64) -> Fact {
        let thread = ThreadRef { tid: pid, pid, start_ns: 0, comm: comm.into() };
        let time = ThreadTime {
            thread,
            until_ns: 5_000_000_000,
            run_ns: (run * 1e9) as u64,
            runnable_ns: (ready * 1e9) as u64,
            ..ThreadTime::default()
        };
        Fact { at_ns: 5_000_000_000, body: Body::ThreadTime(time) }
    }

    /// Two CPUs that were used for these shares of five seconds.
    pub fn cpus(used: [f64; 2]) -> Vec<Fact> {
        let mut facts = vec![
            Fact { at_ns: 0, body: Body::WindowBegin(WindowBegin { unix_ns: 0 }) },
            Fact { at_ns: 5_000_000_000, body: Body::WindowEnd(WindowEnd::default()) },
        ];
        for (cpu, share) in used.into_iter().enumerate() {
            let cpu = cpu as u32;
            let sample = |part: f64| CpuSample {
                cpu,
                user_ns: (part * share * 5e9) as u64,
                idle_ns: (part * (1.0 - share) * 5e9) as u64,
                ..CpuSample::default()
            };
            facts.push(Fact { at_ns: 0, body: Body::CpuSample(sample(0.0)) });
            facts.push(Fact { at_ns: 5_000_000_000, body: Body::CpuSample(sample(1.0)) });
        }
        facts
    }

    #[test]
    fn who_wants_little_is_given_it_and_the_rest_is_shared() {
        let model = Observed::new(vec![
            time(1, "little", 0.5, 0.5),
            time(2, "much", 6.0, 20.0),
            time(3, "more", 3.5, 20.0),
        ]);
        let all = competitors(&Measures::of_observed(&model));
        let fair: Vec<f64> = all.iter().map(|one| one.fair).collect();
        assert_eq!(fair, [4.5, 4.5, 1.0]);
        assert_eq!(all[0].excess(), 1.5);
        assert_eq!(all[2].shortfall(), 0.5);
    }

    #[test]
    fn what_a_build_begins_is_part_of_it() {
        let fork = Fork {
            parent: ThreadRef { tid: 1, pid: 1, ..ThreadRef::default() },
            child: ThreadRef { tid: 9, pid: 9, ..ThreadRef::default() },
            flags: 0,
        };
        let model = Observed::new(vec![
            time(1, "make", 0.1, 0.0),
            Fact { at_ns: 7, body: Body::Fork(fork) },
            time(9, "cc1", 2.0, 2.0),
        ]);
        let all = competitors(&Measures::of_observed(&model));
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].processes.len(), 2);
    }

    #[test]
    fn cpus_are_written_as_ranges() {
        assert_eq!(cpu_list(&[3, 0, 1, 2, 8]), "0-3,8");
        assert_eq!(cpu_list(&[1]), "1");
    }
}
