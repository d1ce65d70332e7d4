//! Listening sockets, and who waits for them: to be connected, or accepted.
//!
//! What the rules of a listener's two queues share: what it dropped, what its namespace counts, its clients, and which ends are theirs. The kernel
//! counts for all listeners of a namespace together, and for each what it dropped, whyever. A process that was asked about may stand behind a client, as
//! who reads what its child fetches does: what it waits through that client is lost to the listener too. Must not: say which of the queues is to blame.
//!
//! Edit together: accept_queue.rs, syn_backlog.rs.

use crate::facts::*;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::net_counter::growth;
use crate::measure::tcp_stream::{SocketChanges, leads_to, other_end};
use crate::model::Model;
use crate::model::object::Object;
use crate::rules::net::losses::in_target;
use crate::rules::{Losses, Match};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeSet, HashSet};

/// Part of tcp_max_syn_backlog that half made connections take.
pub(super) static LAST_QUARTER: Threshold = Threshold::new(
    0.7,
    "1",
    "connections that are half made as the look ends, of what net.ipv4.tcp_max_syn_backlog allows: from three quarters on, hosts that are not \
     known from before are ignored; a few may have been given up since",
    "tcp_conn_request (net/ipv4/tcp_input.c): max_syn_backlog >> 2",
);

/// A listening socket.
#[derive(Clone, Copy)]
pub(super) struct Listener<'m> {
    /// Who is to accept.
    pub process: &'m ThreadRef,
    /// Where it listens.
    pub socket: &'m InetRef,
    /// Its queues as the look ends.
    pub state: &'m SocketState,
    /// Overflows of accept queues of its namespace within the look.
    pub overflows: u64,
    /// Attempts that its namespace ignored within the look because a SYN queue was full and no cookies may be sent.
    pub requests_ignored: u64,
    /// What this one dropped within the look.
    pub dropped: u64,
}

impl Listener<'_> {
    /// The kernel lets one more in than the limit says.
    pub(super) fn is_full(&self) -> bool {
        self.state.accept_queue >= self.state.accept_limit
    }

    /// It overflows now and then, and is emptied in between. What was dropped while no queue overflowed was dropped for
    /// another reason.
    pub(super) fn has_bursts(&self) -> bool {
        self.dropped > 0 && self.overflows > 0 && !self.is_full()
    }

    /// It dropped attempts, and so did SYN queues of its namespace, or its own has its last quarter left, while no accept queue was full.
    pub(super) fn has_no_room_for_requests(&self) -> bool {
        let has_none = self.requests_ignored > 0 || self.has_last_quarter().is_some();
        self.dropped > 0 && has_none && self.overflows == 0 && !self.is_full()
    }

    /// Cookies are off, and of what its namespace allows of half made connections no more than a quarter is left, which is for hosts that
    /// the kernel knows from before (tcp_conn_request): no counter but that of drops says so.
    pub(super) fn has_last_quarter(&self) -> Option<&Requests> {
        let is_it = |it: &&Requests| {
            !it.cookies && f64::from(it.half_made) >= LAST_QUARTER.value * f64::from(it.limit)
        };
        self.state.requests.as_ref().filter(is_it).filter(|_| self.requests_ignored == 0)
    }
}

/// All of them, each once.
pub(super) fn listeners<'m>(measures: &'m Measures<'m>) -> Vec<Listener<'m>> {
    let model = measures.model;
    let changes = SocketChanges::of(model);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for endpoint in &model.held.endpoints {
        let (ObjectRef::Inet(socket), Some(state)) = (&endpoint.object, &endpoint.socket) else {
            continue;
        };
        let listens = socket.is_tcp() && socket.state == TCP_LISTEN;
        if listens && seen.insert(socket.ino) {
            let grown = |name| growth(model, socket.netns, name).unwrap_or(0);
            found.push(Listener {
                process: &endpoint.process,
                socket,
                state,
                overflows: grown("TcpExt.ListenOverflows"),
                requests_ignored: grown("TcpExt.TCPReqQFullDrop"),
                dropped: changes.of_endpoint(endpoint).map_or(0, |(_, change)| change.drops),
            });
        }
    }
    found
}

