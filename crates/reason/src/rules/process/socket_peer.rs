//! process.socket_peer: a client waits for a server on the same host that is slow by its own doing.
//!
//! Reading from a socket is a wait for work unless a question is outstanding. So the wait alone says nothing: it
//! counts where the server was woken by this client (questions) and the client by this server (answers), and where the
//! chain ends in the server's own time: it sleeps or works. A stream of news that the client only listens to has answers
//! without questions. Rejected: any wait for a busy peer (every idle connection to a busy server is one).

use super::holder_doing::AT_WORK;
use super::wait_words;
use super::who_talks::{Asked, Talk, is_read};
use crate::facts::TargetKind;
use crate::facts::ThreadRef;
use crate::graph::chains::ChainLink;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::longest_wait::LongestWait;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::threshold::Threshold;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

static SLOW: Threshold = Threshold::new(
    0.03,
    "s",
    "mean wait for an answer; a round trip on one host takes about 50 us, and pollers answer at their own beat of ten \
     milliseconds or so: beyond three such beats somebody waits for it, whether the server sleeps or computes",
    "reference machine: round trips over unix and loopback sockets",
);
static ANSWERS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "answers in the look; fewer may be chance (a command that asks once has all its time in that one answer)",
    "chosen",
);

/// The rule.
pub static RULE: Rule = Rule {
    code: "process.socket_peer",
    title: "A client waits for a local server that is slow by its own doing",
    theory: "A client that has asked sleeps in recv until the server answers. Where the server neither waits for a \
             disk, a lock nor a CPU, but sleeps or computes between question and answer, nothing in the kernel is \
             slow: the time is the server's own.",
    needs: &[
        "the client waits in read or recv on a connected socket whose other end is a process on this host",
        "the server's threads were woken by that client's questions, and the client by its answers",
        "meanwhile the server sleeps or works, and waits for nothing with a name",
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
    ],
    remedies: &[
        "find out why the server takes its time",
        "more workers, if it serves one client at a time",
    ],
    stories: &["S4.3"],
    thresholds: &[&SLOW, &ANSWERS_MIN, &AT_WORK],
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
        return Vec::new();
    }
    let talk = Talk::of(measures);
    let all = by_server.into_iter();
    all.filter_map(|(server, at)| matched(measures, ends, &talk, server, &at)).collect()
}

/// Whether it is a command, a process or a container that somebody asked about, and no whole host.
fn is_asked_about(measures: &Measures<'_>) -> bool {
    measures.model.target.as_ref().is_some_and(|target| target.kind != TargetKind::Host)
}

/// Whose own time an end is that others reach by reading from a socket.
fn server_of(measures: &Measures<'_>, end: &End) -> Option<u32> {
    if !end.via.iter().any(|(class, seconds)| is_read(*class) && *seconds > 0.0) {
        return None;
    }
    let its_own = match (end.kind, end.class) {
        (EndKind::Works | EndKind::Sleep, _) | (EndKind::Open, WaitClass::Unseen) => true,
        // A command has asked, so an event loop that waits for other events has it wait for its own reasons.
        (EndKind::Open | EndKind::Idle, WaitClass::Idle) => measures.is_command(),
        _ => false,
    };
    if !its_own {
        return None;
    }
    match (question(end), &end.who, &end.object) {
        (Some((_, server)), _, _) => Some(server.who.pid),
        (None, Some(who), _) => Some(who.pid),
        (None, None, Object::Process(pid)) => Some(*pid),
        _ => None,
    }
}

/// The last link of an end's chain that reads from a socket, and the one at the other end.
fn question(end: &End) -> Option<(&ChainLink, &ChainLink)> {
    let at = end.links.iter().rposition(|link| is_read(link.class))?;
    Some((&end.links[at], end.links.get(at + 1)?))
}

