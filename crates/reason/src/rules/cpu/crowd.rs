//! The crowd of cpu.saturated: many processes of one program that are ready at a time, and among whom nobody takes more than
//! his part.
//!
//! What makes a crowd is that there are several times as many of it as CPUs, all look long, and that together they have most
//! of the CPUs' time. Somebody else who waits meanwhile is its victim; on a host where nobody else does, and so many are
//! ready that each has a fifth of a CPU or less, it is its own. Must not: blame a command's own children (how many it starts
//! is its own choice), or whoever asked to come last. Rejected: the load average (it counts who waits for a disk too, and
//! names nobody).
//!
//! Edit together: saturated.rs, whose code, theory and numbers for victims these are.

use super::come_last;
use super::cpu_waits::{busy_evidence, chain, claims, is_claimed, on_path};
use super::victims::{CULPRIT_OF_ALL_MIN, are_partners, is_polite, ticks, waits_much};
use crate::facts::{TargetKind, ThreadRef};
use crate::graph::end::End;
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::measure::cpu_users::BUSY_MIN;
use crate::measure::cpu_users::{Competitor, Program, Use, meet};
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Severity, Wording};
use crate::rules::{Losses, Match, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeSet;

pub(super) static CROWD_PER_CPU_MIN: Threshold = Threshold::new(
    4.0,
    "1",
    "processes of one program that live at a time for each CPU; with fewer it is a program that uses the CPUs there are",
    "chosen: build tools start one or two jobs for each CPU; this is twice that",
);
pub(super) static READY_PER_CPU_MIN: Threshold = Threshold::new(
    4.0,
    "1",
    "threads of the crowd that are ready and have no CPU, on average, for each CPU; with fewer a crowd that nobody else waits \
     for gets on well enough",
    "chosen: each then has a fifth of a CPU",
);

/// Many of one program, and who waits for what they use.
struct Crowd {
    program: Program,
    /// Who waits most.
    hurt: ThreadRef,
    losses: Losses,
    /// What the victims waited and ran for, seconds.
    ready: f64,
    run: f64,
    /// Nobody but the crowd itself waits.
    of_its_own: bool,
    /// CPUs that the victims may use.
    cpus: f64,
}

/// A crowd that somebody waits for.
pub(super) fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Option<Match<'m>> {
    if measures.cpu.mean_busy(&[])? < BUSY_MIN.value {
        return None;
    }
    let target = measures.model.look.target.as_ref().map_or(TargetKind::Host, |target| target.kind);
    let crowd = match target {
        TargetKind::Host => on_host(measures, ends),
        _ => before_one(measures, ends),
    }?;
    let mut pids: BTreeSet<u32> = crowd.losses.keys().copied().collect();
    pids.extend(command_root(measures.model).map(|root| root.pid));
    let claims = claims(measures, ends, &pids, &[WaitClass::RunQueue]);
    let queue = Object::RunQueue(Vec::new());
    let by = measures.model.threads.thread_ref(crowd.program.example);
    let most = crowd.losses.values().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let chain = chain(&crowd.hurt, most, &by, crowd.program.run);
    let mut by = culprit(measures.model, &by);
    by.name.clone_from(&crowd.program.name);
    Some(Match {
        object: Some(queue),
        path_seconds: on_path(measures, ends, &claims),
        claims,
        losses: Some(crowd.losses.clone()),
        chain: Some(chain),
        severity_max: if crowd.of_its_own { Severity::Warning } else { Severity::Critical },
        ..Match::new(by, Proof::TwoWitnesses, move |loss| explain(measures, &crowd, loss))
    })
}

