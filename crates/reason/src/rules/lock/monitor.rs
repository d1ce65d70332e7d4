//! lock.monitor: threads of a Java program wait for a monitor (synchronized), or are parked for a lock, while a client waits.
//!
//! The machine's own functions on the stack say which of the two it is. Who has a monitor the machine's own lists say, which are
//! read some times a second; of a lock of java.util.concurrent, which is an object of the program, it is whoever let go of it in
//! the look, and else it is said that nobody knows. A parked thread waits for work as often as for a lock: where its methods do
//! not say that it is a lock, it counts only if its process owes somebody an answer (graph/ends.rs makes no end of the others).
//! Must not: take the one who hands out work for a holder.

use crate::facts::ThreadRef;
use crate::graph::end::{End, EndKind};
use crate::measure::process_names::present;
use crate::measure::{Measures, pools};
use crate::model::words;
use crate::programs::java;
use crate::programs::lock_kind::LockKind;
use crate::rules::action::Question;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, ask, culprit};
use crate::rules::{holder_doing, wait_words};
use crate::waits::WaitClass;
use crate::waits::user_stack;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "lock.monitor",
    title: "Threads of a Java program wait for a monitor or a lock",
    theory: "A method that is synchronized is entered by one thread at a time, and a ReentrantLock is had by one. While the holder \
             sleeps, does I/O or asks another server, all who want it stand still: the kernel sees words of memory that say \
             nothing, the machine's functions say what they are.",
    needs: &[
        "a thread stands in the machine's functions that enter a monitor (ObjectMonitor::enter), or park a thread \
         (Unsafe_Park)",
        "somebody is held up by that: for a parked thread, whoever asked for a lock that another has (ReentrantLock.lock), or a \
         client that is owed an answer",
    ],
    refuted_by: &[
        Refutation::new(
            "a parked thread of a program that owes nobody anything waits for work",
            "a_parked_thread_of_a_pool_waits_for_work",
        ),
        Refutation::new(
            "it waits in Object.wait, which somebody is to notify: a queue",
            "who_waits_to_be_notified_waits_for_no_monitor",
        ),
        Refutation::new(
            "it waits for the next of a queue, or for a condition, which nobody has",
            "a_queue_has_no_owner_whoever_waits_for_its_next",
        ),
        Refutation::new(
            "the holder itself is held up by something with a name",
            "a_holder_that_waits_for_a_cpu_is_the_cpus_victim",
        ),
    ],
    remedies: &[
        "hold it for less: no I/O, no sleep and no question to another server inside synchronized",
        "split the lock, or use a concurrent collection",
    ],
    stories: &[],
    thresholds: &[],
    finds: Finds::Look(find),
};

/// What the functions of the wait say, if it is one of the machine's.
fn kind(measures: &Measures<'_>, end: &End) -> Option<LockKind> {
    let kind = end.lock_kind(measures.model)?;
    let is_its = kind == LockKind::Monitor || end.is_parked_in_java(measures.model);
    is_its.then_some(kind)
}

/// Who has it, as far as it is known: of a row of those who wait for each other, whom the last waits for.
fn holder(measures: &Measures<'_>, end: &End) -> Option<ThreadRef> {
    let behind = end.links.get(end.named + 1..).and_then(<[_]>::last);
    behind.map(|root| present(measures.model, &root.who))
}

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let of_words = [WaitClass::FutexLock, WaitClass::FutexWait];
    let open = of_words.into_iter().flat_map(|class| holder_doing::open(ends, class));
    let of_end = |(at, end): (usize, &'m End)| {
        let kind = kind(measures, end).filter(|_| end.kind == EndKind::Lock)?;
        let waiter = wait_words::main_thread(measures, end.links[end.named].who.pid);
        let holder = holder(measures, end);
        // A queue or a latch has no owner: who is to bring what is waited for nobody has seen, and it may well be nobody's turn.
        if holder.is_none() && kind.is_no_lock() && kind != LockKind::Park {
            return None;
        }
        let proof = if holder.is_some() { Proof::TwoWitnesses } else { Proof::OneWitness };
        // Whoever has it is a thread of the same process.
        let by = culprit(measures.model, &holder.unwrap_or(waiter));
        let matched = Match::new(by, proof, move |loss| explain(measures, end, kind, loss));
        Some(holder_doing::claim(matched, ends, at))
    };
    open.filter_map(of_end).collect()
}

