//! Typed parts of a finding as the contract has them: names of processes, links of chains.
//!
//! The last step of identity: what is made here is text and is never read back. Must not: decide anything.

use super::report::{Link, ObjectName, Who};
use crate::facts::ThreadRef;
use crate::model::Model;
use crate::rules::Step;

/// The name of a thread's process.
pub fn process_name(model: &Model, thread: &ThreadRef) -> String {
    let name = model.process_name(thread.pid);
    if name.is_empty() { thread.comm.clone() } else { name }
}

/// A link of the chain that is shown.
pub fn link(model: &Model, step: &Step) -> Link {
    let waits_on = match &step.doing {
        Some((kind, words)) => ObjectName::new(kind, words.clone()),
        None => model.name_of(&step.on),
    };
    Link { who: Who::thread(&step.who), waits_on, seconds: step.seconds }
}
