//! lock.interpreter: threads of one process wait for the lock of its interpreter, which one of them has.
//!
//! Where the lock is and who has it is read of the process itself, some times a second; what threads wait is theirs by
//! sched_switch. Of many who have it in turn the one that was met most often is named, and the function that it was in most
//! often. Must not: claim the time of a command whose path the holder itself works on: that is its work (graph/ends.rs).

use crate::facts::{InterpreterLock, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::measure::interpreters::Place;
use crate::model::Model;
use crate::model::object::Object;
use crate::model::words;
use crate::programs;
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, ask, culprit};
use crate::rules::{holder_doing, wait_words};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use std::collections::BTreeMap;

static LOST_MIN: Threshold = Threshold::new(
    0.1,
    "1",
    "seconds waited for it for each second of the look, all threads together; a program of several threads always waits a \
     little for it",
    "chosen: a tenth of one thread's time, which is twenty waits a second of the 5 ms for which a thread has it at least \
     (sys.getswitchinterval)",
);
static READINGS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "readings that met somebody with it; by fewer nobody is named",
    "chosen: of two one may be chance",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.interpreter",
    title: "Threads wait for the lock of their interpreter",
    theory: "CPython and Ruby let one thread of a process run the program at a time. A thread that computes keeps this lock \
             until another has asked for 5 ms (Python) or 100 ms (Ruby), and a call into an extension that does not let go of \
             it keeps it until it returns. All other threads stand still meanwhile, however many CPUs are idle, and each \
             that sleeps or reads waits for its turn again when it is done.",
    needs: &[
        "threads wait on a word of the interpreter's own lock, or in the function that takes it",
        "together they wait a tenth of the look or more",
    ],
    refuted_by: &[
        Refutation::new(
            "the waits are on another word of the process: a lock of the program",
            "a_word_beside_the_lock_is_none_of_it",
        ),
        Refutation::new(
            "they are short: every program with threads waits a little for it",
            "short_waits_for_it_are_healthy",
        ),
        Refutation::new(
            "whoever has it waits for a CPU, a disk or another thing with a name",
            "a_holder_that_waits_for_a_cpu_is_the_cpus_victim",
        ),
    ],
    remedies: &[
        "let processes compute, not threads (ProcessPoolExecutor, multiprocessing, workers of the server)",
        "call extensions that let go of the lock while they compute (Py_BEGIN_ALLOW_THREADS, nogil)",
        "a shorter switch interval helps latency only: sys.setswitchinterval",
    ],
    stories: &[],
    thresholds: &[&LOST_MIN, &READINGS_MIN],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let open = holder_doing::open(ends, WaitClass::FutexLock);
    let of_end = |(at, end): (usize, &'m End)| {
        let Object::InterpreterLock(pid) = end.object else { return None };
        if end.seconds / measures.wall_seconds().max(1e-9) < LOST_MIN.value {
            return None;
        }
        let had = Had::of(measures.model, pid);
        let holder = had.as_ref().map(|had| had.who.clone());
        let holder = holder.or_else(|| wait_words::holder(measures, end));
        let by = holder.as_ref().map_or_else(Culprit::default, |it| culprit(measures.model, it));
        let proof = if had.is_some() { Proof::Read } else { Proof::Inferred };
        let explain = move |loss: &Loss<'_>| explain(measures, end, had.as_ref(), loss);
        Some(holder_doing::claim(Match::new(by, proof, explain), ends, at))
    };
    open.filter_map(of_end).collect()
}

/// The thread that was met most often with the lock.
struct Had {
    who: ThreadRef,
    /// Times that it was, of how many that somebody was.
    times: usize,
    of: usize,
    interpreter: String,
    /// The function that it was in most often.
    place: Option<Place>,
}

