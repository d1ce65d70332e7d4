//! Which waits of a database's processes are for something inside the server, by what was read of its memory.
//!
//! A session waits for it as for any event, in pieces (the server looks for deadlocks after a while). A reading belongs to the piece that it
//! was made in, and one behind the look's end to what stood then. Must not: say who has it (graph/ways/held/session_table.rs), or stretch
//! a reading over a piece in which there was none.

use crate::facts::{Ns, SessionEvent, SessionWait, ThreadRef};
use crate::model::Model;
use crate::programs::lock_kind::LockKind;

/// The last reading within a time that says what a thread's process waited for, and that.
pub fn reading<'m>(
    model: &'m Model,
    thread: &ThreadRef,
    from: Ns,
    to: Ns,
) -> Option<(&'m SessionWait, SessionEvent)> {
    let to = if to >= model.look.end_ns { Ns::MAX } else { to };
    let all = model.stacks.session_waits.get(&thread.pid).filter(|_| thread.tid == thread.pid)?;
    let mut within = all.iter().rev().filter(|(at_ns, _)| (from..=to).contains(at_ns));
    within.find_map(|(_, read)| Some((read, read.event?)))
}

/// What that is called, if it is one thing of several that others have or bring about, and no sleep.
pub fn kind(event: SessionEvent) -> Option<LockKind> {
    match event {
        SessionEvent::RowLock => Some(LockKind::RowLock),
        SessionEvent::TableLock => Some(LockKind::TableLock),
        SessionEvent::AdvisoryLock => Some(LockKind::AdvisoryLock),
        SessionEvent::OtherLock => Some(LockKind::DatabaseLock),
        SessionEvent::Replica => Some(LockKind::Replica),
        SessionEvent::Checkpoint => Some(LockKind::Checkpoint),
        SessionEvent::Archive => Some(LockKind::Archive),
        SessionEvent::Sleep | SessionEvent::Work => None,
    }
}

/// Whether a thread was a process of a server's own that waited for no more than its next work, by every reading: it may be up ten times between two.
pub fn is_without_work(model: &Model, thread: &ThreadRef) -> bool {
    let all = model.stacks.session_waits.get(&thread.pid).filter(|_| thread.tid == thread.pid);
    let mut events = all.into_iter().flatten().filter_map(|(_, read)| read.event).peekable();
    events.peek().is_some() && events.all(|event| event == SessionEvent::Work)
}

/// The kind of what a thread waited for within a time, by such a reading.
pub fn kind_of(model: &Model, thread: &ThreadRef, from: Ns, to: Ns) -> Option<LockKind> {
    reading(model, thread, from, to).and_then(|(_, event)| kind(event))
}
