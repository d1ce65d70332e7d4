//! Chains: from a victim's wait to the root, across threads and processes, every nanosecond once.
//!
//! `follow` cuts an interval of one thread's life into leaves. Running and waits that name a cause by
//! themselves are leaves. For a wait that somebody can end, the same interval of that somebody's life is
//! cut instead: while X waited for Y, X's time is what Y did. So the leaves of an interval are disjoint and
//! add up to it, which is what makes a critical path add up to the wall time (the same recursion as
//! Perfetto's critical path and wPerf's cascaded redistribution, seen top down).
//!
//! A circle of waiters ends at the link that closes it. Must not: choose who is next (ways/), or
//! add up (ends.rs).

use super::conversation::{answered_ns, asked_later_ns, asked_ns};
use super::debts::asks_a_name_server;
use super::ending::{self, Ending};
use super::handed_out;
use super::index::Index;
use super::leaf::is_loop;
pub use super::leaf::{ChainLink, Leaf};
use super::next::{Asker, Next, Until};
use super::question::{is_for_a_question, is_for_what_comes, may_be_awaited, question_of};
use super::relayed::{self, Relayed};
use super::serving::serving_since;
use super::wakers;
use super::ways;
use super::ways::held::child::waits_for_any_child;
use super::ways::held::holder;
use super::ways::held::name_server::answers_at;
use super::ways::held::process_end;
use super::ways::owed::typed_session;
use super::ways::way::{Waiter, Way};
use crate::facts::{Exit, Fork, Ns, ThreadRef};
use crate::model::object::Object;
use crate::model::{Model, ThreadKey};
use crate::programs::go;
use crate::waits::goroutines::{self, Stands};
use crate::waits::timeline::{Doing, Timelines, WaitSpan};
use crate::waits::{WaitClass, unit_job};
use std::collections::HashMap;
use std::sync::Arc;

/// Deeper chains than this are cut; real ones have fewer than ten links.
const DEPTH_MAX: usize = 24;
/// Leaves of one interval; a longer critical path is cut there and reported as unseen.
const LEAVES_MAX: usize = 2_000_000;

/// Follows waits through a scene.
pub struct Chains<'a> {
    model: &'a Model,
    timelines: &'a Timelines,
    /// Who is at the other end of what.
    pub(super) index: Index<'a>,
    /// Who began inside the look: when, and by whom.
    births: HashMap<ThreadKey, (Ns, &'a Fork)>,
    /// Who ended inside the look: when.
    deaths: HashMap<ThreadKey, Ns>,
    /// Who was asked to end, and went on.
    endings: Vec<Ending>,
}

