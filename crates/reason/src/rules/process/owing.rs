//! A server that was asked about sleeps while it owes answers: the other side of process.socket_peer.
//!
//! Who asks about the server, and not about its client, sees nobody wait: the clients are not of what is looked at. The clocks of
//! its connections tell that questions are outstanding (graph/debts.rs). Only sleep on purpose counts, of the server or of whoever
//! it waits for: an event loop that waits may owe a long poll, and work is said as work. Must not: count a question that came
//! a moment ago, or the pace of another client whose words are what is answered with. Edit together: socket_peer.rs.

use crate::facts::{TargetKind, ThreadRef};
use crate::graph::debts::Debt;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Evidence, Wording};
use crate::rules::{Match, ask, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

/// The state of a socket whose other end was closed (include/net/tcp_states.h).
const TCP_CLOSE_WAIT: u8 = 8;

/// What a server owes.
struct Owing {
    /// Who sleeps: it, or whom it waits for.
    actor: ThreadRef,
    server: ThreadRef,
    /// Its clients on this host.
    clients: Vec<ThreadRef>,
    /// Questions without an answer, and how long the oldest has had none, seconds.
    questions: usize,
    oldest: f64,
}

/// The sleeps of the process that was asked about, if it owes answers for longer than `least` meanwhile.
pub(super) fn found<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    least: &Threshold,
) -> Option<Match<'m>> {
    let target = measures.model.look.target.as_ref();
    let pid = target.filter(|target| target.kind == TargetKind::Process)?.pid;
    let is_sleep = |end: &End| {
        let first = end.links.first().is_some_and(|link| link.who.pid == pid);
        let is_brought = end.links.iter().any(|link| link.is_brought);
        let is_own = first && end.owed && !is_brought;
        is_own && (end.kind, end.class) == (EndKind::Sleep, WaitClass::Timer)
    };
    let sleeps: Vec<usize> = (ends.iter().enumerate())
        .filter(|(_, end)| is_sleep(end) && end.seconds >= least.value)
        .map(|(at, _)| at)
        .collect();
    let most = sleeps.iter().max_by(|a, b| ends[**a].seconds.total_cmp(&ends[**b].seconds))?;
    let owing = Owing::of(measures, pid, &ends[*most]).filter(|it| it.oldest >= least.value)?;
    let by = culprit(measures.model, &owing.actor);
    let object = ends[*most].object.clone();
    let mut matched =
        Match::new(by, Proof::TwoWitnesses, move |loss| owing.explain(measures, loss)).on(object);
    for at in sleeps {
        matched = matched.claiming(at, None);
    }
    Some(matched)
}

impl Owing {
    fn of(measures: &Measures<'_>, pid: u32, end: &End) -> Option<Self> {
        let model = measures.model;
        let graph = &measures.graph;
        // Of a connection that its client has closed nobody waits for an answer.
        let far =
            |debt: &Debt| model.called.socket(debt.ino).map(|socket| graph.far_processes(socket));
        let is_closed = |debt: &Debt| {
            let by_client =
                model.called.socket(debt.ino).is_some_and(|it| it.state == TCP_CLOSE_WAIT);
            by_client && far(debt).is_none_or(|far| far.is_empty())
        };
        let counts = |debt: &&Debt| debt.seen_ns >= model.look.end_ns && !is_closed(debt);
        let owes: Vec<&Debt> = graph.debts().owes.get(&pid)?.iter().filter(counts).collect();
        let since_ns = owes.iter().map(|debt| debt.since_ns).min()?;
        let mut clients: Vec<ThreadRef> =
            owes.iter().filter_map(|debt| far(debt)).flatten().collect();
        clients.sort_by_key(|client| client.pid);
        clients.dedup_by_key(|client| client.pid);
        let actor = end.who.as_ref().map_or(pid, |who| who.pid);
        Some(Self {
            actor: wait_words::main_thread(measures, actor),
            server: wait_words::main_thread(measures, pid),
            clients,
            questions: owes.len(),
            oldest: model.look.end_ns.saturating_sub(since_ns) as f64 / 1e9,
        })
    }

