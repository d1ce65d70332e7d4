//! Waits of a command on connections on which nobody owes it an answer: for news, or until a time of its own. Of a process that was asked about those
//! until a time of its own; what comes next there subscriptions.rs knows.
//!
//! A client that listens waits as one does whose question is not answered yet, and so does one that sends at a pace of its own. What tells
//! them apart is who has had the last word on the connection by its clocks, and what ended the wait. Waits on one connection that follow each
//! other, as the clock alone ends them, are one run, which a word of the client's own ends. If nothing more came until somebody ended the client,
//! it waited for news. If the clock ended the run and the client went on by itself, it waited for its own time: its server had
//! answered, or was not waited for, as it is sent one word after another at each end of a run and never says one.
//!
//! Must not: take a run that a word of the other end ends, which may be the answer, or its rest; a run while another question of the
//! process stands out; or a wait for a server that computes, sleeps, or waits for a thing that is held, whoever spoke last: the rest of an answer may
//! be late. Rejected: the waits alone (a mute server's client waits just so).

use super::conversation::PAUSE_MAX;
use super::debts::APART_MIN;
use super::index::Index;
use super::leaf::{ChainLink, Leaf};
use super::wakers::{carrier, is_asked_to_end, is_by_clock, is_killed};
use crate::facts::Ns;
use crate::model::object::Object;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// From so many on words at the ends of runs are a pace.
static PACED_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "runs on one connection that the clock and a word of the client's own ended: two may be a question that is asked again",
    "chosen, as for subscriptions",
);

/// What a wait is for where nobody owes an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    News,
    OwnTime,
}

/// Waits on which nobody owes an answer.
#[derive(Default)]
pub(super) struct Unasked {
    /// By thread and begin.
    waits: HashMap<(u32, Ns), For>,
    /// How long what comes next was waited for, by connection.
    news_ns: HashMap<Object, Ns>,
}

/// Waits of one thread on one connection that the clock alone ended, and the one after them.
struct Run<'a> {
    waits: Vec<&'a WaitSpan>,
    /// The wait on the connection before it, if it began at once after that.
    before: Option<&'a WaitSpan>,
    /// Whether the thread sent something on the connection right before the run.
    asks: bool,
    /// Whether it did so right after it, or went on otherwise.
    goes_on: bool,
    /// Whether the thread never waits there again.
    is_last: bool,
}

impl Unasked {
    /// Of a look at a command, or a process.
    pub(super) fn of(index: &Index<'_>) -> Self {
        let mut by_thread: BTreeMap<(u32, u64), Vec<&WaitSpan>> = BTreeMap::new();
        for wait in index.timelines.waits().filter(|wait| wait.class == WaitClass::SocketRead) {
            let Object::Inet(ino) = wait.object else { continue };
            if index.said.is_read(wait.thread.pid, ino) {
                by_thread.entry((wait.thread.tid, ino)).or_default().push(wait);
            }
        }
        let mut found = Self::default();
        for ((tid, ino), mut all) in by_thread {
            all.sort_by_key(|wait| wait.begin_ns);
            let runs = runs(index, &all);
            let paced = runs.iter().filter(|run| run.ends_by_clock() && run.goes_on).count();
            let mut last = None;
            for run in &runs {
                // What nobody owed then nobody owes now: nothing has come since.
                let goes_on = last == Some(For::OwnTime) && run.before.is_some();
                last = run.is_for(index, ino, (paced, goes_on));
                if let Some(what) = last {
                    found.waits.extend(run.waits.iter().map(|it| ((tid, it.begin_ns), what)));
                }
            }
        }
        found
    }

    /// Ends chains at such waits, as nobody has to act for them.
    pub(super) fn lead(&mut self, index: &Index<'_>, leaves: Vec<Leaf>) -> Vec<Leaf> {
        leaves.into_iter().map(|leaf| self.led(index, leaf)).collect()
    }

    /// How long what comes next was waited for on a connection, nanoseconds.
    pub(super) fn news_ns(&self, object: &Object) -> Ns {
        self.news_ns.get(object).copied().unwrap_or_default()
    }

    /// The first such wait in a chain, and what it is for.
    fn found(&self, leaf: &Leaf) -> Option<(usize, For)> {
        let found = |link: &Arc<ChainLink>| {
            let reads = link.class == WaitClass::SocketRead;
            self.waits.get(&(link.who.tid, link.since_ns)).copied().filter(|_| reads)
        };
        leaf.links.iter().enumerate().find_map(|(at, link)| Some((at, found(link)?)))
    }

    /// A chain that leads to a wait until a time of somebody's own, ended there; otherwise nothing.
    pub(super) fn own_time(&self, leaf: &Leaf) -> Option<Leaf> {
        let (at, _) = self.found(leaf).filter(|(_, what)| *what == For::OwnTime)?;
        let mut leaf = leaf.clone();
        end_by_clock(&mut leaf, at);
        Some(leaf)
    }

