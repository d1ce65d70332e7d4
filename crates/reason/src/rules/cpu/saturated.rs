//! cpu.saturated: somebody waits for a CPU because others use them up.
//!
//! Three things must come together: the CPUs that the victim may use are all busy, the victim gets less than
//! its fair part and stands in the run queue instead, and one other gets that much more. A host that is merely
//! busy has no victim; a program that is slowed by its own threads has no culprit; a client that waits while its
//! own server works is not held up by it. All of it is of the CPUs that the victim may use: a hog that is bound to others takes
//! nothing from it. Where no single one takes too much, a crowd of one program may (crowd.rs).
//! Rejected: naming the busiest of many who share (the end `cpu` says who they are, measure/cpu_users.rs).

use super::come_last::come_last;
use super::cpu_waits::{busy_evidence, chain, claims, is_claimed, is_real_time, on_path};
use super::crowd;
use super::victims::{
    CULPRIT_OF_ALL_MIN, NICE_MIN, PARTNER_PART_MIN, RUN_PER_SECOND_MIN, RUN_STARVED_PER_SECOND_MIN,
    WAIT_PER_SECOND_MIN, WAIT_TO_RUN_MIN, WANTED_BY_ONE_MIN, are_partners, is_polite, ticks,
    waits_much,
};
use super::whose;
use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::graph::ends::command_root;
use crate::measure::Measures;
use crate::measure::cpu_users::BUSY_MIN;
use crate::measure::cpu_users::Competitor;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.saturated",
    title: "Others use up the CPUs",
    theory: "When more threads are ready than there are CPUs, the scheduler deals out time by thread and group, not by \
             process: one process with many busy threads takes most of it. The others then wait in the run queue \
             after every sleep and at the end of every slice, and their requests take several times as long.",
    needs: &[
        "the CPUs that the victim may use are at least nine tenths busy",
        "the victim waits for a CPU for a noticeable part of its own running time, and gets less than its fair part",
        "one other process or job gets more than its fair part, and two fifths or more of all that is used or asked for; or \
         processes of one program, at least four times as many at a time as there are CPUs, use two fifths of them or more",
    ],
    refuted_by: &[
        Refutation::new("CPUs that the victim may use are idle", "idle_cpus_refute_it"),
        Refutation::new(
            "the one that takes most may use none of the victim's CPUs",
            "a_hog_that_is_bound_to_another_cpu_takes_nothing",
        ),
        Refutation::new(
            "the threads that wait belong to the same job as those that run (use is not a fault)",
            "one_busy_program_alone_is_use_not_a_fault",
        ),
        Refutation::new(
            "the victim's group is out of CPU quota",
            "who_is_out_of_quota_waits_for_that",
        ),
        Refutation::new(
            "one works for the other: it ends the other's waits",
            "a_client_is_not_held_up_by_its_own_server",
        ),
        Refutation::new(
            "it is holdup itself, whose cost is said with the answer",
            "what_the_look_costs_itself_is_nobodys_fault",
        ),
        Refutation::new(
            "a few share, and none has most of it",
            "equals_that_share_have_no_culprit",
        ),
    ],
    remedies: &[
        "give the culprit a lower weight or a quota",
        "run it with a higher nice value",
        "move it elsewhere",
    ],
    stories: &["S0.3"],
    thresholds: &[
        &BUSY_MIN,
        &WAIT_TO_RUN_MIN,
        &WAIT_PER_SECOND_MIN,
        &RUN_PER_SECOND_MIN,
        &WANTED_BY_ONE_MIN,
        &RUN_STARVED_PER_SECOND_MIN,
        &CULPRIT_PART_MIN,
        &EXCESS_MIN,
        &CULPRIT_OF_ALL_MIN,
        &PARTNER_PART_MIN,
        &NICE_MIN,
        &crowd::CROWD_PER_CPU_MIN,
        &crowd::READY_PER_CPU_MIN,
    ],
    finds: Finds::Look(find),
};

