//! Of several descriptors that a wait is for, the one that leads on: what a relay, a shell over the network or an event loop waits
//! for while somebody waits for it.
//!
//! Who asks is at one of them, and whoever else asks has connected to it: those wait, and are not waited for. Nor is who has said all that it
//! was asked, as a database on a connection that a pool keeps open, or a parent on the pipe whose closing shows its children that it has ended; nor,
//! of several, who rests and has nobody to ask (at_rest.rs), nor whom the waiter asks only after a time of its own is over.
//! If one is left, what comes there is what everybody waits for. Must not: choose where two are left.
//!
//! A last word may be a part of an answer, the rest of which is still to come. Rejected: to leave out who had the last word whatever it does.

use crate::facts::{Endpoint, InetRef, Ns, ObjectRef, ThreadRef};
use crate::graph::at_rest::{
    self, RESTS_MIN, STOOD_MIN, has_nobody_to_ask, has_rested_since, is_sign_of_life,
    rests_with_nobody_to_ask,
};
use crate::graph::by_path::{asked_anew, is_asked_before};
use crate::graph::channels::waits_for_undelivered;
use crate::graph::conversation::{WAITS_LOOKED_AT, goes_on_by_clock};
use crate::graph::index::Index;
use crate::graph::leaf::BECAUSE_POLLED;
use crate::graph::next::{Asker, Next};
use crate::graph::question::{all_read_on, is_for_a_question};
use crate::graph::serving::{chosen, held_up};
use crate::graph::taken::has_no_part;
use crate::graph::ways::held::holder;
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::graph::worker_processes;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "descriptors",
    because: BECAUSE_POLLED,
    of: FOR_EVENTS,
    thresholds: &[&RESTS_MIN, &STOOD_MIN],
    follow: |at| among_polled(at.index, at.wait, at.asker).filter(|it| !is_of_no_use(at, it)),
};

/// Whether who is left is asked only after a time of the waiter's own, or has no part in what that was asked.
fn is_of_no_use(at: &Waiter<'_>, next: &Next) -> bool {
    let Next::Thread(to) = next else { return false };
    goes_on_by_clock(at.index, at.wait, to.pid) || has_no_part(at, to)
}

/// For whom a waiter waits.
struct Asked {
    /// Who waits for it.
    by: Option<u32>,
    /// Before when it was asked nothing of what it owes, if what is waited for is among that.
    since_ns: Option<Ns>,
    /// What it asked before then it asked for somebody else.
    anew_ns: Option<Ns>,
}

impl Asked {
    /// Of a waiter. Only TCP has clocks: of who waits for it by anything else they say nothing.
    fn of(index: &Index<'_>, wait: &WaitSpan, asker: Option<Asker<'_>>) -> Self {
        let (pid, by) = (wait.thread.pid, asker.map(|asker| asker.who.pid));
        let is_by = |ino: u64, asker: u32| {
            let far = index.model.called.socket(ino).map(|it| index.connections.far_processes(it));
            far.is_some_and(|far| far.iter().any(|far| far.pid == asker))
        };
        let owes = |asker: u32| {
            let owed = index.debts.owes.get(&pid).into_iter().flatten();
            owed.take(WAITS_LOOKED_AT).any(|debt| is_by(debt.ino, asker))
        };
        let since_ns = index.debts.owes_only_since(pid).filter(|_| by.is_none_or(owes));
        Self { by, since_ns, anew_ns: asked_anew(index, pid, asker) }
    }
}

/// Where a descriptor leads.
enum Leads {
    /// To processes of this host.
    To(Vec<ThreadRef>),
    /// To those that have the listener in whose queue it stands: nobody has accepted it.
    Queued(Vec<ThreadRef>),
    /// To another host: the inode of the socket here.
    Away(u64),
}

