//! What every reader is: a source that is opened, asked at each tick, and read a last time when the window is over.
//!
//! A look is taken by walking one ordered list of readers (mod.rs) at each of its steps, so that the order of facts is the order of
//! the list, and a new source is one file and one line. What readers tell one another stands in `Look`; a reader has no other way
//! to a reader, nor to the session. Must not: know any of them.
//!
//! Rejected: closing in the order of opening (a log is read before all that is read because of it, settings after it); a step for
//! each thing that some source needs (a reader does it within the step that comes anyway).
//!
//! Edit together: mod.rs, session/ (who walks it), docs/adding-a-reader.md.

use super::look::Look;
use crate::SourceError;
use crate::kernel::Queued;
use crate::kernel::thresholds::Thresholds;
use crate::readers::open_log::OpenLog;
use crate::readers::opened::Settings;
use crate::system::clock::now;
use holdup_reason::facts::{Body, Fact, Ns};
use std::collections::VecDeque;

/// A source of facts, as a look sees it. Every step may be left out but the first.
pub trait Reader {
    /// Opens the source and reports what it says as the look begins.
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError>
    where
        Self: Sized;

    /// The window begins now.
    fn begin(&mut self, _look: &mut Look) -> Result<(), SourceError> {
        Ok(())
    }

    /// What came by itself since the last tick. Other readers go by it at this very tick.
    fn drain(&mut self, _look: &mut Look, _facts: &mut Vec<Fact>) {}

    /// A tick in which nobody was awake, because nothing happened: what it would have read.
    fn slept(&mut self, _at_ns: Ns, _facts: &mut Vec<Fact>) {}

    /// A tick. `facts` has what came since the one before, and what readers earlier in the list have reported.
    fn tick(
        &mut self,
        _look: &mut Look,
        _tick: &Tick,
        _facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        Ok(())
    }

    /// The window ends now: what must be as of this moment is read, and reported when the reader is closed.
    fn end(&mut self, _look: &mut Look) -> Result<(), SourceError> {
        Ok(())
    }

    /// What stands as the window ends is looked into, while it stands: `waits` are of all threads, not yet reported.
    fn standing(
        &mut self,
        _look: &mut Look,
        _waits: &mut Vec<Fact>,
        _facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        Ok(())
    }

    /// The last reading, at the reader's turn.
    fn close(&mut self, _look: &mut Look, _facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        Ok(())
    }

    /// Whether nothing of it moves, so that the look may sleep through ticks.
    fn is_still(&self) -> bool {
        true
    }

    /// Ticks to its next reading, if nothing moves until then.
    fn due_ticks(&self) -> u64 {
        u64::MAX
    }
}

/// When a reader is closed: in this order, and of one turn in that of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// The kernel's own words, before anything that is read because of them.
    Log,
    /// Sums of threads.
    Times,
    /// What was walked, and what is sampled without kernel events.
    Sampled,
    /// Who has the file locks that were waited for. From here on the standing waits are reported.
    Locks,
    /// Ways to addresses that do not answer.
    Ways,
    /// Names of what the sums are about.
    Names,
    /// The other ends of what was waited for.
    Ends,
    /// What the kernel programs have added up.
    Sums,
    /// Disks as they are now.
    Disks,
    /// Groups and containers as they are now.
    Groups,
    /// Interfaces and their queues.
    Links,
    /// Counters of the host and its namespaces.
    Counters,
    /// Who all those are that were named.
    Identities,
    /// Kernel stacks that were named.
    Stacks,
}

/// A tick, or several of which all but the last were slept through.
pub struct Tick {
    /// The number of the tick since the look began.
    pub number: u64,
    /// What stands still is read again in any case.
    pub again: bool,
    /// The window is over.
    pub is_last: bool,
    /// What the kernel programs saw queued since the one before.
    pub queued: Queued,
}

/// What is there as readers are opened.
pub struct Opening {
    /// What changes seldom, as far as nobody has taken it yet.
    pub settings: Settings,
    /// The programs that were loaded and are to be attached.
    pub programs: Vec<&'static str>,
    /// When the window before ended, if this one follows another: its programs are attached.
    pub boundary_ns: Option<Ns>,
    /// The kernel's log where that one has left it.
    pub kernel_log: Option<OpenLog>,
    /// Ticks a second in which TCP sums up what it waited for.
    pub hz: u32,
    /// The process of the command, which waits to be let go.
    pub command: Option<u32>,
    /// Which waits are reported from the begin on.
    pub thresholds: Thresholds,
    /// What was reported.
    pub facts: Pieces,
}

impl Opening {
    /// Reports something that is so now.
    pub fn put(&mut self, body: Body) {
        self.facts.push(Fact { at_ns: now(), body });
    }
}

/// The facts of the opening, piece by piece: of thousands of cgroups they take more room than all that is remembered of them,
/// and so much of it as was reported is given back before the rest is.
#[derive(Default)]
pub struct Pieces(VecDeque<Vec<Fact>>);

impl Pieces {
    /// Adds one.
    pub fn push(&mut self, fact: Fact) {
        const FACTS: usize = 300;
        match self.0.back_mut().filter(|piece| piece.len() < FACTS) {
            Some(piece) => piece.push(fact),
            None => self.0.push_back(vec![fact]),
        }
    }

    /// The next of them.
    pub fn pop(&mut self) -> Option<Vec<Fact>> {
        self.0.pop_front()
    }

    /// All that are there.
    pub fn iter(&self) -> impl Iterator<Item = &Fact> + Clone {
        self.0.iter().flatten()
    }
}
