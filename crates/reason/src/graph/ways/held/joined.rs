//! pthread_join: the thread whose end is waited for.
//!
//! It waits on the joined thread's id in its own descriptor, which the kernel clears as that thread ends. Must not: take a word of
//! another process for an id.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// Why it is whoever is found.
pub(in crate::graph) const BECAUSE: &str =
    "the word that is waited for is its thread id: it is joined";

/// The way.
pub(super) static WAY: Way = Way {
    name: "joined thread",
    because: BECAUSE,
    of: &[WaitClass::FutexWait],
    thresholds: &[],
    follow: |at| joined(at.index, at.wait).map(Next::Thread),
};

/// pthread_join waits on the joined thread's id in its own descriptor.
fn joined(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let [_, _, expected, ..] = wait.place.args;
    let tid = u32::try_from(expected).ok().filter(|tid| *tid > 2)?;
    index.families.numbered(&wait.thread, tid, wait.begin_ns)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};

    #[test]
    fn whose_id_is_waited_for_is_joined_and_a_word_of_another_process_is_none() {
        let joins =
            |tid: u64| stands(of_ten(10), place("futex", [0x7000, 128, tid, 0, 0, 0], None));
        let sleeps = |who| stands(who, place("nanosleep", NO_ARGS, None));
        let own = vec![joins(12), sleeps(of_ten(12))];
        assert_eq!(led(own), ("joined thread", Some(12)));
        let inside = |tid: u32, inner_tid: u32| {
            let inner = Some(inner_tid);
            let thread = Thread {
                thread: of_ten(tid),
                inner_tid: inner,
                inner_pid: Some(1),
                ..Thread::default()
            };
            crate::rules::scenes::identity(thread)
        };
        let container = vec![
            inside(10, 1),
            inside(12, 7),
            inside(13, 12),
            joins(12),
            sleeps(of_ten(12)),
            sleeps(of_ten(13)),
        ];
        assert_eq!(led(container), ("joined thread", Some(13)), "by its number in there");
        let other = ThreadRef { tid: 12, pid: 20, ..of_ten(12) };
        assert_ne!(led(vec![joins(12), sleeps(other)]).0, "joined thread");
    }
}