/// Who is next by the descriptors that a wait is for; `asker` is who waits for the waiter.
fn among_polled(index: &Index<'_>, wait: &WaitSpan, asker: Option<Asker<'_>>) -> Option<Next> {
    let ends = index.connections.of_process(wait.thread.pid, &wait.place.polled);
    let asked = Asked::of(index, wait, asker);
    let mut left: Vec<Leads> =
        ends.into_iter().filter_map(|end| leads(index, wait, end, &asked)).collect();
    let is_one = left.len() == 1;
    left.retain(|leads| {
        !is_master(index, wait.thread.pid, leads) || is_one && !has_no_order(index, wait, leads)
    });
    if left.len() > 1 {
        left.retain(|leads| !is_at_rest(index, wait, leads));
    }
    if left.len() > 1 {
        retain_untaken(index, wait, &mut left);
    }
    if let Some(worker) = of_busy_server(index, wait, &left) {
        return Some(Next::Thread(worker));
    }
    let asked: Vec<u32> = left.iter().filter_map(first_pid).collect();
    left.retain(|leads| !is_held_by_one_of(index, wait, leads, &asked));
    let mut left = left.into_iter();
    let (only, pid) = (left.next()?, first_pid);
    // A child's output and its errors lead to one process.
    if left.any(|other| pid(&other).is_none() || pid(&other) != pid(&only)) {
        return None;
    }
    match only {
        Leads::Away(ino) => Some(Next::Peer(ino)),
        Leads::To(far) | Leads::Queued(far) => chosen(index, wait, far).map(Next::Thread),
    }
}

/// The first process that a descriptor leads to.
fn first_pid(leads: &Leads) -> Option<u32> {
    match leads {
        Leads::To(far) | Leads::Queued(far) => far.first().map(|far| far.pid),
        Leads::Away(_) => None,
    }
}

/// Whether a descriptor leads to a process of one thread that waits for what another of those has that were asked: whichever of the two is to answer,
/// that other one has to act first.
fn is_held_by_one_of(index: &Index<'_>, wait: &WaitSpan, leads: &Leads, asked: &[u32]) -> bool {
    let Leads::To(far) = leads else { return false };
    let [only] = &far[..] else { return false };
    // The begin of its life may be known in two ways.
    let is_alone = index.families.threads_of(&[only.pid]).iter().all(|it| it.tid == only.pid);
    let main = index.model.threads.thread_ref(only.pid);
    let at_ns = wait.begin_ns.max(index.model.look.begin_ns).midpoint(wait.end_ns);
    let own = index.waits.at(&main, at_ns).filter(|_| is_alone);
    let by = own.and_then(|own| holder(index, own));
    by.is_some_and(|by| by.pid != only.pid && asked.contains(&by.pid))
}

/// Where all that is left leads to one server none of whose workers is free, and one of it was not accepted: the worker that is waited for. What was
/// accepted is the worker's that has it, however long another stands over somebody else's question.
fn of_busy_server(index: &Index<'_>, wait: &WaitSpan, left: &[Leads]) -> Option<ThreadRef> {
    if !left.iter().any(|leads| matches!(leads, Leads::Queued(_))) {
        return None;
    }
    let mut far = Vec::new();
    for leads in left {
        match leads {
            Leads::To(all) | Leads::Queued(all) => far.extend(all.iter().cloned()),
            Leads::Away(_) => return None,
        }
    }
    worker_processes::longest(index, &far, wait.end_ns)
}

/// Whether a descriptor leads to the process of the same program that began this one: over that its orders come, and it
/// asks nothing there while it serves others.
fn is_master(index: &Index<'_>, pid: u32, leads: &Leads) -> bool {
    let Some(parent) = index.families.parent_of(pid) else { return false };
    let is_same =
        || index.model.threads.process_name(parent) == index.model.threads.process_name(pid);
    matches!(leads, Leads::To(far) if far.iter().all(|far| far.pid == parent)) && is_same()
}

/// Whether all that a descriptor leads to rest since the wait began, and have taken all that the waiter has sent them: it has asked them nothing, and
/// would only hear of them what to do next.
fn has_no_order(index: &Index<'_>, wait: &WaitSpan, leads: &Leads) -> bool {
    let Leads::To(far) = leads else { return false };
    let untaken = at_rest::with_unread(index, wait);
    let rests = |pid: u32| at_rest::rests(index, pid, wait.begin_ns) && !untaken.contains(&pid);
    wait.standing && far.iter().all(|far| rests(far.pid))
}

