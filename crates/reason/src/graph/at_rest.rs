//! Whether a server of this host rests, as far as its threads and its descriptors tell: what it was asked on a connection without clocks (a unix
//! socket has none) it has answered.
//!
//! It stands in a wait for events since before a time, or without a limit of time, and nobody is there for whom it may wait itself: it has made no
//! connection, has no child, and gets nothing from another process but the orders of its parent; the pipe by which children see that their parent lives
//! brings nobody anything. Who has not even taken what was sent to it is known here as well. Must not: take who is stopped, sleeps
//! or waits for a word for one that rests, or believe a timer that may be what a question waits for.

use super::index::Index;
use super::wakers::{is_by_clock, timeout_ns};
use crate::facts::{Endpoint, Ns, ObjectRef, ThreadRef};
use crate::graph::conversation::WAITS_LOOKED_AT;
use crate::threshold::Threshold;
use crate::waits::WaitClass;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;
use std::collections::{BTreeSet, HashSet};

/// A loop that was up so often since it said its last word has no more to say.
pub(super) static RESTS_MIN: Threshold = Threshold::new(
    3.0,
    "1",
    "rests of an event loop that have ended since its last word: one that owes more may wait for a timer of its own once or twice",
    "chosen, as for subscriptions",
);

/// Who stood still so long before a word had no part in it.
pub(super) static STOOD_MIN: Threshold = Threshold::new(
    100.0,
    "ms",
    "from the begin of a wait to a word of the same process: the clock of a connection shows its age in ticks, and who sleeps on after a part of an answer \
     begins to just then",
    "chosen: ten ticks of the slowest clock that kernels are built with",
);

/// Whether a process rests since a time and has nobody to ask.
pub(super) fn rests_with_nobody_to_ask(index: &Index<'_>, pid: u32, since_ns: Ns) -> bool {
    rests(index, pid, since_ns)
        && index.families.living_children(pid).is_empty()
        && index.connections.all_of(pid).all(|end| asks_nobody(index, end))
}

/// Whether all threads of a process rest since a time, whomever it may have asked.
pub(super) fn rests(index: &Index<'_>, pid: u32, since_ns: Ns) -> bool {
    let threads = index.families.threads_of(&[pid]);
    let rests = |thread: &ThreadRef| {
        let last = index.waits.of(thread).last();
        last.is_some_and(|it| it.class == WaitClass::Idle)
            && has_rested_since(index, thread, since_ns)
    };
    !threads.is_empty() && threads.iter().all(rests)
}

/// Whether the clock ended a wait, and all at the other end of a connection without clocks rest since it began: it was for a time of the waiter's own.
pub(super) fn was_for_a_time(index: &Index<'_>, wait: &WaitSpan, far: &[ThreadRef]) -> bool {
    let all_rest = |far: &ThreadRef| rests(index, far.pid, wait.begin_ns);
    !wait.standing && is_by_clock(wait) && far.iter().all(all_rest)
}

/// Whether over a descriptor no answer of another process can come. What comes from its parent are orders, and a pipe that several others may write
/// to is a box for their messages.
fn asks_nobody(index: &Index<'_>, end: &Endpoint) -> bool {
    let pid = end.process.pid;
    let parent = index.families.parent_of(pid);
    let others = |ino: u64, writes: bool| {
        let all = index.connections.endpoints_on(ino).iter();
        let all = all.filter(|it| it.process.pid != pid && (it.writable || !writes));
        all.map(|it| it.process.pid).collect::<BTreeSet<u32>>()
    };
    let are_parent = |all: &BTreeSet<u32>| all.iter().all(|pid| Some(*pid) == parent);
    match &end.object {
        ObjectRef::Inet(socket) => {
            socket.state == TCP_LISTEN || index.connections.is_accepted(socket)
        }
        ObjectRef::Unix { ino, peer_ino, .. } => {
            index.model.called.unix_path(*ino).is_some() || are_parent(&others(*peer_ino, false))
        }
        ObjectRef::Pipe { ino } if end.readable => {
            let writers = others(*ino, true);
            writers.len() > 1 || are_parent(&writers)
        }
        _ => true,
    }
}

/// Who has not taken all that a waiter has sent over unix sockets that it polls.
pub(super) fn with_unread(index: &Index<'_>, wait: &WaitSpan) -> HashSet<u32> {
    let polled = index.connections.of_process(wait.thread.pid, &wait.place.polled);
    polled.iter().flat_map(|end| unread_beyond(index, &end.object)).collect()
}

