//! Packets that this host dropped, as rows: where, for what reason, whose, and who waits for them.
//!
//! Counted by the kernel from the window's begin to its end, so a rate is of the window. What ends packets in the ordinary course of
//! things is left out where they are counted (bpf/drops.bpf.c). Must not: say that nothing was dropped where nobody counted.
//!
//! Edit together: reasons.rs (what a reason means).

use super::contract::{Drops, Flow};
use super::namespaces::namespace;
use super::reasons::meaning;
use super::unread::hides_drops;
use super::waiting::Waiting;
use crate::answer::bounds::FLOWS_MAX;
use crate::answer::naming::who;
use crate::facts::{DroppedFlow, PacketDrops, ThreadRef};
use crate::measure::packet_drops::reason;
use crate::model::Model;

/// Rows, most packets first; none if they were not counted.
pub(super) fn drops(model: &Model, waiting: &Waiting<'_>) -> Option<Vec<Drops>> {
    let is_seen = model.look.host.kernel_events && !model.look.blind.iter().any(hides_drops);
    if !is_seen && model.net.drops.is_empty() {
        return None;
    }
    let mut rows: Vec<Drops> = model.net.drops.iter().map(|of| row(model, waiting, of)).collect();
    rows.sort_by_key(|it| std::cmp::Reverse(it.packets));
    Some(rows)
}

fn row(model: &Model, waiting: &Waiting<'_>, of: &PacketDrops) -> Drops {
    Drops {
        at: namespace(model, of.netns),
        interface: of.interface.clone(),
        reason: of.reason.clone(),
        function: of.function.clone(),
        meaning: meaning(reason(of)).map(Into::into),
        packets: of.packets,
        per_second: of.packets as f64 / model.look.seconds().max(1e-9),
        flows: of.flows.iter().take(FLOWS_MAX).map(|it| flow(model, it)).collect(),
        waiting: waiting.of_flows(&of.flows, &[]),
    }
}

fn flow(model: &Model, of: &DroppedFlow) -> Flow {
    // A packet knows the number of who sent it, and not the name.
    let named = |it: &ThreadRef| match it.comm.is_empty() {
        true => who(model, &model.threads.thread_ref(it.pid)),
        false => who(model, it),
    };
    Flow {
        protocol: of.protocol.clone(),
        from: of.from,
        to: of.to,
        packets: of.packets,
        last_seconds_before_end: model.look.end_ns().saturating_sub(of.last_ns) as f64 / 1e9,
        sender: of.sender.as_ref().map(named),
        receiver: of.receiver.as_ref().map(named),
    }
}
