/*
 * net.bpf.c: how long packets stand in a queueing discipline and whose they are; DNS questions.
 *
 * A packet is identified by its address between qdisc_enqueue and qdisc_dequeue. At high packet rates only packets whose
 * hash falls under `packet_mask` are measured. A flow belongs to the sending socket. Of packets that leave a queue together, in a
 * list, the kernel says so once.
 * A DNS question is read as it leaves through an interface (every kind of resolver passes there), an answer as it is
 * received; both of UDP port 53, and in a look at a command or a process of any other port, if the datagram begins like
 * one. The two programs for that run for every packet of the host, so they are attached once a process has a socket to a
 * name server, or looks for one (readers/connections.rs).
 *
 * Must not: parse a packet on the receive path beyond its ports and the header of a DNS message, or take for that header what is
 * not in its linear part.
 */

struct packet_state {
	__u64 at_ns;
	__u32 bytes; /* distinguished from a later packet in the same memory */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct packet_state);
} packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct wire_qdisc_key);
	__type(value, struct wire_qdisc);
} qdiscs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_flow_key);
	__type(value, struct wire_flow);
} flows SEC(".maps");

const struct wire_qdisc no_qdisc = {};
const struct wire_flow no_flow = {};

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(qdisc_enqueue, struct Qdisc *qdisc, struct netdev_queue *queue, struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	struct packet_state state = { .bytes = skb->len };

	mark(&queued.packet);
	if (control.packet_mask && (skb->hash & control.packet_mask))
		return 0;
	state.at_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&packets, &key, &state, BPF_ANY))
		count_lost(&lost.packets);
	return 0;
}

static __always_inline void add_flow(struct wire_qdisc_key *at, struct sk_buff *skb, struct net_device *dev,
				     __u32 bytes, bool timed, __u64 sojourn, __u64 times)
{
	struct wire_flow_key key = {};
	struct wire_flow *flow;
	struct sock *sk = BPF_CORE_READ(skb, sk);
	unsigned char *head = BPF_CORE_READ(skb, head);
	__u16 network = BPF_CORE_READ(skb, network_header);
	__u16 transport = BPF_CORE_READ(skb, transport_header);
	__u8 first = 0, protocol = 0;
	__be16 ports[2] = {};

	key.netns = at->netns;
	key.ifindex = at->ifindex;
	key.handle = at->handle;
	bpf_probe_read_kernel(&first, 1, head + network);
	if ((first >> 4) == 4) {
		key.family = AF_INET;
		bpf_probe_read_kernel(&protocol, 1, head + network + 9);
		bpf_probe_read_kernel(key.local, 4, head + network + 12);
		bpf_probe_read_kernel(key.remote, 4, head + network + 16);
	} else if ((first >> 4) == 6) {
		key.family = AF_INET6;
		bpf_probe_read_kernel(&protocol, 1, head + network + 6);
		bpf_probe_read_kernel(key.local, 16, head + network + 8);
		bpf_probe_read_kernel(key.remote, 16, head + network + 24);
	}
	key.protocol = protocol;
	if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) {
		bpf_probe_read_kernel(ports, sizeof(ports), head + transport);
		key.local_port = __builtin_bswap16(ports[0]);
		key.remote_port = __builtin_bswap16(ports[1]);
	}
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow) {
		bpf_map_update_elem(&flows, &key, &no_flow, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&flows, &key);
		if (!flow)
			return;
		bpf_core_read_str(flow->interface, sizeof(flow->interface), &dev->name);
	}
	if (!flow->socket_ino && sk)
		flow->socket_ino = socket_ino(sk);
	if (!timed) {
		__sync_fetch_and_add(&flow->untimed_packets, times);
		__sync_fetch_and_add(&flow->untimed_bytes, bytes * times);
		return;
	}
	__sync_fetch_and_add(&flow->packets, times);
	__sync_fetch_and_add(&flow->bytes, bytes * times);
	__sync_fetch_and_add(&flow->sojourn_ns, sojourn * times);
	raise(&flow->sojourn_ns_max, sojourn);
}

