//! Facts of the network: interfaces, queueing disciplines, packets that were dropped, DNS, counters.
//!
//! An interface or qdisc is named together with its network namespace, since two containers each have an
//! `eth0`. Names and addresses from packets are data: bytes as seen, escaped only where they are printed.
//! Packets themselves are never kept, but for the name that a DNS query asks for.

use super::{Ns, ThreadRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// UDP ports from here on are given to whoever asks for none, as net.ipv4.ip_local_port_range is set by default: who is bound there
/// asks, and does not answer.
pub const GIVEN_PORTS: u16 = 32_768;

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Network namespace inode.
    pub netns: u32,
    /// A name for the namespace: `ip netns` name, or empty for the initial one.
    pub netns_name: String,
    /// Interface index.
    pub index: u32,
    /// Name.
    pub name: String,
    /// `veth`, `tun`, `vxlan`, ...; empty for hardware.
    pub kind: String,
    /// MTU, bytes.
    pub mtu: u32,
    /// txqueuelen, packets.
    pub queue_length: u32,
    /// Index of the bridge, bond or other interface that it is a port of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<u32>,
    /// Of a veth, the index of its other end, in whichever namespace that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    /// Somebody has switched it on (IFF_UP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
    /// Of a port of a bridge, how it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<BridgePort>,
    /// It has a carrier: a cable, or another end, that is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier: Option<bool>,
    /// Of a tunnel of VXLAN, its ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vxlan: Option<Vxlan>,
    /// Of a bridge, whether it parts its ports by VLANs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_filtering: Option<bool>,
    /// Statistics by their IFLA_STATS64 names.
    pub counters: BTreeMap<String, u64>,
}

/// What a port of a bridge passes. Source: rtnetlink IFLA_BRPORT_*.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgePort {
    /// Its state, as include/uapi/linux/if_bridge.h numbers it: 0 disabled, 1 listening, 2 learning, 3 forwarding, 4 blocking.
    pub state: u8,
    /// It passes nothing to other ports that are so.
    pub isolated: bool,
}

/// The ends of a tunnel of VXLAN. Source: rtnetlink IFLA_VXLAN_*.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vxlan {
    /// Number of the network in it (VNI).
    pub id: u32,
    /// The UDP port that it listens on, and sends to.
    pub port: u16,
    /// The address that it sends from.
    pub local: Option<IpAddr>,
    /// The address that it sends to, where that is one: a host, or a group of them.
    pub remote: Option<IpAddr>,
}

/// A queueing discipline or class at one instant. Source: rtnetlink TCA_STATS2.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QdiscSample {
    /// Network namespace inode.
    pub netns: u32,
    /// Interface.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// `tbf`, `htb`, `fq_codel`, ...
    pub kind: String,
    /// Handle, `8001:`; or class id `1:20`.
    pub handle: String,
    /// Parent, `root` or a class id.
    pub parent: String,
    /// This is a class, not a qdisc.
    pub class: bool,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Times the rate limit delayed a packet.
    pub overlimits: u64,
    /// Bytes queued now.
    pub backlog_bytes: u64,
    /// Packets queued now.
    pub backlog_packets: u64,
    /// Configured rate, bytes a second (tbf rate, htb ceil).
    pub rate_bytes: Option<u64>,
    /// Rate that is assured before borrowing, bytes a second (htb rate).
    pub assured_rate_bytes: Option<u64>,
    /// Size of the token bucket, bytes (tbf burst, htb cburst).
    pub burst_bytes: Option<u64>,
    /// What else `tc class change` would forget of a class of htb unless it is named again, in its words: `burst 1600b prio 5`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub class_words: String,
    /// Configured limit in bytes or packets as the kind counts it.
    pub limit: Option<u64>,
    /// What netem is set to do to packets.
    pub netem: Option<Netem>,
    /// Filters that steer into it, as `tc filter show` would put it.
    pub filters: Vec<String>,
}

/// What netem is set to do to the packets of an interface on purpose. Source: rtnetlink TCA_OPTIONS, tc_netem_qopt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Netem {
    /// Each packet is held so long.
    pub delay_ns: Ns,
    /// And so much more or less.
    pub jitter_ns: Ns,
    /// Packets that overtake, in the words of tc: `reorder 25% 0% gap 5`. They need a delay.
    pub reorder: String,
    /// What else `tc qdisc change` would forget unless it is named again, in its words: `loss 1% duplicate 2%`. None if
    /// there is something that these words cannot say (a loss model).
    pub other: Option<String>,
}

