//! What the start of a container took, as text: a row for each phase.
//!
//! Phases too short to matter are left to -v. Must not: judge, which is the findings'.

use super::escape;
use super::page::{Page, Tone};
use holdup_reason::answer::ContainerStart;
use holdup_reason::model::figures;

/// Columns of a name.
const NAME: usize = 40;
/// Smaller shares than this are left out.
const SHARE_MIN: f64 = 0.01;
/// A start that is less of a command than this is left out.
const OF_COMMAND_MIN: f64 = 0.05;

/// The phases.
pub(super) fn render(start: &ContainerStart, wall_seconds: f64, verbose: bool, page: &mut Page) {
    if start.seconds < wall_seconds * OF_COMMAND_MIN && !verbose {
        return;
    }
    let program = escape::name(&start.program, NAME);
    let took = figures::seconds(start.seconds);
    page.verdict(
        &format!("The container's own program, {program}, began after {took}"),
        Tone::Heading,
    );
    for phase in &start.phases {
        let share = phase.seconds / start.seconds.max(1e-9);
        if verbose || share >= SHARE_MIN {
            let text = format!("{} ({:.0} %)", figures::seconds(phase.seconds), share * 100.0);
            page.labelled(&phase.phase, &text);
        }
    }
    page.gap();
}
