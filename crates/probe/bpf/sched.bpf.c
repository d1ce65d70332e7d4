/*
 * sched.bpf.c: who runs, who waits, and who ended the wait.
 *
 * Each thread carries a note (`slots`, else task storage). sched_switch out stores when and in what state it left;
 * sched_waking stores who made it ready and from which context; sched_switch in adds to the sums and,
 * if the wait was long or the thread is traced, sends the whole wait with stack, system call and object.
 * The stack of a blocked thread does not change, so it is taken once, at the end, from outside.
 * Switches are dated by the run queue's clock, which the scheduler has just read, and not by one of our own.
 * A wake-up that ends a wait which may be short is dated by what the scheduler noted when it queued the thread, and if
 * the wait was short, not at all. Between the wake-up and the queue may lie an interrupt of the CPU that is to run it:
 * there the thread counts as blocked. Only the wake-ups that must be exact read the clock (see `now_if_dated_later`).
 * Of a short wait a switch adds the length alone. What of all of them was for a CPU, the scheduler has added to the
 * thread's run_delay (of /proc/PID/schedstat), it counts the switches too, and the thread ran for the rest of its time:
 * that is worked out when the sums are told (sums.bpf.h). Of a thread that another CPU ran, a wake-up reads as few cache lines as it can: that they come
 * from there takes longer than all that is done with them.
 * Where functions return slowly (mitigations), a helper takes as long as all else together: the fast path of a
 * pair of switch and wake-up calls none. Of the waker of a wait that may be short only the address is kept, and read
 * if the wait was long after all. Who runs here is read from the run queue, not noted at the switch: some kernels tell
 * not every switch.
 *
 * Must not: trace system calls (each would pay), walk lists, or look at user memory of another task.
 * Rejected: starting a record at switch-out (every short wait would pay for its stack).
 */

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
static __always_inline __u64 switch_now(struct cpu_note *own, const struct task_struct *prev, __u64 clock)
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

/* A wait at least this long is told. */
static __always_inline __u64 threshold_of(struct note *note)
{
	return note->traced ? control.traced_threshold_ns : control.threshold_ns;
}

/* Short waits of a command yield to long ones before the ring overflows. */
static __always_inline bool braked(__u64 wait_ns)
{
	if (wait_ns >= control.threshold_ns ||
	    bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < 2 * ring_alarm_bytes)
		return false;
	count_lost(&lost.braked);
	return true;
}

/* What is woken so soon after a request was completed on the same CPU, was woken by it. */
#define COMPLETION_NS_MAX 100000

/*
 * Of a wait that was taken for short. Its waker may be gone, and its memory another's: a thread that began after the
 * wake-up is not the one. An idle CPU's thread, whose id is 0, stays; in its own context it wakes nobody.
 */
static __always_inline void read_waker(struct note *note, __u64 now)
{
	struct task_struct *task = (struct task_struct *)note->waker_task;
	__u64 woken = note->wake_ns ? note->wake_ns : now;
	__u32 context = context_of(note);

	/* By two clocks it may seem to be before, by little. */
	if (!(note->flags & NOTE_AFTER_COMPLETION) ||
	    (__s32)((__u32)woken - note->completion_ns_low) >= COMPLETION_NS_MAX)
		note->wake_disk = 0;
	note->flags &= ~NOTE_FLAGS_OWN;
	note->waker.start_ns = BPF_CORE_READ(task, start_time);
	note->waker.tid = BPF_CORE_READ(task, pid);
	note->waker.tgid = BPF_CORE_READ(task, tgid);
	if ((!note->waker.tid && context == WIRE_CONTEXT_TASK) || note->waker.start_ns > woken ||
	    bpf_core_read(note->waker.comm, sizeof(note->waker.comm), &task->comm))
		return;
	note->flags |= context << NOTE_CONTEXT_SHIFT;
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		note->flags |= WIRE_FLAG_WAKER_KERNEL;
}

