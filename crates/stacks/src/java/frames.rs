//! The methods that a thread of a Java program is in, while it waits in the machine or in native code.
//!
//! Such a thread has its last Java frame in its anchor (JavaFrameAnchor). From there the frames are followed as the machine's own
//! walker does (frame_x86, frame_aarch64): an interpreted one by its frame pointer, a compiled one by the size of its frame,
//! which the code cache has. Where all of that is says the machine's own table (table.rs); the places in an interpreted frame,
//! which it does not have, are the same in all its releases. Pure over whatever reads the process's memory, which may
//! hold anything and changes while it is read: frames only go up a stack, their number is bounded, and with an anchor that has
//! changed meanwhile they are dropped.
//!
//! Must not: follow a call from C++ to the frames before it.

use super::methods::{self, Methods};
use super::scopes;
use super::table::{Symbol, Table, name, number, pointer, short};
use super::threads::{self, Threads};
use crate::called::Memory;
use crate::elf::u64_at;
use holdup_reason::facts::UserFrame;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Frames that are followed, and bytes of stack that a frame may have.
const FRAMES_MAX: usize = 48;
const FRAME_BYTES_MAX: u64 = 1 << 20;
/// Parts of the code cache (there are three), and jumps to where a piece of code begins.
const HEAPS_MAX: u32 = 16;
const JUMPS_MAX: usize = 256;
/// Pieces of code that are remembered.
const REMEMBERED_MAX: usize = 4096;

const TYPES: [&str; 11] = [
    "JavaFrameAnchor",
    "AbstractInterpreter",
    "StubQueue",
    "CodeCache",
    "CodeHeap",
    "VirtualSpace",
    "GrowableArrayBase",
    "GenericGrowableArray",
    "GrowableArray<int>",
    "CodeBlob",
    "nmethod",
];
const MORE_TYPES: [&str; 2] = ["CompiledMethod", "PcDesc"];
const SIZED: [&str; 2] = ["HeapBlock", "PcDesc"];

/// Where the parts of the code cache are: the address of the pointer to their list, and the offsets inside; before Java 9 of the
/// only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heaps {
    Array { at: u64, length: u64, first: u64 },
    One { at: u64 },
}

impl Heaps {
    fn of(table: &Table) -> Option<Self> {
        if let Some(at) = table.address("CodeCache", "_heap") {
            return Some(Self::One { at });
        }
        let length = ["GrowableArrayBase", "GenericGrowableArray"];
        Some(Self::Array {
            at: table.address("CodeCache", "_heaps")?,
            length: length.iter().find_map(|of| table.offset(of, "_len"))?,
            first: table.offset("GrowableArray<int>", "_data")?,
        })
    }

    fn moved(self, by: u64) -> Self {
        match self {
            Self::Array { at, length, first } => {
                Self::Array { at: at.wrapping_add(by), length, first }
            }
            Self::One { at } => Self::One { at: at.wrapping_add(by) },
        }
    }

    /// Where each is.
    fn all(self, memory: &mut Memory<'_>) -> Option<Vec<u64>> {
        match self {
            Self::One { at } => Some(vec![pointer(at, memory)?]),
            Self::Array { at, length, first } => {
                let array = pointer(at, memory)?;
                let count = short(array.wrapping_add(length), memory)?.min(HEAPS_MAX);
                let first = pointer(array.wrapping_add(first), memory)?;
                let places = (0..u64::from(count)).map(|at| first.wrapping_add(at * 8));
                places.map(|at| pointer(at, memory)).collect()
            }
        }
    }
}

/// Where things are, as long as the library is where it was linked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    threads: Threads,
    /// In a thread: stack pointer, frame pointer and place of its last Java frame.
    anchor: [u64; 3],
    interpreter: u64,
    interpreter_begin: u64,
    interpreter_bytes: u64,
    heaps: Heaps,
    code: [u64; 2],
    segments: u64,
    segment_shift: u64,
    block_head: u64,
    code_name: u64,
    code_frame: u64,
    code_method: u64,
    /// None of a release that writes them elsewhere: there code is of its own method.
    scopes: Option<scopes::Layout>,
    methods: methods::Layout,
}

impl Layout {
    /// By the table of a library that was moved by so much; none if a field is missing.
    pub(crate) fn find(
        moved_by: u64,
        symbol: &mut Symbol<'_>,
        memory: &mut Memory<'_>,
    ) -> Option<Self> {
        let types = [&threads::TYPES[..], &methods::TYPES, &TYPES, &MORE_TYPES].concat();
        let mut table = Table::read(&types, symbol, memory)?;
        let sizes = [&methods::SIZED[..], &SIZED].concat();
        table.read_sizes(&sizes, symbol, memory)?;
        Some(Self::of(&table)?.moved(0_u64.wrapping_sub(moved_by)))
    }

