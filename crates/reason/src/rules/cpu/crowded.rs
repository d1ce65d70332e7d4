//! cpu.crowded: more threads are ready than there are CPUs, and nobody takes more than his part.
//!
//! Two facts: the CPUs are full (/proc/stat), and threads stand ready beside them (the scheduler's sums). Whoever takes more
//! than his part, or a crowd of which each has next to nothing, is cpu.saturated's, which comes before; this is what is left:
//! plain too much work. Never more than a note, because a host that is used to the full is what somebody pays for. Must not:
//! count who asked to come last, holdup itself, or kernel threads. Rejected: a caveat below the answer (it was read by
//! nobody, and the answer above it said that nobody waits), and the load average (it counts who waits for a disk too).
//!
//! Edit together: answer/sentences.rs, which says in the title of such a host how many are ready.

use super::come_last;
use super::cpu_waits::{busy_evidence, chain, claims, is_claimed};
use super::victims::is_polite;
use super::whose;
use crate::facts::{TargetKind, ThreadRef};
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::cpu_users::{BUSY_MIN, READY_PER_CPU_MIN};
use crate::measure::cpu_users::{Competitor, Program, Use};
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.crowded",
    title: "More threads are ready than there are CPUs",
    theory: "The scheduler deals the CPUs out among all threads that are ready. With more of them than CPUs each goes on more \
             slowly, by as much as there are too many, though none of them does anything wrong and no limit is met.",
    needs: &[
        "the CPUs are at least nine tenths busy",
        "on average one thread or more for every two CPUs is ready and has none",
        "nobody takes more than his part (cpu.saturated), and no limit, mask or weight holds those who wait back",
    ],
    refuted_by: &[
        Refutation::new("CPUs idle meanwhile", "idle_cpus_refute_it"),
        Refutation::new(
            "as many are ready as there are CPUs",
            "a_full_host_on_which_few_wait_is_used_well",
        ),
        Refutation::new("who waits asked to come last", "who_asked_to_come_last_is_no_crowd"),
        Refutation::new(
            "one takes more than its part",
            "who_takes_more_than_his_part_is_the_reason",
        ),
    ],
    remedies: &[
        "run fewer of them at a time",
        "let those come last that can wait (nice, cpu.weight)",
        "move some elsewhere, or add CPUs",
    ],
    stories: &["S0.3"],
    thresholds: &[&BUSY_MIN, &READY_PER_CPU_MIN, &EXCESS_MAX, &MOST_MIN],
    finds: Finds::Look(find),
};

static EXCESS_MAX: Threshold = Threshold::new(
    0.1,
    "1",
    "part of the time used that one has beyond his fair part; with more, he is the reason",
    "chosen: six equals that share two CPUs for 2 s differ by a twentieth",
);
static MOST_MIN: Threshold = Threshold::new(
    0.8,
    "1",
    "part of the time used that one program has; with less the title names no program",
    "chosen",
);

/// Programs that one sentence lists.
const LISTED_MAX: usize = 4;

/// Too much work.
struct Crowd {
    /// Whose it is, the greatest first.
    programs: Vec<Program>,
    /// Whose it is by user, the greatest first; empty if all is one user's.
    users: Vec<(String, f64)>,
    /// Who waits most, and is none of the program that has most, if anybody is.
    hurt: ThreadRef,
    /// Who is not to come last: that one, or where nobody else waits all of them.
    waiting: BTreeSet<u32>,
    /// Ready without a CPU, seconds.
    ready: f64,
    /// CPU used, seconds.
    run: f64,
    cpus: usize,
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    matched(measures, ends).into_iter().collect()
}

fn matched<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Option<Match<'m>> {
    let kind = measures.model.look.target.as_ref().map_or(TargetKind::Host, |target| target.kind);
    let is_full = measures.cpu.mean_busy(&[])? >= BUSY_MIN.value;
    if kind != TargetKind::Host || !is_full || !is_fair(measures) || is_explained(measures, ends) {
        return None;
    }
    let waiting = waiting(measures, ends);
    let ready: f64 = waiting.iter().map(|used| used.ready).sum();
    let cpus = measures.cpu.busy.len();
    if ready < READY_PER_CPU_MIN.value * cpus as f64 * measures.wall_seconds() {
        return None;
    }
    let pids: BTreeSet<u32> = waiting.iter().map(|used| used.process.pid).collect();
    let most = waiting.iter().max_by(|a, b| a.ready.total_cmp(&b.ready))?;
    let mut programs = measures.cpu.instead_of(&BTreeSet::new()).others;
    programs.retain(|program| pids.contains(&program.example));
    let greatest = programs.first()?;
    let by = measures.model.threads.thread_ref(greatest.example);
    let queue = Object::RunQueue(Vec::new());
    let chain = chain(&most.process, most.ready, &by, greatest.run);
    let losses: Losses =
        waiting.iter().map(|used| (used.process.pid, (used.process.clone(), used.ready))).collect();
    let mut by = culprit(measures.model, &by);
    by.name.clone_from(&greatest.name);
    let run = waiting.iter().map(|used| used.run).sum();
    let users = whose::by_user(measures.model, &waiting);
    let is_other =
        |used: &&&Use| measures.model.threads.process_name(used.process.pid) != greatest.name;
    let others = waiting.iter().filter(is_other);
    let hurt = others.max_by(|a, b| a.ready.total_cmp(&b.ready)).unwrap_or(most).process.clone();
    let claims = claims(measures, ends, &pids, &[WaitClass::RunQueue]);
    let is_of_it = measures.model.threads.process_name(hurt.pid) == greatest.name;
    let waiting = if is_of_it { pids } else { BTreeSet::from([hurt.pid]) };
    let crowd = Crowd { hurt, waiting, programs, users, ready, run, cpus };
    Some(Match {
        object: Some(queue),
        claims,
        losses: Some(losses),
        chain: Some(chain),
        severity_max: Severity::Note,
        ..Match::new(by, Proof::TwoWitnesses, move |loss| explain(measures, &crowd, loss))
    })
}

