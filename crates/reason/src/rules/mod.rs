//! MEASURES -> NAMES: the rules, each a file, in the ladders of their areas.
//!
//! This file lists the rules; what one is, is in rule.rs. A rule holds its theory, what must also be true (the second fact), what would refute it, its text and its tests. The order of an area's
//! ladder is the precedence between its rules, and [`LADDERS`] is the order of the areas: a rule knows no other.
//! The engine (engine.rs) walks them, lets one rule claim an end, and computes impact, severity and confidence for all alike.
//! `holdup explain` and docs/codes.md are made from what is here.
//!
//! To add one: docs/writing-a-rule.md. Must not print, keep state or read what is not a measure or an end.

pub mod action;
pub mod ask;
pub mod continued;
pub mod engine;
pub(crate) mod group_limits;
pub(crate) mod holder_doing;
pub mod lasting;
mod own_pace;
pub(crate) mod own_time;
pub mod proof;
pub(crate) mod refusal_words;
pub mod remedy;
pub mod rule;
pub(crate) mod trend;
pub(crate) mod wait_words;
pub mod wording;

pub(crate) mod cpu;
pub(crate) mod disk;
pub(crate) mod fs;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod net;
pub(crate) mod process;
#[cfg(test)]
pub(crate) mod scenes;

pub use rule::*;

/// The ladders, in the order in which areas are asked.
pub static LADDERS: &[&[&Rule]] = &[
    memory::LADDER,
    fs::LADDER,
    cpu::LADDER,
    disk::LADDER,
    net::LADDER,
    lock::LADDER,
    process::LADDER,
];

/// Every rule, in the order of the ladders.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    LADDERS.iter().flat_map(|ladder| ladder.iter().copied())
}

/// The rule of a code.
pub fn by_code(code: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_lower_case_and_the_table_is_sorted() {
        let codes: Vec<&str> = all().map(|rule| rule.code).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(codes.len(), sorted.len());
        for code in codes {
            let (area, end) = code.split_once('.').expect("area.cause");
            let word =
                |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(word(area) && word(end), "{code}");
        }
    }

    #[test]
    fn every_case_says_what_it_needs_and_what_refutes_it() {
        for rule in all() {
            assert!(!rule.needs.is_empty() && !rule.refuted_by.is_empty(), "{}", rule.code);
            assert!(!rule.remedies.is_empty() && rule.theory.len() > 80, "{}", rule.code);
        }
    }
}
