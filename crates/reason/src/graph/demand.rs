//! All demand of a look, led to its ends: the whole of the graph, and what rules and answers ask of it.
//!
//! Of a command its critical path is demand; of a host, a process or a container the waits that count, and what is owed. Whoever comes
//! after the graph asks it here, by a narrow question: the index behind it is nobody else's. Must not: lead a leaf to an end (ends.rs),
//! or follow (chains.rs).

use super::awaited::{Awaited, rests};
use super::chains::{ChainLink, Chains, Leaf};
use super::debts::Debts;
use super::end::{End, Lost};
use super::ending;
use super::ends::{Found, command_end_ns, command_root, is_own};
use super::for_nobody;
use super::question::{
    is_for_a_question, is_for_an_order, is_for_next_question, is_for_what_comes, question_of,
};
use super::subscriptions::Subscriptions;
use super::turns::Turns;
use super::unasked::Unasked;
use super::undelivered::Undelivered;
use super::wakers::is_stalled;
use super::ways::held::holder;
use super::ways::held::pipe_end::is_left_open;
use super::ways::way::Waiter;
use super::worker_processes::{self, BusyWorkers};
use crate::facts::{Endpoint, InetRef, Ns, Target, TargetKind, ThreadRef, WakeContext};
use crate::model::Model;
use crate::model::object::Object;
use crate::programs::lock_kind::LockKind;
use crate::waits::timeline::{Timelines, WaitSpan};
use crate::waits::{WaitClass, session_wait, user_stack};
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

/// All ends of a look, and what the victims spent altogether.
pub struct Graph<'a> {
    /// What was observed.
    pub model: &'a Model,
    /// What each thread did when.
    pub timelines: &'a Timelines,
    /// Follows waits.
    pub chains: Chains<'a>,
    /// The ends, greatest first.
    pub ends: Vec<End>,
    /// For a command: the leaves of its critical path, in order of time.
    pub path: Vec<Leaf>,
    demand_seconds: HashMap<u32, f64>,
    turns: Turns,
    /// Whoever is awaited of what was asked about reads what is typed: a shell in a window, or at the other end of a session.
    pub at_prompt: bool,
    unasked: Unasked,
}

