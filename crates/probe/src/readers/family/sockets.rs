//! Sockets by inode: addresses, states and peers, as sock_diag(7) shows them to any user.
//!
//! The tables of all sockets are asked for when an inode is not in the copy that was made last; what that costs makes the walks
//! rarer. Only of holdup's own network namespace: a descriptor in another is a socket without an address. What TCP
//! knows of the last data sent and received shows who owes an answer (reason/src/graph/debts.rs); it is in milliseconds here.
//! Rejected: /proc/net/tcp and /proc/net/unix (without the peers of unix sockets, and slow).

use crate::system::Roots;
use holdup_reason::facts::{InetRef, Nagle, ObjectRef, SocketState, TcpTurn};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::inet::{self, ExtensionFlags, InetRequest, InetResponse, SocketId};
use netlink_packet_sock_diag::unix::{self, ShowFlags, UnixRequest, UnixResponse};
use netlink_packet_sock_diag::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, SockDiagMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr as Address;
use std::time::{Duration, Instant};

/// So young a copy is not made again: what it lacks is no socket of this namespace.
const PERIOD: Duration = Duration::from_millis(2);
const DUMP: u16 = NLM_F_REQUEST | NLM_F_DUMP;
/// Sockets that are remembered.
const SOCKETS_MAX: usize = 50_000;

/// A socket as the tables have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) object: ObjectRef,
    pub(super) state: Option<SocketState>,
}

/// The last copy of the tables.
#[derive(Default)]
struct Tables {
    at: Option<Instant>,
    by_inode: HashMap<u64, Known>,
}

/// The sockets of holdup's own network namespace, for the walks over one family.
#[derive(Default)]
pub(super) struct Sockets(RefCell<Tables>);

impl Sockets {
    /// A socket of a process of that namespace; of any other namespace, that it is one.
    pub(super) fn object(&self, roots: &Roots, pid: u32, ino: u64) -> Option<ObjectRef> {
        let namespace = |name: &str| std::fs::read_link(roots.proc.join(name).join("ns/net")).ok();
        let is_ours = namespace(&pid.to_string()) == namespace("self");
        let known = is_ours.then(|| self.known(ino)).flatten();
        Some(known.map_or(ObjectRef::Other { what: "socket".into(), ino }, |known| known.object))
    }

    /// One socket, from a copy that has it or is young.
    fn known(&self, ino: u64) -> Option<Known> {
        let mut tables = self.0.borrow_mut();
        let is_young = tables.at.is_some_and(|at| at.elapsed() < PERIOD);
        if !tables.by_inode.contains_key(&ino) && !is_young {
            *tables = Tables { at: Some(Instant::now()), by_inode: dump() };
        }
        tables.by_inode.get(&ino).cloned()
    }

    /// A copy that is made now.
    pub(super) fn fresh(&self) -> HashMap<u64, Known> {
        *self.0.borrow_mut() = Tables { at: Some(Instant::now()), by_inode: dump() };
        self.0.borrow().by_inode.clone()
    }
}

/// What a connection of holdup's own network namespace has not sent at this moment though it is little, while something that it
/// has is not acknowledged: Nagle's algorithm keeps it back. tcp_info does not say whether that is on; nothing else does this.
pub(super) fn unsent(socket: &InetRef) -> Option<Nagle> {
    if socket.protocol != "tcp" || socket.remote.port() == 0 || socket.netns != own_netns() {
        return None;
    }
    let request = InetRequest {
        family: if socket.local.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: inet::StateFlags::all(),
        socket_id: SocketId {
            source_port: socket.local.port(),
            destination_port: socket.remote.port(),
            source_address: socket.local.ip(),
            destination_address: socket.remote.ip(),
            interface_id: 0,
            cookie: [0xff; 8],
        },
    };
    let answers = ask(SockDiagMessage::InetRequest(request), NLM_F_REQUEST).ok()?;
    let info = answers.iter().find_map(|answer| match answer {
        SockDiagMessage::InetResponse(answer) => tcp_info(answer),
        _ => None,
    })?;
    held_back(info)
}

/// By tcp_info: see `tcp`.
fn held_back(info: &[u8]) -> Option<Nagle> {
    let (segment, unacked) = (word(info, 16)?, word(info, 24)?);
    let (unsent_bytes, round_trip_us) = (word(info, 144)?, word(info, 148)?);
    let is_sent_again = *info.get(2)? > 0;
    let is_held = unacked > 0 && (1..segment).contains(&unsent_bytes) && !is_sent_again;
    is_held.then(|| Nagle {
        unsent_bytes,
        round_trip_ns_min: u64::from(round_trip_us) * 1_000,
        ..Nagle::default()
    })
}

