/*
 * thread_state.bpf.h: the state of each thread (`struct thread_state`), where it is kept, and when it may be created.
 *
 * A thread is UNKNOWN until it is first seen; then RUNNING, RUNNABLE or BLOCKED (`mode`). Transitions:
 *   switch out      RUNNING -> BLOCKED (it sleeps) or RUNNABLE (preempted, throttled)
 *   wake-up         BLOCKED stays BLOCKED; the moment and the waker are recorded
 *   switch in       BLOCKED or RUNNABLE -> RUNNING; the wait ends here
 *   fork, iterator  UNKNOWN -> RUNNABLE, or what the thread is in
 *
 * Where: in `slots`, an array by thread id, one comparison away, four cache lines a thread. A thread whose slot belongs
 * to another has its state in task storage; kernels that cannot have that use a hash by thread id.
 * Written by whom: lines one to three by the CPU that switches the thread; the fourth (`struct wake`) by the CPU that
 * wakes it.
 * A waker writes to the first three only on the slow path, when the thread is BLOCKED, so that no switch races with it.
 * Memory order: leave_cpu() writes `standing` last, behind a compiler barrier. On x86 stores become visible in that
 * order; another CPU that sees the thread blocked sees the rest of it too. `claims` is 1 while a slot is owned; of two
 * that claim at the same time both may read 2, and then neither owns it.
 *
 * Must not: know what the state is for; sched.bpf.c decides. Rejected: task storage for all (a call each, twice a
 * switch).
 * Edit together: sched.bpf.c, wake.bpf.c, iter.bpf.c, src/fitting.rs (chooses the place, and tests who may create it).
 */
#ifndef HOLDUP_THREAD_STATE_H
#define HOLDUP_THREAD_STATE_H

#include "common.bpf.h"

/* Beside WIRE_FLAG_*, never reported. */
#define THREAD_WAKER_UNREAD (1U << 31)
#define THREAD_AFTER_COMPLETION (1U << 30) /* a disk may have woken it: `wake_disk`, by the date of the completion */
#define WAKE_DATED (1U << 27) /* in a `struct wake` alone: `at_ns` is exact */
#define THREAD_CONTEXT_SHIFT 28 /* WIRE_CONTEXT_* of the waker */
#define THREAD_FLAGS_OWN (~0U << THREAD_CONTEXT_SHIFT)

/* How the parts of the wait that a thread is in, or of the last one, are distinguished. */
enum mode_begin {
	DATED, /* the wake-up is dated, now or at the switch in: the sums have each part */
	UNDATED, /* all of it counts as asleep, and what of it was for a CPU is found in the thread's run_delay at the end */
	UNDATED_DISK, /* uninterruptible or for I/O: likewise, but found when the thread leaves the CPU again */
};

/* `mode` and `begin` are read as one. */
#define STANDING(mode, begin) ((mode) | (begin) << 8)

/*
 * What is added up of a thread since it was first seen. The rest the kernel counts: of what it counts, `_seen` is what it
 * had counted by then. Nobody adds to the time on a CPU: it is what is left of the time (see `fill_sums`).
 */
struct sums {
	__u64 since_ns; /* first seen */
	__u64 sleep_ns; /* with what UNDATED waits waited for a CPU */
	__u64 runnable_ns; /* without that */
	__u64 disk_sleep_ns;
	__u64 iowait_ns;
	__u64 throttled_ns;
	__u64 unreported_ns; /* between a switch and the one that the kernel did not tell */
	__u64 delay_ns_seen; /* its run_delay, with that of waits which are in `runnable_ns` */
	__u32 voluntary_seen; /* lower halves of the counts of its switches */
	__u32 involuntary_seen;
};

/*
 * Kept per thread. In `slots` who it is and where it stands are one cache line, what is added up the next, the rest the
 * third; no other CPU writes to them but in rare cases. `since_ns` is when the present mode began. `waker` and
 * `wake_disk` mean something only if the waker's context is known, and instead of them only `waker_task` while `flags`
 * say so.
 */
struct thread_state {
	__u64 since_ns;
	__u64 ran_since_ns; /* on the CPU since, before it left */
	__u64 wake_ns;
	__u64 delay_ns; /* its run_delay when it left */
	union {
		struct {
			__u8 mode;
			__u8 begin;
		};
		__u16 standing;
	};
	__u8 is_reported; /* a wait of its was reported, and the reader called to read who it is */
	__u8 traced;
	__u16 state;
	__u16 cpu;
	__u32 flags;
	__u32 wake_disk;
	__u64 waker_task; /* address of its task_struct */
	struct sums sums;
	struct wire_ref waker;
	__u64 reclaim_ns;
	__u32 disk; /* of the last bio submitted */
	__u32 disk_switches; /* lower half of nvcsw then: how often it had gone to sleep */
};

