//! The frames of stacks: functions of the program, of the kernel, and what is waited for, the outermost first.
//!
//! Work has no whole stack of the program: the samples say the innermost function, and an interpreter its own. A stack that was not
//! read is not guessed. Must not: weigh (stacks.rs).

use crate::answer::picture::words::doing;
use crate::facts::{ThreadRef, UserFrame, Work};
use crate::measure::Measures;
use crate::measure::interpreters::Interpreted;
use crate::model::Model;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameKind {
    /// A process or a thread.
    Who,
    /// A function of the program, or the file of its code.
    Program,
    /// A function of the kernel.
    Kernel,
    /// What is waited for, in words.
    Wait,
    /// Who would have to act.
    Culprit,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// Its name.
    pub name: String,
    /// The file that it is in; empty if that is not known.
    pub file: String,
    /// Its line there; 0 if that is not known.
    pub line: u32,
}

impl Frame {
    /// Of a kind, with a name alone.
    pub fn new(kind: FrameKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), file: String::new(), line: 0 }
    }

    fn of_program(frame: &UserFrame) -> Self {
        let name = match frame.function.as_str() {
            "" => "?",
            function => function,
        };
        let (name, file) = (name.to_string(), frame.module.clone());
        Self { kind: FrameKind::Program, name, file, line: frame.line }
    }
}

/// Who it is: the process, and the thread if it has a name of its own.
pub fn who(model: &Model, thread: &ThreadRef) -> Vec<Frame> {
    let process = model.threads.process_name(thread.pid);
    let own = model.threads.present(thread).comm;
    let name = if process.is_empty() { &own } else { &process };
    let mut frames = vec![Frame::new(FrameKind::Who, name.clone())];
    if thread.tid != thread.pid && own != *name && !own.is_empty() {
        frames.push(Frame::new(FrameKind::Who, own));
    }
    frames
}

/// Functions of the kernel, the outermost first.
pub fn kernel(model: &Model, stack: u32) -> impl Iterator<Item = Frame> {
    model.stacks.kernel(stack).iter().rev().map(|name| Frame::new(FrameKind::Kernel, name.clone()))
}

/// Where a thread waits: in its program, as far as that was read, in the kernel, and for what.
pub fn waits(model: &Model, wait: &WaitSpan) -> Vec<Frame> {
    let read = model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    let program = read.map_or(&[][..], |stack| stack.frames.as_slice());
    let mut frames: Vec<Frame> = program.iter().rev().map(Frame::of_program).collect();
    frames.extend(kernel(model, wait.place.stack));
    frames.push(Frame::new(FrameKind::Wait, doing(model, wait.class, &wait.object)));
    frames
}

/// Where a process works: frames, and how many samples; empty if it was not sampled.
pub fn works(measures: &Measures<'_>, pid: u32) -> Vec<(Vec<Frame>, u64)> {
    let model = measures.model;
    let samples = measures.profile.samples(pid);
    let mut all: BTreeMap<Vec<Frame>, u64> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.stack != 0) {
        *all.entry(kernel(model, sample.stack).collect()).or_default() += sample.count;
    }
    let own: u64 = samples.iter().filter(|it| it.stack == 0).map(|it| it.count).sum();
    for (frames, count) in shared(own, own_code(measures, pid)) {
        *all.entry(frames).or_default() += count;
    }
    all.into_iter().collect()
}

/// The program's own code: the interpreter's frames where they stand for it, else the functions that samples hit.
fn own_code(measures: &Measures<'_>, pid: u32) -> Vec<(Vec<Frame>, u64)> {
    let spent = measures.profile.spent(pid);
    let interpreted = Interpreted::of(measures.model, pid).filter(|read| {
        let used = spent.as_ref().map_or(0.0, |spent| spent.seconds(spent.samples));
        read.stands_for(used / measures.wall_seconds().max(1e-9))
    });
    if let Some(read) = interpreted {
        let mut all: BTreeMap<Vec<Frame>, u64> = BTreeMap::new();
        for frames in read.stacks() {
            *all.entry(frames.iter().rev().map(Frame::of_program).collect()).or_default() += 1;
        }
        return all.into_iter().collect();
    }
    measures
        .profile
        .work(pid)
        .iter()
        .filter(|work| work.syscall.is_empty())
        .flat_map(|work| functions(work))
        .collect()
}

fn functions(work: &Work) -> Vec<(Vec<Frame>, u64)> {
    if work.code.is_empty() {
        return Vec::new();
    }
    let file = || Frame::new(FrameKind::Program, work.code.clone());
    let named = work.functions.iter().map(|function| {
        let file = if function.place.is_empty() { &work.code } else { &function.place };
        let inner =
            Frame { file: file.clone(), ..Frame::new(FrameKind::Program, function.name.clone()) };
        (vec![inner], function.count)
    });
    let rest = work.count.saturating_sub(work.functions.iter().map(|it| it.count).sum());
    named.chain((rest > 0).then(|| (vec![file()], rest))).collect()
}

/// So many samples, shared out as parts are counted; nothing is lost in rounding. Without parts it is own code, and no more is known.
fn shared(all: u64, parts: Vec<(Vec<Frame>, u64)>) -> Vec<(Vec<Frame>, u64)> {
    if all == 0 {
        return Vec::new();
    }
    let counts: Vec<u64> = parts.iter().map(|(_, count)| *count).collect();
    if counts.iter().sum::<u64>() == 0 {
        return vec![(vec![Frame::new(FrameKind::Program, "its own code")], all)];
    }
    let shares = share_out(all, &counts);
    parts.into_iter().zip(shares).map(|((frames, _), share)| (frames, share)).collect()
}

/// A whole shared out by weights, to the last unit.
pub fn share_out(whole: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let mut before: u128 = 0;
    let share = |weight: &u64| {
        let at = |until: u128| (u128::from(whole) * until / sum.max(1)) as u64;
        let from = at(before);
        before += u128::from(*weight);
        at(before) - from
    };
    weights.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_in_sharing_out() {
        for (whole, weights) in [(10, vec![1, 1, 1]), (7, vec![0, 5]), (u64::MAX, vec![3, 4, 9])] {
            let shares = share_out(whole, &weights);
            assert_eq!(shares.iter().sum::<u64>(), whole, "{weights:?}");
        }
        assert_eq!(share_out(9, &[2, 1]), [6, 3]);
    }
}
