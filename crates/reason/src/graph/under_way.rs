//! Answers that are written and under way: an end of a connection whose data stands outstanding all the time, because the way takes no more.
//!
//! Whoever waits for the rest of such an answer waits for room on the way (a shaper, losses, a filter that drops), and not for who has
//! written it: that one waits for room himself, mostly in an event loop, where no wait of his says so. Owns the times at which that was
//! so, from each two sights of the sending end: how long data was outstanding (tcp_sock, chrono), and that more was written than the way
//! takes (unsent, or sent again, or a round trip far beyond the least one).
//!
//! Must not: say what takes no more (rules/net), or count time in which the other end's window was shut: then its reader is slow.
//! Rejected: data that is outstanding alone (on a long way a stream that its writer makes slowly always has some).

use crate::facts::{Endpoint, Ns, ObjectRef, SocketState};
use crate::model::Model;
use crate::threshold::Threshold;
use std::collections::{BTreeSet, HashMap};

/// Part of a time with data outstanding from which that is what passes it.
pub(super) static OUTSTANDING: Threshold = Threshold::new(
    0.8,
    "1",
    "part of the time between two sights of a connection with data outstanding: with less, its writer pauses",
    "chosen: the kernel counts it in jiffies",
);
/// Part of that time in which the other end's window was shut.
pub(super) static READER: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the time with data outstanding that the other end's window limited, from which its reader is slow, and not the way",
    "chosen: more often than not, as for net.receiver_limited",
);
/// A round trip that much longer than the least one has a queue in it.
pub(super) static QUEUED: Threshold = Threshold::new(
    5.0,
    "ms",
    "by which a round trip is longer than twice the least one, if what is sent waits on the way",
    "RFC 8289: CoDel's target",
);
/// So many segments outstanding are more than a pause between two of them leaves on the way.
pub(super) static MANY: Threshold = Threshold::new(
    10.0,
    "1",
    "segments outstanding from which a long round trip is a queue of its own: of fewer it may be the way's usual length",
    "RFC 6928: what a sender may send at once",
);
/// What is sent again now and then is the way's usual loss.
pub(super) static AGAIN: Threshold = Threshold::new(
    0.1,
    "1",
    "segments sent again, as a part of those delivered meanwhile, from which losses hold up what is sent",
    "chosen: TCP keeps a way full beside some percent of losses where the round trip is short",
);

/// When what was sent was under way.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// Of each socket by inode.
    times: HashMap<u64, Vec<(Ns, Ns)>>,
    /// The sockets by process.
    of_process: BTreeSet<(u32, u64)>,
}

impl UnderWay {
    /// Of a look.
    pub(super) fn of(model: &Model) -> Self {
        let mut sights: HashMap<u64, Vec<(Ns, &SocketState)>> = HashMap::new();
        let last = model.held.endpoints_at.iter().zip(&model.held.endpoints);
        let before = model.held.endpoints_before.iter().map(|(at_ns, end)| (at_ns, end));
        for (at_ns, end) in before.chain(last) {
            if let Some((ino, state)) = sight(end) {
                sights.entry(ino).or_default().push((*at_ns, state));
            }
        }
        let mut all = Self::default();
        for (ino, mut of_one) in sights {
            // Of processes that share it each has its own sight.
            of_one.sort_by_key(|(at_ns, _)| *at_ns);
            let times = times(&of_one, model.look.end_ns);
            if !times.is_empty() {
                all.times.insert(ino, times);
            }
        }
        let ends = model.held.endpoints.iter().map(|end| (end.process.pid, end.object_ino()));
        all.of_process = ends.filter(|(_, ino)| all.times.contains_key(ino)).collect();
        all
    }

    /// The only socket of a process of which that is so for most of a time.
    pub(super) fn only_of(&self, pid: u32, within: (Ns, Ns)) -> Option<u64> {
        let its = self.of_process.range((pid, 0)..=(pid, u64::MAX)).map(|(_, ino)| *ino);
        let mut sent = its.filter(|ino| self.is(*ino, within));
        let only = sent.next()?;
        sent.next().is_none().then_some(only)
    }