    fn led(&mut self, index: &Index<'_>, mut leaf: Leaf) -> Leaf {
        let Some((at, what)) = self.found(&leaf) else { return leaf };
        if what == For::News && !rests(index, &leaf, at) {
            return leaf;
        }
        match what {
            For::News => {
                leaf.links.truncate(at + 1);
                leaf.circle = None;
                let object = leaf.links[at].object.clone();
                *self.news_ns.entry(object).or_default() += leaf.ns();
            }
            For::OwnTime => end_by_clock(&mut leaf, at),
        }
        leaf
    }
}

/// Ends a chain at a link that waits until a time of its own.
fn end_by_clock(leaf: &mut Leaf, at: usize) {
    leaf.links.truncate(at + 1);
    leaf.circle = None;
    let link = ChainLink::clone(&leaf.links[at]);
    let (class, by_clock, own_clock) = (WaitClass::Idle, true, true);
    leaf.links[at] = Arc::new(ChainLink { class, by_clock, own_clock, ..link });
}

/// Whether somebody is behind a link of a chain who rests, as far as anything was seen of him: he waits for whatever comes next, and for nothing that is held. A
/// peer elsewhere may have sent what was lost on the way.
fn rests(index: &Index<'_>, leaf: &Leaf, at: usize) -> bool {
    let root = leaf.root();
    let sleeps =
        || index.waits.ran_within_ns(&root.who, leaf.begin_ns, leaf.end_ns) * 2 < leaf.ns();
    let rests = match root.class {
        WaitClass::Idle => true,
        WaitClass::Unseen => sleeps(),
        _ => false,
    };
    at + 1 < leaf.links.len() && rests && leaf.named().is_none_or(|named| named <= at)
}

/// The runs of the waits of one thread on one connection, which are in order of time.
fn runs<'a>(index: &Index<'a>, all: &[&'a WaitSpan]) -> Vec<Run<'a>> {
    let Some(first) = all.first() else { return Vec::new() };
    let far = far_pids(index, first);
    let talk = (first.thread.pid, &far[..]);
    let sends = |from, to| index.woken.first_ns(talk, (from, to), PAUSE_MAX.ns()).is_some();
    let mut runs: Vec<Run<'_>> = Vec::new();
    for wait in all.iter().copied() {
        let Some(run) = runs.last_mut() else {
            runs.push(Run::of(wait, None, false));
            continue;
        };
        let before = run.last();
        let until = wait.begin_ns.min(before.end_ns.saturating_add(PAUSE_MAX.ns()));
        let is_at_once = until == wait.begin_ns;
        // Of others it decides nothing.
        let sends = (is_by_clock(before) || is_by_clock(wait)) && sends(before.end_ns, until);
        // Who waits there in another way at once has gone on too.
        let is_other = !far.is_empty() && before.place.syscall != wait.place.syscall;
        if is_by_clock(before) && is_at_once && !sends && !is_other {
            run.waits.push(wait);
            continue;
        }
        (run.goes_on, run.is_last) = (sends || is_at_once && is_other, false);
        runs.push(Run::of(wait, is_at_once.then_some(before), sends));
    }
    if let Some(run) = runs.last_mut() {
        let last = run.last();
        let until = last.end_ns.saturating_add(PAUSE_MAX.ns());
        run.goes_on = sends(last.end_ns, until);
    }
    runs
}

fn far_pids(index: &Index<'_>, wait: &WaitSpan) -> Vec<u32> {
    let Object::Inet(ino) = wait.object else { return Vec::new() };
    let socket = index.model.called.socket(ino);
    let far = socket.map(|socket| index.connections.far_processes(socket));
    far.into_iter().flatten().map(|far| far.pid).collect()
}

impl<'a> Run<'a> {
    fn of(first: &'a WaitSpan, before: Option<&'a WaitSpan>, asks: bool) -> Self {
        Self { waits: vec![first], before, asks, goes_on: false, is_last: true }
    }

    fn begin_ns(&self) -> Ns {
        self.waits[0].begin_ns
    }

    fn last(&self) -> &'a WaitSpan {
        self.waits[self.waits.len() - 1]
    }

    fn ends_by_clock(&self) -> bool {
        is_by_clock(self.last()) && !self.last().standing
    }

    /// What it is for, if nobody owes an answer. `paced`: how many runs on the connection the clock and a word of the thread's own ended;
    /// `of_pace`: it goes on from one that was for a time of its own.
    fn is_for(&self, index: &Index<'_>, ino: u64, (paced, of_pace): (usize, bool)) -> Option<For> {
        let pid = self.last().thread.pid;
        let is_paced = paced >= PACED_MIN.count() && index.said.is_greeted(pid, ino);
        let is_answered = || of_pace || index.said.is_all(pid, ino, self.begin_ns());
        let is_free = || is_answered() || !self.asks && self.follows_an_answer(index);
        if self.ends_by_clock() && self.goes_on {
            let is_own = is_paced || is_free() && !self.is_owed(index);
            return is_own.then_some(For::OwnTime);
        }
        // Who gives up has waited for the rest of an answer, or for news.
        let gives_up = || self.ends_by_clock() && self.is_last;
        let is_ended = self.last().standing || gives_up() || is_ended_by_signal(index, self.last());
        (is_ended && is_answered() && !self.is_owed(index)).then_some(For::News)
    }

    /// Whether a word of the other end came right before it.
    fn follows_an_answer(&self, index: &Index<'_>) -> bool {
        let Some(before) = self.before else { return false };
        let far = far_pids(index, before);
        carrier(before).is_some_and(|by| far.contains(&by.pid))
    }

    /// Whether the process has a question outstanding meanwhile, on whichever connection.
    fn is_owed(&self, index: &Index<'_>) -> bool {
        let mut debts = index.debts.asked_by(self.last().thread.pid);
        debts.any(|debt| {
            let until_ns = debt.answered_ns.unwrap_or(debt.seen_ns);
            let (begin_ns, end_ns) = (self.begin_ns(), self.last().end_ns);
            debt.since_ns.saturating_add(APART_MIN.ns()) < end_ns
                && until_ns > begin_ns.saturating_add(APART_MIN.ns())
        })
    }
}