    fn of(table: &Table) -> Option<Self> {
        let anchor = table.of_thread("_anchor")?;
        let in_anchor = |field| Some(anchor + table.offset("JavaFrameAnchor", field)?);
        let memory = table.offset("CodeHeap", "_memory")?;
        let low = table.offset("VirtualSpace", "_low")?;
        Some(Self {
            threads: Threads::of(table)?,
            anchor: [
                in_anchor("_last_Java_sp")?,
                in_anchor("_last_Java_fp")?,
                in_anchor("_last_Java_pc")?,
            ],
            interpreter: table.address("AbstractInterpreter", "_code")?,
            interpreter_begin: table.offset("StubQueue", "_stub_buffer")?,
            interpreter_bytes: table.offset("StubQueue", "_buffer_limit")?,
            heaps: Heaps::of(table)?,
            code: [memory + low, memory + table.offset("VirtualSpace", "_high")?],
            segments: table.offset("CodeHeap", "_segmap")? + low,
            segment_shift: table.offset("CodeHeap", "_log2_segment_size")?,
            block_head: table.bytes("HeapBlock")?,
            code_name: table.offset("CodeBlob", "_name")?,
            code_frame: table.offset("CodeBlob", "_frame_size")?,
            code_method: (table.offset("CompiledMethod", "_method"))
                .or_else(|| table.offset("nmethod", "_method"))?,
            scopes: scopes::Layout::of(table),
            methods: methods::Layout::of(table)?,
        })
    }

    /// The same library, moved elsewhere.
    fn moved(self, by: u64) -> Self {
        Self {
            threads: self.threads.moved(by),
            interpreter: self.interpreter.wrapping_add(by),
            heaps: self.heaps.moved(by),
            ..self
        }
    }
}

/// A part of the code cache.
#[derive(Debug)]
struct Heap {
    code: Range<u64>,
    segments: u64,
    shift: u32,
}

/// A place in a piece of compiled code.
#[derive(Debug, Clone)]
struct Code {
    frame_bytes: u64,
    /// Those that it is in, the innermost first; none of a stub.
    methods: Rc<[u64]>,
}

/// A frame's methods, and its caller.
type Step = (Rc<[u64]>, Place);

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    stack: u64,
    frame: u64,
    instruction: u64,
}

/// A Java program whose threads are read.
pub(crate) struct Frames {
    layout: Layout,
    interpreter: Range<u64>,
    heaps: Vec<Heap>,
    code: HashMap<u64, Option<Code>>,
    /// Threads whose number was not read yet, and those by number.
    unread: Vec<u64>,
    threads: HashMap<u32, u64>,
    methods: Methods,
}

impl Frames {
    /// Of a process with the library moved by so much; none if its memory is not as it should be.
    pub(crate) fn open(layout: &Layout, moved_by: u64, memory: &mut Memory<'_>) -> Option<Self> {
        let layout = layout.clone().moved(moved_by);
        let stubs = pointer(layout.interpreter, memory)?;
        let begin = pointer(stubs.wrapping_add(layout.interpreter_begin), memory)?;
        let bytes = short(stubs.wrapping_add(layout.interpreter_bytes), memory)?;
        let mut heaps = Vec::new();
        for heap in layout.heaps.all(memory)? {
            let [low, high] = layout.code.map(|offset| pointer(heap.wrapping_add(offset), memory));
            heaps.push(Heap {
                code: low?..high?,
                segments: pointer(heap.wrapping_add(layout.segments), memory)?,
                shift: short(heap.wrapping_add(layout.segment_shift), memory)?.min(32),
            });
        }
        Some(Self {
            interpreter: begin..begin.saturating_add(u64::from(bytes)),
            heaps,
            code: HashMap::new(),
            unread: layout.threads.all(memory)?,
            threads: HashMap::new(),
            methods: Methods::new(layout.methods.clone()),
            layout,
        })
    }

    /// The methods that a thread is in by its number inside its container, the innermost first.
    pub(crate) fn of(&mut self, number: u32, memory: &mut Memory<'_>) -> Vec<UserFrame> {
        let Some(thread) = self.thread(number, memory) else { return Vec::new() };
        let begin = self.anchor(thread, memory);
        let frames = begin.map_or_else(Vec::new, |begin| self.walk(begin, memory));
        if self.anchor(thread, memory) == begin { frames } else { Vec::new() }
    }

    /// As many are looked at as it takes to find it.
    fn thread(&mut self, number: u32, memory: &mut Memory<'_>) -> Option<u64> {
        while !self.threads.contains_key(&number) {
            let next = self.unread.pop()?;
            if let Some(id) = self.layout.threads.id(next, memory) {
                self.threads.insert(id, next);
            }
        }
        self.threads.get(&number).copied()
    }

