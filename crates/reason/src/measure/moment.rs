//! The worst moment of a long window: what a short look at it would have said.
//!
//! By its share of ten seconds a lock that is held for 0.3 s once is nothing, and whoever waited for it lost 0.3 s all the same. So
//! beside its share of the window, what an end costs is measured over the second in which one of its victims lost most to it,
//! against all that this victim was not idle in then: of a process that lived for less than that, against its life. Only waits whose
//! begin and end were seen have a moment; sums of counters do not, and a turn on a CPU that all share does not (on a host that works
//! somebody waits for one in any second). A look as short as an ordinary one is its own moment.
//!
//! Must not: decide how bad a moment is beyond that it counts (rules/engine.rs), or move a figure of the window.
//!
//! Rejected: shorter windows (twice the price of closing them for half the length, and a fault on their border is in neither), and
//! the moment of all victims together (a hundred processes that wait 3 ms each are what sharing costs).

use super::Measures;
use crate::facts::{Ns, ThreadRef};
use crate::graph::end::End;
use crate::threshold::Threshold;

/// Up to this length a look's own shares say what a moment would.
static SHORT_LOOK: Threshold = Threshold::new(
    6.0,
    "s",
    "length of a look up to which its shares are enough: of a longer one the worst second is looked at too",
    "chosen: a look of 5 s, which a loaded host may end late, finds a quarter of a second by its shares",
);
/// Length of a moment.
static STRETCH: Threshold = Threshold::new(
    1_000.0,
    "ms",
    "over which the worst moment of a victim is measured",
    "chosen: a fault of 0.3 s is a sixth of it even for a process that works all the time, and is not of two seconds",
);
/// A shorter loss is no moment that counts.
static LOST_MIN: Threshold = Threshold::new(
    0.2,
    "s",
    "that one victim lost within its worst second: less is nobody's trouble if it comes once",
    "chosen: twice what a person notices",
);
/// Of what the victim was not idle in then.
static SHARE_MIN: Threshold = Threshold::new(
    1.0 / 6.0,
    "1",
    "part of the victim's time then that was not idle",
    "as for a warning (Severity::of)",
);

/// The moment in which one victim lost most.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// The victim.
    pub who: ThreadRef,
    /// When it began, on the look's clock.
    pub begin_ns: Ns,
    /// What was lost within a second from then on.
    pub seconds: f64,
    /// Of the victim's time then that was not idle, 0 to 1.
    pub share: f64,
}

/// The worst moment of an end, if the look is a long one, and the moment counts. Of a command its path counts, and no moment.
pub fn of(measures: &Measures<'_>, end: &End) -> Option<Moment> {
    if measures.is_command() || measures.wall_seconds() <= SHORT_LOOK.value {
        return None;
    }
    let of_victim = |(who, begin_ns, seconds): (&ThreadRef, Ns, f64)| {
        let demand =
            demand_seconds(measures, who.pid, seconds, (begin_ns, begin_ns + STRETCH.ns()));
        Moment { who: who.clone(), begin_ns, seconds, share: (seconds / demand).min(1.0) }
    };
    let counts = |it: &Moment| it.share >= SHARE_MIN.value;
    let long = end.moments(STRETCH.ns()).filter(|(_, _, seconds)| *seconds >= LOST_MIN.value);
    long.map(of_victim)
        .filter(counts)
        .max_by(|a, b| a.seconds.total_cmp(&b.seconds).then(b.who.pid.cmp(&a.who.pid)))
}

