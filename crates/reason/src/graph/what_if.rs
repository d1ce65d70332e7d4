//! What a command would save at most without some of its ends: the longest path that the recording has left.
//!
//! Each thread that the command began is a line of pieces: what it did itself, which takes as long as it took, and waits for
//! another line, which end once that one has come as far. A line begins when its parent has come to the fork. Pieces of the end in
//! question take no time; then the command ends when its first process does and all that it began have, as far as these ended by
//! themselves before it. What is saved is the wall time minus that, and never more than the end's own seconds. With no end taken
//! away the longest path is the wall time (the program activity graph of critical path analysis: Yang and Miller, "Critical Path
//! Analysis for the Execution of Parallel and Distributed Programs", ICDCS 1988).
//!
//! It is a bound, and no forecast: what ran beside the end may take longer without it (one CPU, one disk), but what was seen to
//! need time of its own is not assumed to vanish. A wait of another line whose reason was not seen may have been for the end
//! itself, so it never counts as time that the line needs.
//!
//! Must not: order ends, or word anything. Rejected: the end's seconds alone (of two children that run side by side, the longer
//! one's end promises all of its time, and saves the difference).
//!
//! Edit together: chains.rs (how waits are followed), ends.rs (what each piece is led to).

use super::chains::{ChainLink, Chains};
use super::demand::Graph;
use super::end::{End, EndKey, Lost};
use super::ends::{Found, command_end_ns, command_root, named_key};
use super::next::Next;
use super::own_time::{self, Beside, OwnTime};
use super::parallel::child_that_ended;
use super::wakers::task_that_woke;
use super::ways;
use super::ways::way::Waiter;
use crate::facts::{Ns, ThreadRef};
use crate::model::{Model, ThreadKey};
use crate::threshold::Threshold;
use crate::waits::timeline::{Doing, WaitSpan};
use std::cell::Cell;
use std::collections::HashMap;

/// Ends that are asked about, greatest first.
const ENDS_MAX: usize = 8;
/// Smaller parts of the wall are not asked about.
static SHARE_MIN: Threshold = Threshold::new(
    0.01,
    "1",
    "part of the wall time of a command that an end has: of less nobody asks what would be saved",
    "chosen",
);
/// Threads of a process that ends as a whole end so near to each other, in any order.
static ENDED_TOGETHER: Threshold = Threshold::new(
    5.0,
    "ms",
    "between the ends of two threads of a process that ends as a whole: each ends when it gets its turn on a CPU",
    "chosen: microseconds where a CPU is free, and a turn or two where none is",
);
/// A command of more pieces is not asked about: the answer would take longer than it is worth.
const PIECES_MAX: usize = 300_000;
/// More than so many times the path's seconds of an end are spent by several threads at once.
static SIDE_BY_SIDE_MIN: Threshold = Threshold::new(
    1.02,
    "1",
    "what threads spent on an end, for each second of the path: with more, several did so side by side",
    "chosen: a fiftieth is what rounding of pieces leaves open",
);
/// Lines that wait for each other in a circle are left after so many steps.
const DEPTH_MAX: usize = 32;

/// What would be saved at most, and what takes as long then.
#[derive(Debug, Clone, PartialEq)]
pub struct Without {
    /// At most so much of the wall time, seconds.
    pub seconds_max: f64,
    /// Who takes time of his own meanwhile, and how much of the end's time, seconds.
    pub beside: Option<(ThreadRef, f64)>,
    /// The command is known to need that time: not, where he waits for what was not seen, or sleeps and nobody was seen to wait for him.
    pub is_needed: bool,
}

/// An end without which the command is asked about.
struct Gone<'a> {
    numbers: &'a [usize],
    /// Of this line only.
    line: Option<usize>,
}

impl Gone<'_> {
    fn has(&self, number: usize, line: usize) -> bool {
        self.numbers.contains(&number) && self.line.is_none_or(|only| only == line)
    }
}

/// A command's threads, ready to be asked what it would take without some of its ends.
pub struct WhatIf {
    lines: Lines,
    wall_seconds: f64,
    /// The ends that can be asked about, by key: number, and seconds.
    asked: HashMap<EndKey, (usize, f64)>,
    /// When each was on the path.
    spans: Vec<Vec<(Ns, Ns)>>,
    /// Whether most of each was waited for the end of a process that was asked to end (ending.rs).
    is_for_an_end: Vec<bool>,
}

