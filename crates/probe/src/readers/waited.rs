//! What was waited for in a look: the objects that endpoints are reported for, the descriptors that were polled, the addresses
//! that do not answer, and the interfaces on which packets stood or were lost.
//!
//! Collected by whoever sees a wait, used as the look ends. Must not: read anything, or conclude whose fault a wait is. A socket of UDP does not say
//! whether it was answered, so whoever waits on one is taken in: whether the address is silent, its neighbour entry says.

use super::endpoints::inodes;
use super::waiter_memory::Unread;
use holdup_reason::facts::{
    Body, Endpoint, GIVEN_PORTS, InetRef, Ns, ObjectRef, SentTo, TcpTurn, ThreadRef,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

/// See the head of the file.
#[derive(Debug, Default)]
pub struct Waited {
    /// Inodes of objects, and of their other ends.
    pub objects: HashSet<u64>,
    /// Who polled a descriptor, by process and descriptor.
    pub polled: BTreeMap<(u32, u32), ThreadRef>,
    /// Connections, by inode: they may be closed as the look ends.
    pub connections: BTreeMap<u64, InetRef>,
    /// Addresses of which no answer comes.
    pub unanswered: Unanswered,
    /// Interfaces on whose way somebody waits.
    pub interfaces: Interfaces,
    /// Names of tun devices on the way to who does not answer.
    pub tunnels: BTreeSet<String>,
    /// Processes whose memory was not read, so that of some of their waits it is not known what they are for.
    pub unread: Unread,
}

impl Waited {
    /// Somebody waits, or waited, for an object.
    pub fn add(&mut self, object: Option<&ObjectRef>) {
        self.objects.extend(object.into_iter().flat_map(inodes));
        self.unanswered.see(object);
        if let Some(ObjectRef::Inet(socket)) = object
            && socket.remote.port() != 0
            && self.connections.len() < CONNECTIONS_MAX
        {
            self.connections.entry(socket.ino).or_insert_with(|| socket.clone());
        }
    }
}

/// Connections that are remembered: of a server with more nobody asks about each.
const CONNECTIONS_MAX: usize = 1_000;

/// Interfaces that are asked about.
const INTERFACES_MAX: usize = 16;

/// Interfaces, by network namespace and index: where packets stood in a queue or were lost, the way to who does not answer, and adapters that
/// carry much where somebody is asked about.
#[derive(Debug, Default)]
pub struct Interfaces(BTreeSet<(u32, u32)>);

impl Interfaces {
    /// Adds one, while there is room.
    pub fn add(&mut self, netns: u32, index: u32) {
        if self.0.len() < INTERFACES_MAX {
            self.0.insert((netns, index));
        }
    }

    /// Adds those in whose queues packets stand.
    pub fn see_queues(&mut self, read: &[Body]) {
        for body in read {
            if let Body::QdiscSample(queue) = body
                && queue.backlog_packets > 0
            {
                self.add(queue.netns, queue.index);
            }
        }
    }

    /// All of them, once.
    pub fn take(&mut self) -> BTreeSet<(u32, u32)> {
        std::mem::take(&mut self.0)
    }
}

/// Addresses that are asked about.
const DESTINATIONS_MAX: usize = 100;
/// The same of datagrams.
const OF_DATAGRAMS_MAX: usize = 16;
/// The same of connections that are written to and answer.
const WRITTEN_MAX: usize = 16;
/// A server of names may ask hundreds of others at once, and a question without an answer is known as such.
const NAME_SERVERS_PORT: u16 = 53;
/// TCP_SYN_SENT.
const SYN_SENT: u8 = 2;
/// For so long nothing was heard of a peer that did not acknowledge all: the least time after which TCP asks again for a
/// connection.
const UNANSWERED_NS: Ns = 1_000_000_000;

/// An address that is sent to, and from where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// Network namespace inode.
    pub netns: u32,
    /// To.
    pub address: IpAddr,
    /// From.
    pub source: IpAddr,
}

/// Addresses that somebody sends to without an answer.
#[derive(Debug, Default)]
pub struct Unanswered {
    known: BTreeSet<Destination>,
    /// The same of datagrams, which may have an answer each: fewer, and behind all connections.
    of_datagrams: BTreeSet<Destination>,
    /// Those to whom something is under way that somebody waits for: if it goes into a tunnel, a program has it in its hands.
    written: BTreeSet<Destination>,
    /// Sockets of UDP that are not connected and are waited on, by their own port: namespace and address.
    asking: BTreeMap<u16, Option<(u32, IpAddr)>>,
}

