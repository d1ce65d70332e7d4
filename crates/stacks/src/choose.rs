//! Whose stacks are read, and in which order: there is not time for all.
//!
//! The threads of what was asked about come first (those that a lock is known of, the main one, its pools), then those of whom it may wait for, then
//! those that sleep on a word of memory (a lock, a turn), then those that wait for events; in each the longest waits first, and of
//! a process with hundreds of threads some before the rest.
//! Whoever has waited for events since long ago comes last: a daemon without work. Who sleeps on purpose waits for nobody,
//! so of a process a few such are read, and those that are known to hold what others wait for. A process of which a thread
//! may hold the lock on its own memory is left alone. Pure.
//!
//! Must not: know what a wait is for, which is what the stacks are read to say. Rejected: to read every thread there is
//! time for (of 2,000 threads that sleep on an idle host 1,024 were read, and none could have said anything).

use super::left::Left;
use holdup_reason::facts::{Blocked, Body, Fact, Ns, WaitState};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Threads whose stacks are read at once. How many there is time for is another question, and mostly fewer (budget.rs).
pub(crate) const THREADS_MAX: usize = 1024;
/// The same where a look has lasted less than by what it is counted what reading may take: what is given beyond the time is for names and for
/// partners, and not for hundreds of threads of a pool that all stand at one place.
pub(crate) const THREADS_AHEAD_OF_TIME_MAX: usize = 128;
/// Threads of a process that come before those of the next.
const SHARE: usize = 16;
/// Such shares of a process that come before the rest of any.
const SHARES_FIRST: usize = 4;
/// Shorter waits are not worth a stack.
pub const WAIT_NS_MIN: Ns = 100_000_000;
/// Who has waited for events for longer has nothing to do.
const LONG_AGO_NS: Ns = 3_600_000_000_000;
/// The rank of such.
const WITHOUT_WORK: u32 = 5;
/// The rank of who sleeps on purpose. From here on nobody is missed.
const SLEEPS: u32 = 4;
/// Of them, how many of a process are read: one that holds up others mostly is the only one.
const SLEEPERS: usize = 4;

/// Whose stacks to read, threads of a process in a row; and of those who wait like them, who is too many.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// To be read.
    pub left: Vec<Left>,
    /// Threads that wait like them and are too many, by number.
    pub beyond: HashSet<u32>,
    /// Of those to be read, the ones that nobody will miss.
    pub without_work: HashSet<u32>,
}

/// Standing waits that are long enough for a stack, by thread id, where it is not known whose could be read.
pub(crate) fn standing(waits: &[Fact]) -> impl Iterator<Item = u32> {
    waits.iter().filter_map(|fact| match &fact.body {
        Body::Blocked(blocked) if !blocked.kernel && !sleeps(blocked) => {
            let waits_ns = fact.at_ns.saturating_sub(blocked.since_ns);
            (WAIT_NS_MIN..LONG_AGO_NS).contains(&waits_ns).then_some(blocked.thread.tid)
        }
        _ => None,
    })
}

/// Who matters more than others.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The process that was asked about.
    pub target: Option<u32>,
    /// Processes that may owe it an answer.
    pub partners: HashSet<u32>,
    /// Threads that are known to hold what others wait for, or to wait for what another holds.
    pub known: HashSet<u32>,
}

/// Threads that are known to hold what others wait for, and those that a Java machine says to wait for a monitor.
pub(crate) fn known(facts: &[Fact]) -> impl Iterator<Item = u32> {
    let tids = |fact: &Fact| match &fact.body {
        Body::FutexOwner(owner) => vec![owner.owner_tid],
        Body::MonitorWaits(all) => {
            all.waits.iter().flat_map(|wait| [wait.waiter_tid, wait.owner_tid]).collect()
        }
        _ => Vec::new(),
    };
    facts.iter().flat_map(tids).filter(|tid| *tid != 0)
}