static __always_inline void add_sojourn(const struct wire_qdisc_key *at, struct net_device *dev, __u64 bytes,
					__u64 sojourn, __u64 now, __u64 times)
{
	struct wire_qdisc *sum = bpf_map_lookup_elem(&qdiscs, at);
	__u64 tenth;

	if (!sum) {
		bpf_map_update_elem(&qdiscs, at, &no_qdisc, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&qdiscs, at);
		if (!sum)
			return;
		bpf_core_read_str(sum->interface, sizeof(sum->interface), &dev->name);
	}
	__sync_fetch_and_add(&sum->packets, times);
	__sync_fetch_and_add(&sum->bytes, bytes * times);
	__sync_fetch_and_add(&sum->sojourn_ns, sojourn * times);
	__sync_fetch_and_add(&sum->slots[slot_of_ns(sojourn)], times);
	raise(&sum->sojourn_ns_max, sojourn);
	lower(&sum->sojourn_ns_min, sojourn);
	tenth = interval(control.window_begin_ns, now) / 100000000;
	tenth %= WIRE_TENTHS_MAX;
	lower(&sum->tenth_min_ns[tenth], sojourn + 1);
}

/*
 * A packet that left its queue, counted so many times; gives the next of those that left with it. With plain numbers, and global:
 * the verifier walks it once, not once for each packet.
 */
__noinline __u64 take_packet(__u64 address, __u64 device, __u64 place, __u64 handle, __u64 times)
{
	struct sk_buff *skb = compat_followed(address, struct sk_buff);
	struct net_device *dev = (struct net_device *)device;
	struct wire_qdisc_key at = { .netns = place >> 32, .ifindex = (__u32)place, .handle = (__u32)handle };
	struct packet_state *state = bpf_map_lookup_elem(&packets, &address);
	__u64 next = (__u64)BPF_CORE_READ(skb, next), now, sojourn;
	__u32 bytes = followed_field(skb, len);

	if (!state && control.packet_mask)
		return next;
	if (!state || state->bytes != bytes) {
		/* It came before the look, or is a piece of a super-packet that the qdisc cut (tbf does). */
		add_flow(&at, (struct sk_buff *)address, dev, bytes, false, 0, times);
		return next;
	}
	now = bpf_ktime_get_ns();
	sojourn = interval(state->at_ns, now);
	bpf_map_delete_elem(&packets, &address);
	add_sojourn(&at, dev, bytes, sojourn, now, times);
	add_flow(&at, (struct sk_buff *)address, dev, bytes, true, sojourn, times);
	return next;
}

/* Of packets that leave together so many are looked at; the last of them stands for the rest. 64 KiB, which a driver takes at once, are
 * 44 full ones. */
#define TAKEN_MAX 64

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(qdisc_dequeue, struct Qdisc *qdisc, struct netdev_queue *queue, int count, struct sk_buff *skb)
{
	__u64 address = 0, device, place;
	struct net_device *dev;

	if (!skb)
		return 0;
	dev = queue->dev;
	place = (__u64)dev->nd_net.net->ns.inum << 32 | (__u32)dev->ifindex;
	/* By the helper, so that they are plain numbers. */
	device = (__u64)BPF_CORE_READ(queue, dev);
	bpf_probe_read_kernel(&address, sizeof(address), &ctx[3]);
	for (int i = 0; i < TAKEN_MAX; i++) {
		if (!address)
			break;
		address = take_packet(address, device, place, qdisc->handle,
				      i == TAKEN_MAX - 1 && count > TAKEN_MAX ? count - i : 1);
	}
	return 0;
}

