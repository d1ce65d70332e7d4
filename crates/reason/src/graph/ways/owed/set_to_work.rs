//! An event loop that has stood since the last question came, and the one server of it, connected by a named socket, that was last at work
//! just then: it was asked for the answer.
//!
//! Unix sockets have no clocks, and a look that begins later sees nobody being woken. But waits have their begin: the loop rests since it
//! passed the question on, and whoever it asked did nothing after it took it in. A server that serves another of these may have been asked by that
//! one, which is nearer. Only descriptors that the loop waits for count: whoever gets its logs is woken just then as well.
//!
//! Must not: choose among several, or be asked of a loop that does something now and then (its own timer hides what it did). Edit together:
//! graph/relayed.rs, which has the same for what happens within the look.

use crate::facts::{Ns, ObjectRef, ThreadRef};
use crate::graph::debts::CLOCKS_APART;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::relayed::RELAYED_WITHIN;
use crate::graph::serving::serving_since;
use crate::graph::ways::way::{Waiter, Way};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "set to work",
    because: "of those that it asks by named sockets, it alone was last at work as the question came",
    of: &[WaitClass::Idle],
    thresholds: &[&CLOCKS_APART, &RELAYED_WITHIN],
    follow: |at| set_to_work(at).map(Next::Thread),
};

fn set_to_work(at: &Waiter<'_>) -> Option<ThreadRef> {
    let (index, wait) = (at.index, at.wait);
    let end_ns = index.model.look.end_ns;
    let owed = index.debts.owes.get(&wait.thread.pid).filter(|_| wait.standing)?;
    let owed = owed.iter().filter(|debt| debt.since_known && debt.seen_ns >= end_ns);
    let came_ns = owed.map(|debt| debt.since_ns).max()?;
    let (from, to) =
        (came_ns.saturating_sub(CLOCKS_APART.ns()), came_ns.saturating_add(RELAYED_WITHIN.ns()));
    let rests_since = |pid: u32| {
        let threads = index.families.threads_of(&[pid]);
        let stands = threads.iter().filter_map(|thread| index.waits.of(thread).last());
        stands.filter(|it| it.standing).map(|it| it.begin_ns).max()
    };
    if !(from..=to).contains(&rests_since(wait.thread.pid)?) {
        return None;
    }
    let servers = servers(index, wait);
    let mut asked = Vec::new();
    for server in servers {
        // Of whom it is not known he may have been asked.
        let since_ns: Ns = rests_since(server.pid)?;
        if (from..=to).contains(&since_ns) {
            asked.push(server);
        }
    }
    let pids: Vec<u32> = asked.iter().map(|server| server.pid).collect();
    asked.retain(|server| {
        let by_another = |pid: &u32| {
            let theirs = index.connections.served_by_path(*pid);
            *pid != server.pid && theirs.iter().any(|it| it.pid == server.pid)
        };
        !pids.iter().any(by_another)
    });
    let only = asked.pop().filter(|_| asked.is_empty())?;
    serving_since(index, &[only.pid], came_ns, end_ns)
}