/// What a server's clients lose to its own time.
#[derive(Default)]
struct Waited {
    /// By end, with the victims whose part it is; none: everybody's.
    parts: Vec<(usize, Option<BTreeSet<u32>>)>,
    at_work: f64,
    asleep: f64,
    elsewhere: f64,
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
            let in_chain =
                question(end).is_some_and(|(client, _)| asked.clients.contains(&client.who.pid));
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
                EndKind::Sleep => waited.asleep += seconds,
                _ if end.class == WaitClass::Idle => waited.elsewhere += seconds,
                _ => waited.at_work += seconds,
            }
            waited.parts.push((*at, victims));
        }
        waited
    }

    fn seconds(&self) -> f64 {
        self.at_work + self.asleep + self.elsewhere
    }

    fn is_at_work(&self) -> bool {
        self.at_work >= AT_WORK.value * self.seconds()
    }

    /// What it mostly does, over an answer and in general, and its share of the time.
    fn doing(&self) -> (&'static str, &'static str, f64) {
        let (over, does, seconds) = match self.asleep >= self.elsewhere {
            _ if self.is_at_work() => ("is at work over", "is at work", self.at_work),
            true => ("sleeps over", "sleeps", self.asleep),
            false => ("waits for something else over", "waits for other events", self.elsewhere),
        };
        (over, does, seconds / self.seconds().max(1e-9))
    }

    /// The end that most is lost to.
    fn greatest<'e>(&self, ends: &'e [End]) -> Option<&'e End> {
        let asked = |(at, _): &(usize, _)| question(&ends[*at]).is_some();
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
    let asked = talk.with(server, is_asked_about(measures));
    let waited = Waited::of(measures, ends, (talk, &asked), server, all);
    let answer = waited.seconds() / asked.answers.max(1) as f64;
    // A command that asks once has all its time in that one answer.
    let answers_min = if measures.is_command() { 1 } else { ANSWERS_MIN.count() };
    if asked.answers < answers_min || answer < SLOW.value {
        return None;
    }
    let (read, _) = question(waited.greatest(ends)?)?;
    let server = wait_words::main_thread(measures, server);
    let at_work = waited.is_at_work();
    let proof = if at_work { Proof::OneWitness } else { Proof::TwoWitnesses };
    let parts = waited.parts.clone();
    let by = culprit(measures.model, &server);
    let answers = Answers { server, waited, asked, answer };
    let explain = move |loss: &Loss<'_>| answers.explain(measures, read, loss);
    let mut matched = Match::new(by, proof, explain).on(read.object.clone());
    for (at, victims) in parts {
        matched = matched.claiming(at, victims);
    }
    if at_work {
        matched.severity_max = Severity::Warning;
    }
    Some(matched)
}

/// A server and how it answers.
struct Answers {
    server: ThreadRef,
    waited: Waited,
    asked: Asked,
    /// Mean wait for one, seconds.
    answer: f64,
}

impl Answers {
    fn explain(&self, measures: &Measures<'_>, read: &ChainLink, loss: &Loss<'_>) -> Wording {
        let who = words::who(&self.server);
        let client = wait_words::main_thread(measures, read.who.pid);
        let (over, does, share) = self.waited.doing();
        let pid = self.server.pid;
        Wording {
            title: format!(
                "{} waits for {who}, which {over} each answer for {}",
                words::who(&client),
                words::seconds(self.answer)
            ),
            text: format!(
                "{} pass in waits for {} of {who}. Meanwhile it {does} for {} of that time, and waits for \
                 nothing that has a name: the time is its own.",
                words::of_window(loss.seconds, loss.wall_seconds),
                words::count(self.asked.answers, "answer", "answers"),
                words::percent(share),
            ),
            evidence: self.evidence(measures, read, loss),
            remedy: vec![Remedy {
                text: format!("see what {who} does between question and answer"),
                command: match self.waited.is_at_work() {
                    true => format!("perf top -p {pid}"),
                    false => format!("strace -f -p {pid} -e trace=%clock,nanosleep,poll"),
                },
                ..Remedy::default()
            }],
        }
    }

