/*
 * contention.bpf.h: which sleeping lock of the kernel a thread waits for, who has it, and what it guards.
 *
 * The lock's own tracepoints say that a thread is about to sleep for it, and that it has it. In between its address and
 * its owner stand in a table; nothing is sent, and a wait that is not long costs no more than that. Who the owner is and
 * what the lock guards is read when a wait is reported: the lock cannot go away while somebody sleeps on it.
 * A lock has no name. It is taken for part of a struct only if that struct points back to where it would have to lie.
 *
 * The stacks of waits do not show it: functions that schedule are left out of them.
 * Written by whom: an entry by the thread itself, without a lock. Two threads whose numbers share one may write it at once;
 * its sum then fits neither, and it counts as empty: a lock is forgotten, never mistaken.
 * Must not: write anything for a spin lock; its end looks into one entry, as that tracepoint has no flags. Rejected: a map by
 * thread (a helper call for each contended mutex); the kernel's own record of it alone (`blocker`, since 6.16, and not of
 * every lock); the address of the task in the sum (the verifier allows no arithmetic on it).
 */
#ifndef HOLDUP_CONTENTION_H
#define HOLDUP_CONTENTION_H

/* LCB_F_* of include/trace/events/lock.h. */
#define CONTENTION_SPIN 0x1
#define CONTENTION_READ 0x2
#define CONTENTION_WRITE 0x4
#define CONTENTION_RT 0x8
#define CONTENTION_PERCPU 0x10
#define CONTENTION_MUTEX 0x20
/* Not the kernel's: a semaphore, of which the tracepoint says nothing. */
#define CONTENTION_NONE 0

/* Kinds of `blocker` (BLOCKER_TYPE_*). */
#define BLOCKER_MUTEX 0
#define BLOCKER_SEMAPHORE 1
#define BLOCKER_READER 2
#define BLOCKER_WRITER 3

/* Low bits of an owner are flags: of a mutex that somebody waits, of an rw_semaphore that its owner reads. */
#define OWNER_FLAGS 7ULL
#define OWNER_READS 1ULL

struct contended {
	__u64 sum; /* exclusive or of whose it is (contended_by) and all below; 0: nobody's */
	__u64 lock;
	__u64 owner; /* as it stands in the lock */
	__u64 flags;
};
#define CONTENDED_SLOTS 4096
static struct contended contended_slots[CONTENDED_SLOTS] SEC(".bss.contended");

static __always_inline struct contended *contended_at(__u32 tid)
{
	return &contended_slots[tid & (CONTENDED_SLOTS - 1)];
}

static __always_inline __u64 contended_by(__u32 tid, __u64 start_time)
{
	return start_time ^ (__u64)tid << 32;
}

static __always_inline __u64 contended_sum(__u64 by, const struct contended *entry)
{
	return by ^ entry->lock ^ entry->owner ^ entry->flags;
}

/* 0 of a lock that keeps none. */
static __always_inline __u64 owner_of_lock(__u64 lock, __u32 flags)
{
	if (flags == CONTENTION_MUTEX) {
		struct mutex *mutex = (struct mutex *)lock;
		if (bpf_core_field_exists(mutex->owner))
			return BPF_CORE_READ(mutex, owner.counter);
	}
	if (flags == CONTENTION_READ || flags == CONTENTION_WRITE) {
		struct rw_semaphore *semaphore = (struct rw_semaphore *)lock;
		if (bpf_core_field_exists(semaphore->owner))
			return BPF_CORE_READ(semaphore, owner.counter);
	}
	return 0;
}

/*
 * The owner may have ended since, and its memory be another's: what is read must fit together. Of several readers the one
 * that came last is written there, and taken out again when it goes only by kernels that keep a `blocker`.
 */
static __always_inline void read_owner(struct wire_lock *out, __u64 owner, __u32 flags, __u64 now)
{
	struct task_struct *task = (struct task_struct *)(owner & ~OWNER_FLAGS);
	__u32 tgid = task ? BPF_CORE_READ(task, tgid) : 0;

	out->owner_reads = flags != CONTENTION_MUTEX && (owner & OWNER_READS);
	if (!tgid || (out->owner_reads && !compat_keeps_blocker()) || BPF_CORE_READ(task, group_leader, pid) != tgid ||
	    BPF_CORE_READ(task, start_time) > now)
		return;
	out->owner.tid = BPF_CORE_READ(task, pid);
	out->owner.tgid = tgid;
	out->owner.start_ns = BPF_CORE_READ(task, start_time);
	bpf_core_read(out->owner.comm, sizeof(out->owner.comm), &task->comm);
}

