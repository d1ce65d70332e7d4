//! Ways out for whom the look outlived: what can be done the next time.
//!
//! After `run` the command is gone, and so may be whoever held it up. A number of a process that is gone is nobody's, or soon another's: a way out
//! that acts on it is left out, and the first of them gives way to one that lasts: of a process of the command the command again under what would have
//! been asked; of one that a server began for it, which the command's own tracer never sees, the nearest of those who began it that is there still; or
//! the program by its name, which is given too where the command names who is gone. Here and not in the rules: a rule says what would help, and who is
//! there is the same question for all of them. Must not: word a cause.
//!
//! Rejected: leaving ways out without a replacement (a person would have nothing to do).
//!
//! Edit together: action.rs, model/lifetimes.rs, measure/ancestry.rs.

use super::action::{Action, ActionKind, Question};
use super::wording::Remedy;
use crate::facts::{TargetKind, ThreadRef};
use crate::measure::ancestry::Ancestry;
use crate::model::{Model, lifetimes, words};
use std::collections::BTreeSet;

/// Bytes of a command that is given again: one that is longer fills a screen, and whoever ran it has it.
const COMMAND_BYTES_MAX: usize = 2_000;

/// The ways out that act on nobody who is gone at the window's end.
pub fn lasting(model: &Model, ways: Vec<Remedy>) -> Vec<Remedy> {
    let mut all: Vec<Remedy> = Vec::new();
    for way in ways {
        let way = match reached(model, way) {
            Reached::All(way) => Some(way),
            Reached::Nobody(action) => next_time(model, &action),
        };
        if let Some(way) = way
            && !all.iter().any(|known| !known.command.is_empty() && known.command == way.command)
        {
            all.push(way);
        }
    }
    all
}

enum Reached {
    /// Whoever it acts on is there; of several who are sent a signal, those who are.
    All(Remedy),
    Nobody(Action),
}

fn reached(model: &Model, mut way: Remedy) -> Reached {
    let Some(action) = &mut way.action else { return Reached::All(way) };
    let is_there = |thread: ThreadRef| lifetimes::is_there_at_end(model, &thread);
    let before = action.target.processes.len();
    let gone = action.clone();
    action.target.processes.retain(|process| is_there(process.thread()));
    match (action.target.processes.len(), action.kind) {
        (left, _) if left == before => {}
        (0, _) => return Reached::Nobody(gone),
        (_, ActionKind::Signal) => {
            (way.command, way.undo) = (action.signal_command(), action.signal_undo());
        }
        _ => return Reached::Nobody(gone),
    }
    Reached::All(way)
}

/// What can be asked the next time; none where a change of who is gone was meant, or a file of its own.
fn next_time(model: &Model, action: &Action) -> Option<Remedy> {
    let gone = action.target.processes.first()?.thread();
    let command = model.look.target.as_ref().filter(|it| it.kind == TargetKind::Command);
    let ancestry = Ancestry::of(model);
    let is_its_own = |pid: u32| ancestry.line(gone.pid).any(|it| it == pid);
    let (text, command) = match command {
        Some(command) if is_its_own(command.pid) && !names_who_has_ended(model) => {
            of_the_command(model, action, &gone)
        }
        Some(command) if !is_its_own(command.pid) => {
            let mut before = ancestry.line(gone.pid).skip(1).map(|it| model.threads.thread_ref(it));
            match before.find(|it| lifetimes::is_there_at_end(model, it)) {
                Some(by) => return Some(by_who_began_it(model, action, (&gone, &by))),
                None => by_its_name(model, action, &gone),
            }
        }
        _ => by_its_name(model, action, &gone),
    };
    let question = action.question.unwrap_or(Question::Look);
    let value = action.value.clone().filter(|_| question == Question::Calls);
    // Nobody is acted on: whoever it will be has no number yet.
    let asks = Action { question: Some(question), value, ..Action::default() };
    Some(Remedy::to(text).command(command).acting(asks))
}

/// Which calls are to be shown.
fn filter_of(action: &Action) -> &str {
    action.value.as_deref().unwrap_or("%clock,clock_nanosleep,%ipc,%network,%process")
}

/// The same as a word for strace.
fn calls_of(action: &Action) -> String {
    words::shell(&format!("trace={}", filter_of(action)))
}

/// Who has begun somebody who is gone, with what that begins the next time.
fn by_who_began_it(model: &Model, action: &Action, (gone, by): (&ThreadRef, &ThreadRef)) -> Remedy {
    let (who, by_name) = (model.threads.who(gone), words::who(by));
    let text = |what: &str| {
        format!("{who} has ended; the next time, see {what} {by_name} and its children")
    };
    match (action.kind, action.question) {
        (ActionKind::Ask, Some(Question::Calls)) => {
            Remedy::to(format!("{} call", text("what"))).calls(by, filter_of(action))
        }
        (ActionKind::Ask, Some(Question::Profile)) => {
            Remedy::to(format!("{} are at work", text("in which functions"))).profile(by)
        }
        _ => Remedy::to(format!("{} wait", text("for what"))).look(by),
    }
}

