//! Who was asked to end by a signal and has not ended yet, while somebody waits for that end.
//!
//! The first process of a PID namespace gets no signal that it has no handler for (pid_namespaces(7)), so the program of a
//! container outlives SIGTERM until whoever stops the container kills it. No stack says so: a daemon sleeps meanwhile, and
//! the process goes on as before. What ties them together is who sent the signal. It was the waiter, or somebody that its chain
//! leads through, or who began or was begun by one of them; and the chain reaches the process, or the wait ended as the process did.
//!
//! One that ignores the signal is the end of the chain. One that has a handler is followed like anybody who is waited for: it
//! writes, or waits for its own clients.
//!
//! Must not: count signals that mostly mean something else (SIGHUP). Rejected: what is pending in /proc (an ignored signal is dropped, not queued).

use super::index::Index;
use super::leaf::{ChainLink, Leaf};
use super::question::is_for_a_question;
use crate::facts::{Ns, Signal, TargetKind, ThreadRef};
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Between the call that sends the signal and what its sender is seen to do.
static APART_MAX: Threshold = Threshold::new(
    100.0,
    "ms",
    "between the call that sends the signal and what its sender is seen to do then",
    "chosen: long beside a turn on a crowded CPU",
);
/// Whoever waits for the end of a process may have to clean up after it.
static ENDS_WITHIN_MAX: Threshold = Threshold::new(
    2000.0,
    "ms",
    "from the end of a process to the end of the wait for it: whoever waits may have to clean up after it",
    "chosen: what a container engine may need to take down a container",
);
/// A process that ends within that ends at once.
static LATE_MIN: Threshold = Threshold::new(
    100.0,
    "ms",
    "from the signal to the end of the process: one that ends sooner ends at once",
    "chosen: below what a person notices",
);

/// The time until the end of a process is divided so.
const TENTHS: Ns = 10;
/// Of who looks from time to time whether a process has ended.
static RESTED_MIN: Threshold = Threshold::new(
    9.0,
    "1",
    "tenths of the time until the end in which whoever looks for it rests: who works besides does not wait for it",
    "chosen",
);
/// Processes of a look; somebody may signal thousands.
const ALL_MAX: usize = 64;

/// Goes on from some links to what a thread does in a time.
type Follow<'f> = dyn Fn(&[Arc<ChainLink>], &ThreadRef, (Ns, Ns)) -> Vec<Leaf> + 'f;

/// A process that goes on although it was asked to end.
#[derive(Debug)]
pub(super) struct Ending {
    at_ns: Ns,
    ignores: bool,
    from: u32,
    /// Its main thread.
    who: ThreadRef,
    /// It, or all of its program that were asked one after the other.
    object: Object,
    until_ns: Ns,
    has_ended: bool,
}

/// All of a look, in order of time; of one process the first signal counts.
pub(super) fn all(index: &Index<'_>) -> Vec<Ending> {
    let model = index.model;
    let mut seen = BTreeSet::new();
    let mut of = |(at_ns, signal): &(Ns, Signal)| {
        if !signal.asks_to_end() {
            return None;
        }
        let who = model.threads.thread_ref_at(signal.to.pid, *at_ns);
        let object = Object::Process(who.pid);
        let death_ns = index.families.died_ns(model.threads.key(&who));
        // A zombie takes no signal, and the kernel calls that ignored.
        if death_ns.is_some_and(|death_ns| death_ns <= *at_ns) {
            return None;
        }
        // Of one that ends at once nobody waits for the end.
        let is_late = death_ns.is_none_or(|death_ns| death_ns - at_ns >= LATE_MIN.ns());
        let counts = is_late && (signal.ignored || death_ns.is_some()) && seen.insert(who.pid);
        counts.then_some(Ending {
            at_ns: *at_ns,
            ignores: signal.ignored,
            from: signal.from.pid,
            who,
            object,
            until_ns: death_ns.unwrap_or(model.look.end_ns),
            has_ended: death_ns.is_some(),
        })
    };
    let mut all: Vec<Ending> =
        model.threads.signals.iter().filter_map(&mut of).take(ALL_MAX).collect();
    let programs: Vec<String> = all.iter().map(|it| it.who.comm.clone()).collect();
    for ending in &mut all {
        let comm = &ending.who.comm;
        if programs.iter().filter(|other| *other == comm).count() > 1 {
            ending.object = Object::Processes(comm.as_str().into());
        }
    }
    all
}

