//! Which of all open descriptors are reported at the end of a look.
//!
//! What was waited for and its other ends, whoever listens or answers datagrams (a question to a program goes there), serves a file
//! system or masters a terminal, sockets with a standing queue, and whoever sends to one that drops. And every connection, whether somebody waits on it or not: a
//! process that was asked and does not answer may compute, or wait for something else. Of connections only so many;
//! how many were left out is reported. Also who is at the other ends of what somebody has open, whose refused calls are then reported.
//!
//! Must not: read anything, or conclude who owes an answer. Pure. Edit together: connections.rs (who reads), standing_waits.rs.

use holdup_reason::facts::*;
use std::collections::{BTreeMap, HashSet};

/// Connections that are reported though nothing else speaks for them: those that spoke last.
const CONNECTIONS_MAX: usize = 20_000;

/// Of whom more speak with it a process is no client of theirs.
const PARTNERS_MAX: usize = 8;

/// It takes datagrams of anybody at a port of its own.
fn answers_datagrams(socket: &InetRef) -> bool {
    socket.protocol == "udp"
        && socket.remote.port() == 0
        && (1..GIVEN_PORTS).contains(&socket.local.port())
}

/// The inodes that name an object and its other end.
pub(super) fn inodes(object: &ObjectRef) -> Vec<u64> {
    match object {
        ObjectRef::Pipe { ino } => vec![*ino],
        ObjectRef::Inet(socket) => vec![socket.ino],
        ObjectRef::Unix { ino, peer_ino, .. } => vec![*ino, *peer_ino],
        _ => Vec::new(),
    }
}

/// Pipes that are read as standard input and that no process writes: so the kernel hands a core dump to its program, and whoever
/// crashed waits for that without a descriptor of it.
fn core_takers(all: &[Endpoint]) -> HashSet<u64> {
    let mut written = HashSet::new();
    let mut read = HashSet::new();
    for endpoint in all {
        let ObjectRef::Pipe { ino } = endpoint.object else { continue };
        if endpoint.writable {
            written.insert(ino);
        } else if endpoint.fd == 0 && endpoint.readable {
            read.insert(ino);
        }
    }
    read.retain(|ino| !written.contains(ino));
    read
}

/// Of all endpoints, those that can matter, in their order; and what was left out.
pub(super) fn relevant(
    all: Vec<Endpoint>,
    objects: &HashSet<u64>,
    polled: &BTreeMap<(u32, u32), ThreadRef>,
) -> (Vec<Endpoint>, Option<Blind>) {
    let is_polled = |endpoint: &Endpoint| polled.contains_key(&(endpoint.process.pid, endpoint.fd));
    let is_named = |endpoint: &Endpoint| {
        is_polled(endpoint) || inodes(&endpoint.object).iter().any(|ino| objects.contains(ino))
    };
    let takers = core_takers(&all);
    let mut inet_pairs = HashSet::new();
    let mut overrun: HashSet<(String, u16)> = HashSet::new();
    for endpoint in &all {
        let ObjectRef::Inet(socket) = &endpoint.object else { continue };
        if endpoint.socket.as_ref().is_some_and(|state| state.drops > 0) {
            overrun.insert((socket.protocol.clone(), socket.local.port()));
        }
        if is_named(endpoint) {
            inet_pairs.insert((socket.remote, socket.local));
        }
    }
    let matters = |endpoint: &Endpoint| {
        is_named(endpoint)
            || endpoint.socket.as_ref().is_some_and(stands)
            || match &endpoint.object {
                ObjectRef::Inet(socket) => {
                    let to = (socket.protocol.clone(), socket.remote.port());
                    socket.state == LISTEN
                        || answers_datagrams(socket)
                        || inet_pairs.contains(&(socket.local, socket.remote))
                        || overrun.contains(&to)
                }
                // Bound and not connected: a listener, by its path.
                ObjectRef::Unix { peer_ino: 0, path: Some(path), .. } => path.starts_with('/'),
                ObjectRef::Tty { name, .. } => name.starts_with("ptm"),
                ObjectRef::FuseServer { .. } => true,
                // No other of these is reported: whoever opens a file may wait for its answer.
                ObjectRef::Other { what, .. } => what == FANOTIFY,
                ObjectRef::Pipe { ino } => endpoint.fd == 0 && takers.contains(ino),
                _ => false,
            }
    };
    let mut reported = Vec::new();
    let mut connections = Vec::new();
    for (at, endpoint) in all.into_iter().enumerate() {
        if matters(&endpoint) {
            reported.push((at, endpoint));
        } else if let Some(quiet_ns) = quiet_ns(&endpoint) {
            connections.push((quiet_ns, at, endpoint));
        }
    }
    let left_out = connections.len().saturating_sub(CONNECTIONS_MAX);
    if left_out > 0 {
        connections.sort_by_key(|(quiet_ns, at, _)| (*quiet_ns, *at));
        connections.truncate(CONNECTIONS_MAX);
    }
    reported.extend(connections.into_iter().map(|(_, at, endpoint)| (at, endpoint)));
    reported.sort_by_key(|(at, _)| *at);
    let reported = reported.into_iter().map(|(_, endpoint)| endpoint).collect();
    (reported, (left_out > 0).then(|| blind(left_out)))
}

