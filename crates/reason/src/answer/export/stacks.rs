//! Stacks with the time that was spent in each: work, waits, and idle time, of a command along its path.
//!
//! Of a host, process or container the weights are the accounting's own pieces, each with the stack it was spent in, so both add
//! up to the same. Of a command a stack is the chain of its path: who waits, for what, behind whom, and what the last one does.
//! Must not: count a nanosecond twice, or leave one out (what finds no room stands as `others` of its part).

use super::frames::{self, share_out};
pub use super::frames::{Frame, FrameKind};
use super::path::{Chain, OfPath};
use crate::answer::accounting::{self, PartObject, ThreadPart};
use crate::answer::picture::words::doing;
use crate::facts::{Ns, ThreadRef};
use crate::graph::end::EndKind;
use crate::measure::Measures;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use std::collections::BTreeMap;

/// Stacks that stand alone; the rest is one of each process and part.
const STACKS_MAX: usize = 10_000;

/// A stack, and how long.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedStack {
    /// The outermost first: who, where, for what, because of whom.
    pub frames: Vec<Frame>,
    /// The word of the accounting's part: `running`, `idle`, or a class of wait.
    pub class: &'static str,
    /// What kind of end that is: what colours are chosen by.
    pub kind: EndKind,
    /// What the part's time was spent on.
    pub object: String,
    /// Who would have to act, if it is known.
    pub culprit: Option<String>,
    /// Whose time it is.
    pub pid: u32,
    /// Nanoseconds.
    pub ns: Ns,
}

impl WeightedStack {
    /// It is work.
    pub fn is_work(&self) -> bool {
        self.class == "running"
    }

    /// Nobody was to do anything.
    pub fn is_idle(&self) -> bool {
        self.class == "idle"
    }
}

