//! The ladder of the cpu rules, and what they share: which ends their victims' waits for a CPU are.

pub(crate) mod affinity;
mod come_last;
pub(crate) mod quota;
pub(crate) mod rt_denied;
pub(crate) mod rt_throttled;
pub(crate) mod saturated;

use super::Claim;
use crate::facts::{ThreadRef, ThreadTime};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::Model;
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// The rules of this area; the first that matches claims an end. What narrows a victim by itself (a mask, a quota, a
/// budget) comes before what it shares with others.
pub static LADDER: &[&super::Rule] =
    &[&affinity::RULE, &quota::RULE, &rt_throttled::RULE, &rt_denied::RULE, &saturated::RULE];

// Scheduling policies as the kernel numbers them (include/uapi/linux/sched.h).
const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;
const SCHED_DEADLINE: u32 = 6;

/// Under a real-time or deadline policy, where fair shares mean nothing.
fn is_real_time(model: &Model, thread: &ThreadRef) -> bool {
    let policies = [SCHED_FIFO, SCHED_RR, SCHED_DEADLINE];
    model.identity(thread).is_some_and(|known| policies.contains(&known.policy))
}

/// A thread under one of the two policies that have a budget.
fn has_real_time_budget(model: &Model, time: &ThreadTime) -> bool {
    let own = model.threads.get(&time.thread.tid);
    own.is_some_and(|known| matches!(known.policy, SCHED_FIFO | SCHED_RR))
}

/// What processes wait for a CPU: their part of the ends of these classes. The path of a command has one victim, so of
/// it whole ends, where one of these processes is it or waits there.
fn claims(
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
        }
    }
    claims
}

/// Of a command: the seconds of its path that these claims are.
fn on_path(measures: &Measures<'_>, ends: &[End], claims: &[Claim]) -> Option<f64> {
    let path = claims.iter().map(|claim| ends[claim.end].seconds).sum();
    measures.is_command().then_some(path)
}

/// Whether a rule before this one has claimed what a process waits for a CPU.
fn is_claimed(measures: &Measures<'_>, ends: &[End], pid: u32) -> bool {
    let has = |ends: &[End]| {
        let mut queues = ends.iter().filter(|end| end.class == WaitClass::RunQueue);
        queues.any(|end| end.victims.contains_key(&pid))
    };
    has(&measures.graph.ends) && !has(ends)
}
