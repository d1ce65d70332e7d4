//! Stacks of the threads that are drawn: where in the kernel and in their programs they waited, and where they ran.
//!
//! Of each thread the stacks in which most of its time went, waits and samples apart. Frames are functions, innermost
//! first. Must not: guess a stack where none was read.

use super::bounds::{FRAMES, STACKS, clipped, rounded};
use super::gather::Gathered;
use super::words::waiting;
use crate::answer::naming::frames_of;
use crate::facts::{Ns, ThreadRef};
use crate::measure::Measures;
use crate::waits::timeline::WaitSpan;
use serde::Serialize;
use std::collections::BTreeMap;

/// Stacks of one thread.
const EACH: usize = 3;

/// A kernel stack in which a thread spent time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stack {
    /// Index of the thread's line.
    pub line: usize,
    /// What it did there.
    pub words: String,
    /// Seconds in waits with this stack, or that its samples stand for.
    pub seconds: f64,
    /// How many waits or samples.
    pub count: u64,
    /// It ran, and was sampled.
    pub sampled: bool,
    /// Functions of the kernel, innermost first; of samples outside of it empty.
    pub frames: Vec<String>,
    /// Functions of the program that led there, innermost first, with their files; empty if they were not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
}

/// The stacks of the threads that have lines, and how many were left out.
pub(super) fn stacks(
    measures: &Measures<'_>,
    gathered: &Gathered,
    threads: &[(usize, ThreadRef)],
) -> (Vec<Stack>, usize) {
    let mut all = Vec::new();
    let mut left_out = 0;
    for (line, who) in threads {
        for mut of_one in [waits(measures, gathered, *line, who), samples(measures, *line, who)] {
            of_one.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.frames.cmp(&b.frames)));
            left_out += of_one.len().saturating_sub(EACH);
            all.extend(of_one.into_iter().take(EACH));
        }
    }
    left_out += all.len().saturating_sub(STACKS);
    all.truncate(STACKS);
    (all, left_out)
}

fn frames(measures: &Measures<'_>, id: u32) -> Vec<String> {
    measures.model.stacks.kernel(id).iter().take(FRAMES).map(|frame| clipped(frame)).collect()
}

/// The program's part of the stack of a wait, if it was read.
fn program(measures: &Measures<'_>, wait: &WaitSpan) -> Vec<String> {
    let read = measures.model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    let frames = read.map_or_else(Vec::new, frames_of);
    frames.iter().take(FRAMES).map(|frame| clipped(frame)).collect()
}

fn waits(measures: &Measures<'_>, gathered: &Gathered, line: usize, who: &ThreadRef) -> Vec<Stack> {
    let model = measures.model;
    let mut by_stack: BTreeMap<u32, (Ns, u64, &WaitSpan)> = BTreeMap::new();
    for wait in
        measures.timelines.of(model.threads.key(who)).iter().filter(|it| it.place.stack != 0)
    {
        let ns = wait.within_ns(gathered.begin_ns, gathered.end_ns);
        let known = by_stack.entry(wait.place.stack).or_insert((0, 0, wait));
        known.0 += ns;
        known.1 += 1;
        // The longest is what is shown of them.
        if ns > known.2.within_ns(gathered.begin_ns, gathered.end_ns) {
            known.2 = wait;
        }
    }
    let stacks = by_stack.into_iter().filter(|(_, (ns, ..))| *ns > 0);
    let stack = |(id, (ns, count, wait)): (u32, (Ns, u64, &WaitSpan))| Stack {
        line,
        words: clipped(&waiting(model, wait)),
        seconds: rounded(ns as f64 / 1e9),
        count,
        sampled: false,
        frames: frames(measures, id),
        program: program(measures, wait),
    };
    stacks.map(stack).filter(|stack| !stack.frames.is_empty()).collect()
}

/// Samples are counted by process; they stand with its main thread.
fn samples(measures: &Measures<'_>, line: usize, who: &ThreadRef) -> Vec<Stack> {
    let of_it = |samples: &&crate::facts::Samples| {
        samples.process.pid == who.pid && who.tid == who.pid && samples.count > 0
    };
    let stack = |samples: &crate::facts::Samples| Stack {
        line,
        words: match samples.stack {
            0 => "runs its own code".into(),
            _ => "runs in the kernel".into(),
        },
        seconds: rounded(samples.count as f64 / f64::from(samples.frequency_hz.max(1))),
        count: samples.count,
        sampled: true,
        frames: frames(measures, samples.stack),
        program: Vec::new(),
    };
    measures.model.cpu.samples.iter().filter(of_it).map(stack).collect()
}
