//! Whose work is whose: the target's own, or that of a server that it waits for.
//!
//! Of a command, its own processes are those that began inside the look; of the rest, those that were asked about. Must not:
//! weigh anything.

use super::report::AnswerEnd;
use crate::graph::end::EndKind;
use crate::graph::ends::command_root;
use crate::measure::Measures;
use std::collections::BTreeSet;

/// The processes whose work is the target's own: of a command, itself and all that began inside the look.
pub(super) struct Own<'m> {
    /// The figures of the look.
    pub measures: &'m Measures<'m>,
    root: Option<u32>,
    begun: BTreeSet<u32>,
}

impl<'m> Own<'m> {
    /// Of a look.
    pub(super) fn of(measures: &'m Measures<'m>) -> Self {
        let begun = measures.model.threads.forks.iter().map(|(_, fork)| fork.child.pid).collect();
        let root = command_root(measures.model).map(|root| root.pid);
        Self { measures, root, begun }
    }

    /// Whether an end is work of what was asked about, and not of a server that it waits for.
    pub(super) fn works(&self, end: &AnswerEnd) -> bool {
        let Some(pid) = end.who.as_ref().and_then(|who| who.pid) else { return false };
        let own = match self.root {
            Some(root) => pid == root || self.begun.contains(&pid),
            None => self.measures.model.in_target(&self.measures.model.threads.thread_ref(pid)),
        };
        end.end == EndKind::Works && own
    }
}
