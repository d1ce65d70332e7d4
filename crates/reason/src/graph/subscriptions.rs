//! Waits for work at a server: whoever asks it for the next message, job or change is owed nothing.
//!
//! The question is answered when there is something, or when an agreed time is over: a queue, a notification, a long poll. One such
//! wait looks like one for a slow answer. What tells them apart is that the same connection waits so again and again, and that
//! the server, an event loop, rests all the while: it neither works, nor sleeps in a call, nor waits for others that it asked.
//!
//! A stream of news, or of the parts of one answer, is no row of late answers either: whoever gets it has asked once, if at all. How often he
//! spoke on the connection the kernel counts (segments of his that were delivered), and each word of his may have one of his waits to
//! answer for it, the longest first; what is left are waits for whatever comes next.
//!
//! Where the server has had the last word and the wait still stands, nobody asked for what comes next: a loop that rests owes nothing there.
//!
//! The server's side is the same: an event loop that owes answers, and that was up again and again meanwhile and found nothing to
//! do about them, keeps them on purpose.
//!
//! Must not: take a wait that is led to a thing that is held (a lock, a disk), or one that has not ended. That a thread which waits for events was woken by
//! one that serves another client is no such thing: so are those who listen to each other's changes. Rejected: names of
//! programs and commands, and whether a client works between two waits (who has no work to do asks at once).

use super::chains::{ChainLink, Leaf};
use super::index::Index;
use super::question::is_for_what_comes;
use super::unasked::Unasked;
use super::wakers::is_by_clock;
use super::ways::owed::only_child;
use crate::facts::{Endpoint, Ns, ObjectRef, Target, TargetKind};
use crate::model::Model;
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeMap, HashMap};

/// Fewer waits may be those of a client that asks a slow server now and then.
static WAITS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "waits that have ended on one connection, or rests of one loop: fewer may be those of a client that asks a slow server now and then",
    "chosen",
);
/// Part of the time on a connection in which the server rests.
static REST_MIN: Threshold = Threshold::new(
    0.8,
    "1",
    "part of the time on a connection in which the server rests: one that works for its answers rests for less",
    "chosen",
);

/// Waits for answers, by who waits on which connection.
pub(super) struct Subscriptions {
    /// Waits that have ended, at least.
    ended_min: usize,
    by_connection: BTreeMap<(u32, Object), Asked>,
    /// Of a process that was asked about.
    unasked: Option<Unasked>,
    /// Waits until a time of somebody's own.
    own_times: Vec<(Leaf, bool)>,
}

/// Whether an event loop was up several times while it owed something, as far as these pieces of that time tell: none of its rests
/// is most of it. So was a thread that others of its process hand its work.
pub(super) fn rests(leaves: &[Leaf]) -> bool {
    let all_ns: Ns = leaves.iter().map(Leaf::ns).sum();
    let mut rests: BTreeMap<Ns, Ns> = BTreeMap::new();
    for leaf in leaves.iter().filter(|leaf| is_rest(leaf)) {
        *rests.entry(leaf.links[0].since_ns).or_default() += leaf.ns();
    }
    rests.len() >= WAITS_MIN.count() && rests.values().all(|ns| ns * 2 < all_ns)
}

/// Whether a thread rests, or waits for others of its process the last of which does.
pub(super) fn is_rest(leaf: &Leaf) -> bool {
    let own = leaf.links[0].who.pid;
    let is_within = leaf.links.iter().all(|link| link.who.pid == own);
    leaf.is_rest() || is_within && leaf.root().class == WaitClass::Idle && leaf.named().is_none()
}

/// Whether a chain leads from a master, whose one child is a worker of the same program that takes connections with it, to nobody who works or to a thing that
/// is held: a server at rest, of whose clients each has a life of its own. Of any other program such a child is what its parent waits for.
pub(super) fn is_of_master_at_rest(index: &Index<'_>, leaf: &Leaf) -> bool {
    let [master, worker, ..] = &leaf.links[..] else { return false };
    let (pid, child) = (master.who.pid, worker.who.pid);
    let name = |pid: u32| index.model.threads.process_name(pid);
    let takes = |pid: u32| index.connections.listening(pid).next().is_some();
    let is_child = pid != child && master.because == Some(only_child::BECAUSE);
    let works = |link: &ChainLink| link.who.pid == child && link.class == WaitClass::Running;
    is_child
        && name(pid) == name(child)
        && (takes(pid) || takes(child))
        && (worker.is_brought || leaf.named().is_none() && !works(leaf.root()))
}

