//! What the cpu rules share: which ends are their victims' waits for a CPU, who loses by one cause, and the scheduling
//! policies.
//!
//! Must not: decide who is to blame. A wait for a CPU belongs to the first rule that claims it; of a command it is claimed
//! as a whole, for its path has one victim.

use crate::facts::{Cgroup, Thread, ThreadRef, ThreadTime};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::{Model, lifetimes};
use crate::rules::group_limits::above;
use crate::rules::wording::Evidence;
use crate::rules::{Claim, Losses, Step};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

// Scheduling policies as the kernel numbers them (include/uapi/linux/sched.h).
pub(super) const SCHED_FIFO: u32 = 1;
pub(super) const SCHED_RR: u32 = 2;
pub(super) const SCHED_BATCH: u32 = 3;
pub(super) const SCHED_IDLE: u32 = 5;
pub(super) const SCHED_DEADLINE: u32 = 6;

/// Under a real-time or deadline policy, where fair shares mean nothing.
pub(super) fn is_real_time(model: &Model, thread: &ThreadRef) -> bool {
    model.threads.identity(thread).is_some_and(has_real_time_policy)
}

/// The same of a thread that is known.
pub(super) fn has_real_time_policy(known: &Thread) -> bool {
    [SCHED_FIFO, SCHED_RR, SCHED_DEADLINE].contains(&known.policy)
}

/// A thread under one of the two policies that have a budget.
pub(super) fn has_real_time_budget(model: &Model, time: &ThreadTime) -> bool {
    let own = model.threads.by_id.get(&time.thread.tid);
    own.is_some_and(|known| matches!(known.policy, SCHED_FIFO | SCHED_RR))
}

/// The threads of a process that may use the same CPUs.
pub(super) struct Bound<'a> {
    /// One of them.
    pub identity: &'a Thread,
    /// The process, as a thread.
    pub process: ThreadRef,
    /// They ran, seconds.
    pub run: f64,
    /// They were ready without a CPU, seconds; time out of quota not included.
    pub ready: f64,
}

/// Who waits for a CPU how long, and who runs meanwhile how long, seconds.
pub(super) fn chain(hurt: &ThreadRef, ready: f64, by: &ThreadRef, run: f64) -> Vec<Step> {
    let step = |who: &ThreadRef, on, seconds| Step {
        who: who.clone(),
        on,
        doing: None,
        seconds,
        when: None,
        because: None,
    };
    vec![step(hurt, Object::RunQueue(Vec::new()), ready), step(by, Object::Cpu, run)]
}

/// How busy some CPUs are; all if none is given.
pub(super) fn busy_evidence(measures: &Measures<'_>, cpus: &[u32]) -> Evidence {
    let busy = 100.0 * measures.cpu.mean_busy(cpus).unwrap_or(0.0);
    Evidence::new("CPUs busy", busy, "%", "/proc/stat")
}

/// An isolated CPU is idle by intent, and nobody is to be sent there.
pub(super) fn is_isolated(model: &Model, cpu: u32) -> bool {
    model.look.host.is_isolated(cpu)
}

/// The cpusets of a process: that of its group and those above it, the nearest first.
pub(super) fn cpusets_of<'m>(measures: &Measures<'m>, process: &ThreadRef) -> Vec<&'m Cgroup> {
    let model = measures.model;
    let own = model.cgroup_of(process, "cpuset");
    own.into_iter().flat_map(|own| [own].into_iter().chain(above(model, own))).collect()
}

/// CPUs that a process could be given: those online that are not isolated, as far as the cpusets of some of its groups let it. What is
/// asked for beyond them the kernel leaves out without a word.
pub(super) fn usable(
    measures: &Measures<'_>,
    process: &ThreadRef,
    counts: impl Fn(&Cgroup) -> bool,
) -> Vec<u32> {
    let sets = cpusets_of(measures, process).into_iter().filter(|group| counts(group));
    let sets: Vec<&Vec<u32>> = sets.filter_map(|group| group.cpus_allowed.as_ref()).collect();
    let online = measures.cpu.busy.keys().copied();
    let is_usable = |cpu: &u32| {
        !is_isolated(measures.model, *cpu)
            && sets.iter().all(|set| set.is_empty() || set.contains(cpu))
    };
    online.filter(is_usable).collect()
}

/// All threads of what is looked at, but the kernel's and holdup's own, by process and CPUs.
pub(super) fn by_mask<'a>(measures: &'a Measures<'a>) -> Vec<Bound<'a>> {
    bound(measures, |thread| measures.model.in_target(thread))
}

/// The same of processes that are not looked at, and that somebody who is waits for: who has a lock and no CPU. Of the time that each is ready
/// no more than what is waited for it.
pub(super) fn waited_for<'a>(measures: &'a Measures<'a>, ends: &[End]) -> Vec<Bound<'a>> {
    let waited: BTreeMap<u32, f64> =
        ends.iter().filter_map(|end| through_others(measures, end)).collect();
    let mut all = bound(measures, |thread| waited.contains_key(&thread.pid));
    for one in &mut all {
        one.ready = one.ready.min(waited.get(&one.process.pid).copied().unwrap_or(0.0));
    }
    all
}

