//! The lanes of the threads of chains: what each thread of a chain did over time, and who woke it.
//!
//! Of a process, container or host an end's lanes are the threads of its longest chain, each over the whole look. Of a command
//! they are the steps of its path instead (path.rs), since its processes come and go. A thread that is in several chains stands
//! once. Must not: follow anybody (graph/chains.rs did).

use super::band::{Lane, Lanes, Line, least_ns, piece, state_of, wait_of, waker};
use super::bounds::{ENDS_WITH_LANES, LINES, clipped};
use super::gather::{Gathered, Loss};
use super::over_time::losses;
use super::pieces::{Raw, State, Thinner, Words};
use super::words::{doing, relation, waiting};
use crate::answer::report::Report;
use crate::answer::verdict::Origin;
use crate::facts::{Ns, ThreadRef};
use crate::graph::chains::ChainLink;
use crate::graph::end::{End, EndKind};
use crate::graph::unseen::unseen_parts;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::{Model, ThreadKey};
use crate::waits::WaitClass;
use crate::waits::timeline::{Doing, WaitSpan};
use std::collections::HashMap;

/// From this share on what was not seen one by one is drawn as running: the scheduler's sums say that it was.
const RUNS_MIN: f64 = 0.9;

/// What a piece of a thread's line is about.
#[derive(Clone, Copy)]
enum About<'a> {
    Runs,
    RunsUnseen,
    Waits(&'a WaitSpan),
    Unseen,
}

/// Ends in the order in which they get lanes: what the title is about, what a rule named, the greatest.
fn wanted(report: &Report) -> Vec<usize> {
    let ends = &report.answer.ends;
    let mut order: Vec<usize> = (0..ends.len()).filter(|at| !ends[*at].chain.is_empty()).collect();
    order.sort_by_key(|at| (report.answer.first != Some(*at), ends[*at].finding.is_none(), *at));
    order
}

/// The lanes of the ends that matter most.
pub(super) fn lanes(
    measures: &Measures<'_>,
    gathered: &Gathered,
    report: &Report,
    origins: &[Vec<Origin>],
    labels: &mut Words,
) -> Lanes {
    let model = measures.model;
    let mut lanes = Lanes { bands: vec![Vec::new(); origins.len()], ..Lanes::default() };
    let mut index: HashMap<ThreadKey, usize> = HashMap::new();
    let mut threads: Vec<ThreadRef> = Vec::new();
    for (rank, at) in wanted(report).into_iter().enumerate() {
        let Some(end) = origins[at].first().map(|origin| &measures.graph.ends[origin.end]) else {
            continue;
        };
        let chain = match end.kind {
            EndKind::Cpu => {
                let user = report.answer.ends[at].who.as_ref().and_then(|who| who.pid);
                // Out of quota it may not run, whoever does.
                let instead = user.filter(|_| end.class != WaitClass::CpuQuota);
                waiter_and_user(measures, gathered, &origins[at], instead)
            }
            _ => chain(measures, end, labels),
        };
        let new =
            chain.iter().filter(|(who, _)| !index.contains_key(&model.threads.key(who))).count();
        if rank >= ENDS_WITH_LANES || threads.len() + new > LINES {
            lanes.ends_left_out += 1;
            continue;
        }
        for (who, mut lane) in chain {
            lane.line = *index.entry(model.threads.key(&who)).or_insert_with(|| {
                threads.push(who.clone());
                threads.len() - 1
            });
            lanes.bands[at].push(lane);
        }
    }
    let least_ns = least_ns(gathered, threads.len());
    for who in &threads {
        lanes.lines.push(line(measures, gathered, who, least_ns, &index, labels));
    }
    lanes.threads = threads.into_iter().enumerate().collect();
    lanes
}

/// For a CPU nobody is waited for: the one who lost most, and who had the CPUs instead, by its busiest thread.
fn waiter_and_user(
    measures: &Measures<'_>,
    gathered: &Gathered,
    of_end: &[Origin],
    instead: Option<u32>,
) -> Vec<(ThreadRef, Lane)> {
    let threads = losses(measures, gathered, of_end).filter_map(Loss::main_thread);
    let most = threads.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(who, _)| who.clone());
    let lane = |role, relation| Lane { line: 0, role, relation, while_above: None };
    let mut all: Vec<(ThreadRef, Lane)> =
        most.into_iter().map(|who| (who, lane("victim", None))).collect();
    let threads =
        measures.model.threads.times.iter().filter(|time| Some(time.thread.pid) == instead);
    let user = threads.max_by_key(|time| time.run_ns).map(|time| time.thread.clone());
    let relation = Some("had the CPU instead".to_string());
    all.extend(user.map(|who| (who, lane("instead", relation))));
    all
}

