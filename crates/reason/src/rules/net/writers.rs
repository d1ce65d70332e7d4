//! Writers of TCP streams that are held back, by the peer that they write to.
//!
//! A writer that waits for room has an end. An event loop waits for room while it waits for all else: only data that stands
//! unsent shows its demand, there is no end to claim, and what is lost is the time with data outstanding. Where it serves a client
//! that is all the client's: the others are served meanwhile, so it is a note, unless the process was seen to serve nobody else, or most
//! clients of its listener fare alike. A command is waited for, whomever it serves.
//!
//! Must not: claim a stream whose writer does not wait and which has nothing outstanding; alarm for one client of an event loop.
//! Rejected: shares of counters since the connection began, where the begin of the look is known.

use crate::facts::ObjectRef;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::tcp_stream::{SocketChanges, Stream};
use crate::model::object::Object;
use crate::model::words;
pub(super) use crate::rules::net::retransmits::{HEAVY_LOSS, LEAST_AGAIN, loses};
use crate::rules::net::standing_queue::{passed, standing};
use crate::rules::net::{losses, relay_legs};
use crate::rules::wording::Severity;
use crate::rules::{Losses, Match, engine};
use crate::threshold::Threshold;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Part of the look with data outstanding from which an event loop's stream has demand.
pub(super) static BUSY: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the look with data outstanding, from which a stream has demand although no writer waits for room",
    "chosen: more often than not",
);
/// Part of the time with data outstanding in which the peer's window was shut.
pub(super) static WINDOW_SHUT: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the time with data outstanding that the peer's window limited, if it is the reason",
    "lab, seeds 4401-4403: 0.98 behind a slow reader, 0.39 at a class's ceiling, 0 elsewhere",
);

/// Hosts whose clients fare alike.
pub(super) static SEVERAL_HOSTS: Threshold = Threshold::new(
    3.0,
    "1",
    "hosts with clients of one listener that are held back for one reason, from which it is no matter of a single client",
    "chosen: two may be one user's",
);
/// Part of them.
pub(super) static MOST_HOSTS: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the hosts that the processes of one listener send to within the look (where fewer than three fare so, of the connections), from \
     which what holds them back is something that they share",
    "chosen: most of them; of a public server a few clients are always slow",
);

/// A stream that somebody waits to write to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer<'m> {
    /// The stream.
    pub stream: &'m Stream<'m>,
    /// The end of its writers' waits, with its index; none of an event loop.
    pub end: Option<(usize, &'m End)>,
    /// Seconds that its writer lost.
    pub lost: f64,
}

/// Every stream with a writer who is held back, as far as nobody has claimed his wait.
pub(super) fn writers<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Writer<'m>> {
    measures.tcp_streams.iter().filter_map(|stream| writer(measures, ends, stream)).collect()
}

fn writer<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    stream: &'m Stream<'m>,
) -> Option<Writer<'m>> {
    if let Some(at) = stream.end {
        let end = ends.get(at).filter(|end| !end.victims.is_empty())?;
        let lost = end.victims.values().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        return Some(Writer { stream, end: Some((at, end)), lost });
    }
    let (busy, look) = (stream.busy_seconds(), measures.model.look.seconds());
    let stands_unsent = stream.endpoint.nonblocking
        && stream.state.unsent_bytes > 0
        && busy >= BUSY.value * look
        && measures.concerns(&stream.endpoint.process);
    stands_unsent.then_some(Writer { stream, end: None, lost: busy.min(look) })
}

/// The streams to one peer that have one reason.
#[derive(Debug, Clone)]
pub(super) struct Peer<'m> {
    /// The peer.
    pub address: SocketAddr,
    /// Whoever loses most comes first; never empty.
    pub writers: Vec<Writer<'m>>,
    /// It is one client of an event loop, and nobody else waits for what it does not take.
    pub is_client: bool,
}

