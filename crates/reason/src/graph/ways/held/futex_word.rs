//! A futex that says its owner's thread id: read from the waiter's own memory, or in what the waiter expects there.
//!
//! A futex with priority inheritance has it in the word, as a robust mutex has; a mutex of glibc beside it. Must not:
//! take a word that has no owner for a lock that nobody has, or believe what a waiter expects of one that has let go since.

use crate::facts::{FutexOwner, Ns, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::futex_value::{expected_word, is_private, may_be_a_count, owner_in};
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack;

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
    let read = index.waits.futexes_of(&wait.thread).iter().rev().filter(|(at, owner)| {
        is_of(index, wait, owner, address)
            && *at >= wait.begin_ns
            && *at <= wait.end_ns + READ_AFTER_MAX.ns()
    });
    let is_owned = |owner: &FutexOwner| owner.owner_tid != 0 || owner_in(owner.word).is_some();
    let Some(owner) = read.clone().find(|(_, owner)| is_owned(owner)) else {
        // Who has let go since wakes the waiter, and is known by that. A word that was read says more.
        let is_all = wait.wake.is_none() && read.clone().next().is_none();
        let expected = expected_word(&wait.place).filter(|_| is_all).and_then(owner_in)?;
        return numbered(index, wait, expected, wait.begin_ns);
    };
    if owner.1.owner_tid == 0 {
        return numbered(index, wait, owner_in(owner.1.word)?, owner.0);
    }
    let tid = owner.1.owner_tid;
    let mut thread = index.model.threads.thread_ref_at(tid, owner.0);
    if thread.comm.is_empty() {
        thread = ThreadRef { tid, start_ns: thread.start_ns, ..wait.thread.clone() };
    }
    Some(thread)
}

/// Whether a reading is of the word that a wait is for; what a runtime's own list says is of a wait for a mutex of its language alone.
fn is_of(index: &Index<'_>, wait: &WaitSpan, owner: &FutexOwner, address: u64) -> bool {
    let stack = || index.model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    owner.address == address
        || owner.address == 0 && stack().is_some_and(|it| user_stack::wants_mutex(&it.frames))
}

/// Who has a number in a word: a thread of the waiter's process, or of a word that processes share any of this host's.
fn numbered(index: &Index<'_>, wait: &WaitSpan, tid: u32, at_ns: Ns) -> Option<ThreadRef> {
    let threads = &index.model.threads;
    let waiter = threads.by_id.get(&wait.thread.tid);
    let is_contained = waiter.is_some_and(|known| known.inner_tid.is_some());
    let all = index.families.threads_of(&[wait.thread.pid]).len();
    if is_contained && may_be_a_count(tid, all) {
        return None;
    }
    let of_another = || threads.named_at(tid, at_ns).filter(|_| !is_contained).cloned();
    let own = index.families.numbered(&wait.thread, tid, at_ns);
    if is_private(&wait.place) { own } else { own.or_else(of_another) }
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
            let owner =
                FutexOwner { waiter: of_ten(10), address, word: 12, owner_tid: 12, gone_tid: 0 };
            Fact { at_ns: LOOK_NS, body: Body::FutexOwner(owner) }
        };
        assert_eq!(led(vec![waits(), read(LOCK[0])]), ("futex word", Some(12)));
        assert_ne!(led(vec![waits(), read(0x8000)]).0, "futex word", "another word");
    }

    #[test]
    fn what_a_runtimes_own_list_says_is_of_a_wait_for_a_mutex_and_of_no_other() {
        let read_in = |function: &str| {
            let owner =
                FutexOwner { waiter: of_ten(10), address: 0, word: 0, owner_tid: 12, gone_tid: 0 };
            let frame = UserFrame {
                function: function.into(),
                module: "libruby-3.1.so.3.1".into(),
                ..UserFrame::default()
            };
            let stack =
                UserStack { thread: of_ten(10), since_ns: 0, frames: vec![frame], complete: true };
            let fact = |body| Fact { at_ns: LOOK_NS, body };
            let waits = stands(of_ten(10), place("futex", LOCK, None));
            led(vec![waits, fact(Body::FutexOwner(owner)), fact(Body::UserStack(stack))])
        };
        assert_eq!(read_in("rb_mutex_lock"), ("futex word", Some(12)));
        assert_ne!(read_in("rb_queue_pop").0, "futex word");
    }

    #[test]
    fn who_is_in_the_word_itself_has_a_robust_mutex_of_this_process_or_of_another() {
        const WITH_WAITERS: u32 = 0x8000_0000;
        let of_another = || ThreadRef { pid: 30, ..of_ten(30) };
        let word = |tid: u32| u64::from(WITH_WAITERS | tid);
        let sleeps = |who| stands(who, place("nanosleep", [0; 6], None));
        let all = |operation, tid| {
            let waits =
                stands(of_ten(10), place("futex", [0x7000, operation, word(tid), 0, 0, 0], None));
            vec![waits, sleeps(of_ten(12)), sleeps(of_ten(13)), sleeps(of_another())]
        };
        assert_eq!(led(all(128, 12)), ("futex word", Some(12)));
        assert_eq!(led(all(0, 30)), ("futex word", Some(30)), "processes share it");
        assert_ne!(led(all(128, 30)).0, "futex word", "nobody else can have it");
        let owner = FutexOwner {
            waiter: of_ten(10),
            address: 0x7000,
            word: WITH_WAITERS | 13,
            owner_tid: 0,
            gone_tid: 0,
        };
        let read = Fact { at_ns: LOOK_NS, body: Body::FutexOwner(owner) };
        assert_eq!(led([all(128, 12), vec![read]].concat()), ("futex word", Some(13)), "by now");
    }
}
