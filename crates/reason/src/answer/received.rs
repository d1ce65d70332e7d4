//! How much came over the connections of a process that was asked about, from hosts elsewhere: a sentence behind what it waits for.
//!
//! A download of an even pace looks like a client that rests: each wait is short, and ends with data. Whoever asks why it is slow reads the
//! pace here. Must not: call the peer slow (rules/net does, of an answer that was asked for), or speak of a connection whose other end is
//! here.

use super::report::{AnswerEnd, EndKind};
use crate::facts::{Endpoint, InetRef, ObjectRef, TargetKind};
use crate::measure::Measures;
use crate::measure::tcp_stream::{SocketChanges, other_end};
use crate::model::figures;

/// Of the connection that brought most, if the largest end of the answer is a host elsewhere; empty if nothing came.
pub(super) fn sentence(measures: &Measures<'_>, first: &AnswerEnd) -> String {
    let model = measures.model;
    let asked = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Process);
    let Some(asked) = asked.filter(|_| first.end == EndKind::Remote) else { return String::new() };
    let changes = SocketChanges::of(model);
    let brought = |it: &Endpoint| match &it.object {
        ObjectRef::Inet(socket)
            if socket.is_tcp()
                && is_elsewhere(socket)
                && changes.has_earlier(it)
                && other_end(model, socket).is_none() =>
        {
            Some((changes.of_endpoint(it)?.1.received_bytes, socket.remote))
        }
        _ => None,
    };
    let own = model.held.endpoints.iter().filter(|it| it.process.pid == asked.pid);
    match own.filter_map(brought).max_by_key(|(bytes, _)| *bytes) {
        Some((bytes, from)) if bytes > 0 => format!(
            " {} came from {from} meanwhile, {} a second: who sends it, or the way from there, sets that pace.",
            figures::bytes(bytes as f64),
            figures::bytes(bytes as f64 / model.look.seconds().max(1e-9)),
        ),
        _ => String::new(),
    }
}

/// Not at an address of this host: whose other end is here and could not be read is no host elsewhere.
fn is_elsewhere(socket: &InetRef) -> bool {
    !socket.remote.ip().is_loopback() && socket.remote.ip() != socket.local.ip()
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::net::scenes::{inet, look_at, with_state};
    use crate::rules::scenes::{LOOK_NS, at_place, host};

    /// What is said of process 10, which reads from a host elsewhere that has had the last word, if its socket counted so many bytes at
    /// some times.
    fn text(remote: &str, counted: &[(Ns, u64)]) -> String {
        let far = || inet("tcp", 100, "192.0.2.1:40000", remote, 1);
        let read = |&(at_ns, received_bytes): &(Ns, u64)| {
            let turn = TcpTurn {
                sent_jiffies: 5_000,
                received_jiffies: 4_000,
                jiffy_ns: 4_000_000,
                ..TcpTurn::default()
            };
            let (turn, acked_bytes) = (Some(turn), 80);
            let state = SocketState { turn, acked_bytes, received_bytes, ..SocketState::default() };
            Fact { at_ns, ..with_state(10, "curl", far(), state) }
        };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(far()),
            ..Place::default()
        };
        let waits = [look_at(TargetKind::Process, 10), at_place(10, "curl", place)];
        let facts = host().into_iter().chain(waits).chain(counted.iter().map(read));
        explain(facts.collect()).answer.text
    }

    #[test]
    fn who_reads_from_elsewhere_is_said_what_came_meanwhile_and_no_more_than_was_counted() {
        let whole = [(0, 1_000), (LOOK_NS, 51_001_000)];
        let of_look = text("192.0.2.70:80", &whole);
        assert!(of_look.contains("48.6 MiB came from 192.0.2.70:80 meanwhile"), "{of_look}");
        assert!(!text("192.0.2.1:80", &whole).contains("meanwhile"), "it is here");
        for none in [&[(0, 1_000), (LOOK_NS, 1_000)][..], &[(LOOK_NS, 51_001_000)]] {
            let said = text("192.0.2.70:80", none);
            assert!(!said.contains("meanwhile"), "{said}");
        }
    }
}
