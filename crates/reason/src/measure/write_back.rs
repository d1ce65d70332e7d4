//! For whom the kernel's workers write to a disk: who made the pages dirty that they write back.
//!
//! A worker submits in its own name, and one transfer has pages of many. So what workers wrote over the window is shared out among
//! those who made pages of its file systems dirty in it, by how much each did beyond what it wrote itself (an fsync submits in
//! its caller's name, and so does direct I/O). Who has dirtied less than was written leaves the rest to the workers: it is from before
//! the look, by whomever. Must not: say who is to blame (rules/disk).
//!
//! Rejected: the group that a page is charged to (the host of most files has none, and v1 charges writeback to nobody); a process's own
//! count (`ioac.write_bytes`), which does not say of which disk.

use crate::facts::{DeviceNumber, Dirtied, DiskUse, ThreadRef};
use crate::model::Model;
use crate::model::disk::DEPTH_MAX;
use crate::model::kernel_threads::writes_for_others;
use std::collections::BTreeMap;

/// What was written to a disk for one process.
#[derive(Debug, Clone, Copy)]
pub struct WrittenBack<'a> {
    /// Who made it dirty.
    pub process: &'a ThreadRef,
    /// How much.
    pub bytes: f64,
    /// In how many requests.
    pub requests: f64,
}

/// What was written to a disk for whom, through its own file systems and those of disks that are made of it.
///
/// What a layer below writes for the one above (a loop device's worker, dm-crypt's writer) may as well be direct I/O: of that no more is
/// written back than was written back above.
pub fn of(model: &Model, dev: DeviceNumber) -> Vec<WrittenBack<'_>> {
    through_layers(model, dev, DEPTH_MAX)
}

fn through_layers(model: &Model, dev: DeviceNumber, depth: u32) -> Vec<WrittenBack<'_>> {
    let here = || model.disk.used.iter().filter(move |used| used.dev == dev);
    let by_kernel: Vec<&DiskUse> = here().filter(|used| writes_for_others(&used.process)).collect();
    let bytes: u64 = by_kernel.iter().map(|used| used.write_bytes).sum();
    if bytes == 0 {
        return Vec::new();
    }
    let above = model.disk.all.values().filter(|disk| depth > 0 && disk.below.contains(&dev));
    let mut all: BTreeMap<u32, (&ThreadRef, f64)> = BTreeMap::new();
    for upper in above.flat_map(|disk| through_layers(model, disk.dev, depth - 1)) {
        all.entry(upper.process.pid).or_insert((upper.process, 0.0)).1 += upper.bytes;
    }
    let from_above: f64 = all.values().map(|(_, bytes)| bytes).sum();
    let fits = (bytes as f64 / from_above.max(1.0)).min(1.0);
    all.values_mut().for_each(|(_, bytes)| *bytes *= fits);
    let rest = (bytes as f64 - from_above).max(0.0);
    let dirtied = dirtied_beyond_own_writes(model, dev);
    let whole =
        dirtied.values().map(|(_, dirtied)| *dirtied as f64).sum::<f64>().max(rest).max(1.0);
    for (pid, (process, dirtied)) in dirtied {
        all.entry(pid).or_insert((process, 0.0)).1 += dirtied as f64 / whole * rest;
    }
    let requests: u64 = by_kernel.iter().map(|used| used.writes).sum();
    let each = requests as f64 / bytes as f64;
    let of_one = |(process, bytes)| WrittenBack { process, bytes, requests: bytes * each };
    all.into_values().filter(|(_, bytes)| *bytes > 0.0).map(of_one).collect()
}

