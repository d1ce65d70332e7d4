//! What the processes of a group spend on making room in its memory and on reading: waiting, CPU in reclaim, CPU for
//! reading again.
//!
//! On a slow disk a group that reads back what it has just dropped waits; on a quick one it hardly does, and the same
//! loss is CPU time of the reader: pages are allocated, asked for and put into the cache anew. The on-CPU samples by
//! kernel stack have that part, the reclaim events theirs, and no stack counts for both.
//!
//! So it is for processes whose pages somebody else takes up. What part of its reading is reading again is a process's own,
//! where pages were looked at one by one, else its group's.
//!
//! Whether reading is reading again is not decided here: every figure comes with and without it. Rejected:
//! memory.pressure of the group (v2 alone, not by process, and it leaves out allocating and clearing the pages: 7.5 %
//! where a reader lost six tenths).

use super::ancestry::Ancestry;
use super::cache_readers::Reader;
use super::cpu_profile::{self, CpuProfile};
use super::memory_limits::{Limited, nearest};
use super::memory_members::is_member;
use crate::facts::{Reclaim, ThreadRef};
use crate::graph::end::End;
use crate::model::Model;
use crate::waits::WaitClass;
use crate::waits::timeline::Timelines;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What one process spent, seconds.
#[derive(Debug, Clone, Default)]
pub struct Loss {
    /// The process.
    pub process: ThreadRef,
    /// Waiting in reclaim.
    pub waited_in_reclaim: f64,
    /// Waiting for swap.
    pub waited_for_swap: f64,
    /// Waiting for disks.
    pub waited_for_disks: f64,
    /// In waits for I/O, the short ones included, by the scheduler's sums.
    pub iowait: f64,
    /// In reclaim, its waits included.
    pub reclaimed: f64,
    /// The part of it that got less than it asked for.
    pub reclaimed_hard: f64,
    /// CPU for reading again.
    pub read_again: f64,
}

impl Loss {
    /// Off the CPU. Waits for disks count where the group reads back what it dropped.
    pub fn off_cpu(&self, reads_back: bool) -> f64 {
        self.waited(reads_back) + self.waited_briefly(reads_back)
    }

    /// In waits that were seen one by one.
    pub fn waited(&self, reads_back: bool) -> f64 {
        let disks = if reads_back { self.waited_for_disks } else { 0.0 };
        self.waited_in_reclaim + self.waited_for_swap + disks
    }

    /// A quick disk's reads are too short to be seen one by one; the scheduler's sums have them.
    pub fn waited_briefly(&self, reads_back: bool) -> f64 {
        let seen = self.waited_for_disks + self.waited_for_swap;
        if reads_back { (self.iowait - seen).max(0.0) } else { 0.0 }
    }

    /// In reclaim, beyond the waits in it.
    pub fn in_reclaim(&self, reads_back: bool) -> f64 {
        let all = if reads_back { self.reclaimed } else { self.reclaimed_hard };
        (all - self.waited_in_reclaim).max(0.0)
    }

    /// On a CPU for reading again.
    pub fn in_reading(&self, reads_back: bool) -> f64 {
        if reads_back { self.read_again } else { 0.0 }
    }

    /// On a CPU.
    pub fn on_cpu(&self, reads_back: bool) -> f64 {
        self.in_reclaim(reads_back) + self.in_reading(reads_back)
    }

    /// What is waited for it, of what it waits: no more than this, seconds.
    fn waited_for(&self, seconds: f64) -> Self {
        let waited_in_reclaim = self.waited_in_reclaim.min(seconds);
        Self {
            process: self.process.clone(),
            waited_in_reclaim,
            waited_for_swap: self.waited_for_swap.min(seconds - waited_in_reclaim),
            ..Self::default()
        }
    }

    /// Altogether.
    pub fn seconds(&self, reads_back: bool) -> f64 {
        self.off_cpu(reads_back) + self.on_cpu(reads_back)
    }
}

