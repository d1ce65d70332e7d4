//! What the maps of the kernel programs have added up, as facts: read once, as the window ends.
//!
//! What a value says is decoded elsewhere (decode/), but for those that are a few fields long. Must not: decide what becomes of what
//! was read (map_entries.rs).

use super::map_entries::After;
use super::net_sums;
use crate::decode::disk_sums::{Latencies, Uses};
use crate::decode::wire::{self, *};
use crate::decode::{Decoder, cache_sums, samples, values};
use crate::skel::HoldupMaps;
use crate::system::units::page_bytes;
use holdup_reason::facts::*;
use holdup_stacks::Point;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::{BTreeMap, HashMap};

/// The maps, and what reading them takes.
pub(super) struct Sums<'a, 'object> {
    /// The maps.
    pub maps: &'a HoldupMaps<'object>,
    /// Names of the reasons why packets are dropped.
    pub reasons: &'a BTreeMap<u32, String>,
    /// What becomes of what was read.
    pub after: After,
}

impl Sums<'_, '_> {
    /// What the sums in the maps say at the end.
    // LONG FUNCTION: a map a paragraph.
    pub(super) fn facts(&self, decoder: &mut Decoder, sample_hz: u32) -> Vec<Body> {
        let Self { maps, reasons, after } = *self;
        let mut all = Vec::new();
        let (mut latencies, mut uses) = (Latencies::default(), Uses::default());
        latencies.add_slots(&after.variable(&maps.bss_latency));
        uses.add_slots(&after.variable(&maps.bss_use));
        after.each(&maps.disk_latency, |key: wire_disk_key, value: wire_disk_latency| {
            latencies.add(&key, &value);
        });
        after.each(&maps.disk_use, |key: wire_disk_use_key, value: wire_disk_use| {
            uses.add(&key, &value);
        });
        all.extend(latencies.facts());
        all.extend(uses.facts());
        after.each(&maps.reclaims, |key: wire_reclaim_key, value: wire_reclaim| {
            all.push(Body::Reclaim(Reclaim {
                thread: values::thread_ref(&value.thread),
                memcg: key.memcg != 0,
                count: value.count,
                total_ns: value.total_ns,
                pages: value.pages,
                cgroup_id: value.cgroup_id,
            }));
        });
        add_cache(maps, decoder, after, &mut all);
        after.each(&maps.dirty_pauses, |key: wire_dirty_key, value: wire_dirty| {
            all.push(Body::DirtyPause(dirty_pause(&key, &value)));
        });
        net_sums::add(maps, decoder, reasons, after, &mut all);
        let hz = sample_hz;
        let mut sampled = Vec::new();
        after.each(&maps.samples, |key: wire_sample_key, value: wire_sample| {
            sampled.push((key, value));
        });
        for (key, value) in sampled {
            let stack = stack(maps, decoder, key.stack);
            all.push(Body::Samples(Samples {
                process: ThreadRef {
                    tid: value.process.tgid,
                    ..values::thread_ref(&value.process)
                },
                stack,
                count: value.count,
                frequency_hz: hz,
            }));
        }
        after.each(&maps.work, |key: wire_work_key, value: wire_work| {
            all.push(Body::Work(samples::work(&key, &value, hz)));
        });
        after.each(&maps.efforts, |_: wire_effort_key, value: wire_effort| {
            all.push(Body::Effort(samples::effort(&value)));
        });
        if after == After::IsCleared {
            // A number is reused only if it is free.
            maps.stacks.keys().for_each(|key| drop(maps.stacks.delete(&key)));
        }
        all
    }
}

/// What was brought into the page cache, and what was made dirty in it.
fn add_cache(maps: &HoldupMaps<'_>, decoder: &mut Decoder, after: After, all: &mut Vec<Body>) {
    after.each(&maps.cache_fills, |key: wire_cache_key, value: wire_cache| {
        all.push(Body::CacheFill(cache_sums::fill(&key, &value, decoder.page_bytes)));
    });
    after.each(&maps.refaults, |key: wire_refault_key, value: wire_refault| {
        all.push(Body::FileRefault(cache_sums::refault(
            &key,
            &value,
            &mut decoder.names.mounts,
            decoder.page_bytes,
        )));
    });
    after.each(&maps.dirtied, |key: wire_dirtied_key, value: wire_dirtied| {
        let dirtied = cache_sums::dirtied(&key, &value, decoder.page_bytes);
        all.extend(dirtied.map(Body::Dirtied));
    });
}

/// Where in their code files processes were hit, by the file that most samples of its inode have the name of; without a
/// name in code that was made at run time. To be read before the sums, which have those names.
pub(super) fn points(maps: &HoldupMaps<'_>, after: After) -> Vec<(Point, String)> {
    let (mut names, mut points) = (HashMap::new(), Vec::new());
    After::Stays.each(&maps.work, |key: wire_work_key, value: wire_work| {
        if key.syscall < 0 && key.code_ino != 0 {
            names.insert((key.tgid, key.code_ino), wire::text(&value.name));
        }
    });
    after.each(&maps.points, |key: wire_point_key, count: u64| {
        let name = match key.code_ino {
            0 => Some(String::new()),
            ino => names.get(&(key.tgid, ino)).cloned(),
        };
        points.extend(name.map(|name| (point(&key, count), name)));
    });
    points
}

/// Identity of a sample's stack; 0 in user mode.
fn stack(maps: &HoldupMaps<'_>, decoder: &mut Decoder, id: i32) -> u32 {
    const EFAULT: i32 = 14;
    if id == -EFAULT {
        return 0;
    }
    // Another stack of the same hash was there first, or no memory was.
    let stacks = &mut decoder.names.stacks;
    let Ok(id) = u32::try_from(id) else { return stacks.not_stored() };
    let found = maps.stacks.lookup(&id.to_ne_bytes(), MapFlags::ANY);
    let Ok(Some(bytes)) = found else { return stacks.not_stored() };
    let frames: Vec<u64> =
        bytes.chunks_exact(8).map(|chunk| chunk.try_into().map_or(0, u64::from_ne_bytes)).collect();
    stacks.id_of(&frames)
}

/// One place that the CPU clock hit, as it was counted.
fn point(key: &wire_point_key, count: u64) -> Point {
    Point { pid: key.tgid, code_ino: key.code_ino, offset: key.offset, count }
}

fn dirty_pause(key: &wire_dirty_key, value: &wire_dirty) -> DirtyPause {
    let bdi = wire::text(&key.bdi);
    let dev = bdi
        .split_once(':')
        .and_then(|(major, minor)| {
            Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
        })
        .unwrap_or_default();
    DirtyPause {
        thread: values::thread_ref(&value.thread),
        bdi,
        dev,
        count: value.count,
        pause_ns: value.pause_ns,
        task_ratelimit_bytes: value.task_ratelimit_pages * page_bytes(),
        dirtied_pages: value.dirtied_pages,
    }
}
