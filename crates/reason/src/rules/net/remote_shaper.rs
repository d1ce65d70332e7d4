//! The way out of a queue beyond this host: a shaper of this host's own a little below what gets through there, so that the queue forms here,
//! where it is kept short.
//!
//! tbf on the interface takes the place of the queue that the kernel put there by itself, and its undo brings that back: so only where
//! nobody has set anything on the interface. It slows whatever passes the interface, so only where nearly all of that goes to the
//! slow hop. Must not: say that a queue stands. Rejected: a class with a filter (two commands more, and as many to take it away), a long
//! tbf (the delay would only move).
//!
//! Edit together: queue_commands.rs, which changes what somebody has set.

use crate::measure::Measures;
use crate::measure::link_path::LinkKey;
use crate::measure::packet_queue::Queue;
use crate::model::words;
use crate::rules::action::Action;
use crate::rules::net::line_limits::{growth, link};
use crate::rules::net::standing_queue::TARGET;
use crate::rules::net::ways_out::{bits, command_in};
use crate::rules::net::writers::{Peer, Writer};
use crate::rules::wording::Remedy;
use crate::threshold::Threshold;
use std::collections::BTreeSet;

/// How much of what an interface sends goes there.
pub(super) static NEARLY_ALL: Threshold = Threshold::new(
    0.8,
    "1",
    "acknowledged payload for each byte that the interface sends, from which shaping the whole interface slows nobody else: headers are \
     5 % of full frames",
    "chosen: what is left after headers and segments sent again is less than a tenth",
);

/// Part of what gets through that is let out: the hop's own queue drains and stays empty.
pub(super) const BELOW: f64 = 0.95;
/// A shaper sends so much at once, seconds of its rate: a tick of a kernel of 250 Hz, with less it may not reach its rate.
const BURST_SECONDS: f64 = 0.004;
/// Full frames that it may send at once, at least.
const BURST_FRAMES: f64 = 2.0;
/// Full frames that find room in its queue: one waits while another is sent, and half of one more for small packets.
const QUEUE_FRAMES: f64 = 2.5;
/// Header of an Ethernet frame, bytes, and the MTU where it is not known.
const HEADER_BYTES: f64 = 14.0;
const MTU_BYTES: u32 = 1_500;
/// Index of the loopback interface (LOOPBACK_IFINDEX, include/net/flow.h).
const LOOPBACK: u32 = 1;
const MS: f64 = 1e3;

/// The interface that all writers to a peer send through.
struct Through<'m> {
    netns: u32,
    index: u32,
    name: &'m str,
    /// Bytes a second that it sends.
    sent: f64,
}

/// Shapes the interface that the writers to a peer send through, if that is safe to do and to undo.
pub(super) fn shaper(measures: &Measures<'_>, peer: &Peer<'_>, rate: f64) -> Option<Remedy> {
    let is_unseen = peer.writers.iter().all(|one| one.stream.queues.is_empty());
    let Through { netns, index, name, sent } = match is_unseen {
        true => by_counters(measures, peer, rate)?,
        false => by_flows(measures, peer)?,
    };
    // A handle that is not 0 was given by somebody.
    let is_kernels = |queue: &Queue<'_>| queue.last.handle == "0:" && queue.classes.is_empty();
    if !of_interface(measures, (netns, index)).all(is_kernels) || rate < NEARLY_ALL.value * sent {
        return None;
    }
    let mtu = link(measures.model, (netns, index)).map_or(MTU_BYTES, |link| link.mtu);
    let tc = command_in(measures.model, netns, "tc");
    let (device, below) = (words::shell(name), rate * BELOW);
    let words = format!("qdisc replace dev {device} root {}", tbf(below, mtu));
    let undo = format!("qdisc del dev {device} root");
    let text = format!(
        "shape {name} to {}, 5 % below what gets through, so that the queue stands here and stays short; it costs these 5 %, and all that \
         passes {name} shares the rest",
        bits(below)
    );
    let action = Action::tc(netns, name, &words, &undo).through(tc.through.as_ref());
    Some(Remedy::to(text).set(action, format!("{tc} {words}"), format!("{tc} {undo}")))
}

fn of_interface<'m>(
    measures: &'m Measures<'_>,
    interface: LinkKey,
) -> impl Iterator<Item = &'m Queue<'m>> {
    measures.packet_queues.iter().filter(move |it| it.interface() == interface)
}

/// By the queues that their packets were seen to pass.
fn by_flows<'m>(measures: &'m Measures<'_>, peer: &Peer<'_>) -> Option<Through<'m>> {
    let mut passed = peer.writers.iter().map(|one| {
        let queues = one.stream.queues.iter().filter_map(|at| measures.packet_queues.get(*at));
        // A tunnel's packets pass a second interface, which others may use.
        let mut own = queues.filter(|queue| queue.last.netns == one.stream.socket.netns);
        let first = own.next()?;
        own.all(|other| other.interface() == first.interface()).then_some(first)
    });
    let first = passed.next()??;
    if !passed.all(|it| it.is_some_and(|it| it.interface() == first.interface())) {
        return None;
    }
    let (netns, index) = first.interface();
    let sent = match of_interface(measures, (netns, index)).find(|queue| queue.is_root()) {
        Some(root) => root.sent,
        None => of_interface(measures, (netns, index)).map(|queue| queue.sent).sum(),
    };
    Some(Through { netns, index, name: &first.last.interface, sent })
}

