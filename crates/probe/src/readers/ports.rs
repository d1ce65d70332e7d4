//! How many connections go to an address, of a namespace in which somebody was refused another for want of a port (EADDRNOTAVAIL).
//!
//! Only where connect was refused so within the look, so that no look without one lists a host's connections. The settings belong to the
//! namespace, and /proc/sys shows those of whoever reads it: both are read by a short-lived thread that enters it. Must not: judge whether
//! they are too many.
//!
//! Edit together: bpf/refused.bpf.c (what is reported), netlink/ (how a namespace is entered).

use super::look::Look;
use super::netlink::dump;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::links::{link, namespace_inode};
use crate::system::own::priority;
use crate::system::{blind, text};
use holdup_reason::facts::{Body, Fact, PortUse};
use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;

const EADDRNOTAVAIL: i32 = 99;
/// Addresses that are counted.
const ADDRESSES_MAX: usize = 16;
const TIME_WAIT: u8 = 6;
const LISTEN: u8 = 10;

/// The addresses for which no port was left, by namespace, with a file that stands for it.
#[derive(Default)]
pub(super) struct Ports(BTreeMap<(u32, SocketAddr), File>);

impl Reader for Ports {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self::default())
    }

    /// Whoever was refused may be gone as the look ends, and its namespace with it.
    fn tick(
        &mut self,
        look: &mut Look,
        _: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        for fact in facts.iter() {
            let Body::Denied(denied) = &fact.body else { continue };
            let Some(remote) = denied.address.filter(|_| denied.syscall == "connect") else {
                continue;
            };
            if denied.errno == EADDRNOTAVAIL && self.0.len() < ADDRESSES_MAX {
                let path = look.roots.process(denied.thread.pid, "ns/net");
                let netns = link(&path).as_deref().and_then(namespace_inode);
                if let (Some(netns), Ok(file)) = (netns, File::open(&path)) {
                    self.0.entry((netns, remote)).or_insert(file);
                }
            }
        }
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        for ((netns, remote), namespace) in std::mem::take(&mut self.0) {
            let at_ns = now();
            let settings = look.roots.proc.join("sys/net/ipv4");
            let asked =
                priority::spawn("holdup-netns", move || used(netns, remote, &namespace, &settings));
            let counted = asked.and_then(|thread| {
                let ended = || io::Error::other("the thread that enters it ended");
                thread.join().unwrap_or_else(|_| Err(ended()))
            });
            let body = match counted {
                Ok(used) => Body::PortUse(used),
                Err(error) => {
                    let therefore = "how many connections go there is not known";
                    Body::Blind(blind(&format!("ports.{netns}"), &error, therefore))
                }
            };
            facts.push(Fact { at_ns, body });
        }
        Ok(())
    }
}

/// Counts in a namespace. Leaves the calling thread in it.
fn used(netns: u32, remote: SocketAddr, namespace: &File, settings: &Path) -> io::Result<PortUse> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    let file = |name: &str| text::read_text(&settings.join(name)).unwrap_or_default();
    let range = file("ip_local_port_range");
    let mut bounds = range.split_whitespace().filter_map(|word| word.parse::<u16>().ok());
    let (Some(first), Some(last)) = (bounds.next(), bounds.next()) else {
        return Err(io::Error::other("ip_local_port_range cannot be read"));
    };
    let mut used = PortUse {
        netns,
        remote,
        range: (first, last),
        reserved: reserved(&file("ip_local_reserved_ports"), first, last),
        time_wait: 0,
        open: 0,
        reuse: file("tcp_tw_reuse").trim().parse().ok(),
    };
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    let mut buffer = Vec::new();
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    // A program may reach an address of IPv4 by a socket of IPv6.
    for family in [libc::AF_INET, libc::AF_INET6] {
        let request = request(family as u8, remote.port());
        dump(&socket, SOCK_DIAG_BY_FAMILY, &request, &mut buffer, |message| {
            match connection(message) {
                Some((state, to)) if to == remote => match state {
                    TIME_WAIT => used.time_wait += 1,
                    LISTEN => {}
                    _ => used.open += 1,
                },
                _ => {}
            }
        })?;
    }
    Ok(used)
}

/// struct inet_diag_req_v2: TCP, in all states, to one port.
fn request(family: u8, port: u16) -> Vec<u8> {
    const BYTES: usize = 56;
    const TO_PORT: usize = 10;
    let mut request = vec![family, libc::IPPROTO_TCP as u8, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.resize(BYTES, 0);
    request[TO_PORT..TO_PORT + 2].copy_from_slice(&port.to_be_bytes());
    request
}

/// struct inet_diag_msg: the state, and where the connection goes to.
fn connection(message: &[u8]) -> Option<(u8, SocketAddr)> {
    let (family, state) = (*message.first()?, *message.get(1)?);
    let port = u16::from_be_bytes(*message.get(6..8)?.first_chunk()?);
    let to = message.get(24..40)?;
    let ip = match i32::from(family) {
        libc::AF_INET => IpAddr::from(*to.first_chunk::<4>()?),
        _ => IpAddr::from(*to.first_chunk::<16>()?).to_canonical(),
    };
    Some((state, SocketAddr::new(ip, port)))
}

/// Of a list such as `8080,9000-9100` those within the range.
fn reserved(list: &str, first: u16, last: u16) -> u32 {
    let part = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let from = from.trim().parse::<u16>().ok()?.max(first);
        let to = to.trim().parse::<u16>().ok()?.min(last);
        Some(u32::from(to.checked_sub(from)?) + 1)
    };
    list.split(',').filter_map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_count_as_far_as_they_lie_in_the_range() {
        assert_eq!(reserved("8080,39000-40003,40010\n", 40_000, 40_030), 5);
        assert_eq!(reserved("", 40_000, 40_030), 0);
    }

    #[test]
    fn a_connection_is_read_with_its_state() {
        let mut message = vec![0; 72];
        (message[0], message[1]) = (libc::AF_INET as u8, TIME_WAIT);
        message[6..8].copy_from_slice(&8080_u16.to_be_bytes());
        message[24..28].copy_from_slice(&[10, 98, 1, 2]);
        let to = "10.98.1.2:8080".parse().unwrap();
        assert_eq!(connection(&message), Some((TIME_WAIT, to)));
        assert_eq!(connection(&message[..39]), None);
    }

    #[test]
    fn connections_of_the_own_namespace_are_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        let _streams: Vec<_> =
            (0..3).map(|_| std::net::TcpStream::connect(remote).unwrap()).collect();
        let request = request(libc::AF_INET as u8, remote.port());
        let mut socket = Socket::new(NETLINK_SOCK_DIAG).unwrap();
        socket.bind_auto().unwrap();
        let mut count = 0;
        dump(&socket, 20, &request, &mut Vec::new(), |message| {
            count += u32::from(connection(message).is_some_and(|(_, to)| to == remote));
        })
        .unwrap();
        assert_eq!(count, 3);
    }
}
