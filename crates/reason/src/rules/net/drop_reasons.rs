//! What the kernel's reasons for dropping a packet mean (include/net/dropreason-core.h).
//!
//! Owns the words of the reasons that no rule of their own is about; where a reason says nothing, the function that dropped may. A reason
//! that is not listed is of a newer kernel, or of a module, and is said as it stands. Must not: say whose packets they are, or that a drop
//! matters (drop_places.rs).
//!
//! Edit together: src/kernel/fitting.rs of the probe (what is the ordinary end of a packet, and not counted).

use super::drop_looks::Look;
use crate::facts::PacketDrops;

/// Why packets were dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    /// A clause: `they are longer than its MTU`.
    pub clause: String,
    /// Where to look.
    pub look: Look,
    /// What it is about.
    pub matter: Matter,
}

/// What a drop is about, by which the rules share them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matter {
    /// Packets that are longer than an MTU.
    Length,
    /// Packets whose checksum does not fit what is in them.
    Checksum,
    /// Whatever else.
    Other,
}

/// Reasons, and functions that drop for one, of packets that are longer than an MTU.
const LENGTH: [&str; 3] = ["PKT_TOO_BIG", "br_dev_queue_push_xmit", "ip_fragment"];
/// Reasons of packets that came in with a wrong checksum. Not SKB_CSUM: that one could not be made here (tap_handle_frame), or is a raw socket's.
const CHECKSUMS: [&str; 4] = ["TCP_CSUM", "UDP_CSUM", "ICMP_CSUM", "IP_CSUM"];

const TOO_LONG: &str = "they are longer than its MTU allows";
const NOT_TAKEN_BY_PEER: &str =
    "they are longer than the MTU of its other end allows, or that end is down";
const CHECKSUM: &str = "their checksum is wrong";
const NO_ROUTE: &str = "no route leads on from there, or one forbids them";
const BLACK_HOLE: &str = "a route there is a black hole for them, or its interface is gone";
const DISCARDED: &str = "what they were to leave by discards them: a policy of IPsec that has no state for them, a route that is a black hole, or an interface that is gone";
/// Of a packet of IPv4 that the kernel sends to lo to be discarded: only IPsec makes such a way (ipv4_blackhole_route).
pub(super) const NO_STATE: &str =
    "a policy of IPsec is for them, and no state (no keys) for it is there yet";
const SHORT: &str = "they are shorter than their headers say";
const SIGNATURE: &str = "their signature (TCP MD5 or AO) is missing or wrong";
const FORGED: &str = "their source address cannot come from there (a martian)";