/// Whether a signal ended a wait that asks to end, or kills.
fn is_ended_by_signal(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let asked =
        || wait.wake.as_ref().is_some_and(|wake| is_asked_to_end(index, &wait.thread, wake));
    is_killed(index, wait) || asked()
}

#[cfg(test)]
mod tests {
    use crate::answer::report::Severity;
    use crate::answer::{Report, explain};
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::net::scenes::{inet, look_at, with_state};
    use crate::rules::scenes::{at_place, host, thread};

    const MS: Ns = 1_000_000;
    const CLIENT: u32 = 10;
    const SERVER: u32 = 20;
    const CLOCK: (WakeContext, u32) = (WakeContext::HardInterrupt, 0);
    const ANSWER: (WakeContext, u32) = (WakeContext::SoftInterrupt, SERVER);
    const WORD: (WakeContext, u32) = (WakeContext::SoftInterrupt, CLIENT);
    /// By a signal that asks to end.
    const SIGNAL: (WakeContext, u32) = (WakeContext::Task, 40);
    /// When the last word came, and went, milliseconds.
    const ANSWERED: (u32, u32) = (100, 60);
    const ASKED: (u32, u32) = (60, 100);

    fn waits(
        pid: u32,
        (begin_ms, end_ms): (u64, u64),
        (context, by): (WakeContext, u32),
    ) -> Vec<Fact> {
        let near = inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let (syscall, object) = match pid {
            CLIENT => ("poll", Some(near)),
            _ => ("epoll_wait", (by == CLIENT).then_some(far)),
        };
        let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
        let wake = Wake { at_ns: end_ns, context, by: thread(by, "other"), ..Wake::default() };
        let args = [3, 1, 2_000, 2_000, 0, 0];
        let state = WaitState::Sleep;
        let place = Place { state, syscall: syscall.into(), args, object, ..Place::default() };
        let who = thread(pid, "job");
        let wake = Some(wake);
        let wait = Wait { thread: who.clone(), begin_ns, end_ns, place, wake, ..Wait::default() };
        let from = thread(by, "timeout");
        let asks = Signal { from, to: who, signal: 15, ignored: false, inner_pid: None };
        let asks = Fact { at_ns: end_ns, body: Body::Signal(asks) };
        let signal = (context == WakeContext::Task).then_some(asks);
        signal.into_iter().chain([Fact { at_ns: end_ns, body: Body::Wait(wait) }]).collect()
    }