impl Had {
    fn of(model: &Model, pid: u32) -> Option<Self> {
        let read = model.stacks.interpreter_locks.get(&pid)?;
        let held: Vec<&InterpreterLock> =
            read.iter().map(|(_, lock)| lock).filter(|lock| lock.holder_tid != 0).collect();
        if (held.len() as f64) < READINGS_MIN.value {
            return None;
        }
        let tid = most(held.iter().map(|lock| lock.holder_tid))?;
        let its = || held.iter().filter(|lock| lock.holder_tid == tid);
        let place = Place::most(its().map(|lock| lock.frames.as_slice())).map(|(place, _)| place);
        let named = model.threads.names.get(&tid).filter(|thread| thread.pid == pid).cloned();
        let main = || ThreadRef { tid, ..model.threads.thread_ref(pid) };
        Some(Self {
            who: named.unwrap_or_else(main),
            times: its().count(),
            of: held.len(),
            interpreter: held.last().map(|lock| lock.interpreter.clone()).unwrap_or_default(),
            place,
        })
    }

    /// `in crunch() of app.py`; nothing if no function of the program is known.
    fn place(&self) -> String {
        self.place.as_ref().map_or_else(String::new, |place| format!(" in {}", place.words()))
    }
}

/// What comes most often; of several the first in order.
fn most<T: Ord>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(one, _)| one)
}

fn explain(measures: &Measures<'_>, end: &End, had: Option<&Had>, loss: &Loss<'_>) -> Wording {
    let waiter = wait_words::waiter(measures, end);
    let pid = end.links[end.named].who.pid;
    let (who, met) = match had {
        Some(had) => {
            let (who, place) = (measures.model.threads.who(&had.who), had.place());
            let met = format!(
                "{who} had it {} of {} times that somebody was seen with it{}.",
                had.times,
                had.of,
                if place.is_empty() { String::new() } else { format!(", mostly{place}") },
            );
            (format!("{who}{place}"), met)
        }
        None => match wait_words::holder(measures, end) {
            Some(by) => (
                measures.model.threads.who(&by),
                format!("{} let go of it most often.", measures.model.threads.who(&by)),
            ),
            None => ("another of its threads".into(), "Which thread has it is not known.".into()),
        },
    };
    let source = "sched_switch, futex arguments";
    let mut evidence = vec![
        Evidence::new("wait for the lock", loss.seconds, "s", source),
        Evidence::new(
            "waits, each of a few milliseconds before it asks again",
            end.count as f64,
            "1",
            "sched_switch",
        ),
    ];
    if let Some(had) = had {
        let name = format!("readings of the lock of {} with that thread", had.interpreter);
        evidence.push(Evidence::new(name, had.times as f64, "1", "process_vm_readv"));
    }
    Wording {
        title: format!("{waiter} waits for its interpreter lock while {who} has it"),
        text: format!(
            "{} pass in waiting for it. One thread of the process runs its program at a time, however many CPUs are \
             idle. {met}",
            words::of_window(loss.seconds, loss.wall_seconds),
        ),
        evidence,
        remedy: vec![Remedy {
            text: "let processes compute instead of threads, or call what lets go of the lock; see what its threads do".into(),
            ..Remedy::default()
        }
        .ask(
            Question::Program,
            &measures.model.threads.thread_ref(pid),
            question(measures, had, pid),
        )],
    }
}

