//! Which disk a wait is for where nothing of the wait itself says it: the only one that had work all the while.
//!
//! sync(2), syncfs(2) and umount(2) wait for pages that others dirtied and kworkers submit: there is no descriptor, no submission of
//! the waiter's, and a kworker ends the wait after the completion, on another CPU. What is left is the disks' own counters
//! (/proc/diskstats): a page under writeback has its request in flight from the wait's begin to its end, so a disk that was seen without
//! a request meanwhile is not the one. Must not: choose between two disks that worked all the while, unless one is made of the
//! other; or where a cgroup may be held back on another disk, which looks idle then, or another host has files here. Rejected: the disk that did most (a
//! neighbour's reads are no writeback).

use crate::facts::*;
use crate::model::Model;
use crate::threshold::Threshold;

/// Readings of the counters in and around a wait.
static READINGS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "readings of a disk's counters, from the last before the wait to the first after it: with fewer a disk that is at work by \
     turns looks like one that always is",
    "chosen: one more than the two that any wait has around it",
);
/// How much of the time it was at work.
static AT_WORK_MIN: Threshold = Threshold::new(
    0.9,
    "1",
    "part of the time between those readings in which the disk had requests in flight, by its own clock",
    "a loop device at 6 MB/s below a sync: 1.00; the clock counts in ticks, and the readings reach beyond the wait",
);

