//! Which goroutines of which process are read, and how often: of Go programs of which threads were seen to wait for words, of
//! servers, and of the process that was asked about.
//!
//! Threads of a Go program that have nothing to run sleep on words of memory, so each such program is met here, and each
//! process is asked once whether it is one. A thread of its own reads, because memory and files of others may keep whoever
//! reads them waiting; what it has found is told with the next tick, and one that hangs is not asked again. It rests a
//! thousand times as long as a reading took, and what it takes is paid from the account of all stacks (budget.rs). Must
//! not: read any other process, or run while nobody asks.

use super::budget::cpu_ns;
use super::elf::{Bytes, Elf};
use super::go_program::{self, Program};
use super::go_routines::Routines;
use super::maps;
use crate::live::What;
use crate::memory;
use holdup_reason::facts::{
    Blocked, Body, Endpoint, Fact, Goroutines as Told, Ns, ObjectRef, Place, Wait, WaitState,
};
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Processes that are asked for in a look, and of those in Go how many are read.
const ASKED_MAX: usize = 256;
const PROGRAMS_MAX: usize = 16;
/// Sockets that take connections, by whose processes a look begins.
const SERVERS_MAX: usize = 64;
/// State of such a socket (`TCP_LISTEN`, include/net/tcp_states.h).
const TCP_LISTEN: u8 = 10;
/// Processes that are asked for in one tick.
const FRESH_MAX: usize = 8;
/// A reading may take this part of the time until the next one.
const PART_OF_CPU: Ns = 1000;
/// What has not changed is told again after so long.
const AGAIN_NS: Ns = 1_000_000_000;

/// What the thread answers.
struct Found {
    facts: Vec<Fact>,
    /// Programs that it goes on reading.
    count: usize,
    /// CPU time that it took.
    spent_ns: Ns,
}

/// The Go programs of a look.
#[derive(Default)]
pub struct Goroutines {
    asked: HashSet<u32>,
    fresh: Vec<u32>,
    reader: Option<(Sender<Vec<u32>>, Receiver<Found>)>,
    is_away: bool,
    count: usize,
}

impl Goroutines {
    /// For a look at this: the process that somebody asks about, and servers, are asked for at once, as one that has nothing
    /// to run may not be seen to begin or end a wait.
    pub fn of<'f>(what: &What, endpoints: impl Iterator<Item = &'f Fact>) -> Self {
        let target = match what {
            What::Process(pid) => Some(*pid),
            What::Host | What::Command(_) | What::Container(_) => None,
        };
        let listens = endpoints.filter_map(|fact| match &fact.body {
            Body::Endpoint(Endpoint { process, object: ObjectRef::Inet(socket), .. }) => {
                (socket.state == TCP_LISTEN).then_some(process.pid)
            }
            _ => None,
        });
        let mut asked = HashSet::new();
        let all = target.into_iter().chain(listens.take(SERVERS_MAX));
        let mut fresh: Vec<u32> = all.filter(|pid| asked.insert(*pid)).collect();
        // The last is asked first.
        fresh.reverse();
        Self { asked, fresh, ..Self::default() }
    }

    /// Tells what was read since the last tick, and asks for more; gives the CPU time that reading it took.
    pub fn tick(&mut self, facts: &mut Vec<Fact>) -> Ns {
        for pid in facts.iter().filter_map(waits_for_a_word) {
            if self.asked.len() < ASKED_MAX && self.asked.insert(pid) {
                self.fresh.push(pid);
            }
        }
        let mut spent_ns = 0;
        if self.is_away {
            let Some(Ok(found)) = self.reader.as_ref().map(|(_, found)| found.try_recv()) else {
                return 0;
            };
            facts.extend(found.facts);
            (self.is_away, self.count) = (false, found.count);
            spent_ns = found.spent_ns;
        }
        if self.fresh.is_empty() && self.count == 0 {
            return spent_ns;
        }
        if self.reader.is_none() {
            self.reader = start();
        }
        let fresh = self.fresh.split_off(self.fresh.len().saturating_sub(FRESH_MAX));
        let asked = self.reader.as_ref().map(|(ask, _)| ask.send(fresh).is_ok());
        self.is_away = asked == Some(true);
        spent_ns
    }
}