static __always_inline int send_dns(struct sk_buff *skb, __u32 kind, __u16 family, unsigned char *udp,
				    unsigned char *network)
{
	struct wire_dns out = {};
	struct sock *sk = BPF_CORE_READ(skb, sk);
	__be16 ports[3] = {};
	__u32 bytes;

	bpf_probe_read_kernel(ports, sizeof(ports), udp);
	bytes = __builtin_bswap16(ports[2]);
	if (bytes < 8 + 12)
		return 0;
	bytes -= 8;
	if (bytes > WIRE_DNS_MAX)
		bytes = WIRE_DNS_MAX;
	if (bpf_probe_read_kernel(out.message, bytes, udp + 8))
		return 0;
	out.bytes = bytes;
	out.head.kind = kind;
	out.head.length = sizeof(out);
	out.head.at_ns = bpf_ktime_get_ns();
	out.family = family;
	fill_ref(&out.thread, compat_current());
	out.netns = BPF_CORE_READ(skb, dev, nd_net.net, ns.inum);
	out.local_port = __builtin_bswap16(ports[0]);
	out.remote_port = __builtin_bswap16(ports[1]);
	if (family == AF_INET) {
		bpf_probe_read_kernel(out.local, 4, network + 12);
		bpf_probe_read_kernel(out.remote, 4, network + 16);
	} else {
		bpf_probe_read_kernel(out.local, 16, network + 8);
		bpf_probe_read_kernel(out.remote, 16, network + 24);
	}
	if (sk && kind == WIRE_DNS_QUERY)
		out.socket_ino = socket_ino(sk);
	send(&out, sizeof(out));
	return 0;
}

/* include/net/tcp_states.h */
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

/*
 * TCP answers for a connection that has not begun, or has ended, in the name of a minisocket, which has the common part alone. The
 * verifier trusts the whole of it, and nothing would catch a fault behind its end.
 */
static __always_inline bool is_mini_socket(const struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV;
}

/* What begins a datagram that may be of names: from the length in its UDP header on (RFC 1035, 4.1.1). */
struct name_header {
	__be16 length, sum, id, flags, questions, answers, authorities;
};

/* Answer, kind of question (4 bits), authoritative, cut, recursion desired. */
#define NAME_FLAGS 0xff00
#define NAME_QUESTION 0x0100
#define NAME_ANSWER 0x8100
/* Of an answer: authoritative, or cut. */
#define NAME_ANSWER_MAY 0x0600
/* Of the NetBIOS name service (RFC 1002, 4.2.1). */
#define NETBIOS_PORT 137

static __always_inline bool is_of_one_name(const unsigned char *udp, struct name_header *header)
{
	if (bpf_probe_read_kernel(header, sizeof(*header), udp + 4))
		return false;
	return header->questions == __builtin_bswap16(1) && __builtin_bswap16(header->length) > 8 + 12;
}

/*
 * A name server may listen at any port. One question, with the wish that the server asks others for it, and nothing else: what hosts of a link
 * ask each other (multicast DNS, LLMNR) has not that wish. NetBIOS names, at their own port, are asked for in the same form and with that wish,
 * and mostly nobody answers.
 */
static __always_inline bool is_name_question(const unsigned char *udp, __be16 port)
{
	struct name_header header = {};

	if (!names_at_any_port || port == __builtin_bswap16(NETBIOS_PORT) || !is_of_one_name(udp, &header))
		return false;
	return (__builtin_bswap16(header.flags) & NAME_FLAGS) == NAME_QUESTION && !header.answers && !header.authorities;
}

