//! process.spin: threads wait for one another by running: they yield and ask again, or spin in their own code.
//!
//! No wait is seen, as nobody sleeps; the CPU time is real, and whoever they wait for shares the CPUs with them. The system
//! call of the samples and the kernel stacks are two facts for sched_yield; for spinning without the kernel there is the name
//! of the function, of those that are known to do nothing else. Must not: say whom they wait for (nothing shows it), or take a
//! function for spinning because it is hot, or blame who spins while nobody else wants the CPU: with a CPU for each thread that is the quickest
//! way to wait. Rejected: the rate of involuntary switches, which every busy host has.

use crate::facts::{ThreadRef, Work};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_profile::Spent;
use crate::measure::cpu_users::BUSY_MIN;
use crate::model::words;
use crate::rules::own_time::{COST_MIN, Cost, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use std::cmp::Reverse;
use std::collections::BTreeMap;

static SHARE_MIN: Threshold = Threshold::new(
    0.3,
    "1",
    "of a program's samples, those in yielding or in functions that spin; a lock that is had soon is rightly spun for",
    "chosen: what it does besides is then hardly twice as much",
);
static READY_MIN: Threshold = Threshold::new(
    0.25,
    "1",
    "threads that are ready and have none of these CPUs, on average; with fewer, whoever spins takes them from nobody",
    "chosen: what a small service that is always late by a CPU has; four threads that meet on two CPUs have two",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.spin",
    title: "Threads wait for one another by running",
    theory: "A thread that calls sched_yield() until something is done stays ready to run. With a CPU for each thread \
             that is the quickest way to wait; with more threads than CPUs those that wait take the CPUs from the one \
             that they wait for, and the scheduler gives it no more than its fair part. Spinning without a yield is worse: nobody else runs before \
             the slice is over.",
    needs: &[
        "three tenths or more of its CPU samples are in sched_yield, by the call's number and by the kernel's stack, in \
         functions that do nothing but spin, or in a library of OpenMP",
        "the CPUs that it may use are full, and threads wait for one of them, its own or others': else it takes them from nobody",
    ],
    refuted_by: &[
        Refutation::new("it yields, but mostly works", "a_yield_now_and_then_is_healthy"),
        Refutation::new("CPUs are idle", "who_spins_while_cpus_idle_hurts_nobody"),
        Refutation::new(
            "it fills the CPUs alone, with a thread for each, and no thread waits for one",
            "who_spins_with_a_cpu_for_each_thread_hurts_nobody",
        ),
        Refutation::new(
            "the kernel's stacks are not those of a yield",
            "calls_that_are_no_yields_by_their_stacks_do_not_count",
        ),
    ],
    remedies: &[
        "wait with something that sleeps: a mutex, a condition variable, a futex",
        "run no more such threads than there are CPUs (OMP_NUM_THREADS), or OMP_WAIT_POLICY=passive",
    ],
    stories: &[],
    thresholds: &[&SHARE_MIN, &COST_MIN, &BUSY_MIN, &READY_MIN],
    finds: Finds::End(find),
};

const CALL: &str = "sched_yield";
const YIELDS: &[&str] =
    &["do_sched_yield", "__do_sys_sched_yield", "__x64_sys_sched_yield", "__arm64_sys_sched_yield"];
/// Functions that only spin: of the C library, of InnoDB, PostgreSQL, Go and Java's VM.
const SPINS: &[&str] = &[
    "sched_yield",
    "__sched_yield",
    "pthread_spin_lock",
    "__pthread_spin_lock",
    "ut_delay",
    "perform_spin_delay",
    "runtime.procyield",
    "SpinPause",
];
/// Libraries of OpenMP, of which nothing but waiting takes long, and whose functions have no names as they are shipped.
const OPENMP: &[&str] = &["libgomp.so", "libomp.so", "libomp5.so", "libiomp5.so"];

fn is_openmp(file: &str) -> bool {
    OPENMP.iter().any(|library| file.starts_with(library))
}

/// Shares of a program's samples.
struct Spun {
    spent: Spent,
    yielding: f64,
    /// Functions that spin, with their shares, most first.
    functions: Vec<(String, f64)>,
    seconds: f64,
    /// Threads that were ready without a CPU meanwhile, at a time.
    ready: f64,
}

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let pid = worker(measures, end)?;
    let profile = &measures.profile;
    let spent = profile.spent(pid)?;
    let is_yield = |work: &&&Work| work.syscall == CALL;
    let called: u64 = profile.work(pid).iter().filter(is_yield).map(|work| work.count).sum();
    let in_kernel = profile.in_kernel(pid, |function| YIELDS.contains(&function));
    let yields = called.min(in_kernel);
    let functions = spinning(profile.work(pid));
    let spins: u64 = functions.iter().map(|(_, samples)| samples).sum();
    if spent.share(yields + spins) < SHARE_MIN.value {
        return None;
    }
    let seconds = spent.seconds(yields + spins);
    let allowed =
        measures.model.threads.identity(&spent.process).map_or(&[][..], |it| &it.cpus_allowed);
    let are_full = measures.cpu.mean_busy(allowed).is_some_and(|busy| busy >= BUSY_MIN.value);
    let ready = ready(measures, &spent.process);
    let cost = Cost::of_one(measures, &spent.process, seconds, end);
    if !are_full
        || ready < READY_MIN.value
        || cost.seconds < COST_MIN.value * measures.wall_seconds()
    {
        return None;
    }
    let by = culprit(measures.model, &spent.process);
    let proof = if spins > yields { Proof::OneWitness } else { Proof::TwoWitnesses };
    let yielding = spent.share(yields);
    let functions = functions.into_iter().map(|(name, samples)| (name, spent.share(samples)));
    let spun = Spun { yielding, functions: functions.collect(), seconds, ready, spent };
    let does = spun.first().to_string();
    let matched = Match::new(by, proof, move |loss| spun.explain(loss.wall_seconds));
    let mut matched = cost.charge(matched, ("spins in", does));
    // Of its CPU time it is much; its threads' waits for a CPU, which come of it, are no reason to say less.
    matched.severity_min = Severity::Warning;
    Some(matched)
}