/// Leaves those who have not taken what the waiter has sent them, or have not accepted its connection, where all others rest since it does.
fn retain_untaken(index: &Index<'_>, wait: &WaitSpan, left: &mut Vec<Leads>) {
    let untaken = at_rest::with_unread(index, wait);
    let is_untaken = |leads: &Leads| match leads {
        Leads::Queued(_) => true,
        Leads::To(far) => far.iter().any(|far| untaken.contains(&far.pid)),
        Leads::Away(_) => false,
    };
    let rests = |leads: &Leads| {
        matches!(leads, Leads::To(far) if wait.standing
            && far.iter().all(|far| at_rest::rests(index, far.pid, wait.begin_ns)))
    };
    if left.iter().any(is_untaken) && left.iter().all(|it| is_untaken(it) || rests(it)) {
        left.retain(is_untaken);
    }
}

/// Whether a descriptor leads to who rests since the waiter does, and has nobody to ask: it owes nothing.
fn is_at_rest(index: &Index<'_>, wait: &WaitSpan, leads: &Leads) -> bool {
    matches!(leads, Leads::To(far) if wait.standing
        && far.iter().all(|far| rests_with_nobody_to_ask(index, far.pid, wait.begin_ns)))
}

fn leads(index: &Index<'_>, wait: &WaitSpan, end: &Endpoint, asked: &Asked) -> Option<Leads> {
    let far = match &end.object {
        ObjectRef::Inet(socket) => {
            let is_asked = socket.state == TCP_LISTEN || index.connections.is_accepted(socket);
            if is_asked || socket.remote.port() == 0 {
                return None;
            }
            let far = index.connections.far_processes(socket);
            let is_anothers =
                |came_ns| is_asked_before(index, wait.thread.pid, socket.ino, came_ns);
            if has_said_all(index, wait, (socket, &far), asked)
                || asked.anew_ns.is_some_and(is_anothers)
            {
                return None;
            }
            if far.is_empty() || waits_for_undelivered(index, wait.begin_ns, wait.end_ns, socket) {
                return Some(Leads::Away(socket.ino));
            }
            far
        }
        ObjectRef::Unix { ino, peer_ino, .. } => {
            let is_asked = index.model.called.unix_path(*ino).is_some();
            if is_asked {
                return None;
            }
            let far = index.connections.endpoints_on(*peer_ino).iter();
            let far: Vec<ThreadRef> = far.map(|end| end.process.clone()).collect();
            if all_read_on(index, &far, *peer_ino) || at_rest::was_for_a_time(index, wait, &far) {
                return None;
            }
            far
        }
        ObjectRef::Pipe { ino } if end.readable && !end.writable => {
            let all = index.connections.endpoints_on(*ino);
            let writers = all.iter().filter(|other| other.writable);
            let writers: Vec<ThreadRef> = writers.map(|other| other.process.clone()).collect();
            if is_sign_of_life(index, end.process.pid, all, &writers) {
                return None;
            }
            writers
        }
        _ => return None,
    };
    let is_it = |far: &ThreadRef| Some(far.pid) == asked.by || far.pid == end.process.pid;
    let to = if is_queued(index, &end.object) { Leads::Queued } else { Leads::To };
    (!far.is_empty() && !far.iter().any(is_it)).then(|| to(far))
}

/// Whether a connection of the waiter's own rests: its other end has had the last word, either before whatever the waiter is asked now, or rests itself
/// since: it waits for the next question, or none of its threads has found more to do than to look at the time.
fn has_said_all(
    index: &Index<'_>,
    wait: &WaitSpan,
    (socket, far): (&InetRef, &[ThreadRef]),
    asked: &Asked,
) -> bool {
    let (debts, pid) = (&index.debts, wait.thread.pid);
    let Some(came_ns) = debts.last_word_of_peer_ns(pid, socket.ino).filter(|_| wait.standing)
    else {
        return false;
    };
    if asked.since_ns.is_some_and(|since_ns| came_ns < since_ns) {
        return true;
    }
    let pids: Vec<u32> = far.iter().map(|far| far.pid).collect();
    let threads = || index.families.threads_of(&pids);
    let at_it = index.connections.far_waits(socket).iter().rev().take(WAITS_LOOKED_AT);
    let stands_there = || {
        let mut standing = at_it.filter(|it| it.standing);
        standing.any(|it| is_for_a_question(index, it))
            && !threads().iter().any(|it| is_at_work_since(index, it, (came_ns, wait.end_ns)))
    };
    let far_rests = || {
        pids.iter().all(|pid| has_nobody_to_ask(index, *pid))
            && !pids.is_empty()
            && threads().iter().all(|it| has_rested_since(index, it, came_ns))
    };
    stands_there() || far_rests()
}

