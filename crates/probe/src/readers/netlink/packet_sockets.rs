//! Who has an interface take every frame, also those for others: sockets of AF_PACKET that asked for it (PACKET_MR_PROMISC).
//!
//! Asked of sock_diag (include/uapi/linux/packet_diag.h), once, as the look ends, and only in namespaces that have such a socket at all: /proc/net/packet
//! says so for the price of a file. Whose a socket is, its inode among the descriptors says; they are walked only if one was found. Any bytes may come
//! in; fuzzed. Must not: say that it is too many, take the rtnl lock, or have the kernel load a module for the question. Rejected: IFLA_PROMISCUITY, a number that bridges and macvlans raise as well.
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
use crate::system::{Roots, modules, text};
use holdup_reason::facts::{Blind, Body, Fact, PacketSocket, ThreadRef};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Descriptors that are looked at: some tenths of a second on a host with that many.
const DESCRIPTORS_MAX: usize = 100_000;
/// Sockets that are reported.
const SOCKETS_MAX: usize = 32;
/// What answers; a question to it where it is not there would load it.
const MODULE: &str = "af_packet_diag";
/// What this is about, as a word for what could not be seen of it.
const WHAT: &str = "packet_sockets";
const THEREFORE: &str = "who has an interface take every frame is not known";

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
        if !modules::is_there(&look.roots, MODULE) {
            if takes_all(&look.roots) {
                let blind = modules::not_asked(WHAT, MODULE, THEREFORE);
                facts.push(Fact { at_ns, body: Body::Blind(blind) });
            }
            return Ok(());
        }
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
        let (found, unread) = with_processes(&look.roots, by_inode, DESCRIPTORS_MAX);
        for socket in found {
            look.identities.want(socket.process.pid);
            facts.push(Fact { at_ns, body: Body::PacketSocket(socket) });
        }
        facts.extend(unread.map(|blind| Fact { at_ns, body: Body::Blind(blind) }));
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

/// Whether an interface is seen to take all, of those that no bridge made do so.
fn takes_all(roots: &Roots) -> bool {
    let is_one = |device: std::fs::DirEntry| {
        let flags = text::read_text(&device.path().join("flags")).unwrap_or_default();
        let flags = flags.trim().strip_prefix("0x").map(|hex| u32::from_str_radix(hex, 16));
        let takes_all =
            flags.is_some_and(|it| it.is_ok_and(|it| it & libc::IFF_PROMISC as u32 != 0));
        takes_all && !device.path().join("brport").exists()
    };
    std::fs::read_dir(roots.sys.join("class/net")).is_ok_and(|all| all.flatten().any(is_one))
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
        // A kernel without af_packet_diag: nobody is known, and nothing else is missing for it.
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

/// Each socket with a process that has it; of several one. And that there are more descriptors than are looked at, where that is why one has none.
fn with_processes(
    roots: &Roots,
    mut wanted: BTreeMap<u64, Vec<PacketSocket>>,
    descriptors_max: usize,
) -> (Vec<PacketSocket>, Option<Blind>) {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    for pid in text::ids(&roots.proc).unwrap_or_default() {
        if wanted.is_empty() {
            break;
        }
        let Ok(descriptors) = std::fs::read_dir(roots.process(pid, "fd")) else { continue };
        for descriptor in descriptors.flatten() {
            looked_at += 1;
            if looked_at > descriptors_max {
                let blind = Blind {
                    what: WHAT.into(),
                    why: format!(
                        "it is none of the {descriptors_max} descriptors that were looked at"
                    ),
                    therefore: THEREFORE.into(),
                    ..Blind::default()
                };
                return (found, Some(blind));
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
    (found, None)
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
    fn a_capture_that_is_not_among_the_descriptors_is_said_to_be_unknown() {
        let (socket, _far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let link = std::fs::read_link(link).expect("a link");
        let ino = inode_of(link.as_os_str().as_bytes()).expect("an inode");
        let seen = |max| {
            let wanted = BTreeMap::from([(ino, vec![PacketSocket::default()])]);
            let (found, unread) = with_processes(&Roots::default(), wanted, max);
            (found.len(), unread.is_some())
        };
        assert_eq!(seen(usize::MAX), (1, false));
        assert_eq!(seen(0), (0, true));
    }

    #[test]
    fn the_module_is_the_one_that_the_kernel_loads_for_the_question() {
        // net/packet/Makefile: af_packet_diag-y += diag.o.
        assert_eq!(modules::not_asked(WHAT, MODULE, THEREFORE).remedy, "modprobe af_packet_diag");
    }

    #[test]
    fn a_descriptor_of_a_socket_says_which() {
        assert_eq!(inode_of(b"socket:[8000]"), Some(8_000));
        assert_eq!(inode_of(b"pipe:[8000]"), None);
    }
}
