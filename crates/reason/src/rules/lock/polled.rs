//! lock.polled: a lock that is taken is tried again and again, with sleeps in between.
//!
//! SQLite, package managers and everybody who makes a lock file: the kernel makes nobody wait, so no stack shows a wait
//! for a lock. The facts are the refusals (fcntl, flock; a file that may not be there yet) and the sleeps between them. Who
//! holds a lock the kernel's table says; who made a file nobody can see from outside. Without root no refusal is seen, and the
//! lock table with the open files stands for it (waits/open_locked.rs). Must not: take a sleep for a wait that no refusal comes
//! before (waits/retries.rs), where they are reported.

use super::file_words::Holders;
use crate::facts::Denied;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::refusals::Tries;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::rule::{FileSeen, file_of};
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::rules::{holder_doing, refusal_words};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.polled",
    title: "A lock that is taken is tried again and again",
    theory: "A program that must not hang does not let the kernel make it wait: it tries the lock (F_SETLK, LOCK_NB), or makes \
             a file that must not be there yet (O_EXCL, mkdir, link), and sleeps before the next try if that is refused. \
             Nobody wakes it when the lock is free, so it loses the rest of its sleep too, and of several that try, any may \
             get it next. A lock file stays behind if who made it is killed: then all tries are in vain.",
    needs: &[
        "calls that try a lock, or make a file, were refused again and again for the same file",
        "a sleep stands between them: of the thread that was refused, or, where a script's children are refused, of the \
         script or another child of it",
        "without root no refusal is seen: the process has the file open without a lock on it, somebody else has one, and it \
         sleeps at least twice meanwhile",
    ],
    refuted_by: &[
        Refutation::new("no call was refused", "a_sleep_without_a_refusal_stays_a_sleep"),
        Refutation::new(
            "the file was refused once, and not asked for again",
            "a_file_that_was_refused_once_is_not_polled",
        ),
        Refutation::new(
            "the child that was refused ended well: it did not need to make the file",
            "a_child_that_ended_well_was_not_waiting",
        ),
        Refutation::new(
            "the holder itself is held up by something with a name (then that is the finding)",
            "a_holder_that_waits_for_a_cpu_is_the_cpus_victim",
        ),
    ],
    remedies: &[
        "end or continue the holder",
        "see whether who made the lock file still lives; remove the file if he does not",
        "let the kernel make it wait (F_SETLKW, flock without LOCK_NB), which wakes it at once",
    ],
    stories: &[],
    thresholds: &[&refusal_words::SLEPT_MIN],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let of_end = |(at, end): (usize, &'m End)| {
        let Some(tries) = refusal_words::tries(measures, end) else {
            return Some(holder_doing::claim(unreported(measures, end)?, ends, at));
        };
        let holders = Holders::of(measures, end);
        let proof = match (&holders.main, tries.reported) {
            (Some(_), _) => Proof::Read,
            (None, 1) => Proof::OneWitness,
            (None, _) => Proof::TwoWitnesses,
        };
        let by = holders.main.as_ref().map_or_else(
            || Culprit { name: measures.model.name_of(&end.object).name, ..Culprit::default() },
            |holder| culprit(measures.model, holder),
        );
        let explain = move |loss: &Loss<'_>| explain(measures, end, (&tries, &holders), loss);
        let matched = Match::new(by, proof, explain);
        Some(holder_doing::claim(matched, ends, at))
    };
    holder_doing::open(ends, WaitClass::PolledLock).filter_map(of_end).collect()
}

/// Where refused calls are not reported: the file is open, somebody else has the lock on it, and sleeps follow each other.
fn unreported<'m>(measures: &'m Measures<'m>, end: &'m End) -> Option<Match<'m>> {
    let slept = end.seconds / measures.wall_seconds().max(1e-9);
    if measures.model.look.host.kernel_events || slept < refusal_words::SLEPT_MIN.value {
        return None;
    }
    let holders = Holders::of(measures, end);
    let by = culprit(measures.model, holders.main.as_ref()?);
    let explain = move |loss: &Loss<'_>| sleeps_before(measures, end, &holders, loss);
    Some(Match::new(by, Proof::OneWitness, explain))
}

