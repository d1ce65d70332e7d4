//! Brings the own threads down when they take more than a look needs, and finds another way for one that gets no CPU.
//!
//! An ordinary thread, so that it is no burden itself: the kernel keeps a part of each CPU for those (a twentieth by default). It
//! lives only where a priority was asked for. As the look is over it is raised like the others: a process has ended when its last
//! thread has, and among forks an ordinary one needed 0.8 s for that. Must not: watch for bursts (RLIMIT_RTTIME does, with certainty), or act on others.

use super::policy;
use super::state::{self, WATCHDOG, own_tid};
use crate::clock::{ClockId, clock_ns, now};
use crate::stat::Stat;
use crate::text;
use holdup_reason::facts::Ns;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::Duration;

/// Between two readings.
const PERIOD: Duration = Duration::from_millis(250);
/// CPU time that the own threads may take at once with their priority, nanoseconds: begin and end of a look.
const SPENT_NS_MAX: Ns = 1_500_000_000;
/// And of the time that passes, this part of one CPU.
const SPENT_PART: Ns = 4;

/// Watches a thread; `false` if there can be no other for it.
pub(super) fn start(watched: u32) -> bool {
    Builder::new().name("holdup-watchdog".into()).spawn(move || watch(watched)).is_ok()
}

/// Gives it what the others have.
pub(super) fn raise(wanted: &policy::Attributes) {
    let own = WATCHDOG.load(Ordering::Relaxed);
    if own != 0 {
        // It may have ended meanwhile.
        let _ = policy::set(own, wanted);
    }
}

fn watch(tid: u32) {
    WATCHDOG.store(own_tid(), Ordering::Relaxed);
    let (begin_ns, spent_before_ns) = (now(), spent());
    let folder = PathBuf::from(format!("/proc/self/task/{tid}"));
    let mut last = Reading::default();
    let look = state::look();
    while look == state::look() && !state::is_over() {
        if !state::leaves() {
            // Who raised the others before this one had a number raised it too.
            state::ordinary().map(|ordinary| policy::set(0, &ordinary));
        }
        std::thread::sleep(PERIOD);
        if is_too_much(spent().saturating_sub(spent_before_ns), now().saturating_sub(begin_ns)) {
            break;
        }
        // Who has no priority asks for no other way, and who sleeps for as long as it wants to needs none.
        if !state::is_round_robin() || state::sleeps(now()) {
            last = Reading::default();
            continue;
        }
        let reading = Reading::of(&folder);
        if reading.stands_still_since(&last) {
            state::evade(tid);
        }
        last = reading;
    }
    if look == state::look() {
        state::come_down();
    }
}

fn is_too_much(spent_ns: Ns, passed_ns: Ns) -> bool {
    spent_ns > SPENT_NS_MAX + passed_ns / SPENT_PART
}

fn spent() -> Ns {
    clock_ns(ClockId::ProcessCPUTime)
}

/// A thread at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Reading {
    is_ready: bool,
    run_ns: Ns,
}

impl Reading {
    fn of(folder: &std::path::Path) -> Self {
        let run_ns = text::read(&folder.join("schedstat"))
            .ok()
            .and_then(|bytes| text::words(&bytes).next().and_then(text::number));
        let is_ready = Stat::read(&folder.join("stat")).is_some_and(|stat| stat.state == 'R');
        Self { is_ready: is_ready && run_ns.is_some(), run_ns: run_ns.unwrap_or(0) }
    }

    /// It was ready both times, and has not run in between.
    fn stands_still_since(&self, last: &Self) -> bool {
        self.is_ready && self == last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_and_end_of_a_look_are_not_too_much_and_a_loop_is() {
        let second = 1_000_000_000;
        assert!(!is_too_much(second, second));
        assert!(!is_too_much(3 * second, 10 * second));
        assert!(is_too_much(2 * second, second));
        assert!(is_too_much(30 * second, 60 * second));
    }

    #[test]
    fn who_runs_or_sleeps_is_not_kept_from_the_cpus() {
        let ready = Reading { is_ready: true, run_ns: 7 };
        assert!(ready.stands_still_since(&ready));
        assert!(!Reading { run_ns: 8, ..ready }.stands_still_since(&ready));
        let sleeps = Reading { is_ready: false, run_ns: 7 };
        assert!(!sleeps.stands_still_since(&sleeps) && !ready.stands_still_since(&sleeps));
    }

    #[test]
    fn the_own_thread_is_read() {
        let own = Reading::of(&PathBuf::from(format!("/proc/self/task/{}", own_tid())));
        assert!(own.is_ready, "{own:?}");
        assert_eq!(Reading::of(&PathBuf::from("/nowhere")), Reading::default());
    }
}
