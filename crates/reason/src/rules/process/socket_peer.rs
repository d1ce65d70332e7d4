//! process.socket_peer: a client waits for a server on the same host that is slow by its own doing.
//!
//! Reading from a socket is a wait for work unless a question is outstanding. So the wait alone says nothing: it
//! counts where the server was woken by this client (questions) and the client by this server (answers), and where the
//! chain ends in the server's own time: it sleeps or works. A stream of news that the client only listens to has answers
//! without questions. Where nothing ends in the look, the clocks of the connection tell that a question is outstanding
//! (graph/debts.rs); that counts for whoever was asked about, for on a host a long poll looks the same. Who asks about the
//! server itself is answered in owing.rs. Rejected: any wait for a busy peer (every idle connection to a busy server is one).

use super::owing;
use super::who_talks::{Asked, PART_MAX, Talk, first_question, is_read};
use crate::facts::{TargetKind, ThreadRef};
use crate::graph::chains::ChainLink;
use crate::graph::end::{End, EndKind};
use crate::graph::wakers::carrier;
use crate::measure::Measures;
use crate::measure::longest_wait::LongestWait;
use crate::measure::own_functions::{stands_in, works_in};
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::holder_doing::AT_WORK;
use crate::rules::proof::Proof;
use crate::rules::wait_words::{self, AWAITS_TIMEOUT, TIMED_OVER};
use crate::rules::wording::{Evidence, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, ask, culprit};
use crate::threshold::Threshold;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, goroutines};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

static SLOW: Threshold = Threshold::new(
    0.03,
    "s",
    "mean wait for an answer; a round trip on one host takes about 50 us, and pollers answer at their own beat of ten \
     milliseconds or so: beyond three such beats somebody waits for it, whether the server sleeps or computes",
    "reference machine: round trips over unix and loopback sockets",
);
static COMMAND_WAITS: Threshold = Threshold::new(
    0.3,
    "s",
    "what a command, or the process that was asked about, waits for the server altogether; less is no delay that a person notices, \
     and any login takes as much",
    "chosen: a round trip around the world, as for net.slow_peer",
);
static ANSWERS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "answers in the look; fewer may be chance (who was asked about and asks once has all its time in that one answer)",
    "chosen",
);

/// Of a server of which nobody saw what it did meanwhile.
const UNSEEN_OVER: &str = "was not seen over";

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.socket_peer",
    title: "A client waits for a local server that is slow by its own doing",
    theory: "A client that has asked sleeps in recv until the server answers. Where the server neither waits for a \
             disk, a lock nor a CPU, but sleeps or computes between question and answer, nothing in the kernel is \
             slow: the time is the server's own.",
    needs: &[
        "the client waits in read or recv on a connected socket whose other end is a process on this host",
        "the server's threads were woken by that client's questions, and the client by its answers; or the client spoke last \
         on the connection, and has waited for the answer to the end of the look",
        "meanwhile the server sleeps or works, and waits for nothing with a name",
        "or, where the server is what was asked about: it sleeps on purpose, and its connections owe answers meanwhile",
    ],
    refuted_by: &[
        Refutation::new(
            "the server waits for work itself (the connection is idle)",
            "a_server_that_waits_for_work_is_asked_nothing",
        ),
        Refutation::new(
            "the server waits for a disk, a lock, a CPU or another server (then that is the finding)",
            "a_server_that_waits_for_a_cpu_is_the_cpus_victim",
        ),
        Refutation::new(
            "the client only listens: it never woke the server",
            "a_listener_to_news_waits_for_work",
        ),
        Refutation::new(
            "who waits is the one that was connected to: he serves, and waits for the next question",
            "who_connected_is_no_server_however_long_he_thinks_between_two_questions",
        ),
        Refutation::new("the answers come quickly", "a_quick_server_is_nothing"),
        Refutation::new(
            "the server that was asked about sleeps, and owes nobody an answer",
            "a_server_that_owes_nothing_may_sleep",
        ),
    ],
    remedies: &[
        "find out why the server takes its time",
        "more workers, if it serves one client at a time",
    ],
    stories: &["S4.3"],
    thresholds: &[&SLOW, &COMMAND_WAITS, &ANSWERS_MIN, &AT_WORK, &PART_MAX],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let mut by_server: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, end) in ends.iter().enumerate().filter(|(_, end)| !end.victims.is_empty()) {
        if let Some(server) = server_of(measures, end) {
            by_server.entry(server).or_default().push(at);
        }
    }
    if by_server.is_empty() {
        return owing::found(measures, ends, &COMMAND_WAITS).into_iter().collect();
    }
    let talk = Talk::of(measures);
    let all = by_server.into_iter();
    let waited = all.filter_map(|(server, at)| matched(measures, ends, &talk, server, &at));
    waited.chain(owing::found(measures, ends, &COMMAND_WAITS)).collect()
}

