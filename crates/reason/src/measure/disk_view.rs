//! What each disk did over the window: its queue, its requests, who used it, the limits set on it.
//!
//! Each disk is read once, and every rule that asks about it compares the same figures. A disk's requests come from two
//! places that know nothing of each other: the kernel's counters ([`DiskQueue`]) and the request events ([`Service`], the
//! long requests one by one). Who asked comes from a third, the bios. Must not: say what is wrong (rules/disk).
//!
//! Rejected: figures worked out when they are asked for, behind a cell. A cell would tie the measures to one lifetime,
//! and a disk costs less than one thread's timeline.

use super::disk_array::{self, DiskArray};
use super::disk_cache::{self, DiskCache};
use super::disk_limits::{self, Limited, Upper};
use super::disk_queue::{self, DiskQueue, Service};
pub use super::disk_threads::is_kernel;
use super::write_back::{self, WrittenBack};
use crate::facts::*;
use crate::model::Model;
use crate::model::disk::DEPTH_MAX;
pub use crate::model::kernel_threads::is_journal;
use crate::model::kernel_threads::writes_for_others;
use crate::threshold::Threshold;
use crate::waits::timeline::Timelines;
use std::collections::BTreeMap;

/// A request costs a device about as much as this many bytes more of a long one.
const BYTES_OF_A_REQUEST: f64 = 65536.0;

/// When a disk below another is the slow one of the two.
pub static SLOW_BELOW: Threshold = Threshold::new(
    0.7,
    "1",
    "of the time in which a disk has requests in flight, the part in which the one below works, to be what is waited for",
    "chosen: most; a loop device over a disk of 15 requests/s reaches 0.98",
);

/// All disks, and what is made of several.
#[derive(Debug, Default)]
pub struct Disks<'a> {
    /// Each disk.
    pub views: BTreeMap<DeviceNumber, DiskView<'a>>,
    /// Caches in front of slow disks.
    pub caches: Vec<DiskCache<'a>>,
    /// Arrays of disks that have the same content.
    pub arrays: Vec<DiskArray<'a>>,
    /// Over which they were measured.
    pub window_seconds: f64,
}

/// A disk with all that was measured of it.
#[derive(Debug)]
pub struct DiskView<'a> {
    /// Who it is.
    pub disk: &'a Disk,
    /// Its counters were read over the window; else `queue` is empty.
    pub is_counted: bool,
    /// As a queue.
    pub queue: DiskQueue,
    /// By its requests; absent if request events were not seen.
    pub service: Option<Service>,
    /// Of a loop device: how long the kernel workers that serve it stood ready without a CPU, if that is long.
    pub workers_ready_seconds: Option<f64>,
    /// Its best rate between two samples, bytes a second.
    pub best_bytes_per_second: f64,
    /// Its long requests, in the order in which they went there.
    pub requests: Vec<LongRequest>,
    /// Who asked for what.
    pub users: Vec<DiskUser<'a>>,
    /// The part of that which the kernel asked for, for whom.
    pub written_back: Vec<WrittenBack<'a>>,
    /// The limits that groups have on it.
    pub limits: Limited<'a>,
}

/// A long request with what stood before it.
#[derive(Debug, Clone, Copy)]
pub struct LongRequest {
    /// Long requests in flight when it went to the device.
    pub depth: usize,
    /// Their bytes and its own.
    pub bytes_in_flight: u64,
    /// Its time inside the device.
    pub seconds: f64,
    /// When it went there.
    pub issue_ns: Ns,
    /// When it was done.
    pub complete_ns: Ns,
}

/// What one process asked of a disk.
#[derive(Debug)]
pub struct DiskUser<'a> {
    /// As it was counted.
    pub used: &'a DiskUse,
    /// Its work: bytes, and a fixed part a request.
    pub work: f64,
    /// The journal's own thread: it writes for whoever commits.
    pub is_journal: bool,
    /// A thread of the kernel, the journal's included.
    pub is_kernel: bool,
}

/// What one process asks of a disk, itself or by what it made dirty.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Who.
    pub process: &'a ThreadRef,
    /// Its work: of what it asks for itself.
    pub own: f64,
    /// The same of what the kernel writes back for it.
    pub written_back: f64,
}

impl Asked<'_> {
    /// All of it.
    pub fn work(&self) -> f64 {
        self.own + self.written_back
    }
}

