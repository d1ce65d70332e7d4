//! lock.kernel_spin: threads on different CPUs spin in the kernel for one of its short locks.
//!
//! A spin lock makes nobody sleep, so no wait is seen: the time is system time of whoever spins. Samples in the slow path of
//! such a lock say how much, and the function above it says what was being done; several processes that spin there are one
//! finding. Must not: name a holder (a lock like this is had for less than a sample lasts), or count the quick
//! path where nobody spins: every call takes it.
//! Rejected: contention events of spin locks, which cost most where there is most contention.

use crate::facts::Samples;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::own_time::{COST_MIN, Cost};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use std::collections::BTreeMap;

static SHARE_MIN: Threshold = Threshold::new(
    0.15,
    "1",
    "of a process's samples, those that spin; a lock that is shared costs some of this on every busy host",
    "chosen: nearly as much again goes into lines of memory that the CPUs take from one another",
);
static SLOW_MIN: Threshold = Threshold::new(
    0.05,
    "1",
    "of a process's samples, those in the slow path itself: then taking the lock counts too, which is as dear where it is contended",
    "lab, seeds 8817 and 71455: 0.07 and 0.13 beside 0.14 and 0.16 in taking it; 0 and 0.01 with a table for each thread",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.kernel_spin",
    title: "CPUs spin in the kernel for one of its locks",
    theory: "The kernel guards what takes less than a microsecond with spin locks: whoever finds one taken busy-waits until \
             it is free. With many CPUs, or very many calls, that is what the CPUs do: more threads then do less work. It \
             looks like system time, and no thread waits.",
    needs: &[
        "three twentieths of the samples of a process or more lie in the slow path of a spin lock (queued_spin_lock_slowpath and its \
         kind), or in taking a lock that others of its samples spin for",
        "the function of the kernel that takes such a lock in most of them is named",
    ],
    refuted_by: &[
        Refutation::new("little is spun", "a_little_spinning_is_what_sharing_costs"),
        Refutation::new(
            "the samples take locks, but find them free",
            "a_lock_that_is_free_is_no_contention",
        ),
    ],
    remedies: &[
        "share less: descriptors, memory maps, files and sockets of their own for the threads that are busy (processes \
         instead of threads, SO_REUSEPORT, one file each)",
        "fewer and larger calls",
    ],
    stories: &["S3.1"],
    thresholds: &[&SHARE_MIN, &SLOW_MIN, &COST_MIN],
    finds: Finds::Look(find),
};

/// Slow paths of spin locks, and of reader-writer ones.
const SLOW: &[&str] = &[
    "native_queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "__raw_callee_save___pv_queued_spin_lock_slowpath",
    ".slowpath",
    "queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
];
/// What stands between them and whoever takes the lock.
const TAKES: &[&str] =
    &["_raw_spin_lock", "_raw_read_lock", "_raw_write_lock", "spin_lock", "do_raw_spin_lock"];

/// The function for which a stack spins, the innermost first; none if it does not.
fn spins_for(frames: &[String]) -> Option<&str> {
    let at = frames.iter().rposition(|frame| SLOW.contains(&frame.as_str()))?;
    let mut above = frames[at + 1..].iter().map(String::as_str);
    above.find(|frame| !TAKES.iter().any(|takes| frame.starts_with(takes)))
}

/// The function that takes a lock just then, without the slow path: where it is contended, the time goes into the line of memory
/// that the CPUs take from one another.
fn takes_for(frames: &[String]) -> Option<&str> {
    let takes = |frame: &str| TAKES.iter().any(|takes| frame.starts_with(takes));
    frames.first().filter(|innermost| takes(innermost))?;
    frames.iter().map(String::as_str).find(|frame| !takes(frame))
}