impl WhatIf {
    /// Of a command; none of anything else, or if there is too much of it.
    pub fn of(graph: &Graph<'_>) -> Option<Self> {
        let root = command_root(graph.model)?;
        let wall_seconds = graph.wall_seconds();
        let large = |end: &&End| end.seconds > 0.0 && end.seconds >= SHARE_MIN.value * wall_seconds;
        let ends = graph.ends.iter().filter(large).take(ENDS_MAX);
        let asked: HashMap<EndKey, (usize, f64)> =
            ends.enumerate().map(|(number, end)| (end.key(), (number, end.seconds))).collect();
        let lines = Lines::of(graph, &root, &asked)?;
        let mut unwatched = |_: &Lost<'_>| {};
        let mut found = Found::new(graph.model, graph.timelines, &graph.chains, &mut unwatched);
        let mut spans: Vec<Vec<(Ns, Ns)>> = vec![Vec::new(); asked.len()];
        let mut for_an_end: Vec<(Ns, Ns)> = vec![(0, 0); asked.len()];
        for leaf in &graph.path {
            for (key, _) in found.keys(leaf) {
                if let Some((number, _)) = asked.get(&key) {
                    spans[*number].push((leaf.begin_ns, leaf.end_ns));
                    let (led, all) = &mut for_an_end[*number];
                    *all += leaf.ns();
                    *led += if graph.chains.leads_to_an_end(leaf) { leaf.ns() } else { 0 };
                }
            }
        }
        let is_for_an_end = for_an_end.into_iter().map(|(led, all)| led * 2 > all).collect();
        Some(Self { lines, wall_seconds, asked, spans, is_for_an_end })
    }

    /// Whether an end can be asked about: it is none of the smallest.
    pub fn is_asked(&self, end: &EndKey) -> bool {
        self.asked.contains_key(end)
    }

    /// What would be saved without all of these ends together; none if one of them cannot be asked about.
    pub fn without(&self, ends: &[EndKey]) -> Option<Without> {
        let (numbers, seconds) = self.numbers(ends)?;
        // What is waited for is no line of the command's, nor do the waiter's own waits lead there.
        if numbers.iter().all(|number| self.is_for_an_end[*number]) {
            return Some(Without {
                seconds_max: seconds.min(self.wall_seconds),
                beside: None,
                is_needed: true,
            });
        }
        Some(self.saved(&Gone { numbers: &numbers, line: None }, seconds))
    }

    /// The same without one thread's part, where several threads of one program make an end side by side: then it costs less
    /// than the end has. None if they do not.
    pub fn without_one(&self, end: &EndKey, thread: ThreadKey) -> Option<Without> {
        let (numbers, seconds) = self.numbers(std::slice::from_ref(end))?;
        let line = self.lines.known.get(&thread).copied();
        let took: f64 = self.lines.took_seconds(numbers[0]);
        let line = line.filter(|_| took > SIDE_BY_SIDE_MIN.value * seconds)?;
        Some(self.saved(&Gone { numbers: &numbers, line: Some(line) }, seconds))
    }

    fn numbers(&self, ends: &[EndKey]) -> Option<(Vec<usize>, f64)> {
        let asked = ends.iter().map(|key| self.asked.get(key)).collect::<Option<Vec<_>>>()?;
        let seconds: f64 = asked.iter().map(|(_, seconds)| seconds).sum();
        Some((asked.iter().map(|(number, _)| *number).collect(), seconds))
    }

    fn saved(&self, gone: &Gone<'_>, seconds: f64) -> Without {
        let of_all = gone.numbers.iter().flat_map(|number| self.spans[*number].iter().copied());
        let mut spans: Vec<(Ns, Ns)> = of_all.collect();
        spans.sort_unstable();
        spans.dedup();
        let (needed, beside) = self.lines.longest(gone, &spans);
        let seconds_max = (self.wall_seconds - needed / 1e9).clamp(0.0, seconds.max(0.0));
        let is_needed = beside.as_ref().is_none_or(|beside| beside.is_needed);
        let beside = beside.map(|beside| (beside.who, beside.seconds));
        Without { seconds_max, beside, is_needed }
    }
}

