//! Flame graphs: where work was done and where it was waited, by stack; width is time.
//!
//! One of the work and one of the waits, idle time in neither. Stacks that begin alike share their frames; each frame has the kind of most
//! of its time. What is too narrow to be seen is left out and counted, its time stays in the frames below it. Must not: weigh
//! (answer/export/stacks.rs does, and exports show the same).

use super::bounds::{FLAME_FRAMES, clipped};
use crate::answer::export::stacks::{FrameKind, WeightedStack};
use crate::graph::end::EndKind;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// A frame narrower than this part of the whole is not drawn.
const NARROWEST: f64 = 0.000_5;

/// One flame graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flame {
    /// `work` or `waits`.
    pub of: &'static str,
    /// All of its time, seconds.
    pub seconds: f64,
    /// What frames are called.
    pub names: Vec<String>,
    /// The frames, each after the one that it stands on.
    pub frames: Vec<FlameFrame>,
}

/// A frame: how deep, its name, what it is (0 who, 1 program, 2 kernel, 3 what is waited for, 4 who would have to act), the kind of end
/// of most of its time, and microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FlameFrame(pub u16, pub usize, pub u8, pub EndKind, pub u64);

#[derive(Default)]
struct Node<'s> {
    ns: u64,
    kinds: BTreeMap<EndKind, u64>,
    below: BTreeMap<(FrameKind, &'s str), Node<'s>>,
}

impl Node<'_> {
    fn kind(&self) -> EndKind {
        self.kinds.iter().max_by_key(|(_, ns)| **ns).map_or(EndKind::Open, |(kind, _)| *kind)
    }

    fn widths(&self, all: &mut Vec<u64>) {
        for node in self.below.values() {
            all.push(node.ns);
            node.widths(all);
        }
    }
}

/// The flame graphs of a look, and how many frames were left out.
pub(super) fn flames(stacks: &[WeightedStack]) -> (Vec<Flame>, usize) {
    let mut left_out = 0;
    let mut of = |name: &'static str, wanted: &dyn Fn(&WeightedStack) -> bool| {
        let mut root = Node::default();
        for stack in stacks.iter().filter(|stack| wanted(stack)) {
            add(&mut root, stack);
        }
        let (flame, narrow) = flame(name, &root)?;
        left_out += narrow;
        Some(flame)
    };
    let waits = of("waits", &|stack| !stack.is_work() && !stack.is_idle());
    let work = of("work", &WeightedStack::is_work);
    (waits.into_iter().chain(work).collect(), left_out)
}

fn add<'s>(root: &mut Node<'s>, stack: &'s WeightedStack) {
    let mut at = root;
    at.ns += stack.ns;
    for frame in &stack.frames {
        at = at.below.entry((frame.kind, frame.name.as_str())).or_default();
        at.ns += stack.ns;
        *at.kinds.entry(stack.kind).or_default() += stack.ns;
    }
}

fn flame(of: &'static str, root: &Node<'_>) -> Option<(Flame, usize)> {
    if root.ns == 0 {
        return None;
    }
    let mut widths = Vec::new();
    root.widths(&mut widths);
    widths.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let visible = (root.ns as f64 * NARROWEST) as u64;
    let least = widths.get(FLAME_FRAMES).map_or(visible, |ns| visible.max(ns + 1));
    let mut flame =
        Flame { of, seconds: root.ns as f64 / 1e9, names: Vec::new(), frames: Vec::new() };
    draw(root, 0, least, &mut flame, &mut HashMap::new());
    let left_out = widths.len() - flame.frames.len();
    Some((flame, left_out))
}

fn draw(
    node: &Node<'_>,
    depth: u16,
    least: u64,
    flame: &mut Flame,
    known: &mut HashMap<String, usize>,
) {
    let mut below: Vec<_> = node.below.iter().filter(|(_, node)| node.ns >= least).collect();
    below.sort_by(|(a_key, a), (b_key, b)| b.ns.cmp(&a.ns).then_with(|| a_key.cmp(b_key)));
    for ((kind, name), node) in below {
        let name = clipped(name);
        let at = *known.entry(name).or_insert_with_key(|name| {
            flame.names.push(name.clone());
            flame.names.len() - 1
        });
        flame.frames.push(FlameFrame(depth, at, *kind as u8, node.kind(), node.ns / 1_000));
        draw(node, depth + 1, least, flame, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::export::stacks::Frame;

    fn stack(names: &[&str], class: &'static str, ns: u64) -> WeightedStack {
        let frames = names.iter().map(|name| Frame::new(FrameKind::Program, *name)).collect();
        let kind = if class == "running" { EndKind::Works } else { EndKind::Lock };
        let object = String::new();
        WeightedStack { frames, class, kind, object, culprit: None, pid: 1, ns }
    }

    #[test]
    fn stacks_that_begin_alike_share_frames_and_idle_time_is_not_drawn() {
        let all = [
            stack(&["app", "f"], "file lock", 3_000_000),
            stack(&["app", "g"], "file lock", 1_000_000),
            stack(&["app", "g"], "running", 5_000_000),
            stack(&["app"], "idle", 9_000_000),
        ];
        let (flames, left_out) = flames(&all);
        assert_eq!((flames.len(), left_out), (2, 0));
        let waits = &flames[0];
        assert_eq!((waits.of, waits.frames.len()), ("waits", 3));
        assert_eq!(waits.frames[0], FlameFrame(0, 0, 1, EndKind::Lock, 4_000));
        assert_eq!(waits.names, ["app", "f", "g"]);
        assert!((flames[1].seconds - 0.005).abs() < 1e-12);
    }

    #[test]
    fn a_thousand_narrow_frames_are_counted() {
        let names: Vec<String> = (0..2_000).map(|n| format!("f{n}")).collect();
        let mut all: Vec<WeightedStack> =
            names.iter().map(|name| stack(&[name], "running", 1_000)).collect();
        all.push(stack(&["most"], "running", 100_000_000));
        let (flames, left_out) = flames(&all);
        assert_eq!((flames[0].frames.len(), left_out), (1, 2_000));
    }
}
