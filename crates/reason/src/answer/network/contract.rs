//! What `holdup net` says: the contract of `holdup net --json`, version 1 (docs/net.md).
//!
//! Fields are only ever added. A table that was not read is null, never empty; a figure that is not known is left out, never zero. Rates
//! are of the window. Must not hold rules or wording, but for what a reason or a counter means.
//!
//! Edit together: docs/net.md, the report crate's text/network.rs.

use crate::answer::bounds::LeftOut;
use crate::answer::report::{ReportHost, Severity, Tool, Victim, Who, Window};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The network of a host over a window, and who waits for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Version of this contract.
    pub schema: u32,
    /// Who observed.
    pub tool: Tool,
    /// Where: its name, kernel, machine and CPUs.
    pub host: ReportHost,
    /// When, and how long.
    pub window: Window,
    /// Causes of the network's area that have a name, worst first; `holdup` without `net` says them whole.
    pub findings: Vec<NamedCause>,
    /// Interfaces that moved a packet or lost one: those that lost first, then by what they carried.
    pub interfaces: Option<Vec<Interface>>,
    /// How many others there are.
    pub interfaces_at_rest: usize,
    /// Packets that this host dropped, by place and reason, most first.
    pub drops: Option<Vec<Drops>>,
    /// Next hops to addresses that somebody waits for, which do not answer.
    pub neighbours: Option<Vec<Neighbour>>,
    /// Tables that can be full.
    pub tables: Vec<Table>,
    /// Sockets that somebody waits for, or that are not healthy: what is waited for longest first.
    pub sockets: Option<Vec<Socket>>,
    /// Counters that moved and mean trouble, most first.
    pub counters: Option<Vec<Counter>>,
    /// What is missing above, and why.
    pub not_read: Vec<NotRead>,
    /// What was left out of lists that are longer than their bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A cause that a rule has named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedCause {
    /// `net.backlog_full`, ...
    pub code: String,
    /// One sentence.
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
}

/// A network namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its inode; 0 if it is not known.
    pub netns: u32,
    /// Its name of `ip netns`, `pid:812` by a process in it, or `net:[4026532178]`; absent of the host's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Where.
    #[serde(flatten)]
    pub at: Namespace,
    /// Its name.
    pub name: String,
    /// `veth`, `tun`, ...; absent of hardware.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Longest packet.
    pub mtu_bytes: u32,
    /// What the link was agreed to carry, where the driver was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_bits_per_second: Option<f64>,
    /// Descriptors of the receive ring, where the driver was asked: as it is set, and as many as it could have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_ring: Option<[u32; 2]>,
    /// What came in; absent if it was read once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Traffic>,
    /// What went out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Traffic>,
    /// What was lost, by the kernel's counter (IFLA_STATS64), most first.
    pub lost: Vec<Lost>,
    /// Its queueing disciplines: its outermost one, and whichever held or dropped something.
    pub queues: Vec<Queue>,
}

/// What an interface carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Rate.
    pub bits_per_second: f64,
    /// Packets; a packet of joined segments is one.
    pub packets_per_second: f64,
}

/// A counter of losses that grew.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Lost {
    /// `rx_missed_errors`, ...
    pub counter: String,
    /// By how much.
    pub packets: u64,
    /// The same a second.
    pub per_second: f64,
}

/// A queueing discipline, or a class of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// `fq_codel`, `tbf`, ...
    pub kind: String,
    /// `8001:`; of a class `1:20`.
    pub handle: String,
    /// `root`, or a class.
    pub parent: String,
    /// What waits in it as the window ends.
    pub backlog: Amount,
    /// What waited in it on average; absent if it was not read often enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_packets_mean: Option<f64>,
    /// How long a packet waited in it on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds_mean: Option<f64>,
    /// What it dropped; absent if it was read once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
    /// The same a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_per_second: Option<f64>,
    /// How often its rate held a packet back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlimits: Option<u64>,
    /// As many packets as it has room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_packets: Option<u64>,
    /// As many bytes as it has room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The rate that it is set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bits_per_second: Option<f64>,
    /// Who waits for what passes it.
    pub waiting: Vec<Victim>,
}

impl Queue {
    /// Whether it held or dropped something.
    pub fn is_used(&self) -> bool {
        let some = |of: Option<u64>| of.is_some_and(|it| it > 0);
        self.backlog.packets > 0
            || self.backlog_packets_mean.is_some_and(|mean| mean > 0.0)
            || some(self.dropped_packets)
            || some(self.overlimits)
    }
}

/// So much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Packets that were dropped in one place for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Drops {
    /// Where.
    #[serde(flatten)]
    pub at: Namespace,
    /// Interface; absent if the packet said none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub interface: String,
    /// The kernel's word for it; absent where it gives none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The function that dropped them, where the reason says nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// What that means, one clause; absent of a reason that is not known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
    /// How many.
    pub packets: u64,
    /// The same a second.
    pub per_second: f64,
    /// Whose they were, most packets first; of many not all.
    pub flows: Vec<Flow>,
    /// Who waits for one of these flows.
    pub waiting: Vec<Victim>,
}

