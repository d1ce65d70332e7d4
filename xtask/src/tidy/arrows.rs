//! House rules on who may know whom: kernel -> facts -> answer -> people, and the core without a world.
//!
//! Cargo already refuses what a manifest does not name; these rules keep the manifests, and the
//! paths inside the code, from being bent "just this once". Clippy bans some functions in the core by
//! type (crates/reason/clippy.toml); the list here is by module, so that a new function is covered. Arrows inside the core: rooms.rs.

use super::Breach;
use crate::tree::{File, Tree};

/// Parts of the standard library through which the world comes in; addresses are values and may pass.
const WORLD: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net::Tcp",
    "std::net::Udp",
    "std::net::ToSocketAddrs",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "println!",
    "eprintln!",
];

/// What a crate may depend on among the crates of the house.
const MAY_DEPEND: &[(&str, &[&str])] = &[
    ("crates/reason", &[]),
    ("crates/system", &["holdup-reason"]),
    ("crates/stacks", &["holdup-reason", "holdup-system"]),
    ("crates/probe", &["holdup-reason", "holdup-system", "holdup-stacks"]),
    ("crates/engine", &["holdup-reason", "holdup-probe"]),
    ("crates/report", &["holdup-reason", "holdup-probe", "holdup-engine"]),
];

const HOUSE: &[&str] = &[
    "holdup-reason",
    "holdup-system",
    "holdup-stacks",
    "holdup-probe",
    "holdup-engine",
    "holdup-lab",
    "holdup",
    "xtask",
];
/// Where facts are made: nothing there knows what they mean.
const MAKERS: &[&str] = &["crates/system/src/", "crates/stacks/src/", "crates/probe/src/"];

/// Code lines of a file, from 1, up to its test module, without comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or(line)))
}

fn sources<'tree>(tree: &'tree Tree, below: &'tree str) -> impl Iterator<Item = &'tree File> {
    let inside = move |file: &&File| file.path.starts_with(below) && file.has_extension(&[".rs"]);
    tree.files.iter().filter(inside).filter(|file| !file.path.ends_with("tests.rs"))
}

/// crates/reason does no I/O and has no clock and no environment.
pub(super) fn reason_is_pure(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in sources(tree, "crates/reason/src/") {
        for (line, code) in code_lines(&file.text()) {
            if let Some(world) = WORLD.iter().find(|world| code.contains(*world)) {
                let why =
                    format!("{world} in the core: a rule that touches the world cannot replay");
                let fix = "make it a fact that crates/probe delivers, or do it in crates/report";
                breaches.push(Breach::at(file, line, why, fix));
            }
        }
    }
    breaches
}

/// Manifests name no neighbour against the flow.
pub(super) fn manifests_keep_the_arrows(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (folder, may) in MAY_DEPEND {
        let Some(file) = tree.file(&format!("{folder}/Cargo.toml")) else { continue };
        let text = file.text();
        let mut section = "";
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('[') {
                section = line.trim();
            }
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            let dependency = section.ends_with("dependencies]") && HOUSE.contains(&name);
            if dependency && !may.contains(&name) {
                let why = format!(
                    "{folder} depends on {name}, against the flow probe -> reason -> report"
                );
                let fix =
                    "move what is needed to the crate that both may see, as facts or as the answer";
                breaches.push(Breach::at(file, index + 1, why, fix));
            }
        }
    }
    breaches
}

/// Whoever makes facts knows them, and none of the reasoning.
pub(super) fn makers_see_facts_only(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in MAKERS.iter().flat_map(|below| sources(tree, below)) {
        for (line, code) in code_lines(&file.text()) {
            for after in code.split("holdup_reason::").skip(1) {
                if !after.starts_with("facts") {
                    let why = "what makes facts looks past them into the reasoning";
                    let fix = "deliver a fact, and let a rule judge it";
                    breaches.push(Breach::at(file, line, why, fix));
                }
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_has_no_world_but_its_tests_may() {
        let text = "use std::fmt;\nuse std::fs::File; // x\n// std::env\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        let tree =
            Tree::imagined(&[("crates/reason/src/a.rs", text), ("crates/probe/src/a.rs", text)]);
        let breaches = reason_is_pure(&tree);
        assert_eq!(breaches.len(), 1);
        assert_eq!(breaches[0].line, 2);
    }

    #[test]
    fn manifests_against_the_flow_are_found() {
        let good = ("crates/report/Cargo.toml", "[dependencies]\nholdup-probe.workspace = true\n");
        let bad = (
            "crates/reason/Cargo.toml",
            "[package]\nname = \"holdup-reason\"\n[dev-dependencies]\nholdup-probe = { path = \"x\" }\n",
        );
        let breaches = manifests_keep_the_arrows(&Tree::imagined(&[good, bad]));
        assert_eq!(breaches.len(), 1);
        assert_eq!(breaches[0].line, 4);
    }

    #[test]
    fn the_probe_sees_facts_only() {
        let text = "use holdup_reason::facts::Fact;\nuse holdup_reason::answer::report::Finding;\n";
        let breaches = makers_see_facts_only(&Tree::imagined(&[("crates/probe/src/a.rs", text)]));
        assert_eq!(breaches.iter().map(|breach| breach.line).collect::<Vec<_>>(), [2]);
    }
}
