//! Turns: several servers of one socket of which one at a time waits for the next client, while the others wait for its lock.
//!
//! Prefork servers do so (a lock around accept: flock, fcntl, a semaphore, a mutex in shared memory). Who waits for his turn waits for work as much
//! as who has it. It is one where the holder of the lock waits at a listening socket, as far as what he polls was read, the waiter has the same
//! socket open, no client stands in its queue, and the waiter owes nobody an answer: a worker that was asked, and cannot go on because
//! a colleague rests with a lock, is held up. Of several threads in a process one may serve while another waits for its turn: there
//! a question counts that came before the wait. A unix socket has no clocks, and an event loop in front of it waits for all at once: of a lone
//! thread any client of such a socket counts. A loop that has asked somebody, and polls for his answer, is no holder at rest.
//!
//! The colleague works for a moment at each client: where that is a small part of a wait, and nobody stands in the queue, it is part of the turn.
//!
//! Must not: take a holder that works all the time, sleeps or waits for anybody else for one that rests. Rejected: any holder that rests (a session idle
//! in its transaction holds up others), and names of lock files or of functions. Edit together: accounting.rs, which shows such a wait as idle.

use super::debts::Debt;
use super::index::Index;
use super::leaf::{ChainLink, Leaf};
use super::worker_processes::not_accepted;
use crate::facts::{Endpoint, Ns, ObjectRef, ThreadRef};
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::{HashMap, HashSet};

/// So many of the descriptors that a loop polls are reported at most: of one with as many there may be more.
const POLLED_MAX: usize = 64;

/// One part in so many of a wait the colleague may be at work: who serves for longer with the lock in his hand holds up whoever waits for it.
const WORK_PARTS: Ns = 10;

/// What a look's waits for a turn are.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// How much of each wait leads to a colleague who waits for work, by thread and begin.
    taken_ns: HashMap<(u32, Ns), Ns>,
}

impl Turns {
    /// What is left of a wait without the leaves that lead to a colleague who waits for the next client: those are nobody's loss. Remembers them.
    pub(super) fn without(
        &mut self,
        index: &Index<'_>,
        wait: &WaitSpan,
        leaves: Vec<Leaf>,
    ) -> Vec<Leaf> {
        let all_ns: Ns = leaves.iter().map(Leaf::ns).sum();
        let (taken, mut left): (Vec<Leaf>, Vec<Leaf>) =
            leaves.into_iter().partition(|leaf| is_turn(index, wait, leaf));
        let taken_ns: Ns = taken.iter().map(Leaf::ns).sum();
        if taken_ns == 0 {
            return left;
        }
        *self.taken_ns.entry((wait.thread.tid, wait.begin_ns)).or_default() += taken_ns;
        let work = left.iter().filter(|leaf| is_work_between(&taken, leaf));
        let work_ns: Ns = work.map(Leaf::ns).sum();
        let is_short = work_ns.saturating_mul(WORK_PARTS) <= all_ns;
        if taken_ns * 2 > all_ns && is_short && !is_before_a_client(index, wait) {
            left.retain(|leaf| !is_work_between(&taken, leaf));
        }
        left
    }

    /// Whether most of a wait within a time was one for its turn.
    pub(super) fn is_one(&self, wait: &WaitSpan, (from, to): (Ns, Ns)) -> bool {
        let taken_ns = self.taken_ns.get(&(wait.thread.tid, wait.begin_ns));
        taken_ns.is_some_and(|ns| ns * 2 > wait.within_ns(from, to))
    }
}

fn is_turn(index: &Index<'_>, wait: &WaitSpan, leaf: &Leaf) -> bool {
    let is_lock = matches!(
        wait.class,
        WaitClass::FileLock | WaitClass::FutexLock | WaitClass::FutexWait | WaitClass::PolledLock
    );
    let first = &leaf.links[0];
    // Who had the lock in the meantime may have waited for it before that.
    let Some(holder) = leaf.links.iter().find(|link| !is_same_lock(first, link)) else {
        return false;
    };
    let may_be = is_lock
        && holder.class == WaitClass::Idle
        && !index.model.threads.is_same(&holder.who, &wait.thread);
    if !may_be {
        return false;
    }
    let own = index.connections.listening(wait.thread.pid);
    let own: HashSet<u64> = own.map(Endpoint::object_ino).collect();
    let mut at = index.connections.listening(holder.who.pid);
    at.clone().any(|it| own.contains(&it.object_ino()))
        && rests_at(index, holder, &own)
        && !asks(index, &holder.who, (holder.begin_ns, holder.end_ns))
        && !is_asked(index, wait)
        && !(holder.standing && at.any(|it| has_a_client(index, it)))
}

