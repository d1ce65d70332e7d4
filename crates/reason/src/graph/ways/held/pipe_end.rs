//! The other end of a pipe: who reads what is written, or writes what is read.
//!
//! Nobody is next of a pipe that a daemon inherited from who began it, as the output of `x=$(server &)`: it rests, owes nothing there, and its
//! reader waits for the end of the pipe, which comes with the daemon's own. Must not: choose between the threads of that process
//! (serving.rs does).

use crate::facts::{Ns, ObjectRef, ThreadRef};
use crate::graph::channels::pipe_end;
use crate::graph::next::Next;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass;
use std::collections::BTreeSet;

/// The way.
pub(super) static WAY: Way = Way {
    name: "end of a pipe",
    because: "it has the other end of the pipe",
    of: &[WaitClass::PipeWrite, WaitClass::PipeRead],
    thresholds: &[],
    follow,
};

fn follow(at: &Waiter<'_>) -> Option<Next> {
    let is_for_a_reader = at.wait.class == WaitClass::PipeWrite;
    if is_left_open(at) {
        return Some(Next::Nobody);
    }
    pipe_end(at.index, at.wait, is_for_a_reader).map(Next::Thread)
}

/// Descriptors that a program has from who began it, and writes to of its own accord.
const OUTPUTS: [u32; 2] = [1, 2];

/// Whether all who have the writing end rest, have it as an output, and their own parents have ended: daemons. PID 1 is the parent of services
/// too: of those neither a FIFO that one opened itself is inherited, nor the pipe to a child that it began.
pub(in crate::graph) fn is_left_open(at: &Waiter<'_>) -> bool {
    let (index, wait) = (at.index, at.wait);
    let Some(ObjectRef::Pipe { ino }) = wait.place.object else { return false };
    if wait.class != WaitClass::PipeRead {
        return false;
    }
    let ends = index.connections.endpoints_on(ino).iter().filter(|end| end.writable);
    let writers: BTreeSet<u32> =
        ends.clone().map(|end| end.process.pid).filter(|pid| *pid != wait.thread.pid).collect();
    let by = wait.wake.as_ref().map_or(0, |wake| wake.by.pid);
    let is_output =
        |pid: u32| ends.clone().any(|end| end.process.pid == pid && OUTPUTS.contains(&end.fd));
    let is_daemon = |pid: &u32| {
        let families = &index.families;
        *pid != by
            && is_output(*pid)
            && families.has_lost_its_parent(*pid)
            && !families.descends(wait.thread.pid, *pid)
            && rests(at, *pid)
    };
    !writers.is_empty() && writers.iter().all(is_daemon)
}

/// Whether every thread of a process waits for events for most of a wait, and none of those events is an answer or the end of a child, after which it
/// may write.
fn rests(at: &Waiter<'_>, pid: u32) -> bool {
    let (index, from, to) = (at.index, at.wait.begin_ns, at.wait.end_ns);
    let is_idle = |thread: &ThreadRef| {
        let waits = index.waits.within(thread, from, to).iter();
        let idle = waits.filter(|wait| wait.class == WaitClass::Idle);
        let ns: Ns = idle.map(|wait| wait.within_ns(from, to)).sum();
        ns * 2 > to.saturating_sub(from)
    };
    let threads = index.families.threads_of(&[pid]);
    !threads.is_empty()
        && threads.iter().all(is_idle)
        && index.debts.asked_by(pid).next().is_none()
        && index.families.living_children(pid).is_empty()
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, child, led, of_ten, place, stands};
    use crate::rules::scenes::{LOOK_NS, descriptor, endpoint, thread};

    #[test]
    fn who_has_the_other_end_is_next_and_of_a_pipe_without_one_nobody() {
        let pipe = || ObjectRef::Pipe { ino: 7 };
        let writes = || stands(of_ten(10), place("write", NO_ARGS, Some(pipe())));
        let reader = endpoint(20, "less", pipe());
        assert_eq!(led(vec![writes(), reader]), ("end of a pipe", Some(20)));
        assert_eq!(led(vec![writes()]), ("", None));
    }

    /// Whom process 10 is led to that reads a pipe, which process 20 has as a descriptor, begun by somebody, and what else there is.
    fn leads(fd: u32, parent_pid: u32, call: &str, more: Vec<Fact>) -> Option<u32> {
        let pipe = || ObjectRef::Pipe { ino: 7 };
        let own = vec![
            stands(of_ten(10), place("read", NO_ARGS, Some(pipe()))),
            descriptor(20, fd, "job", pipe()),
            child(20, parent_pid),
            stands(thread(20, "job"), place(call, NO_ARGS, None)),
        ];
        led([own, more].concat()).1
    }

    #[test]
    fn a_daemon_that_rests_and_inherited_the_pipe_is_not_waited_for_but_its_end() {
        assert_eq!(leads(1, 1, "epoll_wait", vec![]), None, "begun by who has ended");
        assert_eq!(leads(1, 10, "epoll_wait", vec![]), Some(20), "its own child");
        assert_eq!(leads(1, 1, "clock_nanosleep", vec![]), Some(20), "it has more to write");
    }

    #[test]
    fn who_will_write_yet_or_opened_the_pipe_itself_or_began_its_reader_is_waited_for() {
        assert_eq!(leads(9, 1, "epoll_wait", vec![]), Some(20), "a service that opened a FIFO");
        assert_eq!(leads(1, 1, "epoll_wait", vec![child(10, 20)]), Some(20), "its own reader");
        assert_eq!(leads(1, 1, "epoll_wait", vec![child(21, 20)]), Some(20), "it has a child");
        let worker = ThreadRef { tid: 22, ..thread(20, "job") };
        let stuck = |call| vec![stands(worker.clone(), place(call, NO_ARGS, None))];
        assert_ne!(leads(1, 1, "epoll_wait", stuck("flock")), None, "its worker is stuck");
        assert_eq!(leads(1, 1, "epoll_wait", stuck("epoll_wait")), None, "all rest");
        let asks = ObjectRef::Inet(InetRef {
            ino: 8,
            protocol: "udp".into(),
            local: "127.0.0.1:40000".parse().expect("an address"),
            remote: "127.0.0.53:53".parse().expect("an address"),
            netns: 0,
            state: 0,
        });
        let asks = vec![descriptor(20, 5, "job", asks)];
        assert_eq!(leads(1, 1, "epoll_wait", asks), Some(20), "an answer is to come");
    }

    #[test]
    fn who_had_no_cpu_within_a_write_to_it_was_at_the_other_end() {
        let reads = || stands(of_ten(10), place("read", NO_ARGS, Some(ObjectRef::Pipe { ino: 7 })));
        let ready_in = |syscall: &str, ino: u64| {
            let object = Some(ObjectRef::Pipe { ino });
            let place = Place { state: WaitState::Runnable, ..place(syscall, NO_ARGS, object) };
            let (thread, end_ns) = (thread(20, "grep"), LOOK_NS / 2);
            let wait = Wait { thread, begin_ns: LOOK_NS / 4, end_ns, place, ..Wait::default() };
            Fact { at_ns: end_ns, body: Body::Wait(wait) }
        };
        assert_eq!(led(vec![reads(), ready_in("write", 7)]), ("end of a pipe", Some(20)));
        assert_eq!(led(vec![reads(), ready_in("read", 7)]), ("", None), "another reader");
        assert_eq!(led(vec![reads(), ready_in("write", 8)]), ("", None), "another pipe");
    }
}