static CULPRIT_PART_MIN: Threshold = Threshold::new(
    0.4,
    "1",
    "the culprit has at least this part of what is taken beyond the fair parts",
    "chosen: the largest of three equals has a third",
);
static EXCESS_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "the culprit has so much more than its fair part, as a part of that: of two equals one always has a little more",
    "chosen: equals that share two CPUs for 2 s differ by a twentieth; twice the weight gives a third more",
);

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let waits = |one: &&Competitor| !one.kernel && one.ready > 0.0;
    let all = measures.cpu.competitors.iter().filter(waits);
    // Each list of CPUs that somebody is bound to is a place of its own to compete in.
    let mut places: BTreeSet<&[u32]> = all.map(|one| &one.cpus[..]).collect();
    let is_full =
        |cpus: &[u32]| measures.cpu.mean_busy(cpus).is_some_and(|it| it >= BUSY_MIN.value);
    places.retain(|cpus| is_full(cpus));
    let found: Vec<Match<'m>> =
        places.into_iter().filter_map(|cpus| matched(measures, ends, cpus)).collect();
    match found.is_empty() {
        true => crowd::matched(measures, ends).into_iter().collect(),
        false => found,
    }
}

/// Who takes most beyond his fair part, if it is one.
fn greedy(all: &[Competitor]) -> Option<&Competitor> {
    let excess: f64 = all.iter().map(Competitor::excess).sum();
    let used: f64 = all.iter().map(|one| one.run).sum();
    let asked: f64 = all.iter().map(|one| one.run + one.ready).sum();
    let is_most = |one: &Competitor| {
        one.run >= CULPRIT_OF_ALL_MIN.value * used
            || one.run + one.ready >= CULPRIT_OF_ALL_MIN.value * asked
    };
    all.iter()
        .filter(|one| !one.kernel)
        .max_by(|a, b| a.excess().total_cmp(&b.excess()))
        .filter(|one| one.excess() >= CULPRIT_PART_MIN.value * excess && one.excess() > 0.0)
        .filter(|one| one.excess() >= EXCESS_MIN.value * one.fair)
        .filter(|one| is_most(one))
}

/// One who takes more than his part, and who waits for it.
struct Hog<'m> {
    greedy: Competitor,
    /// The process of it that uses most.
    by: ThreadRef,
    /// The process that waits most.
    hurt: ThreadRef,
    /// CPUs that the victims may use; none: all.
    cpus: &'m [u32],
    /// What the victims waited and ran for, seconds.
    ready: f64,
    run: f64,
}

/// Who is held up on these CPUs, and by whom.
fn matched<'m>(measures: &'m Measures<'m>, ends: &[End], cpus: &'m [u32]) -> Option<Match<'m>> {
    let all = measures.cpu.among(cpus);
    // What the look itself costs is said with the answer, and is gone with it.
    let own = measures.model.look.host.own_pid;
    let greedy = greedy(&all).filter(|it| own == 0 || !it.processes.contains_key(&own))?;
    let is_there = |one: &&Competitor| one.cpus == cpus;
    let victims: Vec<&Competitor> =
        all.iter().filter(is_there).filter(|one| is_victim(measures, ends, one, greedy)).collect();
    let most = victims.iter().max_by(|a, b| a.ready.total_cmp(&b.ready))?;
    let hurt = most.processes.values().max_by(|a, b| a.ready.total_cmp(&b.ready))?;
    let mut losses = Losses::new();
    let mut ready_of_all = 0.0;
    for used in victims.iter().flat_map(|one| one.processes.values()) {
        let pid = used.process.pid;
        if used.ready > 0.0 && !is_claimed(measures, ends, pid) {
            losses.insert(pid, (used.process.clone(), used.ready));
            ready_of_all += used.ready;
        }
    }
    let mut pids: BTreeSet<u32> = losses.keys().copied().collect();
    pids.extend(command_root(measures.model).map(|root| root.pid));
    let claims = claims(measures, ends, &pids, &[WaitClass::RunQueue]);
    let by = &greedy.greatest()?.process;
    let queue = Object::RunQueue(cpus.to_vec());
    let waits = losses.values().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let chain = chain(&hurt.process, waits, by, greedy.run);
    let hog = Hog {
        greedy: greedy.clone(),
        by: by.clone(),
        hurt: hurt.process.clone(),
        cpus,
        ready: ready_of_all,
        run: victims.iter().map(|one| one.run).sum(),
    };
    Some(Match {
        object: Some(queue),
        path_seconds: on_path(measures, ends, &claims),
        claims,
        losses: Some(losses),
        chain: Some(chain),
        ..Match::new(culprit(measures.model, by), Proof::Inferred, move |loss| {
            explain(measures, &hog, loss)
        })
    })
}

