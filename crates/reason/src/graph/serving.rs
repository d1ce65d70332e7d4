//! Which thread of a process matters to somebody who waits for the process.
//!
//! The waker, whoever carried the packet, whoever answers the same conversation later, who read the question last, who turned
//! to something else just as it came, who was held up, who ran. Must not: look past the processes that it is given.

use super::conversation::{PAUSE_MAX, answered_unseen_ns, asked_ns, is_same_thing};
use super::hands_on::hands_on;
use super::index::Index;
use super::question::{is_for_an_order, is_for_next_question, is_for_own_word};
use super::taken::{begun_ns, may_have_it};
use super::wakers::{SAMPLES_APART, by_kernel_thread, carrier, is_stalled, waker};
use crate::facts::*;
use crate::programs::java;
use crate::threshold::Threshold;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, user_stack};
use std::collections::HashSet;

/// A thread that was begun for a question may be older than it.
static BORN_BEFORE_MAX: Threshold = Threshold::new(
    30.0,
    "ms",
    "from the begin of a thread to the question that it was begun for",
    "/proc has a thread's begin in ticks of 10 ms; twice that, and one for a greeting",
);
/// Or younger.
static BORN_AFTER_MAX: Threshold = Threshold::new(
    50.0,
    "ms",
    "from a question to the begin of the thread that serves it",
    "chosen: a server begins its thread at once, and a crowded CPU delays it",
);
/// From a question to what it makes a thread wait for.
static TURNED_AFTER_MAX: Threshold = Threshold::new(
    200.0,
    "ms",
    "from a question to the wait that its server begins for its sake: later ones are for something else",
    "chosen: long beside what a server reads and computes before it waits",
);
/// So far may the times of two waits be off that began, or ended, with each other, where kernel events time them.
static EVENTS_APART: Threshold = Threshold::new(
    5.0,
    "ms",
    "between the ends of two waits of which one ended the other, as kernel events time them",
    "chosen: a wake-up takes microseconds, and the turn on a crowded CPU milliseconds",
);

/// Without the threads of a virtual machine's own; all, if no others are known.
fn workers(threads: Vec<ThreadRef>) -> Vec<ThreadRef> {
    let machines: HashSet<u32> =
        threads.iter().filter(|it| java::is_machine(&it.comm)).map(|it| it.pid).collect();
    let is_own =
        |it: &&ThreadRef| machines.contains(&it.pid) && java::own_thread(&it.comm).is_some();
    if machines.is_empty() || threads.iter().all(|it| is_own(&it)) {
        return threads;
    }
    threads.iter().filter(|it| !is_own(it)).cloned().collect()
}

/// The thread that was begun just as a question came, of a server with a thread for each.
fn born_at(index: &Index<'_>, threads: &[ThreadRef], asked_ns: Ns, to: Ns) -> Option<ThreadRef> {
    let from = asked_ns.saturating_sub(BORN_BEFORE_MAX.ns());
    let within = from..=asked_ns.saturating_add(BORN_AFTER_MAX.ns());
    let is_thread = |of: &&ThreadRef| of.tid != of.pid && within.contains(&of.start_ns);
    one_of(index, threads.iter().filter(is_thread).collect(), to)
}

/// The only one of some threads; or of several the first, if all of them stand in one function of the program: whichever it is, it waits for the
/// same.
fn one_of(index: &Index<'_>, threads: Vec<&ThreadRef>, to: Ns) -> Option<ThreadRef> {
    let (first, others) = threads.split_first()?;
    let stands = |thread: &ThreadRef| {
        let last = index.waits.at(thread, to.saturating_sub(1))?;
        let place = user_stack::function_of(index.model, thread, last.begin_ns, last.end_ns)?;
        Some((last.class, place))
    };
    let is_one = others.is_empty()
        || stands(first).is_some_and(|at| others.iter().all(|it| stands(it) == Some(at)));
    is_one.then(|| (*first).clone())
}

