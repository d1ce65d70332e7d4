/*
 * sums.bpf.h: where the time of a thread went, added up in its state.
 *
 * All of a thread's time is in exactly one of the sums. A wait is added with its whole length, and time that is in no sum
 * was spent running. What the kernel counts anyway (run_delay, switches) is read at both ends and not added up here.
 * Written by whom: the CPU that switches the thread; iterators read a copy.
 *
 * Must not: decide what a wait is or how it is dated (sched.bpf.c). Rejected: adding up each part at each switch, which was
 * half of the cost of a switch. Edit together: thread_state.bpf.h (`struct sums`), sched.bpf.c, iter.bpf.c.
 */
#ifndef HOLDUP_SUMS_H
#define HOLDUP_SUMS_H

#include "thread_state.bpf.h"

static __always_inline void add_blocked(struct sums *sums, const struct thread_state *thread, __u64 ns)
{
	if (thread->state & TASK_UNINTERRUPTIBLE)
		sums->disk_sleep_ns += ns;
	else
		sums->sleep_ns += ns;
	if (thread->flags & WIRE_FLAG_IOWAIT)
		sums->iowait_ns += ns;
}

/*
 * What of the wait before this stretch on the CPU was for the CPU: the scheduler has added it to the thread's run_delay
 * only after it was switched in. If the wake-up was dated, the sums have it already.
 */
static __always_inline void settle_delay(struct sums *sums, const struct thread_state *thread, __u64 run_delay_ns)
{
	__u64 runnable = run_delay_ns - thread->delay_ns, blocked;

	sums->delay_ns_seen += runnable;
	if (thread->begin == DATED)
		return;
	blocked = thread->state & TASK_UNINTERRUPTIBLE ? sums->disk_sleep_ns : sums->sleep_ns;
	if (thread->flags & WIRE_FLAG_IOWAIT && sums->iowait_ns < blocked)
		blocked = sums->iowait_ns;
	if (unlikely(runnable > blocked)) {
		/* Read before the thread slept once more; else the two clocks differ by that much. */
		if ((__s64)runnable < 0)
			return;
		runnable = blocked;
	}
	sums->runnable_ns += runnable;
	add_blocked(sums, thread, -runnable);
}

static __always_inline void first_seen(struct thread_state *thread, const struct task_struct *task, __u64 now)
{
	const struct sched_info *info = &task->sched_info;

	thread->sums.since_ns = now;
	thread->sums.voluntary_seen = BPF_CORE_READ(task, nvcsw);
	thread->sums.involuntary_seen = BPF_CORE_READ(task, nivcsw);
	thread->delay_ns = bpf_core_field_exists(info->run_delay) ? BPF_CORE_READ(info, run_delay) : 0;
	thread->sums.delay_ns_seen = thread->delay_ns;
}

/* Until its present mode began. `run_delay_ns` was read before the thread's state, or nobody writes to it. */
static __always_inline void fill_sums(struct wire_sums *out, const struct thread_state *thread, const struct task_struct *task,
				      __u64 run_delay_ns)
{
	struct sums sums = thread->sums;
	__u64 ran, runnable;

	if (thread->mode != WIRE_MODE_RUNNING)
		run_delay_ns = thread->delay_ns;
	else if (thread->begin != UNDATED)
		settle_delay(&sums, thread, run_delay_ns);
	ran = thread->since_ns - sums.since_ns - sums.sleep_ns - sums.runnable_ns - sums.disk_sleep_ns - sums.unreported_ns;
	runnable = run_delay_ns - sums.delay_ns_seen;
	if (runnable > sums.sleep_ns)
		runnable = (__s64)runnable < 0 ? 0 : sums.sleep_ns;
	out->since_ns = sums.since_ns;
	out->run_ns = (__s64)ran < 0 ? 0 : ran;
	out->runnable_ns = sums.runnable_ns + runnable;
	out->sleep_ns = sums.sleep_ns - runnable;
	out->disk_sleep_ns = sums.disk_sleep_ns;
	out->iowait_ns = sums.iowait_ns;
	out->throttled_ns = sums.throttled_ns;
	out->preemptions = (__u32)task->nivcsw - sums.involuntary_seen;
	out->switches = (__u32)task->nvcsw - sums.voluntary_seen + (__u32)out->preemptions;
}

#endif
