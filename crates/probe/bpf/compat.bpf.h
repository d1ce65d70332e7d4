/*
 * compat.bpf.h: every kernel rename that holdup knows, once, each with the version that brought it.
 *
 * The programs call these helpers and never test a version themselves. A flavour (`___name`) stands
 * for the struct as another kernel has it, or holds a field that one program alone reads; CO-RE drops the suffix when it matches.
 */
#ifndef HOLDUP_COMPAT_H
#define HOLDUP_COMPAT_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct___state {
	unsigned int __state;
};
struct task_struct___old_state {
	long state;
};
struct task_struct___throttled {
	bool throttled;
};
struct thread_info___arm64 {
	__u64 preempt_count;
};
struct task_struct___arm64 {
	struct thread_info___arm64 thread_info;
};
struct thread_info___x86 {
	__u32 status;
};
struct task_struct___x86 {
	struct thread_info___x86 thread_info;
};
struct task_struct___blocker {
	unsigned long blocker;
};
struct bio___bi_disk {
	struct gendisk *bi_disk;
};
struct folio___order {
	unsigned char _folio_order;
};
/* Lies in the second page, which a folio of one page does not have: see compat_cache_pages. */
struct folio___second_page {
	unsigned long _flags_1, _head_1;
};
struct request___rq_disk {
	struct gendisk *rq_disk;
};
struct fuse_chan {
	struct fuse_conn *conn;
};
struct fuse_dev___channel {
	struct fuse_chan *chan;
};
enum fsnotify_group_prio {
	FSNOTIFY_PRIO_NORMAL = 0,
};
struct fsnotify_group___named_priority {
	enum fsnotify_group_prio priority;
};
struct throtl_service_queue___one_queue {
	unsigned int nr_queued[2];
};
struct task_struct___thread_pid {
	struct pid *thread_pid;
};
struct pid___level {
	unsigned int level;
};
struct mptcp_sock {
	struct sock *first;
};
struct numa_drop_counters {
	atomic_t drops0;
	atomic_t drops1;
};
struct mm_rss_stat {
	atomic64_t count[4];
};
struct mm_struct___rss_stat {
	struct mm_rss_stat rss_stat;
};
struct sk_buff___drop {
	unsigned long _skb_refdst;
	unsigned char *data;
};
struct dst_entry {
	struct net_device *dev;
};
struct sock___drops_by_node {
	struct numa_drop_counters *sk_drop_counters;
};
#pragma clang attribute pop

#define has_helper(name) bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_##name)

/*
 * 5.11 brought the current task as a pointer that the verifier follows (3ca1032ab7ab). Before it is a
 * number, and every field of it is read by the helper: `task_field` serves both.
 */
static __always_inline struct task_struct *compat_current(void)
{
	if (has_helper(get_current_task_btf))
		return bpf_get_current_task_btf();
	return (struct task_struct *)bpf_get_current_task();
}
#define task_field(task, field)                                                                    \
	(has_helper(get_current_task_btf) ? (task)->field : BPF_CORE_READ(task, field))

/*
 * 6.2 made the pages of a process percpu counters (f1a7941243c1), before they were one struct of atomics. Both may lag behind by
 * some dozens of pages for each CPU.
 */
static __always_inline __s64 compat_rss_pages(struct mm_struct *mm)
{
	struct mm_struct___rss_stat *old = (void *)mm;

	if (bpf_core_type_exists(struct mm_rss_stat))
		return BPF_CORE_READ(old, rss_stat.count[MM_FILEPAGES].counter) +
		       BPF_CORE_READ(old, rss_stat.count[MM_ANONPAGES].counter) +
		       BPF_CORE_READ(old, rss_stat.count[MM_SHMEMPAGES].counter);
	return BPF_CORE_READ(mm, rss_stat[MM_FILEPAGES].count) +
	       BPF_CORE_READ(mm, rss_stat[MM_ANONPAGES].count) +
	       BPF_CORE_READ(mm, rss_stat[MM_SHMEMPAGES].count);
}

/*
 * 5.15 says where a thread's user registers are (dd6e10fbd9fb). Before they are looked for where they
 * have always been: at the end of its kernel stack, of 16 KiB.
 */
static __always_inline struct pt_regs *compat_task_pt_regs(struct task_struct *task)
{
	if (has_helper(task_pt_regs))
		return (struct pt_regs *)bpf_task_pt_regs(task);
	return (struct pt_regs *)((char *)BPF_CORE_READ(task, stack) + (16 << 10) -
				  bpf_core_type_size(struct pt_regs));
}

/*
 * Whether the system call that a thread is in was made as a program of 32 bits makes it: with other numbers, and its arguments in
 * other registers.
 */
