//! process.gc of CPython: its collector runs on the program's own thread, and says in its state that it does.
//!
//! The state is read with the interpreter's lock, ten times a second; its part of the readings in which somebody has the lock is
//! the part of the program's time. Must not: be asked for a Java machine (gc.rs), or take a few readings for a share.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::cpu_profile::Spent;
use crate::measure::interpreters::Interpreted;
use crate::model::object::Object;
use crate::model::words;
use crate::programs::{self, Doors, stacks_with_warning};
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::own_time::{COST_MIN, Cost, PART_MIN, worker};
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Match, culprit};
use crate::threshold::Threshold;

/// Part of the readings.
pub(super) static COLLECTS_MIN: Threshold = Threshold::new(
    0.25,
    "1",
    "of the readings in which somebody had the interpreter's lock, those in which it collected garbage",
    "chosen: a quarter of the program's time; a program that makes a million objects and keeps them was seen at 0.3 to 0.5",
);
/// Their number.
pub(super) static COLLECTS_READINGS_MIN: Threshold = Threshold::new(
    5.0,
    "1",
    "readings that met the interpreter while it collected",
    "chosen: of fewer the share may be off by half",
);

/// The collector's part in the work of an end.
pub(super) fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let pid = worker(measures, end)?;
    let interpreted = Interpreted::of(measures.model, pid)?;
    let spent = measures.profile.spent(pid)?;
    let cpu_seconds = spent.seconds(spent.samples);
    let (collecting, held) = (interpreted.collecting() as f64, interpreted.held() as f64);
    let share = collecting / held;
    if share < COLLECTS_MIN.value
        || collecting < COLLECTS_READINGS_MIN.value
        || !interpreted.stands_for(cpu_seconds / measures.wall_seconds().max(1e-9))
    {
        return None;
    }
    let cost = Cost::of_one(measures, &spent.process, cpu_seconds * share, end);
    if !cost.counts(measures, &PART_MIN) || cost.seconds < COST_MIN.value {
        return None;
    }
    let by = culprit(measures.model, &spent.process);
    let does = ("garbage", "collection".to_string());
    let explain = move |loss: &Loss<'_>| explain(&spent, &interpreted, share, loss);
    let matched = Match::new(by, Proof::Read, explain);
    Some(cost.charge(matched.on(Object::Process(pid)), does))
}

fn explain(spent: &Spent, interpreted: &Interpreted<'_>, share: f64, loss: &Loss<'_>) -> Wording {
    let (who, pid) = (words::who(&spent.process), spent.process.pid);
    let program = programs::of_interpreter(interpreted.interpreter());
    let question =
        program.map_or_else(|| stacks_with_warning(pid), |it| it.question(&Doors::default(), pid));
    let place = interpreted.place_collecting();
    let place =
        place.map_or_else(String::new, |(place, _)| format!(", mostly in {}", place.words()));
    let source = "process_vm_readv";
    let readings =
        format!("readings of the lock of {} that met somebody", interpreted.interpreter());
    Wording {
        title: format!("{who} collects garbage for {} of its time", words::percent(share)),
        text: format!(
            "{} pass in the collector of {}, which runs on the program's own thread: it was met in {} of {} \
             readings{place}. It comes with every so many objects that are made and stay, and looks at all that live, \
             however few are garbage.",
            words::of_window(loss.seconds, loss.wall_seconds),
            interpreted.interpreter(),
            interpreted.collecting(),
            interpreted.held(),
        ),
        evidence: vec![
            Evidence::new(readings, interpreted.held() as f64, "1", source),
            Evidence::new(
                "of those, while it collected garbage",
                interpreted.collecting() as f64,
                "1",
                source,
            ),
            Evidence::new(
                "CPU time of the process",
                spent.seconds(spent.samples),
                "s",
                "samples of the CPU clock",
            ),
        ],
        remedy: vec![Remedy {
            text: "collect more seldom (gc.set_threshold(100_000, 50, 1000)), not while much is built (gc.disable), and not \
                   what stays for good (gc.freeze after the start)"
                .into(),
            ..Remedy::default()
        }
        .ask(Question::Program, &spent.process, question)],
    }
}
