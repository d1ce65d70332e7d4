//! Fillers: processes that take up the memory that they share with others, and ask for more of it.
//!
//! What memory.reclaim names, and what memory.limit must not take for a limit's doing. How much a process takes up is what is
//! resident of it and what it brought into the page cache in the look, or what is in a group of its own below the shared one, in
//! which nobody else takes up much; whoever took up little and had to make room all the same made it for another. Must not: say
//! what that costs. Rejected: who frees most (whoever maps and unmaps all the time makes room more often than the one who keeps
//! what it has), and the counters of groups alone, as both may be in one.
//!
//! Edit together: streams.rs (who fills memory with what others read again).

use crate::facts::ThreadRef;
use crate::measure::Measures;
use crate::measure::cgroups::change;
use crate::measure::memory_limits::{self, Limited};
use crate::measure::memory_members::is_member;
use crate::threshold::Threshold;
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

pub(super) static ALONE_MIN: Threshold = Threshold::new(
    0.9,
    "1",
    "part that one process has of what all in its own group take up, for the group's memory to be its: so what it brought in before \
     the look counts as well",
    "chosen; lab, memory-reclaim, seed 81001: 1.00",
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
    let mut all: Vec<Filler<'m>> = measures.memory.limited.iter().filter_map(of_group).collect();
    let total_bytes = measures.model.memory.samples.last().map(|(_, sample)| sample.total_bytes);
    all.extend(total_bytes.and_then(|bytes| of(measures, &takes, None, bytes)));
    all
}

/// The filler of one group.
pub(super) fn of_group<'m>(measures: &'m Measures<'m>, one: &'m Limited<'m>) -> Option<Filler<'m>> {
    of(measures, &takes(measures), Some(one), one.limit_bytes)
}

fn takes(measures: &Measures<'_>) -> BTreeMap<u32, Takes> {
    let mut all: BTreeMap<u32, Takes> = BTreeMap::new();
    for (pid, thread) in &measures.model.threads.by_id {
        if *pid == thread.thread.pid && !thread.kernel {
            all.entry(*pid).or_default().resident_bytes = thread.rss_bytes;
        }
    }
    for (pid, reader) in &measures.memory.readers {
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
    // Whoever made room: for the host, or for the nearest group around it that is at its limit. Those above that one may be full, and not ask for it.
    let is_nearest = |who: &ThreadRef| {
        let nearest =
            memory_limits::nearest(&measures.memory.limited, (model, &measures.ancestry), who);
        shared.is_none_or(|one| nearest.is_none_or(|it| it.group.path == one.group.path))
    };
    let made_room = model.memory.reclaims.iter().filter(|one| one.memcg == shared.is_some());
    let makers: BTreeMap<u32, &ThreadRef> = made_room
        .map(|one| (one.thread.pid, &one.thread))
        .filter(|(_, who)| inside(who) && is_nearest(who))
        .collect();
    let part = |bytes: u64| bytes as f64 / room_bytes.max(1) as f64;
    let bytes = |pid: u32, own: &Takes| {
        // Nobody takes up more than all of his group does: what was brought in may be dropped again.
        let group = model.cgroup_of(&model.threads.thread_ref(pid), "memory");
        let group = group.filter(|group| group.path != "/");
        let in_use = group.and_then(|group| change(model, group)?.1.memory_bytes);
        let most = own.bytes().min(in_use.unwrap_or(u64::MAX)).max(own.resident_bytes);
        most.max(shared.map_or(0, |one| of_own_group(measures, takes, pid, one)))
    };
    let fills = |(pid, takes): &(&u32, &Takes)| {
        (part(takes.brought_bytes) >= BROUGHT_MIN.value || makers.contains_key(pid))
            && inside(&model.threads.thread_ref(**pid))
            && part(bytes(**pid, takes)) >= FILLS_MIN.value
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
        by: model.threads.thread_ref(*pid),
        bytes: bytes(*pid, most),
        brought_bytes: most.brought_bytes,
        shared,
        room_bytes,
        victims,
    })
}

/// The memory of a group below the shared one, if a process brings files in and all but alone takes up what is in it.
fn of_own_group(
    measures: &Measures<'_>,
    takes: &BTreeMap<u32, Takes>,
    pid: u32,
    shared: &Limited<'_>,
) -> u64 {
    let model = measures.model;
    let group = |pid: u32| model.cgroup_of(&model.threads.thread_ref(pid), "memory");
    let Some(own) = group(pid).filter(|own| own.path != shared.group.path) else { return 0 };
    let in_use = model.containers.ends(own).and_then(|ends| ends.last().memory_bytes).unwrap_or(0);
    // Most groups have less, and who is in them need not be counted.
    if (in_use as f64) < FILLS_MIN.value * shared.limit_bytes as f64 {
        return 0;
    }
    let is_own = |other: u32| {
        group(other).is_some_and(|it| (&it.path, &it.controllers) == (&own.path, &own.controllers))
    };
    let in_it = takes.iter().filter(|(other, _)| is_own(**other));
    let all: u64 = in_it.map(|(_, takes)| takes.bytes()).sum();
    let Some(takes) = takes.get(&pid).filter(|takes| takes.brought_bytes > 0) else { return 0 };
    if takes.bytes() as f64 >= ALONE_MIN.value * all as f64 { in_use } else { 0 }
}
