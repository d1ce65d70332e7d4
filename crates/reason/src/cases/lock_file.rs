//! lock.file: somebody holds a lock on a file that others wait for.
//!
//! flock, fcntl (POSIX and OFD) and leases. The lock table tells the holder; a wake-up alone could come from a
//! third waiter. What the holder does meanwhile is told, because it is the way out: if it is stopped, continue
//! it; if it sleeps, ask why it holds a lock while it sleeps.

use super::{Case, Verdict, culprit, words};
use crate::causes::{Cause, Causes};
use crate::facts::FileLock;
use crate::findings::{Culprit, Evidence, Finding, Remedy};
use crate::waits::WaitClass;

/// The case.
pub static CASE: Case = Case {
    code: "lock.file",
    title: "A file lock is held by another process",
    theory: "A process that locks a file (flock, fcntl, a lease) makes every other one that wants a conflicting lock \
             sleep until it unlocks, closes the last descriptor, or ends. Children inherit flock locks with their \
             descriptors, so the holder may be one that never asked for it.",
    needs: &[
        "a thread waits in flock, fcntl(F_SETLKW) or for a lease to break",
        "the lock table names a holder on the same file, or the holder's unlock ended the wait",
    ],
    refuted_by: &[
        "nobody holds a conflicting lock on the file",
        "the holder itself is held up by something with a name (then that is the finding)",
    ],
    remedies: &[
        "end or continue the holder",
        "hold the lock for less time",
        "use a timeout (flock -w)",
    ],
    stories: &["S3.14", "S4.3"],
    find,
};

fn find(causes: &Causes<'_>) -> Vec<Finding> {
    causes
        .class(WaitClass::FileLock)
        .filter(|c| !c.circle && held_lock(causes, c).is_none_or(|lock| lock.kind != "LEASE"))
        .map(|c| finding(causes, c))
        .collect()
}

fn finding(causes: &Causes<'_>, cause: &Cause) -> Finding {
    let lock = held_lock(causes, cause);
    let holder = cause.holder();
    let victim = causes.process_name(cause.first_victim());
    let path = &cause.object.name;
    let by = holder.map_or_else(|| "an unknown holder".to_string(), words::who);
    let doing = match cause.holder_mostly() {
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::FrozenCgroup) => "is frozen",
        Some(WaitClass::Timer) => "sleeps",
        Some(WaitClass::Running | WaitClass::Unseen) => "is at work",
        Some(WaitClass::Child) => "waits for a child",
        _ => "waits itself",
    };
    let mut evidence = vec![Evidence::new(
        "longest wait, its time before the look included",
        cause.longest_seconds,
        "s",
        "sched_switch and the task iterator",
    )];
    if let Some(lock) = lock {
        evidence.push(Evidence::new(
            format!("{} {} lock held by pid {}", lock.kind, lock.access, lock.pid),
            1.0,
            "1",
            "/proc/locks",
        ));
    }
    let verdict = Verdict {
        title: format!("{victim} waits for a lock on {path} that {by} holds"),
        text: format!(
            "{} of {} pass in waits for the lock; the longest {} {}. The holder {by} {doing}.",
            words::seconds(cause.seconds),
            words::seconds(causes.wall_seconds()),
            if cause.standing { "has lasted" } else { "took" },
            words::seconds(cause.longest_seconds),
        ),
        confidence: if lock.is_some() { 0.97 } else { 0.85 },
        culprit: holder.map_or_else(Culprit::default, |holder| culprit(causes, holder)),
        evidence,
        remedy: remedy(cause),
    };
    CASE.finding(causes, cause, verdict)
}

/// The lock on a cause's file that somebody holds.
pub fn held_lock<'a>(causes: &'a Causes<'_>, cause: &Cause) -> Option<&'a FileLock> {
    let (dev, ino) = cause.object.id.rsplit_once(':')?;
    let ino: u64 = ino.parse().ok()?;
    causes
        .scene
        .locks
        .iter()
        .map(|(_, lock)| lock)
        .find(|lock| !lock.blocked && lock.ino == ino && lock.dev.to_string() == dev)
}

fn remedy(cause: &Cause) -> Vec<Remedy> {
    let Some(holder) = cause.holder() else {
        return vec![Remedy {
            text: "see who has the file open".into(),
            command: format!("fuser -v {}", words::shell(&cause.object.name)),
            ..Remedy::default()
        }];
    };
    if cause.holder_mostly() == Some(WaitClass::Stopped) {
        return vec![Remedy {
            text: "continue the holder".into(),
            command: format!("kill -CONT {}", holder.pid),
            undo: format!("kill -STOP {}", holder.pid),
        }];
    }
    vec![Remedy {
        text: "if the holder is not meant to hold it, end it".into(),
        command: format!("kill {}", holder.pid),
        ..Remedy::default()
    }]
}
