/*
 * drops.bpf.c: packets that the kernel threw away, by namespace, interface and reason, and whose they were.
 *
 * kfree_skb is called where a packet is dropped, and consume_skb where it has arrived, so nothing here is on the way of a packet
 * that gets through. What ends packets in the ordinary course of things (a connection that is reset, an old acknowledgement) is
 * left out by its reason; src/host.rs looks up which these are, by name, in the kernel's own list. Where a reason says nothing, as
 * on kernels before 5.17, the address of the code that dropped it stands for it.
 *
 * Of a flood the flow of one packet in FLOW_EACH is read, and stands for so many; the count of packets is whole. Not from the first
 * thousand on: who waits behind a flood loses a few packets of its tens of thousands, and would not be seen.
 * Must not: count packets of other families than IP's and ARP's (a unix socket frees its messages by the same call), or believe
 * skb->dev: UDP writes something else there. Rejected: net:drop_monitor (it is seldom built, and tells no socket).
 *
 * Edit together: wire_net.h, src/host.rs (reasons), src/kernel/net_sums.rs.
 */

/* Beyond so many of a kind the flow of one in FLOW_EACH is read. */
#define FLOWS_WHOLE 65536
#define FLOW_EACH 8
#define REASONS_LISTED 512
#define REFDST_MASK 1UL
#define ETH_HLEN 14

/* Set once before load. */
const volatile __u32 drop_has_reason = 1; /* kfree_skb: since 5.17 */
const volatile __u32 drop_has_receiver = 1; /* since 6.11 */
const volatile __u64 drop_ignored[REASONS_LISTED / 64] = {}; /* a bit for each reason of no interest */
const volatile __u32 drop_unspecified = 0; /* the reason that says nothing: its number differs between kernels */
const volatile __u32 drop_too_long = 0; /* the reason that is of the interface that it was to leave by */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_drop_key);
	__type(value, struct wire_drop);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_dropped_flow_key);
	__type(value, struct wire_dropped_flow);
} dropped_flows SEC(".maps");

const struct wire_drop no_drop = {};
const struct wire_dropped_flow no_dropped_flow = {};

static __always_inline bool is_ip(const unsigned char *at, __u8 *first)
{
	return !bpf_probe_read_kernel(first, 1, at) && ((*first >> 4) == 4 || (*first >> 4) == 6);
}

/* The header is where the packet says, or, of one that just came in, where its data begin. */
static __always_inline void read_flow(struct wire_dropped_flow_key *flow, struct sk_buff *skb)
{
	const unsigned char *network = skb->head + skb->network_header, *transport;
	__be16 ports[2] = {};
	__u8 first = 0, protocol = 0;
	bool is_v4 = skb->protocol == __builtin_bswap16(0x0800);

	flow->protocol = __builtin_bswap16(skb->protocol);
	if (!is_v4 && skb->protocol != __builtin_bswap16(0x86dd))
		return;
	if (!is_ip(network, &first)) {
		network = BPF_CORE_READ((struct sk_buff___drop *)skb, data);
		if (!is_ip(network, &first))
			network += ETH_HLEN;
		if (!is_ip(network, &first))
			return;
	}
	if ((first >> 4) == 4) {
		flow->family = AF_INET;
		bpf_probe_read_kernel(&protocol, 1, network + 9);
		bpf_probe_read_kernel(flow->from, 4, network + 12);
		bpf_probe_read_kernel(flow->to, 4, network + 16);
		transport = network + (first & 0xf) * 4;
	} else {
		flow->family = AF_INET6;
		bpf_probe_read_kernel(&protocol, 1, network + 6);
		bpf_probe_read_kernel(flow->from, 16, network + 8);
		bpf_probe_read_kernel(flow->to, 16, network + 24);
		transport = network + 40;
	}
	flow->protocol = protocol;
	if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) {
		bpf_probe_read_kernel(ports, sizeof(ports), transport);
		flow->from_port = __builtin_bswap16(ports[0]);
		flow->to_port = __builtin_bswap16(ports[1]);
	}
}

static __always_inline void add_dropped_flow(struct wire_dropped_flow_key *key, struct sk_buff *skb, struct sock *sk,
					     __u64 packets, bool is_sent)
{
	struct wire_dropped_flow *flow;
	__u64 now = bpf_ktime_get_ns();

	read_flow(key, skb);
	flow = bpf_map_lookup_elem(&dropped_flows, key);
	if (!flow) {
		bpf_map_update_elem(&dropped_flows, key, &no_dropped_flow, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&dropped_flows, key);
		if (!flow)
			return;
		flow->first_ns = now;
	}
	if (!flow->socket_ino && sk)
		flow->socket_ino = socket_ino(sk);
	/* It has no interface yet, so it is being sent just now. A tunnel's socket is no process's. */
	if (key->protocol == IPPROTO_UDP && is_sent && flow->socket_ino)
		flow->sender_tgid = bpf_get_current_pid_tgid() >> 32;
	flow->last_ns = now;
	__sync_fetch_and_add(&flow->packets, packets);
}

static __always_inline bool is_of_network(struct sock *sk)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	return family == AF_INET || family == AF_INET6;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(kfree_skb, struct sk_buff *skb, void *location)
{
	struct wire_dropped_flow_key flow = {};
	struct wire_drop_key key = {};
	struct sk_buff___drop *dropped = (void *)skb;
	struct net_device *dev = skb->dev;
	struct sock *sk = skb->sk;
	struct wire_drop *sum;
	__u64 before, way, packets = 1;

	if (drop_has_reason) {
		key.reason = (__u32)context_word(ctx, 2);
		if (key.reason < REASONS_LISTED && (drop_ignored[key.reason / 64] >> (key.reason & 63) & 1))
			return 0;
	}
	if (drop_has_receiver) {
		struct sock *receiver = (struct sock *)context_word(ctx, 3);

		if (receiver)
			sk = receiver;
	}
	key.netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	way = BPF_CORE_READ(dropped, _skb_refdst) & ~REFDST_MASK;
	if (!key.netns) {
		if (!sk || !is_of_network(sk))
			return 0;
		key.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
		/* On its way out it has a route, and its interface not yet. */
		dev = BPF_CORE_READ((struct dst_entry *)way, dev);
	} else if (drop_too_long && key.reason == drop_too_long && way) {
		struct net_device *out = BPF_CORE_READ((struct dst_entry *)way, dev);

		/* A tunnel's own way has none. */
		if (out)
			dev = out;
	}
	key.ifindex = BPF_CORE_READ(dev, ifindex);
	if (key.reason == 0 || key.reason == drop_unspecified)
		key.location = (__u64)location;
	sum = bpf_map_lookup_elem(&drops, &key);
	if (!sum) {
		bpf_map_update_elem(&drops, &key, &no_drop, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&drops, &key);
		if (!sum) {
			count_lost(&lost.packets);
			return 0;
		}
		bpf_core_read_str(sum->interface, sizeof(sum->interface), &dev->name);
	}
	/* In two steps: no add gives back what was there before 5.12. The count is whole, which of them is looked into is not exact. */
	before = sum->packets;
	__sync_fetch_and_add(&sum->packets, 1);
	if (before >= FLOWS_WHOLE) {
		if (before % FLOW_EACH)
			return 0;
		packets = FLOW_EACH;
	}
	flow.location = key.location;
	flow.netns = key.netns;
	flow.ifindex = key.ifindex;
	flow.reason = key.reason;
	add_dropped_flow(&flow, skb, sk, packets, !skb->dev);
	return 0;
}
