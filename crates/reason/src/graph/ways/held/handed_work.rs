//! A thread of a server that takes its work by a word in memory: who signals that word hands it the next piece, and holds nothing.
//!
//! It looks like a lock that the signaller let go of, after a word of his own client. What tells them apart: whoever waits for what the
//! thread does next has signalled the same word before, for his own sake. The word of a lock is not where a request is handed over.
//! Must not: take a lock for such a word where the waiter's own functions say that it is one. Rejected: whether the thread waits on the word
//! again and again (so does whoever wants a busy lock).
//!
//! Edit together: waker.rs (the same thread, without that reason), graph/leaf.rs (what is held).

use crate::graph::conversation::WAITS_LOOKED_AT;
use crate::graph::next::Next;
use crate::graph::wakers::waker;
use crate::graph::ways::way::{Waiter, Way};
use crate::programs::lock_kind::LockKind;
use crate::waits::{WaitClass, user_stack};

/// Why it is whoever signalled.
pub(in crate::graph) const BECAUSE: &str = "it handed the thread its next piece of work";

/// The way.
pub(super) static WAY: Way = Way {
    name: "handed work",
    because: BECAUSE,
    of: &[WaitClass::FutexWait],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (index, wait) = (at.index, at.wait);
    let is_own = |pid: u32| pid == wait.thread.pid;
    let asker = at.asker.filter(|asker| is_own(asker.who.pid))?;
    let by = waker(index, wait).filter(|by| is_own(by.pid))?;
    let word = wait.word()?;
    let by_asker = |by| index.model.threads.is_same(&by, asker.who);
    let mut before = index.waits.before(wait).iter().rev().take(WAITS_LOOKED_AT);
    let is_handed =
        before.any(|it| it.word() == Some(word) && waker(index, it).is_some_and(by_asker));
    let kind = || user_stack::lock_kind_of(index.model, &wait.thread, wait.begin_ns, wait.end_ns);
    (is_handed && !kind().is_some_and(LockKind::is_held)).then_some(Next::Thread(by))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::chains::Chains;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, descriptor, endpoint, host, thread};
    use crate::waits::WaitClass;
    use crate::waits::timeline::Observed;

    const MS: Ns = 1_000_000;

    fn of_broker(tid: u32) -> ThreadRef {
        ThreadRef { tid, ..thread(20, "broker") }
    }

    fn waits(
        thread: ThreadRef,
        (syscall, word, object): (&str, u64, Option<ObjectRef>),
        (begin_ms, end_ms): (Ns, Ns),
        (context, by): (WakeContext, ThreadRef),
    ) -> Fact {
        let args = [word, u64::from(word != 0) * 128, 0, 0, 0, 0];
        let place = Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            args,
            object,
            ..Place::default()
        };
        let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
        let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    /// Process 10 asks the broker's thread 21, which signals its thread 22 on a word at 101 ms and waits for a pipe of that; thread 23, whom
    /// the worker 30 answers at 2,000 ms in that call, signals 22 on another word or the same. What names the end, and who is at it.
    fn named(second_word: u64, call: &str) -> (Option<WaitClass>, u32) {
        const WORD: u64 = 0x7000;
        let task = |by: ThreadRef| (WakeContext::Task, by);
        let packet = |by: ThreadRef| (WakeContext::SoftInterrupt, by);
        let to_broker = || inet("tcp", 5, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let of_worker = || inet("tcp", 7, "127.0.0.1:80", "127.0.0.1:6000", 1);
        let clock = (WakeContext::HardInterrupt, thread(0, "swapper"));
        let mut facts = host();
        facts.extend([
            endpoint(20, "broker", inet("tcp", 1, "127.0.0.1:80", "0.0.0.0:0", 10)),
            descriptor(20, 8, "broker", inet("tcp", 6, "127.0.0.1:80", "127.0.0.1:5000", 1)),
            descriptor(20, 9, "broker", of_worker()),
            endpoint(10, "client", to_broker()),
            endpoint(30, "worker", inet("tcp", 8, "127.0.0.1:6000", "127.0.0.1:80", 1)),
            waits(of_broker(22), ("futex", WORD, None), (0, 101), task(of_broker(21))),
            waits(of_broker(22), ("futex", second_word, None), (102, 2_001), task(of_broker(23))),
            waits(
                of_broker(23),
                (call, 0, Some(of_worker())),
                (102, 2_000),
                packet(thread(30, "worker")),
            ),
            waits(thread(30, "worker"), ("clock_nanosleep", 0, None), (102, 1_999), clock),
            waits(
                of_broker(21),
                ("epoll_wait", 0, Some(ObjectRef::Pipe { ino: 40 })),
                (102, 2_002),
                task(of_broker(22)),
            ),
            waits(
                thread(10, "client"),
                ("recvfrom", 0, Some(to_broker())),
                (100, 2_003),
                packet(of_broker(21)),
            ),
        ]);
        let Observed { model, timelines } = Observed::new(facts);
        assert!(model.look.end_ns >= LOOK_NS);
        let chains = Chains::new(&model, &timelines);
        let leaves = chains.follow(&thread(10, "client"), 100 * MS, 2_003 * MS);
        let longest = leaves.iter().max_by_key(|leaf| leaf.ns()).expect("a leaf");
        (longest.named().map(|at| longest.links[at].class), longest.root().who.pid)
    }

    #[test]
    fn who_hands_over_work_on_the_word_where_the_asker_did_holds_nothing() {
        assert_eq!(named(0x7000, "epoll_wait"), (None, 30));
        assert_eq!(named(0x7004, "epoll_wait"), (None, 30), "a condition's other word");
        let locked = (Some(WaitClass::FutexWait), 30);
        assert_eq!(named(0x8000, "recvfrom"), locked, "that may be a lock");
        assert_eq!(named(0x8000, "epoll_wait"), (None, 30), "a loop that serves all");
    }
}