/// Whether a client waits to be accepted at a socket of the waiter's.
fn is_before_a_client(index: &Index<'_>, wait: &WaitSpan) -> bool {
    index.connections.listening(wait.thread.pid).any(|it| has_a_client(index, it))
}

/// Whether a leaf leads to the same colleague at work, or too busy to be followed: who took a client has given the lock on by then, or accepts.
fn is_work_between(taken: &[Leaf], leaf: &Leaf) -> bool {
    let root = leaf.root();
    matches!(root.class, WaitClass::Running | WaitClass::RunQueue | WaitClass::Unseen)
        && taken.iter().any(|it| it.root().who.tid == root.who.tid)
}

/// Whether two wait for one lock. A word that processes share is at one address in those that one began.
fn is_same_lock(one: &ChainLink, other: &ChainLink) -> bool {
    let is_one = match (&one.object, &other.object) {
        (Object::Futex { address: one, .. }, Object::Futex { address: other, .. }) => one == other,
        (one, other) => one == other,
    };
    one.class == other.class && is_one
}

/// Whether a client waits to be accepted.
fn has_a_client(index: &Index<'_>, listener: &Endpoint) -> bool {
    match &listener.object {
        // Its queue is not read.
        ObjectRef::Unix { ino, .. } => not_accepted(index.model, *ino) > 0,
        _ => listener.socket.as_ref().is_some_and(|it| it.accept_queue > 0),
    }
}

/// Whether a thread waits at one of these sockets: by what this wait of its is on, or another one in the same call on the same thing.
fn rests_at(index: &Index<'_>, link: &ChainLink, listeners: &HashSet<u64>) -> bool {
    let who: &ThreadRef = &link.who;
    let is_at = |other: &WaitSpan| {
        let on = other.place.object.as_ref().and_then(ObjectRef::socket_ino);
        let polled = index.connections.of_process(who.pid, &other.place.polled);
        on.is_some_and(|ino| listeners.contains(&ino))
            || polled.iter().any(|it| listeners.contains(&it.object_ino()))
    };
    same_calls(index, who, link.begin_ns).any(is_at)
}

/// The waits of a thread in the call in which it is at a time, on the same thing.
fn same_calls<'a>(
    index: &Index<'a>,
    who: &ThreadRef,
    at_ns: Ns,
) -> impl Iterator<Item = &'a WaitSpan> + use<'a> {
    let now = index.waits.at(who, at_ns);
    let all = now.map_or(&[][..], |_| index.waits.of(who)).iter();
    all.filter(move |other| {
        now.is_some_and(|now| {
            other.place.syscall == now.place.syscall && other.place.args[0] == now.place.args[0]
        })
    })
}

/// Whether a loop that waits at its socket has asked somebody else meanwhile. Of several threads another one may have: there those
/// questions count for whose answer the loop polls, and all where it is not known what it polls.
fn asks(index: &Index<'_>, who: &ThreadRef, (from, to): (Ns, Ns)) -> bool {
    let pid = who.pid;
    let mut asked = index.debts.asked_by(pid);
    let is_then = |debt: &Debt| debt.since_ns < to && debt.seen_ns > from;
    if is_alone(index, pid) {
        return asked.any(is_then);
    }
    // In a call that accepts alone it waits for nothing else.
    let is_loop = index.waits.at(who, from);
    if !is_loop.is_some_and(|wait| wait.place.is_for_several()) {
        return false;
    }
    let fds: HashSet<u32> =
        same_calls(index, who, from).flat_map(|it| &it.place.polled).copied().collect();
    let fds: Vec<u32> = fds.into_iter().collect();
    let polled = index.connections.of_process(pid, &fds);
    let polled: HashSet<u64> = polled.iter().map(|it| it.object_ino()).collect();
    let is_known = (1..POLLED_MAX).contains(&fds.len());
    asked.any(|debt| is_then(debt) && (!is_known || polled.contains(&debt.ino)))
}

