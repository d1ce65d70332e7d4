//! Which thread of a process takes what comes next, where nothing says which of them has a question in hand: a loop that waits for events.
//!
//! Must not: say who is held up (serving.rs).

use super::index::Index;
use crate::facts::ThreadRef;
use crate::waits::WaitClass;

/// The first of some threads that waits for events: what comes, it takes and hands on. Of several one that is seen to poll sockets.
pub(super) fn hands_on(index: &Index<'_>, threads: &[ThreadRef]) -> Option<ThreadRef> {
    let rest = |thread: &ThreadRef| {
        let last = index.waits.of(thread).last();
        last.filter(|wait| wait.class == WaitClass::Idle)
    };
    let polls = |thread: &&ThreadRef| {
        let polled = rest(thread).map_or(&[][..], |wait| wait.place.polled.as_slice());
        let ends = index.connections.of_process(thread.pid, polled);
        ends.iter().any(|end| end.object.socket_ino().is_some())
    };
    let waits = || threads.iter().find(|thread| rest(thread).is_some());
    threads.iter().find(polls).or_else(waits).cloned()
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{descriptor, endpoint, thread};

    /// Whom 10 is led to that waits for an answer of 20: its loop 21 waits for events, 22 does this, and 20 has these.
    fn leads_to(does: (&str, Option<ObjectRef>), has: Vec<Fact>) -> Option<u32> {
        let of_server = |tid: u32| ThreadRef { tid, ..thread(20, "server") };
        let near = inet("tcp", 5, "127.0.0.1:5000", "127.0.0.1:80", 1);
        let mut asks = stands(of_ten(10), place("recvfrom", NO_ARGS, Some(near.clone())));
        if let Body::Blocked(asks) = &mut asks.body {
            asks.since_ns = 1_000_000_000;
        }
        let facts = vec![
            descriptor(10, 3, "app", near.clone()),
            descriptor(20, 4, "server", inet("tcp", 7, "0.0.0.0:80", "0.0.0.0:0", 10)),
            descriptor(20, 5, "server", inet("tcp", 6, "127.0.0.1:80", "127.0.0.1:5000", 1)),
            stands(of_server(20), place("futex", [0x7000, 265, 21, 0, 0, 0], None)),
            stands(of_server(21), place("epoll_wait", [3, 0, 0, 1_000, 0, 0], None)),
            stands(of_server(22), place(does.0, NO_ARGS, does.1)),
            asks,
        ];
        led([facts, has].concat()).1
    }

    #[test]
    fn who_reads_a_pipe_of_its_own_process_is_not_held_up() {
        let pipe = || ObjectRef::Pipe { ino: 9 };
        let end = |pid: u32, writes: bool| {
            let mut fact = endpoint(pid, "server", pipe());
            if let Body::Endpoint(end) = &mut fact.body {
                (end.fd, end.readable, end.writable) = (8 + u32::from(writes), !writes, writes);
            }
            fact
        };
        let reads = || ("read", Some(pipe()));
        assert_eq!(leads_to(reads(), vec![end(20, false), end(20, true)]), Some(20));
        assert_eq!(leads_to(reads(), vec![end(20, false), end(30, true)]), Some(22), "another's");
    }
}
