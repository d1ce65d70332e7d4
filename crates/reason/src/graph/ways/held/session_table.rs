//! What a database's process waits for inside the server: the session that has the lock, or that waits before this one, as the server's own
//! table of locks was read; else the one process of the server that brings it about.
//!
//! It beats who ended the wait, and what sessions say of themselves. Of several the first that lives. A transaction that was prepared has a lock and no
//! process: then nobody is named, whatever other sessions say of themselves. Must not: guess where the server's memory
//! was not read (owed/session_lock.rs).

use crate::facts::{SessionEvent, SessionWait, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::programs;
use crate::waits::timeline::WaitSpan;
use crate::waits::{WaitClass, session_wait};

/// Why it is whoever is found.
pub(in crate::graph) const BECAUSE: &str =
    "the server's own table of locks says that it is in the way";

/// The way.
pub(super) static WAY: Way = Way {
    name: "session table",
    because: BECAUSE,
    of: &[WaitClass::FutexWait],
    thresholds: &[],
    follow: |at| {
        let (index, wait) = (at.index, at.wait);
        let (read, event) =
            session_wait::reading(index.model, &wait.thread, wait.begin_ns, wait.end_ns)?;
        let found = holder(index, wait, read, event).map(Next::Thread);
        found.or_else(|| read.held_without_process.then_some(Next::Nobody))
    },
};

/// The server numbers processes as its container does, and all of them have one parent, which may have begun other programs, and run the same.
fn holder(
    index: &Index<'_>,
    wait: &WaitSpan,
    read: &SessionWait,
    event: SessionEvent,
) -> Option<ThreadRef> {
    let waiter = index.model.threads.identity(&wait.thread)?;
    let mut siblings = index.families.living_children(index.families.parent_of(wait.thread.pid)?);
    siblings.retain(|sibling| {
        let known = index.model.threads.identity(sibling);
        known.is_some_and(|it| it.executable == waiter.executable)
    });
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
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::scenes::{LOOK_NS, host, identity, of_process, thread};

    /// Session 10, which waits for a lock that these have, as the server numbers them; its siblings are 30 and 31, and 32, which is another
    /// program.
    fn waits(holders: Vec<u32>, at_ns: Ns) -> (&'static str, Option<u32>) {
        waits_so(SessionWait { holders, ..SessionWait::default() }, at_ns)
    }

    fn waits_so(wait: SessionWait, at_ns: Ns) -> (&'static str, Option<u32>) {
        let wait = SessionWait { pid: 10, event: Some(SessionEvent::RowLock), ..wait };
        let mut other = child(32, 5);
        if let Body::Thread(thread) = &mut other.body {
            thread.executable = "/usr/bin/other".into();
        }
        led(vec![
            child(10, 5),
            child(30, 5),
            child(31, 5),
            child(40, 6),
            other,
            Fact { at_ns, body: Body::SessionWait(wait) },
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
        ])
    }

    #[test]
    fn whose_number_the_table_has_is_it_if_it_is_a_session_of_the_same_server() {
        assert_eq!(waits(vec![31], LOOK_NS + 1), ("session table", Some(31)));
        assert_eq!(waits(vec![40, 30], LOOK_NS / 2), ("session table", Some(30)));
        assert_ne!(waits(vec![40], LOOK_NS / 2).0, "session table", "another server's");
        assert_eq!(waits(vec![32, 31], LOOK_NS / 2), ("session table", Some(31)), "a session");
        assert_ne!(waits(vec![32], LOOK_NS / 2).0, "session table", "another program");
        assert_ne!(waits(Vec::new(), LOOK_NS / 2).0, "session table");
    }

    /// Session 10 waits for 30, which waits for what nobody known has, or rests. Who of an answer about 10 has to act, and where its chain ends.
    fn behind(second_waits: bool) -> (Option<u32>, Option<u32>) {
        let waits = |pid: u32, holders: Vec<u32>| {
            let held_without_process = holders.is_empty();
            let event = Some(SessionEvent::RowLock);
            let wait =
                SessionWait { pid, event, holders, held_without_process, ..SessionWait::default() };
            Fact { at_ns: LOOK_NS / 2, body: Body::SessionWait(wait) }
        };
        let mut facts = vec![
            of_process(10, "app"),
            child(10, 5),
            child(30, 5),
            waits(10, vec![30]),
            stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
            stands(thread(30, "job"), place("epoll_wait", NO_ARGS, None)),
        ];
        facts.extend(second_waits.then(|| waits(30, Vec::new())));
        let ends = explain([host(), facts].concat()).answer.ends;
        let lock = ends.iter().find(|end| end.end == EndKind::Lock).expect("a lock");
        let who = lock.who.as_ref().and_then(|who| who.pid);
        (who, lock.chain.last().and_then(|link| link.who.pid))
    }

    #[test]
    fn one_that_serves_no_client_is_held_up_by_who_rests_in_a_transaction() {
        let title = |pid: u32, title: &str| {
            let command = format!("postgres: {title}");
            let (thread, parent_pid) = (thread(pid, "postgres"), 5);
            identity(Thread { thread, parent_pid, command, ..Thread::default() })
        };
        let read = |event| {
            let wait = SessionWait { pid: 10, event, holders: vec![30], ..SessionWait::default() };
            let facts = vec![
                of_process(10, "postgres"),
                title(10, "logical replication worker for subscription 16394 waiting"),
                title(30, "app sales [local] idle in transaction"),
                Fact { at_ns: LOOK_NS / 2, body: Body::SessionWait(wait) },
                stands(of_ten(10), place("epoll_wait", NO_ARGS, None)),
                stands(thread(30, "postgres"), place("epoll_wait", NO_ARGS, None)),
            ];
            let ends = explain([host(), facts].concat()).answer.ends;
            ends.first().map(|end| (end.end, end.who.as_ref().and_then(|who| who.pid)))
        };
        assert_eq!(read(Some(SessionEvent::RowLock)), Some((EndKind::Lock, Some(30))));
        assert_eq!(read(None), None, "it waits for work");
    }

    #[test]
    fn who_waits_in_the_same_queue_does_not_have_it() {
        assert_eq!(behind(true), (None, Some(30)));
        assert_eq!(behind(false).0, Some(30), "it has it");
    }

    #[test]
    fn of_a_prepared_transaction_nobody_is_named_and_a_session_beside_it_is() {
        let prepared = |holders: Vec<u32>| {
            let wait =
                SessionWait { holders, held_without_process: true, ..SessionWait::default() };
            waits_so(wait, LOOK_NS / 2)
        };
        assert_eq!(prepared(Vec::new()), ("session table", None));
        assert_eq!(prepared(vec![30]), ("session table", Some(30)));
    }
}
