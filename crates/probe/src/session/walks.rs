//! The opened readers, walked in the order of their list.
//!
//! Must not: know one of them, or read anything itself.

use crate::SourceError;
use crate::readers::READERS;
use crate::readers::look::Look;
use crate::readers::reader::{Opening, Reader, Tick, Turn};
use holdup_reason::facts::{Fact, Ns};

/// The readers of a look, each with the turn at which it is closed.
pub(super) struct Walks(Vec<(Turn, Box<dyn Reader>)>);

impl Walks {
    /// Opens all of them.
    pub(super) fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        let mut opened = Vec::new();
        for (open, turn) in READERS {
            opened.push((*turn, open(look, opening)?));
        }
        Ok(Self(opened))
    }

    /// The window begins.
    pub(super) fn begin(&mut self, look: &mut Look) -> Result<(), SourceError> {
        self.0.iter_mut().try_for_each(|(_, reader)| reader.begin(look))
    }

    /// What came by itself.
    pub(super) fn drain(&mut self, look: &mut Look, facts: &mut Vec<Fact>) {
        self.0.iter_mut().for_each(|(_, reader)| reader.drain(look, facts));
    }

    /// A tick that was slept through.
    pub(super) fn slept(&mut self, at_ns: Ns, facts: &mut Vec<Fact>) {
        self.0.iter_mut().for_each(|(_, reader)| reader.slept(at_ns, facts));
    }

    /// A tick.
    pub(super) fn tick(
        &mut self,
        look: &mut Look,
        tick: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        self.0.iter_mut().try_for_each(|(_, reader)| reader.tick(look, tick, facts))
    }

    /// The window ends.
    pub(super) fn end(&mut self, look: &mut Look) -> Result<(), SourceError> {
        self.0.iter_mut().try_for_each(|(_, reader)| reader.end(look))
    }

    /// What stands is looked into.
    pub(super) fn standing(
        &mut self,
        look: &mut Look,
        waits: &mut Vec<Fact>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        self.0.iter_mut().try_for_each(|(_, reader)| reader.standing(look, waits, facts))
    }

    /// Closes those whose turn is among these, turn by turn.
    pub(super) fn close(
        &mut self,
        turns: impl std::ops::RangeBounds<Turn>,
        look: &mut Look,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let of_these = self.0.iter_mut().filter(|(turn, _)| turns.contains(turn));
        let mut due: Vec<_> = of_these.collect();
        // Stable: of one turn in the order of the list.
        due.sort_by_key(|(turn, _)| *turn);
        due.into_iter().try_for_each(|(_, reader)| reader.close(look, facts))
    }

    /// Whether nothing moves.
    pub(super) fn are_still(&self) -> bool {
        self.0.iter().all(|(_, reader)| reader.is_still())
    }

    /// Ticks to the next reading that one of them needs, if nothing moves until then.
    pub(super) fn due_ticks(&self) -> u64 {
        self.0.iter().map(|(_, reader)| reader.due_ticks()).min().unwrap_or(1)
    }
}
