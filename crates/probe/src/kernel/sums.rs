//! What the maps of the kernel programs have added up, as facts: read once, as the window ends.
//!
//! What a value says is decoded elsewhere (decode/), but for those that are a few fields long. The programs go on adding: where another
//! window follows, each entry is taken out of its map in the call that reads it, so that it is in one window and no other; of what an
//! array holds, what a CPU adds between its reading and its clearing (a microsecond) is lost. Must not: reset anything else.
//!
//! Rejected: to subtract what was there before (there is no difference of two maxima); two sets of maps, in turn (each program would
//! ask which of them at each event).

use crate::decode::disk_sums::{Latencies, Uses};
use crate::decode::wire::{self, *};
use crate::decode::{Decoder, cache_sums, samples, values};
use crate::skel::HoldupMaps;
use crate::system::units::page_bytes;
use holdup_reason::facts::*;
use holdup_stacks::Point;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::HashMap;

/// What becomes of a sum that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It stays: the look is over.
    Stays,
    /// It begins anew: another window follows.
    IsCleared,
}

/// What the sums in the maps say at the end.
// LONG FUNCTION: a map a paragraph.
pub fn sums(
    maps: &HoldupMaps<'_>,
    decoder: &mut Decoder,
    sample_hz: u32,
    after: After,
) -> Vec<Body> {
    let mut all = Vec::new();
    let (mut latencies, mut uses) = (Latencies::default(), Uses::default());
    latencies.add_slots(&variable(&maps.bss_latency, after));
    uses.add_slots(&variable(&maps.bss_use, after));
    let each = Each(after);
    each.of(&maps.disk_latency, |key: wire_disk_key, value: wire_disk_latency| {
        latencies.add(&key, &value);
    });
    each.of(&maps.disk_use, |key: wire_disk_use_key, value: wire_disk_use| {
        uses.add(&key, &value);
    });
    all.extend(latencies.facts());
    all.extend(uses.facts());
    each.of(&maps.reclaims, |key: wire_reclaim_key, value: wire_reclaim| {
        all.push(Body::Reclaim(Reclaim {
            thread: values::thread_ref(&value.thread),
            memcg: key.memcg != 0,
            count: value.count,
            total_ns: value.total_ns,
            pages: value.pages,
            cgroup_id: value.cgroup_id,
        }));
    });
    add_cache(maps, decoder, each, &mut all);
    each.of(&maps.dirty_pauses, |key: wire_dirty_key, value: wire_dirty| {
        all.push(Body::DirtyPause(dirty_pause(&key, &value)));
    });
    let sampling = qdisc_sampling(maps);
    each.of(&maps.qdiscs, |key: wire_qdisc_key, value: wire_qdisc| {
        all.push(Body::QdiscSojourn(sojourn(&key, &value, sampling)));
    });
    each.of(&maps.flows, |key: wire_flow_key, value: wire_flow| {
        all.push(Body::QdiscFlow(flow(&key, &value)));
    });
    let hz = sample_hz;
    let mut sampled = Vec::new();
    each.of(&maps.samples, |key: wire_sample_key, value: wire_sample| {
        sampled.push((key, value));
    });
    for (key, value) in sampled {
        let stack = stack(maps, decoder, key.stack);
        all.push(Body::Samples(Samples {
            process: ThreadRef { tid: value.process.tgid, ..values::thread_ref(&value.process) },
            stack,
            count: value.count,
            frequency_hz: hz,
        }));
    }
    each.of(&maps.work, |key: wire_work_key, value: wire_work| {
        all.push(Body::Work(samples::work(&key, &value, hz)));
    });
    each.of(&maps.efforts, |_: wire_effort_key, value: wire_effort| {
        all.push(Body::Effort(samples::effort(&value)));
    });
    if after == After::IsCleared {
        // A number is reused only if it is free.
        maps.stacks.keys().for_each(|key| drop(maps.stacks.delete(&key)));
    }
    all
}

/// What was brought into the page cache.
fn add_cache(maps: &HoldupMaps<'_>, decoder: &mut Decoder, each: Each, all: &mut Vec<Body>) {
    each.of(&maps.cache_fills, |key: wire_cache_key, value: wire_cache| {
        all.push(Body::CacheFill(cache_sums::fill(&key, &value, decoder.page_bytes)));
    });
    each.of(&maps.refaults, |key: wire_refault_key, value: wire_refault| {
        all.push(Body::FileRefault(cache_sums::refault(
            &key,
            &value,
            &mut decoder.names.mounts,
            decoder.page_bytes,
        )));
    });
}

