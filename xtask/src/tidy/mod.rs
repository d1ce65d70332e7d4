//! The house rules: a table of functions from a tree to breaches.
//!
//! A rule reads nothing but the [`Tree`], so each has tests on imagined trees (one that breaks it,
//! one that does not), and `the_house_is_tidy` holds the real one to all of them in `cargo test`.
//! A message says file, line, why, and what to do. Exceptions are words in the file itself, where
//! the next reader sees them; what no file can say of itself stands in exceptions.rs, with its reason.
//!
//! A new rule: a function in the module of its kind, a line in [`RULES`], a test.

mod arrows;
mod exceptions;
mod facts;
pub(crate) mod meters;
mod methods;
mod modules;
mod names;
mod programs;
mod rooms;
mod rule_parts;
mod rules;
mod rust;
mod shape;
mod text;
mod trusted_loads;

use crate::tree::{File, Tree};
use std::fmt;

/// A place that does not follow a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Breach {
    /// Where, below the root.
    pub path: String,
    /// The line, from 1; 0 stands for the whole file.
    pub line: usize,
    /// What is wrong and why it matters.
    pub why: String,
    /// What to do.
    pub fix: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}\n    -> {}", self.path, self.why, self.fix),
            line => write!(out, "{}:{line}: {}\n    -> {}", self.path, self.why, self.fix),
        }
    }
}

impl Breach {
    fn at(file: &File, line: usize, why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, why: why.into(), fix: fix.into() }
    }
}

/// A house rule.
type Rule = fn(&Tree) -> Vec<Breach>;

/// All of them.
pub(crate) const RULES: &[Rule] = &[
    shape::opens_with_its_theory,
    shape::file_length,
    shape::c_function_length,
    shape::python_function_length,
    rust::function_length,
    meters::types_are_small,
    meters::files_are_imported_by_few,
    rust::nothing_unfinished,
    rust::unsafe_is_fenced,
    trusted_loads::no_load_behind_the_end,
    arrows::reason_is_pure,
    arrows::manifests_keep_the_arrows,
    arrows::makers_see_facts_only,
    facts::facts_are_matched_by_name,
    programs::programs_have_a_home,
    rooms::rooms_keep_their_order,
    rooms::files_make_no_circles,
    rules::every_rule_has_its_file_scenario_and_docs,
    rule_parts::no_bare_numbers_where_it_is_decided,
    rule_parts::thresholds_have_their_reasons,
    rule_parts::refutations_have_their_tests,
    rule_parts::ways_have_their_tests,
    text::no_machine_paths,
    text::no_registry_hosts,
    text::no_binaries,
    text::words_of_the_field,
    names::names_are_the_fields,
    text::changelog_begins_with_what_is_unreleased,
    text::links_and_paths_exist,
];

/// Everything that does not follow the rules, sorted by place.
pub(crate) fn check(tree: &Tree) -> Vec<Breach> {
    let mut breaches: Vec<Breach> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    breaches.sort();
    breaches.dedup();
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let tree = Tree::read(crate::root()).unwrap();
        assert!(tree.files.len() > 20, "only {} files found", tree.files.len());
        let breaches: Vec<String> = check(&tree).iter().map(Breach::to_string).collect();
        assert!(breaches.is_empty(), "\n{}\n{} to fix", breaches.join("\n"), breaches.len());
    }

    #[test]
    fn a_message_says_where_why_and_what_to_do() {
        let tree = Tree::imagined(&[("a.rs", "")]);
        let breach = Breach::at(&tree.files[0], 3, "wrong", "fix it");
        assert_eq!(breach.to_string(), "a.rs:3: wrong\n    -> fix it");
    }
}
