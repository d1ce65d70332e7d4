//! lock.file: somebody holds a lock on a file that others wait for.
//!
//! flock, fcntl (POSIX and OFD) and leases. The lock table has the holder; a wake-up alone could come from a
//! third waiter. What the holder does meanwhile is said, because it is the way out: if it is stopped, continue
//! it; if it sleeps, ask why it holds a lock while it sleeps.

use super::file_words::Holders;
use crate::graph::end::{End, EndKind};
use crate::measure::Measures;
use crate::model::words;
use crate::rules::Refutation;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Wording};
use crate::rules::{Finds, Match, Rule, culprit};
use crate::rules::{holder_doing, wait_words};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
        let holders = Holders::of(measures, end);
        let by = holders.main.as_ref();
        let proof = match (holders.lock, by) {
            (Some(_), Some(_)) => Proof::Read,
            _ if holders.is_its_own => Proof::Read,
            (Some(_), None) => Proof::OneWitness,
            (None, _) => Proof::Inferred,
        };
        let own = holders.is_its_own.then(|| &end.links[end.named].who);
        let by = by.or(own).map_or_else(Culprit::default, |it| culprit(measures.model, it));
        let matched = Match::new(by, proof, move |loss| explain(measures, end, &holders, loss));
        holder_doing::claim(matched, ends, at)
    };
    let open = holder_doing::open(ends, WaitClass::FileLock);
    open.filter(|(_, end)| !is_rest(measures, end)).map(of_end).collect()
}

/// Whether whoever has the lock stands without a CPU for longer than this end is, and works for the rest: that is the cause, and what is left of
/// the lock is none.
fn is_rest(measures: &Measures<'_>, end: &End) -> bool {
    let is_behind = |it: &&End| {
        it.kind == EndKind::Cpu && it.links[..it.named].iter().any(|on| on.object == end.object)
    };
    let ready: f64 = measures.graph.ends.iter().filter(is_behind).map(|it| it.seconds).sum();
    ready > end.seconds && holder_doing::meanwhile(measures, end).at_work
}

