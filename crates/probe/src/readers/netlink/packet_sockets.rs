//! Who has an interface take every frame, also those for others: sockets of AF_PACKET that asked for it (PACKET_MR_PROMISC).
//!
//! Asked of sock_diag (include/uapi/linux/packet_diag.h), once, as the look ends, and only in namespaces that have such a socket at all: /proc/net/packet
//! says so for the price of a file. Whose a socket is, its inode among the descriptors says; they are walked only if one was found. Any bytes may come
//! in; fuzzed. Must not: say that it is too many, or take the rtnl lock. Rejected: IFLA_PROMISCUITY, a number that bridges and macvlans raise as well.
//!
//! Edit together: reason's facts/net.rs (`PacketSocket`), rules/net/promiscuous.rs.

use super::attributes::{attributes, u32_at};
use super::exchange::dump;
use super::{Place, is_no_answer};
use crate::SourceError;
use crate::readers::look::Look;
use crate::readers::reader::{Opening, Reader};
use crate::system::clock::now;
use crate::system::namespaces::network_namespaces;
use crate::system::{Roots, text};
use holdup_reason::facts::{Body, Fact, PacketSocket, ThreadRef};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Descriptors that are looked at: some tenths of a second on a host with that many.
const DESCRIPTORS_MAX: usize = 100_000;
/// Sockets that are reported.
const SOCKETS_MAX: usize = 32;

/// See the head of the file.
pub(crate) struct PacketSockets;

impl Reader for PacketSockets {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let Some(netlink) = look.netlink.as_mut() else { return Ok(()) };
        let wanted = with_packet_sockets(&look.roots);
        if wanted.is_empty() {
            return Ok(());
        }
        let at_ns = now();
        let found = netlink.ask(move |place, buffer| promiscuous(place, buffer, &wanted));
        let (sockets, others): (Vec<Body>, Vec<Body>) =
            found.into_iter().partition(|body| matches!(body, Body::PacketSocket(_)));
        facts.extend(others.into_iter().map(|body| Fact { at_ns, body }));
        let mut by_inode: BTreeMap<u64, Vec<PacketSocket>> = BTreeMap::new();
        for body in sockets.into_iter().take(SOCKETS_MAX) {
            if let Body::PacketSocket(socket) = body {
                by_inode.entry(socket.ino).or_default().push(socket);
            }
        }
        for socket in with_processes(&look.roots, by_inode) {
            look.identities.want(socket.process.pid);
            facts.push(Fact { at_ns, body: Body::PacketSocket(socket) });
        }
        Ok(())
    }
}

/// Namespaces in which somebody has a packet socket.
fn with_packet_sockets(roots: &Roots) -> BTreeSet<u32> {
    // Behind a line of heads.
    let has_one = |pid: u32| {
        let listed = text::read(&roots.process(pid, "net/packet")).unwrap_or_default();
        text::lines(&listed).nth(1).is_some()
    };
    let namespaces = network_namespaces(roots).into_iter();
    namespaces.filter(|(_, pid)| has_one(*pid)).map(|(netns, _)| netns).collect()
}

/// Sockets of a namespace that have interfaces take all.
fn promiscuous(
    place: &mut Place,
    buffer: &mut Vec<u8>,
    wanted: &BTreeSet<u32>,
) -> io::Result<Vec<Body>> {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    let netns = place.namespace.netns;
    if !wanted.contains(&netns) {
        return Ok(Vec::new());
    }
    let socket = place.socket_of(NETLINK_SOCK_DIAG)?;
    let mut found = Vec::new();
    let asked = dump(&socket, SOCK_DIAG_BY_FAMILY, &request(), buffer, |message| {
        found.extend(memberships(message));
    });
    match asked {
        // A kernel without packet_diag: nobody is known, and nothing else is missing for it.
        Err(error) if is_no_answer(&error) => return Ok(Vec::new()),
        asked => asked?,
    };
    let named = |(ino, index): (u64, u32)| {
        let interface = place.interfaces.get(&index)?.name.clone();
        Some(PacketSocket { netns, interface, index, ino, ..PacketSocket::default() })
    };
    Ok(found.into_iter().filter_map(named).map(Body::PacketSocket).collect())
}

