//! Questions that a proxy keeps before it passes them on, because it may ask its upstream only so much at a time.
//!
//! The event loop of a proxy waits in one way for whoever has asked it and for whomever it has asked; the clocks of its
//! connections (graph/debts.rs) tell how many of each there are, and since when. Questions are taken to be passed on in the order
//! in which they came: the first that it asks after one came is that one's. What is left over is kept, if meanwhile it had
//! asked something else. A connection to the upstream that is free refutes it, for the next question would have taken that.
//!
//! Must not: know a proxy by its name, or say that it keeps too much. Of upstreams on unix sockets, which have no clocks, it is known
//! how many may be asked: where those are as many as are left over, none is kept. Blind to questions that one connection carries several at a time.

use crate::facts::{Ns, ObjectRef, TcpTurn, ThreadRef, WakeContext};
use crate::graph::debts::Debt;
use crate::graph::upstreams;
use crate::measure::Measures;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Within this a question is passed on at once: two jiffies of the coarsest clock (100 Hz), in which both ages are kept.
const AT_ONCE_NS: Ns = 20_000_000;

/// A process that keeps questions.
#[derive(Debug)]
pub(super) struct Keeper {
    /// The process.
    pub pid: u32,
    /// Whom it passes questions on to.
    pub upstream: SocketAddr,
    /// The processes there, if they are here.
    pub servers: Vec<ThreadRef>,
    /// Its connections there, all of which await an answer.
    pub taken: usize,
    /// Answers that it owes at the end of the look.
    pub owed: usize,
    /// Longest in the queue first.
    pub queued: Vec<Question>,
}

/// A question that was not passed on at once.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// Who asked.
    pub clients: BTreeSet<u32>,
    /// When.
    pub from_ns: Ns,
    /// Until it was passed on, or the look ended.
    pub to_ns: Ns,
    /// It was not passed on.
    pub stands: bool,
}

impl Question {
    /// How long it was kept, seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Everybody who keeps questions.
pub(super) fn keepers(measures: &Measures<'_>) -> Vec<Keeper> {
    let debts = measures.graph.debts();
    let mut pids: Vec<u32> = debts.owes.keys().copied().collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(|pid| keeper(measures, pid)).collect()
}

fn keeper(measures: &Measures<'_>, pid: u32) -> Option<Keeper> {
    let (model, graph) = (measures.model, &measures.graph);
    let end_ns = model.look.end_ns;
    let by_age = |debts: &[Debt]| {
        let mut known: Vec<Debt> = debts.iter().filter(|debt| debt.since_known).cloned().collect();
        known.sort_by_key(|debt| (debt.since_ns, debt.ino));
        known
    };
    if upstreams::pass_on_each(graph, pid) {
        return None;
    }
    let owes = by_age(graph.debts().owes.get(&pid)?);
    let asked = by_age(&asked(measures, pid));
    let upstream = most_asked(measures, &asked)?;
    let servers = servers(measures, &asked);
    // A service that asks itself has no upstream: its own question is among those that came.
    if servers.iter().any(|server| server.pid == pid) {
        return None;
    }
    if carries_several(measures, (pid, &servers), &owes, &asked) {
        return None;
    }
    // Of a question that was passed on since, it was the next that became free.
    let is_free = has_free_connection(measures, pid, upstream, &asked);
    let outstanding = |from: Ns, to: Ns| {
        !is_free && asked.iter().any(|other| other.since_ns <= to && other.seen_ns > from)
    };
    let mut queued: Vec<Question> = Vec::new();
    for (debt, passed_on) in in_order(&owes, &asked) {
        let from_ns = debt.since_ns;
        let question = match passed_on {
            Some(at) if at.since_ns > from_ns + AT_ONCE_NS => {
                let others = asked.iter().filter(|other| other.ino != at.ino);
                let mut busy =
                    others.filter(|it| it.since_ns < at.since_ns && it.seen_ns > from_ns);
                busy.next().map(|_| (at.since_ns, false))
            }
            Some(_) => None,
            None if debt.seen_ns < end_ns || end_ns < from_ns + AT_ONCE_NS => None,
            None => outstanding(from_ns, end_ns).then_some((end_ns, true)),
        };
        let Some((to_ns, stands)) = question else { continue };
        let clients = model.called.socket(debt.ino).map(|socket| graph.far_processes(socket));
        let clients = clients.unwrap_or_default().iter().map(|client| client.pid).collect();
        queued.push(Question { clients, from_ns, to_ns, stands });
    }
    let stand = |debts: &[Debt]| debts.iter().filter(|debt| debt.seen_ns >= end_ns).count();
    let (owed, awaited) = (stand(&owes), stand(&asked));
    // Who awaits as many answers as it owes keeps none: a client's word need be no question.
    queued.retain(|question| !question.stands || owed > awaited);
    queued.sort_by_key(|question| std::cmp::Reverse(question.to_ns - question.from_ns));
    let taken = most_at_a_time(&asked).max(at_the_end(measures, pid, upstream).count());
    (!queued.is_empty()).then_some(Keeper { pid, upstream, servers, taken, owed, queued })
}

/// What a process has asked: what it awaits at the end, and what was answered so shortly before that the next question may be on its
/// way. A look that ends between an answer and the next question would see nobody asked. Of what was asked before the look, what comes
/// may be the news of a subscription.
fn asked(measures: &Measures<'_>, pid: u32) -> Vec<Debt> {
    let (debts, look) = (measures.graph.debts(), &measures.model.look);
    let just_ns = look.end_ns.saturating_sub(AT_ONCE_NS);
    let answered = debts.answered_since(pid, just_ns).filter(|it| it.since_ns > look.begin_ns);
    debts.awaits.get(&pid).into_iter().flatten().chain(answered).cloned().collect()
}

/// Whether the one connection to an upstream carries the questions of several clients at a time (a tunnel of ssh's): it was written to long after the
/// first of them came, and nobody had got an answer in between, as whoever is before that one in a queue would have.
fn carries_several(
    measures: &Measures<'_>,
    (pid, servers): (u32, &[ThreadRef]),
    owes: &[Debt],
    asked: &[Debt],
) -> bool {
    let end_ns = measures.model.look.end_ns;
    let ([only], Some(first)) = (asked, owes.first()) else { return false };
    if first.seen_ns < end_ns || only.since_ns <= first.since_ns + AT_ONCE_NS {
        return false;
    }
    let is_client = |it: u32| it != pid && servers.iter().all(|server| server.pid != it);
    let is_by_it = |wait: &WaitSpan| match &wait.place.object {
        Some(ObjectRef::Inet(socket)) => {
            let mut far = measures.graph.far_processes(socket).into_iter();
            wait.wake.as_ref().is_some_and(|wake| wake.by.pid == pid) || far.any(|it| it.pid == pid)
        }
        _ => false,
    };
    let by_clock = |wait: &WaitSpan| {
        wait.wake.as_ref().is_none_or(|wake| wake.context == WakeContext::HardInterrupt)
    };
    // Of clients of other hosts alone nobody is seen to be answered.
    let is_here = |debt: &Debt| {
        let socket = measures.model.called.socket(debt.ino);
        socket.is_some_and(|socket| !measures.graph.far_processes(socket).is_empty())
    };
    owes.iter().any(is_here)
        && !measures.waits().any(|wait| {
            !wait.standing
                && wait.end_ns >= first.since_ns
                && is_client(wait.thread.pid)
                && !by_clock(wait)
                && is_by_it(wait)
        })
}

/// Each question with the one that it was passed on as, if it was: both in the order of time.
fn in_order<'d>(owes: &'d [Debt], asked: &'d [Debt]) -> Vec<(&'d Debt, Option<&'d Debt>)> {
    let mut next = asked.iter().peekable();
    let mut pairs = Vec::new();
    for debt in owes {
        // Of a question that came before all of these, and was answered meanwhile.
        while next.next_if(|it| it.since_ns + AT_ONCE_NS < debt.since_ns).is_some() {}
        pairs.push((debt, next.next()));
    }
    pairs
}

