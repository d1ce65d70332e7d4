//! A thread of a server that takes its work by a word in memory: who signals that word hands it the next piece, and holds nothing.
//!
//! It looks like a lock that the signaller let go of, after a word of his own client. What tells them apart: whoever waits for what the
//! thread does next has signalled the same word before, for his own sake. The word of a lock is not where a request is handed over.
//!
//! Or wait after wait was ended by a thread that one word of its client had just reached (a queue in a server: one client takes out what
//! another puts in). Who holds a row has had a word of his client before, to take it, and another to let it go. Now and then nobody waits yet as
//! something is put in: that word lets nobody go on.
//! Must not: take a lock for such a word where the waiter's own functions say that it is one. Rejected: whether the thread waits on the word
//! again and again (so does whoever wants a busy lock).
//!
//! Edit together: waker.rs (the same thread, without that reason), graph/leaf.rs (what is held).

use crate::facts::{Ns, ThreadRef};
use crate::graph::conversation::{PAUSE_MAX, WAITS_LOOKED_AT};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::is_for_a_question;
use crate::graph::wakers::waker;
use crate::graph::ways::way::{Waiter, Way};
use crate::model::object::Object;
use crate::programs::lock_kind::LockKind;
use crate::threshold::Threshold;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, user_stack};

/// From so many on words of clients bring what a thread waits for.
static HAND_OVERS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "waits in a row that a single word of another thread's client ended: once or twice a transaction may end so",
    "chosen, as for subscriptions",
);

/// Part of the words of a client that let somebody go on.
static HANDED_MIN: Threshold = Threshold::new(
    0.75,
    "1",
    "part of the words of a client that let another thread go on at once: of two words for each lock, to take it and to let it go, it is three of five \
     at most, and a queue into which more is put than is taken at once still has most of them",
    "chosen, for three hand-overs at least",
);

/// Who waits again on a unix socket so soon has read nothing.
static AGAIN_MAX: Threshold = Threshold::new(
    0.02,
    "ms",
    "from the end of a wait on a unix socket to the next one there: whoever reads the answer at the other end wakes the server as well \
     (unix_write_space, net/unix/af_unix.c), and to read a word and answer it takes longer",
    "measured: 7 to 15 us after such a wake-up, 210 us and more after a word to a queue of multiprocessing's",
);

/// Why it is whoever signalled.
pub(in crate::graph) const BECAUSE: &str = "it handed the thread its next piece of work";
/// Why it is who serves another client.
pub(in crate::graph) const BECAUSE_OF_WORDS: &str =
    "a word of its client let a thread that waited so go on, each time";

/// The way by the asker's own signal.
pub(super) static WAY: Way = Way {
    name: "handed work",
    because: BECAUSE,
    of: &[WaitClass::FutexWait],
    thresholds: &[],
    follow: |at| of_no_lock(at, handed_by_asker(at)),
};

/// The way by the words of another client.
pub(super) static BY_WORDS: Way = Way {
    name: "word of another client",
    because: BECAUSE_OF_WORDS,
    of: &[WaitClass::FutexWait],
    thresholds: &[&HAND_OVERS_MIN, &HANDED_MIN, &AGAIN_MAX, &PAUSE_MAX],
    follow: |at| of_no_lock(at, brought_by_words(at.index, at.wait)),
};

/// Whoever signalled, unless the waiter's own functions say that it is a lock.
fn of_no_lock(at: &Waiter<'_>, by: Option<ThreadRef>) -> Option<Next> {
    let wait = at.wait;
    let kind =
        || user_stack::lock_kind_of(at.index.model, &wait.thread, wait.begin_ns, wait.end_ns);
    by.filter(|_| !kind().is_some_and(LockKind::is_held)).map(Next::Thread)
}

/// Who signalled, where the asker has signalled the same word before.
fn handed_by_asker(at: &Waiter<'_>) -> Option<ThreadRef> {
    let (index, wait) = (at.index, at.wait);
    let is_own = |pid: u32| pid == wait.thread.pid;
    let asker = at.asker.filter(|asker| is_own(asker.who.pid))?;
    let by = waker(index, wait).filter(|by| is_own(by.pid))?;
    let word = wait.word()?;
    let by_asker = |by| index.model.threads.is_same(&by, asker.who);
    let mut before = index.waits.before(wait).iter().rev().take(WAITS_LOOKED_AT);
    before.any(|it| it.word() == Some(word) && waker(index, it).is_some_and(by_asker)).then_some(by)
}

