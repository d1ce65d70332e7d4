//! Of several children that a process waits for at a time, the one that counts: the last.
//!
//! A build, a pool or a shell with jobs in the background waits again each time that one of them ends. Who ended one of those
//! waits did not hold it up if another that was there all the while held it up for longer. So the waits of a thread that only
//! its children end, one right after the other, are looked at from the last one back: who ended that one counts for every
//! wait before it in which it was there, and before it was begun whoever ended the wait then. So it is of one that slept until the waiter woke
//! it: a server that ends has its helpers end once its sessions have.
//!
//! Must not: look at what the children do (chains.rs). Rejected: the child that lived longest (it may have been done early).

use super::index::Index;
use super::wakers::{task_that_woke, waker};
use crate::facts::ThreadRef;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// Later waits that are looked at: a bound on the work, as a build has thousands.
const WAITS_LOOKED_AT: usize = 64;
/// Between two waits the thread does no more than begin another child.
pub(super) static PAUSE_MAX: Threshold = Threshold::new(
    20.0,
    "ms",
    "between two waits for children: who computes for longer waits for something else",
    "chosen: to begin a child takes a millisecond, and ten on a crowded CPU",
);
/// A child of a child is begun a little later; who is there for so much of a wait was there.
pub(super) static PARTS_MISSED: Threshold = Threshold::new(
    5.0,
    "1",
    "one part in so many of a wait may have passed as a child began; one that began later cannot be what was waited for",
    "chosen: a job begins its own children early",
);

/// Who counts in a wait that one of several children ended, if that is another of them.
pub(super) fn last_of_several(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let first = child_that_ended(index, wait)?;
    let mut series = vec![(wait, first)];
    let later = index.waits.after(wait).iter();
    let mut until_ns = wait.end_ns;
    for other in later.filter(|other| other.class != WaitClass::RunQueue).take(WAITS_LOOKED_AT) {
        if other.begin_ns > until_ns.saturating_add(PAUSE_MAX.ns()) {
            break;
        }
        // Who has waited for an end, and reads the word of another, has gone on with something else.
        let is_other = wait.class == WaitClass::Child && other.class != WaitClass::Child;
        let Some(by) = child_that_ended(index, other).filter(|_| !is_other) else { break };
        until_ns = other.end_ns;
        series.push((other, by));
    }
    let (_, own) = series.first().cloned()?;
    let was_there = |who: &ThreadRef, wait: &WaitSpan| {
        let length_ns = wait.end_ns.saturating_sub(wait.begin_ns);
        let is_older = who.start_ns <= wait.begin_ns + length_ns / PARTS_MISSED.whole();
        who.start_ns != 0 && is_older && !was_set_going_later(index, who, wait)
    };
    let counts = series.into_iter().rev().fold(None, |counts: Option<ThreadRef>, (wait, by)| {
        Some(counts.filter(|last| was_there(last, wait)).unwrap_or(by))
    })?;
    (counts.pid != own.pid).then_some(counts)
}

/// Whether somebody slept as a wait ended, until the waiter itself woke him, were it to ask him to end.
fn was_set_going_later(index: &Index<'_>, who: &ThreadRef, wait: &WaitSpan) -> bool {
    let slept = index.waits.at(who, wait.end_ns).filter(|it| it.end_ns > wait.end_ns);
    slept.and_then(|it| task_that_woke(index, it)).is_some_and(|by| by.pid == wait.thread.pid)
}

