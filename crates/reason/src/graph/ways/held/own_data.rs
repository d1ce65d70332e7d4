//! What a client has sent itself, and what the way to its server does not take: it waits for room there, and not yet for an answer.
//!
//! A program that sends much and hears little (ssh under rsync, a backup, an upload) waits on its connection for whatever comes next, while the
//! queue on the way is full of its own data. The other end has not got the question yet, so it owes nothing. Must not: speak of who accepted the
//! connection, whose own data are an answer (owed/under_way.rs), or say what takes no more (rules/net).

use crate::facts::ObjectRef;
use crate::graph::next::Next;
use crate::graph::under_way::{AGAIN, MANY, OUTSTANDING, QUEUED, READER};
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass;

/// The way.
pub(super) static WAY: Way = Way {
    name: "own data",
    because: "what it has sent there itself is still under way",
    of: &[WaitClass::SocketRead],
    thresholds: &[&OUTSTANDING, &READER, &QUEUED, &MANY, &AGAIN],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let Some(ObjectRef::Inet(socket)) = &at.wait.place.object else { return None };
    let connections = &at.index.connections;
    let is_client = socket.is_tcp() && !connections.is_accepted(socket);
    // Where nothing arrives at all, that is it.
    let is_delivered = connections.undelivered(socket).is_none();
    let is_queued = is_client && is_delivered && at.index.under_way.is(socket.ino, at.within);
    is_queued.then_some(Next::Room(socket.ino))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::{inet, with_state};
    use crate::rules::scenes::{LOOK_NS, endpoint};

    #[test]
    fn a_client_whose_own_data_stand_in_a_queue_waits_for_room_and_else_for_its_server() {
        let near = || inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:22", 1);
        let far = || inet("tcp", 200, "10.0.0.2:22", "10.0.0.1:40000", 1);
        let sight = |at_ns: Ns, busy_us: u64, unsent_bytes: u64| {
            let turn = Some(TcpTurn { packets_out: 6, jiffy_ns: 1_000_000, ..TcpTurn::default() });
            let acked_bytes = busy_us;
            let state =
                SocketState { busy_us, unsent_bytes, acked_bytes, turn, ..SocketState::default() };
            Fact { at_ns, ..with_state(10, "ssh", near(), state) }
        };
        let of = |busy_us: u64, unsent_bytes: u64| {
            led(vec![
                endpoint(20, "sshd", inet("tcp", 300, "10.0.0.2:22", "0.0.0.0:0", 10)),
                endpoint(20, "sshd", far()),
                sight(1, 1, unsent_bytes),
                sight(LOOK_NS, busy_us, unsent_bytes),
                stands(of_ten(10), place("recvfrom", NO_ARGS, Some(near()))),
            ])
        };
        assert_eq!(of(LOOK_NS / 1_000, 90_000).0, "own data");
        let server = ("end of a connection", Some(20));
        assert_eq!(of(LOOK_NS / 1_000, 0), server, "it is as fast as its way");
        assert_eq!(of(LOOK_NS / 50_000, 0), server, "it has said what it had to say");
    }
}