/* The inode as the place's object; gives bytes of path. */
static __always_inline __u32 read_locked_inode(struct wire_place *place, char *path, struct inode *inode)
{
	__builtin_memset(&place->object, 0, sizeof(place->object));
	read_inode_object(&place->object, inode);
	return read_inode_path(path, inode);
}

/* Gives bytes of path if the lock is an inode's, and `path_bytes` else. */
static __always_inline __u32 read_guarded(struct wire_lock *out, struct wire_place *place, char *path, __u32 path_bytes)
{
	struct inode *inode = (void *)out->address - bpf_core_field_offset(struct inode, i_rwsem);
	struct mm_struct *mm = (void *)out->address - bpf_core_field_offset(struct mm_struct, mmap_lock);
	struct super_block *sb = (void *)out->address - bpf_core_field_offset(struct super_block, s_umount);
	struct address_space *mapping =
		(void *)out->address - bpf_core_field_offset(struct address_space, i_mmap_rwsem);
	struct task_struct *owner;

	if (BPF_CORE_READ(inode, i_data.host) == inode) {
		out->guards = (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFDIR ? WIRE_LOCK_DIRECTORY : WIRE_LOCK_INODE;
		return read_locked_inode(place, path, inode);
	}
	if (bpf_core_field_exists(mm->owner)) {
		owner = BPF_CORE_READ(mm, owner);
		if (owner && BPF_CORE_READ(owner, mm) == mm) {
			out->guards = WIRE_LOCK_MEMORY;
			out->process.tid = BPF_CORE_READ(owner, pid);
			out->process.tgid = BPF_CORE_READ(owner, tgid);
			out->process.start_ns = BPF_CORE_READ(owner, start_time);
			bpf_core_read(out->process.comm, sizeof(out->process.comm), &owner->comm);
			return path_bytes;
		}
	}
	if (BPF_CORE_READ(sb, s_root, d_sb) == sb) {
		out->guards = WIRE_LOCK_FILE_SYSTEM;
		out->dev = BPF_CORE_READ(sb, s_dev);
		return path_bytes;
	}
	inode = BPF_CORE_READ(mapping, host);
	if (inode && (void *)inode + bpf_core_field_offset(struct inode, i_data) == (void *)mapping) {
		out->guards = WIRE_LOCK_MAPPING;
		return read_locked_inode(place, path, inode);
	}
	return path_bytes;
}

/* Whether this kernel's structs are as they are read above. */
static __always_inline bool knows_guarded(void)
{
	return bpf_core_field_exists(((struct inode *)0)->i_rwsem) &&
	       bpf_core_field_exists(((struct mm_struct *)0)->mmap_lock) &&
	       bpf_core_field_exists(((struct super_block *)0)->s_umount) &&
	       bpf_core_field_exists(((struct address_space *)0)->i_mmap_rwsem);
}

/*
 * Fills which lock a thread waits for, if it does, and then gives the bytes of its object's path, or else `path_bytes`. For
 * the body of a global function, as read_object().
 */
static __always_inline __u32 read_lock(struct wire_lock *out, struct wire_place *place, char *path, __u32 path_bytes,
				       __u64 task_address, bool stands)
{
	struct task_struct *task = (struct task_struct *)task_address;
	__u32 tid = BPF_CORE_READ(task, pid);
	__u64 by = contended_by(tid, BPF_CORE_READ(task, start_time));
	__u64 blocker, owner, now = bpf_ktime_get_ns();
	struct contended seen;

	__builtin_memset(out, 0, sizeof(*out));
	if (!(place->state & TASK_UNINTERRUPTIBLE))
		return path_bytes;
	/* One look at it: it may change meanwhile. */
	bpf_probe_read_kernel(&seen, sizeof(seen), contended_at(tid));
	if (seen.sum && seen.sum == contended_sum(by, &seen)) {
		out->address = seen.lock;
		out->flags = seen.flags;
		owner = seen.owner;
	} else {
		/* Since before the look, or where the tracepoints are not to be had. */
		blocker = compat_blocker(task);
		if (!blocker)
			return path_bytes;
		out->address = blocker & ~3ULL;
		switch (blocker & 3) {
		case BLOCKER_MUTEX:
			out->flags = CONTENTION_MUTEX;
			break;
		case BLOCKER_READER:
			out->flags = CONTENTION_READ;
			break;
		case BLOCKER_WRITER:
			out->flags = CONTENTION_WRITE;
			break;
		default:
			out->flags = CONTENTION_NONE;
		}
		owner = 0;
		stands = true;
	}
	if (stands)
		owner = owner_of_lock(out->address, out->flags);
	read_owner(out, owner, out->flags, now);
	if (knows_guarded() && (out->flags == CONTENTION_READ || out->flags == CONTENTION_WRITE))
		return read_guarded(out, place, path, path_bytes);
	return path_bytes;
}

#endif