/// Whether it is the process that somebody asked about.
fn is_target(measures: &Measures<'_>, pid: u32) -> bool {
    let target = measures.model.look.target.as_ref();
    target.is_some_and(|target| target.kind == TargetKind::Process && target.pid == pid)
}

fn is_container(measures: &Measures<'_>) -> bool {
    measures.model.look.target.as_ref().is_some_and(|target| target.kind == TargetKind::Container)
}

/// Whose own time an end is that others reach by reading from a socket.
fn server_of(measures: &Measures<'_>, end: &End) -> Option<u32> {
    let reads = end.via.iter().any(|(class, seconds)| is_read(*class) && *seconds > 0.0);
    if !reads && !question(measures, end).is_some_and(|(asks, _)| is_asked_on(asks)) {
        return None;
    }
    let is_brought = end.links.iter().any(|link| link.is_brought);
    let its_own = match (end.kind, end.class) {
        // A command has asked, so an event loop that waits for other events has it wait for its own reasons. Others may wait for
        // work: for what another client brings, or until an agreed time.
        (EndKind::Open | EndKind::Idle | EndKind::Sleep, WaitClass::Idle) => measures.is_command(),
        _ if is_brought => measures.is_command(),
        (EndKind::Works | EndKind::Sleep, _) | (EndKind::Open, WaitClass::Unseen) => true,
        _ => false,
    };
    if !its_own {
        return None;
    }
    match (question(measures, end), &end.who, &end.object) {
        (Some((_, server)), _, _) => Some(server.who.pid),
        (None, Some(who), _) => Some(who.pid),
        (None, None, Object::Process(pid)) => Some(*pid),
        _ => None,
    }
}

/// The last link of an end's chain that reads from a socket, and the one at the other end. An event loop has asked where its
/// connection says so, and on a command's path whenever it waits for another process.
fn question<'e>(measures: &Measures<'_>, end: &'e End) -> Option<(&'e ChainLink, &'e ChainLink)> {
    let is_loop = |pair: &[Arc<ChainLink>]| {
        pair[0].class == WaitClass::Idle && pair[0].who.pid != pair[1].who.pid
    };
    let asks = |pair: &[Arc<ChainLink>]| {
        is_read(pair[0].class) || is_loop(pair) && (measures.is_command() || is_asked_on(&pair[0]))
    };
    // What comes through a pipe is no answer by itself: whoever reads it has been asked on a connection.
    let on_socket = |pair: &[Arc<ChainLink>]| match is_read(pair[0].class) {
        true => matches!(pair[0].object, Object::Inet(_) | Object::Unix(_)),
        false => is_loop(pair) && is_asked_on(&pair[0]),
    };
    let pairs = || end.links.windows(2);
    let at = pairs().rposition(on_socket).or_else(|| pairs().rposition(asks))?;
    Some((&end.links[at], &end.links[at + 1]))
}