impl<'a> Chains<'a> {
    /// For a scene.
    pub fn new(model: &'a Model, timelines: &'a Timelines) -> Self {
        let birth = |(at_ns, fork): &'a (Ns, Fork)| {
            (model.threads.key_at(&fork.child, *at_ns), (*at_ns, fork))
        };
        let births = model.threads.forks.iter().map(birth).collect();
        let death = |(at_ns, exit): &(Ns, Exit)| {
            let who = model.threads.key_at(&exit.thread, *at_ns);
            (who, timelines.seen_until(who).max(*at_ns))
        };
        let deaths = model.threads.exits.iter().map(death).collect();
        let index = Index::new(model, timelines);
        let endings = ending::all(&index);
        Self { model, timelines, index, births, deaths, endings }
    }

    /// Whether a wait that may be for any event is that of who asked a process to end, and ended as that did.
    pub(super) fn is_for_an_end(&self, wait: &WaitSpan) -> bool {
        ending::is_of_sender(&self.index, &self.endings, wait)
    }

    /// Who has what a loop polls of pipes open for writing, and was left behind by what has ended.
    pub fn left_behind(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        typed_session::left_behind(&self.index, wait)
    }

    /// Cuts an interval of a thread's life into leaves that add up to it; somebody is owed what it does in it.
    pub fn follow(&self, thread: &ThreadRef, from: Ns, to: Ns) -> Vec<Leaf> {
        let mut walk =
            Walk { links: Vec::new(), asked: Vec::new(), leaves: Vec::new(), owed: true };
        self.cut(thread, from, to, &mut walk);
        self.lead_to_endings(walk.leaves)
    }

    /// Whether a chain leads to a process that was asked to end, after it was asked.
    pub(super) fn leads_to_an_end(&self, leaf: &Leaf) -> bool {
        self.endings.iter().any(|ending| ending.is_reached(leaf))
    }

    /// Leads leaves that wait for the end of who was asked to end to that process.
    fn lead_to_endings(&self, leaves: Vec<Leaf>) -> Vec<Leaf> {
        let follow = |links: &[Arc<ChainLink>], who: &ThreadRef, (from, to): (Ns, Ns)| {
            let (links, leaves) = (links.to_vec(), Vec::new());
            let mut walk = Walk { links, asked: Vec::new(), leaves, owed: true };
            self.cut(who, from, to, &mut walk);
            walk.leaves
        };
        ending::lead(&self.index, &self.endings, leaves, &follow)
    }

    /// When which thread was asked and had not answered: by whoever waited for it, and by the clocks of connections.
    pub fn owed_times(&self) -> Vec<(ThreadRef, Ns, Ns)> {
        let model = self.model;
        let mut times = Vec::new();
        let reads = |wait: &&WaitSpan| {
            use WaitClass::{Dns, FuseDaemon, SocketRead, UnixRead};
            matches!(wait.class, SocketRead | UnixRead | Dns | FuseDaemon) && !wait.kernel
        };
        for wait in self.timelines.waits().filter(reads) {
            if is_for_a_question(&self.index, wait) || is_for_what_comes(&self.index, wait) {
                continue;
            }
            // Before it asked, nothing was owed.
            let asked_ns = asked_later_ns(&self.index, wait).unwrap_or(wait.begin_ns);
            let (from, to) =
                (asked_ns.max(model.look.begin_ns), wait.end_ns.min(model.look.end_ns));
            if let Some(thread) = holder(&self.index, wait).filter(|_| from < to) {
                times.push((thread, from, to));
            }
        }
        let debts = &self.index.debts;
        let owed = debts.owes.iter().chain(&debts.owed_before).map(|of| (of, true));
        for ((pid, of_one), is_owed) in owed.chain(debts.awaits.iter().map(|of| (of, false))) {
            for debt in of_one.iter().filter(|it| !is_owed || may_be_awaited(&self.index, it)) {
                let (from, to) = (debt.since_ns.max(model.look.begin_ns), debt.seen_ns);
                let thread = serving_since(&self.index, None, &[*pid], (debt.since_ns, to));
                if let Some(thread) = thread.filter(|_| from < to) {
                    times.push((thread, from, to));
                }
            }
        }
        times.extend(handed_out::times(&self.index));
        times
    }

    /// When a main thread of the target only waits for signals and its process has one child: a wrapper, of which the child is
    /// what was asked about; or waits until the manager of devices has nothing more to do.
    pub fn wrapper_times(&self) -> Vec<(ThreadRef, Ns, Ns)> {
        let model = self.model;
        let waits_for_signals = |wait: &&WaitSpan| {
            matches!(wait.place.syscall.as_str(), "rt_sigsuspend" | "pause" | "rt_sigtimedwait")
                && wait.thread.tid == wait.thread.pid
                && model.in_target(&wait.thread)
        };
        let settles =
            |wait: &&WaitSpan| model.in_target(&wait.thread) && unit_job::settles(model, wait);
        let all = self.timelines.waits();
        let times = all.filter(|wait| waits_for_signals(wait) || settles(wait));
        times
            .map(|wait| {
                (
                    wait.thread.clone(),
                    wait.begin_ns.max(model.look.begin_ns),
                    wait.end_ns.min(model.look.end_ns),
                )
            })
            .filter(|(_, from, to)| from < to)
            .collect()
    }

    /// Cuts one wait into leaves.
    pub fn follow_wait<'w>(&'w self, wait: &'w WaitSpan, at: (Ns, Ns), owed: bool) -> Vec<Leaf> {
        let mut walk = Walk { links: Vec::new(), asked: Vec::new(), leaves: Vec::new(), owed };
        let (from, to) = (wait.begin_ns.max(at.0), wait.end_ns.min(at.1));
        if from < to {
            self.cut_wait(wait, from, to, &mut walk);
        }
        self.lead_to_endings(walk.leaves)
    }

    /// Before somebody was there, whoever began it did what there was to do. From when on it was there itself.
    fn cut_before_birth<'w>(
        &'w self,
        thread: &ThreadRef,
        from: Ns,
        to: Ns,
        walk: &mut Walk<'w>,
    ) -> Ns {
        let birth = self.births.get(&self.model.threads.key(thread));
        match birth.filter(|(at_ns, _)| from < *at_ns) {
            Some((at_ns, fork))
                if !walk.links.is_empty()
                    && walk.links.len() < DEPTH_MAX
                    && !walk.meets(self.model, &fork.parent) =>
            {
                let until = to.min(*at_ns);
                self.cut(&fork.parent, from, until, walk);
                until
            }
            _ => from,
        }
    }

    fn cut<'w>(&'w self, thread: &ThreadRef, from: Ns, to: Ns, walk: &mut Walk<'w>) {
        let from = self.cut_before_birth(thread, from, to, walk);
        let asks = walk.links.last().zip(walk.asked.last());
        let passed_on = asks.filter(|_| walk.links.len() < DEPTH_MAX);
        let passed_on = passed_on.and_then(|(link, until)| {
            relayed::passed_on(&self.index, (link, *until), thread, (from, to))
        });
        // A reading of sockets may be older than the last segment that it saw.
        let is_within = |it: &Relayed| it.until_ns > from.max(it.asked_ns) && it.asked_ns < to;
        match passed_on.filter(is_within) {
            Some(relayed) => {
                let (asked_ns, end_ns) = (relayed.asked_ns.max(from), relayed.until_ns.min(to));
                // Who rested before has done nothing of its own.
                let rest_ns = relayed::rest_ns(&self.index, thread, (from, asked_ns));
                let begin_ns = if rest_ns == asked_ns - from { from } else { asked_ns };
                self.cut_pieces(thread, from, begin_ns, walk);
                let mut at_ns = begin_ns;
                let own = relayed::own_times(&self.index, thread, &relayed, (begin_ns, end_ns));
                for (own_ns, until_ns) in own {
                    self.cut_relayed(thread, (at_ns, own_ns), &relayed, walk);
                    self.cut_pieces(thread, own_ns, until_ns, walk);
                    at_ns = until_ns;
                }
                self.cut_relayed(thread, (at_ns, end_ns), &relayed, walk);
                self.cut_pieces(thread, end_ns, to, walk);
            }
            None => self.cut_pieces(thread, from, to, walk),
        }
    }

    /// While another owes what a thread was asked for, the time is that one's, whatever the thread does for others.
    fn cut_relayed<'w>(
        &'w self,
        thread: &ThreadRef,
        (begin_ns, end_ns): (Ns, Ns),
        relayed: &Relayed,
        walk: &mut Walk<'w>,
    ) {
        if begin_ns >= end_ns {
            return;
        }
        let next = relayed.by.as_ref().filter(|by| !walk.meets(self.model, by));
        let until = walk.asked.last().copied();
        let asker = walk.links.last().zip(until);
        let answered_ns = asker.and_then(|(link, until)| {
            answered_ns(&self.index, Asker { who: &link.who, until }, thread.pid)
        });
        let until = answered_ns.map(Until::At).or(until);
        let class = match &relayed.on {
            Object::Unix(_) => WaitClass::UnixRead,
            _ => WaitClass::SocketRead,
        };
        walk.links.push(Arc::new(ChainLink {
            since_ns: relayed.asked_ns,
            standing: relayed.standing,
            because: next.map(|_| relayed::BECAUSE),
            ..ChainLink::of(thread.clone(), class, relayed.on.clone(), (begin_ns, end_ns))
        }));
        walk.asked.extend(until);
        match next {
            Some(by) => self.cut(by, begin_ns, end_ns, walk),
            None => push(walk, begin_ns, end_ns, None),
        }
        walk.asked.truncate(walk.asked.len() - usize::from(until.is_some()));
        walk.links.pop();
    }

    /// What a thread did itself, piece by piece, and whoever it waited for.
    fn cut_pieces<'w>(&'w self, thread: &ThreadRef, from: Ns, to: Ns, walk: &mut Walk<'w>) {
        for piece in self.timelines.pieces(self.model.threads.key(thread), from, to) {
            match piece.doing {
                Doing::Waiting(wait) => {
                    self.cut_wait(wait, piece.begin_ns, piece.end_ns, walk);
                }
                Doing::Running | Doing::Unseen => {
                    let class = match piece.doing {
                        Doing::Running => WaitClass::Running,
                        _ => WaitClass::Unseen,
                    };
                    let (object, at) =
                        (Object::Process(thread.pid), (piece.begin_ns, piece.end_ns));
                    let link = ChainLink::of(thread.clone(), class, object, at);
                    walk.links.push(Arc::new(link));
                    push(walk, piece.begin_ns, piece.end_ns, None);
                    walk.links.pop();
                }
            }
        }
    }

    /// What the goroutine does for whose sake a thread of a Go program has nothing to run.
    fn goroutine(&self, wait: &WaitSpan, within: (Ns, Ns), walk: &Walk<'_>) -> Option<Next> {
        let pid = wait.thread.pid;
        let runs_nothing =
            matches!(wait.class, WaitClass::Idle | WaitClass::FutexWait | WaitClass::Timer);
        // Of the events that it waits for, one that came says whose goroutine went on then, and no more.
        let runs_nothing = runs_nothing || wait.place.syscall.starts_with("epoll_");
        if !runs_nothing || !goroutines::are_known(self.model, pid) {
            return None;
        }
        let asks = walk.links.iter().rev().find(|link| link.who.pid != pid);
        let asked_ns = asks.map(|asks| {
            let its = self.index.waits.at(&asks.who, asks.begin_ns);
            its.map_or(asks.since_ns, |it| asked_ns(&self.index, it))
        });
        goroutines::stands(self.model, pid, asked_ns, within).map(Next::Goroutine)
    }

    /// Whether a wait for events is that of Go's scheduler: its timeout is that of whichever goroutine has a timer next, and says
    /// nothing of the one that somebody waits for.
    fn polls_for_goroutines(&self, wait: &WaitSpan) -> bool {
        wait.place.syscall.starts_with("epoll_")
            && goroutines::are_known(self.model, wait.thread.pid)
    }

    /// What is waited for, as far as whoever is responsible says it; and who is followed.
    fn take_in(
        &self,
        next: Next,
        wait: &WaitSpan,
        follows: bool,
        link: &mut ChainLink,
    ) -> Option<ThreadRef> {
        match next {
            Next::Thread(thread) | Next::Later(thread, _) | Next::Brought(thread, _) => {
                Some(thread)
            }
            Next::Answer(ino, thread) => {
                link.is_for(WaitClass::SocketRead, Object::Inet(ino));
                Some(thread)
            }
            Next::Question(index) => {
                let query = &self.model.net.dns_queries[index].1;
                link.is_for(
                    WaitClass::Dns,
                    Object::DnsServer(Some(query.server), query.name.as_str().into()),
                );
                answers_at(&self.index, query.server, wait)
            }
            Next::NameServer(server) => {
                link.is_for(WaitClass::Dns, Object::DnsServer(Some(server), "".into()));
                answers_at(&self.index, server, wait)
            }
            Next::Goroutine(Stands::ForMutex(address)) => {
                link.is_for(WaitClass::FutexLock, Object::Mutex { pid: wait.thread.pid, address });
                None
            }
            Next::Goroutine(Stands::Asleep) => {
                link.is_for(WaitClass::Timer, Object::Timer(go::SLEEPS.into()));
                None
            }
            Next::Peer(ino) => {
                let asked = self.model.called.socket(ino).filter(|it| asks_a_name_server(it));
                if let Some(server) = asked.map(|socket| socket.remote) {
                    return self.take_in(Next::NameServer(server), wait, follows, link);
                }
                link.is_for(WaitClass::SocketRead, Object::Inet(ino));
                None
            }
            Next::Room(ino) => {
                link.is_for(WaitClass::SocketWrite, Object::Inet(ino));
                (link.by_clock, link.question_of) = (false, None);
                None
            }
            Next::Nobody if follows && waits_for_any_child(&self.index, wait) => {
                link.object = Object::AnyChild;
                None
            }
            Next::Inside => {
                link.is_for(WaitClass::FutexWait, Object::Inside(wait.thread.pid));
                link.by_clock = false;
                None
            }
            // A timeout of its own is a sleep, whatever it waits with.
            Next::OwnClock if wait.class == WaitClass::FutexWait => {
                link.is_for(WaitClass::Timer, Object::Timer("futex".into()));
                None
            }
            // Of whose end it waited has ended, and it sleeps on until it looks again.
            Next::Nobody if process_end::ended_ns(&self.index, wait).is_some() => {
                link.is_for(WaitClass::Timer, Object::Timer(wait.place.syscall.as_str().into()));
                None
            }
            Next::Nobody | Next::OwnClock => None,
        }
    }

    /// Who, or what, is next for a part of a wait, and the way there.
    fn next<'w>(
        &'w self,
        wait: &'w WaitSpan,
        within: (Ns, Ns),
        walk: &Walk<'w>,
    ) -> (Next, Option<&'static Way>) {
        let owed = walk.owed || !walk.links.is_empty();
        let may_run = owed && !wait.class.is_root();
        if let Some(next) = may_run.then(|| self.goroutine(wait, within, walk)).flatten() {
            return (next, None);
        }
        let asker = walk.links.last().zip(walk.asked.last());
        let asker = asker.map(|(link, until)| Asker { who: &link.who, until: *until });
        ways::responsible(&Waiter { index: &self.index, wait, within, asker }, owed)
    }

    fn cut_wait<'w>(&'w self, wait: &'w WaitSpan, from: Ns, to: Ns, walk: &mut Walk<'w>) {
        let ended_ns = process_end::ended_ns(&self.index, wait);
        if let Some(at_ns) = ended_ns.filter(|ns| (from + 1..to).contains(ns)) {
            self.cut_wait(wait, from, at_ns, walk);
            return self.cut_wait(wait, at_ns, to, walk);
        }
        let follows = is_followed(wait.class) && walk.links.len() < DEPTH_MAX;
        let asker = walk.links.last().map(|link| link.who.pid);
        let (next, way) = match follows {
            true => self.next(wait, (from, to), walk),
            false => (Next::Nobody, None),
        };
        let of_runtime = self.polls_for_goroutines(wait);
        let next = if of_runtime && next == Next::OwnClock { Next::Nobody } else { next };
        let mut link = ChainLink {
            who: wait.thread.clone(),
            class: wait.class,
            object: wait.object.clone(),
            begin_ns: from,
            end_ns: to,
            since_ns: wait.begin_ns,
            standing: wait.standing,
            by_clock: wakers::is_by_clock(wait) && !of_runtime || next == Next::OwnClock,
            own_clock: next == Next::OwnClock,
            question_of: match next {
                // Questions only interrupt what it waits for: an answer of its own, or a time.
                Next::OwnClock
                | Next::Later(..)
                | Next::Brought(..)
                | Next::Answer(..)
                | Next::Peer(_) => None,
                _ => question_of(&self.index, wait, asker),
            },
            is_loop: is_loop(&wait.place),
            is_brought: matches!(next, Next::Brought(..)),
            because: None,
        };
        let until = match next {
            Next::Later(_, at_ns) | Next::Brought(_, at_ns) => Until::At(at_ns),
            _ => Until::Wait(wait),
        };
        let next = self.take_in(next, wait, follows, &mut link);
        link.because = way.filter(|_| next.is_some()).map(|way| way.because);
        let meets = |next: &ThreadRef| {
            self.model.threads.is_same(next, &wait.thread) || walk.meets(self.model, next)
        };
        let circle = next.as_ref().is_some_and(meets);
        // Two that wait for each other's next word hold each other up only where a thing is held.
        let circle_counts = circle && !matches!(wait.class, WaitClass::Idle | WaitClass::Timer);
        let closing = next.clone().filter(|_| circle_counts);
        walk.links.push(Arc::new(link));
        walk.asked.push(until);
        match next {
            Some(next) if !circle && walk.leaves.len() < LEAVES_MAX => {
                // Who has ended holds nothing up any more: the rest is the wait's own, as of one that looks from time to time.
                let death_ns = self.deaths.get(&self.model.threads.key(&next)).copied();
                let until = death_ns.map_or(to, |at_ns| at_ns.clamp(from, to));
                if from < until {
                    self.cut(&next, from, until, walk);
                }
                if until < to {
                    push(walk, until, to, None);
                }
            }
            _ => push(walk, from, to, closing),
        }
        walk.asked.pop();
        walk.links.pop();
    }
}

