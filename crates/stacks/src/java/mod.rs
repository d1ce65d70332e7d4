//! What a Java machine's own structures say of its threads: the methods that one is in, as its stack is read (frames.rs); and
//! who has the monitor that another waits to enter, read some times a second of processes that were seen to wait for words.
//!
//! The kernel sees words of memory, and most waits for a monitor are cut into pieces by the machine's own timer, so nobody's wake
//! says who has it; the machine's own lists do (machine.rs). A thread of its own reads (rounds.rs), and rests a thousand times
//! as long as a reading took. Must not: read objects of the program, or a process whose program is not Java.
//!
//! Rejected: attaching (jcmd does: it has the machine stop at a safepoint), and perf data files (no monitors in them).

#[cfg(test)]
mod frame_tests;
pub(crate) mod frames;
mod machine;
mod methods;
mod scopes;
mod table;
#[cfg(test)]
mod tests;
mod threads;

use super::budget::{Budget, cpu_ns};
use super::maps::{self, Mapping};
use super::modules::Modules;
use super::rounds::{Ask, Once, Pace};
pub(crate) use frames::Frames;
use frames::Layout;
use holdup_reason::facts::{Body, Fact, MonitorWait, MonitorWaits, Ns};
use holdup_system::status::threads_by_inner_tid;
use holdup_system::{Roots, memory};
use machine::Machine;
use std::collections::HashMap;

/// Java programs that are read.
const MACHINES_MAX: usize = 16;
/// Readings without an answer before a process is given up: lists that change are not always found whole.
const UNREAD_MAX: u32 = 10;
/// The machine's own library.
const LIBRARY: &str = "libjvm.so";

/// The Java programs of a look.
pub struct JavaMonitors(Once);

impl JavaMonitors {
    /// The process that somebody asks about is asked at once.
    pub fn of(process: Option<u32>) -> Self {
        Self(Once::of(process.into_iter()))
    }

    /// Adds what was read since the last tick, and asks for more; gives the CPU time that reading it took.
    pub fn round(&mut self, facts: &mut Vec<Fact>) -> Ns {
        self.0.round(facts, "holdup-java", read_all)
    }

    /// Reads once more, as the look ends; gives what that took of the CPU time that is allowed.
    pub fn last_round(&mut self, facts: &mut Vec<Fact>, allowed_ns: Ns) -> Ns {
        self.0.last(facts, allowed_ns)
    }
}

/// What the thread keeps from round to round.
#[derive(Default)]
struct Known {
    modules: Modules,
    programs: Vec<Program>,
}

fn read_all(known: &mut Known, asked: Ask<u32>, facts: &mut Vec<Fact>) -> usize {
    let Known { modules, programs } = known;
    let Ask { fresh, mut last_ns } = asked;
    programs.extend(fresh.into_iter().filter_map(|pid| Program::find(pid, modules)));
    programs.truncate(MACHINES_MAX);
    programs.retain_mut(|program| {
        program.unread = program.read(facts, &mut last_ns).map_or(program.unread + 1, |()| 0);
        program.unread < UNREAD_MAX
    });
    modules.close();
    programs.len()
}

/// Whether the program that a process was started with may be a Java machine, by its path: asked before its memory map, which
/// is long.
fn may_be_java(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name == "java" || name == "jsvc" || ["/jvm/", "jdk", "jre"].iter().any(|it| path.contains(it))
}

/// The machine's own library among the files that a process runs code of.
pub(crate) fn library<'m>(mut mappings: impl Iterator<Item = &'m Mapping>) -> Option<&'m Mapping> {
    mappings.find(|mapping| &*mapping.name == LIBRARY)
}

/// What reads the methods of a process's threads, if there is time for what its machine writes of itself.
pub(crate) fn frames(
    pid: u32,
    library: &Mapping,
    modules: &mut Modules,
    budget: &Budget,
) -> Option<Frames> {
    let module = modules.of(pid, library)?;
    let moved_by = modules.moved_by(module, library)?;
    let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
    let layout = modules.machine(module, budget, |modules| {
        let mut symbol =
            |name| modules.address_of(module, name).map(|at| at.wrapping_add(moved_by));
        Layout::find(moved_by, &mut symbol, &mut memory)
    })?;
    Frames::open(&layout, moved_by, &mut memory)
}

/// Whether the program that a process was started with is called like a Java machine.
pub(crate) fn is_called_java(pid: u32) -> bool {
    let path = std::fs::read_link(format!("/proc/{pid}/exe"));
    path.is_ok_and(|path| may_be_java(&path.to_string_lossy()))
}

/// A process that runs a Java program.
struct Program {
    pid: u32,
    machine: Machine,
    /// Numbers of threads by those inside the container.
    numbers: HashMap<u32, u32>,
    /// Somebody waited at the last reading.
    was_waited: bool,
    /// Readings in a row without an answer.
    unread: u32,
    pace: Pace,
}

impl Program {
    fn find(pid: u32, modules: &mut Modules) -> Option<Self> {
        if !is_called_java(pid) {
            return None;
        }
        let mappings = maps::executable(pid);
        let library = library(mappings.iter())?;
        let module = modules.of(pid, library)?;
        let moved_by = modules.moved_by(module, library)?;
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        let mut symbol =
            |name| modules.address_of(module, name).map(|at| at.wrapping_add(moved_by));
        let machine = Machine::find(&mut symbol, &mut memory)?;
        Some(Self {
            pid,
            machine,
            numbers: HashMap::new(),
            was_waited: false,
            unread: 0,
            pace: Pace::default(),
        })
    }

    /// Reports who waits for whom, if it is time, or the last time and there is enough of it, and there is something to report;
    /// none if it could not be read.
    fn read(&mut self, facts: &mut Vec<Fact>, last_ns: &mut Option<Ns>) -> Option<()> {
        let at_ns = holdup_system::clock::now();
        if !self.pace.is_due(at_ns, *last_ns) {
            return Some(());
        }
        let begin_ns = cpu_ns();
        let Self { pid, machine, numbers, .. } = self;
        let pid = *pid;
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        let mut waits = machine.waits(&mut memory)?;
        let inner = waits.iter().flat_map(|wait| [wait.waiter_tid, wait.owner_tid]);
        if inner.clone().any(|inner| inner != 0 && !numbers.contains_key(&inner)) {
            *numbers = threads_by_inner_tid(&Roots::default(), pid);
        }
        let outside = |inner: u32| numbers.get(&inner).copied().unwrap_or(0);
        for MonitorWait { waiter_tid, owner_tid, .. } in &mut waits {
            (*waiter_tid, *owner_tid) = (outside(*waiter_tid), outside(*owner_tid));
        }
        self.pace.paid(at_ns, cpu_ns().saturating_sub(begin_ns), last_ns);
        let is_waited = !waits.is_empty();
        if is_waited || self.was_waited {
            facts.push(Fact { at_ns, body: Body::MonitorWaits(MonitorWaits { pid, waits }) });
        }
        self.was_waited = is_waited;
        Some(())
    }
}
