//! A process that rests while what it began for its work does not: the sentence of a look at the master of a server.
//!
//! Who asks about a server gives the process that a pid file or a manager says, and that one only begins the others: it rests whatever they wait for. Its
//! workers are said if none is free and a connection waits for one, or the first that waits for what another session has. Must not: say that a
//! master is held up, or take a worker's turn to accept for a wait (graph's turns).
//!
//! Edit together: standing.rs, measure/pools.rs.

use crate::measure::Measures;
use crate::measure::pools;
use crate::model::words;
use crate::programs::lock_kind::LockKind;
use crate::waits::timeline::WaitSpan;
use crate::waits::user_stack::lock_kind_of;
use std::collections::BTreeMap;

/// Title and paragraph, if the process that was asked about stands so.
pub(super) fn said(measures: &Measures<'_>) -> Option<(String, String)> {
    let asked = measures.model.look.target.as_ref()?.pid;
    workers(measures, asked).or_else(|| sessions(measures, asked))
}

/// Workers of which none is free.
fn workers(measures: &Measures<'_>, asked: u32) -> Option<(String, String)> {
    let busy = measures.graph.busy_workers(asked);
    let busy = busy.filter(|busy| busy.master.pid == asked && busy.waiting > 0)?;
    let who = words::who(&measures.model.threads.thread_ref(asked));
    let first = busy.workers.first()?.pid;
    let said = pools::at_hand(measures, asked);
    Some((
        format!("{who} rests, and none of its workers is free for who waits."),
        format!("{} holdup -p {first} follows one of them.", said.trim_start()),
    ))
}

/// Sessions of a database that have waited all the time for what another has, or the server.
fn sessions(measures: &Measures<'_>, asked: u32) -> Option<(String, String)> {
    let threads = &measures.model.threads;
    let name = threads.process_name(asked);
    let is_child = |wait: &&WaitSpan| {
        wait.standing
            && measures.model.look.began_before(wait.begin_ns)
            && measures.graph.parent_of(wait.thread.pid) == Some(asked)
            && threads.process_name(wait.thread.pid) == name
    };
    let kind = |wait: &WaitSpan| {
        let kind = lock_kind_of(measures.model, &wait.thread, wait.begin_ns, wait.end_ns)?;
        (kind.is_of_a_session() || kind.is_of_a_server()).then_some(kind)
    };
    let waits = measures.waits().filter(is_child);
    let found: BTreeMap<u32, LockKind> =
        waits.filter_map(|wait| Some((wait.thread.pid, kind(wait)?))).collect();
    let (first, kind) = found.first_key_value()?;
    let (who, child) = (threads.thread_ref(asked), words::who(&threads.thread_ref(*first)));
    let more = match found.len() - 1 {
        0 => String::new(),
        1 => ", and so has 1 more of its sessions".to_string(),
        more => format!(", and so have {more} more of its sessions"),
    };
    Some((
        format!(
            "{} rests; its session {child} has waited all the time for {}{more}.",
            words::who(&who),
            kind.phrase()
        ),
        format!("holdup -p {first} follows it."),
    ))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// What is said of postgres 10, whose child 20 waits for an event of that kind.
    fn title(event: SessionEvent) -> String {
        let process = |pid: u32, parent_pid: u32| {
            let thread = ThreadRef { start_ns: 1, ..thread(pid, "postgres") };
            identity(Thread { thread, parent_pid, ..Thread::default() })
        };
        let read = SessionWait { pid: 20, event: Some(event), ..SessionWait::default() };
        let mut facts = host();
        facts.extend([process(10, 1), process(20, 10), of_process(10, "postgres")]);
        facts.push(Fact { at_ns: LOOK_NS / 2, body: Body::SessionWait(read) });
        facts.extend([10, 20].map(|pid| blocked(pid, "postgres", WaitState::Sleep, "epoll_wait")));
        explain(facts).answer.title
    }

    #[test]
    fn the_master_of_a_session_that_waits_for_another_is_said_to_have_it() {
        let said = title(SessionEvent::Replica);
        assert!(
            said.starts_with("postgres 10 rests; its session postgres 20 has waited"),
            "{said}"
        );
        let rests = title(SessionEvent::Sleep);
        assert!(rests.contains(" is idle: "), "{rests}");
    }
}
