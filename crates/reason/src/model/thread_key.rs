//! Which thread a fact is about, where a thread id is used again within a look.
//!
//! A crash loop, or many short processes and few numbers, give one id to several threads in turn. Each of them is a life of
//! the id, and maps about what a thread did are keyed by its life. The start that a fact carries does not say by itself
//! which life that is: it may be unknown (0), and what was read from /proc is rounded down to a tick of 10 ms and, after
//! a suspend, off by all the time of it. So keys are made here alone, from the starts of all facts: starts within 20 ms
//! are of one life, and so are all that lie before the look, since of two threads with one id the second began inside of
//! it. A start that is unknown is of the life at the moment of the fact, or of the last.
//!
//! Only ids that were used again are written down. Of any other id no question costs more than a look into a map that is
//! nearly always empty, and the start in its key is 0: there is nothing to tell apart.
//!
//! Must not: be used for what is counted and claimed by process. A process's number is what is printed, what objects are
//! called by and what rules claim victims by, so two processes of one number are one there. Rejected: (id, start) as the
//! fact has it (one thread becomes two); the id alone (two threads become one); two lives within 20 ms told apart
//! (no fact read from /proc could say which it means).
//!
//! Edit together: threads.rs (how the model asks), crates/system/src/clock.rs (ticks).

use crate::facts::{Ns, ThreadRef};
use std::collections::HashMap;

/// Starts of one life differ by less: a tick of 10 ms, and what two readings of two clocks are apart.
const SAME_LIFE_NS: Ns = 20_000_000;

/// One thread, for as long as it lived. Made by the model only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    tid: u32,
    /// As the first fact about this life had it; 0 if the id was used once.
    start_ns: Ns,
}

/// The threads that had an id in turn, by begin: of the ids that more than one had.
#[derive(Debug, Default)]
pub(super) struct Lives(HashMap<u32, Vec<ThreadRef>>);

/// How far two starts are apart, as far as a look that began then can tell.
fn apart_ns(one: Ns, other: Ns, begin_ns: Ns) -> Ns {
    one.max(begin_ns).abs_diff(other.max(begin_ns))
}

/// The life that a start is of.
fn near(lives: &[ThreadRef], start_ns: Ns, begin_ns: Ns) -> Option<usize> {
    let after = lives.partition_point(|life| life.start_ns <= start_ns);
    let around = after.saturating_sub(1)..(after + 1).min(lives.len());
    let apart = |at: &usize| apart_ns(lives[*at].start_ns, start_ns, begin_ns);
    around.min_by_key(apart).filter(|at| apart(at) <= SAME_LIFE_NS)
}

impl Lives {
    /// Of an id that was used again, all its lives by begin.
    pub(super) fn all(&self, tid: u32) -> Option<&[ThreadRef]> {
        self.0.get(&tid).map(Vec::as_slice)
    }

    /// Of an id that was used again, the last life that had begun at a moment.
    pub(super) fn at(&self, tid: u32, at_ns: Ns) -> Option<&ThreadRef> {
        let lives = self.all(tid)?;
        let begun = lives.partition_point(|life| life.start_ns <= at_ns);
        lives.get(begun.saturating_sub(1))
    }

    /// The key of a thread: by its start, or if that is unknown by a moment of its life.
    pub(super) fn key(&self, tid: u32, start_ns: Ns, at_ns: Ns, begin_ns: Ns) -> ThreadKey {
        let Some(lives) = self.all(tid) else { return ThreadKey { tid, start_ns: 0 } };
        let life = match start_ns {
            0 => self.at(tid, at_ns),
            _ => near(lives, start_ns, begin_ns).map(|at| &lives[at]),
        };
        ThreadKey { tid, start_ns: life.map_or(start_ns, |life| life.start_ns) }
    }

    /// Of an id that was used again, the name of the life that a key is of.
    pub(super) fn named(&self, key: ThreadKey) -> Option<&ThreadRef> {
        let lives = self.all(key.tid)?;
        let found = lives.binary_search_by_key(&key.start_ns, |life| life.start_ns);
        found.ok().map(|at| &lives[at])
    }

    /// Of a thread that is mentioned by the id of a known one. Whether it may be the same.
    pub(super) fn learn(&mut self, known: &ThreadRef, thread: &ThreadRef, begin_ns: Ns) -> bool {
        let same = known.start_ns == 0
            || thread.start_ns == 0
            || apart_ns(known.start_ns, thread.start_ns, begin_ns) <= SAME_LIFE_NS;
        if same && !self.0.contains_key(&thread.tid) {
            return true;
        }
        if thread.start_ns != 0 {
            let lives = self.0.entry(thread.tid).or_insert_with(|| vec![known.clone()]);
            match near(lives, thread.start_ns, begin_ns) {
                Some(at) if lives[at].comm != thread.comm && !thread.comm.is_empty() => {
                    lives[at].comm.clone_from(&thread.comm);
                }
                Some(_) => {}
                None => {
                    let after = lives.partition_point(|life| life.start_ns < thread.start_ns);
                    lives.insert(after, thread.clone());
                }
            }
        }
        same
    }

