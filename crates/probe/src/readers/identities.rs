//! Who is known in a look, and who is to be: threads are read as soon as a wait names them, and the rest as the look ends.
//!
//! A thread may be gone a moment later, so those of new waits are read at once; only so many a tick, so that a fork storm does not
//! become ours. Must not: read anybody twice.

use super::threads::{Asked, threads_of};
use crate::system::Roots;
use holdup_reason::facts::{Body, Fact, Thread, WakeContext};
use std::collections::HashSet;

/// Identities read per tick.
const PER_TICK_MAX: usize = 200;

/// See the head of the file.
#[derive(Default)]
pub struct Identities {
    known: HashSet<u32>,
    wanted: HashSet<u32>,
    /// Who found no room in a tick.
    late: Vec<u32>,
    asked: Asked,
}

impl Identities {
    /// Somebody whose identity is to be read in the end.
    pub fn want(&mut self, tid: u32) {
        self.wanted.insert(tid);
    }

    /// Somebody who was read otherwise; whether that is news.
    pub fn know(&mut self, tid: u32) -> bool {
        self.known.insert(tid)
    }

    /// Reads some threads.
    pub fn read(&mut self, roots: &Roots, tids: impl IntoIterator<Item = u32>) -> Vec<Thread> {
        threads_of(roots, tids, &mut self.asked)
    }

    /// Those of some who are not known yet, read: all of whom, or as many as a tick may. The others are read in a later one.
    pub fn read_new(&mut self, roots: &Roots, tids: Vec<u32>, is_bounded: bool) -> Vec<Thread> {
        let max = if is_bounded { PER_TICK_MAX } else { usize::MAX };
        let new = self.take_new(tids, max);
        self.read(roots, new)
    }

    fn take_new(&mut self, mut new: Vec<u32>, max: usize) -> Vec<u32> {
        new.append(&mut self.late);
        new.retain(|tid| *tid != 0 && !self.known.contains(tid));
        new.sort_unstable();
        new.dedup();
        self.late = new.split_off(max.min(new.len()));
        self.known.extend(&new);
        new
    }

    /// All who are still to be read.
    pub fn read_wanted(&mut self, roots: &Roots) -> Vec<Thread> {
        self.wanted.extend(self.late.drain(..));
        let unknown: Vec<u32> = self.wanted.difference(&self.known).copied().collect();
        self.read(roots, unknown)
    }

    /// What could not be read of them, once, a fact for each reason.
    pub fn unread(&mut self) -> Vec<Body> {
        self.asked.unread()
    }
}

/// The threads that a new wait names: who waited, and who ended it; and processes that somebody asks after.
pub(super) fn named(facts: &[Fact]) -> Vec<u32> {
    let mut named = Vec::new();
    for fact in facts {
        if let Body::Denied(denied) = &fact.body {
            named.extend(denied.asked_after());
        }
        let Body::Wait(wait) = &fact.body else { continue };
        named.push(wait.thread.tid);
        named.extend(
            wait.wake.iter().filter(|it| it.context == WakeContext::Task).map(|it| it.by.tid),
        );
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_no_room_in_a_tick_is_read_in_a_later_one() {
        let mut all = Identities::default();
        assert_eq!(all.take_new(vec![7, 0, 5, 7, 6], 2), [5, 6]);
        assert_eq!(all.take_new(vec![5], 2), [7], "who is known is not read again");
        assert!(all.take_new(Vec::new(), usize::MAX).is_empty());
    }
}
