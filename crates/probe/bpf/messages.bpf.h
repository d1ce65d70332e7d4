/*
 * messages.bpf.h: what a thread sends and receives by the system calls of sockets: calls, messages, bytes, and how many of the calls
 * found the next message ready.
 *
 * A call that follows the one before on the same socket, while the thread did not sleep in between, could have been one call with it
 * (sendmmsg, recvmmsg, a larger buffer); one that waited for its message could not. The descriptor and the count of sleeps at the last
 * call of each kind tell which it is.
 * Called at the exit of a call by sys_exit (refused.bpf.c), only for threads that are asked about. Written by whom: an entry is a thread's, and
 * the thread itself writes it.
 *
 * Must not: look into a message, or count read and write, which the task's own counters have (sample.bpf.c). Rejected: the tracepoints
 * sock_send_length and sock_recv_length (since 6.3, and of every process).
 *
 * Edit together: refused.bpf.c, wire_net.h, src/decode/messages.rs.
 */
#ifndef HOLDUP_MESSAGES_H
#define HOLDUP_MESSAGES_H

#include "common.bpf.h"

/* Of one that is forgotten the calls since are counted, and no other. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct wire_messages);
} messages SEC(".maps");

const struct wire_messages no_messages = {};

/* Where the bytes of the first message of sendmmsg and recvmmsg stand: behind a struct msghdr of 64 bits. */
#define MMSGHDR_BYTES_AT 56

#if defined(__TARGET_ARCH_x86)
/* Read directly: it is asked of each call that succeeds. */
static __always_inline enum wire_message_call message_call(struct pt_regs *regs)
{
	switch (regs->orig_ax) {
	case 44: case 46: /* sendto, sendmsg */
		return WIRE_MESSAGE_SEND;
	case 307: /* sendmmsg */
		return WIRE_MESSAGE_SEND_MANY;
	case 45: case 47: /* recvfrom, recvmsg */
		return WIRE_MESSAGE_RECEIVE;
	case 299: /* recvmmsg */
		return WIRE_MESSAGE_RECEIVE_MANY;
	}
	return WIRE_MESSAGE_CALLS;
}
static __always_inline __u32 message_socket(struct pt_regs *regs)
{
	return (__u32)regs->di;
}
static __always_inline __u64 message_vector(struct pt_regs *regs)
{
	return regs->si;
}
#else
static __always_inline enum wire_message_call message_call(struct pt_regs *regs)
{
	switch (regs->syscallno) {
	case 206: case 211: /* sendto, sendmsg */
		return WIRE_MESSAGE_SEND;
	case 269: /* sendmmsg */
		return WIRE_MESSAGE_SEND_MANY;
	case 207: case 212: /* recvfrom, recvmsg */
		return WIRE_MESSAGE_RECEIVE;
	case 243: /* recvmmsg */
		return WIRE_MESSAGE_RECEIVE_MANY;
	}
	return WIRE_MESSAGE_CALLS;
}
static __always_inline __u32 message_socket(struct pt_regs *regs)
{
	return (__u32)regs->orig_x0;
}
static __always_inline __u64 message_vector(struct pt_regs *regs)
{
	return regs->regs[1];
}
#endif

/* A call of `task` that gave so many bytes, or of several messages at once so many of them. */
static __always_inline void count_message(struct task_struct *task, struct pt_regs *regs, enum wire_message_call call, __u64 result)
{
	__u32 tid = task_field(task, pid), socket = message_socket(regs), sleeps = (__u32)task_field(task, nvcsw), bytes_each = 0;
	struct wire_messages *counted = bpf_map_lookup_elem(&messages, &tid);
	struct wire_message_sum *sum;
	__u64 at = call;

	if (!counted || counted->thread.start_ns != task_field(task, start_time)) {
		bpf_map_update_elem(&messages, &tid, &no_messages, BPF_ANY);
		counted = bpf_map_lookup_elem(&messages, &tid);
		if (!counted)
			return;
		fill_ref(&counted->thread, task);
	}
	barrier_var(at);
	sum = &counted->sums[at & (WIRE_MESSAGE_CALLS - 1)];
	if (call == WIRE_MESSAGE_SEND_MANY || call == WIRE_MESSAGE_RECEIVE_MANY) {
		/* Each is taken to be as long as the first. */
		if (!bpf_probe_read_user(&bytes_each, sizeof(bytes_each), (void *)(message_vector(regs) + MMSGHDR_BYTES_AT)))
			sum->bytes += bytes_each * result;
		sum->messages += result;
	} else {
		sum->bytes += result;
		sum->messages++;
	}
	if (sum->calls && sum->socket == socket && sum->sleeps == sleeps)
		sum->ready_calls++;
	sum->calls++;
	sum->socket = socket;
	sum->sleeps = sleeps;
}

static __always_inline bool is_receive(enum wire_message_call call)
{
	return call == WIRE_MESSAGE_RECEIVE || call == WIRE_MESSAGE_RECEIVE_MANY;
}

#define NO_SOCKET 0xffffffffU

/* Nothing was there to receive: `task` spins for its next message, and no larger call would have had it. */
static __always_inline void found_no_message(struct task_struct *task)
{
	__u32 tid = task_field(task, pid);
	struct wire_messages *counted = bpf_map_lookup_elem(&messages, &tid);

	if (!counted)
		return;
	counted->sums[WIRE_MESSAGE_RECEIVE].socket = NO_SOCKET;
	counted->sums[WIRE_MESSAGE_RECEIVE_MANY].socket = NO_SOCKET;
}

#endif
