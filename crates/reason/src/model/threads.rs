//! Which threads the facts speak of: their names, the keys that tell them apart, their sums, how they began and ended.
//!
//! Every question of a map by thread comes through here, and so do the names that facts mention. Must not: decide what makes
//! two mentions one thread (thread_key.rs), or hold what a thread waited for (waits.rs) or did on the CPU (cpu.rs).

use super::push::{Push, Series};
use super::thread_key::{Lives, ThreadKey};
use super::words;
use crate::facts::*;
use std::collections::{BTreeMap, HashMap};

/// The threads of a look.
#[derive(Debug, Default)]
pub struct Threads {
    /// When the look began: of what lies before, two starts of one id are of one thread.
    begin_ns: Ns,
    /// Identities by thread id, latest reading.
    pub by_id: BTreeMap<u32, Thread>,
    /// Any name by which a thread id was mentioned.
    pub(crate) names: BTreeMap<u32, ThreadRef>,
    /// Threads that had one id in turn.
    pub(super) lives: Lives,
    /// Sums by thread.
    pub times: Vec<ThreadTime>,
    /// New threads.
    pub(crate) forks: Series<Fork>,
    /// New programs.
    pub(crate) execs: Series<Exec>,
    /// Where the last of each process stands in `execs`.
    executed: HashMap<u32, usize>,
    /// Ended threads.
    pub(crate) exits: Series<Exit>,
    /// Stop signals.
    pub(crate) signals: Series<Signal>,
    /// Refused system calls, and those that asked after a process that lives.
    pub(crate) denied: Series<Denied>,
    /// Names that were looked at again.
    pub(crate) looks: Series<Denied>,
}

impl Threads {
    /// The look begins.
    pub(super) fn begin(&mut self, at: Ns) {
        self.begin_ns = at;
    }

    /// Remembers a name; an empty or older one never replaces a known one.
    pub(super) fn name(&mut self, thread: &ThreadRef) {
        let Some(known) = self.names.get_mut(&thread.tid) else {
            self.names.insert(thread.tid, thread.clone());
            return;
        };
        // Nearly every mention says what is known.
        if known == thread {
            return;
        }
        let same = self.lives.learn(known, thread, self.begin_ns);
        if thread.comm.is_empty() {
            return;
        }
        if thread.start_ns >= known.start_ns {
            known.clone_from(thread);
        } else if same && known.comm.is_empty() {
            known.comm.clone_from(&thread.comm);
        }
    }

    /// A thread of which no name is asked, but which may be another life of its id.
    pub(super) fn mention(&mut self, thread: &ThreadRef) {
        if let Some(known) = self.names.get(&thread.tid) {
            self.lives.learn(known, thread, self.begin_ns);
        }
    }

    /// Once the last fact is in.
    pub(super) fn finish(&mut self) {
        self.lives.finish(self.begin_ns);
        self.forks.sort_by_key(|(at, _)| *at);
        self.signals.sort_by_key(|(at, _)| *at);
    }

    /// Which thread it is, said at a moment.
    pub fn key_at(&self, thread: &ThreadRef, at_ns: Ns) -> ThreadKey {
        self.key_of(thread.tid, thread.start_ns, at_ns)
    }

    /// Which thread it is; of an unknown start the last that had the id.
    pub fn key(&self, thread: &ThreadRef) -> ThreadKey {
        self.key_of(thread.tid, thread.start_ns, Ns::MAX)
    }

    /// The same from the parts of its name.
    pub fn key_of(&self, tid: u32, start_ns: Ns, at_ns: Ns) -> ThreadKey {
        self.lives.key(tid, start_ns, at_ns, self.begin_ns)
    }

    /// Whether two names are of one thread.
    pub fn is_same(&self, one: &ThreadRef, other: &ThreadRef) -> bool {
        one.tid == other.tid && self.key(one) == self.key(other)
    }

    /// Gives a thread of unknown start that of the life at a moment, for whoever asks later without the moment.
    pub fn settle(&self, thread: &mut ThreadRef, at_ns: Ns) {
        if thread.start_ns == 0
            && let Some(life) = self.lives.at(thread.tid, at_ns)
        {
            thread.start_ns = life.start_ns;
        }
    }

    /// The best known name of a thread.
    pub fn present(&self, thread: &ThreadRef) -> ThreadRef {
        match self.lives.all(thread.tid) {
            Some(_) => self.lives.named(self.key(thread)).unwrap_or(thread).clone(),
            None => self.thread_ref(thread.tid),
        }
    }

    /// The best known name of a thread id.
    pub fn thread_ref(&self, tid: u32) -> ThreadRef {
        let unknown = || ThreadRef { tid, pid: tid, ..ThreadRef::default() };
        self.names.get(&tid).cloned().unwrap_or_else(unknown)
    }

    /// Who had a thread id at a moment, if it was ever named.
    pub fn named_at(&self, tid: u32, at_ns: Ns) -> Option<&ThreadRef> {
        self.lives.at(tid, at_ns).or_else(|| self.names.get(&tid))
    }

