/*
 * sent.bpf.c: where sockets that are not connected send to.
 *
 * Such a socket has no other end of its own: each call names one (sendto, sendmsg, sendmmsg, io_uring), and the kernel looks for the way there
 * each time, in the caller's name. Of sockets of UDP at a port that they were given the address is added to a map, once; a
 * second one makes it unknown. A server answers at a port of its own and is left out before anything is looked up, and so is a packet
 * that is forwarded.
 *
 * Written by whom: an entry is a process's; threads of it that race write the same, or `others`, which is never taken back.
 * Must not: count datagrams (a flood passes here, and finds its entry), or take what the kernel sends in an interrupt for the
 * process's that it interrupts. Rejected: reading the address at the call's entry (a program for each call of the host; io_uring has no
 * such call); ICMP (a ping that was answered waits in the same call until its next, and nobody owes it anything);
 * net_dev_queue, where a datagram that no route or filter lets out is not seen.
 *
 * Edit together: wire_net.h, src/decode/sent.rs.
 */

/* Of what leaves this host (include/net/flow.h): else the interface that a packet came by. */
#define LOOPBACK_IFINDEX 1
/* Ports that the kernel gives: as in facts/net.rs. */
#define GIVEN_PORTS 32768
#define NAME_SERVERS_PORT 53

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_sent_key);
	__type(value, struct wire_sent);
} sent SEC(".maps");

/* Of the preempt count, as include/linux/preempt.h has it: soft and hard interrupts, and soft ones that are held off. */
#define INTERRUPT_BITS 0x00ffff00

/*
 * Whether the way is looked for by the caller itself, and not in an interrupt of it, nor by a tunnel below its packet, which runs with soft
 * interrupts held off. Not known is not the caller.
 */
static __always_inline bool is_the_callers(void)
{
	struct task_struct *current = compat_current();
	__u64 runqueue = own_cpu()->runqueue;

#if defined(__TARGET_ARCH_x86)
	if (!preempt_count_from_runqueue)
		return false;
#endif
	return !(compat_preempt_count(runqueue ? runqueue : compat_runqueue(current), (__u64)current) & INTERRUPT_BITS);
}

static __always_inline void add_sent(__u16 port, const struct wire_sent *to)
{
	struct wire_sent_key key = { .tgid = bpf_get_current_pid_tgid() >> 32, .protocol = IPPROTO_UDP, .local_port = port };
	struct wire_sent *known = bpf_map_lookup_elem(&sent, &key);

	if (known && (known->others || (!to->others && known->remote[0] == to->remote[0] && known->remote[1] == to->remote[1] &&
					known->remote_port == to->remote_port)))
		return;
	if (!key.tgid || !is_the_callers())
		return;
	if (known)
		known->others = 1;
	else
		bpf_map_update_elem(&sent, &key, to, BPF_NOEXIST);
}

/* A way that is looked for; `to` has the address, and the family. */
static __always_inline int sends(const struct flowi_common *common, const union flowi_uli *uli, struct wire_sent *to)
{
	__u16 own = __builtin_bswap16(uli->ports.sport), other = __builtin_bswap16(uli->ports.dport);

	if (common->flowic_proto != IPPROTO_UDP || common->flowic_iif != LOOPBACK_IFINDEX)
		return 0;
	if ((!to->remote[0] && !to->remote[1]) || own < GIVEN_PORTS || !other || other == NAME_SERVERS_PORT)
		return 0;
	to->remote_port = other;
	/* A port that was given to somebody is no service's: who sends there talks to a peer, and perhaps to more of them. */
	to->others = other >= GIVEN_PORTS;
	add_sent(own, to);
	return 0;
}

SEC("tp_btf/fib_table_lookup")
int BPF_PROG(sent_by_ipv4, __u32 table, struct flowi4 *flow)
{
	struct wire_sent to = { .family = AF_INET };

	to.remote[0] = flow->daddr;
	return sends(&flow->__fl_common, &flow->uli, &to);
}

SEC("tp_btf/fib6_table_lookup")
int BPF_PROG(sent_by_ipv6, struct net *net, void *result, void *table, struct flowi6 *flow)
{
	struct wire_sent to = { .family = AF_INET6 };

	if (flow->__fl_common.flowic_proto != IPPROTO_UDP)
		return 0;
	bpf_core_read(to.remote, sizeof(to.remote), &flow->daddr);
	return sends(&flow->__fl_common, &flow->uli, &to);
}