/// The question to the program; one that has given itself a name of its own is known by its interpreter.
fn question(measures: &Measures<'_>, had: Option<&Had>, pid: u32) -> String {
    match had.and_then(|had| programs::of_interpreter(&had.interpreter)) {
        Some(program) => ask::question_of(measures.model, program, pid),
        None => ask::question(measures.model, pid),
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const MS: Ns = 1_000_000;

    /// Thread 11 waits so long at a time for a word of process 10, eight times, while thread 12 has the interpreter's lock, of
    /// which the words are 0x7000 to 0x7100.
    fn waits(address: u64, lasting_ns: Ns) -> Vec<Fact> {
        let of = |tid, comm: &str| ThreadRef { tid, pid: 10, start_ns: 1, comm: comm.into() };
        let main = identity(Thread { thread: of(10, "app"), ..Thread::default() });
        let mut facts = [host(), vec![of_process(10, "app"), main]].concat();
        for begin_ns in (1..=8).map(|turn| turn * 500 * MS) {
            let place = Place {
                state: WaitState::Sleep,
                syscall: "futex".into(),
                args: [address, 137, 0, 0, 0, 0],
                ..Place::default()
            };
            let (end_ns, context) = (begin_ns + lasting_ns, WakeContext::Task);
            let wake = Some(Wake { at_ns: end_ns, by: of(12, "app"), context, ..Wake::default() });
            let wait =
                Wait { thread: of(11, "app"), begin_ns, end_ns, place, wake, ..Wait::default() };
            let frames = vec![
                UserFrame {
                    function: "match".into(),
                    module: "python3/re.py".into(),
                    ..UserFrame::default()
                },
                UserFrame {
                    function: "crunch".into(),
                    module: "app.py".into(),
                    ..UserFrame::default()
                },
            ];
            let lock = InterpreterLock {
                pid: 10,
                interpreter: "CPython 3.11".into(),
                collecting: false,
                begin: 0x7000,
                end: 0x7100,
                holder_tid: 12,
                frames,
            };
            facts.push(Fact { at_ns: begin_ns + MS, body: Body::InterpreterLock(lock) });
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
        }
        facts
    }

    fn codes(facts: Vec<Fact>) -> Vec<String> {
        explain(facts).findings.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn who_has_it_is_named_with_the_function() {
        let report = explain(waits(0x7040, 300 * MS));
        let finding = &report.findings[0];
        assert_eq!(finding.code, "lock.interpreter");
        let title =
            "app waits for its interpreter lock while app 10/12 in crunch() of app.py has it";
        assert_eq!(finding.title, title);
        assert!(finding.text.contains("8 of 8 times"), "{}", finding.text);
        assert_eq!(finding.culprit.pid, Some(10));
        assert_eq!(
            finding.remedy[0].command,
            crate::programs::of("python3").unwrap().question(&Default::default(), 10)
        );
    }

    #[test]
    fn two_words_of_it_are_one_lock() {
        let mut facts = waits(0x7040, 300 * MS);
        for fact in facts.iter_mut().filter(|fact| fact.at_ns % (1_000 * MS) > 500 * MS) {
            if let Body::Wait(wait) = &mut fact.body {
                wait.place.args[0] = 0x7044;
            }
        }
        assert_eq!(codes(facts), ["lock.interpreter"]);
    }

    #[test]
    fn a_word_beside_the_lock_is_none_of_it() {
        assert!(codes(waits(0x7100, 300 * MS)).iter().all(|code| code != "lock.interpreter"));
    }

    #[test]
    fn short_waits_for_it_are_healthy() {
        assert!(codes(waits(0x7040, 5 * MS)).is_empty());
        let says = |each_ns| codes(waits(0x7040, each_ns)).contains(&"lock.interpreter".into());
        // Eight of them.
        assert!(!says(45 * MS), "less than a tenth of the look");
        assert!(says(62 * MS + MS / 2), "a tenth");
    }

    #[test]
    fn a_holder_that_waits_for_a_cpu_is_the_cpus_victim() {
        let mut facts = waits(0x7040, 300 * MS);
        let thread = ThreadRef { tid: 12, pid: 10, start_ns: 1, comm: "app".into() };
        let ready = Wait { thread, end_ns: LOOK_NS, ..Wait::default() };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Wait(ready) });
        assert!(codes(facts).iter().all(|code| code != "lock.interpreter"));
    }

    #[test]
    fn without_a_reading_the_stack_says_which_lock_it_is() {
        let mut facts = waits(0x7040, 300 * MS);
        facts.retain(|fact| !matches!(fact.body, Body::InterpreterLock(_)));
        let thread = ThreadRef { tid: 11, pid: 10, start_ns: 1, comm: "app".into() };
        let frame = |name: &str| UserFrame {
            function: name.into(),
            module: "python3.12".into(),
            ..UserFrame::default()
        };
        let frames = vec![frame("pthread_cond_timedwait"), frame("take_gil")];
        let stack = UserStack { thread, since_ns: 0, frames, complete: true };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) });
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!(finding.code, "lock.interpreter");
        assert!(finding.text.contains("app 10/12 let go of it most often"), "{}", finding.text);
    }
}
