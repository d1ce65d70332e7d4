//! How long a wait must be to be reported: long enough that events stay under a rate.
//!
//! Short waits are only counted; the threshold that parts them from long ones doubles while a tick
//! brings more events than may be reported, and falls again when they are few. What may be reported in a tick
//! shrinks with what was reported already, so that a look of any length stays within a budget of events.
//! The threads that were asked for and all others have a threshold each: whoever asks why a command is slow on a busy
//! host wants the command's waits, and the others' events are what there are too many of.
//! Pure: it is given counts and gives thresholds. Must not: drop events itself (the ring counts those
//! that do not fit). Rejected: sampling one wait in n (the longest, which explain a hang, would be gone).

use crate::plan::{Reporting, TRACED_THRESHOLD_NS};
use holdup_reason::facts::{Body, Fact, Ns, ThreadRef};
use std::collections::HashMap;

/// A wait at least this long is reported in full, as long as there are few.
pub(super) const THRESHOLD_NS: Ns = 1_000_000;
/// A threshold above this would hide what a look is for.
const THRESHOLD_NS_MAX: Ns = 1_000_000_000;
/// Up to here the others' threshold doubles as soon as events are too many. Waits that are longer are few, and a moment that counts
/// (reason's measure/moment.rs) must be reported: what the ring holds yet of a flood of short ones is no reason to leave them out.
const THRESHOLD_NS_EASY: Ns = 128_000_000;
/// Ticks with too many events before it doubles from there on.
const FLOOD_TICKS: u64 = 5;
/// Events that a look may tell (about 2 KB each, with the reasoning).
const EVENTS_MAX: u64 = 1_000_000;
/// Ticks after which two thirds of what is left would be reported, if events came as fast as they may.
const TICKS_TO_SPEND: u64 = 400;
/// Events that a tick may bring at most.
const PER_TICK_MAX: u64 = 2_500;
/// When the budget is nearly spent, at least.
const PER_TICK_MIN: u64 = 50;
/// Ticks with few events before a threshold falls.
const QUIET_TICKS: u64 = 10;

/// Events of a tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Events {
    /// Of the threads of the command or the process.
    pub traced: u64,
    /// Of all others.
    pub others: u64,
}

/// The thresholds of one look.
#[derive(Debug)]
pub(super) struct WaitThreshold {
    /// For the threads of a command or a process, 0: every wait.
    traced_ns: Ns,
    /// For all others.
    others_ns: Ns,
    /// The least that `others_ns` may be: more where looking is to take less.
    others_least_ns: Ns,
    /// The least that `traced_ns` may be; none: nobody is traced.
    traced_least_ns: Option<Ns>,
    per_tick_max: u64,
    reported: u64,
    quiet_ticks: u64,
    /// Ticks in a row with too many events, at a threshold of [`THRESHOLD_NS_EASY`] or more.
    flood_ticks: u64,
    highest: (Ns, Ns),
    author: Option<(u64, ThreadRef)>,
}

impl WaitThreshold {
    /// Of a look on so many CPUs.
    pub(super) fn new(reporting: Reporting, cpus: usize) -> Self {
        let of_cpus = reporting.per_cpu_and_tick.map(|each| each * cpus as u64);
        let per_tick_max = of_cpus.unwrap_or(PER_TICK_MAX).min(PER_TICK_MAX);
        Self {
            traced_ns: reporting.traced_least_ns.unwrap_or(0),
            others_ns: THRESHOLD_NS,
            others_least_ns: THRESHOLD_NS,
            traced_least_ns: reporting.traced_least_ns,
            per_tick_max,
            reported: 0,
            quiet_ticks: 0,
            flood_ticks: 0,
            highest: (0, THRESHOLD_NS),
            author: None,
        }
    }

    /// Threads of a command or a process: a wait this long is reported.
    pub(super) fn traced_threshold_ns(&self) -> Ns {
        self.traced_ns
    }

    /// All others: a wait this long is reported.
    pub(super) fn threshold_ns(&self) -> Ns {
        self.others_ns
    }

    /// Waits of others that are shorter than this are only counted from now on, however few there are.
    pub(super) fn set_least(&mut self, least_ns: Ns) {
        self.others_least_ns = least_ns.clamp(THRESHOLD_NS, THRESHOLD_NS_MAX);
        self.others_ns = self.others_ns.max(self.others_least_ns);
        self.highest.1 = self.highest.1.max(self.others_ns);
    }

