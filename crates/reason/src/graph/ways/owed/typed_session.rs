//! A client that shows a terminal of another host, or of this one by a connection (ssh): what was typed is done at the other end.
//!
//! It polls its keyboard and its one connection; the process there serves nobody else, and has begun one that does the work, or waits for one that has the
//! output of what has ended. Whoever had the last word there says nothing: a session answers when there is something to show. If what it began
//! reads its own terminal, a person is to type. Who asks about the session itself is led to its child as well. Must not: lead to who serves others, or
//! to who rests: then the person is next.

use crate::facts::{Endpoint, InetRef, ObjectRef, ThreadRef, is_fifo};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::question::subject;
use crate::graph::ways::way::{Waiter, Way};
use crate::model::terminal::Terminal;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "typed session",
    because: "it does what is typed there, for nobody else",
    of: &[WaitClass::Idle],
    thresholds: &[],
    follow,
};

/// The way from such a session to what it has begun, beside its client's next word.
pub(super) static ITS_CHILD: Way = Way {
    name: "session's child",
    because: "it was begun for the only client",
    of: &[WaitClass::Idle],
    thresholds: &[],
    follow: |at| begun_for_client(at.index, at.wait).map(Next::Thread),
};

/// The one child of a process that has one client and has asked nobody else; another program.
fn begun_for_client(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let pid = wait.thread.pid;
    let Some(ObjectRef::Inet(own)) = subject(index, wait) else { return None };
    let client = InetRef { local: own.remote, remote: own.local, ..own.clone() };
    let serves_it = index.connections.is_accepted(own) && serves_only(index, pid, &client);
    let child = index.families.only_child(pid, wait.begin_ns, wait.end_ns)?;
    let name = |pid: u32| index.model.threads.process_name(pid);
    let is_other = serves_it && name(child.pid) != name(pid);
    let made = |end: &Endpoint| matches!(&end.object, ObjectRef::Inet(it) if is_made(index, it));
    (is_other && !index.connections.all_of(pid).any(made)).then_some(child)
}

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let far = doing(at.index, at.wait)?;
    (at.asker.is_none_or(|asker| asker.who.pid != far.pid)).then_some(Next::Thread(far))
}

/// Who does what is typed, at the other end of the one connection that a wait is for beside a keyboard.
pub(in crate::graph) fn doing(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let polled = index.connections.of_process(wait.thread.pid, &wait.place.polled);
    if wait.class != WaitClass::Idle || !polled.iter().any(|end| is_keyboard(&end.object)) {
        return None;
    }
    let mut sockets = polled.iter().filter_map(|end| match &end.object {
        ObjectRef::Inet(socket) => Some(socket),
        _ => None,
    });
    let first = sockets.next().filter(|it| is_made(index, it))?;
    // One may be polled twice, for reading and for writing.
    if sockets.any(|other| other.ino != first.ino) {
        return None;
    }
    let far = index.connections.far_processes(first);
    let pids: Vec<u32> = far.iter().map(|it| it.pid).collect();
    if !pids.iter().all(|pid| serves_only(index, *pid, first)) {
        return None;
    }
    // A part of it with fewer rights may have the connection as well.
    let mut busy = far.iter().filter(|it| has_something_to_do(index, it.pid, &pids));
    let only = busy.next().filter(|_| busy.next().is_none())?;
    Some(index.model.threads.thread_ref(only.pid))
}

fn is_keyboard(object: &ObjectRef) -> bool {
    matches!(object, ObjectRef::Tty { name, .. } if Terminal::of(name).is_keyboard())
}

/// Whether it is an end of a connection that was made, and not accepted.
fn is_made(index: &Index<'_>, socket: &InetRef) -> bool {
    socket.state != TCP_LISTEN
        && socket.remote.port() != 0
        && !index.connections.is_accepted(socket)
}

