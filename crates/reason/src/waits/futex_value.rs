//! What the value that a futex is waited for says: a lock by its owner's number, or by a 2 for which something else speaks too.
//!
//! A 2 is "locked, with waiters" in the mutexes of glibc, Rust and Go. It also is what each condition of musl waits for, on a word of
//! the waiter's own stack, and any counter of signals that has come to 2 (Rust's Condvar, a condition of glibc 2.41), for which a whole pool may
//! wait. So a 2 counts only where a second thread waits for the same word, its owner stands beside it, or only a mutex is waited for in
//! that way: glibc's mutexes use the plain wait, its conditions the one with a bit set, while musl has the plain one alone. Where
//! a bit is set two waiters say nothing, until one waits for the same 2 after another was let go: a counter would have moved on. And two that
//! stand all the look while nobody is let go: those of a pool that rests have mostly begun at different counts. A robust mutex of either, and
//! musl's kinds that check for errors, have their owner's number in the word, with FUTEX_WAITERS; musl's plain mutex has EBUSY there, and its
//! inner locks and the read-write locks of musl and Rust a count. Without an owner in sight a 2 is no lock either while whoever else there is in
//! the process rests: C++'s std::atomic::wait waits for any value.
//!
//! Owns what a value and an address say. Must not: say of a single wait what its stack says (timeline.rs, which asks it after this; here a stack
//! speaks for all waiters of its word), or say who has it (graph/).
//! Rejected: the value alone, by which every idle worker on musl waits for a lock. Edit together: classify.rs, futex_handoff.rs.

use super::WaitClass;
use super::span::WaitSpan;
use super::user_stack;
use crate::facts::{Ns, Place, WakeContext};
use crate::model::{Model, ThreadKey};
use crate::programs::lock_kind::LockKind;
use std::collections::{HashMap, HashSet};

/// "Locked, with waiters" in mutexes that follow Drepper, "Futexes are tricky".
pub const WITH_WAITERS: u64 = 2;
/// With readers or a writer that wait, in the words of glibc's read-write locks, which have the 2 too.
const RWLOCK_TAKEN: u64 = 3;

/// include/uapi/linux/futex.h.
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_CMD_MASK: u64 = 127;
const FUTEX_PRIVATE_FLAG: u64 = 128;
const FUTEX_WAITERS: u32 = 0x8000_0000;
const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
/// Set by the kernel where an owner has died, with no owner; and by Rust's read-write lock beside a count.
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
/// What musl's plain mutex has for an owner.
const EBUSY: u32 = 16;
/// Linux's PID_MAX_LIMIT: what is greater is no thread's number.
pub const PID_MAX_LIMIT: u32 = 4 << 20;

/// The number of the thread that has a lock, as its own process knows it, if a word has that and that others wait.
pub fn owner_in(word: u32) -> Option<u32> {
    let tid = word & FUTEX_TID_MASK;
    let is_owned = word & (FUTEX_WAITERS | FUTEX_OWNER_DIED) == FUTEX_WAITERS;
    (is_owned && tid != 0 && tid != EBUSY && tid <= PID_MAX_LIMIT).then_some(tid)
}

/// Whether a number may be a count instead of a thread's: of waiters or readers, of which a process has no more than threads.
pub fn may_be_a_count(tid: u32, threads: usize) -> bool {
    usize::try_from(tid).is_ok_and(|count| count <= threads)
}

/// The word that a call of futex(2) waits to change.
pub fn expected_word(place: &Place) -> Option<u32> {
    let is_wait = matches!(command(place), FUTEX_WAIT | FUTEX_WAIT_BITSET);
    // An int of the caller's: a negative one has its sign in the upper half.
    (place.syscall == "futex" && is_wait).then_some(place.args[2] as u32)
}

/// Whether no other process can have a part in a call of futex(2).
pub fn is_private(place: &Place) -> bool {
    place.syscall == "futex" && place.args[1] & FUTEX_PRIVATE_FLAG != 0
}

fn command(place: &Place) -> u64 {
    place.args[1] & FUTEX_CMD_MASK
}

