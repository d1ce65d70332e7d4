//! Limits that cgroups have on a disk: what was used of each, and for how long its group waited for the disk.
//!
//! The figures stand side by side so that a rule can compare them: a group that waits longer than the disk works waits
//! before the disk. What a group waits is the time in which at least one of its threads waits for the disk or for the
//! journal on it, not the sum over threads: so it can be held against the time in which the disk works. Must not: say
//! that a limit is to blame (rules/disk/own_throttle.rs).
//!
//! A group's member is who belongs to it by its cgroup files, or whose bios were charged to it: that is known even of
//! processes that were gone before anybody read where they belonged.
//!
//! A disk may be made of the limited one (a loop device's file lies on it): then the group's bios wait below, while the upper disk has
//! requests in flight. Waits for it count too, but not where it had nothing in flight: those wait before it, for another reason.

use super::disk_threads::is_kernel;
use crate::facts::*;
use crate::model::kernel_threads::{is_journal, is_journal_of};
use crate::model::object::Object;
use crate::model::{Model, membership};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::{Timelines, WaitSpan, common, joined};
use std::collections::{BTreeMap, BTreeSet};

/// When waits for a disk are for the one below it.
pub static INSIDE_UPPER: Threshold = Threshold::new(
    0.5,
    "1",
    "of the time in which a disk that is made of the limited one is waited for, the part in which it has requests in flight: with      less they wait before it, and not below",
    "chosen: most; dd oflag=dsync on a loop device whose file lies on a limited disk: 0.99",
);

/// A limit of a group on a disk.
#[derive(Debug, Clone)]
pub struct LimitUse<'a> {
    /// The group.
    pub group: &'a Cgroup,
    /// The limit.
    pub limit: &'a IoLimit,
    /// What was reached of it, in its own unit a second: by the group's own counters, else by the disk's.
    pub reached: f64,
    /// It is known of the group itself.
    pub is_own_count: bool,
    /// Operations that the group completed on the disk.
    pub completed: u64,
    /// It limits writes, and the group writes here, or would: a commit of the journal may have to wait for them.
    pub holds_journal: bool,
    /// Processes of the group that wait for the disk, or use it.
    pub members: BTreeSet<u32>,
    /// Time in which somebody of the group waits for the disk, or for a commit that does, seconds.
    pub waited_seconds: f64,
    /// The part of it that is for data, with no wait for a free place in the disk's queue in it: what passes between a
    /// bio's submission and its completion.
    pub data_seconds: f64,
    /// Time in which somebody else waits for a commit that waits for the disk, where that may be for the group's writes.
    pub journal_seconds: f64,
    /// Time in which somebody else waits for pages to be written, where that may be the group's.
    pub writeback_seconds: f64,
    /// Somebody of the group waits for bios that the kernel holds back for a limit on the disk, which may be this one: what he
    /// asks for is not of the other direction. Which of several it is the kernel does not say.
    pub holds_bios: bool,
}

impl LimitUse<'_> {
    /// The part of the limit that is used.
    pub fn used(&self) -> f64 {
        self.reached / self.limit.per_second.max(1) as f64
    }
}

/// The limits on one disk.
#[derive(Debug, Default)]
pub struct Limited<'a> {
    /// Disks whose waits the limits may explain: this one, and what is made of it and had requests in flight meanwhile.
    pub waited_for: BTreeSet<DeviceNumber>,
    /// Each limit.
    pub uses: Vec<LimitUse<'a>>,
}

impl Limited<'_> {
    /// A wait for a disk may be for these limits: it is theirs, or was seen to have its requests below.
    pub fn may_hold(&self, on: Option<DeviceNumber>) -> bool {
        on.is_some_and(|on| self.waited_for.contains(&on))
    }
}

/// A disk that is made of another.
pub(super) struct Upper {
    pub dev: DeviceNumber,
    /// For how long it had requests in flight, seconds.
    pub worked_seconds: f64,
}

/// All limits, by disk. `above`: the disks that are made of one.
pub(super) fn of<'a>(
    model: &'a Model,
    timelines: &Timelines,
    above: impl Fn(DeviceNumber) -> Vec<Upper>,
) -> BTreeMap<DeviceNumber, Limited<'a>> {
    let mut all: BTreeMap<DeviceNumber, Limited<'a>> = BTreeMap::new();
    let limits =
        model.containers.cgroups.iter().flat_map(|g| g.io_limits.iter().map(move |l| (g, l)));
    for (group, limit) in limits {
        all.entry(limit.dev).or_default().uses.push(counted(model, group, limit));
    }
    if all.is_empty() {
        return all;
    }
    let stacks: BTreeMap<DeviceNumber, Vec<Upper>> =
        all.keys().map(|dev| (*dev, above(*dev))).collect();
    let uppers = stacks.values().flatten().map(|upper| upper.dev);
    let waits = waits(model, timelines, &all.keys().copied().chain(uppers).collect());
    for (dev, limited) in &mut all {
        let is_inside = |upper: &&Upper| {
            let waited = waits.get(&upper.dev).map_or(0.0, |on| on.direct_seconds(model));
            waited > 0.0 && upper.worked_seconds >= INSIDE_UPPER.value * waited
        };
        let uppers = stacks[dev].iter().filter(is_inside).map(|upper| upper.dev);
        limited.waited_for = uppers.chain([*dev]).collect();
        let together = OnDisk::of_all(limited.waited_for.iter().filter_map(|dev| waits.get(dev)));
        let pages = pages_seconds(model, &limited.uses, &together);
        limited.uses.iter_mut().for_each(|limit| add_waits(model, limit, &together, pages));
    }
    all
}

