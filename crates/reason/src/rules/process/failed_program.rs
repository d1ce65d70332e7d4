//! process.retry where no call is known to be refused: a program that fails is run again and again.
//!
//! What it asked for only the program knows; its status and its own words say it. One that was run for its answer (grep, pgrep, test) and
//! ended with its no has not failed: where it asks for the state of its own host that is a note, and how long the asking goes on is up to whoever
//! asks. Where it asks another host, which is down or silent, or is on a command's path, its no is what all the time is lost to.
//! Must not: guess what it asked for from its name.

use crate::facts::{Exit, Fork, Ns, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::programs;
use crate::rules::Match;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use std::collections::HashMap;
use std::sync::Arc;

/// How a program ended.
struct Runs {
    failures: usize,
    first_ns: Ns,
    last_ns: Ns,
    /// How most of them ended, as wait(2) has it: whatever ends the caller ends the last of them as well.
    code: u32,
    /// Who began the last of them, as far as that was seen.
    by: Option<ThreadRef>,
    /// Each said no to a question, and did not fail.
    are_answers: bool,
}

impl Runs {
    fn of(measures: &Measures<'_>, end: &End, program: &Arc<str>) -> Option<Self> {
        let is_it =
            |exit: &Exit| exit.thread.tid == exit.thread.pid && exit.thread.comm == **program;
        let threads = &measures.model.threads;
        let fails = |(at_ns, exit): &(Ns, Exit)| {
            let code = exit.code.filter(|code| *code != 0 && is_it(exit))?;
            Some((*at_ns, code, exit.thread.pid))
        };
        let failures: Vec<(Ns, u32, u32)> = threads.exits.iter().filter_map(fails).collect();
        let (first_ns, ..) = *failures.first()?;
        let (last_ns, ..) = *failures.last()?;
        let code = usual(&failures)?;
        // Somebody else may run the same program.
        let is_here = |fork: &Fork| end.links.iter().any(|link| link.who.pid == fork.parent.pid);
        let is_begin = |(at_ns, fork): &&(Ns, Fork)| {
            let is_one = failures.iter().any(|(_, _, pid)| *pid == fork.child.pid);
            is_one && *at_ns <= last_ns && fork.child.pid != fork.parent.pid && is_here(fork)
        };
        let by = threads.forks.iter().rfind(is_begin).map(|(_, fork)| fork.parent.clone());
        let is_no = |code: u32| code & 0x7f == 0 && programs::says_no(program, code / 256);
        let are_answers = failures.iter().all(|(_, code, _)| is_no(*code));
        Some(Self { failures: failures.len(), first_ns, last_ns, code, by, are_answers })
    }

    /// `status 2`, `signal 11`.
    fn end(&self) -> String {
        match self.code & 0x7f {
            0 => format!("status {}", self.code / 256),
            signal => format!("signal {signal}"),
        }
    }
}

/// The status that most ended with; of several that as many ended with, the last.
fn usual(failures: &[(Ns, u32, u32)]) -> Option<u32> {
    let mut times: HashMap<u32, usize> = HashMap::new();
    for (_, code, _) in failures {
        *times.entry(*code).or_default() += 1;
    }
    failures.iter().map(|(_, code, _)| *code).max_by_key(|code| times.get(code))
}

/// Of an end that is the sleeps between the runs.
pub(super) fn matched<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let Object::Processes(program) = &end.object else { return None };
    if end.seconds < refusal_words::SLEPT_MIN.value * measures.wall_seconds() {
        return None;
    }
    let runs = Runs::of(measures, end, program)?;
    let by = Culprit { name: program.to_string(), ..Culprit::default() };
    let is_own_matter =
        runs.are_answers && programs::is_of_local_state(program) && !measures.is_command();
    let severity_max = if is_own_matter { Severity::Note } else { Severity::Critical };
    let matched =
        Match::new(by, Proof::Inferred, move |loss| explain(measures, (end, &runs), program, loss));
    Some(Match { severity_max, ..matched })
}

fn explain(
    measures: &Measures<'_>,
    (end, runs): (&End, &Runs),
    program: &str,
    loss: &Loss<'_>,
) -> Wording {
    let (victim, ended) = (&loss.victim, runs.end());
    // Who runs it may be a process that the victim waits for; who sleeps in between may be another child of that one.
    let other = runs.by.as_ref().or(end.who.as_ref());
    let other = other.filter(|who| who.pid != end.first_victim().pid);
    let other = other.map(|who| measures.model.threads.who(who));
    let runs_it = match &other {
        Some(other) => format!("{victim} waits for {other}, which runs {program}"),
        None => format!("{victim} runs {program}"),
    };
    let by = other.as_ref().unwrap_or(victim);
    let slept = words::of_window(loss.seconds, loss.wall_seconds);
    let all = words::count(runs.failures, "run", "runs");
    let (how, text, look) = match runs.are_answers {
        true => (
            format!("whose answer is no ({ended})"),
            format!(
                "{slept} pass in sleeps between {all} of {program}, all of which said no. What it waits for is in what it asks."
            ),
            format!("see what {by} asks {program} for, and who is to bring that about"),
        ),
        false => (
            format!("which fails with {ended}"),
            format!(
                "{slept} pass in sleeps between {all} of {program}, all of which failed. What it was refused is in its own words, if they \
                 are anywhere."
            ),
            format!("run {program} once by hand, as {by} does, and read what it says"),
        ),
    };
    let what = if runs.are_answers { "said no" } else { "failed" };
    let between = runs.last_ns.saturating_sub(runs.first_ns) as f64 / 1e9;
    Wording {
        title: format!("{runs_it} again and again, {how}, and sleeps in between"),
        text,
        evidence: vec![
            Evidence::new(
                format!("runs of {program} that {what}"),
                runs.failures as f64,
                "1",
                "sched_process_exit",
            ),
            Evidence::new("from the first to the last", between, "s", "sched_process_exit"),
            Evidence::new("time slept between them", loss.seconds, "s", "sched_switch"),
        ],
        remedy: vec![Remedy { text: look, ..Remedy::default() }],
    }
}