/// The thread of some processes that serves a question which came at a time and stands: the one that turned to something
/// else then, that ran, that was held up, that waits for events; else the first. `asker`: who asked, if he is known.
pub(super) fn serving_since(
    index: &Index<'_>,
    asker: Option<u32>,
    pids: &[u32],
    (since_ns, to): (Ns, Ns),
) -> Option<ThreadRef> {
    let threads = workers(index.families.threads_of(pids));
    if let [only] = &threads[..] {
        return Some(only.clone());
    }
    let from = since_ns.max(index.model.look.begin_ns);
    let length = to.saturating_sub(from);
    let turned = turned_at(index, &threads, since_ns, to);
    let busiest = || {
        let ran = |thread: &&ThreadRef| index.waits.ran_within_ns(thread, from, to);
        threads.iter().max_by_key(ran).filter(|thread| ran(thread) * 2 >= length).cloned()
    };
    let parked = || parked_at(index, &threads, since_ns, to);
    let born = || born_at(index, &threads, since_ns, to);
    let known = turned.or_else(parked).or_else(born).or_else(busiest);
    if known.is_some() {
        return known;
    }
    let first = hands_on(index, &threads).or_else(|| threads.first().cloned());
    let begun_ns = asker.map_or(0, |asker| begun_ns(index, asker));
    let (left, reader) = may_have_it(index, threads, (begun_ns, to));
    let held = |thread: &&ThreadRef| held_up(index, thread, from, to);
    let longest = left.iter().max_by_key(held).filter(|thread| held(thread) * 2 >= length);
    longest.cloned().or(reader).or(first)
}

/// The thread that was parked just as a question came, and still is: whoever served it stands before something inside the
/// program. One that waits for work has been parked since the question before, and one that handed it on waits for events.
fn parked_at(index: &Index<'_>, threads: &[ThreadRef], asked_ns: Ns, to: Ns) -> Option<ThreadRef> {
    let apart_ns = apart_ns(index);
    let parked = |thread: &&ThreadRef| {
        index.waits.of(thread).iter().any(|wait| {
            let (from, until) = (wait.begin_ns, wait.end_ns);
            matches!(wait.class, WaitClass::FutexWait | WaitClass::FutexLock)
                && wait.begin_ns + apart_ns >= asked_ns
                && wait.begin_ns <= asked_ns + TURNED_AFTER_MAX.ns()
                && wait.end_ns + apart_ns >= to
                && user_stack::parked_in_java(index.model, thread, from, until)
        })
    };
    one_of(index, threads.iter().filter(parked).collect(), to)
}

/// How long a thread was held up itself in an interval. Who waits for the next question of a client, for an order, or for a word of another thread, is not.
pub(super) fn held_up(index: &Index<'_>, thread: &ThreadRef, from: Ns, to: Ns) -> Ns {
    // Of thousands only those of that time: each is looked up on its connection.
    let waits = index.waits.within(thread, from, to).iter();
    waits
        .filter(|w| {
            w.class.is_demand()
                || w.class.is_for_somebody() && w.class != WaitClass::FutexWait
                || is_stalled(w.class)
        })
        .filter(|w| !is_for_next_question(index, w) && !is_for_an_order(index, w))
        .filter(|w| !is_for_own_word(index, w))
        .map(|w| w.within_ns(from, to))
        .sum()
}

/// How long of that it only had no CPU, as whoever looks at the time beside others has none now and then. Not of who sleeps: that may be between the parts
/// of what is waited for.
fn without_cpu(index: &Index<'_>, thread: &ThreadRef, from: Ns, to: Ns) -> Ns {
    let waits = index.waits.within(thread, from, to);
    if waits.iter().any(|wait| wait.class == WaitClass::Timer) {
        return 0;
    }
    let is_ready = |class| matches!(class, WaitClass::RunQueue | WaitClass::CpuQuota);
    waits.iter().filter(|wait| is_ready(wait.class)).map(|wait| wait.within_ns(from, to)).sum()
}

