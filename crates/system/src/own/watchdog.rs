//! Brings the own threads down when they take more than a look needs, and finds another way for those that get no CPU.
//!
//! It comes before all of them: whoever starts it gives it a hundredth of a CPU from outside, by SCHED_DEADLINE, because real-time threads
//! can keep an ordinary one from the CPUs for a second and more. Where that is refused it is an ordinary thread, and no burden either: the
//! kernel keeps a part of each CPU for those (a twentieth by default). Nobody is raised before its first round is over, in
//! which it touched all that it needs: a raised thread that gets no CPU while it holds the memory lock would hold it up too. It
//! lives only where a priority was asked for. As the look is over it is raised like the others where it has no part of its own: a process
//! has ended when its last thread has, and among forks an ordinary one needed 0.8 s for that. Must not: watch for bursts
//! (RLIMIT_RTTIME does, with certainty), or act on others.

use super::policy;
use super::state::{self, WATCHDOG, own_tid};
use crate::clock::{ClockId, clock_ns, now};
use crate::stat::Stat;
use crate::text;
use holdup_reason::facts::Ns;
use std::collections::BTreeMap;
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Between two rounds.
const PERIOD: Duration = Duration::from_millis(100);
/// What its first round may take; an ordinary thread among many is not through so soon, and nobody is raised until it is.
const FIRST_ROUND_MAX: Duration = Duration::from_millis(100);
/// CPU time that the own threads may take at once with their priority, nanoseconds: begin and end of a look.
const SPENT_NS_MAX: Ns = 1_500_000_000;
/// And of the time that passes, this part of one CPU.
const SPENT_PART: Ns = 4;
/// Rounds in which nobody waited for a CPU, after which threads with a part of one are ordinary ones again.
const QUIET_ROUNDS: u32 = 20;
/// Of a stack whose pages may be locked.
const STACK_BYTES: usize = 256 << 10;

/// The look whose watchdog has made its first round.
static STANDS_BY: AtomicU32 = AtomicU32::new(u32::MAX);
/// The look for which one was started.
static STARTED: AtomicU32 = AtomicU32::new(u32::MAX);
/// It has a part of a CPU.
static HAS_PART: AtomicBool = AtomicBool::new(false);

// SAFETY: declared as in pthread.h; the libc crate has it for other C libraries only.
unsafe extern "C" {
    fn pthread_getcpuclockid(thread: libc::pthread_t, clock: *mut libc::clockid_t) -> libc::c_int;
}

/// Whether the look has a watchdog that has made its first round; starts one if it has none.
pub(super) fn stands_by() -> bool {
    let look = state::look();
    if STARTED.swap(look, Ordering::Relaxed) != look {
        start(look);
    }
    STANDS_BY.load(Ordering::Relaxed) == look
}

fn start(look: u32) {
    let (said, heard) = sync_channel(1);
    let thread = Builder::new().name("holdup-watchdog".into()).stack_size(STACK_BYTES);
    let Ok(thread) = thread.spawn(move || watch(look, &said)) else { return };
    let Some(tid) = tid_of(thread.as_pthread_t()) else { return };
    WATCHDOG.store(tid, Ordering::Relaxed);
    let has_part = policy::set(tid, &policy::watchdog_deadline()).is_ok();
    HAS_PART.store(has_part, Ordering::Relaxed);
    if !has_part {
        // For its first round; it steps down itself.
        let _ = policy::set(tid, &policy::round_robin());
    }
    // One that is late is asked for again at the next occasion.
    let _ = heard.recv_timeout(FIRST_ROUND_MAX);
}

/// The number of a thread that need not have run yet: the clock of its CPU time has it, as in the kernel's posix-timers.h.
fn tid_of(thread: libc::pthread_t) -> Option<u32> {
    let mut clock = 0;
    // SAFETY: the thread is joinable, its handle is still there, and the clock is a live value.
    let failed = unsafe { pthread_getcpuclockid(thread, &raw mut clock) };
    u32::try_from(!(clock >> 3)).ok().filter(|tid| failed == 0 && *tid != 0)
}

