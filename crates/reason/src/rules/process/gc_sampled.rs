//! process.gc of V8 and Go: their collectors run on threads of the program's own names, and are known by their functions.
//!
//! The part of the process's on-CPU samples whose innermost function belongs to a collector. It is of CPU time, on whichever
//! thread: what stops the program and what runs beside it is not told apart. Must not: be believed for a file without names.
//!
//! Edit together: programs/ (the functions, and what helps).

use crate::facts::Function;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_profile::Spent;
use crate::model::object::Object;
use crate::model::words;
use crate::programs::{self, Collector};
use crate::rules::engine::Loss;
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Match, culprit};
use crate::threshold::Threshold;

/// Part of the samples.
pub(super) static COLLECTOR_MIN: Threshold = Threshold::new(
    0.2,
    "1",
    "of the on-CPU samples of a process, those in functions of V8's collector",
    "reference machine, node 20 with a map of 300,000 objects that does nothing but replace them: 0.29 in a heap of 96 MB, 0.15 \
     with room (node --trace-gc says 0.29 and 0.15 of the main thread's time)",
);
/// The same for Go.
pub(super) static COLLECTOR_MIN_OF_GO: Threshold = Threshold::new(
    0.35,
    "1",
    "of the on-CPU samples of a process, those in functions of Go's collector",
    "chosen: while it runs it takes a quarter of the CPUs by design (GOGC=100), and programs that allocate have it run mostly",
);
/// Their number.
pub(super) static COLLECTOR_SAMPLES_MIN: Threshold = Threshold::new(
    20.0,
    "1",
    "samples in functions of the collector",
    "chosen: of fewer the share is a guess",
);

fn has(collector: &Collector, function: &Function) -> bool {
    collector.functions.iter().any(|begin| function.name.starts_with(begin))
}

fn share_min(collector: &Collector) -> f64 {
    match collector.has_its_part {
        true => COLLECTOR_MIN_OF_GO.value,
        false => COLLECTOR_MIN.value,
    }
}

/// What was sampled of a collector.
struct Sampled<'m> {
    of: &'static Collector,
    spent: Spent,
    samples: u64,
    /// Its function with most samples.
    most: &'m Function,
}

impl<'m> Sampled<'m> {
    fn of(measures: &'m Measures<'m>, pid: u32) -> Option<Self> {
        let spent = measures.profile.spent(pid)?;
        let functions = || measures.profile.work(pid).iter().flat_map(|work| &work.functions);
        let of = |collector: &'static Collector| {
            let its = || functions().filter(|function| has(collector, function));
            let samples = its().map(|function| function.count).sum();
            let most = its().max_by_key(|function| function.count)?;
            Some(Self { of: collector, spent: spent.clone(), samples, most })
        };
        programs::collectors().filter_map(of).max_by_key(|sampled| sampled.samples)
    }

    fn share(&self) -> f64 {
        self.spent.share(self.samples)
    }
}

/// The collector's part in the work of an end.
pub(super) fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let sampled = Sampled::of(measures, worker(measures, end)?)?;
    if sampled.share() < share_min(sampled.of)
        || (sampled.samples as f64) < COLLECTOR_SAMPLES_MIN.value
    {
        return None;
    }
    let process = &sampled.spent.process;
    let seconds = sampled.spent.seconds(sampled.samples);
    let cost = Cost::of_one(measures, process, seconds, end);
    if !cost.counts(measures, &PART_MIN) || cost.seconds < COST_MIN.value {
        return None;
    }
    let (by, on) = (culprit(measures.model, process), Object::Process(process.pid));
    let does = ("garbage", "collection".to_string());
    let matched = Match::new(by, Proof::OneWitness, move |loss| explain(&sampled, loss));
    Some(cost.charge(matched.on(on), does))
}

fn explain(sampled: &Sampled<'_>, loss: &Loss<'_>) -> Wording {
    let (spent, source) = (&sampled.spent, "samples of the CPU clock");
    let share = words::percent(sampled.share());
    Wording {
        title: format!(
            "{} collects garbage for {share} of its CPU time",
            words::who(&spent.process)
        ),
        text: format!(
            "{} pass in functions of the collector of {}, which runs on the program's own threads: most of that in {}. \
             A heap that is nearly full is collected again and again, and each time little is freed.",
            words::of_window(loss.seconds, loss.wall_seconds),
            sampled.of.name,
            sampled.most.name,
        ),
        evidence: vec![
            Evidence::new("samples of the process", spent.samples as f64, "1", source),
            Evidence::new(
                "of those, in functions of its collector",
                sampled.samples as f64,
                "1",
                source,
            ),
        ],
        remedy: vec![Remedy { text: sampled.of.advice.into(), ..Remedy::default() }],
    }
}