/// Whether a leaf ends at such a process, and is that of who waits for its end himself, or of who asked for it: who waits for one
/// of these to end, or to say a word, loses the same time.
pub(super) fn is_waiters_own(leaf: &Leaf) -> bool {
    let asks = matches!(leaf.links[0].class, WaitClass::SocketRead | WaitClass::UnixRead);
    leaf.root().class == WaitClass::UnheededSignal && (asks || leaf.links.len() == 2)
}

/// Leaves of one thread in order of time, with those that wait for such a process ending at it.
pub(super) fn lead(
    index: &Index<'_>,
    all: &[Ending],
    leaves: Vec<Leaf>,
    follow: &Follow<'_>,
) -> Vec<Leaf> {
    all.iter().fold(leaves, |leaves, ending| ending.claim(index, all, leaves, follow))
}

/// Whether a chain begins with a wait for somebody, and not with one for work. Of a command every wait counts.
fn waits_for_somebody(index: &Index<'_>, all: &[Ending], leaf: &Leaf) -> bool {
    let first = &leaf.links[0];
    let Some(wait) = index.waits.at(&first.who, leaf.begin_ns) else { return false };
    let asks = wait.class.is_for_somebody() && wait.class != WaitClass::FutexWait;
    let is_command =
        index.model.look.target.as_ref().is_some_and(|it| it.kind == TargetKind::Command);
    is_command || asks && !is_for_a_question(index, wait) || is_of_sender(index, all, wait)
}

/// Whether a wait that may be for any event is that of a sender, and ended as the process did.
pub(super) fn is_of_sender(index: &Index<'_>, all: &[Ending], wait: &WaitSpan) -> bool {
    let is_it = |it: &Ending| it.ignores && it.from == wait.thread.pid && it.ends(index, wait);
    wait.class == WaitClass::Idle && !wait.kernel && all.iter().any(is_it)
}

/// Whether a chain ends at the clock, or at whatever comes next.
fn is_rest(leaf: &Leaf) -> bool {
    matches!(leaf.root().class, WaitClass::Timer | WaitClass::Idle)
}