/// Gives one without a part of a CPU what the others have. It may have ended meanwhile.
pub(super) fn raise(ways: &state::Ways) {
    let own = WATCHDOG.load(Ordering::Relaxed);
    if own != 0 && !HAS_PART.load(Ordering::Relaxed) {
        state::give(own, ways);
    }
}

fn watch(look: u32, said: &SyncSender<()>) {
    let mut round = Round::read();
    let (mut raised, mut quiet) = (Budget::default(), 0);
    state::is_crowded();
    STANDS_BY.store(look, Ordering::Relaxed);
    // Who waited for it may have given up.
    let _ = said.send(());
    while look == state::look() && !state::is_settled() {
        if !HAS_PART.load(Ordering::Relaxed) {
            step_aside();
        }
        std::thread::sleep(PERIOD);
        let last = std::mem::replace(&mut round, Round::read());
        if !state::is_over() && raised.is_exceeded(&last, &round) {
            break;
        }
        if state::has_part() {
            // The kernel bounds each turn; beside the sum only whether it is still needed is asked.
            quiet = if state::is_crowded() { 0 } else { quiet + 1 };
            if quiet >= QUIET_ROUNDS {
                state::settle();
            }
            continue;
        }
        quiet = 0;
        // Who has no priority asks for no other way, and who sleeps for as long as it wants to needs none.
        if state::may_starve() && !state::sleeps(round.at_ns) && round.starves_since(&last) {
            state::evade();
        }
    }
    // One that computed for too long has come down by itself: the others have not.
    if look == state::look() && !state::is_refused() {
        state::come_down();
    }
}

/// Asks once more for a part of a CPU, which somebody else may have given back; without one it is an ordinary thread, until the look is
/// over.
fn step_aside() {
    let has_part = policy::set(0, &policy::watchdog_deadline()).is_ok();
    HAS_PART.store(has_part, Ordering::Relaxed);
    if !has_part && !state::leaves() {
        state::ordinary().map(|ordinary| policy::set(0, &ordinary));
    }
}

/// What the own threads have taken with their priority.
#[derive(Debug, Default)]
struct Budget {
    spent_ns: Ns,
    passed_ns: Ns,
}

impl Budget {
    fn is_exceeded(&mut self, last: &Round, round: &Round) -> bool {
        self.spent_ns += round.spent_ns.saturating_sub(last.spent_ns);
        self.passed_ns += round.at_ns.saturating_sub(last.at_ns);
        self.spent_ns > SPENT_NS_MAX + self.passed_ns / SPENT_PART
    }
}

/// The own threads at one moment, without the watchdog.
#[derive(Debug, Clone, Default)]
struct Round {
    at_ns: Ns,
    /// CPU time of them all.
    spent_ns: Ns,
    threads: BTreeMap<u32, Reading>,
}

impl Round {
    fn read() -> Self {
        let own = own_tid();
        let others = state::own_tids().into_iter().filter(|tid| *tid != own);
        let of = |tid: u32| {
            let folder = format!("/proc/self/task/{tid}");
            Some((tid, Reading::of(Path::new(&folder))?))
        };
        let threads = others.filter_map(of).collect();
        Self { at_ns: now(), spent_ns: clock_ns(ClockId::ProcessCPUTime), threads }
    }

    /// Somebody was ready and had no CPU for three quarters of the time, and not by the others of the process, which have
    /// hardly run.
    fn starves_since(&self, last: &Self) -> bool {
        let passed_ns = self.at_ns.saturating_sub(last.at_ns);
        let spent_ns = self.spent_ns.saturating_sub(last.spent_ns);
        let is_delayed = |tid: &u32, reading: &Reading| {
            last.threads.get(tid).is_some_and(|before| reading.is_delayed_since(before, passed_ns))
        };
        spent_ns < passed_ns / 2
            && self.threads.iter().any(|(tid, reading)| is_delayed(tid, reading))
    }
}