/// Of standing waits and where their threads left user space, whose stacks to read.
pub(crate) fn at_the_end(
    left: Vec<Left>,
    waits: &[Fact],
    wanted: &Wanted,
    threads_max: usize,
) -> Chosen {
    let standing = waits.iter().filter_map(|fact| match &fact.body {
        Body::Blocked(blocked) => Some((fact.at_ns, blocked)),
        _ => None,
    });
    let standing: HashMap<u32, (Ns, &Blocked)> =
        standing.map(|(at_ns, blocked)| (blocked.thread.tid, (at_ns, blocked))).collect();
    let locked: HashSet<u32> = standing
        .values()
        .filter(|(_, blocked)| may_hold_its_memory(blocked))
        .map(|(_, blocked)| blocked.thread.pid)
        .collect();
    let ranked = left.into_iter().filter_map(|left| {
        let (seen_ns, blocked) = standing.get(&left.thread.tid)?;
        // Another wait than the one that was seen standing, or not yet a long one.
        if left.since_ns > *seen_ns || locked.contains(&left.thread.pid) {
            return None;
        }
        let waits_ns = seen_ns.saturating_sub(blocked.since_ns.min(left.since_ns));
        let rank = match blocked.place.syscall.as_str() {
            _ if wanted.target == Some(left.thread.pid) => 0,
            _ if wanted.partners.contains(&left.thread.pid) => 1,
            "futex" | "semop" | "semtimedop" => 2,
            _ if wanted.known.contains(&left.thread.tid) => 2,
            _ if sleeps(blocked) => SLEEPS,
            _ if waits_ns < LONG_AGO_NS => 3,
            _ => WITHOUT_WORK,
        };
        (waits_ns >= WAIT_NS_MIN).then_some((rank, waits_ns, left))
    });
    first(ranked.collect(), &wanted.known, threads_max)
}

/// While a look goes on: those of its target that already wait for long.
pub(crate) fn between(left: Vec<Left>, known: &HashSet<u32>, threads_max: usize) -> Chosen {
    let ranked = left.into_iter().filter_map(|left| {
        let waits_ns = left.at_ns.saturating_sub(left.since_ns);
        (waits_ns >= WAIT_NS_MIN).then_some((0, waits_ns, left))
    });
    first(ranked.collect(), known, threads_max)
}

fn first(mut ranked: Vec<(u32, Ns, Left)>, known: &HashSet<u32>, threads_max: usize) -> Chosen {
    let class = |(rank, _, left): &(u32, Ns, Left)| {
        let is_other = !known.contains(&left.thread.tid);
        let is_of_pool = *rank == 0 && left.thread.tid != left.thread.pid;
        (*rank, is_other, is_of_pool)
    };
    ranked.sort_by_key(|one| (class(one), Reverse(one.1), one.2.thread.tid));
    let own = ranked.partition_point(|(rank, ..)| *rank == 0);
    ranked[..own].chunk_by_mut(|a, b| class(a) == class(b)).for_each(by_turns);
    let mut asleep: HashMap<u32, usize> = HashMap::new();
    ranked.retain(|(rank, _, left)| {
        let count = asleep.entry(left.thread.pid).or_default();
        *count += usize::from(*rank == SLEEPS);
        *rank != SLEEPS || *count <= SLEEPERS
    });
    let mut of_process: HashMap<u32, usize> = HashMap::new();
    let mut shared: Vec<(u32, usize, Left)> = (ranked.into_iter())
        .map(|(rank, _, left)| {
            let count = of_process.entry(left.thread.pid).or_default();
            *count += 1;
            (rank, (*count - 1) / SHARE, left)
        })
        .collect();
    shared.sort_by_key(|(rank, turn, _)| (*turn >= SHARES_FIRST, *rank, *turn));
    let mut processes: HashMap<u32, usize> = HashMap::new();
    let mut chosen = Chosen::default();
    for (rank, _, left) in shared {
        if chosen.left.len() < threads_max {
            let count = processes.len();
            processes.entry(left.thread.pid).or_insert(count);
            if rank >= SLEEPS {
                chosen.without_work.insert(left.thread.tid);
            }
            chosen.left.push(left);
        } else if rank < SLEEPS {
            chosen.beyond.insert(left.thread.tid);
        }
    }
    chosen.left.sort_by_key(|left| processes.get(&left.thread.pid).copied());
    chosen
}

