//! The live host as a source: one look, from its opening facts to its closing ones. A process may take as many as it likes, one
//! after another; and a look may go on, one window after another, its kernel programs staying where they are: the end of a window
//! is the begin of the next, and each window's facts are a whole recording. What happens while one is closed and the next is opened
//! waits in the ring, and belongs to the next.
//!
//! A look is: read what changes seldom, attach, walk every thread (what already stands makes no event), then each tenth of a second
//! take what came and a sample of the counters, and at the end walk again, and read the sums and whatever names the objects that
//! were waited for. All of that is done by readers (readers/mod.rs), which a session walks at each step; it owns the time, the
//! command and the rate of events, and knows no source by name. The order of facts is the order of arrival. While the host is quiet
//! it sleeps through tenths of seconds that would find nothing (quiet_host.rs).
//!
//! Must not: reason about waits; block on what it looks at (system/ sees to that); act on the host; leave anything behind when it
//! is dropped. Rejected: a thread per reader (order would be lost, and one look costs little; only what changes seldom is read beside
//! the loading of the programs, which takes longer); waking up for each event (a tenth of a second is soon enough and costs nothing).
//!
//! Edit together: opening.rs, window.rs, closing.rs (the three steps), plan.rs (what follows from the target).

mod closing;
mod command;
mod expense;
mod opening;
#[cfg(test)]
mod order_tests;
mod quiet_host;
mod rate;
mod stalls;
mod stopping;
mod target;
mod wait_threshold;
mod walks;
mod watched;
mod window;

use crate::plan::Target;
use crate::readers::look::Look;
use crate::readers::reader::Pieces;
use crate::system::clock::{ClockId, clock_ns, now};
use crate::system::own;
use crate::{Source, SourceError};
use closing::close;
use holdup_reason::facts::*;
pub(crate) use opening::completed;
use opening::{Granted, Loaded, Refused};
use quiet_host::Sleep;
use stalls::Stalls;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
pub use stopping::Stopper;
use walks::Walks;
use watched::Watched;
use window::Ticks;

/// How far a look has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// Opened; its window begins as soon as somebody reads.
    Opened,
    /// Within its window.
    Window,
    /// Its window has ended, and what came before is still to be read.
    Ended,
    /// All was reported.
    Over,
}

/// A look that is going on.
pub struct Session {
    // Dropped in this order: readers before what they read by.
    walks: Walks,
    look: Look,
    ticks: Ticks,
    watched: Watched,
    stop: Arc<AtomicBool>,
    opening: Pieces,
    course: Course,
    /// When the window ends if somebody waits, and what says so.
    stalls: Option<(Ns, Stalls)>,
    refused: Refused,
    granted: Option<Granted>,
}

impl Session {
    /// Begins a look, for so many seconds or until it is stopped or the command ends. A command is forked; the first reading lets
    /// it go.
    pub fn start(target: &Target, seconds: Option<f64>) -> Result<Self, SourceError> {
        let stop = Arc::new(AtomicBool::new(false));
        Ok(Self::of(opening::open(target)?, seconds, stop))
    }

