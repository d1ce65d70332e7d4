//! MEASURES -> NAMES: the rules, each a file, in the ladders of their areas.
//!
//! A rule holds its theory, what must also be true (the second fact), what would refute it, its text and its tests. The order
//! of an area's ladder is the precedence between its rules, and [`LADDERS`] is the order of the areas: a rule knows no other.
//! The engine (engine.rs) walks them, lets one rule claim an end, and computes impact, severity and confidence for all alike.
//! `holdup explain` and docs/codes.md are made from what is here.
//!
//! To add one: docs/writing-a-rule.md. Must not print, keep state or read what is not a measure or an end.

pub mod engine;
pub mod proof;
pub mod threshold;
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

use crate::facts::ThreadRef;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use engine::Loss;
use proof::Proof;
use std::collections::{BTreeMap, BTreeSet};
use threshold::Threshold;
use wording::{Culprit, Severity, Wording};

/// One rule and everything a person should know of it.
pub struct Rule {
    /// `area.cause`, stable for ever.
    pub code: &'static str,
    /// What it says, one line without names.
    pub title: &'static str,
    /// What happens in the kernel, and why that makes things slow.
    pub theory: &'static str,
    /// What must be seen before it is said.
    pub needs: &'static [&'static str],
    /// What would refute it, each with the test that shows it.
    pub refuted_by: &'static [Refutation],
    /// The ways out.
    pub remedies: &'static [&'static str],
    /// Stories of the field that it answers.
    pub stories: &'static [&'static str],
    /// The numbers that decide.
    pub thresholds: &'static [&'static Threshold],
    /// The rule itself.
    pub finds: Finds,
}

/// Something that would refute a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refutation {
    /// A clause: what is seen where the rule must stay silent.
    pub by: &'static str,
    /// The test, in the rule's own file, that has it and finds nothing of this rule.
    pub test: &'static str,
}

impl Refutation {
    /// A clause with its test.
    pub const fn new(by: &'static str, test: &'static str) -> Self {
        Self { by, test }
    }
}

/// How a rule is asked.
pub enum Finds {
    /// Once for each end that nobody has claimed yet, greatest first.
    End(for<'m> fn(&'m Measures<'m>, &'m End) -> Option<Match<'m>>),
    /// Once a look, with all ends that nobody has claimed yet: for what no single end shows (a group's memory, a hog that
    /// many wait beside, the names that one server was asked). A match says itself which ends it claims.
    Look(for<'m> fn(&'m Measures<'m>, &'m [End]) -> Vec<Match<'m>>),
}

/// Seconds that processes lose, by process id.
pub type Losses = BTreeMap<u32, (ThreadRef, f64)>;

/// A rule's claim on an end: who is to blame, by what proof, and how to say it.
pub struct Match<'a> {
    /// Who holds it up.
    pub culprit: Culprit,
    /// How that is known.
    pub proof: Proof,
    /// The object, where it is another than the end's.
    pub object: Option<Object>,
    /// Of [`Finds::End`]: whose part of the end it claims; none: everybody's.
    pub victims: Option<BTreeSet<u32>>,
    /// Of [`Finds::Look`]: the ends that it claims.
    pub claims: Vec<Claim>,
    /// What is lost to it, where a measure knows better than the ends' waits (CPU time, sums of short waits).
    pub losses: Option<Losses>,
    /// Of a command: seconds of its path, where `losses` are given.
    pub path_seconds: Option<f64>,
    /// Time of those who lose that was not idle, seconds, where a measure knows of more than the waits that were seen.
    pub demand_seconds: Option<f64>,
    /// Not more than this, however much is lost: use is no fault, a stop may be on purpose.
    pub severity_max: Severity,
    /// Not less than this: somebody was killed for it.
    pub severity_min: Severity,
    /// The chain, where it is another than the ends' longest.
    pub chain: Option<Vec<Step>>,
    /// The finding in words, with what is lost.
    pub explain: Box<dyn Fn(&Loss<'_>) -> Wording + 'a>,
}

/// A part of an end.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Index into the ends that the rule was given.
    pub end: usize,
    /// Whose part of it; none: everybody's.
    pub victims: Option<BTreeSet<u32>>,
}

/// A link of a chain that a rule builds.
#[derive(Debug, Clone)]
pub struct Step {
    /// Who.
    pub who: ThreadRef,
    /// Waits on what.
    pub on: Object,
    /// In words, where an object has none (what it does instead).
    pub doing: Option<(&'static str, String)>,
    /// How long, seconds.
    pub seconds: f64,
}

impl<'a> Match<'a> {
    /// A claim on the end that was asked about.
    pub fn new(
        culprit: Culprit,
        proof: Proof,
        explain: impl Fn(&Loss<'_>) -> Wording + 'a,
    ) -> Self {
        Self {
            culprit,
            proof,
            object: None,
            victims: None,
            claims: Vec::new(),
            losses: None,
            path_seconds: None,
            demand_seconds: None,
            severity_max: Severity::Critical,
            severity_min: Severity::Note,
            chain: None,
            explain: Box::new(explain),
        }
    }

    /// The object is another than the end's.
    pub fn on(mut self, object: Object) -> Self {
        self.object = Some(object);
        self
    }

    /// Claims an end, or some victims' part of it.
    pub fn claiming(mut self, end: usize, victims: Option<BTreeSet<u32>>) -> Self {
        self.claims.push(Claim { end, victims });
        self
    }
}

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

/// A process with its container, as a culprit.
pub fn culprit(model: &Model, thread: &ThreadRef) -> Culprit {
    let mut culprit = Culprit::process(thread);
    culprit.container = model.container_of(thread).map(|c| c.name.clone());
    culprit
}

/// A file as a process sees it: in another network namespace or a container it may have an /etc of its own.
pub fn file_of(model: &Model, thread: &ThreadRef, path: &str) -> String {
    let netns = model.identity(thread).map_or(0, |known| known.netns);
    let elsewhere = model.links.iter().any(|l| l.netns == netns && !l.netns_name.is_empty());
    if elsewhere || model.container_of(thread).is_some() {
        return format!("/proc/{}/root{path}", thread.pid);
    }
    path.to_string()
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
