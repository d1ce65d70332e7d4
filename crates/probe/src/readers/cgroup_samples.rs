//! Counters of cgroups, at the begin and at the end of a look.
//!
//! Some thousand groups with a handful of files each: which files a group lacks is remembered, all
//! share one buffer, and hierarchies without counters are skipped.
//!
//! v1 memory and blkio counters are taken with the groups below (`total_`, `_recursive`), as v2
//! counts them.
//!
//! Rejected: counting the members by cgroup.procs. For each reading the kernel walks all threads of the group, and
//! v1 sorts them: it was what grew faster than the number of threads, and no case asks how many there are.

use super::cgroups::{Cgroups, Group, Hierarchy};
use super::containers::containers;
use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::{mounts, text};
use holdup_reason::facts::{Body, CgroupIo, CgroupSample, DeviceNumber, Fact};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// One file of counters: the v1 controller (empty for v2), its name, what it gives. The place in
/// this list is the bit in `Group::missing`.
struct Counter {
    controller: &'static str,
    file: &'static str,
    read: fn(&[u8], &mut CgroupSample),
}

const COUNTERS: &[Counter] = &[
    Counter { controller: "cpu", file: "cpu.stat", read: cpu_stat_v1 },
    Counter { controller: "cpuacct", file: "cpuacct.usage", read: cpuacct_usage },
    Counter { controller: "memory", file: "memory.usage_in_bytes", read: memory_usage },
    Counter { controller: "memory", file: "memory.failcnt", read: memory_failcnt },
    Counter { controller: "memory", file: "memory.stat", read: memory_stat_v1 },
    Counter { controller: "memory", file: "memory.oom_control", read: oom_control },
    Counter {
        controller: "blkio",
        file: "blkio.throttle.io_serviced_recursive",
        read: io_serviced,
    },
    Counter {
        controller: "blkio",
        file: "blkio.throttle.io_service_bytes_recursive",
        read: io_service_bytes,
    },
    Counter { controller: "pids", file: "pids.events", read: pids_events },
    Counter { controller: "pids", file: TASKS, read: pids_current },
    Counter { controller: "", file: "cpu.stat", read: cpu_stat_v2 },
    Counter { controller: "", file: "memory.current", read: memory_usage },
    Counter { controller: "", file: "memory.events", read: memory_events },
    Counter { controller: "", file: "memory.events.local", read: memory_events_local },
    Counter { controller: "", file: "memory.stat", read: memory_stat_v2 },
    Counter { controller: "", file: "io.stat", read: io_stat },
    Counter { controller: "", file: "pids.events", read: pids_events },
    Counter { controller: "", file: TASKS, read: pids_current },
    Counter { controller: "", file: SWAP, read: swap_current },
];

const TASKS: &str = "pids.current";
const SWAP: &str = "memory.swap.current";

/// All groups of the host, as a source.
pub struct CgroupCounters(Cgroups);

impl Reader for CgroupCounters {
    fn open(_: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        let mut cgroups = std::mem::take(&mut opening.settings.cgroups);
        samples(&mut cgroups).for_each(|body| opening.put(body));
        Ok(Self(cgroups))
    }

