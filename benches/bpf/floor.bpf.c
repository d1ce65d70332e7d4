/*
 * floor.bpf.c: what any tool pays that looks at each switch and each wake-up, and what each single
 * thing costs that a program may do there.
 *
 * The floor is an empty pair. Each `with_` program does one thing more than the empty one, so that the
 * difference of their BPF statistics is the price of that thing. They must stay that small; what holdup
 * itself does is measured on holdup itself. Constants are those of holdup's own programs. Edit together:
 * src/kernel.rs, src/counted.rs.
 */
#include "../../crates/probe/bpf/kernel.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} one SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} by_task SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} in_task SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

__u64 word;

SEC("tp_btf/sched_switch")
int floor_switch(__u64 *ctx)
{
	return 0;
}

SEC("tp_btf/sched_waking")
int floor_waking(__u64 *ctx)
{
	return 0;
}

/* On a tracepoint that a thread can pass without doing anything else. */
SEC("tp_btf/task_rename")
int floor_rename(__u64 *ctx)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int with_clock(__u64 *ctx)
{
	word = bpf_ktime_get_ns();
	return 0;
}

/* The clock that the scheduler has just read, found from the task that leaves. */
SEC("tp_btf/sched_switch")
int with_runqueue_clock(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[1];

	word = task->se.cfs_rq->rq->clock;
	return 0;
}

SEC("tp_btf/sched_switch")
int with_array(__u64 *ctx)
{
	__u32 zero = 0;
	__u64 *value = bpf_map_lookup_elem(&one, &zero);

	if (value)
		*value += 1;
	return 0;
}

SEC("tp_btf/sched_switch")
int with_hash(__u64 *ctx)
{
	__u64 key = ctx[2], first = 1;
	__u64 *value = bpf_map_lookup_elem(&by_task, &key);

	if (value)
		*value += 1;
	else
		bpf_map_update_elem(&by_task, &key, &first, BPF_NOEXIST);
	return 0;
}

SEC("tp_btf/sched_switch")
int with_storage(__u64 *ctx)
{
	__u64 *value = bpf_task_storage_get(&in_task, (void *)ctx[2], 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (value)
		*value += 1;
	return 0;
}

/* Reserved and thrown away: the price of the ring's lock without a reader's. */
SEC("tp_btf/sched_switch")
int with_ring(__u64 *ctx)
{
	__u64 *record = bpf_ringbuf_reserve(&ring, 256, 0);

	if (!record)
		return 0;
	record[0] = 1;
	bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