static __always_inline bool compat_calls_32_bit(const struct task_struct *task, const struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	const struct task_struct___x86 *of = (const void *)task;

	/* TS_COMPAT */
	return bpf_core_field_exists(of->thread_info.status) && BPF_CORE_READ(of, thread_info.status) & 0x2;
#else
	/* PSR_MODE32_BIT */
	return BPF_CORE_READ(regs, pstate) & 0x10;
#endif
}

/* 5.14 renamed task_struct::state to __state (2f064a59a11f). */
static __always_inline __u32 compat_task_state(const struct task_struct *task)
{
	const struct task_struct___state *fresh = (const void *)task;
	if (bpf_core_field_exists(fresh->__state))
		return BPF_CORE_READ(fresh, __state);
	return BPF_CORE_READ((const struct task_struct___old_state *)task, state);
}

/*
 * Of a thread that leaves the CPU, where the tracepoint has its state (5.18 on, so by the new name): ready all the same.
 * Until 6.13 or so the state was the one that it had before a pending signal prevented its sleep. Of one that sleeps another
 * CPU may have made TASK_WAKING of it by now, and no more. A plain load, at every switch.
 */
static __always_inline bool compat_is_ready(const struct task_struct *task)
{
	const struct task_struct___state *fresh = (const void *)task;

	return bpf_core_field_exists(fresh->__state) && !fresh->__state;
}

/*
 * In which context we are. x86 keeps the preempt count per CPU: by itself until 6.1 and again since 6.15,
 * inside pcpu_hot in between. Its address cannot be had as a symbol where the kernel hides data symbols
 * (no CONFIG_KALLSYMS_ALL), so it is found from the run queue of the current task, which lies in the same
 * per-CPU area at a distance that the kernel's BTF has (src/host.rs). arm64 keeps it in the thread.
 */
const volatile __s64 preempt_count_from_runqueue = 0; /* 0: not known */

extern void *bpf_rdonly_cast(const void *at, __u32 type) __ksym __weak;

/* Of this CPU, by the addresses of its run queue and of the task that runs on it; either may be 0: not known. */
static __always_inline __u32 compat_preempt_count(__u64 runqueue, __u64 current)
{
	__u32 count = 0;
#if defined(__TARGET_ARCH_x86)
	if (!preempt_count_from_runqueue || !runqueue)
		return 0;
	/* 6.2 lets an address be read as any type (a35b9af4ec2c), at a tenth of what the helper takes. */
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return ((struct refcount_struct *)bpf_rdonly_cast((char *)runqueue + preempt_count_from_runqueue,
								  bpf_core_type_id_kernel(struct refcount_struct)))
			->refs.counter;
	bpf_probe_read_kernel(&count, sizeof(count), (char *)runqueue + preempt_count_from_runqueue);
#elif defined(__TARGET_ARCH_arm64)
	count = (__u32)BPF_CORE_READ((struct task_struct___arm64 *)current, thread_info.preempt_count);
#endif
	return count;
}

/*
 * Whether no two runs of one program are under way on a CPU at once, the second in an interrupt of the first: 6.1 passes
 * over the second, as a trampoline always did (05b24ff9b2cf). Recognised by what 6.2 brought, as above.
 */
static __always_inline bool compat_never_nests(void)
{
	return bpf_ksym_exists(bpf_rdonly_cast);
}

/* What comes after a network header. Asked of every packet, so without a call since 6.2, as above. */
static __always_inline __u8 compat_next_protocol(const unsigned char *network, bool six)
{
	__u8 protocol = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		if (six)
			return ((struct ipv6hdr *)bpf_rdonly_cast(network, bpf_core_type_id_kernel(struct ipv6hdr)))
				->nexthdr;
		return ((struct iphdr *)bpf_rdonly_cast(network, bpf_core_type_id_kernel(struct iphdr)))->protocol;
	}
	bpf_probe_read_kernel(&protocol, 1, network + (six ? 6 : 9));
	return protocol;
}

/* 6.18 counts drops at UDP and raw sockets in two counters beside the socket (c51613fa276f). */
static __always_inline __u32 compat_socket_drops(const struct sock *sk)
{
	const struct sock___drops_by_node *fresh = (const void *)sk;
	struct numa_drop_counters *both;

	if (bpf_core_field_exists(fresh->sk_drop_counters)) {
		both = BPF_CORE_READ(fresh, sk_drop_counters);
		if (both)
			return BPF_CORE_READ(both, drops0.counter) + BPF_CORE_READ(both, drops1.counter);
	}
	return BPF_CORE_READ(sk, sk_drops.counter);
}

/*
 * A field of what stands at an address that no verifier follows: by a plain load since 6.2, as above. `compat_followed`
 * makes the pointer, once for all fields.
 */
#define compat_followed(pointer, type)                                                             \
	(bpf_ksym_exists(bpf_rdonly_cast)                                                          \
		 ? (type *)bpf_rdonly_cast((const void *)(pointer), bpf_core_type_id_kernel(type)) \
		 : (type *)(pointer))