/// Where in their code files processes were hit, by the file that most samples of its inode have the name of; without a
/// name in code that was made at run time. To be read before the sums, which have those names.
pub fn points(maps: &HoldupMaps<'_>, after: After) -> Vec<(Point, String)> {
    let (mut names, mut points) = (HashMap::new(), Vec::new());
    Each(After::Stays).of(&maps.work, |key: wire_work_key, value: wire_work| {
        if key.syscall < 0 && key.code_ino != 0 {
            names.insert((key.tgid, key.code_ino), wire::text(&value.name));
        }
    });
    Each(after).of(&maps.points, |key: wire_point_key, count: u64| {
        let name = match key.code_ino {
            0 => Some(String::new()),
            ino => names.get(&(key.tgid, ino)).cloned(),
        };
        points.extend(name.map(|name| (point(&key, count), name)));
    });
    points
}

fn qdisc_sampling(maps: &HoldupMaps<'_>) -> u32 {
    let mask = maps.bss_data.as_deref().map_or(0, |bss| bss.control.packet_mask);
    mask + 1
}

fn stack(maps: &HoldupMaps<'_>, decoder: &mut Decoder, id: i32) -> u32 {
    let Ok(id) = u32::try_from(id) else { return 0 };
    let found = maps.stacks.lookup(&id.to_ne_bytes(), MapFlags::ANY);
    let Ok(Some(bytes)) = found else { return 0 };
    let frames: Vec<u64> =
        bytes.chunks_exact(8).map(|chunk| chunk.try_into().map_or(0, u64::from_ne_bytes)).collect();
    decoder.names.stacks.id_of(&frames)
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

fn sojourn(key: &wire_qdisc_key, value: &wire_qdisc, sampling: u32) -> QdiscSojourn {
    QdiscSojourn {
        netns: key.netns,
        interface: wire::text(&value.interface),
        index: key.ifindex,
        handle: handle_name(key.handle),
        packets: value.packets,
        bytes: value.bytes,
        sojourn_ns: value.sojourn_ns,
        sojourn_ns_min: value.sojourn_ns_min,
        sojourn_ns_max: value.sojourn_ns_max,
        sojourn_us_log2: wire::trimmed(&value.slots),
        sojourn_ns_min_by_tenth: value
            .tenth_min_ns
            .iter()
            .filter(|&&least| least > 0)
            .map(|least| least - 1)
            .collect(),
        sampling,
    }
}

/// A handle as tc shows it: major and minor in hexadecimal.
fn handle_name(handle: u32) -> String {
    match handle & 0xffff {
        0 => format!("{:x}:", handle >> 16),
        minor => format!("{:x}:{minor:x}", handle >> 16),
    }
}

fn flow(key: &wire_flow_key, value: &wire_flow) -> QdiscFlow {
    QdiscFlow {
        netns: key.netns,
        interface: wire::text(&value.interface),
        handle: handle_name(key.handle),
        protocol: values::protocol_name(key.protocol),
        local: values::address(key.family, &key.local, key.local_port),
        remote: values::address(key.family, &key.remote, key.remote_port),
        process: None,
        packets: value.packets,
        bytes: value.bytes,
        sojourn_ns: value.sojourn_ns,
        sojourn_ns_max: value.sojourn_ns_max,
        untimed_packets: value.untimed_packets,
        untimed_bytes: value.untimed_bytes,
        socket_ino: value.socket_ino,
    }
}

/// All of a section of variables, which is a map of one entry.
fn variable(map: &impl MapCore, after: After) -> Vec<u8> {
    let key = 0u32.to_ne_bytes();
    let value = map.lookup(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
    if after == After::IsCleared && value.iter().any(|byte| *byte != 0) {
        // What cannot be cleared is reported once more, as it was before.
        let _ = map.update(&key, &vec![0; value.len()], MapFlags::ANY);
    }
    value
}

/// Reads the entries of hash maps.
#[derive(Clone, Copy)]
struct Each(After);

impl Each {
    /// Calls for each entry.
    fn of<K: Wire, V: Wire>(self, map: &impl MapCore, mut call: impl FnMut(K, V)) {
        let keys: Vec<Vec<u8>> = map.keys().collect();
        for key in keys {
            if let Some(value) = self.value(map, &key) {
                call(wire::read(&key), wire::read(&value));
            }
        }
    }

    fn value(self, map: &impl MapCore, key: &[u8]) -> Option<Vec<u8>> {
        if self.0 == After::Stays {
            return map.lookup(key, MapFlags::ANY).ok().flatten();
        }
        // In one call since Linux 5.14; before, what is added between two is lost.
        match map.lookup_and_delete(key) {
            Ok(value) => value,
            Err(_) => {
                let value = map.lookup(key, MapFlags::ANY).ok().flatten()?;
                let _ = map.delete(key);
                Some(value)
            }
        }
    }
}