/// The tables, as far as they can be had.
fn dump() -> HashMap<u64, Known> {
    let mut all = HashMap::new();
    let netns = own_netns();
    for (family, protocol) in [
        (AF_INET, IPPROTO_TCP),
        (AF_INET6, IPPROTO_TCP),
        (AF_INET, IPPROTO_UDP),
        (AF_INET6, IPPROTO_UDP),
    ] {
        let request = InetRequest {
            family,
            protocol,
            extensions: ExtensionFlags::INFO,
            states: inet::StateFlags::all(),
            socket_id: if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() },
        };
        for answer in ask(SockDiagMessage::InetRequest(request), DUMP).unwrap_or_default() {
            if let SockDiagMessage::InetResponse(answer) = answer
                && answer.header.inode != 0
                && all.len() < SOCKETS_MAX
            {
                all.insert(u64::from(answer.header.inode), internet(&answer, protocol, netns));
            }
        }
    }
    let request = UnixRequest {
        state_flags: unix::StateFlags::all(),
        inode: 0,
        show_flags: ShowFlags::NAME | ShowFlags::PEER,
        cookie: [0xff; 8],
    };
    for answer in ask(SockDiagMessage::UnixRequest(request), DUMP).unwrap_or_default() {
        if let SockDiagMessage::UnixResponse(answer) = answer
            && all.len() < SOCKETS_MAX
        {
            all.insert(u64::from(answer.header.inode), local(&answer));
        }
    }
    all
}

fn own_netns() -> u32 {
    let link = std::fs::read_link("/proc/self/ns/net").ok();
    let name = link.as_deref().and_then(|link| link.to_str()).unwrap_or_default();
    crate::system::links::namespace_inode(name).unwrap_or(0)
}

fn internet(answer: &InetResponse, protocol: u8, netns: u32) -> Known {
    let id = &answer.header.socket_id;
    let protocol = if protocol == IPPROTO_TCP { "tcp" } else { "udp" };
    let socket = InetRef {
        ino: u64::from(answer.header.inode),
        netns,
        protocol: protocol.into(),
        // Java and others take IPv4 through sockets of IPv6: the other end has the same address written the short way.
        local: Address::new(id.source_address.to_canonical(), id.source_port),
        remote: Address::new(id.destination_address.to_canonical(), id.destination_port),
        state: if protocol == "tcp" { answer.header.state } else { 0 },
    };
    Known { object: ObjectRef::Inet(socket), state: tcp_info(answer).and_then(tcp) }
}

fn tcp_info(answer: &InetResponse) -> Option<&[u8]> {
    answer.nlas.iter().find_map(|attribute| match attribute {
        inet::nlas::Nla::TcpInfo(bytes) => Some(bytes.as_slice()),
        _ => None,
    })
}

/// Four bytes of a struct of the kernel.
fn word(info: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk()?))
}

/// The kernel's struct tcp_info (include/uapi/linux/tcp.h): later kernels only add to it.
fn tcp(info: &[u8]) -> Option<SocketState> {
    let word = |at: usize| word(info, at);
    let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
    let (unacked, sent_ms, received_ms, heard_ms) = (word(24)?, word(44)?, word(52)?, word(56)?);
    let turn = TcpTurn {
        // Sequence numbers are not shown: what is unacknowledged is, and that is all that is asked of them.
        write_seq: unacked,
        snd_wl1: 1,
        sent_jiffies: sent_ms,
        received_jiffies: received_ms,
        heard_jiffies: heard_ms,
        jiffy_ns: 1_000_000,
        ..TcpTurn::default()
    };
    Some(SocketState {
        rtt_us: word(68)?,
        congestion_window: word(80)?,
        acked_bytes: long(120)?,
        received_bytes: long(128)?,
        retransmits: word(100)?,
        turn: Some(turn),
        ..SocketState::default()
    })
}

fn local(answer: &UnixResponse) -> Known {
    let (mut peer_ino, mut path) = (0, None);
    for attribute in &answer.nlas {
        match attribute {
            unix::nlas::Nla::Peer(ino) => peer_ino = u64::from(*ino),
            unix::nlas::Nla::Name(name) => path = name_of(name),
            _ => {}
        }
    }
    let ino = u64::from(answer.header.inode);
    Known { object: ObjectRef::Unix { ino, peer_ino, path }, state: None }
}

