/*
 * poll.bpf.h: which descriptor a thread waits for that polls several.
 *
 * poll and select keep what they wait on in a poll_wqueues on the waiting thread's own kernel stack, which does not change
 * while the thread sleeps. It is found by its pointer back to the thread, and verified by its first entry's pointer back
 * to it. epoll keeps its descriptors in a tree; those that woke the thread are on a list until it runs again.
 *
 * At most one object is reported, and only if there is no doubt: the one connection among wake-up pipes and timers, or
 * a terminal among them, where a person is to type. A socket of UDP that is not connected is reported if it is polled alone, and at a
 * port that it was given: who waits for it alone has asked somebody. A listening socket means a wait for work; two connections, or a
 * connection and a terminal, mean a wait for either. What ended a wait in epoll may be a listening socket: somebody
 * connected to it.
 *
 * Must not: run for short waits. Rejected: the pollfd array (user memory cannot be read from here).
 */
#ifndef HOLDUP_POLL_H
#define HOLDUP_POLL_H

#include "common.bpf.h"

/* The tables of do_sys_poll and do_select lie within this much of the top of the stack, 1 KiB of random offset
 * (CONFIG_RANDOMIZE_KSTACK_OFFSET) included. */
#define POLL_STACK_BYTES 3072
#define POLL_ENTRIES_MAX 9
/* Saved registers and earlier tables hold the thread's address as well. A power of two. */
#define POLL_CANDIDATES 16
/* Words that one call looks at; of 24 calls the verifier then walks one. */
#define POLL_STEP 16

#define POLL_IN 0x1
#define POLL_OUT 0x4

#define TCP_STATE_LISTEN 10
/* Ports that the kernel gives: as in facts/net.rs. */
#define POLL_GIVEN_PORTS 32768

struct poll_stack {
	__u64 words[POLL_STACK_BYTES / 8];
	__u64 no_word; /* behind the last: 0 */
	__u64 found[POLL_CANDIDATES]; /* where the thread's own address stands */
	__u64 count;
	__u64 task; /* whose stack */
	__u64 top; /* of its kernel stack */
	__u64 events;
	/* Of the entries so far. */
	__u64 best; /* the file that is plainest */
	__u64 best_rank;
	__u64 before; /* the last one's file */
	__u64 types; /* a terminal is among them */
	__u64 alone; /* there is one entry */
	__u32 tgid; /* of the thread */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct poll_stack);
} poll_scratch SEC(".maps");

/* How plain it is that a polled file is what matters. */
enum poll_rank {
	POLL_RANK_NONE = 0, /* a timer, a signal, a counter: how a program wakes itself */
	POLL_RANK_PIPE = 1,
	POLL_RANK_TTY = 2, /* a person's keys */
	POLL_RANK_UNIX = 3,
	POLL_RANK_INET = 4,
	POLL_RANK_WORK = 5, /* whatever comes */
	POLL_RANK_LISTENER = 6, /* whoever connects */
};

/* A person's end of a terminal: /dev/ptmx is the other. */
static __always_inline bool is_terminal(__u32 rdev)
{
	return tty_major(rdev >> 20) && rdev != ((5 << 20) | 2);
}

/* Global functions with plain numbers: the verifier walks each once, not once for every caller. */
__noinline int poll_rank(__u64 address)
{
	struct file *file = (struct file *)address;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u16 mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	struct socket *socket;
	struct sock *sk;
	__u16 family;

	if (mode == S_IFIFO)
		return POLL_RANK_PIPE;
	if (mode == S_IFCHR)
		return is_terminal(BPF_CORE_READ(inode, i_rdev)) ? POLL_RANK_TTY : POLL_RANK_NONE;
	if (mode != S_IFSOCK)
		return POLL_RANK_NONE;
	socket = BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
		return POLL_RANK_NONE;
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_STATE_LISTEN)
		return POLL_RANK_LISTENER;
	if (family == AF_UNIX)
		return BPF_CORE_READ((struct unix_sock *)sk, peer) ? POLL_RANK_UNIX : POLL_RANK_WORK;
	return BPF_CORE_READ(sk, __sk_common.skc_dport) ? POLL_RANK_INET : POLL_RANK_WORK;
}