/// Makes locks of the waits for a word with an owner, and of those for a 2 only such as something else speaks for.
/// `resting`: threads of which none has a lock, with their process.
pub(super) fn reclassify(
    model: &Model,
    waits: &mut [&mut WaitSpan],
    resting: &HashSet<(u32, u32)>,
) {
    let numbers = Numbers::of(model, waits);
    for wait in waits.iter_mut().filter(|wait| wait.class == WaitClass::FutexWait) {
        let owner = expected_word(&wait.place).and_then(owner_in);
        if owner.is_some_and(|tid| numbers.is_of_a_thread(model, wait, tid)) {
            wait.class = WaitClass::FutexLock;
        }
    }
    let known = Known::of(model, waits, resting);
    let unlike = |wait: &&mut &mut WaitSpan| match is_private(&wait.place) {
        true => is_for_a_two(wait) && !known.is_lock(wait),
        false => is_a_two(wait) && known.is_nobodys(wait),
    };
    for wait in waits.iter_mut().filter(unlike) {
        wait.class = WaitClass::FutexWait;
    }
}

/// A wait in the process alone for a word that is to be a 2: of a shared one the word is on nobody's stack.
fn is_for_a_two(wait: &WaitSpan) -> bool {
    is_a_two(wait) && is_private(&wait.place)
}

/// The same of any word: libstdc++ does not call its own private.
fn is_a_two(wait: &WaitSpan) -> bool {
    wait.class == WaitClass::FutexLock
        && expected_word(&wait.place).map(u64::from) == Some(WITH_WAITERS)
}

/// Threads of containers, by their process and their number in there: only of processes that wait for a word with an owner.
struct Numbers(HashSet<(u32, u32)>);

impl Numbers {
    fn of(model: &Model, waits: &[&mut WaitSpan]) -> Self {
        let has_owner = |wait: &&&mut WaitSpan| {
            wait.class == WaitClass::FutexWait
                && expected_word(&wait.place).and_then(owner_in).is_some()
        };
        let pids: HashSet<u32> = waits.iter().filter(has_owner).map(|it| it.thread.pid).collect();
        if pids.is_empty() {
            return Self(HashSet::new());
        }
        let all = model.threads.by_id.values().filter(|it| pids.contains(&it.thread.pid));
        Self(all.filter_map(|it| Some((it.thread.pid, it.inner_tid?))).collect())
    }

    /// Whether a number is that of another thread of the waiter's process, or for a shared word of any.
    fn is_of_a_thread(&self, model: &Model, wait: &WaitSpan, tid: u32) -> bool {
        let waiter = model.threads.by_id.get(&wait.thread.tid);
        if let Some(own) = waiter.and_then(|it| it.inner_tid) {
            let of_process = self.0.iter().filter(|(pid, _)| *pid == wait.thread.pid).count();
            let is_number = self.0.contains(&(wait.thread.pid, tid));
            return own != tid && is_number && !may_be_a_count(tid, of_process);
        }
        let named = model.threads.named_at(tid, wait.begin_ns);
        let fits = |pid: u32| pid == wait.thread.pid || !is_private(&wait.place);
        tid != wait.thread.tid && named.is_some_and(|it| fits(it.pid))
    }
}

/// A process and the address of a word in its memory.
type Word = (u32, u64);

fn word(wait: &WaitSpan) -> Word {
    (wait.thread.pid, wait.place.args[0])
}

/// What speaks for a lock.
struct Known {
    /// Words that several threads wait for, in a way that counters are not waited for; or in any, one of them after another was let go, or
    /// all the look.
    wanted: HashSet<Word>,
    /// Words that a thread waits for again and again, each time until somebody wakes it.
    repeated: HashSet<Word>,
    /// Words with an owner beside them.
    owned: HashSet<Word>,
    /// Words that were waited for with a value that no lock has: they count.
    counters: HashSet<Word>,
    /// Processes with waits that have a bit set: their C library has them for its conditions.
    with_bitset: HashSet<u32>,
    /// Words that nobody can have.
    nobodys: HashSet<Word>,
}

