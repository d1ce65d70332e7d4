/*
 * lock.bpf.c: a thread is about to wait for a file lock or lease.
 *
 * Only the kernel's lock table names the holder, and only as long as the lock is held; reading it is expensive. So user
 * space is woken when the wait begins, not when it is reported at its end. Locks on other hosts (NFS) pass through none of
 * these tracepoints and are recognised by their stacks. Must not: report waits (the scheduler's events do).
 *
 * Edit together: src/files/locks.rs (reads the table then).
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
