//! Who began whom, and how each ended: for whom a program asks that is begun for one question.
//!
//! Of processes, by their numbers; a parent that has ended is still one. Must not: say what anybody asked for (retries.rs,
//! failing.rs).

use crate::facts::Ns;
use crate::model::Model;
use std::collections::HashMap;

/// Processes above one that was refused for whom it may have asked: a shell behind `timeout` and `sudo`.
const GENERATIONS: usize = 3;

/// Who began whom, and how each ended.
pub(super) struct Families {
    by_child: HashMap<u32, u32>,
    /// By process: when, and with what code.
    ends: HashMap<u32, Vec<(Ns, Option<u32>)>>,
    pub(super) own_pid: u32,
}

impl Families {
    pub(super) fn of(model: &Model) -> Self {
        let mut by_child = HashMap::new();
        for thread in model.threads.by_id.values() {
            by_child.insert(thread.thread.pid, thread.parent_pid);
        }
        for time in model.threads.times.iter().filter(|time| time.parent_pid != 0) {
            by_child.insert(time.thread.pid, time.parent_pid);
        }
        // Last: the parent of one whose parent has ended is another.
        for (_, fork) in model.threads.forks.iter().filter(|(_, it)| it.child.pid != it.parent.pid)
        {
            by_child.insert(fork.child.pid, fork.parent.pid);
        }
        let mut ends: HashMap<u32, Vec<(Ns, Option<u32>)>> = HashMap::new();
        for (at_ns, exit) in
            model.threads.exits.iter().filter(|(_, it)| it.thread.tid == it.thread.pid)
        {
            ends.entry(exit.thread.pid).or_default().push((*at_ns, exit.code));
        }
        Self { by_child, ends, own_pid: model.look.host.own_pid }
    }

    /// With what code a process ended that lived at a moment, if that is known.
    pub(super) fn code(&self, pid: u32, at_ns: Ns) -> Option<u32> {
        let after = self.ends.get(&pid)?.iter().filter(|(ended_ns, _)| *ended_ns >= at_ns);
        after.min_by_key(|(ended_ns, _)| *ended_ns)?.1
    }

    /// Whether a process ends so soon after a moment.
    pub(super) fn ends_within(&self, pid: u32, at_ns: Ns, most_ns: Ns) -> bool {
        let until_ns = at_ns.saturating_add(most_ns);
        self.ends.get(&pid).is_some_and(|ends| {
            ends.iter().any(|(ended_ns, _)| (at_ns..=until_ns).contains(ended_ns))
        })
    }

    /// A process, its parent, and so on.
    pub(super) fn line(&self, pid: u32) -> Vec<u32> {
        let mut line = vec![pid];
        while let Some(parent) = line.last().and_then(|pid| self.by_child.get(pid)) {
            let is_end = *parent <= 1 || *parent == self.own_pid;
            if is_end || line.len() > GENERATIONS || line.contains(parent) {
                break;
            }
            line.push(*parent);
        }
        line
    }
}