/// Reasons by name.
const REASONS: &[(&str, &str, Look)] = &[
    ("PKT_TOO_BIG", TOO_LONG, Look::Mtu),
    (
        "IP_OUTNOROUTES",
        "no route leads there, one forbids them, or their own address is gone",
        Look::Routes,
    ),
    ("IP_INNOROUTES", NO_ROUTE, Look::Routes),
    (
        "IP_INADDRERRORS",
        "they are for another host and are not passed on there, or their address may not be",
        Look::Routes,
    ),
    ("IP_INVALID_SOURCE", FORGED, Look::Routes),
    ("IP_LOCAL_SOURCE", "their source is an address of this host's own", Look::Routes),
    (
        "IP_LOCALNET",
        "their source or destination is in 127.0.0.0/8, which nothing from outside may be",
        Look::Routes,
    ),
    ("IP_INVALID_DEST", "their destination is no valid address", Look::Routes),
    ("IPV6DISABLED", "IPv6 is switched off there", Look::Interface),
    ("TC_EGRESS", "a filter of tc drops them", Look::Filters),
    ("TC_INGRESS", "a filter of tc drops them", Look::Filters),
    ("TC_CHAIN_NOTFOUND", "a filter of tc leads to a chain that is not there", Look::Filters),
    ("TC_RECLASSIFY_LOOP", "filters of tc lead in a circle", Look::Filters),
    ("XDP", "an XDP program at the interface drops them", Look::Programs),
    ("BPF_CGROUP_EGRESS", "a BPF program of the sender's cgroup drops them", Look::CgroupPrograms),
    (
        "SOCKET_FILTER",
        "a filter on their socket, or a BPF program of its cgroup, drops them",
        Look::CgroupPrograms,
    ),
    ("SECURITY_HOOK", "a security module of the kernel drops them", Look::Kernel),
    ("XFRM_POLICY", "the policy of IPsec does not let them pass", Look::Policies),
    ("TCP_CSUM", CHECKSUM, Look::Features),
    ("UDP_CSUM", CHECKSUM, Look::Features),
    ("ICMP_CSUM", CHECKSUM, Look::Features),
    ("IP_CSUM", CHECKSUM, Look::Features),
    ("SKB_CSUM", "their checksum is wrong, or could not be made", Look::Features),
    ("SKB_GSO_SEG", "they cannot be cut into segments", Look::Features),
    ("IP_INHDR", "their TTL is used up, or their headers are not valid", Look::Routes),
    ("PKT_TOO_SMALL", SHORT, Look::Features),
    ("HDR_TRUNC", SHORT, Look::Features),
    ("TCP_MD5NOTFOUND", SIGNATURE, Look::Kernel),
    ("TCP_MD5UNEXPECTED", SIGNATURE, Look::Kernel),
    ("TCP_MD5FAILURE", SIGNATURE, Look::Kernel),
    ("TCP_AUTH_HDR", SIGNATURE, Look::Kernel),
    ("TCP_AONOTFOUND", SIGNATURE, Look::Kernel),
    ("TCP_AOUNEXPECTED", SIGNATURE, Look::Kernel),
    ("TCP_AOKEYNOTFOUND", SIGNATURE, Look::Kernel),
    ("TCP_AOFAILURE", SIGNATURE, Look::Kernel),
    ("TCP_MINTTL", "they come from further away than the socket takes packets from", Look::Kernel),
    (
        "PROTO_MEM",
        "the receive buffer of their socket is full, or its cgroup or all sockets of the protocol may use no more memory",
        Look::SocketMemory,
    ),
    ("NOMEM", "the kernel had no memory for them", Look::SocketMemory),
    ("PFMEMALLOC", "the kernel had no memory for them", Look::SocketMemory),
    (
        "SOCKET_BACKLOG",
        "the socket has no room for them while its process is in a call on it",
        Look::Kernel,
    ),
    ("FRAG_REASM_TIMEOUT", "other fragments of them never came", Look::Mtu),
    ("FRAG_TOO_FAR", "too many other fragments came in between", Look::Mtu),
    ("VXLAN_VNI_NOT_FOUND", "no tunnel there has their network's number", Look::Interface),
    ("VXLAN_INVALID_HDR", "they are not of the tunnel's kind", Look::Interface),
    ("TUNNEL_TXINFO", "the tunnel does not know where to send them", Look::Forwarding),
    ("VXLAN_NO_REMOTE", "nothing there says where they are to go", Look::Forwarding),
    ("NO_TX_TARGET", "nothing there says where they are to go", Look::Forwarding),
    ("VXLAN_ENTRY_EXISTS", "their sender is said to be elsewhere", Look::Forwarding),
    ("MAC_INVALID_SOURCE", "the hardware address of their sender is not valid", Look::Forwarding),
    ("IP_TUNNEL_ECN", "the tunnel's marks of congestion contradict their own", Look::Kernel),
    ("RECURSION_LIMIT", "they go round in a circle of interfaces", Look::Routes),
    ("BRIDGE_INGRESS_STP_STATE", "the port of the bridge does not forward", Look::Ports),
    ("DEV_READY", "the interface is down, or no program has it open (tun, tap)", Look::Interface),
    (
        "DEV_HDR",
        "the program behind the interface (tun, tap) describes them wrongly",
        Look::Interface,
    ),
    ("IP_NOPROTO", "nothing there takes their IP protocol", Look::Kernel),
    ("INVALID_PROTO", "they do not follow their protocol", Look::Kernel),
    ("IPV6_BAD_EXTHDR", "their IPv6 extension headers are not valid", Look::Kernel),
    ("PSP_INPUT", "their encryption (PSP) does not fit their socket's", Look::Kernel),
    ("PSP_OUTPUT", "their encryption (PSP) does not fit their socket's", Look::Kernel),
    ("TC_COOKIE_ERROR", "a filter of tc could not go on with them", Look::Filters),
    ("SKB_UCOPY_FAULT", "the kernel could not copy them", Look::Kernel),
    ("TAP_FILTER", "the tap's filter drops them", Look::Programs),
];

