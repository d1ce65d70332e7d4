//! Whose question the threads and the children of a server may have in hand, by when it was asked.
//!
//! A question that was read is in the hand of no thread that has stood since before its client was there, where a loop of the server has run since and
//! rests: that loop read it. Nor is it in the hand of a child that is older than the client, or was begun for another one, who has waited since. Where
//! another thread waits for a word since then, it may have the question, and wait for the one that stands: then none is left out. Nor is who works
//! for an earlier question that is still owed where a goroutine waits for one of some places, or where it is of a pool that is full: a later question
//! stands in a queue behind it.
//!
//! Must not: choose who has it (serving.rs). Rejected: the begin of the client's wait, or its last word, as the time of the question (an answer comes
//! in parts, and who takes them says so); that an earlier question is owed, alone (a loop that has read a later one may answer that at a time of its own).

use super::index::Index;
use super::next::{Asker, Until};
use super::question::{is_for_a_question, subject};
use super::wakers::SAMPLES_APART;
use super::ways::way::Waiter;
use crate::facts::{Endpoint, Ns, ObjectRef, ThreadRef};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::goroutines;
use crate::waits::pools;
use crate::waits::timeline::WaitSpan;

/// Who stood for so long before a question was there before it.
pub(super) static BEFORE_MIN: Threshold = Threshold::new(
    200.0,
    "ms",
    "from the begin of a wait, or of a child, to the begin of a client that it is not for: what begins nearer to it may be for its sake",
    "chosen: long beside what the clocks of sockets, of /proc and of sampling leave open, and a turn on a crowded CPU",
);
/// A child that was begun for a question may seem older than it.
pub(super) static BORN_BEFORE_MAX: Threshold = Threshold::new(
    30.0,
    "ms",
    "from the begin of a child to the wait of the client for whom it was begun",
    "/proc has the begin of a process in ticks of 10 ms; twice that, and one for the client",
);

/// /proc tells the begin of a process in these (USER_HZ).
const TICK_NS: Ns = 10_000_000;

/// Of some threads those that may have a question in hand which came after a time, and the loop that read it if others were left out.
pub(super) fn may_have_it(
    index: &Index<'_>,
    threads: Vec<ThreadRef>,
    (asked_ns, to): (Ns, Ns),
) -> (Vec<ThreadRef>, Option<ThreadRef>) {
    let from = asked_ns.max(index.model.look.begin_ns);
    let is_behind = |thread: &ThreadRef, begun_ns: Ns| {
        owed_by(index, thread.pid, begun_ns)
            && (goroutines::stands_behind(index.model, thread.pid)
                || has_a_place(index, thread, (from, to)))
    };
    let stood = |thread: &ThreadRef| {
        let first = index.waits.within(thread, from, to).first();
        first.is_some_and(|it| {
            !it.class.is_rest()
                && !is_for_a_question(index, it)
                && !is_behind(thread, it.begin_ns)
                && it.begin_ns.saturating_add(BEFORE_MIN.ns()) < asked_ns
                && it.within_ns(from, to) * 2 >= to.saturating_sub(from)
        })
    };
    if !threads.iter().any(stood) {
        return (threads, None);
    }
    let last = |thread: &ThreadRef| {
        let last = index.waits.within(thread, from, to).last();
        last.filter(|it| it.begin_ns.saturating_add(SAMPLES_APART.ns()) >= asked_ns)
    };
    let is_for_a_word = |thread: &ThreadRef| {
        let waits = last(thread)
            .is_some_and(|it| matches!(it.class, WaitClass::FutexWait | WaitClass::FutexLock));
        waits && !goroutines::are_known(index.model, thread.pid)
    };
    let is_loop = |thread: &&ThreadRef| last(thread).is_some_and(|it| it.class == WaitClass::Idle);
    let reader = threads.iter().find(is_loop).cloned();
    let is_read = || threads.iter().all(|it| has_read_all(index, it.pid));
    match reader.filter(|_| !threads.iter().any(is_for_a_word) && is_read()) {
        Some(reader) => {
            let left = threads.into_iter().filter(|it| !stood(it)).collect();
            (left, Some(reader))
        }
        None => (threads, None),
    }
}