/// Of all endpoints, those on some objects, by inode, and their other ends.
pub(super) fn ends_of(mut all: Vec<Endpoint>, objects: &HashSet<u64>) -> Vec<Endpoint> {
    let is_named =
        |endpoint: &Endpoint| inodes(&endpoint.object).iter().any(|ino| objects.contains(ino));
    let pair = |endpoint: &Endpoint| match &endpoint.object {
        ObjectRef::Inet(socket) => Some((socket.local, socket.remote)),
        _ => None,
    };
    let other_ends: HashSet<_> = all
        .iter()
        .filter(|endpoint| is_named(endpoint))
        .filter_map(|endpoint| pair(endpoint).map(|(local, remote)| (remote, local)))
        .collect();
    all.retain(|endpoint| {
        is_named(endpoint) || pair(endpoint).is_some_and(|it| other_ends.contains(&it))
    });
    all
}

/// Processes that may owe one an answer: those at the other ends of its sockets and pipes, and who listens where it asks.
/// None if there are many: a server and its clients.
pub(super) fn partners(all: &[Endpoint], pid: u32) -> HashSet<u32> {
    let is_own = |endpoint: &&Endpoint| endpoint.process.pid == pid;
    let mut other_inodes = HashSet::new();
    let (mut other_ends, mut asked) = (HashSet::new(), HashSet::new());
    for endpoint in all.iter().filter(is_own) {
        match &endpoint.object {
            ObjectRef::Inet(socket) if socket.state != LISTEN && socket.remote.port() != 0 => {
                other_ends.insert((socket.remote, socket.local));
                asked.insert(socket.remote.port());
            }
            object => other_inodes.extend(inodes(object)),
        }
    }
    let is_other_end = |endpoint: &&Endpoint| match &endpoint.object {
        ObjectRef::Inet(socket) if socket.state == LISTEN => asked.contains(&socket.local.port()),
        ObjectRef::Inet(socket) => other_ends.contains(&(socket.local, socket.remote)),
        object => inodes(object).iter().any(|ino| *ino != 0 && other_inodes.contains(ino)),
    };
    let others = all.iter().filter(|endpoint| !is_own(endpoint)).filter(is_other_end);
    let partners: HashSet<u32> = others.map(|endpoint| endpoint.process.pid).collect();
    if partners.len() > PARTNERS_MAX { HashSet::new() } else { partners }
}

/// Of so many processes the partners are looked for.
const WAITERS_MAX: usize = 4;