impl<'a> Graph<'a> {
    /// Follows every wait that is demand to its end, and shows each piece of it to `watch`.
    pub fn of(
        model: &'a Model,
        timelines: &'a Timelines,
        watch: &mut dyn FnMut(&Lost<'_>),
    ) -> Self {
        let chains = Chains::new(model, timelines);
        let mut found = Found::new(model, timelines, &chains, watch);
        let (mut path, mut turns, mut unasked) = (Vec::new(), Turns::default(), Unasked::default());
        let mut awaited = Awaited::default();
        if let Some(root) = command_root(model) {
            (path, unasked) = command_path(&chains, &root);
            path.iter().for_each(|leaf| found.add(leaf, true, true));
        } else {
            let target = model.look.target.as_ref().filter(|it| it.kind != TargetKind::Host);
            awaited = Awaited::of(&chains.index, target);
            let mut subscriptions = Subscriptions::new(&chains.index, target);
            let owed = LazyCell::new(|| owed_threads(&chains));
            for wait in timelines.waits() {
                let far = awaited.by(&chains.index, wait).filter(|_| !chains.is_for_an_end(wait));
                let is_held = target.is_some()
                    && is_for_a_lock_of_its_server(model, wait)
                    && !owed.contains(&wait.thread.tid);
                let asked = (is_held || target.is_some_and(|it| is_asked_of(model, it, wait)))
                    && !is_for_next_question(&chains.index, wait)
                    && !is_for_an_order(&chains.index, wait)
                    || far.is_some();
                let counted = wait.class.is_demand() || asked;
                let followed = counted
                    || is_stalled(wait.class)
                    || chains.is_for_an_end(wait)
                    || wait.class.is_for_somebody() && !is_for_a_question(&chains.index, wait);
                // A kernel thread waits for somebody else's sake: it is a link, never a victim.
                if !followed
                    || wait.kernel
                    || is_own(model, &wait.thread)
                    || !model.in_target(&wait.thread)
                {
                    continue;
                }
                let counted = counted || is_stalled(wait.class);
                let is_word = asked && !is_held && wait.class == WaitClass::FutexWait;
                let look = (model.look.begin_ns, model.look.end_ns);
                let leaves = chains.follow_wait(wait, look, far.is_some());
                for leaf in turns.without(&chains.index, wait, leaves) {
                    let mut is_it = |far: &ThreadRef| awaited.takes(&chains.index, &leaf, far);
                    if for_nobody::is(&chains, &leaf) || far.as_ref().is_some_and(|far| !is_it(far))
                    {
                        continue;
                    }
                    // Who is to give it back and rests himself waits for work, and so does who waits for him; but not where he keeps a lock meanwhile.
                    let rests = (is_word || far.is_some() && !is_for_a_lock(&leaf)) && rests(&leaf);
                    let counted = (counted && !rests) || ending::is_waiters_own(&leaf);
                    match Subscriptions::concern(wait) {
                        true => subscriptions.take(&chains.index, wait, leaf, counted),
                        false => found.add(&leaf, counted, false),
                    }
                }
            }
            for (leaf, counted) in subscriptions.owed(model) {
                found.add(&leaf, counted, false);
            }
            found.add_owed(&awaited);
            found.add_work();
        }
        let ends = found.sorted();
        let demand_seconds = demand_by_process(model, timelines, &turns);
        let at_prompt = awaited.at_prompt;
        Self { model, timelines, chains, ends, path, demand_seconds, turns, unasked, at_prompt }
    }

    /// The ends of one class.
    pub fn class(&self, class: WaitClass) -> impl Iterator<Item = &End> {
        self.ends.iter().filter(move |end| end.class == class)
    }

    /// Every wait of every thread.
    pub fn waits(&self) -> impl Iterator<Item = &'a WaitSpan> + use<'a> {
        self.timelines.waits()
    }

    /// It is a command that is explained.
    pub fn is_command(&self) -> bool {
        self.model.look.target.as_ref().is_some_and(|t| t.kind == TargetKind::Command)
    }

    /// Seconds that are explained: the window, or the command's life.
    pub fn wall_seconds(&self) -> f64 {
        if self.is_command() {
            return command_end_ns(self.model).saturating_sub(self.model.look.begin_ns) as f64
                / 1e9;
        }
        self.model.look.seconds()
    }

    /// Time that a process did not spend idle: running, ready, or in demand waits, seconds.
    pub fn demand_seconds(&self, pid: u32) -> f64 {
        self.demand_seconds.get(&pid).copied().unwrap_or(0.0)
    }

    /// The name of a thread's process.
    pub fn process_name(&self, thread: &ThreadRef) -> String {
        let main = self.model.threads.names.get(&thread.pid);
        main.filter(|m| !m.comm.is_empty()).unwrap_or(thread).comm.clone()
    }

    /// Who holds what a wait is for.
    pub fn holder(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        holder(&self.chains.index, wait)
    }

    /// Whether a wait for a lock within a time is one for a turn to take the next client, which a colleague has who rests.
    pub fn is_for_a_turn(&self, wait: &WaitSpan, within: (Ns, Ns)) -> bool {
        self.turns.is_one(wait, within)
    }

    /// Whether a wait is for the next question of somebody who connected, and for no answer.
    pub fn is_for_a_question(&self, wait: &WaitSpan) -> bool {
        is_for_a_question(&self.chains.index, wait)
    }

    /// Whose next question a wait is for, if it is for one; 0 if that is not known.
    pub fn question_of(&self, wait: &WaitSpan) -> Option<u32> {
        question_of(&self.chains.index, wait, None)
    }

    /// Whether most of an end is a wait for what comes next on a connection whose other end has had the last word: news, work, or the
    /// rest of an answer. Of a command it is part of its time all the same.
    pub fn is_for_what_comes(&self, end: &End) -> bool {
        if self.is_command() {
            return self.unasked.news_ns(&end.object) as f64 / 1e9 * 2.0 > end.seconds;
        }
        let (from, to) = (self.model.look.begin_ns, self.model.look.end_ns);
        let is_it = |wait: &&WaitSpan| {
            wait.object == end.object && is_for_what_comes(&self.chains.index, wait)
        };
        // Only what stands is one, and that is last: a thread may have as many ends as it has had waits before.
        let standing = self.waits_of(&end.links[end.named].who).iter().rev();
        let standing = standing.take_while(|wait| wait.standing).filter(is_it);
        let ns: Ns = standing.map(|wait| wait.within_ns(from, to)).sum();
        ns as f64 / 1e9 * 2.0 > end.seconds
    }

    /// Whether a link waits on a connection on which the other end had had the last word by then: for news, or for the rest of an answer.
    pub fn is_after_an_answer(&self, link: &ChainLink) -> bool {
        let Object::Inet(ino) = link.object else { return false };
        self.chains.index.said.is_all(link.who.pid, ino, link.since_ns)
    }

    /// Outstanding answers by process.
    pub fn debts(&self) -> &Debts {
        &self.chains.index.debts
    }

    /// Every known thread of some processes, by thread id.
    pub fn threads_of(&self, pids: &[u32]) -> Vec<ThreadRef> {
        self.chains.index.families.threads_of(pids)
    }

    /// The workers of the server of which a process is, as the look ends, if none of them is free.
    pub fn busy_workers(&self, pid: u32) -> Option<BusyWorkers> {
        let index = &self.chains.index;
        let end_ns = index.model.look.end_ns;
        let of_parent =
            || worker_processes::all_busy(index, index.families.parent_of(pid)?, end_ns);
        worker_processes::all_busy(index, pid, end_ns).or_else(of_parent)
    }

    /// Who began a process.
    pub fn parent_of(&self, pid: u32) -> Option<u32> {
        self.chains.index.families.parent_of(pid)
    }

    /// The waits of one thread, by begin.
    pub fn waits_of(&self, thread: &ThreadRef) -> &'a [WaitSpan] {
        self.chains.index.waits.of(thread)
    }

