//! A process whose first thread has ended: whichever of the others matters.
//!
//! The process goes on as long as one of its threads does. Must not: look at threads of other processes.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::held_up;
use crate::graph::ways::way::Way;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "outliving thread",
    because: "its process goes on in it, after the first thread has ended",
    of: &[WaitClass::EndedThread],
    thresholds: &[],
    follow: |at| outliving(at.index, at.wait).map(Next::Thread),
};

/// Who of a process whose first thread has ended is waited for: whichever of the others matters.
fn outliving(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let lives = |thread: &ThreadRef| {
        let last = index.waits.of(thread).last();
        last.is_none_or(|last| last.class != WaitClass::EndedThread)
            && index.families.died_ns(index.model.threads.key(thread)).is_none()
    };
    let mut others = index.families.threads_of(&[wait.thread.pid]);
    others.retain(lives);
    let busiest = |thread: &&ThreadRef| {
        let held_ns = held_up(index, thread, wait.begin_ns, wait.end_ns);
        (held_ns.max(index.waits.ran_ns(thread)), std::cmp::Reverse(thread.tid))
    };
    others.iter().max_by_key(busiest).cloned()
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::LOOK_NS;

    #[test]
    fn the_process_goes_on_in_the_thread_that_is_held_up() {
        let first = place("", NO_ARGS, None);
        let first = stands(of_ten(10), Place { state: WaitState::Ended, ..first });
        let reads = place("recvfrom", NO_ARGS, Some(ObjectRef::Pipe { ino: 7 }));
        let other = stands(of_ten(12), reads);
        let thread = of_ten(12);
        let lives = ThreadTime { thread, until_ns: LOOK_NS, ..ThreadTime::default() };
        let lives = Fact { at_ns: LOOK_NS, body: Body::ThreadTime(lives) };
        assert_eq!(led(vec![first, other, lives]), ("outliving thread", Some(12)));
    }
}