    /// Whether what a socket sent was under way for most of a time.
    pub(super) fn is(&self, ino: u64, (from, to): (Ns, Ns)) -> bool {
        let Some(times) = self.times.get(&ino) else { return false };
        let part =
            |(begin_ns, end_ns): &(Ns, Ns)| (*end_ns).min(to).saturating_sub((*begin_ns).max(from));
        times.iter().map(part).sum::<Ns>() * 2 > to.saturating_sub(from)
    }
}

/// The state of a connection that was read, if its clocks were.
fn sight(end: &Endpoint) -> Option<(u64, &SocketState)> {
    let ObjectRef::Inet(socket) = &end.object else { return None };
    let state = end.socket.as_ref().filter(|it| it.busy_us > 0 && it.turn.is_some())?;
    Some((socket.ino, state))
}

/// When what was sent was under way, by the sights of one socket in order of time. Times do not overlap.
fn times(sights: &[(Ns, &SocketState)], look_end_ns: Ns) -> Vec<(Ns, Ns)> {
    let mut times: Vec<(Ns, Ns)> = Vec::new();
    let mut before: Option<(Ns, &SocketState)> = None;
    for (at, (at_ns, state)) in sights.iter().enumerate() {
        if let Some(from_ns) = since_ns(before, (*at_ns, state)) {
            let is_last = at + 1 == sights.len();
            let end_ns = if is_last {
                look_end_ns.min(at_ns.saturating_add(drain_ns(before, state)))
            } else {
                *at_ns
            };
            times.push((from_ns, end_ns.max(*at_ns)));
        }
        before = Some((*at_ns, state));
    }
    times
}

/// Since when what a sight has outstanding was under way, if it was until then.
fn since_ns(before: Option<(Ns, &SocketState)>, (at_ns, now): (Ns, &SocketState)) -> Option<Ns> {
    let zero = SocketState::default();
    let old = before.map_or(&zero, |(_, state)| state);
    let busy_us = now.busy_us.saturating_sub(old.busy_us);
    let busy_ns = busy_us.saturating_mul(1_000);
    // Of an end that was not seen before: since the question came at the earliest, which it answers.
    let from_ns = match before {
        Some((from_ns, _)) => from_ns,
        None => at_ns.saturating_sub(busy_ns.min(heard_ago_ns(now))),
    };
    let all_ns = at_ns.saturating_sub(from_ns);
    let is_outstanding = all_ns > 0 && busy_ns as f64 >= OUTSTANDING.value * all_ns as f64;
    let by_reader_us = now.receiver_limited_us.saturating_sub(old.receiver_limited_us);
    let is_reader_slow = by_reader_us as f64 >= READER.value * busy_us as f64;
    let is_held = is_held_up(now) || before.is_some_and(|(_, old)| is_held_up(old));
    let again = now.retransmits.saturating_sub(old.retransmits);
    let delivered = now.delivered.saturating_sub(old.delivered);
    let is_again = again > 0 && f64::from(again) >= AGAIN.value * f64::from(delivered);
    (is_outstanding && !is_reader_slow && (is_held || is_again)).then_some(from_ns)
}

/// More is written than the way takes, or what is sent stands in a queue on it.
fn is_held_up(state: &SocketState) -> bool {
    let round_trip_us = u64::from(state.rtt_us);
    let queued_us = 2 * u64::from(state.rtt_us_min) + QUEUED.ns() / 1_000;
    let are_many = state.turn.is_some_and(|turn| f64::from(turn.packets_out) >= MANY.value);
    state.unsent_bytes > 0 || are_many && state.rtt_us_min > 0 && round_trip_us > queued_us
}

/// How long ago something came on a connection.
fn heard_ago_ns(state: &SocketState) -> Ns {
    let turn = state.turn.unwrap_or_default();
    u64::from(turn.received_jiffies) * u64::from(turn.jiffy_ns)
}

