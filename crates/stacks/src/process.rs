//! The stacks of one process's threads: its code, its memory, and a walk from where each thread left it.
//!
//! Owns the walk: the tables first, the frame pointer where code has none, and the end where nobody called. A walk only
//! collects addresses; names are found for all of a batch at once (reader.rs). Must not: say that a stack is whole because
//! it stopped. A null frame pointer looks like an end and is none, so whole is what the tables say that nobody called, or
//! what ends in a function that begins threads and programs.

use super::budget::Budget;
use super::called;
use super::java;
use super::javascript::{Blocks, JavaScript};
use super::left::Left;
use super::maps::{self, Maps};
use super::modules::Modules;
use super::python::{Python, Runtime};
use super::rows::Row;
use super::ruby;
use super::unwind::{Registers, Step, Words};
use holdup_reason::facts::{Ns, UserFrame};
use holdup_system::status::threads_by_inner_tid;
use holdup_system::{Roots, memory};
use std::cell::Cell;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Frames of one stack.
const FRAMES_MAX: usize = 64;
/// Bytes of a stack that are read at once: most have less.
const STACK_BYTES: usize = 32 << 10;
/// Words of a deeper stack that are read one by one.
const WORDS_MAX: u32 = 256;
/// Words of a function's frame among which its return address is looked for, and those of them that may be one.
const FRAME_WORDS_MAX: u64 = 1024;
const CANDIDATES_MAX: usize = 64;
/// What a call of the kernel for a few words of memory takes (measured), what one for the numbers of a thread does, and what a thread adds to the text of
/// all mappings, or the program itself; code that is not optimised takes longer.
const CALL_NS: Ns = if cfg!(debug_assertions) { 2_000 } else { 400 };
const NUMBERS_NS: Ns = if cfg!(debug_assertions) { 60_000 } else { 10_000 };
const MAPPINGS_NS: (Ns, Ns) =
    if cfg!(debug_assertions) { (20_000, 3_000_000) } else { (2_000, 300_000) };
/// Threads of one process whose numbers are read: for more there is never the time, and who saves for it reads nothing else.
const THREADS_MAX: u64 = 1000;

/// Functions that nobody called.
const ROOTS: &[&str] = &[
    "_start",
    "clone",
    "clone3",
    "start_thread",
    "thread_start",
    "runtime.rt0_go",
    "runtime.mstart",
    "runtime.goexit",
    "runtime.mcall",
    "runtime.systemstack",
];

/// An address of a stack.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The module, and the address in it.
    pub place: Option<(usize, u64)>,
    /// The function that was called by this frame's caller, where it is in another file.
    pub called: Option<(usize, u64)>,
    /// The file's name.
    pub name: Arc<str>,
    /// Where it is, of code that was made at run time.
    pub made_at: Option<u64>,
    /// The frame pointer, where that alone led on.
    pub frame: Option<u64>,
    /// The function of a program that it is a frame of.
    pub program: Option<UserFrame>,
}

/// A walk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Walk {
    /// The innermost first.
    pub frames: Vec<Found>,
    /// The tables say that nobody called the last.
    pub ended: bool,
    /// Functions of the program that an interpreter runs, the innermost first.
    pub program: Vec<UserFrame>,
    /// Methods of a Java program, in the same order.
    pub methods: Vec<UserFrame>,
    /// The thread that has what this one waits for, by the runtime's own list; 0 if that is not known.
    pub owner_tid: u32,
}

impl Walk {
    /// It passes code that was made at run time.
    fn has_made_code(&self) -> bool {
        self.frames.iter().any(|frame| frame.name.is_empty())
    }
}

/// Whether a function is where stacks begin.
pub(crate) fn is_root(function: &str) -> bool {
    ROOTS.contains(&function.trim_start_matches('_')) || ROOTS.contains(&function)
}

/// A process whose stacks are read.
pub(crate) struct Process {
    pid: u32,
    maps: Maps,
    stack: Vec<u8>,
    python: Option<Python>,
    java: Option<java::Frames>,
    /// All of its code was looked through for a Java machine; and one was found, read or not.
    is_searched: bool,
    is_java: bool,
    /// Looked for once a stack has a frame that may be of a script.
    javascript: Option<Option<JavaScript>>,
    ruby: Ruby,
}

/// A program of Ruby, once a stack has passed one.
#[derive(Default)]
struct Ruby {
    /// Whether its release is one whose threads are found; none before that was looked for.
    is_read: Option<bool>,
    known: ruby::Known,
    /// Its threads as /proc has them, by their numbers inside; none before one was asked for that has another outside.
    threads: Option<HashMap<u32, u32>>,
    /// The least step that there was no time for in this batch.
    short_ns: Cell<Option<Ns>>,
}

