//! What objects are called, as far as any sight of them reported: paths of files, addresses of sockets, names of terminals.
//!
//! A wait may see an object by its number alone while a descriptor elsewhere has its name. What sockets are called says as well which addresses a network
//! namespace has, and so whether a listener there is at one. Must not: turn an object into words (names.rs), or say who has a socket (held.rs).

use super::object::FileKey;
use super::sent_to::Destinations;
use super::terminal::Terminal;
use super::translations::Translations;
use crate::facts::*;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Names of objects by their identity.
#[derive(Debug, Default)]
pub struct Called {
    files: HashMap<FileKey, String>,
    sockets: HashMap<u64, InetRef>,
    /// Peer and bound path of unix sockets, 0 and empty where not known.
    unix: HashMap<u64, (u64, String)>,
    terminals: HashMap<DeviceNumber, String>,
    /// The other end of the first connection of TCP at an address whose port nobody is given, by network namespace.
    first_at: HashMap<(u32, SocketAddr), SocketAddr>,
    served_ports: HashSet<(u32, u16)>,
    /// Addresses that sockets have as their own, by network namespace.
    own_addresses: HashMap<u32, HashSet<IpAddr>>,
    /// What connections are called at their other ends.
    pub(crate) translations: Translations,
    /// Where sockets that are not connected send to.
    pub(super) sent_to: Destinations,
}

impl Called {
    /// Takes in what a sight of an object says.
    pub(super) fn learn(&mut self, object: &ObjectRef) {
        match object {
            ObjectRef::File(file) => {
                if let Some(path) = &file.path {
                    self.learn_path(file.into(), path);
                }
            }
            ObjectRef::Inet(socket) => {
                self.learn_port(socket);
                self.learn_address(socket.netns, socket.local.ip());
                let known = self.sockets.entry(socket.ino).or_insert_with(|| socket.clone());
                if known.is_connecting() {
                    // It may be connected by now.
                    known.state = socket.state;
                }
                // It was seen after its end, or before it had a port.
                if known.local.port() == 0 && socket.local.port() != 0 {
                    known.clone_from(socket);
                }
            }
            ObjectRef::Unix { ino, peer_ino, path } => {
                let known = self.unix.entry(*ino).or_default();
                known.0 = if known.0 == 0 { *peer_ino } else { known.0 };
                if let Some(path) = path.as_ref().filter(|_| known.1.is_empty()) {
                    known.1.clone_from(path);
                }
            }
            ObjectRef::Tty { name, dev } if !Terminal::of(name).is_shown() => {
                self.terminals.entry(*dev).or_insert_with(|| name.clone());
            }
            _ => {}
        }
    }

    /// At one address two others are connected, each with a port that it was given: somebody listens there, or did.
    fn learn_port(&mut self, socket: &InetRef) {
        let (own, far) = (socket.local, socket.remote);
        if socket.is_tcp() && (1..GIVEN_PORTS).contains(&own.port()) && far.port() >= GIVEN_PORTS {
            let first = *self.first_at.entry((socket.netns, own)).or_insert(far);
            if first != far {
                self.served_ports.insert((socket.netns, own.port()));
            }
        }
    }

    /// An address that somebody has in a network namespace, or that others came to there.
    pub(super) fn learn_address(&mut self, netns: u32, ip: IpAddr) {
        let ip = ip.to_canonical();
        if !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback() {
            self.own_addresses.entry(netns).or_default().insert(ip);
        }
    }

    /// Whether an address is one of a network namespace's own: what is sent to it stays there.
    pub(crate) fn has_address(&self, netns: u32, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback() || self.own_addresses.get(&netns).is_some_and(|all| all.contains(&ip))
    }

    /// Whether a listener, or a socket without a peer, is at the other end of a client's, by its port and address. What is bound to all
    /// addresses is at those of its own namespace, and no other host's; behind a translation at those of the namespace that it leads to.
    pub(crate) fn leads_to(&self, client: &InetRef, server: &InetRef) -> bool {
        let far = self.translations.far_end(client);
        let (asked, near) = self.translations.other_end(client);
        let ip = asked.ip().to_canonical();
        let has_all = || {
            let takes_family = server.local.ip().is_ipv6() || ip.is_ipv4();
            let is_here = match far {
                Some(far) => far.netns == Some(server.netns),
                None if ip.is_loopback() || ip == near.ip().to_canonical() => {
                    client.netns == server.netns
                }
                // A server of datagrams has no socket that shows an address; where it has the namespace to itself none may be known.
                None => {
                    self.has_address(server.netns, ip)
                        || client.netns != server.netns
                            && !self.own_addresses.contains_key(&server.netns)
                }
            };
            server.local.ip().is_unspecified() && takes_family && is_here
        };
        // Each namespace has its own loopback.
        let netns = far.and_then(|far| far.netns).unwrap_or(client.netns);
        let is_there = !ip.is_loopback() || netns == server.netns;
        let has_it = || server.local.ip().to_canonical() == ip;
        asked.port() == server.local.port() && is_there && (has_it() || has_all())
    }

    /// Ports at which several were connected, by network namespace: whoever listened there may have ended before his descriptors were read.
    pub(crate) fn served_ports(&self) -> &HashSet<(u32, u16)> {
        &self.served_ports
    }

    /// Where a socket sends to that had no other end as it was seen before.
    pub(super) fn learn_remote(&mut self, object: &ObjectRef) {
        if let ObjectRef::Inet(socket) = object
            && let Some(known) = self.sockets.get_mut(&socket.ino)
            && known.remote.ip().is_unspecified()
        {
            known.remote = socket.remote;
        }
    }