/// Whether a thread may be at work for a connection on which another one of its process reads on all the time (AMQP, JMS): it runs, is held up since the
/// last word there, or has slept from then on.
fn is_at_work_since(index: &Index<'_>, thread: &ThreadRef, (came_ns, to): (Ns, Ns)) -> bool {
    let Some(last) = index.waits.of(thread).last().filter(|it| it.standing) else {
        let is_there = index.families.died_ns(index.model.threads.key(thread)).is_none();
        let ran_ns = || index.waits.ran_within_ns(thread, came_ns, to);
        return is_there && ran_ns() * 2 > to.saturating_sub(came_ns);
    };
    let stood = last.begin_ns.saturating_add(STOOD_MIN.ns()) <= came_ns;
    let sleeps_on =
        last.class == WaitClass::Timer && last.begin_ns <= came_ns.saturating_add(STOOD_MIN.ns());
    !stood && (sleeps_on || held_up(index, thread, last.begin_ns, last.end_ns) > 0)
}

/// Whether a connection has the listener at its other end, which has no other end itself: nobody has accepted it.
fn is_queued(index: &Index<'_>, object: &ObjectRef) -> bool {
    let ObjectRef::Unix { peer_ino, .. } = object else { return false };
    let listens = |object: &ObjectRef| match object {
        ObjectRef::Unix { peer_ino: far_ino, path, .. } => *far_ino == 0 && path.is_some(),
        _ => false,
    };
    index.connections.endpoints_on(*peer_ino).iter().any(|end| listens(&end.object))
}

#[cfg(test)]
mod tests {
    use super::{Asked, is_at_work_since};
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::at_rest::has_nobody_to_ask;
    use crate::graph::end::EndKind;
    use crate::graph::index::Index;
    use crate::graph::next::{Asker, Until};
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    const READER: u64 = 7;

    /// An end of a pipe.
    fn pipe(pid: u32, fd: u32, ino: u64, writes: bool) -> Fact {
        let mut fact = endpoint(pid, "job", ObjectRef::Pipe { ino });
        if let Body::Endpoint(end) = &mut fact.body {
            (end.fd, end.readable, end.writable) = (fd, !writes, writes);
        }
        fact
    }

    /// Where somebody sleeps.
    fn place(syscall: &str, object: Option<ObjectRef>, polled: &[u32]) -> Place {
        let (state, syscall) = (WaitState::Sleep, syscall.into());
        Place { state, syscall, object, polled: polled.to_vec(), ..Place::default() }
    }

    /// Process 10 reads a pipe of its child 20, a relay that polls some of its descriptors: that pipe's other end, and
    /// pipes into which 30 and 40 write, which sleep.
    fn relay(polled: &[u32]) -> Vec<(EndKind, Option<u32>)> {
        relay_beside(polled, vec![blocked(30, "one", WaitState::Sleep, "nanosleep")])
    }

    /// The same, where 30 does something else.
    fn relay_beside(polled: &[u32], one: Vec<Fact>) -> Vec<(EndKind, Option<u32>)> {
        let reads = place("read", Some(ObjectRef::Pipe { ino: READER }), &[]);
        let polls = place("poll", None, polled);
        let mut facts = host();
        facts.extend([
            pipe(10, 0, READER, false),
            pipe(20, 1, READER, true),
            pipe(20, 3, 8, false),
            pipe(30, 1, 8, true),
            pipe(20, 4, 9, false),
            pipe(40, 1, 9, true),
            at_place(10, "rsync", reads),
            at_place(20, "ssh", polls),
            blocked(40, "other", WaitState::Sleep, "nanosleep"),
        ]);
        facts.extend(one);
        let name = "rsync".to_string();
        let kind = TargetKind::Process;
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let ends = explain(facts).answer.ends;
        ends.iter().map(|end| (end.end, end.who.as_ref().and_then(|by| by.pid))).collect()
    }

