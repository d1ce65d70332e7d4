//! What a process stands in that was asked about, where its own functions say that it is no work: a lock, a connection of a pool, a barrier, the end
//! of a thread; the sentence of a look that would else call it idle.
//!
//! The main thread speaks for its process, or whom it joins: the launcher of a virtual machine only waits for the thread of its program. Who waits for
//! a mutex or for a connection of a pool is never at rest. A semaphore, a condition and the end of a thread are waited for at rest as well, by a server
//! that waits until it is stopped: they are said only of a process none of whose threads listens. Who has what is waited for is mostly not to be seen;
//! so it is said where each of the others stands.
//!
//! Must not: say that anybody is late, or who has it (graph/). Rejected: a word of memory of which no function says what it is for (a pool at rest).
//! Edit together: unwoken.rs (who is alone), own_threads.rs (who all wait for one another).

use super::semaphores;
use crate::facts::{ObjectRef, TargetKind, ThreadRef};
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::model::words;
use crate::programs::lock_kind::LockKind;
use crate::programs::{java, takes_connection};
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack::{self, lock_kind_of};
use crate::waits::{WaitClass, goroutines};
use std::collections::BTreeMap;

/// Threads that join one another are followed so far.
const JOINS_MAX: usize = 4;
/// Places that are said one by one.
const PLACES_MAX: usize = 5;
const CONNECTION: &str = "a connection of a pool";

/// What a thread has stood in all the look.
struct Stood<'m> {
    wait: &'m WaitSpan,
    what: &'static str,
}

/// Title and paragraph, if the process that was asked about stands so.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?.pid;
    if goroutines::are_known(model, asked) {
        return of_goroutines(measures, asked);
    }
    let Stood { wait, what } = stood(measures, asked)?;
    // Whom the main thread joins does what that waits for.
    let process = model.threads.thread_ref(asked);
    let (what, whose) = match semaphores::of(measures, wait) {
        Some(known) => (known.what, format!(" {}", known.whose)),
        None => (what.to_string(), String::new()),
    };
    let speaks = speaker(measures, asked);
    let who = if speaks == wait.thread { &process } else { &wait.thread };
    let place = place(measures, wait).map_or_else(String::new, |it| format!(" in {it}"));
    let least = if wait.begin_estimated { "at least " } else { "" };
    let lasts = words::seconds(wait.end_ns.saturating_sub(wait.begin_ns) as f64 / 1e9);
    Some((
        format!(
            "{} has waited all the time for {what}, and was not woken.",
            model.threads.who(who)
        ),
        format!(
            "It has stood{place} for {least}{lasts}.{whose}{}",
            others(measures, asked, &wait.thread)
        ),
    ))
}

/// What the process that was asked about stands in, with where; none if it may wait for work.
pub(super) fn awaited(measures: &Measures<'_>) -> Option<String> {
    let asked = measures.model.look.target.as_ref()?;
    let asked = Some(asked).filter(|it| it.kind == TargetKind::Process)?.pid;
    let stood = stood(measures, asked)?;
    let place = place(measures, stood.wait).map_or_else(String::new, |it| format!(" in {it}"));
    Some(format!("{}{place}", stood.what))
}

/// Where the others of its threads stand, as sentences; empty if it does not stand so.
pub(super) fn beside(measures: &Measures<'_>) -> String {
    let asked = measures.model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process);
    let stood = asked.and_then(|asked| Some((asked.pid, stood(measures, asked.pid)?)));
    stood.map_or_else(String::new, |(pid, it)| others(measures, pid, &it.wait.thread))
}

/// The main thread of a process, or whom it joins, and who that joins.
pub(super) fn speaker(measures: &Measures<'_>, pid: u32) -> ThreadRef {
    let mut speaks = measures.model.threads.thread_ref(pid);
    for _ in 0..JOINS_MAX {
        // pthread_join waits on the thread's number; who is woken otherwise shows nobody.
        let joins = |wait: &&WaitSpan| {
            wait.place.args[2] > 2 && kind(measures, wait) == Some(LockKind::Join)
        };
        let joined = standing(measures, &speaks).filter(joins);
        let joined = joined.and_then(|wait| measures.graph.holder(wait));
        match joined.filter(|it| it.pid == pid && it.tid != speaks.tid) {
            Some(joined) => speaks = joined,
            None => break,
        }
    }
    speaks
}