/// Nobody has much more than his part at the cost of another program. Threads of the kernel that had to wait are no victims of
/// cpu.saturated either: who has their part is no reason.
fn is_fair(measures: &Measures<'_>) -> bool {
    let all = &measures.cpu.competitors;
    let used: f64 = all.iter().map(|one| one.run).sum();
    let lacks: f64 = all.iter().filter(|one| !one.kernel).map(Competitor::shortfall).sum();
    all.iter().all(|one| one.excess().min(lacks) < EXCESS_MAX.value * used)
}

/// A rule before this one says why somebody waits for a CPU.
fn is_explained(measures: &Measures<'_>, ends: &[End]) -> bool {
    let of_all = measures.graph.ends.iter().zip(ends);
    of_all
        .filter(|(end, _)| end.kind == EndKind::Cpu)
        .any(|(end, left)| left.victims.len() < end.victims.len())
}

/// Whoever is ready and has no CPU, and did not ask for that.
fn waiting<'m>(measures: &'m Measures<'m>, ends: &[End]) -> Vec<&'m Use> {
    let own = measures.model.look.host.own_pid;
    let all = measures.cpu.competitors.iter().filter(|one| !one.kernel);
    let counts = |used: &&Use| {
        let pid = used.process.pid;
        let polite = is_polite(measures.model, &used.process);
        used.ready > 0.0 && pid != own && !polite && !is_claimed(measures, ends, pid)
    };
    all.flat_map(|one| one.processes.values()).filter(counts).collect()
}

