//! How the time of a thread divides in which nothing was reported of it.
//!
//! The scheduler's sums say how much of it the thread ran, was ready, or slept. What it slept for is known of a command, along
//! its path: as short_waits.rs has it for a process that is asked about, its reported short waits are a sample of the rest, each
//! followed to its end; apart for the two kinds of sleep. Must not: guess from fewer than a few, or divide by a wait that
//! leads to what is itself unseen.
//!
//! Rejected: to leave that time open (a program that reads a quick disk 10,000 times a second waited for nothing that was seen,
//! though every one of the thousand reads that were reported was for that disk).
//!
//! Edit together: short_waits.rs, ends.rs.

use super::chains::{ChainLink, Chains, Leaf};
use super::end::{EndKey, EndKind};
use super::short_waits::{reported, short_ns_max};
use crate::facts::{Ns, ThreadRef, ThreadTime};
use crate::model::object::Object;
use crate::model::{Model, ThreadKey};
use crate::waits::WaitClass;
use crate::waits::timeline::{Doing, Timelines};
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many of a thread's waits are followed; each may be long to follow.
const FOLLOWED_MAX: usize = 50;

/// Ends, each with its part of the time; what is missing to 1 is not known.
pub(super) type Parts = Arc<[(EndKey, f64)]>;

/// A thread's sums.
fn sums(model: &Model, who: ThreadKey) -> Option<&ThreadTime> {
    model.threads.times.iter().find(|time| model.threads.key_at(&time.thread, time.until_ns) == who)
}

/// How the time of a thread that was not reported divides: shares of running, of waiting for a CPU, and of short waits.
pub fn unseen_parts(
    model: &Model,
    timelines: &Timelines,
    thread: &ThreadRef,
) -> [(EndKind, WaitClass, f64); 3] {
    let parts = |works: f64, cpu: f64, open: f64| {
        [
            (EndKind::Works, WaitClass::Running, works),
            (EndKind::Cpu, WaitClass::RunQueue, cpu),
            (EndKind::Open, WaitClass::Unseen, open),
        ]
    };
    let who = model.threads.key(thread);
    let Some(time) = sums(model, who) else {
        return parts(0.0, 0.0, 1.0);
    };
    let (mut reported_ready_ns, mut reported_run_ns, mut unseen_ns) = (0, 0, 0);
    for piece in timelines.pieces(who, time.since_ns, time.until_ns) {
        let ns = piece.end_ns - piece.begin_ns;
        match piece.doing {
            Doing::Waiting(wait)
                if matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota) =>
            {
                reported_ready_ns += ns;
            }
            Doing::Waiting(_) => {}
            Doing::Running => reported_run_ns += ns,
            Doing::Unseen => unseen_ns += ns,
        }
    }
    let all = unseen_ns.max(1) as f64;
    // Where a switch was not reported, the scheduler's own count has what the sums lack.
    let ran_ns = time.run_ns.max(time.cpu_ns.unwrap_or(0));
    let works = (ran_ns.saturating_sub(reported_run_ns) as f64 / all).min(1.0);
    let cpu = (time.runnable_ns.saturating_sub(reported_ready_ns) as f64 / all).min(1.0 - works);
    parts(works, cpu, 1.0 - works - cpu)
}

/// What the unseen sleep of a thread was for, by its reported short waits; `ends` says where a leaf leads to.
pub(super) fn sleeps(
    model: &Model,
    timelines: &Timelines,
    chains: &Chains<'_>,
    who: ThreadKey,
    mut ends: impl FnMut(&Leaf) -> Vec<(EndKey, f64)>,
) -> Parts {
    let (Some(short_ns), Some(time)) = (short_ns_max(model), sums(model, who)) else {
        return Parts::default();
    };
    let kinds = reported(timelines, who, time, short_ns);
    let all_ns: Ns = kinds.iter().map(|(_, left_ns)| left_ns).sum();
    let mut parts: BTreeMap<EndKey, f64> = BTreeMap::new();
    for (of, left_ns) in kinds.iter().filter(|(of, left_ns)| of.is_sample() && *left_ns > 0) {
        let mut led: BTreeMap<EndKey, f64> = BTreeMap::new();
        for wait in of.short.iter().step_by(of.short.len().div_ceil(FOLLOWED_MAX)) {
            for leaf in chains.follow_wait(wait, (model.look.begin_ns, model.look.end_ns), false) {
                for (key, share) in ends(&leaf) {
                    *led.entry(key).or_default() += share * leaf.ns() as f64;
                }
            }
        }
        let part = *left_ns as f64 / all_ns as f64 / led.values().sum::<f64>().max(1.0);
        for (key, ns) in led.into_iter().filter(|(key, _)| key.1 != WaitClass::Unseen) {
            *parts.entry(key).or_default() += part * ns;
        }
    }
    parts.into_iter().collect()
}

/// A leaf whose unseen root waited for this.
pub(super) fn led_to(leaf: &Leaf, key: &EndKey, actor: Option<ThreadRef>) -> Leaf {
    let mut led = leaf.clone();
    let (root, (kind, class, object)) = (leaf.root(), key);
    let who = actor.filter(|_| *kind == EndKind::Works).unwrap_or_else(|| root.who.clone());
    let link = ChainLink { who, class: *class, object: object.clone(), ..root.clone() };
    led.links.pop();
    led.links.push(Arc::new(link));
    led
}

/// Whether an end has a name of its own: it is not what somebody does, or what was not seen.
pub(super) fn has_name(key: &EndKey) -> bool {
    !matches!(
        key.0,
        EndKind::Works
            | EndKind::Cpu
            | EndKind::Sleep
            | EndKind::Open
            | EndKind::Idle
            | EndKind::Person
    ) && !matches!(key.2, Object::Inside(_))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::TargetKind;
    use crate::graph::short_waits::tests::{device_share, syncing_as};

    fn of_command(reported: u64, traced_threshold_ns: u64) -> f64 {
        device_share(&explain(syncing_as(TargetKind::Command, reported, traced_threshold_ns)))
    }

    #[test]
    fn what_a_command_sleeps_unseen_is_for_what_its_reported_waits_were() {
        let share = of_command(100, 1_000_000);
        assert!((share - 0.8).abs() < 0.01, "{share}");
    }

    #[test]
    fn where_all_were_reported_nothing_is_divided() {
        assert!(of_command(100, 0) < 0.1);
    }

    #[test]
    fn of_a_few_nothing_is_known() {
        assert!(of_command(9, 1_000_000) < 0.1);
    }
}
