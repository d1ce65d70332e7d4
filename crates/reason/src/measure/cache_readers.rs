//! Who reads pages of files again, in whose reclaim they had been dropped, and how much each process brings into the cache.
//!
//! Two sources: the kernel side looks at some of the pages and knows who had each dropped, if that was within the look; the
//! kernel counts refaults of a group, whenever the pages were dropped. The one tells whose, the other how many. Reclaim by a
//! kernel thread (kswapd) is nobody's: whoever it works for is not known. Must not: judge how much is too much
//! (rules/memory/streams.rs).

use super::cgroups::change;
use super::memory_limits::PAGE_BYTES;
use crate::facts::ThreadRef;
use crate::model::Model;
use crate::model::object::FileKey;
use std::collections::BTreeMap;

/// A process that brings pages of files into memory.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    /// Who.
    pub process: ThreadRef,
    /// What it brought in, bytes.
    pub brought_bytes: u64,
    /// The part of it that was dropped within the look, by the process in whose reclaim it was.
    pub dropped_by: BTreeMap<u32, u64>,
    /// What the kernel counted as read again in its group, of which it may not have been all; of the host, if it is in none.
    pub counted_bytes: u64,
    /// The same part by file.
    pub files: BTreeMap<FileKey, u64>,
}

impl Reader {
    /// What was seen to come back, bytes: what was dropped before the look is not in it.
    pub fn seen(&self) -> u64 {
        self.dropped_by.values().sum()
    }

    /// What it brought in again, bytes.
    pub fn again(&self) -> u64 {
        self.counted_bytes.min(self.brought_bytes)
    }

    /// The part of its reading that is reading again.
    pub fn share_again(&self) -> f64 {
        self.again() as f64 / self.brought_bytes.max(1) as f64
    }
}

/// Every process that brought pages in, by its number.
pub fn readers(model: &Model) -> BTreeMap<u32, Reader> {
    let mut all: BTreeMap<u32, Reader> = BTreeMap::new();
    for fill in &model.memory.cache_fills {
        let reader = all.entry(fill.process.pid).or_default();
        reader.process = fill.process.clone();
        reader.brought_bytes += fill.bytes;
        if fill.evicted_by != 0 {
            *reader.dropped_by.entry(fill.evicted_by).or_default() += fill.bytes;
        }
    }
    for refault in &model.memory.file_refaults {
        if let Some(reader) = all.get_mut(&refault.pid) {
            *reader.files.entry(FileKey::from(&refault.file)).or_default() += refault.bytes;
        }
    }
    for reader in all.values_mut() {
        reader.counted_bytes = counted(model, &reader.process);
    }
    all
}

/// Refaults of the nearest group that a process is in, bytes.
fn counted(model: &Model, process: &ThreadRef) -> u64 {
    let group = model.cgroup_of(process, "memory").filter(|group| group.path != "/");
    let of_group = group.and_then(|group| change(model, group)).and_then(|(first, last)| {
        Some(last.memory_refaults?.saturating_sub(first.memory_refaults.unwrap_or(0)))
    });
    let of_host = || {
        let (first, last) = model.memory.samples.first().zip(model.memory.samples.last())?;
        Some(last.1.refaults.saturating_sub(first.1.refaults))
    };
    of_group.or_else(of_host).unwrap_or(0) * model.look.host.page_bytes.max(PAGE_BYTES)
}
