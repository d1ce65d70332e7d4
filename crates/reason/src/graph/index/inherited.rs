//! Sockets that a process only inherited: a helper that a server ran has its listener and its clients' connections open, takes no client there, and
//! serves none.
//!
//! Whoever began it has the listener too, is another program, and has accepted connections of its own there; so it accepts, and the helper does
//! not. A manager that opens a listener for a server (socket activation), or for its workers, accepts nothing itself. Must not: say of a
//! process of the same program that it inherited, as workers do. Rejected: an open listener as a sign of a server (sh -c out of os.execute() has
//! it as well).

use super::families::Families;
use crate::facts::{Endpoint, ObjectRef};
use crate::model::Model;
use crate::waits::poll_intent::TCP_LISTEN;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A helper may be begun by a shell that a server began.
const GENERATIONS: usize = 8;

/// Descriptors up to this one are a program's own input and output, whoever opened what is there: a script may answer by them.
const STANDARD_MAX: u32 = 2;

/// Processes and the inodes of the sockets that they only inherited.
pub(super) fn inherited(model: &Model, families: &Families<'_>) -> HashSet<(u32, u64)> {
    let mut holders: HashMap<u64, BTreeSet<u32>> = HashMap::new();
    let mut listeners: Vec<&Endpoint> = Vec::new();
    for end in model.held.endpoints.iter().filter(|end| is_listener(&end.object)) {
        let Some(ino) = end.object.socket_ino() else { continue };
        holders.entry(ino).or_default().insert(end.process.pid);
        listeners.push(end);
    }
    // Most listeners are one process's.
    listeners.retain(|end| {
        let ino = end.object.socket_ino();
        ino.and_then(|ino| holders.get(&ino)).is_some_and(|all| all.len() > 1)
    });
    let mut accepts: HashMap<(u32, u64), bool> = HashMap::new();
    let (mut found, mut servers) = (HashSet::new(), HashMap::new());
    for end in listeners {
        let (pid, Some(ino)) = (end.process.pid, end.object.socket_ino()) else { continue };
        let mut server = |of: u32| {
            *accepts.entry((of, ino)).or_insert_with(|| has_accepted(model, of, &end.object))
        };
        let before = std::iter::successors(families.parent_of(pid), |of| families.parent_of(*of));
        let mut before = before.take(GENERATIONS).take_while(|of| holders[&ino].contains(of));
        if let Some(of) = before.find(|of| is_other_program(model, *of, pid) && server(*of)) {
            found.insert((pid, ino));
            servers.insert(pid, of);
        }
    }
    found.extend(connections(model, &servers));
    found
}

/// The connections of servers that those have open too whom they have run.
fn connections(model: &Model, servers: &HashMap<u32, u32>) -> Vec<(u32, u64)> {
    let of_server: HashSet<u32> = servers.values().copied().collect();
    let all = || {
        let all = model.held.endpoints.iter().filter(|end| !is_listener(&end.object));
        all.filter_map(|end| Some((end, end.object.socket_ino()?)))
    };
    let held = all().filter(|(end, _)| of_server.contains(&end.process.pid));
    let held: HashSet<(u32, u64)> = held.map(|(end, ino)| (end.process.pid, ino)).collect();
    let is_inherited = |end: &Endpoint, ino: u64| {
        let server = servers.get(&end.process.pid);
        end.fd > STANDARD_MAX && server.is_some_and(|of| held.contains(&(*of, ino)))
    };
    let found = all().filter(|(end, ino)| is_inherited(end, *ino));
    found.map(|(end, ino)| (end.process.pid, ino)).collect()
}

fn is_listener(object: &ObjectRef) -> bool {
    match object {
        ObjectRef::Inet(socket) => socket.is_tcp() && socket.state == TCP_LISTEN,
        ObjectRef::Unix { peer_ino, path, .. } => *peer_ino == 0 && path.is_some(),
        _ => false,
    }
}

/// Whether a process has a connection that came in at a listener.
fn has_accepted(model: &Model, pid: u32, listener: &ObjectRef) -> bool {
    let came_in = |object: &ObjectRef| match (object, listener) {
        (ObjectRef::Inet(own), ObjectRef::Inet(at)) => {
            own.is_tcp()
                && own.remote.port() != 0
                && (own.netns, own.local.port()) == (at.netns, at.local.port())
        }
        (
            ObjectRef::Unix { peer_ino, path: Some(own), .. },
            ObjectRef::Unix { path: Some(at), .. },
        ) => *peer_ino != 0 && own == at,
        _ => false,
    };
    let mut own = model.held.endpoints.iter().filter(|end| end.process.pid == pid);
    own.any(|end| came_in(&end.object))
}