    fn evidence(
        &self,
        measures: &Measures<'_>,
        read: &ChainLink,
        loss: &Loss<'_>,
    ) -> Vec<Evidence> {
        let who = words::who(&self.server);
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

fn is_on(wait: &crate::waits::timeline::WaitSpan, read: &ChainLink) -> bool {
    is_read(wait.class) && wait.object == read.object && wait.thread.pid == read.who.pid
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn wait(who: &ThreadRef, by: &ThreadRef, begin_ns: Ns, end_ns: Ns, place: Place) -> Fact {
        let wake =
            Wake { at_ns: end_ns, context: WakeContext::Task, by: by.clone(), ..Wake::default() };
        fact(Body::Wait(Wait {
            thread: who.clone(),
            begin_ns,
            end_ns,
            place,
            wake: Some(wake),
            ..Wait::default()
        }))
    }

    fn read(object: &ObjectRef) -> Place {
        Place {
            state: WaitState::Sleep,
            syscall: "read".into(),
            object: Some(object.clone()),
            ..Place::default()
        }
    }

    fn sleep() -> Place {
        Place { state: WaitState::Sleep, syscall: "nanosleep".into(), ..Place::default() }
    }

    /// Ten rounds of: the client rests, asks, waits; the server sleeps over the answer.
    fn rounds(answer_ms: u64, asks: bool) -> Vec<Fact> {
        rounds_between(None, None, answer_ms, asks)
    }

    /// The same between ends of these names: the one that was accepted has its listener's.
    fn rounds_between(
        near: Option<&str>,
        far: Option<&str>,
        answer_ms: u64,
        asks: bool,
    ) -> Vec<Fact> {
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: near.map(Into::into) };
        let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: far.map(Into::into) };
        let (client, server, timer) = (thread(10, "client"), thread(20, "server"), thread(0, ""));
        let mut facts = host();
        facts.push(endpoint(10, "client", near.clone()));
        facts.push(endpoint(20, "server", far.clone()));
        for round in 0..10 {
            let asked = round * 500_000_000 + 20_000_000;
            let answered = asked + answer_ms * 1_000_000;
            facts.push(wait(&client, &server, asked, answered, read(&near)));
            facts.push(wait(&server, &timer, asked, answered - 1_000, sleep()));
            let by = if asks { &client } else { &timer };
            let place = if asks { read(&far) } else { sleep() };
            facts.push(wait(&server, by, asked - 20_000_000, asked, place));
        }
        facts
    }

    #[test]
    fn a_server_that_sleeps_over_its_answers_is_named() {
        let report = explain(rounds(400, true));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.socket_peer", Severity::Critical));
        assert_eq!(finding.culprit.pid, Some(20));
        assert!(finding.title.contains("sleeps over each answer for 400 ms"), "{}", finding.title);
    }

    #[test]
    fn a_server_that_waits_for_work_is_asked_nothing() {
        let mut facts = rounds(400, true);
        for fact in &mut facts {
            if let Body::Wait(wait) = &mut fact.body
                && wait.place.syscall == "nanosleep"
            {
                wait.place.syscall = "epoll_wait".into();
            }
        }
        assert!(explain(facts).findings.iter().all(|f| f.code != "process.socket_peer"));
    }

    #[test]
    fn a_server_that_waits_for_a_cpu_is_the_cpus_victim() {
        let mut facts = rounds(400, true);
        for fact in &mut facts {
            if let Body::Wait(wait) = &mut fact.body
                && wait.place.syscall == "nanosleep"
            {
                (wait.place, wait.wake) = (Place::default(), None);
            }
        }
        assert!(explain(facts).findings.iter().all(|f| f.code != "process.socket_peer"));
    }

    #[test]
    fn a_listener_to_news_waits_for_work() {
        assert!(explain(rounds(400, false)).findings.is_empty());
    }

    #[test]
    fn who_connected_is_no_server_however_long_he_thinks_between_two_questions() {
        let path = Some("/run/db.sock");
        assert!(explain(rounds_between(path, None, 400, true)).findings.is_empty());
        let report = explain(rounds_between(None, path, 400, true));
        assert_eq!(report.findings[0].culprit.pid, Some(20));
        // A client may have a name as well: then neither end tells.
        let report = explain(rounds_between(Some("/tmp/own"), path, 400, true));
        assert_eq!(report.findings[0].culprit.pid, Some(20));
    }

    #[test]
    fn a_quick_server_is_nothing() {
        assert!(explain(rounds(4, true)).findings.is_empty());
    }
}