/* A socket of UDP at a port that it was given, which is not connected. */
static __always_inline bool is_asker(struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);

	return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_UDP && BPF_CORE_READ(sk, __sk_common.skc_num) >= POLL_GIVEN_PORTS;
}

/* Where the thread's address stands among some words of its stack, from the one behind `from` on. */
__noinline int poll_words(__u64 from)
{
	struct poll_stack *stack;
	__u32 zero = 0;
	volatile __u64 *count;
	const __u64 *words;
	__u64 task, bottom;

	stack = bpf_map_lookup_elem(&poll_scratch, &zero);
	if (!stack || from > POLL_STACK_BYTES / 8 - POLL_STEP)
		return 0;
	task = stack->task;
	bottom = stack->top - POLL_STACK_BYTES + from * 8;
	words = &stack->words[from];
	/*
	 * Without a branch (which the compiler would make of a comparison, so not in C), and through memory: to the verifier
	 * all iterations are one path of the same states. A table that needs no page more has 0 before the thread.
	 */
	count = &stack->count;
	for (int i = 1; i <= POLL_STEP; i++) {
		__u64 at = *count, differs = (words[i] ^ task) | words[i - 1];
		stack->found[at & (POLL_CANDIDATES - 1)] = bottom + i * 8;
		*count = at + 1 - is_any(differs);
	}
	return 0;
}

/* The poll_wqueues of the thread that the scratch names, which sleeps in poll or select. */
__noinline __u64 poll_table(void)
{
	struct poll_stack *stack;
	__u32 zero = 0;
	volatile __u64 *count;

	stack = bpf_map_lookup_elem(&poll_scratch, &zero);
	if (!stack)
		return 0;
	if (bpf_probe_read_kernel(stack->words, sizeof(stack->words), (void *)(stack->top - POLL_STACK_BYTES)))
		return 0;
	count = &stack->count;
	*count = 0;
	for (int from = 0; from < POLL_STACK_BYTES / 8; from += POLL_STEP)
		poll_words(from);
	for (int i = 0; i < POLL_CANDIDATES; i++) {
		struct poll_wqueues *table;
		struct list_head *queued;
		if (i >= *count)
			break;
		table = (void *)(stack->found[i] - bpf_core_field_offset(struct poll_wqueues, polling_task));
		if (BPF_CORE_READ(table, inline_entries[0].wait.private) != table)
			continue;
		/* The table of an earlier call is in no queue any more. */
		queued = &table->inline_entries[0].wait.entry;
		if (BPF_CORE_READ(queued, next, prev) == queued)
			return (__u64)table;
	}
	return 0;
}

/* A pair of sockets that a process has made, to wake its own loop or to speak with a child: a pipe by another name. */
static __always_inline bool is_own_pair(struct file *file, int tgid)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);

	return bpf_core_field_exists(sk->sk_peer_pid) && BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr) == tgid;
}

/*
 * One entry of the table of the thread that the scratch names: it is the plainest so far, or it is not. Gives false if nothing
 * plain can come of the rest. What is known so far stands in the scratch, so that to the verifier all entries are alike.
 */
__noinline int poll_entry(__u64 address)
{
	struct poll_table_entry *entry = (struct poll_table_entry *)address;
	struct poll_stack *stack;
	__u64 file, best_rank;
	__u32 zero = 0;
	int rank;

	stack = bpf_map_lookup_elem(&poll_scratch, &zero);
	if (!stack)
		return 0;
	file = (__u64)BPF_CORE_READ(entry, filp);
	if (!file || file == stack->before)
		return 1;
	stack->before = file;
	rank = poll_rank(file);
	if (rank == POLL_RANK_WORK && stack->alone && is_asker((struct file *)file))
		rank = POLL_RANK_INET;
	if (rank >= POLL_RANK_WORK)
		return 0;
	if (rank == POLL_RANK_UNIX && is_own_pair((struct file *)file, stack->tgid))
		rank = POLL_RANK_PIPE;
	if (rank == POLL_RANK_TTY)
		stack->types = 1;
	best_rank = stack->best_rank;
	/* A child's output and its errors come through two pipes, a person's keys by two names: either will do. */
	if (rank == best_rank && rank > POLL_RANK_TTY)
		stack->best = 0;
	if (rank > best_rank) {
		stack->best_rank = rank;
		stack->best = file;
		stack->events = BPF_CORE_READ(entry, key);
	}
	return 1;
}