/// A flow that lost packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// `tcp`, `udp`, ...
    pub protocol: String,
    /// Source; unspecified of a packet that is not IP.
    pub from: SocketAddr,
    /// Destination.
    pub to: SocketAddr,
    /// How many; of a flow among thousands an estimate.
    pub packets: u64,
    /// How long before the window's end the last of them was dropped.
    pub last_seconds_before_end: f64,
    /// Who sent them, if it is a process of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Who>,
    /// Who was to have them, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<Who>,
}

/// A next hop that does not answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Where.
    #[serde(flatten)]
    pub at: Namespace,
    /// Interface.
    pub interface: String,
    /// Who does not answer: the gateway, or the address itself.
    pub address: IpAddr,
    /// `failed`, or `incomplete`: it is being asked for.
    pub state: String,
    /// How old that state is.
    pub state_seconds: f64,
    /// The address that is sent to.
    pub destination: IpAddr,
    /// Who waits for it.
    pub waiting: Vec<Victim>,
}

/// A table that can be full.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Where; those of neighbours are the host's.
    #[serde(flatten)]
    pub at: Namespace,
    /// `neighbours_v4`, `neighbours_v6`, `connections` (of the packet filter).
    pub table: String,
    /// Entries as the window ends.
    pub entries: u64,
    /// As many as there may be.
    pub limit: u64,
    /// How many found no room; absent if that was not read, or if packets were dropped by a table that has room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Of neighbours: how many were asked for in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
}

/// A socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Socket {
    /// Where.
    #[serde(flatten)]
    pub at: Namespace,
    /// `tcp`, `mptcp`, `udp`, ...
    pub protocol: String,
    /// As ss writes it: `ESTAB`, `SYN-SENT`, `LISTEN`, ...; of other protocols `UNCONN` or `ESTAB`.
    pub state: String,
    /// Its address.
    pub local: SocketAddr,
    /// The other end's; absent if it is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
    /// Whose it is; of several processes that share it the first.
    pub owner: Who,
    /// What is not healthy about it.
    pub troubles: Vec<Trouble>,
    /// What stands in it; absent if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<Buffers>,
    /// Of a connection of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
    /// Who waits for it or for its other end.
    pub waiting: Vec<Victim>,
    /// How long, summed over all of them.
    pub waiting_seconds: f64,
}

/// What is not healthy about a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Segments were sent again within the window.
    SentAgain,
    /// The peer takes nothing more, and something is to be sent.
    PeerWindowZero,
    /// Most of its receive buffer is taken.
    ReceiveBufferFull,
    /// Most of its send buffer is taken.
    SendBufferFull,
    /// More than half of the connections that may wait to be accepted do.
    AcceptQueueOverHalf,
    /// It dropped something within the window.
    Dropped,
    /// The round trip takes several times as long as the shortest one.
    RoundTripGrown,
    /// For most of the time with data outstanding the peer's window set the rate.
    ReceiverLimited,
    /// The same of its own send buffer.
    SendBufferLimited,
}

/// What stands in a socket as the window ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Buffers {
    /// Of the receive buffer, with what the kernel needs to hold it.
    pub receive_queued_bytes: u64,
    /// Its size.
    pub receive_limit_bytes: u64,
    /// Of the send buffer, likewise.
    pub send_queued_bytes: u64,
    /// Its size.
    pub send_limit_bytes: u64,
    /// Connections that wait to be accepted; of a listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_queue: Option<u32>,
    /// As many as may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_limit: Option<u32>,
    /// Dropped at it within the window.
    pub dropped_packets: u64,
}

/// What a connection of TCP counts, within the window where nothing else is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tcp {
    /// Smoothed round trip as the window ends; absent if none was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_seconds: Option<f64>,
    /// The shortest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_seconds_min: Option<f64>,
    /// Segments sent again.
    pub sent_again_segments: u32,
    /// Segments that arrived.
    pub delivered_segments: u32,
    /// What the peer has acknowledged.
    pub acknowledged_bits_per_second: f64,
    /// What came in.
    pub received_bits_per_second: f64,
    /// Written and not sent yet, as the window ends.
    pub unsent_bytes: u64,
    /// What the peer would take, likewise; absent as long as it has said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_window_bytes: Option<u32>,
    /// Congestion window, likewise.
    pub congestion_window_segments: u32,
    /// Time with data outstanding.
    pub busy_seconds: f64,
    /// Of it limited by the peer's window.
    pub receiver_limited_seconds: f64,
    /// Of it limited by the send buffer.
    pub send_buffer_limited_seconds: f64,
}

/// A counter that means trouble.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    /// Where; those of CPUs and of neighbours are the host's.
    #[serde(flatten)]
    pub at: Namespace,
    /// With its table, as nstat has it: `TcpExt.ListenOverflows`; `softnet.dropped.cpu1`.
    pub counter: String,
    /// By how much it grew.
    pub count: u64,
    /// The same a second.
    pub per_second: f64,
    /// What it means, one clause.
    pub meaning: String,
}

/// What was not read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NotRead {
    /// In which table it is missing: `interfaces`, `drops`, `neighbours`, `sockets`, `counters`.
    pub table: String,
    /// What and why, one sentence.
    pub text: String,
}
