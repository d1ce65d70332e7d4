//! Sleeps before a lock, where refused calls are not reported: what a thread may wait for that sleeps again and again while somebody
//! else has a lock on a file that its process has open.
//!
//! Without kernel events no refusal is seen, so this is one witness less than retries.rs has: the lock table was read, and in
//! the process's own list of open files the same file was found without a lock of its own. Must not: say so where refusals are
//! reported, or of a single sleep.
//!
//! Edit together: probe/src/readers/locks.rs (who looks into the open files), rules/lock/polled.rs.

use super::WaitClass;
use super::retries::{Refused, Sleep, is_sleep};
use super::span::WaitSpan;
use crate::facts::{FileLock, Ns};
use crate::model::Model;
use crate::model::object::{FileKey, Object};
use std::collections::HashMap;

/// The table is read every so often: between two readings, and as long before and after them, nothing is known.
const APART_NS: Ns = 1_100_000_000;
/// Once is no try again.
const SLEEPS_MIN: usize = 2;

/// What the sleeps are for that are before a lock.
pub(super) fn reasons<'w>(
    model: &Model,
    waits: impl Iterator<Item = &'w WaitSpan>,
) -> HashMap<Sleep, Refused> {
    let mut found = HashMap::new();
    let locked = locked(model);
    if model.look.host.kernel_events || locked.is_empty() {
        return found;
    }
    let mut sleeps: HashMap<(u32, FileKey), Vec<Sleep>> = HashMap::new();
    for wait in waits.filter(|wait| is_sleep(wait)) {
        let files = locked.get(&wait.thread.pid).into_iter().flatten();
        let meanwhile = |(_, (first, last)): &(&FileKey, &(Ns, Ns))| {
            wait.begin_ns <= last + APART_NS && wait.end_ns + APART_NS >= *first
        };
        // Of several such files nobody can tell which it is.
        let mut files = files.filter(meanwhile);
        if let (Some((file, _)), None) = (files.next(), files.next()) {
            let sleep = (wait.thread.tid, wait.begin_ns);
            sleeps.entry((wait.thread.tid, *file)).or_default().push(sleep);
        }
    }
    for ((_, file), sleeps) in sleeps.into_iter().filter(|(_, it)| it.len() >= SLEEPS_MIN) {
        let what = (WaitClass::PolledLock, Object::File(Some(file)));
        found.extend(sleeps.into_iter().map(|sleep| (sleep, what.clone())));
    }
    found
}

/// By process the files that it has open and others have locked, with the first and last reading that says so.
fn locked(model: &Model) -> HashMap<u32, HashMap<FileKey, (Ns, Ns)>> {
    let mut found: HashMap<u32, HashMap<FileKey, (Ns, Ns)>> = HashMap::new();
    // A lock that is shared may be had together with its holder.
    let keeps_out = |(_, lock): &&(Ns, FileLock)| !lock.blocked && lock.access == "WRITE";
    for (at_ns, lock) in model.held.locks.iter().filter(keeps_out) {
        let file = FileKey { dev: lock.dev, ino: lock.ino };
        for process in &lock.open_in {
            let (first, last) =
                found.entry(process.pid).or_default().entry(file).or_insert((*at_ns, *at_ns));
            (*first, *last) = ((*first).min(*at_ns), (*last).max(*at_ns));
        }
    }
    found
}