static __always_inline bool is_name_answer(const struct sk_buff *skb, const unsigned char *udp, __be16 port)
{
	struct name_header header = {};

	if (!names_at_any_port || port == __builtin_bswap16(NETBIOS_PORT))
		return false;
	/* What stands behind the linear part in memory is not the datagram. */
	if (udp + 4 + sizeof(header) > skb->data + (skb->len - skb->data_len) || !is_of_one_name(udp, &header))
		return false;
	return (__builtin_bswap16(header.flags) & NAME_FLAGS & ~NAME_ANSWER_MAY) == NAME_ANSWER;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue, struct sk_buff *skb)
{
	unsigned char *head, *network, *udp;
	struct sock *sk = skb->sk;
	__be16 ports[2] = {};
	__u8 protocol = 0;
	__u16 family = AF_INET;

	/* Most packets, reported by their socket: by plain loads, where each look into the packet is a call. */
	if (sk && (is_mini_socket(sk) || sk->sk_protocol == IPPROTO_TCP))
		return 0;
	head = skb->head;
	network = head + skb->network_header;
	udp = head + skb->transport_header;
	if (skb->protocol == __builtin_bswap16(0x0800)) {
		protocol = compat_next_protocol(network, false);
	} else if (skb->protocol == __builtin_bswap16(0x86dd)) {
		protocol = compat_next_protocol(network, true);
		family = AF_INET6;
	}
	if (protocol != IPPROTO_UDP)
		return 0;
	bpf_probe_read_kernel(ports, sizeof(ports), udp);
	if (ports[1] == __builtin_bswap16(53) || is_name_question(udp, ports[1]))
		return send_dns(skb, WIRE_DNS_QUERY, family, udp, network);
	/* An answer of a local server leaves here too; one from afar is seen by netif_receive_skb. */
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb)
{
	/*
	 * Neither header is set yet here, but where something has looked into the packet before (GRO): it begins with its network
	 * header, or with the tag of a VLAN that no card has taken off.
	 */
	unsigned char *network = skb->data, *udp;
	__be16 ports[2] = {}, next = skb->protocol;
	__u8 first = 0;
	__u16 family;

	if (next == __builtin_bswap16(0x8100) || next == __builtin_bswap16(0x88a8)) {
		bpf_probe_read_kernel(&next, sizeof(next), network + 2);
		network += 4;
	}
	if (next == __builtin_bswap16(0x0800)) {
		if (compat_next_protocol(network, false) != IPPROTO_UDP)
			return 0;
		bpf_probe_read_kernel(&first, 1, network);
		udp = network + (first & 0xf) * 4;
		family = AF_INET;
	} else if (next == __builtin_bswap16(0x86dd)) {
		if (compat_next_protocol(network, true) != IPPROTO_UDP)
			return 0;
		udp = network + 40;
		family = AF_INET6;
	} else {
		return 0;
	}
	bpf_probe_read_kernel(ports, sizeof(ports), udp);
	if (ports[0] == __builtin_bswap16(53) || is_name_answer(skb, udp, ports[0]))
		return send_dns(skb, WIRE_DNS_REPLY, family, udp, network);
	return 0;
}

/* Whether it is a thread of whom is asked about. */
static __always_inline bool is_asked_about(void)
{
	struct thread_state *thread = thread_state_of(compat_current(), NEVER);

	return thread && thread->traced == 1;
}

/*
 * A socket looks for the way when it is connected, or for each datagram if it is not: the first question leaves right
 * after. Of whom is asked about any port may be a name server's.
 */
static __always_inline int way_to(__u8 protocol, __be16 port)
{
	if (protocol != IPPROTO_UDP || queued.name_server)
		return 0;
	if (port != __builtin_bswap16(53) && !(names_at_any_port && is_asked_about()))
		return 0;
	queued.name_server = 1;
	return wake_reader();
}

SEC("tp_btf/fib_table_lookup")
int BPF_PROG(fib_table_lookup, __u32 table, struct flowi4 *flow)
{
	return way_to(flow->__fl_common.flowic_proto, flow->uli.ports.dport);
}

SEC("tp_btf/fib6_table_lookup")
int BPF_PROG(fib6_table_lookup, struct net *net, void *result, void *table, struct flowi6 *flow)
{
	return way_to(flow->__fl_common.flowic_proto, flow->uli.ports.dport);
}
