//! The end of a look: what is read once its window is over, turn by turn.
//!
//! First what the window itself has left (its log, the sums of threads, what was walked), then what stands and must be looked into
//! while it stands, then everything else. Must not: know a reader by name. Edit together: readers/reader.rs (the turns).

use super::rate::Rate;
use super::walks::Walks;
use crate::SourceError;
use crate::readers::look::Look;
use crate::readers::reader::Turn;
use holdup_reason::facts::{Body, Fact, WindowEnd};

/// Reports how the window ended and closes all readers.
pub(super) fn close(
    look: &mut Look,
    walks: &mut Walks,
    rate: &Rate,
    facts: &mut Vec<Fact>,
) -> Result<(), SourceError> {
    if let Some(programs) = look.programs.as_mut().filter(|_| !look.goes_on) {
        programs.report_no_more();
    }
    let (traced_threshold_ns, threshold_ns) = rate.threshold.highest_ns();
    let flood_by = rate.threshold.author().cloned();
    let interrupted = look.last.interrupted;
    let least_ns = rate.threshold.least_ns().unwrap_or(0);
    let end = WindowEnd { interrupted, threshold_ns, traced_threshold_ns, least_ns, flood_by };
    facts.push(Fact { at_ns: look.last.end_ns, body: Body::WindowEnd(end) });
    walks.close(..Turn::Locks, look, facts)?;
    let mut waits = std::mem::take(&mut look.last.waits);
    walks.standing(look, &mut waits, facts)?;
    facts.append(&mut waits);
    // Their stacks, which may be reported here for the first time, say whether one of them is for a file lock.
    look.report_stacks(facts);
    walks.close(Turn::Locks.., look, facts)
}
