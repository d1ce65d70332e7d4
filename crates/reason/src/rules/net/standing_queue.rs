//! When a queue of this host stands, what class holds it back, and who waits behind it.
//!
//! A good queue is empty now and then. One stands if even its quickest packet, in almost every tenth of a second, waited
//! longer than CoDel's target, and the kernel's own backlog agrees; or if a class below it sends as fast as its ceiling
//! allows and has more to send. Shared by the rules of this area, because what passes a standing queue has its reason there.
//!
//! Must not: blame anybody.

use crate::facts::QdiscFlow;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::packet_queue::{Ceiling, Queue};
use crate::measure::tcp_stream::Stream;
use crate::measure::tunnels::carrier_of;
use crate::model::object::Object;
use crate::rules::net::retransmits::{HEAVY_LOSS, loses};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// Least time in a queue that stands.
pub(super) static TARGET: Threshold = Threshold::new(
    5e-3,
    "s",
    "the least time of any packet in a queue that stands is above this in almost every tenth of a second",
    "RFC 8289: CoDel's target",
);
/// Factor of [`TARGET`] for disciplines that manage their queue.
pub(super) static MANAGED: Threshold = Threshold::new(
    3.0,
    "1",
    "times the target for codel, cake and pie, which let a queue stand for a while before they drop",
    "chosen: RFC 8289 lets a queue stand for an interval before the first drop",
);
/// Full frames of which one always waits for the other.
pub(super) static FRAMES: Threshold = Threshold::new(
    2.0,
    "1",
    "full frames at the queue's rate always wait for each other: a queue that stands is longer",
    "arithmetic: one is sent while the next arrives",
);
/// Part of the readings that must agree.
pub(super) static MOST: Threshold = Threshold::new(
    0.8,
    "1",
    "part of the readings, and of the tenths of a second, in which something waited",
    "chosen: four of five, so that a late reading does not hide a queue",
);
/// Part of its ceiling from which a class has met it.
pub(super) static MET: Threshold = Threshold::new(
    0.85,
    "1",
    "part of its ceiling that a class sends which has met it: buckets, headers and readings blur the rate",
    "chosen: recording net-class-ceiling-4401 sends 1.005 of its ceiling, a reading at the edge of the look costs a tenth",
);
/// Part of [`TARGET`] that packets wait below a class at its ceiling.
pub(super) static BELOW_CLASS: Threshold = Threshold::new(
    0.2,
    "1",
    "part of the target that packets wait on average where a class is at its ceiling: those of other classes come through at once",
    "chosen: one flow of five",
);
/// Part of a wait for an answer that the asker's packets spent in the queue.
pub(super) static ANSWER_BEHIND: Threshold = Threshold::new(
    0.5,
    "1",
    "part of a wait for an answer that the socket's packets spent in the queue, if the queue explains it",
    "chosen: the greater part",
);

/// A full Ethernet frame, bytes.
pub(super) const FRAME_BYTES: f64 = 1514.0;

/// A queue that stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing<'m> {
    /// Index into the measure.
    pub at: usize,
    /// Its figures.
    pub queue: &'m Queue<'m>,
    /// The class that holds it back, if it is one.
    pub held_by: Option<HeldBy<'m>>,
}

/// A class at its ceiling.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldBy<'m> {
    /// The ceiling that is met.
    pub ceiling: Ceiling<'m>,
    /// Mean bytes that waited below it.
    pub backlog: f64,
}

/// Every queue of the host that stands for the whole look.
pub(super) fn standing<'m>(measures: &'m Measures<'m>) -> Vec<Standing<'m>> {
    let all = measures.packet_queues.iter().enumerate().filter_map(|(at, queue)| {
        let held_by = class_at_ceiling(queue);
        stands(queue, held_by.is_some()).then_some(Standing { at, queue, held_by })
    });
    let mut all: Vec<Standing<'m>> = all.collect();
    // The root's packets are counted at its leaves again: the outermost one stands for them.
    let outer: BTreeSet<(u32, u32)> =
        all.iter().filter(|one| one.queue.is_root()).map(|one| one.queue.interface()).collect();
    all.retain(|one| one.queue.is_root() || !outer.contains(&one.queue.interface()));
    all
}

fn stands(queue: &Queue<'_>, at_ceiling: bool) -> bool {
    let managed = matches!(&*queue.last.kind, "fq_codel" | "codel" | "cake" | "fq_pie" | "pie");
    let least = if managed { MANAGED.value * TARGET.value } else { TARGET.value };
    // What is held for a set time waits for no frame, however seldom one is sent.
    let is_held = queue.sojourn.is_some() && queue.is_delay();
    let frames = if is_held { 0.0 } else { FRAMES.value * FRAME_BYTES / queue.sent.max(1.0) };
    let target = least.max(frames);
    // Who sends seldom leaves it empty in between, and waits out the set time with each packet all the same.
    if queue.occupied < MOST.value && !is_held {
        return false;
    }
    // Below classes each flow has a queue of its own: the packets of the others come through at once.
    if at_ceiling {
        return queue.seconds > BELOW_CLASS.value * TARGET.value;
    }
    queue.seconds >= target && queue.tenths_above(target).is_none_or(|part| part >= MOST.value)
}

