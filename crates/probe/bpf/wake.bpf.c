/*
 * wake.bpf.c: who ended a wait, and when.
 *
 * A wake-up writes to a cache line of the woken thread's slot that only wakers write (`struct wake`); the switch in
 * reads it if the wait was long. So a wake-up from another CPU takes no line away from the CPU that runs the thread,
 * and repeated wake-ups from one CPU cost next to nothing.
 *
 * A waker cannot know how long the wait was without the thread's own lines. It takes the wait for short if the previous
 * wake-up of the thread was a moment ago. Then it reads no clock and stores only the waker's task address; otherwise it
 * stores who and when exactly (WAKE_DATED). If a wait turns out long and its wake-up is not dated, the moment comes
 * from when the scheduler queued the thread. An interrupt on the CPU that is to run it may lie between the two, and
 * counts as blocked.
 * A thread that is moved in its sleep after a delayed dequeue (6.12 on) counts a short sleep since then as waiting for
 * a CPU, as the kernel's own schedstat does.
 *
 * Exact on every wake-up, in the thread's own state (store_wake): traced threads, throttled threads, threads without a
 * slot, and all threads on kernels whose scheduler dates cannot be read.
 * The running thread is read from the run queue, not remembered from the switch: some kernels do not report every
 * switch.
 * Memory order: a waker overwrites the line without a lock; two wakers of one sleep are serialised by the thread's
 * pi_lock, which the kernel holds at sched_waking (but where a thread wakes itself). The switch in runs after ttwu has
 * queued the thread, and so sees the last.
 *
 * Must not: write to another thread's state on the fast path, or call a helper there. Rejected: the waker in the state
 * itself (two cache lines went from CPU to CPU at each wake-up and back at each switch); a log of each CPU (of 128 CPUs
 * one would have to be found). Edit together: thread_state.bpf.h, sched.bpf.c, iter.bpf.c.
 */

/* A wait at least this long is reported. */
static __always_inline __u64 threshold_of(struct thread_state *thread)
{
	return thread->traced ? control.traced_threshold_ns : control.threshold_ns;
}

/*
 * Whether some thread has been seen throttled since the look began: until then a wake-up does not ask, which would be
 * three more cache lines. Who is throttled was thrown off its CPU, or is ready at the begin; before 6.18 a group is
 * throttled while none of it runs, and each thread that leaves is asked.
 */
__u32 throttling = 0;

static __always_inline bool see_throttled(const struct task_struct *task, const struct cfs_rq *queue)
{
	if (!compat_task_throttled(task, queue))
		return false;
	if (!throttling)
		throttling = 1;
	return true;
}

/* What is woken so soon after a request was completed on the same CPU, was woken by it. */
#define COMPLETION_NS_MAX 100000

/*
 * Of a wait that was taken for short. Its waker may be gone, and its memory another's: a thread that began after the
 * wake-up is not the one. An idle CPU's thread, whose id is 0, stays; in its own context it wakes nobody.
 */
static __always_inline void read_waker(struct thread_state *thread, __u64 now)
{
	struct task_struct *task = (struct task_struct *)thread->waker_task;
	__u64 woken = thread->wake_ns ? thread->wake_ns : now;
	__u32 context = context_of(thread);

	thread->flags &= ~THREAD_FLAGS_OWN;
	thread->waker.start_ns = BPF_CORE_READ(task, start_time);
	thread->waker.tid = BPF_CORE_READ(task, pid);
	thread->waker.tgid = BPF_CORE_READ(task, tgid);
	if ((!thread->waker.tid && context == WIRE_CONTEXT_TASK) || thread->waker.start_ns > woken ||
	    bpf_core_read(thread->waker.comm, sizeof(thread->waker.comm), &task->comm))
		return;
	thread->flags |= context << THREAD_CONTEXT_SHIFT;
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		thread->flags |= WIRE_FLAG_WAKER_KERNEL;
}

/* When it was woken, if it has been queued since `queued_ns` here, and before, since then, on other run queues. */
static __always_inline __u64 woken(const struct thread_state *thread, const struct task_struct *task, __u64 queued_ns)
{
	__u64 elsewhere_ns = compat_run_delay(task) - thread->delay_ns;

	return queued_ns > thread->since_ns + elsewhere_ns ? queued_ns - elsewhere_ns : thread->since_ns;
}

static __always_inline __u32 wake_context(__u64 runqueue, __u64 current)
{
	__u32 count = compat_preempt_count(runqueue, current);

	if (count & 0x00ff0000)
		return WIRE_CONTEXT_HARDIRQ;
	if (count & 0x00000100)
		return WIRE_CONTEXT_SOFTIRQ;
	return WIRE_CONTEXT_TASK;
}

/* Who wakes, and when, of a wait that may be long. */
static __noinline int keep_exactly(struct wake *wake)
{
	struct task_struct *current = compat_current();
	struct cpu_state *own = own_cpu();
	__u32 context = wake_context(own->runqueue ? own->runqueue : compat_runqueue(current), (__u64)current);
	__u64 now = bpf_ktime_get_ns();

	wake->at_ns = now;
	wake->flags = WAKE_DATED | context << THREAD_CONTEXT_SHIFT |
		      (task_field(current, flags) & PF_KTHREAD ? WIRE_FLAG_WAKER_KERNEL : 0);
	wake->disk = now - own->completion_ns < COMPLETION_NS_MAX ? own->completion_dev : 0;
	fill_ref(&wake->waker, current);
	return 0;
}

/*
 * By the run queue's clock of the CPU that wakes. What a busy CPU's last read is at most the truth, and mostly little
 * less; an idle CPU's is as old as its sleep. So what seems a moment ago was one, or as long ago as somebody ran without a
 * tick, or nobody ran: then the wake-up is not dated, and who woke is known all the same.
 */
