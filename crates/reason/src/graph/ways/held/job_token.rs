//! A pipe that its reader can fill itself, as others can: a pool of tokens (make's jobserver), of which each job takes one and gives it back.
//!
//! Whoever has none to take goes on once a job of his own ends. Such a pool is handed down: somebody before him can fill it too. Must not: choose among
//! several jobs, take a box for the messages of strangers (a FIFO) for a pool, or speak of a wait that somebody ended: that one gave a token back.
//!
//! Rejected: the jobs of the others (any of them will do, and which of them ends first nobody knows); the other end of the pipe (make was said to
//! wait for the make that began it).

use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::model::object::Object;
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// Generations that are gone through.
const GENERATIONS: usize = 16;

/// The way.
pub(super) static WAY: Way = Way {
    name: "job of a token",
    because: "it is the only job whose end frees a place for the next one here: who waits can fill that pipe himself, as others can",
    of: &[WaitClass::PipeRead],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let (pid, (from, to)) = (at.wait.thread.pid, at.within);
    let Object::Pipe(ino) = at.wait.object else { return None };
    if !at.wait.standing {
        return None;
    }
    let families = &at.index.families;
    let ends = at.index.connections.endpoints_on(ino).iter().filter(|end| end.writable);
    let writers: BTreeSet<u32> = ends.map(|end| end.process.pid).collect();
    let before = std::iter::successors(families.parent_of(pid), |it| families.parent_of(*it));
    let is_shared = before.take(GENERATIONS).any(|it| writers.contains(&it));
    let job = families.only_child(pid, from, to)?;
    (writers.contains(&pid) && is_shared).then_some(Next::Thread(job))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::scenes::endpoint;

    #[test]
    fn who_waits_for_a_token_of_a_pipe_that_all_fill_waits_for_the_end_of_its_job() {
        let pipe = || ObjectRef::Pipe { ino: 7 };
        let of = |writers: &[u32], jobs: &[u32]| {
            let mut facts = vec![stands(of_ten(10), place("read", NO_ARGS, Some(pipe())))];
            facts.extend(jobs.iter().map(|pid| child(*pid, 10)));
            facts.push(child(10, 5));
            facts.extend(writers.iter().map(|pid| endpoint(*pid, "make", pipe())));
            led(facts)
        };
        assert_eq!(of(&[5, 10], &[20]), ("job of a token", Some(20)));
        assert_eq!(of(&[5], &[20]).0, "end of a pipe", "it cannot fill it");
        assert_eq!(of(&[10, 20], &[20]).0, "end of a pipe", "its child alone can");
        assert_eq!(of(&[10, 30], &[20]).0, "end of a pipe", "a stranger sends it messages");
        assert_ne!(of(&[5, 10], &[20, 21]).0, "job of a token", "which?");
    }
}
