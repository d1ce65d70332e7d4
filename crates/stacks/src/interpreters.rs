//! Who has the lock of an interpreter, and what it runs: read ten times a second of processes that may be one.
//!
//! A wait for such a lock is mostly too short for a stack, and none of its words says who has it; the interpreter's own state
//! does. Who has it also is who computes, so of what was asked about it is read whether anybody waits or not: a sample of
//! the program's own functions, and of its collector. Owns which processes are interpreters (asked once of each, a few at a
//! time, again while one is still starting); a thread of its own reads them (rounds.rs). Of a command the first second or so is
//! read more often, so that a short one has enough readings. It takes a thousandth of a CPU, and of what was asked about what it
//! takes to find the interpreter first; where that is too little it reads seldom. Must not: read a process of a host that nobody was seen to
//! wait in.

use super::maps;
use super::modules::Modules;
use super::python::{Python, Runtime, is_interpreter};
use super::rounds::{Ask, Rounds, waits_for_a_word};
use holdup_reason::facts::{Body, Fact, InterpreterLock, Ns};
use holdup_system::status::thread_inside;
use holdup_system::{Roots, memory};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Processes that are asked for in a look, and of those with an interpreter how many are read.
const ASKED_MAX: usize = 256;
const READ_MAX: usize = 16;
/// Readings without an answer before a process is given up: it has ended, or never was an interpreter.
const UNREAD_MAX: u32 = 10;
/// Processes of one program without an interpreter, before no more of them are asked: it may come with a plug-in.
const STRANGER_TIMES: u32 = 3;
/// Readings of a process in one round while it has few of them, and the time between two: a command may be over before there are
/// enough by a tick each. All of it is shorter than a tick.
const YOUNG_READINGS: u32 = 4;
const YOUNG_PAUSE: Duration = Duration::from_millis(22);
/// As many are enough for shares.
const ENOUGH_READINGS: u32 = 40;
/// Of the time that a look has lasted, what this takes of a CPU. Code that is not optimised takes some twenty times as long.
const PART_OF_CPU: u64 = if cfg!(debug_assertions) { 50 } else { 1000 };
/// Beside it, of what was asked about: whoever is short-lived would be found and then never read.
const FINDING_NS: Ns = if cfg!(debug_assertions) { 80_000_000 } else { 4_000_000 };

/// The interpreters of a look.
#[derive(Default)]
pub struct Interpreters {
    asked: HashSet<u32>,
    rounds: Rounds<Asked>,
    spent_ns: Ns,
    /// Whatever is started may be asked for.
    is_command: bool,
    /// What finding may take beside the rest.
    finding_ns: Ns,
}

/// A process that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    pid: u32,
    /// It was only just started: only its name says so far what it is.
    is_young: bool,
}

impl Interpreters {
    /// For a look at a process, or at a command.
    pub fn of(process: Option<u32>, is_command: bool) -> Self {
        let mut all = Self { is_command, ..Self::default() };
        if is_command || process.is_some() {
            all.finding_ns = FINDING_NS;
        }
        if let Some(pid) = process {
            all.want(Asked { pid, is_young: false });
        }
        all
    }

    fn want(&mut self, asked: Asked) {
        if self.asked.len() < ASKED_MAX && self.asked.insert(asked.pid) {
            // One that begins another program may stand there already, and would be read twice.
            self.rounds.fresh.retain(|it| it.pid != asked.pid);
            self.rounds.fresh.push(asked);
        }
    }

    /// Without kernel events: those of the command's processes that run an interpreter by now.
    pub fn walked(&mut self, members: impl Iterator<Item = u32>) {
        let new = members.filter(|pid| !self.asked.contains(pid) && is_named_so(*pid));
        let new: Vec<u32> = new.collect();
        new.into_iter().for_each(|pid| self.want(Asked { pid, is_young: true }));
    }