/// The class with a backlog whose own ceiling, or that of a class above it, is met: the greatest backlog's.
fn class_at_ceiling<'m>(queue: &'m Queue<'m>) -> Option<HeldBy<'m>> {
    let is_met = |one: &&Ceiling<'m>| one.ceiling > 0.0 && one.sent >= MET.value * one.ceiling;
    let mut greatest: Option<HeldBy<'m>> = None;
    for class in queue.classes.iter().filter(|class| class.occupied >= MOST.value) {
        let Some(ceiling) = class.ceilings.iter().find(is_met) else { continue };
        if greatest.is_none_or(|one| class.backlog > one.backlog) {
            greatest = Some(HeldBy { ceiling: *ceiling, backlog: class.backlog });
        }
    }
    greatest
}

/// The standing queue that explains a stream which passes it. A full queue makes losses; a set delay makes none, so many
/// losses behind one have another reason.
pub(super) fn passed<'s, 'm>(
    standing: &'s [Standing<'m>],
    stream: &Stream<'_>,
) -> Option<&'s Standing<'m>> {
    let first = standing.iter().find(|one| stream.queues.contains(&one.at))?;
    (!first.queue.is_delay() || !loses(stream, &HEAVY_LOSS)).then_some(first)
}

/// The socket by which an end's answer was asked for: of a server whose next event nobody was seen to bring too, since that may be what is under
/// way to it.
fn asked_by(end: &End) -> Option<u64> {
    let for_events = matches!(end.class, WaitClass::Idle | WaitClass::SocketRead);
    let before = match end.kind {
        EndKind::Remote if end.class == WaitClass::SocketRead => return inet(&end.object),
        EndKind::Open if for_events => end.links.get(..end.named)?,
        _ => return None,
    };
    let asked = before.iter().rfind(|link| link.class == WaitClass::SocketRead)?;
    inet(&asked.object)
}

fn inet(object: &Object) -> Option<u64> {
    match object {
        Object::Inet(ino) => Some(*ino),
        _ => None,
    }
}

/// Whether all that a tunnel's program sends through a queue goes to one host: behind which of several an address is only the program knows.
fn is_to_one_host(flows: &[&QdiscFlow], pid: u32) -> bool {
    let own = flows.iter().filter(|it| it.process.as_ref().is_some_and(|by| by.pid == pid));
    let mut hosts = own.map(|flow| flow.remote.ip().to_canonical());
    hosts.next().is_some_and(|first| hosts.all(|host| host == first))
}

/// Ends of waits for an answer that the asker's packets mostly spent in this queue.
pub(super) fn answers_behind(
    measures: &Measures<'_>,
    ends: &[End],
    queue: &Queue<'_>,
) -> Vec<usize> {
    let is_behind = |end: &End| {
        let Some(ino) = asked_by(end) else { return false };
        let called = &measures.model.called;
        let ways = called.socket(ino).map(|socket| called.translations.ways(socket));
        let is_its = |pair| ways.is_some_and(|ways| ways.contains(&pair));
        let carrier = called
            .socket(ino)
            .and_then(|it| carrier_of(measures.model, it))
            .filter(|by| is_to_one_host(&queue.flows, by.pid));
        let carries = |flow: &QdiscFlow| {
            carrier.is_some_and(|by| flow.process.as_ref().is_some_and(|it| it.pid == by.pid))
        };
        let is_own = |flow: &&&QdiscFlow| {
            flow.socket_ino == ino || is_its((flow.local, flow.remote)) || carries(flow)
        };
        let own = queue.flows.iter().filter(is_own);
        let queued: f64 = own.map(|flow| flow.sojourn_ns as f64 / 1e9).sum();
        let lost: f64 = end.victims.values().map(|(_, seconds)| seconds).sum();
        lost > 0.0 && queued >= ANSWER_BEHIND.value * lost
    };
    ends.iter().enumerate().filter(|(_, end)| is_behind(end)).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Body;
    use crate::rules::net::scenes::{address, flow};

    #[test]
    fn what_a_tunnel_sends_to_several_hosts_is_not_known_to_be_of_one_address() {
        let is = |remotes: &[&str]| {
            let to = |remote: &&str| match flow(30, "vpn", 1_194, 15, 1_500, 303).body {
                Body::QdiscFlow(sent) => Some(QdiscFlow { remote: address(remote), ..sent }),
                _ => None,
            };
            let flows: Vec<QdiscFlow> = remotes.iter().filter_map(to).collect();
            is_to_one_host(&flows.iter().collect::<Vec<_>>(), 30)
        };
        assert!(is(&["10.0.0.2:9"]) && is(&["10.0.0.2:9", "10.0.0.2:10"]));
        assert!(!is(&["10.0.0.2:9", "10.0.0.3:9"]) && !is(&[]));
    }
}
