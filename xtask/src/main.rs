//! The chores of the house: `cargo run -p xtask -- tidy|docs|meters`.
//!
//! `tidy` holds the tree to the house rules, each a small rule with its own tests; `docs` runs the
//! console blocks of README.md and docs/ as they stand; `meters` prints what is largest. Both print file, line, why and what to do.
//! This crate must not build or install anything: that is the Makefile's and `xtask/setup`'s, which
//! have to work before there is a cargo. Never shipped with holdup.
//!
//! Rejected: lints of a compiler plug-in (nightly only); a linter of another language (one more
//! thing to install). What clippy can say, clippy says (clippy.toml); the rest is here.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for developers that prints")]

mod console;
mod docs;
mod tidy;
mod tree;

use anyhow::Context;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let chore = std::env::args().nth(1).unwrap_or_default();
    let done = match chore.as_str() {
        "tidy" => run_tidy(),
        "docs" => docs::run(root()),
        "meters" => run_meters(),
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy|docs|meters");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {chore}: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// The workspace's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The largest types, the most imported files, the folders.
fn run_meters() -> anyhow::Result<bool> {
    let tree = tree::Tree::read(root()).context("reading the tree")?;
    print!("{}", tidy::meters::report(&tree));
    Ok(true)
}

fn run_tidy() -> anyhow::Result<bool> {
    let tree = tree::Tree::read(root()).context("reading the tree")?;
    let breaches = tidy::check(&tree);
    for breach in &breaches {
        println!("{breach}");
    }
    let files = tree.files.len();
    let rules = tidy::RULES.len();
    println!("tidy: {files} files, {rules} rules, {} to fix", breaches.len());
    Ok(breaches.is_empty())
}
