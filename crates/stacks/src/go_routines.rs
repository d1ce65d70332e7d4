//! The goroutines of one process: which stand where since when, and whose stack has the mutex that others wait for.
//!
//! Owns the proof that the list was found: it begins with the main goroutine, number 1, and each of the first few is a
//! goroutine by its own word. Without that nothing of the process is reported. Many are read in part, the same ones each time. The
//! runtime's own are left out. Whose stack refers to a mutex is looked for only if somebody waits for one; the address
//! itself counts more than that of what it is a part of. Must not: say who holds a mutex (reason's graph/goroutines.rs), as the
//! runtime keeps no owner.

use super::called::Memory;
use super::go_program::{Program, word};
use super::go_stack::{Description, Layout, Stack};
use holdup_reason::facts::{
    GOROUTINE_FRAMES_MAX, GOROUTINES_QUEUED_MAX, GOROUTINES_STANDING_MAX, Goroutine, Goroutines,
    Ns, UserFrame,
};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Goroutines that are read at once.
const READ_MAX: u64 = 1024;
const COUNT_MAX: u64 = 1 << 24;
/// Of the list, so many must be goroutines for it to be one.
const PROOF: u64 = 4;
/// Of those, at each end of the row the ones that wait for a mutex.
const WAITERS_MAX: usize = GOROUTINES_QUEUED_MAX / 2;

/// Since when one stands where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stood {
    place: Vec<u64>,
    since_ns: Ns,
    absent_ns: Ns,
}

/// What of a process's goroutines is known from one reading to the next.
pub(crate) struct Routines {
    program: Program,
    layout: Layout,
    /// The name of the program's file.
    module: String,
    stood: HashMap<u64, Stood>,
    last_ns: Ns,
}

/// What one does that has not ended.
enum Seen {
    Stands(Box<Read>),
    /// It runs, is ready to, or moved while it was read.
    Runs,
}

/// One that stands, as it was read.
struct Read {
    description: Description,
    stack: Stack,
    lock: Option<u64>,
}

impl Routines {
    /// Of a program; none if its list cannot be proved.
    pub(crate) fn find(program: Program, module: &str, memory: &mut Memory<'_>) -> Option<Self> {
        let list = list(&program, memory)?;
        let proves = |layout: &Layout, memory: &mut Memory<'_>| {
            let first = list.iter().take(PROOF as usize);
            let all: Option<Vec<u64>> =
                first.map(|at| Description::read(*at, *layout, memory).map(|it| it.id)).collect();
            all.is_some_and(|ids| {
                let mut distinct = ids.clone();
                distinct.sort_unstable();
                distinct.dedup();
                ids.first() == Some(&1) && distinct.len() == ids.len()
            })
        };
        let layout = Layout::ALL.into_iter().find(|layout| proves(layout, memory))?;
        let module = module.to_string();
        Some(Self { program, layout, module, stood: HashMap::new(), last_ns: 0 })
    }

    /// Reads those that stand now; none if the list is not there any more.
    pub(crate) fn read(
        &mut self,
        pid: u32,
        at_ns: Ns,
        memory: &mut Memory<'_>,
    ) -> Option<Goroutines> {
        let list = list(&self.program, memory)?;
        let count = list.len() as u64;
        let step = count.div_ceil(READ_MAX).max(1);
        let (mut all, mut read, mut some_run) = (Vec::new(), 0, false);
        for at in list.into_iter().step_by(step as usize) {
            read += 1;
            match self.read_one(at, memory) {
                Some(Seen::Stands(one)) => all.push(*one),
                Some(Seen::Runs) => some_run = true,
                None => {}
            }
        }
        let mut standing: Vec<Goroutine> = Vec::new();
        let mut stood = HashMap::new();
        let refers = refers(&all);
        for (one, refers) in all.into_iter().zip(refers) {
            let id = one.description.id;
            let known = self.stood.remove(&id).filter(|known| known.place == one.stack.place);
            let waits_ns =
                Some(one.description.waits_since_ns).filter(|ns| (1..=at_ns).contains(ns));
            let absent_ns = self.last_ns;
            let mut here = known.unwrap_or(Stood {
                place: one.stack.place.clone(),
                since_ns: at_ns,
                absent_ns,
            });
            // The collector has met it there.
            here.since_ns = waits_ns.map_or(here.since_ns, |ns| ns.min(here.since_ns));
            standing.push(Goroutine {
                id,
                since_ns: here.since_ns,
                absent_ns: here.absent_ns,
                lock: one.lock.unwrap_or(0),
                refers,
                frames: self.frames(&one.stack),
            });
            stood.insert(id, here);
        }
        (self.stood, self.last_ns) = (stood, at_ns);
        let release = self.program.release.clone();
        let standing = those_that_matter(standing);
        Some(Goroutines { pid, release, count, read, some_run, standing })
    }

    /// None of one that has ended, that is the runtime's own, or that cannot be read.
    fn read_one(&mut self, at: u64, memory: &mut Memory<'_>) -> Option<Seen> {
        let description = Description::read(at, self.layout, memory)?;
        if description.is_dead() {
            return None;
        }
        if !description.stands() {
            return Some(Seen::Runs);
        }
        let stack = Stack::read(&description, &mut self.program, memory)?;
        let again = Description::read(at, self.layout, memory)?;
        let outermost = stack.frames.iter().rev().filter_map(|frame| frame.function.as_deref());
        let mut outermost = outermost.filter(|name| *name != "runtime.goexit");
        let is_own = outermost
            .next()
            .is_none_or(|name| name.starts_with("runtime.") && name != "runtime.main");
        if is_own {
            return None;
        }
        if !description.is_same(&again) {
            return Some(Seen::Runs);
        }
        let lock = stack.lock();
        Some(Seen::Stands(Box::new(Read { description, stack, lock })))
    }

    fn frames(&self, stack: &Stack) -> Vec<UserFrame> {
        let frames = stack.frames.iter().take(GOROUTINE_FRAMES_MAX);
        let frame = |function: Option<&str>| UserFrame {
            function: function.unwrap_or_default().into(),
            module: self.module.clone(),
            ..UserFrame::default()
        };
        frames.map(|it| frame(it.function.as_deref())).collect()
    }
}