fn explain(measures: &Measures<'_>, end: &End, holders: &Holders<'_>, loss: &Loss<'_>) -> Wording {
    let path = measures.model.name_of(&end.object).or("a file that was not seen");
    let longest = wait_words::longest(measures, end);
    let mut evidence =
        wait_words::longest_evidence(&longest, "longest wait, as far as it was seen");
    evidence.extend(holders.evidence());
    let by = match &holders.main {
        Some(_) => format!(" that {} holds", holders.name_or("")),
        None if holders.is_its_own => ", which it holds itself".into(),
        None => ", and who holds it was not seen".into(),
    };
    Wording {
        title: format!("{} waits for a lock on {path}{by}", wait_words::waiter(measures, end)),
        text: format!(
            "{} pass in waits for the lock; the longest {}. {}",
            words::of_window(loss.seconds, loss.wall_seconds),
            wait_words::lasted(&longest),
            holders.sentences(measures, end),
        ),
        evidence,
        remedy: holders.ways_out(measures, end),
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// Process 10 waits for an flock that process 20 took, and its child 21 inherited.
    fn waiter(inner_pid: Option<u32>, place: Place, holder: Fact) -> Vec<Fact> {
        let (dev, ino) = (DeviceNumber { major: 8, minor: 1 }, 99);
        let holders = [thread(20, "flock"), thread(21, "sleep")];
        let path = Some("/run/job".to_string());
        let lock = FileLock { path, ..file_lock(1, (dev, ino), &holders) };
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

    /// The same of a lock whose line names a process that is gone, with these that carry it, and what was seen of them.
    fn taker_is_gone(holders: Vec<ThreadRef>, seen: Vec<Fact>) -> crate::answer::report::Finding {
        let mut facts = waiter(None, flock(), blocked(99, "other", WaitState::Sleep, "wait4"));
        for fact in &mut facts {
            if let Body::FileLock(lock) = &mut fact.body {
                (lock.pid, lock.comm) = (400, String::new());
                lock.holders.clone_from(&holders);
            }
        }
        facts.extend(seen);
        let report = explain(facts);
        assert_eq!(report.findings[0].code, "lock.file");
        assert!(!format!("{:?}", report.findings).contains("400"), "{:?}", report.findings);
        report.findings[0].clone()
    }

    #[test]
    fn a_lock_whose_taker_is_gone_is_held_by_all_who_carry_it() {
        let holders = vec![thread(31, "sleep"), ThreadRef { start_ns: 0, ..thread(30, "bash") }];
        let sleeps = blocked(31, "sleep", WaitState::Sleep, "clock_nanosleep");
        let finding = taker_is_gone(holders, vec![sleeps]);
        assert_eq!(finding.culprit.pid, Some(30), "the older one");
        assert_eq!(finding.remedy[0].command, "kill 30 31");
        let together = "bash 30 and sleep 31 have it together";
        assert!(finding.text.contains(together), "{}", finding.text);
    }

    #[test]
    fn of_a_lock_that_nobody_was_seen_to_hold_no_process_is_named() {
        let finding = taker_is_gone(Vec::new(), Vec::new());
        assert!(finding.title.ends_with("and who holds it was not seen"), "{}", finding.title);
        assert!(!finding.text.contains("at work"), "{}", finding.text);
        assert_eq!((finding.culprit.pid, &*finding.remedy[0].command), (None, "fuser -v /run/job"));
    }

    /// Process 10 waits for a lock that it has by another opening of the file, and was seen to have these threads.
    fn waits_for_its_own(threads: &[u32]) -> crate::answer::report::Finding {
        let mut facts = waiter(None, flock(), blocked(99, "other", WaitState::Sleep, "wait4"));
        let mut behind = Vec::new();
        for fact in &mut facts {
            if let Body::FileLock(lock) = &mut fact.body {
                (lock.pid, lock.holders) = (10, vec![thread(10, "job")]);
                let lock = FileLock { blocked: true, holders: Vec::new(), ..lock.clone() };
                behind.push(Fact { at_ns: fact.at_ns, body: Body::FileLock(lock) });
            }
        }
        facts.extend(behind);
        facts.extend(threads.iter().map(|tid| {
            let thread = ThreadRef { tid: *tid, ..thread(10, "job") };
            let time = ThreadTime { thread, until_ns: LOOK_NS, ..ThreadTime::default() };
            Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) }
        }));
        let findings = explain(facts).findings;
        findings.into_iter().find(|it| it.code == "lock.file").expect("the lock")
    }

    #[test]
    fn who_waits_for_its_own_lock_is_named_itself() {
        let finding = waits_for_its_own(&[10]);
        assert!(finding.title.ends_with("which it holds itself"), "{}", finding.title);
        assert_eq!((finding.culprit.pid, &*finding.remedy[0].command), (Some(10), "kill 10"));
    }

    #[test]
    fn of_several_threads_another_one_may_have_the_lock_and_nobody_is_to_be_ended() {
        let finding = waits_for_its_own(&[10, 11]);
        assert!(finding.title.ends_with("and who holds it was not seen"), "{}", finding.title);
        assert!(finding.text.contains("another thread of it may have it"), "{}", finding.text);
        assert_eq!((finding.culprit.pid, &*finding.remedy[0].command), (None, "fuser -v /run/job"));
    }

    /// What is said of a lock that process 21 has, where the line names this one as its taker, and 21 was begun by that one.
    fn held_by_kin(taker: i64, parent_pid: u32) -> String {
        let holder = blocked(21, "sleep", WaitState::Sleep, "clock_nanosleep");
        let mut facts = waiter(None, flock(), holder);
        for fact in &mut facts {
            if let Body::FileLock(lock) = &mut fact.body {
                lock.pid = taker;
                lock.holders = vec![thread(21, "sleep")];
            }
        }
        let child = |pid, parent_pid| {
            identity(Thread { thread: thread(pid, "sleep"), parent_pid, ..Thread::default() })
        };
        facts.extend([child(21, parent_pid), child(22, 10)]);
        explain(facts).findings[0].text.clone()
    }

    #[test]
    fn a_child_that_took_the_lock_itself_did_not_inherit_it() {
        let own = held_by_kin(21, 10);
        assert!(own.contains("sleep 21 is the waiter's own child."), "{own}");
        let inherited = held_by_kin(10, 10);
        assert!(
            inherited.contains("own child: it has the file open as it was begun"),
            "{inherited}"
        );
        let grandchild = held_by_kin(21, 22);
        assert!(grandchild.contains("sleep 21 descends from the waiter."), "{grandchild}");
    }

    #[test]
    fn the_waiters_own_child_is_said_to_be_it() {
        let sleeps = blocked(21, "sleep", WaitState::Sleep, "clock_nanosleep");
        let known = Thread { thread: thread(21, "sleep"), parent_pid: 10, ..Thread::default() };
        let finding = taker_is_gone(vec![thread(21, "sleep")], vec![sleeps, identity(known)]);
        let own = "sleep 21 is the waiter's own child";
        assert!(finding.text.contains(own), "{}", finding.text);
        assert_eq!(finding.remedy[0].command, "kill 21");
    }

    #[test]
    fn a_holder_that_has_let_go_is_not_to_be_ended() {
        let holder = blocked(20, "flock", WaitState::Sleep, "wait4");
        let mut facts = waiter(None, flock(), holder);
        let place = facts.iter().find_map(|fact| match &fact.body {
            Body::Blocked(blocked) if blocked.thread.pid == 10 => Some(blocked.place.clone()),
            _ => None,
        });
        facts.retain(|it| !matches!(&it.body, Body::Blocked(blocked) if blocked.thread.pid == 10));
        let (begin_ns, end_ns) = (1_000_000_000, LOOK_NS);
        let by = thread(20, "flock");
        let wake = Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() };
        let (thread, place) = (thread(10, "job"), place.expect("it waits"));
        let wait = Wait { thread, begin_ns, end_ns, place, wake: Some(wake), ..Wait::default() };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
        let finding = explain(facts).findings[0].clone();
        assert!(finding.text.contains("It has let go since"), "{}", finding.text);
        assert!(!finding.remedy[0].command.contains("kill"), "{:?}", finding.remedy);
    }

    #[test]
    fn nobody_works_of_whom_nothing_was_seen() {
        let finding = taker_is_gone(vec![thread(30, "bash")], Vec::new());
        assert!(finding.text.contains("bash 30 was not seen itself"), "{}", finding.text);
    }

    #[test]
    fn no_way_out_acts_on_a_process_that_has_ended() {
        let exit = |pid: u32| {
            let exit = Exit { thread: thread(pid, "job"), last: true, code: None };
            Fact { at_ns: LOOK_NS - 1, body: Body::Exit(exit) }
        };
        let holders = || vec![thread(30, "bash"), thread(31, "sleep")];
        let one = taker_is_gone(holders(), vec![exit(30)]);
        assert_eq!(one.remedy[0].command, "kill 31");
        let both = taker_is_gone(holders(), vec![exit(30), exit(31)]);
        assert_eq!(both.remedy[0].command, "fuser -v /run/job");
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
    fn what_is_left_of_a_lock_whose_holder_mostly_waits_for_a_cpu_is_no_cause() {
        let is_found = |ready_ns| {
            let wait = Wait { thread: thread(20, "flock"), end_ns: ready_ns, ..Wait::default() };
            let mut facts = waiter(None, flock(), fact(Body::Wait(wait)));
            facts.push(of_process(10, "job"));
            explain(facts).findings.iter().any(|it| it.code == "lock.file")
        };
        assert!(!is_found(LOOK_NS / 10 * 7));
        assert!(is_found(LOOK_NS / 10 * 3), "it mostly works, or does what was not seen");
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
        assert!(text.contains("the longest has lasted at least 4 s"), "{text}");
    }

    #[test]
    fn a_lock_is_free_when_all_who_inherited_it_have_ended() {
        assert_eq!(held(None), "kill 20 21");
    }

    /// The way out of a lock whose carriers could not be read, and why not.
    fn unread(kind: &str, state: WaitState, blind: Option<Blind>) -> (String, String) {
        let mut facts = waiter(None, flock(), blocked(20, "flock", state, "wait4"));
        for fact in &mut facts {
            if let Body::FileLock(lock) = &mut fact.body {
                (lock.kind, lock.taker) = (kind.into(), Some(thread(20, "flock")));
                lock.holders.clear();
            }
        }
        facts.extend(blind.map(|blind| fact(Body::Blind(blind))));
        let way = explain(facts).findings[0].remedy[0].clone();
        (way.text, way.command)
    }

    #[test]
    fn a_lock_whose_carriers_could_not_be_read_may_be_inherited_and_no_end_of_its_taker_frees_it() {
        let command = |kind: &str| unread(kind, WaitState::Sleep, None).1;
        assert_eq!(command("FLOCK"), "fuser -v /run/job");
        assert_eq!(command("POSIX"), "kill 20");
        assert_eq!(unread("FLOCK", WaitState::Stopped, None).1, "kill -CONT 20");
    }

    #[test]
    fn who_has_the_file_open_is_seen_as_root_where_the_look_was_refused_it() {
        let text = |blind| unread("FLOCK", WaitState::Sleep, blind).0;
        let refused = Blind { what: "proc.fdinfo".into(), ..Blind::default() };
        assert!(text(Some(refused)).starts_with("see as root who has the file open"));
        assert!(text(None).starts_with("see who has the file open"));
    }

    #[test]
    fn the_first_process_of_a_namespace_hears_only_the_signal_that_cannot_be_ignored() {
        assert_eq!(held(Some(1)), "kill -KILL 20 21");
    }
}
