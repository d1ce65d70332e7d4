//! What is lost to each end over time, in slices that add up to the answer.
//!
//! Of a command each slice is as long as the sum over ends, since its path is conserved; of the rest a slice has as many
//! seconds as were lost by everybody meanwhile. Work that the scheduler only counted has no moment: it is spread evenly, and said
//! to be. Must not: draw an end that the answer does not have.

use super::bounds::{ENDS_OVER_TIME, SLICES, rounded};
use super::gather::{Gathered, Loss};
use crate::answer::report::Report;
use crate::answer::verdict::Origin;
use crate::measure::Measures;
use serde::Serialize;

/// Seconds lost, by slice of the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OverTime {
    /// Slices.
    pub slices: usize,
    /// The ends drawn one by one, and the rest.
    pub ends: Vec<EndOverTime>,
    /// Some of it is spread evenly, since it was counted and not seen.
    pub has_untimed: bool,
}

/// Seconds lost to one end.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EndOverTime {
    /// Index into the answer's ends; none: all others.
    pub end: Option<usize>,
    /// Runs of slices: the first one, and the seconds of each.
    pub runs: Vec<(usize, Vec<f64>)>,
}

/// The losses that make up an end of the answer.
pub(super) fn losses<'g>(
    measures: &'g Measures<'_>,
    gathered: &'g Gathered,
    of_end: &'g [Origin],
) -> impl Iterator<Item = &'g Loss> {
    of_end.iter().flat_map(move |origin| {
        let end = &measures.graph.ends[origin.end];
        let all = gathered.of(end.kind, end.class, &end.object);
        let own = all.into_iter().flat_map(|all| all.iter());
        own.filter(|(pid, _)| origin.victims.contains(pid)).map(|(_, loss)| loss)
    })
}

impl OverTime {
    /// Of the answer's ends.
    pub fn of(
        measures: &Measures<'_>,
        gathered: &Gathered,
        report: &Report,
        origins: &[Vec<Origin>],
    ) -> Self {
        let mut has_untimed = false;
        let mut all: Vec<(Option<usize>, Vec<f64>)> = Vec::new();
        let mut others = vec![0.0; SLICES];
        for (at, of_end) in origins.iter().enumerate() {
            let mut slices = vec![0.0; SLICES];
            for loss in losses(measures, gathered, of_end) {
                loss.by_slice.iter().for_each(|(slice, seconds)| slices[*slice] += seconds);
                has_untimed |= loss.untimed > 0.0;
                slices.iter_mut().for_each(|slice| *slice += loss.untimed / SLICES as f64);
            }
            match at < ENDS_OVER_TIME || report.answer.first == Some(at) {
                true => all.push((Some(at), slices)),
                false => others.iter_mut().zip(&slices).for_each(|(sum, more)| *sum += more),
            }
        }
        if others.iter().any(|seconds| *seconds > 0.0) {
            all.push((None, others));
        }
        let ends = all.into_iter().map(|(end, slices)| EndOverTime { end, runs: runs(&slices) });
        Self { slices: SLICES, ends: ends.collect(), has_untimed }
    }
}

/// Without the slices in which nothing was lost.
fn runs(slices: &[f64]) -> Vec<(usize, Vec<f64>)> {
    let mut runs: Vec<(usize, Vec<f64>)> = Vec::new();
    for (at, seconds) in slices.iter().enumerate().filter(|(_, seconds)| **seconds > 0.0) {
        match runs.last_mut().filter(|(first, run)| first + run.len() == at) {
            Some((_, run)) => run.push(rounded(*seconds)),
            None => runs.push((at, vec![rounded(*seconds)])),
        }
    }
    runs
}
