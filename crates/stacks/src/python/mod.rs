//! The functions of a Python program: CPython keeps a list of its threads, and each thread its frames.
//!
//! Owns the walk from the runtime to a thread's frames, its lock and its collector; where a release has them says layouts.rs.
//! Pure over whatever reads the process's memory, which may hold anything and may change while it is read: every list is
//! bounded, and a name is taken only from what has the type of code and of text. So of a release that is not known, or of
//! a pointer that has gone astray, nothing is said. Must not: read values of variables.
//!
//! Rejected: to find releases by trying offsets (a plausible wrong one gives a wrong name).

mod layouts;
mod lines;
mod objects;
#[cfg(test)]
mod tests;

use super::called::Memory;
use super::elf::{u32_at, u64_at};
use super::maps::Mapping;
use super::modules::Modules;
use holdup_reason::facts::UserFrame;
use holdup_system::memory;
use layouts::*;
use objects::{Objects, word};
use std::collections::HashMap;

/// The symbols that all begins at, the two types, and since 3.11 the release.
const SYMBOLS: [&str; 4] = ["_PyRuntime", "PyCode_Type", "PyUnicode_Type", "Py_Version"];

const INTERPRETERS_MAX: usize = 8;
const THREADS_MAX: usize = 1024;
const FRAMES_MAX: usize = 32;

/// Whether a file may hold an interpreter.
pub(crate) fn is_interpreter(file: &str) -> bool {
    file.starts_with("python") || file.starts_with("libpython3.")
}

/// The minor release that a file's name gives: 9 of `libpython3.9.so.1.0`.
fn release_by_name(file: &str) -> Option<u8> {
    let (_, rest) = file.split_once("python3.")?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    rest[..digits].parse().ok()
}

/// An interpreter of a release that is known, in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runtime {
    at: u64,
    layout: Layout,
    code_type: u64,
    text_type: u64,
}

impl Runtime {
    /// Among the files that a process runs code of.
    pub(crate) fn find<'m>(
        pid: u32,
        mappings: impl Iterator<Item = &'m Mapping>,
        modules: &mut Modules,
    ) -> Option<Self> {
        // The program itself may be a shell around a library, and have copies of some of its data.
        let (mut found, mut minor) = ([None; SYMBOLS.len()], None);
        for mapping in mappings.filter(|mapping| is_interpreter(&mapping.name)) {
            minor = minor.or_else(|| release_by_name(&mapping.name));
            let Some(module) = modules.of(pid, mapping) else { continue };
            let Some(moved) = modules.moved_by(module, mapping) else { continue };
            for (place, symbol) in
                found.iter_mut().zip(SYMBOLS).filter(|(place, _)| place.is_none())
            {
                *place = modules.address_of(module, symbol).map(|at| at.wrapping_add(moved));
            }
        }
        let mut memory = |at: u64, into: &mut [u8]| memory::read(pid, at, into);
        Self::of(found, minor, &mut memory)
    }

    /// By the addresses of its symbols, and for releases before 3.11 the one that its file is named after.
    fn of(
        [at, code_type, text_type, version]: [Option<u64>; SYMBOLS.len()],
        by_name: Option<u8>,
        memory: &mut Memory<'_>,
    ) -> Option<Self> {
        let (at, code_type, text_type) = (at?, code_type?, text_type?);
        let minor = match version {
            Some(version) => release(word(version, memory)?)?,
            None => by_name.filter(|minor| *minor < 11)?,
        };
        let layout = match layouts::of(minor) {
            Some(layout) => layout,
            None => {
                let mut head = [0; DESCRIPTION_BYTES];
                memory(at, &mut head)?;
                layouts::described(&head).filter(|layout| layout.minor == minor)?
            }
        };
        Some(Self { at, layout, code_type, text_type })
    }

    /// What people call it.
    pub(crate) fn name(&self) -> String {
        format!("CPython 3.{}", self.layout.minor)
    }

    /// Interpreters, the newest first; the last is that of the main thread.
    fn interpreters(&self, memory: &mut Memory<'_>) -> Vec<u64> {
        let mut all = Vec::new();
        let mut next = word(self.at.wrapping_add(self.layout.interpreters), memory);
        while let Some(at) = next.filter(|at| all.len() < INTERPRETERS_MAX && !all.contains(at)) {
            all.push(at);
            next = word(at.wrapping_add(self.layout.interpreter_next), memory);
        }
        all
    }

    /// Reads the main interpreter's lock; none if the memory is not there.
    pub(crate) fn lock(&self, memory: &mut Memory<'_>) -> Option<Lock> {
        let interpreter = *self.interpreters(memory).last()?;
        let at = match self.layout.lock {
            LockPlace::Runtime(offset) => self.at.wrapping_add(offset),
            LockPlace::Interpreter(offset) => word(interpreter.wrapping_add(offset), memory)?,
        };
        let mut head = [0; LOCK_WORDS as usize];
        memory(at, &mut head)?;
        let thread = u64_at(&head, LOCK_LAST_HOLDER as usize);
        let is_taken = u32_at(&head, LOCK_TAKEN as usize) == 1 && thread != 0;
        let mut collecting = [0; 4];
        memory(interpreter.wrapping_add(self.layout.interpreter_collecting), &mut collecting)?;
        let number = if is_taken { self.number(thread, memory) } else { None };
        Some(Lock {
            begin: at.wrapping_add(LOCK_WORDS),
            end: at.wrapping_add(LOCK_END),
            holder: number.map(|number| (thread, number)),
            is_collecting: u32::from_le_bytes(collecting) == 1,
        })
    }

    /// The number of a thread inside its container, by where the interpreter describes it.
    fn number(&self, thread: u64, memory: &mut Memory<'_>) -> Option<u32> {
        match self.layout.thread_number {
            Number::Kernel(offset) => {
                u32::try_from(word(thread.wrapping_add(offset), memory)?).ok()
            }
            Number::Library(offset) => {
                library_number(word(thread.wrapping_add(offset), memory)?, memory)
            }
        }
    }
}

