//! A server that reads what a process says which it had begun for a question: by a helper of its own, so that it is no child of the server.
//!
//! Runtimes that must not fork themselves have a small process do that (Erlang's erl_child_setup), or begin what they run through a shell. The server's
//! loop waits for many descriptors; one is the pipe into which only such processes write. It is for the question if they were begun right after it
//! came, and no other pipe is. Must not: take a process that was there before, whose output is no answer (a job, a log).

use crate::facts::{Endpoint, ObjectRef, ThreadRef};
use crate::graph::next::Next;
use crate::graph::taken;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass;

/// The way.
pub(super) static WAY: Way = Way {
    name: "child's output",
    because: "it was begun right after the question, and the server has the pipe that only it writes into",
    of: &[WaitClass::Idle],
    thresholds: &[&taken::BEFORE_MIN, &taken::BORN_BEFORE_MAX],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let own = at.index.connections.all_of(at.wait.thread.pid);
    let mut begun = own.filter_map(|end| writer(at, end));
    let first = begun.next()?;
    // A child's output and its errors may be two pipes.
    begun.all(|other| other.pid == first.pid).then_some(Next::Thread(first))
}

/// The first that was begun of those who write into a pipe which the server reads, if all of them were begun for what it was asked.
fn writer(at: &Waiter<'_>, end: &Endpoint) -> Option<ThreadRef> {
    let ObjectRef::Pipe { ino } = &end.object else { return None };
    let server = end.process.pid;
    if !end.readable || end.writable {
        return None;
    }
    let ends = at.index.connections.endpoints_on(*ino).iter();
    let writers = ends.filter(|other| other.writable).map(|other| &other.process);
    let writers: Vec<ThreadRef> =
        writers.map(|it| at.index.model.threads.thread_ref(it.pid)).collect();
    let is_for_it = |it: &ThreadRef| {
        it.pid != server
            && at.index.families.descends(it.pid, server)
            && taken::is_begun_for(at, it)
    };
    let all = writers.iter().all(is_for_it);
    writers.into_iter().min_by_key(|it| (it.start_ns, it.pid)).filter(|_| all)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::index::Index;
    use crate::graph::next::{Asker, Next, Until};
    use crate::graph::ways::responsible;
    use crate::graph::ways::scenes::{NO_ARGS, place, stands};
    use crate::graph::ways::way::Waiter;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, descriptor, host, identity, thread};
    use crate::waits::timeline::Observed;

    const ASKED_NS: Ns = 1_000_000_000;

    /// Client 10 has asked server 20, whose helper 21 began 31 then, which writes into a pipe that the server reads; so does another process.
    fn leads_to(begun_ns: Ns, other: Option<u32>) -> Option<u32> {
        led_to(begun_ns, other, true)
    }

    /// The same for somebody who asks about the server, and names no client.
    fn led_to(begun_ns: Ns, other: Option<u32>, has_asker: bool) -> Option<u32> {
        let near = inet("tcp", 5, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let far = inet("tcp", 6, "127.0.0.1:80", "127.0.0.1:5000", 1);
        let listener = inet("tcp", 7, "0.0.0.0:80", "0.0.0.0:0", 10);
        let of = |pid: u32, comm: &str, parent_pid: u32, start_ns: Ns| {
            let thread = ThreadRef { start_ns, ..thread(pid, comm) };
            identity(Thread { thread, parent_pid, ..Thread::default() })
        };
        let end = |pid: u32, ino: u64, writes: bool| {
            let mut fact = descriptor(pid, ino as u32, "job", ObjectRef::Pipe { ino });
            if let Body::Endpoint(end) = &mut fact.body {
                (end.readable, end.writable) = (!writes, writes);
            }
            fact
        };
        let client = ThreadRef { start_ns: ASKED_NS, ..thread(10, "curl") };
        let mut facts = vec![
            of(10, "curl", 1, ASKED_NS),
            of(20, "beam", 1, 1),
            of(21, "helper", 20, 2),
            of(31, "sh", 21, begun_ns),
            of(32, "sh", 21, begun_ns + 1),
            stands(client, place("recvfrom", NO_ARGS, Some(near.clone()))),
            stands(thread(20, "beam"), place("epoll_wait", NO_ARGS, None)),
            descriptor(10, 3, "curl", near),
            owing(descriptor(20, 4, "beam", far)),
            descriptor(20, 5, "beam", listener),
            end(20, 40, false),
            end(31, 40, true),
        ];
        facts.extend(other.into_iter().flat_map(|pid| [end(20, 41, false), end(pid, 41, true)]));
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let index = Index::new(&model, &timelines);
        let of = |tid: u32| timelines.waits().find(|it| it.thread.tid == tid).expect("it waits");
        let asker = Some(Asker { who: &of(10).thread, until: Until::Wait(of(10)) });
        let asker = asker.filter(|_| has_asker);
        let at = Waiter { asker, ..Waiter::of(&index, of(20)) };
        match responsible(&at, true).0 {
            Next::Thread(to) => Some(to.pid),
            _ => None,
        }
    }

    /// The end of a connection on which a question came then, and was not answered.
    fn owing(mut end: Fact) -> Fact {
        let ago = |ns: Ns| ((LOOK_NS - ns) / 4_000_000) as u32;
        let turn = TcpTurn {
            received_jiffies: ago(ASKED_NS),
            sent_jiffies: ago(ASKED_NS / 2),
            jiffy_ns: 4_000_000,
            ..TcpTurn::default()
        };
        if let Body::Endpoint(end) = &mut end.body {
            let state = SocketState {
                acked_bytes: 10,
                received_bytes: 10,
                turn: Some(turn),
                ..SocketState::default()
            };
            (end.socket, end.unread) = (Some(state), Some(0));
        }
        Fact { at_ns: LOOK_NS, ..end }
    }

    #[test]
    fn who_asks_about_the_server_is_led_there_as_well() {
        const MS: Ns = 1_000_000;
        assert_eq!(led_to(ASKED_NS + 20 * MS, None, false), Some(31));
        assert_ne!(led_to(ASKED_NS / 2, None, false), Some(31), "it was there before");
    }

    #[test]
    fn who_was_begun_for_a_question_by_a_helper_is_read_for_its_answer() {
        const MS: Ns = 1_000_000;
        assert_eq!(leads_to(ASKED_NS + 20 * MS, None), Some(31));
        assert_eq!(leads_to(ASKED_NS / 2, None), None, "it was there before");
        assert_eq!(leads_to(ASKED_NS + 900 * MS, None), None, "long after: a job");
        assert_eq!(leads_to(ASKED_NS + 20 * MS, Some(32)), None, "which of the two?");
        assert_eq!(leads_to(ASKED_NS + 20 * MS, Some(31)), Some(31), "output and errors");
    }
}