/// The thread of a process that waits on a socket, or is stopped, for most of a time: whatever else the process waits for, any of its
/// threads may be the one that is to write to a pipe, but for one that waits for the next question of a client.
pub(super) fn fed_from_elsewhere(
    index: &Index<'_>,
    pid: u32,
    (from, to): (Ns, Ns),
) -> Option<ThreadRef> {
    let is_fed = |wait: &&WaitSpan| {
        is_stalled(wait.class)
            || matches!(
                wait.class,
                WaitClass::SocketRead
                    | WaitClass::SocketConnect
                    | WaitClass::UnixRead
                    | WaitClass::Dns
            )
    };
    let fed_ns = |thread: &ThreadRef| -> Ns {
        let waits = index.waits.within(thread, from, to).iter().filter(is_fed);
        let waits = waits.filter(|wait| !is_for_next_question(index, wait));
        waits.map(|wait| wait.within_ns(from, to)).sum()
    };
    let threads = workers(index.families.threads_of(&[pid])).into_iter();
    let fed = threads.map(|thread| (fed_ns(&thread), thread));
    fed.filter(|(ns, _)| ns * 2 > to.saturating_sub(from))
        .max_by_key(|(ns, thread)| (*ns, std::cmp::Reverse(thread.tid)))
        .map(|(_, thread)| thread)
}

/// Beside a thread, the one of its process or of what that has begun which rested least, and did something for more than
/// one `part` of the time.
pub(super) fn busiest_with(
    index: &Index<'_>,
    main: &ThreadRef,
    (from, to): (Ns, Ns),
    part: Ns,
) -> Option<ThreadRef> {
    let mut pids = vec![main.pid];
    pids.extend(index.families.living_children(main.pid).iter().map(|child| child.pid));
    let busy_ns = |thread: &ThreadRef| -> Ns {
        let (since_ns, until_ns) = index.families.there(thread, (from, to));
        let waits = index.waits.within(thread, since_ns, until_ns);
        if waits.is_empty() && index.waits.ran_ns(thread) == 0 {
            return 0;
        }
        let rests = waits.iter().filter(|it| it.class.is_rest());
        let rest_ns: Ns = rests.map(|it| it.within_ns(since_ns, until_ns)).sum();
        until_ns.saturating_sub(since_ns).saturating_sub(rest_ns)
    };
    let others = index
        .families
        .threads_of(&pids)
        .into_iter()
        .filter(|it| !index.model.threads.is_same(it, main));
    others
        .map(|thread| (busy_ns(&thread), thread))
        .filter(|(busy_ns, _)| *busy_ns * part > to.saturating_sub(from))
        .max_by_key(|(busy_ns, thread)| (*busy_ns, std::cmp::Reverse(thread.tid)))
        .map(|(_, thread)| thread)
}

