//! What a thread has written to whoever waits for it, and what the way to him does not take: he waits for room there, and so does the thread.
//!
//! It stands above all that the thread waits for besides: what is written comes before what it answers next. Must not: say what takes no
//! more, or choose where nobody is known to wait, and it writes to several.

use crate::facts::{InetRef, ObjectRef};
use crate::graph::index::Index;
use crate::graph::next::{Asker, Next, Until};
use crate::graph::under_way::{AGAIN, MANY, OUTSTANDING, QUEUED, READER};
use crate::graph::ways::way::{FOR_EVENTS, Waiter, Way};
use crate::waits::WaitClass;

/// The way.
pub(super) static WAY: Way = Way {
    name: "under way",
    because: "what it has written is still under way",
    of: FOR_EVENTS,
    thresholds: &[&OUTSTANDING, &READER, &QUEUED, &MANY, &AGAIN],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (index, pid) = (at.index, at.wait.thread.pid);
    let Some(asker) = at.asker else { return to_whom_it_owes(at).map(Next::Room) };
    if asker.who.pid == pid {
        return None;
    }
    let sent = |socket: &InetRef| {
        let mut ends = index.connections.far_ends(socket).iter();
        ends.find(|end| end.process.pid == pid).map(|end| end.object_ino())
    };
    // Of several connections to it nothing says which the wait is for.
    let all: Vec<u64> = asked_on(index, asker).into_iter().filter_map(sent).collect();
    let are_all = all.iter().all(|ino| index.under_way.is(*ino, at.within));
    all.first().filter(|_| are_all).map(|ino| Next::Room(*ino))
}

/// The connection on which what an event loop has written is under way, where nothing is owed or awaited on another.
fn to_whom_it_owes(at: &Waiter<'_>) -> Option<u64> {
    if at.wait.class != WaitClass::Idle {
        return None;
    }
    let (index, pid, polled) = (at.index, at.wait.thread.pid, &at.wait.place.polled);
    let only = index.under_way.only_of(pid, at.within)?;
    let mut ends = index.connections.of_process(pid, polled).into_iter();
    let is_polled = polled.is_empty() || ends.any(|end| end.object_ino() == only);
    let debts = &index.debts;
    let words = [&debts.owes, &debts.owed_before, &debts.awaits];
    let mut words = words.into_iter().filter_map(|of| of.get(&pid)).flatten();
    (is_polled && words.all(|debt| debt.ino == only)).then_some(only)
}

/// The connections on which somebody waits for an answer.
fn asked_on<'w>(index: &Index<'w>, asker: Asker<'w>) -> Vec<&'w InetRef> {
    let Until::Wait(wait) = asker.until else { return Vec::new() };
    let of = |object: &'w ObjectRef| match object {
        ObjectRef::Inet(socket) => Some(socket),
        _ => None,
    };
    match &wait.place.object {
        Some(object) => of(object).into_iter().collect(),
        None => {
            let polled = index.connections.of_process(wait.thread.pid, &wait.place.polled);
            polled.into_iter().filter_map(|end| of(&end.object)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::graph::ways::scenes::{NO_ARGS, of_ten, place as of_call, stands};
    use crate::rules::net::scenes::{inet, look_at, with_state};
    use crate::rules::scenes::{LOOK_NS, at_place, descriptor, host};

    /// Process 10 reads what 20 has sent, an event loop, which had so much outstanding from one sight to the next, and so much unsent.
    fn reads(busy_us: u64, unsent_bytes: u64) -> Vec<EndKind> {
        let near = || inet("tcp", 100, "10.0.0.1:40000", "10.0.0.2:80", 1);
        let far = || inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
        let sight = |at_ns: Ns, busy_us: u64| {
            let turn = TcpTurn {
                snd_nxt: 9_000,
                packets_out: 6,
                jiffy_ns: 1_000_000,
                ..TcpTurn::default()
            };
            let (received_bytes, turn) = (80, Some(turn));
            let acked_bytes = busy_us;
            let state = SocketState {
                busy_us,
                unsent_bytes,
                acked_bytes,
                received_bytes,
                turn,
                ..SocketState::default()
            };
            Fact { at_ns, ..with_state(20, "server", far(), state) }
        };
        let place = |syscall: &str, object| {
            let state = WaitState::Sleep;
            Place { state, syscall: syscall.into(), object, ..Place::default() }
        };
        let facts = vec![
            look_at(TargetKind::Process, 10),
            with_state(
                20,
                "server",
                inet("tcp", 300, "10.0.0.2:80", "0.0.0.0:0", 10),
                SocketState::default(),
            ),
            with_state(10, "client", near(), SocketState::default()),
            sight(1, 1_000),
            sight(LOOK_NS, 1_000 + busy_us),
            at_place(10, "client", place("recvfrom", Some(near()))),
            at_place(20, "server", place("epoll_wait", None)),
        ];
        let ends = explain([host(), facts].concat()).answer.ends;
        ends.iter().map(|end| end.end).collect()
    }

    #[test]
    fn who_reads_what_is_under_way_waits_for_room_on_the_way() {
        let look_us = LOOK_NS / 1_000;
        assert!(reads(look_us, 90_000).contains(&EndKind::Link));
        assert!(!reads(look_us / 50, 0).contains(&EndKind::Link), "it pauses between its parts");
        assert!(!reads(look_us, 0).contains(&EndKind::Link), "it is as fast as its way");
    }

    #[test]
    fn an_event_loop_waits_for_room_itself_unless_it_has_asked_somebody_else() {
        let far = || inet("tcp", 200, "10.0.0.2:80", "10.0.0.1:40000", 1);
        let sight = |at_ns: Ns, busy_us: u64| {
            let turn = Some(TcpTurn { packets_out: 6, jiffy_ns: 1_000_000, ..TcpTurn::default() });
            let (unsent_bytes, acked_bytes) = (90_000, busy_us);
            let state =
                SocketState { busy_us, unsent_bytes, acked_bytes, turn, ..SocketState::default() };
            Fact { at_ns, ..with_state(10, "app", far(), state) }
        };
        let led = |more: Vec<Fact>| {
            let waits = stands(of_ten(10), of_call("epoll_wait", NO_ARGS, None));
            let own = vec![sight(1, 1), sight(LOOK_NS, LOOK_NS / 1_000), waits];
            crate::graph::ways::scenes::led([own, more].concat()).0
        };
        assert_eq!(led(Vec::new()), "under way");
        let asks = inet("tcp", 300, "10.0.0.2:5000", "10.0.0.3:80", TCP_SYN_SENT);
        assert_eq!(
            led(vec![Fact { at_ns: LOOK_NS, ..descriptor(10, 9, "app", asks) }]),
            "unanswered"
        );
    }
}
