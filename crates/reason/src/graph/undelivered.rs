//! What was sent on a connection and does not arrive: the other end acknowledges nothing, however often it is sent again; or this host
//! itself refuses to send it.
//!
//! Who waits on such a connection waits for the way and not for whoever is at its other end, who has not heard the question; or has
//! answered, and the answer is under way. Owns the test, by the clocks of the end that sent. Must not: say where on the way it is lost (rules/net).
//!
//! Rejected: the count of segments sent again alone (it is of the connection's whole life), and the age of what was heard last alone (a
//! connection at rest hears nothing for hours).

use crate::facts::*;
use crate::model::Model;
use crate::threshold::Threshold;

/// Nothing is acknowledged for so long.
pub static UNHEARD: Threshold = Threshold::new(
    300.0,
    "ms",
    "for which somebody waits and nothing that was sent is acknowledged: by then it was sent again at least once",
    "TCP_RTO_MIN (include/net/tcp.h) is 0.2 s, and the longest delay of an acknowledgement as much",
);
/// Round trips in which an acknowledgement comes back, however slow the way.
const ROUND_TRIPS: u64 = 2;

/// An end of a connection of which nothing arrives.
#[derive(Debug, Clone, Copy)]
pub struct Undelivered<'a> {
    /// The end that sent it.
    pub sender: &'a Endpoint,
    /// Its state.
    pub state: &'a SocketState,
    /// Bytes that were sent and not acknowledged, or that this host refuses to send.
    pub bytes: u32,
    /// When something was acknowledged last, or heard at all.
    pub heard_ns: Ns,
}

impl<'a> Undelivered<'a> {
    /// The socket that sent it.
    pub fn socket(&self) -> Option<&'a InetRef> {
        match &self.sender.object {
            ObjectRef::Inet(socket) => Some(socket),
            _ => None,
        }
    }

    /// This host refuses to send it: nothing is outstanding.
    pub fn is_refused(&self) -> bool {
        self.state.turn.is_some_and(|turn| turn.packets_out == 0)
    }

    /// Of one end, if what it sent last does not arrive.
    pub(super) fn of(model: &Model, sender: &'a Endpoint) -> Option<Self> {
        let state = sender.socket.as_ref()?;
        // A shut window is the receiver's doing.
        let turn =
            state.turn.as_ref().filter(|it| it.jiffy_ns > 0 && state.send_window_bytes > 0)?;
        let read_ns = model.look.end_ns;
        let age_ns = u64::from(turn.heard_jiffies) * u64::from(turn.jiffy_ns);
        // What comes from there meanwhile acknowledges nothing new.
        let heard_ns = match turn.delivered_ns {
            0 => read_ns.saturating_sub(age_ns),
            delivered_ns => delivered_ns,
        };
        let bytes = match turn.packets_out {
            0 => refused_bytes(model, sender, state, heard_ns)?,
            _ => outstanding_bytes(model, sender, state, turn)?,
        };
        let on_its_way_ns = ROUND_TRIPS * u64::from(state.rtt_us) * 1_000;
        let unheard_ns = read_ns.saturating_sub(heard_ns);
        (unheard_ns > on_its_way_ns.max(UNHEARD.ns())).then_some(Self {
            sender,
            state,
            bytes,
            heard_ns,
        })
    }
}

/// What is outstanding, if it was sent again.
fn outstanding_bytes(
    model: &Model,
    sender: &Endpoint,
    state: &SocketState,
    turn: &TcpTurn,
) -> Option<u32> {
    let bytes = turn.snd_nxt.wrapping_sub(turn.snd_una);
    if bytes == 0 || state.retransmits == 0 {
        return None;
    }
    // What was sent within the look is sent again within it, or is not late yet: the count is of the connection's whole life.
    let ino = sender.object_ino();
    let sent_ago_ns = u64::from(turn.sent_jiffies) * u64::from(turn.jiffy_ns);
    let sent_ns = model.look.end_ns.saturating_sub(sent_ago_ns);
    // A sight since it was sent last has the same count.
    let is_before = |(at_ns, end): &&(Ns, Endpoint)| *at_ns < sent_ns && end.object_ino() == ino;
    let before = model.held.endpoints_before.iter().rev().find(is_before);
    let before = before.and_then(|(_, end)| end.socket.as_ref());
    let is_again = before.is_none_or(|before| state.retransmits > before.retransmits);
    (is_again || sent_ns <= model.look.begin_ns).then_some(bytes)
}

