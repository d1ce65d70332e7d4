//! What is asked after the graph about those whom a relay has asked over unix sockets.
//!
//! Must not: follow a wait (chains.rs), or count questions (by_path.rs). Rejected: methods of the graph, which has questions of all areas.

use super::by_path;
use super::demand::Graph;
use super::worker_processes::{self, BusyWorkers};

/// Whether each question that a process owes an answer to may be with somebody whom it has asked, some of them over unix sockets.
pub fn pass_on_each(graph: &Graph<'_>, pid: u32) -> bool {
    by_path::each_is_passed_on(&graph.chains.index, pid)
}

/// The workers of a server that a process has asked over a unix socket, as the look ends, if none of them is free.
pub fn busy(graph: &Graph<'_>, pid: u32) -> Option<BusyWorkers> {
    let index = &graph.chains.index;
    let end_ns = index.model.look.end_ns;
    let asked = index.connections.served_by_path(pid);
    asked.iter().find_map(|far| worker_processes::all_busy(index, far.pid, end_ns))
}
