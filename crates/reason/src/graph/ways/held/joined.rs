//! pthread_join: the thread whose end is waited for.
//!
//! It waits on the joined thread's id in its own descriptor, which the kernel clears as that thread ends. The kernel wakes it by a word that is shared
//! (mm_release, kernel/fork.c), so a private one is none, whatever it has: the conditions of Rust and glibc count in theirs, and come by every number.
//! Must not: take a word of another process for an id.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::programs::lock_kind::LockKind;
use crate::waits::WaitClass;
use crate::waits::futex_value::{expected_word, is_private, may_be_a_count};
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack::lock_kind_of;

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
    let word = expected_word(&wait.place).filter(|_| !is_private(&wait.place));
    let tid = word.filter(|tid| *tid > 2)?;
    // In a PID namespace numbers are small, and a latch of C++ waits for its count by a word that is not private either.
    let threads = || index.families.threads_of(&[wait.thread.pid]).len();
    let kind = || lock_kind_of(index.model, &wait.thread, wait.begin_ns, wait.end_ns);
    if may_be_a_count(tid, threads()) && kind() != Some(LockKind::Join) {
        return None;
    }
    index.families.numbered(&wait.thread, tid, wait.begin_ns)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};

    #[test]
    fn whose_id_is_waited_for_is_joined_and_a_word_of_another_process_is_none() {
        // FUTEX_WAIT_BITSET by the clock, with and without FUTEX_PRIVATE_FLAG.
        let waits = |op: u64, tid: u64| {
            stands(of_ten(10), place("futex", [0x7000, op, tid, 0, 0, 0], None))
        };
        let joins = |tid: u64| waits(265, tid);
        let sleeps = |who| stands(who, place("nanosleep", NO_ARGS, None));
        let counts = vec![waits(265 | 128, 12), sleeps(of_ten(12))];
        assert_ne!(led(counts).0, "joined thread", "a condition that was signalled twelve times");
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