/// Streams that pass no standing queue of this host and for which a reason holds, by peer.
pub(super) fn by_peer<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    holds: impl Fn(&Writer<'m>) -> bool,
) -> Vec<Peer<'m>> {
    let standing = standing(measures);
    let mut peers: BTreeMap<SocketAddr, Vec<Writer<'m>>> = BTreeMap::new();
    for writer in writers(measures, ends) {
        if passed(&standing, writer.stream).is_none() && holds(&writer) {
            peers.entry(writer.stream.socket.remote).or_default().push(writer);
        }
    }
    let held_back: Vec<Writer<'m>> = peers.values().flatten().copied().collect();
    // On a command's path nothing is somebody else's matter.
    let is_capped = !held_back.is_empty() && !measures.is_command();
    let loops = is_capped.then(|| Loops::of(measures, &held_back));
    let peers = peers.into_iter().map(|(address, mut writers)| {
        writers.sort_by(|a, b| b.lost.total_cmp(&a.lost));
        let is_client = loops
            .as_ref()
            .is_some_and(|loops| writers.iter().all(|it| loops.is_clients_alone(measures, it)));
        Peer { address, writers, is_client }
    });
    peers.collect()
}

/// What the clients of one listener were sent within the look.
#[derive(Debug, Default)]
struct Clients {
    hosts: BTreeSet<IpAddr>,
    connections: usize,
    slow_hosts: BTreeSet<IpAddr>,
    slow_connections: usize,
}

impl Clients {
    /// What holds some of them back is shared by few.
    fn are_mostly_well(&self) -> bool {
        let is_few = |alike: usize, all: usize| (alike as f64) < MOST_HOSTS.value * all as f64;
        // Many clients have one address behind a balancer, an ingress or a gateway: then it is their connections that count.
        if (self.slow_hosts.len() as f64) < SEVERAL_HOSTS.value {
            return is_few(self.slow_connections, self.connections);
        }
        is_few(self.slow_hosts.len(), self.hosts.len())
    }
}

/// Whom event loops serve, counted once for all of their clients: of thousands of slow clients each look at the others would be too long.
struct Loops<'m> {
    /// By network namespace and port: the workers of one server share its listener.
    clients: HashMap<(u32, u16), Clients>,
    /// Connections that a process accepted and on which it had data acknowledged.
    served: HashMap<u32, HashSet<u64>>,
    /// Whether every wait of a process at an object is in the call in which it takes whatever else comes.
    waits: HashMap<(u32, &'m Object), bool>,
}

impl<'m> Loops<'m> {
    fn of(measures: &'m Measures<'m>, held_back: &[Writer<'m>]) -> Self {
        let at_ends = held_back.iter().filter_map(|it| {
            let (_, end) = it.end?;
            Some(((it.stream.endpoint.process.pid, &end.object), true))
        });
        let mut loops =
            Self { clients: HashMap::new(), served: HashMap::new(), waits: at_ends.collect() };
        for wait in measures.waits() {
            if let Some(all) = loops.waits.get_mut(&(wait.thread.pid, &wait.object)) {
                *all &= wait.place.is_of_loop();
            }
        }
        let slow: HashSet<u64> = held_back.iter().map(|it| it.stream.socket.ino).collect();
        let changes = SocketChanges::of(measures.model);
        let (held, begin_ns) = (&measures.model.held, measures.model.look.begin_ns);
        let mut seen = HashSet::new();
        for (endpoint, at_ns) in held.endpoints.iter().zip(&held.endpoints_at) {
            let ObjectRef::Inet(socket) = &endpoint.object else { continue };
            let Some((state, change)) = changes.of_endpoint(endpoint) else { continue };
            // What was read before the look's end alone was counted since the connection began: the clock says whether it was of the look.
            let is_of_look = state.turn.as_ref().is_none_or(|turn| {
                let ago_ns = u64::from(turn.sent_jiffies) * u64::from(turn.jiffy_ns);
                at_ns.saturating_sub(ago_ns) >= begin_ns
            });
            let was_served = change.acked_bytes > 0 && is_of_look;
            let is_slow = slow.contains(&socket.ino);
            let is_sent_to = was_served || state.unsent_bytes > 0 || is_slow;
            if !socket.is_tcp() || !is_sent_to || !measures.graph.is_accepted(socket) {
                continue;
            }
            if was_served {
                loops.served.entry(endpoint.process.pid).or_default().insert(socket.ino);
            }
            if seen.insert(socket.ino) {
                loops.add((socket.netns, socket.local.port()), socket.remote.ip(), is_slow);
            }
        }
        loops
    }

    fn add(&mut self, listener: (u32, u16), host: IpAddr, is_slow: bool) {
        let clients = self.clients.entry(listener).or_default();
        clients.hosts.insert(host);
        clients.connections += 1;
        if is_slow {
            clients.slow_hosts.insert(host);
            clients.slow_connections += 1;
        }
    }

    /// An event loop of this host serves it and others meanwhile, and hardly anybody else fares so.
    fn is_clients_alone(&self, measures: &Measures<'_>, writer: &Writer<'m>) -> bool {
        let (socket, by) = (writer.stream.socket, writer.stream.endpoint.process.pid);
        // Who waits for room in the call in which it takes whatever else comes does not wait for that client, unless somebody waits for him.
        let is_of_loop = |end: &'m End| {
            let own = self.waits.get(&(by, &end.object)).copied().unwrap_or(true);
            end.victims.keys().all(|pid| *pid == by) && own
        };
        let waits_for_it = writer.end.is_some_and(|(_, end)| !is_of_loop(end));
        let is_served_by_loop = !waits_for_it
            && writer.stream.endpoint.nonblocking
            && measures.graph.is_accepted(socket);
        // A process for each client (a database's backend) waits in the same call, and has nobody else to serve.
        let mut served = self.served.get(&by).into_iter().flatten();
        let serves_others = served.any(|ino| *ino != socket.ino);
        let clients = self.clients.get(&(socket.netns, socket.local.port()));
        is_served_by_loop && serves_others && clients.is_some_and(Clients::are_mostly_well)
    }
}