/// By what the interfaces of their namespace count: the only one that sends as much as they do, where the kernel set the queue. A packet that
/// finds an empty queue passes it unseen (TCQ_F_CAN_BYPASS), and has no flow there.
fn by_counters<'m>(measures: &Measures<'m>, peer: &Peer<'_>, rate: f64) -> Option<Through<'m>> {
    let model = measures.model;
    let netns = peer.first().stream.socket.netns;
    let is_alien = |one: &Writer<'_>| one.stream.socket.netns != netns;
    if peer.writers.iter().any(is_alien) {
        return None;
    }
    let sends = |index: u32| growth(model, (netns, index), "tx_bytes");
    let may_carry = |index: u32| sends(index).is_none_or(|sent| sent >= NEARLY_ALL.value * rate);
    let all = model.net.links.iter().filter(|link| link.netns == netns).map(|link| link.index);
    let may: BTreeSet<u32> = all.filter(|index| may_carry(*index)).collect();
    let index = *may.first().filter(|index| may.len() == 1 && **index != LOOPBACK)?;
    let name = link(model, (netns, index))?.name.as_str();
    let mut set = model.net.qdiscs.keys().filter(|it| it.0 == netns && it.1 == name).peekable();
    (set.peek().is_some() && set.all(|it| it.2 == "0:")).then_some(Through {
        netns,
        index,
        name,
        sent: sends(index)?,
    })
}

/// tbf at a rate, bytes a second, in tc's words.
fn tbf(rate: f64, mtu: u32) -> String {
    let frame = f64::from(mtu) + HEADER_BYTES;
    let burst = (rate * BURST_SECONDS).max(BURST_FRAMES * frame);
    let latency = TARGET.value.max(QUEUE_FRAMES * frame / rate.max(1.0));
    format!("tbf rate {} burst {burst:.0} latency {:.0}ms", bits(rate), (latency * MS).ceil())
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::net::scenes::*;
    use crate::rules::scenes::LOOK_NS;

    const RATE: u64 = 500_000;

    /// A stream whose round trip has grown, through an interface with this discipline that sends so many bytes a second.
    fn through(kind: &str, handle: &str, sent: u64) -> Vec<Fact> {
        let state = SocketState {
            busy_us: 4_900_000,
            rtt_us: 200_000,
            rtt_us_min: 10_000,
            acked_bytes: RATE * 5,
            send_limit_bytes: 400_000,
            send_queued_bytes: 390_000,
            unsent_bytes: 200_000,
            ..SocketState::default()
        };
        let mut facts = stream(state);
        let mut its_flow = of_stream(flow(10, "sender", 100, 1_700, RATE * 5, 0));
        if let Body::QdiscFlow(flow) = &mut its_flow.body {
            flow.handle = handle.into();
        }
        facts.push(its_flow);
        for at in 1..50 {
            let mut reading = qdisc(false, handle, 0, 0, sent, at);
            if let Body::QdiscSample(sample) = &mut reading.body {
                sample.kind = kind.into();
                sample.rate_bytes = None;
            }
            facts.push(reading);
        }
        facts
    }

    fn command(facts: Vec<Fact>) -> (String, String) {
        let found = findings(facts);
        assert_eq!(found[0].code, "net.remote_queue");
        (found[0].remedy[0].command.clone(), found[0].remedy[0].undo.clone())
    }

    #[test]
    fn the_interface_is_shaped_below_what_gets_through_and_put_back() {
        let (set, undo) = command(through("pfifo_fast", "0:", RATE * 105 / 100));
        assert_eq!(set, "tc qdisc replace dev eth0 root tbf rate 3.8mbit burst 3028 latency 8ms");
        assert_eq!(undo, "tc qdisc del dev eth0 root");
    }

    #[test]
    fn what_somebody_set_or_others_use_is_left_alone() {
        assert_eq!(
            command(through("pfifo_fast", "8001:", RATE)).0,
            "",
            "its settings would be lost"
        );
        assert_eq!(command(through("pfifo_fast", "0:", RATE * 2)).0, "", "others send as much");
    }

    /// The same where no packet was seen in a queue: interfaces of the namespace with their kernel's queue, that send so many bytes a second.
    fn unseen(sent: &[(u32, u64)], handle: &str) -> Vec<Fact> {
        let mut facts = through("pfifo_fast", handle, RATE);
        facts.retain(|fact| !matches!(fact.body, Body::QdiscFlow(_)));
        for (index, sent) in sent {
            for (at_ns, bytes) in [(0, 7), (LOOK_NS, 7 + sent * 5)] {
                let link = Link {
                    netns: 1,
                    index: *index,
                    name: if *index == 2 { "eth0".into() } else { format!("if{index}") },
                    mtu: 1_500,
                    counters: [("tx_bytes".to_string(), bytes)].into(),
                    ..Link::default()
                };
                facts.push(Fact { at_ns, body: Body::Link(link) });
            }
        }
        facts
    }

    #[test]
    fn packets_that_pass_an_empty_queue_unseen_leave_by_the_only_interface_that_sends_as_much() {
        let sent = RATE * 105 / 100;
        let (set, undo) = command(unseen(&[(1, 10), (2, sent), (3, 900)], "0:"));
        assert_eq!(set, "tc qdisc replace dev eth0 root tbf rate 3.8mbit burst 3028 latency 8ms");
        assert_eq!(undo, "tc qdisc del dev eth0 root");
        let none = |facts: Vec<Fact>, why: &str| assert_eq!(command(facts).0, "", "{why}");
        none(unseen(&[(2, sent), (3, sent)], "0:"), "either may carry them");
        none(unseen(&[(2, RATE * 2)], "0:"), "others send as much");
        none(unseen(&[(2, sent)], "8001:"), "its settings would be lost");
        none(unseen(&[(1, sent), (2, 900)], "0:"), "to itself");
        none(unseen(&[], "0:"), "nothing is known");
    }

    #[test]
    fn a_quick_line_gets_a_longer_burst() {
        assert_eq!(super::tbf(12.5e6, 1_500), "tbf rate 100mbit burst 50000 latency 5ms");
    }
}
