//! process.socket_peer: a client waits for a server on the same host that is slow by its own doing.
//!
//! Reading from a socket is a wait for work unless a question is outstanding. So the wait alone says nothing: it
//! counts where the server was woken by this client (questions) and the client by this server (answers), and the
//! server neither waits for anything with a name nor for events meanwhile, but sleeps or works. A stream of news
//! that the client only listens to has answers without questions. Rejected: any wait for a busy peer (every idle
//! connection to a busy server is one).

use crate::answer::report::{Evidence, Finding, Remedy, Severity};
use crate::facts::{Endpoint, ObjectRef};
use crate::graph::chains::Leaf;
use crate::graph::ends::End;
use crate::graph::responsible::carrier;
use crate::measure::Measures;
use crate::rules::old::process;
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;
use std::collections::{BTreeMap, BTreeSet};

/// A round trip on one host takes about 50 us. Pollers answer at their own beat of ten milliseconds or so, which is
/// their making and nobody's loss; beyond three such beats somebody waits for it.
const SLOW_SECONDS: f64 = 0.03;
/// A server that computes is only slow where a person would feel it: a busy database is no fault.
const SLOW_WORK_SECONDS: f64 = 0.03;
/// Fewer answers may be chance.
const ANSWERS_MIN: usize = 3;
use crate::rules::Refutation;

/// The case.
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
        Refutation::new("the server waits for work itself (the connection is idle)", ""),
        Refutation::new(
            "the server waits for a disk, a lock, a CPU or another server (then that is the finding)",
            "",
        ),
        Refutation::new("the client only listens: it never woke the server", ""),
        Refutation::new(
            "who waits is the one that was connected to: he serves, and waits for the next question",
            "",
        ),
    ],
    remedies: &[
        "find out why the server takes its time",
        "more workers, if it serves one client at a time",
    ],
    stories: &["S4.3"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    let mut by_server: BTreeMap<u32, Vec<(Leaf, usize)>> = BTreeMap::new();
    for (leaf, at) in leaves(measures) {
        by_server.entry(leaf.links[at + 1].who.pid).or_default().push((leaf, at));
    }
    let talk = Talk::of(measures);
    let found = |(server, leaves)| finding(measures, server, &talk.with(server), leaves);
    by_server.into_iter().filter_map(found).collect()
}

fn is_read(class: WaitClass) -> bool {
    matches!(class, WaitClass::UnixRead | WaitClass::SocketRead)
}

/// Waits for a socket that end in a peer's own time.
fn leaves(measures: &Measures<'_>) -> Vec<(Leaf, usize)> {
    let model = measures.model;
    let all: Vec<Leaf> = match measures.is_command() {
        true => measures.graph.path.clone(),
        false => measures
            .waits()
            .filter(|w| is_read(w.class) && !w.kernel && model.in_target(&w.thread))
            .filter(|w| w.thread.pid != model.host.own_pid)
            .flat_map(|w| measures.graph.chains.follow_wait(w, model.begin_ns, model.end_ns))
            .collect(),
    };
    all.into_iter()
        .filter_map(|leaf| {
            // A command has asked, so an event loop that waits for other events has it wait for its own reasons.
            let own = match leaf.root().class {
                WaitClass::Timer | WaitClass::Running | WaitClass::Unseen => true,
                WaitClass::Idle => measures.is_command(),
                _ => false,
            };
            let at = leaf.links.iter().rposition(|link| is_read(link.class))?;
            (own && leaf.named().is_none() && at + 1 < leaf.links.len()).then_some((leaf, at))
        })
        .collect()
}

