//! House rules on the crates from the kernel to the answer: the order of their rooms, and no circle between their files.
//!
//! The rooms of the core are the steps from facts to answer, those of the probe lead from the kernel's files up to a whole look. A
//! file may name what is in its own room and in earlier ones; then each room can be read, and replaced, without those behind it.
//! Circles inside a room are refused for the same reason. What counts as naming: modules.rs. Of the probe every file is in a room:
//! one beside them all would be the first of many.

use super::Breach;
use super::methods;
use super::modules::{Arrow, Module, Modules};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A crate, and its rooms in the order of the flow.
struct Flow {
    src: &'static str,
    rooms: &'static [&'static str],
    /// Every file is in one of them.
    closed: bool,
}

const REASON: Flow = Flow {
    src: "crates/reason/src/",
    rooms: &["facts", "model", "programs", "waits", "graph", "measure", "rules", "answer"],
    closed: false,
};

const PROBE: Flow = Flow {
    src: "crates/probe/src/",
    rooms: &[
        "source",
        "decode",
        "refusal",
        "host",
        "plan",
        "kernel",
        "readers",
        "recording",
        "session",
        "doctor",
    ],
    closed: true,
};

/// Whoever reads stacks, and what lies below: each is one room.
const STACKS: Flow = Flow { src: "crates/stacks/src/", rooms: &[], closed: false };
const SYSTEM: Flow = Flow { src: "crates/system/src/", rooms: &[], closed: false };

const FLOWS: [&Flow; 4] = [&REASON, &PROBE, &STACKS, &SYSTEM];

impl Flow {
    fn room(&self, name: Option<&String>) -> Option<usize> {
        self.rooms.iter().position(|room| name.is_some_and(|name| name == room))
    }
}

/// No file names a later room.
pub(super) fn rooms_keep_their_order(tree: &Tree) -> Vec<Breach> {
    FLOWS.into_iter().flat_map(|flow| arrows_to_later_rooms(flow, tree)).collect()
}

fn arrows_to_later_rooms(flow: &Flow, tree: &Tree) -> Vec<Breach> {
    let modules = Modules::read(tree, flow.src);
    let mut breaches = Vec::new();
    for module in modules.all.values() {
        let Some(own) = flow.room(module.path.first()) else {
            if flow.closed && !module.path.is_empty() {
                let why = format!("in none of the rooms {}", flow.rooms.join(" < "));
                breaches.push(Breach::at(
                    module.file,
                    0,
                    why,
                    "put it into the room that it is of",
                ));
            }
            continue;
        };
        let mut seen = BTreeSet::new();
        for named in &module.named {
            // What a `use` brought here was found where it stands.
            if !matches!(named.path[0].as_str(), "crate" | "super" | "self") {
                continue;
            }
            let Some(absolute) = modules.absolute(module, &named.path) else { continue };
            let Some(later) = flow.room(absolute.first()).filter(|to| *to > own) else { continue };
            if seen.insert((named.line, later)) {
                let why = format!(
                    "{} names crate::{}, a later room: the order is {}",
                    flow.rooms[own],
                    absolute.join("::"),
                    flow.rooms.join(" < ")
                );
                let fix = format!(
                    "move what is needed to {} or before, or the code behind it",
                    flow.rooms[own]
                );
                breaches.push(Breach::at(module.file, named.line, why, fix));
            }
        }
    }
    breaches
}

/// No file leads back to itself through others.
pub(super) fn files_make_no_circles(tree: &Tree) -> Vec<Breach> {
    FLOWS.into_iter().flat_map(|flow| circles(flow, tree)).collect()
}

fn circles(flow: &Flow, tree: &Tree) -> Vec<Breach> {
    let modules = Modules::read(tree, flow.src);
    let mut arrows: BTreeMap<Vec<String>, Vec<Arrow>> = BTreeMap::new();
    // A type whose parts call one another binds their files as imports do.
    for arrow in modules.arrows().into_iter().chain(methods::arrows(&modules)) {
        arrows.entry(arrow.from.clone()).or_default().push(arrow);
    }
    let circle = |module: &Vec<String>| shortest_circle(&arrows, module);
    let mut circles: Vec<Vec<Arrow>> = modules.all.keys().filter_map(circle).collect();
    circles.sort_by_key(Vec::len);
    // Of circles with a common arrow only the shortest: one change undoes them all.
    let mut reported: BTreeSet<(Vec<String>, Vec<String>)> = BTreeSet::new();
    let mut breaches = Vec::new();
    for circle in circles {
        let ends = |arrow: &Arrow| (arrow.from.clone(), arrow.to.clone());
        if !circle.iter().any(|arrow| reported.contains(&ends(arrow))) {
            reported.extend(circle.iter().map(ends));
            breaches.extend(breach(flow, &modules, &circle));
        }
    }
    breaches
}

fn breach(flow: &Flow, modules: &Modules<'_>, circle: &[Arrow]) -> Option<Breach> {
    let name = |module: Option<&Module<'_>>| {
        module.map_or("", |module| module.file.path.trim_start_matches(flow.src)).to_string()
    };
    let step = |arrow: &Arrow| {
        format!(
            "{}:{} -> {}",
            name(modules.all.get(&arrow.from)),
            arrow.line,
            name(modules.all.get(&arrow.to))
        )
    };
    let steps: Vec<String> = circle.iter().map(step).collect();
    let first = circle.first()?;
    let file = modules.all.get(&first.from)?.file;
    Some(Breach::at(
        file,
        first.line,
        format!("a circle of {} files: {}", circle.len(), steps.join(", ")),
        "move what both need to a file that names neither",
    ))
}