    /// Whether anything was seen of a thread: a wait, or time on a CPU.
    pub fn is_seen(&self, thread: &ThreadRef) -> bool {
        self.chains.index.waits.is_seen(thread)
    }

    /// Processes at the other end of a connection.
    pub fn far_processes(&self, socket: &InetRef) -> Vec<ThreadRef> {
        self.chains.index.connections.far_processes(socket)
    }

    /// The end of a connection of which nothing arrives at the other.
    pub fn undelivered(&self, socket: &InetRef) -> Option<Undelivered<'a>> {
        self.chains.index.connections.undelivered(socket)
    }

    /// The descriptors on an inode.
    pub fn endpoints_on(&self, ino: u64) -> &[&'a Endpoint] {
        self.chains.index.connections.endpoints_on(ino)
    }

    /// Whether a connection was made to a listener here, and this is the listener's end of it.
    pub fn is_accepted(&self, socket: &InetRef) -> bool {
        self.chains.index.connections.is_accepted(socket)
    }

    /// Whether a link reads a pipe whose writing end only daemons have that inherited it and rest.
    pub fn reads_what_is_left_open(&self, link: &ChainLink) -> bool {
        let index = &self.chains.index;
        let mut waits = index.waits.within(&link.who, link.begin_ns, link.end_ns).iter();
        let wait = waits.find(|it| it.begin_ns == link.since_ns && it.object == link.object);
        wait.is_some_and(|wait| is_left_open(&Waiter::of(index, wait)))
    }

    /// The listeners that may still accept a connection that nobody has open.
    pub fn may_accept(&self, socket: &InetRef) -> Vec<ThreadRef> {
        self.chains.index.connections.may_accept(socket)
    }
}

/// The leaves of a command's critical path, and which of its waits nobody owes an answer to.
fn command_path(chains: &Chains<'_>, root: &ThreadRef) -> (Vec<Leaf>, Unasked) {
    let model = chains.index.model;
    let mut unasked = Unasked::of(&chains.index);
    let all = chains.follow(root, model.look.begin_ns, command_end_ns(model));
    (unasked.lead(&chains.index, all), unasked)
}

/// Whether a wait is one of which somebody wants to know who asks about a process or a container: one for somebody. That a
/// process has ended is wanted if it is the one.
fn is_asked_of(model: &Model, target: &Target, wait: &WaitSpan) -> bool {
    match wait.class {
        WaitClass::Zombie => wait.thread.pid == target.pid,
        WaitClass::FutexWait => is_no_wait_for_work(model, wait),
        class => class.is_for_somebody(),
    }
}

