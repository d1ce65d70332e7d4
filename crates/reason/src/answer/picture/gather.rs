//! Demand by end and process while the graph adds it up: when it was lost, and behind whom.
//!
//! An end's sums forget when each piece was lost and through whom; a picture needs both. So each piece is seen as it is added,
//! and kept as sums over slices of the window and over paths, never one by one. Which end of the answer a piece belongs to is
//! known only after the rules have claimed theirs, so all is kept by the graph's end and by process until then.
//!
//! Must not: decide what an end is (graph/ends.rs does, and this sees what it decided).

use super::bounds::{HOPS, SLICES};
use crate::facts::{Ns, ThreadRef};
use crate::graph::end::{EndKind, Lost};
use crate::graph::ends::{command_end_ns, command_root};
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// One end of the graph.
pub type EndKey = (EndKind, WaitClass, Object);

/// One hop of a path: what is waited for, and the process that waits.
pub type Hop = (Object, u32);

/// What one process lost to one end.
#[derive(Debug, Default)]
pub struct Loss {
    /// Seconds that count, by slice.
    pub by_slice: BTreeMap<usize, f64>,
    /// Seconds that count, of which it is not known when.
    pub untimed: f64,
    /// Waits through others, not counted, seconds.
    pub behind_others: f64,
    /// Paths from the end to the process: hops, and seconds.
    paths: HashMap<u64, Vec<(Vec<Hop>, f64)>>,
    /// How many threads the chains had: seconds by depth.
    pub depths: BTreeMap<usize, f64>,
    /// Which of its threads lost it: seconds by thread id.
    threads: BTreeMap<u32, (ThreadRef, f64)>,
}

impl Loss {
    /// The thread that lost most of it, and how much, seconds.
    pub fn main_thread(&self) -> Option<&(ThreadRef, f64)> {
        self.threads.values().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Paths from the end to the process that lost: what is waited for and who waits, the end's object first.
    pub fn paths(&self) -> impl Iterator<Item = &(Vec<Hop>, f64)> {
        self.paths.values().flatten()
    }
}

/// All demand of a look.
pub struct Gathered {
    /// Begin of what is drawn.
    pub begin_ns: Ns,
    /// Its end.
    pub end_ns: Ns,
    ends: HashMap<EndKey, BTreeMap<u32, Loss>>,
}

impl Gathered {
    /// Nothing yet, of a look.
    pub fn new(model: &Model) -> Self {
        let end_ns = match command_root(model) {
            Some(_) => command_end_ns(model),
            None => model.look.end_ns,
        };
        Self {
            begin_ns: model.look.begin_ns,
            end_ns: end_ns.max(model.look.begin_ns + 1),
            ends: HashMap::new(),
        }
    }

    /// Adds a piece.
    pub fn add(&mut self, lost: &Lost<'_>) {
        let (begin_ns, end_ns) = (self.begin_ns, self.end_ns);
        let key = (lost.kind, lost.class, lost.object.clone());
        let victim = &lost.leaf.links[0].who;
        let of_end = self.ends.entry(key).or_default();
        let loss = of_end.entry(victim.pid).or_default();
        let seconds = lost.part * lost.leaf.ns() as f64 / 1e9;
        match (lost.counted, lost.timed) {
            (false, _) => loss.behind_others += seconds,
            (true, false) => loss.untimed += seconds,
            (true, true) => {
                let (from, to) = (lost.leaf.begin_ns.max(begin_ns), lost.leaf.end_ns.min(end_ns));
                spread(loss, (begin_ns, end_ns), (from, to), lost.part);
            }
        }
        loss.threads.entry(victim.tid).or_insert_with(|| (victim.clone(), 0.0)).1 += seconds;
        *loss.depths.entry(lost.leaf.links.len()).or_default() += seconds;
        add_path(loss, lost, seconds);
    }

    /// What each process lost to an end.
    pub fn of(
        &self,
        kind: EndKind,
        class: WaitClass,
        object: &Object,
    ) -> Option<&BTreeMap<u32, Loss>> {
        self.ends.get(&(kind, class, object.clone()))
    }
}

/// Adds a stretch of time to the slices that it lies in.
fn spread(loss: &mut Loss, window: (Ns, Ns), (from, to): (Ns, Ns), part: f64) {
    let width = (window.1 - window.0) as f64 / SLICES as f64;
    let slice_of = |at: Ns| (((at - window.0) as f64 / width) as usize).min(SLICES - 1);
    if from >= to {
        return;
    }
    for slice in slice_of(from)..=slice_of(to - 1) {
        let begin = window.0 as f64 + slice as f64 * width;
        let end = if slice + 1 == SLICES { window.1 as f64 } else { begin + width };
        let ns = (to as f64).min(end) - (from as f64).max(begin);
        if ns > 0.0 {
            *loss.by_slice.entry(slice).or_default() += part * ns / 1e9;
        }
    }
}

/// The hops of a piece from its end to its victim. Who works or sleeps is the end itself, and waits for nothing.
fn hops<'l>(lost: &'l Lost<'_>) -> impl Iterator<Item = (&'l Object, u32)> {
    let acts = matches!(lost.kind, EndKind::Works | EndKind::Sleep)
        && matches!(lost.class, WaitClass::Running | WaitClass::Unseen | WaitClass::Timer);
    let links = &lost.leaf.links[..=lost.named];
    let own = usize::from(acts);
    let last = lost.named;
    let object =
        move |at: usize| if at == last { lost.object } else { &lost.leaf.links[at].object };
    let all = links.iter().enumerate().rev().skip(own).take(HOPS);
    all.map(move |(at, link)| (object(at), link.who.pid))
}

fn add_path(loss: &mut Loss, lost: &Lost<'_>, seconds: f64) {
    let mut hash = DefaultHasher::new();
    hops(lost).for_each(|hop| hop.hash(&mut hash));
    let same = loss.paths.entry(hash.finish()).or_default();
    let known = same.iter_mut().find(|(path, _)| {
        path.len() == hops(lost).count()
            && path.iter().zip(hops(lost)).all(|(own, hop)| (&own.0, own.1) == hop)
    });
    match known {
        Some((_, sum)) => *sum += seconds,
        None => {
            let path = hops(lost).map(|(object, pid)| (object.clone(), pid)).collect();
            same.push((path, seconds));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_conserved_over_slices() {
        let window = (1_000, 1_000 + 7_777_777_777);
        for (from, to) in [(1_000, 7_777_778_777), (5_000, 5_001), (32_407_407, 900_000_000)] {
            let mut loss = Loss::default();
            spread(&mut loss, window, (from, to), 0.5);
            let sum: f64 = loss.by_slice.values().sum();
            assert!((sum - (to - from) as f64 / 2e9).abs() < 1e-9, "{from} {to}: {sum}");
            assert!(loss.by_slice.keys().all(|slice| *slice < SLICES));
        }
    }
}