fn sleeps_before(
    measures: &Measures<'_>,
    end: &End,
    holders: &Holders<'_>,
    loss: &Loss<'_>,
) -> Wording {
    let path = measures.model.name_of(&end.object).name;
    let by = holders.name_or("somebody");
    let mut evidence =
        vec![Evidence::new("time slept", loss.seconds, "s", "/proc/PID/syscall, schedstat")];
    evidence.extend(holders.evidence());
    Wording {
        title: format!("{} sleeps again and again while {by} holds a lock on {path}", loss.victim),
        text: format!(
            "{} pass asleep. It has that file open, and no lock on it; {by} has one all the while. {} That it \
             tries for the lock between its sleeps is not seen without root.",
            words::of_window(loss.seconds, loss.wall_seconds),
            holders.sentences(measures, end),
        ),
        evidence,
        remedy: holders.ways_out(measures, end),
    }
}

fn explain(
    measures: &Measures<'_>,
    end: &End,
    (tries, holders): (&Tries<'_>, &Holders<'_>),
    loss: &Loss<'_>,
) -> Wording {
    match end.object {
        Object::Path(_) => in_the_way(measures, end, tries, loss),
        _ => locked(measures, end, (tries, holders), loss),
    }
}

/// A lock of the kernel's table.
fn locked(
    measures: &Measures<'_>,
    end: &End,
    (tries, holders): (&Tries<'_>, &Holders<'_>),
    loss: &Loss<'_>,
) -> Wording {
    let path = measures.model.name_of(&end.object).name;
    let by = holders.name_or("somebody who was not seen");
    let mut evidence = refusal_words::evidence(tries, loss.seconds);
    evidence.extend(holders.evidence());
    let last = tries.last;
    let is_victim = |pid: u32| end.victims.contains_key(&pid);
    let denied = || measures.model.threads.denied.iter().map(|(_, it)| it);
    let is_same = |it: &&Denied| it.thread.tid == last.thread.tid && it.object == last.object;
    let victim = &loss.victim;
    let title = match is_victim(last.thread.pid) || is_victim(last.parent_pid) {
        true => format!("{victim} tries again and again for a lock on {path} that {by} holds"),
        // One that tries once only is begun for that, and gone.
        false if denied().filter(is_same).count() < 2 => {
            format!(
                "{victim} waits for a lock on {path} that is tried again and again, and that {by} holds"
            )
        }
        false => format!(
            "{victim} waits for {}, which tries again and again for a lock on {path} that {by} holds",
            words::who(&last.thread)
        ),
    };
    Wording {
        title,
        text: format!(
            "{} {} Nobody wakes it when the lock is free: it sleeps on to its next try.",
            refusal_words::between(tries, loss.seconds, loss.wall_seconds),
            holders.sentences(measures, end),
        ),
        evidence,
        remedy: holders.ways_out(measures, end),
    }
}

