//! Waits for whatever comes next, by the process whose wake-up or packet ended them: whom a process may have asked.
//!
//! Must not: believe a wake-up (wakers.rs), or say that somebody was asked (graph/relayed.rs).

use crate::facts::{Ns, WakeContext};
use crate::waits::WaitClass;
use crate::waits::timeline::{Timelines, WaitSpan};
use std::collections::HashMap;

/// Such waits, each list in order of their ends.
pub struct Woken<'a> {
    by: HashMap<u32, Vec<&'a WaitSpan>>,
}

impl<'a> Woken<'a> {
    /// Indexes timelines.
    pub(super) fn new(timelines: &'a Timelines) -> Self {
        let mut by: HashMap<u32, Vec<&WaitSpan>> = HashMap::new();
        let rests =
            |class| matches!(class, WaitClass::Idle | WaitClass::SocketRead | WaitClass::UnixRead);
        for wait in timelines.waits().filter(|wait| rests(wait.class) && !wait.kernel) {
            let Some(wake) = &wait.wake else { continue };
            let carries = matches!(wake.context, WakeContext::Task | WakeContext::SoftInterrupt);
            if carries && !wake.by_kernel_thread && ![0, wait.thread.pid].contains(&wake.by.pid) {
                by.entry(wake.by.pid).or_default().push(wait);
            }
        }
        by.values_mut().for_each(|waits| waits.sort_by_key(|wait| wait.end_ns));
        Self { by }
    }

    /// The waits of others that a process ended within a time.
    pub(in crate::graph) fn by(&self, pid: u32, from: Ns, to: Ns) -> &[&'a WaitSpan] {
        let all = self.by.get(&pid).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|wait| wait.end_ns < from);
        let last = all.partition_point(|wait| wait.end_ns <= to);
        &all[first..last.max(first)]
    }

    /// When a process first woke one of some others within a time. Who was woken may get a CPU so much later.
    pub(in crate::graph) fn first_ns(
        &self,
        (pid, others): (u32, &[u32]),
        (from, to): (Ns, Ns),
        late_ns: Ns,
    ) -> Option<Ns> {
        let woken = self.by(pid, from, to.saturating_add(late_ns)).iter();
        let others = woken.filter(|wait| others.contains(&wait.thread.pid));
        let at_ns = others.filter_map(|wait| wait.wake.as_ref()).map(|wake| wake.at_ns);
        at_ns.filter(|at_ns| (from..=to).contains(at_ns)).min()
    }
}