    /// That length; none if it is what is reported of anybody.
    pub(super) fn least_ns(&self) -> Option<Ns> {
        Some(self.others_least_ns).filter(|least_ns| *least_ns > THRESHOLD_NS)
    }

    /// The highest that both were.
    pub(super) fn highest_ns(&self) -> (Ns, Ns) {
        self.highest
    }

    /// Whose waits were most when the threshold had to rise.
    pub(super) fn author(&self) -> Option<&ThreadRef> {
        self.author.as_ref().map(|(_, thread)| thread)
    }

    /// Another window: its budget is its own, and the thresholds stay where they are.
    pub(super) fn next_window(&mut self) {
        let least = self.traced_least_ns.unwrap_or(0);
        let traced = if self.traced_ns > least { self.traced_ns } else { 0 };
        self.highest = (traced, self.others_ns);
        (self.reported, self.author) = (0, None);
    }

    fn per_tick(&self) -> u64 {
        (EVENTS_MAX.saturating_sub(self.reported) / TICKS_TO_SPEND)
            .clamp(PER_TICK_MIN, self.per_tick_max)
    }

    /// Takes in the events of so many ticks, of none if they came before its end and more will come; `braked`
    /// if the kernel side held waits under `threshold_ns` back because the ring was half full.
    /// True if a threshold rose.
    pub(super) fn observe(&mut self, events: Events, ticks: u64, braked: bool) -> bool {
        let most = self.per_tick() * ticks.max(1);
        let all = events.traced + events.others;
        self.reported += all;
        if braked {
            self.highest.0 = self.highest.0.max(self.others_ns);
        }
        if all > most || braked {
            self.quiet_ticks = 0;
            self.rise(events, ticks);
            return true;
        }
        if ticks > 0 {
            self.flood_ticks = 0;
        }
        if ticks > 0 && all < most / 8 {
            self.quiet_ticks += ticks;
            // A flood that goes on comes back with each fall: one tick of it in eleven is borne.
            if self.quiet_ticks >= QUIET_TICKS {
                self.quiet_ticks = 0;
                self.fall();
            }
        }
        false
    }

    /// Of whose events there are most, the threshold doubles. Both do where neither has two thirds of them.
    fn rise(&mut self, events: Events, ticks: u64) {
        let has_traced = self.traced_least_ns.is_some();
        if has_traced && 2 * events.traced >= events.others {
            self.traced_ns = (self.traced_ns * 2).clamp(TRACED_THRESHOLD_NS, THRESHOLD_NS_MAX);
        }
        if !has_traced || 2 * events.others >= events.traced && events.others > 0 {
            self.raise_others(ticks);
        }
        self.highest.0 = self.highest.0.max(self.traced_ns);
        self.highest.1 = self.highest.1.max(self.others_ns);
    }

    fn raise_others(&mut self, ticks: u64) {
        if self.others_ns >= THRESHOLD_NS_EASY {
            self.flood_ticks += ticks;
            if self.flood_ticks < FLOOD_TICKS {
                return;
            }
            self.flood_ticks = 0;
        }
        self.others_ns = (self.others_ns * 2).min(THRESHOLD_NS_MAX);
    }

    fn fall(&mut self) {
        self.others_ns = (self.others_ns / 2).max(self.others_least_ns);
        let least = self.traced_least_ns.unwrap_or(0);
        self.traced_ns = match self.traced_ns / 2 {
            half if half < TRACED_THRESHOLD_NS => least,
            half => half.max(least),
        };
    }

