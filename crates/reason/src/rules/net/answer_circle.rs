//! Servers that wait in a circle for answers that only they can give: one that asks its own service, workers that all do, services that ask each other.
//!
//! A connection that nobody has accepted waits for whoever has its listener. Where each of those has a single thread at work, which stands in a wait for
//! an answer of just such processes, none of them goes on before another does: more room in a queue changes nothing. Followed from a listener, over
//! all who could go on, until nobody new comes. Must not: count a process with a thread that may still accept, an event loop, or who waits for a
//! question. Rejected: the chain of one wait (of several workers another may be free).
//!
//! Edit together: accept_queue.rs (asks first, and keeps silent of who is in a circle), listeners.rs.

use super::listeners::Listener;
use super::losses;
use crate::facts::{Endpoint, InetRef, ObjectRef, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::own_functions::stands_in;
use crate::measure::tcp_stream::leads_to;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::Question;
use crate::rules::own_pace::STANDS;
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Losses, Match, ask, culprit};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeSet, HashSet};

/// Larger circles are not followed.
const MEMBERS_MAX: usize = 64;
/// Members that are said one by one.
const SAID_MAX: usize = 3;

/// Processes of which none goes on before another does.
pub(super) struct Circle<'m> {
    /// The listener from which it was found.
    listener: Listener<'m>,
    /// What each stands at, by process: the listener's own first, then whom they wait for.
    members: Vec<(u32, &'m WaitSpan)>,
    /// How many of them have that listener.
    own: usize,
}

/// The circles that accept queues which are not empty stand behind, each once.
pub(super) fn all<'m>(measures: &Measures<'m>, listeners: &[Listener<'m>]) -> Vec<Circle<'m>> {
    let mut found: Vec<Circle<'m>> = Vec::new();
    for listener in listeners.iter().filter(|it| it.state.accept_queue > 0) {
        if found.iter().any(|circle| circle.has(measures, *listener)) {
            continue;
        }
        found.extend(circle(measures, listeners, *listener));
    }
    found
}

/// The circle of a listener: everybody whom its processes wait for, if they are among those.
fn circle<'m>(
    measures: &Measures<'m>,
    listeners: &[Listener<'m>],
    listener: Listener<'m>,
) -> Option<Circle<'m>> {
    let own = accept_on(measures, listener.socket);
    let (mut open, count): (Vec<u32>, usize) = (own.iter().copied().collect(), own.len());
    let mut members: Vec<(u32, &'m WaitSpan)> = Vec::new();
    let mut comes_back = false;
    let mut at = 0;
    while let Some(pid) = open.get(at).copied() {
        at += 1;
        let (wait, socket) = asks(measures, pid)?;
        let next = whom(measures, listeners, socket);
        if next.is_empty() || at > MEMBERS_MAX {
            return None;
        }
        comes_back |= next.iter().any(|pid| own.contains(pid));
        open.extend(next.into_iter().filter(|pid| !open.contains(pid)).collect::<Vec<u32>>());
        members.push((pid, wait));
    }
    comes_back.then_some(Circle { listener, members, own: count })
}

/// Processes that have a listener and take connections: all but one that began others of them, serves nobody itself, and was seen to do nothing but look
/// after those.
fn accept_on(measures: &Measures<'_>, listener: &InetRef) -> BTreeSet<u32> {
    let ends = measures.graph.endpoints_on(listener.ino).iter();
    let all: BTreeSet<u32> = ends.map(|end| end.process.pid).collect();
    let has_begun = |pid: u32| all.iter().any(|it| measures.graph.parent_of(*it) == Some(pid));
    let serves = |pid: u32| {
        let is_its = |end: &Endpoint| match &end.object {
            ObjectRef::Inet(own) => {
                own.local.port() == listener.local.port() && own.remote.port() != 0
            }
            _ => false,
        };
        measures.model.held.endpoints.iter().any(|end| end.process.pid == pid && is_its(end))
    };
    let looks_after =
        |pid: u32| has_begun(pid) && !serves(pid) && is_away(measures, pid, listener.ino);
    all.iter().copied().filter(|pid| !looks_after(*pid)).collect()
}

/// Whether all that was seen of a process in the look are rests, none of which a connection to a listener would end.
fn is_away(measures: &Measures<'_>, pid: u32, listener: u64) -> bool {
    use WaitClass::{Child, FutexWait, Idle, PipeRead, RunQueue, Timer};
    let look = &measures.model.look;
    let polls = |wait: &WaitSpan| {
        let of_loop = wait.place.syscall.starts_with("epoll_") && wait.place.polled.is_empty();
        let is_it =
            |end: &&Endpoint| matches!(&end.object, ObjectRef::Inet(own) if own.ino == listener);
        of_loop
            || polled(measures, wait).any(|end| is_it(&end))
            || wait.object == Object::Inet(listener)
    };
    let threads = measures.graph.threads_of(&[pid]);
    let waits = || threads.iter().flat_map(|thread| measures.graph.waits_of(thread));
    let mut within = waits().filter(|it| it.within_ns(look.begin_ns, look.end_ns) > 0).peekable();
    within.peek().is_some()
        && within.all(|it| {
            matches!(it.class, Child | FutexWait | Idle | PipeRead | Timer | RunQueue) && !polls(it)
        })
}

/// What a wait polls, by descriptor.
fn polled<'a>(measures: &Measures<'a>, wait: &'a WaitSpan) -> impl Iterator<Item = &'a Endpoint> {
    let all = measures.model.held.endpoints.iter();
    let is_its =
        |end: &Endpoint| end.process.pid == wait.thread.pid && wait.place.polled.contains(&end.fd);
    all.filter(move |end| is_its(end))
}

/// The wait for an answer in which a process stands, and its connection: if no thread of it can do anything else. One in a pool, which has nothing
/// to do before another hands it something, cannot.
fn asks<'m>(measures: &Measures<'m>, pid: u32) -> Option<(&'m WaitSpan, &'m InetRef)> {
    let mut found = None;
    for thread in measures.graph.threads_of(&[pid]) {
        let last = measures.graph.waits_of(&thread).last().filter(|wait| wait.standing)?;
        match last.class {
            WaitClass::FutexWait => {}
            _ if found.is_none() => found = Some((last, asked_on(measures, last)?)),
            _ => return None,
        }
    }
    found
}