/// What a process was not idle in within a time, seconds, of which it lost some: its work at most as much as fits between the waits
/// that were seen.
fn demand_seconds(measures: &Measures<'_>, pid: u32, lost: f64, (from, to): (Ns, Ns)) -> f64 {
    let (mut work, mut wanted) = (0, 0);
    for time in measures.times_of(pid) {
        let (from, to) = (from.max(time.since_ns), to.min(time.until_ns));
        let who = measures.model.threads.key_at(&time.thread, time.until_ns);
        let mut waited = 0;
        for wait in measures.timelines.of(who) {
            let ns = wait.within_ns(from, to);
            waited += ns;
            wanted += if wait.class.is_demand() { ns } else { 0 };
        }
        let between = to.saturating_sub(from).saturating_sub(waited);
        work += between.min(time.run_ns + time.runnable_ns);
    }
    work as f64 / 1e9 + (wanted as f64 / 1e9).max(lost)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::{Finding, Severity};
    use crate::facts::*;
    use crate::rules::scenes::thread;

    const MS: Ns = 1_000_000;

    /// In a window of so many seconds process 10 waits once for a lock that 20 has, from 4.1 s on, and works for so long besides.
    fn found(window_seconds: u64, wait_ms: u64, run_ms: u64, lived: (u64, u64)) -> Vec<Finding> {
        found_in((0, window_seconds * 1_000), wait_ms, run_ms, lived)
    }

    fn found_in(
        window_ms: (u64, u64),
        wait_ms: u64,
        run_ms: u64,
        lived: (u64, u64),
    ) -> Vec<Finding> {
        let end_ns = window_ms.1 * MS;
        let (dev, ino) = (DeviceNumber { major: 8, minor: 1 }, 99);
        let file = FileRef { dev, ino, path: Some("/run/job".into()), ..FileRef::default() };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "flock".into(),
            object: Some(ObjectRef::File(file)),
            ..Place::default()
        };
        let (begin_ns, until_ns) = (4_100 * MS, (4_100 + wait_ms) * MS);
        let (by, context) = (thread(20, "holder"), WakeContext::Task);
        let wake = Some(Wake { at_ns: until_ns, context, by, ..Wake::default() });
        let wait = Wait {
            thread: thread(10, "job"),
            begin_ns,
            end_ns: until_ns,
            place,
            wake,
            ..Wait::default()
        };
        let time = ThreadTime {
            thread: thread(10, "job"),
            since_ns: lived.0 * MS,
            until_ns: lived.1 * MS,
            run_ns: run_ms * MS,
            ..ThreadTime::default()
        };
        let at = |at_ns, body| Fact { at_ns, body };
        explain(vec![
            at(window_ms.0 * MS, Body::WindowBegin(WindowBegin { unix_ns: 1_000 })),
            at(until_ns, Body::Wait(wait)),
            at(lived.1 * MS, Body::ThreadTime(time)),
            at(end_ns, Body::WindowEnd(WindowEnd::default())),
        ])
        .findings
    }

    fn severity(found: &[Finding]) -> Option<Severity> {
        found.iter().find(|it| it.code == "lock.file").map(|it| it.severity)
    }

    #[test]
    fn a_short_fault_in_a_long_window_is_named_with_its_moment() {
        for window_seconds in [10, 60] {
            let found = found(window_seconds, 350, 100, (0, window_seconds * 1_000));
            assert_eq!(severity(&found), Some(Severity::Warning), "{window_seconds} s");
            let moment = found[0].impact.moment.expect("a moment");
            assert_eq!((moment.pid, moment.at_unix_ns), (10, 1_000 + 4_100 * MS));
            assert!((moment.seconds - 0.35).abs() < 1e-4, "{moment:?}");
            let rate = 0.35 / window_seconds as f64;
            assert!((found[0].impact.wait_seconds_per_second - rate).abs() < 1e-6);
            let said = "job 10 lost 350 ms within a second, 4.10 s after the window began.";
            assert!(found[0].text.contains(said), "{}", found[0].text);
        }
    }

    #[test]
    fn a_process_that_lived_for_a_moment_is_judged_by_its_life() {
        let found = found(10, 350, 40, (4_080, 4_480));
        assert_eq!(severity(&found), Some(Severity::Warning));
        let moment = found[0].impact.moment.expect("a moment");
        // Of its 400 ms those before the wait are not of that second.
        assert!((moment.share - 350.0 / 380.0).abs() < 0.01, "{moment:?}");
    }

    #[test]
    fn a_wait_that_a_windows_begin_cuts_in_two_is_as_long_as_it_is() {
        let found = found_in((4_250, 14_250), 300, 10, (4_250, 14_250));
        assert_eq!(severity(&found), Some(Severity::Warning));
        assert!(found[0].text.contains("150 ms of 10 s pass"), "{}", found[0].text);
        let said = "job 10 lost 300 ms within a second, 150 ms before the window began.";
        assert!(found[0].text.contains(said), "{}", found[0].text);
    }

    #[test]
    fn a_process_that_works_all_the_time_loses_a_third_of_its_second() {
        assert_eq!(severity(&found(10, 350, 9_600, (0, 10_000))), Some(Severity::Warning));
    }

    #[test]
    fn a_moment_alone_is_never_critical() {
        assert_eq!(severity(&found(10, 900, 0, (0, 10_000))), Some(Severity::Warning));
    }

    #[test]
    fn what_is_over_at_once_is_no_finding_and_a_short_look_has_no_moments() {
        assert_eq!(severity(&found(10, 150, 10, (0, 10_000))), None);
        assert_eq!(severity(&found(10, 20, 0, (4_099, 4_121))), None);
        let short = found(5, 350, 100, (0, 5_000));
        assert_eq!(severity(&short), Some(Severity::Warning));
        assert!(short[0].impact.moment.is_none());
    }
}
