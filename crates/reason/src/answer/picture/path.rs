//! The lanes of a command: the steps of its path over time, a lane a step.
//!
//! At each moment the command waits for somebody, who waits for somebody else, and so on: step 0 is the command's first process,
//! step 1 whoever that waits for, and the last step is where it ends. Processes come and go, steps stay, so a lane is a step and
//! each of its pieces names who is there. Must not: cut the path again (graph/ends.rs has it).

use super::band::{Lane, Lanes, Line, least_ns, piece, state_of, wait_of, waker};
use super::bounds::{HOPS, clipped};
use super::gather::Gathered;
use super::pieces::{Raw, Thinner, Words};
use super::words::{doing, relation, waiting};
use crate::answer::verdict::Origin;
use crate::facts::{Ns, ThreadRef};
use crate::graph::chains::{ChainLink, Leaf};
use crate::measure::Measures;
use crate::model::{Model, ThreadKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A piece of a step: the link, and the one above it that waits for it.
type About = (Arc<ChainLink>, Option<Arc<ChainLink>>);

/// The steps of a path, a lane each; every end has those down to its own depth.
pub(super) fn lanes(
    measures: &Measures<'_>,
    gathered: &Gathered,
    origins: &[Vec<Origin>],
    labels: &mut Words,
) -> Lanes {
    let path = &measures.graph.path;
    let steps = path.iter().map(|leaf| leaf.links.len()).max().unwrap_or(0).min(HOPS);
    let least_ns = least_ns(gathered, steps);
    let mut lines = Vec::new();
    let mut threads: Vec<(usize, ThreadRef)> = Vec::new();
    for step in 0..steps {
        let pieces = pieces(path, step, least_ns);
        let people = People::of(measures.model, &pieces);
        threads.extend(people.main.clone().map(|(who, _)| (step, who)));
        lines.push(line(measures, gathered, &pieces, &people, step, labels));
    }
    let bands = origins.iter().map(|of_end| {
        let depth = depth(measures, gathered, of_end).min(steps);
        (0..depth).map(|step| lane(step, depth)).collect()
    });
    Lanes { bands: bands.collect(), lines, ends_left_out: 0, threads }
}

fn lane(step: usize, depth: usize) -> Lane {
    let role = match step {
        0 => "victim",
        _ if step + 1 == depth => "root",
        _ => "hop",
    };
    Lane { line: step, role, relation: None, while_above: None }
}

/// How many steps the path has where it is an end's: the depth at which most of it is.
fn depth(measures: &Measures<'_>, gathered: &Gathered, of_end: &[Origin]) -> usize {
    let mut seconds: BTreeMap<usize, f64> = BTreeMap::new();
    for origin in of_end {
        let end = &measures.graph.ends[origin.end];
        let losses = gathered.of(end.kind, end.class, &end.object);
        for loss in losses.into_iter().flat_map(|losses| losses.values()) {
            for (depth, more) in &loss.depths {
                *seconds.entry(*depth).or_default() += more;
            }
        }
    }
    seconds.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(depth, _)| *depth)
}

/// The pieces of one step: while one link of the path stays, it is one piece.
fn pieces(path: &[Leaf], step: usize, least_ns: Ns) -> Vec<(Raw<About>, u32)> {
    let mut thinner = Thinner::new(least_ns);
    let mut open: Option<Raw<About>> = None;
    for leaf in path {
        let link = leaf.links.get(step);
        let goes_on = link.is_some_and(|link| {
            open.as_ref().is_some_and(|open| {
                Arc::ptr_eq(&open.about.0, link) && open.end_ns == leaf.begin_ns
            })
        });
        if goes_on {
            if let Some(open) = &mut open {
                open.end_ns = leaf.end_ns;
            }
            continue;
        }
        open.take().into_iter().for_each(|piece| thinner.push(piece));
        open = link.map(|link| Raw {
            begin_ns: leaf.begin_ns,
            end_ns: leaf.end_ns,
            state: state_of(link.class),
            about: (link.clone(), step.checked_sub(1).map(|above| leaf.links[above].clone())),
        });
    }
    open.take().into_iter().for_each(|piece| thinner.push(piece));
    thinner.finish()
}

