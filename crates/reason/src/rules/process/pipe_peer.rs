//! process.pipe_peer: writers wait because a pipe is full and its reader does not read.
//!
//! A log collector that was stopped, a reader that sleeps between lines. A reader that is at work all the time is
//! no fault: then the pipe is only the place where a busy pipeline shows that it is busy, and nothing is said here.
//! Nor is the last stage of a pipeline that takes what comes at a pace of its own (a player, a rate limit, a loop that sleeps): the stage before was
//! begun for it, and whoever asks is led to the sleep. That is so only where nobody else waits for the writer: a server's log that is taken so slowly is a fault.
//! The clients of a server may be on other hosts, where nobody sees them wait: a writer that listens, or that was asked, is no mere stage.
//! A process that has crashed writes its core into such a pipe: core_dump.rs has the words.
//! Rejected: how full the pipe is (a full one with a quick reader is a good pipeline).

use super::core_dump;
use crate::facts::{Endpoint, ObjectRef, ThreadRef};
use crate::graph::debts::Debt;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::engine::Loss;
use crate::rules::holder_doing::{self, AT_WORK, Meanwhile, meanwhile};
use crate::rules::proof::Proof;
use crate::rules::wait_words;
use crate::rules::wording::{Culprit, Evidence, Remedy, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use std::collections::HashMap;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "process.pipe_peer",
    title: "A pipe is full and its reader does not read",
    theory: "A pipe holds 64 KiB by default. When its reader stops reading, the writer sleeps in write(2) as soon as it \
             is full, whatever it wanted to do next: a service that logs through a pipe stands still with its log \
             collector.",
    needs: &[
        "a thread waits in write on a full pipe",
        "the process with the reading end is known by its descriptor, and is not at work: stopped, asleep, or waiting \
         for something else",
    ],
    refuted_by: &[
        Refutation::new(
            "the reader is at work all the time (a pipeline that computes)",
            "a_reader_at_work_makes_a_pipeline_that_computes",
        ),
        Refutation::new(
            "the reader's standard input is the writer's standard output, the reader takes some of it at each of its own sleeps, and nobody else \
             waits for the writer, which serves nobody: a pipeline at its pace",
            "a_pipeline_at_the_pace_of_its_last_stage_is_no_fault",
        ),
        Refutation::new(
            "the reader itself waits for something with a name",
            "a_reader_that_waits_for_a_cpu_is_the_cpus_victim",
        ),
    ],
    remedies: &[
        "continue or restart the reader",
        "write with O_NONBLOCK and drop, or buffer in a thread of its own",
        "make the pipe larger (F_SETPIPE_SZ) where the reader is late only now and then",
    ],
    stories: &["S0.5"],
    thresholds: &[&AT_WORK, &PACE],
    finds: Finds::Look(find),
};

static PACE: Threshold = Threshold::new(
    1.5,
    "s",
    "longest wait for room in a pipeline whose last stage sleeps between reads; with a longer one it does not read",
    "chosen: above the second for which loops sleep most often; a player of CD quality takes 64 KiB in 0.4 s",
);

fn find<'m>(measures: &'m Measures<'m>, ends: &'m [End]) -> Vec<Match<'m>> {
    let of_end = |(at, end): (usize, &'m End)| {
        let doing = meanwhile(measures, end);
        let reader = wait_words::holder(measures, end);
        if reader.as_ref().is_some_and(|it| doing.at_work || is_pace(measures, end, it)) {
            return None;
        }
        let proof = if reader.is_some() { Proof::TwoWitnesses } else { Proof::OneWitness };
        let by = reader.map_or_else(Culprit::default, |reader| culprit(measures.model, &reader));
        let matched = Match::new(by, proof, move |loss| explain(measures, end, &doing, loss));
        Some(holder_doing::claim(matched, ends, at))
    };
    holder_doing::open(ends, WaitClass::PipeWrite).filter_map(of_end).collect()
}