impl<'a> Disks<'a> {
    /// Measures all disks of a look.
    pub fn of(model: &'a Model, timelines: &Timelines) -> Self {
        let mut requests: BTreeMap<DeviceNumber, Vec<&Request>> = BTreeMap::new();
        for request in &model.disk.requests {
            requests.entry(request.dev).or_default().push(request);
        }
        let mut views: BTreeMap<DeviceNumber, DiskView<'a>> = BTreeMap::new();
        for disk in model.disk.all.values() {
            let dev = disk.dev;
            let queue = disk_queue::disk(model, dev);
            let view = DiskView {
                disk,
                is_counted: queue.is_some(),
                queue: queue.unwrap_or_default(),
                service: disk_queue::service(model, dev),
                workers_ready_seconds: disk_queue::worker_ready_seconds(model, disk),
                best_bytes_per_second: disk_queue::best_bytes_per_second(model, dev),
                requests: long_requests(requests.get(&dev).map_or(&[], Vec::as_slice)),
                users: users(model, dev),
                written_back: write_back::of(model, dev),
                limits: Limited::default(),
            };
            views.insert(dev, view);
        }
        let window_seconds = model.look.seconds();
        let above = |lower| uppers(model, &views, lower, window_seconds);
        for (dev, limits) in disk_limits::of(model, timelines, above) {
            if let Some(view) = views.get_mut(&dev) {
                view.limits = limits;
            }
        }
        views.values_mut().for_each(|view| use_of_device(model, view));
        let (caches, arrays) = (disk_cache::of(model), disk_array::of(model));
        Self { views, caches, arrays, window_seconds }
    }

    /// The disk whose work a disk waits for: itself, or the one that it is made of (a loop device's file lies on it) where that
    /// one works nearly all the time in which the upper one has something in flight. Which member of an array is
    /// waited for, or what a cache has, is not asked here.
    pub fn slow_layer(&self, dev: DeviceNumber) -> Option<&DiskView<'a>> {
        let mut view = self.views.get(&dev)?;
        for _ in 0..DEPTH_MAX {
            let [below] = view.disk.below[..] else { break };
            let Some(below) = self.views.get(&below).filter(|below| below.is_counted) else {
                break;
            };
            let outstanding = view.queue.busy * self.window_seconds;
            if below.worked_seconds(self.window_seconds) < SLOW_BELOW.value * outstanding {
                break;
            }
            view = below;
        }
        Some(view)
    }
}

impl<'a> DiskView<'a> {
    /// Mean time of a request inside the device, seconds: by its events, else by the counters.
    pub fn inside_seconds(&self) -> f64 {
        self.service.as_ref().map_or(self.queue.seconds, |service| service.mean)
    }

    /// The greater of both where they differ: events may miss requests.
    pub fn inside_seconds_max(&self) -> f64 {
        self.inside_seconds().max(self.queue.seconds)
    }

    /// For how long the device had something to do, at most. Each request's time counts in full even where several were
    /// inside at once; the counters' busy time counts in ticks of the clock, several times too long for short requests.
    pub fn worked_seconds(&self, window_seconds: f64) -> f64 {
        let busy = self.queue.busy * window_seconds;
        let Some(service) = &self.service else { return busy };
        let completed = (self.queue.completed as f64).max(service.all as f64);
        let inside = service.all_seconds / service.all.max(1) as f64 * completed;
        if self.is_counted { inside.min(busy) } else { inside }
    }

    /// What each process asks for, most first, kernel threads left out: what they write back is theirs who made it dirty, as far as it is
    /// known.
    pub fn asked(&self) -> Vec<Asked<'a>> {
        let own = self.users.iter().filter(|user| !user.is_kernel);
        let own = own.map(|user| (&user.used.process, user.work, 0.0));
        let back = self.written_back.iter();
        let back = back.map(|it| (it.process, 0.0, work(it.bytes, it.requests)));
        let mut all: BTreeMap<u32, Asked<'a>> = BTreeMap::new();
        for (process, own, back) in own.chain(back) {
            let nothing = Asked { process, own: 0.0, written_back: 0.0 };
            let sum = all.entry(process.pid).or_insert(nothing);
            (sum.own, sum.written_back) = (sum.own + own, sum.written_back + back);
        }
        let mut all: Vec<Asked<'a>> = all.into_values().collect();
        all.sort_by(|a, b| b.work().total_cmp(&a.work()));
        all
    }

    /// What so much work is of all, 0 to 1. Commit blocks are the journal's, for whoever commits: they are nobody's demand of his own.
    pub fn share(&self, work: f64) -> f64 {
        work / self.work_of(false).max(1.0)
    }

    /// Whether it is at least as much as the commit blocks: who asks for less is no more than another who commits.
    pub fn is_above_journal(&self, work: f64) -> bool {
        work >= self.work_of(true)
    }

    fn work_of(&self, journal: bool) -> f64 {
        let of = self.users.iter().filter(|user| user.is_journal == journal);
        of.map(|user| user.work).sum()
    }

    /// Of its work the part that the kernel's workers write for nobody who is known, 0 to 1: it was made dirty before the look, in small
    /// pieces, or was not counted here. Of a disk that others are made of it may be anybody's, past the page cache too.
    pub fn written_for_unknown(&self) -> f64 {
        let by_kernel = self.users.iter().filter(|user| writes_for_others(&user.used.process));
        let by_kernel: f64 =
            by_kernel.map(|user| work(user.used.write_bytes as f64, user.used.writes as f64)).sum();
        let known: f64 = self.written_back.iter().map(|it| work(it.bytes, it.requests)).sum();
        let all: f64 = self.users.iter().map(|user| user.work).sum();
        (by_kernel - known).max(0.0) / all.max(1.0)
    }

    /// Coefficients of variation over its long requests: of how many were in flight, and of their times.
    pub fn spread_of_depth_and_time(&self) -> Option<(f64, f64)> {
        let depths: Vec<f64> = self.requests.iter().map(|r| r.depth as f64 + 1.0).collect();
        let times: Vec<f64> = self.requests.iter().map(|r| r.seconds).collect();
        Some((disk_queue::spread(&depths)?, disk_queue::spread(&times)?))
    }
}