/// Of several processes, the thread that matters: the waker if it is one of them, else the one that carried the packet,
/// else the one that last read what the waiter wrote to, else the one that itself is held up longest during the wait, else
/// the one that ran most.
pub(super) fn chosen(
    index: &Index<'_>,
    wait: &WaitSpan,
    processes: Vec<ThreadRef>,
) -> Option<ThreadRef> {
    if let Some(waker) = waker(index, wait)
        && (processes.is_empty() && !by_kernel_thread(wait)
            || processes.iter().any(|p| p.pid == waker.pid))
    {
        return Some(waker);
    }
    if let Some(by) = carrier(wait).filter(|by| processes.iter().any(|p| p.pid == by.pid)) {
        return Some(by.clone());
    }
    let known = answers_later(index, wait, &processes)
        .or_else(|| let_go_with_the_answer(index, wait, &processes))
        .or_else(|| serving(index, wait, &processes))
        .or_else(|| turned_to_it(index, wait, &processes));
    if known.is_some() {
        return known;
    }
    let first = processes.first().cloned();
    let mut pids: Vec<u32> = processes.iter().map(|p| p.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let threads = workers(index.families.threads_of(&pids));
    let since_ns = begun_ns(index, wait.thread.pid);
    let (threads, reader) = may_have_it(index, threads, (since_ns, wait.end_ns));
    let length = wait.end_ns.saturating_sub(wait.begin_ns);
    let held = threads
        .iter()
        .map(|thread| (held_up(index, thread, wait.begin_ns, wait.end_ns), thread))
        .filter(|(held, _)| *held > 0)
        .max_by_key(|(held, thread)| (*held, std::cmp::Reverse(thread.tid)));
    let ran = threads
        .iter()
        .map(|thread| (index.waits.ran_within_ns(thread, wait.begin_ns, wait.end_ns), thread))
        .max_by_key(|(ran, thread)| (*ran, std::cmp::Reverse(thread.tid)));
    match (held, ran) {
        (Some((held, thread)), _) if held * 2 >= length => Some(thread.clone()),
        (_, Some((ran, thread))) if ran * 2 >= length => Some(thread.clone()),
        _ => reader.or_else(|| held_a_little(index, wait, &threads)).or(first),
    }
}

/// Of threads none of which was held up, or ran, for most of a wait, the one that something else than other threads held up longest.
fn held_a_little(index: &Index<'_>, wait: &WaitSpan, threads: &[ThreadRef]) -> Option<ThreadRef> {
    let (from, to) = (wait.begin_ns, wait.end_ns);
    let held = |thread: &ThreadRef| {
        held_up(index, thread, from, to).saturating_sub(without_cpu(index, thread, from, to))
    };
    let all = threads.iter().map(|thread| (held(thread), thread)).filter(|(held, _)| *held > 0);
    all.max_by_key(|(held, thread)| (*held, std::cmp::Reverse(thread.tid)))
        .map(|(_, thread)| thread.clone())
}

/// Where nobody sees who ends a wait: the only thread of some processes that stood for most of a conversation and was let go
/// just as its answer came.
fn let_go_with_the_answer(
    index: &Index<'_>,
    wait: &WaitSpan,
    processes: &[ThreadRef],
) -> Option<ThreadRef> {
    let answered_ns = answered_unseen_ns(index, wait)?;
    let length = answered_ns.saturating_sub(wait.begin_ns);
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    let is_it = |other: &WaitSpan| {
        !other.standing
            && other.class != WaitClass::RunQueue
            && other.end_ns.abs_diff(answered_ns) <= SAMPLES_APART.ns()
            && other.within_ns(wait.begin_ns, answered_ns) * 2 > length
    };
    let threads = workers(index.families.threads_of(&pids));
    let mut all = threads.iter().filter(|thread| index.waits.of(thread).iter().any(is_it));
    let only = all.next()?;
    all.next().is_none().then(|| only.clone())
}

/// The thread that answers later in the same conversation: of waits on the same thing by the same thread that go on right
/// after this one (a client that looks at the clock now and then), the first that one of the processes ended.
fn answers_later(index: &Index<'_>, wait: &WaitSpan, processes: &[ThreadRef]) -> Option<ThreadRef> {
    let mut until = wait.end_ns;
    for other in index.waits.after(wait) {
        if other.begin_ns > until + PAUSE_MAX.ns() {
            break;
        }
        if !is_same_thing(&other.place, &wait.place) {
            continue;
        }
        until = other.end_ns;
        let by = waker(index, other).or_else(|| carrier(other).cloned());
        if let Some(by) = by.filter(|by| processes.iter().any(|p| p.pid == by.pid)) {
            return Some(by);
        }
    }
    None
}

/// The thread that turned to something else just as the question came, and still is at it: asleep, or in a wait that is
/// not for the next event.
fn turned_to_it(index: &Index<'_>, wait: &WaitSpan, processes: &[ThreadRef]) -> Option<ThreadRef> {
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    let (threads, asked_ns) = (workers(index.families.threads_of(&pids)), asked_ns(index, wait));
    let turned = turned_at(index, &threads, asked_ns, wait.end_ns);
    let born = || born_at(index, &threads, asked_ns, wait.end_ns);
    turned.or_else(born).or_else(|| parked_at(index, &threads, asked_ns, wait.end_ns))
}

/// So far may the times of two waits be off that began, or ended, with each other.
fn apart_ns(index: &Index<'_>) -> Ns {
    if index.model.look.host.kernel_events { EVENTS_APART.ns() } else { SAMPLES_APART.ns() }
}

fn turned_at(index: &Index<'_>, threads: &[ThreadRef], asked_ns: Ns, to: Ns) -> Option<ThreadRef> {
    let apart_ns = apart_ns(index);
    let mut best: Option<(Ns, &ThreadRef)> = None;
    for thread in threads {
        let turned = |other: &&WaitSpan| {
            !matches!(other.class, WaitClass::Idle | WaitClass::FutexWait)
                && other.end_ns + apart_ns >= to
        };
        let all = index.waits.of(thread);
        let first = all.partition_point(|other| other.begin_ns + apart_ns < asked_ns);
        let mut near = all[first..]
            .iter()
            .take_while(|other| other.begin_ns <= asked_ns + TURNED_AFTER_MAX.ns());
        if let Some(turn) = near.find(turned) {
            let after = turn.begin_ns.abs_diff(asked_ns);
            if best.as_ref().is_none_or(|(known, _)| after < *known) {
                best = Some((after, thread));
            }
        }
    }
    best.map(|(_, thread)| thread.clone())
}

/// The thread at the far end that has read from this very connection last before the wait, and so took the question.
fn serving(index: &Index<'_>, wait: &WaitSpan, processes: &[ThreadRef]) -> Option<ThreadRef> {
    let waits = match &wait.place.object {
        Some(ObjectRef::Unix { peer_ino, .. }) => index.connections.waits_on(*peer_ino),
        Some(ObjectRef::Inet(socket)) => index.connections.far_waits(socket),
        _ => return None,
    };
    let before = &waits[..waits.partition_point(|other| other.begin_ns < wait.end_ns)];
    let is_its = |other: &&&WaitSpan| processes.iter().any(|p| p.pid == other.thread.pid);
    let last = before.iter().rev().find(is_its)?;
    Some(last.thread.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, host};
    use crate::waits::timeline::Observed;

    const PARKED: &[&str] = &["pthread_cond_wait", "Parker::park", "Unsafe_Park"];
    const SECOND: Ns = 1_000_000_000;

    fn of_java(tid: u32, comm: &str) -> ThreadRef {
        ThreadRef { tid, pid: 20, start_ns: 1, comm: comm.into() }
    }

    /// A thread that has waited for a word since then, with these functions on its stack.
    fn waits(tid: u32, comm: &str, since_ns: Ns, functions: &[&str]) -> Vec<Fact> {
        let syscall = "futex".into();
        let place = Place { state: WaitState::Sleep, syscall, ..Place::default() };
        let thread = of_java(tid, comm);
        let frame = |name: &&str| UserFrame {
            function: (*name).into(),
            module: "libjvm.so".into(),
            ..UserFrame::default()
        };
        let frames = functions.iter().map(frame).collect();
        let stack = UserStack { thread: thread.clone(), since_ns, frames, complete: true };
        let blocked = Blocked { thread, since_ns, place, ..Blocked::default() };
        let fact = |body| Fact { at_ns: LOOK_NS, body };
        vec![fact(Body::UserStack(stack)), fact(Body::Blocked(blocked))]
    }

    fn serves(more: Vec<Vec<Fact>>) -> Option<u32> {
        let Observed { model, timelines } = Observed::new([vec![host()], more].concat().concat());
        let index = Index::new(&model, &timelines);
        serving_since(&index, None, &[20], (2 * SECOND, LOOK_NS)).map(|thread| thread.tid)
    }

    #[test]
    fn who_had_no_cpu_for_a_moment_is_no_more_in_charge_than_the_others() {
        let near = inet("tcp", 5, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let place = |state, syscall: &str, object| {
            let syscall = syscall.into();
            Place { state, syscall, object, ..Place::default() }
        };
        let asker = ThreadRef { tid: 10, pid: 10, start_ns: 1, comm: "curl".into() };
        let chosen = |moment: Place| {
            let stands = |thread: ThreadRef, place: Place| {
                let since_ns = SECOND;
                let blocked = Blocked { thread, place, since_ns, ..Blocked::default() };
                Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
            };
            let wake = Some(Wake { at_ns: 2 * SECOND, ..Wake::default() });
            let (thread, begin_ns) = (of_java(22, "looks at the time"), 2 * SECOND - 5_000_000);
            let end_ns = 2 * SECOND;
            let moment = Wait { thread, begin_ns, end_ns, place: moment, wake, ..Wait::default() };
            let on = Some(near.clone());
            let mut facts = host();
            facts.extend([
                stands(of_java(20, "server"), place(WaitState::Sleep, "epoll_wait", None)),
                Fact { at_ns: end_ns, body: Body::Wait(moment) },
                stands(asker.clone(), place(WaitState::Sleep, "recvfrom", on)),
            ]);
            let Observed { model, timelines } = Observed::new(facts);
            let index = Index::new(&model, &timelines);
            let asked = index.waits.at(&asker, 3 * SECOND).expect("it waits");
            chosen(&index, asked, vec![of_java(20, "server")]).map(|thread| thread.tid)
        };
        assert_eq!(chosen(place(WaitState::Runnable, "", None)), Some(20));
        let disk = Place { iowait: true, ..place(WaitState::DiskSleep, "pread64", None) };
        assert_eq!(chosen(disk), Some(22), "it did something");
    }

    #[test]
    fn where_nobody_sees_who_answers_it_is_who_was_let_go_with_the_answer() {
        let socket = |ino, local: &str, remote: &str| {
            ObjectRef::Inet(InetRef {
                ino,
                netns: 1,
                protocol: "tcp".into(),
                local: local.parse().expect("address"),
                remote: remote.parse().expect("address"),
                state: 1,
            })
        };
        let wait = |thread: ThreadRef, (begin_ns, end_ns): (Ns, Ns), object: Option<ObjectRef>| {
            let syscall = if object.is_some() { "recvfrom" } else { "futex" }.into();
            let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
            let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let asker = ThreadRef { tid: 10, pid: 10, start_ns: 1, comm: "curl".into() };
        let near = socket(5, "127.0.0.1:5000", "127.0.0.1:80");
        let chosen = |second_ends_ns: Ns| {
            let mut facts = host();
            facts.extend([
                wait(of_java(21, "serves"), (SECOND, 4 * SECOND + 4_000_000), None),
                wait(of_java(22, "other"), (SECOND, second_ends_ns), None),
                wait(asker.clone(), (SECOND, 4 * SECOND), Some(near.clone())),
            ]);
            let Observed { model, timelines } = Observed::new(facts);
            let index = Index::new(&model, &timelines);
            let asked = index.waits.at(&asker, 2 * SECOND).expect("it waits");
            chosen(&index, asked, vec![of_java(20, "java")]).map(|thread| thread.tid)
        };
        assert_eq!(chosen(3 * SECOND), Some(21));
        assert_ne!(chosen(4 * SECOND), Some(21), "it may be either");
    }

    #[test]
    fn who_ran_at_another_time_serves_nobody() {
        const MS: Ns = 1_000_000;
        let waits = |thread: ThreadRef, syscall: &str, (begin_ns, end_ns): (Ns, Ns)| {
            let state = WaitState::Sleep;
            let place = Place { state, syscall: syscall.into(), ..Place::default() };
            let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let chosen = |rests: (Ns, Ns)| {
            let asker = ThreadRef { tid: 10, pid: 10, start_ns: 1, comm: "curl".into() };
            let ran = ThreadTime {
                thread: of_java(21, "worker"),
                until_ns: LOOK_NS,
                run_ns: 2 * SECOND,
                ..ThreadTime::default()
            };
            let asked = (2 * SECOND, 2 * SECOND + 50 * MS);
            let facts = vec![
                waits(asker.clone(), "recvfrom", asked),
                waits(of_java(21, "worker"), "epoll_wait", rests),
                Fact { at_ns: LOOK_NS, body: Body::ThreadTime(ran) },
            ];
            let Observed { model, timelines } = Observed::new([host(), facts].concat());
            let index = Index::new(&model, &timelines);
            let asked = index.waits.at(&asker, 2 * SECOND + MS).expect("it waits");
            chosen(&index, asked, vec![of_java(20, "main")]).map(|thread| thread.tid)
        };
        assert_eq!(chosen((SECOND, 3 * SECOND)), Some(20), "it rested meanwhile");
        assert_eq!(chosen((3 * SECOND, 4 * SECOND)), Some(21));
    }

    #[test]
    fn who_turned_to_it_is_dated_less_well_where_threads_are_sampled() {
        let sleeps = |kernel_events: bool, before_ns: Ns| {
            let mut facts = host();
            let host = Host { kernel_events, ..Host::default() };
            facts.push(Fact { at_ns: 0, body: Body::Host(host) });
            let thread = |tid| ThreadRef { tid, pid: 20, start_ns: 1, comm: "python3".into() };
            for (tid, syscall, since_ns) in
                [(20, "poll", SECOND), (21, "clock_nanosleep", 2 * SECOND - before_ns)]
            {
                let place =
                    Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
                let thread = thread(tid);
                let blocked = Blocked { thread, since_ns, place, ..Blocked::default() };
                facts.push(Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) });
            }
            let Observed { model, timelines } = Observed::new(facts);
            let index = Index::new(&model, &timelines);
            serving_since(&index, None, &[20], (2 * SECOND, LOOK_NS)).map(|thread| thread.tid)
        };
        assert_eq!(sleeps(true, 1_000_000), Some(21));
        assert_eq!(sleeps(true, 15_000_000), Some(20), "it slept before the question came");
        assert_eq!(sleeps(false, 15_000_000), Some(21));
    }

    #[test]
    fn a_machines_own_threads_serve_nobody() {
        let idle =
            &["pthread_cond_timedwait", "MonitorDeflationThread::monitor_deflation_thread_entry"];
        let deflates = || waits(22, "Monitor Deflati", 2 * SECOND, idle);
        let machine = || waits(21, "VM Thread", SECOND, &["VMThread::loop"]);
        let worker = || waits(23, "pool-1-thread-1", SECOND, PARKED);
        assert_eq!(serves(vec![deflates(), machine(), worker()]), Some(23));
        assert_eq!(serves(vec![deflates(), machine()]), Some(21), "nobody else is known");
        assert_eq!(serves(vec![deflates(), worker()]), Some(22), "names alone make no machine");
    }

    #[test]
    fn of_threads_that_stand_in_one_function_whichever_serves_it_waits_for_the_same() {
        let asked = 2 * SECOND + SECOND / 100;
        let machine = || waits(21, "VM Thread", 0, &["VMThread::loop"]);
        let pool = |tid, function: &'static str| {
            let mut facts = waits(tid, "pool-1-thread", asked, PARKED);
            if let Body::UserStack(stack) = &mut facts[0].body {
                let (function, module) = (function.to_string(), "Shop.java".to_string());
                stack.frames.push(UserFrame { function, module, ..UserFrame::default() });
            }
            facts
        };
        let rests = || waits(23, "pool-1-thread", SECOND, PARKED);
        let serves = |one, other| serves(vec![machine(), rests(), pool(24, one), pool(25, other)]);
        assert_eq!(serves("Shop.buy", "Shop.buy"), Some(24));
        assert_eq!(serves("Shop.buy", "Shop.pay"), Some(23));
    }

    #[test]
    fn who_was_parked_just_as_the_question_came_serves_it() {
        let machine = || waits(21, "VM Thread", 0, &["VMThread::loop"]);
        let pool = |tid, since_ns| waits(tid, "pool-1-thread", since_ns, PARKED);
        let asked = 2 * SECOND + SECOND / 100;
        assert_eq!(serves(vec![machine(), pool(23, SECOND), pool(24, asked)]), Some(24));
        // Either may have: it is said of neither that it was asked.
        assert_eq!(
            serves(vec![machine(), pool(23, SECOND), pool(24, asked), pool(25, asked)]),
            Some(23)
        );
    }
}