/// A program whose goroutines wait for a lock, or for a connection.
fn of_goroutines(measures: &Measures<'_>, pid: u32) -> Option<(String, String)> {
    let model = measures.model;
    let within = (model.look.begin_ns, model.look.end_ns);
    let (count, what) = goroutines::held_up(model, pid, within)?;
    let who = model.threads.who(&model.threads.thread_ref(pid));
    let goroutines = words::count(count, "goroutine that waits", "goroutines that wait");
    let summary = goroutines::summary(model, pid, within)?;
    Some((
        format!("{who} has {goroutines} for {what}, and nobody is known to give it."),
        format!("Most of the look {summary}."),
    ))
}

/// The wait of a process that is none for work.
fn stood<'m>(measures: &'m Measures<'m>, pid: u32) -> Option<Stood<'m>> {
    let own = threads(measures, pid);
    let held_up = own.iter().filter_map(|thread| standing(measures, thread));
    let held_up =
        held_up.filter_map(|wait| Some(Stood { wait, what: held_up_by(measures, wait)? }));
    // Of several the one that has waited longest.
    if let Some(first) = held_up.min_by_key(|it| it.wait.begin_ns) {
        return Some(first);
    }
    let speaks = speaker(measures, pid);
    let listens = || own.iter().any(|thread| may_get_work(measures, thread));
    let of_main = standing(measures, &speaks).filter(|_| own.len() > 1);
    // Its sleep says no more of the others than that it brings them no work.
    let wait = match of_main.filter(|wait| wait.class != WaitClass::Timer) {
        Some(wait) => wait,
        None => return own.iter().find_map(|it| for_another(measures, it)).filter(|_| !listens()),
    };
    let kind = kind(measures, wait).filter(|_| is_word(wait));
    let what = match kind {
        Some(kind) => (is_no_queue(kind) && !listens()).then(|| kind.phrase()),
        // Of no function that says so only a child is a sign: a thread of its own waits for that.
        None if is_word(wait) && !accepts(measures, pid) => {
            only_child(measures, pid).map(|_| "a word of its memory")
        }
        None => None,
    };
    what.map(|what| Stood { wait, what })
}

