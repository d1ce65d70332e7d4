//! One goroutine: where it stands, by the frame pointers of its stack, and which mutex it waits for.
//!
//! A goroutine that stands has left its stack pointer, instruction and frame pointer in its own description (`g.sched`,
//! src/runtime/runtime2.go), which carries its own address: what does not is no goroutine. Where the rest lies depends on the
//! release, so both layouts there have been since Go 1.18 are tried, and one is taken that the list as a whole agrees with
//! (go_routines.rs). All Go code keeps frame pointers, so a stack is a chain of pairs. The description is read again
//! afterwards: who has moved meanwhile is dropped.
//!
//! A mutex's address is on the stack of who waits for it, and so is that of the word that it sleeps on, which lies a fixed number
//! of bytes behind: the pair proves both. Must not: stop anybody, or guess an address.

use super::called::Memory;
use super::elf::{u32_at, u64_at};
use super::go_program::Program;
use std::sync::Arc;

/// Bytes of a description that are read: all of what is asked for lies in them in every release.
pub(crate) const DESCRIPTION_BYTES: usize = 200;
const STACK_LOW: usize = 0;
const STACK_HIGH: usize = 8;
const SAVED_STACK: usize = 56;
const SAVED_INSTRUCTION: usize = 64;
const SAVED_SELF: usize = 72;
/// Where the frame pointer was saved: behind one or two words that are none.
const SAVED_FRAME: [usize; 2] = [96, 104];

/// States (`_Gwaiting` and `_Gsyscall`): it stands. The bit is set while the collector looks at its stack.
const WAITING: u32 = 4;
const IN_SYSCALL: u32 = 3;
const DEAD: u32 = 6;
const STATES_MAX: u32 = 16;
const SCANNED: u32 = 0x1000;

const FRAMES_MAX: usize = 40;
const STACK_BYTES: usize = 16 << 10;
/// How far a field may lie behind the begin of what it is a part of.
const PART_BYTES_MAX: u64 = 256;

/// Where a release keeps what of a goroutine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    state: usize,
    id: usize,
}

impl Layout {
    /// Go 1.18 to 1.22 and since 1.25; 1.23 and 1.24.
    pub(crate) const ALL: [Self; 2] = [Self { state: 144, id: 152 }, Self { state: 152, id: 160 }];

    fn waits_since(self) -> usize {
        self.id + 16
    }
}

/// What the description of a goroutine says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Description {
    /// Its number; never given twice.
    pub id: u64,
    state: u32,
    /// Blocked since about then, nanoseconds of CLOCK_MONOTONIC; 0: no collection has passed meanwhile.
    pub waits_since_ns: u64,
    stack: u64,
    stack_end: u64,
    instruction: u64,
    frame: u64,
}

impl Description {
    /// Reads a description at an address; none if there is none, by this layout.
    pub(crate) fn read(at: u64, layout: Layout, memory: &mut Memory<'_>) -> Option<Self> {
        let mut bytes = [0; DESCRIPTION_BYTES];
        memory(at, &mut bytes)?;
        let state = u32_at(&bytes, layout.state) & !SCANNED;
        let id = u64_at(&bytes, layout.id);
        let (low, high) = (u64_at(&bytes, STACK_LOW), u64_at(&bytes, STACK_HIGH));
        let stack = u64_at(&bytes, SAVED_STACK);
        const IDS_MAX: u64 = 1 << 48;
        // One that has ended keeps its number, and may have lost its stack.
        if state >= STATES_MAX || id >= IDS_MAX {
            return None;
        }
        let is_within = |word: u64| stack <= word && word < high && word.is_multiple_of(8);
        let frame = SAVED_FRAME.map(|at| u64_at(&bytes, at)).into_iter().find(|it| is_within(*it));
        let stands = matches!(state, WAITING | IN_SYSCALL);
        if stands && (u64_at(&bytes, SAVED_SELF) != at || stack < low || stack >= high) {
            return None;
        }
        Some(Self {
            id,
            state,
            waits_since_ns: u64_at(&bytes, layout.waits_since()),
            stack,
            stack_end: high,
            instruction: u64_at(&bytes, SAVED_INSTRUCTION),
            frame: frame.unwrap_or(0),
        })
    }

    /// Whether it waits, or is in a system call.
    pub(crate) fn stands(&self) -> bool {
        matches!(self.state, WAITING | IN_SYSCALL)
    }

    /// Whether it has ended.
    pub(crate) fn is_dead(&self) -> bool {
        self.state == DEAD || self.id == 0
    }

    /// Whether it has not moved since.
    pub(crate) fn is_same(&self, later: &Self) -> bool {
        let place = |it: &Self| (it.id, it.state, it.stack, it.instruction, it.frame);
        place(self) == place(later)
    }
}

