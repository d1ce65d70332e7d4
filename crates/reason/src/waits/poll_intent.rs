//! Waits for one of several descriptors: for work, or for an answer.
//!
//! A thread in poll, select or epoll waits for whatever comes, which is idle. But a client that polls the connection
//! it made waits for its server as surely as one that sleeps in recv, and so does an event loop that was woken by
//! the server behind it. What tells the two apart is who made the connection: the end whose port nobody listens on,
//! the unix socket without a name, the reader of a pipe. The end that accepted waits for its next question.
//!
//! An event loop also wakes itself, by a pair of sockets or a pipe of which it has both ends: nobody else can send anything there, so it is
//! not asked and not answered by that, of sockets also where it reads from it.
//!
//! Must not: follow the wait (chains.rs), or decide that it matters: a wait for somebody is a finding only if that
//! somebody is held up. Rejected: any polled socket (every idle server would wait for its clients).
//! Edit together: bpf/poll.bpf.h in probe, which tells the object.

use crate::facts::{Endpoint, GIVEN_PORTS, InetRef, ObjectRef, Place, TCP_CLOSE};
use crate::waits::WaitClass;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

/// The port that name servers listen at (RFC 1035).
pub const DNS_PORT: u16 = 53;
/// A socket that accepts connections.
pub const TCP_LISTEN: u8 = 10;

/// Which ends of connections accepted them.
#[derive(Debug, Default)]
pub struct Accepted {
    /// Ports that somebody listens on, by network namespace.
    ports: HashSet<(u32, u16)>,
    /// Unix sockets that carry their listener's name.
    named: HashSet<u64>,
    /// Sockets that take datagrams of whomever, by network namespace and port: the process and the inode.
    datagram_ports: HashMap<(u32, u16), HashSet<(u32, u64)>>,
    /// Sockets of TCP that were seen to be connected.
    made: HashSet<u64>,
    /// Sockets and pipes of which one process alone has both ends.
    own: HashSet<u64>,
    /// Descriptors of such pipes, by process.
    own_pipe_descriptors: HashSet<(u32, u32)>,
}

/// What connects a socket to its other end, in both directions.
#[derive(PartialEq, Eq, Hash)]
enum Ends {
    /// In a network namespace: each has a loopback of its own.
    Inet(SocketAddr, SocketAddr, u32),
    Unix(u64, u64),
}

/// Sockets of which one process alone has both ends.
fn own(endpoints: &[Endpoint]) -> HashSet<u64> {
    let mut processes: HashMap<Ends, HashSet<u32>> = HashMap::new();
    let ends = |object: &ObjectRef| match object {
        ObjectRef::Inet(it) if it.remote.port() != 0 => {
            let (near, far) = ((it.local, it.remote), (it.remote, it.local));
            Some((Ends::Inet(near.0, near.1, it.netns), Ends::Inet(far.0, far.1, it.netns), it.ino))
        }
        ObjectRef::Unix { ino, peer_ino, .. } if *peer_ino != 0 => {
            Some((Ends::Unix(*ino, *peer_ino), Ends::Unix(*peer_ino, *ino), *ino))
        }
        _ => None,
    };
    for endpoint in endpoints {
        if let Some((near, ..)) = ends(&endpoint.object) {
            processes.entry(near).or_default().insert(endpoint.process.pid);
        }
    }
    let is_own = |endpoint: &&Endpoint| {
        let pid = endpoint.process.pid;
        let alone =
            |it: Ends| processes.get(&it).is_some_and(|all| all.len() == 1 && all.contains(&pid));
        ends(&endpoint.object).is_some_and(|(near, far, _)| alone(near) && alone(far))
    };
    let own = endpoints.iter().filter(is_own);
    let sockets = own.filter_map(|endpoint| ends(&endpoint.object).map(|(.., ino)| ino));
    sockets.chain(own_pipes(endpoints)).collect()
}

/// Pipes that one process alone has open, for reading and for writing.
fn own_pipes(endpoints: &[Endpoint]) -> Vec<u64> {
    #[derive(Default)]
    struct Open {
        processes: HashSet<u32>,
        readable: bool,
        writable: bool,
    }
    let mut pipes: HashMap<u64, Open> = HashMap::new();
    for endpoint in endpoints {
        if let ObjectRef::Pipe { ino } = endpoint.object {
            let open = pipes.entry(ino).or_default();
            open.processes.insert(endpoint.process.pid);
            open.readable |= endpoint.readable;
            open.writable |= endpoint.writable;
        }
    }
    let is_own = |open: &Open| open.processes.len() == 1 && open.readable && open.writable;
    pipes.into_iter().filter(|(_, open)| is_own(open)).map(|(ino, _)| ino).collect()
}