/// Threads that were ready and had none of the CPUs that a process may use, on average. Whoever looks waits besides.
fn ready(measures: &Measures<'_>, process: &ThreadRef) -> f64 {
    let own = measures.model.look.host.own_pid;
    let all = measures.cpu.among(measures.cpu.allowed(process));
    let others = all.iter().flat_map(|one| one.processes.values());
    let ready: f64 = others.filter(|it| it.process.pid != own).map(|it| it.ready).sum();
    ready / measures.cpu.counted_seconds.max(1e-9)
}

/// Samples of each function that only spins, and of each such library, most first.
fn spinning(work: &[&Work]) -> Vec<(String, u64)> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for work in work {
        if is_openmp(&work.code) {
            *all.entry(&work.code).or_default() += work.same_name;
            continue;
        }
        let spin = work.functions.iter().filter(|it| SPINS.contains(&it.name.as_str()));
        for function in spin {
            *all.entry(&function.name).or_default() += function.count;
        }
    }
    let mut all: Vec<_> = all.into_iter().map(|(name, count)| (name.to_string(), count)).collect();
    all.sort_by_key(|(_, count)| Reverse(*count));
    all
}

impl Spun {
    /// What most of it is.
    fn first(&self) -> &str {
        match self.functions.first() {
            Some((name, share)) if *share > self.yielding => name,
            _ => CALL,
        }
    }

    fn share(&self) -> f64 {
        self.yielding + self.functions.iter().map(|(_, share)| share).sum::<f64>()
    }

    fn explain(&self, wall: f64) -> Wording {
        let who = words::who(&self.spent.process);
        let evidence =
            |fact: String, share: f64, source: &str| Evidence::new(fact, share, "1", source);
        let mut all = vec![evidence(
            "share of its CPU time in sched_yield".into(),
            self.yielding,
            "cpu-clock samples, number of the call and kernel stacks",
        )];
        all.extend(self.functions.iter().map(|(name, share)| {
            evidence(
                format!("share of its CPU time in {name}"),
                *share,
                "cpu-clock samples, user functions",
            )
        }));
        all.push(Evidence::new(
            "threads that were ready without a CPU, at a time",
            self.ready,
            "1",
            "scheduler sums",
        ));
        Wording {
            title: format!("{who} waits by running: its threads spin in {}", self.first()),
            text: format!(
                "{} of its CPU time goes into asking again and again whether others are done: {} of CPU in {}. Those others \
                 share the CPUs with the threads that ask.",
                words::percent(self.share()),
                words::seconds(self.seconds),
                words::seconds(wall),
            ),
            evidence: all,
            remedy: vec![self.remedy()],
        }
    }