fn is_victim(measures: &Measures<'_>, ends: &[End], one: &Competitor, greedy: &Competitor) -> bool {
    let model = measures.model;
    let Some(process) = one.greatest().map(|used| &used.process) else { return false };
    let own = model.look.host.own_pid;
    let looked_at = if measures.is_command() {
        command_root(model).is_some_and(|root| one.processes.contains_key(&root.pid))
    } else {
        one.processes.values().any(|used| model.in_target(&used.process))
    };
    let is_greedy = one.processes.keys().any(|pid| greedy.processes.contains_key(pid));
    let is_own = own != 0 && one.processes.contains_key(&own);
    if is_greedy || is_own || one.kernel {
        return false;
    }
    let most = one.processes.values().max_by(|a, b| a.ready.total_cmp(&b.ready));
    if is_polite(model, process)
        || is_real_time(model, process)
        || most.is_some_and(|most| is_claimed(measures, ends, most.process.pid))
    {
        return false;
    }
    let busy = measures.cpu.mean_busy(&one.cpus);
    looked_at
        && !ticks(measures, one)
        && busy.is_some_and(|busy| busy >= BUSY_MIN.value)
        && waits_much(measures, one.run, one.ready)
        && one.shortfall() > 0.0
        && one.run < greedy.run
        && !are_partners(measures, one, greedy)
}