    /// Adds what was read since the last tick, and asks for more. Gives the CPU time that the last reading took.
    pub fn round(&mut self, facts: &mut Vec<Fact>, lasted_ns: Ns) -> Ns {
        for fact in facts.iter() {
            let started = started(fact).filter(|_| self.is_command);
            if let Some(pid) = started {
                // Another program than the one that it was.
                self.asked.remove(&pid);
            }
            let asked = started.map(|pid| Asked { pid, is_young: true });
            let waits = || waits_for_a_word(fact).map(|pid| Asked { pid, is_young: false });
            asked.or_else(waits).into_iter().for_each(|asked| self.want(asked));
        }
        let Some(spent_ns) = self.rounds.take(facts) else { return 0 };
        self.spent_ns += spent_ns;
        if self.spent_ns <= self.finding_ns + lasted_ns / PART_OF_CPU {
            self.rounds.send("holdup-locks", round);
        }
        spent_ns
    }
}

/// The process that was started, or began another program.
fn started(fact: &Fact) -> Option<u32> {
    match &fact.body {
        Body::Exec(exec) => Some(exec.thread.pid),
        Body::Fork(fork) => Some(fork.child.pid).filter(|pid| *pid != fork.parent.pid),
        _ => None,
    }
}

/// What the thread keeps from round to round.
#[derive(Default)]
struct Known {
    modules: Modules,
    interpreters: Vec<Interpreter>,
    /// Programs by device and inode, and in how many of their processes no interpreter was found: memory maps are long.
    strangers: HashMap<(u64, u64), u32>,
}

fn round(known: &mut Known, asked: Ask<Asked>, facts: &mut Vec<Fact>) -> usize {
    let Known { modules, interpreters, strangers } = known;
    let fresh = asked.fresh;
    interpreters.retain(|it| fresh.iter().all(|new| new.pid != it.pid));
    let found = fresh.into_iter().filter_map(|asked| Interpreter::of(asked, modules, strangers));
    interpreters.extend(found);
    interpreters.truncate(READ_MAX);
    interpreters.retain_mut(|it| {
        facts.extend(it.read(modules));
        it.unread < UNREAD_MAX
    });
    for _ in 1..YOUNG_READINGS {
        if !interpreters.iter().any(Interpreter::has_few) {
            break;
        }
        std::thread::sleep(YOUNG_PAUSE);
        for young in interpreters.iter_mut().filter(|it| it.has_few()) {
            facts.extend(young.read_again(modules));
        }
    }
    modules.close();
    interpreters.len()
}

/// Whether the program that a process was started with is an interpreter, by its name.
fn is_named_so(pid: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe"));
    let name = program.ok().and_then(|path| Some(path.file_name()?.to_str()?.to_string()));
    name.is_some_and(|name| is_interpreter(&name))
}

/// A process that is an interpreter, or is about to be one.
struct Interpreter {
    pid: u32,
    /// None while its files are not there yet.
    python: Option<Python>,
    /// Readings in a row without an answer, and those with one.
    unread: u32,
    readings: u32,
    /// It was begun within the look.
    is_young: bool,
    /// Numbers of threads by those inside the container.
    numbers: HashMap<u32, u32>,
}

impl Interpreter {
    fn of(
        asked: Asked,
        modules: &mut Modules,
        strangers: &mut HashMap<(u64, u64), u32>,
    ) -> Option<Self> {
        let Asked { pid, is_young } = asked;
        if is_young && !is_named_so(pid) {
            return None;
        }
        let program = std::fs::metadata(format!("/proc/{pid}/exe")).ok().filter(|_| !is_young);
        let program = program.map(|file| (file.dev(), file.ino()));
        let times = program.and_then(|program| strangers.get(&program));
        if times.is_some_and(|times| *times >= STRANGER_TIMES) {
            return None;
        }
        let python = python(pid, modules);
        if let (None, Some(program)) = (&python, program) {
            *strangers.entry(program).or_default() += 1;
        }
        let may_be = is_young || python.is_some();
        may_be.then_some(Self {
            pid,
            python,
            unread: 0,
            readings: 0,
            is_young,
            numbers: HashMap::new(),
        })
    }

    /// Whether it is to be read more often than others.
    fn has_few(&self) -> bool {
        self.is_young && self.python.is_some() && self.readings < ENOUGH_READINGS
    }

    /// Between two rounds: to have no answer counts by the round.
    fn read_again(&mut self, modules: &mut Modules) -> Option<Fact> {
        let unread = self.unread;
        let fact = self.read(modules);
        self.unread = unread.min(self.unread);
        fact
    }