/// Whether an event loop waits for an answer on a connection, and for nobody's question.
fn is_asked_on(link: &ChainLink) -> bool {
    matches!(link.object, Object::Inet(_)) && link.question_of.is_none()
}

/// What a server's clients lose to its own time.
#[derive(Default)]
struct Waited {
    /// By end, with the victims whose part it is; none: everybody's.
    parts: Vec<(usize, Option<BTreeSet<u32>>)>,
    at_work: f64,
    asleep: f64,
    /// Of that, in waits that their own timeout ended.
    timed: f64,
    elsewhere: f64,
    /// Of which nobody saw what it did.
    unseen: f64,
}

impl Waited {
    /// Of the clients that ask it, and of those that wait for them.
    fn of(
        measures: &Measures<'_>,
        ends: &[End],
        (talk, asked): (&Talk, &Asked),
        server: u32,
        all: &[usize],
    ) -> Self {
        let behind = talk.behind(server, &asked.clients);
        let mut waited = Self::default();
        for at in all {
            let end = &ends[*at];
            let in_chain = question(measures, end)
                .is_some_and(|(client, _)| asked.clients.contains(&client.who.pid));
            let victims = if measures.is_command() {
                if !in_chain {
                    continue;
                }
                None
            } else {
                let first = end.first_victim().pid;
                let is_client = |pid: &u32| {
                    *pid != server && (behind.contains(pid) || in_chain && *pid == first)
                };
                Some(end.victims.keys().copied().filter(is_client).collect::<BTreeSet<u32>>())
            };
            let seconds = match &victims {
                None => end.seconds,
                Some(own) => own.iter().map(|pid| end.victims[pid].1).sum(),
            };
            match end.kind {
                _ if seconds <= 0.0 => continue,
                EndKind::Sleep => {
                    waited.asleep += seconds;
                    waited.timed += if end.is_timed() { seconds } else { 0.0 };
                }
                EndKind::Works => waited.at_work += seconds,
                EndKind::Open if end.class == WaitClass::Unseen => waited.unseen += seconds,
                _ => waited.elsewhere += seconds,
            }
            waited.parts.push((*at, victims));
        }
        waited
    }

    fn seconds(&self) -> f64 {
        self.at_work + self.asleep + self.elsewhere + self.unseen
    }

    /// Who waits.
    fn victims(&self, ends: &[End]) -> BTreeSet<u32> {
        let of_part = |(at, victims): &(usize, Option<BTreeSet<u32>>)| match victims {
            Some(own) => own.clone(),
            None => ends[*at].victims.keys().copied().collect(),
        };
        self.parts.iter().flat_map(of_part).collect()
    }

    fn is_at_work(&self) -> bool {
        self.at_work >= AT_WORK.value * self.seconds()
    }

    /// It mostly waits for events, which somebody brings.
    fn is_elsewhere(&self) -> bool {
        !self.is_at_work() && !self.is_unseen() && self.asleep < self.elsewhere
    }

    fn is_unseen(&self) -> bool {
        !self.is_at_work() && self.unseen > self.asleep.max(self.elsewhere)
    }

    fn is_sure(&self) -> bool {
        !self.is_at_work() && !self.is_unseen()
    }

    /// What it is at most: that its own work, or what nobody saw, is the reason has one witness, and who waits for other events after its last word may owe nothing.
    fn severity_max(&self, measures: &Measures<'_>, read: &ChainLink) -> Option<Severity> {
        match self.is_elsewhere() && measures.graph.is_after_an_answer(read) {
            true => Some(Severity::Note),
            false => (!self.is_sure()).then_some(Severity::Warning),
        }
    }

