//! How many connections go to an address, of a namespace in which somebody was refused another for want of a port (EADDRNOTAVAIL).
//!
//! Only where connect was refused so within the look, so that no look without one lists a host's connections; and, of a look that goes on,
//! in the host's own namespace once it has thousands of connections, because ports can be seen to end before one is refused. The settings belong to the
//! namespace, and /proc/sys shows those of whoever reads it: both are read by a short-lived thread that enters it. Must not: judge whether
//! they are too many.
//!
//! Edit together: bpf/refused.bpf.c (what is reported), netlink/ (how a namespace is entered).

use super::look::Look;
use super::net_counters::sockstat;
use super::netlink::dump;
use super::reader::{Opening, Reader, Tick};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::links::{link, namespace_at, namespace_inode};
use crate::system::own::priority;
use crate::system::{Roots, blind, text};
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
/// Connections of a host from which on they are counted in each window: a fourteenth of the ports that there are
/// by default.
const CONNECTIONS_MIN: u64 = 2_000;
/// And up to which: each is a message of the kernel's in every walk, and there is one walk for each address that is counted.
const CONNECTIONS_MAX: u64 = 50_000;
/// Parts that connections are divided into, by port, to find the address that most of a part go to.
const PARTS: usize = 64;
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
                let netns = namespace_at(&path);
                if let (Some(netns), Ok(file)) = (netns, File::open(&path)) {
                    self.0.entry((netns, remote)).or_insert(file);
                }
            }
        }
        Ok(())
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        if look.goes_on {
            for (netns, remote, namespace) in crowded(&look.roots).into_iter().flatten() {
                if self.0.len() < ADDRESSES_MAX {
                    self.0.entry((netns, remote)).or_insert(namespace);
                }
            }
        }
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

/// Addresses to which the host has so many connections that ports could end, where holdup is in the host's namespace: whom each part of
/// them has most of (the majority vote of Boyer and Moore), to be counted.
fn crowded(roots: &Roots) -> Option<Vec<(u32, SocketAddr, File)>> {
    let path = roots.process(1, "ns/net");
    let hosts = link(&path)?;
    if hosts != link(&roots.proc.join("self/ns/net"))?
        || !(CONNECTIONS_MIN..=CONNECTIONS_MAX).contains(&in_use(roots)?)
    {
        return None;
    }
    let netns = namespace_inode(&hosts)?;
    let mut votes: [(u32, Option<SocketAddr>); PARTS] = [(0, None); PARTS];
    connections(0, &mut |_, _, to| {
        let (count, of) = &mut votes[usize::from(to.port()) % PARTS];
        match (*of == Some(to), *count) {
            (true, _) => *count += 1,
            (false, 0) => (*count, *of) = (1, Some(to)),
            (false, _) => *count -= 1,
        }
    })
    .ok()?;
    let many = votes.into_iter().filter(|(count, _)| u64::from(*count) >= CONNECTIONS_MIN / 2);
    many.map(|(_, of)| Some((netns, of?, File::open(&path).ok()?))).collect()
}

/// TCP connections of the host's namespace.
fn in_use(roots: &Roots) -> Option<u64> {
    let count = |file: &str, names: &[&str]| -> Option<u64> {
        let found = sockstat(&text::read(&roots.process(1, file)).ok()?);
        let of = |name: &&str| found.get(*name);
        names.first().and_then(of)?;
        Some(names.iter().filter_map(of).sum())
    };
    let v6 = count("net/sockstat6", &["sockstat.TCP6.inuse"]).unwrap_or(0);
    Some(count("net/sockstat", &["sockstat.TCP.inuse", "sockstat.TCP.tw"])? + v6)
}

/// Counts in a namespace. Leaves the calling thread in it.
fn used(netns: u32, remote: SocketAddr, namespace: &File, settings: &Path) -> io::Result<PortUse> {
    // Each local address has all ports of the range: what counts is the one that has the fewest left.
    let mut by_source: BTreeMap<IpAddr, (u32, u32)> = BTreeMap::new();
    let empty = enter(namespace, settings)?;
    connections(remote.port(), &mut |state, from, to| {
        if to == remote {
            let (time_wait, open) = by_source.entry(from).or_default();
            *if state == TIME_WAIT { time_wait } else { open } += 1;
        }
    })?;
    let fullest = by_source.into_values().max_by_key(|(time_wait, open)| time_wait + open);
    let (time_wait, open) = fullest.unwrap_or_default();
    Ok(PortUse { netns, remote, time_wait, open, ..empty })
}

/// Enters a namespace, with its settings and nothing counted.
fn enter(namespace: &File, settings: &Path) -> io::Result<PortUse> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    let file = |name: &str| text::read_text(&settings.join(name)).unwrap_or_default();
    let range = file("ip_local_port_range");
    let mut bounds = range.split_whitespace().filter_map(|word| word.parse::<u16>().ok());
    let (Some(first), Some(last)) = (bounds.next(), bounds.next()) else {
        return Err(io::Error::other("ip_local_port_range cannot be read"));
    };
    Ok(PortUse {
        netns: 0,
        remote: SocketAddr::from(([0, 0, 0, 0], 0)),
        range: (first, last),
        reserved: reserved(&file("ip_local_reserved_ports"), first, last),
        time_wait: 0,
        open: 0,
        reuse: file("tcp_tw_reuse").trim().parse().ok(),
    })
}

/// The connections of the namespace that the thread is in, by state and where they go: to one port, or (0) to any.
fn connections(port: u16, each: &mut dyn FnMut(u8, IpAddr, SocketAddr)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    let mut buffer = Vec::new();
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    // A program may reach an address of IPv4 by a socket of IPv6.
    for family in [libc::AF_INET, libc::AF_INET6] {
        dump(&socket, SOCK_DIAG_BY_FAMILY, &request(family as u8, port), &mut buffer, |message| {
            let found = connection(message).filter(|(state, ..)| *state != LISTEN);
            if let Some((state, from, to)) = found {
                each(state, from, to);
            }
        })?;
    }
    Ok(())
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

/// struct inet_diag_msg: the state, and where the connection comes from and goes to.
fn connection(message: &[u8]) -> Option<(u8, IpAddr, SocketAddr)> {
    let (family, state) = (*message.first()?, *message.get(1)?);
    let port = u16::from_be_bytes(*message.get(6..8)?.first_chunk()?);
    let address = |bytes: &[u8]| {
        Some(match i32::from(family) {
            libc::AF_INET => IpAddr::from(*bytes.first_chunk::<4>()?),
            _ => IpAddr::from(*bytes.first_chunk::<16>()?).to_canonical(),
        })
    };
    let (from, to) = (address(message.get(8..24)?)?, address(message.get(24..40)?)?);
    Some((state, from, SocketAddr::new(to, port)))
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
        message[8..12].copy_from_slice(&[10, 98, 1, 1]);
        message[24..28].copy_from_slice(&[10, 98, 1, 2]);
        let (from, to) = ("10.98.1.1".parse().unwrap(), "10.98.1.2:8080".parse().unwrap());
        assert_eq!(connection(&message), Some((TIME_WAIT, from, to)));
        assert_eq!(connection(&message[..39]), None);
    }

    #[test]
    fn connections_of_the_own_namespace_are_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        let _streams: Vec<_> =
            (0..3).map(|_| std::net::TcpStream::connect(remote).unwrap()).collect();
        let mut count = 0;
        connections(remote.port(), &mut |_, _, to| count += u32::from(to == remote)).unwrap();
        assert_eq!(count, 3);
    }
}
