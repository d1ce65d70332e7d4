//! Worker processes of a server: those that take from one listener, which another of them began, and whether one of them is free.
//!
//! A worker is free if a thread of it waits for whatever comes next. Where none is, a connection that nobody has taken waits for all of them,
//! and for whoever is done first. Who has the listener need not accept: a manager that opened it for the server (socket activation) has it too, and so
//! have the helpers of a program that accepts itself, which take their orders from that. Must not: say why a worker is busy (chains.rs). Rejected: the
//! length of the queue alone, which is one for a moment at a server at rest too; to leave out process 1, which in a container may be the master.

use super::index::Index;
use crate::facts::{Endpoint, Ns, ObjectRef, ThreadRef};
use crate::model::Model;
use crate::waits::WaitClass;
use crate::waits::futex_value::is_private;
use crate::waits::timeline::WaitSpan;
use std::collections::HashSet;

/// The workers of a server, all of which have something in hand.
#[derive(Debug, Clone)]
pub struct BusyWorkers {
    /// Who began them.
    pub master: ThreadRef,
    /// Their main threads, by number.
    pub workers: Vec<ThreadRef>,
    /// Where they take from.
    pub listener: ObjectRef,
    /// Connections that wait there to be taken.
    pub waiting: usize,
}

/// The workers of the server of which a process is, at a time, if none of them is free.
pub(super) fn all_busy(index: &Index<'_>, pid: u32, at_ns: Ns) -> Option<BusyWorkers> {
    let all = index.connections.listening(pid);
    all.filter_map(|end| of_listener(index, &end.object, at_ns)).next()
}

fn of_listener(index: &Index<'_>, listener: &ObjectRef, at_ns: Ns) -> Option<BusyWorkers> {
    let ino = listener.socket_ino()?;
    // A connection that nobody has accepted has the listener at its other end.
    let holds = |end: &&&_| is_on(end, ino);
    let ends = index.connections.endpoints_on(ino);
    let mut pids: Vec<u32> = ends.iter().filter(holds).map(|end| end.process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let threads = &index.model.threads;
    let is_same = |one: u32, other: u32| {
        program(&threads.process_name(one)) == program(&threads.process_name(other))
    };
    let parent = |pid: &u32| index.families.parent_of(*pid).filter(|it| is_same(*it, *pid));
    let master = pids.iter().filter_map(parent).find(|parent| pids.contains(parent))?;
    pids.retain(|pid| parent(pid) == Some(master));
    if accepts(index, master, ino, at_ns)
        || !pids.iter().all(|pid| is_busy(index, *pid, master, at_ns))
    {
        return None;
    }
    let queued = ends.iter().find_map(|end| end.socket.as_ref()).map(|it| it.accept_queue as usize);
    Some(BusyWorkers {
        master: threads.thread_ref(master),
        workers: pids.into_iter().map(|pid| threads.thread_ref(pid)).collect(),
        listener: listener.clone(),
        waiting: match listener {
            ObjectRef::Unix { .. } => not_accepted(index.model, ino),
            _ => queued.unwrap_or(0),
        },
    })
}

/// Connections to a unix socket that listens which nobody has accepted: each has the listener at its other end.
pub(super) fn not_accepted(model: &Model, listener_ino: u64) -> usize {
    let of = |object: &ObjectRef| match object {
        ObjectRef::Unix { ino, peer_ino, .. } if *peer_ino == listener_ino => Some(*ino),
        _ => None,
    };
    model.held.endpoints.iter().filter_map(|end| of(&end.object)).collect::<HashSet<_>>().len()
}

fn is_on(end: &Endpoint, ino: u64) -> bool {
    end.object.socket_ino() == Some(ino)
}

/// What a process is called without its part, which servers put behind it: `gunicorn: maste` and `gunicorn: worke` are one program's.
pub(super) fn program(comm: &str) -> &str {
    comm.split([':', ' ']).next().unwrap_or(comm)
}

/// Whether a thread of a process waits at a listener itself, alone or among other descriptors: then its children are no workers of that.
fn accepts(index: &Index<'_>, pid: u32, ino: u64, at_ns: Ns) -> bool {
    index.families.threads_of(&[pid]).iter().any(|thread| {
        let Some(wait) = last(index, thread, at_ns) else { return false };
        let polled = index.connections.of_process(pid, &wait.place.polled);
        let is_it = |object: &ObjectRef| object.socket_ino() == Some(ino);
        wait.place.object.as_ref().is_some_and(is_it) || polled.iter().any(|end| is_on(end, ino))
    })
}

/// Whether a wait is for the next order of whoever began its process: at a pipe or a pair of sockets of which that has the other end, or for a word
/// that processes share (the queue of a pool of processes, a turn to accept).
fn is_for_orders(index: &Index<'_>, wait: &WaitSpan, master: u32) -> bool {
    let has = |ino: u64| {
        index.connections.endpoints_on(ino).iter().any(|it| it.writable && it.process.pid == master)
    };
    match (wait.class, &wait.place.object) {
        (WaitClass::PipeRead, Some(ObjectRef::Pipe { ino })) => has(*ino),
        (WaitClass::UnixRead, Some(ObjectRef::Unix { peer_ino, .. })) => has(*peer_ino),
        // Whose pipe it is, nobody knows.
        (WaitClass::PipeRead, _) => true,
        // A semaphore of System V's is a lock to a script (sem_acquire), and not a queue.
        (WaitClass::FutexWait, _) => {
            wait.place.syscall.starts_with("futex") && !is_private(&wait.place)
        }
        _ => false,
    }
}

/// Whether a process was seen, and none of its threads waits for whatever comes next, or for an order.
fn is_busy(index: &Index<'_>, pid: u32, master: u32, at_ns: Ns) -> bool {
    let threads = index.families.threads_of(&[pid]);
    let is_free = |thread: &ThreadRef| {
        let rests =
            |wait: &WaitSpan| wait.class == WaitClass::Idle || is_for_orders(index, wait, master);
        last(index, thread, at_ns).is_some_and(rests)
    };
    threads.iter().any(|thread| index.waits.is_seen(thread)) && !threads.iter().any(is_free)
}

/// What a thread waits for at a time. What stands was seen for the last time one thread after the other.
fn last<'a>(index: &Index<'a>, thread: &ThreadRef, at_ns: Ns) -> Option<&'a WaitSpan> {
    let all = index.waits.of(thread);
    let last = all[..all.partition_point(|it| it.begin_ns < at_ns)].last()?;
    (last.standing || at_ns <= last.end_ns).then_some(last)
}