/// The connection of a question, if a thread has stood for its answer alone.
fn asked_on<'m>(measures: &Measures<'m>, wait: &'m WaitSpan) -> Option<&'m InetRef> {
    let Some(ObjectRef::Inet(socket)) = &wait.place.object else { return None };
    let is_for_one = !wait.place.syscall.starts_with("epoll_") && is_alone(measures, wait, socket);
    let is_asked = wait.class == WaitClass::SocketRead && socket.is_tcp();
    let has_stood = wait.end_ns.saturating_sub(wait.begin_ns) >= STANDS.ns();
    (is_for_one && is_asked && has_stood && !measures.graph.is_accepted(socket)).then_some(socket)
}

/// Whether nothing that another process may do ends a wait but a word on one connection: what a library is woken by has both ends in its process.
fn is_alone(measures: &Measures<'_>, wait: &WaitSpan, socket: &InetRef) -> bool {
    let is_own = |ino: u64| {
        let ends = measures.graph.endpoints_on(ino);
        !ends.is_empty() && ends.iter().all(|end| end.process.pid == wait.thread.pid)
    };
    let is_no_other = |end: &Endpoint| match &end.object {
        ObjectRef::Inet(own) => own.ino == socket.ino,
        ObjectRef::Unix { peer_ino, .. } => is_own(*peer_ino),
        ObjectRef::Pipe { ino } => is_own(*ino),
        _ => true,
    };
    let mut all = polled(measures, wait);
    all.all(is_no_other)
}

/// Who can answer on a connection: who has its other end, else who has its listener and may accept it. Nobody if that is not on this host.
fn whom(measures: &Measures<'_>, listeners: &[Listener<'_>], socket: &InetRef) -> BTreeSet<u32> {
    let far = measures.graph.far_processes(socket);
    if !far.is_empty() {
        return far.iter().map(|it| it.pid).collect();
    }
    let leads = |it: &&Listener<'_>| {
        leads_to(measures.model, socket, it.socket) && it.state.accept_queue > 0
    };
    let there = listeners.iter().filter(leads);
    there.flat_map(|it| accept_on(measures, it.socket)).collect()
}

impl<'m> Circle<'m> {
    /// Whether all who could accept from a listener are in it.
    pub(super) fn has(&self, measures: &Measures<'_>, listener: Listener<'_>) -> bool {
        let accept = accept_on(measures, listener.socket);
        let is_member = |pid: &u32| self.members.iter().any(|(own, _)| own == pid);
        !accept.is_empty() && accept.iter().all(is_member)
    }

    /// The finding, if anybody whom the look is at loses by it.
    pub(super) fn matched(&self, measures: &'m Measures<'m>, ends: &'m [End]) -> Option<Match<'m>> {
        let waited_on: HashSet<&Object> = self.members.iter().map(|(_, it)| &it.object).collect();
        let is_its = |end: &End| {
            let root = end.links.last();
            let stands = root.is_some_and(|it| it.class == WaitClass::SocketRead);
            stands && end.links.iter().any(|link| waited_on.contains(&link.object))
        };
        let is_behind = |(_, end): &(usize, &End)| !end.victims.is_empty() && is_its(end);
        let claimed: Vec<usize> =
            ends.iter().enumerate().filter(is_behind).map(|(at, _)| at).collect();
        let lost = self.lost(measures, claimed.iter().map(|at| &ends[*at]));
        if lost.is_empty() {
            return None;
        }
        let (_, first) = self.members[0];
        let (by, object) = (culprit(measures.model, &first.thread), first.object.clone());
        let holder = Some((&first.thread, first.class.word(), "waits".to_string()));
        let wording = self.wording(measures);
        let matched = Match::new(by, Proof::TwoWitnesses, move |_| wording.clone());
        let mut matched = losses::of_measure(measures, matched, object, lost, holder);
        for at in &claimed {
            matched.chain = None;
            matched = matched.claiming(*at, None);
        }
        Some(matched)
    }

    /// What is lost to it: by who waits into it, and by its members, if they are looked at or have the listener of whom is.
    fn lost<'e>(&self, measures: &Measures<'_>, ends: impl Iterator<Item = &'e End>) -> Losses {
        let look = &measures.model.look;
        let seconds = |wait: &WaitSpan| wait.within_ns(look.begin_ns, look.end_ns) as f64 / 1e9;
        let all: Losses =
            self.members.iter().map(|(pid, it)| (*pid, (it.thread.clone(), seconds(it)))).collect();
        let target = look.target.as_ref().map(|target| target.pid);
        let holders = measures.graph.endpoints_on(self.listener.socket.ino);
        let is_asked = holders.iter().any(|end| Some(end.process.pid) == target);
        let mut lost = if is_asked { all } else { losses::in_target(measures, all) };
        for (pid, (who, seconds)) in ends.flat_map(|end| &end.victims) {
            lost.entry(*pid).or_insert_with(|| (who.clone(), *seconds));
        }
        lost
    }