    #[test]
    fn what_a_relay_polls_besides_its_asker_is_what_it_waits_for() {
        assert_eq!(relay(&[1, 3]), [(EndKind::Sleep, Some(30))]);
    }

    #[test]
    fn of_two_of_whom_one_waits_for_the_other_that_other_one_is_waited_for() {
        let one_waits_for = |pid: u32| {
            let mut waits = place("wait4", None, &[]);
            waits.args[0] = u64::from(pid);
            let known =
                Thread { thread: thread(pid, "other"), parent_pid: 30, ..Thread::default() };
            relay_beside(&[1, 3, 4], vec![at_place(30, "one", waits), identity(known)])
        };
        assert_eq!(one_waits_for(40), [(EndKind::Sleep, Some(40))]);
        let apart = one_waits_for(50);
        assert!(apart.iter().all(|(_, who)| *who != Some(40)), "{apart:?}");
    }

    /// The same relay, whose only descriptor besides leads to its parent 15, as those of its siblings may.
    fn ordered_by_parent(sibling_reads: bool) -> Vec<Option<u32>> {
        let child = |pid: u32| {
            identity(Thread { thread: thread(pid, "job"), parent_pid: 15, ..Thread::default() })
        };
        let mut facts = host();
        facts.extend([
            child(20),
            child(21),
            of_process(10, "client"),
            pipe(10, 0, READER, false),
            pipe(20, 1, READER, true),
            pipe(20, 3, 8, false),
            pipe(15, 1, 8, true),
            at_place(10, "client", place("read", Some(ObjectRef::Pipe { ino: READER }), &[])),
            at_place(20, "job", place("epoll_wait", None, &[1, 3])),
            blocked(15, "master", WaitState::Sleep, "nanosleep"),
        ]);
        facts.extend(sibling_reads.then(|| pipe(21, 3, 8, false)));
        let ends = explain(facts).answer.ends;
        ends.iter().map(|end| end.who.as_ref().and_then(|by| by.pid)).collect()
    }

    #[test]
    fn a_pipe_by_which_children_see_that_their_parent_lives_brings_no_answer() {
        assert_eq!(ordered_by_parent(false), [Some(15)], "it may wait for that one");
        assert!(!ordered_by_parent(true).contains(&Some(15)));
    }

    /// Whom a client waits for in the end: see `pool`.
    fn app_of_pool(word: u32, database: &str, timeout_ms: u64) -> Option<u32> {
        let ends = explain(pool(word, (database, timeout_ms))).answer.ends;
        let links = ends.iter().flat_map(|end| &end.chain).filter_map(|link| link.who.pid);
        links.max()
    }

    /// Client 10 asked app 20 1,240 ticks of 4 ms ago. The app polls a connection of its own to database 30, which had the last word so many ticks ago and does
    /// that.
    fn pool(word: u32, (database, timeout_ms): (&str, u64)) -> Vec<Fact> {
        use crate::graph::last_word::tests::turn;
        use crate::rules::net::scenes::inet;
        let of = |pid: u32, fd: u32, comm: &str, object, (sent, received)| {
            let mut fact = Fact { at_ns: LOOK_NS, ..descriptor(pid, fd, comm, object) };
            if let Body::Endpoint(end) = &mut fact.body {
                let turn = Some(turn(sent, received));
                let (acked_bytes, received_bytes) = (80, 80);
                let state =
                    SocketState { acked_bytes, received_bytes, turn, ..SocketState::default() };
                end.socket = Some(state);
            }
            fact
        };
        let tcp = |ino, near: &str, far: &str| inet("tcp", ino, near, far, 1);
        let place = |syscall: &str, object, polled: &[u32], args| Place {
            args,
            ..place(syscall, object, polled)
        };
        let (asks, owes) =
            (tcp(100, "10.0.0.1:4000", "10.0.0.1:80"), tcp(101, "10.0.0.1:80", "10.0.0.1:4000"));
        let (near, far) = (
            tcp(200, "10.0.0.1:5000", "10.0.0.1:5432"),
            tcp(201, "10.0.0.1:5432", "10.0.0.1:5000"),
        );
        let at_database = place(database, None, &[], [3, 0, 64, timeout_ms, 0, 0]);
        let mut facts = host();
        facts.extend([
            of_process(10, "client"),
            endpoint(20, "app", inet("tcp", 300, "10.0.0.1:80", "0.0.0.0:0", 10)),
            endpoint(30, "database", inet("tcp", 301, "10.0.0.1:5432", "0.0.0.0:0", 10)),
            of(10, 3, "client", asks.clone(), (1_240, 2_000)),
            of(20, 3, "app", owes, (2_000, 1_240)),
            of(20, 4, "app", near, (word + 5, word)),
            of(30, 4, "database", far, (word, word + 5)),
            at_place(10, "client", place("recvfrom", Some(asks), &[], [0; 6])),
            at_place(20, "app", place("epoll_wait", None, &[3, 4], [5, 0, 64, u64::MAX, 0, 0])),
        ]);
        let mut stands = at_place(30, "database", at_database);
        if let Body::Blocked(stands) = &mut stands.body {
            stands.since_ns = LOOK_NS - 4_700_000_000;
        }
        facts.push(stands);
        facts
    }

