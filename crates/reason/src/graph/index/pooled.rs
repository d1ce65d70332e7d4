//! Pools whose connections to a database are all kept by sessions that rest in a transaction, and the client to whom each is lent.
//!
//! A pool lends a connection for a transaction, so until that ends no other client's statement can go out on it, and nothing is asked
//! meanwhile: to the clocks alone the pool owes its other clients answers and awaits none. That the session rests in a transaction it says in
//! its title. To whom it is lent follows from the clocks of the pool's own sockets: what it passed on last went out as that client's
//! statement came, and that client was the last who was answered as the session's answer came; both have to fit.
//!
//! Must not: choose where two clients fit or several keep connections, or where one connection is free or at work: then the pool waits for
//! something else. Rejected: the pool's own console (a question to a program that hangs). Edit together: ways/owed/pooled_session.rs.

use super::connections::Connections;
use crate::facts::{Endpoint, InetRef, Ns, ObjectRef, ThreadRef};
use crate::graph::debts::{CLOCKS_APART, Debts};
use crate::model::Model;
use crate::programs;
use std::collections::{BTreeMap, HashMap};

/// include/net/tcp_states.h.
const TCP_ESTABLISHED: u8 = 1;

/// By pool, the client to whom its connections are lent.
#[derive(Default)]
pub struct Pooled {
    client: HashMap<u32, ThreadRef>,
}

/// A connection of a pool by its clocks: the socket, and when something last went out and came.
struct Spoken<'a> {
    socket: &'a InetRef,
    sent_ns: Ns,
    received_ns: Ns,
}

impl<'a> Spoken<'a> {
    fn of(endpoint: &'a Endpoint, read_ns: Ns) -> Option<Self> {
        let ObjectRef::Inet(socket) = &endpoint.object else { return None };
        let turn = endpoint.socket.as_ref()?.turn.as_ref()?;
        let ago =
            |jiffies: u32| read_ns.saturating_sub(u64::from(jiffies) * u64::from(turn.jiffy_ns));
        let (sent_ns, received_ns) = (ago(turn.sent_jiffies), ago(turn.received_jiffies));
        (socket.state == TCP_ESTABLISHED).then_some(Self { socket, sent_ns, received_ns })
    }

    /// Whether a client's statement went out on this connection, and its answer went back to that client.
    fn is_for(&self, client: &Self) -> bool {
        self.sent_ns.abs_diff(client.received_ns) <= CLOCKS_APART.ns()
            && self.received_ns.abs_diff(client.sent_ns) <= CLOCKS_APART.ns()
    }
}

impl Pooled {
    /// From the titles of sessions and the sockets at the end of a look.
    pub(super) fn new(model: &Model, connections: &Connections<'_>, debts: &Debts) -> Self {
        let session = |pid: u32| programs::session(&model.threads.by_id.get(&pid)?.command);
        let mut pids = model.threads.by_id.keys();
        if !pids.any(|pid| session(*pid).is_some_and(|it| it.may_hold)) {
            return Self::default();
        }
        let all = || {
            let read = model.held.endpoints.iter().zip(&model.held.endpoints_at);
            read.filter_map(|(end, at_ns)| Some((end.process.pid, Spoken::of(end, *at_ns)?)))
        };
        // Of each pool, its connections to sessions, and whether each rests in a transaction.
        let mut pools: BTreeMap<u32, Vec<(Spoken<'_>, bool)>> = BTreeMap::new();
        for (pool, spoken) in all().filter(|(_, it)| !connections.is_accepted(it.socket)) {
            if let [far] = &connections.far_processes(spoken.socket)[..]
                && let Some(session) = session(far.pid)
            {
                let asked = || debts.asked_by(pool).any(|debt| debt.ino == spoken.socket.ino);
                let rests = session.may_hold && !asked();
                pools.entry(pool).or_default().push((spoken, rests));
            }
        }
        pools.retain(|pool, lent| {
            lent.iter().all(|(_, rests)| *rests) && connections.listens_on(*pool).is_some()
        });
        let mut accepted: BTreeMap<u32, Vec<Spoken<'_>>> = BTreeMap::new();
        let of_pools = all().filter(|(pool, _)| pools.contains_key(pool));
        for (pool, spoken) in of_pools.filter(|(_, it)| connections.is_accepted(it.socket)) {
            accepted.entry(pool).or_default().push(spoken);
        }
        let client = pools.iter().filter_map(|(pool, lent)| {
            let clients = accepted.get(pool)?;
            Some((*pool, only_client(connections, lent, clients)?))
        });
        Self { client: client.collect() }
    }

    /// To whom the connections of a pool are lent, if all are, and to one client.
    pub(in crate::graph) fn client(&self, pool: u32) -> Option<&ThreadRef> {
        self.client.get(&pool)
    }
}

/// The one process that all connections are lent to, by the clocks.
fn only_client(
    connections: &Connections<'_>,
    lent: &[(Spoken<'_>, bool)],
    clients: &[Spoken<'_>],
) -> Option<ThreadRef> {
    let mut only: Option<ThreadRef> = None;
    for (server, _) in lent {
        let mut fitting = clients.iter().filter(|client| server.is_for(client));
        let client = fitting.next().filter(|_| fitting.next().is_none())?;
        let far = connections.far_processes(client.socket);
        let [process] = &far[..] else { return None };
        if only.as_ref().is_some_and(|known| known.pid != process.pid) {
            return None;
        }
        only = Some(process.clone());
    }
    only
}
