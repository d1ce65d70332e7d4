//! User stacks as a source: of what was asked about some times a second, and at the end of what stands then; and who says where
//! threads left user space.
//!
//! Must not: choose whose stacks are read, or read them (crates/stacks).

use super::endpoints::partners;
use super::family::{Family, left};
use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use crate::decode::values::thread_ref;
use crate::decode::wire::{self, wire_registers};
use crate::kernel::Programs;
use crate::system::Roots;
use holdup_reason::facts::{Endpoint, Fact, Ns};
use holdup_stacks::{Left, Walker, Whose};
use std::collections::HashSet;

/// See the head of the file.
pub(super) struct Stacks;

impl Reader for Stacks {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn tick(
        &mut self,
        look: &mut Look,
        tick: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let may = !tick.is_last && !look.is_overdue();
        let begin_ns = look.window.begin_ns;
        let mut kernel = look.programs.as_mut().map(KernelWalk);
        let mut files = look.family.as_ref().map(|it| FileWalk(it, &look.roots, begin_ns));
        let walker: Option<&mut dyn Walker<Error = SourceError>> = match (&mut kernel, &mut files) {
            (Some(kernel), _) => Some(kernel),
            (None, Some(files)) => Some(files),
            (None, None) => None,
        };
        look.stacks.between(walker.filter(|_| may), (tick.number, begin_ns), facts)
    }

    /// Where all threads stand, before their switches are no longer counted.
    fn end(&mut self, look: &mut Look) -> Result<(), SourceError> {
        let lasted_ns = look.paid_ns();
        let Some(programs) = look.programs.as_mut() else { return Ok(()) };
        look.stacks.expect_walk(look.last.walk_ns);
        if !look.scope.is_command() {
            look.last.left = look.stacks.left_at_the_end(&mut KernelWalk(programs), lasted_ns)?;
        }
        Ok(())
    }

    fn standing(
        &mut self,
        look: &mut Look,
        waits: &mut Vec<Fact>,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        look.read_endpoints()?;
        let all: &[Endpoint] = look.last.endpoints.as_ref().map_or(&[], |(_, all)| all);
        let process = look.stacks.process();
        let partners: HashSet<u32> = process.map(|pid| partners(all, pid)).unwrap_or_default();
        let left = look.last.left.take();
        let lasted_ns = look.paid_ns();
        let programs = look.programs.as_mut().filter(|_| !look.scope.is_command());
        let mut kernel = programs.map(KernelWalk);
        let walker = kernel.as_mut().map(|it| it as &mut dyn Walker<Error = SourceError>);
        look.stacks.at_the_end(walker, waits, left, partners, lasted_ns, facts)
    }
}

/// The kernel's own list of threads.
struct KernelWalk<'a>(&'a mut Programs);

impl Walker for KernelWalk<'_> {
    type Error = SourceError;

    fn left(&mut self, whose: Whose) -> Result<Vec<Left>, SourceError> {
        let mut all = Vec::new();
        let (traced, process) = match whose {
            Whose::All => (false, 0),
            Whose::Traced => (true, 0),
            Whose::Process(pid) => (false, pid),
        };
        self.0.registers(traced, process, |record| all.push(read(record)))?;
        let own = std::process::id();
        all.retain(|left| left.thread.pid != own);
        Ok(all)
    }
}

fn read(record: &[u8]) -> Left {
    let record: wire_registers = wire::read(record);
    Left {
        thread: thread_ref(&record.thread),
        at_ns: record.head.at_ns,
        since_ns: record.since_ns,
        switches: record.switches,
        instruction: record.instruction,
        stack: record.stack,
        frame: record.frame,
        link: record.link,
    }
}

/// Files, of those that the walks over a command's family know to stand; the window began then.
struct FileWalk<'a>(&'a Family, &'a Roots, Ns);

impl Walker for FileWalk<'_> {
    type Error = SourceError;

    fn left(&mut self, _: Whose) -> Result<Vec<Left>, SourceError> {
        Ok(left(self.0.standing(), self.1, self.2))
    }
}