/// The minor release of a number such as 0x030c01f0; none of one before its release (it may have other structs), or of
/// another language.
fn release(version: u64) -> Option<u8> {
    const CANDIDATE: u64 = 0xc;
    let is_done = version >> 4 & 0xf >= CANDIDATE;
    (version >> 24 == 3 && is_done).then_some((version >> 16) as u8)
}

/// The kernel's number of a thread by its descriptor in glibc (`struct pthread` of nptl/descr.h: behind the header, which
/// does not change as compilers know some of it, and a pair of pointers).
fn library_number(descriptor: u64, memory: &mut Memory<'_>) -> Option<u32> {
    const IS_X86: bool = cfg!(target_arch = "x86_64");
    const TID: u64 = if IS_X86 { 704 + 16 } else { 192 + 16 };
    const SELF: u64 = 16;
    // Of another C library's descriptor nothing is said.
    if IS_X86 && word(descriptor.wrapping_add(SELF), memory)? != descriptor {
        return None;
    }
    let mut number = [0; 4];
    memory(descriptor.wrapping_add(TID), &mut number)?;
    Some(u32::from_le_bytes(number)).filter(|number| *number != 0)
}

/// The interpreter's lock at one instant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    /// Where its words begin.
    pub begin: u64,
    /// Behind the last.
    pub end: u64,
    /// Where the thread that has it is described, and its number inside its container.
    pub holder: Option<(u64, u32)>,
    /// The interpreter collects garbage.
    pub is_collecting: bool,
}

/// An interpreter whose threads are read.
pub(crate) struct Python {
    /// Where all of it is.
    pub runtime: Runtime,
    /// By the number that the kernel gave each inside its container.
    threads: HashMap<u32, u64>,
    objects: Objects,
}

impl Python {
    /// Of which nothing was read yet.
    pub(crate) fn new(runtime: Runtime) -> Self {
        let objects = Objects::new(runtime.layout, runtime.code_type, runtime.text_type);
        Self { runtime, threads: HashMap::new(), objects }
    }

    /// Reads who there is.
    pub(crate) fn read(runtime: Runtime, memory: &mut Memory<'_>) -> Self {
        let mut python = Self::new(runtime);
        let (runtime, threads) = (&python.runtime, &mut python.threads);
        for interpreter in runtime.interpreters(memory) {
            let first = interpreter.wrapping_add(runtime.layout.interpreter_threads);
            let mut thread = word(first, memory);
            while let Some(at) = thread.filter(|_| threads.len() < THREADS_MAX) {
                let Some(number) = runtime.number(at, memory) else { break };
                // Met again: the list changed while it was read.
                if threads.insert(number, at).is_some() {
                    break;
                }
                thread = word(at.wrapping_add(runtime.layout.thread_next), memory);
            }
        }
        python
    }

    /// The functions that a thread is in, the innermost first.
    pub(crate) fn frames(&mut self, number: u32, memory: &mut Memory<'_>) -> Vec<UserFrame> {
        let thread = self.threads.get(&number).copied();
        thread.map_or_else(Vec::new, |thread| self.frames_of(thread, memory))
    }

    /// The same, of a thread by where it is described.
    pub(crate) fn frames_of(&mut self, thread: u64, memory: &mut Memory<'_>) -> Vec<UserFrame> {
        let layout = self.runtime.layout;
        let mut at = word(thread.wrapping_add(layout.thread_frame), memory);
        if let Some(inside) = layout.thread_frame_in {
            at = at.and_then(|behind| word(behind.wrapping_add(inside), memory));
        }
        let (mut frames, mut passed) = (Vec::new(), 0);
        while let Some(frame) = at.filter(|_| passed < FRAMES_MAX) {
            passed += 1;
            let Some(frame) = objects::frame(&layout, frame, memory) else { break };
            if !frame.is_the_interpreters {
                let Some(function) = self.objects.function(&frame, memory) else { break };
                frames.push(function);
            }
            at = frame.previous;
        }
        frames
    }
}
