//! Who has ended and is still there: a zombie, or a thread of a process whose others live.
//!
//! The first thread of a process stays until the last has ended, whatever it did before; one that is traced stays until its tracer
//! has waited for it. Only when all have ended does the process wait for its parent. Must not: say who that is (graph/).

use super::WaitClass;
use super::span::WaitSpan;
use crate::facts::Ns;
use crate::model::Model;
use std::collections::{HashMap, HashSet};

/// So far apart may be the walks that see the threads of a process, or their ends.
const APART_NS: Ns = 100_000_000;

/// Tells the threads that have ended from the processes that have, and since when.
pub(super) fn reclassify<'w>(model: &Model, waits: impl Iterator<Item = &'w mut WaitSpan>) {
    let mut ended: Vec<&mut WaitSpan> =
        waits.filter(|wait| wait.class == WaitClass::Zombie).collect();
    if ended.is_empty() {
        return;
    }
    let gone: HashSet<_> = ended.iter().map(|wait| model.threads.key(&wait.thread)).collect();
    let mut alive_until: HashMap<u32, Ns> = HashMap::new();
    for time in &model.threads.times {
        if !gone.contains(&model.threads.key_at(&time.thread, time.until_ns)) {
            let until_ns = alive_until.entry(time.thread.pid).or_default();
            *until_ns = time.until_ns.max(*until_ns);
        }
    }
    for wait in &mut ended {
        let others_ns = alive_until.get(&wait.thread.pid).copied().unwrap_or(0);
        // All of a process end together, one a little after the other.
        let outlived = others_ns > wait.begin_ns.saturating_add(APART_NS);
        let lives = outlived && others_ns.saturating_add(APART_NS) >= wait.end_ns;
        if wait.thread.tid != wait.thread.pid || lives {
            wait.class = WaitClass::EndedThread;
        } else if outlived {
            (wait.begin_ns, wait.begin_estimated) = (others_ns, false);
        }
    }
}
