//! What processes spend their CPU time on: the on-CPU samples by process, for rules that need no wait.
//!
//! A sample stands for 1/frequency seconds of one CPU. Shares of a process's own samples say what its time goes
//! into; too few of them say nothing. The counters of its threads are the second fact: they were counted by the
//! kernel, whatever the clock hit. Must not: name codes, or decide what is too much.

use crate::facts::*;
use crate::model::Model;
use crate::threshold::Threshold;
use std::collections::BTreeMap;

/// With fewer samples a share is a guess.
pub const SAMPLES_MIN: u64 = 20;
/// Functions of the kernel that serve a page fault.
const IN_FAULT: &[&str] =
    &["handle_mm_fault", "__handle_mm_fault", "do_user_addr_fault", "do_page_fault"];
/// Functions that account memory to a memory cgroup (mm/memcontrol.c, mm/page_counter.c): parts of their names, and whole ones.
const ACCOUNTING_PARTS: &[&str] = &["memcg", "mem_cgroup", "obj_cgroup", "page_counter_"];
const ACCOUNTING: &[&str] = &["try_charge", "uncharge_batch", "uncharge_folio", "drain_obj_stock"];
/// Of the same file, and no accounting: a limit is met, and memory is taken back.
const RECLAIMING: &[&str] =
    &["try_to_free_mem_cgroup_pages", "mem_cgroup_out_of_memory", "shrink_node", "shrink_lruvec"];
/// Samples that span less than this say nothing of rates, seconds.
static SPAN_MIN: Threshold = Threshold::new(
    0.1,
    "s",
    "time between the first and the last sample of a thread: less says nothing of rates",
    "chosen: a few periods of the sampler",
);

/// The on-CPU samples of one process.
#[derive(Debug, Clone)]
pub struct Spent {
    /// The process.
    pub process: ThreadRef,
    /// All samples of it.
    pub samples: u64,
    /// Seconds that one sample stands for.
    pub each: f64,
}

impl Spent {
    /// Seconds that some of its samples stand for.
    pub fn seconds(&self, samples: u64) -> f64 {
        samples as f64 * self.each
    }

    /// Their share of all of them.
    pub fn share(&self, samples: u64) -> f64 {
        samples as f64 / self.samples.max(1) as f64
    }
}

/// Whether a function of the kernel serves a page fault.
pub fn is_in_fault(function: &str) -> bool {
    IN_FAULT.contains(&function)
}

/// Whether memory is accounted to a memory cgroup in a kernel stack: what that itself costs, limits met not included.
pub fn accounts_memory(frames: &[String]) -> bool {
    let accounts = |function: &String| {
        ACCOUNTING.contains(&function.as_str())
            || ACCOUNTING_PARTS.iter().any(|part| function.contains(part))
    };
    let reclaims = |function: &String| RECLAIMING.contains(&function.as_str());
    frames.iter().any(accounts) && !frames.iter().any(reclaims)
}

/// Sums over threads, a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Calls of the read and write families.
    pub calls: f64,
    /// Bytes that they moved.
    pub bytes: f64,
    /// Page faults.
    pub faults: f64,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct OfProcess<'a> {
    samples: Vec<&'a Samples>,
    calls: Vec<&'a Work>,
    rates: Option<Rates>,
}

/// The on-CPU profile of a look, by process.
#[derive(Debug)]
pub struct CpuProfile<'a> {
    model: &'a Model,
    by_pid: BTreeMap<u32, OfProcess<'a>>,
}

impl<'a> CpuProfile<'a> {
    /// Sorts the samples by process.
    pub fn of(model: &'a Model) -> Self {
        let mut by_pid: BTreeMap<u32, OfProcess<'a>> = BTreeMap::new();
        for samples in &model.cpu.samples {
            by_pid.entry(samples.process.pid).or_default().samples.push(samples);
        }
        for work in &model.cpu.work {
            by_pid.entry(work.process.pid).or_default().calls.push(work);
        }
        for effort in &model.cpu.efforts {
            let seconds = effort.until_ns.saturating_sub(effort.since_ns) as f64 / 1e9;
            if seconds >= SPAN_MIN.value {
                let sum =
                    by_pid.entry(effort.thread.pid).or_default().rates.get_or_insert_default();
                sum.calls += (effort.reads + effort.writes) as f64 / seconds;
                sum.bytes += (effort.read_bytes + effort.write_bytes) as f64 / seconds;
                sum.faults += (effort.minor_faults + effort.major_faults) as f64 / seconds;
            }
        }
        Self { model, by_pid }
    }

