//! Which session of a database holds what another one waits for, by what the sessions say of themselves.
//!
//! A lock of a table of rows lives in the server's memory, and until its holder lets go nothing outside tells who that is. But a
//! server with a process for each session (PostgreSQL) writes into its title what the session does. What a session has locked
//! it keeps until its transaction ends: so the holder is one of those that compute a statement, or are idle in a
//! transaction. If there is one such session in the database of whoever waits, it is that one. A server with a thread for each
//! session says nothing of the kind; there it is the other one only if there is one other. Must not: choose among several, or
//! read a title of a process that was begun by somebody else.

use super::conversation::PAUSE_MAX;
use super::index::Index;
use super::question::is_for_a_question;
use super::wakers::waker;
use crate::facts::{ThreadRef, UserFrame};
use crate::programs;
use crate::waits::timeline::WaitSpan;

/// Whether a session says that it waits for a lock, by the end of the look, where `wait` stands.
pub(super) fn says_that_it_waits(index: &Index<'_>, wait: &WaitSpan) -> bool {
    let waiter = index.model.threads.by_id.get(&wait.thread.pid).filter(|_| wait.standing);
    waiter.and_then(|it| programs::session(&it.command)).is_some_and(|session| session.waits)
}

/// Who lets go in the end of what a session waits for: its own server's clock ends the wait for a moment, to look for a
/// deadlock (PostgreSQL, after a second), and the session waits on. With the wait that he ended.
pub(super) fn lets_go_later<'a>(
    index: &Index<'a>,
    wait: &WaitSpan,
) -> Option<(&'a WaitSpan, ThreadRef)> {
    let mut until = wait.end_ns;
    for other in index.waits.after(wait) {
        if other.begin_ns > until + PAUSE_MAX.ns() {
            break;
        }
        until = other.end_ns;
        if other.place.syscall == wait.place.syscall
            && let Some(by) = waker(index, other)
        {
            return (by.pid != wait.thread.pid).then_some((other, by));
        }
    }
    None
}

/// The session that has what `wait` is for, if only one can have it.
pub(super) fn session_that_holds(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    session_by_title(index, wait).or_else(|| only_other_session(index, wait))
}

/// Of a server with a thread for each session (MariaDB, MySQL): the only other one, where it waits for its client's next
/// word meanwhile. Somebody has the lock: nobody else may be in the middle of a statement, as its own functions say.
fn only_other_session(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    // Threads are read one after another as the look ends.
    let at_ns = wait.begin_ns.max(index.model.look.begin_ns).midpoint(wait.end_ns);
    let rests = |thread: &ThreadRef| {
        let its = index.waits.at(thread, at_ns);
        its.is_some_and(|its| is_for_a_question(index, its))
    };
    let threads = index.families.threads_of(&[wait.thread.pid]);
    let others = || threads.iter().filter(|other| other.tid != wait.thread.tid);
    // Whose wait was not seen, since it neither began nor ended in a look at a command, may rest as well.
    let is_seen = |thread: &&ThreadRef| index.waits.at(thread, at_ns).is_some();
    let mut resting = others().filter(|other| rests(other));
    let is_in_statement = |thread: &ThreadRef| {
        let stack = index.model.user_stack(thread, wait.begin_ns, wait.end_ns);
        let is_it = |frame: &UserFrame| STATEMENTS.iter().any(|name| frame.function.contains(name));
        stack.is_some_and(|stack| stack.frames.iter().any(is_it))
    };
    if others().any(|other| !rests(other) && is_in_statement(other)) {
        return None;
    }
    let only = resting.next().filter(|_| others().all(|other| is_seen(&other)))?;
    resting.next().is_none().then(|| only.clone())
}

/// Functions of MariaDB and MySQL within which a session carries out what its client asked for.
const STATEMENTS: &[&str] =
    &["dispatch_command", "dispatch_sql_command", "mysql_execute_command", "mysql_parse"];

