//! What a wait is for, where that can be said of its connections: the next question of somebody who connected, or an answer.
//!
//! Must not: say who is to act (ways/).

use super::debts::{APART_MIN, Debt};
use super::index::Index;
use super::next::Asker;
use crate::facts::{Endpoint, GIVEN_PORTS, ObjectRef, ThreadRef};
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;

/// What a wait is for: what the kernel says it is on, or the only connection among its descriptors, if nobody is owed an
/// answer there.
pub(super) fn subject<'w>(index: &Index<'w>, wait: &'w WaitSpan) -> Option<&'w ObjectRef> {
    if wait.place.object.is_some() {
        return wait.place.object.as_ref();
    }
    let ends = index.connections.of_process(wait.thread.pid, &wait.place.polled);
    let is_connection = |object: &ObjectRef| match object {
        ObjectRef::Inet(socket) => socket.remote.port() != 0,
        ObjectRef::Unix { peer_ino, .. } => *peer_ino != 0,
        _ => false,
    };
    let mut connections = ends.iter().map(|end| &end.object).filter(|it| is_connection(it));
    let only = connections.next().filter(|only| !is_owed_on(index, wait, only))?;
    connections.next().is_none().then_some(only)
}

fn is_owed_on(index: &Index<'_>, wait: &WaitSpan, object: &ObjectRef) -> bool {
    match object {
        ObjectRef::Unix { peer_ino, .. } => {
            let waits = index.connections.waits_on(*peer_ino);
            let begun = &waits[..waits.partition_point(|other| other.begin_ns < wait.end_ns)];
            // Of thousands the last ones are near.
            begun.iter().rev().any(|other| other.within_ns(wait.begin_ns, wait.end_ns) > 0)
        }
        ObjectRef::Inet(socket) => {
            let owes = index.debts.owes.get(&wait.thread.pid);
            owes.is_some_and(|debts| debts.iter().any(|debt| debt.ino == socket.ino))
        }
        _ => false,
    }
}

/// Whether a wait is for data from somebody who connected to a listener of this host: for the next question, and
/// for no answer. A socket that a listener gave has its name; where both ends have one, or none, it is not known.
pub(super) fn is_for_a_question(index: &Index<'_>, wait: &WaitSpan) -> bool {
    match subject(index, wait) {
        Some(ObjectRef::Unix { ino, peer_ino, .. }) => {
            let is_named = |ino: u64| index.model.called.unix_path(ino).is_some();
            is_named(*ino) && !is_named(*peer_ino)
        }
        Some(ObjectRef::Inet(socket)) if socket.remote.port() == 0 => {
            socket.protocol == "udp" && (1..GIVEN_PORTS).contains(&socket.local.port())
        }
        Some(ObjectRef::Inet(socket)) => index.connections.is_accepted(socket),
        _ => false,
    }
}

/// Whose next question a wait is for, if it is for one; 0 if that is not known. Of several that share the connection the one
/// that is known to wait for an answer.
pub(super) fn question_of(index: &Index<'_>, wait: &WaitSpan, asker: Option<u32>) -> Option<u32> {
    if !is_for_a_question(index, wait) {
        return None;
    }
    let far = match subject(index, wait) {
        Some(ObjectRef::Inet(socket)) => index.connections.far_processes(socket),
        Some(ObjectRef::Unix { peer_ino, .. }) => index
            .connections
            .endpoints_on(*peer_ino)
            .iter()
            .map(|end| end.process.clone())
            .collect(),
        _ => Vec::new(),
    };
    // Closed since: of a connection within this host it may be whoever is known to wait.
    let is_within = matches!(subject(index, wait), Some(ObjectRef::Inet(socket))
        if socket.remote.ip().is_loopback() || socket.remote.ip() == socket.local.ip());
    let is_asker = |far: &&ThreadRef| Some(far.pid) == asker;
    let known = far.iter().find(is_asker).or(far.first()).map(|far| far.pid);
    Some(known.or(asker.filter(|_| is_within)).unwrap_or(0))
}

/// Whether a wait is for the next question of a client who has had his answer, or wants none, or has not asked yet, by the clocks of the connection
/// and what he does: who waits so serves nobody.
pub(super) fn is_for_next_question(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let Object::Inet(ino) = wait.object else { return false };
    let (debts, pid) = (&index.debts, wait.thread.pid);
    let of_process = [&debts.owes, &debts.owed_before].into_iter().filter_map(|of| of.get(&pid));
    debts.knows(pid)
        && is_for_a_question(index, wait)
        && !of_process.flatten().any(|debt| {
            debt.ino == ino && debt.seen_ns > wait.begin_ns && may_be_awaited(index, debt)
        })
}

