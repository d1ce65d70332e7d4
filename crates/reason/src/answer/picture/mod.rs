//! What drawing a look takes and the JSON of its answer has not: when each end was lost, lanes, trees, curves, queues, stacks.
//!
//! Made of the same measures as the answer and in the order of its ends, so that a page and a report cannot disagree. It is no
//! contract: the page that draws it is of the same binary. All of it is bounded (bounds.rs), and what is left out is counted.
//! Must not: decide anything that the answer does not say.
//!
//! Edit together: the report crate's page/ (which draws it), docs/page.md.

mod band;
mod bounds;
mod flame;
pub mod gather;
mod over_time;
mod path;
mod pieces;
mod queues;
mod series;
mod stacks;
mod threads;
mod tree;
pub mod words;

use super::export::stacks::WeightedStack;
use super::report::{AnswerEnd, Report};
use super::verdict::Origin;
use crate::measure::Measures;
use band::{Lane, Lanes, Line};
use flame::Flame;
use gather::Gathered;
use over_time::OverTime;
use pieces::Words;
use queues::QueueRow;
use serde::Serialize;
use series::Curve;
use stacks::Stack;
use tree::Node;

/// A look as it is drawn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// Host name, kernel release and CPUs, as far as they are known.
    pub host: PictureHost,
    /// Length of what is drawn, microseconds.
    pub us: u64,
    /// Each end of the answer: what it is called, and its lanes.
    pub ends: Vec<PictureEnd>,
    /// What was lost when.
    pub over_time: OverTime,
    /// The lines of time.
    pub lines: Vec<Line>,
    /// What the pieces of lines say.
    pub words: Vec<String>,
    /// The blockers' tree of each end.
    pub trees: Vec<Node>,
    /// Curves over the window.
    pub curves: Vec<Curve>,
    /// Queues.
    pub queues: Vec<QueueRow>,
    /// Kernel stacks.
    pub stacks: Vec<Stack>,
    /// Work and waits by stack.
    pub flames: Vec<Flame>,
    /// What was left out to keep it small: how many, and of what.
    pub left_out: Vec<(usize, &'static str)>,
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PictureHost {
    /// `uname -n`.
    pub name: String,
    /// `uname -r`.
    pub kernel: String,
    /// CPUs online; 0 if unknown.
    pub cpus: u32,
}

/// One end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PictureEnd {
    /// A clause: what it is, and who would have to act.
    pub words: String,
    /// The kind in a word or two.
    pub kind: &'static str,
    /// Its lanes, the victim's first; empty if none were made.
    pub lanes: Vec<Lane>,
}

impl Picture {
    /// Of a look and its answer; `origins` are those of the answer's ends.
    pub fn of(
        measures: &Measures<'_>,
        gathered: Gathered,
        (report, origins): (&Report, &[Vec<Origin>]),
        weighted: &[WeightedStack],
    ) -> Self {
        let mut labels = Words::default();
        let lanes = lanes(measures, &gathered, report, origins, &mut labels);
        let (trees, nodes_left_out) = tree::trees(measures, &gathered, origins);
        let (curves, curves_left_out) = series::curves(measures, &gathered);
        let (queues, queues_left_out) = queues::rows(measures);
        let (stacks, stacks_left_out) = stacks::stacks(measures, &gathered, &lanes.threads);
        let (flames, flames_left_out) = flame::flames(weighted);
        let mut left_out = vec![
            (lanes.ends_left_out, "ends have no lanes"),
            (labels.left_out, "labels of pieces say only the kind of wait"),
            (nodes_left_out, "parts of the blockers' tree that stand there as one"),
            (curves_left_out, "curves of less busy CPUs, disks and packet queues"),
            (queues_left_out, "shorter queues"),
            (stacks_left_out, "stacks with less time in them"),
            (flames_left_out, "frames of flame graphs that are too narrow to see"),
        ];
        left_out.retain(|(count, _)| *count > 0);
        let ends = report.answer.ends.iter().zip(lanes.bands);
        let culprit =
            |end: &AnswerEnd| report.findings.get(end.finding?).map(|finding| &finding.culprit);
        let host = &measures.model.look.host;
        Self {
            host: PictureHost {
                name: host.hostname.clone(),
                kernel: host.kernel.clone(),
                cpus: host.cpus,
            },
            us: (gathered.end_ns - gathered.begin_ns) / 1_000,
            ends: ends
                .map(|(end, lanes)| PictureEnd {
                    words: words::end(end, culprit(end)),
                    kind: words::kind(end.end),
                    lanes,
                })
                .collect(),
            over_time: OverTime::of(measures, &gathered, report, origins),
            lines: lanes.lines,
            words: labels.finish(),
            trees,
            curves,
            queues,
            stacks,
            flames,
            left_out,
        }
    }
}

/// Lanes of threads; of a command, of the steps of its path.
fn lanes(
    measures: &Measures<'_>,
    gathered: &Gathered,
    report: &Report,
    origins: &[Vec<Origin>],
    labels: &mut Words,
) -> Lanes {
    match measures.is_command() {
        true => path::lanes(measures, gathered, origins, labels),
        false => threads::lanes(measures, gathered, report, origins, labels),
    }
}