/// Who is at the other ends of named sockets that a wait is for; of a socket that a server's children have as well, the server.
fn servers(index: &Index<'_>, wait: &WaitSpan) -> Vec<ThreadRef> {
    let is_named = |ino: u64| index.model.called.unix_path(ino).is_some();
    let polled = index.connections.of_process(wait.thread.pid, &wait.place.polled);
    let far_of = |object: &ObjectRef| match object {
        ObjectRef::Unix { ino, peer_ino, .. } => {
            (is_named(*peer_ino) && !is_named(*ino)).then_some((*ino, *peer_ino))
        }
        _ => None,
    };
    let mut all: Vec<ThreadRef> = Vec::new();
    for (own, far) in polled.iter().filter_map(|end| far_of(&end.object)) {
        // A datagram socket has no one at its other end.
        let is_connected =
            |it: &ObjectRef| matches!(it, ObjectRef::Unix { peer_ino, .. } if *peer_ino == own);
        let ends = index.connections.endpoints_on(far).iter();
        let ends: Vec<&ThreadRef> =
            ends.filter(|end| is_connected(&end.object)).map(|end| &end.process).collect();
        let is_child = |of: &ThreadRef| {
            ends.iter().any(|it| it.pid != of.pid && index.families.descends(of.pid, it.pid))
        };
        all.extend(ends.iter().filter(|it| !is_child(it)).map(|it| (*it).clone()));
    }
    all.retain(|server| server.pid != wait.thread.pid);
    all.sort_by_key(|server| server.pid);
    all.dedup_by_key(|server| server.pid);
    all
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{child, led, of_ten};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{LOOK_NS, descriptor, thread};

    const MS: Ns = 1_000_000;
    /// When the question came.
    const CAME_NS: Ns = LOOK_NS - 2_000 * MS;

    fn stands(thread: ThreadRef, since_ns: Ns, polled: &[u32]) -> Fact {
        let place = Place {
            state: WaitState::Sleep,
            syscall: "epoll_wait".into(),
            polled: polled.to_vec(),
            ..Place::default()
        };
        let blocked = Blocked { thread, place, since_ns, ..Blocked::default() };
        Fact { at_ns: LOOK_NS, body: Body::Blocked(blocked) }
    }

    /// Process 10 has accepted a connection on which a question came two seconds before the end.
    fn asked() -> Vec<Fact> {
        let accepted = inet("tcp", 5, "127.0.0.1:143", "127.0.0.1:5000", 1);
        let mut own = Fact { at_ns: LOOK_NS, ..descriptor(10, 3, "app", accepted) };
        if let Body::Endpoint(end) = &mut own.body {
            let turn = TcpTurn {
                sent_jiffies: 900,
                received_jiffies: 500,
                heard_jiffies: 500,
                jiffy_ns: 4_000_000,
                ..TcpTurn::default()
            };
            end.socket = Some(SocketState {
                acked_bytes: 80,
                received_bytes: 80,
                turn: Some(turn),
                ..SocketState::default()
            });
        }
        let listens = inet("tcp", 6, "127.0.0.1:143", "0.0.0.0:0", 10);
        vec![own, descriptor(10, 4, "app", listens), stands(of_ten(10), CAME_NS + MS, &[14, 15])]
    }

    /// It is connected by a descriptor to the named socket of a server, which stands since a time.
    fn server(pid: u32, fd: u32, since_ns: Ns) -> Vec<Fact> {
        let (near, far) = (u64::from(100 * fd), u64::from(100 * fd + 1));
        let path = Some(format!("/run/{pid}"));
        vec![
            descriptor(10, fd, "app", ObjectRef::Unix { ino: near, peer_ino: far, path: None }),
            descriptor(pid, 9, "auth", ObjectRef::Unix { ino: far, peer_ino: near, path }),
            stands(thread(pid, "auth"), since_ns, &[]),
        ]
    }

    fn to(more: Vec<Vec<Fact>>) -> (&'static str, Option<u32>) {
        led([asked(), more.concat()].concat())
    }

    #[test]
    fn the_server_that_was_last_at_work_as_the_question_came_was_asked() {
        let auth = || server(20, 14, CAME_NS + 2 * MS);
        assert_eq!(to(vec![auth()]), ("set to work", Some(20)));
        assert_eq!(to(vec![auth(), server(30, 15, MS)]), ("set to work", Some(20)));
        let on = ObjectRef::Unix { ino: 1401, peer_ino: 1400, path: Some("/run/20".into()) };
        let inherits = vec![child(21, 20), descriptor(21, 9, "sh", on)];
        let inherits = [inherits, vec![stands(thread(21, "sh"), CAME_NS + 3 * MS, &[])]].concat();
        assert_eq!(
            to(vec![auth(), inherits]),
            ("set to work", Some(20)),
            "its child has it as well"
        );
        let path = Some("/run/30".into());
        let serves_it = vec![
            descriptor(20, 7, "auth", ObjectRef::Unix { ino: 70, peer_ino: 71, path: None }),
            descriptor(30, 8, "anvil", ObjectRef::Unix { ino: 71, peer_ino: 70, path }),
        ];
        let both = || vec![auth(), server(30, 15, CAME_NS + 3 * MS)];
        assert_eq!(to([both(), vec![serves_it]].concat()), ("set to work", Some(20)));
        assert_ne!(to(both()).0, "set to work", "either may have been asked");
    }

    #[test]
    fn a_server_that_rested_before_or_worked_since_was_not_known_to_be_asked() {
        assert_ne!(to(vec![server(20, 14, CAME_NS - 500 * MS)]).0, "set to work");
        assert_ne!(to(vec![server(20, 14, CAME_NS + 900 * MS)]).0, "set to work");
        assert_ne!(to(vec![server(20, 16, CAME_NS + 2 * MS)]).0, "set to work", "not waited for");
    }
}