    /// The best known name of who had a thread id at a moment.
    pub fn thread_ref_at(&self, tid: u32, at_ns: Ns) -> ThreadRef {
        self.named_at(tid, at_ns).cloned().unwrap_or_else(|| self.thread_ref(tid))
    }

    /// The same of a thread of a known process, whatever else had the id: by a program's own memory, which has numbers alone.
    pub fn of_process_at(&self, tid: u32, at_ns: Ns, one: &ThreadRef) -> ThreadRef {
        let named = self.named_at(tid, at_ns).filter(|it| !it.comm.is_empty() && it.pid == one.pid);
        named.cloned().unwrap_or_else(|| ThreadRef { tid, start_ns: 0, ..one.clone() })
    }

    /// Every thread that was named, by id; of one id the last first.
    pub fn every_thread(&self) -> impl Iterator<Item = &ThreadRef> {
        self.names.values().flat_map(|name| {
            let lives = self.lives.all(name.tid);
            lives.unwrap_or(std::slice::from_ref(name)).iter().rev()
        })
    }

    /// The name of a process: that of its main thread.
    pub fn process_name(&self, pid: u32) -> String {
        self.names.get(&pid).map_or_else(String::new, |main| main.comm.clone())
    }

    /// What the program of a thread is called, where the thread has another name: its process has that one, and is found by it.
    pub fn program_of(&self, thread: &ThreadRef) -> Option<&str> {
        let main = self.names.get(&thread.pid).map(|main| main.comm.as_str());
        let known = main.filter(|name| !name.is_empty());
        let executed = || self.executed(thread.pid).map(|exec| exec.thread.comm.as_str());
        let name = known.or_else(executed).filter(|name| !name.is_empty() && *name != thread.comm);
        name.filter(|_| thread.tid != thread.pid)
    }

    /// A thread as a person finds it, by its program first: `named 812/815 (thread isc-net-0002)`.
    pub fn who(&self, thread: &ThreadRef) -> String {
        let (tid, pid) = (thread.tid, thread.pid);
        match self.program_of(thread) {
            None => words::who(thread),
            Some(program) if thread.comm.is_empty() => format!("{program} {pid}/{tid}"),
            Some(program) => format!("{program} {pid}/{tid} (thread {})", thread.comm),
        }
    }

    /// Identity of a thread, or of its process.
    pub fn identity(&self, thread: &ThreadRef) -> Option<&Thread> {
        self.by_id.get(&thread.tid).or_else(|| self.by_id.get(&thread.pid))
    }

    /// The program that a process executed last.
    pub fn executed(&self, pid: u32) -> Option<&Exec> {
        self.executed.get(&pid).and_then(|at| self.execs.get(*at)).map(|(_, exec)| exec)
    }

    /// The words of the command line that a thread's process was started with last, its own name first; empty if they are not
    /// known, or are of another process that had the number.
    pub fn words(&self, thread: &ThreadRef) -> Vec<&str> {
        // Of a thread that is not the first the start is its own.
        let is_it = |known: &ThreadRef| thread.tid != thread.pid || self.is_same(thread, known);
        let executed = self.executed(thread.pid).filter(|exec| is_it(&exec.thread));
        if let Some(exec) = executed.filter(|exec| !exec.words.is_empty()) {
            return exec.words.iter().map(String::as_str).collect();
        }
        let known = self.by_id.get(&thread.pid).filter(|known| is_it(&known.thread));
        let command = known.map_or("", |known| known.command.as_str());
        command.split(' ').filter(|word| !word.is_empty()).collect()
    }
}

impl Push<Thread> for Threads {
    fn push(&mut self, _: Ns, thread: Thread) {
        self.name(&thread.thread);
        self.by_id.insert(thread.thread.tid, thread);
    }
}

impl Push<ThreadTime> for Threads {
    fn push(&mut self, _: Ns, time: ThreadTime) {
        self.name(&time.thread);
        self.times.push(time);
    }
}

impl Push<Fork> for Threads {
    fn push(&mut self, at: Ns, fork: Fork) {
        self.name(&fork.parent);
        self.name(&fork.child);
        self.forks.push((at, fork));
    }
}

impl Push<Exec> for Threads {
    fn push(&mut self, at: Ns, exec: Exec) {
        self.name(&exec.thread);
        self.executed.insert(exec.thread.pid, self.execs.len());
        self.execs.push((at, exec));
    }
}

impl Push<Exit> for Threads {
    fn push(&mut self, at: Ns, exit: Exit) {
        self.name(&exit.thread);
        self.exits.push((at, exit));
    }
}

impl Push<Signal> for Threads {
    fn push(&mut self, at: Ns, signal: Signal) {
        self.signals.push((at, signal));
    }
}

impl Push<Denied> for Threads {
    fn push(&mut self, at: Ns, denied: Denied) {
        match denied.looked_at().is_some() && denied.asked_after().is_none() {
            true => self.looks.push((at, denied)),
            false => self.denied.push((at, denied)),
        }
    }
}