    #[test]
    fn who_sleeps_after_half_an_answer_is_waited_for_and_so_is_a_loop_that_may_wait_itself() {
        let ends = explain(pool(1_200, ("clock_nanosleep", 0))).answer.ends;
        let first = ends.first().map(|end| (end.end, end.who.as_ref().and_then(|by| by.pid)));
        assert_eq!(first, Some((EndKind::Sleep, Some(30))));
        let unix = |ino, path: Option<String>| ObjectRef::Unix { ino, peer_ino: ino ^ 1, path };
        let asks = descriptor(30, 9, "database", unix(500, None));
        let asked = descriptor(25, 9, "store", unix(501, Some("/run/store".into())));
        let is_alone = |more: Vec<Fact>| {
            let facts = [pool(1_200, ("epoll_wait", u64::from(u32::MAX))), more].concat();
            let Observed { model, timelines } = Observed::new(facts);
            has_nobody_to_ask(&Index::new(&model, &timelines), 30)
        };
        assert!(is_alone(Vec::new()));
        assert!(!is_alone(vec![asks, asked]), "it may wait for the rest itself");
    }

    #[test]
    fn the_clocks_of_tcp_say_nothing_of_who_asks_by_anything_else() {
        let Observed { model, timelines } = Observed::new(pool(1_249, ("epoll_wait", 9_000)));
        let index = Index::new(&model, &timelines);
        let wait = timelines.waits().find(|it| it.thread.pid == 20).expect("it polls");
        let since = |by: Option<u32>| {
            let who = by.map(|pid| thread(pid, "client"));
            let asker = who.as_ref().map(|who| Asker { who, until: Until::At(LOOK_NS) });
            Asked::of(&index, wait, asker).since_ns.is_some()
        };
        assert_eq!([since(Some(10)), since(None), since(Some(40))], [true, true, false]);
    }

    #[test]
    fn a_thread_that_reads_on_all_the_time_does_not_say_that_the_others_are_done() {
        let at_work = |syscall: &str, since_ms: u64| {
            let mut stands = blocked(30, "broker", WaitState::Sleep, syscall);
            if let Body::Blocked(stands) = &mut stands.body {
                stands.since_ns = since_ms * 1_000_000;
            }
            let Observed { model, timelines } = Observed::new([host(), vec![stands]].concat());
            let index = Index::new(&model, &timelines);
            is_at_work_since(&index, &thread(30, "broker"), (200_000_000, LOOK_NS))
        };
        assert!(at_work("clock_nanosleep", 201));
        assert!(at_work("wait4", 300));
        assert!(!at_work("clock_nanosleep", 1_000), "it sleeps for something else");
        assert!(!at_work("wait4", 50), "it has stood since before");
        assert!(!at_work("epoll_wait", 300));
    }

    #[test]
    fn a_connection_of_a_pool_on_which_all_is_said_is_not_what_is_waited_for() {
        let forever = u64::from(u32::MAX);
        assert_eq!(app_of_pool(1_249, "epoll_wait", 9_000), Some(20), "said before the question");
        assert_eq!(app_of_pool(1_200, "epoll_wait", forever), Some(20), "it waits for the next");
    }

