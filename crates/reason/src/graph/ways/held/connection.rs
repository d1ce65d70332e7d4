//! The other end of a connection: who has it open, had it, or is to accept it.
//!
//! Must not: choose between the threads of that process (serving.rs does).

use crate::graph::channels::socket_peer;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::waits::WaitClass::{SocketRead, SocketWrite, UnixRead, UnixWrite};

/// The way.
pub(super) static WAY: Way = Way {
    name: "end of a connection",
    because: "it has the other end of the connection",
    of: &[UnixRead, UnixWrite, SocketRead, SocketWrite],
    thresholds: &[],
    follow: |at| socket_peer(at.index, at.wait).map(Next::Thread),
};

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, ended, led, of_ten, place, stands};
    use crate::rules::scenes::{endpoint, identity, thread};

    #[test]
    fn who_has_the_other_end_is_next_and_the_process_itself_is_not() {
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let far = || ObjectRef::Unix { ino: 200, peer_ino: 100, path: None };
        let reads = || stands(of_ten(10), place("recvfrom", NO_ARGS, Some(near.clone())));
        let server = endpoint(20, "server", far());
        assert_eq!(led(vec![reads(), server]), ("end of a connection", Some(20)));
        let own = endpoint(10, "app", far());
        assert_ne!(led(vec![reads(), own]).0, "end of a connection");
    }

    #[test]
    fn a_service_that_asks_itself_is_answered_by_another_of_its_threads() {
        let object = |ino, local: &str, remote: &str| {
            let at = |text: &str| text.parse().expect("an address");
            let (local, remote, protocol) = (at(local), at(remote), "tcp".into());
            ObjectRef::Inet(InetRef { ino, netns: 1, protocol, local, remote, state: 1 })
        };
        let near = object(100, "127.0.0.1:6000", "127.0.0.1:80");
        let far = endpoint(10, "app", object(200, "127.0.0.1:80", "127.0.0.1:6000"));
        let place = || place("recvfrom", NO_ARGS, Some(near.clone()));
        let by = |tid| ended(of_ten(10), place(), of_ten(tid), WakeContext::SoftInterrupt);
        assert_eq!(led(vec![by(11), far.clone()]), ("end of a connection", Some(11)));
        assert_ne!(led(vec![by(10), far]).0, "end of a connection", "a packet that came late");
    }

    #[test]
    fn who_is_to_accept_is_the_worker_and_not_its_master_who_rests() {
        let near = ObjectRef::Unix { ino: 100, peer_ino: 200, path: None };
        let listens = || ObjectRef::Unix { ino: 200, peer_ino: 0, path: Some("/run/s".into()) };
        let worker =
            identity(Thread { thread: thread(21, "worker"), parent_pid: 20, ..Thread::default() });
        let facts = vec![
            stands(of_ten(10), place("recvfrom", NO_ARGS, Some(near))),
            endpoint(20, "master", listens()),
            endpoint(21, "worker", listens()),
            worker,
            stands(thread(20, "master"), place("epoll_wait", NO_ARGS, None)),
        ];
        assert_eq!(led(facts), ("end of a connection", Some(21)));
    }
}