/// Of what was asked about the longest and the latest waits by turns: most of a pool has waited since long ago, and what is of this minute would
/// come last, where nothing may be left of the time.
fn by_turns(longest_first: &mut [(u32, Ns, Left)]) {
    let mut all: Vec<_> = longest_first.iter_mut().map(std::mem::take).collect();
    let count = all.len();
    for (at, place) in longest_first.iter_mut().enumerate() {
        let from = if at.is_multiple_of(2) { at / 2 } else { count - 1 - at / 2 };
        *place = std::mem::take(&mut all[from]);
    }
}

/// On purpose: in a call that waits for a time, or for events of no descriptor, which languages sleep by.
fn sleeps(blocked: &Blocked) -> bool {
    let [first, second, ..] = blocked.place.args;
    match blocked.place.syscall.as_str() {
        "nanosleep" | "clock_nanosleep" => true,
        "poll" | "ppoll" => second == 0,
        "select" | "pselect6" => first == 0,
        _ => false,
    }
}

/// Uninterruptible in a call that changes the memory of its process, or in a page fault: whoever reads it may wait as well.
fn may_hold_its_memory(blocked: &Blocked) -> bool {
    let changes = matches!(
        blocked.place.syscall.as_str(),
        "" | "mmap"
            | "munmap"
            | "mremap"
            | "mprotect"
            | "madvise"
            | "brk"
            | "fork"
            | "clone"
            | "clone3"
            | "execve"
            | "execveat"
            | "userfaultfd"
    );
    changes && blocked.place.state == WaitState::DiskSleep
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{MonitorWait, MonitorWaits, Place, ThreadRef};

    const NOW: Ns = 10_000_000_000_000;

    fn waits(pid: u32, tid: u32, syscall: &str, waits_ns: Ns) -> (Left, Fact) {
        let thread = ThreadRef { tid, pid, ..ThreadRef::default() };
        let since_ns = NOW - waits_ns;
        let place = Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
        let left = Left { thread: thread.clone(), at_ns: NOW, since_ns, ..Left::default() };
        let blocked = Blocked { thread, since_ns, place, ..Blocked::default() };
        (left, Fact { at_ns: NOW, body: Body::Blocked(blocked) })
    }

    fn chosen(all: Vec<(Left, Fact)>, target: Option<u32>) -> Vec<u32> {
        let (left, waits): (Vec<Left>, Vec<Fact>) = all.into_iter().unzip();
        let (partners, known) = (HashSet::from([44]), HashSet::from([77]));
        let wanted = Wanted { target, partners, known };
        let all = at_the_end(left, &waits, &wanted, THREADS_MAX).left;
        all.into_iter().map(|left| left.thread.tid).collect()
    }

    #[test]
    fn the_target_comes_first_then_whom_it_asks_then_locks_then_the_longest() {
        let second = 1_000_000_000;
        let all = vec![
            waits(1, 1, "epoll_wait", 9000 * second),
            waits(2, 2, "epoll_wait", second),
            waits(3, 3, "futex", second),
            waits(4, 4, "futex", 2 * second),
            waits(5, 5, "read", second / 2),
            waits(6, 6, "futex", second / 20),
            waits(44, 44, "nanosleep", second / 3),
        ];
        assert_eq!(chosen(all, Some(5)), [5, 44, 4, 3, 2, 1]);
    }

    #[test]
    fn of_a_process_who_waits_for_a_monitor_and_who_has_it_come_first() {
        let second = 1_000_000_000;
        let longest: [(u32, Ns); 4] = [(50, 9), (51, 8), (52, 2), (53, 1)];
        let of = |(tid, seconds): (u32, Ns)| waits(50, tid, "futex", seconds * second).0;
        let left: Vec<Left> = longest.map(of).into();
        let wait = MonitorWait { waiter_tid: 53, owner_tid: 52, monitor: 1 };
        let waits = MonitorWaits { pid: 50, waits: vec![wait] };
        let facts = [Fact { at_ns: NOW, body: Body::MonitorWaits(waits) }];
        let chosen = between(left, &known(&facts).collect(), THREADS_MAX);
        let order: Vec<u32> = chosen.left.iter().map(|left| left.thread.tid).collect();
        assert_eq!(order, [52, 53, 50, 51]);
    }

    #[test]
    fn a_pool_does_not_take_all_of_the_time() {
        let mut all: Vec<(Left, Fact)> =
            (0..1100).map(|at| waits(1, 1000 + at, "futex", 8_000_000_000)).collect();
        all.push(waits(2, 2, "futex", 1_000_000_000));
        let chosen = chosen(all.clone(), None);
        assert_eq!(chosen.len(), THREADS_MAX);
        assert!(chosen.contains(&2));
        let (left, waits): (Vec<Left>, Vec<Fact>) = all.into_iter().unzip();
        let wanted = Wanted { target: Some(1), partners: HashSet::from([2]), ..Wanted::default() };
        let few = at_the_end(left.clone(), &waits, &wanted, THREADS_AHEAD_OF_TIME_MAX);
        assert_eq!((few.left.len(), few.beyond.len()), (128, 1101 - 128));
        assert!(few.left.iter().any(|left| left.thread.tid == 2), "a partner of who has many");
        let all = at_the_end(left, &waits, &Wanted::default(), THREADS_MAX);
        assert_eq!(all.beyond.len(), 1101 - THREADS_MAX);
    }

    #[test]
    fn of_a_pool_that_was_asked_about_the_latest_waits_are_read_as_well() {
        let second = 1_000_000_000;
        let mut all: Vec<(Left, Fact)> =
            (0..300).map(|at| waits(1, 1000 + at, "futex", 900 * second)).collect();
        all.push(waits(1, 5, "futex", second));
        let (left, _): (Vec<Left>, Vec<Fact>) = all.into_iter().unzip();
        let chosen = between(left, &HashSet::new(), THREADS_AHEAD_OF_TIME_MAX / 2);
        let order: Vec<u32> = chosen.left.iter().map(|left| left.thread.tid).collect();
        assert_eq!((order.len(), &order[..3]), (64, &[1000, 5, 1001][..]));
    }

    #[test]
    fn of_those_who_sleep_on_purpose_a_few_are_read_and_who_holds_up_others() {
        let second = 1_000_000_000;
        let asleep = || (0..100).map(|at| waits(1, 10 + at, "clock_nanosleep", 9 * second));
        let mut all: Vec<(Left, Fact)> = asleep().collect();
        all.extend([waits(2, 2, "epoll_wait", second), waits(3, 3, "poll", second)]);
        let no_descriptor = all.len() - 1;
        assert_eq!(chosen(all.clone(), None), [77, 10, 11, 12, 13, 2, 3]);
        assert_eq!(chosen(all.clone(), Some(1)).len(), 102, "all of what was asked about");
        if let Body::Blocked(blocked) = &mut all[no_descriptor].1.body {
            blocked.place.args[1] = 1;
        }
        assert_eq!(standing(&all.into_iter().map(|it| it.1).collect::<Vec<_>>()).count(), 2);
    }

    #[test]
    fn a_process_that_changes_its_memory_is_left_alone() {
        let mut all = vec![waits(1, 1, "futex", 1_000_000_000), waits(1, 2, "mmap", 1_000_000_000)];
        if let Body::Blocked(blocked) = &mut all[1].1.body {
            blocked.place.state = WaitState::DiskSleep;
        }
        assert!(chosen(all, Some(1)).is_empty());
    }
}
