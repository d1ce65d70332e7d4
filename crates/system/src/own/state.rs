//! What the own threads have of the scheduler, for the whole process: a signal handler, the watchdog and whoever starts a thread ask here.
//!
//! The scheduler knows threads and no looks, and so does this: it is of the process. A look begins by forgetting what was given back
//! before, and ends by giving back what it has. Must not: ask for anything more (priority.rs), or decide when it is too much
//! (watchdog.rs).

use super::policy::{self, Attributes};
use crate::text;
use holdup_reason::facts::Ns;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// What the own threads have now.
pub(super) static HAD: AtomicU8 = AtomicU8::new(ORDINARY);
/// The thread that looks, once it has raised itself.
pub(super) static LOOKS: AtomicU32 = AtomicU32::new(0);
/// The look is over, and its answer is being made.
pub(super) static LEAVES: AtomicBool = AtomicBool::new(false);
/// What it had before; of a process that takes several looks, before the first.
pub(super) static BEFORE: OnceLock<Attributes> = OnceLock::new();
/// Until when the thread that looks means to sleep, by `clock::now`; 0: it is awake.
static SLEEPS_UNTIL_NS: AtomicU64 = AtomicU64::new(0);
/// Which look of the process it is: a watchdog of one before has nothing more to do.
static LOOK: AtomicU32 = AtomicU32::new(0);

pub(super) const ORDINARY: u8 = 0;
pub(super) const ROUND_ROBIN: u8 = 1;
pub(super) const DEADLINE: u8 = 2;
pub(super) const NICE: u8 = 3;
/// It was had, and was given back: not asked for again.
pub(super) const GIVEN_BACK: u8 = 4;

/// The watchdog, once there is one.
pub(super) static WATCHDOG: AtomicU32 = AtomicU32::new(0);

/// Another look begins: what was had in one before, and given back, may be asked for again.
pub fn begin() {
    LOOK.fetch_add(1, Ordering::Relaxed);
    LEAVES.store(false, Ordering::Relaxed);
    HAD.store(ORDINARY, Ordering::Relaxed);
}

/// A look and its answer are over, and the process goes on: its threads have what they had before.
pub fn come_back() {
    if !is_over() {
        come_down();
    }
}

/// The thread that looks goes to sleep until then, or, at 0, has woken up.
pub fn sleeps_until(at_ns: Ns) {
    SLEEPS_UNTIL_NS.store(at_ns, Ordering::Relaxed);
}

/// Whether the thread that looks sleeps, and means to.
pub(super) fn sleeps(now_ns: Ns) -> bool {
    now_ns < SLEEPS_UNTIL_NS.load(Ordering::Relaxed)
}

/// The number of the look that goes on.
pub(super) fn look() -> u32 {
    LOOK.load(Ordering::Relaxed)
}

/// Whether the look is over.
pub(super) fn leaves() -> bool {
    LEAVES.load(Ordering::Relaxed)
}

/// Gives all threads of the look's own, but the one that looks and the watchdog, what a helper is to have.
pub fn raise_helpers() {
    if let Some(wanted) = of_helper(HAD.load(Ordering::Relaxed)) {
        let looks = LOOKS.load(Ordering::Relaxed);
        set_all(&wanted, |tid| tid != looks && tid != WATCHDOG.load(Ordering::Relaxed));
    }
}

/// Who only reads for another gets no deadline of its own: each is a part of a CPU that is set aside.
pub(super) fn of_helper(had: u8) -> Option<Attributes> {
    match had {
        ROUND_ROBIN => Some(policy::round_robin()),
        DEADLINE | NICE => Some(policy::nice()),
        _ => None,
    }
}

/// Nothing is had any more. The threads come down by [`set_all`].
pub(super) fn give_back() {
    HAD.store(GIVEN_BACK, Ordering::Relaxed);
}

/// All own threads have again what was had before.
pub(super) fn come_down() {
    give_back();
    if let Some(before) = BEFORE.get() {
        set_all(&policy::back_to(before), |_| true);
    }
}

/// A real-time thread that looks gets no CPU, because others above it have them all: it is tried otherwise.
pub(super) fn evade(tid: u32) {
    let mut ways = [(DEADLINE, policy::deadline()), (NICE, policy::nice())].into_iter();
    match ways.find(|(_, wanted)| policy::set(tid, wanted).is_ok()) {
        Some((had, _)) => {
            HAD.store(had, Ordering::Relaxed);
            raise_helpers();
        }
        None => come_down(),
    }
}

/// What the watchdog itself is to have: what every thread has.
pub(super) fn ordinary() -> Option<Attributes> {
    BEFORE.get().map(policy::back_to)
}

/// Whether nothing is had, or no longer.
pub(super) fn is_over() -> bool {
    matches!(HAD.load(Ordering::Relaxed), ORDINARY | GIVEN_BACK)
}

/// Whether the own threads are real-time threads that others can keep from the CPUs.
pub(super) fn is_round_robin() -> bool {
    HAD.load(Ordering::Relaxed) == ROUND_ROBIN
}

pub(super) fn set_all(wanted: &Attributes, is_meant: impl Fn(u32) -> bool) {
    let tids = text::ids(Path::new("/proc/self/task")).unwrap_or_default();
    // One that has ended meanwhile is none.
    tids.into_iter().filter(|tid| is_meant(*tid)).for_each(|tid| drop(policy::set(tid, wanted)));
}

/// The calling thread.
pub fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_pid() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_of_a_thread_with_a_deadline_have_none() {
        let policy = |had| of_helper(had).map(|it| it.sched_policy);
        assert_eq!(policy(ROUND_ROBIN), Some(libc::SCHED_RR as u32));
        assert_eq!(policy(DEADLINE), Some(libc::SCHED_OTHER as u32));
        assert_eq!((policy(ORDINARY), policy(GIVEN_BACK)), (None, None));
    }
}