/// Spent by process.
pub type Spent = BTreeMap<u32, Loss>;

/// What it is computed from.
pub struct Inputs<'m> {
    /// What was observed.
    pub model: &'m Model,
    /// What each thread did when.
    pub timelines: &'m Timelines,
    /// Who began whom.
    pub ancestry: &'m Ancestry,
    /// What processes spend their CPU time on.
    pub profile: &'m CpuProfile<'m>,
    /// Groups that met their limits.
    pub limited: &'m [Limited<'m>],
    /// Who brought which pages in.
    pub readers: &'m BTreeMap<u32, Reader>,
    /// The processes of what is looked at that were sampled.
    pub sampled: &'m [cpu_profile::Spent],
    /// Who is not looked at and makes room while somebody who is looked at waits for it: how long that is waited for, seconds.
    pub waited_for: &'m BTreeMap<u32, f64>,
}

/// Whose losses are meant.
#[derive(Clone, Copy)]
pub enum Whose<'m> {
    /// Those of a group's members.
    Group(&'m Limited<'m>),
    /// Those of these processes.
    Processes(&'m BTreeSet<u32>),
}

/// Who is meant, each asked once.
struct Inside<'m> {
    inputs: &'m Inputs<'m>,
    whose: Whose<'m>,
    known: RefCell<HashMap<u32, bool>>,
}

impl Inside<'_> {
    fn has(&self, thread: &ThreadRef) -> bool {
        let known = |pid: &u32| self.known.borrow().get(pid).copied();
        if let Some(known) = known(&thread.pid) {
            return known;
        }
        let (model, ancestry) = (self.inputs.model, self.inputs.ancestry);
        let is_meant = match self.whose {
            Whose::Group(one) => {
                let nearest = nearest(self.inputs.limited, (model, ancestry), thread);
                is_member(model, ancestry, thread, one.group)
                    && nearest.is_none_or(|it| it.group.path == one.group.path)
            }
            Whose::Processes(pids) => pids.contains(&thread.pid),
        };
        let is_waited_for = || {
            matches!(self.whose, Whose::Group(_))
                && self.inputs.waited_for.contains_key(&thread.pid)
        };
        let has = is_meant && (model.in_target(thread) || is_waited_for());
        self.known.borrow_mut().insert(thread.pid, has);
        has
    }

    /// It made room here: for the group, or for the processes themselves.
    fn freed(&self, reclaim: &Reclaim) -> bool {
        let in_group = match self.whose {
            Whose::Group(_) if !reclaim.memcg => return false,
            Whose::Group(one) => reclaim.cgroup_id != 0 && reclaim.cgroup_id == one.group.id,
            Whose::Processes(_) => false,
        };
        in_group && self.inputs.model.in_target(&reclaim.thread) || self.has(&reclaim.thread)
    }

    /// The part of a process's reading that is reading again.
    fn again(&self, pid: u32) -> f64 {
        let own = self.inputs.readers.get(&pid).map(Reader::share_again);
        match self.whose {
            Whose::Group(one) => one.again(),
            Whose::Processes(_) => own.unwrap_or(0.0),
        }
    }
}

