//! The spans of a command: its processes, and the waits on its path, each with who it waited for.
//!
//! A process is a span from its fork to its end, below the process that began it. A wait is a span below its process, and is linked to
//! the span of whoever had to act: that one's own wait, or its process; one that is no part of the command has a span below the root.
//! Must not: make identities (a trace's are of the format), or add a span without time in it.

use crate::answer::bounds;
use crate::answer::picture::words::doing;
use crate::facts::{Ns, ThreadRef};
use crate::graph::chains::ChainLink;
use crate::graph::ends::{command_end_ns, command_root};
use crate::measure::Measures;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Processes of a command, the longest.
const PROCESSES_MAX: usize = 2_000;
/// Waits on its path, the longest.
const WAITS_MAX: usize = 4_000;

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// The command.
    Command,
    /// A process that it began.
    Process,
    /// A process that it waited for, and that was there before.
    Other,
    /// A wait on its path.
    Wait,
}

/// A span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// What it is.
    pub kind: SpanKind,
    /// The span that it is part of; none for the command.
    pub parent: Option<usize>,
    /// The span of who had to act for it to end.
    pub waits_for: Option<usize>,
    /// The name of its process, or what is waited for in words.
    pub name: String,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// From, nanoseconds after the begin of the window.
    pub begin_ns: Ns,
    /// To.
    pub end_ns: Ns,
    /// Class of the wait; empty of a process.
    pub class: &'static str,
    /// What is waited for; empty of a process.
    pub object: String,
}

struct Spans<'m, 'a> {
    measures: &'m Measures<'a>,
    all: Vec<Span>,
    of_process: HashMap<u32, usize>,
    end_ns: Ns,
}

/// The spans of a command, parents before their children, and how many were left out; none of anything else.
pub fn spans(measures: &Measures<'_>) -> (Vec<Span>, usize) {
    let model = measures.model;
    let Some(root) = command_root(model) else { return (Vec::new(), 0) };
    let end_ns = command_end_ns(model).saturating_sub(model.look.begin_ns);
    let mut spans = Spans { measures, all: Vec::new(), of_process: HashMap::new(), end_ns };
    let mut name =
        model.look.target.as_ref().map_or(root.comm.clone(), |target| target.name.clone());
    // Its loss stands in the report.
    bounds::cut_text("/target/name", &mut name, bounds::WORDS_BYTES_MAX);
    spans.all.push(Span { name, ..spans.process(&root, SpanKind::Command, (0, end_ns)) });
    spans.of_process.insert(root.pid, 0);
    let left_out = spans.add_processes() + spans.add_waits();
    (spans.all, left_out)
}

impl Spans<'_, '_> {
    fn process(&self, who: &ThreadRef, kind: SpanKind, (begin_ns, end_ns): (Ns, Ns)) -> Span {
        Span {
            kind,
            parent: (!self.all.is_empty()).then_some(0),
            waits_for: None,
            name: self.measures.process_name(who),
            pid: who.pid,
            tid: who.pid,
            begin_ns,
            end_ns,
            class: "",
            object: String::new(),
        }
    }

    /// Those that began inside the look, in order of their begin, so that each parent is there before its children.
    fn add_processes(&mut self) -> usize {
        let model = self.measures.model;
        let mut ended: HashMap<u32, Ns> = HashMap::new();
        for (at, exit) in model.threads.exits.iter().filter(|(_, exit)| exit.last) {
            ended.insert(exit.thread.pid, at.saturating_sub(model.look.begin_ns));
        }
        let mut begun: Vec<(Ns, Ns, &ThreadRef, u32)> = Vec::new();
        for (at, fork) in
            model.threads.forks.iter().filter(|(_, fork)| fork.child.pid == fork.child.tid)
        {
            let begin = at.saturating_sub(model.look.begin_ns);
            let end = ended.get(&fork.child.pid).copied().unwrap_or(self.end_ns).min(self.end_ns);
            if begin < end && model.in_target(&fork.child) {
                begun.push((begin, end, &fork.child, fork.parent.pid));
            }
        }
        let left_out = shortest(&mut begun, PROCESSES_MAX, |(begin, end, ..)| end - begin);
        begun.sort_by_key(|(begin, _, child, _)| (*begin, child.pid));
        for (begin, end, child, parent) in begun {
            if self.of_process.contains_key(&child.pid) {
                continue;
            }
            let mut span = self.process(child, SpanKind::Process, (begin, end));
            span.parent = Some(self.of_process.get(&parent).copied().unwrap_or(0));
            self.of_process.insert(child.pid, self.all.len());
            self.all.push(span);
        }
        left_out
    }

