/*
 * sched.bpf.c: which thread runs and which waits; which begin and end.
 *
 * The state machine is in thread_state.bpf.h. sched_switch out stores when and in what state the thread left. sched_waking
 * (wake.bpf.c) stores who made it ready and from which context. sched_switch in ends the wait: it adds to the sums and, if
 * the wait was long or the thread is traced, reports it whole with stack, system call and object.
 * The stack of a blocked thread does not change, so it is taken once, at the end of the wait, from outside.
 *
 * Cost decides the shape. A switch is dated by the run queue's clock, which the scheduler has just read. A short wait adds
 * only its length: how much of it was spent ready is in the thread's run_delay (/proc/PID/schedstat), the number of
 * switches is counted by the kernel too, and the rest of the time the thread ran. That is computed when the sums are read
 * (sums.bpf.h). Where functions return slowly (mitigations) one helper costs as much as all the rest, so the fast path of
 * switch and wake-up calls none.
 * Written by whom: the state of `prev` and `next` by the CPU that switches, under its run queue's lock.
 *
 * Must not: trace system calls (each would pay), walk lists, or read user memory of another task.
 * Rejected: starting a record at switch-out (every short wait would pay for its stack).
 */

/* Short waits of a command yield to long ones before the ring overflows. */
static __always_inline bool braked(__u64 wait_ns)
{
	if (wait_ns >= control.threshold_ns ||
	    bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < 2 * ring_alarm_bytes)
		return false;
	count_lost(&lost.braked);
	return true;
}

/* Of the wait that is being built. */
__noinline __u32 object_of_wait(__u64 task, __u64 registers)
{
	struct wire_wait *wait;
	__u32 zero = 0;

	wait = bpf_map_lookup_elem(&wait_scratch, &zero);
	return wait ? read_object(&wait->place, wait->path, task, registers) : 0;
}

/* Of the same wait, and the thread is about to go on. */
__noinline __u32 lock_of_wait(__u64 task)
{
	struct wire_wait *wait;
	__u32 zero = 0;

	wait = bpf_map_lookup_elem(&wait_scratch, &zero);
	return wait ? read_lock(&wait->lock, &wait->place, wait->path, wait->path_bytes, task, false) : 0;
}

static __noinline int send_wait(struct thread_state *thread, struct task_struct *task, struct task_struct *before, __u64 now)
{
	struct wire_wait *wait;
	__u32 zero = 0, path_bytes;
	__u64 length, is_blocked, is_known;
	__u32 context;
	bool kernel, sleeping;

	wait = bpf_map_lookup_elem(&wait_scratch, &zero);
	if (!task || !thread || !wait)
		return 0;
	if (thread->flags & THREAD_WAKER_UNREAD)
		read_waker(thread, now);
	context = context_of(thread);
	kernel = task->flags & PF_KTHREAD;
	sleeping = !(thread->state & TASK_UNINTERRUPTIBLE);
	/* A kernel thread that sleeps interruptibly waits for work. */
	if (kernel && thread->mode == WIRE_MODE_BLOCKED && !thread->traced &&
	    (sleeping || (thread->state & TASK_NOLOAD)))
		return 0;

	begin_record(wait, place.frame);
	wait->head.kind = WIRE_WAIT;
	wait->head.at_ns = now;
	fill_ref(&wait->thread, task);
	/* Masks. */
	is_known = -is_any(context ^ WIRE_CONTEXT_UNKNOWN);
	is_blocked = is_any(thread->mode ^ WIRE_MODE_BLOCKED) - 1;
	for (int i = 0; i < sizeof(wait->waker) / 8; i++)
		((__u64 *)&wait->waker)[i] = ((__u64 *)&thread->waker)[i] & is_known;
	if (before)
		fill_ref(&wait->ran_before, before);
	wait->ran_since_ns = thread->ran_since_ns;
	wait->begin_ns = thread->since_ns;
	wait->wake_ns = thread->wake_ns & is_blocked;
	wait->flags = (thread->flags & ~THREAD_FLAGS_OWN) | is_any(task_field(task, flags) & PF_KTHREAD) * WIRE_FLAG_KERNEL |
		      is_any(thread->traced) * WIRE_FLAG_TRACED;
	wait->context = context;
	wait->wake_disk = thread->wake_disk & is_known;
	wait->cpu_cgroup_id = subsystem_cgroup_id(task, cpu_cgrp_id);
	wait->cgroup_id = unified_cgroup_id(task);
	wait->place.state = thread->state & is_blocked;
	read_disk(&wait->place, thread, task->nvcsw);
	wait->place.cpu = thread->cpu;
	/* Of a wait that was over before this was known, the registers tell the next one. */
	path_bytes = read_place(&wait->place, task, kernel || !before, before ? wait->wake_ns : 0, object_of_wait,
				((struct wait_slot *)wait)->numbers);
	wait->path_bytes = path_bytes;
	if (before && wait->place.state & TASK_UNINTERRUPTIBLE) {
		path_bytes = lock_of_wait(as_number(&((struct wait_slot *)wait)->numbers[0], task));
		wait->path_bytes = path_bytes;
	}
	length = __builtin_offsetof(struct wire_wait, path) + (path_bytes & (WIRE_PATH_MAX - 1));
	wait->head.length = length;
	send(wait, length);
	/* Who it is, is read while it lives. */
	if (!thread->is_reported) {
		thread->is_reported = 1;
		call_reader();
	}
	return 0;
}

