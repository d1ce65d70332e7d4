//! Where a person looks for what drops packets, once the kernel has said why.
//!
//! A look changes nothing: what is to be changed there is for whoever set it. Must not: say why (drop_reasons.rs), or in which namespace
//! (packet_dropped.rs).
//!
//! Edit together: drop_reasons.rs.

use std::net::IpAddr;

/// Where to look for what drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The interface's MTU.
    Mtu,
    /// That of a veth's other end.
    MtuOfPeer,
    /// Routes, and rules that choose between them.
    Routes,
    /// Who is on the link, by the neighbour table.
    Neighbours,
    /// Whether packets for others are passed on.
    PassingOn,
    /// Filters of tc at the interface.
    Filters,
    /// Programs at the interface.
    Programs,
    /// Programs of a cgroup, or a filter on the socket.
    CgroupPrograms,
    /// What the driver leaves to the adapter: checksums.
    Features,
    /// Ports of a bridge, and their states.
    Ports,
    /// Where frames go by their addresses.
    Forwarding,
    /// Memory of all sockets of a protocol.
    SocketMemory,
    /// Policies of IPsec.
    Policies,
    /// Policies of IPsec, or routes.
    Discarding,
    /// Programs that take packets from the filter.
    FilterQueues,
    /// What a queueing discipline lets through.
    Queue,
    /// The interface itself.
    Interface,
    /// Where in the kernel it happens.
    Kernel,
}

impl Look {
    /// It is of the host, or of a namespace, and no interface is needed to look at it.
    pub(super) fn is_of_no_interface(self) -> bool {
        matches!(
            self,
            Self::Routes
                | Self::Ports
                | Self::SocketMemory
                | Self::Policies
                | Self::FilterQueues
                | Self::Discarding
                | Self::CgroupPrograms
        )
    }

    /// What to do in words, and the tool that does it with what it is given. `device` as a shell takes it.
    // LONG FUNCTION: a table, one arm for each place to look at.
    pub(super) fn command(
        self,
        device: &str,
        to: IpAddr,
        is_incoming: bool,
    ) -> (&'static str, &'static str, String) {
        match self {
            Self::Mtu | Self::MtuOfPeer => (
                "see the MTU there: the sender's may be no greater, or the router is to tell it (ICMP) or to lower its segments (MSS)",
                "ip",
                format!("-d link show dev {device}"),
            ),
            Self::Routes | Self::PassingOn => (
                "see the routes there, and the rules that choose between them",
                "ip",
                format!("route get {to}"),
            ),
            Self::Neighbours => (
                "see which host that is, and that it is up, its address right and the link whole; or whether packets should go that way at all",
                "ip",
                format!("neigh show dev {device}"),
            ),
            Self::Filters => {
                let way = if is_incoming { "ingress" } else { "egress" };
                (
                    "see the filters there, with their counters",
                    "tc",
                    format!("-s filter show dev {device} {way}"),
                )
            }
            Self::CgroupPrograms => (
                "see the programs of cgroups: IPAddressDeny= of a unit is one",
                "bpftool",
                "cgroup tree".into(),
            ),
            Self::Programs => {
                ("see the programs there", "bpftool", format!("net show dev {device}"))
            }
            Self::Features => (
                "see what is left to the adapter: a checksum or a segment that it gets wrong is switched off with -K",
                "ethtool",
                format!("-k {device}"),
            ),
            Self::Ports => {
                ("see the states of the bridge's ports", "bridge", "-d link show".into())
            }
            Self::Forwarding => {
                ("see where frames are sent there", "bridge", format!("fdb show dev {device}"))
            }
            Self::SocketMemory => (
                "see the memory of all sockets, and its limits",
                "cat",
                "/proc/net/sockstat /proc/sys/net/ipv4/tcp_mem /proc/sys/net/ipv4/udp_mem".into(),
            ),
            Self::Policies => (
                "see the policies of IPsec, and whether each has its states (ip xfrm state): who agrees on keys (IKE) makes them",
                "ip",
                "xfrm policy".into(),
            ),
            Self::Discarding => (
                "see whether a policy of IPsec is for them that has no state (ip xfrm state), and which way they are to go (ip route get)",
                "ip",
                "xfrm policy".into(),
            ),
            Self::Queue => (
                "give it a burst that a whole packet fits into: the MTU and the link's header at least; what it has and counts",
                "tc",
                format!("-s qdisc show dev {device}"),
            ),
            Self::Interface => (
                "see how the interface is set, and what it counts",
                "ip",
                format!("-d -s link show dev {device}"),
            ),
            Self::FilterQueues => (
                "start the program that takes them from that queue, or let the rule pass them without one (bypass); the queues, and who takes them",
                "cat",
                "/proc/net/netfilter/nfnetlink_queue".into(),
            ),
            Self::Kernel => (
                "see where in the kernel they are dropped",
                "perf",
                "record -e skb:kfree_skb -a -g -- sleep 5".into(),
            ),
        }
    }
}
