//! lock.deadlock: a circle of threads in which each waits for a lock that the next one holds.
//!
//! Looked for among the waits that stand at the end of the window, with owners from the lock table and from glibc's mutexes. A circle of
//! owners cannot resolve itself, so it is said however idle the host is. Of locks that do not say who has them there is one where no thread
//! of the process is left that could let go (stuck.rs). The owner of a file lock may wait for its child meanwhile, as flock(1) does: then
//! for what that waits for. Must not: take a waker for an owner. Rejected: circles with anything else in them, which a packet may break.

use super::stuck::{self, Stuck};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::longest_wait::LongestWait;
use crate::model::Model;
use crate::model::object::Object;
use crate::model::words;
use crate::programs::lock_kind::LockKind;
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Losses, Match, Refutation, Rule, Step, ask, culprit};
use crate::rules::{holder_doing, wait_words};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;
use crate::waits::{monitor, user_stack};
use std::collections::BTreeSet;

/// Longer chains of owners are not followed.
const CIRCLE_MAX: usize = 16;
/// What lies at most between two pieces of one wait for a monitor: the machine wakes up, looks, and parks again.
const BETWEEN_NS: u64 = 10_000_000;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.deadlock",
    title: "Threads wait for each other's locks in a circle",
    theory: "Thread A holds one lock and waits for a second; thread B holds the second and waits for the first (the \
             circle may be longer, and cross processes by file locks). None of them can go on, and everything \
             that needs them stands still too.",
    needs: &[
        "waits for locks that have not ended",
        "the owner of each is known, and the owners form a circle; or all threads of the process wait for its own memory without \
         a time limit, two or more of them for locks",
    ],
    refuted_by: &[
        Refutation::new(
            "any wait of the circle ended within the window",
            "a_circle_of_which_one_wait_has_ended_is_none",
        ),
        Refutation::new(
            "an owner is not known, and another thread of the process could let go",
            "without_an_owner_there_is_no_circle",
        ),
        Refutation::new(
            "one of the waits has a time limit of its own",
            "a_wait_with_a_time_limit_gives_up",
        ),
        Refutation::new(
            "its threads wait for conditions, which the handler of a signal may bring about",
            "threads_that_all_rest_are_in_no_circle",
        ),
    ],
    remedies: &["end one of them", "take locks in one order everywhere, or with a timeout"],
    stories: &["S3.4", "S3.14"],
    thresholds: &[],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let standing: Vec<&WaitSpan> = measures
        .waits()
        .filter(|w| w.standing && matches!(w.class, WaitClass::FileLock | WaitClass::FutexLock))
        // An interpreter's lock is taken from whoever has it.
        .filter(|w| !matches!(w.object, Object::InterpreterLock(_)))
        .filter(|w| w.class != WaitClass::FutexLock || never_gives_up(measures.model, w))
        .collect();
    let mut seen: BTreeSet<Vec<u32>> = BTreeSet::new();
    let mut found = Vec::new();
    for start in &standing {
        let Some(circle) = circle_from(measures, &standing, start) else { continue };
        let mut key: Vec<u32> = circle.iter().map(|w| w.thread.tid).collect();
        key.sort_unstable();
        // Whoever has one of the locks may wait for its child meanwhile, and others for them.
        let targeted = circle.iter().any(|w| measures.concerns(&w.thread))
            || ends.iter().any(|end| leads_into(end, &circle));
        if targeted && seen.insert(key) {
            found.push(matched(measures, ends, circle));
        }
    }
    let is_new = |stuck: &Stuck<'_>| {
        let mut waits = stuck.locks.iter();
        waits.all(|wait| !seen.iter().any(|circle| circle.contains(&wait.thread.tid)))
    };
    let stuck = stuck::processes(measures).into_iter().filter(is_new);
    found.extend(stuck.map(|stuck| all_matched(measures, ends, stuck)));
    found
}

/// Whether a wait for a lock of threads has no time limit of its own. Java parks for a monitor for a time, and again.
fn never_gives_up(model: &Model, wait: &WaitSpan) -> bool {
    let [_, _, _, timeout, ..] = wait.place.args;
    let kind = || user_stack::lock_kind_of(model, &wait.thread, wait.begin_ns, wait.end_ns);
    timeout == 0 || kind() == Some(LockKind::Monitor)
}