/// Whether a process has one thread.
fn is_alone(index: &Index<'_>, pid: u32) -> bool {
    index.families.threads_of(&[pid]).len() <= 1
}

/// Whether somebody waits for an answer of the waiter's, as far as this wait may have to do with it.
fn is_asked(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let pid = wait.thread.pid;
    let is_alone = is_alone(index, pid);
    let is_open = |ino| index.connections.endpoints_on(ino).iter().any(|it| it.process.pid != pid);
    if is_alone && index.connections.came_by_path(pid).any(is_open) {
        return true;
    }
    let counts = |since_ns: Ns| is_alone || since_ns < wait.begin_ns;
    let debts = [&index.debts.owes, &index.debts.owed_before];
    let mut owed = debts.into_iter().filter_map(|of| of.get(&pid)).flatten();
    owed.any(|debt| debt.seen_ns > wait.begin_ns && counts(debt.since_ns))
        || asked_by_path(index, wait).any(counts)
}

/// Since when somebody waits, within this wait, at the other end of a connection that came to a unix socket of the waiter's process.
fn asked_by_path(index: &Index<'_>, wait: &WaitSpan) -> impl Iterator<Item = Ns> {
    let (pid, from, to) = (wait.thread.pid, wait.begin_ns, wait.end_ns);
    let far = index.connections.came_by_path(pid);
    let asks = move |it: &&&WaitSpan| {
        it.thread.pid != pid && it.class.is_for_somebody() && it.within_ns(from, to) > 0
    };
    far.flat_map(|ino| index.connections.waits_on(ino)).filter(asks).map(|it| it.begin_ns)
}

#[cfg(test)]
mod tests {
    use super::{asks, is_alone};
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::rules::net::scenes::{inet, with_state};
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    const PATH: &str = "/run/app.sock";
    const FILE: (DeviceNumber, u64) = (DeviceNumber { major: 8, minor: 1 }, 99);

    fn listener() -> ObjectRef {
        inet("tcp", 300, "0.0.0.0:25", "0.0.0.0:0", 10)
    }

    /// Processes 10 and 20 have a listening socket; 10 waits all the time for a lock that 20 has, which does this meanwhile.
    fn workers(holder: Fact, clients: u32) -> Vec<Fact> {
        let queue = || SocketState { accept_queue: clients, ..SocketState::default() };
        let at = |pid: u32| with_state(pid, "smtpd", listener(), queue());
        vec![at(10), at(20), waiter(), held(), holder]
    }

    /// The same of a socket with a path.
    fn by_path() -> Vec<Fact> {
        let listens = || ObjectRef::Unix { ino: 300, peer_ino: 0, path: Some(PATH.into()) };
        let at = |pid: u32| endpoint(pid, "smtpd", listens());
        vec![at(10), at(20), waiter(), held(), polls(&[3])]
    }

    /// The lock that 20 has.
    fn held() -> Fact {
        let path = Some("/run/inet.smtp".into());
        let lock = FileLock { path, ..file_lock(1, FILE, &[thread(20, "smtpd")]) };
        Fact { at_ns: LOOK_NS, body: Body::FileLock(lock) }
    }

    /// 10 waits for it.
    fn waiter() -> Fact {
        let file = FileRef { dev: FILE.0, ino: FILE.1, ..FileRef::default() };
        let object = Some(ObjectRef::File(file));
        let place =
            Place { state: WaitState::Sleep, syscall: "flock".into(), object, ..Place::default() };
        at_place(10, "smtpd", place)
    }

    /// It polls these descriptors; the socket is number 3.
    fn polls(fds: &[u32]) -> Fact {
        let (state, syscall) = (WaitState::Sleep, "epoll_wait".into());
        at_place(20, "smtpd", Place { state, syscall, polled: fds.to_vec(), ..Place::default() })
    }

    /// The codes of a host, and of a look at the waiter.
    fn codes(facts: Vec<Fact>) -> [Vec<String>; 2] {
        [None, Some(of_process(10, "smtpd"))].map(|target| {
            let facts = [host(), target.into_iter().collect(), facts.clone()].concat();
            explain(facts).findings.into_iter().map(|it| it.code).collect()
        })
    }

    const LOUD: [[&str; 1]; 2] = [["lock.file"]; 2];

