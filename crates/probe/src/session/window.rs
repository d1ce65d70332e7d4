//! Between two ticks of a look how long it sleeps and what wakes it, and at a tick what came.
//!
//! Must not: decide when a host is quiet (quiet_host.rs), or read what a sample needs (readers/).
//! Edit together: quiet_host.rs, readers/standstill.rs.

use super::expense::Expense;
use super::quiet_host::{QuietHost, Sleep};
use super::rate::Rate;
use super::walks::Walks;
use super::watched::Watched;
use crate::SourceError;
use crate::kernel::{Programs, Queued};
use crate::readers::look::Look;
use crate::readers::reader::Tick;
use crate::system::clock::now;
use crate::system::own::priority;
use holdup_reason::facts::{Fact, Ns};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;

/// Ticks between two walks over the standing waits of a command, and readings of counters that stand still.
const STANDING_TICKS: u64 = 10;
/// The same in a long window of a quiet host, where each of these readings is most of what its second takes.
const STANDING_TICKS_LONG: u64 = 50;
/// A window is long from here on.
const LONG_WINDOW_NS: Ns = 30_000_000_000;
/// Events of a tick that leave the host quiet.
const QUIET_EVENTS: u64 = 10;

/// What goes on from tick to tick.
pub(super) struct Ticks {
    /// The rate of events.
    pub rate: Rate,
    /// What looking costs.
    pub expense: Expense,
    quiet: QuietHost,
}

impl Ticks {
    /// Of a look that has just begun.
    pub(super) fn new(rate: Rate, expense: Expense) -> Self {
        Self { rate, expense, quiet: QuietHost::default() }
    }

    /// Of a window that follows this one.
    pub(super) fn next_window(mut self) -> Self {
        self.rate.threshold.next_window();
        let expense = Expense::of_next_window(self.rate.events());
        Self { rate: self.rate, expense, quiet: self.quiet }
    }

    /// Ticks to what must be read next if nothing happens.
    fn due_ticks(&self, look: &Look, walks: &Walks) -> u64 {
        let standing = standing_ticks(look);
        let left = standing - look.window.ticks % standing;
        if self.expense.is_measuring() { 1 } else { walks.due_ticks().min(left) }
    }

    /// Sleeps to the end of the tick, or for some ticks if the host is quiet, or to the end of the command or the window
    /// if that is sooner. A ring that fills up is emptied meanwhile.
    pub(super) fn sleep(
        &mut self,
        look: &mut Look,
        walks: &Walks,
        watched: &Watched,
    ) -> Result<Sleep, SourceError> {
        let ticks = self.quiet.ticks(self.due_ticks(look, walks));
        let mut sleep = Sleep::new(now(), ticks, look.window.end_ns);
        loop {
            let rest_ns = sleep.until_ns().saturating_sub(now());
            let alarm = look.programs.as_ref().map(Programs::alarm_fd);
            priority::sleeps_until(sleep.until_ns());
            let is_alarm = wait(watched.end_fd(), alarm, rest_ns);
            priority::sleeps_until(0);
            if !is_alarm || now() >= sleep.until_ns() {
                priority::raise_if_late(now().saturating_sub(sleep.until_ns()));
                sleep.end(now());
                return Ok(sleep);
            }
            if let Some(programs) = look.programs.as_mut() {
                programs.answer_alarm()?;
                programs.follow_names(false)?;
                self.rate.follow(programs, 0);
            }
            self.quiet.disturb();
            self.watch(look);
            sleep.end_with_tick(now());
        }
    }

    /// Has the programs call, or not.
    fn watch(&self, look: &mut Look) {
        let quiet = u32::from(self.quiet.is_watched());
        if let Some(control) = look.programs.as_mut().and_then(Programs::control) {
            control.quiet = quiet;
        }
    }

    /// What came in a sleep, and what is read at its end.
    pub(super) fn tick(
        &mut self,
        look: &mut Look,
        walks: &mut Walks,
        (sleep, is_last): (Sleep, bool),
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let ticks = sleep.ticks();
        let events = match look.programs.as_mut() {
            Some(programs) => {
                programs.consume()?;
                programs.follow_names(false)?;
                self.rate.follow(programs, ticks)
            }
            None => 0,
        };
        walks.drain(look, facts);
        sleep.slept_through().for_each(|at_ns| walks.slept(at_ns, facts));
        look.window.ticks += ticks;
        let number = look.window.ticks;
        let tick = Tick {
            number,
            again: number.is_multiple_of(standing_ticks(look)),
            is_last,
            queued: look.programs.as_mut().map_or_else(Queued::default, Programs::queued),
        };
        if let Some(programs) = &look.programs {
            self.expense.tick(number, programs);
        }
        walks.tick(look, &tick, facts)?;
        // Every wait of a command is reported: its threads are to be read while they live.
        let still = walks.are_still() && !look.scope.is_command();
        self.quiet.passed(ticks, still && events <= QUIET_EVENTS * ticks);
        self.watch(look);
        Ok(())
    }
}

/// Waits of a command, and those that are sampled because no program reports them, are looked for each second however long the window is.
fn standing_ticks(look: &Look) -> u64 {
    let lasts_ns =
        look.window.end_ns.map_or(0, |end_ns| end_ns.saturating_sub(look.window.begin_ns));
    let are_reported = look.programs.is_some() && !look.scope.is_of_somebody();
    let is_long = look.goes_on && lasts_ns >= LONG_WINDOW_NS;
    if is_long && are_reported { STANDING_TICKS_LONG } else { STANDING_TICKS }
}

/// Sleeps until there is an alarm of the ring or the command has ended, for so long at most. Whether it was the alarm alone: that a
/// signal came ends a sleep as well.
fn wait(end: Option<BorrowedFd<'_>>, alarm: Option<BorrowedFd<'_>>, most_ns: Ns) -> bool {
    let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut waits: Vec<PollFd<'_>> = end.into_iter().chain(alarm).map(watch).collect();
    let most = Timespec {
        tv_sec: (most_ns / 1_000_000_000) as i64,
        tv_nsec: (most_ns % 1_000_000_000) as i64,
    };
    let is_ready = poll(&mut waits, Some(&most)).is_ok_and(|ready| ready > 0);
    let has_ended = end.is_some() && waits.first().is_some_and(|it| !it.revents().is_empty());
    is_ready && !has_ended
}
