/*
 * wire_net.h: the part of wire.h that is the network's: keys and values of the maps that it adds up in.
 *
 * Included by wire.h, whose rules hold. Edit together: net.bpf.c, drops.bpf.c, messages.bpf.h, sent.bpf.c, src/kernel/net_sums.rs.
 */
#ifndef HOLDUP_WIRE_NET_H
#define HOLDUP_WIRE_NET_H

struct wire_qdisc_key {
	__u32 netns;
	__u32 ifindex;
	__u32 handle;
	__u32 pad;
};

struct wire_qdisc {
	__u64 packets;
	__u64 bytes;
	__u64 sojourn_ns;
	__u64 sojourn_ns_min;
	__u64 sojourn_ns_max;
	__u64 slots[WIRE_LATENCY_SLOTS];
	__u64 tenth_min_ns[WIRE_TENTHS_MAX];
	char interface[16];
};

struct wire_flow_key {
	__u32 netns;
	__u32 ifindex;
	__u32 handle;
	__u16 family;
	__u16 protocol;
	__u16 local_port;
	__u16 remote_port;
	__u32 pad;
	__u8 local[16];
	__u8 remote[16];
};

struct wire_flow {
	__u64 packets;
	__u64 bytes;
	__u64 sojourn_ns;
	__u64 sojourn_ns_max;
	__u64 untimed_packets;
	__u64 untimed_bytes;
	__u64 socket_ino;
	char interface[16];
};

/* Packets that the kernel threw away. */
struct wire_drop_key {
	__u64 location; /* address of the code, where the reason says nothing; else 0 */
	__u32 netns; /* 0: not known */
	__u32 ifindex;
	__u32 reason; /* enum skb_drop_reason; 0: this kernel gives none */
	__u32 pad;
};

struct wire_drop {
	__u64 packets;
	char interface[16];
};

struct wire_dropped_flow_key {
	__u64 location;
	__u32 netns;
	__u32 ifindex;
	__u32 reason;
	__u16 family; /* 0: not IP */
	__u16 protocol; /* of a packet that is not IP, its Ethernet type */
	__u16 from_port;
	__u16 to_port;
	__u32 pad;
	__u8 from[16];
	__u8 to[16];
};

struct wire_dropped_flow {
	__u64 packets;
	__u64 first_ns;
	__u64 last_ns;
	__u64 socket_ino; /* whose it was, as far as the packet says: who sent it, or was to have it */
	__u32 sender_tgid; /* of a datagram that was dropped as it was sent; 0: not known */
	__u32 pad;
};

/* System calls of sockets that a thread makes; the key is its id. */
enum wire_message_call {
	WIRE_MESSAGE_SEND, /* sendto, sendmsg */
	WIRE_MESSAGE_SEND_MANY, /* sendmmsg */
	WIRE_MESSAGE_RECEIVE, /* recvfrom, recvmsg */
	WIRE_MESSAGE_RECEIVE_MANY, /* recvmmsg */
	WIRE_MESSAGE_CALLS,
};

struct wire_message_sum {
	__u64 calls; /* that sent or received something */
	__u64 messages;
	__u64 bytes; /* of several at once: as if each were as long as the first */
	__u64 ready_calls; /* of the calls, those on the socket of the one before, between which the thread did not sleep */
	__u32 socket; /* descriptor of the last */
	__u32 sleeps; /* of the thread until then: lower half of nvcsw */
};

struct wire_messages {
	struct wire_message_sum sums[WIRE_MESSAGE_CALLS];
	struct wire_ref thread;
};

/* Sockets of a process that are not connected. */
struct wire_sent_key {
	__u32 tgid;
	__u16 protocol;
	__u16 local_port;
};

/* Where they send to. */
struct wire_sent {
	__u64 remote[2]; /* bytes in the order of the network; of IPv4 the first four */
	__u16 remote_port;
	__u16 family;
	__u32 others; /* it is not the only one */
};

#endif