    /// The same, of the first of several windows ([`Session::next`]); `stop` is set to end the look.
    pub fn start_going_on(
        target: &Target,
        seconds: f64,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, SourceError> {
        let mut session = Self::of(opening::open(target)?, Some(seconds), stop);
        session.look.goes_on = true;
        Ok(session)
    }

    /// The window that begins where this one ended, once all of this one was read. Nothing is loaded, attached or forked again;
    /// files are read as at any begin.
    pub fn next(self, target: &Target, seconds: f64) -> Result<Self, SourceError> {
        let Self { walks, mut look, ticks, stop, refused, granted, .. } = self;
        drop(walks);
        let boundary_ns = Some(look.last.end_ns);
        let Refused { hidden, blind, hz } = refused;
        let programs = look.programs.take();
        let kernel_log = look.kernel_log.take();
        let names = Vec::new();
        let loaded = Loaded { programs, names, hidden, blind, hz, boundary_ns, kernel_log };
        let opened = opening::open_next(target, look.roots.clone(), loaded, ticks)?;
        let opened = opening::Opened { granted, ..opened };
        let mut session = Self::of(opened, Some(seconds), stop);
        session.look.goes_on = true;
        Ok(session)
    }

    /// Waits shorter than this are only counted from now on, where looking is to take less; 0: as few as there must be.
    pub fn set_least_wait(&mut self, least_ns: Ns) {
        self.ticks.rate.threshold.set_least(least_ns);
    }

    /// The window ends so many seconds after it began; if that is over already, at once.
    pub fn set_seconds(&mut self, seconds: f64) {
        let begin_ns = self.look.window.begin_ns;
        self.look.window.end_ns = Some(begin_ns + (seconds.max(0.0) * 1e9) as Ns);
    }

    /// It ends after so many seconds already if the kernel counts that somebody waits for CPUs, disks or memory.
    pub fn set_seconds_of_stalls(&mut self, seconds: f64) {
        let end_ns = self.look.window.begin_ns + (seconds.max(0.0) * 1e9) as Ns;
        let (_, stalls) = self.stalls.take().unwrap_or_default();
        self.stalls = Some((end_ns, stalls));
    }

    fn of(opened: opening::Opened, seconds: Option<f64>, stop: Arc<AtomicBool>) -> Self {
        let opening::Opened { walks, look, ticks, watched, facts, refused, granted } = opened;
        let course = Course::Opened;
        let mut session = Self {
            walks,
            look,
            ticks,
            watched,
            stop,
            opening: facts,
            course,
            stalls: None,
            refused,
            granted,
        };
        seconds.into_iter().for_each(|seconds| session.set_seconds(seconds));
        session
    }

    /// Begins the window, and lets the command go: not before the caller reads, and so has caught the signals that
    /// he and the command get from a terminal.
    fn open_window(&mut self) -> Result<(), SourceError> {
        // A command's time begins with its release, a look's with the first fact of its window.
        if self.watched.is_command() {
            self.look.window.begin_ns = now();
        }
        let at_ns = self.look.window.begin_ns;
        let unix_ns = clock_ns(ClockId::Realtime) - (now() - at_ns);
        self.opening.push(Fact { at_ns, body: Body::WindowBegin(WindowBegin { unix_ns }) });
        self.watched.release()?;
        self.walks.begin(&mut self.look)
    }

    /// Set it to end the look early.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// What the handlers of signals that end the look at a command write to.
    pub fn command_stopper(&self) -> Stopper {
        self.watched.stopper()
    }

    /// Exit status of the command as a shell reports it, once it has ended; if a signal ended the look before, that of one whom the
    /// signal killed.
    pub fn exit_status(&self) -> Option<i32> {
        self.watched.exit_status()
    }

    /// Ends the window if the command has ended, somebody wants it, or its time is over.
    fn end_if_over(&mut self) -> Result<(), SourceError> {
        let ended = self.watched.has_ended()?;
        let stopped = match self.watched.is_command() {
            true => self.watched.is_stopped(now()),
            false => self.stop.load(Ordering::Relaxed),
        };
        let due = self.look.is_overdue();
        if self.course == Course::Window && (ended || stopped || due) {
            self.watched.is_over();
            self.look.last.end_ns = now();
            self.look.last.interrupted = stopped && !ended && !due;
            own::priority::raise_if_crowded();
            self.walks.end(&mut self.look)?;
            self.course = Course::Ended;
        }
        Ok(())
    }

    fn tick(&mut self, facts: &mut Vec<Fact>, of: (Sleep, bool)) -> Result<(), SourceError> {
        let before = facts.len();
        self.ticks.tick(&mut self.look, &mut self.walks, of, facts)?;
        if let (Some((end_ns, stalls)), Some(is_to_end_ns)) =
            (&mut self.stalls, &mut self.look.window.end_ns)
        {
            stalls.take(&facts[before..]);
            if stalls.are_seen() {
                *is_to_end_ns = (*is_to_end_ns).min(*end_ns);
            }
        }
        Ok(())
    }

    /// Everything that is read once the window is over.
    fn close(&mut self, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        facts.extend(self.watched.end());
        close(&mut self.look, &mut self.walks, &self.ticks.rate, facts)?;
        let events = self.look.programs.as_ref().map_or(0, |p| p.inbox.borrow().decoder.events);
        let lasted_ns = self.look.last.end_ns.saturating_sub(self.look.window.begin_ns);
        let mut cost = Cost {
            scheduling: Some(own::priority::had()),
            memory_locked: Some(self.granted.as_ref().is_some_and(|it| it.memory_locked)),
            ..self.ticks.expense.cost(events, lasted_ns)
        };
        self.look.stacks.count(&mut cost);
        facts.push(Fact { at_ns: now(), body: Body::Cost(cost) });
        own::priority::leave();
        Ok(())
    }
}

impl Source for Session {
    fn drain(&mut self, facts: &mut Vec<Fact>) -> Result<bool, SourceError> {
        match self.course {
            Course::Over => return Ok(false),
            Course::Opened => {
                self.course = Course::Window;
                self.open_window()?;
            }
            Course::Window | Course::Ended => {}
        }
        // Before what is left to be reported of the opening, which may take longer than the window on a host that is busy.
        self.end_if_over()?;
        if let Some(mut piece) = self.opening.pop() {
            facts.append(&mut piece);
            return Ok(true);
        }
        let sleep = match self.course {
            Course::Ended => Sleep::over(now()),
            _ => self.ticks.sleep(&mut self.look, &self.walks, &self.watched)?,
        };
        self.end_if_over()?;
        if self.course != Course::Ended {
            self.tick(facts, (sleep, false))?;
            return Ok(true);
        }
        let mut late = Vec::new();
        self.tick(&mut late, (sleep, true))?;
        self.course = Course::Over;
        facts.append(&mut self.look.last.without_repeats(late));
        self.close(facts)?;
        Ok(false)
    }
}
