//! Who is at the other end of what: sockets, pipes and their descriptors, and the waits on them.
//!
//! Both ends of a connection are found by descriptor, so network namespaces do not matter, and neither does a translation between them that the
//! kernel's table knows; a connection that was closed before the descriptors were read is found by the waits on it. Must not: choose between candidates.

use super::families::Families;
use super::inherited::inherited;
use super::waited::{Waited, WaitedEnd};
use crate::facts::*;
use crate::graph::undelivered::Undelivered;
use crate::model::Model;
use crate::waits::poll_intent::{TCP_LISTEN, is_asked_by_datagram};
use crate::waits::timeline::{Timelines, WaitSpan};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// What finds a connection's end: its own address and the other's, whether it is a stream, and of addresses that each network namespace
/// has for itself, which one.
type PairKey = ((SocketAddr, SocketAddr), bool, u32);

fn pair_key(pair: (SocketAddr, SocketAddr), of: &InetRef, netns: u32) -> PairKey {
    let is_of_namespace = pair.0.ip().is_loopback() && pair.1.ip().is_loopback();
    (pair, of.is_tcp(), if is_of_namespace { netns } else { 0 })
}

/// Open descriptors by what they are on, and waits by what they were on.
pub struct Connections<'a> {
    model: &'a Model,
    by_ino: HashMap<u64, Vec<&'a Endpoint>>,
    /// By process and descriptor.
    by_fd: BTreeMap<(u32, u32), &'a Endpoint>,
    by_pair: HashMap<PairKey, Vec<&'a Endpoint>>,
    listeners: HashMap<u16, Vec<&'a Endpoint>>,
    /// Sockets without a peer, by port: what is sent to a server by datagrams arrives there.
    datagram_servers: HashMap<u16, Vec<(&'a InetRef, &'a ThreadRef)>>,
    /// Waits on a connection, by its addresses as its own end has them.
    waited_pairs: HashMap<PairKey, Waited<'a>>,
    /// Waits on a socket or pipe, by inode.
    waited_on: HashMap<u64, Waited<'a>>,
}

impl<'a> Connections<'a> {
    /// Indexes a model.
    pub(super) fn new(model: &'a Model, timelines: &'a Timelines, families: &Families<'_>) -> Self {
        let mut connections = Self {
            model,
            by_ino: HashMap::new(),
            by_fd: BTreeMap::new(),
            by_pair: HashMap::new(),
            listeners: HashMap::new(),
            datagram_servers: HashMap::new(),
            waited_pairs: HashMap::new(),
            waited_on: HashMap::new(),
        };
        // Nobody serves a client who has the socket by chance.
        let inherited = inherited(model, families);
        let is_own = |end: &&Endpoint| {
            let ino = end.object.socket_ino();
            ino.is_none_or(|ino| !inherited.contains(&(end.process.pid, ino)))
        };
        for endpoint in model.held.endpoints.iter().filter(is_own) {
            connections.add_endpoint(endpoint);
        }
        for wait in timelines.waits() {
            connections.add_wait(wait);
        }
        let Self { waited_pairs, waited_on, .. } = &mut connections;
        for waited in waited_pairs.values_mut().chain(waited_on.values_mut()) {
            waited.waits.sort_by_key(|wait| wait.begin_ns);
        }
        connections
    }

    fn add_endpoint(&mut self, endpoint: &'a Endpoint) {
        self.by_fd.insert((endpoint.process.pid, endpoint.fd), endpoint);
        match &endpoint.object {
            ObjectRef::Pipe { ino } | ObjectRef::Unix { ino, .. } => {
                self.by_ino.entry(*ino).or_default().push(endpoint);
            }
            ObjectRef::Inet(socket) => {
                self.by_ino.entry(socket.ino).or_default().push(endpoint);
                self.by_pair.entry(near_key(socket)).or_default().push(endpoint);
                if socket.state == TCP_LISTEN {
                    let there = self.listeners.entry(socket.local.port()).or_default();
                    there.push(endpoint);
                }
                if socket.protocol == "udp" && socket.remote.port() == 0 {
                    let there = self.datagram_servers.entry(socket.local.port()).or_default();
                    there.push((socket, &endpoint.process));
                }
            }
            _ => {}
        }
    }