/// What each process that is meant and looked at spent.
pub fn of(inputs: &Inputs<'_>, whose: Whose<'_>) -> Spent {
    let model = inputs.model;
    let inside = Inside { inputs, whose, known: RefCell::default() };
    let mut spent = Spent::new();
    for wait in inputs.timelines.waits() {
        let of: fn(&mut Loss) -> &mut f64 = match wait.class {
            WaitClass::Reclaim => |loss| &mut loss.waited_in_reclaim,
            WaitClass::SwapIn => |loss| &mut loss.waited_for_swap,
            WaitClass::Disk | WaitClass::PageFault => |loss| &mut loss.waited_for_disks,
            _ => continue,
        };
        if inside.has(&wait.thread) {
            let seconds = wait.within_ns(model.look.begin_ns, model.look.end_ns) as f64 / 1e9;
            *of(loss(model, &mut spent, wait.thread.pid)) += seconds;
        }
    }
    for time in
        model.threads.times.iter().filter(|time| time.iowait_ns > 0 && inside.has(&time.thread))
    {
        loss(model, &mut spent, time.thread.pid).iowait += time.iowait_ns as f64 / 1e9;
    }
    for reclaim in model.memory.reclaims.iter().filter(|reclaim| inside.freed(reclaim)) {
        let seconds = reclaim.total_ns as f64 / 1e9;
        let loss = loss(model, &mut spent, reclaim.thread.pid);
        loss.reclaimed += seconds;
        loss.reclaimed_hard += if is_hard(reclaim) { seconds } else { 0.0 };
    }
    add_reading(&inside, &mut spent);
    for (pid, seconds) in inputs.waited_for {
        if let Some(loss) = spent.get_mut(pid) {
            *loss = loss.waited_for(*seconds);
        }
    }
    spent
}

fn loss<'a>(model: &Model, spent: &'a mut Spent, pid: u32) -> &'a mut Loss {
    spent
        .entry(pid)
        .or_insert_with(|| Loss { process: model.threads.thread_ref(pid), ..Loss::default() })
}

/// What the kernel asks of one pass at least (SWAP_CLUSTER_MAX).
const ASKED_PAGES: u64 = 32;

/// Reclaim that got less than it asked for. One that gets it drops clean file pages: the price of a stream through
/// a full group, which any limit would have, and nobody reads them again.
fn is_hard(reclaim: &Reclaim) -> bool {
    reclaim.pages < ASKED_PAGES * reclaim.count.max(1)
}

/// Functions that bring pages in: reading ahead, reading one, waiting for one, taking one from swap.
fn brings_in(frame: &str) -> bool {
    const BEGIN: &[&str] = &[
        "page_cache_ra_",
        "page_cache_sync_r",
        "page_cache_async_r",
        "force_page_cache_r",
        "ondemand_readahead",
        "__do_page_cache_readahead",
        "filemap_read_folio",
        "filemap_read_page",
        "filemap_create_folio",
        "filemap_create_page",
        "folio_wait_bit",
        "wait_on_page_bit",
        "do_swap_page",
    ];
    frame == "read_pages" || BEGIN.iter().any(|begin| frame.starts_with(begin))
}

/// Functions that make room: what passes them is in the reclaim events.
fn makes_room(frame: &str) -> bool {
    matches!(frame, "try_to_free_mem_cgroup_pages" | "try_to_free_pages" | "shrink_node")
}

/// CPU time in reading, as far as it is reading again. The samples give its share of what the process ran, the scheduler
/// how long that was: programs are attached one after the other, so counts alone may span more than the look.
fn add_reading(inside: &Inside<'_>, spent: &mut Spent) {
    let (inputs, model) = (inside.inputs, inside.inputs.model);
    for sampled in inputs.sampled.iter().filter(|s| inside.has(&s.process)) {
        let pid = sampled.process.pid;
        let reading = inputs.profile.in_stacks(pid, |frames| {
            frames.iter().any(|frame| brings_in(frame))
                && !frames.iter().any(|frame| makes_room(frame))
        });
        if reading > 0 {
            let seconds = sampled.share(reading) * ran(model, pid) * inside.again(pid);
            loss(model, spent, pid).read_again = seconds;
        }
    }
}

/// How long the threads of a process ran, seconds.
fn ran(model: &Model, pid: u32) -> f64 {
    let times = model.threads.times.iter().filter(|time| time.thread.pid == pid);
    times.map(|time| time.run_ns).sum::<u64>() as f64 / 1e9
}

/// Waits that memory is the reason of, given that the group reads back what it dropped or not.
pub fn is_of_memory(end: &End, reads_back: bool) -> bool {
    match end.class {
        WaitClass::Reclaim | WaitClass::SwapIn => true,
        WaitClass::Disk | WaitClass::PageFault => reads_back,
        _ => false,
    }
}