    #[test]
    fn who_waits_for_his_turn_to_accept_waits_for_work() {
        let none: [Vec<String>; 2] = [Vec::new(), Vec::new()];
        assert_eq!(codes(workers(polls(&[3, 7]), 0)), none);
        let (state, syscall) = (WaitState::Sleep, "accept4".into());
        let place = Place { state, syscall, object: Some(listener()), ..Place::default() };
        assert_eq!(codes(workers(at_place(20, "smtpd", place), 0)), none);
    }

    fn word(pid: u32, end_ns: Ns, by: u32) -> Fact {
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [0x7000, 0, 2, 0, 0, 0],
            ..Place::default()
        };
        let (context, by) = (WakeContext::Task, thread(by, "uwsgi"));
        let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
        let thread = thread(pid, "uwsgi");
        let wait = Wait { thread, end_ns, place, wake, ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    fn rests(pid: u32, begin_ns: Ns, end_ns: Ns) -> Fact {
        let mut rest = slept(pid, "uwsgi", begin_ns, end_ns);
        if let Body::Wait(wait) = &mut rest.body {
            wait.place.syscall = "epoll_wait".into();
            wait.place.object = Some(listener());
        }
        rest
    }

    fn shared(pid: u32, clients: u32) -> Fact {
        let queue = SocketState { accept_queue: clients, ..SocketState::default() };
        with_state(pid, "uwsgi", listener(), queue)
    }

    #[test]
    fn whoever_had_it_next_may_have_waited_for_his_turn_too() {
        let half = LOOK_NS / 2;
        // 30 rests with it first, then 20, who lets 10 go at the end.
        let facts = vec![
            shared(10, 0),
            shared(20, 0),
            shared(30, 0),
            word(10, LOOK_NS - 1_000_000, 20),
            word(20, half, 30),
            rests(30, 0, half - 1_000_000),
            rests(20, half + 1_000_000, LOOK_NS - 2_000_000),
        ];
        let codes = explain([host(), facts].concat()).findings.into_iter().map(|it| it.code);
        assert_eq!(codes.collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn a_colleague_who_works_for_a_moment_between_his_rests_takes_clients() {
        let codes = |worked_ns: Ns, clients: u32| {
            let facts = vec![
                shared(10, clients),
                shared(20, clients),
                word(10, LOOK_NS - 1_000_000, 20),
                rests(20, 0, LOOK_NS / 2 - worked_ns),
                rests(20, LOOK_NS / 2, LOOK_NS - 2_000_000),
            ];
            let target = of_process(10, "uwsgi");
            let found = explain([host(), vec![target], facts].concat()).findings;
            found.into_iter().map(|it| it.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(LOOK_NS / 20, 0), Vec::<String>::new());
        assert_eq!(codes(LOOK_NS / 10, 1), ["lock.futex"], "a client stands before it");
        assert_eq!(codes(LOOK_NS / 5, 0), ["lock.futex"], "it serves with the lock in its hand");
    }

    #[test]
    fn a_lock_that_stands_before_clients_is_one() {
        assert_eq!(codes(workers(polls(&[3]), 2)), LOUD, "two wait to be accepted");
        assert_eq!(codes(workers(polls(&[7]), 0)), LOUD, "it waits for something else");
        let sleeps = blocked(20, "smtpd", WaitState::Sleep, "clock_nanosleep");
        assert_eq!(codes(workers(sleeps, 0)), LOUD);
        // The waiter has been asked.
        let turn = TcpTurn { sent_jiffies: 9, jiffy_ns: 100_000_000, ..TcpTurn::default() };
        let asked = inet("tcp", 301, "10.0.0.1:25", "10.0.0.2:40000", 1);
        let facts = [workers(polls(&[3]), 0), vec![spoke(10, asked, turn)]].concat();
        assert_eq!(codes(facts), LOUD);
    }

    /// A process has a connection, its descriptor 9, with these clocks.
    fn spoke(pid: u32, object: ObjectRef, turn: TcpTurn) -> Fact {
        let mut end = descriptor(pid, 9, "smtpd", object);
        if let Body::Endpoint(end) = &mut end.body {
            let (acked_bytes, received_bytes) = (80, 900);
            let turn = Some(turn);
            let state = SocketState { turn, acked_bytes, received_bytes, ..SocketState::default() };
            end.socket = Some(state);
        }
        Fact { at_ns: LOOK_NS, ..end }
    }

    #[test]
    fn a_client_of_a_socket_with_a_path_is_one_whatever_its_loop_waits_for() {
        let none: [Vec<String>; 2] = [Vec::new(), Vec::new()];
        assert_eq!(codes(by_path()), none);
        let end = |pid: u32, ino: u64, peer_ino: u64, path: Option<&str>| {
            let path = path.map(String::from);
            descriptor(pid, 9, "nginx", ObjectRef::Unix { ino, peer_ino, path })
        };
        let with = |more: Vec<Fact>| codes([by_path(), more].concat());
        let front = |peer_ino: u64| end(30, 401, peer_ino, None);
        let asked = |pid: u32| end(pid, 400, 401, Some(PATH));
        assert_eq!(with(vec![front(400), asked(10)]), LOUD, "10 has the question");
        assert_eq!(with(vec![front(400), asked(20)]), none, "20 has it, and rests");
        assert_eq!(with(vec![front(300)]), LOUD, "nobody has accepted it");
        assert_eq!(with(vec![asked(10)]), none, "its other end is open nowhere");
        assert_eq!(with(vec![end(10, 401, 400, None)]), none, "10 asks somebody");
    }

    /// Process 20, which has a second thread, has asked somebody by its descriptor 9, and polls these.
    fn asked_by_two(fds: &[u32], syscall: &str) -> bool {
        let second = ThreadRef { tid: 21, ..thread(20, "smtpd") };
        let second = identity(Thread { thread: second, ..Thread::default() });
        let (sent_jiffies, received_jiffies, jiffy_ns) = (9, 19, 100_000_000);
        let turn = TcpTurn { sent_jiffies, received_jiffies, jiffy_ns, ..TcpTurn::default() };
        let upstream = inet("tcp", 301, "10.0.0.1:40000", "10.0.0.2:443", 1);
        let mut waits = polls(fds);
        if let Body::Blocked(blocked) = &mut waits.body {
            blocked.place.syscall = syscall.into();
        }
        let facts = [workers(waits, 0), vec![second, spoke(20, upstream, turn)]].concat();
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let index = Index::new(&model, &timelines);
        assert!(!is_alone(&index, 20));
        asks(&index, &thread(20, "smtpd"), (0, LOOK_NS))
    }

    #[test]
    fn a_loop_among_several_threads_has_asked_whomever_it_polls_for() {
        assert!(asked_by_two(&[3, 9], "epoll_wait"));
        assert!(!asked_by_two(&[3], "epoll_wait"), "another thread waits for that");
        assert!(asked_by_two(&[], "epoll_wait"), "what it polls is not known");
        assert!(!asked_by_two(&[], "accept4"), "it waits for a client alone");
    }

    #[test]
    fn a_lock_of_a_loop_that_was_asking_meanwhile_is_one_among_several_threads_too() {
        let second = ThreadRef { tid: 21, ..thread(20, "smtpd") };
        let second = identity(Thread { thread: second, ..Thread::default() });
        // It asked three seconds before this reading, and has its answer at the end.
        let read = |before_ns: Ns, sent_jiffies: u32, received_jiffies: u32| {
            let jiffy_ns = 100_000_000;
            let turn = TcpTurn { sent_jiffies, received_jiffies, jiffy_ns, ..TcpTurn::default() };
            let end = spoke(20, inet("tcp", 301, "10.0.0.1:40000", "10.0.0.2:443", 1), turn);
            Fact { at_ns: LOOK_NS - before_ns, ..end }
        };
        let of = |fds: &[u32]| {
            let more = vec![second.clone(), read(500_000_000, 30, 40), read(0, 35, 2)];
            codes([workers(polls(fds), 0), more].concat())
        };
        assert_eq!(of(&[3, 9]), LOUD);
        let none: [Vec<String>; 2] = [Vec::new(), Vec::new()];
        assert_eq!(of(&[3]), none, "another thread of its did");
    }

    #[test]
    fn whoever_has_another_socket_takes_no_turns_with_the_waiter() {
        let mut facts = workers(polls(&[3]), 0);
        let other = inet("tcp", 302, "0.0.0.0:26", "0.0.0.0:0", 10);
        facts[1] = with_state(10, "smtpd", other, SocketState::default());
        assert_eq!(codes(facts), LOUD);
    }
}