    fn wording(&self, measures: &Measures<'_>) -> Wording {
        let place = self.listener.socket.local;
        let who = |wait: &WaitSpan| measures.model.threads.who(&main(measures, wait));
        let names: Vec<String> = self.members.iter().map(|(_, wait)| who(wait)).collect();
        let title = match (names.len(), self.own) {
            (1, _) => {
                format!("{} waits for itself: it has asked its own service on {place}", names[0])
            }
            (all, own) if all == own => format!(
                "all {all} processes that serve {place} wait for an answer of their own service: {}",
                named(&names)
            ),
            _ => format!("{} wait for each other's answers", named(&names)),
        };
        let queued = self.listener.state.accept_queue as usize;
        let queued = words::count(queued, "connection waits", "connections wait");
        let said = self.members.iter().take(SAID_MAX);
        let text = match names.len() {
            1 => format!(
                "{queued} to be accepted on {place}, and only {} could do so, which waits for the answer to its own question{}. However long \
                 the queue may be, it goes on only when that question is given up.",
                names[0],
                place_of(measures, self.members[0].1),
            ),
            _ => format!(
                "{queued} to be accepted on {place}, and whoever could do so waits in turn:{} None of them goes on before another does, however \
                 long the queue may be: it ends when one of their questions is given up.",
                said.map(|(_, wait)| step(measures, wait)).collect::<String>(),
            ),
        };
        Wording { title, text, evidence: self.evidence(measures), remedy: self.remedy(measures) }
    }

    fn evidence(&self, measures: &Measures<'_>) -> Vec<Evidence> {
        let look = &measures.model.look;
        let stood = self.members.iter().map(|(_, it)| it.within_ns(look.begin_ns, look.end_ns));
        let queued = f64::from(self.listener.state.accept_queue);
        vec![
            Evidence::new(
                "processes in the circle",
                self.members.len() as f64,
                "1",
                "descriptor iterator",
            ),
            Evidence::new("connections in the accept queue", queued, "1", "sock"),
            Evidence::new(
                "shortest wait of the circle",
                stood.min().unwrap_or(0) as f64 / 1e9,
                "s",
                "sched_switch and the task iterator",
            ),
        ]
    }

    fn remedy(&self, measures: &Measures<'_>) -> Vec<Remedy> {
        let (pid, first) = self.members[0];
        let model = measures.model;
        vec![
            Remedy::to(
                "let no request wait for an answer that only the same processes can give (call the function itself, or answer first), or give \
                 the service more threads or processes than requests that ask it so at once",
            ),
            Remedy::to("see which request asks it").ask(
                Question::Program,
                &main(measures, first),
                ask::question(model, pid),
            ),
        ]
    }
}

/// Whom a member waits for, and where it stands; a sentence with a space before it.
fn step(measures: &Measures<'_>, wait: &WaitSpan) -> String {
    let Some(ObjectRef::Inet(socket)) = &wait.place.object else { return String::new() };
    let who = measures.model.threads.who(&main(measures, wait));
    format!(" {who} waits for the answer of {}{}.", socket.remote, place_of(measures, wait))
}

/// In which of its functions a wait stands, as the rest of a clause.
fn place_of(measures: &Measures<'_>, wait: &WaitSpan) -> String {
    let within = (measures.model.look.begin_ns, measures.model.look.end_ns);
    let place = stands_in(measures.model, &wait.thread, within);
    place.map_or_else(String::new, |place| format!(", in {place}"))
}

/// Names as one phrase; of many the first, and how many more there are.
fn named(names: &[String]) -> String {
    match names.len() {
        all if all > SAID_MAX => {
            format!("{} and {} more", names[..SAID_MAX].join(", "), all - SAID_MAX)
        }
        _ => names.join(" and "),
    }
}

fn main(measures: &Measures<'_>, wait: &WaitSpan) -> ThreadRef {
    wait_words::main_thread(measures, wait.thread.pid)
}