fn of_the_command(model: &Model, action: &Action, gone: &ThreadRef) -> (String, String) {
    let again = command_again(model);
    let who = model.threads.who(gone);
    let text = |what: &str| format!("{who} has ended; the next time, {what}");
    let filter = calls_of(action);
    match (action.kind, action.question) {
        (ActionKind::Ask, Some(Question::Calls)) => {
            (text("see what it calls, from its begin"), format!("strace -f -e {filter} {again}"))
        }
        (ActionKind::Ask, Some(Question::Profile)) => (
            text("see in which functions it is at work"),
            format!("perf record -g -- {again}; perf report"),
        ),
        _ => (text("see where its threads stand"), format!("holdup run -v -- {again}")),
    }
}

/// The newest process of a name, as a word of a shell. pgrep takes a pattern: a hostile name is none.
pub(crate) fn newest_of(name: &str) -> String {
    let escape = |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("\\{c}") };
    let pattern: String = name.chars().map(escape).collect();
    format!("$(pgrep -n -x -- {})", words::shell(&pattern))
}

/// A name lasts, where a program of that name is there while it is slow.
fn by_its_name(model: &Model, action: &Action, gone: &ThreadRef) -> (String, String) {
    let who = model.threads.who(gone);
    let text = |what: &str| format!("{who} has ended; the next time, {what}");
    let name = model.threads.program_of(gone).unwrap_or(&gone.comm);
    if name.is_empty() {
        return (text("look while it lasts"), "holdup --for 30s".into());
    }
    let pid = newest_of(name);
    let filter = calls_of(action);
    match (action.kind, action.question) {
        (ActionKind::Ask, Some(Question::Calls)) => {
            (text("see what it calls, while it lasts"), format!("strace -f -p {pid} -e {filter}"))
        }
        (ActionKind::Ask, Some(Question::Profile)) => {
            (text("see in which functions it is at work"), format!("perf top -p {pid}"))
        }
        _ => (text("look at it while it lasts"), format!("holdup -p {pid}")),
    }
}

/// Whether the command of `run` names a process after which somebody asked, and which has ended meanwhile: it is not given again.
fn names_who_has_ended(model: &Model) -> bool {
    let own = model.look.target.as_ref().map(|target| &target.words[..]).unwrap_or_default();
    let numbers = own.iter().flat_map(|word| word.split(|c: char| !c.is_ascii_digit()));
    let named: BTreeSet<u32> = numbers.filter_map(|number| number.parse().ok()).collect();
    let asked = model.threads.denied.iter().filter_map(|(_, denied)| denied.asked_after());
    let has_ended =
        |pid: u32| model.threads.exits.iter().any(|(_, exit)| exit.last && exit.thread.pid == pid);
    named.intersection(&asked.collect()).any(|pid| has_ended(*pid))
}

