//! vfork: the child that has the parent's memory until it executes a program.
//!
//! It is the last that the thread had begun by then; where that was not seen, as of any other child. Must not: look at what the child does.

use super::child::child;
use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::wakers::waker;
use crate::graph::ways::way::Way;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The child is begun by the call that then waits for it.
static BEGUN_AFTER_MAX: Threshold = Threshold::new(
    1.0,
    "ms",
    "from the begin of the wait to the event that says that the child was begun",
    "chosen: both are of one system call",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "vfork child",
    because: "it has its parent's memory until it executes a program",
    of: &[WaitClass::Vfork],
    thresholds: &[&BEGUN_AFTER_MAX],
    follow: |at| vfork_child(at.index, at.wait).map(Next::Thread),
};

fn vfork_child(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let begun = index.families.begun_by(&wait.thread);
    let until = begun.partition_point(|(at_ns, _)| *at_ns <= wait.begin_ns + BEGUN_AFTER_MAX.ns());
    let before = begun[..until].last();
    before
        .map(|(_, fork)| index.model.threads.present(&fork.child))
        .or_else(|| waker(index, wait))
        .or_else(|| child(index, wait))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::thread;

    #[test]
    fn the_child_that_was_begun_last_by_then_is_it() {
        let begun = |at_ns: Ns, pid| {
            let fork = Fork { parent: of_ten(10), child: thread(pid, "job"), flags: 0 };
            Fact { at_ns, body: Body::Fork(fork) }
        };
        let waits = stands(of_ten(10), place("vfork", NO_ARGS, None));
        let facts = vec![begun(0, 20), begun(1_000_000_000, 21), waits];
        assert_eq!(led(facts), ("vfork child", Some(20)));
    }
}
