//! The network as tables: what interfaces carried and lost, drops by place and reason, neighbours, sockets, counters; joined with who waits.
//!
//! What ss, ip -s, tc -s, nstat and ethtool show one by one, of the facts that a look has anyway: a file a table, which makes rows of the
//! model and the measures. Must not: judge (the rules do; a row says what moved), read anything, or say nothing where something was not
//! read (unread.rs).
//!
//! Rejected: a reader of its own for this command (a recording of any look would not answer); tables within the report of `holdup` (it says
//! a cause, and stays short).
//!
//! Edit together: contract.rs (the fields), docs/net.md.

mod contract;
mod counters;
mod drops;
mod interfaces;
mod namespaces;
mod neighbours;
mod reasons;
mod sockets;
#[cfg(test)]
mod tests;
mod unread;
mod waiting;

pub use contract::*;
pub(super) use waiting::Pieces;

use super::bounds::{self, FURTHER_VICTIMS_MAX, LeftOut, QUEUES_MAX, ROWS_MAX};
use super::report::{Finding, ReportHost, Tool, Victim, Window};
use crate::facts::Host;
use crate::measure::Measures;
use std::collections::BTreeSet;
use waiting::Waiting;

/// Version of the contract.
pub const SCHEMA: u32 = 1;
/// Causes of the network have codes that begin so.
const AREA: &str = "net.";

/// All tables of a look; `claimed` are the ends that its findings have named, by index.
pub(super) fn network(
    measures: &Measures<'_>,
    pieces: Pieces,
    claimed: &BTreeSet<usize>,
    findings: &[Finding],
) -> Network {
    let model = measures.model;
    let waiting = Waiting::of(measures, pieces, claimed);
    let Host { hostname, kernel, machine, cpus, tool_version, .. } = &model.look.host;
    let (interfaces, interfaces_at_rest) = interfaces::interfaces(measures, &waiting);
    let of_area = findings.iter().filter(|finding| finding.code.starts_with(AREA));
    let named = of_area.map(|Finding { code, title, severity, .. }| NamedCause {
        code: code.clone(),
        title: title.clone(),
        severity: *severity,
    });
    let network = Network {
        schema: SCHEMA,
        tool: Tool { name: "holdup".into(), version: tool_version.clone() },
        host: ReportHost {
            name: hostname.clone(),
            kernel: kernel.clone(),
            machine: machine.clone(),
            cpus: *cpus,
            ..ReportHost::default()
        },
        window: Window { begin_unix_ns: model.look.begin_unix_ns, seconds: model.look.seconds() },
        findings: named.collect(),
        interfaces,
        interfaces_at_rest,
        drops: drops::drops(model, &waiting),
        neighbours: neighbours::neighbours(model, &waiting),
        tables: neighbours::tables(model),
        sockets: sockets::sockets(model, &waiting),
        counters: counters::counters(model),
        not_read: unread::unread(model),
        left_out: Vec::new(),
    };
    bounded(network)
}

/// Every list within its bound.
fn bounded(mut network: Network) -> Network {
    let mut cuts: Vec<LeftOut> = Vec::new();
    let Network { interfaces, drops, neighbours, sockets, counters, tables, not_read, .. } =
        &mut network;
    cuts.extend(bounds::cut("/tables", tables, ROWS_MAX));
    cuts.extend(bounds::cut("/not_read", not_read, ROWS_MAX));
    cuts.extend(counters.as_mut().and_then(|it| bounds::cut("/counters", it, ROWS_MAX)));
    let waiting = |of: &str, at: usize, list: &mut Vec<Victim>| {
        let lost = list.iter().skip(FURTHER_VICTIMS_MAX).map(|it| it.wait_seconds).sum();
        let cut = bounds::cut(&format!("/{of}/{at}/waiting"), list, FURTHER_VICTIMS_MAX);
        cut.map(|cut| LeftOut { wait_seconds: Some(lost), ..cut })
    };
    if let Some(interfaces) = interfaces {
        cuts.extend(bounds::cut("/interfaces", interfaces, ROWS_MAX));
        for (at, interface) in interfaces.iter_mut().enumerate() {
            let list = format!("/interfaces/{at}/queues");
            cuts.extend(bounds::cut(&list, &mut interface.queues, QUEUES_MAX));
            for (queue, it) in interface.queues.iter_mut().enumerate() {
                cuts.extend(waiting(&format!("interfaces/{at}/queues"), queue, &mut it.waiting));
            }
        }
    }
    if let Some(drops) = drops {
        cuts.extend(bounds::cut("/drops", drops, ROWS_MAX));
        for (at, it) in drops.iter_mut().enumerate() {
            cuts.extend(waiting("drops", at, &mut it.waiting));
        }
    }
    if let Some(neighbours) = neighbours {
        cuts.extend(bounds::cut("/neighbours", neighbours, ROWS_MAX));
        for (at, it) in neighbours.iter_mut().enumerate() {
            cuts.extend(waiting("neighbours", at, &mut it.waiting));
        }
    }
    if let Some(sockets) = sockets {
        cuts.extend(bounds::cut("/sockets", sockets, ROWS_MAX));
        for (at, it) in sockets.iter_mut().enumerate() {
            cuts.extend(waiting("sockets", at, &mut it.waiting));
        }
    }
    network.left_out = cuts;
    network
}
