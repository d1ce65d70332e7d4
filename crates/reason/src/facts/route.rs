//! Facts of the way that packets take: next hops, and why none is taken.
//!
//! Each is the kernel's answer about one address that somebody waits for, asked for as the look ends. Must not: list a table of routes
//! or neighbours, or say whose fault a missing way is (rules/net). Rejected: facts of every route (a router has a million).
//!
//! Edit together: readers/next_hops.rs and readers/unrouted.rs of the probe.

use super::Ns;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What connect(2), and sendto(2) of a datagram, return where nothing is sent to the address: EACCES, EINVAL, ENETUNREACH, EHOSTUNREACH.
pub const NO_WAY: [i32; 4] = [13, 22, 101, 113];

/// The next hop to an address that somebody sends to without an answer, and what the neighbour table says of it. Sources:
/// rtnetlink RTM_GETROUTE, RTM_GETNEIGH, of that one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NextHop {
    /// Network namespace inode.
    pub netns: u32,
    /// The address that is sent to.
    pub destination: IpAddr,
    /// The gateway to it; none if it is on the link.
    #[serde(default)]
    pub gateway: Option<IpAddr>,
    /// Interface.
    pub interface: String,
    /// Its kind, as of a link: of `tun` a program carries on what goes there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Interface index.
    pub index: u32,
    /// State of the next hop's neighbour entry, as the kernel numbers it (1 incomplete, 2 reachable, 32 failed); 0 if there is none.
    #[serde(default)]
    pub state: u16,
    /// Age of that state.
    #[serde(default)]
    pub updated_ns: Ns,
    /// What a router said that the way takes, bytes (a learnt path MTU, RTAX_MTU); none if none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu_bytes: Option<u32>,
    /// The hardware address of the next hop's neighbour entry, `02:00:0a:00:00:02`; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hardware: String,
    /// Into a tunnel of VXLAN, the hosts that it sends to for this neighbour, each of which is a destination of its own. Source: RTM_GETNEIGH of
    /// AF_BRIDGE.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunnel_ends: Vec<IpAddr>,
}

impl NextHop {
    /// Whom the kernel asks the link for: the gateway, or the address itself.
    pub fn neighbour(&self) -> IpAddr {
        self.gateway.unwrap_or(self.destination)
    }

    /// Whether nobody has answered for it: its neighbour entry is failed, or still incomplete (NUD_FAILED, NUD_INCOMPLETE of
    /// include/uapi/linux/neighbour.h).
    pub fn is_silent(&self) -> bool {
        const SILENT: u16 = 0x01 | 0x20;
        self.state & SILENT != 0
    }

    /// Whether its neighbour entry was set by hand or by a program, and is never asked anew (NUD_PERMANENT).
    pub fn is_permanent(&self) -> bool {
        const NUD_PERMANENT: u16 = 0x80;
        self.state & NUD_PERMANENT != 0
    }
}

/// That a network namespace of this host has an address that somebody asks without an answer, and no route to who asks. Source: rtnetlink
/// RTM_GETROUTE there, of that one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoWayBack {
    /// Network namespace of who asks, inode.
    pub netns: u32,
    /// From.
    pub source: IpAddr,
    /// To.
    pub address: IpAddr,
    /// Network namespace that has this address, inode.
    pub far_netns: u32,
    /// What its routes say.
    pub answer: NoRoute,
}

/// Which interface of this host has an address that somebody sends to; of old recordings one that did not answer, or whose neighbour entry is
/// permanent. Sources: rtnetlink RTM_GETADDR, RTM_GETLINK.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddressHere {
    /// Network namespace of who sends, inode.
    pub netns: u32,
    /// The address: what is asked for, or the gateway to it.
    pub address: IpAddr,
    /// Network namespace of the interface, inode.
    pub far_netns: u32,
    /// Index of the interface.
    pub far_index: u32,
    /// Hardware addresses of that namespace's interfaces, this one's first. Of old recordings only where the neighbour entry of who sends is permanent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardware: Vec<String>,
    /// Name of the interface, where it is a tun device: what comes to it is in the hands of a program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tunnel: String,
}

/// What the kernel says of an address that it does not send to (fib_props, net/ipv4/fib_semantics.c).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoRoute {
    /// No route leads there: ENETUNREACH.
    #[default]
    None,
    /// A route of type `unreachable`: EHOSTUNREACH.
    Unreachable,
    /// A route of type `blackhole`: EINVAL.
    Blackhole,
    /// A route of type `prohibit`: EACCES.
    Prohibit,
}

impl NoRoute {
    /// What a call returns for it, positive.
    pub fn errno(self) -> i32 {
        match self {
            Self::None => 101,
            Self::Unreachable => 113,
            Self::Blackhole => 22,
            Self::Prohibit => 13,
        }
    }
}

/// That a network namespace sends nothing to an address to which somebody was refused a connection, and what says so there. Source:
/// rtnetlink RTM_GETROUTE of that one address, RTM_GETRULE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unrouted {
    /// Network namespace inode.
    pub netns: u32,
    /// The address.
    pub address: IpAddr,
    /// What the kernel says of it.
    pub answer: NoRoute,
    /// The rule that led there, if it is known: where there is no route at all, none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<RefusingRule>,
}

/// A rule of routing (ip-rule(8)) that ended the search for a way: itself, or by a route of its table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusingRule {
    /// Its priority.
    pub priority: u32,
    /// The route of its table that refuses; none: the rule does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RefusingRoute>,
}

/// A route of type `unreachable`, `blackhole` or `prohibit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusingRoute {
    /// Of which addresses: the first.
    pub prefix: IpAddr,
    /// And how many of its bits count.
    pub bits: u8,
    /// The table that it is in.
    pub table: u32,
    /// Its metric.
    #[serde(default)]
    pub metric: u32,
}