/// What a piece of a line is.
enum What {
    /// It takes its time: parts of it by the number of the end that they belong to; the rest belongs to none that is asked.
    Own { parts: Vec<(usize, f64)>, does: OwnTime },
    /// It waits until another line has come as far; the end that takes the wait away with it.
    After { line: usize, named: Option<usize> },
}

struct Piece {
    begin_ns: Ns,
    end_ns: Ns,
    what: What,
}

/// One thread of the command.
struct Line {
    who: ThreadRef,
    /// The line that began it, and when.
    born: Option<(usize, Ns)>,
    begin_ns: Ns,
    end_ns: Ns,
    /// The command needs it to end.
    needed: bool,
    pieces: Vec<Piece>,
}

/// All threads of the command; the first is the command's own.
struct Lines {
    all: Vec<Line>,
    known: HashMap<ThreadKey, usize>,
    /// Line and piece, by end.
    order: Vec<(u32, u32)>,
}

/// How far each piece has come without an end: of each line the begin of every piece, and the end of the last.
struct Reached<'l> {
    lines: &'l Lines,
    gone: &'l Gone<'l>,
    /// Waits of unknown reason take no time.
    surely: bool,
    at: Vec<Vec<Option<f64>>>,
    /// Of each line the piece that was asked for last.
    last: Vec<Cell<usize>>,
}

impl Lines {
    fn of(
        graph: &Graph<'_>,
        root: &ThreadRef,
        asked: &HashMap<EndKey, (usize, f64)>,
    ) -> Option<Self> {
        let (mut all, known) = family(graph.model, root);
        let mut unwatched = |_: &Lost<'_>| {};
        let mut found = Found::new(graph.model, graph.timelines, &graph.chains, &mut unwatched);
        let mut count = 0;
        for at in 0..all.len() {
            let pieces = pieces(graph, &all, &known, at, &mut found, asked);
            count += pieces.len();
            if count > PIECES_MAX {
                return None;
            }
            all[at].pieces = pieces;
        }
        let mut order: Vec<(u32, u32)> = all
            .iter()
            .enumerate()
            .flat_map(|(line, own)| (0..own.pieces.len()).map(move |at| (line as u32, at as u32)))
            .collect();
        order.sort_by_key(|(line, at)| {
            let piece = &all[*line as usize].pieces[*at as usize];
            (piece.end_ns, piece.begin_ns)
        });
        Some(Self { all, known, order })
    }

    /// How long all threads together spent on an end, on the path or beside it, seconds.
    fn took_seconds(&self, number: usize) -> f64 {
        let of = |piece: &Piece| match &piece.what {
            What::Own { parts, .. } => {
                let ns = (piece.end_ns - piece.begin_ns) as f64;
                let its = parts.iter().filter(|(own, _)| *own == number);
                its.map(|(_, part)| part * ns / 1e9).sum()
            }
            What::After { .. } => 0.0,
        };
        self.all.iter().flat_map(|line| &line.pieces).map(of).sum()
    }

    /// The longest path without an end, nanoseconds, and who is on it for most of the time that the end took.
    fn longest(&self, gone: &Gone<'_>, spans: &[(Ns, Ns)]) -> (f64, Option<Beside>) {
        let reached = Reached::of(self, gone, false);
        let surely = Reached::of(self, gone, true);
        let root = (reached.value(0, self.all[0].end_ns, 0), 0, &reached);
        let others = self.all.iter().enumerate().skip(1).filter(|(_, line)| line.needed);
        let others = others.map(|(at, line)| (surely.value(at, line.end_ns, 0), at, &surely));
        let (needed, line, by) =
            others.fold(root, |most, one| if one.0 > most.0 { one } else { most });
        (needed, by.beside(line, spans))
    }
}

