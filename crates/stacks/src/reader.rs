//! The thread that reads stacks: all that may wait for a page, a disk, or a lock of somebody's memory is done here.
//!
//! Owns a batch: processes one by one, names for all at the end, and no more CPU time than it was given (budget.rs). Whoever
//! asked waits for a while and goes on without; a helper that hangs is left behind and ends when the kernel lets it go. Must
//! not: decide whose stacks are read (choose.rs), or believe one: whether its thread stood still is seen by others (mod.rs).
//!
//! Rejected: reading on the thread of the event loop (a page that a stuck program has to bring would stop the look), a signal to
//! interrupt the read (it does not reach a wait for a page).

use super::budget::Budget;
use super::left::Left;
use super::modules::Modules;
use super::perf_map;
use super::process::{Found, Process, Walk, is_root};
use holdup_reason::facts::{Ns, UserFrame};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How much longer than its batch may take whoever asked waits: for a page, a disk, a lock.
const GRACE: Duration = Duration::from_millis(50);

/// Threads of one process one after the other.
pub(crate) struct Batch {
    /// Whose.
    pub left: Vec<Left>,
    /// CPU time that it may take.
    pub allowed_ns: Ns,
    /// Time on the clock that it may take.
    pub timeout: Duration,
}

/// What was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Read {
    /// Of as many as there was time for, in the order of the batch; none where nothing was found.
    pub stacks: Vec<Option<Stack>>,
    /// CPU time that it took.
    pub spent_ns: Ns,
    /// CPU time that a batch needs for the names that there was no time for; 0 if none are missing.
    pub needed_ns: Ns,
    /// Processes whose maps of code that was made at run time are too long to be read.
    pub too_long: Vec<u32>,
}

/// A stack by names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stack {
    /// The innermost first.
    pub frames: Vec<UserFrame>,
    /// Down to where the thread began.
    pub complete: bool,
    /// The thread that has what this one waits for, by the runtime's own list; 0 if that is not known.
    pub owner_tid: u32,
}

/// The helper and the ways to it.
pub(crate) struct Helper {
    ask: Sender<Batch>,
    answer: Receiver<Read>,
}

impl Helper {
    /// Starts the thread; none if the kernel has no room for one.
    pub(crate) fn start() -> Option<Self> {
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
    pub(crate) fn read(&self, batch: Batch) -> Option<Read> {
        let timeout = batch.timeout + GRACE;
        self.ask.send(batch).ok()?;
        self.answer.recv_timeout(timeout).ok()
    }
}

/// Reads a batch as far as the time goes: stacks for half of what is left, then the names that these need, and again.
pub(crate) fn read(batch: &Batch, modules: &mut Modules) -> Read {
    let budget = Budget::begin(batch.allowed_ns, batch.timeout);
    let mut walks: Vec<Walk> = Vec::with_capacity(batch.left.len());
    let mut process: Option<(u32, Process)> = None;
    let mut too_long = BTreeSet::new();
    loop {
        let (first, until_ns) = (walks.len(), budget.half_of_rest_ns());
        for left in &batch.left[first..] {
            if !budget.has_time_until(until_ns) {
                break;
            }
            if process.as_ref().is_none_or(|(pid, _)| *pid != left.thread.pid) {
                let has_time = || budget.has_time_until(until_ns);
                let opened = Process::open(left.thread.pid, &has_time);
                process = opened.map(|opened| (left.thread.pid, opened));
            }
            let Some((_, process)) = &mut process else { break };
            walks.push(process.read(left, modules, &budget));
        }
        if walks.len() == first {
            break;
        }
        let frames = walks[first..].iter().flat_map(|walk| &walk.frames);
        let places = frames.flat_map(|frame| [frame.place, frame.called]).flatten();
        modules.find_names(places, &budget);
        for pid in name_made(&batch.left[first..], &mut walks[first..], &budget) {
            too_long.insert(pid);
        }
    }
    if walks.is_empty() {
        // Not even the first process could be opened.
        budget.lacks(batch.allowed_ns);
    }
    let stacks = walks.iter().map(|walk| named(walk, modules)).collect();
    modules.close();
    let (spent_ns, needed_ns) = (budget.spent_ns(), budget.needed_ns());
    Read { stacks, spent_ns, needed_ns, too_long: too_long.into_iter().collect() }
}

/// Names code that was made at run time by the maps of its processes; gives those whose map is too long.
fn name_made(left: &[Left], walks: &mut [Walk], budget: &Budget) -> Vec<u32> {
    let mut of_processes: BTreeMap<u32, Vec<&mut Found>> = BTreeMap::new();
    for (left, walk) in left.iter().zip(walks) {
        let made = walk.frames.iter_mut().filter(|it| it.made_at.is_some() && it.program.is_none());
        of_processes.entry(left.thread.pid).or_default().extend(made);
    }
    of_processes.retain(|_, made| !made.is_empty());
    let mut too_long = Vec::new();
    for (pid, made) in of_processes {
        let addresses: Vec<u64> = made.iter().filter_map(|it| it.made_at).collect();
        let fits = |bytes: u64| budget.fits(bytes * perf_map::BYTE_NS);
        let found = perf_map::Place::of(pid).map(|place| place.find(&addresses, &fits));
        let found = found.unwrap_or_default();
        too_long.extend(found.is_too_long.then_some(pid));
        for (made, name) in made.into_iter().zip(found.names) {
            made.program = name;
        }
    }
    too_long
}

/// A walk by names; none if no function of it has a name.
fn named(walk: &Walk, modules: &Modules) -> Option<Stack> {
    let name =
        |place: Option<(usize, u64)>| place.and_then(|(at, address)| modules.name(at, address));
    let mut frames: Vec<UserFrame> = (walk.frames.iter())
        .map(|frame| {
            if let Some(program) = &frame.program {
                return program.clone();
            }
            let function = name(frame.place).or_else(|| name(frame.called));
            UserFrame {
                function: function.as_deref().unwrap_or_default().into(),
                module: frame.name.to_string(),
                ..UserFrame::default()
            }
        })
        .collect();
    let complete = walk.ended || frames.last().is_some_and(|last| is_root(&last.function));
    // What is interpreted stands where the interpreter begins.
    let interprets = |frame: &UserFrame| frame.function == "_PyEval_EvalFrameDefault";
    if let Some(at) = frames.iter().position(interprets) {
        frames.splice(at..at, walk.program.iter().cloned());
    }
    splice_methods(&mut frames, &walk.methods);
    let is_named = frames.iter().any(|frame| !frame.function.is_empty());
    is_named.then_some(Stack { frames, complete, owner_tid: walk.owner_tid })
}

/// Methods stand where code that was made at run time does: the innermost stretch of it; behind all, if the walk got not so far.
fn splice_methods(frames: &mut Vec<UserFrame>, methods: &[UserFrame]) {
    if methods.is_empty() {
        return;
    }
    let is_made = |frame: &&UserFrame| frame.module.is_empty() && frame.function.is_empty();
    let begin = frames.iter().position(|frame| is_made(&frame)).unwrap_or(frames.len());
    let end = begin + frames[begin..].iter().take_while(is_made).count();
    frames.splice(begin..end, methods.iter().cloned());
}
