//! What each thread waited for and how long it ran, asked by thread.
//!
//! Must not: say who ended a wait (wakers.rs), or who holds what it is for (ways/).

use crate::facts::{FutexOwner, Ns, ThreadRef, WakeContext};
use crate::model::{Model, ThreadKey};
use crate::waits::WaitClass;
use crate::waits::timeline::{Timelines, WaitSpan};
use std::collections::{HashMap, HashSet};

/// Waits by thread.
pub struct Waits<'a> {
    model: &'a Model,
    timelines: &'a Timelines,
    /// How long each thread ran, and how long it was there.
    ran_ns: HashMap<ThreadKey, (Ns, Ns)>,
    /// How long each thread was seen to wait within the look.
    waited_ns: HashMap<ThreadKey, Ns>,
    /// What was read of futexes, by who waits.
    futexes: HashMap<ThreadKey, Vec<&'a (Ns, FutexOwner)>>,
    /// Of each process, the threads that something outside of it held up.
    held_outside: HashMap<u32, Vec<&'a ThreadRef>>,
    /// How often a thread ended waits of a process for what comes next.
    fed: HashMap<ThreadKey, HashMap<u32, usize>>,
    /// How often a process ended waits of another, by both.
    woke: HashMap<(u32, u32), usize>,
}

impl<'a> Waits<'a> {
    /// Indexes a model.
    pub(super) fn new(model: &'a Model, timelines: &'a Timelines) -> Self {
        let mut ran_ns: HashMap<ThreadKey, (Ns, Ns)> = HashMap::new();
        for time in &model.threads.times {
            let who = model.threads.key_at(&time.thread, time.until_ns);
            let (ran, there) = ran_ns.entry(who).or_default();
            *ran += time.run_ns;
            *there += time.until_ns.saturating_sub(time.since_ns);
        }
        let mut futexes: HashMap<ThreadKey, Vec<&(Ns, FutexOwner)>> = HashMap::new();
        for read in &model.held.futex_owners {
            let waiter = model.threads.key_at(&read.1.waiter, read.0);
            futexes.entry(waiter).or_default().push(read);
        }
        let mut held_outside: HashMap<u32, Vec<&ThreadRef>> = HashMap::new();
        let mut held = HashSet::new();
        let mut waited_ns: HashMap<ThreadKey, Ns> = HashMap::new();
        let mut fed: HashMap<ThreadKey, HashMap<u32, usize>> = HashMap::new();
        let mut woke: HashMap<(u32, u32), usize> = HashMap::new();
        for wait in timelines.waits() {
            let within_ns = wait.within_ns(model.look.begin_ns, model.look.end_ns);
            *waited_ns.entry(model.threads.key(&wait.thread)).or_default() += within_ns;
            if wait.class.is_outside() && held.insert(model.threads.key(&wait.thread)) {
                held_outside.entry(wait.thread.pid).or_default().push(&wait.thread);
            }
            let by = wait.wake.as_ref().filter(|wake| wake.context == WakeContext::Task);
            if let Some(wake) = by.filter(|wake| wake.by.pid != wait.thread.pid) {
                *woke.entry((wake.by.pid, wait.thread.pid)).or_default() += 1;
            }
            if let Some(wake) = by.filter(|_| is_for_what_comes(wait)) {
                let of_it = fed.entry(model.threads.key(&wake.by)).or_default();
                *of_it.entry(wait.thread.pid).or_default() += 1;
            }
        }
        Self { model, timelines, ran_ns, waited_ns, futexes, held_outside, fed, woke }
    }