/* The polled file that matters, if it is plain which; what it is polled for is left in the scratch. */
__noinline __u64 polled_file(__u64 address)
{
	struct poll_wqueues *table = (struct poll_wqueues *)address;
	struct task_struct *task;
	struct poll_stack *stack;
	__u32 zero = 0;
	void *entries;
	int count;

	stack = bpf_map_lookup_elem(&poll_scratch, &zero);
	if (!stack)
		return 0;
	count = BPF_CORE_READ(table, inline_index);
	entries = &table->inline_entries[0];
	task = (struct task_struct *)stack->task;
	stack->tgid = BPF_CORE_READ(task, tgid);
	stack->best = 0;
	stack->best_rank = POLL_RANK_NONE;
	stack->before = 0;
	stack->types = 0;
	stack->alone = count == 1;
	for (int i = 0; i < POLL_ENTRIES_MAX; i++) {
		if (i >= count)
			break;
		if (!poll_entry((__u64)(entries + i * bpf_core_type_size(struct poll_table_entry))))
			return 0;
	}
	return stack->types && stack->best_rank > POLL_RANK_TTY ? 0 : stack->best;
}

/* The file that woke a thread out of epoll. */
static __always_inline struct file *epoll_file(struct file *epoll)
{
	struct eventpoll *ep = BPF_CORE_READ(epoll, private_data);
	struct list_head *next = BPF_CORE_READ(ep, rdllist.next);
	struct epitem *item;

	if (!next || next == (void *)ep + bpf_core_field_offset(struct eventpoll, rdllist))
		return 0;
	item = (void *)next - bpf_core_field_offset(struct epitem, rdllink);
	return BPF_CORE_READ(item, ffd.file);
}

#if defined(__TARGET_ARCH_x86)
static __always_inline bool polls(__s64 syscall)
{
	return syscall == 7 || syscall == 271 || syscall == 23 || syscall == 270;
}
static __always_inline bool polls_events(__s64 syscall)
{
	return syscall == 232 || syscall == 281 || syscall == 441;
}
#else
static __always_inline bool polls(__s64 syscall)
{
	return syscall == 73 || syscall == 72;
}
static __always_inline bool polls_events(__s64 syscall)
{
	return syscall == 22 || syscall == 441;
}
#endif

/* The one of several descriptors that a thread waits for, or was woken by. */
static __always_inline struct file *read_polled(struct wire_place *place, __u64 task, __u64 registers, bool *for_room)
{
	struct poll_stack *stack;
	struct file *file;
	__u64 found = 0;
	__u32 zero = 0;
	int rank;

	if (polls(place->syscall)) {
		stack = bpf_map_lookup_elem(&poll_scratch, &zero);
		if (!stack)
			return 0;
		stack->task = task;
		stack->top = registers;
		found = poll_table();
		found = found ? polled_file(found) : 0;
		*for_room = found && (stack->events & POLL_OUT) && !(stack->events & POLL_IN);
		return (struct file *)found;
	}
	if (!polls_events(place->syscall))
		return 0;
	file = file_of((struct task_struct *)task, (__u32)place->args[0]);
	found = file ? (__u64)epoll_file(file) : 0;
	rank = found ? poll_rank(found) : POLL_RANK_NONE;
	return rank == POLL_RANK_NONE || rank == POLL_RANK_WORK ? 0 : (struct file *)found;
}

#endif
