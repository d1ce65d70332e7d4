//! What is wrong with a disk that somebody waits for: the one decision that the disk cases share.
//!
//! The order is the order of proof. A configured limit that is met while the device idles needs no other
//! explanation. A tail of slow requests on a device that is otherwise quick is the device's. A neighbour that
//! asks for most of what the device does is the reason for its queue. A cache that misses makes a slow disk of a
//! quick one, an array that leaves members idle is as slow as one. What is left, a device that always has work and
//! delivers a flat rate slowly, is a cap. Anything else has no name here, and stays silent; so does a loop device
//! whose kernel workers have no CPU (queues.rs), which is no disk's fault.

pub(crate) mod cache_miss;
pub(crate) mod device_cap;
pub(crate) mod errors;
pub(crate) mod fail_slow;
pub(crate) mod journal;
pub(crate) mod own_throttle;
pub(crate) mod raid_imbalance;
pub(crate) mod saturated;
pub(crate) mod weight;

use crate::facts::*;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::measure::disk_queue::{self, DiskQueue, Service};
use crate::model::Model;
use crate::model::object::Object;
use crate::rules::old::{disk_cache_miss, disk_raid_imbalance, fs_copy_up, memory};
use crate::waits::WaitClass;
use crate::waits::timeline;

/// Below this mean time a request is not worth a complaint, whatever the queue, seconds.
pub(super) const SLOW_SECONDS: f64 = 0.004;
/// Without a queue a request takes the disk's own time. Up to about a turn of a slow platter it is just that
/// kind of disk, and one reader at a time gets no more from it.
const SLOW_ALONE_SECONDS: f64 = 0.010;
/// Fewer in flight on average are no queue: one that waits for each, and a bit.
pub(super) const QUEUED_MIN: f64 = 1.5;
/// At least this share of the work is somebody else's before he is to blame.
const NEIGHBOUR_SHARE: f64 = 0.6;

/// Whose limit it is.
#[derive(Debug, Clone)]
pub struct OwnLimit<'a> {
    /// The group.
    pub group: &'a Cgroup,
    /// The limit.
    pub limit: &'a IoLimit,
    /// What was reached of it, in its own unit a second.
    pub reached: f64,
}

/// The decision.
#[derive(Debug, Clone)]
pub enum Wrong<'a> {
    /// A cgroup's own limit.
    OwnThrottle(OwnLimit<'a>),
    /// Others force journal commits.
    Journal(ThreadRef),
    /// It answers with errors.
    Errors(u64),
    /// Others have the bigger weight: the group, its weight, and the victim's group and weight.
    Weight(&'a Cgroup, &'a Cgroup, ThreadRef),
    /// Others use it up.
    Saturated(ThreadRef, f64),
    /// The cache of this disk misses.
    CacheMiss(DeviceNumber),
    /// This array leaves members idle.
    Imbalance(DeviceNumber),
    /// Some requests are very slow, or all are, without a queue.
    FailSlow,
    /// It delivers a flat rate and no more.
    Cap,
}

/// A disk with all that was measured of it.
#[derive(Debug)]
pub struct View<'a> {
    /// Who it is.
    pub disk: &'a Disk,
    /// As a queue.
    pub queue: DiskQueue,
    /// By its requests; absent if request events were not seen.
    pub service: Option<Service>,
    /// What is wrong.
    pub wrong: Option<Wrong<'a>>,
}

/// More than a stray one: at least three, and one in a hundred.
pub fn has_errors(service: &Service) -> bool {
    service.errors >= 3 && service.errors as f64 >= 0.01 * service.count as f64
}

/// Disks stand on disks only so deep.
const DEPTH_MAX: u32 = 8;

/// A disk is another one, or is made of it.
pub fn stands_on(model: &Model, upper: &Disk, lower: DeviceNumber) -> bool {
    stands_above(model, upper, lower, DEPTH_MAX)
}

fn stands_above(model: &Model, upper: &Disk, lower: DeviceNumber, depth: u32) -> bool {
    let below = |dev: &DeviceNumber| {
        model.disk(*dev).is_some_and(|disk| stands_above(model, disk, lower, depth - 1))
    };
    upper.dev == lower || depth > 0 && upper.below.iter().any(below)
}