    fn add_waits(&mut self) -> usize {
        let path = &self.measures.graph.path;
        // By identity: one wait of the path is cut into many leaves.
        let mut links: BTreeMap<usize, (Arc<ChainLink>, Option<Arc<ChainLink>>)> = BTreeMap::new();
        for leaf in path {
            for (at, link) in leaf.links.iter().enumerate().filter(|(_, it)| is_wait(it)) {
                let next = leaf.links.get(at + 1);
                let known = links.entry(Arc::as_ptr(link) as usize);
                let entry = known.or_insert_with(|| (link.clone(), None));
                entry.1 = entry.1.take().or_else(|| next.cloned());
            }
        }
        let mut waits: Vec<_> = links.into_values().filter(|(link, _)| link.ns() > 0).collect();
        let left_out = shortest(&mut waits, WAITS_MAX, |(link, _)| link.ns());
        waits
            .sort_by_key(|(link, _)| (link.begin_ns, std::cmp::Reverse(link.end_ns), link.who.tid));
        let mut others: Vec<ThreadRef> = Vec::new();
        let people = waits.iter().flat_map(|(link, next)| {
            [Some(&link.who), next.as_ref().map(|next| &next.who)].into_iter().flatten()
        });
        for who in people {
            let known = self.of_process.contains_key(&who.pid);
            if !known && !others.iter().any(|other| other.pid == who.pid) {
                others.push(who.clone());
            }
        }
        for who in &others {
            self.of_process.insert(who.pid, self.all.len());
            self.all.push(self.process(who, SpanKind::Other, (0, self.end_ns)));
        }
        let begin = self.all.len();
        let at: HashMap<usize, usize> = waits
            .iter()
            .enumerate()
            .map(|(at, (link, _))| (Arc::as_ptr(link) as usize, begin + at))
            .collect();
        for (link, next) in &waits {
            let wait = next.as_ref().and_then(|next| at.get(&(Arc::as_ptr(next) as usize)));
            let process = next.as_ref().and_then(|next| self.of_process.get(&next.who.pid));
            let waits_for = wait.or(process).copied();
            self.all.push(self.wait(link, waits_for));
        }
        left_out
    }

    fn wait(&self, link: &ChainLink, waits_for: Option<usize>) -> Span {
        let model = self.measures.model;
        let after = |at: Ns| at.saturating_sub(model.look.begin_ns);
        Span {
            kind: SpanKind::Wait,
            parent: Some(self.of_process.get(&link.who.pid).copied().unwrap_or(0)),
            waits_for,
            name: doing(model, link.class, &link.object),
            pid: link.who.pid,
            tid: link.who.tid,
            begin_ns: after(link.begin_ns),
            end_ns: after(link.end_ns),
            class: link.class.word(),
            object: model.name_of(&link.object).name,
        }
    }
}

fn is_wait(link: &ChainLink) -> bool {
    !matches!(link.class, WaitClass::Running | WaitClass::Unseen)
}

/// Leaves the shortest out, and counts them.
fn shortest<T>(all: &mut Vec<T>, most: usize, ns: impl Fn(&T) -> Ns) -> usize {
    let count = all.len().saturating_sub(most);
    if count > 0 {
        all.sort_by_key(|one| std::cmp::Reverse(ns(one)));
        all.truncate(most);
    }
    count
}