/// The command's threads, each with who began it, and their places by identity.
fn family(model: &Model, root: &ThreadRef) -> (Vec<Line>, HashMap<ThreadKey, usize>) {
    let end_ns = command_end_ns(model);
    let line = |who: &ThreadRef, born: Option<(usize, Ns)>, begin_ns: Ns| Line {
        who: who.clone(),
        born,
        begin_ns,
        end_ns,
        needed: false,
        pieces: Vec::new(),
    };
    let mut all = vec![line(root, None, model.look.begin_ns)];
    let mut known = HashMap::from([(model.threads.key(root), 0)]);
    let mut forks: Vec<_> = model.threads.forks.iter().collect();
    forks.sort_by_key(|(at_ns, _)| *at_ns);
    for (at_ns, fork) in forks {
        let parent = known.get(&model.threads.key_at(&fork.parent, *at_ns)).copied();
        let child = model.threads.key_at(&fork.child, *at_ns);
        if let Some(parent) = parent.filter(|_| *at_ns < end_ns && !known.contains_key(&child)) {
            known.insert(child, all.len());
            all.push(line(&model.threads.present(&fork.child), Some((parent, *at_ns)), *at_ns));
        }
    }
    // By process who ended it as a whole, and when.
    let mut ended: HashMap<u32, (Ns, u32)> = HashMap::new();
    for (at_ns, exit) in model.threads.exits.iter().filter(|(_, exit)| exit.last) {
        let by = (*at_ns, exit.thread.tid);
        let first = ended.entry(exit.thread.pid).or_insert(by);
        *first = by.min(*first);
    }
    for (at_ns, exit) in &model.threads.exits {
        let Some(at) = known.get(&model.threads.key_at(&exit.thread, *at_ns)).copied() else {
            continue;
        };
        if at == 0 || *at_ns > end_ns {
            continue;
        }
        let parent_end_ns = all[at].born.map_or(0, |(parent, _)| all[parent].end_ns);
        // A signal ended it: it may have been told to end because all else was done.
        let by_signal = exit.code.is_some_and(|code| code & 0x7f != 0);
        // A runtime's own threads go on until their process ends, and end with it.
        let ends_with_it = exit.thread.tid != exit.thread.pid
            && ended.get(&exit.thread.pid).is_some_and(|(ended_ns, by)| {
                at_ns.saturating_add(ENDED_TOGETHER.ns()) >= *ended_ns && *by != exit.thread.tid
            });
        all[at].end_ns = (*at_ns).max(all[at].begin_ns);
        all[at].needed = !by_signal && !ends_with_it && parent_end_ns >= *at_ns;
    }
    (all, known)
}

fn pieces(
    graph: &Graph<'_>,
    all: &[Line],
    known: &HashMap<ThreadKey, usize>,
    line: usize,
    found: &mut Found<'_, '_>,
    asked: &HashMap<EndKey, (usize, f64)>,
) -> Vec<Piece> {
    let Line { who, begin_ns, end_ns, .. } = &all[line];
    let mut pieces = Vec::new();
    for piece in graph.timelines.pieces(graph.model.threads.key(who), *begin_ns, *end_ns) {
        let mut from = piece.begin_ns;
        if let Doing::Waiting(wait) = piece.doing
            && let Some(other) = awaited(graph, known, wait, (piece.begin_ns, piece.end_ns), line)
        {
            let until = all[other].end_ns.clamp(piece.begin_ns, piece.end_ns);
            let key = named_key(&link(wait, piece.begin_ns, piece.end_ns));
            let named = asked.get(&key).map(|(number, _)| *number);
            if from < until {
                let what = What::After { line: other, named };
                pieces.push(Piece { begin_ns: from, end_ns: until, what });
                from = until;
            }
        }
        if from < piece.end_ns {
            own(&graph.chains, found, asked, (who, from, piece.end_ns), &mut pieces);
        }
    }
    pieces
}

/// What a thread did for itself, or waited for outside of the command.
fn own(
    chains: &Chains<'_>,
    found: &mut Found<'_, '_>,
    asked: &HashMap<EndKey, (usize, f64)>,
    (who, from, to): (&ThreadRef, Ns, Ns),
    pieces: &mut Vec<Piece>,
) {
    for leaf in chains.follow(who, from, to) {
        let keys = found.keys(&leaf);
        let does = OwnTime::of(&keys, leaf.root().class);
        let numbered = |(key, part): (EndKey, f64)| Some((asked.get(&key)?.0, part));
        let parts = keys.into_iter().filter_map(numbered).collect();
        let (begin_ns, end_ns) = (leaf.begin_ns, leaf.end_ns);
        pieces.push(Piece { begin_ns, end_ns, what: What::Own { parts, does } });
    }
}

