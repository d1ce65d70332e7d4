/*
 * common.bpf.h: what all programs share: the ring, the control words, the loss counters, and the readers of
 * task, cgroup and descriptor.
 *
 * Nothing here decides: user space sets the thresholds in `control` and the programs only read them. The fast path is a
 * lookup of the thread's state and a few additions. What costs more (stack, arguments, object, path) is on paths that
 * only long waits and iterators take.
 * Written by whom: `control` by user space alone; `lost` by any CPU with atomic additions; a `cpu_state` by its own CPU.
 */
#ifndef HOLDUP_COMMON_H
#define HOLDUP_COMMON_H

#include "compat.bpf.h"
#include "wire.h"

/* Two records that race past the mark still wake the reader. */
#define RING_ALARM_SPAN 4096
/* Fill of the ring at which a reader that sleeps for long is woken: fewer records than a tick may bring. */
#define RING_QUIET_BYTES (64 << 10)

#define PF_WQ_WORKER 0x20
#define PF_MEMALLOC 0x800
#define PF_KTHREAD 0x00200000

#define TASK_INTERRUPTIBLE 0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STATE_STOPPED 0x4
#define TASK_STATE_TRACED 0x8
#define TASK_PARKED 0x40
#define TASK_DEAD 0x80
#define TASK_WAKING 0x200
#define TASK_NOLOAD 0x400
#define TASK_FROZEN 0x8000

#define S_IFMT 0170000
#define S_IFDIR 0040000
#define S_IFSOCK 0140000
#define S_IFIFO 0010000
#define PIPEFS_MAGIC 0x50495045 /* include/uapi/linux/magic.h */
#define S_IFCHR 0020000
#define S_IFBLK 0060000

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_MPTCP 262

/* Set once before load. */
const volatile __u32 has_prev_state_argument = 1; /* sched_switch has prev_state, since 5.18 */
const volatile __u32 request_argument_index = 0; /* block_rq_*: the queue came first until 5.10 */
const volatile __u32 bio_argument_index = 0; /* block_bio_queue: likewise; a stable kernel fixes one alone */
const volatile __u32 dirty_pause_index = 6; /* balance_dirty_pages: place of `pause` */
const volatile __u32 victim_is_task = 1; /* mark_victim has the task; a number until 6.8 */
const volatile __u32 names_at_any_port = 1; /* datagrams are looked into for questions to name servers at other ports */
const volatile __u32 thread_states_in_hash = 0; /* no task storage for tracing (before 5.12) */
/* A wake-up may be dated at the switch in: the scheduler keeps sched_info (not with `nodelayacct` until 5.13), and wakers
 * need not be looked for by address on a kernel that has thread states in a hash. */
const volatile __u32 dates_later = 1;
const volatile __u64 nanoseconds_per_jiffy = 4000000;
const volatile __u64 ring_alarm_bytes = 512 << 10; /* fill of the ring at which the reader is woken */

struct wire_control control = {};
struct wire_lost lost = {};
struct wire_queued queued = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20); /* the reader sets it, by purpose */
} ring SEC(".maps");

/* Verifiers before 6.8 forget the bound of a number that was spilled before it was compared, but never a
 * mask: records that end in a path are built in slots with room for one more name. */
#define PATH_SLACK 128

/*
 * What is built in a slot begins empty, so that nothing of the thread before is taken for this one's: all of it up to `end`.
 * What is behind has a length of its own.
 */
#define begin_record(record, end) __builtin_memset(record, 0, __builtin_offsetof(typeof(*(record)), end))

/* Slow-path records are built here; programs on one CPU do not nest where they use the same slot. */
struct wait_slot {
	struct wire_wait wait;
	char slack[PATH_SLACK];
	__u64 numbers[2]; /* of `as_number` */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_slot);
} wait_scratch SEC(".maps");

/* Kept per CPU. CLOCK_MONOTONIC is ahead of its run queue's clock by `ahead_ns`, as read at `read_ns` of the latter. */
struct cpu_state {
	__u64 ahead_ns;
	__u64 read_ns;
	__u64 runqueue; /* its address; 0: neither is known */
	__u64 completion_ns; /* when a disk's request was completed here last */
	__u32 completion_dev;
	__u32 above;
} __attribute__((aligned(64)));
#define CPU_STATES 8192 /* no kernel is built for more CPUs */
static struct cpu_state cpu_states[CPU_STATES] SEC(".bss.cpus");

static __always_inline struct cpu_state *cpu_state_of(__u32 cpu)
{
	return &cpu_states[cpu & (CPU_STATES - 1)];
}

static __always_inline struct cpu_state *own_cpu(void)
{
	return cpu_state_of(bpf_get_smp_processor_id());
}

/* Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): what lies at equal distances is spread. */
#define fibonacci_hash(number, bits) ((number) * 0x9e3779b97f4a7c15 >> (64 - (bits)))

/* An argument of a raw tracepoint at a constant place: the verifier refuses a computed one, and the
 * compiler would merge two branches into one. */
#define context_word(ctx, at)                                                                      \
	({                                                                                         \
		__u64 __word;                                                                      \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(__word) : "r"(ctx), "i"((at) * 8));   \
		__word;                                                                            \
	})

/*
 * Raised, or lowered (0 stands for none yet), without a lock: of two CPUs that come at the same moment one may
 * be forgotten. Compare-and-swap would repair it, and shut out kernels before 5.12.
 */
static __always_inline void raise(volatile __u64 *at, __u64 value)
{
	if (value > *at)
		*at = value;
}

static __always_inline void lower(volatile __u64 *at, __u64 value)
{
	__u64 least = *at;

	if (!least || value < least)
		*at = value;
}

/* Wakes the reader by a record that it passes over. In a full ring there is no room for one: then it was called
 * already. */
static __noinline int wake_reader(void)
{
	void *record = bpf_ringbuf_reserve(&ring, sizeof(__u64), 0);

	if (record)
		bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Wakes a reader that sleeps for long. */
static __always_inline void call_reader(void)
{
	if (control.quiet)
		wake_reader();
}

/* Mostly only read, so that CPUs do not take its cache line from each other. */
static __always_inline void mark(volatile __u32 *flag)
{
	if (!*flag) {
		*flag = 1;
		call_reader();
	}
}

/* To what only this CPU's runs of one program add. */
#define add_own(at, value)                                                                         \
	({                                                                                         \
		if (compat_never_nests())                                                          \
			*(at) += (value);                                                          \
		else                                                                               \
			__sync_fetch_and_add(at, value);                                           \
	})

static __always_inline void count_lost(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/* The reader comes by itself, in a tenth of a second, or while little happens within a second; only the record that
 * fills the ring so far that it might not last, or is not little, calls it. */
static __always_inline void send(void *record, __u64 bytes)
{
	__u64 filled = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	bool calls = filled - ring_alarm_bytes < RING_ALARM_SPAN ||
		     (control.quiet && filled - RING_QUIET_BYTES < RING_ALARM_SPAN);

	if (bpf_ringbuf_output(&ring, record, bytes, calls ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		count_lost(&lost.ring);
}

/*
 * 0 of 0, else 1; without a branch, which the compiler would make of a comparison. The verifier walks on for each side of a
 * branch: six in a row are 64 ways through all that follows.
 */
static __always_inline __u64 is_any(__u64 bits)
{
	__u64 any;

	asm volatile("%0 = %1; %0 = -%0; %0 |= %1; %0 >>= 63" : "=&r"(any) : "r"(bits));
	return any;
}

static __always_inline void fill_ref(struct wire_ref *ref, struct task_struct *task)
{
	ref->tid = task_field(task, pid);
	ref->tgid = task_field(task, tgid);
	ref->start_ns = task_field(task, start_time);
	/* As words, if the verifier follows the pointer: the helper that copies is dearer than all the rest. */
	if (has_helper(get_current_task_btf)) {
		const __u64 *comm = (const __u64 *)&task->comm;
		((__u64 *)ref->comm)[0] = comm[0];
		((__u64 *)ref->comm)[1] = comm[1];
	} else {
		bpf_core_read(ref->comm, sizeof(ref->comm), &task->comm);
	}
}

/* Kernfs id of the task's group in one controller's hierarchy. */
#define subsystem_cgroup_id(task, which)                                                           \
	({                                                                                         \
		__u64 __id = 0;                                                                    \
		if (bpf_core_enum_value_exists(enum cgroup_subsys_id, which)) {                    \
			int __at = bpf_core_enum_value(enum cgroup_subsys_id, which);              \
			struct cgroup_subsys_state *__css = 0;                                     \
			struct css_set *__set = BPF_CORE_READ(task, cgroups);                      \
			bpf_core_read(&__css, sizeof(__css), &__set->subsys[__at]);                \
			__id = BPF_CORE_READ(__css, cgroup, kn, id);                               \
		}                                                                                  \
		__id;                                                                              \
	})

static __always_inline __u64 unified_cgroup_id(struct task_struct *task)
{
	return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
}

static __always_inline void read_addresses(struct sock *sk, __u16 family, __u8 local[16], __u8 remote[16])
{
	if (family == AF_INET) {
		bpf_core_read(local, 4, &sk->__sk_common.skc_rcv_saddr);
		bpf_core_read(remote, 4, &sk->__sk_common.skc_daddr);
	} else {
		bpf_core_read(local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(remote, 16, &sk->__sk_common.skc_v6_daddr);
	}
}

static __always_inline __u64 socket_ino(struct sock *sk)
{
	return BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino);
}

static __always_inline void read_socket_object(struct wire_object *object, struct sock *sk)
{
	object->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	object->protocol = BPF_CORE_READ(sk, sk_protocol);
	object->state = BPF_CORE_READ(sk, __sk_common.skc_state);
	object->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	if (object->family == AF_INET || object->family == AF_INET6) {
		object->kind = WIRE_OBJECT_INET;
		object->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
		object->remote_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
		read_addresses(sk, object->family, object->local, object->remote);
	} else if (object->family == AF_UNIX) {
		struct sock *peer = BPF_CORE_READ((struct unix_sock *)sk, peer);
		object->kind = WIRE_OBJECT_UNIX;
		if (peer)
			object->peer_ino = socket_ino(peer) ?: socket_ino(compat_unix_listener(peer));
	} else {
		object->kind = WIRE_OBJECT_OTHER;
		__builtin_memcpy(object->name, "socket", 7);
	}
}

static __always_inline bool tty_major(__u32 major)
{
	return major == 4 || major == 5 || (major >= 136 && major <= 143) || (major >= 128 && major <= 135);
}

static __always_inline void read_tty_object(struct wire_object *object, struct file *file)
{
	struct tty_file_private *private = BPF_CORE_READ(file, private_data);
	struct tty_struct *tty = BPF_CORE_READ(private, tty);

	object->kind = WIRE_OBJECT_TTY;
	object->peer_ino = BPF_CORE_READ(tty, index);
	bpf_core_read_str(object->name, sizeof(object->name), &tty->name);
	if (bpf_core_field_exists(tty->flow))
		object->frozen = BPF_CORE_READ(tty, flow.stopped);
}

static __always_inline void read_inode_object(struct wire_object *object, struct inode *inode)
{
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);

	object->kind = WIRE_OBJECT_FILE;
	object->ino = BPF_CORE_READ(inode, i_ino);
	object->dev = BPF_CORE_READ(sb, s_dev);
	object->rdev = BPF_CORE_READ(inode, i_rdev);
	object->frozen = BPF_CORE_READ(sb, s_writers.frozen) != 0;
	bpf_probe_read_kernel_str(object->name, sizeof(object->name), BPF_CORE_READ(sb, s_type, name));
}

static __always_inline void read_file_object(struct wire_object *object, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);
	__u16 mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;

	object->ino = BPF_CORE_READ(inode, i_ino);
	object->dev = BPF_CORE_READ(sb, s_dev);
	object->rdev = BPF_CORE_READ(inode, i_rdev);
	if (mode == S_IFSOCK) {
		struct socket *socket = BPF_CORE_READ(file, private_data);
		read_socket_object(object, BPF_CORE_READ(socket, sk));
	} else if (mode == S_IFIFO) {
		object->kind = WIRE_OBJECT_PIPE;
		object->state = BPF_CORE_READ(sb, s_magic) != PIPEFS_MAGIC;
	} else if (mode == S_IFCHR && tty_major(object->rdev >> 20)) {
		read_tty_object(object, file);
	} else if (mode == S_IFCHR && object->rdev == ((10 << 20) | 229)) {
		struct fuse_dev *device = BPF_CORE_READ(file, private_data);
		object->kind = WIRE_OBJECT_FUSE;
		__u32 disk = compat_fuse_disk(device);
		if (disk)
			object->dev = disk;
	} else {
		object->kind = mode ? WIRE_OBJECT_FILE : WIRE_OBJECT_OTHER;
		object->frozen = BPF_CORE_READ(sb, s_writers.frozen) != 0;
		bpf_probe_read_kernel_str(object->name, sizeof(object->name), BPF_CORE_READ(sb, s_type, name));
	}
}

static __always_inline struct file *file_of(struct task_struct *task, __u32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file = 0;

	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

/* Names from the file up to the root of its mount's file system. Returns bytes used. */
static __always_inline __u32 read_dentry_path(char *path, struct dentry *dentry)
{
	__u32 used = 0;

	for (int depth = 0; depth < 12; depth++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		__u64 at;
		long bytes;
		if (!dentry || dentry == parent || used >= WIRE_PATH_MAX - PATH_SLACK)
			break;
		at = used;
		barrier_var(at);
		at &= WIRE_PATH_MAX - 1;
		bytes = bpf_probe_read_kernel_str(path + at, PATH_SLACK, BPF_CORE_READ(dentry, d_name.name));
		if (bytes <= 0 || bytes > PATH_SLACK)
			break;
		used += bytes;
		dentry = parent;
	}
	return used;
}

/* By one of the names that an inode has; 0 bytes if none is known. */
static __always_inline __u32 read_inode_path(char *path, struct inode *inode)
{
	struct hlist_node *alias = 0;
	__u32 bytes;

	if (bpf_core_field_exists(inode->i_dentry) && bpf_core_field_exists(((struct dentry *)0)->d_u.d_alias))
		alias = BPF_CORE_READ(inode, i_dentry.first);
	if (!alias)
		return 0;
	bytes = read_dentry_path(path, (void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias));
	if (bytes)
		return bytes;
	/* The root of its file system: a path without names. */
	path[0] = 0;
	return 1;
}

#if defined(__TARGET_ARCH_x86)
static __always_inline __s64 number_of_call(struct pt_regs *regs)
{
	return (__s64)BPF_CORE_READ(regs, orig_ax);
}
static __always_inline void read_arguments(__u64 args[6], struct pt_regs *regs)
{
	args[0] = BPF_CORE_READ(regs, di);
	args[1] = BPF_CORE_READ(regs, si);
	args[2] = BPF_CORE_READ(regs, dx);
	args[3] = BPF_CORE_READ(regs, r10);
	args[4] = BPF_CORE_READ(regs, r8);
	args[5] = BPF_CORE_READ(regs, r9);
}
#else
static __always_inline __s64 number_of_call(struct pt_regs *regs)
{
	return BPF_CORE_READ(regs, syscallno);
}
/* The first register has the result at the end. */
static __always_inline void read_arguments(__u64 args[6], struct pt_regs *regs)
{
	args[0] = BPF_CORE_READ(regs, orig_x0);
	args[1] = BPF_CORE_READ(regs, regs[1]);
	args[2] = BPF_CORE_READ(regs, regs[2]);
	args[3] = BPF_CORE_READ(regs, regs[3]);
	args[4] = BPF_CORE_READ(regs, regs[4]);
	args[5] = BPF_CORE_READ(regs, regs[5]);
}
#endif

/* Of a program of 32 bits neither is known. */
static __always_inline void read_syscall(struct wire_place *place, struct task_struct *task, struct pt_regs *regs)
{
	if (compat_calls_32_bit(task, regs)) {
		place->syscall = -1;
		__builtin_memset(place->args, 0, sizeof(place->args));
		return;
	}
	place->syscall = number_of_call(regs);
	read_arguments(place->args, regs);
}

#if defined(__TARGET_ARCH_x86)
/* System calls whose first argument is a descriptor that may be waited on. Not splice and tee: of their two pipes either may be it. */
static __always_inline bool first_argument_is_descriptor(__s64 syscall)
{
	switch (syscall) {
	case 0: case 1: case 5: case 8: case 16: case 17: case 18: case 19: case 20: case 40: case 42:
	case 43: case 44: case 45: case 46: case 47: case 72: case 73: case 74: case 75: case 77: case 78:
	case 187: case 217: case 221: case 242: case 243: case 277: case 278: case 285:
	case 288: case 295: case 296: case 299: case 307: case 306: case 326: case 327: case 328:
		return true;
	}
	return false;
}
/* Waits that are idle by the system call alone: no stack is needed to tell. */
static __always_inline bool idle_by_syscall(__s64 syscall)
{
	switch (syscall) {
	case 232: case 281: case 441: /* epoll_wait, epoll_pwait, epoll_pwait2 */
	case 35: case 230: /* nanosleep, clock_nanosleep */
	case 34: case 128: case 130: /* pause, rt_sigtimedwait, rt_sigsuspend */
	case 61: case 247: /* wait4, waitid */
		return true;
	}
	return false;
}
#else
static __always_inline bool first_argument_is_descriptor(__s64 syscall)
{
	switch (syscall) {
	case 25: case 29: case 32: case 46: case 47: case 61: case 62: case 63: case 64: case 65: case 66:
	case 67: case 68: case 69: case 70: case 71: case 75: case 80: case 82: case 83:
	case 84: case 182: case 183: case 202: case 203: case 206: case 207: case 211: case 212: case 213:
	case 223: case 242: case 243: case 267: case 269: case 285: case 286: case 287:
		return true;
	}
	return false;
}
static __always_inline bool idle_by_syscall(__s64 syscall)
{
	switch (syscall) {
	case 22: case 441: case 101: case 115: case 133: case 137: case 260: case 95:
		return true;
	}
	return false;
}
#endif

#endif