impl Unanswered {
    /// A connection that is waited for.
    pub fn see(&mut self, object: Option<&ObjectRef>) {
        let Some(ObjectRef::Inet(socket)) = object else { return };
        // A service's own port answers, and asks nobody.
        let asks = socket.protocol == "udp"
            && socket.local.port() >= GIVEN_PORTS
            && socket.remote.port() != NAME_SERVERS_PORT;
        if socket.is_tcp() && socket.state == SYN_SENT {
            self.add(socket);
        } else if asks && socket.remote.port() != 0 {
            self.insert_datagrams(destination(socket));
        } else if asks && self.asking.len() < DESTINATIONS_MAX {
            let from = (socket.netns, socket.local.ip().to_canonical());
            let known = self.asking.entry(socket.local.port()).or_insert(Some(from));
            // What is sent from one port of two namespaces is known to be of neither.
            *known = known.filter(|known| *known == from);
        }
    }

    /// Where a socket that is not connected sends to.
    pub fn see_sent(&mut self, sent: &SentTo) {
        if let Some((netns, source)) = self.asking.get(&sent.local_port).copied().flatten() {
            let address = sent.remote.ip().to_canonical();
            self.insert_datagrams(Destination { netns, address, source });
        }
    }

    /// The same of an open socket, also where the peer has gone silent since it was connected. `waited` has the inodes that somebody waits for:
    /// of the others nobody asks where what they sent is.
    pub fn see_endpoint(&mut self, endpoint: &Endpoint, waited: &HashSet<u64>) {
        // Nobody need wait on one of UDP.
        let object = Some(&endpoint.object);
        self.see(object.filter(|it| matches!(it, ObjectRef::Inet(socket) if socket.is_tcp())));
        let turn = endpoint.socket.as_ref().and_then(|state| state.turn.as_ref());
        if let ObjectRef::Inet(socket) = &endpoint.object
            && turn.is_some_and(is_silent)
        {
            self.add(socket);
        }
        let is_written = endpoint.socket.as_ref().is_some_and(|it| it.send_queued_bytes > 0);
        if let ObjectRef::Inet(socket) = &endpoint.object
            && socket.is_tcp()
            && is_written
            && waited.contains(&socket.ino)
            && self.written.len() < WRITTEN_MAX
        {
            self.written.extend(Some(destination(socket)).filter(is_elsewhere));
        }
    }

    fn add(&mut self, socket: &InetRef) {
        let to = destination(socket);
        if is_elsewhere(&to) && self.known.len() < DESTINATIONS_MAX {
            self.known.insert(to);
        }
    }

    fn insert_datagrams(&mut self, to: Destination) {
        if is_elsewhere(&to) && self.of_datagrams.len() < OF_DATAGRAMS_MAX {
            self.of_datagrams.insert(to);
        }
    }

    /// All of them, once; who reads only the first of them reads those of connections. And those that are written to and answer, as far as
    /// is known.
    pub fn take(&mut self) -> (Vec<Destination>, Vec<Destination>) {
        let Self { known, mut of_datagrams, mut written, .. } = std::mem::take(self);
        of_datagrams.retain(|to| !known.contains(to));
        written.retain(|to| !known.contains(to) && !of_datagrams.contains(to));
        (known.into_iter().chain(of_datagrams).collect(), written.into_iter().collect())
    }
}

fn destination(socket: &InetRef) -> Destination {
    let address = socket.remote.ip().to_canonical();
    let source = socket.local.ip().to_canonical();
    Destination { netns: socket.netns, address, source }
}

fn is_elsewhere(to: &Destination) -> bool {
    let Destination { address, source, .. } = to;
    // The interface of a link-local address is not in the address.
    let is_local = matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
    let is_own = address.is_loopback() || address == source || address.is_unspecified();
    !is_local && !is_own && !address.is_multicast()
}