/// A thread at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Reading {
    is_ready: bool,
    run_ns: Ns,
    /// What it waited for a CPU, up to when it last got one.
    waited_ns: Ns,
}

impl Reading {
    fn of(folder: &Path) -> Option<Self> {
        let counted = text::read(&folder.join("schedstat")).ok()?;
        let mut words = text::words(&counted).map(text::number);
        let (run_ns, waited_ns) = (words.next()??, words.next()??);
        let is_ready = Stat::read(&folder.join("stat"))?.state == 'R';
        Some(Self { is_ready, run_ns, waited_ns })
    }

    /// It was ready both times and has not run in between, or got a CPU only after a long wait.
    fn is_delayed_since(&self, last: &Self, passed_ns: Ns) -> bool {
        let waited_ns = self.waited_ns.saturating_sub(last.waited_ns);
        (self.is_ready && self == last) || waited_ns > passed_ns / 4 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Ns = 1_000_000_000;
    const ROUND: Ns = 100_000_000;

    fn at(at_ns: Ns, spent_ns: Ns, threads: &[Reading]) -> Round {
        Round { at_ns, spent_ns, threads: (1..).zip(threads.iter().copied()).collect() }
    }

    #[test]
    fn begin_and_end_of_a_look_are_not_too_much_and_a_loop_is() {
        let is_too_much = |spent_ns, passed_ns| {
            Budget::default().is_exceeded(&Round::default(), &at(passed_ns, spent_ns, &[]))
        };
        assert!(!is_too_much(SECOND, SECOND));
        assert!(!is_too_much(3 * SECOND, 10 * SECOND));
        assert!(is_too_much(2 * SECOND, SECOND));
        assert!(is_too_much(30 * SECOND, 60 * SECOND));
    }

    #[test]
    fn who_runs_or_sleeps_is_not_kept_from_the_cpus() {
        let ready = Reading { is_ready: true, run_ns: 7, waited_ns: 5 };
        let starves = |now: Reading, before: Reading| {
            at(ROUND, 0, &[now]).starves_since(&at(0, 0, &[before]))
        };
        assert!(starves(ready, ready));
        let late = Reading { is_ready: false, run_ns: 8, waited_ns: 5 + ROUND };
        assert!(starves(late, ready), "it ran a little, after a wait");
        assert!(!starves(Reading { run_ns: 8, ..ready }, ready));
        assert!(!starves(Reading { run_ns: 8, waited_ns: 5 + ROUND / 2, ..ready }, ready));
        let sleeps = Reading { is_ready: false, ..ready };
        assert!(!starves(sleeps, sleeps) && !starves(ready, sleeps));
    }

    #[test]
    fn one_of_many_that_starves_is_seen_and_who_waits_for_the_others_is_not() {
        let (ready, sleeps) =
            (Reading { is_ready: true, ..Reading::default() }, Reading::default());
        let (before, after) = (at(0, 0, &[sleeps, ready]), at(ROUND, 0, &[sleeps, ready]));
        assert!(after.starves_since(&before), "a helper, while the look waits for it");
        let busy = at(ROUND, ROUND, &[sleeps, ready]);
        assert!(!busy.starves_since(&before), "the own threads had the CPU");
        let new = at(ROUND, 0, &[ready, ready]);
        assert!(!new.starves_since(&at(0, 0, &[])), "nobody was there before");
    }

    #[test]
    fn the_own_thread_is_read_and_one_that_is_gone_is_not() {
        let own = Reading::of(Path::new(&format!("/proc/self/task/{}", own_tid())));
        assert!(own.is_some_and(|own| own.is_ready), "{own:?}");
        assert_eq!(Reading::of(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_thread_has_its_number_before_it_says_so() {
        let (go, wait) = sync_channel::<()>(0);
        let thread = std::thread::spawn(move || (wait.recv().is_ok(), own_tid()));
        let tid = tid_of(thread.as_pthread_t());
        go.send(()).expect("it waits");
        assert_eq!(thread.join().ok(), tid.map(|tid| (true, tid)));
    }
}
