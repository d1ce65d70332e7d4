//! What a process stands in that was asked about and that nobody has woken: a semaphore, a condition, a lock of its own; the sentence of a
//! look that would else call it idle.
//!
//! Whoever waits for a word of memory or a semaphore waits for somebody, and no kernel says for whom. A worker at rest looks the same, so only
//! who is alone is said so: one thread that did not run, without a time limit, and no process of the same program beside or above it, as those
//! of a pool have; but a pool at rest has one that listens, and none that sleeps by the clock while nobody does. What could wake it follows from the call: of a private word only a thread of its own, and it has none; of a shared one and
//! of System V's whoever else uses it.
//!
//! A full queue of messages is no rest: whoever has something to send waits for its reader, of several as well. An empty one is work.
//!
//! Must not: say that anybody is late, or call a lock held (rules/lock/). Rejected: any process
//! with one waiting thread (prefork servers wait by a semaphore for their turn to accept). Edit together: standing.rs, which has the other ends.

use super::inside;
use super::semaphores::{self, is_for_input, stands_at};
use crate::facts::{ObjectRef, Place, TargetKind, ThreadRef};
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::model::words;
use crate::programs::lock_kind::LockKind;
use crate::rules::file_of;
use crate::waits::futex_value::is_private;
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack::lock_kind_of;
use crate::waits::{WaitClass, goroutines};
use std::collections::BTreeSet;

/// PID of the first process: whose parent it is was begun by nobody who is still there.
const INIT: u32 = 1;

/// Title and paragraph, if the process that was asked about stands so.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let model = measures.model;
    let asked = model.look.target.as_ref()?.pid;
    // A goroutine is at another place than its thread.
    let alone = || stands_alone(measures, asked).filter(|_| !goroutines::are_known(model, asked));
    let wait = full_queue(measures, asked).or_else(alone)?;
    let (what, whose) = awaited(measures, wait)?;
    let who = model.threads.who(&wait.thread);
    let lasts = wait.end_ns.saturating_sub(wait.begin_ns) as f64 / 1e9;
    let least = if wait.begin_estimated { "at least " } else { "" };
    let place = stands_in(model, &wait.thread, (model.look.begin_ns, model.look.end_ns));
    let place = place.map_or_else(String::new, |place| format!(" in {place}"));
    Some((
        format!("{who} has waited all the time for {what}, and was not woken."),
        format!("It has stood{place} for {least}{}. {whose}", words::seconds(lasts)),
    ))
}

/// The same of a host of which something else is said: who has waited longest for a semaphore that others could give, if those do not rest.
pub(super) fn beside(measures: &Measures<'_>) -> Option<String> {
    let model = measures.model;
    let target = model.look.target.as_ref();
    if target.is_some_and(|target| target.kind != TargetKind::Host) {
        return None;
    }
    let of_sets = model.held.semaphores.iter().map(|(_, it)| it.waiter.pid);
    let of_words = model.held.shared_words.iter().map(|(_, it)| it.waiter.pid);
    let pids: BTreeSet<u32> = of_sets.chain(of_words).collect();
    let stands = pids.into_iter().filter_map(|pid| stands_alone(measures, pid));
    let known = stands.filter_map(|wait| Some((wait, semaphores::of(measures, wait)?)));
    let held_up = known.filter(|(_, known)| known.is_semaphore && !known.may_rest);
    let (wait, known) = held_up.min_by_key(|(wait, _)| wait.begin_ns)?;
    let (who, what, pid) = (model.threads.who(&wait.thread), known.what, wait.thread.pid);
    Some(format!("{who} has waited all the time for {what}; holdup -p {pid} follows it."))
}

/// Whether that is said of a process with one thread: of several the others may rest.
pub(super) fn is_all_of_it(measures: &Measures<'_>) -> bool {
    let asked = measures.model.look.target.as_ref().map(|target| target.pid);
    let is_single = |pid: u32| measures.times_of(pid).take(2).count() < 2;
    asked.is_some_and(is_single) && said(measures).is_some()
}