/// What is to be sent, if the interface that it goes to first refuses it: TCP counts no such segment as sent, so nothing is outstanding
/// and nothing is sent again; it is tried anew as the timer of a shut window runs (tcp_write_xmit, tcp_send_probe0).
fn refused_bytes(
    model: &Model,
    sender: &Endpoint,
    state: &SocketState,
    heard_ns: Ns,
) -> Option<u32> {
    let ObjectRef::Inet(socket) = &sender.object else { return None };
    let ways = model.called.translations.ways(socket);
    let is_its =
        |flow: &DroppedFlow| flow.protocol == "tcp" && ways.contains(&(flow.from, flow.to));
    let mut dropped = model.net.drops.iter().flat_map(|it| &it.flows);
    let is_refused =
        state.unsent_bytes > 0 && dropped.any(|flow| is_its(flow) && flow.last_ns > heard_ns);
    is_refused.then(|| u32::try_from(state.unsent_bytes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::net::scenes::{dropped, inet};
    use crate::rules::scenes::{LOOK_NS, endpoint};
    use crate::waits::timeline::Observed;

    const MILLISECOND: u32 = 1_000_000;

    fn end(heard_ms: u32, state: SocketState, outstanding: u32) -> bool {
        let turn = TcpTurn {
            snd_una: u32::MAX,
            snd_nxt: u32::MAX.wrapping_add(outstanding),
            packets_out: outstanding.min(1),
            heard_jiffies: heard_ms,
            jiffy_ns: MILLISECOND,
            ..TcpTurn::default()
        };
        let mut near = endpoint(10, "app", inet("tcp", 5, "10.0.0.1:5000", "10.0.0.2:80", 1));
        if let Body::Endpoint(near) = &mut near.body {
            near.socket = Some(SocketState { turn: Some(turn), ..state });
        }
        let near = Fact { at_ns: LOOK_NS, ..near };
        let Observed { model, .. } =
            Observed::new([crate::rules::scenes::host(), vec![near]].concat());
        Undelivered::of(&model, &model.held.endpoints[0]).is_some()
    }

    #[test]
    fn what_is_sent_again_and_not_acknowledged_does_not_arrive() {
        let again =
            || SocketState { retransmits: 3, send_window_bytes: 9_000, ..SocketState::default() };
        assert!(end(900, again(), 100));
        assert!(!end(900, again(), 0), "nothing is outstanding");
        assert!(!end(900, SocketState::default(), 100), "it was not sent again");
        assert!(!end(200, again(), 100), "it may still be acknowledged");
        assert!(!end(900, SocketState { send_window_bytes: 0, ..again() }, 100), "a shut window");
        assert!(!end(900, SocketState { rtt_us: 600_000, ..again() }, 100), "a long way");
    }

    #[test]
    fn what_this_host_refuses_to_send_does_not_arrive() {
        let is = |from: &str, last_ns: Ns, unsent_bytes: u64, send_window_bytes: u32| {
            let turn = TcpTurn { heard_jiffies: 900, jiffy_ns: MILLISECOND, ..TcpTurn::default() };
            let mut near = endpoint(10, "app", inet("tcp", 5, "10.0.0.1:5000", "10.0.0.2:80", 1));
            if let Body::Endpoint(near) = &mut near.body {
                let turn = Some(turn);
                let state =
                    SocketState { unsent_bytes, send_window_bytes, turn, ..SocketState::default() };
                near.socket = Some(state);
            }
            let near = Fact { at_ns: LOOK_NS, ..near };
            let mut drops = dropped("NOT_SPECIFIED", "tcp", from, "10.0.0.2:80", 3);
            if let Body::PacketDrops(drops) = &mut drops.body {
                drops.flows[0].last_ns = last_ns;
            }
            let Observed { model, .. } =
                Observed::new([crate::rules::scenes::host(), vec![near, drops]].concat());
            let found = Undelivered::of(&model, &model.held.endpoints[0]);
            found.map(|it| it.bytes)
        };
        let lately_ns = LOOK_NS - 100_000_000;
        assert_eq!(is("10.0.0.1:5000", lately_ns, 44_000, 9_000), Some(44_000));
        assert_eq!(is("10.0.0.1:5001", lately_ns, 44_000, 9_000), None, "another flow");
        assert_eq!(is("10.0.0.1:5000", 0, 44_000, 9_000), None, "something was heard since");
        assert_eq!(is("10.0.0.1:5000", lately_ns, 0, 9_000), None, "all was sent");
        assert_eq!(is("10.0.0.1:5000", lately_ns, 44_000, 0), None, "a shut window");
    }

    #[test]
    fn a_segment_that_was_sent_again_long_ago_says_nothing_of_this_one() {
        let sight = |sent_ms: u32, at_ns: Ns| {
            let turn = TcpTurn {
                snd_nxt: 100,
                packets_out: 1,
                heard_jiffies: 60_000,
                sent_jiffies: sent_ms,
                jiffy_ns: MILLISECOND,
                ..TcpTurn::default()
            };
            let state = SocketState {
                retransmits: 1,
                send_window_bytes: 9_000,
                turn: Some(turn),
                ..SocketState::default()
            };
            let mut near = endpoint(10, "app", inet("tcp", 5, "10.0.0.1:5000", "10.0.0.2:80", 1));
            if let Body::Endpoint(near) = &mut near.body {
                near.socket = Some(state);
            }
            Fact { at_ns, ..near }
        };
        let seen = |first_ns: Ns, sent_ms: u32| {
            let sights = vec![sight(0, first_ns), sight(sent_ms, LOOK_NS)];
            let Observed { model, .. } =
                Observed::new([crate::rules::scenes::host(), sights].concat());
            assert_eq!(model.held.endpoints_before.len(), 1);
            model.held.endpoints.iter().any(|end| Undelivered::of(&model, end).is_some())
        };
        let is = |sent_ms: u32| seen(1, sent_ms);
        assert!(!is(400), "it was sent within the look, and once");
        assert!(is(9_000));
        let lately_ns = LOOK_NS - 100_000_000;
        assert!(seen(lately_ns, 400), "the sight before says nothing: nothing was sent since");
    }
}
