//! Until when a session has a lock that others wait for, and what has it let go.
//!
//! A row is had until the transaction ends; what a client asked for by a name or a number is no part of a transaction. A transaction that was prepared
//! has no session: it ends by its name. Must not: say who has the lock (row.rs).

use crate::facts::ThreadRef;
use crate::graph::end::End;
use crate::measure::{Measures, doors};
use crate::programs;
use crate::programs::lock_kind::LockKind;
use crate::rules::action::Question;
use crate::rules::wording::Remedy;
use crate::rules::{ask, holder_doing};

/// Whether a client asked for the lock by a name or a number: it is no part of a transaction.
pub(super) fn is_advisory(measures: &Measures<'_>, end: &End) -> bool {
    end.lock_kind(measures.model) == Some(LockKind::AdvisoryLock)
}

/// Until when a session has the lock.
pub(super) fn held_until(measures: &Measures<'_>, end: &End) -> &'static str {
    match is_advisory(measures, end) {
        true => "it gives it back, or its session ends",
        false => "its transaction ends",
    }
}

/// What can be done at whoever has it: its client, or the process of the session. A session that is a thread has none of its own to end.
pub(super) fn let_go(
    measures: &Measures<'_>,
    end: &End,
    by: &ThreadRef,
    client: Option<ThreadRef>,
    waits_for_client: bool,
) -> Option<Remedy> {
    let model = measures.model;
    let (gives_back, then) = match is_advisory(measures, end) {
        true => ("give the lock back", "its session ends"),
        false => ("commit or roll back", "its transaction is rolled back"),
    };
    let ended = client.unwrap_or_else(|| by.clone());
    let who = model.threads.who(&ended);
    let has_process = ended.pid != end.links[end.named].who.pid;
    let text = match (waits_for_client, has_process) {
        (true, true) => format!(
            "{gives_back} at {who}; if nobody is there to do it, end {who}, with all else that it does ({then})"
        ),
        (true, false) => {
            return Some(Remedy::to(format!(
                "{gives_back} at the client of that session, or have the server end the session by its number (KILL)"
            )));
        }
        (false, true) => {
            format!("let {who} go on until it lets go; or end it ({then})")
        }
        (false, false) => return None,
    };
    Some(holder_doing::end_all(model, &text, std::slice::from_ref(&ended)))
}

/// Which transactions are prepared, asked of the server.
pub(super) fn ask_for_prepared(measures: &Measures<'_>, program: &str, end: &End) -> Remedy {
    let (server, model) = (&end.links[end.named].who, measures.model);
    let prepared = programs::of(program).and_then(|it| it.prepared);
    let question = prepared.map(|prepared| prepared(&doors::of(model, server.pid)));
    let text = format!(
        "ask {program} which transactions are prepared; then commit or roll back by its name the one that holds it"
    );
    Remedy::to(text).ask(
        Question::Program,
        server,
        question.unwrap_or_else(|| ask::question(model, server.pid)),
    )
}