/* Its length. From the two parts: a second subtraction would count a negative interval twice. */
static __always_inline __u64 add_wait(struct thread_state *thread, __u64 now)
{
	__u64 blocked = 0, runnable;

	if (thread->mode == WIRE_MODE_BLOCKED) {
		__u64 woken = thread->wake_ns ? thread->wake_ns : now;
		blocked = interval(thread->since_ns, woken);
		runnable = interval(woken, now);
	} else {
		runnable = interval(thread->since_ns, now);
	}
	thread->sums.runnable_ns += runnable;
	if (thread->flags & WIRE_FLAG_THROTTLED)
		thread->sums.throttled_ns += runnable;
	add_blocked(&thread->sums, thread, blocked);
	thread->sums.unreported_ns += now - thread->since_ns - blocked - runnable;
	return blocked + runnable;
}

/*
 * The kernel did not tell that it was put on this CPU. Once it was ready, the scheduler counted how long it waited for the
 * CPU, in its run_delay, and it ran for the rest. Since when it ran; 0: not known. Who had the CPU before is not known, nor
 * the stack of its wait.
 */
static __always_inline __u64 put_on_unreported(struct thread_state *thread, struct task_struct *task, __u64 delay_ns, __u64 now)
{
	__u64 length, since_ns = thread->mode == WIRE_MODE_BLOCKED ? thread->wake_ns : thread->since_ns;

	if (thread->begin != DATED || thread->mode == WIRE_MODE_UNKNOWN || !since_ns || now < since_ns ||
	    now - since_ns < delay_ns)
		return 0;
	since_ns += delay_ns;
	length = add_wait(thread, since_ns);
	if (length >= threshold_of(thread) && !braked(length))
		send_wait(thread, task, 0, since_ns);
	return since_ns;
}

/* Who ended a wait whose switch in was not reported, and when, as far as the wake-up has it: the sums then get each part. */
static __always_inline void date_unreported(struct thread_state *thread, const struct task_struct *task)
{
	const struct wake *wake = &slot_at(task_field(task, pid))->wake;

	if (thread->mode == WIRE_MODE_BLOCKED && !thread->wake_ns) {
		if (wake->task != (__u64)task || !take_wake(thread, wake))
			return;
		if (!thread->wake_ns)
			thread->wake_ns = wake->at_ns < thread->since_ns ? thread->since_ns : wake->at_ns;
	}
	if (thread->mode != WIRE_MODE_UNKNOWN)
		thread->begin = DATED;
}

