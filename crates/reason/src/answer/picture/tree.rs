//! The blockers' tree: what each end costs, through which objects, and whom.
//!
//! The roots are the ends of the answer; below a root is what is waited for, below that who waits for it, and below him, where he
//! keeps others waiting meanwhile, what these wait for. The width of a node is all wait-seconds at it and behind it, so that
//! children are never wider than their parent and what is left under a parent is its own. Equal siblings are one ("nginx x 37"), and
//! so are those that are too small to see ("640 more"). Waits behind others count here and not in the answer's seconds: the root of a convoy is wider than the lock's own time.
//!
//! Must not: draw a circle of waiters (the page draws that as a ring, from the finding's chain).

use super::bounds::{CHILDREN, NODES, clipped, rounded};
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
pub(super) fn trees(
    measures: &Measures<'_>,
    gathered: &Gathered,
    origins: &[Vec<Origin>],
) -> (Vec<Node>, usize) {
    let growing: Vec<Growing> = origins
        .iter()
        .map(|of_end| {
            let mut root = Growing::default();
            for loss in losses(measures, gathered, of_end) {
                for (path, seconds) in loss.paths() {
                    root.add(measures.model, path, *seconds);
                }
            }
            root
        })
        .collect();
    let whole: f64 = growing.iter().map(|root| root.seconds).sum();
    let mut least = whole / 2_000.0;
    // In a tree of many small nodes wider ones are too small, until it fits.
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
        let name = model.threads.process_name(*pid);
        let who = what.below.entry((true, name)).or_default();
        who.processes.insert(*pid);
        who.add(model, rest, seconds);
    }

    /// Children that stand alone, widest first; and the rest.
    fn parted(&self, least: f64) -> (Vec<(&Key, &Self)>, Vec<&Self>) {
        let mut all: Vec<(&Key, &Self)> = self.below.iter().collect();
        all.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds).then(a.0.cmp(b.0)));
        let wide = all.iter().take(CHILDREN).take_while(|(_, node)| node.seconds >= least).count();
        let rest = all.split_off(wide).into_iter().map(|(_, node)| node).collect();
        (all, rest)
    }

    fn count_above(&self, least: f64) -> usize {
        let (wide, rest) = self.parted(least);
        let more = usize::from(!rest.is_empty());
        1 + more + wide.iter().map(|(_, node)| node.count_above(least)).sum::<usize>()
    }

    fn node(&self, name: &str, is_who: bool, least: f64, left_out: &mut usize) -> Node {
        let (wide, rest) = self.parted(least);
        let mut below: Vec<Node> = (wide.into_iter())
            .map(|((is_who, name), node)| node.node(name, *is_who, least, left_out))
            .collect();
        if !rest.is_empty() {
            *left_out += rest.len();
            let seconds: f64 = rest.iter().map(|node| node.seconds).sum();
            let name = format!("{} more", rest.len());
            let is_who = !is_who && !self.objects.is_empty();
            let seconds = rounded(seconds);
            below.push(Node { name, count: 1, seconds, is_who, below: Vec::new() });
        }
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
        Object::Futex { pid, .. } => format!("locks of {}", model.threads.process_name(*pid)),
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
            let fork = crate::facts::Fork {
                parent: thread(pid, name),
                child: thread(pid, name),
                flags: 0,
            };
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
        let [nginx, php] = &object.below[..] else { panic!("{object:?}") };
        assert_eq!((nginx.name.as_str(), nginx.count, nginx.seconds), ("nginx", 2, 7.0));
        assert_eq!((php.name.as_str(), php.count, php.seconds), ("php 9", 1, 7.0));
        assert_eq!(php.below[0].name, "pipe [7]");
        assert_eq!((php.below[0].below[0].name.as_str(), php.below[0].seconds), ("nginx 3", 2.0));
    }

    #[test]
    fn what_is_too_small_is_one_and_no_second_is_lost() {
        let hops: Vec<[Hop; 1]> =
            (1..=100).map(|inode| [(Object::Other("x".into(), inode), 1)]).collect();
        let paths: Vec<(&[Hop], f64)> = hops.iter().map(|hop| (&hop[..], 1.0)).collect();
        let root = grown(&paths);
        assert_eq!(root.below.len(), CHILDREN + 1);
        assert_eq!(root.below[CHILDREN].name, format!("{} more", 100 - CHILDREN));
        assert_eq!(root.below.iter().map(|node| node.seconds).sum::<f64>(), root.seconds);
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
