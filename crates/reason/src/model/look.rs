//! What was looked at, when and how well: the machine, the target, the window, what could not be seen, what the kernel printed.
//!
//! Must not: hold anything of a thread, a device or a group; those have areas of their own.

use super::push::{Push, Series};
use crate::facts::*;
use std::collections::BTreeMap;

/// The begin of a look is read over so long, nanoseconds.
const BEGIN_NS: Ns = 100_000_000;

/// The frame of a look.
#[derive(Debug, Default)]
pub struct Look {
    /// The machine.
    pub(crate) host: Host,
    /// What is looked at.
    pub target: Option<Target>,
    /// The window.
    pub(crate) begin_ns: Ns,
    /// The window.
    pub(crate) end_ns: Ns,
    /// Wall clock at the begin, nanoseconds since 1970.
    pub(crate) begin_unix_ns: u64,
    /// How the window ended.
    pub(crate) window_end: WindowEnd,
    /// How the command ended.
    pub(crate) command_end: Option<(Ns, CommandEnd)>,
    /// What could not be seen.
    pub(crate) blind: Vec<Blind>,
    /// Events lost, by source.
    pub(crate) lost: BTreeMap<String, u64>,
    /// What it cost.
    pub(crate) cost: Cost,
    /// Lines of the kernel's log.
    pub(crate) kernel_log: Series<KernelLogLine>,
}

impl Look {
    /// Of which start of the host it is; empty if that was not read.
    pub fn boot_id(&self) -> &str {
        &self.host.boot_id
    }

    /// Somebody asked about a command, a process or a container, and not about a whole host: who does has a reason.
    pub fn is_asked_about(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.kind != TargetKind::Host)
    }

    /// Whether what began at a time stood already as the look began, which is read over some time.
    pub fn began_before(&self, since_ns: Ns) -> bool {
        since_ns <= self.begin_ns.saturating_add(BEGIN_NS)
    }

    /// Length of the window, seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }

    /// What the wall clock is ahead of the one that goes on while the host is suspended (CLOCK_BOOTTIME), nanoseconds: another only where the
    /// wall clock was set.
    pub fn unix_offset_ns(&self) -> i64 {
        self.begin_unix_ns as i64 - self.begin_ns as i64 - self.host.boot_offset_ns as i64
    }

    /// When the window ended, as far as that is in.
    pub fn end_ns(&self) -> Ns {
        self.end_ns
    }

    /// Once the last fact is in: a look whose end was not recorded ends with its last wait.
    pub(super) fn finish(&mut self, last_wait_ns: Option<Ns>) {
        if self.end_ns == 0 {
            self.end_ns = last_wait_ns.unwrap_or(self.begin_ns);
        }
    }
}

impl Push<Host> for Look {
    fn push(&mut self, _: Ns, host: Host) {
        self.host = host;
    }
}

impl Push<Blind> for Look {
    fn push(&mut self, _: Ns, blind: Blind) {
        if !self.blind.contains(&blind) {
            self.blind.push(blind);
        }
    }
}

impl Push<Target> for Look {
    fn push(&mut self, _: Ns, target: Target) {
        self.target = Some(target);
    }
}

impl Push<WindowBegin> for Look {
    fn push(&mut self, at: Ns, begin: WindowBegin) {
        self.begin_ns = at;
        self.begin_unix_ns = begin.unix_ns;
    }
}

impl Push<WindowEnd> for Look {
    fn push(&mut self, at: Ns, end: WindowEnd) {
        self.end_ns = at;
        self.window_end = end;
    }
}

impl Push<CommandEnd> for Look {
    fn push(&mut self, at: Ns, end: CommandEnd) {
        self.command_end = Some((at, end));
    }
}

impl Push<Cost> for Look {
    fn push(&mut self, _: Ns, cost: Cost) {
        self.cost = cost;
    }
}

impl Push<Lost> for Look {
    fn push(&mut self, _: Ns, lost: Lost) {
        *self.lost.entry(lost.source).or_default() += lost.count;
    }
}

impl Push<KernelLogLine> for Look {
    fn push(&mut self, at: Ns, line: KernelLogLine) {
        self.kernel_log.push((at, line));
    }
}