/// The line of the command that a wait is for, if it is for one.
fn awaited(
    graph: &Graph<'_>,
    known: &HashMap<ThreadKey, usize>,
    wait: &WaitSpan,
    (from, to): (Ns, Ns),
    line: usize,
) -> Option<usize> {
    if wait.class.is_root() {
        return None;
    }
    let index = &graph.chains.index;
    // It went on when that child ended, whichever of several counts for the path.
    let next = match child_that_ended(index, wait) {
        Some(child) => Next::Thread(child),
        None => ways::responsible(&Waiter { index, wait, within: (from, to), asker: None }, true).0,
    };
    match next {
        Next::Thread(thread)
        | Next::Later(thread, _)
        | Next::Brought(thread, _)
        | Next::Answer(_, thread) => {
            known.get(&graph.model.threads.key(&thread)).copied().filter(|other| *other != line)
        }
        Next::Room(_) | Next::Goroutine(_) | Next::OwnClock | Next::Inside => None,
        // A thread that only rests needs nothing itself, whatever its process has asked meanwhile: it goes on once another has woken it.
        Next::Question(_) | Next::NameServer(_) | Next::Peer(_) | Next::Nobody => {
            task_that_woke(index, wait)
                .and_then(|by| known.get(&graph.model.threads.key(&by)).copied())
                .filter(|other| *other != line)
        }
    }
}

/// A wait as a link that may name an end.
fn link(wait: &WaitSpan, begin_ns: Ns, end_ns: Ns) -> ChainLink {
    let (who, object) = (wait.thread.clone(), wait.object.clone());
    ChainLink {
        since_ns: wait.begin_ns,
        standing: wait.standing,
        ..ChainLink::of(who, wait.class, object, (begin_ns, end_ns))
    }
}

impl<'l> Reached<'l> {
    fn of(lines: &'l Lines, gone: &'l Gone<'l>, surely: bool) -> Self {
        let at = lines.all.iter().map(|line| vec![None; line.pieces.len() + 1]).collect();
        let last = vec![Cell::new(0); lines.all.len()];
        let mut reached = Self { lines, gone, surely, at, last };
        for (line, piece) in &lines.order {
            let (line, piece) = (*line as usize, *piece as usize);
            let end_ns = lines.all[line].pieces[piece].end_ns;
            let begin = reached.begin(line, piece, 0);
            let end = reached.within(line, piece, end_ns, begin, 0);
            reached.at[line][piece] = Some(begin);
            reached.at[line][piece + 1] = Some(end);
        }
        reached
    }

    /// When a piece begins.
    fn begin(&self, line: usize, piece: usize, depth: usize) -> f64 {
        match (self.at[line][piece], self.lines.all[line].born) {
            (Some(at), _) => at,
            (None, Some((parent, at_ns))) if piece == 0 => self.value(parent, at_ns, depth + 1),
            (None, _) => 0.0,
        }
    }

    /// How far a line has come when the recording is at a moment.
    fn value(&self, line: usize, at_ns: Ns, depth: usize) -> f64 {
        match self.piece_before(line, at_ns) {
            Some(piece) if depth < DEPTH_MAX => {
                let at_ns = at_ns.min(self.lines.all[line].pieces[piece].end_ns);
                self.within(line, piece, at_ns, self.begin(line, piece, depth), depth)
            }
            _ if depth < DEPTH_MAX => self.begin(line, 0, depth),
            _ => 0.0,
        }
    }

    /// The piece of a line that began last before a moment. Lines that wait for each other ask for the same one again and again.
    fn piece_before(&self, line: usize, at_ns: Ns) -> Option<usize> {
        let pieces = &self.lines.all[line].pieces;
        let begins_before = |piece: &Piece| piece.begin_ns < at_ns;
        let last = self.last[line].get();
        let is_it = pieces.get(last).is_some_and(begins_before)
            && !pieces.get(last + 1).is_some_and(begins_before);
        if is_it {
            return Some(last);
        }
        let piece = pieces.partition_point(begins_before).checked_sub(1)?;
        self.last[line].set(piece);
        Some(piece)
    }