/* What a thread did before it left the CPU, if that was not the usual. Since when it ran; 0: not known. */
static __always_inline __u64 settle(struct thread_state *thread, struct task_struct *prev, __u64 run_delay_ns, __u64 now)
{
	__u64 since_ns = thread->since_ns, delay_ns = run_delay_ns - thread->delay_ns;

	if (thread->mode == WIRE_MODE_UNKNOWN) {
		thread->wake_ns = 0;
		if (!thread->sums.since_ns)
			first_seen(thread, prev, now);
		return 0;
	}
	if (thread->mode != WIRE_MODE_RUNNING)
		date_unreported(thread, prev);
	settle_delay(&thread->sums, thread, run_delay_ns);
	if (thread->mode != WIRE_MODE_RUNNING) {
		count_lost(&lost.switches_unreported);
		since_ns = put_on_unreported(thread, prev, delay_ns, now);
		if (!since_ns)
			thread->sums.unreported_ns += now - thread->since_ns;
	}
	thread->wake_ns = 0;
	return since_ns;
}

static __always_inline void leave_cpu(struct thread_state *thread, struct task_struct *prev, const struct cfs_rq *queue, __u32 state,
				      __u64 now)
{
	__u64 since_ns = thread->since_ns, run_delay_ns = compat_run_delay(prev);
	__u32 standing = STANDING(WIRE_MODE_RUNNABLE, DATED), flags = 0;

	if (unlikely(now < since_ns)) {
		now = not_before(since_ns, now);
		thread->sums.unreported_ns += now - since_ns - interval(since_ns, now);
	}
	if (unlikely(thread->standing != STANDING(WIRE_MODE_RUNNING, UNDATED)))
		since_ns = settle(thread, prev, run_delay_ns, now);
	if (likely(state)) {
		flags = BPF_CORE_READ_BITFIELD(prev, in_iowait) * WIRE_FLAG_IOWAIT;
		standing = STANDING(WIRE_MODE_BLOCKED, DATED);
		if (dates_later && !thread->traced)
			standing += STANDING(0, (state & TASK_UNINTERRUPTIBLE) | flags ? UNDATED_DISK : UNDATED);
		if (!compat_throttles_tasks()) {
			barrier();
			if (!throttling)
				see_throttled(prev, queue);
		}
	} else if (unlikely(see_throttled(prev, queue))) {
		flags = WIRE_FLAG_THROTTLED;
	} else if (likely(dates_later && !thread->traced)) {
		standing = STANDING(WIRE_MODE_RUNNABLE, UNDATED);
	}
	thread->ran_since_ns = since_ns;
	thread->since_ns = now;
	thread->delay_ns = run_delay_ns;
	thread->state = state;
	thread->cpu = bpf_get_smp_processor_id();
	thread->flags = flags;
	/* Last: another CPU that wakes it now adds to the rest once it sees this. */
	barrier();
	thread->standing = standing;
}

/* A wait that is long, or of which the sums want more than its length. When it was over. */
static __always_inline __u64 end_wait(struct thread_state *thread, struct task_struct *next, struct task_struct *prev,
				      __u64 clock, __u64 now)
{
	__u64 length, queued_clock = compat_last_queued(next);

	now = not_before(thread->since_ns, now);
	if (thread->mode == WIRE_MODE_BLOCKED && !thread->wake_ns)
		date_wake(thread, next, queued_clock && clock ? now - interval(queued_clock, clock) : 0);
	now = not_before(thread->wake_ns, now);
	length = add_wait(thread, now);
	if (length >= threshold_of(thread) && !braked(length))
		send_wait(thread, next, prev, now);
	return now;
}

