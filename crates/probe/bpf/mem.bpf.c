/*
 * mem.bpf.c: time in reclaim, pauses at the dirty limit, kills for want of memory.
 *
 * Each is rare and has its own begin and end, so it is summed by thread in a map and read once, at the window's end.
 * Written by whom: the begin of a reclaim by the reclaiming thread in its own state; a sum by the thread in its key.
 */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_reclaim_key);
	__type(value, struct wire_reclaim);
} reclaims SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wire_dirty_key);
	__type(value, struct wire_dirty);
} dirty_pauses SEC(".maps");

const struct wire_reclaim no_reclaim = {};
const struct wire_dirty no_dirty = {};

static __always_inline int reclaim_begin(void)
{
	struct thread_state *thread = thread_state_of(compat_current(), ANYWHERE);

	if (thread)
		thread->reclaim_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int reclaim_end(__u32 memcg, __u64 pages)
{
	struct task_struct *current = compat_current();
	struct wire_reclaim_key key = { .tid = task_field(current, pid), .memcg = memcg };
	struct thread_state *thread = thread_state_of(current, NEVER);
	struct wire_reclaim *sum;

	if (!thread || !thread->reclaim_ns)
		return 0;
	sum = bpf_map_lookup_elem(&reclaims, &key);
	if (!sum) {
		bpf_map_update_elem(&reclaims, &key, &no_reclaim, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&reclaims, &key);
	}
	if (sum) {
		if (!sum->count) {
			fill_ref(&sum->thread, current);
			sum->cgroup_id = subsystem_cgroup_id(current, memory_cgrp_id);
		}
		sum->count++;
		sum->total_ns += interval(thread->reclaim_ns, bpf_ktime_get_ns());
		sum->pages += pages;
	}
	thread->reclaim_ns = 0;
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(direct_reclaim_begin)
{
	return reclaim_begin();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(direct_reclaim_end, unsigned long pages)
{
	return reclaim_end(0, pages);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(memcg_reclaim_begin)
{
	return reclaim_begin();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(memcg_reclaim_end, unsigned long pages)
{
	return reclaim_end(1, pages);
}

SEC("tp_btf/balance_dirty_pages")
int balance_dirty_pages(__u64 *ctx)
{
	/* wb, dtc (6.11; five counters before), dirty_ratelimit, task_ratelimit, dirtied, period, pause, start */
	struct bdi_writeback *wb = (struct bdi_writeback *)ctx[0];
	struct task_struct *current = compat_current();
	struct wire_dirty_key key = {};
	struct wire_dirty *sum;
	long pause;
	__u64 task_ratelimit, dirtied;
	struct backing_dev_info *bdi = BPF_CORE_READ(wb, bdi);

	if (dirty_pause_index == 6) {
		pause = (long)context_word(ctx, 6);
		task_ratelimit = context_word(ctx, 3);
		dirtied = context_word(ctx, 4);
	} else {
		pause = (long)context_word(ctx, 10);
		task_ratelimit = context_word(ctx, 7);
		dirtied = context_word(ctx, 8);
	}
	key.tid = task_field(current, pid);
	bpf_core_read_str(key.bdi, sizeof(key.bdi), &bdi->dev_name);
	sum = bpf_map_lookup_elem(&dirty_pauses, &key);
	if (!sum) {
		bpf_map_update_elem(&dirty_pauses, &key, &no_dirty, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&dirty_pauses, &key);
	}
	if (!sum)
		return 0;
	if (!sum->count)
		fill_ref(&sum->thread, current);
	sum->count++;
	if (pause > 0)
		sum->pause_ns += (__u64)pause * nanoseconds_per_jiffy;
	sum->task_ratelimit_pages = task_ratelimit;
	sum->dirtied_pages += dirtied;
	return 0;
}

SEC("tp_btf/mark_victim")
int mark_victim(__u64 *ctx)
{
	struct wire_oom out = {};
	struct task_struct *task = compat_current();

	out.head.kind = WIRE_OOM;
	out.head.length = sizeof(out);
	out.head.at_ns = bpf_ktime_get_ns();
	if (victim_is_task) {
		task = (struct task_struct *)context_word(ctx, 0);
		fill_ref(&out.victim, task);
		out.private_pages = BPF_CORE_READ(task, mm, data_vm);
	} else {
		/* Who asked for the memory stands for the group; the reader finds the name. */
		out.victim.tid = out.victim.tgid = (__u32)context_word(ctx, 0);
	}
	out.memory_cgroup_id = subsystem_cgroup_id(task, memory_cgrp_id);
	send(&out, sizeof(out));
	return 0;
}
