//! Interfaces as rows: what each carried and lost between the two readings of a look, with its queueing disciplines.
//!
//! Counters of interfaces are read a moment before the window and a moment after it, so that a rate is of the time between the readings,
//! and not of the window; queueing disciplines are read each tick. Must not: say why something was lost (drops.rs), or take a counter that was read once for one that stood still.

use super::contract::{Amount, Interface, Lost, Queue, Traffic};
use super::namespaces::namespace;
use super::waiting::Waiting;
use crate::facts::{Link, LinkSettings, Ns, QdiscFlow, QdiscSample};
use crate::measure::Measures;
use std::collections::BTreeMap;

/// Counters of IFLA_STATS64 that count no loss: what collided was sent again, an inactive member of a bond hands on to nobody, and what a
/// capture sees of others was for them.
const CARRIED: [&str; 10] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "multicast",
    "rx_compressed",
    "tx_compressed",
    "collisions",
    "rx_nohandler",
    "rx_otherhost_dropped",
];
/// Disciplines that hold no packets.
const HOLD_NONE: [&str; 3] = ["noqueue", "ingress", "clsact"];
/// Disciplines whose limit is in bytes (man tc-tbf, tc-bfifo); all others count packets.
const LIMITED_IN_BYTES: [&str; 2] = ["tbf", "bfifo"];
/// A flow whose packets spent less than this part of the window in a queue is not held up by it (as net.local_queue).
const HELD: f64 = 0.05;
/// Bits in a byte.
const BITS: f64 = 8.0;
/// Bits of a megabit, as drivers count them.
const MEGABIT: f64 = 1e6;

/// Rows, and how many interfaces neither moved nor lost a packet; none if interfaces were not read.
pub(super) fn interfaces(
    measures: &Measures<'_>,
    waiting: &Waiting<'_>,
) -> (Option<Vec<Interface>>, usize) {
    let net = &measures.model.net;
    if net.links.is_empty() {
        return (None, 0);
    }
    let mut readings: BTreeMap<(u32, u32), Vec<(Ns, &Link)>> = BTreeMap::new();
    for (at, link) in net.links_at.iter().zip(&net.links) {
        readings.entry((link.netns, link.index)).or_default().push((*at, link));
    }
    let mut rows: Vec<Interface> =
        readings.values().filter_map(|of| row(measures, waiting, of)).collect();
    let at_rest = readings.len() - rows.len();
    let carried = |it: &Interface| -> f64 {
        [it.received, it.sent].iter().flatten().map(|it| it.bits_per_second).sum()
    };
    rows.sort_by(|a, b| {
        let loses_first = a.lost.is_empty().cmp(&b.lost.is_empty());
        loses_first.then(carried(b).total_cmp(&carried(a)))
    });
    (Some(rows), at_rest)
}

/// An interface; none if nothing moved.
fn row(
    measures: &Measures<'_>,
    waiting: &Waiting<'_>,
    readings: &[(Ns, &Link)],
) -> Option<Interface> {
    let ((first_at, first), (last_at, link)) = (readings.first()?, readings.last()?);
    let seconds = last_at.saturating_sub(*first_at) as f64 / 1e9;
    let is_known = seconds > 0.0;
    // A counter that went down is that of another interface under the same number.
    let grown = |name: &str| {
        let before = first.counters.get(name).filter(|_| is_known)?;
        link.counters.get(name)?.checked_sub(*before)
    };
    let traffic = |bytes: &str, packets: &str| {
        Some(Traffic {
            bits_per_second: grown(bytes)? as f64 * BITS / seconds,
            packets_per_second: grown(packets)? as f64 / seconds,
        })
    };
    let mut lost = Vec::new();
    for name in link.counters.keys().filter(|name| !CARRIED.contains(&name.as_str())) {
        if let Some(packets) = grown(name).filter(|packets| *packets > 0) {
            let per_second = packets as f64 / seconds;
            lost.push(Lost { counter: name.clone(), packets, per_second });
        }
    }
    lost.sort_by_key(|it| std::cmp::Reverse(it.packets));
    let (received, sent) = (traffic("rx_bytes", "rx_packets"), traffic("tx_bytes", "tx_packets"));
    let queues = queues(measures, waiting, link);
    let has_carried =
        || ["rx_packets", "tx_packets"].iter().any(|it| link.counters.get(*it) > Some(&0));
    let moved = match received.zip(sent) {
        None => has_carried(),
        Some((received, sent)) => received.packets_per_second + sent.packets_per_second > 0.0,
    };
    if !moved && lost.is_empty() && !queues.iter().any(Queue::is_used) {
        return None;
    }
    // A device made of software says a speed that nothing keeps to.
    let settings = measures.model.net.settings.get(&(link.netns, link.index));
    let settings = settings.filter(|_| link.kind.is_empty());
    let speed = |it: &LinkSettings| it.speed_mbit.map(|speed| f64::from(speed) * MEGABIT);
    Some(Interface {
        at: namespace(measures.model, link.netns),
        name: link.name.clone(),
        kind: link.kind.clone(),
        mtu_bytes: link.mtu,
        speed_bits_per_second: settings.and_then(speed),
        receive_ring: settings.and_then(|it| it.rings).map(|it| [it.rx, it.rx_max]),
        received,
        sent,
        lost,
        queues,
    })
}

