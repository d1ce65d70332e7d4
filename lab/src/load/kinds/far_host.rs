//! Another host, in miniature: whoever answers at the other end of a wire has no TCP socket on this one.
//!
//! The peer of a client is then no process that this host could find, as behind a real wire: packets are read off the
//! other end of a veth, acknowledged at once, and answered late while the switch is there. Only as much of TCP as a client
//! on a line without losses needs: one answer of five bytes for each segment with data. Rejected: a server in another
//! network namespace (its socket is this host's), a tunnel (who writes to it wakes the client himself, not an
//! interrupt), a virtual machine (minutes, and not everywhere).

use crate::load::Switch;
use crate::load::{Load, read};
use anyhow::bail;
use clap::Args;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] =
    &[("far-host", Load::Words(|words| read::<FarHost>(words)?.run()))];

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const PUSH: u8 = 8;
const IP_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
const ANSWER: &[u8; 5] = b"done\n";

/// Another host at the end of a wire, which answers TCP.
#[derive(Debug, Args)]
pub struct FarHost {
    /// Name of the interface.
    interface: String,
    /// While this file is there, each answer takes the milliseconds that it holds.
    #[arg(long)]
    switch: Option<PathBuf>,
    /// While this file is there, it hears nothing.
    #[arg(long)]
    deaf: Option<PathBuf>,
    /// While this file is there, it is the milliseconds away that it holds: all that it says, acknowledgements too, comes so late.
    #[arg(long)]
    away: Option<PathBuf>,
}

/// Addresses and ports of a segment, as they stand in its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ends {
    addresses: [[u8; 4]; 2],
    ports: [[u8; 2]; 2],
}

impl Ends {
    fn back(self) -> Self {
        let ([a, b], [c, d]) = (self.addresses, self.ports);
        Self { addresses: [b, a], ports: [d, c] }
    }
}

/// What is read of a segment.
#[derive(Debug, PartialEq, Eq)]
struct Segment {
    ends: Ends,
    sequence: u32,
    flags: u8,
    bytes: u32,
}

impl Segment {
    fn read(packet: &[u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 15) * 4;
        if packet[0] >> 4 != 4 || *packet.get(9)? != 6 {
            return None;
        }
        let word = |at: usize| -> Option<[u8; 4]> { packet.get(at..at + 4)?.try_into().ok() };
        let ports = word(header)?;
        let data = header + usize::from(packet.get(header + 12)? >> 4) * 4;
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        Some(Self {
            ends: Ends {
                addresses: [word(12)?, word(16)?],
                ports: [[ports[0], ports[1]], [ports[2], ports[3]]],
            },
            sequence: u32::from_be_bytes(word(header + 4)?),
            flags: *packet.get(header + 13)?,
            bytes: u32::try_from(total.checked_sub(data)?).ok()?,
        })
    }
}