    /// Process 10 waits for 20, which polls its connections: to its parent 15 of this name, and to 30, which sleeps.
    fn worker(parent: &str) -> Vec<Option<u32>> {
        let pair = |ino, path: Option<&str>| ObjectRef::Unix {
            ino,
            peer_ino: ino ^ 1,
            path: path.map(Into::into),
        };
        let own = Thread { thread: thread(20, "web"), parent_pid: 15, ..Thread::default() };
        let above = Thread { thread: thread(15, parent), ..Thread::default() };
        let mut facts = host();
        facts.extend([
            identity(above),
            identity(own),
            of_process(10, "client"),
            descriptor(10, 3, "client", pair(100, None)),
            descriptor(20, 3, "web", pair(101, Some("/run/web"))),
            descriptor(20, 4, "web", pair(200, None)),
            descriptor(15, 4, parent, pair(201, None)),
            descriptor(20, 5, "web", pair(300, None)),
            descriptor(30, 5, "app", pair(301, Some("/run/app"))),
            at_place(10, "client", place("read", Some(pair(100, None)), &[])),
            at_place(20, "web", place("epoll_wait", None, &[3, 4, 5])),
            blocked(15, parent, WaitState::Sleep, "rt_sigsuspend"),
            blocked(30, "app", WaitState::Sleep, "nanosleep"),
        ]);
        let ends = explain(facts).answer.ends;
        ends.iter().map(|end| end.who.as_ref().and_then(|by| by.pid)).collect()
    }

    #[test]
    fn a_worker_serves_and_does_not_wait_for_the_orders_of_its_master() {
        assert_eq!(worker("web"), [Some(30)]);
        assert!(!worker("supervisor").contains(&Some(30)), "it may wait for that one");
    }

    #[test]
    fn of_two_nobody_knows_which() {
        assert!(relay(&[1, 3, 4]).iter().all(|(kind, _)| *kind != EndKind::Sleep));
        assert!(relay(&[1]).iter().all(|(kind, _)| *kind != EndKind::Sleep));
    }

    /// nginx 10 polls connections of its own to php-fpm, of which 21 has stood since later than 22, and 20 is the master: one that 21 has
    /// accepted, or one that nobody has.
    fn of_pool(is_accepted: bool) -> (&'static str, Option<u32>) {
        use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
        let of = |ino, peer_ino, path: Option<&str>| ObjectRef::Unix {
            ino,
            peer_ino,
            path: path.map(Into::into),
        };
        let named = |pid: u32, parent_pid: u32| {
            identity(Thread { thread: thread(pid, "php-fpm"), parent_pid, ..Thread::default() })
        };
        let sleeps = |pid: u32, since_ns: Ns| {
            let mut fact = blocked(pid, "php-fpm", WaitState::Sleep, "clock_nanosleep");
            if let Body::Blocked(blocked) = &mut fact.body {
                blocked.since_ns = since_ns;
            }
            fact
        };
        let listener = || of(200, 0, Some("/run/php"));
        let mut facts = vec![named(20, 1), named(21, 20), named(22, 20)];
        facts.extend([20, 21, 22].map(|pid| endpoint(pid, "php-fpm", listener())));
        facts.push(blocked(20, "php-fpm", WaitState::Sleep, "epoll_wait"));
        facts.extend([sleeps(21, LOOK_NS / 2), sleeps(22, 0)]);
        facts.push(descriptor(21, 4, "php-fpm", of(301, 300, Some("/run/php"))));
        let far = if is_accepted { 301 } else { 200 };
        facts.push(descriptor(10, 4, "app", of(300, far, None)));
        let polls = Place { polled: vec![4], ..place("epoll_wait", NO_ARGS, None) };
        led([vec![stands(of_ten(10), polls)], facts].concat())
    }

    #[test]
    fn what_a_worker_has_accepted_is_that_ones_however_long_another_stands() {
        assert_eq!(of_pool(true), (super::WAY.name, Some(21)));
        assert_eq!(of_pool(false), (super::WAY.name, Some(22)), "whoever is done first");
    }
}
