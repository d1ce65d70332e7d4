//! Who began whom within the look, by process.
//!
//! A process that is gone before anybody could ask about it is still known by who began it: job, group and what is
//! looked at are inherited. Built once of the forks; where a number was used again, the later process counts.
//! Must not: say whose fault anything is. Rejected: the parent that /proc tells (it is 1 once the parent has ended).

use crate::model::Model;
use std::collections::HashMap;

/// Links from a process to whoever began it; more are a circle of numbers that were used again.
const LINE_MAX: usize = 64;

/// Who began whom.
#[derive(Debug, Default)]
pub struct Ancestry {
    parents: HashMap<u32, u32>,
}

impl Ancestry {
    /// Of a look.
    pub fn of(model: &Model) -> Self {
        let forks = model.threads.forks.iter().map(|(_, fork)| fork);
        let processes = forks.filter(|fork| fork.child.pid != fork.parent.pid);
        Self { parents: processes.map(|fork| (fork.child.pid, fork.parent.pid)).collect() }
    }

    /// A process, who began it, who began that one, and so on, as far as it was seen.
    pub fn line(&self, pid: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(pid), |pid| self.parents.get(pid).copied()).take(LINE_MAX)
    }

    /// The first of its line: what stood before the look.
    pub fn eldest(&self, pid: u32) -> u32 {
        self.line(pid).last().unwrap_or(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Body, Fact, Fork, ThreadRef};

    fn ancestry(forks: &[(u32, u32)]) -> Ancestry {
        let thread = |pid| ThreadRef { tid: pid, pid, ..ThreadRef::default() };
        let fork = |(at, (parent, child)): (usize, &(u32, u32))| Fact {
            at_ns: at as u64,
            body: Body::Fork(Fork { parent: thread(*parent), child: thread(*child), flags: 0 }),
        };
        Ancestry::of(&Model::new(forks.iter().enumerate().map(fork).collect()))
    }

    #[test]
    fn the_line_goes_up_to_what_stood_before() {
        let ancestry = ancestry(&[(1, 2), (2, 3), (7, 8)]);
        assert!(ancestry.line(3).eq([3, 2, 1]));
        assert_eq!((ancestry.eldest(3), ancestry.eldest(5)), (1, 5));
    }

    #[test]
    fn of_a_number_that_was_used_again_the_later_process_counts_and_circles_end() {
        assert_eq!(ancestry(&[(1, 3), (2, 3)]).eldest(3), 2);
        assert_eq!(ancestry(&[(2, 3), (3, 2)]).line(3).count(), LINE_MAX);
    }
}