    /// The waits of one thread, by begin.
    pub fn of(&self, thread: &ThreadRef) -> &'a [WaitSpan] {
        self.timelines.of(self.model.threads.key(thread))
    }

    /// The last wait of a thread that had begun by then, if it goes on.
    pub(in crate::graph) fn at(&self, thread: &ThreadRef, at_ns: Ns) -> Option<&'a WaitSpan> {
        let all = self.of(thread);
        let last = all[..all.partition_point(|it| it.begin_ns <= at_ns)].last()?;
        (at_ns < last.end_ns).then_some(last)
    }

    /// The waits of a thread that lie within a time, or reach into it. A thread's waits follow one another.
    pub(in crate::graph) fn within(&self, thread: &ThreadRef, from: Ns, to: Ns) -> &'a [WaitSpan] {
        let all = self.of(thread);
        let first = all.partition_point(|wait| wait.end_ns <= from);
        let last = all.partition_point(|wait| wait.begin_ns < to);
        &all[first..last.max(first)]
    }

    /// A time, or all of the one wait in which a thread stood through it: what was read of the thread at any moment of that is true of the time.
    pub(in crate::graph) fn stood(&self, thread: &ThreadRef, within: (Ns, Ns)) -> (Ns, Ns) {
        match self.within(thread, within.0, within.1) {
            [only] if only.begin_ns <= within.0 && within.1 <= only.end_ns => {
                (only.begin_ns, only.end_ns)
            }
            _ => within,
        }
    }

    /// The waits of the same thread that begin after one, by begin.
    pub(in crate::graph) fn after(&self, wait: &WaitSpan) -> &'a [WaitSpan] {
        let all = self.of(&wait.thread);
        &all[all.partition_point(|other| other.begin_ns <= wait.begin_ns)..]
    }

    /// The waits of the same thread that begin before one, by begin.
    pub(in crate::graph) fn before(&self, wait: &WaitSpan) -> &'a [WaitSpan] {
        let all = self.of(&wait.thread);
        &all[..all.partition_point(|other| other.begin_ns < wait.begin_ns)]
    }

    /// Whether anything was seen of a thread: a wait, or time on a CPU.
    pub fn is_seen(&self, thread: &ThreadRef) -> bool {
        let ran = || self.timelines.seen_until(self.model.threads.key(thread)) > 0;
        !self.of(thread).is_empty() || self.ran_ns(thread) > 0 || ran()
    }

    /// How long a thread ran.
    pub(in crate::graph) fn ran_ns(&self, thread: &ThreadRef) -> Ns {
        self.ran_ns.get(&self.model.threads.key(thread)).map_or(0, |(ran_ns, _)| *ran_ns)
    }

    /// How long a thread ran within a time of the look. The scheduler's sums say no moments: it is the part of them that comes down to
    /// the time in which the thread was not seen to wait.
    pub(in crate::graph) fn ran_within_ns(&self, thread: &ThreadRef, from: Ns, to: Ns) -> Ns {
        let who = self.model.threads.key(thread);
        let Some((ran_ns, there_ns)) = self.ran_ns.get(&who).copied() else { return 0 };
        let (from, to) = (from.max(self.model.look.begin_ns), to.min(self.model.look.end_ns));
        let waits = self.within(thread, from, to).iter();
        let waited_ns: Ns = waits.map(|wait| wait.within_ns(from, to)).sum();
        let free_ns = to.saturating_sub(from).saturating_sub(waited_ns);
        let all_waited_ns = self.waited_ns.get(&who).copied().unwrap_or(0);
        let all_free_ns = there_ns.saturating_sub(all_waited_ns).max(free_ns).max(1);
        free_ns.min((ran_ns as f64 * free_ns as f64 / all_free_ns as f64) as Ns)
    }

    /// What was read of the futexes that a thread waits for.
    pub(in crate::graph) fn futexes_of(&self, thread: &ThreadRef) -> &[&'a (Ns, FutexOwner)] {
        self.futexes.get(&self.model.threads.key(thread)).map_or(&[], Vec::as_slice)
    }

    /// The processes whose waits for what comes next a thread has ended, and how often.
    pub(in crate::graph) fn fed_by(
        &self,
        thread: &ThreadRef,
    ) -> impl Iterator<Item = (u32, usize)> {
        let fed = self.fed.get(&self.model.threads.key(thread)).into_iter().flatten();
        fed.map(|(pid, times)| (*pid, *times))
    }

    /// How often a process ended waits of another.
    pub(in crate::graph) fn woke(&self, by: u32, pid: u32) -> usize {
        self.woke.get(&(by, pid)).copied().unwrap_or(0)
    }

    /// The threads of a process that something outside of it held up.
    pub(in crate::graph) fn held_outside(&self, pid: u32) -> &[&'a ThreadRef] {
        self.held_outside.get(&pid).map_or(&[], Vec::as_slice)
    }
}

/// Whether a wait is for what others send, by whatever call.
fn is_for_what_comes(wait: &WaitSpan) -> bool {
    use WaitClass::{Idle, PipeRead, SocketRead, UnixRead};
    matches!(wait.class, PipeRead | SocketRead | UnixRead | Idle)
}

/// The process of who waited, by its main thread as of then.
pub(in crate::graph) fn process_of(model: &Model, wait: &WaitSpan) -> ThreadRef {
    model.threads.thread_ref_at(wait.thread.pid, wait.end_ns)
}