/// A cause's part that others than `who` lose, with a chain that one of them begins.
pub fn of_others(measures: &Measures<'_>, end: &End, who: &ThreadRef) -> End {
    let model = measures.model;
    let leaves: Vec<_> = measures
        .waits()
        .filter(|w| end.victims.contains_key(&w.thread.pid) && w.thread.pid != who.pid)
        .filter(|w| w.class.is_demand() && !w.kernel)
        .flat_map(|w| measures.graph.chains.follow_wait(w, model.begin_ns, model.end_ns))
        .filter_map(|leaf| leaf.named().map(|named| (leaf, named)))
        .filter(|(leaf, named)| leaf.links[*named].object == end.object)
        .collect();
    let others = End::gathered(end.class, end.object.clone(), &leaves);
    others.filter(|_| !measures.is_command()).unwrap_or_else(|| end.clone())
}

/// Whether a cause is one of waiting for a disk.
pub fn is_disk(end: &End) -> bool {
    matches!(end.class, WaitClass::Disk | WaitClass::PageFault)
        && matches!(end.object, Object::Disk(_))
}

/// Every cause that is a disk, with the decision.
pub fn views<'a>(measures: &'a Measures<'a>) -> impl Iterator<Item = (&'a End, View<'a>)> {
    measures
        .graph
        .ends
        .iter()
        .filter(|end| is_disk(end))
        .filter_map(|end| Some((end, view(measures, end)?)))
}

fn view<'a>(measures: &'a Measures<'a>, end: &'a End) -> Option<View<'a>> {
    let model = measures.model;
    let Object::Disk(Some(dev)) = end.object else { return None };
    let disk = model.disks.get(&dev)?;
    let queue = disk_queue::disk(model, disk.dev)?;
    let service = disk_queue::service(model, disk.dev);
    let mut view = View { disk, queue, service, wrong: None };
    view.wrong = decide(measures, end, &view);
    Some(view)
}

fn decide<'a>(measures: &'a Measures<'a>, end: &End, view: &View<'a>) -> Option<Wrong<'a>> {
    if let Some(limit) = own_limit(measures, end, view) {
        return Some(Wrong::OwnThrottle(limit));
    }
    if let Some(service) = &view.service
        && has_errors(service)
    {
        return Some(Wrong::Errors(service.errors));
    }
    // A disk that is read for pages dropped at a memory limit is an effect, and so is one that a file is
    // copied up on.
    if memory::is_thrash(measures, end) || fs_copy_up::is_effect(measures, end) {
        return None;
    }
    if disk_queue::worker_ready_seconds(measures.model, view.disk).is_some() {
        return None;
    }
    let mean = view.service.as_ref().map_or(view.queue.seconds, |s| s.mean.max(view.queue.seconds));
    if has_slow_tail(measures, end, view) {
        return Some(Wrong::FailSlow);
    }
    if let Some((neighbour, share)) = neighbour(measures, end, view) {
        let waited: f64 = end.victims.values().map(|(_, seconds)| seconds).sum();
        let journal = end.via.get(&WaitClass::Journal).copied().unwrap_or(0.0);
        let others = end
            .victims
            .iter()
            .filter(|(pid, _)| **pid != neighbour.pid)
            .map(|(_, (_, seconds))| seconds)
            .sum::<f64>();
        if journal >= 0.25 * others.min(waited) && journal > 0.0 {
            return Some(Wrong::Journal(neighbour));
        }
        if let Some((heavy, light)) = heavier(measures, end, view, &neighbour) {
            return Some(Wrong::Weight(heavy, light, neighbour));
        }
        if view.queue.busy >= 0.5 {
            return Some(Wrong::Saturated(neighbour, share));
        }
    }
    if let Some(cached) = disk_cache_miss::explaining(measures.model, view.disk) {
        return Some(Wrong::CacheMiss(cached));
    }
    if let Some(array) = disk_raid_imbalance::explaining(measures.model, view.disk) {
        return Some(Wrong::Imbalance(array));
    }
    let constant = is_constant_time(measures, view.disk.dev);
    let queued = view.queue.in_flight >= QUEUED_MIN && !constant;
    let slow = mean >= if queued { SLOW_SECONDS } else { SLOW_ALONE_SECONDS };
    if slow && view.queue.busy >= 0.7 {
        let flat = view.queue.rate_variation.is_some_and(|v| v <= 0.35)
            || view.queue.bytes_variation.is_some_and(|v| v <= 0.25);
        if constant {
            return Some(Wrong::FailSlow);
        }
        if flat || view.queue.rate_variation.is_none() {
            return Some(Wrong::Cap);
        }
    }
    None
}

