//! Waits for work at a server: whoever asks it for the next message, job or change is owed nothing.
//!
//! The question is answered when there is something, or when an agreed time is over: a queue, a notification, a long poll. One such
//! wait looks like one for a slow answer. What tells them apart is that the same connection waits so again and again, and that
//! the server, an event loop, rests all the while: it neither works, nor sleeps in a call, nor waits for others that it asked.
//!
//! The server's side is the same: an event loop that owes answers, and that was up again and again meanwhile and found nothing to
//! do about them, keeps them on purpose.
//!
//! Must not: take a wait that is led to a thing that is held (a lock, a disk), or one that has not ended. Rejected: names of
//! programs and commands, and whether a client works between two waits (who has no work to do asks at once).

use super::chains::Leaf;
use crate::facts::Ns;
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// Fewer waits may be those of a client that asks a slow server now and then.
static WAITS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "waits that have ended on one connection, or rests of one loop: fewer may be those of a client that asks a slow server now and then",
    "chosen",
);
/// Part of the time on a connection in which the server rests.
static REST_MIN: Threshold = Threshold::new(
    0.8,
    "1",
    "part of the time on a connection in which the server rests: one that works for its answers rests for less",
    "chosen",
);

/// Waits for answers, by who waits on which connection.
pub(super) struct Subscriptions {
    /// Waits that have ended, at least.
    ended_min: usize,
    by_connection: BTreeMap<(u32, Object), Asked>,
}

/// Whether an event loop was up several times while it owed something, as far as these pieces of that time tell: none of its rests
/// is most of it.
pub(super) fn rests(leaves: &[Leaf]) -> bool {
    let all_ns: Ns = leaves.iter().map(Leaf::ns).sum();
    let rests = || leaves.iter().filter(|leaf| leaf.is_rest()).map(Leaf::ns);
    rests().count() >= WAITS_MIN.count() && rests().all(|ns| ns * 2 < all_ns)
}

#[derive(Default)]
struct Asked {
    ended: usize,
    last_begin_ns: Option<Ns>,
    all_ns: Ns,
    for_work_ns: Ns,
    leaves: Vec<(Leaf, bool)>,
}

impl Asked {
    fn is_for_work(&self, ended_min: usize) -> bool {
        self.ended >= ended_min && self.for_work_ns as f64 >= REST_MIN.value * self.all_ns as f64
    }
}

impl Subscriptions {
    /// Of a look. On a host a debt is nobody's loss by itself, so that the server rests is enough there.
    pub(super) fn new(is_asked: bool) -> Self {
        let ended_min = if is_asked { WAITS_MIN.count() } else { 0 };
        Self { ended_min, by_connection: BTreeMap::new() }
    }

    /// Whether a wait is for what comes on a connection.
    pub(super) fn concern(wait: &WaitSpan) -> bool {
        matches!(wait.object, Object::Inet(_) | Object::Unix(_)) && wait.class.is_for_somebody()
    }

    /// Adds a leaf of such a wait, and whether it counts.
    pub(super) fn take(&mut self, wait: &WaitSpan, leaf: Leaf, counted: bool) {
        let key = (wait.thread.pid, wait.object.clone());
        let asked = self.by_connection.entry(key).or_default();
        if asked.last_begin_ns.replace(wait.begin_ns) != Some(wait.begin_ns) {
            asked.ended += usize::from(!wait.standing);
        }
        asked.all_ns += leaf.ns();
        asked.for_work_ns += if leaf.is_for_work() { leaf.ns() } else { 0 };
        asked.leaves.push((leaf, counted));
    }

    /// The leaves of those that are for no work.
    pub(super) fn owed(self) -> impl Iterator<Item = (Leaf, bool)> {
        let ended_min = self.ended_min;
        let owed =
            self.by_connection.into_values().filter(move |asked| !asked.is_for_work(ended_min));
        owed.flat_map(|asked| asked.leaves)
    }
}