    /// What it mostly does, over an answer and in general, and its share of the time.
    fn doing(&self) -> (&'static str, &'static str, f64) {
        let (over, does, seconds) = match self.asleep >= self.elsewhere {
            _ if self.is_at_work() => ("is at work over", "is at work", self.at_work),
            _ if self.is_unseen() => (UNSEEN_OVER, "was not seen", self.unseen),
            true if self.timed * 2.0 > self.asleep => (TIMED_OVER, AWAITS_TIMEOUT, self.asleep),
            true => ("sleeps over", "sleeps", self.asleep),
            false => ("waits for something else over", "waits for other events", self.elsewhere),
        };
        (over, does, seconds / self.seconds().max(1e-9))
    }

    /// The end that most is lost to.
    fn greatest<'e>(&self, measures: &Measures<'_>, ends: &'e [End]) -> Option<&'e End> {
        let asked = |(at, _): &(usize, _)| question(measures, &ends[*at]).is_some();
        let most = self
            .parts
            .iter()
            .filter(|part| asked(part))
            .max_by(|a, b| ends[a.0].seconds.total_cmp(&ends[b.0].seconds))?;
        Some(&ends[most.0])
    }
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    talk: &Talk,
    server: u32,
    all: &[usize],
) -> Option<Match<'m>> {
    let mut asked = talk.with(server, measures.model.look.is_asked_about());
    let outstanding = outstanding(measures, ends, server, all);
    let is_outstanding = !outstanding.is_empty();
    asked.clients.extend(outstanding);
    let waited = Waited::of(measures, ends, (talk, &asked), server, all);
    let greatest = waited.greatest(measures, ends)?;
    let first = first_question(&greatest.links);
    let first =
        first.filter(|(asks, _)| measures.is_command() || is_target(measures, asks.who.pid));
    if measures.is_command() {
        // Whoever is behind that answers others too; of a command's programs each may have asked.
        let first_questions =
            waited.parts.iter().filter_map(|(at, _)| first_question(&ends[*at].links));
        let pairs: BTreeSet<(u32, u32)> =
            first_questions.map(|(asks, by)| (by.who.pid, asks.who.pid)).collect();
        let answered: usize = pairs.iter().filter_map(|(by, asks)| talk.answered(*by, *asks)).sum();
        asked.answers = if answered > 0 { answered } else { asked.answers };
    } else if let Some((asks, by)) = first.filter(|_| is_outstanding) {
        asked.answers = talk.answered(by.who.pid, asks.who.pid).unwrap_or(0);
    } else {
        // Whoever waits through others is answered by them, each time: the server's own answers are not all that are waited for.
        let mut from = talk.behind(server, &asked.clients);
        from.insert(server);
        asked.answers = asked.answers.max(talk.received(&waited.victims(ends), &from));
    }
    let answer = waited.seconds() / asked.answers.max(1) as f64;
    // Who was asked about and asks once has all its time in that one answer; in a container others ask too.
    let is_one = is_outstanding || measures.model.look.is_asked_about() && !is_container(measures);
    let answers_min = if is_one { 1 } else { ANSWERS_MIN.count() };
    let is_short = is_one && waited.seconds() < COMMAND_WAITS.value;
    if asked.answers + usize::from(is_outstanding) < answers_min || answer < SLOW.value || is_short
    {
        return None;
    }
    let (read, _) = question(measures, greatest)?;
    let server = wait_words::main_thread(measures, server);
    // Who listens, or begins another program for an answer, may have somebody else do it.
    let actor = greatest.who.as_ref().filter(|who| who.pid != server.pid);
    let actor =
        actor.map_or_else(|| server.clone(), |who| wait_words::main_thread(measures, who.pid));
    let (client, server) = match first {
        Some((asks, answers)) => (
            wait_words::main_thread(measures, asks.who.pid),
            wait_words::main_thread(measures, answers.who.pid),
        ),
        None => (wait_words::main_thread(measures, read.who.pid), server),
    };
    let proof = if waited.is_sure() { Proof::TwoWitnesses } else { Proof::OneWitness };
    let severity_max = waited.severity_max(measures, read);
    let (parts, by) = (waited.parts.clone(), culprit(measures.model, &actor));
    let lengths = lengths(measures, talk, read, server.pid);
    let place = place(measures, greatest, &actor, waited.is_at_work());
    let of_its_name = greatest.of_its_name;
    let answers =
        Answers { client, server, actor, of_its_name, place, waited, asked, lengths, answer };
    let explain = move |loss: &Loss<'_>| answers.explain(measures, read, loss);
    let matched = Match::new(by, proof, explain).on(read.object.clone());
    let mut matched =
        parts.into_iter().fold(matched, |matched, (at, victims)| matched.claiming(at, victims));
    matched.severity_max = severity_max.unwrap_or(matched.severity_max);
    Some(matched)
}

