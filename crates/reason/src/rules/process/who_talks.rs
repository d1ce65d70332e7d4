//! Who asks whom, and who answers, by who wakes whom: the second witness of a wait for a server on the same host.
//!
//! A descriptor says only who is at the other end. That he was asked shows in whose send ended his wait, that he answered in
//! whose send ended the client's. A server that has always something to do waits for no question: of its clients the clocks of their
//! connections say that they ask. What is sent in several writes is one answer, as long as no question is between them. Must not: name codes, or say what is slow.

use crate::facts::{Endpoint, Ns, ObjectRef, WakeContext};
use crate::graph::chains::ChainLink;
use crate::graph::debts::{APART_MIN, Debt};
use crate::graph::wakers::carrier;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Within which all parts of an answer come.
pub(super) static PART_MAX: Threshold = Threshold::new(
    10.0,
    "ms",
    "from the first part of an answer to the end of a wait for another: a server writes the head and the body one right after the other, \
     and where no question was seen in between the second is no answer of its own; and from a timeout of the waiter's own to its next wait",
    "chosen: two writes are microseconds apart, and a turn on a crowded CPU some milliseconds",
);

/// A wait for what the other end of a socket sends.
pub(crate) fn is_read(class: WaitClass) -> bool {
    matches!(class, WaitClass::UnixRead | WaitClass::SocketRead)
}

/// The first link of a chain that waits for an answer, and whose.
pub(crate) fn first_question(links: &[Arc<ChainLink>]) -> Option<(&ChainLink, &ChainLink)> {
    let first = links.windows(2).find(|pair| is_read(pair[0].class))?;
    Some((&first[0], &first[1]))
}

/// Who asks whom, and who answers, by who wakes whom: one pass over the waits and the sockets for all servers, of which
/// a host that passes many messages has hundreds.
#[derive(Default)]
pub(crate) struct Talk {
    /// By server and client: when the client's questions ended the server's waits, earliest first.
    questions: BTreeMap<(u32, u32), Vec<Ns>>,
    /// By server and client: the server's answers that ended the client's reads.
    answers: BTreeMap<(u32, u32), usize>,
    /// Server and client whose question woke nobody: it lies unread in one of the server's sockets, or the client's clocks say that it
    /// asks after each answer.
    unwoken: BTreeSet<(u32, u32)>,
}

/// The answers that ended waits on a connection: by whom the last did, and when the last two did.
struct Received {
    by: u32,
    last_ns: Ns,
    before_ns: Option<Ns>,
}

impl Talk {
    /// Of a look.
    pub(crate) fn of(measures: &Measures<'_>) -> Self {
        let mut talk = Self::default();
        let mut received: BTreeMap<(u32, u64), Received> = BTreeMap::new();
        for wait in measures.waits() {
            let reads = is_read(wait.class);
            if !reads && wait.class != WaitClass::Idle {
                continue;
            }
            let Some(by) = carrier(wait) else { continue };
            if by.pid != wait.thread.pid {
                let asked = talk.questions.entry((wait.thread.pid, by.pid)).or_default();
                asked.push(wait.end_ns);
            }
            // Of two who talk in turns, the one who connected asks: his rest between two questions is his own. An event loop
            // on a command's path has been asked itself, so what ends its wait is an answer.
            if (reads || measures.is_command()) && !measures.graph.is_for_a_question(wait) {
                *talk.answers.entry((by.pid, wait.thread.pid)).or_default() += 1;
                if let Object::Inet(ino) = wait.object {
                    add_received(&mut received, (wait.thread.pid, ino), (by.pid, wait.end_ns));
                }
            }
        }
        talk.questions.values_mut().for_each(|asked| asked.sort_unstable());
        let has_unread = |end: &&Endpoint| end.unread.is_some_and(|unread| unread > 0);
        for end in measures.model.held.endpoints.iter().filter(has_unread) {
            if let ObjectRef::Unix { peer_ino, .. } = &end.object {
                let far = measures.graph.endpoints_on(*peer_ino).iter();
                let far = far.filter(|far| far.process.pid != end.process.pid);
                talk.unwoken.extend(far.map(|far| (end.process.pid, far.process.pid)));
            }
        }
        let asks = received.iter().filter(|(on, answers)| asks_again(measures, **on, answers));
        talk.unwoken.extend(asks.map(|((client, _), answers)| (answers.by, *client)));
        talk
    }

    /// Whether a wait that a server ended was for another part of the answer whose first part ended another wait.
    fn is_part(&self, first: &WaitSpan, wait: &WaitSpan, server: u32) -> bool {
        let is_near = wait.end_ns.saturating_sub(first.end_ns) <= PART_MAX.ns();
        let asked = self.questions.get(&(server, wait.thread.pid)).map_or(&[][..], Vec::as_slice);
        let next = asked.partition_point(|at_ns| *at_ns < first.end_ns);
        let is_asked = asked.get(next).is_some_and(|at_ns| *at_ns <= wait.end_ns);
        // Where most questions are not seen, as those that come while the server is busy, none between is no sign.
        let are_seen =
            2 * asked.len() >= self.answered(server, wait.thread.pid).unwrap_or_default();
        wait.object == first.object && is_near && !is_asked && are_seen
    }