fn name_of(name: &unix::nlas::UnixDiagName) -> Option<String> {
    match name {
        unix::nlas::UnixDiagName::Pathname(path) => Some(path.to_string_lossy().into_owned()),
        unix::nlas::UnixDiagName::Abstract(name) => {
            Some(format!("@{}", String::from_utf8_lossy(name)))
        }
    }
}

/// One question and all of its answers: one, if no dump is asked for.
fn ask(question: SockDiagMessage, flags: u16) -> std::io::Result<Vec<SockDiagMessage>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut packet = NetlinkMessage::new(header, question.into());
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut answers = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &datagram[..];
        while !rest.is_empty() {
            let Ok(message) = NetlinkMessage::<SockDiagMessage>::deserialize(rest) else {
                return Ok(answers);
            };
            let length = message.header.length as usize;
            match message.payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(answers),
                _ => {}
            }
            // Messages are aligned to four bytes.
            rest = rest.get(length.next_multiple_of(4).max(4)..).unwrap_or_default();
        }
        if flags & NLM_F_DUMP != NLM_F_DUMP {
            return Ok(answers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tcp_says_of_the_last_data_is_read_at_its_place() {
        let mut info = vec![0u8; 160];
        let mut put =
            |at: usize, value: u32| info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        put(24, 2);
        put(44, 1500);
        put(52, 9);
        put(120, 77);
        let state = tcp(&info).expect("whole");
        let turn = state.turn.expect("tcp");
        assert_eq!((turn.write_seq, turn.sent_jiffies, turn.received_jiffies), (2, 1500, 9));
        assert_eq!(state.acked_bytes, 77);
        assert_eq!(tcp(&info[..40]), None);
    }

    #[test]
    fn a_small_piece_behind_an_unacknowledged_one_is_held_back() {
        let held = |segment: u32, unacked: u32, unsent: u32, sent_again: u8| {
            let mut info = vec![0u8; 160];
            info[2] = sent_again;
            for (at, value) in [(16, segment), (24, unacked), (144, unsent), (148, 50)] {
                info[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
            }
            held_back(&info).map(|it| (it.unsent_bytes, it.round_trip_ns_min))
        };
        assert_eq!(held(1448, 1, 8, 0), Some((8, 50_000)));
        assert_eq!(held(1448, 0, 8, 0), None);
        assert_eq!(held(1448, 1, 0, 0), None);
        assert_eq!(held(1448, 9, 2000, 0), None, "a whole segment waits for the window");
        assert_eq!(held(1448, 1, 8, 1), None, "the one before was lost");
        assert_eq!(held_back(&[0; 100]), None);
    }

    #[test]
    fn what_two_small_writes_leave_unsent_is_seen_from_outside() {
        use std::io::Write;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = std::net::TcpStream::connect(listener.local_addr().expect("its address"))
            .expect("a connection");
        let _far = listener.accept().expect("its other end");
        let reference = |stream: &std::net::TcpStream| InetRef {
            ino: 0,
            netns: own_netns(),
            protocol: "tcp".into(),
            local: stream.local_addr().expect("near"),
            remote: stream.peer_addr().expect("far"),
            state: 1,
        };
        // The first acknowledgements of a connection are not put off.
        let held = (0..200).find_map(|_| {
            near.write_all(b"head").expect("written");
            near.write_all(b"body").expect("written");
            let seen = unsent(&reference(&near));
            std::thread::sleep(Duration::from_millis(5));
            seen
        });
        assert_eq!(held.map(|it| it.unsent_bytes.is_multiple_of(4)), Some(true));
        near.set_nodelay(true).expect("set");
        near.write_all(b"more").expect("written");
        assert_eq!(unsent(&reference(&near)), None);
    }

    #[test]
    fn a_connection_of_ones_own_is_in_the_tables_with_both_ends() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let near = std::net::TcpStream::connect(address).expect("a connection");
        let port = near.local_addr().expect("its address").port();
        let all = Sockets::default().fresh();
        let ends = all.values().filter(|known| match &known.object {
            ObjectRef::Inet(socket) => socket.local.port() == port || socket.remote.port() == port,
            _ => false,
        });
        // The far end has no inode until it is accepted.
        assert!(ends.count() >= 1);
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        use std::os::fd::AsRawFd;
        let link =
            std::fs::read_link(format!("/proc/self/fd/{}", one.as_raw_fd())).expect("a link");
        let ino =
            super::super::place::numbered(&link.to_string_lossy(), "socket:[").expect("inode");
        let known = Sockets::default().fresh().remove(&ino).expect("in the tables");
        assert!(matches!(known.object, ObjectRef::Unix { peer_ino, .. } if peer_ino != 0));
    }
}
