//! Data that is held back: a small segment waits in the sender's own buffer until all before it is acknowledged.
//!
//! Nagle's algorithm (RFC 896) lets a connection have one small segment under way. A program that writes a question in two
//! pieces and then waits for the answer waits for an acknowledgement first, because the second piece has not left; and the
//! other end, which has no answer to half a question, puts its acknowledgement off (RFC 1122, 4.2.3.2; Linux: 40 to 200 ms). The
//! part of such a wait before the last small segment left is a wait for that acknowledgement.
//!
//! A wait by itself cannot tell that from another thread's writing later. So the part counts only if it is as long as
//! acknowledgements are put off, several times the path's own round trip, and every other thread of the process waited
//! itself when the segment left: then nobody but the kernel sent it.
//!
//! Must not: follow a wait, or name the cause (rules/net/delayed_ack.rs). Rejected: the receiver's pending acknowledgement alone
//! (it is there in many a healthy exchange).

use super::WaitClass;
use super::span::WaitSpan;
use crate::facts::Ns;
use crate::model::Model;
use std::collections::{BTreeSet, HashMap};

/// Whose wait, since when.
type Which = (u32, Ns);

/// An acknowledgement is put off by 40 ms at least (TCP_DELACK_MIN, TCP_ATO_MIN of include/net/tcp.h), clocks apart.
const PUT_OFF_NS_MIN: Ns = 25_000_000;
/// And by 200 ms at most (TCP_DELACK_MAX), and a tick of the slowest clock on either side.
const PUT_OFF_NS_MAX: Ns = 250_000_000;
/// What takes no longer than so many round trips is the way there and back.
const ROUND_TRIPS: u64 = 4;
/// Who waits around a moment waits at it: switches and segments are dated by different clocks.
const SKEW_NS: Ns = 500_000;

/// The waits in which data was held back, each with the time until which it was.
pub(super) fn held_back<'a>(
    model: &Model,
    waits: impl Iterator<Item = &'a WaitSpan> + Clone,
) -> HashMap<Which, Ns> {
    let found = waits.clone().filter_map(|wait| Some((wait, until(wait)?)));
    let found: Vec<(&WaitSpan, Ns)> = found.collect();
    let pids: BTreeSet<u32> = found.iter().map(|(wait, _)| wait.thread.pid).collect();
    let threads = Threads::of(model, waits.filter(|wait| pids.contains(&wait.thread.pid)));
    let alone = found.into_iter().filter(|(wait, until)| threads.others_wait(wait, *until));
    alone.map(|(wait, until)| ((wait.thread.tid, wait.begin_ns), until)).collect()
}

/// Until when the last small segment stood in the buffer, if it stood there as long as acknowledgements are put off.
fn until(wait: &WaitSpan) -> Option<Ns> {
    let nagle = wait.place.nagle.as_ref()?;
    if matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota) {
        return None;
    }
    let until = match wait.standing && nagle.unsent_bytes > 0 {
        true => wait.end_ns,
        false => nagle.sent_ns.min(wait.end_ns),
    };
    let held_ns = until.checked_sub(wait.begin_ns)?;
    let is_put_off = (PUT_OFF_NS_MIN..=PUT_OFF_NS_MAX).contains(&held_ns)
        && held_ns >= ROUND_TRIPS * nagle.round_trip_ns_min;
    is_put_off.then_some(until)
}

/// Of some processes, when which thread waited.
#[derive(Default)]
struct Threads(HashMap<u32, HashMap<u32, Vec<(Ns, Ns)>>>);