/// A walk along chains: the links so far, and the leaves that were found.
struct Walk<'w> {
    links: Vec<Arc<ChainLink>>,
    /// Of each link that is a wait, until when it lasts.
    asked: Vec<Until<'w>>,
    leaves: Vec<Leaf>,
    /// Somebody is owed what the first thread does.
    owed: bool,
}

impl Walk<'_> {
    /// Whether a thread is in the chain.
    fn meets(&self, model: &Model, thread: &ThreadRef) -> bool {
        self.links.iter().any(|link| model.threads.is_same(&link.who, thread))
    }
}

fn push(walk: &mut Walk<'_>, begin_ns: Ns, end_ns: Ns, circle: Option<ThreadRef>) {
    walk.leaves.push(Leaf { begin_ns, end_ns, links: walk.links.clone(), circle });
}

/// Of a connection that is being made only a tunnel's program may be next (held/tun_program.rs), of a disk who serves its file (loop_server.rs), of a
/// tracee a tracer that is held up itself (tracer.rs).
fn is_followed(class: WaitClass) -> bool {
    use WaitClass::{Disk, SocketConnect, Traced};
    !class.is_root() || matches!(class, SocketConnect | Disk | Traced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    const SECOND: Ns = 1_000_000_000;

    fn at(at_ns: Ns, body: Body) -> Fact {
        Fact { at_ns, body }
    }

    fn ran(pid: u32, begin_ns: Ns, end_ns: Ns) -> Fact {
        at(end_ns, Body::Ran(Ran { thread: thread(pid, "job"), begin_ns, end_ns, cpu: 0 }))
    }

    /// Process 10 reads a pipe from 1 to 4 s, until 20 wakes it, which 15 began at 2 s and which is told to end at 3 s.
    fn reader(more: Vec<Fact>) -> Vec<(u32, WaitClass, Ns)> {
        let place = Place {
            state: WaitState::Sleep,
            syscall: "read".into(),
            object: Some(ObjectRef::Pipe { ino: 7 }),
            ..Place::default()
        };
        let by = thread(20, "job");
        let wake = Wake { at_ns: 4 * SECOND, context: WakeContext::Task, by, ..Wake::default() };
        let wait = Wait {
            thread: thread(10, "sh"),
            begin_ns: SECOND,
            end_ns: 4 * SECOND,
            place,
            wake: Some(wake),
            ..Wait::default()
        };
        let (parent, child) = (thread(15, "job"), thread(20, "job"));
        let mut facts = host();
        facts.push(at(2 * SECOND, Body::Fork(Fork { parent, child, flags: 0 })));
        facts.push(at(4 * SECOND, Body::Wait(wait)));
        facts.push(at(
            3 * SECOND,
            Body::Exit(Exit { thread: thread(20, "job"), last: true, code: None }),
        ));
        facts.extend(more);
        let Observed { model, timelines } = Observed::new(facts);
        let chains = Chains::new(&model, &timelines);
        let leaves = chains.follow(&thread(10, "sh"), SECOND, 4 * SECOND);
        leaves.iter().map(|leaf| (leaf.root().who.tid, leaf.root().class, leaf.ns())).collect()
    }

    #[test]
    fn before_its_birth_and_after_its_exit_is_reported_somebody_acts_all_the_same() {
        let leaves = reader(vec![ran(15, SECOND, 2 * SECOND), ran(20, 2 * SECOND, 3 * SECOND)]);
        let running = |pid| (pid, WaitClass::Running, SECOND);
        assert_eq!(leaves, vec![running(15), running(20), running(20)]);
    }

    #[test]
    fn a_timeout_of_gos_scheduler_is_nobodys_sleep() {
        let by_clock = |is_go: bool| {
            let place = Place {
                state: WaitState::Sleep,
                syscall: "epoll_pwait".into(),
                args: [4, 0, 128, 2_000, 0, 0],
                ..Place::default()
            };
            let end_ns = 3 * SECOND;
            let context = WakeContext::HardInterrupt;
            let wake = Some(Wake { at_ns: end_ns, context, ..Wake::default() });
            let server = thread(30, "server");
            let (thread, begin_ns) = (server.clone(), SECOND);
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            let mut facts = host();
            let read = Goroutines { pid: 30, count: 4, read: 4, ..Goroutines::default() };
            facts.extend(is_go.then(|| at(SECOND, Body::Goroutines(read))));
            facts.push(at(end_ns, Body::Wait(wait)));
            let Observed { model, timelines } = Observed::new(facts);
            let chains = Chains::new(&model, &timelines);
            let leaves = chains.follow(&server, SECOND, end_ns);
            leaves[0].root().by_clock
        };
        assert!(by_clock(false) && !by_clock(true));
    }

    #[test]
    fn who_has_ended_holds_nothing_up_any_more() {
        // Nobody saw it run: so it is not known that it did anything after its end.
        let leaves = reader(vec![ran(15, SECOND, 2 * SECOND)]);
        assert_eq!(leaves[1], (20, WaitClass::Unseen, SECOND));
        assert_eq!(leaves[2], (10, WaitClass::PipeRead, SECOND));
    }
}