fn explain(measures: &Measures<'_>, hog: &Hog<'_>, loss: &Loss<'_>) -> Wording {
    let Hog { greedy, by, hurt, cpus, ready, run } = hog;
    let wall = loss.wall_seconds;
    let one = loss.victims.len() == 1;
    let busy = measures.cpu.mean_busy(cpus).unwrap_or(0.0);
    let window = measures.cpu.counted_seconds.max(1e-9);
    let place = whose::place(measures.model, by, Some(hurt));
    let (full, there) = match cpus {
        [] => ("The CPUs are".to_string(), ""),
        [one] => (format!("CPU {one}, which alone they may use, is"), " there"),
        some => {
            (format!("The CPUs {}, which alone they may use, are", words::cpus(some)), " there")
        }
    };
    let full = if one { full.replace("they may", "it may") } else { full };
    Wording {
        title: format!(
            "{} waits for a CPU while {}{place} uses them up",
            measures.subject(hurt),
            words::who(by)
        ),
        text: format!(
            "{} of {} time ({}) {} could run and {} no CPU; {} for {}. {full} {} busy. {}{place} \
             uses {} CPUs{there}, {} more than its fair part.",
            words::percent(loss.impact.share),
            if one { "its" } else { "their" },
            words::of_window(loss.seconds, wall),
            if one { "it" } else { "they" },
            if one { "has" } else { "have" },
            if one { "it runs" } else { "they run" },
            words::seconds(*run),
            words::percent(busy),
            words::who(by),
            words::rate(greedy.run / window),
            words::rate(greedy.excess() / window),
        ),
        evidence: vec![
            Evidence::new("waited for a CPU by the victims", *ready, "s", "sched_switch"),
            Evidence::new("CPU used by the victims", *run, "s", "sched_switch"),
            busy_evidence(measures, cpus),
            Evidence::new("CPU used by the culprit", greedy.run, "s", "sched_switch"),
            Evidence::new("of that, beyond its fair part", greedy.excess(), "s", "sched_switch"),
        ],
        remedy: vec![come_last(measures.model, hurt, by)],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::measure::cpu_users::tests::{cpus, time};
    use crate::rules::scenes::of_process;

    /// What this rule finds.
    fn with(used: [f64; 2], more: Vec<Fact>) -> Vec<Finding> {
        let mut facts = cpus(used);
        facts.extend(more);
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "cpu.saturated");
        found
    }

    fn hogged(used: [f64; 2]) -> Vec<Finding> {
        with(used, vec![time(10, "web", 1.6, 2.0), time(20, "miner", 8.2, 11.0)])
    }

    #[test]
    fn a_service_that_waits_while_a_hog_runs_is_held_up_by_it() {
        let found = hogged([1.0, 0.99]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].culprit.pid, Some(20));
        assert_eq!(found[0].victims[0].pid, 10);
        assert!(found[0].severity >= Severity::Warning);
    }

    #[test]
    fn what_the_look_costs_itself_is_nobodys_fault() {
        let own = Host { own_pid: 20, ..Host::default() };
        let own = Fact { at_ns: 0, body: Body::Host(own) };
        let beside = vec![time(10, "web", 1.6, 2.0), time(20, "holdup", 8.2, 11.0), own];
        assert_eq!(with([1.0, 0.99], beside), []);
    }

    #[test]
    fn idle_cpus_refute_it() {
        assert_eq!(hogged([0.99, 0.4]), []);
    }

    fn bound_to(pid: u32, cpu: u32) -> Fact {
        let thread = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
        let known = Thread { thread, cpus_allowed: vec![cpu], ..Thread::default() };
        Fact { at_ns: 0, body: Body::Thread(known) }
    }

    #[test]
    fn a_hog_that_is_bound_to_another_cpu_takes_nothing() {
        let two = || vec![time(10, "web", 2.4, 2.5), time(11, "job", 2.5, 2.4)];
        let bound = vec![bound_to(10, 1), bound_to(11, 1), bound_to(20, 0)];
        let hog = time(20, "miner", 4.9, 0.1);
        let far = [two(), vec![hog.clone()], bound.clone()].concat();
        assert_eq!(with([1.0, 1.0], far), []);
        // One with many threads beside it on its CPU is the one, though the other uses more.
        let near = vec![time(10, "web", 0.6, 4.3), time(11, "job", 4.3, 20.0), hog];
        let found = with([1.0, 1.0], [near, bound].concat());
        assert_eq!((found.len(), found[0].culprit.pid), (1, Some(11)));
        assert_eq!(found[0].victims[0].pid, 10);
        assert!(
            found[0].text.contains("CPU 1, which alone it may use, is 100 % busy"),
            "{found:?}"
        );
    }

    #[test]
    fn one_busy_program_alone_is_use_not_a_fault() {
        let found =
            with([1.0, 1.0], vec![time(20, "solver", 9.8, 10.0), time(2, "sshd", 0.02, 0.01)]);
        assert_eq!(found, []);
    }

    #[test]
    fn a_poller_that_is_late_beside_a_busy_program_is_no_victim() {
        let found =
            with([1.0, 1.0], vec![time(20, "solver", 9.8, 10.0), time(2, "poller", 0.06, 0.7)]);
        assert_eq!(found, []);
    }

    #[test]
    fn who_is_starved_by_a_heavy_group_is_a_victim_however_little_he_runs() {
        let found = with([1.0, 1.0], vec![time(20, "miner", 9.7, 9.8), time(10, "web", 0.12, 4.7)]);
        assert_eq!(found[0].culprit.pid, Some(20));
        assert_eq!(found[0].victims[0].pid, 10);
    }

    #[test]
    fn equals_that_share_have_no_culprit() {
        let two = vec![time(30, "worker", 5.2, 2.4), time(31, "other", 4.8, 2.6)];
        assert_eq!(with([1.0, 1.0], two), []);
        let four = (0..4).map(|n| time(30 + n, "worker", 2.5, 2.5)).collect();
        assert_eq!(with([1.0, 1.0], four), []);
    }

    #[test]
    fn a_client_is_not_held_up_by_its_own_server() {
        let client = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "web".into() };
        let server = ThreadRef { tid: 20, pid: 20, start_ns: 0, comm: "miner".into() };
        let wait = Wait {
            thread: client,
            begin_ns: 1_000_000,
            end_ns: 9_000_000,
            place: Place { state: WaitState::Sleep, syscall: "read".into(), ..Place::default() },
            wake: Some(Wake {
                at_ns: 8_000_000,
                context: WakeContext::Task,
                by: server,
                ..Wake::default()
            }),
            ..Wait::default()
        };
        let facts = vec![
            time(10, "web", 1.6, 2.0),
            time(20, "miner", 8.2, 11.0),
            Fact { at_ns: 9_000_000, body: Body::Wait(wait) },
        ];
        assert_eq!(with([1.0, 1.0], facts), []);
    }

    #[test]
    fn a_heavy_group_among_many_is_named_by_what_it_gets() {
        let mut jobs: Vec<Fact> = (0..12).map(|n| time(30 + n, "cc1", 0.22, 4.7)).collect();
        jobs.extend([time(20, "miner", 7.2, 12.8), time(10, "web", 0.3, 3.0)]);
        let found = with([1.0, 1.0], jobs);
        assert_eq!(found[0].culprit.pid, Some(20));
    }

    #[test]
    fn one_of_many_jobs_does_not_use_the_cpus_up() {
        let mut jobs: Vec<Fact> = (0..5).map(|n| time(30 + n, "cc1", 1.4, 6.0)).collect();
        jobs.extend([time(20, "rustc", 2.6, 2.0), time(10, "web", 0.4, 3.0)]);
        assert_eq!(with([1.0, 1.0], jobs), []);
    }

    #[test]
    fn who_asked_to_come_last_is_no_victim() {
        let thread = ThreadRef { tid: 10, pid: 10, start_ns: 0, comm: "web".into() };
        let facts = vec![
            time(10, "web", 1.6, 2.0),
            time(20, "miner", 8.2, 11.0),
            Fact { at_ns: 0, body: Body::Thread(Thread { thread, nice: 19, ..Thread::default() }) },
        ];
        assert_eq!(with([1.0, 1.0], facts), []);
    }

    #[test]
    fn who_is_out_of_quota_waits_for_that() {
        let web = |throttled: f64| {
            let mut fact = time(10, "web", 1.6, 2.0);
            if let Body::ThreadTime(time) = &mut fact.body {
                time.throttled_ns = (throttled * 1e9) as u64;
            }
            vec![fact, time(20, "miner", 8.2, 11.0)]
        };
        assert_eq!(with([1.0, 1.0], web(1.9)), []);
        assert_eq!(with([1.0, 1.0], web(0.1)).len(), 1);
    }

    #[test]
    fn who_is_pinned_beside_an_idle_cpu_waits_for_that() {
        let thread = |pid| ThreadRef { tid: pid, pid, start_ns: 0, comm: "web".into() };
        let wait = Wait {
            thread: thread(10),
            begin_ns: 1_000_000_000,
            end_ns: 3_000_000_000,
            ..Wait::default()
        };
        let facts = |cpus_allowed: Vec<u32>| {
            let known = Thread { thread: thread(10), cpus_allowed, ..Thread::default() };
            vec![
                time(10, "web", 1.6, 2.0),
                time(20, "miner", 4.0, 9.0),
                Fact { at_ns: 0, body: Body::Thread(known) },
                Fact { at_ns: 3_000_000_000, body: Body::Wait(wait.clone()) },
            ]
        };
        assert_eq!(with([1.0, 0.3], facts(vec![0])), []);
        assert_eq!(with([1.0, 0.95], facts(vec![0])).len(), 1);
    }

    #[test]
    fn of_a_command_its_path_counts() {
        let name = "web".to_string();
        let target = Target {
            kind: TargetKind::Command,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        };
        let target = Fact { at_ns: 0, body: Body::Target(target) };
        let mut facts = vec![time(10, "web", 1.6, 2.0), time(20, "miner", 8.2, 11.0)];
        let alone = with([1.0, 1.0], [facts.clone(), vec![of_process(10, "web")]].concat());
        facts.push(target);
        let found = with([1.0, 1.0], facts);
        // 2 s of a command that took 5 s, and of a process that was not idle for 3.6 s.
        assert!((found[0].impact.share - 0.4).abs() < 0.01, "{:?}", found[0].impact);
        assert!((alone[0].impact.share - 2.0 / 3.6).abs() < 0.01, "{:?}", alone[0].impact);
    }
}