/// Who brings what a thread of a server waits for, where its waits were ended by threads each of whose words of a client let somebody go on: whoever ended
/// this one, or, while it stands, the last.
fn brought_by_words(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let own = waker(index, wait);
    if own.is_none() && !wait.standing {
        return None;
    }
    let before = index.waits.before(wait).iter().rev().take(WAITS_LOOKED_AT);
    let after = index.waits.after(wait).iter().take(WAITS_LOOKED_AT);
    let all = before.chain([wait]).chain(after);
    // Short waits for the turn of another thread's, as for an interpreter's lock, say nothing.
    let lasts = |it: &&WaitSpan| it.class == wait.class && it.end_ns - it.begin_ns > PAUSE_MAX.ns();
    let ended = all.filter(lasts).filter_map(|it| Some((it, waker(index, it)?)));
    let mut hand_overs: Vec<(&WaitSpan, ThreadRef)> = ended.collect();
    hand_overs.sort_by_key(|(it, _)| it.end_ns);
    let (first, last) = (hand_overs.first()?.0.begin_ns, hand_overs.last()?.0.end_ns);
    let is_often = hand_overs.len() >= HAND_OVERS_MIN.count();
    let is_word = |(it, by): &(&WaitSpan, ThreadRef)| {
        by.pid == wait.thread.pid && is_brought_by_a_word(index, it, by)
    };
    let mut by_whom: Vec<&ThreadRef> = hand_overs.iter().map(|(_, by)| by).collect();
    by_whom.sort_by_key(|by| by.tid);
    by_whom.dedup_by_key(|by| by.tid);
    let is_queue = is_often
        && hand_overs.iter().all(is_word)
        && by_whom.iter().all(|by| hands_words_on(index, by, (first, last)));
    is_queue.then(|| own.or_else(|| hand_overs.pop().map(|(_, by)| by))).flatten()
}

/// Whether a thread ended a wait as a word of its client reached it.
fn is_brought_by_a_word(index: &Index<'_>, wait: &WaitSpan, by: &ThreadRef) -> bool {
    let from = wait.end_ns.saturating_sub(PAUSE_MAX.ns());
    words(index, by, (from, wait.end_ns)).next().is_some()
}

/// Whether most words that a thread's client said within a time let another thread of the process go on at once.
fn hands_words_on(index: &Index<'_>, by: &ThreadRef, within: (Ns, Ns)) -> bool {
    let threads = index.families.threads_of(&[by.pid]);
    let is_handed = |word: &&WaitSpan| {
        let at_once = word.end_ns..=word.end_ns.saturating_add(PAUSE_MAX.ns());
        let is_let_go = |it: &WaitSpan| {
            let is_by = |waker: ThreadRef| index.model.threads.is_same(&waker, by);
            at_once.contains(&it.end_ns)
                && it.class == WaitClass::FutexWait
                && waker(index, it).is_some_and(is_by)
        };
        let near = |thread| index.waits.within(thread, *at_once.start(), *at_once.end() + 1);
        threads.iter().any(|thread| near(thread).iter().any(is_let_go))
    };
    let all = words(index, by, within).take(WAITS_LOOKED_AT);
    let (handed, others): (Vec<_>, Vec<_>) = all.partition(is_handed);
    handed.len() as f64 >= HANDED_MIN.value * (handed.len() + others.len()) as f64
}

/// The waits of a thread for the next word of a client that ended within a time.
fn words<'a>(
    index: &Index<'a>,
    by: &ThreadRef,
    (from, to): (Ns, Ns),
) -> impl Iterator<Item = &'a WaitSpan> {
    let its = index.waits.within(by, from, to).iter();
    let its = its.filter(|it| it.class != WaitClass::RunQueue);
    its.filter(move |it| {
        (from..=to).contains(&it.end_ns) && is_for_a_question(index, it) && !is_no_word(index, it)
    })
}