/// Who is on a step.
struct People {
    /// The thread that is there longest, and whether that is most of the time.
    main: Option<(ThreadRef, bool)>,
    /// That thread by its name.
    called: String,
    /// Programs, those that are there longest first.
    programs: Vec<String>,
    processes: usize,
}

impl People {
    fn of(model: &Model, pieces: &[(Raw<About>, u32)]) -> Self {
        let mut programs: BTreeMap<String, Ns> = BTreeMap::new();
        let mut threads: BTreeMap<u32, (Ns, &ThreadRef)> = BTreeMap::new();
        let mut processes = BTreeSet::new();
        let mut whole_ns = 0;
        for (raw, _) in pieces {
            let (who, ns) = (&raw.about.0.who, raw.end_ns - raw.begin_ns);
            let known = model.threads.present(who);
            let program = model.threads.program_of(&known).unwrap_or(&known.comm).to_string();
            *programs.entry(program).or_default() += ns;
            threads.entry(who.tid).or_insert((0, who)).0 += ns;
            processes.insert(who.pid);
            whole_ns += ns;
        }
        let mut programs: Vec<(String, Ns)> = programs.into_iter().collect();
        programs.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let main = threads.values().max_by_key(|(ns, _)| *ns);
        Self {
            called: main.map_or_else(String::new, |(_, who)| {
                model.threads.who(&model.threads.present(who))
            }),
            main: main.map(|(ns, who)| (model.threads.present(who), *ns * 2 > whole_ns)),
            programs: programs.into_iter().map(|(name, _)| name).collect(),
            processes: processes.len(),
        }
    }

    /// Whoever is there most of the time; else the programs that are.
    fn label(&self) -> String {
        match &self.main {
            Some((_, true)) => self.called.clone(),
            _ => {
                let more = if self.programs.len() > 2 { ", .." } else { "" };
                let names: Vec<&str> = self.programs.iter().take(2).map(String::as_str).collect();
                format!("{}{more}", names.join(", "))
            }
        }
    }

    /// Whether a piece needs no name, since the line has it.
    fn is_main(&self, who: &ThreadRef) -> bool {
        matches!(&self.main, Some((main, true)) if main.tid == who.tid && main.pid == who.pid)
    }
}

fn line(
    measures: &Measures<'_>,
    gathered: &Gathered,
    pieces: &[(Raw<About>, u32)],
    people: &People,
    step: usize,
    labels: &mut Words,
) -> Line {
    let model = measures.model;
    let drawn = pieces.iter().map(|(raw, count)| {
        let (link, above) = &raw.about;
        let waker =
            match wait_of(measures, link).filter(|wait| *count == 1 && wait.end_ns == raw.end_ns) {
                Some(wait) => {
                    let next = |by: &ThreadKey| below(model, measures, raw, step, *by);
                    waker(model, wait, next, labels)
                }
                None => -1,
            };
        let does = match wait_of(measures, link) {
            Some(wait) if wait.class == link.class => waiting(model, wait),
            _ => doing(model, link.class, &link.object),
        };
        let label = labels.index(does, link.class.word());
        let mut piece = piece(gathered, raw, label, *count, waker);
        if !people.is_main(&link.who) {
            piece.6 = labels
                .index(model.threads.who(&model.threads.present(&link.who)), &link.who.comm)
                as i32;
        }
        let why = above.as_ref().and_then(|above| relation(model, above.class, &above.object));
        if let Some(why) = why {
            piece.7 = labels.index(why, "is waited for") as i32;
        }
        piece
    });
    let pieces = drawn.collect();
    let who = clipped(&people.label());
    Line { who, processes: people.processes, pieces, between: None, is_step: true }
}

/// The step below, if who is there at the end of a piece is the one that woke.
fn below(
    model: &Model,
    measures: &Measures<'_>,
    raw: &Raw<About>,
    step: usize,
    by: ThreadKey,
) -> Option<usize> {
    let path = &measures.graph.path;
    let at = path.partition_point(|leaf| leaf.end_ns < raw.end_ns);
    let link = path.get(at)?.links.get(step + 1)?;
    (model.threads.key(&link.who) == by && step + 1 < HOPS).then_some(step + 1)
}
