//! Of several descriptors that a wait is for, the one that leads on: what a relay, a shell over the network or an event loop waits
//! for while somebody waits for it.
//!
//! Who asks is at one of them, and whoever else asks has connected to it: those wait, and are not waited for. If one is left,
//! what comes there is what everybody waits for. Must not: choose where two are left, or look at threads (serving.rs).

use crate::facts::{Endpoint, ObjectRef, ThreadRef};
use crate::graph::channels::waits_for_undelivered;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::chosen;
use crate::graph::ways::way::{FOR_EVENTS, Way};
use crate::graph::worker_processes;
use crate::waits::poll_intent::TCP_LISTEN;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "descriptors",
    because: "of what is waited for nothing else leads on",
    of: FOR_EVENTS,
    thresholds: &[],
    follow: |at| among_polled(at.index, at.wait, at.asker.map(|asker| asker.who.pid)),
};

/// Where a descriptor leads.
enum Leads {
    /// To processes of this host.
    To(Vec<ThreadRef>),
    /// To those that have the listener in whose queue it stands: nobody has accepted it.
    Queued(Vec<ThreadRef>),
    /// To another host: the inode of the socket here.
    Away(u64),
}

/// Who is next by the descriptors that a wait is for; `asker` is who waits for the waiter.
fn among_polled(index: &Index<'_>, wait: &WaitSpan, asker: Option<u32>) -> Option<Next> {
    let ends = index.connections.of_process(wait.thread.pid, &wait.place.polled);
    let mut left: Vec<Leads> =
        ends.into_iter().filter_map(|end| leads(index, wait, end, asker)).collect();
    if left.len() > 1 {
        left.retain(|leads| !is_master(index, wait.thread.pid, leads));
    }
    if let Some(worker) = of_busy_server(index, wait, &left) {
        return Some(Next::Thread(worker));
    }
    let mut left = left.into_iter();
    let only = left.next()?;
    let pid = |leads: &Leads| match leads {
        Leads::To(far) | Leads::Queued(far) => far.first().map(|far| far.pid),
        Leads::Away(_) => None,
    };
    // A child's output and its errors lead to one process.
    if left.any(|other| pid(&other).is_none() || pid(&other) != pid(&only)) {
        return None;
    }
    match only {
        Leads::Away(ino) => Some(Next::Peer(ino)),
        Leads::To(far) | Leads::Queued(far) => chosen(index, wait, far).map(Next::Thread),
    }
}

/// Where all that is left leads to one server none of whose workers is free, and one of it was not accepted: the worker that is waited for. What was
/// accepted is the worker's that has it, however long another stands over somebody else's question.
fn of_busy_server(index: &Index<'_>, wait: &WaitSpan, left: &[Leads]) -> Option<ThreadRef> {
    if !left.iter().any(|leads| matches!(leads, Leads::Queued(_))) {
        return None;
    }
    let mut far = Vec::new();
    for leads in left {
        match leads {
            Leads::To(all) | Leads::Queued(all) => far.extend(all.iter().cloned()),
            Leads::Away(_) => return None,
        }
    }
    worker_processes::longest(index, &far, wait.end_ns)
}

/// Whether a descriptor leads to the process of the same program that began this one: over that its orders come, and it
/// asks nothing there while it serves others.
fn is_master(index: &Index<'_>, pid: u32, leads: &Leads) -> bool {
    let Some(parent) = index.families.parent_of(pid) else { return false };
    let is_same =
        || index.model.threads.process_name(parent) == index.model.threads.process_name(pid);
    matches!(leads, Leads::To(far) if far.iter().all(|far| far.pid == parent)) && is_same()
}

