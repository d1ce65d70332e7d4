//! What somebody does at a moment, and why another waits for it, in words.
//!
//! Labels of lanes and of the tree: "waits for the lock on /tmp/x", "holds /tmp/x". One clause each, without its subject. Must
//! not: judge, or say what an end is called in a sentence of the text report (sentences.rs).
//!
//! Edit together: waits/mod.rs (the classes).

use super::bounds::clipped;
use crate::answer::report::{AnswerEnd, Culprit, CulpritKind, ObjectName};
use crate::answer::sentences::{is_frozen, is_line};
use crate::graph::end::EndKind;
use crate::model::Model;
use crate::model::object::Object;
use crate::programs::lock_kind::LockKind;
use crate::waits::span::WaitSpan;
use crate::waits::{WaitClass, user_stack};

/// An object as a noun: `/tmp/x`, `disk vda`, `its child cc1 812`.
pub fn noun(model: &Model, object: &Object) -> String {
    let text = match object {
        Object::Child(Some(pid)) => match model.threads.process_name(*pid) {
            name if name.is_empty() => format!("child {pid}"),
            name => format!("child {name} {pid}"),
        },
        Object::Child(None) => "a child".into(),
        Object::AnyChild => "any of its children".into(),
        Object::Process(pid) => match model.threads.process_name(*pid) {
            name if name.is_empty() => format!("process {pid}"),
            name => format!("{name} {pid}"),
        },
        _ => named(&model.name_of(object)),
    };
    clipped(&text)
}

/// A name of the contract as a noun.
pub fn named(object: &ObjectName) -> String {
    match (object.kind.as_str(), object.name.as_str()) {
        ("", "") => "something that was not seen".into(),
        ("", name) | ("file", name) => name.to_string(),
        (kind, "") => kind.to_string(),
        (kind, name) if kind == name => kind.to_string(),
        ("run queue", _) => "a CPU".into(),
        ("socket", name) => name.to_string(),
        ("pipe", name) => format!("pipe {}", name.trim_start_matches("pipe:")),
        ("process", name) => name.to_string(),
        (kind, name) if name.starts_with(kind) => name.to_string(),
        (kind, name) => format!("{kind} {name}"),
    }
}

/// What a thread does that is in a wait of a class, or runs.
// LONG FUNCTION: one line a class.
pub fn doing(model: &Model, class: WaitClass, object: &Object) -> String {
    use WaitClass::*;
    let on = || noun(model, object);
    match class {
        Running => "runs".into(),
        RunQueue => "is ready, waits for a CPU".into(),
        CpuQuota => "is ready, but its group is out of CPU quota".into(),
        Disk => format!("waits for {}", on()),
        Journal => format!("waits for the {}", on()),
        DirtyThrottle => "is paused at the dirty limit".into(),
        Reclaim => "frees memory, or waits for it".into(),
        SwapIn => "waits for a page from swap".into(),
        PageFault => format!("waits for a page of {}", on()),
        FileLock => format!("waits for the lock on {}", on()),
        FutexLock => format!("waits for a lock, {}", on()),
        FutexWait => "waits for a thread".into(),
        KernelLock => format!("waits for {}", on()),
        SocketRead => format!("waits for an answer of {}", on()),
        SocketWrite => format!("waits for room to send to {}", on()),
        SocketConnect => format!("connects to {}", on()),
        Nagle => format!("holds back what it wrote to {}", on()),
        Dns => format!("waits for {}", on()),
        PipeRead => format!("reads {}, which is empty", on()),
        PipeWrite => format!("writes to {}, which is full", on()),
        UnixRead => format!("waits for an answer on {}", on()),
        UnixWrite => format!("waits for room in {}", on()),
        TtyWrite => format!("writes to {}, which takes no more", on()),
        TtyStopped => format!("writes to {}, which ctrl-S has stopped", on()),
        Child => format!("waits for {}", on()),
        Vfork => "waits for its child to execute a program".into(),
        FuseDaemon => format!("waits for {}", on()),
        FileLeave => format!("waits for leave to use {}", on()),
        Timer => "sleeps".into(),
        PolledLock => format!("sleeps before it tries {} again", on()),
        RefusedLimit | RefusedRight => format!("sleeps before it asks again: refused by {}", on()),
        RefusedConnection => format!("sleeps before it connects again to {}", on()),
        TakenAddress => format!("sleeps before it tries {} again, which is taken", on()),
        NoAddress => format!("sleeps before it asks again for an address or port: {}", on()),
        NoRoute => format!("sleeps before it connects again to {}, which cannot be reached", on()),
        ProcessEnd => format!("sleeps before it looks again whether {} has ended", on()),
        UnheededSignal => "was asked to end, and ignores it".into(),
        FailedProgram => format!("sleeps before it runs {} again, which did not end well", on()),
        FrozenCgroup => "is frozen with its group".into(),
        FrozenFs => format!("waits for {} to be thawed", on()),
        Stopped => "is stopped by a signal".into(),
        Traced => "is stopped by its tracer".into(),
        Zombie => "has ended, and its parent has not waited for it".into(),
        EndedThread => "has ended, and other threads of its process live".into(),
        Idle => "waits for an event".into(),
        Kernel => format!("waits in the kernel, {}", on()),
        Unseen => "runs, or waits too briefly to be seen".into(),
    }
}