/// The child, or child of a child, whose end or word ended a wait.
pub(super) fn child_that_ended(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    use WaitClass::{Child, Idle, PipeRead, UnixRead};
    let is_for_children = matches!(wait.class, Child | Idle | PipeRead | UnixRead);
    let by = waker(index, wait).filter(|_| is_for_children)?;
    (by.pid != wait.thread.pid && index.families.descends(by.pid, wait.thread.pid)).then_some(by)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::chains::Chains;
    use crate::graph::ways::held::holder;
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    const SECOND: Ns = 1_000_000_000;

    /// Process 10 waits from second to second for any child; who ended each of the waits, and when each of them began.
    fn counts(ended_by: &[u32], begun: &[(u32, Ns)]) -> Vec<u32> {
        counts_beside(ended_by, begun, Vec::new())
    }

    fn counts_beside(ended_by: &[u32], begun: &[(u32, Ns)], more: Vec<Fact>) -> Vec<u32> {
        let of = |pid: u32| {
            let at = begun.iter().find(|(child, _)| *child == pid).map_or(0, |(_, at_ns)| *at_ns);
            ThreadRef { start_ns: at, ..thread(pid, "job") }
        };
        let mut facts = [host(), more].concat();
        for (pid, at_ns) in begun {
            let fork = Fork { parent: thread(10, "make"), child: of(*pid), flags: 0 };
            facts.push(Fact { at_ns: *at_ns, body: Body::Fork(fork) });
        }
        for (at, pid) in (1..).zip(ended_by) {
            let mut place =
                Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
            place.args[0] = u64::MAX;
            let (begin_ns, end_ns) = (at * SECOND, (at + 1) * SECOND - 1_000_000);
            let by = of(*pid);
            let wake = Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() };
            let thread = thread(10, "make");
            let wake = Some(wake);
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
        }
        let Observed { model, timelines } = Observed::new(facts);
        let chains = Chains::new(&model, &timelines);
        let all: Vec<_> = timelines.waits().filter(|wait| wait.thread.pid == 10).collect();
        all.iter().filter_map(|wait| Some(holder(&chains.index, wait)?.pid)).collect()
    }

    #[test]
    fn the_job_that_ends_last_counts_as_long_as_it_was_there() {
        let begun = [(20, SECOND / 2), (21, SECOND / 2), (22, 2 * SECOND - 500_000)];
        // 20 ends first, then 22 that was begun in its place, and 21 at last.
        assert_eq!(counts(&[20, 22, 21], &begun), [21, 21, 21]);
        // 22 ends last: it was begun when 20 had ended.
        assert_eq!(counts(&[20, 21, 22], &begun), [20, 22, 22]);
    }

    /// Process 10 waits for the end of 20, then reads a word of 21, which was there all the time.
    #[test]
    fn who_reads_the_word_of_another_after_an_end_has_waited_for_the_one() {
        let child = |pid: u32| ThreadRef { start_ns: SECOND / 2, ..thread(pid, "job") };
        let waits = |syscall: &str, args0: u64, begin_ns: Ns, by: u32| {
            let object = (syscall == "read").then_some(ObjectRef::Pipe { ino: 7 });
            let mut place = Place { state: WaitState::Sleep, object, ..Place::default() };
            (place.syscall, place.args[0]) = (syscall.into(), args0);
            let end_ns = begin_ns + SECOND - 1_000_000;
            let (context, by) = (WakeContext::Task, child(by));
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let thread = thread(10, "runtime");
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let mut facts = host();
        for pid in [20, 21] {
            let fork = Fork { parent: thread(10, "runtime"), child: child(pid), flags: 0 };
            facts.push(Fact { at_ns: SECOND / 2, body: Body::Fork(fork) });
        }
        facts.extend([waits("wait4", 20, SECOND, 20), waits("read", 3, 2 * SECOND, 21)]);
        let Observed { model, timelines } = Observed::new(facts);
        let chains = Chains::new(&model, &timelines);
        let first = timelines.waits().next().and_then(|wait| holder(&chains.index, wait));
        assert_eq!(first.map(|who| who.pid), Some(20));
    }

    /// Process 10 waits for the end of 20, and then for that of 21, which slept until 10 woke it, or did something else.
    #[test]
    fn who_slept_until_the_waiter_woke_it_counts_from_then_on() {
        let begun = [(20, SECOND / 2), (21, SECOND / 2)];
        let first = |woken_by: u32| {
            let (end_ns, context) = (2 * SECOND, WakeContext::Task);
            let by = ThreadRef { start_ns: 0, ..thread(woken_by, "make") };
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let place =
                Place { state: WaitState::Sleep, syscall: "epoll_wait".into(), ..Place::default() };
            let thread = ThreadRef { start_ns: SECOND / 2, ..thread(21, "job") };
            let wait = Wait { thread, begin_ns: SECOND, end_ns, place, wake, ..Wait::default() };
            counts_beside(&[20, 21], &begun, vec![Fact { at_ns: end_ns, body: Body::Wait(wait) }])
        };
        assert_eq!(first(10), [20, 21]);
        assert_eq!(first(30), [21, 21]);
    }

    #[test]
    fn of_jobs_one_after_the_other_each_counts_for_its_own_time() {
        let begun = [(20, SECOND / 2), (21, 2 * SECOND - 500_000), (22, 3 * SECOND - 500_000)];
        assert_eq!(counts(&[20, 21, 22], &begun), [20, 21, 22]);
    }
}