#define followed_field(followed, field)                                                            \
	(bpf_ksym_exists(bpf_rdonly_cast) ? (followed)->field : BPF_CORE_READ(followed, field))

/*
 * A page of the cache, as its tracepoints tell it: 5.16 or so made it a folio, of one page or of several, and until 6.6
 * or so the number is elsewhere: then one is counted. Plain loads, as the verifier knows the argument; but not of the second page.
 * What the verifier trusts is loaded since 6.2 with nothing that catches a fault, and the type says that a folio has three or four
 * pages. Behind the last page of a piece of memory there is none, and the kernel would oops: so by a pointer that is not trusted.
 */
struct cache_pages {
	struct inode *inode;
	__u64 index, count;
};
static __always_inline struct cache_pages compat_cache_pages(__u64 *ctx)
{
	struct cache_pages pages = { .count = 1 };

	if (bpf_core_type_exists(struct folio)) {
		const struct folio *folio = (const struct folio *)ctx[0];
		const struct folio___second_page *second = compat_followed(folio, struct folio___second_page);

		pages.inode = folio->mapping->host;
		pages.index = folio->index;
		/* Of several, the second refers to the first. */
		if (bpf_core_field_exists(second->_head_1) && !bpf_core_field_exists(((struct folio___order *)0)->_folio_order) &&
		    followed_field(second, _head_1) - 1 == (__u64)folio)
			pages.count = 1ULL << (followed_field(second, _flags_1) & 31);
	} else {
		const struct page *page = (const struct page *)ctx[0];
		pages.inode = page->mapping->host;
		pages.index = page->index;
	}
	return pages;
}

/* 5.17 moved request::rq_disk to request_queue::disk (f3fa33acca9f). Plain loads, as above. */
static __always_inline struct gendisk *compat_request_disk(const struct request *rq)
{
	const struct request___rq_disk *old = (const void *)rq;
	if (bpf_core_field_exists(old->rq_disk))
		return old->rq_disk;
	return rq->q->disk;
}

/* 6.16 or so queues throttled bios by bytes and by operations apart; each for reads and writes. */
static __always_inline __u32 compat_throttle_queued(struct throtl_grp *group)
{
	struct throtl_service_queue___one_queue *old = (void *)&group->service_queue;
	struct throtl_service_queue *fresh = &group->service_queue;
	__u32 bytes[2] = {}, operations[2] = {};

	if (bpf_core_field_exists(old->nr_queued)) {
		bpf_core_read(bytes, sizeof(bytes), &old->nr_queued);
	} else if (bpf_core_field_exists(fresh->nr_queued_bps)) {
		bpf_core_read(bytes, sizeof(bytes), &fresh->nr_queued_bps);
		bpf_core_read(operations, sizeof(operations), &fresh->nr_queued_iops);
	}
	return bytes[0] + bytes[1] + operations[0] + operations[1];
}

/* 5.17 also (as above): a queue knows its disk. 0 if it does not. */
static __always_inline __u32 compat_queue_device(const struct request_queue *queue)
{
	if (!bpf_core_field_exists(queue->disk))
		return 0;
	return BPF_CORE_READ(queue, disk, major) << 20 | BPF_CORE_READ(queue, disk, first_minor);
}

/* 5.12 made the block device of a bio whole again (309dca309fc3). */
static __always_inline struct gendisk *compat_bio_disk(const struct bio *bio)
{
	const struct bio___bi_disk *old = (const void *)bio;
	if (bpf_core_field_exists(old->bi_disk))
		return old->bi_disk;
	return bio->bi_bdev->bd_disk;
}

/* 6.18 throttles a task by itself, on its return to user mode (e1fad12dcb66); before, its group stands still at once. */
static __always_inline bool compat_throttles_tasks(void)
{
	return bpf_core_field_exists(((struct task_struct___throttled *)0)->throttled);
}

/*
 * The queue of fair tasks that a task stands on; 0 if its throttling cannot be read. A plain load: `task` must be a pointer that
 * the verifier knows (an argument of a tracepoint or an iterator). To follow a pointer from there it searches all the kernel's
 * types by name, each time that it comes by: where many paths lead on, this is loaded before they part.
 */