/// How long a thread has stood for a lock. Java parks for a monitor for a time, and again: then since the first of these waits that
/// follow on each other at once, and it may have been more.
fn stood(measures: &Measures<'_>, wait: &WaitSpan) -> LongestWait {
    let last = LongestWait::of(measures.model, [wait]);
    let [_, _, _, timeout, ..] = wait.place.args;
    if wait.class != WaitClass::FutexLock || timeout == 0 {
        return last;
    }
    let all = measures.timelines.of(measures.model.threads.key(&wait.thread));
    let mut first: &WaitSpan = wait;
    for before in all.iter().rev().filter(|it| it.begin_ns < wait.begin_ns) {
        // Who was woken by the timer may have to wait for a CPU to look again.
        if before.class == WaitClass::RunQueue {
            continue;
        }
        if !is_one_wait(measures.model, before, first) {
            break;
        }
        first = before;
    }
    let from_ns = first.begin_ns.max(measures.model.look.begin_ns.min(wait.begin_ns));
    let seconds = wait.end_ns.saturating_sub(from_ns) as f64 / 1e9;
    LongestWait { seconds, at_least: true, ..last }
}

/// Whether two waits of a thread are pieces of one. All monitors of a process are one object here, so it goes by the time between
/// them, which is too short for much work under a monitor, and by the monitor where it was read.
fn is_one_wait(model: &Model, before: &WaitSpan, after: &WaitSpan) -> bool {
    let monitor = |it: &WaitSpan| {
        let mut read = monitor::readings(model, &it.thread, it.begin_ns, it.end_ns);
        let first = read.next();
        first.map(|(_, wait)| wait.monitor)
    };
    let is_another = || match (monitor(before), monitor(after)) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    };
    let follows = after.begin_ns.saturating_sub(before.end_ns) <= BETWEEN_NS;
    follows && before.class == after.class && before.object == after.object && !is_another()
}

/// Whether no more than one thread of a process was seen.
pub(super) fn is_alone(measures: &Measures<'_>, pid: u32) -> bool {
    let threads: BTreeSet<u32> = measures.times_of(pid).map(|time| time.thread.tid).collect();
    threads.len() <= 1
}

/// Follows owners from a wait; the circle if they come back to it.
fn circle_from<'a>(
    measures: &Measures<'_>,
    standing: &[&'a WaitSpan],
    start: &&'a WaitSpan,
) -> Option<Vec<&'a WaitSpan>> {
    let mut circle: Vec<&WaitSpan> = vec![start];
    loop {
        let last = circle[circle.len() - 1];
        let owner = measures.graph.holder(last)?;
        let next = match last.class {
            WaitClass::FileLock => waits_under_a_file_lock(measures, standing, owner.pid)?,
            _ => standing.iter().find(|w| w.thread.tid == owner.tid)?,
        };
        if next.thread.tid == start.thread.tid {
            return Some(circle);
        }
        if circle.len() > CIRCLE_MAX || circle.iter().any(|w| w.thread.tid == next.thread.tid) {
            return None;
        }
        circle.push(next);
    }
}

/// The standing wait for a lock of a process that has a file lock, or of the child that it waits for. Such a lock belongs to a process, and any
/// of its threads may let go of it: one of several that waits closes no circle.
fn waits_under_a_file_lock<'s, 'a>(
    measures: &Measures<'_>,
    standing: &'s [&'a WaitSpan],
    owner: u32,
) -> Option<&'s &'a WaitSpan> {
    let mut pid = owner;
    for _ in 0..CIRCLE_MAX {
        if !is_alone(measures, pid) {
            return None;
        }
        if let Some(found) = standing.iter().find(|w| w.thread.pid == pid) {
            return Some(found);
        }
        let waits = measures.graph.waits_of(&measures.model.threads.thread_ref(pid));
        let last = waits.last().filter(|w| w.standing && w.class == WaitClass::Child)?;
        pid = measures.graph.holder(last)?.pid;
    }
    None
}

/// How much of a wait lies within the look, seconds.
fn seconds(measures: &Measures<'_>, wait: &WaitSpan) -> f64 {
    let look = &measures.model.look;
    let within = wait.within_ns(look.begin_ns, look.end_ns) as f64 / 1e9;
    stood(measures, wait).seconds.min(look.seconds()).max(within)
}

