//! The queues of the look as rows: arrivals, length, time, and how well the three agree.
//!
//! Little's law (L = lambda W) is a check only where length, rate and time were read independently: of disks and of packet queues
//! whose packets were timed. Where one is made of the others there is no residual. What was not measured is absent, not zero. Must
//! not: say which queue is too long.

use super::bounds::{QUEUES, clipped, rounded};
use crate::facts::{ObjectRef, SocketState};
use crate::measure::Measures;
use serde::Serialize;

/// One queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QueueRow {
    /// `disk`, `packets`, `run queue`, `accept`.
    pub kind: &'static str,
    /// Which.
    pub name: String,
    /// What arrived and left, a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Mean number in it; of an accept queue at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<f64>,
    /// How many it may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Mean time in it and in service, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Mean time in service alone, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_seconds: Option<f64>,
    /// Longest time in service, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_seconds_max: Option<f64>,
    /// Part of the time in which something was in it, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Relative disagreement of length with rate times time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub little_residual: Option<f64>,
}

/// All queues in which something was, those with most time in them first, and how many were left out.
pub(super) fn rows(measures: &Measures<'_>) -> (Vec<QueueRow>, usize) {
    let mut all = disks(measures);
    all.extend(packets(measures));
    all.extend(run_queue(measures));
    all.extend(accept_queues(measures));
    all.sort_by(|a, b| {
        let length = |row: &QueueRow| row.length.unwrap_or(0.0);
        length(b).total_cmp(&length(a)).then_with(|| a.name.cmp(&b.name))
    });
    let left_out = all.len().saturating_sub(QUEUES);
    all.truncate(QUEUES);
    (all, left_out)
}

fn disks(measures: &Measures<'_>) -> Vec<QueueRow> {
    let busy = measures.disks.views.values().filter(|it| it.is_counted && it.queue.busy > 0.0);
    let row = |view: &crate::measure::disk_view::DiskView<'_>| {
        let (queue, service) = (&view.queue, view.service.as_ref());
        let some = |value: f64| Some(rounded(value));
        QueueRow {
            kind: "disk",
            name: view.disk.name.clone(),
            per_second: some(queue.per_second),
            length: some(queue.in_flight),
            seconds: (queue.seconds > 0.0).then(|| rounded(queue.seconds)),
            service_seconds: service.and_then(|it| some(it.mean)),
            service_seconds_max: service.and_then(|it| some(it.max)),
            busy: some(queue.busy),
            little_residual: queue.little_residual.map(rounded),
            ..QueueRow::default()
        }
    };
    busy.map(row).collect()
}

fn packets(measures: &Measures<'_>) -> Vec<QueueRow> {
    let seconds = measures.model.look.seconds().max(1e-9);
    let queues =
        measures.packet_queues.iter().filter(|it| it.packets > 0.0 || it.sojourn.is_some());
    let row = |queue: &crate::measure::packet_queue::Queue<'_>| {
        let timed = queue.sojourn;
        let rate = timed.map(|it| it.packets as f64 * f64::from(it.sampling.max(1)) / seconds);
        let expected = rate.map(|rate| rate * queue.seconds).filter(|length| *length > 0.5);
        let residual = expected.map(|it| (queue.packets - it).abs() / it.max(queue.packets));
        QueueRow {
            kind: "packets",
            name: clipped(&format!(
                "{} {} {}",
                queue.last.interface, queue.last.kind, queue.last.handle
            )),
            per_second: rate.map(rounded),
            length: Some(rounded(queue.packets)),
            seconds: Some(rounded(queue.seconds)),
            service_seconds_max: timed.map(|it| rounded(it.sojourn_ns_max as f64 / 1e9)),
            busy: Some(rounded(queue.occupied)),
            little_residual: residual.map(rounded),
            ..QueueRow::default()
        }
    };
    queues.map(row).collect()
}

/// All threads that were ready and had no CPU, as one queue. Its length and its time are of one sum, and check nothing.
fn run_queue(measures: &Measures<'_>) -> Option<QueueRow> {
    let model = measures.model;
    let threads = || model.threads.times.iter().filter(|time| time.thread.pid != 0);
    let ready = threads().map(|time| time.runnable_ns).sum::<u64>() as f64 / 1e9;
    let switches: u64 = threads().map(|time| time.switches).sum();
    let seconds = model.look.seconds();
    (ready > 0.0 && seconds > 0.0).then(|| QueueRow {
        kind: "run queue",
        name: "threads that are ready".into(),
        per_second: (switches > 0).then(|| rounded(switches as f64 / seconds)),
        length: Some(rounded(ready / seconds)),
        seconds: (switches > 0).then(|| rounded(ready / switches as f64)),
        busy: measures.cpu.mean_busy(&[]).map(rounded),
        ..QueueRow::default()
    })
}

/// Connections that nobody has accepted yet, as they stood at the end.
fn accept_queues(measures: &Measures<'_>) -> Vec<QueueRow> {
    let mut rows: Vec<QueueRow> = Vec::new();
    for endpoint in &measures.model.held.endpoints {
        let (ObjectRef::Inet(socket), Some(state)) = (&endpoint.object, &endpoint.socket) else {
            continue;
        };
        let SocketState { accept_queue, accept_limit, .. } = state;
        let name = clipped(&format!("{} {}", socket.protocol, socket.local));
        if *accept_queue > 0 && !rows.iter().any(|row| row.name == name) {
            rows.push(QueueRow {
                kind: "accept",
                name,
                length: Some(f64::from(*accept_queue)),
                limit: Some(u64::from(*accept_limit)),
                ..QueueRow::default()
            });
        }
    }
    rows
}
