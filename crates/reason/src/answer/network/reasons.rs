//! What the kernel's reasons for dropping a packet mean, in words (include/net/dropreason-core.h, under their names without prefix).
//!
//! One clause each, as the end of "dropped: ...". A reason that is not here is shown by its name alone: a newer kernel has more. Must
//! not: say whose fault it is.
//!
//! Edit together: docs/net.md says that these are a choice.

/// What a reason means; none of one that is not known, or says nothing.
// LONG FUNCTION: a table, a line a reason.
pub(super) fn meaning(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "NO_SOCKET" => "nobody listens at that port",
        "SOCKET_CLOSE" => "its socket was closed",
        "SOCKET_FILTER" => "a filter on the socket, or a BPF program of its cgroup, refused it",
        "SOCKET_RCVBUFF" => "the receive buffer of its socket was full: its program does not read",
        "SOCKET_BACKLOG" => "its socket was busy, and as many packets waited for it as may",
        "PROTO_MEM" => {
            "its socket's receive buffer was full, or its cgroup or the protocol may use no more memory"
        }
        "PKT_TOO_SMALL" | "HDR_TRUNC" => "it is shorter than its headers say",
        "PKT_TOO_BIG" => "it is longer than the next link takes (MTU)",
        "TCP_CSUM" | "UDP_CSUM" | "IP_CSUM" | "ICMP_CSUM" | "SKB_CSUM" => "its checksum is wrong",
        "NETFILTER_DROP" => "a rule of the packet filter (nftables, iptables) drops it",
        "OTHERHOST" => "it is addressed to another host on the link",
        "IP_INHDR" => "its TTL was used up, or its IP header makes no sense",
        "IP_INADDRERRORS" => "it is for another host, and not passed on here",
        "IP_RPFILTER" => {
            "it came in by another interface than the way back to its sender (rp_filter)"
        }
        "IP_LOCAL_SOURCE" => "it came in with an address of this host as its source",
        "IP_INVALID_SOURCE" | "IP_INVALID_DEST" | "IP_LOCALNET" => {
            "its source or destination is no address for this link"
        }
        "UNICAST_IN_L2_MULTICAST" => "it is for one host, in a frame for many",
        "XFRM_POLICY" => "an IPsec policy refuses it",
        "IP_NOPROTO" | "UNHANDLED_PROTO" | "INVALID_PROTO" => "nothing here speaks its protocol",
        "TCP_ZEROWINDOW" => "it came while the receive window was closed",
        "TCP_OVERWINDOW" => "it lies beyond the receive window",
        "TCP_OFO_QUEUE_PRUNE" | "TCP_OFO_DROP" => {
            "it came out of order, and there was no room to hold it"
        }
        "TCP_LISTEN_OVERFLOW" => "the accept queue was full: the server does not accept",
        "TCP_RFC7323_PAWS" | "TCP_RFC7323_PAWS_ACK" | "TCP_RFC7323_TW_PAWS" => {
            "its TCP timestamp is older than one that has come"
        }
        "TCP_INVALID_SEQUENCE"
        | "TCP_INVALID_END_SEQUENCE"
        | "TCP_INVALID_ACK_SEQUENCE"
        | "TCP_OLD_SEQUENCE" => "its sequence number is outside the window",
        "TCP_MD5NOTFOUND" | "TCP_MD5UNEXPECTED" | "TCP_MD5FAILURE" | "TCP_AONOTFOUND"
        | "TCP_AOUNEXPECTED" | "TCP_AOKEYNOTFOUND" | "TCP_AOFAILURE" | "TCP_AUTH_HDR" => {
            "its TCP signature is missing or wrong"
        }
        "TCP_MINTTL" => "it came from further away than the socket takes (IP_MINTTL)",
        "IP_OUTNOROUTES" => "there is no route to its destination",
        "IP_INNOROUTES" => "it was to be forwarded, and there is no route to its destination",
        "BPF_CGROUP_EGRESS" => "a BPF program of its cgroup refuses it",
        "IPV6DISABLED" => "IPv6 is off on this interface",
        "NEIGH_CREATEFAIL" => "the neighbour table was full (gc_thresh3)",
        "NEIGH_FAILED" | "NEIGH_DEAD" => "its next hop did not answer ARP or neighbour discovery",
        "NEIGH_QUEUEFULL" => "too many packets waited for its next hop's hardware address",
        "NEIGH_HH_FILLFAIL" => "no hardware header could be made for its next hop",
        "TC_EGRESS" | "TC_INGRESS" => "a tc filter or BPF program drops it",
        "XDP" => "an XDP program drops it",
        "SECURITY_HOOK" => "a security module (SELinux, AppArmor) refuses it",
        "QDISC_DROP" => {
            "the queueing discipline drops it: full, to keep its queue short, or on purpose (netem)"
        }
        "QDISC_OVERLIMIT" | "FQ_FLOW_LIMIT" | "FQ_BAND_LIMIT" => {
            "the queueing discipline was full (tc -s qdisc)"
        }
        "QDISC_BURST_DROP" | "QDISC_CONGESTED" | "CAKE_FLOOD" | "FQ_HORIZON_LIMIT" => {
            "the queueing discipline drops it to keep its queue short"
        }
        "CPU_BACKLOG" => "the backlog of a CPU was full (net.core.netdev_max_backlog)",
        "FULL_RING" => "the ring of the device was full: who has it open does not read",
        "DEV_READY" => "the device is not up",
        "DEV_HDR" => "the device could not make its header",
        "TAP_FILTER" | "TAP_TXFILTER" => "a filter on the tap refused it",
        "NOMEM" | "SKB_UCOPY_FAULT" | "PFMEMALLOC" => "there was no memory for it",
        "SKB_GSO_SEG" => "it could not be cut into segments",
        "DUP_FRAG" | "FRAG_TOO_FAR" => "a piece of it came twice, or too late",
        "FRAG_REASM_TIMEOUT" => "not all pieces of it came in time",
        "IPV6_BAD_EXTHDR" => "its IPv6 extension header makes no sense",
        "VXLAN_INVALID_HDR" => "its VXLAN header makes no sense",
        "VXLAN_VNI_NOT_FOUND" => "no VXLAN interface here has its network number",
        "MAC_INVALID_SOURCE" | "LOCAL_MAC" => {
            "its source hardware address is one of this host, or none"
        }
        "NO_TX_TARGET" => "the bridge or tunnel has nowhere to send it",
        "IP_TUNNEL_ECN" => "its tunnel says congestion, and it cannot",
        "BRIDGE_INGRESS_STP_STATE" => "the bridge port does not forward yet (STP)",
        "ARP_PVLAN_DISABLE" => "it would go back where it came from (proxy ARP)",
        "RECURSION_LIMIT" => "it went around through devices that lead to one another",
        _ => return None,
    })
}