/// Whether a wait on a unix socket ended as its other end read, and brought no word.
fn is_no_word(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let mut end_ns = wait.end_ns;
    let next = index.waits.after(wait).iter().find(|it| {
        let is_same = it.place.syscall == wait.place.syscall && it.begin_ns <= end_ns;
        let is_ready = it.class == WaitClass::RunQueue && is_same;
        end_ns = if is_ready { it.end_ns } else { end_ns };
        !is_ready
    });
    matches!(wait.object, Object::Unix(_))
        && next.is_some_and(|next| {
            let is_again = next.object == wait.object && next.place.syscall == wait.place.syscall;
            is_again && next.begin_ns.saturating_sub(end_ns) <= AGAIN_MAX.ns()
        })
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::chains::Chains;
    use crate::graph::index::Index;
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

    /// Thread 22 of a server waits three times for 400 ms for a word that thread 23 signals once its client 30 has said something; before each wait too,
    /// where it takes what 22 then waits for, or puts in what nobody waits for. What names the end, and why 23 is who is followed.
    fn signalled(before: &[u64]) -> (Option<usize>, Option<&'static str>) {
        let near = || inet("tcp", 5, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let far = || inet("tcp", 6, "127.0.0.1:80", "127.0.0.1:5000", 1);
        let mut facts = host();
        facts.extend([
            endpoint(20, "broker", inet("tcp", 1, "127.0.0.1:80", "0.0.0.0:0", 10)),
            descriptor(20, 8, "broker", far()),
            endpoint(30, "client", near()),
        ]);
        for at_ms in [0, 500, 1_000] {
            let mut said = |times| {
                let by = (WakeContext::SoftInterrupt, thread(30, "client"));
                facts.push(waits(of_broker(23), ("recvfrom", 0, Some(far())), times, by));
            };
            // To take it, before 22 wants it, and to let go.
            if before.contains(&at_ms) {
                said((at_ms, at_ms + 20));
            }
            said((at_ms + 21, at_ms + 448));
            let by = (WakeContext::Task, of_broker(23));
            let times = (at_ms + 50, at_ms + 449);
            facts.push(waits(of_broker(22), ("futex", 0x7000, None), times, by));
        }
        let Observed { model, timelines } = Observed::new(facts);
        let chains = Chains::new(&model, &timelines);
        let leaves = chains.follow(&of_broker(22), 550 * MS, 949 * MS);
        let longest = leaves.iter().max_by_key(|leaf| leaf.ns()).expect("a leaf");
        (longest.named(), longest.links[0].because)
    }

    #[test]
    fn who_reads_at_the_other_end_says_no_word() {
        let is_no_word = |object: ObjectRef, after_ns: Ns| {
            let reads = |begin_ns: Ns, end_ns: Ns| {
                let at = ("read", 0, Some(object.clone()));
                let by = (WakeContext::Task, thread(30, "client"));
                let mut fact = waits(of_broker(23), at, (0, 0), by);
                if let Body::Wait(wait) = &mut fact.body {
                    (wait.begin_ns, wait.end_ns) = (begin_ns, end_ns);
                    wait.wake.iter_mut().for_each(|wake| wake.at_ns = end_ns);
                }
                fact
            };
            let facts = vec![reads(MS, 2 * MS), reads(2 * MS + after_ns, 9 * MS)];
            let Observed { model, timelines } = Observed::new([host(), facts].concat());
            let index = Index::new(&model, &timelines);
            timelines.waits().next().is_some_and(|first| super::is_no_word(&index, first))
        };
        let unix = || ObjectRef::Unix { ino: 6, peer_ino: 5, path: None };
        assert!(is_no_word(unix(), 10_000));
        assert!(!is_no_word(unix(), 200_000), "it has read a word, and answered");
        let far = || inet("tcp", 6, "127.0.0.1:80", "127.0.0.1:5000", 1);
        assert!(!is_no_word(far(), 10_000), "that wakes nobody who reads");
    }

    #[test]
    fn what_one_word_of_a_client_brings_each_time_is_a_queue_and_no_row() {
        let queue = (None, Some(super::BECAUSE_OF_WORDS));
        assert_eq!(signalled(&[]), queue);
        assert_eq!(signalled(&[500]), queue, "a word that finds nobody");
        let (row, because) = signalled(&[0, 500, 1_000]);
        assert!(
            row == Some(0) && because != Some(super::BECAUSE_OF_WORDS),
            "one to take it, one to let go"
        );
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