impl Known {
    fn of(model: &Model, waits: &[&mut WaitSpan], resting: &HashSet<(u32, u32)>) -> Self {
        let mut first: HashMap<Word, ThreadKey> = HashMap::new();
        let mut counters = HashSet::new();
        let let_go = let_go(waits);
        let mut wanted = stood_for(model, waits, &let_go);
        let (mut untimed, mut repeated) = (HashSet::new(), HashSet::new());
        for wait in waits.iter().filter(|wait| is_for_a_two(wait)) {
            let who = model.threads.key(&wait.thread);
            let is_another = *first.entry(word(wait)).or_insert(who) != who;
            let is_after = || {
                let before = let_go.get(&word(wait));
                before.is_some_and(|(ns, tid)| *ns <= wait.begin_ns && *tid != wait.thread.tid)
            };
            if is_another && command(&wait.place) == FUTEX_WAIT || is_after() {
                wanted.insert(word(wait));
            }
            let is_untimed = wait.place.args[3] == 0;
            if is_untimed && !untimed.insert((word(wait), who)) {
                repeated.insert(word(wait));
            }
        }
        let mut with_bitset = HashSet::new();
        for wait in waits.iter() {
            let Some(value) = expected_word(&wait.place).map(u64::from) else { continue };
            if command(&wait.place) == FUTEX_WAIT_BITSET {
                with_bitset.insert(wait.thread.pid);
            }
            if ![WITH_WAITERS, RWLOCK_TAKEN].contains(&value) && first.contains_key(&word(wait)) {
                counters.insert(word(wait));
            }
        }
        let read = model.held.futex_owners.iter().map(|(_, owner)| owner);
        let owned = read.filter(|owner| owner.owner_tid != 0);
        let owned = owned.map(|owner| (owner.waiter.pid, owner.address)).collect();
        let nobodys = had_by_nobody(model, waits, &let_go, resting);
        Self { wanted, repeated, owned, counters, with_bitset, nobodys }
    }

    fn is_lock(&self, wait: &WaitSpan) -> bool {
        if self.counters.contains(&word(wait)) {
            return false;
        }
        let by_libc = || {
            let is_glibcs = self.with_bitset.contains(&wait.thread.pid);
            command(&wait.place) == FUTEX_WAIT && (is_glibcs || !may_be_on_stack(wait))
        };
        // A counter of signals would have moved on meanwhile; musl's condition is on the stack.
        let is_taken_again = || self.repeated.contains(&word(wait)) && !may_be_on_stack(wait);
        let is_wanted = self.wanted.contains(&word(wait)) || by_libc() || is_taken_again();
        self.owned.contains(&word(wait)) || is_wanted && !self.is_nobodys(wait)
    }

    fn is_nobodys(&self, wait: &WaitSpan) -> bool {
        self.nobodys.contains(&word(wait)) && !self.owned.contains(&word(wait))
    }
}

/// When somebody first let go one who waited for a 2, and that one, by word.
fn let_go(waits: &[&mut WaitSpan]) -> HashMap<Word, (Ns, u32)> {
    let mut first: HashMap<Word, (Ns, u32)> = HashMap::new();
    for wait in waits.iter().filter(|wait| is_a_two(wait)) {
        if wait.wake.as_ref().is_some_and(|wake| wake.context == WakeContext::Task) {
            let one = (wait.end_ns, wait.thread.tid);
            let known = first.entry(word(wait)).or_insert(one);
            *known = one.min(*known);
        }
    }
    first
}

/// Words for which two threads or more have stood all the look without a limit, and nobody was let go: a mutex whose owner is stuck looks so. A pool
/// at rest does if all of it has begun to wait at a count of 2, unless a stack says what it is.
fn stood_for(
    model: &Model,
    waits: &[&mut WaitSpan],
    let_go: &HashMap<Word, (Ns, u32)>,
) -> HashSet<Word> {
    let stands = |wait: &WaitSpan| {
        is_for_a_two(wait)
            && wait.standing
            && model.look.began_before(wait.begin_ns)
            && wait.place.args[3] == 0
            && !let_go.contains_key(&word(wait))
    };
    let mut standing: HashMap<Word, Vec<&WaitSpan>> = HashMap::new();
    for wait in waits.iter().filter(|wait| stands(wait)) {
        standing.entry(word(wait)).or_default().push(wait);
    }
    let is_no_lock = |wait: &&WaitSpan| {
        let (from, to) = (wait.begin_ns, wait.end_ns);
        let kind = user_stack::lock_kind_of(model, &wait.thread, from, to);
        kind.is_some_and(|kind| kind == LockKind::Idle || kind.is_no_lock())
    };
    standing.retain(|_, all| {
        all.iter().any(|wait| wait.thread.tid != all[0].thread.tid) && !all.iter().any(is_no_lock)
    });
    standing.into_keys().collect()
}

