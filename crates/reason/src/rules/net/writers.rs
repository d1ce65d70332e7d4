//! Writers of TCP streams that are held back, by the peer that they write to.
//!
//! A writer that waits for room has an end. An event loop waits for room while it waits for all else: only data that stands
//! unsent shows its demand, there is no end to claim, and what is lost is the time with data outstanding.
//!
//! Must not: claim a stream whose writer does not wait and which has nothing outstanding. Rejected: shares of
//! counters since the connection began, where the begin of the look is known.

use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::tcp_stream::Stream;
use crate::model::object::Object;
use crate::model::words;
pub(super) use crate::rules::net::retransmits::{HEAVY_LOSS, LEAST_AGAIN, loses};
use crate::rules::net::standing_queue::{passed, standing};
use crate::rules::net::{losses, relay_legs};
use crate::rules::{Losses, Match, engine};
use crate::threshold::Threshold;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Part of the look with data outstanding from which an event loop's stream has demand.
pub(super) static BUSY: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the look with data outstanding, from which a stream has demand although no writer waits for room",
    "chosen: more often than not",
);
/// Part of the time with data outstanding in which the peer's window was shut.
pub(super) static WINDOW_SHUT: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the time with data outstanding that the peer's window limited, if it is the reason",
    "lab, seeds 4401-4403: 0.98 behind a slow reader, 0.39 at a class's ceiling, 0 elsewhere",
);

/// A stream that somebody waits to write to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer<'m> {
    /// The stream.
    pub stream: &'m Stream<'m>,
    /// The end of its writers' waits, with its index; none of an event loop.
    pub end: Option<(usize, &'m End)>,
    /// Seconds that its writer lost.
    pub lost: f64,
}

/// Every stream with a writer who is held back, as far as nobody has claimed his wait.
pub(super) fn writers<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Writer<'m>> {
    measures.tcp_streams.iter().filter_map(|stream| writer(measures, ends, stream)).collect()
}

fn writer<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    stream: &'m Stream<'m>,
) -> Option<Writer<'m>> {
    if let Some(at) = stream.end {
        let end = ends.get(at).filter(|end| !end.victims.is_empty())?;
        let lost = end.victims.values().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        return Some(Writer { stream, end: Some((at, end)), lost });
    }
    let (busy, look) = (stream.busy_seconds(), measures.model.look.seconds());
    let stands_unsent = stream.endpoint.nonblocking
        && stream.state.unsent_bytes > 0
        && busy >= BUSY.value * look
        && measures.concerns(&stream.endpoint.process);
    stands_unsent.then_some(Writer { stream, end: None, lost: busy.min(look) })
}

/// The streams to one peer that have one reason.
#[derive(Debug, Clone)]
pub(super) struct Peer<'m> {
    /// The peer.
    pub address: SocketAddr,
    /// Whoever loses most comes first; never empty.
    pub writers: Vec<Writer<'m>>,
}

/// Streams that pass no standing queue of this host and for which a reason holds, by peer.
pub(super) fn by_peer<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    holds: impl Fn(&Writer<'m>) -> bool,
) -> Vec<Peer<'m>> {
    let standing = standing(measures);
    let mut peers: BTreeMap<SocketAddr, Vec<Writer<'m>>> = BTreeMap::new();
    for writer in writers(measures, ends) {
        if passed(&standing, writer.stream).is_none() && holds(&writer) {
            peers.entry(writer.stream.socket.remote).or_default().push(writer);
        }
    }
    let peers = peers.into_iter().map(|(address, mut writers)| {
        writers.sort_by(|a, b| b.lost.total_cmp(&a.lost));
        Peer { address, writers }
    });
    peers.collect()
}

/// The peer's window limited it.
pub(super) fn window_is_shut(stream: &Stream<'_>) -> bool {
    stream.receiver_limited() >= WINDOW_SHUT.value
}

impl<'m> Peer<'m> {
    /// The stream that loses most.
    pub(super) fn first(&self) -> &Writer<'m> {
        &self.writers[0]
    }

    /// Who writes to it: `tcp-source 812`.
    pub(super) fn writer(&self) -> String {
        words::who(&self.first().stream.endpoint.process)
    }

    /// Seconds lost by the one who loses most.
    pub(super) fn lost(&self) -> f64 {
        self.first().lost
    }

    /// Bytes a second that got through.
    pub(super) fn throughput(&self, measures: &Measures<'_>) -> f64 {
        let bytes: u64 = self.writers.iter().map(|one| one.stream.change.acked_bytes).sum();
        bytes as f64 / measures.model.look.seconds().max(1e-9)
    }

    /// The match with the writers' waits as its claims, or with the losses of event loops. `reader`: whoever reads at the
    /// other end is to blame and belongs to the chain; else he waits for this too.
    pub(super) fn claim(
        &self,
        measures: &Measures<'_>,
        matched: Match<'m>,
        reader: bool,
    ) -> Option<Match<'m>> {
        if self.writers.iter().any(|one| one.end.is_some()) {
            let matched = match self.first().end {
                Some((_, end)) => relay_legs::said(measures, end, matched),
                None => matched,
            };
            return Some(claim(&self.writers, matched, reader));
        }
        let mut lost = Losses::new();
        for one in &self.writers {
            let process = &one.stream.endpoint.process;
            let loss = lost.entry(process.pid).or_insert_with(|| (process.clone(), 0.0));
            loss.1 = loss.1.max(one.lost);
        }
        let lost = losses::in_target(measures, lost);
        let object = Object::Inet(self.first().stream.socket.ino);
        let is_some = !lost.is_empty();
        is_some.then(|| losses::of_measure(measures, matched, object, lost, None))
    }
}

/// The match with the ends of some writers' waits as its claims.
pub(super) fn claim<'m>(writers: &[Writer<'m>], mut matched: Match<'m>, reader: bool) -> Match<'m> {
    let ends: Vec<(usize, &End)> = writers.iter().filter_map(|one| one.end).collect();
    if let Some(end) = End::merged(ends.iter().map(|(_, end)| *end)).filter(|_| !reader) {
        let to_socket = end.links.iter().take(end.named + 1);
        matched.chain = Some(to_socket.filter_map(|link| engine::step(link)).collect());
    }
    ends.iter().fold(matched, |matched, (at, _)| matched.claiming(*at, None))
}