    /// A path of a file; the first that is said stays.
    pub(super) fn learn_path(&mut self, file: FileKey, path: &str) {
        self.files.entry(file).or_insert_with(|| path.to_string());
    }

    /// The path that a unix socket is bound to.
    pub fn unix_path(&self, ino: u64) -> Option<&str> {
        self.unix.get(&ino).map(|(_, path)| path.as_str()).filter(|path| !path.is_empty())
    }

    /// The other end of a unix socket.
    pub fn unix_peer(&self, ino: u64) -> Option<u64> {
        self.unix.get(&ino).map(|(peer, _)| *peer).filter(|peer| *peer != 0)
    }

    /// An internet socket by its inode.
    pub fn socket(&self, ino: u64) -> Option<&InetRef> {
        self.sockets.get(&ino)
    }

    /// A socket as it was while it was connected: one that is closed has lost its own port (inet_put_port, net/ipv4/inet_hashtables.c),
    /// and nobody is found at the other end of what is left.
    pub fn connected<'s>(&'s self, socket: &'s InetRef) -> &'s InetRef {
        match socket.local.port() {
            0 => self.socket(socket.ino).filter(|it| it.remote == socket.remote).unwrap_or(socket),
            _ => socket,
        }
    }

    /// A path of a file.
    pub fn path_of(&self, file: FileKey) -> Option<&str> {
        self.files.get(&file).map(String::as_str)
    }

    /// The name of a terminal, `pts/3`.
    pub fn terminal_name(&self, dev: DeviceNumber) -> Option<&str> {
        self.terminals.get(&dev).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(local: &str, state: u8) -> InetRef {
        let at = |text: &str| text.parse().expect("an address");
        let (local, remote) = (at(local), at("127.0.0.1:80"));
        InetRef { ino: 7, netns: 1, protocol: "tcp".into(), local, remote, state }
    }

    #[test]
    fn a_socket_that_was_seen_after_its_end_is_called_as_while_it_was_connected() {
        let (open, closed) = (seen("127.0.0.1:4000", 1), seen("127.0.0.1:0", 7));
        for sights in [[&open, &closed], [&closed, &open]] {
            let mut called = Called::default();
            sights.iter().for_each(|sight| called.learn(&ObjectRef::Inet((*sight).clone())));
            assert_eq!(called.socket(7), Some(&open));
            assert_eq!(called.connected(&closed), &open);
            assert_eq!(called.connected(&open), &open);
        }
        assert_eq!(Called::default().connected(&closed), &closed, "nothing else was seen");
    }

    #[test]
    fn where_two_others_are_connected_somebody_listens() {
        let served = |ends: &[(&str, &str)]| {
            let mut called = Called::default();
            for (local, remote) in ends {
                let at = |text: &str| text.parse().expect("an address");
                let socket = InetRef { local: at(local), remote: at(remote), ..seen(local, 1) };
                called.learn(&ObjectRef::Inet(socket));
            }
            called.served_ports().contains(&(1, 8_080))
        };
        let own = "127.0.0.1:8080";
        assert!(served(&[(own, "127.0.0.1:40000"), (own, "127.0.0.1:40002")]));
        assert!(!served(&[(own, "127.0.0.1:40000"), (own, "127.0.0.1:40000")]), "one connection");
        assert!(!served(&[(own, "127.0.0.1:80"), (own, "127.0.0.1:443")]), "a client's port");
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn socket(netns: u32, local: &str, remote: &str) -> InetRef {
        InetRef { netns, local: at(local), remote: at(remote), ..seen("127.0.0.1:1", 1) }
    }

    fn listens(netns: u32, local: &str) -> InetRef {
        socket(netns, local, "0.0.0.0:0")
    }

    #[test]
    fn who_listens_everywhere_is_at_the_addresses_of_its_own_namespace() {
        let mut called = Called::default();
        let plain = socket(1, "10.0.0.9:1", "10.0.0.8:53");
        assert!(!called.leads_to(&plain, &listens(1, "0.0.0.0:53")), "another host's address");
        called.learn_address(6, at("10.0.0.8:53").ip());
        called.learn_address(7, at("10.0.0.7:53").ip());
        assert!(called.leads_to(&plain, &listens(6, "0.0.0.0:53")));
        assert!(!called.leads_to(&plain, &listens(7, "0.0.0.0:53")), "another namespace");
        let own = socket(1, "10.0.0.9:1", "10.0.0.9:53");
        assert!(called.leads_to(&own, &listens(1, "0.0.0.0:53")), "its own address");
        let six = socket(1, "[fd00::1]:1", "[fd00::1]:53");
        assert!(called.leads_to(&six, &listens(1, "[::]:53")));
        assert!(!called.leads_to(&six, &listens(1, "0.0.0.0:53")), "of the other family");
    }

    #[test]
    fn behind_a_translation_it_is_where_that_leads_to() {
        let mut called = Called::default();
        let (local, remote) = (at("10.0.0.9:4000"), at("10.96.0.10:53"));
        let (far_local, far_remote) = (at("10.244.0.2:5353"), local);
        let far_netns = Some(5);
        let translated = Translation { netns: 1, local, remote, far_local, far_remote, far_netns };
        called.translations.learn(&translated);
        let client = socket(1, "10.0.0.9:4000", "10.96.0.10:53");
        assert!(called.leads_to(&client, &listens(5, "0.0.0.0:5353")));
        assert!(!called.leads_to(&client, &listens(6, "0.0.0.0:5353")), "another container's");
        assert!(called.leads_to(&client, &listens(6, "10.244.0.2:5353")));
        assert!(!called.leads_to(&client, &listens(5, "0.0.0.0:53")), "what was asked");
    }
}
