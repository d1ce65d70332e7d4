//! When something last came from each client of a process, by every reading of the connections that it accepted.
//!
//! A socket keeps the time of the last that came, which hides what came before: only a reading at which nothing had come since a time says
//! that a client was quiet. Must not: say who owes whom (debts.rs), which reads the same sockets.

use super::last_word::ago;
use crate::facts::{Ns, SocketState, TcpTurn};
use std::collections::HashMap;
use std::net::SocketAddr;

/// The addresses of a client's end of a connection and of the other.
type Pair = (SocketAddr, SocketAddr);

/// What the readings of accepted connections say of their clients, by process.
#[derive(Debug, Default)]
pub(super) struct ClientsHeard(HashMap<u32, Vec<Heard>>);

#[derive(Debug)]
struct Heard {
    pair: Pair,
    read_ns: Ns,
    /// When the last data had come.
    came_ns: Ns,
}

impl ClientsHeard {
    /// Adds a reading of a connection that a process accepted.
    pub(super) fn add(
        &mut self,
        (pid, pair): (u32, Pair),
        (read_ns, state, turn): (Ns, &SocketState, &TcpTurn),
    ) {
        if state.received_bytes > 0 {
            let came_ns = ago(read_ns, turn.received_jiffies, turn);
            self.0.entry(pid).or_default().push(Heard { pair, read_ns, came_ns });
        }
    }

    /// Whether a client of a process may have asked within a time, on another connection than the given one. What came later hides what
    /// came before.
    pub(super) fn may_ask_besides(&self, pid: u32, own: Pair, (from, to): (Ns, Ns)) -> bool {
        let all = self.0.get(&pid).map_or(&[][..], Vec::as_slice);
        // A reading after that time at which nothing had come since its begin.
        let was_quiet =
            |pair| all.iter().any(|it| it.pair == pair && it.read_ns >= to && it.came_ns < from);
        all.iter().any(|heard| heard.pair != own && !was_quiet(heard.pair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::last_word::tests::turn;

    #[test]
    fn a_client_may_have_asked_unless_nothing_had_come_from_it_since() {
        const SECOND: Ns = 1_000_000_000;
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let pair = (address("127.0.0.1:5000"), address("127.0.0.1:80"));
        let state = SocketState { received_bytes: 9, ..SocketState::default() };
        let mut heard = ClientsHeard::default();
        // Something came at four seconds last.
        heard.add((10, pair), (6 * SECOND, &state, &turn(500, 500)));
        let may_ask = |own, from| heard.may_ask_besides(10, own, (from, from + SECOND / 2));
        let other = (pair.1, pair.0);
        assert!(may_ask(other, 3 * SECOND), "what came last hides what came before");
        assert!(!may_ask(other, 5 * SECOND));
        assert!(!may_ask(pair, 3 * SECOND), "it is the client itself");
        assert!(!heard.may_ask_besides(11, other, (3 * SECOND, 4 * SECOND)), "another process");
    }
}