impl Accepted {
    /// From the descriptors that were seen.
    pub fn of(endpoints: &[Endpoint]) -> Self {
        let mut accepted = Self { own: own(endpoints), ..Self::default() };
        for endpoint in endpoints {
            match &endpoint.object {
                ObjectRef::Pipe { ino } if accepted.own.contains(ino) => {
                    accepted.own_pipe_descriptors.insert((endpoint.process.pid, endpoint.fd));
                }
                ObjectRef::Inet(socket) if socket.state == TCP_LISTEN => {
                    accepted.ports.insert((socket.netns, socket.local.port()));
                }
                ObjectRef::Inet(socket)
                    if socket.protocol == "udp" && socket.remote.port() == 0 =>
                {
                    let at = (socket.netns, socket.local.port());
                    let its = (endpoint.process.pid, socket.ino);
                    accepted.datagram_ports.entry(at).or_default().insert(its);
                }
                object @ ObjectRef::Inet(_) => accepted.see(object),
                ObjectRef::Unix { ino, path: Some(_), .. } => {
                    accepted.named.insert(*ino);
                }
                _ => {}
            }
        }
        accepted
    }

    /// Takes in a socket that somebody waited on.
    pub fn see(&mut self, object: &ObjectRef) {
        if let ObjectRef::Inet(socket) = object
            && socket.is_tcp()
            && !socket.is_connecting()
            && socket.state != TCP_CLOSE
        {
            self.made.insert(socket.ino);
        }
    }

    /// Takes in ports, by network namespace, at which somebody listened who was not read.
    pub fn serve(&mut self, ports: &HashSet<(u32, u16)>) {
        self.ports.extend(ports);
    }

    /// Whether a wait of a process is for what it may send to itself.
    pub fn is_own(&self, pid: u32, place: &Place) -> bool {
        match &place.object {
            Some(ObjectRef::Inet(socket)) => self.own.contains(&socket.ino),
            Some(ObjectRef::Unix { ino, .. }) => self.own.contains(ino),
            // Who only reads from its own pipe waits for ever: nobody else can write; so does who polls several such pipes alone.
            Some(ObjectRef::Pipe { ino }) => {
                place.is_for_several() && self.own.contains(ino) && self.wakes_itself(pid, place)
            }
            _ => false,
        }
    }

    /// Whether a loop that polls a pipe of its own is only woken by that: it is all, or not all, that the loop polls. What epoll waits for besides is known
    /// of a wait that stands.
    fn wakes_itself(&self, pid: u32, place: &Place) -> bool {
        let is_own_pipe = |fd: &u32| self.own_pipe_descriptors.contains(&(pid, *fd));
        let is_unknown = place.polled.is_empty() && place.syscall.starts_with("epoll_");
        is_unknown || place.polled.len() == 1 || !place.polled.iter().all(is_own_pipe)
    }

    /// What a wait of a process in poll, select or epoll is for, if it is not for work.
    pub fn class(&self, pid: u32, place: &Place) -> Option<WaitClass> {
        if !place.is_for_several() {
            return None;
        }
        let room = place.polled_for_room;
        match place.object.as_ref()? {
            ObjectRef::Inet(socket) => self.inet(pid, socket, room),
            ObjectRef::Unix { ino, .. } if self.named.contains(ino) => None,
            ObjectRef::Unix { .. } => {
                Some(if room { WaitClass::UnixWrite } else { WaitClass::UnixRead })
            }
            ObjectRef::Pipe { .. } => {
                Some(if room { WaitClass::PipeWrite } else { WaitClass::PipeRead })
            }
            _ => None,
        }
    }

    fn inet(&self, pid: u32, socket: &InetRef, room: bool) -> Option<WaitClass> {
        // What is closed and was never seen to be connected has come to nothing just now.
        let came_to_nothing =
            || room && socket.state == TCP_CLOSE && !self.made.contains(&socket.ino);
        if socket.is_tcp() && (socket.is_connecting() || came_to_nothing()) {
            return Some(WaitClass::SocketConnect);
        }
        let connected = socket.remote.port() != 0;
        let is_accepted = self.ports.contains(&(socket.netns, socket.local.port()));
        let has_port = || self.has_another_at_its_port(pid, socket);
        if !connected || is_accepted || is_asked_by_datagram(socket, has_port) {
            return None;
        }
        Some(if room { WaitClass::SocketWrite } else { WaitClass::SocketRead })
    }