    fn remedy(&self) -> Remedy {
        let is_openmp = is_openmp(self.first());
        let (text, command) = match is_openmp {
            true => ("let its threads sleep while they wait", "export OMP_WAIT_POLICY=passive"),
            false => ("let them wait with a lock that sleeps, or run fewer of them", ""),
        };
        let undo = if is_openmp { "unset OMP_WAIT_POLICY" } else { "" };
        Remedy {
            text: text.into(),
            command: command.into(),
            undo: undo.into(),
            ..Remedy::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::measure::cpu_profile_tests::*;

    /// What is found while two CPUs are in use for this share of the look.
    fn while_busy(busy: f64, facts: Vec<Fact>) -> Vec<Finding> {
        while_ready(busy, 1.0, facts)
    }

    /// The same while so many threads of another process wait for a CPU at a time.
    fn while_ready(busy: f64, ready: f64, mut facts: Vec<Fact>) -> Vec<Finding> {
        let runnable_ns = (ready * LOOK_NS as f64) as u64;
        let thread = ThreadRef { tid: 77, pid: 77, start_ns: 1, comm: "other".into() };
        let time = ThreadTime { thread, until_ns: LOOK_NS, runnable_ns, ..ThreadTime::default() };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) });
        for (cpu, part) in [(0, 0.0), (1, 0.0), (0, 1.0), (1, 1.0)] {
            let ns = |share: f64| (part * share * LOOK_NS as f64) as u64;
            let (user_ns, idle_ns) = (ns(busy), ns(1.0 - busy));
            let sample = CpuSample { cpu, user_ns, idle_ns, ..CpuSample::default() };
            facts.push(Fact { at_ns: ns(1.0), body: Body::CpuSample(sample) });
        }
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "process.spin");
        found
    }

    fn found(facts: Vec<Fact>) -> Vec<Finding> {
        while_busy(1.0, facts)
    }

    fn yields(function: &str, samples: u64) -> Vec<Fact> {
        let mut facts = sampled(&[(&["schedule", function], samples), (&[], 800 - samples)]);
        facts.push(in_call("sched_yield", "", samples, 0));
        facts
    }

    #[test]
    fn a_program_that_yields_until_others_are_done_is_named() {
        let found = found(yields("do_sched_yield", 400));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].title, "app 10 waits by running: its threads spin in sched_yield");
        assert!(found[0].text.starts_with("50 % of its CPU time"), "{}", found[0].text);
    }

    #[test]
    fn functions_that_only_spin_count_by_their_names() {
        let mut facts = sampled(&[(&[], 800)]);
        let mut code = in_code("mariadbd", 700);
        if let Body::Work(work) = &mut code.body {
            let named =
                |name: &str, count| Function { name: name.into(), count, ..Function::default() };
            work.functions = vec![named("ut_delay", 480), named("row_search_mvcc", 100)];
        }
        facts.push(code);
        let found = found(facts);
        assert_eq!(found[0].title, "app 10 waits by running: its threads spin in ut_delay");
    }

    #[test]
    fn of_an_openmp_library_all_is_waiting() {
        let mut facts = sampled(&[(&[], 800)]);
        facts.push(in_code("libgomp.so.1.0.0", 400));
        let found = found(facts);
        assert_eq!(found[0].remedy[0].command, "export OMP_WAIT_POLICY=passive");
    }

    #[test]
    fn who_spins_while_cpus_idle_hurts_nobody() {
        assert_eq!(while_busy(0.7, yields("do_sched_yield", 400)), []);
    }

    #[test]
    fn who_spins_with_a_cpu_for_each_thread_hurts_nobody() {
        let of = |ready| while_ready(1.0, ready, yields("do_sched_yield", 400)).len();
        assert_eq!((of(0.0), of(0.1), of(0.5)), (0, 0, 1));
    }

    #[test]
    fn a_yield_now_and_then_is_healthy() {
        assert_eq!(found(yields("do_sched_yield", 160)), []);
    }

    #[test]
    fn calls_that_are_no_yields_by_their_stacks_do_not_count() {
        assert_eq!(found(yields("do_something_else", 400)), []);
    }

    #[test]
    fn a_name_alone_is_a_weaker_proof_than_a_yield() {
        let by_name = || {
            let mut facts = sampled(&[(&[], 800)]);
            facts.push(in_code("libgomp.so.1.0.0", 400));
            found(facts)[0].confidence
        };
        assert!(by_name() < found(yields("do_sched_yield", 400))[0].confidence);
    }

    #[test]
    fn little_of_it_hurts_nobody_however_much_of_the_program_it_is() {
        let busy = |samples: u64| {
            let mut facts = sampled(&[(&["schedule", "do_sched_yield"], samples)]);
            facts.push(in_call("sched_yield", "", samples, 0));
            found(facts).len()
        };
        // A sample is 5 ms of a look of 5 s.
        assert_eq!((busy(49), busy(50)), (0, 1));
    }
}
