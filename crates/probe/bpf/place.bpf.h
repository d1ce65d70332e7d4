/*
 * place.bpf.h: where a thread stands that does not run: its system call, what it waits for there, the path of it, its kernel stack.
 *
 * Above the readers of one file or task (common.bpf.h) and of what is polled (poll.bpf.h), which know nothing of a place.
 * Must not: run for short waits; a thread that runs has no place.
 */
#ifndef HOLDUP_PLACE_H
#define HOLDUP_PLACE_H

#include "common.bpf.h"
#include "poll.bpf.h"

#define NAGLE_OFF_OR_CORK 3

/* What Nagle's algorithm may have held back on a connection. */
static __always_inline void read_nagle(struct wire_place *place, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct tcp_sock *tcp = (struct tcp_sock *)BPF_CORE_READ(socket, sk);

	if (!tcp || !bpf_core_field_exists(tcp->nonagle) || !bpf_core_field_exists(tcp->snd_sml) ||
	    !bpf_core_field_exists(tcp->first_tx_mstamp) ||
	    (BPF_CORE_READ_BITFIELD_PROBED(tcp, nonagle) & NAGLE_OFF_OR_CORK))
		return;
	if (BPF_CORE_READ(tcp, snd_sml) == BPF_CORE_READ(tcp, snd_nxt))
		place->sent_us = BPF_CORE_READ(tcp, first_tx_mstamp);
	if (BPF_CORE_READ(tcp, packets_out))
		place->unsent_bytes = BPF_CORE_READ(tcp, write_seq) - BPF_CORE_READ(tcp, snd_nxt);
	/* A whole segment is held back by something else. */
	if (place->unsent_bytes >= BPF_CORE_READ(tcp, mss_cache))
		place->unsent_bytes = 0;
	place->rtt_us_min = BPF_CORE_READ(tcp, rtt_min.s[0].v);
}

/*
 * A pointer, once it went through memory, is a plain number to the verifier, and all that a global function takes on each
 * kernel. What is behind it is read by the helper then.
 */
static __always_inline __u64 as_number(volatile __u64 *room, const void *pointer)
{
	*room = (__u64)pointer;
	return *room;
}

/* Beside the bytes of a path: no stack is needed to tell. */
#define PLACE_IDLE_SHIFT 31
#define PLACE_IS_IDLE (1U << PLACE_IDLE_SHIFT)

/*
 * What a thread waits for, and the path of it, of which it returns the bytes. The system call is in the place already. For the
 * body of a global function: hundreds of branches, which the verifier walks once for each program, not for each way there.
 */
static __always_inline __u32 read_object(struct wire_place *place, char *path, __u64 task_address, __u64 registers)
{
	struct task_struct *task = (struct task_struct *)task_address;
	bool polled_for_room = false;
	struct dentry *dentry = 0;
	__u32 path_bytes = 0;
	struct file *file;

	if (first_argument_is_descriptor(place->syscall))
		file = file_of(task, (__u32)place->args[0]);
	else
		file = read_polled(place, task_address, registers, &polled_for_room);
	if (file) {
		read_file_object(&place->object, file);
		place->object.polled_for_room = polled_for_room;
		if (place->object.kind == WIRE_OBJECT_FILE)
			dentry = BPF_CORE_READ(file, f_path.dentry);
		if (place->object.kind == WIRE_OBJECT_INET && place->object.protocol == IPPROTO_TCP &&
		    place->object.remote_port)
			read_nagle(place, file);
	} else {
		/* An open or a stat has no descriptor yet: how far the walk of its path has come. */
		dentry = BPF_CORE_READ(task, nameidata, path.dentry);
		if (BPF_CORE_READ(dentry, d_inode))
			read_inode_object(&place->object, BPF_CORE_READ(dentry, d_inode));
		else
			dentry = 0;
	}
	if (dentry)
		path_bytes = read_dentry_path(path, dentry);
	if (idle_by_syscall(place->syscall) && !(place->state & TASK_UNINTERRUPTIBLE))
		path_bytes |= PLACE_IS_IDLE;
	return path_bytes;
}

/*
 * Fills everything of an empty place but its state; returns bytes of path. For a task that is not running. `object_of` is a
 * global function around read_object(), and `numbers` room for two.
 */
static __always_inline __u32 read_place(struct wire_place *place, struct task_struct *task, bool kernel, __u64 want_stack,
					__u32 (*object_of)(__u64, __u64), volatile __u64 *numbers)
{
	__u32 path_bytes = 0;
	long bytes;

	place->syscall = -1;
	if (!kernel) {
		struct pt_regs *regs = compat_task_pt_regs(task);
		__u32 found;
		read_syscall(place, task, regs);
		found = object_of(as_number(&numbers[0], task), as_number(&numbers[1], regs));
		path_bytes = found & ~PLACE_IS_IDLE;
		want_stack |= place->state & TASK_UNINTERRUPTIBLE;
		want_stack &= (__u64)(found >> PLACE_IDLE_SHIFT) - 1;
	}
	if (want_stack) {
		bytes = bpf_get_task_stack(task, place->frame, sizeof(place->frame), 0);
		if (bytes > 0)
			place->frames = (__u32)bytes / 8;
	}
	return path_bytes;
}

/* Both parts of a RLIMIT_*: a number that is constant, since the fields are found as the program is loaded. */
#define READ_LIMIT(record, task, number)                                                                   \
	((record)->limit = BPF_CORE_READ(task, signal, rlim[number].rlim_cur),                             \
	 (record)->hard = BPF_CORE_READ(task, signal, rlim[number].rlim_max))

#endif
