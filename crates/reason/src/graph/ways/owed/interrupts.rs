//! Who only interrupts an event loop: he ended its wait, and has not done what somebody else waits for.
//!
//! The wait in which somebody is owed an answer is cut by questions of other clients, and by ticks. An answer that follows the end of a
//! wait, beside what the thread computed for it, makes that end the one that counted. Must not: choose who did it instead
//! (event_loop.rs).

use crate::facts::{Ns, ThreadRef};
use crate::graph::conversation::{answered_ns, had_asked};
use crate::graph::index::Index;
use crate::graph::next::Asker;
use crate::graph::question::is_ended_by_a_question;
use crate::graph::wakers::{SAMPLES_APART, is_unseen};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::{Doing, WaitSpan};

/// How long a loop may wait between an event and the answer to it.
pub(super) static FOLLOWS_MAX: Threshold = Threshold::new(
    5.0,
    "ms",
    "idle time of a loop between an event and the answer to it: after a longer rest something else led to the answer",
    "chosen: a loop answers in the round in which it hears of it, and a second round takes a few milliseconds",
);

/// Whether who ended a wait for events has not done what somebody else waits for: he came with a question of his own, or is
/// another process that was not asked, and no answer followed.
pub(super) fn only_interrupts(
    index: &Index<'_>,
    wait: &WaitSpan,
    by: &ThreadRef,
    asker: Option<Asker<'_>>,
) -> bool {
    let Some(asker) = outside(index, asker, wait).filter(|asker| asker.who.pid != by.pid) else {
        return false;
    };
    if wait.class != WaitClass::Idle || index.families.is_related(by, &wait.thread) {
        return false;
    }
    match answered_ns(index, asker, wait.thread.pid) {
        Some(answered_ns) => !follows(index, wait, answered_ns) && !had_asked(index, wait, by),
        None => is_ended_by_a_question(index, wait),
    }
}

/// Who asked by a connection. Who belongs to the same program waits for a thing of theirs, and whoever has that keeps it
/// until its own client lets it go.
pub(super) fn outside<'w>(
    index: &Index<'_>,
    asker: Option<Asker<'w>>,
    wait: &WaitSpan,
) -> Option<Asker<'w>> {
    asker.filter(|asker| !index.families.is_related(asker.who, &wait.thread))
}

/// Whether an answer followed the end of a wait, beside what the thread computed for it.
pub(super) fn follows(index: &Index<'_>, wait: &WaitSpan, answered_ns: Ns) -> bool {
    let slack_ns = if is_unseen(wait) { SAMPLES_APART.ns() } else { 0 };
    let Some(apart_ns) = (answered_ns + slack_ns).checked_sub(wait.end_ns) else {
        return false;
    };
    if apart_ns <= FOLLOWS_MAX.ns() + 2 * slack_ns {
        return true;
    }
    let key = index.model.threads.key(&wait.thread);
    let pieces = index.timelines.pieces(key, wait.end_ns, answered_ns);
    let is_idle =
        |doing: &Doing<'_>| matches!(doing, Doing::Waiting(it) if it.class == WaitClass::Idle);
    let idle = pieces.iter().filter(|piece| is_idle(&piece.doing));
    idle.map(|piece| piece.end_ns - piece.begin_ns).sum::<Ns>() <= FOLLOWS_MAX.ns()
}
