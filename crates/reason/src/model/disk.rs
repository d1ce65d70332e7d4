//! Disks and what is mounted of them: identities, counters, requests, who used which.
//!
//! Must not: compute a queue or a rate (measure/disk_queue.rs).

use super::push::{Push, Series};
use crate::facts::*;
use std::collections::BTreeMap;

/// Disks stand on disks only so deep.
pub(crate) const DEPTH_MAX: u32 = 8;

/// What was observed of disks.
#[derive(Debug, Default)]
pub struct Disks {
    /// Disks by device number.
    pub(crate) all: BTreeMap<DeviceNumber, Disk>,
    /// Disk counters.
    pub(crate) samples: BTreeMap<DeviceNumber, Series<DiskSample>>,
    /// Disk caches by the cached disk.
    pub(crate) caches: BTreeMap<DeviceNumber, Series<DiskCacheSample>>,
    /// Request latency sums.
    pub(crate) latency: Vec<DiskLatency>,
    /// Long requests.
    pub(crate) requests: Vec<Request>,
    /// Who used which disk.
    pub(crate) used: Vec<DiskUse>,
    /// Who made pages of which file system dirty.
    pub(crate) dirtied: Vec<Dirtied>,
    /// Mounts.
    pub(crate) mounts: Vec<Mount>,
}

impl Disks {
    /// The whole disk of a device number: the disk itself, or the one that a partition is on.
    pub fn of(&self, dev: DeviceNumber) -> Option<&Disk> {
        let has_part = |disk: &&Disk| disk.partitions.contains(&dev);
        self.all.get(&dev).or_else(|| self.all.values().find(has_part))
    }

    /// The disk under a file system's device number; by the mount's source where the number is
    /// anonymous (btrfs).
    pub fn of_file_system(&self, dev: DeviceNumber) -> Option<&Disk> {
        if let Some(disk) = self.of(dev) {
            return Some(disk);
        }
        let mount = self.mounts.iter().find(|mount| mount.dev == dev)?;
        let name = mount.source.strip_prefix("/dev/")?;
        self.all.values().find(|disk| disk.name == name)
    }

    /// The mount of a file system that a person would name: its root, shortest path.
    pub fn mount_of(&self, dev: DeviceNumber) -> Option<&Mount> {
        let mounts = self.mounts.iter().filter(|mount| mount.dev == dev);
        mounts.min_by_key(|mount| (mount.root != "/", mount.path.len()))
    }

    /// Of what a process asked of a disk, in bytes, what it did not ask of a disk that is made of this one: on LVM, dm-crypt and md whoever asks has it
    /// asked of each layer in turn (dm_submit_bio), and all of it is one request's.
    pub(crate) fn asked_here(&self, used: &DiskUse, bytes: fn(&DiskUse) -> u64) -> u64 {
        let is_upper = |other: &&DiskUse| {
            other.process.pid == used.process.pid
                && self.of(other.dev).is_some_and(|disk| disk.below.contains(&used.dev))
        };
        let is_layer = self.all.values().any(|disk| disk.below.contains(&used.dev));
        let uppers = self.used.iter().filter(|_| is_layer).filter(is_upper);
        bytes(used).saturating_sub(uppers.map(bytes).sum())
    }

    /// A disk is another one, or is made of it.
    pub fn stands_on(&self, upper: &Disk, lower: DeviceNumber) -> bool {
        self.stands_above(upper, lower, DEPTH_MAX)
    }

    fn stands_above(&self, upper: &Disk, lower: DeviceNumber, depth: u32) -> bool {
        let below = |dev: &DeviceNumber| {
            self.of(*dev).is_some_and(|disk| self.stands_above(disk, lower, depth - 1))
        };
        upper.dev == lower || depth > 0 && upper.below.iter().any(below)
    }

    /// A disk is another one, or is made of it and of no other: what is waited for in a mirror may be its other member.
    pub fn stands_on_alone(&self, upper: &Disk, lower: DeviceNumber) -> bool {
        self.stands_above_alone(upper, lower, DEPTH_MAX)
    }

    fn stands_above_alone(&self, upper: &Disk, lower: DeviceNumber, depth: u32) -> bool {
        let below = |dev: &DeviceNumber| {
            self.of(*dev).is_some_and(|disk| self.stands_above_alone(disk, lower, depth - 1))
        };
        upper.dev == lower || depth > 0 && !upper.below.is_empty() && upper.below.iter().all(below)
    }

    /// Once the last fact is in.
    pub(super) fn finish(&mut self) {
        for series in self.samples.values_mut() {
            series.sort_by_key(|(at, _)| *at);
        }
    }
}

impl Push<Disk> for Disks {
    fn push(&mut self, _: Ns, disk: Disk) {
        self.all.insert(disk.dev, disk);
    }
}

impl Push<DiskSample> for Disks {
    fn push(&mut self, at: Ns, sample: DiskSample) {
        self.samples.entry(sample.dev).or_default().push((at, sample));
    }
}

impl Push<DiskCacheSample> for Disks {
    fn push(&mut self, at: Ns, sample: DiskCacheSample) {
        self.caches.entry(sample.dev).or_default().push((at, sample));
    }
}

impl Push<DiskLatency> for Disks {
    fn push(&mut self, _: Ns, latency: DiskLatency) {
        self.latency.push(latency);
    }
}

impl Push<Request> for Disks {
    fn push(&mut self, _: Ns, request: Request) {
        self.requests.push(request);
    }
}

impl Push<DiskUse> for Disks {
    fn push(&mut self, _: Ns, used: DiskUse) {
        self.used.push(used);
    }
}

impl Push<Dirtied> for Disks {
    fn push(&mut self, _: Ns, dirtied: Dirtied) {
        self.dirtied.push(dirtied);
    }
}

impl Push<Mount> for Disks {
    fn push(&mut self, _: Ns, mount: Mount) {
        self.mounts.push(mount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_layers_is_asked_once() {
        let dev = |minor| DeviceNumber { major: 254, minor };
        let mut disks = Disks::default();
        for (own, below) in [(0, vec![dev(1)]), (1, vec![dev(2)]), (2, vec![])] {
            disks.push(0, Disk { dev: dev(own), below, ..Disk::default() });
        }
        let read = |minor, pid, read_bytes| DiskUse {
            dev: dev(minor),
            process: ThreadRef { pid, tid: pid, ..ThreadRef::default() },
            read_bytes,
            ..DiskUse::default()
        };
        disks.used = vec![read(0, 10, 400), read(1, 10, 400), read(2, 10, 500), read(2, 20, 70)];
        let of = |pid: u32| -> u64 {
            let own = disks.used.iter().filter(|used| used.process.pid == pid);
            own.map(|used| disks.asked_here(used, |it| it.read_bytes)).sum()
        };
        assert_eq!((of(10), of(20)), (500, 70));
    }
}