/// Whether somebody may wait for what a process owes. A log line or a measure that was sent wants no answer, and nothing on the connection says so
/// before a second one has come: but nobody reads there where the other end is a process of this host of which every thread stands in something else
/// from then on. An event loop, or a client on another host, may read whenever an answer comes.
pub(super) fn may_be_awaited(index: &Index<'_>, debt: &Debt) -> bool {
    let socket = index.model.called.socket(debt.ino);
    let far = socket.map(|socket| index.connections.far_processes(socket)).unwrap_or_default();
    far.is_empty() || !far.iter().all(|process| stands_elsewhere(index, process, debt))
}

/// Whether each thread of a process stands in something else from when it asked until it was last seen to have no answer.
fn stands_elsewhere(index: &Index<'_>, process: &ThreadRef, debt: &Debt) -> bool {
    use WaitClass::{Child, PipeRead, RunQueue, Timer};
    let from_ns = (debt.since_ns + APART_MIN.ns()).max(index.model.look.begin_ns);
    let elsewhere = |thread: &ThreadRef| {
        let waits = index.waits.within(thread, from_ns, debt.seen_ns);
        let of_others = |wait: &WaitSpan| wait.class == RunQueue || wait.place.syscall == "futex";
        // Who sleeps again and again may look in between; not a runtime's thread at its own words.
        match waits {
            [] => false,
            [only] if matches!(only.class, Timer | Child | PipeRead) => {
                only.begin_ns <= from_ns && (only.standing || only.end_ns >= debt.seen_ns)
            }
            all => all.iter().all(of_others),
        }
    };
    let threads = index.families.threads_of(&[process.pid]);
    !threads.is_empty() && threads.iter().all(elsewhere)
}

/// Whether a wait stands on a connection that its own process made, and on which the other end has had the last word: for whatever comes
/// next, news or work, and for no answer.
pub(super) fn is_for_what_comes(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let Object::Inet(ino) = wait.object else { return false };
    wait.standing && index.debts.has_last_word_of_peer(wait.thread.pid, ino)
}

/// Whether all who have an end of a unix socket have one thread each, which stands reading on that end and has read all: they have answered, and wait
/// for the next word. Such a socket has no clocks that say it.
pub(super) fn all_read_on(index: &Index<'_>, far: &[ThreadRef], ino: u64) -> bool {
    let is_unread = |it: &&Endpoint| it.unread.is_none_or(|unread| unread > 0);
    let reads = |far: &ThreadRef| {
        let main = index.model.threads.thread_ref(far.pid);
        let is_alone = index.families.threads_of(&[far.pid]).iter().all(|it| it.tid == far.pid);
        let last = index.waits.of(&main).last().filter(|wait| wait.standing && is_alone);
        last.is_some_and(|wait| {
            let on = wait.place.object.as_ref().and_then(ObjectRef::socket_ino);
            wait.class == WaitClass::UnixRead && on == Some(ino)
        })
    };
    let ends = index.connections.endpoints_on(ino);
    !far.is_empty() && far.iter().all(reads) && !ends.iter().copied().any(|it| is_unread(&it))
}

/// Whether a process that takes connections waits for an order of whoever began it, at a pipe into which that alone writes: no answer to a client comes
/// over it.
pub(super) fn is_for_an_order(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let pid = wait.thread.pid;
    let Some(ObjectRef::Pipe { ino }) = wait.place.object else { return false };
    let Some(parent) = index.families.parent_of(pid) else { return false };
    let ends = index.connections.endpoints_on(ino).iter();
    let mut writers = ends.filter(|it| it.writable && it.process.pid != pid).peekable();
    wait.class == WaitClass::PipeRead
        && writers.peek().is_some()
        && writers.all(|it| it.process.pid == parent)
        && index.connections.listening(pid).next().is_some()
}

/// Whether a thread reads a pipe into which its own process alone writes: it waits for a word of another thread, or of a signal's handler.
pub(super) fn is_for_own_word(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let Some(ObjectRef::Pipe { ino }) = wait.place.object else { return false };
    let mut writers =
        index.connections.endpoints_on(ino).iter().filter(|it| it.writable).peekable();
    wait.class == WaitClass::PipeRead
        && writers.peek().is_some()
        && writers.all(|it| it.process.pid == wait.thread.pid)
}