/// Whether the writer is the stage before in a pipeline, and its reader goes on reading at a pace of its own. Who waits for one of them to
/// end, or reads what they write, began them or belongs to them.
fn is_pace(measures: &Measures<'_>, end: &End, reader: &ThreadRef) -> bool {
    use WaitClass::{Child, Idle, PipeRead, PipeWrite, ProcessEnd, Timer, Vfork};
    let writer = &end.links[end.named].who;
    let has = |pid: u32, fd: u32| ends(measures, end).any(|e| e.process.pid == pid && e.fd == fd);
    let is_stage = has(writer.pid, 1) && has(reader.pid, 0);
    // A sleep in the kernel for a reason that is not known is no pace that somebody chose.
    let is_own = matches!(end.holder_mostly(), Some(Timer | Idle)) && !end.circle;
    let is_alone = end
        .via
        .keys()
        .all(|class| matches!(class, Child | Idle | PipeRead | PipeWrite | ProcessEnd | Vfork));
    let longest = wait_words::longest(measures, end);
    is_stage
        && is_own
        && is_alone
        && longest.all > 1
        && longest.seconds < PACE.value
        && !is_server(measures, writer.pid)
}

/// Whether somebody may wait for a process whom nobody here sees: it listens, or a question came to it.
fn is_server(measures: &Measures<'_>, pid: u32) -> bool {
    let listens = |it: &Endpoint| {
        let is_listener = matches!(&it.object, ObjectRef::Inet(own) if own.state == TCP_LISTEN);
        it.process.pid == pid && is_listener
    };
    let debts = measures.graph.debts();
    let was_asked = |of: &HashMap<u32, Vec<Debt>>| of.get(&pid).is_some_and(|all| !all.is_empty());
    was_asked(&debts.owes)
        || was_asked(&debts.owed_before)
        || measures.model.held.endpoints.iter().any(listens)
}

fn explain(measures: &Measures<'_>, end: &End, doing: &Meanwhile, loss: &Loss<'_>) -> Wording {
    let reader = wait_words::holder(measures, end);
    let by = reader.as_ref().map(|it| measures.model.threads.who(it));
    let pipe = name(measures, end);
    let on = measures.model.name_of(&end.object);
    let longest = wait_words::longest(measures, end);
    let mut evidence =
        wait_words::wait_evidence(loss.seconds, end.count as usize, &longest, "room in the pipe");
    if let (Some(reader), Some(by)) = (&reader, &by) {
        evidence.push(Evidence::new(
            format!("share of that time in which {by} {}", doing.does),
            doing.share,
            "1",
            "sched_switch and the task iterator",
        ));
        let fds = ends(measures, end).filter(|e| e.readable && e.process.pid == reader.pid);
        evidence.push(Evidence::new(
            format!("reading descriptors of {by} on it"),
            fds.count() as f64,
            "1",
            "descriptor iterator",
        ));
    }
    let waiter = wait_words::waiter(measures, end);
    let does = by.as_ref().map(|by| format!("{by} {}", doing.does));
    let dumps = core_dump::is_one(end);
    let title = match (&by, &does) {
        (_, does) if dumps => core_dump::title(&waiter, does.as_deref()),
        (Some(by), _) if end.circle => {
            format!("{waiter} and {by} wait for each other: each for the other to read its pipe")
        }
        (_, Some(does)) => format!("{waiter} waits to write to {pipe}: its reader {does}"),
        _ => format!("{waiter} waits to write to {pipe}, and who reads it was not seen"),
    };
    let room = match &end.object {
        _ if dumps => "the pipe into the program that takes its core (kernel.core_pattern)".into(),
        Object::Pipe(_) => format!("{} {}", on.kind, on.name),
        _ => "a pipe".to_string(),
    };
    let meanwhile = does.map_or_else(String::new, |does| {
        format!(" Meanwhile {does} for {}.", words::percent(doing.share))
    });
    Wording {
        title,
        text: format!(
            "{} pass in {} for room in {room}; the longest {}.{meanwhile}",
            words::of_window(loss.seconds, loss.wall_seconds),
            words::count(end.count as usize, "wait", "waits"),
            wait_words::lasted_of(&longest, loss.seconds),
        ),
        evidence,
        remedy: remedy(measures, end),
    }
}

/// A FIFO by its path where one end's descriptor has it, else the pipe.
fn name(measures: &Measures<'_>, end: &End) -> String {
    let reads_standard_input = wait_words::holder(measures, end).is_some_and(|reader| {
        ends(measures, end).any(|end| end.readable && end.fd == 0 && end.process.pid == reader.pid)
    });
    match (&*measures.model.name_of(&end.object).kind, reads_standard_input) {
        ("pipe", true) => "the pipe into its reader's standard input".into(),
        ("pipe" | "kernel", false) => "a full pipe".into(),
        ("FIFO", _) => format!("the FIFO with {}", measures.model.name_of(&end.object).name),
        _ => measures.model.name_of(&end.object).name,
    }
}