fn leads(index: &Index<'_>, wait: &WaitSpan, end: &Endpoint, asker: Option<u32>) -> Option<Leads> {
    let far = match &end.object {
        ObjectRef::Inet(socket) => {
            let is_asked = socket.state == TCP_LISTEN || index.connections.is_accepted(socket);
            if is_asked || socket.remote.port() == 0 {
                return None;
            }
            let far = index.connections.far_processes(socket);
            if far.is_empty() || waits_for_undelivered(index, wait.begin_ns, wait.end_ns, socket) {
                return Some(Leads::Away(socket.ino));
            }
            far
        }
        ObjectRef::Unix { ino, peer_ino, .. } => {
            let is_asked = index.model.called.unix_path(*ino).is_some();
            if is_asked {
                return None;
            }
            index
                .connections
                .endpoints_on(*peer_ino)
                .iter()
                .map(|end| end.process.clone())
                .collect()
        }
        ObjectRef::Pipe { ino } if end.readable && !end.writable => {
            let writers =
                index.connections.endpoints_on(*ino).iter().filter(|other| other.writable);
            writers.map(|other| other.process.clone()).collect()
        }
        _ => return None,
    };
    let is_it = |far: &ThreadRef| Some(far.pid) == asker || far.pid == end.process.pid;
    let to = if is_queued(index, &end.object) { Leads::Queued } else { Leads::To };
    (!far.is_empty() && !far.iter().any(is_it)).then(|| to(far))
}

