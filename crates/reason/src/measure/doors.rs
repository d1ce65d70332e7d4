//! Where a process can be spoken to: the sockets that it, or the process of the same program that began it, listens on.
//!
//! By the descriptors that were read in the look. A session of a server that forks (PostgreSQL) has closed what its parent
//! listens on, so the parents of the same name count too. Must not: guess an address by a program's name or its settings;
//! what nobody was seen to listen on is absent.

use crate::facts::{Endpoint, ObjectRef};
use crate::model::Model;
use crate::programs::{Doors, Place};
use crate::waits::poll_intent::TCP_LISTEN;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Parents above a process that may listen for it: a worker, its master, and one that watches over that.
const ABOVE: usize = 3;

/// Where a process can be spoken to.
pub fn of(model: &Model, pid: u32) -> Doors {
    let family = family(model, pid);
    let mut doors = Doors::default();
    let own = |end: &&Endpoint| family.contains(&end.process.pid);
    for end in model.held.endpoints.iter().filter(own) {
        match &end.object {
            ObjectRef::Inet(socket) if socket.state == TCP_LISTEN => {
                doors.tcp.push(reached(socket.local));
            }
            // One that was accepted carries the name of its listener.
            ObjectRef::Unix { path: Some(path), .. } if path.starts_with('/') => {
                doors.unix.push(path.clone());
            }
            _ => {}
        }
    }
    doors.place = place(model, pid, &family);
    doors.tcp.sort_unstable();
    doors.tcp.dedup();
    doors.unix.sort_unstable();
    doors.unix.dedup();
    doors
}

/// Where a process is, if it has a PID namespace or a network that holdup has not. It is entered by the server, which outlives its sessions.
fn place(model: &Model, pid: u32, family: &[u32]) -> Option<Place> {
    let known = model.threads.by_id.get(&pid)?;
    let own = model.threads.by_id.get(&model.look.host.own_pid);
    let number = known.inner_pid.filter(|_| own.and_then(|own| own.inner_pid).is_none());
    let is_apart =
        own.is_some_and(|own| own.netns != 0 && known.netns != 0 && own.netns != known.netns);
    let server = family.last().copied().unwrap_or(pid);
    (number.is_some() || is_apart).then_some(Place { pid: server, number, uid: known.uid })
}

fn family(model: &Model, pid: u32) -> Vec<u32> {
    let name = model.threads.process_name(pid);
    let mut all = vec![pid];
    while let Some(above) = parent(model, all[all.len() - 1]).filter(|_| all.len() <= ABOVE) {
        if model.threads.process_name(above) != name {
            break;
        }
        all.push(above);
    }
    all
}

fn parent(model: &Model, pid: u32) -> Option<u32> {
    let known = model.threads.by_id.get(&pid).map(|thread| thread.parent_pid);
    let walked =
        || model.threads.times.iter().find(|time| time.thread.tid == pid).map(|it| it.parent_pid);
    known.or_else(walked).filter(|parent| *parent != 0)
}

fn reached(listens: SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::*;
    use crate::rules::scenes::{descriptor, host, identity, thread};

    fn inet(local: &str, state: u8) -> ObjectRef {
        ObjectRef::Inet(InetRef {
            ino: 7,
            netns: 1,
            protocol: "tcp".into(),
            local: local.parse().expect("an address"),
            remote: "0.0.0.0:0".parse().expect("an address"),
            state,
        })
    }

    fn child(pid: u32, comm: &str, parent_pid: u32) -> Fact {
        identity(Thread { thread: thread(pid, comm), parent_pid, ..Thread::default() })
    }

    #[test]
    fn a_session_is_spoken_to_where_its_server_listens() {
        let at = |path: &str| ObjectRef::Unix { ino: 8, peer_ino: 0, path: Some(path.into()) };
        let mut facts = host();
        facts.extend([
            child(30, "postgres", 20),
            child(20, "postgres", 1),
            child(1, "systemd", 0),
            descriptor(20, 3, "postgres", inet("0.0.0.0:5432", TCP_LISTEN)),
            descriptor(20, 4, "postgres", at("/run/postgresql/.s.PGSQL.5432")),
            descriptor(20, 5, "postgres", at("@abstract")),
            descriptor(1, 3, "systemd", at("/run/other")),
            descriptor(30, 3, "postgres", inet("127.0.0.1:5432", 1)),
        ]);
        let doors = of(&Model::new(facts), 30);
        assert_eq!(doors.tcp, ["127.0.0.1:5432".parse().expect("an address")]);
        assert_eq!(doors.unix, ["/run/postgresql/.s.PGSQL.5432"]);
    }

    #[test]
    fn a_process_that_listens_nowhere_has_no_door() {
        let facts = [host(), vec![child(30, "app", 20), child(20, "sh", 1)]].concat();
        assert_eq!(of(&Model::new(facts), 30), Doors::default());
    }
}