/// How long what a sight has outstanding takes at the pace of the time before it.
fn drain_ns(before: Option<(Ns, &SocketState)>, now: &SocketState) -> Ns {
    let zero = SocketState::default();
    let old = before.map_or(&zero, |(_, state)| state);
    let acked = now.acked_bytes.saturating_sub(old.acked_bytes).max(1);
    let busy_ns = now.busy_us.saturating_sub(old.busy_us) as f64 * 1e3;
    let turn = now.turn.unwrap_or_default();
    let outstanding =
        now.unsent_bytes.saturating_add(u64::from(turn.snd_nxt.wrapping_sub(turn.snd_una)));
    (busy_ns * outstanding as f64 / acked as f64) as Ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::TcpTurn;

    const SECOND: Ns = 1_000_000_000;

    /// A sight of a socket on which so much of a time, in milliseconds, had data outstanding.
    fn sent(busy_ms: u64, unsent_bytes: u64) -> SocketState {
        let turn = TcpTurn {
            snd_nxt: 20_000,
            packets_out: 10,
            received_jiffies: 9_000,
            jiffy_ns: 1_000_000,
            ..TcpTurn::default()
        };
        let (rtt_us, rtt_us_min, turn) = (90, 60, Some(turn));
        let (busy_us, acked_bytes) = (busy_ms * 1_000, busy_ms * 100);
        SocketState {
            rtt_us,
            rtt_us_min,
            turn,
            busy_us,
            acked_bytes,
            unsent_bytes,
            ..SocketState::default()
        }
    }

    fn between(first: &SocketState, last: &SocketState) -> Vec<(Ns, Ns)> {
        times(&[(SECOND, first), (3 * SECOND, last)], 5 * SECOND)
    }

    #[test]
    fn what_is_outstanding_all_the_time_is_under_way_until_it_has_drained() {
        // 100 bytes a millisecond: 30,000 of them take 300 ms.
        let seen = between(&sent(900, 0), &sent(2_900, 10_000));
        assert_eq!(seen, [(SECOND, 3 * SECOND + 300_000_000)]);
        let alone = sent(1_900, 10_000);
        let first = times(&[(3 * SECOND, &alone)], 3 * SECOND);
        assert_eq!(first, [(1_100_000_000, 3 * SECOND)], "seen once, since it began to send");
    }

    #[test]
    fn a_writer_that_pauses_and_one_that_is_as_fast_as_its_way_are_not_held_up_by_it() {
        assert!(between(&sent(900, 0), &sent(2_000, 10_000)).is_empty(), "it pauses");
        assert!(between(&sent(900, 0), &sent(2_900, 0)).is_empty(), "all is sent, in a round trip");
        let again = SocketState { retransmits: 3, ..sent(2_900, 0) };
        assert_eq!(between(&sent(900, 0), &again).len(), 1, "it was sent again");
        let often = SocketState { delivered: 100, ..again };
        assert!(between(&sent(900, 0), &often).is_empty(), "the way's usual loss");
        let queued = SocketState { rtt_us: 40_000, ..sent(2_900, 0) };
        assert_eq!(between(&sent(900, 0), &queued).len(), 1, "it stands in a queue");
        let few = queued.turn.map(|turn| TcpTurn { packets_out: 3, ..turn });
        let few = SocketState { turn: few, ..queued };
        assert!(between(&sent(900, 0), &few).is_empty(), "a long way");
    }

    #[test]
    fn a_reader_that_leaves_its_window_shut_is_slow_himself() {
        let shut = SocketState { receiver_limited_us: 1_500_000, ..sent(2_900, 10_000) };
        assert!(between(&sent(900, 0), &shut).is_empty());
    }

    #[test]
    fn a_connection_that_is_asked_again_and_again_has_no_answer_under_way_before_its_question() {
        let turn = sent(0, 0).turn.map(|turn| TcpTurn { received_jiffies: 400, ..turn });
        let asked_again = SocketState { turn, ..sent(60_000, 10_000) };
        assert_eq!(times(&[(3 * SECOND, &asked_again)], 3 * SECOND), [(2_600_000_000, 3 * SECOND)]);
    }
}
