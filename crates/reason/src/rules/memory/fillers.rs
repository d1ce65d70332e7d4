//! Fillers: processes that take up the memory that they share with others, and ask for more of it.
//!
//! What memory.reclaim names, and what memory.limit must not take for a limit's doing. How much a process takes up is what is
//! resident of it and what it brought into the page cache in the look; whoever took up little and had to make room all the
//! same made it for another. Must not: say what that costs. Rejected: who frees most (whoever maps and unmaps all the time
//! makes room more often than the one who keeps what it has), and the counters of groups alone, as both may be in one.
//!
//! Edit together: streams.rs (who fills memory with what others read again).

use crate::facts::ThreadRef;
use crate::measure::Measures;
use crate::measure::memory_limits::Limited;
use crate::measure::memory_members::is_member;
use crate::rules::threshold::Threshold;
use std::collections::{BTreeMap, BTreeSet};

pub(super) static FILLS_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "part of the shared memory that one process takes up, of what may be taken up by all",
    "chosen: the larger part; lab, memory-reclaim, seed 1: 0.94",
);
pub(super) static BROUGHT_MIN: Threshold = Threshold::new(
    0.25,
    "1",
    "part of the shared memory that it brought in within the look, if it did not have to make room itself: who had it long before asks for nothing now",
    "chosen; lab, memory-reclaim, seed 1: 0.91",
);
pub(super) static SMALL_MAX: Threshold = Threshold::new(
    0.25,
    "1",
    "part of the shared memory that a process may take up itself before it is one of those who fill it",
    "chosen: half of the least that a filler takes up; lab, memory-reclaim, seed 1: 0.09",
);

/// A process that takes up what others share with it, and those who make room for it.
pub(super) struct Filler<'m> {
    /// Who.
    pub by: ThreadRef,
    /// What it takes up, bytes.
    pub bytes: u64,
    /// The part of it that it brought in within the look.
    pub brought_bytes: u64,
    /// The group whose limit is met; none if it is the host's memory.
    pub shared: Option<&'m Limited<'m>>,
    /// What may be taken up by all, bytes.
    pub room_bytes: u64,
    /// Who makes room and takes up little.
    pub victims: BTreeSet<u32>,
}

/// What one process takes up.
#[derive(Default)]
struct Takes {
    resident_bytes: u64,
    brought_bytes: u64,
}

impl Takes {
    fn bytes(&self) -> u64 {
        self.resident_bytes.saturating_add(self.brought_bytes)
    }
}

/// The fillers of each group that met its limit, and of the host.
pub(super) fn fillers<'m>(measures: &'m Measures<'m>) -> Vec<Filler<'m>> {
    let takes = takes(measures);
    let of_group = |one: &'m Limited<'m>| of(measures, &takes, Some(one), one.limit_bytes);
    let mut all: Vec<Filler<'m>> = measures.limited.iter().filter_map(of_group).collect();
    let total_bytes = measures.model.memory.last().map(|(_, sample)| sample.total_bytes);
    all.extend(total_bytes.and_then(|bytes| of(measures, &takes, None, bytes)));
    all
}

/// The filler of one group.
pub(super) fn of_group<'m>(measures: &'m Measures<'m>, one: &'m Limited<'m>) -> Option<Filler<'m>> {
    of(measures, &takes(measures), Some(one), one.limit_bytes)
}

fn takes(measures: &Measures<'_>) -> BTreeMap<u32, Takes> {
    let mut all: BTreeMap<u32, Takes> = BTreeMap::new();
    for (pid, thread) in &measures.model.threads {
        if *pid == thread.thread.pid && !thread.kernel {
            all.entry(*pid).or_default().resident_bytes = thread.rss_bytes;
        }
    }
    for (pid, reader) in &measures.readers {
        all.entry(*pid).or_default().brought_bytes = reader.brought_bytes;
    }
    all
}

fn of<'m>(
    measures: &'m Measures<'m>,
    takes: &BTreeMap<u32, Takes>,
    shared: Option<&'m Limited<'m>>,
    room_bytes: u64,
) -> Option<Filler<'m>> {
    let model = measures.model;
    let inside = |who: &ThreadRef| {
        shared.is_none_or(|one| is_member(model, &measures.ancestry, who, one.group))
    };
    // Whoever made room: for the group, or for the host.
    let made_room = model.reclaims.iter().filter(|one| one.memcg == shared.is_some());
    let makers: BTreeMap<u32, &ThreadRef> =
        made_room.map(|one| (one.thread.pid, &one.thread)).filter(|one| inside(one.1)).collect();
    let part = |bytes: u64| bytes as f64 / room_bytes.max(1) as f64;
    let fills = |(pid, takes): &(&u32, &Takes)| {
        part(takes.bytes()) >= FILLS_MIN.value
            && (part(takes.brought_bytes) >= BROUGHT_MIN.value || makers.contains_key(pid))
            && inside(&model.thread_ref(**pid))
    };
    let mut all = takes.iter().filter(fills);
    let (pid, most) = all.next()?;
    if makers.is_empty() || all.next().is_some() {
        return None;
    }
    let takes_little =
        |pid: &u32| takes.get(pid).is_none_or(|takes| part(takes.bytes()) <= SMALL_MAX.value);
    let victims: BTreeSet<u32> = makers.into_keys().filter(takes_little).collect();
    (!victims.is_empty()).then(|| Filler {
        by: model.thread_ref(*pid),
        bytes: most.bytes(),
        brought_bytes: most.brought_bytes,
        shared,
        room_bytes,
        victims,
    })
}