/// A command, a process or a container that waits while a crowd of others has the CPUs.
fn before_one(measures: &Measures<'_>, ends: &[End]) -> Option<Crowd> {
    let looked_at = |used: &&Use| match command_root(measures.model) {
        Some(root) => measures
            .cpu
            .job(root.pid)
            .is_some_and(|job| job.processes.contains_key(&used.process.pid)),
        None => measures.model.in_target(&used.process),
    };
    let all = measures.cpu.competitors.iter().filter(|one| !one.kernel);
    let mine: Vec<&Use> = all.flat_map(|one| one.processes.values()).filter(looked_at).collect();
    let (run, ready) = sums(&mine);
    if !waits_much(measures, run, ready) {
        return None;
    }
    let pids: BTreeSet<u32> = mine.iter().map(|used| used.process.pid).collect();
    let program = greatest(measures, &pids)?;
    let job = |pid| measures.cpu.job(pid);
    let one_works_for_the_other = mine.first().is_some_and(|used| {
        let (Some(own), Some(other)) = (job(used.process.pid), job(program.example)) else {
            return false;
        };
        !std::ptr::eq(own, other) && are_partners(measures, own, other)
    });
    if one_works_for_the_other {
        return None;
    }
    of(measures, ends, program, &mine, false)
}

/// A host: whoever is no part of the crowd, or where nobody else waits the crowd itself.
fn on_host(measures: &Measures<'_>, ends: &[End]) -> Option<Crowd> {
    let program = greatest(measures, &BTreeSet::new())?;
    let place = measures.cpu.allowed(&measures.model.threads.thread_ref(program.example));
    let is_of_it =
        |used: &&Use| measures.model.threads.process_name(used.process.pid) == program.name;
    let own = measures.model.look.host.own_pid;
    let is_victim = |one: &&Competitor| {
        let polite = one.greatest().is_some_and(|used| is_polite(measures.model, &used.process));
        let is_own = own != 0 && one.processes.contains_key(&own);
        let in_crowd = one.processes.values().any(|used| is_of_it(&used));
        let counts = !one.kernel && !polite && !is_own && !in_crowd && meet(&one.cpus, place);
        counts && !ticks(measures, one) && waits_much(measures, one.run, one.ready)
    };
    let all = measures.cpu.competitors.iter();
    let others: Vec<&Use> = all.filter(is_victim).flat_map(|one| one.processes.values()).collect();
    if let Some(crowd) = of(measures, ends, program.clone(), &others, false) {
        return Some(crowd);
    }
    let cpus = measures.cpu.busy.len().max(1) as f64;
    if program.ready < READY_PER_CPU_MIN.value * cpus * measures.wall_seconds() {
        return None;
    }
    let all = measures.cpu.competitors.iter().filter(|one| !one.kernel);
    let members: Vec<&Use> = all.flat_map(|one| one.processes.values()).filter(is_of_it).collect();
    of(measures, ends, program, &members, true)
}

/// The program that used most of the CPUs that some processes may use, if it is a crowd.
fn greatest(measures: &Measures<'_>, waiting: &BTreeSet<u32>) -> Option<Program> {
    let instead = measures.cpu.instead_of(waiting);
    let cpus = instead.capacity / measures.cpu.counted_seconds.max(1e-9);
    let users = instead.others.into_iter().filter(|program| !program.kernel);
    let most = users.max_by(|a, b| a.run.total_cmp(&b.run))?;
    let example = measures.model.threads.thread_ref(most.example);
    let is_crowd = most.at_a_time >= CROWD_PER_CPU_MIN.value * cpus
        && most.share >= CULPRIT_OF_ALL_MIN.value
        && !is_polite(measures.model, &example);
    is_crowd.then_some(most)
}

fn sums(of: &[&Use]) -> (f64, f64) {
    (of.iter().map(|used| used.run).sum(), of.iter().map(|used| used.ready).sum())
}

/// With those of its victims whose waits no rule has claimed; none if there are none.
fn of(
    measures: &Measures<'_>,
    ends: &[End],
    program: Program,
    waiting: &[&Use],
    of_its_own: bool,
) -> Option<Crowd> {
    let is_free = |used: &&&Use| used.ready > 0.0 && !is_claimed(measures, ends, used.process.pid);
    let waiting: Vec<&Use> = waiting.iter().filter(is_free).copied().collect();
    let most = waiting.iter().max_by(|a, b| a.ready.total_cmp(&b.ready))?;
    let (run, ready) = sums(&waiting);
    let loss = |used: &&Use| (used.process.pid, (used.process.clone(), used.ready));
    Some(Crowd {
        hurt: most.process.clone(),
        losses: waiting.iter().map(loss).collect(),
        ready,
        run,
        of_its_own,
        cpus: program.run / (program.share * measures.cpu.counted_seconds).max(1e-9),
        program,
    })
}