/// Of several processes that have the listener, the one that is to accept: whom following the clients' waits came to, else
/// one that another of them began (a worker, and not its master, whom one comes to first and who only looks after them).
pub(super) fn server<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    listener: &InetRef,
) -> Option<&'m ThreadRef> {
    let model = measures.model;
    let ends_on = measures.graph.endpoints_on(listener.ino).iter();
    let all: Vec<&ThreadRef> = ends_on.map(|end| &end.process).collect();
    let clients = clients(measures, listener);
    let waited_on: HashSet<&Object> = clients.iter().map(|wait| &wait.object).collect();
    let through = |end: &&End| end.links.iter().any(|link| waited_on.contains(&link.object));
    let found = ends.iter().filter(through).filter_map(|end| end.who.as_ref());
    let found = found.filter_map(|who| all.iter().find(|own| own.pid == who.pid)).next();
    let parent = |own: &ThreadRef| model.threads.identity(own).map(|known| known.parent_pid);
    let is_worker = |own: &&&ThreadRef| all.iter().any(|other| parent(own) == Some(other.pid));
    let worker = || all.iter().find(is_worker);
    let has_worker = |own: &ThreadRef| all.iter().any(|other| parent(other) == Some(own.pid));
    let found = found.filter(|own| !(has_worker(own) && passes_by(measures, own)));
    found.or_else(worker).or_else(|| all.first()).copied()
}

/// Whether a process was up within the look and went back to its rest: it does not mean to take what has come.
fn passes_by(measures: &Measures<'_>, process: &ThreadRef) -> bool {
    let look = &measures.model.look;
    let waits = measures.graph.waits_of(process).iter();
    let mut own = waits.filter(|wait| wait.within_ns(look.begin_ns, look.end_ns) > 0).peekable();
    let mut rests = 0;
    let is_rest = |wait: &WaitSpan| {
        use WaitClass::{Child, Idle, Timer};
        rests += usize::from(matches!(wait.class, Child | Idle | Timer));
        matches!(wait.class, Child | Idle | Timer | WaitClass::RunQueue)
    };
    own.peek().is_some() && own.all(is_rest) && rests > 1
}

/// Waits for the listener: to be connected, or for an answer where nobody has the other end yet.
pub(super) fn clients<'a>(measures: &'a Measures<'_>, listener: &InetRef) -> Vec<&'a WaitSpan> {
    let model = measures.model;
    let waits = |wait: &&WaitSpan| {
        let Some(ObjectRef::Inet(socket)) = &wait.place.object else { return false };
        match wait.class {
            WaitClass::SocketConnect => leads_to(model, socket, listener),
            WaitClass::SocketRead | WaitClass::SocketWrite => {
                leads_to(model, socket, listener) && other_end(model, socket).is_none()
            }
            _ => false,
        }
    };
    measures.waits().filter(waits).collect()
}

/// What clients lose by waiting for it, as far as that is asked about: who asks about a process that has the listener open asks for its clients.
pub(super) fn lost(measures: &Measures<'_>, listener: Listener<'_>, waits: &[&WaitSpan]) -> Losses {
    let model = measures.model;
    let mut lost = Losses::new();
    for wait in waits {
        let seconds = wait.within_ns(model.look.begin_ns, model.look.end_ns) as f64 / 1e9;
        lost.entry(wait.thread.pid).or_insert_with(|| (wait.thread.clone(), 0.0)).1 += seconds;
    }
    if is_asked_about(model, listener) {
        return lost;
    }
    let own = in_target(measures, lost);
    if own.is_empty() { behind(measures, listener, waits) } else { own }
}

/// What a process that was asked about waits for the listener through the clients whose waits these are.
fn behind(measures: &Measures<'_>, listener: Listener<'_>, waits: &[&WaitSpan]) -> Losses {
    let asked = asked_about(measures.model);
    let waited_on: HashSet<&Object> = waits.iter().map(|wait| &wait.object).collect();
    let mut lost = Losses::new();
    for end in measures.graph.ends.iter().filter(|end| is_of_queue(end, listener, &waited_on)) {
        let own = asked.filter(|pid| end.links[0].who.pid == *pid);
        if let Some((pid, (thread, seconds))) = own.and_then(|pid| end.victims.get_key_value(&pid))
        {
            lost.entry(*pid).or_insert_with(|| (thread.clone(), 0.0)).1 += seconds;
        }
    }
    lost
}