/// Whether two processes run different programs: by their files where both are known, else by their names.
fn is_other_program(model: &Model, one: u32, other: u32) -> bool {
    let file = |pid: u32| {
        let known = model.threads.by_id.get(&pid).map(|known| known.executable.as_str());
        known.filter(|path| !path.is_empty())
    };
    match (file(one), file(other)) {
        (Some(one), Some(other)) => one != other,
        _ => {
            let (one, other) = (model.threads.process_name(one), model.threads.process_name(other));
            !one.is_empty() && !other.is_empty() && one != other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Fact, Thread};
    use crate::rules::net::scenes::inet;
    use crate::rules::scenes::{descriptor, host, identity, thread};
    use crate::waits::timeline::Observed;

    fn of(pid: u32, comm: &str, parent_pid: u32) -> Fact {
        identity(Thread { thread: thread(pid, comm), parent_pid, ..Thread::default() })
    }

    /// Process 20 with a listener, its child 21 and that one's child 22, which have it too; who of them has accepted a connection?
    fn only_inherited(names: [&str; 3], accepted: Option<u32>, unix: bool) -> Vec<u32> {
        let listens = || match unix {
            true => ObjectRef::Unix { ino: 9, peer_ino: 0, path: Some("/run/s".into()) },
            false => inet("tcp", 9, "127.0.0.1:80", "0.0.0.0:0", 10),
        };
        let connection = || match unix {
            true => ObjectRef::Unix { ino: 8, peer_ino: 7, path: Some("/run/s".into()) },
            false => inet("tcp", 8, "127.0.0.1:80", "127.0.0.1:5000", 1),
        };
        let mut facts = host();
        for (pid, comm) in (20..).zip(names) {
            facts.push(of(pid, comm, pid - 1));
            facts.push(descriptor(pid, 4, comm, listens()));
            facts.extend((accepted == Some(pid)).then(|| descriptor(pid, 5, comm, connection())));
        }
        let Observed { model, timelines } = Observed::new(facts);
        let all = inherited(&model, &Families::new(&model, &timelines));
        let mut pids: Vec<u32> = all.into_iter().map(|(pid, _)| pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn what_a_server_ran_has_its_listener_and_is_no_server() {
        for unix in [false, true] {
            assert_eq!(only_inherited(["php", "sh", "sleep"], Some(20), unix), [21, 22]);
            assert_eq!(only_inherited(["nginx", "nginx", "sh"], Some(21), unix), [22]);
        }
    }

    /// Whether sh 21, which server 20 ran, has a connection of its by this descriptor only because the server has.
    fn is_of_the_server(fd: u32) -> bool {
        let listens = || inet("tcp", 9, "127.0.0.1:80", "0.0.0.0:0", 10);
        let connection = || inet("tcp", 8, "127.0.0.1:80", "127.0.0.1:5000", 1);
        let mut facts = host();
        facts.extend([
            of(20, "php", 1),
            of(21, "sh", 20),
            descriptor(20, 4, "php", listens()),
            descriptor(21, 4, "sh", listens()),
            descriptor(20, 5, "php", connection()),
            descriptor(21, fd, "sh", connection()),
        ]);
        let Observed { model, timelines } = Observed::new(facts);
        inherited(&model, &Families::new(&model, &timelines)).contains(&(21, 8))
    }

    #[test]
    fn a_client_is_served_by_whoever_ran_the_helper_and_by_a_script_whose_output_it_is() {
        assert!(is_of_the_server(5));
        assert!(!is_of_the_server(1), "it may answer there");
    }

    #[test]
    fn who_was_given_a_listener_by_a_manager_is_the_server() {
        assert!(only_inherited(["systemd", "sshd", "sshd"], Some(21), false).is_empty());
        assert!(only_inherited(["systemd", "app", "app"], None, false).is_empty());
        assert!(only_inherited(["nginx", "nginx", "nginx"], Some(20), false).is_empty());
    }
}