/// The peer's window limited it.
pub(super) fn window_is_shut(stream: &Stream<'_>) -> bool {
    stream.receiver_limited() >= WINDOW_SHUT.value
}

impl<'m> Peer<'m> {
    /// The stream that loses most.
    pub(super) fn first(&self) -> &Writer<'m> {
        &self.writers[0]
    }

    /// Who writes to it: `tcp-source 812`.
    pub(super) fn writer(&self) -> String {
        words::who(&self.first().stream.endpoint.process)
    }

    /// Seconds lost by the one who loses most.
    pub(super) fn lost(&self) -> f64 {
        self.first().lost
    }

    /// Bytes a second that got through.
    pub(super) fn throughput(&self, measures: &Measures<'_>) -> f64 {
        let bytes: u64 = self.writers.iter().map(|one| one.stream.change.acked_bytes).sum();
        bytes as f64 / measures.model.look.seconds().max(1e-9)
    }

    /// How long it is held back, as the begin of a sentence.
    pub(super) fn held_back(&self, measures: &Measures<'_>) -> String {
        let (lost, to) = (words::of_window(self.lost(), measures.wall_seconds()), self.address);
        match self.first().end {
            Some(_) if !self.is_client => format!("{lost} pass in waits to write to {to}."),
            _ if self.is_client => {
                format!(
                    "For {lost} data for {to} stood unsent; the event loop serves others meanwhile."
                )
            }
            _ => format!("For {lost} data for {to} stood unsent."),
        }
    }

    /// The match with the writers' waits as its claims, or with the losses of event loops. `reader`: whoever reads at the
    /// other end is to blame and belongs to the chain; else he waits for this too.
    pub(super) fn claim(
        &self,
        measures: &Measures<'_>,
        matched: Match<'m>,
        reader: bool,
    ) -> Option<Match<'m>> {
        if self.writers.iter().any(|one| one.end.is_some()) {
            let matched = match self.first().end {
                Some((_, end)) => relay_legs::said(measures, end, matched),
                None => matched,
            };
            return Some(self.weighed(claim(&self.writers, matched, reader)));
        }
        let mut lost = Losses::new();
        for one in &self.writers {
            let process = &one.stream.endpoint.process;
            let loss = lost.entry(process.pid).or_insert_with(|| (process.clone(), 0.0));
            loss.1 = loss.1.max(one.lost);
        }
        let lost = losses::in_target(measures, lost);
        let object = Object::Inet(self.first().stream.socket.ino);
        if lost.is_empty() {
            return None;
        }
        Some(self.weighed(losses::of_measure(measures, matched, object, lost, None)))
    }

    /// What is one client's own matter is a note.
    fn weighed(&self, mut matched: Match<'m>) -> Match<'m> {
        if self.is_client {
            matched.severity_max = Severity::Note;
        }
        matched
    }
}

