//! What the own threads have of the scheduler, for the whole process: a signal handler, the watchdog and whoever starts a thread ask here.
//!
//! The scheduler knows threads and no looks, and so does this: it is of the process. A look begins by forgetting what was given back
//! before, and ends by giving back what it has. Must not: ask for anything more (priority.rs), or decide when it is too much
//! (watchdog.rs).

use super::policy::{self, Attributes};
use crate::cpus::online_cpus;
use crate::text;
use holdup_reason::facts::Ns;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// What of the scheduler is asked for in turn, until something is granted.
pub(super) type Ways = [Option<Attributes>; 2];

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
/// Nothing was granted: not asked for again.
pub(super) const REFUSED: u8 = 5;

/// The watchdog, once there is one: its number is known before it has run.
pub(super) static WATCHDOG: AtomicU32 = AtomicU32::new(0);

/// Another look begins: what was had in one before, and given back, may be asked for again. Whether it is the first of the process.
pub(super) fn begin() -> bool {
    let before = LOOK.fetch_add(1, Ordering::Relaxed);
    LEAVES.store(false, Ordering::Relaxed);
    HAD.store(ORDINARY, Ordering::Relaxed);
    before == 0
}

/// A look and its answer are over, and the process goes on: its threads have what they had before.
pub fn come_back() {
    // Its watchdog ends in any case. Where one thread gave back what it had, others may have it still.
    match HAD.load(Ordering::Relaxed) {
        ORDINARY | REFUSED => give_back(),
        _ => come_down(),
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
    let ways = of_helper(HAD.load(Ordering::Relaxed));
    if ways[0].is_some() {
        let looks = LOOKS.load(Ordering::Relaxed);
        let watchdog = WATCHDOG.load(Ordering::Relaxed);
        set_all(&ways, |tid| tid != looks && tid != watchdog);
    }
}

/// Who only reads for another has a small part of a CPU of its own, or more weight where no more is to be set aside.
pub(super) fn of_helper(had: u8) -> Ways {
    match had {
        ROUND_ROBIN => [Some(policy::round_robin()), None],
        DEADLINE => [Some(policy::helper_deadline()), Some(policy::nice())],
        NICE => [Some(policy::nice()), None],
        _ => [None, None],
    }
}

/// The first of some ways that is granted to a thread; 0 stands for the calling one. One that has ended meanwhile is none.
pub(super) fn give(tid: u32, ways: &Ways) {
    let _ = ways.iter().flatten().find(|wanted| policy::set(tid, wanted).is_ok());
}

/// Nothing is had any more. The threads come down by [`set_all`].
pub(super) fn give_back() {
    HAD.store(GIVEN_BACK, Ordering::Relaxed);
}

/// All own threads have again what was had before.
pub(super) fn come_down() {
    give_back();
    if let Some(before) = BEFORE.get() {
        set_all(&[Some(policy::back_to(before)), None], |_| true);
    }
}

/// Nobody keeps the threads from the CPUs any more: they are ordinary ones, and may ask again. The watchdog stays.
pub(super) fn settle() {
    let watchdog = WATCHDOG.load(Ordering::Relaxed);
    set_all(&[ordinary(), None], |tid| tid != watchdog);
    HAD.store(ORDINARY, Ordering::Relaxed);
}

/// Threads of the look's own get no CPU, because real-time threads above them have them all: it is tried otherwise.
pub(super) fn evade() {
    let looks = LOOKS.load(Ordering::Relaxed);
    let parts = policy::deadlines().map(|part| (DEADLINE, part));
    let mut ways = parts.into_iter().chain([(NICE, policy::nice())]);
    match ways.find(|(_, wanted)| policy::set(looks, wanted).is_ok()) {
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
    HAD.load(Ordering::Relaxed) == ORDINARY || is_settled()
}

/// Whether nothing was granted.
pub(super) fn is_refused() -> bool {
    HAD.load(Ordering::Relaxed) == REFUSED
}

/// Whether the own threads have something, and others can keep them from the CPUs all the same.
pub(super) fn may_starve() -> bool {
    matches!(HAD.load(Ordering::Relaxed), ROUND_ROBIN | NICE)
}

/// Whether the own threads have parts of CPUs that nobody can take from them.
pub(super) fn has_part() -> bool {
    HAD.load(Ordering::Relaxed) == DEADLINE
}

/// Whether nothing will be had any more in this look.
pub(super) fn is_settled() -> bool {
    matches!(HAD.load(Ordering::Relaxed), GIVEN_BACK | REFUSED)
}

fn set_all(ways: &Ways, is_meant: impl Fn(u32) -> bool) {
    own_tids().into_iter().filter(|tid| is_meant(*tid)).for_each(|tid| give(tid, ways));
}

/// All threads of the process.
pub(super) fn own_tids() -> Vec<u32> {
    text::ids(Path::new("/proc/self/task")).unwrap_or_default()
}

/// Whether more threads run or are ready than there are CPUs; the calling one is among them.
pub(super) fn is_crowded() -> bool {
    let bytes = text::read(Path::new("/proc/loadavg")).unwrap_or_default();
    ready_threads(&bytes).is_some_and(|ready| ready > online_cpus().len() as u64)
}

/// The fourth word of /proc/loadavg: threads that run or are ready now, of all there are.
fn ready_threads(loadavg: &[u8]) -> Option<u64> {
    let word = text::words(loadavg).nth(3)?;
    text::number(word.split(|byte| *byte == b'/').next()?)
}

/// The calling thread.
pub fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_pid() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_has_no_more_than_its_small_part() {
        let policies = |had| of_helper(had).map(|way| way.map(|it| it.sched_policy));
        let [round_robin, deadline, other] =
            [libc::SCHED_RR, libc::SCHED_DEADLINE, libc::SCHED_OTHER].map(|it| Some(it as u32));
        assert_eq!(policies(ROUND_ROBIN), [round_robin, None]);
        assert_eq!(policies(DEADLINE), [deadline, other]);
        assert!(of_helper(DEADLINE)[0].is_some_and(|it| it.sched_runtime * 20 == it.sched_period));
        for had in [ORDINARY, GIVEN_BACK, REFUSED] {
            assert_eq!(policies(had), [None, None]);
        }
    }

    #[test]
    fn threads_that_are_ready_are_the_fourth_word() {
        assert_eq!(ready_threads(b"0.58 0.94 1.02 34/812 99\n"), Some(34));
        for other in [&b""[..], b"1 2 3", b"1 2 3 x/4 5", b"0.1 0.1 0.1 /7 1"] {
            assert_eq!(ready_threads(other), None);
        }
    }
}
