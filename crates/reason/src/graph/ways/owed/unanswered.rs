//! Whom its process has asked and has no answer from, by the clocks of the connections.
//!
//! Of a wait that stands at the end of the look the last one, of one that the clock ended before, the last that was asked before it.
//! Must not: call an answer late (rules/net).

use crate::facts::Ns;
use crate::graph::by_path::asked_anew;
use crate::graph::debts::Debt;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::relayed::{CLOCKS_APART, RELAYED_WITHIN, who_owes};
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::threshold::Threshold;
use crate::waits::timeline::WaitSpan;

/// A wait that ends so near to the end of the look stands.
static END_MAX: Threshold = Threshold::new(
    100.0,
    "ms",
    "from the end of a wait to the end of the look: a later end is that of a wait that stands",
    "chosen: sockets are read after the end, within this",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "unanswered",
    because: "it was asked and has not answered",
    of: FOR_EVENTS,
    thresholds: &[&END_MAX, &CLOCKS_APART, &RELAYED_WITHIN],
    follow: |at| {
        let came_ns = asked_anew(at.index, at.wait.thread.pid, at.asker);
        awaited_since(at.index, at.wait, at.within.1, came_ns.unwrap_or(0))
    },
};

/// Whom its process has asked from a time on, and has no answer from.
pub(super) fn awaited_since(index: &Index<'_>, wait: &WaitSpan, to: Ns, from: Ns) -> Option<Next> {
    let stands = wait.end_ns.max(to) + END_MAX.ns() >= index.model.look.end_ns;
    let debts = index.debts.awaits.get(&wait.thread.pid)?;
    let at_end = |debt: &&Debt| debt.seen_ns >= index.model.look.end_ns && stands;
    let before = |debt: &&Debt| {
        debt.since_ns <= wait.begin_ns.saturating_add(CLOCKS_APART.ns())
            && wait.begin_ns <= debt.seen_ns
    };
    let of_it =
        |debt: &&Debt| !debt.since_known || debt.since_ns.saturating_add(CLOCKS_APART.ns()) >= from;
    let outstanding = debts.iter().filter(of_it).filter(|debt| at_end(debt) || before(debt));
    let last = outstanding.max_by_key(|debt| debt.since_ns)?;
    who_owes(index, wait.thread.pid, last, wait.end_ns)
}

#[cfg(test)]
mod tests {
    use crate::facts::TCP_SYN_SENT;
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, endpoint};

    /// Thread 10 waits for events; its process has a connection that is still being made, or one that is quiet.
    fn connection(state: u8) -> (&'static str, Option<u32>) {
        let to = inet("tcp", 5, "10.0.0.1:5000", "10.0.0.2:80", state);
        let own = Fact { at_ns: LOOK_NS, ..endpoint(10, "app", to) };
        led(vec![own, stands(of_ten(10), place("epoll_wait", NO_ARGS, None))])
    }

    #[test]
    fn a_connection_that_is_being_made_awaits_an_answer_and_a_quiet_one_does_not() {
        const TCP_ESTABLISHED: u8 = 1;
        assert_eq!(connection(TCP_SYN_SENT).0, "unanswered");
        assert_eq!(connection(TCP_ESTABLISHED).0, "");
    }
}
