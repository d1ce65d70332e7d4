//! Lines of time: what each thread did when, and who ended each wait.
//!
//! Of a command the first line is its path, whose slices add up to the wall time; every other line is a thread, the busiest first. What
//! was not seen one by one leaves a gap. A wait that ended by another thread's hand leads to it. Must not: guess who woke.

use crate::answer::picture::words::{doing, waiting};
use crate::facts::{Ns, ThreadRef, ThreadTime, WakeContext};
use crate::graph::chains::ChainLink;
use crate::measure::Measures;
use crate::model::ThreadKey;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::{Doing, WaitSpan};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Lines of threads.
const TRACKS_MAX: usize = 400;
/// Slices altogether; the shortest are left out.
const SLICES_MAX: usize = 100_000;

/// A line of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// The thread; 0 for the command's path.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Name of the thread.
    pub name: String,
    /// Name of the process.
    pub process: String,
    /// In order of time, without overlap.
    pub slices: Vec<Slice>,
}

/// A piece of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// From, nanoseconds after the begin of the window.
    pub begin_ns: Ns,
    /// To.
    pub end_ns: Ns,
    /// The class of the wait, or `running`.
    pub class: &'static str,
    /// What it does, in words.
    pub words: String,
    /// What is waited for; empty if it runs.
    pub object: String,
    /// The line of who ended it.
    pub ended_by: Option<usize>,
}

/// The lines, how many slices were left out, and how many threads.
pub fn tracks(measures: &Measures<'_>) -> (Vec<Track>, usize, usize) {
    let model = measures.model;
    let wanted = |time: &&ThreadTime| {
        !time.kernel && time.thread.pid != model.look.host.own_pid && model.in_target(&time.thread)
    };
    let mut weighed: BTreeMap<ThreadKey, (u64, &ThreadTime)> = BTreeMap::new();
    for time in model.threads.times.iter().filter(wanted) {
        let key = model.threads.key_at(&time.thread, time.until_ns);
        let busy = measures.timelines.of(key).iter().filter(|wait| !wait.class.is_rest());
        let lost: u64 = busy.map(|wait| wait.within_ns(time.since_ns, time.until_ns)).sum();
        weighed.entry(key).or_insert((0, time)).0 += lost + time.run_ns;
    }
    let mut order: Vec<(ThreadKey, u64, &ThreadTime)> =
        weighed.into_iter().map(|(key, (ns, time))| (key, ns, time)).collect();
    order.sort_by_key(|(key, ns, _)| (std::cmp::Reverse(*ns), *key));
    let threads_left_out = order.len().saturating_sub(TRACKS_MAX);
    order.truncate(TRACKS_MAX);
    let first = usize::from(measures.is_command());
    let index: HashMap<ThreadKey, usize> =
        order.iter().enumerate().map(|(at, (key, ..))| (*key, at + first)).collect();
    let mut all: Vec<Track> = measures.is_command().then(|| path(measures)).into_iter().collect();
    for (key, _, time) in order {
        all.push(thread(measures, key, time, &index));
    }
    let left_out = thinned(&mut all);
    (all, left_out, threads_left_out)
}

fn thread(
    measures: &Measures<'_>,
    key: ThreadKey,
    time: &ThreadTime,
    index: &HashMap<ThreadKey, usize>,
) -> Track {
    let model = measures.model;
    let thread = model.threads.present(&time.thread);
    let pieces = measures.timelines.pieces(key, time.since_ns, time.until_ns);
    let slices = pieces.iter().filter_map(|piece| {
        let (begin_ns, end_ns) = (
            piece.begin_ns - model.look.begin_ns.min(piece.begin_ns),
            piece.end_ns - model.look.begin_ns.min(piece.end_ns),
        );
        let of = |class: WaitClass, words: String, object: &Object, ended_by| Slice {
            begin_ns,
            end_ns,
            class: class.word(),
            words,
            object: model.name_of(object).name,
            ended_by,
        };
        match piece.doing {
            Doing::Running => Some(of(WaitClass::Running, "runs".into(), &Object::Nothing, None)),
            Doing::Unseen => None,
            Doing::Waiting(wait) => {
                let ended = piece.end_ns == wait.end_ns;
                let by = ended.then(|| ended_by(measures, wait)).flatten();
                let line = by.and_then(|by| index.get(&model.threads.key(&by)).copied());
                Some(of(wait.class, waiting(model, wait), &wait.object, line))
            }
        }
    });
    Track {
        tid: thread.tid,
        pid: thread.pid,
        process: measures.process_name(&thread),
        slices: slices.collect(),
        name: thread.comm,
    }
}

/// Who ended a wait: the thread that woke, unless it was an interrupt that hit it; of one that stands, who would have to.
fn ended_by(measures: &Measures<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    match &wait.wake {
        Some(wake) if wake.context == WakeContext::Task && wake.by.tid != 0 => {
            Some(wake.by.clone())
        }
        Some(_) => None,
        None => measures.graph.holder(wait).filter(|by| by.tid != wait.thread.tid),
    }
}

/// The path of a command: who it waited for at each moment, and what that one did.
fn path(measures: &Measures<'_>) -> Track {
    let model = measures.model;
    let mut slices: Vec<Slice> = Vec::new();
    let mut last: Option<(Arc<ChainLink>, Option<ThreadRef>)> = None;
    for leaf in &measures.graph.path {
        let root = &leaf.links[leaf.links.len() - 1];
        // What is waited for is said by who waits for the root.
        let waits = leaf.links.len().checked_sub(2).map(|at| &leaf.links[at]);
        let waiter = waits.map(|link| link.who.clone());
        let (begin_ns, end_ns) =
            (leaf.begin_ns - model.look.begin_ns, leaf.end_ns - model.look.begin_ns);
        if let (Some(open), Some(before)) = (slices.last_mut(), &last)
            && Arc::ptr_eq(&before.0, root)
            && before.1 == waiter
            && open.end_ns == begin_ns
        {
            open.end_ns = end_ns;
            continue;
        }
        last = Some((root.clone(), waiter));
        let who = model.threads.present(&root.who);
        let for_it = waits.map_or_else(String::new, |link| {
            let waiter = model.threads.present(&link.who);
            let words = doing(model, link.class, &link.object);
            format!("; {} {words}", model.threads.who(&waiter))
        });
        slices.push(Slice {
            begin_ns,
            end_ns,
            class: root.class.word(),
            words: format!(
                "{} {}{for_it}",
                model.threads.who(&who),
                doing(model, root.class, &root.object)
            ),
            object: model.name_of(&root.object).name,
            ended_by: None,
        });
    }
    let name = "what the command waits for".to_string();
    let process = model.look.target.as_ref().map_or_else(String::new, |target| target.name.clone());
    Track { tid: 0, pid: 0, name, process, slices }
}

/// Leaves out the shortest slices, and counts them; those of a command's path stay.
fn thinned(tracks: &mut [Track]) -> usize {
    let of_threads = || tracks.iter().filter(|track| track.tid != 0).flat_map(|it| &it.slices);
    let mut lengths: Vec<Ns> = of_threads().map(|it| it.end_ns - it.begin_ns).collect();
    if lengths.len() <= SLICES_MAX {
        return 0;
    }
    let before = lengths.len();
    lengths.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let least = lengths[SLICES_MAX];
    for track in tracks.iter_mut().filter(|track| track.tid != 0) {
        track.slices.retain(|slice| slice.end_ns - slice.begin_ns > least);
    }
    before - tracks.iter().filter(|track| track.tid != 0).map(|it| it.slices.len()).sum::<usize>()
}
