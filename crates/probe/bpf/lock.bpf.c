/*
 * lock.bpf.c: that somebody is about to wait for a file lock or lease.
 *
 * Who holds it only the kernel's lock table tells, and only as long as it is held; reading it is dear. So the
 * reader must hear of a wait as it begins, not when it is told at its end. Locks on other hosts (NFS) pass through
 * none of these, and are known by their stacks. Must not: tell each wait (the scheduler's events do).
 *
 * Edit together: src/files/locks.rs (who reads the table then).
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
