//! Two sides of looks compared: what each second is lost to now, and was not before.
//!
//! look.rs puts a look under identities that last (identity.rs); comparable.rs refuses what cannot be compared and says what
//! makes it less sure; changes.rs pairs and orders, by the test of spread.rs; wording.rs says it; contract.rs is the JSON.
//! Pure, as all of this crate. Must not: match by process id or by words, or take what was not seen for zero.
//!
//! Rejected: comparing the JSON of two reports (names are for people, small ends are folded, and what a look could not
//! see is not in it).
//!
//! Edit together: docs/diff.md, docs/json.md.

mod changes;
mod comparable;
mod contract;
mod identity;
mod look;
mod spread;
mod wording;

pub use comparable::{Named, Refusal};
pub use contract::*;
pub(super) use identity::key;
pub use look::Look;
pub use spread::floor_share;

#[cfg(test)]
mod tests;

use crate::answer::bounds::{self, COMPARED_MAX};
use crate::answer::report::{SCHEMA, Severity};
use crate::facts::TargetKind;
use changes::Sides;

/// Compares two sides, each of at least one look.
///
/// # Errors
/// A [`Refusal`] where the sides are of different kinds or programs, or a look saw no time.
pub fn compare(before: &[Named], after: &[Named]) -> Result<Comparison, Refusal> {
    comparable::check(before, after)?;
    let whole = |side: &[Named]| {
        let of = |it: &Named| {
            let demand: f64 = it.look.ends.values().map(|end| end.seconds).sum();
            demand.max(it.look.total_seconds()) / it.look.scale_seconds()
        };
        side.iter().map(of).fold(0.0, f64::max)
    };
    let floor = spread::floor(before.len().min(after.len()), whole(before).max(whole(after)));
    let sides = Sides {
        before,
        after,
        blind_before: !comparable::blind_here(before, after).is_empty(),
        blind_after: !comparable::blind_here(after, before).is_empty(),
        floor,
    };
    let (total, mut ends, mut parts, mut findings) =
        (sides.total(), sides.ends(), sides.parts(), sides.findings());
    let is_command = before.iter().any(|it| it.look.is_command());
    let unit = if is_command { Unit::Seconds } else { Unit::SecondsPerSecond };
    let outcome = outcome(&total, &ends);
    let first = first(outcome, &ends);
    let shown = &after[after.len() - 1].look;
    let subject = wording::Subject { name: &subject(shown), is_command };
    let title =
        wording::title(&subject, outcome, &total, unit, first.and_then(|first| ends.get(first)));
    let is_worse = ends.iter().any(|it| it.changed.change.grows() && it.severity > Severity::Note)
        || findings
            .iter()
            .any(|it| it.change.grows() && it.severity_after.is_some_and(|s| s > Severity::Note));
    let mut left_out = Vec::new();
    left_out.extend(bounds::cut("/ends", &mut ends, COMPARED_MAX));
    left_out.extend(bounds::cut("/parts", &mut parts, COMPARED_MAX));
    left_out.extend(bounds::cut("/findings", &mut findings, COMPARED_MAX));
    Ok(Comparison {
        schema: SCHEMA,
        verdict: outcome,
        title,
        first: first.filter(|first| *first < COMPARED_MAX),
        is_worse,
        unit,
        total,
        floor,
        chance: spread::chance(before.len(), after.len()),
        before: before.iter().map(side).collect(),
        after: after.iter().map(side).collect(),
        ends,
        parts,
        findings,
        left_out,
        caveats: comparable::caveats(before, after),
    })
}

fn outcome(total: &Changed, ends: &[EndChange]) -> Outcome {
    match total.change {
        Change::New | Change::More => Outcome::Worse,
        Change::Gone | Change::Less => Outcome::Better,
        Change::Unknown => Outcome::Unknown,
        Change::Same if ends.iter().any(|it| it.changed.change.is_called()) => Outcome::Shifted,
        Change::Same => Outcome::Same,
    }
}

/// The change that the verdict is about: the greatest of its direction.
fn first(outcome: Outcome, ends: &[EndChange]) -> Option<usize> {
    let called = |it: &EndChange| it.changed.change.is_called();
    match outcome {
        Outcome::Worse => ends.iter().position(|it| called(it) && it.changed.change.grows()),
        Outcome::Better => ends.iter().position(|it| called(it) && !it.changed.change.grows()),
        Outcome::Shifted => {
            let grows = ends.iter().position(|it| called(it) && it.changed.change.grows());
            grows.or_else(|| ends.iter().position(called))
        }
        Outcome::Same | Outcome::Unknown => None,
    }
}

fn subject(look: &Look) -> String {
    let target = &look.report.target;
    match target.kind {
        TargetKind::Host if target.name.is_empty() => "this host".into(),
        TargetKind::Host => target.name.clone(),
        TargetKind::Container => format!("container {}", target.name),
        TargetKind::Process | TargetKind::Command if !look.program.is_empty() => {
            look.program.clone()
        }
        TargetKind::Process | TargetKind::Command => target.name.clone(),
    }
}

fn side(named: &Named) -> Side {
    let Look { report, host, .. } = &named.look;
    Side {
        recording: named.recording.clone(),
        target: report.target.clone(),
        window: report.window.clone(),
        total_seconds: named.look.total_seconds(),
        title: report.answer.title.clone(),
        machine: Machine {
            hostname: host.hostname.clone(),
            kernel: host.kernel.clone(),
            machine: host.machine.clone(),
            cpus: host.cpus,
            memory_bytes: host.memory_bytes,
            kernel_events: host.kernel_events,
        },
    }
}
