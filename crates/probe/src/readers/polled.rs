//! Which descriptors a standing wait is for that waits for several: of poll and select by the waiter's memory, of epoll by what
//! the kernel shows of the descriptor.
//!
//! Must not: choose one of them (reason does, by who asks), or read on the thread that looks (waiter_memory.rs). Edit together:
//! family/place.rs, which reads the same of a command's own family and chooses where but one can be meant.

use super::endpoints::LISTEN;
use super::waiter_memory::Question;
use holdup_reason::facts::{Blocked, Body, Endpoint, Fact, Ns, ObjectRef, WaitState};
use std::collections::HashSet;

/// Descriptors that are reported; a server of thousands waits for whatever comes.
const DESCRIPTORS_MAX: usize = 64;
/// Entries of a poll array that are read (crates/system/src/memory.rs); of a longer one nothing is reported.
const POLLED_MAX: u64 = 16;
/// Waits of a whole host whose descriptors are read: each takes some microseconds after the look.
const WAITS_MAX: usize = 512;

/// Ports that somebody listens at, each in its network namespace.
#[derive(Default)]
pub(super) struct Ports(HashSet<(u32, u16)>);

impl Ports {
    /// Of these sockets.
    pub(super) fn of<'e>(all: impl Iterator<Item = &'e Endpoint>) -> Self {
        let listens = |end: &Endpoint| match &end.object {
            ObjectRef::Inet(it) if it.state == LISTEN => Some((it.netns, it.local.port())),
            _ => None,
        };
        Self(all.filter_map(listens).collect())
    }

    /// Whether a socket is a connection that a listener took.
    fn took(&self, object: &ObjectRef) -> bool {
        matches!(object, ObjectRef::Inet(it) if it.state != LISTEN
            && it.remote.port() != 0
            && self.0.contains(&(it.netns, it.local.port())))
    }
}

/// What says which descriptors a wait is for; none if it is for nothing of the kind, or for what is known. Of one that is not recent
/// it is asked for a poll alone, which may be for one descriptor.
pub(super) fn question(blocked: &Blocked, is_recent: bool, ports: &Ports) -> Option<Question> {
    let [first, second, third, ..] = blocked.place.args;
    // Who polls what its client says next and something else waits for that as well.
    let is_beside_a_client = || {
        let is_poll = matches!(blocked.place.syscall.as_str(), "poll" | "ppoll");
        let object = blocked.place.object.as_ref();
        is_recent && is_poll && second > 1 && object.is_some_and(|object| ports.took(object))
    };
    if !may_be_for_others(blocked) && !is_beside_a_client() {
        return None;
    }
    let is_reported = is_recent && blocked.place.state == WaitState::Sleep;
    match blocked.place.syscall.as_str() {
        "poll" | "ppoll" => Some(Question::Poll { array: first, count: second }),
        "select" | "pselect6" if is_reported => {
            Some(Question::Select { sets: [second, third], count: first })
        }
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" if is_reported => {
            Some(Question::Epoll { fd: first })
        }
        _ => None,
    }
}

/// Whether a wait may be for other descriptors than the one that the kernel's programs chose: none was chosen, or a pipe, which a loop
/// has to wake itself.
fn may_be_for_others(blocked: &Blocked) -> bool {
    blocked.place.object.as_ref().is_none_or(|object| matches!(object, ObjectRef::Pipe { .. }))
}

/// The one descriptor of a poll, if it is for one.
pub(super) fn only(question: Question, all: &[u32]) -> Option<u32> {
    match (question, all) {
        (Question::Poll { .. }, [only]) => Some(*only),
        _ => None,
    }
}

/// Of the descriptors those that are reported of a wait: all, or none of too many.
pub(super) fn reported(question: Question, all: Vec<u32>, blocked: &Blocked) -> Vec<u32> {
    let is_whole = match question {
        Question::Poll { count, .. } => count <= POLLED_MAX,
        _ => all.len() <= DESCRIPTORS_MAX,
    };
    if is_whole && blocked.place.state == WaitState::Sleep { all } else { Vec::new() }
}

