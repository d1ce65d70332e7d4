//! Whether a stream loses segments: what was sent again, beside what was delivered.
//!
//! Shared by the rules of this area, because losses refute a queue and a queue refutes losses. Must not: say where they are
//! lost.

use crate::measure::tcp_stream::Stream;
use crate::threshold::Threshold;

/// Segments sent again from which losses are no accident.
pub(super) static LEAST_AGAIN: Threshold = Threshold::new(
    5.0,
    "1",
    "segments sent again in the look, from which losses are no accident",
    "chosen: one burst loses two or three",
);
/// Part of the segments that no queue loses.
pub(super) static HEAVY_LOSS: Threshold = Threshold::new(
    0.02,
    "1",
    "segments sent again for each one delivered: a queue that overflows now and then loses far less, for CUBIC fills it for \
     many round trips first",
    "lab, seeds 4402-4403: none of 2362 segments at a queue beyond the host, 1 of 1582 at one here, 4.3 % on a lossy path",
);

/// At least this part of its segments had to be sent again, and not by accident.
pub(super) fn loses(stream: &Stream<'_>, part: &Threshold) -> bool {
    f64::from(stream.change.retransmits) >= LEAST_AGAIN.value && stream.sent_again() >= part.value
}