/// Time that packets spent in a queueing discipline. Source: qdisc_enqueue, qdisc_dequeue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QdiscSojourn {
    /// Network namespace inode.
    pub netns: u32,
    /// Interface.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// Handle of the qdisc that held the packet.
    pub handle: String,
    /// Packets measured.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their time.
    pub sojourn_ns: Ns,
    /// Least time.
    pub sojourn_ns_min: Ns,
    /// Greatest time.
    pub sojourn_ns_max: Ns,
    /// Packets by log2 of their time in microseconds, slot n counts [2^n, 2^(n+1)) us.
    pub sojourn_us_log2: Vec<u64>,
    /// Least time in each tenth of a second that had packets: a standing queue never empties
    /// (CoDel, RFC 8289).
    pub sojourn_ns_min_by_tenth: Vec<Ns>,
    /// One packet in this many was measured.
    pub sampling: u32,
}

/// One flow's share in a queueing discipline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QdiscFlow {
    /// Network namespace inode.
    pub netns: u32,
    /// Interface.
    pub interface: String,
    /// Handle of the qdisc.
    pub handle: String,
    /// `tcp`, `udp`, `icmp` or the number.
    pub protocol: String,
    /// Source.
    pub local: SocketAddr,
    /// Destination.
    pub remote: SocketAddr,
    /// Process that owns the sending socket, if it was local.
    #[serde(default)]
    pub process: Option<ThreadRef>,
    /// Packets dequeued whose time in the queue was measured.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their time in the queue.
    pub sojourn_ns: Ns,
    /// Packets dequeued that were not seen to enter as they left: queued before the look, or pieces
    /// of a super-packet that the qdisc cut.
    #[serde(default)]
    pub untimed_packets: u64,
    /// Their bytes.
    #[serde(default)]
    pub untimed_bytes: u64,
    /// Greatest time in the queue.
    #[serde(default)]
    pub sojourn_ns_max: Ns,
    /// Inode of the sending socket, 0 if unknown.
    #[serde(default)]
    pub socket_ino: u64,
}

/// Packets that the kernel threw away within the look, of one interface and for one reason. Source: kfree_skb.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacketDrops {
    /// Network namespace inode; 0 if the packet said none.
    pub netns: u32,
    /// Interface; empty if the packet said none.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// The kernel's word for it, without its prefix: `CPU_BACKLOG`. Empty where this kernel gives none.
    pub reason: String,
    /// The function that dropped them, where the reason says nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// How many.
    pub packets: u64,
    /// Whose they were, most packets first; of many not all.
    pub flows: Vec<DroppedFlow>,
}

/// One flow's share of that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DroppedFlow {
    /// `tcp`, `udp`, `icmp`, the number; of a packet that is not IP `arp`, or the number of its Ethernet type.
    pub protocol: String,
    /// Source; unspecified of a packet that is not IP.
    pub from: SocketAddr,
    /// Destination.
    pub to: SocketAddr,
    /// Packets; an estimate of a flow among thousands.
    pub packets: u64,
    /// The first of them.
    pub first_ns: Ns,
    /// The last.
    pub last_ns: Ns,
    /// Inode of the socket of this host that sent it or was to have it, 0 if unknown.
    #[serde(default)]
    pub socket_ino: u64,
    /// Process that sent it, if it is of this host.
    #[serde(default)]
    pub sender: Option<ThreadRef>,
    /// Process that was to have it, if it is of this host.
    #[serde(default)]
    pub receiver: Option<ThreadRef>,
}

/// A rule of the packet filter that drops what it matches, or a chain that drops what no rule accepts. Read where packets were
/// dropped by the filter. Source: nfnetlink NFT_MSG_GETCHAIN, NFT_MSG_GETRULE.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilterRule {
    /// Network namespace inode.
    pub netns: u32,
    /// `ip`, `ip6`, `inet`, `bridge`, `netdev`, `arp`.
    pub family: String,
    /// Table.
    pub table: String,
    /// Chain.
    pub chain: String,
    /// Where packets come to the chain: `input`, `output`, `forward`, ...; empty if others jump to it, and from where is not known.
    pub hook: String,
    /// Number of the rule in its table; 0: it is the policy of the chain.
    pub handle: u64,
    /// Packets that it has dropped since it was made; none: it does not count.
    pub packets: Option<u64>,
    /// Whoever sent the packet hears of it.
    pub rejects: bool,
    /// The protocol that it is about.
    pub protocol: Option<String>,
    /// The addresses that packets come from: a network and its length.
    pub source: Option<(IpAddr, u8)>,
    /// The addresses that they go to.
    pub destination: Option<(IpAddr, u8)>,
    /// The port that they come from.
    pub source_port: Option<u16>,
    /// The port that they go to.
    pub destination_port: Option<u16>,
    /// What else it looks at, by the kernel's names: `ct`, `lookup`, `limit`.
    pub rest: Vec<String>,
}