/// Up to `count` processes that may owe these an answer, or those who do, the nearest first.
pub(super) fn owing(all: &[Endpoint], waiting: &[u32], count: usize) -> Vec<u32> {
    let mut found = waiting.to_vec();
    let mut at = 0;
    while at < found.len().min(WAITERS_MAX) && found.len() < waiting.len() + count {
        let mut next: Vec<u32> = partners(all, found[at]).into_iter().collect();
        next.retain(|pid| !found.contains(pid));
        next.sort_unstable();
        found.extend(next);
        at += 1;
    }
    found.drain(..waiting.len());
    found.truncate(count);
    found
}

/// Connections of which a sight from within the look is remembered.
const BETWEEN_MAX: usize = 5_000;
/// Objects whose other ends are looked for while a look goes on.
const FOLLOWED_MAX: usize = 10_000;
/// Sights of connections that are reported beside their last one.
const STOOD_MAX: usize = 5_000;
/// On which nothing was said for so long, somebody may be waiting.
const STOOD_NS_MIN: Ns = 20_000_000;
/// Sockets that are remembered from the begin.
const EARLIER_MAX: usize = 50_000;

/// A descriptor by process and number, and the inode of what it is.
type Place = (u32, u32, u64);

fn place(endpoint: &Endpoint) -> Place {
    (endpoint.process.pid, endpoint.fd, endpoint.object_ino())
}

/// Open descriptors that were seen before the end of a look: at the begin, because what a socket counts since it began means
/// little without it, and in between, because it may be closed by the end.
#[derive(Debug, Default)]
pub struct Ends {
    earlier: BTreeMap<Place, Fact>,
    /// In order of time: the last sight of each, and before it those on which it stood still.
    between: BTreeMap<Place, Vec<Fact>>,
    /// How many those are.
    stood: usize,
    followed: HashSet<u64>,
}

impl Ends {
    /// As a look begins, the sockets of the internet.
    pub fn at_begin(at_ns: Ns, all: Vec<Endpoint>) -> Self {
        let inet = |it: &Endpoint| matches!(it.object, ObjectRef::Inet(_));
        let sockets = all.into_iter().take(EARLIER_MAX).filter(inet);
        let earlier = sockets.map(|it| (place(&it), Fact { at_ns, body: Body::Endpoint(it) }));
        Self { earlier: earlier.collect(), ..Self::default() }
    }

    /// Those of the begin.
    pub fn earlier(&self) -> &BTreeMap<Place, Fact> {
        &self.earlier
    }

    /// All that were seen before the end.
    pub fn seen(&self) -> impl Iterator<Item = &Endpoint> {
        self.earlier.values().chain(self.between.values().flatten()).filter_map(endpoint_of)
    }

    /// Those that were seen in between.
    pub fn between(&self) -> impl Iterator<Item = &Endpoint> {
        self.between.values().filter_map(|sights| endpoint_of(sights.last()?))
    }

    /// Whether the other end of an object is to be looked for: not yet, and there is room.
    pub fn follows(&mut self, ino: u64) -> bool {
        ino != 0 && self.followed.len() < FOLLOWED_MAX && self.followed.insert(ino)
    }

    /// One that was seen in between, whatever room there is.
    pub fn replace(&mut self, at_ns: Ns, endpoint: Endpoint) {
        let sights = self.between.entry(place(&endpoint)).or_default();
        let stood = sights.last().and_then(endpoint_of).is_some_and(|it| stood(it, &endpoint));
        match stood && self.stood < STOOD_MAX {
            true => self.stood += 1,
            false => drop(sights.pop()),
        }
        sights.push(Fact { at_ns, body: Body::Endpoint(endpoint) });
    }