    fn add_wait(&mut self, wait: &'a WaitSpan) {
        match &wait.place.object {
            Some(ObjectRef::Inet(socket)) => {
                self.waited_on.entry(socket.ino).or_default().add(self.model, wait);
                if socket.remote.port() != 0 {
                    let key = near_key(self.model.called.connected(socket));
                    self.waited_pairs.entry(key).or_default().add(self.model, wait);
                }
            }
            Some(ObjectRef::Unix { ino, .. } | ObjectRef::Pipe { ino }) => {
                self.waited_on.entry(*ino).or_default().add(self.model, wait);
            }
            _ => {}
        }
    }

    /// What some descriptors of a process are on, as far as it was reported; but for a connection to itself, by which a loop is woken where
    /// a language has no other pair of sockets.
    pub(in crate::graph) fn of_process(&self, pid: u32, fds: &[u32]) -> Vec<&'a Endpoint> {
        let known = fds.iter().filter_map(|fd| self.by_fd.get(&(pid, *fd)).copied());
        let is_own = |end: &&Endpoint| match &end.object {
            ObjectRef::Inet(socket) => is_to_itself(self, socket),
            _ => false,
        };
        known.filter(|end| !is_own(end)).collect()
    }

    /// All sockets at which a process takes connections.
    pub(in crate::graph) fn listening(
        &self,
        pid: u32,
    ) -> impl Iterator<Item = &'a Endpoint> + Clone + use<'a, '_> {
        let takes = |end: &&Endpoint| match &end.object {
            ObjectRef::Inet(socket) => socket.state == TCP_LISTEN,
            ObjectRef::Unix { peer_ino, path, .. } => *peer_ino == 0 && path.is_some(),
            _ => false,
        };
        self.by_fd.range((pid, 0)..=(pid, u32::MAX)).map(|(_, end)| *end).filter(takes)
    }

    /// What a process has open.
    pub(in crate::graph) fn all_of(&self, pid: u32) -> impl Iterator<Item = &'a Endpoint> {
        self.by_fd.range((pid, 0)..=(pid, u32::MAX)).map(|(_, end)| *end)
    }

    /// The other ends of what a process has of connections that came to a unix socket by its path, as inodes.
    pub(in crate::graph) fn came_by_path(&self, pid: u32) -> impl Iterator<Item = u64> {
        let own = self.by_fd.range((pid, 0)..=(pid, u32::MAX)).map(|(_, end)| &end.object);
        own.filter_map(|object| match object {
            ObjectRef::Unix { peer_ino, path: Some(_), .. } if *peer_ino != 0 => Some(*peer_ino),
            _ => None,
        })
    }

    /// Processes at the other ends of the unix sockets that a process has connected to somebody's listener.
    pub(in crate::graph) fn served_by_path(&self, pid: u32) -> Vec<ThreadRef> {
        let asks = |object: &ObjectRef| match object {
            ObjectRef::Unix { ino, peer_ino, .. } => {
                let is_named = |ino| self.model.called.unix_path(ino).is_some();
                (is_named(*peer_ino) && !is_named(*ino)).then_some(*peer_ino)
            }
            _ => None,
        };
        let own = self.by_fd.range((pid, 0)..=(pid, u32::MAX));
        let far = own.filter_map(|(_, end)| asks(&end.object));
        let far = far.flat_map(|ino| self.endpoints_on(ino));
        let mut all: Vec<ThreadRef> = far.map(|end| end.process.clone()).collect();
        all.retain(|process| process.pid != pid);
        all.sort_by_key(|process| process.pid);
        all.dedup_by_key(|process| process.pid);
        all
    }

    /// The endpoints on an inode.
    pub fn endpoints_on(&self, ino: u64) -> &[&'a Endpoint] {
        self.by_ino.get(&ino).map_or(&[], Vec::as_slice)
    }

    /// Processes at the other end of a connection: by descriptor, or by their own waits on it where it was closed since.
    pub fn far_processes(&self, socket: &InetRef) -> Vec<ThreadRef> {
        let key = self.far_key(socket);
        let ends = self.by_pair.get(&key).map_or(&[][..], Vec::as_slice);
        let open = ends.iter().map(|end| end.process.clone());
        let waited = self.waited_pairs.get(&key).map_or(&[][..], |it| it.by(WaitedEnd::Any));
        let mut all: Vec<ThreadRef> = open.chain(waited.iter().cloned()).collect();
        if all.is_empty() && socket.protocol == "udp" && socket.remote.port() != 0 {
            let (far, _) = self.model.called.translations.other_end(socket);
            let bound = |all| self.datagram_server((far, self.far_netns(socket)), all);
            all.extend(bound(false).or_else(|| bound(true)));
        }
        all.sort_by_key(|process| process.pid);
        all.dedup_by_key(|process| process.pid);
        all
    }

    /// The descriptors of a connection's other end.
    pub(in crate::graph) fn far_ends(&self, socket: &InetRef) -> &[&'a Endpoint] {
        self.by_pair.get(&self.far_key(socket)).map_or(&[], Vec::as_slice)
    }

    /// The clocks of a connection's other end, if it is here.
    pub(in crate::graph) fn far_turn(&self, socket: &InetRef) -> Option<&'a TcpTurn> {
        self.far_ends(socket).iter().find_map(|end| end.socket.as_ref()?.turn.as_ref())
    }

    /// The end of a connection of which nothing arrives at the other, whichever it is; this one before the far one.
    pub fn undelivered(&self, socket: &InetRef) -> Option<Undelivered<'a>> {
        let of_pair = |key| self.by_pair.get(&key).into_iter().flatten();
        let both = of_pair(near_key(socket)).chain(of_pair(self.far_key(socket)));
        both.copied().find_map(|end| Undelivered::of(self.model, end))
    }

    /// Waits on a socket or a pipe, in order of begin.
    pub(in crate::graph) fn waits_on(&self, ino: u64) -> &[&'a WaitSpan] {
        self.waited_on.get(&ino).map_or(&[], |it| &it.waits)
    }

    /// The processes that waited on a socket or a pipe: any, or of a pipe those that were seen at one end, though it may be closed since.
    pub(in crate::graph) fn waiters_on(&self, ino: u64, end: WaitedEnd) -> &[ThreadRef] {
        self.waited_on.get(&ino).map_or(&[], |it| it.by(end))
    }

    /// Waits on the far end of a connection, in order of begin.
    pub(in crate::graph) fn far_waits(&self, socket: &InetRef) -> &[&'a WaitSpan] {
        self.waited_pairs.get(&self.far_key(socket)).map_or(&[], |it| &it.waits)
    }

    /// What finds the other end of a connection.
    fn far_key(&self, socket: &InetRef) -> PairKey {
        let socket = self.model.called.connected(socket);
        let translations = &self.model.called.translations;
        let netns = translations.far_end(socket).and_then(|it| it.netns).unwrap_or(socket.netns);
        pair_key(translations.other_end(socket), socket, netns)
    }

    /// The network namespace of who is at an address that a socket asks, where that is known: of one that its own has, that.
    fn far_netns(&self, socket: &InetRef) -> Option<u32> {
        match self.model.called.translations.far_end(socket) {
            Some(far) => far.netns,
            None => {
                let (called, ip) = (&self.model.called, socket.remote.ip());
                called.has_address(socket.netns, ip).then_some(socket.netns)
            }
        }
    }

    /// Who listens at the other end of a connection that is already closed: an address of this host, or one whose
    /// listener ended the wait. Nobody who has not heard of it, and could have taken it.
    pub(in crate::graph) fn listeners(
        &self,
        socket: &InetRef,
        carrier: Option<u32>,
    ) -> Vec<ThreadRef> {
        let (far, near) = self.model.called.translations.other_end(socket);
        let netns = self.far_netns(socket);
        let listens = |end: &&&Endpoint| match &end.object {
            // Each namespace has its own loopback.
            ObjectRef::Inet(own)
                if far.ip().is_loopback() && netns.is_some_and(|it| it != own.netns) =>
            {
                false
            }
            ObjectRef::Inet(own) => {
                let here = far.ip().is_loopback() || far.ip() == near.ip();
                // In a namespace of its own, as a container's, an address is known by who has come to it. Another host, or
                // another network of containers, may have the same: so it counts only if he came from where this one is.
                let first = end.socket.as_ref().and_then(|it| it.waiting.as_ref());
                let has_come = first.is_some_and(|it| (it.at, it.from) == (far.ip(), near.ip()));
                own.local.ip() == far.ip()
                    || own.local.ip().is_unspecified() && here && own.netns == socket.netns
                    || own.local.ip().is_unspecified() && (has_come || netns == Some(own.netns))
                    || carrier == Some(end.process.pid)
            }
            _ => false,
        };
        let is_unheard = self.asks_in_vain(socket);
        let may_know = |end: &&&Endpoint| !is_unheard || has_full_queue(end);
        let all = self.listeners_at(far.port());
        all.iter().filter(listens).filter(may_know).map(|end| end.process.clone()).collect()
    }

    fn listeners_at(&self, port: u16) -> &[&'a Endpoint] {
        self.listeners.get(&port).map_or(&[], Vec::as_slice)
    }

    /// Whether a socket still asks to be connected, and had to ask again: nothing has come back.
    pub(in crate::graph) fn asks_in_vain(&self, socket: &InetRef) -> bool {
        let asks =
            |end: &&Endpoint| matches!(&end.object, ObjectRef::Inet(own) if own.is_connecting());
        let again = |end: &&Endpoint| end.socket.as_ref().is_some_and(|it| it.retransmits > 0);
        self.endpoints_on(socket.ino).iter().any(|end| asks(end) && again(end))
    }

    /// The listeners that may still accept a connection that nobody has open: those whose queue is not empty, or not known. With an
    /// empty queue it was accepted and closed since, and what was sent before that is on its way. Of a command that has ended any
    /// listener: its connections were accepted before the queues were read.
    pub fn may_accept(&self, socket: &InetRef) -> Vec<ThreadRef> {
        let mut listeners = self.listeners(socket, None);
        let target = self.model.look.target.as_ref();
        if target.is_some_and(|target| target.kind == TargetKind::Command) {
            return listeners;
        }
        let all = self.listeners_at(self.model.called.translations.other_end(socket).0.port());
        let has_queue = |end: &Endpoint| end.socket.as_ref().is_none_or(|it| it.accept_queue > 0);
        listeners.retain(|of| all.iter().any(|end| end.process.pid == of.pid && has_queue(end)));
        listeners
    }

    /// Whether a connection was made to a listener here, and this is the listener's end of it.
    pub fn is_accepted(&self, socket: &InetRef) -> bool {
        let socket = self.model.called.connected(socket);
        let takes_all = || {
            let mut there = self.datagram_servers.get(&socket.local.port()).into_iter().flatten();
            let has_it = |pid| self.endpoints_on(socket.ino).iter().any(|it| it.process.pid == pid);
            there.any(|(own, of)| {
                own.netns == socket.netns && own.ino != socket.ino && has_it(of.pid)
            })
        };
        if is_asked_by_datagram(socket, takes_all) {
            return true;
        }
        let here = |end: &&Endpoint| matches!(&end.object, ObjectRef::Inet(own) if own.netns == socket.netns);
        let listens =
            |port: u16| self.listeners.get(&port).is_some_and(|ends| ends.iter().any(here));
        let listens = |port| {
            listens(port) || self.model.called.served_ports().contains(&(socket.netns, port))
        };
        // A port that another host's client was given may be one that somebody listens at here.
        let is_within = || {
            socket.remote.ip().is_loopback()
                || socket.remote.ip() == socket.local.ip()
                || !self.far_processes(socket).is_empty()
        };
        listens(socket.local.port()) && !(listens(socket.remote.port()) && is_within())
    }

    /// The process of this host that answers at a name server's address: bound to it, or to all addresses. By which socket it was asked
    /// says which of several it is behind an address that is translated.
    pub(in crate::graph) fn name_server(
        &self,
        server: SocketAddr,
        wait: &WaitSpan,
    ) -> Option<ThreadRef> {
        let translations = &self.model.called.translations;
        let asked_by = match &wait.place.object {
            Some(ObjectRef::Inet(socket)) if socket.remote == server => Some(socket),
            _ => None,
        };
        let far = match asked_by.and_then(|socket| translations.far_end(socket)) {
            Some(far) => Some(far),
            None => translations.behind(server),
        };
        let (server, netns) = far.map_or((server, None), |far| (far.pair.0, far.netns));
        // What an address of the asker's own namespace is sent stays there: each has its own loopback.
        let own_netns = || {
            let known = self.model.threads.identity(&wait.thread).map(|known| known.netns);
            asked_by.map(|socket| socket.netns).or(known.filter(|netns| *netns != 0))
        };
        let is_own = |netns: &u32| self.model.called.has_address(*netns, server.ip());
        let netns = netns.or_else(|| own_netns().filter(is_own));
        // Name servers take long questions by TCP, at the same address.
        let listens = |end: &&&Endpoint| {
            matches!(&end.object, ObjectRef::Inet(own)
                if own.local.ip() == server.ip() && netns.is_none_or(|it| it == own.netns))
        };
        let streams = self.listeners_at(server.port());
        let by_stream = || streams.iter().find(listens).map(|end| end.process.clone());
        let bound = |all| self.datagram_server((server, netns), all);
        bound(false).or_else(by_stream).or_else(|| bound(true))
    }

    /// The process of this host whose socket without a peer gets what is sent to an address: bound to it, or to `all` of its
    /// namespace's, where that is known.
    fn datagram_server(
        &self,
        (address, netns): (SocketAddr, Option<u32>),
        all: bool,
    ) -> Option<ThreadRef> {
        let is_there =
            |socket: &InetRef| netns.map_or(address.ip().is_loopback(), |it| it == socket.netns);
        let here = |(socket, _): &&(&InetRef, &ThreadRef)| match all {
            true => socket.local.ip().is_unspecified() && is_there(socket),
            false => socket.local.ip() == address.ip() && netns.is_none_or(|it| it == socket.netns),
        };
        let there = self.datagram_servers.get(&address.port())?;
        there.iter().find(here).map(|(_, process)| (*process).clone())
    }
}

