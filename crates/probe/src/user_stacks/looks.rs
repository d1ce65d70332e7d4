//! When stacks are read: three times a second of what was asked about, and at the end of what stands then.
//!
//! Of a command that has ended nothing stands any more, so its servers are looked at while it runs. Must not: choose whose (choose.rs), or read (reader.rs).

use super::budget::cpu_ns;
use super::choose::{self, Chosen, Wanted};
use super::{Left, May, UserStacks, Walker, Whose};
use crate::SourceError;
use crate::system::clock::now;
use holdup_reason::facts::{Fact, Ns};
use std::collections::HashSet;
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

impl UserStacks {
    /// Reports the stacks of what was asked about, as far as it waits for long already, at some tick of a look that began then.
    /// `None`: nobody walks, or the window is to end.
    pub fn between(
        &mut self,
        walker: Option<&mut dyn Walker>,
        (tick, begin_ns): (u64, Ns),
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let Some(whose) = self.target else { return Ok(()) };
        self.known.extend(choose::known(facts));
        let Some(walker) = walker.filter(|_| tick >= self.next_tick) else { return Ok(()) };
        self.next_tick = tick + TICKS;
        let lasted_ns = part(now().saturating_sub(begin_ns), PART_BETWEEN);
        if !self.allowance.is_worth(lasted_ns) {
            return Ok(());
        }
        let spent_before_ns = cpu_ns();
        let reported = self.stacks_of(walker, whose, begin_ns, lasted_ns);
        self.allowance.pay(cpu_ns().saturating_sub(spent_before_ns));
        facts.extend(reported?);
        Ok(())
    }

    fn stacks_of(
        &mut self,
        walker: &mut dyn Walker,
        whose: Whose,
        begin_ns: Ns,
        lasted_ns: Ns,
    ) -> Result<Vec<Fact>, SourceError> {
        self.turn += 1;
        let others = whose == Whose::Traced && self.turn.is_multiple_of(TURNS);
        let whose = if others { Whose::All } else { whose };
        let mut wanted = self.walk(walker, whose)?;
        // Whose wait is older than the command does not wait for its sake.
        wanted.retain(|left| !others || left.since_ns >= begin_ns);
        let allowed_ns = self.allowance.batch_ns(lasted_ns, WALKS_MEANWHILE);
        let may = May { allowed_ns, timeout: TIMEOUT };
        let chosen = choose::between(wanted, &self.known);
        self.read(walker, whose, chosen, may)
    }

    /// A walk for all that there is to know of each thread took so long: no walk for less is dearer.
    pub fn expect_walk(&mut self, walk_ns: Ns) {
        self.allowance.expect_walk(walk_ns);
    }

    /// Where all threads stand at the end of a window that lasted so long, before their switches are no longer counted; none if
    /// to ask is dearer than there is time for.
    pub fn left_at_the_end(
        &mut self,
        walker: &mut dyn Walker,
        lasted_ns: Ns,
    ) -> Result<Option<Vec<Left>>, SourceError> {
        if !self.allowance.is_worth_at_the_end(part(lasted_ns, PART_AT_THE_END)) {
            return Ok(None);
        }
        let begin_ns = cpu_ns();
        let left = self.walk(walker, Whose::All);
        self.allowance.pay(cpu_ns().saturating_sub(begin_ns));
        left.map(Some)
    }

    /// The process that was asked about, if one was.
    pub fn process(&self) -> Option<u32> {
        match self.target {
            Some(Whose::Process(pid)) => Some(pid),
            _ => None,
        }
    }

    /// Reports the stacks of standing waits. `facts` has who holds the futexes that they wait for, `partners` who may owe the
    /// process that was asked about an answer. `None`: nobody walks any more.
    pub fn at_the_end(
        &mut self,
        walker: Option<&mut dyn Walker>,
        waits: &[Fact],
        left: Option<Vec<Left>>,
        partners: HashSet<u32>,
        lasted_ns: Ns,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        self.known.extend(choose::known(facts));
        let Some(walker) = walker else { return Ok(()) };
        let wanted = Wanted { target: self.process(), partners, known: self.known.clone() };
        let begin_ns = cpu_ns();
        let chosen = match left {
            Some(left) => choose::at_the_end(left, waits, &wanted),
            None => Chosen { beyond: choose::standing(waits).collect(), ..Chosen::default() },
        };
        let allowed_ns = self.allowance.batch_ns(part(lasted_ns, PART_AT_THE_END), 1);
        let may = May { allowed_ns, timeout: TIMEOUT_AT_THE_END };
        let reported = self.read(walker, Whose::All, chosen, may);
        self.allowance.pay(cpu_ns().saturating_sub(begin_ns));
        facts.extend(reported?);
        Ok(())
    }
}