    /// Who has the lock now; none if it cannot be read, or not yet.
    fn read(&mut self, modules: &mut Modules) -> Option<Fact> {
        self.unread += 1;
        if self.python.is_none() {
            self.python = python(self.pid, modules);
        }
        let Self { pid, python, numbers, .. } = self;
        let python = python.as_mut()?;
        let at_ns = holdup_system::clock::now();
        let mut memory = |at: u64, into: &mut [u8]| memory::read(*pid, at, into);
        let lock = python.runtime.lock(&mut memory)?;
        let (holder_tid, frames) = match lock.holder {
            Some((thread, inner)) => {
                let number = || thread_inside(&Roots::default(), *pid, inner);
                let tid = *numbers.entry(inner).or_insert_with(|| number().unwrap_or(0));
                (tid, python.frames_of(thread, &mut memory))
            }
            None => (0, Vec::new()),
        };
        self.unread = 0;
        self.readings += 1;
        let (begin, end, collecting) = (lock.begin, lock.end, lock.is_collecting);
        let (pid, interpreter) = (*pid, python.runtime.name());
        let lock = InterpreterLock { pid, interpreter, begin, end, holder_tid, collecting, frames };
        Some(Fact { at_ns, body: Body::InterpreterLock(lock) })
    }
}

fn python(pid: u32, modules: &mut Modules) -> Option<Python> {
    let runtime = Runtime::find(pid, maps::executable(pid).iter(), modules)?;
    Some(Python::new(runtime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::FRESH_MAX;
    use holdup_reason::facts::{Blocked, Exec, Place, ThreadRef, WaitState};

    const LASTED_NS: Ns = 1_000_000_000;

    fn waits(pid: u32, syscall: &str) -> Fact {
        let thread = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
        let place = Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
        Fact { at_ns: 1, body: Body::Blocked(Blocked { thread, place, ..Blocked::default() }) }
    }

    #[test]
    fn only_those_who_wait_for_a_word_are_asked_and_each_once() {
        let mut interpreters = Interpreters::default();
        interpreters.round(&mut vec![waits(7, "read")], LASTED_NS);
        assert!(!interpreters.rounds.is_away && interpreters.asked.is_empty());
        let mut facts: Vec<Fact> =
            (10_000_000..10_000_300).map(|pid| waits(pid, "futex")).collect();
        interpreters.round(&mut facts, LASTED_NS);
        assert_eq!(interpreters.asked.len(), ASKED_MAX);
        assert_eq!(interpreters.rounds.fresh.len(), ASKED_MAX - FRESH_MAX);
        assert_eq!(facts.len(), 300, "processes that are not there have nothing to tell");
    }

    #[test]
    fn what_is_asked_about_is_read_and_what_a_command_starts() {
        let execs = |pid: u32| {
            let thread = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
            Fact {
                at_ns: 1,
                body: Body::Exec(Exec { thread, path: "/usr/bin/env".into(), ..Exec::default() }),
            }
        };
        let of_process = Interpreters::of(Some(7), false);
        assert_eq!(of_process.rounds.fresh, [Asked { pid: 7, is_young: false }]);
        let mut of_host = Interpreters::of(None, false);
        of_host.round(&mut vec![execs(10_000_000)], LASTED_NS);
        assert!(of_host.asked.is_empty(), "others start programs too");
        let mut of_command = Interpreters { is_command: true, ..Interpreters::default() };
        of_command.round(&mut vec![execs(10_000_000)], LASTED_NS);
        assert!(of_command.rounds.is_away && of_command.asked.contains(&10_000_000));
    }

    #[test]
    fn who_is_met_twice_in_a_tick_is_asked_for_once() {
        let mut of_command = Interpreters::of(None, true);
        of_command.want(Asked { pid: 7, is_young: false });
        of_command.asked.remove(&7);
        of_command.want(Asked { pid: 7, is_young: true });
        assert_eq!(of_command.rounds.fresh, [Asked { pid: 7, is_young: true }]);
    }

    #[test]
    fn what_has_taken_its_part_waits() {
        let mut dear = Interpreters { spent_ns: LASTED_NS, ..Interpreters::of(Some(7), false) };
        dear.round(&mut Vec::new(), LASTED_NS);
        assert!(!dear.rounds.is_away && dear.rounds.fresh.len() == 1);
        dear.round(&mut Vec::new(), 2000 * LASTED_NS);
        assert!(dear.rounds.is_away);
    }
}
