//! Functions that the CPU clock hit, as a source: which files a command's processes run is written down while they live, and places
//! are named at the end.
//!
//! Must not: name them itself (crates/stacks).

use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use holdup_reason::facts::{Fact, Ns};
use holdup_stacks::Functions;

/// CPU time that naming the functions of a command that is over may take, however short it was.
const NAMING_NS: Ns = 30_000_000;

impl Reader for Functions {
    fn open(look: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::of(look.scope.process, look.scope.is_command()))
    }

    fn tick(
        &mut self,
        _: &mut Look,
        tick: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        self.remember(facts, tick.number);
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let rest_ns = look.rest_ns();
        // Whom it would slow down has ended.
        let allowed_ns = if look.scope.is_command() { rest_ns.max(NAMING_NS) } else { rest_ns };
        let points = std::mem::take(&mut look.last.points);
        let (spent_ns, too_long) = self.name(points, &mut look.last.sums, allowed_ns);
        look.stacks.pay(spent_ns);
        look.stacks.say_too_long(&too_long, facts);
        Ok(())
    }
}
