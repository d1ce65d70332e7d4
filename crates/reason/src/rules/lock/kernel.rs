//! lock.kernel: threads wait for a sleeping lock inside the kernel that another thread holds.
//!
//! Whoever let go of the lock as a wait ended had it last; the lock's own owner field says the same as the wait began, where
//! the kernel keeps one. What the holder does meanwhile is followed like any other time: a disk, a limit or a daemon under the
//! lock is the cause, and this rule has nothing to claim. So what is left is work, sleep, or what was not seen.
//! Must not: claim a wait that many short holders share with a device, or name a lock by a guess at its address; or weigh what is
//! lost: what is brief and rare is the price of sharing (answer/mod.rs), unless it is one long moment (measure/moment.rs).
//! Rejected: counting contention events (a lock that is met often and held briefly costs next to nothing).

use super::kernel_words;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::rules::{holder_doing, wait_words};
use crate::waits::WaitClass;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.kernel",
    title: "Threads wait for a lock inside the kernel that another thread holds",
    theory: "The kernel guards a directory's entries, an inode, a process's mappings, a mounted file system, the list of network \
             devices and the tree of cgroups by one sleeping lock each. While a thread works under it, or sleeps, every other \
             that wants it stands still in state D, however many CPUs are idle; it looks like a disk, and no disk is busy.",
    needs: &[
        "waits in state D for a mutex or rw_semaphore (contention_begin, or the task's blocker; before 6.0 the stack, \
         which names the function that asks for it)",
        "who held it: the thread that let go of it and so ended the wait, or the owner that the lock names",
    ],
    refuted_by: &[
        Refutation::new(
            "nobody is known to hold it",
            "a_lock_that_nobody_was_seen_to_hold_is_left_unnamed",
        ),
        Refutation::new(
            "the holder itself is held up by something with a name",
            "a_holder_that_waits_for_a_disk_is_the_disks_victim",
        ),
        Refutation::new(
            "the waits are few and brief",
            "what_is_lost_to_a_lock_now_and_then_is_its_price",
        ),
    ],
    remedies: &[
        "a directory's: give each writer one of its own, or many small ones by a hash of the name",
        "a process's mappings: map and unmap less often, or read its /proc/PID/smaps and maps less often",
        "the list of network devices: make and remove devices in fewer, larger steps",
        "see what the holder does, and have it do that less often or in smaller steps",
    ],
    stories: &["S1.5", "S3.7"],
    thresholds: &[],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let of_end = |(at, end): (usize, &'m End)| {
        let holder = wait_words::holder(measures, end)?;
        let by = culprit(measures.model, &holder);
        let matched =
            Match::new(by, proof(measures, end), move |loss| explain(measures, end, loss));
        Some(holder_doing::claim(matched, ends, at))
    };
    holder_doing::open(ends, WaitClass::KernelLock).filter_map(of_end).collect()
}

/// The lock names one of those who are seen to let go of it, or only one of the two is known.
fn proof(measures: &Measures<'_>, end: &End) -> Proof {
    let mut named =
        measures.waits().filter(|wait| wait.class == end.class && wait.object == end.object);
    let is_named = named.any(|wait| {
        let owner = wait.place.lock.as_ref().and_then(|lock| lock.owner.as_ref());
        owner.is_some_and(|owner| end.holders.contains_key(&owner.pid))
    });
    if is_named { Proof::Read } else { Proof::Inferred }
}

fn explain(measures: &Measures<'_>, end: &End, loss: &Loss<'_>) -> Wording {
    let holder = wait_words::holder(measures, end);
    let by = kernel_words::holders(measures, end, holder.as_ref());
    let longest = wait_words::longest(measures, end);
    let holds = if by.ends_with(" more") { "hold" } else { "holds" };
    let lock = kernel_words::phrase(measures.model, end);
    let meanwhile = holder_doing::meanwhile(measures, end);
    let in_turn = end.holders.keys().filter(|pid| end.victims.contains_key(pid)).count();
    let held = match in_turn {
        0 | 1 => format!("{by} {holds} it most and {} under it.", meanwhile.does),
        many => {
            format!("{many} processes hold it in turn, {by} most; it {} under it.", meanwhile.does)
        }
    };
    let source = match kernel_words::is_reported(measures, end) {
        true => "contention_begin, sched_switch",
        false => "sched_switch, kernel stacks",
    };
    let mut evidence = vec![
        Evidence::new("wait for the lock", loss.seconds, "s", source),
        Evidence::new("waits", end.count as f64, "1", source),
        Evidence::new(
            "processes that held it",
            end.holders.len() as f64,
            "1",
            "sched_waking, the lock's owner",
        ),
        Evidence::new(
            "of the waits, its holder at work",
            100.0 * at_work(measures, end),
            "%",
            "sched_switch",
        ),
    ];
    evidence.extend(wait_words::longest_evidence(&longest, "longest wait, as far as it was seen"));
    Wording {
        title: format!("{} waits for {lock} that {by} {holds}", wait_words::waiter(measures, end)),
        text: format!(
            "{} pass in {} for {lock}{}; the longest {}. {held}",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(end.count as usize, "wait", "waits"),
            kernel_words::calls(measures, end),
            wait_words::lasted_of(&longest, loss.seconds),
        ),
        evidence,
        remedy: kernel_words::ways_out(end, holder.as_ref()),
    }
}