/// Waits for a disk, or for several that are one stack.
#[derive(Default)]
struct OnDisk<'a> {
    /// For the disk itself.
    direct: Vec<&'a WaitSpan>,
    /// For a commit of the journal on it.
    journal: Vec<&'a WaitSpan>,
    /// Stretches in which the journal's own thread waits for the disk.
    commits: Vec<(Ns, Ns)>,
}

impl<'a> OnDisk<'a> {
    fn of_all<'b>(all: impl Iterator<Item = &'b Self>) -> Self
    where
        'a: 'b,
    {
        let mut together = Self::default();
        for on in all {
            together.direct.extend(&on.direct);
            together.journal.extend(&on.journal);
            together.commits.extend(&on.commits);
        }
        together.commits = joined(std::mem::take(&mut together.commits));
        together
    }

    /// For how long somebody waits for it.
    fn direct_seconds(&self, model: &Model) -> f64 {
        seconds_within(model, self.direct.iter().map(|it| (it.begin_ns, it.end_ns)).collect())
    }
}

/// For how long at least one of several stretches lasts within the look.
fn seconds_within(model: &Model, stretches: Vec<(Ns, Ns)>) -> f64 {
    let within = common(&joined(stretches), &[(model.look.begin_ns, model.look.end_ns)]);
    within.iter().map(|(begin, end)| end - begin).sum::<Ns>() as f64 / 1e9
}

fn waits<'a>(
    model: &Model,
    timelines: &'a Timelines,
    of: &BTreeSet<DeviceNumber>,
) -> BTreeMap<DeviceNumber, OnDisk<'a>> {
    let mut all: BTreeMap<DeviceNumber, OnDisk<'a>> = BTreeMap::new();
    for wait in timelines.waits() {
        let Some(dev) = disk_of(model, wait).filter(|dev| of.contains(dev)) else { continue };
        let on = all.entry(dev).or_default();
        match (wait.kernel, wait.class) {
            (true, _) if is_journal(&wait.thread) => on.commits.push((wait.begin_ns, wait.end_ns)),
            (true, _) => {}
            (false, WaitClass::Journal) => on.journal.push(wait),
            (false, _) => on.direct.push(wait),
        }
    }
    for on in all.values_mut() {
        on.commits = joined(std::mem::take(&mut on.commits));
    }
    all
}

/// The disk that a wait is for, directly or through the journal on it. A commit that waits for a request which no
/// event showed yet is known by its thread's name.
fn disk_of(model: &Model, wait: &WaitSpan) -> Option<DeviceNumber> {
    match (wait.class, &wait.object) {
        (WaitClass::Disk, Object::Disk(None)) if is_journal(&wait.thread) => {
            let of = |disk: &&Disk| is_journal_of(&wait.thread, &disk.name);
            model.disk.all.values().find(of).map(|disk| disk.dev)
        }
        (WaitClass::Disk | WaitClass::PageFault, Object::Disk(dev)) => *dev,
        (WaitClass::Journal, Object::Journal(dev)) => *dev,
        _ => None,
    }
}

fn counted<'a>(model: &'a Model, group: &'a Cgroup, limit: &'a IoLimit) -> LimitUse<'a> {
    let of = |io: &CgroupIo| match limit.kind.as_str() {
        "read_iops" => io.reads,
        "write_iops" => io.writes,
        "read_bps" => io.read_bytes,
        _ => io.write_bytes,
    };
    let on_disk = |sample: &CgroupSample| {
        sample.io.iter().find(|io| io.dev == limit.dev).cloned().unwrap_or_default()
    };
    let (first, last) = match model.containers.change(group) {
        Some((first, last)) => (on_disk(first), on_disk(last)),
        None => Default::default(),
    };
    // Who counts one kind on the disk counts all: then 0 is what was done of another.
    let all = |io: &CgroupIo| io.reads + io.writes + io.read_bytes + io.write_bytes;
    let reached = of(&last).saturating_sub(of(&first)) as f64 / model.look.seconds().max(1e-9);
    let writes = last.writes.saturating_sub(first.writes);
    LimitUse {
        group,
        limit,
        reached,
        is_own_count: all(&last) > all(&first),
        completed: last.reads.saturating_sub(first.reads) + writes,
        holds_journal: limit.kind.starts_with("write") && writes > 0,
        members: charged(model, group, limit.dev),
        waited_seconds: 0.0,
        data_seconds: 0.0,
        journal_seconds: 0.0,
        writeback_seconds: 0.0,
        holds_bios: false,
    }
}

