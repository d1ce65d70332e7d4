//! lock.file: somebody holds a lock on a file that others wait for.
//!
//! flock, fcntl (POSIX and OFD) and leases. The lock table tells the holder; a wake-up alone could come from a
//! third waiter. What the holder does meanwhile is told, because it is the way out: if it is stopped, continue
//! it; if it sleeps, ask why it holds a lock while it sleeps.

use crate::facts::FileLock;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::{FileKey, Object};
use crate::model::words;
use crate::rules::Refutation;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Rule, culprit, process};
use crate::waits::WaitClass;

/// The rule.
pub static RULE: Rule = Rule {
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
        Refutation::new("nobody holds a conflicting lock on the file", ""),
        Refutation::new(
            "the holder itself is held up by something with a name (then that is the finding)",
            "",
        ),
    ],
    remedies: &[
        "end or continue the holder",
        "hold the lock for less time",
        "use a timeout (flock -w)",
    ],
    stories: &["S3.14", "S4.3"],
    thresholds: &[],
    finds: Finds::End(find),
};

fn find<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let lock = held_lock(measures, end);
    let is_lease = lock.is_some_and(|lock| lock.kind == "LEASE");
    if end.class != WaitClass::FileLock || end.circle || is_lease {
        return None;
    }
    let by = end.holder().map_or_else(Culprit::default, |holder| culprit(measures.model, holder));
    let proof = if lock.is_some() { Proof::Read } else { Proof::Inferred };
    Some(Match::new(by, proof, move |loss| explain(measures, end, lock, loss)))
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    lock: Option<&FileLock>,
    loss: &Loss<'_>,
) -> Wording {
    let path = measures.model.name_of(&end.object).name;
    let by = end.holder().map_or_else(|| "an unknown holder".to_string(), words::who);
    let doing = match end.holder_mostly() {
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::FrozenCgroup) => "is frozen",
        Some(WaitClass::Timer) => "sleeps",
        Some(WaitClass::Running | WaitClass::Unseen) => "is at work",
        Some(WaitClass::Child) => "waits for a child",
        _ => "waits itself",
    };
    let mut evidence = vec![Evidence::new(
        "longest wait, its time before the look included",
        end.longest_seconds,
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
    Wording {
        title: format!("{} waits for a lock on {path} that {by} holds", loss.victim),
        text: format!(
            "{} pass in waits for the lock; the longest {} {}. The holder {by} {doing}.",
            words::of_window(loss.seconds, loss.wall_seconds),
            if end.standing { "has lasted" } else { "took" },
            words::seconds(end.longest_seconds),
        ),
        evidence,
        remedy: remedy(measures, end),
    }
}

/// The lock on a cause's file that somebody holds.
pub fn held_lock<'a>(measures: &'a Measures<'_>, end: &End) -> Option<&'a FileLock> {
    let Object::File(Some(file)) = end.object else { return None };
    measures
        .model
        .locks
        .iter()
        .map(|(_, lock)| lock)
        .find(|lock| !lock.blocked && (lock.dev, lock.ino) == (file.dev, file.ino))
}

fn remedy(measures: &Measures<'_>, end: &End) -> Vec<Remedy> {
    let Some(holder) = end.holder() else {
        return vec![Remedy {
            text: "see who has the file open".into(),
            command: format!(
                "fuser -v {}",
                words::shell(&measures.model.name_of(&end.object).name)
            ),
            ..Remedy::default()
        }];
    };
    if end.holder_mostly() == Some(WaitClass::Stopped) {
        return vec![Remedy {
            text: "continue the holder".into(),
            command: format!("kill -CONT {}", holder.pid),
            undo: format!("kill -STOP {}", holder.pid),
        }];
    }
    // An flock stands as long as any process has the descriptor.
    let mut all = vec![holder.pid];
    let same = |lock: &&FileLock| {
        !lock.blocked
            && Object::File(Some(FileKey { dev: lock.dev, ino: lock.ino })) == end.object
            && lock.holders.iter().any(|other| other.pid == holder.pid)
    };
    if let Some(lock) = measures.model.locks.iter().rev().map(|(_, lock)| lock).find(same) {
        all.extend(lock.holders.iter().map(|h| h.pid).filter(|pid| *pid != holder.pid));
    }
    vec![Remedy {
        text: match all.len() {
            1 => "if the holder is not meant to hold it, end it".into(),
            _ => "if nobody is meant to hold it, end all that do (it is inherited)".into(),
        },
        command: process::end(measures.model, &all),
        ..Remedy::default()
    }]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Process 10 waits for an flock that process 20 took, and its child 21 inherited.
    fn held(inner_pid: Option<u32>) -> String {
        let (dev, ino) = (DeviceNumber { major: 8, minor: 1 }, 99);
        let lock = FileLock {
            id: 1,
            kind: "FLOCK".into(),
            access: "WRITE".into(),
            pid: 20,
            comm: "flock".into(),
            dev,
            ino,
            start: 0,
            end: u64::MAX,
            blocked: false,
            breaking: false,
            holders: vec![thread(20, "flock"), thread(21, "sleep")],
            path: Some("/run/job".into()),
        };
        let file = FileRef { dev, ino, path: Some("/run/job".into()), ..FileRef::default() };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "flock".into(),
            object: Some(ObjectRef::File(file)),
            ..Place::default()
        };
        let mut facts = host();
        facts.push(Fact { at_ns: LOOK_NS, body: Body::FileLock(lock) });
        facts.push(identity(Thread {
            thread: thread(20, "flock"),
            inner_pid,
            ..Thread::default()
        }));
        facts.push(at_place(10, "job", place));
        facts.push(blocked(20, "flock", WaitState::Sleep, "wait4"));
        let report = explain(facts);
        assert_eq!(report.findings[0].code, "lock.file");
        report.findings[0].remedy[0].command.clone()
    }

    #[test]
    fn a_lock_is_free_when_all_who_inherited_it_have_ended() {
        assert_eq!(held(None), "kill 20 21");
    }

    #[test]
    fn the_first_process_of_a_namespace_hears_only_the_signal_that_cannot_be_ignored() {
        assert_eq!(held(Some(1)), "kill -KILL 20 21");
    }
}