/// Who has the other end of a unix socket, if something stands unread there.
fn unread_beyond(index: &Index<'_>, object: &ObjectRef) -> Vec<u32> {
    let ObjectRef::Unix { peer_ino, .. } = object else { return Vec::new() };
    let far = index.connections.endpoints_on(*peer_ino).iter();
    let is_it = |it: &&&Endpoint| it.object_ino() == *peer_ino && it.unread.is_some_and(|n| n > 0);
    far.filter(is_it).map(|it| it.process.pid).collect()
}

/// Whether a thread has stood since before a time, or waits for events: without a limit of time, or up again and again since then for no more than that.
pub(super) fn has_rested_since(index: &Index<'_>, thread: &ThreadRef, since_ns: Ns) -> bool {
    let all = index.waits.of(thread);
    let Some(last) = all.last().filter(|last| last.standing) else { return false };
    // Of thousands the last ones say as much: it has been up so often since then.
    let after = || all.iter().rev().take(WAITS_LOOKED_AT).take_while(|it| it.begin_ns > since_ns);
    let is_rest = |it: &WaitSpan| it.class == WaitClass::Idle;
    let is_at_work = |it: &WaitSpan| !is_rest(it) && it.class != WaitClass::RunQueue;
    let rests = || after().filter(|it| is_rest(it)).count();
    let has_looked_again = || !after().any(is_at_work) && rests() > RESTS_MIN.count();
    last.begin_ns.saturating_add(STOOD_MIN.ns()) <= since_ns
        || is_rest(last) && (timeout_ns(&last.place).is_none() || has_looked_again())
}

/// Whether a pipe says to children no more than that their parent lives: it alone has the end that writes, and several of them the one that reads, so
/// that no answer to one of them can come over it.
pub(super) fn is_sign_of_life(
    index: &Index<'_>,
    pid: u32,
    ends: &[&Endpoint],
    writers: &[ThreadRef],
) -> bool {
    let Some(parent) = index.families.parent_of(pid) else { return false };
    let is_sibling = |end: &&&Endpoint| {
        let other = end.process.pid;
        other != pid && end.readable && index.families.parent_of(other) == Some(parent)
    };
    !writers.is_empty()
        && writers.iter().all(|writer| writer.pid == parent)
        && ends.iter().any(|end| is_sibling(&end))
}