static __noinline int send_wait(struct task_struct *task, struct task_struct *before, __u64 now)
{
	struct note *note;
	struct wire_wait *wait;
	__u32 zero = 0, path_bytes;
	__u64 length;
	__u32 context;
	bool kernel, sleeping;

	if (!task || !before)
		return 0;
	note = note_of(task, NEVER);
	wait = bpf_map_lookup_elem(&wait_scratch, &zero);
	if (!note || !wait)
		return 0;
	if (note->flags & NOTE_WAKER_UNREAD)
		read_waker(note, now);
	context = context_of(note);
	kernel = task->flags & PF_KTHREAD;
	sleeping = !(note->state & TASK_UNINTERRUPTIBLE);
	/* A kernel thread that sleeps interruptibly waits for work. */
	if (kernel && note->mode == WIRE_MODE_BLOCKED && !note->traced &&
	    (sleeping || (note->state & TASK_NOLOAD)))
		return 0;

	wait->head.kind = WIRE_WAIT;
	wait->head.at_ns = now;
	fill_ref(&wait->thread, task);
	if (context != WIRE_CONTEXT_UNKNOWN)
		wait->waker = note->waker;
	else
		__builtin_memset(&wait->waker, 0, sizeof(wait->waker));
	fill_ref(&wait->ran_before, before);
	wait->ran_since_ns = note->ran_since_ns;
	wait->begin_ns = note->since_ns;
	wait->wake_ns = note->mode == WIRE_MODE_BLOCKED ? note->wake_ns : 0;
	wait->flags = (note->flags & ~NOTE_FLAGS_OWN) | (kernel ? WIRE_FLAG_KERNEL : 0) | (note->traced ? WIRE_FLAG_TRACED : 0);
	wait->context = context;
	wait->wake_disk = context != WIRE_CONTEXT_UNKNOWN ? note->wake_disk : 0;
	wait->cpu_cgroup_id = subsystem_cgroup_id(task, cpu_cgrp_id);
	wait->cgroup_id = unified_cgroup_id(task);
	wait->place.state = note->mode == WIRE_MODE_BLOCKED ? note->state : 0;
	wait->place.disk = note->disk;
	wait->place.cpu = note->cpu;
	path_bytes = read_place(&wait->place, wait->path, task, kernel,
				note->mode == WIRE_MODE_BLOCKED && wait->wake_ns);
	wait->path_bytes = path_bytes;
	length = __builtin_offsetof(struct wire_wait, path) + (path_bytes & (WIRE_PATH_MAX - 1));
	wait->head.length = length;
	send(wait, length);
	/* Who it is, is read while it lives. */
	if (!note->is_told) {
		note->is_told = 1;
		call_reader();
	}
	return 0;
}

/*
 * Whether some thread has been seen throttled since the look began: until then a wake-up does not ask, which would be
 * three more cache lines. Who is throttled was thrown off its CPU, or is ready at the begin; before 6.18 a group is
 * throttled while none of it runs, and each thread that leaves is asked.
 */
__u32 throttling = 0;

static __always_inline bool see_throttled(const struct task_struct *task)
{
	if (!compat_task_throttled(task))
		return false;
	if (!throttling)
		throttling = 1;
	return true;
}

/* What a thread did before it left the CPU, if that was not the usual. Since when it ran; 0: not known. */
static __always_inline __u64 settle(struct note *note, const struct task_struct *prev, __u64 run_delay_ns, __u64 now)
{
	__u64 since_ns = note->since_ns;

	note->wake_ns = 0;
	if (note->mode == WIRE_MODE_UNKNOWN) {
		if (!note->sums.since_ns)
			first_seen(note, prev, now);
		return 0;
	}
	settle_delay(&note->sums, note, run_delay_ns);
	if (note->mode != WIRE_MODE_RUNNING) {
		count_lost(&lost.switches_untold);
		note->sums.untold_ns += now - since_ns;
		return 0;
	}
	return since_ns;
}

static __always_inline void leave_cpu(struct note *note, struct task_struct *prev, __u32 state, __u64 now)
{
	__u64 since_ns = note->since_ns, run_delay_ns = compat_run_delay(prev);
	__u32 standing = STANDING(WIRE_MODE_RUNNABLE, DATED), flags = 0;

	if (unlikely(now < since_ns)) {
		now = not_before(since_ns, now);
		note->sums.untold_ns += now - since_ns - interval(since_ns, now);
	}
	if (unlikely(note->standing != STANDING(WIRE_MODE_RUNNING, UNDATED)))
		since_ns = settle(note, prev, run_delay_ns, now);
	if (likely(state)) {
		flags = BPF_CORE_READ_BITFIELD(prev, in_iowait) * WIRE_FLAG_IOWAIT;
		standing = STANDING(WIRE_MODE_BLOCKED, DATED);
		if (dates_later && !note->traced)
			standing += STANDING(0, (state & TASK_UNINTERRUPTIBLE) | flags ? UNDATED_DISK : UNDATED);
		if (!compat_throttles_tasks()) {
			barrier();
			if (!throttling)
				see_throttled(prev);
		}
	} else if (unlikely(see_throttled(prev))) {
		flags = WIRE_FLAG_THROTTLED;
	} else if (likely(dates_later && !note->traced)) {
		standing = STANDING(WIRE_MODE_RUNNABLE, UNDATED);
	}
	note->ran_since_ns = since_ns;
	note->since_ns = now;
	note->delay_ns = run_delay_ns;
	note->state = state;
	note->cpu = bpf_get_smp_processor_id();
	note->flags = flags;
	/* Last: another CPU that wakes it now adds to the rest once it sees this. */
	barrier();
	note->standing = standing;
}

