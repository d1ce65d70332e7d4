//! Streams: processes that fill memory with pages that they need once, and so have others' pages dropped.
//!
//! What memory.thrash names, and what memory.limit must not take for a limit's doing: a stream fills any limit. Must not: say
//! what it costs (measure/memory_losses.rs), or whether it is worth a finding.

use crate::facts::{Cgroup, ThreadRef};
use crate::measure::Measures;
use crate::measure::cache_readers::Reader;
use crate::measure::memory_members::is_member;
use crate::threshold::Threshold;
use std::collections::BTreeMap;

pub(super) static SEEN_BYTES_MIN: Threshold = Threshold::new(
    2_097_152.0,
    "bytes",
    "less that was seen to be dropped and read again is too little to say whose doing it is: one page in 16 is looked at, so this is 32 of them",
    "chosen; lab, memory-thrash, seeds 1 and 2: 37 MiB and more",
);
pub(super) static SEEN_PART_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "share of what is read that was seen to be dropped within the look; what was dropped before it cannot be seen",
    "lab, memory-thrash, seeds 1 and 2: 0.25 and 0.49, where the kernel counts 1.00",
);
pub(super) static COUNTED_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "part of what was seen to be read again that the kernel must have counted too; its counters are added up late, CPU by CPU",
    "lab, memory-thrash, seeds 1 and 2: 2.1 and more",
);
pub(super) static AGAIN_PART_MIN: Threshold = Threshold::new(
    0.3,
    "1",
    "share of what is read that is read again; a reader loses by eviction from here on, and below it a stream needs its pages once",
    "chosen, as for memory.limit",
);
pub(super) static BY_ONE_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "share of what was seen of a reader's reading again that was dropped in one other process's reclaim",
    "chosen: the larger part; what two working sets take from each other is their limit's",
);

/// A process that reads on, and those whose pages it displaces.
pub(super) struct Stream<'m> {
    /// Who.
    pub by: ThreadRef,
    /// What it brought in, bytes.
    pub brought_bytes: u64,
    /// What it was seen to bring in again, bytes.
    pub again_bytes: u64,
    /// Who reads again, by number.
    pub readers: BTreeMap<u32, &'m Reader>,
}

impl Stream<'_> {
    /// What its reclaim dropped of others and they read again, bytes.
    pub(super) fn displaced_bytes(&self) -> u64 {
        self.readers.values().map(|reader| self.displaced_of(reader)).sum()
    }

    /// The same of a group's members.
    pub(super) fn displaced_in(&self, measures: &Measures<'_>, group: &Cgroup) -> u64 {
        let is_inside =
            |it: &&&Reader| is_member(measures.model, &measures.ancestry, &it.process, group);
        self.readers.values().filter(is_inside).map(|reader| self.displaced_of(reader)).sum()
    }

    /// As much of all that it reads again as of that which was seen.
    fn displaced_of(&self, reader: &Reader) -> u64 {
        let by = reader.dropped_by.get(&self.by.pid).copied().unwrap_or(0);
        (reader.again() as f64 * by as f64 / reader.seen().max(1) as f64) as u64
    }
}

/// Every stream that displaces somebody's pages, most first.
pub(super) fn streams<'m>(measures: &'m Measures<'_>) -> Vec<Stream<'m>> {
    let mut all: BTreeMap<u32, Stream<'m>> = BTreeMap::new();
    for (pid, reader) in &measures.memory.readers {
        let Some(by) = displaced_by(measures, *pid, reader) else { continue };
        let stream = all.entry(by.process.pid).or_insert_with(|| Stream {
            by: by.process.clone(),
            brought_bytes: by.brought_bytes,
            again_bytes: by.seen(),
            readers: BTreeMap::new(),
        });
        stream.readers.insert(*pid, reader);
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by_key(|stream| std::cmp::Reverse(stream.displaced_bytes()));
    all
}

/// The stream that has most of this reader's pages dropped.
fn displaced_by<'m>(measures: &'m Measures<'_>, pid: u32, reader: &Reader) -> Option<&'m Reader> {
    let (seen, brought) = (reader.seen() as f64, reader.brought_bytes as f64);
    if seen < SEEN_BYTES_MIN.value
        || seen < SEEN_PART_MIN.value * brought
        || (reader.counted_bytes as f64) < COUNTED_MIN.value * seen
        || reader.share_again() < AGAIN_PART_MIN.value
    {
        return None;
    }
    let (by, bytes) = reader.dropped_by.iter().max_by_key(|(_, bytes)| **bytes)?;
    let is_other = *by != pid && *bytes as f64 >= BY_ONE_MIN.value * seen;
    let by = measures.memory.readers.get(by).filter(|_| is_other)?;
    (by.share_again() < AGAIN_PART_MIN.value).then_some(by)
}