/// The ones' complement sum of RFC 1071.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum: u32 = 0;
    for pair in parts.concat().chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn packet(ends: Ends, sequence: u32, acknowledged: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    let length = (TCP_HEADER + data.len()) as u16;
    let [from, to] = ends.addresses;
    let total = (IP_HEADER as u16 + length).to_be_bytes();
    let mut ip = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend([from, to].concat());
    let sum = checksum(&[&ip]).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = ends.ports.concat();
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledged.to_be_bytes());
    tcp.extend([5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(data);
    let pseudo = [&from[..], &to, &[0, 6], &length.to_be_bytes()].concat();
    let sum = checksum(&[&pseudo, &tcp]).to_be_bytes();
    tcp[16..18].copy_from_slice(&sum);
    [ip, tcp].concat()
}

/// A connection, as the far host has it.
#[derive(Debug, Default)]
struct Connection {
    /// The next byte of ours, and of theirs.
    ours: u32,
    theirs: u32,
    /// When the next answers are due.
    due: Vec<Instant>,
}

/// The end of a wire, as packets: no address of this host is on it.
struct Wire {
    socket: OwnedFd,
    /// Who sent the last packet, which is who gets the next one.
    near: libc::sockaddr_ll,
}

impl Wire {
    fn open(interface: &str) -> anyhow::Result<Self> {
        let name = CString::new(interface)?;
        // SAFETY: plain calls; the name ends in a null, and the address is plain data that outlives the call.
        unsafe {
            let mut near: libc::sockaddr_ll = std::mem::zeroed();
            near.sll_family = libc::AF_PACKET as u16;
            near.sll_protocol = (libc::ETH_P_IP as u16).to_be();
            near.sll_ifindex = libc::if_nametoindex(name.as_ptr()).cast_signed();
            let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK;
            let socket = libc::socket(libc::AF_PACKET, kind, libc::c_int::from(near.sll_protocol));
            if socket < 0 {
                bail!("packet socket: {}", std::io::Error::last_os_error());
            }
            let socket = OwnedFd::from_raw_fd(socket);
            let length = size_of::<libc::sockaddr_ll>() as u32;
            if libc::bind(socket.as_raw_fd(), (&raw const near).cast(), length) != 0 {
                bail!("{interface}: {}", std::io::Error::last_os_error());
            }
            Ok(Self { socket, near })
        }
    }

    /// The next packet, if there is one: its length.
    fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let mut length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: buffer and address are as long as is said, and outlive the call.
        let bytes = unsafe {
            let address = (&raw mut self.near).cast();
            let (fd, to) = (self.socket.as_raw_fd(), buffer.as_mut_ptr().cast());
            libc::recvfrom(fd, to, buffer.len(), 0, address, &raw mut length)
        };
        usize::try_from(bytes).ok()
    }

    fn write(&self, packet: &[u8]) -> anyhow::Result<()> {
        // SAFETY: packet and address are as long as is said, and outlive the call.
        let sent = unsafe {
            let address = (&raw const self.near).cast();
            let length = size_of::<libc::sockaddr_ll>() as u32;
            let (fd, from) = (self.socket.as_raw_fd(), packet.as_ptr().cast());
            libc::sendto(fd, from, packet.len(), 0, address, length)
        };
        match sent {
            -1 => bail!("send: {}", std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// What the far host says to a segment; nothing to what it knows already.
fn answer(
    connections: &mut BTreeMap<Ends, Connection>,
    segment: &Segment,
    after: Duration,
) -> Option<Vec<u8>> {
    let ends = segment.ends.back();
    if segment.flags & RST != 0 {
        connections.remove(&segment.ends);
        return None;
    }
    if segment.flags & SYN != 0 {
        let theirs = segment.sequence.wrapping_add(1);
        let connection = Connection { ours: 1, theirs, due: Vec::new() };
        connections.insert(segment.ends, connection);
        return Some(packet(ends, 0, theirs, SYN | ACK, &[]));
    }
    let Some(connection) = connections.get_mut(&segment.ends) else {
        return Some(packet(ends, 0, segment.sequence.wrapping_add(segment.bytes), RST | ACK, &[]));
    };
    let fin = segment.flags & FIN != 0;
    if segment.bytes == 0 && !fin {
        return None;
    }
    if segment.sequence == connection.theirs {
        let more = segment.bytes + u32::from(fin);
        connection.theirs = connection.theirs.wrapping_add(more);
        if segment.bytes > 0 {
            connection.due.push(Instant::now() + after);
        }
    }
    let (ours, theirs) = (connection.ours, connection.theirs);
    if fin {
        connections.remove(&segment.ends);
        return Some(packet(ends, ours, theirs, FIN | ACK, &[]));
    }
    Some(packet(ends, ours, theirs, ACK, &[]))
}

/// Packets that are under way from the far host, in the order in which they left.
#[derive(Debug, Default)]
struct Way {
    packets: VecDeque<(Instant, Vec<u8>)>,
}

impl Way {
    fn send(&mut self, packet: Vec<u8>, takes: Duration) {
        self.packets.push_back((Instant::now() + takes, packet));
    }

    /// The next that has arrived by now. None overtakes another.
    fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        let is_due = self.packets.front().is_some_and(|(due, _)| *due <= now);
        is_due.then(|| self.packets.pop_front()).flatten().map(|(_, packet)| packet)
    }
}

impl FarHost {
    /// Never returns.
    pub fn run(self) -> anyhow::Result<()> {
        let switch = Switch::from(self.switch);
        let deaf = Switch::from(self.deaf);
        let away = Switch::from(self.away);
        let mut way = Way::default();
        let mut wire = Wire::open(&self.interface)?;
        let mut connections: BTreeMap<Ends, Connection> = BTreeMap::new();
        let mut buffer = [0; 2048];
        loop {
            while let Some(bytes) = wire.read(&mut buffer) {
                let Some(segment) = Segment::read(&buffer[..bytes]) else { continue };
                if deaf.text().is_some() {
                    continue;
                }
                let after = switch.milliseconds().unwrap_or_default();
                if let Some(said) = answer(&mut connections, &segment, after) {
                    way.send(said, away.milliseconds().unwrap_or_default());
                }
            }
            let now = Instant::now();
            for (ends, connection) in &mut connections {
                let before = connection.due.len();
                connection.due.retain(|due| *due > now);
                for _ in connection.due.len()..before {
                    let flags = ACK | PUSH;
                    let (ours, theirs) = (connection.ours, connection.theirs);
                    let said = packet(ends.back(), ours, theirs, flags, ANSWER);
                    way.send(said, away.milliseconds().unwrap_or_default());
                    connection.ours = connection.ours.wrapping_add(ANSWER.len() as u32);
                }
            }
            while let Some(packet) = way.arrived(now) {
                wire.write(&packet)?;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_as_it_was_written_and_its_sums_hold() {
        let ends = Ends {
            addresses: [[10, 0, 0, 1], [10, 0, 0, 2]],
            ports: [80_u16.to_be_bytes(), 40_000_u16.to_be_bytes()],
        };
        let written = packet(ends, 7, 9, ACK | PUSH, ANSWER);
        let read = Segment::read(&written).unwrap();
        assert_eq!(read, Segment { ends, sequence: 7, flags: ACK | PUSH, bytes: 5 });
        assert_eq!(checksum(&[&written[..IP_HEADER]]), 0);
        let length = ((written.len() - IP_HEADER) as u16).to_be_bytes();
        assert_eq!(
            checksum(&[&[10, 0, 0, 1, 10, 0, 0, 2, 0, 6], &length, &written[IP_HEADER..]]),
            0
        );
    }

    #[test]
    fn what_is_said_far_away_comes_late_and_in_order() {
        let (mut way, now) = (Way::default(), Instant::now());
        way.send(vec![1], Duration::from_millis(90));
        way.send(vec![2], Duration::ZERO);
        assert_eq!(way.arrived(now + Duration::from_millis(80)), None);
        let later = now + Duration::from_secs(1);
        assert_eq!([way.arrived(later), way.arrived(later)], [Some(vec![1]), Some(vec![2])]);
    }

    #[test]
    fn a_question_is_acknowledged_at_once_and_answered_once() {
        let ends = Ends { addresses: [[10, 0, 0, 1], [10, 0, 0, 2]], ports: [[0, 9], [0, 80]] };
        let mut connections = BTreeMap::new();
        let mut says = |sequence, flags, bytes| {
            let segment = Segment { ends, sequence, flags, bytes };
            answer(&mut connections, &segment, Duration::from_secs(1))
        };
        assert_eq!(says(99, SYN, 0).unwrap()[IP_HEADER + 13], SYN | ACK);
        assert!(says(100, ACK, 0).is_none());
        assert_eq!(says(100, ACK | PUSH, 9).unwrap()[IP_HEADER + 13], ACK);
        assert_eq!(says(100, ACK | PUSH, 9).unwrap()[IP_HEADER + 13], ACK, "once more");
        assert_eq!(connections[&ends].due.len(), 1);
        assert_eq!(connections[&ends].theirs, 109);
    }
}
