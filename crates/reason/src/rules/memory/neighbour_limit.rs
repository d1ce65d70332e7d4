//! The way out that gives a neighbour a memory limit of its own: one that it can live with.
//!
//! What its group cannot drop (anonymous and shared memory) stays: a limit below that has it swap and reclaim without an end, or killed (cgroup v1). So
//! it gets what it has of that and some room, if that is less than what it takes up now; who cannot be held back so is advised otherwise.
//! Must not: limit a group that a victim is in too.
//!
//! Rejected: half of what both share (a process with more than that of its own would be killed by the advice).

use crate::facts::{Cgroup, ThreadRef};
use crate::measure::Measures;
use crate::model::membership::is_below;
use crate::rules::group_limits::again_until_done;
use crate::rules::wording::Remedy;

/// What a stream needs beside its own memory: some blocks on their way, and what is read ahead.
const STREAM_BYTES: u64 = 32 << 20;

/// The most that a neighbour is given of what it shares: a quarter is left for those who take up as much as that, and are held up.
pub(super) fn most_of(room_bytes: u64) -> u64 {
    room_bytes - room_bytes / 4
}

/// A limit for the group of a process that leaves it what it cannot drop, and `wanted_bytes` if that is more. None where its group has no limit of
/// memory, has nothing to drop, or would have `most_bytes` or more, which leaves the others as little as now.
pub(super) fn of(
    measures: &Measures<'_>,
    by: &ThreadRef,
    (wanted_bytes, most_bytes): (u64, u64),
    text: &str,
) -> Option<Remedy> {
    let model = measures.model;
    let group = model.cgroup_of(by, "memory").filter(|group| group.path != "/")?;
    let (_, last) = model.containers.change(group)?;
    let in_use = last.memory_bytes?;
    let kept =
        last.memory_anon_bytes.unwrap_or(0).saturating_add(last.memory_shmem_bytes.unwrap_or(0));
    let kept = kept.max(resident_bytes(measures, group, last.memory_anon_bytes.is_none()));
    let new = kept.saturating_add(STREAM_BYTES).max(wanted_bytes);
    let (file, before, none) = match group.controllers.is_empty() {
        // Beyond memory.high it is held back and not killed.
        true => ("memory.high", group.memory_high_bytes, "max"),
        false => ("memory.limit_in_bytes", group.memory_limit_bytes, "-1"),
    };
    if new >= in_use.min(most_bytes) || before.is_some_and(|before| before <= new) {
        return None;
    }
    let old = before.map_or_else(|| none.to_string(), |bytes| bytes.to_string());
    let path = format!("{}/{file}", group.directory.trim_end_matches('/'));
    let way = Remedy::to(text).write(&path, new, old);
    // cgroup v1 refuses it as long as more is used that could not be freed yet.
    let command = match group.controllers.is_empty() {
        true => way.command,
        false => again_until_done(&way.command),
    };
    Some(Remedy { command, ..way })
}

/// What its processes have resident, where the group's own count of what it cannot drop was not read.
fn resident_bytes(measures: &Measures<'_>, group: &Cgroup, is_wanted: bool) -> u64 {
    let place = |pid: u32| {
        let known = measures.model.threads.thread_ref(pid);
        measures.model.cgroup_of(&known, "memory")
    };
    let is_in = |pid: u32| {
        place(pid).is_some_and(|it| {
            it.controllers == group.controllers && is_below(&it.path, &group.path)
        })
    };
    let all = measures.model.threads.by_id.values().filter(|_| is_wanted);
    let all = all.filter(|it| it.thread.tid == it.thread.pid && is_in(it.thread.pid));
    all.map(|it| it.rss_bytes).sum()
}