impl FilterRule {
    /// What `rest` has of a rule that asks a map of verdicts, whose elements are not read: it may drop, or do anything else.
    pub const MAP: &'static str = "vmap";

    /// Whether it asks one.
    pub fn is_map(&self) -> bool {
        self.rest.iter().any(|name| name == Self::MAP)
    }
}

/// A process that has a tun or tap device open, and so is to read what is sent there. Read where such a device dropped packets.
/// Source: /proc/PID/fdinfo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TapReader {
    /// Network namespace inode of the process.
    pub netns: u32,
    /// Interface.
    pub interface: String,
    /// The process.
    pub process: ThreadRef,
}

/// A packet socket that has an interface take every frame, also those for others (PACKET_MR_PROMISC), as of who captures. Sources: sock_diag
/// (packet_diag), /proc/PID/fd.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacketSocket {
    /// Network namespace inode.
    pub netns: u32,
    /// Interface.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// Inode of the socket.
    pub ino: u64,
    /// A process that has it open.
    pub process: ThreadRef,
}

/// Which CPUs the kernel hands the packets on to that come in by an interface (RPS). Read where a CPU dropped some of them. Source:
/// /sys/class/net/IF/queues/rx-N/rps_cpus, of another namespace as a process there sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiveSteering {
    /// Network namespace inode.
    pub netns: u32,
    /// Interface.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// A mask of CPUs for each receive queue, as the file has it; `0`: they stay where they come in.
    pub masks: Vec<String>,
    /// The folder of the queues, from here; empty where it cannot be written to.
    pub folder: String,
}

/// Connections of a network namespace to one address, where somebody was refused another for want of a port, or where a look that goes on
/// sees many. Of several local addresses, each of which has all ports, those of the one with the most. Sources: sock_diag, /proc/sys/net/ipv4 of
/// that namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortUse {
    /// Network namespace inode.
    pub netns: u32,
    /// The address that is connected to.
    pub remote: SocketAddr,
    /// The first and the last port that a connection is given.
    pub range: (u16, u16),
    /// Of these, ports that are never given.
    #[serde(default)]
    pub reserved: u32,
    /// Connections to it that have ended and hold their port a minute longer.
    pub time_wait: u32,
    /// Connections to it that stand.
    pub open: u32,
    /// net.ipv4.tcp_tw_reuse.
    #[serde(default)]
    pub reuse: Option<u32>,
}

impl PortUse {
    /// Ports that connections may be given.
    pub fn ports(&self) -> u32 {
        let (first, last) = self.range;
        (u32::from(last.saturating_sub(first)) + 1).saturating_sub(self.reserved)
    }
}

/// An address of an interface that cannot be used, or not yet. Source: rtnetlink RTM_GETADDR.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnusableAddress {
    /// Network namespace inode.
    pub netns: u32,
    /// Interface.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Length of its network.
    pub prefix: u8,
    /// Another answered for it (IFA_F_DADFAILED); else it is still being asked whether somebody has it (IFA_F_TENTATIVE).
    pub duplicate: bool,
}

/// Why a packet is dropped that came by another interface than the way back to its sender (SKB_DROP_REASON_IP_RPFILTER).
pub const REVERSE_PATH: &str = "IP_RPFILTER";

/// Why a packet is dropped that is for somebody else, where it is not passed on or no route leads on (ip_error).
pub const NOT_PASSED_ON: [&str; 2] = ["IP_INADDRERRORS", "IP_INNOROUTES"];

/// By which interfaces IPv4 packets are taken: 0 any, 1 that to their sender, 2 any if one leads to the sender; and whether they are passed on.
/// Read where packets were dropped for either. Source: rtnetlink RTM_GETNETCONF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReversePath {
    /// Network namespace inode.
    pub netns: u32,
    /// Interface index.
    pub index: u32,
    /// The interface's own number.
    pub own: u32,
    /// The one of all.
    pub of_all: u32,
    /// Packets for others that come in by it are passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwards: Option<bool>,
}

impl ReversePath {
    /// What the kernel goes by (IN_DEV_RPFILTER).
    pub fn mode(&self) -> u32 {
        self.own.max(self.of_all)
    }
}

