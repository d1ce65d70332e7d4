//! Who was asked to end by a signal that its process ignores, while somebody waits for that end.
//!
//! The first process of a PID namespace gets no signal that it has no handler for (pid_namespaces(7)), so the program of a
//! container outlives SIGTERM until whoever stops the container kills it. No stack says so: a daemon sleeps meanwhile, and
//! the process goes on as before. What ties them together is who sent the signal. It was the waiter, or somebody that its chain
//! leads through, or who began or was begun by one of them; and the chain reaches the process, or the wait ended as the process did.
//!
//! Must not: say it of signals that have a handler (what the process does then is followed like any other work), or of those that
//! mostly mean something else (SIGHUP). Rejected: what is pending in /proc (an ignored signal is dropped, not queued).

use super::chains::{ChainLink, Chains, Leaf};
use super::ends::command_root;
use crate::facts::{Ns, Signal, ThreadRef};
use crate::model::object::Object;
use crate::waits::WaitClass;
use std::collections::BTreeSet;
use std::sync::Arc;

/// SIGINT, SIGQUIT, SIGTERM, SIGPWR and SIGRTMIN+3: by these processes, LXC's init and systemd as one are asked to end.
pub const END_SIGNALS: [i32; 5] = [2, 3, 15, 30, 37];

/// Between the call that sends the signal and what its sender is seen to do.
const APART_NS: Ns = 100_000_000;
/// Whoever waits for the end of a process may have to clean up after it.
const ENDS_WITHIN_NS: Ns = 2_000_000_000;
/// Generations of processes that act for one another: a daemon, its shim, the runtime.
const LINE_MAX: usize = 4;

/// A process that goes on although it was asked to end.
#[derive(Debug)]
pub(super) struct Unheeded {
    at_ns: Ns,
    from: u32,
    /// The sender, and who began it.
    senders: BTreeSet<u32>,
    /// Its main thread.
    who: ThreadRef,
    until_ns: Ns,
    has_ended: bool,
}

/// All of a look, in order of time; of one process the first signal counts.
pub(super) fn all(chains: &Chains<'_>) -> Vec<Unheeded> {
    let model = chains.model();
    let mut seen = BTreeSet::new();
    let asks = |signal: &Signal| {
        signal.ignored && END_SIGNALS.contains(&signal.signal) && signal.from.pid != signal.to.pid
    };
    let mut of = |(at_ns, signal): &(Ns, Signal)| {
        if !asks(signal) || !seen.insert(signal.to.pid) {
            return None;
        }
        let who = model.thread_ref_at(signal.to.pid, *at_ns);
        let death_ns = chains.death_ns(&who).filter(|death_ns| death_ns > at_ns);
        Some(Unheeded {
            at_ns: *at_ns,
            from: signal.from.pid,
            senders: line(chains, &signal.from),
            who,
            until_ns: death_ns.unwrap_or(model.end_ns),
            has_ended: death_ns.is_some(),
        })
    };
    model.signals.iter().filter_map(&mut of).collect()
}

/// A process and those that began it in the look, one after the other, and who began the first of these.
fn line(chains: &Chains<'_>, of: &ThreadRef) -> BTreeSet<u32> {
    let mut line = BTreeSet::from([of.pid]);
    let mut at = chains.model().thread_ref(of.pid);
    for _ in 0..LINE_MAX {
        let Some(parent) = chains.begun_by(&at) else { break };
        line.insert(parent.pid);
        at = chains.model().thread_ref(parent.pid);
    }
    line
}

/// Whether a leaf ends at such a process, and is that of who waits for its end himself, or of who asked for it: who waits for one
/// of these to end, or to say a word, loses the same time.
pub(super) fn is_waiters_own(leaf: &Leaf) -> bool {
    let asks = matches!(leaf.links[0].class, WaitClass::SocketRead | WaitClass::UnixRead);
    leaf.root().class == WaitClass::UnheededSignal && (asks || leaf.links.len() == 2)
}

/// Leaves of one thread in order of time, with those that wait for such a process ending at it.
pub(super) fn heed(chains: &Chains<'_>, leaves: Vec<Leaf>) -> Vec<Leaf> {
    chains.unheeded().iter().fold(leaves, |leaves, unheeded| unheeded.claim(chains, leaves))
}