fn explain(measures: &Measures<'_>, crowd: &Crowd, loss: &Loss<'_>) -> Wording {
    let Crowd { programs, users, hurt, waiting, ready, run, cpus } = crowd;
    let (wall, window) = (loss.wall_seconds.max(1e-9), measures.cpu.counted_seconds.max(1e-9));
    let cpus = words::count(*cpus, "CPU", "CPUs");
    let used: f64 = programs.iter().map(|program| program.run).sum();
    let Some(greatest) = programs.first() else { return Wording::default() };
    let has_most = greatest.run >= MOST_MIN.value * used;
    let each = words::percent(greatest.run / window / greatest.at_a_time.max(1.0));
    let title = match (has_most, greatest.at_a_time.round() as usize) {
        (true, 0 | 1) => format!(
            "{} has more threads ready than there are CPUs: {} for {cpus}",
            measures.program_shown(greatest),
            words::rate((greatest.run + greatest.ready) / wall),
        ),
        (true, _) => {
            format!("{} share {cpus}: each has {each} of one", measures.program_shown(greatest))
        }
        (false, _) => format!(
            "there is more work than {cpus} can do: {} threads at a time are ready and have none",
            words::rate(ready / wall)
        ),
    };
    let listed: Vec<String> = programs
        .iter()
        .take(LISTED_MAX)
        .map(|program| {
            let example = measures.model.threads.thread_ref(program.example);
            let place = whose::place(measures.model, &example, None);
            format!(
                "{}{place} {} ({} more ready)",
                measures.program_shown(program),
                words::rate(program.run / window),
                words::rate(program.ready / wall)
            )
        })
        .collect();
    let of_user = |(user, run): &(String, f64)| format!("{user} {}", words::rate(run / window));
    let by_user: Vec<String> = users.iter().take(LISTED_MAX).map(of_user).collect();
    let by_user = match by_user.is_empty() {
        true => String::new(),
        false => format!(" By user: {}.", by_user.join(", ")),
    };
    Wording {
        title,
        text: format!(
            "{} threads at a time are ready and have no CPU; what would take 1 s alone takes {}. CPUs used by {}.{by_user} \
             Nobody takes more than its part: there is too much to do.",
            words::rate(ready / wall),
            words::seconds((run + ready) / run.max(1e-9)),
            listed.join(", "),
        ),
        evidence: vec![
            Evidence::new("ready without a CPU", *ready, "s", "sched_switch"),
            Evidence::new("CPU used by those that wait", *run, "s", "sched_switch"),
            busy_evidence(measures, &[]),
        ],
        remedy: vec![come_last::all(
            measures.model,
            waiting,
            hurt,
            &measures.model.threads.thread_ref(greatest.example),
            &greatest.name,
        )],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::measure::cpu_users::tests::{cpus, time};

    fn found(used: [f64; 2], more: impl IntoIterator<Item = Fact>) -> Vec<Finding> {
        let mut facts = cpus(used);
        facts.extend(more);
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code.starts_with("cpu."));
        found
    }

    fn of(count: u32, name: &'static str, run: f64, ready: f64) -> impl Iterator<Item = Fact> {
        (0..count).map(move |n| time(100 + n, name, run, ready))
    }

    #[test]
    fn equals_that_are_more_than_the_cpus_are_a_note() {
        let found = found([1.0, 1.0], of(6, "gzip", 1.66, 3.33));
        assert_eq!((found.len(), found[0].code.as_str()), (1, "cpu.crowded"));
        assert_eq!((found[0].severity, found[0].victims.len()), (Severity::Note, 6));
        assert_eq!(found[0].title, "6 x gzip share 2 CPUs: each has 33 % of one");
        assert!(found[0].text.contains("takes 3.01 s"), "{}", found[0].text);
    }

    #[test]
    fn one_process_of_many_threads_is_named_with_what_it_wants() {
        let found = found([1.0, 1.0], [time(7, "miner", 10.0, 15.0)]);
        assert!(found[0].title.starts_with("miner 7 has more threads ready"), "{found:?}");
    }

    #[test]
    fn several_programs_are_listed_with_what_each_has() {
        let all = [time(7, "gzip", 3.0, 2.0), time(8, "cc1", 3.0, 2.1), time(9, "ld", 3.9, 1.9)];
        let found = found([1.0, 1.0], all);
        assert!(
            found[0].title.starts_with("there is more work than 2 CPUs can do: 1.2"),
            "{found:?}"
        );
        assert!(found[0].text.contains("ld 9 0.78 (0.38 more ready), "), "{}", found[0].text);
    }

    #[test]
    fn whose_the_work_is_is_said_by_user() {
        let of_user = |pid: u32, name: &str, uid: u32| {
            let thread = ThreadRef {
                comm: name.into(),
                ..ThreadRef { tid: pid, pid, ..ThreadRef::default() }
            };
            let user = (uid == 1000).then(|| "anna".to_string());
            let known = Thread { thread, uid: Some(uid), user, ..Thread::default() };
            Fact { at_ns: 0, body: Body::Thread(known) }
        };
        let all = [time(7, "gzip", 3.0, 2.0), time(8, "cc1", 3.0, 2.1), time(9, "ld", 3.9, 1.9)];
        let users = [of_user(7, "gzip", 1000), of_user(8, "cc1", 1000), of_user(9, "ld", 1007)];
        let found = found([1.0, 1.0], all.into_iter().chain(users));
        let text = &found[0].text;
        assert!(text.contains(" By user: anna 1.20, 1007 0.78."), "{text}");
        assert!(text.contains("ld 9 of user 1007 0.78"), "{text}");
    }

    #[test]
    fn threads_of_the_kernel_that_wait_make_no_equals_greedy() {
        let mut kernel = time(50, "kworker/0:1", 0.1, 1.5);
        if let Body::ThreadTime(time) = &mut kernel.body {
            time.kernel = true;
        }
        let group = |n: u32| {
            let thread = ThreadRef { tid: 100 + n, pid: 100 + n, ..ThreadRef::default() };
            let known = Thread { thread, process_group: 100, ..Thread::default() };
            Fact { at_ns: 0, body: Body::Thread(known) }
        };
        let all = of(6, "gzip", 1.64, 3.33).chain([kernel]).chain((0..6).map(group));
        assert_eq!(found([1.0, 1.0], all).len(), 1);
    }

    #[test]
    fn idle_cpus_refute_it() {
        assert_eq!(found([0.7, 0.7], of(6, "gzip", 1.1, 3.33)), []);
    }

    #[test]
    fn a_full_host_on_which_few_wait_is_used_well() {
        assert_eq!(found([1.0, 1.0], of(2, "gzip", 4.9, 0.1)), []);
    }

    #[test]
    fn who_asked_to_come_last_is_no_crowd() {
        let polite = |n: u32| {
            let thread = ThreadRef { tid: 100 + n, pid: 100 + n, ..ThreadRef::default() };
            Fact { at_ns: 0, body: Body::Thread(Thread { thread, nice: 19, ..Thread::default() }) }
        };
        let all = (0..6).map(polite).chain(of(6, "gzip", 1.66, 3.33));
        assert_eq!(found([1.0, 1.0], all), []);
    }

    #[test]
    fn who_takes_more_than_his_part_is_the_reason() {
        let found = found([1.0, 1.0], [time(10, "web", 0.9, 3.0), time(7, "miner", 9.0, 16.0)]);
        assert_eq!((found.len(), found[0].code.as_str()), (1, "cpu.saturated"));
    }
}
