//! Connections whose addresses are translated on this host (NAT), as both of their ends have them: a published port of a container, the
//! address of a service, what goes out by a gateway. Asked of ctnetlink, one connection at a time (IPCTNL_MSG_CT_GET,
//! include/uapi/linux/netfilter/nfnetlink_conntrack.h).
//!
//! Theory: the ends of a connection are found by their addresses, in whichever namespace they are; behind a translation each end has
//! another pair, and a process of this host is taken for a remote one. The table of connections knows both pairs. It is asked as the look
//! ends, and only for what somebody waits on whose other end has no descriptor here: a table has hundreds of thousands of entries.
//!
//! Any bytes may come in; fuzzed. Must not: dump the table, change it, or have the kernel load a module for the question. Rejected:
//! /proc/net/nf_conntrack (the whole table as text, not in every kernel), a hook on connect (BPF of cgroups that translate leave no entry, and
//! connections are older than the look).

use super::attributes::*;
use super::exchange::ask;
use super::routes::is_own_address;
use super::{Netlink, Place, is_no_answer};
use crate::SourceError;
use crate::readers::look::Look;
use crate::readers::reader::{Opening, Reader};
use crate::readers::waited::Waited;
use crate::system::clock::now;
use crate::system::modules;
use holdup_reason::facts::{Body, Endpoint, Fact, InetRef, ObjectRef, Translation};
use netlink_sys::Socket;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// What answers; a question to it where it is not there would load it.
const MODULE: &str = "nf_conntrack_netlink";
const SUBSYSTEM: u16 = 1 << 8;
const GET: u16 = SUBSYSTEM | 1;
const GET_STATS: u16 = SUBSYSTEM | 5;
/// CTA_TUPLE_ORIG, CTA_TUPLE_REPLY.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
/// TCP_LISTEN.
const LISTEN: u8 = 10;
/// Connections that are asked about.
const CONNECTIONS_MAX: usize = 64;
/// Namespaces that are asked beside the host's and the connections' own: each costs a thread for a moment.
const NAMESPACES_MAX: usize = 32;

/// See the head of the file.
pub(crate) struct Translations;

impl Reader for Translations {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    /// Before the connections of the look are given away.
    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        look.read_endpoints()?;
        let now_open = look.last.endpoints.iter().flat_map(|(_, all)| all);
        let seen: Vec<&Endpoint> = now_open.chain(look.ends.between()).collect();
        let wanted = without_other_end(&seen, &look.waited);
        let Some(netlink) = look.netlink.as_mut().filter(|_| !wanted.is_empty()) else {
            return Ok(());
        };
        if !modules::is_there(&look.roots, MODULE) {
            return Ok(());
        }
        let at_ns = now();
        let found = ask_tables(netlink, wanted);
        let found = with_owners(netlink, found);
        // The other ends are reported as those of any wait are.
        let far: HashSet<_> = found.iter().map(|it| (it.far_local, it.far_remote)).collect();
        let is_far = |end: &&Endpoint| pair_of(end).is_some_and(|pair| far.contains(&pair));
        let far = look.last.endpoints.iter().flat_map(|(_, all)| all).filter(is_far);
        look.waited.objects.extend(far.map(Endpoint::object_ino));
        facts.extend(found.into_iter().map(|it| Fact { at_ns, body: Body::Translation(it) }));
        Ok(())
    }
}

/// The addresses of an end, as it has them.
fn pair_of(end: &Endpoint) -> Option<(SocketAddr, SocketAddr)> {
    match &end.object {
        ObjectRef::Inet(socket) => Some((socket.local, socket.remote)),
        _ => None,
    }
}

/// Connections that somebody waits on, or did, made from this end, whose other end is no descriptor of this host. Of many those that are open.
fn without_other_end(all: &[&Endpoint], waited: &Waited) -> Vec<InetRef> {
    let sockets = || {
        all.iter().filter_map(|end| match &end.object {
            ObjectRef::Inet(socket) => Some((end, socket)),
            _ => None,
        })
    };
    let pairs: HashSet<_> = sockets().map(|(_, it)| (it.local, it.remote)).collect();
    let listening = sockets().filter(|(_, it)| it.state == LISTEN);
    let ports: HashSet<_> = listening.map(|(_, it)| (it.netns, it.local.port())).collect();
    let is_waited = |end: &Endpoint| {
        waited.objects.contains(&end.object_ino())
            || waited.polled.contains_key(&(end.process.pid, end.fd))
    };
    let open = sockets().filter(|(end, _)| is_waited(end)).map(|(_, socket)| socket);
    let mut wanted: BTreeMap<u64, InetRef> = BTreeMap::new();
    for socket in open.chain(waited.connections.values()) {
        let is_made_here = socket.remote.port() != 0
            && protocol(socket).is_some()
            && !ports.contains(&(socket.netns, socket.local.port()));
        let is_alone = !pairs.contains(&(socket.remote, socket.local));
        if is_made_here && is_alone && wanted.len() < CONNECTIONS_MAX {
            wanted.insert(socket.ino, socket.clone());
        }
    }
    wanted.into_values().collect()
}

