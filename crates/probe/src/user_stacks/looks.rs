//! When stacks are read: three times a second of what was asked about, and at the end of what stands then.
//!
//! Of a command that has ended nothing stands any more, so its servers are looked at while it runs. Must not: choose whose (choose.rs), or read (reader.rs).

use super::{Left, Whose, choose, left};
use crate::SourceError;
use crate::live::{Live, now};
use holdup_reason::facts::Fact;
use std::time::Duration;

/// Ticks between two readings while a look goes on.
const TICKS: u64 = 3;
/// Each so manyth reading of a command is of its servers too: of whoever began to wait since the command began.
const TURNS: u64 = 3;
/// How long a reading may take while a look goes on, and at its end.
const PATIENCE: Duration = Duration::from_millis(50);
const PATIENCE_AT_THE_END: Duration = Duration::from_millis(200);

impl Live {
    /// Tells the stacks of what was asked about, as far as it waits for long already.
    pub(crate) fn user_stacks_between(
        &mut self,
        facts: &mut Vec<Fact>,
        is_last: bool,
    ) -> Result<(), SourceError> {
        if is_last || self.is_overdue() {
            return Ok(());
        }
        let lasted_ns = now().saturating_sub(self.begin_ns);
        let (Some(programs), Some(whose)) = (self.programs.as_mut(), self.user_stacks.target)
        else {
            return Ok(());
        };
        if self.ticks < self.user_stacks.next_tick {
            return Ok(());
        }
        self.user_stacks.next_tick = self.ticks + TICKS;
        self.user_stacks.turn += 1;
        let begin_ns = self.begin_ns;
        let others = whose == Whose::Traced && self.user_stacks.turn.is_multiple_of(TURNS);
        let whose = if others { Whose::All } else { whose };
        let mut wanted = left(programs, whose)?;
        // Whose wait is older than the command does not wait for its sake.
        wanted.retain(|left| !others || left.since_ns >= begin_ns);
        let wanted = choose::between(wanted);
        let told = self.user_stacks.of_threads(programs, whose, wanted, lasted_ns, PATIENCE)?;
        facts.extend(told);
        Ok(())
    }

    /// Where all threads stand at the end of the window, before their switches are no longer counted.
    pub(crate) fn left_at_the_end(&mut self) -> Result<Vec<Left>, SourceError> {
        match self.programs.as_mut() {
            Some(programs) if !self.is_command => left(programs, Whose::All),
            _ => Ok(Vec::new()),
        }
    }

    /// Tells the stacks of standing waits.
    pub(crate) fn user_stacks_at_the_end(
        &mut self,
        waits: &[Fact],
        left: Vec<Left>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let lasted_ns = now().saturating_sub(self.begin_ns);
        let Some(programs) = self.programs.as_mut() else { return Ok(()) };
        let target = match self.user_stacks.target {
            Some(Whose::Process(pid)) => Some(pid),
            _ => None,
        };
        let wanted = choose::at_the_end(left, waits, target);
        let patience = PATIENCE_AT_THE_END;
        let told =
            self.user_stacks.of_threads(programs, Whose::All, wanted, lasted_ns, patience)?;
        facts.extend(told);
        Ok(())
    }
}