/// A frame: the function, and where its part of the stack ends.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Its name; none if the table has none.
    pub function: Option<Arc<str>>,
    end: u64,
}

/// The stack of a goroutine.
#[derive(Debug, Clone)]
pub(crate) struct Stack {
    /// The innermost first.
    pub frames: Vec<Frame>,
    /// Return addresses, which say whether it stands at the same place.
    pub place: Vec<u64>,
    begin: u64,
    bytes: Vec<u8>,
}

impl Stack {
    /// Of a goroutine that stands.
    pub(crate) fn read(
        of: &Description,
        program: &mut Program,
        memory: &mut Memory<'_>,
    ) -> Option<Self> {
        let length = usize::try_from(of.stack_end.checked_sub(of.stack)?).ok()?.min(STACK_BYTES);
        let mut bytes = vec![0; length];
        memory(of.stack, &mut bytes)?;
        let mut stack =
            Self { frames: Vec::new(), place: vec![of.instruction], begin: of.stack, bytes };
        let (mut instruction, mut frame) = (of.instruction, of.frame);
        while stack.frames.len() < FRAMES_MAX {
            let innermost = stack.frames.is_empty();
            let function = program.function(instruction - u64::from(!innermost), memory);
            let is_root = function.as_deref() == Some("runtime.goexit");
            let pair = stack.word(frame).zip(stack.word(frame.wrapping_add(8)));
            stack.frames.push(Frame { function, end: frame.saturating_add(16) });
            let Some((caller_frame, returns_to)) = pair.filter(|_| !is_root) else { break };
            stack.place.push(returns_to);
            // Frames lie one behind the other; the first has no caller's.
            if returns_to == 0 || caller_frame != 0 && caller_frame <= frame {
                break;
            }
            (instruction, frame) = (returns_to, caller_frame);
        }
        // Where a stack breaks off, what it has no name for says nothing.
        while stack.frames.last().is_some_and(|last| last.function.is_none()) {
            stack.frames.pop();
        }
        Some(stack)
    }

    fn word(&self, at: u64) -> Option<u64> {
        let from = usize::try_from(at.checked_sub(self.begin)?).ok()?;
        let bytes = self.bytes.get(from..from.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        self.bytes.chunks_exact(8).map(|word| u64_at(word, 0))
    }

    /// Whether it waits for a mutex, or for a lock for readers and writers: how far behind its address the word may lie that
    /// is slept on, by who asked for it (sync/mutex.go: state, sema; sync/rwmutex.go: w, writerSem, readerSem).
    fn asks(&self) -> Option<&'static [u64]> {
        const ASKS: &[(&str, &[u64])] = &[
            ("sync.runtime_SemacquireMutex", &[4, 8, 12]),
            ("sync.runtime_SemacquireRWMutexR", &[12]),
            ("sync.runtime_SemacquireRWMutex", &[8]),
        ];
        let named = |name: &str| ASKS.iter().find(|(ask, _)| name.ends_with(ask)).map(|it| it.1);
        self.frames.iter().find_map(|frame| named(frame.function.as_deref()?))
    }

    /// The mutex that it waits for; none if its address could not be proved.
    pub(crate) fn lock(&self) -> Option<u64> {
        let behind = self.asks()?;
        // What the runtime and the lock's own functions have, and the function that asked.
        let is_own = |frame: &&Frame| {
            let name = frame.function.as_deref().unwrap_or_default();
            ["runtime.", "sync.", "internal/sync."].iter().any(|start| name.starts_with(start))
        };
        let asked = self.frames.iter().find(|frame| !is_own(frame))?;
        let within = usize::try_from(asked.end.checked_sub(self.begin)?).ok()?;
        let mut words: Vec<u64> = self.words().take(within / 8).collect();
        words.sort_unstable();
        let has = |word: u64| words.binary_search(&word).is_ok();
        const LOWEST: u64 = 1 << 16;
        behind.iter().find_map(|behind| {
            let is_it =
                |at: &&u64| **at >= LOWEST && at.is_multiple_of(4) && has(at.wrapping_add(*behind));
            words.iter().find(is_it).copied()
        })
    }

    /// Which of some addresses lie on it; `exactly`, or that of something that they may be a part of.
    pub(crate) fn refers(&self, locks: &[u64], exactly: bool) -> Vec<u64> {
        let mut found: Vec<u64> = Vec::new();
        for word in self.words() {
            let is_meant = |lock: &&u64| match exactly {
                true => **lock == word,
                false => lock.checked_sub(word).is_some_and(|behind| behind <= PART_BYTES_MAX),
            };
            let new = locks.iter().filter(is_meant).filter(|lock| !found.contains(*lock));
            let new: Vec<u64> = new.copied().collect();
            found.extend(new);
        }
        found
    }
}
