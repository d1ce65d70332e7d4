//! Why a chain goes no further at whoever reads a pipe: nobody has the other end yet, or any more, or daemons inherited it and rest. Of
//! whoever else has it the end of a pipe is no reason.
//!
//! Must not: find out that they do (graph/ways/held/pipe_end.rs). Edit together: sentences.rs (its title).

use super::report::AnswerEnd;
use crate::graph::chains::ChainLink;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use std::collections::BTreeSet;

/// Of whoever opens a FIFO.
const OPENS_FIFO: &str = "it waits in open(2) until somebody opens the other end of that FIFO";
/// Of whoever polls a pipe that it can only write to.
const OWN_OUTPUT: &str = "that pipe is its own output, of which it would hear that the reader has gone; what else it waits for was not seen";
/// After the names of those that have the other end.
const INHERITED: &str = "inherited the writing end of that pipe";
/// What to do about them.
const OTHER_OUTPUT: &str = "(who starts a daemon gives it another output: CMD >/dev/null 2>&1 &)";
/// Processes that are named.
const NAMED: usize = 2;

/// The reason, one clause.
pub(super) fn why_open(measures: &Measures<'_>, root: &ChainLink) -> String {
    let none = || "nobody was seen at the writing end".to_string();
    let ino = match &root.object {
        Object::Pipe(ino) => ino,
        Object::File(_) => return OPENS_FIFO.into(),
        _ => return none(),
    };
    let all = || measures.graph.endpoints_on(*ino).iter();
    let mut own = all().filter(|end| end.process.pid == root.who.pid).peekable();
    if own.peek().is_some() && own.all(|end| end.writable && !end.readable) {
        return OWN_OUTPUT.into();
    }
    let ends = all().filter(|end| end.writable);
    let writers: BTreeSet<u32> =
        ends.map(|end| end.process.pid).filter(|pid| *pid != root.who.pid).collect();
    let named = |pid: &u32| words::who(&measures.model.threads.thread_ref(*pid));
    let names: Vec<String> = writers.iter().take(NAMED).map(named).collect();
    let who = match writers.len().saturating_sub(NAMED) {
        0 => names.join(" and "),
        more => format!("{} and {more} more", names.join(", ")),
    };
    match writers.len() {
        0 => none(),
        many if !measures.graph.reads_what_is_left_open(root) => {
            let have = if many == 1 { "has" } else { "have" };
            format!("{who} {have} the writing end of that pipe, and why nothing comes was not seen")
        }
        1 => format!(
            "{who} {INHERITED}, and rests: whoever reads it to its end waits until that ends too, or closes it {OTHER_OUTPUT}"
        ),
        _ => format!(
            "{who} {INHERITED}, and rest: whoever reads it to its end waits until all of them end too, or close it {OTHER_OUTPUT}"
        ),
    }
}

/// What is waited for, of an end that goes no further for that reason.
pub(super) fn awaited(end: &AnswerEnd) -> Option<String> {
    let why = end.why_open.as_deref()?;
    match why == OPENS_FIFO {
        true => Some(format!("somebody to open the other end of the FIFO {}", end.object.name)),
        false => {
            why.contains(INHERITED).then(|| "the end of a pipe that a daemon inherited".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::rules::scenes::*;

    /// What is said of a command, process 10, which reads a pipe that others have as an output, begun by PID 1 and in this call.
    fn said(writers: &[u32], call: &str) -> String {
        let pipe = || ObjectRef::Pipe { ino: 7 };
        let place = |syscall: &str, object| {
            let (state, syscall) = (WaitState::Sleep, syscall.to_string());
            Place { state, syscall, object, ..Place::default() }
        };
        let mut facts = host();
        let mut target = of_process(10, "sh");
        if let Body::Target(target) = &mut target.body {
            target.kind = TargetKind::Command;
        }
        facts.extend([target, at_place(10, "sh", place("read", Some(pipe())))]);
        for pid in writers {
            let thread = thread(*pid, "job");
            facts.push(identity(Thread { thread, parent_pid: 1, ..Thread::default() }));
            facts.push(descriptor(*pid, 1, "job", pipe()));
            facts.push(at_place(*pid, "job", place(call, None)));
        }
        let answer = explain(facts).answer;
        let whys = answer.ends.iter().filter_map(|end| end.why_open.clone());
        whys.collect::<Vec<String>>().join("; ")
    }

    #[test]
    fn who_polls_its_own_output_waits_for_something_else() {
        let pipe = || ObjectRef::Pipe { ino: 7 };
        let said = |writes: bool| {
            let place = Place {
                state: WaitState::Sleep,
                syscall: "poll".into(),
                object: Some(pipe()),
                ..Place::default()
            };
            let mut target = of_process(10, "tail");
            if let Body::Target(target) = &mut target.body {
                target.kind = TargetKind::Command;
            }
            let mut end = descriptor(10, 1, "tail", pipe());
            if let Body::Endpoint(end) = &mut end.body {
                (end.readable, end.writable) = (!writes, writes);
            }
            let facts = [host(), vec![target, end, at_place(10, "tail", place)]].concat();
            let answer = explain(facts).answer;
            answer.ends.iter().filter_map(|end| end.why_open.clone()).collect::<String>()
        };
        assert!(said(true).starts_with("that pipe is its own output"), "{}", said(true));
        assert_eq!(said(false), "nobody was seen at the writing end");
    }

    #[test]
    fn only_who_rests_is_said_to_have_inherited_a_pipe_and_all_are_counted() {
        let begins = |writers: &[u32], begin: &str| {
            let said = said(writers, "epoll_wait");
            assert!(said.starts_with(begin), "{said}");
        };
        begins(&[20], "job 20 inherited the writing end of that pipe, and rests: ");
        begins(&[20, 21], "job 20 and job 21 inherited the writing end of that pipe, and rest: ");
        begins(&[20, 21, 22], "job 20, job 21 and 1 more inherited the writing end");
        let other = said(&[20], "clock_nanosleep");
        assert!(!other.contains("inherited"), "{other}");
        assert_eq!(said(&[], ""), "nobody was seen at the writing end");
    }
}
