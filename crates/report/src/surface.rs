//! What is neither a look nor an answer from a recording: `watch`, `top`, `doctor` and the like.
//!
//! Each is a type in a file of its own, with its flags, its help and what it does. A new one takes that file, a line in `Command`
//! (flags/mod.rs) and its `mod` (main.rs). Must not: know any of them. Rejected: a task of job.rs for each, with an arm in main.rs (the
//! same list in four places).

use crate::delivery::Delivery;
use crate::failure::Failure;
use crate::flags::groups::AnswerFlags;
use std::fmt::Debug;
use std::path::PathBuf;

/// A command of its own.
pub(crate) trait Surface: Debug {
    /// The flags of the answer that stand behind its name; nobody asks twice.
    fn answer(&mut self) -> AnswerFlags {
        AnswerFlags::default()
    }

    /// Does it, and gives the exit status.
    ///
    /// # Errors
    /// What could not be done, for whoever asked.
    fn run(self: Box<Self>, typed: Typed) -> Result<u8, Failure>;
}

/// What was typed beside its own flags.
#[derive(Debug)]
pub(crate) struct Typed {
    /// How to give the answer.
    pub answer: Delivery,
    /// `--from` before its name, of one that takes it.
    pub from: Option<PathBuf>,
}