/// What the main thread of the process that was asked about stands in all the look, where its functions say that it is more than work: a semaphore, the
/// turn of a queue.
pub(super) fn awaited_by_main(measures: &Measures<'_>) -> Option<&'static str> {
    let (model, asked) = (measures.model, measures.model.look.target.as_ref()?);
    // The launcher of a virtual machine joins the thread of its program.
    let main = inside::speaker(measures, asked.pid);
    let last =
        measures.graph.waits_of(&main).last().filter(|_| asked.kind == TargetKind::Process)?;
    let stands = last.standing && model.look.began_before(last.begin_ns);
    let is_word = matches!(last.class, WaitClass::FutexWait | WaitClass::FutexLock);
    let kind =
        lock_kind_of(model, &main, last.begin_ns, last.end_ns).filter(|_| stands && is_word)?;
    // A condition, a channel and a parked thread are how workers rest.
    use LockKind::{Channel, Condition, Idle, InterpreterLock, Park};
    let rests = matches!(kind, Channel | Condition | Idle | InterpreterLock | Park);
    (!rests).then(|| kind.phrase())
}

/// A wait of a process for room in a queue of messages, all the look.
fn full_queue<'m>(measures: &'m Measures<'m>, pid: u32) -> Option<&'m WaitSpan> {
    let is_it = |wait: &&WaitSpan| {
        wait.thread.pid == pid
            && matches!(wait.place.syscall.as_str(), "mq_timedsend" | "msgsnd")
            && stands_all_the_look(measures, wait)
    };
    measures.waits().find(is_it)
}

/// Whether a wait began before the look, goes on, and does not end by itself.
fn stands_all_the_look(measures: &Measures<'_>, wait: &WaitSpan) -> bool {
    wait.standing && measures.model.look.began_before(wait.begin_ns) && !is_timed(&wait.place)
}

/// For which message a process waits that has nothing to do, as a sentence; empty if it does not wait for one.
pub(super) fn awaited_message(measures: &Measures<'_>, pid: u32) -> String {
    let receives = |wait: &&WaitSpan| {
        wait.thread.pid == pid
            && wait.standing
            && matches!(wait.place.syscall.as_str(), "mq_timedreceive" | "msgrcv")
    };
    let queue = measures.waits().find(receives).and_then(|wait| queue(measures, wait));
    queue.map_or_else(String::new, |(queue, _)| format!(" It waits for a message in {queue}."))
}

/// The queue of messages that a wait is at, and what shows who else has it.
fn queue(measures: &Measures<'_>, wait: &WaitSpan) -> Option<(String, String)> {
    let ([first, second, ..], pid) = (wait.place.args, wait.thread.pid);
    match (wait.place.syscall.as_str(), &wait.place.object) {
        ("mq_timedsend" | "mq_timedreceive", Some(ObjectRef::File(file))) => {
            let known = file.path.as_deref().or_else(|| measures.model.called.path_of(file.into()));
            let name = known.and_then(|path| path.rsplit_once('/')).map(|(_, name)| name);
            Some(match name {
                Some(name) => {
                    let path = format!("/dev/mqueue/{name}");
                    // A container has queues of its own.
                    let seen = file_of(measures.model, &wait.thread, &path);
                    let file = words::shell(&seen.map_or(path, |seen| seen.path));
                    (
                        format!("the POSIX message queue /{name}"),
                        format!("fuser -v {file} says who has it open"),
                    )
                }
                None => (
                    format!("the POSIX message queue of its descriptor {first}"),
                    format!(
                        "readlink /proc/{pid}/fd/{first} says which it is, and fuser -v /dev/mqueue/... who has it open"
                    ),
                ),
            })
        }
        // The second is where the message is: without one the arguments are not known.
        ("msgsnd" | "msgrcv", _) if second != 0 => Some((
            format!("System V's message queue {first}"),
            format!("nsenter -t {pid} -i ipcs -q -i {first} says who took and put the last one"),
        )),
        _ => None,
    }
}

/// The one wait of a process that has a single thread and is no worker among its like.
fn stands_alone<'m>(measures: &'m Measures<'m>, pid: u32) -> Option<&'m WaitSpan> {
    let model = measures.model;
    let of_times = model.threads.times.iter().map(|time| &time.thread);
    let of_waits = measures.waits().map(|wait| &wait.thread);
    let own = of_times.chain(of_waits).chain(model.threads.every_thread());
    let threads: BTreeSet<u32> = own.filter(|it| it.pid == pid).map(|it| it.tid).collect();
    if threads.len() != 1 {
        return None;
    }
    let is_it = |wait: &&WaitSpan| {
        wait.thread.pid == pid
            && stands_all_the_look(measures, wait)
            && matches!(wait.class, WaitClass::FutexWait | WaitClass::FutexLock)
            && measures.graph.holder(wait).is_none_or(|holder| holder.pid == pid)
    };
    let wait = measures.waits().find(is_it)?;
    // Where it is known who could give it, his rest says more than names.
    let known = semaphores::of(measures, wait);
    let is_pools = match known {
        Some(known) if !known.may_rest => false,
        _ => is_one_of_several(measures, pid),
    };
    (!is_pools).then_some(wait)
}

/// Whether a process has others of its program beside or above it, or nobody knows.
fn is_one_of_several(measures: &Measures<'_>, pid: u32) -> bool {
    let threads = &measures.model.threads;
    let name = threads.process_name(pid);
    // Of those that the init of the host began, or somebody who is not known, each may be one of a pool.
    let began = |of: u32| measures.graph.parent_of(of).filter(|parent| *parent > INIT);
    let parent = began(pid);
    let is_main = |thread: &&ThreadRef| thread.tid == thread.pid && thread.pid != pid;
    let others = threads.every_thread().filter(is_main);
    let beside = others.filter(|other| other.comm == name && began(other.pid) == parent);
    let beside: BTreeSet<Option<WaitClass>> =
        beside.map(|other| stands_at(measures, other.pid)).collect();
    let is_pool = beside.iter().flatten().any(|class| is_for_input(*class))
        || !beside.is_empty() && !beside.contains(&Some(WaitClass::Timer));
    // Who waits for a child to end gives none of them work.
    let above = parent.filter(|parent| stands_at(measures, *parent) != Some(WaitClass::Child));
    let above = above.map(|parent| threads.process_name(parent));
    above.is_some_and(|above| above.is_empty() || above == name) || is_pool
}

/// Whether a call ends by itself.
fn is_timed(place: &Place) -> bool {
    match place.syscall.as_str() {
        "futex" | "semtimedop" => place.args[3] != 0,
        "mq_timedsend" => place.args[4] != 0,
        _ => false,
    }
}

/// What a thread stands in, and who could give it.
fn awaited(measures: &Measures<'_>, wait: &WaitSpan) -> Option<(String, String)> {
    if let Some(known) = semaphores::of(measures, wait) {
        return Some((known.what, known.whose));
    }
    let place = &wait.place;
    let [first, second, ..] = place.args;
    let kind = lock_kind_of(measures.model, &wait.thread, wait.begin_ns, wait.end_ns);
    let kind = kind.map_or("a word of its memory", LockKind::phrase);
    match place.syscall.as_str() {
        // The second is where the operations are: without one the arguments are not known.
        "semop" | "semtimedop" if second != 0 => Some((
            format!("a semaphore of System V's set {first}"),
            format!(
                "Whoever uses that set could give it: nsenter -t {} -i ipcs -s -i {first} says which process was at each of its semaphores last.",
                wait.thread.pid
            ),
        )),
        "mq_timedsend" | "msgsnd" => {
            let (queue, look) = queue(measures, wait)?;
            let whose =
                format!("The queue is full: whoever receives from it could make room. {look}.");
            Some((format!("room in {queue}"), whose))
        }
        // Without an address they are not known.
        "futex" if first == 0 => None,
        "futex" if is_private(place) => Some((
            format!("{kind} at {first:#x}"),
            "Only a thread of its own could wake it there, and it has no other; or a signal."
                .into(),
        )),
        "futex" => Some((
            format!("{kind} at {first:#x}, which other processes may share"),
            format!(
                "Whoever else has that memory mapped could give it: grep -s rw-s /proc/{}/maps says which file it is, and fuser -v who has that.",
                wait.thread.pid
            ),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// futex(2): FUTEX_WAIT_BITSET, with and without FUTEX_PRIVATE_FLAG.
    const SHARED: [u64; 6] = [0x7f00_0000_1000, 9 | 256, 0, 0, 0, 0];
    const PRIVATE: [u64; 6] = [0x7f00_0000_1000, 9 | 128, 0, 0, 0, 0];
    /// semop(2): set 5, whose operations are somewhere.
    const SEMOP: [u64; 6] = [5, 0x7ffd_0000, 1, 0, 0, 0];

    fn stands(pid: u32, tid: u32, syscall: &str, args: [u64; 6]) -> Fact {
        let place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), args, ..Place::default() };
        let mut wait = at_place(pid, "app", place);
        if let Body::Blocked(wait) = &mut wait.body {
            wait.thread.tid = tid;
        }
        wait
    }

    fn process(pid: u32, comm: &str, parent_pid: u32) -> Fact {
        identity(Thread { thread: thread(pid, comm), parent_pid, ..Thread::default() })
    }

    /// Process 10, begun by a shell, stands in a call; and more.
    fn title(syscall: &str, args: [u64; 6], more: Vec<Fact>) -> String {
        let own = vec![
            of_process(10, "app"),
            process(9, "sh", 1),
            process(10, "app", 9),
            stands(10, 10, syscall, args),
        ];
        explain([host(), own, more].concat()).answer.title
    }

    #[test]
    fn who_stands_alone_is_said_what_in() {
        let of = |syscall, args| title(syscall, args, Vec::new());
        let said =
            |what: &str| format!("app 10 has waited all the time for {what}, and was not woken.");
        assert_eq!(of("semop", SEMOP), said("a semaphore of System V's set 5"));
        let word = "a word of its memory at 0x7f0000001000";
        assert_eq!(of("futex", PRIVATE), said(word));
        assert_eq!(of("futex", SHARED), said(&format!("{word}, which other processes may share")));
    }

    #[test]
    fn who_has_a_message_to_send_waits_for_room_and_who_is_to_get_one_rests() {
        let at = |syscall: &str, args: [u64; 6]| {
            let file = FileRef { ino: 7, path: Some("/jobs".into()), ..FileRef::default() };
            let object = Some(ObjectRef::File(file));
            let (state, syscall) = (WaitState::Sleep, syscall.into());
            let place = Place { state, syscall, args, object, ..Place::default() };
            let own =
                vec![of_process(10, "app"), at_place(10, "app", place), process(12, "app", 1)];
            let answer = explain([host(), own].concat()).answer;
            format!("{} {}", answer.title, answer.text)
        };
        let full = at("mq_timedsend", [3, 0x7ffd_0000, 1, 0, 0, 0]);
        assert!(full.contains("for room in the POSIX message queue /jobs, and"), "{full}");
        let timed = at("mq_timedsend", [3, 0x7ffd_0000, 1, 0, 0x7ffd_0100, 0]);
        assert!(!timed.contains("for room in"), "{timed}");
        let full = at("msgsnd", [5, 0x7ffd_0000, 1, 0, 0, 0]);
        assert!(full.contains("for room in System V's message queue 5, and"), "{full}");
        let empty = at("mq_timedreceive", [3, 0x7ffd_0000, 1, 0, 0, 0]);
        assert!(empty.contains("is idle: ") && empty.contains("a message in the POSIX"), "{empty}");
    }

    #[test]
    fn one_beside_that_sleeps_by_the_clock_makes_no_pool_unless_another_listens() {
        let with = |calls: &[&str]| {
            let beside = calls
                .iter()
                .zip(12..)
                .flat_map(|(call, pid)| [process(pid, "app", 9), stands(pid, pid, call, [0; 6])]);
            title("semop", SEMOP, beside.collect())
        };
        let said = "app 10 has waited all the time for a semaphore of System V's set 5";
        assert!(with(&["clock_nanosleep"]).starts_with(said), "{}", with(&["clock_nanosleep"]));
        let pool = with(&["clock_nanosleep", "accept4"]);
        assert!(pool.contains(" is idle: "), "{pool}");
    }

    /// The title of process 20, whose parent has the same name, as its main thread stands in such a function.
    fn title_in(function: &str) -> String {
        let frame = UserFrame {
            function: function.into(),
            module: "libc.so.6".into(),
            ..UserFrame::default()
        };
        let read =
            UserStack { thread: thread(20, "app"), frames: vec![frame], ..UserStack::default() };
        let mut facts = host();
        facts.extend([of_process(20, "app"), process(20, "app", 10), process(10, "app", 5)]);
        facts.extend([stands(20, 20, "futex", SHARED), fact(Body::UserStack(read))]);
        explain(facts).answer.title
    }

    #[test]
    fn who_stands_in_a_semaphore_is_not_said_to_wait_for_work() {
        assert!(
            title_in("sem_wait").contains("it waits for a semaphore"),
            "{}",
            title_in("sem_wait")
        );
        let rests = title_in("pthread_cond_wait");
        assert!(rests.contains("it waits for work"), "{rests}");
    }

    #[test]
    fn workers_at_rest_are_idle() {
        let idle = |syscall, args, more| {
            let title = title(syscall, args, more);
            assert!(title.contains(" is idle: "), "{title}");
        };
        idle("futex", PRIVATE, vec![stands(10, 11, "epoll_wait", [0; 6])]);
        idle("semop", SEMOP, vec![process(12, "app", 9)]);
        idle("semop", SEMOP, vec![process(9, "app", 1)]);
        let timed = [SHARED[0], SHARED[1], 0, 0x7ffd_0000, 0, 0];
        idle("futex", timed, Vec::new());
        idle("semtimedop", [5, 0x7ffd_0000, 1, 0x7ffd_0100, 0, 0], Vec::new());
    }
}
