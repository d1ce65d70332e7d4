/*
 * lock.bpf.c: a thread is about to wait for a file lock or lease, or for a sleeping lock of the kernel.
 *
 * Only the kernel's lock table names the holder, and only as long as the lock is held; reading it is expensive. So user
 * space is woken when the wait begins, not when it is reported at its end. Locks on other hosts (NFS) pass through none of
 * these tracepoints and are recognised by their stacks.
 * Of a lock of the kernel it is only stored that a thread is about to sleep for it (contention.bpf.h). Must not: report waits
 * (the scheduler's events do).
 *
 * Edit together: src/readers/locks.rs (reads the table of file locks then), src/decode/lock.rs.
 */

/* What a lock was answered if whoever asks has to wait: FILE_LOCK_DEFERRED of include/linux/filelock.h. */
#define LOCK_DEFERRED 1

static __always_inline int lock_asked(__s32 answer)
{
	if (answer == LOCK_DEFERRED)
		mark(&queued.lock);
	return 0;
}

SEC("tp_btf/flock_lock_inode")
int flock_lock_inode(__u64 *ctx)
{
	return lock_asked((__s32)ctx[2]);
}

SEC("tp_btf/posix_lock_inode")
int posix_lock_inode(__u64 *ctx)
{
	return lock_asked((__s32)ctx[2]);
}

SEC("tp_btf/break_lease_block")
int break_lease_block(__u64 *ctx)
{
	mark(&queued.lock);
	return 0;
}

/* A mutex is announced twice: as one that is spun for, and before the sleep. */
SEC("tp_btf/contention_begin")
int contention_begin(__u64 *ctx)
{
	__u32 flags = (__u32)ctx[1];
	struct task_struct *task;
	struct contended own = {};
	__u32 tid;

	if (likely(flags & CONTENTION_SPIN))
		return 0;
	task = compat_current();
	tid = task_field(task, pid);
	own.lock = ctx[0];
	own.owner = owner_of_lock(ctx[0], flags);
	own.flags = flags;
	own.sum = contended_sum(contended_by(tid, task_field(task, start_time)), &own);
	*contended_at(tid) = own;
	return 0;
}

SEC("tp_btf/contention_end")
int contention_end(__u64 *ctx)
{
	struct task_struct *task = compat_current();
	__u32 tid = task_field(task, pid);
	struct contended *entry = contended_at(tid);

	if (entry->lock != ctx[0])
		return 0;
	if (entry->sum == contended_sum(contended_by(tid, task_field(task, start_time)), entry))
		entry->sum = 0;
	return 0;
}
