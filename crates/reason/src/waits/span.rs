//! One wait: who, on what, in which class, from when to when.
//!
//! Owns the shape only. Timelines make spans and keep them in order (timeline.rs), objects.rs says what one is on, and
//! futex_handoff.rs which of them are for a lock.

use super::WaitClass;
use crate::facts::*;
use crate::model::object::Object;

/// One blocked wait, or one wait for a CPU.
#[derive(Debug, Clone)]
pub struct WaitSpan {
    /// Who waits.
    pub thread: ThreadRef,
    /// A kernel thread.
    pub kernel: bool,
    /// Since; may lie before the window.
    pub begin_ns: Ns,
    /// Until it was woken, or until it was last seen standing.
    pub end_ns: Ns,
    /// It had not ended when it was last seen.
    pub standing: bool,
    /// What for.
    pub class: WaitClass,
    /// On what.
    pub object: Object,
    /// Where in the kernel.
    pub place: Place,
    /// What ended it.
    pub wake: Option<Wake>,
    /// Who had the CPU before, for a wait for a CPU.
    pub ran_before: Option<ThreadRef>,
    /// Its group was out of CPU quota.
    pub throttled: bool,
    /// The begin is an estimate.
    pub begin_estimated: bool,
    /// The DNS question that it waits for, by index into `Model::dns_queries`.
    pub dns_query: Option<usize>,
}

impl WaitSpan {
    /// Length within [from, to], nanoseconds.
    pub fn within_ns(&self, from: Ns, to: Ns) -> Ns {
        self.end_ns.min(to).saturating_sub(self.begin_ns.max(from))
    }

    /// Where a futex call waits: addresses of one word are equal. A condition of glibc's has two words side by side, which it uses by
    /// turns, and counts as one.
    pub fn word(&self) -> Option<u64> {
        let place = &self.place;
        (place.syscall == "futex").then_some(place.args[0] & !7)
    }

    /// The same of a call with a timeout.
    pub fn timed_word(&self) -> Option<u64> {
        self.word().filter(|_| self.place.args[3] != 0)
    }
}
