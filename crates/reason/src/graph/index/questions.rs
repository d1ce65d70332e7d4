//! Questions to name servers, by who asks.
//!
//! Must not: say who answers (connections.rs).

use crate::facts::Ns;
use crate::model::Model;
use std::collections::HashMap;

/// Questions by process, in order of time: index into the model's.
pub struct Questions<'a> {
    model: &'a Model,
    by_process: HashMap<u32, Vec<usize>>,
}

impl<'a> Questions<'a> {
    /// Indexes a model.
    pub(super) fn new(model: &'a Model) -> Self {
        let mut by_process: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, (_, query)) in model.net.dns_queries.iter().enumerate() {
            by_process.entry(query.thread.pid).or_default().push(index);
        }
        Self { model, by_process }
    }

    /// A question to a name server that a process had sent and that was not answered before an interval began; of several
    /// the last that was sent before its end. Index into the model's questions.
    pub(in crate::graph) fn open(&self, pid: u32, from: Ns, to: Ns) -> Option<usize> {
        let asked = self.by_process.get(&pid)?;
        let is_open = |index: &&usize| {
            let (at, query) = &self.model.net.dns_queries[**index];
            let answered = self.model.net.dns_replies.iter().any(|(replied, reply)| {
                reply.id == query.id
                    && reply.server == query.server
                    && replied >= at
                    && *replied <= from
            });
            *at < to && !answered
        };
        asked.iter().rev().find(is_open).copied()
    }
}