impl Ruby {
    /// Whether a step fits. One that does not is counted once, and not for each who waits: it would be done once for all of them.
    fn fits(short_ns: &Cell<Option<Ns>>, budget: &Budget, step_ns: Ns) -> bool {
        if short_ns.get().is_some_and(|short_ns| step_ns >= short_ns) {
            return false;
        }
        let fits = budget.fits(step_ns);
        if !fits {
            short_ns.set(Some(step_ns));
        }
        fits
    }
}

impl Process {
    /// Reads what code it has; none if there was no time for all of it.
    pub(crate) fn open(pid: u32, has_time: &dyn Fn() -> bool) -> Option<Self> {
        let maps = Maps::open(pid, has_time)?;
        let (stack, python, java, javascript) = Default::default();
        let (is_searched, is_java, ruby) = (false, false, Ruby::default());
        Some(Self { pid, maps, stack, python, java, is_searched, is_java, javascript, ruby })
    }

    /// From where a thread left user space to where it began, with what its interpreter runs.
    pub(crate) fn read(&mut self, left: &Left, modules: &mut Modules, budget: &Budget) -> Walk {
        let mut walk = self.walk(left, modules);
        let pid = self.pid;
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        if self.python.is_none() {
            // Among what a stack has passed.
            let known = self.maps.known().iter().map(|mapping| &**mapping);
            let runtime = Runtime::find(pid, known, modules);
            self.python = runtime.map(|runtime| Python::read(runtime, &mut memory));
        }
        if let Some(python) = &mut self.python {
            walk.program = python.frames(inner_tid(left.thread.tid), &mut memory);
        }
        walk.owner_tid = self.owner_in_ruby(&walk, left, budget);
        self.find_java(&walk, modules, budget);
        if let Some(java) = &mut self.java {
            walk.methods = java.of(inner_tid(left.thread.tid), &mut memory);
        } else if walk.frames.iter().any(|found| found.frame.is_some()) {
            let known = self.maps.known();
            let find = || JavaScript::find(pid, known, modules);
            if let Some(javascript) = self.javascript.get_or_insert_with(find) {
                let mut blocks = Blocks::default();
                let mut held = |at: u64, into: &mut [u8]| blocks.read(at, into, &mut memory);
                for found in &mut walk.frames {
                    let function = |frame| javascript.function(frame, &mut held);
                    found.program = found.frame.and_then(function);
                }
            }
        }
        walk
    }

    /// The thread that has the mutex of Ruby's for which one waits; 0 if none is known.
    fn owner_in_ruby(&mut self, walk: &Walk, left: &Left, budget: &Budget) -> u32 {
        let is_ruby = walk.frames.iter().any(|frame| ruby::is_of_ruby(&frame.name));
        if !is_ruby || !self.is_read_ruby(budget) {
            return 0;
        }
        let Self { pid, stack, ruby: Ruby { known, threads, short_ns, .. }, .. } = self;
        let fits = |step_ns: Ns| Ruby::fits(short_ns, budget, step_ns);
        let mut memory = |at: u64, into: &mut [u8]| memory::read(*pid, at, into);
        let mut outside = |inner: u32| outside(*pid, inner, threads, &fits);
        let fits = |calls: u64| fits(calls * CALL_NS);
        let mut ask = ruby::Ask { memory: &mut memory, outside: &mut outside, fits: &fits };
        let owner = known.owner(stack, left.stack, &mut ask);
        owner.filter(|tid| *tid != left.thread.tid).unwrap_or(0)
    }

    /// Whether the program's release of Ruby is one whose threads are found, by the paths of what stacks have passed; where these do not
    /// say it (an interpreter in one file), by those of all its code, which is read once.
    fn is_read_ruby(&mut self, budget: &Budget) -> bool {
        if self.ruby.is_read.is_none() {
            let known = self.maps.known().iter().map(|mapping| &**mapping);
            let passed = ruby::is_read(known.filter(|mapping| ruby::is_of_ruby(&mapping.name)));
            self.ruby.is_read = passed.or_else(|| {
                let (of_thread_ns, others_ns) = MAPPINGS_NS;
                let step_ns = threads_of(self.pid)? * of_thread_ns + others_ns;
                let all = Ruby::fits(&self.ruby.short_ns, budget, step_ns)
                    .then(|| maps::executable(self.pid))?;
                Some(ruby::is_read(all.iter()).unwrap_or(false))
            });
        }
        self.ruby.is_read.unwrap_or(false)
    }

    /// Looks for a Java machine among what stacks have passed; where one ends in code that was made at run time, and the program
    /// is called like one, once among all.
    fn find_java(&mut self, walk: &Walk, modules: &mut Modules, budget: &Budget) {
        if self.is_java {
            return;
        }
        let known = self.maps.known().iter().map(|mapping| &**mapping);
        let mut library = java::library(known).cloned();
        if library.is_none() && !self.is_searched && walk.has_made_code() {
            self.is_searched = true;
            let all = java::is_called_java(self.pid).then(|| maps::executable(self.pid));
            library = all.and_then(|all| java::library(all.iter()).cloned());
        }
        let Some(library) = library else { return };
        self.is_java = true;
        self.java = java::frames(self.pid, &library, modules, budget);
    }