    /// All descriptors in between: those on some objects and their other ends are remembered, and if the look `asks`, all
    /// connections. Also those of whom somebody asks on the way may be closed by the end.
    pub fn see(&mut self, at_ns: Ns, all: Vec<Endpoint>, objects: &HashSet<u64>, asks: bool) {
        let connections: Vec<Endpoint> = match asks {
            true => all.iter().filter(|it| is_connection(it)).take(BETWEEN_MAX).cloned().collect(),
            false => Vec::new(),
        };
        for endpoint in connections.into_iter().chain(ends_of(all, objects)) {
            let is_known = self.between.contains_key(&place(&endpoint));
            if is_known || self.between.len() < BETWEEN_MAX {
                self.replace(at_ns, endpoint);
            }
        }
    }

    /// One that is reported at the end, behind what it was at the begin, and when it stood still in between.
    pub fn report(&mut self, at_ns: Ns, endpoint: Endpoint, facts: &mut Vec<Fact>) {
        let mut sights = self.between.remove(&place(&endpoint)).unwrap_or_default();
        if !sights.last().and_then(endpoint_of).is_some_and(|it| stood(it, &endpoint)) {
            sights.pop();
        }
        if matches!(endpoint.object, ObjectRef::Inet(_)) {
            facts.extend(self.earlier.remove(&place(&endpoint)));
        }
        facts.extend(sights);
        facts.push(Fact { at_ns, body: Body::Endpoint(endpoint) });
    }

    /// What was seen in between and not at the end.
    pub fn take_between(&mut self) -> impl Iterator<Item = Fact> {
        std::mem::take(&mut self.between).into_values().flatten()
    }
}

fn endpoint_of(fact: &Fact) -> Option<&Endpoint> {
    match &fact.body {
        Body::Endpoint(endpoint) => Some(endpoint),
        _ => None,
    }
}

/// Whether a connection stood still as it was seen, and went on since: at the end nothing shows that somebody waited there.
fn stood(seen: &Endpoint, later: &Endpoint) -> bool {
    let bytes = |endpoint: &Endpoint| {
        let state = endpoint.socket.as_ref()?;
        state.turn.is_some().then_some((state.acked_bytes, state.received_bytes))
    };
    let stands = |quiet_ns: Ns| (STOOD_NS_MIN..Ns::MAX).contains(&quiet_ns);
    bytes(seen).is_some() && bytes(seen) != bytes(later) && quiet_ns(seen).is_some_and(stands)
}

/// A TCP connection, made or being made.
fn is_connection(endpoint: &Endpoint) -> bool {
    matches!(&endpoint.object, ObjectRef::Inet(socket) if socket.is_tcp() && socket.remote.port() != 0)
}

/// TCP_LISTEN and TCP_SYN_SENT.
pub(super) const LISTEN: u8 = 10;
const SYN_SENT: u8 = 2;

/// Something waits in it.
fn stands(socket: &SocketState) -> bool {
    socket.accept_queue > 0
        || socket.unsent_bytes > 0
        || socket.receive_queued_bytes > 0
        || socket.send_queued_bytes > 0
        || socket.drops > 0
}

/// For how long nothing was said on a connection, the greatest number if nobody knows; none if it is no connection.
fn quiet_ns(endpoint: &Endpoint) -> Option<Ns> {
    match &endpoint.object {
        ObjectRef::Unix { peer_ino, .. } => (*peer_ino != 0).then_some(Ns::MAX),
        ObjectRef::Inet(socket) => {
            match endpoint.socket.as_ref().and_then(|state| state.turn.as_ref()) {
                Some(turn) => {
                    let jiffies = turn.sent_jiffies.min(turn.received_jiffies);
                    Some(u64::from(jiffies) * u64::from(turn.jiffy_ns))
                }
                None if socket.state == SYN_SENT => Some(0),
                None => (socket.protocol == "udp" && socket.remote.port() != 0).then_some(Ns::MAX),
            }
        }
        _ => None,
    }
}

