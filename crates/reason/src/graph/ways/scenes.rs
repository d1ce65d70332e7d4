//! Small scenes for the tests of ways: a waiter, process 10, of whom somebody is owed something, and whoever else is there.
//!
//! Owns only builders of facts, and the question which way leads where.

use super::responsible;
use super::way::Waiter;
use crate::facts::*;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::rules::scenes::{LOOK_NS, descriptor, host, thread};
use crate::waits::timeline::Observed;

/// The way from the first wait of thread 10, by name, and the thread that it leads to. No name: no way found anything.
pub(crate) fn led(facts: Vec<Fact>) -> (&'static str, Option<u32>) {
    led_from(10, facts)
}

/// The same of another thread.
pub(crate) fn led_from(tid: u32, facts: Vec<Fact>) -> (&'static str, Option<u32>) {
    let Observed { model, timelines } = Observed::new([host(), facts].concat());
    let index = Index::new(&model, &timelines);
    let wait = timelines.waits().find(|wait| wait.thread.tid == tid).expect("it waits");
    let (next, way) = responsible(&Waiter::of(&index, wait), true);
    let to = match next {
        Next::Thread(to) | Next::Later(to, _) | Next::Brought(to, _) | Next::Answer(_, to) => {
            Some(to.tid)
        }
        _ => None,
    };
    (way.map_or("", |way| way.name), to)
}

/// A thread of process 10.
pub(crate) fn of_ten(tid: u32) -> ThreadRef {
    ThreadRef { tid, ..thread(10, "app") }
}

/// Where a thread sleeps in a system call.
pub(crate) fn place(syscall: &str, args: [u64; 6], object: Option<ObjectRef>) -> Place {
    let state = WaitState::Sleep;
    Place { state, syscall: syscall.into(), args, object, ..Place::default() }
}

/// It stands so from the begin to the end of the look.
pub(crate) fn stands(thread: ThreadRef, place: Place) -> Fact {
    let blocked = Blocked { thread, place, ..Blocked::default() };
    Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
}

/// An end of a pipe that a process has open.
pub(crate) fn pipe_end(pid: u32, fd: u32, ino: u64, writes: bool) -> Fact {
    let mut fact = descriptor(pid, fd, "app", ObjectRef::Pipe { ino });
    if let Body::Endpoint(end) = &mut fact.body {
        (end.readable, end.writable) = (!writes, writes);
    }
    fact
}

/// It waited so from the begin of the look to a second before its end, and somebody ended that.
pub(crate) fn ended(thread: ThreadRef, place: Place, by: ThreadRef, context: WakeContext) -> Fact {
    let end_ns = LOOK_NS - 1_000_000_000;
    let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
    let wait = Wait { thread, end_ns, place, wake, ..Wait::default() };
    Fact { at_ns: end_ns, body: Body::Wait(wait) }
}

/// A process that somebody began.
pub(crate) fn child(pid: u32, parent_pid: u32) -> Fact {
    let thread = ThreadRef { start_ns: 1, ..thread(pid, "job") };
    Fact { at_ns: 0, body: Body::Thread(Thread { thread, parent_pid, ..Thread::default() }) }
}

/// No arguments that matter.
pub(crate) const NO_ARGS: [u64; 6] = [0; 6];
/// Those of a futex that is a lock, with waiters.
pub(crate) const LOCK: [u64; 6] = [0x7000, 128, 2, 0, 0, 0];
/// Those of a futex that is a condition.
pub(crate) const CONDITION: [u64; 6] = [0x7000, 128, 0, 0, 0, 0];