/// Whether the chains of an end come down to a circle.
fn leads_into(end: &End, circle: &[&WaitSpan]) -> bool {
    end.circle && !end.victims.is_empty() && circle.iter().any(|w| w.object == end.object)
}

fn step(measures: &Measures<'_>, wait: &WaitSpan) -> Step {
    Step {
        who: wait.thread.clone(),
        on: wait.object.clone(),
        doing: None,
        seconds: seconds(measures, wait),
        when: Some((wait.begin_ns, wait.end_ns)),
        because: None,
    }
}

fn matched<'m>(
    measures: &'m Measures<'m>,
    ends: &'m [End],
    circle: Vec<&'m WaitSpan>,
) -> Match<'m> {
    let model = measures.model;
    let first = circle[0];
    // The one whose wait closed the circle is the one that came last.
    let last = circle.iter().max_by_key(|w| w.begin_ns).map_or(first, |w| w);
    let mut losses = Losses::new();
    for wait in &circle {
        losses.entry(wait.thread.pid).or_insert_with(|| (wait.thread.clone(), 0.0)).1 +=
            seconds(measures, wait);
    }
    let steps = circle.iter().map(|w| step(measures, w)).collect();
    let by = culprit(model, &last.thread);
    let (object, closing) = (first.object.clone(), last.thread.pid);
    let all = ends.iter().enumerate().filter(|(_, end)| leads_into(end, &circle));
    let claimed: Vec<usize> = all.map(|(at, _)| at).collect();
    let mut matched =
        Match::new(by, Proof::Read, move |loss| explain(measures, &circle, closing, loss))
            .on(object);
    for at in claimed {
        // Those behind the circle wait for it as well.
        for (pid, (who, seconds)) in &ends[at].victims {
            losses.entry(*pid).or_insert_with(|| (who.clone(), *seconds));
        }
        matched = matched.claiming(at, None);
    }
    matched.losses = Some(losses);
    matched.chain = Some(steps);
    matched.severity_min = Severity::Critical;
    matched
}

/// A process of which no thread can let go any more.
fn all_matched<'m>(measures: &'m Measures<'m>, ends: &'m [End], stuck: Stuck<'m>) -> Match<'m> {
    let model = measures.model;
    let first = stuck.locks[0];
    let pid = first.thread.pid;
    let process = wait_words::main_thread(measures, pid);
    let longest = stuck.locks.iter().map(|w| seconds(measures, w)).fold(0.0, f64::max);
    let own = |end: &End| {
        let is_lock = matches!(end.class, WaitClass::FutexLock | WaitClass::FutexWait);
        is_lock && end.links.iter().all(|link| link.who.pid == pid) && !end.victims.is_empty()
    };
    let claimed: Vec<usize> =
        ends.iter().enumerate().filter(|(_, end)| own(end)).map(|(at, _)| at).collect();
    let chain = stuck.locks.iter().map(|w| step(measures, w)).collect();
    let (by, object) = (culprit(model, &process), first.object.clone());
    let explain = move |_: &Loss<'_>| explain_stuck(measures, &stuck);
    let mut matched = Match::new(by, Proof::TwoWitnesses, explain).on(object);
    for at in claimed {
        matched = matched.claiming(at, None);
    }
    matched.losses = Some(Losses::from([(pid, (process, longest))]));
    matched.chain = Some(chain);
    matched.severity_min = Severity::Critical;
    matched
}