/// Words that nobody can have: nobody was let go who waits for them, and whoever else there is in the process rests. A joiner does not: it may join
/// who wants what it has itself.
fn had_by_nobody(
    model: &Model,
    waits: &[&mut WaitSpan],
    let_go: &HashMap<Word, (Ns, u32)>,
    resting: &HashSet<(u32, u32)>,
) -> HashSet<Word> {
    let with_resting: HashSet<u32> = resting.iter().map(|(pid, _)| *pid).collect();
    let stands = |wait: &&&mut WaitSpan| {
        with_resting.contains(&wait.thread.pid)
            && is_a_two(wait)
            && wait.standing
            && is_of_one_process(wait)
            && !let_go.contains_key(&word(wait))
    };
    let mut standing: HashMap<Word, HashSet<u32>> = HashMap::new();
    for wait in waits.iter().filter(stands) {
        standing.entry(word(wait)).or_default().insert(wait.thread.tid);
    }
    if standing.is_empty() {
        return HashSet::new();
    }
    let mut others: HashMap<u32, HashSet<u32>> = HashMap::new();
    let is_other = |pid, tid| with_resting.contains(&pid) && !resting.contains(&(pid, tid));
    for it in model.threads.every_thread().filter(|it| is_other(it.pid, it.tid)) {
        others.entry(it.pid).or_default().insert(it.tid);
    }
    standing.retain(|(pid, _), tids| {
        others.get(pid).is_none_or(|all| all.iter().all(|tid| tids.contains(tid)))
    });
    standing.into_keys().collect()
}

/// Whether no other process can have a word: by the call, or as it lies in the program's own data or its heap. Memory that processes share is mapped,
/// where stacks are.
fn is_of_one_process(wait: &WaitSpan) -> bool {
    is_private(&wait.place) || !may_be_on_stack(wait)
}

/// Calls in which nobody has a lock: others may wait for an answer under one.
const RESTS: &[&str] = &["accept", "accept4", "pause", "rt_sigtimedwait", "rt_sigsuspend"];

/// Threads that stand all the look at a connection or a signal that may come, with their process.
pub(super) fn resting<'w>(
    model: &Model,
    waits: impl Iterator<Item = &'w WaitSpan>,
) -> HashSet<(u32, u32)> {
    let rests = |wait: &&WaitSpan| {
        let began_before = model.look.began_before(wait.begin_ns);
        RESTS.contains(&wait.place.syscall.as_str()) && wait.standing && began_before
    };
    waits.filter(rests).map(|wait| (wait.thread.pid, wait.thread.tid)).collect()
}