/// Who stands without a CPU at the end of the chains of an end, if it is nobody who is looked at and most of the end is waited through others,
/// and how much that is, seconds.
fn through_others(measures: &Measures<'_>, end: &End) -> Option<(u32, f64)> {
    let model = measures.model;
    let who = &end.links.get(end.named)?.who;
    let is_one = end.class == WaitClass::RunQueue
        && !end.victims.is_empty()
        && !model.in_target(who)
        && lifetimes::is_there_at_end(model, who);
    if !is_one {
        return None;
    }
    let times = end.victims.keys().flat_map(|pid| measures.times_of(*pid));
    let own = times.map(|time| time.runnable_ns as f64 / 1e9).sum::<f64>();
    let through = end.seconds - own;
    (through > own).then_some((who.pid, through))
}

fn bound<'a>(measures: &'a Measures<'a>, is_meant: impl Fn(&ThreadRef) -> bool) -> Vec<Bound<'a>> {
    let model = measures.model;
    let mut all: BTreeMap<(u32, &[u32]), Bound<'_>> = BTreeMap::new();
    let counts = |time: &&ThreadTime| {
        !time.kernel && time.thread.pid != model.look.host.own_pid && is_meant(&time.thread)
    };
    for time in model.threads.times.iter().filter(counts) {
        let Some(identity) = model.threads.identity(&time.thread) else { continue };
        let of_process = || Bound {
            identity,
            process: model.threads.thread_ref(time.thread.pid),
            run: 0.0,
            ready: 0.0,
        };
        let key = (time.thread.pid, &identity.cpus_allowed[..]);
        let one = all.entry(key).or_insert_with(of_process);
        one.run += time.run_ns as f64 / 1e9;
        let ready_ns = time.runnable_ns.saturating_sub(measures.cpu.out_of_quota_ns(time));
        one.ready += ready_ns as f64 / 1e9;
    }
    all.into_values().collect()
}

/// The command that lets the threads with these CPUs use others: where a process has threads with other ones, these alone.
pub(super) fn bind(measures: &Measures<'_>, one: &Bound<'_>, cpus: &str) -> String {
    let pid = one.process.pid;
    let own = || measures.model.threads.by_id.values().filter(|it| it.thread.pid == pid);
    let is_same = |it: &&Thread| it.cpus_allowed == one.identity.cpus_allowed;
    if own().all(|it| is_same(&it)) {
        return format!("taskset -a -c -p {cpus} {pid}");
    }
    let tids: Vec<String> = own().filter(is_same).map(|it| it.thread.tid.to_string()).collect();
    match &tids[..] {
        [tid] => format!("taskset -c -p {cpus} {tid}"),
        _ => format!("for tid in {}; do taskset -c -p {cpus} $tid; done", tids.join(" ")),
    }
}

/// All that lose by one cause: what each process loses, and the one that loses most, as the example.
pub(super) fn gathered<T>(
    all: Vec<T>,
    loss: impl Fn(&T) -> (&ThreadRef, f64),
) -> Option<(Losses, T)> {
    let mut losses = Losses::new();
    for one in &all {
        let (process, seconds) = loss(one);
        losses.entry(process.pid).or_insert_with(|| (process.clone(), 0.0)).1 += seconds;
    }
    let most = all.into_iter().max_by(|a, b| loss(a).1.total_cmp(&loss(b).1))?;
    Some((losses, most))
}

/// Of a command: what of a loss that looks like running lies on its path, seconds.
pub(super) fn running_on_path(measures: &Measures<'_>, pid: u32, lost: f64) -> Option<f64> {
    measures.is_command().then(|| lost.min(measures.between_waits_on_path(pid)))
}

/// What processes wait for a CPU: their part of the ends of these classes. The path of a command has one victim, so of
/// it whole ends, where one of these processes is it or waits there.
pub(super) fn claims(
    measures: &Measures<'_>,
    ends: &[End],
    of: &BTreeSet<u32>,
    classes: &[WaitClass],
) -> Vec<Claim> {
    let wanted = |end: &End| end.kind == EndKind::Cpu && classes.contains(&end.class);
    let mut claims = Vec::new();
    for (at, end) in ends.iter().enumerate().filter(|(_, end)| wanted(end)) {
        let own: BTreeSet<u32> =
            end.victims.keys().filter(|pid| of.contains(pid)).copied().collect();
        let waits_there = || end.links.get(end.named).is_some_and(|l| of.contains(&l.who.pid));
        if measures.is_command() {
            if end.seconds > 0.0 && (!own.is_empty() || waits_there()) {
                claims.push(Claim { end: at, victims: None });
            }
        } else if !own.is_empty() {
            claims.push(Claim { end: at, victims: Some(own) });
        } else if waits_there() && is_all_through_others(measures, end) {
            // Nobody of them is looked at: the holder of what is waited for.
            claims.push(Claim { end: at, victims: None });
        }
    }
    claims
}

/// Whether an end is of waits for others alone, or nearly: a turn on a CPU is an end of everybody's.
fn is_all_through_others(measures: &Measures<'_>, end: &End) -> bool {
    match end.class {
        WaitClass::CpuQuota => true,
        _ => through_others(measures, end).is_some(),
    }
}

/// Of a command: the seconds of its path that these claims are.
pub(super) fn on_path(measures: &Measures<'_>, ends: &[End], claims: &[Claim]) -> Option<f64> {
    let path = claims.iter().map(|claim| ends[claim.end].seconds).sum();
    measures.is_command().then_some(path)
}

/// Whether a rule before this one has claimed what a process waits for a CPU.
pub(super) fn is_claimed(measures: &Measures<'_>, ends: &[End], pid: u32) -> bool {
    let has =
        |ends: &[End]| measures.run_queues().iter().any(|at| ends[*at].victims.contains_key(&pid));
    has(&measures.graph.ends) && !has(ends)
}