/// The process that somebody asked about.
fn asked_about(model: &Model) -> Option<u32> {
    let target = model.look.target.as_ref().filter(|target| target.kind == TargetKind::Process);
    target.map(|target| target.pid)
}

/// Whether an end is that its chain waits on one of these connections, for a server that has not accepted it.
fn is_of_queue(end: &End, listener: Listener<'_>, waited_on: &HashSet<&Object>) -> bool {
    let by_server = end.who.as_ref().is_some_and(|who| who.pid == listener.process.pid);
    match end.kind {
        EndKind::Remote | EndKind::Link => waited_on.contains(&end.object),
        EndKind::Works | EndKind::Sleep => {
            by_server && end.links.iter().any(|link| waited_on.contains(&link.object))
        }
        _ => false,
    }
}

/// Whether a process that somebody asked about has the listener open.
fn is_asked_about(model: &Model, listener: Listener<'_>) -> bool {
    let has_it = |end: &Endpoint| matches!(&end.object, ObjectRef::Inet(own) if own.ino == listener.socket.ino);
    asked_about(model).is_some_and(|pid| {
        model.held.endpoints.iter().any(|end| end.process.pid == pid && has_it(end))
    })
}

/// The ends of the clients' waits: the connection itself, or what the server does instead of answering. What holds the
/// server up has a name of its own.
pub(super) fn claimed<'m>(
    mut matched: Match<'m>,
    measures: &Measures<'_>,
    ends: &[End],
    listener: Listener<'_>,
    clients: &[&WaitSpan],
) -> Match<'m> {
    let waited_on: HashSet<&Object> = clients.iter().map(|wait| &wait.object).collect();
    let mut pids: BTreeSet<u32> = clients.iter().map(|wait| wait.thread.pid).collect();
    pids.extend(behind(measures, listener, clients).into_keys());
    let mut path_seconds = 0.0;
    for (at, end) in ends.iter().enumerate() {
        if !is_of_queue(end, listener, &waited_on) {
            continue;
        }
        let is_connection = matches!(end.kind, EndKind::Remote | EndKind::Link);
        let victims = (!is_connection).then(|| pids.clone());
        let is_ours = |pid: &u32| victims.as_ref().is_none_or(|pids| pids.contains(pid));
        if end.victims.keys().any(is_ours) {
            path_seconds += end.seconds;
            matched = matched.claiming(at, victims);
        }
    }
    if measures.is_command() && !matched.claims.is_empty() {
        matched.path_seconds = Some(path_seconds);
    }
    matched
}

/// `was` or `were`.
pub(super) fn were(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::{at_place, blocked, identity, thread};

    /// What is found about shell 8, whose child has asked a server that sleeps; that has accepted its connection, or not.
    fn found(is_accepted: bool) -> Vec<(String, Vec<u32>)> {
        let state = SocketState { accept_queue: 1, accept_limit: 50, ..SocketState::default() };
        let listens = inet("tcp", 300, "10.0.0.2:80", "0.0.0.0:0", 10);
        let near = || inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1);
        let place = |syscall: &str, object: Option<ObjectRef>| Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            object,
            ..Place::default()
        };
        let mut waits = place("wait4", None);
        waits.args[0] = 10;
        let child = Thread { thread: thread(10, "curl"), parent_pid: 8, ..Thread::default() };
        let mut facts = vec![
            look_at(TargetKind::Process, 8),
            identity(child),
            with_state(20, "server", listens, state),
            spoken(10, "curl", near(), 0, true),
            at_place(8, "sh", waits),
            at_place(10, "curl", place("recvfrom", Some(near()))),
            blocked(20, "server", WaitState::Sleep, "clock_nanosleep"),
        ];
        if is_accepted {
            let far = inet("tcp", 101, "10.0.0.2:80", "10.0.0.1:40000", 1);
            facts.push(spoken(20, "server", far, 0, false));
        }
        let above = findings(facts).into_iter();
        above.map(|it| (it.code, it.victims.iter().map(|one| one.pid).collect())).collect()
    }

    #[test]
    fn who_waits_for_a_client_in_the_queue_waits_for_who_does_not_accept() {
        assert_eq!(found(false), [("net.accept_queue".to_string(), vec![8])]);
        let accepted = found(true);
        assert!(accepted.iter().all(|(code, _)| code != "net.accept_queue"), "{accepted:?}");
    }
}
