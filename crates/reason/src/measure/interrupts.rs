//! What interrupts take of each CPU, and what they are for.
//!
//! Time in them is in no thread's sums but as somebody's else: what is handled at the end of an interrupt counts as the
//! running of whoever was interrupted, and what ksoftirqd handles as its own. /proc/stat has both. Must not: say who is hurt.

use crate::facts::{CpuSample, Link, Ns, SoftirqSample};
use crate::model::Model;
use std::collections::BTreeMap;

/// One CPU's interrupts over a look.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interrupts {
    /// Of the window, hard and soft ones, 0 to 1.
    pub share: f64,
    /// The part of it that soft ones take.
    pub soft_share: f64,
    /// Soft ones a second by kind, most first.
    pub kinds: Vec<(String, f64)>,
}

/// Of each CPU.
pub fn interrupts(model: &Model) -> BTreeMap<u32, Interrupts> {
    let seconds = model.look.seconds().max(1e-9);
    let mut all = BTreeMap::new();
    for (cpu, series) in &model.cpu.times {
        let (Some((_, first)), Some((_, last))) = (series.first(), series.last()) else { continue };
        let taken = |sample: &CpuSample| -> Ns { sample.irq_ns + sample.softirq_ns };
        let of = |from: Ns, to: Ns| (to.saturating_sub(from) as f64 / 1e9 / seconds).min(1.0);
        let share = of(taken(first), taken(last));
        let soft_share = of(first.softirq_ns, last.softirq_ns);
        let counted =
            model.cpu.softirqs.get(cpu).and_then(|series| Some((series.first()?, series.last()?)));
        let kinds = counted.map_or_else(Vec::new, |(first, last)| kinds(first, last, seconds));
        all.insert(*cpu, Interrupts { share, soft_share, kinds });
    }
    all
}

/// Of those of these CPUs that are there together, 0 to 1; of none, 0.
pub fn share_of(interrupts: &BTreeMap<u32, Interrupts>, cpus: &[u32]) -> f64 {
    let shares = cpus.iter().filter_map(|cpu| Some(interrupts.get(cpu)?.share));
    let shares: Vec<f64> = shares.collect();
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

fn kinds(first: &SoftirqSample, last: &SoftirqSample, seconds: f64) -> Vec<(String, f64)> {
    let since = |(kind, count): (&String, &u64)| {
        let before = first.counts.get(kind).copied().unwrap_or(*count);
        // The kernel counts, and prints, 32 bits.
        (kind.clone(), f64::from((*count as u32).wrapping_sub(before as u32)) / seconds)
    };
    let mut kinds: Vec<(String, f64)> = last.counts.iter().map(since).collect();
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    kinds
}

/// The interface that received most packets, with packets a second; loopback and both ends of a veth count like others.
pub fn busiest_receiver(model: &Model) -> Option<(&Link, f64)> {
    let mut before: BTreeMap<(u32, u32), &Link> = BTreeMap::new();
    let mut most: Option<(&Link, u64)> = None;
    for link in &model.net.links {
        let received = |link: &Link| link.counters.get("rx_packets").copied().unwrap_or(0);
        let first = before.entry((link.netns, link.index)).or_insert(link);
        let packets = received(link).saturating_sub(received(first));
        if packets > most.map_or(0, |(_, most)| most) {
            most = Some((link, packets));
        }
    }
    most.map(|(link, packets)| (link, packets as f64 / model.look.seconds().max(1e-9)))
}
