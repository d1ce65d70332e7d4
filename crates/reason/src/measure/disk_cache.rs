//! Caches in front of slow disks: what of the window's requests they had, and where the others stood.
//!
//! A cache target's counters since boot are a mean over everything that ever happened, so hits and misses are counted
//! between two readings. A table that was loaded anew counts from zero and is left out. Must not: say that a cache is too
//! small (rules/disk/cache_miss.rs).

use super::disk_queue::{self, DiskQueue};
use crate::facts::*;
use crate::model::Model;

/// A cache over the window.
#[derive(Debug)]
pub struct DiskCache<'a> {
    /// The cached disk.
    pub disk: &'a Disk,
    /// The slow disk below it.
    pub origin: &'a Disk,
    /// The fast one, if it is known.
    pub fast: Option<&'a Disk>,
    /// Its counters at the end.
    pub last: &'a DiskCacheSample,
    /// Requests that it had.
    pub hits: u64,
    /// Requests that went to the origin.
    pub misses: u64,
    /// Blocks moved into it.
    pub promotions: u64,
    /// Blocks moved out of it.
    pub demotions: u64,
    /// The origin as a queue.
    pub queue: DiskQueue,
    /// Mean time of a request in the fast disk, if it had any.
    pub fast_seconds: Option<f64>,
    /// Share of the requests in flight that stand at the origin.
    pub at_origin: f64,
}

impl DiskCache<'_> {
    /// Requests.
    pub fn asked(&self) -> u64 {
        self.hits + self.misses
    }

    /// The part of them that it had.
    pub fn hit_share(&self) -> f64 {
        self.hits as f64 / self.asked().max(1) as f64
    }

    /// Its size.
    pub fn bytes(&self) -> f64 {
        self.last.blocks as f64 * self.last.block_bytes as f64
    }

    /// Share of its blocks that are in use, if the target tells.
    pub fn used(&self) -> Option<f64> {
        Some(self.last.blocks_used? as f64 / self.last.blocks.max(1) as f64)
    }
}

/// All caches of a look.
pub fn of(model: &Model) -> Vec<DiskCache<'_>> {
    model.disk.caches.keys().filter_map(|dev| cache(model, *dev)).collect()
}

fn cache(model: &Model, dev: DeviceNumber) -> Option<DiskCache<'_>> {
    let series = model.disk.caches.get(&dev)?;
    let ((_, first), (_, last)) = (series.first()?, series.last()?);
    let disk = model.disk.all.get(&dev)?;
    let by_size = || {
        let below = disk.below.iter().filter_map(|dev| model.disk.of(*dev));
        below.max_by_key(|disk| disk.size_bytes)
    };
    let origin = last.origin.and_then(|dev| model.disk.of(dev)).or_else(by_size)?;
    let fast = last.fast.and_then(|dev| model.disk.of(dev));
    let (whole, queue) = (disk_queue::disk(model, dev)?, disk_queue::disk(model, origin.dev)?);
    let fast_queue = fast.and_then(|fast| disk_queue::disk(model, fast.dev));
    let grown = |of: fn(&DiskCacheSample) -> u64| of(last).checked_sub(of(first));
    Some(DiskCache {
        hits: grown(|s| s.hits)?,
        misses: grown(|s| s.misses)?,
        promotions: grown(|s| s.promotions)?,
        demotions: grown(|s| s.demotions)?,
        at_origin: (queue.in_flight / whole.in_flight.max(1e-9)).min(1.0),
        fast_seconds: fast_queue.filter(|queue| queue.seconds > 0.0).map(|queue| queue.seconds),
        disk,
        origin,
        fast,
        last,
        queue,
    })
}

/// What is left of the fast disk, or of the one that it is a part of: bytes, and of which. None where that is not known.
pub fn unused<'a>(model: &'a Model, cache: &DiskCache<'a>) -> Option<(f64, &'a Disk)> {
    let fast = cache.fast?;
    let part = cache.last.fast.is_some_and(|dev| dev != fast.dev);
    let (on, taken) = if part {
        (fast, fast.partitioned_bytes)
    } else if let [below] = fast.below[..] {
        let on = model.disk.of(below)?;
        let volumes = || model.disk.all.values().filter(|disk| disk.below.contains(&on.dev));
        // A volume over several disks: how much of it lies on this one is not known.
        if volumes().any(|volume| volume.below.len() > 1 && volume.dev != cache.disk.dev) {
            return None;
        }
        let volumes = volumes().filter(|volume| volume.dev != cache.disk.dev);
        (on, volumes.map(|volume| volume.size_bytes).sum::<u64>().max(on.partitioned_bytes))
    } else {
        (fast, cache.bytes() as u64)
    };
    Some((on.size_bytes.checked_sub(taken)? as f64, on))
}