/// Reasons that rules of their own are about, or that are the other end's doing: begins of their names.
const OTHERS: &[&str] = &[
    "NETFILTER_DROP",
    "IP_RPFILTER",
    "FULL_RING",
    "CPU_BACKLOG",
    "SOCKET_RCVBUFF",
    "NO_SOCKET",
    "TCP_LISTEN_OVERFLOW",
    "TCP_ZEROWINDOW",
    "TCP_OVERWINDOW",
    "TCP_OFO",
    "NEIGH_",
    "QDISC_",
    "CAKE_",
    "FQ_",
    "DUALPI2_",
    // Of the copy for a packet socket.
    "PACKET_SOCK",
];

/// The reason that says nothing.
const NOT_SPECIFIED: &str = "NOT_SPECIFIED";

/// A verdict of `queue` gives a packet to a program; without one at that number, or without room for it, it is dropped.
const NOT_TAKEN_BY_PROGRAM: &str = "a rule of the filter hands them to a program (NFQUEUE), and none takes them at that queue, or it is full";

/// Functions that drop for one reason alone, where none is given.
const FUNCTIONS: &[(&str, &str, Look)] = &[
    ("__dev_forward_skb", NOT_TAKEN_BY_PEER, Look::MtuOfPeer),
    ("__dev_forward_skb2", NOT_TAKEN_BY_PEER, Look::MtuOfPeer),
    ("br_dev_queue_push_xmit", TOO_LONG, Look::Mtu),
    (
        "ip_forward",
        "they may not be forwarded: they are too long, or their TTL is used up",
        Look::Routes,
    ),
    ("dst_discard", BLACK_HOLE, Look::Routes),
    ("dst_discard_out", DISCARDED, Look::Discarding),
    ("nf_queue", NOT_TAKEN_BY_PROGRAM, Look::FilterQueues),
    ("ip_error", NO_ROUTE, Look::Routes),
    ("ip6_pkt_drop", NO_ROUTE, Look::Routes),
    ("ip6_pkt_discard", NO_ROUTE, Look::Routes),
    ("ip_fragment", TOO_LONG, Look::Mtu),
    ("__allowed_ingress", "the port of the bridge does not carry their VLAN", Look::Ports),
    ("br_allowed_ingress", "the port of the bridge does not carry their VLAN", Look::Ports),
    ("br_handle_frame", "the bridge does not take them", Look::Ports),
    ("br_handle_frame_finish", "the bridge does not take them", Look::Ports),
];

