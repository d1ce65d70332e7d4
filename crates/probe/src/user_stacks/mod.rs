//! The user stacks of threads that stand still: read from outside, without a stop.
//!
//! A thread that waits does not change its stack. So where it left user space is read by the task iterator, its stack by
//! process_vm_readv, and the iterator is asked again: who has not switched meanwhile stood still all the time, and the
//! stack is whole. Any other is dropped and counted. Each wait is read once at most.
//!
//! A look at a command or a process reads those of its threads that already wait for long while it goes on; the end of any
//! other look reads what stands then (choose.rs says whose). It may take a two-hundredth of a CPU, walks of the iterator
//! included (budget.rs), and reads on a thread of its own, because memory and files of others may keep whoever reads
//! them waiting (reader.rs).
//!
//! Where a thread left user space is said by whoever implements `Walker`: the kernel programs, or without them /proc.
//!
//! Must not: know a session or the kernel programs, stop or trace anybody, write, or say what a function means (reason's
//! lock_kind.rs). Rejected: ptrace (it
//! stops), stacks by the kernel at each switch (frame pointers are seldom there, and each wait would pay), a daemon's agent.
//!
//! Edit together: readers/stacks.rs (who asks, and the walkers).

mod budget;
mod called;
mod choose;
#[doc(hidden)]
pub mod elf;
#[doc(hidden)]
pub mod exports;
mod functions;
mod go_program;
mod go_routines;
mod go_stack;
#[cfg(test)]
mod go_tests;
mod goroutines;
mod interpreters;
mod java;
mod javascript;
mod looks;
mod maps;
mod modules;
#[doc(hidden)]
pub mod names;
mod perf_map;
mod process;
mod python;
mod reader;
mod rounds;
#[doc(hidden)]
pub mod rows;
#[cfg(test)]
mod scenes;
#[doc(hidden)]
pub mod unwind;

use crate::SourceError;
use crate::system::clock::now;
use budget::Allowance;
pub use budget::cpu_ns;
use choose::Chosen;
pub use choose::WAIT_NS_MIN;
pub use functions::Functions;
pub use functions::Point;
pub use goroutines::Goroutines;
use holdup_reason::facts::*;
pub use interpreters::Interpreters;
pub use java::JavaMonitors;
use reader::{Batch, Helper};
use std::collections::{HashMap, HashSet};

/// Batches that hung before no more are tried.
const GIVEN_UP_MAX: u32 = 2;

/// Where a blocked thread left user space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Left {
    /// Who.
    pub thread: ThreadRef,
    /// When that was seen.
    pub at_ns: Ns,
    /// Blocked since; of a wait that is older than the look, seen since.
    pub since_ns: Ns,
    /// Switches of its life.
    pub switches: u64,
    /// Where its code goes on.
    pub instruction: u64,
    /// Stack pointer.
    pub stack: u64,
    /// Frame pointer.
    pub frame: u64,
    /// Return address, where the CPU has a register for it.
    pub link: u64,
}

impl Left {
    /// Whether it is the same thread in the same wait.
    fn is_same(&self, other: &Self) -> bool {
        self.thread.start_ns == other.thread.start_ns && self.switches == other.switches
    }
}

/// Whose registers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All.
    All,
    /// Those of the command.
    Traced,
    /// Those of a process.
    Process(u32),
}

/// What says where blocked threads left user space.
pub trait Walker {
    /// Of some of them, holdup's own left out.
    fn left(&mut self, whose: Whose) -> Result<Vec<Left>, SourceError>;
}

/// What reads the stacks of a look.
pub struct UserStacks {
    /// Whose stacks are read while the look goes on.
    target: Option<Whose>,
    helper: Option<Helper>,
    given_up: u32,
    /// By thread id, the wait whose stack was read: by the count of switches.
    read: HashMap<u32, u64>,
    /// Threads that are known to have what others wait for, or to wait for what another has.
    known: HashSet<u32>,
    /// Threads with a wait for whose stack there was no time.
    left_out: HashSet<u32>,
    /// Processes of which it was said that their map is too long.
    too_long: HashSet<u32>,
    allowance: Allowance,
    /// Stacks that were whole, and those whose thread had moved.
    whole: u64,
    torn: u64,
    next_tick: u64,
    turn: u64,
}

impl UserStacks {
    /// For a look in which the stacks of these are read while it goes on.
    pub fn of(target: Option<Whose>) -> Self {
        Self {
            target,
            helper: None,
            given_up: 0,
            read: HashMap::new(),
            known: HashSet::new(),
            left_out: HashSet::new(),
            too_long: HashSet::new(),
            allowance: Allowance::default(),
            whole: 0,
            torn: 0,
            next_tick: 0,
            turn: 0,
        }
    }