#[derive(Default)]
struct Asked {
    ended: usize,
    last_begin_ns: Option<Ns>,
    all_ns: Ns,
    for_work_ns: Ns,
    /// Lengths of the waits that somebody's data ended.
    parts_ns: Vec<Ns>,
    leaves: Vec<(Leaf, bool)>,
}

impl Asked {
    fn is_for_work(&self, ended_min: usize) -> bool {
        self.ended >= ended_min && self.for_work_ns as f64 >= REST_MIN.value * self.all_ns as f64
    }

    /// Whether most of it was for parts that nobody asked for one by one, by how often he spoke who waits.
    fn is_for_news(&mut self, spoken: Option<u32>) -> bool {
        let Some(spoken) = spoken.filter(|_| self.parts_ns.len() >= WAITS_MIN.count()) else {
            return false;
        };
        self.parts_ns.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
        let news_ns: Ns = self.parts_ns.iter().skip(spoken as usize).sum();
        news_ns as f64 >= REST_MIN.value * self.all_ns as f64
    }
}

impl Subscriptions {
    /// Of a look. On a host a debt is nobody's loss by itself, so that the server rests is enough there.
    pub(super) fn new(index: &Index<'_>, target: Option<&Target>) -> Self {
        let ended_min = if target.is_some() { WAITS_MIN.count() } else { 0 };
        let is_process = target.is_some_and(|it| it.kind == TargetKind::Process);
        let unasked = is_process.then(|| Unasked::of(index));
        Self { ended_min, by_connection: BTreeMap::new(), unasked, own_times: Vec::new() }
    }

    /// Whether a wait is for what comes on a connection, or through a pipe from who may wait on one.
    pub(super) fn concern(wait: &WaitSpan) -> bool {
        let reads_on = matches!(wait.object, Object::Inet(_) | Object::Unix(_) | Object::Pipe(_));
        reads_on && wait.class.is_for_somebody()
    }

    /// Adds a leaf of such a wait, and whether it counts.
    pub(super) fn take(&mut self, index: &Index<'_>, wait: &WaitSpan, leaf: Leaf, counted: bool) {
        if let Some(own) = self.unasked.as_ref().and_then(|it| it.own_time(&leaf)) {
            self.own_times.push((own, counted));
            return;
        }
        let rests = || leaf.links.len() > 1 && leaf.root().class == WaitClass::Idle;
        // On a host the pace of another client is nobody's late answer, however much of the rest the server works.
        let is_anothers = self.ended_min == 0 && leaf.is_for_anothers_word();
        if is_anothers || is_for_what_comes(index, wait) && rests() && !is_held(&leaf) {
            return;
        }
        let key = (wait.thread.pid, wait.object.clone());
        let asked = self.by_connection.entry(key).or_default();
        if asked.last_begin_ns.replace(wait.begin_ns) != Some(wait.begin_ns) {
            // Who looks at the clock meanwhile has got nothing, and goes on waiting for the same.
            if !wait.standing && !is_by_clock(wait) {
                asked.ended += 1;
                asked.parts_ns.push(wait.end_ns.saturating_sub(wait.begin_ns));
            }
        }
        asked.all_ns += leaf.ns();
        asked.for_work_ns += if leaf.is_for_work() { leaf.ns() } else { 0 };
        asked.leaves.push((leaf, counted));
    }

