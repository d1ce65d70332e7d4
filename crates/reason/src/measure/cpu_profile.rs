//! What processes spend their CPU time on: the on-CPU samples by process, as the cases that need no wait read them.
//!
//! A sample stands for 1/frequency seconds of one CPU. Shares of a process's own samples say what its time goes
//! into; too few of them say nothing. The counters of its threads are the second fact: they were counted by the
//! kernel, whatever the clock hit. Must not: name codes; each case does.

use crate::answer::report::{Finding, Impact, Link, ObjectName, Severity, Who};
use crate::facts::*;
use crate::measure::Measures;
use crate::rules::old::{Rule, Verdict, cpu};
use std::collections::BTreeMap;

/// With fewer samples a share is a guess.
pub const SAMPLES_MIN: u64 = 20;

/// The on-CPU samples of one process.
#[derive(Debug, Clone)]
pub struct Spent {
    /// The process.
    pub process: ThreadRef,
    /// All samples of it.
    pub samples: u64,
    /// Seconds that one sample stands for.
    pub each: f64,
}

impl Spent {
    /// Seconds that some of its samples stand for.
    pub fn seconds(&self, samples: u64) -> f64 {
        samples as f64 * self.each
    }

    /// Their share of all of them.
    pub fn share(&self, samples: u64) -> f64 {
        samples as f64 / self.samples.max(1) as f64
    }
}

/// Every process of what is looked at that was sampled often enough, without kernel threads and the looker.
pub fn by_process(measures: &Measures<'_>) -> Vec<Spent> {
    let model = measures.model;
    let mut spent: BTreeMap<u32, Spent> = BTreeMap::new();
    for samples in &model.samples {
        let one = spent.entry(samples.process.pid).or_insert_with(|| Spent {
            process: model.thread_ref(samples.process.pid),
            samples: 0,
            each: 1.0 / f64::from(samples.frequency_hz.max(1)),
        });
        if one.process.comm.is_empty() {
            one.process = samples.process.clone();
        }
        one.samples += samples.count;
    }
    let is_kernel = |thread: &ThreadRef| model.identity(thread).is_some_and(|known| known.kernel);
    spent
        .into_values()
        .filter(|one| one.samples >= SAMPLES_MIN && one.process.pid != model.host.own_pid)
        .filter(|one| !is_kernel(&one.process) && cpu::concerns(measures, &one.process))
        .collect()
}

/// What a case finds of processes one by one, if it costs them enough to be more than a note.
pub fn findings(
    measures: &Measures<'_>,
    of: fn(&Measures<'_>, &Spent) -> Option<Finding>,
) -> Vec<Finding> {
    let spent = by_process(measures);
    let found = spent.iter().filter_map(|spent| of(measures, spent));
    found.filter(|finding| finding.severity > Severity::Note).collect()
}

/// Samples of a process whose kernel stack passes a function for which `wanted` holds.
pub fn in_kernel(measures: &Measures<'_>, pid: u32, wanted: impl Fn(&str) -> bool) -> u64 {
    in_stacks(measures, pid, |frames| frames.iter().any(|frame| wanted(frame)))
}

/// Samples of a process whose kernel stack is as wanted.
pub fn in_stacks(measures: &Measures<'_>, pid: u32, wanted: impl Fn(&[String]) -> bool) -> u64 {
    let model = measures.model;
    let of_process = model.samples.iter().filter(|s| s.process.pid == pid && s.stack != 0);
    of_process.filter(|s| wanted(model.stack(s.stack))).map(|s| s.count).sum()
}

/// What the threads of a process asked of the kernel, a second, while they were sampled; none if the samples
/// span less than a tenth of a second.
pub fn effort(measures: &Measures<'_>, pid: u32) -> Option<Rates> {
    let mut sum = Rates::default();
    let mut seen = false;
    for effort in measures.model.efforts.iter().filter(|e| e.thread.pid == pid) {
        let seconds = effort.until_ns.saturating_sub(effort.since_ns) as f64 / 1e9;
        if seconds < 0.1 {
            continue;
        }
        seen = true;
        sum.calls += (effort.reads + effort.writes) as f64 / seconds;
        sum.bytes += (effort.read_bytes + effort.write_bytes) as f64 / seconds;
        sum.faults += (effort.minor_faults + effort.major_faults) as f64 / seconds;
    }
    seen.then_some(sum)
}

/// Sums over threads, a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Calls of the read and write families.
    pub calls: f64,
    /// Bytes that they moved.
    pub bytes: f64,
    /// Page faults.
    pub faults: f64,
}

/// Processes as they lose time, seconds.
pub type Lost = Vec<(ThreadRef, f64)>;

/// A finding on CPU time that is spent on something that could be had cheaper: the processes that spend it are
/// culprit and victims in one.
pub fn finding(
    rule: &Rule,
    measures: &Measures<'_>,
    object: ObjectName,
    on: ObjectName,
    lost: &Lost,
    verdict: Verdict,
) -> Finding {
    let impact = impact(measures, lost);
    let mut chain = Vec::new();
    if let Some((process, seconds)) = lost.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        chain.push(Link { who: Who::thread(process), waits_on: on, seconds: *seconds });
    }
    Finding {
        title: verdict.title,
        text: verdict.text,
        severity: Severity::of(&impact),
        confidence: verdict.confidence,
        object,
        culprit: verdict.culprit,
        victims: lost.iter().map(|(p, seconds)| cpu::victim(measures, p, *seconds)).collect(),
        impact,
        chain,
        evidence: verdict.evidence,
        remedy: verdict.remedy,
        ..rule.blank()
    }
}

/// Of a command its share of the wall time, else that of the processes' own time.
pub fn impact(measures: &Measures<'_>, lost: &Lost) -> Impact {
    let wall = measures.wall_seconds().max(1e-9);
    let seconds: f64 = lost.iter().map(|(_, seconds)| seconds).sum();
    let demand: f64 = lost.iter().map(|(p, s)| measures.demand_seconds(p.pid).max(*s)).sum();
    let share = if measures.is_command() { seconds / wall } else { seconds / demand.max(1e-9) };
    Impact { wait_seconds_per_second: seconds / wall, share: share.clamp(0.0, 1.0) }
}