    /// What is said of a command, or a process, that waits on its connection to a server: their waits; what the clocks say after half of the look; and where the server is where
    /// none of its waits is reported.
    fn said_of(
        kind: TargetKind,
        facts: Vec<Vec<Fact>>,
        (came_ms, went_ms): (u32, u32),
        server: &str,
    ) -> Report {
        const READ_MS: u32 = 2_500;
        let near = inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let far = inet("tcp", 200, "127.0.0.1:80", "127.0.0.1:40000", 1);
        let listens = inet("tcp", 300, "127.0.0.1:80", "0.0.0.0:0", 10);
        let turn = TcpTurn {
            sent_jiffies: READ_MS - went_ms,
            received_jiffies: READ_MS - came_ms,
            jiffy_ns: 1_000_000,
            ..TcpTurn::default()
        };
        let turn = Some(turn);
        let state =
            SocketState { turn, acked_bytes: 80, received_bytes: 90, ..SocketState::default() };
        let read = with_state(CLIENT, "client", near, state);
        let at = Place { state: WaitState::Sleep, syscall: server.into(), ..Place::default() };
        let scene = vec![
            look_at(kind, CLIENT),
            with_state(SERVER, "server", listens, SocketState::default()),
            with_state(SERVER, "server", far, SocketState::default()),
            Fact { at_ns: u64::from(READ_MS) * MS, ..read },
            at_place(SERVER, "server", at),
        ];
        explain([host(), scene, facts.concat()].concat())
    }

    fn said(facts: Vec<Vec<Fact>>, clocks: (u32, u32), server: &str) -> Report {
        said_of(TargetKind::Command, facts, clocks, server)
    }

    /// The end of most of its time, whether that is for news, and whether the server is behind it.
    fn most(facts: Vec<Vec<Fact>>, clocks: (u32, u32), server: &str) -> (EndKind, bool, bool) {
        let end = &said(facts, clocks, server).answer.ends[0];
        let is_server = end.chain.iter().any(|link| link.who.pid == Some(SERVER));
        (end.end, end.unasked, is_server)
    }

    #[test]
    fn who_listens_until_it_is_ended_waits_for_news_and_who_has_asked_for_its_server() {
        let one = |ended| vec![waits(CLIENT, (105, 4_900), ended)];
        let news = (EndKind::Remote, true, false);
        assert_eq!(most(one(SIGNAL), ANSWERED, "epoll_wait"), news);
        let pieces = |ended| {
            let all = [((105, 1_105), CLOCK), ((1_106, 3_000), CLOCK), ((3_001, 4_900), ended)];
            all.into_iter().map(|(at, by)| waits(CLIENT, at, by)).collect::<Vec<_>>()
        };
        assert_eq!(most(pieces(SIGNAL), ANSWERED, "epoll_wait"), news, "it looks at the clock");
        let is_late = |facts, said, does| matches!(most(facts, said, does), (_, false, true));
        assert!(is_late(one(SIGNAL), ASKED, "epoll_wait"), "a mute server");
        assert!(is_late(pieces(SIGNAL), ASKED, "epoll_wait"), "a mute server");
        assert!(is_late(pieces(ANSWER), ANSWERED, "epoll_wait"), "the rest of an answer");
        assert!(is_late(one(SIGNAL), ANSWERED, "nanosleep"), "it may still be at the answer");
        let severity = |clocks| {
            let found = said(one(ANSWER), clocks, "epoll_wait").findings;
            let of_peer = found.iter().find(|it| it.code == "process.socket_peer");
            of_peer.map(|it| it.severity)
        };
        assert!(severity(ASKED) > Some(Severity::Note), "the answer came late");
        assert!(severity(ANSWERED) <= Some(Severity::Note), "it may be news");
    }

    /// Waits of a second each, so many of them ended by the clock, after which the client says a word.
    fn paced(words: u64) -> Vec<Vec<Fact>> {
        let at_ms = |n: u64| 105 + n * 1_100;
        let round = |n: u64| {
            let own = waits(CLIENT, (at_ms(n), at_ms(n) + 1_095), CLOCK);
            let server = waits(SERVER, (at_ms(n), at_ms(n) + 1_097), WORD);
            if n < words { [own, server].concat() } else { own }
        };
        (0..4).map(round).collect()
    }

    #[test]
    fn who_goes_on_when_a_time_is_over_waits_for_that_and_not_for_its_server() {
        let own =
            |words, said| most(paced(words), said, "epoll_wait") == (EndKind::Sleep, false, false);
        assert!(own(4, ANSWERED), "its server had the last word");
        assert!(own(4, ASKED), "nobody answers its words, and it goes on all the same");
        assert!(!own(2, ASKED), "it asks again");
        assert!(!own(0, ASKED), "it looks at the clock, and waits on");
    }

    #[test]
    fn a_process_that_sends_at_its_own_pace_waits_for_its_own_time_too() {
        let is_own = |words, clocks| {
            let said = said_of(TargetKind::Process, paced(words), clocks, "epoll_wait");
            said.answer.ends.first().is_some_and(|end| {
                let is_server = end.chain.iter().any(|link| link.who.pid == Some(SERVER));
                end.end == EndKind::Sleep && !is_server
            })
        };
        assert!(is_own(4, ANSWERED));
        assert!(!is_own(0, ASKED), "it has asked, and looks at the clock");
    }
}
