//! Who spoke last on a connection, by the clocks of its sockets.
//!
//! The tests and their order were tried on the reference machine (0 wrong of 1,500 closed loops): unacknowledged data of mine; the send
//! times of both ends where both are here; the ages of the last data sent and received where more than a jiffy lies between them; and
//! for a tie, which segment moved the window last. Keepalive probes move that segment, so with them only a clear age counts. Where
//! one end alone has ever sent, it spoke last, whatever the clocks say.
//!
//! Must not: say who owes an answer (debts.rs).

use crate::facts::{Ns, SocketState, TcpTurn};
use crate::threshold::Threshold;

/// From here on after the last data an acknowledgement may be one of a probe.
static PROBE_MIN: Threshold = Threshold::new(
    240.0,
    "ms",
    "from the last data to the last segment of a connection that is probed",
    "chosen: above the longest delay of an acknowledgement, 200 ms (TCP_DELACK_MAX)",
);

/// So long after a connection was made its first question is still coming in.
static FIRST_QUESTION_MAX: Threshold = Threshold::new(
    5000.0,
    "ms",
    "from the making of a connection to the last data on it, where the end that was connected to never said a word: later ones are no \
     question, but news that wants no answer",
    "chosen: a client asks as soon as it is connected; logs and measures come for hours",
);

/// Whether a connection is one on which this end, which was connected to, only ever listens: a collector of logs and measures owes nobody
/// an answer. The clock of what was sent shows the making, while nothing was sent.
pub(super) fn only_listens(state: &SocketState, turn: &TcpTurn) -> bool {
    let has_sent = state.acked_bytes > 0 || turn.write_seq != turn.snd_una;
    let apart_ns = u64::from(turn.sent_jiffies.saturating_sub(turn.received_jiffies))
        * u64::from(turn.jiffy_ns);
    !has_sent && state.received_bytes > 0 && apart_ns > FIRST_QUESTION_MAX.ns()
}

/// Who sent the last data on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoke {
    /// This end.
    Me,
    /// The other end.
    Peer,
    /// Not known, or nobody yet.
    Unknown,
}

/// Of a connection on which only one end has ever sent data: that one. A question that was sent as soon as the connection was there
/// is as old as the handshake, so its clocks tell nothing. Who made the connection has its SYN counted as acknowledged
/// (tcp_ack, bytes_acked: one more than was sent).
pub(super) fn only_speaker(state: &SocketState, turn: &TcpTurn, accepted: bool) -> Option<Spoke> {
    let acknowledged = state.acked_bytes.saturating_sub(u64::from(!accepted));
    let has_sent = acknowledged > 0 || turn.write_seq != turn.snd_una;
    match (has_sent, state.received_bytes > 0) {
        (true, false) => Some(Spoke::Me),
        (false, true) => Some(Spoke::Peer),
        _ => None,
    }
}

/// Who sent the last data.
pub(super) fn spoke_last(own: &TcpTurn, far: Option<&TcpTurn>) -> Spoke {
    if own.write_seq != own.snd_una {
        return Spoke::Me;
    }
    if let Some(far) = far {
        if far.write_seq != far.snd_una {
            return Spoke::Peer;
        }
        if own.first_tx_ns != far.first_tx_ns {
            return if own.first_tx_ns > far.first_tx_ns { Spoke::Me } else { Spoke::Peer };
        }
    }
    let (sent, received) = (own.sent_jiffies, own.received_jiffies);
    if sent.abs_diff(received) > 1 {
        return if sent < received { Spoke::Me } else { Spoke::Peer };
    }
    let since_data = u64::from(sent.min(received).saturating_sub(own.heard_jiffies));
    if own.keepalive && since_data * u64::from(own.jiffy_ns) > PROBE_MIN.ns() {
        return Spoke::Unknown;
    }
    match own.rcv_nxt.wrapping_sub(own.snd_wl1) {
        0 => Spoke::Me,
        behind if behind < u32::MAX / 2 => Spoke::Peer,
        _ => Spoke::Unknown,
    }
}