/// Whether the server itself says that its process waits for a lock of its table, as one that serves no client may too: who carries out the changes of
/// another server, or cleans up. Its holder may well rest, in the middle of a transaction.
fn is_for_a_lock_of_its_server(model: &Model, wait: &WaitSpan) -> bool {
    let kind = || session_wait::kind_of(model, &wait.thread, wait.begin_ns, wait.end_ns);
    wait.class == WaitClass::FutexWait && kind().is_some_and(LockKind::is_of_a_session)
}

/// Threads whose time counts because of what their processes owe or await, as that of a session does which is to answer its client.
fn owed_threads(chains: &Chains<'_>) -> HashSet<u32> {
    chains.owed_times().into_iter().map(|(thread, ..)| thread.tid).collect()
}

/// Whether a word, a semaphore or a queue is waited for that is no queue of work: room for a message, the end of a thread, a
/// barrier; and a semaphore that another process was seen to give back, like a lock. Workers of a pool that rest share semaphores too,
/// and nobody gives those back.
fn is_no_wait_for_work(model: &Model, wait: &WaitSpan) -> bool {
    match wait.place.syscall.as_str() {
        "msgsnd" | "mq_timedsend" => return true,
        "futex" | "semop" => (),
        // Servers rest so until the next look at the time.
        _ => return false,
    }
    let waker = wait.wake.as_ref().filter(|wake| wake.context == WakeContext::Task);
    let by_another = waker.is_some_and(|wake| wake.by.pid != wait.thread.pid);
    if wait.place.syscall == "semop" {
        return by_another;
    }
    let kind = user_stack::lock_kind_of(model, &wait.thread, wait.begin_ns, wait.end_ns);
    kind.is_some_and(|kind| kind.is_never_work() || kind == LockKind::Semaphore && by_another)
}

/// Whether a chain passes a lock that somebody has: a lock by its class, or one inside of a server.
fn is_for_a_lock(leaf: &Leaf) -> bool {
    leaf.named().map(|at| &leaf.links[at]).is_some_and(|link| {
        link.class.is_held()
            || matches!(link.object, Object::Inside(_)) && link.class == WaitClass::FutexWait
    })
}

