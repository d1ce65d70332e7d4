//! The thread that reads stacks: all that may wait for a page, a disk, or a lock of somebody's memory is done here.
//!
//! Owns a batch: processes one by one, names for all at the end, and no more CPU time than it was given. Whoever asked waits for a
//! while and goes on without; a helper that hangs is left behind and ends when the kernel lets it go. Must not: decide
//! whose stacks are read (choose.rs), or believe one: whether its thread stood still is seen by others (mod.rs).
//!
//! Rejected: reading on the thread of the event loop (a page that a stuck program has to bring would stop the look), a signal to
//! interrupt the read (it does not reach a wait for a page).

use super::Left;
use super::modules::Modules;
use super::process::{Process, Walk, is_root};
use crate::files::threads::clock_ns;
use holdup_reason::facts::{Ns, UserFrame};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// CPU time that one batch may take beyond what it was given, because a pass over a file's symbols is done whole or is of
/// no use. The next ones have that much less. Code that is not optimised takes many times as long.
const OVERDRAFT_NS: Ns = if cfg!(debug_assertions) { 1_000_000_000 } else { 30_000_000 };

/// Threads of one process one after the other.
pub struct Batch {
    /// Whose.
    pub left: Vec<Left>,
    /// CPU time that it may take.
    pub allowed_ns: Ns,
}

/// What was read.
#[derive(Debug, Clone, Default)]
pub struct Read {
    /// In the order of the batch; none where nothing was found.
    pub stacks: Vec<Option<Stack>>,
    /// There was time for the first so many.
    pub tried: usize,
    /// CPU time that it took.
    pub spent_ns: Ns,
}

/// A stack by names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    /// The innermost first.
    pub frames: Vec<UserFrame>,
    /// Down to where the thread began.
    pub complete: bool,
}

/// The helper and the ways to it.
pub struct Helper {
    ask: Sender<Batch>,
    answer: Receiver<Read>,
}

impl Helper {
    /// Starts the thread; none if the kernel has no room for one.
    pub fn start() -> Option<Self> {
        let (ask, asked) = channel::<Batch>();
        let (answered, answer) = channel();
        let work = move || {
            let mut modules = Modules::default();
            for batch in asked {
                if answered.send(read(&batch, &mut modules)).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("holdup-stacks".into()).spawn(work).ok()?;
        Some(Self { ask, answer })
    }

    /// Has a batch read; none if it was not done in time, and then this helper is of no use any more.
    pub fn read(&self, batch: Batch, patience: Duration) -> Option<Read> {
        self.ask.send(batch).ok()?;
        self.answer.recv_timeout(patience).ok()
    }
}

/// Reads a batch as far as the time goes.
pub fn read(batch: &Batch, modules: &mut Modules) -> Read {
    let begin = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    let spent = || clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin);
    let mut walks: Vec<Walk> = Vec::with_capacity(batch.left.len());
    let mut process: Option<(u32, Process)> = None;
    for left in &batch.left {
        // The other half is for names.
        if spent() > batch.allowed_ns / 2 {
            break;
        }
        if process.as_ref().is_none_or(|(pid, _)| *pid != left.thread.pid) {
            process = Some((left.thread.pid, Process::open(left.thread.pid)));
        }
        let walk = process.as_mut().map(|(_, process)| process.read(left, modules));
        walks.push(walk.unwrap_or_default());
    }
    let frames = walks.iter().flat_map(|walk| &walk.frames);
    let places = frames.flat_map(|frame| [frame.place, frame.called]).flatten();
    modules.find_names(places, || spent() <= batch.allowed_ns + OVERDRAFT_NS);
    let stacks = walks.iter().map(|walk| named(walk, modules)).collect();
    modules.close();
    Read { stacks, tried: walks.len(), spent_ns: spent() }
}

/// A walk by names; none if no function of it has a name.
fn named(walk: &Walk, modules: &Modules) -> Option<Stack> {
    let name =
        |place: Option<(usize, u64)>| place.and_then(|(at, address)| modules.name(at, address));
    let mut frames: Vec<UserFrame> = (walk.frames.iter())
        .map(|frame| {
            let function = name(frame.place).or_else(|| name(frame.called));
            UserFrame {
                function: function.as_deref().unwrap_or_default().into(),
                module: frame.name.to_string(),
            }
        })
        .collect();
    let complete = walk.ended || frames.last().is_some_and(|last| is_root(&last.function));
    // What is interpreted stands where the interpreter begins.
    let interprets = |frame: &UserFrame| frame.function == "_PyEval_EvalFrameDefault";
    if let Some(at) = frames.iter().position(interprets) {
        frames.splice(at..at, walk.program.iter().cloned());
    }
    let is_named = frames.iter().any(|frame| !frame.function.is_empty());
    is_named.then_some(Stack { frames, complete })
}