/// Whether a thread is one of a pool of several, or of a server's own, that all have a task in hand: what comes next has to wait for one of them.
fn has_a_place(index: &Index<'_>, thread: &ThreadRef, within: (Ns, Ns)) -> bool {
    let full = pools::full(index.model, thread.pid, |of| index.waits.stood(of, within));
    // One that is alone may be the first that was begun of many.
    full.iter().any(|it| {
        let counts = it.threads.len() > 1 || it.kind.serves;
        counts && it.threads.iter().any(|of| of.tid == thread.tid)
    })
}

/// Of the threads of a process those that may have in hand what somebody asked it on a connection, while one of its loops waits for events.
pub(super) fn beside(at: &Waiter<'_>) -> Vec<ThreadRef> {
    let threads = at.index.families.threads_of(&[at.wait.thread.pid]);
    match question(at).filter(|_| at.wait.class == WaitClass::Idle) {
        Some(asks) => {
            let begun_ns = begun_ns(at.index, asks.thread.pid);
            may_have_it(at.index, threads, (begun_ns, at.within.1)).0
        }
        None => threads,
    }
}

/// Whether a child of a server to which one of its descriptors leads has no part in what the server was asked.
pub(super) fn has_no_part(at: &Waiter<'_>, child: &ThreadRef) -> bool {
    is_of_another(at, child) || is_never_asked(at, child)
}

/// Whether a child of a server has another client's question in hand, not that of who waits for the server.
pub(super) fn is_of_another(at: &Waiter<'_>, child: &ThreadRef) -> bool {
    let Some(asks) = question(at).filter(|_| child.start_ns > 0) else { return false };
    let server = at.wait.thread.pid;
    if goroutines::stands_behind(at.index.model, server) {
        return false;
    }
    let is_begun_by = |asked_ns: Ns| {
        let from = asked_ns.saturating_sub(BORN_BEFORE_MAX.ns());
        (from..=asked_ns.saturating_add(BEFORE_MIN.ns())).contains(&child.start_ns)
    };
    let asker = asks.thread.pid;
    let may_be_own = is_begun_by(asks.begin_ns) || is_begun_by(begun_ns(at.index, asker));
    let mut others = at.index.connections.all_of(server).flat_map(|end| asked_on(at.index, end));
    !may_be_own
        && at.index.families.descends(child.pid, server)
        && others.any(|(by, asked_ns)| by != asker && is_begun_by(asked_ns))
}

/// Whether a process was begun right after a server was asked what it owes, or right after who asks was there.
pub(super) fn is_begun_for(at: &Waiter<'_>, process: &ThreadRef) -> bool {
    let is_by = |asked_ns: Ns| {
        let from = asked_ns.saturating_sub(BORN_BEFORE_MAX.ns());
        (from..=asked_ns.saturating_add(BEFORE_MIN.ns())).contains(&process.start_ns)
    };
    match question(at) {
        _ if process.start_ns == 0 => false,
        Some(asks) => is_by(asks.begin_ns) || is_by(begun_ns(at.index, asks.thread.pid)),
        // Who asks about the server itself names no client: any question that it owes an answer to counts.
        None if at.asker.is_none() => {
            let owes = at.index.debts.owes.get(&at.wait.thread.pid).into_iter().flatten();
            owes.filter(|debt| debt.since_known).any(|debt| is_by(debt.since_ns))
        }
        None => false,
    }
}

/// Whether a child of a server was there before who waits for the server.
pub(super) fn is_older(at: &Waiter<'_>, child: &ThreadRef) -> bool {
    let is_before = |asks: &WaitSpan| begun_by_ns(child) < begun_ns(at.index, asks.thread.pid);
    child.start_ns > 0
        && question(at).is_some_and(is_before)
        && !owed_by(at.index, at.wait.thread.pid, child.start_ns)
}