fn blind(left_out: usize) -> Blind {
    Blind {
        what: "endpoints".into(),
        why: format!(
            "there are {left_out} connections more than the {CONNECTIONS_MAX} that are reported"
        ),
        therefore: "who owes an answer on those that were quiet for longest is not seen".into(),
        ..Blind::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(fd: u32, object: ObjectRef, turn: Option<TcpTurn>) -> Endpoint {
        let socket = Some(SocketState { turn, ..SocketState::default() });
        let process = ThreadRef { tid: 7, pid: 7, ..ThreadRef::default() };
        Endpoint {
            process,
            fd,
            readable: true,
            writable: true,
            nonblocking: false,
            object,
            unread: None,
            output_stopped: false,
            socket,
        }
    }

    fn inet(protocol: &str, state: u8, remote_port: u16) -> ObjectRef {
        let at = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        ObjectRef::Inet(InetRef {
            ino: 5,
            netns: 1,
            protocol: protocol.into(),
            local: at(80),
            remote: at(remote_port),
            state,
        })
    }

    fn quiet_for(jiffies: u32) -> Option<TcpTurn> {
        let turn = TcpTurn {
            sent_jiffies: jiffies,
            received_jiffies: jiffies + 1,
            jiffy_ns: 1,
            ..TcpTurn::default()
        };
        Some(turn)
    }

    fn reported(all: Vec<Endpoint>) -> (Vec<u32>, Option<Blind>) {
        let (reported, blind) = relevant(all, &HashSet::new(), &BTreeMap::new());
        (reported.iter().map(|endpoint| endpoint.fd).collect(), blind)
    }

    #[test]
    fn who_answers_datagrams_is_reported_and_who_asks_by_them_is_not() {
        let at = |local: u16, remote: u16| {
            let ObjectRef::Inet(socket) = inet("udp", 7, remote) else { unreachable!() };
            let local = std::net::SocketAddr::from(([127, 0, 0, 1], local));
            ObjectRef::Inet(InetRef { local, ..socket })
        };
        let all = vec![
            endpoint(3, at(53, 0), None),
            endpoint(4, at(GIVEN_PORTS, 0), None),
            endpoint(5, at(0, 0), None),
        ];
        assert_eq!(reported(all).0, [3]);
    }

    #[test]
    fn who_may_owe_an_answer_is_at_the_other_end_or_listens_there() {
        let of = |pid: u32, object: ObjectRef| {
            let process = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
            Endpoint { process, ..endpoint(3, object, None) }
        };
        let between = |local: u16, remote: u16| {
            let ObjectRef::Inet(socket) = inet("tcp", 1, remote) else { unreachable!() };
            let local = std::net::SocketAddr::from(([127, 0, 0, 1], local));
            ObjectRef::Inet(InetRef { local, ..socket })
        };
        let mut all = vec![
            of(1, between(50_000, 80)),
            of(2, between(80, 50_000)),
            of(3, inet("tcp", LISTEN, 0)),
            of(4, between(80, 50_001)),
            of(5, ObjectRef::Pipe { ino: 9 }),
            of(1, ObjectRef::Pipe { ino: 9 }),
        ];
        assert_eq!(partners(&all, 1), HashSet::from([2, 3, 5]));
        assert_eq!(partners(&all, 2), HashSet::from([1]));
        assert_eq!((owing(&all, &[2], 8), owing(&all, &[2], 2)), (vec![1, 3, 5], vec![1, 3]));
        all.extend((10..30).map(|pid| of(pid, ObjectRef::Pipe { ino: 9 })));
        assert!(partners(&all, 1).is_empty(), "too many");
    }

    #[test]
    fn connections_and_listeners_are_reported_though_nobody_waits_on_them() {
        let unix = |peer_ino| ObjectRef::Unix { ino: 9, peer_ino, path: None };
        let bound = |path: &str| ObjectRef::Unix { ino: 9, peer_ino: 0, path: Some(path.into()) };
        let all = vec![
            endpoint(0, ObjectRef::Pipe { ino: 3 }, None),
            endpoint(1, inet("tcp", 1, 9_000), quiet_for(100)),
            endpoint(2, inet("tcp", 7, 0), None),
            endpoint(3, inet("udp", 0, 53), None),
            endpoint(4, inet("udp", 0, 0), None),
            endpoint(5, unix(8), None),
            endpoint(6, unix(0), None),
            endpoint(7, inet("tcp", SYN_SENT, 9_000), None),
            endpoint(8, inet("tcp", LISTEN, 0), None),
            endpoint(9, bound("/run/db"), None),
            endpoint(10, bound("@db"), None),
        ];
        assert_eq!(reported(all), (vec![1, 3, 4, 5, 7, 8, 9], None));
    }

    #[test]
    fn a_pipe_that_is_read_as_standard_input_and_that_nobody_writes_may_take_a_core() {
        let end = |fd: u32, ino: u64, writable: bool| {
            let mut end = endpoint(fd, ObjectRef::Pipe { ino }, None);
            (end.readable, end.writable) = (!writable, writable);
            end
        };
        let all = vec![end(0, 3, false), end(0, 4, false), end(7, 4, true), end(5, 6, false)];
        assert_eq!(core_takers(&all), HashSet::from([3]));
    }

    #[test]
    fn the_ends_of_a_connection_are_found_by_one_of_them() {
        let ends = |local_port, remote_port, ino| {
            let at = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
            let (local, remote) = (at(local_port), at(remote_port));
            let protocol = "tcp".into();
            ObjectRef::Inet(InetRef { ino, netns: 1, protocol, local, remote, state: 1 })
        };
        let all = vec![
            endpoint(0, ends(80, 9_000, 5), None),
            endpoint(1, ends(9_000, 80, 6), None),
            endpoint(2, ends(9_001, 80, 7), None),
            endpoint(3, ObjectRef::Unix { ino: 8, peer_ino: 5, path: None }, None),
        ];
        let found = ends_of(all, &HashSet::from([5]));
        assert_eq!(found.iter().map(|endpoint| endpoint.fd).collect::<Vec<_>>(), [0, 1, 3]);
    }

    #[test]
    fn of_too_many_connections_those_that_spoke_last_are_reported() {
        let count = CONNECTIONS_MAX as u32 + 10;
        let mut all: Vec<_> = (0..count)
            .map(|fd| endpoint(fd, inet("tcp", 1, 9_000), quiet_for(count - fd)))
            .collect();
        all.push(endpoint(count, inet("tcp", LISTEN, 0), None));
        let (reported, blind) = reported(all);
        assert_eq!(reported, (10..=count).collect::<Vec<_>>());
        assert!(blind.is_some_and(|blind| blind.why.starts_with("there are 10 connections more")));
    }

    #[test]
    fn a_connection_that_stood_still_in_between_is_reported_as_it_was_then() {
        let at = |fd: u32, jiffies: u32, received_bytes: u64| {
            let turn = TcpTurn { jiffy_ns: 4_000_000, ..quiet_for(jiffies).unwrap_or_default() };
            let mut seen = endpoint(fd, inet("tcp", 1, 9_000), Some(turn));
            seen.socket = seen.socket.map(|state| SocketState { received_bytes, ..state });
            seen
        };
        let reported = |jiffies: u32, later_bytes: u64| {
            let mut ends = Ends::at_begin(1, vec![at(3, 0, 0)]);
            ends.replace(2, at(3, jiffies, 5));
            ends.replace(3, at(3, 0, later_bytes));
            let mut facts = Vec::new();
            ends.report(4, at(3, 0, 9), &mut facts);
            facts.iter().map(|fact| fact.at_ns).collect::<Vec<_>>()
        };
        assert_eq!(reported(100, 9), [1, 2, 4]);
        assert_eq!(reported(2, 9), [1, 4], "it was just spoken on");
        assert_eq!(reported(100, 5), [1, 4], "the later sight of the same rest counts");
    }
}
