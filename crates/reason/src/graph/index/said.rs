//! Who has had the last word on the connections that processes made, by each reading of their clocks.
//!
//! Where the other end has had it, and nothing was sent since, nothing was owed there from then until the reading, whatever came later. Must not: say that
//! somebody owes an answer (graph/debts.rs), or what a wait is for.

use super::connections::Connections;
use crate::facts::{Endpoint, InetRef, Ns, ObjectRef};
use crate::graph::debts::{APART_MIN, spoke, talked};
use crate::graph::last_word::{Spoke, ago};
use crate::model::Model;
use std::collections::BTreeMap;

/// See the head of the file.
#[derive(Default)]
pub struct Said(BTreeMap<(u32, u64), OnOne>);

/// What the readings of one connection say.
#[derive(Default)]
struct OnOne {
    /// Where the other end had the last word: when that was read, and when it came.
    by_peer: Vec<(Ns, Ns)>,
    /// Whether anything ever came.
    is_greeted: bool,
}

impl Said {
    pub(super) fn new(model: &Model, connections: &Connections<'_>) -> Self {
        let held = &model.held;
        let last = held.endpoints_at.iter().copied().zip(&held.endpoints);
        let before = held.endpoints_before.iter().map(|(at_ns, end)| (*at_ns, end));
        let mut all: BTreeMap<(u32, u64), OnOne> = BTreeMap::new();
        for (read_ns, end) in before.chain(last) {
            let (Some(socket), Some((state, turn))) = (connection(end), talked(end)) else {
                continue;
            };
            if connections.is_accepted(socket) {
                continue;
            }
            let said = all.entry((end.process.pid, socket.ino)).or_default();
            said.is_greeted |= state.received_bytes > 0;
            // On one on which nobody has spoken the clocks say nothing: a greeting may be due.
            if state.received_bytes > 0 && spoke(state, turn) == Spoke::Peer {
                said.by_peer.push((read_ns, ago(read_ns, turn.received_jiffies, turn)));
            }
        }
        Self(all)
    }

    /// Whether a connection that a process made was ever read.
    pub(in crate::graph) fn is_read(&self, pid: u32, ino: u64) -> bool {
        self.0.contains_key(&(pid, ino))
    }

    /// Whether the other end of one has ever said anything.
    pub(in crate::graph) fn is_greeted(&self, pid: u32, ino: u64) -> bool {
        self.0.get(&(pid, ino)).is_some_and(|said| said.is_greeted)
    }

    /// Whether a process was owed nothing on one at a time, as its other end had had the last word.
    pub(in crate::graph) fn is_all(&self, pid: u32, ino: u64, at_ns: Ns) -> bool {
        let is_by_then = |(read_ns, came_ns): &(Ns, Ns)| {
            *read_ns >= at_ns && *came_ns <= at_ns.saturating_add(APART_MIN.ns())
        };
        self.0.get(&(pid, ino)).is_some_and(|said| said.by_peer.iter().any(is_by_then))
    }

    /// The connections of a process that were read.
    pub(in crate::graph) fn connections_of(&self, pid: u32) -> impl Iterator<Item = u64> {
        self.0.range((pid, 0)..=(pid, u64::MAX)).map(|((_, ino), _)| *ino)
    }
}

fn connection(end: &Endpoint) -> Option<&InetRef> {
    match &end.object {
        ObjectRef::Inet(socket) if socket.is_tcp() && !socket.is_connecting() => Some(socket),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::rules::net::scenes::{inet, with_state};
    use crate::rules::scenes::{LOOK_NS, host};
    use crate::waits::timeline::Observed;

    /// Whether process 10 was owed nothing at a time on its connection, of which so many bytes came, and the last of them half a look before its end.
    fn is_all(received_bytes: u64, sent_jiffies: u32, at_ns: Ns) -> bool {
        let turn = TcpTurn {
            sent_jiffies,
            received_jiffies: 2_500,
            rcv_nxt: 1,
            jiffy_ns: 1_000_000,
            ..TcpTurn::default()
        };
        let turn = Some(turn);
        let state = SocketState { turn, acked_bytes: 1, received_bytes, ..SocketState::default() };
        let near = inet("tcp", 100, "10.0.0.1:40000", "10.0.0.9:80", 1);
        let read = Fact { at_ns: LOOK_NS, ..with_state(10, "client", near, state) };
        let Observed { model, timelines } = Observed::new([host(), vec![read]].concat());
        Index::new(&model, &timelines).said.is_all(10, 100, at_ns)
    }

    #[test]
    fn nothing_is_owed_after_the_last_word_of_the_other_end() {
        assert!(is_all(90, 2_600, LOOK_NS / 2));
        assert!(!is_all(90, 2_600, LOOK_NS / 4), "it came later");
        assert!(is_all(90, 2_600, LOOK_NS), "nothing was sent since");
        assert!(!is_all(0, 2_500, LOOK_NS / 2), "nobody has spoken: a greeting may be due");
    }
}