    /// The leaves of those that are for no work and no news; and of news what does not lead to somebody who rests.
    pub(super) fn owed(self, model: &Model) -> impl Iterator<Item = (Leaf, bool)> {
        let ended_min = self.ended_min;
        let spoken = spoken(model);
        let owed = self.by_connection.into_iter().filter_map(move |((pid, object), mut asked)| {
            if asked.is_for_work(ended_min) {
                return None;
            }
            let spoken = match object {
                Object::Inet(ino) => spoken.get(&(pid, ino)).copied(),
                _ => None,
            };
            if asked.is_for_news(spoken) {
                // Who computes the next part, or is not of this host, may be slow all the same.
                let rests =
                    |leaf: &Leaf| matches!(leaf.root().class, WaitClass::Idle | WaitClass::Timer);
                asked.leaves.retain(|(leaf, _)| is_held(leaf) || !rests(leaf));
            }
            Some(asked.leaves)
        });
        owed.flatten().chain(self.own_times)
    }
}

/// Whether a chain leads to a thing that is held, and not only to a loop that another one woke.
fn is_held(leaf: &Leaf) -> bool {
    leaf.named().is_some_and(|at| leaf.links[at].class != WaitClass::Idle)
}

/// How many segments of a process's were delivered on each of its connections within the look, by both of their sights; of one that was not
/// seen before, since it was made. Who made a connection has one delivered at least, where they are counted.
fn spoken(model: &Model) -> HashMap<(u32, u64), u32> {
    let delivered = |end: &Endpoint| {
        let ObjectRef::Inet(socket) = &end.object else { return None };
        let state = end.socket.as_ref().filter(|it| it.turn.is_some() && it.delivered > 0)?;
        Some(((end.process.pid, socket.ino), state.delivered))
    };
    let before = model.held.endpoints_before.iter().rev();
    let first: HashMap<_, _> = before.filter_map(|(_, end)| delivered(end)).collect();
    let last = model.held.endpoints.iter().filter_map(delivered);
    let grown = last
        .map(|(key, now)| (key, now.saturating_sub(first.get(&key).copied().unwrap_or_default())));
    grown.collect()
}

#[cfg(test)]
mod tests {
    use crate::answer::{Verdict, explain};
    use crate::facts::*;
    use crate::graph::chains::{ChainLink, Leaf};
    use crate::model::object::Object;
    use crate::rules::net::scenes::{inet, look_at, wait, with_state};
    use crate::rules::scenes::{LOOK_NS, at_place, host, slept};
    use crate::waits::WaitClass;
    use std::sync::Arc;

    /// Process 10 gets a part every tenth of the look from 20, which sleeps in between, and has spoken so often meanwhile; whether it is counted.
    fn parts(spoken: u32, is_counted: bool) -> Vec<String> {
        let near = || inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = || inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let sight = |at_ns: Ns, delivered: u32| {
            let delivered = if is_counted { delivered } else { 0 };
            let turn = TcpTurn { sent_jiffies: 90, jiffy_ns: 1_000_000, ..TcpTurn::default() };
            let (turn, acked_bytes) = (Some(turn), 80);
            let state = SocketState {
                delivered,
                turn,
                acked_bytes,
                received_bytes: 900,
                ..SocketState::default()
            };
            Fact { at_ns, ..with_state(10, "client", near(), state) }
        };
        let listens = inet("tcp", 300, "127.0.0.1:80", "0.0.0.0:0", 10);
        let mut facts = vec![
            look_at(TargetKind::Process, 10),
            sight(1, 2),
            sight(LOOK_NS, 2 + spoken),
            with_state(20, "server", listens, SocketState::default()),
            with_state(20, "server", far(), SocketState::default()),
        ];
        let tenth = LOOK_NS / 10;
        let tenths = LOOK_NS / 100_000_000;
        for at in 0..10 {
            let (from, to) = (at * tenths / 10, (at + 1) * tenths / 10);
            let mut part = wait(10, "client", "recvfrom", near(), from, to);
            if let Body::Wait(part) = &mut part.body {
                let by = crate::rules::scenes::thread(20, "server");
                let at_ns = part.end_ns;
                part.wake = Some(Wake { at_ns, context: WakeContext::Task, by, ..Wake::default() });
            }
            facts.push(part);
            facts.push(slept(20, "server", at * tenth, (at + 1) * tenth));
        }
        let found = explain([host(), facts].concat()).findings;
        found.into_iter().map(|it| it.code).collect()
    }