fn explain_stuck(measures: &Measures<'_>, stuck: &Stuck<'_>) -> Wording {
    let model = measures.model;
    let all = || stuck.locks.iter().chain(&stuck.others);
    let one = |w: &&WaitSpan| stood(measures, w);
    let shortest = all().map(one).min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let pid = stuck.locks[0].thread.pid;
    let who = words::who(&wait_words::main_thread(measures, pid));
    let place = |w: &&WaitSpan| {
        let stack = model.user_stack(&w.thread, w.begin_ns, w.end_ns)?;
        user_stack::function(&stack.frames).map(|function| format!("{function}()"))
    };
    let places: BTreeSet<String> = stuck.locks.iter().filter_map(place).collect();
    let places: Vec<String> = places.into_iter().collect();
    let within =
        if places.is_empty() { String::new() } else { format!(", in {}", places.join(" and ")) };
    let (locks, others) = (stuck.locks.len(), stuck.others.len());
    let who_waits = match others {
        0 => format!("Its {locks} threads all wait for locks{within}"),
        _ => format!(
            "{locks} of its {} threads wait for locks{within}, and the rest for something else inside it",
            locks + others
        ),
    };
    let evidence = stuck.locks.iter().flat_map(|w| {
        let fact =
            format!("{} waits for {}", model.threads.who(&w.thread), model.name_of(&w.object).name);
        wait_words::longest_evidence(&one(w), &fact)
    });
    Wording {
        title: format!("all threads of {who} wait for each other: a deadlock"),
        text: format!(
            "{who_waits}, without a time limit, for {} now. Whoever has these locks is among them, or gone: nobody is left who \
             could let go.",
            wait_words::duration(&shortest.unwrap_or_default()),
        ),
        evidence: evidence.collect(),
        remedy: vec![
            Remedy {
                text: "see what each of them is in the middle of".into(),
                ..Remedy::default()
            }
            .ask(
                Question::Program,
                &model.threads.thread_ref(pid),
                ask::question(model, pid),
            ),
            holder_doing::end_all(
                model,
                "end it (what it did under the locks is lost)",
                &[model.threads.thread_ref(pid)],
            ),
        ],
    }
}

fn explain(measures: &Measures<'_>, circle: &[&WaitSpan], closing: u32, _: &Loss<'_>) -> Wording {
    let model = measures.model;
    let one = |w: &WaitSpan| stood(measures, w);
    let youngest = circle.iter().map(|w| one(w)).min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let names: Vec<String> = circle.iter().map(|w| measures.model.threads.who(&w.thread)).collect();
    let evidence = circle.iter().flat_map(|w| {
        let on = model.name_of(&w.object);
        let fact = format!("{} waits for {} {}", model.threads.who(&w.thread), on.kind, on.name);
        let mut evidence = wait_words::longest_evidence(&one(w), &fact);
        evidence[0].source = "task iterator, lock owners".into();
        evidence
    });
    let evidence: Vec<Evidence> = evidence.collect();
    Wording {
        title: format!("{} wait for each other's locks: a deadlock", names.join(" and ")),
        text: format!(
            "Each waits for a lock that the next one holds, in a circle of {}, for {} now. It cannot resolve itself.",
            circle.len(),
            wait_words::duration(&youngest.unwrap_or_default()),
        ),
        evidence,
        remedy: ways_out(model, circle, closing),
    }
}