/// Whether a process has nobody to wait for: it has connected to nobody, has no child, and polls nothing that another process writes to. A loop that
/// waits for the rest of what it asked itself stands as one that waits for its next question.
pub(super) fn has_nobody_to_ask(index: &Index<'_>, pid: u32) -> bool {
    let connections = &index.connections;
    let is_of_other = |end: &&Endpoint| end.process.pid != pid;
    let brings = |end: &&Endpoint| match &end.object {
        ObjectRef::Pipe { ino } => {
            let mut all = connections.endpoints_on(*ino).iter().copied();
            end.readable && all.any(|it| it.writable && is_of_other(&it))
        }
        ObjectRef::Unix { ino, peer_ino, .. } => {
            let mut all = connections.endpoints_on(*peer_ino).iter().copied();
            index.model.called.unix_path(*ino).is_none() && all.any(|it| is_of_other(&it))
        }
        _ => false,
    };
    let threads = || index.families.threads_of(&[pid]);
    let polls_another = |thread: &ThreadRef| {
        let last = index.waits.of(thread).last();
        let polled = last.map_or(&[][..], |it| it.place.polled.as_slice());
        connections.of_process(pid, polled).iter().any(brings)
    };
    index.debts.has_asked_nobody(pid)
        && connections.served_by_path(pid).is_empty()
        && index.families.living_children(pid).is_empty()
        && !threads().iter().any(polls_another)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::*;
    use crate::waits::timeline::Observed;

    /// Whether a database has rested since 200 ms, that stands in a call since then.
    fn rested(syscall: &str, timeout_ms: u64, since_ms: u64) -> bool {
        let args = [3, 0, 64, timeout_ms, 0, 0];
        let (state, syscall) = (WaitState::Sleep, syscall.into());
        let mut stands =
            at_place(30, "database", Place { state, syscall, args, ..Place::default() });
        if let Body::Blocked(stands) = &mut stands.body {
            stands.since_ns = since_ms * 1_000_000;
        }
        let Observed { model, timelines } = Observed::new([host(), vec![stands]].concat());
        let index = Index::new(&model, &timelines);
        has_rested_since(&index, &thread(30, "database"), 200_000_000)
    }

    #[test]
    fn who_waits_for_a_time_or_sleeps_after_a_word_may_have_more_to_say() {
        assert!(rested("epoll_wait", u64::from(u32::MAX), 300));
        assert!(!rested("epoll_wait", 9_000, 300), "it may be a timer of its own");
        assert!(!rested("clock_nanosleep", 0, 300));
        assert!(!rested("clock_nanosleep", 0, 190), "the word is dated by ticks");
        assert!(rested("clock_nanosleep", 0, 50), "it has slept since before");
    }

    #[test]
    fn nothing_is_owed_by_a_connection_to_itself() {
        let tcp = |ino, local, remote| inet("tcp", ino, local, remote, 1);
        let place = Place {
            state: WaitState::Sleep,
            syscall: "epoll_wait".into(),
            args: [3, 0, 64, 5_000, 0, 0],
            polled: vec![5, 6],
            ..Place::default()
        };
        let facts = || {
            vec![
                of_process(10, "client"),
                descriptor(10, 4, "client", tcp(100, "127.0.0.1:40000", "127.0.0.1:40001")),
                descriptor(10, 5, "client", tcp(101, "127.0.0.1:40001", "127.0.0.1:40000")),
                descriptor(10, 6, "client", tcp(102, "127.0.0.1:40002", "127.0.0.1:5672")),
                at_place(10, "client", place.clone()),
            ]
        };
        let others = |more: Vec<Fact>| {
            let Observed { model, timelines } = Observed::new([host(), facts(), more].concat());
            let index = Index::new(&model, &timelines);
            let ends = index.connections.of_process(10, &[4, 5, 6]);
            ends.iter().map(|it| it.fd).collect::<Vec<u32>>()
        };
        assert_eq!(others(vec![]), [6]);
        let listens = endpoint(10, "client", inet("tcp", 103, "127.0.0.1:40001", "0.0.0.0:0", 10));
        assert_eq!(others(vec![listens]), [4, 5, 6], "a service of its own");
    }

    fn unix(ino: u64, path: Option<&str>) -> ObjectRef {
        ObjectRef::Unix { ino, peer_ino: ino ^ 1, path: path.map(Into::into) }
    }

    fn pipe(pid: u32, ino: u64, writable: bool) -> Fact {
        let mut end = descriptor(pid, 8, "job", ObjectRef::Pipe { ino });
        if let Body::Endpoint(end) = &mut end.body {
            (end.readable, end.writable) = (!writable, writable);
        }
        end
    }

    /// Whether 10 is said to wait for auth 40, which is stopped. It waits for login 20, which polls its connections to counter 30, which stands in
    /// that call, and to auth.
    fn login(counter: &str, more: Vec<Fact>) -> bool {
        let place = |syscall: &str, object, polled: &[u32]| Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            object,
            polled: polled.to_vec(),
            args: [3, 0, 64, u64::from(u32::MAX), 0, 0],
            ..Place::default()
        };
        let own = Thread { thread: thread(30, "counter"), parent_pid: 15, ..Thread::default() };
        let facts = vec![
            of_process(10, "client"),
            identity(own),
            descriptor(10, 3, "client", unix(100, None)),
            descriptor(20, 3, "login", unix(101, Some("/run/login"))),
            descriptor(20, 4, "login", unix(200, None)),
            descriptor(30, 4, "counter", unix(201, Some("/run/counter"))),
            descriptor(20, 5, "login", unix(300, None)),
            descriptor(40, 5, "auth", unix(301, Some("/run/auth"))),
            at_place(10, "client", place("read", Some(unix(100, None)), &[])),
            at_place(20, "login", place("epoll_wait", None, &[3, 4, 5])),
            at_place(30, "counter", place(counter, None, &[])),
            blocked(40, "auth", WaitState::Stopped, ""),
        ];
        let answer = crate::answer::explain([host(), facts, more].concat()).answer;
        answer.title.contains("waits for auth 40, which is stopped")
    }

    #[test]
    fn of_several_who_were_asked_who_rests_and_asks_nobody_owes_nothing() {
        assert!(login("epoll_wait", Vec::new()));
        assert!(!login("clock_nanosleep", Vec::new()), "it may be that one");
    }

    /// The counter is connected to somebody itself.
    fn asks() -> Vec<Fact> {
        vec![
            descriptor(30, 9, "counter", unix(400, None)),
            descriptor(50, 9, "store", unix(401, Some("/run/store"))),
        ]
    }

    #[test]
    fn who_may_wait_for_another_himself_is_not_left_out() {
        assert!(!login("epoll_wait", asks()));
        let feeds = |by: &[u32]| {
            let writers = by.iter().map(|by| pipe(*by, 77, true));
            [vec![pipe(30, 77, false)], writers.collect()].concat()
        };
        assert!(!login("epoll_wait", feeds(&[50])));
        assert!(login("epoll_wait", feeds(&[15])), "orders of its parent");
        assert!(login("epoll_wait", feeds(&[50, 51])), "a box for messages");
    }

    #[test]
    fn who_has_not_taken_what_was_sent_is_waited_for_where_the_others_rest() {
        let unread = |bytes: u64| {
            let mut end = descriptor(40, 5, "auth", unix(301, Some("/run/auth")));
            if let Body::Endpoint(end) = &mut end.body {
                end.unread = Some(bytes);
            }
            [asks(), vec![end]].concat()
        };
        assert!(login("epoll_wait", unread(80)));
        assert!(!login("epoll_wait", unread(0)));
        assert!(!login("clock_nanosleep", unread(80)), "it may be that one");
    }

    #[test]
    fn a_master_that_rests_holds_no_worker_up() {
        use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
        let led_while = |does: &str, master: &str| {
            let pair = |ino: u64| ObjectRef::Unix { ino, peer_ino: ino ^ 1, path: None };
            let polls = Place { polled: vec![4], ..place("epoll_wait", NO_ARGS, None) };
            let known = Thread { thread: of_ten(10), parent_pid: 15, ..Thread::default() };
            let facts = vec![
                stands(of_ten(10), polls),
                identity(known),
                descriptor(10, 4, "app", pair(100)),
                descriptor(15, 4, master, pair(101)),
                blocked(15, master, WaitState::Sleep, does),
            ];
            led(facts).1
        };
        assert_eq!(led_while("rt_sigsuspend", "app"), None);
        assert_eq!(led_while("clock_nanosleep", "app"), Some(15), "it may be to answer");
        assert_eq!(led_while("rt_sigsuspend", "manager"), Some(15), "another program may be asked");
    }

    #[test]
    fn a_time_of_its_own_is_over_whoever_rests_at_the_other_end() {
        use crate::graph::ways::scenes::{ended, led, of_ten, place};
        let led_while = |does: &str| {
            let pair = |ino: u64| ObjectRef::Unix { ino, peer_ino: ino ^ 1, path: None };
            let polls =
                Place { polled: vec![4], ..place("epoll_wait", [3, 0, 64, 4000, 0, 0], None) };
            let clock = WakeContext::HardInterrupt;
            let without_limit = [3, 0, 64, u64::from(u32::MAX), 0, 0];
            let facts = vec![
                ended(of_ten(10), polls, ThreadRef::default(), clock),
                descriptor(10, 4, "app", pair(100)),
                descriptor(30, 4, "db", pair(101)),
                at_place(30, "db", place(does, without_limit, None)),
            ];
            led(facts).1
        };
        assert_eq!(led_while("epoll_wait"), None);
        assert_eq!(led_while("clock_nanosleep"), Some(30), "it may be to answer");
    }

    #[test]
    fn who_reads_on_over_a_unix_socket_has_answered_there() {
        use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
        let led_with = |unread: u64| {
            let pair = |ino: u64| ObjectRef::Unix { ino, peer_ino: ino ^ 1, path: None };
            let polls = Place { polled: vec![4, 5], ..place("epoll_wait", NO_ARGS, None) };
            let mut reads = descriptor(30, 4, "db", pair(101));
            if let Body::Endpoint(end) = &mut reads.body {
                end.unread = Some(unread);
            }
            let facts = vec![
                stands(of_ten(10), polls),
                descriptor(10, 4, "app", pair(100)),
                reads,
                stands(thread(30, "db"), place("recvfrom", NO_ARGS, Some(pair(101)))),
                descriptor(10, 5, "app", pair(200)),
                descriptor(40, 5, "job", pair(201)),
                blocked(40, "job", WaitState::Sleep, "clock_nanosleep"),
            ];
            led(facts).1
        };
        assert_eq!(led_with(0), Some(40));
        assert_ne!(led_with(9), Some(40), "it was asked, and has not read that");
    }
}