/// What finds this end of a connection.
/// Whether one process alone has both ends of a connection, and nobody listens where it was made: whoever asks a service of its own waits for it.
pub(super) fn is_to_itself(connections: &Connections<'_>, socket: &InetRef) -> bool {
    let ends = |key| connections.by_pair.get(&key).map_or(&[][..], Vec::as_slice);
    let (near, far) = (ends(near_key(socket)), ends(connections.far_key(socket)));
    let Some(first) = near.first().filter(|_| !far.is_empty()) else { return false };
    let is_service = |port: u16| connections.listeners.contains_key(&port);
    socket.remote.port() != 0
        && ![socket.local.port(), socket.remote.port()].into_iter().any(is_service)
        && near.iter().chain(far).all(|it| it.process.pid == first.process.pid)
}

fn near_key(socket: &InetRef) -> PairKey {
    pair_key((socket.local, socket.remote), socket, socket.netns)
}

/// A listener that drops who asks: as many as may wait to be accepted (sk_acceptq_is_full, include/net/sock.h); of one whose state was
/// not read it may be so.
fn has_full_queue(listener: &Endpoint) -> bool {
    listener.socket.as_ref().is_none_or(|it| it.accept_queue > it.accept_limit)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::{at_place, blocked, endpoint, host, of_process};

    /// A socket of a network namespace.
    fn inet(
        (ino, netns): (u64, u32),
        protocol: &str,
        (local, remote): (&str, &str),
        state: u8,
    ) -> ObjectRef {
        let at = |text: &str| text.parse().expect("an address");
        let (local, remote) = (at(local), at(remote));
        ObjectRef::Inet(InetRef { ino, netns, protocol: protocol.into(), local, remote, state })
    }

    /// Process 10 asks 127.0.0.1:514 by a datagram; a process that sleeps is bound to an address and that port.
    fn asks_by_datagram(bound_to: &str) -> EndKind {
        let inet = |ino, local, remote| inet((ino, 1), "udp", (local, remote), 0);
        let near = inet(100, "127.0.0.1:40000", "127.0.0.1:514");
        let syscall = "recvfrom".to_string();
        let object = Some(near.clone());
        let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
        let asleep = blocked(20, "server", WaitState::Sleep, "nanosleep");
        let ends = vec![
            of_process(10, "client"),
            endpoint(10, "client", near),
            endpoint(20, "server", inet(200, bound_to, "0.0.0.0:0")),
            at_place(10, "client", place),
            asleep,
        ];
        explain([host(), ends].concat()).answer.ends[0].end
    }

    /// Process 10 of namespace 1 has asked 127.0.0.1:80, or 127.0.0.53:53 by a datagram; a process that sleeps is there in a namespace.
    fn asks_loopback(netns: u32, protocol: &str, server: &str) -> Option<u32> {
        let inet =
            |ino, netns, local, remote, state| inet((ino, netns), protocol, (local, remote), state);
        let near = inet(100, 1, "127.0.0.1:40000", server, 1);
        let (syscall, object) = ("recvfrom".to_string(), Some(near.clone()));
        let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
        let state = if protocol == "udp" { 0 } else { 10 };
        let ends = vec![
            of_process(10, "client"),
            endpoint(10, "client", near),
            endpoint(20, "server", inet(200, netns, server, "0.0.0.0:0", state)),
            at_place(10, "client", place),
            blocked(20, "server", WaitState::Sleep, "nanosleep"),
        ];
        explain([host(), ends].concat()).answer.ends[0].who.as_ref().and_then(|who| who.pid)
    }

    #[test]
    fn the_loopback_of_another_namespace_is_another_place() {
        for (protocol, server) in
            [("tcp", "127.0.0.1:80"), ("udp", "127.0.0.1:514"), ("udp", "127.0.0.53:53")]
        {
            assert_eq!(asks_loopback(1, protocol, server), Some(20), "{protocol} {server}");
            assert_eq!(asks_loopback(2, protocol, server), None, "{protocol} {server}");
        }
    }

    /// Process 10 waits for an answer of 10.1.0.2:80; a process that sleeps listens at port 80 of another namespace, whose queue has a
    /// connection that came to an address, from another.
    fn asks_into_a_namespace(at: &str, from: &str) -> EndKind {
        let inet =
            |ino, netns, local, remote, state| inet((ino, netns), "tcp", (local, remote), state);
        let near = inet(100, 1, "10.1.0.1:40000", "10.1.0.2:80", 1);
        let syscall = "recvfrom".to_string();
        let object = Some(near.clone());
        let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
        let mut listener = endpoint(20, "server", inet(200, 2, "0.0.0.0:80", "0.0.0.0:0", 10));
        if let Body::Endpoint(end) = &mut listener.body {
            let ip = |text: &str| text.parse().expect("an address");
            let waiting = Some(Waiting { at: ip(at), from: ip(from) });
            end.socket = Some(SocketState { accept_queue: 1, waiting, ..SocketState::default() });
        }
        let ends = vec![
            of_process(10, "client"),
            endpoint(10, "client", near),
            listener,
            at_place(10, "client", place),
            blocked(20, "server", WaitState::Sleep, "nanosleep"),
        ];
        explain([host(), ends].concat()).answer.ends[0].end
    }

    /// Process 10 waits for an answer of a published port; a process that sleeps has the end that this leads to, by the table of connections.
    fn asks_a_published_port(is_known: bool) -> EndKind {
        let inet = |ino, netns, local, remote| inet((ino, netns), "tcp", (local, remote), 1);
        let near = inet(100, 1, "10.0.0.9:40000", "10.0.0.1:8080");
        let far = inet(200, 2, "10.88.0.2:80", "10.88.0.1:40000");
        let syscall = "recvfrom".to_string();
        let object = Some(near.clone());
        let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
        let mut facts = vec![
            of_process(10, "client"),
            endpoint(10, "client", near),
            endpoint(20, "server", far),
            at_place(10, "client", place),
            blocked(20, "server", WaitState::Sleep, "nanosleep"),
        ];
        if is_known {
            let at = |text: &str| text.parse().expect("an address");
            let of = Translation {
                netns: 1,
                local: at("10.0.0.9:40000"),
                remote: at("10.0.0.1:8080"),
                far_local: at("10.88.0.2:80"),
                far_remote: at("10.88.0.1:40000"),
                far_netns: None,
            };
            facts.push(Fact { at_ns: 0, body: Body::Translation(of) });
        }
        explain([host(), facts].concat()).answer.ends[0].end
    }

    #[test]
    fn of_a_socket_seen_after_its_end_the_other_end_is_who_had_it_and_no_listener() {
        let inet = |ino, local, remote, state| inet((ino, 1), "tcp", (local, remote), state);
        // inet_put_port takes its own port away.
        let closed = inet(100, "127.0.0.1:0", "127.0.0.1:80", 7);
        let (syscall, object) = ("recvfrom".to_string(), Some(closed));
        let place = Place { state: WaitState::Sleep, syscall, object, ..Place::default() };
        let ends = vec![
            of_process(10, "client"),
            at_place(10, "client", place),
            endpoint(10, "client", inet(100, "127.0.0.1:40000", "127.0.0.1:80", 1)),
            endpoint(20, "child", inet(200, "127.0.0.1:80", "127.0.0.1:40000", 1)),
            endpoint(21, "parent", inet(201, "127.0.0.1:80", "0.0.0.0:0", 10)),
            blocked(20, "child", WaitState::Sleep, "nanosleep"),
            blocked(21, "parent", WaitState::Sleep, "nanosleep"),
        ];
        let who = explain([host(), ends].concat()).answer.ends[0].who.clone();
        assert_eq!(who.and_then(|who| who.pid), Some(20));
    }

    #[test]
    fn who_is_behind_a_translation_is_waited_for() {
        assert_eq!(asks_a_published_port(true), EndKind::Sleep);
        assert_eq!(asks_a_published_port(false), EndKind::Remote);
    }

    #[test]
    fn who_listens_in_a_container_is_known_by_what_has_come_to_it() {
        assert_eq!(asks_into_a_namespace("10.1.0.2", "10.1.0.1"), EndKind::Sleep);
        assert_eq!(asks_into_a_namespace("10.2.0.2", "10.1.0.1"), EndKind::Remote, "another");
        assert_eq!(asks_into_a_namespace("10.1.0.2", "10.1.0.9"), EndKind::Remote, "a like one");
    }

    #[test]
    fn who_is_bound_where_a_datagram_goes_is_its_server() {
        assert_eq!(asks_by_datagram("127.0.0.1:514"), EndKind::Sleep);
        assert_eq!(asks_by_datagram("0.0.0.0:514"), EndKind::Sleep);
        assert_eq!(asks_by_datagram("[::]:514"), EndKind::Sleep, "it takes those of IPv4, too");
        assert_eq!(asks_by_datagram("[::1]:514"), EndKind::Remote);
        assert_eq!(asks_by_datagram("0.0.0.0:515"), EndKind::Remote);
        assert_eq!(asks_by_datagram("10.0.0.1:514"), EndKind::Remote);
    }
}
