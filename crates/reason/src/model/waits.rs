//! Waits and stretches of running as they were observed, until the timelines take them.
//!
//! Must not: say what a wait is for (the waits room), or be asked after that.

use super::push::{Push, Series};
use crate::facts::*;
use std::collections::BTreeMap;

/// Waits and stretches of running as they were observed.
#[derive(Debug, Default)]
pub struct RawWaits {
    /// Waits that ended.
    pub(crate) waits: Vec<Wait>,
    /// Waits found standing.
    pub(crate) blocked: Series<Blocked>,
    /// From, to, by thread id and start: the most frequent fact of a command, of which nothing else is asked.
    pub(crate) ran: BTreeMap<(u32, Ns), Vec<(Ns, Ns)>>,
}

impl RawWaits {
    /// When the last of them ended.
    pub(super) fn last_end_ns(&self) -> Option<Ns> {
        self.waits.iter().map(|wait| wait.end_ns).max()
    }
}

impl Push<Wait> for RawWaits {
    fn push(&mut self, _: Ns, wait: Wait) {
        self.waits.push(wait);
    }
}

impl Push<Blocked> for RawWaits {
    fn push(&mut self, at: Ns, blocked: Blocked) {
        self.blocked.push((at, blocked));
    }
}

impl Push<Ran> for RawWaits {
    fn push(&mut self, _: Ns, ran: Ran) {
        let who = (ran.thread.tid, ran.thread.start_ns);
        self.ran.entry(who).or_default().push((ran.begin_ns, ran.end_ns));
    }
}
