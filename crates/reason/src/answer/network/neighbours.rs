//! Next hops that do not answer, and tables that can be full, as rows.
//!
//! Only the next hops to addresses that somebody waits for are read: a router has a hundred thousand neighbours. So an empty list says
//! that of those every one answers, and no more. Must not: name an entry that only went stale.

use super::contract::{Namespace, Neighbour, Table};
use super::namespaces::namespace;
use super::waiting::Waiting;
use crate::facts::{NextHop, Resource, Usage};
use crate::measure::net_counter::growth;
use crate::measure::usages::usages;
use crate::model::Model;

/// States of an entry (include/uapi/linux/neighbour.h).
const NUD_INCOMPLETE: u16 = 0x01;
const NUD_FAILED: u16 = 0x20;

/// A table of connections of which so much is taken may have been full within the look (as net.conntrack_full).
const FULL_MIN: f64 = 0.9;

/// Rows, the longest failed first; none if neighbours could not be asked for.
pub(super) fn neighbours(model: &Model, waiting: &Waiting<'_>) -> Option<Vec<Neighbour>> {
    // Whose next hops to ask for is known by the sockets that somebody waits on.
    let is_asked = model.look.host.kernel_events && !model.net.links.is_empty();
    if !is_asked && model.net.next_hops.is_empty() {
        return None;
    }
    let mut rows: Vec<Neighbour> =
        model.net.next_hops.values().filter_map(|hop| row(model, waiting, hop)).collect();
    rows.sort_by(|a, b| b.state_seconds.total_cmp(&a.state_seconds));
    Some(rows)
}

fn row(model: &Model, waiting: &Waiting<'_>, hop: &NextHop) -> Option<Neighbour> {
    let state = match hop.state {
        NUD_INCOMPLETE => "incomplete",
        NUD_FAILED => "failed",
        _ => return None,
    };
    Some(Neighbour {
        at: namespace(model, hop.netns),
        interface: hop.interface.clone(),
        address: hop.neighbour(),
        state: state.into(),
        state_seconds: hop.updated_ns as f64 / 1e9,
        destination: hop.destination,
        waiting: waiting.of_address(hop.netns, hop.destination),
    })
}

/// Tables of neighbours, and of connections where the packet filter has one.
pub(super) fn tables(model: &Model) -> Vec<Table> {
    usages(model).iter().filter_map(|(_, usage)| table(model, usage)).collect()
}

fn table(model: &Model, usage: &Usage) -> Option<Table> {
    let (table, cache) = match usage.of {
        Resource::NeighboursV4 => ("neighbours_v4", "arp_cache"),
        Resource::NeighboursV6 => ("neighbours_v6", "ndisc_cache"),
        Resource::Connections => ("connections", "nf_conntrack"),
        _ => return None,
    };
    let is_connections = usage.of == Resource::Connections;
    // Tables of neighbours are counted in the first namespace alone, and for all.
    let grown = |counter: &str| {
        let name = format!("{cache}.{counter}");
        match is_connections {
            true => growth(model, usage.netns, &name),
            false => model.net.counters.keys().find_map(|netns| growth(model, *netns, &name)),
        }
    };
    // A packet of a flow that another packet of it enters first is counted as well: only with no room it was for want of room.
    let is_full = usage.used as f64 >= FULL_MIN * usage.limit as f64;
    let dropped = || grown("drop").filter(|count| is_full || *count == 0);
    let at = if is_connections { namespace(model, usage.netns) } else { Namespace::default() };
    Some(Table {
        at,
        table: table.into(),
        entries: usage.used,
        limit: usage.limit,
        refused: if is_connections { dropped() } else { grown("table_fulls") },
        unanswered: if is_connections { None } else { grown("res_failed") },
    })
}