static __always_inline const struct cfs_rq *compat_queue(const struct task_struct *task)
{
	if (bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
		return task->se.cfs_rq;
	return 0;
}

/* Of a task and its queue, by plain loads. */
static __always_inline bool compat_task_throttled(const struct task_struct *task, const struct cfs_rq *queue)
{
	const struct task_struct___throttled *fresh = (const void *)task;
	if (compat_throttles_tasks() && fresh->throttled)
		return true;
	if (bpf_core_field_exists(((struct cfs_rq *)0)->throttle_count))
		return queue->throttle_count > 0;
	return false;
}

/* The address of this run queue, of a task that runs on it. */
static __always_inline __u64 compat_runqueue(const struct task_struct *task)
{
	if (bpf_core_field_exists(((struct cfs_rq *)0)->rq))
		return (__u64)BPF_CORE_READ(task, se.cfs_rq, rq);
	return 0;
}

/*
 * The clock that the scheduler read itself when it began to choose, on this run queue: by its address, or of a task that
 * has just run here while that is not known. 0 if it cannot be had. Read at every switch, so by plain loads, as above.
 */
static __always_inline __u64 compat_runqueue_clock(__u64 runqueue, const struct task_struct *task)
{
	if (!bpf_core_field_exists(((struct rq *)0)->clock))
		return 0;
	if (runqueue && bpf_ksym_exists(bpf_rdonly_cast))
		return ((struct rq *)bpf_rdonly_cast((void *)runqueue, bpf_core_type_id_kernel(struct rq)))->clock;
	if (task && bpf_core_field_exists(((struct cfs_rq *)0)->rq))
		return task->se.cfs_rq->rq->clock;
	return runqueue ? BPF_CORE_READ((struct rq *)runqueue, clock) : 0;
}

/* The address of the task that runs on this run queue, the CPU's own. Asked at every wake-up. */
static __always_inline __u64 compat_running(__u64 runqueue)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return (__u64)((struct rq *)bpf_rdonly_cast((void *)runqueue, bpf_core_type_id_kernel(struct rq)))->curr;
	return (__u64)compat_current();
}

/*
 * By the run queue's clock, what the scheduler keeps of each task (CONFIG_SCHED_INFO): since when it has been
 * queued, 0 if it is not, and what it waited on queues that it has left again. Plain loads, as above.
 */
static __always_inline __u64 compat_last_queued(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->sched_info.last_queued))
		return task->sched_info.last_queued;
	return 0;
}
static __always_inline __u64 compat_run_delay(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->sched_info.run_delay))
		return task->sched_info.run_delay;
	return 0;
}

/* Time on a CPU, as the scheduler counts it at its ticks and switches. */
static __always_inline __u64 compat_executed(const struct task_struct *task)
{
	if (bpf_core_field_exists(((struct sched_entity *)0)->sum_exec_runtime))
		return BPF_CORE_READ(task, se.sum_exec_runtime);
	return 0;
}

/*
 * 6.16 or so keeps the sleeping lock that a thread waits for, with its kind in the lowest two bits (hung_task_set_blocker;
 * CONFIG_DETECT_HUNG_TASK_BLOCKER). 0 where it does not.
 */
static __always_inline bool compat_keeps_blocker(void)
{
	return bpf_core_field_exists(((struct task_struct___blocker *)0)->blocker);
}
static __always_inline __u64 compat_blocker(const struct task_struct *task)
{
	const struct task_struct___blocker *fresh = (const void *)task;

	if (compat_keeps_blocker())
		return BPF_CORE_READ(fresh, blocker);
	return 0;
}

/* 7.3 has task_struct::on_cpu as a byte, with others beside it: it is read in the kernel's own size. */
static __always_inline bool compat_task_on_cpu(const struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD_PROBED(task, on_cpu);
}

/* 7.3 has a channel between a FUSE device and its connection. 0 where the kernel's BTF does not tell. */
static __always_inline __u32 compat_fuse_disk(const struct fuse_dev *device)
{
	const struct fuse_dev___channel *fresh = (const void *)device;

	if (bpf_core_field_exists(fresh->chan))
		return BPF_CORE_READ(fresh, chan, conn, dev);
	if (bpf_core_field_exists(device->fc))
		return BPF_CORE_READ(device, fc, dev);
	return 0;
}

/* Whether a group of fanotify's is asked before an access, not only informed of it. 6.10 gave the priority a type of its own. */
static __always_inline bool compat_asked_before(const struct fsnotify_group *group)
{
	const struct fsnotify_group___named_priority *fresh = (const void *)group;

	if (bpf_core_field_exists(fresh->priority))
		return BPF_CORE_READ(fresh, priority) != FSNOTIFY_PRIO_NORMAL;
	if (bpf_core_field_exists(group->priority))
		return BPF_CORE_READ(group, priority) != FSNOTIFY_PRIO_NORMAL;
	return false;
}

/* Who listens, of a unix socket that nobody has accepted yet and which has no file therefore; since 6.10, before that NULL. */
static __always_inline struct sock *compat_unix_listener(struct sock *sk)
{
	struct unix_sock *peer = (struct unix_sock *)sk;

	if (!bpf_core_field_exists(peer->listener))
		return 0;
	return BPF_CORE_READ(peer, listener);
}

#endif