/// Everything of a stack but how long.
type Key = (Vec<Frame>, (&'static str, EndKind), String, Option<String>, u32);

/// The stacks of a look, and how many of them stand as others.
pub fn stacks(measures: &Measures<'_>, path: &OfPath<'_>) -> (Vec<WeightedStack>, usize) {
    let mut sums: BTreeMap<Key, f64> = BTreeMap::new();
    match measures.is_command() {
        true => of_path(measures, path, &mut sums),
        false => of_threads(measures, &mut sums),
    }
    folded(sums)
}

/// A process by name, and its number.
fn culprit(measures: &Measures<'_>, thread: &ThreadRef) -> String {
    format!("{} {}", measures.process_name(thread), thread.pid)
}

fn of_threads(measures: &Measures<'_>, sums: &mut BTreeMap<Key, f64>) {
    let model = measures.model;
    let mut ran: BTreeMap<u32, Ns> = BTreeMap::new();
    let mut culprits: BTreeMap<(u32, Ns), Option<ThreadRef>> = BTreeMap::new();
    accounting::each_thread_part(measures, &mut |of| {
        if of.class == "running" {
            *ran.entry(of.time.thread.pid).or_default() += of.ns;
            return;
        }
        let mut stack = frames::who(model, &of.time.thread);
        let who =
            of.wait.filter(|wait| of.class != "idle" && !wait.class.is_root()).and_then(|wait| {
                let key = (wait.thread.tid, wait.begin_ns);
                culprits.entry(key).or_insert_with(|| holder(measures, wait)).clone()
            });
        match of.wait {
            Some(wait) => stack.extend(frames::waits(model, wait)),
            None => stack.push(Frame::new(FrameKind::Wait, words(of.class))),
        }
        let who = who.map(|who| culprit(measures, &who));
        stack.extend(who.clone().map(|who| Frame::new(FrameKind::Culprit, who)));
        let object = of.object.name(model).name;
        let key = (stack, (of.class, kind_of(&of)), object, who, of.time.thread.pid);
        *sums.entry(key).or_default() += of.ns as f64;
    });
    for (pid, ns) in ran {
        let thread = model.threads.thread_ref(pid);
        let whole = frames::who(model, &thread);
        add_work(measures, pid, (&whole, "CPU"), ns, sums);
    }
}

/// Work, as it is accounted for.
const WORK: (&str, EndKind) = ("running", EndKind::Works);

/// The kind of a piece of a thread's time.
fn kind_of(part: &ThreadPart<'_>) -> EndKind {
    match (part.class, part.wait) {
        ("idle", _) => EndKind::Idle,
        (_, Some(wait)) => EndKind::of(wait.class),
        ("run queue" | "CPU quota", None) => EndKind::Cpu,
        _ => EndKind::Open,
    }
}

/// Whoever has to act for a wait to end.
fn holder(measures: &Measures<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let found = measures.graph.holder(wait)?;
    (found.tid != wait.thread.tid && found.pid != 0).then_some(found)
}

/// Time on a CPU, by where the samples of the process hit.
fn add_work(
    measures: &Measures<'_>,
    pid: u32,
    (whole, object): (&[Frame], &str),
    ns: Ns,
    sums: &mut BTreeMap<Key, f64>,
) {
    let mut parts = frames::works(measures, pid);
    if parts.is_empty() {
        parts.push((vec![Frame::new(FrameKind::Program, "not sampled")], 1));
    }
    let counts: Vec<u64> = parts.iter().map(|(_, count)| *count).collect();
    for ((inner, _), ns) in parts.into_iter().zip(share_out(ns, &counts)) {
        let stack = whole.iter().cloned().chain(inner).collect();
        *sums.entry((stack, WORK, object.to_string(), None, pid)).or_default() += ns as f64;
    }
}

fn words(class: &str) -> String {
    match class {
        "run queue" => "is ready, waits for a CPU".into(),
        "CPU quota" => "is ready, but its group is out of CPU quota".into(),
        class => class.into(),
    }
}

fn of_path(measures: &Measures<'_>, path: &OfPath<'_>, sums: &mut BTreeMap<Key, f64>) {
    for (chain, ns) in &path.chains {
        let Some(first) = chain.hops.first() else { continue };
        let (stack, last) = of_chain(measures, chain);
        let object = chain.part.1.name(measures.model).name;
        if chain.part.0 == "running" {
            add_work(measures, last.pid, (&stack, &object), ns.round() as Ns, sums);
            continue;
        }
        let who = (chain.hops.len() > 1).then(|| culprit(measures, &last));
        *sums.entry((stack, (chain.part.0, chain.kind), object, who, first.0)).or_default() += ns;
    }
}

/// The frames of a chain, and who is last in it.
fn of_chain(measures: &Measures<'_>, chain: &Chain) -> (Vec<Frame>, ThreadRef) {
    let model = measures.model;
    let mut stack = Vec::new();
    let mut last = ThreadRef::default();
    for (at, (pid, tid, class, object)) in chain.hops.iter().enumerate() {
        last = model.threads.thread_ref(*tid);
        last.pid = *pid;
        let is_last = at + 1 == chain.hops.len();
        stack.extend(frames::who(model, &last));
        let works = *class == WaitClass::Running || is_last && chain.part.0 == "running";
        if is_last {
            stack.extend(frames::kernel(model, chain.stack));
        }
        if !works {
            // What was not seen has been led to a part of its own.
            let named = match (&chain.part.1, *class) {
                (PartObject::Of(of), WaitClass::Unseen) if is_last => {
                    format!("{}: {}", chain.part.0, model.name_of(of).name)
                }
                _ => doing(model, *class, object),
            };
            stack.push(Frame::new(FrameKind::Wait, named));
        }
    }
    (stack, last)
}

/// As many as there is room for, the longest; the rest by process and part.
fn folded(sums: BTreeMap<Key, f64>) -> (Vec<WeightedStack>, usize) {
    let mut all: Vec<(Key, f64)> = sums.into_iter().filter(|(_, ns)| *ns > 0.0).collect();
    all.sort_by(|(a_key, a), (b_key, b)| b.total_cmp(a).then_with(|| a_key.cmp(b_key)));
    let rest = all.split_off(all.len().min(STACKS_MAX));
    let count = rest.len();
    let mut others: BTreeMap<Key, f64> = BTreeMap::new();
    for ((mut frames, class, _, _, pid), ns) in rest {
        frames.truncate(1);
        frames.push(Frame::new(FrameKind::Wait, "others"));
        *others.entry((frames, class, String::new(), None, pid)).or_default() += ns;
    }
    let made = |((frames, class, object, culprit, pid), ns): (Key, f64)| WeightedStack {
        frames,
        class: class.0,
        kind: class.1,
        object,
        culprit,
        pid,
        ns: ns.round() as Ns,
    };
    (all.into_iter().chain(others).map(made).filter(|stack| stack.ns > 0).collect(), count)
}