/// So many jiffies before a reading.
pub(super) fn ago(read_ns: Ns, jiffies: u32, turn: &TcpTurn) -> Ns {
    read_ns.saturating_sub(u64::from(jiffies) * u64::from(turn.jiffy_ns))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Clocks that were read so many jiffies of 4 ms after the last data went out, and came.
    pub(in crate::graph) fn turn(sent_jiffies: u32, received_jiffies: u32) -> TcpTurn {
        TcpTurn {
            write_seq: 100,
            snd_nxt: 100,
            snd_una: 100,
            rcv_nxt: 500,
            snd_wl1: 500,
            sent_jiffies,
            received_jiffies,
            heard_jiffies: sent_jiffies.min(received_jiffies),
            jiffy_ns: 4_000_000,
            ..TcpTurn::default()
        }
    }

    #[test]
    fn unacknowledged_data_is_the_last_word() {
        let own = TcpTurn { snd_una: 90, ..turn(900, 1) };
        assert_eq!(spoke_last(&own, None), Spoke::Me);
        assert_eq!(spoke_last(&turn(1, 900), Some(&own)), Spoke::Peer);
    }

    #[test]
    fn the_later_send_time_is_the_last_word_where_both_ends_are_here() {
        let (early, late) = (
            TcpTurn { first_tx_ns: 5_000, ..turn(7, 7) },
            TcpTurn { first_tx_ns: 9_000, ..turn(7, 7) },
        );
        assert_eq!(spoke_last(&late, Some(&early)), Spoke::Me);
        assert_eq!(spoke_last(&early, Some(&late)), Spoke::Peer);
    }

    #[test]
    fn ages_more_than_a_jiffy_apart_tell_and_a_tie_is_settled_by_the_window() {
        assert_eq!(spoke_last(&turn(3, 900), None), Spoke::Me);
        assert_eq!(spoke_last(&turn(900, 3), None), Spoke::Peer);
        assert_eq!(spoke_last(&turn(7, 7), None), Spoke::Me, "a pure acknowledgement took my data");
        let answered = TcpTurn { snd_wl1: 400, ..turn(7, 7) };
        assert_eq!(spoke_last(&answered, None), Spoke::Peer);
    }

    #[test]
    fn where_one_end_has_sent_all_there_is_nothing_to_compare() {
        let speaker = |acked_bytes, received_bytes, accepted| {
            let state = SocketState { acked_bytes, received_bytes, ..SocketState::default() };
            only_speaker(&state, &turn(7, 7), accepted)
        };
        assert_eq!(speaker(80, 0, false), Some(Spoke::Me));
        assert_eq!(speaker(1, 79, false), Some(Spoke::Peer), "its SYN was acknowledged");
        assert_eq!(speaker(0, 79, true), Some(Spoke::Peer));
        assert_eq!(speaker(1, 79, true), None, "it has answered with one byte");
        assert_eq!(speaker(80, 79, false), None);
        assert_eq!(speaker(1, 0, false), None);
    }

    #[test]
    fn a_connection_that_is_probed_says_nothing() {
        let probed = TcpTurn { keepalive: true, heard_jiffies: 10, ..turn(900, 900) };
        assert_eq!(spoke_last(&probed, None), Spoke::Unknown);
        let asked = TcpTurn { received_jiffies: 1500, ..probed };
        assert_eq!(spoke_last(&asked, None), Spoke::Me, "a probe carries no data: the ages stay");
    }

    #[test]
    fn who_never_said_a_word_to_what_comes_for_long_only_listens() {
        let listens = |acked_bytes, made, came| {
            let state = SocketState { acked_bytes, received_bytes: 80, ..SocketState::default() };
            only_listens(&state, &turn(made, came))
        };
        assert!(listens(0, 5_000, 250), "19 s after the making");
        assert!(!listens(0, 5_000, 4_999), "a first question");
        assert!(!listens(9, 5_000, 250), "it has answered before");
    }
}