fn explain(measures: &Measures<'_>, crowd: &Crowd, loss: &Loss<'_>) -> Wording {
    let Crowd { program, hurt, ready, run, of_its_own, cpus, .. } = crowd;
    let (wall, window) = (loss.wall_seconds.max(1e-9), measures.cpu.counted_seconds.max(1e-9));
    let many = format!("{} x {}", program.count, program.name);
    let each = program.run / window / program.at_a_time.max(1.0);
    let cpus = words::count(cpus.round() as usize, "CPU", "CPUs");
    let title = match of_its_own {
        true => format!("{many} share {cpus}: each has {} of one", words::percent(each)),
        false => format!("{} waits for a CPU, which {many} use up", measures.subject(hurt)),
    };
    Wording {
        title,
        text: format!(
            "{}: it could run and had no CPU; it ran for {}. {many} used {} of {cpus}: {:.0} at a time on average, {:.1} of \
             them ready and without one. Nobody of them takes more than its part: there are too many.",
            words::of_time(loss.impact.share, loss.seconds, wall),
            words::seconds(*run),
            words::percent(program.share),
            program.at_a_time,
            program.ready / wall,
        ),
        evidence: vec![
            Evidence::new("waited for a CPU by the victims", *ready, "s", "sched_switch"),
            Evidence::new("CPU used by the victims", *run, "s", "sched_switch"),
            Evidence::new(
                "processes of the crowd at a time",
                program.at_a_time,
                "1",
                "sched_switch",
            ),
            Evidence::new("CPU used by the crowd", program.run, "s", "sched_switch"),
            Evidence::new("waited for a CPU by the crowd", program.ready, "s", "sched_switch"),
            busy_evidence(measures, &[]),
        ],
        remedy: vec![come_last::all(
            measures.model,
            &crowd.losses.keys().copied().collect(),
            hurt,
            &measures.model.threads.thread_ref(program.example),
            &program.name,
        )],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::measure::cpu_users::tests::{cpus, time};

    fn with(used: [f64; 2], more: impl IntoIterator<Item = Fact>) -> Vec<Finding> {
        let mut facts = cpus(used);
        facts.extend(more);
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "cpu.saturated");
        found
    }

    fn hashers(count: u32, run: f64, ready: f64) -> impl Iterator<Item = Fact> {
        (0..count).map(move |n| time(100 + n, "sha256sum", run, ready))
    }

    #[test]
    fn who_waits_beside_a_crowd_is_held_up_by_all_of_it() {
        let found = with([1.0, 1.0], hashers(32, 0.29, 4.7).chain([time(10, "web", 0.3, 4.0)]));
        assert_eq!((found.len(), found[0].culprit.name.as_str()), (1, "sha256sum"));
        assert_eq!(found[0].victims.len(), 1);
        assert_eq!(found[0].title, "web waits for a CPU, which 32 x sha256sum use up");
        assert!(found[0].severity >= Severity::Warning);
        assert!(found[0].remedy[0].command.contains("sha256sum"), "{:?}", found[0].remedy);
    }

    #[test]
    fn a_crowd_alone_is_its_own_victim_and_no_more_than_a_warning() {
        let found = with([1.0, 1.0], hashers(32, 0.31, 4.7));
        assert_eq!((found[0].victims.len(), found[0].severity), (32, Severity::Warning));
        assert_eq!(found[0].remedy[0].command, "", "each of them is who waits");
        assert!(found[0].title.starts_with("32 x sha256sum share 2 CPUs"), "{}", found[0].title);
    }

    #[test]
    fn a_few_more_than_there_are_cpus_are_no_crowd() {
        assert_eq!(with([1.0, 1.0], hashers(3, 3.3, 1.7)), []);
        assert_eq!(with([1.0, 1.0], hashers(8, 1.25, 3.75)), []);
    }
}