    /// Remembers whose events a flood is made of.
    pub(super) fn blame(&mut self, flood: &[Fact]) {
        let mut by_process: HashMap<u32, (u64, &ThreadRef)> = HashMap::new();
        for fact in flood {
            if let Body::Wait(wait) = &fact.body {
                let known = by_process.entry(wait.thread.pid).or_insert((0, &wait.thread));
                // The latest name: a command is born with its parent's.
                *known = (known.0 + 1, &wait.thread);
            }
        }
        // Of two with as many, the lower number: the answer must not depend on a hash.
        let most = by_process.into_values().max_by_key(|(n, thread)| (*n, u32::MAX - thread.pid));
        if let Some((count, thread)) = most
            && self.author.as_ref().is_none_or(|(known, _)| count > *known)
        {
            let process = ThreadRef { tid: thread.pid, ..thread.clone() };
            self.author = Some((count, process));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Target;
    use holdup_reason::facts::Wait;

    fn of(target: &Target) -> Reporting {
        target.scope().reporting
    }

    /// A host on which `per_second(threshold)` waits a second are at least as long as the threshold.
    fn reported(
        wait_threshold: &mut WaitThreshold,
        ticks: u64,
        per_second: impl Fn(Ns) -> u64,
    ) -> u64 {
        let mut sum = 0;
        for _ in 0..ticks {
            let threshold = match wait_threshold.traced_least_ns {
                None => wait_threshold.others_ns,
                Some(_) => wait_threshold.traced_ns,
            };
            let events = per_second(threshold) / 10;
            sum += events;
            let events = match wait_threshold.traced_least_ns {
                None => Events { traced: 0, others: events },
                Some(_) => Events { traced: events, others: 0 },
            };
            wait_threshold.observe(events, 1, false);
        }
        sum
    }

    #[test]
    fn few_events_leave_the_threshold_alone() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Host), 4);
        reported(&mut wait_threshold, 100, |_| 1_000);
        assert_eq!(wait_threshold.highest_ns(), (0, THRESHOLD_NS));
        assert!(wait_threshold.author().is_none());
    }

    #[test]
    fn a_flood_of_short_waits_raises_the_threshold_and_its_end_lowers_it() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Host), 4);
        // A hundred thousand waits a second, of 3 ms each: none is 4 ms long.
        let flood =
            reported(
                &mut wait_threshold,
                50,
                |threshold| if threshold <= 3_000_000 { 100_000 } else { 10 },
            );
        assert!(wait_threshold.highest_ns().1 == 4 * THRESHOLD_NS, "{wait_threshold:?}");
        assert!(flood < 70_000, "{flood} reported of 500,000");
        reported(&mut wait_threshold, 30, |_| 10);
        assert_eq!(wait_threshold.threshold_ns(), THRESHOLD_NS);
    }

    #[test]
    fn another_window_has_a_budget_of_its_own_and_the_thresholds_of_the_one_before() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Host), 4);
        reported(&mut wait_threshold, 20, |_| 1_000_000);
        let raised = wait_threshold.threshold_ns();
        wait_threshold.next_window();
        assert_eq!((wait_threshold.threshold_ns(), wait_threshold.reported), (raised, 0));
        reported(&mut wait_threshold, 600, |_| 10);
        assert_eq!(wait_threshold.highest_ns(), (0, raised));
        wait_threshold.next_window();
        assert_eq!(wait_threshold.highest_ns(), (0, THRESHOLD_NS));
    }

    #[test]
    fn what_is_left_of_a_flood_of_short_waits_hides_no_long_one() {
        let flood = |ticks| {
            let mut wait_threshold = WaitThreshold::new(of(&Target::Host), 4);
            for _ in 0..ticks {
                wait_threshold.observe(Events { traced: 0, others: 100_000 }, 1, false);
            }
            wait_threshold.threshold_ns()
        };
        assert_eq!(flood(11), THRESHOLD_NS_EASY);
        assert!(flood(13) > THRESHOLD_NS_EASY && flood(100) == THRESHOLD_NS_MAX);
    }

    #[test]
    fn who_is_to_look_for_less_reports_long_waits_alone_however_few_they_are() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Host), 4);
        assert_eq!(wait_threshold.least_ns(), None);
        wait_threshold.set_least(16 * THRESHOLD_NS);
        reported(&mut wait_threshold, 100, |_| 10);
        assert_eq!(wait_threshold.highest_ns(), (0, 16 * THRESHOLD_NS));
        assert_eq!(wait_threshold.least_ns(), Some(16 * THRESHOLD_NS));
        wait_threshold.set_least(0);
        reported(&mut wait_threshold, 100, |_| 10);
        wait_threshold.next_window();
        assert_eq!(wait_threshold.highest_ns(), (0, THRESHOLD_NS));
    }

    #[test]
    fn a_larger_host_may_tell_more_up_to_what_a_command_may() {
        // Half as many waits are twice as long.
        let all = |cpus| {
            reported(&mut WaitThreshold::new(of(&Target::Host), cpus), 50, |threshold| {
                100_000_000_000 / threshold
            })
        };
        assert!(all(2) < all(8) && all(8) < all(1_000), "{} {} {}", all(2), all(8), all(1_000));
        let threshold = |cpus| {
            let mut wait_threshold = WaitThreshold::new(of(&Target::Host), cpus);
            reported(&mut wait_threshold, 100, |_| 2_400);
            wait_threshold.highest_ns().1
        };
        assert_eq!((threshold(1) > THRESHOLD_NS, threshold(2)), (true, THRESHOLD_NS));
    }

    #[test]
    fn long_waits_in_a_flood_are_still_reported() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Host), 4);
        reported(&mut wait_threshold, 600, |_| 1_000_000);
        assert_eq!(wait_threshold.threshold_ns(), THRESHOLD_NS_MAX);
    }

    #[test]
    fn every_wait_of_a_command_is_reported_until_they_are_too_many() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Command(Vec::new())), 4);
        reported(&mut wait_threshold, 100, |_| 20_000);
        assert_eq!(wait_threshold.traced_threshold_ns(), 0);
        // A ping-pong: two hundred thousand waits a second of 5 us.
        reported(
            &mut wait_threshold,
            10,
            |threshold| if threshold <= 5_000 { 200_000 } else { 100 },
        );
        assert_eq!(wait_threshold.highest_ns(), (TRACED_THRESHOLD_NS, THRESHOLD_NS));
    }

    #[test]
    fn short_waits_of_a_process_are_reported_now_and_then_however_many_they_are() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Process(7)), 2);
        // Three thousand a second of 300 us.
        let few = |threshold| if threshold <= 300_000 { 3_000 } else { 0 };
        assert_eq!(reported(&mut wait_threshold, 50, few), 15_000);
        // Thirty thousand.
        let many = |threshold| if threshold <= 300_000 { 30_000 } else { 0 };
        let seen = reported(&mut wait_threshold, 50, many);
        assert!((9_000..40_000).contains(&seen), "{seen} of 150,000");
    }

    #[test]
    fn a_command_of_any_length_stays_within_its_budget() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Command(Vec::new())), 4);
        // Waits of all lengths: half as many are twice as long.
        let hour = 36_000;
        let all =
            reported(&mut wait_threshold, hour, |threshold| 4_000_000_000 / threshold.max(4_000));
        assert!(all < EVENTS_MAX + hour * PER_TICK_MIN * 2, "{all}");
    }

    #[test]
    fn an_alarm_in_a_tick_raises_but_never_lowers() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Host), 4);
        assert!(wait_threshold.observe(Events { traced: 0, others: 10_000 }, 0, false));
        let raised = wait_threshold.threshold_ns();
        for _ in 0..2 * QUIET_TICKS {
            assert!(!wait_threshold.observe(Events::default(), 0, false));
        }
        assert_eq!(wait_threshold.threshold_ns(), raised);
    }

    #[test]
    fn what_the_kernel_side_held_back_is_reported() {
        let mut wait_threshold = WaitThreshold::new(of(&Target::Command(Vec::new())), 4);
        assert!(wait_threshold.observe(Events { traced: 1, others: 0 }, 0, true));
        assert_eq!(wait_threshold.highest_ns(), (THRESHOLD_NS, THRESHOLD_NS));
        assert_eq!(wait_threshold.traced_threshold_ns(), TRACED_THRESHOLD_NS);
    }

    #[test]
    fn a_flood_of_others_hides_no_wait_of_a_command() {
        for target in [Target::Command(Vec::new()), Target::Process(7)] {
            let reporting = of(&target);
            let mut wait_threshold = WaitThreshold::new(reporting, 2);
            for _ in 0..100 {
                wait_threshold.observe(Events { traced: 20, others: 100_000 }, 1, false);
            }
            assert_eq!(wait_threshold.traced_threshold_ns(), reporting.traced_least_ns.unwrap());
            assert_eq!(wait_threshold.threshold_ns(), THRESHOLD_NS_MAX);
        }
    }

    #[test]
    fn the_author_of_a_flood_is_who_waited_most_often() {
        let wait = |pid: u32| {
            let thread = ThreadRef { tid: pid + 1, pid, start_ns: 1, comm: format!("p{pid}") };
            Fact { at_ns: 0, body: Body::Wait(Wait { thread, ..Wait::default() }) }
        };
        let mut wait_threshold = WaitThreshold::new(of(&Target::Host), 4);
        wait_threshold.blame(&[wait(7), wait(9), wait(9), wait(7), wait(9)]);
        wait_threshold.blame(&[wait(7)]);
        assert_eq!(wait_threshold.author().map(|it| (it.tid, it.comm.as_str())), Some((9, "p9")));
    }
}
