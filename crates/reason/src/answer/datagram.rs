//! What is said of a client that waits at a socket of datagrams, where no question was seen: it may have asked before the look.
//!
//! No clock of such a socket says who spoke last, and what was sent before the look is seen by nobody. But who has no other socket, and this one at a
//! port that it was given, serves nobody there: to call him idle would be said of every client whose server is dead. Of a socket that is connected
//! whoever is at that address is said. Must not: call an answer late, or take a server at a port of its own choice for a client.

use crate::facts::{Endpoint, GIVEN_PORTS, InetRef, ObjectRef, TargetKind};
use crate::measure::Measures;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// The title of the answer about such a process; none if it is none.
pub(super) fn awaited(measures: &Measures<'_>) -> Option<String> {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process)?;
    let own = model.held.endpoints.iter().filter(|it| it.process.pid == asked.pid);
    let at = only_socket(own)?;
    let (from, to) = (model.look.begin_ns, model.look.end_ns);
    let stands = |wait: &WaitSpan| {
        wait.standing
            && wait.place.is_for_several()
            && wait.within_ns(from, to) * 2 > to.saturating_sub(from)
    };
    let mut waits = measures.waits().filter(|wait| wait.thread.pid == asked.pid && !wait.kernel);
    waits.any(stands).then(|| {
        format!(
            "{} {} waits at udp {} for a datagram{}: an answer, if it has asked before the look.",
            asked.name,
            asked.pid,
            at.local,
            whose(measures, at)
        )
    })
}

/// Of whom, if the socket is connected: the process that takes what is sent there, if it is here, and whether that stands still.
fn whose(measures: &Measures<'_>, at: &InetRef) -> String {
    if at.remote.port() == 0 {
        return String::new();
    }
    let model = measures.model;
    let takes = |end: &&Endpoint| match &end.object {
        ObjectRef::Inet(other) => {
            other.protocol == "udp"
                && other.remote.port() == 0
                && other.local == at.remote
                && other.netns == at.netns
        }
        _ => false,
    };
    let Some(far) = model.held.endpoints.iter().find(takes).map(|end| end.process.pid) else {
        return format!(" of {}", at.remote);
    };
    let far = model.threads.thread_ref(far);
    let last = measures.graph.waits_of(&far).last();
    let is_stopped = last.is_some_and(|it| it.standing && it.class == WaitClass::Stopped);
    let stopped = if is_stopped { ", which is stopped by a signal" } else { "" };
    format!(" of {} at {}{stopped}", model.threads.who(&far), at.remote)
}

/// The socket of a client, if it has no other.
fn only_socket<'e>(own: impl Iterator<Item = &'e Endpoint>) -> Option<&'e InetRef> {
    let mut sockets: BTreeMap<u64, &InetRef> = BTreeMap::new();
    for end in own {
        match &end.object {
            ObjectRef::Inet(socket) => {
                sockets.insert(socket.ino, socket);
            }
            // It serves somebody there.
            ObjectRef::Unix { path: Some(_), .. } => return None,
            _ => {}
        }
    }
    let (_, only) = sockets.pop_first().filter(|_| sockets.is_empty())?;
    let is_clients = only.protocol == "udp" && only.local.port() >= GIVEN_PORTS;
    is_clients.then_some(only)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    fn title(sockets: &[(&str, &str)]) -> String {
        let open = |(at, (protocol, local)): (usize, &(&str, &str))| {
            let state = if *protocol == "udp" { 7 } else { 10 };
            let socket = inet(protocol, 100 + at as u64, local, "0.0.0.0:0", state);
            descriptor(10, 3 + at as u32, "snmpget", socket)
        };
        let selects = blocked(10, "snmpget", WaitState::Sleep, "select");
        let facts = vec![of_process(10, "snmpget"), selects];
        let open = sockets.iter().enumerate().map(open).collect();
        explain([host(), facts, open].concat()).answer.title
    }

    /// The title about a client that is connected to a server, which stands so.
    fn connected(server: WaitState) -> String {
        let near = inet("udp", 100, "127.0.0.1:50413", "127.0.0.1:161", 1);
        let far = inet("udp", 200, "127.0.0.1:161", "0.0.0.0:0", 7);
        let facts = vec![
            of_process(10, "snmpget"),
            descriptor(10, 3, "snmpget", near),
            descriptor(20, 3, "snmpd", far),
            blocked(10, "snmpget", WaitState::Sleep, "epoll_wait"),
            blocked(20, "snmpd", server, "epoll_wait"),
        ];
        explain([host(), facts].concat()).answer.title
    }

    #[test]
    fn whoever_is_at_the_address_of_a_connected_socket_is_said() {
        let rests = connected(WaitState::Sleep);
        assert!(rests.contains("datagram of snmpd 20 at 127.0.0.1:161: an answer"), "{rests}");
        let stopped = connected(WaitState::Stopped);
        assert!(stopped.contains("127.0.0.1:161, which is stopped by a signal:"), "{stopped}");
    }

    #[test]
    fn who_waits_at_a_given_port_for_a_datagram_may_have_asked() {
        let client = ("udp", "0.0.0.0:50413");
        assert!(title(&[client]).starts_with("snmpget 10 waits at udp 0.0.0.0:50413 for"));
        let idle = |sockets: &[(&str, &str)]| title(sockets).contains("is idle");
        assert!(idle(&[("udp", "0.0.0.0:161")]), "a server");
        assert!(idle(&[client, ("tcp", "0.0.0.0:705")]), "it serves by another socket");
        assert!(idle(&[]));
    }
}
