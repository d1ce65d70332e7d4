//! Who has the lock of an interpreter: read ten times a second, of processes of which threads were seen to wait for words.
//!
//! A wait for such a lock is mostly too short for a stack, and none of its words says who has it; the interpreter's own state
//! does. Owns which processes are interpreters (asked once of each, a few at a time) and a thread that reads, because
//! memory and files of others may keep whoever reads them waiting: what it has found is told with the next tick, and one that
//! hangs is not asked again. Must not: read a process that nobody was seen to wait in.

use super::maps;
use super::modules::Modules;
use super::python::{Python, Runtime};
use crate::{files, memory};
use holdup_reason::facts::{Body, Fact, InterpreterLock, WaitState};
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Processes that are asked for in a look, and of those with an interpreter how many are read.
const ASKED_MAX: usize = 256;
const READ_MAX: usize = 16;
/// Processes that are asked for in one tick.
const FRESH_MAX: usize = 8;

/// What the thread answers.
struct Found {
    facts: Vec<Fact>,
    /// Interpreters that it goes on reading.
    count: usize,
}

/// The interpreters of a look.
#[derive(Default)]
pub struct Interpreters {
    asked: HashSet<u32>,
    fresh: Vec<u32>,
    reader: Option<(Sender<Vec<u32>>, Receiver<Found>)>,
    is_away: bool,
    count: usize,
}

impl Interpreters {
    /// Tells what was read since the last tick, and asks for more.
    pub fn tick(&mut self, facts: &mut Vec<Fact>) {
        for pid in facts.iter().filter_map(waits_for_a_word) {
            if self.asked.len() < ASKED_MAX && self.asked.insert(pid) {
                self.fresh.push(pid);
            }
        }
        if self.is_away {
            let Some((_, found)) = &self.reader else { return };
            let Ok(found) = found.try_recv() else { return };
            facts.extend(found.facts);
            (self.is_away, self.count) = (false, found.count);
        }
        if self.fresh.is_empty() && self.count == 0 {
            return;
        }
        if self.reader.is_none() {
            self.reader = start();
        }
        let fresh = self.fresh.split_off(self.fresh.len().saturating_sub(FRESH_MAX));
        let asked = self.reader.as_ref().map(|(ask, _)| ask.send(fresh).is_ok());
        self.is_away = asked == Some(true);
    }
}

/// The process of a thread that waits for a word of memory.
fn waits_for_a_word(fact: &Fact) -> Option<u32> {
    let (thread, place, is_kernel) = match &fact.body {
        Body::Wait(wait) => (&wait.thread, &wait.place, wait.kernel),
        Body::Blocked(blocked) => (&blocked.thread, &blocked.place, blocked.kernel),
        _ => return None,
    };
    let waits = place.syscall == "futex" && place.state == WaitState::Sleep;
    (waits && !is_kernel && thread.pid != std::process::id()).then_some(thread.pid)
}

fn start() -> Option<(Sender<Vec<u32>>, Receiver<Found>)> {
    let (ask, asked) = channel::<Vec<u32>>();
    let (answered, answer) = channel();
    let work = move || {
        let mut modules = Modules::default();
        let mut known: Vec<Interpreter> = Vec::new();
        for fresh in asked {
            known.extend(fresh.into_iter().filter_map(|pid| Interpreter::find(pid, &mut modules)));
            modules.close();
            known.truncate(READ_MAX);
            let mut facts = Vec::new();
            known.retain_mut(|it| it.read().map(|fact| facts.push(fact)).is_some());
            if answered.send(Found { facts, count: known.len() }).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("holdup-locks".into()).spawn(work).ok()?;
    Some((ask, answer))
}

/// A process that is an interpreter.
struct Interpreter {
    pid: u32,
    python: Python,
    /// Numbers of threads by those inside the container.
    numbers: HashMap<u32, u32>,
}

impl Interpreter {
    fn find(pid: u32, modules: &mut Modules) -> Option<Self> {
        let runtime = Runtime::find(pid, maps::executable(pid).iter(), modules)?;
        Some(Self { pid, python: Python::new(runtime), numbers: HashMap::new() })
    }

    /// Who has the lock now; none if the process is gone.
    fn read(&mut self) -> Option<Fact> {
        let Self { pid, python, numbers } = self;
        let at_ns = crate::live::now();
        let mut memory = |at: u64, into: &mut [u8]| memory::read(*pid, at, into);
        let lock = python.runtime.lock(&mut memory)?;
        let (holder_tid, frames) = match lock.holder {
            Some((thread, inner)) => {
                let number = || files::thread_inside(&files::Roots::default(), *pid, inner);
                let tid = *numbers.entry(inner).or_insert_with(|| number().unwrap_or(0));
                (tid, python.frames_of(thread, &mut memory))
            }
            None => (0, Vec::new()),
        };
        let (begin, end, collecting) = (lock.begin, lock.end, lock.is_collecting);
        let (pid, interpreter) = (*pid, python.runtime.name());
        let lock = InterpreterLock { pid, interpreter, begin, end, holder_tid, collecting, frames };
        Some(Fact { at_ns, body: Body::InterpreterLock(lock) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{Blocked, Place, ThreadRef};

    fn waits(pid: u32, syscall: &str) -> Fact {
        let thread = ThreadRef { tid: pid, pid, ..ThreadRef::default() };
        let place = Place { state: WaitState::Sleep, syscall: syscall.into(), ..Place::default() };
        Fact { at_ns: 1, body: Body::Blocked(Blocked { thread, place, ..Blocked::default() }) }
    }

    #[test]
    fn only_those_who_wait_for_a_word_are_asked_and_each_once() {
        let mut interpreters = Interpreters::default();
        interpreters.tick(&mut vec![waits(7, "read")]);
        assert!(interpreters.reader.is_none() && interpreters.asked.is_empty());
        let mut facts: Vec<Fact> =
            (10_000_000..10_000_300).map(|pid| waits(pid, "futex")).collect();
        interpreters.tick(&mut facts);
        assert_eq!(interpreters.asked.len(), ASKED_MAX);
        assert_eq!(interpreters.fresh.len(), ASKED_MAX - FRESH_MAX);
        assert_eq!(facts.len(), 300, "processes that are not there have nothing to tell");
    }
}
