//! Who waits for which socket, or for an answer of which name server, and for how long: of the same demand that the answer is made of.
//!
//! Each piece of demand is seen as the graph adds it, because an end forgets which socket a piece went by. On a host a debt that
//! ends in nothing hard is no loss, unless a rule claims its end: a session at rest is not waited for here either. A wait counts for the
//! socket that it is on, and for that at the other end of the same connection, if it is of this host.
//!
//! Must not: decide what an end is (graph/), or which of them count (verdict.rs says the same).

use crate::answer::naming::victim;
use crate::answer::report::{EndKind, Victim};
use crate::facts::{DroppedFlow, Endpoint, InetRef, ObjectRef, TargetKind, ThreadRef};
use crate::graph::end::{EndKey, Lost};
use crate::measure::Measures;
use crate::measure::packet_drops::canonical;
use crate::measure::tcp_stream::leads_to;
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::poll_intent::TCP_LISTEN;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Who loses how much, by process.
type Losers = BTreeMap<u32, (ThreadRef, f64)>;

/// Both addresses of a connection, its own first.
type Pair = (SocketAddr, SocketAddr);

fn pair(from: SocketAddr, to: SocketAddr) -> Pair {
    (canonical(from), canonical(to))
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Awaited {
    /// A socket, by its inode.
    Socket(u64),
    /// A name server.
    Server(SocketAddr),
}

impl Awaited {
    fn of(object: &Object) -> Option<Self> {
        match object {
            Object::Inet(ino) => Some(Self::Socket(*ino)),
            Object::DnsServer(Some(server), _) => Some(Self::Server(*server)),
            _ => None,
        }
    }
}

/// Pieces of demand on the network, by the end of the graph that each belongs to.
#[derive(Debug, Default)]
pub(in crate::answer) struct Pieces {
    by_end: HashMap<EndKey, BTreeMap<Awaited, Losers>>,
}

impl Pieces {
    /// Adds one.
    pub(in crate::answer) fn add(&mut self, lost: &Lost<'_>) {
        let links = &lost.leaf.links;
        let awaited: BTreeSet<Awaited> =
            links.iter().filter_map(|link| Awaited::of(&link.object)).collect();
        if awaited.is_empty() {
            return;
        }
        let (victim, seconds) = (&links[0].who, lost.part * lost.leaf.ns() as f64 / 1e9);
        let key = (lost.kind, lost.class, lost.object.clone());
        let of_end = self.by_end.entry(key).or_default();
        for it in awaited {
            add(of_end.entry(it).or_default(), victim, seconds);
        }
    }
}

fn add(losers: &mut Losers, who: &ThreadRef, seconds: f64) {
    losers.entry(who.pid).or_insert_with(|| (who.clone(), 0.0)).1 += seconds;
}

/// Who waits for what, of all that counts.
pub(super) struct Waiting<'m> {
    model: &'m Model,
    all: BTreeMap<Awaited, Losers>,
    /// Sockets that are waited for, by their addresses, and by those behind a translation.
    by_pair: BTreeMap<Pair, u64>,
    /// Connections that a process has.
    held: HashSet<Pair>,
}

impl<'m> Waiting<'m> {
    /// Of a look; `claimed` are the ends that rules have named, by index.
    pub(super) fn of(
        measures: &Measures<'m>,
        mut pieces: Pieces,
        claimed: &BTreeSet<usize>,
    ) -> Self {
        let model = measures.model;
        let target = model.look.target.as_ref();
        let is_host = target.is_none_or(|it| it.kind == TargetKind::Host);
        let mut all: BTreeMap<Awaited, Losers> = BTreeMap::new();
        for (at, end) in measures.graph.ends.iter().enumerate() {
            let is_no_loss = is_host && (end.owed || end.kind == EndKind::Works);
            if end.kind == EndKind::Idle || is_no_loss && !claimed.contains(&at) {
                continue;
            }
            for (it, losers) in pieces.by_end.remove(&end.key()).into_iter().flatten() {
                let of = all.entry(it).or_default();
                losers.into_values().for_each(|(who, seconds)| add(of, &who, seconds));
            }
        }
        let mut by_pair = BTreeMap::new();
        for it in all.keys() {
            if let Awaited::Socket(ino) = it
                && let Some(socket) = model.called.socket(*ino)
                && socket.remote.port() != 0
            {
                for (from, to) in model.called.translations.ways(socket) {
                    by_pair.insert(pair(from, to), *ino);
                }
            }
        }
        let held = model.held.endpoints.iter().filter_map(|endpoint| match &endpoint.object {
            ObjectRef::Inet(socket) => Some(pair(socket.local, socket.remote)),
            _ => None,
        });
        Self { model, all, by_pair, held: held.collect() }
    }