/// Whether a word may lie on a thread's stack. Stacks, libraries and mapped memory are at the top of the address space, whose size is a
/// power of two (its last sixteenth is far more than they ever fill); a program's own data and its heap are at two thirds of it (ELF_ET_DYN_BASE)
/// or below 2 GiB.
fn may_be_on_stack(wait: &WaitSpan) -> bool {
    /// The highest four bits that a size of the address space has in its last sixteenth.
    const LAST_SIXTEENTH: u64 = 0xf;
    let address = wait.place.args[0];
    let highest = (address << address.leading_zeros()) >> (u64::BITS - 4);
    address >= 1 << 31 && highest == LAST_SIXTEENTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{LOOK_NS, fact, host, identity};
    use crate::waits::timeline::Observed;

    const ON_STACK: u64 = 0x7f3a_1c20_4b30;
    const IN_HEAP: u64 = 0x5581_1c20_4b30;
    const PLAIN: u64 = FUTEX_PRIVATE_FLAG;
    const BITSET: u64 = FUTEX_PRIVATE_FLAG | FUTEX_WAIT_BITSET;

    fn of(tid: u32) -> ThreadRef {
        ThreadRef { tid, pid: 10, start_ns: 1, comm: "app".into() }
    }

    /// Thread `tid` of process 10 waits for a word, until thread 12 ends that.
    fn waits(tid: u32, args: [u64; 3]) -> Fact {
        let [address, operation, expected] = args;
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [address, operation, expected, 0, 0, 0],
            ..Place::default()
        };
        let (end_ns, by) = (LOOK_NS / 2, of(12));
        let wake = Some(Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() });
        fact(Body::Wait(Wait { thread: of(tid), end_ns, place, wake, ..Wait::default() }))
    }

    /// What thread 10 waits for.
    fn class(facts: Vec<Fact>) -> WaitClass {
        let observed = Observed::new([host(), facts].concat());
        let its = observed.timelines.waits().find(|wait| wait.thread.tid == 10);
        its.expect("it waits").class
    }

    #[test]
    fn a_two_on_a_stack_is_a_condition_of_musl_unless_something_speaks_for_a_lock() {
        let own = || waits(10, [ON_STACK, PLAIN, 2]);
        assert_eq!(class(vec![own()]), WaitClass::FutexWait, "an idle worker");
        assert_eq!(class(vec![own(), waits(11, [ON_STACK, PLAIN, 2])]), WaitClass::FutexLock);
        let glibc = waits(11, [IN_HEAP, BITSET, 0]);
        assert_eq!(class(vec![own(), glibc]), WaitClass::FutexLock, "a mutex of glibc's");
        assert_eq!(class(vec![waits(10, [IN_HEAP, PLAIN, 2])]), WaitClass::FutexLock);
        let read =
            FutexOwner { waiter: of(10), address: ON_STACK, word: 2, owner_tid: 12, gone_tid: 0 };
        assert_eq!(class(vec![own(), fact(Body::FutexOwner(read))]), WaitClass::FutexLock);
    }

    #[test]
    fn a_counter_of_signals_that_is_a_two_is_no_lock() {
        let at = |tid, value| waits(tid, [IN_HEAP, BITSET, value]);
        assert_eq!(class(vec![at(10, 2)]), WaitClass::FutexWait, "a Condvar of Rust's");
        assert_eq!(class(vec![at(10, 2), at(11, 2)]), WaitClass::FutexWait, "a pool at rest");
        let mut later = at(11, 2);
        if let Body::Wait(wait) = &mut later.body {
            (wait.begin_ns, wait.end_ns) = (LOOK_NS / 2, LOOK_NS);
        }
        assert_eq!(class(vec![at(10, 2), later.clone()]), WaitClass::FutexLock, "its Mutex");
        assert_eq!(class(vec![at(10, 2), later, at(12, 4)]), WaitClass::FutexWait);
    }

    /// Thread `tid` stands at a word since then.
    fn stands(tid: u32, value: u64, since_ns: Ns) -> Fact {
        let args = [IN_HEAP, BITSET, value, 0, 0, 0];
        let (state, syscall) = (WaitState::Sleep, "futex".into());
        let place = Place { state, syscall, args, ..Place::default() };
        let blocked = Blocked { thread: of(tid), since_ns, place, ..Blocked::default() };
        Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
    }

    #[test]
    fn two_that_stand_for_a_two_all_the_look_wait_for_a_lock_unless_something_counts() {
        let both = || vec![stands(10, 2, 0), stands(11, 2, 0)];
        assert_eq!(class(both()), WaitClass::FutexLock, "a server that hangs");
        assert_eq!(class(vec![stands(10, 2, 0)]), WaitClass::FutexWait);
        let at_another = [both(), vec![stands(13, 1, 0)]].concat();
        assert_eq!(class(at_another), WaitClass::FutexWait, "it counts");
        let back = vec![stands(10, 2, LOOK_NS / 2), stands(11, 2, LOOK_NS / 2)];
        assert_eq!(class(back), WaitClass::FutexWait, "workers that were woken");
        let woken = [both(), vec![waits(13, [IN_HEAP, BITSET, 2])]].concat();
        assert_eq!(class(woken), WaitClass::FutexWait, "one has got work");
        let beside = |syscall: &str, args| {
            let place = Place {
                state: WaitState::Sleep,
                syscall: syscall.into(),
                args,
                ..Place::default()
            };
            let blocked = Blocked { thread: of(14), since_ns: 0, place, ..Blocked::default() };
            let named = identity(Thread { thread: of(14), ..Thread::default() });
            class(
                [both(), vec![named, Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }]]
                    .concat(),
            )
        };
        assert_eq!(beside("accept4", [3, 0, 0, 0, 0, 0]), WaitClass::FutexWait, "nobody has it");
        // `let locked = mutex.lock(); worker.join()`.
        let joins = beside("futex", [ON_STACK, BITSET, 11, 0, 0, 0]);
        assert_eq!(joins, WaitClass::FutexLock, "it may have what the one that it joins wants");
        let shared_at = |address: u64, syscall: &str| {
            let as_shared = |mut fact: Fact| {
                if let Body::Blocked(it) = &mut fact.body {
                    (it.place.args[0], it.place.args[1]) = (address, FUTEX_WAIT);
                }
                fact
            };
            let both = both().into_iter().map(as_shared).collect::<Vec<Fact>>();
            let place =
                Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
            let blocked = Blocked { thread: of(14), place, ..Blocked::default() };
            let named = identity(Thread { thread: of(14), ..Thread::default() });
            class(
                [both, vec![named, Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }]].concat(),
            )
        };
        let shared = |syscall| shared_at(IN_HEAP, syscall);
        assert_eq!(shared("accept4"), WaitClass::FutexWait, "std::atomic::wait");
        let mapped = shared_at(ON_STACK, "accept4");
        assert_eq!(mapped, WaitClass::FutexLock, "another process may have it");
        assert_eq!(shared("clock_nanosleep"), WaitClass::FutexLock);
        assert_eq!(shared("poll"), WaitClass::FutexLock, "it may ask somebody under the lock");
        assert_eq!(beside("clock_nanosleep", [0; 6]), WaitClass::FutexLock, "it may have it");
        let frame = UserFrame { function: "pthread_cond_wait".into(), ..UserFrame::default() };
        let stack = UserStack { thread: of(11), frames: vec![frame], ..UserStack::default() };
        let stack = Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) };
        assert_eq!(class([both(), vec![stack]].concat()), WaitClass::FutexWait, "a condition");
    }

    #[test]
    fn who_waits_for_a_two_again_and_again_waits_for_a_lock_but_not_on_its_own_stack() {
        let again = |address: u64| {
            let mut later = waits(10, [address, BITSET, 2]);
            if let Body::Wait(wait) = &mut later.body {
                (wait.begin_ns, wait.end_ns) = (LOOK_NS / 2 + 1, LOOK_NS / 2 + 900_000_000);
            }
            class(vec![waits(10, [address, BITSET, 2]), later])
        };
        assert_eq!(again(IN_HEAP), WaitClass::FutexLock, "a counter would have moved on");
        assert_eq!(again(ON_STACK), WaitClass::FutexWait, "a condition of musl's");
    }

    #[test]
    fn a_word_with_a_threads_number_is_a_lock_of_that_thread() {
        let word = |tid: u32| u64::from(FUTEX_WAITERS | tid);
        let other = waits(12, [IN_HEAP, BITSET, 0]);
        let own = |value| vec![waits(10, [ON_STACK, PLAIN, value]), other.clone()];
        assert_eq!(class(own(word(12))), WaitClass::FutexLock);
        assert_eq!(class(own(0xffff_ffff_0000_0000 | word(12))), WaitClass::FutexLock, "an int");
        assert_eq!(class(own(word(99))), WaitClass::FutexWait, "of no thread here");
        assert_eq!(class(own(word(10))), WaitClass::FutexWait, "its own");
        let inside = |tid, inner| {
            identity(Thread { thread: of(tid), inner_tid: Some(inner), ..Thread::default() })
        };
        let contained = [own(word(3)), vec![inside(10, 1), inside(12, 3)]].concat();
        assert_eq!(class(contained), WaitClass::FutexLock);
        let counts = [own(word(2)), vec![inside(10, 1), inside(12, 2)]].concat();
        assert_eq!(class(counts), WaitClass::FutexWait, "it may be two readers");
        assert_eq!(owner_in(FUTEX_WAITERS | EBUSY), None, "musl's plain mutex");
        assert_eq!(owner_in(FUTEX_WAITERS | FUTEX_OWNER_DIED | 12), None);
    }
}