fn ways_out(model: &Model, circle: &[&WaitSpan], closing: u32) -> Vec<Remedy> {
    let end = holder_doing::end_all(
        model,
        "end one of them (what it did under the lock is lost)",
        &[model.threads.thread_ref(closing)],
    );
    let pid = circle[0].thread.pid;
    let of_one = circle.iter().all(|wait| wait.thread.pid == pid);
    let see = of_one.then(|| {
        Remedy {
            text: "before that, see where each of its threads took its lock".into(),
            ..Remedy::default()
        }
        .ask(Question::Program, &circle[0].thread, ask::question(model, pid))
    });
    [Some(end), see].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn own(tid: u32) -> ThreadRef {
        ThreadRef { tid, pid: 10, start_ns: 1, comm: "server".into() }
    }

    fn lock(address: u64) -> Place {
        Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [address, 128, 2, 0, 0, 0],
            ..Place::default()
        }
    }

    fn stands(tid: u32, address: u64) -> Fact {
        let blocked = Blocked { thread: own(tid), place: lock(address), ..Blocked::default() };
        Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
    }

    fn ended(tid: u32, address: u64) -> Fact {
        let wake = Some(Wake { at_ns: LOOK_NS - 2, ..Wake::default() });
        let (place, end_ns) = (lock(address), LOOK_NS - 1);
        fact(Body::Wait(Wait { thread: own(tid), end_ns, place, wake, ..Wait::default() }))
    }

    fn holds(owner_tid: u32, address: u64, waiter: u32) -> Fact {
        let owner = FutexOwner { waiter: own(waiter), address, word: 2, owner_tid, gone_tid: 0 };
        Fact { at_ns: LOOK_NS, body: Body::FutexOwner(owner) }
    }

    fn codes(facts: Vec<Fact>) -> Vec<String> {
        let mut all = host();
        all.extend(facts);
        explain(all).findings.into_iter().map(|f| f.code).collect()
    }

    #[test]
    fn two_that_hold_what_the_other_wants_are_one_finding() {
        let mut facts = host();
        facts.extend([stands(11, 0x7000), stands(12, 0x8000)]);
        facts.extend([holds(12, 0x7000, 11), holds(11, 0x8000, 12)]);
        let report = explain(facts);
        assert_eq!(report.findings.len(), 1, "the locks of the circle are claimed");
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("lock.deadlock", Severity::Critical));
        assert_eq!(finding.chain.len(), 2);
    }

    /// flock(1) 10 and 20 each have a lock and wait for their child, which wants the other's; or the second sleeps instead.
    fn children_under_locks(second_sleeps: bool) -> Vec<Fact> {
        let dev = DeviceNumber { major: 8, minor: 1 };
        let takes = |pid: u32, wants: u64, has: u64| {
            let (own, child) = (thread(pid, "flock"), thread(pid + 1, "job"));
            let file = FileRef { dev, ino: wants, ..FileRef::default() };
            let mut waits =
                Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
            waits.args[0] = u64::from(pid + 1);
            let asks = Place {
                state: WaitState::Sleep,
                syscall: if second_sleeps && pid == 20 { "clock_nanosleep" } else { "flock" }
                    .into(),
                object: Some(ObjectRef::File(file)),
                ..Place::default()
            };
            let lock = file_lock(has, (dev, has), &[own.clone(), child.clone()]);
            vec![
                Fact { at_ns: LOOK_NS, body: Body::FileLock(lock) },
                identity(Thread { thread: own, parent_pid: 1, ..Thread::default() }),
                identity(Thread { thread: child, parent_pid: pid, ..Thread::default() }),
                at_place(pid, "flock", waits),
                at_place(pid + 1, "job", asks),
            ]
        };
        [takes(10, 2, 1), takes(20, 1, 2)].concat()
    }

    #[test]
    fn children_that_want_each_others_parents_locks_are_a_circle() {
        let mut facts = host();
        facts.extend(children_under_locks(false));
        let findings = explain(facts).findings;
        let title = &findings[0].title;
        assert_eq!(&*findings[0].code, "lock.deadlock", "{title}");
        assert_eq!(title, "job 11 and job 21 wait for each other's locks: a deadlock");
        let codes = codes(children_under_locks(true));
        assert!(!codes.contains(&"lock.deadlock".to_string()), "{codes:?}");
    }

    #[test]
    fn who_waits_for_the_circle_from_outside_is_shown_it() {
        let is_shown = [10, 11, 30, 31].map(|pid| {
            let mut facts = children_under_locks(false);
            let late = facts.iter().find_map(|fact| match &fact.body {
                Body::Blocked(it) if it.thread.pid == 21 => Some(it.place.clone()),
                _ => None,
            });
            facts.extend(late.map(|place| at_place(30, "late", place)));
            facts.extend([of_process(pid, "it"), blocked(31, "it", WaitState::Sleep, "read")]);
            codes(facts).contains(&"lock.deadlock".to_string())
        });
        assert_eq!(is_shown, [true, true, true, false]);
    }

    #[test]
    fn a_wait_with_a_time_limit_gives_up() {
        let found = |timeout: u64| {
            let mut first = stands(11, 0x7000);
            if let Body::Blocked(blocked) = &mut first.body {
                blocked.place.args[3] = timeout;
            }
            codes(vec![first, stands(12, 0x8000), holds(12, 0x7000, 11), holds(11, 0x8000, 12)])
        };
        assert!(found(0).contains(&"lock.deadlock".to_string()));
        assert!(!found(0x7fff_0000).contains(&"lock.deadlock".to_string()));
    }

    /// What is said of two that each park twice for a monitor, with so long between the two times.
    fn parked_again_after(between_ns: Ns) -> String {
        let parks = |tid, address| {
            let mut last = stands(tid, address);
            let Body::Blocked(blocked) = &mut last.body else { return Vec::new() };
            blocked.place.args[3] = 0x7fff_0000;
            blocked.since_ns = LOOK_NS - 100_000_000;
            let end_ns = blocked.since_ns - between_ns;
            let (thread, place) = (own(tid), blocked.place.clone());
            let (begin_ns, wake) = (LOOK_NS - 3_000_000_000, Some(Wake::default()));
            let wake = wake.map(|wake| Wake { at_ns: end_ns, ..wake });
            let before = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            let frame = UserFrame {
                function: "ObjectMonitor::enter".into(),
                module: "libjvm.so".into(),
                ..UserFrame::default()
            };
            let stack = UserStack {
                thread: own(tid),
                since_ns: 0,
                frames: vec![frame],
                ..UserStack::default()
            };
            let stack = Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) };
            vec![Fact { at_ns: end_ns, body: Body::Wait(before) }, last, stack]
        };
        let owners = vec![holds(12, 0x7000, 11), holds(11, 0x8000, 12)];
        let all = [host(), parks(11, 0x7000), parks(12, 0x8000), owners].concat();
        let report = explain(all);
        let found = report.findings.iter().find(|it| it.code == "lock.deadlock");
        found.expect("the circle").text.clone()
    }

    #[test]
    fn who_parks_again_and_again_for_a_monitor_has_stood_since_the_first_time() {
        let text = parked_again_after(1);
        assert!(text.contains("for at least 3 s now"), "{text}");
    }

    #[test]
    fn who_was_at_work_between_two_waits_for_monitors_has_stood_since_the_last_one() {
        let text = parked_again_after(500_000_000);
        assert!(!text.contains("3 s"), "{text}");
    }

    #[test]
    fn a_circle_of_which_one_wait_has_ended_is_none() {
        let owners = [holds(12, 0x7000, 11), holds(11, 0x8000, 12)];
        let mut facts = vec![stands(11, 0x7000), ended(12, 0x8000)];
        facts.extend(owners);
        assert!(!codes(facts).contains(&"lock.deadlock".to_string()));
    }

    /// Threads of a process with nobody else in it, each in a function of its own program below the one that waits.
    fn all_stand(waits_in: &str) -> Vec<Fact> {
        let thread = |tid: u32, address: u64| {
            let frame = |function: &str, module: &str| UserFrame {
                function: function.into(),
                module: module.into(),
                ..UserFrame::default()
            };
            let stack = UserStack {
                thread: own(tid),
                since_ns: 0,
                frames: vec![frame(waits_in, "libc.so.6"), frame("transfer", "bank")],
                ..UserStack::default()
            };
            let time = ThreadTime { thread: own(tid), until_ns: LOOK_NS, ..ThreadTime::default() };
            let at_end = |body| Fact { at_ns: LOOK_NS, body };
            [stands(tid, address), at_end(Body::UserStack(stack)), at_end(Body::ThreadTime(time))]
        };
        thread(10, 0x7000).into_iter().chain(thread(11, 0x8000)).collect()
    }

    #[test]
    fn where_all_threads_wait_for_locks_nobody_lets_go() {
        let mut facts = host();
        facts.extend(all_stand("pthread_mutex_lock"));
        let report = explain(facts);
        let found: Vec<&str> = report.findings.iter().map(|it| &*it.code).collect();
        assert_eq!(found, ["lock.deadlock"]);
        let mut another = all_stand("pthread_mutex_lock");
        let time = ThreadTime { thread: own(12), until_ns: LOOK_NS, ..ThreadTime::default() };
        another.push(Fact { at_ns: LOOK_NS, body: Body::ThreadTime(time) });
        assert!(!codes(another).contains(&"lock.deadlock".to_string()), "a thread is left");
    }

    #[test]
    fn threads_that_all_rest_are_in_no_circle() {
        let rest = codes(all_stand("pthread_cond_wait"));
        assert!(!rest.contains(&"lock.deadlock".to_string()));
    }

    #[test]
    fn without_an_owner_there_is_no_circle() {
        let facts = vec![stands(11, 0x7000), stands(12, 0x8000), holds(12, 0x7000, 11)];
        assert!(!codes(facts).contains(&"lock.deadlock".to_string()));
    }
}
