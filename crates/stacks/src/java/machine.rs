//! The threads of a Java machine that wait to enter a monitor, and who has it.
//!
//! Where things are says the machine's own table (table.rs). Who entered a monitor that nobody else wanted then is
//! known by the place of his lock record, which lies on his stack. Pure over whatever reads the process's memory, which may hold
//! anything and changes while it is read: lists are bounded, and a wait that is another when it is read again is dropped.
//! Must not: follow objects of the program.

use super::table::{Symbol, Table, number};
use super::threads::{self, Threads};
use crate::called::Memory;
use holdup_reason::facts::MonitorWait;
use std::collections::HashMap;

/// Owners without a name: the machine does not know yet who it is (objectMonitor.hpp).
const NAMELESS_MAX: u64 = 2;
/// Waits that are reported at a time.
const WAITS_MAX: usize = 256;

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layout {
    threads: Threads,
    pending_monitor: u64,
    stack_base: u64,
    stack_bytes: u64,
    /// The number by which releases from 24 on name an owner.
    owner_number: Option<u64>,
    owner: u64,
}

/// A Java machine in a process.
#[derive(Debug)]
pub(super) struct Machine {
    layout: Layout,
}

impl Layout {
    fn of(table: &Table) -> Option<Self> {
        Some(Self {
            threads: Threads::of(table)?,
            pending_monitor: table.of_thread("_current_pending_monitor")?,
            stack_base: table.of_thread("_stack_base")?,
            stack_bytes: table.of_thread("_stack_size")?,
            owner_number: table.of_thread("_monitor_owner_id"),
            owner: table.offset("ObjectMonitor", "_owner")?,
        })
    }
}

impl Machine {
    /// By the machine's own table; none if a field is missing.
    pub(super) fn find(symbol: &mut Symbol<'_>, memory: &mut Memory<'_>) -> Option<Self> {
        let types = [&threads::TYPES[..], &["ObjectMonitor"]].concat();
        let layout = Layout::of(&Table::read(&types, symbol, memory)?)?;
        Some(Self { layout })
    }

    /// Who waits to enter a monitor now, and who has it (0: not known); none if the memory is not there.
    pub(super) fn waits(&self, memory: &mut Memory<'_>) -> Option<Vec<MonitorWait>> {
        let threads = self.layout.threads.all(memory)?;
        let pending = |thread: u64, memory: &mut Memory<'_>| {
            number(thread.wrapping_add(self.layout.pending_monitor), memory)
        };
        let mut waiting = Vec::new();
        for thread in &threads {
            let monitor = pending(*thread, memory).filter(|monitor| *monitor != 0);
            waiting.extend(monitor.map(|monitor| (*thread, monitor)));
        }
        waiting.truncate(WAITS_MAX);
        let mut owners: HashMap<u64, Option<u64>> = HashMap::new();
        let mut waits = Vec::new();
        for (thread, monitor) in waiting {
            let owner =
                *owners.entry(monitor).or_insert_with(|| self.owner(monitor, &threads, memory));
            // Another one by now, or none: what was read as its owner may be anybody. Or it was just given to him.
            if pending(thread, memory) != Some(monitor) || owner == Some(thread) {
                continue;
            }
            let owner_tid =
                owner.and_then(|owner| self.layout.threads.id(owner, memory)).unwrap_or(0);
            if let Some(waiter_tid) = self.layout.threads.id(thread, memory) {
                waits.push(MonitorWait { waiter_tid, owner_tid, monitor });
            }
        }
        Some(waits)
    }

    /// The thread that has a monitor: named itself, by its number, or by a lock record on its stack.
    fn owner(&self, monitor: u64, threads: &[u64], memory: &mut Memory<'_>) -> Option<u64> {
        let layout = &self.layout;
        let owner = number(monitor.wrapping_add(layout.owner), memory).filter(|it| *it != 0)?;
        if owner <= NAMELESS_MAX {
            return None;
        }
        if threads.contains(&owner) {
            return Some(owner);
        }
        threads.iter().copied().find(|thread| {
            let mut word = |offset: u64| number(thread.wrapping_add(offset), memory);
            let is_its_number =
                layout.owner_number.is_some_and(|offset| word(offset) == Some(owner));
            let base = word(layout.stack_base).unwrap_or(0);
            let bytes = word(layout.stack_bytes).unwrap_or(0);
            is_its_number || (base.saturating_sub(bytes)..base).contains(&owner)
        })
    }
}
