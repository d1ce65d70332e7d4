//! A word of a database of which its own functions say that a session has it until its transaction ends: that session.
//!
//! Must not: choose among several sessions (sessions.rs).

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::sessions::session_that_holds;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, user_stack};

/// The way.
pub(super) static WAY: Way = Way {
    name: "session",
    because: "it is the only session that can have the row",
    of: &[WaitClass::FutexLock],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let session = || session_of_row(at.index, at.wait).map(Next::Thread);
    (!at.is_for_an_interpreter()).then(session).flatten()
}

/// For a word of a database of which its own functions say that a session has it until its transaction ends.
fn session_of_row(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let kind = user_stack::lock_kind_of(index.model, &wait.thread, wait.begin_ns, wait.end_ns);
    kind.filter(|kind| kind.is_of_a_session()).and_then(|_| session_that_holds(index, wait))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{LOCK, NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{endpoint, fact};

    /// A thread of a database waits for a row by its functions, and others of its threads stand on their clients' connections.
    fn rows(resting: &[u32]) -> (&'static str, Option<u32>) {
        let listens = inet("tcp", 300, "10.0.0.1:3306", "0.0.0.0:0", 10);
        let frame = |function: &str| UserFrame {
            function: function.into(),
            module: "mariadbd".into(),
            ..UserFrame::default()
        };
        let frames = ["lock_wait", "ha_index_read_map"].map(frame).to_vec();
        let stack = UserStack { thread: of_ten(10), since_ns: 0, frames, ..UserStack::default() };
        let mut facts = vec![
            endpoint(10, "app", listens),
            fact(Body::UserStack(stack)),
            stands(of_ten(10), place("futex", LOCK, None)),
        ];
        for tid in resting {
            let far = format!("10.0.0.9:{}", 40_000 + tid);
            let on = inet("tcp", u64::from(400 + tid), "10.0.0.1:3306", &far, 1);
            facts.push(endpoint(10, "app", on.clone()));
            facts.push(stands(of_ten(*tid), place("poll", NO_ARGS, Some(on))));
        }
        led(facts)
    }

    #[test]
    fn the_only_other_session_has_the_row() {
        assert_eq!(rows(&[12]), ("session", Some(12)));
        assert_eq!(rows(&[12, 13]).1, None, "nobody knows which");
    }
}
