/*
 * async.bpf.h: operations in flight of a thread that submitted them and now waits: io_uring, libaio, and bios that
 * blk-throttle holds back.
 *
 * A throttled bio has no request yet, and the stack of a thread that waits for an asynchronous operation does not name
 * the disk. So the counters are read from outside while the thread is blocked: io_uring's context counts submissions
 * and completions, libaio's context counts free slots (a part of them per CPU), and blk-throttle queues bios by group and
 * disk.
 *
 * Must not: run for waits that ended (the queues are empty again), or walk a list without a bound. On a kernel without
 * these fields nothing is reported. Edit together: iter.bpf.c, src/host.rs (offsets of per-CPU variables),
 * src/fitting.rs.
 */
#ifndef HOLDUP_ASYNC_H
#define HOLDUP_ASYNC_H

#include "common.bpf.h"

#define PF_IO_WORKER 0x10
#define IORING_ENTER_REGISTERED_RING (1U << 4)
#define REGISTERED_RINGS 16
#define AIO_CONTEXTS_MAX 16
#define AIO_CPUS_MAX 256
#define ACCOUNTING_DEPTH_MAX 16
#define GROUP_DISKS_MAX 16
#define GROUP_DEPTH_MAX 3
#define GROUP_POLICIES 6

const volatile __u32 cpus_online = ~0U;
const volatile __s64 cpustat_from_runqueue = 0; /* of one CPU, the distance of these two variables; 0: not known */

#if defined(__TARGET_ARCH_x86)
#define SYSCALL_IO_GETEVENTS 208
#define SYSCALL_IO_PGETEVENTS 333
#else
#define SYSCALL_IO_GETEVENTS 4
#define SYSCALL_IO_PGETEVENTS 292
#endif
#define SYSCALL_IO_URING_ENTER 426

/* Operations that a ring took and has not answered; less than none: not known. Global, as in poll.bpf.h. */
__noinline int ring_in_flight(__u64 task_address, __u32 fd, __u32 flags)
{
	struct task_struct *task = (struct task_struct *)task_address;
	struct io_ring_ctx *ring = 0;
	struct file *file = 0;
	int count;

	if (!bpf_core_field_exists(ring->cached_sq_head) || !bpf_core_field_exists(ring->cached_cq_tail))
		return -1;
	if (!(flags & IORING_ENTER_REGISTERED_RING)) {
		file = file_of(task, fd);
	} else if (bpf_core_field_exists(((struct io_uring_task *)0)->registered_rings) && fd < REGISTERED_RINGS) {
		struct io_uring_task *of_task = BPF_CORE_READ(task, io_uring);
		bpf_core_read(&file, sizeof(file), &of_task->registered_rings[fd]);
	}
	ring = BPF_CORE_READ(file, private_data);
	if (!ring)
		return -1;
	count = BPF_CORE_READ(ring, cached_sq_head) - BPF_CORE_READ(ring, cached_cq_tail) -
		BPF_CORE_READ(ring, rings, sq_dropped);
	return count < 0 ? 0 : count;
}

/* A task's state in one controller's hierarchy; 0: there is no such controller. */
#define subsystem_state(task, which)                                                               \
	({                                                                                         \
		struct cgroup_subsys_state *__css = 0;                                             \
		if (bpf_core_enum_value_exists(enum cgroup_subsys_id, which)) {                    \
			struct css_set *__set = BPF_CORE_READ(task, cgroups);                      \
			bpf_core_read(&__css, sizeof(__css),                                       \
				      &__set->subsys[bpf_core_enum_value(enum cgroup_subsys_id, which)]); \
		}                                                                                  \
		__css;                                                                             \
	})

/*
 * What makes the address of a CPU's part of a pointer to per-CPU memory, less the address of its run queue: from the one
 * per-CPU variable whose pointer a task leads to, the root group's kernel_cpustat. 0: not known.
 */
__noinline __u64 parts_from_runqueue(__u64 task_address)
{
	struct task_struct *task = (struct task_struct *)task_address;
	struct cgroup_subsys_state *css;
	struct cpuacct *root = 0;
	__u64 cpustat;

	if (!cpustat_from_runqueue || !bpf_core_field_exists(root->cpustat))
		return 0;
	css = subsystem_state(task, cpuacct_cgrp_id);
	for (int depth = 0; depth < ACCOUNTING_DEPTH_MAX; depth++) {
		struct cgroup_subsys_state *parent = BPF_CORE_READ(css, parent);
		if (!parent)
			break;
		css = parent;
	}
	if (!css || BPF_CORE_READ(css, parent))
		return 0;
	root = (void *)css - bpf_core_field_offset(struct cpuacct, css);
	cpustat = (__u64)BPF_CORE_READ(root, cpustat);
	return cpustat ? cpustat_from_runqueue - cpustat : 0;
}

