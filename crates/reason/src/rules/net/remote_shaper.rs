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
use crate::measure::packet_queue::Queue;
use crate::model::words;
use crate::rules::action::Action;
use crate::rules::net::standing_queue::TARGET;
use crate::rules::net::ways_out::{bits, command_in};
use crate::rules::net::writers::Peer;
use crate::rules::wording::Remedy;
use crate::threshold::Threshold;

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
const MS: f64 = 1e3;

/// Shapes the interface that the writers to a peer send through, if that is safe to do and to undo.
pub(super) fn shaper(measures: &Measures<'_>, peer: &Peer<'_>, rate: f64) -> Option<Remedy> {
    let queue = only_interface(measures, peer)?;
    let (netns, index) = queue.interface();
    let of_interface: Vec<&Queue<'_>> =
        measures.packet_queues.iter().filter(|it| it.interface() == (netns, index)).collect();
    // A handle that is not 0 was given by somebody.
    let is_kernels = |queue: &&Queue<'_>| queue.last.handle == "0:" && queue.classes.is_empty();
    let sent = match of_interface.iter().find(|queue| queue.is_root()) {
        Some(root) => root.sent,
        None => of_interface.iter().map(|queue| queue.sent).sum(),
    };
    if !of_interface.iter().all(is_kernels) || rate < NEARLY_ALL.value * sent {
        return None;
    }
    let links = &measures.model.net.links;
    let link = links.iter().find(|link| (link.netns, link.index) == (netns, index));
    let mtu = link.map_or(MTU_BYTES, |link| link.mtu);
    let tc = command_in(measures.model, netns, "tc");
    let name = &queue.last.interface;
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

/// A queue of the one interface that all writers send through.
fn only_interface<'m>(measures: &'m Measures<'_>, peer: &Peer<'_>) -> Option<&'m Queue<'m>> {
    let mut passed = peer.writers.iter().map(|one| {
        let queues = one.stream.queues.iter().filter_map(|at| measures.packet_queues.get(*at));
        // A tunnel's packets pass a second interface, which others may use.
        let mut own = queues.filter(|queue| queue.last.netns == one.stream.socket.netns);
        let first = own.next()?;
        own.all(|other| other.interface() == first.interface()).then_some(first)
    });
    let first = passed.next()??;
    passed.all(|it| it.is_some_and(|it| it.interface() == first.interface())).then_some(first)
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

    #[test]
    fn a_quick_line_gets_a_longer_burst() {
        assert_eq!(super::tbf(12.5e6, 1_500), "tbf rate 100mbit burst 50000 latency 5ms");
    }
}
