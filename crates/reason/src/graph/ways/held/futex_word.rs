//! A futex that says its owner's thread id: read from the waiter's own memory.
//!
//! A futex with priority inheritance has it in the word, a mutex of glibc beside it. Must not: take a word that has no owner for a
//! lock that nobody has.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// A reading is of a wait up to so long after it.
static READ_AFTER_MAX: Threshold = Threshold::new(
    10.0,
    "ms",
    "from the end of a wait to the reading of its word: a later one may have the next owner",
    "chosen",
);

/// The way.
pub(super) static WAY: Way = Way {
    name: "futex word",
    because: "the futex itself holds its thread id",
    of: &[WaitClass::FutexLock],
    thresholds: &[&READ_AFTER_MAX],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let owner = || futex_owner(at.index, at.wait).map(Next::Thread);
    (!at.is_for_an_interpreter()).then(owner).flatten()
}

fn futex_owner(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let [address, ..] = wait.place.args;
    let read = index.waits.futexes_of(&wait.thread);
    let owner = read.iter().rev().find(|(at, owner)| {
        owner.address == address
            && owner.owner_tid != 0
            && *at >= wait.begin_ns
            && *at <= wait.end_ns + READ_AFTER_MAX.ns()
    })?;
    let tid = owner.1.owner_tid;
    let mut thread = index.model.threads.thread_ref_at(tid, owner.0);
    if thread.comm.is_empty() {
        thread = ThreadRef { tid, start_ns: thread.start_ns, ..wait.thread.clone() };
    }
    Some(thread)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{LOCK, led, of_ten, place, stands};
    use crate::rules::scenes::LOOK_NS;

    #[test]
    fn who_is_in_the_word_has_the_lock_and_nobody_else() {
        let waits = || stands(of_ten(10), place("futex", LOCK, None));
        let read = |address| {
            let owner = FutexOwner { waiter: of_ten(10), address, word: 12, owner_tid: 12 };
            Fact { at_ns: LOOK_NS, body: Body::FutexOwner(owner) }
        };
        assert_eq!(led(vec![waits(), read(LOCK[0])]), ("futex word", Some(12)));
        assert_ne!(led(vec![waits(), read(0x8000)]).0, "futex word", "another word");
    }
}
