//! `holdup-lab-load KIND ARGUMENT...`: one load of the lab. See `mod.rs` beside it.
//!
//! A program of its own, so that what is looked at is another process than the lab, with a name and threads
//! that the lab does not share.

use holdup_lab::{load, warn};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match load::run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