/// Whether a chain begins with a wait for somebody, and not with one for work. Of a command every wait counts.
fn waits_for_somebody(chains: &Chains<'_>, leaf: &Leaf) -> bool {
    let first = &leaf.links[0];
    let Some(wait) = chains.peers.wait_at(&first.who, leaf.begin_ns) else { return false };
    let asks = wait.class.is_for_somebody() && wait.class != WaitClass::FutexWait;
    command_root(chains.model()).is_some() || asks && !chains.peers.is_for_a_question(wait)
}

impl Unheeded {
    fn claim(&self, chains: &Chains<'_>, leaves: Vec<Leaf>) -> Vec<Leaf> {
        let asked = leaves.iter().any(|leaf| self.is_sent_in(leaf));
        let mut all = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let (from, to) = (leaf.begin_ns.max(self.at_ns), leaf.end_ns.min(self.until_ns));
            let may = from < to && waits_for_somebody(chains, &leaf);
            let links = may.then(|| self.links_before(chains, &leaf, asked)).flatten();
            let Some(links) = links else {
                all.push(leaf);
                continue;
            };
            let mut before = leaf.links[..links].to_vec();
            before.push(Arc::new(self.link(from, to)));
            let part = |begin_ns, end_ns, links: &[Arc<ChainLink>]| Leaf {
                begin_ns,
                end_ns,
                links: links.to_vec(),
                circle: leaf.circle.clone().filter(|_| links.len() == leaf.links.len()),
            };
            let parts = [
                part(leaf.begin_ns, from, &leaf.links),
                Leaf { circle: None, ..part(from, to, &before) },
                part(to, leaf.end_ns, &leaf.links),
            ];
            all.extend(parts.into_iter().filter(|part| part.begin_ns < part.end_ns));
        }
        all
    }

    /// Whether the signal was sent while a chain led through its sender, or by the waiter himself.
    fn is_sent_in(&self, leaf: &Leaf) -> bool {
        let is_then = leaf.begin_ns <= self.at_ns.saturating_add(APART_NS)
            && leaf.end_ns.saturating_add(APART_NS) >= self.at_ns;
        leaf.links[0].who.pid == self.from
            || leaf.links.iter().any(|link| link.who.pid == self.from) && is_then
    }

    /// How many links of a chain lead to whoever waits for the end of the process, if it does.
    fn links_before(&self, chains: &Chains<'_>, leaf: &Leaf, asked: bool) -> Option<usize> {
        let links = &leaf.links;
        let reached = links.iter().position(|link| link.who.pid == self.who.pid);
        if let Some(at) = reached {
            let is_by_one = links[..at].iter().any(|link| self.senders.contains(&link.who.pid));
            return (at > 0 && is_by_one).then_some(at);
        }
        let root = leaf.root().class;
        let is_work = root.is_demand() || root == WaitClass::Running;
        if is_work || !self.ends_the_wait(chains, leaf) {
            return None;
        }
        let by_link = links.iter().any(|link| link.who.pid == self.from);
        (asked || by_link).then_some(links.len())
    }

    /// Whether the wait that a chain begins with ended as the process did.
    fn ends_the_wait(&self, chains: &Chains<'_>, leaf: &Leaf) -> bool {
        let first = &leaf.links[0];
        let wait = chains.peers.wait_at(&first.who, leaf.begin_ns);
        self.has_ended
            && wait.is_some_and(|wait| {
                wait.begin_ns < self.until_ns
                    && wait.end_ns.checked_sub(self.until_ns).is_some_and(|it| it <= ENDS_WITHIN_NS)
            })
    }

    fn link(&self, begin_ns: Ns, end_ns: Ns) -> ChainLink {
        ChainLink {
            who: self.who.clone(),
            class: WaitClass::UnheededSignal,
            object: Object::Process(self.who.pid),
            begin_ns,
            end_ns,
            since_ns: self.at_ns,
            standing: !self.has_ended,
            by_clock: false,
            own_clock: false,
            question_of: None,
        }
    }
}