/// Whether a process has accepted no other connection, and is not the one that takes those.
fn serves_only(index: &Index<'_>, pid: u32, client: &InetRef) -> bool {
    let is_others = |end: &Endpoint| match &end.object {
        ObjectRef::Inet(own) if own.remote.port() == 0 => {
            own.state == TCP_LISTEN && own.local.port() == client.remote.port()
        }
        ObjectRef::Inet(own) => {
            index.connections.is_accepted(own)
                && (own.local, own.remote) != (client.remote, client.local)
        }
        ObjectRef::Unix { peer_ino, path, .. } => *peer_ino != 0 && path.is_some(),
        _ => false,
    };
    !index.connections.all_of(pid).any(is_others)
}

/// Whether a process has a child that is none of these, or waits for who has the output of one.
fn has_something_to_do(index: &Index<'_>, pid: u32, among: &[u32]) -> bool {
    let main = index.model.threads.thread_ref(pid);
    let last = || index.waits.of(&main).last();
    index.families.living_children(pid).iter().any(|child| !among.contains(&child.pid))
        || last().is_some_and(|wait| left_behind(index, wait).is_some())
}

/// The one process that has all pipes open for writing which a loop polls, and is neither begun by it nor above it: a job that was left behind with the
/// output of what has ended. Not of who reads a keyboard, nor of a FIFO, which whoever writes to it has opened himself.
pub(in crate::graph) fn left_behind(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let (connections, families, pid) = (&index.connections, &index.families, wait.thread.pid);
    let polled = connections.of_process(pid, &wait.place.polled);
    if wait.class != WaitClass::Idle || polled.iter().any(|end| is_keyboard(&end.object)) {
        return None;
    }
    let reads = polled.iter().filter(|end| end.readable && !end.writable);
    let pipes = reads.filter_map(|end| match end.object {
        ObjectRef::Pipe { ino } if !is_fifo(ino) => Some(ino),
        _ => None,
    });
    let ends = pipes.flat_map(|ino| connections.endpoints_on(ino));
    let mut writers = ends.filter(|end| end.writable && end.process.pid != pid);
    let first = &writers.next()?.process;
    let is_one = writers.all(|other| other.process.pid == first.pid);
    let is_apart = !families.descends(first.pid, pid) && !families.descends(pid, first.pid);
    (is_one && is_apart).then(|| index.model.threads.thread_ref(first.pid))
}

#[cfg(test)]
mod tests {
    use super::{WAY, left_behind};
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    fn tty() -> ObjectRef {
        ObjectRef::Tty { name: "pts/0".into(), dev: DeviceNumber { major: 136, minor: 0 } }
    }

    fn near(ino: u64, port: u16) -> ObjectRef {
        inet("tcp", ino, &format!("127.0.0.1:{port}"), "127.0.0.1:22", 1)
    }

    fn far(ino: u64, port: u16) -> ObjectRef {
        inet("tcp", ino, "127.0.0.1:22", &format!("127.0.0.1:{port}"), 1)
    }

    /// Where process 10 is led that polls its terminal and its connection to 20.
    fn typed(more: Vec<Fact>) -> (&'static str, Option<u32>) {
        let polls = Place { polled: vec![3, 3, 4], ..place("poll", NO_ARGS, None) };
        let listens = inet("tcp", 99, "127.0.0.1:22", "0.0.0.0:0", 10);
        let own = vec![
            stands(of_ten(10), polls),
            descriptor(10, 3, "app", near(100, 4000)),
            descriptor(10, 4, "app", tty()),
            descriptor(9, 3, "server", listens),
            descriptor(20, 4, "job", far(101, 4000)),
            blocked(20, "job", WaitState::Sleep, "ppoll"),
        ];
        led([own, more].concat())
    }