/// What is spun for locks that are mostly taken by one function, by process.
#[derive(Default)]
struct Spun {
    losses: Losses,
    /// Samples that spin, and all samples of these processes.
    spinning: u64,
    samples: u64,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut all: BTreeMap<&str, Spun> = BTreeMap::new();
    for spent in measures.profile.all().filter(|spent| measures.concerns(&spent.process)) {
        let pid = spent.process.pid;
        let mut by_function: BTreeMap<&str, u64> = BTreeMap::new();
        let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
        for Samples { stack, count, .. } in measures.profile.samples(pid) {
            let frames = measures.model.stacks.kernel(*stack);
            if let Some(function) = spins_for(frames) {
                *by_function.entry(function).or_default() += count;
            } else if let Some(function) = takes_for(frames) {
                *taken.entry(function).or_default() += count;
            }
        }
        let slow: u64 = by_function.values().sum();
        if spent.share(slow) < SLOW_MIN.value {
            continue;
        }
        for (function, count) in &mut by_function {
            *count += taken.get(function).copied().unwrap_or(0);
        }
        let spinning: u64 = by_function.values().sum();
        let most = by_function.into_iter().max_by_key(|(_, count)| *count);
        let Some((function, _)) = most.filter(|_| spent.share(spinning) >= SHARE_MIN.value) else {
            continue;
        };
        let spun = all.entry(function).or_default();
        spun.losses.insert(pid, (spent.process.clone(), spent.seconds(spinning)));
        spun.spinning += spinning;
        spun.samples += spent.samples;
    }
    all.into_iter().filter_map(|(function, spun)| matched(measures, ends, function, spun)).collect()
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    function: &'m str,
    spun: Spun,
) -> Option<Match<'m>> {
    let most = spun.losses.values().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let by = culprit(measures.model, &most.0);
    let works = ends.iter().filter(|end| end.kind == EndKind::Works);
    let own =
        works.filter(|end| end.who.as_ref().is_some_and(|who| spun.losses.contains_key(&who.pid)));
    let cost = Cost::of(measures, spun.losses.clone(), own);
    if cost.seconds < COST_MIN.value * measures.wall_seconds() {
        return None;
    }
    let matched = Match::new(by, Proof::TwoWitnesses, move |loss| explain(function, &spun, loss));
    let mut matched = cost.charge(matched, ("spins in", function.into()));
    // As much again goes into lines of memory that the CPUs take from one another.
    matched.severity_min = Severity::Warning;
    Some(matched)
}

fn explain(function: &str, spun: &Spun, loss: &Loss<'_>) -> Wording {
    let share = spun.spinning as f64 / spun.samples.max(1) as f64;
    let processes = words::count(spun.losses.len(), "process", "processes");
    Wording {
        title: format!("{} spins in the kernel for a lock that {function} takes", loss.victim),
        text: format!(
            "{} of the CPU time of {processes} goes into busy-waiting until another CPU lets go of that lock, and into taking it: \
             {} of CPU in {}. The more CPUs do so, the less is done.",
            words::percent(share),
            words::seconds(loss.seconds),
            words::seconds(loss.wall_seconds),
        ),
        evidence: vec![
            Evidence::new(
                format!("share of its CPU time that spins, mostly below {function}"),
                share,
                "1",
                "cpu-clock samples, kernel stacks",
            ),
            Evidence::new("samples that spin", spun.spinning as f64, "1", "cpu-clock"),
        ],
        remedy: vec![Remedy {
            text: "let the threads share less of what that function guards, or make fewer and larger calls".into(),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::spins_for;
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::measure::cpu_profile_tests::*;

    const SPINS: &[&str] =
        &["native_queued_spin_lock_slowpath", "_raw_spin_lock", "alloc_fd", "__x64_sys_dup"];

    fn found(spinning: u64, frames: &[&str]) -> Vec<Finding> {
        let mut found = explain(sampled(&[(frames, spinning), (&[], 800 - spinning)])).findings;
        found.retain(|finding| finding.code == "lock.kernel_spin");
        found
    }

    #[test]
    fn a_program_that_spins_is_named_with_the_function_that_takes_the_lock() {
        let found = found(320, SPINS);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].title, "app spins in the kernel for a lock that alloc_fd takes");
        assert!(
            found[0].text.starts_with("40 % of the CPU time of 1 process"),
            "{}",
            found[0].text
        );
    }

    #[test]
    fn a_little_spinning_is_what_sharing_costs() {
        assert_eq!(found(80, SPINS), []);
    }

    #[test]
    fn a_lock_that_is_free_is_no_contention() {
        assert_eq!(found(320, &SPINS[1..]), []);
    }

    #[test]
    fn to_take_a_lock_that_is_spun_for_counts_too() {
        let with = |slow: u64| {
            let takes = &SPINS[1..];
            let stacks: &[(&[&str], u64)] = &[(SPINS, slow), (takes, 120), (&[], 680 - slow)];
            let found = explain(sampled(stacks)).findings;
            found.iter().any(|finding| finding.code == "lock.kernel_spin")
        };
        assert_eq!((with(60), with(40), with(20)), (true, true, false), "from a twentieth on");
    }

    #[test]
    fn the_function_above_the_lock_is_named() {
        let frames = ["_raw_spin_lock", "queued_write_lock_slowpath", "do_exit"];
        assert_eq!(spins_for(&frames.map(String::from)), Some("do_exit"));
        assert_eq!(spins_for(&[]), None);
    }
}