/// What the tables know of them: the host's, those of the connections' own namespaces, and of some others.
fn ask_tables(netlink: &mut Netlink, mut wanted: Vec<InetRef>) -> Vec<Translation> {
    let mut others = NAMESPACES_MAX;
    let read = netlink.ask(move |place, buffer| {
        let is_own = wanted.iter().any(|it| it.netns == place.namespace.netns);
        if !is_own && !place.namespace.name.is_empty() {
            match others {
                0 => return Ok(Vec::new()),
                _ => others -= 1,
            }
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        // An ordinary user may not ask: then nothing is known, as without a table.
        Ok(translations(place, buffer, &mut wanted).unwrap_or_default())
    });
    only_translations(read)
}

fn only_translations(read: Vec<Body>) -> Vec<Translation> {
    let of = |body| match body {
        Body::Translation(it) => Some(it),
        _ => None,
    };
    read.into_iter().filter_map(of).collect()
}

/// With the namespaces that have the other ends' addresses: the one that translates, or the only one.
fn with_owners(netlink: &mut Netlink, found: Vec<Translation>) -> Vec<Translation> {
    if found.is_empty() {
        return found;
    }
    let asked = found.clone();
    let read = netlink.ask(move |place, buffer| {
        let netns = place.namespace.netns;
        let mut own = asked.clone();
        own.retain(|it| is_own_address(&place.socket, it.far_local.ip(), buffer));
        let with = |it| Body::Translation(Translation { far_netns: Some(netns), ..it });
        Ok(own.into_iter().map(with).collect())
    });
    let owners = only_translations(read);
    found.into_iter().map(|it| Translation { far_netns: owner(&it, &owners), ..it }).collect()
}

fn owner(of: &Translation, owners: &[Translation]) -> Option<u32> {
    let its = owners.iter().filter(|it| (it.local, it.remote) == (of.local, of.remote));
    let all: Vec<u32> = its.filter_map(|it| it.far_netns).collect();
    match all[..] {
        [only] => Some(only),
        _ => Some(of.netns).filter(|netns| all.contains(netns)),
    }
}

/// Its number, of those that are translated by ports.
fn protocol(socket: &InetRef) -> Option<u8> {
    match socket.protocol.as_str() {
        "tcp" | "mptcp" => Some(libc::IPPROTO_TCP as u8),
        "udp" => Some(libc::IPPROTO_UDP as u8),
        _ => None,
    }
}

/// What one namespace's table knows of them; those are wanted no more.
fn translations(
    place: &Place,
    buffer: &mut Vec<u8>,
    wanted: &mut Vec<InetRef>,
) -> io::Result<Vec<Body>> {
    let netns = place.namespace.netns;
    let socket = place.filter_socket()?;
    if is_empty(&socket, buffer)? {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    // Of one that was found no other namespace is asked.
    wanted.retain(|connection| match translation(&socket, connection, buffer) {
        Ok(Some((far_local, far_remote))) => {
            found.push(Body::Translation(Translation {
                netns,
                local: connection.local,
                remote: connection.remote,
                far_local,
                far_remote,
                far_netns: None,
            }));
            false
        }
        Ok(None) | Err(_) => true,
    });
    Ok(found)
}

/// Whether no connection is tracked in a namespace.
fn is_empty(socket: &Socket, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let entries = ask(socket, GET_STATS, &[0; 4], buffer, entries)?;
    Ok(entries == Some(0))
}

/// CTA_STATS_GLOBAL_ENTRIES of an answer to IPCTNL_MSG_CT_GET_STATS.
fn entries(message: &[u8]) -> Option<u32> {
    const ENTRIES: u16 = 1;
    let found = attributes(message.get(4..)?);
    Some(u32::from_be_bytes(*found.get(&ENTRIES)?.first_chunk()?))
}

/// The addresses of a connection as its other end has them, if they are not those of this one.
fn translation(
    socket: &Socket,
    connection: &InetRef,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<(SocketAddr, SocketAddr)>> {
    let canonical = |it: SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
    let asked = Pair { from: canonical(connection.local), to: canonical(connection.remote) };
    let Some(request) = request(connection, asked) else { return Ok(None) };
    match ask(socket, GET, &request, buffer, tracked) {
        Ok(answer) => Ok(answer.and_then(|it| it.other_end_of(asked))),
        Err(error) if is_no_answer(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where packets come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    from: SocketAddr,
    to: SocketAddr,
}

/// A connection as the table has it: the addresses of packets of whoever began it, and of those that come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tracked {
    original: Pair,
    reply: Pair,
}

impl Tracked {
    /// What the other end of the one that was asked about calls itself, and this one; none if nothing is translated.
    fn other_end_of(self, asked: Pair) -> Option<(SocketAddr, SocketAddr)> {
        let far = match asked {
            _ if asked == self.original => self.reply,
            _ if asked == self.reply => self.original,
            _ => return None,
        };
        let is_plain = (far.from, far.to) == (asked.to, asked.from);
        (!is_plain).then_some((far.from, far.to))
    }
}

/// struct nfgenmsg, and the addresses of packets in one direction.
fn request(connection: &InetRef, pair: Pair) -> Option<Vec<u8>> {
    let (from, to) = (pair.from.ip(), pair.to.ip());
    let [from_kind, to_kind] = kinds(from);
    let (mut ip, mut ports, mut tuple) = (Vec::new(), Vec::new(), Vec::new());
    put_attribute(&mut ip, from_kind, &octets(from));
    put_attribute(&mut ip, to_kind, &octets(to));
    put_attribute(&mut ports, PROTOCOL, &[protocol(connection)?]);
    put_attribute(&mut ports, FROM_PORT, &pair.from.port().to_be_bytes());
    put_attribute(&mut ports, TO_PORT, &pair.to.port().to_be_bytes());
    put_attribute(&mut tuple, IP | NESTED, &ip);
    put_attribute(&mut tuple, PORTS | NESTED, &ports);
    let mut message = vec![family(&octets(from)), 0, 0, 0];
    put_attribute(&mut message, ORIGINAL | NESTED, &tuple);
    Some(message)
}

/// Of a tuple: CTA_TUPLE_IP, CTA_TUPLE_PROTO.
const IP: u16 = 1;
const PORTS: u16 = 2;
/// CTA_PROTO_NUM, CTA_PROTO_SRC_PORT, CTA_PROTO_DST_PORT.
const PROTOCOL: u16 = 1;
const FROM_PORT: u16 = 2;
const TO_PORT: u16 = 3;

/// CTA_IP_V4_SRC and CTA_IP_V4_DST, or those of IPv6.
fn kinds(address: IpAddr) -> [u16; 2] {
    if address.is_ipv4() { [1, 2] } else { [3, 4] }
}

/// An answer to IPCTNL_MSG_CT_GET behind its netlink header.
pub(crate) fn tracked(message: &[u8]) -> Option<Tracked> {
    let found = attributes(message.get(4..)?);
    let pair = |kind| pair(found.get(&kind)?);
    Some(Tracked { original: pair(ORIGINAL)?, reply: pair(REPLY)? })
}

fn pair(tuple: &[u8]) -> Option<Pair> {
    let found = attributes(tuple);
    let (ip, ports) = (attributes(found.get(&IP)?), attributes(found.get(&PORTS)?));
    let end = |kinds: [u16; 2], port: u16| {
        let ip = kinds.iter().find_map(|kind| address(ip.get(kind)?))?;
        let port = u16::from_be_bytes(*ports.get(&port)?.first_chunk()?);
        Some(SocketAddr::new(ip, port))
    };
    Some(Pair { from: end([1, 3], FROM_PORT)?, to: end([2, 4], TO_PORT)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::ThreadRef;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn socket(ino: u64, local: &str, remote: &str, state: u8) -> InetRef {
        let (local, remote) = (at(local), at(remote));
        InetRef { ino, netns: 7, protocol: "tcp".into(), local, remote, state }
    }

    /// An answer of the kernel's: what goes there, and what comes back.
    fn answer(original: (&str, &str), reply: (&str, &str)) -> Vec<u8> {
        let of = |(from, to): (&str, &str)| {
            let pair = Pair { from: at(from), to: at(to) };
            request(&socket(1, from, to, 1), pair).expect("a request")
        };
        let mut message = of(original);
        let back = of(reply);
        let tuple = attributes(&back[4..])[&ORIGINAL].to_vec();
        put_attribute(&mut message, REPLY | NESTED, &tuple);
        put_attribute(&mut message, 99, b"of a later kernel");
        message
    }

    #[test]
    fn a_published_port_is_the_container_s_from_either_end() {
        let (client, published) = ("10.0.0.9:40000", "10.0.0.1:8080");
        let (server, gateway) = ("10.88.0.2:80", "10.88.0.1:40000");
        let found = tracked(&answer((client, published), (server, gateway))).expect("an entry");
        let near = Pair { from: at(client), to: at(published) };
        assert_eq!(found.other_end_of(near), Some((at(server), at(gateway))));
        let far = Pair { from: at(server), to: at(gateway) };
        assert_eq!(found.other_end_of(far), Some((at(client), at(published))));
        let another = Pair { from: at(client), to: at(server) };
        assert_eq!(found.other_end_of(another), None, "an answer to something else");
    }

    #[test]
    fn what_is_only_tracked_has_no_other_addresses() {
        let (client, server) = ("[fd00::1]:40000", "[fd00::2]:80");
        let found = tracked(&answer((client, server), (server, client))).expect("an entry");
        let near = Pair { from: at(client), to: at(server) };
        assert_eq!(found.other_end_of(near), None);
    }

    #[test]
    fn an_answer_that_is_cut_is_none() {
        let whole = answer(("10.0.0.9:1", "10.0.0.1:2"), ("10.0.0.1:2", "10.0.0.9:1"));
        let last = whole.len() - "of a later kernel".len() - 8;
        for length in 0..last {
            assert_eq!(tracked(&whole[..length]), None, "{length}");
        }
        assert_eq!(entries(&[0; 4]), None);
        let mut empty = vec![0; 4];
        put_attribute(&mut empty, 1, &0_u32.to_be_bytes());
        assert_eq!(entries(&empty), Some(0));
    }

    #[test]
    fn only_what_is_waited_on_and_ends_nowhere_here_is_asked_about() {
        let end = |ino, local: &str, remote: &str, state| Endpoint {
            process: ThreadRef::default(),
            fd: ino as u32,
            readable: true,
            writable: true,
            nonblocking: false,
            object: ObjectRef::Inet(socket(ino, local, remote, state)),
            unread: None,
            output_stopped: false,
            socket: None,
        };
        let all = [
            end(1, "10.0.0.9:40000", "10.0.0.1:8080", 1),
            end(2, "10.0.0.9:40001", "10.0.0.1:8080", 1),
            // Both ends are here.
            end(3, "10.0.0.9:40002", "10.0.0.9:81", 1),
            end(4, "10.0.0.9:81", "10.0.0.9:40002", 1),
            // Who came to a listener of this host.
            end(5, "0.0.0.0:82", "0.0.0.0:0", LISTEN),
            end(6, "10.0.0.9:82", "10.0.0.5:40000", 1),
        ];
        let mut waited = Waited::default();
        all.iter().filter(|end| end.fd != 2).for_each(|end| waited.add(Some(&end.object)));
        // Closed since.
        waited.add(Some(&ObjectRef::Inet(socket(7, "10.0.0.9:40003", "10.0.0.1:8080", 1))));
        let all: Vec<&Endpoint> = all.iter().collect();
        let asked = without_other_end(&all, &waited);
        assert_eq!(asked.iter().map(|it| it.ino).collect::<Vec<_>>(), [1, 7]);
        waited.polled.insert((0, 2), ThreadRef::default());
        assert_eq!(without_other_end(&all, &waited).len(), 3);
        assert_eq!(without_other_end(&all, &Waited::default()), []);
    }

    #[test]
    fn who_has_an_address_is_the_only_one_that_has_it_or_who_translates() {
        let of = |far_netns| Translation {
            netns: 1,
            local: at("10.0.0.9:1"),
            remote: at("10.0.0.1:2"),
            far_local: at("10.88.0.2:80"),
            far_remote: at("10.0.0.9:1"),
            far_netns,
        };
        let owner_of = |all: &[u32]| {
            let all: Vec<Translation> = all.iter().map(|netns| of(Some(*netns))).collect();
            owner(&of(None), &all)
        };
        assert_eq!(owner_of(&[]), None);
        assert_eq!(owner_of(&[5]), Some(5));
        assert_eq!(owner_of(&[5, 6]), None);
        assert_eq!(owner_of(&[5, 1]), Some(1));
    }
}
