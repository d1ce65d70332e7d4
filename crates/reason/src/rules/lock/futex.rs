//! lock.futex: threads wait for a lock in user memory that another thread holds.
//!
//! The kernel does not know owners of ordinary futexes; glibc writes the owner's thread id beside the word, which
//! is read from the waiter's memory while it waits. Without it (other runtimes) the thread whose unlock woke
//! the waiter is the holder. Rejected: the value of the word alone (a join of thread 2 waits for a 2 as well).

use crate::facts::{FutexOwner, UserFrame};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use crate::model::words;
use crate::programs;
use crate::programs::lock_kind::LockKind;
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::rules::{holder_doing, wait_words};
use crate::waits::WaitClass;
use crate::waits::futex_value::PID_MAX_LIMIT;

/// What a lock's word holds at most (0 free, 1 taken, 2 with waiters).
const WITH_WAITERS: u64 = 2;
/// The functions of the one kind of mutex that has its owner's number beside the word: glibc's, without leading underscores.
const WITH_OWNER: [&str; 3] =
    ["pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock"];
/// Innermost frames in which one of these is looked for: further out it may be what a signal's handler interrupted.
const OWNER_FRAMES: usize = 5;

/// The rule.
pub(crate) static RULE: Rule = Rule {
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
            "a_condition_whose_word_has_gone_on_is_no_lock",
        ),
        Refutation::new(
            "one thread alone waits, and nobody is known to hold it: a join",
            "one_that_joins_thread_two_of_a_container_waits_for_no_lock",
        ),
        Refutation::new(
            "the holder itself is held up by something with a name",
            "a_holder_that_waits_for_a_cpu_is_the_cpus_victim",
        ),
    ],
    remedies: &[
        "hold the lock for less: move I/O and sleeping out of it",
        "split the lock, or use a reader-writer lock",
    ],
    stories: &["S0.4"],
    thresholds: &[],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let of_end = |(at, end): (usize, &'m End)| {
        let holder = wait_words::holder(measures, end);
        let by = holder.map_or_else(Culprit::default, |holder| culprit(measures.model, &holder));
        let proof = match left_by(measures, end) {
            Some(_) => Proof::TwoWitnesses,
            None if is_owner_read(measures, end) => Proof::Read,
            None => Proof::Inferred,
        };
        let matched = Match::new(by, proof, move |loss| explain(measures, end, loss));
        holder_doing::claim(matched, ends, at)
    };
    let open = holder_doing::open(ends, WaitClass::FutexLock);
    let others = open.filter(|(_, end)| !matches!(end.object, Object::InterpreterLock(_)));
    others.filter(|(_, end)| is_lock(measures, end)).map(of_end).collect()
}

fn is_owner_read(measures: &Measures<'_>, end: &End) -> bool {
    readings(measures.model, end).any(|owner| owner.owner_tid != 0)
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
    end.holder().is_some() || waiters.len() > 1 || left_by(measures, end).is_some()
}

/// The thread that took a mutex and has ended without giving it back, by the mutex: where the waiter's stack says that it is one of
/// glibc's. Of another word (Rust's mutex, a lock of stdio) what stands beside it is the program's data, and no number of a thread.
fn left_by(measures: &Measures<'_>, end: &End) -> Option<u32> {
    let link = &end.links[end.named];
    let stack = measures.model.user_stack(&link.who, link.since_ns, link.end_ns);
    let is_mutex = end.lock_kind(measures.model).is_some_and(LockKind::is_held)
        && stack.is_some_and(|stack| stack.frames.iter().take(OWNER_FRAMES).any(has_owner));
    let mut all = readings(measures.model, end);
    let last = all.next_back().filter(|owner| owner.owner_tid == 0 && is_mutex)?;
    let is_number = (1..=PID_MAX_LIMIT).contains(&last.gone_tid);
    (is_number && end.holder().is_none()).then_some(last.gone_tid)
}

/// Whether who is in a function waits for a mutex with its owner's number beside the word.
fn has_owner(frame: &UserFrame) -> bool {
    let name = frame.function.trim_start_matches('_');
    let name = name.strip_prefix("GI_").map_or(name, |inner| inner.trim_start_matches('_'));
    WITH_OWNER.contains(&name)
}