/// Of processes that somebody waits for, if all are one server's and none of its workers is free: the worker that stands longest, where all
/// of them wait for the same kind of thing. Where one does something else, whose question it has is not known.
pub(super) fn longest(index: &Index<'_>, far: &[ThreadRef], at_ns: Ns) -> Option<ThreadRef> {
    let busy = all_busy(index, far.first()?.pid, at_ns).or_else(|| {
        let parent = index.families.parent_of(far.first()?.pid)?;
        all_busy(index, parent, at_ns)
    })?;
    let pids: Vec<u32> = busy.workers.iter().map(|it| it.pid).collect();
    if !far.iter().all(|it| it.pid == busy.master.pid || pids.contains(&it.pid)) {
        return None;
    }
    let waits: Vec<&WaitSpan> = (busy.workers.iter())
        .map(|worker| last(index, worker, at_ns))
        .collect::<Option<Vec<&WaitSpan>>>()?;
    let first = waits.iter().min_by_key(|wait| wait.begin_ns)?;
    let are_alike = waits.iter().all(|it| it.class == first.class);
    are_alike.then(|| first.thread.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{LOOK_NS, at_place, blocked, descriptor, endpoint, host, thread};
    use crate::waits::timeline::Observed;

    const LISTENER: u64 = 200;

    fn child(pid: u32, parent_pid: u32) -> Fact {
        let thread = ThreadRef { start_ns: 1, ..thread(pid, "php-fpm") };
        let body = Body::Thread(Thread { thread, parent_pid, ..Thread::default() });
        Fact { at_ns: 0, body }
    }

    fn listens() -> ObjectRef {
        ObjectRef::Unix { ino: LISTENER, peer_ino: 0, path: Some("/run/app".into()) }
    }

    /// Master 20 with workers 21 and 22, whose calls are given; 10 is connected, and not accepted.
    fn scene(calls: [&str; 2]) -> Vec<Fact> {
        let waits = ObjectRef::Unix { ino: 100, peer_ino: LISTENER, path: None };
        let accepts = |pid: u32, syscall: &str| {
            let state = WaitState::Sleep;
            let object = (syscall == "accept4").then(listens);
            at_place(
                pid,
                "php-fpm",
                Place { state, syscall: syscall.into(), object, ..Place::default() },
            )
        };
        let mut facts = host();
        facts.extend([child(20, 1), child(21, 20), child(22, 20)]);
        facts.extend([20, 21, 22].map(|pid| endpoint(pid, "php-fpm", listens())));
        facts.push(endpoint(10, "nginx", waits));
        facts.push(blocked(20, "php-fpm", WaitState::Sleep, "epoll_wait"));
        facts.extend([accepts(21, calls[0]), accepts(22, calls[1])]);
        facts
    }

    fn found(calls: [&str; 2]) -> (Option<(usize, usize)>, Option<u32>) {
        found_in(scene(calls))
    }

    fn found_in(facts: Vec<Fact>) -> (Option<(usize, usize)>, Option<u32>) {
        let Observed { model, timelines } = Observed::new(facts);
        let index = Index::new(&model, &timelines);
        let busy = all_busy(&index, 20, LOOK_NS);
        let far: Vec<ThreadRef> = [20, 21, 22].map(|pid| thread(pid, "php-fpm")).into();
        let longest = longest(&index, &far, LOOK_NS).map(|it| it.pid);
        (busy.map(|it| (it.workers.len(), it.waiting)), longest)
    }

    #[test]
    fn a_server_none_of_whose_workers_is_free_is_waited_for_and_one_at_rest_is_not() {
        assert_eq!(found(["clock_nanosleep", "clock_nanosleep"]), (Some((2, 1)), Some(21)));
        assert_eq!(found(["clock_nanosleep", "accept4"]), (None, None));
        // Whose question each has is not known.
        assert_eq!(found(["clock_nanosleep", "flock"]), (Some((2, 1)), None));
    }

    #[test]
    fn threads_that_are_seen_one_after_the_other_stand_all_the_same() {
        let mut facts = scene(["clock_nanosleep", "clock_nanosleep"]);
        for fact in facts.iter_mut().filter(|fact| matches!(fact.body, Body::Blocked(_))) {
            fact.at_ns = LOOK_NS - 30_000;
        }
        assert_eq!(found_in(facts), (Some((2, 1)), Some(21)));
    }

    /// Workers whose calls are those, and a master that waits there instead.
    fn with_master(calls: [&str; 2], place: Place) -> Vec<Fact> {
        let mut facts = scene(calls);
        facts.retain(|fact| !matches!(&fact.body, Body::Blocked(it) if it.thread.pid == 20));
        facts.push(at_place(20, "php-fpm", place));
        facts
    }

    #[test]
    fn the_helpers_of_who_accepts_itself_are_no_workers() {
        let busy = ["clock_nanosleep", "clock_nanosleep"];
        let place = |syscall: &str, object, polled: &[u32]| Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            object,
            polled: polled.to_vec(),
            ..Place::default()
        };
        let at = |place: Place| found_in(with_master(busy, place)).0;
        assert_eq!(at(place("accept4", Some(listens()), &[])), None);
        assert_eq!(at(place("epoll_wait", None, &[3])), None);
        assert_eq!(at(place("epoll_wait", None, &[4])), Some((2, 1)), "its signals");
    }

    #[test]
    fn who_waits_for_an_order_of_its_master_is_free() {
        let waits = |class: &str, object: Option<ObjectRef>, args: [u64; 6], writer: u32| {
            let mut facts = scene(["clock_nanosleep", "clock_nanosleep"]);
            facts.retain(|fact| !matches!(&fact.body, Body::Blocked(it) if it.thread.pid == 22));
            let state = WaitState::Sleep;
            let place = Place { state, syscall: class.into(), object, args, ..Place::default() };
            facts.push(at_place(22, "php-fpm", place));
            facts.push(descriptor(writer, 9, "php-fpm", ObjectRef::Pipe { ino: 7 }));
            found_in(facts).0
        };
        let pipe = || Some(ObjectRef::Pipe { ino: 7 });
        assert_eq!(waits("read", pipe(), [0; 6], 20), None);
        assert_eq!(waits("read", pipe(), [0; 6], 30), Some((2, 1)), "a program that it began");
        assert_eq!(waits("futex", None, [0x7000, 0, 0, 0, 0, 0], 20), None, "the pool's queue");
        assert_eq!(waits("semop", None, [0; 6], 20), Some((2, 1)), "a lock");
        let own = waits("futex", None, [0x7000, 128, 0, 0, 0, 0], 20);
        assert_eq!(own, Some((2, 1)), "a thread of its own");
    }

    #[test]
    fn a_manager_that_opened_the_listener_is_no_master() {
        let busy = ["clock_nanosleep", "clock_nanosleep"];
        let manager = || endpoint(1, "systemd", listens());
        let named = || {
            let thread = ThreadRef { start_ns: 1, ..thread(1, "systemd") };
            Fact { at_ns: 0, body: Body::Thread(Thread { thread, ..Thread::default() }) }
        };
        let opened = [scene(busy), vec![named(), manager()]].concat();
        assert_eq!(found_in(opened), (Some((2, 1)), Some(21)));
        let mut alone = [scene(busy), vec![named(), manager()]].concat();
        // Of the server only the process that the manager began is left.
        alone.retain(|fact| match &fact.body {
            Body::Thread(it) => it.thread.pid < 21,
            Body::Endpoint(it) => it.process.pid < 21,
            Body::Blocked(it) => it.thread.pid < 21,
            _ => true,
        });
        assert_eq!(found_in(alone).0, None, "a server of one process");
        assert_eq!(program("gunicorn: maste"), program("gunicorn: worke"));
    }
}