    /// Whether a second socket of the same process takes datagrams at the port of one. A client's own has the port as well while it is connected
    /// to nobody, and another process may have the port at another address.
    fn has_another_at_its_port(&self, pid: u32, socket: &InetRef) -> bool {
        let at_port = self.datagram_ports.get(&(socket.netns, socket.local.port()));
        at_port.is_some_and(|all| all.iter().any(|(of, ino)| *of == pid && *ino != socket.ino))
    }
}

/// Whether it is the end of a connected pair of UDP that is asked: it has a port of its own choice, and the other was given one, or they are
/// equals (a tunnel's two ends). Nobody listens by UDP, and no clock says who spoke last. Where ports are given from lower ones on, who has another
/// socket at its port that takes datagrams of whomever (`takes_all`) is asked: a server that connects one to each client.
pub fn is_asked_by_datagram(socket: &InetRef, takes_all: impl FnOnce() -> bool) -> bool {
    let (own, far) = (socket.local.port(), socket.remote.port());
    let is_chosen = own < GIVEN_PORTS && (far >= GIVEN_PORTS || far == own);
    socket.protocol == "udp" && (is_chosen || takes_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ThreadRef;

    fn socket(local: &str, remote: &str, state: u8) -> ObjectRef {
        ObjectRef::Inet(InetRef {
            ino: 7,
            netns: 1,
            protocol: "tcp".into(),
            local: local.parse().expect("address"),
            remote: remote.parse().expect("address"),
            state,
        })
    }

    fn open(object: ObjectRef) -> Endpoint {
        Endpoint {
            process: ThreadRef::default(),
            fd: 3,
            readable: true,
            writable: true,
            nonblocking: true,
            object,
            unread: None,
            output_stopped: false,
            socket: None,
        }
    }

    fn polled(object: ObjectRef, polled_for_room: bool) -> Place {
        Place { syscall: "poll".into(), object: Some(object), polled_for_room, ..Place::default() }
    }

    #[test]
    fn who_made_the_connection_waits_for_an_answer_and_who_accepted_it_for_work() {
        let accepted = Accepted::of(&[open(socket("0.0.0.0:80", "0.0.0.0:0", TCP_LISTEN))]);
        let client = polled(socket("10.0.0.1:41000", "10.0.0.2:80", 1), false);
        assert_eq!(accepted.class(10, &client), Some(WaitClass::SocketRead));
        let server = polled(socket("10.0.0.2:80", "10.0.0.1:41000", 1), false);
        assert_eq!(accepted.class(10, &server), None);
    }

    #[test]
    fn a_connection_that_is_being_made_and_one_without_room_are_distinguished() {
        let accepted = Accepted::default();
        let at = |state| polled(socket("10.0.0.1:41000", "10.0.0.2:80", state), true);
        assert_eq!(
            accepted.class(10, &at(crate::facts::TCP_SYN_SENT)),
            Some(WaitClass::SocketConnect)
        );
        assert_eq!(accepted.class(10, &at(1)), Some(WaitClass::SocketWrite));
        assert_eq!(accepted.class(10, &at(TCP_CLOSE)), Some(WaitClass::SocketConnect), "refused");
        let mut reset = Accepted::default();
        reset.see(&socket("10.0.0.1:41000", "10.0.0.2:80", 1));
        assert_eq!(reset.class(10, &at(TCP_CLOSE)), Some(WaitClass::SocketWrite), "it was full");
    }

    #[test]
    fn a_unix_socket_with_a_name_was_accepted() {
        let unix = |ino, path| ObjectRef::Unix { ino, peer_ino: 9, path };
        let accepted = Accepted::of(&[open(unix(5, Some("/run/db".into())))]);
        assert_eq!(accepted.class(10, &polled(unix(5, None), false)), None);
        assert_eq!(accepted.class(10, &polled(unix(6, None), false)), Some(WaitClass::UnixRead));
    }

    #[test]
    fn both_ends_of_a_wake_up_pair_belong_to_one_process() {
        let pair = [
            open(socket("127.0.0.1:40001", "127.0.0.1:40002", 1)),
            Endpoint {
                object: ObjectRef::Inet(InetRef {
                    ino: 8,
                    ..match socket("127.0.0.1:40002", "127.0.0.1:40001", 1) {
                        ObjectRef::Inet(socket) => socket,
                        _ => unreachable!("a socket"),
                    }
                }),
                ..open(ObjectRef::Pipe { ino: 1 })
            },
        ];
        let place = polled(socket("127.0.0.1:40001", "127.0.0.1:40002", 1), false);
        assert!(Accepted::of(&pair).is_own(8, &place));
        assert!(!Accepted::of(&pair[..1]).is_own(8, &place), "the other end is not known");
        let of_another = |end: &Endpoint| {
            let process = ThreadRef { pid: 9, tid: 9, ..ThreadRef::default() };
            Endpoint { process, ..end.clone() }
        };
        let [near, far] = pair;
        let inherited = [near.clone(), far.clone(), of_another(&far)];
        assert!(!Accepted::of(&inherited).is_own(8, &place), "a child may write there");
        assert!(!Accepted::of(&[near, of_another(&far)]).is_own(8, &place));
    }

    #[test]
    fn a_read_is_not_polled() {
        let mut place = polled(ObjectRef::Pipe { ino: 1 }, false);
        assert_eq!(Accepted::default().class(10, &place), Some(WaitClass::PipeRead));
        place.syscall = "read".into();
        assert_eq!(Accepted::default().class(10, &place), None);
    }

    #[test]
    fn who_polls_a_pipe_of_its_own_is_woken_by_itself_and_who_reads_from_it_waits_for_ever() {
        let end = |pid: u32, writes: bool| Endpoint {
            process: ThreadRef { pid, tid: pid, ..ThreadRef::default() },
            readable: !writes,
            writable: writes,
            ..open(ObjectRef::Pipe { ino: 5 })
        };
        let polls = |ends: &[Endpoint], syscall: &str, fds: &[u32]| {
            let place = Place {
                syscall: syscall.into(),
                polled: fds.to_vec(),
                ..polled(ObjectRef::Pipe { ino: 5 }, false)
            };
            Accepted::of(ends).is_own(10, &place)
        };
        let own = |ends: &[Endpoint], syscall: &str| polls(ends, syscall, &[3]);
        let both = [end(10, false), end(10, true)];
        let at = |fd: u32, ino: u64, writes: bool| Endpoint {
            fd,
            object: ObjectRef::Pipe { ino },
            ..end(10, writes)
        };
        let pipes = [at(4, 5, false), at(5, 5, true), at(6, 7, false), at(7, 7, true)];
        assert!(polls(&pipes, "select", &[3, 4]), "it waits for what 3 is, and wakes itself by 4");
        assert!(!polls(&pipes, "select", &[4, 6]), "nobody else can write to either");
        assert!(polls(&pipes, "epoll_wait", &[]), "what else is not known");
        assert!(!polls(&pipes, "epoll_wait", &[4, 6]));
        assert!(own(&both, "select"));
        assert!(!own(&both, "read"));
        assert!(!own(&both[..1], "select"), "who can write was not seen");
        assert!(!own(&[end(10, false), end(10, true), end(20, true)], "select"), "another can");
    }

    #[test]
    fn the_end_of_a_pair_of_udp_that_is_asked_waits_for_work() {
        let class = |local: &str, remote: &str| {
            let ObjectRef::Inet(inner) = socket(local, remote, 1) else { return None };
            let object = ObjectRef::Inet(InetRef { protocol: "udp".into(), ..inner });
            let place = Place { syscall: "poll".into(), object: Some(object), ..Place::default() };
            Accepted::default().class(10, &place)
        };
        assert_eq!(class("10.0.0.1:7777", "10.0.0.2:50000"), None, "a server's end");
        assert_eq!(class("10.0.0.1:1194", "10.0.0.2:1194"), None, "a tunnel's");
        assert_eq!(class("10.0.0.1:50000", "10.0.0.2:7777"), Some(WaitClass::SocketRead));
        assert_eq!(class("10.0.0.1:5000", "10.0.0.2:53"), Some(WaitClass::SocketRead));
    }

    #[test]
    fn a_server_that_connects_a_socket_to_each_client_is_asked_by_whatever_port() {
        let udp = |local: &str, remote: &str| match socket(local, remote, 7) {
            ObjectRef::Inet(inner) => ObjectRef::Inet(InetRef { protocol: "udp".into(), ..inner }),
            other => other,
        };
        let class = |pid: u32, ino: u64, local: &str| {
            let ObjectRef::Inet(all) = udp(local, "0.0.0.0:0") else { return None };
            let process = ThreadRef { pid, tid: pid, ..ThreadRef::default() };
            let known = Endpoint { process, ..open(ObjectRef::Inet(InetRef { ino, ..all })) };
            let place = polled(udp("10.0.0.1:7001", "10.0.0.2:2001"), false);
            Accepted::of(&[known]).class(10, &place)
        };
        assert_eq!(class(10, 8, "0.0.0.0:7001"), None);
        assert_eq!(class(10, 8, "0.0.0.0:7002"), Some(WaitClass::SocketRead));
        assert_eq!(class(10, 7, "0.0.0.0:7001"), Some(WaitClass::SocketRead), "itself, earlier");
        assert_eq!(class(11, 8, "0.0.0.0:7001"), Some(WaitClass::SocketRead), "another process");
    }
}
