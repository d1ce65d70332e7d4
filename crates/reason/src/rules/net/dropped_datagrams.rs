//! What the two rules of dropped datagrams share: when drops count, the evidence, and who waits in vain.
//!
//! Two counters must agree that a receive buffer was full: the socket's own and its namespace's. Must not: say whose fault it
//! is.

use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::measure::datagram_drops::Dropping;
use crate::measure::tcp_stream::leads_to;
use crate::model::object::Object;
use crate::rules::Match;
use crate::rules::net::losses::{self, in_target};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Severity, Wording};
use crate::threshold::Threshold;
use crate::waits::WaitClass;

/// Drops a second that count.
pub(super) static DROPS: Threshold = Threshold::new(
    10.0,
    "1/s",
    "datagrams dropped at the socket: fewer are a burst now and then",
    "chosen: one of a hundred clients that ask ten times a second",
);
/// Part of the socket's drops that its namespace must have counted.
pub(super) static COUNTED: Threshold = Threshold::new(
    0.5,
    "1",
    "full receive buffers that the namespace counts, for each drop of the socket, which a filter may make too",
    "chosen: the greater part",
);
/// Part of the drops that is read meanwhile.
pub(super) static READS: Threshold = Threshold::new(
    0.01,
    "1",
    "datagrams read for each one dropped, from which the program reads on",
    "chosen: one for each hundred, which other sockets of the namespace may have read",
);
/// Part of the arrivals that is dropped.
pub(super) static SERIOUS: Threshold = Threshold::new(
    0.05,
    "1",
    "part of the arriving datagrams that is dropped, from which it is worth a warning although nobody is seen to wait",
    "chosen: one question of twenty without an answer",
);

/// Sockets of the target, or that somebody of it waits for, which drop enough to matter.
pub(super) fn dropping<'m>(measures: &'m Measures<'m>) -> impl Iterator<Item = &'m Dropping<'m>> {
    measures.datagram_drops.iter().filter(|one| {
        let agreed = one.dropped >= DROPS.value && one.counted >= COUNTED.value * one.dropped;
        agreed
            && (measures.concerns(&one.endpoint.process)
                || !in_target(measures, one.waiting.clone()).is_empty())
    })
}

/// The program reads on while others are dropped.
pub(super) fn reads(one: &Dropping<'_>) -> bool {
    one.has_run && one.read >= READS.value * one.dropped
}

/// Part of the arriving datagrams that is dropped.
pub(super) fn dropped_part(one: &Dropping<'_>) -> f64 {
    one.dropped / (one.dropped + one.read).max(1e-9)
}

/// The match of either rule: who waits for answers loses, and mostly nobody of this host is seen to wait.
pub(super) fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    one: &'m Dropping<'m>,
    blamed: Culprit,
    mut wording: Wording,
) -> Match<'m> {
    wording.evidence.splice(0..0, evidence(one));
    let matched = Match::new(blamed, Proof::TwoWitnesses, move |_| wording.clone());
    let lost = in_target(measures, one.waiting.clone());
    let holder = Some((&one.endpoint.process, "socket", "full receive buffer".to_string()));
    let object = Object::Inet(one.socket.ino);
    let mut matched = losses::of_measure(measures, matched, object, lost, holder);
    if dropped_part(one) >= SERIOUS.value {
        matched.severity_min = Severity::Warning;
        matched.severity_max = matched.severity_max.max(Severity::Warning);
    }
    for (at, end) in ends.iter().enumerate() {
        let Object::Inet(ino) = end.object else { continue };
        let model = measures.model;
        let asks =
            model.called.socket(ino).is_some_and(|socket| leads_to(model, socket, one.socket));
        let waits = end.kind == EndKind::Remote && end.class == WaitClass::SocketRead;
        if asks && waits && !end.victims.is_empty() {
            matched = matched.claiming(at, None);
        }
    }
    matched
}

fn evidence(one: &Dropping<'_>) -> Vec<Evidence> {
    let counter = "/proc/net/snmp Udp";
    let unread = one.state.receive_queued_bytes as f64;
    let room = one.state.receive_limit_bytes as f64;
    vec![
        Evidence::new("dropped at the socket", one.dropped, "1/s", "sock.sk_drops"),
        Evidence::new("receive buffers found full in its namespace", one.counted, "1/s", counter),
        Evidence::new("datagrams read in its namespace", one.read, "1/s", counter),
        Evidence::new("wait unread at the socket", unread, "bytes", "sock"),
        Evidence::new("room of the socket", room, "bytes", "sock"),
    ]
}
