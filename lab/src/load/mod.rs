//! Loads: every program that the lab starts to do something on the host.
//!
//! One notion. A load is the victim whose figure is measured, the culprit that holds it up, the far end of a wire, or a harmless
//! neighbour: which of them it is, is the scenario's affair (`faults/`, `distractor.rs`, `dying/`), and a load must know
//! nothing of it: the same words are run with and without a fault. Those in Rust are kinds of one program, so that it is
//! built once; it is run under names that the seed draws. Those in C, Python, shell, Go and Java are files of `lab/load`, for
//! names, call stacks, lock implementations and runtimes must differ from scenario to scenario. Rejected: a shared library of
//! helpers for all languages, for it would give all of them one call stack.
//!
//! | here | what it is |
//! | --- | --- |
//! | `main.rs` | the program `holdup-lab-load` |
//! | `kinds/` | what it can be, by what each needs: CPU, files, sockets, locks |
//! | `processes.rs` | a load as several processes, at a time or one after the other |
//! | `started.rs` | a load as a process of a trial, in whatever language |
//! | `figure.rs` | how much it got done |
//! | `switch.rs` | how the lab makes a load go wrong without starting it anew, and what it writes down of delays |
//!
//! A new kind is a function or an argument type in a file of `kinds/`, and a line in that file's `LOADS`.

pub mod figure;
pub mod kinds;
pub mod processes;
pub mod started;
pub mod switch;

pub use figure::Figure;
pub use kinds::{dns, slow};
pub use started::{Running, command, start, start_with};
pub use switch::{Delays, Switch, now};

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How a kind reads its words and runs, until its work is done or the process is ended.
#[derive(Clone, Copy)]
pub enum Load {
    /// `--key value` pairs, all of which may be left out.
    Pairs(fn(&Options) -> Result<()>),
    /// Whatever clap can read: switches, lists, a command to become.
    Words(fn(&[String]) -> Result<()>),
}

/// The kind of that name.
pub fn find(kind: &str) -> Option<Load> {
    kinds::all().find(|(name, _)| *name == kind).map(|(_, load)| *load)
}

/// All names.
pub fn names() -> Vec<&'static str> {
    kinds::all().map(|(name, _)| *name).collect()
}

/// Runs `KIND ARGUMENT...`.
pub fn run(words: &[String]) -> Result<()> {
    let (kind, rest) = words.split_first().context("which kind?")?;
    match find(kind).with_context(|| format!("no kind of load is named {kind}"))? {
        Load::Pairs(load) => load(&Options::read(rest)?),
        Load::Words(load) => load(rest),
    }
}

/// Words read by clap, into the argument type of a kind.
fn read<T: clap::Args>(words: &[String]) -> Result<T> {
    let command = T::augment_args(clap::Command::new("holdup-lab-load").no_binary_name(true));
    Ok(T::from_arg_matches(&command.try_get_matches_from(words)?)?)
}

/// `--key value` pairs.
pub struct Options(BTreeMap<String, String>);

impl Options {
    fn read(words: &[String]) -> Result<Self> {
        let mut pairs = BTreeMap::new();
        for pair in words.chunks(2) {
            match pair {
                [key, value] if key.starts_with("--") => {
                    pairs.insert(key.trim_start_matches("--").into(), value.clone());
                }
                _ => bail!("{} is not --key value", pair.join(" ")),
            }
        }
        Ok(Self(pairs))
    }

    /// A word that must be given.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.0.get(key).map(String::as_str).with_context(|| format!("--{key} is missing"))
    }

    /// A number, or another if it is not given.
    pub fn number(&self, key: &str, otherwise: f64) -> Result<f64> {
        match self.0.get(key) {
            Some(text) => text.parse().with_context(|| format!("--{key} {text} is not a number")),
            None => Ok(otherwise),
        }
    }

    /// A whole number, or another if it is not given.
    pub fn whole(&self, key: &str, otherwise: u64) -> Result<u64> {
        Ok(self.number(key, otherwise as f64)?.max(0.0) as u64)
    }
}

/// Spends CPU time in user mode.
pub fn burn(time: Duration) {
    let begin = Instant::now();
    let mut value = 1_u64;
    while begin.elapsed() < time {
        for _ in 0..500 {
            value =
                std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_and_is_found_by_it() {
        let names = names();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(names.iter().all(|name| find(name).is_some()) && find("hog").is_some());
    }

    #[test]
    fn words_that_a_kind_does_not_know_are_refused() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        assert!(run(&words("compute --threads")).is_err());
        assert!(run(&words("hog --no-such 1")).is_err());
        assert!(run(&words("nothing")).is_err());
    }
}