    #[test]
    fn a_session_with_a_child_does_what_was_typed_and_one_that_rests_has_not_to_act() {
        assert_eq!(typed(vec![child(21, 20)]), (WAY.name, Some(20)));
        assert_ne!(typed(vec![]).1, Some(20));
        let shared = vec![child(21, 20), descriptor(20, 5, "job", far(102, 4001))];
        assert_ne!(typed(shared).0, WAY.name, "it may be for the other");
        let listens = inet("tcp", 98, "127.0.0.1:22", "0.0.0.0:0", 10);
        let server = vec![child(21, 20), descriptor(20, 5, "job", listens)];
        assert_ne!(typed(server).0, WAY.name, "a child for whomever");
        let second = vec![child(21, 20), descriptor(10, 3, "app", near(103, 4002))];
        assert_ne!(typed(second).0, WAY.name, "which connection?");
    }

    #[test]
    fn of_two_that_have_the_connection_who_began_the_job_is_it() {
        let part = vec![descriptor(22, 4, "job", far(101, 4000)), child(22, 20), child(23, 22)];
        assert_eq!(typed(part), (WAY.name, Some(22)));
    }

    #[test]
    fn a_session_waits_for_its_child_and_a_server_for_its_next_question() {
        let leads = |more: Vec<Fact>| {
            let place =
                Place { polled: vec![4, 5], ..place("ppoll", NO_ARGS, Some(far(101, 4000))) };
            let listens = inet("tcp", 99, "127.0.0.1:22", "0.0.0.0:0", 10);
            let own = vec![
                stands(of_ten(10), place),
                descriptor(10, 4, "app", far(101, 4000)),
                descriptor(9, 3, "server", listens),
                descriptor(30, 3, "client", near(100, 4000)),
            ];
            led([own, more].concat())
        };
        assert_eq!(leads(vec![child(20, 10)]), ("session's child", Some(20)));
        assert_ne!(leads(vec![]).0, "session's child");
        let shared = vec![child(20, 10), descriptor(10, 5, "app", far(102, 4001))];
        assert_ne!(leads(shared).0, "session's child", "it may be for the other");
        let worker = Thread { thread: thread(20, "app"), parent_pid: 10, ..Thread::default() };
        assert_ne!(leads(vec![identity(worker)]).0, "session's child", "it serves with it");
        let asks = inet("tcp", 103, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let asks = vec![child(20, 10), descriptor(10, 6, "app", asks)];
        assert_ne!(leads(asks).0, "session's child", "it has asked another");
    }

    #[test]
    fn who_alone_has_the_output_of_what_has_ended_is_waited_for() {
        let end = |pid: u32, fd: u32, writes: bool| {
            let mut end = descriptor(pid, fd, "job", ObjectRef::Pipe { ino: 7 });
            if let Body::Endpoint(end) = &mut end.body {
                (end.readable, end.writable) = (!writes, writes);
            }
            end
        };
        let found = |more: Vec<Fact>| {
            let polls =
                Place { polled: vec![3, 4], ..place("ppoll", NO_ARGS, Some(far(100, 4000))) };
            let listens = inet("tcp", 99, "127.0.0.1:22", "0.0.0.0:0", 10);
            let listens = descriptor(9, 3, "server", listens);
            let own = vec![stands(of_ten(10), polls), listens, end(10, 4, false)];
            let Observed { model, timelines } = Observed::new([host(), own, more].concat());
            let index = Index::new(&model, &timelines);
            let wait = timelines.waits().find(|wait| wait.thread.tid == 10).expect("it waits");
            left_behind(&index, wait).map(|it| it.pid)
        };
        assert_eq!(found(vec![end(30, 1, true), end(30, 2, true)]), Some(30));
        assert_eq!(found(vec![end(30, 1, true), end(31, 1, true)]), None, "which of them?");
        assert_eq!(found(vec![]), None, "nobody has it");
        assert_eq!(found(vec![end(9, 1, true), child(10, 9)]), None, "orders");
        assert_eq!(found(vec![end(30, 1, true), child(30, 10)]), None, "its own child");
        let reads = vec![end(30, 1, true), descriptor(10, 3, "app", tty())];
        assert_eq!(found(reads), None, "a person may type");
    }
}