/// The command of `run`, for a shell. Whoever reads has to put it in where a recording does not have its words, or nobody could read them.
pub(super) fn command_again(model: &Model) -> String {
    let own = model.look.target.as_ref().map(|target| &target.words[..]).unwrap_or_default();
    let again = own.iter().map(|word| words::shell(word)).collect::<Vec<_>>().join(" ");
    match again.len() {
        1..=COMMAND_BYTES_MAX => again,
        _ => "COMMAND".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{LOOK_NS, fact, host, identity, refusal, thread};

    fn ended(pid: u32, comm: &str) -> Fact {
        let exit = Exit { thread: thread(pid, comm), last: true, code: Some(0) };
        Fact { at_ns: LOOK_NS / 2, body: Body::Exit(exit) }
    }

    fn seen(pid: u32, comm: &str) -> Fact {
        identity(Thread { thread: thread(pid, comm), ..Thread::default() })
    }

    /// What is left of the ways out of a look at processes 10 and 20, of which some have ended.
    fn left(more: Vec<Fact>, ways: Vec<Remedy>) -> Vec<String> {
        let mut model =
            Model::new([host(), vec![seen(10, "app"), seen(20, "my srv")], more].concat());
        model.finish();
        lasting(&model, ways).into_iter().map(|way| way.command).collect()
    }

    /// Process 10 is the command of `run`.
    fn of_command(arguments: &[&str]) -> Fact {
        fact(Body::Target(Target {
            kind: TargetKind::Command,
            name: arguments.join(" "),
            pid: 10,
            cgroups: Vec::new(),
            words: arguments.iter().map(|word| (*word).to_string()).collect(),
        }))
    }

    #[test]
    fn who_is_there_is_acted_on() {
        let ways = vec![Remedy::to("stop").end(&thread(20, "my srv"))];
        assert_eq!(left(Vec::new(), ways), ["kill 20"]);
    }

    #[test]
    fn of_several_those_who_are_there_are_sent_the_signal() {
        let both = [thread(10, "app"), thread(20, "my srv")];
        let ways = vec![Remedy::to("stop").signal("TERM", None, &both)];
        assert_eq!(left(vec![ended(10, "app")], ways), ["kill 20"]);
    }

    #[test]
    fn who_is_gone_is_looked_at_by_its_name_the_next_time_and_once() {
        let gone = thread(20, "my srv");
        let ways = vec![
            Remedy::to("go on").go_on(&gone),
            Remedy::to("end").end(&gone),
            Remedy::to("elsewhere").command("df"),
        ];
        let expected = [r"holdup -p $(pgrep -n -x -- 'my\ srv')", "df"];
        assert_eq!(left(vec![ended(20, "my srv")], ways), expected);
    }

    #[test]
    fn the_command_of_run_is_asked_again_with_its_own_words() {
        let facts = vec![of_command(&["sh", "-c", "a; b"]), ended(10, "app")];
        let one = thread(10, "app");
        let of = |way: Remedy| left(facts.clone(), vec![way]);
        let profiled = of(Remedy::to("see").profile(&one));
        assert_eq!(profiled, ["perf record -g -- sh -c 'a; b'; perf report"]);
        let traced = of(Remedy::to("see").calls(&one, "%clock"));
        assert_eq!(traced, ["strace -f -e trace=%clock sh -c 'a; b'"]);
        let stood = of(Remedy::to("see").kernel_stack(&one));
        assert_eq!(stood, ["holdup run -v -- sh -c 'a; b'"]);
    }

    #[test]
    fn what_a_server_began_for_the_command_is_seen_at_the_server() {
        let began = |child: u32, parent: u32| {
            let fork = Fork {
                parent: thread(parent, "srv"),
                child: thread(child, "job"),
                ..Fork::default()
            };
            fact(Body::Fork(fork))
        };
        let of = |more: Vec<Fact>, way: Remedy| {
            left(
                [vec![of_command(&["app"]), seen(25, "srv"), ended(30, "job")], more].concat(),
                vec![way],
            )
        };
        let one = thread(30, "job");
        let traced = || Remedy::to("see").calls(&one, "%clock");
        let both = || vec![began(25, 20), began(30, 25)];
        assert_eq!(of(both(), traced()), ["strace -f -p 25 -e trace=%clock"]);
        assert_eq!(of(both(), Remedy::to("see").profile(&one)), ["perf top -p 25"]);
        assert_eq!(of(both(), Remedy::to("see").kernel_stack(&one)), ["holdup pid 25"]);
        let gone = [both(), vec![ended(25, "srv")]].concat();
        assert_eq!(of(gone, traced()), ["strace -f -p 20 -e trace=%clock"], "the one before it");
        let by_name = ["strace -f -p $(pgrep -n -x -- job) -e trace=%clock"];
        assert_eq!(of(Vec::new(), traced()), by_name, "who began it is not known");
        let own = vec![began(30, 10)];
        assert_eq!(of(own, traced()), ["strace -f -e trace=%clock app"]);
    }

    #[test]
    fn a_command_that_names_who_has_ended_is_not_given_again() {
        let words = ["sh", "-c", "while kill -0 2450; do sleep 1; done"];
        let looked = |asked: u32, other: u32| {
            let args = [u64::from(asked), 0, 0, 0, 0, 0];
            let asks = Denied { errno: 0, args, ..refusal(10, "sh", "kill") };
            let ends = [ended(10, "app"), ended(other, "job"), fact(Body::Denied(asks))];
            let facts = [vec![of_command(&words)], ends.into()].concat();
            left(facts, vec![Remedy::to("see").kernel_stack(&thread(10, "app"))])
        };
        assert_eq!(looked(2450, 2450), ["holdup -p $(pgrep -n -x -- app)"]);
        let again = "holdup run -v -- sh -c 'while kill -0 2450; do sleep 1; done'";
        assert_eq!(looked(2450, 245), [again], "it lives");
        assert_eq!(looked(2451, 2450), [again], "a number that is no process to it");
    }

    #[test]
    fn a_recording_without_the_words_of_its_command_leaves_them_open() {
        let facts = vec![of_command(&[]), ended(10, "app")];
        let ways = vec![Remedy::to("see").profile(&thread(10, "app"))];
        assert_eq!(left(facts, ways), ["perf record -g -- COMMAND; perf report"]);
    }

    #[test]
    fn a_command_of_a_hundred_thousand_bytes_is_not_given_again() {
        let facts = vec![of_command(&["sh", "-c", &"x".repeat(100_000)]), ended(10, "app")];
        let ways = vec![Remedy::to("see").profile(&thread(10, "app"))];
        assert_eq!(left(facts, ways), ["perf record -g -- COMMAND; perf report"]);
    }

    #[test]
    fn a_number_that_nobody_was_seen_to_have_is_nobody() {
        let number = ThreadRef { start_ns: 0, ..thread(77, "flock") };
        let ways = vec![Remedy::to("end").end(&number)];
        assert_eq!(left(Vec::new(), ways), ["holdup -p $(pgrep -n -x -- flock)"]);
    }
}