/// Share of the waits in which the holder works.
fn at_work(measures: &Measures<'_>, end: &End) -> f64 {
    let meanwhile = holder_doing::meanwhile(measures, end);
    if meanwhile.at_work { meanwhile.share } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use crate::answer::{EndKind, Report, explain};
    use crate::facts::*;
    use crate::rules::scenes::*;

    const SPOOL: &str = "/var/spool/in";

    fn waits_for(guards: Guards, owner: Option<ThreadRef>) -> Place {
        let file = FileRef {
            dev: DeviceNumber { major: 8, minor: 1 },
            ino: 12,
            path: Some(SPOOL.into()),
            ..FileRef::default()
        };
        let lock = KernelLock {
            id: 1,
            kind: KernelLockKind::RwSemaphore,
            guards,
            owner,
            ..KernelLock::default()
        };
        Place {
            state: WaitState::DiskSleep,
            syscall: "openat".into(),
            object: Some(ObjectRef::File(file)),
            lock: Some(Box::new(lock)),
            ..Place::default()
        }
    }

    /// Process 10 waits for the lock of a directory until 20 wakes it, which does `meanwhile`.
    fn creator(begin_ns: Ns, woken: bool, meanwhile: Vec<Fact>) -> Report {
        explain(facts(begin_ns, woken, meanwhile))
    }

    fn facts(begin_ns: Ns, woken: bool, meanwhile: Vec<Fact>) -> Vec<Fact> {
        let by = thread(20, "maker");
        let wake =
            Wake { at_ns: LOOK_NS, context: WakeContext::Task, by: by.clone(), ..Wake::default() };
        let wait = Wait {
            thread: thread(10, "creator"),
            begin_ns,
            end_ns: LOOK_NS,
            place: waits_for(Guards::Directory, woken.then_some(by)),
            wake: woken.then_some(wake),
            ..Wait::default()
        };
        let mut facts = host();
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Wait(wait) });
        facts.extend(meanwhile);
        facts
    }

    fn works() -> Vec<Fact> {
        let ran = Ran { thread: thread(20, "maker"), begin_ns: 0, end_ns: LOOK_NS, cpu: 0 };
        vec![Fact { at_ns: LOOK_NS, body: Body::Ran(ran) }]
    }

    fn codes(report: &Report) -> Vec<&str> {
        report.findings.iter().map(|finding| finding.code.as_str()).collect()
    }

    #[test]
    fn a_directory_is_named_with_who_works_under_its_lock() {
        let report = creator(0, true, works());
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, &*finding.object.name), ("lock.kernel", SPOOL));
        assert_eq!(finding.culprit.pid, Some(20));
        assert!(finding.title.contains("the lock of directory /var/spool/in"), "{}", finding.title);
        assert!(finding.text.contains("is at work under it"), "{}", finding.text);
    }

    #[test]
    fn the_owner_that_the_lock_names_holds_what_nobody_has_let_go_of() {
        let mut facts = host();
        facts.push(at_place(
            10,
            "creator",
            waits_for(Guards::Directory, Some(thread(20, "maker"))),
        ));
        facts.push(blocked(20, "maker", WaitState::Sleep, "clock_nanosleep"));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.culprit.pid), ("lock.kernel", Some(20)));
        assert!(finding.text.contains("sleeps under it"), "{}", finding.text);
    }

    #[test]
    fn a_lock_that_nobody_was_seen_to_hold_is_left_unnamed() {
        assert!(!codes(&creator(0, false, works())).contains(&"lock.kernel"));
    }

    #[test]
    fn a_holder_that_waits_for_a_disk_is_the_disks_victim() {
        let disk = at_place(20, "maker", reads_from(DeviceNumber { major: 8, minor: 1 }));
        let report = creator(0, true, vec![disk]);
        assert!(!codes(&report).contains(&"lock.kernel"), "{:?}", codes(&report));
        assert!(report.answer.ends.iter().any(|end| end.end == EndKind::Device));
    }

    #[test]
    fn what_is_lost_to_a_lock_now_and_then_is_its_price() {
        let brief = LOOK_NS - LOOK_NS / 50;
        assert!(codes(&creator(brief, true, works())).is_empty());
    }

    #[test]
    fn a_lock_that_was_held_for_long_once_in_a_minute_is_named_with_that_moment() {
        let waits = |ms: Ns| {
            let mut facts = facts(LOOK_NS - ms * 1_000_000, true, works());
            for Fact { at_ns, body } in &mut facts {
                if matches!(body, Body::WindowEnd(_)) {
                    *at_ns = 12 * LOOK_NS;
                }
            }
            explain(facts)
        };
        let report = waits(350);
        assert_eq!(codes(&report), ["lock.kernel"]);
        assert!(report.findings[0].impact.moment.is_some());
        assert!(codes(&waits(100)).is_empty());
    }
}
