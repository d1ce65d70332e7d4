//! Who sends through a queue of this host, and whose packets a tunnel's program sends: in the queue these stand in place of theirs.
//!
//! Must not: say that a queue stands (standing_queue.rs), or whose fault it is. Rejected: idle connections as nothing (an interactive one is idle
//! most of the time, and waits behind the others for each key).

use crate::facts::{ObjectRef, QdiscFlow, ThreadRef};
use crate::measure::Measures;
use crate::measure::packet_queue::{Queue, flow_bytes};
use crate::measure::tunnels::carrier_of;
use crate::model::words;
use crate::rules::net::writers::Writer;
use std::collections::BTreeMap;

/// Who sends how much through a queue.
pub(super) struct Sender<'a> {
    /// Whose process is not here has none.
    pub thread: Option<&'a ThreadRef>,
    pub bytes: u64,
    pub flows: Vec<&'a QdiscFlow>,
}

impl<'a> Sender<'a> {
    /// Its flows, if they are a process's alone: it is that process, or carries nothing but its one connection.
    pub(super) fn flows_of(&self, measures: &Measures<'_>, pid: u32) -> Vec<&'a QdiscFlow> {
        let is_its = |by: &&ThreadRef| by.pid == pid || is_carried_alone(measures, pid, by);
        self.thread.filter(is_its).map_or_else(Vec::new, |_| self.flows.clone())
    }

    pub(super) fn name(&self) -> String {
        match (self.thread, self.flows.first()) {
            (Some(thread), _) => words::who(thread),
            (None, Some(flow)) if flow.local.port() == 0 => {
                format!("{} {} to {}", flow.protocol, flow.local.ip(), flow.remote.ip())
            }
            (None, Some(flow)) => format!("{} {} to {}", flow.protocol, flow.local, flow.remote),
            _ => "nobody".into(),
        }
    }
}

/// Who sends through a queue, most bytes first.
pub(super) fn senders<'m>(queue: &'m Queue<'m>) -> Vec<Sender<'m>> {
    let mut senders: Vec<Sender<'m>> = Vec::new();
    for &flow in &queue.flows {
        let pid = flow.process.as_ref().map(|p| p.pid);
        let same = |s: &&mut Sender<'m>| pid.is_some() && s.thread.map(|t| t.pid) == pid;
        let bytes = flow_bytes(flow);
        match senders.iter_mut().find(same) {
            Some(sender) => {
                sender.bytes += bytes;
                sender.flows.push(flow);
            }
            None => {
                senders.push(Sender { thread: flow.process.as_ref(), bytes, flows: vec![flow] });
            }
        }
    }
    senders.sort_by_key(|s| std::cmp::Reverse(s.bytes));
    senders
}

/// Whether a writer's packets go into the tunnel of a program.
pub(super) fn is_carried(
    measures: &Measures<'_>,
    writers: &[&Writer<'_>],
    pid: u32,
    by: Option<&ThreadRef>,
) -> bool {
    let Some(by) = by else { return false };
    let mut own = writers.iter().filter(|it| it.stream.endpoint.process.pid == pid);
    own.any(|it| carrier_of(measures.model, it.stream.socket).is_some_and(|it| it.pid == by.pid))
}

/// The same, and others go into it too.
pub(super) fn carries_several(
    measures: &Measures<'_>,
    writers: &[&Writer<'_>],
    pid: u32,
    by: Option<&ThreadRef>,
) -> bool {
    is_carried(measures, writers, pid, by)
        && by.is_some_and(|by| !is_carried_alone(measures, pid, by))
}

/// Whether one connection alone goes into the tunnel of a program, and is this process's: several wait for each other there.
fn is_carried_alone(measures: &Measures<'_>, pid: u32, by: &ThreadRef) -> bool {
    let mut inside: BTreeMap<u64, bool> = BTreeMap::new();
    for end in &measures.model.held.endpoints {
        let ObjectRef::Inet(socket) = &end.object else { continue };
        if carrier_of(measures.model, socket).is_some_and(|it| it.pid == by.pid) {
            *inside.entry(socket.ino).or_default() |= end.process.pid == pid;
        }
    }
    inside.len() == 1 && inside.values().all(|is_own| *is_own)
}