/// The address that most was asked of.
fn most_asked(measures: &Measures<'_>, asked: &[Debt]) -> Option<SocketAddr> {
    let mut counts: BTreeMap<SocketAddr, usize> = BTreeMap::new();
    for socket in asked.iter().filter_map(|debt| measures.model.called.socket(debt.ino)) {
        *counts.entry(socket.remote).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address)
}

/// A process's connections to its upstream at the end: inode, and what each knows of who spoke last.
fn at_the_end<'m>(
    measures: &Measures<'m>,
    pid: u32,
    upstream: SocketAddr,
) -> impl Iterator<Item = (u64, Option<&'m TcpTurn>)> {
    const ESTABLISHED: u8 = 1;
    let model = measures.model;
    let open = model.held.endpoints.iter().zip(&model.held.endpoints_at);
    open.filter_map(move |(endpoint, at_ns)| match &endpoint.object {
        ObjectRef::Inet(socket) => {
            let is_its = endpoint.process.pid == pid && socket.remote == upstream;
            let is_open = *at_ns >= model.look.end_ns && socket.state == ESTABLISHED;
            let turn = || endpoint.socket.as_ref().and_then(|state| state.turn.as_ref());
            (is_its && is_open).then(|| (socket.ino, turn()))
        }
        _ => None,
    })
}

/// Whether a process has a connection to its upstream on which it awaits nothing, and did not just get an answer: what it asks
/// next may be on its way.
fn has_free_connection(
    measures: &Measures<'_>,
    pid: u32,
    upstream: SocketAddr,
    asked: &[Debt],
) -> bool {
    let rests = |turn: &TcpTurn| {
        let jiffies = turn.sent_jiffies.min(turn.received_jiffies);
        u64::from(jiffies) * u64::from(turn.jiffy_ns) > AT_ONCE_NS
    };
    at_the_end(measures, pid, upstream)
        .any(|(ino, turn)| turn.is_some_and(rests) && asked.iter().all(|debt| debt.ino != ino))
}

/// How many answers were awaited at a time.
fn most_at_a_time(asked: &[Debt]) -> usize {
    let at = |now: Ns| asked.iter().filter(|it| it.since_ns <= now && it.seen_ns >= now).count();
    asked.iter().map(|debt| at(debt.since_ns)).max().unwrap_or(0)
}

fn servers(measures: &Measures<'_>, asked: &[Debt]) -> Vec<ThreadRef> {
    let graph = &measures.graph;
    let sockets = asked.iter().filter_map(|debt| measures.model.called.socket(debt.ino));
    let mut all: Vec<ThreadRef> = sockets.flat_map(|socket| graph.far_processes(socket)).collect();
    all.sort_by_key(|process| process.pid);
    all.dedup_by_key(|process| process.pid);
    all
}