/* When it was woken, if it has been queued since `queued_ns` here, and before, since then, on other run queues. */
static __always_inline __u64 woken(const struct note *note, const struct task_struct *task, __u64 queued_ns)
{
	__u64 elsewhere_ns = compat_run_delay(task) - note->delay_ns;

	return queued_ns > note->since_ns + elsewhere_ns ? queued_ns - elsewhere_ns : note->since_ns;
}

/* Its length. From the two parts: a second subtraction would count a negative interval twice. */
static __always_inline __u64 add_wait(struct note *note, __u64 now)
{
	__u64 blocked = 0, runnable;

	if (note->mode == WIRE_MODE_BLOCKED) {
		__u64 woken = note->wake_ns ? note->wake_ns : now;
		blocked = interval(note->since_ns, woken);
		runnable = interval(woken, now);
	} else {
		runnable = interval(note->since_ns, now);
	}
	note->sums.runnable_ns += runnable;
	if (note->flags & WIRE_FLAG_THROTTLED)
		note->sums.throttled_ns += runnable;
	add_blocked(&note->sums, note, blocked);
	note->sums.untold_ns += now - note->since_ns - blocked - runnable;
	return blocked + runnable;
}

/* A wait that is long, or of which the sums want more than its length. When it was over. */
static __always_inline __u64 end_wait(struct note *note, struct task_struct *next, struct task_struct *prev,
				      __u64 clock, __u64 now)
{
	__u64 length, queued_clock = compat_last_queued(next);

	now = not_before(note->since_ns, now);
	/* Never queued: it lent its place to the holder of a lock, and the wake-up is not dated. */
	if (note->mode == WIRE_MODE_BLOCKED && !note->wake_ns && queued_clock && clock)
		note->wake_ns = woken(note, next, now - interval(queued_clock, clock));
	now = not_before(note->wake_ns, now);
	length = add_wait(note, now);
	if (length >= threshold_of(note) && !braked(length))
		send_wait(next, prev, now);
	return now;
}