/// Time that each process did not spend idle: running, ready, or in demand waits.
fn demand_by_process(model: &Model, timelines: &Timelines, turns: &Turns) -> HashMap<u32, f64> {
    let mut seconds: HashMap<u32, f64> = HashMap::new();
    for time in &model.threads.times {
        *seconds.entry(time.thread.pid).or_default() +=
            (time.run_ns + time.runnable_ns) as f64 / 1e9;
    }
    for wait in timelines.waits() {
        if wait.class.is_demand()
            && !matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota)
            && !turns.is_one(wait, (model.look.begin_ns, model.look.end_ns))
        {
            *seconds.entry(wait.thread.pid).or_default() +=
                wait.within_ns(model.look.begin_ns, model.look.end_ns) as f64 / 1e9;
        }
    }
    seconds
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::ways::scenes::{self, NO_ARGS, stands};
    use crate::rules::net::scenes::{inet, wait, with_state};
    use crate::rules::scenes::*;

    #[test]
    fn what_comes_is_what_stands_last_after_however_many_answers() {
        let far =
            |ino: u64, port: u16| inet("tcp", ino, &format!("10.0.0.1:{port}"), "192.0.2.1:80", 1);
        let ends = |received_jiffies: u32| {
            let sent_jiffies = 1000;
            let turn = TcpTurn {
                sent_jiffies,
                received_jiffies,
                jiffy_ns: 4_000_000,
                ..TcpTurn::default()
            };
            let state = SocketState {
                turn: Some(turn),
                acked_bytes: 80,
                received_bytes: 900,
                ..SocketState::default()
            };
            let (syscall, object) = ("recvfrom".into(), Some(far(100, 40_000)));
            let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
            let blocked = Blocked {
                thread: thread(10, "client"),
                since_ns: LOOK_NS / 2,
                place,
                ..Blocked::default()
            };
            let facts = vec![
                of_process(10, "client"),
                Fact { at_ns: LOOK_NS, ..with_state(10, "client", far(100, 40_000), state) },
                wait(10, "client", "recvfrom", far(101, 40_001), 0, 20),
                Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) },
            ];
            let ends = explain([host(), facts].concat()).answer.ends;
            ends.into_iter().map(|it| (it.seconds, it.unasked)).collect::<Vec<_>>()
        };
        assert_eq!(ends(500), [(2.5, true), (2.0, false)]);
        assert_eq!(ends(1500), [(2.5, false), (2.0, false)], "it has asked");
    }

    /// What is said of process 10, which waits in this call of its C library until its thread or process 11 wakes it; that sleeps.
    fn asked(waker_pid: u32, syscall: &str, function: &str) -> String {
        asked_while(waker_pid, syscall, function, "clock_nanosleep")
    }

    /// The same while the waker is in this call.
    fn asked_while(waker_pid: u32, syscall: &str, function: &str, does: &str) -> String {
        let place = Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
        let by = ThreadRef { tid: 11, ..thread(waker_pid, "keeper") };
        let (begin_ns, end_ns) = (0, LOOK_NS - 1_000_000);
        let wake = Some(Wake {
            at_ns: end_ns,
            context: WakeContext::Task,
            by: by.clone(),
            ..Wake::default()
        });
        let mut facts = [host(), vec![of_process(10, "app")]].concat();
        let frame = UserFrame { function: function.into(), ..UserFrame::default() };
        let stack =
            UserStack { thread: thread(10, "app"), frames: vec![frame], ..UserStack::default() };
        facts.push(Fact { at_ns: LOOK_NS / 2, body: Body::UserStack(stack) });
        let waits =
            Wait { thread: thread(10, "app"), begin_ns, end_ns, place, wake, ..Wait::default() };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(waits) });
        if let Fact { at_ns, body: Body::Wait(sleep) } = slept(0, "", begin_ns, end_ns - 1_000_000)
        {
            let place = Place { syscall: does.into(), ..sleep.place.clone() };
            facts.push(Fact { at_ns, body: Body::Wait(Wait { thread: by, place, ..sleep }) });
        }
        explain(facts).answer.title
    }

    /// Whether process 10 of a server loses time: it reads from process 20, which sleeps, and the server says that it waits for this.
    fn loses_while(event: SessionEvent) -> bool {
        let unix = |ino, peer_ino| ObjectRef::Unix { ino, peer_ino, path: None };
        let end = |pid, ino, peer_ino| descriptor(pid, 3, "postgres", unix(ino, peer_ino));
        let read = SessionWait { pid: 10, event: Some(event), ..SessionWait::default() };
        let facts = vec![
            of_process(10, "postgres"),
            end(10, 100, 200),
            end(20, 200, 100),
            stands(
                thread(10, "postgres"),
                scenes::place("recvfrom", NO_ARGS, Some(unix(100, 200))),
            ),
            stands(thread(20, "postgres"), scenes::place("clock_nanosleep", NO_ARGS, None)),
            Fact { at_ns: LOOK_NS / 2, body: Body::SessionWait(read) },
        ];
        let ends = explain([host(), facts].concat()).answer.ends;
        ends.iter().any(|end| end.seconds > 1.0)
    }

    #[test]
    fn a_process_of_a_servers_own_that_waits_for_its_next_work_is_owed_nothing() {
        assert!(!loses_while(SessionEvent::Work));
        assert!(loses_while(SessionEvent::RowLock));
    }

    const WORK: &str = "waits for work";

    #[test]
    fn who_waits_for_the_end_of_a_thread_does_not_wait_for_work() {
        let said = asked(10, "futex", "pthread_join");
        assert!(said.contains("sleeps on purpose"), "{said}");
        let condition = asked(10, "futex", "pthread_cond_wait");
        assert!(condition.contains(WORK), "a pool waits for work by a condition: {condition}");
    }

    #[test]
    fn a_semaphore_of_several_processes_is_no_work_and_one_within_a_process_may_be() {
        for (syscall, function) in [("futex", "sem_wait"), ("semop", "semop")] {
            let said = asked(11, syscall, function);
            assert!(said.contains("keeper"), "{syscall}: {said}");
        }
        assert!(asked(10, "futex", "sem_wait").contains(WORK));
        let handed = asked_while(11, "semop", "semop", "epoll_wait");
        assert!(handed.contains(WORK), "who hands on the turn to accept rests: {handed}");
    }

    #[test]
    fn who_waits_for_room_for_a_message_waits_for_its_reader() {
        let said = asked(11, "mq_timedsend", "mq_send");
        assert!(said.contains("keeper"), "{said}");
        let consumes = asked(11, "mq_timedreceive", "mq_receive");
        assert!(consumes.contains(WORK), "{consumes}");
    }
}