/// Why packets were dropped, if it is neither in the ordinary course of things nor the matter of another rule.
pub(super) fn cause(drops: &PacketDrops) -> Option<Cause> {
    let listed = |all: &[(&str, &str, Look)], name: &str| {
        let (_, clause, look) = all.iter().find(|(known, _, _)| *known == name)?;
        Some(Cause { clause: (*clause).into(), look: *look, matter: matter(name) })
    };
    let begins = |all: &[&str], name: &str| all.iter().any(|begin| name.starts_with(begin));
    match (drops.reason.as_str(), drops.function.as_str()) {
        // A kernel without reasons says the function of whatever ends a packet.
        ("", function) => listed(FUNCTIONS, function),
        // Drivers end so what they have sent, and packet sockets their copies.
        (NOT_SPECIFIED, function) => listed(FUNCTIONS, function),
        (reason, _) if begins(OTHERS, reason) => None,
        (reason, _) => listed(REASONS, reason).or_else(|| {
            // A module's own reasons (OVS, mac80211) have no names here.
            let is_number = reason.bytes().all(|byte| byte.is_ascii_digit());
            let clause = match is_number {
                true => "a module of the kernel drops them".into(),
                false => format!("the kernel's word for why is {reason}"),
            };
            Some(Cause { clause, look: Look::Kernel, matter: Matter::Other })
        }),
    }
}

fn matter(name: &str) -> Matter {
    match name {
        _ if LENGTH.contains(&name) => Matter::Length,
        _ if CHECKSUMS.contains(&name) => Matter::Checksum,
        _ => Matter::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reason: &str, function: &str) -> Option<(String, Look)> {
        let drops = PacketDrops {
            reason: reason.into(),
            function: function.into(),
            ..PacketDrops::default()
        };
        cause(&drops).map(|it| (it.clause, it.look))
    }

    #[test]
    fn a_reason_is_known_or_said_as_it_stands() {
        assert_eq!(of("PKT_TOO_BIG", ""), Some((TOO_LONG.into(), Look::Mtu)));
        let said = of("OVS_DROP_METER", "").expect("a cause");
        assert_eq!(said, ("the kernel's word for why is OVS_DROP_METER".into(), Look::Kernel));
        let said = of("131074", "").expect("a cause");
        assert_eq!(said.0, "a module of the kernel drops them");
    }

    #[test]
    fn what_a_drop_is_about_follows_from_its_reason_or_its_function() {
        let matter = |reason: &str, function: &str| {
            let (reason, function) = (reason.into(), function.into());
            cause(&PacketDrops { reason, function, ..PacketDrops::default() }).map(|it| it.matter)
        };
        assert_eq!(matter("PKT_TOO_BIG", ""), Some(Matter::Length));
        assert_eq!(matter(NOT_SPECIFIED, "br_dev_queue_push_xmit"), Some(Matter::Length));
        assert_eq!(matter("FRAG_REASM_TIMEOUT", ""), Some(Matter::Other), "none was too long");
        assert_eq!(matter("UDP_CSUM", ""), Some(Matter::Checksum));
        assert_eq!(matter("SKB_CSUM", ""), Some(Matter::Other), "it could not be made here");
    }

    #[test]
    fn what_no_program_takes_from_the_filter_is_said() {
        let (clause, look) = of("NOT_SPECIFIED", "nf_queue").expect("a cause");
        assert!(clause.contains("none takes them at that queue"), "{clause}");
        assert_eq!(look, Look::FilterQueues);
    }

    #[test]
    fn what_other_rules_are_about_has_no_cause_here() {
        for reason in ["NETFILTER_DROP", "QDISC_OVERLIMIT", "NEIGH_FAILED", "PACKET_SOCK_ERROR"] {
            assert_eq!(of(reason, ""), None, "{reason}");
        }
    }

    #[test]
    fn without_a_reason_the_function_may_say_it() {
        assert_eq!(of("", "dst_discard").map(|it| it.1), Some(Look::Routes));
        assert_eq!(of("", "dst_discard_out").map(|it| it.1), Some(Look::Discarding));
        assert_eq!(of("", "kfree_skb_list"), None, "a kernel without reasons says all functions");
        assert_eq!(of(NOT_SPECIFIED, "tcp_v4_rcv"), None, "the protocol does not need it");
        assert_eq!(of(NOT_SPECIFIED, "dev_kfree_skb_any_reason"), None, "it was sent");
    }
}