    /// The last Java frame; none while Java code runs, and of a thread that has none.
    fn anchor(&self, thread: u64, memory: &mut Memory<'_>) -> Option<Place> {
        let [stack, frame, instruction] =
            self.layout.anchor.map(|offset| thread.wrapping_add(offset));
        let stack = pointer(stack, memory)?;
        // Where the machine was called by compiled code, only the call itself wrote it down.
        let instruction = match number(instruction, memory)? {
            0 => pointer(stack.wrapping_sub(8), memory)?,
            known => known,
        };
        Some(Place { stack, frame: number(frame, memory)?, instruction })
    }

    fn walk(&mut self, begin: Place, memory: &mut Memory<'_>) -> Vec<UserFrame> {
        let (mut frames, mut at) = (Vec::new(), begin);
        for _ in 0..FRAMES_MAX {
            let is_interpreted = self.interpreter.contains(&at.instruction);
            let step =
                if is_interpreted { interpreted(at, memory) } else { self.compiled(at, memory) };
            let Some((methods, caller)) = step else { break };
            let of_it: Option<Vec<UserFrame>> =
                methods.iter().map(|method| self.methods.frame(*method, memory)).collect();
            // Where there is no method, the walk has gone astray.
            let Some(of_it) = of_it else { break };
            frames.extend(of_it);
            let passed = caller.stack.wrapping_sub(at.stack);
            if passed == 0 || passed > FRAME_BYTES_MAX || frames.len() >= FRAMES_MAX {
                break;
            }
            at = caller;
        }
        frames.truncate(FRAMES_MAX);
        frames
    }

    fn compiled(&mut self, at: Place, memory: &mut Memory<'_>) -> Option<Step> {
        let code = self.code(at.instruction, memory)?;
        let caller = at.stack.wrapping_add(code.frame_bytes);
        let mut words = [0; 16];
        memory(caller.wrapping_sub(16), &mut words)?;
        let (frame, instruction) = (u64_at(&words, 0), u64_at(&words, 8));
        Some((code.methods, Place { stack: caller, frame, instruction }))
    }

    /// The piece of code at an address; none of what has no frame of a fixed size, as where C++ calls Java.
    fn code(&mut self, at: u64, memory: &mut Memory<'_>) -> Option<Code> {
        if let Some(known) = self.code.get(&at) {
            return known.clone();
        }
        if self.code.len() >= REMEMBERED_MAX {
            self.code.clear();
        }
        let heap = self.heaps.iter().find(|heap| heap.code.contains(&at));
        let found = heap.and_then(|heap| self.layout.code(heap, at, memory));
        self.code.insert(at, found.clone());
        found
    }
}

/// An interpreted frame: its method, and its caller. Below the frame pointer are the caller's stack pointer, the last one of
/// its own, and the method.
fn interpreted(at: Place, memory: &mut Memory<'_>) -> Option<Step> {
    const BELOW: u64 = 3 * 8;
    let mut words = [0; BELOW as usize + 16];
    memory(at.frame.wrapping_sub(BELOW), &mut words)?;
    let word = |index: usize| u64_at(&words, index * 8);
    let caller = Place { stack: word(2), frame: word(3), instruction: word(4) };
    Some((Rc::new([word(0)]), caller))
}

impl Layout {
    fn code(&self, heap: &Heap, at: u64, memory: &mut Memory<'_>) -> Option<Code> {
        const UNUSED: u8 = 0xff;
        let mut segment = at.wrapping_sub(heap.code.start) >> heap.shift;
        let mut is_begin = false;
        // Each segment of a piece of code says how far back it began, or a part of that.
        for _ in 0..JUMPS_MAX {
            let mut back = [0; 1];
            memory(heap.segments.wrapping_add(segment), &mut back)?;
            match back[0] {
                UNUSED => return None,
                0 => {
                    is_begin = true;
                    break;
                }
                by => segment = segment.checked_sub(u64::from(by))?,
            }
        }
        let block = heap.code.start.wrapping_add(segment << heap.shift);
        let code = is_begin.then(|| block.wrapping_add(self.block_head))?;
        let frame_words = short(code.wrapping_add(self.code_frame), memory)?;
        let frame_bytes = u64::from(frame_words) * 8;
        if !(16..=FRAME_BYTES_MAX).contains(&frame_bytes) {
            return None;
        }
        let kind = name(pointer(code.wrapping_add(self.code_name), memory)?, memory)?;
        // "nmethod", and "native nmethod" around a native one.
        let is_method = kind.ends_with("nmethod");
        let own = is_method.then(|| pointer(code.wrapping_add(self.code_method), memory));
        let methods = own.flatten().map_or_else(Vec::new, |own| {
            let inside = |scopes: &scopes::Layout| scopes.methods((code, own), at, memory);
            self.scopes.as_ref().and_then(inside).unwrap_or_else(|| vec![own])
        });
        Some(Code { frame_bytes, methods: methods.into() })
    }
}
