//! A monitor of a Java program: who had it when it was read.
//!
//! The machine's timer cuts a wait for a monitor into pieces, and some are shorter than the time between two readings: a reading near
//! such a piece is worth less than whoever ended it, and comes behind that in the ladder. Must not: say what the owner does.

use crate::facts::{Ns, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::threshold::Threshold;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, monitor};

/// A reading is of a wait up to so far away.
static READ_AWAY_MAX: Threshold = Threshold::new(
    150.0,
    "ms",
    "from a wait to the reading of who has the lock: a reading further away is of another turn",
    "chosen: about the time between two readings",
);

/// By a reading within the wait.
pub(super) static WITHIN: Way = Way {
    name: "monitor",
    because: "the Java machine's memory says that it had the monitor meanwhile",
    of: &[WaitClass::FutexLock, WaitClass::FutexWait],
    thresholds: &[],
    follow: |at| had(at, 0),
};

/// By a reading near it.
pub(super) static NEARBY: Way = Way {
    name: "monitor, nearby",
    because: "the Java machine's memory says that it had the monitor just before or after",
    of: &[WaitClass::FutexLock],
    thresholds: &[&READ_AWAY_MAX],
    follow: |at| had(at, READ_AWAY_MAX.ns()),
};

fn had(at: &Waiter<'_>, away_ns: Ns) -> Option<Next> {
    let owner = || monitor_owner(at.index, at.wait, away_ns).map(Next::Thread);
    (!at.is_for_an_interpreter()).then(owner).flatten()
}

/// Who had the monitor of a Java program that a thread waits to enter: the machine's timer cuts such a wait into pieces,
/// and some are shorter than the time between two readings.
fn monitor_owner(index: &Index<'_>, wait: &WaitSpan, away_ns: Ns) -> Option<ThreadRef> {
    let from = wait.begin_ns.saturating_sub(away_ns);
    let to = wait.end_ns.saturating_add(away_ns);
    let (at_ns, owner_tid) = monitor::readings(index.model, &wait.thread, from, to)
        .map(|(at_ns, read)| (at_ns, read.owner_tid))
        .filter(|(_, owner_tid)| *owner_tid != 0 && *owner_tid != wait.thread.tid)
        .min_by_key(|(at_ns, _)| at_ns.abs_diff(wait.end_ns))?;
    Some(index.model.threads.of_process_at(owner_tid, at_ns, &wait.thread))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{CONDITION, led, of_ten, place, stands};
    use crate::rules::scenes::LOOK_NS;

    #[test]
    fn who_had_it_at_a_reading_within_the_wait_is_it() {
        let read = |owner_tid| {
            let waits = vec![MonitorWait { waiter_tid: 10, owner_tid, monitor: 1 }];
            Fact { at_ns: LOOK_NS / 2, body: Body::MonitorWaits(MonitorWaits { pid: 10, waits }) }
        };
        let waits = || stands(of_ten(10), place("futex", CONDITION, None));
        assert_eq!(led(vec![read(12), waits()]), ("monitor", Some(12)));
        assert_ne!(led(vec![read(0), waits()]).0, "monitor", "nobody is known to have it");
    }
}
