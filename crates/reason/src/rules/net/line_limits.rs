//! What lets an interface pass no more: the speed of its link, as the driver says it, or the rate of the shaper at its root; with what passed.
//!
//! Rates are between readings by their own times: those of a look begin and end a tenth of a second within it. Must not: say that it is full.

use crate::facts::{Link, Ns};
use crate::measure::Measures;
use crate::measure::packet_queue::Queue;
use crate::model::Model;
use crate::rules::net::full_frame::on_wire;

/// Bytes of a megabit.
const BYTES_OF_MEGABIT: f64 = 125_000.0;

/// What limits an interface, and what it counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit<'m> {
    /// The interface.
    pub link: &'m Link,
    /// Bytes a second that it lets through.
    pub rate: f64,
    /// Bytes a second that passed, as the limit counts them.
    pub passed: f64,
    /// Bytes a second by the interface's own counter.
    pub counted: Option<f64>,
    /// The shaper; none: the link itself.
    pub shaper: Option<&'m Queue<'m>>,
}

/// The last reading of an interface.
pub(super) fn link(model: &Model, interface: (u32, u32)) -> Option<&Link> {
    model.net.links.iter().rfind(|it| (it.netns, it.index) == interface)
}

/// What a counter of an interface grew by in a second, between the readings of a look.
pub(super) fn growth(model: &Model, interface: (u32, u32), counter: &str) -> Option<f64> {
    let all = model.net.links.iter().zip(&model.net.links_at);
    let mut its = all.filter(|(it, _)| (it.netns, it.index) == interface);
    let (first, last) = (its.next()?, its.next_back()?);
    let read = |link: &Link| link.counters.get(counter).copied();
    per_second(read(first.0)?, read(last.0)?, *first.1, *last.1)
}

fn per_second(before: u64, now: u64, from_ns: Ns, to_ns: Ns) -> Option<f64> {
    let seconds = to_ns.saturating_sub(from_ns) as f64 / 1e9;
    (seconds > 0.0).then(|| now.saturating_sub(before) as f64 / seconds)
}

/// What the adapter of an interface was agreed to carry, bytes a second.
pub(super) fn speed(model: &Model, link: &Link) -> Option<f64> {
    let settings = model.net.settings.get(&(link.netns, link.index))?;
    let megabits = settings.speed_mbit.filter(|_| link.kind.is_empty())?;
    (megabits > 0).then(|| f64::from(megabits) * BYTES_OF_MEGABIT)
}

/// What limits the interface of a queue: the shaper at its root, or the link.
pub(super) fn limit<'m>(measures: &'m Measures<'m>, queue: &'m Queue<'m>) -> Option<Limit<'m>> {
    let (model, interface) = (measures.model, queue.interface());
    let link = link(model, interface)?;
    let counted = growth(model, interface, "tx_bytes");
    let of_link = speed(model, link).zip(counted).map(|(rate, counted)| Limit {
        link,
        rate,
        passed: counted * on_wire(link),
        counted: Some(counted),
        shaper: None,
    });
    let is_shaper = queue.is_root() && !queue.is_delay();
    let set = queue.last.rate_bytes.filter(|rate| is_shaper && *rate > 0);
    let of_shaper = set.and_then(|rate| {
        let passed = left(model, queue)?;
        Some(Limit { link, rate: rate as f64, passed, counted, shaper: Some(queue) })
    });
    match (of_shaper, of_link) {
        (Some(shaper), Some(link)) => Some(if shaper.rate <= link.rate { shaper } else { link }),
        (shaper, link) => shaper.or(link),
    }
}

/// Bytes a second that left a queue, between its first and last reading of the look.
fn left(model: &Model, queue: &Queue<'_>) -> Option<f64> {
    let last = queue.last;
    let key = (last.netns, last.interface.clone(), last.handle.clone());
    let is_inside = |at: Ns| at >= model.look.begin_ns && at <= model.look.end_ns;
    let mut all = model.net.qdiscs.get(&key)?.iter().filter(|(at, _)| is_inside(*at));
    let (first, last) = (all.next()?, all.next_back()?);
    per_second(first.1.bytes, last.1.bytes, first.0, last.0)
}
