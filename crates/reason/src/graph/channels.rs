//! Who is at the other end of the pipe or the connection that a wait is on, and which thread of theirs matters.
//!
//! Must not: say what a thread waits for that waits for whatever comes next (ways/owed/).

use super::debts::Debt;
use super::index::Index;
use super::index::waited::WaitedEnd;
use super::parallel::last_of_several;
use super::serving::{chosen, fed_from_elsewhere};
use super::undelivered::UNHEARD;
use super::wakers::{by_kernel_thread, carrier, waker};
use crate::facts::*;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// Who may read what a wait writes, or write what it reads. Any thread of who has the other end may be the one that is to write: not one that
/// waits for the waiter's own output or end, where another is fed from elsewhere.
pub(super) fn pipe_end(index: &Index<'_>, wait: &WaitSpan, reader: bool) -> Option<ThreadRef> {
    let found = at_other_end(index, wait, reader)?;
    let within = (wait.begin_ns, wait.end_ns);
    if !reader && waits_for_process_of(index, &found, wait) {
        return fed_from_elsewhere(index, found.pid, within).or(Some(found));
    }
    Some(found)
}

/// Whether a thread waits for most of a wait for what the waiter's own process is to write to a pipe, or for its end.
fn waits_for_process_of(index: &Index<'_>, thread: &ThreadRef, wait: &WaitSpan) -> bool {
    let writes = |ino: u64| {
        let mut ends = index.connections.endpoints_on(ino).iter();
        ends.any(|end| end.writable && end.process.pid == wait.thread.pid)
    };
    let is_child = index.families.parent_of(wait.thread.pid) == Some(thread.pid);
    let is_it = |other: &&WaitSpan| match (other.class, &other.place.object) {
        (WaitClass::PipeRead, Some(ObjectRef::Pipe { ino })) => writes(*ino),
        (WaitClass::Child, _) => is_child,
        _ => false,
    };
    let waits = index.waits.within(thread, wait.begin_ns, wait.end_ns).iter().filter(is_it);
    let ns: Ns = waits.map(|other| other.within_ns(wait.begin_ns, wait.end_ns)).sum();
    ns * 2 > wait.end_ns.saturating_sub(wait.begin_ns)
}

/// Of all who have the other end, the thread that matters.
fn at_other_end(index: &Index<'_>, wait: &WaitSpan, reader: bool) -> Option<ThreadRef> {
    let Some(ObjectRef::Pipe { ino }) = &wait.place.object else {
        // A signal or a terminal may end it too, by way of a kernel thread.
        return waker(index, wait).filter(|_| !by_kernel_thread(wait));
    };
    let ends = index.connections.endpoints_on(*ino);
    let at_end: Vec<ThreadRef> = ends
        .iter()
        .filter(|end| if reader { end.readable } else { end.writable })
        .map(|end| end.process.clone())
        .filter(|process| process.pid != wait.thread.pid)
        .collect();
    if !at_end.is_empty() {
        return chosen(index, wait, at_end);
    }
    // Closed since.
    let end = if reader { WaitedEnd::Read } else { WaitedEnd::Write };
    let there = index.connections.waiters_on(*ino, end).iter();
    let there = there.filter(|process| process.pid != wait.thread.pid).cloned().collect();
    chosen(index, wait, there)
}

/// A named unix socket of nobody's yet: it listens, or takes datagrams.
fn is_unix_listener(object: &ObjectRef) -> bool {
    matches!(object, ObjectRef::Unix { peer_ino: 0, path: Some(_), .. })
}

/// The thread of the waiter's own process that sent what ended its wait: a service that asks itself is answered by another of its threads.
fn answered_by_sibling(wait: &WaitSpan) -> Option<ThreadRef> {
    let sibling = |by: &&ThreadRef| by.pid == wait.thread.pid && by.tid != wait.thread.tid;
    carrier(wait).filter(sibling).cloned()
}