fn session_by_title(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let identity = |pid: u32| index.model.threads.by_id.get(&pid);
    let waiter = identity(wait.thread.pid)?;
    let session = |pid: u32| identity(pid).and_then(|known| programs::session(&known.command));
    let database = session(wait.thread.pid)?.database;
    // Who does not say in which database it is, as who carries out the changes of another server, may have it, and is not known to.
    let may_hold = |other: &ThreadRef| {
        let is_near = |name: &str| name.is_empty() || name == database;
        let is_its = identity(other.pid).is_some_and(|it| it.executable == waiter.executable);
        is_its && session(other.pid).is_some_and(|it| it.may_hold && is_near(it.database))
    };
    let siblings = index.families.living_children(waiter.parent_pid);
    let mut holders = siblings.into_iter().filter(|it| it.pid != wait.thread.pid && may_hold(it));
    let only = holders.next().filter(|_| !database.is_empty())?;
    let is_said = session(only.pid).is_some_and(|it| !it.database.is_empty());
    (holders.next().is_none() && is_said).then_some(only)
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;

    /// Session 20 of a server waits for a lock of the table of locks, which its stack says; sessions 30 and 31 do what
    /// their titles say. Who would have to act for 10, the client of session 20.
    fn held_by(titles: [&str; 2]) -> Vec<(EndKind, Option<u32>)> {
        let title = |pid: u32, text: &str| {
            let command = match text.starts_with("autovacuum") || text.starts_with("logical") {
                true => format!("postgres: {text}"),
                false => format!("postgres: app sales [local] {text}"),
            };
            let executable = "/usr/lib/postgresql/15/bin/postgres".to_string();
            let thread = thread(pid, "postgres");
            identity(Thread { thread, parent_pid: 5, command, executable, ..Thread::default() })
        };
        let [waiting, holding, other] = [300, 100, 200].map(|ino| ObjectRef::Unix {
            ino: ino + 1,
            peer_ino: ino,
            path: Some("/run/db.sock".into()),
        });
        let client = |ino| ObjectRef::Unix { ino, peer_ino: ino + 1, path: None };
        let reads = |on: &ObjectRef| Place {
            state: WaitState::Sleep,
            syscall: "recvfrom".into(),
            object: Some(on.clone()),
            ..Place::default()
        };
        let mut facts = host();
        facts.extend([title(20, "UPDATE waiting"), title(30, titles[0]), title(31, titles[1])]);
        facts.extend([
            endpoint(10, "psql", client(300)),
            endpoint(20, "postgres", waiting),
            at_place(10, "psql", reads(&client(300))),
            endpoint(30, "postgres", holding.clone()),
            endpoint(31, "postgres", other.clone()),
            endpoint(40, "psql", client(100)),
            blocked(20, "postgres", WaitState::Sleep, "epoll_wait"),
            at_place(30, "postgres", reads(&holding)),
            at_place(31, "postgres", reads(&other)),
            blocked(40, "psql", WaitState::Sleep, "nanosleep"),
        ]);
        let frame = |function: &str| UserFrame {
            function: function.into(),
            module: "postgres".into(),
            ..UserFrame::default()
        };
        let frames = ["WaitLatch", "ProcSleep", "LockAcquireExtended", "heap_update"];
        facts.push(fact(Body::UserStack(UserStack {
            thread: thread(20, "postgres"),
            since_ns: 0,
            frames: frames.map(frame).to_vec(),
            ..UserStack::default()
        })));
        let name = "psql".to_string();
        let kind = TargetKind::Process;
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let ends = explain(facts).answer.ends;
        ends.iter().map(|end| (end.end, end.who.as_ref().and_then(|who| who.pid))).collect()
    }

    #[test]
    fn the_only_session_with_a_transaction_holds_it() {
        assert_eq!(held_by(["idle in transaction", "idle"]), [(EndKind::Lock, Some(30))]);
        let other = ["idle in transaction", "autovacuum worker stock"];
        assert_eq!(held_by(other), [(EndKind::Lock, Some(30))], "of another database");
    }

    #[test]
    fn of_two_nobody_knows_which() {
        let nobody = |ends: Vec<(EndKind, Option<u32>)>| ends.iter().all(|(_, who)| who.is_none());
        assert!(nobody(held_by(["idle in transaction", "SELECT"])));
        assert!(nobody(held_by(["idle", "idle in transaction (aborted)"])));
        assert!(nobody(held_by(["DELETE waiting", "idle"])));
        assert!(nobody(held_by(["idle in transaction", "autovacuum worker sales"])));
        let applies = "logical replication worker for subscription 16394";
        assert!(nobody(held_by(["idle", applies])), "in which database it is is not said");
    }

    /// Thread 21 of a server wants a row, and others of its threads wait for their clients' next word. Who holds the row.
    fn row_of_threads(resting: &[u32]) -> Option<u32> {
        let of_server = |tid| ThreadRef { tid, ..thread(20, "mariadbd") };
        let stands = |tid, place| {
            let thread = of_server(tid);
            let blocked = Blocked { thread, place, ..Blocked::default() };
            Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
        };
        let word = Place {
            state: WaitState::Sleep,
            syscall: "futex".into(),
            args: [0x7000, 128, 2, 0, 0, 0],
            ..Place::default()
        };
        let frame = |function: &str| UserFrame {
            function: function.into(),
            module: "mariadbd".into(),
            ..UserFrame::default()
        };
        let mut facts = host();
        facts.extend([
            of_process(20, "mariadbd"),
            endpoint(20, "mariadbd", inet("tcp", 300, "10.0.0.1:3306", "0.0.0.0:0", 10)),
            stands(21, word),
            fact(Body::UserStack(UserStack {
                thread: of_server(21),
                since_ns: 0,
                frames: ["lock_wait", "ha_index_read_map"].map(frame).to_vec(),
                ..UserStack::default()
            })),
        ]);
        for tid in resting {
            let (client, ino) = (40_000 + tid, u64::from(400 + tid));
            let far = format!("10.0.0.9:{client}");
            let on = inet("tcp", ino, "10.0.0.1:3306", &far, 1);
            facts.push(endpoint(20, "mariadbd", on.clone()));
            let place = Place {
                state: WaitState::Sleep,
                syscall: "poll".into(),
                object: Some(on),
                ..Place::default()
            };
            facts.push(stands(*tid, place));
        }
        let ends = explain(facts).answer.ends;
        let lock = ends.iter().find(|end| end.end == EndKind::Lock)?;
        lock.who.as_ref()?.tid
    }

    #[test]
    fn of_a_server_of_threads_the_only_other_session_holds_a_row() {
        assert_eq!(row_of_threads(&[22]), Some(22));
        assert_eq!(row_of_threads(&[22, 23]), None, "nobody knows which");
        assert_eq!(row_of_threads(&[]), None);
    }
}