/// A limit of a victim's group, or of a group above it, that is met while the device has little to do.
fn own_limit<'a>(measures: &'a Measures<'a>, end: &End, view: &View<'a>) -> Option<OwnLimit<'a>> {
    let model = measures.model;
    let mut victims: Vec<&(ThreadRef, f64)> = end.victims.values().collect();
    victims.sort_by(|a, b| b.1.total_cmp(&a.1));
    let groups: Vec<&Cgroup> = victims
        .iter()
        .take(8)
        .filter_map(|(thread, _)| model.identity(thread))
        .flat_map(|thread| limited_groups(measures, thread, view.disk.dev))
        .collect();
    let mut best: Option<OwnLimit<'a>> = None;
    for group in groups {
        for limit in group.io_limits.iter().filter(|limit| limit.dev == view.disk.dev) {
            let reached = reached(measures, group, limit, view);
            let met = reached / limit.per_second.max(1) as f64;
            let better =
                best.as_ref().is_none_or(|b| met > b.reached / b.limit.per_second.max(1) as f64);
            if (0.6..=1.35).contains(&met) && better {
                best = Some(OwnLimit { group, limit, reached });
            }
        }
    }
    best
}

fn limited_groups<'a>(
    measures: &'a Measures<'a>,
    thread: &Thread,
    dev: DeviceNumber,
) -> Vec<&'a Cgroup> {
    let above = |path: &str, group: &str| {
        path == group || group == "/" || path.starts_with(&format!("{group}/"))
    };
    let mine = |group: &&Cgroup| {
        group.io_limits.iter().any(|limit| limit.dev == dev)
            && thread.cgroups.iter().any(|m| {
                let same = if group.controllers.is_empty() {
                    m.controllers.is_empty()
                } else {
                    m.controllers.iter().any(|c| c == "blkio" || c == "io")
                };
                same && above(&m.path, &group.path)
            })
    };
    measures.model.cgroups.iter().filter(mine).collect()
}

/// What a group did of a limit's unit, a second: by its own counters, else by the device's.
fn reached(measures: &Measures<'_>, group: &Cgroup, limit: &IoLimit, view: &View<'_>) -> f64 {
    let seconds = measures.model.seconds().max(1e-9);
    let of = |io: &CgroupIo| match limit.kind.as_str() {
        "read_iops" => io.reads,
        "write_iops" => io.writes,
        "read_bps" => io.read_bytes,
        _ => io.write_bytes,
    };
    let by_group = measures.model.cgroup_change(group).map(|(first, last)| {
        let at = |s: &CgroupSample| s.io.iter().find(|io| io.dev == limit.dev).map_or(0, of);
        at(last).saturating_sub(at(first)) as f64 / seconds
    });
    match by_group {
        Some(rate) if rate > 0.0 => rate,
        _ if limit.kind.ends_with("iops") => view.queue.per_second,
        _ => view.queue.bytes_per_second,
    }
}

