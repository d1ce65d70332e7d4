//! lock.futex: threads wait for a lock in user memory that another thread holds.
//!
//! The kernel does not know owners of ordinary futexes; glibc writes the owner's thread id beside the word, which
//! is read from the waiter's memory while it waits. Without it (other runtimes) the thread whose unlock woke
//! the waiter is the holder.

use crate::answer::report::{Culprit, Evidence, Finding, Remedy};
use crate::facts::FutexOwner;
use crate::graph::ends::End;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use crate::rules::Refutation;
use crate::rules::old::{Rule, Verdict, culprit, words};
use crate::waits::WaitClass;

/// The case.
pub static RULE: Rule = Rule {
    code: "lock.futex",
    title: "Threads wait for a lock that another thread holds",
    theory: "A mutex is a word in memory; a thread that finds it taken sleeps on it (futex). While one holder computes, \
             sleeps or does I/O under the lock, every other thread that wants it stands still, however many CPUs \
             are idle.",
    needs: &[
        "threads wait on a futex word in the state \"locked, with waiters\" (expected value 2, or a PI futex), or on \
         one that each waiter hands on to the next (Python's locks)",
        "the owner is written beside the word, or the thread that woke the waiter is known, or several threads \
         wait for the same word",
    ],
    refuted_by: &[
        Refutation::new(
            "the word is a condition or a semaphore: its waiters are idle (the word has gone beyond what a lock holds)",
            "",
        ),
        Refutation::new("the holder itself is held up by something with a name", ""),
    ],
    remedies: &[
        "hold the lock for less: move I/O and sleeping out of it",
        "split the lock, or use a reader-writer lock",
    ],
    stories: &["S0.4"],
    thresholds: &[],
    finds: crate::rules::Finds::Old(find),
};

fn find(measures: &Measures<'_>) -> Vec<Finding> {
    measures
        .class(WaitClass::FutexLock)
        .filter(|c| !c.circle && is_lock(measures, c))
        .map(|c| finding(measures, c))
        .collect()
}

/// The value alone does not make it a lock: who joins the thread that is number 2 in its container waits for
/// a 2 as well, and so does musl's join. Somebody must hold it, or several must want it. A condition counts its
/// signals in the word, and whoever came after the second one waits for a 2 for as long as it pleases: there the
/// word has gone on since.
fn is_lock(measures: &Measures<'_>, end: &End) -> bool {
    if has_gone_on(measures, end) {
        return false;
    }
    let mut waiters: Vec<u32> = measures
        .waits()
        .filter(|w| w.class == WaitClass::FutexLock && w.object == end.object)
        .map(|w| w.thread.tid)
        .collect();
    waiters.sort_unstable();
    waiters.dedup();
    end.holder().is_some() || waiters.len() > 1
}

/// Every reading of the word shows more than a lock ever holds (0 free, 1 taken, 2 with waiters); the words of
/// PI locks are told apart by their operation.
fn has_gone_on(measures: &Measures<'_>, end: &End) -> bool {
    let model = measures.model;
    let is_pi = measures
        .waits()
        .any(|w| w.class == WaitClass::FutexLock && w.object == end.object && w.place.args[2] != 2);
    let mut words = readings(model, end).map(|owner| owner.word).peekable();
    !is_pi && words.peek().is_some() && words.all(|word| word > 2)
}

/// What was read of a futex in its waiters' memory.
fn readings<'a>(model: &'a Model, end: &End) -> impl Iterator<Item = &'a FutexOwner> {
    let word = match end.object {
        Object::Futex { pid, address } => Some((pid, address)),
        _ => None,
    };
    let owners = model.futex_owners.iter().map(|(_, owner)| owner);
    owners.filter(move |owner| word == Some((owner.waiter.pid, owner.address)))
}