    /// And the settings of those that were made since, with what runs in them.
    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        let settings = self.0.rescan();
        let containers = containers(&look.roots, &settings).into_iter().map(Body::Container);
        let bodies = containers.chain(settings).chain(samples(&mut self.0));
        facts.extend(bodies.map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

/// The counters of every group of a hierarchy that has some, one after the other.
pub fn samples(cgroups: &mut Cgroups) -> impl Iterator<Item = Body> {
    let (hierarchies, groups) = cgroups.parts();
    let mut buffer = Vec::with_capacity(16 * 1024);
    groups.iter_mut().filter_map(move |group| {
        sample(&hierarchies[group.hierarchy], group, &mut buffer).map(Body::CgroupSample)
    })
}

fn sample(hierarchy: &Hierarchy, group: &mut Group, buffer: &mut Vec<u8>) -> Option<CgroupSample> {
    let mut sample = CgroupSample::default();
    let mut any = false;
    let mut path = group.directory.join("x");
    for (bit, counter) in COUNTERS.iter().enumerate() {
        let applies = match counter.controller {
            "" => hierarchy.is_v2(),
            controller => hierarchy.has(controller),
        };
        let is_wanted = match counter.file {
            TASKS => group.has_limit.tasks,
            SWAP => group.has_limit.memory,
            _ => true,
        };
        if !applies || !is_wanted || group.missing & (1 << bit) != 0 {
            continue;
        }
        path.set_file_name(counter.file);
        match read_into(&path, buffer) {
            Ok(()) => {
                (counter.read)(buffer, &mut sample);
                any = true;
            }
            // A group that was removed lacks all of them, and gives no sample.
            Err(_) => group.missing |= 1 << bit,
        }
    }
    if !any {
        return None;
    }
    sample.path.clone_from(&group.path);
    sample.controllers.clone_from(&hierarchy.controllers);
    Some(sample)
}

fn read_into(path: &Path, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    buffer.clear();
    File::open(path)?.read_to_end(buffer).map(drop)
}

fn cpu_stat_v1(bytes: &[u8], sample: &mut CgroupSample) {
    sample.cpu_periods = text::keyed(bytes, "nr_periods");
    sample.cpu_throttled_periods = text::keyed(bytes, "nr_throttled");
    sample.cpu_throttled_ns = text::keyed(bytes, "throttled_time");
}

fn cpuacct_usage(bytes: &[u8], sample: &mut CgroupSample) {
    sample.cpu_usage_ns = text::number(bytes);
}

fn cpu_stat_v2(bytes: &[u8], sample: &mut CgroupSample) {
    sample.cpu_usage_ns = text::keyed(bytes, "usage_usec").map(|usec| usec.saturating_mul(1000));
    sample.cpu_periods = text::keyed(bytes, "nr_periods");
    sample.cpu_throttled_periods = text::keyed(bytes, "nr_throttled");
    sample.cpu_throttled_ns =
        text::keyed(bytes, "throttled_usec").map(|usec| usec.saturating_mul(1000));
}

fn memory_usage(bytes: &[u8], sample: &mut CgroupSample) {
    sample.memory_bytes = text::number(bytes);
}

fn memory_failcnt(bytes: &[u8], sample: &mut CgroupSample) {
    sample.memory_limit_hits = text::number(bytes);
}

fn oom_control(bytes: &[u8], sample: &mut CgroupSample) {
    sample.oom_kills = text::keyed(bytes, "oom_kill");
}

fn memory_events(bytes: &[u8], sample: &mut CgroupSample) {
    sample.memory_limit_hits = text::keyed(bytes, "max");
    sample.memory_high_hits = text::keyed(bytes, "high");
    sample.oom_kills = text::keyed(bytes, "oom_kill");
}

/// Of the group alone, and not of those below it as well: whose limit it was.
fn memory_events_local(bytes: &[u8], sample: &mut CgroupSample) {
    sample.memory_limit_hits = text::keyed(bytes, "max");
    sample.memory_high_hits = text::keyed(bytes, "high");
    sample.memory_ooms = text::keyed(bytes, "oom");
}

fn pids_events(bytes: &[u8], sample: &mut CgroupSample) {
    sample.processes_refused = text::keyed(bytes, "max");
}

fn pids_current(bytes: &[u8], sample: &mut CgroupSample) {
    sample.tasks = text::number(bytes);
}

fn swap_current(bytes: &[u8], sample: &mut CgroupSample) {
    sample.swap_bytes = text::number(bytes);
}

fn memory_stat_v1(bytes: &[u8], sample: &mut CgroupSample) {
    memory_stat(bytes, sample, ["total_cache", "total_rss", "total_shmem", "total_pgmajfault"]);
    sample.memory_refaults = refaults(bytes, "total_workingset_refault");
    sample.swap_bytes = text::keyed(bytes, "total_swap");
}

fn memory_stat_v2(bytes: &[u8], sample: &mut CgroupSample) {
    memory_stat(bytes, sample, ["file", "anon", "shmem", "pgmajfault"]);
    sample.memory_refaults = refaults(bytes, "workingset_refault");
}

fn memory_stat(bytes: &[u8], sample: &mut CgroupSample, keys: [&str; 4]) {
    let [file, anon, shmem, faults] = keys;
    sample.memory_file_bytes = text::keyed(bytes, file);
    sample.memory_anon_bytes = text::keyed(bytes, anon);
    sample.memory_shmem_bytes = text::keyed(bytes, shmem);
    sample.major_faults = text::keyed(bytes, faults);
}

/// One key before 5.9, one for anonymous pages and one for file pages since.
fn refaults(bytes: &[u8], prefix: &str) -> Option<u64> {
    let parts = ["", "_anon", "_file"].map(|part| text::keyed(bytes, &format!("{prefix}{part}")));
    parts.into_iter().flatten().reduce(u64::saturating_add)
}

fn io_serviced(bytes: &[u8], sample: &mut CgroupSample) {
    io_v1(bytes, sample, |io, read| if read { &mut io.reads } else { &mut io.writes });
}

fn io_service_bytes(bytes: &[u8], sample: &mut CgroupSample) {
    io_v1(bytes, sample, |io, read| if read { &mut io.read_bytes } else { &mut io.write_bytes });
}

/// Lines such as `252:0 Read 17`; the kinds Sync, Async and Total count the same requests again.
fn io_v1(bytes: &[u8], sample: &mut CgroupSample, slot: fn(&mut CgroupIo, bool) -> &mut u64) {
    let mut io = take_io(sample);
    for line in text::lines(bytes) {
        let mut words = text::words(line);
        let Some(dev) = words.next().and_then(mounts::device) else { continue };
        let read = match words.next() {
            Some(b"Read") => true,
            Some(b"Write") => false,
            _ => continue,
        };
        let Some(value) = words.next().and_then(text::number) else { continue };
        *slot(io.entry(dev).or_insert_with(|| CgroupIo { dev, ..CgroupIo::default() }), read) =
            value;
    }
    sample.io = io.into_values().collect();
}

/// Lines such as `8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0`.
fn io_stat(bytes: &[u8], sample: &mut CgroupSample) {
    let mut io = take_io(sample);
    for line in text::lines(bytes) {
        let mut words = text::words(line);
        let Some(dev) = words.next().and_then(mounts::device) else { continue };
        let entry = io.entry(dev).or_insert_with(|| CgroupIo { dev, ..CgroupIo::default() });
        for word in words {
            let Some(equals) = word.iter().position(|byte| *byte == b'=') else { continue };
            let value = text::number(&word[equals + 1..]).unwrap_or(0);
            match &word[..equals] {
                b"rbytes" => entry.read_bytes = value,
                b"wbytes" => entry.write_bytes = value,
                b"rios" => entry.reads = value,
                b"wios" => entry.writes = value,
                _ => {}
            }
        }
    }
    sample.io = io.into_values().collect();
}

fn take_io(sample: &mut CgroupSample) -> BTreeMap<DeviceNumber, CgroupIo> {
    std::mem::take(&mut sample.io).into_iter().map(|io| (io.dev, io)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_discarded_is_not_written() {
        let dev = DeviceNumber { major: 8, minor: 16 };
        let written = CgroupIo { dev, writes: 3, write_bytes: 4096, ..CgroupIo::default() };
        let mut v2 = CgroupSample::default();
        io_stat(b"8:16 rbytes=0 wbytes=4096 rios=0 wios=3 dbytes=1048576 dios=9\n", &mut v2);
        assert_eq!(v2.io, [written]);
        let mut v1 = CgroupSample::default();
        let counts = b"8:16 Read 0\n8:16 Write 3\n8:16 Sync 3\n8:16 Async 9\n8:16 Discard 9\n8:16 Total 12\n";
        io_serviced(counts, &mut v1);
        io_service_bytes(b"8:16 Read 0\n8:16 Write 4096\n8:16 Discard 1048576\n", &mut v1);
        assert_eq!(v1.io, v2.io);
    }
}