/// The match with the ends of some writers' waits as its claims.
pub(super) fn claim<'m>(writers: &[Writer<'m>], mut matched: Match<'m>, reader: bool) -> Match<'m> {
    let ends: Vec<(usize, &End)> = writers.iter().filter_map(|one| one.end).collect();
    if let Some(end) = End::merged(ends.iter().map(|(_, end)| *end)).filter(|_| !reader) {
        let to_socket = end.links.iter().take(end.named + 1);
        matched.chain = Some(to_socket.filter_map(|link| engine::step(link)).collect());
    }
    ends.iter().fold(matched, |matched, (at, _)| matched.claiming(*at, None))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::endpoint;
    use crate::rules::wording::Severity;

    /// An event loop that listens, and whose clients on so many hosts do not read, beside others that do.
    fn serves(slow: u64, quick: u64) -> Vec<(Severity, String)> {
        serves_as(slow, quick, |_| 10, |at| at, Vec::new())
    }

    /// The same of a server whose process for each client, and whose client's host, are given by its number; with what else is known.
    fn serves_as(
        slow: u64,
        quick: u64,
        process: fn(u32) -> u32,
        host: fn(u64) -> u64,
        others: Vec<Fact>,
    ) -> Vec<(Severity, String)> {
        let mut facts = vec![endpoint(10, "web", inet("tcp", 1, "0.0.0.0:80", "0.0.0.0:0", 10))];
        for at in 0..slow + quick {
            let shut = SocketState {
                busy_us: 4_900_000,
                receiver_limited_us: 4_900_000,
                unsent_bytes: 90_000,
                acked_bytes: 1_000,
                ..SocketState::default()
            };
            let reads =
                SocketState { busy_us: 1_000, acked_bytes: 1_000, ..SocketState::default() };
            let remote = format!("10.0.1.{}:{}", host(at), 4_000 + at);
            let socket = inet("tcp", 100 + at, "10.0.0.1:80", &remote, 1);
            let pid = process(at as u32);
            let mut fact = with_state(pid, "web", socket, if at < slow { shut } else { reads });
            if let Body::Endpoint(endpoint) = &mut fact.body {
                (endpoint.nonblocking, endpoint.fd) = (true, 10 + at as u32);
            }
            facts.push(fact);
        }
        facts.extend(others);
        findings(facts).into_iter().map(|it| (it.severity, it.title)).collect()
    }

    #[test]
    fn a_slow_client_of_an_event_loop_is_its_own_matter() {
        for (slow, quick) in [(1, 2), (2, 9), (4, 9)] {
            let said = serves(slow, quick);
            assert_eq!(said.len(), slow as usize);
            assert!(said.iter().all(|(severity, _)| *severity == Severity::Note), "{said:?}");
            assert!(said[0].1.ends_with("reads too slowly what web 10 sends it"), "{said:?}");
        }
    }

    #[test]
    fn who_serves_nobody_else_waits_for_its_client() {
        let above = |said: Vec<(Severity, String)>| {
            assert!(!said.is_empty());
            said.iter().all(|(severity, _)| *severity > Severity::Note)
        };
        assert!(above(serves(1, 0)), "nobody else was seen to be served");
        // A backend for each client, each on a host of its own: nobody serves two.
        let backends = serves_as(8, 2, |at| 20 + at, |at| at, Vec::new());
        assert_eq!(backends.len(), 8);
        assert!(above(backends));
        // Whoever runs the server waits for it.
        let command = vec![look_at(TargetKind::Command, 10)];
        assert!(above(serves_as(1, 9, |_| 10, |at| at, command)));
    }

    #[test]
    fn clients_behind_one_balancer_are_counted_by_their_connections() {
        let severities = |slow, quick| {
            let said = serves_as(slow, quick, |_| 10, |at| at % 2, Vec::new());
            assert!(!said.is_empty());
            said.into_iter().map(|(severity, _)| severity).collect::<Vec<_>>()
        };
        assert!(severities(8, 2).iter().all(|it| *it > Severity::Note), "a lossy way");
        assert!(severities(2, 9).iter().all(|it| *it == Severity::Note), "a few slow ones");
    }

    /// Each of them is weighed by what was counted once: with a count for each anew this takes minutes.
    #[test]
    fn of_thousands_of_slow_clients_all_are_counted_once() {
        let said = serves_as(3_000, 1_000, |_| 10, |at| at % 250, Vec::new());
        assert!(said.iter().all(|(severity, _)| *severity > Severity::Note));
    }

    #[test]
    fn clients_on_several_hosts_that_fare_alike_are_no_matter_of_one() {
        let said = serves(4, 2);
        assert!(said.iter().all(|(severity, _)| *severity > Severity::Note), "{said:?}");
    }
}