/// Of a host, the begin of the oldest wait whose descriptors are read: those that began last, WAITS_MAX of them.
pub(crate) fn oldest_begin_ns(waits: &[Fact]) -> Ns {
    let since = waits.iter().filter_map(|fact| match &fact.body {
        Body::Blocked(blocked) if may_be_for_several(blocked) => Some(blocked.since_ns),
        _ => None,
    });
    let mut since: Vec<Ns> = since.collect();
    let Some(beyond) = since.len().checked_sub(WAITS_MAX) else { return 0 };
    *since.select_nth_unstable(beyond).1
}

/// Whether a wait is for whichever of several descriptors comes first.
fn may_be_for_several(blocked: &Blocked) -> bool {
    !blocked.kernel && may_be_for_others(blocked) && blocked.place.is_for_several()
}

#[cfg(test)]
mod tests {
    use super::super::waiter_memory::Answer;
    use super::*;
    use crate::system::Roots;
    use holdup_reason::facts::{InetRef, Place, ThreadRef};

    fn of_own(syscall: &str, args: [u64; 6]) -> Vec<u32> {
        let own = std::process::id();
        let thread = ThreadRef { tid: own, pid: own, ..ThreadRef::default() };
        let place =
            Place { state: WaitState::Sleep, syscall: syscall.into(), args, ..Place::default() };
        let blocked = Blocked { thread, place, ..Blocked::default() };
        let Some(question) = question(&blocked, true, &Ports::default()) else { return Vec::new() };
        match question.answer(&Roots::default(), own) {
            Some(Answer::Descriptors(all, _)) => reported(question, all, &blocked),
            _ => Vec::new(),
        }
    }

    #[test]
    fn of_a_host_the_waits_that_began_last_are_read() {
        let waits = |count: u64| -> Vec<Fact> {
            let of = |since_ns| {
                let place = Place { syscall: "epoll_wait".into(), ..Place::default() };
                Fact {
                    at_ns: 1,
                    body: Body::Blocked(Blocked { since_ns, place, ..Blocked::default() }),
                }
            };
            (1..=count).map(of).collect()
        };
        assert_eq!(oldest_begin_ns(&waits(12)), 0);
        assert_eq!(oldest_begin_ns(&waits(WAITS_MAX as u64 + 100)), 101);
    }

    #[test]
    fn poll_select_and_epoll_tell_what_they_wait_for() {
        let polled = [3u32, 1, 7, 1];
        assert_eq!(of_own("poll", [polled.as_ptr() as u64, 2, 0, 0, 0, 0]), [3, 7]);
        let set = [0b1010_0000u64; 1];
        assert_eq!(of_own("select", [8, set.as_ptr() as u64, 0, 0, 0, 0]), [5, 7]);
        assert_eq!(of_own("epoll_wait", [9_999, 0, 0, 0, 0, 0]), Vec::<u32>::new());
        assert_eq!(of_own("read", [3, 0, 0, 0, 0, 0]), Vec::<u32>::new());
    }

    #[test]
    fn beside_the_connection_of_a_client_the_other_descriptors_are_asked_for() {
        let socket = |local: &str, remote: &str, state| {
            let (local, remote) = (local.parse().expect("it"), remote.parse().expect("it"));
            let protocol = "tcp".into();
            ObjectRef::Inet(InetRef { ino: 7, netns: 1, protocol, local, remote, state })
        };
        let listens = Endpoint {
            process: ThreadRef::default(),
            fd: 3,
            readable: true,
            writable: true,
            nonblocking: true,
            object: socket("0.0.0.0:22", "0.0.0.0:0", LISTEN),
            unread: None,
            output_stopped: false,
            socket: None,
        };
        let ports = Ports::of([&listens].into_iter());
        let asks = |count: u64, object: ObjectRef| {
            let state = WaitState::Sleep;
            let (args, object) = ([4096, count, 0, 0, 0, 0], Some(object));
            let place = Place { state, syscall: "ppoll".into(), args, object, ..Place::default() };
            question(&Blocked { place, ..Blocked::default() }, true, &ports).is_some()
        };
        assert!(asks(4, socket("10.0.0.1:22", "10.0.0.2:4000", 1)), "sshd");
        assert!(!asks(1, socket("10.0.0.1:22", "10.0.0.2:4000", 1)), "for that alone");
        assert!(!asks(4, socket("10.0.0.1:4000", "10.0.0.2:22", 1)), "a client");
        assert!(!asks(4, socket("0.0.0.0:22", "0.0.0.0:0", LISTEN)), "a listener");
    }
}