/// Who has the other end of a connection, or is to accept it.
pub(super) fn socket_peer(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let is_other = |process: &ThreadRef| process.pid != wait.thread.pid;
    // Who listened gave the connection to the process itself.
    let is_own = |all: &[ThreadRef]| !all.is_empty() && !all.iter().any(is_other);
    let mut processes: Vec<ThreadRef> = match &wait.place.object {
        Some(ObjectRef::Unix { peer_ino, .. }) => {
            let far = index.connections.endpoints_on(*peer_ino);
            let open = far.iter().map(|end| end.process.clone());
            let waited = index.connections.waiters_on(*peer_ino, WaitedEnd::Any).iter().cloned();
            let all = open.chain(waited).collect();
            // Of a connection that is not accepted yet the far end is the listener.
            match far.iter().any(|end| is_unix_listener(&end.object)) {
                true => who_accepts(index, wait, all),
                false => all,
            }
        }
        Some(ObjectRef::Inet(socket)) => index.connections.far_processes(socket),
        _ => Vec::new(),
    };
    if is_own(&processes) {
        return answered_by_sibling(wait);
    }
    processes.retain(is_other);
    if let Some(ObjectRef::Inet(socket)) = &wait.place.object
        && waits_for_undelivered(index, wait.begin_ns, wait.end_ns, socket)
        // Whoever does not accept is waited for.
        && (!processes.is_empty() || index.connections.may_accept(socket).is_empty())
    {
        return None;
    }
    if let Some(ObjectRef::Inet(socket)) = &wait.place.object
        && processes.is_empty()
    {
        let by = carrier(wait).map(|thread| thread.pid);
        let awaits = index.debts.awaits.get(&wait.thread.pid).map_or(&[][..], Vec::as_slice);
        let at_end =
            |debt: &Debt| debt.ino == socket.ino && debt.seen_ns >= index.model.look.end_ns;
        processes = match by.is_none() && awaits.iter().any(at_end) {
            true => who_accepts(index, wait, index.connections.may_accept(socket)),
            false => {
                let listeners = index.connections.listeners(socket, by);
                // A listener that ended the wait has answered, master or not; and one that sleeps over all of it may be the one that does not accept.
                let may_be_it = |of: &ThreadRef| Some(of.pid) == by || sleeps_on(index, of);
                match listeners.iter().any(may_be_it) {
                    true => listeners,
                    false => who_accepts(index, wait, listeners),
                }
            }
        };
        if is_own(&processes) {
            return answered_by_sibling(wait);
        }
        processes.retain(is_other);
        // Who accepts may hand the connection on to a child, which is gone with it.
        let child = by.filter(|by| processes.iter().any(|of| index.families.descends(*by, of.pid)));
        if let Some(child) = child {
            processes = vec![index.model.threads.thread_ref_at(child, wait.end_ns)];
        }
    }
    chosen(index, wait, processes)
}

/// Of all who have a listener open in whose queue a connection stands, those that may accept it: not the master that began the others
/// and rests. It would not rest if it waited for the listener, as the parent of a server does that forks for each connection.
fn who_accepts(
    index: &Index<'_>,
    wait: &WaitSpan,
    mut listeners: Vec<ThreadRef>,
) -> Vec<ThreadRef> {
    let pids: Vec<u32> = listeners.iter().map(|of| of.pid).collect();
    let began_another =
        |of: &ThreadRef| pids.iter().any(|pid| index.families.parent_of(*pid) == Some(of.pid));
    let (from, to) = (wait.begin_ns.max(index.model.look.begin_ns), wait.end_ns);
    let is_at_rest = |thread: &ThreadRef| {
        let is_rest = |wait: &&WaitSpan| wait.class.is_rest() || wait.class == WaitClass::Child;
        let rests = index.waits.within(thread, from, to).iter().filter(is_rest);
        let rest_ns: Ns = rests.map(|wait| wait.within_ns(from, to)).sum();
        rest_ns * 2 > to.saturating_sub(from)
    };
    listeners.retain(|of| {
        !began_another(of) || !index.families.threads_of(&[of.pid]).iter().all(is_at_rest)
    });
    listeners
}