static __always_inline void enter_cpu(struct thread_state *thread, struct task_struct *next, struct task_struct *prev,
				      __u64 clock, __u64 now)
{
	/* One that is negative is the longest. */
	__u64 length = now - thread->since_ns;
	__u32 standing = STANDING(WIRE_MODE_RUNNING, DATED);

	/* Blocked, or ready, which differ by the last bit. */
	if (likely((thread->standing | 1) == STANDING(WIRE_MODE_BLOCKED, UNDATED) && length < control.threshold_ns)) {
		thread->sums.sleep_ns += length;
		standing = STANDING(WIRE_MODE_RUNNING, UNDATED);
	} else if (thread->standing == STANDING(WIRE_MODE_BLOCKED, UNDATED_DISK) && length < control.threshold_ns) {
		add_blocked(&thread->sums, thread, length);
		standing = STANDING(WIRE_MODE_RUNNING, UNDATED_DISK);
	} else if (thread->mode >= WIRE_MODE_RUNNABLE) {
		now = end_wait(thread, next, prev, clock, now);
	} else if (thread->mode == WIRE_MODE_RUNNING) {
		now = not_before(thread->since_ns, now);
		thread->sums.unreported_ns += now - thread->since_ns;
	} else if (!thread->sums.since_ns) {
		first_seen(thread, next, now);
	}
	thread->standing = standing;
	thread->since_ns = now;
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	const struct cfs_rq *queue = compat_queue(prev);
	struct cpu_state *own = own_cpu();
	__u64 clock = compat_runqueue_clock(own->runqueue, prev), now = switch_now(own, prev, clock);
	struct thread_state *thread = thread_state_of(prev, IN_PLACE);

	if (thread) {
		__u32 state = has_prev_state_argument ? (__u32)ctx[3] : compat_task_state(prev);
		/* Preempted on its way to sleep, or a signal was pending: it stays on the run queue. */
		if ((__u8)ctx[0] || (has_prev_state_argument && state && compat_is_ready(prev)))
			state = 0;
		leave_cpu(thread, prev, queue, state & 0xffff, now);
		if (unlikely(state & TASK_DEAD) && thread_states_in_hash) {
			__u32 tid = prev->pid;
			bpf_map_delete_elem(&thread_states_by_tid, &tid);
		}
	}
	thread = thread_state_of(next, IN_PLACE);
	if (thread)
		enter_cpu(thread, next, prev, clock, now);
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(task_newtask, struct task_struct *task, __u64 clone_flags)
{
	struct task_struct *current = compat_current();
	struct thread_state *mine = thread_state_of(current, NEVER), *thread = thread_state_of(task, ANYWHERE);
	struct wire_fork fork = {};

	if (thread) {
		*thread = no_thread_state;
		thread->sums.since_ns = bpf_ktime_get_ns();
		thread->since_ns = thread->sums.since_ns;
		thread->mode = WIRE_MODE_RUNNABLE;
		if (mine && mine->traced == 1)
			trace(thread, task, 1);
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

/* A thread's number in the innermost PID namespace that it is in; 0 if that is not known. At most 32 are nested. */
static __always_inline __u32 innermost_pid(const struct task_struct *task)
{
	const struct task_struct___thread_pid *of = (const void *)task;
	struct pid *pid = BPF_CORE_READ(of, thread_pid);
	__u32 level = BPF_CORE_READ((struct pid___level *)pid, level) & 31, number = 0;

	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid));
	return number;
}

/* A record with paths and words is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_exec);
} exec_scratch SEC(".maps");

/*
 * The first bytes of a program's arguments: the kernel has just written them, so they are in memory. They are the caller's
 * own memory and may be anything.
 */
static __always_inline __u32 read_words(char words[WIRE_WORDS_BYTES], struct task_struct *task)
{
	__u64 begin = BPF_CORE_READ(task, mm, arg_start), end = BPF_CORE_READ(task, mm, arg_end);
	__u64 bytes = end > begin ? end - begin : 0;

	if (bytes > WIRE_WORDS_BYTES)
		bytes = WIRE_WORDS_BYTES;
	return bytes && !bpf_probe_read_user(words, bytes, (void *)begin) ? bytes : 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task, __s32 old_pid, struct linux_binprm *binary)
{
	struct task_struct *first;
	struct slot *slot;
	struct thread_state *thread;
	struct wire_exec *exec;
	__u32 zero = 0;

	/* A thread that was not the first of its process has become it: its id is another now. */
	if (!thread_states_in_hash && old_pid != task->pid) {
		/* The former first has the thread's old id now, and nobody looks for its state here any more. */
		slot = slot_at(task->pid);
		first = (struct task_struct *)slot->task;
		if (first && first != task && BPF_CORE_READ(first, pid) == old_pid)
			leave_place(slot);
		slot = slot_at(old_pid);
		thread = thread_state_of(task, ANYWHERE);
		if (thread && thread != &slot->thread && slot->task == (__u64)task) {
			*thread = slot->thread;
			leave_place(slot);
			if (thread->traced)
				trace(thread, task, thread->traced);
		}
	}

	exec = bpf_map_lookup_elem(&exec_scratch, &zero);
	if (!exec)
		return 0;
	__builtin_memset(exec, 0, sizeof(*exec));
	exec->head.kind = WIRE_EXEC;
	exec->head.length = sizeof(*exec);
	exec->head.at_ns = bpf_ktime_get_ns();
	fill_ref(&exec->thread, task);
	bpf_probe_read_kernel_str(exec->path, sizeof(exec->path), BPF_CORE_READ(binary, filename));
	exec->inner_pid = innermost_pid(task);
	exec->words_bytes = read_words(exec->words, task);
	send(exec, sizeof(*exec));
	return 0;
}

/* SIGNAL_GROUP_EXIT and, until 5.16, SIGNAL_GROUP_COREDUMP (include/linux/sched/signal.h): it is about to be gone, and nothing that is
 * sent to it counts. */
#define SIGNAL_DYING (0x4 | 0x8)

/*
 * Whether with this thread its process ends. The first may go alone: by pthread_exit(3), or because another thread is about to exec
 * and takes its place. The count is lowered before the tracepoint, so of two that end at once both may find it 0.
 */
static __always_inline bool is_last(struct task_struct *task)
{
	bool is_first = task->pid == task->tgid;

	if (!bpf_core_field_exists(((struct signal_struct *)0)->live))
		return is_first;
	return !BPF_CORE_READ(task, signal, live.counter) ||
	       (is_first && BPF_CORE_READ(task, signal, flags) & SIGNAL_DYING);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	struct thread_state *thread = thread_state_of(task, NEVER);
	struct wire_exit exit = {};
	__u64 now = bpf_ktime_get_ns();

	exit.head.kind = WIRE_EXIT;
	exit.head.length = sizeof(exit);
	exit.head.at_ns = now;
	fill_ref(&exit.thread, task);
	exit.last = is_last(task);
	exit.parent_tgid = BPF_CORE_READ(task, real_parent, tgid);
	exit.code = task->exit_code;
	exit.executed_ns = compat_executed(task);
	exit.cpu_cgroup_id = subsystem_cgroup_id(task, cpu_cgrp_id);
	exit.cgroup_id = unified_cgroup_id(task);
	exit.flags = task->flags & PF_KTHREAD ? WIRE_FLAG_KERNEL : 0;
	if (thread) {
		fill_sums(&exit.sums, thread, task, compat_run_delay(task));
		if (thread->mode == WIRE_MODE_RUNNING) {
			exit.ran_since_ns = thread->since_ns;
			exit.sums.run_ns += interval(thread->since_ns, now);
		}
		exit.flags |= thread->traced ? WIRE_FLAG_TRACED : 0;
	}
	send(&exit, sizeof(exit));
	return 0;
}

/* Nobody looks for this thread's state any more. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(sched_process_free, struct task_struct *task)
{
	struct slot *slot;

	if (thread_states_in_hash)
		return 0;
	slot = slot_at(task->pid);
	if (slot->task == (__u64)task)
		leave_place(slot);
	return 0;
}

/* SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU and SIGCONT: who stopped whom. SIGINT, SIGQUIT, SIGTERM, SIGPWR and SIGRTMIN+3: who asked
 * whom to end. */
#define SIGNALS_SENT (0x1fULL << 18 | 1ULL << 2 | 1ULL << 3 | 1ULL << 15 | 1ULL << 30 | 1ULL << 37)
/* include/trace/events/signal.h */
#define SIGNAL_IGNORED 1

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_generate, int signal, struct kernel_siginfo *info, struct task_struct *task,
	     int group, int result)
{
	struct wire_signal record = {};

	if (signal < 0 || signal > 63 || !(SIGNALS_SENT >> signal & 1))
		return 0;
	record.head.kind = WIRE_SIGNAL;
	record.head.length = sizeof(record);
	record.head.at_ns = bpf_ktime_get_ns();
	fill_ref(&record.from, compat_current());
	fill_ref(&record.to, task);
	record.signal = signal;
	record.ignored = result == SIGNAL_IGNORED &&
			 !(BPF_CORE_READ(task, signal, flags) & SIGNAL_DYING);
	record.inner_pid = innermost_pid(task->group_leader);
	send(&record, sizeof(record));
	return 0;
}