impl Threads {
    fn of<'a>(model: &Model, waits: impl Iterator<Item = &'a WaitSpan>) -> Self {
        let mut threads = Self::default();
        for wait in waits {
            let of_one = threads.0.entry(wait.thread.pid).or_default();
            of_one.entry(wait.thread.tid).or_default().push((wait.begin_ns, wait.end_ns));
        }
        // Those that were not seen to wait at all.
        for time in &model.threads.times {
            if let Some(of_one) = threads.0.get_mut(&time.thread.pid) {
                of_one.entry(time.thread.tid).or_default();
            }
        }
        threads
    }

    /// Whether all threads of a process but the one that waits waited themselves at a moment.
    fn others_wait(&self, wait: &WaitSpan, at_ns: Ns) -> bool {
        let of_one = self.0.get(&wait.thread.pid);
        let waits = |spans: &Vec<(Ns, Ns)>| {
            let around = |(begin_ns, end_ns): &(Ns, Ns)| {
                *begin_ns <= at_ns + SKEW_NS && at_ns <= *end_ns + SKEW_NS
            };
            spans.iter().any(around)
        };
        let mut others = of_one.into_iter().flatten().filter(|(tid, _)| **tid != wait.thread.tid);
        others.all(|(_, spans)| waits(spans))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    const MS: Ns = 1_000_000;

    /// A thread that waits for an answer from 100 to 145 ms, and whose last segment left at a time, with what more there is.
    fn asks(sent_ms: Ns, round_trip_ms: Ns, more: Vec<Fact>) -> Vec<(WaitClass, Ns)> {
        let at = |port: u16| std::net::SocketAddr::from(([10, 0, 0, 1], port));
        let socket = InetRef {
            ino: 7,
            netns: 1,
            protocol: "tcp".into(),
            local: at(40_000),
            remote: at(80),
            state: 1,
        };
        let nagle = Nagle {
            sent_ns: sent_ms * MS,
            round_trip_ns_min: round_trip_ms * MS,
            ..Nagle::default()
        };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(ObjectRef::Inet(socket)),
            nagle: Some(nagle),
            ..Place::default()
        };
        let wake = Wake { at_ns: 145 * MS, context: WakeContext::SoftInterrupt, ..Wake::default() };
        let wait = Wait {
            thread: thread(10, "client"),
            begin_ns: 100 * MS,
            end_ns: 145 * MS,
            place,
            wake: Some(wake),
            ..Wait::default()
        };
        let own = Fact { at_ns: 145 * MS, body: Body::Wait(wait) };
        let Observed { timelines, .. } = Observed::new([host(), vec![own], more].concat());
        let of_client = timelines.waits().filter(|wait| wait.thread.tid == 10);
        of_client.map(|wait| (wait.class, (wait.end_ns - wait.begin_ns) / MS)).collect()
    }

    /// Another thread of the same process, asleep in some milliseconds.
    fn other(begin_ms: Ns, end_ms: Ns) -> Vec<Fact> {
        let thread = ThreadRef { tid: 11, ..thread(10, "writer") };
        let place =
            Place { state: WaitState::Sleep, syscall: "epoll_wait".into(), ..Place::default() };
        let (begin_ns, end_ns) = (begin_ms * MS, end_ms * MS);
        let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        vec![Fact { at_ns: end_ns, body: Body::Wait(wait) }]
    }

    #[test]
    fn what_left_late_was_held_back_until_then() {
        use WaitClass::{Nagle, SocketRead};
        assert_eq!(asks(143, 0, Vec::new()), [(Nagle, 43), (SocketRead, 2)]);
        assert_eq!(asks(143, 0, other(50, 200)), [(Nagle, 43), (SocketRead, 2)]);
    }

    #[test]
    fn what_left_before_the_wait_was_not() {
        assert_eq!(asks(99, 0, Vec::new()), [(WaitClass::SocketRead, 45)]);
        assert_eq!(asks(110, 0, Vec::new()), [(WaitClass::SocketRead, 45)]);
    }

    #[test]
    fn on_a_long_way_it_is_the_way() {
        assert_eq!(asks(143, 20, Vec::new()), [(WaitClass::SocketRead, 45)]);
    }

    #[test]
    fn another_thread_that_ran_then_may_have_written_it() {
        assert_eq!(asks(143, 0, other(50, 142)), [(WaitClass::SocketRead, 45)]);
    }
}