    /// The same within a piece that began then.
    fn within(&self, line: usize, piece: usize, at_ns: Ns, begin: f64, depth: usize) -> f64 {
        let Piece { begin_ns, what, .. } = &self.lines.all[line].pieces[piece];
        let took = at_ns.saturating_sub(*begin_ns) as f64;
        match what {
            What::Own { does: OwnTime::Unknown, .. } if self.surely => begin,
            What::Own { parts, .. } => begin + took * self.left(line, parts),
            What::After { named: Some(named), .. } if self.gone.has(*named, line) => begin,
            // A circle: it is left as long as it was.
            What::After { .. } if depth + 1 >= DEPTH_MAX => begin + took,
            What::After { line: other, .. } => begin.max(
                self.circle_of_two((line, piece), *other, at_ns, depth)
                    .unwrap_or_else(|| self.value(*other, at_ns, depth + 1)),
            ),
        }
    }

    /// How far the other line has come where each of two waits for the other at that moment: its wait is left as long as it was, as in any circle, but at
    /// once. Two that hand a byte to and fro are in one at each piece.
    fn circle_of_two(
        &self,
        (line, piece): (usize, usize),
        other: usize,
        at_ns: Ns,
        depth: usize,
    ) -> Option<f64> {
        let others = self.piece_before(other, at_ns)?;
        let Piece { begin_ns, end_ns, what } = &self.lines.all[other].pieces[others];
        let What::After { line: back, named } = what else { return None };
        let is_gone = named.is_some_and(|named| self.gone.has(named, other));
        let is_circle = *back == line
            && !is_gone
            && at_ns <= *end_ns
            && self.piece_before(line, at_ns) == Some(piece);
        let took = at_ns.saturating_sub(*begin_ns) as f64;
        is_circle.then(|| self.begin(other, others, depth + 1) + took)
    }

    /// The part of a piece that stays.
    fn left(&self, line: usize, parts: &[(usize, f64)]) -> f64 {
        let gone = parts.iter().filter(|(number, _)| self.gone.has(*number, line));
        1.0 - gone.map(|(_, part)| part).sum::<f64>().min(1.0)
    }

    /// Who is on the path to the end of a line for most of the time within some spans, with that time, seconds.
    fn beside(&self, line: usize, spans: &[(Ns, Ns)]) -> Option<Beside> {
        let mut took: HashMap<usize, Vec<(OwnTime, f64)>> = HashMap::new();
        let (mut line, mut at_ns) = (line, self.lines.all[line].end_ns);
        for _ in 0..2 * self.lines.order.len() + 2 {
            let own = &self.lines.all[line];
            let after = own.pieces.partition_point(|piece| piece.begin_ns < at_ns);
            let Some(index) = after.checked_sub(1) else {
                let Some((parent, born_ns)) = own.born else { break };
                (line, at_ns) = (parent, born_ns.min(at_ns));
                continue;
            };
            let piece = &own.pieces[index];
            match &piece.what {
                What::Own { parts, does } if !(*does == OwnTime::Unknown && self.surely) => {
                    let end_ns = piece.end_ns.min(at_ns);
                    let ns = overlap(spans, piece.begin_ns, end_ns) as f64 * self.left(line, parts);
                    took.entry(line).or_default().push((*does, ns / 1e9));
                }
                What::After { line: other, named }
                    if !named.is_some_and(|named| self.gone.has(named, line)) =>
                {
                    let until_ns = at_ns.min(piece.end_ns);
                    if self.value(*other, until_ns, 0) > self.begin(line, index, 0) {
                        (line, at_ns) = (*other, until_ns);
                        continue;
                    }
                }
                _ => {}
            }
            at_ns = piece.begin_ns;
        }
        let all = took.into_iter().map(|(line, did)| (line, own_time::all(&did), did));
        let (line, _, did) = all.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
        Beside::of(self.lines.all[line].who.clone(), &did, self.surely)
    }
}

/// How much of an interval lies in spans, which are in order and apart.
fn overlap(spans: &[(Ns, Ns)], from: Ns, to: Ns) -> Ns {
    let first = spans.partition_point(|(_, end_ns)| *end_ns <= from);
    let within = spans[first..].iter().take_while(|(begin_ns, _)| *begin_ns < to);
    within.map(|(begin_ns, end_ns)| to.min(*end_ns).saturating_sub(from.max(*begin_ns))).sum()
}

#[cfg(test)]
#[path = "what_if_tests.rs"]
mod tests;