/// The shortest way from a module back to itself, breadth first.
fn shortest_circle(
    arrows: &BTreeMap<Vec<String>, Vec<Arrow>>,
    start: &Vec<String>,
) -> Option<Vec<Arrow>> {
    let mut came: BTreeMap<Vec<String>, Arrow> = BTreeMap::new();
    let mut next = VecDeque::from([start.clone()]);
    while let Some(at) = next.pop_front() {
        for arrow in arrows.get(&at).into_iter().flatten() {
            if arrow.to == *start {
                let mut circle = vec![arrow.clone()];
                let mut back = &arrow.from;
                while back != start {
                    let before = came.get(back)?;
                    circle.push(before.clone());
                    back = &before.from;
                }
                circle.reverse();
                return Some(circle);
            }
            if !came.contains_key(&arrow.to) {
                came.insert(arrow.to.clone(), arrow.clone());
                next.push_back(arrow.to.clone());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(files: &[(&str, &str)]) -> Tree {
        crate_of(&REASON, files)
    }

    fn crate_of(flow: &Flow, files: &[(&str, &str)]) -> Tree {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("{}{path}", flow.src), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, *text)).collect();
        Tree::imagined(&files)
    }

    #[test]
    fn a_later_room_is_found_however_it_is_named() {
        let text = "use crate::facts::Fact;\nuse crate::{answer::Report, model::Model};\nfn f() { super::super::rules::g() }\n// crate::answer\n#[cfg(test)]\nmod tests { use crate::answer::explain; }\n";
        let breaches = rooms_keep_their_order(&reason(&[
            ("lib.rs", "mod graph;\npub use answer::explain;\n"),
            ("graph/mod.rs", "mod ends;\n"),
            ("graph/ends.rs", text),
        ]));
        assert_eq!(breaches.iter().map(|breach| breach.line).collect::<Vec<_>>(), [2, 3]);
        assert!(breaches[0].why.contains("graph names crate::answer::Report"));
    }

    #[test]
    fn earlier_rooms_and_the_own_one_may_be_named() {
        let tree = reason(&[
            ("rules/mod.rs", "pub mod engine;\nuse crate::graph::End;\n"),
            ("rules/engine.rs", "use super::Rule;\nuse crate::rules::x;\n"),
        ]);
        assert_eq!(rooms_keep_their_order(&tree), []);
    }

    #[test]
    fn a_circle_is_found_once_with_its_lines() {
        let tree = reason(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\npub struct A;\n"),
            ("b.rs", "\nuse super::c::C;\npub struct B;\n"),
            ("c.rs", "\n\nuse crate::a::A;\npub struct C;\n"),
        ]);
        let breaches = files_make_no_circles(&tree);
        assert_eq!(breaches.len(), 1);
        assert_eq!(
            breaches[0].why,
            "a circle of 3 files: a.rs:1 -> b.rs, b.rs:2 -> c.rs, c.rs:3 -> a.rs"
        );
    }

    #[test]
    fn parts_of_one_type_that_call_one_another_are_a_circle() {
        let with = |text| {
            let part = "use super::A;\nimpl A {\n fn two(&self) { self.one() }\n}\n";
            let tree = reason(&[("a/mod.rs", text), ("a/part.rs", part)]);
            files_make_no_circles(&tree).len()
        };
        assert_eq!(
            with("mod part;\npub struct A;\nimpl A {\n fn one(&self) { self.two() }\n}\n"),
            1
        );
        assert_eq!(with("mod part;\npub struct A;\nimpl A {\n fn one(&self) {}\n}\n"), 0);
    }

    #[test]
    fn a_parent_that_re_exports_makes_no_circle_and_one_that_uses_does() {
        let child = ("rules/engine.rs", "use super::Rule;\npub struct Loss;\n");
        let with = |text| files_make_no_circles(&reason(&[("rules/mod.rs", text), child])).len();
        assert_eq!(with("pub mod engine;\npub use engine::Loss;\npub struct Rule;\n"), 0);
        assert_eq!(with("pub mod engine;\nuse engine::Loss;\npub struct Rule;\n"), 1);
    }

    #[test]
    fn the_probe_has_its_own_rooms_and_nothing_beside_them() {
        let tree = crate_of(
            &PROBE,
            &[
                ("lib.rs", "mod kernel;\nmod live;\nmod plan;\nmod readers;\nmod session;\n"),
                ("kernel/mod.rs", "use crate::plan::Target;\nuse crate::session::Session;\n"),
                ("live.rs", "use crate::session::Session;\n"),
                ("plan.rs", "pub enum Target {}\n"),
                ("readers/mod.rs", "pub mod locks;\n"),
                ("readers/locks.rs", "use crate::kernel::Programs;\nuse crate::readers::x;\n"),
                ("session/mod.rs", "use crate::readers::locks::Table;\npub struct Session;\n"),
            ],
        );
        let found: Vec<(String, usize)> =
            rooms_keep_their_order(&tree).into_iter().map(|it| (it.path, it.line)).collect();
        let at = |path: &str, line| (format!("{}{path}", PROBE.src), line);
        assert_eq!(found, [at("kernel/mod.rs", 2), at("live.rs", 0)]);
    }

    #[test]
    fn circles_are_found_in_each_crate() {
        let files = [
            ("lib.rs", "mod readers;\n"),
            ("readers/mod.rs", "mod list;\nmod locks;\n"),
            ("readers/list.rs", "use super::locks::Locks;\npub trait Reader {}\n"),
            ("readers/locks.rs", "use super::list::Reader;\npub struct Locks;\n"),
        ];
        for flow in FLOWS {
            let breaches = files_make_no_circles(&crate_of(flow, &files));
            assert_eq!(breaches.len(), 1, "{}", flow.src);
            assert!(breaches[0].why.starts_with("a circle of 2 files: readers/list.rs:1"));
        }
    }
}