/// What a thread does in a wait, in its program's own words where its stack was read: "waits for a mutex, in Pool::take".
pub fn waiting(model: &Model, wait: &WaitSpan) -> String {
    let read = model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    let frames = read.map_or(&[][..], |stack| stack.frames.as_slice());
    let vague = matches!(wait.class, WaitClass::FutexLock | WaitClass::FutexWait | WaitClass::Idle);
    let does = match user_stack::kind(frames).filter(|kind| vague && *kind != LockKind::Idle) {
        Some(kind) => format!("waits for {}", kind.phrase()),
        None => doing(model, wait.class, &wait.object),
    };
    match user_stack::function(frames).filter(|function| !function.is_empty()) {
        Some(function) => format!("{does}, in {function}"),
        None => does,
    }
}

/// Why one that waits so is led to the next: what the next has to do with the object.
pub fn relation(model: &Model, class: WaitClass, object: &Object) -> Option<String> {
    use WaitClass::*;
    let on = || noun(model, object);
    Some(match class {
        FileLock | PolledLock | KernelLock => format!("holds {}", on()),
        FutexLock => format!("holds {}", on()),
        FutexWait | Idle => "is to wake it".into(),
        SocketRead | UnixRead => format!("owes the answer on {}", on()),
        SocketWrite | UnixWrite => format!("is to read {}", on()),
        PipeRead => format!("is to write to {}", on()),
        PipeWrite => format!("is to read {}", on()),
        TtyWrite => format!("is to read {}", on()),
        Nagle => format!("is to acknowledge what came over {}", on()),
        TakenAddress => format!("has {}", on()),
        Child | Vfork | ProcessEnd => "is waited for".into(),
        FuseDaemon => format!("serves {}", on()),
        FileLeave => format!("is to allow {}", on()),
        Dns => "is to answer the name".into(),
        Journal => "commits the journal".into(),
        Timer => "is asked again and again".into(),
        _ => return None,
    })
}

/// The kind of an end as a word of the legend.
pub fn kind(kind: EndKind) -> &'static str {
    match kind {
        EndKind::Works => "works",
        EndKind::Cpu => "no CPU",
        EndKind::Device => "disk",
        EndKind::Memory => "memory",
        EndKind::Link => "full buffer",
        EndKind::Remote => "peer",
        EndKind::Lock => "lock",
        EndKind::Sleep => "sleep",
        EndKind::Limit => "limit",
        EndKind::Person => "person",
        EndKind::Open => "not seen further",
        EndKind::Idle => "idle",
    }
}