    /// Who waits for a socket, or for the other end of its connection; for a listener, who is not accepted.
    pub(super) fn of_socket(&self, endpoint: &Endpoint, socket: &InetRef) -> Vec<Victim> {
        let mut losers = Losers::new();
        let mut take = |it: Awaited| self.add_to(&mut losers, it);
        take(Awaited::Socket(socket.ino));
        if socket.remote.port() != 0 {
            let (far, near) = self.model.called.translations.other_end(socket);
            let far = self.by_pair.get(&pair(far, near));
            far.into_iter().for_each(|ino| take(Awaited::Socket(*ino)));
        }
        if socket.state == TCP_LISTEN && socket.is_tcp() {
            for ino in self.by_pair.values().collect::<BTreeSet<_>>() {
                let client = self.model.called.socket(*ino);
                let far = client.map(|it| self.model.called.translations.other_end(it));
                let is_accepted =
                    far.is_some_and(|(far, near)| self.held.contains(&pair(far, near)));
                let is_its = |client: &InetRef| leads_to(self.model, client, socket);
                if !is_accepted && client.is_some_and(is_its) {
                    take(Awaited::Socket(*ino));
                }
            }
        }
        // Whoever waits for a name server has asked it by a socket of his own.
        if let Some(asked) = self.all.get(&Awaited::Server(socket.remote))
            && let Some((who, seconds)) = asked.get(&endpoint.process.pid)
        {
            add(&mut losers, who, *seconds);
        }
        self.victims(losers)
    }

    /// Who waits for one of some flows of packets, in either direction; sockets by their inodes as well.
    pub(super) fn of_flows(&self, flows: &[DroppedFlow], inodes: &[u64]) -> Vec<Victim> {
        let mut awaited: BTreeSet<Awaited> = inodes.iter().copied().map(Awaited::Socket).collect();
        for flow in flows {
            awaited.extend([flow.from, flow.to].map(Awaited::Server));
            awaited.extend(Some(flow.socket_ino).filter(|ino| *ino != 0).map(Awaited::Socket));
            for both in [pair(flow.from, flow.to), pair(flow.to, flow.from)] {
                awaited.extend(self.by_pair.get(&both).copied().map(Awaited::Socket));
            }
        }
        let mut losers = Losers::new();
        awaited.into_iter().for_each(|it| self.add_to(&mut losers, it));
        self.victims(losers)
    }

    /// Who waits for an address, within a network namespace.
    pub(super) fn of_address(&self, netns: u32, address: IpAddr) -> Vec<Victim> {
        let mut losers = Losers::new();
        for it in self.all.keys() {
            let is_it = match it {
                Awaited::Socket(ino) => self.model.called.socket(*ino).is_some_and(|socket| {
                    socket.netns == netns && socket.remote.ip().to_canonical() == address
                }),
                Awaited::Server(server) => server.ip() == address,
            };
            if is_it {
                self.add_to(&mut losers, *it);
            }
        }
        self.victims(losers)
    }

    fn add_to(&self, losers: &mut Losers, it: Awaited) {
        for (who, seconds) in self.all.get(&it).into_iter().flat_map(BTreeMap::values) {
            add(losers, who, *seconds);
        }
    }

    /// Most first.
    fn victims(&self, losers: Losers) -> Vec<Victim> {
        let named = losers.values().map(|(who, seconds)| victim(self.model, who, *seconds));
        let mut all: Vec<Victim> = named.collect();
        all.sort_by(|a, b| b.wait_seconds.total_cmp(&a.wait_seconds).then(a.pid.cmp(&b.pid)));
        all
    }
}