/// Processes whose bios are charged to a group or one below it; the kernel's threads write for others.
fn charged(model: &Model, group: &Cgroup, dev: DeviceNumber) -> BTreeSet<u32> {
    let inside = |other: &&Cgroup| {
        other.id != 0
            && other.controllers == group.controllers
            && membership::is_below(&other.path, &group.path)
    };
    let ids: BTreeSet<u64> =
        model.containers.cgroups.iter().filter(inside).map(|group| group.id).collect();
    let own = |used: &&DiskUse| {
        used.dev == dev && ids.contains(&used.cgroup_id) && !is_kernel(model, &used.process)
    };
    model.disk.used.iter().filter(own).map(|used| used.process.pid).collect()
}

/// For how long somebody waits for pages that others wrote to. A member of a limited group may as well wait for his own.
fn pages_seconds(model: &Model, limits: &[LimitUse<'_>], waits: &OnDisk<'_>) -> f64 {
    let is_limited = |thread: &ThreadRef| {
        let mut all = limits.iter();
        all.any(|it| it.members.contains(&thread.pid) || belongs(model, thread, it.group))
    };
    let direct = waits.direct.iter();
    let pages = direct.filter(|wait| is_for_writeback(model, wait) && !is_limited(&wait.thread));
    seconds_within(model, pages.map(|wait| (wait.begin_ns, wait.end_ns)).collect())
}

/// `pages`: for how long others wait for pages to be written, seconds.
fn add_waits(model: &Model, limit: &mut LimitUse<'_>, waits: &OnDisk<'_>, pages: f64) {
    let mut asked: BTreeMap<u32, bool> = limit.members.iter().map(|pid| (*pid, true)).collect();
    let group = limit.group;
    let mut is_member = |wait: &WaitSpan| {
        let known = asked.entry(wait.thread.pid);
        *known.or_insert_with(|| belongs(model, &wait.thread, group))
    };
    let (mut own, mut data, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for wait in &waits.direct {
        if !is_member(wait) {
            continue;
        }
        let stretch = (wait.begin_ns, wait.end_ns);
        own.push(stretch);
        limit.holds_bios |= may_be_held_by(wait, limit.limit);
        if !is_for_a_place(model.stacks.kernel(wait.place.stack)) {
            data.push(stretch);
        }
    }
    for wait in &waits.journal {
        let to = if is_member(wait) { &mut own } else { &mut others };
        to.extend(common(&[(wait.begin_ns, wait.end_ns)], &waits.commits));
    }
    limit.members.extend(asked.iter().filter(|(_, own)| **own).map(|(pid, _)| *pid));
    limit.waited_seconds = seconds_within(model, own);
    limit.data_seconds = seconds_within(model, data);
    limit.holds_journal |= limit.holds_bios && limit.limit.kind.starts_with("write");
    if limit.holds_journal {
        limit.journal_seconds = seconds_within(model, others);
        limit.writeback_seconds = pages;
    }
}

/// Whether bios are held back where a thread waits, and it may be for this limit. Of calls that may do both (asynchronous ones,
/// or a write that has to read a page first) the direction is not known.
fn may_be_held_by(wait: &WaitSpan, limit: &IoLimit) -> bool {
    let held = wait.place.held_back.filter(|held| held.bios > 0);
    let is_its_direction = match wait.place.syscall.as_str() {
        "read" | "readv" | "pread64" | "preadv" | "preadv2" => limit.kind.starts_with("read"),
        "fsync" | "fdatasync" | "msync" | "sync" | "syncfs" | "sync_file_range" => {
            limit.kind.starts_with("write")
        }
        _ => true,
    };
    is_its_direction && held.is_some_and(|held| held.dev == Some(limit.dev))
}

/// Who waits for pages that are being written waits for whoever wrote to them, and not for requests of his own. Each fsync does
/// so too, and writes with O_SYNC or O_DIRECT: those pages are mostly the waiter's.
pub fn is_for_writeback(model: &Model, wait: &WaitSpan) -> bool {
    let names = [
        "folio_wait_writeback",
        "folio_wait_writeback_killable",
        "folio_wait_stable",
        "wait_on_page_writeback",
        "wait_for_stable_page",
    ];
    let of_one_file = [
        "file_write_and_wait_range",
        "filemap_write_and_wait_range",
        "file_fdatawait_range",
        "filemap_fdatawait_range",
        "vfs_fsync_range",
    ];
    let frames = model.stacks.kernel(wait.place.stack);
    let has = |names: &[&str]| frames.iter().any(|frame| names.contains(&frame.as_str()));
    has(&names) && !has(&of_one_file)
}

/// Who waits for a place in a queue has not submitted yet.
fn is_for_a_place(frames: &[String]) -> bool {
    let names =
        ["blk_mq_get_tag", "rq_qos_wait", "wbt_wait", "__bio_queue_enter", "blk_queue_enter"];
    frames.iter().any(|frame| names.contains(&frame.as_str()))
}

/// Whether a thread is in a group that limits I/O, or below it.
fn belongs(model: &Model, thread: &ThreadRef, group: &Cgroup) -> bool {
    let Some(known) = model.threads.identity(thread) else { return false };
    membership::belongs(known, group, &["blkio", "io"])
}