/// Some requests take far longer than the queue in front of them explains, while most are quick.
///
/// What a queue explains: a request that finds n others in flight waits for them too, so its time is
/// divided by n + 1 before it is compared with the median; and all bytes in flight, its own included, take
/// their time at the best rate that the disk showed. Requests of a queue that is merely long, or large, pass.
///
/// And it must be what is waited for: most of the waiting on the disk lies in such requests. A disk that stumbles now
/// and then below a flood of writes is held up by the flood.
///
/// Once is no tail: what ends at the same moment stood still for the same reason (a host that paused its guest, a
/// reset), however many requests it were.
fn has_slow_tail(measures: &Measures<'_>, end: &End, view: &View<'_>) -> bool {
    const FAR: f64 = 10.0;
    const WORTH_SECONDS: f64 = 0.03;
    const FEW: f64 = 0.3;
    const MOMENTS_MIN: usize = 3;
    const SAME_MOMENT_NS: Ns = 10_000_000;
    const OF_WAITING_MIN: f64 = 0.5;
    let Some(service) = &view.service else { return false };
    if service.count < 10 || service.median >= WORTH_SECONDS {
        return false;
    }
    let limit = (service.median * FAR).max(WORTH_SECONDS);
    let best = disk_queue::best_bytes_per_second(measures.model, view.disk.dev).max(1.0);
    let mut unexplained: Vec<(Ns, Ns)> = requests_by_depth(measures, view.disk.dev)
        .iter()
        .filter(|r| r.seconds / (r.depth as f64 + 1.0) >= limit)
        .filter(|r| r.seconds >= 3.0 * r.bytes_in_flight as f64 / best)
        .map(|r| (r.complete_ns, r.issue_ns))
        .collect();
    unexplained.sort_unstable();
    let apart = unexplained.windows(2).filter(|two| two[1].0 - two[0].0 > SAME_MOMENT_NS).count();
    !unexplained.is_empty()
        && apart + 1 >= MOMENTS_MIN
        && (unexplained.len() as f64) < FEW * service.count as f64
        && part_of_waiting(measures, end, &unexplained) >= OF_WAITING_MIN
}

/// The part of all waiting on a disk that passes while one of these requests, told by (end, begin), is inside it.
fn part_of_waiting(measures: &Measures<'_>, end: &End, requests: &[(Ns, Ns)]) -> f64 {
    let stretches = timeline::joined(requests.iter().map(|(end, begin)| (*begin, *end)).collect());
    let waits = measures.waits();
    let (mut all, mut inside) = (0_u64, 0_u64);
    for wait in waits.filter(|w| w.class == WaitClass::Disk && w.object == end.object) {
        all += wait.end_ns - wait.begin_ns;
        inside += stretches.iter().map(|(begin, end)| wait.within_ns(*begin, *end)).sum::<Ns>();
    }
    inside as f64 / all.max(1) as f64
}

/// A long request with what stood before it.
struct Met {
    /// Long requests in flight at its issue.
    depth: usize,
    /// Their bytes and its own.
    bytes_in_flight: u64,
    /// Its time inside the device.
    seconds: f64,
    /// When it went there.
    issue_ns: Ns,
    /// When it was done.
    complete_ns: Ns,
}

fn requests_by_depth(measures: &Measures<'_>, dev: DeviceNumber) -> Vec<Met> {
    let mut requests: Vec<(Ns, Ns, u64)> = measures
        .model
        .requests
        .iter()
        .filter(|r| r.dev == dev && r.operation != DiskOperation::Flush)
        .map(|r| (r.issue_ns, r.complete_ns, u64::from(r.bytes)))
        .collect();
    requests.sort_unstable();
    let mut open: Vec<(Ns, u64)> = Vec::new();
    requests
        .into_iter()
        .map(|(issue, complete, bytes)| {
            open.retain(|(end, _)| *end > issue);
            let depth = open.len();
            open.push((complete, bytes));
            Met {
                depth,
                bytes_in_flight: open.iter().map(|(_, bytes)| bytes).sum(),
                seconds: complete.saturating_sub(issue) as f64 / 1e9,
                issue_ns: issue,
                complete_ns: complete,
            }
        })
        .collect()
}

