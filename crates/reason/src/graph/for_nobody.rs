//! Chains along which nobody is waited for, though each of their waits is for somebody: back to the waiter's own process, to a worker that has nothing
//! to do, or to a client that wants no answer.
//!
//! Processes of one program show each other by pipes that they live, and send tasks and results over them; clients send what wants no answer, and rest. Must not: leave out a chain that leads to a
//! thing that is held, or to who works.

use super::chains::Chains;
use super::debts::Debt;
use super::leaf::{ChainLink, Leaf};
use crate::facts::{Endpoint, ObjectRef, ThreadRef};
use crate::model::object::Object;
use crate::programs::takes_next_task;
use crate::waits::{WaitClass, session_wait};

/// Whether a chain is one of these.
pub(super) fn is(chains: &Chains<'_>, leaf: &Leaf) -> bool {
    comes_back(chains, leaf)
        || leads_to_a_free_worker(chains, leaf)
        || is_a_watch(leaf)
        || is_without_work(chains, leaf)
}

/// Whether a chain of a process that seems to owe an answer is one.
pub(super) fn is_owed(chains: &Chains<'_>, leaf: &Leaf) -> bool {
    comes_back(chains, leaf) || leads_to_its_client(chains, leaf) || is_without_work(chains, leaf)
}

/// Whether the server itself says of a process of its own that it waits for its next work, and who is to bring that rests as well: he is no more late
/// than a client is.
fn is_without_work(chains: &Chains<'_>, leaf: &Leaf) -> bool {
    let rests = matches!(leaf.root().class, WaitClass::Idle | WaitClass::Timer);
    let first = &leaf.links[0].who;
    rests && leaf.named().is_none() && session_wait::is_without_work(chains.index.model, first)
}

/// Whether a chain leads by another process back to the first one's own, where a thread waits for what comes next or for a time of its own: they only
/// show each other that they live, and nobody waits for himself. Who sleeps may yet write what the other process waits for; where that stands, nobody has
/// seen that it is this thread. The same of a chain to who reads from the first one on a unix socket: nothing says which of them has asked.
fn comes_back(chains: &Chains<'_>, leaf: &Leaf) -> bool {
    let (first, root) = (&leaf.links[0].who, leaf.root());
    if root.who.pid != first.pid {
        return leaf.named().is_none() && reads_from(chains, root, first.pid);
    }
    let before = leaf.links.len().checked_sub(2).map(|at| &leaf.links[at]);
    let rests = match root.class {
        WaitClass::Idle | WaitClass::FutexWait | WaitClass::PipeRead => true,
        WaitClass::Timer => before.is_some_and(|link| link.standing && link.who.pid != first.pid),
        _ => false,
    };
    let by_another = leaf.links.iter().any(|link| link.who.pid != first.pid);
    by_another && rests && leaf.named().is_none()
}

/// Whether a link reads on a unix socket of which a process alone has the other end.
fn reads_from(chains: &Chains<'_>, link: &ChainLink, pid: u32) -> bool {
    let (WaitClass::UnixRead, Object::Unix(ino)) = (link.class, &link.object) else { return false };
    let ends = |ino: u64| chains.index.connections.endpoints_on(ino);
    let peer = ends(*ino).iter().find_map(|end| match &end.object {
        ObjectRef::Unix { peer_ino, .. } => Some(*peer_ino),
        _ => None,
    });
    let far = peer.map_or(&[][..], ends);
    !far.is_empty() && far.iter().all(|end| end.process.pid == pid)
}

/// Whether a chain leads from a process to a worker that it began, which by its stack waits for the next task, at whatever word or pipe that is: what comes
/// from a worker is the result of a task, and of one without a task there is none to come.
fn leads_to_a_free_worker(chains: &Chains<'_>, leaf: &Leaf) -> bool {
    let first = leaf.links[0].who.pid;
    let is_free = |link: &ChainLink| {
        let stack = chains.index.model.user_stack(&link.who, link.begin_ns, link.end_ns);
        stack.is_some_and(|stack| takes_next_task(&stack.frames))
    };
    let worker = leaf.links.iter().find(|link| link.who.pid != first);
    worker.is_some_and(|link| chains.index.families.descends(link.who.pid, first) && is_free(link))
}

