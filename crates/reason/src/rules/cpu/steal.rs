//! cpu.steal: the hypervisor had the CPUs while threads of this guest were to run on them.
//!
//! Steal time counts only while somebody wanted the CPU, so it is always a loss; whose, the kernel does not say. Of what the
//! CPUs were wanted for, running and ready threads lost the same part as the CPUs did. It looks like running, so no wait shows
//! it. Must not: claim the work itself, or name a neighbour, which a guest cannot see.

use super::cpu_waits::{Bound, by_mask, gathered, running_on_path};
use crate::graph::end::End;
use crate::measure::{Measures, steal};
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, CulpritKind, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, Step};
use crate::threshold::Threshold;

static STOLEN_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "of the CPUs that the threads may use, what the hypervisor took; less is what a shared machine costs",
    "chosen; a quiet rented machine, a day: 0.05 % of its CPUs",
);
static LOST_PER_SECOND_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "who loses less in a second does not feel it",
    "chosen: where a wait becomes a warning",
);

static LOST_MIN: Threshold = Threshold::new(
    0.1,
    "s",
    "the kernel counts what is taken in ticks of a hundredth of a second: of a short command two or three are chance",
    "chosen: ten ticks; three commands of 0.2 s and less were told of one tick or two",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.steal",
    title: "The hypervisor has the CPUs",
    theory: "A virtual machine's CPU runs when the hypervisor lets it: a neighbour may have it, or the guest has used up what it \
             may have (a limit, or the credits of a small rented machine). The guest's threads stand still meanwhile and seem to \
             run: programs look as if they computed more than they do.",
    needs: &[
        "the hypervisor says that it took a tenth or more of the CPUs that the threads may use (steal in /proc/stat)",
        "the threads ran there, or were ready to",
    ],
    refuted_by: &[
        Refutation::new("little is taken", "a_guest_that_gets_its_cpus_is_not_stolen_from"),
        Refutation::new("the threads hardly ran", "who_wants_no_cpu_loses_none_to_the_hypervisor"),
        Refutation::new(
            "it is a few ticks of the kernel's",
            "of_a_short_command_a_few_ticks_are_chance",
        ),
    ],
    remedies: &[
        "ask whoever runs the machine: fewer guests on it, or more CPU for this one",
        "on a rented machine see its CPU credits or limit; another size may have none",
    ],
    stories: &[],
    thresholds: &[&STOLEN_MIN, &LOST_PER_SECOND_MIN, &LOST_MIN],
    finds: Finds::Look(find),
};

/// CPUs that are shown.
const CPUS_SHOWN_MAX: usize = 4;

/// A process that lost time so.
struct Stolen<'m> {
    of: Bound<'m>,
    /// What was taken of the CPUs that it may use.
    share: f64,
    lost: f64,
}

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let all = by_mask(measures).into_iter().filter_map(|one| stolen_from(measures, one));
    let wall = measures.wall_seconds();
    let all: Vec<_> = all.filter(|one| is_felt(one.lost, wall)).collect();
    matched(measures, all).into_iter().collect()
}

fn is_felt(lost: f64, wall: f64) -> bool {
    lost >= (LOST_PER_SECOND_MIN.value * wall).max(LOST_MIN.value)
}

fn stolen_from<'m>(measures: &'m Measures<'m>, of: Bound<'m>) -> Option<Stolen<'m>> {
    let cpus = &of.identity.cpus_allowed;
    let share = steal::share_of(&measures.taken.stolen, cpus);
    let busy = measures.cpu.mean_busy(cpus)?;
    // Steal is part of the time in which a CPU is not idle.
    let part = (share / busy.max(1e-9)).min(1.0);
    let lost = (of.run + of.ready) * part;
    (share >= STOLEN_MIN.value).then_some(Stolen { of, share, lost })
}

