//! process.retry where a server takes each connection and ends its session at once: what it refuses is in its answer.
//!
//! Whether that is a limit only the server knows; how many sessions it has open, and whose they are, can be counted. Must not: call the limit
//! reached, or choose the sleeps (waits/retries.rs).

use crate::facts::ObjectRef;
use crate::graph::end::End;
use crate::measure::{Measures, doors};
use crate::model::object::Object;
use crate::model::words;
use crate::programs;
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::refusal_words;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Match, culprit};
use crate::waits::turned_away::{TurnedAway, all};
use std::collections::{BTreeMap, BTreeSet};

/// Programs of clients that are named.
const NAMED: usize = 3;

/// Of an end that is the sleeps between the tries.
pub(super) fn matched<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let Object::Process(server) = end.object else { return None };
    if end.seconds < refusal_words::SLEPT_MIN.value * measures.wall_seconds() {
        return None;
    }
    let mut tries = all(measures.model, measures.waits());
    tries.retain(|one| one.server.pid == server);
    let (count, last) = (tries.len(), tries.pop()?);
    let by = culprit(measures.model, last.server);
    Some(Match::new(by, Proof::Inferred, move |loss| explain(measures, (count, &last), loss)))
}

/// The processes that a server has begun for connections that are open, and whose those are on this host: `5 of psql`.
fn sessions(measures: &Measures<'_>, server: u32) -> (usize, String) {
    let (model, graph) = (measures.model, &measures.graph);
    let mut open: BTreeSet<u32> = BTreeSet::new();
    let mut clients: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let is_session = |pid: u32| graph.parent_of(pid) == Some(server);
    for end in model.held.endpoints.iter().filter(|end| is_session(end.process.pid)) {
        let socket = model.called.socket(end.object_ino());
        let far = match (&end.object, socket) {
            (ObjectRef::Inet(_), Some(socket)) if socket.remote.port() != 0 => {
                graph.far_processes(socket)
            }
            (ObjectRef::Unix { peer_ino, .. }, _) => {
                graph.endpoints_on(*peer_ino).iter().map(|far| far.process.clone()).collect()
            }
            _ => continue,
        };
        for client in far.iter().filter(|client| client.pid != server && !is_session(client.pid)) {
            open.insert(end.process.pid);
            let program = model.threads.process_name(client.pid);
            clients.entry(program).or_default().insert(end.process.pid);
        }
    }
    let mut clients: Vec<(String, usize)> =
        clients.into_iter().map(|(program, all)| (program, all.len())).collect();
    clients.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named = clients.iter().take(NAMED).map(|(program, count)| format!("{count} of {program}"));
    (open.len(), named.collect::<Vec<_>>().join(", "))
}

fn explain(
    measures: &Measures<'_>,
    (tries, last): (usize, &TurnedAway<'_>),
    loss: &Loss<'_>,
) -> Wording {
    let model = measures.model;
    let (victim, server) = (&loss.victim, model.threads.who(last.server));
    let name = model.threads.process_name(last.server.pid);
    let (open, clients) = sessions(measures, last.server.pid);
    let has = match open {
        0 => String::new(),
        _ => format!(
            " {server} has {} open for others on this host: {clients}. If that is all that it may have, it is out of connections.",
            words::count(open, "session", "sessions")
        ),
    };
    let mut evidence = vec![
        Evidence::new("connections that it ended at once", tries as f64, "1", "sched_process_exit"),
        Evidence::new("time slept between the tries", loss.seconds, "s", "sched_switch"),
    ];
    if open > 0 {
        evidence.push(Evidence::new("sessions that are open", open as f64, "1", "descriptors"));
    }
    let ended = match last.code & 0x7f {
        0 => format!("status {}", last.code / 256),
        signal => format!("signal {signal}"),
    };
    Wording {
        title: format!(
            "{victim} waits for a session that {server} turns away again and again, and sleeps in between"
        ),
        text: format!(
            "{} pass in sleeps between {}. For each {server} began a process, which ended at once with {ended}: why is in its \
             answer, and in its log (a mere check of the port looks the same).{has}",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(tries, "try", "tries"),
        ),
        evidence,
        remedy: vec![ask_the_server(measures, &name, last)],
    }
}

/// Asks the server for its limit and who has its connections; of one that answers no such question, the words of its log.
fn ask_the_server(measures: &Measures<'_>, name: &str, last: &TurnedAway<'_>) -> Remedy {
    let (model, pid) = (measures.model, last.server.pid);
    let about = programs::of(name).and_then(|it| it.connections);
    match about {
        Some(about) => {
            let question = about(&doors::of(model, pid));
            let text = format!(
                "ask {name} how many connections it may have, and who has them; end those that are not needed, or let clients share them in a pool"
            );
            Remedy::to(text).ask(Question::Program, last.server, question)
        }
        None => Remedy::to(format!("read why in the log of {name}, or connect once by hand")),
    }
}