/* Of the last wake-up of a thread that has a place in `slots`; but for whose it is, only who wakes writes to it (wake.bpf.c). */
struct wake {
	__u64 task; /* whose it is; 0: the state is to be reported */
	__u64 at_ns; /* exactly, or not before */
	__u64 completion_ns; /* of `disk` */
	__u32 flags; /* of the state: the waker's */
	__u32 disk;
	union {
		__u64 waker_task; /* address of its task_struct, while `flags` say that it is unread */
		struct wire_ref waker;
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} thread_states SEC(".maps");

/*
 * Where most states are: found by thread id in one variable, without a call or a look into a map, while task storage
 * takes several. A thread whose place is taken by another has its state in task storage. `claims` is 1 while the place
 * is somebody's: of two that claim at once both may read 2, and then nobody has it. Four cache lines each.
 */
struct slot {
	__u64 task; /* address of its task_struct; 0: nobody's */
	struct thread_state thread;
	__u64 claims;
	struct wake wake;
};
_Static_assert(__builtin_offsetof(struct slot, thread.sums) == 64, "who it is and where it stands: one cache line");
_Static_assert(__builtin_offsetof(struct slot, wake) == 192, "what a wake-up writes: the fourth cache line");
_Static_assert(sizeof(struct slot) == 256, "four cache lines");
#define SLOTS 16384
static struct slot slots[SLOTS] SEC(".bss.slots");

/* In place of both, by thread id, where `thread_states_in_hash`; only what is used is ever created. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct thread_state);
} thread_states_by_tid SEC(".maps");

const struct thread_state no_thread_state = {};

static __always_inline __u32 context_of(const struct thread_state *thread)
{
	return thread->flags >> THREAD_CONTEXT_SHIFT & 3;
}

/* The disk that it submitted to last, and how often it has gone to sleep since: what it waits for now may be another thing. */
static __always_inline void read_disk(struct wire_place *place, const struct thread_state *thread, __u64 switches)
{
	__u32 since = (__u32)switches - thread->disk_switches;

	place->disk = thread->disk;
	place->disk_sleeps = since < 0xffff ? since : 0xffff;
}

/*
 * What may be done for a thread without a state. IN_PLACE takes its place of the array, and no memory: before 6.4 task
 * storage came from kmalloc, which may wake kswapd, and to be woken takes the locks that the scheduler holds around its
 * tracepoints. A thread whose place is taken is met without those locks, when it is born or by the walk of all threads.
 */
enum making { NEVER, IN_PLACE, ANYWHERE };

static __always_inline struct thread_state *thread_state_by_tid(struct task_struct *task, enum making make)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct thread_state *thread;

	if (!tid)
		return 0;
	thread = bpf_map_lookup_elem(&thread_states_by_tid, &tid);
	if (thread || make == NEVER)
		return thread;
	bpf_map_update_elem(&thread_states_by_tid, &tid, &no_thread_state, BPF_NOEXIST);
	return bpf_map_lookup_elem(&thread_states_by_tid, &tid);
}

static __always_inline struct slot *slot_at(__u32 tid)
{
	return &slots[tid & (SLOTS - 1)];
}

static __always_inline void forget_wake(struct wake *wake)
{
	wake->at_ns = 0;
	wake->flags = 0;
}

static __always_inline bool claim(struct slot *slot, struct task_struct *task)
{
	volatile __u64 *claims = &slot->claims;

	if (*claims)
		return false;
	__sync_fetch_and_add(&slot->claims, 1);
	if (*claims != 1)
		return false;
	slot->thread = no_thread_state;
	forget_wake(&slot->wake);
	barrier();
	slot->task = (__u64)task;
	if (dates_later)
		slot->wake.task = (__u64)task;
	return true;
}

/* Nobody has this place any more. */
static __always_inline void leave_place(struct slot *slot)
{
	slot->wake.task = 0;
	slot->task = 0;
	barrier();
	slot->claims = 0;
}

/* All its waits are reported, and who ended them exactly. */
static __always_inline void trace(struct thread_state *thread, const struct task_struct *task, __u8 why)
{
	struct slot *slot = slot_at(task_field(task, pid));

	thread->traced = why;
	if (slot->wake.task == (__u64)task)
		slot->wake.task = 0;
}

/* Of a thread whose place of the array is another's, or nobody's yet. */
static __always_inline struct thread_state *thread_state_elsewhere(struct slot *slot, struct task_struct *task, enum making make)
{
	struct thread_state *thread;

	if (!task_field(task, pid))
		return 0;
	thread = bpf_task_storage_get(&thread_states, task, 0, 0);
	if (thread || make == NEVER)
		return thread;
	if (claim(slot, task))
		return &slot->thread;
	if (make == IN_PLACE)
		return 0;
	return bpf_task_storage_get(&thread_states, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* An idle CPU's thread, of which each has the id 0, has none. */
static __always_inline struct thread_state *thread_state_of(struct task_struct *task, enum making make)
{
	struct slot *slot;

	slot = slot_at(task_field(task, pid));
	if (likely(slot->task == (__u64)task))
		return &slot->thread;
	if (thread_states_in_hash)
		return thread_state_by_tid(task, make);
	return thread_state_elsewhere(slot, task, make);
}

#endif
