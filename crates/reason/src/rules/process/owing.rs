//! A server that was asked about sleeps while it owes answers: the other side of process.socket_peer.
//!
//! Who asks about the server, and not about its client, sees nobody wait: the clients are not of what is looked at. The clocks of
//! its connections tell that questions are outstanding (graph/debts.rs). Only sleep on purpose counts, of the server or of whoever
//! it waits for: an event loop that waits may owe a long poll, and work is said as work. Must not: count a question that came
//! a moment ago. Edit together: socket_peer.rs.

use crate::facts::{TargetKind, ThreadRef};
use crate::graph::debts::Debt;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Match, culprit};
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
        first && end.owed && (end.kind, end.class) == (EndKind::Sleep, WaitClass::Timer)
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
        Match::new(by, Proof::TwoWitnesses, move |loss| owing.explain(loss)).on(object);
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

    fn explain(&self, loss: &Loss<'_>) -> Wording {
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
            remedy: vec![
                Remedy::to(format!("see what {actor} does between question and answer"))
                    .sleeps(&self.actor),
            ],
        }
    }
}
