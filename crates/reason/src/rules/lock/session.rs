//! Whether a thread that waits inside a server is a session of it: it serves a client, as a background thread or a listener does not.
//!
//! Who asks is in the chain before it, and has a connection: the session has the other end of that, or waits for questions itself. Must not:
//! say who holds the lock (row.rs). Rejected: that somebody was followed to it (a server that begins a process for each connection
//! was followed to for its child, whose end it only ends by wait()).
//!
//! Edit together: row.rs, which asks this of ends whose kind of lock is not known.

use crate::facts::{ObjectRef, ThreadRef};
use crate::graph::chains::ChainLink;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::waits::timeline::WaitSpan;
use std::sync::Arc;

/// Whether the thread that waits serves a client too: it has the other end of the connection that is asked on, it is another process
/// than the holder where nobody asks, or it was seen to wait for a client's question. A server's own background threads wait for work
/// of the main thread.
pub(super) fn is_session(measures: &Measures<'_>, end: &End) -> bool {
    let waiter = &end.links[end.named].who;
    let is_other = |link: &&Arc<ChainLink>| link.who.pid != waiter.pid;
    let graph = &measures.graph;
    let asked = || graph.waits_of(waiter).iter().any(|wait| graph.question_of(wait).is_some());
    let asks = end.named.checked_sub(1).and_then(|at| end.links.get(at)).filter(is_other);
    let serves = match asks {
        Some(asks) => may_serve(measures, &asks.object, waiter),
        None => end.links.get(end.named + 1).filter(is_other).is_some(),
    };
    serves || asked()
}

/// Whether a thread's process has the other end of a connection; of what is none that is not asked.
fn may_serve(measures: &Measures<'_>, asked_on: &Object, waiter: &ThreadRef) -> bool {
    let (model, graph) = (measures.model, &measures.graph);
    match asked_on {
        Object::Inet(ino) => model.called.socket(*ino).is_none_or(|socket| {
            graph.far_processes(socket).iter().any(|far| far.pid == waiter.pid)
        }),
        Object::Unix(ino) => model.called.unix_peer(*ino).is_none_or(|peer| {
            let is_on = |wait: &WaitSpan| matches!(&wait.place.object, Some(ObjectRef::Unix { ino, .. }) if *ino == peer);
            let mut open = graph.endpoints_on(peer).iter();
            open.any(|end| end.process.pid == waiter.pid)
                || graph.waits().any(|wait| wait.thread.pid == waiter.pid && is_on(wait))
        }),
        _ => true,
    }
}