static __always_inline void enter_cpu(struct note *note, struct task_struct *next, struct task_struct *prev,
				      __u64 clock, __u64 now)
{
	/* One that is negative is the longest. */
	__u64 length = now - note->since_ns;
	__u32 standing = STANDING(WIRE_MODE_RUNNING, DATED);

	/* Blocked, or ready, which differ by the last bit. */
	if (likely((note->standing | 1) == STANDING(WIRE_MODE_BLOCKED, UNDATED) && length < control.threshold_ns)) {
		note->sums.sleep_ns += length;
		standing = STANDING(WIRE_MODE_RUNNING, UNDATED);
	} else if (note->standing == STANDING(WIRE_MODE_BLOCKED, UNDATED_DISK) && length < control.threshold_ns) {
		add_blocked(&note->sums, note, length);
		standing = STANDING(WIRE_MODE_RUNNING, UNDATED_DISK);
	} else if (note->mode >= WIRE_MODE_RUNNABLE) {
		now = end_wait(note, next, prev, clock, now);
	} else if (note->mode == WIRE_MODE_RUNNING) {
		now = not_before(note->since_ns, now);
		note->sums.untold_ns += now - note->since_ns;
	} else if (!note->sums.since_ns) {
		first_seen(note, next, now);
	}
	note->standing = standing;
	note->since_ns = now;
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	struct cpu_note *own = own_note();
	__u64 clock = compat_runqueue_clock(own->runqueue, prev), now = switch_now(own, prev, clock);
	struct note *note = note_of(prev, IN_PLACE);

	if (note) {
		__u32 state = has_prev_state_argument ? (__u32)ctx[3] : compat_task_state(prev);
		/* Preempted on its way to sleep: it stays on the run queue. */
		if ((__u8)ctx[0])
			state = 0;
		leave_cpu(note, prev, state & 0xffff, now);
		if (unlikely(state & TASK_DEAD) && notes_in_hash) {
			__u32 tid = prev->pid;
			bpf_map_delete_elem(&notes_by_tid, &tid);
		}
	}
	note = note_of(next, IN_PLACE);
	if (note)
		enter_cpu(note, next, prev, clock, now);
	return 0;
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

/*
 * The time by the run queue of the CPU that wakes, if the switch in may date this wake-up, so that no clock is read
 * here; else 0. What a busy CPU's run queue last read is at most the truth, and mostly little less; an idle CPU's is as
 * old as its sleep. So a wait that may be short is short, or as long as somebody ran without a tick, or nobody ran: then
 * who woke is noted all the same. Not so: a thread whose waits are all told; one that is throttled; and one that was
 * moved to another run queue in its sleep, and was dated there (delayed dequeue, since 6.12).
 */
static __always_inline __u64 now_if_dated_later(const struct note *note, const struct task_struct *task,
						const struct cpu_note *own)
{
	__u64 clock, now;

	if (unlikely(!own->runqueue || compat_last_queued(task)))
		return 0;
	clock = compat_runqueue_clock(own->runqueue, 0);
	now = clock + own->ahead_ns;
	return clock && now < note->since_ns + control.threshold_ns / 2 ? now : 0;
}

/* Who wakes, for `read_waker`: the address alone, and the disk that completed here lately, if one did. */
static __always_inline void note_waker(struct note *note, const struct cpu_note *own, __u64 now)
{
	__u64 waker = compat_running(own->runqueue);
	__u32 flags = note->flags & ~NOTE_FLAGS_OWN;

	if (own->completion_ns + COMPLETION_NS_MAX > now) {
		flags |= NOTE_AFTER_COMPLETION;
		note->completion_ns_low = own->completion_ns;
		if (note->wake_disk != own->completion_dev)
			note->wake_disk = own->completion_dev;
	}
	note->waker_task = waker;
	note->flags = flags | NOTE_WAKER_UNREAD | wake_context(own->runqueue, waker) << NOTE_CONTEXT_SHIFT;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct note *note = note_of(task, NEVER), *mine;
	struct task_struct *current;
	struct cpu_note *own;
	__u32 context;
	__u64 now;

	if (unlikely(!note || note->mode != WIRE_MODE_BLOCKED || note->wake_ns))
		return 0;
	own = own_note();
	if (unlikely(throttling) && compat_task_throttled(task)) {
		note->flags |= WIRE_FLAG_THROTTLED;
	} else if (likely(note->dating)) {
		now = now_if_dated_later(note, task, own);
		if (likely(now)) {
			note_waker(note, own, now);
			return 0;
		}
	}
	note->dating = DATED;
	now = not_before(note->since_ns, bpf_ktime_get_ns());
	note->wake_ns = now;
	if (interval(note->since_ns, now) < threshold_of(note) / 2)
		return 0;
	/* From here on the wait is long: who ended it is worth its price. */
	current = compat_current();
	context = wake_context(own->runqueue ? own->runqueue : compat_runqueue(current), (__u64)current);
	note->flags = (note->flags & ~NOTE_FLAGS_OWN) | context << NOTE_CONTEXT_SHIFT;
	fill_ref(&note->waker, current);
	if (task_field(current, flags) & PF_KTHREAD)
		note->flags |= WIRE_FLAG_WAKER_KERNEL;
	note->wake_disk = now - own->completion_ns < COMPLETION_NS_MAX ? own->completion_dev : 0;
	if (note->traced && control.follow_wakers && context == WIRE_CONTEXT_TASK &&
	    task_field(current, tgid) != control.own_tgid) {
		mine = note_of(current, IN_PLACE);
		if (mine && !mine->traced) {
			mine->traced = 2;
			if (mine->mode == WIRE_MODE_UNKNOWN) {
				first_seen(mine, current, now);
				mine->since_ns = now;
				mine->mode = WIRE_MODE_RUNNING;
			}
		}
	}
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(task_newtask, struct task_struct *task, __u64 clone_flags)
{
	struct task_struct *current = compat_current();
	struct note *mine = note_of(current, NEVER), *note = note_of(task, ANYWHERE);
	struct wire_fork fork = {};

	if (note) {
		*note = no_note;
		note->sums.since_ns = bpf_ktime_get_ns();
		note->since_ns = note->sums.since_ns;
		note->mode = WIRE_MODE_RUNNABLE;
		if (mine && mine->traced == 1)
			note->traced = 1;
	}
	fork.head.kind = WIRE_FORK;
	fork.head.length = sizeof(fork);
	fork.head.at_ns = bpf_ktime_get_ns();
	fill_ref(&fork.parent, current);
	fill_ref(&fork.child, task);
	fork.flags = clone_flags;
	send(&fork, sizeof(fork));
	/* What is short-lived must be read soon; the reader's own threads need not. */
	if (fork.parent.tgid != control.own_tgid)
		call_reader();
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task, __s32 old_pid, struct linux_binprm *binary)
{
	struct wire_exec exec = {};
	struct slot *slot;
	struct note *note;
	long bytes;

	/* A thread that was not the first of its process has become it: its id is another now. */
	if (!notes_in_hash && old_pid != task->pid) {
		slot = slot_at(old_pid);
		note = note_of(task, ANYWHERE);
		if (note && note != &slot->note && slot->task == (__u64)task) {
			*note = slot->note;
			slot->task = 0;
			slot->claims = 0;
		}
	}

	exec.head.kind = WIRE_EXEC;
	exec.head.length = sizeof(exec);
	exec.head.at_ns = bpf_ktime_get_ns();
	fill_ref(&exec.thread, task);
	bytes = bpf_probe_read_kernel_str(exec.path, sizeof(exec.path), BPF_CORE_READ(binary, filename));
	exec.path_bytes = bytes > 0 ? bytes : 0;
	send(&exec, sizeof(exec));
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	struct note *note = note_of(task, NEVER);
	struct wire_exit exit = {};
	__u64 now = bpf_ktime_get_ns();

	exit.head.kind = WIRE_EXIT;
	exit.head.length = sizeof(exit);
	exit.head.at_ns = now;
	fill_ref(&exit.thread, task);
	exit.last = task->pid == task->tgid;
	exit.cpu_cgroup_id = subsystem_cgroup_id(task, cpu_cgrp_id);
	exit.cgroup_id = unified_cgroup_id(task);
	exit.flags = task->flags & PF_KTHREAD ? WIRE_FLAG_KERNEL : 0;
	if (note) {
		tell_sums(&exit.sums, note, task, compat_run_delay(task));
		if (note->mode == WIRE_MODE_RUNNING) {
			exit.ran_since_ns = note->since_ns;
			exit.sums.run_ns += interval(note->since_ns, now);
		}
		exit.flags |= note->traced ? WIRE_FLAG_TRACED : 0;
	}
	send(&exit, sizeof(exit));
	return 0;
}

/* Nobody looks for this thread's note any more. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(sched_process_free, struct task_struct *task)
{
	struct slot *slot;

	if (notes_in_hash)
		return 0;
	slot = slot_at(task->pid);
	if (slot->task == (__u64)task) {
		slot->task = 0;
		barrier();
		slot->claims = 0;
	}
	return 0;
}

/* SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU and SIGCONT: who stopped whom. */
SEC("tp_btf/signal_generate")
int BPF_PROG(signal_generate, int signal, struct kernel_siginfo *info, struct task_struct *task)
{
	struct wire_signal record = {};

	if (signal < 18 || signal > 22)
		return 0;
	record.head.kind = WIRE_SIGNAL;
	record.head.length = sizeof(record);
	record.head.at_ns = bpf_ktime_get_ns();
	fill_ref(&record.from, compat_current());
	fill_ref(&record.to, task);
	record.signal = signal;
	send(&record, sizeof(record));
	return 0;
}

/* Refused system calls of traced threads. Attached for `run` only: it makes every system call slower. */
SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	struct task_struct *current = compat_current();
	struct wire_denied denied = {};
	const struct cred *cred;
	struct wire_place place = {};
	struct note *note;

	if (result != -1 && result != -13)
		return 0;
	note = note_of(current, NEVER);
	if (!note || note->traced != 1)
		return 0;
	read_syscall(&place, regs);
	denied.head.kind = WIRE_DENIED;
	denied.head.length = sizeof(denied);
	denied.head.at_ns = bpf_ktime_get_ns();
	fill_ref(&denied.thread, current);
	denied.syscall = place.syscall;
	__builtin_memcpy(denied.args, place.args, sizeof(denied.args));
	denied.result = result;
	/* One 64-bit word, as two halves before 6.3; the caller is often gone before /proc can tell. */
	cred = BPF_CORE_READ(current, cred);
	bpf_core_read(&denied.capabilities, sizeof(denied.capabilities), &cred->cap_effective);
	send(&denied, sizeof(denied));
	return 0;
}
