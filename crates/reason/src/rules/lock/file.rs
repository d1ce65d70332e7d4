//! lock.file: somebody holds a lock on a file that others wait for.
//!
//! flock, fcntl (POSIX and OFD) and leases. The lock table has the holder; a wake-up alone could come from a
//! third waiter. What the holder does meanwhile is said, because it is the way out: if it is stopped, continue
//! it; if it sleeps, ask why it holds a lock while it sleeps.

use crate::facts::FileLock;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::{FileKey, Object};
use crate::model::words;
use crate::rules::Refutation;
use crate::rules::engine::Loss;
use crate::rules::process::{holder_doing, wait_words};
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Rule, culprit};
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
        Refutation::new(
            "the thread waits for no lock but inside the file system",
            "a_wait_inside_the_file_system_is_for_no_lock",
        ),
        Refutation::new(
            "the holder itself is held up by something with a name (then that is the finding)",
            "a_holder_that_waits_for_a_cpu_is_the_cpus_victim",
        ),
    ],
    remedies: &[
        "end or continue the holder",
        "hold the lock for less time",
        "use a timeout (flock -w)",
    ],
    stories: &["S3.14", "S4.3"],
    thresholds: &[],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let of_end = |(at, end): (usize, &'m End)| {
        let lock = held_lock(measures, end);
        let holder = wait_words::holder(measures, end);
        let by = holder.map_or_else(Culprit::default, |holder| culprit(measures.model, &holder));
        let proof = if lock.is_some() { Proof::Read } else { Proof::Inferred };
        let matched = Match::new(by, proof, move |loss| explain(measures, end, lock, loss));
        holder_doing::claim(matched, ends, at)
    };
    holder_doing::open(ends, WaitClass::FileLock).map(of_end).collect()
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    lock: Option<&FileLock>,
    loss: &Loss<'_>,
) -> Wording {
    let path = measures.model.name_of(&end.object).name;
    let holder = wait_words::holder(measures, end);
    let by = holder.as_ref().map_or_else(|| "an unknown holder".to_string(), words::who);
    let longest = wait_words::longest(measures, end);
    let doing = match end.holder_mostly() {
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::FrozenCgroup) => "is frozen",
        Some(WaitClass::Timer) => "sleeps",
        Some(WaitClass::Running | WaitClass::Unseen) => "is at work",
        Some(WaitClass::Child) => "waits for a child",
        _ => "waits itself",
    };
    let mut evidence =
        wait_words::longest_evidence(&longest, "longest wait, as far as it was seen");
    if let Some(lock) = lock {
        evidence.push(Evidence::new(
            format!("{} {} lock held by pid {}", lock.kind, lock.access, lock.pid),
            1.0,
            "1",
            "/proc/locks",
        ));
    }
    Wording {
        title: format!(
            "{} waits for a lock on {path} that {by} holds",
            wait_words::waiter(measures, end)
        ),
        text: format!(
            "{} pass in waits for the lock; the longest {}. The holder {by} {doing}.",
            words::of_window(loss.seconds, loss.wall_seconds),
            wait_words::lasted(&longest),
        ),
        evidence,
        remedy: ways_out(measures, end),
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

/// The ways out for whoever waits for a lock on a file: by its holder, as far as one was seen.
pub fn ways_out(measures: &Measures<'_>, end: &End) -> Vec<Remedy> {
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
        command: holder_doing::end_command(measures.model, &all),
        ..Remedy::default()
    }]
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Process 10 waits for an flock that process 20 took, and its child 21 inherited.
    fn waiter(inner_pid: Option<u32>, place: Place, holder: Fact) -> Vec<Fact> {
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
            open_in: Vec::new(),
            path: Some("/run/job".into()),
        };
        let file = FileRef { dev, ino, path: Some("/run/job".into()), ..FileRef::default() };
        let place = Place { object: Some(ObjectRef::File(file)), ..place };
        let mut facts = host();
        facts.push(Fact { at_ns: LOOK_NS, body: Body::FileLock(lock) });
        facts.push(identity(Thread {
            thread: thread(20, "flock"),
            inner_pid,
            ..Thread::default()
        }));
        facts.push(at_place(10, "job", place));
        facts.push(holder);
        facts
    }

    fn flock() -> Place {
        Place { state: WaitState::Sleep, syscall: "flock".into(), ..Place::default() }
    }

    fn held(inner_pid: Option<u32>) -> String {
        let holder = blocked(20, "flock", WaitState::Sleep, "wait4");
        let report = explain(waiter(inner_pid, flock(), holder));
        assert_eq!(report.findings[0].code, "lock.file");
        report.findings[0].remedy[0].command.clone()
    }

    #[test]
    fn a_wait_inside_the_file_system_is_for_no_lock() {
        let place =
            Place { state: WaitState::DiskSleep, syscall: "fsync".into(), ..Place::default() };
        let holder = blocked(20, "flock", WaitState::Sleep, "wait4");
        let report = explain(waiter(None, place, holder));
        assert!(report.findings.iter().all(|f| f.code != "lock.file"));
    }

    #[test]
    fn a_holder_that_waits_for_a_cpu_is_the_cpus_victim() {
        let wait = Wait { thread: thread(20, "flock"), end_ns: LOOK_NS, ..Wait::default() };
        let report = explain(waiter(None, flock(), fact(Body::Wait(wait))));
        assert!(report.findings.iter().all(|f| f.code != "lock.file"));
    }

    #[test]
    fn a_stopped_holder_is_reported_once() {
        let holder = blocked(20, "flock", WaitState::Stopped, "");
        let report = explain(waiter(None, flock(), holder));
        assert_eq!(report.findings.len(), 1);
        assert_eq!(report.findings[0].remedy[0].command, "kill -CONT 20");
    }

    #[test]
    fn a_wait_whose_begin_is_a_guess_claims_no_more_than_the_look_saw() {
        let mut facts = waiter(None, flock(), blocked(20, "flock", WaitState::Sleep, "wait4"));
        facts[0].at_ns = 1_000_000_000;
        for fact in &mut facts {
            if let Body::Blocked(blocked) = &mut fact.body {
                blocked.since_estimated = true;
            }
        }
        let text = explain(facts).findings[0].text.clone();
        assert!(text.contains("the longest has lasted at least 4.00 s"), "{text}");
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
