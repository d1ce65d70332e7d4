/*
 * switch_clock.bpf.h: what time it is at a switch, and how long an interval was whose ends two CPUs dated by two clocks.
 *
 * A switch is dated by the run queue's clock, which the scheduler has just read, plus the distance of that clock to
 * CLOCK_MONOTONIC. Each CPU measures its own distance about once a millisecond and writes only its own `cpu_state`.
 *
 * Must not: know what is dated. Rejected: bpf_ktime_get_ns() at each switch, which takes as long as all else that is done
 * there. Edit together: sched.bpf.c, wake.bpf.c.
 */
#ifndef HOLDUP_SWITCH_CLOCK_H
#define HOLDUP_SWITCH_CLOCK_H

#include "common.bpf.h"

static __always_inline __u64 interval(__u64 from, __u64 to)
{
	if (to >= from)
		return to - from;
	count_lost(&lost.negative_intervals);
	return 0;
}

/*
 * A switch is dated when the scheduler began to choose. What another CPU did meanwhile to a thread that was then
 * chosen (it left there, it was woken) is dated later, by as much as a search for work on other CPUs takes:
 * sysctl_sched_migration_cost, half a millisecond. The thread's own time stands still until then.
 */
#define CHOICE_NS_MAX 500000

static __always_inline __u64 not_before(__u64 earlier, __u64 now)
{
	return now < earlier && earlier - now <= CHOICE_NS_MAX ? earlier : now;
}

/*
 * How often the two clocks are compared; what they drift apart in that time at most (clocks are slewed by up to
 * 500 parts in a million), of which no more is believed at once than a long idle CPU needs; and after how many
 * comparisons a larger distance is true all the same.
 */
#define CLOCK_SPAN_NS 1000000
#define CLOCK_DRIFT_SHIFT 11
#define CLOCK_DRIFT_NS_MAX 30000
#define CLOCK_ABOVE_MAX 64

/*
 * CLOCK_MONOTONIC at this switch, without reading a clock: the scheduler has just read its own, and the distance
 * of the two hardly changes. Between the scheduler's reading and ours lies what it took to choose, mostly some
 * hundred nanoseconds, rarely a search for work on other CPUs: so the least distance seen is the true one.
 */
static __always_inline __u64 switch_now(struct cpu_state *own, const struct task_struct *prev, __u64 clock)
{
	__u64 now, ahead, span, drift;

	if (unlikely(!clock))
		return bpf_ktime_get_ns();
	span = clock - own->read_ns;
	if (likely(span < CLOCK_SPAN_NS))
		return clock + own->ahead_ns;
	now = bpf_ktime_get_ns();
	ahead = now - clock;
	drift = span >> CLOCK_DRIFT_SHIFT;
	if (drift > CLOCK_DRIFT_NS_MAX)
		drift = CLOCK_DRIFT_NS_MAX;
	if (own->read_ns && (__s64)(ahead - own->ahead_ns - drift) > 0 && ++own->above < CLOCK_ABOVE_MAX)
		ahead = own->ahead_ns + drift;
	else
		own->above = 0;
	own->ahead_ns = ahead;
	own->read_ns = clock;
	if (!own->runqueue)
		own->runqueue = compat_runqueue(prev);
	return clock + ahead;
}

#endif