/// The addresses of all goroutines' descriptions; none if that is no list.
fn list(program: &Program, memory: &mut Memory<'_>) -> Option<Vec<u64>> {
    let count = word(program.list.length, memory)?;
    let first = word(program.list.first, memory)?;
    if count > COUNT_MAX || !first.is_multiple_of(8) {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(count).ok()? * 8];
    memory(first, &mut bytes)?;
    Some(bytes.chunks_exact(8).map(|word| super::elf::u64_at(word, 0)).collect())
}

/// Of each, the mutexes that others wait for and that its stack refers to.
fn refers(all: &[Read]) -> Vec<Vec<u64>> {
    let mut locks: Vec<u64> = all.iter().filter_map(|it| it.lock).collect();
    locks.sort_unstable();
    locks.dedup();
    if locks.is_empty() {
        return vec![Vec::new(); all.len()];
    }
    let of = |locks: &[u64], exactly: bool| -> Vec<Vec<u64>> {
        let other = |it: &Read| match it.lock {
            Some(own) => locks.iter().copied().filter(|lock| *lock != own).collect(),
            None => locks.to_vec(),
        };
        all.iter().map(|it| it.stack.refers(&other(it), exactly)).collect()
    };
    let mut found = of(&locks, true);
    locks.retain(|lock| !found.iter().any(|of_one| of_one.contains(lock)));
    if !locks.is_empty() {
        for (known, more) in found.iter_mut().zip(of(&locks, false)) {
            known.extend(more);
        }
    }
    found
}

/// Those that matter most: who waits for a mutex, some of the longest and of the shortest, who refers to it, who waits for
/// something that is no descriptor.
fn those_that_matter(mut standing: Vec<Goroutine>) -> Vec<Goroutine> {
    let waits =
        |it: &Goroutine| it.frames.iter().any(|frame| frame.function.contains("Semacquire"));
    let polls = |it: &Goroutine| {
        it.frames.iter().any(|frame| frame.function.ends_with("poll.runtime_pollWait"))
    };
    standing.sort_by_key(|it| {
        (!waits(it), it.refers.is_empty(), polls(it), Reverse(it.since_ns), it.id)
    });
    let waiting = standing.iter().filter(|it| waits(it)).count();
    if waiting > 2 * WAITERS_MAX {
        standing.drain(WAITERS_MAX..waiting - WAITERS_MAX);
    }
    standing.truncate(GOROUTINES_STANDING_MAX);
    standing
}
