//! Which goroutines of which process are read, and how often: of Go programs of which threads were seen to wait for words, of
//! servers, and of the process that was asked about.
//!
//! Threads of a Go program that have nothing to run sleep on words of memory, so each such program is met here, and each
//! process is asked once whether it is one. A thread of its own reads (rounds.rs). It rests a thousand times as long as a
//! reading took, and what it takes is paid from the account of all stacks (budget.rs). Must not: read any other process, or
//! run while nobody asks.

use super::budget::cpu_ns;
use super::elf::Elf;
use super::go_program::{self, Program};
use super::go_routines::Routines;
use super::maps;
use super::rounds::{Ask, Once, PART_OF_CPU, Pace};
use holdup_reason::facts::{Body, Endpoint, Fact, Goroutines as Standing, Ns, ObjectRef};
use holdup_system::memory;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// Go programs that are read.
const PROGRAMS_MAX: usize = 16;
/// Sockets that take connections, by whose processes a look begins.
const SERVERS_MAX: usize = 64;
/// State of such a socket (`TCP_LISTEN`, include/net/tcp_states.h).
const TCP_LISTEN: u8 = 10;
/// What has not changed is reported again after so long.
const AGAIN_NS: Ns = 1_000_000_000;

/// The Go programs of a look.
pub struct Goroutines(Once);

impl Goroutines {
    /// The process that somebody asks about, and servers, are asked for at once, as one that has nothing
    /// to run may not be seen to begin or end a wait.
    pub fn of<'f>(process: Option<u32>, endpoints: impl Iterator<Item = &'f Fact>) -> Self {
        let listens = endpoints.filter_map(|fact| match &fact.body {
            Body::Endpoint(Endpoint { process, object: ObjectRef::Inet(socket), .. }) => {
                (socket.state == TCP_LISTEN).then_some(process.pid)
            }
            _ => None,
        });
        Self(Once::of(process.into_iter().chain(listens.take(SERVERS_MAX))))
    }

    /// Adds what was read since the last tick, and asks for more; gives the CPU time that reading it took.
    pub fn round(&mut self, facts: &mut Vec<Fact>) -> Ns {
        self.0.round(facts, "holdup-go", read_all)
    }

    /// Reads once more, as the look ends; gives what that took of the CPU time that is allowed.
    pub fn last_round(&mut self, facts: &mut Vec<Fact>, allowed_ns: Ns) -> Ns {
        self.0.last(facts, allowed_ns)
    }
}

/// What the thread keeps from round to round.
#[derive(Default)]
struct Known {
    processes: Vec<Process>,
    /// Programs that are not Go's, by device and inode: to look into a file is dear where many processes run the same.
    others: HashSet<(u64, u64)>,
}

fn read_all(known: &mut Known, asked: Ask<u32>, facts: &mut Vec<Fact>) -> usize {
    let Known { processes, others } = known;
    let Ask { fresh, mut last_ns } = asked;
    processes.extend(fresh.into_iter().filter_map(|pid| Process::find(pid, others)));
    processes.truncate(PROGRAMS_MAX);
    processes.retain_mut(|process| process.read(facts, &mut last_ns).is_some());
    processes.len()
}

/// A process that runs a Go program.
struct Process {
    pid: u32,
    routines: Routines,
    /// What was reported last, and when.
    reported: Standing,
    reported_ns: Ns,
    pace: Pace,
}

impl Process {
    fn find(pid: u32, others: &mut HashSet<(u64, u64)>) -> Option<Self> {
        let path = format!("/proc/{pid}/exe");
        let begin_ns = cpu_ns();
        let file = File::open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        if others.contains(&(device, inode)) {
            return None;
        }
        let name = std::fs::read_link(&path).ok()?.file_name()?.to_string_lossy().into_owned();
        if !go_program::is_go(&file) {
            others.insert((device, inode));
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
        let next_ns =
            holdup_system::clock::now() + spent_ns.min(AGAIN_NS / PART_OF_CPU) * PART_OF_CPU / 2;
        let pace = Pace::from(next_ns);
        Some(Self { pid, routines, reported: Standing::default(), reported_ns: 0, pace })
    }

    /// Reports which stand now, if it is time, or the last time and there is enough of it; none if the process is gone.
    fn read(&mut self, facts: &mut Vec<Fact>, last_ns: &mut Option<Ns>) -> Option<()> {
        let at_ns = holdup_system::clock::now();
        if !self.pace.is_due(at_ns, *last_ns) {
            return Some(());
        }
        let begin_ns = cpu_ns();
        let pid = self.pid;
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        let read = self.routines.read(pid, at_ns, &mut memory)?;
        self.pace.paid(at_ns, cpu_ns().saturating_sub(begin_ns), last_ns);
        if last_ns.is_some() || read != self.reported || at_ns >= self.reported_ns + AGAIN_NS {
            (self.reported, self.reported_ns) = (read.clone(), at_ns);
            facts.push(Fact { at_ns, body: Body::Goroutines(read) });
        }
        Some(())
    }
}
