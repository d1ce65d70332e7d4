//! Whose open transaction takes the one connection of a pool to its database: a clause.
//!
//! A pool gives a connection away for a transaction. While that stands open its session waits for the next word, and everybody else waits for the pool, which
//! rests itself. The title of the session says that it is in a transaction; of the pool's clients, those that it owes an answer do not have it. Must
//! not: choose between several that are left. Tests: resting.rs, which says it.

use crate::facts::{ObjectRef, ThreadRef};
use crate::measure::Measures;
use crate::model::words;
use crate::programs;

/// The transaction that stands open on the only connection by which a process has asked a database, a clause: whoever goes on with it is to speak next. It
/// is a client of that process, and if all others of these wait for it themselves, the one that is left.
pub(super) fn of(measures: &Measures<'_>, pid: u32) -> Option<String> {
    let (model, graph) = (measures.model, &measures.graph);
    let debts = graph.debts();
    let own = || {
        let all = model.held.endpoints.iter().filter(|end| end.process.pid == pid);
        all.filter_map(|end| match &end.object {
            ObjectRef::Inet(socket) => Some(socket),
            _ => None,
        })
    };
    let mut asked = own().filter(|socket| debts.has_last_word_of_peer(pid, socket.ino));
    let socket = asked.next().filter(|_| asked.next().is_none())?;
    let session = graph.far_processes(socket).into_iter().next()?;
    let known = model.threads.identity(&session)?;
    let is_open = programs::session(&known.command).is_some_and(|it| it.may_hold);
    let last = graph.waits_of(&model.threads.thread_ref(session.pid)).last();
    let rests = last.is_some_and(|wait| wait.standing && graph.is_for_a_question(wait));
    if !is_open || !rests {
        return None;
    }
    let is_owed = |ino: u64| {
        let mut owed = debts.owes.get(&pid).into_iter().flatten();
        owed.any(|debt| debt.ino == ino)
    };
    let served = own().filter(|socket| socket.remote.port() != 0 && graph.is_accepted(socket));
    let free = served.filter(|socket| !is_owed(socket.ino));
    let free: Vec<Vec<ThreadRef>> = free.map(|it| graph.far_processes(it)).collect();
    // Of one that is not of this host nobody knows whether it is that.
    let is_known = free.iter().all(|far| !far.is_empty());
    let mut clients: Vec<ThreadRef> = free.into_iter().flatten().collect();
    clients.retain(|client| client.pid != pid);
    clients.sort_by_key(|client| client.pid);
    clients.dedup_by_key(|client| client.pid);
    let whose = match &clients[..] {
        [one] if is_known => format!(" of {}, which is to speak next,", words::who(one)),
        _ => String::new(),
    };
    Some(format!("on its one connection to {} a transaction{whose} stands open", session.comm))
}