/// Whether a connection has the listener at its other end, which has no other end itself: nobody has accepted it.
fn is_queued(index: &Index<'_>, object: &ObjectRef) -> bool {
    let ObjectRef::Unix { peer_ino, .. } = object else { return false };
    let listens = |object: &ObjectRef| match object {
        ObjectRef::Unix { peer_ino: far_ino, path, .. } => *far_ino == 0 && path.is_some(),
        _ => false,
    };
    index.connections.endpoints_on(*peer_ino).iter().any(|end| listens(&end.object))
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::facts::*;
    use crate::graph::end::EndKind;
    use crate::rules::scenes::*;

    const READER: u64 = 7;

    /// Process 10 reads a pipe of its child 20, a relay that polls some of its descriptors: that pipe's other end, and
    /// pipes into which 30 and 40 write, which sleep.
    fn relay(polled: &[u32]) -> Vec<(EndKind, Option<u32>)> {
        let pipe = |pid: u32, fd: u32, ino: u64, writes: bool| {
            let mut fact = endpoint(pid, "job", ObjectRef::Pipe { ino });
            if let Body::Endpoint(end) = &mut fact.body {
                (end.fd, end.readable, end.writable) = (fd, !writes, writes);
            }
            fact
        };
        let mut reads =
            Place { state: WaitState::Sleep, syscall: "read".into(), ..Place::default() };
        reads.object = Some(ObjectRef::Pipe { ino: READER });
        let polls = Place {
            state: WaitState::Sleep,
            syscall: "poll".into(),
            polled: polled.to_vec(),
            ..Place::default()
        };
        let mut facts = host();
        facts.extend([
            pipe(10, 0, READER, false),
            pipe(20, 1, READER, true),
            pipe(20, 3, 8, false),
            pipe(30, 1, 8, true),
            pipe(20, 4, 9, false),
            pipe(40, 1, 9, true),
            at_place(10, "rsync", reads),
            at_place(20, "ssh", polls),
            blocked(30, "one", WaitState::Sleep, "nanosleep"),
            blocked(40, "other", WaitState::Sleep, "nanosleep"),
        ]);
        let name = "rsync".to_string();
        let kind = TargetKind::Process;
        facts.push(fact(Body::Target(Target {
            kind,
            name,
            pid: 10,
            cgroups: Vec::new(),
            words: Vec::new(),
        })));
        let ends = explain(facts).answer.ends;
        ends.iter().map(|end| (end.end, end.who.as_ref().and_then(|by| by.pid))).collect()
    }

    #[test]
    fn what_a_relay_polls_besides_its_asker_is_what_it_waits_for() {
        assert_eq!(relay(&[1, 3]), [(EndKind::Sleep, Some(30))]);
    }

    /// Process 10 waits for 20, which polls its connections: to its parent 15 of this name, and to 30, which sleeps.
    fn worker(parent: &str) -> Vec<Option<u32>> {
        let pair = |ino, path: Option<&str>| ObjectRef::Unix {
            ino,
            peer_ino: ino ^ 1,
            path: path.map(Into::into),
        };
        let place = |syscall: &str, object, polled: &[u32]| Place {
            state: WaitState::Sleep,
            syscall: syscall.into(),
            object,
            polled: polled.to_vec(),
            ..Place::default()
        };
        let own = Thread { thread: thread(20, "web"), parent_pid: 15, ..Thread::default() };
        let above = Thread { thread: thread(15, parent), ..Thread::default() };
        let mut facts = host();
        facts.extend([
            identity(above),
            identity(own),
            of_process(10, "client"),
            descriptor(10, 3, "client", pair(100, None)),
            descriptor(20, 3, "web", pair(101, Some("/run/web"))),
            descriptor(20, 4, "web", pair(200, None)),
            descriptor(15, 4, parent, pair(201, None)),
            descriptor(20, 5, "web", pair(300, None)),
            descriptor(30, 5, "app", pair(301, Some("/run/app"))),
            at_place(10, "client", place("read", Some(pair(100, None)), &[])),
            at_place(20, "web", place("epoll_wait", None, &[3, 4, 5])),
            blocked(15, parent, WaitState::Sleep, "rt_sigsuspend"),
            blocked(30, "app", WaitState::Sleep, "nanosleep"),
        ]);
        let ends = explain(facts).answer.ends;
        ends.iter().map(|end| end.who.as_ref().and_then(|by| by.pid)).collect()
    }

    #[test]
    fn a_worker_serves_and_does_not_wait_for_the_orders_of_its_master() {
        assert_eq!(worker("web"), [Some(30)]);
        assert!(!worker("supervisor").contains(&Some(30)), "it may wait for that one");
    }

    #[test]
    fn of_two_nobody_knows_which() {
        assert!(relay(&[1, 3, 4]).iter().all(|(kind, _)| *kind != EndKind::Sleep));
        assert!(relay(&[1]).iter().all(|(kind, _)| *kind != EndKind::Sleep));
    }

    /// nginx 10 polls connections of its own to php-fpm, of which 21 has stood since later than 22, and 20 is the master: one that 21 has
    /// accepted, or one that nobody has.
    fn of_pool(is_accepted: bool) -> (&'static str, Option<u32>) {
        use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
        let of = |ino, peer_ino, path: Option<&str>| ObjectRef::Unix {
            ino,
            peer_ino,
            path: path.map(Into::into),
        };
        let named = |pid: u32, parent_pid: u32| {
            identity(Thread { thread: thread(pid, "php-fpm"), parent_pid, ..Thread::default() })
        };
        let sleeps = |pid: u32, since_ns: Ns| {
            let mut fact = blocked(pid, "php-fpm", WaitState::Sleep, "clock_nanosleep");
            if let Body::Blocked(blocked) = &mut fact.body {
                blocked.since_ns = since_ns;
            }
            fact
        };
        let listener = || of(200, 0, Some("/run/php"));
        let mut facts = vec![named(20, 1), named(21, 20), named(22, 20)];
        facts.extend([20, 21, 22].map(|pid| endpoint(pid, "php-fpm", listener())));
        facts.push(blocked(20, "php-fpm", WaitState::Sleep, "epoll_wait"));
        facts.extend([sleeps(21, LOOK_NS / 2), sleeps(22, 0)]);
        facts.push(descriptor(21, 4, "php-fpm", of(301, 300, Some("/run/php"))));
        let far = if is_accepted { 301 } else { 200 };
        facts.push(descriptor(10, 4, "app", of(300, far, None)));
        let polls = Place { polled: vec![4], ..place("epoll_wait", NO_ARGS, None) };
        led([vec![stands(of_ten(10), polls)], facts].concat())
    }

    #[test]
    fn what_a_worker_has_accepted_is_that_ones_however_long_another_stands() {
        assert_eq!(of_pool(true), (super::WAY.name, Some(21)));
        assert_eq!(of_pool(false), (super::WAY.name, Some(22)), "whoever is done first");
    }
}