/// struct packet_diag_req: all sockets, with what they asked of interfaces.
fn request() -> Vec<u8> {
    const BYTES: usize = 20;
    const SHOW: usize = 8;
    const PACKET_SHOW_MCLIST: u32 = 2;
    let mut request = vec![0; BYTES];
    request[0] = libc::AF_PACKET as u8;
    request[SHOW..SHOW + 4].copy_from_slice(&PACKET_SHOW_MCLIST.to_ne_bytes());
    request
}

/// The inode of a socket of struct packet_diag_msg, with each interface that it has take all.
pub(crate) fn memberships(message: &[u8]) -> Vec<(u64, u32)> {
    const HEAD: usize = 16;
    const PACKET_DIAG_MCLIST: u16 = 1;
    const MEMBERSHIP: usize = 44;
    const PACKET_MR_PROMISC: u16 = 1;
    let Some(ino) = u32_at(message, 4) else { return Vec::new() };
    let found = attributes(message.get(HEAD..).unwrap_or_default());
    let all = found.get(&PACKET_DIAG_MCLIST).copied().unwrap_or_default();
    let one = |it: &[u8]| {
        let kind = u16::from_ne_bytes(*it.get(8..10)?.first_chunk()?);
        (kind == PACKET_MR_PROMISC).then_some((u64::from(ino), u32_at(it, 0)?))
    };
    all.chunks_exact(MEMBERSHIP).filter_map(one).collect()
}

/// Each socket with a process that has it; of several one.
fn with_processes(
    roots: &Roots,
    mut wanted: BTreeMap<u64, Vec<PacketSocket>>,
) -> Vec<PacketSocket> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    for pid in text::ids(&roots.proc).unwrap_or_default() {
        if wanted.is_empty() {
            break;
        }
        let Ok(descriptors) = std::fs::read_dir(roots.process(pid, "fd")) else { continue };
        for descriptor in descriptors.flatten() {
            looked_at += 1;
            if looked_at > DESCRIPTORS_MAX {
                return found;
            }
            let leads_to = std::fs::read_link(descriptor.path()).unwrap_or_default();
            let Some(ino) = inode_of(leads_to.as_os_str().as_bytes()) else { continue };
            let comm = || text::read_text(&roots.process(pid, "comm")).unwrap_or_default();
            for socket in wanted.remove(&ino).into_iter().flatten() {
                let comm = comm().trim_end().to_string();
                let process = ThreadRef { tid: pid, pid, start_ns: 0, comm };
                found.push(PacketSocket { process, ..socket });
            }
        }
    }
    found
}

/// `socket:[8000]`.
fn inode_of(link: &[u8]) -> Option<u64> {
    let number = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::attributes::put_attribute;
    use super::*;

    #[test]
    fn a_socket_says_which_interface_is_to_take_all() {
        let mut message = vec![17, 3, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let member = |index: u32, kind: u16| {
            let mut bytes = vec![0; 44];
            bytes[..4].copy_from_slice(&index.to_ne_bytes());
            bytes[8..10].copy_from_slice(&kind.to_ne_bytes());
            bytes
        };
        put_attribute(&mut message, 1, &[member(3, 1), member(4, 0)].concat());
        assert_eq!(memberships(&message), [(9, 3)], "the other one asked for a group");
        assert_eq!(memberships(&message[..20]), []);
        assert_eq!(memberships(&[]), []);
    }

    #[test]
    fn a_descriptor_of_a_socket_says_which() {
        assert_eq!(inode_of(b"socket:[8000]"), Some(8_000));
        assert_eq!(inode_of(b"pipe:[8000]"), None);
    }
}
