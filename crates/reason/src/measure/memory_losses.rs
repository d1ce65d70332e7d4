//! What the processes of a group lose to its memory limit: waiting, CPU in reclaim, CPU for reading again.
//!
//! On a slow disk a group that reads back what it has just dropped waits; on a quick one it hardly does, and the same
//! loss is CPU time of the reader: pages are allocated, asked for and put into the cache anew. The on-CPU samples by
//! kernel stack have that part, the reclaim events theirs, and no stack counts for both.
//!
//! Must not: decide whether it is a finding (memory_limit.rs). Rejected: memory.pressure of the group (v2 alone, not
//! by process, and it leaves out allocating and clearing the pages: 7.5 % where a reader lost six tenths).

use crate::facts::{Reclaim, ThreadRef};
use crate::measure::Measures;
use crate::model::Model;
use crate::rules::old::memory::{self, Limited};
use crate::rules::old::work;
use crate::waits::WaitClass;
use std::collections::BTreeMap;

/// What one process lost, seconds.
#[derive(Debug, Clone, Default)]
pub struct Loss {
    /// The process.
    pub process: ThreadRef,
    /// Waiting: in reclaim, for swap, for a disk that is read again.
    pub waited: f64,
    /// Waiting for a disk that is read again, in waits too short to be told.
    pub waited_briefly: f64,
    /// In reclaim, beyond the waits.
    pub reclaimed: f64,
    /// CPU for reading again.
    pub read_again: f64,
}

impl Loss {
    /// On a CPU.
    pub fn on_cpu(&self) -> f64 {
        self.reclaimed + self.read_again
    }

    /// Off the CPU.
    pub fn off_cpu(&self) -> f64 {
        self.waited + self.waited_briefly
    }

    /// Altogether.
    pub fn seconds(&self) -> f64 {
        self.off_cpu() + self.on_cpu()
    }
}

/// Losses by process.
pub type Losses = BTreeMap<u32, Loss>;

/// What each process of the group lost to its limit.
pub fn of(measures: &Measures<'_>, one: &Limited<'_>) -> Losses {
    let model = measures.model;
    let mut losses = Losses::new();
    let inside =
        |thread: &ThreadRef| model.in_target(thread) && memory::is_member(model, thread, one.group);
    let mut in_reclaim: BTreeMap<u32, f64> = BTreeMap::new();
    for wait in measures.waits() {
        if memory::is_memory_wait(wait.class, one.thrashes()) && inside(&wait.thread) {
            let seconds = wait.within_ns(model.begin_ns, model.end_ns) as f64 / 1e9;
            loss(model, &mut losses, wait.thread.pid).waited += seconds;
            if wait.class == WaitClass::Reclaim {
                *in_reclaim.entry(wait.thread.pid).or_default() += seconds;
            }
        }
    }
    if one.thrashes() {
        add_short_reads(model, &inside, &in_reclaim, &mut losses);
    }
    let mut told: BTreeMap<u32, f64> = BTreeMap::new();
    for reclaim in model.reclaims.iter().filter(|reclaim| reclaim.memcg) {
        let here = reclaim.cgroup_id != 0 && reclaim.cgroup_id == one.group.id;
        let counts = one.thrashes() || is_hard(reclaim);
        if counts && (here && model.in_target(&reclaim.thread) || inside(&reclaim.thread)) {
            *told.entry(reclaim.thread.pid).or_default() += reclaim.total_ns as f64 / 1e9;
        }
    }
    // Reclaim told by its own events holds the waits within it.
    for (pid, seconds) in told {
        let waited = in_reclaim.get(&pid).copied().unwrap_or(0.0);
        loss(model, &mut losses, pid).reclaimed = (seconds - waited).max(0.0);
    }
    if one.thrashes() {
        add_reading(measures, &inside, one.again(), &mut losses);
    }
    losses.retain(|_, loss| loss.seconds() > 0.0);
    losses
}

fn loss<'a>(model: &Model, losses: &'a mut Losses, pid: u32) -> &'a mut Loss {
    losses.entry(pid).or_insert_with(|| Loss { process: model.thread_ref(pid), ..Loss::default() })
}

/// What the kernel asks of one pass at least (SWAP_CLUSTER_MAX).
const ASKED_PAGES: u64 = 32;

/// Reclaim that got less than it asked for. One that gets it drops clean file pages: the price of a stream through
/// a full group, which any limit would have, and nobody reads them again.
fn is_hard(reclaim: &Reclaim) -> bool {
    reclaim.pages < ASKED_PAGES * reclaim.count.max(1)
}

