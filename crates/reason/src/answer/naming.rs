//! Typed parts of a finding as the contract has them: names of processes, links of chains.
//!
//! The last step of identity: what is made here is text and is never read back. Must not: decide anything.

use super::report::{Finding, Link, LockKind, ObjectName, Victim, Who};
use crate::facts::{Ns, ThreadRef, UserFrame, UserStack};
use crate::model::Model;
use crate::model::object::Object;
use crate::model::words;
use crate::programs;
use crate::rules::Step;
use crate::waits::{goroutines, user_stack};
use std::borrow::Cow;

/// The name of a thread's process.
pub(super) fn process_name(model: &Model, thread: &ThreadRef) -> String {
    let name = model.threads.process_name(thread.pid);
    if name.is_empty() { thread.comm.clone() } else { name }
}

/// Somebody who waits.
pub(super) fn victim(model: &Model, thread: &ThreadRef, wait_seconds: f64) -> Victim {
    let known = model.container_of(thread);
    Victim {
        pid: thread.pid,
        inner_pid: None,
        comm: process_name(model, thread),
        container: known.map(|known| known.name.clone()),
        workload: known.map(|known| model.containers.workload(known)).unwrap_or_default(),
        wait_seconds,
    }
}

/// A participant with its container, its pod or its unit.
pub(super) fn who(model: &Model, thread: &ThreadRef) -> Who {
    let known = model.container_of(thread);
    Who {
        container: known.map(|known| known.name.clone()),
        workload: known.map(|known| model.containers.workload(known)).unwrap_or_default(),
        program: model.threads.program_of(thread).map(String::from),
        runs: runs(model, &process_name(model, thread), thread),
        ..Who::thread(thread)
    }
}

/// What a thread's process runs, if a name does not say that.
pub(super) fn runs(model: &Model, name: &str, thread: &ThreadRef) -> Option<String> {
    programs::runs(name, &model.threads.words(thread))
}

/// Says whose a culprit is: of a process by its groups, else by the group that is to blame itself.
pub(super) fn add_workload(model: &Model, finding: &mut Finding) {
    let culprit = &mut finding.culprit;
    culprit.workload = match (culprit.pid, &culprit.container) {
        (Some(pid), _) => model.workload_of(&model.threads.thread_ref(pid)),
        (None, Some(group)) => model.containers.workload_at(group),
        (None, None) => return,
    };
}

/// A process by name and number, with the name of its thread if that is another.
pub(super) fn by_name(who: &Who) -> String {
    let thread = who.thread_name().map_or_else(String::new, |name| format!(" (thread {name})"));
    let many = words::one_of(who.of_its_name.unwrap_or(0));
    match who.pid {
        Some(pid) => format!("{} {pid}{thread}{many}", who.called()),
        None => format!("{}{thread}", who.called()),
    }
}

/// A link of the chain that is shown, with what was read of its thread's stack.
pub(super) fn link(model: &Model, step: &Step) -> Link {
    let waits_on = match &step.doing {
        Some((kind, words)) => ObjectName::new(kind, words.clone()),
        None => model.name_of(&step.on),
    };
    let stack = step.when.and_then(|(from, to)| stack(model, step, from, to));
    let stack = stack.as_deref();
    let frames = stack.map_or(&[][..], |stack| stack.frames.as_slice());
    let kind = user_stack::kind(frames).filter(|kind| *kind != LockKind::Idle);
    let frame = user_stack::frame(frames);
    let function = frame.map(|frame| frame.function.clone());
    let place = frame.filter(|frame| frame.line != 0).map(UserFrame::place);
    Link {
        who: Who { function, place, ..who(model, &step.who) },
        waits_on,
        seconds: step.seconds,
        lock_kind: kind,
        stack: stack.map_or_else(Vec::new, frames_of),
        because: step.because.map(Into::into),
    }
}

/// The stack of a link's thread; of a mutex in Go, that of the goroutine which waits for it.
fn stack<'m>(model: &'m Model, step: &Step, from: Ns, to: Ns) -> Option<Cow<'m, UserStack>> {
    let Object::Mutex { pid, address } = step.on else {
        return model.user_stack(&step.who, from, to).map(Cow::Borrowed);
    };
    let waiting = goroutines::waiting(model, pid, address, from, to)?;
    let frames = waiting.first.frames.clone();
    let complete = frames.last().is_some_and(|last| last.function == "runtime.goexit");
    Some(Cow::Owned(UserStack { frames, complete, ..UserStack::default() }))
}

/// A stack as a person reads it; of one whose outer part is not known it says so.
pub(super) fn frames_of(stack: &UserStack) -> Vec<String> {
    let frame = |frame: &UserFrame| match (frame.function.as_str(), frame.module.as_str()) {
        ("", "") => "made at run time".to_string(),
        ("", module) => format!("? ({module})"),
        (function, "") => function.to_string(),
        (function, _) => format!("{function} ({})", frame.place()),
    };
    let rest = (!stack.complete).then(|| "...".to_string());
    stack.frames.iter().map(frame).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::*;

    #[test]
    fn a_thread_is_named_after_its_program_and_keeps_its_own_name() {
        let own = ThreadRef { tid: 12, ..thread(10, "isc-net-0002") };
        let model =
            Model::new(vec![identity(Thread { thread: thread(10, "named"), ..Thread::default() })]);
        let named = who(&model, &own);
        assert_eq!(
            (named.name.as_str(), named.program.as_deref()),
            ("isc-net-0002", Some("named"))
        );
        assert_eq!(by_name(&named), "named 10 (thread isc-net-0002)");
        let main = who(&model, &thread(10, "named"));
        assert_eq!((main.program.as_deref(), by_name(&main)), (None, "named 10".to_string()));
    }
}
