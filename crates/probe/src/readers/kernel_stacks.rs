//! Kernel stacks that facts name, each reported once: at each tick, and behind the last fact that may name one.
//!
//! Must not: give them numbers (decode/stacks.rs). What the walk at the begin found is reported here, however quiet the host.

use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use holdup_reason::facts::Fact;

/// See the head of the file.
pub(super) struct KernelStacks;

impl Reader for KernelStacks {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        look.report_stacks(facts);
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        look.report_stacks(facts);
        Ok(())
    }
}
