//! The blockers' tree: what each end costs, through which objects, and whom.
//!
//! The roots are the ends of the answer; below a root is what is waited for, below that who waits for it, and below him, where he
//! keeps others waiting meanwhile, what these wait for. The width of a node is all wait-seconds at it and behind it, so that
//! children are never wider than their parent and what is left under a parent is its own. Equal siblings are one ("nginx x 37").
//! Waits behind others count here and not in the answer's seconds: the root of a convoy is wider than the lock's own time.
//!
//! Must not: draw a circle of waiters (the page draws that as a ring, from the finding's chain).

use super::bounds::{NODES, clipped, rounded};
use super::gather::{Gathered, Hop};
use super::over_time::losses;
use super::words::noun;
use crate::answer::verdict::Origin;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A node: a cause, what is waited for, or who waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Node {
    /// What it is called; of a root empty, since the end has words.
    pub name: String,
    /// How many were folded into it.
    pub count: usize,
    /// Wait-seconds at it and behind it.
    pub seconds: f64,
    /// Who waits, and not what is waited for.
    pub is_who: bool,
    /// What hangs below it, widest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Node>,
}

/// The tree of every end of the answer, in their order, and how many nodes were left out.
pub fn trees(
    measures: &Measures<'_>,
    gathered: &Gathered,
    origins: &[Vec<Origin>],
) -> (Vec<Node>, usize) {
    let growing: Vec<Growing> = origins
        .iter()
        .map(|of_end| {
            let mut root = Growing::default();
            for (_, loss) in losses(measures, gathered, of_end) {
                for (path, seconds) in loss.paths() {
                    root.add(measures.model, path, *seconds);
                }
            }
            root
        })
        .collect();
    let whole: f64 = growing.iter().map(|root| root.seconds).sum();
    let mut least = whole / 2_000.0;
    // A tree of many small nodes is cut at wider ones until it fits.
    while growing.iter().map(|root| root.count_above(least)).sum::<usize>() > NODES {
        least *= 1.5;
    }
    let mut left_out = 0;
    let roots = growing.iter().map(|root| root.node("", false, least, &mut left_out));
    (roots.collect(), left_out)
}

/// What tells siblings apart: the name that is shown, and whether it is somebody.
type Key = (bool, String);

#[derive(Default)]
struct Growing {
    seconds: f64,
    objects: BTreeSet<Object>,
    processes: BTreeSet<u32>,
    first: Option<String>,
    below: BTreeMap<Key, Growing>,
}

impl Growing {
    /// Adds a path from the end to who lost.
    fn add(&mut self, model: &Model, path: &[Hop], seconds: f64) {
        self.seconds += seconds;
        let Some(((object, pid), rest)) = path.split_first() else { return };
        let what = self.below.entry((false, group(model, object))).or_default();
        what.seconds += seconds;
        what.first.get_or_insert_with(|| noun(model, object));
        what.objects.insert(object.clone());
        let name = model.process_name(*pid);
        let who = what.below.entry((true, name)).or_default();
        who.processes.insert(*pid);
        who.add(model, rest, seconds);
    }

    fn count_above(&self, least: f64) -> usize {
        let wide = self.below.values().filter(|node| node.seconds >= least);
        1 + wide.map(|node| node.count_above(least)).sum::<usize>()
    }

    fn node(&self, name: &str, is_who: bool, least: f64, left_out: &mut usize) -> Node {
        let mut below = Vec::new();
        for ((is_who, name), node) in &self.below {
            match node.seconds >= least {
                true => below.push(node.node(name, *is_who, least, left_out)),
                false => *left_out += 1,
            }
        }
        below.sort_by(|a: &Node, b| b.seconds.total_cmp(&a.seconds).then(a.name.cmp(&b.name)));
        let count = if is_who { self.processes.len() } else { self.objects.len() };
        let name = match (is_who, count, &self.first) {
            (true, 1, _) => match self.processes.first() {
                Some(pid) => format!("{name} {pid}"),
                None => name.to_string(),
            },
            (false, 0 | 1, Some(first)) => first.clone(),
            _ => name.to_string(),
        };
        Node { name: clipped(&name), count, seconds: rounded(self.seconds), is_who, below }
    }
}

/// Objects that people count and do not tell apart are one; the rest goes by its name.
fn group(model: &Model, object: &Object) -> String {
    match object {
        Object::Child(_) | Object::AnyChild | Object::Program(..) => "children".into(),
        Object::Inet(_) => "sockets".into(),
        Object::Unix(_) => "unix sockets".into(),
        Object::Pipe(_) => "pipes".into(),
        Object::Futex { pid, .. } => format!("locks of {}", model.process_name(*pid)),
        Object::Timer(_) => "timers".into(),
        _ => noun(model, object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    fn grown(paths: &[(&[Hop], f64)]) -> Node {
        let mut facts = host();
        for (pid, name) in [(1, "nginx"), (2, "nginx"), (3, "nginx"), (9, "php")] {
            let fork = crate::facts::Fork { parent: thread(pid, name), child: thread(pid, name), flags: 0 };
            facts.push(crate::facts::Fact { at_ns: 0, body: crate::facts::Body::Fork(fork) });
        }
        let observed = Observed::new(facts);
        let mut root = Growing::default();
        for (path, seconds) in paths {
            root.add(&observed.model, path, *seconds);
        }
        root.node("", false, 0.0, &mut 0)
    }

    #[test]
    fn equal_victims_fold_and_who_waits_behind_them_hangs_below() {
        let lock = || Object::File(None);
        let hop = |object: Object, pid| (object, pid);
        let root = grown(&[
            (&[hop(lock(), 1)], 4.0),
            (&[hop(lock(), 2)], 3.0),
            (&[hop(lock(), 9)], 5.0),
            (&[hop(lock(), 9), hop(Object::Pipe(7), 3)], 2.0),
        ]);
        assert_eq!((root.seconds, root.below.len()), (14.0, 1));
        let object = &root.below[0];
        assert_eq!((object.seconds, object.is_who), (14.0, false));
        let [php, nginx] = &object.below[..] else { panic!("{object:?}") };
        assert_eq!((nginx.name.as_str(), nginx.count, nginx.seconds), ("nginx", 2, 7.0));
        assert_eq!((php.name.as_str(), php.count, php.seconds), ("php 9", 1, 7.0));
        assert_eq!(php.below[0].name, "pipe [7]");
        assert_eq!((php.below[0].below[0].name.as_str(), php.below[0].seconds), ("nginx 3", 2.0));
    }

    #[test]
    fn no_child_is_wider_than_its_parent() {
        fn check(node: &Node) {
            let below: f64 = node.below.iter().map(|child| child.seconds).sum();
            assert!(below <= node.seconds * 1.001, "{node:?}");
            node.below.iter().for_each(check);
        }
        check(&grown(&[(&[(Object::Pipe(1), 1), (Object::Pipe(2), 2)], 1.0), (&[], 3.0)]));
    }
}