/// What a wait is for that nobody has at rest.
fn held_up_by(measures: &Measures<'_>, wait: &WaitSpan) -> Option<&'static str> {
    let kind = kind(measures, wait).filter(|_| is_word(wait))?;
    use LockKind::{Channel, Condition, Mutex, Park, ProgramLock, Rwlock, Semaphore};
    // Who makes a connection may wait for the interpreter meanwhile.
    let is_pools =
        matches!(kind, Channel | Condition | Mutex | Park | ProgramLock | Rwlock | Semaphore);
    let stack = measures.model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    if stack.is_some_and(|stack| is_pools && takes_connection(&stack.frames).is_some()) {
        return Some(CONNECTION);
    }
    matches!(kind, Mutex | Rwlock).then(|| kind.phrase())
}

/// The wait of a thread for the others of its process to come as far, or to take what it has for them: no worker rests so.
fn for_another<'m>(measures: &'m Measures<'m>, thread: &ThreadRef) -> Option<Stood<'m>> {
    let wait = standing(measures, thread).filter(|wait| is_word(wait))?;
    let kind = kind(measures, wait)?;
    matches!(kind, LockKind::Barrier | LockKind::MessageRoom)
        .then(|| Stood { wait, what: kind.phrase() })
}

/// Whether a kind is said of a process that nobody can give work to.
fn is_no_queue(kind: LockKind) -> bool {
    use LockKind::{Barrier, Condition, Join, MessageRoom, Once, Semaphore};
    matches!(kind, Barrier | Condition | Join | MessageRoom | Once | Semaphore)
}

/// Whether a thread listens, or does what was not seen: it may bring work to the others.
fn may_get_work(measures: &Measures<'_>, thread: &ThreadRef) -> bool {
    if java::polls_for_others(&thread.comm) {
        return accepts(measures, thread.pid);
    }
    let last = measures.graph.waits_of(thread).last().filter(|wait| wait.standing);
    // A worker of a pool that rests at a word gets its work of a thread of its own.
    last.is_none_or(|wait| wait.place.syscall != "futex" && wait.class != WaitClass::Timer)
}

/// Whether a process has a listening socket.
fn accepts(measures: &Measures<'_>, pid: u32) -> bool {
    let its = measures.model.held.endpoints.iter().filter(|end| end.process.pid == pid);
    its.map(|end| &end.object).any(|object| match object {
        ObjectRef::Inet(socket) => socket.remote.port() == 0,
        ObjectRef::Unix { peer_ino, path, .. } => *peer_ino == 0 && path.is_some(),
        _ => false,
    })
}

/// The one child of a process that was there before the look, and is.
fn only_child(measures: &Measures<'_>, pid: u32) -> Option<ThreadRef> {
    let threads = &measures.model.threads;
    let gone = |of: u32| threads.exits.iter().any(|(_, exit)| exit.thread.tid == of);
    let is_child = |it: &&ThreadRef| {
        it.tid == it.pid && measures.graph.parent_of(it.pid) == Some(pid) && !gone(it.pid)
    };
    let all: BTreeMap<u32, &ThreadRef> =
        threads.every_thread().filter(is_child).map(|it| (it.pid, it)).collect();
    let (_, only) = all.first_key_value().filter(|_| all.len() == 1)?;
    let is_other = threads.process_name(only.pid) != threads.process_name(pid);
    (is_other && measures.model.look.began_before(only.start_ns)).then(|| (*only).clone())
}

/// Threads of a process that live, but for those that a virtual machine has for itself.
fn threads(measures: &Measures<'_>, pid: u32) -> Vec<ThreadRef> {
    let gone = |it: &ThreadRef| {
        let mut exits = measures.model.threads.exits.iter();
        exits.any(|(_, exit)| exit.thread.tid == it.tid)
    };
    let mut all = measures.graph.threads_of(&[pid]);
    all.retain(|it| java::own_thread(&it.comm).is_none() && !gone(it));
    all.dedup_by_key(|it| it.tid);
    all
}

/// The wait of a thread that lasts since before the look.
fn standing<'m>(measures: &'m Measures<'m>, thread: &ThreadRef) -> Option<&'m WaitSpan> {
    let last = measures.graph.waits_of(thread).last()?;
    (last.standing && measures.model.look.began_before(last.begin_ns)).then_some(last)
}

fn is_word(wait: &WaitSpan) -> bool {
    matches!(wait.class, WaitClass::FutexWait | WaitClass::FutexLock)
}

fn kind(measures: &Measures<'_>, wait: &WaitSpan) -> Option<LockKind> {
    lock_kind_of(measures.model, &wait.thread, wait.begin_ns, wait.end_ns)
}

/// Where a wait stands: in the pool's function that a person knows it by, or else in the program's.
fn place(measures: &Measures<'_>, wait: &WaitSpan) -> Option<String> {
    let model = measures.model;
    let stack = model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    let of_pool = stack.and_then(|stack| takes_connection(&stack.frames));
    match of_pool {
        Some(frame) if frame.line != 0 => {
            Some(format!("{}() of {}", frame.function, frame.place()))
        }
        Some(frame) => Some(format!("{}()", frame.function)),
        None => stands_in(model, &wait.thread, (model.look.begin_ns, model.look.end_ns)),
    }
}

/// Where the other threads of a process stand, as a sentence with a space before it; empty if it has no others.
fn others(measures: &Measures<'_>, pid: u32, but: &ThreadRef) -> String {
    let model = measures.model;
    let mut at: BTreeMap<String, usize> = BTreeMap::new();
    let all = threads(measures, pid);
    let has_virtual = all.iter().any(|thread| java::polls_for_others(&thread.comm));
    let is_joined = but.tid != pid && speaker(measures, pid) == *but;
    for thread in all {
        let is_said = thread.tid == but.tid || is_joined && thread.tid == pid;
        let is_seen = !is_said && !java::polls_for_others(&thread.comm);
        if let Some(does) = does(measures, &thread).filter(|_| is_seen) {
            let place = stands_in(model, &thread, (model.look.begin_ns, model.look.end_ns));
            let place = place.map_or_else(String::new, |it| format!(" in {it}"));
            *at.entry(format!("{does}{place}")).or_default() += 1;
        }
    }
    let mut at: Vec<(String, usize)> = at.into_iter().collect();
    at.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more: usize = at.iter().skip(PLACES_MAX).map(|(_, count)| count).sum();
    let mut said: Vec<String> =
        at.iter().take(PLACES_MAX).map(|(does, count)| format!("{count} {does}")).collect();
    said.extend((more > 0).then(|| format!("{more} more")));
    let said = match said.is_empty() {
        true => String::new(),
        false => format!(" Its other threads: {}.", said.join(", ")),
    };
    let unseen = if has_virtual { " Where its virtual threads stand was not seen." } else { "" };
    let child = only_child(measures, pid).map_or_else(String::new, |child| {
        format!(" It has one child, {}: holdup -p {} follows it.", words::who(&child), child.pid)
    });
    format!("{said}{unseen}{child}")
}

/// What a thread does, behind its number; none if it waits for work.
fn does(measures: &Measures<'_>, thread: &ThreadRef) -> Option<String> {
    let Some(wait) = measures.graph.waits_of(thread).last().filter(|wait| wait.standing) else {
        return Some("not seen to wait".into());
    };
    let stack = measures.model.user_stack(thread, wait.begin_ns, wait.end_ns);
    if wait.class == WaitClass::Timer || stack.is_some_and(|it| user_stack::sleeps(&it.frames)) {
        return Some("asleep".into());
    }
    let what = match kind(measures, wait) {
        Some(LockKind::Idle) => return None,
        kind if is_word(wait) => held_up_by(measures, wait).or(kind.map(LockKind::phrase)),
        _ => None,
    };
    Some(what.map_or_else(|| "waiting".into(), |what| format!("waiting for {what}")))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// A thread of process 10 in a call, with its functions, the innermost first: `f@file`.
    fn stands(tid: u32, syscall: &str, args: [u64; 6], functions: &str) -> Vec<Fact> {
        let place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), args, ..Place::default() };
        let mut wait = at_place(10, "app", place);
        if let Body::Blocked(wait) = &mut wait.body {
            wait.thread.tid = tid;
        }
        let frame = |text: &str| {
            let (function, module) = text.split_once('@').unwrap_or((text, "app"));
            UserFrame { function: function.into(), module: module.into(), line: 0 }
        };
        let frames = functions.split(" < ").map(frame).collect();
        let thread = ThreadRef { tid, ..thread(10, "app") };
        let stack = UserStack { thread, since_ns: 0, frames, complete: true };
        vec![wait, Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) }]
    }

    /// futex(2): FUTEX_WAIT_BITSET of this process alone, with and without a time limit; and of a joined thread.
    const WORD: [u64; 6] = [0x7f00_0000_1000, 9 | 128, 0, 0, 0, 0];
    const TIMED: [u64; 6] = [0x7f00_0000_1000, 9 | 128, 0, 0x7ffd_0000, 0, 0];
    const JOINS_11: [u64; 6] = [0x7f00_0000_2000, 9 | 256, 11, 0, 0, 0];
    const POOL: &str = "sem_clockwait@libc.so.6 < PyThread_acquire_lock_timed@python3.11 < Condition.wait@python3/threading.py < Queue.get@queue.py < QueuePool._do_get@impl.py < <module>@shop.py";
    const JOIN: &str = "pthread_join@libc.so.6 < launch";

    fn said(threads: &[Vec<Fact>]) -> String {
        let answer =
            explain([host(), vec![of_process(10, "app")], threads.concat()].concat()).answer;
        format!("{} {}", answer.title, answer.text)
    }

    fn sleeps(tid: u32) -> Vec<Fact> {
        stands(tid, "clock_nanosleep", [0; 6], "clock_nanosleep@libc.so.6 < hold@shop.py")
    }

    fn listens(tid: u32) -> Vec<Fact> {
        stands(tid, "epoll_wait", [3, 0, 0, 0, 0, 0], "epoll_wait@libc.so.6 < serve@shop.py")
    }

    #[test]
    fn who_waits_for_a_connection_of_a_pool_is_not_idle_whoever_listens() {
        let waits = stands(10, "futex", TIMED, POOL);
        let title = "app 10 has waited all the time for a connection of a pool, and was not woken.";
        for other in [sleeps(11), listens(11)] {
            let said = said(&[waits.clone(), other]);
            assert!(said.starts_with(title), "{said}");
            assert!(said.contains("stood in QueuePool._do_get() for"), "{said}");
        }
        let others = said(&[waits, sleeps(11)]);
        assert!(others.contains("Its other threads: 1 asleep in hold()."), "{others}");
    }

    #[test]
    fn a_worker_of_the_pools_own_that_waits_for_work_rests() {
        let worker = "sem_wait@libc.so.6 < PyThread_acquire_lock_timed@python3.11 < Queue.get@python3/queue.py < next_job@jobs.py";
        let rests = said(&[listens(10), stands(11, "futex", TIMED, worker)]);
        assert!(rests.contains(" is idle: "), "{rests}");
        // It makes a connection, and waits for an answer there.
        let makes = "recv@libc.so.6 < connect@driver.py < QueuePool._do_get@impl.py";
        let makes = said(&[stands(10, "recvfrom", [5, 0, 0, 0, 0, 0], makes), sleeps(11)]);
        assert!(!makes.contains("connection of a pool"), "{makes}");
    }

    #[test]
    fn whom_the_main_thread_joins_speaks_for_it_unless_somebody_listens() {
        let barrier = |tid| stands(tid, "futex", WORD, "pthread_barrier_wait@libc.so.6 < meet");
        let joins = stands(10, "futex", JOINS_11, JOIN);
        let hangs = said(&[joins.clone(), barrier(11), barrier(12), sleeps(13)]);
        let title = "app 10 has waited all the time for a barrier, and was not woken. It has stood in meet()";
        assert!(hangs.starts_with(title), "{hangs}");
        let others = "Its other threads: 1 asleep in hold(), 1 waiting for a barrier in meet().";
        assert!(hangs.contains(others), "{hangs}");
        let serves = said(&[joins.clone(), barrier(11), barrier(12), listens(13)]);
        assert!(!serves.contains("barrier, and was not woken"), "{serves}");
        let periodic = said(&[joins, sleeps(11)]);
        assert!(periodic.contains("sleeps on purpose"), "{periodic}");
    }

    #[test]
    fn threads_that_wait_for_one_that_sleeps_are_said_though_the_main_thread_joins_that() {
        let barrier = |tid| stands(tid, "futex", WORD, "pthread_barrier_wait@libc.so.6 < meet");
        let joins = stands(10, "futex", JOINS_11, JOIN);
        let hangs = said(&[joins.clone(), sleeps(11), barrier(12), barrier(13)]);
        let title = "app 10/12 has waited all the time for a barrier, and was not woken. It has stood in meet()";
        assert!(hangs.starts_with(title), "{hangs}");
        assert!(hangs.contains("1 asleep in hold()"), "{hangs}");
        let serves = said(&[joins.clone(), sleeps(11), barrier(12), listens(13)]);
        assert!(serves.contains(" is idle: "), "{serves}");
        let worker = stands(12, "futex", WORD, "pthread_cond_wait@libc.so.6 < take_job");
        let rests = said(&[joins, sleeps(11), worker]);
        assert!(rests.contains(" is idle: "), "{rests}");
    }

    #[test]
    fn who_has_something_for_a_queue_is_not_idle_and_who_takes_of_it_is() {
        let at = |method: &str| {
            let call = "Condition.wait@python3/threading.py";
            let lock = "sem_wait@libc.so.6 < PyThread_acquire_lock_timed@python3.11";
            let stack = format!("{lock} < {call} < {method}@python3/queue.py < feed@jobs.py");
            said(&[stands(10, "futex", WORD, &stack), sleeps(11)])
        };
        let puts = at("Queue.put");
        let title = "app 10 has waited all the time for room in a queue, and was not woken.";
        assert!(puts.starts_with(title), "{puts}");
        assert!(puts.contains("Its other threads: 1 asleep in hold()."), "{puts}");
        let takes = at("Queue.get");
        assert!(takes.contains(" is idle: "), "{takes}");
    }

    #[test]
    fn a_machines_own_threads_neither_listen_nor_stand() {
        let named = |mut facts: Vec<Fact>, comm: &str| {
            for fact in &mut facts {
                match &mut fact.body {
                    Body::Blocked(wait) => wait.thread.comm = comm.into(),
                    Body::UserStack(stack) => stack.thread.comm = comm.into(),
                    _ => {}
                }
            }
            facts
        };
        let latch = "Parker::park@libjvm.so < Unsafe.park@jdk/Unsafe.java < CountDownLatch.await@jdk/CountDownLatch.java < Lat.main@Lat.java";
        let waits = || stands(10, "futex", WORD, latch);
        let signals =
            || named(stands(11, "futex", WORD, "os::signal_wait@libjvm.so"), "Signal Dispatch");
        let attach = || named(listens(12), "Attach Listener");
        let pool = "Parker::park@libjvm.so < Unsafe.park@jdk/Unsafe.java < ForkJoinPool.awaitWork@jdk/ForkJoinPool.java";
        let worker = || stands(14, "futex", TIMED, pool);
        let hangs = said(&[waits(), signals(), attach(), sleeps(13), worker()]);
        let title = "app 10 has waited all the time for a condition, and was not woken. It has stood in Lat.main()";
        assert!(hangs.starts_with(title), "{hangs}");
        assert!(hangs.contains("Its other threads: 1 asleep in hold()."), "{hangs}");
        let serves = said(&[waits(), signals(), attach(), listens(13)]);
        assert!(serves.contains(" is idle: "), "{serves}");
    }

    #[test]
    fn an_unknown_word_is_no_rest_beside_the_one_child_of_who_listens_nowhere() {
        let child = |pid: u32| {
            let thread = thread(pid, "sleep");
            vec![identity(Thread { thread, parent_pid: 10, ..Thread::default() })]
        };
        let main = || stands(10, "futex", WORD, "futex_wait@lisp");
        let polls =
            || stands(11, "poll", [0x7000, 1, 10_000, 0, 0, 0], "poll@libc.so.6 < run@lisp");
        let one = said(&[main(), polls(), child(20)]);
        assert!(one.contains("It has one child, sleep 20: holdup -p 20 follows it."), "{one}");
        assert!(!one.contains(" is idle"), "{one}");
        for rests in [said(&[main(), polls()]), said(&[main(), polls(), child(20), child(21)])] {
            assert!(rests.contains(" is idle: "), "{rests}");
        }
        let unix = ObjectRef::Unix { ino: 5, peer_ino: 0, path: Some("/run/app".into()) };
        let serves = said(&[main(), polls(), child(20), vec![endpoint(10, "app", unix)]]);
        assert!(serves.contains(" is idle: "), "{serves}");
    }

    #[test]
    fn goroutines_that_wait_for_a_mutex_make_a_program_that_is_not_idle() {
        let program = |functions: &[&str]| {
            let frame =
                |name: &&str| UserFrame { function: (*name).into(), ..UserFrame::default() };
            let frames = functions.iter().map(frame).collect();
            let one = Goroutine { id: 7, frames, ..Goroutine::default() };
            let all = Goroutines { pid: 10, standing: vec![one], ..Goroutines::default() };
            let idle = blocked(10, "app", WaitState::Sleep, "futex");
            said(&[vec![idle, Fact { at_ns: LOOK_NS, body: Body::Goroutines(all) }]])
        };
        let locks = program(&["runtime.gopark", "sync.(*Mutex).lockSlow", "main.pay"]);
        let title =
            "app 10 has 1 goroutine that waits for a mutex, and nobody is known to give it.";
        assert!(locks.starts_with(title), "{locks}");
        let takes =
            program(&["runtime.gopark", "runtime.selectgo", "database/sql.(*DB).conn", "main.buy"]);
        assert!(takes.contains("waits for a connection of its pool in main.buy()"), "{takes}");
        let rests = program(&["runtime.gopark", "runtime.chanrecv", "main.next"]);
        assert!(rests.contains(" is idle: "), "{rests}");
    }
}
