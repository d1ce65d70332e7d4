//! What is missing in the tables, and why: unknown is not nothing.
//!
//! What a look could not see it says as facts; those of the network are sorted here by the table that they leave gaps in. Must not: say
//! what concerns other areas (the report's caveats do).

use super::contract::NotRead;
use super::namespaces::namespace;
use crate::facts::{Blind, TargetKind};
use crate::model::Model;
use std::collections::BTreeSet;

const INTERFACES: &str = "interfaces";
const DROPS: &str = "drops";
const NEIGHBOURS: &str = "neighbours";
const SOCKETS: &str = "sockets";
const COUNTERS: &str = "counters";

/// Beginnings of the words for what cannot be seen (`Blind::what`), and the table in which it is missing.
const TABLES: [(&str, &str); 13] = [
    ("net.counters.", COUNTERS),
    ("netlink", INTERFACES),
    ("netns", INTERFACES),
    ("tracepoint.qdisc_", INTERFACES),
    ("program.qdisc_", INTERFACES),
    ("tracepoint.kfree_skb", DROPS),
    ("program.kfree_skb", DROPS),
    ("programs", DROPS),
    ("filters.", DROPS),
    ("kernel_events", DROPS),
    ("fdb.", NEIGHBOURS),
    ("endpoints", SOCKETS),
    ("ports.", SOCKETS),
];

/// Whether drops are not counted for want of this.
pub(super) fn hides_drops(blind: &Blind) -> bool {
    let needed = ["tracepoint.kfree_skb", "program.kfree_skb", "programs", "kernel_events"];
    needed.contains(&blind.what.as_str())
}

/// All of it, by table.
pub(super) fn unread(model: &Model) -> Vec<NotRead> {
    let mut all = Vec::new();
    let mut add = |table: &str, text: String| all.push(NotRead { table: table.into(), text });
    for blind in &model.look.blind {
        let table = TABLES.iter().find(|(begin, _)| blind.what.starts_with(begin));
        if let Some((_, table)) = table {
            let Blind { what, why, therefore, .. } = blind;
            add(table, format!("cannot see {what} ({why}): {therefore}"));
        }
    }
    if !model.look.host.kernel_events {
        add(SOCKETS, "open descriptors are not read without kernel events".into());
        add(NEIGHBOURS, "who waits for which address is not known without kernel events".into());
    } else if model.held.endpoints.is_empty() {
        add(SOCKETS, "no open descriptors were read".into());
    }
    if model.net.links.is_empty() {
        add(INTERFACES, "interfaces were not read".into());
        add(NEIGHBOURS, "neighbours were not asked for".into());
    }
    if model.net.counters.is_empty() {
        add(COUNTERS, "counters were not read".into());
    }
    let links = model.net.links.iter().map(|link| link.netns);
    let seen: BTreeSet<u32> = links.chain(model.net.counters.keys().copied()).collect();
    for netns in seen {
        let why = match model.net.counters.get(&netns).map_or(0, Vec::len) {
            // They are read through a process.
            0 => "were not read: no process was in it",
            1 => "were read once: what they grew by is not known",
            _ => continue,
        };
        let place = namespace(model, netns).namespace;
        let place = if place.is_empty() { "of the host".into() } else { place };
        add(COUNTERS, format!("counters of network namespace {place} {why}"));
    }
    for (source, count) in &model.look.lost {
        match source.as_str() {
            "packets" => add(DROPS, format!("{count} packets were not counted for want of room")),
            "netlink" => add(INTERFACES, format!("{count} readings of queues are missing")),
            _ => {}
        }
    }
    let target = model.look.target.as_ref().filter(|it| it.kind != TargetKind::Host);
    if let Some(target) = target {
        let text = format!("the look was at {}: who else waits was not followed", target.name);
        add(SOCKETS, text);
    }
    all
}
