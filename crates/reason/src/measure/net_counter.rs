//! Protocol counters of network namespaces: what each grew by over the look.
//!
//! The kernel counts since boot, so only the growth between the first reading and the last is of the look. Must not:
//! say what a count means.

use crate::facts::NetCounters;
use crate::model::Model;

/// Growth of a counter of a network namespace, by its name with its table: `TcpExt.ListenOverflows`.
pub fn growth(model: &Model, netns: u32, name: &str) -> Option<u64> {
    let series = model.net.counters.get(&netns)?;
    let at = |counters: &NetCounters| counters.counters.get(name).copied();
    let (first, last) = (at(&series.first()?.1)?, at(&series.last()?.1)?);
    (series.len() > 1).then(|| last.saturating_sub(first))
}

/// The same, of all namespaces.
pub fn growth_everywhere(model: &Model, name: &str) -> u64 {
    model.net.counters.keys().filter_map(|netns| growth(model, *netns, name)).sum()
}