    #[test]
    fn parts_that_nobody_asked_for_one_by_one_are_no_late_answers() {
        assert!(parts(0, true).is_empty());
        assert!(parts(1, true).is_empty(), "one word of its own is no row of questions");
        assert_eq!(parts(10, true), ["process.socket_peer"], "each was asked for");
        assert_eq!(parts(0, false), ["process.socket_peer"], "nobody counted its words");
    }

    /// What is said of process 10, or of its server 20, an event loop with a clock of its own, as 10 waits on their connection all the time,
    /// and since so many jiffies nothing was sent there, or nothing came.
    fn of_loop(asked: u32, sent_jiffies: u32, received_jiffies: u32) -> Verdict {
        let near = || inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = || inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let talked = |sent_jiffies, received_jiffies| {
            let turn = TcpTurn {
                sent_jiffies,
                received_jiffies,
                jiffy_ns: 4_000_000,
                ..TcpTurn::default()
            };
            let (turn, acked_bytes) = (Some(turn), 80);
            SocketState { turn, acked_bytes, received_bytes: 900, ..SocketState::default() }
        };
        let (own, its) =
            (talked(sent_jiffies, received_jiffies), talked(received_jiffies, sent_jiffies));
        let place = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(near()),
            ..Place::default()
        };
        let at_end = |fact: Fact| Fact { at_ns: LOOK_NS, ..fact };
        let mut facts = vec![
            look_at(TargetKind::Process, asked),
            with_state(
                20,
                "broker",
                inet("tcp", 201, "0.0.0.0:80", "0.0.0.0:0", 10),
                SocketState::default(),
            ),
            at_end(with_state(10, "client", near(), own)),
            at_end(with_state(20, "broker", far(), its)),
            at_place(10, "client", place),
        ];
        let tenth = LOOK_NS / 10;
        for at in 0..10 {
            let mut tick = slept(20, "broker", at * tenth, (at + 1) * tenth - 1_000);
            if let Body::Wait(wait) = &mut tick.body {
                wait.place.syscall = "epoll_wait".into();
            }
            facts.push(tick);
        }
        explain([host(), facts].concat()).answer.verdict
    }

    #[test]
    fn who_waits_on_after_his_server_s_last_word_is_owed_nothing() {
        assert_eq!(of_loop(10, 5_000, 4_000), Verdict::Idle, "a subscriber");
        assert_eq!(of_loop(20, 5_000, 4_000), Verdict::Idle, "its broker");
        assert_eq!(of_loop(10, 4_000, 5_000), Verdict::Waits, "it has asked");
    }

    /// What is said of process 10, which polls its connection to the loop 20 again and again; each wait is ended by the clock, or by something that came.
    fn polls(by_clock: bool) -> Verdict {
        let near = || inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = || inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let listens = inet("tcp", 201, "0.0.0.0:80", "0.0.0.0:0", 10);
        let talked = |sent_jiffies, received_jiffies| {
            let jiffy_ns = 4_000_000;
            let turn = TcpTurn { sent_jiffies, received_jiffies, jiffy_ns, ..TcpTurn::default() };
            let (turn, acked_bytes) = (Some(turn), 80);
            SocketState { turn, acked_bytes, received_bytes: 900, ..SocketState::default() }
        };
        let at_end = |fact: Fact| Fact { at_ns: LOOK_NS, ..fact };
        let mut facts = vec![
            look_at(TargetKind::Process, 10),
            with_state(20, "web", listens, SocketState::default()),
            at_end(with_state(10, "curl", near(), talked(4_000, 5_000))),
            at_end(with_state(20, "web", far(), talked(5_000, 4_000))),
        ];
        let tenths = LOOK_NS / 100_000_000;
        for at in 0..10 {
            let (from, to) = (at * tenths / 10, (at + 1) * tenths / 10);
            let mut poll = wait(10, "curl", "poll", near(), from, to);
            if let Body::Wait(poll) = &mut poll.body {
                poll.place.args = [1, 1, 500, 0, 0, 0];
                let (context, by) = match by_clock {
                    true => (WakeContext::HardInterrupt, ThreadRef::default()),
                    false => (WakeContext::SoftInterrupt, crate::rules::scenes::thread(20, "web")),
                };
                poll.wake = Some(Wake { at_ns: poll.end_ns, context, by, ..Wake::default() });
            }
            facts.push(poll);
        }
        let rests =
            Place { state: WaitState::Sleep, syscall: "epoll_wait".into(), ..Place::default() };
        facts.push(at_place(20, "web", rests));
        explain([host(), facts].concat()).answer.verdict
    }

    #[test]
    fn who_looks_at_the_clock_meanwhile_has_got_nothing() {
        assert_eq!(polls(true), Verdict::Waits, "one answer that is late");
        assert_eq!(polls(false), Verdict::Idle, "one message after another");
    }

    /// What is said of master 10, which waits for signals and has one child that listens: a loop of this name, or one that computes.
    fn of_master(child: &str, works: bool) -> Verdict {
        let who = |pid: u32, comm: &str| crate::rules::scenes::thread(pid, comm);
        let begun = Thread { thread: who(20, child), parent_pid: 10, ..Thread::default() };
        let rest = |syscall: &str| Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            args: [3, 0, 64, u64::MAX, 0, 0],
            ..Place::default()
        };
        let (begin_ns, end_ns) = (0, LOOK_NS);
        let ran = Ran { thread: who(20, child), begin_ns, end_ns, cpu: 0 };
        let does = match works {
            true => Fact { at_ns: LOOK_NS, body: Body::Ran(ran) },
            false => at_place(20, child, rest("epoll_wait")),
        };
        let facts = vec![
            crate::rules::scenes::of_process(10, "web"),
            crate::rules::scenes::identity(begun),
            crate::rules::scenes::endpoint(
                20,
                child,
                inet("tcp", 300, "0.0.0.0:80", "0.0.0.0:0", 10),
            ),
            at_place(10, "web", rest("rt_sigsuspend")),
            does,
        ];
        explain([host(), facts].concat()).answer.verdict
    }

    #[test]
    fn a_master_whose_worker_rests_waits_for_nobody_and_a_wrapper_for_its_child() {
        assert_eq!(of_master("web", false), Verdict::Idle);
        assert_eq!(of_master("app", false), Verdict::Waits, "a wrapper");
        assert_ne!(of_master("web", true), Verdict::Idle, "its worker computes");
    }

    /// Whether thread 11 of process 10 rests that waits so many times, for tenths of the look altogether, for a thread of this process that does this.
    fn rests_with(times: u64, pid: u32, does: WaitClass) -> bool {
        let leaf = |at: u64| {
            let (begin_ns, end_ns) = (at * LOOK_NS / 10, (at + 1) * LOOK_NS / 10);
            let first_ns = at * times / 10 * LOOK_NS / times;
            let link = |pid: u32, tid: u32, class, since_ns| {
                let who = ThreadRef { tid, ..crate::rules::scenes::thread(pid, "app") };
                let of = ChainLink::of(who, class, Object::Process(pid), (begin_ns, end_ns));
                Arc::new(ChainLink { since_ns, ..of })
            };
            let own = link(10, 11, WaitClass::FutexWait, first_ns);
            Leaf {
                begin_ns,
                end_ns,
                links: vec![own, link(pid, pid, does, begin_ns)],
                circle: None,
            }
        };
        super::rests(&(0..10).map(leaf).collect::<Vec<_>>())
    }

    #[test]
    fn a_thread_that_a_loop_hands_its_work_again_and_again_rests_as_that_does() {
        assert!(rests_with(5, 10, WaitClass::Idle));
        assert!(!rests_with(1, 10, WaitClass::Idle), "it may be at the answer");
        assert!(!rests_with(5, 20, WaitClass::Idle), "it waits for another process");
        assert!(!rests_with(5, 10, WaitClass::Running), "that one works for it");
    }
}