    /// How long each answer of a server was waited for within a time, seconds, by the waits for it in order: its parts are one, and a
    /// timeout of the waiter's own does not begin another.
    pub(crate) fn lengths<'w>(
        &self,
        waits: impl Iterator<Item = &'w WaitSpan>,
        (server, within): (u32, (Ns, Ns)),
    ) -> Vec<f64> {
        let is_answer = |wait: &WaitSpan| carrier(wait).is_some_and(|by| by.pid == server);
        let by_clock = |wait: &WaitSpan| {
            wait.wake.as_ref().is_some_and(|it| it.context == WakeContext::HardInterrupt)
        };
        let goes_on = |last: &WaitSpan, wait: &WaitSpan| {
            let pause_ns = wait.begin_ns.saturating_sub(last.end_ns);
            let is_part = || is_answer(last) && is_answer(wait) && self.is_part(last, wait, server);
            let is_same_thread = wait.thread.tid == last.thread.tid;
            is_same_thread && (by_clock(last) && pause_ns <= PART_MAX.ns() || is_part())
        };
        // With the first part of each, or the last wait before it.
        let mut answers: Vec<(Ns, &WaitSpan)> = Vec::new();
        for wait in waits.filter(|wait| wait.within_ns(within.0, within.1) > 0) {
            let ns = wait.within_ns(within.0, within.1);
            match answers.last_mut().filter(|(_, last)| goes_on(last, wait)) {
                Some((sum, last)) => {
                    *sum += ns;
                    *last = if by_clock(last) { wait } else { *last };
                }
                None => answers.push((ns, wait)),
            }
        }
        answers.into_iter().map(|(ns, _)| ns as f64 / 1e9).collect()
    }

    /// Those that ask a server, and those that ask them meanwhile, and so on.
    pub(crate) fn behind(&self, server: u32, clients: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut all = clients.clone();
        let mut next: Vec<u32> = clients.iter().copied().collect();
        while let Some(asked) = next.pop() {
            for ((_, client), _) in self.questions.range((asked, 0)..=(asked, u32::MAX)) {
                if *client != server && all.insert(*client) {
                    next.push(*client);
                }
            }
        }
        all
    }

    /// How often a server answered one client.
    pub(crate) fn answered(&self, server: u32, client: u32) -> Option<usize> {
        self.answers.get(&(server, client)).copied()
    }

    /// The answers that ended waits of some processes, as far as they came from some others: of those behind a proxy its own, too.
    pub(crate) fn received(&self, by: &BTreeSet<u32>, from: &BTreeSet<u32>) -> usize {
        let its = |((server, client), _): &(&(u32, u32), &usize)| {
            from.contains(server) && by.contains(client)
        };
        self.answers.iter().filter(its).map(|(_, count)| count).sum()
    }

    /// What belongs to one server. Of a command, or of a process that was asked about, whoever is answered has asked: the
    /// question came while the server was busy, or ended too short a wait to be seen.
    pub(crate) fn with(&self, server: u32, answered_have_asked: bool) -> Asked {
        let own = (server, 0)..=(server, u32::MAX);
        let mut asked = Asked { clients: BTreeSet::new(), questions: 0, answers: 0 };
        for ((_, client), times) in self.questions.range(own.clone()) {
            asked.clients.insert(*client);
            asked.questions += times.len();
        }
        asked.clients.extend(self.unwoken.range(own.clone()).map(|(_, client)| *client));
        if answered_have_asked {
            asked.clients.extend(self.answers.range(own.clone()).map(|((_, client), _)| *client));
        }
        let answers = self.answers.range(own).filter(|((_, to), _)| asked.clients.contains(to));
        asked.answers = answers.map(|(_, count)| count).sum();
        asked
    }
}

/// Who asks a server, and how often it answers.
pub(crate) struct Asked {
    /// Who asked it directly.
    pub clients: BTreeSet<u32>,
    /// Questions that woke it.
    pub questions: usize,
    /// Answers that woke its clients.
    pub answers: usize,
}

fn add_received(
    received: &mut BTreeMap<(u32, u64), Received>,
    on: (u32, u64),
    (by, at_ns): (u32, Ns),
) {
    let answers = received.entry(on).or_insert(Received { by, last_ns: at_ns, before_ns: None });
    let (first, last) = (answers.last_ns.min(at_ns), answers.last_ns.max(at_ns));
    if first < last {
        *answers = Received { by, last_ns: last, before_ns: answers.before_ns.max(Some(first)) };
    }
}

/// Whether the last question on a connection came after the answer before: who only listens asked once, before all that came.
fn asks_again(measures: &Measures<'_>, (pid, ino): (u32, u64), answers: &Received) -> bool {
    let debts = measures.graph.debts();
    let follows = |debt: &Debt, answer_ns: Ns| debt.since_ns + APART_MIN.ns() >= answer_ns;
    let is_its = |debt: &&Debt| debt.ino == ino && debt.since_known;
    let stands = debts.awaits.get(&pid).into_iter().flatten().find(is_its);
    match (stands, answers.before_ns) {
        (Some(debt), _) => follows(debt, answers.last_ns),
        (None, Some(before_ns)) => {
            debts.last_answered(pid, ino).is_some_and(|debt| follows(debt, before_ns))
        }
        (None, None) => false,
    }
}