static __always_inline void keep_wake(struct wake *wake)
{
	struct cpu_state *own = own_cpu();
	__u64 clock = own->runqueue ? compat_runqueue_clock(own->runqueue, 0) : 0, now = clock + own->ahead_ns, waker;
	__u32 flags = THREAD_WAKER_UNREAD;

	if (unlikely(!clock || now >= wake->at_ns + control.threshold_ns / 2)) {
		keep_exactly(wake);
		return;
	}
	waker = compat_running(own->runqueue);
	if (own->completion_ns + COMPLETION_NS_MAX > now) {
		flags |= THREAD_AFTER_COMPLETION;
		wake->completion_ns = own->completion_ns;
		wake->disk = own->completion_dev;
	}
	wake->at_ns = now;
	wake->waker_task = waker;
	wake->flags = flags | wake_context(own->runqueue, waker) << THREAD_CONTEXT_SHIFT;
}

/*
 * What the last wake-up has stored, for the state of a thread whose wait it ended; false: it ended another. If it is not
 * dated, a busy CPU's clock was a tick old at most, and only that of an idle one, whose thread has the id 0, was older.
 */
static __always_inline bool take_wake(struct thread_state *thread, const struct wake *wake)
{
	struct task_struct *waker = (struct task_struct *)wake->waker_task;
	__u64 at_ns = wake->at_ns;
	__u32 flags = wake->flags;

	if (at_ns + CHOICE_NS_MAX < thread->since_ns &&
	    (flags & WAKE_DATED || (at_ns + CHOICE_NS_MAX + nanoseconds_per_jiffy < thread->since_ns &&
				    BPF_CORE_READ(waker, pid))))
		return false;
	if (flags & WAKE_DATED) {
		thread->wake_ns = at_ns < thread->since_ns ? thread->since_ns : at_ns;
		thread->waker = wake->waker;
	} else {
		thread->waker_task = wake->waker_task;
	}
	thread->wake_disk = flags & (WAKE_DATED | THREAD_AFTER_COMPLETION) ? wake->disk : 0;
	thread->flags = (thread->flags & ~THREAD_FLAGS_OWN) | (flags & ~WAKE_DATED);
	return true;
}

/*
 * Of a wait that was long and whose state was not reported: who ended it, and when. Since `queued_ns` the thread has been on
 * this run queue; 0: never, it lent its place to the holder of a lock, and if its state still says that it sleeps, nobody
 * woke it.
 */
static __always_inline void date_wake(struct thread_state *thread, const struct task_struct *task, __u64 queued_ns)
{
	const struct wake *wake = &slot_at(task_field(task, pid))->wake;
	bool taken = wake->task == (__u64)task && !compat_task_state(task) && take_wake(thread, wake);

	if (!thread->wake_ns && queued_ns) {
		thread->wake_ns = woken(thread, task, queued_ns);
		/* Moved to another run queue in its sleep, and dated there (delayed dequeue, since 6.12). */
		if (taken && thread->wake_ns < wake->at_ns)
			thread->wake_ns = wake->at_ns;
	}
	/* By two clocks it may seem to be before, by little. */
	if (thread->flags & THREAD_AFTER_COMPLETION &&
	    (!thread->wake_ns || (__s64)(thread->wake_ns - wake->completion_ns) >= COMPLETION_NS_MAX))
		thread->wake_disk = 0;
}

/* Exactly, and into the thread's state. */
static __always_inline void store_wake(struct thread_state *thread, const struct task_struct *task)
{
	struct task_struct *current;
	struct cpu_state *own;
	struct thread_state *mine;
	__u32 context;
	__u64 now;

	if (unlikely(!thread || thread->mode != WIRE_MODE_BLOCKED || thread->wake_ns))
		return;
	if (throttling && compat_task_throttled(task, compat_queue(task)))
		thread->flags |= WIRE_FLAG_THROTTLED;
	own = own_cpu();
	thread->begin = DATED;
	now = not_before(thread->since_ns, bpf_ktime_get_ns());
	thread->wake_ns = now;
	if (interval(thread->since_ns, now) < threshold_of(thread) / 2)
		return;
	/* From here on the wait is long: who ended it is worth its price. */
	current = compat_current();
	context = wake_context(own->runqueue ? own->runqueue : compat_runqueue(current), (__u64)current);
	thread->flags = (thread->flags & ~THREAD_FLAGS_OWN) | context << THREAD_CONTEXT_SHIFT;
	fill_ref(&thread->waker, current);
	if (task_field(current, flags) & PF_KTHREAD)
		thread->flags |= WIRE_FLAG_WAKER_KERNEL;
	thread->wake_disk = now - own->completion_ns < COMPLETION_NS_MAX ? own->completion_dev : 0;
	if (thread->traced && control.follow_wakers && context == WIRE_CONTEXT_TASK &&
	    task_field(current, tgid) != control.own_tgid) {
		mine = thread_state_of(current, IN_PLACE);
		if (mine && !mine->traced) {
			trace(mine, current, 2);
			if (mine->mode == WIRE_MODE_UNKNOWN) {
				first_seen(mine, current, now);
				mine->since_ns = now;
				mine->mode = WIRE_MODE_RUNNING;
			}
		}
	}
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct wake *wake = &slot_at(task_field(task, pid))->wake;

	if (likely(wake->task == (__u64)task)) {
		if (likely(!throttling || !compat_task_throttled(task, compat_queue(task)))) {
			keep_wake(wake);
			return 0;
		}
		/* Its state may not say yet that it sleeps. */
		keep_exactly(wake);
	}
	store_wake(thread_state_of(task, NEVER), task);
	return 0;
}
