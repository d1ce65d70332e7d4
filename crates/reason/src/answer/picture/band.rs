//! The lines of time that bands are drawn of, whoever made them: shapes, and what threads.rs and path.rs have in common.
//!
//! A line is one row of pieces; a lane is a line's place in the band of one end. Must not: choose whose line is drawn.

use super::bounds::PIECES;
use super::gather::Gathered;
use super::pieces::{Piece, Raw, State, Words};
use crate::facts::{Ns, ThreadRef, WakeContext};
use crate::graph::chains::ChainLink;
use crate::measure::Measures;
use crate::model::{Model, ThreadKey};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use serde::Serialize;

/// One line of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Whose: a thread, or the programs of a step of a command's path.
    pub who: String,
    /// How many processes it is of; the pieces of others than `who` have their own.
    pub processes: usize,
    /// What it did.
    pub pieces: Vec<Piece>,
    /// Of what was not seen one by one: shares of running, of waiting for a CPU, and of short waits; none if all was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<[f64; 3]>,
    /// Its pieces say themselves why they are waited for.
    pub is_step: bool,
}

/// One lane of an end's band.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lane {
    /// Index into the lines.
    pub line: usize,
    /// `victim`, `holder`, `hop`, `root`, or `instead` (who had the CPU meanwhile).
    pub role: &'static str,
    /// Why the one above is led to it: what it has to do with what that one waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// The words of the wait above that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub while_above: Option<usize>,
}

/// All lines and lanes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The lines.
    pub lines: Vec<Line>,
    /// By end of the answer.
    pub bands: Vec<Vec<Lane>>,
    /// Ends whose lanes were left out.
    pub ends_left_out: usize,
    /// Kernel stacks are asked of these threads.
    pub threads: Vec<(usize, ThreadRef)>,
}

/// What can be seen of a line, if the pieces are shared out among so many.
pub(super) fn least_ns(gathered: &Gathered, lines: usize) -> Ns {
    let each = (PIECES / lines.max(1)).clamp(40, 500) as Ns;
    (gathered.end_ns - gathered.begin_ns) * 2 / each
}

/// A piece of a line in the page's units.
pub(super) fn piece<T>(
    gathered: &Gathered,
    raw: &Raw<T>,
    words: usize,
    count: u32,
    waker: i32,
) -> Piece {
    let begin_us = (raw.begin_ns.saturating_sub(gathered.begin_ns)) / 1_000;
    let end_us = (raw.end_ns.saturating_sub(gathered.begin_ns)) / 1_000;
    Piece(begin_us, end_us - begin_us, raw.state, words, count, waker, -1, -1)
}

/// The state of who is in a wait of a class.
pub(super) fn state_of(class: WaitClass) -> State {
    match class {
        WaitClass::Running => State::Running,
        WaitClass::RunQueue | WaitClass::CpuQuota => State::Runnable,
        WaitClass::Unseen => State::Unseen,
        _ => State::Blocked,
    }
}

/// The wait that a link is a part of.
pub(super) fn wait_of<'m>(measures: &Measures<'m>, link: &ChainLink) -> Option<&'m WaitSpan> {
    let waits = measures.timelines.of(measures.model.threads.key(&link.who));
    let first = waits.partition_point(|wait| wait.begin_ns < link.since_ns);
    waits.get(first).filter(|wait| wait.begin_ns == link.since_ns)
}

/// Who ended a wait: the index of a line, or -2 minus the index of words; -1 if that was not seen.
pub(super) fn waker(
    model: &Model,
    wait: &WaitSpan,
    line_of: impl Fn(&ThreadKey) -> Option<usize>,
    labels: &mut Words,
) -> i32 {
    let Some(wake) = &wait.wake else { return -1 };
    let by_task = wake.context == WakeContext::Task && wake.by.tid != 0;
    let line = by_task.then(|| line_of(&model.threads.key(&wake.by))).flatten();
    if let Some(line) = line {
        return line as i32;
    }
    let label = match wake.context {
        WakeContext::Task if wake.by.tid != 0 => {
            format!("woken by {}", model.threads.who(&model.threads.present(&wake.by)))
        }
        WakeContext::Task | WakeContext::Unknown => return -1,
        _ => match wake.disk.and_then(|dev| model.disk.of(dev)) {
            Some(disk) => format!("woken as disk {} answered", disk.name),
            None if wait.class == WaitClass::Timer => "woken by the clock".into(),
            None => "woken by an interrupt".into(),
        },
    };
    -2 - labels.index(label, "woken by somebody") as i32
}