/* Room of a context that its parts of each CPU hold; less than none if not every CPU is known yet. */
__noinline int cached_by_cpus(__u64 part, __u64 from_runqueue)
{
	__u64 sum = 0, known = 0;

	/* Without a branch, as in poll.bpf.h: a read that fails leaves zero. */
	for (int cpu = 0; cpu < AIO_CPUS_MAX; cpu++) {
		__u64 runqueue = cpu_state_of(cpu)->runqueue, is_known = is_any(runqueue);
		struct kioctx_cpu *own;
		__u32 room = 0;
		own = (void *)((part + from_runqueue + runqueue) * is_known);
		bpf_core_read(&room, sizeof(room), &own->reqs_available);
		sum += room;
		known += is_known;
	}
	return known < cpus_online ? -1 : (int)sum;
}

/* The same of a context of libaio, by its address in the process. */
__noinline int context_in_flight(__u64 task_address, __u64 id)
{
	struct task_struct *task = (struct task_struct *)task_address;
	struct kioctx *context = 0;
	struct kioctx_table *table;
	__u64 from_runqueue;
	__u32 count;
	int busy, cached;

	if (!bpf_core_field_exists(context->completed_events) || !bpf_core_field_exists(((struct mm_struct *)0)->ioctx_table))
		return -1;
	from_runqueue = parts_from_runqueue(task_address);
	if (!from_runqueue)
		return -1;
	table = BPF_CORE_READ(task, mm, ioctx_table);
	count = BPF_CORE_READ(table, nr);
	for (__u32 i = 0; i < AIO_CONTEXTS_MAX; i++) {
		if (!table || i >= count)
			return -1;
		bpf_core_read(&context, sizeof(context), &table->table[i]);
		if (context && BPF_CORE_READ(context, user_id) == id)
			break;
		context = 0;
	}
	if (!context)
		return -1;
	cached = cached_by_cpus((__u64)BPF_CORE_READ(context, cpu), from_runqueue);
	if (cached < 0)
		return -1;
	busy = BPF_CORE_READ(context, nr_events) - 1 - BPF_CORE_READ(context, reqs_available.counter) -
	       BPF_CORE_READ(context, completed_events) - cached;
	return busy < 0 ? 0 : busy;
}

static __always_inline int in_flight(__u64 task_address, const struct wire_place *place)
{
	if (place->syscall == SYSCALL_IO_URING_ENTER)
		return ring_in_flight(task_address, place->args[0], place->args[3]);
	if (place->syscall == SYSCALL_IO_GETEVENTS || place->syscall == SYSCALL_IO_PGETEVENTS)
		return context_in_flight(task_address, place->args[0]);
	return -1;
}

/* Bios that blk-throttle holds back of a group on a disk. */
__noinline int held_of(__u64 address)
{
	struct blkcg_gq *of_disk = (struct blkcg_gq *)address;
	struct request_queue *queue = BPF_CORE_READ(of_disk, q);
	__u32 held = 0;

	for (int policy = 0; policy < GROUP_POLICIES; policy++) {
		struct throtl_grp *group = 0;
		bpf_core_read(&group, sizeof(group), &of_disk->pd[policy]);
		/* Which policy is the throttle's is known by the pointer back to the queue alone. */
		if (group && BPF_CORE_READ(group, td, queue) == queue)
			held += compat_throttle_queued(group);
	}
	return held;
}

/* Of a thread's group, or of one above it: the disk in the upper half, how many in the lower; 0: none. */
__noinline __u64 throttle_held(__u64 task_address)
{
	struct task_struct *task = (struct task_struct *)task_address;
	struct cgroup_subsys_state *css = 0;
	struct blkcg_gq *of_disk = 0;
	struct hlist_node *node;
	struct blkcg *group = 0;
	__u64 found = 0;

	if (!bpf_core_field_exists(group->blkg_list) || !bpf_core_field_exists(of_disk->pd) ||
	    !bpf_core_field_exists(((struct throtl_grp *)0)->td))
		return 0;
	css = subsystem_state(task, io_cgrp_id);
	if (!css)
		return 0;
	group = (void *)css - bpf_core_field_offset(struct blkcg, css);
	node = BPF_CORE_READ(group, blkg_list.first);
	for (int i = 0; i < GROUP_DISKS_MAX && node; i++) {
		struct blkcg_gq *at;
		__u32 held = 0;
		of_disk = (void *)node - bpf_core_field_offset(struct blkcg_gq, blkcg_node);
		at = of_disk;
		for (int depth = 0; depth < GROUP_DEPTH_MAX && at; depth++) {
			held += held_of((__u64)at);
			at = BPF_CORE_READ(at, parent);
		}
		if (held > (__u32)found)
			found = (__u64)compat_queue_device(BPF_CORE_READ(of_disk, q)) << 32 | held;
		node = BPF_CORE_READ(node, next);
	}
	return found;
}

/* Whether what a thread waits for may be held back so. */
static __always_inline bool waits_for_bios(const struct task_struct *task, const struct wire_place *place)
{
	return (task->flags & PF_IO_WORKER) || place->syscall == SYSCALL_IO_URING_ENTER ||
	       place->syscall == SYSCALL_IO_GETEVENTS || place->syscall == SYSCALL_IO_PGETEVENTS ||
	       ((place->state & TASK_UNINTERRUPTIBLE) && BPF_CORE_READ_BITFIELD(task, in_iowait));
}

#endif