/// The threads of an end's chain, each once, with what the one before has to do with it.
fn chain(measures: &Measures<'_>, end: &End, labels: &mut Words) -> Vec<(ThreadRef, Lane)> {
    let model = measures.model;
    let mut all: Vec<(ThreadRef, Lane)> = Vec::new();
    let mut above: Option<&ChainLink> = None;
    for (at, link) in end.links.iter().enumerate() {
        let known = all.iter().any(|(who, _)| model.threads.is_same(who, &link.who));
        if !known {
            let role = match at {
                0 => "victim",
                _ if at == end.named + 1 => "holder",
                _ if at + 1 == end.links.len() => "root",
                _ => "hop",
            };
            let relation = above.and_then(|above| relation(model, above.class, &above.object));
            let while_above = above.map(|above| {
                let words = match wait_of(measures, above) {
                    Some(wait) if wait.class == above.class => waiting(model, wait),
                    _ => doing(model, above.class, &above.object),
                };
                labels.index(words, above.class.word())
            });
            all.push((link.who.clone(), Lane { line: 0, role, relation, while_above }));
        }
        above = Some(link);
    }
    all
}

/// When a thread was there, as far as its begin and its end were seen.
fn life(model: &Model, gathered: &Gathered, who: ThreadKey) -> (Ns, Ns) {
    let born =
        model.threads.forks.iter().find(|(at, fork)| model.threads.key_at(&fork.child, *at) == who);
    let died = model
        .threads
        .exits
        .iter()
        .rev()
        .find(|(at, exit)| model.threads.key_at(&exit.thread, *at) == who);
    let from = born.map_or(gathered.begin_ns, |(at, _)| *at).max(gathered.begin_ns);
    let to = died.map_or(gathered.end_ns, |(at, _)| *at).min(gathered.end_ns);
    (from, to.max(from))
}

fn line(
    measures: &Measures<'_>,
    gathered: &Gathered,
    who: &ThreadRef,
    least_ns: Ns,
    index: &HashMap<ThreadKey, usize>,
    labels: &mut Words,
) -> Line {
    let model = measures.model;
    let key = model.threads.key(who);
    let (from, to) = life(model, gathered, key);
    let shares = unseen_parts(model, measures.timelines, who).map(|(_, _, share)| share);
    let runs_unseen = shares[0] >= RUNS_MIN;
    let mut thinner = Thinner::new(least_ns);
    let mut unseen = false;
    for piece in measures.timelines.pieces(key, from, to) {
        let (state, about) = match piece.doing {
            Doing::Running => (State::Running, About::Runs),
            Doing::Unseen if runs_unseen => (State::Running, About::RunsUnseen),
            Doing::Unseen => (State::Unseen, About::Unseen),
            Doing::Waiting(wait) => (state_of(wait.class), About::Waits(wait)),
        };
        unseen |= state == State::Unseen;
        thinner.push(Raw { begin_ns: piece.begin_ns, end_ns: piece.end_ns, state, about });
    }
    let pieces = thinner.finish().into_iter().map(|(raw, count)| {
        let (label, plain) = label(model, raw.about);
        let waker = match raw.about {
            About::Waits(wait) if count == 1 && raw.end_ns == wait.end_ns => {
                waker(model, wait, |by| index.get(by).copied(), labels)
            }
            _ => -1,
        };
        piece(gathered, &raw, labels.index(label, plain), count, waker)
    });
    let pieces = pieces.collect();
    let between = unseen.then(|| shares.map(|share| (share * 1e3).round() / 1e3));
    let who = clipped(&model.who(&model.threads.present(who)));
    Line { who, processes: 1, pieces, between, is_step: false }
}

fn label(model: &Model, about: About<'_>) -> (String, &'static str) {
    let of = |class: WaitClass| (doing(model, class, &Object::Nothing), class.word());
    match about {
        About::Runs => of(WaitClass::Running),
        About::RunsUnseen => ("runs, by the scheduler's sums".into(), "running"),
        About::Unseen => of(WaitClass::Unseen),
        About::Waits(wait) => (waiting(model, wait), wait.class.word()),
    }
}