    /// Once the begin of the look is known for certain.
    pub(super) fn finish(&mut self, begin_ns: Ns) {
        self.0.retain(|_, lives| {
            lives.dedup_by(|next, last| {
                let same = apart_ns(next.start_ns, last.start_ns, begin_ns) <= SAME_LIFE_NS;
                if same && !next.comm.is_empty() {
                    std::mem::swap(&mut next.comm, &mut last.comm);
                }
                same
            });
            lives.len() > 1
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::waits::timeline::Observed;

    const SECOND: Ns = 1_000_000_000;
    const MS: Ns = 1_000_000;
    const TID: u32 = 20;

    fn of(start_ns: Ns, comm: &str) -> ThreadRef {
        ThreadRef { tid: TID, pid: TID, start_ns, comm: comm.into() }
    }

    /// It waits for a tenth of a second.
    fn wait(thread: ThreadRef, begin_ns: Ns) -> Fact {
        let end_ns = begin_ns + SECOND / 10;
        let place = Place { state: WaitState::Sleep, syscall: "flock".into(), ..Place::default() };
        let wake = Some(Wake { at_ns: end_ns, ..Wake::default() });
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    fn ran(thread: ThreadRef, begin_ns: Ns) -> Fact {
        let end_ns = begin_ns + SECOND / 10;
        Fact { at_ns: end_ns, body: Body::Ran(Ran { thread, begin_ns, end_ns, cpu: 0 }) }
    }

    /// A look from 1 s on.
    fn observed(facts: Vec<Fact>) -> Observed {
        let body = Body::WindowBegin(WindowBegin { unix_ns: 1 });
        let end = Fact { at_ns: 9 * SECOND, body: Body::WindowEnd(WindowEnd::default()) };
        let begin = Fact { at_ns: SECOND, body };
        Observed::new([facts, vec![begin, end]].concat())
    }

    /// When each life of the id waited, seconds.
    fn begins(observed: &Observed, thread: &ThreadRef) -> Vec<Ns> {
        let waits = observed.timelines.of(observed.model.threads.key(thread)).iter();
        waits.map(|wait| wait.begin_ns / SECOND).collect()
    }

    /// A process that waits at 2 s and another of its number, begun at 5 s, that waits at 6 s.
    fn twice() -> Vec<Fact> {
        vec![wait(of(SECOND / 2, "old"), 2 * SECOND), wait(of(5 * SECOND, "new"), 6 * SECOND)]
    }

    #[test]
    fn two_threads_of_one_id_have_two_timelines() {
        let (old, new) = (of(SECOND / 2, "old"), of(5 * SECOND, "new"));
        let running = [ran(old.clone(), 3 * SECOND), ran(new.clone(), 7 * SECOND)];
        let observed = observed([twice(), running.to_vec()].concat());
        let model = &observed.model;
        assert_eq!((begins(&observed, &old), begins(&observed, &new)), (vec![2], vec![6]));
        let seen = |who| observed.timelines.seen_until(model.threads.key(who)) / SECOND;
        assert_eq!((seen(&old), seen(&new)), (3, 7));
        assert!(!model.threads.is_same(&old, &new));
        assert_eq!(model.threads.thread_ref_at(TID, 3 * SECOND).comm, "old");
        assert_eq!(model.threads.thread_ref_at(TID, 8 * SECOND).comm, "new");
        let named = model.threads.every_thread().filter(|thread| thread.tid == TID);
        let names = named.map(|thread| thread.comm.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["new", "old"]);
    }

    #[test]
    fn an_unknown_start_is_of_the_only_life() {
        let observed = observed(vec![wait(of(5 * SECOND, "new"), 6 * SECOND)]);
        assert_eq!(begins(&observed, &of(0, "")), [6]);
    }

    #[test]
    fn an_unknown_start_is_of_the_life_at_the_moment_or_of_the_last() {
        let again = [wait(of(0, ""), 3 * SECOND), ran(of(0, ""), 7 * SECOND)];
        let observed = observed([twice(), again.to_vec()].concat());
        assert_eq!(begins(&observed, &of(SECOND / 2, "")), [2, 3]);
        assert_eq!(begins(&observed, &of(0, "")), [6]);
        let last = observed.model.threads.key(&of(0, ""));
        assert_eq!(observed.timelines.seen_until(last), 7 * SECOND + SECOND / 10);
    }

    #[test]
    fn a_start_in_ticks_finds_the_exact_one() {
        let in_ticks = of(5 * SECOND - 8 * MS, "new");
        let again = observed([twice(), vec![wait(in_ticks.clone(), 8 * SECOND)]].concat());
        assert_eq!(begins(&again, &in_ticks), [6, 8]);
        assert!(again.model.threads.is_same(&in_ticks, &of(5 * SECOND, "")));
        // So it does where the id was used but once.
        let alone = observed(vec![wait(of(5 * SECOND, "new"), 6 * SECOND)]);
        assert_eq!(begins(&alone, &in_ticks), [6]);
    }

    /// What /proc says of a thread from before a suspend is hours off.
    #[test]
    fn whatever_began_before_the_look_is_one_life() {
        let (early, late) = (of(MS, "old"), of(SECOND / 2, "old"));
        let observed = observed(vec![wait(early.clone(), 2 * SECOND), wait(late, 3 * SECOND)]);
        assert_eq!(begins(&observed, &early), [2, 3]);
        assert!(observed.model.threads.lives.0.is_empty());
    }
}
