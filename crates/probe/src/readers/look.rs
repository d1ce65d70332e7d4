//! A look as its readers see it: where it reads, what it is at, and what readers tell one another.
//!
//! A reader has what is its own; here stands only what another one needs, too. So who was named by one and is to be known by
//! another, or which object was waited for and has another end, is a field of this and no call. Must not: read by itself, but for
//! what several readers need once.

use super::endpoints::Ends;
use super::family::Family;
use super::identities::Identities;
use super::last_walk::LastWalk;
use super::netlink::Netlink;
use super::open_log::OpenLog;
use super::stack_numbers::StackNumbers;
use super::waited::Waited;
use crate::SourceError;
use crate::kernel::Programs;
use crate::plan::Scope;
use crate::system::Roots;
use crate::system::clock::now;
use holdup_reason::facts::{Fact, Ns};
use holdup_stacks::UserStacks;

/// The time that a look is about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Window {
    /// When it began.
    pub begin_ns: Ns,
    /// When it is to end; none: when somebody says so.
    pub end_ns: Option<Ns>,
    /// Ticks since.
    pub ticks: u64,
}

/// See the head of the file.
pub struct Look {
    /// Where files are read.
    pub roots: Roots,
    /// What follows from what was asked for.
    pub scope: Scope,
    /// The process that was asked about, or that of the command.
    pub pid: Option<u32>,
    /// The time that it is about.
    pub window: Window,
    /// Another window follows this one, with the same kernel programs.
    pub goes_on: bool,
    /// The kernel programs; none: waits are sampled from files.
    pub programs: Option<Programs>,
    /// Walks over the processes of whom was asked about, where there are no kernel programs.
    pub family: Option<Family>,
    /// Questions to the kernel about its network.
    pub netlink: Option<Netlink>,
    /// Reads user stacks, and has the account of what may be spent on memory of others.
    pub stacks: UserStacks,
    /// Who is known, and who is to be.
    pub identities: Identities,
    /// What was waited for.
    pub waited: Waited,
    /// Open descriptors that were seen before the end.
    pub ends: Ends,
    /// Kernel stacks that are known by their names.
    pub stack_numbers: StackNumbers,
    /// The last walk over all threads, and what the programs had added up by then.
    pub last: LastWalk,
    /// The kernel's log, read so far as this window goes, for the one that follows.
    pub kernel_log: Option<OpenLog>,
}

impl Look {
    /// The window is to end: what takes time and may be left out only delays it.
    pub fn is_overdue(&self) -> bool {
        self.window.end_ns.is_some_and(|end_ns| now() >= end_ns)
    }

    /// For how long it has lasted.
    pub fn lasted_ns(&self) -> Ns {
        now().saturating_sub(self.window.begin_ns)
    }

    /// For how long reading the memory of others is paid. Of windows of a host that follow each other, which are longer where little happens,
    /// no more than for a short one: what stands is read at their end alone.
    pub fn paid_ns(&self) -> Ns {
        const WINDOW_NS_MAX: Ns = 10_000_000_000;
        let lasted_ns = self.lasted_ns();
        let is_of_host = self.goes_on && !self.scope.is_of_somebody();
        if is_of_host { lasted_ns.min(WINDOW_NS_MAX) } else { lasted_ns }
    }

    /// CPU time that is left of what reading the memory of others may take by now.
    pub fn rest_ns(&self) -> Ns {
        self.stacks.rest_ns(self.paid_ns())
    }

    /// Reports the kernel stacks that facts name and that were not reported yet.
    pub fn report_stacks(&self, facts: &mut Vec<Fact>) {
        if let Some(programs) = &self.programs {
            programs.inbox.borrow_mut().decoder.reported_stacks(now(), facts);
        }
    }

    /// Reads all open descriptors, once for all who need them at the end.
    pub fn read_endpoints(&mut self) -> Result<(), SourceError> {
        if self.last.endpoints.is_none() {
            let at_ns = now();
            let all = self.programs.as_mut().map(Programs::endpoints).transpose()?;
            self.last.endpoints = Some((at_ns, all.unwrap_or_default()));
        }
        Ok(())
    }
}
