//! cpu.steal: the hypervisor runs others while this machine's CPUs have work.
//!
//! Stolen time looks like running from inside: threads are on their CPU and get nothing done. The second fact is
//! the scheduler's own clock, which goes on meanwhile: threads ran for longer than user, system and interrupt
//! time together account for.

use super::{Case, words};
use crate::causes::Causes;
use crate::findings::*;

/// The case.
pub static CASE: Case = Case {
    code: "cpu.steal",
    title: "The hypervisor gives this machine's CPU time to others",
    theory: "A virtual CPU runs only when its hypervisor lets it. Time in which it had work and did not run is counted \
             as steal, if the hypervisor tells. Threads seem to run all the while, only slowly; profiles, quotas \
             and load show nothing.",
    needs: &[
        "steal is at least a tenth of the time in which the CPUs had work",
        "threads were on a CPU for longer than the CPUs account for as work",
    ],
    refuted_by: &["no steal is counted", "running time and work of the CPUs agree"],
    remedies: &[
        "move the machine, or buy CPUs that are not shared",
        "if the instance has CPU credits, see whether they are spent",
    ],
    stories: &[],
    find,
};

/// Steal below this part of the time with work is common and harmless.
const STEAL_MIN: f64 = 0.1;

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    let scene = causes.scene;
    let (mut work, mut steal) = (0.0, 0.0);
    for series in scene.cpu_samples.values() {
        let (Some((_, first)), Some((_, last))) = (series.first(), series.last()) else { continue };
        let used = |s: &crate::facts::CpuSample| s.user_ns + s.system_ns + s.irq_ns + s.softirq_ns;
        work += used(last).saturating_sub(used(first)) as f64 / 1e9;
        steal += last.steal_ns.saturating_sub(first.steal_ns) as f64 / 1e9;
    }
    let wall = causes.wall_seconds().max(1e-9);
    let part = steal / (work + steal).max(1e-9);
    let ran: f64 = scene.times.iter().map(|time| time.run_ns as f64 / 1e9).sum();
    if part < STEAL_MIN || steal < 0.05 * wall || ran - work < 0.5 * steal {
        return Vec::new();
    }
    let impact = Impact { wait_seconds_per_second: steal / wall, share: part };
    vec![Finding {
        title: "the hypervisor takes CPU time from this machine".into(),
        text: format!(
            "{} of the time in which its CPUs had work ({} in {}) the hypervisor ran others. Threads seem to run all the \
             while, but get that much less done.",
            words::percent(part),
            words::seconds(steal),
            words::seconds(wall),
        ),
        severity: Severity::of(&impact).max(Severity::Warning),
        confidence: 0.9,
        object: ObjectName::new("CPU", "CPU"),
        culprit: Culprit {
            kind: CulpritKind::Peer,
            name: "hypervisor".into(),
            ..Culprit::default()
        },
        impact,
        evidence: vec![
            Evidence::new("steal", steal, "s", "/proc/stat"),
            Evidence::new("work of the CPUs", work, "s", "/proc/stat"),
            Evidence::new("threads on a CPU", ran, "s", "sched_switch"),
        ],
        remedy: vec![Remedy {
            text: "watch it, and ask whoever runs the host".into(),
            command: "vmstat 1".into(),
            ..Remedy::default()
        }],
        ..CASE.blank()
    }]
}

#[cfg(test)]
mod tests {
    use super::super::cpu::tests::time;
    use super::*;
    use crate::facts::*;
    use crate::scene::Scene;

    fn scene(user: f64, steal: f64, ran: f64) -> Scene {
        let sample = |part: f64| CpuSample {
            user_ns: (part * user * 1e9) as u64,
            steal_ns: (part * steal * 1e9) as u64,
            ..CpuSample::default()
        };
        Scene::new(vec![
            Fact { at_ns: 0, body: Body::CpuSample(sample(0.0)) },
            Fact { at_ns: 5_000_000_000, body: Body::CpuSample(sample(1.0)) },
            Fact { at_ns: 5_000_000_000, body: Body::WindowEnd(WindowEnd::default()) },
            time(7, "web", ran, 0.1),
        ])
    }

    #[test]
    fn stolen_time_that_threads_seem_to_run_is_told() {
        assert_eq!(find(&Causes::of(&scene(2.0, 2.0, 4.0))).len(), 1);
    }

    #[test]
    fn a_little_steal_or_a_counter_that_contradicts_is_not() {
        assert!(find(&Causes::of(&scene(4.0, 0.1, 4.1))).is_empty());
        assert!(find(&Causes::of(&scene(2.0, 2.0, 2.0))).is_empty());
    }
}