/// Whether a thread beside its process's first reads all the while from a pipe of another process that rests: it looks whether that one lives. A thread
/// that is waited for there is followed from who waits for it.
fn is_a_watch(leaf: &Leaf) -> bool {
    let (first, root) = (&leaf.links[0], leaf.root());
    let stands = first.class == WaitClass::PipeRead && first.standing;
    let rests = matches!(root.class, WaitClass::Idle | WaitClass::FutexWait);
    let is_beside = first.who.tid != first.who.pid && root.who.pid != first.who.pid;
    stands && rests && is_beside && leaf.named().is_none()
}

/// Whether a process that owes is led to the one to whom alone it owes, which rests meanwhile, and reads nowhere from it alone: that has more to say, or
/// nothing, and waits for no answer. Who pushes messages to a consumer of his sleeps between them.
fn leads_to_its_client(chains: &Chains<'_>, leaf: &Leaf) -> bool {
    let (first, root) = (&leaf.links[0].who, leaf.root());
    let rests = matches!(root.class, WaitClass::Timer | WaitClass::Idle | WaitClass::FutexWait);
    let (index, debts) = (&chains.index, &chains.index.debts);
    if !rests || root.who.pid == first.pid || debts.awaits.contains_key(&first.pid) {
        return false;
    }
    let last = |thread: &ThreadRef| index.waits.of(thread).last();
    let threads = index.families.threads_of(&[root.who.pid]);
    let stands = threads.iter().filter_map(last).filter(|wait| wait.standing);
    let read: Vec<&Object> =
        stands.filter(|it| it.class == WaitClass::SocketRead).map(|it| &it.object).collect();
    let reads = |ino: u64| read.contains(&&Object::Inet(ino));
    let is_owed_to_it = |debt: &Debt| {
        let socket = index.model.called.socket(debt.ino);
        let far = socket.map_or(&[][..], |socket| index.connections.far_ends(socket));
        let is_it = |end: &&Endpoint| end.process.pid == root.who.pid && !reads(end.object_ino());
        !far.is_empty() && far.iter().all(is_it)
    };
    debts.owes.get(&first.pid).is_some_and(|all| all.iter().all(is_owed_to_it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, pipe_end, place, stands};
    use crate::rules::net::scenes::{inet, spoken};
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;
    use std::sync::Arc;

    /// A thread that stands and reads a pipe.
    fn reads(tid: u32, pid: u32, ino: u64) -> Fact {
        let thread = ThreadRef { tid, ..thread(pid, "web") };
        stands(thread, place("read", NO_ARGS, Some(ObjectRef::Pipe { ino })))
    }

    /// Whether somebody who was asked about loses time.
    fn loses(facts: Vec<Fact>) -> bool {
        let ends = explain([host(), facts].concat()).answer.ends;
        ends.iter().any(|end| end.seconds > 1.0)
    }

    /// Whether process 10 loses time: its first thread reads the pipe for results of worker 20, which waits for a word of several processes in these
    /// functions.
    fn is_held_by_its_worker(functions: &[(&str, &str)]) -> bool {
        let frame = |(function, module): &(&str, &str)| {
            let (function, module) = ((*function).into(), (*module).into());
            UserFrame { function, module, ..UserFrame::default() }
        };
        let frames = functions.iter().map(frame).collect();
        let stack = UserStack { thread: thread(20, "pool"), frames, ..UserStack::default() };
        let facts = vec![
            of_process(10, "pool"),
            identity(Thread { thread: thread(20, "pool"), parent_pid: 10, ..Thread::default() }),
            pipe_end(10, 3, 7, false),
            pipe_end(20, 3, 7, true),
            reads(10, 10, 7),
            stands(thread(20, "pool"), place("futex", [0x7000, 265, 0, 0, 0, 0], None)),
            Fact { at_ns: LOOK_NS, body: Body::UserStack(stack) },
        ];
        loses(facts)
    }

    #[test]
    fn a_worker_without_a_task_has_no_result_to_come() {
        let waits = ("sem_wait", "libc.so.6");
        let takes = ("SemLock.__enter__", "python3/synchronize.py");
        let pool = ("worker", "python3/pool.py");
        let free = [waits, takes, ("SimpleQueue.get", "python3/queues.py"), pool];
        assert!(!is_held_by_its_worker(&free));
        let of_executor =
            [waits, takes, ("get", "python3/queues.py"), ("_process_worker", "python3/process.py")];
        assert!(!is_held_by_its_worker(&of_executor), "as older releases name it");
        let task = [waits, takes, ("transfer", "bank.py"), pool];
        assert!(is_held_by_its_worker(&task), "a lock of its own");
        let native = [waits, ("_process_worker", "python3/process.py")];
        assert!(is_held_by_its_worker(&native), "it may be a task");
    }

    /// Whether process 10 loses time: a thread of it reads a pipe of its supervisor 20, which reads one into which another thread writes in the end, and
    /// does this before.
    fn is_held_by_its_sign_of_life(does: &str) -> bool {
        let pipe = |ino| ObjectRef::Pipe { ino };
        let end_ns = LOOK_NS - 1_000_000;
        let of = |tid: u32, pid: u32| ThreadRef { tid, ..thread(pid, "web") };
        let waits = |who: ThreadRef, syscall: &str, object, context, by| {
            let (state, syscall) = (WaitState::Sleep, syscall.into());
            let place = Place { state, syscall, object, ..Place::default() };
            let wake = Some(Wake { at_ns: end_ns, context, by, ..Wake::default() });
            let wait = Wait { thread: who, end_ns, place, wake, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        let (task, clock) = (WakeContext::Task, WakeContext::HardInterrupt);
        let facts = vec![
            of_process(10, "web"),
            pipe_end(10, 3, 7, false),
            pipe_end(20, 3, 7, true),
            pipe_end(20, 4, 8, false),
            pipe_end(10, 4, 8, true),
            waits(of(12, 10), does, None, clock, ThreadRef::default()),
            waits(of(20, 20), "read", Some(pipe(8)), task, of(12, 10)),
            waits(of(11, 10), "read", Some(pipe(7)), task, of(20, 20)),
        ];
        loses(facts)
    }

    #[test]
    fn who_shows_that_it_lives_to_its_supervisor_waits_for_nobody() {
        assert!(!is_held_by_its_sign_of_life("epoll_wait"));
        assert!(is_held_by_its_sign_of_life("clock_nanosleep"), "it sleeps before it writes");
    }

    /// Whether process 10 loses time: a thread of it reads a pipe of its worker 20, which stands at one that 10 has open for writing, whose first thread
    /// sleeps.
    fn is_held_by_its_own_sleep(looks: bool) -> bool {
        let mut facts = vec![
            of_process(10, "web"),
            pipe_end(10, 3, 7, false),
            pipe_end(20, 3, 7, true),
            pipe_end(20, 4, 8, false),
            pipe_end(10, 4, 8, true),
            stands(thread(10, "web"), place("clock_nanosleep", NO_ARGS, None)),
            reads(20, 20, 8),
        ];
        facts.extend(looks.then(|| reads(11, 10, 7)));
        loses(facts)
    }

    /// Whether process 10 loses time to process 20, from which it reads on a unix socket, and which reads on another from a process.
    fn is_held_by_who_reads_from(pid: u32) -> bool {
        let unix = |ino, peer_ino| ObjectRef::Unix { ino, peer_ino, path: None };
        let end = |pid: u32, fd: u32, object: ObjectRef| descriptor(pid, fd, "loop", object);
        let receives =
            |pid, object| stands(thread(pid, "loop"), place("recvfrom", NO_ARGS, Some(object)));
        let facts = vec![
            of_process(10, "loop"),
            end(10, 3, unix(100, 200)),
            end(20, 3, unix(200, 100)),
            end(20, 4, unix(300, 400)),
            end(pid, 5, unix(400, 300)),
            receives(10, unix(100, 200)),
            receives(20, unix(300, 400)),
        ];
        loses(facts)
    }

    #[test]
    fn who_is_read_from_by_whom_he_waits_for_waits_for_nobody() {
        assert!(!is_held_by_who_reads_from(10));
        assert!(is_held_by_who_reads_from(30), "another may be late");
    }

    #[test]
    fn who_waits_for_his_worker_does_not_wait_for_his_own_sleep() {
        assert!(!is_held_by_its_own_sleep(true));
        assert!(!is_held_by_its_own_sleep(false));
    }

    /// Whether process 10 loses time: this thread of it reads a pipe that its supervisor 20 has open, which reads one of worker 30, which does this.
    fn is_held_by_what_it_watches(tid: u32, does: &str) -> bool {
        let facts = vec![
            of_process(10, "web"),
            pipe_end(10, 3, 7, false),
            pipe_end(20, 3, 7, true),
            pipe_end(20, 4, 8, false),
            pipe_end(30, 4, 8, true),
            stands(thread(30, "web"), place(does, NO_ARGS, None)),
            reads(20, 20, 8),
            reads(tid, 10, 7),
        ];
        loses(facts)
    }

    #[test]
    fn a_thread_that_looks_whether_another_process_lives_waits_for_nobody() {
        assert!(!is_held_by_what_it_watches(11, "futex"));
        assert!(is_held_by_what_it_watches(11, "clock_nanosleep"), "it sleeps before it writes");
        assert!(is_held_by_what_it_watches(10, "futex"), "what the first thread reads is awaited");
    }

    /// Whether a chain from consumer 20 to its client 10, which sleeps, is for nobody; another thread of the client may read an answer.
    fn is_for_who_pushes(reads: bool, asks_another: bool) -> bool {
        let near = inet("tcp", 100, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let far = inet("tcp", 101, "127.0.0.1:80", "127.0.0.1:5000", 1);
        let beside = ThreadRef { tid: 11, ..thread(10, "pusher") };
        let at = match reads {
            true => place("recvfrom", NO_ARGS, Some(near.clone())),
            false => place("epoll_wait", NO_ARGS, None),
        };
        let mut facts = vec![
            endpoint(20, "consumer", inet("tcp", 1, "127.0.0.1:80", "0.0.0.0:0", 10)),
            spoken(10, "pusher", near, 4_000, true),
            spoken(20, "consumer", far, 4_000, false),
            stands(beside, at),
        ];
        let upstream = inet("tcp", 300, "127.0.0.1:6000", "127.0.0.1:81", 1);
        facts.extend(asks_another.then(|| spoken(20, "consumer", upstream, 4_000, true)));
        let Observed { model, timelines } = Observed::new([host(), facts].concat());
        let chains = Chains::new(&model, &timelines);
        let link = |who, class, object| Arc::new(ChainLink::of(who, class, object, (0, LOOK_NS)));
        let links = vec![
            link(thread(20, "consumer"), WaitClass::Idle, Object::Nothing),
            link(thread(10, "pusher"), WaitClass::Timer, Object::Timer("nanosleep".into())),
        ];
        is_owed(&chains, &Leaf { begin_ns: 0, end_ns: LOOK_NS, links, circle: None })
    }

    #[test]
    fn who_pushes_messages_to_a_consumer_does_not_wait_for_it() {
        assert!(is_for_who_pushes(false, false));
        assert!(!is_for_who_pushes(true, false), "it reads the answer");
        assert!(!is_for_who_pushes(false, true), "the consumer waits for an answer itself");
    }
}