/// Every reading of the word shows more than a lock ever holds (0 free, 1 taken, 2 with waiters); the words of
/// PI locks are known by their operation.
fn has_gone_on(measures: &Measures<'_>, end: &End) -> bool {
    let model = measures.model;
    let is_pi = measures.waits().any(|w| {
        w.class == WaitClass::FutexLock && w.object == end.object && w.place.args[2] != WITH_WAITERS
    });
    let mut words = readings(model, end).map(|owner| owner.word).peekable();
    !is_pi && words.peek().is_some() && words.all(|word| u64::from(word) > WITH_WAITERS)
}

/// What was read of a futex in its waiters' memory.
fn readings<'a>(model: &'a Model, end: &End) -> impl DoubleEndedIterator<Item = &'a FutexOwner> {
    let word = match end.object {
        Object::Futex { pid, address } => Some((pid, address)),
        _ => None,
    };
    let owners = model.held.futex_owners.iter().map(|(_, owner)| owner);
    owners.filter(move |owner| word == Some((owner.waiter.pid, owner.address)))
}

fn explain(measures: &Measures<'_>, end: &End, loss: &Loss<'_>) -> Wording {
    let holder = wait_words::holder(measures, end);
    let by = wait_words::holder_in_words(measures, end, "another thread");
    let longest = wait_words::longest(measures, end);
    let kind = end.lock_kind(measures.model).filter(|kind| kind.is_held());
    let kind = kind.map_or("a lock", LockKind::phrase);
    let place = end.function(measures.model).map_or_else(String::new, |it| format!(" in {it}()"));
    let word = match &end.object {
        // Of a virtual machine's lock there is no word that says which it is.
        Object::Inside(_) | Object::Parked(_) => String::new(),
        object => format!(" for the futex {}", measures.model.name_of(object).name),
    };
    let left = left_by(measures, end);
    let held = match (&holder, left) {
        (None, Some(tid)) => format!(
            "It names thread {tid} as its owner, and no thread has that number any more: whoever took it ended without giving \
             it back, so nobody will."
        ),
        (Some(_), _) => format!("{by} holds it and {}.", does(measures, end)),
        (None, None) => "Who holds it is not known: the word names no owner, and nobody let go of it in the look.".into(),
    };
    let source = "sched_switch, futex arguments";
    let mut evidence = vec![
        Evidence::new("wait for the lock", loss.seconds, "s", source),
        Evidence::new("waits", end.count as f64, "1", "sched_switch"),
        Evidence::new(
            "owner read from the waiter's memory",
            f64::from(u8::from(is_owner_read(measures, end))),
            "1",
            "process_vm_readv",
        ),
    ];
    evidence.extend(wait_words::longest_evidence(&longest, "longest wait, as far as it was seen"));
    let waiter = wait_words::waiter(measures, end);
    Wording {
        title: match left {
            Some(tid) => {
                format!("{waiter} waits for {kind} that thread {tid} took, which has ended")
            }
            None => format!("{waiter} waits for {kind} that {by} holds"),
        },
        text: format!(
            "{} pass in {}{place}{word}; the longest {}. {held}",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(end.count as usize, "wait", "waits"),
            wait_words::lasted_of(&longest, loss.seconds),
        ),
        evidence,
        remedy: vec![match holder {
            Some(h) => {
                let text = format!("see where {by} spends its time while it holds the lock");
                Remedy::to(text).kernel_stack(&h)
            }
            None if left.is_some() => Remedy::to(
                "restart all that share it, which makes it anew; let its program ask for a robust mutex (pthread_mutexattr_setrobust), \
                 which goes on to the next when its owner ends",
            ),
            None => {
                let own = &end.links[end.named].who;
                let command = programs::stacks(own.pid);
                Remedy::to("see which of its threads holds the lock, and what it does").ask(
                    Question::Stacks,
                    own,
                    command,
                )
            }
        }],
    }
}

