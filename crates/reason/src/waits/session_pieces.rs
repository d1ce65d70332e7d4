//! Waits of a database's sessions, by name: for something inside the server, and of several pieces one.
//!
//! A session that is a process is named by what was read of the server's memory (session_wait.rs). One that is a thread waits for a word, with a
//! timeout after which it looks for deadlocks and waits on: one of the stacks says what all of the pieces are for. Must not: join pieces
//! between which it did something, or those of other locks. Edit together: timeline.rs.

use super::span::WaitSpan;
use super::{WaitClass, session_wait, user_stack};
use crate::facts::{Ns, SessionEvent};
use crate::model::Model;
use crate::model::object::Object;
use crate::programs::lock_kind::LockKind;

/// A wait that goes on at the same word after so little running is the same wait.
const GAP_NS: Ns = 200_000;

/// Names the waits of one thread that are for something inside a server, and makes one wait of the pieces of each.
pub(super) fn reclassify(model: &Model, waits: &mut Vec<WaitSpan>) {
    if waits.first().is_some_and(|wait| model.stacks.session_waits.contains_key(&wait.thread.pid)) {
        waits.iter_mut().for_each(|wait| by_reading(model, wait));
    }
    let mut at = 0;
    while at < waits.len() {
        if let Some(last) = last_piece(waits, at)
            && waits[at..=last].iter().any(|piece| is_for_a_session(model, piece))
        {
            let end = waits[last].clone();
            let first = &mut waits[at];
            (first.class, first.object) = (WaitClass::FutexLock, Object::Inside(end.thread.pid));
            (first.end_ns, first.standing, first.wake) = (end.end_ns, end.standing, end.wake);
            waits.drain(at + 1..=last);
        }
        at += 1;
    }
}

fn by_reading(model: &Model, wait: &mut WaitSpan) {
    let is_event =
        matches!(wait.class, WaitClass::Idle | WaitClass::FutexLock | WaitClass::FutexWait);
    if !is_event && !wait.place.syscall.starts_with("epoll") {
        return;
    }
    let read = session_wait::reading(model, &wait.thread, wait.begin_ns, wait.end_ns);
    match read.map(|(_, event)| event) {
        // Whose work another brings waits on where that is to come from.
        None | Some(SessionEvent::Work) => (),
        Some(SessionEvent::Sleep) => {
            let timer = Object::Timer(wait.place.syscall.as_str().into());
            (wait.class, wait.object) = (WaitClass::Timer, timer);
        }
        Some(_) => {
            let inside = Object::Inside(wait.thread.pid);
            (wait.class, wait.object) = (WaitClass::FutexWait, inside);
        }
    }
}

/// The last piece of a wait for a word with a timeout, which is made again at once; none if it has one piece alone.
fn last_piece(waits: &[WaitSpan], first: usize) -> Option<usize> {
    let is_word =
        |wait: &WaitSpan| matches!(wait.class, WaitClass::FutexLock | WaitClass::FutexWait);
    let word = waits[first].timed_word().filter(|_| is_word(&waits[first]))?;
    let (mut last, mut until) = (first, waits[first].end_ns);
    for (at, wait) in waits.iter().enumerate().skip(first + 1) {
        let goes_on = wait.begin_ns <= until.saturating_add(GAP_NS);
        let is_ready = matches!(wait.class, WaitClass::RunQueue | WaitClass::CpuQuota);
        if !goes_on || !is_ready && (wait.timed_word() != Some(word) || !is_word(wait)) {
            break;
        }
        last = if is_ready { last } else { at };
        until = until.max(wait.end_ns);
    }
    (last > first).then_some(last)
}

fn is_for_a_session(model: &Model, wait: &WaitSpan) -> bool {
    let stack = model.user_stack(&wait.thread, wait.begin_ns, wait.end_ns);
    let kind = stack.and_then(|stack| user_stack::kind(&stack.frames));
    kind.is_some_and(LockKind::is_of_a_session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{host, thread};
    use crate::waits::timeline::Observed;

    const SECOND: Ns = 1_000_000_000;

    fn piece(begin_ns: Ns, word: u64) -> Fact {
        let args = [word, 0x189, 0, 0x7ff0, 0, 0];
        let place =
            Place { state: WaitState::Sleep, syscall: "futex".into(), args, ..Place::default() };
        let wake = Some(Wake { at_ns: begin_ns + SECOND, ..Wake::default() });
        let (thread, end_ns) = (thread(10, "mariadbd"), begin_ns + SECOND);
        let wait = Wait { thread, begin_ns, end_ns, place, wake, ..Wait::default() };
        Fact { at_ns: end_ns, body: Body::Wait(wait) }
    }

    /// Waits of thread 10, which stands in this function in the second of its pieces.
    fn waits(function: &str, gap_ns: Ns) -> Vec<(WaitClass, Ns)> {
        let frame = UserFrame {
            function: function.into(),
            module: "mariadbd".into(),
            ..UserFrame::default()
        };
        let begin_ns = SECOND + gap_ns;
        let stack = UserStack {
            thread: thread(10, "mariadbd"),
            since_ns: begin_ns,
            frames: vec![frame],
            ..UserStack::default()
        };
        let mut facts = host();
        facts.extend([
            Fact { at_ns: begin_ns + 1, body: Body::UserStack(stack) },
            piece(0, 0x7020),
            piece(begin_ns, 0x7024),
        ]);
        let Observed { timelines, .. } = Observed::new(facts);
        timelines.waits().map(|wait| (wait.class, wait.end_ns - wait.begin_ns)).collect()
    }

    #[test]
    fn pieces_of_a_wait_for_a_lock_of_a_session_are_one_wait() {
        let lock = "MDL_context::acquire_lock";
        assert_eq!(waits(lock, 50_000), [(WaitClass::FutexLock, 2 * SECOND + 50_000)]);
        assert_eq!(waits(lock, SECOND / 2).len(), 2, "it did something in between");
        assert_eq!(waits("take_job", 50_000).len(), 2);
    }
}
