//! Where threads stood, in the kernel and in their programs, and what was read of the locks and jobs inside programs.
//!
//! Must not: say what a function means (the waits room).

use super::push::{Push, Series};
use crate::facts::*;
use std::collections::HashMap;

/// Stacks, and what programs hold inside.
#[derive(Debug, Default)]
pub struct Stacks {
    /// Kernel stacks by identity.
    kernel: HashMap<u32, Vec<String>>,
    /// User stacks by thread id, with when each was read.
    pub(super) user: HashMap<u32, Series<UserStack>>,
    /// Locks of interpreters by process, every reading.
    pub(crate) interpreter_locks: HashMap<u32, Series<InterpreterLock>>,
    /// Goroutines that stood, by process, every reading.
    pub(crate) goroutines: HashMap<u32, Series<Goroutines>>,
    /// Who waited to enter a monitor of a Java program, by process, every reading.
    pub(crate) monitor_waits: HashMap<u32, Series<MonitorWaits>>,
    /// What processes of databases waited for inside the server, by process, every reading.
    pub(crate) session_waits: HashMap<u32, Series<SessionWait>>,
    /// Jobs of managers, every reading.
    pub(crate) unit_jobs: Series<UnitJobs>,
}

impl Stacks {
    /// The kernel stack of an identity; empty if there is none.
    pub fn kernel(&self, id: u32) -> &[String] {
        self.kernel.get(&id).map_or(&[], Vec::as_slice)
    }
}

impl Push<Stack> for Stacks {
    fn push(&mut self, _: Ns, stack: Stack) {
        self.kernel.insert(stack.id, stack.frames);
    }
}

impl Push<UserStack> for Stacks {
    fn push(&mut self, at: Ns, stack: UserStack) {
        self.user.entry(stack.thread.tid).or_default().push((at, stack));
    }
}

impl Push<InterpreterLock> for Stacks {
    fn push(&mut self, at: Ns, lock: InterpreterLock) {
        self.interpreter_locks.entry(lock.pid).or_default().push((at, lock));
    }
}

impl Push<Goroutines> for Stacks {
    fn push(&mut self, at: Ns, all: Goroutines) {
        self.goroutines.entry(all.pid).or_default().push((at, all));
    }
}

impl Push<MonitorWaits> for Stacks {
    fn push(&mut self, at: Ns, all: MonitorWaits) {
        self.monitor_waits.entry(all.pid).or_default().push((at, all));
    }
}

impl Push<SessionWait> for Stacks {
    fn push(&mut self, at: Ns, wait: SessionWait) {
        self.session_waits.entry(wait.pid).or_default().push((at, wait));
    }
}