    fn walk(&mut self, left: &Left, modules: &mut Modules) -> Walk {
        let Self { pid, maps, stack, .. } = self;
        let pid = *pid;
        stack.resize(STACK_BYTES, 0);
        let there = memory::read_some(pid, left.stack, stack);
        stack.truncate(there);
        let (stack, mut single) = (&stack[..there], WORDS_MAX);
        let mut words = |at: u64| {
            let from = usize::try_from(at.wrapping_sub(left.stack)).ok();
            let inside = from.and_then(|from| stack.get(from..from.checked_add(8)?));
            if let Some(word) = inside {
                return word.try_into().ok().map(u64::from_le_bytes);
            }
            single = single.checked_sub(1)?;
            let mut word = [0; 8];
            memory::read(pid, at, &mut word).map(|()| u64::from_le_bytes(word))
        };
        let mut at = Registers::new(left.instruction, left.stack, left.frame, left.link);
        let mut walk = Walk::default();
        // Before a return address stands the call; where a thread was interrupted it is the instruction itself.
        let mut behind_call = false;
        while walk.frames.len() < FRAMES_MAX {
            let lookup = at.instruction.wrapping_sub(u64::from(behind_call));
            let Some(mapping) = maps.at(lookup) else { break };
            let place = modules.of(pid, &mapping).and_then(|module| {
                let moved = modules.moved_by(module, &mapping)?;
                Some((module, lookup.wrapping_sub(moved)))
            });
            if behind_call {
                name_callee(&mut walk, place, at.instruction, (pid, maps, &mut *modules));
            }
            let row = place.and_then(|(module, address)| modules.row(module, address));
            let frame = at.frame_pointer().filter(|_| row.is_none());
            let name = Arc::clone(&mapping.name);
            let made_at = Some(lookup).filter(|_| place.is_none() && mapping.is_made());
            walk.frames.push(Found { place, called: None, name, made_at, frame, program: None });
            let mut is_code = |to: &Registers| maps.at(to.instruction.wrapping_sub(1)).is_some();
            if let Some((row, (module, _))) = row.as_ref().zip(place) {
                let begins_at =
                    modules.moved_by(module, &mapping).map(|by| row.begins_at.wrapping_add(by));
                let mut code = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
                at = begins_at
                    .map_or(at.clone(), |it| completed(at, row, it, &mut words, &mut code));
            }
            let step = match &row {
                Some(row) => at.step(row, &mut words),
                None if !behind_call => match at.step_by_top(&mut words) {
                    Step::Caller(caller) if is_code(&caller) => Step::Caller(caller),
                    _ => at.step_by_frame(&mut words),
                },
                None => at.step_by_frame(&mut words),
            };
            match step {
                Step::Caller(caller) if row.is_some() || is_code(&caller) => at = caller,
                Step::End => {
                    walk.ended = row.is_some();
                    break;
                }
                _ => break,
            }
            behind_call = row.is_none_or(|row| !row.is_signal);
        }
        walk
    }
}

/// With the frame pointer, if it is needed to leave a function that begins there, and not known.
fn completed(
    at: Registers,
    row: &Row,
    begins_at: u64,
    words: &mut Words<'_>,
    memory: &mut called::Memory<'_>,
) -> Registers {
    let Some(distance) = at.lacks_frame_pointer(row) else { return at };
    let frame = frame_of(begins_at, at.stack(), words, memory);
    frame.map_or(at.clone(), |frame| at.with_frame_pointer(frame.wrapping_add_signed(-distance)))
}

/// Where the frame of a function ends whose frame pointer is not known: behind the first return address that a call of just this
/// function left on the stack.
fn frame_of(
    begins_at: u64,
    stack: u64,
    words: &mut Words<'_>,
    memory: &mut called::Memory<'_>,
) -> Option<u64> {
    let near = stack.saturating_sub(STACK_BYTES as u64)..stack.saturating_add(8 << 20);
    let slots = (0..FRAME_WORDS_MAX).map(|at| stack.wrapping_add(at * 8));
    let candidates = slots.map_while(|slot| Some((slot, words(slot)?)));
    candidates
        .filter(|(_, word)| *word >> 12 != 0 && *word >> 47 == 0 && !near.contains(word))
        .take(CANDIDATES_MAX)
        .find(|(_, word)| called::function(*word, memory) == Some(begins_at))
        .map(|(slot, _)| slot.wrapping_add(8))
}