/// What the holder does under the lock.
fn does(measures: &Measures<'_>, end: &End) -> &'static str {
    match holder_doing::mostly(measures, end) {
        None => "was not seen itself",
        Some(WaitClass::Timer) => "sleeps under it",
        Some(WaitClass::Running) => "computes under it",
        Some(WaitClass::Stopped) => "is stopped",
        Some(WaitClass::Unseen) => "is at work under it",
        Some(WaitClass::Idle) => "waits for events under it",
        Some(WaitClass::RunQueue) => "waits for a CPU under it",
        _ => "waits under it",
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::{EndKind, Report, Verdict, explain};
    use crate::facts::*;
    use crate::programs::lock_kind::LockKind;
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
    fn of_two_threads_the_one_that_does_not_wait_for_a_lock_of_the_program_has_it() {
        let asleep = |sleepers: &[u32]| {
            let mut facts = host();
            facts.push(waits_for_a_two(10));
            facts.push(stack(10, &["__lll_lock_wait", "pthread_mutex_lock", "transfer", "main"]));
            for tid in sleepers {
                let mut sleep = blocked(*tid, "server", WaitState::Sleep, "clock_nanosleep");
                if let Body::Blocked(blocked) = &mut sleep.body {
                    blocked.thread.pid = 10;
                }
                facts.push(sleep);
            }
            explain(facts).findings.into_iter().next()
        };
        let found = asleep(&[12]).unwrap();
        assert_eq!(found.code, "lock.futex");
        assert!(found.text.contains("server 10/12 holds it and sleeps under it"), "{}", found.text);
        assert!(asleep(&[12, 13]).is_none_or(|found| !found.text.contains("holds it and")));
    }

    /// A thread that waits for a lock of Python's by a function of the script, beside one other, which is at this place.
    fn beside(other: &str, timeout: u64) -> Report {
        let mut facts = host();
        let mut wait = waits_for_a_two(10);
        if let Body::Blocked(blocked) = &mut wait.body {
            blocked.place.args = [0x7000, 393, 0, timeout, 0, 0];
        }
        facts.push(wait);
        let mut own = stack(10, &["sem_clockwait", "PyThread_acquire_lock_timed", "next_job"]);
        if let Body::UserStack(stack) = &mut own.body {
            stack.frames[2].module = "jobs.py".into();
        }
        facts.push(own);
        let mut rest = blocked(12, "server", WaitState::Sleep, other);
        if let Body::Blocked(blocked) = &mut rest.body {
            blocked.thread.pid = 10;
        }
        facts.push(rest);
        let (kind, name) = (TargetKind::Process, "server".to_string());
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        explain(facts)
    }

    #[test]
    fn the_only_other_thread_has_it_only_if_it_does_something() {
        assert_eq!(beside("clock_nanosleep", 0).findings[0].code, "lock.futex");
        assert!(beside("epoll_wait", 0).findings.is_empty(), "it waits for events");
    }

    #[test]
    fn who_gives_up_after_a_time_waits_for_no_lock() {
        let report = beside("clock_nanosleep", 0x7ffc);
        assert!(report.findings.is_empty());
        assert_eq!(report.answer.verdict, Verdict::Idle, "{}", report.answer.title);
    }

    #[test]
    fn two_that_want_one_word_wait_for_a_lock_whoever_holds_it() {
        let mut facts = host();
        facts.extend([waits_for_a_two(10), waits_for_a_two(11)]);
        let report = explain(facts);
        assert_eq!(report.findings[0].code, "lock.futex");
        assert!(report.findings[0].text.contains("not known"));
    }

    fn stack(tid: u32, functions: &[&str]) -> Fact {
        let thread = ThreadRef { tid, pid: 10, start_ns: 1, comm: "server".into() };
        let frame = |name: &&str| UserFrame {
            function: (*name).into(),
            module: "server".into(),
            ..UserFrame::default()
        };
        let frames = functions.iter().map(frame).collect();
        let body = UserStack { thread, frames, complete: true, ..UserStack::default() };
        Fact { at_ns: LOOK_NS, body: Body::UserStack(body) }
    }

    #[test]
    fn a_stack_says_which_kind_of_lock_it_is_and_where() {
        let mut facts = host();
        facts.extend([waits_for_a_two(10), waits_for_a_two(11)]);
        for tid in [10, 11] {
            facts.push(stack(tid, &["__lll_lock_wait", "pthread_mutex_lock", "transfer", "main"]));
        }
        let report = explain(facts);
        let finding = &report.findings[0];
        assert!(finding.title.contains("waits for a mutex that"), "{}", finding.title);
        assert!(finding.text.contains("in transfer()"), "{}", finding.text);
        assert_eq!(finding.chain[0].who.function.as_deref(), Some("transfer"));
        assert_eq!(finding.chain[0].stack[1], "pthread_mutex_lock (server)");
        assert_eq!(report.answer.ends[0].lock_kind, Some(LockKind::Mutex));
    }

    #[test]
    fn a_monitor_by_its_stack_is_a_lock_whatever_its_word() {
        let mut facts = host();
        facts.push(of_process(10, "server"));
        facts.push(stack(11, &["pthread_cond_wait", "ObjectMonitor::enter"]));
        let mut wait = waits_for_a_two(11);
        if let Body::Blocked(blocked) = &mut wait.body {
            blocked.place.args[2] = 0;
        }
        facts.push(wait);
        let end = explain(facts).answer.ends.remove(0);
        assert_eq!((end.end, end.lock_kind), (EndKind::Lock, Some(LockKind::Monitor)));
    }

    #[test]
    fn of_a_mutex_whose_owner_has_ended_it_is_said_that_nobody_gives_it_back() {
        let found = |function: &str, gone_tid| {
            let mut facts = host();
            let waiter = ThreadRef { tid: 11, pid: 10, ..ThreadRef::default() };
            let owner = FutexOwner { waiter, address: 0x7000, word: 2, owner_tid: 0, gone_tid };
            facts.extend([waits_for_a_two(11), fact(Body::FutexOwner(owner))]);
            facts.push(stack(11, &[function, "work"]));
            let findings = explain(facts).findings;
            findings
                .first()
                .map(|it| (it.title.clone(), it.culprit.pid, it.remedy[0].command.clone()))
        };
        let left = found("pthread_mutex_lock", 4711).expect("a finding");
        assert!(left.0.ends_with("a mutex that thread 4711 took, which has ended"), "{}", left.0);
        assert_eq!((left.1, &*left.2), (None, ""), "nobody is to be acted on");
        assert_eq!(found("pthread_mutex_lock", 0), None, "the owner may live");
        assert!(found("__GI___pthread_mutex_lock", 4711).is_some());
        assert_eq!(found("pthread_mutex_lock", 1 << 30), None, "no thread has such a number");
        // What stands beside these words is no number of a thread.
        let rust = "std::sys::sync::mutex::futex::Mutex::lock_contended";
        for function in ["pthread_cond_wait", rust, "__lll_lock_wait_private"] {
            assert_eq!(found(function, 4711), None, "{function}");
        }
    }

    #[test]
    fn a_condition_by_its_stack_is_no_lock_whatever_its_word() {
        let mut facts = host();
        facts.extend([waits_for_a_two(10), waits_for_a_two(11)]);
        for tid in [10, 11] {
            facts.push(stack(tid, &["pthread_cond_wait", "take_job"]));
        }
        assert!(explain(facts).findings.is_empty());
    }

    #[test]
    fn a_condition_whose_word_has_gone_on_is_no_lock() {
        for (word, findings) in [(480, 0), (2, 1)] {
            let mut facts = host();
            facts.extend([waits_for_a_two(10), waits_for_a_two(11)]);
            let waiter = ThreadRef { tid: 11, pid: 10, ..ThreadRef::default() };
            let owner = FutexOwner { waiter, address: 0x7000, word, owner_tid: 0, gone_tid: 0 };
            facts.push(fact(Body::FutexOwner(owner)));
            assert_eq!(explain(facts).findings.len(), findings);
        }
    }

    #[test]
    fn a_holder_that_waits_for_a_cpu_is_the_cpus_victim() {
        let holder = ThreadRef { tid: 12, pid: 10, start_ns: 1, comm: "server".into() };
        let waiter = ThreadRef { tid: 11, pid: 10, ..ThreadRef::default() };
        let owner = FutexOwner { waiter, address: 0x7000, word: 2, owner_tid: 12, gone_tid: 0 };
        let ready = Wait { thread: holder, end_ns: LOOK_NS, ..Wait::default() };
        let mut facts = host();
        facts.extend([waits_for_a_two(11), fact(Body::FutexOwner(owner)), fact(Body::Wait(ready))]);
        assert!(explain(facts).findings.iter().all(|f| f.code != "lock.futex"));
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