/// How the driver of an interface is set. Source: generic netlink, family ethtool. What a driver does not say is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkSettings {
    /// Network namespace inode.
    pub netns: u32,
    /// Interface.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// Descriptors of packets that the adapter and the host share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rings: Option<Rings>,
    /// Queues, each with an interrupt of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// For how long an interrupt may wait for more packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<Coalescing>,
    /// Whether a feature is on, by its kernel name: `rx-gro`, `rx-checksum`, `tx-tcp-segmentation`, `tx-generic-segmentation`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub features: BTreeMap<String, bool>,
    /// What the link was agreed to carry, megabits (10^6) a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbit: Option<u32>,
    /// Both ends may send at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_duplex: Option<bool>,
    /// Whether it asks the other end to pause (`tx`), and pauses when it is asked (`rx`), by IEEE 802.3x.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

/// Descriptors of an adapter's rings: as they are set, and as many as it could have. ETHTOOL_MSG_RINGS_GET.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rings {
    /// For packets that come in.
    pub rx: u32,
    /// At most.
    pub rx_max: u32,
    /// For packets that go out.
    pub tx: u32,
    /// At most.
    pub tx_max: u32,
}

/// Queues of an adapter: as they are set, and as many as it could have. ETHTOOL_MSG_CHANNELS_GET.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// That receive alone.
    pub rx: u32,
    /// At most.
    pub rx_max: u32,
    /// That send alone.
    pub tx: u32,
    /// At most.
    pub tx_max: u32,
    /// That do both.
    pub combined: u32,
    /// At most.
    pub combined_max: u32,
}

/// When an adapter raises an interrupt. ETHTOOL_MSG_COALESCE_GET.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coalescing {
    /// Microseconds after a packet came in, at the latest.
    pub rx_us: Option<u32>,
    /// Packets that came in, at the latest.
    pub rx_frames: Option<u32>,
    /// Microseconds after a packet went out, at the latest.
    pub tx_us: Option<u32>,
    /// Packets that went out, at the latest.
    pub tx_frames: Option<u32>,
    /// The driver changes the figures of receiving by itself.
    pub adaptive_rx: Option<bool>,
}

/// Flow control of a link. ETHTOOL_MSG_PAUSE_GET.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// It pauses when the other end asks for it.
    pub rx: bool,
    /// It asks the other end to pause.
    pub tx: bool,
}

/// A DNS question that was sent. Source: net_dev_queue, UDP to port 53, or to another whose datagram is a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DnsQuery {
    /// Who sent it.
    pub thread: ThreadRef,
    /// To which server.
    pub server: SocketAddr,
    /// From where.
    pub local: SocketAddr,
    /// Transaction id.
    pub id: u16,
    /// The name, dotted, lossily UTF-8, not escaped.
    pub name: String,
    /// Question type: 1 A, 12 PTR, 28 AAAA.
    pub question_type: u16,
    /// Inode of the sending socket, 0 if unknown.
    #[serde(default)]
    pub socket_ino: u64,
}

/// A DNS answer that arrived. Source: the same, at the receiving interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DnsReply {
    /// Server.
    pub server: SocketAddr,
    /// Asker.
    pub local: SocketAddr,
    /// Transaction id.
    pub id: u16,
    /// Response code: 0 no error, 2 SERVFAIL, 3 NXDOMAIN.
    pub rcode: u8,
}

/// Protocol counters of one network namespace. Sources: /proc/net/netstat, snmp, softnet_stat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetCounters {
    /// Network namespace inode.
    pub netns: u32,
    /// Counter by its name, prefixed by its table: `TcpExt.ListenOverflows`, `softnet.dropped`.
    pub counters: BTreeMap<String, u64>,
}

/// A connection that somebody waits on and whose addresses are translated on this host, on its way (NAT): what each of its ends calls
/// itself and the other. Source: ctnetlink IPCTNL_MSG_CT_GET, of that one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Translation {
    /// Inode of the network namespace that translates.
    pub netns: u32,
    /// The end that is waited on.
    pub local: SocketAddr,
    /// The other, as that one has it.
    pub remote: SocketAddr,
    /// The other end, as it has itself.
    pub far_local: SocketAddr,
    /// The end that is waited on, as the other has it.
    pub far_remote: SocketAddr,
    /// Inode of the network namespace of this host that has the other end's address; none if none has it, or several.
    #[serde(default)]
    pub far_netns: Option<u32>,
}