/// Clients that have asked a server and have no answer by the end of the look, where somebody asked about one process.
fn outstanding(measures: &Measures<'_>, ends: &[End], server: u32, all: &[usize]) -> BTreeSet<u32> {
    let awaits = &measures.graph.debts().awaits;
    // An event loop that the clock ends may wait for other events all the while: a long poll.
    let own_time = |at: &&usize| ends[**at].class != WaitClass::Idle;
    let asks = all.iter().filter(own_time).filter_map(|at| question(measures, &ends[*at]));
    let asks = asks.filter(|(read, by)| {
        let debts = awaits.get(&read.who.pid).map_or(&[][..], Vec::as_slice);
        by.who.pid == server && debts.iter().any(|debt| read.object == Object::Inet(debt.ino))
    });
    match measures.model.look.is_asked_about() {
        true => asks.map(|(read, _)| read.who.pid).collect(),
        false => BTreeSet::new(),
    }
}

/// In which of its functions the actor spends the time of an end.
fn place(measures: &Measures<'_>, end: &End, actor: &ThreadRef, at_work: bool) -> String {
    if at_work {
        // A file alone says no more than the program's name.
        let works = works_in(measures, actor.pid).filter(|place| place.contains("()"));
        return works.map_or_else(String::new, |place| format!(", most of it in {place}"));
    }
    let model = measures.model;
    let within = (model.look.begin_ns, model.look.end_ns);
    if let Some(all) = goroutines::summary(model, actor.pid, within) {
        return format!(" ({all})");
    }
    let root = end.links.last().filter(|root| root.who.pid == actor.pid);
    let stands = root.and_then(|it| stands_in(measures.model, &it.who, (it.since_ns, it.end_ns)));
    stands.map_or_else(String::new, |place| format!(" in {place}"))
}

/// How long a client waited for each answer of a server, by its waits that the server ended, on whatever connection.
fn lengths(measures: &Measures<'_>, talk: &Talk, read: &ChainLink, server: u32) -> Vec<f64> {
    let by_server = |wait: &WaitSpan| {
        wait.thread.pid == read.who.pid
            && is_read(wait.class)
            && carrier(wait).is_some_and(|by| by.pid == server)
    };
    let waits = measures.waits().filter(|wait| is_on(wait, read) || by_server(wait));
    let look = &measures.model.look;
    talk.lengths(waits, (server, (look.begin_ns, look.end_ns)))
}

/// A server and how it answers.
struct Answers {
    /// Who asks: of a command the first that does.
    client: ThreadRef,
    /// Whom it asks.
    server: ThreadRef,
    /// Whose time an answer takes: the server, or whom it waits for.
    actor: ThreadRef,
    /// Processes of that one's name which took it by turns.
    of_its_name: usize,
    /// In which of its functions, as a clause; empty if that is not known.
    place: String,
    waited: Waited,
    asked: Asked,
    /// How long the client waited for each answer, seconds.
    lengths: Vec<f64>,
    /// Mean wait for one, seconds.
    answer: f64,
}

