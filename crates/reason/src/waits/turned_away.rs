//! Connections that a server takes and turns away: it begins a process for each, as for a session, and that ends badly at once.
//!
//! The call went well, so no refused call shows it; the answer says no (PostgreSQL: too many clients, a database that is not there, a wrong
//! password). Four things are seen: the server listens, somebody woke it, it began a process of its own program at once, and that ended soon
//! with a status. Why, its answer and its log say, and no fact; a mere check of the port may look the same.
//!
//! Must not: choose the sleeps between the tries (retries.rs), or call a limit reached. Rejected: whom the process woke (its few bytes are
//! read within less than the shortest wait that is reported); processes of a script that fail, whose parent they or their like have woken;
//! a server that a soft interrupt woke, as a packet does: whoever was running may be a bystander, and the connection that would say is gone.
//!
//! Edit together: rules/process/turned_away.rs, and the tests of both beside that.

use super::span::WaitSpan;
use crate::facts::{Exit, Fork, Ns, ObjectRef, ThreadRef, Wake, WakeContext};
use crate::model::Model;
use crate::waits::families::Families;
use crate::waits::poll_intent::TCP_LISTEN;
use std::collections::{HashMap, HashSet};

/// From the connection to the process that is begun for it.
const AT_ONCE_NS: Ns = 50_000_000;
/// A session that lived longer was one.
const SESSION_NS: Ns = 1_000_000_000;

/// A connection that was turned away.
#[derive(Debug, PartialEq, Eq)]
pub struct TurnedAway<'m> {
    /// When its process ended.
    pub at_ns: Ns,
    /// Who connected.
    pub client: &'m ThreadRef,
    /// Who began a process for it.
    pub server: &'m ThreadRef,
    /// How that ended, as wait(2) has it.
    pub code: u32,
}

/// All of a look, in order of time.
pub fn all<'m>(model: &'m Model, waits: impl Iterator<Item = &'m WaitSpan>) -> Vec<TurnedAway<'m>> {
    let begun: HashMap<u32, &(Ns, Fork)> = (model.threads.forks.iter())
        .filter(|(_, fork)| fork.child.pid != fork.parent.pid)
        .map(|fork| (fork.1.child.pid, fork))
        .collect();
    // A script whose parts fail, and that somebody feeds, is no server.
    let ends = model.held.endpoints.iter().filter(|end| listens(&end.object));
    let servers: HashSet<u32> = ends.map(|end| end.process.pid).collect();
    let ended = model.threads.exits.iter().filter_map(|(at_ns, exit)| {
        let (begun_ns, fork) = begun.get(&exit.thread.pid)?;
        let is_it = servers.contains(&fork.parent.pid)
            && is_turned_away(exit, at_ns.checked_sub(*begun_ns)?, fork);
        is_it.then_some((*at_ns, exit, *begun_ns, fork))
    });
    let ended: Vec<(Ns, &Exit, Ns, &Fork)> = ended.collect();
    if ended.is_empty() {
        return Vec::new();
    }
    let mut woken: HashMap<u32, Vec<&WaitSpan>> =
        ended.iter().map(|(_, _, _, fork)| (fork.parent.tid, Vec::new())).collect();
    for wait in waits.filter(|wait| wait.wake.is_some()) {
        if let Some(of_server) = woken.get_mut(&wait.thread.tid) {
            of_server.push(wait);
        }
    }
    woken.values_mut().for_each(|all| all.sort_by_key(|wait| wait.end_ns));
    let families = Families::of(model);
    let turned = ended.into_iter().filter_map(|(at_ns, exit, begun_ns, fork)| {
        let of_server = woken.get(&fork.parent.tid)?;
        let until = of_server.partition_point(|wait| wait.end_ns <= begun_ns);
        let last = of_server.get(until.checked_sub(1)?)?;
        let wake = last.wake.as_ref().filter(|wake| is_by_its_own(wake))?;
        let (client, server) = (&wake.by, &fork.parent);
        let is_near = begun_ns - last.end_ns <= AT_ONCE_NS;
        (is_near && client.pid != 0 && are_strangers(&families, client.pid, server.pid))
            .then_some(TurnedAway { at_ns, client, server, code: exit.code? })
    });
    turned.collect()
}

/// Whether a process of its parent's own program ended badly, and soon.
fn is_turned_away(exit: &Exit, lived_ns: Ns, fork: &Fork) -> bool {
    exit.thread.tid == exit.thread.pid
        && exit.code.is_some_and(|code| code != 0)
        && exit.thread.comm == fork.parent.comm
        && lived_ns <= SESSION_NS
}

/// Whether it takes connections: of TCP, or a unix socket that has a name and no other end.
fn listens(object: &ObjectRef) -> bool {
    match object {
        ObjectRef::Inet(socket) => socket.state == TCP_LISTEN,
        ObjectRef::Unix { peer_ino, path, .. } => *peer_ino == 0 && path.is_some(),
        _ => false,
    }
}

/// Whether whoever is named as the waker did it in its own call: in an interrupt it may be a bystander.
fn is_by_its_own(wake: &Wake) -> bool {
    wake.context == WakeContext::Task && !wake.by_kernel_thread
}

/// Whether neither of two processes is above the other.
fn are_strangers(families: &Families, one: u32, other: u32) -> bool {
    !families.line(one).contains(&other) && !families.line(other).contains(&one)
}