/// Something was sent that the peer did not acknowledge, and nothing was heard of it since.
fn is_silent(turn: &TcpTurn) -> bool {
    let heard_ns = u64::from(turn.heard_jiffies) * u64::from(turn.jiffy_ns);
    turn.packets_out > 0 && heard_ns >= UNANSWERED_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{SocketState, ThreadRef};

    fn endpoint(state: u8, remote: &str, turn: TcpTurn) -> Endpoint {
        let object = ObjectRef::Inet(InetRef {
            ino: 5,
            netns: 7,
            protocol: "tcp".into(),
            local: "10.0.0.1:4000".parse().unwrap(),
            remote: remote.parse().unwrap(),
            state,
        });
        Endpoint {
            process: ThreadRef::default(),
            fd: 3,
            readable: true,
            writable: true,
            nonblocking: true,
            object,
            unread: None,
            output_stopped: false,
            socket: Some(SocketState { turn: Some(turn), ..SocketState::default() }),
        }
    }

    fn asked(state: u8, remote: &str, turn: TcpTurn) -> usize {
        let mut unanswered = Unanswered::default();
        unanswered.see_endpoint(&endpoint(state, remote, turn), &HashSet::new());
        unanswered.take().0.len()
    }

    #[test]
    fn only_addresses_that_do_not_answer_are_asked_about() {
        let quiet = TcpTurn { heard_jiffies: 500, jiffy_ns: 4_000_000, ..TcpTurn::default() };
        let silent = TcpTurn { packets_out: 1, ..quiet };
        let soon = TcpTurn { heard_jiffies: 5, ..silent };
        assert_eq!(asked(SYN_SENT, "10.0.0.9:80", TcpTurn::default()), 1);
        assert_eq!(asked(1, "10.0.0.9:80", silent), 1);
        assert_eq!(asked(1, "10.0.0.9:80", quiet), 0, "all was acknowledged");
        assert_eq!(asked(1, "10.0.0.9:80", soon), 0);
        for own in ["10.0.0.1:80", "127.0.0.1:80", "[::1]:80", "[fe80::1]:80"] {
            assert_eq!(asked(SYN_SENT, own, TcpTurn::default()), 0, "{own}");
        }
    }

    #[test]
    fn whoever_is_written_to_by_a_socket_that_is_waited_for_is_asked_about_apart() {
        let written = |remote: &str, send_queued_bytes, waited: u64| {
            let mut of = endpoint(1, remote, TcpTurn::default());
            of.socket.as_mut().unwrap().send_queued_bytes = send_queued_bytes;
            let mut unanswered = Unanswered::default();
            unanswered.see_endpoint(&of, &HashSet::from([waited]));
            let (unanswered, written) = unanswered.take();
            (unanswered.len(), written.len())
        };
        assert_eq!(written("10.0.0.9:80", 9, 5), (0, 1));
        assert_eq!(written("10.0.0.9:80", 9, 6), (0, 0), "nobody waits for it");
        assert_eq!(written("10.0.0.9:80", 0, 5), (0, 0));
        assert_eq!(written("127.0.0.1:80", 9, 5), (0, 0));
    }

    #[test]
    fn who_waits_for_a_datagram_is_asked_about_where_it_sends() {
        let waits = |local: &str, remote: &str, sent: bool| {
            let mut unanswered = Unanswered::default();
            let local: std::net::SocketAddr = local.parse().unwrap();
            let protocol = String::from("udp");
            unanswered.see(Some(&ObjectRef::Inet(InetRef {
                ino: 5,
                netns: 7,
                protocol: protocol.clone(),
                local,
                remote: remote.parse().unwrap(),
                state: 7,
            })));
            let remote = "10.0.0.9:161".parse().unwrap();
            if sent {
                let local_port = local.port();
                unanswered.see_sent(&SentTo { pid: 1, protocol, local_port, remote });
            }
            unanswered.take().0.len()
        };
        assert_eq!(waits("10.0.0.1:40000", "10.0.0.9:161", false), 1);
        assert_eq!(waits("0.0.0.0:40000", "0.0.0.0:0", true), 1);
        assert_eq!(waits("0.0.0.0:40000", "0.0.0.0:0", false), 0, "to nobody that is known");
        assert_eq!(waits("0.0.0.0:161", "0.0.0.0:0", true), 0, "a server");
    }

    #[test]
    fn an_interface_is_asked_about_where_packets_stand_in_its_queue() {
        use holdup_reason::facts::QdiscSample;
        let queue = |index: u32, backlog_packets: u64| {
            Body::QdiscSample(QdiscSample { index, backlog_packets, ..QdiscSample::default() })
        };
        let mut interfaces = Interfaces::default();
        interfaces.see_queues(&[queue(2, 0), queue(3, 1)]);
        assert_eq!(interfaces.take(), BTreeSet::from([(0, 3)]));
        let all: Vec<Body> = (0..100).map(|index| queue(index, 1)).collect();
        interfaces.see_queues(&all);
        assert_eq!(interfaces.take().len(), INTERFACES_MAX);
    }

    #[test]
    fn they_are_bounded() {
        let mut unanswered = Unanswered::default();
        for n in 0..300 {
            let remote = format!("10.1.{}.{}:80", n / 200, n % 200 + 1);
            unanswered.see(Some(&endpoint(SYN_SENT, &remote, TcpTurn::default()).object));
        }
        assert_eq!(unanswered.take().0.len(), DESTINATIONS_MAX);
    }
}