fn finding(measures: &Measures<'_>, end: &End) -> Finding {
    let holder = end.holder();
    let by = holder.map_or_else(|| "another thread".to_string(), words::who);
    let doing = match end.holder_mostly() {
        Some(WaitClass::Timer) => "sleeps under it",
        Some(WaitClass::Running) => "computes under it",
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::Unseen) => "is at work under it",
        Some(WaitClass::Idle) => "waits for events under it",
        Some(WaitClass::RunQueue) => "waits for a CPU under it",
        _ => "waits under it",
    };
    let owner_told = readings(measures.model, end).any(|owner| owner.owner_tid != 0);
    let victim = measures.process_name(end.first_victim());
    let held = match holder {
        Some(_) => format!("{by} holds it and {doing}."),
        None => "Who holds it is not known: the word tells no owner, and nobody let go of it in the look.".into(),
    };
    let verdict = Verdict {
        title: format!("{victim} waits for a lock that {by} holds"),
        text: format!(
            "{} pass in {} for the futex {}; the longest took {}. {held}",
            words::of_window(end.seconds, measures.wall_seconds()),
            words::count(end.count as usize, "wait", "waits"),
            measures.model.name_of(&end.object).name,
            words::seconds(end.longest_seconds),
        ),
        confidence: if owner_told { 0.95 } else { 0.85 },
        culprit: holder.map_or_else(Culprit::default, |holder| culprit(measures, holder)),
        evidence: vec![
            Evidence::new("wait for the lock", end.seconds, "s", "sched_switch, futex arguments"),
            Evidence::new("waits", end.count as f64, "1", "sched_switch"),
            Evidence::new(
                "owner read from the waiter's memory",
                f64::from(u8::from(owner_told)),
                "1",
                "process_vm_readv",
            ),
        ],
        remedy: vec![Remedy {
            text: match holder {
                Some(_) => format!("see where {by} spends its time while it holds the lock"),
                None => "see which of its threads holds the lock, and what it does".into(),
            },
            command: match holder {
                Some(h) => format!("cat /proc/{}/task/{}/stack", h.pid, h.tid),
                None => {
                    format!("gdb -p {} -batch -ex 'thread apply all bt'", end.first_victim().pid)
                }
            },
            ..Remedy::default()
        }],
    };
    RULE.finding(measures, end, verdict)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn waits_for_a_two(tid: u32) -> Fact {
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [0x7000, 128, 2, 0, 0, 0],
            ..Place::default()
        };
        let thread = ThreadRef { tid, pid: 10, start_ns: 1, comm: "server".into() };
        let blocked = Blocked { thread, place, ..Blocked::default() };
        Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
    }

    #[test]
    fn one_that_joins_thread_two_of_a_container_waits_for_no_lock() {
        let mut facts = host();
        facts.push(waits_for_a_two(10));
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn two_that_want_one_word_wait_for_a_lock_whoever_holds_it() {
        let mut facts = host();
        facts.extend([waits_for_a_two(10), waits_for_a_two(11)]);
        let report = explain(facts);
        assert_eq!(report.findings[0].code, "lock.futex");
        assert!(report.findings[0].text.contains("not known"));
    }

    #[test]
    fn a_condition_whose_word_has_gone_on_is_no_lock() {
        for (word, findings) in [(480, 0), (2, 1)] {
            let mut facts = host();
            facts.extend([waits_for_a_two(10), waits_for_a_two(11)]);
            let waiter = ThreadRef { tid: 11, pid: 10, ..ThreadRef::default() };
            let owner = FutexOwner { waiter, address: 0x7000, word, owner_tid: 0 };
            facts.push(fact(Body::FutexOwner(owner)));
            assert_eq!(explain(facts).findings.len(), findings);
        }
    }

    #[test]
    fn threads_with_names_of_their_own_wait_for_one_lock() {
        let mut facts = host();
        for (tid, comm) in [(10, "server"), (11, "worker-1"), (12, "worker-2"), (13, "worker-3")] {
            let mut wait = waits_for_a_two(tid);
            if let Body::Blocked(blocked) = &mut wait.body {
                blocked.thread.comm = comm.into();
            }
            facts.push(wait);
        }
        let report = explain(facts);
        assert_eq!(report.findings.len(), 1);
        assert!(report.findings[0].object.name.ends_with(" of server"));
    }
}
