//! What interpreters, Go programs, Java machines and sessions of databases say of their own threads, as sources.
//!
//! Each has a thread of its own that reads, so that nobody here waits; what it takes of a CPU is paid from the account of all user
//! stacks. Must not: read (crates/stacks). Edit together: mod.rs, since who waits for a monitor must come before the stacks.

use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use holdup_reason::facts::{Fact, Ns};
use holdup_stacks::{Goroutines, Interpreters, JavaMonitors, Sessions};

impl Reader for Interpreters {
    fn open(look: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::of(look.scope.process, look.scope.is_command()))
    }

    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        if let Some(family) = look.family.as_ref().filter(|_| look.scope.is_command()) {
            self.walked(family.members().into_iter());
        }
        let spent_ns = self.round(facts, look.paid_ns());
        look.stacks.pay(spent_ns);
        Ok(())
    }
}

impl Reader for Goroutines {
    fn open(look: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::of(look.scope.process, look.ends.earlier().values()))
    }

    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        look.stacks.pay(self.round(facts));
        Ok(())
    }

    fn standing(
        &mut self,
        look: &mut Look,
        _: &mut Vec<Fact>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        last(look, |rest_ns| self.last_round(facts, rest_ns));
        Ok(())
    }
}

impl Reader for JavaMonitors {
    fn open(look: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::of(look.scope.process))
    }

    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        look.stacks.pay(self.round(facts));
        Ok(())
    }

    fn standing(
        &mut self,
        look: &mut Look,
        _: &mut Vec<Fact>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        last(look, |rest_ns| self.last_round(facts, rest_ns));
        Ok(())
    }
}

impl Reader for Sessions {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::default())
    }

    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        look.stacks.pay(self.round(facts, look.paid_ns()));
        Ok(())
    }

    fn standing(
        &mut self,
        look: &mut Look,
        waits: &mut Vec<Fact>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        last(look, |rest_ns| self.last_round(waits, facts, rest_ns));
        Ok(())
    }
}

/// A last round of what is read already, as far as there is time. Of a command that has ended nothing is left.
fn last(look: &mut Look, round: impl FnOnce(Ns) -> Ns) {
    if !look.scope.is_command() {
        let spent_ns = round(look.rest_ns());
        look.stacks.pay(spent_ns);
    }
}