    /// All samples of a process; none of a kernel thread or of the looker, or if there are too few.
    pub fn spent(&self, pid: u32) -> Option<Spent> {
        let samples = self.samples(pid);
        let first = samples.first()?;
        let mut process = self.model.threads.thread_ref(pid);
        if process.comm.is_empty() {
            process = first.process.clone();
        }
        let count = samples.iter().map(|samples| samples.count).sum();
        let is_kernel = self.model.threads.identity(&process).is_some_and(|known| known.kernel);
        let wanted = count >= SAMPLES_MIN && pid != self.model.look.host.own_pid && !is_kernel;
        let each = 1.0 / f64::from(first.frequency_hz.max(1));
        wanted.then_some(Spent { process, samples: count, each })
    }

    /// Of the processes of a name the one with the most samples.
    pub fn busiest(&self, comm: &str) -> Option<u32> {
        let count = |of: &OfProcess<'_>| of.samples.iter().map(|it| it.count).sum::<u64>();
        let named = self.by_pid.iter().filter(|(_, of)| {
            of.samples.last().is_some_and(|samples| samples.process.comm == comm)
        });
        named.max_by_key(|(_, of)| count(of)).map(|(pid, _)| *pid)
    }

    /// The samples of a process by kernel stack.
    pub fn samples(&self, pid: u32) -> &[&'a Samples] {
        self.by_pid.get(&pid).map_or(&[], |of| &of.samples)
    }

    /// CPU time of a process where its kernel stack, empty in its own code, is as wanted, seconds.
    pub fn seconds_where(&self, pid: u32, wanted: impl Fn(&[String]) -> bool) -> f64 {
        let hit = self.samples(pid).iter().filter(|it| wanted(self.model.stacks.kernel(it.stack)));
        hit.map(|it| it.count as f64 / f64::from(it.frequency_hz.max(1))).sum()
    }

    /// The samples of a process by system call, and by the file of its own code.
    pub fn work(&self, pid: u32) -> &[&'a Work] {
        self.by_pid.get(&pid).map_or(&[], |of| &of.calls)
    }

    /// Samples of a process whose kernel stack passes a function for which `wanted` holds.
    pub fn in_kernel(&self, pid: u32, wanted: impl Fn(&str) -> bool) -> u64 {
        self.in_stacks(pid, |frames| frames.iter().any(|frame| wanted(frame)))
    }

    /// Samples of a process whose kernel stack is as wanted.
    pub fn in_stacks(&self, pid: u32, wanted: impl Fn(&[String]) -> bool) -> u64 {
        let in_kernel = self.samples(pid).iter().filter(|samples| samples.stack != 0);
        in_kernel.filter(|s| wanted(self.model.stacks.kernel(s.stack))).map(|s| s.count).sum()
    }

    /// Samples of a process in which the kernel serves a page fault of its.
    pub fn in_page_faults(&self, pid: u32) -> u64 {
        self.in_kernel(pid, is_in_fault)
    }

    /// The most that a process was seen to keep in memory, bytes: one that grows has little when it is seen first.
    pub fn rss_bytes_max(&self, process: &ThreadRef) -> u64 {
        let first = self.model.threads.identity(process).map_or(0, |known| known.rss_bytes);
        let its = self.model.cpu.efforts.iter().filter(|effort| effort.thread.pid == process.pid);
        its.filter_map(|effort| effort.rss_bytes_max).fold(first, u64::max)
    }

    /// What the threads of a process asked of the kernel, a second, while they were sampled; none if the samples
    /// span less than a tenth of a second.
    pub fn rates(&self, pid: u32) -> Option<Rates> {
        self.by_pid.get(&pid)?.rates
    }

    /// Every process that was sampled often enough.
    pub fn all(&self) -> impl Iterator<Item = Spent> {
        self.by_pid.keys().filter_map(|pid| self.spent(*pid))
    }
}