fn long_requests(of_disk: &[&Request]) -> Vec<LongRequest> {
    let data = of_disk.iter().filter(|request| request.operation != DiskOperation::Flush);
    let mut requests: Vec<(Ns, Ns, u64)> =
        data.map(|r| (r.issue_ns, r.complete_ns, u64::from(r.bytes))).collect();
    requests.sort_unstable();
    let mut open: Vec<(Ns, u64)> = Vec::new();
    requests
        .into_iter()
        .map(|(issue_ns, complete_ns, bytes)| {
            open.retain(|(end, _)| *end > issue_ns);
            let depth = open.len();
            open.push((complete_ns, bytes));
            LongRequest {
                depth,
                bytes_in_flight: open.iter().map(|(_, bytes)| bytes).sum(),
                seconds: complete_ns.saturating_sub(issue_ns) as f64 / 1e9,
                issue_ns,
                complete_ns,
            }
        })
        .collect()
}

/// What so many bytes in so many requests cost a device, in bytes of a long one.
fn work(bytes: f64, requests: f64) -> f64 {
    bytes + requests * BYTES_OF_A_REQUEST
}

fn users<'a>(model: &'a Model, dev: DeviceNumber) -> Vec<DiskUser<'a>> {
    let user = |used: &'a DiskUse| {
        let is_journal = is_journal(&used.process);
        DiskUser {
            used,
            work: work(
                (used.read_bytes + used.write_bytes) as f64,
                (used.reads + used.writes) as f64,
            ),
            is_journal,
            is_kernel: is_journal || is_kernel(model, &used.process),
        }
    };
    model.disk.used.iter().filter(|used| used.dev == dev).map(user).collect()
}

/// Where a group's own counters say nothing, what the disk did is all that is known of its use.
fn use_of_device(model: &Model, view: &mut DiskView<'_>) {
    for limit in view.limits.uses.iter_mut().filter(|limit| !limit.is_own_count) {
        limit.reached = disk_queue::rate_of(model, view.disk.dev, &limit.limit.kind);
        limit.completed = view.queue.completed;
    }
}

/// The disks that are made of one. Whose kernel workers have no CPU is slow for that.
fn uppers(
    model: &Model,
    views: &BTreeMap<DeviceNumber, DiskView<'_>>,
    lower: DeviceNumber,
    window_seconds: f64,
) -> Vec<Upper> {
    let stands_on_it = |view: &&DiskView<'_>| {
        let is_ready = view.workers_ready_seconds.is_none();
        let is_upper = view.disk.dev != lower && view.is_counted && is_ready;
        is_upper && model.disk.stands_on_alone(view.disk, lower)
    };
    let upper = |view: &DiskView<'_>| Upper {
        dev: view.disk.dev,
        worked_seconds: view.worked_seconds(window_seconds),
    };
    views.values().filter(stands_on_it).map(upper).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(issue_ms: Ns, complete_ms: Ns) -> Request {
        Request {
            bytes: 4096,
            issue_ns: issue_ms * 1_000_000,
            complete_ns: complete_ms * 1_000_000,
            ..Request::default()
        }
    }

    #[test]
    fn a_request_knows_what_stood_before_it() {
        let requests = [request(5, 40), request(0, 10), request(12, 50)];
        let met = long_requests(&requests.iter().collect::<Vec<_>>());
        let depths: Vec<usize> = met.iter().map(|one| one.depth).collect();
        assert_eq!(depths, [0, 1, 1], "the first was done before the third came");
        assert_eq!(met[2].bytes_in_flight, 8192);
    }

    #[test]
    fn a_disk_works_no_longer_than_its_requests_take() {
        let disk = Disk::default();
        let view = |busy: f64, service: Option<Service>| DiskView {
            disk: &disk,
            is_counted: true,
            queue: DiskQueue { busy, completed: 40, ..DiskQueue::default() },
            service,
            workers_ready_seconds: None,
            best_bytes_per_second: 0.0,
            requests: Vec::new(),
            users: Vec::new(),
            written_back: Vec::new(),
            limits: Limited::default(),
        };
        // 40 requests of half a millisecond: 20 ms, where ticks of the clock say 250.
        let service = Service { all: 40, all_seconds: 0.02, ..Service::default() };
        assert!((view(0.05, Some(service.clone())).worked_seconds(5.0) - 0.02).abs() < 1e-9);
        assert!((view(0.05, None).worked_seconds(5.0) - 0.25).abs() < 1e-9);
        // Half of the events were lost.
        let service = Service { all: 20, all_seconds: 0.01, ..service };
        assert!((view(0.05, Some(service)).worked_seconds(5.0) - 0.02).abs() < 1e-9);
    }
}