fn queues(measures: &Measures<'_>, waiting: &Waiting<'_>, link: &Link) -> Vec<Queue> {
    let first = (link.netns, link.name.clone(), String::new());
    let all = measures.model.net.qdiscs.range(first..);
    let own = all
        .take_while(|((netns, interface, _), _)| *netns == link.netns && *interface == link.name);
    let rows = own.filter_map(|(_, series)| queue(measures, waiting, series));
    rows.filter(|queue| queue.parent == "root" || queue.is_used()).collect()
}

fn queue(
    measures: &Measures<'_>,
    waiting: &Waiting<'_>,
    series: &[(Ns, QdiscSample)],
) -> Option<Queue> {
    // Unlike counters of interfaces they are read within the window as well.
    let look = &measures.model.look;
    let within = |(at, _): &&(Ns, QdiscSample)| (look.begin_ns..=look.end_ns).contains(at);
    let mut inside = series.iter().filter(within);
    let (first, last) = (inside.next(), inside.next_back());
    let both = first.zip(last).or(series.first().zip(series.last()));
    let ((first_at, first), (last_at, last)) = both?;
    if HOLD_NONE.contains(&last.kind.as_str()) {
        return None;
    }
    let seconds = last_at.saturating_sub(*first_at) as f64 / 1e9;
    let grown =
        |of: fn(&QdiscSample) -> u64| of(last).checked_sub(of(first)).filter(|_| seconds > 0.0);
    let mut measured = measures.packet_queues.iter().enumerate();
    let measured = measured.find(|(_, queue)| {
        queue.interface() == (last.netns, last.index) && queue.last.handle == last.handle
    });
    let mut inodes = Vec::new();
    if let Some((at, queue)) = measured {
        let streams = measures.tcp_streams.iter().filter(|it| it.queues.contains(&at));
        inodes.extend(streams.filter(|it| it.end.is_some()).map(|it| it.socket.ino));
        // Who waits for something else passes the queue as well, and is not held up there.
        let held = |it: &&&QdiscFlow| it.sojourn_ns as f64 / 1e9 >= HELD * look.seconds();
        inodes.extend(queue.flows.iter().filter(held).map(|it| it.socket_ino));
    }
    let dropped = grown(|it| it.drops);
    let is_in_bytes = LIMITED_IN_BYTES.contains(&last.kind.as_str());
    Some(Queue {
        kind: last.kind.clone(),
        handle: last.handle.clone(),
        parent: last.parent.clone(),
        backlog: Amount { packets: last.backlog_packets, bytes: last.backlog_bytes },
        backlog_packets_mean: measured.map(|(_, queue)| queue.packets),
        wait_seconds_mean: measured.map(|(_, queue)| queue.seconds),
        dropped_packets: dropped,
        dropped_per_second: dropped.map(|dropped| dropped as f64 / seconds),
        overlimits: grown(|it| it.overlimits),
        limit_packets: last.limit.filter(|_| !is_in_bytes),
        limit_bytes: last.limit.filter(|_| is_in_bytes),
        rate_bits_per_second: last.rate_bytes.map(|rate| rate as f64 * BITS),
        waiting: waiting.of_flows(&[], &inodes),
    })
}