/// An end of the answer as a clause: what it is, and who would have to act; `culprit` is that of its finding.
pub fn end(end: &AnswerEnd, culprit: Option<&Culprit>) -> String {
    let on = clipped(&named(&end.object));
    let person = |name: &str, pid: Option<u32>| match pid {
        // Of a crowd the number of one says nothing.
        Some(pid) if !name.contains(" x ") => clipped(&format!("{name} {pid}")),
        _ => clipped(name),
    };
    // For a CPU, whom a rule blames is known better than who used most.
    let blamed = culprit.filter(|it| end.end == EndKind::Cpu && it.kind == CulpritKind::Process);
    let by = match (blamed, &end.who) {
        (Some(culprit), _) => Some(person(&culprit.name, culprit.pid)),
        (None, who) => who.as_ref().map(|who| person(&who.name, who.pid)),
    };
    if end.object.name == "others" && end.object.kind.is_empty() {
        return format!("others: {}", kind(end.end));
    }
    match (end.end, by) {
        (EndKind::Works, Some(by)) if end.object.id.is_empty() => {
            let name = by.rsplit_once(' ').map_or(by.as_str(), |(name, _)| name).to_string();
            format!("{name} works")
        }
        (EndKind::Works, Some(by)) => format!("{by} works"),
        (EndKind::Works, None) => format!("{on} works"),
        (EndKind::Cpu, Some(by)) if end.object.kind == "run queue" => {
            format!("no CPU: {by} has it")
        }
        (EndKind::Cpu, None) if end.object.kind == "run queue" => "no CPU".into(),
        (EndKind::Cpu, _) => format!("no CPU: quota of {on}"),
        (EndKind::Sleep, Some(by)) if end.object.kind != "process" => {
            format!("{by} sleeps, {on} stays full")
        }
        (EndKind::Sleep, Some(by)) => format!("{by} {}", end.sleeps()),
        (EndKind::Lock, Some(by)) => format!("lock {on}, held by {by}"),
        (EndKind::Lock, None) => format!("lock {on}, holder not seen"),
        (EndKind::Remote, _) if end.unasked => format!("what comes over {on}"),
        (EndKind::Remote, Some(by)) => format!("{by} owes the answer on {on}"),
        (EndKind::Remote, None) if end.unconnected => format!("what comes to {on}"),
        (EndKind::Remote, None) if end.connecting => format!("a connection by {on}"),
        (EndKind::Remote, None) => format!("{on} owes an answer"),
        (EndKind::Link, Some(by)) if end.object.kind == "socket" => {
            format!("{on} is full, {by} is at its other end")
        }
        (EndKind::Link, Some(by)) => format!("{on} is full, {by} does not empty it"),
        (EndKind::Link, None) => format!("{on} is full"),
        (EndKind::Person, _) if is_line(end) => format!("what comes over {on}"),
        (EndKind::Person, _) if is_frozen(end) => format!("{on} is frozen"),
        (EndKind::Person, _) => format!("a person: {on}"),
        (EndKind::Open, _) => format!("{on}, not seen further"),
        (EndKind::Limit, _) => format!("refused by {on}"),
        _ => on,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    const SECOND: Ns = 1_000_000_000;

    /// A thread waits for a word of its memory from 1 to 4 s; its stack is read, or is not.
    fn said(stack: &[(&str, &str)]) -> String {
        let place = Place { state: WaitState::Sleep, syscall: "futex".into(), ..Place::default() };
        let wake = Some(Wake { at_ns: 4 * SECOND, ..Wake::default() });
        let who = thread(10, "pool");
        let (begin_ns, end_ns) = (SECOND, 4 * SECOND);
        let wait = Wait { thread: who.clone(), begin_ns, end_ns, place, wake, ..Wait::default() };
        let frame = |(function, module): &(&str, &str)| UserFrame {
            function: (*function).into(),
            module: (*module).into(),
            ..UserFrame::default()
        };
        let frames = stack.iter().map(frame).collect();
        let read = UserStack { thread: who.clone(), since_ns: SECOND, frames, complete: true };
        let mut facts = host();
        facts.push(Fact { at_ns: 4 * SECOND, body: Body::Wait(wait) });
        facts.push(Fact { at_ns: 2 * SECOND, body: Body::UserStack(read) });
        let observed = Observed::new(facts);
        let waits = observed.timelines.of(observed.model.threads.key(&who));
        waiting(&observed.model, &waits[0])
    }

    #[test]
    fn a_wait_is_said_in_the_programs_words_where_its_stack_was_read() {
        let mutex = [("___pthread_mutex_lock", "libc.so.6"), ("Pool::take", "pool")];
        assert_eq!(said(&mutex), "waits for a mutex, in Pool::take");
        assert_eq!(said(&[]), "waits for a thread");
    }

    #[test]
    fn who_holds_is_led_to_by_what_he_holds() {
        let observed = Observed::new(host());
        let on = Object::Path("/tmp/x".into());
        let held = relation(&observed.model, WaitClass::FileLock, &on);
        assert_eq!(held.as_deref(), Some("holds /tmp/x"));
        assert_eq!(relation(&observed.model, WaitClass::Disk, &on), None);
    }
}
