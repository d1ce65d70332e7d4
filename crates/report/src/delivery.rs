//! How an answer is to be given: to which file, in which form, with what exit status.
//!
//! Below jobs, commands and output, which all take it. Must not: know a flag, or open what it names.

use crate::export::Wanted;
use std::path::PathBuf;

/// How to give the answer.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    /// To which file; none is standard output (for commands: standard error).
    pub output: Option<PathBuf>,
    /// To which file the page of it; none if none is wanted.
    pub page: Option<PathBuf>,
    /// For which other tool as well.
    pub export: Option<Wanted>,
    /// As JSON.
    pub json: bool,
    /// Let the exit status say whether something was found.
    pub check: bool,
    /// With evidence.
    pub verbose: bool,
    /// Never in colour.
    pub no_color: bool,
}
