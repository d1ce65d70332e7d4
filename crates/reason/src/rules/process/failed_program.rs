//! process.retry where no call is known to be refused: a program that fails is run again and again.
//!
//! What it asked for only the program knows; its status and its own words say it. Must not: guess that from its name.

use crate::facts::{Exit, Ns};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::Match;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use std::sync::Arc;

/// How a program ended.
struct Runs {
    failures: usize,
    first_ns: Ns,
    last_ns: Ns,
    /// As wait(2) has it.
    last_code: u32,
}

impl Runs {
    fn of(measures: &Measures<'_>, program: &Arc<str>) -> Option<Self> {
        let is_it =
            |exit: &Exit| exit.thread.tid == exit.thread.pid && exit.thread.comm == **program;
        let fails = |(at_ns, exit): &(Ns, Exit)| {
            let code = exit.code.filter(|code| *code != 0 && is_it(exit))?;
            Some((*at_ns, code))
        };
        let failures: Vec<(Ns, u32)> =
            measures.model.threads.exits.iter().filter_map(fails).collect();
        let (first_ns, _) = *failures.first()?;
        let (last_ns, last_code) = *failures.last()?;
        Some(Self { failures: failures.len(), first_ns, last_ns, last_code })
    }

    /// `status 2`, `signal 11`.
    fn end(&self) -> String {
        match self.last_code & 0x7f {
            0 => format!("status {}", self.last_code / 256),
            signal => format!("signal {signal}"),
        }
    }
}

/// Of an end that is the sleeps between the runs.
pub(super) fn matched<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let Object::Processes(program) = &end.object else { return None };
    if end.seconds < refusal_words::SLEPT_MIN.value * measures.wall_seconds() {
        return None;
    }
    let runs = Runs::of(measures, program)?;
    let by = Culprit { name: program.to_string(), ..Culprit::default() };
    Some(Match::new(by, Proof::Inferred, move |loss| {
        explain(measures, (end, &runs), program, loss)
    }))
}

fn explain(
    measures: &Measures<'_>,
    (end, runs): (&End, &Runs),
    program: &str,
    loss: &Loss<'_>,
) -> Wording {
    let (victim, ended) = (&loss.victim, runs.end());
    // Who runs it may be a process that the victim waits for.
    let other = end.who.as_ref().filter(|who| who.pid != end.first_victim().pid);
    let other = other.map(|who| measures.model.threads.who(who));
    let runs_it = match &other {
        Some(other) => format!("{victim} waits for {other}, which runs {program}"),
        None => format!("{victim} runs {program}"),
    };
    let by = other.as_ref().unwrap_or(victim);
    let between = runs.last_ns.saturating_sub(runs.first_ns) as f64 / 1e9;
    Wording {
        title: format!(
            "{runs_it} again and again, which fails with {ended}, and sleeps in between"
        ),
        text: format!(
            "{} pass in sleeps between {} of {program}, all of which failed. What it was refused is in its own words, if they \
             are kept.",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(runs.failures, "run", "runs"),
        ),
        evidence: vec![
            Evidence::new(
                format!("runs of {program} that failed"),
                runs.failures as f64,
                "1",
                "sched_process_exit",
            ),
            Evidence::new("from the first to the last", between, "s", "sched_process_exit"),
            Evidence::new("time slept between them", loss.seconds, "s", "sched_switch"),
        ],
        remedy: vec![Remedy {
            text: format!("run {program} once by hand, as {by} does, and read what it says"),
            ..Remedy::default()
        }],
    }
}