/// When a process was there at the latest: its begin is known to the nanosecond, or by a file of /proc in whole ticks.
fn begun_by_ns(process: &ThreadRef) -> Ns {
    match process.start_ns.is_multiple_of(TICK_NS) {
        true => process.start_ns.saturating_add(BORN_BEFORE_MAX.ns()),
        false => process.start_ns,
    }
}

/// Whether a server owed an answer as something in it began, and owes it still. By the clocks of connections: an end of a unix socket has none.
fn owed_by(index: &Index<'_>, server: u32, begun_ns: Ns) -> bool {
    let mut owes = index.debts.owes.get(&server).into_iter().flatten();
    let by_ns = begun_ns.saturating_add(BORN_BEFORE_MAX.ns());
    owes.any(|debt| debt.since_known && debt.since_ns <= by_ns)
}

/// Whether a child of a server was there before who waits for the server, and cannot be asked anything by it: what it says, it says by itself.
fn is_never_asked(at: &Waiter<'_>, child: &ThreadRef) -> bool {
    let (connections, server) = (&at.index.connections, at.wait.thread.pid);
    let of_server = |end: &&Endpoint| end.process.pid == server;
    let hears_it = |end: &Endpoint| match &end.object {
        ObjectRef::Pipe { ino } => {
            let mut ends = connections.endpoints_on(*ino).iter().copied();
            end.readable && ends.any(|it| it.writable && of_server(&it))
        }
        ObjectRef::Unix { peer_ino, .. } => {
            connections.endpoints_on(*peer_ino).iter().any(of_server)
        }
        ObjectRef::Inet(socket) => connections.far_ends(socket).iter().any(of_server),
        _ => false,
    };
    child.pid != server
        && is_older(at, child)
        && at.index.families.descends(child.pid, server)
        && !connections.all_of(child.pid).any(hears_it)
}

/// The wait of who asked a process, on a connection that this has accepted.
fn question<'w>(at: &Waiter<'w>) -> Option<&'w WaitSpan> {
    let Asker { who, until: Until::Wait(of_asker) } = at.asker? else { return None };
    let server = at.wait.thread.pid;
    let mut ends = match subject(at.index, of_asker)? {
        ObjectRef::Inet(socket) => at.index.connections.far_ends(socket).iter(),
        ObjectRef::Unix { peer_ino, .. } => at.index.connections.endpoints_on(*peer_ino).iter(),
        _ => return None,
    };
    let is_servers = ends.any(|end| end.process.pid == server && is_accepted(at.index, end));
    (who.pid != server && is_servers).then_some(of_asker)
}

/// Before when a process can have asked nothing: it was not there. Its last word may be no question, as an answer may come in parts.
pub(super) fn begun_ns(index: &Index<'_>, asker_pid: u32) -> Ns {
    index.model.threads.thread_ref(asker_pid).start_ns
}