    /// Writes down what it took and what came of it.
    pub fn count(&self, cost: &mut Cost) {
        cost.user_stacks = self.whole;
        cost.user_stacks_torn = self.torn;
        cost.user_stacks_left_out = self.left_out.len() as u64;
        cost.user_stacks_seconds = self.allowance.spent_ns() as f64 / 1e9;
    }

    /// CPU time that is left of what reading may take by now.
    pub fn rest_ns(&self, lasted_ns: Ns) -> Ns {
        self.allowance.rest_ns(lasted_ns)
    }

    /// Pays for what was read of memory by others than the helper.
    pub fn pay(&mut self, spent_ns: Ns) {
        self.allowance.pay(spent_ns);
    }

    /// Says whose maps of code that was made at run time are too long to be read, of each once.
    pub fn say_too_long(&mut self, pids: &[u32], facts: &mut Vec<Fact>) {
        let fresh = pids.iter().filter(|pid| self.too_long.insert(**pid));
        facts.extend(fresh.map(|pid| perf_map::too_long(now(), *pid)));
    }

    /// Where blocked threads left user space.
    fn walk(&mut self, walker: &mut dyn Walker, whose: Whose) -> Result<Vec<Left>, SourceError> {
        let begin_ns = cpu_ns();
        let left = walker.left(whose);
        self.allowance.saw_walk(cpu_ns().saturating_sub(begin_ns));
        left
    }

    /// Reads the stacks of those who have not moved since; `whose` they are among.
    fn read(
        &mut self,
        walker: &mut dyn Walker,
        whose: Whose,
        mut chosen: Chosen,
        may: May,
    ) -> Result<Vec<Fact>, SourceError> {
        let is_read = |left: &Left| self.read.get(&left.thread.tid) == Some(&left.switches);
        chosen.left.retain(|left| !is_read(left));
        self.left_out.extend(&chosen.beyond);
        let missed = chosen.left.iter().map(|left| left.thread.tid);
        self.left_out.extend(missed.filter(|tid| !chosen.without_work.contains(tid)));
        let May { allowed_ns, timeout } = may;
        if chosen.left.is_empty() || allowed_ns == 0 || self.given_up >= GIVEN_UP_MAX {
            return Ok(Vec::new());
        }
        if self.helper.is_none() {
            self.helper = Helper::start();
        }
        let batch = Batch { left: chosen.left.clone(), allowed_ns, timeout };
        let Some(read) = self.helper.as_ref().and_then(|helper| helper.read(batch)) else {
            self.helper = None;
            self.given_up += 1;
            // What it has taken is not known.
            self.allowance.pay(allowed_ns);
            return Ok(hung(self.given_up));
        };
        self.allowance.pay(read.spent_ns);
        self.allowance.save_for(read.needed_ns);
        let again = self.walk(walker, whose)?;
        let mut facts = Vec::new();
        self.say_too_long(&read.too_long, &mut facts);
        facts.extend(self.unmoved(chosen.left, again, read));
        Ok(facts)
    }

    /// The stacks of those whose thread stood still all the time.
    fn unmoved(&mut self, wanted: Vec<Left>, again: Vec<Left>, read: reader::Read) -> Vec<Fact> {
        let again: HashMap<u32, &Left> = again.iter().map(|left| (left.thread.tid, left)).collect();
        let mut facts = Vec::new();
        for (left, stack) in wanted.into_iter().zip(read.stacks) {
            self.left_out.remove(&left.thread.tid);
            if !again.get(&left.thread.tid).is_some_and(|now| now.is_same(&left)) {
                self.torn += 1;
                continue;
            }
            // Also one without a name: it would have none the next time, unless there was no time for names.
            if read.needed_ns == 0 {
                self.read.insert(left.thread.tid, left.switches);
            }
            let Some(stack) = stack else {
                if read.needed_ns > 0 {
                    self.left_out.insert(left.thread.tid);
                }
                continue;
            };
            self.whole += 1;
            let body = Body::UserStack(UserStack {
                thread: left.thread,
                since_ns: left.since_ns,
                frames: stack.frames,
                complete: stack.complete,
            });
            facts.push(Fact { at_ns: left.at_ns, body });
        }
        facts
    }
}

/// What a reading may take: CPU time, and time on the clock.
#[derive(Debug, Clone, Copy)]
struct May {
    allowed_ns: Ns,
    timeout: std::time::Duration,
}

/// Said once, when no more is tried.
fn hung(times: u32) -> Vec<Fact> {
    let blind = Blind {
        what: "user_stacks".into(),
        why: "to read the memory of a process took too long, again".into(),
        therefore: "which lock a program waits for is said only as far as the kernel knows".into(),
        ..Blind::default()
    };
    let said = times >= GIVEN_UP_MAX;
    said.then(|| Fact { at_ns: now(), body: Body::Blind(blind) }).into_iter().collect()
}

#[cfg(test)]
mod tests;