fn ends<'a>(measures: &'a Measures<'_>, end: &End) -> impl Iterator<Item = &'a Endpoint> {
    let ino = match end.object {
        Object::Pipe(ino) => Some(ino),
        _ => None,
    };
    let all = measures.model.held.endpoints.iter();
    all.filter(move |end| matches!(&end.object, ObjectRef::Pipe { ino: own } if Some(*own) == ino))
}

fn remedy(measures: &Measures<'_>, end: &End) -> Vec<Remedy> {
    let reader = wait_words::holder(measures, end);
    if core_dump::is_one(end) {
        let name = reader.as_ref().map(|it| measures.model.threads.who(it));
        return core_dump::ways_out(end, reader.as_ref().zip(name.as_deref()));
    }
    let Some(reader) = reader else {
        if !matches!(end.object, Object::Pipe(_)) {
            let waiter = &end.links[end.named].who;
            return vec![Remedy::to("see which pipe it is").kernel_stack(waiter)];
        }
        let on = measures.model.name_of(&end.object);
        if on.kind == "FIFO" {
            let ls = "find /proc/[0-9]*/fd -lname '/*' -exec test -p {} \\; -ls 2>/dev/null   # lr-x: a reading end";
            return vec![
                Remedy::to("find who has its reading end")
                    .command(ls)
                    .acting(Action::look(Question::State)),
            ];
        }
        return vec![Remedy {
            text: "find who has its reading end".into(),
            command: format!(
                "find /proc/[0-9]*/fd -ls 2>/dev/null | grep -F -- {}   # lr-x: a reading end",
                words::shell(&on.name)
            ),
            action: Some(Action::look(Question::State)),
            ..Remedy::default()
        }];
    };
    match end.holder_mostly() {
        _ if end.circle => {
            let text = format!(
                "end one of the two; then let {} read one pipe while it writes the other (a thread, poll, or its library's call \
                 for both, such as communicate())",
                measures.model.threads.who(&reader)
            );
            let one = std::slice::from_ref(&end.links[end.named].who);
            vec![holder_doing::end_all(measures.model, &text, one)]
        }
        Some(WaitClass::Stopped) => vec![Remedy::to("continue the reader").go_on(&reader)],
        _ => vec![
            Remedy::to(format!("see why {} does not read", measures.model.threads.who(&reader)))
                .kernel_stack(&reader),
            Remedy {
                text: "let the writer drop or buffer what the reader cannot take".into(),
                ..Remedy::default()
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Severity;
    use crate::facts::*;
    use crate::rules::scenes::*;

    fn pipe(reader: Fact) -> Vec<Fact> {
        let pipe = ObjectRef::Pipe { ino: 77 };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "write".into(),
            object: Some(pipe.clone()),
            ..Place::default()
        };
        let mut facts = host();
        let mut read = endpoint(20, "collector", pipe.clone());
        let mut write = endpoint(10, "service", pipe);
        if let Body::Endpoint(end) = &mut read.body {
            end.writable = false;
        }
        if let Body::Endpoint(end) = &mut write.body {
            end.readable = false;
        }
        facts.extend([read, write, at_place(10, "service", place), reader]);
        facts
    }

    #[test]
    fn a_stopped_reader_is_named_once() {
        let report = explain(pipe(blocked(20, "collector", WaitState::Stopped, "")));
        assert_eq!(report.findings.len(), 1, "the stopped process is not reported again");
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.pipe_peer", Severity::Critical));
        assert_eq!(finding.culprit.pid, Some(20));
        assert_eq!(finding.remedy[0].command, "kill -CONT 20");
    }

    #[test]
    fn the_one_that_writes_is_named_and_not_the_shell_that_waits_for_it() {
        let mut facts = pipe(blocked(20, "collector", WaitState::Sleep, "nanosleep"));
        let mut waits =
            Place { state: WaitState::Sleep, syscall: "wait4".into(), ..Place::default() };
        waits.args[0] = 10;
        facts.push(at_place(5, "bash", waits));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert!(finding.title.starts_with("service waits to write"), "{}", finding.title);
        assert_eq!(finding.chain[0].who.name, "bash");
    }

    #[test]
    fn of_a_reader_that_was_not_seen_nothing_is_said() {
        let mut facts = pipe(blocked(20, "collector", WaitState::Sleep, "nanosleep"));
        facts.retain(|fact| !matches!(&fact.body, Body::Endpoint(end) if end.readable));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert!(finding.title.ends_with("and who reads it was not seen"), "{}", finding.title);
        assert!(!finding.text.contains("Meanwhile"), "{}", finding.text);
    }

    /// Process 10 has crashed, and process 20 is to read its core.
    fn dumps(handler: bool) -> crate::answer::report::Finding {
        let frames = ["anon_pipe_write", "vfs_coredump"].map(String::from).to_vec();
        let mut facts = host();
        facts.push(fact(Body::Stack(Stack { id: 1, frames })));
        let place = Place { state: WaitState::Sleep, stack: 1, ..Place::default() };
        facts.push(at_place(10, "service", place));
        facts.push(identity(Thread {
            thread: thread(2, "kthreadd"),
            kernel: true,
            ..Thread::default()
        }));
        if handler {
            let mut read = endpoint(20, "handler", ObjectRef::Pipe { ino: 5 });
            if let Body::Endpoint(end) = &mut read.body {
                (end.fd, end.writable) = (0, false);
            }
            let known =
                Thread { thread: thread(20, "handler"), parent_pid: 2, ..Thread::default() };
            facts.extend([read, identity(known)]);
            facts.push(blocked(20, "handler", WaitState::Sleep, "nanosleep"));
        }
        explain(facts).findings[0].clone()
    }

    #[test]
    fn who_is_to_take_a_core_dump_is_named_and_its_end_lets_the_crashed_one_go() {
        let finding = dumps(true);
        assert_eq!((&*finding.code, finding.culprit.pid), ("process.pipe_peer", Some(20)));
        assert!(
            finding.title.contains("core dump is taken: handler 20 sleeps"),
            "{}",
            finding.title
        );
        assert_eq!(finding.remedy[1].command, "kill 20");
        let unseen = dumps(false);
        assert!(unseen.title.ends_with("who takes it was not seen"), "{}", unseen.title);
        assert_eq!(
            (unseen.culprit.pid, &*unseen.remedy[0].command),
            (None, "sysctl kernel.core_pattern")
        );
    }

    #[test]
    fn a_sleeping_reader_is_named() {
        let report = explain(pipe(blocked(20, "collector", WaitState::Sleep, "nanosleep")));
        let finding = &report.findings[0];
        assert_eq!((&*finding.code, finding.severity), ("process.pipe_peer", Severity::Critical));
        assert!(finding.title.contains("collector 20 sleeps"), "{}", finding.title);
    }

    /// What is found of a pipeline whose last stage sleeps so long between reads, from descriptor to descriptor; and whether a client waits for the first.
    fn paced(each_ms: Ns, from_fd: u32, has_client: bool) -> bool {
        paced_with(each_ms, from_fd, has_client, Vec::new())
    }

    /// The same with what else is known of them.
    fn paced_with(each_ms: Ns, from_fd: u32, has_client: bool, others: Vec<Fact>) -> bool {
        let mut facts = pipe(blocked(20, "collector", WaitState::Sleep, "nanosleep"));
        facts.retain(|f| !matches!(&f.body, Body::Blocked(_)));
        for fact in &mut facts {
            if let Body::Endpoint(end) = &mut fact.body {
                end.fd = if end.readable { 0 } else { from_fd };
            }
        }
        let place = Place {
            state: WaitState::Sleep,
            syscall: "write".into(),
            object: Some(ObjectRef::Pipe { ino: 77 }),
            ..Place::default()
        };
        let each_ns = each_ms * 1_000_000;
        for at in 0..LOOK_NS / each_ns {
            let (begin_ns, end_ns) = (at * each_ns, (at + 1) * each_ns - 100_000);
            facts.push(slept(20, "collector", begin_ns, end_ns));
            let by = thread(20, "collector");
            let wake =
                Some(Wake { at_ns: end_ns, context: WakeContext::Task, by, ..Wake::default() });
            let (thread, place) = (thread(10, "service"), place.clone());
            let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
            facts.push(Fact { at_ns: end_ns, body: Body::Wait(wait) });
        }
        facts.extend(others);
        if has_client {
            let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
            let far = ObjectRef::Unix { ino: 200, peer_ino: 100, path: Some("/run/s".into()) };
            let asks = Place {
                state: WaitState::Sleep,
                syscall: "read".into(),
                object: Some(near.clone()),
                ..Place::default()
            };
            facts.extend([endpoint(5, "client", near), endpoint(10, "service", far)]);
            facts.push(at_place(5, "client", asks));
        }
        explain(facts).findings.iter().any(|it| it.code == "process.pipe_peer")
    }

    #[test]
    fn a_pipeline_at_the_pace_of_its_last_stage_is_no_fault() {
        assert!(!paced(200, 1, false));
        assert!(!paced(1_000, 1, false));
        assert!(paced(2_500, 1, false), "it hardly reads");
        assert!(paced(200, 7, false), "what it writes besides its output is not for a stage");
        assert!(paced(200, 1, true), "a client waits for it meanwhile");
    }

    #[test]
    fn a_server_whose_clients_nobody_here_sees_is_no_stage() {
        let listener = ObjectRef::Inet(InetRef {
            ino: 7,
            netns: 1,
            protocol: "tcp".into(),
            local: "0.0.0.0:80".parse().expect("an address"),
            remote: "0.0.0.0:0".parse().expect("an address"),
            state: 10,
        });
        let of = |pid, comm: &str| vec![descriptor(pid, 9, comm, listener.clone())];
        assert!(paced_with(300, 1, false, of(10, "service")), "its log is taken so slowly");
        assert!(!paced_with(300, 1, false, of(30, "other")), "another listens");
    }

    /// Each of two writes to a full pipe that the other should read.
    #[test]
    fn two_that_wait_for_each_other_to_read_are_a_circle() {
        let back = ObjectRef::Pipe { ino: 78 };
        let place = Place {
            state: WaitState::Sleep,
            syscall: "write".into(),
            object: Some(back.clone()),
            ..Place::default()
        };
        let mut facts = pipe(at_place(20, "collector", place));
        let mut read = endpoint(10, "service", back.clone());
        let mut write = endpoint(20, "collector", back);
        if let (Body::Endpoint(read), Body::Endpoint(write)) = (&mut read.body, &mut write.body) {
            (read.writable, write.readable) = (false, false);
        }
        facts.extend([read, write]);
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!(finding.code, "process.pipe_peer");
        assert!(finding.culprit.pid.is_some(), "{finding:?}");
        assert!(finding.title.contains("wait for each other"), "{}", finding.title);
    }

    /// The reader's loop, for which somebody waits, has the writer as its one child.
    #[test]
    fn a_loop_that_waits_for_whatever_comes_is_no_circle() {
        let place = |syscall: &str, args| {
            let (state, syscall) = (WaitState::Sleep, syscall.into());
            Place { state, syscall, args, ..Place::default() }
        };
        let mut facts = pipe(at_place(20, "collector", place("poll", [0; 6])));
        facts.push(at_place(5, "bash", place("wait4", [20, 0, 0, 0, 0, 0])));
        let thread = ThreadRef { start_ns: 1, ..thread(10, "service") };
        facts.push(identity(Thread { thread, parent_pid: 20, ..Thread::default() }));
        let report = explain(facts);
        let finding = &report.findings[0];
        assert_eq!(finding.code, "process.pipe_peer");
        assert!(!finding.title.contains("each other"), "{}", finding.title);
        assert!(!finding.remedy.iter().any(|way| way.command.contains("kill")), "{finding:?}");
    }

    #[test]
    fn a_reader_at_work_makes_a_pipeline_that_computes() {
        let ran = Ran { thread: thread(20, "gzip"), begin_ns: 0, end_ns: LOOK_NS, cpu: 0 };
        let report = explain(pipe(fact(Body::Ran(ran))));
        assert!(report.findings.iter().all(|f| f.code != "process.pipe_peer"));
    }

    #[test]
    fn a_reader_that_waits_for_a_cpu_is_the_cpus_victim() {
        let wait = Wait { thread: thread(20, "gzip"), end_ns: LOOK_NS, ..Wait::default() };
        let report = explain(pipe(fact(Body::Wait(wait))));
        assert!(report.findings.iter().all(|f| f.code != "process.pipe_peer"));
    }
}