fn finding(
    measures: &Measures<'_>,
    server: u32,
    asked: &Asked,
    leaves: Vec<(Leaf, usize)>,
) -> Option<Finding> {
    // Only the clients that ask.
    let leaves: Vec<(Leaf, usize)> = leaves
        .into_iter()
        .filter(|(leaf, at)| asked.clients.contains(&leaf.links[*at].who.pid))
        .filter(|(leaf, _)| leaf.links[0].who.pid != server)
        .collect();
    let (first, at) = leaves.first()?;
    let object = first.links[*at].object.clone();
    let end = End::gathered(first.links[*at].class, object, &leaves)?;
    let answer = asked.answer_seconds(&end)?;
    let doing = process::meanwhile(&end);
    // A command that asks once has all its time in that one answer.
    let answers_min = if measures.is_command() { 1 } else { ANSWERS_MIN };
    if asked.answers < answers_min
        || answer < if doing.at_work { SLOW_WORK_SECONDS } else { SLOW_SECONDS }
    {
        return None;
    }
    let server = process::main_thread(measures, server);
    let who = words::who(&server);
    let client = process::main_thread(measures, first.links[*at].who.pid);
    let does = match end.holder_mostly() {
        _ if doing.at_work => "is at work over",
        Some(WaitClass::Idle) => "waits for something else over",
        _ => "sleeps over",
    };
    let verdict = Verdict {
        title: format!(
            "{} waits for {who}, which {does} each answer for {}",
            words::who(&client),
            words::seconds(answer)
        ),
        text: format!(
            "{} pass in waits for {} of {who}. Meanwhile it {} for {} of that time, and waits for \
             nothing that has a name: the time is its own.",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::count(asked.answers, "answer", "answers"),
            doing.does,
            words::percent(doing.share),
        ),
        confidence: if doing.at_work { 0.8 } else { 0.92 },
        culprit: culprit(measures, &server),
        evidence: evidence(&end, asked, &who, answer, &doing),
        remedy: vec![Remedy {
            text: format!("see what {who} does between question and answer"),
            command: match doing.at_work {
                true => format!("perf top -p {}", server.pid),
                false => format!("strace -f -p {} -e trace=%clock,nanosleep,poll", server.pid),
            },
            ..Remedy::default()
        }],
    };
    let mut finding = RULE.finding(measures, &end, verdict);
    if doing.at_work {
        finding.severity = finding.severity.min(Severity::Warning);
    }
    Some(finding)
}

fn evidence(
    end: &End,
    asked: &Asked,
    who: &str,
    answer: f64,
    doing: &process::Meanwhile,
) -> Vec<Evidence> {
    let mut evidence = process::wait_evidence(end, "answers");
    let source = "sched_waking, sched_switch";
    evidence.extend([
        Evidence::new("mean wait for an answer", answer, "s", source),
        Evidence::new(
            format!("answers that {who} woke its clients with"),
            asked.answers as f64,
            "1",
            source,
        ),
        Evidence::new(format!("questions that woke {who}"), asked.questions as f64, "1", source),
        Evidence::new(
            format!("share of that time in which {who} {}", doing.does),
            doing.share,
            "1",
            source,
        ),
    ]);
    evidence
}

/// Who asks whom, and who answers, by who wakes whom: one pass over the waits and the sockets for all servers, of which
/// a host that passes many messages has hundreds.
#[derive(Default)]
struct Talk {
    /// By server and client: the client's questions that ended the server's waits.
    questions: BTreeMap<(u32, u32), usize>,
    /// By server and client: the server's answers that ended the client's reads.
    answers: BTreeMap<(u32, u32), usize>,
    /// Server and client whose question lies unread in one of the server's sockets.
    unread: BTreeSet<(u32, u32)>,
}

impl Talk {
    fn of(measures: &Measures<'_>) -> Self {
        let mut talk = Self::default();
        for wait in measures.waits() {
            let reads = is_read(wait.class);
            if !reads && wait.class != WaitClass::Idle {
                continue;
            }
            let Some(by) = carrier(wait) else { continue };
            if by.pid != wait.thread.pid {
                *talk.questions.entry((wait.thread.pid, by.pid)).or_default() += 1;
            }
            // Of two who talk in turns, the one who connected asks: his rest between two questions is his own.
            if reads && !measures.graph.chains.peers.is_for_a_question(wait) {
                *talk.answers.entry((by.pid, wait.thread.pid)).or_default() += 1;
            }
        }
        let has_unread = |end: &&Endpoint| end.unread.is_some_and(|unread| unread > 0);
        for end in measures.model.endpoints.iter().filter(has_unread) {
            if let ObjectRef::Unix { peer_ino, .. } = &end.object {
                let far = measures.graph.chains.peers.endpoints_on(*peer_ino).iter();
                let far = far.filter(|far| far.process.pid != end.process.pid);
                talk.unread.extend(far.map(|far| (end.process.pid, far.process.pid)));
            }
        }
        talk
    }

    /// What belongs to one server.
    fn with(&self, server: u32) -> Asked {
        let own = (server, 0)..=(server, u32::MAX);
        let mut asked = Asked { clients: BTreeSet::new(), questions: 0, answers: 0 };
        for ((_, client), count) in self.questions.range(own.clone()) {
            asked.clients.insert(*client);
            asked.questions += count;
        }
        asked.clients.extend(self.unread.range(own.clone()).map(|(_, client)| *client));
        let answers = self.answers.range(own).filter(|((_, to), _)| asked.clients.contains(to));
        asked.answers = answers.map(|(_, count)| count).sum();
        asked
    }
}

/// Who asks a server, and how often it answers.
struct Asked {
    clients: BTreeSet<u32>,
    questions: usize,
    answers: usize,
}

impl Asked {
    fn answer_seconds(&self, end: &End) -> Option<f64> {
        (self.answers > 0).then(|| end.seconds / self.answers as f64)
    }
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