/// A file that may not be there.
fn in_the_way(measures: &Measures<'_>, end: &End, tries: &Tries<'_>, loss: &Loss<'_>) -> Wording {
    let path = measures.model.name_of(&end.object).name;
    let by = &tries.last.thread.comm;
    // A container has another file by that path than the host.
    let seen = file_of(measures.model, &tries.last.thread, &path);
    let of_file = |seen: &FileSeen| {
        let file = words::shell(&seen.path);
        match tries.last.syscall.starts_with("mkdir") {
            true => format!("ls -la --time-style=full-iso {file}"),
            false => format!("ls -l --time-style=full-iso {file}; cat {file}"),
        }
    };
    let command = seen.as_ref().map_or_else(String::new, of_file);
    let through = seen.as_ref().and_then(|seen| seen.through.as_ref());
    let text = "see when it was made, by whom, and whether a process id in it still lives; if nobody has it any more, remove it";
    let there = match through {
        Some(_) => " (the number is the container's own)",
        None => "",
    };
    let age = match tries.reported {
        1 => String::new(),
        // It may be another by each try.
        tries_all => format!(
            " It was there at each of {tries_all} tries that were seen, over {}.",
            words::seconds(tries.seconds())
        ),
    };
    Wording {
        title: format!("{} waits until {path} is gone: {by} cannot make it before", loss.victim),
        text: format!(
            "{}{age} Who made it cannot be seen; the file {path} names it if it holds a process id.",
            refusal_words::between(tries, loss.seconds, loss.wall_seconds),
        ),
        evidence: refusal_words::evidence(tries, loss.seconds),
        remedy: vec![Remedy {
            text: format!("{text}{there}"),
            command,
            action: Some(Action::look(Question::State).through(through)),
            ..Remedy::default()
        }],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Report;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    const SECOND: Ns = 1_000_000_000;
    const EAGAIN: i32 = 11;
    const EEXIST: i32 = 17;
    const DEV: DeviceNumber = DeviceNumber { major: 8, minor: 1 };

    /// A lock on a database that process 10 may not have.
    fn locked() -> Denied {
        let path = Some("/srv/d.db".into());
        let file = FileRef { dev: DEV, ino: 9, path, ..FileRef::default() };
        let object = Some(ObjectRef::File(file));
        Denied { errno: EAGAIN, object, ..refusal(10, "sqlite3", "fcntl") }
    }

    fn made(syscall: &str) -> Denied {
        let path = Some("/srv/l.d".into());
        Denied { errno: EEXIST, path, ..refusal(10, "job", syscall) }
    }

    /// Process 20 holds that lock, by the kernel's table, in which files have no names.
    fn held() -> Fact {
        let lock = FileLock {
            id: 1,
            kind: "POSIX".into(),
            access: "WRITE".into(),
            pid: 20,
            comm: "backup".into(),
            dev: DEV,
            ino: 9,
            start: 0,
            end: u64::MAX,
            blocked: false,
            breaking: false,
            taker: None,
            holders: vec![thread(20, "backup")],
            open_in: Vec::new(),
            path: None,
        };
        Fact { at_ns: SECOND, body: Body::FileLock(lock) }
    }

    /// Process 10 is refused so often, and sleeps for a second each time.
    fn tries(refusal: &Denied, times: u64) -> Vec<Fact> {
        let denied = |at| Fact { at_ns: at * SECOND, body: Body::Denied(refusal.clone()) };
        let sleeps = |at| slept(10, "sqlite3", at * SECOND + 1_000, (at + 1) * SECOND - 1_000);
        (1..=times).map(denied).chain((1..=times.max(3)).map(sleeps)).collect()
    }

    /// The same, of a look at process 10; `more` is what the holder does.
    fn tried(refusal: &Denied, times: u64, more: Vec<Fact>) -> Report {
        let of_process = vec![of_process(10, "sqlite3")];
        explain([host(), more, of_process, tries(refusal, times)].concat())
    }

    fn is_polled(report: &Report) -> bool {
        report.findings.iter().any(|found| found.code == "lock.polled")
    }

    #[test]
    fn who_holds_a_lock_that_is_only_tried_is_read_from_the_table() {
        let holder = blocked(20, "backup", WaitState::Sleep, "nanosleep");
        let report = tried(&locked(), 3, vec![held(), holder]);
        let found = &report.findings[0];
        assert_eq!((&*found.code, &*found.object.name), ("lock.polled", "/srv/d.db"));
        assert_eq!((found.culprit.pid, &*found.remedy[0].command), (Some(20), "kill 20"));
        let end = &report.answer.ends[0];
        assert_eq!((end.end, end.finding), (EndKind::Lock, Some(0)));
        assert!((end.seconds - 3.0).abs() < 0.01, "{}", end.seconds);
    }

    #[test]
    fn whose_server_tries_for_a_lock_does_not_try_itself() {
        let asks = inet("tcp", 100, "127.0.0.1:40000", "127.0.0.1:80", 1);
        let place = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(asks.clone()),
            ..Place::default()
        };
        let facts = vec![
            of_process(30, "curl"),
            at_place(30, "curl", place),
            endpoint(30, "curl", asks),
            endpoint(10, "sqlite3", inet("tcp", 101, "127.0.0.1:80", "127.0.0.1:40000", 1)),
            held(),
            blocked(20, "backup", WaitState::Sleep, "nanosleep"),
        ];
        let report = explain([host(), facts, tries(&locked(), 3)].concat());
        let title = &report.findings[0].title;
        assert!(title.starts_with("curl waits for sqlite3 10, which tries again"), "{title}");
    }

    #[test]
    fn of_readings_of_the_table_one_counts_that_knows_who_has_the_lock() {
        let read = |at: Ns, has: &[ThreadRef]| {
            let mut read = Fact { at_ns: at * SECOND, ..held() };
            if let Body::FileLock(lock) = &mut read.body {
                lock.kind = "OFDLCK".into();
                (lock.pid, lock.holders) = (-1, has.to_vec());
            }
            read
        };
        let holder = |has: &[ThreadRef]| {
            let sleeps = blocked(20, "backup", WaitState::Sleep, "nanosleep");
            let report = tried(&locked(), 3, vec![read(1, &[]), read(4, has), sleeps]);
            report.findings[0].culprit.pid
        };
        assert_eq!(holder(&[thread(20, "backup")]), Some(20));
        assert_eq!(holder(&[thread(10, "sqlite3")]), None, "it had the lock itself in the end");
    }

    #[test]
    fn a_file_that_is_in_the_way_has_no_holder_to_be_seen() {
        let report = tried(&made("openat"), 3, Vec::new());
        let found = &report.findings[0];
        assert_eq!((&*found.code, &*found.culprit.name), ("lock.polled", "/srv/l.d"));
        let command = &found.remedy[0].command;
        assert_eq!(command, "ls -l --time-style=full-iso /srv/l.d; cat /srv/l.d");
        assert!(found.text.contains("Who made it cannot be seen"), "{}", found.text);
    }

    #[test]
    fn a_sleep_without_a_refusal_stays_a_sleep() {
        let holder = blocked(20, "backup", WaitState::Sleep, "nanosleep");
        assert!(!is_polled(&tried(&locked(), 0, vec![held(), holder])));
    }

    /// Without kernel events: process 10 has the file open that 20 has locked, and sleeps so often.
    fn open_without_root(sleeps: u64, kernel_events: bool) -> Report {
        let holder = blocked(20, "backup", WaitState::Sleep, "nanosleep");
        let mut facts = [host(), vec![of_process(10, "sqlite3"), holder]].concat();
        let host = Host { kernel_events, ..Host::default() };
        facts.push(fact(Body::Host(host)));
        for at in [1, 2, 3] {
            let mut read = held();
            read.at_ns = at * SECOND;
            if let Body::FileLock(lock) = &mut read.body {
                lock.open_in = vec![thread(10, "sqlite3")];
            }
            facts.push(read);
        }
        for at in 1..=sleeps {
            facts.push(slept(10, "sqlite3", at * SECOND + 1_000, (at + 1) * SECOND - 1_000));
        }
        explain(facts)
    }

    #[test]
    fn where_no_refusal_is_reported_the_open_file_and_its_lock_say_it() {
        let report = open_without_root(3, false);
        let found = &report.findings[0];
        assert_eq!((&*found.code, found.culprit.pid), ("lock.polled", Some(20)));
        assert!(found.text.contains("not seen without root"), "{}", found.text);
        assert_eq!(report.answer.ends[0].end, EndKind::Lock);
        assert!(!is_polled(&open_without_root(1, false)), "one sleep is no try again");
        assert!(!is_polled(&open_without_root(3, true)), "a refusal would have been seen");
    }

    #[test]
    fn a_file_that_was_refused_once_is_not_polled() {
        assert!(!is_polled(&tried(&made("openat"), 1, Vec::new())));
        assert!(is_polled(&tried(&made("link"), 1, Vec::new())), "nobody links for another reason");
    }

    #[test]
    fn a_program_that_makes_its_folder_waits_for_nobody() {
        assert!(!is_polled(&tried(&made("mkdir"), 3, Vec::new())));
    }

    #[test]
    fn a_child_that_ended_well_was_not_waiting() {
        let script = |code| explain(script_whose_children_are_refused(&made("mkdir"), code));
        assert!(!is_polled(&script(0)));
        let report = script(256);
        assert!(is_polled(&report));
        assert!(report.findings[0].title.starts_with("sh waits"), "{}", report.findings[0].title);
    }

    #[test]
    fn a_holder_that_waits_for_a_cpu_is_the_cpus_victim() {
        let wait = Wait { thread: thread(20, "backup"), end_ns: LOOK_NS, ..Wait::default() };
        assert!(!is_polled(&tried(&locked(), 3, vec![held(), fact(Body::Wait(wait))])));
    }
}
