//! What the disks' sums say at the end: the CPUs' own, which are read as one variable each, and those of the maps.
//!
//! Must not: read maps (kernel/sums.rs), or judge what a sum means. Edit together: bpf/block.bpf.c (who adds what where).

use super::values;
use crate::decode::wire::{self, *};
use holdup_reason::facts::{Body, DiskLatency, DiskUse};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Sums of each disk and operation.
#[derive(Default)]
pub struct Latencies(BTreeMap<(u32, u32), wire_disk_latency>);

/// Sums of each disk and process.
#[derive(Default)]
pub struct Uses(BTreeMap<(u32, u32), wire_disk_use>);

impl Latencies {
    /// Adds all CPUs' own, as the variable holds them.
    pub fn add_slots(&mut self, bytes: &[u8]) {
        slots::<wire_disk_latency_slot>(bytes)
            .filter(|slot| slot.owner != 0)
            .for_each(|slot| self.add(&slot.key, &slot.sum));
    }

    /// Adds one sum.
    pub fn add(&mut self, key: &wire_disk_key, more: &wire_disk_latency) {
        match self.0.entry((key.dev, key.operation)) {
            Entry::Vacant(place) => {
                place.insert(*more);
            }
            Entry::Occupied(mut place) => {
                let sum = place.get_mut();
                sum.bytes += more.bytes;
                sum.service_ns += more.service_ns;
                sum.service_ns_max = sum.service_ns_max.max(more.service_ns_max);
                sum.queued_ns += more.queued_ns;
                sum.errors += more.errors;
                sum.slots.iter_mut().zip(more.slots).for_each(|(slot, more)| *slot += more);
            }
        }
    }

    /// As facts.
    pub fn facts(self) -> impl Iterator<Item = Body> {
        self.0.into_iter().map(|((dev, operation), sum)| {
            Body::DiskLatency(DiskLatency {
                dev: values::device(dev),
                operation: values::operation(operation),
                count: sum.slots.iter().sum(),
                bytes: sum.bytes,
                service_ns: sum.service_ns,
                service_ns_max: sum.service_ns_max,
                queued_ns: sum.queued_ns,
                service_us_log2: wire::trimmed(&sum.slots),
                errors: sum.errors,
            })
        })
    }
}

impl Uses {
    /// Adds all CPUs' own, as the variable holds them.
    pub fn add_slots(&mut self, bytes: &[u8]) {
        slots::<wire_disk_use_slot>(bytes)
            .filter(|slot| slot.owner != 0)
            .for_each(|slot| self.add(&slot.key, &slot.sum));
    }

    /// Adds one sum. Each names the thread that it met first: reported is the eldest of them.
    pub fn add(&mut self, key: &wire_disk_use_key, more: &wire_disk_use) {
        match self.0.entry((key.dev, key.tgid)) {
            Entry::Vacant(place) => {
                place.insert(*more);
            }
            Entry::Occupied(mut place) => {
                let sum = place.get_mut();
                sum.reads += more.reads;
                sum.read_bytes += more.read_bytes;
                sum.writes += more.writes;
                sum.write_bytes += more.write_bytes;
                if more.process.start_ns < sum.process.start_ns {
                    sum.process = more.process;
                    sum.cgroup_id = more.cgroup_id;
                }
            }
        }
    }

    /// As facts.
    pub fn facts(self) -> impl Iterator<Item = Body> {
        self.0.into_iter().map(|((dev, _), sum)| {
            Body::DiskUse(DiskUse {
                dev: values::device(dev),
                process: values::thread_ref(&sum.process),
                reads: sum.reads,
                read_bytes: sum.read_bytes,
                writes: sum.writes,
                write_bytes: sum.write_bytes,
                cgroup_id: sum.cgroup_id,
            })
        })
    }
}

fn slots<T: Wire>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).map(wire::read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of<T: Wire>(values: &[T]) -> &[u8] {
        // SAFETY: plain integers, of which any bytes may be read.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
    }

    fn nothing<T: Wire>() -> T {
        wire::read(&[])
    }

    #[test]
    fn latencies_of_all_cpus_and_of_the_map_are_one_sum() {
        let slot = |owner, service_ns, errors, at: usize| {
            let mut slot: wire_disk_latency_slot = nothing();
            slot.owner = owner;
            slot.key.dev = 7 << 20;
            (slot.sum.service_ns, slot.sum.service_ns_max) = (service_ns, service_ns);
            (slot.sum.bytes, slot.sum.errors, slot.sum.slots[at]) = (4096, errors, 1);
            slot
        };
        let mut all = Latencies::default();
        all.add_slots(bytes_of(&[slot(1, 9_000, 0, 3), slot(0, 1, 1, 0), slot(2, 3_000, 1, 1)]));
        all.add(&slot(1, 0, 0, 0).key, &slot(1, 5_000, 0, 2).sum);
        let reported: Vec<Body> = all.facts().collect();
        let [Body::DiskLatency(sum)] = &reported[..] else { panic!("{reported:?}") };
        assert_eq!((sum.count, sum.bytes, sum.errors), (3, 3 * 4096, 1));
        assert_eq!((sum.service_ns, sum.service_ns_max), (17_000, 9_000));
        assert_eq!(sum.service_us_log2, [0, 1, 1, 1]);
        assert_eq!((sum.dev.major, sum.dev.minor), (7, 0));
    }

    #[test]
    fn a_process_is_reported_once_for_each_disk_by_its_eldest_thread() {
        let slot = |dev, tid, start_ns, reads| {
            let mut slot: wire_disk_use_slot = nothing();
            (slot.owner, slot.key.dev, slot.key.tgid) = (1, dev, 40);
            (slot.sum.process.tid, slot.sum.process.start_ns) = (tid, start_ns);
            slot.sum.process.tgid = 40;
            (slot.sum.reads, slot.sum.read_bytes, slot.sum.cgroup_id) =
                (reads, 512 * reads, start_ns);
            slot
        };
        let mut all = Uses::default();
        all.add_slots(bytes_of(&[slot(1, 42, 9, 2), slot(2, 40, 5, 1), slot(1, 41, 7, 3)]));
        let reported: Vec<Body> = all.facts().collect();
        let [Body::DiskUse(first), Body::DiskUse(second)] = &reported[..] else {
            panic!("{reported:?}")
        };
        assert_eq!((first.reads, first.read_bytes, first.process.tid), (5, 2560, 41));
        assert_eq!((first.cgroup_id, second.reads), (7, 1));
    }
}