/// Types of file systems whose pages another host writes: no disk of this one has a request then.
const ELSEWHERE: &[&str] =
    &["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "lustre", "gpfs", "virtiofs"];

/// The disk that was at work from a wait's begin to its end, if it is the only one.
pub(super) fn only(model: &Model, from_ns: Ns, to_ns: Ns) -> Option<DeviceNumber> {
    let disks = &model.disk;
    if disks.mounts.iter().any(|mount| ELSEWHERE.contains(&mount.fs_type.as_str())) {
        return None;
    }
    let series = |disk: &Disk| disks.samples.get(&disk.dev).map_or(&[][..], Vec::as_slice);
    // Before and after the wait it may well have had none.
    let may_be = |disk: &&Disk| {
        let within = series(disk).iter().filter(|(at, _)| (from_ns + 1..to_ns).contains(at));
        within.clone().all(|(_, reading)| reading.in_flight > 0) && has_worked(series(disk))
    };
    let at_work: Vec<&Disk> = disks.all.values().filter(may_be).collect();
    // Of a stack the upper one is waited for, and leads to the one below.
    let is_below = |disk: &&&Disk| at_work.iter().any(|upper| upper.below.contains(&disk.dev));
    let mut tops = at_work.iter().filter(|disk| !is_below(disk));
    let only = tops.next().filter(|_| tops.next().is_none())?;
    if !worked(around(series(only), from_ns, to_ns)) {
        return None;
    }
    let mut limits = model.containers.cgroups.iter().flat_map(|group| &group.io_limits);
    limits.all(|limit| at_work.iter().any(|disk| disk.dev == limit.dev)).then_some(only.dev)
}

/// The readings from the last before a time to the first after it.
fn around(series: &[(Ns, DiskSample)], from_ns: Ns, to_ns: Ns) -> &[(Ns, DiskSample)] {
    let first = series.partition_point(|(at, _)| *at <= from_ns).saturating_sub(1);
    let end = series.partition_point(|(at, _)| *at < to_ns).saturating_add(1);
    series.get(first..end.min(series.len())).unwrap_or_default()
}

/// Whether a disk has done anything in the look: one that stands by is nobody's.
fn has_worked(series: &[(Ns, DiskSample)]) -> bool {
    let busy = |at: Option<&(Ns, DiskSample)>| at.map_or(0, |(_, reading)| reading.busy_ms);
    busy(series.last()) > busy(series.first())
}

fn worked(readings: &[(Ns, DiskSample)]) -> bool {
    let [(from_ns, first), .., (to_ns, last)] = readings else { return false };
    let busy_ns = last.busy_ms.saturating_sub(first.busy_ms).saturating_mul(1_000_000);
    let all_ns = to_ns.saturating_sub(*from_ns);
    readings.len() >= READINGS_MIN.count() && busy_ns as f64 >= AT_WORK_MIN.value * all_ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scenes::{LOOK_NS, fact, host, thread};
    use crate::waits::WaitClass;
    use crate::waits::objects::disk_of;
    use crate::waits::timeline::Observed;

    const LOOP: DeviceNumber = DeviceNumber { major: 7, minor: 0 };
    const OTHER: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    /// A disk with requests in flight in every tenth of a second but some.
    fn disk(dev: DeviceNumber, below: &[DeviceNumber], idle: &[u64]) -> Vec<Fact> {
        let mut facts =
            vec![fact(Body::Disk(Disk { dev, below: below.to_vec(), ..Disk::default() }))];
        let mut busy_ms = 0;
        for tenth in 0..=50_u64 {
            let in_flight = u64::from(!idle.contains(&tenth));
            busy_ms += in_flight * 100;
            let sample = DiskSample { dev, in_flight, busy_ms, ..DiskSample::default() };
            facts.push(Fact { at_ns: tenth * LOOK_NS / 50, body: Body::DiskSample(sample) });
        }
        facts
    }

    /// The disk of one wait of sync(2) for writeback, from 1 to 3 s.
    fn waited_for(facts: Vec<Fact>) -> Option<DeviceNumber> {
        let place = Place {
            state: WaitState::DiskSleep,
            iowait: true,
            syscall: "sync".into(),
            ..Place::default()
        };
        let (begin_ns, end_ns, thread) = (LOOK_NS / 5, LOOK_NS / 5 * 3, thread(10, "sync"));
        let wake = Some(Wake { at_ns: end_ns, by_kernel_thread: true, ..Wake::default() });
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        let wait = Fact { at_ns: end_ns, body: Body::Wait(wait) };
        let observed = Observed::new([host(), facts, vec![wait]].concat());
        let mut waits = observed.timelines.waits().filter(|wait| wait.class == WaitClass::Disk);
        disk_of(&observed.model, waits.next()?)
    }

    #[test]
    fn the_only_disk_at_work_all_the_while_is_waited_for() {
        let quiet = disk(OTHER, &[], &[12, 20]);
        assert_eq!(waited_for([disk(LOOP, &[], &[45]), quiet].concat()), Some(LOOP));
    }

    #[test]
    fn of_two_disks_at_work_neither_is_named_but_where_one_is_made_of_the_other() {
        let both =
            |below: &[DeviceNumber]| [disk(LOOP, below, &[]), disk(OTHER, &[], &[])].concat();
        assert_eq!(waited_for(both(&[])), None);
        assert_eq!(waited_for(both(&[OTHER])), Some(LOOP));
    }

    #[test]
    fn a_disk_that_was_idle_as_the_wait_began_and_ended_may_be_it_as_well() {
        let synced = disk(OTHER, &[], &[10, 30]);
        assert_eq!(waited_for([disk(LOOP, &[], &[]), synced].concat()), None);
    }

    #[test]
    fn pages_of_another_hosts_files_may_be_it() {
        let mount = Mount { fs_type: "nfs4".into(), ..Mount::default() };
        let facts = [disk(LOOP, &[], &[]), vec![fact(Body::Mount(mount))]].concat();
        assert_eq!(waited_for(facts), None);
    }

    #[test]
    fn a_disk_without_a_request_meanwhile_is_not_it() {
        assert_eq!(waited_for(disk(LOOP, &[], &[20])), None);
    }

    #[test]
    fn what_a_limit_holds_back_before_another_disk_may_be_it() {
        let limited = |dev| {
            let (kind, file) = ("write_bps".into(), "io.max".into());
            let limit = IoLimit { dev, kind, per_second: 1 << 20, file };
            fact(Body::Cgroup(Cgroup { io_limits: vec![limit], ..Cgroup::default() }))
        };
        let with = |dev| [disk(LOOP, &[], &[]), vec![limited(dev)]].concat();
        assert_eq!(waited_for(with(OTHER)), None);
        assert_eq!(waited_for(with(LOOP)), Some(LOOP));
    }
}