impl Answers {
    fn explain(&self, measures: &Measures<'_>, read: &ChainLink, loss: &Loss<'_>) -> Wording {
        let (who, server) =
            (measures.model.threads.who(&self.actor), measures.model.threads.who(&self.server));
        let is_server = who == server;
        let who = who + &words::one_of(self.of_its_name);
        let (over, does, share) = self.waited.doing();
        let client = measures.model.threads.who(&self.client);
        let waits = match is_server {
            true => format!("waits for {who}"),
            false => format!("waits through {server} for {who}"),
        };
        // Of one client that asks itself its waits tell how many there were: what comes in parts is one.
        let is_direct = read.who.pid == self.client.pid && self.asked.clients.len() == 1;
        let count = match self.lengths.len() {
            known if known > 0 && is_direct => known.min(self.asked.answers),
            _ => self.asked.answers,
        };
        let answer = words::seconds(self.waited.seconds() / count.max(1) as f64);
        let asked = (count, self.waited.seconds());
        let over_all = wait_words::over_answers(over, &self.lengths, asked);
        let (title, answers) = match count {
            0 => (
                format!("{client} {waits}, which {does} and has not answered for {answer}"),
                "an answer".to_string(),
            ),
            1 => (
                format!("{client} {waits}, which {over} the answer for {answer}"),
                "1 answer".to_string(),
            ),
            _ => (
                format!("{client} {waits}, which {over_all}"),
                words::count(count, "answer", "answers"),
            ),
        };
        Wording {
            title,
            text: format!(
                "{} pass in waits for {answers} of {server}. Meanwhile {} {does} for {} of that time{}{}.",
                words::of_window(loss.seconds, loss.wall_seconds),
                if is_server { "it" } else { &*who },
                words::percent(share),
                self.place,
                match self.waited.is_elsewhere() {
                    true => "; who is to bring them was not seen",
                    false if self.waited.is_unseen() => "",
                    false => ", and waits for nothing that has a name: the time is its own",
                },
            ),
            evidence: self.evidence(measures, read, loss),
            remedy: ask::between_answers(measures.model, &self.actor, self.waited.is_at_work()),
        }
    }

    fn evidence(
        &self,
        measures: &Measures<'_>,
        read: &ChainLink,
        loss: &Loss<'_>,
    ) -> Vec<Evidence> {
        let who = measures.model.threads.who(&self.server);
        let reads = || {
            let on_it = |w: &&_| is_on(w, read);
            measures.waits().filter(on_it)
        };
        let longest = LongestWait::of(measures.model, reads());
        let mut evidence =
            wait_words::wait_evidence(loss.seconds, reads().count(), &longest, "answers");
        let source = "sched_waking, sched_switch";
        let (_, does, share) = self.waited.doing();
        let (answers, questions) = (self.asked.answers as f64, self.asked.questions as f64);
        evidence.extend([
            Evidence::new("mean wait for an answer", self.answer, "s", source),
            Evidence::new(
                format!("answers that {who} woke its clients with"),
                answers,
                "1",
                source,
            ),
            Evidence::new(format!("questions that woke {who}"), questions, "1", source),
            Evidence::new(format!("share of that time in which {who} {does}"), share, "1", source),
        ]);
        evidence
    }
}

fn is_on(wait: &WaitSpan, read: &ChainLink) -> bool {
    let is_its = wait.object == read.object && wait.thread.pid == read.who.pid;
    is_its && (is_read(wait.class) || wait.class == read.class)
}

#[cfg(test)]
mod tests {
    use super::Waited;

    #[test]
    fn whom_nobody_saw_is_not_at_work() {
        let waited = |at_work, unseen| Waited { at_work, unseen, ..Waited::default() };
        assert_eq!(waited(0.0, 3.0).doing().1, "was not seen");
        assert_eq!(waited(3.0, 0.0).doing().1, "is at work");
        assert!(!waited(0.0, 3.0).is_sure() && !waited(0.0, 3.0).is_elsewhere());
    }
}