/// Whether a wait is on a connection that its own process made: for an answer, and for no question.
pub(super) fn is_for_an_answer(index: &Index<'_>, wait: &WaitSpan) -> bool {
    match &wait.place.object {
        Some(ObjectRef::Inet(socket)) => {
            socket.remote.port() != 0 && !index.connections.is_accepted(socket)
        }
        Some(ObjectRef::Unix { peer_ino, .. }) => *peer_ino != 0 && !is_for_a_question(index, wait),
        _ => false,
    }
}

/// Whether somebody's question, or his new connection, ended a wait for events.
pub(super) fn is_ended_by_a_question(index: &Index<'_>, wait: &WaitSpan) -> bool {
    match &wait.place.object {
        Some(ObjectRef::Inet(socket)) if socket.state == TCP_LISTEN => true,
        Some(_) => is_for_a_question(index, wait),
        None => false,
    }
}

/// Whether the asker is at the other end of the connection that a wait is for: he waits for it, so it does not wait for him.
pub(super) fn is_asked_by(index: &Index<'_>, wait: &WaitSpan, asker: Option<Asker<'_>>) -> bool {
    let (Some(asker), Some(ObjectRef::Inet(socket))) = (asker, subject(index, wait)) else {
        return false;
    };
    index.connections.far_processes(socket).iter().any(|far| far.pid == asker.who.pid)
}

#[cfg(test)]
mod tests {
    use super::is_for_an_order;
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::ways::scenes::{NO_ARGS, child, place, stands};
    use crate::rules::net::scenes::{inet, spoken};
    use crate::rules::scenes::{LOOK_NS, at_place, descriptor, endpoint, host, of_process, thread};
    use crate::waits::timeline::Observed;

    /// Process 20, a child of 10, reads a pipe into which another writes.
    fn is_an_order(writer: u32, takes_connections: bool) -> bool {
        let pipe = || ObjectRef::Pipe { ino: 7 };
        let end = |pid: u32, writes: bool| {
            let mut fact = descriptor(pid, 4, "job", pipe());
            if let Body::Endpoint(end) = &mut fact.body {
                (end.readable, end.writable) = (!writes, writes);
            }
            fact
        };
        let (state, syscall, object) = (WaitState::Sleep, "read".into(), Some(pipe()));
        let reads = Place { state, syscall, object, ..Place::default() };
        let mut facts = [host(), vec![child(20, 10), end(20, false), end(writer, true)]].concat();
        facts.push(at_place(20, "job", reads));
        let listener = inet("tcp", 300, "0.0.0.0:80", "0.0.0.0:0", 10);
        facts.extend(takes_connections.then(|| descriptor(20, 9, "job", listener)));
        let Observed { model, timelines } = Observed::new(facts);
        let index = Index::new(&model, &timelines);
        let wait = timelines.waits().find(|wait| wait.thread.tid == 20).expect("it waits");
        is_for_an_order(&index, wait)
    }

    #[test]
    fn a_server_that_reads_what_its_parent_alone_writes_waits_for_orders() {
        assert!(is_an_order(10, true));
        assert!(!is_an_order(10, false), "a filter of a script waits for what that writes");
        assert!(!is_an_order(30, true), "another feeds it");
    }

    /// Seconds that server 20 owes to client 10, which has sent something and stands in a call.
    fn owes(syscall: &str, reads: bool) -> f64 {
        let near = inet("tcp", 100, "127.0.0.1:5000", "127.0.0.1:514", 1);
        let far = inet("tcp", 101, "127.0.0.1:514", "127.0.0.1:5000", 1);
        let at = place(syscall, NO_ARGS, reads.then(|| near.clone()));
        let facts = vec![
            of_process(20, "rsyslogd"),
            endpoint(20, "rsyslogd", inet("tcp", 1, "127.0.0.1:514", "0.0.0.0:0", 10)),
            spoken(10, "client", near.clone(), 7_000, true),
            spoken(20, "rsyslogd", far, 7_000, false),
            stands(thread(10, "client"), at),
            stands(thread(20, "rsyslogd"), place("futex", NO_ARGS, None)),
        ];
        let ends = explain([host(), facts].concat()).answer.ends;
        ends.iter().map(|end| end.seconds).sum()
    }

    #[test]
    fn nothing_is_owed_to_a_client_that_does_something_else_all_the_while() {
        let whole = LOOK_NS as f64 / 1e9;
        assert!(owes("recvfrom", true) > 0.9 * whole, "it reads");
        assert!(owes("epoll_wait", false) > 0.9 * whole, "a loop may read");
        assert!(owes("clock_nanosleep", false) < 0.1 * whole, "it sleeps");
    }
}
