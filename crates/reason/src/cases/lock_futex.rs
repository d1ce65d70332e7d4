//! lock.futex: threads wait for a lock in user memory that another thread holds.
//!
//! The kernel does not know owners of ordinary futexes; glibc writes the owner's thread id beside the word, which
//! is read from the waiter's memory while it waits. Without it (other runtimes) the thread whose unlock woke
//! the waiter is the holder.

use super::{Case, Verdict, culprit, words};
use crate::causes::{Cause, Causes};
use crate::findings::{Culprit, Evidence, Finding, Remedy};
use crate::waits::WaitClass;

/// The case.
pub static CASE: Case = Case {
    code: "lock.futex",
    title: "Threads wait for a lock that another thread holds",
    theory: "A mutex is a word in memory; a thread that finds it taken sleeps on it (futex). While one holder computes, \
             sleeps or does I/O under the lock, every other thread that wants it stands still, however many CPUs \
             are idle.",
    needs: &[
        "threads wait on a futex word in the state \"locked, with waiters\" (expected value 2, or a PI futex)",
        "the owner is written beside the word, or the thread that woke the waiter is known",
    ],
    refuted_by: &[
        "the word is a condition or a semaphore: its waiters are idle",
        "the holder itself is held up by something with a name",
    ],
    remedies: &[
        "hold the lock for less: move I/O and sleeping out of it",
        "split the lock, or use a reader-writer lock",
    ],
    stories: &["S0.4"],
    find,
};

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    causes.class(WaitClass::FutexLock).filter(|c| !c.circle).map(|c| finding(causes, c)).collect()
}

fn finding(causes: &Causes<'_>, cause: &Cause) -> Finding {
    let holder = cause.holder();
    let by = holder.map_or_else(|| "a holder that is not known".to_string(), words::who);
    let doing = match cause.holder_mostly() {
        Some(WaitClass::Timer) => "sleeps under it",
        Some(WaitClass::Running) => "computes under it",
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::Unseen) => "is at work under it",
        Some(WaitClass::Idle) => "waits for events under it",
        _ => "waits under it",
    };
    let owner_told = causes.scene.futex_owners.iter().any(|(_, owner)| {
        owner.owner_tid != 0
            && format!("{}:{:#x}", owner.waiter.pid, owner.address) == cause.object.id
    });
    let victim = causes.process_name(cause.first_victim());
    let verdict = Verdict {
        title: format!("{victim} waits for a lock that {by} holds"),
        text: format!(
            "{} in {} pass in {} waits for the futex {}; the longest took {}. {by} holds it and {doing}.",
            words::seconds(cause.seconds),
            words::seconds(causes.wall_seconds()),
            cause.count,
            cause.object.name,
            words::seconds(cause.longest_seconds),
        ),
        confidence: if owner_told { 0.95 } else { 0.85 },
        culprit: holder.map_or_else(Culprit::default, |holder| culprit(causes, holder)),
        evidence: vec![
            Evidence::new("wait for the lock", cause.seconds, "s", "sched_switch, futex arguments"),
            Evidence::new("waits", cause.count as f64, "1", "sched_switch"),
            Evidence::new(
                "owner read from the waiter's memory",
                f64::from(u8::from(owner_told)),
                "1",
                "process_vm_readv",
            ),
        ],
        remedy: vec![Remedy {
            text: format!("see where {by} spends its time while it holds the lock"),
            command: holder
                .map_or_else(String::new, |h| format!("cat /proc/{}/task/{}/stack", h.pid, h.tid)),
            ..Remedy::default()
        }],
    };
    CASE.finding(causes, cause, verdict)
}