impl Ending {
    fn claim(
        &self,
        index: &Index<'_>,
        all: &[Ending],
        leaves: Vec<Leaf>,
        follow: &Follow<'_>,
    ) -> Vec<Leaf> {
        // Threads of a command are followed in pieces, of which few are of that time.
        let is_then = |leaf: &Leaf| leaf.begin_ns < self.until_ns && leaf.end_ns > self.at_ns;
        if !leaves.iter().any(is_then) {
            return leaves;
        }
        let asked = leaves.iter().any(|leaf| self.is_sent_in(leaf));
        let polls = self.is_polled_for(index, &leaves);
        let mut cut = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let (from, to) = (leaf.begin_ns.max(self.at_ns), leaf.end_ns.min(self.until_ns));
            let may = from < to && waits_for_somebody(index, all, &leaf);
            let links = match polls && is_rest(&leaf) {
                _ if !may => None,
                true => Some(1),
                false => self.links_before(index, &leaf, asked),
            };
            let Some(links) = links else {
                cut.push(leaf);
                continue;
            };
            let part = |begin_ns, end_ns| Leaf { begin_ns, end_ns, ..leaf.clone() };
            cut.extend((leaf.begin_ns < from).then(|| part(leaf.begin_ns, from)));
            let before = &leaf.links[..links];
            match self.ignores {
                true => {
                    let links = [before, &[Arc::new(self.link(from, to))]].concat();
                    cut.push(Leaf { begin_ns: from, end_ns: to, links, circle: None });
                }
                false => cut.extend(follow(before, &self.who, (from, to))),
            }
            cut.extend((to < leaf.end_ns).then(|| part(to, leaf.end_ns)));
        }
        cut
    }

    /// Whether a chain leads to it from another process, once it was asked.
    pub(super) fn is_reached(&self, leaf: &Leaf) -> bool {
        let others = leaf.links.iter().skip(1);
        leaf.begin_ns >= self.at_ns
            && others.map(|link| link.who.pid).any(|pid| pid == self.who.pid)
    }

    /// Whether who has sent the signal, himself or by a child, looks from time to time whether the process has ended (kill -0, as
    /// scripts and start-stop-daemon do): from then on until its end he rests in short sleeps, and no longer after it.
    fn is_polled_for(&self, index: &Index<'_>, leaves: &[Leaf]) -> bool {
        let Some(waiter) = leaves.first().map(|leaf| leaf.links[0].who.pid) else { return false };
        if !self.has_ended || !index.families.descends(self.from, waiter) {
            return false;
        }
        let within = |leaf: &Leaf| {
            leaf.end_ns.min(self.until_ns).saturating_sub(leaf.begin_ns.max(self.at_ns))
        };
        let rests = || leaves.iter().filter(|leaf| is_rest(leaf));
        let (rested, longest) = rests()
            .map(within)
            .fold((0, 0), |(sum, longest): (Ns, Ns), ns| (sum + ns, longest.max(ns)));
        let all = self.until_ns - self.at_ns;
        let goes_on = |leaf: &Leaf| {
            (self.until_ns..=self.until_ns.saturating_add(longest)).contains(&leaf.begin_ns)
                && leaf.ns() * 2 >= longest
        };
        longest * 2 <= all && rested >= all / TENTHS * RESTED_MIN.whole() && !rests().any(goes_on)
    }

    /// Whether the signal was sent while a chain led through its sender, or by the waiter himself.
    fn is_sent_in(&self, leaf: &Leaf) -> bool {
        let is_then = leaf.begin_ns <= self.at_ns.saturating_add(APART_MAX.ns())
            && leaf.end_ns.saturating_add(APART_MAX.ns()) >= self.at_ns;
        leaf.links[0].who.pid == self.from
            || leaf.links.iter().any(|link| link.who.pid == self.from) && is_then
    }

    /// How many links of a chain lead to whoever waits for the end of the process, if it does.
    fn links_before(&self, index: &Index<'_>, leaf: &Leaf, asked: bool) -> Option<usize> {
        let links = &leaf.links;
        let reached = links.iter().position(|link| link.who.pid == self.who.pid);
        if let Some(at) = reached {
            if !self.ignores {
                return None;
            }
            let is_by_one =
                links[..at].iter().any(|link| index.families.descends(self.from, link.who.pid));
            return (at > 0 && is_by_one).then_some(at);
        }
        let root = leaf.root();
        // Who has sent the signal for somebody may look in a loop whether the process has ended.
        let looks = links.len() > 1 && root.who.pid == self.from;
        let works = root.class == WaitClass::Running && !looks;
        let is_work = root.class.is_demand() || works;
        if is_work || self.is_for_another(index, leaf) || !self.ends_the_wait(index, leaf) {
            return None;
        }
        let by_link = links.iter().any(|link| link.who.pid == self.from);
        (asked || by_link).then_some(links.len())
    }

    /// Whether a chain leads to a process that the waiter began, and that did not send the signal for it; or anywhere, of a process
    /// that has not ended.
    fn is_for_another(&self, index: &Index<'_>, leaf: &Leaf) -> bool {
        let (waiter, root) = (leaf.links[0].who.pid, leaf.root().who.pid);
        let of_child =
            index.families.descends(root, waiter) && !index.families.descends(self.from, root);
        root != waiter && (of_child || !self.has_ended)
    }

    /// Whether the wait that a chain begins with ended as the process did.
    fn ends_the_wait(&self, index: &Index<'_>, leaf: &Leaf) -> bool {
        let first = &leaf.links[0];
        let wait = index.waits.at(&first.who, leaf.begin_ns);
        wait.is_some_and(|wait| self.ends(index, wait))
    }

    /// Whether a wait ended as the process did, or began as it was asked and ended by its timeout, as whoever waited killed it; or stands, as the process does,
    /// which is the waiter's own.
    fn ends(&self, index: &Index<'_>, wait: &WaitSpan) -> bool {
        if !self.has_ended {
            return wait.standing && index.families.descends(self.who.pid, wait.thread.pid);
        }
        let ended = wait.end_ns >= self.until_ns;
        let timed_out = wait.end_ns.saturating_add(APART_MAX.ns()) >= self.until_ns
            && wait.begin_ns <= self.at_ns.saturating_add(APART_MAX.ns());
        wait.begin_ns < self.until_ns
            && wait.end_ns <= self.until_ns.saturating_add(ENDS_WITHIN_MAX.ns())
            && (ended || timed_out)
    }

    fn link(&self, begin_ns: Ns, end_ns: Ns) -> ChainLink {
        let (class, object) = (WaitClass::UnheededSignal, self.object.clone());
        ChainLink {
            since_ns: self.at_ns,
            standing: !self.has_ended,
            ..ChainLink::of(self.who.clone(), class, object, (begin_ns, end_ns))
        }
    }
}