/// What each process made dirty of the file systems on a disk itself, less what it wrote there in its own name, bytes.
fn dirtied_beyond_own_writes(model: &Model, dev: DeviceNumber) -> BTreeMap<u32, (&ThreadRef, u64)> {
    let is_here = |dirtied: &&Dirtied| {
        model.disk.of_file_system(dirtied.dev).is_some_and(|disk| disk.dev == dev)
    };
    let mut all: BTreeMap<u32, (&ThreadRef, u64)> = BTreeMap::new();
    for it in model.disk.dirtied.iter().filter(is_here) {
        all.entry(it.process.pid).or_insert((&it.process, 0)).1 += it.bytes;
    }
    for used in model.disk.used.iter().filter(|used| used.dev == dev) {
        if let Some((_, bytes)) = all.get_mut(&used.process.pid) {
            *bytes = bytes.saturating_sub(used.write_bytes);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Disk, Fact};

    const DISK: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const PART: DeviceNumber = DeviceNumber { major: 8, minor: 1 };
    const OTHER: DeviceNumber = DeviceNumber { major: 8, minor: 16 };
    const ABOVE: DeviceNumber = DeviceNumber { major: 254, minor: 0 };

    fn process(pid: u32, comm: &str) -> ThreadRef {
        ThreadRef { pid, tid: pid, comm: comm.into(), ..ThreadRef::default() }
    }

    fn wrote(pid: u32, comm: &str, write_bytes: u64) -> Body {
        wrote_to(DISK, pid, comm, write_bytes)
    }

    fn wrote_to(dev: DeviceNumber, pid: u32, comm: &str, write_bytes: u64) -> Body {
        let (process, writes) = (process(pid, comm), write_bytes / 100);
        Body::DiskUse(DiskUse { dev, process, writes, write_bytes, ..DiskUse::default() })
    }

    fn dirtied(pid: u32, dev: DeviceNumber, bytes: u64) -> Body {
        Body::Dirtied(Dirtied { dev, process: process(pid, "app"), bytes })
    }

    /// Process, bytes and requests.
    fn shared_out(facts: &[Body]) -> Vec<(u32, u64, u64)> {
        let disks = [
            Disk { dev: DISK, partitions: vec![PART], ..Disk::default() },
            Disk { dev: OTHER, ..Disk::default() },
            Disk { dev: ABOVE, below: vec![DISK], ..Disk::default() },
        ];
        let all = disks.into_iter().map(Body::Disk).chain(facts.iter().cloned());
        let model = Model::new(all.map(|body| Fact { at_ns: 0, body }).collect());
        let back = of(&model, DISK);
        back.iter().map(|it| (it.process.pid, it.bytes as u64, it.requests as u64)).collect()
    }

    #[test]
    fn what_a_worker_writes_is_theirs_who_made_it_dirty() {
        let worker = wrote(7, "kworker/u8:2", 1000);
        let two = [worker.clone(), dirtied(10, PART, 3000), dirtied(20, PART, 1000)];
        assert_eq!(shared_out(&two), [(10, 750, 7), (20, 250, 2)]);
        assert!(shared_out(&[worker.clone(), dirtied(10, OTHER, 3000)]).is_empty());
        assert!(shared_out(&[dirtied(10, PART, 3000)]).is_empty(), "nothing is written yet");
        let older = [worker, dirtied(10, PART, 400)];
        assert_eq!(shared_out(&older), [(10, 400, 4)], "the rest is from before");
    }

    #[test]
    fn who_writes_his_pages_himself_has_them_written_by_nobody_else() {
        let worker = wrote(7, "kworker/u8:2", 1000);
        let syncs = [worker.clone(), wrote(10, "app", 2900), dirtied(10, PART, 3000)];
        assert_eq!(shared_out(&syncs), [(10, 100, 1)]);
        let journal = [wrote(7, "jbd2/sda1-8", 1000), dirtied(10, PART, 3000)];
        assert!(shared_out(&journal).is_empty(), "a commit is nobody's alone");
    }

    #[test]
    fn a_layer_below_writes_back_what_was_written_back_above_and_the_rest_is_direct() {
        let crypt = wrote(7, "dmcrypt_write/2", 1000);
        let dirty = dirtied(10, ABOVE, 3000);
        let back = |above| {
            let worker = wrote_to(ABOVE, 8, "kworker/u8:2", above);
            shared_out(&[crypt.clone(), worker, dirty.clone()])
        };
        assert_eq!(back(1000), [(10, 1000, 10)]);
        assert_eq!(back(300), [(10, 300, 3)], "the other 700 somebody wrote past the page cache");
        assert!(back(0).is_empty());
        let own = dirtied(20, PART, 9000);
        let both = [crypt, wrote_to(ABOVE, 8, "kworker/u8:2", 400), dirty, own];
        assert_eq!(shared_out(&both), [(10, 400, 4), (20, 600, 6)]);
    }
}