/// Where a thread stands, if its methods are known.
fn within(function: Option<&str>) -> String {
    function.map_or_else(String::new, |function| format!(" in {function}()"))
}

fn explain(measures: &Measures<'_>, end: &End, kind: LockKind, loss: &Loss<'_>) -> Wording {
    let link = &end.links[end.named];
    // The process is named in the title.
    let (who, pid) = (words::who(&link.who), link.who.pid);
    let program = measures.model.threads.process_name(pid);
    let what = if kind == LockKind::Park { "a lock or a turn" } else { kind.phrase() };
    let place =
        within(user_stack::method_of(measures.model, &link.who, link.since_ns, link.end_ns));
    let stands = match kind {
        LockKind::Monitor => format!("stands{place} to enter a monitor (synchronized)"),
        _ => format!("stands parked{place}, for {what} (java.util.concurrent)"),
    };
    let by = holder(measures, end);
    let held = match &by {
        Some(by) => {
            let does = holder_doing::meanwhile(measures, end).does;
            let root = end.links.last().filter(|root| root.who.tid == by.tid);
            let function = root.and_then(|root| {
                user_stack::function_of(measures.model, &root.who, root.since_ns, root.end_ns)
            });
            format!(
                "{} has it, and {does} meanwhile{}.",
                measures.model.threads.who(by),
                within(function)
            )
        }
        None => format!(
            "Which thread of {program} has it is not known from outside; its own list of threads says it (\"locked\" and \
             \"waiting to lock\", or \"parking to wait for\").{}",
            pools::beside_pools(measures, pid)
        ),
    };
    let longest = wait_words::longest(measures, end);
    let mut evidence = vec![
        Evidence::new("wait for it", loss.seconds, "s", "sched_switch"),
        Evidence::new("waits", end.count as f64, "1", "sched_switch"),
    ];
    evidence.extend(wait_words::longest_evidence(&longest, "longest wait, as far as it is shown"));
    Wording {
        title: match &by {
            Some(by) => format!(
                "{program} {pid} waits for {what} that {} has",
                measures.model.threads.who(by)
            ),
            None => format!("{program} {pid} waits for {what} of its own"),
        },
        text: format!(
            "{} pass while its thread {who} {stands}. {held}",
            words::of_window(loss.seconds, loss.wall_seconds),
        ),
        evidence,
        remedy: vec![Remedy::to("see which thread has it, and in which method").ask(
            Question::Program,
            &measures.model.threads.thread_ref(pid),
            ask::question_of(measures.model, &java::JAVA, pid),
        )],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    const MONITOR: &[&str] =
        &["pthread_cond_wait", "ObjectMonitor::EnterI", "ObjectMonitor::enter"];
    const PARKED: &[&str] = &["pthread_cond_wait", "Parker::park", "Unsafe_Park"];

    fn worker(tid: u32) -> ThreadRef {
        ThreadRef { tid, pid: 20, start_ns: 1, comm: format!("pool-1-thread-{tid}") }
    }

    /// Thread 21 of process 20 waits for a word all the time, or until thread 22 ends that, with these functions on its stack.
    fn stands(functions: &[&str], woken: bool) -> Vec<Fact> {
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [0x7000, 137, 0, 0, 0, 0],
            ..Place::default()
        };
        let frame = |name: &&str| UserFrame {
            function: (*name).into(),
            module: "libjvm.so".into(),
            ..UserFrame::default()
        };
        let frames = functions.iter().map(frame).collect();
        let stack =
            UserStack { thread: worker(21), frames, complete: true, ..UserStack::default() };
        let wait = if woken {
            let (end_ns, context) = (LOOK_NS - 1_000_000, WakeContext::Task);
            let wake = Some(Wake { at_ns: end_ns, by: worker(22), context, ..Wake::default() });
            Body::Wait(Wait { thread: worker(21), end_ns, place, wake, ..Wait::default() })
        } else {
            Body::Blocked(Blocked { thread: worker(21), place, ..Blocked::default() })
        };
        vec![
            Fact { at_ns: LOOK_NS - 1_000_000, body: Body::UserStack(stack) },
            Fact { at_ns: LOOK_NS, body: wait },
        ]
    }

    fn looked_at(more: Vec<Fact>) -> Vec<Fact> {
        let named = identity(Thread { thread: thread(20, "java"), ..Thread::default() });
        [host(), vec![of_process(20, "java"), named], more].concat()
    }

    fn codes(more: Vec<Fact>) -> Vec<String> {
        explain(looked_at(more)).findings.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_monitor_without_a_known_owner_is_said_to_have_none_known() {
        let mut facts = stands(MONITOR, false);
        let idle = blocked(20, "java", WaitState::Sleep, "epoll_wait");
        let Body::Blocked(one) = &idle.body else { return };
        let other = Blocked { thread: worker(22), ..one.clone() };
        facts.extend([idle.clone(), Fact { at_ns: LOOK_NS, body: Body::Blocked(other) }]);
        let report = explain(looked_at(facts));
        let finding = &report.findings[0];
        assert_eq!(finding.code, "lock.monitor");
        assert!(finding.text.contains("is not known from outside"), "{}", finding.text);
        assert_eq!(finding.remedy[0].command, "jcmd 20 Thread.print");
    }

    /// What the machine's lists said at an instant: thread 21 waits for a monitor of this one.
    fn owned(owner_tid: u32, at_ns: Ns) -> Fact {
        let waits = vec![MonitorWait { waiter_tid: 21, owner_tid, monitor: 0x5000 }];
        Fact { at_ns, body: Body::MonitorWaits(MonitorWaits { pid: 20, waits }) }
    }

    /// Thread 22 sleeps.
    fn sleeping_owner() -> Fact {
        let idle = blocked(20, "java", WaitState::Sleep, "clock_nanosleep");
        let Body::Blocked(one) = idle.body else { unreachable!() };
        Fact { at_ns: LOOK_NS, body: Body::Blocked(Blocked { thread: worker(22), ..one }) }
    }

    #[test]
    fn the_machine_says_who_has_a_monitor_that_is_still_held() {
        let mut facts = stands(MONITOR, false);
        facts.extend([sleeping_owner(), owned(22, LOOK_NS / 2)]);
        let report = explain(looked_at(facts));
        let finding = &report.findings[0];
        assert_eq!((finding.code.as_str(), finding.culprit.tid), ("lock.monitor", Some(22)));
        assert!(finding.text.contains("has it, and"), "{}", finding.text);
    }

    #[test]
    fn the_machine_knows_a_wait_of_which_no_stack_was_read() {
        let mut facts = stands(MONITOR, false).split_off(1);
        facts.extend([sleeping_owner(), owned(22, LOOK_NS / 2)]);
        assert_eq!(codes(facts), ["lock.monitor"]);
    }

    #[test]
    fn an_owner_that_the_machine_does_not_name_stays_unknown() {
        let mut facts = stands(MONITOR, false);
        let third = Blocked {
            thread: worker(23),
            ..match blocked(20, "java", WaitState::Sleep, "epoll_wait").body {
                Body::Blocked(one) => one,
                _ => unreachable!(),
            }
        };
        facts.extend([sleeping_owner(), owned(0, LOOK_NS / 2)]);
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Blocked(third) });
        let report = explain(looked_at(facts));
        assert!(report.findings[0].text.contains("is not known from outside"));
    }

    #[test]
    fn an_owner_whose_time_is_up_waited_for_no_other_thread() {
        let mut facts = stands(MONITOR, true);
        let place = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [0x8000, 137, 0, 0x77, 0, 0],
            ..Place::default()
        };
        let end_ns = LOOK_NS - 1_100_000;
        let wake =
            Some(Wake { at_ns: end_ns, context: WakeContext::HardInterrupt, ..Wake::default() });
        let pause = Wait { thread: worker(22), end_ns, place, wake, ..Wait::default() };
        let Body::Blocked(one) = blocked(20, "java", WaitState::Sleep, "flock").body else {
            unreachable!()
        };
        let sibling = Blocked { thread: worker(23), ..one };
        facts.push(Fact { at_ns: end_ns, body: Body::Wait(pause) });
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Blocked(sibling) });
        let report = explain(looked_at(facts));
        let finding = report.findings.iter().find(|finding| finding.code == "lock.monitor");
        let finding = finding.expect("a monitor is waited for");
        assert_eq!(finding.culprit.tid, Some(22), "{finding:#?}");
        assert!(finding.text.contains("has it, and sleeps meanwhile"), "{}", finding.text);
    }

    #[test]
    fn who_let_go_of_a_monitor_had_it() {
        let mut facts = stands(MONITOR, true);
        let sleeps = Place {
            state: WaitState::Sleep,
            syscall: "clock_nanosleep".into(),
            ..Place::default()
        };
        let wait = Wait {
            thread: worker(22),
            end_ns: LOOK_NS - 1_000_000,
            place: sleeps,
            ..Wait::default()
        };
        let context = WakeContext::HardInterrupt;
        let wake = Some(Wake { at_ns: LOOK_NS - 1_000_000, context, ..Wake::default() });
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Wait(Wait { wake, ..wait }) });
        let report = explain(looked_at(facts));
        let finding = &report.findings[0];
        assert_eq!(finding.code, "lock.monitor");
        let said = "java 20/22 (thread pool-1-thread-22) has it, and sleeps meanwhile";
        assert!(finding.text.contains(said), "{}", finding.text);
    }

    /// The same with methods behind the machine's functions.
    fn stands_in(functions: &[&str], methods: &[(&str, &str)]) -> Vec<Fact> {
        let mut facts = stands(functions, false);
        if let Body::UserStack(stack) = &mut facts[0].body {
            stack.frames.extend(methods.iter().map(|(function, module)| UserFrame {
                function: (*function).into(),
                module: (*module).into(),
                ..UserFrame::default()
            }));
        }
        facts
    }

    #[test]
    fn the_method_that_waits_is_named() {
        let methods = [("Hashtable.get", "jdk/Hashtable.java"), ("Shop.order", "Shop.java")];
        let mut facts = stands_in(MONITOR, &methods);
        facts.extend([sleeping_owner(), owned(22, LOOK_NS / 2)]);
        let report = explain(looked_at(facts));
        let finding = &report.findings[0];
        assert!(finding.text.contains("stands in Shop.order() to enter"), "{}", finding.text);
        assert_eq!(finding.chain[0].who.function.as_deref(), Some("Shop.order"));
    }

    #[test]
    fn a_lock_of_javas_own_is_waited_for_without_a_client_too() {
        let lock = [("ReentrantLock.lock", "jdk/ReentrantLock.java"), ("Shop.buy", "Shop.java")];
        let report = explain(looked_at(stands_in(PARKED, &lock)));
        let finding = &report.findings[0];
        assert_eq!(finding.code, "lock.monitor");
        assert!(finding.text.contains("stands parked in Shop.buy(), for a mutex"));
        let queue = ("LinkedBlockingQueue.take", "jdk/LinkedBlockingQueue.java");
        assert!(codes(stands_in(PARKED, &[queue, ("Shop.next", "Shop.java")])).is_empty());
    }

    /// What is found of process 20, which owes its client 10 an answer while its thread is parked in such a method.
    fn owing_parked_in(method: (&str, &str)) -> Vec<String> {
        let [near, far] = [100, 101].map(|ino| ObjectRef::Unix {
            ino,
            peer_ino: 201 - ino,
            path: (ino == 101).then(|| "/run/shop.sock".into()),
        });
        let mut facts = stands_in(PARKED, &[method, ("Shop.next", "Shop.java")]);
        let asks = Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(near.clone()),
            ..Place::default()
        };
        facts.extend([
            endpoint(10, "curl", near),
            descriptor(20, 5, "java", far),
            at_place(10, "curl", asks),
        ]);
        codes(facts)
    }

    #[test]
    fn a_queue_has_no_owner_whoever_waits_for_its_next() {
        let queue = ("LinkedBlockingQueue.take", "jdk/LinkedBlockingQueue.java");
        assert!(owing_parked_in(queue).is_empty());
        assert_eq!(
            owing_parked_in(("Shop.turn", "Shop.java")),
            ["lock.monitor"],
            "a lock or a turn"
        );
    }

    #[test]
    fn a_parked_thread_of_a_pool_waits_for_work() {
        assert!(codes(stands(PARKED, false)).is_empty());
        assert!(codes(stands(PARKED, true)).is_empty());
    }

    #[test]
    fn who_waits_to_be_notified_waits_for_no_monitor() {
        assert!(codes(stands(&["pthread_cond_wait", "ObjectMonitor::wait"], false)).is_empty());
    }

    #[test]
    fn a_holder_that_waits_for_a_cpu_is_the_cpus_victim() {
        let mut facts = stands(MONITOR, true);
        let ready = Wait { thread: worker(22), end_ns: LOOK_NS, ..Wait::default() };
        facts.push(Fact { at_ns: LOOK_NS, body: Body::Wait(ready) });
        assert!(codes(facts).iter().all(|code| code != "lock.monitor"));
    }
}