/// Who waits for an answer at the other end of a connection that a server has accepted, and since when.
fn asked_on(index: &Index<'_>, end: &Endpoint) -> Vec<(u32, Ns)> {
    match &end.object {
        ObjectRef::Unix { peer_ino, .. } if is_accepted(index, end) => {
            let waits = index.connections.waits_on(*peer_ino).iter();
            waits.filter(|it| it.standing).map(|it| (it.thread.pid, it.begin_ns)).collect()
        }
        ObjectRef::Inet(socket) if is_accepted(index, end) => {
            let owes = index.debts.owes.get(&end.process.pid).into_iter().flatten();
            let of_it = owes.filter(|debt| debt.since_known && debt.ino == socket.ino);
            let by = index.connections.far_processes(socket).first().map_or(0, |far| far.pid);
            of_it.map(|debt| (by, debt.since_ns)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a process has nothing unread on all connections that it has accepted, and has one.
fn has_read_all(index: &Index<'_>, pid: u32) -> bool {
    let mut accepted =
        index.connections.all_of(pid).filter(|end| is_accepted(index, end)).peekable();
    accepted.peek().is_some() && accepted.all(|end| end.unread == Some(0))
}

/// Whether a descriptor is on a connection that somebody made to a listener.
fn is_accepted(index: &Index<'_>, end: &Endpoint) -> bool {
    match &end.object {
        ObjectRef::Inet(socket) => {
            socket.remote.port() != 0 && index.connections.is_accepted(socket)
        }
        ObjectRef::Unix { peer_ino, path, .. } => *peer_ino != 0 && path.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::next::{Asker, Next, Until};
    use crate::graph::ways::responsible;
    use crate::graph::ways::scenes::{CONDITION, LOCK, NO_ARGS, led_from, place, stands};
    use crate::graph::ways::way::Waiter;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, descriptor, host, thread};
    use crate::waits::timeline::Observed;

    const MS: Ns = 1_000_000;
    const ASKED_NS: Ns = 1_000 * MS;
    const CLIENT: u32 = 10;
    const SERVER: u32 = 20;

    fn of_server(tid: u32) -> ThreadRef {
        ThreadRef { tid, ..thread(SERVER, "server") }
    }

    fn client() -> ThreadRef {
        ThreadRef { start_ns: ASKED_NS, ..thread(CLIENT, "nc") }
    }

    fn since(thread: ThreadRef, at: Place, since_ns: Ns) -> Fact {
        let mut fact = stands(thread, at);
        if let Body::Blocked(blocked) = &mut fact.body {
            blocked.since_ns = since_ns;
        }
        fact
    }

    fn unread(mut end: Fact, bytes: u64) -> Fact {
        if let Body::Endpoint(end) = &mut end.body {
            end.unread = Some(bytes);
        }
        end
    }

    fn flock() -> Place {
        place("flock", NO_ARGS, Some(ObjectRef::File(FileRef { ino: 9, ..FileRef::default() })))
    }

    fn unix(ino: u64, peer_ino: u64, path: Option<&str>) -> ObjectRef {
        ObjectRef::Unix { ino, peer_ino, path: path.map(Into::into) }
    }

    /// A goroutine of the server that serves a client stands in this function.
    fn served_in(function: &str) -> Fact {
        let names = [function, "main.serve", "net/http.(*conn).serve"];
        let frame = |it: &&str| UserFrame { function: (*it).into(), ..UserFrame::default() };
        let frames = names.iter().map(frame).collect();
        let one = Goroutine { id: 9, since_ns: ASKED_NS, frames, ..Goroutine::default() };
        let (pid, count, read, standing) = (SERVER, 2, 2, vec![one]);
        let read = Goroutines { pid, count, read, standing, ..Goroutines::default() };
        Fact { at_ns: LOOK_NS - MS, body: Body::Goroutines(read) }
    }

    /// Process 10 has waited for an answer of 20 since a second: a loop that waits for events since then, so much of the question unread, and a thread
    /// that is held up since another.
    fn leads_to(loop_ns: Ns, held_ns: Ns, bytes: u64, more: Vec<Fact>) -> Option<u32> {
        let near = inet("tcp", 5, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let far = inet("tcp", 6, "127.0.0.1:80", "127.0.0.1:5000", 1);
        let listener = inet("tcp", 7, "0.0.0.0:80", "0.0.0.0:0", 10);
        let facts = vec![
            descriptor(SERVER, 4, "server", listener),
            unread(descriptor(SERVER, 5, "server", far), bytes),
            descriptor(CLIENT, 3, "nc", near.clone()),
            since(of_server(SERVER), place("epoll_wait", NO_ARGS, None), loop_ns),
            since(of_server(21), flock(), held_ns),
            since(client(), place("recvfrom", NO_ARGS, Some(near)), ASKED_NS),
        ];
        led_from(CLIENT, [facts, more].concat()).1
    }

    #[test]
    fn a_thread_that_was_held_up_before_the_question_has_no_part_in_it_if_a_loop_read_it() {
        let after_ns = ASKED_NS + 2 * MS;
        assert_eq!(leads_to(after_ns, MS, 0, vec![]), Some(SERVER));
        assert_eq!(leads_to(after_ns, ASKED_NS + 3 * MS, 0, vec![]), Some(21), "it took it");
        assert_eq!(leads_to(after_ns, ASKED_NS - 100 * MS, 0, vec![]), Some(21), "too near");
    }

    #[test]
    fn but_of_some_places_one_is_had_for_an_earlier_question_that_is_still_owed() {
        let since = |ago_ms: u64| {
            let earlier = inet("tcp", 8, "127.0.0.1:80", "127.0.0.1:4000", 1);
            let turn = TcpTurn {
                received_jiffies: (ago_ms / 4) as u32,
                sent_jiffies: 5_000,
                jiffy_ns: 4_000_000,
                ..TcpTurn::default()
            };
            let state = SocketState {
                acked_bytes: 10,
                received_bytes: 10,
                turn: Some(turn),
                ..SocketState::default()
            };
            let mut fact = descriptor(SERVER, 6, "server", earlier);
            if let Body::Endpoint(end) = &mut fact.body {
                (end.socket, end.unread) = (Some(state), Some(0));
            }
            Fact { at_ns: LOOK_NS, ..fact }
        };
        let (after_ns, held_ns) = (ASKED_NS + 2 * MS, 500 * MS);
        let ago_ms = |asked_ns: Ns| (LOOK_NS - asked_ns) / MS;
        let behind = |asked_ns: Ns, of_places: bool| {
            let stands = of_places.then(|| served_in("runtime.chansend"));
            let more = stands.into_iter().chain([since(ago_ms(asked_ns))]);
            leads_to(after_ns, held_ns, 0, more.collect())
        };
        assert_eq!(behind(400 * MS, true), Some(21), "it was held up for the earlier one");
        assert_eq!(behind(700 * MS, true), Some(SERVER), "it was held up before that one too");
        assert_eq!(behind(400 * MS, false), Some(SERVER), "a loop has read the question");
    }

    #[test]
    fn but_it_may_have_it_where_nobody_is_known_to_have_read_it() {
        let after_ns = ASKED_NS + 2 * MS;
        assert_eq!(leads_to(after_ns, MS, 80, vec![]), Some(21), "it stands in the queue");
        assert_eq!(leads_to(MS, MS, 0, vec![]), Some(21), "the loop has not run since");
        for word in [CONDITION, LOCK] {
            let waits = since(of_server(22), place("futex", word, None), after_ns + 300 * MS);
            assert_ne!(leads_to(after_ns, MS, 0, vec![waits]), Some(SERVER), "it may have a lock");
        }
    }

    /// Where the loop of 20 leads on, of which 10 has waited for an answer since a second; which child it has, begun when.
    fn loop_leads_to(born_ns: Ns, asks: (&str, Option<ObjectRef>), more: Vec<Fact>) -> Option<u32> {
        let job = ThreadRef { start_ns: born_ns, ..thread(30, "job") };
        let known = Thread { thread: job.clone(), parent_pid: SERVER, ..Thread::default() };
        let polled = if asks.1.is_some() { vec![5, 6] } else { vec![6] };
        let polls = Place { polled, ..place("poll", [0, 2, u64::MAX, 0, 0, 0], None) };
        let facts = vec![
            Fact { at_ns: 0, body: Body::Thread(known) },
            descriptor(SERVER, 5, "server", unix(6, 5, Some("/run/s"))),
            descriptor(CLIENT, 3, "nc", unix(5, 6, None)),
            since(of_server(SERVER), polls, ASKED_NS + 2 * MS),
            since(job, flock(), born_ns),
            since(client(), place(asks.0, [20, 0, 0, 0, 0, 0], asks.1), ASKED_NS),
        ];
        let Observed { model, timelines } = Observed::new([host(), facts, more].concat());
        let index = Index::new(&model, &timelines);
        let of = |pid: u32| timelines.waits().find(|it| it.thread.tid == pid).expect("it waits");
        let asker = Some(Asker { who: &of(CLIENT).thread, until: Until::Wait(of(CLIENT)) });
        let waiter = Waiter { asker, ..Waiter::of(&index, of(SERVER)) };
        match responsible(&waiter, true).0 {
            Next::Thread(next) => Some(next.pid),
            _ => None,
        }
    }

    #[test]
    fn a_child_that_was_there_before_the_question_is_not_what_a_client_waits_for() {
        let asks = || ("recvfrom", Some(unix(5, 6, None)));
        assert_eq!(loop_leads_to(MS, asks(), vec![]), None);
        assert_eq!(loop_leads_to(ASKED_NS + 9 * MS, asks(), vec![]), Some(30), "begun for it");
        let just_before = loop_leads_to(ASKED_NS - 5 * MS - 1, asks(), vec![]);
        assert_eq!(just_before, None, "known to the nanosecond");
        let in_ticks = loop_leads_to(ASKED_NS - 10 * MS, asks(), vec![]);
        assert_eq!(in_ticks, Some(30), "by ticks it may be younger");
        assert_eq!(loop_leads_to(MS, ("wait4", None), vec![]), Some(30), "who began it waits");
    }

    #[test]
    fn a_child_that_only_says_something_has_had_no_question() {
        let end = |pid: u32, fd: u32, ino: u64, writes: bool| {
            let mut fact = descriptor(pid, fd, "job", ObjectRef::Pipe { ino });
            if let Body::Endpoint(end) = &mut fact.body {
                (end.readable, end.writable) = (!writes, writes);
            }
            fact
        };
        let says = |born_ns: Ns, is_asked: bool| {
            let other =
                Thread { thread: thread(31, "job"), parent_pid: SERVER, ..Thread::default() };
            let mut more = vec![end(SERVER, 6, 13, false), end(30, 1, 13, true)];
            more.push(Fact { at_ns: 0, body: Body::Thread(other) });
            if is_asked {
                more.extend([end(SERVER, 8, 14, true), end(30, 0, 14, false)]);
            }
            loop_leads_to(born_ns, ("recvfrom", Some(unix(5, 6, None))), more)
        };
        assert_eq!(says(MS, false), None);
        assert_eq!(says(MS, true), Some(30), "a helper");
        assert_eq!(says(ASKED_NS + 9 * MS, false), Some(30), "begun for it");
    }

    #[test]
    fn a_child_that_was_begun_for_another_client_is_his() {
        let with = |born_ns: Ns, other_ns: Ns, mut more: Vec<Fact>| {
            let other = thread(40, "nc");
            more.extend([
                descriptor(SERVER, 7, "server", unix(8, 7, Some("/run/s"))),
                descriptor(40, 3, "nc", unix(7, 8, None)),
                since(other, place("recvfrom", NO_ARGS, Some(unix(7, 8, None))), other_ns),
                descriptor(SERVER, 6, "server", unix(11, 12, None)),
                descriptor(30, 1, "job", unix(12, 11, None)),
            ]);
            loop_leads_to(born_ns, ("recvfrom", Some(unix(5, 6, None))), more)
        };
        let beside = |functions: &[&str]| {
            let served = functions.iter().map(|it| served_in(it)).collect();
            with(ASKED_NS / 2 + 5 * MS, ASKED_NS / 2, served)
        };
        assert_eq!(beside(&["runtime.chansend"]), Some(30), "it waits for a place");
        assert_eq!(beside(&["runtime.chanrecv"]), None);
        assert_eq!(beside(&["runtime.chansend", "time.Sleep"]), None, "whose is that?");
        let with = |born_ns, other_ns| with(born_ns, other_ns, vec![]);
        let other_ns = ASKED_NS / 2;
        assert_eq!(with(other_ns + 5 * MS, other_ns), None);
        assert_eq!(with(ASKED_NS + 5 * MS, other_ns), Some(30), "begun for it");
        assert_eq!(with(MS, other_ns), Some(30), "a helper that it has had all along");
    }
}