fn matched<'m>(measures: &'m Measures<'m>, all: Vec<Stolen<'m>>) -> Option<Match<'m>> {
    let (losses, chief) = gathered(all, |one| (&one.of.process, one.lost))?;
    let process = chief.of.process.clone();
    let path_seconds = running_on_path(measures, process.pid, chief.lost);
    let object = Object::Cpu;
    let chain = Step {
        who: process,
        on: object.clone(),
        doing: None,
        seconds: chief.lost,
        when: None,
        because: None,
    };
    let hypervisor =
        Culprit { kind: CulpritKind::None, name: "the hypervisor".into(), ..Culprit::default() };
    Some(Match {
        object: Some(object),
        path_seconds,
        losses: Some(losses),
        chain: Some(vec![chain]),
        ..Match::new(hypervisor, Proof::Read, move |loss| explain(measures, &chief, loss))
    })
}

fn explain(measures: &Measures<'_>, one: &Stolen<'_>, loss: &Loss<'_>) -> Wording {
    let allowed = &one.of.identity.cpus_allowed;
    let its =
        measures.taken.stolen.iter().filter(|(cpu, _)| allowed.is_empty() || allowed.contains(cpu));
    let evidence = its.take(CPUS_SHOWN_MAX).map(|(cpu, share)| {
        Evidence::new(
            format!("taken of CPU {cpu} by the hypervisor"),
            share * 100.0,
            "%",
            "/proc/stat steal",
        )
    });
    Wording {
        title: format!(
            "{} loses {} of its CPUs to the hypervisor",
            loss.victim,
            words::percent(one.share)
        ),
        text: format!(
            "The hypervisor took {} of the CPUs that it may use while they were wanted: {}, most of which looks like running. \
             What is said of its own work contains that.",
            words::percent(one.share),
            words::of_window(loss.seconds, loss.wall_seconds),
        ),
        evidence: evidence.collect(),
        remedy: vec![Remedy {
            text: "ask whoever runs the machine for more CPU, or for fewer neighbours; a rented machine may be out of CPU credits"
                .into(),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::is_felt;
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::measure::cpu_users::tests::time;
    use crate::rules::scenes::*;

    /// A program that seems to have run for so long on two CPUs of which so much was taken.
    fn found(stolen: f64, run: f64) -> Vec<Finding> {
        let mut facts = host();
        for cpu in 0..2 {
            for (at_ns, part) in [(0, 0.0), (LOOK_NS, LOOK_NS as f64)] {
                let sample = CpuSample {
                    cpu,
                    user_ns: (part * (0.8 - stolen)) as u64,
                    steal_ns: (part * stolen) as u64,
                    idle_ns: (part * 0.2) as u64,
                    ..CpuSample::default()
                };
                facts.push(Fact { at_ns, body: Body::CpuSample(sample) });
            }
        }
        facts.push(time(10, "encoder", run, 0.0));
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "encoder".into() };
        facts.push(identity(Thread { thread, ..Thread::default() }));
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "cpu.steal");
        found
    }

    #[test]
    fn what_the_hypervisor_takes_is_named_with_its_size() {
        let found = found(0.4, 8.0);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].title, "encoder loses 40 % of its CPUs to the hypervisor");
        assert_eq!(found[0].culprit.name, "the hypervisor");
        // Half of what the CPUs were wanted for.
        assert!(found[0].text.contains("4 s of 5 s"), "{}", found[0].text);
    }

    #[test]
    fn a_guest_that_gets_its_cpus_is_not_stolen_from() {
        assert_eq!(found(0.05, 8.0), []);
    }

    #[test]
    fn who_wants_no_cpu_loses_none_to_the_hypervisor() {
        assert_eq!(found(0.4, 0.2), []);
    }

    #[test]
    fn of_a_short_command_a_few_ticks_are_chance() {
        assert!(!is_felt(0.03, 0.2));
        assert!(is_felt(0.15, 0.2));
        assert!(!is_felt(0.15, 5.0));
    }
}