/// The process of a thread that waits for a word of memory.
fn waits_for_a_word(fact: &Fact) -> Option<u32> {
    let waits = |place: &Place| place.syscall == "futex" && place.state == WaitState::Sleep;
    let pid = match &fact.body {
        Body::Wait(Wait { thread, place, kernel: false, .. }) if waits(place) => thread.pid,
        Body::Blocked(Blocked { thread, place, kernel: false, .. }) if waits(place) => thread.pid,
        _ => return None,
    };
    (pid != std::process::id()).then_some(pid)
}

fn start() -> Option<(Sender<Vec<u32>>, Receiver<Found>)> {
    let (ask, asked) = channel::<Vec<u32>>();
    let (answered, answer) = channel();
    let work = move || {
        let mut known: Vec<Process> = Vec::new();
        for fresh in asked {
            let begin_ns = cpu_ns();
            known.extend(fresh.into_iter().filter_map(Process::find));
            known.truncate(PROGRAMS_MAX);
            let mut facts = Vec::new();
            known.retain_mut(|process| process.read(&mut facts).is_some());
            let (count, spent_ns) = (known.len(), cpu_ns().saturating_sub(begin_ns));
            if answered.send(Found { facts, count, spent_ns }).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("holdup-go".into()).spawn(work).ok()?;
    Some((ask, answer))
}

/// A file that is read in pieces.
struct Pieces(File);

impl Bytes for Pieces {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < into.len() {
            match self.0.read_at(&mut into[filled..], offset.wrapping_add(filled as u64)) {
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count,
            }
        }
        filled
    }
}

/// A process that runs a Go program.
struct Process {
    pid: u32,
    routines: Routines,
    /// What was told last, and when.
    told: Told,
    told_ns: Ns,
    /// Not read again before.
    next_ns: Ns,
}

impl Process {
    fn find(pid: u32) -> Option<Self> {
        let path = format!("/proc/{pid}/exe");
        let begin_ns = cpu_ns();
        let file = File::open(&path).ok()?;
        let inode = file.metadata().ok()?.ino();
        let name = std::fs::read_link(&path).ok()?.file_name()?.to_string_lossy().into_owned();
        let file = Pieces(file);
        if !go_program::is_go(&file) {
            return None;
        }
        let elf = Elf::read(&file)?;
        let mappings = maps::executable(pid);
        let mut own = mappings.iter().filter(|mapping| mapping.file.1 == inode);
        let moved_by = own.find_map(|mapping| elf.moved_by(mapping.start, mapping.offset))?;
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        let program = Program::read(&file, &elf, moved_by, &mut memory)?;
        let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
        let routines = Routines::find(program, name, &mut memory)?;
        let spent_ns = cpu_ns().saturating_sub(begin_ns);
        // It was asked once: half of what that took is enough of a rest, or a short look would see nothing.
        let next_ns = crate::live::now() + spent_ns.min(AGAIN_NS / PART_OF_CPU) * PART_OF_CPU / 2;
        Some(Self { pid, routines, told: Told::default(), told_ns: 0, next_ns })
    }

    /// Tells which stand now, if it is time; none if the process is gone.
    fn read(&mut self, facts: &mut Vec<Fact>) -> Option<()> {
        let at_ns = crate::live::now();
        if at_ns < self.next_ns {
            return Some(());
        }
        let begin_ns = cpu_ns();
        let pid = self.pid;
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        let read = self.routines.read(pid, at_ns, &mut memory)?;
        self.next_ns = at_ns + cpu_ns().saturating_sub(begin_ns) * PART_OF_CPU;
        if read != self.told || at_ns >= self.told_ns + AGAIN_NS {
            (self.told, self.told_ns) = (read.clone(), at_ns);
            facts.push(Fact { at_ns, body: Body::Goroutines(read) });
        }
        Some(())
    }
}
