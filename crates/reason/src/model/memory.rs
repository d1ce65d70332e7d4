//! Memory: the host's counters and pressure, who reclaimed, refilled and paused, who was killed.
//!
//! Must not: hold what is a group's (containers.rs).

use super::push::{Push, Series};
use crate::facts::*;

/// What was observed of memory.
#[derive(Debug, Default)]
pub struct Memory {
    /// Memory of the host.
    pub(crate) samples: Series<MemorySample>,
    /// Pressure of the host.
    pub(crate) pressure: Series<Pressure>,
    /// Shared anonymous segments.
    pub(crate) segments: Vec<SharedSegment>,
    /// Time in reclaim.
    pub(crate) reclaims: Vec<Reclaim>,
    /// Pages brought into the page cache.
    pub(crate) cache_fills: Vec<CacheFill>,
    /// Files whose pages were brought in again.
    pub(crate) file_refaults: Vec<FileRefault>,
    /// Pauses at the dirty limit.
    pub(crate) dirty_pauses: Vec<DirtyPause>,
    /// Kills for want of memory.
    pub(crate) oom_kills: Series<OomKill>,
    /// What the kernel printed about them.
    pub(crate) oom_reports: Series<OomReport>,
}

impl Push<MemorySample> for Memory {
    fn push(&mut self, at: Ns, sample: MemorySample) {
        self.samples.push((at, sample));
    }
}

impl Push<Pressure> for Memory {
    fn push(&mut self, at: Ns, pressure: Pressure) {
        self.pressure.push((at, pressure));
    }
}

impl Push<SharedSegment> for Memory {
    fn push(&mut self, _: Ns, segment: SharedSegment) {
        self.segments.push(segment);
    }
}

impl Push<Reclaim> for Memory {
    fn push(&mut self, _: Ns, reclaim: Reclaim) {
        self.reclaims.push(reclaim);
    }
}

impl Push<CacheFill> for Memory {
    fn push(&mut self, _: Ns, fill: CacheFill) {
        self.cache_fills.push(fill);
    }
}

impl Push<FileRefault> for Memory {
    fn push(&mut self, _: Ns, one: FileRefault) {
        self.file_refaults.push(one);
    }
}

impl Push<DirtyPause> for Memory {
    fn push(&mut self, _: Ns, pause: DirtyPause) {
        self.dirty_pauses.push(pause);
    }
}

impl Push<OomKill> for Memory {
    fn push(&mut self, at: Ns, kill: OomKill) {
        self.oom_kills.push((at, kill));
    }
}

impl Push<OomReport> for Memory {
    fn push(&mut self, at: Ns, report: OomReport) {
        self.oom_reports.push((at, report));
    }
}