/// Somebody who is not (mainly) a victim and does most of what the disk does.
fn neighbour(measures: &Measures<'_>, end: &End, view: &View<'_>) -> Option<(ThreadRef, f64)> {
    let used: Vec<(&DiskUse, f64)> = measures
        .model
        .disk_use
        .iter()
        .filter(|used| used.dev == view.disk.dev)
        .map(|used| {
            let bytes = (used.read_bytes + used.write_bytes) as f64;
            let requests = (used.reads + used.writes) as f64;
            // A request costs a device about as much as 64 KiB more of a long one.
            (used, bytes + requests * 65536.0)
        })
        .collect();
    // Commit blocks are the journal's, for whoever commits: they are nobody's demand of his own, but who asks for
    // less than they do is no more than another who commits.
    let of_journal = |thread: &ThreadRef| thread.comm.starts_with("jbd2/");
    let (journals, demands): (Vec<_>, Vec<_>) =
        used.iter().partition(|(used, _)| of_journal(&used.process));
    let journal: f64 = journals.iter().map(|(_, work)| work).sum();
    let total: f64 = demands.iter().map(|(_, work)| work).sum();
    let is_kernel = |thread: &ThreadRef| {
        measures.model.threads.get(&thread.pid).is_some_and(|t| t.kernel)
            || thread.comm.starts_with("kworker")
            || of_journal(thread)
    };
    let (most, work) = used
        .iter()
        .filter(|(used, _)| !is_kernel(&used.process))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = work / total.max(1.0);
    let others_suffer = end.victims.iter().any(|(pid, (_, seconds))| {
        *pid != most.process.pid && *seconds >= 0.1 * measures.wall_seconds()
    });
    // Who works for the victims is no neighbour of theirs.
    let pid = most.process.pid;
    let serves =
        end.links[0].who.pid != pid && end.links[1..].iter().any(|link| link.who.pid == pid);
    let is_most = share >= NEIGHBOUR_SHARE && *work >= journal;
    (is_most && others_suffer && !serves).then(|| (most.process.clone(), share))
}

/// The neighbour's group has at least twice the I/O weight of a victim's, under a scheduler that heeds it.
fn heavier<'a>(
    measures: &'a Measures<'a>,
    end: &End,
    view: &View<'_>,
    neighbour: &ThreadRef,
) -> Option<(&'a Cgroup, &'a Cgroup)> {
    if view.disk.scheduler != "bfq"
        && !measures.model.cgroups.iter().any(|g| g.path == "/" && g.io_weight.is_some())
    {
        return None;
    }
    let group = |thread: &ThreadRef| {
        measures.model.cgroup_of(thread, "blkio").or_else(|| measures.model.cgroup_of(thread, "io"))
    };
    let heavy = group(neighbour)?;
    let mut victims: Vec<&(ThreadRef, f64)> =
        end.victims.values().filter(|(thread, _)| thread.pid != neighbour.pid).collect();
    victims.sort_by(|a, b| b.1.total_cmp(&a.1));
    let light = group(&victims.first()?.0)?;
    let (more, less) = (heavy.io_weight?, light.io_weight?);
    (heavy.path != light.path && more >= 2 * less.max(1)).then_some((heavy, light))
}

/// Every request takes about the same long time however many are in flight: slow, not capped. It takes
/// requests that met different depths to tell the two apart.
fn is_constant_time(measures: &Measures<'_>, dev: DeviceNumber) -> bool {
    let by_depth = requests_by_depth(measures, dev);
    if by_depth.len() < 12 {
        return false;
    }
    let depths: Vec<f64> = by_depth.iter().map(|r| r.depth as f64 + 1.0).collect();
    let times: Vec<f64> = by_depth.iter().map(|r| r.seconds).collect();
    let varied = disk_queue::spread(&depths).is_some_and(|v| v > 0.3);
    varied && disk_queue::spread(&times).is_some_and(|v| v < 0.1)
}

/// The rules of this area; the first that matches claims an end.
pub static LADDER: &[&super::Rule] = &[
    &cache_miss::RULE,
    &device_cap::RULE,
    &errors::RULE,
    &fail_slow::RULE,
    &journal::RULE,
    &own_throttle::RULE,
    &raid_imbalance::RULE,
    &saturated::RULE,
    &weight::RULE,
];