/// Whether the main thread of a process is in one sleep by the clock for all of the look.
fn sleeps_on(index: &Index<'_>, of: &ThreadRef) -> bool {
    let (look, main) = (&index.model.look, index.model.threads.thread_ref(of.pid));
    let waits = index.waits.within(&main, look.begin_ns, look.end_ns);
    matches!(waits, [one] if one.class == WaitClass::Timer)
}

/// Whether most of a time on a connection was for what does not arrive, either way.
pub(super) fn waits_for_undelivered(index: &Index<'_>, from: Ns, to: Ns, socket: &InetRef) -> bool {
    let Some(lost) = index.connections.undelivered(socket) else { return false };
    let unheard_ns = to.saturating_sub(from.max(lost.heard_ns));
    unheard_ns >= UNHEARD.ns() && unheard_ns * 2 >= to.saturating_sub(from)
}

/// The peer of what ended, or will end, a wait for events.
pub(super) fn far_end(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let found = match &wait.place.object {
        Some(ObjectRef::Pipe { .. }) => pipe_end(index, wait, wait.place.polled_for_room),
        _ => socket_peer(index, wait),
    };
    found.filter(|thread| thread.pid != wait.thread.pid)
}

/// Who is to send what a thread reads from a pipe or a connection.
pub(super) fn sender(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let found = match wait.class {
        WaitClass::PipeRead => {
            last_of_several(index, wait).or_else(|| pipe_end(index, wait, false))
        }
        _ => socket_peer(index, wait),
    };
    found.filter(|thread| thread.pid != 0 && !index.model.threads.is_same(thread, &wait.thread))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, ended, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{endpoint, identity, thread};

    /// A parent of two threads, and its child, which reads what one of them is to write.
    fn family(other: Fact) -> Vec<Fact> {
        let pipe = |ino: u64| ObjectRef::Pipe { ino };
        let end = |pid: u32, ino: u64, writes: bool| {
            let mut end = endpoint(pid, "git", pipe(ino));
            if let Body::Endpoint(own) = &mut end.body {
                (own.readable, own.writable) = (!writes, writes);
            }
            end
        };
        let reads = |pid: u32, ino: u64| {
            stands(thread(pid, "git"), place("read", NO_ARGS, Some(pipe(ino))))
        };
        let ends = [end(20, 7, true), end(20, 8, false), end(10, 7, false), end(10, 8, true)];
        [reads(10, 7), reads(20, 8), other].into_iter().chain(ends).collect()
    }

    #[test]
    fn of_a_parent_that_reads_its_child_the_thread_that_feeds_it_is_next() {
        let fed = inet("tcp", 9, "10.0.0.1:40000", "10.0.0.2:9418", 1);
        let feeder = ThreadRef { tid: 21, ..thread(20, "git") };
        let feeds = stands(feeder.clone(), place("recvfrom", NO_ARGS, Some(fed)));
        assert_eq!(led(family(feeds)).1, Some(21));
        let rests = stands(feeder, place("nanosleep", NO_ARGS, None));
        assert_eq!(led(family(rests)).1, Some(20), "nobody else is to write");
    }

    #[test]
    fn of_a_connection_that_is_closed_the_worker_is_asked_and_not_its_master_who_rests() {
        let near = inet("tcp", 9, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let listens = || inet("tcp", 8, "127.0.0.1:80", "0.0.0.0:0", 10);
        let worker =
            identity(Thread { thread: thread(21, "worker"), parent_pid: 20, ..Thread::default() });
        let to = |by: u32, rests: &str| {
            let reads = place("recvfrom", NO_ARGS, Some(near.clone()));
            let by = thread(by, "other");
            let facts = vec![
                ended(of_ten(10), reads, by, WakeContext::SoftInterrupt),
                endpoint(20, "master", listens()),
                endpoint(21, "worker", listens()),
                worker.clone(),
                stands(thread(20, "master"), place(rests, NO_ARGS, None)),
            ];
            led(facts).1
        };
        assert_eq!(to(99, "epoll_wait"), Some(21));
        assert_eq!(to(20, "epoll_wait"), Some(20), "it has answered itself");
        assert_eq!(to(99, "nanosleep"), Some(20), "it has slept over it all the time");
    }
}