/// The number of a thread inside its own container, which is the one that its program knows.
pub(crate) fn inner_tid(tid: u32) -> u32 {
    inner_number(&format!("/proc/{tid}/status")).unwrap_or(tid)
}

/// The innermost number of a thread, by its file; none if there is none.
fn inner_number(status: &str) -> Option<u32> {
    let status = std::fs::read_to_string(status).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// How many threads a process has: the directory has a link of each, and two of its own.
fn threads_of(pid: u32) -> Option<u64> {
    let task = std::fs::metadata(format!("/proc/{pid}/task")).ok()?;
    Some(task.nlink().saturating_sub(2))
}

/// A thread of a process as /proc has it, by its number inside. Where both are one its own file says so; `threads` is filled once where
/// they are not, because that reads a file of each thread.
fn outside(
    pid: u32,
    inner: u32,
    threads: &mut Option<HashMap<u32, u32>>,
    fits: &dyn Fn(Ns) -> bool,
) -> Option<u32> {
    if threads.is_none() {
        if inner_number(&format!("/proc/{pid}/task/{inner}/status")) == Some(inner) {
            return Some(inner);
        }
        let count = threads_of(pid)?;
        if count > THREADS_MAX || !fits(count * NUMBERS_NS) {
            return None;
        }
    }
    let all = threads.get_or_insert_with(|| threads_by_inner_tid(&Roots::default(), pid));
    all.get(&inner).copied()
}

/// What the frame before was called as, if it is of another file than its caller.
fn name_callee(
    walk: &mut Walk,
    caller: Option<(usize, u64)>,
    returns_to: u64,
    (pid, maps, modules): (u32, &mut Maps, &mut Modules),
) {
    let Some(callee) = walk.frames.last_mut() else { return };
    let elsewhere = caller.is_some() && callee.place.map(|it| it.0) != caller.map(|it| it.0);
    if !elsewhere {
        return;
    }
    let mut read = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
    callee.called = called::function(returns_to, &mut read).and_then(|target| {
        let mapping = maps.at(target)?;
        let module = modules.of(pid, &mapping)?;
        let moved = modules.moved_by(module, &mapping)?;
        Some((module, target.wrapping_sub(moved)))
    });
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_its_pointer_ends_behind_the_return_address_of_its_own_call() {
        // At 0x5020: call 0x5100; at 0x5030: call 0x5200.
        let mut code = vec![0x90_u8; 0x300];
        code[0x20..0x25].copy_from_slice(&[0xe8, 0xdb, 0, 0, 0]);
        code[0x30..0x35].copy_from_slice(&[0xe8, 0xcb, 1, 0, 0]);
        let mut memory = |at: u64, into: &mut [u8]| {
            let from = usize::try_from(at.checked_sub(0x5000)?).ok()?;
            into.copy_from_slice(code.get(from..from.checked_add(into.len())?)?);
            Some(())
        };
        // A number, a pointer into the stack, a stale return address of another function, the one of this function.
        let stack = [7, 0x10_0020, 0x5035, 0x5025, 0x5035];
        let mut words = |at: u64| stack.get(usize::try_from(at - 0x10_0000).ok()? / 8).copied();
        assert_eq!(frame_of(0x5100, 0x10_0000, &mut words, &mut memory), Some(0x10_0020));
        assert_eq!(frame_of(0x5300, 0x10_0000, &mut words, &mut memory), None);
    }

    #[test]
    fn a_thread_by_its_number_inside_is_looked_for_once_among_all() {
        let (pid, mut threads) = (std::process::id(), None);
        assert_eq!(outside(pid, inner_tid(pid), &mut threads, &|_| false), Some(pid));
        assert_eq!(outside(pid, u32::MAX, &mut threads, &|_| false), None);
        assert!(threads.is_none(), "there was no time for it");
        assert_eq!(outside(pid, u32::MAX, &mut threads, &|_| true), None);
        assert_eq!(threads.as_ref().and_then(|it| it.get(&inner_tid(pid))), Some(&pid));
        let mut of_container = Some(HashMap::from([(7, 4711)]));
        let found = [7, pid].map(|inner| outside(pid, inner, &mut of_container, &|_| true));
        assert_eq!(found, [Some(4711), None], "no file is read any more");
    }

    #[test]
    fn a_step_that_does_not_fit_is_counted_once_among_all_who_wait() {
        let (second, long) = (1_000_000_000, std::time::Duration::from_secs(100));
        let (budget, short_ns) = (Budget::begin(100 * second, long), Cell::default());
        let fits = |step_ns| Ruby::fits(&short_ns, &budget, step_ns);
        assert!(fits(second) && budget.needed_ns() == 0);
        assert!((0..100).all(|_| !fits(200 * second)) && fits(second));
        assert!((200 * second..300 * second).contains(&budget.needed_ns()));
    }
}