    fn explain(&self, measures: &Measures<'_>, loss: &Loss<'_>) -> Wording {
        const NAMED: usize = 3;
        let (actor, server) = (words::who(&self.actor), words::who(&self.server));
        let waiting = match &self.clients[..] {
            [] => "a client waits".to_string(),
            [one] => format!("{} waits", words::who(one)),
            all => format!("{} wait", words::count(all.len(), "client", "clients")),
        };
        let whose = if actor == server { "its".to_string() } else { format!("{server}'s") };
        let named: Vec<String> = self.clients.iter().take(NAMED).map(words::who).collect();
        let of = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        Wording {
            title: format!("{actor} sleeps while {waiting} for {whose} answer"),
            text: format!(
                "{actor} sleeps on purpose for {}. Meanwhile {} owes {}{of}, the oldest for {}.",
                words::of_window(loss.seconds, loss.wall_seconds),
                if actor == server { "it" } else { &*server },
                words::count(self.questions, "answer", "answers"),
                words::seconds(self.oldest),
            ),
            evidence: vec![
                Evidence::new("time asleep", loss.seconds, "s", "sched_switch"),
                Evidence::new(
                    "questions without an answer",
                    self.questions as f64,
                    "1",
                    "tcp_sock of its connections",
                ),
                Evidence::new("age of the oldest", self.oldest, "s", "tcp_sock of its connections"),
            ],
            remedy: ask::between_answers(measures.model, &self.actor, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::net::scenes::{inet, look_at, with_state};
    use crate::rules::scenes::{LOOK_NS, at_place, host, slept, thread};

    /// What is found of server 20, which owes client 10 an answer for most of the look: it sleeps, or its loop is up as another client says a word, who
    /// sleeps in between.
    fn found(is_loop: bool) -> Vec<String> {
        let of = |port: u16, ino| {
            let at = format!("127.0.0.1:{port}");
            (inet("tcp", ino, &at, "127.0.0.1:80", 1), inet("tcp", ino + 1, "127.0.0.1:80", &at, 1))
        };
        let ((asks, asked), (talks, heard)) = (of(5000, 100), of(6000, 200));
        let talked = |sent_jiffies, received_jiffies| {
            let jiffy_ns = 4_000_000;
            let turn = TcpTurn { sent_jiffies, received_jiffies, jiffy_ns, ..TcpTurn::default() };
            let (turn, acked_bytes) = (Some(turn), 80);
            SocketState { turn, acked_bytes, received_bytes: 900, ..SocketState::default() }
        };
        let listens = inet("tcp", 300, "127.0.0.1:80", "0.0.0.0:0", 10);
        let at_end = |fact: Fact| Fact { at_ns: LOOK_NS, ..fact };
        let (state, syscall) = (WaitState::Sleep, "recvfrom".into());
        let reads = Place { state, syscall, object: Some(asks.clone()), ..Place::default() };
        let mut facts = vec![
            look_at(TargetKind::Process, 20),
            with_state(20, "chat", listens, SocketState::default()),
            at_end(with_state(10, "poll", asks, talked(1_000, 1_200))),
            at_end(with_state(20, "chat", asked, talked(1_200, 1_000))),
            at_end(with_state(30, "post", talks, talked(10, 9))),
            at_end(with_state(20, "chat", heard.clone(), talked(9, 10))),
            at_place(10, "poll", reads),
        ];
        let each = LOOK_NS / 2;
        for (from, to) in [(0, each), (each + 1_000_000, 2 * each)] {
            facts.push(slept(if is_loop { 30 } else { 20 }, "app", from, to - 1_000_000));
            let by = thread(30, "post");
            let wake =
                Wake { at_ns: to, context: WakeContext::SoftInterrupt, by, ..Wake::default() };
            let (state, syscall) = (WaitState::Sleep, "epoll_wait".into());
            let place = Place { state, syscall, object: Some(heard.clone()), ..Place::default() };
            let thread = thread(20, "chat");
            let (begin_ns, end_ns, wake) = (from, to, Some(wake));
            let heard = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            facts.extend(is_loop.then_some(Fact { at_ns: to, body: Body::Wait(heard) }));
        }
        explain([host(), facts].concat()).findings.into_iter().map(|it| it.code).collect()
    }

    #[test]
    fn the_pace_of_another_client_is_nobodys_late_answer() {
        assert!(found(true).is_empty(), "{:?}", found(true));
        assert_eq!(found(false), ["process.socket_peer"], "a server that sleeps");
    }
}
