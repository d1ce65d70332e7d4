//! When stacks are read: three times a second of what was asked about, and at the end of what stands then.
//!
//! Of a command that has ended nothing stands any more, so its servers are looked at while it runs. Must not: choose whose (choose.rs), or read (reader.rs).

use super::budget::cpu_ns;
use super::choose::{self, Chosen, Wanted};
use super::{Left, May, Walker, Whose};
use crate::SourceError;
use crate::readers::endpoints::partners;
use crate::session::{Live, now};
use holdup_reason::facts::{Endpoint, Fact, Ns};
use std::time::Duration;

/// Ticks between two readings while a look goes on.
const TICKS: u64 = 3;
/// Each so manyth reading of a command is of its servers too: of whoever began to wait since the command began.
const TURNS: u64 = 3;
/// Walks that a reading pays for once it is done: the one before it and the one after it.
const WALKS_MEANWHILE: u64 = 2;
/// How long a reading may take while a look goes on, and at its end.
const TIMEOUT: Duration = Duration::from_millis(50);
const TIMEOUT_AT_THE_END: Duration = Duration::from_millis(200);
/// What of the time that a look has lasted stacks are read for while it goes on, and at its end: the rest is for those
/// that stand at the end, and for the functions that the CPU clock hit (functions.rs).
const PART_BETWEEN: (u64, u64) = (3, 4);
const PART_AT_THE_END: (u64, u64) = (4, 5);

fn part(lasted_ns: Ns, (part, of): (u64, u64)) -> Ns {
    lasted_ns / of * part
}

impl Live {
    /// Tells the stacks of what was asked about, as far as it waits for long already.
    pub(crate) fn user_stacks_between(
        &mut self,
        facts: &mut Vec<Fact>,
        is_last: bool,
    ) -> Result<(), SourceError> {
        let Some(whose) = self.user_stacks.target else { return Ok(()) };
        self.user_stacks.known.extend(choose::known(facts));
        if is_last || self.is_overdue() || self.ticks < self.user_stacks.next_tick {
            return Ok(());
        }
        self.user_stacks.next_tick = self.ticks + TICKS;
        let lasted_ns = part(now().saturating_sub(self.begin_ns), PART_BETWEEN);
        if !self.user_stacks.allowance.is_worth(lasted_ns) {
            return Ok(());
        }
        let begin_ns = cpu_ns();
        let reported = self.stacks_of(whose, lasted_ns);
        self.user_stacks.allowance.pay(cpu_ns().saturating_sub(begin_ns));
        facts.extend(reported?);
        Ok(())
    }

    fn stacks_of(&mut self, whose: Whose, lasted_ns: Ns) -> Result<Vec<Fact>, SourceError> {
        let begin_ns = self.begin_ns;
        let stacks = &mut self.user_stacks;
        let mut walker = match (self.programs.as_mut(), &self.family) {
            (Some(programs), _) => Walker::Programs(programs),
            (None, Some(family)) => Walker::Files(family, &self.roots, begin_ns),
            (None, None) => return Ok(Vec::new()),
        };
        stacks.turn += 1;
        let others = whose == Whose::Traced && stacks.turn.is_multiple_of(TURNS);
        let whose = if others { Whose::All } else { whose };
        let mut wanted = stacks.walk(&mut walker, whose)?;
        // Whose wait is older than the command does not wait for its sake.
        wanted.retain(|left| !others || left.since_ns >= begin_ns);
        let allowed_ns = stacks.allowance.batch_ns(lasted_ns, WALKS_MEANWHILE);
        let may = May { allowed_ns, timeout: TIMEOUT };
        stacks.read(&mut walker, whose, choose::between(wanted, &stacks.known), may)
    }

    /// Where all threads stand at the end of the window, before their switches are no longer counted; none if to ask is
    /// dearer than there is time for. A walk for all that there is to know of each thread took so long.
    pub(crate) fn left_at_the_end(
        &mut self,
        walk_ns: Ns,
    ) -> Result<Option<Vec<Left>>, SourceError> {
        let lasted_ns = part(now().saturating_sub(self.begin_ns), PART_AT_THE_END);
        let (stacks, Some(programs)) = (&mut self.user_stacks, self.programs.as_mut()) else {
            return Ok(None);
        };
        stacks.allowance.expect_walk(walk_ns);
        if self.is_command || !stacks.allowance.is_worth_at_the_end(lasted_ns) {
            return Ok(None);
        }
        let begin_ns = cpu_ns();
        let left = stacks.walk(&mut Walker::Programs(programs), Whose::All);
        stacks.allowance.pay(cpu_ns().saturating_sub(begin_ns));
        left.map(Some)
    }

    /// Tells the stacks of standing waits. `facts` has who holds the futexes that they wait for, `endpoints` who speaks to whom.
    pub(crate) fn user_stacks_at_the_end(
        &mut self,
        waits: &[Fact],
        left: Option<Vec<Left>>,
        endpoints: &[Endpoint],
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let target = match self.user_stacks.target {
            Some(Whose::Process(pid)) => Some(pid),
            _ => None,
        };
        self.user_stacks.known.extend(choose::known(facts));
        let partners = target.map(|pid| partners(endpoints, pid)).unwrap_or_default();
        let wanted = Wanted { target, partners, known: self.user_stacks.known.clone() };
        let begin_ns = cpu_ns();
        let reported = self.stacks_that_stand(waits, left, &wanted);
        self.user_stacks.allowance.pay(cpu_ns().saturating_sub(begin_ns));
        facts.extend(reported?);
        Ok(())
    }

    fn stacks_that_stand(
        &mut self,
        waits: &[Fact],
        left: Option<Vec<Left>>,
        wanted: &Wanted,
    ) -> Result<Vec<Fact>, SourceError> {
        let lasted_ns = part(now().saturating_sub(self.begin_ns), PART_AT_THE_END);
        let (stacks, Some(programs)) = (&mut self.user_stacks, self.programs.as_mut()) else {
            return Ok(Vec::new());
        };
        if self.is_command {
            return Ok(Vec::new());
        }
        let chosen = match left {
            Some(left) => choose::at_the_end(left, waits, wanted),
            None => Chosen { beyond: choose::standing(waits).collect(), ..Chosen::default() },
        };
        let allowed_ns = stacks.allowance.batch_ns(lasted_ns, 1);
        let may = May { allowed_ns, timeout: TIMEOUT_AT_THE_END };
        stacks.read(&mut Walker::Programs(programs), Whose::All, chosen, may)
    }
}
