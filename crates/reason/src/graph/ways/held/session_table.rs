//! What a database's process waits for inside the server: the session that has the lock, or that waits before this one, as the server's own
//! table of locks was read; else the one process of the server that brings it about.
//!
//! It beats who ended the wait, and what sessions say of themselves. Of several the first that lives. Must not: guess where the server's memory
//! was not read (owed/session_lock.rs).

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::programs;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, session_wait};

/// The way.
pub(super) static WAY: Way = Way {
    name: "session table",
    because: "the server's own table of locks says that it is in the way",
    of: &[WaitClass::FutexWait],
    thresholds: &[],
    follow: |at| holder(at.index, at.wait).map(Next::Thread),
};

/// The server numbers processes as its container does, and all of them have one parent.
fn holder(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let (read, event) =
        session_wait::reading(index.model, &wait.thread, wait.begin_ns, wait.end_ns)?;
    let siblings = index.families.living_children(index.families.parent_of(wait.thread.pid)?);
    let is_numbered = |sibling: &&ThreadRef, number: u32| {
        let known = index.model.threads.identity(sibling);
        known.and_then(|it| it.inner_pid).unwrap_or(sibling.pid) == number
    };
    let of_number = |number: &u32| siblings.iter().find(|it| is_numbered(it, *number)).cloned();
    let brings_about = |sibling: &&ThreadRef| {
        let known = index.model.threads.identity(sibling);
        known.is_some_and(|it| programs::brings_about(&it.command, session_wait::kind(event)))
    };
    let by_number = read.holders.iter().find_map(of_number);
    by_number.or_else(|| siblings.iter().find(brings_about).cloned())
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::scenes::LOOK_NS;

    /// Session 10, which waits for a lock that these have, as the server numbers them; its siblings are 30 and 31.
    fn waits(holders: Vec<u32>, at_ns: Ns) -> (&'static str, Option<u32>) {
        let wait = SessionWait {
            pid: 10,
            event: Some(SessionEvent::RowLock),
            holders,
            ..SessionWait::default()
        };
        led(vec![
            child(10, 5),
            child(30, 5),
            child(31, 5),
            child(40, 6),
            Fact { at_ns, body: Body::SessionWait(wait) },
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
        ])
    }

    #[test]
    fn whose_number_the_table_has_is_it_if_it_is_a_session_of_the_same_server() {
        assert_eq!(waits(vec![31], LOOK_NS + 1), ("session table", Some(31)));
        assert_eq!(waits(vec![40, 30], LOOK_NS / 2), ("session table", Some(30)));
        assert_ne!(waits(vec![40], LOOK_NS / 2).0, "session table", "another server's");
        assert_ne!(waits(Vec::new(), LOOK_NS / 2).0, "session table");
    }
}