/// A quick disk's reads are too short to be told one by one; the scheduler's sums have them.
fn add_short_reads(
    model: &Model,
    inside: &impl Fn(&ThreadRef) -> bool,
    in_reclaim: &BTreeMap<u32, f64>,
    losses: &mut Losses,
) {
    let mut iowait: BTreeMap<u32, f64> = BTreeMap::new();
    for time in model.times.iter().filter(|time| inside(&time.thread)) {
        *iowait.entry(time.thread.pid).or_default() += time.iowait_ns as f64 / 1e9;
    }
    for (pid, seconds) in iowait.into_iter().filter(|(_, seconds)| *seconds > 0.0) {
        let reclaim = in_reclaim.get(&pid).copied().unwrap_or(0.0);
        let lost = loss(model, losses, pid);
        lost.waited_briefly = (seconds - (lost.waited - reclaim)).max(0.0);
    }
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

/// Functions that make room: what passes them is told by the reclaim events.
fn makes_room(frame: &str) -> bool {
    matches!(frame, "try_to_free_mem_cgroup_pages" | "try_to_free_pages" | "shrink_node")
}

/// CPU time in reading, as far as it is reading again. The samples give its share of what the process ran, the scheduler
/// how long that was: programs are attached one after the other, so counts alone may span more than the look.
fn add_reading(
    measures: &Measures<'_>,
    inside: &impl Fn(&ThreadRef) -> bool,
    again: f64,
    losses: &mut Losses,
) {
    let model = measures.model;
    for spent in work::by_process(measures).iter().filter(|spent| inside(&spent.process)) {
        let pid = spent.process.pid;
        let reading = work::in_stacks(measures, pid, |frames| {
            frames.iter().any(|frame| brings_in(frame))
                && !frames.iter().any(|frame| makes_room(frame))
        });
        if reading > 0 {
            loss(model, losses, pid).read_again = spent.share(reading) * ran(model, pid) * again;
        }
    }
}

/// How long the threads of a process ran, seconds.
fn ran(model: &Model, pid: u32) -> f64 {
    let times = model.times.iter().filter(|time| time.thread.pid == pid);
    times.map(|time| time.run_ns).sum::<u64>() as f64 / 1e9
}

/// Time of these processes that was not idle, reads that were too short to be told included, seconds.
pub fn demand(measures: &Measures<'_>, losses: &Losses) -> f64 {
    let model = measures.model;
    let of_one = |(pid, lost): (&u32, &Loss)| {
        let times = model.times.iter().filter(|time| time.thread.pid == *pid);
        let ran: u64 = times.map(|time| time.run_ns + time.runnable_ns).sum();
        measures.demand_seconds(*pid).max(ran as f64 / 1e9 + lost.off_cpu()).max(lost.seconds())
    };
    losses.iter().map(of_one).sum()
}

/// The part of the losses that a command waited for: of the waiting and of the work, what lies on its path.
pub fn on_path(measures: &Measures<'_>, one: &Limited<'_>, losses: &Losses) -> f64 {
    let waits = measures.graph.ends.iter().filter(|end| {
        memory::is_memory_wait(end.class, one.thrashes())
            && end.links.get(end.named).is_some_and(|l| losses.contains_key(&l.who.pid))
    });
    let waited: f64 = losses.values().map(|lost| lost.waited).sum();
    // Between the waits that are told a thread ran or waited briefly: its path does not tell which.
    let between = losses.iter().map(|(pid, lost)| {
        let leaves = measures.graph.path.iter().filter(|leaf| {
            matches!(leaf.root().class, WaitClass::Running | WaitClass::Unseen)
                && leaf.root().who.pid == *pid
        });
        let on_path = leaves.map(|leaf| leaf.ns()).sum::<u64>() as f64 / 1e9;
        on_path.min(lost.on_cpu() + lost.waited_briefly)
    });
    waited.min(waits.map(|end| end.seconds).sum()) + between.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::rules::old::work_tests::*;

    const MIB: u64 = 1 << 20;
    /// SWAP_CLUSTER_MAX pages for each of the calls below: all that was asked for.
    const ALL: u64 = 32 * CALLS;
    const CALLS: u64 = 1000;
    const FILLS: &[&str] = &["clear_page", "page_cache_ra_unbounded", "filemap_get_pages"];
    const FREES: &[&str] =
        &["shrink_node", "try_to_free_mem_cgroup_pages", "page_cache_ra_unbounded"];
    const COPIES: &[&str] = &["_copy_to_iter", "filemap_read"];

    struct Made {
        /// Samples of 5 ms: filling the cache, in reclaim, copying to the reader.
        samples: [u64; 3],
        refault_mib: u64,
        read_mib: u64,
        reclaim_ms: u64,
        freed: u64,
    }

    /// Process 10 reads from a disk that is too quick to wait for, in a group that is at its limit.
    fn found(made: &Made) -> Vec<Finding> {
        explain(facts(made)).findings
    }

    fn facts(made: &Made) -> Vec<Fact> {
        let [fills, frees, copies] = made.samples;
        let mut facts = sampled(&[(FILLS, fills), (FREES, frees), (COPIES, copies)]);
        let path = || "/cache".to_string();
        let cgroups = vec![Membership { controllers: Vec::new(), path: path() }];
        facts.push(identity(Thread { thread: thread(10, "app"), cgroups, ..Thread::default() }));
        facts.push(fact(Body::Cgroup(Cgroup {
            path: path(),
            id: 77,
            memory_limit_bytes: Some(24 * MIB),
            ..Cgroup::default()
        })));
        for (at_ns, part) in [(0, 0), (LOOK_NS, 1)] {
            let sample = CgroupSample {
                path: path(),
                memory_limit_hits: Some(part * CALLS),
                memory_refaults: Some(part * made.refault_mib * 256),
                ..CgroupSample::default()
            };
            facts.push(Fact { at_ns, body: Body::CgroupSample(sample) });
        }
        facts.push(fact(Body::DiskUse(DiskUse {
            dev: DeviceNumber { major: 7, minor: 0 },
            process: thread(10, "app"),
            reads: 100,
            read_bytes: made.read_mib * MIB,
            writes: 0,
            write_bytes: 0,
            cgroup_id: 77,
        })));
        facts.push(fact(Body::Reclaim(Reclaim {
            thread: thread(10, "app"),
            memcg: true,
            count: CALLS,
            total_ns: made.reclaim_ms * 1_000_000,
            pages: made.freed,
            cgroup_id: 77,
        })));
        facts
    }

    fn figure(found: &[Finding], fact: &str) -> f64 {
        found[0].evidence.iter().find(|e| e.fact == fact).expect("a fact").value
    }

    #[test]
    fn reading_again_from_a_quick_disk_is_lost_cpu() {
        let samples = [200, 40, 160];
        let made = Made { samples, refault_mib: 400, read_mib: 400, reclaim_ms: 200, freed: ALL };
        let told = found(&made);
        assert_eq!(told[0].code, "memory.limit");
        assert_eq!(told[0].severity, Severity::Warning);
        // 200 samples are 1 s; the 40 in reclaim are told by its events.
        assert!((figure(&told, "of it CPU in reading") - 1.0).abs() < 0.01);
        assert!((figure(&told, "of it in reclaim") - 0.2).abs() < 0.01);
        assert!((told[0].impact.share - 0.6).abs() < 0.01, "{}", told[0].impact.share);
        // Half of what is read was never there: that is not the limit's.
        let half = found(&Made { read_mib: 800, ..made });
        assert!((figure(&half, "of it CPU in reading") - 0.5).abs() < 0.01);
    }

    #[test]
    fn of_a_command_the_work_on_its_path_counts() {
        let samples = [200, 40, 160];
        let made = Made { samples, refault_mib: 400, read_mib: 400, reclaim_ms: 200, freed: ALL };
        let mut facts = facts(&made);
        let target =
            Target { kind: TargetKind::Command, name: "app".into(), pid: 10, cgroups: Vec::new() };
        facts.push(fact(Body::Target(target)));
        let told = explain(facts).findings;
        assert_eq!(told[0].code, "memory.limit");
        // 1.2 s of a command that took 5 s.
        assert!((told[0].impact.share - 0.24).abs() < 0.01, "{}", told[0].impact.share);
    }

    #[test]
    fn a_stream_through_a_full_group_is_healthy() {
        let samples = [160, 100, 140];
        let made = Made { samples, refault_mib: 0, read_mib: 4000, reclaim_ms: 500, freed: ALL };
        assert!(found(&made).is_empty());
        let told = found(&Made { freed: ALL / 8, ..made });
        assert_eq!(told[0].code, "memory.limit", "reclaim finds nothing to free");
    }

    #[test]
    fn copying_what_is_still_there_is_no_loss() {
        let samples = [20, 4, 376];
        let made = Made { samples, refault_mib: 40, read_mib: 40, reclaim_ms: 20, freed: ALL };
        assert!(found(&made).is_empty());
    }
}
